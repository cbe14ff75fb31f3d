"""What a flush of an append table's bucket does to the buffered rows: they go to a file in order of arrival.

Sequence numbers are not stored; a file's metadata counts its rows.
"""

from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa

from interbed.storage.files.format.layout import DataFileLayout
from interbed.storage.lsm.spill import BATCH_BYTES, SpilledRun
from interbed.storage.lsm.write_buffer import Run


def write_in_order(runs: Sequence[Run], layout: DataFileLayout, write: Callable[[pa.RecordBatch], None]) -> None:
    """Hand the rows in the file's layout to `write`; raises CorruptFileError for a spilled run."""
    for batch in in_batches(runs):
        write(pa.RecordBatch.from_arrays(batch.columns, schema=layout.arrow))


def small_batches(runs: Sequence[Run]) -> Iterator[pa.RecordBatch]:
    """The rows in order, in batches of a size to be spilled."""
    for batch in in_batches(runs):
        rows = max(1, BATCH_BYTES * batch.num_rows // max(1, batch.nbytes))
        for start in range(0, batch.num_rows, rows):
            yield batch.slice(start, rows)


def in_batches(runs: Sequence[Run]) -> Iterator[pa.RecordBatch]:
    """The rows in order."""
    for run in runs:
        if isinstance(run, SpilledRun):
            yield from run.batches()
        else:
            yield run
