"""Hive catalog over a real server: registration of tables, changes that exclude each other, views of other clients."""

import json
import shutil
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import interbed
from interbed.catalog.client.errors import (
    CatalogError,
    DatabaseExistsError,
    LockError,
    NotAnInterbedTableError,
    TableExistsError,
    TableNotFoundError,
)
from interbed.catalog.client.hive.catalog import HiveCatalog
from interbed.catalog.client.hive.lock import HiveCatalogLock
from interbed.catalog.client.hive.registration import CURRENT_SNAPSHOT, same_location
from interbed.storage.base.errors import (
    CommitConflictError,
    CommitError,
    InvalidInputError,
    InvalidOptionError,
    NotSupportedError,
)
from interbed.storage.base.types.data_type import AtomicType, TypeRoot
from interbed.storage.meta.schema.change import AddColumn, RemoveOption, SetOption, UpdateComment
from tests.support.servers.metastore import table as hive_table
from tests.support.waits import at_most

SCHEMA = pa.schema(
    (
        pa.field("id", pa.int64(), metadata={"description": "the key"}),
        pa.field("name", pa.string()),
        pa.field("price", pa.decimal128(10, 2)),
        pa.field("at", pa.timestamp("us")),
        pa.field("seen", pa.timestamp("ms", tz="UTC")),
        pa.field("clock", pa.time32("ms")),
        pa.field("blob", pa.binary()),
        pa.field("tags", pa.map_(pa.string(), pa.list_(pa.int32()))),
        pa.field("place", pa.struct([("city", pa.string()), ("flat", pa.int8())])),
        pa.field("dt", pa.date32()),
    )
)
SMALL = pa.schema((("id", pa.int64()), ("name", pa.string())))
ROWS = pa.table({"id": [1, 2], "name": ["a", "b"]})


def create(catalog: HiveCatalog, name: str = "shop.t", **arguments: object) -> interbed.Table:
    return catalog.create_table(name, SMALL, primary_keys=["id"], options={"bucket": "1"}, **arguments)  # type: ignore[arg-type]


def ids(table: interbed.Table) -> list[int]:
    rows: Any = table.scan(columns=["id"]).to_arrow()
    return sorted(rows["id"].to_pylist())


# -- registration ------------------------------------------------------------------------------------------------------


def test_a_table_is_registered_as_paimon_does(catalog: HiveCatalog, tmp_path: Path) -> None:
    catalog.create_table(
        "shop.t", SCHEMA, primary_keys=["dt", "id"], partition_keys=["dt"], options={"bucket": "4"}, comment="orders"
    )
    entry = catalog.client.get_table("shop", "t")
    assert (entry.dbName, entry.tableName, entry.tableType) == ("shop", "t", "MANAGED_TABLE")
    ddl_time = entry.parameters.pop("transient_lastDdlTime")
    assert int(ddl_time) > 0
    assert entry.parameters == {
        "table_type": "PAIMON",
        "storage_handler": "org.apache.paimon.hive.PaimonStorageHandler",
        "comment": "orders",
        "bucket": "4",
        "primary-key": "dt,id",
        "partition": "dt",
        "bucket-key": "id",
    }
    assert entry.partitionKeys == []
    sd = entry.sd
    assert sd.location == f"file:{tmp_path}/lake/shop.db/t"
    assert sd.inputFormat == "org.apache.paimon.hive.mapred.PaimonInputFormat"
    assert sd.outputFormat == "org.apache.paimon.hive.mapred.PaimonOutputFormat"
    assert sd.serdeInfo.serializationLib == "org.apache.paimon.hive.PaimonSerDe"
    assert not sd.serdeInfo.parameters
    assert (sd.compressed, sd.numBuckets) == (False, 0)
    assert [(c.name, c.type, c.comment) for c in sd.cols] == [
        ("id", "bigint", "the key"),
        ("name", "string", None),
        ("price", "decimal(10,2)", None),
        ("at", "timestamp", None),
        ("seen", "timestamp with local time zone", None),
        ("clock", "string", None),
        ("blob", "binary", None),
        ("tags", "map<string,array<int>>", None),
        ("place", "struct<city:string,flat:tinyint>", None),
        ("dt", "date", None),
    ]


