"""Decoding of Canal's messages: the original changes, with the types that the messages state."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from itertools import chain
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interbed.ingest.flow.changes import RowChanges, SourceTable, TableTruncation
from interbed.ingest.formats.canal_json import CanalJson
from interbed.storage.base.row.kind import RowKind
from tests.ingest.formats.streams import (
    NAMES,
    STYLES,
    TEXTS,
    RowChange,
    batches,
    changes,
    consumed,
    messages_of,
    state_after,
    with_bad,
    written,
)
from tests.support.examples import examples

TABLES = (SourceTable("shop", "orders"), SourceTable("shop", "items"), SourceTable("other", "orders"))


@dataclass(frozen=True, slots=True)
class Kind:
    """A type of MySQL under some of its names, its values, and Canal's text of a value."""

    names: tuple[str, ...]
    values: st.SearchStrategy[Any]
    text: Callable[[Any], str] = str


def _stamp(value: datetime) -> str:
    return value.isoformat(" ", "microseconds")


KINDS = (
    Kind(("int(11)", "INT"), st.integers(-(2**31), 2**31 - 1)),
    Kind(("int(10) unsigned", "int unsigned zerofill"), st.integers(0, 2**32 - 1)),
    Kind(("bigint(20) unsigned", "BIGINT UNSIGNED"), st.integers(0, 2**64 - 1)),
    Kind(("tinyint(1)", "bool", "bit(1)"), st.booleans(), lambda value: str(int(value))),
    Kind(("decimal(10,2)", "NUMERIC(10, 2) unsigned"), st.decimals(0, 99999999, places=2), lambda v: f"{v:f}"),
    Kind(("datetime(6)", "timestamp(6)"), st.datetimes(datetime(1000, 1, 1), datetime(9999, 1, 1)), _stamp),
    Kind(("date",), st.dates(date(1000, 1, 1))),
    Kind(("time", "time(3)"), st.times().map(lambda value: value.replace(microsecond=0))),
    Kind(("varchar(20)", "text", "json", "char(3) CHARACTER SET utf8mb4"), TEXTS),
    Kind(("blob", "varbinary(20)"), st.binary(max_size=6), lambda value: value.decode("latin-1")),
    Kind(
        ("enum('a','it''s','1')",), st.sampled_from(["a", "it's", "1"]), lambda v: str(["a", "it's", "1"].index(v) + 1)
    ),
    Kind(
        ("set('x','y','z')",),
        st.sets(st.sampled_from("xyz")).map(sorted),
        lambda value: str(sum(1 << "xyz".index(each) for each in value)),
    ),
    Kind(
        ("bit(12)",), st.integers(0, 4095).map(lambda n: n.to_bytes(2, "big")), lambda v: str(int.from_bytes(v, "big"))
    ),
    Kind(("double",), st.floats(allow_nan=False, allow_infinity=False), repr),
    Kind(("year(4)", "smallint(6)"), st.integers(1901, 2155)),
)
BAD = (
    b"",
    b"{",
    b"[]",
    b"{}",
    b"\xff",
    b'{"database":"shop","table":"orders","type":"INSERT","data":null}',
    b'{"database":"shop","table":"orders","type":"INSERT","data":[null]}',
    b'{"database":"shop","table":"orders","type":"INSERT","data":{"id":"1"}}',
    b'{"database":"shop","table":"orders","type":"INSERT","data":["1"]}',
    b'{"database":"shop","table":"orders","type":"UPDATE","data":[{"id":"1"}],"old":null}',
    b'{"database":"shop","table":"orders","type":"UPDATE","data":[{"id":"1"}],"old":[{},{}]}',
    b'{"database":"shop","table":"orders","type":"UPDATE","data":[{"id":"1"}],"old":[]}',
    b'{"database":"shop","table":"orders","type":"UPSERT","data":[{"id":"1"}]}',
    b'{"database":"shop","table":"orders","type":"INSERT","data":[{"id":"1"}],"mysqlType":{"id":"vector(3)"}}',
    b'{"database":"shop","table":"orders","type":"INSERT","data":[{"id":"1"}],"mysqlType":{"id":{"a":1}}}',
    b'{"database":"shop","table":"orders","type":"INSERT","data":[{"id":"one"}],"mysqlType":{"id":"int"}}',
    b'{"database":"shop","table":"orders","type":"DELETE","data":[{"id":"1"},{"id":"9999999999"}],'
    b'"mysqlType":{"id":"int"}}',
    b'{"database":"shop","table":"orders","type":"UPDATE","data":[{"id":"1"}],"old":[{"id":"x"}],'
    b'"mysqlType":{"id":"int"}}',
)
PASSED_OVER = (
    b'{"data":null,"database":"shop","es":1,"id":0,"isDdl":true,"mysqlType":null,"old":null,"pkNames":null,'
    b'"sql":"CREATE TABLE","sqlType":null,"table":"orders","ts":1,"type":"CREATE"}',
    b'{"data":null,"database":"shop","isDdl":true,"sql":"CREATE DATABASE","table":"","type":"QUERY"}',
    b'{"data":null,"database":"shop","isDdl":false,"table":"","type":"GTID"}',
    b'{"id":0,"database":"","table":"","pkNames":null,"isDdl":false,"type":"TIDB_WATERMARK","data":null,"old":null}',
)
UPDATE = """{
  "data": [ { "id": "111", "name": "scooter", "description": "Big 2-wheel scooter", "weight": "5.18" } ],
  "database": "inventory", "es": 1589373560000, "id": 9, "isDdl": false,
  "mysqlType": {
    "id": "INTEGER", "name": "VARCHAR(255)", "description": "VARCHAR(512)", "weight": "FLOAT"
  },
  "old": [ { "weight": "5.15" } ],
  "pkNames": [ "id" ], "sql": "",
  "sqlType": { "id": 4, "name": 12, "description": 12, "weight": 7 },
  "table": "products", "ts": 1589373560798, "type": "UPDATE"
}"""


