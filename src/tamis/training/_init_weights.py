"""Where training starts: the weights of a base under their Hugging Face names, with a head."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tamis.backends import _bert, _modernbert, _t5, fast
from tamis.backends._heads import HEADS
from tamis.backends.weights import Loaded, Tensor, Weights, take, width_of
from tamis.errors import require
from tamis.models.base_models import identify
from tamis.scorers.model_manifest import Base, ModelManifest, find_model_manifest
from tamis.training._manifests import (
    BaseFolder,
    bi_encoder_manifest,
    cross_encoder_manifest,
    outputs_of,
    target_words_manifest,
)

INIT_STD = 0.02
"""BERT's own."""
DEFAULT_DROPOUT = 0.1
"""What transformers takes where a config is silent."""
HEAD = ("classifier.", "pre_classifier.", "head.")
"""How the names of a head begin; BERT's pooler is one only where it is fresh."""
ARCHITECTURES = {
    "bert": "BertForSequenceClassification",
    "roberta": "RobertaForSequenceClassification",
    "xlm-roberta": "XLMRobertaForSequenceClassification",
    "camembert": "CamembertForSequenceClassification",
    "distilbert": "DistilBertForSequenceClassification",
    "modernbert": "ModernBertForSequenceClassification",
    "t5": "T5ForConditionalGeneration",
    "mt5": "MT5ForConditionalGeneration",
}


@dataclass(frozen=True)
class Family:
    """How the weights of an encoder lie in its model, and what its config calls what we need."""

    root: str
    parts: tuple[str, ...] = ("embeddings", "encoder")
    words: str = _bert.WORDS
    dropout: tuple[str, str, str] = (
        "hidden_dropout_prob", "attention_probs_dropout_prob", "classifier_dropout"
    )  # fmt: skip


ROBERTA = Family("roberta")
FAMILIES = {
    "bert": Family("bert"),
    **dict.fromkeys(("roberta", "xlm-roberta", "camembert"), ROBERTA),
    "distilbert": Family(
        "distilbert", ("embeddings", "transformer"),
        dropout=("dropout", "attention_dropout", "seq_classif_dropout"),
    ),
    "modernbert": Family(
        "model", ("embeddings", "layers", "final_norm"), _modernbert.WORDS,
        dropout=("mlp_dropout", "attention_dropout", "classifier_dropout"),
    ),
}  # fmt: skip


@dataclass(frozen=True)
class DropoutRates:
    """The share that dropout leaves out of states, attention weights, and before the outputs."""

    hidden: float
    attention: float
    outputs: float


@dataclass(frozen=True, eq=False)
class TrainingStart:
    """A base model, and how training starts from it."""

    root: Path
    """Its folder; the transformer may lie in one inside it."""
    loaded: Loaded
    dropout: float | None
    document_tokens: int | None
    fresh_head: bool
    random_weights: bool
    seed: int

    def rates(self, hidden: str, attention: str, outputs: str) -> DropoutRates:
        """The given dropout, or what the config says under these names."""
        if self.dropout is not None:
            return DropoutRates(self.dropout, self.dropout, self.dropout)
        config = self.loaded.config
        hidden_rate = float(config.get(hidden, DEFAULT_DROPOUT))
        output_rate = config.get(outputs)
        return DropoutRates(
            hidden_rate,
            float(config.get(attention, DEFAULT_DROPOUT)),
            hidden_rate if output_rate is None else float(output_rate),
        )

    @property
    def folder(self) -> BaseFolder:
        """The base model, by its weights."""
        loaded = self.loaded
        base = base_of(self.root, random_weights=self.random_weights)
        return BaseFolder(self.root, loaded.folder, loaded.config, loaded.tokens, base)


def base_of(root: Path, *, random_weights: bool = False) -> Base:
    """A base model by its weights; its name says so where weights are random.

    A folder that was taken in under another name is called what it was taken from.
    """
    base_model, manifest = identify(root), find_model_manifest(root)
    if manifest and manifest.base and manifest.base.sha256 == base_model.sha256:
        base_model = manifest.base
    if not random_weights:
        return base_model
    return Base(f"random weights in the shape of {base_model.name}", base_model.sha256)


@dataclass(frozen=True, eq=False)
class InitialModel:
    """All a module needs: config and weights as they will be saved, and how to use them."""

    loaded: Loaded
    manifest: ModelManifest
    rates: DropoutRates
    head_names: frozenset[str]


