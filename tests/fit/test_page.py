"""The report of a fit: well-formed, escaped, self-contained, and saying what the outcome says."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime
from html import unescape
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tamis.cli.fit import show_sieve
from tamis.evaluation import compare, evaluate
from tamis.evaluation.report_tables import p_text, p_value
from tamis.fit.calibrate import Bin, Calibration
from tamis.fit.choosing import Chosen
from tamis.fit.family import correct_by_family, family_of
from tamis.fit.finding import Found
from tamis.fit.guard import Choice, Option, choose, settled
from tamis.fit.look import Parts
from tamis.fit.options import BM25, HALFWAY, START, Way, features, ranked, relevant, usual, ways
from tamis.fit.outcome import Outcome, Row
from tamis.fit.page import fit_page, write_page
from tamis.fit.page_charts import learning_chart, reliability_chart
from tamis.fit.plan import TUNED, Plan, Step
from tamis.fit.sieve import HYBRID, Pipeline
from tamis.types import Document, Qrels, Queries, Query, Run

EVIL = "<script>alert('1')</script> & \"a\" </title></svg>"
DATE = datetime(2024, 5, 6, 7, 8, tzinfo=UTC)
VOID = {"meta", "br"}
SMALL = {"samples": 200, "resamples": 200}
DOCS = [f"d{number}" for number in range(12)]
PLAN = Plan(
    (
        Step("first", "index, tune and search by words", 4.0),
        Step("start", "score the candidates with the base", 30.0, size=100),
        Step("vectors", "encode all documents, if that finds more", 80.0, False),
        Step(TUNED, "the base, trained on judgements", 200.0, size=3000),
        Step("cross-encoder", "labels of the first stage, then judgements", 500.0, False),
    ),
    3,
    100,
    100,
    0.005,
)
SECONDS = {
    "index": 1.0,
    "plan": 0.5,
    "tuning": 7.0,
    "BM25-learn": 0.25,
    "BM25-test": 0.25,
    "start fold 1": 10.0,
    "start test": 12.0,
    "train tuned fold 1": 100.0,
    "half tuned fold 1": 20.0,
    "tuned fold 1": 30.0,
}


class Page(HTMLParser):
    """Reads a page strictly: every tag is closed where it should be; keeps tags, text, rows."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words = ""
        self.rows: list[list[str]] = []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open[-1] == tag, f"</{tag}> while {self.open[-3:]} is open"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        if "style" not in self.open and "script" not in self.open and "svg" not in self.open:
            self.words += data
            if "td" in self.open or "th" in self.open:
                self.rows[-1][-1] += data

    def row(self, beginning: str, cells: int) -> list[str]:
        return next(r for r in self.rows if len(r) == cells and r[0].startswith(beginning))

    def headings(self) -> list[str]:
        return [tag for tag, _ in self.tags if re.fullmatch("h[1-6]", tag)]


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
    return run.with_extra(first=told, passage=np.ones(rows, int), cut=np.arange(rows) % 2)


