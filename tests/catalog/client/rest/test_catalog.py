"""The REST catalog on Java's reference server: options, authentication, tables, versions, partitions and views."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import interbed
import interbed.testing
from interbed.catalog.client.api import View, ViewColumn
from interbed.catalog.client.errors import (
    CatalogAccessError,
    DatabaseNotFoundError,
    NotAnInterbedTableError,
    TableExistsError,
    TableNotFoundError,
    ViewNotFoundError,
)
from interbed.catalog.client.identifier import Identifier
from interbed.catalog.client.rest.catalog import RestCatalog
from interbed.storage.base.errors import (
    BranchNotFoundError,
    InvalidInputError,
    InvalidOptionError,
    NotSupportedError,
    TagNotFoundError,
)
from interbed.storage.meta.schema.change import Move, SchemaChange
from tests.support.servers.paimon_rest import PaimonRestServers, rest_options

ROWS = pa.table({"id": [1, 2], "name": ["a", "b"]})
SCHEMA = ROWS.schema


def ids(catalog: RestCatalog, name: str = "shop.t") -> list[int]:
    """Return the ids of the rows of a table, sorted."""
    column: Any = catalog.get_table(name).scan().to_arrow()["id"]
    return sorted(column.to_pylist())


# -- options and authentication ----------------------------------------------------------------------------------------


def test_a_wrong_token_is_refused_without_being_shown(url: str) -> None:
    with pytest.raises(CatalogAccessError, match="answers 401") as caught:
        interbed.load_catalog("lake", **rest_options(url, token="wrong-token"))
    assert "wrong-token" not in str(caught.value)


def test_a_warehouse_that_the_server_lacks_is_named(url: str) -> None:
    with pytest.raises(InvalidOptionError, match="has no warehouse 'other'"):
        interbed.load_catalog("lake", **rest_options(url, "other"))


def test_an_address_without_the_path_of_the_interface_is_named() -> None:
    with interbed.testing.metastore() as uri:
        address = uri.iceberg.removesuffix("/iceberg")
        options = {"token.provider": "bear", "token": "x"}
        message = r"the option 'uri' lacks a path such as /paimon: .* here$"
        with pytest.raises(InvalidOptionError, match=message) as caught:
            interbed.load_catalog(metastore="rest", uri=address, warehouse="hive", **options)
    assert "\\n" not in str(caught.value)


def test_requests_signed_for_dlf_are_accepted_by_javas_signer(servers: PaimonRestServers, tmp_path: Path) -> None:
    key = {"key": "my-key", "secret": "my-secret", "session": "my-session", "region": "cn-hangzhou"}
    options = {
        "token.provider": "dlf",
        "dlf.region": "cn-hangzhou",
        "dlf.access-key-id": "my-key",
        "dlf.access-key-secret": "my-secret",
        "dlf.security-token": "my-session",
    }
    with servers.server(tmp_path / "lake", **key) as url:
        base = {"metastore": "rest", "uri": url, "warehouse": "lake"}
        with interbed.load_catalog("lake", **base, **options) as catalog:
            catalog.create_database("shop")
            catalog.create_table_as("shop.t", ROWS)
            assert catalog.get_table("shop.t").scan().count() == 2
        with pytest.raises(CatalogAccessError):
            interbed.load_catalog("lake", **base, **{**options, "dlf.access-key-secret": "wrong"})


def test_the_server_adds_defaults_and_overrides_to_the_options(servers: PaimonRestServers, tmp_path: Path) -> None:
    server: dict[str, Any] = {
        "defaults": {"client-timeout": "7 s", "unknown.option": "x"},
        "overrides": {"client-pool-size": "3"},
    }
    with servers.server(tmp_path / "lake", **server) as url:
        given = rest_options(url, **{"client-pool-size": "5"})
        with interbed.load_catalog("lake", **given) as catalog:
            assert catalog.options.client_timeout_millis == 7000
            assert catalog.options.client_pool_size == 3
            assert "a-token-of-tests" not in repr(catalog.options) + repr(catalog)


def test_a_missing_option_is_named() -> None:
    for left_out in ("uri", "warehouse"):
        options = {k: v for k, v in rest_options("http://127.0.0.1:1").items() if k != left_out}
        with pytest.raises(InvalidOptionError, match=f"needs the option '{left_out}'"):
            interbed.CatalogFactory.create(options)


def test_a_table_without_permission_is_refused(servers: PaimonRestServers, url: str, catalog: RestCatalog) -> None:
    catalog.create_table("shop.t", SCHEMA)
    servers.forbid(url, "shop.t")
    with pytest.raises(CatalogAccessError, match="answers 403"):
        catalog.get_table("shop.t")


# -- tables ------------------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_long_lists_come_in_pages(catalog: RestCatalog) -> None:
    # The server returns at most 100 elements.
    names = [f"d{number:03}" for number in range(101)]
    for name in names:
        catalog.create_database(name)
    assert catalog.list_databases() == [*names, "shop"]


@pytest.mark.long
def test_names_with_blanks_and_other_letters_are_encoded(catalog: RestCatalog) -> None:
    catalog.create_database("my shop")
    catalog.create_table_as("my shop.größe+x", ROWS)
    assert catalog.list_tables("my shop") == ["größe+x"]
    assert ids(catalog, "my shop.größe+x") == [1, 2]


def test_a_table_with_rows_is_created_and_an_aborted_one_is_dropped(catalog: RestCatalog) -> None:
    catalog.create_table_as("shop.t", ROWS, options={"bucket": "-1"})
    assert ids(catalog) == [1, 2]
    staged = catalog.stage_table("shop.u", interbed.Schema.from_pyarrow_schema(SCHEMA))
    assert catalog.table_exists("shop.u")
    staged.abort()
    assert not catalog.table_exists("shop.u")
    with pytest.raises(TableExistsError):
        catalog.create_table_as("shop.t", ROWS)


def test_an_aborted_creation_leaves_a_table_that_has_rows_since(catalog: RestCatalog) -> None:
    staged = catalog.stage_table("shop.t", interbed.Schema.from_pyarrow_schema(SCHEMA))
    catalog.get_table("shop.t").append(ROWS)
    staged.abort()
    assert ids(catalog) == [1, 2]


def test_a_table_is_not_replaced(catalog: RestCatalog) -> None:
    catalog.replace_table("shop.t", ROWS, ROWS, create=True)
    with pytest.raises(NotSupportedError, match=r"'shop\.t' is not replaced"):
        catalog.replace_table("shop.t", ROWS, ROWS)
    with pytest.raises(TableNotFoundError):
        catalog.replace_table("shop.u", ROWS)
    assert ids(catalog) == [1, 2]


def test_all_changes_of_a_schema_are_sent(catalog: RestCatalog) -> None:
    catalog.create_table("shop.t", SCHEMA, options={"alter-column-null-to-not-null.disabled": "false"}).append(ROWS)
    catalog.alter_table(
        "shop.t",
        [
            SchemaChange.add_column("first", "INT", "a comment", Move.first("first")),
            SchemaChange.add_column("part", "ROW<a INT>"),
            SchemaChange.add_column("kind", "STRING", default_value="new"),
        ],
    )
    catalog.alter_table(
        "shop.t",
        [
            SchemaChange.update_column_type("first", "BIGINT"),
            SchemaChange.rename_column("name", "title"),
            SchemaChange.update_column_position(Move.after("kind", "first")),
            SchemaChange.update_column_comment("id", "the key"),
            SchemaChange.add_column(["part", "b"], "STRING"),
            SchemaChange.drop_column(["part", "a"]),
            SchemaChange.update_column_nullability("id", False),
            SchemaChange.update_column_default_value("title", "none"),
            SchemaChange.set_option("snapshot.num-retained.max", "17"),
            SchemaChange.update_comment("goods"),
        ],
    )
    schema = catalog.get_table("shop.t").schema
    assert [str(field) for field in schema.fields] == [
        "first BIGINT",
        "kind STRING",
        "id BIGINT NOT NULL",
        "title STRING",
        "part ROW<b STRING>",
    ]
    assert [field.default_value for field in schema.fields] == [None, "new", None, "none", None]
    assert (schema.by_name["first"].description, schema.by_name["id"].description) == ("a comment", "the key")
    assert (schema.id, schema.comment, schema.options["snapshot.num-retained.max"]) == (2, "goods", "17")
    assert ids(catalog) == [1, 2]


def test_a_table_alters_itself_through_the_server(catalog: RestCatalog) -> None:
    table = catalog.create_table("shop.t", SCHEMA)
    table.append(pa.table({"id": [1], "extra": [2.5]}), merge_schema=True)
    assert catalog.client.table(Identifier("shop", "t"))["schemaId"] == 1
    assert catalog.get_table("shop.t").arrow_schema.names == ["id", "name", "extra"]


def test_a_change_that_the_interface_lacks_is_refused_by_name(catalog: RestCatalog) -> None:
    catalog.create_table("shop.t", SCHEMA)
    catalog.alter_table("shop.t", SchemaChange.add_column("part", "ROW<a INT, b INT>"))
    with pytest.raises(NotSupportedError, match=r"not the nested field 'part\.b'"):
        catalog.alter_table("shop.t", SchemaChange.update_column_position(Move.first(["part", "b"])))


def test_an_external_table_commits_to_its_files_and_keeps_them_when_it_is_dropped(
    catalog: RestCatalog, tmp_path: Path
) -> None:
    place = tmp_path / "elsewhere" / "t"
    catalog.create_table("shop.t", SCHEMA, options={"path": f"file:{place}"}).append(ROWS)
    catalog.get_table("shop.t").append(ROWS)
    assert ids(catalog) == [1, 1, 2, 2]
    catalog.drop_table("shop.t")
    assert (place / "snapshot" / "snapshot-2").exists()
    # The files make a table again, with their own schema only.
    with pytest.raises(InvalidOptionError, match="which is not the requested schema"):
        catalog.create_table("shop.t", pa.schema([("x", pa.int32())]), options={"path": str(place)})
    catalog.create_table("shop.t", SCHEMA, options={"path": str(place)})
    assert ids(catalog) == [1, 1, 2, 2]


def test_the_schema_of_an_external_table_is_not_rolled_back(catalog: RestCatalog, tmp_path: Path) -> None:
    place = tmp_path / "elsewhere" / "t"
    table = catalog.create_table("shop.t", SCHEMA, options={"path": f"file:{place}"})
    # The server does not learn of a schema that is made in the files.
    table.store.schemas.change([SchemaChange.add_column("extra", "INT")])
    with pytest.raises(NotSupportedError, match=r"external table 'shop\.t' is not rolled back: the server"):
        table.versions.rollback_schema(0)
    assert sorted(path.name for path in (place / "schema").iterdir()) == ["schema-0", "schema-1"]


def test_format_tables_of_javas_server_are_read_and_written(catalog: RestCatalog) -> None:
    options = {"type": "format-table", "file.format": "json"}
    table: Any = catalog.create_table("shop.f", SCHEMA, options=options)
    table.append(ROWS)
    assert ids(catalog, "shop.f") == [1, 2]
    assert catalog.list_tables("shop") == catalog.list_format_tables("shop") == ["f"]
    with pytest.raises(TableExistsError):
        catalog.create_table("shop.f", SCHEMA, options=options)
    catalog.leave_out_format_tables()
    with pytest.raises(NotAnInterbedTableError, match="format-table"):
        catalog.get_table("shop.f")
    catalog.drop_table("shop.f")
    assert catalog.list_tables("shop") == []


@pytest.mark.long
def test_a_table_of_another_format_is_named(catalog: RestCatalog) -> None:
    schema = {"fields": [{"id": 0, "name": "id", "type": "BIGINT"}], "partitionKeys": [], "primaryKeys": []}
    options = {"type": "lance-table"}
    catalog.client.create_table(Identifier("shop", "f"), {**schema, "options": options, "comment": None})
    with pytest.raises(NotAnInterbedTableError, match="lance-table"):
        catalog.get_table("shop.f")
    assert catalog.table_exists("shop.f")
    catalog.drop_table("shop.f")
    assert catalog.list_tables("shop") == []


# -- versions ----------------------------------------------------------------------------------------------------------


def test_a_rollback_is_made_by_the_server_and_commits_follow_it(catalog: RestCatalog) -> None:
    table = catalog.create_table("shop.t", SCHEMA)
    table.append(ROWS)
    table.versions.create_tag("one")
    table.append(pa.table({"id": [3], "name": ["c"]}))
    assert catalog.rollback_to("shop.t", 1).id == 1
    table = catalog.get_table("shop.t")
    table.append(pa.table({"id": [4], "name": ["d"]}))
    assert ids(catalog) == [1, 2, 4]
    assert catalog.rollback_to("shop.t", "one").id == 1
    catalog.get_table("shop.t").append(pa.table({"id": [5], "name": ["e"]}))
    assert ids(catalog) == [1, 2, 5]
    with pytest.raises(TagNotFoundError):
        catalog.rollback_to("shop.t", "nothing")


def test_branches_are_tables_of_the_server(catalog: RestCatalog) -> None:
    table = catalog.create_table("shop.t", SCHEMA)
    table.append(ROWS)
    table.versions.create_tag("one")
    catalog.create_branch("shop.t", "b", "one")
    with pytest.raises(InvalidInputError):
        catalog.create_branch("shop.t", "b")
    table.versions.create_branch("b", ignore_if_exists=True)
    assert catalog.list_branches("shop.t") == ["b"]
    catalog.get_table("shop.t$branch_b").append(pa.table({"id": [3], "name": ["c"]}))
    assert ids(catalog, "shop.t$branch_b") == [1, 2, 3]
    catalog.alter_table("shop.t$branch_b", SchemaChange.add_column("extra", "INT"))
    assert catalog.get_table("shop.t$branch_b").arrow_schema.names == ["id", "name", "extra"]
    assert catalog.get_table("shop.t").arrow_schema.names == ["id", "name"]
    catalog.get_table("shop.t").versions.fast_forward("b")
    assert ids(catalog) == [1, 2, 3]
    catalog.get_table("shop.t").versions.delete_branch("b")
    assert catalog.list_branches("shop.t") == []
    with pytest.raises(BranchNotFoundError):
        catalog.get_table("shop.t").versions.delete_branch("b")


def test_the_server_gets_the_sizes_of_partitions_with_each_commit(catalog: RestCatalog) -> None:
    schema = pa.schema((("id", pa.int64()), ("dt", pa.string())))
    options = {"metastore.partitioned-table": "true"}
    table = catalog.create_table("shop.t", schema, partition_keys=["dt"], options=options)
    table.append(pa.table({"id": [1, 2, 3], "dt": ["x", "x", None]}, schema=schema))
    table.append(pa.table({"id": [4], "dt": ["x"]}))
    http = catalog.client._http
    found = http.get("/v1/paimon/databases/shop/tables/t/partitions")["partitions"]
    sizes = {p["spec"]["dt"]: (p["recordCount"], p["fileCount"]) for p in found}
    assert sizes == {"x": (3, 2), "__DEFAULT_PARTITION__": (1, 1)}
    listed = {p.spec["dt"]: (p.record_count, p.file_count) for p in catalog.list_partitions("shop.t")}
    assert listed == sizes
    snapshot = http.get("/v1/paimon/databases/shop/tables/t/snapshot")["snapshot"]
    assert (snapshot["snapshot"]["id"], snapshot["recordCount"], snapshot["fileCount"]) == (2, 4, 3)
    catalog.mark_partitions_done("shop.t", [{"dt": "x"}])


# -- views -------------------------------------------------------------------------------------------------------------


def test_views_are_created_listed_renamed_and_dropped(catalog: RestCatalog) -> None:
    columns = (
        ViewColumn("id", "bigint", "the key"),
        ViewColumn("parts", "array<struct<a:int,b:map<string,decimal(10,2)>>>"),
        ViewColumn("at", "timestamp"),
        ViewColumn("raw", "binary"),
    )
    view = View(query="SELECT * FROM t", columns=columns, comment="all", options={"a": "b"})
    catalog.create_view("shop.v", view)
    assert catalog.get_view("shop.v") == view
    catalog.create_view("shop.v", view, replace=True)
    other = View(query="SELECT * FROM u", columns=columns, options={"c": "d"})
    catalog.create_view("shop.v", other, replace=True)
    assert catalog.get_view("shop.v") == other
    with pytest.raises(NotSupportedError, match=r"'shop\.v' is not replaced.*would be id bigint\. Drop it"):
        catalog.create_view("shop.v", View(query="SELECT 1", columns=columns[:1]), replace=True)
    with pytest.raises(TableExistsError):
        catalog.create_view("shop.v", view)
    catalog.create_view("shop.v", view, ignore_if_exists=True)
    catalog.rename_view("shop.v", "shop.w")
    assert catalog.list_views("shop") == ["w"]
    catalog.drop_view("shop.w")
    catalog.drop_view("shop.w", ignore_if_not_exists=True)
    for call in (lambda: catalog.drop_view("shop.w"), lambda: catalog.get_view("shop.w")):
        with pytest.raises(ViewNotFoundError):
            call()
    with pytest.raises(DatabaseNotFoundError):
        catalog.create_view("nope.v", view)


def test_a_view_with_a_query_for_spark_shows_that_one(catalog: RestCatalog, monkeypatch: pytest.MonkeyPatch) -> None:
    schema = {
        "fields": [{"id": 0, "name": "id", "type": "BIGINT"}],
        "query": "select 1",
        "dialects": {"spark": "SELECT 1L AS id", "flink": "select 2"},
        "comment": None,
        "options": {},
    }
    catalog.client.create_view(Identifier("shop", "v"), schema)
    assert catalog.get_view("shop.v").query == "SELECT 1L AS id"
    wanted, reads, read = replace(catalog.get_view("shop.v"), query="SELECT 2L AS id"), [0], catalog.client.view

    def counted(identifier: Identifier) -> dict[str, Any]:
        reads[0] += 1
        return read(identifier)

    with monkeypatch.context() as patched:
        patched.setattr(catalog.client, "view", counted)
        catalog.create_view("shop.v", wanted, replace=True)
    # The query that is replaced is that of the view that was compared.
    assert reads == [1]
    assert catalog.client.view(Identifier("shop", "v"))["schema"]["dialects"]["flink"] == "select 2"
    assert catalog.get_view("shop.v").query == "SELECT 2L AS id"
