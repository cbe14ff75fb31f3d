"""Hive inserts rows into interbed's tables, and creates tables in Paimon's format that interbed reads and writes."""

from decimal import Decimal

import pyarrow as pa
import pytest

import interbed
from interbed.storage.base.types.data_type import type_to_json
from tests.golden.values import b64
from tests.support.peers.hive import HiveServer2
from tests.support.peers.hive_values import hive_comparable, metastore_table
from tests.support.peers.process import PeerError
from tests.support.servers.metastore import MetastoreUnderTest

STORED_BY = "STORED BY 'org.apache.paimon.hive.PaimonStorageHandler'"


@pytest.mark.sample(1)
@pytest.mark.parametrize("keyed", [True, False], ids=["keyed", "append"])
def test_rows_of_all_types_that_hive_inserts_are_read_by_interbed(
    hive: HiveServer2, catalog: interbed.Catalog, keyed: bool
) -> None:
    table = metastore_table(catalog, f"lake.{'keyed' if keyed else 'appended'}")
    table.create(
        [
            ("id", "INT NOT NULL"),
            ("b", "BOOLEAN"),
            ("t", "TINYINT"),
            ("s", "SMALLINT"),
            ("l", "BIGINT"),
            ("f", "FLOAT"),
            ("d", "DOUBLE"),
            ("n", "DECIMAL(10, 2)"),
            ("c", "CHAR(3)"),
            ("v", "VARCHAR(10)"),
            ("x", "STRING"),
            ("y", "BYTES"),
            ("dt", "DATE"),
            ("ts", "TIMESTAMP(3)"),
            ("a", {"type": "ARRAY", "element": "INT"}),
            ("m", {"type": "MAP", "key": "STRING", "value": "INT"}),
            (
                "r",
                {
                    "type": "ROW",
                    "fields": [{"id": 0, "name": "p", "type": "INT"}, {"id": 1, "name": "q", "type": "STRING"}],
                },
            ),
        ],
        primary_keys=["id"] if keyed else [],
        options={"bucket": "1"} if keyed else {},
    )
    first: list[object] = [1, True, 1, 2, 2**40, "0.5", "0.1", "1.50", "abc", "ü", "old", b64(b"\x00\xff"), 1, 0]
    first += [[1, None], [["k", 1]], [1, "q"]]
    table.write([first])
    hive.run(
        f"INSERT INTO {table.name} SELECT 2, false, cast(-128 AS TINYINT), cast(-1 AS SMALLINT), cast(5 AS BIGINT),"
        " cast(1.5 AS FLOAT), cast(-2.5 AS DOUBLE), cast(9.75 AS DECIMAL(10,2)), cast('xyz' AS CHAR(3)),"
        " cast('日本' AS VARCHAR(10)), 'it is 🦆', cast('bytes' AS BINARY), DATE '2024-02-29',"
        " TIMESTAMP '2024-02-29 12:34:56.789', array(1, 2), map('k', 7), named_struct('p', 3, 'q', 'w')"
    )
    second: list[object] = [
        2,
        False,
        -128,
        -1,
        5,
        "1.5",
        "-2.5",
        "9.75",
        "xyz",
        "日本",
        "it is 🦆",
        b64(b"bytes"),
        19782,
    ]
    second += [1_709_210_096_789 * 1_000_000, [1, 2], [["k", 7]], [3, "w"]]
    assert sorted(table.read().rows, key=str) == [first, second]
    columns = table.read().names
    hive.run(f"INSERT INTO {table.name} (id, x) VALUES (1, 'new')")
    third = [1 if name == "id" else "new" if name == "x" else None for name in columns]
    rows = [third, second] if keyed else [first, second, third]
    assert sorted(table.read().rows, key=str) == sorted(rows, key=str)
    assert hive_comparable(hive.run(f"SELECT * FROM {table.name}"), table.types()) == table.read().comparable()


def test_hive_and_interbed_write_one_partitioned_table_in_turns(hive: HiveServer2, catalog: interbed.Catalog) -> None:
    table = metastore_table(catalog, "lake.turns")
    table.create(
        [("dt", "STRING NOT NULL"), ("id", "INT NOT NULL"), ("v", "STRING")],
        primary_keys=["dt", "id"],
        partition_keys=["dt"],
        options={"bucket": "1"},
    )
    table.write([["a", 1, "interbed"], ["b", 1, "interbed"]])
    # One reducer: the connector's committer fails when several map tasks write.
    hive.run(f"INSERT INTO {table.name} SELECT 'b', id, 'hive' FROM {table.name} WHERE dt = 'a' ORDER BY id")
    hive.run(f"INSERT INTO {table.name} VALUES ('c', 3, 'hive')")
    table.write([["c", 3, "interbed again"]])
    expected = [["a", 1, "interbed"], ["b", 1, "hive"], ["c", 3, "interbed again"]]
    assert table.read().comparable() == expected
    assert hive_comparable(hive.run(f"SELECT * FROM {table.name}"), table.types()) == expected
    table.compact()
    assert hive_comparable(hive.run(f"SELECT * FROM {table.name}"), table.types()) == expected


