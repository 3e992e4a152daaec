"""Rows of query, document and number: how TREC runs and judgements are read.

A file is read in blocks and each is split by kernels, two at a time, with no Python object a line.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis._jit import jit
from tamis.collection._line_kernels import PADDING, split_rows
from tamis.collection.base import Faults
from tamis.collection.lines import BOM, not_utf8, open_bytes
from tamis.errors import InputError, LineError
from tamis.types import Ids
from tamis.types._strings import Positions, frozen, gather, gather_spans

BLOCK = 1 << 22


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
        for column, values in zip(columns, block.columns, strict=True):
            column.append(values)
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


class _Room(threading.local):
    """Where a thread splits one block after another: what it writes there is copied when done."""

    def __init__(self) -> None:
        self.size = 0
        self.arrays: tuple[NDArray[Any], ...] = ()

    def for_bytes(self, size: int, columns: int) -> tuple[NDArray[Any], ...]:
        """Arrays as `split_rows` fills them, large enough for so many bytes."""
        if size > self.size:
            most = size // (2 * columns) + 1
            self.size = size
            self.arrays = (
                np.empty(size + PADDING, np.uint8),
                np.zeros(most + 1, np.int64),
                np.empty(most),
                np.empty(most, np.int32),
                np.empty((3, most), np.int64),
                np.empty((3, most), np.int64),
                np.empty((2, size // 2 + 1), np.int64),
            )
        return self.arrays


def _split_blocks(path: Path, layout: Layout) -> Iterator[_Block]:
    """The file's blocks in order, the next two being split while one is worked on."""
    waiting: deque[tuple[Future[_Block], bytearray]] = deque()
    free: list[bytearray] = []
    room = _Room()

    def next_block() -> _Block:
        block, buffer = waiting.popleft()
        result = block.result()
        free.append(buffer)
        return result

    with ThreadPoolExecutor(2) as pool:
        for piece, size in _pieces(path, free):
            waiting.append((pool.submit(_split, piece, size, layout, room), piece))
            if len(waiting) > 2:
                yield next_block()
        while waiting:
            yield next_block()


def _pieces(path: Path, free: list[bytearray]) -> Iterator[tuple[bytearray, int]]:
    """Stretches of whole lines: a buffer, and how many of its bytes they are.

    Buffers are taken from those that are free, so that memory is not asked for again and again.
    """
    with open_bytes(path) as stream:
        remainder = stream.read(len(BOM)).removeprefix(BOM)
        while True:
            room = max(BLOCK, 2 * len(remainder))
            buffer = free.pop() if free else bytearray()
            if len(buffer) < room + PADDING:
                buffer = bytearray(room + PADDING)
            buffer[: len(remainder)] = remainder
            read = stream.readinto(memoryview(buffer)[len(remainder) : room])
            size = len(remainder) + read
            if not read:
                break
            cut = buffer.rfind(b"\n", 0, size) + 1
            remainder = bytes(memoryview(buffer)[cut:size])
            if cut:
                yield buffer, cut
            else:
                free.append(buffer)
    if remainder:
        buffer[size : size + 1] = b"\n"
        yield buffer, size + (not remainder.endswith(b"\n"))


def _split(piece: bytearray, size: int, layout: Layout, room: _Room) -> _Block:
    buffer, names = np.frombuffer(piece, np.uint8), layout.names
    arrays = room.for_bytes(size, len(names))
    docs, doc_offsets, values, line, stretches, odd, bad = arrays
    call = partial(split_rows, buffer, size, len(names), layout.doc, layout.number, *arrays)
    faults: list[Fault] = []
    rows, many, odds, wrong, lines, ascii = call()
    if not ascii and (faults := _blank_what_is_not_utf8(piece, size)):
        rows, many, odds, wrong, lines, _ = call()
    faults += [
        _miscounted(at, num_columns, layout) for at, num_columns in bad[:, :wrong].T.tolist()
    ]
    for row, start, end in odd[:, :odds].T.tolist():
        cell = piece[start:end].decode()
        values[row] = _number(cell)
        if np.isnan(values[row]):
            problem = f"the {names[layout.number]} is {cell!r}, not a number"
            faults.append((int(line[row]), problem, layout.describe()))
    first, starts, ends = stretches[:, :many]
    columns = (
        gather_spans(frozen(buffer), starts, ends),
        _offsets(ends - starts),
        np.diff(first, append=rows),
        docs[: doc_offsets[rows]].copy(),
        doc_offsets[: rows + 1].copy(),
        values[:rows].copy(),
        line[:rows].copy(),
    )
    return _Block(_without_gaps(columns) if odds else columns, lines, faults)


def _miscounted(line: int, num_columns: int, layout: Layout) -> Fault:
    columns = "column" if num_columns == 1 else "columns"
    swapped = next((other.what for other in (RUN, QRELS) if len(other.names) == num_columns), "")
    hint = f"is it {swapped}? {layout.what} {layout.describe()}" if swapped else layout.describe()
    return line, f"{num_columns} {columns} instead of {len(layout.names)}", hint


def _without_gaps(columns: tuple[NDArray[Any], ...]) -> tuple[NDArray[Any], ...]:
    """The columns without the rows that have no number, and without queries left with none."""
    queries, query_offsets, sizes, docs, doc_offsets, values, line = columns
    rows = np.flatnonzero(~np.isnan(values))
    stretch = np.repeat(np.arange(len(sizes)), sizes)[rows]
    sizes_left = np.bincount(stretch, minlength=len(sizes))
    return (
        *gather(frozen(queries), frozen(query_offsets), np.flatnonzero(sizes_left)),
        sizes_left[sizes_left > 0],
        *gather(frozen(docs), frozen(doc_offsets), rows),
        values[rows],
        line[rows],
    )


def _blank_what_is_not_utf8(piece: bytearray, size: int) -> list[Fault]:
    """Make lines blank that are not UTF-8; a fault for each of them."""
    faults: list[Fault] = []
    start = 0
    for number, line in enumerate(bytes(memoryview(piece)[: size - 1]).split(b"\n"), 1):
        try:
            line.decode()
        except UnicodeDecodeError as error:
            fault = not_utf8(Path(), number, error)
            faults.append((number, fault.problem, fault.hint))
            piece[start : start + len(line)] = b" " * len(line)
        start += len(line) + 1
    return faults


def _number(cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        return float("nan")


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
