"""Every type of PostgreSQL as a column: the same in the initial copy and in changes."""

import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from interbed.ingest.flow.messages import BadMessageError
from tests.ingest.shop import lake
from tests.ingest.sources.postgres.database import Database

UTC = datetime.UTC

COLUMNS: dict[str, tuple[str, str, list[tuple[str, Any]]]] = {
    "boolean": ("boolean", "BOOLEAN", [("true", True), ("false", False)]),
    "small": ("smallint", "SMALLINT", [("-32768", -32768)]),
    "int": ("integer", "INT", [("2147483647", 2147483647)]),
    "big": ("bigint", "BIGINT", [("-9223372036854775808", -(2**63))]),
    "oid": ("oid", "BIGINT", [("4294967295", 4294967295)]),
    "real": ("real", "FLOAT", [("0.5", 0.5), ("'-Infinity'", float("-inf"))]),
    "double": ("float8", "DOUBLE", [("0.1", 0.1), ("5e-324", 5e-324), ("'Infinity'", float("inf")), ("-0.0", 0.0)]),
    "price": ("numeric(10,2)", "DECIMAL(10, 2)", [("-99999999.99", Decimal("-99999999.99")), ("1", Decimal("1.00"))]),
    "exact": ("numeric(38,38)", "DECIMAL(38, 38)", [("0.1", Decimal("0.1"))]),
    "loose": ("numeric", "STRING", [("1e30", "1" + "0" * 30), ("1.50", "1.50"), ("'NaN'", "NaN")]),
    "wide": ("numeric(40,2)", "STRING", [("1.5", "1.50")]),
    "rounded": ("numeric(3,-2)", "STRING", [("12345", "12300")]),
    "text": ("text", "STRING", [("''", ""), (r"E'é\"\\''\n\r\t,\x01☃'", "é\"\\'\n\r\t,\x01☃"), ("'NULL'", "NULL")]),
    "varchar": ("varchar(5)", "STRING", [("'abc'", "abc"), (r"'\N'", r"\N"), (r"'\.'", r"\.")]),
    "padded": ("char(5)", "STRING", [("'abc'", "abc  ")]),
    "letter": ('"char"', "STRING", [("'x'", "x")]),
    "name": ("name", "STRING", [("'n'", "n")]),
    "bytes": ("bytea", "BYTES", [(r"'\x00ff'", b"\x00\xff"), ("''", b"")]),
    "day": ("date", "DATE", [("'0001-01-01'", datetime.date(1, 1, 1)), ("'9999-12-31'", datetime.date(9999, 12, 31))]),
    "moment": (
        "timestamp",
        "TIMESTAMP(6)",
        [
            ("'1901-02-03 04:05:06.123456'", datetime.datetime(1901, 2, 3, 4, 5, 6, 123456)),
            ("'2024-01-01'", datetime.datetime(2024, 1, 1)),
        ],
    ),
    "millis": (
        "timestamp(3)",
        "TIMESTAMP(3)",
        [("'2024-01-01 00:00:00.25'", datetime.datetime(2024, 1, 1, microsecond=250000))],
    ),
    "zoned": (
        "timestamptz",
        "TIMESTAMP(6) WITH LOCAL TIME ZONE",
        [("'2024-07-01 00:00:00.5+02'", datetime.datetime(2024, 6, 30, 22, 0, 0, 500000, UTC))],
    ),
    "clock": (
        "time",
        "STRING",
        [("'10:20:30'", "10:20:30.000000"), ("'24:00'", "24:00:00.000000"), ("'1:2:3.45'", "01:02:03.450000")],
    ),
    "short": ("time(3)", "TIME(3)", [("'10:20:30.25'", datetime.time(10, 20, 30, 250000))]),
    "clocktz": ("timetz", "STRING", [("'10:20:30+02'", "10:20:30+02")]),
    "interval": ("interval", "STRING", [("'1 year 2 days 3:04'", "1 year 2 days 03:04:00")]),
    "uid": ("uuid", "STRING", [("'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11")]),
    "json": ("json", "STRING", [("""'{"a":  1}'""", '{"a":  1}')]),
    "jsonb": ("jsonb", "STRING", [("""'{"a":  1}'""", '{"a": 1}'), ("'null'", "null")]),
    "inet": ("inet", "STRING", [("'10.0.0.1/8'", "10.0.0.1/8")]),
    "bits": ("bit(3)", "STRING", [("B'101'", "101")]),
    "money": ("money", "STRING", [("'1234.5'", "$1,234.50")]),
    "range": ("int4range", "STRING", [("'[1,5)'", "[1,5)")]),
    "point": ("point", "STRING", [("'(1,2)'", "(1,2)")]),
    "mood": ("mood", "STRING", [("'sad'", "sad")]),
    "domain": ("amount", "DECIMAL(8, 3)", [("1.5", Decimal("1.500"))]),
    "pair": ("pair", "STRING", [("ROW(1, 'x y')", '(1,"x y")')]),
    "ints": ("int[]", "ARRAY<INT>", [("'{1,NULL,-3}'", [1, None, -3]), ("'{}'", []), ("'[0:1]={1,2}'", [1, 2])]),
    "texts": (
        "text[]",
        "ARRAY<STRING>",
        [
            (
                r"""ARRAY['a,b', 'c"d\', 'NULL', NULL, '', '{}', ' x ']""",
                ["a,b", 'c"d\\', "NULL", None, "", "{}", " x "],
            ),
            ("'{a,b}'", ["a", "b"]),
        ],
    ),
    "prices": ("numeric(5,1)[]", "ARRAY<DECIMAL(5, 1)>", [("'{1.5}'", [Decimal("1.5")])]),
    "moments": (
        "timestamp[]",
        "ARRAY<TIMESTAMP(6)>",
        [("""'{"2024-01-01 00:00:00"}'""", [datetime.datetime(2024, 1, 1)])],
    ),
    "moods": ("mood[]", "ARRAY<STRING>", [("'{sad,happy}'", ["sad", "happy"])]),
    "amounts": ("amounts", "ARRAY<DECIMAL(8, 3)>", [("'{1.5}'", [Decimal("1.5")])]),
    "blobs": ("bytea[]", "ARRAY<BYTES>", [(r"ARRAY['\x01'::bytea]", [b"\x01"])]),
}
"""PostgreSQL's type, the column's type, and values: as SQL literals and as the table returns them."""