def message_of(stream: Sequence[RowChange], kinds: Mapping[str, Kind], which: int) -> dict[str, Any]:
    """Return one message with changes of one table and kind."""

    def texts(row: Mapping[str, Any]) -> dict[str, str | None]:
        return {name: None if value is None else kinds[name].text(value) for name, value in row.items()}

    first = stream[0]
    rows = [change.after or change.before or {} for change in stream]
    return {
        "data": [texts(row) for row in rows],
        "database": first.table.database,
        "isDdl": False,
        "mysqlType": {name: kinds[name].names[which % len(kinds[name].names)] for name in rows[0]},
        "old": [texts(change.old) for change in stream] if first.kind == "update" else None,
        "pkNames": ["id"],
        "sqlType": dict.fromkeys(rows[0], 4),
        "table": first.table.name,
        "type": first.kind.upper(),
    }


@st.composite
def streams(draw: st.DrawFn) -> tuple[list[RowChange], list[bytes]]:
    """Strategy for changes, and messages with one or several of them each."""
    kinds = {"id": Kind(("int",), st.nothing()), **{name: draw(st.sampled_from(KINDS)) for name in NAMES}}
    columns = st.sets(st.sampled_from(NAMES), max_size=4).map(lambda names: {n: kinds[n].values for n in sorted(names)})
    stream = draw(changes(columns, TABLES))
    groups: list[list[RowChange]] = []
    for change in stream:
        last = groups[-1][-1] if groups else None
        if last is not None and (last.table, last.kind) == (change.table, change.kind) and draw(st.booleans()):
            groups[-1].append(change)
        else:
            groups.append([change])
    texts = [written(message_of(group, kinds, draw(st.integers(0, 3))), **draw(STYLES)) for group in groups]
    return stream, texts


def one(text: str | bytes) -> RowChanges:
    """Return the changes of a valid message."""
    decoded = CanalJson().decode(messages_of([text if isinstance(text, bytes) else text.encode()]))
    assert decoded.bad == []
    [table] = decoded.changes
    return table


def inserted(kind: str, *values: str | None) -> RowChanges:
    data = [{"c": value} for value in values]
    return one(json.dumps({"table": "t", "type": "INSERT", "data": data, "mysqlType": {"c": kind}}))


@settings(max_examples=examples(80), deadline=None)
@given(st.data())
def test_decoded_changes_produce_the_original_tables(data: st.DataObject) -> None:
    stream, texts = data.draw(streams())
    values, offsets = data.draw(with_bad(texts, BAD))
    parts = batches(messages_of(values), data.draw(st.lists(st.integers(0, 20), max_size=3)))
    assert consumed(CanalJson(), parts) == (state_after(stream), offsets)


