"""Pools tell nothing of who found what; a file of judgements is whole at any moment."""

from __future__ import annotations

import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tamis.collection.beir import write_judged
from tamis.collection.judgements import read_qrels
from tamis.collection.readers import read_queries
from tamis.errors import InputError, LineError, OutputError, TamisError
from tamis.judging import (
    IndexAlone,
    Judging,
    Pooled,
    open_judging,
    pool,
    sample_queries,
    sources_of,
)
from tamis.search import Index
from tamis.types import Document, Qrels, Queries, Query, Run, Source
from tamis.types.pipeline import Spec


class Fixed(Source):
    """Finds what it was told to, best first."""

    def __init__(self, rankings: Mapping[str, list[str]]) -> None:
        self.rankings = rankings

    def search(self, queries: Queries, top: int) -> Run:
        found = {
            query.id: {doc: -float(n) for n, doc in enumerate(self.rankings.get(query.id, []))}
            for query in queries
        }
        return Run.from_dict(found).top(top)

    def spec(self) -> Spec:
        return {"source": "fixed"}


def asked(*ids: str) -> Queries:
    return Queries.of(Query(each, f"words of {each}") for each in ids)


def items(*pairs: str) -> list[Pooled]:
    """Pairs such as `q1 d1` as a pool in this order."""
    split = (pair.split() for pair in pairs)
    return [Pooled(Query(query, "words"), doc, (1,)) for query, doc in split]


FOUR = items("q1 d1", "q1 d2", "q2 d1", "q2 d3")


def test_a_pool_has_the_top_of_every_source_once() -> None:
    one = Fixed({"q1": ["a", "b", "c", "d"], "q2": ["x"]})
    two = Fixed({"q1": ["e", "b", "a", "f"]})
    found = pool([one, two], asked("q1", "q2", "q3"), depth=3)
    ranks = {(item.query.id, item.doc_id): item.ranks for item in found}
    assert ranks == {
        ("q1", "a"): (1, 3),
        ("q1", "b"): (2, 2),
        ("q1", "c"): (3, None),
        ("q1", "e"): (None, 1),
        ("q2", "x"): (1, None),
    }
    assert len(found) == len(ranks)
    assert found[0].query.text.startswith("words of q")


def test_the_order_tells_nothing_about_ranks_and_depends_on_the_seed_alone() -> None:
    names = [f"d{n}" for n in range(20)]
    queries = asked(*(f"q{n}" for n in range(300)))
    forward = Fixed({query.id: names for query in queries})
    backward = Fixed({query.id: names[::-1] for query in queries})
    found = pool([forward], queries, 20)
    assert found == pool([forward], queries, 20)
    assert found != pool([forward], queries, 20, seed=1)
    assert [i.doc_id for i in found] == [i.doc_id for i in pool([backward], queries, 20)]
    firsts = [found[n * 20].ranks[0] for n in range(300)]
    # The mean of 300 draws from 1 to 20 is 10.5, with a standard error of 5.77 / 17.3 = 1/3.
    assert abs(sum(rank or 0 for rank in firsts) / 300 - 10.5) < 1.1
    deeper = [i.doc_id for i in pool([forward], asked("q7"), 20)]
    assert [i.doc_id for i in pool([forward], asked("q7"), 5)] == [
        doc for doc in deeper if doc in names[:5]
    ]


def test_queries_stay_together_in_a_drawn_order() -> None:
    queries = asked(*(f"q{n}" for n in range(30)))
    found = pool([Fixed({query.id: ["a", "b"] for query in queries})], queries, 2)
    order = [item.query.id for item in found]
    assert order[::2] == order[1::2]
    assert order[::2] != sorted(order[::2])


def test_a_sample_grows_without_losing_what_was_judged() -> None:
    queries = asked(*(f"q{n}" for n in range(30)))
    assert {*sample_queries(queries, 5).ids} < {*sample_queries(queries, 12).ids}
    assert sample_queries(queries, 5) != sample_queries(queries, 5, seed=1)
    assert sample_queries(queries, 99) == queries


def test_an_index_alone_is_pooled_once(tmp_path: Path) -> None:
    index = Index.build([Document("d1", "sieves")], tmp_path / "index")
    (source,) = sources_of(IndexAlone(index))
    assert [i.doc_id for i in pool([source], Queries.of([Query("q", "sieve")]))] == ["d1"]


HEADER = "query-id\tcorpus-id\tscore\n"


