"""An evaluation as people look at it: printed, in a notebook, as a DataFrame, LaTeX, a report."""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tamis.errors import InputError, OutputError
from tamis.evaluation import Evaluation, compare, evaluate
from tamis.types import Ids, Qrels, Run

NAMES = [f"q{number}" for number in range(8)]
QRELS = Qrels.from_dict({name: {"d1": 1} for name in NAMES})
GOOD = Run.from_dict({name: {"d1": 2.0, "d2": 1.0} for name in NAMES})
POOR = Run.from_dict({name: {"d1": 1.0, "d2": 2.0} for name in NAMES[:-1]})
BAD_NAME = "<script>|&\x1b[2J\n"


@pytest.fixture
def evaluation() -> Evaluation:
    return evaluate(QRELS, {"good": GOOD, "poor": POOR}, ["RR@10", "AP", "NumRet"])


def compared(evaluation: Evaluation) -> Evaluation:
    return replace(evaluation, comparisons=evaluation.compare("good"))


def test_it_prints_as_aligned_columns(evaluation: Evaluation) -> None:
    head, good, poor, *notes = str(evaluation).splitlines()
    assert head.split() == ["run", "RR@10", "AP", "NumRet"]
    assert good.split() == ["good", "1.0000", "1.0000", "16"]
    assert poor.split() == ["poor", "0.4375", "0.4375", "14"]  # seven of eight at rank 2
    for name in ("RR@10", "AP", "NumRet"):
        end = head.index(name) + len(name)
        assert all(
            line[end - 1] != " " and line[end : end + 1] in ("", " ") for line in (good, poor)
        )
    assert any("poor" in note and "1 query missing" in note for note in notes)


def test_a_comparison_that_is_attached_is_printed(evaluation: Evaluation) -> None:
    text = str(compared(evaluation))
    assert "0.4375▼" in text
    assert "against good" in text and "0/0/8" in text
    assert "▼" not in str(evaluation) and "against" not in str(evaluation)


class Cells(HTMLParser):
    """The tags of a page, and the text of its cells."""

    def __init__(self) -> None:
        super().__init__()
        self.tags, self.texts = set[str](), list[str]()

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.add(tag)

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_a_notebook_shows_a_table_with_everything_escaped() -> None:
    evaluation = evaluate(QRELS, {"good": GOOD, BAD_NAME: POOR}, ["nDCG(dcg='exp-log2')@10"])
    page = Cells()
    page.feed(compared(evaluation)._repr_html_())
    assert page.tags == {"table", "thead", "tbody", "tr", "th", "td", "b", "p", "small", "br"}
    assert BAD_NAME in page.texts and "nDCG(dcg='exp-log2')@10" in page.texts
    assert "1.0000" in page.texts and "against good" in page.texts


def test_no_control_character_reaches_the_terminal() -> None:
    evaluation = evaluate(QRELS, {BAD_NAME: GOOD, "poor": POOR}, ["AP"])
    text = str(replace(evaluation, comparisons=evaluation.compare(BAD_NAME)))
    assert "\x1b" not in text
    assert str(evaluation).splitlines()[1].endswith("1.0000")  # a name does not break its line


def test_latex_and_the_report_show_the_attached_comparison(
    evaluation: Evaluation, tmp_path: Path
) -> None:
    assert "downarrow" in compared(evaluation).to_latex()
    assert "downarrow" not in evaluation.to_latex()
    compared(evaluation).report(tmp_path / "a.html")
    evaluation.report(str(tmp_path / "b.html"), baseline="good")
    evaluation.report(tmp_path / "c.html")
    pages = [(tmp_path / f"{name}.html").read_text("utf-8") for name in "abc"]
    assert ["against good" in page for page in pages] == [True, True, False]
    with pytest.raises(OutputError):
        evaluation.report(tmp_path / "c.html")
    evaluation.report(tmp_path / "c.html", force=True)


def test_values_without_their_runs_have_no_report(evaluation: Evaluation, tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        replace(evaluation, qrels=None).report(tmp_path / "a.html")
    assert caught.value.hint
    assert not any(tmp_path.iterdir())


def test_comparisons_are_those_of_compare(evaluation: Evaluation) -> None:
    comparisons = evaluation.compare("good", seed=3)
    assert list(comparisons) == compare(evaluation, "good", seed=3)
    assert comparisons.baseline == "good" and len(comparisons) == 2
    assert [line.split()[:2] for line in str(comparisons).splitlines()[2:]] == [
        ["poor", "RR@10"],
        ["poor", "AP"],
    ]
    assert "tabular" in comparisons.to_latex()


@pytest.mark.parametrize(
    ("runs", "measures", "baseline", "text"),
    [
        (["good", "poor"], ["AP"], "goood", "runs: good, poor"),
        (["good"], ["AP"], "good", "another run"),
        (["good", "poor"], ["NumRet"], "good", "nDCG@10"),
    ],
)
def test_nothing_to_compare_is_an_error_with_a_hint(
    runs: list[str], measures: list[str], baseline: str, text: str
) -> None:
    some = {name: {"good": GOOD, "poor": POOR}[name] for name in runs}
    with pytest.raises(InputError) as caught:
        evaluate(QRELS, some, measures).compare(baseline)
    assert text in caught.value.hint


def test_means_in_pandas_are_the_means_of_the_long_form() -> None:
    pytest.importorskip("pandas", reason="pandas is not installed")
    random = np.random.default_rng(0)
    names = [f"q{number}" for number in range(40)]
    docs = [f"d{number}" for number in range(20)]
    qrels = Qrels.from_dict({q: {d: int(random.integers(0, 3)) for d in docs[:12]} for q in names})
    runs = {
        name: Run.from_dict({q: {d: float(random.random()) for d in docs} for q in names[:37]})
        for name in ("first", "second")
    }
    evaluation = evaluate(qrels, runs, ["nDCG@10", "AP(rel=2)", "RR"])
    means, rows = evaluation.to_pandas(), evaluation.to_pandas(per_query=True)
    assert list(rows.columns) == ["run", "query_id", "measure", "value"]
    assert len(rows) == 2 * 40 * 3
    assert list(means.index) == ["first", "second"]
    assert list(means.columns) == ["nDCG@10", "AP(rel=2)", "RR"]
    grouped = rows.groupby(["run", "measure"])["value"].mean()
    for run in means.index:
        for measure in means.columns:
            assert means.loc[run, measure] == pytest.approx(grouped[run, measure], abs=1e-12)


def test_comparisons_in_pandas(evaluation: Evaluation) -> None:
    pytest.importorskip("pandas", reason="pandas is not installed")
    comparisons = evaluation.compare("good")
    frame = comparisons.to_pandas()
    assert frame["difference"].tolist() == [one.difference for one in comparisons]
    assert frame["p_t_test_holm"].tolist() == [one.t_test.holm for one in comparisons]
    assert frame[["wins", "ties", "losses", "queries"]].iloc[0].tolist() == [0, 0, 8, 8]


def test_a_test_that_says_nothing_is_missing_in_pandas() -> None:
    pytest.importorskip("pandas", reason="pandas is not installed")
    one = Ids.of(["q0"])
    runs = {"good": GOOD.select(one), "poor": POOR.select(one)}
    frame = evaluate(QRELS.select(one), runs, ["AP"]).compare("good").to_pandas()
    assert frame[["interval_low", "p_t_test"]].isna().all(axis=None)
