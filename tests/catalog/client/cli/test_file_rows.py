"""Rows exported in each file format can be imported again."""

import gzip
import json
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.feather
import pyarrow.orc
import pyarrow.parquet
import pytest
from click.testing import CliRunner, Result

import interbed
from interbed.cli import main
from tests.support.tally import Tally

ATOMIC = [
    "id INT NOT NULL", "bo BOOLEAN", "ti TINYINT", "sm SMALLINT", "bi BIGINT", "fl FLOAT", "do DOUBLE",
    "de DECIMAL(20, 3)", "ch STRING", "by BYTES", "da DATE", "tm TIME(3)", "ts TIMESTAMP(6)",
    "lt TIMESTAMP(3) WITH LOCAL TIME ZONE",
]  # fmt: skip
NESTED = ["ar ARRAY<DATE>", "ma MAP<STRING, DECIMAL(5, 2)>", "ro ROW<x BYTES, y ROW<z INT>>"]
ROWS: list[dict[str, Any]] = [
    {
        "id": 1, "bo": True, "ti": -128, "sm": 7, "bi": 2**62, "fl": 0.5, "do": 0.1,
        "de": Decimal("12345678901234567.125"), "ch": 'a "quoted", text\nin lines', "by": b"\x00\xff",
        "da": date(2026, 1, 31), "tm": time(12, 34, 56, 789000), "ts": datetime(2026, 1, 31, 1, 2, 3, 456789),
        "lt": datetime(2026, 1, 31, 1, 2, 3, tzinfo=UTC), "ar": [date(2026, 1, 1), None],
        "ma": [("k", Decimal("1.50")), ("l", None)], "ro": {"x": b"x", "y": {"z": 1}},
    },
    {"id": 2, "ch": "", "by": b"", "ar": [], "ma": []},
    {"id": 3},
]  # fmt: skip


@pytest.fixture
def lake(tmp_path: Path) -> interbed.Catalog:
    """Open a catalog with the database `shop`."""
    catalog = interbed.load_catalog(warehouse=tmp_path / "lake")
    catalog.create_database("shop")
    return catalog


def run(lake: interbed.Catalog, *arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["table", "-o", f"warehouse={lake.warehouse}", *map(str, arguments)])


def create(lake: interbed.Catalog, name: str, *columns: str) -> interbed.Table:
    made = run(lake, "create", name, *(word for column in columns for word in ("--column", column)))
    assert made.exit_code == 0, made.output
    return lake.get_table(name)


def rows(lake: interbed.Catalog, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = lake.get_table(name).scan().to_arrow().to_pylist()
    return sorted(found, key=lambda row: int(row["id"]))


@pytest.mark.parametrize("suffix", ["csv", "json", "parquet"])
def test_an_import_reads_the_files_that_a_scan_writes(lake: interbed.Catalog, tmp_path: Path, suffix: str) -> None:
    columns = ATOMIC if suffix == "csv" else ATOMIC + NESTED
    one = create(lake, "shop.one", *columns)
    one.append(pa.Table.from_pylist(ROWS, schema=one.arrow_schema))
    file = tmp_path / f"rows.{suffix}"
    assert run(lake, "scan", "shop.one", "--output", file).exit_code == 0
    create(lake, "shop.two", *columns)
    read = run(lake, "import", "shop.two", file, "--json")
    assert (read.exit_code, read.output and json.loads(read.output)["rows"]) == (0, 3), read.output
    assert rows(lake, "shop.two") == rows(lake, "shop.one")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["lake", file.name]


def test_orc_and_arrow_files_are_read(lake: interbed.Catalog, tmp_path: Path) -> None:
    data = pa.table({"id": [1, 2], "ch": ["x", None]})
    pa.orc.write_table(data, tmp_path / "a.orc")
    pa.feather.write_feather(data, str(tmp_path / "b.feather"))
    with pa.ipc.new_stream(str(tmp_path / "c.arrows"), data.schema) as stream:
        stream.write_table(data)
    create(lake, "shop.t", "id INT NOT NULL", "ch STRING", "more DOUBLE")
    read = run(lake, "import", "shop.t", tmp_path / "a.orc", tmp_path / "b.feather", tmp_path / "c.arrows")
    assert read.output == "imported 6 rows into shop.t: snapshot 1\n"
    assert lake.get_table("shop.t").scan().count() == 6


def test_compressed_files_and_custom_delimiters_are_read(lake: interbed.Catalog, tmp_path: Path) -> None:
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"id;ch\n1;x\n"))
    (tmp_path / "b.tsv").write_text("ch\tid\ny\t2\n")
    (tmp_path / "c.jsonl.gz").write_bytes(gzip.compress(b'{"id": 3}\n\n{"id": 4, "ch": "z"}\n'))
    create(lake, "shop.t", "id INT NOT NULL", "ch STRING")
    for arguments in (["a.csv.gz", "--delimiter", ";"], ["b.tsv"], ["c.jsonl.gz"]):
        read = run(lake, "import", "shop.t", tmp_path / arguments[0], *arguments[1:])
        assert read.exit_code == 0, read.output
    assert [tuple(row.values()) for row in rows(lake, "shop.t")] == [(1, "x"), (2, "y"), (3, None), (4, "z")]