def file_of(path: Path) -> Path:
    return path / "qrels" / "judged.tsv"


def begin(path: Path, *rows: str, queries: str = "q1") -> None:
    """A folder of judgements as another session left it."""
    (path / "qrels").mkdir(parents=True)
    file_of(path).write_text(HEADER + "".join(rows))
    names = [f'{{"_id": "{name}", "text": "words"}}\n' for name in queries.split()]
    (path / "queries.jsonl").write_text("".join(names))


def test_what_is_answered_is_written_line_by_line(tmp_path: Path) -> None:
    path = tmp_path / "judged"
    with open_judging(FOUR, path) as judging:
        assert not path.exists()
        judging.answer(2)
        assert file_of(path).read_text() == HEADER + "q1\td1\t2\n"
        assert [*read_queries(path).ids] == ["q1"]
        judging.skip()
        judging.answer(0)
        assert file_of(path).read_text() == HEADER + "q1\td1\t2\nq2\td1\t0\n"
        assert read_queries(path) == Queries.of([FOUR[0].query, FOUR[2].query])
        assert (
            judging.num_left,
            judging.num_answered,
            judging.num_skipped,
            judging.count_partly_judged(),
        ) == (1, 2, 1, 2)
        place = judging.place()
        assert place is not None
        assert (place.query, place.num_queries, place.document, place.num_documents) == (2, 2, 2, 2)
        judging.answer(1)
        assert judging.current is None
        assert judging.place() is None
        with pytest.raises(InputError, match="judged or skipped"):
            judging.skip()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["judged"]


def test_every_change_is_forced_to_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_judging(FOUR, tmp_path / "qrels") as judging:
        judging.answer(1)
        forced = list[int]()
        monkeypatch.setattr("os.fsync", forced.append)
        judging.answer(1)
        judging.undo()
    assert len(forced) == 2


def test_undo_goes_back_to_the_start_of_the_session(tmp_path: Path) -> None:
    path = tmp_path / "judged"
    with open_judging(FOUR, path) as judging:
        for grade in (1, 0, 1):
            judging.answer(grade)
        judging.skip()
        assert [judging.undo() for _ in range(2)] == [True, True]
        assert judging.current == FOUR[2]
        assert file_of(path).read_text() == HEADER + "q1\td1\t1\nq1\td2\t0\n"
        assert [judging.undo() for _ in range(3)] == [True, True, False]
        assert not file_of(path).exists()
    with open_judging(FOUR, path) as judging:
        judging.answer(1)
    with open_judging(FOUR, path) as judging:
        assert not judging.undo()
        assert judging.num_before == 1


def test_it_goes_on_where_it_was(tmp_path: Path) -> None:
    path = tmp_path / "judged"
    rows = "other\td9\t1\n", "q1\td2\t1\n", "q1\td9\t0"  # without an end of line
    begin(path, *rows, queries="other q1")
    with open_judging(FOUR, path) as judging:
        assert (judging.num_before, judging.num_left, judging.num_answered) == (3, 3, 0)
        judging.answer(0)
        judging.answer(1)
        judging.undo()
        judging.undo()
        assert file_of(path).read_text() == HEADER + "".join(rows)
        judging.answer(0)
        assert judging.current == FOUR[2]
    assert read_qrels(path).to_dict() == {"other": {"d9": 1}, "q1": {"d1": 0, "d2": 1, "d9": 0}}


