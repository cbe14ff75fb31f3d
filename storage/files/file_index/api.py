"""The result of an index for a filter, and the protocols of the writers and readers of indexes.

An index is beside its data file (`<data file>.index`) or, when it is small, in the manifest; one container has the
indexes of all columns (interbed.storage.files.file_index.container). Specification page: `concepts/spec/fileindex`.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from interbed.storage.base.arrays import Positions
from interbed.storage.base.predicate.expr import Leaf
from interbed.storage.base.row.words import Array

INDEX_SUFFIX = ".index"
"""The suffix that the name of an index file adds to the name of its data file."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Rows of a file, by position, that may match; no other row does. `rows` is None when no row is excluded."""

    rows: BitMap | None

    @property
    def is_empty(self) -> bool:
        """Whether the file has no matching row."""
        return self.rows is not None and not self.rows

    def __and__(self, other: "Selection") -> "Selection":
        if self.rows is None or other.rows is None:
            return other if self.rows is None else self
        return Selection(self.rows & other.rows)

    def __or__(self, other: "Selection") -> "Selection":
        return EVERYTHING if self.rows is None or other.rows is None else Selection(self.rows | other.rows)

    def positions(self) -> Positions | None:
        """Return the positions in ascending order; None for all rows."""
        return None if self.rows is None else np.frombuffer(self.rows.to_array(), np.uint32).astype(np.int64)


EVERYTHING = Selection(None)
NOTHING = Selection(BitMap())


@dataclass(frozen=True, slots=True, kw_only=True)
class FileIndexes:
    """Indexes of one data file: in the manifest, or as the content of a file beside it, but not both."""

    embedded: bytes | None = None
    file: bytes | None = None


class FileIndexWriter(Protocol):
    """Writer of the indexes of one data file."""

    def add(self, batch: pa.RecordBatch) -> None:
        """Add the next rows of the file."""
        ...

    def finish(self) -> FileIndexes | None:
        """Return the indexes; None when the file has none."""
        ...


class IndexWriter(Protocol):
    """Writer of one index of one column of one data file."""

    def add(self, values: Array) -> None:
        """Add the next values, in the Arrow form of the column's type."""
        ...

    def finish(self) -> bytes | None:
        """Return the index; None when this kind can't represent the values, and the file has no such index."""
        ...


class IndexReader(Protocol):
    """Reader of one index of one column of one data file."""

    def rows(self, leaf: Leaf) -> Selection:
        """Return the rows for which the leaf, a condition on this index's column, can be true.

        Damaged bytes raise ValueError, IndexError or struct.error; the caller adds the name of the file.
        """
        ...
