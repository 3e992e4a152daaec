"""What few judged queries say: differences by hand, and no query selects what it measures."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from tamis.cli.app import run
from tamis.fitting.guard import ComparedSystem, select
from tamis.fitting.provisional import (
    MIN_QUERIES_FOR_INTERVAL,
    cross_validated,
    provisional,
    selection_folds,
)
from tamis.fitting.query_splits import split_queries
from tamis.fitting.result import judged_queries_needed
from tamis.fitting.selection import required_baselines, select_by_values
from tamis.fitting.sieve import load_sieve
from tamis.fitting.system import all_systems, default_system
from tamis.fitting.systems import KINDS
from tamis.types import Ids, Qrels, Queries, Query

BY_KEY: dict[str, Any] = {kind.key: kind for kind in KINDS}


def test_the_interval_is_students() -> None:
    own, bm25 = [1.0, 0.5, 1.0, 0.2, 1.0, 0.5], [0.5, 0.5, 0.25, 0.25, 0.0, 1.0]
    few = provisional("hybrid", own, "BM25", bm25, "RR@10", "cross_validated")
    differences = np.subtract(own, bm25)
    expected = stats.t.interval(0.95, 5, differences.mean(), stats.sem(differences))
    assert few.interval is not None
    assert (few.interval.low, few.interval.high) == pytest.approx(expected, abs=1e-12)
    assert few.queries == 6 and few.mean == pytest.approx(4.2 / 6)
    assert few.baseline_mean == pytest.approx(2.5 / 6)
    assert str(few).startswith("+.283 against BM25 on your 6 queries, 95% interval −.307 to +.874")
    assert "provisional: cross-validated" in str(few)


@pytest.mark.parametrize("count", [1, 2, MIN_QUERIES_FOR_INTERVAL - 1, MIN_QUERIES_FOR_INTERVAL])
def test_very_few_or_equal_differences_have_no_interval(count: int) -> None:
    few = provisional("a", [0.5] * count, "b", [0.25] * count, "AP", "selected_on")
    assert few.interval is None and "optimistic" in str(few)
    too_few = count < MIN_QUERIES_FOR_INTERVAL
    assert ("too few for an interval" if too_few else "the same on each") in str(few)


@given(st.data())
@settings(max_examples=50, deadline=None)
def test_no_query_has_a_say_in_what_it_measures(data: st.DataObject) -> None:
    """Whatever a system scores on a fold, the system that ranks that fold stays the same."""
    count = data.draw(st.integers(2, 8))
    numbers = st.integers(0, 8).map(lambda n: n / 8)
    table = np.array(data.draw(st.lists(st.lists(numbers, min_size=count, max_size=count),
                                        min_size=3, max_size=3)))  # fmt: skip
    parts = [part for part in np.array_split(np.arange(count), 3) if len(part)]
    changed, fold = table.copy(), parts[data.draw(st.integers(0, len(parts) - 1))]
    changed[:, fold] = data.draw(st.permutations(range(3)).map(lambda order: table[order][:, fold]))

    def rows(values: NDArray[np.float64]) -> list[int]:
        picked: list[int] = []

        def best(some: NDArray[np.float64]) -> int:
            assert some.shape[1] < count
            picked.append(int(some.mean(axis=1).argmax()))
            return picked[-1]

        measured = cross_validated(values, parts, best)
        for row, part in zip(picked, parts, strict=True):
            assert (measured[part] == values[row, part]).all()
        return picked

    number = next(n for n, part in enumerate(parts) if part is fold)
    assert rows(table)[number] == rows(changed)[number]


def test_queries_that_are_nearly_the_same_are_left_out_together() -> None:
    texts = ["how do I clean a drum sieve", "How do I clean a drum sieve?", "what is a net",
             "sorting grain by size", "flour for bread"]  # fmt: skip
    queries = Queries.of([Query(f"q{n}", text) for n, text in enumerate(texts)])
    answers = Qrels.from_dict({f"q{n}": {f"d{n}": 1} for n in range(5)})
    order = ["q4", "q1", "q3", "q0", "q2"]
    parts = [set(part.tolist()) for part in selection_folds(queries, order, answers, 0)]
    assert {1, 3} in parts and set().union(*parts) == {0, 1, 2, 3, 4}
    same = Queries.of([Query(f"q{n}", "what is a net") for n in range(4)])
    assert selection_folds(same, ["q0", "q1", "q2", "q3"], answers, 0) == []


@pytest.mark.parametrize("count", [4, 5])
def test_nothing_significantly_below_bm25_is_selected_with_few_queries(count: int) -> None:
    """Among many systems a lead of BM25 on all of five queries does not count; the t-test does."""
    kinds = [BY_KEY[key] for key in ("base_model", "fine_tuned", "interpolated_weights_50")]
    systems = all_systems([BY_KEY["bm25"]], BY_KEY["bm25"], kinds)
    names, default = [system.name for system in systems], default_system(systems).name
    assert "BM25" not in required_baselines(systems, count)
    signs = itertools.product((1, -1), repeat=count)
    below = itertools.cycle([some for some in signs if -count < sum(some) < 0])
    table = np.array([0.5 + 0.1 * np.array(next(below)) for _ in systems])
    table[names.index(default)] = 0.5
    table[names.index("BM25")] = 0.8 + np.arange(count) / 100
    compared = [ComparedSystem(system.name, system.complexity) for system in systems]
    assert select(compared, table, [default]).selected == default
    selection, required = select_by_values(systems, table, 0)
    enough = count >= MIN_QUERIES_FOR_INTERVAL
    assert selection.selected == ("BM25" if enough else default)
    assert ("BM25" in required) == enough


@pytest.mark.parametrize(("train", "test", "needed"), [(0, 0, 40), (20, 0, 20), (39, 0, 1),
                                                       (5, 7, 3), (0, 10, 0)])  # fmt: skip
def test_how_many_judged_queries_a_test_needs(train: int, test: int, needed: int) -> None:
    words = "sieve drum net grain flour fish sort".split()
    texts = [f"{one} {other}" for one in words for other in words if one != other]
    queries = Queries.of([Query(f"q{n:02}", texts[n % 42] + f" x{n}") for n in range(42)])
    ids = [f"q{n:02}" for n in range(train + test)]
    judged = {"train": Qrels.from_dict({query: {"d": 1} for query in ids[:train]}),
              "test": Qrels.from_dict({query: {"d": 1} for query in ids[train:]})}  # fmt: skip
    splits = split_queries(queries, judged, Ids.of(["d"]))
    assert judged_queries_needed(splits) == needed


WORDS = "sieve drum net grain flour fish sort".split()
PAIRS_OF_WORDS = [f"{one} {other}" for one in WORDS for other in WORDS if one < other]


def shares_a_word(number: int, other: int) -> bool:
    return bool({*PAIRS_OF_WORDS[number].split()} & {*PAIRS_OF_WORDS[other].split()})


def few_judged(folder: Path, train: int, test: int = 0) -> Path:
    """A folder in BEIR's layout; BM25 finds all but every third answer first."""
    texts = PAIRS_OF_WORDS
    (folder / "qrels").mkdir(parents=True)
    documents = [{"_id": f"d{n:02}", "text": text} for n, text in enumerate(texts)]
    queries = [{"_id": f"q{n:02}", "text": text} for n, text in enumerate(texts)]
    for name, records in (("corpus", documents), ("queries", queries)):
        (folder / f"{name}.jsonl").write_text("\n".join(map(json.dumps, records)) + "\n")
    for split, numbers in (("train", range(train)), ("test", range(train, train + test))):
        rows = [f"q{n:02}\td{n if n % 3 else (n + 1) % 21:02}\t1\n" for n in numbers]
        if rows:
            (folder / "qrels" / f"{split}.tsv").write_text("query-id\tcorpus-id\tscore\n")
            with (folder / "qrels" / f"{split}.tsv").open("a") as file:
                file.writelines(rows)
    return folder


