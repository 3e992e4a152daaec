"""The store: what goes in comes out, damage is seen, a killed writer loses nothing."""

from __future__ import annotations

import errno
import os
import pickle
import shutil
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tamis import durable, manifest
from tamis.collection import store as module
from tamis.collection.base import Collection, Streamed
from tamis.collection.store import DocumentStore, open_store, verify_store, write_store
from tamis.errors import DamagedError, InputError, OutputError
from tamis.types import Document, Qrels, Queries, Query

DOCUMENTS = [
    Document("d10", "Sieves sort grain.", "Sieves", {"url": "https://a.example", "lang": "en"}),
    Document("d9", "Ein Sieb trennt Körner. 🌾", ""),
    Document("d1", "", "Nothing but a title"),
    Document("ü", "drums\nand\tdrums", "", {"id": "field called id", "text": "and text"}),
]
QUERIES = Queries.of(
    [Query("q2", "drum", {"text": "shadow", "narrative": "n"}), Query("q1", "sieve")]
)
QRELS = {
    "test": Qrels.from_dict({"q1": {"d10": 2, "d9": 0}}),
    "dev/a b": Qrels.from_dict({"q2": {"ü": 1}}),
}


def collection_of(
    documents: list[Document],
    queries: Queries = QUERIES,
    qrels: dict[str, Qrels] = QRELS,
) -> Collection:
    return Collection(
        "small", "test", Streamed(lambda: iter(documents)), lambda: queries, lambda: qrels
    )


def documents_of(path: Path) -> DocumentStore:
    documents = open_store(path).documents
    assert isinstance(documents, DocumentStore)
    return documents


def many(count: int) -> list[Document]:
    return [Document(f"d{n * 7 % count}", f"text {n * 7 % count} " * 3) for n in range(count)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    write_store(collection_of(DOCUMENTS), tmp_path / "small.store")
    return tmp_path / "small.store"


def test_everything_comes_back(path: Path) -> None:
    collection = open_store(path)
    assert (collection.name, collection.format) == ("small", "collection")
    assert list(collection.documents) == DOCUMENTS
    assert collection.queries == QUERIES
    assert collection.qrels == QRELS
    verify_store(path)


def test_documents_by_id_and_by_number(path: Path) -> None:
    documents = documents_of(path)
    assert len(documents) == 4
    assert list(documents.ids) == ["d1", "d10", "d9", "ü"]
    assert documents["ü"] == DOCUMENTS[3]
    assert documents.document(1) == DOCUMENTS[0]
    assert documents.texts(np.array([3, 1, 3])) == [DOCUMENTS[n].text for n in (3, 0, 3)]
    assert documents.titles(np.array([0, 2])) == ["Nothing but a title", ""]
    assert documents.texts(np.empty(0, np.int32)) == []
    assert "d9" in documents
    assert "d2" not in documents
    with pytest.raises(KeyError, match="d2"):
        documents["d2"]


@pytest.mark.parametrize("number", [-1, 4])
def test_a_number_that_no_document_has(path: Path, number: int) -> None:
    with pytest.raises(IndexError, match="0 to 3"):
        documents_of(path).texts(np.array([0, number]))


def test_the_note_says_what_the_folder_is(path: Path) -> None:
    note = manifest.expect(path, "collection", 1)
    assert (note["documents"], note["queries"], list(note["splits"])) == (4, 2, list(QRELS))


def test_many_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BATCH_DOCUMENTS", 10)
    documents = many(101)
    write_store(collection_of(documents), tmp_path / "s")
    store = documents_of(tmp_path / "s")
    assert list(store) == documents
    by_id = {document.id: document for document in documents}
    numbers = np.random.default_rng(0).integers(0, 101, 500)
    assert store.texts(numbers) == [by_id[doc_id].text for doc_id in store.ids.take(numbers)]
    assert all(store.document(n) == by_id[store.ids[n]] for n in range(101))


def test_no_documents_and_no_queries(tmp_path: Path) -> None:
    write_store(Collection("empty", "test", Streamed(lambda: iter([]))), tmp_path / "s")
    collection = open_store(tmp_path / "s")
    assert list(collection.documents) == []
    assert (
        len(collection.queries) == len(collection.qrels) == len(documents_of(tmp_path / "s")) == 0
    )
    assert documents_of(tmp_path / "s").texts(np.empty(0, np.int32)) == []
    verify_store(tmp_path / "s")


def test_queries_of_which_only_the_ids_are_known(tmp_path: Path) -> None:
    queries = Queries(QUERIES.ids)
    write_store(collection_of(DOCUMENTS, queries), tmp_path / "s")
    assert open_store(tmp_path / "s").queries == queries


def test_a_store_can_be_sent_to_another_process(path: Path) -> None:
    assert list(pickle.loads(pickle.dumps(documents_of(path)))) == DOCUMENTS


def test_other_tools_read_the_documents(path: Path) -> None:
    table = pa.ipc.open_file(path / "documents.arrow").read_all()
    assert table.column("id").to_pylist() == [document.id for document in DOCUMENTS]
    assert table.column("fields").to_pylist()[0] == list(DOCUMENTS[0].fields.items())


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
records = st.builds(Document, texts, texts, texts, st.dictionaries(texts, texts, max_size=3))


@given(
    documents=st.lists(records, max_size=30, unique_by=lambda document: document.id),
    size=st.integers(1, 9),
)
@settings(deadline=None, max_examples=15)
def test_any_documents_come_back(
    tmp_path_factory: pytest.TempPathFactory, documents: list[Document], size: int
) -> None:
    path = tmp_path_factory.mktemp("any") / "s"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "BATCH_DOCUMENTS", size)
        write_store(collection_of(documents), path)
    store = documents_of(path)
    assert list(store) == documents
    assert [store[document.id] for document in documents] == documents


