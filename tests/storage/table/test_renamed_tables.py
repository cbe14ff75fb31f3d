"""A table that was renamed or dropped after it was opened is never read as an empty table."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import interbed
from interbed.storage.base.errors import InterbedError
from interbed.storage.table.table import Table

SCHEMA = pa.schema(
    (
        pa.field("p", pa.int64(), nullable=False),
        pa.field("id", pa.int64(), nullable=False),
        pa.field("v", pa.int64()),
    )
)
ROWS = pa.table({"p": [1, 1, 2], "id": [1, 2, 3], "v": [1, 2, 3]}, schema=SCHEMA)
KEYED = {"primary_keys": ["p", "id"], "partition_keys": ["p"]}
KINDS: dict[str, dict[str, Any]] = {
    "append": {},
    "partitioned append": {"partition_keys": ["p"]},
    "key": {**KEYED, "options": {"bucket": "1"}},
    "changelog": {**KEYED, "options": {"bucket": "1", "changelog-producer": "lookup"}},
    "deletion vectors": {**KEYED, "options": {"bucket": "1", "deletion-vectors.enabled": "true"}},
}


def _put(table: Table, rows: pa.Table = ROWS) -> object:
    return table.upsert(rows) if table.primary_keys else table.append(rows)


def _copy(**options: str) -> Callable[[Table], object]:
    named = {key.replace("_", "-").replace("scan-", "scan."): value for key, value in options.items()}
    return lambda t: t.copy(named).scan().to_arrow()


OPERATIONS: dict[str, Callable[[Table], object]] = {
    "scan": lambda t: t.scan().to_arrow(),
    "scan with a filter": lambda t: t.scan(filter="id = 1").to_arrow(),
    "scan of a key": lambda t: t.scan(filter="p = 1 and id = 1").to_arrow(),
    "count": lambda t: t.scan().count(),
    "count of the table": lambda t: t.count(),
    "explain": lambda t: t.explain(),
    "changes": lambda t: t.changes().to_arrow(),
    "changes of a range": lambda t: t.changes(1, 2).to_arrow(),
    "changes by difference": lambda t: t.changes(1, 2, mode="diff").to_arrow(),
    "audit log": lambda t: t.audit_log().scan().to_arrow(),
    "binlog": lambda t: t.binlog().scan().to_arrow(),
    "incremental": _copy(incremental_between="1,2"),
    "incremental by time": _copy(incremental_between_timestamp="1,2"),
    "scan of a time": _copy(scan_timestamp_millis="1000"),
    "levels": lambda t: t.levels(),
    "snapshots": lambda t: t.snapshots(),
    "latest_snapshot": lambda t: t.latest_snapshot(),
    "write": _put,
    "delete": lambda t: t.delete("id = 1"),
    "truncate": lambda t: t.truncate(),
    "overwrite": lambda t: t.overwrite(ROWS),
    "overwrite of what was read": lambda t: t.overwrite(ROWS, read_at=0),
    "compact": lambda t: t.compact(),
    "full compact": lambda t: t.compact(full=True),
    "analyze": lambda t: t.maintenance.analyze(),
    "health": lambda t: t.maintenance.health(),
    "plan_compaction": lambda t: t.maintenance.plan_compaction(),
    "expire_snapshots": lambda t: t.maintenance.expire_snapshots(retain_max=1, retain_min=1),
    "create_tag": lambda t: t.versions.create_tag("new"),
    "rollback_to": lambda t: t.versions.rollback_to(1),
}
APPEND_OPERATIONS: dict[str, Callable[[Table], object]] = {
    "sort compact": lambda t: t.compact(order_strategy="order", order_by="id"),
}
KEYED_OPERATIONS: dict[str, Callable[[Table], object]] = {
    "get": lambda t: t.get((1, 1)),
    "get_many": lambda t: t.get_many([(1, 1)]),
    "upsert of present columns": lambda t: t.upsert([{"p": 1, "id": 1}], columns="present"),
}
PARTITIONED_OPERATIONS: dict[str, Callable[[Table], object]] = {
    "delete_partitions": lambda t: t.delete_partitions({"p": 1}),
    "overwrite of a partition": lambda t: t.overwrite(ROWS.slice(0, 2), {"p": 1}),
}


def _outcome(operation: Callable[[Table], object], table: Table) -> str | None:
    """Return the result of the operation; None when it raised an error that says that it was not done."""
    try:
        return repr(operation(table))
    except InterbedError:
        return None


@pytest.mark.parametrize("kind", KINDS)
def test_no_operation_treats_a_renamed_table_as_empty(kind: str, tmp_path: Path) -> None:
    catalog = interbed.load_catalog("lake", warehouse=str(tmp_path))
    catalog.create_database("d")
    made = catalog.create_table("d.t", SCHEMA, **KINDS[kind])
    for _ in range(2):
        _put(made)
    table = catalog.get_table("d.t")
    operations = OPERATIONS | (KEYED_OPERATIONS if made.primary_keys else APPEND_OPERATIONS)
    operations |= PARTITIONED_OPERATIONS if made.partition_keys else {}
    os.rename(table.location, f"{table.location}_moved")
    done = {name: outcome for name, each in operations.items() if (outcome := _outcome(each, table)) is not None}
    assert not done
