"""Whether the rows that a task writes have different primary keys, for a MERGE that does not look at its target."""

import numpy as np
import pyarrow as pa

from interbed.storage.base.arrays import Words
from interbed.storage.meta.schema.table_schema import TableSchema
from interbed.storage.write.bucket.key_locations import KeyHashes

REPEATED = b"repeated:"
"""Said to the driver in place of a commit message by a task in which a key came twice."""


class DistinctKeys:
    """Takes rows and reports in the end whether a key came again; eight bytes of memory a row.

    A key is known by 64 bits of its hash. Two keys that share them look like one that came twice, which costs time but
    nothing else: the statement is run again with a look at its target.
    """

    def __init__(self, schema: TableSchema) -> None:
        self._names = schema.primary_keys
        self._types = [schema.by_name[name].type for name in schema.primary_keys]
        self._hashes: list[Words] = []

    def add(self, rows: pa.RecordBatch) -> None:
        """Take rows of the table's columns."""
        if rows.num_rows:
            self._hashes.append(KeyHashes.of([rows.column(name) for name in self._names], self._types).first)

    def repeated(self) -> bool:
        """Whether a key came again; asked once, after all rows."""
        if not self._hashes:
            return False
        hashes = np.concatenate(self._hashes)
        self._hashes.clear()
        hashes.sort()
        return bool((hashes[1:] == hashes[:-1]).any())
