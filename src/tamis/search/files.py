"""Folders of arrays: each array a file, each block of each file under a checksum.

    NOTE        what the folder holds: facts, and the type and size of every array
    CHECKSUMS   of the note, then of all blocks in the note's order, and last its own

What the arrays mean is left to whoever writes them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import xxhash
from numpy.typing import NDArray

from tamis.durable import BLOCK, Checked, SumsWriter
from tamis.errors import DamagedError
from tamis.types._strings import frozen

NOTE, CHECKSUMS = "note.json", "checksums.bin"


class ArraysWriter:
    """Writes arrays into a folder; `finish` makes it readable."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._files: dict[str, list[Any]] = {}
        self._sums: list[int] = []

    def write(self, name: str, *arrays: NDArray[Any]) -> None:
        """Write an array, in one part or in several that follow each other."""
        dtype = np.dtype(arrays[0].dtype).newbyteorder("<")
        with SumsWriter(self.folder / f"{name}.bin") as file:
            for array in arrays:
                if array.size:
                    file.write(np.ascontiguousarray(array, dtype))
            size = file.tell()
        self._files[name] = [dtype.str, size]
        self._sums += file.sums

    def finish(self, **facts: Any) -> None:
        """Write the note and the checksums."""
        note = json.dumps({**facts, "files": self._files}, indent=1).encode()
        (self.folder / NOTE).write_bytes(note)
        raw = np.array([xxhash.xxh3_64_intdigest(note), *self._sums], "<u8").tobytes()
        own = np.array([xxhash.xxh3_64_intdigest(raw)], "<u8").tobytes()
        (self.folder / CHECKSUMS).write_bytes(raw + own)


class LazyArray:
    """A mapped array whose blocks are verified when they are first asked for."""

    def __init__(self, file: Checked, dtype: str) -> None:
        self._file = file
        self.data: NDArray[Any] = frozen(np.asarray(file.data).view(dtype))
        self._unseen = np.ones(-(-len(file.data) // BLOCK), bool)
        self._left = len(self._unseen)

    def touch(self, starts: NDArray[np.int64], ends: NDArray[np.int64]) -> None:
        """Verify what lies under these stretches of elements."""
        if self._left == 0:
            return
        width = self.data.itemsize
        firsts, lasts = starts * width // BLOCK, (ends * width - 1) // BLOCK
        reads = np.zeros(len(self._unseen) + 1, np.int64)
        some = ends > starts
        np.add.at(reads, firsts[some], 1)
        np.add.at(reads, lasts[some] + 1, -1)
        for number in np.flatnonzero((np.cumsum(reads[:-1]) > 0) & self._unseen).tolist():
            self._file.touch(number * BLOCK, min((number + 1) * BLOCK, len(self._file.data)))
            self._unseen[number] = False
        self._left = int(self._unseen.sum())


class ArraysReader:
    """A folder of arrays, opened: its note and its checksums are verified at once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        sums = _read_checksums(folder)
        note = _read(folder / NOTE)
        if xxhash.xxh3_64_intdigest(note) != int(sums[0]):
            raise _damaged(folder / NOTE, "is not what was written")
        self.note: dict[str, Any] = json.loads(note)
        self.digest = f"{int(sums[-1]):016x}"
        """Changes with any byte of the folder."""
        blocks = [-(-size // BLOCK) for _, size in self.note["files"].values()]
        bounds = np.concatenate([[1], 1 + np.cumsum(blocks, dtype=np.int64)])
        files = self.note["files"].items()
        self._files = {  # mapped at once: a writer may remove the folder at any time
            name: Checked(folder / f"{name}.bin", sums[start:end], size)
            for (name, (_, size)), (start, end) in zip(files, pairwise(bounds), strict=True)
        }

    def array(self, name: str) -> NDArray[Any]:
        """A whole array, mapped and verified."""
        dtype = self.note["files"][name][0]
        return frozen(np.asarray(self._files[name].view()).view(dtype))

    def lazy(self, name: str) -> LazyArray:
        """An array that is verified as it is used."""
        return LazyArray(self._files[name], self.note["files"][name][0])

    def verify(self) -> None:
        """Read every byte; `DamagedError` names the first file that is not what was written."""
        for name in self.note["files"]:
            self.array(name)


def _read_checksums(folder: Path) -> NDArray[np.uint64]:
    raw = _read(folder / CHECKSUMS)
    sums = np.frombuffer(raw[: len(raw) // 8 * 8], "<u8")
    if len(raw) % 8 or len(sums) < 2 or int(sums[-1]) != xxhash.xxh3_64_intdigest(raw[:-8]):
        raise _damaged(folder / CHECKSUMS, "is not what was written")
    return sums


def _read(path: Path) -> bytes:
    if not path.is_file():
        raise _damaged(path, "is missing")
    return path.read_bytes()


def _damaged(path: Path, problem: str) -> DamagedError:
    return DamagedError(f"{path} {problem}", hint="build the index again")


def joined(arrays: Iterable[NDArray[Any]], dtype: str) -> NDArray[Any]:
    """The arrays one after another; an empty one where there are none.

    >>> joined([], "<i4").dtype
    dtype('int32')
    """
    listed = list(arrays)
    return np.concatenate(listed) if listed else np.empty(0, dtype)
