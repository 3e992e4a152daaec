"""Many bytes of a buffer at once, wherever they begin: what numba has no word for.

The buffer must go on for 8 or 64 bytes; nothing checks it. Bytes count from the lowest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from tamis._jit import jit

WORD = ir.IntType(64)
LANES = ir.VectorType(ir.IntType(8), 64)


def _place(kind: Any, context: Any, builder: Any, signature: Any, args: Any) -> Any:
    array = context.make_array(signature.args[0])(context, builder, args[0])
    return builder.bitcast(builder.gep(array.data, [args[1]]), kind.as_pointer())


def _load_word(_: Any, array: Any, at: Any) -> Any:
    """The eight bytes that begin at a place of an array of bytes."""

    def load(*call: Any) -> Any:
        return call[1].load(_place(WORD, *call), align=1)

    return types.uint64(array, types.intp), load


def _store_word(_: Any, array: Any, at: Any, word: Any) -> Any:
    """Write eight bytes at a place of an array of bytes."""

    def store(*call: Any) -> Any:
        call[1].store(call[3][2], _place(WORD, *call), align=1)
        return call[0].get_dummy_value()

    return types.void(array, types.intp, types.uint64), store


def _at_most(_: Any, array: Any, at: Any, limit: Any) -> Any:
    """A bit each for the 64 bytes that begin at a place: whether it is at most the limit."""

    def compare(*call: Any) -> Any:
        builder, byte = call[1], builder_byte(call)
        limits = ir.Constant(LANES, ir.Undefined)
        for lane in range(64):
            limits = builder.insert_element(limits, byte, ir.Constant(ir.IntType(32), lane))
        loaded = builder.load(_place(LANES, *call), align=1)
        return builder.bitcast(builder.icmp_unsigned("<=", loaded, limits), WORD)

    def builder_byte(call: Any) -> Any:
        return call[1].trunc(call[3][2], ir.IntType(8))

    return types.uint64(array, types.intp, types.uint64), compare


def _lowest_bit(_: Any, word: Any) -> Any:
    """The place of the lowest bit of a word that has one."""

    def count(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.uint64), count


def _swapped(_: Any, word: Any) -> Any:
    """The word whose first byte counts most: words in this shape sort as their bytes do."""

    def swap(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bswap(args[0])

    return types.uint64(types.uint64), swap


load_word: Callable[..., Any] = intrinsic(_load_word)
store_word: Callable[..., Any] = intrinsic(_store_word)
at_most: Callable[..., Any] = intrinsic(_at_most)
lowest_bit: Callable[..., Any] = intrinsic(_lowest_bit)
swapped: Callable[..., Any] = intrinsic(_swapped)


@jit
def first_bytes(word: np.uint64, count: int) -> np.uint64:
    """The first bytes of a word, at most eight, the others being zero."""
    if count >= 8:
        return word
    return word & ((np.uint64(1) << np.uint64(8 * count)) - np.uint64(1))