def init_cross_encoder(
    start: TrainingStart, outputs: int | None, max_length: int | None
) -> InitialModel:
    """A cross-encoder: the base's body and its head, or a fresh one."""
    loaded, folder = start.loaded, start.folder
    is_fresh = start.fresh_head or start.random_weights
    count = outputs_of(folder, _own_outputs(loaded), outputs, is_fresh)
    manifest = cross_encoder_manifest(
        folder, fast.build(loaded).longest, count, max_length, start.document_tokens
    )
    weights, head = _pair_weights(start, count)
    names = FAMILIES[loaded.config["model_type"]].dropout
    config = plain_config(loaded.config, ARCHITECTURES[loaded.config["model_type"]], count)
    return InitialModel(
        replace(loaded, config=config, weights=weights), manifest, start.rates(*names), head
    )


def init_bi_encoder(start: TrainingStart, max_length: int | None) -> InitialModel:
    """A bi-encoder: the base's body; a pooler that the base has is kept as it is."""
    loaded = start.loaded
    manifest = bi_encoder_manifest(start.folder, fast.build(loaded).longest, max_length)
    body, pooler = _body("model", loaded)
    weights = {name.removeprefix("model."): value for name, value in (body | pooler).items()}
    if start.random_weights:
        initializer = WeightInitializer.of(start.seed)
        weights = {name: initializer.like(name, value) for name, value in weights.items()}
    architecture = ARCHITECTURES[loaded.config["model_type"]].replace(
        "ForSequenceClassification", "Model"
    )
    hidden, attention, _ = FAMILIES[loaded.config["model_type"]].dropout
    return InitialModel(
        replace(loaded, config=plain_config(loaded.config, architecture), weights=weights),
        manifest,
        start.rates(hidden, attention, hidden),
        frozenset(),
    )


def init_target_words(
    start: TrainingStart,
    words: Sequence[str | int] | None,
    template: str | None,
    max_length: int | None,
) -> InitialModel:
    """A T5 with two words."""
    manifest = target_words_manifest(
        start.folder, "sequence-to-sequence", words, template, max_length
    )
    _t5.build(start.loaded, manifest.max_length)
    loaded, head = _word_weights(start, manifest.word_ids or (0, 0))
    rates = start.rates("dropout_rate", "dropout_rate", "dropout_rate")
    return InitialModel(loaded, manifest, rates, head)


@dataclass(frozen=True, eq=False)
class WeightInitializer:
    """Fresh weights, one after the other from one seed."""

    generator: Any

    @classmethod
    def of(cls, seed: int) -> WeightInitializer:
        """Fresh weights of a seed."""
        return cls(require("torch").Generator().manual_seed(seed))

    def normal(self, *shape: int, spread: float = INIT_STD) -> Tensor:
        """Normally distributed around zero."""
        return require("torch").empty(*shape).normal_(0.0, spread, generator=self.generator)

    def dense(self, name: str, rows: int, columns: int) -> Weights:
        """A dense layer that adds nothing of its own."""
        zeros = require("torch").zeros(rows)
        return {f"{name}.weight": self.normal(rows, columns), f"{name}.bias": zeros}

    def like(self, name: str, value: Tensor, spread: float = INIT_STD) -> Tensor:
        """A weight of the same shape: a norm starts at one, a bias at zero."""
        torch = require("torch")
        if name.lower().endswith("norm.weight"):
            return torch.ones_like(value)
        if name.endswith(".bias"):
            return torch.zeros_like(value)
        return self.normal(*value.shape, spread=spread)


def _own_outputs(loaded: Loaded) -> int:
    names = loaded.config.get("architectures") or [""]
    if not str(names[0]).endswith("ForSequenceClassification"):
        return 0
    out = HEADS[loaded.config["model_type"]].out
    return len(take(loaded.weights, f"{out}.weight", loaded.folder))


