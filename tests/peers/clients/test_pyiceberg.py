"""pyiceberg uses the server as the metastore of its Hive catalog: namespaces, tables, and appends of two concurrent
processes without a lost one.
"""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hmsclient.genthrift.hive_metastore.ttypes import ShowLocksRequest
from hmsclient.hmsclient import HMSClient
from pyiceberg.catalog import load_catalog
from pyiceberg.catalog.hive import HiveCatalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import StringType

from tests.support.servers.hmsclient_shapes import table as hive_table
from tests.support.servers.metastore import MetastoreUnderTest
from tests.support.waits import at_most

PROGRAM = Path(__file__).with_name("pyiceberg_program.py")
PROCESSES = 2
THREADS = 2
COMMITS = 4

ORDERS = pa.schema((("id", pa.int64()), ("who", pa.string())))


@pytest.fixture
def catalog(metastore: MetastoreUnderTest) -> HiveCatalog:
    """pyiceberg's Hive catalog on the server."""
    loaded = load_catalog("there", type="hive", uri=metastore.uri)
    assert isinstance(loaded, HiveCatalog)
    return loaded


@pytest.fixture
def namespace(catalog: HiveCatalog, database: str) -> Iterator[str]:
    """An existing namespace, whose database is dropped after the test."""
    yield database
    for name in catalog.list_tables(database):
        catalog.drop_table(name)


def orders(*rows: tuple[int, str]) -> pa.Table:
    """Return rows of the table of orders."""
    return pa.Table.from_pylist([{"id": number, "who": who} for number, who in rows], schema=ORDERS)


def rows(table: Any, **scan: Any) -> list[tuple[Any, ...]]:
    """Return the current rows of the table."""
    found = table.scan(**scan).to_arrow()
    return sorted(tuple(row.values()) for row in found.to_pylist())


def test_namespaces_are_created_listed_changed_and_dropped(catalog: HiveCatalog, metastore: MetastoreUnderTest) -> None:
    catalog.create_namespace("shop", {"k": "v", "comment": "a shop"})
    with pytest.raises(NamespaceAlreadyExistsError):
        catalog.create_namespace("shop")
    catalog.create_namespace_if_not_exists("shop")
    assert ("shop",) in catalog.list_namespaces()
    properties = catalog.load_namespace_properties("shop")
    assert (properties["k"], properties["comment"]) == ("v", "a shop")
    assert properties["location"] == f"file:{metastore.warehouse}/shop.db"
    summary = catalog.update_namespace_properties("shop", removals={"k", "absent"}, updates={"l": "m"})
    assert (summary.removed, summary.updated, summary.missing) == (["k"], ["l"], ["absent"])
    properties = catalog.load_namespace_properties("shop")
    assert "k" not in properties
    assert properties["l"] == "m"
    catalog.create_table("shop.t", ORDERS)
    with pytest.raises(NamespaceNotEmptyError):
        catalog.drop_namespace("shop")
    catalog.drop_table("shop.t")
    catalog.drop_namespace("shop")
    with pytest.raises(NoSuchNamespaceError):
        catalog.drop_namespace("shop")
    with pytest.raises(NoSuchNamespaceError):
        catalog.load_namespace_properties("shop")


def test_tables_are_created_listed_renamed_and_dropped(catalog: HiveCatalog, namespace: str, hms: HMSClient) -> None:
    name = f"{namespace}.orders"
    made = catalog.create_table(name, ORDERS, properties={"k": "v"})
    assert made.location() == f"{hms.get_database(namespace).locationUri}/orders"
    with pytest.raises(TableAlreadyExistsError):
        catalog.create_table(name, ORDERS)
    hms.create_table(hive_table(namespace, "not_of_iceberg"))
    assert catalog.list_tables(namespace) == [(namespace, "orders")]
    assert catalog.table_exists(name)
    kept = hms.get_table(namespace, "orders")
    assert (kept.tableType, kept.parameters["table_type"], kept.parameters["k"]) == ("EXTERNAL_TABLE", "ICEBERG", "v")
    assert [(field.name, field.type) for field in kept.sd.cols] == [("id", "bigint"), ("who", "string")]
    renamed = catalog.rename_table(name, f"{namespace}.bills")
    assert renamed.name() == (namespace, "bills")
    with pytest.raises(NoSuchTableError):
        catalog.load_table(name)
    with pytest.raises(NoSuchTableError):
        catalog.rename_table(name, f"{namespace}.others")
    with pytest.raises(NoSuchNamespaceError):
        catalog.rename_table(f"{namespace}.bills", "nowhere_at_all.bills")
    catalog.drop_table(f"{namespace}.bills")
    with pytest.raises(NoSuchTableError):
        catalog.drop_table(f"{namespace}.bills")
    registered = catalog.register_table(f"{namespace}.again", made.metadata_location)
    assert registered.schema() == made.schema()


