"""Filters: which documents of an index may be found, from conditions on their fields.

The kernels of both searches read a filter as bits and pass over all other documents, deleted ones
included. So they never take a place among the best k; statistics stay those of the whole index.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis.errors import InputError
from tamis.search.field_values import (
    MAX_CHARACTERS,
    FieldColumn,
    FieldType,
    as_number,
    as_period,
    range_of_prefix,
    shortened,
    type_of_all,
)
from tamis.types._strings import frozen
from tamis.types.conditions import EQUALITY, Condition

ID = "id"
"""Names the documents' ids in a condition."""
MAX_NAMES_IN_HINT = 12
_MEANINGS = {
    "number": "numbers: compare it with a number, such as 3 or 0.5",
    "date": "dates: compare it with a date, such as 2024, 2024-05 or 2024-05-17",
    "year": "years: compare it with a year, a date or a number",
}

Flags = NDArray[np.bool_]
Columns = Mapping[str, FieldColumn]


class Included(NamedTuple):
    """The documents of a segment that may be found."""

    bits: NDArray[np.uint64]
    """A bit per document, 64 to a word; none where all documents may be found."""
    excluded: int
    """How many documents may not."""


def pack_flags(flags: Flags) -> Included:
    """Flags as the kernels read them.

    >>> pack_flags(np.array([True, False, True]))
    Included(bits=array([5], dtype=uint64), excluded=1)
    >>> pack_flags(np.array([True, True])).excluded
    0
    """
    excluded = len(flags) - int(np.count_nonzero(flags))
    if excluded == 0:
        return Included(frozen(np.empty(0, np.uint64)), 0)
    padded = np.zeros(-(-len(flags) // 64) * 8, np.uint8)
    packed = np.packbits(flags, bitorder="little")
    padded[: len(packed)] = packed
    return Included(frozen(padded.view("<u8")), excluded)


def field_types(segments: Sequence[Columns]) -> dict[str, FieldType]:
    """The fields of all segments, and the type of each over all of them."""
    counts: dict[str, Counter[str]] = {}
    decimals: dict[str, set[tuple[int, bool]]] = {}
    for columns in segments:
        for name, column in columns.items():
            counts.setdefault(name, Counter()).update(column.counts)
            decimals.setdefault(name, set()).update(column.decimals)
    return {name: type_of_all(counts[name], decimals[name]) for name in sorted(counts)}


def check_field(condition: Condition, types: Mapping[str, FieldType]) -> FieldType:
    """The type of a condition's field, which must be there and allow the comparison."""
    name = condition.field
    if name not in types:
        fields = [field for field in types if field != ID]
        close = get_close_matches(name, types, 1)
        meant = f"did you mean {close[0]}? " if close else ""
        more = ", …" if len(fields) > MAX_NAMES_IN_HINT else ""
        listed = ", ".join(fields[:MAX_NAMES_IN_HINT]) + more
        raise InputError(
            f"the documents have no field {name!r}",
            hint=f"{meant}{f'their fields: {listed}' if fields else 'they have no fields'}",
        )
    if condition.operator not in EQUALITY and types[name] == "text":
        raise InputError(
            f"{str(condition)!r} compares, but the field {name!r} is text",
            hint="only fields of numbers or dates are compared; text takes = and !=, and a * at "
            "the end of a value",
        )
    return types[name]


def matching_documents(
    condition: Condition, column: FieldColumn, kind: FieldType
) -> NDArray[np.int32]:
    """The documents that have a value for which the condition holds; for `!=` an equal one."""
    flags = np.zeros(len(column.values), bool)
    for prefix in condition.prefixes:
        if len(prefix) > MAX_CHARACTERS:
            raise InputError(
                f"a value to begin with has {len(prefix):,} characters",
                hint=f"{MAX_CHARACTERS} at most before the *",
            )
        first, end = range_of_prefix(column.values, column.prefix + prefix)
        flags[first:end] = True
    for value in condition.values:
        if kind == "text":
            code = int(column.values.numbers([column.prefix + shortened(value)])[0])
            flags[[code] if code >= 0 else []] = True
        else:
            flags |= _compare(condition, value, column, kind)
    return column.documents_with(flags)


def _compare(condition: Condition, value: str, column: FieldColumn, kind: FieldType) -> Flags:
    """Of each value of a column whether it stands so to a number or a period."""
    period = as_period(value) if kind in ("date", "year") else None
    number = as_number(value) if kind in ("number", "year") else None
    if period is not None:
        (low, high), (begin, end) = column.bounds_as("date"), period
        results: dict[str, Flags] = {
            "=": (low >= begin) & (high <= end),
            ">=": low >= begin,
            ">": low >= end,
            "<=": high <= end,
            "<": high <= begin,
        }
    elif number is not None:
        values = column.bounds_as("number")[0].view(np.float64)
        results = {
            "=": values == number,
            ">=": values >= number,
            ">": values > number,
            "<=": values <= number,
            "<": values < number,
        }
    else:
        raise InputError(
            f"{str(condition)!r}: {value!r} is no {kind}",
            hint=f"the field {condition.field!r} holds {_MEANINGS[kind]}",
        )
    return results[condition.operator.removeprefix("!")]


def segment_flags(
    conditions: Sequence[Condition], columns: Columns, types: Mapping[str, FieldType], live: Flags
) -> Flags:
    """Of each document of a segment whether it is there and all conditions hold."""
    flags = live.copy()
    for condition in conditions:
        kind = check_field(condition, types)
        holds = np.zeros(len(live), bool)
        if condition.field in columns:
            holds[matching_documents(condition, columns[condition.field], kind)] = True
        flags &= ~holds if condition.operator == "!=" else holds
    return flags


def values_in_other_case(condition: Condition, segments: Sequence[Columns]) -> list[str]:
    """Values that a field has and `=` was not asked for, different in the case of letters alone."""
    wanted = {value.casefold() for value in condition.values if condition.operator == "="}
    columns = [columns[condition.field] for columns in segments if condition.field in columns]
    values = {
        value.removeprefix(column.prefix)
        for column in columns
        for value in column.values.take(np.arange(len(column.values)))
    }
    return sorted({value for value in values if value.casefold() in wanted} - {*condition.values})
