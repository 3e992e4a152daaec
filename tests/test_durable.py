"""Whole-or-nothing writes, locks, checksums and progress."""

from __future__ import annotations

import ctypes
import fcntl
import os
import shutil
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

from tamis import durable
from tamis.durable import (
    Checked,
    Progress,
    SumsWriter,
    checksums,
    describe_progress,
    duration,
    folder_exists,
    locked,
    new_file,
    new_folder,
    parse_time,
    scratch_folder,
)
from tamis.errors import DamagedError, InputError, OutputError


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def make_old(path: Path) -> None:
    path.mkdir()
    (path / "old").write_text("old")


# Files


def test_a_file_appears_when_the_block_ends(tmp_path: Path) -> None:
    with new_file(tmp_path / "out") as part:
        part.write_text("half")
        assert not (tmp_path / "out").exists()
        part.write_text("whole")
    assert (tmp_path / "out").read_text() == "whole"
    assert names(tmp_path) == ["out"]


@pytest.mark.parametrize("existing", [False, True])
def test_a_file_whose_writer_fails_is_as_before(tmp_path: Path, existing: bool) -> None:
    path = tmp_path / "out"
    if existing:
        path.write_text("old")
    with pytest.raises(KeyboardInterrupt), new_file(path, force=True) as part:
        part.write_text("half")
        raise KeyboardInterrupt
    assert names(tmp_path) == (["out"] if existing else [])
    assert not existing or path.read_text() == "old"


