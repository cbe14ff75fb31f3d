"""Statistics of columns as manifests hold them (specification page `spec/manifest`, SimpleStats)."""

from dataclasses import dataclass

EMPTY_ROW = b"\x00\x00\x00\x00" + b"\x00" * 8
"""A serialised BinaryRow without fields: the arity, then the header and null bits of an empty row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimpleStats:
    """Least and greatest values and null counts of a list of columns.

    `min_values` and `max_values` are serialised BinaryRows (4 bytes of arity, big-endian, then the row), one field
    per column, null where unknown; `null_counts` has one entry per column, None where unknown.
    """

    min_values: bytes
    max_values: bytes
    null_counts: tuple[int | None, ...]


EMPTY_STATS = SimpleStats(min_values=EMPTY_ROW, max_values=EMPTY_ROW, null_counts=())
