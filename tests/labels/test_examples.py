"""Examples, their files and their texts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tamis.errors import InputError, OutputError
from tamis.labels import Examples, join_examples, read_examples, write_examples
from tamis.labels.example_texts import row_texts
from tamis.labels.examples import LABEL_SOURCES, LABEL_TYPES, ROLES, TO_THE_END
from tamis.pipeline.document_lookup import MappingLookup
from tamis.types import Document, Ids, Passage, Queries, Query

TWO = Examples.of_rows(
    [
        ("q2", "d1", 1.0, "positive"),
        ("q1", "d2", 0.5, "pool"),
        ("q2", "d3", 0.0, "negative"),
    ],
    source="gold",
    facts={"labelled_by": "hand"},
)
Row = tuple[str, str, float, str]


def rows_of(examples: Examples) -> list[tuple[Any, ...]]:
    """Every row as it is read by a person, without groups."""
    return [
        (
            examples.queries.ids[int(examples.query[n])],
            examples.docs[int(examples.doc[n])],
            int(examples.start[n]),
            int(examples.end[n]),
            bool(examples.titled[n]),
            float(examples.value[n]),
            ROLES[int(examples.role[n])],
            LABEL_SOURCES[int(examples.source[n])],
            LABEL_TYPES[int(examples.kind[n])],
            examples.origins.get(int(examples.query[n])),
        )
        for n in range(len(examples))
    ]


names = st.text("abÄ円 #/", min_size=1, max_size=4)
values = st.floats(-10, 10, width=32)


@st.composite
def made(draw: st.DrawFn) -> Examples:
    """Any examples, with spans, and some queries made from documents."""
    rows: list[Any] = draw(
        st.lists(st.tuples(names, names, values, st.sampled_from(ROLES)), max_size=12)
    )
    whole = Examples.of_rows(
        rows, source=draw(st.sampled_from(LABEL_SOURCES)), kind=draw(st.sampled_from(LABEL_TYPES))
    )
    count = len(whole)
    origins = {
        number: Passage(draw(names), 0, 1, 5, draw(st.sampled_from(["title", "text"])))
        for number in range(len(whole.queries))
        if draw(st.booleans())
    }
    ints = st.lists(st.integers(0, 50), min_size=count, max_size=count)
    start = np.array(draw(ints), np.int32)
    return replace(
        whole,
        start=start,
        end=np.where(start % 2, TO_THE_END, start + 3).astype(np.int32),
        titled=start % 3 == 0,
        source=(start % len(LABEL_SOURCES)).astype(np.int8),
        origins=origins,
        facts={"labelled_by": "chance", "counts": {"rows": count}, "ä": [1, None]},
    )


@settings(deadline=None, max_examples=60)
@given(made())
def test_written_then_read_is_the_same(examples: Examples) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "examples.parquet"
        write_examples(examples, path)
        read = read_examples(path)
    assert rows_of(read) == rows_of(examples)
    assert read.group.tolist() == examples.group.tolist()
    assert dict(read.facts) == dict(examples.facts)
    assert read == examples


@settings(deadline=None, max_examples=60)
@given(made(), st.data())
def test_selecting_keeps_rows_as_they_are(examples: Examples, data: st.DataObject) -> None:
    mask = np.array([data.draw(st.booleans()) for _ in range(len(examples))], bool)
    kept = examples.select(mask)
    assert rows_of(kept) == [row for row, keep in zip(rows_of(examples), mask, strict=True) if keep]
    assert kept.groups == len(set(examples.group[mask].tolist()))
    together = kept.group[:, None] == kept.group[None, :]
    before = examples.group[mask]
    assert np.array_equal(together, before[:, None] == before[None, :])


@settings(deadline=None, max_examples=60)
@given(st.lists(made(), min_size=1, max_size=3))
def test_joining_keeps_rows_and_groups(parts: list[Examples]) -> None:
    joined = join_examples(parts)
    plain = [row[:-1] for part in parts for row in rows_of(part)]
    assert [row[:-1] for row in rows_of(joined)] == plain
    assert joined.groups == sum(part.groups for part in parts)


@settings(deadline=None, max_examples=30)
@given(made(), st.sets(names))
def test_the_rows_of_some_queries(examples: Examples, wanted: set[str]) -> None:
    kept = examples.of_queries(Ids.of(wanted))
    assert rows_of(kept) == [row for row in rows_of(examples) if row[0] in wanted]


def test_rows_of_a_query_are_a_group() -> None:
    assert [row[:2] for row in rows_of(TWO)] == [("q2", "d1"), ("q2", "d3"), ("q1", "d2")]
    assert TWO.group.tolist() == [0, 0, 1]
    assert TWO.offsets.tolist() == [0, 2, 3]
    assert TWO.is_role("pool").tolist() == [False, False, True]
    assert Examples.of_rows([], source="gold").offsets.tolist() == [0]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"value": np.zeros(2, np.float32)}, "not as many values of 'value'"),
        ({"group": np.array([0, 2, 2], np.int32)}, "not numbered"),
        ({"group": np.array([1, 1, 2], np.int32)}, "not numbered"),
        ({"group": np.array([0, 0, 0], np.int32)}, "more than one query"),
        ({"value": np.array([0, np.nan, 1], np.float32)}, "is no number"),
    ],
)
def test_what_cannot_be_examples(change: dict[str, Any], problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        replace(TWO, **change)


def test_bad_files(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no file"):
        read_examples(tmp_path / "none")
    (tmp_path / "text").write_text("q1 0 d1 1\n")
    with pytest.raises(InputError, match="text is no Parquet file"):
        read_examples(tmp_path / "text")
    pq.write_table(pa.table({"query": ["q1"]}), tmp_path / "other")
    with pytest.raises(InputError, match="is no file of examples: it has no column 'doc'"):
        read_examples(tmp_path / "other")
    write_examples(TWO, tmp_path / "good")
    whole = pq.read_table(tmp_path / "good")
    pq.write_table(whole.replace_schema_metadata({}), tmp_path / "unmarked")
    with pytest.raises(InputError, match="it does not say that it is"):
        read_examples(tmp_path / "unmarked")
    strange = whole.set_column(whole.column_names.index("role"), "role", pa.array(["x", "y", "x"]))
    pq.write_table(strange, tmp_path / "strange")
    with pytest.raises(InputError, match="has the role 'x'"):
        read_examples(tmp_path / "strange")
    holes = whole.set_column(0, "query", pa.array(["q1", None, "q1"]))
    pq.write_table(holes, tmp_path / "holes")
    with pytest.raises(InputError, match="a row without a query"):
        read_examples(tmp_path / "holes")
    (tmp_path / "cut").write_bytes((tmp_path / "good").read_bytes()[:-20])
    with pytest.raises(InputError, match="cut cannot be read"):
        read_examples(tmp_path / "cut")
    blocks = bytearray((tmp_path / "good").read_bytes())
    first = pq.read_metadata(tmp_path / "good").row_group(0).column(0)
    start = first.dictionary_page_offset or first.data_page_offset
    blocks[start : start + 40] = bytes(40)
    (tmp_path / "damaged").write_bytes(blocks)
    with pytest.raises(InputError, match="damaged cannot be read: ") as told:
        read_examples(tmp_path / "damaged")
    assert "make the examples again" in told.value.hint


def test_a_file_with_plain_columns_is_read_too(tmp_path: Path) -> None:
    write_examples(TWO, tmp_path / "good")
    whole = pq.read_table(tmp_path / "good")
    for name in ("query", "doc", "role", "source", "kind"):
        plain = pa.array(whole[name].to_pylist())
        whole = whole.set_column(whole.column_names.index(name), name, plain)
    turned = [("q2", "d3"), ("q2", "d1"), ("q1", "d2")]
    pq.write_table(whole.take([1, 0, 2]), tmp_path / "plain")
    read = read_examples(tmp_path / "plain")
    assert [row[:2] for row in rows_of(read)] == turned
    assert [row[6] for row in rows_of(read)] == ["negative", "positive", "pool"]


def test_a_file_is_replaced_only_if_asked(tmp_path: Path) -> None:
    write_examples(TWO, tmp_path / "file")
    with pytest.raises(OutputError, match="exists already"):
        write_examples(TWO, tmp_path / "file")
    write_examples(TWO.select(np.array([0])), tmp_path / "file", force=True)
    assert len(read_examples(tmp_path / "file")) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


DRUM = Document("d1", "One sieve. Two drums. Three nets.", "Drum")
LIBRARY = MappingLookup({"d1": DRUM, "d2": Document("d2", "A mill."), "d3": DRUM})


def test_texts_are_read_where_rows_point() -> None:
    asked = TWO.with_queries(Queries.of([Query("q1", "first"), Query("q2", "second")]))
    spans = replace(
        asked,
        start=np.array([0, 11, 0], np.int32),
        end=np.array([TO_THE_END, 21, 3], np.int32),
        titled=np.array([True, False, True]),
    )
    library = MappingLookup({"d1": DRUM, "d2": Document("d2", "A mill."),
                              "d3": replace(DRUM, id="d3")})  # fmt: skip
    assert row_texts(spans, np.arange(3), library) == (
        ["second", "second", "first"],
        ["Drum One sieve. Two drums. Three nets.", "Two drums.", "A m"],
    )
    with pytest.raises(InputError, match="have no texts"):
        row_texts(TWO, np.arange(1), LIBRARY)


def test_a_query_made_from_a_text_is_left_out_of_it() -> None:
    rows = Examples.of_rows(
        [("q1", "d1", 1.0, "positive"), ("q1", "d2", 0.0, "negative")], source="synthetic"
    )
    sentence = replace(rows, origins={0: Passage("d1", 0, 11, 21)})
    assert row_texts(sentence, np.arange(2), LIBRARY) == (
        ["Two drums.", "Two drums."],
        ["Drum One sieve. Three nets.", "A mill."],
    )
    title = replace(rows, origins={0: Passage("d1", 0, 0, 4, "title")})
    assert row_texts(title, np.arange(1), LIBRARY) == (["Drum"], [DRUM.text])


def test_texts_of_queries_are_found_or_missed() -> None:
    with pytest.raises(InputError, match="query 'q2' of the examples is not in the collection"):
        TWO.with_queries(Queries.of([Query("q1", "first")]))
    with pytest.raises(InputError, match="have no texts"):
        TWO.with_queries(Queries(Ids.of(["q1", "q2"])))
    first = TWO.of_queries(Ids.of(["q1"]))
    assert first.with_queries(Queries.of([Query("q1", "first")])).queries["q1"].text == "first"


def test_facts_of_all_parts_are_kept() -> None:
    assert join_examples([TWO, TWO]).facts == {
        "0": {"labelled_by": "hand"},
        "1": {"labelled_by": "hand"},
    }
    assert join_examples([TWO]) is TWO
    with pytest.raises(InputError, match="no examples to join"):
        join_examples([])