ROWS = max(len(values) for _, _, values in COLUMNS.values()) + 1


def create(database: Database) -> None:
    database.execute("CREATE TYPE mood AS ENUM ('sad', 'happy')", "CREATE DOMAIN amount AS numeric(8, 3)")
    database.execute("CREATE DOMAIN amounts AS amount[]", "CREATE TYPE pair AS (a int, b text)")
    columns = ", ".join(f'"{name}" {kind}' for name, (kind, _, _) in COLUMNS.items())
    database.execute(
        f"CREATE TABLE types (id int PRIMARY KEY, {columns}, twice int GENERATED ALWAYS AS (id * 2) STORED)"
    )


def insert(database: Database, first: int) -> None:
    """Insert rows with all values, and one of nulls."""
    names = ", ".join(f'"{name}"' for name in COLUMNS)
    for i in range(ROWS):
        values = [values[i][0] if i < len(values) else "NULL" for _, _, values in COLUMNS.values()]
        database.execute(f"INSERT INTO types (id, {names}) VALUES ({first + i}, {', '.join(values)})")


def wanted(first: int) -> list[dict[str, Any]]:
    return [
        {"id": first + i}
        | {name: values[i][1] if i < len(values) else None for name, (_, _, values) in COLUMNS.items()}
        for i in range(ROWS)
    ]


def test_values_are_the_same_in_the_initial_copy_and_in_changes(database: Database, tmp_path: Path) -> None:
    catalog = lake(tmp_path)
    create(database)
    insert(database, 0)
    database.read(catalog)
    insert(database, ROWS)
    database.read(catalog)
    table = catalog.get_table("shop.types")
    found = sorted(table.scan().to_arrow().to_pylist(), key=lambda row: row["id"])
    for row, expected in zip(found, wanted(0) + wanted(ROWS), strict=True):
        assert row == expected
    types = {f.name: str(f.type) for f in table.schema.fields}
    assert types == {"id": "INT NOT NULL"} | {name: kind for name, (_, kind, _) in COLUMNS.items()}


def test_nan_is_nan_as_a_float(database: Database, tmp_path: Path) -> None:
    catalog = lake(tmp_path)
    database.execute("CREATE TABLE t (id int PRIMARY KEY, f real, d float8)")
    database.execute("INSERT INTO t VALUES (1, 'NaN', 'NaN')")
    database.read(catalog)
    [row] = catalog.get_table("shop.t").scan().to_arrow().to_pylist()
    assert repr((row["f"], row["d"])) == "(nan, nan)"


BAD = {
    "date": ("'infinity'", "an infinite date or time cannot be stored in a table"),
    "timestamp": ("'-infinity'", "an infinite date or time cannot be stored in a table"),
    "timestamptz": ("'0044-03-15 BC'", "it is outside of the years 1 to 9999"),
    "numeric(5,2)": ("'NaN'", "which is no value of it"),
    "int[]": ("'{{1,2},{3,4}}'", "it has more than one dimension"),
    "text[]": ("""'{{"a,b"},{c}}'""", "it has more than one dimension"),
    "time(3)": ("'24:00'", "which is no value of it"),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_value_outside_of_its_column_range_is_bad(database: Database, tmp_path: Path, kind: str) -> None:
    value, reason = BAD[kind]
    catalog = lake(tmp_path)
    database.execute(f"CREATE TABLE t (id int PRIMARY KEY, v {kind})")
    database.execute(f"INSERT INTO t VALUES (1, NULL), (2, {value})")
    with pytest.raises(BadMessageError, match=r"first state of public\.t, .* offset 1 .*" + reason):
        database.read(catalog)
    database.execute("DELETE FROM t WHERE id = 2")
    database.read(catalog)
    database.execute(f"INSERT INTO t VALUES (3, {value}), (4, NULL)")
    with pytest.raises(BadMessageError, match=reason):
        database.read(catalog)
