"""The report of a fit: well-formed, escaped, self-contained, and saying what the result says."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.pages.page import Page

from tamis.cli.fit import show_sieve
from tamis.evaluation import Evaluation, compare, evaluate
from tamis.fitting.answer_features import features, relevant_rows
from tamis.fitting.calibration import Bin, Calibration
from tamis.fitting.comparison_family import correct_by_family, family_of
from tamis.fitting.guard import ComparedSystem, Selection, decide, select
from tamis.fitting.learning_curve import CurvePoint
from tamis.fitting.plan import Plan, Step
from tamis.fitting.provisional import provisional
from tamis.fitting.report import RankedQueries, headline, main_means, report_page, write_report
from tamis.fitting.report_guard import reliability_chart
from tamis.fitting.report_provenance import learning_chart
from tamis.fitting.result import FitResult, QueryCounts, SystemResult, Truncation
from tamis.fitting.selection import base_system, bm25_system
from tamis.fitting.system import System, all_systems, default_system
from tamis.fitting.systems import KINDS
from tamis.fitting.workspace import Timing
from tamis.pages.text_format import p_text, p_value
from tamis.pipeline.fuse import scores_in
from tamis.types import Document, Qrels, Queries, Query, Run

EVIL = "<script>alert('1')</script> & \"a\" </title></svg>"
DATE = datetime(2024, 5, 6, 7, 8, tzinfo=UTC)
SMALL = {"samples": 200, "resamples": 200}
DOCS = [f"d{number}" for number in range(12)]
BM25, BASE, HALF, TUNED = "BM25", "base model", "interpolated weights 50%", "fine-tuned"
RERANKERS = {"base_model": 0.5, "interpolated_weights_50": 0.7, "fine_tuned": 0.9}
"""The re-rankers of a pretended fit, and how well each ranks."""
PLAN = Plan(
    (
        Step("bm25", BM25, "index, tune and search by words", 4.0),
        Step("base_model", BASE, "score the candidates with the base model", 30.0, size=100),
        Step("hybrid", "hybrid", "encode all documents", 80.0, False),
        Step("fine_tuned", TUNED, "fine-tune the base model on judgements", 200.0, size=3000),
        Step("cross_encoder", "cross-encoder", "pseudo-labels, then judgements", 500.0, False),
    ),
    3,
    100,
    100,
    0.005,
)
TIMINGS = (
    Timing("bm25", "index", "", "", 1.0),
    Timing("", "plan", "", "", 0.5),
    Timing("bm25", "tune", "bm25", "", 7.0),
    Timing("bm25", "search", "bm25", "train", 0.25),
    Timing("bm25", "search", "bm25", "test", 0.25),
    Timing("base_model", "score", "base_model", "fold 1", 10.0),
    Timing("base_model", "score", "base_model", "test", 12.0),
    Timing("fine_tuned", "train", "fine_tuned", "fold 1", 100.0),
    Timing("fine_tuned", "score", "interpolated_weights_50", "fold 1", 20.0),
    Timing("fine_tuned", "score", "fine_tuned", "fold 1", 30.0),
)


def judged(count: int, seed: int, name: str = "q") -> tuple[Qrels, Queries]:
    rng = np.random.default_rng(seed)
    grades = {f"{name}{n}": {DOCS[int(rng.integers(0, 12))]: 1} for n in range(count)}
    asked = Queries.of([Query(query, f"text of {query}") for query in grades])
    return Qrels.from_dict(grades), asked


def scored(qrels: Qrels, seed: int, skill: float, first: Run | None = None) -> Run:
    """A run that finds what is relevant the better the higher its skill."""
    rng = np.random.default_rng(seed)
    found = {
        query: {doc: float(rng.random() + skill * qrels[query].get(doc, 0)) for doc in DOCS}
        for query in qrels
    }
    run = Run.from_dict(found)
    if first is None:
        return run
    rows = len(run.doc)
    before = {(q, d): s for q in first for d, s in first[q]}
    told = [before[q, d] for q in run for d in run[q].ids]
    return run.with_extra(
        previous_score=told, passage=np.ones(rows, int), truncated_tokens=np.arange(rows) % 2
    )


def fit_in_miniature(
    tests: int = 60,
    train: int = 45,
    skills: dict[str, float] | None = None,
    tested_skills: dict[str, float] | None = None,
    candidates: str = "bm25",
) -> tuple[FitResult, RankedQueries]:
    """Runs of pretended models, selected, tested and calibrated for real."""
    skills = skills or RERANKERS
    to_train, asked_train = judged(train, 1, "learn")
    to_test, asked_test = judged(tests, 2)
    kinds: dict[str, Any] = {kind.key: kind for kind in KINDS}
    retrievers = [kinds["bm25"], *([] if candidates == "bm25" else [kinds[candidates]])]
    systems = all_systems(retrievers, kinds[candidates], [kinds[key] for key in skills])
    held_out = values_of(rankings(systems, skills, to_train, 3, 10, candidates), to_train)
    compared = [ComparedSystem(system.name, system.complexity) for system in systems]
    selection = select(compared, held_out, [BASE, BM25])
    runs = rankings(systems, tested_skills or skills, to_test, 4, 20, candidates)
    values = dict(zip(runs, values_of(runs, to_test), strict=True))
    baselines = [BASE, BM25, default_system(systems).name]
    decision = decide(selection, values, baselines, resamples=200)
    run = runs[decision.selected]
    rows = features(run), relevant_rows(run, to_test), np.repeat(np.arange(len(run)), run.sizes())
    calibration = Calibration.fit(*rows)
    evaluation = evaluate(to_test, runs, ["RR@10", "nDCG@10"])
    base = base_system(systems)
    assert base is not None
    result = FitResult(
        collection="shop help",
        base_model="MiniLM",
        measure="RR@10",
        selected=decision.selected,
        pipeline_in_words="BM25 finds documents; fine-tuned re-ranks the top 50.",
        verified=True,
        reason=f"tested on {tests} queries that were used neither to train nor to select",
        data={"documents": 1200, "left out": {"queries without text": 3}},
        queries=QueryCounts(train + tests, train, tests, 0),
        systems=tuple(
            system_result(system, float(held_out[n].mean()), evaluation, selection, decision)
            for n, system in enumerate(systems)
        ),
        baseline=bm25_system(systems).name,
        base_system=base.name,
        default_system=default_system(systems).name,
        candidates=candidates,
        retriever_notes={BM25: "tuned on judged queries: k1 = 0.9, b = 0.4"},
        required=(BASE, BM25),
        trained_on_folds=True,
        plan=PLAN,
        selection=selection,
        decision=decision,
        family=decision.test,
        calibration=calibration,
        threshold_test=calibration.answers(*rows),
        learning_curve=(),
        labels={"gold": {"positive": 45, "negative": 90}},
        truncation=Truncation(720, 360, 1234),
        timings=TIMINGS,
        versions={"tamis": "1.2", "torch": "2.0"},
        seed=7,
        command="tamis fit shop -o 'my shop.sieve'",
        path="my shop.sieve",
        user_run=None,
        evaluation=evaluation,
    )
    queries = Queries.of([*asked_train, *asked_test])
    return result, RankedQueries(queries, to_test, runs, "words:5")


def rankings(
    systems: list[System], skills: dict[str, float], qrels: Qrels, first: int, seed: int,
    candidates: str,
) -> dict[str, Run]:  # fmt: skip
    """What every system makes of some queries."""
    retrieved = {"bm25": scored(qrels, first + 1, 0.1), candidates: scored(qrels, first, 0.2)}
    before = retrieved[candidates]
    models = {key: scored(qrels, seed, skill, before) for key, skill in skills.items()}
    if candidates == "hybrid":
        models = {
            key: run.with_extra(lexical_score=scores_in(retrieved["bm25"], run))
            for key, run in models.items()
        }
    return {
        system.name: system.rank(
            before if system.reranker else retrieved[system.retriever.key],
            models[system.reranker.key] if system.reranker else None,
        )
        for system in systems
    }


def values_of(runs: dict[str, Run], qrels: Qrels) -> np.ndarray[Any, np.dtype[np.float64]]:
    evaluation = evaluate(qrels, runs, ["RR@10"])
    return np.array([evaluation.values(name, "RR@10") for name in runs])


def system_result(
    system: System, held_out: float, evaluation: Evaluation, selection: Selection, decision: Any
) -> SystemResult:
    reranker = system.reranker
    key = reranker.key if reranker and system.reorders else None
    cost = {None: 1.5, "base_model": 12.5, "fine_tuned": 12.5}.get(key)
    tested = None if key == "interpolated_weights_50" else evaluation.mean(system.name, "RR@10")
    return SystemResult(
        name=system.name,
        retriever=system.retriever.key,
        reranker=reranker.key if reranker else None,
        weight=system.weight,
        complexity=system.complexity,
        group=reranker.name if reranker and key else "",
        description=reranker.description if reranker and key else "",
        held_out=round(held_out, 4),
        test=None if tested is None else round(tested, 4),
        selected=system.name == decision.selected,
        rejected_because=selection.rejections.get(system.name, ""),
        milliseconds=cost,
        training_minutes=0.0 if key in (None, "base_model") else 3.5,
    )


def untested(result: FitResult, *, selected_on: bool = False) -> FitResult:
    """The same without test queries, perhaps with nothing to select on either."""
    systems = tuple(
        replace(one, test=None, milliseconds=None, held_out=one.held_out if selected_on else None)
        for one in result.systems
    )
    result = replace(
        result, systems=systems, evaluation=None, decision=None, family=None, verified=False,
        threshold_test=None, truncation=None,
        reason="there are no judgements: nothing was tested",
        queries=replace(result.queries, test=0),
    )  # fmt: skip
    if selected_on:
        return result
    return replace(
        result, selection=None, calibration=None, queries=replace(result.queries, train=0)
    )


def fetch(name: str) -> Document:
    return Document(name, f"{name} one two three four. Five six {name} won by this passage.")


@pytest.fixture(scope="module")
def fitted() -> tuple[FitResult, RankedQueries]:
    return fit_in_miniature()


@pytest.fixture(scope="module")
def result(fitted: tuple[FitResult, RankedQueries]) -> FitResult:
    return fitted[0]


@pytest.fixture(scope="module")
def tested(fitted: tuple[FitResult, RankedQueries]) -> RankedQueries:
    return fitted[1]


@pytest.fixture(scope="module")
def page(result: FitResult, tested: RankedQueries) -> Page:
    return Page(report_page(result, tested, fetch, date=DATE))


def test_the_head_says_what_was_done(page: Page, result: FitResult) -> None:
    for words in (
        "verified: yes", result.reason, "shop help, 1,200 documents, 105 queries", "MiniLM",
        "tamis fit shop -o 'my shop.sieve'", "6 May 2024, 07:08 UTC", "tamis 1.2, torch 2.0",
        result.pipeline_in_words,
    ):  # fmt: skip
        assert words in page.words, words
    against = next(
        one
        for one in result.against_baseline
        if one.run == result.selected and str(one.measure) == "RR@10"
    )
    assert f"On 60 test queries, by RR@10, {result.selected} beats BM25 " in page.words
    assert f"(+{against.difference:.4f}" in page.words
    assert result.decision is not None
    comparisons = result.decision.test.comparisons
    low = comparisons[1].interval
    assert low is not None and f"95% interval +{low.low:.4f} to +{low.high:.4f}" in page.words
    assert [one.baseline for one in comparisons] == [BASE, BM25, "base model + BM25 (.75)"]
    lead = page.words[page.words.index("On 60 test queries") :].split(" tests,")[0]
    assert lead.endswith("p is corrected by Holm for 3")
    assert "for 3 tests, the intervals are not. " in page.words
    assert "All measures system RR@10" in page.words
    for one in comparisons:  # as the guard says further down
        assert one.p_value is not None and f", {p_text(one.p_value)})" in lead


def test_the_table_says_what_systems_and_comparisons_say(page: Page, result: FitResult) -> None:
    groups = [row[0] for row in page.rows if len(row) == 1]
    assert groups[0].startswith("retrieval alone")
    assert groups[1].startswith(BASE) and groups[1].endswith("12.5 ms per query, no training")
    assert groups[3].startswith(TUNED) and "3.5 min of training" in groups[3]
    rows = [row for row in page.rows if len(row) == 11]
    labels = ["alone", "fused, weight .25", "fused, weight .50", "fused, weight .75"]
    names = [row[0].removesuffix("selected") for row in rows]
    assert names == ["BM251.5 ms per query", *3 * labels]
    assert sum("selected" in row[0] for row in rows) == 1
    for shown, system in zip(rows, result.systems, strict=True):
        assert shown[1] == f"{system.held_out:.4f}"
        assert shown[2] == ("–" if system.test is None else f"{system.test:.4f}")
        assert shown[10] == system.rejected_because
        for start, compared in ((3, result.against_baseline), (7, result.against_base)):
            one = next(
                (o for o in compared if o.run == system.name and str(o.measure) == "RR@10"), None
            )
            if one is None:
                assert shown[start] == "–"
                continue
            assert float(shown[start].replace("−", "-")) == pytest.approx(one.difference, abs=5e-5)
            assert (one.t_test.holm is not None) == (system.name == result.selected)
            assert shown[6 if start == 3 else 9] == p_value(one.t_test.holm)


def test_a_comparison_has_one_p_value_wherever_it_is_shown(
    capsys: pytest.CaptureFixture[str],
) -> None:
    skills = {"base_model": 0.5, "interpolated_weights_50": 0.6, "fine_tuned": 0.7}
    result, tested = fit_in_miniature(skills=skills)
    page = Page(report_page(result, tested, date=DATE))
    family = result.family
    assert family is not None and (family.system, len(family.comparisons)) == (result.selected, 3)
    p_values = {one.baseline: one.p_value or 0.0 for one in family.comparisons}
    assert list(p_values) == [BASE, BM25, "base model + BM25 (.75)"]
    assert any(0.0001 < p < 1 for p in p_values.values())
    raw = {one.baseline: one.t_test.raw for one in (*result.against_baseline, *result.against_base)
           if one.run == result.selected and str(one.measure) == "RR@10"}  # fmt: skip
    assert any(p_values[other] != raw[other] for other in raw)  # what is corrected is seen
    pipeline = SimpleNamespace(is_tested_retriever=True, stage=None)
    sieve: Any = SimpleNamespace(result=result, queries=None, path=Path("s"), pipeline=pipeline)
    show_sieve(sieve, verbose=True)
    terminal = " ".join(capsys.readouterr().out.split())
    lead = page.words[page.words.index("On 60 test queries") :].split(" tests.")[0]
    section = page.words[page.words.index("Tested on 60 queries") :].split(" It is kept")[0]
    row = next(row for row in page.rows if len(row) == 11 and "selected" in row[0])
    for other, p in p_values.items():
        text = p_text(p)
        shown = "the base model" if other == BASE else other
        assert text in lead[lead.index(f"{shown} (+") :].split(")")[0] or shown == other
        assert text in section[section.index(f"against {other} ") :].split(";")[0]
        line = terminal[terminal.index(f"against {other} ") :]
        assert f"p = {p_value(p)} (t-test, Holm for 3 tests)" in line
    assert row[6] == p_value(p_values[BM25])
    assert row[9] == p_value(p_values[BASE])
    others = [row for row in page.rows if len(row) == 11 and "selected" not in row[0]]
    assert all((row[6], row[9]) == ("–", "–") for row in others)
    assert "3 tests were made" in page.words


def test_the_end_of_a_fit_takes_twelve_lines_of_a_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    skills = {"base_model": 0.5, "interpolated_weights_50": 0.6, "fine_tuned": 0.7}
    tested, _ = fit_in_miniature(skills=skills)
    pipeline = SimpleNamespace(is_tested_retriever=True, stage=None)
    for result in (tested, untested(tested)):
        sieve: Any = SimpleNamespace(result=result, queries=None, path=Path("s"), pipeline=pipeline)
        show_sieve(sieve)
        output = capsys.readouterr()
        lines = (output.out + output.err).splitlines()
        assert sum(math.ceil(len(line) / 80) for line in lines) <= 12
        assert "report: s/report.html (all systems; also with --verbose)" in lines
    verified: Any = SimpleNamespace(result=tested, queries=None, path=Path("s"), pipeline=pipeline)
    show_sieve(verified)
    brief = capsys.readouterr().out
    against = [line for line in brief.splitlines() if line.startswith("against ")]
    assert len(against) == 2
    assert all(len(line) <= 80 and line.endswith("(Holm)") for line in against)


FAILING = {"base_model": 0.2, "interpolated_weights_50": 0.5, "fine_tuned": 3.0}
WORSE = {"base_model": 0.9, "interpolated_weights_50": 0.5, "fine_tuned": 0.0}


def test_a_fall_back_is_told_and_compared_outside_the_family() -> None:
    result, tested = fit_in_miniature(skills=FAILING, tested_skills=WORSE)
    page = Page(report_page(result, tested, date=DATE))
    assert result.family is not None and result.decision is not None and result.decision.fell_back
    assert result.family.system == result.decision.selection.selected != result.selected
    assert "neither p nor intervals are corrected, as these are not the guard’s tests" in page.words
    failed = next(row for row in page.rows if len(row) == 11 and "failed its test" in row[0])
    p_values = {one.baseline: one.p_value for one in result.family.comparisons}
    assert failed[6] == p_value(p_values[BM25])
    selected = next(row for row in page.rows if len(row) == 11 and "selected" in row[0])
    assert selected[5] != "–" and selected[6] == "–"
    assert f"Selected instead: {result.decision}" in page.words
    assert f"It stands in for {result.decision.selection.selected}, which failed" in page.words


def test_without_a_guard_the_selected_system_is_the_family(result: FitResult) -> None:
    assert result.evaluation is not None
    family = family_of(None, result.evaluation, TUNED, [BM25, BASE], "RR@10", 0)
    assert family is not None and [one.baseline for one in family.comparisons] == [BM25, BASE]
    assert family_of(None, None, TUNED, [BM25, BASE], "RR@10", 0) is None
    compared = compare(result.evaluation, BASE, **SMALL)
    corrected = correct_by_family(compared, family, "RR@10")
    (one,) = (one for one in corrected if one.t_test.holm is not None)
    assert (one.run, one.baseline, one.tests) == (TUNED, BASE, 2)


def test_a_measure_by_its_other_name(page: Page, result: FitResult, tested: RankedQueries) -> None:
    other = Page(report_page(replace(result, measure="MRR@10"), tested, fetch, date=DATE))
    rows = [row[3:10] for row in page.rows if len(row) == 11]
    assert [row[3:10] for row in other.rows if len(row) == 11] == rows
    assert f"by MRR@10, {result.selected} beats BM25 (+" in other.words


def test_bm25_has_a_row_beside_a_hybrid() -> None:
    result, tested = fit_in_miniature(candidates="hybrid")
    page = Page(report_page(result, tested, date=DATE))
    shown = page.row("BM25", 11)
    assert result.evaluation is not None
    assert shown[2:4] == [f"{result.evaluation.mean(BM25, 'RR@10'):.4f}", "–"]
    assert page.row("hybrid", 11)[3] != "–"


def test_the_guard_says_what_it_did(page: Page, result: FitResult) -> None:
    selection = result.selection
    assert selection is not None and selection.selected in page.words
    assert "compared 13 systems" in page.words and "each of 3 folds" in page.words
    assert "It is kept: it is significantly below none of them." in page.words
    assert "favour it" not in page.words


def test_a_default_is_tested_too() -> None:
    result, tested = fit_in_miniature(skills={"base_model": 0.0}, tested_skills={"base_model": 0.0})
    assert result.evaluation is not None
    default = result.default_system
    values = {name: result.evaluation.values(name, "RR@10") for name in (BM25, BASE, default)}
    values[default] = values[BM25] - 0.5
    decision = decide(Selection(default, default, 0), values, [BASE, BM25], resamples=200)
    assert decision.selected == BM25
    systems = [replace(one, held_out=None, selected=one.name == BM25) for one in result.systems]
    result = replace(
        result, selected=BM25, systems=tuple(systems), selection=None, decision=decision,
        calibration=None, threshold_test=None,
    )  # fmt: skip
    page = Page(report_page(result, tested, date=DATE))
    assert f"the default was taken: {default}" in page.words
    assert f"Selected instead: BM25: {default} is significantly below" in page.words


def test_the_threshold_and_its_chart(page: Page, result: FitResult, tested: RankedQueries) -> None:
    answers, calibration = result.threshold_test, result.calibration
    assert answers is not None and calibration is not None
    for threshold, words in ((0.4321, "below 0.432, the sieve"), (0.0, "No threshold helped")):
        other = replace(result, calibration=replace(calibration, threshold=threshold))
        assert words in Page(report_page(other, tested, date=DATE)).words
    precision = next(row for row in page.rows if row[0].startswith("precision"))
    assert precision[1:] == [
        f"{answers.right / answers.answered:.3f}",
        f"{answers.right} of {answers.answered}",
    ]
    without = replace(result, calibration=None, threshold_test=None)
    assert "no good answer" not in Page(report_page(without, tested, date=DATE)).words
    other = replace(result, threshold_test=None)
    assert "no queries to test it on" in Page(report_page(other, tested, date=DATE)).words
    other = replace(result, threshold_test=replace(answers, answered=0, right=0))
    page = Page(report_page(other, tested, date=DATE))
    assert next(row for row in page.rows if row[0].startswith("precision"))[1:] == ["–", "0 of 0"]


def test_reliability_is_drawn_where_it_belongs() -> None:
    drawn = reliability_chart([Bin(0.0, 1.0, 1), Bin(0.5, 0.25, 4), Bin(1.0, 0.0, 11)])
    circles = re.findall(r'<circle class="better" cx="(\S+)" cy="(\S+)" r="(\S+)">', drawn)
    assert [(x, y) for x, y, _ in circles] == [("58", "30"), ("222", "276"), ("386", "358")]
    areas = [(float(r) - 3.0) ** 2 for _, _, r in circles]
    assert areas[1] / areas[0] == pytest.approx(4, rel=0.1)
    assert reliability_chart([Bin(0.3, 0.2, 1)]).count("<circle") == 1


def curve(*points: tuple[int, float]) -> tuple[CurvePoint, ...]:
    return tuple(CurvePoint(*point) for point in points)


def test_the_learning_curve_is_there_only_if_it_was_drawn(
    page: Page, result: FitResult, tested: RankedQueries
) -> None:
    def words(*points: tuple[int, float]) -> str:
        other = replace(result, learning_curve=curve(*points))
        return Page(report_page(other, tested, date=DATE)).words

    assert "What labels are worth" not in page.words
    rising = words((8, 0.4), (32, 0.5), (128, 0.54))
    assert "From 32 to 128 judged queries RR@10 changed by +0.0400" in rising
    assert "256, would bring about +0.0200 more" in rising  # .04 in two doublings
    assert "would most likely bring little" in words((8, 0.4), (32, 0.39))
    assert "What labels are worth" in words((0, 0.4)) and words((0, 0.4), (8, 0.4))
    drawn = learning_chart(curve((2, 0.1), (4, 0.2), (8, 0.3)), "RR")
    assert re.findall(r"translate\((\S+) ", drawn) == ["72", "222", "372"]


def test_winning_passages_are_shown(page: Page, result: FitResult, tested: RankedQueries) -> None:
    name, evaluation = result.selected, result.evaluation
    assert evaluation is not None
    change = evaluation.values(name, "RR@10") - evaluation.values(BM25, "RR@10")
    query = evaluation.queries[int(np.argmax(change))]
    row = page.row(f"{query} text of", 6)
    old, new = tested.runs[BM25][query].ids[0], tested.runs[name][query].ids[0]
    assert f"{old} one two three four." in row[4]  # BM25 has no passages: the beginning
    assert row[5][1:].startswith(f"{new} Five six {new} won by this passage.")
    assert "one two" not in row[5]

    def lost(name: str) -> Document:
        raise KeyError(name)

    assert "won by" not in report_page(result, tested, lost, date=DATE)


def test_time_goes_to_the_steps_of_the_plan(page: Page) -> None:
    taken = {row[0]: row[2:] for row in page.rows if len(row) == 4}
    assert taken[BM25] == ["4 s", "8 s"]  # 1 + 7 + .25 + .25, rounded to the even one
    assert taken[BASE] == ["30 s", "22 s"]
    assert taken["hybrid"] == ["does not fit", "–"]
    assert taken[TUNED] == ["3 min 20 s", "2 min 30 s"]
    assert taken["other"] == ["–", "0 s"]
    assert taken["together"] == ["3 min 54 s", "3 min 1 s"]


def test_labels_truncation_and_retrieval(
    page: Page, result: FitResult, tested: RankedQueries
) -> None:
    assert ["gold", "45", "90"] in page.rows
    assert "360 were longer than the model reads; 1,234 tokens" in page.words
    assert "tuned on judged queries: k1 = 0.9, b = 0.4" in page.words
    other = replace(result, labels={}, truncation=None)
    words = Page(report_page(other, tested, date=DATE)).words
    assert "was not trained here" in words and "No document was truncated" in words


def test_nothing_tested_nothing_claimed(result: FitResult, tested: RankedQueries) -> None:
    page = Page(report_page(untested(result), tested, date=DATE))
    assert "verified: no" in page.words
    assert "What 50 judged queries would buy." in page.words
    assert "the default was taken" in page.words
    assert "Every system" not in page.words and "Summary" not in page.words
    assert not any(re.search(r"0\.\d{4}", cell) for row in page.rows for cell in row)


def test_selected_on_judgements_but_not_tested(result: FitResult, tested: RankedQueries) -> None:
    page = Page(report_page(untested(result, selected_on=True), tested, date=DATE))
    assert "Every system, not tested" in page.words
    assert "verified: no" in page.words
    assert "There were no queries to test the selection on." in page.words
    assert len(page.row("BM25", 3)) == 3


def test_bm25_alone(result: FitResult, tested: RankedQueries) -> None:
    evaluation = evaluate(tested.qrels, {BM25: tested.runs[BM25]}, ["RR@10"])
    alone = replace(
        result, selected=BM25, systems=(replace(result.systems[0], selected=True),),
        evaluation=evaluation, family=None, decision=None, selection=None, base_system=None,
        pipeline_in_words="BM25 finds documents; no model re-ranks them.",
    )  # fmt: skip
    page = Page(report_page(alone, tested, fetch, date=DATE))
    assert "BM25 is BM25 itself" in page.words
    assert "no model re-ranks them" in page.words


def test_names_and_texts_are_escaped(result: FitResult, tested: RankedQueries) -> None:
    assert tested.queries.texts is not None
    texts = Queries(tested.queries.ids, tuple(EVIL for _ in tested.queries.texts))
    evil = replace(
        result, collection=EVIL, base_model=EVIL, reason=EVIL, command=EVIL,
        data={EVIL: EVIL, "more": {EVIL: 1}}, labels={EVIL: {EVIL: 1}}, versions={EVIL: EVIL},
        timings=(Timing(EVIL, EVIL, EVIL, EVIL, 1.0),), retriever_notes={EVIL: EVIL},
        pipeline_in_words=EVIL,
        systems=tuple(
            replace(one, rejected_because=EVIL, description=EVIL) for one in result.systems
        ),
        plan=replace(PLAN, steps=(Step(EVIL, EVIL, EVIL, 1.0),)),
    )  # fmt: skip
    for some in (evil, untested(evil), untested(evil, selected_on=True)):
        other = replace(tested, queries=texts)
        text = report_page(some, other, lambda name: Document(name, EVIL, EVIL), date=DATE)
        assert "<script>alert" not in text and "alert('1')" not in text
        assert sum(tag == "script" for tag, _ in Page(text).tags) == 1


def test_nothing_is_loaded_from_elsewhere_and_headings_descend(
    result: FitResult, tested: RankedQueries, tmp_path: Path
) -> None:
    for number, some in enumerate((result, untested(result), untested(result, selected_on=True))):
        path = tmp_path / f"{number}.html"
        write_report(path, some, tested, fetch)
        text = path.read_text("utf-8")
        assert not re.search(r"https?:|url\(|@import|javascript:", text)
        page = Page(text)
        for tag, attributes in page.tags:
            assert tag not in ("link", "img", "iframe", "object", "embed", "base")
            assert not {"src", "style"} & attributes.keys()
            assert str(attributes.get("href", "#")).startswith("#")
            if tag == "th":
                assert attributes["scope"] in ("col", "row", "colgroup", "rowgroup")
        levels = page.headings()
        assert levels[0] == 1 and levels.count(1) == 1
        assert all(after <= before + 1 for before, after in pairwise(levels))


def test_a_text_that_is_no_unicode_does_not_stop_the_fit(
    result: FitResult, tested: RankedQueries, tmp_path: Path
) -> None:
    path = tmp_path / "page.html"
    write_report(path, result, tested, lambda name: Document(name, "half \ud800 a pair"))
    assert "half ? a pair" in path.read_text("utf-8")


def test_the_headline_says_what_was_found() -> None:
    skills = {"base_model": 0.5, "interpolated_weights_50": 0.6, "fine_tuned": 0.7}
    result, tested = fit_in_miniature(skills=skills)
    evaluation = result.evaluation
    assert evaluation is not None
    means = [evaluation.mean(name, result.measure) for name in (result.selected, BM25)]
    percent = f"{means[0] / means[1] - 1:.0%}"
    page = Page(report_page(result, tested, date=DATE))
    assert page.words.startswith(f"shop help: {percent} better than BM25 on 60 test queries")
    assert "sieve = tamis.load_sieve('my shop.sieve')" in page.words
    nothing = Page(report_page(untested(result), tested, date=DATE))
    assert nothing.words.startswith("shop help: Not tested yet")


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([0.5, 0.5, 0.0], "Same mean as BM25, provisional"),
        ([1.0, 0.5, 0.5], "+0.3333 against BM25, provisional"),
    ],
)
def test_the_headline_of_few_judgements(values: list[float], words: str) -> None:
    skills = {"base_model": 0.5, "interpolated_weights_50": 0.6, "fine_tuned": 0.7}
    result = untested(fit_in_miniature(skills=skills)[0])
    few = provisional("hybrid", values, BM25, [0.5, 0.5, 0.0], "RR@10", "test")
    assert headline(replace(result, selected="hybrid", provisional=few)) == words


@pytest.mark.parametrize("ties", [False, True])
def test_a_provisional_report_shows_what_there_is(ties: bool) -> None:
    skills = {"base_model": 0.5, "interpolated_weights_50": 0.6, "fine_tuned": 0.7}
    fitted, tested = fit_in_miniature(skills=skills)
    systems = tuple(
        replace(system, held_out=0.25 if ties else 0.25 + number / 100)
        for number, system in enumerate(fitted.systems)
    )
    values = [0.5, 0.5, 0.0, 0.0, 0.5, 0.0]
    own = values if ties else [1.0, 0.5, 0.5, 0.0, 0.5, 0.5]
    few = provisional(fitted.selected, own, BM25, values, "RR@10", "cross_validated")
    result = replace(untested(fitted), systems=systems, provisional=few)
    html = report_page(result, tested, date=DATE)
    page = Page(html)
    assert "Provisional: means on the queries that systems were selected on" in page.words
    assert "over 6 judged queries" in html
    rows = {row.name: row for row in main_means(result)}
    assert {fitted.selected, BM25, BASE} <= rows.keys()
    if ties:
        assert rows[fitted.selected].mean == rows[BM25].mean == 0.25
        assert rows[fitted.selected].low is None
        assert "is the same with both on 6 queries" in page.words
    else:
        assert few.interval is not None
        assert rows[fitted.selected].low == few.baseline_mean + few.interval.low
        assert "With 6 queries a true difference of" in page.words
