"""Format tables of the REST interface: interbed's catalogs, Java Paimon and pypaimon read and write the same files."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import interbed
from interbed.catalog.client.hive.catalog import HiveCatalog
from interbed.catalog.client.rest.catalog import RestCatalog
from interbed.storage.table.format_table.format_table import FormatTable
from tests.catalog.server.rest.paimon.conftest import RestClient
from tests.support.format_tables import arrow_schema, rows_of
from tests.support.peers.interbed import fields_of
from tests.support.peers.java import JavaPaimon
from tests.support.peers.json import comparable, parse_type, rows_to_table, table_to_rows
from tests.support.peers.pypaimon import PyPaimon
from tests.support.waits import at_most

SCHEMA = arrow_schema([("id", pa.int64()), ("Name", pa.string()), ("at", pa.time32("ms")), ("dt", pa.string())])
OPTIONS = {"type": "format-table", "file.format": "csv"}

TYPES: list[tuple[str, Any]] = [
    ("b", "BOOLEAN"),
    ("i", "INT"),
    ("l", "BIGINT"),
    ("f", "DOUBLE"),
    ("d", "DECIMAL(20, 3)"),
    ("s", "STRING"),
    ("x", "BYTES"),
    ("day", "DATE"),
    ("ts", "TIMESTAMP(6)"),
    ("k", "STRING"),
]
ROWS: list[list[Any]] = [
    [True, -1, 2**62, "1.5", "12345678901234567.125", 'a,"b\\c', "AP8=", 20_000, 1_000_000_000, "one"],
    [None, None, None, None, None, None, None, None, None, "one"],
    [False, 7, -5, "-0.25", "-0.001", "é 😀", "", -1, -5_000_000_000, "two/ x"],
]


@pytest.fixture
def catalog(rest: RestClient) -> Iterator[RestCatalog]:
    """interbed's REST catalog on the server."""
    options = {"metastore": "rest", "uri": f"http://127.0.0.1:{rest.port}/paimon", "warehouse": "hive"}
    with interbed.load_catalog("r", **options, **{"token.provider": "bear", "token": "none"}) as opened:
        assert isinstance(opened, RestCatalog)
        yield opened


@pytest.fixture(scope="module")
def java() -> Iterator[JavaPaimon]:
    """Run the peer in Java."""
    with JavaPaimon(timeout_seconds=at_most(240)) as peer:
        yield peer


@pytest.fixture(scope="module")
def pypaimon() -> Iterator[PyPaimon]:
    """Run pypaimon in its own environment."""
    with PyPaimon(timeout_seconds=at_most(120)) as peer:
        yield peer


def test_a_format_table_is_created_listed_read_and_dropped(
    catalog: RestCatalog, hive: HiveCatalog, rest: RestClient, database: str
) -> None:
    name = f"{database}.f"
    created: Any = catalog.create_table(name, SCHEMA, partition_keys=["dt"], options=OPTIONS, comment="files")
    assert isinstance(created, FormatTable)
    created.append([{"id": 1, "Name": "a", "at": None, "dt": "x"}])
    found: Any = catalog.get_table(name)
    # All columns as they were created, although Hive's types have no TIME, nor capital letters.
    assert (found.arrow_schema, found.partition_keys, found.schema.comment) == (SCHEMA, ["dt"], "files")
    of_metastore: Any = hive.get_table(name)
    assert rows_of(found) == rows_of(of_metastore) == [(1, "a", None, "x")]
    path = ("databases", database, "tables")
    assert rest.get(*path, tableType="format-table")["tables"] == ["f"]
    assert rest.get(*path, tableType="table")["tables"] == []
    assert catalog.list_tables(database) == catalog.list_format_tables(database) == ["f"]
    details = rest.get("databases", database, "table-details")["tableDetails"]
    assert [each["schema"]["options"]["type"] for each in details] == ["format-table"]
    assert rest.get("tables", "id", details[0]["id"])["name"] == "f"
    assert [p.spec for p in catalog.list_partitions(name)] == [{"dt": "x"}]
    catalog.drop_partitions(name, {"dt": "x"})
    assert found.count() == 0
    catalog.drop_table(name)
    assert catalog.list_tables(database) == []


def test_an_external_format_table_keeps_its_files(catalog: RestCatalog, database: str, tmp_path: Path) -> None:
    name = f"{database}.f"
    options = {**OPTIONS, "path": f"file:{tmp_path}/outside"}
    table: Any = catalog.create_table(name, SCHEMA, options=options)
    table.append([{"id": 1, "Name": "a", "at": None, "dt": "x"}])
    catalog.drop_table(name)
    assert len(list((tmp_path / "outside").glob("data-*"))) == 1


@pytest.mark.long
@pytest.mark.parametrize("file_format", ["csv", "json", "parquet", "orc"])
def test_java_and_interbed_read_what_the_other_wrote(
    catalog: RestCatalog, java: JavaPaimon, database: str, file_format: str
) -> None:
    name = f"{database}.{file_format}"
    types = [parse_type(of) for _, of in TYPES]
    names = [column for column, _ in TYPES]
    # An empty text is the null literal of CSV, and is refused there.
    rows = [[None if file_format == "csv" and value == "" else value for value in row] for row in ROWS]
    schema = interbed.Schema(
        fields=fields_of(TYPES), partition_keys=("k",), options={**OPTIONS, "file.format": file_format}
    )
    table: Any = catalog.create_table(name, schema)
    table.append(rows_to_table(rows, names, types))
    peer = java.table(catalog.client.uri, name)
    assert peer.read_files().comparable() == comparable(rows, types)
    # Java Paimon 1.4.2 writes no escape before a backslash in CSV, and reads its own file without it.
    theirs = [[v.replace("\\", "") if isinstance(v, str) else v for v in row] for row in rows]
    peer.write_files(theirs)
    assert comparable(table_to_rows(table.to_arrow(), types), types) == comparable([*rows, *theirs], types)
    peer.write_files(theirs[:1], overwrite={"k": "one"})
    left = [theirs[0], rows[2], rows[2]]
    assert comparable(table_to_rows(table.to_arrow(), types), types) == comparable(left, types)


@pytest.mark.long
@pytest.mark.parametrize("file_format", ["json", "parquet", "orc"])
def test_pypaimon_and_interbed_read_what_the_other_wrote(
    catalog: RestCatalog, pypaimon: PyPaimon, database: str, file_format: str
) -> None:
    name = f"{database}.{file_format}"
    schema = arrow_schema([("id", pa.int64()), ("v", pa.string()), ("k", pa.string())])
    options = {**OPTIONS, "file.format": file_format}
    table: Any = catalog.create_table(name, schema, partition_keys=["k"], options=options)
    table.append([{"id": 1, "v": "a", "k": "x"}, {"id": 2, "v": "b", "k": "y"}])
    peer = pypaimon.table(catalog.client.uri, name)
    assert sorted(peer.read_arrow().select(["id", "v", "k"]).to_pylist(), key=lambda row: row["id"]) == [
        {"id": 1, "v": "a", "k": "x"},
        {"id": 2, "v": "b", "k": "y"},
    ]
    # pypaimon writes the partition column into its files, too.
    peer.write([[3, "c", "y"]])
    assert rows_of(table) == [(1, "a", "x"), (2, "b", "y"), (3, "c", "y")]
