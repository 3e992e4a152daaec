"""A bi-encoder turns query and text into vectors, each alone; their cosine is the score."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tamis.errors import InputError, command, require
from tamis.scorers._bert import Bert, build
from tamis.scorers._onnx import Backend, OnnxTexts, Session
from tamis.scorers.batches import BUDGET, CHUNK, Numbers, Rows, chunks, in_batches
from tamis.scorers.model_manifest import ModelManifest, Pooling, find_model_manifest
from tamis.scorers.origin import Origin, model_spec
from tamis.scorers.sbert_layout import check_modules, pooling_folder
from tamis.scorers.tokens import Encoded, Layout, TokenIds, Tokens, json_of, length_said
from tamis.scorers.weights import Tensor, load, open_tokens, read_config
from tamis.types import Pairs, Scores, Spec
from tamis.types.pipeline import Scale

LENGTH = 512
TINY = np.float32(1e-12)
"""What a vector of length nought is divided by."""


class TextModel(Protocol):
    """What runs a bi-encoder, on whatever back end."""

    @property
    def dimensions(self) -> int:
        """How long a vector is."""

    @property
    def longest(self) -> int:
        """How many tokens a sequence may have."""

    def pooled(self, sequences: Sequence[TokenIds], pooling: Pooling) -> Rows:
        """One vector a sequence."""


@dataclass(frozen=True, eq=False)
class TorchTexts:
    """A bi-encoder in torch."""

    body: Bert

    @property
    def dimensions(self) -> int:
        """How long a vector is."""
        return int(self.body.words.shape[1])

    @property
    def longest(self) -> int:
        """How many tokens a sequence may have."""
        return self.body.longest

    def pooled(self, sequences: Sequence[TokenIds], pooling: Pooling) -> Rows:
        """One vector a sequence."""
        with require("torch").inference_mode():
            values: Rows = pooled(self.body, sequences, pooling).numpy()
        return values


def pooled(body: Bert, sequences: Sequence[TokenIds], pooling: Pooling) -> Tensor:
    """One vector a sequence, not yet of length one; training takes gradients through it."""
    segments = [np.zeros(len(sequence), np.int32) for sequence in sequences]
    if pooling == "cls":
        return body.first_tokens(sequences, segments)
    return _means(body.all_tokens(sequences, segments), sequences)


@dataclass(frozen=True, eq=False)
class BiEncoder:
    """A BERT- or RoBERTa-like model whose token vectors are pooled into one: both a scorer and an
    encoder. Vectors have length one, so that a dot product is a cosine.

    One that only learnt to read queries has another for `documents`: it encodes queries itself and
    leaves texts to that, so that the vectors which an index has stay as they are.
    """

    model: TextModel
    tokens: Tokens
    layout: Layout
    max_length: int
    pooling: Pooling
    threads: int | None = None
    budget: int = BUDGET
    scale: Scale = "cosine"
    documents: BiEncoder | None = None
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
        note = find_model_manifest(path)
        if note and note.scorer != "bi-encoder":
            raise InputError(
                f"{folder} is a {note.scorer}, not a bi-encoder",
                hint="open it with tamis.models.open_scorer",
            )
        check_modules(path)
        model, tokens = _opened(path, backend)
        layout = tokens.single_layout()
        usual = min(LENGTH, model.longest, length_said(path) or LENGTH)
        length = max_length or length_of(path, note) or usual
        if not layout.extra < length <= model.longest:
            raise InputError(
                f"cannot cut texts at {length} tokens",
                hint=f"this model takes {layout.extra + 1} to {model.longest} tokens",
            )
        documents = None
        if note and note.documents:
            documents = cls.open(path / note.documents, threads=threads, backend=backend)
            if documents.dimensions != model.dimensions:
                raise InputError(
                    f"{path} gives queries {model.dimensions} dimensions and documents "
                    f"{documents.dimensions}",
                    hint="its parts are of different models: copy or train it again",
                )
        return cls(
            model, tokens, layout, length, pooling or pooling_of(path, note), threads,
            documents=documents,
            origin=Origin.of("bi-encoder", path, backend, max_length=max_length, pooling=pooling),
        )  # fmt: skip

    def spec(self) -> Spec:
        """Plain JSON from which the model can be opened again."""
        return model_spec(self.origin, self)

    @property
    def dimensions(self) -> int:
        """How long a vector is."""
        return self.model.dimensions

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """One row of length one a text."""
        return self.encode_with_truncation(texts)[0]

    def encode_with_truncation(
        self, texts: Sequence[str]
    ) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
        """The vectors of these texts, and how many tokens of each were cut."""
        vectors = np.empty((len(texts), self.dimensions), np.float32)
        truncated_tokens = np.zeros(len(texts), np.int32)
        for start in range(0, len(texts), CHUNK):
            part = slice(start, start + CHUNK)
            vectors[part], truncated_tokens[part] = self._encode_chunk(texts[part])
        return vectors, truncated_tokens

    def score(self, pairs: Pairs) -> Scores:
        """The cosine of every pair, and how many tokens of it were cut.

        A query is encoded once, and so is a text: pairs are taken in the order of their texts.
        """
        values, truncated_tokens = np.empty(len(pairs), np.float32), np.zeros(len(pairs), np.int32)
        order = np.argsort(pairs.index[:, 1], kind="stable")
        asked, query = np.unique(pairs.index[order, 0], return_inverse=True)
        queries, truncated_query_tokens = self.encode_with_truncation(
            [pairs.queries[n] for n in asked.tolist()]
        )
        for part, piece in chunks(Pairs(pairs.queries, pairs.texts, pairs.index[order])):
            texts, truncated_text_tokens = (self.documents or self).encode_with_truncation(
                piece.texts
            )
            text = piece.index[:, 1]
            values[order[part]] = np.einsum("nd,nd->n", queries[query[part]], texts[text])
            truncated_tokens[order[part]] = (
                truncated_query_tokens[query[part]] + truncated_text_tokens[text]
            )
        return Scores(values, truncated_tokens)

    def _encode_chunk(self, texts: Sequence[str]) -> tuple[Rows, NDArray[np.int32]]:
        room = self.max_length - self.layout.extra
        encoded = self.tokens.encode(texts, room)
        whole = np.array([each.length for each in encoded], np.int64)
        kept = np.minimum(whole, room)

        def forward(batch: Numbers) -> Rows:
            return self._vectors([self._framed(encoded[number]) for number in batch.tolist()])

        rows = in_batches(
            forward,
            kept + self.layout.extra,
            width=self.dimensions,
            budget=self.budget,
            threads=self.threads,
        )
        return rows, (whole - kept).astype(np.int32)

    def _framed(self, text: Encoded) -> NDArray[np.int32]:
        before, after = self.layout.before, self.layout.after
        return np.concatenate([np.asarray(part, np.int32) for part in (before, text.ids, after)])

    def _vectors(self, sequences: Sequence[NDArray[np.int32]]) -> Rows:
        vectors = self.model.pooled(sequences, self.pooling)
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        rows: Rows = vectors / np.maximum(lengths, TINY)
        return rows


def _opened(folder: Path, backend: Backend) -> tuple[TextModel, Tokens]:
    if backend != "torch":
        session = Session.open(folder, backend, "bi-encoder")
        return OnnxTexts(session), open_tokens(folder, read_config(folder))
    loaded = load(folder)
    return TorchTexts(build(loaded)), loaded.tokens


def _means(states: Tensor, sequences: Sequence[NDArray[np.int32]]) -> Tensor:
    torch = require("torch")
    parts = states.split([len(sequence) for sequence in sequences])
    return torch.stack([part.mean(0) for part in parts])


def length_of(folder: Path, note: ModelManifest | None) -> int | None:
    """At how many tokens a folder says texts are cut, if it says."""
    if note:
        return note.max_length
    length = _read(folder / "sentence_bert_config.json").get("max_seq_length")
    return int(length) if length else None


def pooling_of(folder: Path, note: ModelManifest | None) -> Pooling:
    """How a folder says token vectors are pooled."""
    if note and note.pooling:
        return note.pooling
    config = _read(pooling_folder(folder) / "config.json")
    modes: tuple[tuple[str, Pooling], ...] = (
        ("pooling_mode_mean_tokens", "mean"),
        ("pooling_mode_cls_token", "cls"),
    )
    on = [name for name in config if name.startswith("pooling_mode_") and config[name] is True]
    found = [how for name, how in modes if name in on]
    named = config.get("pooling_mode")
    if named in ("mean", "cls") and not on:
        return "mean" if named == "mean" else "cls"
    if len(on) != 1 or not found:
        new = f"{folder.resolve().name}-imported"
        what = f"pools by {', '.join(on)}" if on else "does not say how token vectors are pooled"
        raise InputError(
            f"{folder} {what}",
            hint="say how, mean or cls, and use the new folder: "
            + command(
                "import-model", folder, "-o", new, "--kind", "bi-encoder", "--pooling", "mean"
            )
            + '; in Python pooling="mean"',
        )
    return found[0]


def _read(path: Path) -> dict[str, Any]:
    return json_of(path) if path.is_file() else {}
