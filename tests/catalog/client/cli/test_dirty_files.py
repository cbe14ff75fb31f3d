"""Import of files with bad lines: each kind of bad line, in CSV and in JSON, is reported with file, line, column and
text.

Without options nothing is written. --skip-bad leaves out the bad lines only; --rejects lists them in a file.
"""

import json
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

import interbed
from interbed.catalog.client.cli.forms import csv_rows
from interbed.cli import main
from interbed.storage.base.types.far_times import FarDate, FarTimestamp
from tests.support.tally import Tally


@dataclass(frozen=True, slots=True, kw_only=True)
class BadRow:
    """Kind of bad line for a table of `id`, `v` of a type and `name`; `csv` and `json` are the physical lines that it
    takes.
    """

    kind: str = "INT"
    csv: str | bytes | None = None
    json: str | bytes | None = None
    column: str | None = "v"
    names: str = ""
    """Text that the error message must contain."""
    options: tuple[str, ...] = ()


KINDS: dict[str, BadRow] = {
    "text for a number": BadRow(csv="2,two,b", json='{"id": 2, "v": "two"}', names="'two' is not a value of type INT"),
    "fraction for an integer": BadRow(csv="2,2.9,b", json='{"id": 2, "v": 2.9}', names="2.9"),
    "integer out of range": BadRow(csv="2,2147483648,b", json='{"id": 2, "v": 2147483648}', names="2147483648"),
    "boolean for a number": BadRow(csv="2,true,b", json='{"id": 2, "v": true}', names="is not a value of type INT"),
    "thousands separator": BadRow(csv='2,"1,000",b', json='{"id": 2, "v": "1,000"}', names="'1,000'"),
    "empty text for a number": BadRow(csv='2,"",b', json='{"id": 2, "v": ""}', names="value of type INT"),
    "beyond a double": BadRow(kind="DOUBLE", csv="2,1e400,b", json='{"id": 2, "v": 1e400}', names="1e400 is beyond"),
    "beyond a float": BadRow(kind="FLOAT", csv="2,1e300,b", json='{"id": 2, "v": 1e300}', names="1e300 is beyond"),
    "digits beyond a double": BadRow(
        kind="DOUBLE", csv="2,9007199254740993,b", json='{"id": 2, "v": 9007199254740993}', names="more digits"
    ),
    "digits beyond a float": BadRow(kind="FLOAT", csv="2,16777217,b", json='{"id": 2, "v": 16777217}', names="digits"),
    "decimal comma": BadRow(kind="DOUBLE", csv='2,"3,5",b', json='{"id": 2, "v": "3,5"}', names="'3,5'"),
    "digits beyond a scale": BadRow(kind="DECIMAL(5, 2)", csv="2,1.239,b", json='{"id": 2, "v": 1.239}', names="1.239"),
    "decimal of too many digits": BadRow(kind="DECIMAL(2, 2)", csv="2,1,b", json='{"id": 2, "v": 1}', names="'1'"),
    "decimal out of range": BadRow(kind="DECIMAL(5, 2)", csv="2,1000,b", json='{"id": 2, "v": 1000}', names="1000"),
    "no boolean": BadRow(kind="BOOLEAN", csv="2,maybe,b", json='{"id": 2, "v": "maybe"}', names="'maybe'"),
    "day of another calendar": BadRow(kind="DATE", csv="2,2024-02-30,b", json='{"id": 2, "v": "2024-02-30"}'),
    "date as people write it": BadRow(kind="DATE", csv="2,01.02.2024,b", json='{"id": 2, "v": "01.02.2024"}'),
    "time that is lost": BadRow(
        kind="DATE", csv="2,2024-01-01 05:00:00,b", json='{"id": 2, "v": "2024-01-01 05:00:00"}', names="05:00:00"
    ),
    "hour that there is not": BadRow(kind="TIME(3)", csv="2,25:00:00,b", json='{"id": 2, "v": "25:00:00"}'),
    "digits beyond a time": BadRow(
        kind="TIME(3)", csv="2,01:02:03.1239,b", json='{"id": 2, "v": "01:02:03.1239"}', names="01:02:03.1239"
    ),
    "digits beyond a timestamp": BadRow(
        kind="TIMESTAMP(3)", csv="2,2024-01-01 00:00:00.1239,b", json='{"id": 2, "v": "2024-01-01 00:00:00.1239"}',
        names="00.1239",
    ),
    "zone for a timestamp without": BadRow(
        kind="TIMESTAMP(3)", csv="2,2024-01-01 00:00:00+01:00,b", json='{"id": 2, "v": "2024-01-01 00:00:00+01:00"}',
        names="it has a time zone",
    ),
    "offset beyond a day": BadRow(
        kind="TIMESTAMP(3) WITH LOCAL TIME ZONE", csv="2,2024-01-01 00:00:00+25:00,b",
        json='{"id": 2, "v": "2024-01-01 00:00:00+25:00"}', names="+25:00",
    ),
    "offset with a minute too many": BadRow(
        kind="TIMESTAMP(3) WITH LOCAL TIME ZONE", csv="2,2024-01-01 00:00:00-05:60,b",
        json='{"id": 2, "v": "2024-01-01 00:00:00-05:60"}', names="-05:60",
    ),
    "below a double": BadRow(kind="DOUBLE", csv="2,1e-400,b", json='{"id": 2, "v": 1e-400}', names="1e-400 is closer"),
    "below a float": BadRow(kind="FLOAT", csv="2,-1e-46,b", json='{"id": 2, "v": -1e-46}', names="-1e-46 is closer"),
    "below a double with zeros": BadRow(
        kind="DOUBLE", csv=f"2,0.{'0' * 400}1,b", json=f'{{"id": 2, "v": 0.{"0" * 400}1}}', names="is closer to 0"
    ),
    "text too long": BadRow(kind="VARCHAR(3)", csv="2,abcd,b", json='{"id": 2, "v": "abcd"}', names="4 characters"),
    "text too long for CHAR": BadRow(kind="CHAR(2)", csv="2,éàü,b", json='{"id": 2, "v": "éàü"}', names="3 characters"),
    "bytes too long": BadRow(kind="BINARY(1)", csv="2,AAAA,b", json='{"id": 2, "v": "AAAA"}', names="3 bytes"),
    "text too long in a list": BadRow(
        kind="ARRAY<VARCHAR(3)>", json='{"id": 2, "v": ["abc", "abcd"]}', names="4 characters in v.element"
    ),
    "count that is none": BadRow(kind="MULTISET<STRING>", json='{"id": 2, "v": [["a", "b"]]}', names="'b'"),
    "no base 64": BadRow(kind="BYTES", csv="2,?,b", json='{"id": 2, "v": "?"}', names="v"),
    "null for NOT NULL": BadRow(
        kind="INT NOT NULL", csv="2,,b", json='{"id": 2, "v": null}', column=None, names="column 'v' is null"
    ),
    "column that lacks for NOT NULL": BadRow(
        kind="INT NOT NULL", json='{"id": 2}', column=None, names="column 'v' is null"
    ),
    "null for a key": BadRow(csv=",2,b", json='{"v": 2}', column=None, names="column 'id' is null"),
    "field too few": BadRow(csv="2,2", column=None, names="it has 2 fields, and the header 3"),
    "field too many": BadRow(csv="2,2,b,c", column=None, names="it has 4 fields, and the header 3"),
    "another delimiter": BadRow(csv="2;2;b", column=None, names="it has 1 field, and the header 3"),
    "quote never closed": BadRow(csv='2,2,"b', column=None, names="a quote is opened and never closed"),
    "text after a quote": BadRow(csv='2,2,"say "b""', column=None, names="text follows a closing quote"),
    "blank after a quote": BadRow(csv='"2" ,2,b', column=None, names="text follows a closing quote"),
    "not UTF-8": BadRow(csv=b"2,2,caf\xe9", json=b'{"id": 2, "name": "caf\xe9"}', column=None, names="not UTF-8"),
    "no JSON": BadRow(json='{"id": 2', column=None, names="it is not JSON"),
    "no object": BadRow(json="[2, 2]", column=None, names="it is no object"),
    "key twice": BadRow(json='{"id": 2, "id": 3}', column=None, names="has the key 'id' twice"),
    "unknown key": BadRow(json='{"id": 2, "vv": 3}', column=None, names="Did you mean 'v'?"),
    "nested too deep": BadRow(json="[" * 100_000, column=None, names="nested too deep"),
    "half of a character": BadRow(json='{"id": 2, "name": "\\ud800"}', column="name", names="value of type STRING"),
    "object for a number": BadRow(json='{"id": 2, "v": {"a": 1}}', names="{'a': 1}"),
    "unknown field": BadRow(kind="ROW<a INT>", json='{"id": 2, "v": {"b": 1}}', names="there is no field 'b'"),
    "null inside": BadRow(
        kind="ARRAY<INT NOT NULL>", json='{"id": 2, "v": [1, null]}', column=None, names="column 'v'"
    ),
    "map key twice": BadRow(
        kind="MAP<INT, INT>", json='{"id": 2, "v": {"1": 1, "01": 2}}', column=None, names="a key twice"
    ),
    "no row kind": BadRow(
        kind="STRING", csv="2,gone,b", json='{"id": 2, "v": "gone"}', column=None, names="none of +I",
        options=("rowkind.field=v",),
    ),
    "long name of a partition": BadRow(
        kind="STRING NOT NULL", csv=f"2,{'x' * 300},b", json=json.dumps({"id": 2, "v": "x" * 300}), column=None,
        names="bytes", options=("partition",),
    ),
}  # fmt: skip

