"""`tamis.train` and what it returns."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

import tamis
from tamis.errors import InputError, OutputError
from tamis.labels import Examples, write_examples
from tamis.models import load_model
from tamis.training import api, loop
from tamis.training.recipes import resolve
from tamis.training.trainer import Job

pytest.importorskip("accelerate", reason="accelerate is not installed")
TOPICS = ["sieve", "drum", "net", "grain", "flour", "fish"]
DOCUMENTS = {f"{a}-{b}": f"the {a} {b}" for a in TOPICS for b in TOPICS if a != b}
QUERIES = {f"q{name}": f"a {text}" for name, text in DOCUMENTS.items()}
SHORT: dict[str, Any] = {
    "recipe": "monobert-pairwise", "epochs": 1, "max_length": 24, "learning_rate": 1e-3,
    "document_tokens": None, "threads": 1,
}  # fmt: skip


@pytest.fixture(scope="module")
def examples() -> Examples:
    names, rows = list(DOCUMENTS), list[Any]()
    for place, name in enumerate(names):
        rows += [(f"q{name}", name, 1.0, "positive"), (f"q{name}", names[place - 1], 0.0, "pool")]
    return Examples.of_rows(rows, source="gold")


def test_a_model_is_trained_on_objects_and_loaded(
    examples: Examples, tiny_cross_encoder: Path, tmp_path: Path
) -> None:
    out = tmp_path / "model"
    done = tamis.train(
        examples, DOCUMENTS, queries=QUERIES, base=tiny_cross_encoder, out=out, seed=3, **SHORT
    )
    assert done.folder == out
    assert done.history.step == len(done.history.losses) == 2
    assert done.facts["recipe"]["learning_rate"] == 1e-3
    assert done.facts["seed"] == 3
    model = done.load(threads=1)
    assert model.rank("sieve", ["net", "drum"]) == load_model(out).rank("sieve", ["net", "drum"])
    with pytest.raises(OutputError, match="exists already"):
        tamis.train(examples, DOCUMENTS, queries=QUERIES, base=tiny_cross_encoder, out=out, **SHORT)


def test_files_give_the_same_model_as_objects(
    examples: Examples, tiny_cross_encoder: Path, tmp_path: Path
) -> None:
    file = tmp_path / "gold.parquet"
    write_examples(examples, file)
    index = tamis.Index.build(DOCUMENTS, tmp_path / "index")
    losses = [
        tamis.train(
            part, documents, queries=QUERIES, base=tiny_cross_encoder, out=tmp_path / name,
            validate=False, **SHORT,
        ).history.losses
        for part, documents, name in (
            (examples, DOCUMENTS, "one"), ([str(file)], index, "two"), (file, index.path, "three")
        )
    ]  # fmt: skip
    assert losses[0] == losses[1] == losses[2]


def test_names_of_transformers_are_names_of_settings() -> None:
    named = resolve("infuse-scores", {
        "learning_rate": "1e-5", "weight_decay": "0.1", "warmup_ratio": "0.2",
        "max_grad_norm": "none", "batch_size": "12",
    })  # fmt: skip
    assert (named.learning_rate, named.weight_decay, named.warmup_ratio, named.max_grad_norm) == (
        1e-5,
        0.1,
        0.2,
        None,
    )
    assert named.effective_batch_size == 12
    assert resolve("infuse-scores").gradient_accumulation_steps == 8
    both = resolve("infuse-scores", {"batch_size": "12", "gradient_accumulation_steps": "2"})
    assert both.effective_batch_size == 24
    assert named.source_of("learning_rate") == "set by hand"
    with pytest.raises(InputError, match="there is no setting 'rate'") as raised:
        resolve("docrank", {"rate": "1e-5"})
    assert "learning_rate" in raised.value.hint


def test_time_is_shared_among_stages(
    examples: Examples, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs: list[tuple[Job, float]] = []
    clock = iter([0.0, 100.0, 400.0])

    def record(job: Job, *, max_time: float, **more: Any) -> None:
        jobs.append((job, max_time))

    monkeypatch.setattr(loop, "train", record)
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    scores = Examples.of_rows(
        [(f"q{name}", name, 4.0, "pool") for name in DOCUMENTS], source="weak", kind="scaled"
    )
    tamis.train(
        [examples, scores], DOCUMENTS, queries=QUERIES, base="base", recipe="infuse-small",
        out=tmp_path / "model", max_time="20m",
    )  # fmt: skip
    assert [seconds for _, seconds in jobs] == [(1200 - 100) / 2, 1200 - 400]
    first, second = (job for job, _ in jobs)
    assert (str(first.base), first.out) == ("base", tmp_path / "model.infuse-scores-small")
    assert (str(second.base), second.out) == (str(first.out), tmp_path / "model")


@pytest.mark.parametrize(("limit", "seconds"), [("20m", 1200), (90, 90), ("2", 120), (None, None)])
def test_a_time_is_text_or_seconds(limit: Any, seconds: float | None) -> None:
    assert api._seconds(limit) == seconds


def test_mistakes_are_told(examples: Examples, tmp_path: Path) -> None:
    def fails(problem: str, **more: Any) -> None:
        call: dict[str, Any] = {
            "base": "base",
            "recipe": "docrank",
            "out": tmp_path / "m",
            "queries": QUERIES,
        }
        with pytest.raises(InputError, match=problem) as error:
            tamis.train(examples, more.pop("documents", DOCUMENTS), **(call | more))
        assert error.value.hint

    fails("there is no setting", learning_rat=1)
    fails("there is no recipe", recipe="docrankk")
    fails("is over", max_time=-1)
    fails("not a length of time", max_time="soon")
    fails("of the examples is not in the collection", queries={"q": "x"})
    fails("of the examples is not in the", documents=["x"])
    fails("both learnt from and validated on", validate=examples)
