"""What every long job and every folder on disk shares: whole-or-nothing writes, locks,
checksums, progress. What lies in a folder is left to whoever writes it.
"""

from __future__ import annotations

import ctypes
import fcntl
import math
import os
import re
import shlex
import shutil
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Literal, Self

import numpy as np
import xxhash
from numpy.typing import NDArray

from tamis.errors import DamagedError, InputError, OutputError
from tamis.terminal import tell, visible

BLOCK = 1 << 20
"""How many bytes one checksum covers."""


@contextmanager
def new_file(path: Path, *, force: bool = False) -> Iterator[Path]:
    """A path to write to; what was written appears under `path` when the block ends well."""
    _refuse_existing(path, force)
    if path.is_dir():
        raise OutputError(f"{path} is a folder", hint="choose another name")
    if not path.parent.is_dir():
        raise OutputError(f"there is no folder {path.parent}", hint="make it first")
    _remove_stale(path)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        yield unfinished
        _sync(unfinished)
        unfinished.replace(path)
        _sync(path.parent)
    finally:
        unfinished.unlink(missing_ok=True)


@contextmanager
def scratch_folder(path: Path) -> Iterator[Path]:
    """A folder beside `path` for what is needed while it is written; removed at the end."""
    folder = path.with_name(f".{path.name}.{os.getpid()}.scratch.part")
    folder.mkdir()
    try:
        yield folder
    finally:
        _remove(folder)


def _remove_stale(path: Path) -> None:
    """Remove what killed writers of `path` left; what belongs to a live process stays.

    On a disk that machines share, a process of another machine counts as dead.
    """
    pattern = re.compile(rf"\.{re.escape(path.name)}\.(\d+)(\.scratch)?\.part")
    with suppress(PermissionError):  # what cannot be listed or removed stays
        for other in path.parent.iterdir():
            match = pattern.fullmatch(other.name)
            if match and not _is_alive(int(match[1])):
                _remove(other)


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:  # of another user
        pass
    return True


@contextmanager
def new_folder(path: Path, *, force: bool = False) -> Iterator[Path]:
    """An empty folder to fill; it takes the name `path` when the block ends well.

    Killed at any moment, `path` is what it was before, for `folder_exists` at the latest. One
    writer at a time: a second is refused. Whoever writes the files, they have the modes that the
    umask asks for.
    """
    folder_exists(path)
    _refuse_existing(path, force)
    path.parent.mkdir(parents=True, exist_ok=True)
    with locked(path):
        _refuse_existing(path, force)  # another writer may have ended meanwhile
        unfinished = path.with_name(f".{path.name}.part")
        _remove(unfinished)  # what a killed writer left
        unfinished.mkdir()
        mode = stat.S_IMODE(unfinished.stat().st_mode)
        try:
            yield unfinished
            for file in [*unfinished.rglob("*"), unfinished]:
                _set_mode(file, mode)
                _sync(file)
            _put_in_place(unfinished, path)
            _sync(path.parent)
        finally:
            _remove(unfinished)


def _set_mode(path: Path, mode: int) -> None:
    """Give a folder this mode, and a file the same without the right to execute."""
    new_mode = mode if path.is_dir() else mode & 0o666
    if not path.is_symlink() and stat.S_IMODE(path.stat().st_mode) != new_mode:
        with suppress(PermissionError):  # a file system without modes
            path.chmod(new_mode)


def folder_exists(path: Path) -> bool:
    """Whether there is such a folder; one that a killed writer left aside is put back first.

    Only where the system cannot exchange two names in one step is a folder ever set aside.
    """
    if not os.path.lexists(path) and os.path.lexists(_aside(path)):
        _put_back(path)
    return path.is_dir()


def _put_back(path: Path) -> None:
    aside = _aside(path)
    try:
        with locked(path):
            if not os.path.lexists(path):
                aside.rename(path)
    except OutputError:  # a writer is at it
        _wait_for(path)
    except OSError as error:
        raise OutputError(
            f"{path} was set aside as {aside} and cannot be put back: {error.strerror}",
            hint=f"rename it: {shlex.join(['mv', str(aside), str(path)])}",
        ) from None


def _aside(path: Path) -> Path:
    """Under which name a folder stands while another takes its place."""
    return path.with_name(f".{path.name}.old")


