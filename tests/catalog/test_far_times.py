"""Dates and times beyond Python's types are read, shown and compared wherever they can be written."""

import csv
import io
import json
from collections.abc import Callable
from datetime import date, datetime
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pytest
from click.testing import CliRunner

import interbed
from interbed.cli import main
from interbed.storage.base.predicate.json import from_json, to_json
from interbed.storage.base.row.python_values import python_values
from interbed.storage.base.row.values import parse_literal
from interbed.storage.base.types.data_type import parse_atomic
from interbed.storage.base.types.far_times import FarDate, FarTimestamp
from interbed.storage.scan.summary.aggregates import Aggregate, AggregateFunction, aggregated
from interbed.storage.scan.summary.estimate import read_statistics
from interbed.storage.table.table import Table
from tests.support.tally import Tally

DAY = 86_400_000_000
MOMENTS = {
    9_223_372_036_825_200_000: "+294247-01-10 04:00:25.2",
    253_402_300_800 * 10**6: "+10000-01-01 00:00:00",
    -719_162 * DAY - 1000: "0000-12-31 23:59:59.999",
    -719_528 * DAY: "0000-01-01 00:00:00",
    -9_223_372_036_800_000_000: "-290308-12-21 20:00:00",
    0: "1970-01-01 00:00:00",
}
"""Microseconds, and their texts in Spark and Java. The first is PostgreSQL's infinity in Debezium's events."""
DAYS = {
    2_147_483_647: "+5881580-07-11",
    2_932_897: "+10000-01-01",
    -719_163: "0000-12-31",
    -719_528: "0000-01-01",
    -719_529: "-0001-12-31",
    -2_147_483_648: "-5877641-06-23",
    0: "1970-01-01",
}
TYPES: dict[str, tuple[pa.DataType, dict[int, str]]] = {
    "DATE": (pa.date32(), DAYS),
    "TIMESTAMP(6)": (pa.timestamp("us"), MOMENTS),
    "TIMESTAMP(3)": (pa.timestamp("ms"), {number // 1000: text for number, text in MOMENTS.items()}),
    "TIMESTAMP_LTZ(6)": (pa.timestamp("us", "UTC"), {number: f"{text}+00:00" for number, text in MOMENTS.items()}),
}
"""Numbers in the unit of each type, and their texts."""


def rows(of: str, *, nested: bool = False) -> pa.Table:
    arrow, values = TYPES[of]
    numbers = pa.array(values, pa.int32() if of == "DATE" else pa.int64()).view(arrow)
    columns = {"id": pa.array(range(len(values)), pa.int64()), "x": numbers}
    if nested:
        columns["parts"] = pa.array([{"x": [v]} for v in values], pa.struct((("x", pa.list_(arrow)),)))
    return pa.table(columns)


@pytest.fixture
def catalog(tmp_path: Path) -> interbed.Catalog:
    """Open a catalog with the database `d`."""
    made = interbed.load_catalog("lake", warehouse=str(tmp_path / "lake"))
    made.create_database("d")
    return made


def shown(catalog: interbed.Catalog, *words: str) -> str:
    found = CliRunner().invoke(main, [words[0], "-o", f"warehouse={catalog.warehouse}", *words[1:]])
    assert found.exit_code == 0, (words, found.output, found.exception)
    return found.output


def ids(table: Any, given: Any) -> list[int]:
    column: Any = table.scan(["id"], filter=given).to_arrow()["id"].to_pylist()
    return sorted(column)


def ends(table: Table, of: str) -> tuple[str, ...]:
    functions = (AggregateFunction.MIN, AggregateFunction.MAX)
    found = aggregated(table.store, table.scan().plan.splits, [Aggregate(function=f, column="x") for f in functions])
    assert found is not None, of
    return tuple(map(str, found[0]))


@pytest.mark.parametrize("of", TYPES)
def test_every_command_shows_far_times(catalog: interbed.Catalog, of: str, tally: Tally) -> None:
    data = rows(of, nested=True)
    table = catalog.create_table_as("d.t", data)
    texts = list(TYPES[of][1].values())
    for words in (
        ("table", "scan", "d.t"),
        ("table", "head", "d.t"),
        ("table", "changes", "d.t"),
        ("sql", "SELECT * FROM d.t"),
        ("table", "scan", "d.t", "--filter", f"x >= '{min(texts, key=texts.index)}' or x < '{texts[0]}'"),
    ):
        answer = shown(catalog, *words)
        assert all(text in answer for text in texts), words
    by_json = [json.loads(line) for line in shown(catalog, "table", "scan", "d.t", "--format", "json").splitlines()]
    assert [row["x"] for row in by_json] == texts
    assert [row["parts"] for row in by_json] == [{"x": [text]} for text in texts]
    by_csv = list(csv.DictReader(io.StringIO(shown(catalog, "table", "scan", "d.t", "--format", "csv"))))
    kind = parse_atomic(of.replace("_LTZ(6)", "(6) WITH LOCAL TIME ZONE"))
    assert [str(parse_literal(row["x"], kind)) for row in by_csv] == texts
    assert [json.loads(row["parts"]) for row in by_csv] == [{"x": [text]} for text in texts]
    largest = json.loads(shown(catalog, "sql", "--json", "SELECT max(x) AS most, min(x) AS least FROM d.t"))
    order = sorted(zip(TYPES[of][1], texts, strict=True))
    assert largest == {"most": order[-1][1], "least": order[0][1]}
    page = table.scan()._repr_html_()
    assert all(text in page for text in texts)
    tally("far dates and times shown", 10 * len(texts))


@pytest.mark.parametrize("of", TYPES)
def test_statistics_and_metadata_have_far_times(catalog: interbed.Catalog, of: str, tally: Tally) -> None:
    table = catalog.create_table_as("d.t", rows(of))
    order = [text for _, text in sorted(TYPES[of][1].items())]
    assert ends(table, of) == (order[0], order[-1])
    made = table.maintenance.analyze()
    assert made is not None
    assert (str(made.columns["x"].least), str(made.columns["x"].greatest)) == (order[0], order[-1])
    snapshot = table.latest_snapshot()
    assert snapshot is not None
    again = read_statistics(table.store, snapshot)
    assert again is not None
    assert again.columns["x"] == made.columns["x"]
    [file] = catalog.get_table("d.t$files").scan().to_arrow().to_pylist()
    assert order[0][:12] in file["min_value_stats"]
    assert order[-1][:12] in file["max_value_stats"]
    tally("far dates and times shown", 8)


@pytest.mark.sample(8)
@pytest.mark.parametrize("layout", ["rows", "keys", "partitions", "files", "avro"])
@pytest.mark.parametrize("of", TYPES)
def test_filters_compare_far_times(catalog: interbed.Catalog, of: str, layout: str, tally: Tally) -> None:
    data = rows(of)
    if layout == "keys":
        fields = (data.schema.field("id"), data.schema.field("x").with_nullable(False))
        table = catalog.create_table("d.t", pa.schema(fields), primary_keys=["x"], options={"bucket": "2"})
        table.upsert(data)
        table.upsert(data)
        table.compact(full=True)
    elif layout == "partitions":
        table = catalog.create_table_as("d.t", data, partition_keys=["x"])
    else:
        table = catalog.create_table("d.t", data.schema, options={"file.format": "avro"} if layout == "avro" else {})
        for place in range(data.num_rows):
            table.append(data.slice(place, 1) if layout == "files" else data if place == 0 else data.slice(0, 0))
    numbers = list(TYPES[of][1])
    values = python_values(data["x"])
    compares: dict[str, Callable[[int, int], bool]] = {
        "=": lambda a, b: a == b,
        "<": lambda a, b: a < b,
        ">=": lambda a, b: a >= b,
        "<>": lambda a, b: a != b,
    }
    tried = 0
    for (number, text), value in zip(TYPES[of][1].items(), values, strict=True):
        assert str(value) == text
        for sign, compare in compares.items():
            expected = [i for i, n in enumerate(numbers) if compare(n, number)]
            assert ids(table, f"x {sign} '{text}'") == expected, (sign, text)
            tried += 1
        assert ids(table, f"x {'=' if of == 'DATE' else '>='} {'DATE' if of == 'DATE' else 'TIMESTAMP'} '{text}'")
        given = interbed.col("x") == value
        assert ids(table, given) == ids(table, f"x IN ('{text}')") == [numbers.index(number)]
        assert from_json(to_json(given)) == given
        tried += 3
    tally("far dates and times compared", tried)


@pytest.mark.parametrize("of", TYPES)
def test_far_times_can_be_keys_and_partition_values(catalog: interbed.Catalog, of: str, tally: Tally) -> None:
    data = rows(of)
    fields = (data.schema.field("id"), data.schema.field("x").with_nullable(False))
    keyed = catalog.create_table("d.k", pa.schema(fields), primary_keys=["x"], options={"bucket": "2"})
    keyed.upsert(data)
    many = [{"id": 0, "x": value} for value in python_values(data["x"])]
    keyed.upsert(many)
    assert sorted(map(str, python_values(keyed.scan(["x"]).to_arrow()["x"]))) == sorted(TYPES[of][1].values())
    keyed.upsert(data)
    split = catalog.create_table_as("d.p", data, partition_keys=["x"])
    names = catalog.get_table("d.p$partitions").scan().to_arrow()["partition"].to_pylist()
    assert len(set(names)) == data.num_rows
    order = [text for _, text in sorted(TYPES[of][1].items())]
    assert ends(split, of) == (order[0], order[-1])
    for place, (value, text) in enumerate(zip(python_values(data["x"]), TYPES[of][1].values(), strict=True)):
        row = keyed.get({"x": value})
        assert row == {"id": place, "x": value}
        keyed.upsert([{**row, "id": place}])
        assert json.loads(shown(catalog, "table", "get", "d.k", f"x={text}")) == {"id": place, "x": text}
        assert split.delete_partitions({"x": value if place % 2 else text}) is not None
        assert split.count() == data.num_rows - place - 1
    tally("far dates and times shown", 4 * data.num_rows)


@pytest.mark.parametrize("of", ["DATE", "TIMESTAMP(6)"])
def test_duckdb_and_polars_select_rows_by_far_times(catalog: interbed.Catalog, of: str, tally: Tally) -> None:
    data = rows(of)
    table = catalog.create_table("d.t", data.schema)
    for place in range(data.num_rows):
        table.append(data.slice(place, 1))
    memory, relation = duckdb.connect().from_arrow(data), table.to_duckdb()
    kind = "DATE" if of == "DATE" else "TIMESTAMP"
    for text in ("1970-01-01", "9999-12-31", "0001-01-01", "10000-01-01"):
        for sign in ("=", "<", ">=", "<>"):
            condition = f"x {sign} {kind} '{text}'"
            expected = sorted(memory.filter(condition).project("id").fetchall())
            assert sorted(relation.filter(condition).project("id").fetchall()) == expected, condition
    day: Any = date(9999, 12, 31) if of == "DATE" else datetime(9999, 12, 31)
    for expression in (pl.col("x") > day, pl.col("x") <= day):
        lazy = table.to_polars(lazy=True).filter(expression).collect()
        assert sorted(lazy["id"]) == sorted(table.to_polars().filter(expression)["id"])
    tally("far dates and times compared", 18)


@pytest.mark.parametrize("of", TYPES)
def test_data_frames_have_far_times(catalog: interbed.Catalog, of: str, tally: Tally) -> None:
    data = rows(of)
    table = catalog.create_table_as("d.t", data)
    assert table.to_polars().to_arrow()["x"].cast(data.schema.field("x").type).equals(data["x"])
    frame = table.to_pandas()
    assert list(frame.columns) == ["id", "x"]
    assert list(frame["id"]) == list(range(data.num_rows))
    if of == "DATE":
        assert list(map(str, frame["x"])) == list(DAYS.values())
        nested = catalog.create_table_as("d.nested", rows(of, nested=True))
        with pytest.raises(interbed.InvalidInputError, match="pandas can't hold the column 'parts'"):
            nested.to_pandas()
    else:
        assert list(frame["x"].astype("int64")) == list(TYPES[of][1])
    tally("far dates and times shown", 2 * data.num_rows)


@pytest.mark.parametrize("of", TYPES)
def test_a_column_of_far_times_can_become_text(catalog: interbed.Catalog, of: str, tally: Tally) -> None:
    table = catalog.create_table_as("d.t", rows(of))
    with table.update_schema() as update:
        update.update_column_type("x", "STRING")
    found: Any = catalog.get_table("d.t").scan().to_arrow().sort_by("id")["x"].to_pylist()
    for text, expected in zip(found, TYPES[of][1].values(), strict=True):
        assert text[:13].strip() == expected[:13].strip()
    tally("far dates and times shown", len(found))


def test_far_times_in_python_are_integers_with_a_text() -> None:
    assert str(FarDate(2_932_897)) == "+10000-01-01"
    assert repr(FarDate(2_932_897)) == "FarDate('+10000-01-01')"
    assert FarDate(5) == 5
    assert repr(FarTimestamp(-1, "ns")) == "FarTimestamp('1969-12-31 23:59:59.999999999')"
    assert str(FarTimestamp(253_402_300_800_000, "ms", zoned=True)) == "+10000-01-01 00:00:00+00:00"


@pytest.mark.parametrize(
    "text", ["x = '+10000-02-30'", "x = '10000-13-01'", "x = '-1'", "x = '19849'", "x = DATE '+10000-1'"]
)
def test_invalid_dates_are_refused(catalog: interbed.Catalog, text: str) -> None:
    table = catalog.create_table_as("d.t", rows("DATE"))
    if text.endswith("10000-1'"):
        assert ids(table, text) == [1]
        return
    with pytest.raises(interbed.FilterError, match="'x'"):
        ids(table, text)


def test_a_date_beyond_the_type_is_greater_or_less_than_all(catalog: interbed.Catalog) -> None:
    table = catalog.create_table_as("d.t", rows("DATE"))
    assert ids(table, "x < '+9999999-01-01'") == list(range(len(DAYS)))
    assert ids(table, "x > '+9999999-01-01'") == ids(table, "x = '-9999999-01-01'") == []
