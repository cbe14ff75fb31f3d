"""DuckDB reads and writes tables by the server's Iceberg REST catalog."""

from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog

import interbed.testing
from tests.iceberg.publish.readers import read_by_others

COLUMNS = pa.schema((pa.field("id", pa.int64()), pa.field("v", pa.string())))


@pytest.mark.long
def test_duckdb_reads_and_writes_tables_of_the_catalog(tmp_path: Path) -> None:
    with (
        interbed.testing.metastore(warehouse=f"file:{tmp_path}/lake") as uri,
        load_catalog("ice", type="rest", uri=uri.iceberg) as catalog,
    ):
        catalog.create_namespace("shop")
        table = catalog.create_table("shop.orders", COLUMNS)
        table.append(pa.table({"id": [1, 2], "v": ["a", "b"]}))
        statements = [
            f"ATTACH '' AS lake (TYPE iceberg, ENDPOINT '{uri.iceberg}', AUTHORIZATION_TYPE 'none')",
            "SELECT * FROM lake.shop.orders ORDER BY id",
            "INSERT INTO lake.shop.orders VALUES (3, 'c')",
            "DELETE FROM lake.shop.orders WHERE id = 1",
            "SELECT * FROM lake.shop.orders ORDER BY id",
            "CREATE SCHEMA lake.other",
            "CREATE TABLE lake.other.made (x INTEGER, y VARCHAR)",
            "SELECT * FROM lake.other.made",
        ]
        found = read_by_others([("duckdb", each) for each in statements])
        assert [error for _, error in found] == [None] * len(statements)
        rows = [rows for rows, _ in found]
        assert rows[1] == [["1", "a"], ["2", "b"]]
        assert rows[4] == [["2", "b"], ["3", "c"]]
        assert rows[7] == []
        assert catalog.load_table("shop.orders").scan().to_arrow().sort_by("id").to_pydict()["v"] == ["b", "c"]
        assert catalog.list_tables("other") == [("other", "made")]