def test_an_altered_table_is_altered_in_the_metastore(catalog: HiveCatalog) -> None:
    create(catalog).upsert(ROWS)
    catalog.alter_table("shop.t", [SetOption("write-buffer-size", "8 mb"), UpdateComment("new")])
    catalog.alter_table(
        "shop.t", [RemoveOption("write-buffer-size"), AddColumn("more", AtomicType(TypeRoot.INT, nullable=True))]
    )
    entry = catalog.client.get_table("shop", "t")
    assert "write-buffer-size" not in entry.parameters
    assert entry.parameters["comment"] == "new"
    assert entry.parameters["bucket"] == "1"
    assert entry.parameters[CURRENT_SNAPSHOT] == "1"
    assert [(c.name, c.type) for c in entry.sd.cols] == [("id", "bigint"), ("name", "string"), ("more", "int")]


def test_columns_that_differ_in_case_only_are_refused_before_anything_is_created(catalog: HiveCatalog) -> None:
    with pytest.raises(InvalidInputError, match=r"'id'.*'ID'"):
        catalog.create_table("shop.t", pa.schema([("id", pa.int32()), ("ID", pa.int32())]))
    assert catalog.list_tables("shop") == []
    create(catalog)
    with pytest.raises(InvalidInputError, match=r"'name'.*'Name'"):
        catalog.alter_table("shop.t", AddColumn("Name", AtomicType(TypeRoot.INT)))
    assert catalog.get_table("shop.t").schema.id == 0


def test_a_table_that_the_metastore_refuses_leaves_no_files(catalog: HiveCatalog, tmp_path: Path) -> None:
    with pytest.raises(CatalogError, match="a-b c"):
        catalog.create_table("shop.a-b c", SMALL)
    assert list((tmp_path / "lake" / "shop.db").iterdir()) == []
    # A directory that existed before keeps its files.
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "letter.txt").write_text("dear")
    with pytest.raises(CatalogError, match="a-b c"):
        catalog.create_table("shop.a-b c", SMALL, options={"path": str(mine)})
    assert [p.name for p in mine.iterdir()] == ["letter.txt"]


def test_a_database_that_the_metastore_refuses_leaves_no_directory(catalog: HiveCatalog, tmp_path: Path) -> None:
    with pytest.raises(CatalogError, match="a b"):
        catalog.create_database("a b")
    assert [p.name for p in (tmp_path / "lake").iterdir()] == ["shop.db"]


def test_a_database_keeps_comment_owner_properties_and_location(catalog: HiveCatalog, tmp_path: Path) -> None:
    location = f"file:{tmp_path}/elsewhere"
    catalog.create_database("d", properties={"comment": "c", "owner": "anna", "a": "1", "location": location})
    database = catalog.get_database("d")
    assert (database.location, database.comment) == (location, "c")
    assert dict(database.properties) == {"a": "1", "owner": "anna"}
    catalog.alter_database("d", {"a": "2", "b": "3", "comment": "new"}, ["owner"])
    database = catalog.get_database("d")
    assert (database.comment, database.properties["a"], database.properties["b"]) == ("new", "2", "3")
    with pytest.raises(InvalidOptionError, match="location"):
        catalog.alter_database("d", {"location": "file:/x"})
    create(catalog, "d.t").upsert(ROWS)
    assert (tmp_path / "elsewhere" / "t" / "schema").is_dir()
    with pytest.raises(DatabaseExistsError, match="d"):
        catalog.create_database("d")


# -- the snapshot pointer ----------------------------------------------------------------------------------------------


def test_the_snapshot_pointer_follows_every_commit(catalog: HiveCatalog) -> None:
    table = create(catalog)
    assert CURRENT_SNAPSHOT not in catalog.client.get_table("shop", "t").parameters
    for number in range(1, 4):
        table.upsert(ROWS)
        assert catalog.client.get_table("shop", "t").parameters[CURRENT_SNAPSHOT] == str(number)
    assert catalog.client.show_locks() == []


def test_snapshots_of_writers_that_ignore_the_pointer_are_visible(catalog: HiveCatalog) -> None:
    table = create(catalog)
    table.upsert(ROWS)
    foreign = interbed.load_table(table.location)
    foreign.upsert(pa.table({"id": [3], "name": ["c"]}))
    (Path(table.location) / "snapshot" / "LATEST").unlink()
    assert catalog.client.get_table("shop", "t").parameters[CURRENT_SNAPSHOT] == "1"
    assert ids(catalog.get_table("shop.t")) == ids(table) == [1, 2, 3]
    # The next commit follows the foreign snapshot and updates the pointer.
    assert table.upsert(ROWS) == 3
    assert catalog.client.get_table("shop", "t").parameters[CURRENT_SNAPSHOT] == "3"


