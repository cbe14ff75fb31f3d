"""`table create --from` infers types that keep every value of the file."""

import io
import re
from datetime import date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

import interbed
from interbed.catalog.client.cli.forms import csv_rows
from interbed.catalog.client.cli.forms.csv_rows import csv_batches, inferred_csv_schema
from interbed.catalog.client.cli.forms.row_formats import BadLines
from interbed.cli import main
from interbed.storage.base.types.arrow import fields_to_schema
from interbed.storage.meta.schema.table_schema import Schema

_FILE = Path("a.csv")


def run(warehouse: Path, *arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["table", "-o", f"warehouse={warehouse}", *map(str, arguments)])


def guessed(tmp_path: Path, name: str, content: str, *columns: str) -> tuple[str, list[Any]]:
    """Return the columns of the table created from a file, and its rows after the import."""
    (tmp_path / name).write_text(content)
    lake = interbed.load_catalog(warehouse=tmp_path / "lake")
    lake.create_database("d", ignore_if_exists=True)
    corrections = [word for column in columns for word in ("--column", column)]
    made = run(tmp_path / "lake", "create", "d.t", "--from", tmp_path / name, *corrections)
    assert made.exit_code == 0, made.output
    read = run(tmp_path / "lake", "import", "d.t", tmp_path / name)
    assert read.exit_code == 0, read.output
    schema = run(tmp_path / "lake", "schema", "d.t").output
    return schema.removesuffix("\n").replace("\n", ", "), lake.get_table("d.t").scan().to_arrow().to_pylist()


@pytest.mark.parametrize(
    ("texts", "kind", "values"),
    [
        (["0870", "12"], "STRING", ["0870", "12"]),
        (["-01"], "STRING", ["-01"]),
        (["00"], "STRING", ["00"]),
        (["00.5"], "STRING", ["00.5"]),
        (["0", "-12"], "BIGINT", [0, -12]),
        (["0.5", "0"], "DOUBLE", [0.5, 0.0]),
        (["1.50", ".5", "5."], "DOUBLE", [1.5, 0.5, 5.0]),
        (["9223372036854775807"], "BIGINT", [2**63 - 1]),
        (["9223372036854775808", "1"], "DECIMAL(38, 0)", [Decimal(2**63), Decimal(1)]),
        (["12345678901234567890"], "DECIMAL(38, 0)", [Decimal("12345678901234567890")]),
        (["9" * 38], "DECIMAL(38, 0)", [Decimal("9" * 38)]),
        (["9" * 39], "STRING", ["9" * 39]),
        (["12345678901234567", "0.5"], "DECIMAL(38, 1)", [Decimal("12345678901234567.0"), Decimal("0.5")]),
        (["0.1234567890123456789"], "DECIMAL(38, 19)", [Decimal("0.1234567890123456789")]),
        (["0.30000000000000004"], "DOUBLE", [0.30000000000000004]),
        (["1" * 20 + ".1", "0." + "1" * 20], "STRING", ["1" * 20 + ".1", "0." + "1" * 20]),
        (["1e5", "1.5E-7"], "DOUBLE", [1e5, 1.5e-7]),
        (["1e400"], "STRING", ["1e400"]),
        (["1e-400"], "STRING", ["1e-400"]),
        (["1e5", "12345678901234567890"], "STRING", ["1e5", "12345678901234567890"]),
        (["-0"], "DOUBLE", [-0.0]),
        (["+5"], "STRING", ["+5"]),
        ([" 5"], "STRING", [" 5"]),
        (["5 "], "STRING", ["5 "]),
        (["0x1F"], "STRING", ["0x1F"]),
        (["1.5", "inf", "-Infinity"], "DOUBLE", [1.5, float("inf"), float("-inf")]),
        (["Inf"], "STRING", ["Inf"]),
        (["true", "FALSE"], "BOOLEAN", [True, False]),
        (["true", "1"], "STRING", ["true", "1"]),
        ([" true"], "STRING", [" true"]),
        (["2026-01-31"], "DATE", [date(2026, 1, 31)]),
        ([" 2026-01-31"], "STRING", [" 2026-01-31"]),
        (["12:34:56"], "TIME(0)", [time(12, 34, 56)]),
        (["2026-01-31 12:00:00"], "TIMESTAMP(0)", [datetime(2026, 1, 31, 12)]),
        (["2026-01-31", "7"], "STRING", ["2026-01-31", "7"]),
        (["", ""], "STRING", [None, None]),
        (['""', "7"], "STRING", ["", "7"]),
    ],
)
def test_an_inferred_type_keeps_every_value(tmp_path: Path, texts: list[str], kind: str, values: list[Any]) -> None:
    content = "id,x\n" + "".join(f"{number},{text}\n" for number, text in enumerate(texts))
    schema, rows = guessed(tmp_path, "a.csv", content)
    assert schema == f"id BIGINT, x {kind}"
    assert repr([row["x"] for row in rows]) == repr(values)


