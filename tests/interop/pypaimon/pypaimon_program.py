"""A typical program for pypaimon, which test_pypaimon_program.py runs unchanged and with interbed's imports.

It takes an empty warehouse directory and prints its results as JSON.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
from pypaimon import CatalogFactory, Schema

COLUMNS: list[Any] = [
    pa.field("id", pa.int64(), nullable=False),
    pa.field("dt", pa.string(), nullable=False),
    ("customer", pa.string()),
    ("amount", pa.float64()),
    ("at", pa.timestamp("ms")),
]
ORDERS = pa.schema(COLUMNS)


def orders(*rows: tuple[Any, ...]) -> pa.Table:
    """Return rows of the table of orders."""
    return pa.Table.from_pylist([dict(zip(ORDERS.names, row, strict=True)) for row in rows], schema=ORDERS)


def write_batch(table: Any, *tables: pa.Table, overwrite: dict[str, str] | None = None) -> None:
    """Make one batch commit of tables."""
    builder = table.new_batch_write_builder()
    if overwrite is not None:
        builder = builder.overwrite(overwrite)
    write = builder.new_write()
    commit = builder.new_commit()
    for data in tables:
        write.write_arrow(data)
    commit.commit(write.prepare_commit())
    write.close()
    commit.close()


def read(
    table: Any,
    predicate: Callable[[Any], Any] | None = None,
    projection: list[str] | None = None,
    limit: int | None = None,
) -> list[str]:
    """Return the rows of the newest snapshot as sorted text."""
    builder = table.new_read_builder()
    if predicate is not None:
        builder = builder.with_filter(predicate(builder.new_predicate_builder()))
    if projection is not None:
        builder = builder.with_projection(projection)
    if limit is not None:
        builder = builder.with_limit(limit)
    splits = builder.new_scan().plan().splits()
    found = builder.new_read().to_arrow(splits)
    assert projection is None or found.schema.names == projection
    return sorted(str(row) for row in found.to_pylist())


def main(warehouse: str) -> dict[str, Any]:
    """Run the program and return its results by name."""
    seen: dict[str, Any] = {}
    catalog = CatalogFactory.create({"warehouse": warehouse})
    catalog.create_database("shop", True)
    schema = Schema.from_pyarrow_schema(
        ORDERS, partition_keys=["dt"], primary_keys=["dt", "id"], options={"bucket": "2"}, comment="orders"
    )
    catalog.create_table("shop.orders", schema, False)
    catalog.create_table("shop.orders", schema, True)
    seen["databases"] = catalog.list_databases()
    seen["tables"] = catalog.list_tables("shop")
    table = catalog.get_table("shop.orders")
    seen["fields"] = [(f.id, f.name) for f in table.fields]
    seen["keys"] = [list(table.primary_keys), list(table.partition_keys)]
    seen["empty"] = read(table)

    first = orders(*((i, "ab"[i % 2], f"c{i % 3}" if i % 5 else None, i * 1.5, None) for i in range(10)))
    write_batch(table, first.slice(0, 6), first.slice(6))
    seen["all"] = read(table)

    write = table.new_batch_write_builder()
    writer, commit = write.new_write(), write.new_commit()
    writer.write_arrow_batch(orders((3, "b", "changed", 1.0, None)).to_batches()[0])
    writer.write_pandas(orders((20, "c", "frame", 2.0, None)).to_pandas())
    commit.commit(writer.prepare_commit())
    writer.close()
    commit.close()
    seen["after update"] = read(table)

    seen["equal"] = read(table, lambda p: p.equal("customer", "changed"))
    seen["and"] = read(table, lambda p: p.and_predicates([p.greater_than("id", 3), p.less_or_equal("amount", 12.0)]))
    seen["or"] = read(table, lambda p: p.or_predicates([p.equal("dt", "c"), p.is_in("id", [1, 2])]))
    seen["null"] = read(table, lambda p: p.is_null("customer"), ["id"])
    seen["not null"] = read(table, lambda p: p.is_not_null("customer"), ["dt", "id"])
    seen["between"] = read(table, lambda p: p.between("id", 4, 6), ["amount"])
    seen["starts"] = read(table, lambda p: p.startswith("customer", "ch"))
    seen["not in"] = read(table, lambda p: p.is_not_in("customer", ["c0", "c1"]), ["id", "customer"])
    seen["projection"] = read(table, None, ["customer", "id"])
    seen["limit"] = len(read(table, None, ["id"], 3))

    builder = table.new_read_builder().with_projection(["id", "dt"])
    parts = [builder.new_scan().with_shard(i, 3).plan().splits() for i in range(3)]
    seen["shards"] = sorted(row["id"] for part in parts for row in builder.new_read().to_arrow(part).to_pylist())
    splits = builder.new_scan().plan().splits()
    seen["pandas"] = sorted(builder.new_read().to_pandas(splits)["id"].tolist())
    seen["batches"] = sum(batch.num_rows for batch in builder.new_read().to_arrow_batch_reader(splits))
    seen["rows"] = sorted((row.get_field(0), row.get_field(1)) for row in builder.new_read().to_iterator(splits))

    stream = table.new_stream_write_builder()
    writer, commit = stream.new_write(), stream.new_commit()
    for identifier in (1, 2, 3):
        writer.write_arrow(orders((100 + identifier, "s", None, None, None), (100, "s", f"by {identifier}", 0.5, None)))
        commit.commit(writer.prepare_commit(identifier), identifier)
    writer.close()
    commit.close()
    seen["streamed"] = read(table, lambda p: p.equal("dt", "s"))

    write_batch(table, orders((7, "a", "static", 7.0, None)), overwrite={"dt": "a"})
    seen["static overwrite"] = read(table)
    write_batch(table, orders((8, "b", "dynamic", 8.0, None)), overwrite={})
    seen["dynamic overwrite"] = read(table)
    builder = table.new_batch_write_builder()
    commit = builder.new_commit()
    commit.truncate_partitions([{"dt": "s"}])
    commit.close()
    seen["partition gone"] = read(table)

    seen["travelled"] = read(table.copy({"scan.snapshot-id": "1"}))
    snapshots = sorted(
        Path(warehouse, "shop.db", "orders", "snapshot").glob("snapshot-*"), key=lambda p: int(p.name[9:])
    )
    seen["snapshots"] = [
        [content[key] for key in ("id", "schemaId", "commitKind", "commitIdentifier", "totalRecordCount")]
        for content in map(json.loads, (path.read_text() for path in snapshots))
    ]

    lines = pa.table({"line": pa.array(["x", "y", None]), "n": pa.array([1, 2, 3], pa.int32())})
    catalog.create_table("shop.lines", Schema.from_pyarrow_schema(lines.schema), False)
    table = catalog.get_table("shop.lines")
    write_batch(table, lines)
    write_batch(table, lines.slice(1))
    seen["appended"] = read(table)
    write_batch(table, lines.slice(0, 1), overwrite={})
    seen["replaced"] = read(table)
    commit = table.new_batch_write_builder().new_commit()
    commit.truncate_table()
    commit.close()
    seen["truncated"] = read(table)
    catalog.rename_table("shop.lines", "shop.rows")
    catalog.drop_table("shop.orders")
    catalog.drop_table("shop.orders", True)
    seen["left"] = catalog.list_tables("shop")
    return seen


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1])))
