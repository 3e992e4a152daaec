"""Gradient times input: how fast a model's score changes along the word embedding of each token.

The embeddings of one sequence become the input: our own forwards read them from a table of a row
a token, transformers takes them as `inputs_embeds`. No model is changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis.backends._t5 import T5
from tamis.backends.fast import FastBiEncoder, FastCrossEncoder, head_states, pool_tokens
from tamis.backends.network import Network
from tamis.backends.transformers import (
    TransformersBiEncoder,
    TransformersCrossEncoder,
    TransformersLanguageModel,
)
from tamis.backends.weights import Tensor
from tamis.errors import require
from tamis.scorers.bi_encoder import BiEncoder
from tamis.scorers.cross_encoder import CrossEncoder
from tamis.scorers.embedding_layers import Normalize
from tamis.scorers.target_words import TargetWords

TokenIds = NDArray[np.int32]
Values = NDArray[np.float32]


def cross_encoder_gradient(
    scorer: CrossEncoder, ids: TokenIds, segments: TokenIds
) -> Values | None:
    """Of each token of a pair; the score is the logit, or how far the one that says relevant lies
    above the others.
    """
    model, torch = scorer.model, require("torch")
    if isinstance(model, FastCrossEncoder):
        inputs, places = _table(model.body, ids)
        body = replace(model.body, word_emb=inputs)  # type: ignore[type-var]
        states = head_states(body, model.head, [places], [segments])
        return _times_input(_cross_score(model.head(states)[0], scorer.output), inputs)
    if isinstance(model, TransformersCrossEncoder):
        network = Embedded.of(model.network)
        with torch.enable_grad():
            logits = replace(model, network=network).scores([ids], [segments])[0]
        return _times_input(_cross_score(logits, scorer.output), network.inputs_embeds[0])
    return None


def _cross_score(logits: Tensor, output: int | None) -> Tensor:
    if output is not None:
        return logits.log_softmax(-1)[output]
    return logits[0] if len(logits) == 1 else logits[1] - logits[0]


def can_give_gradient(encoder: BiEncoder) -> bool:
    """Whether torch runs all that a bi-encoder does: layers after the pooling are in numpy."""
    return isinstance(encoder.model, FastBiEncoder | TransformersBiEncoder) and all(
        isinstance(layer, Normalize) for layer in encoder.layers
    )


def bi_encoder_gradient(
    encoder: BiEncoder, ids: TokenIds, query: NDArray[np.float32]
) -> Values | None:
    """Of each token of a text; the score is its cosine with the embedding of a query."""
    if not can_give_gradient(encoder):
        return None
    model, torch = encoder.model, require("torch")
    how = encoder.pooling, encoder._skipped
    if isinstance(model, FastBiEncoder):
        inputs, places = _table(model.body, ids)
        body = replace(model.body, word_emb=inputs)  # type: ignore[type-var]
        pooled = pool_tokens(body, [places], *how)[0]
    else:
        assert isinstance(model, TransformersBiEncoder)
        network = Embedded.of(model.network)
        with torch.enable_grad():
            pooled = replace(model, network=network).pooled([ids], *how)[0]
        inputs = network.inputs_embeds[0]
    pooled = pooled[: encoder.truncate_dim]
    return _times_input((pooled / pooled.norm()) @ torch.from_numpy(query).to(pooled), inputs)


def target_words_gradient(scorer: TargetWords, ids: TokenIds) -> Values | None:
    """Of each token of a filled template; the score is how far the logit of the first word lies
    above the second's, or what the scorer takes in its place.
    """
    model = scorer.language_model
    if isinstance(model, T5):
        torch = require("torch")
        start = model.word_emb[model.start_token][None]
        rows = model.word_emb[torch.from_numpy(ids.astype(np.int64))]
        inputs = torch.cat([rows, start]).detach().requires_grad_()
        twin = replace(model, word_emb=inputs, start_token=len(ids))
        places = np.arange(len(ids), dtype=np.int32)
        logits = twin.logits([places], None if scorer.how == "vocabulary" else scorer.ids)[0]
        return _times_input(_word_score(logits, scorer), inputs)[: len(ids)]
    if isinstance(model, TransformersLanguageModel):
        network = Embedded.of(model.network)
        with require("torch").enable_grad():
            logits = replace(model, network=network).next_token([ids])[0]
        if scorer.how != "vocabulary":
            logits = logits[list(scorer.ids)]
        return _times_input(_word_score(logits, scorer), network.inputs_embeds[0])
    return None


def _word_score(logits: Tensor, scorer: TargetWords) -> Tensor:
    if scorer.how == "vocabulary":
        return logits.log_softmax(-1)[scorer.ids[0]]
    return logits[0] if scorer.how == "logit" else logits[0] - logits[1]


@dataclass(frozen=True, eq=False)
class Embedded(Network):
    """A network that is given the embeddings of its tokens, and keeps them as inputs."""

    inputs_embeds: list[Tensor] = field(default_factory=list)
    """Of each batch the embeddings of its one sequence."""

    @classmethod
    def of(cls, network: Network) -> Embedded:
        """The same network."""
        return cls(**{part.name: getattr(network, part.name) for part in fields(network)})

    def batch(
        self, sequences: Sequence[TokenIds], segments: Sequence[TokenIds] | None = None
    ) -> dict[str, Any]:
        """See `Network.batch`."""
        batch = super().batch(sequences, segments)
        embeddings = self.model.get_input_embeddings()(batch.pop("input_ids"))
        self.inputs_embeds.append(embeddings.detach().requires_grad_())
        return {"inputs_embeds": self.inputs_embeds[-1], **batch}


def _table(body: Any, ids: TokenIds) -> tuple[Tensor, TokenIds]:
    """The word embedding of each token as a table of its own, and where in it each one stands."""
    rows = body.word_emb[require("torch").from_numpy(ids.astype(np.int64))]
    return rows.detach().clone().requires_grad_(), np.arange(len(ids), dtype=np.int32)


def _times_input(score: Tensor, inputs: Tensor) -> Values:
    (gradient,) = require("torch").autograd.grad(score, inputs)
    if gradient.is_sparse:
        gradient = gradient.to_dense()
    products = (gradient * inputs).sum(-1).detach().float().cpu()
    values: Values = products.numpy().reshape(-1)
    return values
