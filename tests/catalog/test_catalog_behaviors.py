"""Behaviour that all catalogs share, tested with every kind of catalog."""

import re
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import interbed
from interbed.catalog.client.api import Catalog
from interbed.catalog.client.errors import (
    DatabaseExistsError,
    DatabaseNotEmptyError,
    DatabaseNotFoundError,
    TableExistsError,
    TableNotFoundError,
)
from interbed.catalog.client.filesystem import FileSystemCatalog
from interbed.catalog.client.identifier import Identifier
from interbed.catalog.client.rest.catalog import RestCatalog
from interbed.catalog.client.table_parts import as_object_table
from interbed.storage.base.errors import BranchNotFoundError, InvalidInputError, InvalidOptionError, NotSupportedError
from interbed.storage.base.types.arrow import type_from_arrow
from interbed.storage.base.types.data_type import AtomicType, TypeRoot
from interbed.storage.meta.schema.change import (
    AddColumn,
    RemoveOption,
    RenameColumn,
    SchemaChange,
    SetOption,
    UpdateComment,
)

SCHEMA = pa.schema((pa.field("id", pa.int64()), pa.field("name", pa.string()), pa.field("dt", pa.string())))
ROWS = pa.table({"id": [1, 2, 3], "name": ["a", "b", "c"], "dt": ["x", "x", "y"]})


@pytest.fixture
def catalog(options_of_catalog: dict[str, object]) -> Iterator[Catalog]:
    """Open every kind of catalog, on an empty warehouse."""
    yield from opened_and_emptied(options_of_catalog)


def opened_and_emptied(options: Mapping[str, object]) -> Iterator[Catalog]:
    """Yield the catalog of the options, then drop its databases."""
    with interbed.load_catalog("lake", **options) as opened:
        yield opened
        for name in opened.list_databases():
            if name != "default":
                opened.drop_database(name, cascade=True)


def is_javas(catalog: Catalog) -> bool:
    """Return whether the catalog is on Java's reference server of REST catalogs."""
    return isinstance(catalog, RestCatalog) and not catalog.client.uri.endswith("/paimon")


@pytest.fixture
def shop(catalog: Catalog) -> Catalog:
    """Create the database `shop` in the catalog."""
    catalog.create_database("shop")
    return catalog


def test_a_database_keeps_its_comment_and_its_properties(catalog: Catalog) -> None:
    catalog.create_database("shop", properties={"comment": "what we sell", "team": "sales", "floor": "1"})
    catalog.alter_database("shop", {"team": "marketing", "plan": "b"}, ["floor", "nothing"])
    found = catalog.get_database("shop")

    assert found.comment == "what we sell"
    # A metastore records its owner and its creation time.
    assert {"team": "marketing", "plan": "b"}.items() <= found.properties.items()
    assert "floor" not in found.properties
    assert catalog.list_tables("shop") == []
    with pytest.raises(InvalidOptionError, match=r"location of a database can't be changed.*rename the tables"):
        catalog.alter_database("shop", {"location": "/elsewhere", "team": "nobody"})
    assert catalog.get_database("shop").properties["team"] == "marketing"
    catalog.drop_database("shop")
    catalog.create_database("shop")
    assert catalog.get_database("shop").comment is None


def test_secrets_of_object_stores_are_refused_as_database_properties(catalog: Catalog) -> None:
    secret = {"fs.s3a.secret.key": "s3cr3t"}
    why = r"'fs\.s3a\.secret\.key' is secret and would be in the open in the properties of the database"
    with pytest.raises(InvalidOptionError, match=why) as caught:
        catalog.create_database("shop", properties=secret)
    assert "s3cr3t" not in str(caught.value)
    assert not catalog.database_exists("shop")
    catalog.create_database("shop", properties={"team": "sales"})
    with pytest.raises(InvalidOptionError, match=why):
        catalog.alter_database("shop", {"team": "marketing", **secret})
    assert catalog.get_database("shop").properties["team"] == "sales"
    # A secret that is stored already can be removed.
    catalog.alter_database("shop", remove_properties=list(secret))


