"""`tamis fit` from end to end on a tiny collection with a tiny model."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tamis
from tamis import durable
from tamis.cli.app import run
from tamis.cli.sieves import fused_beside
from tamis.collection.beir import write_judged
from tamis.collection.querylog import query_id
from tamis.errors import InputError, OutputError
from tamis.evaluation import evaluate
from tamis.fit import finding, learning, making
from tamis.fit.calibrate import Calibration
from tamis.fit.guard import Option, choose, settled
from tamis.fit.job import Request, fit
from tamis.fit.look import parted
from tamis.fit.making import Making, Round
from tamis.fit.options import POINTS, features, floors, ranked, ways
from tamis.fit.plan import Plan, Sizes, make_plan
from tamis.fit.sieve import Pipeline, Sieve, load_sieve
from tamis.judging import sources_of
from tamis.models import adopt
from tamis.pipeline.rerank import rerank
from tamis.scorers.note import read_note, write_note
from tamis.search.dense import vector_model
from tamis.search.tune import tune
from tamis.types import Ids, Pairs, Qrels, Queries, Query, Run, Scores
from tamis.types.pipeline import Scale

pytest.importorskip("torch", reason="torch is not installed")
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
    adopt(tiny_cross_encoder, out, kind="bi-encoder", pooling="mean", max_length=24)
    return out


def request(folder: Path, out: Path, base: Path | None, **options: Any) -> Request:
    given = {"depth": 10, "max_time": 900.0, "threads": 1, **options}
    return Request(str(folder), out, None if base is None else str(base), **given)


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Texts as short as the tiny model takes."""
    monkeypatch.setattr("tamis.fit.learning.LENGTH", "24")


def test_with_judgements_everything_is_tried_and_one_way_is_handed_over(
    tmp_path: Path, base: Path
) -> None:
    folder = collection(tmp_path / "docs")
    plan, sieve = fit(request(folder, tmp_path / "s", base))
    assert sieve is not None and plan.has("tuned")
    note = sieve.note
    assert (note["verified"], note["kind"]) == ("yes", "sieve")
    names = [row["name"] for row in note["candidates"]]
    assert names[0] == "BM25" and {"start", "tuned", *POINTS} <= set(names)
    assert sum(row["chosen"] for row in note["candidates"]) == 1
    assert note["chosen"] in names
    refused = [row for row in note["candidates"] if not row["chosen"]]
    assert all(row["refused"] for row in refused)
    assert not (tmp_path / "s.fitting").exists()
    assert (tmp_path / "s" / "report.html").is_file()
    hits = sieve.search("drum net", top=3)
    assert len(hits) == 3 and hits[0].text.startswith("a ")
    assert tamis.load_sieve(tmp_path / "s").search("drum net", top=3) == hits


