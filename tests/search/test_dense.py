"""The dense source: its ranking is that of all vectors scored in float, whatever happens to them.

The encoder of most tests reads a text as numbers, so that expected scores are worked out by hand.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tamis import durable
from tamis.errors import DamagedError, InputError, OutputError
from tamis.pipeline.hybrid import Hybrid, hybrid, lexical_dense_hybrid
from tamis.search import EmbeddingModel, Index, dense_encode, dense_search
from tamis.search.commit import read_commit
from tamis.search.dense_search import quantise_queries
from tamis.search.describe import describe_index
from tamis.search.embeddings import Embeddings, quantise, same_encoder
from tamis.search.index import verify
from tamis.testing import check_source
from tamis.types import Document, Ids, Queries, Query

SIZE = 6


class Numbers:
    """Reads the first numbers of a text as its vector; what comes after them is cut."""

    def __init__(self, size: int = SIZE, sign: int = 1) -> None:
        self.size, self.sign = size, sign
        self.seen: list[str] = []

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return self.encode_with_truncation(texts)[0]

    def encode_with_truncation(
        self, texts: Sequence[str]
    ) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
        self.seen += texts
        rows = np.ones((len(texts), self.size), np.float32)
        truncated_tokens = np.zeros(len(texts), np.int32)
        for n, text in enumerate(texts):
            words = text.split()
            if words and words[0].lstrip("-").isdigit():
                rows[n] = 0
                found = words[: self.size]
                rows[n, : len(found)] = [self.sign * float(word) for word in found]
                truncated_tokens[n] = len(words) - len(found)
        return rows, truncated_tokens


def spelled(vector: Sequence[int]) -> str:
    return " ".join(map(str, vector))


def asked(*vectors: Sequence[int]) -> Queries:
    ids = [f"q{n}" for n in range(len(vectors))]
    return Queries(Ids.of(ids), tuple(spelled(vector) for vector in vectors))


def made(path: Path, vectors: Sequence[Sequence[int]], encoder: Numbers | None = None) -> Index:
    documents = [Document(f"d{n}", spelled(vector)) for n, vector in enumerate(vectors)]
    index = Index.build(documents, path, analyzer="whitespace")
    index.encode(encoder or Numbers(len(vectors[0])))
    return index


def by_hand(
    documents: Mapping[str, Sequence[int]], query: Sequence[int], top: int
) -> list[tuple[str, float]]:
    """Every document scored with Python's integers; equal scores by id, descending."""
    scored = [
        (sum(a * b for a, b in zip(vector, query, strict=True)), doc.encode())
        for doc, vector in documents.items()
    ]
    return [(doc.decode(), float(score)) for score, doc in sorted(scored, reverse=True)[:top]]


vector = st.lists(st.integers(-9, 9), min_size=SIZE, max_size=SIZE)


@settings(max_examples=25, deadline=None)
@given(
    documents=st.lists(vector, min_size=1, max_size=40),
    added=st.lists(vector, max_size=10),
    deleted=st.sets(st.integers(0, 39), max_size=10),
    queries=st.lists(vector, min_size=1, max_size=5),
    top=st.integers(1, 50),
    room=st.sampled_from([4, 16, 1024]),
)
def test_the_ranking_is_that_of_every_document_scored(
    tmp_path_factory: pytest.TempPathFactory,
    documents: list[list[int]],
    added: list[list[int]],
    deleted: set[int],
    queries: list[list[int]],
    top: int,
    room: int,
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dense_search, "MIN_ROWS_KEPT_PER_QUERY", room)
        encoder = Numbers()
        index = made(tmp_path_factory.mktemp("dense") / "index", documents, encoder)
        expected = {f"d{n}": each for n, each in enumerate(documents)}
        more = {f"d{3 * n}": each for n, each in enumerate(added)}  # some take an id that is there
        if more:
            index.add(Document(name, spelled(each)) for name, each in more.items())
            index.encode(encoder)
        gone = {f"d{n}" for n in deleted}
        index.delete(gone)
        expected = {name: each for name, each in (expected | more).items() if name not in gone}
        run = index.dense(encoder).search(asked(*queries), top)
        for n, query in enumerate(queries):
            assert list(run.ranking(n)) == by_hand(expected, query, top)


