"""Prompts in an index: documents have theirs, queries theirs, and others are refused."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.backends.tiny import EVERY, QUERIES, TEXTS, change_json, save

from tamis.cli.app import run
from tamis.errors import InputError
from tamis.models import import_model
from tamis.models.encoders import find_encoder
from tamis.scorers.bi_encoder import BiEncoder
from tamis.scorers.embedding_cache import EmbeddingCache
from tamis.search import Index
from tamis.search.cached_encoder import model_key, open_cached_encoder
from tamis.search.dense import embedding_model
from tamis.types import Document, Queries, Query

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
PROMPTS = {"query": "query : ", "document": "passage : "}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A bi-encoder with prompts, without `tamis.json`."""
    folder = save(tmp_path / "model", "distilbert", "AutoModel")
    (folder / "1_Pooling").mkdir()
    change_json(folder / "1_Pooling" / "config.json", pooling_mode_mean_tokens=True)
    change_json(folder / "config_sentence_transformers.json", prompts=PROMPTS)
    return folder


@pytest.fixture
def index(tmp_path: Path) -> Index:
    documents = [Document(f"d{number}", text) for number, text in enumerate(TEXTS)]
    return Index.build(documents, tmp_path / "index")


def plain(folder: Path) -> BiEncoder:
    return BiEncoder.open(folder, query_prompt="", document_prompt="", device="cpu")


def test_documents_and_queries_are_encoded_with_their_prompts(model: Path, index: Index) -> None:
    encoder = BiEncoder.open(model, device="cpu")
    index.encode(encoder)
    recorded = embedding_model(index)
    assert recorded is not None
    assert (recorded.query_prompt, recorded.document_prompt) == ("query : ", "passage : ")
    [embeddings] = index.snapshot.embeddings
    bare = plain(model)
    expected = bare.encode([f"passage : {text}" for text in TEXTS])
    assert np.abs(embeddings.column("float32") - expected).max() < 1e-5
    queries = Queries.of([Query(str(n), text) for n, text in enumerate(QUERIES)])
    found = index.dense(encoder).search(queries, 1)
    asked = bare.encode([f"query : {text}" for text in QUERIES])
    best = (asked @ expected.T).max(1)
    assert np.abs(np.asarray(found.score) - best).max() < 1e-5


def test_embeddings_of_other_prompts_are_refused(model: Path, index: Index) -> None:
    encoder = BiEncoder.open(model, device="cpu")
    index.encode(encoder)
    for other in ({"document_prompt": ""}, {"document_prompt": "Document : "}):
        changed = BiEncoder.open(model, device="cpu", **other)  # type: ignore[arg-type]
        with pytest.raises(InputError, match="encoded with 'passage : ' before every document"):
            index.dense(changed)
    index.dense(BiEncoder.open(model, device="cpu", query_prompt="Query : "))
    index.add([Document("new", "grain")])
    with pytest.raises(InputError, match="the prompt 'passage : ' before every document"):
        index.encode(plain(model))
    index.encode(encoder)


def test_probes_tell_prompts_apart(model: Path) -> None:
    first, second = BiEncoder.open(model, device="cpu").probe_rows, plain(model).probe_rows
    assert np.abs(first - second).max() > 1e-3


def test_caches_keep_prompts_apart(model: Path, tmp_path: Path) -> None:
    encoder, bare = BiEncoder.open(model, device="cpu"), plain(model)
    assert encoder.documents is not None
    assert len({model_key(each) for each in (encoder, encoder.documents, bare)}) == 3
    with open_cached_encoder(encoder, tmp_path / "cache") as cached:
        rows = cached.encode(TEXTS)
    assert np.allclose(rows, encoder.documents.encode(TEXTS), atol=1e-6)
    values = EmbeddingCache(encoder).score(EVERY).values
    assert np.allclose(values, encoder.score(EVERY).values, atol=1e-6)


def test_an_imported_model_keeps_the_prompts_said_by_hand(model: Path, tmp_path: Path) -> None:
    folder = tmp_path / "imported"
    manifest = import_model(model, folder, query_prompt="how ", document_prompt="")
    assert (manifest.query_prompt, manifest.document_prompt) == ("how ", "")
    encoder = BiEncoder.open(folder, device="cpu")
    assert encoder.prompts == ("how ", "")
    recorded = asdict(find_encoder(str(folder))[1])
    assert (recorded["query_prompt"], recorded["document_prompt"]) == ("how ", "")
    sentence_transformers: Any = pytest.importorskip("sentence_transformers")
    other = sentence_transformers.SentenceTransformer(str(folder), device="cpu")
    expected = other.encode_query(TEXTS, normalize_embeddings=True)
    assert np.abs(encoder.encode(TEXTS) - expected).max() < 1e-4


def test_the_command_line_honours_prompts(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    lines = (f'{{"id": "d{number}", "text": "{text}"}}\n' for number, text in enumerate(TEXTS))
    (tmp_path / "docs.jsonl").write_text("".join(lines))
    (tmp_path / "queries.tsv").write_text("".join(f"q{n}\t{q}\n" for n, q in enumerate(QUERIES)))
    assert run(["index", "docs.jsonl", "-o", "idx", "--dense", "model", "--device", "cpu"]) == 0
    search = ["search", "idx", "queries.tsv", "--ranking", "dense", "-o", "run.trec"]
    assert run([*search, "--device", "cpu"]) == 0
    rerank = ["rerank", "run.trec", "-c", "idx", "--model", "model", "-o", "again.trec"]
    rerank += ["--queries", "queries.tsv", "--no-cache", "--device", "cpu", "--dtype", "float32"]
    assert run(rerank) == 0
    first, second = (
        {
            tuple(line.split()[0:3:2]): float(line.split()[4])
            for line in Path(name).read_text().splitlines()
        }
        for name in ("run.trec", "again.trec")
    )
    assert first.keys() == second.keys()
    assert all(abs(first[key] - second[key]) < 1e-5 for key in first)
    assert run(["info", "model"]) == 0
    assert "'query : '" in capsys.readouterr().out
    assert run(["search", "idx", "net", "--ranking", "dense", "--device", "cuda:9"]) == 1
    assert "there is no device 'cuda:9' here" in capsys.readouterr().err