def _wait_for(path: Path, seconds: float = 1.0) -> None:
    """Wait until a writer has put a folder in its place, which takes two renames."""
    end = time.monotonic() + seconds
    while not os.path.lexists(path) and time.monotonic() < end:
        time.sleep(0.01)


def _refuse_existing(path: Path, force: bool) -> None:
    if path.exists() and not force:
        raise OutputError(
            f"{path} exists already",
            hint="choose another name, or replace it: --force, in Python force=True",
        )


def _remove(path: Path) -> None:
    """Remove a folder, a file or a link, where there is one."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the only right to write `path`; a second holder gets an error at once."""
    lock = path.with_name(f".{path.name}.lock")
    descriptor = _lock(lock, path)
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)
        os.close(descriptor)


def _lock(lock: Path, path: Path) -> int:
    """Lock a file made for it; one that its holder removed meanwhile is no lock, so try again."""
    while True:
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise OutputError(
                f"{path} is being written by another process", hint="wait for it, or end it"
            ) from None
        if _is_open_as(lock, descriptor):
            return descriptor
        os.close(descriptor)


def _is_open_as(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _put_in_place(unfinished: Path, path: Path) -> None:
    """Rename; where `path` exists the two change places in one step, if the system can.

    What is under the name `_aside` is whole, so it is removed under another name.
    """
    aside = _aside(path)
    if os.path.lexists(aside):  # a writer was killed when the new folder was in place
        trash = path.with_name(f".{path.name}.trash.part")
        _remove(trash)
        aside.rename(trash)
        _remove(trash)
    if not path.exists():
        unfinished.rename(path)
        return
    try:
        exchange = ctypes.CDLL(None).renameat2
        current_folder, swap = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
        if (
            exchange(
                current_folder, os.fsencode(unfinished), current_folder, os.fsencode(path), swap
            )
            == 0
        ):
            return
    except (AttributeError, OSError):
        pass
    path.rename(aside)
    unfinished.rename(path)
    aside.rename(unfinished)


class SumsWriter:
    """A file being written whose checksums, one a block, are taken along the way."""

    def __init__(self, path: Path) -> None:
        self._file: IO[bytes] = path.open("wb")
        self._hash = xxhash.xxh3_64()
        self._left = BLOCK
        self.sums: list[int] = []
        self.closed = False

    def write(self, data: Any) -> int:
        """Append bytes, or anything with a buffer."""
        view = memoryview(data).cast("B")
        at = 0
        while at < len(view):
            piece = view[at : at + self._left]
            self._hash.update(piece)
            at += len(piece)
            self._left -= len(piece)
            if self._left == 0:
                self._close_block()
        self._file.write(view)
        return len(view)

    def tell(self) -> int:
        """How many bytes were written."""
        return self._file.tell()

    def flush(self) -> None:
        """Hand what is buffered to the system."""
        self._file.flush()

    def close(self) -> None:
        """Finish the last block and the file."""
        if not self.closed:
            if self._left < BLOCK:
                self._close_block()
            self._file.close()
            self.closed = True

    def _close_block(self) -> None:
        self.sums.append(self._hash.intdigest())
        self._hash = xxhash.xxh3_64()
        self._left = BLOCK

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def checksums(path: Path) -> NDArray[np.uint64]:
    """The checksums of a file, one a block."""
    sums = []
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            sums.append(xxhash.xxh3_64_intdigest(block))
    return np.array(sums, np.uint64)


class Checked:
    """A memory-mapped file whose blocks are verified when they are first touched."""

    def __init__(self, path: Path, sums: NDArray[np.uint64], size: int) -> None:
        actual_size = path.stat().st_size if path.exists() else None
        if actual_size != size:
            bytes_there = "no" if actual_size is None else f"{actual_size:,}"
            raise DamagedError(
                f"{path} has {bytes_there} bytes instead of {size:,}",
                hint="it was cut short or changed; build it again",
            )
        self.path = path
        self.data: NDArray[np.uint8] = (
            np.memmap(path, np.uint8, "r") if size else np.empty(0, np.uint8)
        )
        self._sums = sums
        self._unseen = np.ones(len(sums), bool)

    def touch(self, start: int, end: int) -> None:
        """Verify the blocks under these bytes, each once."""
        first, last = start // BLOCK, -(-end // BLOCK)
        if not self._unseen[first:last].any():
            return
        for number in range(first, last):
            if self._unseen[number]:
                self._verify(number)
                self._unseen[number] = False

    def view(self, start: int = 0, end: int | None = None) -> NDArray[np.uint8]:
        """The verified bytes from `start` to `end`."""
        end = len(self.data) if end is None else end
        self.touch(start, end)
        return self.data[start:end]

    def _verify(self, number: int) -> None:
        block = self.data[number * BLOCK : (number + 1) * BLOCK]
        if xxhash.xxh3_64_intdigest(block.data) != int(self._sums[number]):
            raise DamagedError(
                f"{self.path}: bytes from {number * BLOCK:,} on are not what was written",
                hint="the file was changed or the disk is failing; build it again",
            )


class Progress:
    """How far a job is and how long it still takes, on stderr; silent for the first second.

    A bar in a terminal, a line every ten seconds elsewhere. Data never goes to stderr, so a pipe
    stays clean.
    """

    def __init__(self, what: str, total: int | None = None, unit: str = "") -> None:
        self.what, self.total, self.unit = what, total, unit
        self.done = 0
        self._start = self._said = time.monotonic()
        self._live = sys.stderr.isatty()
        self._shown = False

    def advance(self, count: int = 1) -> None:
        """Note that `count` more are done."""
        self.done += count
        now = time.monotonic()
        if now - self._said >= (0.2 if self._shown and self._live else 1 if self._live else 10):
            self._said = now
            self._show(now - self._start)

    def _show(self, elapsed: float) -> None:
        progress = describe_progress(self.done, self.total, elapsed, self.unit)
        line = visible(f"{self.what}: {progress}")
        if self._live:
            width = shutil.get_terminal_size().columns - 1
            tell(f"\r\x1b[K{line[:width]}", end="")
        else:
            tell(line)
        self._shown = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._shown and self._live:
            tell("\r\x1b[K", end="")


def describe_progress(done: int, total: int | None, elapsed: float, unit: str = "") -> str:
    """Progress in words.

    >>> describe_progress(250, 1000, 10.0, "documents")
    '250 of 1,000 documents (25%), 25 per second, 30 s left'
    >>> describe_progress(250, None, 10.0, "documents")
    '250 documents, 25 per second'
    """
    rate = done / elapsed if elapsed else 0.0
    unit = f" {unit}" if unit else ""
    speed = f"{rate:,.0f} per second" if rate >= 1 else f"{rate:.2g} per second"
    if not total:
        return f"{done:,}{unit}, {speed}"
    time_left = f", {duration((total - done) / rate)} left" if rate else ""
    return f"{done:,} of {total:,}{unit} ({done / total:.0%}), {speed}{time_left}"


SECONDS_PER_UNIT = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}