def random_index(path: Path, spread: float, size: int = 48) -> tuple[Index, Any]:
    """An index of random vectors, some rows much longer than others; its encoder knows rows."""
    draw = np.random.default_rng(5)
    rows = draw.standard_normal((400, size)) * np.exp(spread * draw.standard_normal((400, 1)))
    rows[:, 3] *= 20  # a few models have numbers that stick out
    matrix = rows.astype(np.float32)

    class Stored:
        def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
            return matrix[[int(text) if text.isdigit() else 0 for text in texts]]

    documents = [Document(f"d{n:03}", str(n)) for n in range(300)]
    index = Index.build(documents, path, analyzer="whitespace")
    index.encode(Stored())
    return index, Stored()


@pytest.mark.parametrize("spread", [0.0, 2.0])
def test_the_ranking_of_real_numbers(tmp_path: Path, spread: float) -> None:
    index, encoder = random_index(tmp_path / "index", spread)
    queries = Queries(Ids.of(f"{n}" for n in range(300, 400)), tuple(map(str, range(300, 400))))
    run = index.dense(encoder).search(queries, 20)
    rows = encoder.encode([str(n) for n in range(400)]).astype(np.float64)
    scores = rows[300:] @ rows[:300].T
    for n in range(100):
        order = np.argsort(-scores[n])[:20]
        assert run.ranking(n).doc.tolist() == order.tolist()
        np.testing.assert_allclose(run.ranking(n).score, scores[n][order], rtol=1e-6)


def test_batches_parts_and_threads_change_no_bit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index, encoder = random_index(tmp_path / "index", 1.0)
    queries = Queries(Ids.of(f"{n}" for n in range(300, 400)), tuple(map(str, range(300, 400))))
    expected = index.dense(encoder, threads=1).search(queries, 30)
    for batch, part, room, threads in [(1, 1 << 14, 1024, 1), (7, 10, 200, 3), (100, 50, 4, 2)]:
        monkeypatch.setattr(dense_search, "MAX_QUERIES_PER_SCAN", batch)
        monkeypatch.setattr(dense_search, "MIN_ROWS_PER_THREAD", part)
        monkeypatch.setattr(dense_search, "MIN_ROWS_KEPT_PER_QUERY", room)
        assert index.dense(encoder, threads=threads).search(queries, 30) == expected
    monkeypatch.setattr("tamis.search.dense.QUERIES_PER_BATCH", 7)
    assert index.dense(encoder).search(queries, 30) == expected


def test_equal_vectors_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """More equal scores than there is room for: the ids decide, and nothing is lost."""
    monkeypatch.setattr(dense_search, "MIN_ROWS_KEPT_PER_QUERY", 8)
    index = made(tmp_path / "index", [[1, 0], [2, 0], *[[1, 1]] * 500])
    found = index.dense(Numbers(2)).search(asked([1, 0]), 4).ranking(0).ids
    assert found == ["d1", "d99", "d98", "d97"]


floats = st.floats(-1e3, 1e3, width=32)


@given(row=st.lists(floats, min_size=5, max_size=5), query=st.lists(floats, min_size=5, max_size=5))
def test_no_score_leaves_its_bounds(row: list[float], query: list[float]) -> None:
    matrix, asked_for = np.array([row], np.float32), np.array([query], np.float32)
    codes = quantise(matrix)
    longest = float(np.linalg.norm(matrix.astype(float))) + float(codes["error"][0])
    vectors = Embeddings.__new__(Embeddings)
    vectors.facts, vectors.error = {"longest": longest}, codes["error"]
    made_of = quantise_queries(asked_for, vectors)
    total = int(made_of.codes[0].astype(np.int64) @ codes["int8"][0].astype(np.int64))
    assert abs(total) < 2**31
    score = total * float(codes["scale"][0]) * float(made_of.step[0])
    reach = float(made_of.length[0] * codes["error"][0] + made_of.margin[0])
    exact = float(np.float32(matrix[0].astype(float) @ asked_for[0].astype(float)))
    assert score - reach <= exact <= score + reach


def test_the_largest_sum_of_many_dimensions_fits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dense_search, "MIN_ROWS_KEPT_PER_QUERY", 4)
    index = made(tmp_path / "index", [[9] * 5000, *([n] * 5000 for n in range(-9, 9))])
    run = index.dense(Numbers(5000)).search(asked([9] * 5000), 1)
    assert list(run.ranking(0)) == [("d0", 81.0 * 5000)]


