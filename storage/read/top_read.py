"""The first rows of splits in the order of the key, without reading what comes after them."""

from collections.abc import Iterator, Sequence

import pyarrow as pa

from interbed.storage.base.predicate.expr import Comparison, Op, Predicate, and_
from interbed.storage.files.decode_tally import DecodeTally
from interbed.storage.meta.store import TableStore
from interbed.storage.read.table_read import TableRead
from interbed.storage.scan.split import Split
from interbed.storage.scan.summary.aggregates import Top
from interbed.storage.scan.summary.key_spread import KeySpread

_LEAST_ROWS = 1_024
"""Fewer are not looked for: a page has more."""
_GROWTH = 16


class TopRead:
    """Reads of each split rows among which are the first `top.count` that it has in the order of a column.

    Where that is the key's first column and of integers, it is read stretch by stretch from its end on, each of which
    is expected to have sixteen times as many rows as all before it, until there are enough. Otherwise, and for splits
    of changes, all rows are read. Raises as TableRead does.
    """

    def __init__(
        self,
        store: TableStore,
        columns: Sequence[str] | None,
        predicate: Predicate | None,
        top: Top,
        *,
        tally: DecodeTally | None = None,
    ) -> None:
        self._store = store
        self._tally = tally
        self._asked = columns
        self._predicate = predicate
        self._top = top

    def to_batches(self, split: Split) -> Iterator[pa.RecordBatch]:
        """The rows of a split, in some order."""
        spread = self._spread(split)
        # Ends are in order: more rows never end before fewer.
        end: int | None = None
        wanted = max(4 * self._top.count, _LEAST_ROWS)
        rows = 0
        while True:
            start, end = end, None if spread is None else spread.end_of(wanted, descending=self._top.descending)
            for batch in self._between(start, end).to_batches(split):
                rows += batch.num_rows
                yield batch
            if end is None or rows >= self._top.count:
                return
            wanted *= _GROWTH

    def _spread(self, split: Split) -> KeySpread | None:
        if split.tells_changes or split.branch is not None:
            return None
        found = KeySpread.of(split.files, self._store.schema.key_fields)
        # Keys have no nulls.
        is_key = found is not None and found.column == self._top.column and pa.types.is_integer(found.type)
        return found if is_key else None

    def _between(self, start: int | None, end: int | None) -> TableRead:
        """A read of the rows behind `start` up to `end`, in the order asked for."""
        behind, up_to = (Op.LT, Op.GE) if self._top.descending else (Op.GT, Op.LE)
        bounds = [
            Comparison(op, self._top.column, value)
            for op, value in ((behind, start), (up_to, end))
            if value is not None
        ]
        predicate = and_(self._predicate, *bounds) if bounds else self._predicate
        return TableRead(self._store, self._asked, predicate, tally=self._tally)