def outcome_of(
    tests: int = 60,
    learn: int = 45,
    skills: dict[str, float] | None = None,
    tested_skills: dict[str, float] | None = None,
    first: str = BM25,
) -> Outcome:
    """A fit in miniature: runs of pretended models, chosen, settled and calibrated for real."""
    skills = skills or {START: 0.5, HALFWAY: 0.7, TUNED: 0.9}
    to_learn, asked_learn = judged(learn, 1, "learn")
    to_test, asked_test = judged(tests, 2)
    queries = Queries.of([*asked_learn, *asked_test])
    parts = Parts(
        to_learn, to_test, queries, asked_learn, queries.ids, True, {"queries without text": 3},
        (Queries.of([]), Queries.of([])),
    )  # fmt: skip
    firsts = scored(to_learn, 3, 0.2), scored(to_test, 4, 0.2)
    words = firsts if first == BM25 else (scored(to_learn, 5, 0.1), scored(to_test, 6, 0.1))
    facts: dict[str, Any] = {
        "bm25": {"tuned": True, "parameters": {"k1": 0.9, "b": 0.4}, "gain on held-out folds": 0.01}
    }
    others = {} if first == BM25 else {BM25: words}
    nothing = Run.from_dict({})
    found = Found(first, *firsts, others, facts, {first: (nothing, nothing)})
    every = ways(first, list(skills), list(others))
    held = values_of(every, firsts[0], words[0], skills, to_learn, 10)
    options = [Option(way.name, way.simplicity) for way in every]
    choice = choose(options, held, start=START, baseline=BM25)
    runs = runs_of(every, firsts[1], words[1], tested_skills or skills, to_test, 20)
    means = {n: evaluate(to_test, {n: r}, ["RR@10"]).values(n, "RR@10") for n, r in runs.items()}
    also = [usual(every).name]
    decided = settled(choice, means, also=also, resamples=200)
    way = next(each for each in every if each.name == decided.name)
    run = runs[way.name]
    number = np.repeat(np.arange(len(run)), run.sizes())
    table = features(run), relevant(run, to_test), number
    calibration = Calibration.fit(*table)
    chosen = Chosen(
        way, Path("model") if way.model else None, tuple(every), runs, choice, held, decided,
        calibration, calibration.answers(*table).record(),
    )  # fmt: skip
    evaluation = evaluate(to_test, runs, ["RR@10", "nDCG@10"])
    return Outcome(
        "shop help", "MiniLM", "RR@10", {"documents": 1200, **parts.facts()}, parts, PLAN, found,
        chosen, Pipeline("bm25", 50, way.model is not None, way.weight, "words:5"),
        tuple(row_of(each, n, held, evaluation, chosen) for n, each in enumerate(every)),
        evaluation, correct_by_family(compare(evaluation, BM25, **SMALL), decided.verdict, "RR@10"),
        correct_by_family(compare(evaluation, START, **SMALL), decided.verdict, "RR@10"),
        True, f"tested on {tests} queries that nothing was learnt or chosen on",
        {"gold": {"positive": 45, "negative": 90}}, {"documents scored": 720, "documents cut": 360,
        "tokens cut": 1234}, SECONDS, {"tamis": "1.2", "torch": "2.0"}, 7,
        "tamis fit shop -o 'my shop.sieve'", "my shop.sieve", None, decided.verdict,
    )  # fmt: skip


def runs_of(
    every: list[Way], first: Run, words: Run, skills: dict[str, float], qrels: Qrels, seed: int
) -> dict[str, Run]:
    models = {name: scored(qrels, seed, skill, first) for name, skill in skills.items()}
    return {way.name: ranked(way, first, {BM25: words, **models}) for way in every}


def values_of(
    every: list[Way], first: Run, words: Run, skills: dict[str, float], qrels: Qrels, seed: int
) -> np.ndarray[Any, np.dtype[np.float64]]:
    runs = runs_of(every, first, words, skills, qrels, seed)
    found = evaluate(qrels, runs, ["RR@10"])
    return np.array([found.values(way.name, "RR@10") for way in every])


def row_of(way: Way, number: int, held: Any, evaluation: Any, chosen: Chosen) -> Row:
    assert chosen.choice is not None
    tested = None if way.model == HALFWAY else round(evaluation.mean(way.name, "RR@10"), 4)
    why = chosen.choice.refused.get(way.name, "")
    cost = {None: 1.5, BM25: 1.0, START: 12.5, TUNED: 12.5}.get(way.model)
    minutes = 0.0 if way.model in (None, BM25, START) else 3.5
    mean = round(float(held[number].mean()), 4)
    return Row(way.name, mean, tested, way == chosen.way, why, cost, minutes)


def untested(outcome: Outcome, *, chosen_on: bool = False) -> Outcome:
    """The same without test queries, perhaps with nothing to choose on either."""
    empty, _ = judged(0, 0)
    parts = replace(outcome.parts, test=empty)
    chosen = replace(outcome.chosen, settled=None, answers=None)
    if not chosen_on:
        parts = replace(parts, learn=empty)
        chosen = replace(chosen, choice=None, held_out=None, calibration=None)
    rows = [
        replace(row, tested=None, milliseconds=None, held_out=row.held_out if chosen_on else None)
        for row in outcome.rows
    ]
    return replace(
        outcome, parts=parts, chosen=chosen, rows=tuple(rows), evaluation=None, against_bm25=(),
        against_start=(), verified=False, why="there are no judgements: nothing was tested",
        cut={},
    )  # fmt: skip


