"""Hive reads tables that interbed created and wrote, and finds the same rows as interbed's own scan."""

import itertools
from typing import Any

import duckdb
import pytest

import interbed
from interbed.storage.base.types.data_type import AtomicType, TypeRoot
from interbed.storage.meta.schema.change import AddColumn, DropColumn, RenameColumn, UpdateColumnType
from tests.golden.values import NESTED, SCALARS
from tests.support.peers.hive import HiveServer2
from tests.support.peers.hive_values import MetastoreTable, hive_comparable, metastore_table
from tests.support.peers.json import TypeJson, comparable, parse_type
from tests.support.servers.metastore import MetastoreUnderTest
from tests.support.shares import each_run

_numbers = itertools.count(1)

SECOND = 1_000_000_000


def _readable(of: TypeJson, values: list[Any]) -> list[Any]:
    """Return the values that the connector can read: no fractions of seconds before 1970 in a TIMESTAMP without a time
    zone.
    """
    if isinstance(of, str) and of.startswith("TIMESTAMP") and "ZONE" not in of:
        return [value for value in values if value >= 0 or value % SECOND == 0]
    if of == {"type": "ARRAY", "element": "TIMESTAMP(9)"}:
        return [[value for value in row if value is None or value >= 0] for row in values]
    return values


# Types that Hive has a name for and the connector reads: no MULTISET.
TYPES: list[tuple[TypeJson, list[Any]]] = [
    (of, _readable(of, values)) for of, values in [*SCALARS.items(), *NESTED] if "MULTISET" not in str(of)
]


@pytest.fixture
def table(catalog: interbed.Catalog) -> MetastoreTable:
    """A table that does not exist yet."""
    return metastore_table(catalog, f"lake.t{next(_numbers)}")


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("keyed", "partitioned"),
    each_run(itertools.product([True, False], [False, True]), lambda case: case[0] == case[1]),
    ids=["keyed-whole", "keyed-partitioned", "append-whole", "append-partitioned"],
)
def test_all_types_are_read_before_and_after_upserts_deletes_and_compaction(
    hive: HiveServer2, table: MetastoreTable, keyed: bool, partitioned: bool
) -> None:
    columns: list[tuple[str, TypeJson]] = [("p", "STRING NOT NULL"), ("id", "INT NOT NULL")]
    columns += [(f"c{i}", of) for i, (of, _) in enumerate(TYPES)]
    types = [parse_type(of) for _, of in columns]
    partition = ["p"] if partitioned else []
    table.create(
        columns,
        primary_keys=[*partition, "id"] if keyed else [],
        partition_keys=partition,
        options={"bucket": "2", "write-only": "true"} if keyed else {},
    )
    assert _read_by_both(hive, table) == []

    turns = max(len(values) for _, values in TYPES)
    rows: list[list[Any]] = [["ab"[i % 2], i, *(values[i % len(values)] for _, values in TYPES)] for i in range(turns)]
    rows.append(["c", turns, *(None for _ in TYPES)])
    table.write(rows)
    assert _read_by_both(hive, table) == comparable(rows, types)

    again = [[*rows[i][:2], *rows[i + 1][2:]] for i in range(0, turns, 2)]
    table.write(again)
    expected = {row[1]: row for row in [*rows, *again]} if keyed else dict(enumerate([*rows, *again]))
    if keyed:
        for key in (1, 4):
            table.write([expected.pop(key)], kinds=["-D"])
        table.write([rows[4]])
        expected[4] = rows[4]
    assert _read_by_both(hive, table) == comparable(expected.values(), types)
    table.compact()
    assert _read_by_both(hive, table) == comparable(expected.values(), types)


