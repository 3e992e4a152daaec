"""A bi-encoder that learns to read queries: documents keep the vectors of the base, everywhere."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tamis.errors import DamagedError, InputError
from tamis.models import describe_model, import_model, open_model, open_scorer
from tamis.models.folder import has_weights
from tamis.models.onnx_export import export
from tamis.pipeline.document_lookup import IndexLookup, MappingLookup
from tamis.pipeline.rerank import rerank
from tamis.pipeline.stored_embeddings import stored_texts
from tamis.scorers.bi_encoder import BiEncoder
from tamis.scorers.embedding_cache import EmbeddingCache
from tamis.search import Index
from tamis.testing import check_scorer
from tamis.training.loop import Job, train
from tamis.training.recipe import Recipe
from tamis.training.recipes import RECIPES
from tamis.training.trainable import open_trainable
from tamis.training.trainer import Trainer
from tamis.types import Document, Pairs, Queries, Query, Run

torch = pytest.importorskip("torch", reason="torch is not installed")
transformers = pytest.importorskip("transformers", reason="transformers is not installed")

from tests.training.test_loop import DOCUMENTS, LEARN, Killed, interrupted, weights  # noqa: E402

ASKED = ["a drum sieve", "grain", "grain", "the net"]
TEXTS = ["a sieve", "flour the grain sort", "fish", "fish a net the fish"]
EACH = Pairs(ASKED, TEXTS, np.repeat(np.arange(4, dtype=np.int32), 2).reshape(4, 2))
TINY = Recipe(
    "tiny",
    scorer="bi-encoder",
    loss="listwise-softmax",
    sampler="lists",
    list_size=6,
    batch_size=4,
    epochs=4,
    learning_rate=5e-3,
    max_length=24,
    micro_batch_tokens=400,
    fixed_documents=True,
    keep="last",
    dropout=0.02,
    validate_every=4,
)


@pytest.fixture
def base(tmp_path: Path, tiny_cross_encoder: Path) -> Path:
    import_model(
        tiny_cross_encoder, tmp_path / "base", kind="bi-encoder", pooling="mean", max_length=24
    )
    return tmp_path / "base"


@pytest.fixture
def job(base: Path, tmp_path: Path) -> Job:
    return Job(LEARN, MappingLookup(DOCUMENTS), TINY, base, tmp_path / "model", threads=1)


def test_only_queries_have_a_gradient(base: Path) -> None:
    model = open_trainable(base, scorer="bi-encoder", dropout=0, fixed_documents=True)
    scores = model(model.prepare(ASKED, TEXTS))
    wanted = 20 * open_scorer(base).score(EACH).values
    assert scores.detach().numpy()[:, 0] == pytest.approx(wanted, abs=1e-4)
    (scores**2).sum().backward()
    theirs = transformers.AutoModel.from_pretrained(base).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(base)

    def vectors(texts: list[str]) -> Any:
        given = tokenizer(texts, padding=True, return_tensors="pt")
        mask = given["attention_mask"][:, :, None]
        mean = (theirs(**given).last_hidden_state * mask).sum(1) / mask.sum(1)
        return torch.nn.functional.normalize(mean)

    cosines = 20 * (vectors(ASKED) * vectors(TEXTS).detach()).sum(1)
    (cosines**2).sum().backward()
    compared = {name: p.grad for name, p in theirs.named_parameters() if p.grad is not None}
    mine = {name: each.grad for name, each in model.named_parameters()}
    assert len(compared) > 30
    for name, grad in compared.items():
        near = compared[name.replace(".key.", ".query.")]
        largest = max(1.0, float(grad.abs().max()), float(near.abs().max()))
        assert (mine[name].to_dense() - grad).abs().max() < 2e-4 * largest, name


def test_it_learns_and_documents_keep_their_vectors(job: Job, base: Path) -> None:
    done = train(job)
    losses = done.history.losses
    assert np.mean(losses[-5:]) < 0.6 * np.mean(losses[:5])
    own, opened = BiEncoder.open(base), BiEncoder.open(job.out)
    assert opened.documents is not None
    assert opened.documents.encode(TEXTS).tolist() == own.encode(TEXTS).tolist()
    assert np.abs(opened.encode(ASKED) - own.encode(ASKED)).max() > 0.01
    wanted = np.einsum("nd,nd->n", opened.encode(ASKED), own.encode(TEXTS))
    assert opened.score(EACH).values == pytest.approx(wanted, abs=1e-6)
    assert EmbeddingCache(opened).score(EACH).values == pytest.approx(wanted, abs=1e-6)
    check_scorer(opened)
    note = open_model(job.out)
    assert note.documents == "documents"
    assert dict(describe_model(note))["trained_on"].startswith("queries")
    assert "trained_on" not in dict(describe_model(open_model(base)))


def test_stopped_and_gone_on_with_it_ends_the_same(
    job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train(job)
    other = replace(job, out=tmp_path / "other")
    with monkeypatch.context() as patch, pytest.raises(Killed):
        interrupted(patch, Trainer, "learn", 6)
        train(other)
    train(other, resume=True)
    assert weights(other.out) == weights(job.out)


def test_a_second_training_keeps_the_documents_of_the_first(
    job: Job, base: Path, tmp_path: Path
) -> None:
    train(job)
    again = replace(job, base=job.out, out=tmp_path / "again")
    train(again)
    assert weights(again.out) != weights(job.out)
    assert weights(again.out / "documents") == weights(base)
    assert not (again.out / "documents" / "documents").exists()
    with pytest.raises(InputError, match="only learnt to read queries"):
        train(replace(again, recipe=replace(TINY, fixed_documents=False), out=tmp_path / "both"))
    with pytest.raises(InputError, match="neither can be fixed"):
        RECIPES["docrank"].changed({"fixed_documents": "true"})


def test_a_base_that_was_not_adopted(
    job: Job, tiny_cross_encoder: Path, tmp_path: Path, base: Path
) -> None:
    plain = tmp_path / "plain"
    base.rename(plain)
    (plain / "tamis.json").unlink()
    train(replace(job, base=plain))
    assert open_model(job.out / "documents").scorer == "bi-encoder"
    assert weights(job.out / "documents") == weights(plain)


def test_adopting_it_keeps_both_sides(job: Job, tmp_path: Path) -> None:
    train(job)
    import_model(job.out, tmp_path / "adopted")
    found = open_scorer(tmp_path / "adopted").score(EACH).values
    assert found.tolist() == open_scorer(job.out).score(EACH).values.tolist()


def test_random_weights_do_not_read_for_others(job: Job) -> None:
    with pytest.raises(InputError, match="random weights cannot learn to read queries"):
        train(replace(job, random_weights=True))


class Recorded:
    """What bi-encoders run, by their weights."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.texts: list[str] = []
        real = BiEncoder.encode_with_truncation

        def encode(own: BiEncoder, texts: Sequence[str]) -> Any:
            self.texts.extend(texts)
            return real(own, texts)

        patch.setattr(BiEncoder, "encode_with_truncation", encode)


