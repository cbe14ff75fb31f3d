"""A program that imports more from pypaimon than the catalog: types, names, options, errors, streams.

test_pypaimon_program.py in this folder runs it unchanged and with interbed's imports. It takes an empty warehouse
directory and prints its results as JSON.
"""

import json
import pickle
import sys
from collections.abc import Callable
from typing import Any

import pyarrow as pa
from pypaimon import CatalogFactory, Schema
from pypaimon.catalog.catalog_exception import (
    DatabaseAlreadyExistException,
    DatabaseNotExistException,
    TableAlreadyExistException,
    TableNotExistException,
)
from pypaimon.common.identifier import Identifier
from pypaimon.common.options.core_options import CoreOptions
from pypaimon.schema.data_types import ArrayType, AtomicType, DataField, MapType, RowType
from pypaimon.write.commit_callback import CommitCallback

PLACE = RowType(True, [DataField(2, "city", AtomicType("STRING")), DataField(3, "no", AtomicType("INT", False))])
FIELDS = [
    DataField(0, "id", AtomicType("BIGINT", nullable=False), "the key"),
    DataField(1, "place", PLACE),
    DataField(4, "tags", ArrayType(True, AtomicType("VARCHAR(20)"))),
    DataField(5, "prices", MapType(True, AtomicType("STRING", False), AtomicType("DECIMAL(10, 2)"))),
    DataField(6, "amount", AtomicType("DOUBLE")),
]


class SnapshotRecorder(CommitCallback):  # type: ignore[misc]
    """Commit callback that records the committed snapshots."""

    def __init__(self) -> None:
        self.seen: list[list[int]] = []
        self.closed = False

    def call(self, context: Any) -> None:
        self.seen.append([context.snapshot.id, len(context.commit_entries)])

    def close(self) -> None:
        self.closed = True


def places(*ids: int) -> pa.Table:
    """Return rows of the table of places."""
    rows = [
        {
            "id": i,
            "place": None if i % 4 == 3 else {"city": f"c{i % 3}", "no": i},
            "tags": [f"t{i}"] * (i % 3),
            "prices": [(f"p{i}", None)],
            "amount": i / 2,
        }
        for i in ids
    ]
    inside = pa.struct([("city", pa.string()), pa.field("no", pa.int32(), False)])
    types = [pa.int64(), inside, pa.list_(pa.string()), pa.map_(pa.string(), pa.decimal128(10, 2)), pa.float64()]
    fields = [pa.field(f.name, t, f.name != "id") for f, t in zip(FIELDS, types, strict=True)]
    return pa.Table.from_pylist(rows, schema=pa.schema(fields))


def commit(table: Any, data: pa.Table, callback: CommitCallback | None = None) -> None:
    """Make one batch commit of a table."""
    builder = table.new_batch_write_builder()
    write, committer = builder.new_write(), builder.new_commit()
    if callback is not None:
        committer.add_commit_callback(callback)
    write.write_arrow(data)
    committer.commit(write.prepare_commit())
    write.close()
    committer.close()


def refusal(error: type[Exception], call: Callable[[], Any]) -> bool:
    """Return whether the call raises that error."""
    try:
        call()
    except error:
        return True
    return False


