"""Values of fields in a segment: the sorted table of all values, and which documents have each.

    field-values field-value-offsets    NUMBER:VALUE of each, sorted; a field's lie together
    field-documents field-document-offsets    of each value: the documents that have it
    field-low field-high    of each value of a field of numbers or dates: where it begins and ends

The note names the fields, each with its type. A list has each of its elements as a value. What a
condition means is left to `filters`.
"""

from __future__ import annotations

import calendar
import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import date
from typing import Any, Literal

import numpy as np
import orjson
import pyarrow as pa
import xxhash
from numpy.typing import NDArray

from tamis.collection._records import as_json
from tamis.collection.store import DocumentStore
from tamis.search.files import ArraysReader, ArraysWriter, joined
from tamis.search.term_counts import Ints, Longs
from tamis.types import Ids
from tamis.types._string_numbers import Interner
from tamis.types._strings import pack

FieldType = Literal["number", "date", "year", "text"]
"""A year, such as 2024, is a number and a date."""
MAX_SHARE_OF_OTHERS = 0.1
"""Of the distinct values of a field of numbers or dates that may be neither."""
MAX_CHARACTERS = 200
"""Of a value that are kept; a longer one is known by these and its digest."""
MAX_NUMBER = 2**53
"""Whole numbers above are not all told apart by a float, so they are text."""
DAY, MICROSECONDS = 86_400, 1_000_000
NO_PERIOD = (-(2**63), 2**63 - 1)
"""What is no date begins before all others and ends after them."""

