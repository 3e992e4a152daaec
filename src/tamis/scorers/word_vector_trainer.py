"""Word vectors trained on a collection's own documents: fastText, through gensim."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass

import numpy as np

from tamis.errors import InputError, require
from tamis.scorers.subwords import Subwords
from tamis.scorers.word_counts import WordCounts
from tamis.scorers.word_vectors import WordVectors
from tamis.search.build import searched_text
from tamis.text.analysis import analyzer
from tamis.types import Document

WORDS_PER_PIECE = 10_000
"""Gensim drops the words of a text beyond this, so longer texts are given in pieces."""


@dataclass(frozen=True)
class FastText:
    """How to train: skip-grams with fastText's default settings, but fewer buckets for less memory.

    `least` is how often a word must occur to be trained on by itself; the vectors of rarer words
    are made of their pieces, of `shortest` to `longest` characters.
    """

    dimensions: int = 100
    epochs: int = 5
    window: int = 5
    negative: int = 5
    rate: float = 0.05
    least: int = 5
    shortest: int = 3
    longest: int = 6
    buckets: int = 1 << 18
    seed: int = 0


def train_vectors(
    documents: Iterable[Document],
    settings: FastText | None = None,
    *,
    words: str = "unicode",
    subwords: bool = False,
) -> WordVectors:
    """Vectors of every word of some documents, which are gone through several times.

    One thread: the same documents, settings and version of gensim give the same vectors. `words`
    names the analyzer that finds the words. With `subwords` the vectors of n-grams are kept, of
    which those of words that no document has are made.
    """
    settings = settings or FastText()
    if iter(documents) is documents:
        raise InputError(
            "the documents can be gone through only once",
            hint="give a list, a collection's documents or an index",
        )
    counts = WordCounts.of(documents, words)
    gensim = require("gensim")
    model = require("gensim.models").FastText(**_arguments(settings))
    corpus = _Corpus(documents, words)
    model.build_vocab(corpus_iterable=corpus)
    if not len(model.wv):
        raise InputError(
            f"no word occurs {settings.least} times in {counts.num_documents:,} documents",
            hint="give more documents, or train on rarer words (least)",
        )
    model.train(corpus_iterable=corpus, total_examples=model.corpus_count, epochs=settings.epochs)
    facts = {
        "source": "trained", "with": f"gensim {gensim.__version__} FastText", "analyzer": words,
        "documents": counts.num_documents, "settings": asdict(settings),
    }  # fmt: skip
    if subwords:
        ngrams = Subwords(model.wv.vectors_ngrams, settings.shortest, settings.longest)
        return WordVectors.of(model.wv.index_to_key, model.wv.vectors_vocab, facts, subwords=ngrams)
    vocabulary = counts.words.take(np.arange(len(counts.words)))
    return WordVectors.of(vocabulary, np.stack([model.wv[word] for word in vocabulary]), facts)


def _arguments(settings: FastText) -> dict[str, object]:
    return {
        "vector_size": settings.dimensions,
        "window": settings.window,
        "negative": settings.negative,
        "alpha": settings.rate,
        "min_count": settings.least,
        "min_n": settings.shortest,
        "max_n": settings.longest,
        "bucket": settings.buckets,
        "seed": settings.seed,
        "sg": 1,
        "workers": 1,
    }


class _Corpus:
    """The words of documents, in pieces, anew each time it is gone through."""

    def __init__(self, documents: Iterable[Document], words: str) -> None:
        self._documents, self._terms = documents, analyzer(words).terms

    def __iter__(self) -> Iterator[list[str]]:
        for document in self._documents:
            words = self._terms(searched_text(document))
            for start in range(0, len(words), WORDS_PER_PIECE):
                yield words[start : start + WORDS_PER_PIECE]
