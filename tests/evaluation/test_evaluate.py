"""Evaluations: every query counts, summaries derive from per-query values, files read back."""

from __future__ import annotations

import csv
import io
import json
from typing import Literal

import numpy as np
import pytest

from tamis.errors import InputError
from tamis.evaluation import Evaluation, evaluate, write_per_query
from tamis.types import Qrels, Run

QRELS = Qrels.from_dict({"q1": {"d1": 1}, "q2": {"d2": 1}, "q3": {"d3": 1, "d4": 1}})
GOOD = Run.from_dict({"q1": {"d1": 2.0}, "q2": {"d2": 2.0, "d1": 1.0}, "q3": {"d3": 1.0}})
POOR = Run.from_dict({"q1": {"d2": 2.0, "d1": 1.0}, "q7": {"d1": 1.0}, "q8": {"d1": 1.0}})


@pytest.fixture
def evaluation() -> Evaluation:
    return evaluate(QRELS, {"good": GOOD, "poor": POOR}, ["RR@10", "AP", "NumRet"])


def test_every_judged_query_counts(evaluation: Evaluation) -> None:
    assert evaluation.values("good", "AP").tolist() == [1, 1, 0.5]
    assert evaluation.values("poor", "RR@10").tolist() == [0.5, 0, 0]
    assert evaluation.mean("poor", "RR@10") == pytest.approx(0.5 / 3)
    assert evaluation.mean("good", "MAP") == pytest.approx(2.5 / 3)


def test_missing_and_unjudged_queries_are_named(evaluation: Evaluation) -> None:
    assert {run: list(ids) for run, ids in evaluation.missing.items()} == {
        "good": [],
        "poor": ["q2", "q3"],
    }
    assert list(evaluation.unjudged["poor"]) == ["q7", "q8"]
    assert len(evaluation.unjudged["good"]) == 0


def test_counts_are_summed_up_by_their_total(evaluation: Evaluation) -> None:
    assert evaluation.summary("good", "NumRet") == 4
    assert evaluation.summary("good", "AP") == evaluation.mean("good", "AP")


def test_values_cannot_be_changed(evaluation: Evaluation) -> None:
    with pytest.raises(ValueError, match="read-only"):
        evaluation.values("good", "AP")[0] = 7


def test_a_measure_asked_for_twice_is_there_once() -> None:
    assert len(evaluate(QRELS, {"good": GOOD}, ["AP", "MAP", "AP"]).measures) == 1


@pytest.mark.parametrize(
    ("run", "measure", "hint"), [("other", "AP", "runs: good, poor"), ("good", "P@1", "AP")]
)
def test_asking_for_what_is_not_there(
    evaluation: Evaluation, run: str, measure: str, hint: str
) -> None:
    with pytest.raises(InputError) as caught:
        evaluation.values(run, measure)
    assert hint in caught.value.hint


def test_a_run_over_other_queries_is_refused() -> None:
    stranger = Run.from_dict({"301": {"d1": 1.0}})
    with pytest.raises(InputError, match="no query of run 'a' is judged: it has query '301'"):
        evaluate(QRELS, {"a": stranger}, ["AP"])


def test_an_empty_run_is_all_zeros() -> None:
    evaluation = evaluate(QRELS, {"empty": Run.from_dict({})}, ["AP", "nDCG@10", "Judged@5"])
    assert not evaluation.per_query["empty"].any()
    assert len(evaluation.missing["empty"]) == 3


def test_nothing_to_evaluate_is_an_error() -> None:
    with pytest.raises(InputError, match="no query"):
        evaluate(Qrels.from_dict({}), {"good": GOOD}, ["AP"])
    with pytest.raises(InputError, match="no measure"):
        evaluate(QRELS, {"good": GOOD}, [])
    with pytest.raises(InputError, match="no run"):
        evaluate(QRELS, {}, ["AP"])


@pytest.mark.parametrize("form", ["tsv", "csv", "jsonl"])
def test_per_query_files_read_back_exactly(form: Literal["tsv", "csv", "jsonl"]) -> None:
    awkward = Run.from_dict({"q1": {"d2": 2.0, "d1": 1.0}, "q3": {"x": 3.0, "y": 2.0, "d3": 1.0}})
    evaluation = evaluate(QRELS, {"a,b\tc é": awkward}, ["AP", "nDCG@10"])
    stream = io.BytesIO()
    write_per_query(evaluation, stream, form)
    text = stream.getvalue().decode()
    if form == "jsonl":
        rows = [json.loads(line) for line in text.splitlines()]
    else:
        delimiter = "\t" if form == "tsv" else ","
        rows = [dict(row) for row in csv.DictReader(io.StringIO(text), delimiter=delimiter)]
    expected = [row._asdict() for row in evaluation.to_rows()]
    assert [{**row, "value": float(row["value"])} for row in rows] == expected
    assert len(expected) == 6
    assert np.isclose(expected[0]["value"], 0.5)