# What cannot be stored


def test_an_id_that_occurs_twice(tmp_path: Path) -> None:
    documents = [*DOCUMENTS, Document("d9", "again")]
    with pytest.raises(InputError, match="document id 'd9' occurs twice"):
        write_store(collection_of(documents), tmp_path / "s")
    assert list(tmp_path.iterdir()) == []


def test_an_id_that_occurs_again_in_another_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BATCH_DOCUMENTS", 2)
    documents = [*DOCUMENTS, Document("d10", "again")]
    with pytest.raises(InputError, match="document id 'd10' occurs twice"):
        write_store(collection_of(documents), tmp_path / "s")


@pytest.mark.parametrize(
    "bad",
    [
        Document("bad", "half \ud800"),
        Document("bad", "", "\udfff"),
        Document("bad", "", "", {"f": "\ud800"}),
    ],
)
def test_half_a_character(tmp_path: Path, bad: Document) -> None:
    with pytest.raises(InputError, match="document 'bad' holds half a character"):
        write_store(collection_of([*DOCUMENTS, bad]), tmp_path / "s")


def test_half_a_character_in_an_id(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="id is not Unicode"):
        write_store(collection_of([Document("\ud800", "x")]), tmp_path / "s")


def test_an_existing_store_is_kept_without_force(path: Path) -> None:
    with pytest.raises(OutputError, match="exists already"):
        write_store(collection_of([]), path)
    assert len(documents_of(path)) == 4


def test_force_replaces(path: Path) -> None:
    write_store(collection_of([Document("new", "x")]), path, force=True)
    assert [document.id for document in documents_of(path)] == ["new"]


def test_a_store_can_be_written_over_itself(path: Path) -> None:
    write_store(open_store(path), path, force=True)
    assert list(documents_of(path)) == DOCUMENTS
    assert open_store(path).qrels == QRELS


# Damage


def use_everything(path: Path) -> None:
    collection = open_store(path)
    store = collection.documents
    assert isinstance(store, DocumentStore)
    list(store)
    store.texts(np.arange(len(store)))
    store["d10"]
    assert collection.queries is not None
    assert collection.qrels is not None


def files_of(path: Path) -> list[Path]:
    return sorted(file for file in path.rglob("*") if file.is_file())