def drawn(outcome: Outcome, curve: list[tuple[int, float]]) -> Outcome:
    """The same with a learning curve."""
    return replace(outcome, chosen=replace(outcome.chosen, curve=tuple(curve)))


def fetch(name: str) -> Document:
    return Document(name, f"{name} one two three four. Five six {name} won by this passage.")


@pytest.fixture(scope="module")
def outcome() -> Outcome:
    return outcome_of()


@pytest.fixture(scope="module")
def page(outcome: Outcome) -> Page:
    return Page(fit_page(outcome, fetch, date=DATE))


def test_the_head_says_what_was_done(page: Page, outcome: Outcome) -> None:
    for words in (
        "verified: yes", outcome.why, "shop help, 1,200 documents, 105 queries", "MiniLM",
        "tamis fit shop -o 'my shop.sieve'", "6 May 2024, 07:08 UTC", "tamis 1.2, torch 2.0",
    ):  # fmt: skip
        assert words in page.words, words
    name = outcome.chosen.way.name
    against = {
        one.baseline: one
        for one in (*outcome.against_bm25, *outcome.against_start)
        if one.run == name and str(one.measure) == "RR@10"
    }
    assert f"On 60 test queries, by RR@10, {name} beats BM25 (+{against[BM25].difference:.4f}" in (
        page.words
    )
    low = against[BM25].interval
    assert low is not None and f"95% interval +{low.low:.4f} to +{low.high:.4f}" in page.words
    assert outcome.chosen.settled is not None
    tested = outcome.chosen.settled.verdict.against
    assert [one.name for one in tested] == [START, BM25, "start .75 + BM25"]
    lead = page.words[page.words.index("On 60 test queries") :].split(" tests.")[0]
    assert lead.endswith("p is corrected by Holm for 3") and "start .75 + BM25 (" in lead
    for one in tested:  # as the guard tells it further down
        assert one.p is not None and f", {unescape(p_text(one.p))})" in lead


def test_the_table_says_what_rows_and_comparisons_say(page: Page, outcome: Outcome) -> None:
    groups = [row[0] for row in page.rows if len(row) == 1]
    assert groups[:4] == [
        "without a model ",
        "start the base as it is; 12.5 ms a query, no training",
        "half tuned 50% of the way from start to tuned, in the space of weights; "
        "3.5 min of training",
        "tuned the base, trained on judgements; 12.5 ms a query, 3.5 min of training",
    ]
    rows = [row for row in page.rows if len(row) == 11]
    labels = ["alone", ".25 + BM25", ".50 + BM25", ".75 + BM25"]
    tags = ("handed over", "failed its test")
    names = [row[0].removesuffix(tags[0]).removesuffix(tags[1]) for row in rows]
    assert names == ["BM251.5 ms a query", *3 * labels]
    assert sum("handed over" in row[0] for row in rows) == 1
    for shown, row in zip(rows, outcome.rows, strict=True):
        assert shown[1] == f"{row.held_out:.4f}"
        assert shown[2] == ("–" if row.tested is None else f"{row.tested:.4f}")
        assert shown[10] == row.refused
        for start, compared in ((3, outcome.against_bm25), (7, outcome.against_start)):
            one = next(
                (o for o in compared if o.run == row.name and str(o.measure) == "RR@10"), None
            )
            if one is None:
                assert shown[start] == "–"
                continue
            assert float(shown[start].replace("−", "-")) == pytest.approx(one.difference, abs=5e-5)
            holm = shown[6 if start == 3 else 9]
            assert (one.t_test.holm is not None) == (row.name == outcome.chosen.way.name)
            assert holm == unescape(p_value(one.t_test.holm))


