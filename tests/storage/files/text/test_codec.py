"""Rows of text files: every value is read back as it was written, or is refused by column and row."""

import base64
import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from interbed.storage.base.errors import CorruptFileError, InvalidInputError, NotSupportedError, SchemaMismatchError
from interbed.storage.base.types.arrow import data_type
from interbed.storage.base.types.data_type import DataField
from interbed.storage.files.text.codec import text_codec
from interbed.storage.files.text.options import CsvOptions, JsonOptions, MalformedMode, text_syntax
from tests.interop.strategies import random_examples, types, values
from tests.support.format_tables import FORMATS, arrow_schema, format_table
from tests.support.peers.interbed import fields_of
from tests.support.peers.json import comparable, parse_type, rows_to_table, table_to_rows

PATH = "the file"

_DAY = 86_400_000
_SECOND = 10**9
SCALARS: dict[str, list[list[Any]]] = {
    "BOOLEAN": [[True], [False], [None]],
    "TINYINT": [[-128], [127], [None]],
    "SMALLINT": [[-32768], [32767], [None]],
    "INT": [[-(2**31)], [2**31 - 1], [None]],
    "BIGINT": [[-(2**63)], [2**63 - 1], [None]],
    "FLOAT": [
        ["0.10000000149011612"],
        ["-0.0"],
        ["3.4028234663852886e+38"],
        ["1.401298464324817e-45"],
        ["NaN"],
        ["-Infinity"],
        [None],
    ],
    "DOUBLE": [["0.1"], ["-0.0"], ["1.7976931348623157e+308"], ["5e-324"], ["NaN"], ["Infinity"], [None]],
    "DECIMAL(38, 18)": [["99999999999999999999.999999999999999999"], ["-0.000000000000000001"], [None]],
    "DECIMAL(38, 0)": [["-99999999999999999999999999999999999999"], ["0"], [None]],
    "STRING": [["a,b"], ['"'], ["\\"], ['\\"'], [" "], ["\t x"], ["null"], ["ä€😀"], ["\u2028"], ["\x01"], [None]],
    "CHAR(3)": [["a  "], ["   "], [None]],
    "VARCHAR(3)": [["abc"], ["'"], [None]],
    "BYTES": [["AP8="], [None]],
    "BINARY(2)": [["AP8="], [None]],
    "DATE": [[0], [-719_162], [2_932_896], [None]],
    "TIME(0)": [[0], [_DAY - 1000], [None]],
    "TIME(3)": [[0], [_DAY - 1], [1], [None]],
    "TIMESTAMP(0)": [[0], [-_SECOND], [None]],
    "TIMESTAMP(3)": [[10**6], [-(10**6)], [None]],
    "TIMESTAMP(6)": [[1000], [-(10**6)], [None]],
    "TIMESTAMP(9)": [[1], [-(10**6)], [None]],
    "TIMESTAMP(6) WITH LOCAL TIME ZONE": [[0], [1000], [None]],
}
"""Values at the edges of each type, in the JSON of tests.support.peers.json."""


def field(name: str, of: str, number: int = 0) -> DataField:
    return DataField(id=number, name=name, type=data_type(of))


def decoded(fields: Sequence[DataField], syntax: Any, *lines: str) -> list[tuple[Any, ...]]:
    batch = text_codec(fields, syntax).decode([line.encode() for line in lines], 1, PATH)
    return list(zip(*(column.to_pylist() for column in batch.columns), strict=True))


TWO = [field("a", "STRING"), field("b", "STRING", 1)]
NUMBER = [field("a", "STRING"), field("n", "INT", 1)]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("a,b", ("a", "b")),
        ("a", ("a", None)),
        ("a,b,c", ("a", "b")),
        ('"a,b",c', ("a,b", "c")),
        ('"a\\"b",c', ('a"b', "c")),
        ('"a\\\\b",c', ("a\\b", "c")),
        ('"a""b",c', ('a"b', "c")),
        ("a\\b,c", ("ab", "c")),
        ('abc"d"ef,c', ('abc"d"ef', "c")),
        ('  "x",c', ("  x", "c")),
        ('   "x",c', ("x", "c")),
        (" ", (None, None)),
        ("\u00a0", ("\u00a0", None)),
        (",", (None, None)),
        ('"",b', (None, "b")),
        ('a,"open', ("a", None)),
    ],
)
def test_a_line_of_csv_has_the_fields_that_java_finds(line: str, expected: tuple[Any, ...]) -> None:
    assert decoded(TWO, CsvOptions(), line, "x,y") == [expected, ("x", "y")]


def test_a_malformed_field_is_null_dropped_or_refused_by_line() -> None:
    lines = ("x,1", "y,one", "z,+3", "w,99999999999", "v,4.0")
    permissive = decoded(NUMBER, CsvOptions(), *lines)
    assert permissive == [("x", 1), ("y", None), ("z", 3), ("w", None), ("v", None)]
    drop = CsvOptions(mode=MalformedMode.DROP)
    assert decoded(NUMBER, drop, *lines) == [("x", 1), ("z", 3)]
    # The rows do not depend on the columns that are read.
    batch = text_codec(NUMBER, drop, ["a"]).decode([line.encode() for line in lines], 1, PATH)
    assert batch.to_pydict() == {"a": ["x", "z"]}
    with pytest.raises(CorruptFileError, match="Line 2 of the data file the file has no value of the column 'n', INT"):
        decoded(NUMBER, CsvOptions(mode=MalformedMode.FAIL), *lines)