@pytest.mark.parametrize(("train", "test", "queries"), [(12, 0, 12), (3, 0, 3), (0, 7, 7)])
def test_few_judgements_from_end_to_end(
    train: int, test: int, queries: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, out = few_judged(tmp_path / "docs", train, test), tmp_path / "s"
    assert run(["fit", str(folder), "-o", str(out), "--base", "none"]) == 0
    printed = capsys.readouterr()
    assert f"on your {queries} queries, provisional" in printed.out
    assert "verified  not yet" in printed.out
    result = load_sieve(out).result
    assert result.provisional is not None and not result.verified
    assert result.provisional.queries == queries
    needed = 10 - test if test else 40 - train
    assert result.more_judged_queries_needed == needed
    assert f"a test needs {needed} more" in result.reason
    page = (out / "report.html").read_text("utf-8")
    assert "<strong>provisional</strong>" in page and "nothing is claimed" not in page
    found = [n % 3 != 0 or shares_a_word(n, (n + 1) % 21) for n in range(queries)]
    limit = re.search(r"<strong>(\S+)</strong>, the ceiling of any re-ranker.* (\S+)\.\n", page)
    assert limit is not None
    assert float(limit[1]) == pytest.approx(sum(found) / queries, abs=1e-4)
    assert float(limit[2]) == pytest.approx(result.provisional.mean, abs=1e-4)
    assert run(["info", str(out), "--json"]) == 0
    described = json.loads(capsys.readouterr().out)
    assert described["provisional"]["queries"] == queries and described["verified"] is False
