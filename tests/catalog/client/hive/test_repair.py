"""Repair of a metastore: tables found in the warehouse are registered, and registered ones are updated."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner

import interbed
from interbed.catalog.client.errors import (
    DatabaseNotFoundError,
    NotAnInterbedTableError,
    TableExistsError,
    TableNotFoundError,
    UnregisteredTableError,
)
from interbed.catalog.client.hive.catalog import HiveCatalog
from interbed.catalog.client.hive.registration import CURRENT_SNAPSHOT
from interbed.catalog.client.recovery import RepairKind, RepairReport
from interbed.cli import main
from interbed.storage.base.errors import NotSupportedError
from interbed.storage.base.types.data_type import AtomicType, TypeRoot
from interbed.storage.meta.schema.change import AddColumn, SetOption, UpdateComment
from tests.support.servers.metastore import table as foreign_table

SCHEMA = pa.schema((("id", pa.int64()), ("dt", pa.string())))
ROWS = pa.table({"id": [1, 2], "dt": ["x", "y"]})


@pytest.fixture
def lake(tmp_path: Path) -> interbed.Catalog:
    """Open the warehouse of the Hive catalog as a file-system catalog, whose tables the metastore does not know."""
    return interbed.CatalogFactory.create({"warehouse": f"file:{tmp_path}/lake"})


def create(catalog: interbed.Catalog, name: str = "shop.t", **options: object) -> interbed.Table:
    return catalog.create_table(
        name,
        SCHEMA,
        primary_keys=["dt", "id"],
        partition_keys=["dt"],
        options={"bucket": "1", **options},
        comment="orders",
    )


def done(report: RepairReport) -> list[tuple[str, str]]:
    return [(str(a.kind), a.name) for a in report.actions]


def test_unknown_databases_and_tables_are_registered(
    catalog: HiveCatalog, lake: interbed.Catalog, tmp_path: Path
) -> None:
    lake.create_database("found")
    create(lake, "found.a", **{"metastore.partitioned-table": "true"}).upsert(ROWS)
    create(lake, "found.b").upsert(ROWS)
    create(lake, "shop.c")
    (tmp_path / "lake" / "found.db" / "no-table").mkdir()
    (tmp_path / "lake" / "no-database").mkdir()
    expected = [
        ("create database", "found"),
        ("create table", "found.a"),
        ("add partitions", "found.a"),
        ("create table", "found.b"),
        ("create table", "shop.c"),
    ]
    plan = catalog.repair_catalog(dry_run=True)
    assert (plan.dry_run, plan.tables, done(plan)) == (True, 3, expected)
    assert catalog.list_databases() == ["default", "shop"]
    report = catalog.repair_catalog()
    assert (report.dry_run, report.tables, done(report)) == (False, 3, expected)
    assert report.actions[2].detail == "dt=x, dt=y"
    assert catalog.list_tables("found") == ["a", "b"]
    assert catalog.get_table("found.a").scan().count() == 2
    assert catalog.client.get_partition_names("found", "a") == ["dt=x", "dt=y"]
    # A repaired entry is the same as that of a created table.
    entry, made = catalog.client.get_table("found", "b"), create(catalog, "shop.b")
    other = catalog.client.get_table(*made.name.split("."))
    ours = {"owner", "retention", "tableType", "partitionKeys"}
    assert {f: getattr(entry, f) for f in ours} == {f: getattr(other, f) for f in ours}
    assert entry.sd.cols == other.sd.cols
    for each in (entry, other):
        del each.parameters["transient_lastDdlTime"]
    assert entry.parameters == other.parameters
    # Commits continue from there.
    assert catalog.get_table("found.b").upsert(ROWS) == 2
    again = catalog.repair_catalog()
    assert (again.tables, done(again)) == (4, [])
    assert str(again) == "looked at 4 tables; nothing to repair"


def test_a_repair_registers_a_changed_schema_and_new_partitions(catalog: HiveCatalog, lake: interbed.Catalog) -> None:
    create(catalog, **{"metastore.partitioned-table": "true"}).upsert(ROWS)
    lake.alter_table(
        "shop.t",
        [AddColumn("more", AtomicType(TypeRoot.INT)), SetOption("write-only", "true"), UpdateComment("new")],
    )
    lake.get_table("shop.t").upsert(pa.table({"id": [3], "dt": ["z"]}))
    report = catalog.repair_table("shop.t", dry_run=True)
    assert done(report) == [("alter table", "shop.t"), ("alter table", "shop.t"), ("add partitions", "shop.t")]
    assert [a.detail for a in report.actions] == [
        "columns, property write-only, comment",
        "pointer to snapshot 2 instead of 1",
        "dt=z",
    ]
    assert catalog.repair_table("shop.t").actions == report.actions
    entry = catalog.client.get_table("shop", "t")
    assert [c.name for c in entry.sd.cols] == ["id", "more"]
    assert (entry.parameters["write-only"], entry.parameters["comment"]) == ("true", "new")
    assert entry.parameters[CURRENT_SNAPSHOT] == "2"
    assert catalog.client.get_partition_names("shop", "t") == ["dt=x", "dt=y", "dt=z"]
    assert done(catalog.repair_table("shop.t")) == []


def test_a_pointer_beyond_the_newest_snapshot_is_set_back(catalog: HiveCatalog) -> None:
    create(catalog).upsert(ROWS)
    entry = catalog.client.get_table("shop", "t")
    entry.parameters[CURRENT_SNAPSHOT] = "99"
    catalog.client.alter_table("shop", "t", entry)
    assert [a.detail for a in catalog.repair_database("shop").actions] == ["pointer to snapshot 1 instead of 99"]
    assert catalog.client.get_table("shop", "t").parameters[CURRENT_SNAPSHOT] == "1"


def test_a_table_that_fails_does_not_stop_the_repair_of_others(
    catalog: HiveCatalog, lake: interbed.Catalog, tmp_path: Path
) -> None:
    create(lake, "shop.a")
    create(lake, "shop.b")
    create(lake, "shop.c")
    (tmp_path / "lake" / "shop.db" / "b" / "schema" / "schema-0").write_text("{")
    catalog.client.create_table(foreign_table("shop", "a"))
    report = catalog.repair_catalog()
    assert done(report) == [("failed", "shop.a"), ("failed", "shop.b"), ("create table", "shop.c")]
    assert [a.name for a in report.failures] == ["shop.a", "shop.b"]
    with pytest.raises(NotAnInterbedTableError, match=r"shop\.a"):
        catalog.repair_table("shop.a")


def test_partition_keys_that_differ_are_reported(catalog: HiveCatalog, lake: interbed.Catalog) -> None:
    create(catalog)
    lake.alter_table("shop.t", SetOption("metastore.partitioned-table", "true"))
    [keys, options] = catalog.repair_table("shop.t").actions
    assert (keys.kind, options.kind) == (RepairKind.FAILED, RepairKind.ALTER_TABLE)
    assert "(dt)" in keys.detail
    # The correction that the message proposes works.
    catalog.client.drop_table("shop", "t", delete_data=False)
    assert done(catalog.repair_table("shop.t")) == [("create table", "shop.t")]
    assert [k.name for k in catalog.client.get_table("shop", "t").partitionKeys] == ["dt"]


def test_external_tables_are_repaired_at_their_location(catalog: HiveCatalog, tmp_path: Path) -> None:
    path = tmp_path / "elsewhere"
    catalog.create_table("shop.t", SCHEMA, options={"path": str(path)})
    interbed.load_table(str(path)).store.schemas.change([SetOption("write-only", "true")])
    assert done(catalog.repair_table("shop.t")) == [("alter table", "shop.t")]
    entry = catalog.client.get_table("shop", "t")
    assert (entry.tableType, entry.sd.location) == ("EXTERNAL_TABLE", f"file:{path}")


def test_tables_are_registered_as_external_if_their_options_say_so(
    catalog: HiveCatalog, lake: interbed.Catalog
) -> None:
    create(lake, external="true")
    catalog.repair_table("shop.t")
    assert catalog.client.get_table("shop", "t").tableType == "EXTERNAL_TABLE"


def test_missing_objects_are_reported(catalog: HiveCatalog, tmp_path: Path) -> None:
    with pytest.raises(TableNotFoundError, match=r"shop\.nope"):
        catalog.repair_table("shop.nope")
    with pytest.raises(DatabaseNotFoundError, match="nope"):
        catalog.repair_database("nope")
    # The location of this database does not follow from its name.
    catalog.create_database("moved", properties={"location": f"file:{tmp_path}/elsewhere"})
    (tmp_path / "lake" / "moved.db" / "t").mkdir(parents=True)
    [action] = catalog.repair_database("moved").actions
    assert (action.kind, action.name) == (RepairKind.FAILED, "moved")
    assert "elsewhere" in action.detail


def test_a_file_system_catalog_has_nothing_to_repair(lake: interbed.Catalog) -> None:
    calls: list[Callable[[], object]] = [
        lambda: lake.repair_catalog(),
        lambda: lake.repair_database("shop"),
        lambda: lake.repair_table("shop.t"),
    ]
    for call in calls:
        with pytest.raises(NotSupportedError, match="nothing to repair"):
            call()


def test_the_repair_command_repairs(catalog: HiveCatalog, lake: interbed.Catalog, options: dict[str, str]) -> None:
    create(lake)
    base = ["catalog", *(part for k, v in options.items() for part in ("-o", f"{k}={v}")), "repair"]
    result = CliRunner().invoke(main, [*base, "--dry-run"])
    assert (result.exit_code, result.output.splitlines()[1:]) == (0, ["looked at 1 table; nothing was changed"])
    assert "create table     shop.t" in result.output
    repaired = CliRunner().invoke(main, [*base, "shop.t", "--json"])
    assert repaired.exit_code == 0
    assert [a["kind"] for a in json.loads(repaired.output)["actions"]] == ["create table"]
    assert catalog.list_tables("shop") == ["t"]
    assert CliRunner().invoke(main, [*base, "shop"]).output == "looked at 1 table; nothing to repair\n"
    missing = CliRunner().invoke(main, [*base, "shop.nope"])
    assert missing.exit_code == 1
    assert "shop.nope" in missing.output
    # Failed repairs set the exit code.
    lake.alter_table("shop.t", SetOption("metastore.partitioned-table", "true"))
    failed = CliRunner().invoke(main, base)
    assert failed.exit_code == 1
    assert "failed" in failed.output


def test_unfinished_operations_of_killed_processes_are_reported_and_completed(
    catalog: HiveCatalog, tmp_path: Path
) -> None:
    shop = tmp_path / "lake" / "shop.db"
    for name in ("dropped", "written", "unfinished", "empty"):
        create(catalog, f"shop.{name}").upsert(ROWS)
        catalog.client.drop_table("shop", name, delete_data=False)
    for name, change, snapshot in (("dropped", "drop", 1), ("written", "drop", 0), ("unfinished", "create", None)):
        mark = {"change": change, "table": f"shop.{name}", "snapshot": snapshot}
        (shop / name / ".metastore-change").write_text(json.dumps(mark))
    shutil.rmtree(shop / "empty" / "snapshot")
    (shop / "empty" / ".metastore-change").write_text(json.dumps({"change": "create", "table": "shop.empty"}))
    (shop / ".dropped" / "some").mkdir(parents=True)
    dry = catalog.repair_database("shop", dry_run=True)
    assert (shop / "dropped" / "schema").exists()
    expected = [
        ("drop table", "shop.dropped"),
        ("unfinished", "shop.empty"),
        ("create table", "shop.unfinished"),
        # The table has rows that its drop did not know of.
        ("create table", "shop.written"),
    ]
    assert done(dry) == expected
    assert done(catalog.repair_database("shop")) == expected
    assert sorted(p.name for p in shop.iterdir()) == ["empty", "unfinished", "written"]
    assert catalog.list_tables("shop") == ["unfinished", "written"]
    create(catalog, "shop.empty").upsert(ROWS)
    assert done(catalog.repair_database("shop")) == []
    assert not list(shop.glob("*/.metastore-change"))


def test_rows_of_a_killed_creation_are_set_aside_and_reported(catalog: HiveCatalog, tmp_path: Path) -> None:
    shop = tmp_path / "lake" / "shop.db"
    create(catalog).upsert(ROWS)
    catalog.client.drop_table("shop", "t", delete_data=False)
    (shop / "t" / ".metastore-change").write_text(json.dumps({"change": "create", "table": "shop.t"}))
    assert create(catalog).snapshots() == []
    [action] = catalog.repair_database("shop").actions
    assert action.kind is RepairKind.UNFINISHED
    [aside] = (shop / ".unfinished").iterdir()
    assert str(aside) in action.detail
    assert interbed.load_table(str(aside)).scan().count() == 2


def test_a_drop_mark_of_another_table_keeps_the_table(catalog: HiveCatalog, tmp_path: Path) -> None:
    mark = tmp_path / "lake" / "shop.db" / "t" / ".metastore-change"
    create(catalog).upsert(ROWS)
    for content in ("", "{", "[]", '{"change": "other", "table": "shop.t"}', '{"change": "drop", "table": "shop.u"}'):
        mark.write_text(content)
        catalog.client.drop_table("shop", "t", delete_data=False)
        with pytest.raises(TableExistsError, match="does not know"):
            create(catalog)
        with pytest.raises(UnregisteredTableError, match="interbed catalog repair"):
            catalog.get_table("shop.t")
        assert not catalog.table_exists("shop.t")
        assert done(catalog.repair_table("shop.t")) == [("create table", "shop.t")]
        assert catalog.get_table("shop.t").scan().count() == 2
