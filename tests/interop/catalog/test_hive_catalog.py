"""Java Paimon's and interbed's Hive catalogs over one metastore. Each lists, reads, changes and drops what the other
created, their entries are equal field by field, and both write one table concurrently.
"""

import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import interbed
from interbed.catalog.client.hive.catalog import HiveCatalog
from interbed.catalog.client.hive.registration import CURRENT_SNAPSHOT
from interbed.storage.base.types.data_type import AtomicType, TypeRoot
from interbed.storage.meta.schema.change import (
    AddColumn,
    DropColumn,
    RemoveOption,
    RenameColumn,
    SetOption,
    UpdateColumnComment,
    UpdateColumnType,
    UpdateComment,
)
from tests.catalog.writer_process import SHARED_KEYS, own_key
from tests.support.peers.java_hive import JavaHiveCatalog
from tests.support.servers.metastore import metastore
from tests.support.shares import LONG
from tests.support.waits import at_most
from tests.support.writers import check_every_snapshot, create_orders, finished, keys_of, own_keys, writers

WRITERS_EACH = 4
COMMITS_EACH = 15 if LONG else 6

COLUMNS: list[tuple[str, str] | tuple[str, str, str]] = [
    ("id", "BIGINT", "the key"),
    ("name", "STRING"),
    ("number", "INT"),
    ("dt", "STRING", "the day"),
]
FIELDS: list["pa.Field[Any]"] = [
    pa.field("id", pa.int64(), metadata={"description": "the key"}),
    pa.field("name", pa.string()),
    pa.field("number", pa.int32()),
    pa.field("dt", pa.string(), metadata={"description": "the day"}),
]
SCHEMA = pa.schema(FIELDS)
KEYS: dict[str, Any] = {"primary_keys": ["dt", "id"], "partition_keys": ["dt"]}
OPTIONS = {"bucket": "2", "write-buffer-size": "8 mb"}
REGISTERED = {"metastore.partitioned-table": "true"}
ROWS: list[list[Any]] = [[1, "a", 10, "x"], [2, None, 20, "y/ z"]]


@pytest.fixture(scope="module")
def options(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Options for both catalogs: a metastore and a warehouse that the module shares."""
    warehouse = tmp_path_factory.mktemp("lake")
    with metastore(warehouse=f"file:{tmp_path_factory.mktemp('unused')}") as uri:
        yield {
            "metastore": "hive",
            "uri": uri,
            "warehouse": f"file:{warehouse}",
            "lock.enabled": "true",
            "lock-check-max-sleep": "20 ms",
            "cache-enabled": "false",
        }


@pytest.fixture(scope="module")
def java(options: dict[str, str]) -> Iterator[JavaHiveCatalog]:
    """A JVM with Java Paimon's catalog."""
    with JavaHiveCatalog(options) as peer:
        yield peer


@pytest.fixture
def ours(options: dict[str, str]) -> Iterator[HiveCatalog]:
    """interbed's catalog with the database `shop`, which is dropped afterwards."""
    with interbed.CatalogFactory.create(options) as opened:
        assert isinstance(opened, HiveCatalog)
        opened.create_database("shop")
        yield opened
        assert opened.client.show_locks() == []
        for name in opened.list_databases():
            if name != "default":
                opened.drop_database(name, cascade=True)
        # The files of external tables are kept, and so is their directory.
        shutil.rmtree(Path(options["warehouse"].removeprefix("file:"), "shop.db"), ignore_errors=True)


def create(catalog: HiveCatalog, name: str, **more: str) -> interbed.Table:
    return catalog.create_table(name, SCHEMA, **KEYS, options={**OPTIONS, **more}, comment="orders")


def create_java(java: JavaHiveCatalog, name: str, **more: str) -> None:
    java.create_table(name, COLUMNS, **KEYS, options={**OPTIONS, **more}, comment="orders")


def rows(table: interbed.Table) -> list[list[Any]]:
    return sorted(([*row.values()] for row in table.scan().to_arrow().to_pylist()), key=repr)


def arrow(values: list[list[Any]]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in values], schema=SCHEMA)


