"""interbed's own tables in Iceberg's REST catalog: pyiceberg reads them under their own names, and changes none."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import BadRequestError, ForbiddenError, NoSuchTableError, TableAlreadyExistsError

import interbed
from interbed.catalog.client.api import Catalog as OwnCatalog
from interbed.storage.table.table import Table
from tests.catalog.server.rest.iceberg.rest_server import SCHEMA, IcebergRest, new_view, rest_server, set_properties
from tests.iceberg.publish.readers import read_by_others

KEY: "pa.Field[Any]" = pa.field("id", pa.int64(), nullable=False)
COLUMNS = pa.schema([KEY, pa.field("v", pa.string())])
ROWS = [{"id": number, "v": f"v{number}"} for number in range(4)]
KINDS: dict[str, dict[str, Any]] = {
    "append": {},
    "partitioned": {"partition_keys": ["v"]},
    "keyed": {"primary_keys": ["id"], "options": {"bucket": "1"}},
    "vectors": {"primary_keys": ["id"], "options": {"bucket": "1", "deletion-vectors.enabled": "true"}},
}


@pytest.fixture
def own(server: IcebergRest) -> Iterator[OwnCatalog]:
    """Connect interbed's catalog to the server's Thrift port."""
    with interbed.load_catalog("own", metastore="hive", uri=server.metastore.uri) as found:
        yield found


def by_id(found: pa.Table) -> list[dict[str, Any]]:
    """Return the rows in order."""
    return found.sort_by("id").to_pylist()


def filled(own: OwnCatalog, name: str, **kind: Any) -> Table:
    """Create a table of the kind with rows."""
    table = own.create_table(name, COLUMNS, **kind)
    table.append(ROWS)
    return table


@pytest.mark.parametrize("kind", KINDS)
def test_pyiceberg_reads_an_own_table_after_each_commit(
    catalog: Catalog, own: OwnCatalog, namespace: str, kind: str
) -> None:
    table = filled(own, f"{namespace}.t", **KINDS[kind])
    table.delete("id = 2")
    table.append([{"id": 9, "v": "new"}])
    table.compact(full=True)
    found = catalog.load_table(f"{namespace}.t")
    assert by_id(found.scan().to_arrow()) == by_id(table.scan().to_arrow())
    assert found.properties["interbed.visible-rows"] == ("compacted" if kind == "keyed" else "all")
    own.alter_table(f"{namespace}.t", [interbed.SchemaChange.add_column("w", "INT")])
    table = own.get_table(f"{namespace}.t")
    table.append([{"id": 10, "v": "wide", "w": 7}])
    table.compact(full=True)
    found.refresh()
    assert by_id(found.scan().to_arrow()) == by_id(table.scan().to_arrow())
    assert found.schema().column_names == ["id", "v", "w"]


@pytest.mark.parametrize("kind", ["partitioned", "vectors"])
def test_the_server_plans_scans_of_an_own_table(
    server: IcebergRest, own: OwnCatalog, namespace: str, kind: str
) -> None:
    table = own.create_table(f"{namespace}.t", COLUMNS, **KINDS[kind])
    with load_catalog("rest", type="rest", uri=server.uri, **{"scan-planning-mode": "server"}) as planning:
        assert planning.load_table(f"{namespace}.t").scan().to_arrow().num_rows == 0
        table.append(ROWS)
        table.delete("id = 2")
        found = planning.load_table(f"{namespace}.t")
        assert by_id(found.scan().to_arrow()) == [ROWS[0], ROWS[1], ROWS[3]]
        assert by_id(found.scan(row_filter="v = 'v3'").to_arrow()) == [ROWS[3]]


def test_an_own_table_is_listed_once_beside_those_of_iceberg(
    server: IcebergRest, catalog: Catalog, hive: Catalog, own: OwnCatalog, namespace: str
) -> None:
    server.create(namespace, "b")
    for name in ("a", "c"):
        own.create_table(f"{namespace}.{name}", COLUMNS)
    own.create_table(f"{namespace}.p", COLUMNS, options={"metadata.iceberg.storage": "hadoop-catalog"})
    assert catalog.list_tables(namespace) == [(namespace, name) for name in "abcp"]
    first = server.call("GET", f"namespaces/{namespace}/tables?pageToken=&pageSize=3").expect(200)
    assert [each["name"] for each in first["identifiers"]] == ["a", "b", "c"]
    rest = server.call("GET", f"namespaces/{namespace}/tables?pageToken={first['next-page-token']}&pageSize=3")
    assert [each["name"] for each in rest.expect(200)["identifiers"]] == ["p"]
    assert catalog.table_exists(f"{namespace}.a")
    assert catalog.list_views(namespace) == []
    # Clients of Hive metastores see what they saw.
    assert hive.list_tables(namespace) == [(namespace, "b")]
    with pytest.raises(NoSuchTableError):
        hive.load_table(f"{namespace}.a")


def test_a_table_without_rows_is_empty(catalog: Catalog, own: OwnCatalog, namespace: str) -> None:
    own.create_table(f"{namespace}.t", COLUMNS)
    found = catalog.load_table(f"{namespace}.t")
    assert found.scan().to_arrow().num_rows == 0
    own.get_table(f"{namespace}.t").append(ROWS)
    assert by_id(found.refresh().scan().to_arrow()) == ROWS


def test_the_identity_stays_when_a_table_is_renamed(catalog: Catalog, own: OwnCatalog, namespace: str) -> None:
    filled(own, f"{namespace}.t")
    before = catalog.load_table(f"{namespace}.t").metadata.table_uuid
    own.rename_table(f"{namespace}.t", f"{namespace}.u")
    found = catalog.load_table(f"{namespace}.u")
    assert found.metadata.table_uuid == before
    assert by_id(found.scan().to_arrow()) == ROWS
    with pytest.raises(NoSuchTableError):
        catalog.load_table(f"{namespace}.t")


def test_unchanged_metadata_are_not_sent_again(server: IcebergRest, own: OwnCatalog, namespace: str) -> None:
    table = filled(own, f"{namespace}.t")
    path = f"namespaces/{namespace}/tables/t"
    first = server.call("GET", path)
    tag = first.headers["etag"]
    assert server.call("GET", path, headers={"If-None-Match": tag}).status == 304
    assert server.call("GET", f"{path}?snapshots=refs", headers={"If-None-Match": tag}).status == 200
    table.append(ROWS)
    table.versions.create_tag("kept", 1)
    table.append(ROWS)
    again = server.call("GET", path, headers={"If-None-Match": tag})
    assert [each["snapshot-id"] for each in again.expect(200)["metadata"]["snapshots"]] == [1, 2, 3]
    refs = server.call("GET", f"{path}?snapshots=refs").expect(200)["metadata"]
    assert [each["snapshot-id"] for each in refs["snapshots"]] == [1, 3]


def test_each_change_is_refused_and_names_the_way_out(
    server: IcebergRest, catalog: Catalog, own: OwnCatalog, namespace: str
) -> None:
    table = filled(own, f"{namespace}.t")
    server.create(namespace, "ice")
    tables, entry = f"namespaces/{namespace}/tables", {"namespace": [namespace], "name": "t"}
    update = [set_properties(a="1")]
    transaction = {
        "table-changes": [
            {"identifier": {"namespace": [namespace], "name": name}, "requirements": [], "updates": update}
            for name in ("ice", "t")
        ]
    }
    renamed = {"source": entry, "destination": {**entry, "name": "u"}}
    for answer in (
        server.commit(namespace, "t", [], update),
        server.call("POST", "transactions/commit", transaction),
        server.call("POST", "tables/rename", renamed),
        server.call("POST", f"{tables}/t/unregister"),
        server.call("DELETE", f"{tables}/t"),
        server.call("DELETE", f"{tables}/t?purgeRequested=true"),
    ):
        assert "/paimon" in answer.error(403, "ForbiddenException")
    assert "a" not in catalog.load_table(f"{namespace}.ice").properties
    onto = {"source": {**entry, "name": "ice"}, "destination": entry}
    location = server.call("GET", f"{tables}/ice").expect(200)["metadata-location"]
    for answer in (
        server.call("POST", "tables/rename", onto),
        server.call("POST", f"namespaces/{namespace}/register", {"name": "t", "metadata-location": location}),
        server.call("POST", tables, {"name": "t", "schema": SCHEMA}),
        server.call("POST", tables, {"name": "t", "schema": SCHEMA, "stage-create": True}),
        server.call("POST", f"namespaces/{namespace}/views", new_view("t")),
    ):
        answer.error(409, "AlreadyExistsException")
    with pytest.raises(TableAlreadyExistsError):
        catalog.create_table(f"{namespace}.t", COLUMNS)
    with pytest.raises(ForbiddenError):
        catalog.drop_table(f"{namespace}.t")
    assert by_id(own.get_table(f"{namespace}.t").scan().to_arrow()) == ROWS == by_id(table.scan().to_arrow())


def test_a_table_that_iceberg_lacks_is_refused_by_name(catalog: Catalog, own: OwnCatalog, namespace: str) -> None:
    filled(own, f"{namespace}.t", options={"file.format": "orc"})
    assert catalog.list_tables(namespace) == [(namespace, "t")]
    with pytest.raises(BadRequestError, match=r"cannot be read as an Iceberg table.*file\.format"):
        catalog.load_table(f"{namespace}.t")


def test_published_metadata_are_served_under_both_names(
    server: IcebergRest, catalog: Catalog, own: OwnCatalog, namespace: str
) -> None:
    options = {
        "metadata.iceberg.storage": "rest-catalog",
        "metadata.iceberg.rest.uri": server.uri,
        "metadata.iceberg.table": "published",
    }
    table = filled(own, f"{namespace}.t", options=options)
    assert catalog.list_tables(namespace) == [(namespace, "published"), (namespace, "t")]
    for name in ("published", "t"):
        assert by_id(catalog.load_table(f"{namespace}.{name}").scan().to_arrow()) == ROWS
    table.append([{"id": 9, "v": "new"}])
    for name in ("published", "t"):
        assert catalog.load_table(f"{namespace}.{name}").scan().to_arrow().num_rows == 5
    assert not Path(table.location, ".iceberg").exists()


def test_a_server_serves_own_tables_only_if_a_setting_says_so_and_writes_where_one_says(tmp_path: Path) -> None:
    root = f"file:{tmp_path}/made"
    for setting, names in (("off", []), ("on", [("shop", "t")])):
        directory = tmp_path / setting
        directory.mkdir()
        arguments = ("--iceberg-own-tables", setting, "--iceberg-metadata-root", root)
        with (
            rest_server(f"sqlite:///{directory}/metastore.db", directory, *arguments) as server,
            interbed.load_catalog("own", metastore="hive", uri=server.metastore.uri) as own,
            load_catalog("rest", type="rest", uri=server.uri) as catalog,
        ):
            own.create_database("shop")
            table = filled(own, "shop.t")
            assert catalog.list_tables("shop") == names
            assert catalog.table_exists("shop.t") == bool(names)
            if names:
                found = catalog.load_table("shop.t")
                assert by_id(found.scan().to_arrow()) == ROWS
                assert found.metadata_location.startswith(f"{tmp_path}/made/{found.metadata.table_uuid}/")
            else:
                with pytest.raises(NoSuchTableError):
                    catalog.drop_table("shop.t")
            assert not Path(table.location, ".iceberg").exists()


@pytest.mark.long
def test_duckdb_reads_own_tables_and_changes_none(server: IcebergRest, own: OwnCatalog, namespace: str) -> None:
    expected = []
    statements = [f"ATTACH '' AS lake (TYPE iceberg, ENDPOINT '{server.uri}', AUTHORIZATION_TYPE 'none')"]
    for number, kind in enumerate(KINDS.values()):
        table = filled(own, f"{namespace}.t{number}", **kind)
        table.delete("id = 2")
        table.append([{"id": 9, "v": "new"}])
        table.compact(full=True)
        expected.append([[str(row["id"]), row["v"]] for row in by_id(table.scan().to_arrow())])
        statements.append(f"SELECT * FROM lake.{namespace}.t{number} ORDER BY id")
    filled(own, f"{namespace}.orc", options={"file.format": "orc"})
    statements += [
        f"SELECT name FROM (SHOW TABLES FROM lake.{namespace}) ORDER BY name",
        f"DROP TABLE lake.{namespace}.t0",
        f"SELECT count(*) FROM lake.{namespace}.t0",
    ]
    found = read_by_others([("duckdb", each) for each in statements])
    assert [rows for rows, _ in found[1:-3]] == expected
    assert found[-3][0] == [["orc"], ["t0"], ["t1"], ["t2"], ["t3"]]
    assert "cannot be changed here" in (found[-2][1] or "")
    assert found[-1][0] == [["4"]]
