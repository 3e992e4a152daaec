"""Evaluation from Python: inputs of every kind give the same values, mistakes get a hint."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import tamis
from tamis.collection.judgements import write_qrels
from tamis.collection.querylog import query_id
from tamis.collection.run_objects import as_qrels, as_run, as_runs
from tamis.collection.runs import write_run
from tamis.errors import InputError
from tamis.types import Qrels, Queries, Query, Run, Source, Spec, Stage, Top

GRADES = {"q1": {"d1": 1, "d2": 0}, "q2": {"d2": 2}}
SCORES = {"q1": {"d1": 2.0, "d2": 3.0}, "q2": {"d2": 1.0, "d1": 1.0}}
WRONG: list[Any] = [7, [("q1", "d1", 1)], Top(3)]
QRELS, RUN = Qrels.from_dict(GRADES), Run.from_dict(SCORES)


def written(folder: Path, name: str, thing: Any) -> Path:
    path = folder / name
    write_run(thing, path) if isinstance(thing, Run) else write_qrels(thing, path)
    return path


FORMS: dict[str, Callable[[Any, Path], Any]] = {
    "ours": lambda thing, folder: thing,
    "dict": lambda thing, folder: thing.to_dict(),
    "text": lambda thing, folder: str(written(folder, f"{type(thing).__name__}.txt", thing)),
    "path": lambda thing, folder: written(folder, f"{type(thing).__name__}.parquet", thing),
    "pandas": lambda thing, folder: thing.to_pandas(),
}


@pytest.mark.parametrize("form", FORMS)
def test_inputs_of_every_kind_give_the_same_values(form: str, tmp_path: Path) -> None:
    if form == "pandas":
        pytest.importorskip("pandas", reason="pandas is not installed")
    qrels, run = FORMS[form](QRELS, tmp_path), FORMS[form](RUN, tmp_path)
    named = tamis.evaluate(qrels, {"a": run, "b": RUN}, ["RR", "ndcg_cut_10"])
    assert named.runs == ("a", "b")
    assert named.values("a", "RR").tolist() == [1 / 2, 1.0]
    assert named.per_query["a"].tolist() == named.per_query["b"].tolist()
    alone = tamis.evaluate(qrels, run, "RR")
    assert alone.runs == (
        run.rpartition("/")[2] if form == "text" else getattr(run, "name", "run"),
    )
    assert alone.mean(alone.runs[0], "RR") == 3 / 4


def test_whole_numbers_as_ids_are_the_same_ids() -> None:
    evaluation = tamis.evaluate({7: {1: 1}}, {"a": {"7": {"1": 1.0}}}, ["P@1"])
    assert evaluation.mean("a", "P@1") == 1


def test_a_frame_of_whole_number_ids_fits_a_dictionary() -> None:
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    frame = pd.DataFrame({"query_id": [7, 7], "doc_id": [1, 2], "score": [1.0, 2.0]})
    assert tamis.evaluate({"7": {"1": 1}}, frame, ["RR"]).mean("run", "RR") == 1 / 2


def test_one_run_is_told_from_runs_by_name() -> None:
    assert list(as_runs({"q1": {"d1": 1.0}, "q2": {}})) == ["run"]
    assert list(as_runs({"a": {"q1": {"d1": 1.0}}, "b": {}})) == ["a", "b"]
    assert list(as_runs({"a": RUN, "b": SCORES})) == ["a", "b"]


def swapped(form: str, tmp_path: Path) -> tuple[Any, Any]:
    return FORMS[form](RUN, tmp_path), FORMS[form](QRELS, tmp_path)


@pytest.mark.parametrize("form", ["ours", "text", "path", "pandas"])
def test_swapped_qrels_and_runs_are_told(form: str, tmp_path: Path) -> None:
    if form == "pandas":
        pytest.importorskip("pandas", reason="pandas is not installed")
    run, qrels = swapped(form, tmp_path)
    for call in (lambda: tamis.evaluate(run, qrels, ["AP"]), lambda: as_run(qrels)):
        with pytest.raises(InputError) as caught:
            call()
        assert "evaluate(qrels, runs, measures)" in caught.value.hint


@pytest.mark.parametrize(
    "runs", [{"q1": {"d1": 2.5}}, {"bm25": SCORES}, {"bm25": RUN}, {"q1": {"d1": float("nan")}}]
)
def test_runs_as_dictionaries_in_place_of_the_qrels_are_told(runs: Any) -> None:
    with pytest.raises(InputError) as caught:
        as_qrels(runs)
    assert "q1" in str(caught.value) or "bm25" in str(caught.value)
    assert caught.value.hint


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: as_qrels(WRONG[1]), "{"),
        (lambda: as_qrels({"q1": ["d1"]}), '{"q1": {"d1": 1}}'),
        (lambda: as_qrels({"q1": {"d1": "yes"}}), "whole numbers"),
        (lambda: as_qrels({"q1": {"d1": 2**40}}), "whole numbers"),
        (lambda: as_qrels({1.5: {"d1": 1}}), "ids"),
        (lambda: as_qrels({7: {"d1": 1}, "7": {"d1": 1}}), "7"),
        (lambda: as_run({"q1": {"d1": "high"}}), "numbers"),
        (lambda: as_run({"q1": {"d1": None}}), "numbers"),
        (lambda: as_run({"q1": {"d1": float("nan")}}), "numbers"),
        (lambda: as_run({"q1": ["d1"]}), '{"q1": {"d1": 12.5}}'),
        (lambda: as_run(WRONG[2]), "tamis.experiment"),
        (lambda: as_run(WRONG[0]), "DataFrame"),
        (lambda: as_runs(WRONG[1]), "name them"),
        (lambda: as_runs({1: RUN}), "string"),
        (lambda: tamis.evaluate(GRADES, "no-such-file", ["AP"]), ""),
        (lambda: tamis.evaluate(GRADES, {"a": {"q9": {"d": 1.0}}}, ["AP"]), "same collection"),
        (lambda: tamis.evaluate(GRADES, SCORES, WRONG[:1]), "nDCG@10"),
        (lambda: tamis.evaluate(GRADES, SCORES, WRONG[0]), "nDCG@10"),
    ],
)
def test_a_natural_mistake_gets_a_hint(call: Callable[[], Any], text: str) -> None:
    with pytest.raises(InputError) as caught:
        call()
    assert caught.value.hint and text in caught.value.hint


class Fixed(Source):
    """Finds the same documents for every query, and remembers what it was asked."""

    def __init__(self, *ids: str) -> None:
        self.ids, self.queries = ids, list[Queries]()

    def search(self, queries: Queries, top: int) -> Run:
        self.queries.append(queries)
        scores = {doc: float(-place) for place, doc in enumerate(self.ids[:top])}
        return Run.from_dict(dict.fromkeys(queries.ids, scores)).with_queries(queries)

    def spec(self) -> Spec:
        return {"source": "fixed"}


class Reverse(Stage):
    """Puts the last document first."""

    def __call__(self, run: Run) -> Run:
        return Run.from_dict({q: {doc: -score for doc, score in run[q]} for q in run}).with_queries(
            run.queries
        )

    def spec(self) -> Spec:
        return {"stage": "reverse"}


TEXTS = {"q1": "drum sieve", "q2": "fishing net"}


@pytest.mark.parametrize(
    "queries",
    [
        Queries.of([Query(name, text) for name, text in TEXTS.items()]),
        [{"id": name, "text": text} for name, text in TEXTS.items()],
        [Query(name, text) for name, text in TEXTS.items()],
        TEXTS,
    ],
)
def test_an_experiment_searches_and_compares(queries: Any) -> None:
    source = Fixed("d1", "d2")
    systems = {"first": source, "reversed": source >> Reverse(), "ready": SCORES}
    done = tamis.experiment(systems, queries, GRADES, ["RR", "P_1"], baseline="first")
    assert done.runs == ("first", "reversed", "ready")
    assert done.values("first", "RR").tolist() == [1.0, 1 / 2]
    assert done.values("reversed", "RR").tolist() == [1 / 2, 1.0]
    assert done.values("ready", "RR").tolist() == [1 / 2, 1.0]
    assert source.queries[0].texts == ("drum sieve", "fishing net")
    assert done.comparisons is not None and done.comparisons.baseline == "first"
    assert "against first" in str(done)
    plain = tamis.experiment(systems, queries, GRADES, ["RR"])
    assert plain.comparisons is None and "against" not in str(plain)


def test_queries_that_are_strings_are_judged_by_text_or_id() -> None:
    source = Fixed("d1", "d2")
    qrels = {"drum sieve": {"d1": 1}, query_id("fishing net"): {"d2": 1}}
    done = tamis.experiment({"a": source}, ["drum sieve", "fishing net"], qrels, ["RR"])
    assert sorted(done.values("a", "RR").tolist()) == [1 / 2, 1.0]
    assert set(source.queries[0].ids) == set(qrels)


def test_only_judged_queries_are_searched_and_what_is_left_out_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    source = Fixed("d1")
    with caplog.at_level(logging.INFO, "tamis"):
        done = tamis.experiment(
            {"a": source}, {"q1": "drum", "q9": "net"}, {**GRADES, "q3": {"d1": 1}}, ["P@1"]
        )
    assert list(source.queries[0].ids) == ["q1"] == list(done.queries)
    assert [record.levelname for record in caplog.records if "left out" in record.message] == [
        "WARNING",
        "INFO",
    ]


def test_an_experiment_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    tamis.experiment({"a": Fixed("d1")}, TEXTS, GRADES, ["P@1"])
    assert capsys.readouterr() == ("", "")


def test_a_sieve_or_whatever_has_a_source_is_a_system() -> None:
    sieve = SimpleNamespace(source=Fixed("d1"))
    assert tamis.experiment({"a": sieve}, TEXTS, GRADES, ["P@1"]).mean("a", "P@1") == 1 / 2


def test_the_report_of_an_experiment_has_the_texts(tmp_path: Path) -> None:
    systems = {"a": Fixed("d1"), "b": Fixed("d2")}
    tamis.experiment(systems, TEXTS, GRADES, ["RR"], "a").report(tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text("utf-8")
    assert "drum sieve" in page and "against a" in page


@pytest.mark.parametrize(
    ("systems", "queries", "baseline", "text"),
    [
        ({"a": Fixed("d1"), "b": SCORES}, TEXTS, "c", "a, b"),
        ({"a": Fixed("d1")}, TEXTS, "a", "another system"),
        ({"a": Fixed("d1"), "b": Top(3)}, TEXTS, None, "index.bm25() >> stage"),
        ({"a": SimpleNamespace(bm25=None)}, TEXTS, None, "index.bm25()"),
        ({"a": Fixed("d1"), "b": 7}, TEXTS, None, "DataFrame"),
        (Fixed("d1"), TEXTS, None, "index.bm25()"),
        ({}, TEXTS, None, "index.bm25()"),
        ({"a": Fixed("d1")}, {"q9": "drum"}, None, "same collection"),
        ({"a": Fixed("d1")}, Queries(QRELS.queries), None, "texts"),
    ],
)
def test_a_mistake_in_an_experiment_is_told(
    systems: Any, queries: Any, baseline: str | None, text: str
) -> None:
    with pytest.raises(InputError) as caught:
        tamis.experiment(systems, queries, GRADES, ["AP"], baseline)
    assert text in caught.value.hint
    sources = systems.values() if isinstance(systems, dict) else [systems]
    assert not any(source.queries for source in sources if isinstance(source, Fixed))
