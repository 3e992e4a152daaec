"""Parts of a zip archive, such as a Word document or an e-book, read within bounds.

An archive says how long its parts are, and no more than that is unpacked; what is read of one
archive altogether is bounded, so that a small file cannot fill the memory.
"""

from __future__ import annotations

import io
import lzma
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

from tamis.collection.file_content import Unreadable

MAX_UNPACKED_BYTES = 32 * 1024 * 1024
"""Of one archive. Trees of XML take 10 to 25 times as much memory as its bytes."""
MAX_SINGLE_READ = 4 * 1024 * 1024
"""The directory of an archive is read at once: so many bytes are some fifty thousand parts."""
CHUNK = 1 << 20
BAD_ZIP = (
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, struct.error),
    *(NotImplementedError, RuntimeError, ValueError, LookupError),
)
"""What zipfile raises where an archive is damaged, encrypted or packed in another way."""


class _SmallReads(io.FileIO):
    """A file of which no more than a bound is read at once."""

    def read(self, size: int | None = -1, /) -> bytes:
        whole = size is None or size < 0
        if not whole and size is not None and size > MAX_SINGLE_READ:
            raise zipfile.BadZipFile("its directory is too long")
        return super().read(MAX_SINGLE_READ if whole else size) or b""


class ZipParts:
    """The parts of an archive by name."""

    def __init__(self, path: Path, kind: str) -> None:
        self._kind = kind
        self._left = MAX_UNPACKED_BYTES
        self._file = _SmallReads(path)
        try:
            with self._faults():
                self._zip = zipfile.ZipFile(self._file)
        except Unreadable:
            self._file.close()
            raise
        self._parts = {part.filename: part for part in self._zip.infolist()}

    def __enter__(self) -> ZipParts:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._zip.close()
        self._file.close()

    def __iter__(self) -> Iterator[str]:
        return iter(self._parts)

    def __contains__(self, name: object) -> bool:
        return name in self._parts

    def read(self, name: str) -> bytes:
        """The bytes of one part."""
        if name not in self._parts:
            raise self.fault(f"it has no part {name!r}")
        part = self._parts[name]
        if part.file_size > self._left:
            raise self.fault(
                f"it unpacks to more than {MAX_UNPACKED_BYTES // 2**20} MB", "split the file"
            )
        self._left -= part.file_size
        with self._faults(), self._zip.open(part) as stream:
            return b"".join(iter(lambda: stream.read(CHUNK), b""))

    def fault(
        self, problem: object, hint: str = "open it elsewhere and save it again"
    ) -> Unreadable:
        """What is wrong with the file."""
        return Unreadable(1, f"this {self._kind} cannot be read: {problem}", hint)

    @contextmanager
    def _faults(self) -> Iterator[None]:
        try:
            yield
        except BAD_ZIP as error:
            raise self.fault(error or type(error).__name__) from None
