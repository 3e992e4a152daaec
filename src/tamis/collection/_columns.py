"""Rows of query, document and number: how TREC runs and judgements are read.

A file is read in blocks and each is split by kernels, two at a time, with no Python object a line.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis._jit import jit
from tamis.collection.base import Faults
from tamis.collection.lines import BOM, not_utf8, open_bytes
from tamis.errors import InputError, LineError
from tamis.types import Ids
from tamis.types._strings import Bytes, Positions, gather_spans

BLOCK = 1 << 22
POWERS = np.array([10.0**n for n in range(23)])
"""Powers of ten that a double holds exactly."""


@dataclass(frozen=True)
class Layout:
    """Which of a line's columns holds what; the query is always the first."""

    what: str
    names: tuple[str, ...]
    doc: int
    number: int

    def describe(self) -> str:
        """The columns in words, for a hint."""
        return "needs: " + " ".join(self.names)


RUN = Layout("a run", ("query", "Q0", "document", "rank", "score", "tag"), doc=2, number=4)
QRELS = Layout("a qrels file", ("query", "0", "document", "grade"), doc=2, number=3)


@dataclass(frozen=True, eq=False)
class Rows:
    """The lines of a file as columns: a document's number, a value, the line.

    Lines that follow each other with the same query are a stretch; those have a query's number and
    a size.
    """

    queries: Ids
    docs: Ids
    stretch: NDArray[np.int32]
    sizes: NDArray[np.int64]
    doc: NDArray[np.int32]
    value: NDArray[np.float64]
    line: NDArray[np.int32]

    @cached_property
    def query(self) -> NDArray[np.int32]:
        """The query's number of every line."""
        return np.repeat(self.stretch, self.sizes)

    def by_query(self) -> tuple[NDArray[np.int64] | slice, NDArray[np.int64]]:
        """The rows in the order of their queries, and where each query begins."""
        if np.all(np.diff(self.stretch) >= 0):  # they stand so already
            sizes = np.bincount(self.stretch, self.sizes, len(self.queries)).astype(np.int64)
            return slice(None), np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
        order, offsets = grouped(self.query, len(self.queries))
        return order, offsets


def read_rows(path: Path, layout: Layout, faults: Faults) -> Rows:
    """Read a whole file; a line with another number of columns, or no number, is a fault."""
    columns: tuple[list[Any], ...] = ([], [], [], [], [], [], [])
    lines = 0
    for block in _split_blocks(path, layout):
        for line, problem, hint in sorted(block.faults):
            faults.meet(LineError(path, lines + line, problem, hint=hint))
        for column, part in zip(columns, block.columns, strict=True):
            column.append(part)
        columns[-1][-1] += lines
        lines += block.lines
    if not any(map(len, columns[-1])):
        raise InputError(f"{path} has no rows", hint=layout.describe())
    query_ids, stretch = Ids.numbering_tables(list(zip(columns[0], columns[1], strict=True)))
    doc_ids, doc = Ids.numbering_tables(list(zip(columns[3], columns[4], strict=True)))
    columns[3].clear()
    columns[4].clear()
    sizes, value, numbers = (np.concatenate(columns[n]) for n in (2, 5, 6))
    return Rows(query_ids, doc_ids, stretch, sizes, doc, value, numbers)


def _offsets(lengths: NDArray[np.int64]) -> Positions:
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


Fault = tuple[int, str, str]
"""A line's number within its block, the problem, and a hint."""


@dataclass(frozen=True, eq=False)
class _Block:
    """Some lines as columns, how many they are, and what was wrong with others.

    The bytes of the queries, one for each stretch of lines that share one, where each begins, and
    the lengths of the stretches; then, a line each, the bytes of the documents, where each begins,
    the values and the numbers of the lines.
    """

    columns: tuple[NDArray[Any], ...]
    lines: int
    faults: list[Fault]


def _split_blocks(path: Path, layout: Layout) -> Iterator[_Block]:
    """The file's blocks in order, the next two being split while one is worked on."""
    waiting: deque[Future[_Block]] = deque()
    with ThreadPoolExecutor(2) as pool:
        for piece in _pieces(path):
            waiting.append(pool.submit(_split, piece, layout))
            if len(waiting) > 2:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def _pieces(path: Path) -> Iterator[bytes]:
    """Stretches of whole lines."""
    rest = b""
    with open_bytes(path) as stream:
        rest = stream.read(BLOCK).removeprefix(BOM)
        while read := stream.read(BLOCK):
            cut = rest.rfind(b"\n") + 1
            if cut:
                yield rest[:cut]
            rest = rest[cut:] + read
    if rest:
        yield rest if rest.endswith(b"\n") else rest + b"\n"