@pytest.mark.parametrize(
    ("first", "last", "kind"),
    [
        ("7", "007", "STRING"),
        ("7", "0.5", "DOUBLE"),
        ("7", "12345678901234567890", "DECIMAL(38, 0)"),
        ("7", "true", "STRING"),
        ("true", "7", "STRING"),
        ("0.5", "12345678901234567890", "DECIMAL(38, 1)"),
        ("2026-01-31", "7", "STRING"),
        ("2026-01-31", "2026-01-31 12:00:00.5", "TIMESTAMP(9)"),
        ("2026-01-31 12:00:00", "2026-01-31 12:00:00Z", "STRING"),
        ("", "7", "BIGINT"),
    ],
)
def test_rows_far_down_a_file_are_used_for_the_type(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, first: str, last: str, kind: str
) -> None:
    monkeypatch.setattr(csv_rows, "_READ_BYTES", 64)
    lines = ["id,x"] + [f"1,{first}"] * 100 + ["one field", f"2,{last}"]
    (tmp_path / "a.csv").write_text("\n".join(lines))
    interbed.load_catalog(warehouse=tmp_path / "lake").create_database("d")
    assert run(tmp_path / "lake", "create", "d.t", "--from", tmp_path / "a.csv").exit_code == 0
    assert run(tmp_path / "lake", "schema", "d.t").output == f"id BIGINT\nx {kind}\n"


@pytest.mark.parametrize(
    ("values", "kind", "read"),
    [
        (["1", "2.5"], "DOUBLE", [1.0, 2.5]),
        (["9223372036854775808"], "DECIMAL(38, 0)", [Decimal(2**63)]),
        (["0.1234567890123456789", "1"], "DECIMAL(38, 19)", [Decimal("0.1234567890123456789"), Decimal(1)]),
        (["12345678901234567", "0.5"], "DECIMAL(38, 1)", [Decimal("12345678901234567"), Decimal("0.5")]),
        (["NaN"], "DOUBLE", [float("nan")]),
        (["1e5", "-Infinity"], "DOUBLE", [1e5, float("-inf")]),
        (['"0870"'], "STRING", ["0870"]),
        (["true"], "BOOLEAN", [True]),
    ],
)
def test_an_inferred_type_of_json_keeps_all_digits(
    tmp_path: Path, values: list[str], kind: str, read: list[Any]
) -> None:
    content = "".join(f'{{"id": {number}, "x": {value}}}\n' for number, value in enumerate(values))
    schema, rows = guessed(tmp_path, "a.json", content)
    assert schema == f"id BIGINT, x {kind}"
    found = [row["x"] for row in rows]
    assert found == read or repr(found) == repr(read)


