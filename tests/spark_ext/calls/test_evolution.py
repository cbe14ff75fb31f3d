"""ALTER TABLE of columns and nested fields, and defaults."""

import pytest

from interbed import load_catalog
from interbed.storage.table.table import Table
from tests.spark_ext.conftest import SparkLake


def table_of(lake: SparkLake, name: str) -> Table:
    """Return the table as Python sees it."""
    return load_catalog(warehouse=str(lake.warehouse)).get_table(name)


def columns(lake: SparkLake, table: str) -> list[tuple[str, str]]:
    """Return names and types of a table's columns, as Spark shows them."""
    return lake.frame(f"SELECT * FROM {{lake}}.{table}").dtypes


def test_nested_fields_are_altered_and_old_files_are_read(lake: SparkLake) -> None:
    lake.sql(
        "CREATE TABLE {lake}.db.t (id INT, s STRUCT<a: INT, b: STRING>, l ARRAY<STRUCT<x: INT>>, "
        "m MAP<STRING, STRUCT<y: INT>>, n ARRAY<INT>)"
    )
    lake.sql(
        "INSERT INTO {lake}.db.t VALUES (1, named_struct('a', 1, 'b', 'one'), array(named_struct('x', 10)), "
        "map('k', named_struct('y', 100)), array(7))"
    )

    lake.sql(
        "ALTER TABLE {lake}.db.t ADD COLUMNS (s.c DOUBLE COMMENT 'third' FIRST, l.element.z STRING, top DATE AFTER id)"
    )
    lake.sql("ALTER TABLE {lake}.db.t ADD COLUMN m.value.w INT")
    lake.sql("ALTER TABLE {lake}.db.t RENAME COLUMN s.b TO label")
    lake.sql("ALTER TABLE {lake}.db.t ALTER COLUMN s.a TYPE BIGINT")
    lake.sql("ALTER TABLE {lake}.db.t ALTER COLUMN s.a AFTER label")
    lake.sql("ALTER TABLE {lake}.db.t ALTER COLUMN n.element TYPE BIGINT")
    lake.sql("ALTER TABLE {lake}.db.t ALTER COLUMN s.label COMMENT 'of it'")
    lake.sql("ALTER TABLE {lake}.db.t DROP COLUMN m.value.y")
    lake.sql("ALTER TABLE {lake}.db.t DROP COLUMN IF EXISTS s.gone")

    assert columns(lake, "db.t") == [
        ("id", "int"),
        ("top", "date"),
        ("s", "struct<c:double,label:string,a:bigint>"),
        ("l", "array<struct<x:int,z:string>>"),
        ("m", "map<string,struct<w:int>>"),
        ("n", "array<bigint>"),
    ]
    row = lake.sql("SELECT * FROM {lake}.db.t")[0]
    assert row["s"] == (None, "one", 1)
    assert (row["l"], row["m"], row["n"]) == ([(10, None)], {"k": (None,)}, [7])
    assert lake.tuples("SELECT s.a FROM {lake}.db.t WHERE s.label = 'one'") == [(1,)]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("ADD COLUMN s.a INT", "FIELD_ALREADY_EXISTS|FIELDS_ALREADY_EXISTS|already"),
        ("ADD COLUMN k.key.z INT", "map's key"),
        ("ALTER COLUMN s.a TYPE DATE", "INT to DATE|NOT_SUPPORTED_CHANGE_COLUMN"),
        ("ALTER COLUMN id SET NOT NULL", "NOT NULL|nullable"),
        ("ADD COLUMN d INT DEFAULT 5", "SET DEFAULT"),
        ("ALTER COLUMN id SET DEFAULT current_date()", "literal|DEFAULT"),
        ("ALTER COLUMN id SET DEFAULT 1 + 1", "literal"),
        ("ADD CONSTRAINT c CHECK (id > 0)", "do not take the change AddConstraint"),
    ],
)
def test_invalid_alterations_change_nothing(lake: SparkLake, change: str, message: str) -> None:
    lake.sql("CREATE TABLE {lake}.db.t (id INT, s STRUCT<a: INT>, k MAP<STRUCT<q: INT>, INT>)")

    with pytest.raises(Exception, match=message):
        lake.sql(f"ALTER TABLE {{lake}}.db.t {change}")
    assert table_of(lake, "db.t").schema.id == 0


