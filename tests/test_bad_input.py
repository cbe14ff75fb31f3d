"""Bad input gets an error that names the thing, and changes nothing."""

import json
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import interbed
from interbed.catalog.errors import (
    CatalogError,
    CatalogUnavailableError,
    NotAnInterbedTableError,
    TableExistsError,
    TableNotFoundError,
)
from interbed.catalog.hive.catalog import HiveCatalog
from interbed.storage.base.errors import (
    CommitError,
    CorruptFileError,
    FilterError,
    InterbedError,
    InvalidInputError,
    InvalidOptionError,
    NotSupportedError,
    SchemaMismatchError,
    SnapshotNotFoundError,
    StorageAccessError,
    UnsupportedVersionError,
)
from interbed.storage.base.fileio.faults import Fault, FaultAction, FaultyFileIO
from interbed.storage.base.types.data_type import AtomicType, TypeRoot
from interbed.storage.meta.schema.change import AddColumn, SetOption
from interbed.storage.table.opening import open_store
from interbed.testing import metastore
from tests.support.servers.metastore import table as hive_table

SCHEMA = pa.schema(
    (
        pa.field("id", pa.int64()),
        pa.field("small", pa.int8()),
        pa.field("name", pa.string()),
        pa.field("price", pa.decimal128(5, 2)),
        pa.field("due", pa.date32()),
        pa.field("flag", pa.bool_()),
    )
)
GOOD = pa.table({"id": [1, 2, 3], "name": ["a", "b", "c"], "small": [1, 2, 3]})


def files_of(location: str) -> dict[str, bytes]:
    """All files of a table with their content, but the one that writers take turns by."""
    root = Path(location)
    return {
        str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file() and p.name != ".commit-turn"
    }


@contextmanager
def unchanged(table: interbed.Table) -> Iterator[None]:
    """The block leaves the table's files as they are, to the byte."""
    before = files_of(table.location)
    yield
    assert files_of(table.location) == before


@pytest.fixture
def catalog(tmp_path: Path) -> interbed.Catalog:
    """A catalog with the database `shop`."""
    opened = interbed.load_catalog("lake", warehouse=f"file:{tmp_path}/lake")
    opened.create_database("shop")
    return opened


@pytest.fixture
def orders(catalog: interbed.Catalog) -> interbed.Table:
    """A primary-key table with two snapshots."""
    table = catalog.create_table("shop.orders", SCHEMA, primary_keys=["id"], options={"bucket": "2"})
    table.upsert(GOOD)
    table.upsert(GOOD.slice(0, 1))
    return table


# -- rows --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ({"id": [1, None]}, "'id'.*null"),
        ({"name": ["x"]}, "lacks the column 'id'"),
        ({"id": [1], "colour": ["red"]}, "unknown column 'colour'.*id, small, name"),
        ({"id": ["1"]}, "'id'.*int64.*string"),
        ({"id": [1.5]}, "'id'.*int64.*double"),
        ({"id": [1], "small": [128]}, "'small'.*int8.*128"),
        ({"id": [1], "small": [True]}, "'small'.*int8.*bool"),
        ({"id": [1], "name": [7]}, "'name'.*string.*int64"),
        ({"id": [1], "price": [Decimal("1234.56")]}, "'price'.*decimal128\\(5, 2\\)"),
        ({"id": [1], "price": [Decimal("1.234")]}, "'price'.*decimal128\\(5, 2\\)"),
        ({"id": [1], "price": ["1.20"]}, "'price'.*decimal128\\(5, 2\\).*string"),
        ({"id": [1], "due": ["2026-01-01"]}, "'due'.*date32.*string"),
        ({"id": [1], "due": [1]}, "'due'.*date32.*int64"),
        ({"id": [1], "flag": [1]}, "'flag'.*bool.*int64"),
        ({"id": [1], "name": [["nested"]]}, "'name'.*string.*list"),
    ],
)
def test_rows_that_do_not_fit_are_refused(orders: interbed.Table, rows: dict[str, Any], message: str) -> None:
    data = pa.table(rows)
    for write in (orders.upsert, orders.append, orders.overwrite):
        with unchanged(orders), pytest.raises(SchemaMismatchError, match=message):
            write(data)


