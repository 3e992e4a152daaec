"""x Wᵀ + b on a processor by oneDNN, whose kernels are compiled for the processor that is there.

torch multiplies float32 by MKL, which uses half of the width of AMD's vectors. Where oneDNN applies
it is 1.6 to 1.9 times as fast on an AMD EPYC with AVX-512 (Zen 5); other processors were not
measured (`python -m benchmarks.dense_product`). The sums are those of float32 in another order.
"""

from __future__ import annotations

import platform
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import linear, pad

X86 = ("x86_64", "AMD64")


def dense_product(states: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """X Wᵀ + b, with gradients where they are wanted.

    >>> states, weight = torch.ones(2, 3), torch.ones(4, 3)
    >>> dense_product(states, weight, None).tolist()[0]
    [3.0, 3.0, 3.0, 3.0]
    """
    if not _is_of_onednn(states, weight):
        return linear(states, weight, bias)
    if states.dim() > 2:
        rows = dense_product(states.flatten(0, -2), weight, bias)
        return rows.view(*states.shape[:-1], -1)
    if torch.is_grad_enabled() and any(
        tensor is not None and tensor.requires_grad for tensor in (states, weight, bias)
    ):
        product: Tensor = _DenseProduct.apply(states, weight, bias)  # type: ignore[no-untyped-call]
        return product
    return _product(states, weight, bias)


def _is_of_onednn(states: Tensor, weight: Tensor) -> bool:
    return (
        states.dtype == weight.dtype == torch.float32
        and states.device.type == weight.device.type == "cpu"
        and states.dim() > 1
        and states.numel() > 0
        and not torch.is_autocast_enabled("cpu")
        and _has_onednn()
    )


@cache
def _has_onednn() -> bool:
    return (
        platform.machine() in X86
        and torch._C._has_mkldnn
        and hasattr(torch.ops.mkldnn, "_linear_pointwise")
    )


def _product(states: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    product: Tensor = torch.ops.mkldnn._linear_pointwise(
        _padded(states), weight, bias, "none", [], ""
    )
    return product.resize_(len(states), len(weight))  # no view, which nobody could add to in place


def _padded(rows: Tensor) -> Tensor:
    """The rows, and as many of zeros as make one of few counts.

    oneDNN keeps a kernel, and memory for it, for each count of rows that it has seen: two gigabytes
    for all counts up to a thousand.
    """
    extra = padded_count(len(rows)) - len(rows)
    return pad(rows, (0, 0, 0, extra)) if extra else rows


def padded_count(count: int) -> int:
    """The next of eight counts between a power of two and its double.

    >>> [padded_count(count) for count in (1, 9, 100, 128, 129, 1000)]
    [8, 16, 104, 128, 144, 1024]
    """
    step = max(8, 1 << max(0, (count - 1).bit_length() - 4))
    return -(-count // step) * step


class _DenseProduct(torch.autograd.Function):
    """The product, and its gradients as products."""

    @staticmethod
    def forward(ctx: Any, states: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(states, weight)
        return _product(states, weight, bias)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        states, weight = ctx.saved_tensors
        (gradient,) = gradients
        of_states, of_weight, of_bias = ctx.needs_input_grad
        return (
            _product(gradient, weight.t(), None) if of_states else None,
            _product(_padded(gradient).t(), _padded(states).t(), None) if of_weight else None,
            gradient.sum(0) if of_bias else None,
        )


class DenseLayer(torch.nn.Linear):
    """A layer of torch that multiplies so."""

    def forward(self, states: Tensor) -> Tensor:
        """See `dense_product`."""
        return dense_product(states, self.weight, self.bias)


def with_dense_layers(model: torch.nn.Module) -> torch.nn.Module:
    """The model itself, whose dense layers multiply so from now on.

    >>> with_dense_layers(torch.nn.Sequential(torch.nn.Linear(2, 3)))
    Sequential(
      (0): DenseLayer(in_features=2, out_features=3, bias=True)
    )
    """
    for module in model.modules():
        if type(module) is torch.nn.Linear:
            module.__class__ = DenseLayer
    return model