def test_maps_may_be_objects(lake: interbed.Catalog, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"id": 1, "m": {"5": "2026-01-01"}}\n')
    create(lake, "shop.t", "id INT NOT NULL", "m MAP<INT, DATE>")
    assert run(lake, "import", "shop.t", tmp_path / "a.json").exit_code == 0
    assert rows(lake, "shop.t") == [{"id": 1, "m": [(5, date(2026, 1, 1))]}]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", "id,amuont\n1,2\n", "has no column 'amuont'; it has id, amount, tags. Did you mean 'amount'?"),
        ("a.csv", "id,amount\n1,two\n", "a.csv, line 2, column 'amount': 'two' is not a value of type DOUBLE."),
        ("a.csv", "id,amount\n1\n", "a.csv, line 2: it has 1 field, and the header 2. The line: '1'."),
        ("a.csv", "", "a.csv is empty; the first line of a CSV file names its columns."),
        ("a.csv", "id,tags\n1,x\n", "CSV can't hold the nested column 'tags'; use JSON lines or Parquet."),
        ("a.json", '{"id": 1}\n{"id": 1, "amuont": 2}\n', "Did you mean 'amount'?"),
        ("a.json", '{"id": 1}\n{"id": "one"}\n', "a.json, line 2, column 'id': 'one' is not a value of type INT."),
        ("a.json", '{"id": 1,\n', "a.json, line 1: it is not JSON: "),
        ("a.json", "[1]\n", "a.json, line 1: it is no object; each line holds a row."),
        ("a.json", '{"id": 1, "tags": ["yesterday"]}\n', "a.json, line 1, column 'tags': "),
        ("a.json", '{"amount": 1}\n', "id"),
        ("a.parquet", "no parquet", "a.parquet: "),
        ("a.orc", "no orc", "a.orc: "),
        ("a.arrow", "no arrow", "a.arrow: "),
        ("a.paruqet", "", "'.paruqet' is unknown; give --format, one of parquet, csv, json, orc, arrow. Did you mean"),
        ("a", "", "says no format; give --format"),
    ],
)
def test_a_file_that_does_not_fit_is_refused_by_name_and_nothing_is_written(
    lake: interbed.Catalog, tmp_path: Path, name: str, content: str, message: str
) -> None:
    (tmp_path / name).write_text(content)
    create(lake, "shop.t", "id INT NOT NULL", "amount DOUBLE", "tags ARRAY<DATE>")
    read = run(lake, "import", "shop.t", tmp_path / name)
    assert (read.exit_code, message in read.output) == (1, True), read.output
    assert isinstance(read.exception, SystemExit)
    assert lake.get_table("shop.t").latest_snapshot() is None


