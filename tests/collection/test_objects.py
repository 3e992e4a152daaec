"""Documents, queries and judgements as people have them in Python."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tamis.collection.objects import as_documents, as_queries, stream_documents
from tamis.collection.querylog import query_id
from tamis.collection.readers import open_collection
from tamis.collection.run_objects import as_qrels
from tamis.errors import InputError
from tamis.types import Document, Qrels, Queries, Query

DOCUMENTS = [Document("d1", "A drum.", "Tamis"), Document("d2", "A net.")]


class Table:
    """What is asked of a DataFrame, without pandas."""

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self.rows, self.columns = rows, list(rows[0])

    def to_dict(self, orient: str) -> list[dict[str, Any]]:
        assert orient == "records"
        return self.rows

    def __iter__(self) -> Any:
        return iter(self.columns)


ROWS = [{"_id": "d1", "text": "A drum.", "title": "Tamis"}, {"_id": "d2", "text": "A net."}]


@pytest.mark.parametrize(
    "documents",
    [
        DOCUMENTS,
        tuple(DOCUMENTS),
        iter(DOCUMENTS),
        ROWS,
        Table([ROWS[0], {**ROWS[1], "title": float("nan")}]),
        {"d1": DOCUMENTS[0], "d2": "A net."},
        {"d1": {"text": "A drum.", "headline": "Tamis"}, "d2": {"text": "A net."}},
        [DOCUMENTS[0], ("d2", "A net.")],
    ],
    ids=["list", "tuple", "iterator", "dicts", "table", "mapping", "mapping of dicts", "mixed"],
)
def test_documents_of_every_form_are_the_same(documents: Any) -> None:
    made = as_documents(documents)
    assert list(made) == DOCUMENTS
    assert list(made) == DOCUMENTS, "they can be gone through again"


def test_pandas_too() -> None:
    pandas = pytest.importorskip("pandas")
    assert list(as_documents(pandas.DataFrame(ROWS))) == DOCUMENTS
    numbered = pandas.DataFrame({"id": [7], "text": ["sieve"]})
    assert [query.id for query in as_queries(numbered)] == ["7"]
    assert [document.text for document in as_documents(pandas.Series(["a", "b"]))] == ["a", "b"]


@given(st.lists(st.text(), max_size=5))
def test_strings_are_numbered(texts: list[str]) -> None:
    made = list(as_documents(texts))
    assert [document.id for document in made] == [str(number) for number in range(len(texts))]
    assert [document.text for document in made] == texts


def test_further_fields_travel_along() -> None:
    [document] = as_documents([{"id": 7, "body": "x", "year": 1958, "note": None}])
    assert document == Document("7", "x", "", {"year": "1958"})


def test_paths_and_collections(tmp_path: Path) -> None:
    file = tmp_path / "docs.jsonl"
    file.write_text('{"id": "d1", "text": "A drum."}\n')
    for documents in (file, str(file), open_collection(file)):
        assert [document.id for document in as_documents(documents)] == ["d1"]
    log = tmp_path / "log.txt"
    log.write_text("drum sieve\n")
    assert as_queries(log) == as_queries(["drum sieve"])
    qrels = tmp_path / "qrels.txt"
    qrels.write_text("q1 0 d1 1\n")
    assert as_qrels(qrels) == as_qrels({"q1": {"d1": 1}}) == Qrels.from_dict({"q1": {"d1": 1}})


def test_documents_that_are_streamed_are_read_one_at_a_time() -> None:
    def endless() -> Iterable[str]:
        while True:
            yield "A drum."

    assert next(stream_documents(endless())).id == "0"


@pytest.mark.parametrize(
    "queries",
    [
        Queries.of([Query("q1", "sieve"), Query("q2", "net")]),
        [Query("q2", "net"), Query("q1", "sieve")],
        [("q1", "sieve"), ("q2", "net")],
        [{"id": "q1", "text": "sieve"}, {"qid": "q2", "query": "net"}],
        {"q1": "sieve", "q2": "net"},
        Table([{"query_id": "q1", "query": "sieve"}, {"query_id": "q2", "query": "net"}]),
    ],
    ids=["ours", "records", "pairs", "dicts", "mapping", "table"],
)
def test_queries_of_every_form_are_the_same(queries: Any) -> None:
    assert as_queries(queries) == Queries.of([Query("q1", "sieve"), Query("q2", "net")])


def test_a_string_has_the_id_of_the_log_and_counts_once() -> None:
    made = as_queries(["Drum sieve?", "drum  sieve", "net"])
    assert sorted(made.ids) == sorted([query_id("drum sieve"), query_id("net")])


@pytest.mark.parametrize(
    ("documents", "problem"),
    [
        ([{"id": "d1", "text": "x"}, {"text": "x"}], r"documents\[1\] has no id"),
        ([{"id": "d1", "name": "x"}], r"documents\[0\] has no text: it has id, name"),
        (["x", 5], r"documents\[1\] is of type int"),
        (["x", None], r"documents\[1\] is missing"),
        ([("d1", float("nan"))], r"documents\[0\]: the text is missing"),
        ([(1.5, "x")], r"documents\[0\]: the id is of type float"),
        ([("", "x")], r"documents\[0\]: the id is empty"),
        ([("d1", "x"), ("d1", "y")], r"documents\[1\]: the id 'd1' occurs a second time"),
        ({"id": "d1", "text": "x"}, "one dictionary"),
        (Document("d1", "x"), "of type Document"),
        (None, "the documents are missing"),
        (7, "of type int"),
        ("no such file", "no file or folder"),
    ],
)
def test_a_document_that_is_none_is_named(documents: Any, problem: str) -> None:
    with pytest.raises(InputError, match=problem) as error:
        as_documents(documents)
    assert error.value.hint


@pytest.mark.parametrize(
    ("queries", "problem"),
    [
        (["sieve", " "], r"queries\[1\] is empty"),
        ([{"id": "q1"}], r"queries\[0\] has no text"),
        ([("q1", "x"), ("q1", "y")], r"queries\[1\]: the id 'q1' occurs a second time"),
        ("how do I sift flour", "no file or folder"),
        ({"id": "q1", "text": "x"}, "one dictionary"),
    ],
)
def test_a_query_that_is_none_is_named(queries: Any, problem: str) -> None:
    with pytest.raises(InputError, match=problem) as error:
        as_queries(queries)
    assert error.value.hint


@pytest.mark.parametrize("qrels", [None, 7, ["q1"], {"q1": 1}])
def test_judgements_that_are_none_are_refused(qrels: Any) -> None:
    with pytest.raises(InputError, match="the judgements"):
        as_qrels(qrels)