def test_a_database_is_created_listed_and_dropped(catalog: Catalog) -> None:
    catalog.create_database("shop")
    assert "shop" in catalog.list_databases()
    assert catalog.database_exists("shop")
    # Java's reference server of REST catalogs names one location for all databases.
    place = "/tmp" if is_javas(catalog) else "/lake/shop.db"
    assert catalog.get_database("shop").location.endswith(place)
    catalog.drop_database("shop")
    assert not catalog.database_exists("shop")


def test_creating_a_database_twice_is_an_error_unless_ignored(shop: Catalog) -> None:
    with pytest.raises(DatabaseExistsError, match="shop"):
        shop.create_database("shop")
    shop.create_database("shop", ignore_if_exists=True)


def test_a_missing_database_is_named_in_the_error(catalog: Catalog) -> None:
    for call in (
        lambda: catalog.get_database("nope"),
        lambda: catalog.drop_database("nope"),
        lambda: catalog.list_tables("nope"),
        lambda: catalog.create_table("nope.t", SCHEMA),
    ):
        with pytest.raises(DatabaseNotFoundError, match="nope"):
            call()
    catalog.drop_database("nope", ignore_if_not_exists=True)


def place_of(location: str) -> Path:
    """Return the directory of a location on the local disk."""
    return Path("/", location.removeprefix("file:").lstrip("/"))


def test_an_object_table_lists_the_files_of_its_directory_and_leaves_them(shop: Catalog) -> None:
    options = {"type": "object-table", "team": "media"}
    created = as_object_table(shop.create_table("shop.o", pa.schema([]), options=options, comment="pictures"))
    assert created is not None
    directory = place_of(created.location)
    (directory / "a" / "b c").mkdir(parents=True)
    (directory / "a" / "b c" / "é.png").write_bytes(b"12345")
    (directory / "z").write_bytes(b"")
    table = as_object_table(shop.get_table("shop.o"))
    assert table is not None
    assert (table.comment(), table.schema.options["team"]) == ("pictures", "media")
    # A catalog without a server of REST has the file of the schema there, too.
    found = table.scan(columns=["path", "name", "length"], filter="path not like 'schema/%'").to_arrow().to_pylist()
    assert sorted(map(str, found)) == [
        "{'path': 'a/b c/é.png', 'name': 'é.png', 'length': 5}",
        "{'path': 'z', 'name': 'z', 'length': 0}",
    ]
    (directory / "z").unlink()
    assert table.scan(filter="name = 'z'").count() == 0
    assert shop.list_tables("shop") == ["o"]
    assert shop.list_partitions("shop.o") == []
    with pytest.raises(TableExistsError, match=r"shop\.o"):
        shop.create_table("shop.o", pa.schema([]), options=options)
    shop.drop_table("shop.o")
    assert not shop.table_exists("shop.o")
    if not is_javas(shop):
        assert (directory / "a" / "b c" / "é.png").read_bytes() == b"12345"
        shop.create_table("shop.o", pa.schema([]), options=options)
        assert shop.get_table("shop.o").scan(filter="length = 5").count() == 1
        (directory / "a" / "b c" / "é.png").unlink()


def test_writes_and_changes_of_an_object_table_are_refused_by_name(shop: Catalog) -> None:
    options = {"type": "object-table"}
    shop.create_table("shop.o", pa.schema([]), options=options)
    table: Any = shop.get_table("shop.o")
    row = {"path": "x", "name": "x", "length": 1, "mtime": 1, "atime": 0, "owner": "me"}
    for refused in (
        lambda: table.append([row]),
        lambda: table.overwrite([row]),
        lambda: table.delete("length = 1"),
        lambda: table.new_batch_write_builder(),
        lambda: table.compact(),
        lambda: table.versions,
        lambda: shop.alter_table("shop.o", [SetOption("team", "a")]),
        lambda: shop.get_table("shop.o$files"),
        lambda: shop.create_table_as("shop.p", [row], options=options),
    ):
        with pytest.raises(NotSupportedError, match=r"[Tt]he object table 'shop\.[op]'"):
            refused()
    with pytest.raises(InvalidOptionError, match="'write-only' has no effect on an object table"):
        shop.create_table("shop.p", pa.schema([]), options={**options, "write-only": "true"})
    with pytest.raises(InvalidInputError, match="An object table has the columns path, name"):
        shop.create_table("shop.p", SCHEMA, options=options)
    assert shop.list_tables("shop") == ["o"]


