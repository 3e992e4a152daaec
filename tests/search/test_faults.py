"""Killed at every step, a full disk, damaged files: the old index or the new one, or an error."""

from __future__ import annotations

import errno
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import numpy as np
import pytest

from tamis import durable
from tamis.errors import DamagedError, InputError, OutputError, TamisError
from tamis.search.index import Index, verify
from tamis.types import Document, Ids, Queries

OLD = [Document(f"d{n}", f"a b{n % 3} c") for n in range(20)]
NEW = [Document(f"d{n}", f"a x{n % 3}") for n in range(15, 25)]
STEPS = {"os.rename", "os.remove", "os.rmdir", "os.mkdir", "shutil.rmtree", "os.truncate"}

STRIDE = 1 if os.environ.get("TAMIS_EVERY_STEP") else 7
"""Every step in turn takes a minute; unless asked for, only some are tried."""


def state(index: Index) -> tuple[Any, ...]:
    asked = Queries(Ids.of(["1", "2", "3"]), ("a", "b1 c", "x2"))
    run = index.bm25(threads=1)(asked)
    return tuple(tuple(run.ranking(n)) for n in range(3)), tuple(sorted(d.id for d in index))


class Step:
    """Counts what changes the disk, and does something at a given count."""

    def __init__(self, at: int, action: Callable[[], object]) -> None:
        self.count, self.at, self.action = 0, at, action

    def __call__(self) -> None:
        self.count += 1
        if self.count == self.at:
            self.action()


def watch(step: Step) -> None:
    """Call the step before each write, flush, rename, removal or new file of this process."""
    write, sync = durable.SumsWriter.write, os.fsync

    def watched_write(self: durable.SumsWriter, data: Any) -> int:
        step()
        return write(self, data)

    def watched_sync(fd: Any) -> None:
        step()
        sync(fd)

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        creates = event == "open" and isinstance(arguments[2], int) and arguments[2] & os.O_CREAT
        if creates or event in STEPS:
            step()

    durable.SumsWriter.write = watched_write  # type: ignore[method-assign]
    os.fsync = watched_sync
    sys.addaudithook(hook)


def killed_at(step: int, change: Callable[[], object]) -> bool:
    """Run a change in a child that dies at this step; whether it ended before."""
    child = os.fork()
    if child == 0:
        watch(Step(step, lambda: os._exit(9)))
        try:
            change()
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


CHANGES: dict[str, Callable[[Path], object]] = {
    "build": lambda path: Index.build(NEW, path, analyzer="whitespace", force=True),
    "add": lambda path: Index.open(path).add(NEW),
    "delete": lambda path: Index.open(path).delete(["d3", "d4"]),
    "merge": lambda path: Index.open(path).merge(),
}


@pytest.mark.parametrize("name", CHANGES)
def test_killed_at_any_step_leaves_the_old_index_or_the_new(name: str, tmp_path: Path) -> None:
    start = tmp_path / "start"
    Index.build(OLD, start, analyzer="whitespace").delete(["d7"])
    wanted = tmp_path / "wanted"
    shutil.copytree(start, wanted)
    CHANGES[name](wanted)
    states = {"old": state(Index.open(start)), "new": state(Index.open(wanted))}
    seen = set()
    step, ended = 1, False
    while not ended:
        path = tmp_path / "index"
        shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(start, path)
        ended = killed_at(step, partial(CHANGES[name], path))
        verify(path)
        found = state(Index.open(path))
        seen.add(next(which for which, known in states.items() if known == found))
        if step % 3 == 0:
            CHANGES[name](path)
            assert state(Index.open(path)) == states["new"]
        step += STRIDE
    assert step > 20
    assert name == "merge" or seen == {"old", "new"}  # a merge changes no ranking


def test_killed_at_any_step_of_a_first_build_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "index"
    for step in range(1, 40, 3):
        killed_at(step, lambda: CHANGES["build"](path))
        assert not path.exists()
    CHANGES["build"](path)
    verify(path)


@pytest.fixture
def full_disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int], None]]:
    """Makes the disk full after some writes."""
    left = [0]
    write = durable.SumsWriter.write

    def failing(self: durable.SumsWriter, data: Any) -> int:
        left[0] -= 1
        if left[0] < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(self, data)

    monkeypatch.setattr(durable.SumsWriter, "write", failing)
    yield lambda writes: left.__setitem__(0, writes)


def test_a_full_disk_leaves_the_old_index(tmp_path: Path, full_disk: Callable[[int], None]) -> None:
    full_disk(10**9)
    path = tmp_path / "index"
    before = state(Index.build(OLD, path, analyzer="whitespace"))
    for writes in range(0, 18, 2):
        full_disk(writes)
        with pytest.raises(OSError, match="No space"):
            Index.open(path).add(NEW)
        assert state(Index.open(path)) == before
    full_disk(10**9)
    Index.open(path).add(NEW)
    assert len(Index.open(path)) == 25