def test_the_contract_of_sources(tmp_path: Path) -> None:
    index = made(tmp_path / "index", [[n, 1, -n] for n in range(20)])
    dense = index.dense(Numbers(3))
    queries = Queries.of(Query(f"q{n}", f"{n} 1 0") for n in range(5))
    for source in (dense, dense % 7, hybrid(index.bm25(), dense)):
        check_source(source, queries)
    spec = dense.spec()
    assert spec["index"]["path"] == str(index.path)
    assert (spec["model"], spec["passages"]) == ("Numbers", {"passages": "whole"})
    assert spec["encoder"] == {"scorer": "python", "version": 1, "class": "Numbers"}


def test_queries_without_texts_and_no_top(tmp_path: Path) -> None:
    dense = made(tmp_path / "index", [[1, 0]]).dense(Numbers(2))
    with pytest.raises(InputError, match="no texts"):
        dense(Queries(Ids.of(["q"])))
    with pytest.raises(InputError, match="top 0"):
        dense.search(asked([1, 0]), 0)
    assert len(dense(Queries(Ids.of([]), ()))) == 0
    blank = dense(Queries(Ids.of(["a", "b", "c"]), (" ", "1 0", "")))
    assert blank.sizes().tolist() == [0, 1, 0]


def test_an_empty_document_has_no_vector(tmp_path: Path) -> None:
    documents = [Document("a", ""), Document("b", "1 2"), Document("c", " ", title="3 4")]
    index = Index.build(documents, tmp_path / "index", analyzer="whitespace")
    index.encode(Numbers(2))
    assert list(index.dense(Numbers(2))(asked([1, 1])).ranking(0)) == [("c", 7.0), ("b", 3.0)]
    index.delete(["b", "c"])
    assert len(index.dense(Numbers(2))(asked([1, 1])).ranking(0)) == 0
    index.merge()
    assert len(index.dense(Numbers(2))(asked([1, 1])).ranking(0)) == 0


def test_the_best_passage_of_a_document_counts(tmp_path: Path) -> None:
    documents = [
        Document("a", "1 0 0 5 2 2", title=""),
        Document("b", "3 3 1 1 3 3"),
        Document("c", "0 1"),
    ]
    index = Index.build(documents, tmp_path / "index", analyzer="whitespace")
    index.encode(Numbers(2), passages="words:2:2")
    run = index.dense(Numbers(2)).search(asked([0, 1], [1, 1]), 3)
    assert list(run["q0"]) == [("a", 5.0), ("b", 3.0), ("c", 1.0)]
    assert run["q0"].extra["passage"].tolist() == [1, 0, 0]
    assert list(run["q1"]) == [("b", 6.0), ("a", 5.0), ("c", 1.0)]
    assert run["q1"].extra["passage"].tolist() == [0, 1, 0]  # the first of equal ones
    assert run["q1"].score.tolist() == [6.0, 5.0, 1.0]
    check_source(index.dense(Numbers(2)), asked([0, 1], [1, 1]))
    with pytest.MonkeyPatch.context() as patch:  # no part ends within a document
        patch.setattr(dense_search, "MIN_ROWS_PER_THREAD", 2)
        assert index.dense(Numbers(2), threads=4).search(asked([0, 1], [1, 1]), 3) == run


def test_many_passages_of_one_document_leave_room_for_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dense_search, "MIN_ROWS_KEPT_PER_QUERY", 4)
    long = " ".join(f"{n} 9" for n in range(50, 150))
    documents = [Document("long", long), *(Document(f"d{n}", f"{n} 0") for n in range(30))]
    index = Index.build(documents, tmp_path / "index", analyzer="whitespace")
    index.encode(Numbers(2), passages="words:2:2")
    found = index.dense(Numbers(2)).search(asked([1, 0]), 3)
    assert list(found["q0"]) == [("long", 149.0), ("d29", 29.0), ("d28", 28.0)]
    assert found["q0"].extra["passage"].tolist() == [99, 0, 0]