def test_an_external_object_table_lists_its_path(shop: Catalog, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "one").write_bytes(b"1")
    options = {"type": "object-table", "path": f"file:{outside}"}
    if isinstance(shop, FileSystemCatalog):
        with pytest.raises(InvalidOptionError, match="A file-system catalog decides where a table lives"):
            shop.create_table("shop.o", pa.schema([]), options=options)
        return
    if is_javas(shop):
        shop.create_table("shop.o", pa.schema([]), options=options)
        # Java's reference server gives each object table a location of its own.
        assert shop.get_table("shop.o").location.endswith("/lake/shop.db/o")
        return
    for _ in range(2):
        shop.create_table("shop.o", pa.schema([]), options=options)
        assert "one" in shop.get_table("shop.o").scan().to_arrow()["path"].to_pylist()
        shop.drop_table("shop.o")
        assert (outside / "one").exists()


def test_a_database_with_tables_is_dropped_by_cascade_only(shop: Catalog) -> None:
    table = shop.create_table("shop.t", SCHEMA)
    table.append(ROWS)
    with pytest.raises(DatabaseNotEmptyError, match="cascade"):
        shop.drop_database("shop")
    assert shop.get_table("shop.t").scan().count() == 3
    shop.drop_database("shop", cascade=True)
    assert not shop.database_exists("shop")
    shop.create_database("shop")
    assert shop.list_tables("shop") == []


@pytest.mark.parametrize("name", ["", "a/b", "..", " x", "x" * 300])
def test_names_that_can_not_be_directories_are_refused(catalog: Catalog, name: str) -> None:
    with pytest.raises(InvalidInputError, match="database name"):
        catalog.create_database(name)


def test_a_created_table_keeps_its_schema(shop: Catalog) -> None:
    options = {"bucket": 2, "file.compression": "zstd", "write-only": True}
    shop.create_table(
        "shop.t", SCHEMA, primary_keys=["dt", "id"], partition_keys=["dt"], options=options, comment="orders"
    )
    table = shop.get_table("shop.t")
    assert table.primary_keys == ["dt", "id"]
    assert table.partition_keys == ["dt"]
    assert table.schema.options["bucket"] == "2"
    assert table.schema.options["write-only"] == "true"
    assert table.schema.comment == "orders"
    assert table.arrow_schema.names == ["id", "name", "dt"]
    assert not table.arrow_schema.field("id").nullable
    assert table.arrow_schema.field("name").nullable
    assert shop.list_tables("shop") == ["t"]


def test_a_schema_object_creates_a_table_as_in_pypaimon(shop: Catalog) -> None:
    schema = interbed.Schema.from_pyarrow_schema(SCHEMA, primary_keys=["id"], options={"bucket": "1"})
    shop.create_table("shop.t", schema, False)
    assert shop.get_table("shop.t").primary_keys == ["id"]
    with pytest.raises(InvalidInputError, match="Schema"):
        shop.create_table("shop.u", schema, primary_keys=["id"])


def test_creating_a_table_twice_is_an_error_unless_ignored(shop: Catalog) -> None:
    table = shop.create_table("shop.t", SCHEMA)
    table.append(ROWS)
    with pytest.raises(TableExistsError, match=r"shop\.t"):
        shop.create_table("shop.t", SCHEMA)
    assert shop.create_table("shop.t", SCHEMA, ignore_if_exists=True).scan().count() == 3


def test_a_missing_table_is_named_in_the_error(shop: Catalog) -> None:
    for call in (
        lambda: shop.get_table("shop.nope"),
        lambda: shop.drop_table("shop.nope"),
        lambda: shop.rename_table("shop.nope", "shop.other"),
        lambda: shop.alter_table("shop.nope", [SetOption("a", "b")]),
    ):
        with pytest.raises(TableNotFoundError, match=r"shop\.nope"):
            call()
    shop.drop_table("shop.nope", ignore_if_not_exists=True)
    assert not shop.table_exists("shop.nope")


