"""A bi-encoder turns query and text into embeddings, each alone; their cosine is the score."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tamis.errors import InputError, command, require
from tamis.scorers._encoders import Encoder, build, pooled
from tamis.scorers._onnx import Backend, OnnxBiEncoder, Session
from tamis.scorers.batches import (
    PAIRS_PER_CHUNK,
    TOKENS_PER_BATCH,
    Numbers,
    Rows,
    chunks,
    run_batches,
)
from tamis.scorers.model_manifest import ModelManifest, Pooling, manifest_for
from tamis.scorers.origin import Origin, model_spec
from tamis.scorers.probe_cache import cached_probe
from tamis.scorers.sbert_layout import check_sbert_modules, pooling_folder
from tamis.scorers.tokens import Encoded, Layout, TokenIds, Tokens, default_length, json_of
from tamis.scorers.weights import Tensor, load, open_tokens, read_config
from tamis.search.embeddings import PROBES
from tamis.types import Pairs, Scores, Spec
from tamis.types.pipeline import Scale

MIN_NORM = np.float32(1e-12)


class BiEncoderModel(Protocol):
    """What runs a bi-encoder, on whatever back end."""

    @property
    def dimensions(self) -> int:
        """The number of dimensions of an embedding."""

    @property
    def longest(self) -> int:
        """How many tokens a sequence may have."""

    def pool_tokens(self, sequences: Sequence[TokenIds], pooling: Pooling) -> Rows:
        """One embedding per sequence."""


@dataclass(frozen=True, eq=False)
class TorchBiEncoder:
    """A bi-encoder in torch."""

    body: Encoder

    @property
    def dimensions(self) -> int:
        """The number of dimensions of an embedding."""
        return self.body.dimensions

    @property
    def longest(self) -> int:
        """How many tokens a sequence may have."""
        return self.body.longest

    def pool_tokens(self, sequences: Sequence[TokenIds], pooling: Pooling) -> Rows:
        """One embedding per sequence."""
        with require("torch").inference_mode():
            values: Rows = pool_tokens(self.body, sequences, pooling).numpy()
        return values


def pool_tokens(body: Encoder, sequences: Sequence[TokenIds], pooling: Pooling) -> Tensor:
    """One embedding per sequence, not yet of length one; training takes gradients through it."""
    segments = [np.zeros(len(sequence), np.int32) for sequence in sequences]
    return pooled(body, sequences, segments, pooling)


@dataclass(frozen=True, eq=False)
class BiEncoder:
    """A BERT-like model whose token vectors are pooled into one: both a scorer and an
    encoder. Embeddings have length one, so that a dot product is a cosine.

    One that only learnt to read queries has another for `documents`: it encodes queries itself and
    leaves texts to that, so that the embeddings in an index stay as they are. It is opened when it
    is first used: a search encodes queries alone.
    """

    model: BiEncoderModel
    tokens: Tokens
    layout: Layout
    max_length: int
    pooling: Pooling
    threads: int | None = None
    budget: int = TOKENS_PER_BATCH
    scale: Scale = "cosine"
    open_documents: Callable[[], BiEncoder] | None = None
    origin: Origin | None = None

    @classmethod
    def open(
        cls,
        folder: str | Path,
        *,
        max_length: int | None = None,
        pooling: Pooling | None = None,
        threads: int | None = None,
        backend: Backend = "torch",
    ) -> BiEncoder:
        """The bi-encoder in a folder, as sentence-transformers lays it out or with `tamis.json`."""
        path = Path(folder)
        manifest = manifest_for(path, "bi-encoder")
        check_sbert_modules(path)
        model, tokens = _open(path, backend)
        layout = tokens.single_layout()
        length = max_length or length_of(path, manifest) or default_length(path, model.longest)
        if not layout.extra < length <= model.longest:
            raise InputError(
                f"cannot truncate texts at {length} tokens",
                hint=f"this model takes {layout.extra + 1} to {model.longest} tokens",
            )
        open_documents = None
        if manifest and manifest.documents:
            part = partial(cls.open, path / manifest.documents, threads=threads, backend=backend)
            open_documents = cache(partial(_open_documents, part, path, model.dimensions))
        return cls(
            model, tokens, layout, length, pooling or pooling_of(path, manifest), threads,
            open_documents=open_documents,
            origin=Origin.of("bi-encoder", path, backend, max_length=max_length, pooling=pooling),
        )  # fmt: skip

    def spec(self) -> Spec:
        """Plain JSON from which the model can be opened again."""
        return model_spec(self.origin, self)

    @property
    def dimensions(self) -> int:
        """The number of dimensions of an embedding."""
        return self.model.dimensions

    @property
    def documents(self) -> BiEncoder | None:
        """What encodes documents, where that is another."""
        return None if self.open_documents is None else self.open_documents()

    @cached_property
    def probe_rows(self) -> Rows:
        """The embeddings of the texts by which an index recognises what encoded its documents."""
        settings = [] if self.open_documents else [self.max_length, self.pooling]
        return cached_probe(self.origin, settings, lambda: (self.documents or self).encode(PROBES))

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """One row of length one per text."""
        return self.encode_with_truncation(texts)[0]

    def encode_with_truncation(
        self, texts: Sequence[str]
    ) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
        """The embeddings of these texts, and how many tokens of each were truncated."""
        embeddings = np.empty((len(texts), self.dimensions), np.float32)
        truncated_tokens = np.zeros(len(texts), np.int32)
        for start in range(0, len(texts), PAIRS_PER_CHUNK):
            rows = slice(start, start + PAIRS_PER_CHUNK)
            embeddings[rows], truncated_tokens[rows] = self._encode_chunk(texts[rows])
        return embeddings, truncated_tokens

    def score(self, pairs: Pairs) -> Scores:
        """The cosine of every pair, and how many of its tokens were truncated.

        A query is encoded once, and so is a text: pairs are taken in the order of their texts.
        """
        values, truncated_tokens = np.empty(len(pairs), np.float32), np.zeros(len(pairs), np.int32)
        order = np.argsort(pairs.index[:, 1], kind="stable")
        query_numbers, query = np.unique(pairs.index[order, 0], return_inverse=True)
        queries, truncated_query_tokens = self.encode_with_truncation(
            [pairs.queries[n] for n in query_numbers.tolist()]
        )
        for rows, piece in chunks(Pairs(pairs.queries, pairs.texts, pairs.index[order])):
            texts, truncated_text_tokens = (self.documents or self).encode_with_truncation(
                piece.texts
            )
            text = piece.index[:, 1]
            values[order[rows]] = np.einsum("nd,nd->n", queries[query[rows]], texts[text])
            truncated_tokens[order[rows]] = (
                truncated_query_tokens[query[rows]] + truncated_text_tokens[text]
            )
        return Scores(values, truncated_tokens)

    def _encode_chunk(self, texts: Sequence[str]) -> tuple[Rows, NDArray[np.int32]]:
        room = self.max_length - self.layout.extra
        encoded = self.tokens.encode(texts, room)
        lengths = np.array([text.length for text in encoded], np.int64)
        kept_lengths = np.minimum(lengths, room)

        def forward(batch: Numbers) -> Rows:
            return self._embed(
                [self._add_special_tokens(encoded[number]) for number in batch.tolist()]
            )

        rows = run_batches(
            forward,
            kept_lengths + self.layout.extra,
            width=self.dimensions,
            budget=self.budget,
            threads=self.threads,
        )
        return rows, (lengths - kept_lengths).astype(np.int32)

    def _add_special_tokens(self, text: Encoded) -> NDArray[np.int32]:
        before, after = self.layout.before, self.layout.after
        return np.concatenate([np.asarray(ids, np.int32) for ids in (before, text.ids, after)])

    def _embed(self, sequences: Sequence[NDArray[np.int32]]) -> Rows:
        embeddings = self.model.pool_tokens(sequences, self.pooling)
        norms = np.linalg.norm(embeddings, axis=1, keepdims=True)
        rows: Rows = embeddings / np.maximum(norms, MIN_NORM)
        return rows


def _open_documents(part: Callable[[], BiEncoder], path: Path, dimensions: int) -> BiEncoder:
    documents = part()
    if documents.dimensions != dimensions:
        raise InputError(
            f"{path} gives queries {dimensions} dimensions and documents {documents.dimensions}",
            hint="its parts are of different models: copy or train it again",
        )
    return documents


def _open(folder: Path, backend: Backend) -> tuple[BiEncoderModel, Tokens]:
    if backend != "torch":
        session = Session.open(folder, backend, "bi-encoder")
        return OnnxBiEncoder(session), open_tokens(folder, read_config(folder))
    loaded = load(folder)
    return TorchBiEncoder(build(loaded)), loaded.tokens


def length_of(folder: Path, manifest: ModelManifest | None) -> int | None:
    """The length in tokens at which a folder says texts are truncated, if it says."""
    if manifest:
        return manifest.max_length
    length = _read(folder / "sentence_bert_config.json").get("max_seq_length")
    return int(length) if length else None


def pooling_of(folder: Path, manifest: ModelManifest | None) -> Pooling:
    """How a folder says token vectors are pooled."""
    if manifest and manifest.pooling:
        return manifest.pooling
    config = _read(pooling_folder(folder) / "config.json")
    modes: tuple[tuple[str, Pooling], ...] = (
        ("pooling_mode_mean_tokens", "mean"),
        ("pooling_mode_cls_token", "cls"),
    )
    on = [name for name in config if name.startswith("pooling_mode_") and config[name] is True]
    poolings = [pooling for name, pooling in modes if name in on]
    pooling_mode = config.get("pooling_mode")
    if pooling_mode in ("mean", "cls") and not on:
        return "mean" if pooling_mode == "mean" else "cls"
    if len(on) != 1 or not poolings:
        new = f"{folder.resolve().name}-imported"
        problem = f"pools by {', '.join(on)}" if on else "does not say how token vectors are pooled"
        raise InputError(
            f"{folder} {problem}",
            hint="say how, mean or cls, and use the new folder: "
            + command(
                "import-model", folder, "-o", new, "--kind", "bi-encoder", "--pooling", "mean"
            )
            + '; in Python pooling="mean"',
        )
    return poolings[0]


def _read(path: Path) -> dict[str, Any]:
    return json_of(path) if path.is_file() else {}
