"""Offer intrinsics to kernels: fetch a cache line early, count the bits of a word, borrow arrays without counting.

Each instruction has a plain twin of the same meaning, for processors where the instructions are not known to work.
"""

import platform
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.imputils import impl_ret_borrowed
from numba.extending import intrinsic

from pststream.kernels.compile import inlined

USED = platform.machine() in ("x86_64", "AMD64", "aarch64", "arm64")
"""Whether kernels use the instructions on this machine."""


@intrinsic
def _prefetch_line(context: Any, array: Any, row: Any) -> Any:
    """Emit `llvm.prefetch` for the first byte of a row of an array, for reading, to be kept in all caches."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        view = context.make_array(signature.args[0])(context, builder, arguments[0])
        step = cgutils.unpack_tuple(builder, view.strides)[0]
        byte = ir.IntType(8)
        start = builder.bitcast(view.data, byte.as_pointer())
        address = builder.gep(start, [builder.mul(arguments[1], step)], source_etype=byte)
        number = ir.IntType(32)
        function = cgutils.get_or_insert_function(
            builder.module,
            ir.FunctionType(ir.VoidType(), [byte.as_pointer(), number, number, number]),
            "llvm.prefetch.p0",
        )
        builder.call(function, [address, number(0), number(3), number(1)])
        return context.get_dummy_value()

    return types.void(array, types.intp), emit


@intrinsic
def _population_count(context: Any, word: Any) -> Any:
    """Emit `llvm.ctpop` of a word of 64 bits."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.uint64(types.uint64), emit


def plain_prefetch(array, row):
    """Do nothing: fetching early changes no result."""


def plain_count_bits(word):
    """Count the bits of a word (uint64) by adding them in ever wider fields."""
    word -= (word >> np.uint64(1)) & np.uint64(0x5555555555555555)
    word = (word & np.uint64(0x3333333333333333)) + ((word >> np.uint64(2)) & np.uint64(0x3333333333333333))
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return (word * np.uint64(0x0101010101010101)) >> np.uint64(56)


if USED:

    @inlined
    def prefetch(array, row):
        """Begin to fetch the start of a row of an array; the row must be in the array."""
        _prefetch_line(array, row)

    @inlined
    def count_bits(word):
        """Count the bits of a word (uint64)."""
        return _population_count(word)
else:
    prefetch, count_bits = inlined(plain_prefetch), inlined(plain_count_bits)

# Take arrays without a part in their reference counts, so that loops over many arrays do not count references.


@intrinsic
def borrow(context: Any, value: Any) -> Any:
    """Return an array, or a NamedTuple of arrays and numbers, that keeps none of its arrays in memory.

    For arguments of a kernel only: its caller keeps them until the kernel returns. An array that the kernel itself has
    made would be freed after its last use by name.
    """

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return impl_ret_borrowed(context, builder, value, _release(context, builder, value, arguments[0]))

    return value(value), emit


def _release(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    if isinstance(kind, types.Array):
        array = context.make_array(kind)(context, builder, value)
        array.meminfo = array.meminfo.type(None)
        return array._getvalue()
    if isinstance(kind, types.BaseTuple):
        parts = [
            _release(context, builder, part, builder.extract_value(value, place)) for place, part in enumerate(kind)
        ]
        return context.make_tuple(builder, kind, parts)
    return value
