"""`interbed sql` takes the values of VALUES and of files exactly or refuses them, independent of the other rows."""

import itertools
import json
import subprocess
import sys
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner, Result

import interbed
from interbed.cli import main
from tests.support.tally import Tally


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> interbed.Catalog:
    monkeypatch.chdir(tmp_path)
    lake = interbed.load_catalog(warehouse=tmp_path / "lake")
    lake.create_database("s")
    return lake


def make(lake: interbed.Catalog, *columns: tuple[str, pa.DataType], name: str = "s.t") -> interbed.Table:
    return lake.create_table(name, pa.schema([("id", pa.int64()), *columns]))


def sql(lake: interbed.Catalog, statement: str) -> Result:
    return CliRunner().invoke(main, ["-o", f"warehouse={lake.warehouse}", "sql", statement])


def values(table: interbed.Table, column: str = "x") -> list[Any]:
    """Return the values of a column, in the order of the ids."""
    return [row[column] for row in sorted(table.scan().to_arrow().to_pylist(), key=lambda row: row["id"])]


def done(lake: interbed.Catalog, statement: str) -> None:
    result = sql(lake, statement)
    assert result.exit_code == 0, (statement, result.output)


# -- VALUES ------------------------------------------------------------------------------------------------------------

BIG = 2**53 + 1
NUMBERS: dict[str, tuple[pa.DataType, dict[str, Any]]] = {
    "BIGINT": (
        pa.int64(),
        {str(BIG): BIG, "-1": -1, "1e3": 1000, "10.0": 10, "'7'": 7, "NULL": None, "(3)": 3, "1 + 1": 2},
    ),
    "DECIMAL": (
        pa.decimal128(38, 2),
        {
            "12345678901234567.89": Decimal("12345678901234567.89"),
            "-123456789012345678901234567890123456.78": Decimal("-123456789012345678901234567890123456.78"),
            "1e-2": Decimal("0.01"),
            "'0.50'": Decimal("0.50"),
            "NULL": None,
            "CAST(1.5 AS DECIMAL(2, 1))": Decimal("1.50"),
        },
    ),
    "DOUBLE": (
        pa.float64(),
        {"0.1": 0.1, "-1e300": -1e300, "9007199254740992": float(2**53), "'inf'": float("inf"), "1.5 * 2": 3.0},
    ),
    "STRING": (pa.string(), {"'a'": "a", "''": "", "NULL": None, "'1.50'": "1.50", "upper('b')": "B"}),
    "DATE": (pa.date32(), {"'2026-01-31'": date(2026, 1, 31), "NULL": None, "DATE '1999-12-31'": date(1999, 12, 31)}),
}
MISFITS = [
    ("BIGINT", "0.5"),
    ("BIGINT", "9223372036854775808"),
    ("BIGINT", "1e-1"),
    ("BIGINT", "'1.5'"),
    ("DECIMAL", "0.001"),
    ("DECIMAL", "1e40"),
    ("DECIMAL", "1234567890123456789012345678901234567.1"),
    ("DOUBLE", str(BIG)),
    ("DOUBLE", f"'{BIG}'"),
    ("STRING", "12"),
    ("DATE", "12"),
    ("DATE", "'31.01.2026'"),
]


@pytest.mark.sample(2)
@pytest.mark.parametrize("kind", NUMBERS)
def test_a_value_does_not_depend_on_other_rows_or_their_order(lake: interbed.Catalog, kind: str, tally: Tally) -> None:
    arrow, literals = NUMBERS[kind]
    table = make(lake, ("x", arrow))
    orders = [*itertools.permutations(literals, 2), tuple(literals), tuple(reversed(literals))]
    for order in orders:
        done(lake, f"INSERT INTO s.t VALUES {', '.join(f'({n}, {text})' for n, text in enumerate(order))}")
        assert values(table) == [literals[text] for text in order], order
        table.truncate()
    tally("orders of literals in VALUES", len(orders))


@pytest.mark.sample(6)
@pytest.mark.parametrize(("kind", "misfit"), MISFITS)
def test_a_literal_that_does_not_fit_is_refused_whatever_other_rows_have(
    lake: interbed.Catalog, kind: str, misfit: str
) -> None:
    arrow, literals = NUMBERS[kind]
    table = make(lake, ("x", arrow))
    for other in literals:
        for first, second in ((misfit, other), (other, misfit)):
            refused = sql(lake, f"INSERT INTO s.t VALUES (1, {first}), (2, {second})")
            assert (refused.exit_code, "column 'x'" in refused.output) == (1, True), (first, second, refused.output)
    assert table.latest_snapshot() is None


