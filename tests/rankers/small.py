"""What the tests of rankers share: an embedder of a few words, and candidates to learn from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tamis.rankers.features import FeatureSource, Floats
from tamis.registry import Opening
from tamis.types import Document, Qrels, Queries, Query, Run, Spec

WORDS = "sieve drum net grain flour fish river sort".split()


@dataclass(frozen=True)
class FakeEmbedder:
    """How often each of a few words occurs, over the number of words; the last number is 1."""

    words: tuple[str, ...] = tuple(WORDS[:7])

    @property
    def dimension(self) -> int:
        return len(self.words) + 1

    def embed(self, texts: Sequence[str]) -> Floats:
        rows = [
            [text.split().count(word) / max(len(text.split()), 1) for word in self.words] + [1.0]
            for text in texts
        ]
        return np.array(rows, np.float32).reshape(len(texts), self.dimension)

    def to_json(self) -> dict[str, Any]:
        return {"text_embedder": "fake", "version": 1, "words": list(self.words)}


def open_fake(values: Spec, opening: Opening) -> FakeEmbedder:
    return FakeEmbedder(tuple(values["words"]))


def small_candidates(
    num_queries: int = 12, num_candidates: int = 9, seed: int = 0
) -> tuple[Run, Qrels, dict[str, Document]]:
    """Queries of one word, candidates of four; those that contain it are relevant, one at least.

    The column `lexical_score` is the number of occurrences with a little noise, `noisy_score` with
    much.
    """
    rng = np.random.default_rng(seed)
    documents: dict[str, Document] = {}
    scores: dict[str, dict[str, float]] = {}
    judged: dict[str, dict[str, int]] = {}
    queries = []
    for number in range(num_queries):
        word = WORDS[number % 7]
        query = f"q{number:02d}"
        queries.append(Query(query, word))
        scores[query], judged[query] = {}, {}
        for candidate in range(num_candidates):
            name = f"d{number:02d}-{candidate}"
            others = [other for other in WORDS if other != word]
            words = list(rng.choice(others, 4))
            if candidate == 0:
                words[1] = word
            judged[query][name] = int(word in words)
            documents[name] = Document(name, " ".join(words))
            scores[query][name] = float(rng.normal())
    run = Run.from_dict(scores).with_queries(Queries.of(queries))
    qrels = Qrels.from_dict(judged)
    texts = [documents[name].text for name in run.docs.take(run.doc)]
    query_of = np.repeat(np.arange(len(run)), run.sizes())
    assert run.queries.texts is not None
    counts = [
        text.split().count(run.queries.texts[n]) for n, text in zip(query_of, texts, strict=True)
    ]
    noise = np.random.default_rng(seed + 1).normal(0, 1, len(counts))
    columns = {"lexical_score": counts + noise / 100, "noisy_score": counts + noise}
    return run.with_extra(**columns), qrels, documents


def embedded(documents: dict[str, Document], *columns: str) -> FeatureSource:
    return FeatureSource(FakeEmbedder(), documents, columns)
