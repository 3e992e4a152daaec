"""`tamis fit` from end to end on a tiny collection with a tiny model."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tamis
from tamis import durable
from tamis.cli.app import run
from tamis.collection.beir import write_judged
from tamis.collection.querylog import query_id
from tamis.errors import InputError, OutputError, TrainingError
from tamis.evaluation import evaluate
from tamis.fitting import candidate_models, reranker_runs
from tamis.fitting.answer_features import features
from tamis.fitting.calibration import Calibration
from tamis.fitting.folds import Fold, make_folds
from tamis.fitting.guard import ComparedSystem, decide, select
from tamis.fitting.job import run_fit as fit
from tamis.fitting.json_records import from_json, to_json
from tamis.fitting.plan import EXPORT_SECONDS, SIEVE_SECONDS, Plan
from tamis.fitting.plan import DataSizes as Sizes
from tamis.fitting.planner import make_plan, trains_on_folds
from tamis.fitting.query_splits import split_queries
from tamis.fitting.request import FitRequest
from tamis.fitting.selection import required_baselines
from tamis.fitting.sieve import Sieve, load_sieve, rerank_settings
from tamis.fitting.system import System, all_systems, default_system
from tamis.fitting.systems import KINDS, bm25, hybrid
from tamis.fitting.systems.fine_tuned import FineTuned
from tamis.judging import sources_of
from tamis.models import import_model
from tamis.pipeline.rerank import rerank
from tamis.scorers.model_manifest import read_model_manifest, write_model_manifest
from tamis.search.dense import embedding_model
from tamis.search.tune import tune
from tamis.training import trainer
from tamis.types import Ids, Pairs, Qrels, Queries, Query, Run, Scores
from tamis.types.pipeline import Scale

pytest.importorskip("torch", reason="torch is not installed")
POINTS = tuple(f"interpolated weights {share}%" for share in (25, 50, 75))
THINGS = "sieve drum net grain flour fish sort".split()


def collection(folder: Path, *, train: int = 24, test: int = 16, log: int = 6) -> Path:
    """Every query is two words; the document that has both is the answer."""
    folder.mkdir(parents=True)
    pairs = [(one, other) for one in THINGS for other in THINGS if one != other]
    documents = [{"_id": f"d{n:02}", "text": f"a {one} the {other}"}
                 for n, (one, other) in enumerate(pairs)]  # fmt: skip
    (folder / "corpus.jsonl").write_text("\n".join(map(json.dumps, documents)))
    asked = [(f"q{n:03}", *pairs[n % len(pairs)], n // len(pairs))
             for n in range(train + test + log)]  # fmt: skip
    queries = [{"_id": name, "text": f"{one} {other} {'a ' * times}x{name}"}
               for name, one, other, times in asked]  # fmt: skip
    (folder / "queries.jsonl").write_text("\n".join(map(json.dumps, queries)))
    (folder / "qrels").mkdir()
    for split, part in (("train", range(train)), ("test", range(train, train + test))):
        if len(part):
            rows = [f"q{n:03}\td{n % len(pairs):02}\t1" for n in part]
            text = "\n".join(["query-id\tcorpus-id\tscore", *rows])
            (folder / "qrels" / f"{split}.tsv").write_text(text + "\n")
    return folder


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory, tiny_cross_encoder: Path) -> Path:
    out = tmp_path_factory.mktemp("base") / "tiny"
    import_model(tiny_cross_encoder, out, kind="bi-encoder", pooling="mean", max_length=24)
    return out


def request(folder: Path, out: Path, base: Path | None, **options: Any) -> FitRequest:
    given = {"depth": 10, "max_time": 900.0, "threads": 1, **options}
    return FitRequest(str(folder), out, None if base is None else str(base), **given)


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Texts as short as the tiny model takes."""
    monkeypatch.setattr("tamis.fitting.candidate_models.MAX_LENGTH", 24)


def test_with_judgements_everything_is_tried_and_one_way_is_handed_over(
    tmp_path: Path, base: Path
) -> None:
    folder = collection(tmp_path / "docs")
    plan, sieve = fit(request(folder, tmp_path / "s", base))
    assert sieve is not None and plan.has("fine_tuned")
    note = sieve.manifest
    assert (note["verified"], note["kind"]) == (True, "sieve")
    names = [row["name"] for row in note["systems"]]
    assert names[0] == "BM25" and {"base model", "fine-tuned", *POINTS} <= set(names)
    assert sum(row["selected"] for row in note["systems"]) == 1
    assert note["selected"] in names
    refused = [row for row in note["systems"] if not row["selected"]]
    assert all(row["rejected_because"] for row in refused)
    assert not (tmp_path / "s.fitting").exists()
    assert (tmp_path / "s" / "report.html").is_file()
    hits = sieve.search("drum net", top=3)
    assert len(hits) == 3 and hits[0].text.startswith("a ")
    assert tamis.load_sieve(tmp_path / "s").search("drum net", top=3) == hits