def test_a_file_that_exists_is_replaced_only_by_force(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_text("old")
    with pytest.raises(OutputError, match="exists already") as caught, new_file(path):
        raise AssertionError("must not come here")
    assert "--force" in caught.value.hint
    with path.open() as reader:
        with new_file(path, force=True) as part:
            part.write_text("new")
        assert reader.read() == "old"  # it was swapped, not written over
    assert path.read_text() == "new"


@pytest.mark.parametrize("name", ["nowhere/out", "nowhere/out.tsv"])
def test_a_file_in_no_folder(tmp_path: Path, name: str) -> None:
    with pytest.raises(OutputError, match="there is no folder"), new_file(tmp_path / name):
        raise AssertionError("must not come here")


def test_a_file_does_not_replace_a_folder(tmp_path: Path) -> None:
    make_old(tmp_path / "out")
    with pytest.raises(OutputError, match="is a folder"), new_file(tmp_path / "out", force=True):
        raise AssertionError("must not come here")
    assert (tmp_path / "out" / "old").read_text() == "old"


# Folders


def test_a_folder_appears_when_the_block_ends(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "er" / "my.sieve"
    with new_folder(path) as part:
        (part / "inner").mkdir()
        (part / "inner" / "file").write_text("x")
        assert not path.exists()
    assert (path / "inner" / "file").read_text() == "x"
    assert names(path.parent) == ["my.sieve"]


@pytest.mark.parametrize("existing", [False, True])
def test_a_folder_whose_writer_fails_is_as_before(tmp_path: Path, existing: bool) -> None:
    path = tmp_path / "out"
    if existing:
        make_old(path)
    with pytest.raises(ZeroDivisionError), new_folder(path, force=True) as part:
        (part / "new").write_text("half")
        raise ZeroDivisionError
    assert names(tmp_path) == (["out"] if existing else [])
    assert not existing or names(path) == ["old"]


def test_a_folder_that_exists_is_replaced_only_by_force(tmp_path: Path) -> None:
    make_old(tmp_path / "out")
    with pytest.raises(OutputError, match="exists already"), new_folder(tmp_path / "out"):
        raise AssertionError("must not come here")
    with new_folder(tmp_path / "out", force=True) as part:
        (part / "new").write_text("new")
        assert names(tmp_path / "out") == ["old"]
    assert names(tmp_path / "out") == ["new"]
    assert names(tmp_path) == ["out"]


@pytest.mark.parametrize("swap", [True, False], ids=["exchange", "rename"])
@pytest.mark.parametrize("kind", ["file", "folder", "link"])
def test_force_replaces_whatever_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, swap: bool, kind: str
) -> None:
    path, elsewhere = tmp_path / "out", tmp_path / "elsewhere"
    make_old(elsewhere)
    if kind == "file":
        path.write_text("old")
    elif kind == "folder":
        make_old(path)
    else:
        path.symlink_to(elsewhere)
    if not swap:
        monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    for content in ("first", "second"):
        with new_folder(path, force=True) as part:
            (part / "new").write_text(content)
        assert (path / "new").read_text() == content
        assert names(tmp_path) == ["elsewhere", "out"]
    assert names(elsewhere) == ["old"]


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_what_a_killed_writer_left_is_replaced(tmp_path: Path, kind: str) -> None:
    if kind == "folder":
        make_old(tmp_path / ".out.part")
    else:
        (tmp_path / ".out.part").write_text("old")
    (tmp_path / ".out.lock").touch()
    with new_folder(tmp_path / "out") as part:
        assert names(part) == []
        (part / "new").write_text("new")
    assert names(tmp_path / "out") == ["new"]
    assert ".out.part" not in names(tmp_path)
    assert ".out.lock" not in names(tmp_path)


def test_a_folder_made_meanwhile_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "out"
    lock = durable._lock

    def slow(file: Path, of: Path) -> int:
        make_old(path)
        return lock(file, of)

    monkeypatch.setattr(durable, "_lock", slow)
    with pytest.raises(OutputError, match="exists already"), new_folder(path):
        raise AssertionError("must not come here")
    assert names(path) == ["old"]
    assert names(tmp_path) == ["out"]


# Killed

KILLED = """
import os, signal, sys
from pathlib import Path
from typing import Literal
from tamis import durable
moment, what, path = sys.argv[1], sys.argv[2], Path(sys.argv[3])

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

def dying(name):
    real = getattr(durable, name)
    def before(*arguments):
        if moment == "before " + name:
            die()
        result = real(*arguments)
        if moment == "after " + name:
            die()
        return result
    setattr(durable, name, before)

for name in ("_sync", "_put_in_place", "_remove"):
    dying(name)
make = durable.new_file if what == "file" else durable.new_folder
with make(path, force=True) as part:
    file = part if what == "file" else part / "content"
    file.write_text("ne")
    if moment == "inside":
        die()
    file.write_text("new")
"""
MOMENTS = [
    "after _remove",
    "inside",
    "before _sync",
    "after _sync",
    "before _put_in_place",
    "after _put_in_place",
]


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("existing", [False, True], ids=["new", "over"])
def test_a_folder_whose_writer_was_killed(tmp_path: Path, moment: str, existing: bool) -> None:
    path = tmp_path / "out"
    if existing:
        path.mkdir()
        (path / "content").write_text("old")
    ended = subprocess.run([sys.executable, "-c", KILLED, moment, "folder", path], check=False)
    assert ended.returncode == -signal.SIGKILL
    if moment == "after _put_in_place":
        assert (path / "content").read_text() == "new"
    elif existing:
        assert (path / "content").read_text() == "old"
    else:
        assert not path.exists()
    with new_folder(path, force=True) as part:
        assert names(part) == []
        (part / "content").write_text("again")
    assert names(tmp_path) == ["out"]
    assert (path / "content").read_text() == "again"


@pytest.mark.parametrize("moment", ["inside", "before _sync", "after _sync"])
def test_a_file_whose_writer_was_killed(tmp_path: Path, moment: str) -> None:
    path = tmp_path / "out"
    path.write_text("old")
    ended = subprocess.run([sys.executable, "-c", KILLED, moment, "file", path], check=False)
    assert ended.returncode == -signal.SIGKILL
    assert path.read_text() == "old"
    with new_file(path, force=True) as part:
        part.write_text("again")
    assert path.read_text() == "again"


# Killed where names cannot be exchanged in one step

KILLED_BETWEEN_RENAMES = """
import ctypes, os, signal, sys
from pathlib import Path
from tamis import durable
left, path = int(sys.argv[1]), Path(sys.argv[2])
ctypes.CDLL = lambda name: object()
real = Path.rename

def rename(self, target):
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return real(self, target)

Path.rename = rename
with durable.new_folder(path, force=True) as part:
    (part / "content").write_text("new")
"""


@pytest.mark.parametrize(("renames", "content"), [(1, "old"), (2, "old"), (3, "new")])
def test_a_folder_set_aside_by_a_killed_writer_is_put_back(
    tmp_path: Path, renames: int, content: str
) -> None:
    path = tmp_path / "out"
    path.mkdir()
    (path / "content").write_text("old")
    command = [sys.executable, "-c", KILLED_BETWEEN_RENAMES, str(renames), str(path)]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    assert path.exists() == (renames != 2)
    assert folder_exists(path)
    assert (path / "content").read_text() == content
    with pytest.raises(OutputError, match="exists already"), new_folder(path):
        raise AssertionError("must not come here")
    with new_folder(path, force=True) as part:
        (part / "content").write_text("again")
    assert names(tmp_path) == ["out"]
    assert (path / "content").read_text() == "again"


def test_a_writer_without_force_finds_the_folder_set_aside(tmp_path: Path) -> None:
    make_old(tmp_path / ".out.old")
    with pytest.raises(OutputError, match="exists already"), new_folder(tmp_path / "out"):
        raise AssertionError("must not come here")
    assert names(tmp_path / "out") == ["old"]
    assert names(tmp_path) == ["out"]


def test_a_folder_that_cannot_be_put_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_old(tmp_path / ".out.old")

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "rename", refuse)
    with pytest.raises(OutputError, match="cannot be put back") as caught:
        folder_exists(tmp_path / "out")
    assert "mv " in caught.value.hint
    assert not folder_exists(tmp_path / "other")


