"""Tables in four forms: numbers, marks, the best in bold, and the small print."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from tamis.evaluation import as_json, compare, evaluate, footnotes, latex, markdown, rich_table
from tamis.evaluation.evaluate import Evaluation
from tamis.evaluation.significance import Comparison
from tamis.types import Qrels, Run

QUERIES = [f"q{n:02d}" for n in range(30)]
QRELS = Qrels.from_dict({query: {"d1": 1} for query in QUERIES})


def ranking(place: int) -> dict[str, float]:
    """A ranking with the relevant document at a place from 1 to 4."""
    docs = ["x", "y", "z"]
    docs.insert(place - 1, "d1")
    return {doc: float(-n) for n, doc in enumerate(docs)}


@pytest.fixture(scope="module")
def evaluation() -> Evaluation:
    runs = {
        "bm25": Run.from_dict({q: ranking(2 + n % 2) for n, q in enumerate(QUERIES)}),
        "up_1": Run.from_dict({q: ranking(1 + n % 2) for n, q in enumerate(QUERIES)}),
        "down": Run.from_dict({q: ranking(3 + n % 2) for n, q in enumerate([*QUERIES[2:], "q99"])}),
    }
    return evaluate(QRELS, runs, ["RR@10", "P(rel=1)@1", "NumRet"])


@pytest.fixture(scope="module")
def comparisons(evaluation: Evaluation) -> list[Comparison]:
    return compare(evaluation, "bm25", samples=1000, resamples=100)


def test_markdown(evaluation: Evaluation, comparisons: list[Comparison]) -> None:
    lines = markdown(evaluation, comparisons, 0.01).splitlines()
    assert lines[0] == "| run  |       RR@10 |         P@1 | NumRet |"
    assert lines[1] == "| ---- | ----------: | ----------: | -----: |"
    assert lines[2] == "| bm25 |      0.4167 |      0.0000 |    120 |"
    assert lines[3] == "| up_1 | **0.7500**▲ | **0.5000**▲ |    120 |"
    assert len({len(line) for line in lines[:5]}) == 1
    assert "Holm-corrected for 4 tests" in lines[-1]


def test_footnotes_say_what_was_done(evaluation: Evaluation, comparisons: list[Comparison]) -> None:
    assert footnotes(evaluation, comparisons, 0.01) == [
        "30 judged queries; the mean over all of them.",
        "NumRet: the total over queries.",
        "down: 2 queries missing from the run, counted as zero.",
        "down: 1 query of the run not judged, left out.",
        "▲ above, ▼ below bm25 at the level 0.01: two-sided paired t-test over 30 queries, "
        "Holm-corrected for 4 tests.",
    ]
    assert len(footnotes(evaluation)) == 4


def test_latex(evaluation: Evaluation, comparisons: list[Comparison]) -> None:
    text = latex(evaluation, comparisons)
    assert r"\begin{tabular}{lrrr}" in text
    assert r"up\_1 & \textbf{0.7500}$^{\uparrow}$ & \textbf{0.5000}$^{\uparrow}$ & 120 \\" in text
    assert r"$^{\downarrow}$" in text
    assert text.count(r"\toprule") == text.count(r"\bottomrule") == 1


def test_json_is_plain(evaluation: Evaluation, comparisons: list[Comparison]) -> None:
    data = json.loads(json.dumps(as_json(evaluation, comparisons)))
    assert data["runs"]["down"]["missing"] == 2
    assert data["runs"]["down"]["not_judged"] == 1
    assert data["runs"]["up_1"]["values"]["RR@10"] == pytest.approx(0.75)
    first = data["comparisons"][0]
    assert (first["run"], first["measure"], first["verdict"]) == ("up_1", "RR@10", "above")
    assert set(first["t_test"]) == {"raw", "holm", "bonferroni"}
    assert first["wins"] == 30


def test_rich_table(evaluation: Evaluation, comparisons: list[Comparison]) -> None:
    out = io.StringIO()
    Console(file=out, width=120).print(rich_table(evaluation, comparisons))
    text = out.getvalue()
    for part in ("0.7500▲", "0.4167", "up_1", "▼"):
        assert part in text


def test_one_run_has_no_best_and_no_marks() -> None:
    run = Run.from_dict({query: ranking(1) for query in QUERIES})
    evaluation = evaluate(QRELS, {"a|b [x]": run}, ["AP"])
    assert "**" not in markdown(evaluation)
    assert r"a\|b [x]" in markdown(evaluation)
    out = io.StringIO()
    Console(file=out, width=120).print(rich_table(evaluation))
    assert "a|b [x]" in out.getvalue()
    assert as_json(evaluation)["comparisons"] == []
