"""A bi-encoder turns query and text into embeddings, each alone; their cosine is the score."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis.backends.batches import (
    PAIRS_PER_CHUNK,
    TOKENS_PER_BATCH,
    Numbers,
    Rows,
    chunks,
    run_batches,
    tokens_per_batch,
)
from tamis.backends.choice import FAST, Runtime, choose_runtime, open_in_precision
from tamis.backends.memory import check_memory
from tamis.backends.onnx import OnnxBiEncoder, Session
from tamis.backends.pooling import check_pooling
from tamis.backends.protocols import Backend, BiEncoderModel
from tamis.backends.tokens import Encoded, Layout, Tokens, check_truncation_side, default_length
from tamis.backends.weights import load, open_tokens, read_config
from tamis.errors import InputError, command
from tamis.scorers.embedding_layers import EmbeddingLayer, Normalize, normalise, read_layers
from tamis.scorers.in_torch import open_in_torch
from tamis.scorers.model_manifest import ModelManifest, find_model_manifest, manifest_for
from tamis.scorers.origin import Origin, model_spec
from tamis.scorers.probe_cache import cached_probe
from tamis.scorers.sbert_layout import (
    EncoderLayout,
    Task,
    encoder_layout,
    max_seq_length,
    sbert_config,
)
from tamis.scorers.tokenized import TokenizedPairs
from tamis.search.embeddings import PROBES
from tamis.types import Pairs, Scores, Spec
from tamis.types.pipeline import Scale

_log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class BiEncoder:
    """A model whose token vectors are pooled into one: both a scorer and an encoder. Embeddings
    have length one, so that a dot product is a cosine.

    It encodes queries, with its `prompt` before each. Documents are encoded by `documents`, where
    that is another: the same model with another prompt, another route of a Router, or the base of
    one that only learnt to read queries. Another model is opened when it is first used, since a
    search encodes queries alone.
    """

    model: BiEncoderModel
    tokens: Tokens
    layout: Layout
    max_length: int
    pooling: str
    threads: int | None = None
    budget: int = TOKENS_PER_BATCH
    scale: Scale = "cosine"
    open_documents: Callable[[], BiEncoder] | None = None
    origin: Origin | None = None
    prompt: str = ""
    """What stands before every text."""
    document_prompt: str | None = None
    """What stands before documents; None: the same."""
    include_prompt: bool = True
    """Whether the tokens of the prompt are pooled, too."""
    layers: tuple[EmbeddingLayer, ...] = ()
    """What comes after the pooling."""
    truncate_dim: int | None = None
    """How many dimensions of an embedding are kept."""
    runtime: Runtime = FAST

    @classmethod
    def open(
        cls,
        folder: str | Path,
        *,
        max_length: int | None = None,
        pooling: str | None = None,
        query_prompt: str | None = None,
        document_prompt: str | None = None,
        truncate_dim: int | None = None,
        threads: int | None = None,
        backend: Backend | None = None,
        device: str = "auto",
        dtype: str = "auto",
        trust_remote_code: bool = False,
    ) -> BiEncoder:
        """The bi-encoder in a folder, as sentence-transformers lays it out or with `tamis.json`.

        What is not given is read from the folder: the pooling, the prompts, the length. It runs
        where `device` says, by default on a GPU if there is one; see `choose_runtime`.
        """
        run = {"backend": backend, "device": device, "dtype": dtype}
        opening = _Opening(
            Path(folder), max_length, pooling, query_prompt, document_prompt, truncate_dim,
            threads, {**run, "trust_remote_code": trust_remote_code},
        )  # fmt: skip
        return opening.open()

    def spec(self) -> Spec:
        """Plain JSON from which the model can be opened again."""
        return model_spec(self.origin, self)

    @cached_property
    def dimensions(self) -> int:
        """The number of dimensions of an embedding."""
        width = self.model.dimensions * len(self.pooling.split("+"))
        for layer in self.layers:
            width = layer.width(width)
        return min(width, self.truncate_dim or width)

    @cached_property
    def documents(self) -> BiEncoder | None:
        """What encodes documents, where that is another."""
        if self.open_documents is not None:
            return self.open_documents()
        if self.prompts[1] == self.prompt:
            return None
        return replace(self, prompt=self.document_prompt or "", document_prompt=None)

    @cached_property
    def in_torch(self) -> BiEncoder | None:
        """The same model by torch, which has gradients; None where that is not there."""
        return open_in_torch(self) if self.runtime.is_onnx else self

    @property
    def prompts(self) -> tuple[str, str]:
        """What stands before queries, and before documents, whatever encodes those."""
        return self.prompt, self.prompt if self.document_prompt is None else self.document_prompt

    @cached_property
    def probe_rows(self) -> Rows:
        """The embeddings of the texts by which an index recognises what encoded its documents."""
        return cached_probe(
            self.origin, self._probe_settings(), lambda: (self.documents or self).encode(PROBES)
        )

    def _probe_settings(self) -> list[object]:
        if self.open_documents:
            return []
        settings = [self.max_length, self.pooling]
        own = [self.prompts[1], self.truncate_dim, self.include_prompt, self.runtime.dtype]
        return [*settings, *(own if own != ["", None, True, "float32"] else [])]

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

    def tokenize(self, pairs: Pairs) -> TokenizedPairs:
        """See `TokenScorer.tokenize`; the tokens of a query count at its first pair."""
        queries, of_documents = self._tokenize(pairs.queries), self.documents or self
        texts = of_documents._tokenize(pairs.texts)
        items = [(queries[q], texts[t]) for q, t in pairs.index.tolist()]
        query, text = (
            np.array([[len(each.ids) + side.layout.extra, each.length - len(each.ids)]
                      for each in some]).reshape(-1, 2)
            for some, side in ((queries, self), (texts, of_documents))
        )  # fmt: skip
        query_of, text_of = pairs.index.T
        lengths = text[text_of, 0]
        _, first = np.unique(query_of, return_index=True)
        lengths[first] += query[query_of[first], 0]
        truncated_tokens = (query[query_of, 1] + text[text_of, 1]).astype(np.int32)
        return TokenizedPairs(items, lengths, truncated_tokens)

    def score_tokenized(self, items: Sequence[tuple[Encoded, Encoded]]) -> NDArray[np.float32]:
        """See `TokenScorer.score_tokenized`; what several pairs share is encoded once."""
        sides = []
        for side, encoder in ((0, self), (1, self.documents or self)):
            distinct = {id(item[side]): item[side] for item in items}
            place = {key: number for number, key in enumerate(distinct)}
            rows = encoder.encode_tokenized(list(distinct.values()))
            sides.append(rows[[place[id(item[side])] for item in items]])
        values: NDArray[np.float32] = np.einsum("nd,nd->n", *sides)
        return values

    def _encode_chunk(self, texts: Sequence[str]) -> tuple[Rows, NDArray[np.int32]]:
        tokenized = self.tokenize_texts(texts)
        return self.encode_tokenized(tokenized.items), tokenized.truncated_tokens

    def _tokenize(self, texts: Sequence[str]) -> list[Encoded]:
        room = self.max_length - self.layout.extra
        return self.tokens.encode([self.prompt + text for text in texts], room)

    def tokenize_texts(self, texts: Sequence[str]) -> TokenizedPairs:
        """Texts alone as token ids; `encode_tokenized` gives the embeddings of its items."""
        encoded = self._tokenize(texts)
        lengths = [len(text.ids) + self.layout.extra for text in encoded]
        truncated_tokens = [text.length - len(text.ids) for text in encoded]
        return TokenizedPairs(
            encoded, np.array(lengths, np.int64), np.array(truncated_tokens, np.int32)
        )

    def encode_tokenized(self, encoded: Sequence[Encoded]) -> Rows:
        """One row of length one per text, in whatever company it comes."""

        def forward(batch: Numbers) -> Rows:
            return self._embed(
                [self._add_special_tokens(encoded[number]) for number in batch.tolist()]
            )

        return run_batches(
            forward,
            [len(text.ids) + self.layout.extra for text in encoded],
            width=self.dimensions,
            budget=self.budget,
            threads=1 if self.runtime.device != "cpu" else self.threads,
        )

    def _add_special_tokens(self, text: Encoded) -> NDArray[np.int32]:
        before, after = self.layout.before, self.layout.after
        return np.concatenate([np.asarray(ids, np.int32) for ids in (before, text.ids, after)])

    @cached_property
    def _skipped(self) -> int:
        """How many tokens at a text's start are not pooled."""
        if self.include_prompt or not self.prompt:
            return 0
        return len(self.layout.before) + self.tokens.encode([self.prompt], 0)[0].length

    def _embed(self, sequences: Sequence[NDArray[np.int32]]) -> Rows:
        rows = self._pool(sequences)
        for layer in self.layers:
            rows = layer(rows)
        return normalise(rows[:, : self.truncate_dim])

    def _pool(self, sequences: Sequence[NDArray[np.int32]]) -> Rows:
        """The pooled vectors of texts: zeros for one without a token, as sentence-transformers."""
        full = [number for number, ids in enumerate(sequences) if len(ids)]
        if len(full) == len(sequences):
            return self.model.pool_tokens(sequences, self.pooling, self._skipped)
        width = self.model.dimensions * len(self.pooling.split("+"))
        rows = np.zeros((len(sequences), width), np.float32)
        if full:
            some = [sequences[number] for number in full]
            rows[full] = self.model.pool_tokens(some, self.pooling, self._skipped)
        return rows


