"""Text files of others, and texts that look like syntax: no value gets lost, and none gets into another column."""

import itertools
from pathlib import Path

import pyarrow as pa
import pytest

from interbed.storage.base.errors import CorruptFileError, InvalidInputError
from interbed.storage.files.text.options import CsvOptions
from interbed.storage.table.format_table.definition import FormatDefinition
from interbed.storage.table.format_table.format_table import FormatTable
from tests.support.format_tables import arrow_schema, format_table, rows_of

MARKED = ("\ufeff", "\ufeffx", "\ufeff\ufeffy", '\ufeff"q"', "\ufeff,", "a\ufeff")
SCHEMA = arrow_schema([("name", pa.string()), ("age", pa.int64())])


@pytest.mark.parametrize("header", ["false", "true"])
def test_a_text_that_begins_with_a_byte_order_mark_is_read_back_from_csv(tmp_path: Path, header: str) -> None:
    for number, text in enumerate(MARKED):
        table = format_table(tmp_path / str(number), SCHEMA, "csv", options={"csv.include-header": header})
        table.append([{"name": text, "age": 1}])
        assert rows_of(table) == [(text, 1)]


def test_a_text_that_begins_with_a_byte_order_mark_is_escaped_in_files_of_hive(tmp_path: Path) -> None:
    written = format_table(tmp_path / "t", SCHEMA, "csv")
    for number, (text, escape) in enumerate(itertools.product(MARKED[:3], ("\\", None))):
        syntax = CsvOptions(quote=None, escape=escape, null_literal="\\N", escapes_all=True, blank_rows=True)
        definition = FormatDefinition(schema=written.schema, file_format="csv", syntax=syntax)
        table = FormatTable("d.t", str(tmp_path / f"t{number}"), written.file_io, definition)
        if escape is None:
            with pytest.raises(InvalidInputError, match="byte order mark"):
                table.append([{"name": text, "age": 1}])
            continue
        table.append([{"name": text, "age": 1}])
        assert rows_of(table) == [(text, 1)]


def test_a_text_that_begins_with_a_byte_order_mark_is_refused_in_plain_lines(tmp_path: Path) -> None:
    table = format_table(tmp_path / "t", arrow_schema([("v", pa.string())]), "text")
    with pytest.raises(InvalidInputError, match=r"'v'.*row 1.*byte order mark"):
        table.append([{"v": "x"}, {"v": "\ufeffx"}])
    table.append([{"v": "a\ufeff"}])
    assert rows_of(table) == [("a\ufeff",)]


def test_a_header_with_the_columns_in_another_order_is_refused(tmp_path: Path) -> None:
    table = format_table(tmp_path / "t", SCHEMA, "csv", options={"csv.include-header": "true"})
    table.append([{"name": "Bob", "age": 31}])
    other = Path(table.location) / "other.csv"
    for header in ("Name,AGE", '"name", age', "name", "x,y", "age_group,name", "name,age,more", ""):
        other.write_text(f"{header}\nEve,1\n")
        assert rows_of(table) == [("Bob", 31), ("Eve", 1)]
    for header in ("age,name", "AGE , Name", "age", "\ufeffage,name"):
        other.write_text(f"{header}\n54,Sam\n")
        with pytest.raises(CorruptFileError, match=r"other\.csv has the columns age.*the table has name, age"):
            rows_of(table)


@pytest.mark.parametrize(
    "line", ['{"name":"a","name":"b"}', '{"x":{"y":1,"y":2}}', '{"age":1,"name":"a","age":2}', '{"x":[{"y":1,"y":1}]}']
)
def test_a_name_that_is_twice_in_an_object_of_json_is_an_error(tmp_path: Path, line: str) -> None:
    for ignores in ("false", "true"):
        table = format_table(tmp_path / ignores, SCHEMA, "json", options={"json.ignore-parse-errors": ignores})
        table.append([{"name": "Bob", "age": 31}])
        (Path(table.location) / "other.json").write_text(f'{{"name":"Eve"}}\n{line}\n')
        if ignores == "true":
            assert rows_of(table) == [("Bob", 31), ("Eve", None)]
            continue
        with pytest.raises(CorruptFileError, match=r"Line 2 of .*other\.json.* the name '\w+' twice"):
            rows_of(table)
