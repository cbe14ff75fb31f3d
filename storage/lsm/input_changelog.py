"""`changelog-producer` = `input`: what was written is the changelog, row by row and unmerged.

A flush writes its rows twice: merged to a file of level 0, and as they came, ordered by key and newness, to a changelog
file beside it. Nothing looks at what a key was before, so the input must be a whole changelog, -U and -D included.
Source: documentation page `primary-key-table/changelog-producer`, Input.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from interbed.storage.lsm.merge_function.api import KeyGroups, Kinds, MergeFunction, take_rows


@dataclass(frozen=True, slots=True, kw_only=True)
class InputChangelogFunction:
    """A merge function that hands all rows on to `emit`, in the order in which it sees them, before it merges them.

    What is handed on has the columns of the merge's output.
    """

    inner: MergeFunction
    emit: Callable[[pa.RecordBatch], None]

    def columns(self, output: Sequence[str]) -> tuple[str, ...]:
        """The output, all of which is handed on, and what the inner function needs."""
        return tuple(dict.fromkeys((*output, *self.inner.columns(output))))

    def merge(self, groups: KeyGroups, output: Sequence[str]) -> pa.RecordBatch:
        """See MergeFunction."""
        self.emit(take_rows(groups.rows, output, groups.order))
        return self.inner.merge(groups, output)

    def merge_single(self, rows: pa.RecordBatch, kinds: Kinds | None, output: Sequence[str]) -> pa.RecordBatch:
        """See MergeFunction."""
        self.emit(rows.select(list(output)))
        return self.inner.merge_single(rows, kinds, output)