def plain(structure: Any, *, name: str) -> Any:
    """Convert a Thrift structure to dictionaries, without times, and without the table's name in locations."""
    if hasattr(structure, "thrift_spec"):
        spec = [field for field in structure.thrift_spec if field is not None]
        fields = {field[2]: plain(getattr(structure, field[2]), name=name) for field in spec}
        return {k: v for k, v in fields.items() if k not in ("createTime", "lastAccessTime", "tableName", "id")}
    if isinstance(structure, list):
        return [plain(each, name=name) for each in structure]
    if isinstance(structure, dict):
        times = ("transient_lastDdlTime", "lastUpdateTime")
        return {k: plain(v, name=name) for k, v in structure.items() if k not in times}
    return structure.replace(f".db/{name}", ".db/<table>") if isinstance(structure, str) else structure


def differences(left: Any, right: Any, path: str = "") -> list[str]:
    """Return the paths at which two such dictionaries differ."""
    if isinstance(left, dict) and isinstance(right, dict):
        found = []
        for key in sorted({*left, *right}):
            found += differences(left.get(key), right.get(key), f"{path}.{key}" if path else key)
        return found
    return [] if left == right else [f"{path}: {left!r} and {right!r}"]


def entry(catalog: HiveCatalog, name: str) -> Any:
    return plain(catalog.client.get_table("shop", name), name=name)


def partition_entries(catalog: HiveCatalog, name: str) -> list[Any]:
    names = sorted(catalog.client.get_partition_names("shop", name))
    found = catalog.client.get_partitions_by_names("shop", name, names)
    return [plain(each, name=name) for each in sorted(found, key=lambda p: p.values)]


# -- one catalog creates, the other uses -------------------------------------------------------------------------------


def test_interbed_uses_tables_that_java_created(java: JavaHiveCatalog, ours: HiveCatalog) -> None:
    java.create_database("theirs")
    assert java.databases() == ours.list_databases() == ["default", "shop", "theirs"]
    create_java(java, "shop.j")
    java.write("shop.j", ROWS)
    assert ours.list_tables("shop") == ["j"]
    table = ours.get_table("shop.j")
    assert (table.primary_keys, table.partition_keys, table.schema.comment) == (["dt", "id"], ["dt"], "orders")
    assert rows(table) == sorted(ROWS, key=repr)
    assert table.upsert(arrow([[1, "new", 11, "x"], [3, "c", 30, "x"]])) == 2
    expected = sorted([[1, "new", 11, "x"], ROWS[1], [3, "c", 30, "x"]], key=repr)
    assert java.read("shop.j") == rows(table) == expected
    ours.rename_table("shop.j", "theirs.k")
    assert java.tables("theirs") == ["k"]
    assert java.read("theirs.k") == expected
    ours.drop_table("theirs.k")
    assert java.tables("theirs") == []


def test_java_uses_tables_that_interbed_created(java: JavaHiveCatalog, ours: HiveCatalog) -> None:
    create(ours, "shop.i").upsert(arrow(ROWS))
    assert java.tables("shop") == ["i"]
    assert java.read("shop.i") == sorted(ROWS, key=repr)
    assert java.write("shop.i", [[3, "c", 30, "x"]]) == 2
    table = ours.get_table("shop.i")
    assert rows(table) == java.read("shop.i") == sorted([*ROWS, [3, "c", 30, "x"]], key=repr)
    # Java does not move the pointer to the newest snapshot; interbed's next commit does.
    assert ours.client.get_table("shop", "i").parameters[CURRENT_SNAPSHOT] == "1"
    assert table.upsert(arrow([[4, "d", 40, "x"]])) == 3
    assert ours.client.get_table("shop", "i").parameters[CURRENT_SNAPSHOT] == "3"
    java.rename_table("shop.i", "shop.m")
    assert rows(ours.get_table("shop.m")) == java.read("shop.m")
    assert ours.get_table("shop.m").upsert(arrow([[5, "e", 50, "x"]])) == 4
    java.drop_table("shop.m")
    assert ours.list_tables("shop") == []


def test_external_tables_are_external_in_both_catalogs(
    java: JavaHiveCatalog, ours: HiveCatalog, tmp_path: Path
) -> None:
    java.create_table("shop.j", COLUMNS, **KEYS, options={**OPTIONS, "path": f"file:{tmp_path}/j"})
    ours.create_table("shop.i", SCHEMA, **KEYS, options={**OPTIONS, "path": f"file:{tmp_path}/i"})
    for writer, name in ((java, "shop.i"), (java, "shop.j")):
        writer.write(name, ROWS)
    ours.drop_table("shop.j")
    java.drop_table("shop.i")
    for name in ("i", "j"):
        assert rows(interbed.load_table(f"{tmp_path}/{name}")) == sorted(ROWS, key=repr)