def test_a_table_is_created_from_a_file(lake: interbed.Catalog, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"id": 1, "x": {"y": 0.5}}\n{"id": 2, "z": ["a"]}\n')
    assert run(lake, "create", "shop.t", "--from", tmp_path / "a.json").exit_code == 0
    assert run(lake, "schema", "shop.t").output == "id BIGINT\nx ROW<y DOUBLE>\nz ARRAY<STRING>\n"
    (tmp_path / "s.json").write_text(run(lake, "schema", "shop.t", "--json").output)
    assert run(lake, "create", "shop.u", "--schema", tmp_path / "s.json", "--primary-key", "id").exit_code == 0
    assert lake.get_table("shop.u").primary_keys == ["id"]
    (tmp_path / "hand.json").write_text('{"fields": [{"name": "a", "type": "INT"}], "options": {"bucket": "-1"}}')
    assert run(lake, "create", "shop.v", "--schema", tmp_path / "hand.json").exit_code == 0
    assert lake.get_table("shop.v").schema.options == {"bucket": "-1"}
    for text in ("[]", "{}", "no", '{"fields": [{"name": "a"}]}', '{"fields": [{"name": "a", "type": "INTT"}]}'):
        (tmp_path / "hand.json").write_text(text)
        refused = run(lake, "create", "shop.w", "--schema", tmp_path / "hand.json")
        assert (refused.exit_code, "hand.json holds no schema" in refused.output) == (1, True), refused.output


WRONG = [
    ("INT", "2.9"),
    ("INT", "-3.99"),
    ("INT", "1e300"),
    ("INT", "2147483648"),
    ("INT", "true"),
    ("INT", '"1"'),
    ("BIGINT", "9223372036854775807.5"),
    ("BIGINT", "1e400"),
    ("DOUBLE", "9007199254740993"),
    ("DOUBLE", "1e400"),
    ("DOUBLE", "1" + "0" * 400),
    ("FLOAT", "1" + "0" * 400),
    ("FLOAT", "1e300"),
    ("FLOAT", "16777217"),
    ("DECIMAL(5, 2)", "1.239"),
    ("DECIMAL(5, 2)", "1e-200"),
    ("DECIMAL(5, 2)", '"1000"'),
    ("TIME(3)", '"01:02:03.1239"'),
    ("TIME(3)", "5"),
    ("TIMESTAMP(3)", '"2024-01-01 00:00:00.1239"'),
    ("DATE", "2024"),
    ("DATE", '"19723"'),
    ("DATE", '"2024-02-30"'),
    ("BOOLEAN", "1"),
    ("STRING", "1"),
    ("BYTES", '"?"'),
    ("ROW<a INT>", '{"a": 1, "c": 99}'),
    ("ROW<a INT>", '{"A": 1}'),
    ("MAP<STRING, INT>", '{"a": 1, "a": 2}'),
    ("MAP<INT, INT>", '{"1": 1, "01": 2}'),
]


@pytest.mark.parametrize("around", ["{}", "ARRAY<{}>", "MAP<STRING, {}>", "ROW<x {}>"])
def test_json_values_outside_of_a_columns_type_are_refused(
    lake: interbed.Catalog, tmp_path: Path, around: str, tally: Tally
) -> None:
    texts = {"{}": "{}", "ARRAY<{}>": "[{}]", "MAP<STRING, {}>": '{{"k": {}}}', "ROW<x {}>": '{{"x": {}}}'}
    for number, (kind, value) in enumerate(WRONG):
        table = create(lake, f"shop.t{number}", "id INT NOT NULL", f"c {around.format(kind)}")
        path = tmp_path / "a.json"
        path.write_text('{"id": 1}\n{"id": 2, "c": ' + texts[around].format(value) + "}\n")
        found = run(lake, "import", f"shop.t{number}", path)
        assert found.exit_code == 1, (kind, value)
        assert isinstance(found.exception, SystemExit), (kind, value, found.exception)
        assert "line 2" in found.output or "row 1 (counted from 0)" in found.output, (kind, value, found.output)
        assert table.latest_snapshot() is None
    tally("wrong values in JSON files", len(WRONG))


