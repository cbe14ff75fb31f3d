"""Opening a file of a store: a small one whole, of a larger one the end, where readers look first."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from interbed.storage.io.ahead.content import RangedContent
from interbed.storage.io.ahead.needs import ReadAhead
from interbed.storage.io.ahead.pool import pool_of

if TYPE_CHECKING:
    import pyarrow as pa

WHOLE_BYTES = 1 << 20
"""A file that is not larger is read whole by the request that opens it; of a larger one the end, with its footer."""

_LEAST_END_BYTES = 128 << 10
_END_SHARE = 256
"""The end of a file whose size is known is a part of it like that."""


def end_bytes(size: int) -> int:
    """How much of the end of a file is read when it is opened: about what its footer and its index of pages take."""
    return max(_LEAST_END_BYTES, min(size // _END_SHARE, WHOLE_BYTES))


def opened_by_ranges(fetch: Callable[[int, int], Any], size: int, limits: ReadAhead) -> "pa.NativeFile":
    """An input of a file of that size; `fetch(start, end)` is the one request, and threads make several at once.

    Raises what it raises.
    """
    import pyarrow as pa

    start = 0 if size <= WHOLE_BYTES else size - end_bytes(size)
    held = fetch(start, size) if size else b""
    return pa.BufferReader(held) if not start else opened_from(fetch, size, start, held, limits)


def opened_from(
    fetch: Callable[[int, int], Any], size: int, start: int, held: Any, limits: ReadAhead
) -> "pa.NativeFile":
    """The same where the bytes from `start` on, which are `held`, have come already."""
    from interbed.storage.io.ahead.file import RangedInput

    return RangedInput.over(RangedContent(fetch, size, start, held, pool_of(limits)))
