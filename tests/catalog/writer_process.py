"""Process that upserts into a table of a catalog repeatedly: `writer_process.py <catalog options as JSON> <writer>
<commits> [fault…]`.

Every commit writes one row of the writer and the rows that all writers share. Prints the number and the snapshot id of
each commit.
"""

import json
import sys

import pyarrow as pa

import interbed
from interbed.storage.io.faults import Fault, FaultyFileIO
from interbed.storage.table.opening import open_store

TABLE = "shop.orders"
SCHEMA = pa.schema([("id", pa.int64()), ("writer", pa.int32()), ("number", pa.int32())])
SHARED_KEYS = (-3, -2, -1)


def own_key(writer: int, number: int) -> int:
    """Return the key that only this commit of this writer writes."""
    return writer * 1_000_000 + number


def rows(writer: int, number: int) -> pa.Table:
    """Return the rows of one commit."""
    keys = [own_key(writer, number), *SHARED_KEYS]
    return pa.table({"id": keys, "writer": [writer] * len(keys), "number": [number] * len(keys)}, schema=SCHEMA)


def main(options: dict[str, str], writer: int, commits: int, faults: list[str]) -> None:
    """Commit repeatedly, with the given faults."""
    with interbed.CatalogFactory.create(options) as catalog:
        table = catalog.get_table(TABLE)
        if faults:
            store = table.store
            faulty = FaultyFileIO(store.file_io, [Fault.parse(f) for f in faults])
            table = interbed.Table(TABLE, open_store(store.location, faulty, environment=store.environment))
        for number in range(commits):
            snapshot_id = table.upsert(rows(writer, number))
            print(number, snapshot_id, flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:])