@dataclass(frozen=True)
class _Opening:
    """A folder being opened, with what was set by hand."""

    folder: Path
    max_length: int | None
    pooling: str | None
    query_prompt: str | None
    document_prompt: str | None
    truncate_dim: int | None
    threads: int | None
    run: Mapping[str, Any]
    """What runs it, as `choose_runtime` takes it."""

    def open(self) -> BiEncoder:
        """What encodes queries, and knows what encodes documents."""
        manifest = manifest_for(self.folder, "bi-encoder")
        asked, told = (encoder_layout(self.folder, task) for task in ("query", "document"))
        encoder = replace(
            self._encoder(asked, "query", manifest), document_prompt=self._prompt("document")
        )
        _report_similarity(self.folder, encoder)
        if manifest and manifest.documents:
            inner = self.folder / manifest.documents
            part = partial(BiEncoder.open, inner, threads=self.threads, **self.run)
            return self._with_documents(encoder, lambda: _document_side(part()))
        if asked.parts != told.parts:
            return self._with_documents(encoder, lambda: self._encoder(told, "document", manifest))
        return encoder

    def _with_documents(self, encoder: BiEncoder, part: Callable[[], BiEncoder]) -> BiEncoder:
        return replace(
            encoder,
            open_documents=cache(partial(_open_documents, part, self.folder, encoder.dimensions)),
        )

    def _encoder(
        self, layout: EncoderLayout, task: Task, manifest: ModelManifest | None
    ) -> BiEncoder:
        place = layout.transformer
        runtime = choose_runtime("bi-encoder", read_config(place), place, **self.run)
        dtype = str(self.run["dtype"])
        (model, tokens), runtime = open_in_precision(partial(_open, place), runtime, dtype)
        check_truncation_side(place)
        special = tokens.single_layout()
        length = (
            self.max_length
            or (manifest.max_length if manifest else max_seq_length(layout, task))
            or default_length(layout.transformer, model.longest)
        )
        if not special.extra < length <= model.longest:
            raise InputError(
                f"cannot truncate texts at {length} tokens",
                hint=f"this model takes {special.extra + 1} to {model.longest} tokens",
            )
        pools = isinstance(model, OnnxBiEncoder) and model.pools  # then layers are in the file
        pooling = "mean" if pools else self.pooling or pooling_of(self.folder, manifest, task)
        return BiEncoder(
            model, tokens, special, length, check_pooling(pooling), self.threads,
            tokens_per_batch(runtime.device),
            origin=self._origin(runtime),
            prompt=self._prompt(task),
            include_prompt=layout.include_prompt,
            layers=() if pools else read_layers(layout.layers),
            truncate_dim=self.truncate_dim or layout.truncate_dim,
            runtime=runtime,
        )  # fmt: skip

    def _prompt(self, task: Task) -> str:
        """What is said by hand, else by the manifest, else by the folder."""
        by_hand = self.query_prompt if task == "query" else self.document_prompt
        return prompts_of(self.folder)[task == "document"] if by_hand is None else by_hand

    def _origin(self, runtime: Runtime) -> Origin:
        return Origin.of(
            "bi-encoder", self.folder, runtime.backend, runtime.dtype, max_length=self.max_length,
            pooling=self.pooling, query_prompt=self.query_prompt,
            document_prompt=self.document_prompt, truncate_dim=self.truncate_dim,
        )  # fmt: skip


