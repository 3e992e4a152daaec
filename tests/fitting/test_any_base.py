"""Bases that our own forward does not run: a fit fine-tunes them, or uses them as they are where
training cannot.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.backends import tiny

import tamis
from tamis.backends.weights import read_weights
from tamis.cli.app import run
from tamis.errors import InputError
from tamis.fitting.candidate_models import between, interpolate_weights
from tamis.fitting.context import FitInputs
from tamis.fitting.request import FitRequest
from tamis.models import import_model, open_scorer
from tamis.training.trainable import open_trainable

WORDS = "drum sieve net grain rivers flow sea".split()
PAIRS = [(one, other) for one in WORDS for other in WORDS if one != other]
Fit = Callable[..., Any]


@pytest.fixture
def fit(tmp_path: Path) -> Fit:
    """A fit of a small collection, all of whose queries are judged."""
    documents = {f"d{n:02}": f"a {one} is a {other}" for n, (one, other) in enumerate(PAIRS)}
    queries = {f"q{n:02}": f"{one} {other}" for n, (one, other) in enumerate(PAIRS)}
    qrels = {f"q{n:02}": {f"d{n:02}": 1} for n in range(len(PAIRS))}

    def fitted(base: Path, **options: Any) -> Any:
        return tamis.fit(
            documents, out=tmp_path / "s", base=str(base), queries=queries, qrels=qrels,
            threads=1, **options,
        )  # fmt: skip

    return fitted


@pytest.fixture(scope="module")
def albert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    plain = tiny.save(tmp_path_factory.mktemp("plain") / "m", "albert", "AutoModel")
    out = tmp_path_factory.mktemp("base") / "albert"
    import_model(plain, out, kind="bi-encoder", pooling="mean", query_prompt="query : ")
    return out


def test_a_fit_fine_tunes_any_architecture_with_its_prompts(
    albert: Path, fit: Fit, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        sieve = fit(albert)
    assert not any("does not train" in text for text in caplog.messages)
    assert not any("ONNX" in text for text in caplog.messages)
    planned = {step["key"] for step in sieve.manifest["plan"]["steps"]}
    assert {"hybrid", "fine_tuned", "interpolated_weights"} <= planned
    systems = {system.name for system in sieve.result.systems}
    assert "fine-tuned" in systems
    assert sieve.search("drum net", 3)


def test_a_fit_uses_what_cannot_be_trained_as_it_is_and_says_so(
    fit: Fit, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    peers: Any = pytest.importorskip("sentence_transformers")
    modules = peers.sentence_transformer.modules
    sides = []
    for side in ("query", "document"):
        transformer = modules.Transformer(
            str(tiny.save(tmp_path / side, "electra", "AutoModel", seed=len(side)))
        )
        sides.append([transformer, modules.Pooling(24)])
    router = modules.Router.for_query_document(*sides)
    peers.SentenceTransformer(modules=[router], device="cpu").save_pretrained(
        str(tmp_path / "router")
    )
    with caplog.at_level(logging.WARNING):
        sieve = fit(tmp_path / "router")
    assert any("used as it is" in text for text in caplog.messages)
    planned = {step["key"] for step in sieve.manifest["plan"]["steps"]}
    assert "hybrid" in planned and "fine_tuned" not in planned
    assert sieve.search("drum net", 3)


def test_weights_between_two_models_are_found_under_another_prefix(tmp_path: Path) -> None:
    plain = tiny.save(tmp_path / "plain", "albert", "AutoModel")
    import_model(plain, tmp_path / "base", kind="bi-encoder", pooling="mean")
    model = open_trainable(plain, outputs=1, seed=3)
    with tiny.torch.no_grad():
        for value in model.parameters():
            value.add_(0.5)
    model.save(tmp_path / "tuned")
    out = interpolate_weights(tmp_path / "base", tmp_path / "tuned", 0.5, tmp_path / "half")
    start, tuned, half = (read_weights(tmp_path / name) for name in ("base", "tuned", "half"))
    name = "embeddings.word_embeddings.weight"
    moved = half[f"albert.{name}"] - start[name]
    assert np.allclose(moved, 0.25, atol=1e-6)
    assert tiny.torch.equal(half["classifier.weight"], tuned["classifier.weight"])
    assert open_scorer(out).score(tiny.EVERY).values.shape == (15,)


def test_two_weights_with_one_ending_are_not_confused() -> None:
    torch = tiny.torch
    first = {"a.x.weight": torch.zeros(1), "b.x.weight": torch.zeros(1)}
    assert between(first, {"x.weight": torch.ones(1)}, 0.5)["x.weight"].tolist() == [1.0]
    assert between(first, {"a.x.weight": torch.ones(1)}, 0.5)["a.x.weight"].tolist() == [0.5]
    other = {"a.x.weight": torch.ones(2)}
    assert between(first, other, 0.5)["a.x.weight"].tolist() == [1.0, 1.0]


def test_a_device_that_is_not_there_is_said_before_any_work(albert: Path, fit: Fit) -> None:
    with pytest.raises(InputError, match="there is no device 'cuda:9'"):
        fit(albert, device="cuda:9")
    with pytest.raises(InputError, match="does not learn in int8"):
        fit(albert, dtype="int8")


def test_a_sieve_ranks_in_the_precision_that_was_asked_for(albert: Path, tmp_path: Path) -> None:
    def spec(dtype: str) -> Any:
        request = FitRequest("collection", tmp_path / "s", dtype=dtype, device="cpu")
        return FitInputs.scorer_spec(_Inputs(request), albert)  # type: ignore[arg-type]

    assert "dtype" not in spec("auto") and spec("auto") == spec("float32")
    assert spec("bfloat16")["dtype"] == "bfloat16"
    plain = FitRequest("collection", tmp_path / "s").to_json()
    half = FitRequest("collection", tmp_path / "s", dtype="bfloat16").to_json()
    assert "dtype" not in plain and half["dtype"] == "bfloat16"


def test_a_search_with_a_sieve_takes_a_device_and_no_precision(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sieve = str(tmp_path / "plain")
    tamis.fit({"d1": "a drum is a sieve", "d2": "a net"}, out=sieve, base=None, threads=1)
    assert run(["search", sieve, "drum", "--device", "cpu"]) == 0
    capsys.readouterr()
    assert run(["search", sieve, "drum", "--device", "cuda:9"]) == 1
    assert "no device 'cuda:9'" in capsys.readouterr().err
    assert run(["search", sieve, "drum", "--dtype", "bfloat16"]) == 1
    assert "leave --dtype out" in capsys.readouterr().err


class _Inputs:
    """What a spec is made from."""

    def __init__(self, request: FitRequest) -> None:
        self.request = request
