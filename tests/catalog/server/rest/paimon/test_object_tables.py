"""Object tables by REST, Hive and file-system catalogs: interbed, Java Paimon and pypaimon list the same files."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import interbed
from interbed.catalog.client.hive.catalog import HiveCatalog
from interbed.catalog.client.rest.catalog import RestCatalog
from tests.catalog.server.rest.paimon.conftest import RestClient
from tests.support.peers.java import JavaPaimon
from tests.support.peers.pypaimon import PyPaimon
from tests.support.servers.metastore import MetastoreUnderTest
from tests.support.servers.paimon_rest import rest_options
from tests.support.waits import at_most

OPTIONS = {"type": "object-table"}
COLUMNS = ["path", "name", "length", "mtime", "atime", "owner"]


@pytest.fixture
def catalog(rest: RestClient) -> Iterator[RestCatalog]:
    """interbed's REST catalog on the server."""
    with interbed.load_catalog("r", **rest_options(f"http://127.0.0.1:{rest.port}/paimon", "hive")) as opened:
        assert isinstance(opened, RestCatalog)
        yield opened


@pytest.fixture(scope="module")
def java() -> Iterator[JavaPaimon]:
    """Run the peer in Java."""
    with JavaPaimon(timeout_seconds=at_most(240)) as peer:
        yield peer


def filled(location: str) -> Path:
    """Write three files into the directory of a table, and return it."""
    directory = Path("/", location.removeprefix("file:").lstrip("/"))
    for path in ("one", "a b/two.png", "a b/c=d/thréé"):
        (directory / path).parent.mkdir(parents=True, exist_ok=True)
        (directory / path).write_bytes(path.encode())
    return directory


def listed(table: Any) -> list[list[Any]]:
    """Return the rows of a table, sorted by path."""
    return sorted(list(row.values()) for row in table.scan().to_arrow().to_pylist())


def test_an_object_table_is_listed_by_its_type(
    catalog: RestCatalog, hive: HiveCatalog, rest: RestClient, database: str
) -> None:
    name = f"{database}.o"
    created = catalog.create_table(name, pa.schema([]), options={**OPTIONS, "team": "a"}, comment="pictures")
    filled(created.location)
    rows = listed(catalog.get_table(name))
    assert [row[0] for row in rows] == ["a b/c=d/thréé", "a b/two.png", "one", "schema/schema-0"]
    assert listed(hive.get_table(name)) == rows
    path = ("databases", database, "tables")
    rest.create_table(database, "with_columns", partitioned=False, **OPTIONS)
    assert [field.name for field in hive.get_table(f"{database}.with_columns").fields] == COLUMNS
    catalog.drop_table(f"{database}.with_columns")
    assert rest.get(*path, tableType="object-table")["tables"] == ["o"]
    assert rest.get(*path, tableType="table")["tables"] == []
    details = rest.get("databases", database, "table-details")["tableDetails"]
    assert [field["name"] for field in details[0]["schema"]["fields"]] == COLUMNS
    assert (details[0]["schema"]["options"]["team"], details[0]["schema"]["comment"]) == ("a", "pictures")
    assert rest.get("tables", "id", details[0]["id"])["name"] == "o"
    for operation in (("snapshot",), ("branches",), ("tags",), ("partitions",)):
        assert rest.call("GET", "hive", *path, "o", *operation).status == 501
    catalog.rename_table(name, f"{database}.p")
    assert [row[0] for row in listed(hive.get_table(f"{database}.p"))] == [row[0] for row in rows]
    catalog.drop_table(f"{database}.p")
    assert catalog.list_tables(database) == []


def test_an_object_table_is_no_iceberg_table(catalog: RestCatalog, server: MetastoreUnderTest, database: str) -> None:
    from pyiceberg.catalog import load_catalog
    from pyiceberg.exceptions import BadRequestError

    catalog.create_table(f"{database}.o", pa.schema([]), options=OPTIONS)
    catalog.create_table(f"{database}.t", pa.schema([("id", pa.int64())]))
    with load_catalog("ice", type="rest", uri=f"{server.http}/iceberg") as ice:
        assert ice.list_tables(database) == [(database, "t")]
        with pytest.raises(BadRequestError, match="cannot be read as an Iceberg table"):
            ice.load_table(f"{database}.o")


@pytest.mark.long
def test_java_and_interbed_list_the_same_files_by_rest(
    catalog: RestCatalog, java: JavaPaimon, database: str, tmp_path: Path
) -> None:
    java.table(catalog.client.uri, f"{database}.theirs").create([], options=OPTIONS)
    catalog.create_table(f"{database}.ours", pa.schema([]), options=OPTIONS)
    outside = {**OPTIONS, "path": f"file:{tmp_path}/outside"}
    java.table(catalog.client.uri, f"{database}.outside").create([], options=outside)
    for name in ("theirs", "ours", "outside"):
        table = catalog.get_table(f"{database}.{name}")
        filled(table.location)
        found = java.table(catalog.client.uri, f"{database}.{name}").system()
        assert list(found.names) == COLUMNS
        assert sorted(found.rows) == listed(table)
        assert len(found.rows) == 4


@pytest.mark.long
def test_java_lists_the_files_of_a_table_in_a_directory(java: JavaPaimon, tmp_path: Path) -> None:
    with interbed.load_catalog("files", warehouse=f"file:{tmp_path}") as catalog:
        catalog.create_database("d")
        table = catalog.create_table("d.o", pa.schema([]), options=OPTIONS)
        filled(table.location)
        assert sorted(java.table(str(tmp_path), "d.o").system().rows) == listed(table)


@pytest.mark.long
def test_pypaimon_lists_the_same_files(catalog: RestCatalog, database: str) -> None:
    table = catalog.create_table(f"{database}.o", pa.schema([]), options=OPTIONS)
    filled(table.location)
    with PyPaimon(timeout_seconds=at_most(120)) as peer:
        found = peer.table(catalog.client.uri, f"{database}.o").read_arrow()
    # It has no times of local files.
    figures = [[*row[:3], None] for row in listed(table)]
    assert sorted([*row[:3], row[5]] for row in map(list, map(dict.values, found.to_pylist()))) == figures