# -- entries -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("registered", [False, True])
@pytest.mark.parametrize("external", [False, True])
def test_the_entries_of_tables_are_equal(
    java: JavaHiveCatalog, ours: HiveCatalog, registered: bool, external: bool
) -> None:
    more = {**(REGISTERED if registered else {}), **({"external": "true"} if external else {})}
    create(ours, "shop.i", **more)
    create_java(java, "shop.j", **more)
    assert differences(entry(ours, "i"), entry(ours, "j")) == []


def test_the_entries_of_altered_tables_are_equal(java: JavaHiveCatalog, ours: HiveCatalog) -> None:
    create(ours, "shop.i", **REGISTERED)
    create_java(java, "shop.j", **REGISTERED)
    java.write("shop.i", ROWS)
    java.write("shop.j", ROWS)
    ours.alter_table(
        "shop.i",
        [
            AddColumn("more", AtomicType(TypeRoot.INT)),
            RenameColumn("name", "title"),
            UpdateColumnType("number", AtomicType(TypeRoot.BIGINT)),
            UpdateColumnComment("more", "what\nmore"),
            UpdateComment("changed"),
            SetOption("write-only", "true"),
            RemoveOption("write-buffer-size"),
        ],
    )
    java.alter(
        "shop.j",
        {"op": "add", "name": "more", "type": "INT"},
        {"op": "rename", "name": "name", "to": "title"},
        {"op": "retype", "name": "number", "type": "BIGINT"},
        # Java 1.2.0 keeps line breaks; newer versions and interbed replace them.
        {"op": "describe", "name": "more", "comment": "what more"},
        {"op": "comment", "comment": "changed"},
        {"op": "set_option", "key": "write-only", "value": "true"},
        {"op": "remove_option", "key": "write-buffer-size"},
    )
    assert differences(entry(ours, "i"), entry(ours, "j")) == []
    assert differences(partition_entries(ours, "i"), partition_entries(ours, "j")) == []
    ours.alter_table("shop.j", DropColumn("more"))
    java.alter("shop.i", {"op": "drop", "name": "more"})
    assert differences(entry(ours, "i"), entry(ours, "j")) == []
    assert [c["name"] for c in entry(ours, "i")["sd"]["cols"]] == ["id", "title", "number"]
    assert java.read("shop.i") == rows(ours.get_table("shop.i")) == sorted(ROWS, key=repr)


def test_the_entries_of_partitions_are_equal(java: JavaHiveCatalog, ours: HiveCatalog) -> None:
    values = [*ROWS, [3, "c", 30, "a=b%c"], [4, "d", 40, "ü"]]
    create(ours, "shop.i", **REGISTERED).upsert(arrow(values))
    create_java(java, "shop.j", **REGISTERED)
    java.write("shop.j", values)
    mine, theirs = partition_entries(ours, "i"), partition_entries(ours, "j")
    assert [p["values"] for p in mine] == [["a=b%c"], ["x"], ["y/ z"], ["ü"]]
    assert differences({str(p["values"]): p for p in mine}, {str(p["values"]): p for p in theirs}) == []
    # Each writes into the other's table, and registers its new partitions there.
    java.write("shop.i", [[5, "e", 50, "new"]])
    ours.get_table("shop.j").upsert(arrow([[5, "e", 50, "new"]]))
    assert differences(partition_entries(ours, "i"), partition_entries(ours, "j")) == []
    assert len(partition_entries(ours, "i")) == 5


@pytest.mark.long
def test_statistics_of_partitions_are_reported_and_recorded_alike(java: JavaHiveCatalog, ours: HiveCatalog) -> None:
    create_java(java, "shop.t", **REGISTERED)
    java.write("shop.t", ROWS)
    ours.get_table("shop.t").upsert(arrow([[7, "g", 70, "x"]]))
    theirs = java.report_partitions("shop.t")
    before = partition_entries(ours, "t")
    mine = ours.list_partitions("shop.t")
    keys = ("record_count", "file_size_in_bytes", "file_count", "last_file_creation_time", "done")
    assert [(dict(p.spec), *(getattr(p, k) for k in keys)) for p in mine] == [
        (p["spec"], *(p[k] for k in keys)) for p in theirs
    ]
    ours.alter_partitions("shop.t", mine)
    after = partition_entries(ours, "t")
    # Java records the number of buckets from version 1.3 on.
    for each in after:
        assert each["parameters"].pop("totalBuckets") == "2"
    assert differences(before, after) == []