def test_a_teacher_and_word_vectors_make_more_models(
    tmp_path: Path, base: Path, tiny_cross_encoder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = collection(tmp_path / "docs", train=60)
    monkeypatch.setattr("tamis.fit.plan.FEW", 50)
    monkeypatch.setattr("tamis.fit.plan.MANY", 50)
    monkeypatch.setattr("tamis.fit.plan.PSEUDO", 60)
    vectors = tmp_path / "vectors.txt"
    rows = [f"{word} {number} {number**2 % 7} 1" for number, word in enumerate(THINGS)]
    vectors.write_text("\n".join(rows) + "\n")
    asked = request(
        folder, tmp_path / "s", base, teacher=str(tiny_cross_encoder), vectors=str(vectors)
    )
    plan, sieve = fit(asked)
    assert sieve is not None and plan.has("distilled") and plan.has("infused")
    names = {row["name"] for row in sieve.note["candidates"]}
    assert {"distilled", "infused", "cross-encoder", "pseudo-labelled"} <= names
    assert [count for count, _ in sieve.note["learning curve"]] == [0, 10, 20, 40]


def test_what_was_tested_is_what_the_sieve_does(tmp_path: Path, base: Path) -> None:
    folder = collection(tmp_path / "docs")
    _, sieve = fit(request(folder, tmp_path / "s", base))
    assert sieve is not None
    check_tested(folder, sieve)


def hand_over(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Let the guard choose this way, whatever the judgements say."""
    monkeypatch.setattr(
        "tamis.fit.choosing.choose",
        lambda *given, **options: replace(choose(*given, **options), chosen=name),
    )
    monkeypatch.setattr(
        "tamis.fit.choosing.settled",
        lambda *given, **options: replace(settled(*given, **options), name=name),
    )


def plan_with_vectors(monkeypatch: pytest.MonkeyPatch, used: bool) -> None:
    """Let there be time to encode documents, and let the hybrid be used or not."""
    compared = finding._compared
    monkeypatch.setattr("tamis.fit.job.make_plan", lambda *_: PLAN)
    monkeypatch.setattr(
        "tamis.fit.finding._compared", lambda *given: {**compared(*given), "used": used}
    )


def check_tested(folder: Path, sieve: Sieve) -> None:
    """A sieve ranks test queries as well as its note says."""
    opened = tamis.open_collection(folder)
    qrels = opened.qrels["test"]
    asked = opened.queries.select(qrels.queries.positions_in(opened.queries.ids))
    run = sieve.source.search(asked, 10)
    value = evaluate(qrels, {"sieve": run}, ["RR@10"]).mean("sieve", "RR@10")
    assert value == pytest.approx(sieve.note["test"][sieve.note["chosen"]]["RR@10"], abs=1e-3)


@pytest.mark.parametrize("chosen", ["start .75 + BM25", "tuned", "hybrid"])
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
    write_note(own, replace(read_note(own), documents="documents"))
    folder = collection(tmp_path / "docs")
    plan_with_vectors(monkeypatch, used=True)
    hand_over(monkeypatch, chosen)
    _, sieve = fit(request(folder, tmp_path / "s", own))
    assert sieve is not None and (sieve.path / "encoder" / "documents").is_dir()
    check_tested(folder, load_sieve(tmp_path / "s", threads=1))


@pytest.mark.parametrize(
    ("chosen", "used"),
    [("start .75 + BM25", True), ("tuned", True), ("hybrid", True), ("hybrid", False),
     ("BM25", True)],
)  # fmt: skip
def test_a_sieve_that_searches_by_vectors_holds_its_base_once(
    tmp_path: Path, base: Path, chosen: str, used: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = collection(tmp_path / "docs")
    plan_with_vectors(monkeypatch, used)
    hand_over(monkeypatch, chosen)
    _, sieve = fit(request(folder, tmp_path / "s", base))
    assert sieve is not None and sieve.note["chosen"] == chosen
    there = [(sieve.path / name).is_dir() for name in ("model", "encoder")]
    wanted = {("hybrid", False): [False, True], ("BM25", True): [False, False]}
    assert there == wanted.get((chosen, used), [True, False])
    brought = sieve.path / "model" / "documents" / "model.safetensors"
    assert brought.is_file() == (chosen == "tuned")
    if chosen in ("hybrid", "BM25"):  # sums of normalised scores say nothing across queries
        assert (sieve.calibration is None) == (not used)
        assert sieve.pipeline.interpolate == (0.0 if (chosen, used) == ("hybrid", True) else None)
    check_tested(folder, load_sieve(tmp_path / "s", threads=1))


def test_few_judged_queries_have_a_learning_curve_over_all_folds(
    tmp_path: Path, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = collection(tmp_path / "docs", train=60)
    learnt: list[Round] = []
    real = Making.tuned

    def tuned(self: Making, turn: Round) -> Path:
        learnt.append(turn)
        return real(self, turn)

    monkeypatch.setattr(Making, "tuned", tuned)
    plan, sieve = fit(request(folder, tmp_path / "s", base))
    assert sieve is not None and plan.has("curve") and plan.folds == 3
    drawn = [turn for turn in learnt if turn.name.startswith("on ")]
    assert {turn.name for turn in drawn} == {
        f"on {count} of fold {fold}" for fold in (1, 2, 3) for count in (10, 20)
    }
    assert all(not set(turn.learn) & set(turn.held) for turn in drawn)
    assert [count for count, _ in sieve.note["learning curve"]] == [0, 10, 20, 40]
    fewer = make_plan(Sizes(42, 29, 16, 30, 10, 1.0, "bi-encoder"), 1e-3, 60.0)
    assert fewer.has("tuned") and not fewer.has("curve")


def test_a_learning_curve_that_cannot_be_drawn_stops_nothing(
    tmp_path: Path, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, said = collection(tmp_path / "docs", train=36), list[str]()
    real = learning.trained

    def trained(name: str, *given: Any) -> Path:
        if " on " in name:
            raise InputError("there is nothing to learn from")
        return real(name, *given)

    monkeypatch.setattr(making, "trained", trained)
    plan, sieve = fit(request(folder, tmp_path / "s", base), said=said.append)
    assert sieve is not None and plan.has("curve")
    assert [count for count, _ in sieve.note["learning curve"]] == [0, 24]
    assert any("no point at 12 queries: there is nothing" in words for words in said)


def test_without_judgements_nothing_is_claimed(tmp_path: Path, base: Path) -> None:
    folder = collection(tmp_path / "docs", train=0, test=0, log=8)
    _, sieve = fit(request(folder, tmp_path / "s", base))
    assert sieve is not None and not sieve.verified
    assert sieve.note["chosen"] == "hybrid" and sieve.note["test"] is None
    assert sieve.note["why"] == "there are no judgements: nothing was tested"
    assert sieve.queries is not None and len(sieve.queries) == 8
    assert sieve.search("drum net") and sieve.calibration is None
    assert sieve.source.spec()["source"] == "top", "nothing is scored that nobody looks at"
    recorded = vector_model(sieve.index)
    assert recorded is not None and recorded.reference == str(base.resolve()) and recorded.sha256
    pooled = [source.spec()["source"] for source in sources_of(sieve)]
    assert pooled == ["hybrid", "index", "dense"]


@pytest.mark.parametrize("chosen", ["hybrid", "start .50 + BM25", "BM25"])
def test_queries_without_an_answer_count_for_the_threshold(
    tmp_path: Path, base: Path, chosen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan_with_vectors(monkeypatch, used=chosen != "start .50 + BM25")
    hand_over(monkeypatch, chosen)
    _, before = fit(request(collection(tmp_path / "answered"), tmp_path / "a", base))
    folder = collection(tmp_path / "docs")
    for split, names in (("train", ("q040", "q041", "q042")), ("test", ("q043", "q044"))):
        with (folder / "qrels" / f"{split}.tsv").open("a") as file:
            file.writelines(f"{name}\td00\t0\n" for name in names)
    _, after = fit(request(folder, tmp_path / "s", base))
    assert before is not None and after is not None
    assert after.note["look"]["judged to have no answer"] == 5
    for name, more in (("calibration", 3), ("threshold on test queries", 2)):
        assert after.note[name]["queries"] == before.note[name]["queries"] + more
    known = {"BM25": ["first stage"]}
    assert after.note["calibration"]["names"] == known.get(chosen, ["model", "first stage"])
    answerable = [each.note["threshold on test queries"]["answerable"] for each in (before, after)]
    assert answerable[0] == answerable[1]


@pytest.mark.parametrize("count", [1, 2, 60])
def test_queries_without_an_answer_are_in_one_part_only(count: int) -> None:
    asked = Queries.of([Query(f"q{n}", f"words {n} {'x' * n}") for n in range(count + 1)])
    none = {f"q{n}": {"d1": 0} for n in range(count)}
    right = {f"q{count}": {"d1": 1}}
    parts = parted(asked, {"all": Qrels.from_dict(none | right)}, Ids.of(["d1"]))
    learn, test = (set(each.ids) for each in parts.unanswered)
    assert learn | test == set(none) and not learn & test
    assert len(test) == (24 if count == 60 else 0)
    assert not test & set(parts.log.ids)
    splits = {"train": Qrels.from_dict({f"q{count}": {"d1": 0}}), "test": Qrels.from_dict(right)}
    parts = parted(asked, splits, Ids.of(["d1"]))
    assert [len(each) for each in parts.unanswered] == [0, 0]  # another split has the answer


def test_very_few_judgements_hold_on_to_the_usual_way(tmp_path: Path, base: Path) -> None:
    folder = collection(tmp_path / "docs", train=2, test=16)
    plan, sieve = fit(request(folder, tmp_path / "s", base))
    assert sieve is not None and not plan.has("tuned")
    told = sieve.note["guard"]["choice"]
    assert told["queries"] == 2 and len(told["weighed"]) == 6
    assert told["chosen"] == "hybrid"  # two queries are never sure
    assert (told["start"], told["baseline"]) == ("start", "BM25")
    report = (tmp_path / "s" / "report.html").read_text("utf-8")
    assert "nothing was trained, so nothing had to be held out" in report
    assert "The usual way is hybrid" in report
    assert "What is lower than hybrid is refused" in report


def test_where_nothing_is_trained_all_judged_queries_are_compared_on() -> None:
    sizes = Sizes(50_000, 700, 300, 700, 50, 1.0, "bi-encoder", asking=0.6)
    plan = make_plan(sizes, 0.01, 900)
    assert plan.has("vectors") and not plan.has("tuned")
    (only,) = rounds(700, plan)
    assert len(only.held) == 600 and not len(only.learn)
    plan = make_plan(replace(sizes, documents=200_000, learn=400, log=0), 0.03, 1_800)
    assert not plan.has("vectors") and not plan.has("tuned") and plan.folds == 0
    (only,) = rounds(400, plan)
    assert len(only.held) == plan.choosing > 300 and plan.seconds <= 1_800
    told = {step.name: step.planned for step in plan.steps}
    assert told == {"first": True, "vectors": False, "start": True, "tuned": False}


def test_a_base_that_does_not_fit_the_time_is_in_the_plan() -> None:
    plan = make_plan(Sizes(1_000, 50, 50, 50, 50, 1.0, "bi-encoder"), 0.5, 10)
    told = {step.name: step.planned for step in plan.steps}
    assert told == {"first": True, "vectors": False, "start": False}
    assert plan.steps[-1].seconds > 10


def test_what_is_held_out_is_what_there_is_time_to_compare_on() -> None:
    sizes = Sizes(2_000, 512, 300, 512, 50, 1.0, "bi-encoder", asking=0.021)
    plan = make_plan(sizes, 0.01, 1_800)
    turns = rounds(512, plan)
    assert plan.size("curve") == 1 and [len(turn.held) for turn in turns] == [171, 171, 170]
    assert all(len(turn.learn) + len(turn.held) == 512 for turn in turns)
    few = replace(plan, choosing=100)
    turns = rounds(512, few)
    assert [(len(turn.learn), len(turn.held)) for turn in turns] == [
        (341, 34),
        (341, 34),
        (342, 34),
    ]
    assert all(not set(turn.learn) & set(turn.held) for turn in turns)
    hurried = make_plan(sizes, 0.01, 400)
    (only,) = rounds(512, hurried)  # not all that the recipe wants: one part will do
    assert plan.size("tuned") > hurried.size("tuned") > 0
    assert (len(only.learn), len(only.held)) == (341, 171)
    many = make_plan(replace(sizes, learn=3_000), 0.01, 900)
    (only,) = rounds(3_000, many)
    assert (len(only.learn), len(only.held)) == (2_700, 300)


def test_what_is_there_already_and_what_is_not_wanted_takes_no_time() -> None:
    sizes = Sizes(50_000, 100, 100, 0, 50, 1.0, "bi-encoder", asking=0.002)
    plan = make_plan(sizes, 0.01, 1_800)
    assert plan.cost("vectors") == 500 and plan.has("curve")
    assert make_plan(replace(sizes, encoded=True), 0.01, 1_800).cost("vectors") == 0
    assert not make_plan(replace(sizes, curve=False), 0.01, 1_800).has("curve")


def test_only_queries_are_run_where_documents_keep_their_vectors() -> None:
    sizes = Sizes(20_000, 512, 300, 0, 50, 1.0, "bi-encoder", asking=0.001)
    plan = make_plan(sizes, 0.02, 1_800)
    wanted = 4 * 32 * 16  # four epochs of 32 steps of 16 queries, in three folds and at last
    assert (plan.folds, plan.size("tuned")) == (3, wanted)
    asked = 512 + 300 + 512
    assert plan.cost("tuned") == pytest.approx(7 * 0.001 * 4 * wanted + 0.001 * asked)
    other = make_plan(replace(sizes, kind="cross-encoder"), 0.02, 1_800)
    assert other.folds == 1 and other.cost("tuned") > 5 * plan.cost("tuned")
    assert other.size("tuned") >= 320


def test_where_not_all_documents_can_be_encoded_some_judgements_are_learnt_from() -> None:
    sizes = Sizes(200_000, 5_000, 300, 0, 50, 1.0, "bi-encoder", asking=0.002)
    plan = make_plan(sizes, 0.01, 1_800)
    assert not plan.has("vectors") and plan.has("tuned") and plan.folds == 1
    learnt = plan.size("tuned")
    assert 320 < learnt < 5_000
    new = 0.01 * 32 * (5_000 - plan.choosing) / 5_000  # of the others documents are known
    compared = 2 * plan.choosing + plan.testing
    wanted = learnt * (7 * 0.002 * 2 + new) + 0.002 * compared
    assert plan.cost("tuned") == pytest.approx(wanted)
    assert plan.seconds <= 1_800


def rounds(judged: int, plan: Plan) -> list[Round]:
    """In which rounds models are compared, by as many judged queries."""
    qrels = Qrels.from_dict({f"q{n:03}": {"d": 1} for n in range(judged)})
    asked = Queries.of(Query(name, f"{name} {number**3}") for number, name in enumerate(qrels))
    fitting: Any = SimpleNamespace(
        parts=SimpleNamespace(learn=qrels, asked=lambda _: asked), request=SimpleNamespace(seed=0)
    )
    found: Any = None
    return Making(fitting, plan, found).rounds


def test_judgements_only_to_test_on(tmp_path: Path, base: Path) -> None:
    folder = collection(tmp_path / "docs", train=0)
    _, sieve = fit(request(folder, tmp_path / "s", base))
    assert sieve is not None and sieve.verified
    guard = sieve.note["guard"]
    assert guard["choice"]["chosen"] == "hybrid" and guard["choice"]["queries"] == 0
    assert sieve.note["chosen"] == guard["handed over"]
    assert set(sieve.note["test"]) >= {"BM25", "start", "hybrid"}
    if sieve.note["chosen"] == "hybrid":
        assert sieve.note["cut"] == {}
    cost = {row["name"]: row["milliseconds"] for row in sieve.note["candidates"]}
    assert cost["hybrid"] < cost["start"], "nothing is scored that nobody looks at"


def test_without_a_model_words_are_all_there_is(tmp_path: Path) -> None:
    folder = collection(tmp_path / "docs")
    _, sieve = fit(request(folder, tmp_path / "s", None))
    assert sieve is not None and sieve.scorer is None
    assert sieve.note["chosen"] == "BM25" and sieve.search("drum net")


PLAN = make_plan(Sizes(42, 24, 16, 30, 10, 1.0, "bi-encoder"), 1e-3, 60.0)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, base: Path) -> tuple[Path, Sieve]:
    """A collection, and the sieve of a fit that was not stopped."""
    folder = tmp_path_factory.mktemp("whole")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tamis.fit.learning.LENGTH", "24")
        patch.setattr("tamis.fit.job.make_plan", lambda *_: PLAN)
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
    monkeypatch.setattr("tamis.fit.job.make_plan", lambda *_: PLAN)
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
    for name in ("chosen", "test", "guard", "calibration", "pipeline"):
        assert sieve.note[name] == wanted.note[name], name
    assert sieve.search("drum net") == wanted.search("drum net")


@pytest.mark.parametrize("moment", ["before", "within", "after"])
def test_killed_when_it_tidies_up_it_ends_well_on_resume(
    moment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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
            patch.setattr("tamis.fit.job.remove_work", lambda _: 1 / 0)
        with pytest.raises((KeyboardInterrupt, ZeroDivisionError)):
            fit(asked)
    note = (out / "tamis.json").read_bytes()
    with pytest.raises(OutputError, match="exists already"):
        fit(asked)
    with pytest.raises(OutputError, match="exists already"):
        fit(request(folder, out, None, seed=1), resume=True)
    heard: list[str] = []
    plan, sieve = fit(asked, resume=True, said=heard.append)
    assert sieve is not None and plan.testing == sieve.note["plan"]["testing"]
    assert any("is complete" in words for words in heard)
    assert (out / "tamis.json").read_bytes() == note
    assert sorted(path.name for path in tmp_path.iterdir()) == ["docs", "s"]


def test_a_fit_of_another_time_is_not_taken_for_the_one_that_was_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = collection(tmp_path / "docs")
    asked = request(folder, tmp_path / "s", None)
    fit(asked)
    monkeypatch.setattr("tamis.fit.job.finding.find", lambda *_: 1 / 0)
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
        "tamis.fit.finding.find", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt)
    )
    with pytest.raises(KeyboardInterrupt):
        fit(request(folder, tmp_path / "s", None))
    with pytest.raises(OutputError, match=r"begun with measure 'RR@10', not 'AP'"):
        fit(request(folder, tmp_path / "s", None, measure="AP"), resume=True)
    test = str(folder / "qrels" / "test.tsv")
    for other in ({"seed": 1}, {"depth": 9}, {"qrels": {"test": test}}, {"on_error": "skip"}):
        with pytest.raises(OutputError, match="was begun with"):
            fit(request(folder, tmp_path / "s", None, **other), resume=True)
    monkeypatch.setattr("tamis.fit.job.LAYOUT", 99)
    with pytest.raises(OutputError, match="begun by another version of tamis"):
        fit(request(folder, tmp_path / "s", None), resume=True)


def test_files_that_change_are_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = collection(tmp_path / "docs")
    run, judged = tmp_path / "own.trec", tmp_path / "own.tsv"
    run.write_text("q030 Q0 d01 1 1 x\n")
    judged.write_text("q030 0 d01 1\n")
    given: dict[str, Any] = {"candidates": run, "qrels": {"test": str(judged)}}
    with monkeypatch.context() as patch:
        patch.setattr("tamis.fit.job.finding.find", lambda *_: 1 / 0)
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
    monkeypatch.setattr("tamis.fit.job.LEARNT", 20)
    with monkeypatch.context() as patch:
        patch.setattr("tamis.fit.job.finding.find", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            fit(request(folder, tmp_path / "s", None, max_time=1800.0))
    _, sieve = fit(request(folder, tmp_path / "s", None, max_time=3600.0), resume=True)
    assert sieve is not None and sieve.note["look"]["judged, to learn and choose on"] == 20


def test_nothing_leaks(tmp_path: Path, base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Models do not learn from what they are compared on; nothing but the test sees the test."""
    folder = collection(tmp_path / "docs", train=60)
    learnt: dict[str, set[str]] = {}
    held: dict[str, set[str]] = {}
    calibrated: list[int] = []
    asked: list[set[str]] = []
    real, tried, tuning, fitted = learning.trained, Making.tried, tune, Calibration.fit

    def trained(name: str, examples: Any, *rest: Any) -> Path:
        learnt[name] = {examples.queries.ids[n] for n in set(examples.query.tolist())}
        return real(name, examples, *rest)

    def seen(self: Making, turn: Any, models: Any) -> Any:
        held[turn.name] = set(turn.held)
        return tried(self, turn, models)

    def tuned(index: Any, queries: Queries, qrels: Qrels, *rest: Any, **named: Any) -> Any:
        asked.append({*queries.ids, *qrels.queries})
        return tuning(index, queries, qrels, *rest, **named)

    def calibration(rows: Any, labels: Any, query: Any, **named: Any) -> Any:
        calibrated.append(len(set(query.tolist())))
        return fitted(rows, labels, query, **named)

    monkeypatch.setattr(making, "trained", trained)
    monkeypatch.setattr(Making, "tried", seen)
    monkeypatch.setattr(finding, "tune", tuned)
    monkeypatch.setattr(Calibration, "fit", calibration)
    _, sieve = fit(request(folder, tmp_path / "s", base))
    assert sieve is not None
    train = {f"q{n:03}" for n in range(60)}
    folds = {name: part for name, part in held.items() if name.startswith("fold ")}
    assert set().union(*folds.values()) == train and len(folds) == 3
    for name, part in held.items():
        if name in folds:
            assert learnt[f"tuned {name}"] == train - part
        else:  # a point of the learning curve
            assert name.startswith("on ") and learnt[f"tuned {name}"] < train - part
    assert learnt["tuned all"] == train
    assert all(names <= train for names in asked) and asked
    assert calibrated in ([], [60])  # where a model was chosen


def test_what_the_test_decides_is_handed_over(
    tmp_path: Path, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = collection(tmp_path / "docs")

    def failing(choice: Any, tested: Any, **named: Any) -> Any:
        return replace(settled(choice, tested, **named), name="BM25")

    monkeypatch.setattr("tamis.fit.choosing.settled", failing)
    monkeypatch.setattr(
        "tamis.fit.choosing.choose",
        lambda *given, **named: replace(choose(*given, **named), chosen="tuned"),
    )
    _, sieve = fit(request(folder, tmp_path / "s", base))
    assert sieve is not None and sieve.note["chosen"] == "BM25"
    assert not sieve.pipeline.model and not (sieve.path / "model").exists()


def test_a_choice_is_tested_against_the_usual_way(
    tmp_path: Path, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = collection(tmp_path / "docs")
    plan_with_vectors(monkeypatch, used=True)
    monkeypatch.setattr(
        "tamis.fit.choosing.choose",
        lambda *given, **named: replace(choose(*given, **named), chosen="start"),
    )
    _, sieve = fit(request(folder, tmp_path / "s", base))
    assert sieve is not None
    against = [each["name"] for each in sieve.note["guard"]["verdict"]["against"]]
    assert against == ["BM25", "hybrid"]


def test_a_sieve_reranks_its_own_candidates_as_it_searches(
    tmp_path: Path, base: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = collection(tmp_path / "docs", log=60)
    plan_with_vectors(monkeypatch, used=True)
    hand_over(monkeypatch, "start .50 + BM25")
    _, sieve = fit(request(folder, tmp_path / "s", base))
    assert sieve is not None and sieve.pipeline.first == "hybrid"
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
    assert run(["rerank", "found.parquet", *again, "cut.trec", "--agreement", "0.9"]) == 0
    assert "goes by the model alone" in capsys.readouterr().err


def test_a_first_stage_of_ones_own_that_loses_is_not_handed_over(tmp_path: Path) -> None:
    folder, bad = collection(tmp_path / "docs"), tmp_path / "bad.trec"
    lines = [f"q{n:03} Q0 d{(n + k) % 42:02} {k} {9 - k} x" for n in range(46) for k in range(1, 9)]
    bad.write_text("\n".join([*lines, "q001 Q0 gone 9 9 x"]))
    said: list[str] = []
    _, sieve = fit(request(folder, tmp_path / "s", None, candidates=bad), said=said.append)
    assert sieve is not None and sieve.note["chosen"] == "BM25"
    assert any("1 of 369 candidates" in words for words in said)
    assert sieve.note["why"] == "tested on 16 queries, on which first stage had failed"
    bad.write_text("q001 Q0 gone 9 9 x\n")
    with pytest.raises(InputError, match="no document of this collection"):
        fit(request(folder, tmp_path / "t", None, candidates=bad))
    endless = np.array([9.0, np.inf, 8.0])
    run = Run.from_dict({"q001": {"d01": 2.0}, "q002": {"d02": 1.0, "d03": 0.5}})
    run = Run(run.queries, run.docs, run.offsets, run.doc, endless.astype(np.float32))
    tamis.write_run(run, tmp_path / "endless.parquet")
    with pytest.raises(InputError, match=r"endless.parquet has a score of inf for query 'q002'"):
        fit(request(folder, tmp_path / "u", None, candidates=tmp_path / "endless.parquet"))


@pytest.mark.parametrize("train", [0, 6, 24])
def test_a_first_stage_of_ones_own_that_wins_is_handed_over(
    train: int, tmp_path: Path, base: Path
) -> None:
    folder, good = collection(tmp_path / "docs", train=train), tmp_path / "good.trec"
    lines = [f"q{n:03} Q0 d{(n + k) % 42:02} {k} {9 - k} x" for n in range(46) for k in range(9)]
    good.write_text("\n".join(lines))
    _, sieve = fit(request(folder, tmp_path / "s", base, candidates=good))
    assert sieve is not None and sieve.note["test"]["first stage"]["RR@10"] == 1
    handed = sieve.note["test"][sieve.note["chosen"]]["RR@10"]
    assert sieve.note["chosen"] == "first stage" or handed > 0.9
    against = [each["name"] for each in sieve.note["guard"]["verdict"]["against"]]
    assert sieve.note["guard"]["choice"]["chosen"] == "first stage" or "first stage" in against


def test_queries_that_are_all_alike(tmp_path: Path, base: Path) -> None:
    folder = collection(tmp_path / "docs", train=45, test=0)
    rows = [{"_id": f"q{n:03}", "text": f"how do I sort the grain with drum net sieve fish {n}"}
            for n in range(45)]  # fmt: skip
    (folder / "queries.jsonl").write_text("\n".join(map(json.dumps, rows)))
    _, sieve = fit(request(folder, tmp_path / "s", base))
    assert sieve is not None
    assert (sieve.note["verified"], sieve.note["chosen"]) == ("no", "hybrid")


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
        patch.setattr("tamis.fit.job.finding.find", lambda *_: 1 / 0)
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
        {"candidates": tmp_path / "no.run"}, {"candidates": tmp_path / "others.trec"},
        {"vectors": "no.vec"}, {"teacher": "no/m"}, {"base": "no/m"}, {"base": tmp_path},
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
    monkeypatch.setattr("tamis.fit.job.make_plan", lambda *_: PLAN)
    _, sieve = fit(request(folder, tmp_path / "none", base, max_time=1e-6))
    assert sieve is not None
    names = {row["name"] for row in sieve.note["candidates"]}
    assert "start" in names and not {"tuned", "half tuned"} & names
    told = monkeypatch.setattr  # time for one model of a family is time for the other
    told("tamis.fit.work.Work.taken", lambda work, *names: 30.0 if names == ("",) else 0.0)
    told("tamis.fit.plan.Plan.cost", lambda plan, name: 100.0 if name == "tuned" else 0.0)
    _, sieve = fit(request(folder, tmp_path / "both", base, max_time=60.0))
    assert sieve is not None
    assert {"tuned", "half tuned"} <= {row["name"] for row in sieve.note["candidates"]}


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
    words = first.with_extra(words=np.array([1, 7, 0, 3, 5, 2, 9, 8], np.float32))
    for found, stage, beside in ((first, "BM25", None), (words, "hybrid", "words")):
        raw = rerank(Lengths(), documents, depth=6)(found)
        for way in ways(stage, ["start"]):
            if way.weight is not None:
                column = beside if way.weight else None
                staged = rerank(
                    Lengths(), documents, depth=6, interpolate=way.weight, beside=column
                )(found)
                mine = ranked(way, found, {"start": raw})
                assert mine == staged
                assert np.array_equal(features(mine), features(staged))
                known = found.extra["words"][mine.doc] if beside else mine.extra["first"]
                assert features(mine)[:, 1].tolist() == known.tolist()


def test_a_cross_encoder_is_fused_with_the_hybrid_and_embeddings_only_with_words() -> None:
    first = Run.from_dict({"q": {"a": 3.0, "b": 2.0, "c": 0.0}})
    hybrid = first.with_extra(words=np.array([0, 4, 2], np.float32))
    scored = Run.from_dict({"q": {"a": 0.0, "b": 0.0, "c": 1.0}}).with_extra(
        first=np.array([0, 2, 3], np.float32), words=np.array([2, 4, 0], np.float32),
        passage=np.zeros(3, np.int32),
    )  # fmt: skip
    assert scored.docs.take(scored.doc) == ["c", "b", "a"]
    by_name = {way.name: way for way in ways("hybrid", ["start", "cross-encoder"], ["BM25"])}
    fused = {"start .25 + BM25": ["b", "c", "a"], "cross-encoder .25 + hybrid": ["a", "b", "c"]}
    for name, order in fused.items():
        run = ranked(by_name[name], hybrid, dict.fromkeys(("start", "cross-encoder"), scored))
        assert run["q"].ids == order
    assert ways("BM25", ["cross-encoder"])[-1].name == "cross-encoder .75 + BM25"


def test_a_run_is_fused_as_the_sieve_fuses_what_it_finds(
    capsys: pytest.CaptureFixture[str],
) -> None:
    plain = Run.from_dict({"q": {"a": 1.0}})
    hybrid = plain.with_extra(words=np.ones(1, np.float32))
    lexical = Pipeline("hybrid", 50, True, 0.5)
    previous = replace(lexical, fused_score="previous")
    assert (fused_beside(lexical, hybrid), fused_beside(previous, hybrid)) == ("words", None)
    assert capsys.readouterr().err == ""
    for how, named in ((lexical, "those of BM25\n"), (previous, "those of BM25 and vectors\n")):
        assert fused_beside(how, plain) is None
        assert capsys.readouterr().err.endswith(named)
    assert Pipeline(**previous.spec()).lexical_column is None


def test_a_cross_encoder_scores_every_candidate_of_every_query_anew() -> None:
    sizes = Sizes(1_000, 60, 300, 5_000, 50, 1.0, "bi-encoder", asking=0.001)
    plan = make_plan(sizes, 0.01, 20_000)
    pair = 0.01 + 0.001  # the text, and the query with it
    scored = (60 + 300) * 50 * pair
    trained = 3.5 * pair * 8_000 * 5  # pseudo-labels, three folds, and at last all
    assert plan.cost("cross-encoder") == pytest.approx(trained + scored)
    assert plan.cost("pseudo-labelled") == pytest.approx(scored)
    aligned = make_plan(replace(sizes, vectors=True), 0.01, 20_000)
    texts = 3.5 * pair * aligned.size("infused") * 5
    assert aligned.cost("infused") == pytest.approx(texts + scored)


def test_fewer_than_ten_judged_queries_are_offered_a_cross_encoder_where_there_is_time() -> None:
    sizes = Sizes(1_000, 8, 300, 5_000, 50, 1.0, "bi-encoder", asking=0.001)
    plan = make_plan(sizes, 0.01, 1_800)
    assert plan.folds == 0 and plan.has("pseudo-labelled") and not plan.has("cross-encoder")
    assert plan.cost("pseudo-labelled") == pytest.approx(0.011 * (3.5 * 8_000 + 308 * 50))
    assert plan.size("pseudo-labelled") == 8_000
    (only,) = rounds(8, plan)
    assert len(only.held) == 8 and not len(only.learn)
    for other in (replace(sizes, learn=0), replace(sizes, log=79)):
        assert not make_plan(other, 0.01, 1_800).has("pseudo-labelled")
    hurried = make_plan(sizes, 0.01, 300)
    assert [step.planned for step in hurried.steps if step.name == "pseudo-labelled"] == [False]


def test_eight_judged_queries_and_a_cross_encoder_fused_with_the_hybrid(
    tmp_path: Path, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = collection(tmp_path / "docs", train=8, log=16)
    monkeypatch.setattr("tamis.fit.plan.PSEUDO", 20)
    hand_over(monkeypatch, "pseudo-labelled .50 + hybrid")
    plan, sieve = fit(request(folder, tmp_path / "s", base))
    assert sieve is not None and plan.has("pseudo-labelled") and not plan.has("tuned")
    assert sieve.note["chosen"] == "pseudo-labelled .50 + hybrid"
    assert sieve.pipeline.fused_score == "previous" and sieve.pipeline.lexical_column is None
    assert [(sieve.path / name).is_dir() for name in ("model", "encoder")] == [True, True]
    assert set(sieve.note["labels"]) == {"pseudo"}
    check_tested(folder, load_sieve(tmp_path / "s", threads=1))
    report = (tmp_path / "s" / "report.html").read_text("utf-8")
    assert "no model learnt from them, so nothing had to be held out" in report
    assert "pseudo-labelled with hybrid" in report


def test_a_hybrid_is_used_unless_it_surely_finds_less() -> None:
    def compared(judged: int, words: int, both: int) -> dict[str, Any]:
        qrels = Qrels.from_dict({f"q{n:02}": {"d": 1} for n in range(judged)})
        stages = {
            name: Run.from_dict(
                {f"q{n:02}": {"d" if n < hits else "e": 1.0} for n in range(judged)}
            )
            for name, hits in (("BM25", words), ("hybrid", both))
        }
        fitting: Any = SimpleNamespace(
            parts=SimpleNamespace(learn=qrels), request=SimpleNamespace(depth=50)
        )
        return finding._compared(fitting, stages)

    assert compared(20, 4, 17) == {
        "measure": "R@50", "BM25": 0.2, "hybrid": 0.85, "p": pytest.approx(1e-5, abs=1e-4),
        "used": True,
    }  # fmt: skip
    assert compared(20, 10, 9)["used"]  # one query is luck
    assert not compared(20, 17, 4)["used"]
    assert compared(9, 9, 0) == {"used": True}


def test_ten_judged_queries_can_put_words_alone_before_the_usual_way() -> None:
    offered = ways("BM25", ["start"])
    options = [Option(way.name, way.simplicity) for way in offered]
    for judged, expected in ((9, "start .75 + BM25"), (10, "BM25")):
        fused = [0.5] * (judged - 1) + [0.4]  # lower on one query: luck, and yet lower
        table = [[0.5] * judged, [0.1] * judged, [0.2] * judged, [0.3] * judged, fused]
        least = floors("start .75 + BM25", "BM25", judged)
        choice = choose(options, table, start="start", baseline="BM25", floors=least)
        assert choice.chosen == expected


def test_what_one_training_made_is_equally_simple() -> None:
    found = ways("hybrid", ["start", *POINTS, "tuned", "next"], ["BM25"])
    levels = {way.name: way.simplicity for way in found}
    assert levels.pop("hybrid") == 0
    untrained = ("BM25", "start", "start .25 + BM25", "start .75 + BM25")
    assert {levels[name] for name in untrained} == {1}
    assert {levels[f"{name}{more}"] for name in (*POINTS, "tuned")
            for more in ("", " .75 + BM25")} == {2}  # fmt: skip
    assert levels["next"] == levels["next .75 + BM25"] == 3


def test_parts_keep_given_splits_and_leak_nothing() -> None:
    log = Queries.of(Query(f"q{n:03}", f"{n} sieves") for n in range(100))
    judged = {f"q{n:03}": {"d1": 1} for n in range(90)}
    everything = Qrels.from_dict(judged)
    parts = parted(log, {"all": everything}, Ids.of(["d1"]))
    assert (len(parts.learn), len(parts.test), parts.given) == (54, 36, False)
    assert not set(parts.learn) & set(parts.test)
    assert not set(parts.test) & set(parts.log.ids)
    given = {"train": everything.select(Ids.of(f"q{n:03}" for n in range(50))),
             "test": everything.select(Ids.of(f"q{n:03}" for n in range(40, 90)))}  # fmt: skip
    parts = parted(log, given, Ids.of(["d1"]))
    assert (len(parts.learn), len(parts.test), parts.given) == (40, 50, True)


def test_judged_queries_that_are_not_used_are_counted() -> None:
    log = Queries.of(Query(f"q{n:03}", f"{n} sieves") for n in range(90))
    judged = Qrels.from_dict({f"q{n:03}": {f"d{n // 2}": 1} for n in range(90)})
    docs = Ids.of(sorted(f"d{n}" for n in range(45)))
    parts = parted(log, {"all": judged}, docs, tested=20, learnt=30)
    assert (len(parts.learn), len(parts.test), parts.shared) == (30, 20, 0)
    assert parts.left_out == {
        "judged queries, more than are learnt from": 24,
        "judged queries, more than are tested on": 16,
    }
    fewer = parts.tested_on(5, 0)
    assert len(fewer.test) == 5 and sum(fewer.left_out.values()) == 24 + 31
    given = {"test": judged.select(Ids.of(f"q{n:03}" for n in range(0, 90, 2))),
             "train": judged.select(Ids.of(f"q{n:03}" for n in range(1, 40, 2)))}  # fmt: skip
    parts = parted(log, given, docs)
    assert parts.shared == 20
    assert parts.facts()["test queries with an answer that is also learnt from"] == 20


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


def test_judgements_of_which_some_cannot_be_used_are_warned_of(tmp_path: Path) -> None:
    folder = collection(tmp_path / "docs", train=0, test=12)
    path = folder / "qrels" / "test.tsv"
    path.write_text(path.read_text().replace("q003", "lost").replace("\td05", "\tgone"))
    said: list[str] = []
    fit(request(folder, tmp_path / "s", None), said=said.append)
    warnings = [line for line in said if line.startswith("warning: ")]
    assert any("1 judged queries without text, such as lost" in line for line in warnings)
    assert any("1 judgements of documents that are not there, such as gone" in w for w in warnings)


@pytest.mark.parametrize("name", ["devtest", "testset", "TestA", "latest", "my_TEST-2"])
def test_every_split_with_test_in_its_name_is_held_out(name: str) -> None:
    queries = Queries.of([Query(f"q{n}", f"number {n}") for n in range(4)])
    judged = {"train": Qrels.from_dict({"q0": {"d1": 1}, "q1": {"d1": 1}}),
              name: Qrels.from_dict({"q2": {"d1": 1}, "q1": {"d1": 1}})}  # fmt: skip
    parts = parted(queries, judged, Ids.of(["d1"]))
    assert ([*parts.learn.queries], [*parts.test.queries]) == (["q0"], ["q1", "q2"])
    assert [*parts.log.ids] == ["q0", "q3"]
    assert name in str(parts.facts()["judged, to test on"])


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
        values.append(sieve.note["test"]["BM25"]["RR@10"])
        log.write_text("a line more\n" + log.read_text())
    assert values[0] == values[1] > 0.5
    judged.write_text("".join(f"q{n:06d} 0 d{n:02} 1\n" for n in range(1, 9)))
    with pytest.raises(InputError, match="by line number") as raised:
        fit(request(folder, tmp_path / "s", None, **options))
    assert f"tamis convert {judged} " in raised.value.hint


def test_a_sieve_is_fitted_again_with_judgements_that_bring_their_queries(tmp_path: Path) -> None:
    folder = collection(tmp_path / "docs", train=0, test=0, log=6)
    _, first = fit(request(folder, tmp_path / "s", None))
    assert first is not None and first.note["verified"] == "no"
    texts = [f"{one} {other}" for one in THINGS for other in THINGS if one != other]
    queries = [Query(f"new{n:02}", text) for n, text in enumerate(texts)]
    judged = Qrels.from_dict({f"new{n:02}": {f"d{n:02}": 1} for n in range(len(texts))})
    write_judged(queries, judged, tmp_path / "judged", "mytest")
    for name in ("s", "s/index"):
        options = {"qrels": {"mytest": str(tmp_path / "judged")}}
        _, again = fit(request(tmp_path / name, tmp_path / f"{name[-1]}2", None, **options))
        assert again is not None and again.note["verified"] == "yes"
        assert again.index.documents == first.index.documents


def test_copies_of_test_queries_are_not_learnt_from() -> None:
    texts = {"q1": "How do I clean a drum sieve?", "q2": "how do I clean a drum sieve",
             "q3": "what is a net", "q4": "How do I clean a drum sieve"}  # fmt: skip
    queries = Queries.of([Query(name, text) for name, text in texts.items()])
    judged = {"train": Qrels.from_dict({name: {"d1": 1} for name in ("q1", "q3")}),
              "test": Qrels.from_dict({"q2": {"d1": 1}})}  # fmt: skip
    parts = parted(queries, judged, Ids.of(["d1"]))
    assert list(parts.learn.queries) == ["q3"] and list(parts.log.ids) == ["q3"]
    assert parts.left_out == {"queries nearly the same as a test query": 2}


def test_judgements_of_several_splits_add_up_and_missing_answers_are_no_refusal() -> None:
    queries = Queries.of([Query(f"q{n}", f"number {n}") for n in range(3)])
    judged = {"dev": Qrels.from_dict({"q0": {"d1": 1}, "q1": {"d9": 1, "d1": 0}}),
              "train": Qrels.from_dict({"q0": {"d2": 1, "d1": 0}, "q2": {"d1": 0}})}  # fmt: skip
    parts = parted(queries, judged, Ids.of(["d1", "d2"]))
    assert parts.learn["q0"] == {"d1": 1, "d2": 1}
    assert list(parts.unanswered[0].ids) == ["q2"]
    assert parts.left_out["judged queries whose answers are not there"] == 1


def test_a_plan_fits_the_time() -> None:
    sizes = Sizes(10_000, 500, 300, 5_000, 50, 1.0, "bi-encoder")
    for seconds in (10, 60, 300, 1_800, 7_200):
        plan = make_plan(sizes, 0.01, seconds)
        assert plan.seconds <= max(seconds, 5)
        assert Plan.of_record(json.loads(json.dumps(plan.record()))) == plan
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
    assert capsys.readouterr().err.startswith("error: ")
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
    assert sieve is not None and sieve.note["chosen"] == "BM25"
    assert sieve.search("drum net")


def test_your_own_candidates(tmp_path: Path, base: Path) -> None:
    folder = collection(tmp_path / "docs")
    opened = tamis.open_collection(folder)
    rows = {query: {f"d{n:02}": 50.0 - n for n in range(0, 42, 3)} for query in opened.queries.ids}
    tamis.write_run(Run.from_dict(rows), tmp_path / "mine.trec")
    _, sieve = fit(request(folder, tmp_path / "s", base, candidates=tmp_path / "mine.trec"))
    assert sieve is not None
    names = [row["name"] for row in sieve.note["candidates"]]
    assert "BM25" in names and "first stage" in names and "start .50 + first stage" in names
    if sieve.note["chosen"] != "BM25":
        assert not sieve.is_own and sieve.search("drum net")


def test_columns_of_your_own_candidates_say_nothing(tmp_path: Path, base: Path) -> None:
    """A run that `tamis search --ranking hybrid` wrote has a column of that name."""
    folder = collection(tmp_path / "docs", train=0)
    ids = tamis.open_collection(folder).queries.ids
    run = Run.from_dict({query: {f"d{n:02}": 50.0 - n for n in range(20)} for query in ids})
    tested = []
    for name, mine in (("plain", run), ("more", run.with_extra(words=np.arange(len(run.doc)) % 7))):
        tamis.write_run(mine, tmp_path / f"{name}.parquet")
        given = tmp_path / f"{name}.parquet"
        _, sieve = fit(request(folder, tmp_path / name, base, candidates=given))
        assert sieve is not None
        tested.append(sieve.note["test"])
    assert tested[0] == tested[1]


def test_a_full_disk_leaves_no_sieve(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = collection(tmp_path / "docs")

    def full(*_: object, **facts: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tamis.fit.handing.write_manifest", full)
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
    assert "handed over" in out and "verified" in out and "start .50 +" in out
    assert run(["search", "s", "drum net"]) == 0
    assert "drum" in capsys.readouterr().out
    assert run(["info", "s"]) == 0
    assert "verified" in capsys.readouterr().out
    for option in (["--k1", "0"], ["--b", "0"], ["--no-rm3"], ["--rm3"], ["--mu", "0"]):
        assert run(["search", "s", "drum net", *option]) == 2, option
        assert "a sieve knows how it ranks" in capsys.readouterr().err
    assert run(["search", "s", "docs/queries.jsonl", "-o", "run.parquet", "--top", "5"]) == 0
    capsys.readouterr()
    code = run(["rerank", "run.parquet", "-c", "s/index", "--model", "s", "-o", "again.parquet"])
    chosen = load_sieve("s").pipeline.model
    assert code == (0 if chosen else 1)