def test_a_reader_waits_for_a_writer_between_two_renames(tmp_path: Path) -> None:
    make_old(tmp_path / ".out.old")
    with locked(tmp_path / "out"):
        writer = threading.Timer(0.05, make_old, [tmp_path / "out"])
        writer.start()
        assert folder_exists(tmp_path / "out")
        writer.join()
    assert names(tmp_path) == [".out.old", "out"]


# What killed writers leave


def dead_process() -> int:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    return process.pid


def test_what_a_killed_writer_of_a_file_left_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "out.parquet"
    ended = subprocess.run([sys.executable, "-c", KILLED, "inside", "file", path], check=False)
    assert ended.returncode == -signal.SIGKILL
    assert len(names(tmp_path)) == 1
    (tmp_path / f".out.parquet.{dead_process()}.scratch.part").mkdir()
    kept = [
        f".out.parquet.{os.getppid()}.part",  # of a process that is alive
        f".other.{dead_process()}.part",
        ".out.parquet.mine.part",
        f"out.parquet.{dead_process()}.part",
    ]
    for name in kept:
        (tmp_path / name).touch()
    with new_file(path) as part:
        part.write_text("new")
    assert names(tmp_path) == sorted([*kept, "out.parquet"])


def test_a_scratch_folder_is_removed(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), scratch_folder(tmp_path / "out") as folder:
        (folder / "piece").touch()
        raise ZeroDivisionError
    assert names(tmp_path) == []


# Modes


@pytest.mark.parametrize(
    ("umask", "file_mode", "folder_mode"), [(0o022, 0o644, 0o755), (0o007, 0o660, 0o770)]
)
def test_files_of_a_folder_have_the_modes_of_the_umask(
    tmp_path: Path, umask: int, file_mode: int, folder_mode: int
) -> None:
    source = tmp_path / "source"
    make_old(source)
    (source / "old").chmod(0o400)
    source.chmod(0o700)
    before = os.umask(umask)
    try:
        with new_folder(tmp_path / "out") as part:
            shutil.copytree(source, part, dirs_exist_ok=True)
            shutil.copytree(source, part / "inner")
            os.close(os.open(part / "private", os.O_CREAT | os.O_WRONLY, 0o600))
            (part / "link").symlink_to(source / "old")
    finally:
        os.umask(before)
    out = tmp_path / "out"
    assert stat.S_IMODE(out.stat().st_mode) == folder_mode
    assert stat.S_IMODE((out / "inner").stat().st_mode) == folder_mode
    for name in ("old", "private", "inner/old"):
        assert stat.S_IMODE((out / name).stat().st_mode) == file_mode
    assert stat.S_IMODE((source / "old").stat().st_mode) == 0o400


# Locks

HOLDER = """
import sys
from pathlib import Path
from typing import Literal
from tamis.durable import new_folder
with new_folder(Path(sys.argv[1]), force=True) as part:
    print("held", flush=True)
    sys.stdin.readline()
"""


@contextmanager
def holder(path: Path) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        if process.poll() is None:
            process.kill()


