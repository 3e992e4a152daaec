"""Cross-encoders that sentence-transformers puts together from modules.

One is a causal language model whose next token is the score, the other a pooled encoder with dense
layers on top.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tamis.backends.batches import Rows
from tamis.backends.choice import Runtime
from tamis.backends.network import longest_of
from tamis.backends.protocols import CrossEncoderModel, LanguageModel
from tamis.backends.tokens import TokenIds, Tokens, json_of
from tamis.backends.transformers import (
    TransformersBiEncoder,
    open_bi_encoder,
    open_language_model,
)
from tamis.errors import InputError
from tamis.scorers.embedding_layers import EmbeddingLayer, read_layers
from tamis.scorers.sbert_layout import encoder_layout, modules_of


@dataclass(frozen=True, eq=False)
class NextTokenScore:
    """How much rather a language model writes one token than another, as a difference of logits."""

    language_model: LanguageModel
    ids: tuple[int, ...]
    longest: int
    outputs: int = 1

    def logits(self, sequences: Sequence[TokenIds], segments: Sequence[TokenIds]) -> Rows:
        """One row of outputs per sequence."""
        values = self.language_model.first_logits(sequences, self.ids)
        return values if len(self.ids) == 1 else values[:, :1] - values[:, 1:]


@dataclass(frozen=True, eq=False)
class PooledScore:
    """The tokens of a pair pooled into one vector, and layers that make scores of it."""

    encoder: TransformersBiEncoder
    pooling: str
    layers: tuple[EmbeddingLayer, ...]

    @property
    def outputs(self) -> int:
        """How many values it gives."""
        width = self.encoder.dimensions * len(self.pooling.split("+"))
        for layer in self.layers:
            width = layer.width(width)
        return width

    @property
    def longest(self) -> int:
        """How many tokens a sequence may have."""
        return self.encoder.longest

    def logits(self, sequences: Sequence[TokenIds], segments: Sequence[TokenIds]) -> Rows:
        """One row of outputs per sequence."""
        rows = self.encoder.network.run(
            sequences,
            segments,
            lambda some, of: self.encoder.pooled(some, self.pooling, segments=of),
        )
        for layer in self.layers:
            rows = layer(rows)
        return np.asarray(rows, np.float32)


def is_modular(folder: Path) -> bool:
    """Whether the score of a folder's cross-encoder is made by modules after the transformer."""
    return len(modules_of(folder)) > 1


def open_modular(folder: Path, runtime: Runtime) -> tuple[CrossEncoderModel, Tokens]:
    """The cross-encoder that the modules of a folder make, and its tokenizer."""
    if runtime.backend != "transformers":
        raise InputError(
            f"the back end {runtime.backend} does not run the modules of {folder}",
            hint="leave the back end out, or say transformers",
        )
    how = runtime.device, runtime.dtype, runtime.trust_remote_code
    layout = encoder_layout(folder, "query")
    score = next((path for name, path in modules_of(folder) if name == "LogitScore"), None)
    if score is None:
        encoder = open_bi_encoder(layout.transformer, *how)
        if layout.pooling is None:
            raise InputError(
                f"{folder} has modules that make no score", hint="copy the folder again"
            )
        score_of = PooledScore(encoder, layout.pooling, read_layers(layout.layers))
        return score_of, encoder.network.tokens
    path = layout.transformer / "sentence_bert_config.json"
    if "message" in (json_of(path) if path.is_file() else {}).get("modality_config", {}):
        raise InputError(
            f"{folder} wants its chat template around a pair, which tamis does not fill in",
            hint="import it as a language model: --kind target-words --target-words yes no "
            "--template with the words of that template",
        )
    config = json_of(score / "config.json")
    ids = [config.get("true_token_id"), config.get("false_token_id")]
    model = open_language_model(layout.transformer, "causal", None, *how)
    known = tuple(int(number) for number in ids if number is not None)
    return NextTokenScore(model, known, longest_of(model.network.model)), model.network.tokens