@settings(max_examples=examples(40), deadline=None)
@given(st.data())
def test_decoding_stops_at_a_truncation(data: st.DataObject) -> None:
    (first, texts), (second, more) = data.draw(streams()), data.draw(streams())
    truncations = [
        json.dumps({"database": t.database, "table": t.name, "isDdl": True, "type": "TRUNCATE", "data": None}).encode()
        for t in {change.table for change in chain(first, second)}
    ]
    values, _ = data.draw(with_bad([*texts, *truncations, *more], PASSED_OVER))
    parts = batches(messages_of(values), data.draw(st.lists(st.integers(0, 20), max_size=3)))
    assert consumed(CanalJson(), parts) == (state_after(second), [])


def test_the_documented_message_is_an_update() -> None:
    table = one(UPDATE)
    row = {"id": 111, "name": "scooter", "description": "Big 2-wheel scooter", "weight": pytest.approx(5.18)}
    assert table.source == SourceTable("inventory", "products")
    assert table.rows.to_pylist() == [{**row, "weight": pytest.approx(5.15)}, row]
    assert table.kinds.tolist() == [RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER]
    assert table.key == ("id",)
    assert table.stated == {"id", "name", "description", "weight"}
    assert table.rows.schema.types == [pa.int32(), pa.string(), pa.string(), pa.float32()]


def test_rows_of_one_message_share_its_index() -> None:
    text = (
        '{"data":[{"pt":"1","_id":"2","v1":"two"},{"pt":"2","_id":"4","v1":"four"}],"database":"paimon_sync_table",'
        '"es":1683006724000,"id":94,"isDdl":false,"mysqlType":{"pt":"INT","_id":"INT","v1":"VARCHAR(10)"},"old":null,'
        '"pkNames":["_id"],"sql":"","sqlType":{"pt":4,"_id":4,"v1":12},"table":"event","ts":1,"type":"INSERT"}'
    )
    table = one(text)
    assert table.rows.to_pylist() == [{"pt": 1, "_id": 2, "v1": "two"}, {"pt": 2, "_id": 4, "v1": "four"}]
    assert table.messages.tolist() == [0, 0]


def test_a_null_old_value_differs_from_a_missing_one() -> None:
    text = (
        '{"table":"t","type":"UPDATE","data":[{"a":"1","b":"2"},{"a":"3","b":"4"}],"old":[{"a":null},{"b":null}],'
        '"mysqlType":{"a":"int","b":"int"}}'
    )
    assert one(text).rows.to_pylist() == [{"a": None, "b": 2}, {"a": 1, "b": 2}, {"a": 3, "b": None}, {"a": 3, "b": 4}]