def test_a_column_that_comes_twice_is_refused(orders: interbed.Table) -> None:
    data = pa.Table.from_arrays([pa.array([1]), pa.array(["x"]), pa.array(["y"])], names=["id", "name", "name"])
    with unchanged(orders), pytest.raises(SchemaMismatchError, match="'name' twice"):
        orders.upsert(data)


def test_the_rows_before_a_bad_batch_are_not_written_either(orders: interbed.Table) -> None:
    schema = pa.schema([("id", pa.int64())])
    batches = [pa.record_batch([pa.array(ids, pa.int64())], schema=schema) for ids in ([7, 8], [9, None])]
    with unchanged(orders), pytest.raises(SchemaMismatchError, match="'id'"):
        orders.upsert(pa.RecordBatchReader.from_batches(schema, iter(batches)))
    ids: Any = orders.scan().to_arrow()["id"]
    assert sorted(ids.to_pylist()) == [1, 2, 3]


@pytest.mark.parametrize("data", [{"id": [1]}, [1], None, "id", 7, object()])
def test_what_is_no_arrow_data_is_refused(orders: interbed.Table, data: Any) -> None:
    with unchanged(orders), pytest.raises(InvalidInputError, match=r"Rows for .* are Arrow data"):
        orders.upsert(data)


@pytest.mark.parametrize(
    ("kinds", "message"),
    [
        ([4], "0 to 3"),
        ([-1], "0 to 3"),
        (pa.array([2**64 - 1], pa.uint64()), "0 to 3"),
        ([None], "null"),
        (["I"], r"\+I, -U"),
        ([1.0], "double"),
    ],
)
def test_row_kinds_that_are_none_are_refused(orders: interbed.Table, kinds: Any, message: str) -> None:
    data = pa.table({"id": [1], "_row_kind": kinds})
    with unchanged(orders), pytest.raises(InvalidInputError, match=message):
        orders.write_changes(data)
    with unchanged(orders), pytest.raises(InvalidInputError, match="_row_kind"):
        orders.write_changes(pa.table({"id": [1]}))


def test_writing_with_another_number_of_buckets_needs_a_rescale(
    catalog: interbed.Catalog, orders: interbed.Table
) -> None:
    early = orders.new_write("early")
    early.write_arrow(GOOD)
    catalog.alter_table("shop.orders", SetOption("bucket", "4"))
    altered = catalog.get_table("shop.orders")
    with unchanged(orders), pytest.raises(InvalidInputError, match=r"'bucket' is 4.*2 buckets.*OVERWRITE"):
        altered.upsert(GOOD)
    assert altered.scan().count() == 3
    # Whoever wrote for the old number may still come before the rescale, but not after.
    messages = early.prepare_commit()
    altered.overwrite(GOOD.slice(0, 2))
    ids: Any = altered.scan().to_arrow()["id"]
    assert sorted(ids.to_pylist()) == [1, 2]
    snapshots = [s.id for s in altered.snapshots()]
    with pytest.raises(CommitError, match="bucket"):
        orders.new_commit("early").commit(messages)
    assert [s.id for s in altered.snapshots()] == snapshots
    altered.upsert(GOOD)
    assert altered.scan().count() == 3