def test_a_comparison_has_one_p_value_wherever_it_is_shown(
    capsys: pytest.CaptureFixture[str],
) -> None:
    outcome = outcome_of(skills={START: 0.5, HALFWAY: 0.6, TUNED: 0.7})
    page = Page(fit_page(outcome, date=DATE))
    note = outcome.record()
    family = note["guard"]["verdict"]
    name = outcome.chosen.way.name
    assert (family["system"], family["tests"]) == (name, 3) and note["chosen"] == name
    p_values = {one["name"]: one["p"] for one in family["against"]}
    assert list(p_values) == [START, BM25, "start .75 + BM25"]
    assert any(0.0001 < p < 1 for p in p_values.values())
    raw = {one.baseline: one.t_test.raw for one in (*outcome.against_bm25, *outcome.against_start)
           if one.run == name and str(one.measure) == "RR@10"}  # fmt: skip
    assert any(p_values[other] != raw[other] for other in raw)  # what is corrected is seen
    sieve: Any = SimpleNamespace(
        note=note, queries=None, path=Path("s"), is_own=True, pipeline=outcome.pipeline
    )
    show_sieve(sieve)
    terminal = " ".join(capsys.readouterr().out.split())
    lead = page.words[page.words.index("On 60 test queries") :].split(" tests.")[0]
    section = page.words[page.words.index("Tested on 60 queries") :].split(" It stays")[0]
    row = next(row for row in page.rows if len(row) == 11 and "handed over" in row[0])
    for other, p in p_values.items():
        said = unescape(p_text(p))
        shown = "the start" if other == START else other
        assert said in lead[lead.index(f"{shown} (") :].split(")")[0]
        assert said in section[section.index(f"against {other} ") :].split(";")[0]
        line = terminal[terminal.index(f"against {other} ") :]
        assert f"p {unescape(p_value(p))} (t-test, Holm for 3 tests)" in line.split("tests)")[0] + (
            "tests)"
        )
    assert row[6] == unescape(p_value(p_values[BM25]))
    assert row[9] == unescape(p_value(p_values[START]))
    others = [row for row in page.rows if len(row) == 11 and "handed over" not in row[0]]
    assert all((row[6], row[9]) == ("–", "–") for row in others)
    assert "3 tests were made" in page.words


def test_a_fall_back_is_compared_outside_the_family() -> None:
    worse = {START: 0.9, HALFWAY: 0.5, TUNED: 0.0}
    found = outcome_of(skills={START: 0.2, HALFWAY: 0.5, TUNED: 3.0}, tested_skills=worse)
    page = Page(fit_page(found, date=DATE))
    assert found.family is not None and found.chosen.settled is not None
    assert found.family.system == found.chosen.settled.choice.chosen != found.chosen.way.name
    assert "p is not corrected, as these are not the guard’s tests" in page.words
    failed = next(row for row in page.rows if len(row) == 11 and "failed its test" in row[0])
    tested = {one.name: one.p for one in found.family.against}
    assert failed[6] == unescape(p_value(tested[BM25]))
    handed = next(row for row in page.rows if len(row) == 11 and "handed over" in row[0])
    assert handed[5] != "–" and handed[6] == "–"


def test_without_a_guard_what_is_handed_over_is_the_family(outcome: Outcome) -> None:
    assert outcome.evaluation is not None
    family = family_of(None, outcome.evaluation, "tuned", "RR@10", 0)
    assert family is not None and [one.name for one in family.against] == [BM25, START]
    assert family_of(None, None, "tuned", "RR@10", 0) is None
    compared = compare(outcome.evaluation, START, **SMALL)
    tested = correct_by_family(compared, family, "RR@10")
    (one,) = (one for one in tested if one.t_test.holm is not None)
    assert (one.run, one.baseline, one.tests) == ("tuned", START, 2)


def test_a_measure_by_its_other_name(page: Page, outcome: Outcome) -> None:
    other = Page(fit_page(replace(outcome, measure="MRR@10"), fetch, date=DATE))
    rows = [row[3:10] for row in page.rows if len(row) == 11]
    assert [row[3:10] for row in other.rows if len(row) == 11] == rows
    assert f"by MRR@10, {outcome.chosen.way.name} beats BM25 (+" in other.words


