"""From token vectors to the outputs of a cross-encoder: each family's own head, in one table."""

from __future__ import annotations

from dataclasses import dataclass

from tamis.backends._dropout import NO_DROPOUT, Dropout
from tamis.backends._layers import Activation, Linear, Norm, activation
from tamis.backends.weights import Loaded, Tensor, misshapen, take


@dataclass(frozen=True)
class HeadNames:
    """What a family calls its head, and what its head does between two dense layers."""

    dense: str
    out: str
    activation: str | None = "tanh"
    """None where the config says."""
    norm: str | None = None
    drops_input: bool = False
    """Whether dropout comes before the first dense layer, too."""


BERT = HeadNames("bert.pooler.dense", "classifier")
ROBERTA = HeadNames("classifier.dense", "classifier.out_proj", drops_input=True)
HEADS = {
    "bert": BERT,
    **dict.fromkeys(("roberta", "xlm-roberta", "camembert"), ROBERTA),
    "distilbert": HeadNames("pre_classifier", "classifier", "relu"),
    "modernbert": HeadNames("head.dense", "classifier", None, "head.norm"),
}


@dataclass(frozen=True, eq=False)
class Head:
    """From one vector to the outputs: a dense layer, an activation, another dense layer."""

    dense: Linear
    activation: Activation
    norm: Norm | None
    out: Linear
    pooling: str = "cls"
    drops_input: bool = False

    def __call__(self, states: Tensor, dropout: Dropout = NO_DROPOUT) -> Tensor:
        if self.drops_input:
            states = dropout.states(states)
        inner = self.activation(self.dense(states))
        return self.out(dropout.states(self.norm(inner) if self.norm else inner))

    @property
    def outputs(self) -> int:
        """How many values it gives."""
        return len(self.out.weight)


def head_of(loaded: Loaded) -> Head:
    """The head of a model for sequence classification."""
    config, weights, folder = loaded.config, loaded.weights, loaded.folder
    names = HEADS[config["model_type"]]

    def linear(name: str) -> Linear:
        return Linear(take(weights, f"{name}.weight", folder), weights.get(f"{name}.bias"))

    norm = None
    if names.norm:
        norm_weight = take(weights, f"{names.norm}.weight", folder)
        norm = Norm(norm_weight, weights.get(f"{names.norm}.bias"), config.get("norm_eps", 1e-5))
    out = linear(names.out)
    labels = {config.get("num_labels"), len(config.get("id2label") or ())} - {None, 0}
    if labels and len(out.weight) not in labels:
        raise misshapen(folder, f"{names.out}.weight")
    function = names.activation or config.get("classifier_activation", "gelu")
    return Head(
        linear(names.dense),
        activation(function, folder),
        norm,
        out,
        "mean" if config.get("classifier_pooling") == "mean" else "cls",
        names.drops_input,
    )
