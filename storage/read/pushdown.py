"""Counts and top-n queries pushed down into a read: the number of rows, and the first rows in key order.

Files whose records are rows are counted by their metadata. Other keys are merged, without a sort if they are dense
integers (storage/lsm/sort_merge.py), which the bounds of the files show. First rows are read split by split, without
reading later rows.
"""

from collections.abc import Iterator, Sequence

import pyarrow as pa

from interbed.storage.base.predicate.expr import Comparison, Op, Predicate, and_
from interbed.storage.files.format.api import DecodeTally
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.options.lsm import MergeEngine
from interbed.storage.read.table_read import KeySpread, TableRead
from interbed.storage.scan.split import Split
from interbed.storage.scan.summary.aggregates import Aggregate, AggregateFunction, Top, aggregated

_ROWS = (Aggregate(function=AggregateFunction.COUNT_ROWS),)
_RECORDS_OF_A_FILE = 20_000
"""The number of keys whose merge takes as long as opening a file."""
_MEAN_DISTANCE = 32
"""The maximum mean distance of keys: half of the limit of a count by array, because keys may be unevenly spread."""
_FORMAT = "parquet"
"""Other formats cannot read the key without the rest of the row, or store no plain numbers."""


def quick_count(store: FileStore, splits: Sequence[Split], records: int) -> int | None:
    """Return the number of rows of the splits; None if more than `records` records would have to be merged.

    Opening a file counts as _RECORDS_OF_A_FILE records. Raises what TableRead raises.
    """
    merged = [split for split in splits if not split.raw_convertible]
    work = sum(split.row_count + _RECORDS_OF_A_FILE * len(split.files) for split in merged)
    if work > records or not all(_is_counted_by_array(store, split) for split in merged):
        return None
    counted = aggregated(store, [split for split in splits if split.raw_convertible], _ROWS)
    if counted is None:
        return None
    ((count,),) = counted
    assert isinstance(count, int)
    return count + sum(batch.num_rows for batch in TableRead(store, ()).to_reader(merged))


def _is_counted_by_array(store: FileStore, split: Split) -> bool:
    schema, options = store.schema, store.options
    if split.branch is not None or split.has_changes or len(schema.key_fields) != 1:
        return False
    if options.merge_engine is not MergeEngine.DEDUPLICATE or options.ignore_delete or options.sequence_fields:
        return False
    # Remote files have latency, which several tasks would wait for at once.
    if not all(file.format == _FORMAT and split.path_of(file).startswith("/") for file in split.files):
        return False
    spread = KeySpread.of(split.files, schema.key_fields)
    return spread is not None and spread.greatest.max() - spread.least.min() <= _MEAN_DISTANCE * split.row_count


_LEAST_ROWS = 1_024
"""The minimum number of rows to look for, because a page has more."""
_GROWTH = 16


class TopRead:
    """Reads rows of each split that include its first `top.count` rows in the order of a column.

    If the column is the first key column and has integers, ranges of it are read from its first end on until there are
    enough rows; each range is expected to have sixteen times as many rows as all before it. Otherwise, and for splits
    of changes, all rows are read. Raises what TableRead raises.
    """

    def __init__(
        self,
        store: FileStore,
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
        """Yield rows of a split, in any order."""
        spread = self._spread(split)
        # Ends are monotonic in the number of rows.
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
        if split.has_changes or split.branch is not None:
            return None
        found = KeySpread.of(split.files, self._store.schema.key_fields)
        # Key columns have no nulls.
        is_key = found is not None and found.column == self._top.column and pa.types.is_integer(found.type)
        return found if is_key else None

    def _between(self, start: int | None, end: int | None) -> TableRead:
        """Return a read of the rows after `start` up to `end`, in the order of the query."""
        behind, up_to = (Op.LT, Op.GE) if self._top.descending else (Op.GT, Op.LE)
        bounds = [
            Comparison(op, self._top.column, value)
            for op, value in ((behind, start), (up_to, end))
            if value is not None
        ]
        predicate = and_(self._predicate, *bounds) if bounds else self._predicate
        return TableRead(self._store, self._asked, predicate, tally=self._tally)