def test_columns_of_values_may_be_named(lake: interbed.Catalog) -> None:
    table = make(lake, ("x", pa.decimal128(38, 2)), ("s", pa.string()))
    done(lake, f"INSERT INTO s.t (s, x, id) VALUES ('a', {BIG}.25, 1), (NULL, 1e0, 2), (concat('b', 'c'), 2, 3)")
    assert values(table) == [Decimal(f"{BIG}.25"), Decimal("1.00"), Decimal("2.00")]
    assert values(table, "s") == ["a", None, "bc"]


# -- files -------------------------------------------------------------------------------------------------------------

FILES = {
    "new.csv": "id,x,i\n1,12345678901234567.89,9007199254740993\n2,0.5,\n",
    "semicolons.csv": "id;x;i\n1;12345678901234567.89;9007199254740993\n2;0.5;\n",
    "new.tsv": "id\tx\ti\n1\t12345678901234567.89\t9007199254740993\n2\t0.5\t\n",
    "new.jsonl": '{"id": 1, "x": 12345678901234567.89, "i": 9007199254740993}\n{"id": 2, "x": 0.5, "i": null}\n',
    "mixed.json": '{"id": 1, "x": 12345678901234567.89, "i": 9007199254740993}\n{"id": 2, "x": 5e-1}\n',
}
STATEMENTS = {
    "insert": "INSERT INTO s.t (id, x, i) SELECT id, x, i FROM '{file}'",
    "insert by name": "INSERT INTO s.t BY NAME SELECT * FROM '{file}'",
    "insert of an alias": "INSERT INTO s.t (id, x, i) SELECT f.id, f.x, f.i FROM '{file}' AS f WHERE f.id < 9",
    "insert from a subquery": "INSERT INTO s.t BY NAME WITH n AS (SELECT * FROM '{file}') SELECT * FROM n ORDER BY id",
    "insert of a base name": "INSERT INTO s.t (id, x, i) SELECT {base}.id, x, i FROM '{file}'",
    "merge": "MERGE INTO s.t AS t USING '{file}' AS s ON t.id = s.id WHEN MATCHED THEN UPDATE SET x = s.x, i = s.i "
    "WHEN NOT MATCHED THEN INSERT (id, x, i) VALUES (s.id, s.x, s.i)",
    "merge of a subquery": "MERGE INTO s.t USING (SELECT * FROM '{file}') AS s ON t.id = s.id "
    "WHEN NOT MATCHED THEN INSERT (id, x, i) VALUES (s.id, s.x, s.i)",
    "update": "UPDATE s.t SET x = (SELECT max(x) FROM '{file}'), i = (SELECT max(i) FROM '{file}')",
    "read_csv": "INSERT INTO s.t BY NAME SELECT * FROM read_csv('{file}', header = true)",
    "typed read_csv": "INSERT INTO s.t BY NAME SELECT * FROM "
    "read_csv('{file}', types = {{'x': 'DECIMAL(38, 2)', 'i': 'BIGINT'}})",
}
SUMS = (Decimal("12345678901234567.89"), BIG)


@pytest.mark.sample(15)
@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("statement", STATEMENTS)
def test_numbers_of_files_keep_all_digits(lake: interbed.Catalog, statement: str, file: str, tmp_path: Path) -> None:
    base, suffix = file.split(".")
    (tmp_path / file).write_text(FILES[file])
    table = make(lake, ("x", pa.decimal128(38, 2)), ("i", pa.int64()))
    if statement == "update":
        done(lake, "INSERT INTO s.t VALUES (1, NULL, NULL)")
    result = sql(lake, STATEMENTS[statement].format(file=file, base=base if suffix != "jsonl" else f'"{file}"'))
    if (suffix in ("json", "jsonl") and "read_csv" in statement) or ("base" in statement and suffix == "json"):
        return
    assert result.exit_code == 0, result.output
    assert (max(filter(None, values(table))), max(filter(None, values(table, "i")))) == SUMS


