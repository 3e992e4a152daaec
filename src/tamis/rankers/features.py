"""What a ranker sees of each candidate: embeddings of query and passage, and columns of the run.

Embeddings are kept once a query and once a document; the rows of candidates are gathered when they
are asked for. How a text is embedded is left to `text_embeddings`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, get_args

import numpy as np
from numpy.typing import NDArray

from tamis.errors import InputError
from tamis.pipeline.document_lookup import Documents, missing_document_error, open_lookup
from tamis.pipeline.documents import documents_spec
from tamis.registry import Opening, check_choice, check_keys
from tamis.search.build import searched_text
from tamis.types import Run, Spec

Floats = NDArray[np.float32]
Rows = NDArray[np.int64]
Normalisation = Literal["z", "none"]
TEXT_EMBEDDER = "text_embedder"
"""The role of an embedder in a spec."""


class Embedder(Protocol):
    """Turns texts into embeddings."""

    @property
    def dimension(self) -> int:
        """How many numbers an embedding has."""

    def embed(self, texts: Sequence[str]) -> Floats:
        """The embedding of each text, a row each."""

    def to_json(self) -> dict[str, Any]:
        """A spec in the role `text_embedder`, from which it can be opened again."""


@dataclass(frozen=True, eq=False)
class Features:
    """Of row n: the embedding of its query, that of its passage, then its columns.

    >>> queries, passages = np.float32([[1, 2]]), np.float32([[3, 4], [5, 6]])
    >>> columns = np.float32([[7], [8]])
    >>> features = Features(queries, passages, np.array([0, 0]), np.array([1, 0]), columns)
    >>> features.width, features.rows(np.array([0])).tolist()
    (5, [[1.0, 2.0, 5.0, 6.0, 7.0]])
    """

    queries: Floats
    passages: Floats
    query: Rows
    """Of each row its row in `queries`."""
    passage: Rows
    """Of each row its row in `passages`."""
    columns: Floats

    def __len__(self) -> int:
        return len(self.query)

    @property
    def dimension(self) -> int:
        """How many numbers an embedding has; 0 where there are only columns."""
        return int(self.queries.shape[1])

    @property
    def width(self) -> int:
        """How many numbers a row has."""
        return 2 * self.dimension + int(self.columns.shape[1])

    def rows(self, rows: Rows) -> Floats:
        """The numbers of some rows."""
        values = np.empty((len(rows), self.width), np.float32)
        values[:, : self.dimension] = self.queries[self.query[rows]]
        values[:, self.dimension : 2 * self.dimension] = self.passages[self.passage[rows]]
        values[:, 2 * self.dimension :] = self.columns[rows]
        return values


@dataclass(frozen=True, eq=False)
class FeatureSource:
    """Where the features of a run's candidates come from: texts, columns, or both.

    With an `embedder`, the texts of queries and `documents` are embedded. `columns` are columns of
    the run by name, `score` being its score; with the normalisation `z` each is made a z-score over
    the candidates of a query, 0 where they are all the same.

    >>> run = Run.from_dict({"q": {"a": 9.0, "b": 7.0, "c": 5.0}})
    >>> FeatureSource(columns=("score",)).of(run).columns.round(2).ravel()
    array([ 1.22,  0.  , -1.22], dtype=float32)
    """

    embedder: Embedder | None = None
    documents: Documents | None = None
    columns: tuple[str, ...] = ()
    normalisation: Normalisation = "z"

    def __post_init__(self) -> None:
        if (self.embedder is None) != (self.documents is None):
            raise InputError(
                "an embedder and documents belong together", hint="give both, or columns alone"
            )
        if isinstance(self.documents, Iterator):
            raise InputError(
                "the documents can be gone through only once",
                hint="give a list, a collection's documents or an index",
            )
        if self.embedder is None and not self.columns:
            raise InputError("no features", hint="name columns of the run, or give an embedder")

    def of(self, run: Run) -> Features:
        """The features of a run's rows; a value that is no finite number is refused."""
        query = np.repeat(np.arange(len(run)), run.sizes())
        columns = self._columns_of(run, query)
        if self.embedder is None or self.documents is None:
            nothing = np.zeros((1, 0), np.float32)
            zeros = np.zeros(len(run.doc), np.int64)
            return Features(nothing, nothing, zeros, zeros, columns)
        queries = self._embed(query_texts(run), "the queries")
        used, passage = np.unique(run.doc, return_inverse=True)
        passages = self._embed(document_texts(run, self.documents), "the passages")
        assert len(passages) == len(used)
        return Features(queries, passages, query, passage.astype(np.int64), columns)

    def _embed(self, texts: Sequence[str], what: str) -> Floats:
        assert self.embedder is not None
        values = np.asarray(self.embedder.embed(texts), np.float32)
        expected = (len(texts), self.embedder.dimension)
        if values.shape != expected:
            raise InputError(
                f"the embeddings of {what} have the shape {values.shape}, not {expected}",
                hint="an embedder gives a row a text",
            )
        if not np.isfinite(values).all():
            row = int(np.flatnonzero(~np.isfinite(values).all(1))[0])
            raise InputError(
                f"an embedding of {what} is no finite number: that of {texts[row][:40]!r}",
                hint="check the word vectors",
            )
        return values

    def _columns_of(self, run: Run, query: Rows) -> Floats:
        values = np.empty((len(run.doc), len(self.columns)), np.float32)
        for place, name in enumerate(self.columns):
            column = read_column(run, name)
            scaled = z_scores(column, query, len(run)) if self.normalisation == "z" else column
            values[:, place] = scaled
        return values

    def spec(self) -> Spec:
        """Plain JSON from which `open_features` opens it again."""
        settings: Spec = {"columns": list(self.columns), "normalisation": self.normalisation}
        if self.embedder is not None and self.documents is not None:
            settings[TEXT_EMBEDDER] = self.embedder.to_json()
            settings["documents"] = documents_spec(self.documents)
        return settings

    def to_json(self) -> dict[str, Any]:
        """What a ranker's manifest records: what its weights were trained for."""
        return {
            "columns": list(self.columns),
            "normalisation": self.normalisation,
            "dimension": 0 if self.embedder is None else self.embedder.dimension,
        }