def prompts_of(folder: Path) -> tuple[str, str]:
    """What a folder says stands before every query, and before every document."""
    manifest = find_model_manifest(folder)
    if manifest and manifest.documents:
        return _prompt_of(folder, "query"), prompts_of(folder / manifest.documents)[1]
    return _prompt_of(folder, "query"), _prompt_of(folder, "document")


def _prompt_of(folder: Path, task: Task) -> str:
    manifest = find_model_manifest(folder)
    recorded = None
    if manifest:
        recorded = manifest.query_prompt if task == "query" else manifest.document_prompt
    return encoder_layout(folder, task).prompt if recorded is None else recorded


def _document_side(encoder: BiEncoder) -> BiEncoder:
    return encoder.documents or encoder


def _report_similarity(folder: Path, encoder: BiEncoder) -> None:
    """Say so where the folder was made for another similarity than the cosine."""
    name = sbert_config(folder).get("similarity_fn_name") or "cosine"
    if name != "cosine" and not any(isinstance(layer, Normalize) for layer in encoder.layers):
        _log.warning(
            "%s compares embeddings by %s; tamis brings them to length one and compares by cosine",
            folder, name,
        )  # fmt: skip


def _open_documents(part: Callable[[], BiEncoder], path: Path, dimensions: int) -> BiEncoder:
    documents = part()
    if documents.dimensions != dimensions:
        raise InputError(
            f"{path} gives queries {dimensions} dimensions and documents {documents.dimensions}",
            hint="its parts are of different models: copy or train it again",
        )
    return documents


