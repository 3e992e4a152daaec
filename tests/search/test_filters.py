"""Filters: what conditions mean; a filtered search is the full ranking without the rest."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tamis.cli.app import run
from tamis.errors import InputError
from tamis.pipeline.fuse import reciprocal_rank
from tamis.pipeline.hybrid import hybrid
from tamis.registry import open_source
from tamis.search import Index
from tamis.search.field_values import MAX_CHARACTERS, as_number, as_period, type_of
from tamis.search.files import NOTE
from tamis.search.filters import pack_flags
from tamis.search.snapshot import REMEMBERED_FILTERS
from tamis.types import Condition, Document, Queries, Query, Run, Source
from tamis.types.conditions import as_conditions

FIELDS: dict[str, dict[str, str]] = {
    "guides/a": {
        "author": "ada",
        "date": "2024-05-17",
        "stars": "3",
        "tags": '["python","search"]',
    },
    "guides/b": {"author": "bob", "date": "2024-12-31T23:59", "stars": "10", "tags": '["python"]'},
    "guides/c": {"author": "ada", "date": "2025", "stars": "2.5", "tags": "search"},
    "notes/d": {"author": "ada|bob", "date": "2023-12-31", "stars": "-1", "year": "2024"},
    "notes/e": {"date": "2024", "year": "1999"},
    "notes/f": {},
}
ALL = [*FIELDS]
QUERY = Queries.of([Query("q", "sieve")])


def documents() -> list[Document]:
    return [Document(name, f"sieve {name}", fields=fields) for name, fields in FIELDS.items()]


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Index:
    return Index.build(documents(), tmp_path_factory.mktemp("filters") / "index")


@pytest.fixture(scope="module")
def segments(tmp_path_factory: pytest.TempPathFactory) -> Index:
    """The same documents in one segment each."""
    index = Index.build(documents()[:1], tmp_path_factory.mktemp("filters") / "index")
    for document in documents()[1:]:
        index.add([document])
    return index


def names(source: Source) -> list[str]:
    return sorted(source.search(QUERY, 100)["q"].ids)


MEANINGS = {
    "author=ada": "ac", "author = ada": "ac", "author==ada": "ac", "author=ada|bob": "abc",
    r"author=ada\|bob": "d", "author!=ada": "bdef", "author!=ada|bob": "def", "author=ad*": "acd",
    "author!=ad*": "bef", "author=*": "abcd", "author!=*": "ef", "author=Ada": "", "author=": "",
    "tags=python": "ab", "tags=search": "ac", "tags!=search": "bdef", "tags=py*|x": "ab",
    "stars>=3": "ab", "stars>3": "b", "stars<3": "cd", "stars<=2.5": "cd", "stars=3.0": "a",
    "stars=10|3": "ab", "stars!=3": "bcdef", "stars=1*": "b", "stars>-1e0": "abc",
    "date>=2024": "abce", "date<=2024": "abde", "date=2024": "abe", "date>2024": "c",
    "date<2024": "d", "date=2024-05": "a", "date=2024-05-17": "a", "date>=2024-05": "abc",
    "date<=2024-05": "ad", "date>2024-05-17": "bc", "date<=2024-12-31": "abde",
    "date<2024-12-31T23:59": "ad", "date=2024-12-31": "b", "date=2024-12-31T23:59": "b",
    "date=2025-01-01": "", "date!=2024": "cdf", "date=2025-01-01T00:00+01:00": "",
    "date>=2025-01-01T00:59+01:00": "bc", "date>=2025-01-01T00:59:01+0100": "c",
    "year=2024": "d", "year>=2000-01": "d", "year<2000.5": "e", "year<2024": "e",
    "year=1999-05": "",
    "id=guides/*": "abc", "id=guides/a|notes/*": "adef", "id!=notes/f": "abcde",
}  # fmt: skip


@pytest.mark.parametrize("condition", MEANINGS)
def test_what_conditions_mean(condition: str, index: Index, segments: Index) -> None:
    expected = [name for name in ALL if name[-1] in MEANINGS[condition]]
    assert names(index.bm25().where(condition)) == expected
    assert names(segments.bm25().where(condition)) == expected


def test_all_conditions_must_hold(index: Index) -> None:
    source = index.bm25().where("author=ada", "date<2025").where("stars>0")
    assert names(source) == ["guides/a"]
    assert [hit.id for hit in index.search("sieve", where=["author=ada", "stars<3"])] == [
        "guides/c"
    ]
    assert [hit.id for hit in index.search("sieve", where="stars>9")] == ["guides/b"]


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["1.9", "1.10"], "text"),
        (["1.1", "1.10", "2"], "text"),
        (["1.10", "1.11", "2.50"], "number"),
        (["4.7", "10.0", "0.25", "5"], "number"),
        (["12.00", "3.5"], "number"),
    ],
)
def test_numbers_are_versions_where_a_zero_tells_them_apart(
    values: list[str], kind: str, tmp_path: Path
) -> None:
    documents = [Document(value, "sieve", fields={"version": value}) for value in values]
    whole, grown = Index.build(documents, tmp_path / "whole"), Index.build([], tmp_path / "grown")
    for document in documents:
        grown.add([document])
    for index in (whole, Index.open(grown.path)):
        assert index.snapshot.field_types["version"] == kind
        for value in values:
            assert names(index.bm25().where(f"version={value}")) == [value]


REFUSED = {
    "author>ada": ("compares, but the field 'author' is text", "text takes = and !="),
    "id<guides": ("compares, but the field 'id' is text", "numbers or dates"),
    "autor=ada": ("no field 'autor'", "did you mean author? their fields: author, date"),
    "stars=three": ("'three' is no number", "'stars' holds numbers"),
    "date>=yesterday": ("'yesterday' is no date", "2024-05"),
    "year>=late": ("'late' is no year", "years"),
    f"author={'x' * (MAX_CHARACTERS + 1)}*": ("has 201 characters", "200 at most"),
}


@pytest.mark.parametrize("condition", REFUSED)
def test_what_is_refused(condition: str, index: Index) -> None:
    message, hint = REFUSED[condition]
    with pytest.raises(InputError, match=message.replace("?", r"\?")) as error:
        index.bm25().where(condition).search(QUERY, 10)
    assert hint in error.value.hint


def test_an_index_without_fields_says_so(tmp_path: Path) -> None:
    index = Index.build(["sieve"], tmp_path / "index")
    with pytest.raises(InputError) as error:
        index.search("sieve", where="author=ada")
    assert error.value.hint == "they have no fields"
    assert [hit.id for hit in index.search("sieve", where="id=0")] == ["0"]


def test_a_segment_of_an_earlier_version_is_refused_until_it_is_merged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    finish = "tamis.search.files.ArraysWriter.finish"
    from tamis.search.files import ArraysWriter

    original = ArraysWriter.finish

    def without_fields(self: ArraysWriter, **facts: Any) -> None:
        original(self, **{name: fact for name, fact in facts.items() if name != "fields"})

    with monkeypatch.context() as patch:
        patch.setattr(finish, without_fields)
        index = Index.build(documents(), tmp_path / "index")
    assert "fields" not in json.loads((tmp_path / "index/segment-1" / NOTE).read_text())
    assert len(index.search("sieve")) == 6
    with pytest.raises(InputError, match="before indexes had fields") as error:
        index.search("sieve", where="author=ada")
    assert error.value.hint.endswith("index --merge")
    index.merge()
    assert len(index.search("sieve", where="author=ada")) == 2


def test_a_type_is_that_of_all_segments(tmp_path: Path) -> None:
    index = Index.build([Document("a", "sieve", fields={"n": "1", "d": "2024"})], tmp_path / "i")
    assert index.snapshot.field_types == {"n": "number", "d": "year", "id": "text"}
    index.add([Document("b", "sieve", fields={"n": "2024", "d": "2024-05"})])
    assert index.snapshot.field_types == {"n": "number", "d": "date", "id": "text"}
    assert [hit.id for hit in index.search("sieve", where="n<2")] == ["a"]
    assert [hit.id for hit in index.search("sieve", where="d=2024-05")] == ["b"]
    source = index.bm25().where("n>=2")
    assert names(source) == ["b"]
    index.add([Document("c", "sieve", fields={"n": "two"})])
    with pytest.raises(InputError, match="is text"):
        names(source)
    assert [hit.id for hit in index.search("sieve", where="n=two|1")] == ["c", "a"]
    index.delete(["c"])
    assert names(source) == ["b"]


def test_long_values_are_equal_only_if_they_are(tmp_path: Path) -> None:
    long = "x" * (MAX_CHARACTERS + 50)
    fields = {"a": long, "b": long + "y", "c": long[:MAX_CHARACTERS], "d": f"[{'1,' * 999}2]"}
    docs = [Document(name, "sieve", fields={"note": value}) for name, value in fields.items()]
    index = Index.build(docs, tmp_path / "index")
    for name in "abc":
        condition = Condition("note", "=", (fields[name],))
        assert [hit.id for hit in index.search("sieve", where=condition)] == [name]
    prefix = Condition("note", "=", prefixes=(long[:MAX_CHARACTERS],))
    assert sorted(hit.id for hit in index.search("sieve", where=prefix)) == ["a", "b", "c"]
    assert [hit.id for hit in index.search("sieve", where="note=2")] == ["d"]
    size = sum(path.stat().st_size for path in (tmp_path / "index").rglob("field-values.bin"))
    assert size < 4 * (MAX_CHARACTERS + 50)


def test_numbers_and_dates() -> None:
    for text in ("007", "1_000", "nan", "inf", "1e999", "", " 1", "0x1", str(2**60), "٣"):
        assert as_number(text) is None
    for text in ("2024-13", "2023-02-29", "0000", "2024-05-17T24:00", "2024-5", "24-05-17"):
        assert as_period(text) is None
    day = 86_400_000_000
    assert as_period("1970-01-02") == (day, 2 * day)
    assert as_period("1970-01-01T02:00+02:00") == (0, 60_000_000)
    assert as_period("1970-01-01 00:00:00.25Z") == (250_000, 260_000)
    assert as_period("9999") is not None
    kinds = ["number", "year", "date", "text", "text"]
    assert [type_of(value) for value in ("3", "2024", "2024-05", "ada", "007")] == kinds


@given(
    st.text(min_size=1),
    st.sampled_from(["=", "!="]),
    st.lists(st.text(), min_size=1, max_size=3),
    st.lists(st.text(), max_size=2),
)
def test_a_condition_is_read_as_it_is_written(
    field: str, operator: str, values: list[str], prefixes: list[str]
) -> None:
    for condition in (
        Condition(field, operator, tuple(values), tuple(prefixes)),
        Condition(field, ">=", (values[0],)),
        Condition(field, ">", (values[0],)),
    ):
        assert Condition.parse(str(condition)) == condition


@pytest.mark.parametrize("text", ["author", "=ada", "", "a>1|2", "a<x*", "a=x*y"])
def test_what_is_no_condition(text: str) -> None:
    with pytest.raises(InputError) as error:
        Condition.parse(text)
    assert error.value.hint


def test_fields_with_any_name_and_value(tmp_path: Path) -> None:
    pairs = {"a": "x", "a\0": "b:y", "0": ":", "0:": "\0", "ä=|*": "\\", "": "empty", "id": "own"}
    docs = [Document(str(n), "sieve", fields={name: pairs[name]}) for n, name in enumerate(pairs)]
    index = Index.build(docs, tmp_path / "index")
    for n, (name, value) in enumerate(pairs.items()):
        if name not in ("", "id"):
            condition = Condition.parse(str(Condition(name, "=", (value,))))
            assert [hit.id for hit in index.search("sieve", where=condition)] == [str(n)]


# Exactness


class Letters:
    """Encodes a text as how often it has some letters."""

    def encode(self, texts: Any) -> NDArray[np.float32]:
        rows = [
            [text.count(letter) + 0.01 * n for n, letter in enumerate("abcde")] for text in texts
        ]
        return np.array(rows, np.float32).reshape(-1, 5)


def without(run: Run, allowed: set[str], top: int) -> dict[str, list[tuple[str, float]]]:
    """A ranking with the documents that are not allowed left out, and then cut."""
    return {
        query: [(name, score) for name, score in run[query] if name in allowed][:top]
        for query in run.queries.ids
    }


def rows(run: Run) -> dict[str, list[tuple[str, float]]]:
    return {query: list(run[query]) for query in run.queries.ids}


WORDS = st.lists(st.sampled_from("ab bc cd de ea abc e".split()), min_size=1, max_size=8)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(
        st.lists(st.tuples(WORDS, st.sampled_from("xyz")), min_size=1, max_size=30),
        min_size=1,
        max_size=3,
    ),
    st.sets(st.integers(0, 40), max_size=12),
    st.sampled_from(["kind=x", "kind!=x", "kind=x|y", "kind=nothing", "id=1*"]),
    st.sampled_from([1, 3, 200]),
    st.booleans(),
)
def test_a_filtered_search_is_the_full_ranking_without_the_rest(
    tmp_path_factory: pytest.TempPathFactory,
    parts: list[list[tuple[list[str], str]]],
    deleted: set[int],
    condition: str,
    top: int,
    by_passage: bool,
) -> None:
    docs = [
        [
            Document(f"{100 * n + m}", ". ".join(words), fields={"kind": kind})
            for m, (words, kind) in enumerate(part)
        ]
        for n, part in enumerate(parts)
    ]
    index = Index.build(docs[0], tmp_path_factory.mktemp("exact") / "index", "whitespace")
    for more in docs[1:]:
        index.add(more)
    index.delete([f"{number}" for number in deleted])
    index.encode(Letters(), passages="sentences:2:1" if by_passage else None)
    queries = Queries.of([Query("q1", "ab cd."), Query("q2", "e ea. abc"), Query("q3", "de")])
    allowed = {document.id for document in index if holds(condition, document)}
    dense = index.dense(Letters())
    for source in (index.bm25(), index.ql(mu=5), dense):
        full = source.search(queries, 1000)
        filtered = source.where(condition).search(queries, top)
        assert rows(filtered) == without(full, allowed, top)
    both = hybrid(index.bm25(), dense, depth=top).where(condition)
    runs = [source.where(condition).search(queries, top) for source in (index.bm25(), dense)]
    assert rows(both.search(queries, top)) == rows(reciprocal_rank(runs).top(top))


def holds(condition: str, document: Document) -> bool:
    kind = document.fields["kind"]
    return {
        "kind=x": kind == "x",
        "kind!=x": kind != "x",
        "kind=x|y": kind in "xy",
        "kind=nothing": False,
        "id=1*": document.id.startswith("1"),
    }[condition]


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Index:
    """Two segments of more than a window, with deletions: every way of collecting is taken."""
    generator = np.random.default_rng(5)
    words = [f"w{n}" for n in range(400)]
    shares = 1 / np.arange(1, 401)
    texts = generator.choice(words, (80_000, 6), p=shares / shares.sum())
    percent = generator.integers(0, 100, len(texts))
    docs = [
        Document(f"d{n}", " ".join(text), fields={"percent": str(percent[n]), "n": str(n)})
        for n, text in enumerate(texts)
    ]
    index = Index.build(docs[:70_000], tmp_path_factory.mktemp("large") / "index", "whitespace")
    index.add(docs[70_000:])
    index.delete([f"d{n}" for n in range(0, 80_000, 7)])
    return index


@pytest.mark.parametrize("condition", ["percent<1", "percent<10", "percent>=50", "n>=66000"])
@pytest.mark.parametrize("top", [1, 10, 300])
def test_windows_and_thresholds(condition: str, top: int, large: Index) -> None:
    texts = ["w0 w1 w2", "w0", "w3 w50", "w200 w300 w5 w0", "w399", "w7 w8 w9 w10 w11 w12"]
    queries = Queries.of([Query(f"q{n}", text) for n, text in enumerate(texts)])
    field, operator, number = condition.replace(">=", " >= ").replace("<", " < ").split()
    limit = int(number)
    allowed = {
        document.id
        for document in large
        if (int(document.fields[field]) < limit) == (operator == "<")
    }
    for source in (large.bm25(), large.ql()):
        full = source.search(queries, 100_000)
        assert rows(source.where(condition).search(queries, top)) == without(full, allowed, top)


def test_as_many_as_match_are_found(large: Index) -> None:
    source = large.bm25().where("percent=3")
    assert len(source.search(Queries.of([Query("q", "w0")]), 10)["q"].ids) == 10


def test_feedback_documents_are_filtered(tmp_path: Path) -> None:
    docs = [
        Document("a", "sieve drum drum", fields={"kind": "x"}),
        Document("b", "sieve mesh mesh", fields={"kind": "y"}),
        Document("c", "drum", fields={"kind": "y"}),
        Document("d", "mesh", fields={"kind": "y"}),
        *(Document(f"e{n}", "cream", fields={"kind": "x"}) for n in range(30)),
    ]
    index = Index.build(docs, tmp_path / "index")
    expanded = index.bm25().rm3(documents=5).where("kind=y").search(QUERY, 10)["q"].ids
    assert expanded == ["b", "d"]
    assert "c" in index.bm25().rm3(documents=5).search(QUERY, 10)["q"].ids


# Sources


def test_operators_and_hybrids_pass_a_filter_on_and_reopen(index: Index) -> None:
    both = hybrid(index.bm25(), index.ql().rm3(), depth=3)
    for source in (index.bm25() % 2, both, both % 5):
        filtered = source.where("author=ada", r"id!=a\|b")
        assert names(filtered) == ["guides/a", "guides/c"]
        spec = json.loads(json.dumps(filtered.spec()))
        assert open_source(spec).spec() == spec
        assert names(open_source(spec)) == names(filtered)
        assert "where" not in str(source.spec())
    spec["of"]["of"][0]["where"] = [3]
    with pytest.raises(InputError):
        open_source(spec)


def test_statistics_stay_those_of_the_whole_index(index: Index) -> None:
    full = dict(index.bm25().search(QUERY, 100)["q"])
    assert dict(index.bm25().where("author=bob").search(QUERY, 10)["q"]) == {
        "guides/b": full["guides/b"]
    }


def test_a_source_that_cannot_filter_says_so(index: Index) -> None:
    class Fixed(Source):
        def search(self, queries: Queries, top: int) -> Run:
            return index.bm25().search(queries, top)

        def spec(self) -> dict[str, Any]:
            return {}

    with pytest.raises(InputError, match="Fixed cannot filter"):
        hybrid(index.bm25(), Fixed()).where("author=ada")


def test_filters_are_remembered_within_bounds_and_by_threads(tmp_path: Path) -> None:
    index = Index.build(documents(), tmp_path / "index")
    wrong: list[int] = []

    def search(first: int) -> None:
        for n in range(first, first + 40):
            if len(index.search("sieve", where=f"stars>{n}")) != sum(
                v > n for v in (3, 10, 2.5, -1)
            ):
                wrong.append(n)

    threads = [threading.Thread(target=search, args=(first,)) for first in (-40, 0, 0, 40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert len(index.snapshot._filters) <= REMEMBERED_FILTERS


def test_flags_are_bits() -> None:
    flags = np.random.default_rng(1).random(200) < 0.5
    packed = pack_flags(flags)
    bits = [bool(int(packed.bits[n // 64]) >> (n % 64) & 1) for n in range(200)]
    assert bits == flags.tolist()
    assert packed.excluded == 200 - flags.sum()


# The command line


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [
        json.dumps({"id": name, "text": f"sieve {name}", **fields})
        for name, fields in FIELDS.items()
    ]
    (tmp_path / "docs.jsonl").write_text("\n".join(lines))
    (tmp_path / "queries.txt").write_text("sieve\n")
    index = str(tmp_path / "index")
    assert run(["index", str(tmp_path / "docs.jsonl"), "-o", index]) == 0
    assert (
        run(["search", index, "sieve", "--where", "author=ada", "--where", "date<2025", "--json"])
        == 0
    )
    hits = json.loads(capsys.readouterr().out)["hits"]
    assert [hit["id"] for hit in hits] == ["guides/a"]
    output = str(tmp_path / "run.trec")
    call = ["search", index, str(tmp_path / "queries.txt"), "-o", output, "--where", "stars>2"]
    assert run(call) == 0
    assert "b=0.4 where stars>2," in capsys.readouterr().err
    assert len(Path(output).read_text().splitlines()) == 3
    assert run(["search", index, "sieve", "--where", "autor=ada"]) != 0
    assert "did you mean author?" in capsys.readouterr().err
    assert run(["info", index, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["fields"] == {
        "author": "text, 4 of 6 documents",
        "date": "date, 5 of 6 documents",
        "stars": "number, 4 of 6 documents",
        "tags": "text, 3 of 6 documents",
        "year": "year, 2 of 6 documents",
    }


@pytest.mark.parametrize(
    ("words", "where", "reason"),
    [
        ("sieve", "author=Ada|Carl", "no document matches --where; there is 'ada'"),
        ("sieve", "stars>99", "no document matches --where"),
        ("zebra", "author=ada", "no document among 2 documents that --where admits has one of its"),
        ("the", "author=ada", "it has no terms to search for"),
        ("zebra", "", "no document has one of its terms"),
    ],
)
def test_why_nothing_is_found(
    words: str, where: str, reason: str, index: Index, capsys: pytest.CaptureFixture[str]
) -> None:
    condition = ["--where", where] if where else []
    assert run(["search", str(index.path), words, *condition]) == 0
    assert f"nothing found: {reason}" in capsys.readouterr().err


@pytest.mark.parametrize("where", [{"author": "ada"}, [("author", "ada")], 3])
def test_what_is_no_condition_is_refused(where: Any) -> None:
    with pytest.raises(InputError, match="is no condition"):
        as_conditions(where)
    assert as_conditions(None) == as_conditions([]) == ()


def test_a_date_that_is_none_yet_does_not_make_all_of_them_text(tmp_path: Path) -> None:
    dated = [
        Document(f"d{n:02}", "a sieve", fields={"date": f"2024-01-{n + 1:02}"}) for n in range(20)
    ]
    index = Index.build(dated, tmp_path / "index")
    index.add([Document("draft", "a sieve", fields={"date": "TBD", "stars": "3"})])
    assert index.snapshot.field_types["date"] == "date"
    found = {hit.id for hit in index.search("sieve", 50, "date>=2024-01-15")}
    assert found == {f"d{n}" for n in range(14, 20)}
    for condition in ("date<2030", "date>1900", "date<=2024-12", "date=2024"):
        assert "draft" not in {hit.id for hit in index.search("sieve", 50, condition)}
    assert [hit.id for hit in index.search("sieve", 50, "date=TBD*")] == ["draft"]
    assert "draft" in {hit.id for hit in index.search("sieve", 50, "date!=2024-01-01")}
    index.add([Document(f"s{n}", "a sieve", fields={"stars": "many"}) for n in range(3)])
    assert index.snapshot.field_types["stars"] == "text"
