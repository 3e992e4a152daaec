"""Runs in TREC and Parquet files: what is written comes back, and bad lines are named."""

from __future__ import annotations

import gzip
import tempfile
from pathlib import Path

import numpy as np
import pytest
import zstandard
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tamis.collection import _columns
from tamis.collection._columns import grouped
from tamis.collection._line_kernels import PADDING, read_number, same
from tamis.collection.base import Faults
from tamis.collection.runs import read_run, write_run
from tamis.errors import InputError, LineError, OutputError
from tamis.types import Ids, Queries, Query, Run

IDS = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters=" \t\n\r\v\f\ufeff"),
    min_size=1,
    max_size=6,
)
SCORES = st.one_of(
    st.floats(width=32, allow_nan=False, allow_infinity=False),
    st.sampled_from([1e-30, 1e30, -1e30, 0.1, -0.0, 16777217.0, 1.17549435e-38, 3.4028235e38]),
)
RANKINGS = st.dictionaries(IDS, st.dictionaries(IDS, SCORES, min_size=1, max_size=5), min_size=1)

TEXT = """\
q2 Q0 d7 1 1.5 me
q1 Q0 d1 1 2.5 me
q2 Q0 d8 2 1.5 me
q1 Q0 d3 2 -0.25 me
q1 Q0 d2 3 2.5 me
"""
MEANT = {"q1": {"d2": 2.5, "d1": 2.5, "d3": -0.25}, "q2": {"d8": 1.5, "d7": 1.5}}


def write(tmp_path: Path, content: str | bytes) -> Path:
    path = tmp_path / "run"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def as_lists(run: Run) -> dict[str, list[tuple[str, float]]]:
    return {query: list(run[query]) for query in run}


def with_everything() -> Run:
    queries = Queries.of(
        [
            Query("q1", "sieve", {"description": "What is one?", "lang": "en"}),
            Query("q 2", "nothing found", {"lang": "de"}),
            Query("q3", "", {}),
        ]
    )
    run = Run(
        queries,
        Ids.of(["a", "b c", "d", "unused"]),
        np.array([0, 0, 2, 3]),
        np.array([0, 1, 2], np.int32),
        np.array([1.0, 3.0, 1e-30], np.float32),
    )
    return run.with_extra(
        passage=np.array([4, -2, 7], np.int32),
        big=np.array([1 << 40, 0, -1]),
        before=np.array([0.1, 2.0, 1e30]),
        single=np.array([0.1, 2.0, 3.0], np.float32),
        truncated_tokens=np.array([True, False, True]),
        note=np.array(["", "tab\there", "é漢"]),
    )


@pytest.mark.parametrize("name", ["run", "run.txt.gz", "run.zst"])
@settings(max_examples=30, deadline=None)
@given(rankings=RANKINGS)
def test_trec_gives_back_ids_and_scores_exactly(
    name: str, rankings: dict[str, dict[str, float]]
) -> None:
    run = Run.from_dict(rankings)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        assert write_run(run, path) == []
        assert read_run(path) == run


@settings(max_examples=25, deadline=None)
@given(rankings=st.dictionaries(st.text(max_size=5), st.dictionaries(st.text(max_size=5), SCORES)))
def test_parquet_gives_back_everything_even_queries_without_results(
    rankings: dict[str, dict[str, float]],
) -> None:
    run = Run.from_dict(rankings)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.parquet"
        assert write_run(run, path) == []
        assert read_run(path) == run


def test_parquet_keeps_texts_fields_and_columns(tmp_path: Path) -> None:
    run = with_everything()
    path = tmp_path / "run.parquet"
    assert write_run(run, path) == []
    back = read_run(path)
    assert back == run
    assert back.queries.texts == ("nothing found", "sieve", "")
    assert back.queries.fields["description"] == ("", "What is one?", "")
    assert back["q 2"].ids == []
    assert back["q1"].ids == ["b c", "a"]
    for name, column in run.extra.items():
        assert back.extra[name].dtype.kind == column.dtype.kind, name
        assert back.extra[name].dtype.itemsize == column.dtype.itemsize, name
    assert "unused" not in back.docs