@pytest.fixture
def index(tmp_path: Path, base: Path) -> Index:
    made = Index.build(DOCUMENTS.values(), tmp_path / "index")
    encoder: Any = open_scorer(base)
    made.encode(encoder)
    return made


def test_training_reads_the_vectors_of_an_index(
    job: Job, index: Index, base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train(job)
    run = Recorded(monkeypatch)
    train(replace(job, lookup=IndexLookup(index), out=tmp_path / "other"))
    assert not {document.text for document in DOCUMENTS.values()} & set(run.texts)
    near = _weights(job.out), _weights(tmp_path / "other")
    assert all(np.allclose(near[0][name], near[1][name], atol=1e-4) for name in near[0])


def _weights(folder: Path) -> dict[str, Any]:
    from safetensors.numpy import load_file

    found: dict[str, Any] = load_file(folder / "model.safetensors")
    return found


@pytest.mark.parametrize("passages", ["whole", "words:3", "sentences:1:1"])
def test_stored_texts_are_those_that_were_encoded(
    base: Path, tmp_path: Path, passages: str
) -> None:
    documents = [
        Document("a", "The sieve sorts grain. A drum is round. Fish.", "Nets"),
        Document("b", "Flour."),
        Document("c", "A net. A fish, a drum and a sieve."),
    ]
    made, encoder = Index.build(documents, tmp_path / "some"), BiEncoder.open(base)
    assert list(stored_texts(IndexLookup(made), ["a"], encoder)) == []  # no embeddings yet
    made.encode(encoder, passages=passages)
    made.add([Document("d", "Grain for a drum.")])
    made.encode(encoder)
    found = list(stored_texts(IndexLookup(made), ["d", "a", "c"], encoder))
    assert len(found) == 3
    for texts, vectors, truncated_tokens in found:
        wanted, lost = encoder.encode_with_truncation(texts)
        assert vectors == pytest.approx(wanted, abs=1e-6)
        assert truncated_tokens.tolist() == lost.tolist()
    other = replace(encoder, pooling="cls")
    assert list(stored_texts(IndexLookup(made), ["a"], other)) == []
    assert list(stored_texts(MappingLookup({}), ["a"], encoder)) == []


def test_an_index_of_the_base_serves_the_trained_model(
    job: Job, index: Index, base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train(job)
    scorer: Any = open_scorer(job.out)
    queries = Queries.of([Query("q1", "a drum sieve"), Query("q2", "the fish")])
    first = Run.from_dict({name: dict.fromkeys(DOCUMENTS, 1.0) for name in ("q1", "q2")})
    fresh = rerank(scorer, DOCUMENTS, depth=50)(first.with_queries(queries))
    found = index.dense(scorer).search(queries, 50)
    run = Recorded(monkeypatch)
    stored = rerank(scorer, index, depth=50)(first.with_queries(queries))
    assert not {document.text for document in DOCUMENTS.values()} & set(run.texts)
    for name in ("q1", "q2"):
        wanted = dict(fresh[name])
        assert dict(stored[name]) == pytest.approx(wanted, abs=1e-6)
        assert dict(found[name]) == pytest.approx(wanted, abs=1e-6)
    index.encode(scorer, force=True)  # by the part of it that is for documents
    own: Any = open_scorer(base)
    assert index.dense(own).search(queries, 3).doc.shape == (6,)


def test_both_parts_are_exported(job: Job, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    train(job)
    export(job.out, tmp_path / "onnx", int8=False)
    for part in (tmp_path / "onnx", tmp_path / "onnx" / "documents"):
        (part / "model.safetensors").unlink()
        assert not has_weights(part)
    found = open_scorer(tmp_path / "onnx").score(EACH).values
    assert found == pytest.approx(open_scorer(job.out).score(EACH).values, abs=1e-5)


def test_a_missing_or_strange_part_is_told(job: Job, tmp_path: Path) -> None:
    train(job)
    note = json.loads((job.out / "tamis.json").read_text())
    for name in ("..", "", 3):
        (job.out / "tamis.json").write_text(json.dumps({**note, "documents": name}))
        with pytest.raises(DamagedError, match="for documents"):
            open_scorer(job.out)
    (job.out / "tamis.json").write_text(json.dumps({**note, "documents": "../base"}))
    with pytest.raises(DamagedError, match=r"'\.\./base' for documents"):
        open_scorer(job.out)
    (job.out / "tamis.json").write_text(json.dumps(note))
    (job.out / "documents").rename(tmp_path / "gone")
    with pytest.raises(InputError, match="lacks documents/"):
        open_scorer(job.out)
