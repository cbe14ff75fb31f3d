"""Row ids and sequence numbers of the rows of one file, in a table with `row-tracking.enabled`.

A file of new rows stores neither: the id of a row is the file's first row id plus the row's position, and its sequence
number is the greatest of the file, the id of the snapshot that added it. A file that took rows over from other files
stores both columns. A null in them stands for the value that the row would have in a file without the columns. Source:
documentation page `append-table/row-tracking`, Paimon's DataFileRecordReader.
"""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from interbed.storage.base.arrays import Mask, Positions
from interbed.storage.base.arrow_values import from_numpy, scalar_of, to_numpy
from interbed.storage.base.errors import CorruptFileError
from interbed.storage.base.predicate.evaluate import mask
from interbed.storage.base.predicate.expr import AlwaysTrue, Predicate, restrict_to
from interbed.storage.meta.manifest.entry import DataFileMeta
from interbed.storage.meta.schema.system_fields import TRACKING_NAMES
from interbed.storage.meta.schema.table_schema import ROW_ID, SEQUENCE_NUMBER, TableSchema

_IDS_AT_ONCE = 1 << 20


def within_file(schema: TableSchema, file: DataFileMeta, predicate: Predicate) -> Predicate:
    """Return the strongest predicate over values that the file stores for each row that holds wherever the given one
    does.
    """
    complete = file.stores_row_ids and file.first_row_id is None
    own = [name for name in schema.names if name not in TRACKING_NAMES]
    return restrict_to(predicate, (*own, ROW_ID) if complete else own)


def of_table(schema: TableSchema, predicate: Predicate) -> Predicate:
    """Return the strongest predicate over the table's own columns that holds wherever the given one does."""
    return restrict_to(predicate, [name for name in schema.names if name not in TRACKING_NAMES])


def positions_in(file: DataFileMeta, predicate: Predicate, wanted: Positions | None) -> Positions | None:
    """Return those of the wanted positions (None: all) whose row ids the predicate may select; None for all rows.

    A file that stores row ids is not restricted.
    """
    first = file.first_row_id
    if first is None or file.stores_row_ids:
        return wanted
    by_id = restrict_to(predicate, (ROW_ID,))
    if isinstance(by_id, AlwaysTrue):
        return wanted
    if wanted is not None:
        return wanted[_selected(by_id, wanted + first)]
    found = [
        start + np.flatnonzero(_selected(by_id, np.arange(first + start, first + end)))
        for start in range(0, file.row_count, _IDS_AT_ONCE)
        for end in (min(start + _IDS_AT_ONCE, file.row_count),)
    ]
    positions = np.concatenate(found) if found else np.empty(0, np.int64)
    return None if len(positions) == file.row_count else positions


def _selected(predicate: Predicate, ids: Positions) -> Mask:
    batch = pa.record_batch([from_numpy(ids)], names=[ROW_ID])
    return to_numpy(mask(predicate, batch)).astype(np.bool_)


def with_row_ids(
    batch: pa.RecordBatch, file: DataFileMeta, position: int, rows: int, kept: Mask | None
) -> pa.RecordBatch:
    """Return the batch with the values of `_ROW_ID` and `_SEQUENCE_NUMBER`, if it has these columns.

    The batch has the `kept` ones (None: all) of `rows` rows of the file that begin at `position`. Raises
    CorruptFileError for a row without an id.
    """
    index = batch.schema.get_field_index(SEQUENCE_NUMBER)
    if index >= 0:
        stored: Any = batch.column(index)
        filled: Any = pc.fill_null(stored, scalar_of(file.max_sequence_number, stored.type))
        batch = batch.set_column(index, batch.schema.field(index), filled)
    index = batch.schema.get_field_index(ROW_ID)
    if index < 0:
        return batch
    column: Any = batch.column(index)
    if column.null_count:
        if file.first_row_id is None:
            raise CorruptFileError(
                f"The data file {file.file_name} has rows without ids, and its manifest has no first row id for them."
            )
        positions = np.arange(position, position + rows)
        ids: Any = from_numpy((positions if kept is None else positions[kept]) + file.first_row_id)
        column = ids if column.null_count == len(column) else pc.call_function("coalesce", [column, ids])
    return batch.set_column(index, batch.schema.field(index), column)