def test_a_json_number_that_fits_no_type_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"x": 1' + "0" * 40 + "1}\n")
    interbed.load_catalog(warehouse=tmp_path / "lake").create_database("d")
    made = run(tmp_path / "lake", "create", "d.t", "--from", tmp_path / "a.json")
    assert (made.exit_code, "their digits fit into no DOUBLE and no DECIMAL" in made.output) == (1, True), made.output
    corrected = run(tmp_path / "lake", "create", "d.t", "--from", tmp_path / "a.json", "--column", "x DOUBLE")
    assert corrected.exit_code == 0, corrected.output


_DIGITS = st.text("0123456789", max_size=25)
_NUMBERS = st.builds(
    "{}{}{}{}{}".format, st.sampled_from(["", "", "-", "+", " "]), _DIGITS, st.sampled_from(["", "."]), _DIGITS,
    st.sampled_from(["", "", "", "e5", "E-7"]),
)  # fmt: skip
_TEXTS = st.one_of(
    _NUMBERS,
    st.integers().map(str),
    st.floats().map(repr),
    st.decimals(allow_nan=False, allow_infinity=False).map(str),
    st.sampled_from(["", "0", "00", "true", "True", "2026-01-31", "12:00", "x", "nan", "inf"]),
)


@given(st.lists(_TEXTS, min_size=1, max_size=4) | st.lists(st.floats().map(repr), min_size=1, max_size=4))
def test_any_text_is_read_back_unchanged(texts: list[str]) -> None:
    data = ("id,x\n" + "".join(f"1,{text}\n" for text in texts)).encode()
    schema = Schema.from_pyarrow_schema(inferred_csv_schema(io.BytesIO(data), _FILE, ","))
    arrow = fields_to_schema(schema.fields)
    batches = list(csv_batches(io.BytesIO(data), _FILE, ",", schema.fields, arrow, BadLines(skip=False)))
    values = [value for batch in batches for value in batch.batch.column("x").to_pylist()]
    assert len(values) == len(texts)
    for text, value in zip(texts, values, strict=True):
        match value:
            case None:
                assert text == ""
            case float() if value != value or abs(value) == float("inf"):
                assert repr(value) == text
            case bool():
                assert str(value).lower() == text.lower()
            case date() | time():
                assert type(value).fromisoformat(text) == value
            case int() | float() | Decimal():
                assert Decimal(text) == Decimal(repr(value) if isinstance(value, float) else value)
                assert re.match(r"-?(0|[1-9.])", text), "a number whose text says more than a number"
                assert not re.match(r"-?0\d", text)
            case _:
                assert value == text


def test_a_file_in_another_encoding_is_reported_as_such(tmp_path: Path) -> None:
    """Regression: the lines of a CSV file in Latin-1 were read as no rows at all."""
    interbed.load_catalog(warehouse=tmp_path / "lake").create_database("d")
    for name, data in (("a.csv", b"id,x\n1,caf\xe9\n"), ("a.json", b'{"id": 1, "x": "caf\xe9"}\n')):
        (tmp_path / name).write_bytes(data)
        made = run(tmp_path / "lake", "create", "d.t", "--from", tmp_path / name)
        assert made.exit_code == 1
        for part in ("not UTF-8: byte 0xe9", "iconv -f LATIN1 -t UTF-8", "line"):
            assert part in " ".join(made.output.split()), (name, made.output)


@pytest.mark.parametrize(
    ("value", "place"),
    [("null", "x"), ("[]", "x"), ("{}", "x"), ('{"a": []}', "x.a"), ('{"a": 1, "b": [{"c": null}]}', "x.b.c")],
)
def test_a_json_column_without_a_type_is_reported(tmp_path: Path, value: str, place: str) -> None:
    (tmp_path / "a.json").write_text(f'{{"id": 1, "x": {value}}}\n')
    interbed.load_catalog(warehouse=tmp_path / "lake").create_database("d")
    made = run(tmp_path / "lake", "create", "d.t", "--from", tmp_path / "a.json")
    said = " ".join(made.output.split())
    assert made.exit_code == 1
    assert f"all values of '{place}' are null or empty" in said, said
    assert "give the type of 'x' by --column" in said, said
