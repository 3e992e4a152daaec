"""The models that are being trained, and where they start: opened here, run by `_modules`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tamis.backends.protocols import KINDS, Kind
from tamis.backends.tokens import TokenIds
from tamis.backends.weights import Tensor, load
from tamis.errors import InputError, require
from tamis.models.base_models import find_base, model_packages
from tamis.scorers.bi_encoder import BiEncoder
from tamis.scorers.embedding_cache import EmbeddingCache
from tamis.scorers.model_manifest import ModelManifest, documents_of
from tamis.training._gradient import accumulate
from tamis.training._init_weights import (
    TrainingStart,
    init_bi_encoder,
    init_cross_encoder,
    init_target_words,
)
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
    """A model being trained: a torch module whose parameters have their Hugging Face names."""

    manifest: ModelManifest
    head_names: frozenset[str]
    """The parameters that take the head's learning rate."""
    training: bool
    documents: EmbeddingCache | None
    """The embeddings of texts, where only the reading of queries is learnt."""

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

    def load_state_dict(self, weights: Mapping[str, Tensor]) -> Any:
        """Take these weights."""


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
) -> Trainable:
    """A model to train, started from a folder, an installed package or a hub id.

    What is not given is the base's own: outputs (one where it has no head), length, dropout, words,
    template. Where a head is missing or `fresh_head` is set, it is drawn with the seed: the
    dense layers of a cross-encoder, the two words' rows of a language model's output. With
    `random_weights` everything is. With `fixed_documents` a bi-encoder learns to read queries only:
    texts keep the embeddings of the base, from `embedding_cache` or made on so many `threads`.
    """
    require("torch", *model_packages(base))
    if dropout is not None and not 0 <= dropout < 1:
        raise InputError(f"cannot drop a share of {dropout}", hint="say 0 to less than 1")
    if document_tokens is not None and (document_tokens < 1 or scorer != "cross-encoder"):
        raise InputError(
            f"cannot truncate the documents of a {scorer} at {document_tokens} tokens",
            hint="say 1 or more, and only for a cross-encoder",
        )
    loaded = load(find_base(base))
    start = TrainingStart(loaded, dropout, document_tokens, fresh_head, random_weights, seed)
    from tamis.training._modules import (
        BiEncoderModule,
        CrossEncoderModule,
        QueryEncoderModule,
        Seq2SeqModule,
    )

    if scorer == "cross-encoder":
        return CrossEncoderModule(init_cross_encoder(start, outputs, max_length))
    if scorer == "bi-encoder":
        if fresh_head:
            raise InputError("a bi-encoder has no head", hint="leave fresh_head out")
        initial = init_bi_encoder(start, max_length)
        documents = documents_of(loaded.folder)
        if fixed_documents and random_weights:
            raise InputError(
                "random weights cannot learn to read queries for documents that others encode",
                hint="leave fixed_documents out, or the random weights",
            )
        if fixed_documents:
            cache = embedding_cache or EmbeddingCache(BiEncoder.open(documents, threads=threads))
            return QueryEncoderModule(initial, documents, cache)
        if documents != loaded.folder:
            raise InputError(
                f"{loaded.folder} only learnt to read queries and leaves documents to another "
                "model: training both would break what it learnt",
                hint="train it by the recipe query-encoder, or begin with its base",
            )
        return BiEncoderModule(initial)
    if scorer == "target-words":
        return Seq2SeqModule(init_target_words(start, words, template, max_length), vocabulary)
    raise InputError(f"tamis does not train a {scorer}", hint=f"it trains {', '.join(KINDS)}")


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