_NUMBER = r"[0-9]{1,9}+(?:\.[0-9]{0,9}+)?+|\.[0-9]{1,9}+"


def parse_time(text: str, unit: Literal["s", "m"]) -> float:
    """Seconds from `20m`, `1h30m`, `90s`, `200ms`; a number alone is in `unit`.

    >>> parse_time("1h30m", "m"), parse_time("20", "m"), parse_time("1.5 s", "s")
    (5400.0, 1200.0, 1.5)
    """
    compact = re.sub(r"\s+", "", text.lower())
    compact += unit if re.fullmatch(_NUMBER, compact) else ""
    amounts = re.findall(rf"({_NUMBER})(h|min|ms|m|s)", compact)
    seconds = math.fsum(float(number) * SECONDS_PER_UNIT[name] for number, name in amounts)
    if "".join(number + name for number, name in amounts) != compact or not 0 < seconds < math.inf:
        raise InputError(f"{text!r} is not a length of time", hint="write 20m, 1h30m, 90s or 200ms")
    return seconds


def duration(seconds: float) -> str:
    """A length of time as people say it.

    >>> duration(42), duration(190), duration(7300)
    ('42 s', '3 min 10 s', '2 h 1 min')
    """
    rounded = round(seconds)
    if rounded < 60:
        return f"{rounded} s"
    if rounded < 3600:
        return f"{rounded // 60} min {rounded % 60} s"
    return f"{rounded // 3600} h {rounded % 3600 // 60} min"