def test_a_table_name_without_database_is_refused(shop: Catalog) -> None:
    with pytest.raises(InvalidInputError, match="lacks its database"):
        shop.get_table("orders")


def test_partitions_expire_by_the_time_in_their_values(shop: Catalog) -> None:
    schema = pa.schema((("dt", pa.string()), ("n", pa.int64())))
    shop.create_table("shop.days", schema, partition_keys=["dt"], options={"metastore.partitioned-table": "true"})
    shop.get_table("shop.days").append(pa.table({"dt": ["20260101", "20260201", "x"], "n": [1, 2, 3]}))
    arguments: dict[str, Any] = {"timestamp_formatter": "yyyyMMdd", "clock": lambda: 1_771_000_000}
    with pytest.raises(InvalidOptionError, match="have no bound"):
        shop.expire_partitions("shop.days", **arguments)
    for dry_run in (True, False):
        gone = shop.expire_partitions("shop.days", expiration_time="30 d", dry_run=dry_run, **arguments)
        assert gone == [{"dt": "20260101"}]
    assert [p.spec["dt"] for p in shop.list_partitions("shop.days")] == ["20260201", "x"]
    numbers: Any = shop.get_table("shop.days").scan().to_arrow()["n"]
    assert sorted(numbers.to_pylist()) == [2, 3]
    shop.drop_table("shop.days")


def test_system_tables_and_branches_are_opened_by_name_but_cannot_be_dropped(shop: Catalog) -> None:
    shop.create_table("shop.named", pa.schema([("id", pa.int64())]), options={"bucket": "-1"})
    table = shop.get_table("shop.named")
    table.append(pa.table({"id": [1]}))
    table.versions.create_tag("start")
    table.versions.create_branch("b", "start")
    branch = shop.get_table("shop.named$branch_b")
    branch.append(pa.table({"id": [2]}))
    assert shop.get_table("shop.named").scan().to_arrow()["id"].to_pylist() == [1]
    snapshots = shop.get_table("shop.named$branch_b$snapshots").scan(["snapshot_id"], "commit_kind = 'APPEND'")
    assert snapshots.to_arrow()["snapshot_id"].to_pylist() == [1, 2]
    assert shop.get_table("shop.named$tags").scan().to_arrow()["tag_name"].to_pylist() == ["start"]
    assert "shop.named$branch_b" not in shop.list_tables("shop")
    for name in ("shop.named$branch_b", "shop.named$snapshots"):
        with pytest.raises(NotSupportedError, match="not a table of its own"):
            shop.drop_table(name)
    for name in ("shop.named$nothing", "shop.named$", "shop.named$branch_", "shop.named$a$b"):
        with pytest.raises(InvalidInputError, match=r"no system table 'nothing'; there are|Not a table name"):
            shop.get_table(name)
    with pytest.raises(BranchNotFoundError):
        shop.get_table("shop.named$branch_x")
    shop.drop_table("shop.named")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"primary_keys": ["nope"]}, "nope"),
        ({"partition_keys": ["nope"]}, "nope"),
        ({"primary_keys": ["dt"], "partition_keys": ["dt"]}, "partition key"),
        ({"options": {"bucket": "many"}}, "bucket"),
        ({"options": {"bucket": "2"}}, "bucket-key"),
        ({"options": {"file.format": "csv"}}, "file.format"),
        ({"primary_keys": ["id"], "options": {"merge-engine": "magic"}}, "merge-engine"),
    ],
)
def test_an_invalid_schema_is_refused_and_nothing_is_created(
    shop: Catalog, arguments: dict[str, object], message: str
) -> None:
    with pytest.raises(InvalidInputError, match=message):
        shop.create_table("shop.t", SCHEMA, **arguments)  # type: ignore[arg-type]
    assert not shop.table_exists("shop.t")
    assert shop.list_tables("shop") == []


