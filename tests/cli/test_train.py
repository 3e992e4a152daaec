"""`tamis train` as a user types it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tamis.cli.app import run
from tamis.errors import InputError
from tamis.labels import Examples, join_examples, read_examples, write_examples
from tamis.labels.examples import LABEL_SOURCES
from tamis.scorers.model_manifest import read_model_manifest
from tamis.text.near import query_hash
from tamis.training import loop
from tamis.training.trainer import Job

pytest.importorskip("accelerate", reason="accelerate is not installed")
TOPICS = ["sieve", "drum", "net", "grain", "flour", "fish"]
TRAIN = ["train", "gold.parquet", "-c", "collection", "--base", "base", "-o", "model"]
SHORT = [
    "--recipe", "monobert-pairwise", "--set", "epochs=1", "--set", "max_length=24",
    "--set", "learning_rate=1e-3", "--set", "document_tokens=none", "--threads", "1",
]  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiny_cross_encoder: Path) -> Path:
    """A collection of 24 documents and 24 queries, all judged, with examples."""
    monkeypatch.chdir(tmp_path)
    Path("collection/qrels").mkdir(parents=True)
    Path("base").symlink_to(tiny_cross_encoder)
    texts = {f"{a}-{b}": f"the {a} {b}" for a in TOPICS for b in TOPICS if a != b}
    corpus = [json.dumps({"_id": name, "text": text}) for name, text in texts.items()]
    asked = [json.dumps({"_id": f"q{name}", "text": f"a {text}"}) for name, text in texts.items()]
    Path("collection/corpus.jsonl").write_text("\n".join(corpus) + "\n")
    Path("collection/queries.jsonl").write_text("\n".join(asked) + "\n")
    rows = [f"q{name}\t{name}\t1" for name in texts]
    Path("collection/qrels/train.tsv").write_text(
        "query-id\tcorpus-id\tscore\n" + "\n".join(rows) + "\n"
    )
    assert run(["index", "collection", "-o", "index"]) == 0
    label = ["label", "gold", "-c", "collection", "--index", "index", "--split", "train"]
    assert run([*label, "--depth", "8", "-o", "gold.parquet"]) == 0
    return tmp_path


def test_a_model_is_trained_told_about_and_used(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert run([*TRAIN, *SHORT]) == 0
    printed = capsys.readouterr()
    assert "2 steps (26 instances, 1 epoch)" in printed.err
    assert "validation" in printed.out
    assert run(["info", "model"]) == 0
    assert "monobert-pairwise" in capsys.readouterr().out
    assert run(["search", "index", "collection/queries.jsonl", "-o", "bm25.trec"]) == 0
    given = ["-c", "collection", "--model", "model", "-o", "out.trec", "--depth", "3"]
    assert run(["rerank", "bm25.trec", *given]) == 0
    assert run([*TRAIN, *SHORT]) == 1
    assert "model exists already" in capsys.readouterr().err


def test_time_and_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert run([*TRAIN, *SHORT, "--max-time", "10m", "--json", "--no-validation"]) == 0
    printed = capsys.readouterr()
    found = json.loads(printed.out)
    assert found["steps"] == {"run": 2, "selected": 2}
    assert "nothing is held out" in printed.err


def test_a_teacher_that_goes_on_is_warned_of_however_it_is_called(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = read_examples("gold.parquet")
    write_examples(replace(made, facts={"teacher": "base"}), Path("taught.parquet"))
    for number, (files, base) in enumerate(
        ((["taught.parquet"], "base"), (["gold.parquet", "taught.parquet"], "./base"))
    ):
        given = ["-c", "collection", "--base", base, "-o", f"model{number}", *SHORT]
        capsys.readouterr()
        assert run(["train", *files, *given]) == 0
        assert "is the teacher that made these labels" in capsys.readouterr().err
    capsys.readouterr()
    assert run([*TRAIN, *SHORT]) == 0
    assert "is the teacher" not in capsys.readouterr().err


def test_what_cannot_be_is_refused_in_two_lines(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(code: int, *arguments: str) -> str:
        capsys.readouterr()
        assert run(list(arguments)) == code
        return capsys.readouterr().err

    assert "did you mean" in fails(1, *TRAIN, "--recipe", "monobert-pairwize")
    assert "there is no setting 'learning_rates'" in fails(
        1, *TRAIN, *SHORT, "--set", "learning_rates=1"
    )
    assert "is not NAME=VALUE" in fails(2, *TRAIN, *SHORT, "--set", "rate")
    assert "not a length of time" in fails(2, *TRAIN, *SHORT, "--max-time", "soon")
    same = ["--validate", "gold.parquet"]
    assert "both learnt from and validated on" in fails(1, *TRAIN, *SHORT, *same)
    assert "is no Parquet file" in fails(1, "train", "collection/corpus.jsonl", *TRAIN[2:], *SHORT)
    Path("other.jsonl").write_text('{"_id": "x", "text": "y"}\n')
    other = ["train", "gold.parquet", "-c", "other.jsonl", "--base", "base", "-o", "model"]
    queries = ["--queries", "collection/queries.jsonl"]
    assert "is not in the collection" in fails(1, *other, *SHORT, *queries)
    assert "of the examples is not in the collection" in fails(1, *other, *SHORT)
    assert "does not go with the sampler" in fails(1, *TRAIN, *SHORT, "--set", "loss=bce")


def test_recipes_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["train", "--recipes"]) == 0
    printed = capsys.readouterr()
    assert "monobert-pairwise-small" in printed.out
    assert "infuse: infuse-scores on scores, then infuse-gold on judgements" in printed.err


CHAIN = [
    "-c", "collection", "--base", "base", "-o", "model", "--recipe", "infuse-small",
    "--set", "epochs=1", "--set", "max_length=24", "--threads", "1",
]  # fmt: skip


def test_scores_and_then_judgements_in_one_command(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    label = ["label", "weak", "-c", "collection", "--index", "index", "--split", "train"]
    assert run([*label, "--depth", "8", "-o", "weak.parquet"]) == 0
    both = ["train", "gold.parquet", "weak.parquet", *CHAIN]  # in whatever order
    Path("model").mkdir()
    assert run(both) == 1  # before anything is trained
    assert not Path("model.infuse-scores-small").exists()
    Path("model").rmdir()
    real = loop.train

    def killed(job: loop.Job, **options: Any) -> loop.Trained:
        if job.recipe.name == "infuse-gold-small":
            raise KeyboardInterrupt
        return real(job, **options)

    monkeypatch.setattr("tamis.training.loop.train", killed)
    assert run(both) == 130
    assert not Path("model").exists() and Path("model.infuse-scores-small").is_dir()
    monkeypatch.undo()
    monkeypatch.chdir(folder)
    capsys.readouterr()
    assert run([*both, "--resume"]) == 0
    assert "model.infuse-scores-small is trained already, " in capsys.readouterr().err
    chain = read_model_manifest(Path("model")).facts["chain"]
    assert [step["recipe"] for step in chain] == ["infuse-scores-small", "infuse-gold-small"]
    assert [list(step["labels"]) for step in chain] == [["weak"], ["gold"]]
    assert run([*both, "--resume"]) == 0
    assert "note: model is trained already, " in capsys.readouterr().err
    assert run([*both, "--resume", "--set", "learning_rate=1e-5"]) == 1  # not the same training
    assert "exists already" in capsys.readouterr().err
    for one, missing in (("gold", "weak"), ("weak", "gold")):
        assert run(["train", f"{one}.parquet", *CHAIN]) == 1
        assert f"there are no {missing} examples" in capsys.readouterr().err


def test_what_is_validated_on_is_learnt_from_in_no_step(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    label = ["label", "weak", "-c", "collection", "--index", "index", "--split", "train"]
    assert run([*label, "--depth", "8", "-o", "weak.parquet"]) == 0
    gold = read_examples("gold.parquet")
    fewer = gold.of_queries(gold.queries.ids.select(np.arange(3, len(gold.queries))))
    joined = join_examples([read_examples("weak.parquet"), fewer])
    write_examples(joined, Path("joined.parquet"))  # scores and judgements in one file
    jobs: list[loop.Job] = []
    real = loop.train

    def watched(job: loop.Job, **options: Any) -> loop.Trained:
        jobs.append(job)
        return real(job, **options)

    monkeypatch.setattr("tamis.training.loop.train", watched)
    assert run(["train", "joined.parquet", *CHAIN]) == 0
    scores, judged = jobs
    assert {LABEL_SOURCES[n] for n in scores.examples.source} == {"weak"}
    assert {LABEL_SOURCES[n] for n in judged.examples.source} == {"gold"}
    assert judged.validation is not None

    def asked(examples: Examples) -> set[str]:
        return {examples.queries.ids[n] for n in set(examples.query.tolist())}

    held = asked(judged.validation.examples)
    assert held and not held & (asked(scores.examples) | asked(judged.examples))


def trained_on(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> set[str]:
    """The queries that a training would learn from or be validated on."""
    used: set[str] = set()

    def note(job: Job, **_: object) -> None:
        for part in (job.examples, job.validation.examples if job.validation else None):
            if part is not None:
                used.update(part.queries.ids[n] for n in part.query.tolist())
        raise InputError("enough")

    monkeypatch.setattr("tamis.training.loop.train", note)
    assert run([*arguments]) == 1
    return used


def test_what_repeats_a_test_query_is_not_learnt_from(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    every = trained_on(monkeypatch, *TRAIN, *SHORT)
    assert {"qsieve-drum", "qnet-fish"} <= every
    with Path("collection/queries.jsonl").open("a") as file:
        file.write('{"_id": "t1", "text": "A the sieve DRUM?"}\n')
    Path("collection/qrels/MyTest.tsv").write_text(
        "query-id\tcorpus-id\tscore\nt1\tnet-fish\t1\nqnet-fish\tnet-fish\t1\n"
    )
    capsys.readouterr()
    # The sets of words of sieve-drum and drum-sieve are the same.
    left_out = {"qnet-fish", "qfish-net", "qsieve-drum", "qdrum-sieve"}
    assert trained_on(monkeypatch, *TRAIN, *SHORT) == every - left_out
    said = capsys.readouterr().err
    assert "held out: 2 queries of MyTest" in said and "4 queries not learnt from" in said


def test_test_queries_are_known_by_their_hashes_where_there_is_no_collection(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = read_examples("gold.parquet")
    facts = {**made.facts, "test_query_hashes": [query_hash("A  the sieve drum.")]}
    write_examples(replace(made, facts=facts), Path("gold.parquet"), force=True)
    plain = ["train", "gold.parquet", "-c", "index", "--queries", "collection/queries.jsonl",
             "--base", "base", "-o", "model", *SHORT]  # fmt: skip
    used = trained_on(monkeypatch, *plain)
    assert "qsieve-drum" not in used and "qdrum-sieve" in used
