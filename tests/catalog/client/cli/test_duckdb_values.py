"""Values that DuckDB would hand to Arrow changed are refused: in statements, as rows of a relation, in output."""

from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

import interbed
from interbed.storage.base.errors import SchemaMismatchError
from tests.catalog.client.cli.test_exact_statements import done, make, sql

REFUSED: dict[str, tuple[str, pa.DataType, str]] = {
    "UHUGEINT": ("340282366920938463463374607431768211455::UHUGEINT", pa.decimal128(38, 0), "has the type UHUGEINT"),
    "a small UHUGEINT": ("1::UHUGEINT", pa.decimal128(38, 0), "has the type UHUGEINT"),
    "39 digits": ("100000000000000000000000000000000000000::HUGEINT", pa.decimal128(38, 0), "no more than 38 digits"),
    "a list of UHUGEINT": ("[1::UHUGEINT]", pa.list_(pa.decimal128(38, 0)), r"has the type UHUGEINT\[\]"),
    "TIMETZ": ("TIMETZ '23:30:00-08'", pa.time32("ms"), "has the type TIME WITH TIME ZONE"),
    "24:00": ("TIME '24:00:00'", pa.time32("ms"), "a TIME is from 00:00:00 to before 24:00:00"),
    "24:00 in a list": (
        "[NULL, TIME '24:00']",
        pa.list_(pa.time32("ms")),
        "a TIME is from 00:00:00 to before 24:00:00",
    ),
    "24:00 in a row": (
        "{'t': TIME '24:00'}",
        pa.struct([("t", pa.time32("ms"))]),
        "a TIME is from 00:00:00 to before 24:00:00",
    ),
    "BIT": ("'101'::BIT", pa.binary(), "has the type BIT"),
    "BIGNUM": ("123::BIGNUM", pa.binary(), "has the type BIGNUM"),
    "infinity": ("DATE 'infinity'", pa.date32(), r"infinite in row 0 \(counted from 0\)"),
    "-infinity": ("TIMESTAMP '-infinity'", pa.timestamp("us"), "infinite in row 0"),
    "an infinite instant": ("TIMESTAMPTZ 'infinity'", pa.timestamp("us", "UTC"), "infinite in row 0"),
    "an infinite date in a list": ("[DATE '2024-01-01', DATE 'infinity']", pa.list_(pa.date32()), "infinite in row 0"),
    "an infinite date in a row": ("{'d': DATE 'infinity'}", pa.struct([("d", pa.date32())]), "infinite in row 0"),
    "an infinite date in a map": (
        "MAP {'k': DATE '-infinity'}",
        pa.map_(pa.string(), pa.date32()),
        "infinite in row 0",
    ),
}


@pytest.fixture
def lake(tmp_path: Path) -> interbed.Catalog:
    lake = interbed.load_catalog(warehouse=tmp_path / "lake")
    lake.create_database("s")
    return lake


@pytest.mark.parametrize("kind", REFUSED)
def test_values_that_duckdb_changes_are_refused(lake: interbed.Catalog, kind: str) -> None:
    value, column, message = REFUSED[kind]
    table = make(lake, ("x", column))
    table.append([{"id": 0, "x": None}])
    before = table.latest_snapshot()
    for statement in (
        f"INSERT INTO s.t SELECT 1, {value}",
        f"INSERT INTO s.t VALUES (1, {value})",
        f"UPDATE s.t SET x = {value}",
        f"MERGE INTO s.t USING (SELECT 0 AS id, {value} AS x) AS n ON t.id = n.id WHEN MATCHED THEN UPDATE SET x = n.x",
        f"MERGE INTO s.t USING (SELECT 9 AS id, {value} AS x) AS n ON t.id = n.id WHEN NOT MATCHED THEN INSERT *",
    ):
        result = sql(lake, statement)
        assert (result.exit_code, "Traceback" in result.output) == (1, False), (statement, result.output)
        with pytest.raises(SchemaMismatchError, match=message):
            raise SchemaMismatchError(result.output.replace("\n", " "))
    connection = duckdb.connect()
    for take in (table.append, table.overwrite):
        with pytest.raises(SchemaMismatchError, match=message):
            take(connection.sql(f"SELECT 1::BIGINT AS id, {value} AS x"))
    # The connection can be used again.
    assert connection.sql("SELECT 1").fetchall() == [(1,)]
    assert table.latest_snapshot() == before


@pytest.mark.parametrize(
    "kind", ["UHUGEINT", "TIMETZ", "BIT", "BIGNUM", "a list of UHUGEINT", "24:00", "24:00 in a list", "24:00 in a row"]
)
def test_values_that_duckdb_changes_are_not_printed(lake: interbed.Catalog, kind: str) -> None:
    value, _, message = REFUSED[kind]
    result = sql(lake, f"SELECT {value} AS x")
    assert (result.exit_code, "cast it to" in result.output) == (1, True)
    with pytest.raises(SchemaMismatchError, match=message):
        raise SchemaMismatchError(result.output)


def test_a_time_of_a_file_is_not_printed_as_another_one(lake: interbed.Catalog, tmp_path: Path) -> None:
    file = tmp_path / "times.csv"
    file.write_text("t\n23:59:59\n24:00:00\n")
    result = sql(lake, f"SELECT * FROM '{file}'")
    assert (result.exit_code, "24:00:00 in row 1" in result.output) == (1, True), result.output
    result = sql(lake, f"SELECT t::VARCHAR AS t FROM '{file}'")
    assert (result.exit_code, "24:00:00" in result.output) == (0, True), result.output


def test_finite_values_are_accepted(lake: interbed.Catalog) -> None:
    table = make(lake, ("x", pa.date32()), ("y", pa.decimal128(38, 0)), ("z", pa.time32("ms")))
    largest = "9" * 38
    done(lake, f"INSERT INTO s.t SELECT 1, DATE '9999-12-31', {largest}::HUGEINT, '23:59:59.999'::TIME")
    query = "SELECT 2::BIGINT AS id, DATE '0001-01-01' AS x, 1::HUGEINT AS y, TIME '00:00' AS z"
    table.append(duckdb.connect().sql(query))
    assert table.scan().count() == 2
