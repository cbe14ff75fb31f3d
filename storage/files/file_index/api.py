"""What an index of a column says of a filter, and the protocols of its writer and its reader.

An index lies beside its data file (`<data file>.index`) or, when it is small, in the manifest; one container holds the
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
"""What the name of an index file ends with, behind the name of its data file."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Rows of one file, by position, outside of which no row matches; `rows` is None when nothing is ruled out."""

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
        """The positions in ascending order."""
        return None if self.rows is None else np.frombuffer(self.rows.to_array(), np.uint32).astype(np.int64)


EVERYTHING = Selection(None)
NOTHING = Selection(BitMap())


@dataclass(frozen=True, slots=True, kw_only=True)
class FileIndexes:
    """The indexes of one data file: in the manifest, or as the content of a file beside it; never both."""

    embedded: bytes | None = None
    file: bytes | None = None


class FileIndexWriter(Protocol):
    """Collects the rows of one data file."""

    def add(self, batch: pa.RecordBatch) -> None:
        """Take in the file's next rows."""
        ...

    def finish(self) -> FileIndexes | None:
        """The indexes; None when the file has none."""
        ...


class IndexWriter(Protocol):
    """Collects the values of one column of one data file."""

    def add(self, values: Array) -> None:
        """Take in the next values, in the Arrow form of the column's type."""
        ...

    def finish(self) -> bytes | None:
        """The index; None when this kind can't hold the values that came, and the file goes without."""
        ...


class IndexReader(Protocol):
    """One index of one column of one data file."""

    def rows(self, leaf: Leaf) -> Selection:
        """Where the leaf, which is about this index's column, can be true.

        Damaged bytes raise ValueError, IndexError or struct.error; the caller knows the file and names it.
        """
        ...