# -- filters and reads -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "(?i)empty|filter"),
        ("id >", "id >"),
        ("id = 1 and", "and"),
        ("id = = 1", "="),
        ("(id = 1", "id = 1"),
        ("id = 'x", "'x"),
        ("1 = 1; drop table t", ";"),
        ("colour = 'red'", "colour"),
        ("id = 'one'", "id.*one|one.*id"),
        ("small = 1.5e", "1.5e"),
        ("name > 5", "name"),
        ("flag = 'perhaps'", "flag"),
        ("due = DATE '2026-13-01'", "2026-13-01"),
        ("due > TRUE", "due"),
        ("name", "name"),
        ("price = 'cheap'", "price|cheap"),
        ("id in ()", "\\(\\)|in"),
        ("id between 1", "between"),
    ],
)
def test_filters_that_do_not_parse_or_fit_are_named(orders: interbed.Table, text: str, message: str) -> None:
    calls: list[Callable[[], object]] = [
        lambda: orders.scan(filter=text).to_arrow(),
        lambda: orders.explain(filter=text),
        lambda: orders.delete(text),
    ]
    for call in calls:
        with unchanged(orders), pytest.raises(FilterError, match=message):
            call()


def test_predicates_over_unknown_columns_are_named(orders: interbed.Table) -> None:
    builder = orders.new_read_builder()
    with pytest.raises(FilterError, match="colour"):
        builder.new_predicate_builder().equal("colour", "red")
    with pytest.raises(FilterError, match="id"):
        builder.new_predicate_builder().equal("id", "red")
    with pytest.raises(InvalidInputError, match="colour"):
        builder.with_projection(["colour"])
    with pytest.raises(InvalidInputError, match="-1"):
        builder.with_limit(-1)
    with pytest.raises(InvalidInputError, match="2 of 2"):
        builder.new_scan().with_shard(2, 2)


def test_reads_of_what_is_not_there_are_named(orders: interbed.Table) -> None:
    with pytest.raises(InvalidInputError, match=r"'colour'.*id, small"):
        orders.scan(columns=["id", "colour"])
    with pytest.raises(InvalidInputError, match="-1"):
        orders.scan(limit=-1)
    for snapshot_id in (0, -1, 3, 2**40):
        for call in (orders.scan, orders.explain):
            with pytest.raises(SnapshotNotFoundError, match=f"snapshot {snapshot_id}.*1 to 2"):
                call(snapshot_id=snapshot_id)
    with pytest.raises(SnapshotNotFoundError, match=r"1000 ms.*1 to 2"):
        orders.copy({"scan.timestamp-millis": "1000"}).scan().to_arrow()
    with pytest.raises(InvalidOptionError, match=r"scan\.snapshot-id.*many"):
        orders.copy({"scan.snapshot-id": "many"}).scan().to_arrow()


def test_snapshots_of_a_table_without_any_are_named(catalog: interbed.Catalog) -> None:
    table = catalog.create_table("shop.empty", SCHEMA)
    assert table.scan().to_arrow().num_rows == 0
    assert table.snapshots() == []
    with pytest.raises(SnapshotNotFoundError, match=r"snapshot 1.*no snapshots"):
        table.scan(snapshot_id=1)


