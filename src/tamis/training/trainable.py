"""The models that are being trained, and where they start: opened here, run by `_modules`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tamis.backends.choice import Runtime, choose_runtime, open_in_precision
from tamis.backends.memory import check_memory
from tamis.backends.protocols import KINDS, Backend, Kind
from tamis.backends.tokens import TokenIds
from tamis.backends.weights import Tensor
from tamis.errors import InputError, require
from tamis.models.base_models import find_base, model_packages
from tamis.models.model_kinds import model_config
from tamis.scorers.bi_encoder import BiEncoder
from tamis.scorers.embedding_cache import EmbeddingCache
from tamis.scorers.model_manifest import ModelManifest, documents_of
from tamis.scorers.sbert_layout import (
    encoder_layout,
    modules_of,
    sbert_config,
    transformer_folder,
)
from tamis.training._gradient import accumulate
from tamis.training.precision import DEFAULT_PLACEMENT, Placement, Precision
from tamis.types import Scorer
from tamis.types.pipeline import Scale

__all__ = ["Tokenised", "Trainable", "accumulate", "open_trainable", "relevance"]


@dataclass(frozen=True, eq=False)
class Tokenised:
    """A pair as a model reads it, and how many of its tokens were truncated."""

    ids: TokenIds
    segments: TokenIds
    truncated_tokens: int
    embedding: NDArray[np.float32] | None = None
    """Of the text, where it is given: then only the query is run."""

    def __len__(self) -> int:
        return len(self.ids)


class Trainable(Protocol):
    """A model being trained: its parameters have their Hugging Face names."""

    manifest: ModelManifest
    head_names: frozenset[str]
    """The parameters that take the head's learning rate."""
    documents: EmbeddingCache | None
    """The embeddings of texts, where only the reading of queries is learnt."""

    @property
    def training(self) -> bool:
        """Whether dropout is on."""

    @property
    def is_parallel(self) -> bool:
        """Whether micro-batches may run side by side."""

    @property
    def backend(self) -> Backend:
        """What runs it."""

    @property
    def precision(self) -> Precision:
        """Where and how its forward is run."""

    def prepare(self, queries: Sequence[str], texts: Sequence[str]) -> list[Tokenised]:
        """The n-th query with the n-th text, as the scorer would read them."""

    def __call__(self, sequences: Sequence[Tokenised], generator: Any = None) -> Tensor:
        """One row of scores per sequence: the outputs of a cross-encoder; the stretched cosine of a
        bi-encoder; the logits of two words, relevant first, or of the whole vocabulary. Dropout
        draws from the generator, else from one that torch's own seeds.
        """

    def scorer(self, *, threads: int | None = None) -> Scorer:
        """A scorer with the weights as they are now; a step of training may change them."""

    def save(
        self, folder: Path, *, scale: Scale | None = None, facts: Mapping[str, Any] | None = None
    ) -> None:
        """Write a model folder that tamis, transformers and sentence-transformers open.

        `scale` is what the trained scores are, where it is not the default; `facts` go into
        `tamis.json`.
        """

    def train(self, mode: bool = True) -> Any:
        """Whether dropout is on."""

    def parameters(self) -> Iterator[Tensor]:
        """What is learnt."""

    def named_parameters(self) -> Iterator[tuple[str, Tensor]]:
        """What is learnt, by name."""

    def state_dict(self) -> dict[str, Tensor]:
        """The weights by name."""

    def restore(self, folder: Path) -> None:
        """Take the weights of a folder that `save` wrote."""