def positions_in(file: Path) -> list[int]:
    size = file.stat().st_size
    if file.name == "tamis.json":
        return list(range(0, size, 7))
    return sorted({0, 1, size // 4, size // 3, size // 2, size - 9, size - 1} & set(range(size)))


@pytest.mark.parametrize("notice", [use_everything, verify_store])
@pytest.mark.parametrize("mask", [0x01, 0x2A])
def test_a_changed_byte_is_noticed(path: Path, mask: int, notice: Callable[[Path], None]) -> None:
    files = files_of(path)
    assert len(files) == 10
    for file in files:
        right = file.read_bytes()
        for position in positions_in(file):
            wrong = bytearray(right)
            wrong[position] ^= mask
            file.write_bytes(wrong)
            with pytest.raises(DamagedError):
                notice(path)
        file.write_bytes(right)
    notice(path)


@pytest.mark.parametrize("notice", [use_everything, verify_store])
def test_a_file_cut_short_too_long_or_missing_is_noticed(
    path: Path, notice: Callable[[Path], None]
) -> None:
    for file in files_of(path):
        right = file.read_bytes()
        for wrong in (right[:-1], right[: len(right) // 2], b"", right + b"\0" * 8):
            file.write_bytes(wrong)
            with pytest.raises(DamagedError):
                notice(path)
        file.unlink()
        with pytest.raises(DamagedError):
            notice(path)
        file.write_bytes(right)
    notice(path)


def test_damage_is_noticed_on_the_first_touch_of_its_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BATCH_DOCUMENTS", 1)
    documents = [Document(f"d{n}", chr(65 + n) * 3_000_000) for n in range(4)]
    write_store(collection_of(documents), tmp_path / "s")
    file = tmp_path / "s" / "documents.arrow"
    raw = bytearray(file.read_bytes())
    raw[raw.index(b"CCCC") + 1_500_000] ^= 1
    file.write_bytes(raw)
    store = documents_of(tmp_path / "s")
    assert store["d0"] == documents[0]
    assert store["d3"] == documents[3]
    for _ in range(2):  # also when asked again
        with pytest.raises(DamagedError, match=r"documents\.arrow"):
            store["d2"]
    with pytest.raises(DamagedError, match=r"documents\.arrow"):
        list(store)


def test_verify_names_the_file(path: Path) -> None:
    file = path / "qrels" / "test.parquet"
    raw = bytearray(file.read_bytes())
    raw[50] ^= 4
    file.write_bytes(raw)
    with pytest.raises(DamagedError, match=r"test\.parquet"):
        verify_store(path)


def test_a_folder_that_is_no_store(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not a tamis collection"):
        open_store(tmp_path)
    manifest.write_manifest(tmp_path, "index", 1)
    with pytest.raises(InputError, match="is an index, not a collection"):
        open_store(tmp_path)


def test_a_store_of_another_layout(tmp_path: Path) -> None:
    manifest.write_manifest(tmp_path, "collection", 7)
    with pytest.raises(InputError, match="has layout 7"):
        open_store(tmp_path)


# Writers that do not finish


class Stop(Exception):
    pass


def stopping_after(count: int) -> Iterator[Document]:
    yield from many(1000)[:count]
    raise Stop


@pytest.mark.parametrize("count", [0, 1, 15, 999])
def test_a_reader_that_fails_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    monkeypatch.setattr(module, "BATCH_DOCUMENTS", 10)
    broken = Collection("broken", "test", Streamed(lambda: stopping_after(count)))
    with pytest.raises(Stop):
        write_store(broken, tmp_path / "s")
    assert list(tmp_path.iterdir()) == []
    write_store(collection_of(DOCUMENTS), tmp_path / "s")
    with pytest.raises(Stop):
        write_store(broken, tmp_path / "s", force=True)
    assert list(documents_of(tmp_path / "s")) == DOCUMENTS
    assert [file.name for file in tmp_path.iterdir()] == ["s"]


@pytest.mark.parametrize("room", [0, 100, 5_000, 20_000])
def test_a_full_disk_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    monkeypatch.setattr(module, "BATCH_DOCUMENTS", 10)
    write = durable.SumsWriter.write
    written = 0

    def until_full(self: durable.SumsWriter, data: Any) -> int:
        nonlocal written
        written += memoryview(data).nbytes
        if written > room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(self, data)

    monkeypatch.setattr(durable.SumsWriter, "write", until_full)
    with pytest.raises(OSError, match="No space left") as caught:
        write_store(collection_of(many(500)), tmp_path / "s")
    assert caught.value.errno == errno.ENOSPC
    assert list(tmp_path.iterdir()) == []


LIMITED = """
import resource, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from test_store import collection_of, many
from tamis.collection.store import write_store
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
try:
    write_store(collection_of(many(500)), Path(sys.argv[1]))
except OSError as error:
    print(error.strerror)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="limits of file size are POSIX")
def test_the_system_refusing_to_write_leaves_nothing(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(tmp_path / "s"), str(Path(__file__).parent)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.returncode) == ("File too large\n", 0), done.stderr
    assert list(tmp_path.iterdir()) == []


KILLED = """
import os, signal, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from test_store import collection_of, many
from tamis import durable, manifest
from tamis.collection import store

def dying(place, name):
    work = getattr(place, name)
    def die(*arguments, **options):
        if sys.argv[4] == "after":
            work(*arguments, **options)
        os.kill(os.getpid(), signal.SIGKILL)
    setattr(place, name, die)

module, _, name = sys.argv[3].partition(":")
dying({"store": store, "durable": durable, "manifest": manifest}[module], name)
store.BATCH_DOCUMENTS = 10
store.write_store(collection_of(many(500)), Path(sys.argv[1]), force=True)
"""
MOMENTS = [
    ("store:_record_batch", "before"),
    ("store:_write_ids", "before"),
    ("store:_write_checksums", "before"),
    ("durable:_sync", "before"),
    ("durable:_put_in_place", "before"),
    ("durable:_put_in_place", "after"),
]


@pytest.mark.skipif(sys.platform == "win32", reason="kills as POSIX does")
@pytest.mark.parametrize(("place", "when"), MOMENTS)
def test_a_killed_writer_leaves_the_old_store_or_the_new(
    tmp_path: Path, place: str, when: str
) -> None:
    path = tmp_path / "s"
    write_store(collection_of(DOCUMENTS), path)
    command = [sys.executable, "-c", KILLED, str(path), str(Path(__file__).parent), place, when]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    verify_store(path)
    is_new = (place, when) == ("durable:_put_in_place", "after")
    assert list(documents_of(path)) == (many(500) if is_new else DOCUMENTS)
    write_store(collection_of(DOCUMENTS[:1]), path, force=True)  # nothing stands in the way
    assert [file.name for file in tmp_path.iterdir()] == ["s"]


def test_killed_while_documents_stream_in(tmp_path: Path) -> None:
    """A first build, killed from outside at whatever moment it has reached."""
    script = textwrap.dedent("""
        import itertools, sys
        from pathlib import Path
        from tamis.collection.base import Collection, Streamed
        from tamis.collection.store import write_store
        from tamis.types import Document
        def endless():
            for n in itertools.count():
                if n == 20_000:
                    print("going", flush=True)
                yield Document(str(n), "text " * 50)
        write_store(Collection("endless", "test", Streamed(endless)), Path(sys.argv[1]))
    """)
    path = tmp_path / "s"
    with subprocess.Popen(
        [sys.executable, "-c", script, str(path)], stdout=subprocess.PIPE
    ) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"going\n"
        with pytest.raises(OutputError, match="being written by another process"):
            write_store(collection_of(DOCUMENTS), path)
        writer.kill()
    assert not path.exists()
    write_store(collection_of(DOCUMENTS), path)
    assert list(documents_of(path)) == DOCUMENTS


def test_an_open_store_outlives_its_replacement(path: Path) -> None:
    store = documents_of(path)
    write_store(collection_of([Document("new", "x")]), path, force=True)
    assert list(store) == DOCUMENTS
    assert store["d9"] == DOCUMENTS[1]
    shutil.rmtree(path)
    assert store.texts(np.array([1])) == [DOCUMENTS[0].text]