# -- files that are damaged --------------------------------------------------------------------------------------------


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def truncated(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


def garbled(path: Path) -> None:
    path.write_bytes(b"\x00\xff garbage " * 50)


def deleted(path: Path) -> None:
    path.unlink()


@pytest.mark.parametrize("damage", [emptied, truncated, garbled, deleted])
@pytest.mark.parametrize("kind", ["snapshot", "manifest list", "manifest", "data file", "schema"])
def test_a_damaged_file_is_named(
    catalog: interbed.Catalog, orders: interbed.Table, kind: str, damage: Callable[[Path], None]
) -> None:
    root = Path(orders.location)
    latest = orders.latest_snapshot()
    assert latest is not None
    victim = {
        "snapshot": root / "snapshot" / "snapshot-1",
        "manifest list": root / "manifest" / latest.base_manifest_list,
        "manifest": min(p for p in (root / "manifest").iterdir() if not p.name.startswith("manifest-list")),
        "data file": min(root.glob("bucket-*/*.parquet")),
        "schema": root / "schema" / "schema-0",
    }[kind]
    damage(victim)
    expected: type[Exception] | tuple[type[Exception], ...] = CorruptFileError
    if kind == "snapshot":
        expected = (CorruptFileError, SnapshotNotFoundError)
    name = "snapshot 1" if (kind, damage) == ("snapshot", deleted) else victim.name

    def read() -> None:
        table = catalog.get_table("shop.orders")
        table.scan(snapshot_id=1 if kind == "snapshot" else None).to_arrow()

    if (kind, damage) == ("data file", deleted):
        expected = StorageAccessError
    if (kind, damage) == ("schema", deleted):
        # A table without its only schema is no table.
        expected, name = TableNotFoundError, "shop.orders"
    with pytest.raises(expected, match=name):
        read()
    if kind != "snapshot":
        # What can't be read can't be rewritten either, and nothing is half-done.
        with unchanged(orders), pytest.raises(expected, match=name):
            catalog.get_table("shop.orders").compact(full=True)


def test_a_damaged_newest_snapshot_stops_writers_too(catalog: interbed.Catalog, orders: interbed.Table) -> None:
    truncated(Path(orders.location) / "snapshot" / "snapshot-2")
    table = catalog.get_table("shop.orders")
    calls: list[Callable[[], object]] = [
        lambda: table.scan().to_arrow(),
        lambda: table.upsert(GOOD),
        lambda: table.overwrite(GOOD),
        lambda: table.delete("id = 1"),
        lambda: table.compact(full=True),
    ]
    for call in calls:
        with unchanged(orders), pytest.raises(CorruptFileError, match="snapshot-2"):
            call()
    # The past is as it was.
    assert table.scan(snapshot_id=1).count() == 3


@pytest.mark.parametrize(
    ("member", "value", "error", "message"),
    [
        ("version", 99, UnsupportedVersionError, "snapshot-2.*99"),
        ("id", 7, CorruptFileError, "snapshot-2.*7"),
        ("baseManifestList", None, CorruptFileError, "snapshot-2"),
        ("commitKind", "MAGIC", CorruptFileError, "snapshot-2.*MAGIC"),
    ],
)
def test_a_snapshot_that_makes_no_sense_is_named(
    orders: interbed.Table, member: str, value: object, error: type[Exception], message: str
) -> None:
    path = Path(orders.location) / "snapshot" / "snapshot-2"
    path.write_text(json.dumps(json.loads(path.read_text()) | {member: value}))
    with pytest.raises(error, match=message):
        interbed.load_table(orders.location).scan().to_arrow()


@pytest.mark.parametrize(
    ("member", "value", "error", "message"),
    [
        ("version", 99, UnsupportedVersionError, "schema-0.*99"),
        ("fields", [{"id": 0, "name": "id", "type": "MAGIC"}], CorruptFileError, "schema-0.*MAGIC"),
        ("fields", 5, CorruptFileError, "schema-0"),
        ("id", 3, CorruptFileError, "schema-0"),
    ],
)
def test_a_schema_that_makes_no_sense_is_named(
    orders: interbed.Table, member: str, value: object, error: type[Exception], message: str
) -> None:
    path = Path(orders.location) / "schema" / "schema-0"
    path.write_text(json.dumps(json.loads(path.read_text()) | {member: value}))
    with pytest.raises(error, match=message):
        interbed.load_table(orders.location)


# -- stores that refuse ------------------------------------------------------------------------------------------------


def test_a_warehouse_that_can_not_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    catalog = interbed.load_catalog(warehouse=f"file:{tmp_path}/file/lake")
    with pytest.raises(StorageAccessError, match=f"{tmp_path}/file"):
        catalog.create_database("shop")
    with pytest.raises(InvalidInputError, match="magic"):
        interbed.load_catalog(warehouse="magic://bucket/lake")


@pytest.mark.parametrize(
    "fault",
    [
        "open_output:*/bucket-*",
        "open_output:*/manifest/manifest-*",
        "open_output:*/manifest/manifest-list-*",
        "create_exclusive:*/snapshot/*",
    ],
)
def test_a_store_that_refuses_in_the_middle_of_a_write_leaves_nothing(orders: interbed.Table, fault: str) -> None:
    operation, pattern = fault.split(":")
    for skip in (0, 1):
        if skip and operation == "create_exclusive":
            continue
        faulty = FaultyFileIO(
            orders.store.file_io,
            [Fault(operation=operation, pattern=pattern, action=FaultAction.FAIL_BEFORE, skip=skip)],
        )
        table = interbed.Table("shop.orders", open_store(orders.location, faulty))
        with unchanged(orders), pytest.raises(StorageAccessError, match=r"on purpose"):
            table.upsert(pa.table({"id": list(range(100))}))
        assert faulty.armed == []
    orders.upsert(GOOD)


def test_a_full_disk_is_an_error_that_leaves_nothing(orders: interbed.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> Any:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(pa, "OSFile", full)
        with unchanged(orders), pytest.raises(StorageAccessError, match=r"bucket-.*No space left"):
            orders.upsert(GOOD)
    with monkeypatch.context() as patch:
        patch.setattr("os.link", full)
        with unchanged(orders), pytest.raises(StorageAccessError, match=r"snapshot-3.*No space left"):
            orders.upsert(GOOD)
    orders.upsert(GOOD)


# -- tables that go away, and writers used wrongly ------------------------------------------------------------------


def test_a_table_dropped_under_a_writer_stays_dropped(catalog: interbed.Catalog, orders: interbed.Table) -> None:
    write = orders.new_write("late")
    write.write_arrow(GOOD)
    messages = write.prepare_commit()
    catalog.drop_table("shop.orders")
    with pytest.raises(CommitError, match="dropped"):
        orders.new_commit("late").commit(messages)
    with pytest.raises(InterbedError, match=r"dropped|no table"):
        orders.upsert(GOOD)
    assert files_of(orders.location) == {}
    assert catalog.list_tables("shop") == []
    # A new table of that name has nothing to do with the old one's writers.
    again = catalog.create_table("shop.orders", SCHEMA, primary_keys=["id"], options={"bucket": "2"})
    with unchanged(again), pytest.raises(CommitError, match="dropped"):
        orders.new_commit("late").commit(messages)
    with unchanged(again), pytest.raises(CommitError, match="dropped"):
        orders.upsert(GOOD)
    assert again.scan().to_arrow().num_rows == 0
    again.upsert(GOOD)
    assert again.scan().count() == 3


def test_a_table_dropped_under_a_reader_is_named(catalog: interbed.Catalog, orders: interbed.Table) -> None:
    query = orders.scan()
    assert query.plan.splits
    catalog.drop_table("shop.orders")
    with pytest.raises(InterbedError, match=r"\.parquet"):
        query.to_arrow()


def test_remains_of_a_table_are_no_start_for_another(catalog: interbed.Catalog, orders: interbed.Table) -> None:
    (Path(orders.location) / "schema" / "schema-0").unlink()
    with pytest.raises(TableExistsError, match=r"orders.* holds snapshot-2 of a table that was not dropped"):
        catalog.create_table("shop.orders", SCHEMA)
    assert not catalog.table_exists("shop.orders")


def test_a_closed_or_used_writer_takes_nothing_more(orders: interbed.Table) -> None:
    with unchanged(orders):
        write = orders.new_write("u")
        write.write_arrow(GOOD)
        write.close()
        write.close()
        for call in (lambda: write.write_arrow(GOOD), write.prepare_commit):
            with pytest.raises(InvalidInputError, match="closed"):
                call()
    builder = orders.new_batch_write_builder()
    batch, commit = builder.new_write(), builder.new_commit()
    batch.write_arrow(GOOD)
    messages = batch.prepare_commit()
    with pytest.raises(InvalidInputError, match="once"):
        batch.prepare_commit()
    commit.commit(messages)
    with unchanged(orders), pytest.raises(InvalidInputError, match="once"):
        commit.commit(messages)
    batch.close()
    assert [s.id for s in orders.snapshots()] == [1, 2, 3]


def test_a_writer_that_failed_takes_nothing_more(orders: interbed.Table) -> None:
    write = orders.new_write("u")
    with unchanged(orders):
        with pytest.raises(SchemaMismatchError, match="'id'"):
            write.write_arrow(pa.table({"id": [None]}, schema=pa.schema([("id", pa.int64())])))
        write.close()


def test_a_stream_writer_refuses_a_negative_identifier(orders: interbed.Table) -> None:
    write = orders.new_stream_write_builder().new_write()
    with unchanged(orders), pytest.raises(InvalidInputError, match="-1"):
        write.prepare_commit(-1)
    write.close()


# -- catalogs ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["", ".", "shop.", ".orders", "orders", "shop.a.b", "shop.a/b", "shop. a", "a\x00.b"])
def test_names_that_name_no_table_are_refused(catalog: interbed.Catalog, name: str) -> None:
    for call in (catalog.get_table, catalog.drop_table, lambda n: catalog.create_table(n, SCHEMA)):
        with pytest.raises(InvalidInputError, match="name"):
            call(name)
    assert catalog.list_tables("shop") == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bucket": "0"}, "bucket"),
        ({"bucket": "-7"}, "bucket"),
        ({"bucket": "two"}, "bucket.*two"),
        ({"write-buffer-size": "much"}, "write-buffer-size.*much"),
        ({"target-file-size": "-1 mb"}, "target-file-size"),
        ({"file.format": "csv"}, "file.format.*csv"),
        ({"file.compression": "best"}, "file.compression.*best"),
        ({"merge-engine": "magic"}, "merge-engine"),
        ({"bucket-key": "colour"}, "bucket-key|colour"),
        ({"sequence.field": "colour"}, "colour"),
        ({"write-only": "maybe"}, "write-only.*maybe"),
        ({"commit.max-retries": "often"}, "commit.max-retries.*often"),
        ({"num-sorted-run.compaction-trigger": "x"}, "num-sorted-run.compaction-trigger.*x"),
    ],
)
def test_options_that_make_no_sense_are_named(
    catalog: interbed.Catalog, orders: interbed.Table, options: dict[str, str], message: str
) -> None:
    with pytest.raises((InvalidInputError, NotSupportedError), match=message):
        catalog.create_table("shop.t", SCHEMA, primary_keys=["id"], options={"bucket": "1"} | options)
    assert catalog.list_tables("shop") == ["orders"]
    with unchanged(orders), pytest.raises((InvalidInputError, NotSupportedError), match=message):
        catalog.alter_table("shop.orders", [SetOption(k, v) for k, v in options.items()])
    assert orders.scan().count() == 3