def test_bm25_has_a_row_beside_another_first_stage() -> None:
    found = outcome_of(first=HYBRID)
    page = Page(fit_page(found, date=DATE))
    shown = page.row("BM25", 11)
    assert found.evaluation is not None
    assert shown[2:4] == [f"{found.evaluation.mean(BM25, 'RR@10'):.4f}", "–"]
    assert "BM25 and hybrid alone, and start, half tuned and tuned, each alone" in page.words
    groups = [row[0] for row in page.rows if len(row) in (1, 11)]
    names = [each.removesuffix("handed over") for each in groups[:3]]
    assert names[0] == "without a model " and "ms a query" in names[1] and "ms a query" in names[2]
    assert page.row("hybrid", 11)[3] != "–"


def test_the_guard_tells_of_its_test(page: Page, outcome: Outcome) -> None:
    choice = outcome.chosen.choice
    assert choice is not None
    assert f"The choice: {choice.chosen}" in page.words or "and the choice:" in page.words
    assert "among 13 ways to rank" in page.words
    assert "each of 3 folds" in page.words
    assert "It stays, being significantly below none of them." in page.words
    assert "fell back" not in page.words and "flatter it" not in page.words


def test_a_fall_back_is_told() -> None:
    worse = {START: 0.9, HALFWAY: 0.5, TUNED: 0.0}
    found = outcome_of(skills={START: 0.2, HALFWAY: 0.5, TUNED: 3.0}, tested_skills=worse)
    page = Page(fit_page(found, date=DATE))
    settled_as = found.chosen.settled
    assert settled_as is not None and settled_as.fell_back
    assert f"It fell back: handed over is {settled_as}" in page.words
    assert sum("failed its test" in row[0] for row in page.rows) == 1
    assert f"It stands in for {settled_as.choice.chosen}, which failed its test" in page.words


def test_a_rule_is_tested_too(outcome: Outcome) -> None:
    found = outcome_of(skills={START: 0.0}, tested_skills={START: 0.0})
    assert found.evaluation is not None
    rule = f"{START} .50 + {BM25}"
    values = {name: found.evaluation.values(name, "RR@10") for name in (BM25, START, rule)}
    values[rule] = values[BM25] - 0.5
    decided = settled(Choice(rule, rule, START, BM25, 0, ()), values, resamples=200)
    assert decided.name == BM25
    chosen = replace(
        found.chosen, way=Way(BM25, None, None, 0), model=None, choice=None, held_out=None,
        settled=decided, calibration=None, answers=None,
    )  # fmt: skip
    rows = [replace(row, held_out=None, chosen=row.name == BM25) for row in found.rows]
    page = Page(fit_page(replace(found, chosen=chosen, rows=tuple(rows)), date=DATE))
    assert "the usual way was taken, as it is where vectors find no candidates" in page.words
    assert "fused with the first stage and counting 0.75." in page.words
    assert f"It fell back: handed over is BM25, because {rule} is" in page.words
    assert "no model was there" not in page.words


def test_the_threshold_and_its_chart(page: Page, outcome: Outcome) -> None:
    answers, calibration = outcome.chosen.answers, outcome.chosen.calibration
    assert answers is not None and calibration is not None
    for threshold, said in ((0.4321, "below 0.432, the sieve"), (0.0, "No threshold was worth")):
        told = replace(outcome.chosen, calibration=replace(calibration, threshold=threshold))
        assert said in Page(fit_page(replace(outcome, chosen=told), date=DATE)).words
    precision = next(row for row in page.rows if row[0].startswith("precision"))
    assert precision[1:] == [
        f"{answers['right'] / answers['answered']:.3f}",
        f"{answers['right']} of {answers['answered']}",
    ]
    without = replace(outcome, chosen=replace(outcome.chosen, calibration=None, answers=None))
    assert "no good answer" not in Page(fit_page(without, date=DATE)).words
    untold = replace(outcome, chosen=replace(outcome.chosen, answers=None))
    assert "no queries to test it on" in Page(fit_page(untold, date=DATE)).words
    none = {**answers, "precision": None, "answered": 0, "right": 0}
    page = Page(fit_page(replace(outcome, chosen=replace(outcome.chosen, answers=none)), date=DATE))
    assert next(row for row in page.rows if row[0].startswith("precision"))[1:] == ["–", "0 of 0"]