def test_what_is_cut_is_counted(tmp_path: Path) -> None:
    documents = [Document("a", "1 0 7 7 7"), Document("b", "0 1"), Document("c", "2 0 7")]
    index = Index.build(documents, tmp_path / "index", analyzer="whitespace")
    index.encode(Numbers(2), EmbeddingModel("numbers", "ab" * 32, "here"))
    run = index.dense(Numbers(2))(Queries(Ids.of(["q"]), ("1 1 5 5",)))
    assert run["q"].ids == ["c", "b", "a"]
    assert run["q"].extra["truncated_tokens"].tolist() == [1, 0, 3]
    assert run["q"].extra["truncated_query_tokens"].tolist() == [2, 2, 2]
    vectors = describe_index(index.path).facts["embeddings"]
    assert vectors["truncated_tokens"] == "4 in 2 documents"
    assert vectors["model"] == "numbers (weights abababababab…)"
    assert (vectors["rows"], vectors["dimensions"], vectors["passages"]) == (3, 2, "whole")
    assert index.dense(Numbers(2))(asked([1, 1]))["q0"].extra.keys() == {"truncated_tokens"}


def test_only_what_is_missing_is_encoded(tmp_path: Path) -> None:
    encoder = Numbers(2)
    index = made(tmp_path / "index", [[1, 0], [2, 0]], encoder)
    index.add([Document("new", "3 0"), Document("d0", "4 0")])
    with pytest.raises(InputError, match=r"2 of 3 documents in .* have no embeddings") as fault:
        index.dense(encoder)
    assert fault.value.hint == f"encode them: tamis update {index.path} --dense Numbers"
    assert "2 documents have no embeddings" in describe_index(index.path).warnings[0]
    encoder.seen.clear()
    index.encode(encoder)
    assert [text for text in encoder.seen if text[0].isdigit()] == ["3 0", "4 0"]
    assert index.dense(encoder)(asked([1, 0]))["q0"].ids == ["d0", "new", "d1"]
    encoder.seen.clear()
    index.encode(encoder)
    assert not [text for text in encoder.seen if text[0].isdigit()]


def test_a_source_of_an_index_that_grew(tmp_path: Path) -> None:
    index = made(tmp_path / "index", [[1, 0]])
    dense = index.dense(Numbers(2))
    index.add([Document("new", "3 0")])
    with pytest.raises(InputError, match="1 of 2 documents"):
        dense(asked([1, 0]))


def test_a_merge_keeps_vectors_and_encodes_nothing(tmp_path: Path) -> None:
    encoder = Numbers(2)
    index = made(tmp_path / "index", [[n, n % 7] for n in range(60)], encoder)
    index.add(Document(f"e{n}", f"{n} 3 8") for n in range(20))
    with pytest.raises(InputError, match="have no embeddings"):
        index.merge()
    index.encode(encoder)
    index.delete(f"{letter}{n}" for letter in "de" for n in range(0, 60, 3))
    before = index.dense(encoder)(asked([1, 3], [-1, 0]))
    encoder.seen.clear()
    index.merge()
    assert not encoder.seen
    assert len(index.snapshot.segments) == 1
    after = index.dense(encoder)(asked([1, 3], [-1, 0]))
    assert after.to_dict() == before.to_dict()
    assert (
        after["q0"].extra["truncated_tokens"].tolist()
        == before["q0"].extra["truncated_tokens"].tolist()
    )
    assert index.snapshot.embeddings[0].facts["rows"] == index.num_documents == 53
    verify(index.path)
    index.add([Document("z", "1 1")])
    index.encode(encoder)
    assert index.dense(encoder)(asked([1, 1]))["q0"].ids[-1] == "d1"


def test_merged_into_several_segments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tamis.search import build

    encoder = Numbers(2)
    index = made(tmp_path / "index", [[n, 1] for n in range(30)], encoder)
    index.delete(["d3", "d17"])
    before = index.dense(encoder)(asked([1, 0]))
    monkeypatch.setattr(build, "BATCH_DOCUMENTS", 5)
    monkeypatch.setattr(build.Counter, "full", lambda self, memory: True)
    index.merge()
    assert [segment.size for segment in index.snapshot.segments] == [5, 5, 5, 5, 5, 3]
    assert index.dense(encoder)(asked([1, 0])).to_dict() == before.to_dict()


