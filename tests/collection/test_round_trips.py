"""Every format gives back what was written, or says what it could not hold."""

from __future__ import annotations

import json
import string
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tamis.collection.base import Collection
from tamis.collection.querylog import query_id
from tamis.collection.readers import open_collection, read_queries
from tamis.collection.writers import write_collection, write_queries
from tamis.types import Document, Qrels, Queries, Query

ANY = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
TRICKY = st.sampled_from(
    ['say "hi"', "a,b;c", "tab\there", "two\nlines", "cr\r\nlf", " ends ", "&amp; <b>x</b> </DOC>"]
)
TEXT = st.one_of(ANY, TRICKY).filter(lambda text: text.strip() != "")
ONE_LINE = TEXT.map(lambda text: "".join(c for c in text if c not in "\t\r\n")).filter(str.strip)
IDS = st.text(string.ascii_letters + string.digits + "-_.é漢", min_size=1, max_size=6)
NAMES = st.sampled_from(["url", "author", "year", "headline", "contents", "_id", "qid", "Größe x"])
TAGS = st.sampled_from(["url", "author", "date"])
TITLES = st.one_of(st.just(""), TEXT)


def distinct(records: st.SearchStrategy[object]) -> st.SearchStrategy[list[object]]:
    return st.lists(records, min_size=1, max_size=6, unique_by=lambda r: r.id)  # type: ignore[attr-defined]


def documents(
    texts: st.SearchStrategy[str] = TEXT,
    titles: st.SearchStrategy[str] = TITLES,
    names: st.SearchStrategy[str] | None = NAMES,
) -> st.SearchStrategy[list[Document]]:
    fields = st.just({}) if names is None else st.dictionaries(names, TEXT, max_size=3)
    return distinct(st.builds(Document, IDS, texts, titles, fields))  # type: ignore[return-value]


def queries(
    texts: st.SearchStrategy[str] = TEXT, names: st.SearchStrategy[str] | None = NAMES
) -> st.SearchStrategy[Queries]:
    fields = st.just({}) if names is None else st.dictionaries(names, TEXT, max_size=3)
    return distinct(st.builds(Query, IDS, texts, fields)).map(Queries.of)  # type: ignore[arg-type]


QRELS = st.dictionaries(
    st.sampled_from(["train", "dev", "test"]),
    st.dictionaries(
        IDS,
        st.dictionaries(IDS, st.integers(-2, 3), min_size=1, max_size=3),
        min_size=1,
        max_size=3,
    ).map(Qrels.from_dict),
    max_size=2,
)
FEW = settings(deadline=None, max_examples=25)


@contextmanager
def place() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


def collection(
    docs: list[Document], queries: Queries | None = None, qrels: dict[str, Qrels] | None = None
) -> Collection:
    return Collection("made", "made", docs, lambda: queries or Queries.of([]), lambda: qrels or {})


@pytest.mark.parametrize("name", ["a.jsonl", "b", "c.gz", "d.zst"])
@given(docs=documents())
@FEW
def test_jsonl(name: str, docs: list[Document]) -> None:
    with place() as folder:
        assert write_collection(collection(docs), folder / name, "jsonl") == []
        assert [*open_collection(folder / name).documents] == docs


@pytest.mark.parametrize("format", ["csv", "tsv", "parquet"])
@given(docs=documents())
@FEW
def test_tables_with_columns(format: str, docs: list[Document]) -> None:
    with place() as folder:
        path = folder / "documents"
        assert write_collection(collection(docs), path, format) == []
        again = open_collection(path)
        assert again.format == format
        assert [*again.documents] == docs
        assert [*again.documents] == docs


@pytest.mark.parametrize("format", ["jsonl", "csv", "tsv", "parquet"])
@given(asked=queries())
@FEW
def test_queries_in_tables(format: str, asked: Queries) -> None:
    with place() as folder:
        assert write_queries(asked, folder / "queries", format) == []
        assert read_queries(folder / "queries") == asked


@given(docs=documents(), asked=queries(), judged=QRELS)
@FEW
def test_beir(docs: list[Document], asked: Queries, judged: dict[str, Qrels]) -> None:
    docs = [Document(d.id, d.text, d.title, without(d.fields, "_id")) for d in docs]
    asked = Queries.of(Query(q.id, q.text, without(q.fields, "_id")) for q in asked)
    with place() as folder:
        assert write_collection(collection(docs, asked, judged), folder / "x", "beir") == []
        assert_same(open_collection(folder / "x"), "beir", docs, asked, judged)