def test_a_rescaled_table_has_its_new_number_of_buckets_in_the_metastore(catalog: HiveCatalog) -> None:
    table = create(catalog)
    table.upsert(ROWS)
    table.maintenance.rescale(3)

    assert (catalog.client.get_table("shop", "t").parameters or {})["bucket"] == "3"
    again = catalog.get_table("shop.t")
    again.upsert(ROWS)
    assert {e.total_buckets for e in again.new_scan().entries()} == {3}
    assert ids(again) == [1, 2]


@pytest.mark.parametrize("pointer", ["999", "0", "-1", "x", ""])
def test_a_wrong_snapshot_pointer_is_ignored(catalog: HiveCatalog, pointer: str) -> None:
    table = create(catalog)
    table.upsert(ROWS)
    entry = catalog.client.get_table("shop", "t")
    entry.parameters[CURRENT_SNAPSHOT] = pointer
    catalog.client.alter_table("shop", "t", entry)
    opened = catalog.get_table("shop.t")
    assert ids(opened) == [1, 2]
    assert opened.upsert(pa.table({"id": [3], "name": ["c"]})) == 2
    assert ids(catalog.get_table("shop.t")) == [1, 2, 3]


def test_the_snapshot_pointer_is_never_decreased(catalog: HiveCatalog) -> None:
    table = create(catalog)
    table.upsert(ROWS)
    entry = catalog.client.get_table("shop", "t")
    entry.parameters[CURRENT_SNAPSHOT] = "7"
    catalog.client.alter_table("shop", "t", entry)
    table.upsert(ROWS)
    assert catalog.client.get_table("shop", "t").parameters[CURRENT_SNAPSHOT] == "7"


# -- locks -------------------------------------------------------------------------------------------------------------


def test_changes_wait_for_the_lock_and_report_its_holder(options: dict[str, str], catalog: HiveCatalog) -> None:
    create(catalog)
    with (
        interbed.CatalogFactory.create(options | {"lock-acquire-timeout": "100 ms"}) as hasty,
        HiveCatalogLock(catalog.client, "shop", "t"),
        HiveCatalogLock(catalog.client, "shop", "new"),
    ):
        table = hasty.get_table("shop.t")
        for call in (
            lambda: table.upsert(ROWS),
            lambda: hasty.drop_table("shop.t"),
            lambda: hasty.rename_table("shop.t", "shop.u"),
            lambda: hasty.alter_table("shop.t", SetOption("write-only", "true")),
            lambda: hasty.create_table("shop.new", SMALL),
        ):
            with pytest.raises(LockError, match=r"shop\.(t|new) within 0\.1 s: lock \d+ is held by"):
                call()
        assert len(catalog.client.show_locks()) == 2
    assert catalog.list_tables("shop") == ["t"]
    assert catalog.get_table("shop.t").snapshots() == []
    assert catalog.get_table("shop.t").schema.id == 0
    assert not list(Path(table.location).rglob("*.parquet"))


def test_nothing_waits_when_locks_are_disabled(options: dict[str, str], catalog: HiveCatalog) -> None:
    create(catalog)
    with (
        interbed.CatalogFactory.create(options | {"lock.enabled": "false"}) as free,
        HiveCatalogLock(catalog.client, "shop", "t"),
    ):
        free.get_table("shop.t").upsert(ROWS)
        free.alter_table("shop.t", SetOption("write-only", "true"))
    assert ids(catalog.get_table("shop.t")) == [1, 2]


