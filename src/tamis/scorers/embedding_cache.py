"""A bi-encoder that remembers the embeddings of texts, so that each is run once in many calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tamis.scorers.bi_encoder import BiEncoder
from tamis.search.cached_encoder import CachedEncoder
from tamis.types import Pairs, Scores, Spec
from tamis.types.pipeline import Scale

MAX_EMBEDDINGS = 200_000
"""Some 300 MB of them; beyond that the cache is emptied."""
Rows = NDArray[np.float32]
TruncatedTokens = NDArray[np.int32]


@dataclass(eq=False)
class EmbeddingCache:
    """Scores as the bi-encoder does. Worth it where the same documents come again and again.

    `documents` is the cache of the model that encodes documents, where that is another one;
    several models that share their documents can share it.
    """

    model: BiEncoder
    max_embeddings: int = MAX_EMBEDDINGS
    scale: Scale = "cosine"
    documents: EmbeddingCache | None = None
    on_disk: CachedEncoder | None = None
    """Where embeddings are looked up, and kept for later."""
    _embeddings: dict[str, tuple[Rows, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.model.documents is not None and self.documents is None:
            self.documents = EmbeddingCache(self.model.documents, self.max_embeddings)

    def spec(self) -> Spec:
        """The spec of the model."""
        return self.model.spec()

    def score(self, pairs: Pairs) -> Scores:
        """The cosine of every pair, and how many of its tokens were truncated."""
        queries, truncated_query_tokens = self.encode_with_truncation(pairs.queries)
        texts, truncated_text_tokens = (self.documents or self).encode_with_truncation(pairs.texts)
        query, text = pairs.index.T
        values = np.einsum("nd,nd->n", queries[query], texts[text])
        return Scores(values, truncated_query_tokens[query] + truncated_text_tokens[text])

    def encode_with_truncation(self, texts: Sequence[str]) -> tuple[Rows, TruncatedTokens]:
        """The embeddings of these texts, and how many tokens of each were truncated."""
        distinct = dict.fromkeys(texts)
        new = [text for text in distinct if text not in self._embeddings]
        if len(self._embeddings) + len(new) > self.max_embeddings:
            self._embeddings.clear()
            new = list(distinct)
        if new:
            self.remember(new, *(self.on_disk or self.model).encode_with_truncation(new))
        rows = np.empty((len(texts), self.model.dimensions), np.float32)
        truncated_tokens = np.empty(len(texts), np.int32)
        for number, text in enumerate(texts):
            rows[number], truncated_tokens[number] = self._embeddings[text]
        return rows, truncated_tokens

    def remember(
        self, texts: Sequence[str], embeddings: Rows, truncated_tokens: TruncatedTokens
    ) -> None:
        """Keep embeddings that the model made before, and how many tokens were truncated."""
        self._embeddings.update(
            zip(texts, zip(embeddings, truncated_tokens.tolist(), strict=True), strict=True)
        )