def open_trainable(
    base: Path | str,
    *,
    scorer: Kind = "cross-encoder",
    outputs: int | None = None,
    max_length: int | None = None,
    document_tokens: int | None = None,
    dropout: float | None = None,
    words: Sequence[str | int] | None = None,
    template: str | None = None,
    vocabulary: bool = False,
    fresh_head: bool = False,
    fixed_documents: bool = False,
    random_weights: bool = False,
    seed: int = 0,
    embedding_cache: EmbeddingCache | None = None,
    threads: int | None = None,
    placement: Placement = DEFAULT_PLACEMENT,
    device: str | None = None,
) -> Trainable:
    """A model to train, started from a folder, an installed package or a hub id.

    What is not given is the base's own: outputs (one where it has no head), length, dropout, words,
    template. Where a head is missing or `fresh_head` is set, it is drawn with the seed: the
    dense layers of a cross-encoder, the two words' rows of a language model's output. With
    `random_weights` everything is. With `fixed_documents` a bi-encoder learns to read queries only:
    texts keep the embeddings of the base, from `embedding_cache` or made on so many `threads`.

    Our own forward learns where it has the architecture, on a CPU in float32; else, and where
    `placement` says so, that of transformers. `device` is that of this process where there are
    several.
    """
    require("torch", *model_packages(base))
    if dropout is not None and not 0 <= dropout < 1:
        raise InputError(f"cannot drop a share of {dropout}", hint="say 0 to less than 1")
    if document_tokens is not None and (document_tokens < 1 or scorer != "cross-encoder"):
        raise InputError(
            f"cannot truncate the documents of a {scorer} at {document_tokens} tokens",
            hint="say 1 or more, and only for a cross-encoder",
        )
    if scorer not in KINDS:
        raise InputError(f"tamis does not train a {scorer}", hint=f"it trains {', '.join(KINDS)}")
    if scorer == "bi-encoder" and fresh_head:
        raise InputError("a bi-encoder has no head", hint="leave fresh_head out")
    folder = find_base(base, trust_remote_code=placement.trust_remote_code)
    if reason := why_not_trained(folder, scorer):
        raise InputError(
            f"{folder} is {reason}, which tamis does not train",
            hint="use it as it is, or train a base such as all-MiniLM-L6-v2",
        )
    if scorer == "bi-encoder":
        _check_sides(folder, fixed_documents, random_weights)
    runtime = training_runtime(folder, scorer, placement, device)
    check_memory(transformer_folder(folder), "float32", runtime.device, training=True)
    if fixed_documents and scorer == "bi-encoder" and embedding_cache is None:
        encoder = BiEncoder.open(
            documents_of(folder), threads=threads, device=runtime.device, dtype="float32",
            trust_remote_code=placement.trust_remote_code,
        )  # fmt: skip
        embedding_cache = EmbeddingCache(encoder.documents or encoder)
    from tamis.training._openings import Opening

    def open_it(runtime: Runtime) -> Trainable:
        opening = Opening(
            folder, scorer, runtime, placement.gradient_checkpointing, dropout, fresh_head,
            random_weights, seed,
        )  # fmt: skip
        if scorer == "cross-encoder":
            return opening.cross_encoder(outputs, max_length, document_tokens)
        if scorer == "target-words":
            return opening.target_words(words, template, max_length, vocabulary)
        if not fixed_documents or embedding_cache is None:
            return opening.bi_encoder(max_length)
        return opening.query_encoder(max_length, documents_of(folder), embedding_cache)

    return open_in_precision(open_it, runtime, placement.dtype)[0]


def training_runtime(
    folder: Path, kind: Kind, placement: Placement, device: str | None = None
) -> Runtime:
    """What trains a base, where, and in which precision."""
    place, dtype = placement.resolved(device)
    backend = placement.backend or ("transformers" if placement.gradient_checkpointing else None)
    return choose_runtime(
        kind, model_config(folder), folder, backend, place, dtype, placement.trust_remote_code
    )


def why_not_trained(folder: Path, kind: Kind) -> str:
    """Why a base can be used but not trained; empty where it can be trained."""
    is_cross_encoder = sbert_config(folder).get("model_type") == "CrossEncoder"
    if kind == "cross-encoder" and is_cross_encoder and len(modules_of(folder)) > 1:
        return "a cross-encoder whose score is made by modules after the transformer"
    if kind != "bi-encoder":
        return ""
    asked, told = (encoder_layout(folder, task) for task in ("query", "document"))
    if asked.parts != told.parts:
        return "a bi-encoder that reads queries and documents by different modules"
    return ""


def _check_sides(folder: Path, fixed_documents: bool, random_weights: bool) -> None:
    """Refuse what cannot be learnt of queries and documents, each alone or both."""
    if fixed_documents and random_weights:
        raise InputError(
            "random weights cannot learn to read queries for documents that others encode",
            hint="leave fixed_documents out, or the random weights",
        )
    if not fixed_documents and documents_of(folder) != folder:
        raise InputError(
            f"{folder} only learnt to read queries and leaves documents to another "
            "model: training both would break what it learnt",
            hint="train it by the recipe query-encoder, or begin with its base",
        )


def relevance(manifest: ModelManifest, scores: Tensor) -> Tensor:
    """One number per row of a model's scores, the higher the more relevant: its only output, or by
    how much the logit of relevant is above the other.

    >>> import torch
    >>> relevance(ModelManifest("cross-encoder", 512, "probability", 2), torch.tensor([[1.0, 4.0]]))
    tensor([3.])
    """
    if manifest.scorer == "target-words":
        columns = manifest.word_ids if scores.shape[1] > 2 else (0, 1)
        yes, no = scores[:, list(columns or ())].T
        return yes - no
    return scores[:, 0] if scores.shape[1] == 1 else scores[:, 1] - scores[:, 0]
