"""A bi-encoder in training: the cosines of the scorer, the gradients of transformers, a folder that
sentence-transformers opens.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tamis.errors import InputError
from tamis.models import import_model, open_model, open_scorer
from tamis.training.recipes import RECIPES
from tamis.training.trainable import Trainable, open_trainable
from tamis.types import Pairs

torch = pytest.importorskip("torch", reason="torch is not installed")
transformers = pytest.importorskip("transformers", reason="transformers is not installed")

QUERIES = ["a drum sieve", "grain", "grain", "the net"]
TEXTS = ["a sieve", "flour the grain sort", "fish", "fish a net the fish"]
EACH = Pairs(QUERIES, TEXTS, np.repeat(np.arange(4, dtype=np.int32), 2).reshape(4, 2))


@pytest.fixture(params=["mean", "cls"])
def folder(request: Any, tmp_path: Path, tiny_cross_encoder: Path) -> Path:
    out = tmp_path / "model"
    import_model(tiny_cross_encoder, out, kind="bi-encoder", pooling=request.param)
    return out


def opened(folder: Path, **options: Any) -> Trainable:
    return open_trainable(folder, scorer="bi-encoder", **{"dropout": 0, **options})


def test_its_scores_are_stretched_cosines(folder: Path) -> None:
    model = opened(folder)
    scores = model(model.prepare(QUERIES, TEXTS)).detach().numpy()[:, 0]
    assert scores == pytest.approx(20 * open_scorer(folder).score(EACH).values, abs=1e-4)
    assert scores == pytest.approx(20 * model.scorer().score(EACH).values, abs=1e-4)


def test_it_has_the_gradients_of_transformers(folder: Path) -> None:
    model = opened(folder)
    scores = model(model.prepare(QUERIES, TEXTS))
    (scores**2).sum().backward()
    theirs = transformers.AutoModel.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)

    def vectors(texts: list[str]) -> Any:
        given = tokenizer(texts, padding=True, return_tensors="pt")
        states = theirs(**given).last_hidden_state
        mask = given["attention_mask"][:, :, None]
        mean = (states * mask).sum(1) / mask.sum(1)
        pool_tokens = mean if open_model(folder).pooling == "mean" else states[:, 0]
        return torch.nn.functional.normalize(pool_tokens)

    cosines = 20 * (vectors(QUERIES) * vectors(TEXTS)).sum(1)
    assert (cosines - scores[:, 0]).abs().max() < 1e-4
    (cosines**2).sum().backward()
    mine = {name: each.grad for name, each in model.named_parameters()}
    compared = {
        name: each.grad for name, each in theirs.named_parameters() if each.grad is not None
    }
    assert len(compared) > 30
    for name, grad in compared.items():
        # the bias of a key changes nothing, so its gradient is rounding of those around it
        near = compared[name.replace(".key.", ".query.")]
        largest = max(1.0, float(grad.abs().max()), float(near.abs().max()))
        assert (mine[name].to_dense() - grad).abs().max() < 2e-4 * largest, name


def test_texts_are_cut_and_counted(folder: Path) -> None:
    model = opened(folder, max_length=8)
    prepared = model.prepare(["grain"], ["fish " * 9])[0]
    assert (len(prepared), prepared.truncated_tokens) == (3 + 8, 3)
    assert prepared.segments.tolist() == [0] * 3 + [1] * 8


def test_a_saved_folder_ranks_the_same_everywhere(folder: Path, tmp_path: Path) -> None:
    model = opened(folder)
    with torch.no_grad():
        next(iter(model.parameters())).add_(0.1)
    model.save(tmp_path / "out")
    found = open_scorer(tmp_path / "out").score(EACH).values
    assert found == pytest.approx(model.scorer().score(EACH).values, abs=1e-6)
    assert open_model(tmp_path / "out").scorer == "bi-encoder"
    assert open_model(tmp_path / "out").scale == "cosine"
    peers = pytest.importorskip("sentence_transformers").SentenceTransformer(str(tmp_path / "out"))
    pairs = peers.encode(QUERIES) * peers.encode(TEXTS)
    assert pairs.sum(1) == pytest.approx(found, abs=1e-4)


def test_random_weights_take_the_shape_only(folder: Path) -> None:
    drawn = dict(opened(folder, random_weights=True).named_parameters())
    own = dict(opened(folder).named_parameters())
    assert {name: each.shape for name, each in drawn.items()} == {
        name: each.shape for name, each in own.items()
    }
    name = "encoder.layer.0.attention.self.query.weight"
    assert not torch.equal(drawn[name], own[name])


def test_what_a_bi_encoder_cannot_do_is_said(folder: Path, tiny_cross_encoder: Path) -> None:
    with pytest.raises(InputError, match="has no head"):
        opened(folder, fresh_head=True)
    with pytest.raises(InputError, match="does not learn by the loss 'bce'"):
        RECIPES["bi-encoder"].changed({"loss": "bce", "sampler": "points"})
    with pytest.raises(InputError, match="score is a cosine"):
        RECIPES["bi-encoder"].changed({"scale": "logit"})
    with pytest.raises(InputError, match="score is a cosine"):
        RECIPES["docrank"].changed({"scale": "cosine"})