def test_lines_of_hive_have_escapes_before_any_character_and_their_own_null() -> None:
    hive = CsvOptions(delimiter="\x01", quote=None, escape="\\", null_literal="\\N", escapes_all=True, blank_rows=True)
    assert decoded(TWO, hive, "a\x01\\N", "\\\x01\x01\\\\N", 'a"b\x01', "") == [
        ("a", None),
        ("\x01", "\\N"),
        ('a"b', ""),
        ("", None),
    ]
    rows = pa.record_batch({"a": ["\x01", "\\N", None, ""], "b": ["x", "y", "\\", None]})
    codec = text_codec(TWO, hive)
    lines = codec.encode(rows, np.arange(4))
    assert codec.decode([line.encode() for line in lines], 1, PATH).to_pydict() == rows.to_pydict()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("[1]", "it is no object"),
        ("{", "Expecting"),
        ('{"n": NaN}', "NaN is no JSON"),
        ('{"n": 1.5}', "its member 'n' is no INT: it is '1.5'"),
        ('{"n": {}}', "its member 'n' is no INT"),
        ('{"a": [1]}', "its member 'a' is no STRING"),
    ],
)
def test_a_line_of_json_that_does_not_fit_is_refused_by_line(line: str, message: str) -> None:
    with pytest.raises(CorruptFileError, match=f"Line 3 of the data file the file can't be read: .*{message}"):
        decoded(NUMBER, JsonOptions(), '{"n": 1}', "", line)
    found = decoded(NUMBER, JsonOptions(ignores_errors=True), '{"n": "1"}', line)
    assert found[0] == (None, 1)
    assert found[1:] in ([], [(None, None)])


def test_json_takes_texts_and_values_and_ignores_other_members() -> None:
    lines = ['{"n":"7","a":1.50,"x":[]}', '{"a":true}', '{"A":"other","N":null}']
    assert decoded(NUMBER, JsonOptions(), *lines) == [("1.50", 7), ("true", None), (None, None)]
    assert decoded(NUMBER, JsonOptions(any_case=True), lines[2]) == [("other", None)]


@pytest.mark.sample(24)
@pytest.mark.parametrize("file_format", FORMATS)
@pytest.mark.parametrize("of", SCALARS)
def test_edge_values_of_each_type_are_read_back(tmp_path: Path, file_format: str, of: str) -> None:
    if file_format == "text" and not of.startswith(("STRING", "CHAR", "VARCHAR")):
        with pytest.raises(NotSupportedError, match="hold one column of type STRING"):
            format_table(tmp_path / "t", fields_of([("v", of)]), "text")
        return
    if file_format == "avro" and of == "TIMESTAMP(9)":
        with pytest.raises(NotSupportedError, match="at most 6 fractional digits"):
            format_table(tmp_path / "t", fields_of([("v", of)]), "avro")
        return
    table = format_table(tmp_path / "t", fields_of([("v", of)]), file_format, options={"csv.null-literal": "NULL"})
    rows = SCALARS[of] if file_format != "text" else [[v] for (v,) in SCALARS[of] if v is not None]
    data = rows_to_table(rows, ["v"], [parse_type(of)])
    table.append(data)
    assert comparable(table_to_rows(table.to_arrow(), [parse_type(of)]), [parse_type(of)]) == comparable(
        rows, [parse_type(of)]
    )


@random_examples(60)
@given(drawn=st.data())
def test_random_values_are_read_back_or_refused(tmp_path_factory: pytest.TempPathFactory, drawn: st.DataObject) -> None:
    file_format = drawn.draw(st.sampled_from(FORMATS))
    of = drawn.draw(types())
    keys = parse_type(of)
    rows = drawn.draw(
        st.lists(st.tuples(values(keys)), min_size=1, max_size=6).map(lambda found: [[*r] for r in found])
    )
    location = tmp_path_factory.mktemp("table") / "t"
    try:
        table = format_table(location, fields_of([("v", of)]), file_format, options={"csv.null-literal": "NULL"})
    except NotSupportedError:
        # A type that files of the format can't hold.
        return
    refused = None
    try:
        table.append(rows_to_table(rows, ["v"], [keys]))
    except (InvalidInputError, SchemaMismatchError) as error:
        refused = str(error)
    if refused is not None:
        assert "'v" in refused
        assert table.count() == 0
        return
    assert comparable(table_to_rows(table.to_arrow(), [keys]), [keys]) == comparable(rows, [keys])


