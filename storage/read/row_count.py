"""The number of rows where it is cheap to know: files tell it, or a merge of nothing but keys does.

Of files whose records are rows the metadata tell it. Elsewhere keys are merged, without a sort where they are integers
close together (storage/lsm/newest_rows.py): whether that is so is taken from the bounds of files.
"""

from collections.abc import Sequence

from interbed.storage.meta.options.lsm import MergeEngine
from interbed.storage.meta.store import TableStore
from interbed.storage.read.table_read import TableRead
from interbed.storage.scan.split import Split
from interbed.storage.scan.summary.aggregates import Aggregate, AggregateFunction, aggregated
from interbed.storage.scan.summary.key_spread import KeySpread

_ROWS = (Aggregate(function=AggregateFunction.COUNT_ROWS),)
_RECORDS_OF_A_FILE = 20_000
"""Opening a file takes as long as merging so many keys."""
_DISTANCE = 32
"""On average keys may be so far apart: half of what a count by place allows, since they may lie unevenly."""
_FORMAT = "parquet"
"""Other formats have no key without the rest of the row, or no numbers as they are."""


def quick_count(store: TableStore, splits: Sequence[Split], records: int) -> int | None:
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


def _is_counted_by_place(store: TableStore, split: Split) -> bool:
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