def test_reliability_is_drawn_where_it_belongs() -> None:
    drawn = reliability_chart([Bin(0.0, 1.0, 1), Bin(0.5, 0.25, 4), Bin(1.0, 0.0, 11)])
    found = re.findall(r'<circle class="better" cx="(\S+)" cy="(\S+)" r="(\S+)">', drawn)
    assert [(x, y) for x, y, _ in found] == [("58", "30"), ("222", "276"), ("386", "358")]
    areas = [(float(r) - 3.0) ** 2 for _, _, r in found]
    assert areas[1] / areas[0] == pytest.approx(4, rel=0.1)
    assert reliability_chart([Bin(0.3, 0.2, 1)]).count("<circle") == 1


def test_the_learning_curve_is_there_only_if_it_was_drawn(page: Page, outcome: Outcome) -> None:
    assert "What labels are worth" not in page.words
    told = drawn(outcome, [(8, 0.4), (32, 0.5), (128, 0.54)])
    words = Page(fit_page(told, date=DATE)).words
    assert "From 32 to 128 judged queries RR@10 changed by +0.0400" in words
    assert "256, would bring about +0.0200 more" in words  # .04 in two doublings
    told = drawn(outcome, [(8, 0.4), (32, 0.39)])
    assert "would most likely bring little" in Page(fit_page(told, date=DATE)).words
    for curve in ([(0, 0.4)], [(0, 0.4), (8, 0.4)]):
        told = drawn(outcome, curve)
        assert "What labels are worth" in Page(fit_page(told, date=DATE)).words
    x = re.findall(r"translate\((\S+) ", learning_chart([(1, 0.1), (3, 0.2), (7, 0.3)], "RR"))
    assert x == ["72", "222", "372"]


def test_winning_passages_are_shown(page: Page, outcome: Outcome) -> None:
    name = outcome.chosen.way.name
    evaluation = outcome.evaluation
    assert evaluation is not None
    change = evaluation.values(name, "RR@10") - evaluation.values(BM25, "RR@10")
    query = evaluation.queries[int(np.argmax(change))]
    row = page.row(f"{query}text of", 6)
    old, new = outcome.found.test[query].ids[0], outcome.chosen.test_runs[name][query].ids[0]
    assert f"{old} one two three four." in row[4]  # BM25 has no passages: the beginning
    assert row[5][1:].startswith(f"{new}Five six {new} won by this passage.")
    assert "one two" not in row[5]

    def lost(name: str) -> Document:
        raise KeyError(name)

    assert "won by" not in fit_page(outcome, lost, date=DATE)


def test_time_goes_to_the_steps_of_the_plan(page: Page) -> None:
    taken = {row[0]: row[2:] for row in page.rows if len(row) == 4}
    assert taken["first"] == ["4 s", "8 s"]  # 1 + 7 + .25 + .25, rounded to the even one
    assert taken["start"] == ["30 s", "22 s"]
    assert taken["vectors"] == ["no time for it", "–"]
    assert taken[TUNED] == ["3 min 20 s", "2 min 30 s"]
    assert taken["other"] == ["–", "0 s"]
    assert taken["together"] == ["3 min 54 s", "3 min 1 s"]


def test_labels_cuts_and_the_first_stage(page: Page, outcome: Outcome) -> None:
    assert ["gold", "45", "90"] in page.rows
    assert "360 were longer than the model reads; 1,234 tokens" in page.words
    assert "tuned on judgements: k1 = 0.9, b = 0.4 (+0.0100 on held-out folds)" in page.words
    vectors = {"measure": "R@50", "BM25": 0.5, "hybrid": 0.6, "p": 0.001, "used": True}
    facts = {"bm25": {"tuned": False, "why": "7 judged queries"}, "vectors": vectors}
    told = replace(outcome, found=replace(outcome.found, facts=facts), labels={}, cut={})
    words = Page(fit_page(told, date=DATE)).words
    assert "not tuned: 7 judged queries" in words
    assert "used: R@50 0.5000 by words, 0.6000 by words and vectors, p = 0.0010" in words
    assert "was not trained here" in words
    own = replace(told.found, name="first stage", others={BM25: (told.found.test,) * 2})
    words = Page(fit_page(replace(told, found=own), date=DATE)).words
    assert "one way beside your own results: R@50 0.5000 by words" in words