def test_another_encoder_is_refused(tmp_path: Path) -> None:
    index = made(tmp_path / "index", [[1, 0], [2, 0]])

    class Other(Numbers):
        def encode_with_truncation(self, texts: Sequence[str]) -> Any:
            rows, truncated_tokens = super().encode_with_truncation(texts)
            return rows * np.float32(1.01), truncated_tokens

    with pytest.raises(InputError, match="by another encoder, Numbers"):
        index.dense(Other(2))
    with pytest.raises(InputError, match="by another encoder"):
        index.dense(Numbers(3))
    with pytest.raises(InputError, match="with the encoder Numbers, not Other"):
        index.encode(Other(2))
    with pytest.raises(InputError, match="with passages whole, not words:2:1"):
        index.encode(Numbers(2), passages="words:2:1")
    index.encode(Other(2), passages="words:2:1", force=True)
    assert index.dense(Other(2))(asked([1, 0]))["q0"].ids == ["d1", "d0"]
    index.drop_embeddings()
    assert not list(index.path.glob("vectors-*"))
    with pytest.raises(InputError, match="have no embeddings"):
        index.dense(Other(2))
    rows = np.array([[1, 2], [3, 4]], np.float32)
    assert same_encoder(rows, rows + np.float32(1e-4))
    assert not same_encoder(rows, rows[:, :1])


def test_vectors_that_are_no_numbers(tmp_path: Path) -> None:
    class Bad(Numbers):
        def encode_with_truncation(self, texts: Sequence[str]) -> Any:
            rows, truncated_tokens = super().encode_with_truncation(texts)
            rows[[text.startswith("6 6") for text in texts]] = np.nan
            return rows, truncated_tokens

    documents = [Document("good", "1 0"), Document("bad", "6 6")]
    index = Index.build(documents, tmp_path / "index", analyzer="whitespace")
    with pytest.raises(InputError, match="embedding of document 'bad' has NaN or infinity"):
        index.encode(Bad(2))
    index.delete(["bad"])
    index.encode(Bad(2))
    with pytest.raises(InputError, match="embedding of query 'q0' has NaN or infinity"):
        index.dense(Bad(2))(asked([6, 6]))

    class Flat:
        def encode(self, texts: Sequence[str]) -> Any:
            return np.zeros(len(texts), np.float32)

    with pytest.raises(InputError, match="encoded as an array of shape"):
        index.encode(Flat(), force=True)


# Killed, resumed, damaged


DOCUMENTS = [Document(f"d{n:02}", f"{n} {n % 5} 1 1 1") for n in range(40)]


def in_a_child(work: Callable[[], object]) -> int:
    """Do some work in a child process; its exit code."""
    child = os.fork()
    if child == 0:
        try:
            work()
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


class Mortal(Numbers):
    """Dies when it is asked for more texts than it may encode."""

    def __init__(self, texts: int) -> None:
        super().__init__(2)
        self.left = texts

    def encode_with_truncation(self, texts: Sequence[str]) -> Any:
        self.left -= len([text for text in texts if text[0].isdigit()])
        if self.left < 0:
            os._exit(9)
        return super().encode_with_truncation(texts)


def encoded_again(path: Path) -> list[str]:
    """What is left to encode, once that is done."""
    encoder = Numbers(2)
    Index.open(path).encode(encoder)
    return [text for text in encoder.seen if text[0].isdigit()]


