"""The loop on a tiny model: it learns, repeats itself bit for bit, goes on after being stopped at
any moment, and stops by itself when what it learns is nothing.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
import xml.etree.ElementTree as xml
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tamis.errors import DamagedError, InputError, OutputError, TrainingError
from tamis.labels import Examples
from tamis.labels.examples import LABEL_SOURCES
from tamis.models import describe_model, open_model, open_scorer
from tamis.pipeline.document_lookup import MappingLookup
from tamis.training import checkpoints, trainer
from tamis.training.checkpoints import History, history_in
from tamis.training.loop import Job, Trained, train
from tamis.training.model_writer import HISTORY_FILE
from tamis.training.recipe import Recipe
from tamis.training.schedules import rate_at
from tamis.training.time_estimate import TimeEstimate
from tamis.training.trainable import accumulate
from tamis.training.trainer import Trainer
from tamis.training.validation import Validation, hold_out
from tamis.types import Document, Pairs, Queries, Query, score_texts

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("accelerate", reason="accelerate is not installed")

TOPICS = ["sieve", "drum", "net", "grain", "flour", "fish"]
DOCUMENTS = {
    f"{topic}{n}": Document(f"{topic}{n}", f"the {topic} a {' '.join(TOPICS[n : n + 1])} {topic}")
    for topic in TOPICS
    for n in range(4)
}
FIRST = "a the sort".split()
QUERIES = Queries.of(
    [Query(f"{topic}-{n}", f"{FIRST[n % 3]} {topic}") for topic in TOPICS for n in range(6)]
)
PAIRS = Recipe(
    "tiny",
    loss="margin",
    sampler="pairs",
    batch_size=4,
    epochs=6,
    learning_rate=5e-3,
    max_length=24,
    validate_every=10,
    micro_batch_tokens=40,
    dropout=0.02,
    warmup_ratio=0.1,
)


def rows(queries: Queries) -> Examples:
    """For every query two documents about sieves or drums, and eight of the others."""
    made: list[Any] = []
    for number, query in enumerate(queries):
        for name in DOCUMENTS:
            if name.startswith(("sieve", "drum")) and name.endswith(str(number % 4)):
                made.append((query.id, name, 1.0, "positive"))
            elif not name.startswith(("sieve", "drum")) and name.endswith(("0", "2")):
                made.append((query.id, name, 0.0, "pool"))
    return Examples.of_rows(made, source="gold").with_queries(queries)


LEARN, HELD = hold_out(rows(QUERIES), 0)
assert HELD is not None


@pytest.fixture
def job(tmp_path: Path, tiny_cross_encoder: Path) -> Job:
    library = MappingLookup(DOCUMENTS)
    validation = Validation.of(HELD, "RR@10") if HELD else None
    return Job(LEARN, library, PAIRS, tiny_cross_encoder, tmp_path / "model", validation, threads=2)


def weights(folder: Path) -> bytes:
    return (folder / "model.safetensors").read_bytes()


def test_it_learns_and_writes_a_model(job: Job) -> None:
    said: list[str] = []
    done = train(job, log=said.append)
    losses = done.history.losses
    assert np.mean(losses[-10:]) < 0.5 * np.mean(losses[:10])
    checks = done.history.checks
    assert [check.step for check in checks[:3]] == [0, 10, 20]
    best = max(checks, key=lambda check: check.value)
    assert best.value > checks[0].value + 0.2
    assert done.selected_step == best.step
    assert not checkpoints.work_folder(job.out).exists()
    scorer = open_scorer(job.out)
    high, low = score_texts(scorer, "a fish", [DOCUMENTS["drum1"].text, DOCUMENTS["fish1"].text])
    assert high > low
    (words,) = said
    assert f"{done.history.step:,} steps ({LEARN.groups} instances, 6 epochs)" in words
    note = json.loads((job.out / "tamis.json").read_text())
    assert note["labels"]["gold"]["positive"] == int(LEARN.is_role("positive").sum())
    assert note["recipe"]["learning_rate"] == 5e-3
    assert note["chain"][0]["recipe"] == "tiny"
    assert note["validation"]["by_step"]["0"] == round(checks[0].value, 4)
    assert note["training"]["selected_step"] == done.selected_step
    assert note["training"]["steps"] == done.history.step == 48
    told = dict(describe_model(open_model(job.out)))
    assert told["trained"] == "tiny, tiny"
    assert told["recipe"].startswith(
        "tiny: margin loss, learning rate 0.005, batch size 4, 24 tokens"
    )
    assert f"48, kept after {done.selected_step}; " in told["steps"]
    assert told["trained_from"].startswith("64 gold positive, 256 gold pool")
    assert told["validation"].startswith("RR@10 ")
    xml.fromstring((job.out / "training.svg").read_text())


def test_the_same_seed_gives_the_same_bits_and_another_does_not(job: Job, tmp_path: Path) -> None:
    folders = []
    for number, seed in enumerate((0, 0, 1)):
        recipe = replace(PAIRS, seed=seed, epochs=1)
        folders.append(train(replace(job, recipe=recipe, out=tmp_path / str(number))).folder)
    first, again, other = map(weights, folders)
    assert first == again
    assert first != other


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, tiny_cross_encoder: Path) -> Trained:
    """A training that nothing disturbed."""
    assert HELD is not None
    library, out = MappingLookup(DOCUMENTS), tmp_path_factory.mktemp("whole") / "model"
    recipe = replace(PAIRS, epochs=3, keep="last")
    given = (LEARN, library, recipe, tiny_cross_encoder, out, Validation.of(HELD, "RR@10"))
    return train(Job(*given, threads=2))


class Killed(BaseException):
    """Nobody catches it."""


def interrupted(patch: pytest.MonkeyPatch, owner: Any, name: str, after: int) -> None:
    """Die in the call after so many of a function."""
    real, calls = getattr(owner, name), iter(range(10**9))

    def dies(*given: Any, **named: Any) -> Any:
        if next(calls) == after:
            raise Killed
        return real(*given, **named)

    patch.setattr(owner, name, dies)


MOMENTS = [
    (Trainer, "learn", 0),
    (Trainer, "learn", 1),
    (Trainer, "learn", 10),
    (Trainer, "learn", 13),
    (Trainer, "keep", 0),
    (Trainer, "keep", 2),
    (trainer, "accumulate", 17),
    (torch, "save", 1),
    (shutil, "rmtree", 0),
    (checkpoints, "_write_json", 0),
    (checkpoints, "_write_json", 3),
]


@pytest.mark.parametrize(("owner", "name", "after"), MOMENTS, ids=lambda value: str(value)[:20])
def test_killed_at_any_moment_it_goes_on_to_the_same_model(
    job: Job, whole: Trained, owner: Any, name: str, after: int
) -> None:
    job = replace(job, recipe=replace(PAIRS, epochs=3, keep="last"))
    with pytest.MonkeyPatch.context() as patch:
        interrupted(patch, owner, name, after)
        with pytest.raises(Killed):
            train(job)
    done = train(job, resume=True, force=True)
    assert weights(done.folder) == weights(whole.folder)
    assert done.history.losses == whole.history.losses
    assert done.history.checks == whole.history.checks


def test_checkpoints_by_time_change_nothing(
    job: Job, whole: Trained, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tamis.training.loop.CHECKPOINT_SECONDS", -1.0)
    job = replace(job, recipe=replace(PAIRS, epochs=3, keep="last"))
    with pytest.MonkeyPatch.context() as patch:
        interrupted(patch, Trainer, "learn", 7)
        with pytest.raises(Killed):
            train(job)
    assert 7 in checkpoints.steps(checkpoints.work_folder(job.out))
    assert weights(train(job, resume=True).folder) == weights(whole.folder)


def test_an_unfinished_training_is_not_overwritten_nor_changed(job: Job) -> None:
    with pytest.MonkeyPatch.context() as patch:
        interrupted(patch, Trainer, "learn", 3)
        with pytest.raises(Killed):
            train(job)
    with pytest.raises(OutputError, match="was not finished"):
        train(job)
    other = replace(job, recipe=replace(PAIRS, learning_rate=1e-3))
    with pytest.raises(InputError, match=r"begun with another learning_rate: 0\.005, not 0\.001"):
        train(other, resume=True)
    done = train(replace(job, recipe=replace(PAIRS, epochs=1)), force=True)
    assert done.history.step == done.facts["training"]["steps"]
    with pytest.raises(OutputError, match="exists already"):
        train(job)


def test_a_loss_that_is_no_number_stops_it_and_the_last_good_model_is_kept(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, calls = accumulate, iter(range(10**9))

    def broken(*given: Any, **named: Any) -> float:
        return float("nan") if next(calls) == 4 + 12 else real(*given, **named)

    monkeypatch.setattr(trainer, "accumulate", broken)
    with pytest.raises(TrainingError, match="the loss of step 13 is nan") as error:
        train(job)
    assert not job.out.exists()
    assert "the model after step 10 is in" in error.value.hint
    open_scorer(Path(error.value.hint.split(" is in ")[1]))


def test_a_gradient_that_is_no_number_stops_it(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    def infinite(*_: Any, **__: Any) -> Any:
        return torch.tensor(float("inf"))

    monkeypatch.setattr(torch.nn.utils, "clip_grad_norm_", infinite)
    with pytest.raises(TrainingError, match="the gradient of step 1 is no number"):
        train(job)


def test_a_model_that_says_the_same_of_all_is_refused(job: Job) -> None:
    # at such a rate every unit of the tiny model is saturated after a few steps
    lists = replace(
        PAIRS, loss="listwise-hinge", margin=0.0, sampler="lists", list_size=8, learning_rate=1.0,
        warmup_ratio=0.0, max_grad_norm=None, validate_every=5, epochs=40,
    )  # fmt: skip
    with pytest.raises(TrainingError, match=r"have the same score|rises"):
        train(replace(job, recipe=lists))


def test_without_validation_a_collapsed_model_is_refused_and_the_one_before_is_kept(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, calls = Trainer.scores, iter(range(10**9))

    def collapsing(self: Trainer, some: Examples) -> Any:
        return real(self, some) if next(calls) < 3 else np.ones(len(some), np.float32)

    monkeypatch.setattr(Trainer, "scores", collapsing)
    monkeypatch.setattr("tamis.training.loop.CHECKPOINT_SECONDS", -1.0)  # a checkpoint every step
    with pytest.raises(TrainingError, match="have the same score") as error:
        train(replace(job, validation=None, recipe=replace(PAIRS, epochs=1)))
    assert "the model after step 2 is in" in error.value.hint


def test_what_the_recipe_says_of_rates_and_gradients_is_done(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    rates: list[float] = []
    clips: list[float] = []
    real, step = torch.nn.utils.clip_grad_norm_, torch.optim.AdamW.step

    def clipped(parameters: Any, most: float) -> Any:
        clips.append(most)
        return real(parameters, most)

    def stepped(self: Any, *given: Any, **named: Any) -> Any:
        rates.append(self.param_groups[0]["lr"])
        return step(self, *given, **named)

    monkeypatch.setattr(torch.nn.utils, "clip_grad_norm_", clipped)
    monkeypatch.setattr(torch.optim.AdamW, "step", stepped)
    recipe = replace(
        PAIRS, steps=10, epochs=None, warmup_ratio=0.4, schedule="linear", max_grad_norm=0.7
    )
    train(replace(job, recipe=recipe))
    expected = [5e-3 * rate_at(number, 10, recipe) for number in range(10)]
    assert rates[-10:] == pytest.approx(expected)
    assert expected[0] < expected[3] and expected[-1] < expected[5]
    assert set(clips) == {0.7}


def test_documents_are_cut_in_training_as_in_scoring(job: Job) -> None:
    recipe = replace(PAIRS, document_tokens=3, epochs=1)
    made = Trainer.of(replace(job, recipe=recipe)).model
    text = DOCUMENTS["drum1"].text
    (pair,) = made.prepare(["a fish"], [text])
    assert pair.truncated_tokens == 2 and made.manifest.document_tokens == 3
    done = train(replace(job, recipe=recipe))
    scorer = open_scorer(done.folder)
    one = Pairs(
        ["a fish"],
        [text, "the drum a", "the drum a net"],
        np.array([[0, 0], [0, 1], [0, 2]], np.int32),
    )
    found = scorer.score(one)
    assert found.truncated_tokens.tolist() == [2, 0, 1]
    assert found.values[0] == found.values[1] == found.values[2]


def test_going_on_with_a_new_training_over_an_old_model(job: Job) -> None:
    short = replace(PAIRS, epochs=1)
    old = weights(train(replace(job, recipe=short)).folder)
    new = replace(job, recipe=replace(short, seed=5))
    with pytest.MonkeyPatch.context() as patch:
        interrupted(patch, Trainer, "learn", 4)
        with pytest.raises(Killed):
            train(new, force=True)
    with pytest.raises(OutputError, match="exists already"):
        train(new, resume=True)
    done = train(new, resume=True, force=True)
    assert weights(done.folder) != old
    assert done.facts["seed"] == 5


def test_other_texts_are_not_gone_on_with(job: Job) -> None:
    with pytest.MonkeyPatch.context() as patch:
        interrupted(patch, Trainer, "learn", 4)
        with pytest.raises(Killed):
            train(job)
    changed = {name: replace(each, text=f"{each.text} net") for name, each in DOCUMENTS.items()}
    asked = Queries.of([Query(each.id, f"{each.text} net") for each in QUERIES])
    for other in (
        replace(job, lookup=MappingLookup(changed)),
        replace(job, examples=LEARN.with_queries(asked)),
    ):
        with pytest.raises(InputError, match="begun with another texts"):
            train(other, resume=True)


def test_what_is_wrong_is_told_before_any_work(job: Job, tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="no folder to write"):
        train(replace(job, out=tmp_path / "none" / "model"))
    said: list[str] = []
    train(replace(job, recipe=replace(PAIRS, epochs=1)), resume=True, log=said.append)
    assert "nothing to resume" in said[0]


def test_every_step_draws_its_own_dropout(job: Job) -> None:
    one = Trainer.of(replace(job, recipe=replace(PAIRS, dropout=0.3)))
    batch = one.batch(0)
    first, again, next_one = (one.gradient(batch, step)[0] for step in (0, 0, 1))
    assert first == again != next_one


def test_trying_out_the_pace_leaves_no_trace(job: Job) -> None:
    one, two = Trainer.of(job), Trainer.of(job)
    TimeEstimate.of(one)
    for name, weight in one.model.named_parameters():
        assert torch.equal(weight, dict(two.model.named_parameters())[name]), name
    assert not one.optimizer.state_dict()["state"]


def test_killed_when_all_but_the_cleaning_up_was_done(job: Job) -> None:
    short = replace(job, recipe=replace(PAIRS, epochs=1))
    with pytest.MonkeyPatch.context() as patch:
        real = shutil.rmtree

        def dies(path: Any, *given: Any, **named: Any) -> None:
            if str(path).endswith(".training"):
                assert [each.name for each in Path(path).iterdir()] == ["plan.json"]
                raise Killed
            real(path, *given, **named)

        patch.setattr(shutil, "rmtree", dies)
        with pytest.raises(Killed):
            train(short)
    before = weights(job.out)
    done = train(short, resume=True)
    assert weights(done.folder) == before
    assert done.history.step == done.facts["training"]["steps"] > 0
    assert not checkpoints.work_folder(job.out).exists()


def test_a_full_disk_is_told(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(torch, "save", full)
    with pytest.raises(OutputError, match="No space left on device") as error:
        train(job)
    assert "--resume" in error.value.hint


def test_what_was_cut_is_counted_across_a_kill(job: Job, tmp_path: Path) -> None:
    narrow = replace(PAIRS, epochs=2, max_length=8, keep="last")
    whole = train(replace(job, recipe=narrow, out=tmp_path / "whole"))
    with pytest.MonkeyPatch.context() as patch:
        interrupted(patch, Trainer, "learn", 12)
        with pytest.raises(Killed):
            train(replace(job, recipe=narrow))
    done = train(replace(job, recipe=narrow), resume=True)
    assert done.history.truncated_tokens == whole.history.truncated_tokens > 0


def test_patience_ends_it(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    values = iter([0.1, 0.5, 0.4, 0.45, 0.3])
    monkeypatch.setattr(Trainer, "_validate", lambda self, validation: (next(values), None, False))
    done = train(replace(job, recipe=replace(PAIRS, patience=2)))
    assert [check.step for check in done.history.checks] == [0, 10, 20, 30]
    assert done.selected_step == 10


@pytest.mark.parametrize("patience", [None, 1])
def test_held_out_pseudo_labels_are_measured_and_do_not_select(
    job: Job, monkeypatch: pytest.MonkeyPatch, patience: int | None
) -> None:
    assert HELD is not None
    labels = np.full(len(HELD), LABEL_SOURCES.index("pseudo"), np.int8)
    values = iter([0.1, 0.9, *[0.2] * 20])
    monkeypatch.setattr(Trainer, "_validate", lambda self, validation: (next(values), None, False))
    recipe = replace(PAIRS, epochs=4, keep="best", patience=patience)
    pseudo = replace(job, recipe=recipe, validation=Validation.of(replace(HELD, source=labels)))
    done = train(pseudo)
    assert len(done.history.checks) > 3
    assert done.selected_step == done.history.step == done.facts["training"]["planned_steps"]
    assert done.facts["validation"]["selects"] is False


def test_without_validation_the_last_state_is_kept(job: Job) -> None:
    done = train(replace(job, validation=None, recipe=replace(PAIRS, epochs=1)))
    assert done.selected_step == done.history.step
    assert "validation" not in done.facts


def test_the_chain_of_trainings_is_kept(job: Job, tmp_path: Path) -> None:
    short = replace(PAIRS, epochs=1, name="first")
    first = train(replace(job, recipe=short))
    points = Recipe(
        "second",
        loss="squared",
        scale="regression",
        batch_size=8,
        epochs=1,
        learning_rate=1e-3,
        max_length=24,
    )
    second = train(replace(job, recipe=points, base=first.folder, out=tmp_path / "second"))
    assert [step["recipe"] for step in second.facts["chain"]] == ["first", "second"]
    note = json.loads((second.folder / "tamis.json").read_text())
    assert note["scale"] == "regression"
    assert note["base"]["name"] == "model"


class FakeLearner:
    """Steps and validations for the arithmetic of time."""

    def __init__(self, steps: int) -> None:
        self.steps, self.counts = steps, {"steps": 100, "instances": 400}

    @property
    def every(self) -> int:
        return min(100, max(1, -(-self.steps // 5)))

    def batch(self, step: int) -> list[Any]:
        return [np.zeros(2, np.int64)] * 4


def test_steps_are_fitted_to_the_time() -> None:
    pace = TimeEstimate(step=2.0, check=10.0)
    assert pace.total(100, 20) == 100 * 2 + 6 * 10
    many: Any = FakeLearner(1000)
    assert pace.steps_within(10**6, many) == 1000
    many = FakeLearner(1000)
    found = pace.steps_within(260, many)
    many.steps = found
    assert pace.total(found, many.every) <= 260
    many.steps = found + 1
    assert pace.total(found + 1, many.every) > 260
    none: Any = FakeLearner(1000)
    with pytest.raises(InputError, match="not one step fits"):
        pace.steps_within(15, none)
    told: Any = FakeLearner(100)
    assert pace.describe(told, 0) == (
        "100 steps (400 instances, 1 epoch), about 4 texts per second: 4 min 20 s"
    )


def test_a_time_limit_is_remembered_by_a_resumed_training(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TimeEstimate, "of", classmethod(lambda cls, _: TimeEstimate(1e6, 0.0)))
    with pytest.MonkeyPatch.context() as patch:
        interrupted(patch, Trainer, "learn", 5)
        with pytest.raises(Killed):
            train(job, max_time=17.5e6)
    monkeypatch.setattr(TimeEstimate, "of", classmethod(lambda cls, _: TimeEstimate(9e6, 0.0)))
    assert train(job, max_time=17.5e6, resume=True).history.step == 17


def test_what_was_spent_before_the_first_step_counts(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter((0.0, 12e6))
    monkeypatch.setattr(TimeEstimate, "of", classmethod(lambda cls, _: TimeEstimate(1e6, 0.0)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tamis.training.loop.time.monotonic", lambda: next(clock, 12e6))
        done = train(job, max_time=17.5e6)
    assert done.history.step == 5


SCRIPT = """
import sys
sys.path[:0] = sys.argv[3:]
from dataclasses import replace
from pathlib import Path
import torch
import test_loop as here
real = torch.nn.utils.clip_grad_norm_
def told(*given):
    norm = real(*given)
    with open(sys.argv[2] + ".norms", "a") as file:
        file.write(f"{float(norm)}\\n")
    return norm