@pytest.mark.parametrize(
    ("schema", "keys", "message"),
    [
        (pa.schema([]), [], "column"),
        (pa.schema([("a", pa.int32()), ("a", pa.int32())]), [], "'a'"),
        (pa.schema([("_KEY_a", pa.int32())]), [], "_KEY_a"),
        (pa.schema([("_SEQUENCE_NUMBER", pa.int32())]), [], "_SEQUENCE_NUMBER"),
        (pa.schema([("a", pa.uint64())]), [], "uint64"),
        (pa.schema([("a", pa.list_(pa.int32()))]), ["a"], "a"),
        (pa.schema([("a", pa.int32())]), ["b"], "'?b'?"),
        (pa.schema([("a", pa.int32())]), ["a", "a"], "a"),
    ],
)
def test_schemas_that_make_no_sense_are_named(
    catalog: interbed.Catalog, schema: pa.Schema, keys: list[str], message: str
) -> None:
    with pytest.raises((InvalidInputError, NotSupportedError), match=message):
        catalog.create_table("shop.t", schema, primary_keys=keys or None, options={"bucket": "1" if keys else "-1"})
    assert catalog.list_tables("shop") == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"warehouse": ""}, "warehouse"),
        ({"lock.enabled": "maybe", "metastore": "hive", "uri": "thrift://127.0.0.1:1"}, "lock.enabled.*maybe"),
        ({"lock-acquire-timeout": "soon", "metastore": "hive", "uri": "thrift://127.0.0.1:1"}, "lock-acquire-timeout"),
        ({"client-timeout": "-", "metastore": "hive", "uri": "thrift://127.0.0.1:1"}, "client-timeout"),
        ({"metastore": "hive", "uri": "127.0.0.1:port"}, "127.0.0.1:port"),
        ({"metastore": "hive", "hive-conf-dir": "/no/such/directory"}, "/no/such/directory"),
        ({"metastore": "jdbc"}, "metastore.*jdbc"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_options_of_catalogs_that_make_no_sense_are_named(
    tmp_path: Path, options: dict[str, str], message: str
) -> None:
    with pytest.raises(InvalidOptionError, match=message):
        interbed.CatalogFactory.create({"warehouse": str(tmp_path / "lake")} | options)
    assert list(tmp_path.iterdir()) == []


def test_a_server_that_is_down_is_named(tmp_path: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        uri = f"thrift://127.0.0.1:{unused.getsockname()[1]}"
        with pytest.raises(CatalogUnavailableError, match=uri):
            interbed.load_catalog(metastore="hive", uri=uri, warehouse=f"file:{tmp_path}/lake")


def test_a_server_that_goes_down_is_named_and_the_table_stays_as_it_is(tmp_path: Path) -> None:
    with metastore() as uri:
        catalog = interbed.load_catalog(metastore="hive", uri=uri, warehouse=f"file:{tmp_path}/lake")
        catalog.create_database("shop")
        table = catalog.create_table("shop.orders", SCHEMA, primary_keys=["id"], options={"bucket": "1"})
        table.upsert(GOOD)
    with unchanged(table), pytest.raises(CatalogUnavailableError, match=uri):
        table.upsert(GOOD)
    with unchanged(table), pytest.raises(CatalogUnavailableError, match=uri):
        catalog.drop_table("shop.orders")
    # Reading needs the files alone.
    assert table.scan().count() == 3
    with pytest.raises(CatalogUnavailableError, match=uri):
        catalog.list_databases()
    catalog.close()


def test_a_metastore_table_of_another_format_is_named_and_left_alone(tmp_path: Path) -> None:
    with metastore() as uri, interbed.load_catalog(metastore="hive", uri=uri) as catalog:
        assert isinstance(catalog, HiveCatalog)
        catalog.create_database("shop")
        catalog.client.create_table(hive_table("shop", "foreign"))
        before = catalog.client.get_table("shop", "foreign")
        calls: list[Callable[[], object]] = [
            lambda: catalog.get_table("shop.foreign"),
            lambda: catalog.drop_table("shop.foreign"),
            lambda: catalog.rename_table("shop.foreign", "shop.other"),
            lambda: catalog.alter_table("shop.foreign", AddColumn("a", AtomicType(TypeRoot.INT))),
            lambda: catalog.table_exists("shop.foreign"),
        ]
        for call in calls:
            with pytest.raises(NotAnInterbedTableError, match=r"shop\.foreign.*org\.example\.Input"):
                call()
        with pytest.raises(TableExistsError, match=r"shop\.foreign"):
            catalog.create_table("shop.foreign", SCHEMA)
        assert catalog.list_tables("shop") == []
        assert catalog.client.get_table("shop", "foreign") == before
        with pytest.raises(CatalogError, match=r"shop"):
            catalog.drop_database("shop")