def test_json_numbers_keep_all_digits(lake: interbed.Catalog, tmp_path: Path) -> None:
    create(lake, "shop.t", "id INT NOT NULL", "b BIGINT", "d DECIMAL(38, 18)", "f FLOAT", "g DOUBLE")
    path = tmp_path / "a.json"
    path.write_text(
        '{"id": 1.0, "b": 9007199254740993.0, "d": 0.123456789012345678, "f": 0.1, "g": 1e300}\n'
        '{"id": 2e0, "b": 9223372036854775807, "d": "1.5", "f": Infinity, "g": 9007199254740992}\n'
    )
    found = run(lake, "import", "shop.t", path)
    assert found.exit_code == 0, found.output
    first, second = rows(lake, "shop.t")
    assert (first["b"], first["d"], first["g"]) == (2**53 + 1, Decimal("0.123456789012345678"), 1e300)
    assert (second["b"], second["d"], second["f"]) == (2**63 - 1, Decimal("1.5"), float("inf"))


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("INT", pa.array([1, 2.5])),
        ("INT", pa.array(["1", "2"])),
        ("DATE", pa.array([datetime(2024, 1, 1), datetime(2024, 1, 1, 5)])),
        ("TIMESTAMP(6)", pa.array([1, 2], pa.timestamp("us", "UTC"))),
        ("FLOAT", pa.array([1, 1e300])),
    ],
)
def test_values_of_typed_files_are_not_changed(
    lake: interbed.Catalog, tmp_path: Path, kind: str, values: "pa.Array[Any]"
) -> None:
    table = create(lake, "shop.t", "id INT NOT NULL", f"c {kind}")
    data = pa.table({"id": [1, 2], "c": values})
    pyarrow.feather.write_feather(data, str(tmp_path / "a.arrow"))
    pa.parquet.write_table(data, tmp_path / "a.parquet")
    for name in ("a.arrow", "a.parquet"):
        found = run(lake, "import", "shop.t", tmp_path / name)
        assert found.exit_code == 1, found.output
        assert "column 'c'" in found.output.replace("\n", " ")
    assert table.latest_snapshot() is None


@pytest.mark.parametrize(
    "kind",
    [
        *("MULTISET<STRING>", "MULTISET<INT>", "MULTISET<DATE>", "MULTISET<BYTES>", "MULTISET<DECIMAL(5, 2)>"),
        *("MULTISET<TIMESTAMP(3)>", "ARRAY<MULTISET<STRING>>", "ROW<m MULTISET<TIME(3)>>", "MAP<INT, MULTISET<INT>>"),
        *("MAP<BYTES, DATE>", "MAP<TIMESTAMP(6), TIME(3)>", "MAP<DECIMAL(5, 2), FLOAT>", "MAP<BOOLEAN, BIGINT>"),
        *("TIMESTAMP(6) WITH LOCAL TIME ZONE", "TIMESTAMP(9)", "BINARY(2)", "FLOAT", "DECIMAL(38, 18)", "CHAR(2)"),
        *("ARRAY<ROW<a TIMESTAMP(6) WITH LOCAL TIME ZONE, b BYTES>>", "ARRAY<ARRAY<DOUBLE>>", "ROW<a ROW<b BOOLEAN>>"),
    ],
)
def test_json_values_of_each_type_are_exported_and_imported_again(
    lake: interbed.Catalog, tmp_path: Path, kind: str
) -> None:
    one = create(lake, "shop.one", "id INT NOT NULL", f"v {kind}")
    arrow: Any = one.arrow_schema.field("v").type
    rows_of_kind = [{"id": i, "v": value} for i, value in enumerate((example(arrow), None, empty(arrow)))]
    one.append(pa.Table.from_pylist(rows_of_kind, schema=one.arrow_schema))
    assert run(lake, "scan", "shop.one", "--output", tmp_path / "rows.json").exit_code == 0
    create(lake, "shop.two", "id INT NOT NULL", f"v {kind}")
    read = run(lake, "import", "shop.two", tmp_path / "rows.json")
    assert read.exit_code == 0, read.output
    assert rows(lake, "shop.two") == rows(lake, "shop.one")


def example(kind: Any) -> Any:
    """Return a value of an Arrow type."""
    if pa.types.is_map(kind):
        return [(example(kind.key_type), example(kind.item_type))]
    if pa.types.is_list(kind):
        return [example(kind.value_type), None]
    if pa.types.is_struct(kind):
        return {f.name: example(f.type) for f in kind}
    if pa.types.is_string(kind):
        return "ab"
    if pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return b"\xff\x00"
    if pa.types.is_time(kind):
        return time(1, 2, 3)
    if pa.types.is_timestamp(kind):
        return datetime(2026, 1, 31, 1, 2, 3, tzinfo=None if kind.tz is None else UTC)
    if pa.types.is_date(kind):
        return date(2026, 1, 31)
    return Decimal("1.5") if pa.types.is_decimal(kind) else kind.to_pandas_dtype()(1)


def empty(kind: Any) -> Any:
    """Return an empty value, null where a type has no empty value."""
    if pa.types.is_map(kind) or pa.types.is_list(kind):
        return []
    return {f.name: None for f in kind} if pa.types.is_struct(kind) else None
