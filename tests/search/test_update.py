"""An index is made to hold the documents of a collection, in one step."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from tamis import Document, Index, Queries, Query
from tamis.errors import InputError
from tamis.search import index as module
from tamis.search.index import Changes

WORDS = "sieve drum net grain flour fish sort tamis mesh".split()


class Letters:
    """An encoder that counts letters, and what it encodes."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.texts += texts
        return np.array([[text.count(c) + 1.0 for c in "aeiourst"] for text in texts], np.float32)


def documents(names: Sequence[int], changed: Sequence[int] = ()) -> list[Document]:
    return [
        Document(
            f"d{n:02}", f"{WORDS[n % 9]} {WORDS[n % 7]} number{n}" + " anew" * (n in changed),
            WORDS[n % 5], {"n": str(n)},
        )
        for n in names
    ]  # fmt: skip


def rankings(index: Index, encoder: Letters | None) -> list[list[tuple[str, float]]]:
    queries = Queries.of([Query(word, f"{word} anew number3") for word in WORDS])
    sources = [index.bm25(), *([index.dense(encoder)] if encoder else [])]
    return [list(source.search(queries, 20)[word]) for source in sources for word in WORDS]


@pytest.mark.parametrize("dense", [False, True])
def test_an_updated_index_ranks_like_one_built_anew(tmp_path: Path, dense: bool) -> None:
    encoder = Letters()
    index = Index.build(documents(range(30)), tmp_path / "index")
    if dense:
        index.encode(encoder)
        encoder.texts.clear()
    now = documents(range(5, 40), changed=(7, 8))
    changes = index.update(now, encoder=encoder if dense else None)
    assert changes == Changes(added=10, replaced=2, deleted=5, unchanged=23)
    assert changes.total == index.num_changes == 17
    fresh = Index.build(now, tmp_path / "fresh")
    if dense:
        assert sum("number" in text for text in encoder.texts) == 12, "only what is new is encoded"
        fresh.encode(Letters())
    assert rankings(index, encoder if dense else None) == rankings(
        fresh, encoder if dense else None
    )
    assert sorted(map(repr, index)) == sorted(map(repr, now))
    reopened = Index.open(tmp_path / "index")
    assert reopened.num_changes == 17 and reopened.num_documents == 35


def test_nothing_new_writes_nothing(tmp_path: Path) -> None:
    index = Index.build(documents(range(9)), tmp_path / "index")
    before = (tmp_path / "index" / "commit.json").read_bytes()
    assert index.update(documents(range(9))) == Changes(unchanged=9)
    assert (tmp_path / "index" / "commit.json").read_bytes() == before
    assert index.num_changes == 0


def test_additions_alone_and_deletions_alone(tmp_path: Path) -> None:
    index = Index.build(documents(range(9)), tmp_path / "index")
    changes = index.update(documents([2, 20]), delete_missing=False, delete=["d00", "none"])
    assert changes == Changes(added=1, replaced=0, deleted=1, unchanged=1)
    assert index.num_documents == 9 and "d20" in index and "d00" not in index
    again = index.update((), delete_missing=False, delete=["d20"])
    assert again == Changes(deleted=1) and index.num_changes == 3


def test_what_cannot_be_read_just_now_stays(tmp_path: Path) -> None:
    index = Index.build(documents(range(9)), tmp_path / "index")
    unread: set[str] = set()

    def read() -> Iterator[Document]:
        yield from documents(range(7))
        unread.add("d08")  # known when its turn comes

    assert index.update(read(), keep=unread) == Changes(deleted=1, unchanged=7)
    assert "d08" in index and "d07" not in index


def test_a_deleted_document_comes_back(tmp_path: Path) -> None:
    index = Index.build(documents(range(9)), tmp_path / "index")
    index.update(documents(range(8)))
    assert index.update(documents(range(9))).added == 1
    assert index.document("d08") == documents([8])[0]


def test_too_many_missing_are_refused_and_nothing_changes(tmp_path: Path) -> None:
    index = Index.build(documents(range(20)), tmp_path / "index")
    with pytest.raises(InputError, match="15 of 20 documents are not in the collection"):
        index.update(documents(range(15, 30)), max_deleted=0.5)
    assert index.num_documents == 20 == Index.open(tmp_path / "index").num_documents
    assert index.update(documents(range(15, 30))).deleted == 15


def test_ids_that_repeat_are_refused(tmp_path: Path) -> None:
    index = Index.build(documents(range(3)), tmp_path / "index")
    with pytest.raises(InputError, match="'d01' occurs twice"):
        index.update([*documents(range(3)), *documents([1])])
    assert index.num_documents == 3


def test_embeddings_need_the_encoder_that_made_them(tmp_path: Path) -> None:
    index = Index.build(documents(range(3)), tmp_path / "index")
    index.encode(Letters())
    with pytest.raises(InputError, match="nothing to encode new documents with"):
        index.update(documents(range(4)))
    assert Index.open(tmp_path / "index").num_documents == 3


@pytest.mark.parametrize("moment", ["append", "delete_documents", "encode_missing", "write_commit"])
def test_stopped_at_any_moment_it_is_what_it_was(
    tmp_path: Path, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = Index.build(documents(range(12)), tmp_path / "index")
    index.encode(Letters())
    before = rankings(index, Letters())

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(module, moment, stop)
        with pytest.raises(KeyboardInterrupt):
            index.update(documents(range(3, 15)), encoder=Letters())
    reopened = Index.open(tmp_path / "index")
    assert rankings(reopened, Letters()) == before
    assert reopened.update(documents(range(3, 15)), encoder=Letters()).total == 6
    assert sorted(document.id for document in reopened) == [f"d{n:02}" for n in range(3, 15)]
    left = {path.name.split("-")[0] for path in (tmp_path / "index").iterdir()}
    assert "encoding" not in left


def test_documents_that_stop_halfway_change_nothing(tmp_path: Path) -> None:
    index = Index.build(documents(range(5)), tmp_path / "index")

    def broken() -> Iterator[Document]:
        yield from documents([7])
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="gone"):
        index.update(broken())
    assert Index.open(tmp_path / "index").num_documents == 5


def test_another_process_sees_it_when_it_refreshes(tmp_path: Path) -> None:
    index = Index.build(documents(range(5)), tmp_path / "index")
    other = Index.open(tmp_path / "index")
    assert not other.refresh()
    index.update(documents(range(6)))
    assert other.refresh() and "d05" in other and not other.refresh()
    shutil.rmtree(tmp_path / "index")