def test_a_failing_collection_leaves_the_old_index(tmp_path: Path) -> None:
    def broken() -> Iterator[Document]:
        yield from NEW
        raise RuntimeError("the source broke")

    path = tmp_path / "index"
    before = state(Index.build(OLD, path, analyzer="whitespace"))
    with pytest.raises(RuntimeError, match="the source broke"):
        Index.open(path).add(broken())
    assert state(Index.open(path)) == before


def test_two_writers_are_refused(tmp_path: Path) -> None:
    index = Index.build(OLD, tmp_path / "index", analyzer="whitespace")

    def meanwhile() -> Iterator[Document]:
        with pytest.raises(OutputError, match="another process"):
            Index.open(index.path).delete(["d1"])
        yield from NEW

    index.add(meanwhile())
    assert "d1" in Index.open(index.path)


def merge_it(path: Path) -> None:
    Index.open(path).merge()


def build_it_again(path: Path) -> None:
    Index.build([*OLD[:15], *NEW], path, analyzer="whitespace", force=True)


MOMENTS_OF_OPENING = [
    "tamis.search.index.Snapshot",
    "tamis.search.snapshot.Segment",
    "tamis.search.segments.ArraysReader",
    "tamis.search.segments.DocumentStore",
    "tamis.collection.store._read_checksums",
    "tamis.collection.store.manifest.expect",
    "tamis.search.commit.note_digest",
    "tamis.durable.Checked",
    "tamis.durable.np.memmap",
]


@pytest.mark.parametrize("change", [merge_it, build_it_again])
@pytest.mark.parametrize("moment", MOMENTS_OF_OPENING)
def test_an_index_that_is_changed_while_it_is_opened_is_opened_as_it_is_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str, change: Callable[[Path], None]
) -> None:
    path = tmp_path / "index"
    Index.build(OLD, path, analyzer="whitespace").add(NEW)
    module, _, name = moment.rpartition(".")
    owner = resolve_name(module)
    real, left = getattr(owner, name), [1]

    def changed_before(*arguments: Any, **options: Any) -> Any:
        left[0] -= 1
        if left[0] == 0:
            change(path)
        return real(*arguments, **options)

    for count in (1, 2, 5, 9):
        left[0] = count
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, changed_before)
            index = Index.open(path)
        assert len(index) == 25
        assert index.document("d7").text
        left[0] = count
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, changed_before)
            verify(path)
        Index.build(OLD, path, analyzer="whitespace", force=True).add(NEW)


def test_a_segment_that_is_gone_is_told(tmp_path: Path) -> None:
    path = tmp_path / "index"
    Index.build(OLD, path, analyzer="whitespace")
    shutil.rmtree(path / "segment-1" / "documents")
    with pytest.raises(TamisError) as caught:
        Index.open(path)
    assert caught.value.hint


def files_of(path: Path) -> list[Path]:
    return sorted(file for file in path.rglob("*") if file.is_file())


def test_a_flipped_bit_in_any_file_is_found(tmp_path: Path) -> None:
    path = tmp_path / "index"
    Index.build(OLD, path, analyzer="whitespace").delete(["d7"])
    chance = np.random.default_rng(1)
    for file in files_of(path):
        whole = file.read_bytes()
        for place in chance.integers(0, len(whole), 3).tolist() if whole else []:
            damaged = bytearray(whole)
            damaged[place] ^= 1 << int(chance.integers(8))
            file.write_bytes(damaged)
            with pytest.raises(DamagedError):
                verify(path)
        file.write_bytes(whole)
    verify(path)


def test_a_truncated_or_missing_file_is_found(tmp_path: Path) -> None:
    path = tmp_path / "index"
    Index.build(OLD, path, analyzer="whitespace").delete(["d7"])
    for file in files_of(path):
        whole = file.read_bytes()
        if whole:
            file.write_bytes(whole[:-1])
            with pytest.raises(DamagedError):
                verify(path)
            file.unlink()
            with pytest.raises(DamagedError):
                verify(path)
        file.write_bytes(whole)
    verify(path)


def test_a_flipped_bit_is_found_by_the_search_that_meets_it(tmp_path: Path) -> None:
    path = tmp_path / "index"
    Index.build(OLD, path, analyzer="whitespace")
    file = path / "segment-1" / "postings.bin"
    raw = bytearray(file.read_bytes())
    raw[5] ^= 4
    file.write_bytes(raw)
    index = Index.open(path)
    with pytest.raises(DamagedError, match=r"postings\.bin"):
        state(index)


def test_an_index_of_another_layout_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "index"
    Index.build(OLD, path, analyzer="whitespace")
    monkeypatch.setattr("tamis.search.commit.LAYOUT", 99)
    with pytest.raises(InputError, match="layout 1, this tamis reads 99"):
        Index.open(path)
