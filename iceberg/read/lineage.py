"""Ids of rows and when they were last changed, which version 3 keeps of each row.

A file has columns of them for rows that came from other files; of all others, and where these are null, the id is the
place in the file after the file's first row id, and the number that of the file's rows. Source: Iceberg's table
specification, "Row Lineage".
"""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.types import LongType, NestedField

from interbed.iceberg.meta.live_file import LiveFile
from interbed.storage.base.arrow_values import from_numpy

ROW_ID = NestedField(2147483540, "_row_id", LongType(), required=False)
LAST_UPDATED = NestedField(2147483539, "_last_updated_sequence_number", LongType(), required=False)


def with_lineage(batch: pa.RecordBatch, position: int, file: LiveFile) -> pa.RecordBatch:
    """The rows, which begin at a position of the file, with what their two columns leave open filled in."""
    ids, numbers = batch.column(ROW_ID.name), batch.column(LAST_UPDATED.name)
    if file.first_row_id is not None:
        first = file.first_row_id + position
        ids = pc.coalesce(ids, from_numpy(np.arange(first, first + batch.num_rows, dtype=np.int64)))
        # Rows without an id get one of the file that they are written to, and are new there.
        numbers = pc.coalesce(numbers, _number(file.sequence_number))
    changed = {ROW_ID.name: ids, LAST_UPDATED.name: numbers}
    columns = [changed.get(name, column) for name, column in zip(batch.schema.names, batch.columns, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def _number(value: int) -> Any:
    """A scalar, which the stubs of pyarrow take for none where an array may stand."""
    return pa.scalar(value, pa.int64())