def test_defaults_fill_columns_that_an_insert_omits(lake: SparkLake) -> None:
    lake.sql(
        "CREATE TABLE {lake}.db.t (id INT, b STRING DEFAULT 'it\\'s', c BIGINT DEFAULT 5L, "
        "d DATE DEFAULT DATE '2026-01-31', "
        "e DECIMAL(5, 2) DEFAULT 1.5, f BOOLEAN DEFAULT true, "
        "ts TIMESTAMP_NTZ DEFAULT TIMESTAMP_NTZ '2026-01-31 10:00:00', "
        "tags ARRAY<STRING> DEFAULT ARRAY('x', 'y'), m MAP<STRING, INT> DEFAULT MAP('k', 1), "
        "n STRUCT<x: INT, y: STRING> DEFAULT STRUCT(42, 'z'))"
    )
    stored = {f.name: f.default_value for f in table_of(lake, "db.t").schema.fields}
    assert stored["b"] == "'it's'"
    assert stored["c"] == "5"
    assert stored["d"] == "'2026-01-31'"

    lake.sql("INSERT INTO {lake}.db.t (id) VALUES (1)")
    lake.sql("INSERT INTO {lake}.db.t (id, c, b) VALUES (2, DEFAULT, 'own')")
    lake.sql("INSERT INTO {lake}.db.t BY NAME SELECT 3 AS id, NULL AS c, false AS f")
    rows = {row["id"]: row for row in lake.sql("SELECT * FROM {lake}.db.t")}

    first = rows[1].asDict(recursive=True)
    assert (first["b"], first["c"], str(first["d"]), str(first["e"]), first["f"]) == (
        "it's",
        5,
        "2026-01-31",
        "1.50",
        True,
    )
    assert (str(first["ts"]), first["tags"], first["m"]) == ("2026-01-31 10:00:00", ["x", "y"], {"k": 1})
    assert first["n"] == {"x": 42, "y": "z"}
    assert (rows[2]["b"], rows[2]["c"]) == ("own", 5)
    # A null is replaced, too, as in Java Paimon.
    assert (rows[3]["c"], rows[3]["f"]) == (5, False)

    lake.sql("ALTER TABLE {lake}.db.t ALTER COLUMN c SET DEFAULT 6")
    lake.sql("ALTER TABLE {lake}.db.t ALTER COLUMN b DROP DEFAULT")
    lake.sql("INSERT INTO {lake}.db.t (id) VALUES (4)")
    assert lake.tuples("SELECT b, c FROM {lake}.db.t WHERE id = 4") == [(None, 6)]


def test_a_default_that_is_not_a_literal_is_refused(lake: SparkLake) -> None:
    with pytest.raises(Exception, match="literal"):
        lake.sql("CREATE TABLE {lake}.db.t (id INT, d DATE DEFAULT current_date())")
    for column in (
        "s STRING DEFAULT concat('a', 'b')",
        "s BINARY DEFAULT X'ff00'",
        "s ARRAY<BINARY> DEFAULT array(X'ff')",
    ):
        with pytest.raises(Exception, match="The default of the column 's' is a literal"):
            lake.sql(f"CREATE TABLE {{lake}}.db.t (id INT, {column})")
    assert lake.tuples("SHOW TABLES IN {lake}.db") == []


def test_a_default_of_bytes_is_their_value(lake: SparkLake) -> None:
    lake.sql("CREATE TABLE {lake}.db.t (id INT, b BINARY DEFAULT X'4100', c BINARY DEFAULT cast('abc' AS BINARY))")
    lake.sql("INSERT INTO {lake}.db.t (id) VALUES (1)")
    lake.sql("ALTER TABLE {lake}.db.t ALTER COLUMN b SET DEFAULT X'42'")
    lake.sql("INSERT INTO {lake}.db.t VALUES (2, DEFAULT, DEFAULT)")
    assert lake.tuples("SELECT hex(b), hex(c) FROM {lake}.db.t ORDER BY id") == [("4100", "616263"), ("42", "616263")]


def test_a_default_timestamp_is_in_the_time_zone_of_the_session(lake: SparkLake) -> None:
    zone = lake.spark.conf.get("spark.sql.session.timeZone")
    lake.spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        lake.sql(
            "CREATE TABLE {lake}.db.t (id INT, ts TIMESTAMP DEFAULT timestamp'2020-01-01 00:00:00', "
            "plain TIMESTAMP_NTZ DEFAULT timestamp'2020-01-01 00:00:00', l ARRAY<TIMESTAMP> DEFAULT "
            "array(timestamp'2020-01-01 00:00:00', NULL, timestamp'2019-12-31 21:00:00 America/Los_Angeles'))"
        )
        lake.sql("INSERT INTO {lake}.db.t (id) VALUES (1)")
        lake.sql("INSERT INTO {lake}.db.t VALUES (2, DEFAULT, DEFAULT, DEFAULT)")
        lake.sql("ALTER TABLE {lake}.db.t ALTER COLUMN ts SET DEFAULT timestamp'2020-01-01 05:00:00Z'")
        lake.sql("INSERT INTO {lake}.db.t (id) VALUES (3)")
        found = lake.tuples("SELECT unix_seconds(ts), string(plain), string(l) FROM {lake}.db.t")
    finally:
        lake.spark.conf.set("spark.sql.session.timeZone", str(zone))
    assert found == [(1577854800, "2020-01-01 00:00:00", "[2020-01-01 00:00:00, null, 2020-01-01 00:00:00]")] * 3


def test_a_primary_key_is_declared_as_a_constraint(lake: SparkLake) -> None:
    lake.sql("CREATE TABLE {lake}.db.t (id INT, day STRING, v INT, CONSTRAINT pk PRIMARY KEY (day, id))")
    lake.sql("CREATE TABLE {lake}.db.u (id INT PRIMARY KEY, v INT)")

    assert table_of(lake, "db.t").primary_keys == ["day", "id"]
    assert table_of(lake, "db.u").primary_keys == ["id"]
    for refused in ("(id INT CHECK (id > 0))", "(id INT UNIQUE)"):
        with pytest.raises(Exception, match="nothing would hold"):
            lake.sql(f"CREATE TABLE {{lake}}.db.none {refused}")


def test_generated_columns_are_refused(lake: SparkLake) -> None:
    for refused in ("(id INT, v INT GENERATED ALWAYS AS (id + 1))", "(id BIGINT GENERATED ALWAYS AS IDENTITY)"):
        with pytest.raises(Exception, match=r"(?i)generated|identity"):
            lake.sql(f"CREATE TABLE {{lake}}.db.none {refused}")