GOOD = {
    "INT": ("1", 1), "FLOAT": ("0.5", 0.5), "DOUBLE": ("0.5", 0.5), "DECIMAL(5, 2)": ("1.50", "1.50"),
    "DECIMAL(2, 2)": ("0.50", "0.50"),
    "BOOLEAN": ("true", True), "DATE": ("2024-01-31", "2024-01-31"), "TIME(3)": ("01:02:03", "01:02:03"),
    "TIMESTAMP(3)": ("2024-01-31 01:02:03", "2024-01-31 01:02:03"), "BYTES": ("eA==", "eA=="), "STRING": ("+I", "+I"),
    "TIMESTAMP(3) WITH LOCAL TIME ZONE": ("2024-01-31 01:02:03+23:59", "2024-01-31 01:02:03Z"),
    "VARCHAR(3)": ("abc", "abc"), "CHAR(2)": ("éà", "éà"), "BINARY(1)": ("eA==", "eA=="),
    "ARRAY<VARCHAR(3)>": ("", ["abc"]), "MULTISET<STRING>": ("", [["a", 2]]), "ROW<a INT>": ("", {"a": 1}),
    "ARRAY<INT NOT NULL>": ("", [1]), "MAP<INT, INT>": ("", [[1, 1]]),
}  # fmt: skip


