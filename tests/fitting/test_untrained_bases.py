"""Base models that score but are not trained: a fit uses them as they are, `train` refuses them."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from tests.backends import tiny

import tamis
from tamis.errors import InputError
from tamis.models import import_model
from tamis.training.trainable import open_trainable, why_not_trained

WORDS = "drum sieve net grain rivers flow sea".split()


@pytest.fixture(scope="module")
def albert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    plain = tiny.save(tmp_path_factory.mktemp("plain") / "m", "albert", "AutoModel")
    out = tmp_path_factory.mktemp("base") / "albert"
    import_model(plain, out, kind="bi-encoder", pooling="mean")
    return out


def test_a_fit_uses_the_base_as_it_is_and_says_so(
    albert: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pairs = [(one, other) for one in WORDS for other in WORDS if one != other]
    documents = {f"d{n:02}": f"a {one} is a {other}" for n, (one, other) in enumerate(pairs)}
    queries = {f"q{n:02}": f"{one} {other}" for n, (one, other) in enumerate(pairs)}
    qrels = {f"q{n:02}": {f"d{n:02}": 1} for n in range(len(pairs))}
    with caplog.at_level(logging.WARNING):
        sieve = tamis.fit(
            documents, out=tmp_path / "s", base=str(albert), queries=queries, qrels=qrels,
            threads=1,
        )  # fmt: skip
    assert any("does not train a bi-encoder of type 'albert'" in text for text in caplog.messages)
    assert not any("ONNX" in text for text in caplog.messages)
    planned = {step["key"] for step in sieve.manifest["plan"]["steps"]}
    assert "hybrid" in planned and "fine_tuned" not in planned
    assert sieve.search("drum net", 3)


def test_training_refuses_it(albert: Path) -> None:
    with pytest.raises(InputError, match=r"albert.*does not train yet") as caught:
        open_trainable(albert, scorer="bi-encoder")
    assert "as it is" in caught.value.hint


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"pooling": "mean"}, ""),
        ({"pooling": "mean", "query_prompt": "query : "}, "prompts"),
        ({"pooling": "cls+mean"}, "pooling"),
    ],
)
def test_what_training_would_read_otherwise(
    settings: dict[str, Any], reason: str, tmp_path: Path
) -> None:
    plain = tiny.save(tmp_path / "plain", "bert", "AutoModel")
    import_model(plain, tmp_path / "base", kind="bi-encoder", **settings)
    found = why_not_trained(tmp_path / "base", "bi-encoder")
    assert reason in found and bool(found) == bool(reason)