@pytest.mark.long
def test_concurrent_alterations_and_commits_lose_nothing(options: dict[str, str], catalog: HiveCatalog) -> None:
    create(catalog)
    errors: list[BaseException] = []

    def guarded(work: object) -> None:
        try:
            assert callable(work)
            work()
        except BaseException as error:  # noqa: BLE001 - handed to the test.
            errors.append(error)

    def write() -> None:
        with interbed.CatalogFactory.create(options) as own:
            for number in range(8):
                own.get_table("shop.t").upsert(pa.table({"id": [100 + number]}))

    def alter() -> None:
        with interbed.CatalogFactory.create(options) as own:
            for number in range(8):
                own.alter_table("shop.t", AddColumn(f"c{number}", AtomicType(TypeRoot.INT)))

    threads = [threading.Thread(target=guarded, args=(work,)) for work in (write, alter)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=at_most(60))
    assert errors == []
    entry = catalog.client.get_table("shop", "t")
    assert [c.name for c in entry.sd.cols] == ["id", "name", *(f"c{n}" for n in range(8))]
    snapshots = catalog.get_table("shop.t").snapshots()
    assert len([each for each in snapshots if each.commit_kind == "APPEND"]) == 8
    assert entry.parameters[CURRENT_SNAPSHOT] == str(snapshots[-1].id)
    assert ids(catalog.get_table("shop.t")) == [100 + n for n in range(8)]


# -- tables that are dropped or renamed --------------------------------------------------------------------------------


def test_a_table_dropped_before_a_commit_stays_dropped(catalog: HiveCatalog) -> None:
    table = create(catalog)
    write = table.new_write("late")
    write.write_arrow(ROWS)
    messages = write.prepare_commit()
    catalog.drop_table("shop.t")
    with pytest.raises(CommitError, match="dropped"):
        table.new_commit("late").commit(messages)
    assert not [p for p in Path(table.location).rglob("*") if p.is_file()]
    again = create(catalog)
    with pytest.raises(CommitError, match="dropped"):
        table.new_commit("late").commit(messages)
    assert again.snapshots() == []


def test_a_table_whose_entry_was_dropped_takes_no_more_commits(catalog: HiveCatalog) -> None:
    table = create(catalog)
    table.upsert(ROWS)
    catalog.client.drop_table("shop", "t", delete_data=False)
    with pytest.raises(CommitConflictError, match=r"shop\.t.*dropped or renamed"):
        table.upsert(ROWS)
    assert [s.id for s in table.snapshots()] == [1]


def test_a_renamed_table_takes_no_commits_under_its_old_name(catalog: HiveCatalog) -> None:
    table = create(catalog)
    table.upsert(ROWS)
    catalog.create_database("other")
    catalog.rename_table("shop.t", "other.u")
    with pytest.raises(CommitError, match="dropped"):
        table.upsert(ROWS)
    renamed = catalog.get_table("other.u")
    assert same_location(catalog.client.get_table("other", "u").sd.location, renamed.location)
    assert renamed.location.endswith("/other.db/u")
    assert ids(renamed) == [1, 2]
    assert renamed.upsert(ROWS) == 2
    # A new table under the old name is another table.
    create(catalog)
    with pytest.raises(CommitError, match="dropped"):
        table.upsert(ROWS)
    assert ids(renamed) == [1, 2]


def test_a_table_is_not_renamed_onto_a_directory_that_is_in_use(catalog: HiveCatalog, tmp_path: Path) -> None:
    create(catalog).upsert(ROWS)
    occupied = tmp_path / "lake" / "shop.db" / "u"
    occupied.mkdir()
    (occupied / "letter.txt").write_text("dear")
    with pytest.raises(CatalogError, match="u"):
        catalog.rename_table("shop.t", "shop.u")
    assert catalog.list_tables("shop") == ["t"]
    assert ids(catalog.get_table("shop.t")) == [1, 2]
    assert [p.name for p in occupied.iterdir()] == ["letter.txt"]


def test_an_entry_without_files_is_reported(catalog: HiveCatalog) -> None:
    table = create(catalog)
    shutil.rmtree(table.location)
    with pytest.raises(TableNotFoundError, match=r"shop\.t.*no schema"):
        catalog.get_table("shop.t")
    # The entry can be dropped nevertheless.
    catalog.drop_table("shop.t")
    assert catalog.list_tables("shop") == []


# -- external tables ---------------------------------------------------------------------------------------------------