@pytest.fixture
def lake(tmp_path: Path) -> interbed.Catalog:
    """Open a catalog with the database `d`."""
    catalog = interbed.load_catalog(warehouse=tmp_path / "lake")
    catalog.create_database("d")
    return catalog


def run(lake: interbed.Catalog, *arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["table", "-o", f"warehouse={lake.warehouse}", *map(str, arguments)])


def create(lake: interbed.Catalog, name: str, dirty: BadRow) -> interbed.Table:
    partitioned = "partition" in dirty.options
    words = ["create", name, "--column", "id INT NOT NULL", "--column", f"v {dirty.kind}", "--column", "name STRING"]
    words += ["--primary-key", "id,v" if partitioned else "id", "--option", "bucket=1"]
    words += ["--partition-key", "v"] if partitioned else []
    words += [w for o in dirty.options if o != "partition" for w in ("--option", o)]
    made = run(lake, *words)
    assert made.exit_code == 0, made.output
    return lake.get_table(name)


def write(path: Path, dirty: BadRow, line: str | bytes) -> None:
    """Write two good lines, the bad one in line 3 of JSON and line 5 of CSV, and another good line."""
    text, value = GOOD[dirty.kind.removesuffix(" NOT NULL") if dirty.kind[0] != "A" else dirty.kind]
    data = line if isinstance(line, bytes) else line.encode()
    if path.suffix == ".csv":
        # Quoted line ends and blank lines count as lines.
        begin = f'id,v,name\n1,{text},"a\nb"\n\n'
        path.write_bytes(begin.encode() + data + f"\n3,{text},c\n".encode())
        return
    good = [json.dumps({"id": i, "v": value, "name": "x"}).encode() for i in (1, 3)]
    path.write_bytes(good[0] + b"\n\n" + data + b"\n" + good[1] + b"\n")