@pytest.mark.parametrize(
    ("kind", "text", "value", "arrow"),
    [
        ("TINYINT", "-128", -128, pa.int8()),
        ("tinyint(1)", "1", True, pa.bool_()),
        ("tinyint(1) unsigned", "200", 200, pa.int16()),
        ("TINYINT(2) unsigned zerofill", "3", 3, pa.int16()),
        ("smallint(5) unsigned", "65535", 65535, pa.int32()),
        ("MEDIUMINT unsigned", "200000", 200000, pa.int64()),
        ("int(10) unsigned", "4294967295", 4294967295, pa.int64()),
        ("BIGINT unsigned", "18446744073709551615", Decimal(2**64 - 1), pa.decimal128(20, 0)),
        ("SERIAL", "1", Decimal(1), pa.decimal128(20, 0)),
        ("DOUBLE PRECISION(10,7) unsigned zerofill", "3.000333", 3.000333, pa.float64()),
        ("decimal(8, 0) unsigned", "22222", Decimal(22222), pa.decimal128(8, 0)),
        ("FIXED(40,3)", "123456789876543212345678987654321.110", "123456789876543212345678987654321.110", pa.string()),
        ("DECIMAL", "1.5", Decimal("1.5"), pa.decimal128(38, 18)),
        ("datetime", "2023-03-23 14:30:05", datetime(2023, 3, 23, 14, 30, 5), pa.timestamp("ms")),
        ("timestamp(6)", "2023-03-23 15:00:10.123456", datetime(2023, 3, 23, 15, 0, 10, 123456), pa.timestamp("us")),
        ("date", "2023-03-23", date(2023, 3, 23), pa.date32()),
        ("time", "10:13:23", time(10, 13, 23), pa.time32("ms")),
        ("YEAR", "2023", 2023, pa.int32()),
        ("json", '{"a": "b"}', '{"a": "b"}', pa.string()),
        ("BIT", "0", False, pa.bool_()),
        ("bit(12)", "4095", b"\x0f\xff", pa.binary()),
        ("bit(64)", "-1", b"\xff" * 8, pa.binary()),
        ("binary(3)", "a\u00ff\u0000", b"a\xff\x00", pa.binary()),
        ("ENUM('a','b,c','d)')", "2", "b,c", pa.string()),
        ("enum('a','b')", "0", "", pa.string()),
        ("enum('a','b')", "b", "b", pa.string()),
        ("SET('a','b','c','d')", "3", ["a", "b"], pa.list_(pa.field("element", pa.string()))),
        ("set('a','b')", "a,b", ["a", "b"], pa.list_(pa.field("element", pa.string()))),
    ],
)
def test_mysql_types_map_to_those_of_paimon(kind: str, text: str, value: object, arrow: pa.DataType) -> None:
    table = inserted(kind, text, None)
    assert table.rows.column("c").to_pylist() == [value, None]
    assert table.rows.schema.field("c").type == arrow


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("int(11)", "x"),
        ("int(11)", "1.5"),
        ("year", "2020.5"),
        ("tinyint(4)", "128"),
        ("decimal(4,2)", "123.45"),
        ("decimal(5,2)", "1.239"),
        ("decimal(38,2)", "1" * 38),
        ("float", "16777217"),
        ("float", "1e39"),
        ("double", "9007199254740993"),
        ("date", "2023-01-31 10:00:00"),
        ("date", "20230131"),
        ("datetime", "2023-01-31 10:00:00.5"),
        ("datetime(3)", "2023-01-31 10:00:00.1234"),
        ("time(6)", "23:59:59.999999"),
        ("date", "2023-02-30"),
        ("datetime", "0000-00-00 00:00:00"),
        ("datetime", "2024-02-30 00:00:00"),
        ("datetime(6)", "2023-02-29 10:00:00.5"),
        ("timestamp", "2024-4-31 00:00:00"),
        ("datetime", "2024-01-01 24:00:00"),
        ("datetime", "2024-02-30"),
        ("time", "25:00:00"),
        ("tinyint(1)", "2"),
        ("enum('a')", "2"),
        ("set('a')", "b"),
        ("bit(2)", "4"),
        ("blob", "\u0100"),
    ],
)
def test_a_value_outside_of_its_type_makes_only_its_message_bad(kind: str, text: str) -> None:
    texts = [
        json.dumps({"table": "t", "type": "INSERT", "data": [{"c": None}, {"c": value}], "mysqlType": {"c": kind}})
        for value in (None, text, None)
    ]
    decoded = CanalJson().decode(messages_of([each.encode() for each in texts]))
    [bad] = decoded.bad
    assert bad.index == 1
    assert bad.reason.startswith(f"its column 'c', {kind} in MySQL, can't have {text!r}: ")
    [table] = decoded.changes
    assert table.messages.tolist() == [0, 0, 2, 2]


def test_the_last_days_of_months_are_dates() -> None:
    given = ["2024-02-29 00:00:00", "2023-12-31", "2024-4-30 23:59:59", "1900-01-31 10:24:00"]
    message = {"table": "t", "type": "INSERT", "data": [{"c": text} for text in given], "mysqlType": {"c": "datetime"}}
    decoded = CanalJson().decode(messages_of([json.dumps(message).encode()]))
    [table] = decoded.changes
    assert not decoded.bad
    assert [str(row["c"]) for row in table.rows.to_pylist()] == [
        "2024-02-29 00:00:00",
        "2023-12-31 00:00:00",
        "2024-04-30 23:59:59",
        "1900-01-31 10:24:00",
    ]


@pytest.mark.parametrize("text", ["23:59:59.999999", "24:00:00", "-838:59:59"])
def test_an_unsupported_time_is_refused_with_reason_and_remedy(text: str) -> None:
    message = {"table": "t", "type": "INSERT", "data": [{"c": text}], "mysqlType": {"c": "time(6)"}}
    [bad] = CanalJson().decode(messages_of([json.dumps(message).encode()])).bad
    assert bad.reason == (
        f"its column 'c', time(6) in MySQL, can't have {text!r}: a TIME of a table is a time of the day with three "
        "digits after the second. Let MySQL have time(3) and times of a day alone, or leave the column out where "
        "Canal runs"
    )


@pytest.mark.parametrize("text", ["23:59:59.999000", "23:59:59.999", "23:59:59", "23:59"])
def test_a_time_with_zero_microseconds_is_accepted(text: str) -> None:
    [value] = inserted("time(6)", text).rows.column("c").to_pylist()
    assert str(value) in ("23:59:59.999000", "23:59:59", "23:59:00")


