"""The kinds of rows in a changelog, in the order of Paimon's byte values."""

from enum import IntEnum


class RowKind(IntEnum):
    """The change of a key that a row of a changelog records."""

    INSERT = 0
    UPDATE_BEFORE = 1
    UPDATE_AFTER = 2
    DELETE = 3

    @property
    def short(self) -> str:
        """The short name of the kind: +I, -U, +U or -D."""
        return ("+I", "-U", "+U", "-D")[self]

    @property
    def is_retract(self) -> bool:
        """Whether the row retracts an earlier row."""
        return self in (RowKind.UPDATE_BEFORE, RowKind.DELETE)
