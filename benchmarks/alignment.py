"""Alignment and lexical scores of the pairs in a BM25 run, against plain numpy and gensim.

    OPENBLAS_NUM_THREADS=1 TAMIS_DATA=... TAMIS_MODELS=... python -m benchmarks alignment

4,300 pairs of trec-dl19 (43 queries, their first 100 passages by BM25), GloVe of 50 dimensions, one
thread. "words" starts from numbers of words that were stored, "text" from the texts themselves.
numpy has a cosine matrix a pair; gensim looks words up in its `KeyedVectors` and multiplies their
unit vectors, also a pair at a time; both split words as tamis does and must agree with it.
"""

import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.timing import interleaved
from tamis.collection.readers import open_collection
from tamis.collection.runs import read_run
from tamis.errors import require
from tamis.scorers.alignment import Alignment, WordTable
from tamis.scorers.lexical import Lexical
from tamis.scorers.word_counts import WordCounts
from tamis.scorers.word_vectors import WordVectors, read_vectors
from tamis.search import Index
from tamis.search.build import searched_text
from tamis.text.analysis import analyzer
from tamis.types import Pairs

Words = list[NDArray[np.int64]]
Values = NDArray[np.float64]


def read_pairs(folder: Path) -> Pairs:
    """The pairs of the run, each distinct text once."""
    collection = open_collection(folder)
    run = read_run(folder / "bm25-top100.trec").with_queries(collection.queries)
    texts = {document.id: searched_text(document) for document in collection.documents}
    query = np.repeat(np.arange(len(run)), run.sizes())
    index = np.stack([query, run.doc], 1).astype(np.int32)
    assert run.queries.texts is not None
    return Pairs(run.queries.texts, [texts[doc_id] for doc_id in run.docs], index)


class Plain:
    """The equations in numpy: a matrix of cosines a pair."""

    def __init__(self, pairs: Pairs, vectors: WordVectors, counts: WordCounts) -> None:
        self.pairs, self.split = pairs, analyzer("unicode").terms
        every = [self.split(text) for text in (*pairs.queries, *pairs.texts)]
        words = list(dict.fromkeys(word for text in every for word in text))
        self.number = {word: number for number, word in enumerate(words)}
        known, units = vectors.units(words)
        self.units = np.zeros((len(words), vectors.dimensions), np.float32)
        self.units[known] = units
        self.idf = counts.idf(words)

    def read(self, texts: Any) -> Words:
        return [np.array([self.number[word] for word in self.split(text)], int) for text in texts]

    def score(self, queries: Words, texts: Words) -> Values:
        values = np.zeros(len(self.pairs))
        for row, (query, text) in enumerate(self.pairs.index.tolist()):
            asked, found = queries[query], texts[text]
            near = self.units[asked] @ self.units[found].T
            near[asked[:, None] == found] = 1
            values[row] = near.max(1) @ self.idf[asked]
        return values


class Gensim:
    """The same from strings, with gensim's table of words and unit vectors."""

    def __init__(self, pairs: Pairs, vectors: WordVectors, counts: WordCounts) -> None:
        self.pairs, self.split = pairs, analyzer("unicode").terms
        words = list(vectors.words)
        self.table = require("gensim.models").KeyedVectors(vectors.dimensions)
        self.table.add_vectors(words, np.asarray(vectors.matrix[vectors.row]))
        self.units = self.table.get_normed_vectors()
        asked = list({word for query in pairs.queries for word in self.split(query)})
        self.idf = dict(zip(asked, counts.idf(asked).tolist(), strict=True))

    def rows(self, words: list[str]) -> NDArray[np.float32]:
        place = self.table.key_to_index
        rows = np.array([place.get(word, -1) for word in words])
        return np.where((rows >= 0)[:, None], self.units[rows], 0)

    def score(self) -> Values:
        queries = [self.split(query) for query in self.pairs.queries]
        texts = [self.split(text) for text in self.pairs.texts]
        values = np.zeros(len(self.pairs))
        for row, (query, text) in enumerate(self.pairs.index.tolist()):
            asked, found = queries[query], texts[text]
            best = (self.rows(asked) @ self.rows(found).T).max(1)
            there = set(found)
            values[row] = sum(
                self.idf[word] * (1 if word in there else near)
                for word, near in zip(asked, best.tolist(), strict=True)
            )
        return values


def show(title: str, pairs: int, seconds: dict[str, float], ours: str) -> None:
    """Print pairs a second, and how many times as many tamis does."""
    print(f"\n{title}")
    for name, value in seconds.items():
        ratio = "" if name == ours else f"  tamis {value / seconds[ours]:6.1f} times as many"
        print(f"  {name:<16} {pairs / value:10,.0f} pairs a second{ratio}", flush=True)


def main(rounds: int = 9) -> None:
    """Measure and print."""
    data, models = Path(os.environ["TAMIS_DATA"]), Path(os.environ["TAMIS_MODELS"])
    pairs = read_pairs(data / "trec-dl19")
    documents = open_collection(data / "trec-dl19").documents
    vectors, counts = read_vectors(models / "glove50"), WordCounts.of(documents)
    scorer, table = Alignment(vectors, counts), WordTable(vectors, counts)
    asked, found = table.weigh_queries(pairs.queries), table.read(pairs.texts)
    plain, gensim = Plain(pairs, vectors, counts), Gensim(pairs, vectors, counts)
    read = plain.read(pairs.queries), plain.read(pairs.texts)
    values = scorer.score(pairs).values
    for peer in (plain.score(*read), gensim.score()):
        np.testing.assert_allclose(values, peer, rtol=1e-5, atol=1e-5)
    count = len(pairs)
    stored = {
        "tamis": lambda: table.score(asked, found, pairs.index),
        "numpy": lambda: plain.score(*read),
    }
    show("alignment from words", count, interleaved(stored, rounds), "tamis")
    whole = {
        "tamis": lambda: scorer.score(pairs),
        "numpy": lambda: plain.score(plain.read(pairs.queries), plain.read(pairs.texts)),
        "gensim": gensim.score,
    }
    show("alignment from text", count, interleaved(whole, rounds), "tamis")
    with TemporaryDirectory() as folder:
        index = Index.build(documents, Path(folder) / "index")
        rows = [(pairs.queries[q], pairs.texts[t]) for q, t in pairs.index.tolist()]
        lexical = {
            "tamis": lambda: Lexical(index).score(pairs),
            "score_text": lambda: [index.score_text(*row) for row in rows],
        }
        show("BM25 from text", count, interleaved(lexical, min(rounds, 3)), "tamis")
    print("\n  same scores as the peers to 1e-5")


if __name__ == "__main__":
    main()