@pytest.mark.parametrize("text", ["0.50", "12345678901234567.89", "1E2", "100000000000000000001", '[1.50,{"a":1e2}]'])
def test_a_number_without_a_stated_type_is_the_text_that_was_sent(text: str) -> None:
    table = one(f'{{"data":[{{"k":{text}}},{{"k":"0012"}}],"type":"INSERT"}}')
    assert table.rows.to_pylist() == [{"k": text}, {"k": "0012"}]


def test_columns_without_a_stated_type_are_texts() -> None:
    table = one('{"data":[{"k":"1","v":null,"n":2,"o":{"a":[1.50]}}],"type":"INSERT","mysqlType":null}')
    assert table.source is None
    assert table.stated == frozenset()
    assert table.rows.to_pylist() == [{"k": "1", "n": "2", "o": '{"a":[1.50]}'}]


def test_a_stated_column_exists_even_if_no_row_has_it() -> None:
    table = one('{"data":[{"a":"1"}],"type":"DELETE","table":"t","mysqlType":{"a":"int","b":"bigint"}}')
    assert table.rows.to_pylist() == [{"a": 1, "b": None}]
    assert table.rows.schema.field("b").type == pa.int64()


def test_rows_before_a_type_change_keep_the_old_types() -> None:
    texts = [
        {"table": "t", "type": "INSERT", "data": [{"a": value}], "mysqlType": {"a": kind}}
        for value, kind in (("1", "int"), ("2", "int"), ("3", "bigint"), ("x", "text"))
    ]
    decoded = CanalJson().decode(messages_of([json.dumps(text).encode() for text in texts]))
    assert [each.rows.column("a").to_pylist() for each in decoded.changes] == [[1, 2], [3], ["x"]]
    assert [each.messages.tolist() for each in decoded.changes] == [[0, 1], [2], [3]]


def test_a_type_without_a_column_type_is_refused_by_name() -> None:
    text = b'{"data":[{"p":"x"}],"type":"INSERT","table":"t","mysqlType":{"p":"POINT"}}'
    [bad] = CanalJson().decode(messages_of([text])).bad
    assert bad.reason.startswith("its column 'p' can't be read: The type 'POINT' of MySQL has no column here")


def test_the_reason_of_a_refused_decimal_is_true() -> None:
    text = '{"data":[{"p":"%s"}],"type":"INSERT","table":"t","mysqlType":{"p":"decimal(4,2)"}}'
    for value, reason in (
        ("abc", "it is no number"),
        ("1,5", "it is no number"),
        ("1.234", "it has too many digits for"),
    ):
        [bad] = CanalJson().decode(messages_of([(text % value).encode()])).bad
        assert reason in bad.reason


def test_only_changes_before_a_truncation_are_decoded() -> None:
    row = b'{"data":[{"a":"1"}],"type":"INSERT","database":"d","table":"t","mysqlType":{"a":"int"}}'
    end = b'{"data":null,"type":"TRUNCATE","isDdl":true,"database":"d","table":"t","sql":"truncate t"}'
    decoded = CanalJson().decode(messages_of([b"", row, None, end, row, b"x", end]))
    assert decoded.truncation == TableTruncation(index=3, source=SourceTable("d", "t"))
    assert [each.messages.tolist() for each in decoded.changes] == [[1]]
    assert [each.index for each in decoded.bad] == [0]


def test_rows_in_a_ddl_message_are_ignored() -> None:
    text = b'{"data":[{"a":"1"}],"type":"INSERT","isDdl":true,"table":"t","mysqlType":{"a":"int"}}'
    decoded = CanalJson().decode(messages_of([text]))
    assert (list(decoded.changes), list(decoded.bad)) == ([], [])


def test_no_messages_are_no_changes() -> None:
    decoded = CanalJson().decode(messages_of([]))
    assert (list(decoded.changes), list(decoded.bad)) == ([], [])


@pytest.mark.parametrize("kind", [{"a": 1}, [1], 1, True], ids=repr)
def test_a_type_that_is_not_a_text_makes_its_message_bad(kind: Any) -> None:
    value = {"database": "shop", "table": "orders", "type": "INSERT", "data": [{"id": "1"}]}
    given = [{**value, "mysqlType": {"id": each}} for each in ("int", kind)]
    decoded = CanalJson().decode(messages_of([json.dumps(each).encode() for each in given]))
    assert [(bad.index, bad.reason[:28]) for bad in decoded.bad] == [(1, "its column 'id' can't be rea")]
    assert [changes.rows.to_pylist() for changes in decoded.changes] == [[{"id": 1}]]