@pytest.mark.parametrize("function", ["read_json", "read_json_auto", "read_ndjson", "read_json_objects"])
def test_functions_that_round_numbers_are_refused(lake: interbed.Catalog, function: str, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(FILES["new.jsonl"])
    make(lake, ("x", pa.decimal128(38, 2)))
    refused = sql(lake, f"INSERT INTO s.t BY NAME SELECT id, x FROM {function}('a.jsonl')")
    assert (refused.exit_code, "name the file as a table" in refused.output) == (1, True), refused.output


def test_nested_numbers_of_json_keep_all_digits(lake: interbed.Catalog, tmp_path: Path) -> None:
    exact = pa.decimal128(38, 2)
    row = {"id": 1, "r": {"x": [12345678901234567]}, "l": [{"y": 1}]}
    text = json.dumps(row).replace("12345678901234567", "12345678901234567.89").replace('"y": 1', f'"y": {BIG}.25')
    (tmp_path / "a.jsonl").write_text(f'{text}\n{{"id": 2, "r": {{"x": [0.5]}}, "l": [{{"y": 0.5}}]}}\n')
    table = make(lake, ("r", pa.struct([("x", pa.list_(exact))])), ("l", pa.list_(pa.struct([("y", exact)]))))
    done(lake, "INSERT INTO s.t SELECT id, r, l FROM 'a.jsonl'")
    assert values(table, "r")[0] == {"x": [Decimal("12345678901234567.89")]}
    assert values(table, "l")[0] == [{"y": Decimal(f"{BIG}.25")}]


def test_dates_and_times_of_a_file_are_not_guessed(lake: interbed.Catalog, tmp_path: Path) -> None:
    table = make(lake, ("d", pa.date32()), ("x", pa.timestamp("ns")))
    (tmp_path / "a.csv").write_text("id,d,x\n1,2026-01-31,2026-01-31T03:04:05.123456789\n2,2026-02-01,2026-02-01\n")
    done(lake, "INSERT INTO s.t SELECT id, d, x FROM 'a.csv'")
    assert values(table, "d") == [date(2026, 1, 31), date(2026, 2, 1)]
    assert [str(value) for value in values(table)] == ["2026-01-31 03:04:05.123456789", "2026-02-01 00:00:00"]
    (tmp_path / "a.csv").write_text("id,d\n3,01/02/2026\n4,03/02/2026\n")
    refused = sql(lake, "INSERT INTO s.t (id, d) SELECT id, d FROM 'a.csv'")
    assert (refused.exit_code, "'01/02/2026' is not a value of type DATE" in refused.output) == (1, True)
    done(lake, "INSERT INTO s.t (id, d) SELECT id, d FROM read_csv('a.csv', dateformat = '%d/%m/%Y')")
    assert values(table, "d")[2] == date(2026, 2, 1)


def test_an_insert_reads_the_files_that_a_scan_writes(lake: interbed.Catalog, tmp_path: Path, tally: Tally) -> None:
    rows = [
        {"id": 1, "s": None, "x": Decimal("0.10"), "ts": datetime(2026, 1, 1, 2, 3, 4, 5)},
        {"id": 2, "s": "", "x": None, "ts": None},
        {"id": 3, "s": 'a "b", c\nd', "x": Decimal("12345678901234567.89"), "ts": datetime(1, 1, 1)},
    ]
    columns = (("s", pa.string()), ("x", pa.decimal128(38, 2)), ("ts", pa.timestamp("us")))
    table = make(lake, *columns)
    other = make(lake, *columns, name="s.o")
    table.append(rows)
    for form in ("csv", "json", "parquet", "jsonl"):
        command = ["table", "-o", f"warehouse={lake.warehouse}", "scan", "s.t", "--output", f"out.{form}"]
        written = CliRunner().invoke(main, command)
        assert written.exit_code == 0, written.output
        done(lake, f"INSERT INTO s.o SELECT * FROM 'out.{form}'")
        assert sorted(other.scan().to_arrow().to_pylist(), key=lambda row: row["id"]) == rows, form
        other.truncate()
        tally("forms of files that an INSERT reads", 1)


@pytest.mark.parametrize("texts", [["a", None, "", "b"], [None], ["", None], [None, None, "x"]])
def test_a_file_of_one_column_keeps_its_nulls(lake: interbed.Catalog, texts: list[str | None], tmp_path: Path) -> None:
    one = lake.create_table("s.one", pa.schema([("s", pa.string())]))
    one.append([{"s": text} for text in texts])
    command = ["table", "-o", f"warehouse={lake.warehouse}"]
    assert CliRunner().invoke(main, [*command, "scan", "s.one", "--output", "one.csv"]).exit_code == 0
    lake.create_table("s.two", pa.schema([("s", pa.string())]))
    imported = CliRunner().invoke(main, [*command, "import", "s.two", "one.csv"])
    assert imported.exit_code == 0, imported.output
    assert lake.get_table("s.two").scan().to_arrow().to_pylist() == [{"s": text} for text in texts]
    numbers = lake.create_table("s.n", pa.schema([("s", pa.int64())]))
    numbers.append([{"s": None}, {"s": 1}, {"s": None}])
    assert CliRunner().invoke(main, [*command, "scan", "s.n", "--output", "n.csv"]).exit_code == 0
    assert CliRunner().invoke(main, [*command, "import", "s.n", "n.csv"]).exit_code == 0
    assert numbers.scan().count() == 6


# -- errors ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO s.t VALUES (5, 12)",
        "INSERT INTO s.t SELECT id, id FROM s.t",
        "UPDATE s.t SET x = 5",
        "MERGE INTO s.t USING (SELECT 1 AS id, 7 AS x) AS s ON t.id = s.id WHEN MATCHED THEN UPDATE SET x = s.x",
        "SELECT error('x')",
    ],
)
def test_a_refusal_is_printed_as_one_line(lake: interbed.Catalog, statement: str) -> None:
    make(lake, ("x", pa.string())).append([{"id": 1, "x": "a"}])
    command = [sys.executable, "-m", "interbed.cli", "-o", f"warehouse={lake.warehouse}", "sql", statement]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr.count("\n")) == (1, "", 1), ended.stderr


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM s.k",
        "SELECT sum(x) FROM s.k",
        "INSERT INTO s.t SELECT id, x FROM s.k",
        "MERGE INTO s.t USING (SELECT * FROM s.k) AS k ON t.id = k.id WHEN MATCHED THEN UPDATE SET x = k.x",
        "INSERT INTO s.t SELECT id, x FROM 'bad.jsonl'",
    ],
)
def test_an_error_of_a_table_is_printed_without_a_traceback(
    lake: interbed.Catalog, statement: str, tmp_path: Path
) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("x", pa.int32())])
    options = {"bucket": "1", "merge-engine": "aggregation", "fields.x.aggregate-function": "sum"}
    keyed = lake.create_table("s.k", schema, primary_keys=["id"], options=options)
    for _ in range(2):
        keyed.upsert([{"id": 1, "x": 2**31 - 1}])
    make(lake, ("x", pa.int64())).append([{"id": 1, "x": 1}])
    (tmp_path / "bad.jsonl").write_text('{"id": 1, "x": 1}\n{"id": 2, "x": 1, "x": 2}\n')
    refused = sql(lake, statement)
    assert refused.exit_code == 1
    assert ("4294967294" in refused.output) != ("key 'x' twice" in refused.output), refused.output
    assert "Traceback" not in refused.output


