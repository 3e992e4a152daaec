"""The folder of judgements with their queries: it grows by a line an answer."""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Iterable
from pathlib import Path

from tamis import durable
from tamis.collection.beir import QUERIES, write_beir_queries
from tamis.collection.judgements import (
    BEIR_COLUMNS,
    BEIR_HEADER,
    QRELS_FOLDER,
    split_files,
    the_split,
    torn_line,
)
from tamis.collection.lines import packing
from tamis.collection.loss_notes import LossNotes, refuse_break
from tamis.collection.readers import read_queries
from tamis.errors import InputError, OutputError
from tamis.types import Queries, Query

SPLIT = "judged"
_log = logging.getLogger(__name__)


class JudgedFolder:
    """A folder of judgements with their queries, whole at any moment: `queries.jsonl` and
    `qrels/SPLIT.tsv`, to which lines are added and taken back.

    A query is there before its first judgement. The first line of judgements comes by a rename and
    goes with the file, since an empty one judges nothing.
    """

    def __init__(self, path: Path, ids: Iterable[str]) -> None:
        """The folder as it is; `ids` are those that will have to go in."""
        if path.is_dir() and {file.name for file in path.iterdir()} - {QUERIES, QRELS_FOLDER}:
            raise OutputError(f"{path} is a folder of something else", hint="choose another name")
        for name in ids:
            refuse_break(name)
        self.path = path
        queries = path / QUERIES
        self.queries = read_queries(queries) if queries.exists() else Queries.of([])
        files = split_files(path)
        self.file = the_split(path)[1] if files else path / QRELS_FOLDER / f"{SPLIT}.tsv"
        if packing(self.file) if files else None:
            raise InputError(
                f"{self.file} is packed and cannot grow line by line", hint="unpack it"
            )
        self._drop_torn_line()
        self._sizes = [self.file.stat().st_size if files else 0]

    def _drop_torn_line(self) -> None:
        torn = torn_line(self.file, BEIR_COLUMNS) if self.file.exists() else b""
        if torn:
            with self.file.open("r+b") as file:
                file.truncate(self.file.stat().st_size - len(torn))
            _log.warning("%s: its last line was not written to its end and is dropped", self.file)

    @property
    def size(self) -> int:
        """How many bytes of judgements there are."""
        return self._sizes[-1]

    def append(self, query: Query, doc: str, grade: int) -> None:
        """Add a judgement; it is on disk when this returns, and not there at all if it raises."""
        self._expect_unchanged()
        self._add_query(query)
        row = f"{query.id}\t{doc}\t{grade}\n"
        if self.size:
            self._add(row.encode())
        else:
            self.file.parent.mkdir(exist_ok=True)
            with durable.new_file(self.file, force=True) as unfinished:
                unfinished.write_text(f"{BEIR_HEADER}\n{row}", "utf-8")
        self._sizes.append(self.file.stat().st_size)

    def _add_query(self, query: Query) -> None:
        if query.id in self.queries:
            return
        self.path.mkdir(exist_ok=True)
        more = Queries.of([*self.queries, query])
        write_beir_queries(more, self.path / QUERIES, LossNotes(), force=True)
        self.queries = more

    def _add(self, row: bytes) -> None:
        with self.file.open("r+b", buffering=0) as file:
            file.seek(-1, os.SEEK_END)
            row = row if file.read(1) == b"\n" else b"\n" + row
            try:
                if file.write(row) != len(row):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.file))
                os.fsync(file.fileno())
            except OSError:
                file.truncate(self.size)
                raise

    def take_back(self) -> None:
        """Remove the last judgement that was appended; its query stays."""
        self._expect_unchanged()
        if self._sizes[-2] == 0:
            self.file.unlink()
        else:
            with self.file.open("r+b") as file:
                file.truncate(self._sizes[-2])
                os.fsync(file.fileno())
        self._sizes.pop()

    def _expect_unchanged(self) -> None:
        size = self.file.stat().st_size if self.file.exists() else 0
        if size != self.size:
            raise OutputError(
                f"{self.file} was changed by another program meanwhile",
                hint="this judgement is not in it; start again to go on from what is there",
            )
