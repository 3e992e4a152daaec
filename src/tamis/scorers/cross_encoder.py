"""A cross-encoder reads query and text together and says how well they go with each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tamis.errors import InputError, require
from tamis.scorers._encoders import Encoder, build, pooled
from tamis.scorers._heads import Head, head_of
from tamis.scorers._onnx import Backend, OnnxCrossEncoder, Session
from tamis.scorers.batches import TOKENS_PER_BATCH, Numbers, Rows, chunks, probability, run_batches
from tamis.scorers.model_manifest import manifest_for
from tamis.scorers.origin import Origin, model_spec
from tamis.scorers.tokens import Layout, TokenIds, Tokens, default_length, share_room
from tamis.scorers.weights import load, open_tokens, read_config
from tamis.types import Pairs, Scores, Spec
from tamis.types.pipeline import Scale


class CrossEncoderModel(Protocol):
    """What runs a cross-encoder, on whatever back end."""

    @property
    def outputs(self) -> int:
        """How many values it gives."""

    @property
    def longest(self) -> int:
        """How many tokens a sequence may have."""

    def logits(self, sequences: Sequence[TokenIds], segments: Sequence[TokenIds]) -> Rows:
        """One row of outputs per sequence."""


@dataclass(frozen=True, eq=False)
class TorchCrossEncoder:
    """A cross-encoder in torch."""

    body: Encoder
    head: Head

    @property
    def outputs(self) -> int:
        """How many values it gives."""
        return self.head.outputs

    @property
    def longest(self) -> int:
        """How many tokens a sequence may have."""
        return self.body.longest

    def logits(self, sequences: Sequence[TokenIds], segments: Sequence[TokenIds]) -> Rows:
        """One row of outputs per sequence."""
        with require("torch").inference_mode():
            states = pooled(self.body, sequences, segments, self.head.pooling)
            values: Rows = self.head(states).numpy()
        return values


@dataclass(frozen=True, eq=False)
class CrossEncoder:
    """A BERT-like model with one output (taken as it is) or two (the probability of
    the second class).
    """

    model: CrossEncoderModel
    tokens: Tokens
    layout: Layout
    max_length: int
    scale: Scale
    threads: int | None = None
    budget: int = TOKENS_PER_BATCH
    document_tokens: int | None = None
    """The length at which the text alone is truncated, before the pair is."""
    origin: Origin | None = None

    @classmethod
    def open(
        cls,
        folder: str | Path,
        *,
        max_length: int | None = None,
        scale: Scale | None = None,
        threads: int | None = None,
        backend: Backend = "torch",
    ) -> CrossEncoder:
        """The cross-encoder in a folder: any Hugging Face folder for sequence classification.

        What is not given is read from `tamis.json`; without one, pairs are truncated at 512 tokens
        or at as many as the tokenizer says, one output is a logit and two are a probability.
        """
        path = Path(folder)
        manifest = manifest_for(path, "cross-encoder")
        model, tokens = _open(path, backend)
        layout = tokens.pair_layout()
        length = max_length or (
            manifest.max_length if manifest else default_length(path, model.longest)
        )
        check_length(length, model.longest, layout.extra)
        value_scale = scale_of(model.outputs, scale or (manifest.scale if manifest else None))
        document_tokens = manifest.document_tokens if manifest else None
        origin = Origin.of("cross-encoder", path, backend, max_length=max_length, scale=scale)
        return cls(
            model, tokens, layout, length, value_scale, threads,
            document_tokens=document_tokens, origin=origin,
        )  # fmt: skip

    def spec(self) -> Spec:
        """Plain JSON from which the model can be opened again."""
        return model_spec(self.origin, self)

    @property
    def outputs(self) -> int:
        """How many values the model gives per pair."""
        return self.model.outputs

    def score(self, pairs: Pairs) -> Scores:
        """One value per pair, and how many of its tokens were truncated."""
        values, truncated_tokens = np.empty(len(pairs), np.float32), np.zeros(len(pairs), np.int32)
        for rows, piece in chunks(pairs):
            values[rows], truncated_tokens[rows] = self._score_chunk(piece)
        return Scores(values, truncated_tokens)

    def _score_chunk(self, pairs: Pairs) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
        extra = self.layout.extra
        room = self.max_length - extra
        queries = self.tokens.encode(pairs.queries, room)
        texts = self.tokens.encode(pairs.texts, room)
        index: list[tuple[int, int]] = pairs.index.tolist()
        longest = self.document_tokens or room
        kept_lengths = [
            share_room(queries[q].length, min(texts[t].length, longest), room) for q, t in index
        ]
        full_lengths = np.array([queries[q].length + texts[t].length for q, t in index], np.int64)
        lengths = np.array([of_query + of_text for of_query, of_text in kept_lengths], np.int64)

        def join(q: int, t: int, of_query: int, of_text: int) -> tuple[TokenIds, TokenIds]:
            return self.layout.join(queries[q].ids[:of_query], texts[t].ids[:of_text])

        def forward(batch: Numbers) -> Rows:
            joined_pairs = [join(*index[n], *kept_lengths[n]) for n in batch.tolist()]
            ids, segments = zip(*joined_pairs, strict=True)
            return self._values(self.model.logits(ids, segments))

        rows = run_batches(forward, lengths + extra, budget=self.budget, threads=self.threads)
        return rows[:, 0], (full_lengths - lengths).astype(np.int32)

    def _values(self, logits: Rows) -> Rows:
        if logits.shape[1] == 2:
            return probability(logits[:, 1:] - logits[:, :1])
        return probability(logits) if self.scale == "probability" else logits


def _open(folder: Path, backend: Backend) -> tuple[CrossEncoderModel, Tokens]:
    if backend != "torch":
        session = Session.open(folder, backend, "cross-encoder")
        return OnnxCrossEncoder(session), open_tokens(folder, read_config(folder))
    loaded = load(folder)
    return TorchCrossEncoder(build(loaded), head_of(loaded)), loaded.tokens


def check_length(length: int, longest: int, extra: int) -> None:
    """Refuse a length that leaves no room for two texts or that the model does not have."""
    if not extra + 2 <= length <= longest:
        raise InputError(
            f"cannot truncate pairs at {length} tokens",
            hint=f"this model takes {extra + 2} to {longest} tokens",
        )


def scale_of(outputs: int, scale: Scale | None) -> Scale:
    """The scale of a model with so many outputs: the given one, where that is possible."""
    default: Scale = "logit" if outputs == 1 else "probability"
    if scale == "cosine" or (outputs == 2 and scale not in (None, "probability")):
        raise InputError(
            f"{outputs} outputs of a cross-encoder cannot be a {scale}",
            hint=f"say {default}",
        )
    return scale or default