def _split(piece: bytes, layout: Layout) -> _Block:
    piece, faults = _only_utf8(piece)
    buffer = np.frombuffer(piece, np.uint8)
    most = len(piece) // (2 * len(layout.names)) + 1
    spans, bad = np.empty((7, most), np.int64), np.empty((2, len(piece) // 2 + 1), np.int64)
    names, number = layout.names, layout.number
    rows, wrong, lines = split_lines(buffer, len(names), layout.doc, number, spans, bad)
    for line, found in bad[:, :wrong].T.tolist():
        columns = "column" if found == 1 else "columns"
        swapped = next((other.what for other in (RUN, QRELS) if len(other.names) == found), "")
        hint = (
            f"is it {swapped}? {layout.what} {layout.describe()}" if swapped else layout.describe()
        )
        faults.append((line, f"{found} {columns} instead of {len(names)}", hint))
    spans = spans[:, :rows]
    value, unread = read_numbers(buffer, spans[4], spans[5])
    for row in np.flatnonzero(unread).tolist():
        cell = piece[spans[4, row] : spans[5, row]].decode()
        value[row] = _number(cell)
        if np.isnan(value[row]):
            problem = f"the {names[number]} is {cell!r}, not a number"
            faults.append((int(spans[6, row]), problem, layout.describe()))
    if np.isnan(value).any():
        spans, value = spans[:, ~np.isnan(value)], value[~np.isnan(value)]
    return _Block(_columns(buffer, spans, value), lines, faults)


def _columns(
    buffer: Bytes, spans: NDArray[np.int64], value: NDArray[np.float64]
) -> tuple[NDArray[Any], ...]:
    """The columns of a block, cut loose from its bytes."""
    first = changes(buffer, spans[0], spans[1])
    return (
        gather_spans(buffer, spans[0][first], spans[1][first]),
        _offsets((spans[1] - spans[0])[first]),
        np.diff(np.append(first, len(value))),
        gather_spans(buffer, spans[2], spans[3]),
        _offsets(spans[3] - spans[2]),
        value,
        spans[6].astype(np.int32),
    )


def _only_utf8(piece: bytes) -> tuple[bytes, list[Fault]]:
    """The piece with lines that are not UTF-8 made blank, and a fault for each of them."""
    if piece.isascii():
        return piece, []
    try:
        piece.decode()
    except UnicodeDecodeError:
        lines, faults = piece.split(b"\n"), []
        for number, line in enumerate(lines, 1):
            try:
                line.decode()
            except UnicodeDecodeError as error:
                found = not_utf8(Path(), number, error)
                faults.append((number, found.problem, found.hint))
                lines[number - 1] = b""
        return b"\n".join(lines), faults
    return piece, []


def _number(cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        return float("nan")


@jit
def blanks(buffer: Bytes) -> NDArray[np.int32]:
    """Where control characters and blanks lie; written so that no branch has to be guessed."""
    found = np.empty(len(buffer) + 1, np.int32)
    count = 0
    for at in range(len(buffer)):
        found[count] = at
        count += buffer[at] <= 32
    return found[:count]


@jit
def split_lines(
    buffer: Bytes,
    columns: int,
    doc: int,
    number: int,
    spans: NDArray[np.int64],
    bad: NDArray[np.int64],
) -> Any:
    """Fill `spans` with where query, document and number of each line start and end, and the line.

    The buffer ends with a line break. Blank lines have no row. A line with another number of
    columns goes to `bad`: its number, and how many columns it has. Returns how many rows, bad lines
    and lines there are.
    """
    row, wrong, line, column, start = 0, 0, 0, 0, 0
    for at in blanks(buffer):
        byte = buffer[at]
        if not (byte == 32 or 9 <= byte <= 13):
            continue
        if at > start:
            if column == 0:
                spans[0, row], spans[1, row] = start, at
            elif column == doc:
                spans[2, row], spans[3, row] = start, at
            elif column == number:
                spans[4, row], spans[5, row] = start, at
            column += 1
        start = at + 1
        if byte == 10:
            line += 1
            if column == columns:
                spans[6, row] = line
                row += 1
            elif column > 0:
                bad[0, wrong], bad[1, wrong] = line, column
                wrong += 1
            column = 0
    return row, wrong, line


@jit
def read_numbers(buffer: Bytes, starts: Positions, ends: Positions) -> Any:
    """Decimal numbers as doubles, and which of them could not be read exactly here."""
    values = np.zeros(len(starts), np.float64)
    unread = np.zeros(len(starts), np.bool_)
    for n in range(len(starts)):
        at, end = starts[n], ends[n]
        negative = buffer[at] == 45
        if negative or buffer[at] == 43:
            at += 1
        mantissa, digits, scale = np.int64(0), 0, 0
        point = False
        while at < end:
            byte = np.int64(buffer[at])
            if 48 <= byte <= 57:
                digits += 1
                if digits <= 18:
                    mantissa = mantissa * 10 + (byte - 48)
                if point:
                    scale += 1
            elif byte == 46 and not point:
                point = True
            else:
                break
            at += 1
        if at < end or digits == 0 or digits > 18 or mantissa > 1 << 53 or scale > 22:
            unread[n] = True
        else:
            value = np.float64(mantissa) / POWERS[scale]
            values[n] = -value if negative else value
    return values, unread


@jit
def changes(buffer: Bytes, starts: Positions, ends: Positions) -> Positions:
    """The rows whose string differs from that of the row before."""
    found = np.empty(len(starts), np.int64)
    count = 0
    for n in range(len(starts)):
        length = ends[n] - starts[n]
        same = n > 0 and length == ends[n - 1] - starts[n - 1]
        if same:
            for i in range(length):
                if buffer[starts[n] + i] != buffer[starts[n - 1] + i]:
                    same = False
                    break
        if not same:
            found[count] = n
            count += 1
    return found[:count]


@jit
def grouped(group: NDArray[np.int32], groups: int) -> Any:
    """The rows in the order of their group, rows of one group as they came; where groups begin."""
    offsets = np.zeros(groups + 1, np.int64)
    for n in range(len(group)):
        offsets[group[n] + 1] += 1
    for g in range(groups):
        offsets[g + 1] += offsets[g]
    place = offsets[:-1].copy()
    order = np.empty(len(group), np.int64)
    for n in range(len(group)):
        order[place[group[n]]] = n
        place[group[n]] += 1
    return order, offsets