def test_rows_are_appended_overwritten_deleted_and_read(catalog: HiveCatalog, namespace: str) -> None:
    table = catalog.create_table(f"{namespace}.orders", ORDERS)
    table.append(orders((1, "a"), (2, "b")))
    table.append(orders((3, "c")))
    assert rows(catalog.load_table(table.name())) == [(1, "a"), (2, "b"), (3, "c")]
    assert rows(table, row_filter="id > 1", selected_fields=("who",)) == [("b",), ("c",)]
    table.overwrite(orders((3, "cc")), overwrite_filter="id = 3")
    table.delete("id = 1")
    assert rows(catalog.load_table(table.name())) == [(2, "b"), (3, "cc")]
    table.upsert(orders((2, "bb"), (4, "d")), join_cols=["id"])
    assert rows(catalog.load_table(table.name())) == [(2, "bb"), (3, "cc"), (4, "d")]
    table.overwrite(orders((9, "z")))
    assert rows(catalog.load_table(table.name())) == [(9, "z")]


def test_schemas_specs_and_properties_change(catalog: HiveCatalog, namespace: str, hms: HMSClient) -> None:
    table = catalog.create_table(f"{namespace}.orders", ORDERS)
    table.append(orders((1, "a")))
    with table.update_schema() as change:
        change.add_column("note", StringType(), "said")
        change.rename_column("who", "customer")
    with table.update_spec() as spec:
        spec.add_field("customer", IdentityTransform())
    with table.transaction() as transaction:
        transaction.set_properties(k="v", gone="soon")
    with table.transaction() as transaction:
        transaction.remove_properties("gone")
    kept = hms.get_table(namespace, "orders")
    assert [field.name for field in kept.sd.cols] == ["id", "customer", "note"]
    assert kept.parameters["k"] == "v"
    assert "gone" not in kept.parameters
    assert kept.parameters["metadata_location"] == table.metadata_location
    found = catalog.load_table(table.name())
    assert rows(found) == [(1, "a", None)]
    assert [field.name for field in found.spec().fields] == ["customer"]


def test_a_commit_on_an_outdated_table_is_refused(catalog: HiveCatalog, namespace: str, hms: HMSClient) -> None:
    name = f"{namespace}.orders"
    table = catalog.create_table(name, ORDERS)
    outdated = catalog.load_table(name)
    with table.update_schema() as change:
        change.add_column("first", StringType())
    with pytest.raises(CommitFailedException), outdated.update_schema() as change:
        change.add_column("note", StringType())
    assert catalog.load_table(name).schema().column_names == ["id", "who", "first"]
    assert hms.show_locks(ShowLocksRequest(dbname=namespace)).locks == []


@pytest.mark.long
def test_concurrent_appends_of_two_processes_are_all_kept(
    catalog: HiveCatalog, namespace: str, metastore: MetastoreUnderTest, hms: HMSClient
) -> None:
    name = f"{namespace}.counted"
    table = catalog.create_table(name, ORDERS)
    running = [
        subprocess.Popen(
            [sys.executable, str(PROGRAM), metastore.uri, name, str(process), str(THREADS), str(COMMITS)],
            stderr=subprocess.PIPE,
            text=True,
        )
        for process in range(PROCESSES)
    ]
    try:
        said = [process.communicate(timeout=at_most(400))[1] for process in running]
    finally:
        for process in running:
            process.kill()
    assert [process.returncode for process in running] == [0] * PROCESSES, said
    expected = sorted(
        (commit, f"{process}/{thread}")
        for process in range(PROCESSES)
        for thread in range(THREADS)
        for commit in range(COMMITS)
    )
    found = catalog.load_table(table.name())
    assert rows(found) == expected
    assert len(found.snapshots()) == len(expected)
    assert hms.show_locks(ShowLocksRequest(dbname=namespace)).locks == []
