"""Take arrays without a part in their reference counts, so that loops over many arrays do not count references."""

from typing import Any

from numba import types
from numba.core.imputils import impl_ret_borrowed
from numba.extending import intrinsic


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