LINES: dict[str, tuple[str, str | None]] = {
    "a fraction after many integers": ("id,v\n" + "".join(f"{i},{i}\n" for i in range(30_000)) + "30000,0.1\n", None),
    "an exponent after many integers": ("id,v\n" + "".join(f"{i},5\n" for i in range(25_000)) + "25000,2.5e0\n", None),
    "a line like a comment": ("id,v\n#1,1\n2,2\n", "'#1'|#1"),
    "lines of several lengths": ("id,v\n1,1\n2\n3,3,3\n", ""),
    "longer lines later": ("id,v\n" + "1,1\n" * 100 + "1,1,1\n" * 100, ""),
}


@pytest.mark.sample(5)
@pytest.mark.parametrize("case", LINES)
@pytest.mark.parametrize("source", ["'x.csv'", "read_csv('x.csv')"])
def test_a_file_is_inserted_as_a_whole_or_not_at_all(
    lake: interbed.Catalog, case: str, source: str, tmp_path: Path
) -> None:
    text, refused = LINES[case]
    (tmp_path / "x.csv").write_text(text)
    table = make(lake, ("v", pa.float64()))
    result = sql(lake, f"INSERT INTO s.t SELECT * FROM {source}")
    assert "Traceback" not in result.output
    if refused is not None:
        assert result.exit_code == 1, result.output
        assert table.latest_snapshot() is None
        return
    assert result.exit_code == 0, result.output
    lines = [line.split(",") for line in text.splitlines()[1:]]
    assert values(table, "v") == [float(v) for _, v in lines]


def test_quotes_of_a_csv_file_are_not_part_of_its_values(lake: interbed.Catalog, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text('id,v\n1,"a""b"\n2,"c,d"\n3,e\n')
    table = make(lake, ("v", pa.string()))
    done(lake, "INSERT INTO s.t SELECT * FROM 'x.csv'")
    assert values(table, "v") == ['a"b', "c,d", "e"]
    (tmp_path / "x.csv").write_text('id,v\n1,"a""b"\n2,"c\\"d"\n')
    assert sql(lake, "INSERT INTO s.t SELECT * FROM 'x.csv'").exit_code == 1