@pytest.mark.parametrize("end", ["well", "killed"])
def test_a_second_writer_waits_for_the_first(tmp_path: Path, end: str) -> None:
    path = tmp_path / "out"
    with holder(path) as process:
        with pytest.raises(OutputError, match="being written by another process") as caught:
            new_folder(path).__enter__()
        assert "wait" in caught.value.hint
        if end == "well":
            process.communicate("go\n")
        else:
            process.kill()
            process.wait()
    with new_folder(path, force=True) as part:
        (part / "new").touch()
    assert names(path) == ["new"]
    assert names(tmp_path) == ["out"]


def test_a_lock_holds_within_one_process_too(tmp_path: Path) -> None:
    with locked(tmp_path / "out"):
        assert names(tmp_path) == [".out.lock"]
        with pytest.raises(OutputError), locked(tmp_path / "out"):
            raise AssertionError("must not come here")
        with locked(tmp_path / "other"):
            pass
        with pytest.raises(OutputError), locked(tmp_path / "out"):
            raise AssertionError("must not come here")
    assert names(tmp_path) == []


@pytest.mark.parametrize("replaced", [False, True])
def test_a_lock_that_was_removed_meanwhile_is_no_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, replaced: bool
) -> None:
    lock, flock, calls = tmp_path / ".out.lock", fcntl.flock, []

    def slow(descriptor: int, operation: int) -> None:
        calls.append(descriptor)
        if len(calls) == 1:
            lock.unlink()
            if replaced:
                lock.touch()
        flock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", slow)
    with locked(tmp_path / "out"):
        assert lock.exists()
        assert len(calls) == 2
    assert not lock.exists()


# Checksums

BLOCK = 16


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(durable, "BLOCK", BLOCK)


def by_hand(content: bytes, block: int = BLOCK) -> list[int]:
    return [
        xxhash.xxh3_64_intdigest(content[at : at + block]) for at in range(0, len(content), block)
    ]


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("size", [0, 1, 15, 16, 17, 31, 32, 33, 100])
@pytest.mark.parametrize("piece", [1, 5, 16, 40, 1000])
def test_sums_along_the_way_are_sums_of_the_file(tmp_path: Path, size: int, piece: int) -> None:
    content = bytes(n * 7 % 256 for n in range(size))
    with SumsWriter(tmp_path / "file") as file:
        for at in range(0, size, piece):
            assert file.write(content[at : at + piece]) == len(content[at : at + piece])
            assert file.tell() == min(at + piece, size)
        file.flush()
    assert file.closed
    assert (tmp_path / "file").read_bytes() == content
    assert file.sums == by_hand(content)
    assert checksums(tmp_path / "file").tolist() == file.sums
    checked = Checked(tmp_path / "file", np.array(file.sums, np.uint64), size)
    assert checked.view().tobytes() == content


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 70), st.data())
def test_any_stretch_is_verified_and_right(size: int, draw: st.DataObject) -> None:
    import tempfile

    content = bytes(range(size))
    start = draw.draw(st.integers(0, size))
    end = draw.draw(st.integers(start, size))
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(durable, "BLOCK", BLOCK)
        path = Path(folder) / "file"
        path.write_bytes(content)
        checked = Checked(path, checksums(path), size)
        assert checked.view(start, end).tobytes() == content[start:end]


def test_arrays_are_written_as_their_bytes(tmp_path: Path) -> None:
    column = np.arange(6, dtype=np.int64).reshape(2, 3)
    with SumsWriter(tmp_path / "file") as file:
        assert file.write(column) == 48
        assert file.write(np.empty(0, np.int32)) == 0
    assert (tmp_path / "file").read_bytes() == column.tobytes()
    assert file.sums == by_hand(column.tobytes(), durable.BLOCK)
    file.close()
    assert len(file.sums) == 1


@pytest.mark.usefixtures("small_blocks")
def test_a_flipped_byte_is_found_where_it_is(tmp_path: Path) -> None:
    path = tmp_path / "file"
    content = bytearray(range(50))
    path.write_bytes(content)
    sums = checksums(path)
    content[33] ^= 1
    path.write_bytes(content)
    checked = Checked(path, sums, 50)
    assert checked.view(0, 32).tobytes() == bytes(range(32))
    assert checked.view(48, 50).tobytes() == bytes([48, 49])
    for _ in range(2):
        with pytest.raises(
            DamagedError, match="bytes from 32 on are not what was written"
        ) as found:
            checked.view(31, 33)
    assert "build it again" in found.value.hint