@pytest.mark.parametrize("torn", ["q", "q1", "q1\t", "q1\td1", "q1\td1\t", "q1\t\xc3"])
def test_a_line_that_was_cut_off_is_dropped_with_a_warning(
    tmp_path: Path, torn: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "judged"
    begin(path, "q1\td2\t1\n")
    with file_of(path).open("ab") as file:
        file.write(torn.encode("latin-1"))
    assert read_qrels(path).to_dict() == {"q1": {"d2": 1}}
    assert "not written to its end" in caplog.text
    with open_judging(FOUR, path) as judging:
        judging.answer(0)
    assert file_of(path).read_text() == HEADER + "q1\td2\t1\nq1\td1\t0\n"


def test_skipped_pairs_are_asked_again_another_day(tmp_path: Path) -> None:
    for _ in range(2):
        with open_judging(FOUR, tmp_path / "qrels") as judging:
            assert judging.current == FOUR[0]
            judging.skip()


def test_ids_with_blanks(tmp_path: Path) -> None:
    path = tmp_path / "judged"
    spaced = [Pooled(Query("q1", "words"), doc, (1,)) for doc in ("my file.txt", "b")]
    for grade in (1, 0):
        with open_judging(spaced, path) as judging:
            judging.answer(grade)
    assert read_qrels(path).to_dict() == {"q1": {"my file.txt": 1, "b": 0}}
    broken = [Pooled(Query("q1", "words"), "a\nb", (1,))]
    with pytest.raises(InputError, match="line break"), open_judging(broken, tmp_path / "new"):
        pass


def test_another_split_is_extended(tmp_path: Path) -> None:
    path = tmp_path / "mine"
    write_judged([Query("q9", "words")], Qrels.from_dict({"q9": {"d": 1}}), path, "test")
    with open_judging(FOUR, path) as judging:
        judging.answer(2)
    assert read_qrels(path / "qrels" / "test.tsv").to_dict() == {"q1": {"d1": 2}, "q9": {"d": 1}}
    assert [*read_queries(path).ids] == ["q1", "q9"]


def test_what_cannot_be_extended_is_refused_before_anything_is_asked(tmp_path: Path) -> None:
    (tmp_path / "old.qrels").write_text("q1 0 d1 1\n")
    begin(tmp_path / "bad", "q1\td1\t1\n", "q1\td1\n", "q1\td2\t1\n")
    begin(tmp_path / "other", "q1\td1\t1\n")
    (tmp_path / "other" / "queries.jsonl").write_text('{"_id": "q1", "text": "another"}\n')
    (tmp_path / "things").mkdir()
    (tmp_path / "things" / "a.txt").touch()
    refused: list[tuple[str, type[TamisError], str]] = [
        ("old.qrels", OutputError, "is a file: judgements go into a folder"),
        ("bad", LineError, "judged.tsv:3"),
        ("other", InputError, "'another'"),
        ("none/judged", OutputError, "there is no folder"),
        ("things", OutputError, "a folder of something else"),
    ]
    for name, error, words in refused:
        with pytest.raises(error, match=words) as raised, open_judging(FOUR, tmp_path / name):
            pass
        assert raised.value.hint


def test_an_empty_folder_is_a_start(tmp_path: Path) -> None:
    (tmp_path / "judged").mkdir()
    with open_judging(FOUR, tmp_path / "judged") as judging:
        judging.answer(1)
    assert len(read_qrels(tmp_path / "judged")) == 1


def test_one_judge_at_a_time_and_nobody_else(tmp_path: Path) -> None:
    path = tmp_path / "judged"
    with open_judging(FOUR, path) as judging:
        with pytest.raises(OutputError, match="another process"), open_judging(FOUR, path):
            pass
        judging.answer(1)
        changed = HEADER + "q1\td1\t1\nq7\td7\t1\n"
        file_of(path).write_text(changed)
        with pytest.raises(OutputError, match="changed by another program"):
            judging.answer(1)
        with pytest.raises(OutputError, match="changed by another program"):
            judging.undo()
        assert (judging.num_answered, judging.current) == (1, FOUR[1])
    assert file_of(path).read_text() == changed


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """No file may grow beyond so many bytes: a longer write stops short, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("room", [0, 4])
def test_a_full_disk_leaves_no_half_line(tmp_path: Path, room: int) -> None:
    path = tmp_path / "judged"
    with open_judging(FOUR, path) as judging:
        with largest_file(room), pytest.raises(OSError, match=r"space|large"):
            judging.answer(1)
        assert not [file for file in path.rglob("*") if file.is_file()]
        judging.answer(1)
        first = HEADER + "q1\td1\t1\n"
        with largest_file(len(first) + room), pytest.raises(OSError, match=r"space|large"):
            judging.answer(1)
        assert file_of(path).read_text() == first
        assert judging.current == FOUR[1]
        judging.answer(0)
    assert file_of(path).read_text() == first + "q1\td2\t0\n"


def test_the_time_left_follows_the_pace_and_forgets_breaks(tmp_path: Path) -> None:
    now = 0.0
    pool_tokens = items(*(f"q1 d{n}" for n in range(30)))
    judging = Judging(pool_tokens, tmp_path / "qrels", lambda: now)
    assert judging.seconds_left() == 30 * 6
    for took in [2.0] * 6 + [3600.0] + [2.0] * 3:
        now += took
        judging.answer(0)
    assert judging.seconds_left() == 20 * 2


ACTIONS = st.lists(st.sampled_from(["0", "1", "2", "skip", "undo", "again"]), max_size=25)


@settings(deadline=None, max_examples=40)
@given(ACTIONS)
def test_the_file_is_what_was_answered_and_not_taken_back(actions: list[str]) -> None:
    pool_tokens = items(*(f"q{n % 3} d{n}" for n in range(6)))
    kept: list[tuple[int, str]] = []  # the model: what stands on disk from earlier sessions
    steps: list[tuple[int, str]] = []  # and the steps of this one
    with TemporaryDirectory() as folder:
        path = Path(folder) / "qrels"
        judging = Judging(pool_tokens, path)
        for action in actions:
            done = {number for number, _ in kept + steps}
            asked_now = next((n for n in range(6) if n not in done), None)
            assert judging.current == (None if asked_now is None else pool_tokens[asked_now])
            if action == "again":  # as if killed
                kept += [step for step in steps if step[1] != "skip"]
                steps, judging = [], Judging(pool_tokens, path)
            elif action == "undo":
                assert judging.undo() == bool(steps)
                steps = steps[:-1]
            elif asked_now is not None:
                judging.skip() if action == "skip" else judging.answer(int(action))
                steps.append((asked_now, action))
            stand = [step for step in kept + steps if step[1] != "skip"]
            lines = [f"{pool_tokens[n].query.id}\t{pool_tokens[n].doc_id}\t{g}\n" for n, g in stand]
            text = file_of(path).read_text() if file_of(path).exists() else HEADER
            assert text == HEADER + "".join(lines)
        if actions and lines:
            assert len(read_qrels(path).grade) == len(lines)


KILLED = """
import sys
from pathlib import Path
from tamis.judging import Pooled, open_judging
from tamis.types import Query
items = [Pooled(Query("q1", "words"), f"d{n}", (1,)) for n in range(5_000)]
with open_judging(items, Path(sys.argv[1])) as judging:
    for n in range(5_000):
        judging.answer(1)
        print(n, flush=True)
        if n % 3 == 2:
            judging.undo()
            judging.answer(0)
"""


def test_killed_at_any_moment_nothing_given_is_lost(tmp_path: Path) -> None:
    path = tmp_path / "qrels"
    job = subprocess.Popen([sys.executable, "-c", KILLED, path], stdout=subprocess.PIPE, text=True)
    assert job.stdout is not None
    said = [job.stdout.readline() for _ in range(20)]
    time.sleep(0.05)
    job.send_signal(signal.SIGKILL)
    said += job.stdout.read().split()
    job.wait()
    job.stdout.close()
    judged = read_qrels(path)["q1"]
    last = int(said[-1])
    # The last answer may be in the middle of being taken back.
    assert all(judged[f"d{n}"] == (n % 3 != 2) for n in range(last))
    with open_judging(items("q1 d0", "q1 none"), path) as judging:
        assert judging.current is not None
        assert judging.current.doc_id == "none"
        judging.answer(1)


def test_the_power_grows_with_the_judged_queries(tmp_path: Path) -> None:
    """The second source is ahead by a half on every other query."""
    pairs = [
        Pooled(Query(f"q{n}", "sieve"), doc, ranks)
        for n in range(12)
        for doc, ranks in (("d1", (1 + n % 2, 1)), ("d2", (2 - n % 2, None)))
    ]
    powers = []
    with open_judging(pairs, tmp_path / "judged") as judging:
        for number in range(len(pairs)):
            judging.answer(1 - number % 2)
            powers.append(judging.power(0, 1))
    assert powers[:9] == [None] * 9, "four queries are too few"
    assert powers[9] is not None
    assert (powers[9].queries, powers[10]) == (5, powers[9])
    assert powers[9].difference == pytest.approx(-0.2)
    assert powers[-1] is not None
    assert powers[-1].queries == 12
    assert powers[-1].smallest < powers[9].smallest


def test_a_query_without_a_relevant_document_adds_no_power(tmp_path: Path) -> None:
    pairs = [Pooled(Query(f"q{n}", "sieve"), "d1", (1 + n % 2, 1)) for n in range(7)]
    with open_judging(pairs, tmp_path / "judged") as judging:
        for number in range(len(pairs)):
            judging.answer(int(number < 5))
        power = judging.power(0, 1)
    assert power is not None
    assert power.queries == 5
