"""Schemas and partition specs that snapshots need are not removed; Iceberg's own server leaves that to its clients."""

from pathlib import Path
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import IntegerType, LongType, NestedField, StringType

from tests.catalog.server.rest.iceberg.rest_server import IcebergRest

COLUMNS = Schema(NestedField(1, "id", LongType()), NestedField(2, "data", StringType()))
SPEC = {"action": "remove-partition-specs", "spec-ids": [0]}
SCHEMA = {"action": "remove-schemas", "schema-ids": [0]}


@pytest.fixture
def table(catalog: Catalog, namespace: str) -> Table:
    """Return a table whose first snapshot has an older schema and partition spec than its second one."""
    table = catalog.create_table(f"{namespace}.t", COLUMNS, partition_spec=UNPARTITIONED_PARTITION_SPEC)
    table.append(pa.table({"id": [1], "data": ["a"]}))
    with table.update_schema() as schema:
        schema.add_column("size", IntegerType())
    with table.update_spec() as spec:
        spec.add_identity("id")
    table.append(pa.table({"id": [2], "data": ["b"], "size": pa.array([7], pa.int32())}))
    return table


def _removal(server: IcebergRest, table: Table, *updates: object) -> tuple[int, str]:
    namespace, name = table.name()
    answer = server.commit(namespace, name, [], list(updates))
    return answer.status, str(answer.body)


def _expiry(table: Table) -> dict[str, object]:
    return {"action": "remove-snapshots", "snapshot-ids": [table.snapshots()[0].snapshot_id]}


def test_a_partition_spec_of_files_is_not_removed(server: IcebergRest, table: Table) -> None:
    status, text = _removal(server, table, SPEC)
    assert (status, "Cannot remove partition spec 0: the snapshot" in text) == (409, True)
    # The newer snapshot has the file of the expired one.
    assert _removal(server, table, _expiry(table), SPEC)[0] == 409
    table.refresh()
    table.delete("id = 1")
    # The manifest that names the deleted file is left out by the next commit.
    table.append(pa.table({"id": [3], "data": ["c"], "size": pa.array([8], pa.int32())}))
    older = [each.snapshot_id for each in table.snapshots()][:-1]
    expiry = {"action": "remove-snapshots", "snapshot-ids": older}
    assert _removal(server, table, expiry, SPEC)[0] == 200
    table.refresh()
    assert list(table.specs()) == [1]
    assert sorted(row["id"] for row in table.scan().to_arrow().to_pylist()) == [2, 3]


def test_a_schema_of_a_snapshot_is_not_removed(server: IcebergRest, table: Table) -> None:
    status, text = _removal(server, table, SCHEMA)
    assert (status, "Cannot remove schema 0: the snapshot" in text) == (409, True)
    assert _removal(server, table, _expiry(table), SCHEMA)[0] == 200
    table.refresh()
    assert list(table.schemas()) == [1]


def test_no_partition_spec_is_removed_while_it_is_unknown_whether_files_need_it(
    server: IcebergRest, table: Table
) -> None:
    for name in ("data", "size"):
        with table.update_spec() as spec:
            spec.add_identity(name)
    listed = table.snapshots()[0].manifest_list
    path = Path(unquote(urlsplit(listed).path))
    unused = {"action": "remove-partition-specs", "spec-ids": [2]}
    for content in (b"no manifest list", None):
        if content is None:
            path.unlink()
        else:
            path.write_bytes(content)
        # A removal is refused although no file has this spec.
        status, text = _removal(server, table, unused)
        assert (status, "whether files need them is unknown" in text) == (400, True), text
