"""A data file in a form in which many keys are found at once: Arrow IPC on local disk, mapped into memory.

Keys and records are kept in two files: the keys in one batch, to be searched without copying them, the records in
batches, of which only what is asked for is touched. Rows keep their places, so that a row's number is its position in
the data file, as deletion vectors count.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from interbed.storage.lsm.key_words import sort_groups

Positions = npt.NDArray[np.int64]

SAMPLE_EVERY = 512
"""One key of so many is compared with all keys asked for; of the others only those around a hit are."""
_KEYS = "keys.arrow"
_RECORDS = "records.arrow"


class LookupFile:
    """Rows in key order, each key once. Safe for several threads."""

    def __init__(self, directory: Path, key_names: Sequence[str]) -> None:
        self.directory = directory
        self.bytes = sum(f.stat().st_size for f in directory.iterdir())
        self._keys = _mapped(directory / _KEYS).select(list(key_names)).combine_chunks()
        self._records = _mapped(directory / _RECORDS)
        self._columns = [_one_array(self._keys.column(n)) for n in key_names]
        self._samples = [_taken(c, np.arange(0, len(c), SAMPLE_EVERY)) for c in self._columns]

    @property
    def row_count(self) -> int:
        """Rows in the file."""
        return self._keys.num_rows

    def find(self, keys: Sequence["pa.Array[Any]"]) -> Positions:
        """For each key, given by columns in any order of rows, the position of its row, -1 where there is none."""
        asked = len(keys[0])
        found = np.full(asked, -1, np.int64)
        if not asked or not self.row_count:
            return found
        blocks = _ranks(self._samples, keys) - 1
        wanted = np.unique(blocks[blocks >= 0])
        if not len(wanted):
            return found
        near = (wanted[:, None] * SAMPLE_EVERY + np.arange(SAMPLE_EVERY)).reshape(-1)
        near = near[near < self.row_count]
        candidates = [_taken(c, near) for c in self._columns]
        order, starts = sort_groups([_joined(c, k) for c, k in zip(candidates, keys, strict=True)])
        # The file's row, if it has the key, stands first among the equal ones, because it comes first.
        first = order[np.flatnonzero(starts)][np.cumsum(starts) - 1]
        hit = (order >= len(near)) & (first < len(near))
        found[order[hit] - len(near)] = near[first[hit]]
        return found

    def rows(self, positions: Positions, columns: Sequence[str]) -> pa.RecordBatch:
        """The records at these positions, in this order."""
        numbers: Any = pa.array(positions)
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


def _ranks(samples: Sequence["pa.Array[Any]"], keys: Sequence["pa.Array[Any]"]) -> Positions:
    """How many of the samples, which ascend, are not greater than each key."""
    count = len(samples[0])
    order, _ = sort_groups([_joined(s, k) for s, k in zip(samples, keys, strict=True)])
    is_sample = order < count
    below = np.cumsum(is_sample)
    ranks = np.empty(len(keys[0]), np.int64)
    # Equal keys keep their order, and the samples come first, so that an equal sample is counted.
    ranks[order[~is_sample] - count] = below[~is_sample]
    return ranks


def _joined(left: "pa.Array[Any]", right: "pa.Array[Any]") -> "pa.Array[Any]":
    right = right if right.type == left.type else right.cast(left.type)
    joined: pa.Array[Any] = pa.concat_arrays([left, right])
    return joined


def _one_array(column: "pa.ChunkedArray[Any]") -> "pa.Array[Any]":
    if column.num_chunks == 1:
        chunk: Any = column.chunk(0)
        first: pa.Array[Any] = chunk
        return first
    joined: Any = column.combine_chunks()
    only: pa.Array[Any] = joined
    return only


def _taken(column: "pa.Array[Any]", numbers: Positions) -> "pa.Array[Any]":
    indices: Any = pa.array(numbers)
    taken: pa.Array[Any] = pc.take(column, indices, boundscheck=False)
    return taken


def _mapped(path: Path) -> pa.Table:
    with pa.memory_map(str(path)) as source:
        # The buffers keep the mapping alive after the file is closed.
        return pa.ipc.open_file(source).read_all()
