"""Products by oneDNN: those of torch, with the same gradients, and torch's own where it is not."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

from tamis.backends import _dense_product
from tamis.backends._dense_product import DenseLayer, dense_product, with_dense_layers

REACH = 1e-5


def tensors(rows: int, narrow: int, wide: int, *, bias: bool = True) -> list[torch.Tensor | None]:
    torch.manual_seed(rows)
    return [
        torch.randn(rows, narrow), torch.randn(wide, narrow), torch.randn(wide) if bias else None
    ]  # fmt: skip


def exact(states: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    product = states.double() @ weight.double().T
    return product if bias is None else product + bias.double()


@pytest.mark.parametrize("rows", [1, 2, 37, 300])
@pytest.mark.parametrize("bias", [True, False])
def test_a_product_is_that_of_float64(rows: int, bias: bool) -> None:
    states, weight, added = tensors(rows, 24, 40, bias=bias)
    assert states is not None and weight is not None
    with torch.inference_mode():
        product = dense_product(states, weight, added)
    assert product.dtype == torch.float32
    assert torch.allclose(product.double(), exact(states, weight, added), atol=REACH)


def test_a_weight_that_is_a_view_counts_as_it_reads() -> None:
    states, weight, _ = tensors(5, 6, 9, bias=False)
    assert states is not None and weight is not None
    turned = weight.T.contiguous().T
    product = dense_product(states[:, ::1], turned, None)
    assert torch.allclose(product.double(), exact(states, weight, None), atol=REACH)


@pytest.mark.parametrize("wanted", [(True, True, True), (True, False, False), (False, True, True)])
def test_gradients_are_those_of_float64(wanted: tuple[bool, ...]) -> None:
    leaves = tensors(7, 5, 3)
    for leaf, is_wanted in zip(leaves, wanted, strict=True):
        assert leaf is not None
        leaf.requires_grad_(is_wanted)
    states, weight, bias = leaves
    assert states is not None and weight is not None and bias is not None
    twice = dense_product(dense_product(states, weight, bias).tanh(), weight.T, None)
    (twice**2).sum().backward()  # type: ignore[no-untyped-call]
    doubles = [leaf.detach().double().requires_grad_(leaf.requires_grad) for leaf in leaves]  # type: ignore[union-attr]
    theirs = (doubles[0] @ doubles[1].T + doubles[2]).tanh() @ doubles[1]
    (theirs**2).sum().backward()
    for leaf, double in zip(leaves, doubles, strict=True):
        assert leaf is not None and (leaf.grad is None) == (double.grad is None)
        if leaf.grad is not None and double.grad is not None:
            assert torch.allclose(leaf.grad.double(), double.grad, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("rows", [7, 8])
def test_a_product_may_be_added_to_in_place(rows: int) -> None:
    states, weight, bias = tensors(rows, 5, 3)
    assert states is not None and weight is not None
    added = dense_product(states.requires_grad_(), weight, bias).add_(1.0)
    added.sum().backward()  # type: ignore[no-untyped-call]
    assert torch.allclose(added.double(), exact(states, weight, bias) + 1, atol=REACH)


def test_few_counts_of_rows_are_multiplied() -> None:
    counts = [_dense_product.padded_count(count) for count in range(1, 1025)]
    assert all(count <= padded < count * 1.125 + 8 for count, padded in enumerate(counts, 1))
    assert len(set(counts)) < 45 and counts[-1] == 1024


def test_other_kinds_are_torchs_own(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*tensors: object) -> None:
        raise AssertionError("oneDNN was asked")

    states, weight, bias = tensors(4, 6, 5)
    assert states is not None and weight is not None and bias is not None
    monkeypatch.setattr(_dense_product, "_product", refuse)
    assert dense_product(states.double(), weight.double(), None).dtype == torch.float64
    assert dense_product(states[:0], weight, bias).shape == (0, 5)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert dense_product(states, weight, bias).dtype == torch.bfloat16
    monkeypatch.setattr(_dense_product, "_has_onednn", lambda: False)
    own = dense_product(states, weight, bias)
    assert np.allclose(own.numpy(), exact(states, weight, bias).numpy(), atol=REACH)


def test_a_layer_of_torch_takes_rows_of_any_shape() -> None:
    torch.manual_seed(0)
    layer = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.GELU(), torch.nn.Linear(5, 2))
    states = torch.randn(3, 4, 6)
    before, names = layer(states), list(layer.state_dict())
    with_dense_layers(layer)
    assert [type(part) for part in layer.children()][::2] == [DenseLayer, DenseLayer]
    assert torch.allclose(layer(states), before, atol=REACH) and before.shape == (3, 4, 2)
    assert list(layer.state_dict()) == names
    layer(states).sum().backward()
    assert all(weight.grad is not None for weight in layer.parameters())