def _open(folder: Path, runtime: Runtime) -> tuple[BiEncoderModel, Tokens]:
    if runtime.is_onnx:
        session = Session.open(folder, runtime.backend, "bi-encoder")
        return OnnxBiEncoder(session), open_tokens(folder, read_config(folder))
    if runtime.backend == "transformers":
        from tamis.backends.transformers import open_bi_encoder

        opened = open_bi_encoder(folder, runtime.device, runtime.dtype, runtime.trust_remote_code)
        return opened, opened.network.tokens
    from tamis.backends.fast import FastBiEncoder, build

    check_memory(folder, runtime.dtype, runtime.device)
    loaded = load(folder)
    return FastBiEncoder(build(loaded)), loaded.tokens


def length_of(folder: Path, manifest: ModelManifest | None) -> int | None:
    """The length in tokens at which a folder says texts are truncated, if it says."""
    if manifest:
        return manifest.max_length
    return max_seq_length(encoder_layout(folder, "query"), "query")


def pooling_of(folder: Path, manifest: ModelManifest | None, task: Task = "query") -> str:
    """How a folder says token vectors are pooled."""
    if manifest and manifest.pooling:
        return manifest.pooling
    pooling = encoder_layout(folder, task).pooling
    if pooling is None:
        new = f"{folder.resolve().name}-imported"
        raise InputError(
            f"{folder} does not say how token vectors are pooled",
            hint="say how, mean or cls, and use the new folder: "
            + command(
                "import-model", folder, "-o", new, "--kind", "bi-encoder", "--pooling", "mean"
            )
            + '; in Python pooling="mean"',
        )
    return pooling
