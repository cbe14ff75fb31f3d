"""Another catalog of the metastore by REST: its databases, tables, views and functions are not those of `hive`."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import interbed
from interbed.catalog.client.hive.catalog import HiveCatalog
from interbed.storage.meta.schema.change import SchemaChange
from tests.catalog.server.rest.paimon.conftest import RestClient
from tests.support.servers.metastore import MetastoreUnderTest, plain_client
from tests.support.servers.paimon_rest import rest_options

ID = pa.schema([("id", pa.int64())])


def _opened(rest: RestClient) -> interbed.Catalog:
    return interbed.load_catalog("test", **rest_options(f"http://127.0.0.1:{rest.port}/paimon", rest.prefix))


def test_a_catalog_is_found_by_its_name_and_by_its_location(lake: RestClient, server: MetastoreUnderTest) -> None:
    for warehouse in ("lake", "LAKE", f"file:{server.warehouse.parent / 'lake'}"):
        assert lake.call("GET", "config", query={"warehouse": warehouse}).body["overrides"] == {"prefix": "lake"}
    answer = lake.call("GET", "config", query={"warehouse": "pond"})
    assert answer.status == 404
    assert "Name one of the catalogs: hive, lake" in answer.body["message"]


def test_tables_of_one_name_are_two_tables(
    lake: RestClient, rest: RestClient, hive: HiveCatalog, server: MetastoreUnderTest, database: str
) -> None:
    with _opened(lake) as catalog:
        assert database not in catalog.list_databases()
        catalog.create_database(database)
        of_hive, of_lake = (each.create_table(f"{database}.t", ID) for each in (hive, catalog))
        of_hive.append([{"id": 1}])
        of_lake.append([{"id": 2}])
        of_lake.append([{"id": 3}])
        assert hive.get_table(f"{database}.t").to_arrow().to_pylist() == [{"id": 1}]
        found = catalog.get_table(f"{database}.t")
        assert sorted(row["id"] for row in found.to_arrow().to_pylist()) == [2, 3]
        assert Path(found.location).is_relative_to(server.warehouse.parent / "lake")
        path = ("databases", database, "tables", "t")
        assert lake.get(*path)["id"] != rest.get(*path)["id"]
        assert lake.get("databases", database)["id"] != rest.get("databases", database)["id"]
        with plain_client(server.port) as client:
            entry: Any = client.get_table(f"@lake#{database}", "t")
            assert entry.catName == "lake"
            assert entry.parameters["interbed.current-snapshot-id"] == "2"
        catalog.drop_table(f"{database}.t")
        catalog.drop_database(database)
    assert hive.get_table(f"{database}.t").count() == 1


def test_tables_change_their_schemas_names_and_versions(lake: RestClient, hive: HiveCatalog, database: str) -> None:
    with _opened(lake) as catalog:
        catalog.create_database(database)
        table = catalog.create_table(f"{database}.t", ID)
        table.append([{"id": 1}])
        catalog.alter_table(f"{database}.t", SchemaChange.add_column("x", "INT"))
        lake.post("databases", database, "tables", "t", "rollback-schema", body={"schemaId": 0})
        catalog.rename_table(f"{database}.t", f"{database}.u")
        table = catalog.get_table(f"{database}.u")
        assert table.schema.names == ("id",)
        table.append([{"id": 2}])
        table.versions.rollback_to(1)
        assert catalog.get_table(f"{database}.u").to_arrow().to_pylist() == [{"id": 1}]
    assert hive.list_tables(database) == []


def test_partitions_are_those_of_the_catalog(lake: RestClient, hive: HiveCatalog, database: str) -> None:
    with _opened(lake) as catalog:
        catalog.create_database(database)
    lake.create_table(database, "t", partitioned=True)
    with _opened(lake) as catalog:
        catalog.get_table(f"{database}.t").append(pa.table({"dt": ["a", "b"], "id": [1, 2]}))
    found = lake.get("databases", database, "tables", "t", "partitions")["partitions"]
    assert [each["spec"] for each in found] == [{"dt": "b"}, {"dt": "a"}]
    assert hive.list_tables(database) == []


@pytest.mark.parametrize(
    ("noun", "body"),
    [
        ("views", {"schema": {"fields": [{"id": 0, "name": "x", "type": "INT"}], "query": "SELECT 1 AS x"}}),
        ("functions", {"name": "v", "definitions": {"sql": {"type": "sql", "definition": "1"}}}),
    ],
)
def test_views_and_functions_are_those_of_the_catalog(
    lake: RestClient, rest: RestClient, database: str, noun: str, body: dict[str, object]
) -> None:
    lake.post("databases", body={"name": database})
    lake.post("databases", database, noun, body={"identifier": {"database": database, "object": "v"}, **body})
    assert lake.get("databases", database, noun)[noun] == ["v"]
    assert lake.get(noun, databaseNamePattern=database)[noun] == [{"database": database, "object": "v"}]
    assert rest.get("databases", database, noun)[noun] == []
    lake.delete("databases", database, noun, "v")