def test_interbed_uses_a_table_that_hive_created(
    hive: HiveServer2, catalog: interbed.Catalog, metastore: MetastoreUnderTest
) -> None:
    hive.run(
        "CREATE TABLE lake.made (id INT COMMENT 'the key', name STRING, amount DECIMAL(10,2))"
        f" COMMENT 'by hive' {STORED_BY} TBLPROPERTIES ('primary-key'='id', 'bucket'='1')"
    )
    assert "made" in catalog.list_tables("lake")
    made = catalog.get_table("lake.made")
    assert made.primary_keys == ["id"]
    assert made.schema.comment == "by hive"
    assert [(f.name, type_to_json(f.type), f.description) for f in made.fields] == [
        ("id", "INT NOT NULL", "the key"),
        ("name", "STRING", None),
        ("amount", "DECIMAL(10, 2)", None),
    ]
    made.upsert(
        pa.table({"id": [1, 2], "name": ["a", None], "amount": [Decimal("1.50"), None]}, schema=made.arrow_schema)
    )
    hive.run("INSERT INTO lake.made VALUES (2, 'ü', 3.25)")
    found = catalog.get_table("lake.made").scan().to_arrow().to_pylist()
    assert sorted(found, key=lambda row: row["id"]) == [
        {"id": 1, "name": "a", "amount": Decimal("1.50")},
        {"id": 2, "name": "ü", "amount": Decimal("3.25")},
    ]
    assert sorted(hive.run("SELECT * FROM lake.made").rows) == [["1", "a", "1.50"], ["2", "ü", "3.25"]]
    with pytest.raises(PeerError, match="already exists"):
        hive.run(f"CREATE TABLE lake.made (id INT) {STORED_BY}")
    hive.run("DROP TABLE lake.made")
    assert not catalog.table_exists("lake.made")
    assert not (metastore.warehouse / "lake.db" / "made").exists()


@pytest.mark.long
def test_interbed_reads_partitioned_and_external_tables_that_hive_created(
    hive: HiveServer2, catalog: interbed.Catalog, metastore: MetastoreUnderTest
) -> None:
    hive.run(f"CREATE TABLE lake.parts (id INT, v STRING) PARTITIONED BY (dt STRING) {STORED_BY}")
    parts = catalog.get_table("lake.parts")
    assert parts.partition_keys == ["dt"]
    parts.append(pa.table({"id": [1, 2], "v": ["a", "b"], "dt": ["x", "y"]}, schema=parts.arrow_schema))
    assert hive.run("SHOW PARTITIONS lake.parts").column("partition") == ["dt=x", "dt=y"]
    assert hive.run("SELECT * FROM lake.parts WHERE dt = 'y'").rows == [["2", "b", "y"]]
    elsewhere = f"file:{metastore.warehouse}/lake.db/parts"
    hive.run(f"CREATE EXTERNAL TABLE lake.outside {STORED_BY} LOCATION '{elsewhere}'")
    assert sorted(hive.run("SELECT id, dt FROM lake.outside").rows) == [["1", "x"], ["2", "y"]]
    assert hive.run("SELECT id, v FROM lake.outside WHERE dt = 'y'").rows == [["2", "b"]]
    assert catalog.get_table("lake.outside").scan().count() == 2
    hive.run("DROP TABLE lake.outside")
    assert catalog.get_table("lake.parts").scan().count() == 2


@pytest.mark.long
def test_hive_does_not_find_tables_that_interbed_dropped_or_renamed(
    hive: HiveServer2, catalog: interbed.Catalog
) -> None:
    table = metastore_table(catalog, "lake.moving")
    table.create([("id", "INT NOT NULL")], primary_keys=["id"], options={"bucket": "1"})
    table.write([[1]])
    assert hive.run("SELECT * FROM lake.moving").rows == [["1"]]
    catalog.rename_table("lake.moving", "lake.moved")
    assert hive.run("SELECT * FROM lake.moved").rows == [["1"]]
    with pytest.raises(PeerError, match=r"(?i)table not found"):
        hive.run("SELECT * FROM lake.moving")
    catalog.drop_table("lake.moved")
    assert hive.run("SHOW TABLES IN lake LIKE 'mov%'").rows == []
