"""Rows as their messages have them: columns may hold more than a guessed type, all digits of a number, its text."""

from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Indices = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


class SentValues(Protocol):
    """The values of rows in their messages."""

    def value(self, row: int, name: str) -> Any:
        """The value of a column in a row, None where it has none."""
        ...

    def texts(self, rows: Indices) -> "pa.Array[Any]":
        """The texts (binary) of the messages of rows."""
        ...

    def rewritten(self, rows: Indices) -> Mask:
        """The rows that may have a text in the place of a value of another kind."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SentRows:
    """Some rows of the messages, by their numbers there; columns `computed` have other values than the messages."""

    values: SentValues
    rows: Indices
    computed: frozenset[str] = frozenset()

    def slice(self, start: int, end: int) -> "SentRows":
        """Those of some rows."""
        return replace(self, rows=self.rows[start:end])

    def where(self, chosen: Mask) -> "SentRows":
        """Those of the rows for which it is true."""
        return replace(self, rows=self.rows[chosen])

    def without(self, name: str) -> "SentRows":
        """The same where a column does not have the values of the messages."""
        return replace(self, computed=self.computed | {name})

    def value(self, row: int, name: str) -> Any:
        """The value of a column in the row at that place."""
        return self.values.value(int(self.rows[row]), name)

    def texts(self) -> "pa.Array[Any]":
        """The texts (binary) of the rows' messages."""
        return self.values.texts(self.rows)

    def rewritten(self) -> Mask:
        """Which rows may have a text in the place of a value of another kind."""
        return self.values.rewritten(self.rows)