# For every type that supports conditions: values in ascending order, and their SQL in both engines.
ORDERED: list[tuple[str, list[Any], list[str]]] = [
    ("TINYINT", [-128, -1, 0, 5, 127], ["-128", "-1", "0", "5", "127"]),
    ("SMALLINT", [-32768, -1, 0, 5, 32767], ["-32768", "-1", "0", "5", "32767"]),
    ("INT", [-(2**31), -1, 0, 5, 2**31 - 1], ["-2147483648", "-1", "0", "5", "2147483647"]),
    ("BIGINT", [-(2**63) + 1, -1, 0, 5, 2**63 - 1], ["-9223372036854775807", "-1", "0", "5", "9223372036854775807"]),
    ("FLOAT", ["-1.5", "-0.25", "0.0", "2.5", "Infinity"], ["-1.5", "-0.25", "0.0", "2.5", "1e39"]),
    ("DOUBLE", ["-2.5e+300", "-0.25", "0.0", "0.1", "1e+308"], ["-2.5e+300", "-0.25", "0.0", "0.1", "1e308"]),
    (
        "DECIMAL(9, 2)",
        ["-9999999.99", "-1.00", "0.00", "1.50", "9999999.99"],
        ["-9999999.99", "-1", "0", "1.5", "9999999.99"],
    ),
    (
        "DECIMAL(38, 10)",
        ["-9999999999999999999999999999.9999999999", "-1.0000000000", "0.0000000001", "1.5000000000", "2.0000000000"],
        ["-9999999999999999999999999999.9999999999", "-1.0", "0.0000000001", "1.5", "2.0"],
    ),
    ("CHAR(3)", ["abc", "abd", "bcd", "xyz", "äöü"], ["'abc'", "'abd'", "'bcd'", "'xyz'", "'äöü'"]),
    (
        "VARCHAR(20)",
        ["", "a", "it is", "longer than seven", "日本"],
        ["''", "'a'", "'it is'", "'longer than seven'", "'日本'"],
    ),
    ("STRING", ["", "a", "b", "longer than seven", "🦆"], ["''", "'a'", "'b'", "'longer than seven'", "'🦆'"]),
    (
        "DATE",
        [-719162, -1, 0, 19782, 2932896],
        [f"DATE '{day}'" for day in ("0001-01-01", "1969-12-31", "1970-01-01", "2024-02-29", "9999-12-31")],
    ),
    (
        "TIMESTAMP(3)",
        [-SECOND, 0, SECOND // 2, 1_709_210_096_123 * 1_000_000, 4_102_444_800 * SECOND],
        [
            f"TIMESTAMP '{moment}'"
            for moment in (
                "1969-12-31 23:59:59",
                "1970-01-01 00:00:00",
                "1970-01-01 00:00:00.5",
                "2024-02-29 12:34:56.123",
                "2100-01-01 00:00:00",
            )
        ],
    ),
]


@pytest.fixture(scope="module")
def ordered(catalog: interbed.Catalog) -> MetastoreTable:
    """Table with all values twice in separate files, so that conditions exclude files, and with a row of nulls."""
    table = metastore_table(catalog, "lake.ordered")
    columns = [("id", "INT NOT NULL"), ("flag", "BOOLEAN"), *((f"c{i}", of) for i, (of, _, _) in enumerate(ORDERED))]
    table.create(columns, primary_keys=["id"], options={"bucket": "1", "write-only": "true"})
    for i in range(5):
        row = [i % 2 == 0, *(values[i] for _, values, _ in ORDERED)]
        table.write([[2 * i, *row], [2 * i + 1, *row]])
    table.write([[10, *(None for _ in columns[1:])]])
    return table


# One number type; patterns of texts are in the test below, and all types take too long.
OF_EACH_RUN = ("DECIMAL(38, 10)",)


@pytest.mark.parametrize(
    "number",
    each_run(range(len(ORDERED)), lambda number: ORDERED[number][0] in OF_EACH_RUN),
    ids=[of for of, _, _ in ORDERED],
)
def test_conditions_on_every_type_find_the_same_rows(hive: HiveServer2, ordered: MetastoreTable, number: int) -> None:
    column = f"c{number}"
    least, low, middle, high, most = ORDERED[number][2]
    conditions = {
        f"{column} = {middle}": [4, 5],
        f"{column} <> {middle}": [0, 1, 2, 3, 6, 7, 8, 9],
        f"{column} < {middle}": [0, 1, 2, 3],
        f"{column} <= {low}": [0, 1, 2, 3],
        f"{column} > {high}": [8, 9],
        f"{column} >= {high} AND id > 6": [7, 8, 9],
        f"{column} BETWEEN {low} AND {high}": [2, 3, 4, 5, 6, 7],
        f"{column} IN ({least}, {high})": [0, 1, 6, 7],
        f"{column} NOT IN ({least}, {high})": [2, 3, 4, 5, 8, 9],
        f"{column} IS NULL": [10],
        f"{column} IS NOT NULL": list(range(10)),
        f"{column} = {least} OR {column} >= {most}": [0, 1, 8, 9],
        f"NOT ({column} < {middle} OR id = 5)": [4, 6, 7, 8, 9],
    }
    if column == f"c{[of for of, _, _ in ORDERED].index('FLOAT')}":
        # A number too large for a FLOAT is not a literal of it.
        conditions = {condition: ids for condition, ids in conditions.items() if most not in condition}
    for condition, ids in conditions.items():
        ours = sorted(row[0] for row in ordered.read(columns=["id"], filter=condition).rows)
        theirs = sorted(int(row[0] or 0) for row in hive.run(f"SELECT id FROM {ordered.name} WHERE {condition}").rows)
        assert (ours, theirs) == (ids, ids), condition


@pytest.mark.long
def test_conditions_on_booleans_and_patterns_find_the_same_rows(hive: HiveServer2, ordered: MetastoreTable) -> None:
    text = f"c{[of for of, _, _ in ORDERED].index('STRING')}"
    for condition in ("flag", "NOT flag", "flag = false", "flag IS NULL", f"{text} LIKE 'lon%'", f"{text} LIKE '%n%'"):
        ours = sorted(row[0] for row in ordered.read(columns=["id"], filter=condition).rows)
        theirs = sorted(int(row[0] or 0) for row in hive.run(f"SELECT id FROM {ordered.name} WHERE {condition}").rows)
        assert ours
        assert ours == theirs, condition


@pytest.fixture(scope="module")
def shop(catalog: interbed.Catalog) -> duckdb.DuckDBPyConnection:
    """DuckDB over interbed's scans of the lake's orders and customers, under the names that Hive uses."""
    orders = metastore_table(catalog, "lake.orders")
    orders.create(
        [
            ("dt", "DATE NOT NULL"),
            ("id", "BIGINT NOT NULL"),
            ("customer", "INT"),
            ("price", "DECIMAL(10, 2)"),
            ("weight", "DOUBLE"),
        ],
        primary_keys=["dt", "id"],
        partition_keys=["dt"],
        options={"bucket": "2", "write-only": "true"},
    )
    rows = [[19000 + i % 3, i, i % 7 if i % 11 else None, f"{i % 50}.{i % 100:02}", str(i / 4)] for i in range(200)]
    orders.write(rows)
    orders.write([[*row[:3], "99.99", None] for row in rows[::5]])
    orders.write(rows[10:20], kinds=["-D"] * 10)
    customers = metastore_table(catalog, "lake.customers")
    customers.create([("id", "INT"), ("name", "STRING")])
    customers.write([[i, f"customer {i} ü"] for i in range(1, 10)])
    connection = duckdb.connect()
    connection.execute("CREATE SCHEMA lake")
    for table in (orders, customers):
        connection.register("scan", table.load().scan().to_arrow())
        connection.execute(f"CREATE TABLE {table.name} AS SELECT * FROM scan")
    return connection


QUERIES = [
    "SELECT count(*) FROM lake.orders",
    "SELECT dt, count(*), count(weight), sum(price), min(price), max(weight) FROM lake.orders GROUP BY dt ORDER BY dt",
    "SELECT customer, count(DISTINCT dt) AS days, avg(weight) FROM lake.orders WHERE dt > DATE '2022-01-08'"
    " GROUP BY customer HAVING count(*) > 3 ORDER BY customer NULLS FIRST",
    "SELECT id, price FROM lake.orders WHERE price > 40 ORDER BY price DESC, id LIMIT 7",
    "SELECT c.name, sum(o.price) AS total FROM lake.orders o JOIN lake.customers c ON o.customer = c.id"
    " WHERE o.dt = DATE '2022-01-09' GROUP BY c.name ORDER BY total DESC, c.name",
    "SELECT c.name, o.id FROM lake.customers c LEFT JOIN lake.orders o ON o.customer = c.id AND o.id < 10"
    " ORDER BY c.name, o.id NULLS FIRST",
    "SELECT id FROM lake.customers WHERE id NOT IN (SELECT customer FROM lake.orders WHERE customer IS NOT NULL)"
    " ORDER BY id",
    "SELECT 'o' AS kind, max(id) FROM lake.orders UNION ALL SELECT 'c' AS kind, max(id) FROM lake.customers"
    " ORDER BY kind",
]


# A join with an aggregate and a condition on a partition.
@pytest.mark.long
@pytest.mark.parametrize("query", each_run(QUERIES, lambda query: query == QUERIES[4]))
def test_queries_have_the_results_of_duckdb_over_interbeds_scans(
    hive: HiveServer2, shop: duckdb.DuckDBPyConnection, query: str
) -> None:
    expected = [[None if value is None else str(value) for value in row] for row in shop.execute(query).fetchall()]
    assert expected
    found = hive.run(query)
    numbers = [i for i, of in enumerate(found.types) if of in ("double", "decimal")]
    assert _rounded(found.rows, numbers) == _rounded(expected, numbers)


def test_hive_reads_an_evolved_schema(hive: HiveServer2, table: MetastoreTable, catalog: interbed.Catalog) -> None:
    table.create(
        [("id", "INT NOT NULL"), ("name", "STRING"), ("old", "INT")], primary_keys=["id"], options={"bucket": "1"}
    )
    table.write([[1, "a", 1], [2, "b", 2]])
    string, bigint = AtomicType(root=TypeRoot.VARCHAR, length=2**31 - 1), AtomicType(root=TypeRoot.BIGINT)
    catalog.alter_table(table.name, [AddColumn("note", string, description="new"), UpdateColumnType("old", bigint)])
    table.write([[2, "c", 2**40, "x"], [3, "d", 3, None]])
    assert _read_by_both(hive, table) == [[1, "a", 1, None], [2, "c", 2**40, "x"], [3, "d", 3, None]]
    catalog.alter_table(table.name, [RenameColumn("name", "title"), DropColumn("old")])
    table.write([[4, "e", "y"]])
    assert _read_by_both(hive, table) == [[1, "a", None], [2, "c", "x"], [3, "d", None], [4, "e", "y"]]
    described = hive.run(f"DESCRIBE {table.name}")
    assert [row[:2] for row in described.rows] == [["id", "int"], ["title", "string"], ["note", "string"]]
    assert described.rows[2][2] == "new"
    assert hive.run(f"SELECT id FROM {table.name} WHERE note IS NULL AND id < 3").rows == [["1"]]


@pytest.mark.long
@pytest.mark.parametrize("keyed", each_run([True, False], bool), ids=["keyed", "append"])
def test_partitions_in_the_metastore_are_hives_partitions(
    hive: HiveServer2, table: MetastoreTable, keyed: bool
) -> None:
    # With legacy names, a DATE partition is named by its number of days, which Hive cannot read.
    options = {"metastore.partitioned-table": "true", "partition.legacy-name": "false"}
    table.create(
        [("id", "INT NOT NULL"), ("v", "STRING"), ("dt", "DATE NOT NULL"), ("h", "INT NOT NULL")],
        primary_keys=["dt", "h", "id"] if keyed else [],
        partition_keys=["dt", "h"],
        options={**options, **({"bucket": "1"} if keyed else {})},
    )
    assert hive.run(f"SHOW PARTITIONS {table.name}").rows == []
    table.write([[1, "a", 19000, 1], [2, "b", 19000, 2], [3, "c", 19001, 1]])
    table.write([[1, "A", 19000, 1], [4, "d", 19002, 1]])
    names = ["dt=2022-01-08/h=1", "dt=2022-01-08/h=2", "dt=2022-01-09/h=1", "dt=2022-01-10/h=1"]
    assert hive.run(f"SHOW PARTITIONS {table.name}").column("partition") == names
    assert len(_read_by_both(hive, table)) == (4 if keyed else 5)
    found = hive.run(f"SELECT id, v, h FROM {table.name} WHERE dt = DATE '2022-01-08' AND h > 1")
    assert found.rows == [["2", "b", "2"]]
    grouped = hive.run(f"SELECT dt, max(v) FROM {table.name} WHERE dt > DATE '2022-01-08' GROUP BY dt ORDER BY dt")
    assert grouped.rows == [["2022-01-09", "c"], ["2022-01-10", "d"]]


def test_show_and_describe_return_what_interbed_registered(
    hive: HiveServer2, metastore: MetastoreUnderTest, catalog: interbed.Catalog
) -> None:
    catalog.create_database("shown", properties={"comment": "to look at", "k": "v"})
    table = metastore_table(catalog, "shown.things")
    table.create(
        [("dt", "STRING NOT NULL"), ("id", "INT NOT NULL"), ("place", {"type": "ARRAY", "element": "DECIMAL(5, 1)"})],
        primary_keys=["dt", "id"],
        partition_keys=["dt"],
        options={"bucket": "3"},
    )
    assert {"default", "lake", "shown"} <= set(hive.run("SHOW DATABASES").column("database_name"))
    assert hive.run("SHOW DATABASES LIKE 'sho%'").rows == [["shown"]]
    assert hive.run("SHOW TABLES IN shown").rows == [["things"]]
    assert hive.run("SHOW TABLES IN shown LIKE 'no%'").rows == []
    location = f"file:{metastore.warehouse}/shown.db"
    database = hive.run("DESCRIBE DATABASE EXTENDED shown")
    assert database.column("comment") == ["to look at"]
    assert database.column("location") == [location]
    assert database.column("parameters") == ["{k=v}"]
    details = {(row[0] or "").strip() or (row[1] or "").strip(): row for row in _described(hive, "shown.things")}
    assert (details["Location:"][1] or "").strip() == f"{location}/things"
    assert (details["Table Type:"][1] or "").strip() == "MANAGED_TABLE"
    assert (details["SerDe Library:"][1] or "").strip() == "org.apache.paimon.hive.PaimonSerDe"
    assert (details["primary-key"][2] or "").strip() == "dt,id"
    assert (details["partition"][2] or "").strip() == "dt"
    assert (details["bucket"][2] or "").strip() == "3"
    created = " ".join(row[0] or "" for row in hive.run("SHOW CREATE TABLE shown.things").rows)
    assert "`place` array<decimal(5,1)>" in created
    assert "STORED BY    'org.apache.paimon.hive.PaimonStorageHandler'" in created
    hive.run("CREATE VIEW shown.looks AS SELECT id FROM shown.things")
    assert catalog.list_tables("shown") == ["things"]
    table.write([["a", 1, ["1.5"]]])
    assert hive.run("SELECT * FROM shown.looks").rows == [["1"]]
    hive.run("DROP VIEW shown.looks")
    hive.run("DROP DATABASE shown CASCADE")
    assert not catalog.database_exists("shown")
    assert not (metastore.warehouse / "shown.db").exists()


@pytest.mark.long
def test_the_next_statement_reads_a_new_commit(hive: HiveServer2, table: MetastoreTable) -> None:
    table.create([("id", "INT NOT NULL"), ("v", "INT")], primary_keys=["id"], options={"bucket": "1"})
    for value in range(5):
        table.write([[1, value]])
        assert hive.run(f"SELECT v FROM {table.name}").rows == [[str(value)]]


def _read_by_both(hive: HiveServer2, table: MetastoreTable) -> list[list[Any]]:
    """Return the rows of the table after asserting that Hive and interbed read the same."""
    ours = table.read()
    theirs = hive.run(f"SELECT * FROM {table.name}")
    assert theirs.names == ours.names
    assert hive_comparable(theirs, ours.types) == ours.comparable()
    return ours.comparable()


def _described(hive: HiveServer2, name: str) -> list[list[str | None]]:
    return hive.run(f"DESCRIBE FORMATTED {name}").rows


def _rounded(rows: list[list[str | None]], numbers: list[int]) -> list[list[object]]:
    """Return the rows with these columns as numbers of nine digits."""
    return [
        [float(f"{float(value):.9g}") if i in numbers and value is not None else value for i, value in enumerate(row)]
        for row in rows
    ]
