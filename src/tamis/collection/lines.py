"""Files as streams of bytes or lines, packed or not; what the lines mean is left to the formats."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Protocol, cast

import zstandard

from tamis import durable
from tamis.collection.base import Faults
from tamis.errors import InputError, LineError

GZIP = b"\x1f\x8b"
ZSTD = b"\x28\xb5\x2f\xfd"
BOM = b"\xef\xbb\xbf"
COMPRESSION_SUFFIXES = ("", ".gz", ".zst")
"""What may follow the name of a file of a known layout, first nothing."""
_CHUNK = 1 << 17
_BUFFER = 1 << 18


class _Decompressor(Protocol):
    """What zlib and zstandard agree on: one packed stretch, and what lies after it."""

    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: bytes, /) -> bytes: ...


class _Unpacking(io.RawIOBase):
    """The bytes inside a gzip or zstd file, which may be several packed stretches in a row."""

    def __init__(self, file: IO[bytes], path: Path, packing: str) -> None:
        self._file, self._path, self._packing = file, path, packing
        self._new: Callable[[], _Decompressor] = _NEW[packing]
        self._stretch: _Decompressor | None = None
        self._packed = b""
        self._ready = memoryview(b"")

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        self._file.close()
        super().close()

    def readinto(self, buffer: Any, /) -> int:
        while not self._ready:
            if not self._packed:
                self._packed = self._file.read(_CHUNK)
            if not self._packed:
                self._check_whole()
                return 0
            self._ready = memoryview(self._unpack())
        size = min(len(buffer), len(self._ready))
        buffer[:size] = self._ready[:size]
        self._ready = self._ready[size:]
        return size

    def _unpack(self) -> bytes:
        """Unpack what was read; bytes after the end of a stretch begin the next one."""
        if self._stretch is None:
            if self._packing == "gzip":
                self._packed = self._packed.lstrip(b"\0")  # padding, as tapes have it
            if not self._packed:
                return b""
            self._stretch = self._new()
        try:
            data = self._stretch.decompress(self._packed)
        except (zlib.error, zstandard.ZstdError) as error:
            raise InputError(
                f"{self._path} is damaged: {error}", hint="fetch or pack the file again"
            ) from None
        self._packed = b""
        if self._stretch.eof:
            self._packed, self._stretch = self._stretch.unused_data, None
        return data

    def _check_whole(self) -> None:
        if self._stretch is not None:
            raise InputError(
                f"{self._path} is cut short: it ends in the middle of its {self._packing} data",
                hint="fetch or pack the file again",
            )


def _gzip_stretch() -> _Decompressor:
    return cast(_Decompressor, zlib.decompressobj(wbits=31))


def _zstd_stretch() -> _Decompressor:
    unpacking = zstandard.ZstdDecompressor(max_window_size=1 << 31)
    return cast(_Decompressor, unpacking.decompressobj())


_NEW: dict[str, Callable[[], _Decompressor]] = {"gzip": _gzip_stretch, "zstd": _zstd_stretch}


def packing(path: Path) -> str | None:
    """How a file is packed, by its first bytes: gzip, zstd or not at all."""
    with path.open("rb") as file:
        start = file.read(4)
    if start.startswith(GZIP):
        return "gzip"
    is_skippable_frame = start[1:] == b"\x2a\x4d\x18" and start[0] >> 4 == 5
    return "zstd" if start == ZSTD or is_skippable_frame else None


def open_bytes(path: Path) -> io.BufferedReader:
    """The bytes of a file, unpacked where it is gzip or zstd inside, whatever its name."""
    if path.is_dir():
        raise InputError(f"{path} is a folder, not a file", hint="name a file in it")
    if not path.is_file():
        raise InputError(f"there is no file {path}", hint="is the path right?")
    packed = packing(path)
    if packed is None:
        return io.BufferedReader(path.open("rb", buffering=0), _BUFFER)
    return io.BufferedReader(_Unpacking(path.open("rb"), path, packed), _BUFFER)


def numbered_bytes(path: Path) -> Iterator[tuple[int, bytes]]:
    """Lines as bytes with their endings, numbered from 1; a leading byte-order mark is dropped."""
    with open_bytes(path) as stream:
        first = stream.readline().removeprefix(BOM)
        if first:
            yield 1, first
        yield from enumerate(stream, 2)


def numbered_lines(path: Path, faults: Faults) -> Iterator[tuple[int, str]]:
    """Lines without their endings, numbered from 1; one that is not UTF-8 is a fault."""
    for number, line in numbered_whole_lines(path, faults):
        yield number, line.removesuffix("\n").removesuffix("\r")


def numbered_whole_lines(path: Path, faults: Faults) -> Iterator[tuple[int, str]]:
    """Lines with their endings, numbered from 1; one that is not UTF-8 is a fault."""
    for number, raw in numbered_bytes(path):
        try:
            line = raw.decode()
        except UnicodeDecodeError as error:
            faults.meet(not_utf8(path, number, error))
            continue
        yield number, line


def not_utf8(path: Path, number: int, error: UnicodeDecodeError) -> LineError:
    """The error for a line that is in another encoding."""
    return LineError(
        path,
        number,
        f"byte 0x{error.object[error.start]:02x} at position {error.start + 1} is not UTF-8",
        hint="save the file as UTF-8",
    )


@contextmanager
def writing(path: Path, force: bool = False) -> Iterator[IO[bytes]]:
    """A stream to write bytes to; the file appears whole when the block ends well.

    A name that ends in .gz or .zst asks for that packing. The same content gives the same bytes.
    """
    with durable.new_file(path, force=force) as unfinished, unfinished.open("wb") as file:
        if path.suffix == ".gz":
            with gzip.GzipFile("", "wb", 6, file, mtime=0) as packed:
                yield cast(IO[bytes], packed)
        elif path.suffix == ".zst":
            with zstandard.ZstdCompressor(level=3).stream_writer(file, closefd=False) as packed:
                yield cast(IO[bytes], packed)
        else:
            yield file
