"""Scoring writes over its states and gives what the code that training runs gives."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tamis.scorers._bert import Bert, build
from tamis.scorers._bert_in_place import add_and_gelu, add_and_norm
from tamis.scorers._dropout import Dropout
from tamis.scorers.weights import Loaded

torch = pytest.importorskip("torch", reason="torch is not installed")

WIDTH, INNER, WORDS, PLACES = 24, 40, 30, 20
SEQUENCES = [np.arange(length, dtype=np.int32) % WORDS for length in (1, 3, 3, 7, 18)]
SEGMENTS = [(np.arange(len(sequence)) > 2).astype(np.int32) for sequence in SEQUENCES]


def weights_of(layers: int) -> dict[str, Any]:
    """Random weights, with biases as large as what they are added to."""
    torch.manual_seed(1)
    shapes: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (WORDS, WIDTH),
        "embeddings.token_type_embeddings.weight": (2, WIDTH),
        "embeddings.position_embeddings.weight": (PLACES, WIDTH),
    }
    matrices = {
        **{f"attention.self.{name}": (WIDTH, WIDTH) for name in ("query", "key", "value")},
        "attention.output.dense": (WIDTH, WIDTH),
        "intermediate.dense": (INNER, WIDTH),
        "output.dense": (WIDTH, INNER),
    }
    norms = ["embeddings.LayerNorm"]
    for number in range(layers):
        here = f"encoder.layer.{number}."
        shapes |= {f"{here}{name}.weight": shape for name, shape in matrices.items()}
        shapes |= {f"{here}{name}.bias": shape[:1] for name, shape in matrices.items()}
        norms += [f"{here}attention.output.LayerNorm", f"{here}output.LayerNorm"]
    shapes |= {f"{norm}.{part}": (WIDTH,) for norm in norms for part in ("weight", "bias")}
    return {
        name: torch.randn(shape) * (0.3 if name.endswith("dense.weight") else 1)
        for name, shape in shapes.items()
    }


def body(activation: str, dropout: Dropout | None = None, layers: int = 3) -> Bert:
    config = {"model_type": "bert", "num_hidden_layers": layers, "num_attention_heads": 3,
              "hidden_act": activation}  # fmt: skip
    nothing: Any = None
    loaded = Loaded(Path("here"), config, weights_of(layers), nothing)
    return build(loaded, dropout) if dropout else build(loaded)


@pytest.mark.parametrize("activation", ["gelu", "relu", "gelu_new"])
@pytest.mark.parametrize("which", [Bert.first_tokens, Bert.all_tokens])
def test_scoring_gives_what_training_does(activation: str, which: Callable[..., Any]) -> None:
    model = body(activation)
    plain = which(model, SEQUENCES, SEGMENTS)
    with torch.inference_mode():
        once, again = (which(model, SEQUENCES, SEGMENTS) for _ in range(2))
    assert torch.equal(once, again)
    assert (once - plain).abs().max() < 1e-5
    assert plain.abs().max() > 1


def test_a_single_layer() -> None:
    model = body("gelu", layers=1)
    plain = model.all_tokens(SEQUENCES, SEGMENTS)
    with torch.inference_mode():
        found, first = (
            each(SEQUENCES, SEGMENTS) for each in (model.all_tokens, model.first_tokens)
        )
    assert (found - plain).abs().max() < 1e-5
    starts = np.cumsum([0, *(len(sequence) for sequence in SEQUENCES[:-1])])
    assert (first - plain[torch.from_numpy(starts)]).abs().max() < 1e-5


def test_parameters_that_are_trained_can_score_too() -> None:
    model = body("gelu")
    model.layers[0].mixed.weight.requires_grad_()
    model.start.weight.requires_grad_()
    plain = model.all_tokens(SEQUENCES, SEGMENTS)
    with torch.inference_mode():
        found = model.all_tokens(SEQUENCES, SEGMENTS)
    assert plain.requires_grad
    assert not found.requires_grad
    assert (found - plain).abs().max() < 1e-5


def test_dropout_is_not_passed_over() -> None:
    model = body("gelu", Dropout(hidden=0.5, generator=np.random.default_rng(1)))
    with torch.inference_mode():
        once, again = (model.all_tokens(SEQUENCES, SEGMENTS) for _ in range(2))
    assert not torch.equal(once, again)


def test_gelu_is_that_of_the_error_function() -> None:
    grid = np.linspace(-12, 12, 4801, dtype=np.float32)
    bias = np.array([0.0, 0.75, -3.0], np.float32)
    values = np.repeat(grid[:, None], 3, 1)
    expected = [
        [x * (1 + math.erf(x / math.sqrt(2))) / 2 for x in row] for row in (values + bias).tolist()
    ]
    add_and_gelu(values, bias)
    assert np.abs(values - np.array(expected)).max() < 1e-6


def test_gelu_far_from_nought() -> None:
    given = np.array([[-1e4, -50, 50, 1e4]], np.float32)
    values = given.copy()
    add_and_gelu(values, np.zeros(4, np.float32))
    assert (np.abs(values - np.maximum(given, 0)) <= 1e-7 * np.abs(given)).all()


def test_normalising_after_a_bias() -> None:
    random = np.random.default_rng(1)
    states, bias, weight, after = (
        random.normal(size=size).astype(np.float32) for size in ((5, 37), 37, 37, 37)
    )
    given = (states + bias).astype(np.float64)
    middle = given - given.mean(1, keepdims=True)
    expected = middle / np.sqrt((middle**2).mean(1, keepdims=True) + 0.01) * weight + after
    add_and_norm(states, bias, weight, after, 0.01)
    assert np.abs(states - expected).max() < 2e-6
