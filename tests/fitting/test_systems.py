"""Kinds of system: a new one is one object, and names are only shown."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from tests.fitting.test_fit import PLAN, base, check_tested, collection, hand_over

import tamis
from tamis.fitting import systems
from tamis.fitting.context import FitInputs
from tamis.fitting.job import run_fit
from tamis.fitting.plan import Budget, DataSizes
from tamis.fitting.planner import make_plan
from tamis.fitting.request import FitRequest
from tamis.fitting.result import FitResult
from tamis.fitting.sieve import Sieve, load_sieve
from tamis.fitting.system import Reranker, Retriever, SystemKind
from tamis.registry import Openers, Opening
from tamis.search.defaults import default_source
from tamis.types import Run, Spec, Stage
from tamis.types.pipeline import SPEC_VERSION

__all__ = ["base"]
torch = pytest.importorskip("torch", reason="torch is not installed")


@dataclass(frozen=True)
class Backwards(Stage):
    """Puts the last document first: a stage that registry.py does not know."""

    factor: float = -1.0

    def __call__(self, run: Run) -> Run:
        return Run(run.queries, run.docs, run.offsets, run.doc, self.factor * run.score)

    def spec(self) -> Spec:
        return {"stage": "backwards", "version": SPEC_VERSION, "factor": self.factor}


def open_backwards(values: Spec, opening: Opening) -> Backwards:
    return Backwards(values["factor"])


class BackwardsKind(Reranker):
    """A re-ranker without a model."""

    key, name, description = "backwards", "backwards", "the last document first"
    openers: ClassVar[Openers] = {"stage": {"backwards": open_backwards}}

    def stage(self, model: Path | None, fit: FitInputs) -> Spec:
        return Backwards().spec()


class QueryLikelihood(Retriever):
    """Another retriever."""

    key, name, description = "ql", "query likelihood", "search by query likelihood"

    def is_possible(self, data: DataSizes) -> bool:
        return data.num_documents > 1

    def seconds(self, budget: Budget) -> float:
        return budget.data.num_documents / 5_000

    def prepare(self, fit: FitInputs) -> Spec:
        return default_source(fit.index, "ql", rm3=False).spec()


def with_kinds(*kinds: SystemKind) -> tuple[SystemKind, ...]:
    """All kinds, these among them."""
    return (*systems.KINDS[:3], *kinds, *systems.KINDS[3:])


def fit_tiny(folder: Path, out: Path, base: Path | None, **options: Any) -> Sieve:
    kinds = options.pop("kinds", systems.KINDS)
    given = {"depth": 10, "max_time": 900.0, "threads": 1, **options}
    request = FitRequest(str(folder), out, None if base is None else str(base), **given)
    sieve = run_fit(request, kinds=kinds)[1]
    assert sieve is not None
    return sieve


def test_a_kind_of_ones_own_is_planned_compared_and_reopened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kinds = with_kinds(BackwardsKind(), QueryLikelihood())
    folder = collection(tmp_path / "docs")
    sieve = fit_tiny(folder, tmp_path / "s", None, kinds=kinds)
    results = {system.name: system for system in sieve.result.systems}
    assert {"BM25", "query likelihood", "backwards", "backwards + BM25 (.50)"} <= set(results)
    assert results["backwards"].held_out is not None and results["backwards"].test is not None
    assert results["backwards"].test < (results["BM25"].test or 0)
    assert sieve.result.selected in ("BM25", "query likelihood"), "backwards is worse"
    assert {step.key for step in sieve.result.plan.steps} >= {"backwards", "ql"}

    hand_over(monkeypatch, "backwards")
    other = fit_tiny(folder, tmp_path / "t", None, kinds=kinds)
    assert other.result.selected == "backwards"
    opened = load_sieve(tmp_path / "t", openers=BackwardsKind.openers)
    assert isinstance(opened.stage, Backwards)
    reversed_ids = [hit.id for hit in opened.search("drum net", top=1000)]
    assert len(reversed_ids) == 10, "as deep as it was tested"
    check_tested(folder, opened)
    monkeypatch.setattr("tamis.fitting.systems.KINDS", kinds)
    assert isinstance(load_sieve(tmp_path / "t").stage, Backwards), "known from the tuple"


def test_what_the_data_do_not_allow_is_not_planned() -> None:
    sizes = DataSizes(1, 0, 0, 0, 10, 1.0, "")
    kinds = (*systems.KINDS, QueryLikelihood())
    assert not make_plan(sizes, 0.0, 60.0, kinds=kinds).has("ql")
    more = DataSizes(10, 0, 0, 0, 10, 1.0, "")
    assert make_plan(more, 0.0, 60.0, kinds=kinds).has("ql")


def figures(result: FitResult) -> list[Any]:
    """What was measured, whatever systems are called."""
    decision, selection = result.decision, result.selection
    assert decision is not None and selection is not None
    place = {system.name: number for number, system in enumerate(result.systems)}
    return [
        [(one.reranker, one.weight, one.held_out, one.test, one.selected)
         for one in result.systems],
        [(one.mean, one.difference, one.p_value) for one in selection.systems],
        [(place[one.baseline], one.difference, one.p_value) for one in decision.test.comparisons],
        place[result.selected], place[result.baseline], place[result.default_system],
        [(point.queries, point.mean) for point in result.learning_curve],
        [(step.key, step.planned, step.size) for step in result.plan.steps],
        sorted((timing.step, timing.activity, timing.system, timing.fold)
               for timing in result.timings),
        result.calibration, result.threshold_test, result.labels, result.truncation,
    ]  # fmt: skip


def test_names_are_shown_and_never_parsed(
    tmp_path: Path, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every system renamed: the same selection, and the same figures in the report."""
    monkeypatch.setattr("tamis.fitting.candidate_models.MAX_LENGTH", 24)
    monkeypatch.setattr("tamis.fitting.job.make_plan", lambda *_: PLAN)
    folder = collection(tmp_path / "docs")
    before = fit_tiny(folder, tmp_path / "before", base)
    for number, kind in enumerate(systems.KINDS):
        monkeypatch.setattr(kind, "name", f"all tuned BM25 hybrid .{number} + start all {number}")
    after = fit_tiny(folder, tmp_path / "after", base)
    assert before.result.selected != after.result.selected
    assert figures(before.result) == figures(after.result)
    assert before.pipeline.retriever == after.pipeline.retriever
    assert before.search("drum net") == after.search("drum net")
    pages = [(sieve.path / "report.html").read_text("utf-8") for sieve in (before, after)]
    shown = [sorted(re.findall(r"[+−]?\d\.\d{4}", page)) for page in pages]
    assert shown[0] == shown[1] and len(shown[0]) > 100


