"""A bi-encoder that remembers the vectors of texts, so that each is run once in many calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tamis.scorers.bi_encoder import BiEncoder
from tamis.types import Pairs, Scores, Spec
from tamis.types.pipeline import Scale

MOST = 200_000
"""How many vectors are kept at most: some 300 MB of them; then all are forgotten."""
Rows = NDArray[np.float32]
Cuts = NDArray[np.int32]


@dataclass(eq=False)
class Remembering:
    """Scores as the bi-encoder does. Worth it where the same documents come again and again.

    `documents` is who remembers the vectors of texts, where the model leaves these to another;
    several models that share their documents can share it.
    """

    model: BiEncoder
    most: int = MOST
    scale: Scale = "cosine"
    documents: Remembering | None = None
    _known: dict[str, tuple[Rows, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.model.documents is not None and self.documents is None:
            self.documents = Remembering(self.model.documents, self.most)

    def spec(self) -> Spec:
        """The spec of the model."""
        return self.model.spec()

    def score(self, pairs: Pairs) -> Scores:
        """The cosine of every pair, and how many tokens of it were cut."""
        queries, query_cut = self.encode_counting(pairs.queries)
        texts, text_cut = (self.documents or self).encode_counting(pairs.texts)
        query, text = pairs.index.T
        values = np.einsum("nd,nd->n", queries[query], texts[text])
        return Scores(values, query_cut[query] + text_cut[text])

    def encode_counting(self, texts: Sequence[str]) -> tuple[Rows, Cuts]:
        """The vectors of these texts, and how many tokens of each were cut."""
        wanted = dict.fromkeys(texts)
        new = [text for text in wanted if text not in self._known]
        if len(self._known) + len(new) > self.most:
            self._known.clear()
            new = list(wanted)
        if new:
            self.remember(new, *self.model.encode_counting(new))
        rows = np.empty((len(texts), self.model.dimensions), np.float32)
        cuts = np.empty(len(texts), np.int32)
        for number, text in enumerate(texts):
            rows[number], cuts[number] = self._known[text]
        return rows, cuts

    def remember(self, texts: Sequence[str], vectors: Rows, cut: Cuts) -> None:
        """Keep vectors that the model made of texts before, and how many tokens were cut."""
        self._known.update(zip(texts, zip(vectors, cut.tolist(), strict=True), strict=True))
