"""`tamis index --dense` and `tamis search --ranking dense|hybrid` as a user types them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tamis import read_run
from tamis.cli import dense
from tamis.cli.app import run
from tamis.models import import_model, open_scorer
from tamis.scorers.bi_encoder import BiEncoder
from tamis.search import EmbeddingModel
from tamis.types import Pairs, Scores
from tamis.types.pipeline import Scale

TOPICS = ("sieve", "fish", "grain")
SAME = {"net": "fish", "fishing": "fish", "flour": "grain", "mesh": "sieve", "sieves": "sieve"}
DOCS = [
    {"id": "d1", "title": "Drum sieve", "text": "A mesh sorts grain."},
    {"id": "d2", "title": "Nets", "text": "They catch fish in the sea, all day and all night."},
    {"id": "d3", "text": "Flour passes the sieve, and then flour is flour."},
]


class Topics:
    """Counts the topics of a text's first eight words, whatever they are called."""

    dimensions, max_length = len(TOPICS), 8
    tokens = SimpleNamespace(backend=SimpleNamespace(encode=None))
    scale: Scale = "cosine"

    def score(self, pairs: Pairs) -> Scores:
        return Scores(np.zeros(len(pairs), np.float32), np.zeros(len(pairs), np.int32))

    def encode(self, texts: Sequence[str]) -> Any:
        return self.encode_with_truncation(texts)[0]

    def encode_with_truncation(self, texts: Sequence[str]) -> Any:
        rows = np.zeros((len(texts), len(TOPICS)), np.float32)
        truncated_tokens = np.zeros(len(texts), np.int32)
        for n, text in enumerate(texts):
            words = [word.strip(".,").lower() for word in text.split()]
            truncated_tokens[n] = max(0, len(words) - self.max_length)
            for word in words[: self.max_length]:
                if SAME.get(word, word) in TOPICS:
                    rows[n, TOPICS.index(SAME.get(word, word))] += 1
        return rows, truncated_tokens


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("docs.jsonl").write_text("".join(json.dumps(doc) + "\n" for doc in DOCS))
    Path("queries.tsv").write_text(
        "q1\tsieves\nq2\tflour flour flour and fish one two three four\n"
    )
    known = {
        "topics": EmbeddingModel("topics", "ab" * 32, "topics"),
        "other": EmbeddingModel("o", "cd"),
    }
    Path("model.safetensors").touch()
    monkeypatch.setattr(dense, "find_model", lambda name: (tmp_path, known[name]))
    monkeypatch.setattr(BiEncoder, "open", lambda *_, **__: Topics())
    return tmp_path