_NUMBER = re.compile(r"[+-]?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_DECIMALS = re.compile(r"[+-]?[0-9]+\.([0-9]+)")
_DATE = re.compile(
    r"([0-9]{4})(?:-([0-9]{2})(?:-([0-9]{2})"
    r"(?:[T ]([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:\.([0-9]{1,6})[0-9]*)?)?"
    r"(Z|[+-][0-9]{2}:?[0-9]{2})?)?)?)?"
)


def as_number(text: str) -> float | None:
    """The number that a text is; none for 007, or where a float would be another number.

    >>> as_number("1e3"), as_number("007"), as_number("three")
    (1000.0, None, None)
    """
    value = float(text) if _NUMBER.fullmatch(text) else np.inf
    return value if abs(value) <= MAX_NUMBER else None


def as_period(text: str) -> tuple[int, int] | None:
    """When a date begins and ends, in microseconds since 1970; UTC where it names no offset.

    >>> as_period("1970"), as_period("1970-01-01T00:00:01+00:00"), as_period("1970-13")
    ((0, 31536000000000), (1000000, 2000000), None)
    """
    match = _DATE.fullmatch(text)
    if match is None:
        return None
    year, month, day, hour, minute, second, fraction, offset = match.groups()
    first_month, last_month = (1, 12) if month is None else (int(month), int(month))
    try:
        last_day = calendar.monthrange(int(year), last_month)[1]
        begin = _days(int(year), first_month, 1 if day is None else int(day))
        end = _days(int(year), last_month, last_day if day is None else int(day)) + 1
    except (ValueError, IndexError):  # such as month 13, day 31 of April, year 0
        return None
    if hour is None:
        return begin * DAY * MICROSECONDS, end * DAY * MICROSECONDS
    if int(hour) > 23 or int(minute) > 59 or int(second or 0) > 59:
        return None
    seconds = begin * DAY + int(hour) * 3600 + int(minute) * 60 + int(second or 0) - _east(offset)
    start = seconds * MICROSECONDS + int((fraction or "0").ljust(6, "0"))
    length = 60 * MICROSECONDS if second is None else 10 ** (6 - len(fraction or ""))
    return start, start + length


def _days(year: int, month: int, day: int) -> int:
    return date(year, month, day).toordinal() - date(1970, 1, 1).toordinal()


def _east(offset: str | None) -> int:
    """Seconds that a clock with this offset is ahead of UTC."""
    if offset is None or offset == "Z":
        return 0
    seconds = int(offset[1:3]) * 3600 + int(offset[-2:]) * 60
    return -seconds if offset[0] == "-" else seconds


def shortened(value: str) -> str:
    """A value as it is kept: a long one is its beginning and a digest, so equal only if equal."""
    if len(value) <= MAX_CHARACTERS:
        return value
    return f"{value[:MAX_CHARACTERS]}… {xxhash.xxh3_128_hexdigest(value.encode())}"


def elements(value: str) -> list[str]:
    """The elements of a list that is written as JSON, else the value alone.

    >>> elements('["drum", 3]'), elements("[draft] sieves")
    (['drum', '3'], ['[draft] sieves'])
    """
    if not value.startswith("["):
        return [value]
    try:
        listed = orjson.loads(value)
    except orjson.JSONDecodeError:
        return [value]
    spelled = (item if isinstance(item, str) else as_json(item) for item in listed)
    return list(dict.fromkeys(spelled))


Decimals = AbstractSet[tuple[int, bool]]
"""How the numbers of a field are written: how many decimals, and whether a zero closes others."""


def decimals_of(values: Iterable[str]) -> Decimals:
    """How the decimals of these values are written.

    >>> sorted(decimals_of(["1.9", "1.10", "2.0", "3"]))
    [(1, False), (2, True)]
    """
    decimals = (match[1] for match in map(_DECIMALS.fullmatch, values) if match)
    return {(len(digits), digits.endswith("0") and digits.strip("0") != "") for digits in decimals}


def _are_versions(decimals: Decimals) -> bool:
    """Whether 1.10 is not 1.1: a zero closes some decimals, and others are shorter or longer."""
    return len({length for length, _ in decimals}) > 1 and any(zero for _, zero in decimals)


def type_of_all(counts: Mapping[str, int], decimals: Decimals = frozenset()) -> FieldType:
    """The type of a field, from how many of its values have each: the others are passed over where
    they are few, as a date that is still to be written may be. Numbers whose decimals are those of
    versions are text.

    >>> type_of_all({"year": 3, "date": 1}), type_of_all({"year": 3})
    ('date', 'year')
    >>> type_of_all({"date": 9, "text": 1})
    'date'
    >>> type_of_all({"date": 8, "text": 1}), type_of_all({"date": 8, "number": 8})
    ('text', 'text')
    >>> type_of_all({"number": 2}, decimals_of(["1.9", "1.10"]))
    'text'
    """
    if counts.get("text", 0) > MAX_SHARE_OF_OTHERS * sum(counts.values()):
        return "text"
    distinct = {kind for kind, count in counts.items() if count and kind != "text"}
    if distinct == {"year"}:
        return "year"
    if distinct in ({"number"}, {"number", "year"}):
        return "text" if _are_versions(decimals) else "number"
    return "date" if distinct in ({"date"}, {"date", "year"}) else "text"


def type_of(value: str) -> FieldType:
    """The type of one value."""
    is_number, is_date = as_number(value) is not None, as_period(value) is not None
    return (
        "year"
        if is_number and is_date
        else "number"
        if is_number
        else ("date" if is_date else "text")
    )


class _Fields:
    """The fields met so far: the number of each."""

    def __init__(self) -> None:
        self.number: dict[str, int] = {}

    def add(self, name: str) -> str:
        """Note a field; what stands before its values in the table."""
        return _prefix(self.number.setdefault(name, len(self.number)))


def _prefix(number: int) -> str:
    return f"{number:x}:"


def write_fields(store: DocumentStore, files: ArraysWriter) -> list[dict[str, Any]]:
    """Write the values of all fields; what the note says of each field."""
    fields, interner = _Fields(), Interner()
    codes: list[Ints] = []
    documents: list[Ints] = []
    for first, column in store.columns("fields"):
        for distinct, which, having in _batch_values(first, column, fields):
            data, offsets = pack(distinct)
            codes.append(interner.add(data, offsets[:-1], offsets[1:])[which])
            documents.append(having)
    if not fields.number:
        return []
    table, number_of = Ids.numbering_tables([interner.table()])
    code = number_of[joined(codes, "<i4")]
    counts = np.bincount(code, minlength=len(table))
    files.write("field-values", table.data)
    files.write("field-value-offsets", table.offsets)
    files.write("field-documents", joined(documents, "<i4")[np.argsort(code, kind="stable")])
    files.write("field-document-offsets", np.concatenate([[0], np.cumsum(counts, dtype=np.int64)]))
    return _write_bounds(table, fields, files)


def _batch_values(
    first: int, column: pa.MapArray, fields: _Fields
) -> Iterator[tuple[list[str], Ints, Ints]]:
    """Of each field in a batch: its distinct values, and the rows: which value, which document."""
    sizes = np.diff(np.asarray(column.offsets))
    document = np.repeat(first + np.arange(len(sizes), dtype=np.int32), sizes)
    names = column.keys.dictionary_encode()
    name_of = np.asarray(names.indices)
    order = np.argsort(name_of, kind="stable")
    bounds = np.searchsorted(name_of[order], np.arange(len(names.dictionary) + 1))
    for n, name in enumerate(names.dictionary.to_pylist()):
        rows = order[bounds[n] : bounds[n + 1]]
        values = column.items.take(pa.array(rows)).dictionary_encode()
        listed = [elements(value) for value in values.dictionary.to_pylist()]
        distinct = [shortened(element) for several in listed for element in several]
        prefix = fields.add(name)
        begins = np.concatenate([[0], np.cumsum([len(several) for several in listed])])
        value_of = np.asarray(values.indices)
        counts = np.diff(begins)[value_of]
        ends = np.cumsum(counts)
        which = np.arange(len(ends) and ends[-1]) + np.repeat(
            begins[value_of] - ends + counts, counts
        )
        yield [prefix + value for value in distinct], which, np.repeat(document[rows], counts)


def _write_bounds(table: Ids, fields: _Fields, files: ArraysWriter) -> list[dict[str, Any]]:
    """Write where the values of numbers and dates begin and end; what the note says of fields."""
    facts: list[dict[str, Any]] = []
    lows: list[Longs] = [np.empty(0, np.int64)]
    highs: list[Longs] = [np.empty(0, np.int64)]
    start = 0
    for name, number in sorted(fields.number.items()):
        prefix = _prefix(number)
        first, end = range_of_prefix(table, prefix)
        values = [value.removeprefix(prefix) for value in table.take(np.arange(first, end))]
        counts: dict[str, int] = dict(Counter(map(type_of, values)))
        decimals = decimals_of(values)
        kind = type_of_all(counts, decimals)
        facts.append(
            {"name": name, "type": kind, "values": counts, "decimals": sorted(decimals),
             "prefix": prefix, "first": first, "end": end}
        )  # fmt: skip
        if kind in ("number", "date"):
            low, high = bounds_of(values, kind)
            facts[-1]["bounds"] = start
            start += len(low)
            lows.append(low)
            highs.append(high)
    files.write("field-low", *lows)
    files.write("field-high", *highs)
    return facts


def bounds_of(values: list[str], kind: FieldType) -> tuple[Longs, Longs]:
    """Where values begin and end: as dates in microseconds, as numbers the bits of a float.

    No comparison holds for a value that is neither.
    """
    if kind == "date":
        rows = [as_period(value) or NO_PERIOD for value in values]
        periods = np.array(rows, np.int64).reshape(-1, 2)
        return periods[:, 0].copy(), periods[:, 1].copy()
    numbers = (as_number(value) for value in values)
    bits = np.array([np.nan if n is None else n for n in numbers], np.float64).view(np.int64)
    return bits, bits


def range_of_prefix(table: Ids, prefix: str) -> tuple[int, int]:
    """The numbers of the strings that begin so: from the first to before the last.

    >>> range_of_prefix(Ids.of(["a", "ab", "abc", "b"]), "ab")
    (1, 3)
    """
    raw, numbers = prefix.encode(), range(len(table))

    def beginning(number: int) -> bytes:
        at = int(table.offsets[number])
        return bytes(table.data[at : min(at + len(raw), int(table.offsets[number + 1]))])

    first = bisect_left(numbers, raw, key=beginning)
    return first, bisect_right(numbers, raw, key=beginning)


@dataclass(frozen=True, eq=False)
class FieldColumn:
    """One field in a segment: its values, and the documents of each."""

    type: FieldType
    counts: Mapping[str, int]
    """How many of the distinct values have each type."""
    values: Ids
    prefix: str
    """What stands before each value in the table."""
    offsets: Longs
    documents: Ints
    bounds: tuple[Longs, Longs] | None = None
    decimals: Decimals = frozenset()

    def bounds_as(self, kind: FieldType) -> tuple[Longs, Longs]:
        """Where each value begins and ends, as numbers or as dates."""
        if self.type == kind and self.bounds is not None:
            return self.bounds
        values = self.values.take(np.arange(len(self.values)))
        return bounds_of([value.removeprefix(self.prefix) for value in values], kind)

    def all_documents(self) -> Ints:
        """The documents that have the field, once for each value."""
        return self.documents[self.offsets[0] : self.offsets[-1]]

    def documents_with(self, values: NDArray[np.bool_]) -> Ints:
        """The documents that have one of the values with a flag."""
        return self.all_documents()[np.repeat(values, np.diff(self.offsets))]


def open_fields(files: ArraysReader) -> Mapping[str, FieldColumn] | None:
    """The fields of a segment by name; None where it was written before fields were."""
    facts = files.note.get("fields")
    if not facts:
        return None if facts is None else {}
    data, value_offsets = files.array("field-values"), files.array("field-value-offsets")
    offsets, documents = files.array("field-document-offsets"), files.array("field-documents")
    low, high = files.array("field-low"), files.array("field-high")
    columns = {}
    for fact in facts:
        first, end = fact["first"], fact["end"]
        bounds = None
        if "bounds" in fact:
            part = slice(fact["bounds"], fact["bounds"] + end - first)
            bounds = low[part], high[part]
        columns[fact["name"]] = FieldColumn(
            fact["type"],
            fact.get("values", {fact["type"]: 1}),
            Ids(data, value_offsets[first : end + 1]),
            fact["prefix"],
            offsets[first : end + 1],
            documents,
            bounds,
            {(length, zero) for length, zero in fact.get("decimals", ())},
        )
    return columns
