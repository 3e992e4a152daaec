"""What a ranker that matches terms sees of candidates: their terms, idf, overlap, previous score.

Terms are numbered once a distinct query and document. What is learnt from them is left to rankers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis.errors import InputError
from tamis.pipeline.document_lookup import Documents
from tamis.pipeline.documents import all_documents, documents_spec
from tamis.rankers._overlap import add_overlaps
from tamis.rankers.features import document_texts, query_texts, read_column, z_scores
from tamis.rankers.text_embeddings import check_vectors, vector_digests
from tamis.registry import Opening, absolute, check_keys
from tamis.scorers.bag_of_words import text_pieces
from tamis.scorers.word_counts import WordCounts
from tamis.scorers.word_vectors import MIN_NORM, ROWS_PER_CHECK, WordVectors, read_vectors
from tamis.text.analysis import Bulk, analyzer
from tamis.types import Run, Spec

Floats = NDArray[np.float32]
Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
NUM_FEATURES = 4
"""The previous score and three overlaps."""
COUNTS_FILE, UNKNOWN_FILE = "words.parquet", "unknown.npy"


@dataclass(frozen=True, eq=False)
class CandidateTerms:
    """The rows of a run by terms: a term is a row of `vectors`, 0 is none and has a vector of 0."""

    vectors: Floats
    query_terms: Ints
    """(queries, max_query_terms), zeros after the last term; `query_idf` likewise."""
    query_idf: Floats
    query_lengths: Ints
    document_terms: Ints
    """Document n has those from `document_offsets[n]`, `document_lengths[n]` of them."""
    document_offsets: Longs
    document_lengths: Ints
    query: Longs
    """Of each row its query; `document` likewise."""
    document: Longs
    features: Floats
    """Of each row the z-score of its previous score, and the three overlaps."""

    def __len__(self) -> int:
        return len(self.query)

    def documents(self, rows: Longs) -> Ints:
        """The terms of the documents of some rows, zeros after the shorter ones."""
        document = self.document[rows]
        lengths = self.document_lengths[document]
        place = np.arange(lengths.max(initial=0))
        inside = place < lengths[:, None]
        position = np.where(inside, self.document_offsets[document][:, None] + place, 0)
        terms: Ints = np.where(inside, self.document_terms[position], 0)
        return terms


@dataclass(frozen=True, eq=False)
class TermSource:
    """Word vectors, the documents of candidates, and the column of a run that is the score before.

    `counts`, by which terms are weighted (idf), are taken from all documents unless they are given;
    so is `unknown`, the vector of words without one, from the mean of all vectors. Words are those
    of the analyzer `unicode`: in lower case, not stemmed, stop words included.
    """

    vectors: WordVectors
    documents: Documents
    column: str = "score"
    path: Path | None = None
    """The file or folder that the vectors were read from, if they were."""
    counts: WordCounts | None = None
    unknown: Floats | None = None

    @classmethod
    def read(cls, path: Path | str, documents: Documents, *, column: str = "score") -> TermSource:
        """By the word vectors of a file or folder; see `read_vectors`."""
        return cls(read_vectors(path), documents, column, Path(path))

    def complete(self) -> TermSource:
        """The same with `counts` and `unknown`: documents are read once, and all vectors."""
        if self.counts is None and isinstance(self.documents, Iterator):
            raise InputError(
                "the documents can be gone through only once",
                hint="give a list, a collection or an index",
            )
        counts = self.counts or WordCounts.of(all_documents(self.documents))
        unknown = mean_vector(self.vectors) if self.unknown is None else self.unknown
        return replace(self, counts=counts, unknown=unknown)

    def of(self, run: Run, max_query_terms: int, max_document_terms: int) -> CandidateTerms:
        """The rows of a run; documents are cut to their first terms, queries to those of most idf.

        Overlaps are those of whole queries and documents.
        """
        source = self.complete()
        assert source.counts is not None
        bulk = analyzer(source.counts.analyzer).bulk()
        texts = query_texts(run)
        query_words, query_offsets = number_words(bulk, texts)
        used, document = np.unique(run.doc, return_inverse=True)
        read = document_texts(run, self.documents) if len(used) else []
        words, offsets = number_words(bulk, read)
        idf = source.counts.idf(bulk.terms).astype(np.float32)
        query = np.repeat(np.arange(len(run)), run.sizes())
        rows = query, document.astype(np.int64)
        features = np.zeros((len(query), NUM_FEATURES), np.float32)
        features[:, 0] = z_scores(read_column(run, self.column), query, len(run))
        add_overlaps(
            query_words, query_offsets, words, offsets, idf, run.offsets, rows[1], features[:, 1:]
        )  # fmt: skip
        vectors, row_of = source._vectors_of(bulk.terms)
        return CandidateTerms(
            vectors,
            *_query_matrices(query_words, query_offsets, idf, row_of, max_query_terms),
            row_of[words], offsets[:-1],
            np.minimum(np.diff(offsets), max_document_terms).astype(np.int32),
            *rows, features,
        )  # fmt: skip

    def _vectors_of(self, words: list[str]) -> tuple[Floats, Ints]:
        """A vector of 0, that of unknown words and those of the others; of each word its row."""
        assert self.unknown is not None
        with_vector, units = self.vectors.units(words)
        row_of = np.ones(len(words), np.int32)
        row_of[with_vector] = np.arange(2, 2 + len(with_vector))
        return np.concatenate(
            [np.zeros_like(self.unknown)[None], self.unknown[None], units]
        ), row_of

    def spec(self) -> Spec:
        """Plain JSON from which `open_terms` opens it again; counts lie with the ranker."""
        if self.path is None:
            raise InputError(
                "these word vectors are in no file",
                hint="save them, and read them from there: TermSource.read",
            )
        return {
            "path": str(absolute(self.path)),
            "weights": vector_digests(self.path),
            "column": self.column,
            "documents": documents_spec(self.documents),
        }

    def to_json(self) -> dict[str, Any]:
        """What a ranker's manifest records: what its weights were trained for."""
        return {"column": self.column, "dimension": self.vectors.dimensions}

    def save(self, folder: Path) -> None:
        """Write counts and the vector of unknown words, which belong to a trained ranker."""
        assert self.counts is not None
        assert self.unknown is not None
        self.counts.save(folder / COUNTS_FILE)
        np.save(folder / UNKNOWN_FILE, self.unknown)

    def as_saved(self, folder: Path) -> TermSource:
        """The same with the counts and the vector of unknown words of a ranker's folder."""
        unknown = np.load(folder / UNKNOWN_FILE, allow_pickle=False)
        return replace(self, counts=WordCounts.open(folder / COUNTS_FILE), unknown=unknown)