def test_parquet_by_name_or_by_word(tmp_path: Path) -> None:
    run = Run.from_dict(MEANT)
    write_run(run, tmp_path / "odd.name", format="parquet")
    assert (tmp_path / "odd.name").read_bytes()[:4] == b"PAR1"
    assert read_run(tmp_path / "odd.name") == run
    write_run(run, tmp_path / "plain.parquet", format="trec")
    assert read_run(tmp_path / "plain.parquet") == run
    with pytest.raises(InputError, match="cannot write a run as 'csv'") as caught:
        write_run(run, tmp_path / "run.csv", format="csv")
    assert "trec" in caught.value.hint
    assert not (tmp_path / "run.csv").exists()


def test_parquet_with_other_columns(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = tmp_path / "run.parquet"
    rows = {"query": [7, 7, 3], "doc": [1, 2, 1], "score": [1, 2, 3]}
    pq.write_table(pa.table(rows), path)
    assert read_run(path).to_dict() == {"3": {"1": 3.0}, "7": {"2": 2.0, "1": 1.0}}
    pq.write_table(pa.table({"query": ["q"], "docno": ["d"], "score": [1.0]}), path)
    with pytest.raises(InputError, match="no column 'doc'; it has: query, docno, score"):
        read_run(path)
    pq.write_table(pa.table({"query": ["q"] * 2, "doc": ["d"] * 2, "score": [1.0, 2.0]}), path)
    with pytest.raises(InputError, match="lists document 'd' twice"):
        read_run(path)


def test_the_file_is_what_others_read(tmp_path: Path) -> None:
    run = Run.from_dict({"q1": {"a": 0.1, "b": 2.0}, "q0": {"c": 1e-30}})
    write_run(run, tmp_path / "run", tag="mine")
    assert (tmp_path / "run").read_text() == (
        "q0 Q0 c 1 1e-30 mine\nq1 Q0 b 1 2.0 mine\nq1 Q0 a 2 0.1 mine\n"
    )


def test_notes_say_what_trec_cannot_hold(tmp_path: Path) -> None:
    queries = Queries.of([Query("q1", "sieve"), Query("q2", "drum")])
    run = Run(queries, Ids.of(["a"]), np.array([0, 1, 1]), np.array([0]), np.array([1.0]))
    notes = write_run(run.with_extra(passage=[3], truncated_tokens=[0]), tmp_path / "run")
    assert notes == [
        "dropped (only .parquet can hold it): passage, truncated_tokens",
        "dropped (only .parquet can hold it): the queries' texts",
        "dropped (only .parquet can hold it): 1 query without results",
    ]
    assert read_run(tmp_path / "run").to_dict() == {"q1": {"a": 1.0}}


@pytest.mark.parametrize("bad", ["a b", "tab\t", "\n", "\r", "x\v", "\fx", ""])
def test_ids_that_would_break_a_line_are_refused(tmp_path: Path, bad: str) -> None:
    for rankings in ({"q": {bad: 1.0, "fine": 2.0, "!": 1.0}}, {bad: {"d": 1.0}, "fine": {}}):
        with pytest.raises(InputError) as caught:
            write_run(Run.from_dict(rankings), tmp_path / "run")
        assert f"id {bad!r} is empty or has white space" in str(caught.value)
        assert "parquet" in caught.value.hint
    assert list(tmp_path.iterdir()) == []


def test_only_ids_that_are_written_are_asked(tmp_path: Path) -> None:
    run = Run.from_dict({"q": {"a": 2.0, "b c": 1.0}}).top(1)
    write_run(run, tmp_path / "run")
    assert read_run(tmp_path / "run") == run


@pytest.mark.parametrize("tag", ["", "two words", " x", "x\n"])
def test_a_tag_is_one_word(tmp_path: Path, tag: str) -> None:
    with pytest.raises(InputError, match="is not one word"):
        write_run(Run.from_dict(MEANT), tmp_path / "run", tag=tag)


@pytest.mark.parametrize("name", ["run", "run.parquet"])
def test_what_exists_is_replaced_only_by_force(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text("mine")
    with pytest.raises(OutputError, match="exists already"):
        write_run(Run.from_dict(MEANT), path)
    assert path.read_text() == "mine"
    write_run(Run.from_dict(MEANT), path, force=True)
    assert read_run(path).to_dict() == MEANT
    assert [file.name for file in tmp_path.iterdir()] == [name]


def test_lines_in_any_order_come_in_the_order_of_trec_eval(tmp_path: Path) -> None:
    run = read_run(write(tmp_path, TEXT))
    assert as_lists(run) == {query: list(docs.items()) for query, docs in MEANT.items()}


@pytest.mark.parametrize(
    "content",
    [
        TEXT.encode()[:-1],
        b"\xef\xbb\xbf" + TEXT.encode(),
        TEXT.replace("\n", "\r\n").encode(),
        TEXT.replace("\n", "\n\n").encode(),
        b"\n  \n\t\n" + TEXT.encode() + b"\n \r\n",
        TEXT.replace(" ", " \t ").encode(),
        gzip.compress(TEXT.encode(), mtime=0),
        gzip.compress(TEXT.encode()[:50], mtime=0) + gzip.compress(TEXT.encode()[50:], mtime=0),
        zstandard.compress(TEXT.encode()),
    ],
    ids="no-last-newline bom crlf blanks blank-ends wide gzip two-gzips zstd".split(),
)
@pytest.mark.parametrize("block", [7, 64, 1 << 22])
def test_shapes_of_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes, block: int
) -> None:
    monkeypatch.setattr(_columns, "BLOCK", block)
    assert read_run(write(tmp_path, content)).to_dict() == MEANT


def test_the_size_of_blocks_does_not_matter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = np.random.default_rng(1)
    lines = [
        f"q{draw.integers(9)} Q0 d{n}é {n} {draw.normal():.{draw.integers(1, 17)}f} t"
        for n in range(150)
    ]
    lines[50] = "too few columns"
    lines[77] = "q1 Q0 d 1 2 3 4"
    lines[100] = ""
    lines[101] = "q1 Q0 d0é 1 abc t"
    lines[149] = lines[148]
    path = write(tmp_path, "\n".join(lines))
    found = []
    for block in (7, 64, 1000, 1 << 22):
        monkeypatch.setattr(_columns, "BLOCK", block)
        faults = Faults(skip=True)
        run = read_run(path, faults)
        found.append((as_lists(run), [str(fault) for fault in faults.first]))
    assert all(each == found[0] for each in found)
    assert [text.split(": ")[0].rsplit(":")[-1] for text in found[0][1]] == "51 78 102 150".split()


BAD = [
    (b"q1 Q0 d9 1 2.5", "5 columns instead of 6"),
    (b"q1", "1 column instead of 6"),
    (b"q1 Q0 d9 1 2.5 me too", "7 columns instead of 6"),
    (b"q1 Q0 d9 1 abc me", "the score is 'abc', not a number"),
    (b"q1 Q0 d9 1 nan me", "the score is 'nan', not a number"),
    (b"q1 Q0 d9 1 - me", "the score is '-', not a number"),
    (b"q1 Q0 d9 1 1.2.3 me", "the score is '1.2.3', not a number"),
    (b"q1 Q0 d9 1 2,5 me", "the score is '2,5', not a number"),
    (b"q1 Q0 d9 1 1e300 me", "the score is 1e+300, more than a run can hold"),
    (b"q1 Q0 d9 1 -4e38 me", "the score is -4e+38, more than a run can hold"),
    (b"q1 Q0 d3 1 99 me", "query 'q1' lists document 'd3' a second time"),
    (b"q1 Q0 d\xe9 1 2.5 me", "byte 0xe9 at position 8 is not UTF-8"),
]


@pytest.mark.parametrize(("line", "problem"), BAD, ids=[problem for _, problem in BAD])
@pytest.mark.parametrize("block", [16, 1 << 22])
def test_a_bad_line_is_named_or_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: bytes, problem: str, block: int
) -> None:
    monkeypatch.setattr(_columns, "BLOCK", block)
    lines = TEXT.encode().splitlines()
    path = write(tmp_path, b"\n".join([*lines[:4], b"", line, *lines[4:]]))
    with pytest.raises(LineError) as caught:
        read_run(path)
    assert str(caught.value) == f"{path}:6: {problem}"
    assert caught.value.hint
    faults = Faults(skip=True)
    assert read_run(path, faults).to_dict() == MEANT
    assert faults.count == 1
    assert str(faults.first[0]) == f"{path}:6: {problem}"