torch.nn.utils.clip_grad_norm_ = told
job = here.Job(here.LEARN, here.MappingLookup(here.DOCUMENTS),
               replace(here.PAIRS, epochs=1, dropout=0.0, keep="last"), sys.argv[1],
               Path(sys.argv[2]), here.Validation.of(here.HELD, "RR@10"), threads=1)
here.train(job)
"""


def test_two_processes_share_the_steps(job: Job, tmp_path: Path, tiny_cross_encoder: Path) -> None:
    script, out = tmp_path / "script.py", tmp_path / "two"
    script.write_text(SCRIPT)
    run = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    given = [str(tiny_cross_encoder), str(out), str(Path(__file__).parent)]
    done = subprocess.run(
        [*run, str(script), *given], capture_output=True, text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"}, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[:3000]
    norms: list[float] = []
    real = torch.nn.utils.clip_grad_norm_
    with pytest.MonkeyPatch.context() as patch:

        def told(*given: Any) -> Any:
            norms.append(float(real(*given)))
            return torch.tensor(norms[-1])

        patch.setattr(torch.nn.utils, "clip_grad_norm_", told)
        alone = train(replace(job, recipe=replace(PAIRS, epochs=1, dropout=0.0, keep="last")))
    both = [float(line) for line in Path(f"{out}.norms").read_text().split()]
    taken = len(alone.history.losses)
    assert sorted(both[-2 * taken :])[::2] == pytest.approx(sorted(norms[-taken:]), rel=1e-3)
    load = pytest.importorskip("safetensors.torch").load_file
    two, one = (load(folder / "model.safetensors") for folder in (out, alone.folder))
    assert set(two) == set(one)
    for name, weight in one.items():
        if name.endswith("key.bias"):
            continue  # it changes no score, so its gradient is rounding, which Adam makes large
        assert torch.allclose(two[name], weight, atol=2e-4), name
    history = json.loads((out / "training.json").read_text())
    assert history["losses"] == pytest.approx(alone.history.losses, abs=1e-4)


def test_history_knows_its_best() -> None:
    history = History([0.1] * 30, [checkpoints.Check(step, v) for step, v in
                                   ((0, 0.1), (10, 0.4), (20, 0.4), (30, 0.2))])  # fmt: skip
    best = history.best()
    assert best is not None and best.step == 10
    assert history.since_best() == 2
    assert History().best() is None


@pytest.fixture(autouse=True)
def _few_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def test_files_have_the_modes_of_the_umask(job: Job) -> None:
    before = os.umask(0o027)
    try:
        folder = train(job).folder
    finally:
        os.umask(before)
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()}
    assert modes["model.safetensors"] == 0o640
    assert set(modes.values()) == {0o640}


@pytest.mark.parametrize("damage", [("step", "stfp"), ("checks", "chfcks"), ("{", "[1, {")])
def test_a_damaged_history_is_told(job: Job, tmp_path: Path, damage: tuple[str, str]) -> None:
    path = train(job).folder / HISTORY_FILE
    text = path.read_text().replace(*damage, 1)
    (tmp_path / "history.json").write_text(text + "]" * damage[1].startswith("["))
    with pytest.raises(DamagedError) as caught:
        history_in(tmp_path / "history.json")
    assert caught.value.hint