@pytest.mark.parametrize("form", ["csv", "json"])
def test_each_kind_of_bad_line_is_reported_skipped_or_listed(
    lake: interbed.Catalog, tmp_path: Path, form: str, tally: Tally
) -> None:
    cases = [(what, dirty, line) for what, dirty in KINDS.items() if (line := getattr(dirty, form)) is not None]
    for number, (what, dirty, line) in enumerate(cases):
        name, path, rejects = f"d.t{number}", tmp_path / f"dirty.{form}", tmp_path / "rejects.json"
        table = create(lake, name, dirty)
        write(path, dirty, line)
        at = f"dirty.{form}, line {5 if form == 'csv' else 3}"
        place = at if dirty.column is None else f"{at}, column '{dirty.column}'"

        refused = run(lake, "import", name, path)
        assert (refused.exit_code, isinstance(refused.exception, SystemExit)) == (1, True), (what, refused.output)
        said = refused.output.replace("\n", " ")
        assert f"{place}: " in said, (what, said)
        assert dirty.names in said, (what, said)
        assert "--skip-bad" in said, (what, said)
        assert table.latest_snapshot() is None, what

        taken = run(lake, "import", name, path, "--skip-bad")
        assert taken.exit_code == 0, (what, taken.output)
        assert "imported 2 rows" in taken.output, (what, taken.output)
        assert "; 1 line was rejected, the first is" in taken.output, (what, taken.output)
        assert sorted(table.scan(columns=["id"]).to_arrow()["id"].to_pylist(), key=str) == [1, 3], what

        listed = run(lake, "import", name, path, "--rejects", rejects, "--mode", "upsert", "--json")
        assert (listed.exit_code, json.loads(listed.output)["rejected"]) == (0, 1), (what, listed.output)
        [found] = map(json.loads, rejects.read_text().splitlines())
        assert (found["file"], found["line"], found["column"]) == (str(path), 5 if form == "csv" else 3, dirty.column)
        assert dirty.names in found["reason"], (what, found)
        shown = line.decode(errors="backslashreplace") if isinstance(line, bytes) else line
        assert found["text"] == shown, (what, found)
        rejects.unlink()
    tally(f"kinds of bad {form} lines times fates", 3 * len(cases))


def test_a_rejects_file_can_be_corrected_and_imported(lake: interbed.Catalog, tmp_path: Path) -> None:
    table = create(lake, "d.t", BadRow())
    lines = [f"{i},{'x' if i % 7 == 0 else i},n{i}" for i in range(1000)]
    (tmp_path / "a.csv").write_text("id,v,name\n" + "\n".join(lines))
    rejects = tmp_path / "rejects.json"
    taken = run(lake, "import", "d.t", tmp_path / "a.csv", "--rejects", rejects)
    assert (
        f"imported 857 rows into d.t: snapshot 1; 143 lines were rejected, they are in {rejects}"
        in taken.output.replace("\n", "")
    )
    found = [json.loads(line) for line in rejects.read_text().splitlines()]
    assert [each["line"] for each in found] == [i + 2 for i in range(0, 1000, 7)]
    (tmp_path / "b.csv").write_text("id,v,name\n" + "\n".join(e["text"].replace(",x,", ",0,") for e in found))
    assert run(lake, "import", "d.t", tmp_path / "b.csv").exit_code == 0
    assert table.scan().count() == 1000


