"""Remembered vectors give the same scores, and every text is run once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tamis.models import import_model
from tamis.scorers.bi_encoder import BiEncoder
from tamis.scorers.embedding_cache import EmbeddingCache
from tamis.testing import check_scorer
from tamis.types import Pairs


@pytest.fixture
def model(tmp_path: Path, tiny_cross_encoder: Path) -> BiEncoder:
    import_model(
        tiny_cross_encoder, tmp_path / "m", kind="bi-encoder", pooling="mean", max_length=5
    )
    return BiEncoder.open(tmp_path / "m", threads=1)


def test_scores_are_those_of_the_model(model: BiEncoder) -> None:
    pairs = Pairs(["drum", "a net"], ["sieve", "grain flour fish the sort", "drum"],
                  np.array([[0, 0], [1, 1], [0, 2], [1, 0]], np.int32))  # fmt: skip
    found, wanted = EmbeddingCache(model).score(pairs), model.score(pairs)
    assert found.values == pytest.approx(wanted.values, abs=1e-6)
    assert found.truncated_tokens.tolist() == wanted.truncated_tokens.tolist()
    check_scorer(EmbeddingCache(model))


def test_every_text_is_run_once(model: BiEncoder, monkeypatch: pytest.MonkeyPatch) -> None:
    run: list[str] = []
    real = BiEncoder.encode_with_truncation

    def encode(self: BiEncoder, texts: list[str]) -> object:
        run.extend(texts)
        return real(self, texts)

    monkeypatch.setattr(BiEncoder, "encode_with_truncation", encode)
    scorer = EmbeddingCache(model, max_embeddings=4)
    one = Pairs(["drum"], ["sieve", "net"], np.array([[0, 0], [0, 1]], np.int32))
    first = scorer.score(one).values
    assert scorer.score(one).values.tolist() == first.tolist()
    assert sorted(run) == ["drum", "net", "sieve"]
    scorer.score(Pairs(["fish"], ["grain", "flour"], one.index))
    assert len(scorer._embeddings) <= 4