def _pair_weights(start: TrainingStart, outputs: int) -> tuple[Weights, frozenset[str]]:
    """All weights of a cross-encoder, and which of them are its head: the classifier, and BERT's
    pooler where it is fresh.
    """
    loaded, initializer = start.loaded, WeightInitializer.of(start.seed)
    family, names = FAMILIES[loaded.config["model_type"]], HEADS[loaded.config["model_type"]]
    width = width_of(loaded.config)
    fresh = {
        **initializer.dense(names.dense, width, width),
        **initializer.dense(names.out, outputs, width),
    }
    if names.norm:
        fresh[f"{names.norm}.weight"] = require("torch").ones(width)
        if not loaded.config.get("classifier_bias"):
            del fresh[f"{names.dense}.bias"]
        if loaded.config.get("norm_bias"):
            fresh[f"{names.norm}.bias"] = require("torch").zeros(width)
    body, available = _body(family.root, loaded)
    if _own_outputs(loaded) and not start.fresh_head:
        available |= loaded.weights
    if start.random_weights:
        body = {name: initializer.like(name, value) for name, value in body.items()}
        available = {}
    head = {name: available.get(name, value) for name, value in fresh.items()}
    fresh_names = (name for name in head if name.startswith(HEAD) or name not in available)
    return {**body, **head}, frozenset(fresh_names)


def _body(root: str, loaded: Loaded) -> tuple[Weights, Weights]:
    """The weights of an encoder under the name of its model: the body, and the pooler if any."""
    family = FAMILIES[loaded.config["model_type"]]
    suffix = family.words
    prefix = next(name.removesuffix(suffix) for name in loaded.weights if name.endswith(suffix))
    weights = {
        f"{root}.{name.removeprefix(prefix)}": value
        for name, value in loaded.weights.items()
        if name.startswith(prefix) and not name.endswith("position_ids")
    }

    def under(*places: str) -> Weights:
        roots = tuple(f"{root}.{place}." for place in places)
        return {name: value for name, value in weights.items() if name.startswith(roots)}

    return under(*family.parts), under("pooler")


def _word_weights(start: TrainingStart, ids: tuple[int, int]) -> tuple[Loaded, frozenset[str]]:
    """All weights of a T5, and which of them are its head: none, unless that is fresh."""
    torch, loaded, initializer = require("torch"), start.loaded, WeightInitializer.of(start.seed)
    names = loaded.config["model_type"]
    config = plain_config(loaded.config, ARCHITECTURES[names])
    weights = dict(loaded.weights)
    if "shared.weight" in weights:
        weights = {name: value for name, value in weights.items() if "embed_tokens" not in name}
    if start.random_weights:
        spreads = _t5_spreads(config)
        weights = {
            name: initializer.like(name, value, spreads.get(name.split(".")[-2], 1.0))
            for name, value in weights.items()
        }
    if not start.fresh_head:
        return replace(loaded, config=config, weights=weights), frozenset()
    if "lm_head.weight" not in weights:  # the output is the embedding, scaled
        scale = _t5.build(loaded, 1).output_scale
        weights["lm_head.weight"] = weights["shared.weight"] * scale
        config |= {"tie_word_embeddings": False, "scale_decoder_outputs": False}
    fresh = initializer.normal(2, config["d_model"])
    weights["lm_head.weight"] = weights["lm_head.weight"].index_copy(0, torch.tensor(ids), fresh)
    return replace(loaded, config=config, weights=weights), frozenset({"lm_head.weight"})


def _t5_spreads(config: Mapping[str, Any]) -> dict[str, float]:
    """The standard deviations that T5 starts from, by the name of the layer; else one."""
    width, inner, feed_forward = config["d_model"], config["d_kv"], config["d_ff"]
    by_width = dict.fromkeys(
        ("k", "v", "wi", "wi_0", "wi_1", "relative_attention_bias"), width**-0.5
    )
    heads = config["num_heads"]
    return {
        **by_width,
        "q": (width * inner) ** -0.5,
        "o": (heads * inner) ** -0.5,
        "wo": feed_forward**-0.5,
    }


def plain_config(
    config: Mapping[str, Any], architecture: str, outputs: int | None = None
) -> dict[str, Any]:
    """The config of a model trained by tamis: its class, its labels, and weights of four bytes."""
    dropped = ("_name_or_path", "torch_dtype", "problem_type", "transformers_version", "num_labels")
    settings = {name: value for name, value in config.items() if name not in dropped}
    if outputs is not None:
        labels = [f"LABEL_{number}" for number in range(outputs)]
        settings["id2label"] = {str(number): label for number, label in enumerate(labels)}
        settings["label2id"] = {label: number for number, label in enumerate(labels)}
    return {**settings, "architectures": [architecture], "dtype": "float32"}
