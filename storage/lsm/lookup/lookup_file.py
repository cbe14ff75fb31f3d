"""A data file in a form in which many keys are found at once: Arrow IPC on local disk, mapped into memory.

Keys and records are kept in two files: the keys in one batch, to be searched without copying them, the records in
batches, of which only what is asked for is touched. Rows keep their places, so that a row's number is its position in
the data file, as deletion vectors count.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from interbed.storage.base.arrays import Positions
from interbed.storage.base.arrow_values import from_numpy
from interbed.storage.lsm.lookup.sorted_keys import SortedKeys

_KEYS = "keys.arrow"
_RECORDS = "records.arrow"


class LookupFile:
    """Rows in key order, each key once. Safe for several threads."""

    def __init__(self, directory: Path, key_names: Sequence[str]) -> None:
        self.directory = directory
        self.bytes = sum(f.stat().st_size for f in directory.iterdir())
        self._keys = _mapped(directory / _KEYS).select(list(key_names)).combine_chunks()
        self._records = _mapped(directory / _RECORDS)
        self._sorted = SortedKeys([_one_array(self._keys.column(n)) for n in key_names])

    @property
    def row_count(self) -> int:
        """Rows in the file."""
        return self._keys.num_rows

    def find(self, keys: Sequence["pa.Array[Any]"]) -> Positions:
        """For each key, given by columns in any order of rows, the position of its row, -1 where there is none."""
        return self._sorted.find(keys)

    def rows(self, positions: Positions, columns: Sequence[str]) -> pa.RecordBatch:
        """The records at these positions, in this order."""
        numbers: Any = from_numpy(positions)
        taken = self._records.select(list(columns)).take(numbers).combine_chunks()
        batches = taken.to_batches()
        if batches:
            return batches[0]
        return pa.RecordBatch.from_pylist([], schema=taken.schema)


def write_lookup_file(
    directory: Path, batches: Iterable[pa.RecordBatch], schema: pa.Schema, key_names: Sequence[str]
) -> None:
    """Write the two files of a lookup file into an existing directory; `schema` is that of the batches."""
    keys: list[pa.RecordBatch] = []
    with pa.ipc.new_file(str(directory / _RECORDS), schema) as records:
        for batch in batches:
            records.write_batch(batch)
            keys.append(batch.select(list(key_names)))
    key_schema = pa.schema([schema.field(n) for n in key_names])
    table = pa.Table.from_batches(keys, schema=key_schema).combine_chunks()
    with pa.ipc.new_file(str(directory / _KEYS), key_schema) as target:
        target.write_table(table, max_chunksize=max(table.num_rows, 1))


def _one_array(column: "pa.ChunkedArray[Any]") -> "pa.Array[Any]":
    if column.num_chunks == 1:
        chunk: Any = column.chunk(0)
        first: pa.Array[Any] = chunk
        return first
    joined: Any = column.combine_chunks()
    only: pa.Array[Any] = joined
    return only


def _mapped(path: Path) -> pa.Table:
    with pa.memory_map(str(path)) as source:
        # The buffers keep the mapping alive after the file is closed.
        return pa.ipc.open_file(source).read_all()
