"""What a flush of an append table's bucket does to the buffered rows: they go to a file in order of arrival.

Sequence numbers are not stored; a file's metadata counts its rows.
"""

from collections.abc import Callable, Sequence

import pyarrow as pa

from interbed.storage.format.layout import DataFileLayout


def write_in_order(
    batches: Sequence[pa.RecordBatch], layout: DataFileLayout, write: Callable[[pa.RecordBatch], None]
) -> None:
    """Hand the rows in the file's layout to `write`."""
    for batch in batches:
        write(pa.RecordBatch.from_arrays(batch.columns, schema=layout.arrow))