def test_a_teacher_and_word_vectors_make_more_models(
    tmp_path: Path, base: Path, tiny_cross_encoder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = collection(tmp_path / "docs", train=60)
    monkeypatch.setattr("tamis.fitting.planner.ALWAYS_FOLDS_BELOW", 50)
    monkeypatch.setattr("tamis.fitting.planner.ONE_PART_FROM", 50)
    monkeypatch.setattr("tamis.fitting.systems.cross_encoder.MIN_LOG_QUERIES", 60)
    vectors = tmp_path / "vectors.txt"
    rows = [f"{word} {number} {number**2 % 7} 1" for number, word in enumerate(THINGS)]
    vectors.write_text("\n".join(rows) + "\n")
    asked = request(
        folder, tmp_path / "s", base, teacher=str(tiny_cross_encoder), word_vectors=str(vectors)
    )
    plan, sieve = fit(asked)
    assert sieve is not None and plan.has("distilled") and plan.has("infused")
    names = {row["name"] for row in sieve.manifest["systems"]}
    assert {"distilled", "infused", "cross-encoder", "pseudo-labelled"} <= names
    assert curve_sizes(sieve) == [0, 10, 20, 40]


def curve_sizes(sieve: Sieve) -> list[int]:
    """On how many queries the points of the learning curve were trained."""
    return [point.queries for point in sieve.result.learning_curve]


def test_what_was_tested_is_what_the_sieve_does(tmp_path: Path, base: Path) -> None:
    folder = collection(tmp_path / "docs")
    _, sieve = fit(request(folder, tmp_path / "s", base))
    assert sieve is not None
    check_tested(folder, sieve)


def hand_over(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Let the guard choose this way, whatever the judgements say."""
    monkeypatch.setattr(
        "tamis.fitting.selection.select",
        lambda *given, **options: replace(select(*given, **options), selected=name),
    )
    monkeypatch.setattr(
        "tamis.fitting.selection.decide",
        lambda *given, **options: replace(decide(*given, **options), selected=name),
    )


def plan_with_vectors(monkeypatch: pytest.MonkeyPatch, used: bool) -> None:
    """Let there be time to encode documents, and let the hybrid be used or not."""
    compared = hybrid.compare_recall
    monkeypatch.setattr("tamis.fitting.job.make_plan", lambda *_: PLAN)
    monkeypatch.setattr(
        "tamis.fitting.systems.hybrid.compare_recall",
        lambda *given: {**compared(*given), "used": used},
    )


def check_tested(folder: Path, sieve: Sieve) -> None:
    """A sieve ranks test queries as well as its note says."""
    opened = tamis.open_collection(folder)
    qrels = opened.qrels["test"]
    asked = opened.queries.select(qrels.queries.positions_in(opened.queries.ids))
    run = sieve.source.search(asked, 10)
    value = evaluate(qrels, {"sieve": run}, ["RR@10"]).mean("sieve", "RR@10")
    assert value == pytest.approx(
        sieve.manifest["test"][sieve.manifest["selected"]]["RR@10"], abs=1e-3
    )


@pytest.mark.parametrize("chosen", ["base model + BM25 (.75)", "fine-tuned", "hybrid"])
def test_a_base_that_only_reads_queries_searches_as_it_was_tested(
    tmp_path: Path, base: Path, chosen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first stage reads queries with the base, not with what encodes its documents."""
    own = tmp_path / "own"
    shutil.copytree(base, own)
    shutil.copytree(base, own / "documents")
    files = pytest.importorskip("safetensors.torch")
    weights = files.load_file(own / "model.safetensors")
    name = next(name for name in weights if name.endswith("layer.0.output.dense.weight"))
    weights[name] = -weights[name]
    files.save_file(weights, own / "model.safetensors", metadata={"format": "pt"})
    write_model_manifest(own, replace(read_model_manifest(own), documents="documents"))
    folder = collection(tmp_path / "docs")
    plan_with_vectors(monkeypatch, used=True)
    hand_over(monkeypatch, chosen)
    _, sieve = fit(request(folder, tmp_path / "s", own))
    assert sieve is not None
    place = "encoder" if chosen == "fine-tuned" else "model"
    assert (sieve.path / place / "documents").is_dir()
    check_tested(folder, load_sieve(tmp_path / "s", threads=1))


@pytest.mark.parametrize(
    ("chosen", "used"),
    [("base model + BM25 (.75)", True), ("fine-tuned", True), ("hybrid", True), ("hybrid", False),
     ("BM25", True)],
)  # fmt: skip
def test_a_sieve_that_searches_by_vectors_holds_its_base_once(
    tmp_path: Path, base: Path, chosen: str, used: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = collection(tmp_path / "docs")
    plan_with_vectors(monkeypatch, used)
    hand_over(monkeypatch, chosen)
    _, sieve = fit(request(folder, tmp_path / "s", base))
    assert sieve is not None and sieve.manifest["selected"] == chosen
    there = [(sieve.path / name).is_dir() for name in ("model", "encoder")]
    wanted = {("hybrid", False): [False, True], ("BM25", True): [False, False]}
    assert there == wanted.get((chosen, used), [True, False])
    brought = sieve.path / "model" / "documents" / "model.safetensors"
    assert brought.is_file() == (chosen == "fine-tuned")
    if chosen in ("hybrid", "BM25"):  # sums of normalised scores say nothing across queries
        assert (sieve.calibration is None) == (not used)
        stage = sieve.pipeline.stage
        assert (stage and stage["weight"]) == (0.0 if (chosen, used) == ("hybrid", True) else None)
    check_tested(folder, load_sieve(tmp_path / "s", threads=1))


def test_few_judged_queries_have_a_learning_curve_over_all_folds(
    tmp_path: Path, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = collection(tmp_path / "docs", train=60)
    trained: list[Fold] = []
    real = FineTuned.train_fold

    def train_fold(self: FineTuned, fold: Fold, fit: Any) -> Path:
        trained.append(fold)
        return real(self, fold, fit)

    monkeypatch.setattr(FineTuned, "train_fold", train_fold)
    plan, sieve = fit(request(folder, tmp_path / "s", base))
    assert sieve is not None and plan.has("learning_curve") and plan.folds == 3
    drawn = [fold for fold in trained if fold.share < 1]
    assert {fold.key for fold in drawn} == {
        f"fold {fold} {count} queries" for fold in (1, 2, 3) for count in (10, 20)
    }
    assert all(not set(fold.train) & set(fold.held_out) for fold in drawn)
    assert curve_sizes(sieve) == [0, 10, 20, 40]
    fewer = make_plan(Sizes(42, 29, 16, 30, 10, 1.0, "bi-encoder"), 1e-3, 60.0)
    assert fewer.has("fine_tuned") and not fewer.has("learning_curve")


def test_a_learning_curve_that_cannot_be_drawn_stops_nothing(
    tmp_path: Path, base: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    folder = collection(tmp_path / "docs", train=36)
    real = candidate_models.train_model

    def train_model(*given: Any) -> Path:
        if given[-1].share < 1:
            raise InputError("there is nothing to learn from")
        return real(*given)

    monkeypatch.setattr("tamis.fitting.systems.fine_tuned.train_model", train_model)
    with caplog.at_level("INFO", "tamis"):
        plan, sieve = fit(request(folder, tmp_path / "s", base))
    assert sieve is not None and plan.has("learning_curve")
    assert curve_sizes(sieve) == [0, 24]
    assert "no point at 12 queries: there is nothing" in caplog.text


def test_steps_that_are_left_out_are_not_waited_for(
    tmp_path: Path, base: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    real = reranker_runs._train_in_time

    def train(fit: Any, kind: Any, *given: Any) -> Path | None:
        if kind.trainings:
            raise TrainingError("there is no time left for it")
        return real(fit, kind, *given)

    monkeypatch.setattr(reranker_runs, "_train_in_time", train)
    monkeypatch.setattr("tamis.fitting.job.make_plan", lambda *_: PLAN)
    caplog.set_level("INFO", "tamis")
    fit(request(collection(tmp_path / "docs"), tmp_path / "s", base))
    steps = [text for text in caplog.messages if text.startswith("step ")]
    planned = [step.key for step in PLAN.steps if step.planned]
    assert steps[1].startswith(f"step 2 of {len(planned)}, ")
    assert steps[2].startswith(f"step 3 of {len(planned) - 1}, ")


def test_without_judgements_nothing_is_claimed(tmp_path: Path, base: Path) -> None:
    folder = collection(tmp_path / "docs", train=0, test=0, log=8)
    _, sieve = fit(request(folder, tmp_path / "s", base))
    assert sieve is not None and not sieve.verified
    assert sieve.manifest["selected"] == "hybrid" and sieve.manifest["test"] == {}
    assert sieve.manifest["reason"] == "there are no judgements: nothing was tested"
    assert sieve.queries is not None and len(sieve.queries) == 8
    assert sieve.search("drum net") and sieve.calibration is None
    assert sieve.source.spec()["source"] == "then", "the base model finds the passage of a hit"
    recorded = embedding_model(sieve.index)
    assert recorded is not None and recorded.reference == str(base.resolve()) and recorded.sha256
    pool_tokens = [source.spec()["source"] for source in sources_of(sieve)]
    assert pool_tokens == ["hybrid", "index", "dense"]


@pytest.mark.parametrize("chosen", ["hybrid", "base model + BM25 (.50)", "BM25"])
def test_queries_without_an_answer_count_for_the_threshold(
    tmp_path: Path, base: Path, chosen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan_with_vectors(monkeypatch, used=chosen != "base model + BM25 (.50)")
    hand_over(monkeypatch, chosen)
    _, before = fit(request(collection(tmp_path / "answered"), tmp_path / "a", base))
    folder = collection(tmp_path / "docs")
    for split, names in (("train", ("q040", "q041", "q042")), ("test", ("q043", "q044"))):
        with (folder / "qrels" / f"{split}.tsv").open("a") as file:
            file.writelines(f"{name}\td00\t0\n" for name in names)
    _, after = fit(request(folder, tmp_path / "s", base))
    assert before is not None and after is not None
    assert after.manifest["data"]["queries_judged_to_have_no_answer"] == 5
    for name, more in (("calibration", 3), ("threshold_test", 2)):
        assert after.manifest[name]["queries"] == before.manifest[name]["queries"] + more
    known = {"BM25": ["retriever"]}
    assert after.manifest["calibration"]["names"] == known.get(chosen, ["model", "retriever"])
    answerable = [each.manifest["threshold_test"]["answerable"] for each in (before, after)]
    assert answerable[0] == answerable[1]


@pytest.mark.parametrize("count", [1, 2, 60])
def test_queries_without_an_answer_are_in_one_part_only(count: int) -> None:
    asked = Queries.of([Query(f"q{n}", f"words {n} {'x' * n}") for n in range(count + 1)])
    none = {f"q{n}": {"d1": 0} for n in range(count)}
    right = {f"q{count}": {"d1": 1}}
    parts = split_queries(asked, {"all": Qrels.from_dict(none | right)}, Ids.of(["d1"]))
    learn, test = (set(each.ids) for each in parts.unanswerable)
    assert learn | test == set(none) and not learn & test
    assert len(test) == (24 if count == 60 else 0)
    assert not test & set(parts.log.ids)
    splits = {"train": Qrels.from_dict({f"q{count}": {"d1": 0}}), "test": Qrels.from_dict(right)}
    parts = split_queries(asked, splits, Ids.of(["d1"]))
    assert [len(each) for each in parts.unanswerable] == [0, 0]  # another split has the answer


def test_very_few_judgements_hold_on_to_the_usual_way(tmp_path: Path, base: Path) -> None:
    folder = collection(tmp_path / "docs", train=2, test=16)
    plan, sieve = fit(request(folder, tmp_path / "s", base))
    assert sieve is not None and not plan.has("fine_tuned")
    selection = sieve.result.selection
    assert selection is not None
    assert selection.queries == 2 and len(selection.systems) == 6
    assert selection.selected == "hybrid"  # two queries are never significant
    assert (sieve.result.base_system, sieve.result.baseline) == ("base model", "BM25")
    report = (tmp_path / "s" / "report.html").read_text("utf-8")
    assert "nothing was trained, so nothing had to be held out" in report
    assert sieve.result.default_system == "hybrid" and sieve.result.required == ("hybrid",)


def test_where_nothing_is_trained_all_judged_queries_are_compared_on() -> None:
    sizes = Sizes(50_000, 700, 300, 700, 50, 1.0, "bi-encoder", query_seconds=0.6)
    plan = make_plan(sizes, 0.01, 900)
    assert plan.has("hybrid") and not plan.has("fine_tuned")
    (only,) = rounds(700, plan)
    assert len(only.held_out) == 600 and not len(only.train)
    plan = make_plan(replace(sizes, num_documents=200_000, judged=400, log=0), 0.03, 1_800)
    assert not plan.has("hybrid") and not plan.has("fine_tuned") and plan.folds == 0
    (only,) = rounds(400, plan)
    assert len(only.held_out) == plan.selection_queries > 300 and plan.seconds <= 1_800
    told = {step.key: step.planned for step in plan.steps}
    assert told == {"bm25": True, "hybrid": False, "base_model": True, "fine_tuned": False}


def test_a_base_that_does_not_fit_the_time_is_in_the_plan() -> None:
    plan = make_plan(Sizes(1_000, 50, 50, 50, 50, 1.0, "bi-encoder"), 0.5, 10)
    told = {step.key: step.planned for step in plan.steps}
    assert told == {"bm25": True, "hybrid": False, "base_model": False}
    assert plan.steps[-1].seconds > 10


def test_what_is_held_out_is_what_there_is_time_to_compare_on() -> None:
    sizes = Sizes(2_000, 512, 300, 512, 50, 1.0, "bi-encoder", query_seconds=0.021)
    plan = make_plan(sizes, 0.01, 1_800)
    folds = rounds(512, plan)
    assert plan.size_of("learning_curve") == 1 and [len(fold.held_out) for fold in folds] == [
        171,
        171,
        170,
    ]
    assert all(len(fold.train) + len(fold.held_out) == 512 for fold in folds)
    few = replace(plan, selection_queries=100)
    folds = rounds(512, few)
    assert [(len(fold.train), len(fold.held_out)) for fold in folds] == [
        (341, 34),
        (341, 34),
        (342, 34),
    ]
    assert all(not set(fold.train) & set(fold.held_out) for fold in folds)
    hurried = make_plan(sizes, 0.01, 400)
    (only,) = rounds(512, hurried)  # not all that the recipe wants: one part will do
    assert plan.size_of("fine_tuned") > hurried.size_of("fine_tuned") > 0
    assert (len(only.train), len(only.held_out)) == (341, 171)
    many = make_plan(replace(sizes, judged=3_000), 0.01, 900)
    (only,) = rounds(3_000, many)
    assert (len(only.train), len(only.held_out)) == (2_700, 300)


def test_what_is_there_already_and_what_is_not_wanted_takes_no_time() -> None:
    sizes = Sizes(50_000, 100, 100, 0, 50, 1.0, "bi-encoder", query_seconds=0.002)
    plan = make_plan(sizes, 0.01, 1_800)
    assert plan.seconds_of("hybrid") == 500 and plan.has("learning_curve")
    assert make_plan(replace(sizes, encoded=True), 0.01, 1_800).seconds_of("hybrid") == 0
    exported = replace(sizes, exports=True)
    assert make_plan(exported, 0.01, 1_800).seconds_of("hybrid") == 500 + EXPORT_SECONDS
    assert plan.seconds_of("bm25") == 2 + SIEVE_SECONDS + 50_000 / 5_000
    assert not make_plan(replace(sizes, learning_curve=False), 0.01, 1_800).has("learning_curve")


def test_only_queries_are_run_where_documents_keep_their_vectors() -> None:
    sizes = Sizes(20_000, 512, 300, 0, 50, 1.0, "bi-encoder", query_seconds=0.001)
    plan = make_plan(sizes, 0.02, 1_800)
    wanted = 4 * 32 * 16  # four epochs of 32 steps of 16 queries, in three folds and at last
    assert (plan.folds, plan.size_of("fine_tuned")) == (3, wanted)
    asked = 512 + 300 + 512
    assert plan.seconds_of("fine_tuned") == pytest.approx(7 * 0.001 * 4 * wanted + 0.001 * asked)
    other = make_plan(replace(sizes, base_kind="cross-encoder"), 0.02, 1_800)
    assert other.folds == 1 and other.seconds_of("fine_tuned") > 5 * plan.seconds_of("fine_tuned")
    assert other.size_of("fine_tuned") >= 320


def test_where_not_all_documents_can_be_encoded_some_judgements_are_learnt_from() -> None:
    sizes = Sizes(200_000, 5_000, 300, 0, 50, 1.0, "bi-encoder", query_seconds=0.002)
    plan = make_plan(sizes, 0.01, 1_800)
    assert not plan.has("hybrid") and plan.has("fine_tuned") and plan.folds == 1
    learnt = plan.size_of("fine_tuned")
    assert 320 < learnt < 5_000
    new = 0.01 * 32 * (5_000 - plan.selection_queries) / 5_000  # of the others documents are known
    compared = 2 * plan.selection_queries + plan.test_queries
    wanted = learnt * (7 * 0.002 * 2 + new) + 0.002 * compared
    assert plan.seconds_of("fine_tuned") == pytest.approx(wanted)
    assert plan.seconds <= 1_800


def rounds(judged: int, plan: Plan) -> list[Fold]:
    """The folds in which systems are compared, by as many judged queries."""
    qrels = Qrels.from_dict({f"q{n:03}": {"d": 1} for n in range(judged)})
    asked = Queries.of(Query(name, f"{name} {number**3}") for number, name in enumerate(qrels))
    splits: Any = SimpleNamespace(train=qrels, queries_of=lambda _: asked)
    return make_folds(splits, plan, 0, trained=trains_on_folds(plan))


def test_judgements_only_to_test_on(tmp_path: Path, base: Path) -> None:
    folder = collection(tmp_path / "docs", train=0)
    _, sieve = fit(request(folder, tmp_path / "s", base))
    assert sieve is not None and sieve.verified
    decision = sieve.result.decision
    assert decision is not None and decision.selection.selected == "hybrid"
    assert decision.selection.queries == 0 and sieve.result.selected == decision.selected
    assert set(sieve.manifest["test"]) >= {"BM25", "base model", "hybrid"}
    if sieve.result.selected == "hybrid":
        assert sieve.result.truncation is None
    cost = {system.name: system.milliseconds for system in sieve.result.systems}
    assert cost["hybrid"] and cost["base model"], "both are timed"
    assert cost["hybrid"] < cost["base model"], "nothing is scored that nobody looks at"


def test_without_a_model_words_are_all_there_is(tmp_path: Path) -> None:
    folder = collection(tmp_path / "docs")
    _, sieve = fit(request(folder, tmp_path / "s", None))
    assert sieve is not None and sieve.stage is None
    assert sieve.manifest["selected"] == "BM25" and sieve.search("drum net")


PLAN = make_plan(Sizes(42, 24, 16, 30, 10, 1.0, "bi-encoder"), 1e-3, 60.0)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, base: Path) -> tuple[Path, Sieve]:
    """A collection, and the sieve of a fit that was not stopped."""
    folder = tmp_path_factory.mktemp("whole")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tamis.fitting.candidate_models.MAX_LENGTH", 24)
        patch.setattr("tamis.fitting.job.make_plan", lambda *_: PLAN)
        _, sieve = fit(request(collection(folder / "docs"), folder / "s", base))
    assert sieve is not None
    return folder / "docs", sieve


@pytest.mark.parametrize("killed_at", [1, 9, 30, 60, 100, 140, 170])
def test_killed_at_any_moment_it_goes_on_to_the_same_sieve(
    killed_at: int,
    tmp_path: Path,
    base: Path,
    whole: tuple[Path, Sieve],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder, wanted = whole
    asked = request(folder, tmp_path / "s", base)
    monkeypatch.setattr("tamis.fitting.job.make_plan", lambda *_: PLAN)
    left = [killed_at]
    real = durable._sync

    def sync(path: Path) -> None:
        left[0] -= 1
        if left[0] == 0:
            raise KeyboardInterrupt
        real(path)

    monkeypatch.setattr("tamis.durable._sync", sync)
    with pytest.raises(KeyboardInterrupt):
        fit(asked)
    assert not (tmp_path / "s").exists()
    if (tmp_path / "s.fitting").exists():  # a step was done
        with pytest.raises(OutputError, match="left of a fit that was stopped"):
            fit(asked)
    else:
        assert killed_at < 100
    _, sieve = fit(asked, resume=True)
    assert sieve is not None
    for name in ("selected", "test", "selection", "decision", "calibration", "pipeline"):
        assert sieve.manifest[name] == wanted.manifest[name], name
    assert sieve.search("drum net") == wanted.search("drum net")


@pytest.mark.parametrize("moment", ["before", "within", "after"])
def test_killed_when_it_tidies_up_it_ends_well_on_resume(
    moment: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    folder, real, out = collection(tmp_path / "docs"), shutil.rmtree, tmp_path / "s"
    asked = request(folder, out, None)

    def killed(path: Path, **options: Any) -> None:
        if ".fitting" not in Path(path).name or not Path(path).exists():
            real(path, **options)
            return
        if moment == "within":
            next(file for file in sorted(Path(path).rglob("*")) if file.is_file()).unlink()
        if moment == "after":
            real(path, **options)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("shutil.rmtree", killed)
        if moment == "before":
            patch.setattr("tamis.fitting.job.remove_workspace", lambda _: 1 / 0)
        with pytest.raises((KeyboardInterrupt, ZeroDivisionError)):
            fit(asked)
    note = (out / "tamis.json").read_bytes()
    with pytest.raises(OutputError, match="exists already"):
        fit(asked)
    with pytest.raises(OutputError, match="exists already"):
        fit(request(folder, out, None, seed=1), resume=True)
    with caplog.at_level("INFO", "tamis"):
        plan, sieve = fit(asked, resume=True)
    assert sieve is not None and plan.test_queries == sieve.manifest["plan"]["test_queries"]
    assert "is complete" in caplog.text
    assert (out / "tamis.json").read_bytes() == note
    assert sorted(path.name for path in tmp_path.iterdir()) == ["docs", "s"]


def test_a_fit_of_another_time_is_not_taken_for_the_one_that_was_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = collection(tmp_path / "docs")
    asked = request(folder, tmp_path / "s", None)
    fit(asked)
    monkeypatch.setattr("tamis.fitting.job.retrieve", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        fit(asked, force=True)
    with pytest.raises(OutputError, match="exists already"):
        fit(asked, resume=True)
    assert (tmp_path / "s.fitting").is_dir()


def test_a_sieve_set_aside_by_a_killed_writer_is_put_back(tmp_path: Path) -> None:
    asked = request(collection(tmp_path / "docs"), tmp_path / "s", None)
    fit(asked)
    (tmp_path / "s").rename(tmp_path / ".s.old")
    with pytest.raises(OutputError, match="exists already"):
        fit(asked)
    (tmp_path / "s").rename(tmp_path / ".s.old")
    assert load_sieve(tmp_path / "s").search("drum net")


def test_another_request_does_not_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = collection(tmp_path / "docs")
    monkeypatch.setattr(
        "tamis.fitting.job.retrieve", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt)
    )
    with pytest.raises(KeyboardInterrupt):
        fit(request(folder, tmp_path / "s", None))
    with pytest.raises(OutputError, match=r"begun with measure 'RR@10', not 'AP'"):
        fit(request(folder, tmp_path / "s", None, measure="AP"), resume=True)
    test = str(folder / "qrels" / "test.tsv")
    for other in ({"seed": 1}, {"depth": 9}, {"qrels": {"test": test}}, {"on_error": "skip"}):
        with pytest.raises(OutputError, match="was begun with"):
            fit(request(folder, tmp_path / "s", None, **other), resume=True)
    monkeypatch.setattr("tamis.fitting.request.SIEVE_LAYOUT", 99)
    with pytest.raises(OutputError, match="begun by another version of tamis"):
        fit(request(folder, tmp_path / "s", None), resume=True)


def test_files_that_change_are_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = collection(tmp_path / "docs")
    run, judged = tmp_path / "own.trec", tmp_path / "own.tsv"
    run.write_text("q030 Q0 d01 1 1 x\n")
    judged.write_text("q030 0 d01 1\n")
    given: dict[str, Any] = {"user_run": str(run), "qrels": {"test": str(judged)}}
    with monkeypatch.context() as patch:
        patch.setattr("tamis.fitting.job.retrieve", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            fit(request(folder, tmp_path / "s", None, **given))
    for file in (run, judged):
        before = file.read_text()
        file.write_text(before + before.replace("d01", "d02"))
        with pytest.raises(OutputError, match="begun with other files"):
            fit(request(folder, tmp_path / "s", None, **given), resume=True)


def test_more_time_does_not_change_what_is_learnt_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = collection(tmp_path / "docs", train=39)
    monkeypatch.setattr("tamis.fitting.job.MAX_TRAIN_QUERIES", 20)
    with monkeypatch.context() as patch:
        patch.setattr("tamis.fitting.job.retrieve", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            fit(request(folder, tmp_path / "s", None, max_time=1800.0))
    _, sieve = fit(request(folder, tmp_path / "s", None, max_time=3600.0), resume=True)
    assert sieve is not None and sieve.result.queries.train == 20


def test_nothing_leaks(tmp_path: Path, base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Models do not learn from what they are compared on; nothing but the test sees the test."""
    folder = collection(tmp_path / "docs", train=60)
    learnt: dict[str, set[str]] = {}
    held: dict[str, set[str]] = {}
    calibrated: list[int] = []
    asked: list[set[str]] = []
    real, scored, tuning, fitted = (
        trainer.Job, reranker_runs.score_fold, tune, Calibration.fit,
    )  # fmt: skip

    def job(examples: Any, library: Any, recipe: Any, base: Any, out: Path, *rest: Any,
            **named: Any) -> Any:  # fmt: skip
        learnt[out.name] = {examples.queries.ids[n] for n in set(examples.query.tolist())}
        return real(examples, library, recipe, base, out, *rest, **named)

    def seen(fit: Any, fold: Any, *rest: Any) -> Any:
        held[fold.key] = set(fold.held_out)
        return scored(fit, fold, *rest)

    def tuned(index: Any, queries: Queries, qrels: Qrels, *rest: Any, **named: Any) -> Any:
        asked.append({*queries.ids, *qrels.queries})
        return tuning(index, queries, qrels, *rest, **named)

    def calibration(rows: Any, labels: Any, query: Any, **named: Any) -> Any:
        calibrated.append(len(set(query.tolist())))
        return fitted(rows, labels, query, **named)

    monkeypatch.setattr(candidate_models, "Job", job)
    monkeypatch.setattr("tamis.fitting.selection.score_fold", seen)
    monkeypatch.setattr("tamis.fitting.learning_curve.score_fold", seen)
    monkeypatch.setattr(bm25, "tune", tuned)
    monkeypatch.setattr(Calibration, "fit", calibration)
    _, sieve = fit(request(folder, tmp_path / "s", base))
    assert sieve is not None
    train = {f"q{n:03}" for n in range(60)}
    folds = {name: part for name, part in held.items() if name in ("fold 1", "fold 2", "fold 3")}
    assert set().union(*folds.values()) == train and len(folds) == 3 < len(held)
    for name, part in held.items():
        if name in folds:
            assert learnt[f"fine_tuned {name}"] == train - part
        else:  # a point of the learning curve
            assert learnt[f"fine_tuned {name}"] < train - part
    assert learnt["fine_tuned all"] == train
    assert all(names <= train for names in asked) and asked
    assert calibrated in ([], [60])  # where a model was chosen


def test_what_the_test_decides_is_handed_over(
    tmp_path: Path, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = collection(tmp_path / "docs")

    monkeypatch.setattr(
        "tamis.fitting.selection.decide",
        lambda *given, **named: replace(decide(*given, **named), selected="BM25"),
    )
    monkeypatch.setattr(
        "tamis.fitting.selection.select",
        lambda *given, **named: replace(select(*given, **named), selected="fine-tuned"),
    )
    _, sieve = fit(request(folder, tmp_path / "s", base))
    assert sieve is not None and sieve.manifest["selected"] == "BM25"
    assert sieve.pipeline.stage is None and not (sieve.path / "model").exists()


def test_a_choice_is_tested_against_the_usual_way(
    tmp_path: Path, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = collection(tmp_path / "docs")
    plan_with_vectors(monkeypatch, used=True)
    monkeypatch.setattr(
        "tamis.fitting.selection.select",
        lambda *given, **named: replace(select(*given, **named), selected="base model"),
    )
    _, sieve = fit(request(folder, tmp_path / "s", base))
    assert sieve is not None and sieve.result.decision is not None
    against = [one.baseline for one in sieve.result.decision.test.comparisons]
    assert against == ["BM25", "hybrid"]


def test_a_sieve_reranks_its_own_candidates_as_it_searches(
    tmp_path: Path, base: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = collection(tmp_path / "docs", log=60)
    plan_with_vectors(monkeypatch, used=True)
    hand_over(monkeypatch, "base model + BM25 (.50)")
    _, sieve = fit(request(folder, tmp_path / "s", base))
    assert sieve is not None and sieve.pipeline.retriever == "hybrid"
    find = ["search", "s/index", "docs/queries.jsonl", "--ranking", "hybrid", "-o"]
    again = ["-c", "s/index", "--model", "s", "--threads", "1", "-o"]
    assert run([*find, "found.parquet"]) == 0 and run([*find, "found.trec"]) == 0
    assert run(["search", "s", "docs/queries.jsonl", "-o", "all.parquet"]) == 0
    capsys.readouterr()
    assert run(["rerank", "found.parquet", *again, "again.parquet"]) == 0
    assert "note" not in capsys.readouterr().err
    whole, done = (tamis.read_run(f"{name}.parquet") for name in ("all", "again"))
    assert all(whole[query].ids == done[query].ids for query in whole.queries.ids)
    texts = ["--queries", "docs/queries.jsonl"]
    assert run(["rerank", "found.trec", *again, "other.trec", *texts]) == 0
    assert "fused with the scores of your run" in capsys.readouterr().err


def test_a_run_of_ones_own_that_loses_is_not_selected(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder, bad = collection(tmp_path / "docs"), tmp_path / "bad.trec"
    lines = [f"q{n:03} Q0 d{(n + k) % 42:02} {k} {9 - k} x" for n in range(46) for k in range(1, 9)]
    bad.write_text("\n".join([*lines, "q001 Q0 gone 9 9 x"]))
    with caplog.at_level("INFO", "tamis"):
        _, sieve = fit(request(folder, tmp_path / "s", None, user_run=str(bad)))
    assert sieve is not None and sieve.manifest["selected"] == "BM25"
    assert "1 of 369 candidates" in caplog.text
    assert (
        sieve.result.selection is not None
        and "below BM25" in sieve.result.selection.rejections["your run"]
    )
    bad.write_text("q001 Q0 gone 9 9 x\n")
    with pytest.raises(InputError, match="no document of this collection"):
        fit(request(folder, tmp_path / "t", None, user_run=str(bad)))
    endless = np.array([9.0, np.inf, 8.0])
    run = Run.from_dict({"q001": {"d01": 2.0}, "q002": {"d02": 1.0, "d03": 0.5}})
    run = Run(run.queries, run.docs, run.offsets, run.doc, endless.astype(np.float32))
    tamis.write_run(run, tmp_path / "endless.parquet")
    with pytest.raises(InputError, match=r"endless.parquet has a score of inf for query 'q002'"):
        fit(request(folder, tmp_path / "u", None, user_run=str(tmp_path / "endless.parquet")))


@pytest.mark.parametrize("train", [0, 6, 24])
def test_a_first_stage_of_ones_own_that_wins_is_handed_over(
    train: int, tmp_path: Path, base: Path
) -> None:
    folder, good = collection(tmp_path / "docs", train=train), tmp_path / "good.trec"
    lines = [f"q{n:03} Q0 d{(n + k) % 42:02} {k} {9 - k} x" for n in range(46) for k in range(9)]
    good.write_text("\n".join(lines))
    _, sieve = fit(request(folder, tmp_path / "s", base, user_run=str(good)))
    assert sieve is not None and sieve.manifest["test"]["your run"]["RR@10"] == 1
    value = sieve.manifest["test"][sieve.result.selected]["RR@10"]
    assert sieve.result.selected == "your run" or value > 0.9
    decision = sieve.result.decision
    assert decision is not None
    against = [one.baseline for one in decision.test.comparisons]
    assert decision.selection.selected == "your run" or "your run" in against


def test_queries_that_are_all_alike(tmp_path: Path, base: Path) -> None:
    folder = collection(tmp_path / "docs", train=45, test=0)
    rows = [{"_id": f"q{n:03}", "text": f"how do I sort the grain with drum net sieve fish {n}"}
            for n in range(45)]  # fmt: skip
    (folder / "queries.jsonl").write_text("\n".join(map(json.dumps, rows)))
    _, sieve = fit(request(folder, tmp_path / "s", base))
    assert sieve is not None
    assert (sieve.manifest["verified"], sieve.manifest["selected"]) == (False, "hybrid")


def test_a_sieve_does_not_lie_among_its_documents(tmp_path: Path) -> None:
    folder = collection(tmp_path / "docs")
    with pytest.raises(OutputError, match="lies among the documents"):
        fit(request(folder, folder / "my.sieve", None))


def test_going_on_keeps_what_is_there_and_sees_what_changed(
    tmp_path: Path, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = collection(tmp_path / "docs")
    asked = request(folder, tmp_path / "s", base)
    with monkeypatch.context() as patch:
        patch.setattr("tamis.fitting.job.retrieve", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            fit(asked)
    left = sorted(path.name for path in (tmp_path / "s.fitting").iterdir())
    fit(asked, dry_run=True, resume=True)
    fit(asked, dry_run=True, force=True)
    assert sorted(path.name for path in (tmp_path / "s.fitting").iterdir()) == left
    with (folder / "corpus.jsonl").open("a") as file:
        file.write('\n{"_id": "new", "text": "sieve"}')
    with pytest.raises(OutputError, match="begun with other files"):
        fit(asked, resume=True)
    _, sieve = fit(request(folder, tmp_path / "s", base, max_time=50.0), force=True)
    assert sieve is not None and "new" in sieve.index


def test_a_wrong_name_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no file or folder"):
        fit(request(tmp_path / "nowhere", tmp_path / "s", None))
    folder = collection(tmp_path / "docs")
    (tmp_path / "others.trec").write_text("other Q0 d01 1 1 x\n")
    none: dict[str, Any] = {"base": None}
    for wrong in (
        {"user_run": str(tmp_path / "no.run")}, {"user_run": str(tmp_path / "others.trec")},
        {"word_vectors": "no.vec"}, {"teacher": "no/m"}, {"base": "no/m"}, {"base": tmp_path},
    ):  # fmt: skip
        with pytest.raises(InputError):
            fit(request(folder, tmp_path / "s", **(none | wrong)), dry_run=True)
        with pytest.raises(InputError):
            fit(request(folder, tmp_path / "s", **(none | wrong)))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["docs", "others.trec"]


def test_nothing_but_a_sieve_is_replaced(tmp_path: Path) -> None:
    folder = collection(tmp_path / "docs")
    for out in (folder, tmp_path, Path()):
        with pytest.raises(OutputError):
            fit(request(folder, out, None), force=True)
    assert (folder / "corpus.jsonl").exists()


def test_when_time_runs_out_what_is_there_is_used(
    tmp_path: Path, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = collection(tmp_path / "docs")
    monkeypatch.setattr("tamis.fitting.job.make_plan", lambda *_: PLAN)
    _, sieve = fit(request(folder, tmp_path / "none", base, max_time=1e-6))
    assert sieve is not None
    names = {row["name"] for row in sieve.manifest["systems"]}
    assert "base model" in names and not {"fine-tuned", POINTS[1]} & names
    change = monkeypatch.setattr  # time for one model of a training is time for the others
    change("tamis.fitting.workspace.Workspace.elapsed", 30.0)
    change(Plan, "seconds_of", lambda plan, key: 100.0 if key == "fine_tuned" else 0.0)
    _, sieve = fit(request(folder, tmp_path / "both", base, max_time=60.0))
    assert sieve is not None
    assert {"fine-tuned", POINTS[1]} <= {row["name"] for row in sieve.manifest["systems"]}


def test_an_existing_sieve_is_refused(tmp_path: Path) -> None:
    folder = collection(tmp_path / "docs")
    fit(request(folder, tmp_path / "s", None))
    with pytest.raises(OutputError, match="exists already"):
        fit(request(folder, tmp_path / "s", None))
    fit(request(folder, tmp_path / "s", None), force=True)


def test_a_fusion_is_that_of_the_stage() -> None:
    class Lengths:
        scale: Scale = "regression"

        def score(self, pairs: Pairs) -> Scores:
            lengths = np.array([len(text) for text in pairs.texts], np.float32)
            return Scores(lengths[pairs.index[:, 1]], np.zeros(len(pairs), np.int32))

    documents = [tamis.Document(f"d{n}", "x" * (n * 7 % 5 + 1)) for n in range(8)]
    first = Run.from_dict({"q": {f"d{n}": 9.0 - n for n in range(8)}})
    first = first.with_queries(Queries.of([Query("q", "x")]))
    words = first.with_extra(lexical_score=np.array([1, 7, 0, 3, 5, 2, 9, 8], np.float32))
    kinds = {kind.key: kind for kind in KINDS}
    for candidates, key, column in ((first, "bm25", None), (words, "hybrid", "lexical_score")):
        raw = rerank(Lengths(), documents, depth=6)(candidates)
        retriever: Any = kinds[key]
        base: Any = kinds["base_model"]
        for system in all_systems([retriever], retriever, [base]):
            if system.weight is not None:
                fuse_with_column = column if system.weight else None
                staged = rerank(
                    Lengths(),
                    documents,
                    depth=6,
                    interpolate=system.weight,
                    fuse_with_column=fuse_with_column,
                )(candidates)
                mine = system.rank(candidates, raw)
                assert mine == staged
                assert np.array_equal(features(mine), features(staged))
                known = (
                    candidates.extra["lexical_score"][mine.doc]
                    if column
                    else mine.extra["previous_score"]
                )
                assert features(mine)[:, 1].tolist() == known.tolist()


def test_a_cross_encoder_is_fused_with_the_hybrid_and_embeddings_only_with_words() -> None:
    first = Run.from_dict({"q": {"a": 3.0, "b": 2.0, "c": 0.0}})
    found = first.with_extra(lexical_score=np.array([0, 4, 2], np.float32))
    scored = Run.from_dict({"q": {"a": 0.0, "b": 0.0, "c": 1.0}}).with_extra(
        previous_score=np.array([0, 2, 3], np.float32),
        lexical_score=np.array([2, 4, 0], np.float32), passage=np.zeros(3, np.int32),
    )  # fmt: skip
    assert scored.docs.take(scored.doc) == ["c", "b", "a"]
    kinds: dict[str, Any] = {kind.key: kind for kind in KINDS}
    rerankers = [kinds["base_model"], kinds["cross_encoder"]]
    systems = all_systems([kinds["bm25"], kinds["hybrid"]], kinds["hybrid"], rerankers)
    orders = {"base_model": ["b", "c", "a"], "cross_encoder": ["a", "b", "c"]}
    for system in systems:
        if system.reranker is not None and system.weight == 0.25:
            assert system.rank(found, scored)["q"].ids == orders[system.reranker.key]


def test_a_run_is_fused_as_the_sieve_fuses_what_it_finds(
    tmp_path: Path, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan_with_vectors(monkeypatch, used=True)
    hand_over(monkeypatch, "base model + BM25 (.50)")
    _, sieve = fit(request(collection(tmp_path / "docs"), tmp_path / "s", base))
    assert sieve is not None
    plain = Run.from_dict({"q": {"d01": 1.0}})
    lexical = plain.with_extra(lexical_score=np.ones(1, np.float32))
    settings = rerank_settings(sieve, lexical)
    assert (settings.weight, settings.column, settings.notes) == (0.5, "lexical_score", ())
    settings = rerank_settings(sieve, plain)
    assert settings.column is None and "the sieve fuses with those of BM25" in settings.notes[0]
    assert rerank_settings(sieve, lexical, 0.9).weight == 0.9


def test_a_cross_encoder_scores_every_candidate_of_every_query_anew() -> None:
    sizes = Sizes(1_000, 60, 300, 5_000, 50, 1.0, "bi-encoder", query_seconds=0.001)
    plan = make_plan(sizes, 0.01, 20_000)
    pair = 0.01 + 0.001  # the text, and the query with it
    scored = (60 + 300) * 50 * pair
    trained = 3.5 * pair * 8_000 * 5  # pseudo-labels, three folds, and at last all
    assert plan.seconds_of("cross_encoder") == pytest.approx(trained + scored)
    assert plan.seconds_of("pseudo_labelled") == pytest.approx(scored)
    aligned = make_plan(replace(sizes, word_vectors=True), 0.01, 20_000)
    texts = 3.5 * pair * aligned.size_of("infused") * 5
    assert aligned.seconds_of("infused") == pytest.approx(texts + scored)


def test_fewer_than_ten_judged_queries_are_offered_a_cross_encoder_where_there_is_time() -> None:
    sizes = Sizes(1_000, 8, 300, 5_000, 50, 1.0, "bi-encoder", query_seconds=0.001)
    plan = make_plan(sizes, 0.01, 1_800)
    assert plan.folds == 0 and plan.has("pseudo_labelled") and not plan.has("cross_encoder")
    assert plan.seconds_of("pseudo_labelled") == pytest.approx(0.011 * (3.5 * 8_000 + 308 * 50))
    assert plan.size_of("pseudo_labelled") == 8_000
    (only,) = rounds(8, plan)
    assert len(only.held_out) == 8 and not len(only.train)
    for other in (replace(sizes, judged=0), replace(sizes, log=79)):
        assert not make_plan(other, 0.01, 1_800).has("pseudo_labelled")
    hurried = make_plan(sizes, 0.01, 300)
    assert [step.planned for step in hurried.steps if step.name == "pseudo-labelled"] == [False]


def test_eight_judged_queries_and_a_cross_encoder_fused_with_the_hybrid(
    tmp_path: Path, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = collection(tmp_path / "docs", train=8, log=16)
    monkeypatch.setattr("tamis.fitting.systems.cross_encoder.MIN_LOG_QUERIES", 20)
    hand_over(monkeypatch, "pseudo-labelled + hybrid (.50)")
    plan, sieve = fit(request(folder, tmp_path / "s", base))
    assert sieve is not None and plan.has("pseudo_labelled") and not plan.has("fine_tuned")
    assert sieve.manifest["selected"] == "pseudo-labelled + hybrid (.50)"
    assert sieve.pipeline.stage and "column" not in sieve.pipeline.stage
    assert [(sieve.path / name).is_dir() for name in ("model", "encoder")] == [True, True]
    assert set(sieve.manifest["labels"]) == {"pseudo"}
    check_tested(folder, load_sieve(tmp_path / "s", threads=1))
    report = (tmp_path / "s" / "report.html").read_text("utf-8")
    assert "so nothing had to be held out" in report


def test_a_hybrid_is_used_unless_it_surely_finds_less() -> None:
    def compared(judged: int, words: int, both: int) -> dict[str, Any]:
        qrels = Qrels.from_dict({f"q{n:02}": {"d": 1} for n in range(judged)})
        runs: dict[str, Any] = {
            name: SimpleNamespace(
                train=Run.from_dict(
                    {f"q{n:02}": {"d" if n < hits else "e": 1.0} for n in range(judged)}
                )
            )
            for name, hits in (("bm25", words), ("hybrid", both))
        }
        inputs: Any = SimpleNamespace(
            splits=SimpleNamespace(train=qrels), request=SimpleNamespace(depth=50)
        )
        return hybrid.compare_recall(inputs, runs["bm25"], runs["hybrid"])

    assert compared(20, 4, 17) == {
        "measure": "R@50", "bm25": 0.2, "hybrid": 0.85, "p_value": pytest.approx(1e-5, abs=1e-4),
        "used": True,
    }  # fmt: skip
    assert compared(20, 10, 9)["used"]  # one query is not significant
    assert not compared(20, 17, 4)["used"]
    assert compared(9, 9, 0) == {"used": True, "measure": None}


def systems_with(retriever: str, *rerankers: str) -> list[System]:
    """Every system of these kinds, on the candidates of a retriever."""
    kinds: dict[str, Any] = {kind.key: kind for kind in KINDS}
    retrievers = [kinds["bm25"], *([] if retriever == "bm25" else [kinds[retriever]])]
    return all_systems(retrievers, kinds[retriever], [kinds[key] for key in rerankers])


def test_ten_judged_queries_can_put_words_alone_before_the_default() -> None:
    systems = systems_with("bm25", "base_model")
    assert [system.name for system in systems] == [
        "BM25", "base model", *(f"base model + BM25 (.{weight})" for weight in (25, 50, 75))
    ]  # fmt: skip
    default = default_system(systems)
    assert (default.name, default.weight) == ("base model + BM25 (.75)", 0.75)
    compared = [ComparedSystem(system.name, system.complexity) for system in systems]
    for judged, expected in ((9, default.name), (10, "BM25")):
        fused = [0.5] * (judged - 1) + [0.4]  # lower on one query: not significant, yet lower
        table = [[0.5] * judged, [0.1] * judged, [0.2] * judged, [0.3] * judged, fused]
        required = required_baselines(systems, judged)
        assert select(compared, table, required).selected == expected


def test_nothing_selected_is_below_the_default_your_run_or_bm25() -> None:
    own = systems_with("user_run", "base_model")
    assert required_baselines(own, 32) == ["base model + your run (.75)", "your run", "BM25"]
    assert required_baselines(own, 8) == ["base model + your run (.75)", "your run"]
    assert required_baselines(systems_with("hybrid", "base_model"), 32) == ["hybrid", "BM25"]


def test_what_one_training_made_is_equally_complex() -> None:
    points = tuple(f"interpolated_weights_{share}" for share in (25, 50, 75))
    systems = systems_with("hybrid", "base_model", *points, "fine_tuned", "distilled")
    levels: dict[str | None, set[int]] = {}
    for system in systems:
        key = system.reranker.key if system.reranker and system.reorders else None
        levels.setdefault(key, set()).add(system.complexity)
    assert default_system(systems).name == "hybrid"
    assert levels[None] == {0, 1} and levels["base_model"] == {1}
    assert all(levels[key] == {2} for key in (*points, "fine_tuned"))
    assert levels["distilled"] == {3}


def test_parts_keep_given_splits_and_leak_nothing() -> None:
    log = Queries.of(Query(f"q{n:03}", f"{n} sieves") for n in range(100))
    judged = {f"q{n:03}": {"d1": 1} for n in range(90)}
    everything = Qrels.from_dict(judged)
    parts = split_queries(log, {"all": everything}, Ids.of(["d1"]))
    assert (len(parts.train), len(parts.test), parts.has_test_split) == (54, 36, False)
    assert not set(parts.train) & set(parts.test)
    assert not set(parts.test) & set(parts.log.ids)
    given = {"train": everything.select(Ids.of(f"q{n:03}" for n in range(50))),
             "test": everything.select(Ids.of(f"q{n:03}" for n in range(40, 90)))}  # fmt: skip
    parts = split_queries(log, given, Ids.of(["d1"]))
    assert (len(parts.train), len(parts.test), parts.has_test_split) == (40, 50, True)


def test_judged_queries_that_are_not_used_are_counted() -> None:
    log = Queries.of(Query(f"q{n:03}", f"{n} sieves") for n in range(90))
    judged = Qrels.from_dict({f"q{n:03}": {f"d{n // 2}": 1} for n in range(90)})
    docs = Ids.of(sorted(f"d{n}" for n in range(45)))
    parts = split_queries(log, {"all": judged}, docs, max_test=20, max_train=30)
    assert (len(parts.train), len(parts.test), parts.sharing_answers) == (30, 20, 0)
    assert parts.left_out == {
        "judged queries beyond the most that are trained on": 24,
        "judged queries beyond the most that are tested on": 16,
    }
    fewer = parts.with_test_sample(5, 0)
    assert len(fewer.test) == 5 and sum(fewer.left_out.values()) == 24 + 31
    given = {"test": judged.select(Ids.of(f"q{n:03}" for n in range(0, 90, 2))),
             "train": judged.select(Ids.of(f"q{n:03}" for n in range(1, 40, 2)))}  # fmt: skip
    parts = split_queries(log, given, docs)
    assert parts.sharing_answers == 20
    assert parts.facts()["test_queries_with_an_answer_of_a_training_query"] == 20


def test_judgements_of_which_none_can_be_used_are_refused(tmp_path: Path) -> None:
    folder = collection(tmp_path / "docs", train=0, test=12)
    path = folder / "qrels" / "test.tsv"
    rows = path.read_text()
    path.write_text(rows.replace("\td", "\tgone"))
    with pytest.raises(InputError, match="none of the 12 judged queries can be used") as raised:
        fit(request(folder, tmp_path / "s", None))
    assert "such as gone00" in str(raised.value) and raised.value.hint
    assert not (tmp_path / "s.fitting").exists(), "other judgements need no --force"
    path.write_text(rows.replace("q0", "x0"))
    with pytest.raises(InputError, match="none of the 12 judged queries has a text") as raised:
        fit(request(folder, tmp_path / "s", None))
    assert "--queries" in raised.value.hint
    assert not (tmp_path / "s.fitting").exists(), "told before any work"


def test_judgements_of_which_some_cannot_be_used_are_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = collection(tmp_path / "docs", train=0, test=12)
    path = folder / "qrels" / "test.tsv"
    path.write_text(path.read_text().replace("q003", "lost").replace("\td05", "\tgone"))
    with caplog.at_level("WARNING", "tamis"):
        fit(request(folder, tmp_path / "s", None))
    warnings = [record.getMessage() for record in caplog.records]
    assert any("1 judged queries without text, such as lost" in line for line in warnings)
    assert any("1 judgements of documents that are not there, such as gone" in w for w in warnings)


@pytest.mark.parametrize("name", ["devtest", "testset", "TestA", "latest", "my_TEST-2"])
def test_every_split_with_test_in_its_name_is_held_out(name: str) -> None:
    queries = Queries.of([Query(f"q{n}", f"number {n}") for n in range(4)])
    judged = {"train": Qrels.from_dict({"q0": {"d1": 1}, "q1": {"d1": 1}}),
              name: Qrels.from_dict({"q2": {"d1": 1}, "q1": {"d1": 1}})}  # fmt: skip
    parts = split_queries(queries, judged, Ids.of(["d1"]))
    assert ([*parts.train.queries], [*parts.test.queries]) == (["q0"], ["q1", "q2"])
    assert [*parts.log.ids] == ["q0", "q3"]
    assert name in str(parts.facts()["judged_queries_for_the_test"])


def test_a_line_more_in_a_log_leaves_every_judgement_with_its_query(tmp_path: Path) -> None:
    folder = collection(tmp_path / "docs", train=0, test=0)
    log = tmp_path / "log.txt"
    asked = [f"{one} {other}" for one in THINGS for other in THINGS if one != other]
    log.write_text("\n".join(asked) + "\n")
    rows = {query_id(text): {f"d{n:02}": 1} for n, text in enumerate(asked)}
    judged = tmp_path / "judged.txt"
    judged.write_text("".join(f"{q} 0 {d} 1\n" for q, docs in rows.items() for d in docs))
    values = []
    for number in range(2):
        options = {"queries": str(log), "qrels": {"test": str(judged)}}
        _, sieve = fit(request(folder, tmp_path / f"s{number}", None, **options))
        assert sieve is not None
        values.append(sieve.manifest["test"]["BM25"]["RR@10"])
        log.write_text("a line more\n" + log.read_text())
    assert values[0] == values[1] > 0.5
    judged.write_text("".join(f"q{n:06d} 0 d{n:02} 1\n" for n in range(1, 9)))
    with pytest.raises(InputError, match="by line number") as raised:
        fit(request(folder, tmp_path / "s", None, **options))
    assert f"tamis convert {judged} " in raised.value.hint


def test_a_sieve_is_fitted_again_with_judgements_that_bring_their_queries(tmp_path: Path) -> None:
    folder = collection(tmp_path / "docs", train=0, test=0, log=6)
    _, first = fit(request(folder, tmp_path / "s", None))
    assert first is not None and first.manifest["verified"] is False
    texts = [f"{one} {other}" for one in THINGS for other in THINGS if one != other]
    queries = [Query(f"new{n:02}", text) for n, text in enumerate(texts)]
    judged = Qrels.from_dict({f"new{n:02}": {f"d{n:02}": 1} for n in range(len(texts))})
    write_judged(queries, judged, tmp_path / "judged", "mytest")
    for name in ("s", "s/index"):
        options = {"qrels": {"mytest": str(tmp_path / "judged")}}
        _, again = fit(request(tmp_path / name, tmp_path / f"{name[-1]}2", None, **options))
        assert again is not None and again.manifest["verified"] is True
        assert again.index.num_documents == first.index.num_documents


def test_copies_of_test_queries_are_not_learnt_from() -> None:
    texts = {"q1": "How do I clean a drum sieve?", "q2": "how do I clean a drum sieve",
             "q3": "what is a net", "q4": "How do I clean a drum sieve"}  # fmt: skip
    queries = Queries.of([Query(name, text) for name, text in texts.items()])
    judged = {"train": Qrels.from_dict({name: {"d1": 1} for name in ("q1", "q3")}),
              "test": Qrels.from_dict({"q2": {"d1": 1}})}  # fmt: skip
    parts = split_queries(queries, judged, Ids.of(["d1"]))
    assert list(parts.train.queries) == ["q3"] and list(parts.log.ids) == ["q3"]
    assert parts.left_out == {"queries nearly the same as a test query": 2}


def test_judgements_of_several_splits_add_up_and_missing_answers_are_no_refusal() -> None:
    queries = Queries.of([Query(f"q{n}", f"number {n}") for n in range(3)])
    judged = {"dev": Qrels.from_dict({"q0": {"d1": 1}, "q1": {"d9": 1, "d1": 0}}),
              "train": Qrels.from_dict({"q0": {"d2": 1, "d1": 0}, "q2": {"d1": 0}})}  # fmt: skip
    parts = split_queries(queries, judged, Ids.of(["d1", "d2"]))
    assert parts.train["q0"] == {"d1": 1, "d2": 1}
    assert list(parts.unanswerable[0].ids) == ["q2"]
    assert parts.left_out["judged queries whose answers are not there"] == 1


def test_a_plan_fits_the_time() -> None:
    sizes = Sizes(10_000, 500, 300, 5_000, 50, 1.0, "bi-encoder")
    for seconds in (10, 60, 300, 1_800, 7_200):
        plan = make_plan(sizes, 0.01, seconds)
        assert plan.seconds <= max(seconds, 5)
        assert from_json(Plan, json.loads(json.dumps(to_json(plan)))) == plan
    steps = [
        len([s for s in make_plan(sizes, 0.01, t).steps if s.planned]) for t in (10, 300, 9000)
    ]
    assert steps == sorted(steps) and steps[0] < steps[-1]


def test_a_collection_without_documents_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "corpus.jsonl").write_text("")
    assert run(["fit", str(tmp_path / "docs"), "-o", str(tmp_path / "s"), "--base", "none"]) == 1
    assert "docs has no documents\nhint: " in capsys.readouterr().err
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize("text", ["sieve", "a drum the sieve sort"])
@pytest.mark.parametrize("judged", [0, 1, 12])
def test_documents_that_are_all_alike(text: str, judged: int, tmp_path: Path, base: Path) -> None:
    folder = collection(tmp_path / "docs", train=judged, test=judged, log=2)
    lines = [json.dumps({"_id": f"d{n:02}", "text": text}) for n in range(42)]
    (folder / "corpus.jsonl").write_text("\n".join(lines))
    _, sieve = fit(request(folder, tmp_path / "s", base))
    assert sieve is not None and sieve.verified == (judged >= 10)
    assert len(sieve.search("sieve", top=3)) == 3


def test_ten_seconds_give_words_alone_or_more(tmp_path: Path, base: Path) -> None:
    folder = collection(tmp_path / "docs")
    _, sieve = fit(request(folder, tmp_path / "s", base, max_time=1.0))
    assert sieve is not None and sieve.manifest["selected"] == "BM25"
    assert sieve.search("drum net")


def test_your_own_candidates(tmp_path: Path, base: Path) -> None:
    folder = collection(tmp_path / "docs")
    opened = tamis.open_collection(folder)
    rows = {query: {f"d{n:02}": 50.0 - n for n in range(0, 42, 3)} for query in opened.queries.ids}
    tamis.write_run(Run.from_dict(rows), tmp_path / "mine.trec")
    _, sieve = fit(request(folder, tmp_path / "s", base, user_run=str(tmp_path / "mine.trec")))
    assert sieve is not None
    names = [row["name"] for row in sieve.manifest["systems"]]
    assert "BM25" in names and "your run" in names and "base model + your run (.50)" in names
    if sieve.manifest["selected"] != "BM25":
        assert not sieve.pipeline.is_tested_retriever and sieve.search("drum net")


def test_scores_of_your_own_candidates_are_not_compared_between_queries(
    tmp_path: Path, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, own = collection(tmp_path / "docs"), tmp_path / "own.trec"
    lines = [f"q{n:03} Q0 d{(n + k) % 42:02} {k} {9 - k} x" for n in range(46) for k in range(9)]
    own.write_text("\n".join(lines))
    hand_over(monkeypatch, "base model + your run (.50)")
    _, sieve = fit(request(folder, tmp_path / "s", base, user_run=str(own)))
    assert sieve is not None and sieve.calibration is not None
    assert sieve.calibration.names == ("model",)
    assert all(hit.probability is not None for hit in sieve.search("drum net"))


def test_columns_of_your_own_candidates_say_nothing(tmp_path: Path, base: Path) -> None:
    """A run that `tamis search --ranking hybrid` wrote has a column of that name."""
    folder = collection(tmp_path / "docs", train=0)
    ids = tamis.open_collection(folder).queries.ids
    run = Run.from_dict({query: {f"d{n:02}": 50.0 - n for n in range(20)} for query in ids})
    tested = []
    for name, mine in (
        ("plain", run),
        ("more", run.with_extra(lexical_score=np.arange(len(run.doc)) % 7)),
    ):
        tamis.write_run(mine, tmp_path / f"{name}.parquet")
        given = tmp_path / f"{name}.parquet"
        _, sieve = fit(request(folder, tmp_path / name, base, user_run=str(given)))
        assert sieve is not None
        tested.append(sieve.manifest["test"])
    assert tested[0] == tested[1]


def test_a_full_disk_leaves_no_sieve(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = collection(tmp_path / "docs")

    def full(*_: object, **facts: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tamis.fitting.sieve_folder.write_manifest", full)
    assert run(["fit", str(folder), "-o", str(tmp_path / "s"), "--base", "none"]) == 1
    assert "disk is full" in capsys.readouterr().err and not (tmp_path / "s").exists()
    monkeypatch.undo()
    assert run(["fit", str(folder), "-o", str(tmp_path / "s"), "--base", "none", "--resume"]) == 0


def test_the_command_line(
    tmp_path: Path, base: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    collection(tmp_path / "docs")
    common = ["fit", "docs", "--base", str(base), "--depth", "10", "--max-time", "15"]
    assert run([*common, "-o", "s", "--dry-run"]) == 0
    assert "plan:" in capsys.readouterr().err and not Path("s").exists()
    assert run([*common, "-o", "s"]) == 0
    out = capsys.readouterr().out
    assert "selected" in out and "verified" in out and "base model +" in out
    assert run(["search", "s", "drum net"]) == 0
    assert "drum" in capsys.readouterr().out
    assert run(["info", "s"]) == 0
    assert "verified" in capsys.readouterr().out
    for option in (["--k1", "0"], ["--b", "0"], ["--no-rm3"], ["--rm3"], ["--mu", "0"]):
        assert run(["search", "s", "drum net", *option]) == 2, option
        assert "a sieve has its own ranking" in capsys.readouterr().err
    assert run(["search", "s", "docs/queries.jsonl", "-o", "run.parquet", "--top", "5"]) == 0
    capsys.readouterr()
    code = run(["rerank", "run.parquet", "-c", "s/index", "--model", "s", "-o", "again.parquet"])
    chosen = load_sieve("s").pipeline.stage is not None
    assert code == (0 if chosen else 1)


SEARCH_IN_PYTHON = """
import sys
from tamis import load_sieve
assert load_sieve(sys.argv[1]).search("drum")
"""
SEARCH_ON_COMMAND_LINE = """
import sys
from tamis.cli.app import run
assert run(["search", sys.argv[1], "drum"]) == 0
"""
NO_TORCH = """
assert "torch" not in sys.modules and "transformers" not in sys.modules
"""


@pytest.mark.parametrize("search", [SEARCH_IN_PYTHON, SEARCH_ON_COMMAND_LINE])
def test_a_sieve_is_searched_in_onnx_runtime_without_torch(
    search: str, whole: tuple[Path, Sieve]
) -> None:
    _, sieve = whole
    specs = json.dumps(sieve.manifest["pipeline"])
    assert '"backend": "onnx"' in specs and '"backend": "fast"' not in specs
    subprocess.run([sys.executable, "-c", search + NO_TORCH, str(sieve.path)], check=True)


def test_an_export_that_differs_from_torch_is_not_used(
    tmp_path: Path, base: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("tamis.fitting.query_encoder_export.MAX_DIFFERENCE", -1.0)
    monkeypatch.setattr("tamis.fitting.job.make_plan", lambda *_: PLAN)
    caplog.set_level("INFO", "tamis")
    _, sieve = fit(request(collection(tmp_path / "docs"), tmp_path / "s", base))
    assert sieve is not None
    slow = ("reading ", "measuring how fast", "exporting the encoder")
    begun = [text for text in caplog.messages if text.startswith(slow)]
    assert [text.startswith(start) for text, start in zip(begun, slow, strict=True)] == [True] * 3
    assert '"backend": "onnx"' not in json.dumps(sieve.manifest["pipeline"])
    assert any("encoded by torch" in message for message in caplog.messages)


def test_without_the_extra_torch_encodes_queries_and_the_log_says_so(
    tmp_path: Path, base: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("tamis.fitting.query_encoder_export.missing_extras", lambda *_: {"onnx"})
    monkeypatch.setattr("tamis.fitting.job.make_plan", lambda *_: PLAN)
    caplog.set_level("INFO", "tamis")
    _, sieve = fit(request(collection(tmp_path / "docs"), tmp_path / "s", base))
    assert sieve is not None
    assert '"backend": "onnx"' not in json.dumps(sieve.manifest["pipeline"])
    (message,) = [text for text in caplog.messages if "encoded by torch" in text]
    assert "pip install" in message