def without(fields: object, name: str) -> dict[str, str]:
    assert isinstance(fields, dict)
    return {key: value for key, value in fields.items() if key != name}


@given(docs=documents(ONE_LINE, st.just(""), None), asked=queries(ONE_LINE, None), judged=QRELS)
@FEW
def test_msmarco(docs: list[Document], asked: Queries, judged: dict[str, Qrels]) -> None:
    with place() as folder:
        assert write_collection(collection(docs, asked, judged), folder / "x", "msmarco") == []
        assert_same(open_collection(folder / "x"), "msmarco", docs, asked, judged)


@given(docs=documents(names=TAGS), asked=queries(names=TAGS), judged=QRELS)
@FEW
def test_trec_files(docs: list[Document], asked: Queries, judged: dict[str, Qrels]) -> None:
    with place() as folder:
        assert write_collection(collection(docs, asked, judged), folder / "x", "trectext") == []
        assert_same(open_collection(folder / "x"), "trectext", docs, asked, judged)


@given(docs=documents(), asked=queries(), judged=QRELS)
@settings(deadline=None, max_examples=10)
def test_store(docs: list[Document], asked: Queries, judged: dict[str, Qrels]) -> None:
    with place() as folder:
        assert write_collection(collection(docs, asked, judged), folder / "x", "store") == []
        assert_same(open_collection(folder / "x"), "collection", docs, asked, judged)


def assert_same(
    found: Collection,
    format: str,
    docs: list[Document],
    asked: Queries,
    judged: dict[str, Qrels],
) -> None:
    assert found.format == format
    assert [*found.documents] == docs
    assert found.queries == asked
    assert dict(found.qrels) == judged


TOPIC_FIELDS = st.sampled_from(["description", "narrative", "con"])


@given(asked=queries(names=TOPIC_FIELDS))
@FEW
def test_classic_topics(asked: Queries) -> None:
    with place() as folder:
        assert write_queries(asked, folder / "t", "topics") == []
        assert read_queries(folder / "t") == asked


XML_TEXT = TEXT.map(lambda t: "".join(c for c in t if c in "\t\r\n" or c.isprintable())).filter(
    str.strip
)


@given(asked=queries(XML_TEXT, None))
@FEW
def test_xml_topics(asked: Queries) -> None:
    asked = Queries.of(Query(q.id, q.text, {"narrative": q.text[::-1]}) for q in asked)
    with place() as folder:
        assert write_queries(asked, folder / "t", "topics-xml") == []
        assert read_queries(folder / "t") == asked


@given(texts=st.lists(ONE_LINE, min_size=1, max_size=5))
@FEW
def test_query_log(texts: list[str]) -> None:
    asked = Queries.of({query_id(text): Query(query_id(text), text) for text in texts}.values())
    with place() as folder:
        assert write_queries(asked, folder / "t", "querylog") == []
        assert read_queries(folder / "t", "querylog") == asked


@given(docs=documents(names=st.sampled_from(["id", "text", "title", "field_text"])))
@FEW
def test_fields_whose_name_is_taken_are_renamed_and_noted(docs: list[Document]) -> None:
    with place() as folder:
        notes = write_collection(collection(docs), folder / "x", "jsonl")
        found = [*open_collection(folder / "x").documents]
    taken = {name for d in docs for name in d.fields if name != "field_text"}
    assert len(notes) == len(taken)
    for before, after in zip(docs, found, strict=True):
        assert (after.id, after.text, after.title) == (before.id, before.text, before.title)
        assert sorted(after.fields.values()) == sorted(before.fields.values())


def test_nested_values_stay_what_they_are_in_json(tmp_path: Path) -> None:
    line = '{"_id":"d1","text":"drum","metadata":{"url":"http://x","n":[1,2]},"year":1958}'
    (tmp_path / "corpus.jsonl").write_text(line + "\n")
    write_collection(open_collection(tmp_path), tmp_path / "again", "beir")
    written = json.loads((tmp_path / "again" / "corpus.jsonl").read_text())
    assert written.pop("title", "") == ""
    assert written == json.loads(line)
