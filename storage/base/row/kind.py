"""The kinds of rows in a changelog, in the order of Paimon's byte values."""

from enum import IntEnum


class RowKind(IntEnum):
    """What a row says about its key."""

    INSERT = 0
    UPDATE_BEFORE = 1
    UPDATE_AFTER = 2
    DELETE = 3

    @property
    def short(self) -> str:
        """The kind as written in logs: +I, -U, +U or -D."""
        return ("+I", "-U", "+U", "-D")[self]

    @property
    def is_retract(self) -> bool:
        """Whether the row takes something back."""
        return self in (RowKind.UPDATE_BEFORE, RowKind.DELETE)