def test_many_bad_lines_are_counted(tmp_path: Path) -> None:
    path = write(tmp_path, "x\n" * 30 + TEXT + "x y\n" * 5)
    faults = Faults(skip=True)
    assert read_run(path, faults).to_dict() == MEANT
    assert (faults.count, len(faults.first)) == (35, 10)


@pytest.mark.parametrize("content", ["", "\n\n", "\ufeff"])
def test_a_file_without_rows(tmp_path: Path, content: str) -> None:
    with pytest.raises(InputError, match="has no rows") as caught:
        read_run(write(tmp_path, content))
    assert caught.value.hint == "needs: query Q0 document rank score tag"


def test_a_file_of_nothing_but_bad_lines(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has no rows"):
        read_run(write(tmp_path, "what is this\n"), Faults(skip=True))


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no file"):
        read_run(tmp_path / "nowhere")


def test_scores_without_end_survive(tmp_path: Path) -> None:
    run = Run.from_dict({"q": {"a": float("inf"), "b": 0.0, "c": float("-inf")}})
    write_run(run, tmp_path / "run")
    assert read_run(tmp_path / "run") == run


DECIMALS = st.from_regex(
    r"[+-]?([0-9]{1,25}\.?[0-9]{0,30}|\.[0-9]{1,30})([eE][+-]?[0-9]{1,2})?", fullmatch=True
)


@settings(max_examples=250, deadline=None)
@given(DECIMALS)
@example("9007199254740993")
@example("0.3")
@example("-0")
@example("123456789012345678")
@example("999999999999999999")
@example("0.000000000000000001")
@example("1" + "0" * 22 + ".5")
def test_numbers_are_read_as_python_reads_them(text: str) -> None:
    line = f"q Q0 d 1 {text} t\n".encode()
    block = _columns._split(
        bytearray(line.ljust(len(line) + PADDING)), len(line), _columns.RUN, _columns._Room()
    )
    assert block.faults == []
    value = block.columns[5]
    assert value.tobytes() == np.array([float(text)]).tobytes(), text


def test_the_kernel_reads_plain_numbers_itself() -> None:
    expected = {"12.5": 12.5, "-3": -3.0, ".5": 0.5, "7.": 7.0, "+1.25": 1.25}
    refused = ["1e5", "+", ".", "9007199254740993", "1.2.3", "0" * 19, "0." + "1" * 18]
    for text in [*expected, *refused]:
        buffer = np.frombuffer(text.encode(), np.uint8)
        value, read = read_number(buffer, 0, len(text))
        assert (value, read) == (expected.get(text, 0.0), text in expected), text


@settings(max_examples=50, deadline=None)
@given(st.lists(st.sampled_from("ABC"), min_size=1, max_size=12))
def test_groups(strings: list[str]) -> None:
    _, number = Ids.numbering(strings)
    order, offsets = grouped(number, 6)
    assert order.tolist() == sorted(range(len(strings)), key=lambda n: (number[n], n))
    assert np.diff(offsets).tolist() == np.bincount(number, minlength=6).tolist()


@settings(max_examples=200, deadline=None)
@given(st.text("ab", max_size=20), st.text("ab", max_size=20), st.booleans())
def test_stretches_are_the_same_to_the_last_byte(one: str, other: str, alike: bool) -> None:
    other = one if alike else other
    text = f"{one} {other} ".encode()
    buffer = np.frombuffer(text.ljust(len(text) + PADDING), np.uint8)
    end = len(one) + 1 + len(other)
    assert same(buffer, 0, len(one), len(one) + 1, end) == (one == other)


CELLS = st.text("ab1.é\x00\x1f~", min_size=1, max_size=70)
GAPS = st.sampled_from([" ", "\t", "  ", "\r", "\x0b "])


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(CELLS, CELLS, st.floats(-9, 9), GAPS), min_size=1, max_size=9))
def test_columns_are_what_python_splits(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str, float, str]]
) -> None:
    expected: dict[str, dict[str, float]] = {}
    lines = []
    for number, (query, doc, score, gap) in enumerate(rows):
        cells = [query, "Q0", f"{doc}{number}", "1", repr(score), "tag"]
        lines.append(gap.join(cells))
        expected.setdefault(query, {})[cells[2]] = float(np.float32(score))
    path = write(tmp_path_factory.mktemp("run"), "\n".join(lines))
    assert read_run(path).to_dict() == expected