def said(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    capsys.readouterr()
    assert run(list(arguments)) == code
    captured = capsys.readouterr()
    return captured.err + captured.out


def test_encode_and_search(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = said(capsys, "index", "docs.jsonl", "-o", "index", "--dense", "topics")
    assert "index: 3 embeddings of 3 dimensions by topics\n" in told
    assert (
        "warning: 5 tokens of 2 documents truncated at 8; --passages reads all of a document\n"
        in told
    )
    search = ["search", "index", "queries.tsv", "-o", "run.parquet", "--force", "--ranking"]
    told = said(capsys, *search, "dense")
    assert "warning: 1 token of 1 query truncated: longer than the model accepts" in told
    assert "2 queries searched with dense topics, 0 without results" in told
    found = read_run("run.parquet")
    assert list(found["q1"])[:2] == [("d1", 2.0), ("d3", 1.0)]
    assert found["q2"].extra["truncated_query_tokens"].tolist() == [1, 1, 1]
    told = said(capsys, *search, "hybrid", "--k1", "1.2", "--model", "topics")
    assert "1 token of 1 query truncated" in told
    assert "with 0.4 × bm25 k1=1.2 b=0.4 + 0.6 × dense topics" in told
    hits = json.loads(
        said(capsys, "search", "index", "fishing", "--ranking", "hybrid", "--json", "--top", "1")
    )
    assert [hit["id"] for hit in hits["hits"]] == ["d2"]
    told = said(capsys, "info", "index", "--verify")
    assert "topics (weights abababababab…)" in told
    assert "5 in 2 documents" in told


def test_passages(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["index", "docs.jsonl", "-o", "index", "--dense", "topics"]
    told = said(capsys, *arguments, "--passages", "words:4:3")
    assert "truncated_tokens" not in told
    assert "index: 8 embeddings" in told
    said(capsys, "search", "index", "queries.tsv", "-o", "run.parquet", "--ranking", "dense")
    assert read_run("run.parquet")["q2"].extra["passage"][0] == 2
    told = said(capsys, *arguments, "--force", "--passages", "words:2:2:2")
    assert "warning: 14 words in no passage, since the spec samples" in told
    assert "is not a way to split" in said(
        capsys, *arguments, "--force", "--passages", "pages:1", code=1
    )


def test_what_is_added_must_be_encoded(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said(capsys, "index", "docs.jsonl", "-o", "index", "--dense", "topics")
    Path("more.jsonl").write_text(json.dumps({"id": "d4", "text": "grain grain grain"}) + "\n")
    said(capsys, "update", "index", "more.jsonl")
    search = ["search", "index", "flour", "--ranking", "dense", "--json"]
    assert said(capsys, *search, code=1).splitlines() == [
        "error: 1 of 4 documents in index have no embeddings",
        "hint: encode them: tamis update index --dense topics",
    ]
    assert "warning: 1 documents have no embeddings" in said(capsys, "info", "index")
    assert "have no embeddings" in said(capsys, "update", "index", "--merge", code=1)
    said(capsys, "update", "index", "--dense", "topics", "--merge")
    hits = json.loads(said(capsys, *search))["hits"]
    assert hits[0]["id"] == "d4"
    Path("more.jsonl").write_text(json.dumps({"id": "d5", "text": "grain " * 4}) + "\n")
    said(capsys, "update", "index", "more.jsonl", "--dense", "topics")
    assert json.loads(said(capsys, *search))["hits"][0]["id"] == "d5"
    said(capsys, "update", "index", "--drop-dense")
    assert "have no embeddings" in said(capsys, *search, code=1)


def test_another_model_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said(capsys, "index", "docs.jsonl", "-o", "index", "--dense", "topics")
    told = said(
        capsys, "search", "index", "x", "--ranking", "dense", "--model", "other", code=1
    ).splitlines()
    assert told[0] == (
        "error: the embeddings in index were made by topics (weights abababababab…), not o (cd…)"
    )
    assert told[1].startswith("hint: name that model with --model")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ("update index --passages whole --merge", "for --dense"),
        ("update index", "nothing to change"),
        ("index docs.jsonl -o other --passages whole", "--passages is for --dense"),
        ("search index x --model topics", "--model is for --ranking dense or hybrid"),
        ("search index x --ranking dense --k1 1", "not for --ranking dense"),
        ("search index x --ranking dense --rm3", "not for --ranking dense"),
    ],
)
def test_misuse(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: str, problem: str
) -> None:
    said(capsys, "index", "docs.jsonl", "-o", "index")
    assert problem in said(capsys, *arguments.split(), code=2)


def test_a_model_that_is_not_there_stops_the_build_before_it_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("docs.jsonl").write_text(json.dumps(DOCS[0]) + "\n")
    told = said(capsys, "index", "docs.jsonl", "-o", "index", "--dense", "./nowhere", code=1)
    assert told.startswith("error: there is no folder ./nowhere")
    assert not Path("index").exists()


def test_interrupted(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object) -> Any:
        raise KeyboardInterrupt

    said(capsys, "index", "docs.jsonl", "-o", "index")
    monkeypatch.setattr(Topics, "encode_with_truncation", stop)
    again = ["update", "index", "--dense", "topics", "--passages", "whole"]
    message = said(capsys, *again, code=130)
    assert message.startswith("interrupted: ")
    assert message.endswith(": tamis update index --dense topics --passages whole\n")
    message = said(capsys, "index", "docs.jsonl", "-o", "new", "--dense", "topics", code=130)
    assert message.endswith(": tamis update new --dense topics\n")


@pytest.fixture
def bi_encoder(tmp_path: Path, tiny_cross_encoder: Path) -> Path:
    """A tiny bi-encoder with documents beside it."""
    import_model(tiny_cross_encoder, tmp_path / "model", kind="bi-encoder", pooling="mean")
    return tmp_path / "model"


def test_a_model_that_cannot_score_stops_the_build_before_it_begins(
    bi_encoder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("docs.jsonl").write_text("".join(json.dumps(doc) + "\n" for doc in DOCS))
    said(capsys, "index", "docs.jsonl", "-o", "good", "--dense", "model")
    config = json.loads(Path("model/config.json").read_text())
    Path("model/config.json").write_text(json.dumps({**config, "num_attention_heads": 7}))
    broken = "error: model cannot score: its config.json, tokenizer and weights do not fit together"
    told = said(capsys, "index", "docs.jsonl", "-o", "index", "--dense", "model", code=1)
    assert told.startswith(broken)
    assert len(told.splitlines()) == 2
    assert not Path("index").exists()
    told = said(capsys, "search", "good", "net", "--ranking", "dense", code=1)
    assert "cannot score" in told
    pytest.importorskip("onnx", reason="onnx is not installed")
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    told = said(capsys, "export", "model", "-o", "exported", code=1)
    assert told.startswith(broken)


def test_an_export_encodes_without_weights(
    bi_encoder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    pytest.importorskip("onnx", reason="onnx is not installed")
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    from tamis.models.onnx_files import write_float

    monkeypatch.chdir(tmp_path)
    Path("docs.jsonl").write_text("".join(json.dumps(doc) + "\n" for doc in DOCS))
    said(capsys, "index", "docs.jsonl", "-o", "torch", "--dense", "model")
    Path("model/onnx").mkdir()
    write_float(Path("model/onnx/model.onnx"), open_scorer("model"), Path("model"))
    Path("model/model.safetensors").unlink()
    told = said(capsys, "index", "docs.jsonl", "-o", "index", "--dense", "model")
    assert "3 embeddings of 16 dimensions by model" in told
    found = []
    for name in ("index", "torch"):  # the vectors that torch made are searched with the export too
        said(capsys, "search", name, "drum", "--ranking", "dense", "--json")
        hits = json.loads(said(capsys, "search", name, "drum", "--ranking", "dense", "--json"))
        found.append({hit["id"]: hit["score"] for hit in hits["hits"]})
    assert found[0] == pytest.approx(found[1], abs=1e-4)
    Path("model/onnx/model.onnx").unlink()
    assert "has no weights" in said(capsys, "search", "index", "a", "--ranking", "dense", code=1)


def test_real_weights_from_end_to_end(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    models: Path,
) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    monkeypatch.chdir(tmp_path)
    Path("docs.jsonl").write_text("".join(json.dumps(doc) + "\n" for doc in DOCS))
    model = str(models / "minilm")
    told = said(
        capsys, "index", "docs.jsonl", "-o", "index", "--dense", model,
        "--passages", "tokens:6:3",
    )  # fmt: skip
    assert "by all-MiniLM-L6-v2" in told
    told = said(capsys, "search", "index", "trawler", "--ranking", "dense", "--json")
    assert json.loads(told)["hits"][0]["id"] == "d2"
    told = said(capsys, "search", "index", "trawler", "--ranking", "hybrid", "--json")
    assert json.loads(told)["hits"][0]["id"] == "d2"