@pytest.mark.sample(10)
@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", b"\x00\x01\x02\xff" * 100, "is not CSV: it has a byte 0x00 at position 0, which no text has"),
        ("a.csv", b"\x89PNG\r\n\x1a\n" + bytes(50), "is not CSV: it has a byte 0x00"),
        ("a.csv", b"\xfa\xfb\xfc\n\xfd\n", "line 1: the header is not UTF-8: byte 0xfa at position 0"),
        ("a.csv", b"PAR1....", "is a Parquet file; give --format parquet"),
        ("a.csv", b"PK\x03\x04....", "is a ZIP archive, as the files of spreadsheets are"),
        ("a.csv", b"\x1f\x8b\x08....", "is compressed by gzip; let its name end in .gz"),
        ("a.csv", "id,v\n1,2\n".encode("utf-16"), "is UTF-16; convert it to UTF-8"),
        ("a.csv", b"\n\n", "is empty; the first line of a CSV file names its columns"),
        ("a.csv", b"", "is empty"),
        ("a.csv", b"id,id\n1,2\n", "the header names the column 'id' twice"),
        ("a.csv", b'id,"v\n1,2\n', "the header has a quote that is never closed"),
        ("a.csv", b'id,"v"x\n1,2\n', "in the header, text follows a closing quote"),
        ("a.csv", b"v,name\n1,x\n", "lacks the column 'id', which admits no nulls"),
        ("a.json", b"\x00\x01\x02\xff" * 100, "is not JSON: it has a byte 0x00"),
        ("a.json", b"ORC....", "is an ORC file"),
        ("a.csv.gz", b"no gzip", "a.csv.gz: "),
        ("a.parquet", bytes(100), "a.parquet: "),
    ],
)
@pytest.mark.parametrize("more", [[], ["--skip-bad"]])
def test_a_file_of_another_format_is_refused_even_with_skip_bad(
    lake: interbed.Catalog, tmp_path: Path, name: str, content: bytes, message: str, more: list[str]
) -> None:
    (tmp_path / name).write_bytes(content)
    table = create(lake, "d.t", BadRow())
    found = run(lake, "import", "d.t", tmp_path / name, *more)
    assert (found.exit_code, isinstance(found.exception, SystemExit)) == (1, True), found.output
    assert message in found.output.replace("\n", " "), found.output
    assert table.latest_snapshot() is None


def test_an_overwrite_without_a_good_line_changes_nothing(lake: interbed.Catalog, tmp_path: Path) -> None:
    table = create(lake, "d.t", BadRow())
    table.append(pa.table({"id": pa.array([1], pa.int32()), "v": pa.array([1], pa.int32()), "name": ["x"]}))
    (tmp_path / "a.csv").write_text("id,v,name\n1,x,x\n")
    found = run(lake, "import", "d.t", tmp_path / "a.csv", "--skip-bad", "--mode", "overwrite")
    assert (found.exit_code, "No line of the files could be taken" in found.output) == (1, True), found.output
    assert table.scan().count() == 1