def open_features(values: object, opening: Opening) -> FeatureSource:
    """The features that `FeatureSource.spec` describes."""
    required = {"columns": list, "normalisation": str}
    check_keys("features", values, required, {TEXT_EMBEDDER: dict, "documents": dict})
    assert isinstance(values, dict)
    check_choice("normalisation", values["normalisation"], get_args(Normalisation))
    return FeatureSource(
        opening.open(TEXT_EMBEDDER, values[TEXT_EMBEDDER]) if TEXT_EMBEDDER in values else None,
        opening.open("documents", values["documents"]) if "documents" in values else None,
        tuple(map(str, values["columns"])),
        values["normalisation"],
    )


def check_trained_for(source: FeatureSource, trained: Mapping[str, Any], where: object) -> None:
    """Refuse features that are not those which a ranker was trained with."""
    for name, value in source.to_json().items():
        if trained.get(name) != value:
            raise InputError(
                f"{where} was trained with {name} {trained.get(name)!r}, not {value!r}",
                hint="give the features that the ranker was trained with",
            )


def read_column(run: Run, name: str) -> NDArray[np.float64]:
    """A column of numbers of a run; `score` is its score."""
    if name != "score" and name not in run.extra:
        columns = ", ".join(["score", *run.extra])
        raise InputError(f"the run has no column {name!r}", hint=f"it has {columns}")
    column = np.asarray(run.score if name == "score" else run.extra[name])
    if column.ndim != 1 or column.dtype.kind not in "fiub":
        raise InputError(f"column {name!r} is not one number a row", hint="name columns of numbers")
    bad = np.flatnonzero(~np.isfinite(column.astype(np.float64)))
    if len(bad):
        row = int(bad[0])
        query = run.queries.ids[int(np.searchsorted(run.offsets, row, side="right")) - 1]
        raise InputError(
            f"column {name!r} is {column[row]} for document {run.docs[int(run.doc[row])]!r} of "
            f"query {query!r}",
            hint="fill in such values, or leave the documents out",
        )
    return column.astype(np.float64)


def z_scores(values: NDArray[np.float64], query: Rows, num_queries: int) -> NDArray[np.float64]:
    """Each value less the mean of its query, in standard deviations; 0 where all are the same.

    >>> z_scores(np.array([1.0, 3.0, 5.0, 5.0]), np.array([0, 0, 1, 1]), 2).tolist()
    [-1.0, 1.0, 0.0, 0.0]
    """
    count = np.maximum(np.bincount(query, minlength=num_queries), 1)
    centred = values - (np.bincount(query, values, num_queries) / count)[query]
    deviation = np.sqrt(np.bincount(query, centred**2, num_queries) / count)[query]
    constant = deviation <= 1e-9 * np.maximum(np.abs(values), 1)
    scores: NDArray[np.float64] = np.where(
        constant, 0.0, centred / np.where(constant, 1, deviation)
    )
    return scores


def query_texts(run: Run) -> tuple[str, ...]:
    """The texts of a run's queries, which must be known."""
    if run.queries.texts is None:
        raise InputError(
            "the queries of the run have no texts", hint="add them: run.with_queries(queries)"
        )
    return run.queries.texts


def document_texts(run: Run, documents: Documents) -> list[str]:
    """The texts of the distinct documents of a run, by document number."""
    used = np.unique(run.doc)
    ids = run.docs.select(used)
    with open_lookup(documents, ids) as lookup:
        absent = used[~lookup.has(ids)]
        if len(absent):
            rows = np.flatnonzero(np.isin(run.doc, absent))
            raise missing_document_error(run, rows, "cannot be used with a ranker")
        return [searched_text(document) for document in lookup.fetch(list(ids))]
