"""Counts and top-n queries pushed down into a read: the number of rows, and the first rows in the order of the key.

The metadata count files whose records are rows. Elsewhere keys are merged, without a sort where they are integers close
together (storage/lsm/sort_merge.py); the bounds of files say whether they are. First rows are read split by split,
without reading what comes after them.
"""

from collections.abc import Iterator, Sequence

import pyarrow as pa

from interbed.storage.base.predicate.expr import Comparison, Op, Predicate, and_
from interbed.storage.files.format.api import DecodeTally
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.options.lsm import MergeEngine
from interbed.storage.read.table_read import TableRead
from interbed.storage.scan.split import Split
from interbed.storage.scan.summary.aggregates import Aggregate, AggregateFunction, Top, aggregated
from interbed.storage.scan.summary.key_spread import KeySpread

_ROWS = (Aggregate(function=AggregateFunction.COUNT_ROWS),)
_RECORDS_OF_A_FILE = 20_000
"""Opening a file takes as long as merging so many keys."""
_DISTANCE = 32
"""On average keys may be so far apart: half of what a count by place allows, since they may lie unevenly."""
_FORMAT = "parquet"
"""Other formats have no key without the rest of the row, or no numbers as they are."""


def quick_count(store: FileStore, splits: Sequence[Split], records: int) -> int | None:
    """How many rows the splits have, if no more than so many records are merged for it; None if they would be.

    Files count as records, too. Raises as TableRead does.
    """
    merged = [split for split in splits if not split.raw_convertible]
    work = sum(split.row_count + _RECORDS_OF_A_FILE * len(split.files) for split in merged)
    if work > records or not all(_is_counted_by_place(store, split) for split in merged):
        return None
    told = aggregated(store, [split for split in splits if split.raw_convertible], _ROWS)
    if told is None:
        return None
    ((count,),) = told
    assert isinstance(count, int)
    return count + sum(batch.num_rows for batch in TableRead(store, ()).to_reader(merged))


def _is_counted_by_place(store: FileStore, split: Split) -> bool:
    schema, options = store.schema, store.options
    if split.branch is not None or split.tells_changes or len(schema.key_fields) != 1:
        return False
    if options.merge_engine is not MergeEngine.DEDUPLICATE or options.ignore_delete or options.sequence_fields:
        return False
    # Elsewhere a file takes as long as its storage takes to answer, which tasks wait for at once.
    if not all(file.format == _FORMAT and split.path_of(file).startswith("/") for file in split.files):
        return False
    spread = KeySpread.of(split.files, schema.key_fields)
    return spread is not None and spread.greatest.max() - spread.least.min() <= _DISTANCE * split.row_count


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