@pytest.mark.usefixtures("small_blocks")
def test_a_block_is_verified_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(50))
    checked = Checked(path, checksums(path), 50)
    seen: list[int] = []
    verify = Checked._verify

    def noted(self: Checked, number: int) -> None:
        seen.append(number)
        verify(self, number)

    monkeypatch.setattr(Checked, "_verify", noted)
    checked.touch(0, 17)
    checked.touch(5, 10)
    checked.view(16, 49)
    checked.view()
    assert seen == [0, 1, 2, 3]


@pytest.mark.parametrize("size", [0, 49, 51, None])
def test_a_file_of_another_size_is_refused(tmp_path: Path, size: int | None) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(50))
    sums = checksums(path)
    if size is None:
        path.unlink()
    else:
        path.write_bytes(bytes(size))
    found = "no" if size is None else f"{size}"
    with pytest.raises(DamagedError, match=f"has {found} bytes instead of 50"):
        Checked(path, sums, 50)


# Progress


class Clock:
    """Time that passes when told."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(time, "monotonic", clock)
    return clock


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    def become() -> None:
        monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
        monkeypatch.setattr(shutil, "get_terminal_size", lambda: os.terminal_size((30, 24)))

    return become


def test_a_short_job_says_nothing(
    clock: Clock, terminal: Callable[[], None], capsys: pytest.CaptureFixture[str]
) -> None:
    for live in (False, True):
        if live:
            terminal()
        with Progress("reading", 10) as progress:
            for _ in range(9):
                clock.now += 0.1
                progress.advance()
        assert progress.done == 9
        assert capsys.readouterr() == ("", "")


def test_elsewhere_a_line_every_ten_seconds(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    with Progress("reading", 100, "documents") as progress:
        for _ in range(25):
            clock.now += 1
            progress.advance(2)
    out, error = capsys.readouterr()
    assert out == ""
    assert error == (
        "reading: 20 of 100 documents (20%), 2 per second, 40 s left\n"
        "reading: 40 of 100 documents (40%), 2 per second, 30 s left\n"
    )


def test_in_a_terminal_a_bar_that_goes_away(
    clock: Clock, terminal: Callable[[], None], capsys: pytest.CaptureFixture[str]
) -> None:
    terminal()
    with Progress("reading", 100, "documents") as progress:
        for _ in range(15):
            clock.now += 0.125
            progress.advance()
    out, error = capsys.readouterr()
    assert out == ""
    assert "\n" not in error
    shown = error.split("\r\x1b[K")
    assert shown[0] == shown[-1] == ""
    assert [line.partition(" of")[0] for line in shown[1:-1]] == [
        "reading: 8",
        "reading: 10",
        "reading: 12",
        "reading: 14",
    ]
    assert all(len(line) <= 29 for line in shown)


@pytest.mark.parametrize(
    ("done", "total", "elapsed", "said"),
    [
        (0, 10, 0.0, "0 of 10 (0%), 0 per second"),
        (1, 10, 4.0, "1 of 10 (10%), 0.25 per second, 36 s left"),
        (5000, None, 2.0, "5,000, 2,500 per second"),
        (10, 10, 5.0, "10 of 10 (100%), 2 per second, 0 s left"),
    ],
)
def test_progress_in_words(done: int, total: int | None, elapsed: float, said: str) -> None:
    assert describe_progress(done, total, elapsed) == said


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0, "0 s"), (59.6, "1 min 0 s"), (3599.7, "1 h 0 min"), (86400, "24 h 0 min")],
)
def test_lengths_of_time(seconds: float, said: str) -> None:
    assert duration(seconds) == said


@pytest.mark.parametrize(
    ("text", "unit", "seconds"),
    [
        ("1h30m", "m", 90 * 60),
        ("20", "m", 20 * 60),
        ("1.5", "m", 90),
        ("20.", "m", 20 * 60),
        (" 90 s ", "m", 90),
        ("2min", "s", 120),
        ("200ms", "s", 0.2),
        (".5s", "s", 0.5),
        ("3", "s", 3),
    ],
)
def test_one_parser_reads_every_length_of_time(
    text: str, unit: Literal["s", "m"], seconds: float
) -> None:
    assert parse_time(text, unit) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "text", ["", "m20", "20m!", "-5m", "0s", "soon", "0", "nan", "9e9", "٣", "1m30", "1h30"]
)
def test_what_is_not_a_length_of_time_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="not a length of time"):
        parse_time(text, "m")