@pytest.mark.long
def test_partitions_are_created_and_dropped_by_either_catalog(java: JavaHiveCatalog, ours: HiveCatalog) -> None:
    create(ours, "shop.t", **REGISTERED).upsert(arrow(ROWS))
    java.create_partitions("shop.t", [{"dt": "j"}, {"dt": "x"}])
    ours.create_partitions("shop.t", [{"dt": "i"}, {"dt": "j"}])
    assert sorted(ours.client.get_partition_names("shop", "t")) == ["dt=i", "dt=j", "dt=x", "dt=y%2F z"]
    java.drop_partitions("shop.t", [{"dt": "x"}, {"dt": "never"}])
    ours.drop_partitions("shop.t", [{"dt": "y/ z"}, {"dt": "never"}])
    assert sorted(ours.client.get_partition_names("shop", "t")) == ["dt=i", "dt=j"]
    assert java.read("shop.t") == rows(ours.get_table("shop.t")) == []


@pytest.mark.long
def test_repairs_have_the_same_effect(java: JavaHiveCatalog, ours: HiveCatalog, options: dict[str, str]) -> None:
    with interbed.CatalogFactory.create({"warehouse": options["warehouse"]}) as files:
        for name in ("i", "j"):
            table = files.create_table(f"shop.{name}", SCHEMA, **KEYS, options={**OPTIONS, **REGISTERED})
            table.upsert(arrow(ROWS))
    ours.repair_table("shop.i")
    java.repair(table="shop.j")
    mine, theirs = entry(ours, "i"), entry(ours, "j")
    # A repair by Java records the location twice, in its field and as a property; a creation does not.
    assert theirs["parameters"].pop("path") == theirs["sd"]["location"]
    assert differences(mine, theirs) == []
    assert differences(partition_entries(ours, "i"), partition_entries(ours, "j")) == []
    assert ours.repair_database("shop").actions == ()
    assert java.read("shop.i") == java.read("shop.j") == sorted(ROWS, key=repr)


# -- concurrent writes -------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_both_write_one_table_concurrently(java: JavaHiveCatalog, ours: HiveCatalog, options: dict[str, str]) -> None:
    ours.drop_database("shop")
    create_orders(ours)
    # Java's ten retries are too few for so many writers. Its writers also compact, and one compaction at a time can
    # succeed.
    ours.alter_table("shop.orders", [SetOption("commit.max-retries", "1000"), SetOption("write-only", "true")])
    table = ours.get_table("shop.orders")
    numbers = range(WRITERS_EACH)
    # Java's writers have the numbers from 10. Each commit has one row of its own and the rows common to all writers.
    work = [
        [[[key, w, n] for key in (own_key(w, n), *SHARED_KEYS)] for n in range(COMMITS_EACH)]
        for w in range(10, 10 + WRITERS_EACH)
    ]
    with writers(options, numbers, COMMITS_EACH) as running, ThreadPoolExecutor(1) as pool:
        future = pool.submit(java.write_at_once, "shop.orders", work)
        results = [finished(w) for w in running]
        theirs = future.result(timeout=at_most(240))
    assert "".join(errors for _, errors, _ in results) == ""
    assert [code for code, _, _ in results] == [0] * WRITERS_EACH
    committed = [commits for _, _, commits in results]

    # No row is lost.
    expected = set().union(*(keys_of(commits, w) for w, commits in enumerate(committed)))
    assert len(expected) == WRITERS_EACH * COMMITS_EACH
    expected |= {commit[0][0] for commits in work for commit in commits}
    assert own_keys(table) == sorted(expected)

    # Each commit made one snapshot, there are no others, and each includes all earlier ones.
    count = 2 * WRITERS_EACH * COMMITS_EACH
    snapshots = table.snapshots()
    assert [s.id for s in snapshots] == list(range(1, count + 1))
    mine = [snapshot_id for commits in committed for _, snapshot_id in commits]
    assert sorted([*mine, *(i for ids in theirs for i in ids)]) == list(range(1, count + 1))
    check_every_snapshot(table)

    # The pointer names interbed's last commit, the files the last of all, and no lock is left.
    pointer = int(ours.client.get_table("shop", "orders").parameters[CURRENT_SNAPSHOT])
    assert pointer == max(mine)
    assert ours.client.show_locks() == []
    assert ours.get_table("shop.orders").latest_snapshot() == snapshots[-1]
    reads = [row[0] for row in java.read("shop.orders")]
    assert sorted(reads) == [*SHARED_KEYS, *sorted(expected)]
