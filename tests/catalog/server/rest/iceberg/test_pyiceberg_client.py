"""pyiceberg's clients of REST catalogs and of Hive metastores on the same tables of one server."""

import threading

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NoSuchNamespaceError,
    NoSuchTableError,
    NoSuchViewError,
    TableAlreadyExistsError,
    ViewAlreadyExistsError,
)
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.sorting import SortField, SortOrder
from pyiceberg.transforms import DayTransform, IdentityTransform
from pyiceberg.types import IntegerType, ListType, LongType, NestedField, StringType, StructType, TimestampType
from pyiceberg.view.metadata import ViewVersion

from tests.catalog.server.rest.iceberg.rest_server import IcebergRest
from tests.support.waits import at_most

COLUMNS = Schema(NestedField(1, "id", LongType()), NestedField(2, "data", StringType()))


def _rows(*numbers: int) -> pa.Table:
    return pa.table({"id": pa.array(numbers, pa.int64()), "data": [f"row {number}" for number in numbers]})


def _ids(table: Table) -> list[int]:
    found = [number for number in table.scan().to_arrow()["id"].to_pylist() if number is not None]
    return sorted(found)


def test_a_table_is_created_filled_evolved_renamed_and_dropped(catalog: Catalog, namespace: str) -> None:
    table = catalog.create_table(f"{namespace}.t", COLUMNS, properties={"owner": "me"})
    table.append(_rows(1, 2))
    with table.update_schema() as update:
        update.add_column("size", IntegerType())
    table.append(pa.table({"id": [3], "data": ["c"], "size": pa.array([7], pa.int32())}))
    table.delete("id = 1")
    again = catalog.load_table(f"{namespace}.t")
    assert _ids(again) == [2, 3]
    assert again.schema().column_names == ["id", "data", "size"]
    assert again.properties["owner"] == "me"
    catalog.rename_table(f"{namespace}.t", f"{namespace}.u")
    assert catalog.list_tables(namespace) == [(namespace, "u")]
    assert _ids(catalog.load_table(f"{namespace}.u")) == [2, 3]
    catalog.drop_table(f"{namespace}.u")
    with pytest.raises(NoSuchTableError):
        catalog.load_table(f"{namespace}.u")


def test_partitions_sort_orders_and_nested_types_are_kept(catalog: Catalog, namespace: str) -> None:
    schema = Schema(
        NestedField(10, "id", LongType(), required=True),
        NestedField(20, "at", TimestampType()),
        NestedField(30, "parts", ListType(31, StructType(NestedField(32, "name", StringType())), False)),
        identifier_field_ids=[10],
    )
    spec = PartitionSpec(PartitionField(source_id=20, field_id=1000, transform=DayTransform(), name="at_day"))
    order = SortOrder(SortField(source_id=10, transform=IdentityTransform()))
    catalog.create_table(f"{namespace}.t", schema, partition_spec=spec, sort_order=order)
    table = catalog.load_table(f"{namespace}.t")
    assert [field.field_id for field in table.schema().fields] == [1, 2, 3]
    assert table.schema().identifier_field_ids == [1]
    assert [(field.source_id, field.name) for field in table.spec().fields] == [(2, "at_day")]
    assert [field.source_id for field in table.sort_order().fields] == [1]
    with table.update_spec() as update:
        update.add_identity("id")
    assert [field.field_id for field in catalog.load_table(f"{namespace}.t").spec().fields] == [1000, 1001]


def test_hive_clients_and_rest_clients_see_the_same_tables(catalog: Catalog, hive: Catalog, namespace: str) -> None:
    by_rest = catalog.create_table(f"{namespace}.by_rest", COLUMNS)
    by_rest.append(_rows(1))
    hive.load_table(f"{namespace}.by_rest").append(_rows(2))
    catalog.load_table(f"{namespace}.by_rest").append(_rows(3))
    assert (
        _ids(catalog.load_table(f"{namespace}.by_rest")) == _ids(hive.load_table(f"{namespace}.by_rest")) == [1, 2, 3]
    )
    by_hive = hive.create_table(f"{namespace}.by_hive", COLUMNS)
    by_hive.append(_rows(4))
    catalog.load_table(f"{namespace}.by_hive").append(_rows(5))
    assert _ids(hive.load_table(f"{namespace}.by_hive")) == [4, 5]
    assert sorted(catalog.list_tables(namespace)) == sorted(hive.list_tables(namespace))
    with pytest.raises(TableAlreadyExistsError):
        catalog.create_table(f"{namespace}.by_hive", COLUMNS)