def main(warehouse: str) -> dict[str, Any]:
    """Run the program and return its results by name."""
    seen: dict[str, Any] = {}
    catalog = CatalogFactory.create({"warehouse": warehouse})
    catalog.create_database("shop", False)
    name = Identifier.create("shop", "places")
    seen["name"] = [name.get_full_name(), name.get_database_name(), name.get_table_name(), name.is_system_table()]
    whole = Identifier.from_string("shop.places$branch_b$files")
    seen["parts"] = [whole.get_table_name(), whole.get_branch_name(), whole.get_system_table_name()]
    seen["types"] = [str(f.type) for f in FIELDS if isinstance(f.type, AtomicType)]
    seen["equal"] = [AtomicType("INT") == AtomicType("INT"), AtomicType("INT") == AtomicType("INT", False)]

    schema = Schema(FIELDS, primary_keys=["id"], options={CoreOptions.BUCKET.key(): "3"}, comment="places")
    catalog.create_table(name, schema, False)
    table = catalog.get_table(name)
    seen["fields"] = [[f.id, f.name, f.type.nullable, f.description] for f in table.fields]
    seen["again"] = refusal(TableAlreadyExistException, lambda: catalog.create_table(name, schema, False))
    seen["none"] = refusal(TableNotExistException, lambda: catalog.get_table("shop.none"))
    seen["no database"] = refusal(DatabaseNotExistException, lambda: catalog.get_database("none"))
    seen["two databases"] = refusal(DatabaseAlreadyExistException, lambda: catalog.create_database("shop", False))

    callback = SnapshotRecorder()
    commit(table, places(*range(12)), callback)
    seen["callback"] = [callback.seen, callback.closed]
    table.create_tag("first")
    commit(table, places(*range(8, 20)))
    seen["tags"] = table.list_tags()
    older = table.copy({CoreOptions.SCAN_TAG_NAME.key(): "first"}).new_read_builder()
    seen["tagged"] = older.new_read().to_arrow(older.new_scan().plan().splits()).num_rows

    builder = table.new_read_builder().with_projection(["place.city", "id", "place.no"])
    read, splits = builder.new_read(), builder.new_scan().plan().splits()
    seen["nested"] = sorted(str(row) for row in read.to_arrow(splits, parallelism=2).to_pylist())
    seen["nested type"] = [[f.name, str(f.type)] for f in builder.read_type() if f.name == "id"]
    again, parts = pickle.loads(pickle.dumps((read, splits)))
    seen["pickled"] = again.to_arrow(parts).num_rows
    shards = [builder.new_scan().with_shard(i, 2).plan().splits() for i in range(2)]
    seen["shards"] = [sorted({split.bucket for split in shard}) for shard in shards]
    seen["shard rows"] = [sorted(read.to_arrow(shard)["id"].to_pylist()) for shard in shards]
    explained = table.new_read_builder().explain()
    seen["explained"] = [explained.snapshot_id, explained.file_count, explained.is_primary_key_table]

    lines = pa.table({"n": list(range(10))})
    catalog.create_table("shop.lines", Schema.from_pyarrow_schema(lines.schema), False)
    table = catalog.get_table("shop.lines")
    commit(table, lines)
    commit(table, pa.table({"n": list(range(10, 17))}))
    builder = table.new_read_builder()
    parts = [builder.new_scan().with_shard(i, 4).plan().splits() for i in range(4)]
    seen["append shards"] = [builder.new_read().to_arrow(part)["n"].to_pylist() for part in parts]
    part = builder.new_scan().with_slice(8, 13).plan().splits()
    seen["slice"] = builder.new_read().to_arrow(part)["n"].to_pylist()
    seen["no slice"] = refusal(ValueError, lambda: builder.new_scan().with_slice(3, 3))

    snapshots = table.snapshot_manager()
    latest = snapshots.get_latest_snapshot()
    seen["snapshot"] = [latest.id, str(latest.commit_kind), latest.total_record_count, latest.schema_id]
    seen["gone"] = snapshots.get_snapshot_by_id(99) is None
    system = catalog.get_table("shop.lines$snapshots").new_read_builder().with_projection(["snapshot_id"])
    found = system.new_read().to_arrow(system.new_scan().plan().splits())
    seen["system"] = sorted(found["snapshot_id"].to_pylist())

    stream = table.new_stream_read_builder().with_poll_interval_ms(10)
    plans, read = stream.new_streaming_scan().stream_sync(), stream.new_read()
    seen["streamed"] = [sorted(read.to_arrow(next(plans).splits())["n"].to_pylist())]
    commit(table, pa.table({"n": [100]}))
    seen["streamed"].append(read.to_arrow(next(plans).splits())["n"].to_pylist())

    table.rollback_to(1)
    table = catalog.get_table("shop.lines")
    seen["rolled back"] = table.snapshot_manager().get_latest_snapshot().id
    once = table.new_batch_write_builder().new_commit()
    once.truncate_table()
    seen["once"] = refusal(RuntimeError, once.truncate_table)
    return seen


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1])))