@pytest.fixture
def stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An index of 40 documents whose encoding was killed after four blocks of five."""
    monkeypatch.setattr(dense_encode, "BLOCK_ROWS", 5)
    path = tmp_path / "index"
    index = Index.build(DOCUMENTS, path, analyzer="whitespace")
    assert in_a_child(lambda: index.encode(Mortal(20))) == 9
    assert read_commit(path) == index.snapshot.commit
    return path


def expected_run(tmp_path: Path) -> Any:
    index = Index.build(DOCUMENTS, tmp_path / "expected", analyzer="whitespace")
    index.encode(Numbers(2))
    return index.dense(Numbers(2))(asked([1, 2], [-1, 3]))


def test_progress_is_told_long_before_a_block_of_512(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[str, int]] = []
    monkeypatch.setattr(
        durable.Progress, "advance", lambda of, count=1: told.append((of.what, count))
    )
    made(tmp_path / "index", [[n, 1] for n in range(1, 251)])
    assert [count for what, count in told if what == "encoding"] == [32, 64, 128, 26]


def test_a_kill_loses_one_block_at_most(stopped: Path, tmp_path: Path) -> None:
    verify(stopped)
    assert Index.open(stopped).bm25()(asked([7, 2]))["q0"].ids
    index = Index.open(stopped)
    index.delete(["d39", "d01"])  # another change keeps what was encoded
    assert encoded_again(stopped) == [document.text for document in DOCUMENTS[20:39]]
    assert not list(stopped.glob("encoding-*"))
    verify(stopped)
    found = Index.open(stopped).dense(Numbers(2))(asked([1, 2], [-1, 3]))
    wanted = expected_run(tmp_path).to_dict()
    for query, documents in wanted.items():
        kept = {doc: score for doc, score in documents.items() if doc not in ("d39", "d01")}
        assert found.to_dict()[query] == kept


@pytest.mark.parametrize(
    ("name", "change", "kept"),
    [
        ("float32.bin", lambda raw: raw[:-3], 15),
        ("float32.bin", lambda raw: raw + b"part of a block", 20),
        ("int8.bin", lambda raw: raw[:12] + b"\7" + raw[13:], 5),
        ("journal.jsonl", lambda raw: raw[:-9], 15),
        ("journal.jsonl", lambda raw: raw + b'{"documents": 25, "ro', 20),
        ("work.json", lambda raw: raw[:-2], 0),
        ("probe.npy", lambda raw: raw[:-4] + np.float32(7).tobytes(), 0),
    ],
)
def test_blocks_that_are_not_whole_are_encoded_again(
    stopped: Path, tmp_path: Path, name: str, change: Callable[[bytes], bytes], kept: int
) -> None:
    file = stopped / "encoding-segment-1" / name
    file.write_bytes(change(file.read_bytes()))
    assert encoded_again(stopped) == [document.text for document in DOCUMENTS[kept:]]
    verify(stopped)
    found = Index.open(stopped).dense(Numbers(2))(asked([1, 2], [-1, 3]))
    assert found.to_dict() == expected_run(tmp_path).to_dict()


def test_another_way_to_encode_begins_anew(stopped: Path) -> None:
    encoder = Numbers(2)
    Index.open(stopped).encode(encoder, passages="words:5:5")
    assert len([text for text in encoder.seen if text[0].isdigit()]) == 40


def test_a_merge_removes_what_was_half_encoded(stopped: Path) -> None:
    Index.open(stopped).merge()
    assert not list(stopped.glob("encoding-*"))
    assert len(encoded_again(stopped)) == 40


def test_one_writer_at_a_time(tmp_path: Path) -> None:
    index = made(tmp_path / "index", [[1, 0]])
    with durable.locked(index.path), pytest.raises(OutputError, match="another process"):
        index.encode(Numbers(2))


STEPS = {"os.rename", "os.remove", "os.rmdir", "os.mkdir", "shutil.rmtree", "os.truncate"}
STRIDE = 1 if os.environ.get("TAMIS_EVERY_STEP") else 6


def killed_at(step: int, change: Callable[[], object]) -> bool:
    """Run a change in a child that dies before a step that changes the disk; whether it ended."""
    count = [0]

    def one_more() -> None:
        count[0] += 1
        if count[0] == step:
            os._exit(9)

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        creates = event == "open" and isinstance(arguments[2], int) and arguments[2] & os.O_CREAT
        if creates or event in STEPS:
            one_more()

    def work() -> None:
        sys.addaudithook(hook)
        change()

    return in_a_child(work) == 0


def encode_all(path: Path, sign: int) -> None:
    """Replace all vectors by those of an encoder that its sign names."""
    Index.open(path).encode(Numbers(2, sign), EmbeddingModel("signed", str(sign)), force=True)


def test_killed_at_any_step_the_old_vectors_or_the_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dense_encode, "BLOCK_ROWS", 15)
    path = tmp_path / "index"
    made(path, [[n, 1] for n in range(1, 20)]).add([Document("e", "50 1")])
    seen = set()
    step, ended = 1, False
    while not ended:
        encode_all(path, 1)
        ended = killed_at(step, lambda: encode_all(path, -1))
        verify(path)
        now = Index.open(path)
        assert len(now.snapshot.embeddings) == 2
        firsts = np.concatenate([each.column("float32")[:, 0] for each in now.snapshot.embeddings])
        (sign,) = set(np.sign(firsts).tolist())  # all of one encoder
        seen.add(sign)
        assert now.dense(Numbers(2, int(sign)))(asked([1, 0]))["q0"].ids[0] == "e"
        step += STRIDE
    assert seen == {1, -1}
    assert step > 30


def test_damaged_vectors_are_noticed(tmp_path: Path) -> None:
    index = made(tmp_path / "index", [[n, 1] for n in range(20)])
    verify(index.path)
    for name in ("float32", "int8", "scale", "document"):
        file = next(index.path.glob("vectors-*")) / f"{name}.bin"
        whole = file.read_bytes()
        file.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        with pytest.raises(DamagedError, match=f"{name}.bin"):
            verify(index.path)
        with pytest.raises(DamagedError, match=f"{name}.bin"):
            Index.open(index.path).dense(Numbers(2))(asked([1, 0]))
        with pytest.raises(DamagedError, match=f"{name}.bin"):
            Index.open(index.path).merge()
        file.write_bytes(whole)
    note = next(index.path.glob("vectors-*")) / "note.json"
    note.write_text(json.dumps({}))
    opened = Index.open(index.path)
    with pytest.raises(DamagedError, match=r"note.json"):
        opened.dense(Numbers(2))
    with pytest.raises(DamagedError, match=r"note.json"):
        verify(index.path)


def test_damaged_vectors_do_not_lose_the_words(tmp_path: Path) -> None:
    index = made(tmp_path / "index", [[n, 1] for n in range(20)])
    ids = [document.id for document in index]
    shutil.rmtree(next(index.path.glob("vectors-*")))
    opened = Index.open(index.path)
    assert "is missing" in str(opened.snapshot.damage)
    assert [document.id for document in opened] == ids
    found = opened.bm25()(Queries.of([Query("q", next(iter(index)).text)]))
    assert len(found["q"].ids) > 0
    assert any("damaged" in warning for warning in describe_index(index.path).warnings)
    with pytest.raises(DamagedError, match="is missing"):
        opened.merge()
    opened.encode(Numbers(2), force=True)
    assert Index.open(index.path).snapshot.damage is None


def test_the_vectors_of_another_index_are_noticed(tmp_path: Path) -> None:
    first = made(tmp_path / "first", [[n, 1] for n in range(20)])
    made(tmp_path / "second", [[n, 2] for n in range(20)])
    (folder,) = (found.name for found in first.path.glob("vectors-*"))
    shutil.rmtree(first.path / folder)
    shutil.copytree(tmp_path / "second" / folder, first.path / folder)
    opened = Index.open(first.path)
    with pytest.raises(DamagedError, match="holds other embeddings"):
        opened.dense(Numbers(2))


# Hybrids


def test_a_hybrid_finds_what_either_finds(tmp_path: Path) -> None:
    documents = [Document("words", "7 2 sieve"), Document("both", "3 5 sieve sieve")]
    documents += [Document("meaning", "4 9 drum"), Document("none", "-9 -9 x")]
    index = Index.build(documents, tmp_path / "index", analyzer="whitespace")
    index.encode(Numbers(2))
    queries = Queries(Ids.of(["q"]), ("0 1 sieve",))
    source = hybrid(index.bm25(), index.dense(Numbers(2)))
    assert index.bm25()(queries)["q"].ids == ["both", "words"]
    assert index.dense(Numbers(2))(queries)["q"].ids == ["meaning", "both", "words", "none"]
    run = source.search(queries, 10)
    assert run["q"].ids[0] == "both"
    assert run["q"].score[0] == pytest.approx(1 / 61 + 1 / 62)
    assert set(run["q"].ids) == {"words", "both", "meaning", "none"}
    assert source.search(queries, 1)["q"].ids == ["both"]
    assert source.search(queries, 1)["q"].score[0] == run["q"].score[0]
    weighted = hybrid(index.bm25(), index.dense(Numbers(2)), method="sum", weights=[0, 1])
    assert weighted(queries)["q"].ids == ["meaning", "both", "words", "none"]
    assert weighted.spec()["weights"] == [0, 1]
    assert isinstance(source, Hybrid)
    assert [part["source"] for part in source.spec()["of"]] == ["index", "dense"]


def test_how_much_is_asked_for_changes_no_score(tmp_path: Path) -> None:
    """Scores are put on one scale over the same documents whatever is asked for."""
    texts = [f"{n % 17} {n % 5} {'sieve ' * (n % 7)}" for n in range(60)]
    documents = [Document(f"d{n:02}", text) for n, text in enumerate(texts)]
    index = Index.build(documents, tmp_path / "index", analyzer="whitespace")
    index.encode(Numbers(2))
    queries = Queries(Ids.of(["q"]), ("1 2 sieve",))
    source = replace(lexical_dense_hybrid(index.bm25(), index.dense(Numbers(2))), depth=20)
    deep = source.search(queries, 20)
    for top in (1, 10):
        assert source.search(queries, top) == deep.top(top)
    assert len(source.search(queries, 60).doc) == 60, "what is asked for is found"
    check_source(source, Queries(Ids.of(["q", "r", "s"]), ("1 2 sieve", "3 4 the", "5 6 sieve")))
    words = index.bm25().search(queries, 20)["q"]
    known = dict(words)
    lowest = min(min(known.values()), 0.0)
    assert deep["q"].extra["lexical_score"].tolist() == [
        known.get(name, lowest) for name in deep["q"].ids
    ]


def test_few_documents_leave_vectors_their_part(tmp_path: Path) -> None:
    """Embeddings rank all there is: nothing is filled up with zeros, however alike they all are."""
    documents = [Document(f"d{n}", f"7 {n} drum") for n in range(5)]
    index = Index.build(documents, tmp_path / "index", analyzer="whitespace")
    index.encode(Numbers(2))
    run = lexical_dense_hybrid(index.bm25(), index.dense(Numbers(2)))(
        Queries.of([Query("q", "7 1")])
    )
    found = index.dense(Numbers(2))(Queries.of([Query("q", "7 1")]))["q"]
    spread = float(found.score.std())
    words = dict(index.bm25()(Queries.of([Query("q", "7 1")]))["q"])
    filled = np.array([*words.values(), *[0.0] * (50 - len(words))])
    for name, score in run["q"]:
        by_words = (words.get(name, 0.0) - filled.mean()) / filled.std()
        by_vectors = (dict(found)[name] - float(found.score.mean())) / spread
        assert score == pytest.approx(0.4 * by_words + 0.6 * by_vectors, rel=1e-4)


def test_hybrids_that_make_no_sense(tmp_path: Path) -> None:
    index = made(tmp_path / "index", [[1, 0]])
    with pytest.raises(InputError, match="two sources"):
        hybrid(index.bm25())
    with pytest.raises(InputError, match="no method 'max'"):
        hybrid(index.bm25(), index.bm25(), method="max")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="weights are for"):
        hybrid(index.bm25(), index.bm25(), weights=[1, 2])


# Real weights


def test_vectors_equal_those_of_sentence_transformers(tmp_path: Path, models: Path) -> None:
    transformers = pytest.importorskip("sentence_transformers")
    from tamis.scorers.bi_encoder import BiEncoder

    texts = ["A drum sieve sorts grain.", "Rivers flow to the sea. " * 80, "Ünïcödé 円い箱 🙂", "a"]
    index = Index.build(
        [Document(f"d{n}", text) for n, text in enumerate(texts)], tmp_path / "index"
    )
    encoder = BiEncoder.open(models / "minilm", threads=1)
    index.encode(encoder)
    found = index.snapshot.embeddings[0].column("float32")
    peer = transformers.SentenceTransformer(str(models / "minilm"), device="cpu")
    expected = peer.encode([text.strip() for text in texts], normalize_embeddings=True)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    facts = index.snapshot.embeddings[0].facts
    assert facts["truncated_documents"] == 1
    assert facts["truncated_tokens"] == 80 * 6 - 254
    check_source(index.dense(encoder), Queries.of([Query("q", "sieve"), Query("r", "river")]))


def test_killed_when_it_takes_up_its_journal_no_block_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tamis.search.embeddings import quantise
    from tamis.search.encode_journal import JOURNAL, Work

    probe, header = np.ones((2, 3), np.float32), {"segment": "s"}
    work, rows = Work(tmp_path / "work", header, probe), np.eye(3, dtype=np.float32)
    ones = np.ones(3, np.int32)
    columns = {
        "float32": rows,
        **quantise(rows),
        "document": ones,
        "passage": ones,
        "truncated_tokens": ones,
    }
    work.append(3, 0, columns)
    work.append(6, 0, columns)
    with (tmp_path / "work" / JOURNAL).open("a") as file:
        file.write('{"documents": 9')  # a line cut short
    real = Path.write_text

    def killed(path: Path, text: str, *_: object, **__: object) -> None:
        real(path, text[:9])
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_text", killed)
        with pytest.raises(KeyboardInterrupt):
            Work(tmp_path / "work", header, probe)
    again = Work(tmp_path / "work", header, probe)
    assert (again.num_documents, again.rows) == (6, 6)
    assert (tmp_path / "work" / JOURNAL).read_text().count("\n") == 2