def test_committers_that_race_lose_no_row(catalog: Catalog, hive: Catalog, namespace: str) -> None:
    catalog.create_table(f"{namespace}.t", COLUMNS)
    failures: list[BaseException] = []
    committed: list[int] = []

    def commit(client: Catalog, numbers: range) -> None:
        try:
            for number in numbers:
                while True:
                    try:
                        client.load_table(f"{namespace}.t").append(_rows(number))
                    except CommitFailedException:
                        continue
                    committed.append(number)
                    break
        except BaseException as error:  # noqa: BLE001 - reported by the test's thread
            failures.append(error)

    threads = [
        threading.Thread(target=commit, args=(client, range(start, start + 4)))
        for client, start in ((catalog, 0), (catalog, 10), (hive, 20))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(at_most(60))
    assert failures == []
    assert (
        _ids(catalog.load_table(f"{namespace}.t")) == sorted(committed) == [*range(4), *range(10, 14), *range(20, 24)]
    )


@pytest.mark.parametrize("change", ["tag", "branch", "current"])
def test_an_expiry_keeps_the_snapshots_of_newer_branches_and_tags(
    catalog: Catalog, namespace: str, change: str
) -> None:
    table = catalog.create_table(f"{namespace}.t", COLUMNS)
    for number in (1, 2):
        table.append(_rows(number))
    stale = catalog.load_table(f"{namespace}.t")
    first = stale.snapshots()[0].snapshot_id
    with table.manage_snapshots() as changed:
        if change == "tag":
            changed.create_tag(first, "keep")
        elif change == "branch":
            changed.create_branch(first, "keep")
        else:
            changed.set_current_snapshot(snapshot_id=first)
    with pytest.raises((CommitFailedException, ValueError)):
        stale.maintenance.expire_snapshots().by_id(first).commit()
    found = catalog.load_table(f"{namespace}.t")
    name = "main" if change == "current" else "keep"
    assert found.refs()[name].snapshot_id == first
    assert found.scan(snapshot_id=first).to_arrow()["id"].to_pylist() == [1]
    assert _ids(found) == ([1] if change == "current" else [1, 2])


def test_a_transaction_of_a_new_table_creates_it_at_its_end(catalog: Catalog, namespace: str) -> None:
    with catalog.create_table_transaction(f"{namespace}.t", COLUMNS) as transaction:
        transaction.append(_rows(1))
        assert catalog.list_tables(namespace) == []
    assert _ids(catalog.load_table(f"{namespace}.t")) == [1]


def test_a_namespace_has_properties_and_is_dropped_when_empty(catalog: Catalog, hive: Catalog, namespace: str) -> None:
    with pytest.raises(NamespaceAlreadyExistsError):
        catalog.create_namespace(namespace)
    summary = catalog.update_namespace_properties(namespace, {"absent"}, {"comment": "of the test", "a": "1"})
    assert (summary.updated, summary.missing) == (["a", "comment"], ["absent"])
    properties = catalog.load_namespace_properties(namespace)
    assert (properties["comment"], properties["a"]) == ("of the test", "1")
    assert properties["location"].endswith(f"/{namespace}.db")
    assert hive.load_namespace_properties(namespace)["a"] == "1"
    catalog.update_namespace_properties(namespace, {"a", "comment"})
    assert {"a", "comment"}.isdisjoint(catalog.load_namespace_properties(namespace))
    catalog.create_table(f"{namespace}.t", COLUMNS)
    with pytest.raises(NamespaceNotEmptyError):
        catalog.drop_namespace(namespace)
    catalog.drop_table(f"{namespace}.t")
    catalog.drop_namespace(namespace)
    with pytest.raises(NoSuchNamespaceError):
        catalog.list_tables(namespace)


def test_a_registered_table_is_that_of_its_metadata(catalog: Catalog, namespace: str) -> None:
    table = catalog.create_table(f"{namespace}.t", COLUMNS)
    table.append(_rows(1))
    location = catalog.load_table(f"{namespace}.t").metadata_location
    catalog.drop_table(f"{namespace}.t")
    catalog.register_table(f"{namespace}.again", location)
    assert _ids(catalog.load_table(f"{namespace}.again")) == [1]


def test_views_are_created_loaded_registered_and_dropped(server: IcebergRest, catalog: Catalog, namespace: str) -> None:
    name, sql = (namespace, "v"), "SELECT 1 AS id"
    fields = {"type": "sql", "sql": sql, "dialect": "spark"}
    version = ViewVersion.model_validate(
        {"version-id": 1, "schema-id": 0, "representations": [fields], "default-namespace": (namespace,)}
    )
    made = catalog.create_view(name, COLUMNS, version, properties={"a": "1"})
    with pytest.raises(ViewAlreadyExistsError):
        catalog.create_view(name, COLUMNS, version)
    assert catalog.view_exists(name)
    assert catalog.list_views(namespace) == [name]
    assert catalog.list_tables(namespace) == []
    loaded = catalog.load_view(name)
    assert loaded == made
    representation = loaded.sql_for("spark")
    assert representation is not None
    assert representation.sql == sql
    assert loaded.schema().column_names == ["id", "data"]
    location = server.call("GET", f"namespaces/{namespace}/views/v").expect(200)["metadata-location"]
    catalog.drop_view(name)
    assert not catalog.view_exists(name)
    with pytest.raises(NoSuchViewError):
        catalog.load_view(name)
    assert catalog.register_view((namespace, "w"), location).metadata == made.metadata
    with pytest.raises(ViewAlreadyExistsError):
        catalog.register_view((namespace, "w"), location)
    assert catalog.list_views(namespace) == [(namespace, "w")]
