"""Columns to and from pandas: the one place that knows what a DataFrame is, or imports pandas."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from numbers import Integral, Real
from typing import Any, NamedTuple, Protocol, TypeGuard

import numpy as np
from numpy.typing import NDArray

from tamis.errors import InputError, require
from tamis.types.ids import Ids

QUERY, DOCUMENT, SCORE, RANK, RELEVANCE = "query_id", "doc_id", "score", "rank", "relevance"
RUN_COLUMNS = (QUERY, DOCUMENT, SCORE)
QRELS_COLUMNS = (QUERY, DOCUMENT, RELEVANCE)


class Frame(Protocol):
    """What is used of a DataFrame of pandas."""

    @property
    def columns(self) -> Any:
        """The names of its columns."""

    @property
    def iloc(self) -> Any:
        """Its rows by their place."""

    def __getitem__(self, name: Any) -> Any: ...


def is_frame(value: object) -> TypeGuard[Frame]:
    """Whether something is a DataFrame of pandas; pandas is not imported to find out.

    >>> is_frame({"query_id": ["q1"]})
    False
    """
    return hasattr(value, "columns") and hasattr(value, "iloc")


def make_frame(columns: Mapping[str, Any], *, index: str = "") -> Any:
    """A DataFrame of these columns; `index` names the one that becomes the row labels."""
    frame: Any = require("pandas").DataFrame(dict(columns))
    return frame.set_index(index) if index else frame


def id_text(value: object) -> str | None:
    """An id as text: a string, or a whole number as tables often have them; None for all else.

    >>> id_text("q1"), id_text(7), id_text(7.0), id_text(True)
    ('q1', '7', None, None)
    """
    if isinstance(value, str):
        return value
    is_number = isinstance(value, Integral) and not isinstance(value, bool | np.bool_)
    return str(value) if is_number else None


class IdPairs(NamedTuple):
    """The query and the document of every row, as numbers in two tables of ids."""

    queries: Ids
    docs: Ids
    query: NDArray[np.int32]
    doc: NDArray[np.int32]


def read_pairs(frame: Frame, names: Sequence[str]) -> IdPairs:
    """The query and document ids, no pair twice; `names` are the columns that a table needs."""
    if not hasattr(frame, "columns"):
        columns = ", ".join(names)
        raise InputError(f"{type(frame).__name__} is no DataFrame", hint=f"with columns {columns}")
    queries, query = Ids.numbering(_read_texts(frame, QUERY, names))
    docs, doc = Ids.numbering(_read_texts(frame, DOCUMENT, names))
    order = np.lexsort((doc, query))  # stable: a second row of a pair stands after the first
    again = (np.diff(query[order]) == 0) & (np.diff(doc[order]) == 0)
    if again.any():
        row = int(order[1:][again].min())
        raise InputError(
            f"row {row} has document {docs[doc[row]]!r} of query {queries[query[row]]!r} again",
            hint=f"keep one row a pair: df.drop_duplicates([{QUERY!r}, {DOCUMENT!r}])",
        )
    return IdPairs(queries, docs, query, doc)


def read_numbers(frame: Frame, name: str, names: Sequence[str]) -> NDArray[np.float64]:
    """A column of numbers, none of them missing."""
    column = _read_column(frame, name, names)
    if column.dtype.kind not in "iufb":
        for row, value in enumerate(column.tolist()):
            if not isinstance(value, Real):
                raise InputError(
                    f"column {name!r} has {value!r} in row {row}, which is not a number",
                    hint=f"make the column numbers: df[{name!r}] = pd.to_numeric(df[{name!r}])",
                )
    numbers: NDArray[np.float64] = column.to_numpy(dtype=np.float64)
    return numbers


def further_columns(frame: Frame, names: Sequence[str]) -> Iterator[tuple[str, NDArray[Any]]]:
    """The columns beside those of these names."""
    for name in frame.columns:
        if isinstance(name, str) and name not in names:
            yield name, _read_series(frame, name).to_numpy()


def _read_texts(frame: Frame, name: str, names: Sequence[str]) -> list[str]:
    texts = []
    for row, value in enumerate(_read_column(frame, name, names).tolist()):
        text = id_text(value)
        if text is None:
            raise InputError(
                f"column {name!r} has {value!r} in row {row}, which is no id",
                hint=f"ids are strings or whole numbers: df[{name!r}] = df[{name!r}].astype(str)",
            )
        texts.append(text)
    return texts


def _read_column(frame: Frame, name: str, names: Sequence[str]) -> Any:
    columns = list(frame.columns)
    if name not in columns:
        raise InputError(f"the table has no column {name!r}", hint=_column_hint(frame, name, names))
    series = _read_series(frame, name)
    missing = np.flatnonzero(series.isna().to_numpy())
    if len(missing):
        raise InputError(
            f"column {name!r} has no value in row {missing[0]}",
            hint=f"leave such rows out: df.dropna(subset=[{name!r}])",
        )
    return series


def _read_series(frame: Frame, name: str) -> Any:
    if list(frame.columns).count(name) > 1:
        raise InputError(f"the table has column {name!r} twice", hint="rename or drop one of them")
    return frame[name]


def _column_hint(frame: Frame, name: str, names: Sequence[str]) -> str:
    if name in getattr(getattr(frame, "index", None), "names", ()):
        return f"{name!r} is in the index: df.reset_index()"
    columns = ", ".join(map(str, frame.columns)) or "none"
    return f"needed: {', '.join(names)}; there: {columns}; rename them with df.rename(columns=…)"