def test_rejected_rows_of_typed_files_are_listed_by_row_number(lake: interbed.Catalog, tmp_path: Path) -> None:
    table = create(lake, "d.t", BadRow())
    for name, ids in (("a.parquet", [1, 2]), ("b.parquet", [3, None, 5])):
        data = pa.table({"id": ids, "v": [1.0, 2.5] if name[0] == "a" else [1.0, 1.0, 1.5]})
        pa.parquet.write_table(data, tmp_path / name)
    files = [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    refused = run(lake, "import", "d.t", *files)
    assert "a.parquet, row 1 (counted from 0): " in refused.output.replace("\n", " "), refused.output
    rejects = tmp_path / "r.json"
    assert run(lake, "import", "d.t", *files, "--rejects", rejects).exit_code == 0
    found = [json.loads(line) for line in rejects.read_text().splitlines()]
    assert [(Path(each["file"]).name, each["row"]) for each in found] == [
        ("a.parquet", 1), ("b.parquet", 1), ("b.parquet", 2)
    ]  # fmt: skip
    assert sorted(table.scan().to_arrow()["id"].to_pylist(), key=str) == [1, 3]


# -- the same values by CSV and by JSON --------------------------------------------------------------------------------

SAME: list[tuple[str, str]] = [
    *((kind, text) for kind in ("DATE", "TIMESTAMP(3)", "TIMESTAMP(6)") for text in (
        "+10000-01-01", "-0001-12-31", "0000-01-01", "2024-01-31", "+99999-12-31", "10000-01-01"
    )),
    ("DATE", "+5881580-07-11"),
    ("TIMESTAMP(3)", "+10000-01-01 01:02:03.456"),
    ("TIMESTAMP(6)", "+10000-01-01T01:02:03.456789"),
    ("TIMESTAMP(9)", "2024-01-01 00:00:00.123456789"),
    ("TIMESTAMP(3) WITH LOCAL TIME ZONE", "2024-01-01 00:00:00"),
    ("TIMESTAMP(3) WITH LOCAL TIME ZONE", "2024-01-01 00:00:00+01:00"),
    ("TIMESTAMP(3) WITH LOCAL TIME ZONE", "+10000-01-01 00:00:00Z"),
    ("TIME(3)", "01:02:03.456"),
    ("TIME(3)", "01:02"),
]  # fmt: skip
NUMBERS = [("INT", "1.0"), ("INT", "2e0"), ("INT", "-3"), ("BIGINT", "9223372036854775807"), ("DOUBLE", "1e300"),
           ("FLOAT", "0.1"), ("DECIMAL(38, 18)", "0.123456789012345678"), ("DOUBLE", "9007199254740992")]  # fmt: skip


def test_csv_and_json_have_the_same_values(lake: interbed.Catalog, tmp_path: Path, tally: Tally) -> None:
    cases = [*((k, t, json.dumps(t)) for k, t in SAME), *((k, t, t) for k, t in NUMBERS)]
    for number, (kind, text, as_json) in enumerate(cases):
        name = f"d.t{number}"
        table = create(lake, name, BadRow(kind=kind))
        (tmp_path / "a.csv").write_text(f"id,v\n1,{text}\n")
        (tmp_path / "a.json").write_text(f'{{"id": 2, "v": {as_json}}}\n')
        for file in ("a.csv", "a.json"):
            found = run(lake, "import", name, tmp_path / file)
            assert found.exit_code == 0, (kind, text, file, found.output)
        column = table.scan().to_arrow()["v"]
        assert column[0] == column[1], (kind, text, column)
        assert column[0].is_valid
    tally("values by CSV and JSON", len(cases))


def test_dates_beyond_python_are_exported_as_csv_and_imported_again(lake: interbed.Catalog, tmp_path: Path) -> None:
    made = run(lake, "create", "d.a", "--column", "d DATE", "--column", "t TIMESTAMP(6)")
    assert made.exit_code == 0, made.output
    run(lake, "create", "d.b", "--column", "d DATE", "--column", "t TIMESTAMP(6)")
    one, two = lake.get_table("d.a"), lake.get_table("d.b")
    one.append([{"d": FarDate(2**31 - 1), "t": FarTimestamp(2**62, "us")}, {"d": date(2024, 1, 1), "t": None}])
    assert run(lake, "scan", "d.a", "--output", tmp_path / "a.csv").exit_code == 0
    assert run(lake, "import", "d.b", tmp_path / "a.csv").exit_code == 0
    assert two.scan().to_arrow().equals(one.scan().to_arrow())


@pytest.mark.sample(6)
@pytest.mark.parametrize(
    ("kind", "value", "reason"),
    [
        ("STRING", "12", "12 is not a value of type STRING"),
        ("BIGINT", "9223372036854775808", "9223372036854775808 is not a value of type BIGINT"),
        ("ROW<x STRING>", '{"x": 12}', "12 is not a value of type STRING in x"),
        (
            "ROW<x ARRAY<BIGINT>>",
            '{"x": [1, 9223372036854775808]}',
            "9223372036854775808 is not a value of type BIGINT in x[1]",
        ),
        ("MAP<STRING, INT>", '{"a": 3000000000}', "3000000000 is not a value of type INT in ['a']"),
        ("MAP<STRING, INT>", "[[null, 1]]", "a key of a map is null"),
        ("MAP<STRING, INT>", '[["a"]]', "[['a']] is no object and no list of pairs"),
        ("MAP<STRING, INT>", "5", "5 is no object and no list of pairs"),
        ("ARRAY<STRING>", '"abc"', "'abc' is no list"),
        ("ARRAY<STRING>", '{"a": 1}', "{'a': 1} is no list"),
        ("ARRAY<INT>", "[true]", "True is not a value of type INT in [0]"),
        ("DOUBLE", "true", "True is not a value of type DOUBLE"),
        ("BYTES", "5", "5 is not a value of type BYTES, which is a text in base 64"),
        ("BYTES", '"abc"', "'abc' is not a value of type BYTES, which is a text in base 64"),
    ],
)
def test_a_json_value_of_the_wrong_type_is_reported_without_the_parsers_message(
    lake: interbed.Catalog, tmp_path: Path, kind: str, value: str, reason: str
) -> None:
    assert run(lake, "create", "d.t", "--column", "id INT", "--column", f"v {kind}").exit_code == 0
    (tmp_path / "a.json").write_text(f'{{"id": 1}}\n{{"id": 2, "v": {value}}}\n')
    read = run(lake, "import", "d.t", tmp_path / "a.json")
    assert (read.exit_code, f"a.json, line 2, column 'v': {reason}. The line: " in read.output) == (1, True), (
        read.output
    )
    assert lake.get_table("d.t").latest_snapshot() is None


# -- blocks of records -------------------------------------------------------------------------------------------------

RECORDS = [
    b"1,a,x\n", b'2,"a, b",x\r\n', b'3,"a ""b""\nc",x\n', b"\n", b"4,a\"b,x\r", b'5,"",x\n', b'6,"a"b,x\n', b"7,,\n"
]  # fmt: skip


@pytest.mark.parametrize("size", [1, 2, 3, 5, 8, 64])
def test_records_do_not_depend_on_the_block_size(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(csv_rows, "_READ_BYTES", size)
    data = b"".join(RECORDS) + b'8,"last\nline",x'
    found = [r for block in csv_rows.blocks(pa.BufferReader(data), ",") for r in block.records()]
    assert [(r.line, r.data[:1], r.fields) for r in found] == [
        (1, b"1", 3), (2, b"2", 3), (3, b"3", 3), (6, b"4", 3), (7, b"5", 3), (8, b"6", 3), (9, b"7", 3), (10, b"8", 3)
    ]  # fmt: skip
    assert not any(r.is_open for r in found)
    assert [r.line for r in found if not r.is_clean] == [8]


def test_an_unclosed_quote_is_a_single_bad_line() -> None:
    data = b'a,b\n1,x\n2,"y\n3,z\n4,w\n'
    found = [r for block in csv_rows.blocks(pa.BufferReader(data), ",") for r in block.records()]
    assert [(r.line, r.is_open) for r in found] == [(1, False), (2, False), (3, True), (4, False), (5, False)]


# -- overriding the types of a file ------------------------------------------------------------------------------------


def test_types_of_single_columns_of_a_file_can_be_overridden(lake: interbed.Catalog, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,zip,amount\n1,01234,2.5\n2,99,x,y\n")
    made = run(lake, "create", "d.t", "--from", tmp_path / "a.csv", "--column", "zip STRING COMMENT 'of the shop'",
               "--column", "id INT NOT NULL", "--primary-key", "id", "--option", "bucket=1")  # fmt: skip
    assert made.exit_code == 0, made.output
    assert run(lake, "schema", "d.t").output == "id INT NOT NULL\nzip STRING COMMENT 'of the shop'\namount DOUBLE\n"
    assert run(lake, "import", "d.t", tmp_path / "a.csv", "--skip-bad").exit_code == 0
    rows: list[dict[str, Any]] = lake.get_table("d.t").scan().to_arrow().to_pylist()
    assert rows == [{"id": 1, "zip": "01234", "amount": 2.5}]
    wrong = run(lake, "create", "d.u", "--from", tmp_path / "a.csv", "--column", "zipp STRING")
    said = wrong.output.replace("\n", " ")
    assert (wrong.exit_code, "has no 'zipp'; it has id, zip, amount. Did you mean 'zip'?" in said) == (1, True), said


def test_a_file_with_a_blank_name_of_a_column_makes_no_table(lake: interbed.Catalog, tmp_path: Path) -> None:
    for name in ("", " "):
        (tmp_path / "a.csv").write_text(f"id,{name}\n1,2\n")
        (tmp_path / "a.json").write_text(f'{{"id": 1, "s": {{"{name}": 2}}}}\n')
        pq.write_table(pa.table({"id": [1], name: [2]}), tmp_path / "a.parquet")
        for kind in ("csv", "json", "parquet"):
            made = run(lake, "create", "d.t", "--from", tmp_path / f"a.{kind}")
            said = " ".join(made.output.split())
            assert (made.exit_code, "blank name" in said) == (1, True), (kind, said)
    assert lake.list_tables("d") == []
