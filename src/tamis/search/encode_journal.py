"""The folder in which the embeddings of a segment grow, block after block.

Each column is a file that grows; a journal has a line a block: how many documents are done, how
many rows there are, and the checksum of the block's bytes. Killed at any moment, whoever comes
next goes on after the last line that is true.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import xxhash
from numpy.typing import NDArray

from tamis.durable import new_file
from tamis.search.embeddings import COLUMNS, Rows, same_encoder, write_embeddings

JOURNAL, HEADER, PROBE = "journal.jsonl", "work.json", "probe.npy"

Columns = dict[str, NDArray[Any]]


class Work:
    """The folder in which the embeddings of one segment grow."""

    def __init__(self, folder: Path, header: Mapping[str, str], probe: Rows) -> None:
        """Go on in a folder with the same header and probe, or begin anew."""
        self.folder, self._header, self._probe = folder, dict(header), probe
        self.num_documents = self.rows = self.left_out = 0
        if self._is_ours():
            self._take_up()
        else:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            np.save(folder / PROBE, probe)
            (folder / HEADER).write_text(json.dumps(self._header), "utf-8")

    def _is_ours(self) -> bool:
        """Whether the folder holds the same segment, encoded in the same way."""
        header, probes = self.folder / HEADER, self.folder / PROBE
        if not (header.is_file() and probes.is_file()):
            return False
        try:
            same = json.loads(header.read_text("utf-8")) == self._header
        except ValueError:  # killed while it was written
            return False
        return same and same_encoder(np.load(probes), self._probe)

    def _path(self, column: str) -> Path:
        return self.folder / f"{column}.bin"

    def _width(self, column: str) -> int:
        """How many bytes a row has."""
        numbers = self._probe.shape[1] if column in ("float32", "int8") else 1
        return numbers * np.dtype(COLUMNS[column]).itemsize

    def _take_up(self) -> None:
        """Go on after the last block that is as the journal says; cut off what comes after it."""
        lines = []
        for line in _lines(self.folder / JOURNAL):
            if self._sum(self.rows, line["rows"]) != line["sum"]:
                break
            lines.append(line)
            self.num_documents, self.rows = line["documents"], line["rows"]
            self.left_out = line["left_out"]
        for column in COLUMNS:
            with self._path(column).open("ab") as file:
                file.truncate(self.rows * self._width(column))
        text = "".join(json.dumps(line) + "\n" for line in lines)
        with new_file(self.folder / JOURNAL, force=True) as unfinished:
            unfinished.write_text(text, "utf-8")

    def _sum(self, start: int, end: int) -> str:
        """The checksum of some rows in all columns; of what there is of them."""
        digest = xxhash.xxh3_64()
        for column in COLUMNS:
            if end > start and self._path(column).is_file():
                with self._path(column).open("rb") as file:
                    file.seek(start * self._width(column))
                    digest.update(file.read((end - start) * self._width(column)))
        return str(digest.hexdigest())

    def append(self, num_documents: int, left_out: int, columns: Columns | None) -> None:
        """Keep the rows of one more block; all documents up to this number are done then."""
        if num_documents == self.num_documents:
            return
        digest, rows = xxhash.xxh3_64(), 0
        for column, dtype in COLUMNS.items():
            if columns is not None:
                block = np.ascontiguousarray(columns[column], dtype)
                digest.update(block.data)
                rows = len(block)
                with self._path(column).open("ab") as file:
                    file.write(block.data)
        self.num_documents, self.rows = num_documents, self.rows + rows
        self.left_out += left_out
        line = {
            "documents": num_documents, "rows": self.rows, "left_out": self.left_out,
            "sum": digest.hexdigest(),
        }  # fmt: skip
        with (self.folder / JOURNAL).open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def finish(self, folder: Path, facts: Mapping[str, Any]) -> str:
        """Write all rows as a folder of embeddings; its digest."""
        columns = {name: [self._mapped(name)] if self.rows else [] for name in COLUMNS}
        return write_embeddings(folder, columns, self._probe, **facts, left_out=self.left_out)

    def _mapped(self, column: str) -> NDArray[Any]:
        array = np.memmap(self._path(column), COLUMNS[column], "r")
        return array.reshape(self.rows, -1) if column in ("float32", "int8") else array


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    """The whole lines of a journal; the last may have been cut short by a kill."""
    if not path.is_file():
        return
    for line in path.read_bytes().split(b"\n"):
        try:
            line = json.loads(line)
        except ValueError:
            return
        yield line