def open_terms(values: object, opening: Opening) -> TermSource:
    """The source that `TermSource.spec` describes; word vectors that changed are refused."""
    keys = {"path": str, "weights": dict, "column": str, "documents": dict}
    check_keys("texts", values, keys)
    assert isinstance(values, dict)
    path = opening.path(values["path"])
    check_vectors(path, values["weights"])
    documents = opening.open("documents", values["documents"])
    return TermSource.read(path, documents, column=values["column"])


def mean_vector(vectors: WordVectors) -> Floats:
    """The mean of all vectors at length one, itself brought to length one; zeros if it has none.

    >>> table = WordVectors.of(["drum", "net"], np.array([[3, 0], [0, 4]], np.float32))
    >>> mean_vector(table).round(4).tolist()
    [0.707099974155426, 0.707099974155426]
    """
    total = np.zeros(vectors.dimensions)
    for start in range(0, len(vectors.matrix), ROWS_PER_CHECK):
        block = vectors.matrix[start : start + ROWS_PER_CHECK].astype(np.float64)
        lengths = np.sqrt(np.einsum("nd,nd->n", block, block))
        total += (block[lengths > MIN_NORM] / lengths[lengths > MIN_NORM, None]).sum(0)
    length = float(np.sqrt(total @ total))
    return (total / length if length > MIN_NORM else np.zeros_like(total)).astype(np.float32)


def number_words(bulk: Bulk, texts: Sequence[str]) -> tuple[Ints, Longs]:
    """The words of texts in order, as numbers of `bulk.terms`, and where those of each begin.

    >>> words, offsets = number_words(analyzer("unicode").bulk(), ["to be or", "", "not to be"])
    >>> words.tolist(), offsets.tolist()
    ([0, 1, 2, 3, 0, 1], [0, 3, 3, 6])
    """
    words, sizes = [np.empty(0, np.int32)], [np.zeros(1, np.int64)]
    for piece in text_pieces(texts):
        encoded = [text.encode(errors="surrogatepass") for text in piece]
        offsets = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
        tokens = bulk.add(np.frombuffer(b"".join(encoded), np.uint8), offsets)
        terms = bulk.term_of[tokens.words]
        counts_before = np.concatenate([[0], np.cumsum(terms >= 0)])
        words.append(terms[terms >= 0])
        sizes.append(np.diff(counts_before[tokens.offsets]))
    return np.concatenate(words), np.cumsum(np.concatenate(sizes))


def _query_matrices(
    words: Ints, offsets: Longs, idf: Floats, row_of: Ints, most: int
) -> tuple[Ints, Floats, Ints]:
    """Terms and their idf, a row a query, and how many terms each query has."""
    terms = np.zeros((len(offsets) - 1, most), np.int32)
    weights = np.zeros(terms.shape, np.float32)
    for query, (start, end) in enumerate(pairwise(offsets.tolist())):
        part = words[start:end]
        part = part[highest(idf[part], most)]
        terms[query, : len(part)], weights[query, : len(part)] = row_of[part], idf[part]
    return terms, weights, np.minimum(np.diff(offsets), most).astype(np.int32)


def highest(values: Floats, most: int) -> Longs:
    """Where the highest values stand, in their order; of equal ones the last are left out first.

    >>> highest(np.float32([5, 1, 3, 1, 4]), 4).tolist()
    [0, 1, 2, 4]
    """
    return np.sort(np.argsort(-values, kind="stable")[:most])