def test_an_external_table_keeps_its_files_when_dropped(catalog: HiveCatalog, tmp_path: Path) -> None:
    path = tmp_path / "elsewhere" / "t"
    table = catalog.create_table("shop.t", SMALL, primary_keys=["id"], options={"bucket": "1", "path": str(path)})
    entry = catalog.client.get_table("shop", "t")
    assert (entry.tableType, entry.parameters["EXTERNAL"]) == ("EXTERNAL_TABLE", "TRUE")
    assert entry.sd.location == f"file:{path}"
    assert "path" not in entry.parameters
    table.upsert(ROWS)
    catalog.rename_table("shop.t", "shop.u")
    assert catalog.get_table("shop.u").location == str(path)
    catalog.drop_table("shop.u")
    assert ids(interbed.load_table(str(path))) == [1, 2]
    # It can be registered again by its path, with its rows.
    again = catalog.create_table("shop.v", SMALL, primary_keys=["id"], options={"path": f"file:{path}"})
    assert ids(again) == [1, 2]
    assert again.schema.options["bucket"] == "1"


def test_an_external_table_is_not_registered_with_another_schema(catalog: HiveCatalog, tmp_path: Path) -> None:
    path = tmp_path / "elsewhere" / "t"
    catalog.create_table("shop.t", SMALL, primary_keys=["id"], options={"bucket": "1", "path": str(path)})
    before = (path / "schema" / "schema-0").read_bytes()
    other = pa.schema((("id", pa.int64()), ("colour", pa.string())))
    for schema, keys in ((other, ["id"]), (SMALL, None)):
        with pytest.raises(InvalidOptionError, match="id, name"):
            catalog.create_table("shop.u", schema, primary_keys=keys, options={"path": str(path)})
    assert catalog.list_tables("shop") == ["t"]
    assert (path / "schema" / "schema-0").read_bytes() == before


# -- foreign tables, and the format that other readers expect ----------------------------------------------------------


def test_foreign_tables_are_neither_read_nor_replaced(catalog: HiveCatalog) -> None:
    catalog.client.create_table(hive_table("shop", "foreign"))
    create(catalog, "shop.ours")
    assert catalog.list_tables("shop") == ["ours"]
    with pytest.raises(NotAnInterbedTableError, match=r"shop\.foreign.*org\.example\.Input"):
        catalog.get_table("shop.foreign")
    with pytest.raises(TableExistsError, match=r"shop\.foreign"):
        catalog.create_table("shop.foreign", SMALL, ignore_if_exists=False)
    with pytest.raises(TableExistsError, match=r"shop\.foreign"):
        catalog.rename_table("shop.ours", "shop.foreign")
    assert catalog.client.get_all_tables("shop") == ["foreign", "ours"]


def test_snapshot_files_have_the_format_that_other_readers_expect(catalog: HiveCatalog) -> None:
    table = create(catalog)
    table.upsert(ROWS)
    root = Path(table.location)
    assert json.loads((root / "snapshot" / "snapshot-1").read_text())["version"] == 3
    assert (root / "snapshot" / "LATEST").read_text() == "1"


def test_long_column_comments_are_cut_to_the_metastores_limit(catalog: HiveCatalog) -> None:
    long = "x" * 300
    catalog.create_table("shop.t", pa.schema([pa.field("id", pa.int64(), metadata={"description": f"a\n{long}"})]))
    [column] = catalog.client.get_table("shop", "t").sd.cols
    assert len(column.comment) == 255
    assert column.comment.startswith("a x")
    assert column.comment.endswith("...")
    assert catalog.get_table("shop.t").fields[0].description == f"a\n{long}"


def test_a_write_to_a_branch_that_adds_columns_leaves_the_table_as_it_is(catalog: HiveCatalog) -> None:
    create(catalog).upsert(ROWS)
    catalog.create_branch("shop.t", "b")
    branch = catalog.get_table("shop.t$branch_b")
    branch.upsert(ROWS.append_column("extra", pa.array([1, 2])), merge_schema=True)
    assert branch.schema.names == ("id", "name", "extra")
    table = catalog.get_table("shop.t")
    assert table.schema.names == ("id", "name")
    assert [column.name for column in catalog.client.get_table("shop", "t").sd.cols] == ["id", "name"]
    assert ids(branch) == [1, 2]


def test_functions_are_refused_by_name(catalog: HiveCatalog) -> None:
    for call in (
        lambda: catalog.list_functions("shop"),
        lambda: catalog.get_function("shop.f"),
        lambda: catalog.drop_function("shop.f", ignore_if_not_exists=True),
    ):
        with pytest.raises(NotSupportedError, match="Hive catalog reads and changes no functions; use the REST"):
            call()