@pytest.mark.parametrize(
    ("file_format", "value", "message"),
    [
        ("csv", "a\nb", "would end the line"),
        ("csv", "a\rb", "would end the line"),
        ("csv", "", "it is the 'csv.null-literal'"),
        ("text", "a\nb", "would end the line"),
        ("text", None, "hold no NULL"),
    ],
)
def test_a_text_that_would_be_read_as_another_is_refused_by_row(
    tmp_path: Path, file_format: str, value: str | None, message: str
) -> None:
    table = format_table(tmp_path / "t", arrow_schema([("v", pa.string())]), file_format)
    table.append([{"v": "before"}])
    with pytest.raises(InvalidInputError, match=f"'v'.*row 2 \\(counted from 0\\).*{message}"):
        table.append(pa.table({"v": pa.chunked_array([["x", "y"], [value]], pa.string())}))
    assert table.to_arrow().to_pydict() == {"v": ["before"]}


@pytest.mark.parametrize("compression", ["none", "gzip", "bzip2", "zstd", "deflate"])
@pytest.mark.parametrize("file_format", ["csv", "json", "text"])
def test_text_files_are_compressed_by_their_extension(tmp_path: Path, file_format: str, compression: str) -> None:
    options = {"format-table.file.compression": compression}
    table = format_table(tmp_path / "t", arrow_schema([("v", pa.string())]), file_format, options=options)
    data = pa.table({"v": [f"text {n}" for n in range(20_000)]})
    table.append(data)
    assert table.to_arrow().equals(data)
    (file,) = (path for path in (tmp_path / "t").iterdir() if path.is_file())
    assert file.name.endswith(
        {"none": f".{file_format}", "gzip": ".gz", "bzip2": ".bz2", "zstd": ".zst", "deflate": ".deflate"}[compression]
    )
    if compression == "gzip":
        assert len(gzip.decompress(file.read_bytes()).splitlines()) == 20_000


def test_a_damaged_compressed_file_is_named(tmp_path: Path) -> None:
    options = {"format-table.file.compression": "gzip"}
    table = format_table(tmp_path / "t", arrow_schema([("v", pa.string())]), "csv", options=options)
    table.append([{"v": "x" * 1000}])
    (file,) = (path for path in (tmp_path / "t").iterdir() if path.is_file())
    file.write_bytes(file.read_bytes()[:-12])
    with pytest.raises(CorruptFileError, match=file.name):
        table.to_arrow()


def test_files_of_others_are_read(tmp_path: Path) -> None:
    table = format_table(
        tmp_path / "t",
        arrow_schema([("id", pa.int64()), ("v", pa.string())]),
        "csv",
        options={"csv.include-header": "true", "csv.field-delimiter": ";", "csv.quote-character": "'"},
    )
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "a.csv").write_bytes(b"\xef\xbb\xbfid;v\r\n1;'a;b'\r2;c\n3;d")
    (tmp_path / "t" / "_SUCCESS").write_bytes(b"1;hidden")
    (tmp_path / "t" / ".part.crc").write_bytes(b"1;hidden")
    (tmp_path / "t" / "empty.csv").write_bytes(b"")
    assert table.to_arrow().to_pydict() == {"id": [1, 2, 3], "v": ["a;b", "c", "d"]}
    assert table.scan(columns=[], filter="id > 1").count() == 2
    table.append([{"id": 4, "v": "e;f'g"}])
    assert table.scan(filter="id = 4").to_arrow().to_pydict() == {"id": [4], "v": ["e;f'g"]}
    (tmp_path / "t" / "b.csv").write_bytes(b"id;v\n5;\xff\n")
    with pytest.raises(CorruptFileError, match=r"Line 2 of the data file .*/b\.csv is not UTF-8"):
        table.to_arrow()


def test_json_files_have_values_that_other_engines_read(tmp_path: Path) -> None:
    fields = fields_of(
        [
            ("i", "INT"),
            ("b", "BOOLEAN"),
            ("d", "DOUBLE"),
            ("s", "STRING"),
            ("x", "BYTES"),
            ("a", {"type": "ARRAY", "element": "INT"}),
            ("m", {"type": "MAP", "key": "STRING NOT NULL", "value": "DOUBLE"}),
        ]
    )
    table = format_table(tmp_path / "t", fields, "json")
    table.append(
        [
            {"i": 1, "b": True, "d": 1.5, "s": 'q"\n', "x": b"\xff", "a": [1, None], "m": [("k", float("nan"))]},
            {"i": None, "b": None, "d": float("inf"), "s": None, "x": None, "a": None, "m": None},
        ]
    )
    (file,) = (path for path in (tmp_path / "t").iterdir() if path.is_file())
    first, second = (json.loads(line) for line in file.read_text().splitlines())
    assert first == {
        "i": 1,
        "b": True,
        "d": 1.5,
        "s": 'q"\n',
        "x": base64.b64encode(b"\xff").decode(),
        "a": [1, None],
        "m": {"k": "NaN"},
    }
    assert second == {"i": None, "b": None, "d": "Infinity", "s": None, "x": None, "a": None, "m": None}


def test_older_keys_of_options_are_read_where_the_first_is_not_set() -> None:
    assert text_syntax("csv", {"seq": "|", "header": "true", "lineSep": "\n\n"}) == CsvOptions(
        delimiter="|", header_lines=1, line_delimiter="\n\n"
    )