def test_nothing_tested_nothing_claimed(outcome: Outcome) -> None:
    page = Page(fit_page(untested(outcome), date=DATE))
    assert "verified: no" in page.words
    assert "What 50 judged queries would buy." in page.words
    assert "the usual way was taken, as it is where vectors find no candidates" in page.words
    assert "fused with the first stage and counting 0.75." in page.words
    assert "Every candidate" not in page.words and "Summary" not in page.words
    assert not any(re.search(r"0\.\d{4}", cell) for row in page.rows for cell in row)


def test_chosen_on_judgements_but_not_tested(outcome: Outcome) -> None:
    page = Page(fit_page(untested(outcome, chosen_on=True), date=DATE))
    assert "Every candidate, not tested" in page.words
    assert "verified: no" in page.words
    assert "There were no queries to test the choice on." in page.words
    assert len(page.row("BM25", 3)) == 3


def test_bm25_alone(outcome: Outcome) -> None:
    way = Way(BM25, None, None, 0)
    run = outcome.found.test
    assert outcome.evaluation is not None
    evaluation = evaluate(outcome.parts.test, {BM25: run}, ["RR@10"])
    row = Row(BM25, None, evaluation.mean(BM25, "RR@10"), True, "", 1.0, 0.0)
    alone = replace(
        outcome, chosen=Chosen(way, None, (way,), {BM25: run}), evaluation=evaluation, rows=(row,),
        against_bm25=(), against_start=(), pipeline=Pipeline("bm25", 50, False),
    )  # fmt: skip
    page = Page(fit_page(alone, fetch, date=DATE))
    assert "BM25 is BM25 itself" in page.words
    assert "no model re-ranks them" in page.words


def test_names_and_texts_are_escaped(outcome: Outcome) -> None:
    evil_facts = {"bm25": {"tuned": False, "why": EVIL, "parameters": {EVIL: 1.0}}}
    queries = outcome.parts.queries
    assert queries.texts is not None
    texts = Queries(queries.ids, tuple(EVIL for _ in queries.texts))
    evil = replace(
        outcome, name=EVIL, base=EVIL, why=EVIL, command=EVIL, look={EVIL: EVIL, "more": {EVIL: 1}},
        parts=replace(outcome.parts, queries=texts), labels={EVIL: {EVIL: 1}},
        versions={EVIL: EVIL}, seconds={EVIL: 1.0},
        found=replace(outcome.found, facts=evil_facts),
        rows=tuple(replace(row, refused=EVIL) for row in outcome.rows),
        plan=replace(PLAN, steps=(Step(EVIL, EVIL, 1.0), Step(START, EVIL, 1.0))),
    )  # fmt: skip
    for some in (evil, untested(evil), untested(evil, chosen_on=True)):
        text = fit_page(some, lambda name: Document(name, EVIL, EVIL), date=DATE)
        assert "<script>alert" not in text and "alert('1')" not in text
        assert sum(tag == "script" for tag, _ in Page(text).tags) == 1


def test_nothing_is_loaded_from_elsewhere_and_headings_descend(
    outcome: Outcome, tmp_path: Path
) -> None:
    for number, some in enumerate((outcome, untested(outcome), untested(outcome, chosen_on=True))):
        path = tmp_path / f"{number}.html"
        write_page(path, some, fetch)
        text = path.read_text("utf-8")
        assert not re.search(r"https?:|url\(|@import|javascript:", text)
        found = Page(text)
        for tag, attributes in found.tags:
            assert tag not in ("link", "img", "iframe", "object", "embed", "base")
            assert not {"src", "href", "style"} & attributes.keys()
            if tag == "th":
                assert attributes["scope"] in ("col", "row", "colgroup", "rowgroup")
        levels = [int(tag[1]) for tag in found.headings()]
        assert levels[0] == 1 and levels.count(1) == 1
        assert all(after <= before + 1 for before, after in pairwise(levels))


def test_a_text_that_is_no_unicode_does_not_stop_the_fit(outcome: Outcome, tmp_path: Path) -> None:
    write_page(tmp_path / "page.html", outcome, lambda name: Document(name, "half \ud800 a pair"))
    assert "half ? a pair" in (tmp_path / "page.html").read_text("utf-8")
