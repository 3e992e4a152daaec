"""The HTML report: well-formed, escaped, self-contained, and saying the truth."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from tests.pages.page import Page, assert_inside

from tamis.errors import OutputError
from tamis.evaluation.evaluate import evaluate
from tamis.evaluation.report import report_page, write_report
from tamis.evaluation.significance import compare
from tamis.types import Ids, Qrels, Queries, Query, Run

EVIL = "<script>alert('1')</script> & \"a\" </title></svg>"
DATE = datetime(2024, 5, 6, 7, 8, tzinfo=UTC)


def collection(count: int, names: tuple[str, ...], seed: int = 0) -> tuple[Qrels, dict[str, Run]]:
    rng = np.random.default_rng(seed)
    docs = [f"d{number}" for number in range(12)]
    judged = {
        f"q{number}": {doc: int(rng.integers(0, 3)) for doc in docs[:8]} for number in range(count)
    }
    runs = {
        name: Run.from_dict({q: {d: float(rng.random()) for d in docs} for q in judged})
        for name in names
    }
    return Qrels.from_dict(judged), runs


def page_of(
    qrels: Qrels,
    runs: Mapping[str, Run],
    baseline: str | None = None,
    queries: Queries | None = None,
    measures: tuple[str, ...] = ("nDCG@5", "AP"),
    command: str = "tamis evaluate",
) -> str:
    evaluation = evaluate(qrels, runs, measures)
    comparisons = compare(evaluation, baseline, samples=500, resamples=200) if baseline else []
    return report_page(
        evaluation,
        comparisons,
        qrels=qrels,
        runs=runs,
        queries=queries,
        baseline=baseline,
        command=command,
        date=DATE,
    )


def test_summary_says_what_the_evaluation_says() -> None:
    qrels, runs = collection(30, ("old", "new", "other"))
    measures = ("nDCG@5", "AP", "NumRet")
    evaluation = evaluate(qrels, runs, measures)
    page = Page(page_of(qrels, runs, "old", measures=measures))
    shown = {row[0].split()[0]: [cell.split()[0] for cell in row[1:]] for row in page.rows[1:4]}
    for run in runs:
        means = [f"{evaluation.mean(run, measure):.4f}" for measure in measures[:2]]
        assert shown[run] == [*means, "360"]


def test_differences_are_those_of_the_comparison() -> None:
    qrels, runs = collection(40, ("old", "new"))
    runs["best"] = Run.from_dict({q: {d: float(g) for d, g in qrels[q].items()} for q in qrels})
    evaluation = evaluate(qrels, runs, ["nDCG@5"])
    rows = Page(page_of(qrels, runs, "old", measures=("nDCG@5",))).rows
    for one in compare(evaluation, "old", samples=500, resamples=200):
        row = next(row for row in rows if row[0] == one.run and len(row) == 11)
        assert float(row[1].replace("−", "-")) == pytest.approx(one.difference, abs=5e-5)
        assert row[4] == f"{one.wins} / {one.ties} / {one.losses}"
    marked = next(row for row in rows if row[0] == "best")
    assert marked[1] == "1.0000▲ significantly better"


def test_queries_with_texts_values_and_grades() -> None:
    qrels = Qrels.from_dict({"q1": {"a": 2, "b": 0}, "q2": {"a": 1}, "q3": {"c": 1}})
    old = Run.from_dict({"q1": {"b": 3.0, "x": 2.0, "a": 1.0}, "q2": {"a": 1.0}, "q3": {"c": 1.0}})
    new = Run.from_dict({"q1": {"a": 1.0}, "q2": {"b": 2.0, "a": 1.0}})
    queries = Queries.of([Query("q1", "first text"), Query("q2", "second text")])
    page = Page(page_of(qrels, {"old": old, "new": new}, "old", queries, ("RR",)))
    row = next(row for row in page.rows if row[0] == "q1 first text" and len(row) == 6)
    assert row[1:] == ["0.3333", "1.0000", "+0.6667", "0b –x 2a", "2a"]
    lost = [row for row in page.rows if len(row) == 6 and row[3].startswith("−")]
    assert [row[0] for row in lost] == ["q3", "q2 second text"]
    assert lost[0][5] == "not in this run"
    assert any("new has no documents for 1 query (q3)" in text for _, text in page.text)


@pytest.mark.parametrize("baseline", [None, "old"])
@pytest.mark.parametrize("count", [1, 2, 60])
def test_pages_of_any_size_are_well_formed(count: int, baseline: str | None) -> None:
    qrels, runs = collection(count, ("old", "new"))
    page = Page(page_of(qrels, runs, baseline))
    assert_inside(page)
    assert page.count("h1") == page.count("main") == page.count("footer") == 1
    assert sum(row[0].startswith("q") and len(row) == 3 for row in page.rows) >= count


def test_one_run_alone() -> None:
    qrels, runs = collection(5, ("only",))
    page = Page(page_of(qrels, runs))
    assert_inside(page)
    headings = [text for tag, text in page.text if tag in ("h1", "h2", "h3")]
    assert re.fullmatch(r"only has a mean nDCG@5 of 0\.\d{3} on 5 queries", headings[0])
    assert headings[1:] == [
        "Summary",
        "nDCG@5, query by query",
        "The queries with the lowest nDCG@5",
        "nDCG@5 of all queries",
        "Precision and recall",
        "Notes",
    ]
    assert page_of(qrels, runs, "only") == page_of(qrels, runs)


def test_runs_that_are_the_same() -> None:
    qrels, runs = collection(9, ("old",))
    page = Page(page_of(qrels, {"old": runs["old"], "copy": runs["old"]}, "old"))
    headings = [text for tag, text in page.text if tag in ("h1", "h2")]
    assert headings[0] == "old and copy have the same nDCG@5 on each of 9 queries"
    assert "old and copy have the same nDCG@5 and AP on every query." in page.words
    assert "All runs have the same precision at every level of recall." in page.words
    assert page.count("circle") == page.count("rect") == 0
    assert [attributes.get("class") for tag, attributes in page.tags if tag == "svg"] == [
        "chart",
        "swatch s0",
    ]
    assert "significantly" not in page.words and "in bold" not in page.words


def test_runs_without_a_baseline_that_are_the_same() -> None:
    qrels, runs = collection(9, ("old",))
    page = Page(page_of(qrels, {"old": runs["old"], "copy": runs["old"]}))
    assert page.count("rect") == 0
    assert "To test the differences" not in page.words


def test_one_of_several_runs_is_the_baseline_again() -> None:
    qrels, runs = collection(9, ("old", "new"))
    page = Page(page_of(qrels, {**runs, "copy": runs["old"]}, "old"))
    assert_inside(page)
    assert "copy and old have the same nDCG@5 on each of 9 queries." in page.words
    charts = [attributes for tag, attributes in page.tags if attributes.get("class") == "chart"]
    assert len(charts) == len(["means", "differences", "points", "recall"])


def test_a_measure_that_is_the_same_everywhere_has_no_rows() -> None:
    qrels, runs = collection(9, ("old", "new"))
    page = Page(page_of(qrels, runs, "old", measures=("nDCG@5", "R@20")))
    assert "old and new have the same R@20 on every query." in page.words
    groups = [row for row in page.rows if row[0] == "nDCG@5"]
    assert groups and not [row for row in page.rows if row[0] == "R@20"]


@pytest.mark.parametrize(("count", "drawn"), [(1, False), (2, False), (3, True)])
def test_few_queries_have_no_chart(count: int, drawn: bool) -> None:
    qrels, runs = collection(count, ("old", "new"))
    for baseline in (None, "old"):
        page = Page(page_of(qrels, runs, baseline, measures=("AP",)))
        assert (page.count("rect") > 0) == drawn
        assert ("Point at a bar" in page.words) == drawn


def test_pages_fit_a_narrow_screen() -> None:
    qrels, runs = collection(9, ("old", "new"))
    text = page_of(qrels, runs, "old")
    page = Page(text)
    names = [attributes.get("name") for tag, attributes in page.tags if tag == "meta"]
    assert "viewport" in names and "width=device-width, initial-scale=1" in text
    tables = [number for number, (tag, _) in enumerate(page.tags) if tag == "table"]
    assert tables
    for number in tables:
        tag, attributes = page.tags[number - 1]
        assert (tag, attributes["class"], attributes["tabindex"]) == ("div", "wide", "0")
        if page.tags[number][1]["class"] == "restacked":
            cells = [a for t, a in page.tags[number:] if t == "td"]
            assert cells[0]["data-head"] == "old"
    assert any(page.tags[number][1]["class"] == "restacked" for number in tables)


def test_a_run_that_finds_nothing_judged() -> None:
    qrels, runs = collection(3, ("old",))
    runs["lost"] = Run.from_dict({"q0": {"elsewhere": 1.0}, "stranger": {"d1": 1.0}})
    page = Page(page_of(qrels, runs, "old"))
    assert_inside(page)
    assert any("also answers 1 query (stranger)" in text for _, text in page.text)


def test_thousands_of_queries_stay_small() -> None:
    qrels, runs = collection(5000, ("old", "new"))
    text = "a question with a number of words in it, as people ask them"
    queries = Queries(qrels.queries, tuple(text for _ in range(5000)))
    page = page_of(qrels, runs, "old", queries)
    assert len(page.encode()) < 1_000_000
    assert_inside(Page(page))
    assert "5,000 queries, best first, 31 to a bar" in page


def test_names_and_texts_are_escaped() -> None:
    qrels, runs = collection(6, ("old", EVIL))
    queries = Queries(qrels.queries, tuple(f"{EVIL} {query}" for query in qrels))
    judged = {EVIL + query: {EVIL + d: g for d, g in qrels[query].items()} for query in qrels}
    evil = {
        name: Run.from_dict(
            {
                EVIL + q: {EVIL + d: s for d, s in ranked.items()}
                for q, ranked in run.to_dict().items()
            }
        )
        for name, run in runs.items()
    }
    for baseline in (None, "old", EVIL):
        page = page_of(Qrels.from_dict(judged), evil, baseline, queries, command=EVIL)
        assert "<script>alert" not in page and "alert('1')" not in page
        parsed = Page(page)
        assert parsed.count("script") == 1
        assert ("code", EVIL) in parsed.text
    parsed = Page(page_of(qrels, runs, "old", queries))
    assert any(tag == "p" and text.startswith(EVIL) for tag, text in parsed.text)


def test_nothing_is_loaded_from_elsewhere() -> None:
    qrels, runs = collection(6, ("old", "new"))
    text = page_of(qrels, runs, "old")
    assert not re.search(r"https?:|url\(|@import|javascript:", text)
    for tag, attributes in Page(text).tags:
        assert tag not in ("link", "img", "iframe", "object", "embed", "base")
        assert not {"src", "href", "srcset", "style"} & attributes.keys()
        assert not any(name.startswith("on") for name in attributes)


def test_readers_without_eyes_or_colours() -> None:
    qrels, runs = collection(6, ("old", "new"))
    text = page_of(qrels, runs, "old")
    page = Page(text)
    assert dict(page.tags)["html"] == {"lang": "en"}
    assert "prefers-color-scheme: dark" in text and "@media print" in text
    for tag, attributes in page.tags:
        if tag == "th":
            assert attributes["scope"] in ("col", "row", "colgroup", "rowgroup")
        if tag == "svg":
            assert attributes.get("role") == "img" or attributes.get("aria-hidden") == "true"
    drawn = re.findall(r'role="img"><title>[^<]+</title><desc>[^<]+</desc>', text)
    assert len(drawn) == text.count('role="img"') > 0
    levels = page.headings()
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))


def test_the_header_says_what_was_done() -> None:
    qrels, runs = collection(6, ("old", "new"))
    page = Page(page_of(qrels, runs, "old", command="tamis evaluate qrels 'my run'"))
    assert [text for tag, text in page.text if tag == "h1"] == [
        "No significant difference between new and old by nDCG@5: +0.235, p = 0.1140, on 6 queries"
    ]
    assert ("code", "tamis evaluate qrels 'my run'") in page.text
    assert ("time", "6 May 2024, 07:08 UTC") in page.text


def test_an_existing_report_is_kept(tmp_path: Path) -> None:
    qrels, runs = collection(2, ("old",))
    evaluation, path = evaluate(qrels, runs, ["AP"]), tmp_path / "report.html"
    write_report(path, evaluation, qrels=qrels, runs=runs)
    with pytest.raises(OutputError, match="exists already"):
        write_report(path, evaluation, qrels=qrels, runs=runs)
    write_report(path, evaluation, qrels=qrels, runs=runs, force=True)
    Page(path.read_text("utf-8"))


def test_texts_come_from_a_run_that_knows_them() -> None:
    qrels, runs = collection(2, ("old",))
    told = runs["old"].with_queries(Queries(Ids.of(["q0", "q1"]), ("zeroth", "first")))
    assert "zeroth" in page_of(qrels, {"old": told})