def test_a_dropped_table_is_deleted_with_its_files(shop: Catalog) -> None:
    table = shop.create_table("shop.t", SCHEMA)
    table.append(ROWS)
    assert Path(table.location, "snapshot", "snapshot-1").exists()
    shop.drop_table("shop.t")
    assert not shop.table_exists("shop.t")
    assert not Path(table.location).exists()
    shop.create_table("shop.t", SCHEMA)
    assert shop.get_table("shop.t").scan().count() == 0


def test_a_renamed_table_keeps_its_rows(shop: Catalog) -> None:
    shop.create_table("shop.t", SCHEMA).append(ROWS)
    shop.rename_table("shop.t", "shop.u")
    assert shop.list_tables("shop") == ["u"]
    if is_javas(shop):
        assert isinstance(shop, RestCatalog)
        # Java's reference server moves the files and still answers with their old location.
        assert shop.client.table(Identifier("shop", "u"))["path"].endswith("/t")
        return
    assert shop.get_table("shop.u").scan().count() == 3
    shop.get_table("shop.u").append(ROWS)
    assert shop.get_table("shop.u").scan().count() == 6


def test_renaming_onto_a_table_is_an_error(shop: Catalog) -> None:
    shop.create_table("shop.t", SCHEMA)
    shop.create_table("shop.u", SCHEMA)
    with pytest.raises(TableExistsError, match=r"shop\.u"):
        shop.rename_table("shop.t", "shop.u")
    assert shop.list_tables("shop") == ["t", "u"]


def test_altered_options_and_columns_make_a_new_schema(shop: Catalog) -> None:
    shop.create_table("shop.t", SCHEMA, options={"write-buffer-size": "64 mb"}).append(ROWS)
    big = AtomicType(TypeRoot.BIGINT)
    shop.alter_table(
        "shop.t", [SetOption("snapshot.num-retained.max", "17"), AddColumn("extra", big), UpdateComment("c")]
    )
    shop.alter_table("shop.t", RemoveOption("write-buffer-size"))
    schema = shop.get_table("shop.t").schema
    assert schema.id == 2
    assert schema.options == {"snapshot.num-retained.max": "17"}
    assert schema.comment == "c"
    assert shop.get_table("shop.t").scan().to_arrow()["extra"].to_pylist() == [None] * 3


def test_partitions_are_listed_with_their_statistics(shop: Catalog) -> None:
    table = shop.create_table("shop.t", SCHEMA, partition_keys=["dt"])
    assert shop.list_partitions("shop.t") == []
    before = int(time.time() * 1000) - 1000
    table.append(ROWS)
    table.append(pa.table({"id": [4, 5], "name": ["d", "e"], "dt": ["y", None]}, schema=SCHEMA))
    found = shop.list_partitions("shop.t")
    assert [dict(p.spec) for p in found] == [{"dt": "__DEFAULT_PARTITION__"}, {"dt": "x"}, {"dt": "y"}]
    assert [(p.record_count, p.file_count) for p in found] == [(1, 1), (2, 1), (2, 2)]
    assert all(p.file_size_in_bytes > 100 * p.file_count for p in found)
    assert all(before <= p.last_file_creation_time <= time.time() * 1000 for p in found)
    first = shop.list_partitions_paged("shop.t", max_results=2)
    assert [p.spec["dt"] for p in first.elements] == ["__DEFAULT_PARTITION__", "x"]
    rest = shop.list_partitions_paged("shop.t", 2, first.next_page_token)
    assert ([p.spec["dt"] for p in rest.elements], rest.next_page_token) == (["y"], None)
    chosen = shop.list_partitions_paged("shop.t", partition_name_pattern="dt=?*").elements
    assert chosen == []
    assert [p.spec["dt"] for p in shop.list_partitions_paged("shop.t", partition_name_pattern="dt=*y").elements] == [
        "y"
    ]
    with pytest.raises(InvalidInputError, match="token"):
        shop.list_partitions_paged("shop.t", 2, "x")


def test_a_table_without_partitions_has_none(shop: Catalog) -> None:
    shop.create_table("shop.t", SCHEMA).append(ROWS)
    assert shop.list_partitions("shop.t") == []