def test_a_result_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    sieve = fit_tiny(collection(tmp_path / "docs"), tmp_path / "s", None)
    result = tamis.load_sieve(tmp_path / "s").result
    assert result.to_json() == sieve.result.to_json()
    evaluation = result.evaluation
    assert evaluation is not None
    run = tamis.read_run(tmp_path / "s" / "runs" / "BM25.parquet")
    judged = tamis.open_collection(tmp_path / "docs").qrels["test"].select(run.queries.ids)
    again = tamis.evaluate(judged, {"BM25": run}, "RR@10")
    assert np.array_equal(again.values("BM25", "RR@10"), evaluation.values("BM25", "RR@10"))
    evaluation.report(tmp_path / "report.html")
    assert (tmp_path / "report.html").is_file()


def test_a_sieve_of_an_older_layout_is_refused(tmp_path: Path) -> None:
    fit_tiny(collection(tmp_path / "docs"), tmp_path / "s", None)
    path = tmp_path / "s" / "tamis.json"
    path.write_text(path.read_text().replace('"layout": 4', '"layout": 3'))
    with pytest.raises(tamis.errors.InputError, match="layout 3") as raised:
        tamis.load_sieve(tmp_path / "s")
    assert "fit" in raised.value.hint or "again" in raised.value.hint