@pytest.mark.parametrize("registered", [False, True])
def test_dropped_partitions_lose_their_rows(shop: Catalog, registered: bool) -> None:
    schema = pa.schema([*SCHEMA, pa.field("h", pa.int32())])
    options = {"metastore.partitioned-table": registered}
    table = shop.create_table("shop.t", schema, partition_keys=["dt", "h"], options=options)
    rows = {"id": [1, 2, 3, 4], "name": ["a"] * 4, "dt": ["x", "x", "y", "z"], "h": [1, 2, 1, 1]}
    table.append(pa.table(rows, schema=schema))
    shop.drop_partitions("shop.t", [{"dt": "x", "h": 2}, {"dt": "z", "h": "1"}, {"dt": "never", "h": 1}])
    assert [dict(p.spec) for p in shop.list_partitions("shop.t")] == [{"dt": "x", "h": "1"}, {"dt": "y", "h": "1"}]
    assert shop.get_table("shop.t").scan().to_arrow()["id"].to_pylist() == [1, 3]
    shop.drop_partitions("shop.t", [{"h": 1}])
    assert shop.list_partitions("shop.t") == []
    with pytest.raises(InvalidInputError, match="name"):
        shop.drop_partitions("shop.t", [{"name": "a"}])
    with pytest.raises(InvalidInputError, match="at least one"):
        shop.drop_partitions("shop.t", [])


def test_partitions_can_be_created_and_altered_whether_or_not_they_are_registered(shop: Catalog) -> None:
    shop.create_table("shop.t", SCHEMA, partition_keys=["dt"]).append(ROWS)
    shop.create_partitions("shop.t", [{"dt": "new"}])
    shop.alter_partitions("shop.t", shop.list_partitions("shop.t"))
    with pytest.raises(InvalidInputError, match="dt"):
        shop.create_partitions("shop.t", [{}])
    with pytest.raises(TableNotFoundError, match="nope"):
        shop.create_partitions("shop.nope", [{"dt": "new"}])
    # Without rows, a partition is registered at most.
    assert [p.spec["dt"] for p in shop.list_partitions("shop.t")] == ["x", "y"]


def test_invalid_changes_change_nothing(shop: Catalog) -> None:
    shop.create_table("shop.t", SCHEMA)
    with pytest.raises(InvalidInputError, match="name"):
        shop.alter_table("shop.t", [SetOption("a", "b"), AddColumn("name", AtomicType(TypeRoot.INT))])
    assert shop.get_table("shop.t").schema.id == 0


BLANK = ("", " ", "\t", "\u3000")


@pytest.mark.parametrize("name", BLANK)
def test_no_column_and_no_nested_field_gets_a_blank_name(shop: Catalog, name: str) -> None:
    inside = pa.struct([pa.field("a", pa.int64()), pa.field(name, pa.int64())])
    kinds: tuple[Any, ...] = (pa.int64(), inside, pa.list_(inside), pa.map_(pa.string(), inside))
    for number, kind in enumerate(kinds):
        column = pa.field(name if kind == pa.int64() else "s", kind)
        with pytest.raises(InvalidInputError, match=re.escape(f"blank name {name!r}; give it another")):
            shop.create_table_as(f"shop.new{number}", pa.table({"id": [1]}).append_column(column, pa.nulls(1, kind)))
    assert shop.list_tables("shop") == []
    schema = pa.schema([*SCHEMA, pa.field("s", pa.struct([pa.field("a", pa.int64())]))])
    table = shop.create_table("shop.t", schema)
    changes: list[SchemaChange] = [
        RenameColumn("name", name),
        RenameColumn(("s", "a"), name),
        *(AddColumn(path, AtomicType(TypeRoot.INT)) for path in (name, ("s", name))),
        AddColumn("r", type_from_arrow(inside)),
    ]
    for change in changes:
        with pytest.raises(InvalidInputError, match=r"blank name|none that is empty"):
            shop.alter_table("shop.t", [change])
    with pytest.raises(InvalidInputError, match=r"blank name|none that is empty"):
        table.append(pa.table({"id": [1], name: [2]}), merge_schema=True)
    assert shop.get_table("shop.t").schema.id == 0
    shop.drop_table("shop.t")
