"""Decoding of Maxwell's messages into the original changes."""

import json
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from interbed.ingest.flow.changes import BadMessage, SourceTable
from interbed.ingest.formats.maxwell_json import MaxwellJson
from interbed.storage.base.row.kind import RowKind
from tests.ingest.formats.streams import (
    STYLES,
    VALUES,
    RowChange,
    batches,
    changes,
    columns_of,
    consumed,
    messages_of,
    state_after,
    with_bad,
    written,
)
from tests.support.examples import examples

TABLES = (SourceTable("shop", "orders"), SourceTable("shop", "items"), SourceTable("other", "orders"))
BAD = (
    b"",
    b"{",
    b"[]",
    b"5",
    b"{}",
    b"\xff",
    b'{"database":"shop","table":"orders","type":"insert"}',
    b'{"database":"shop","table":"orders","type":"insert","data":null}',
    b'{"database":"shop","table":"orders","type":"insert","data":7}',
    b'{"database":"shop","table":"orders","type":"insert","data":{"id":1}}{"x":1}',
    b'{"database":"shop","table":"orders","type":"update","data":{"id":1}}',
    b'{"database":"shop","table":"orders","type":"update","data":{"id":1},"old":[]}',
    b'{"database":"shop","table":"orders","type":"upsert","data":{"id":1}}',
    b'{"database":"shop","table":"orders","data":{"id":1}}',
    b'{"database":"shop","table":5,"type":"insert","data":{"id":1}}',
    b'{"database":"shop","table":"\\ud800","type":"insert","data":{"id":1}}',
)
PASSED_OVER = (
    b'{"database":"shop","table":"orders","type":"bootstrap-start","ts":1450557744,"data":{}}',
    b'{"database":"shop","table":"orders","type":"bootstrap-complete","ts":1450557744,"data":{}}',
    b'{"type":"table-drop","database":"shop","table":"orders","ts":1477053126000,"sql":"drop table orders"}',
    b'{"type":"table-alter","database":"shop","table":"orders","old":{"columns":[]},"def":{"columns":[{"type":"int"}]}}',
)

INSERT = """{
   "database":"test", "table":"e", "type":"insert", "ts":1477053217, "xid":23396, "commit":true,
   "position":"master.000006:800911", "server_id":23042, "thread_id":108,
   "primary_key": [1, "2016-10-21 05:33:37.523000"], "primary_key_columns": ["id", "c"],
   "data":{ "id":1, "m":4.2341, "c":"2016-10-21 05:33:37.523000", "comment":"I am a creature of light." }
}"""
UPDATE = """{
   "database":"test", "table":"e", "type":"update", "ts":1477053234,
   "data":{ "id":1, "m":5.444, "c":"2016-10-21 05:33:54.631000", "comment":"I am a creature of light." },
   "old":{ "m":4.2341, "c":"2016-10-21 05:33:37.523000" }
}"""
DELETE = """{
   "database":"test", "table":"e", "type":"delete", "ts":1477053234,
   "data":{ "id":1, "m":5.444, "c":"2016-10-21 05:33:54.631000", "comment":"I am a creature of light." }
}"""
BOOTSTRAP = """
{"database":"fooDB","table":"barTable","type":"bootstrap-start","ts":1450557744,"data":{}}
{"database":"fooDB","table":"barTable","type":"bootstrap-insert","ts":1450557744,"data":{"txt":"hello"}}
{"database":"fooDB","table":"barTable","type":"bootstrap-insert","ts":1450557744,"data":{"txt":"bootstrap!"}}
{"database":"fooDB","table":"barTable","type":"bootstrap-complete","ts":1450557744,"data":{}}
"""


def message_of(change: RowChange) -> dict[str, Any]:
    message = {
        "database": change.table.database,
        "table": change.table.name,
        "type": change.kind,
        "ts": 1477053217,
        "xid": 23396,
        "commit": True,
        "data": change.after or change.before,
    }
    return {**message, "old": change.old} if change.kind == "update" else message


@settings(max_examples=examples(80), deadline=None)
@given(st.data())
def test_decoded_changes_produce_the_original_tables(data: st.DataObject) -> None:
    stream = data.draw(changes(columns_of(VALUES), TABLES))
    texts = [written(message_of(change), **data.draw(STYLES)) for change in stream]
    values, offsets = data.draw(with_bad(texts, BAD))
    parts = batches(messages_of(values), data.draw(st.lists(st.integers(0, 20), max_size=3)))
    assert consumed(MaxwellJson(), parts) == (state_after(stream), offsets)


@settings(max_examples=examples(40), deadline=None)
@given(st.data())
def test_messages_without_rows_are_skipped(data: st.DataObject) -> None:
    stream = data.draw(changes(columns_of(VALUES), TABLES))
    texts = [json.dumps(message_of(change)).encode() for change in stream]
    values, _ = data.draw(with_bad(texts, (*PASSED_OVER, b"")))
    values = [value or None for value in values]
    parts = batches(messages_of(values), data.draw(st.lists(st.integers(0, 20), max_size=3)))
    assert consumed(MaxwellJson(), parts) == (state_after(stream), [])


def test_the_documented_messages_are_an_insertion_an_update_and_a_deletion() -> None:
    decoded = MaxwellJson().decode(messages_of([INSERT.encode(), UPDATE.encode(), DELETE.encode()]))
    assert decoded.bad == []
    [table] = decoded.changes
    first = {"id": 1, "m": 4.2341, "c": "2016-10-21 05:33:37.523000", "comment": "I am a creature of light."}
    second = {**first, "m": 5.444, "c": "2016-10-21 05:33:54.631000"}
    assert table.source == SourceTable("test", "e")
    assert table.rows.to_pylist() == [first, first, second, second]
    assert table.kinds.tolist() == [RowKind.INSERT, RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER, RowKind.DELETE]
    assert table.messages.tolist() == [0, 1, 1, 2]
    assert (table.key, table.stated) == (("id", "c"), frozenset())
    assert table.rows.schema.types == [pa.int64(), pa.float64(), pa.string(), pa.string()]


def test_rows_of_a_bootstrap_are_inserted() -> None:
    decoded = MaxwellJson().decode(messages_of([line.encode() for line in BOOTSTRAP.split("\n") if line]))
    assert decoded.bad == []
    [table] = decoded.changes
    assert table.rows.to_pylist() == [{"txt": "hello"}, {"txt": "bootstrap!"}]
    assert table.kinds.tolist() == [RowKind.INSERT] * 2
    assert table.messages.tolist() == [1, 2]


def test_a_null_old_value_differs_from_a_missing_one() -> None:
    text = b'{"database":"d","table":"t","type":"update","data":{"id":1,"a":2,"b":3},"old":{"a":null}}'
    [table] = MaxwellJson().decode(messages_of([text])).changes
    assert table.rows.to_pylist() == [{"id": 1, "a": None, "b": 3}, {"id": 1, "a": 2, "b": 3}]


def test_columns_may_have_the_names_of_message_fields() -> None:
    text = (
        b'{"database":"d","table":"t","type":"update","data":{"id":1,"old":{"a":null},"a":5},'
        b'"\\u006fld":{"old":{"a":6},"a":null}}'
    )
    [table] = MaxwellJson().decode(messages_of([text])).changes
    assert table.rows.to_pylist() == [{"id": 1, "old": {"a": 6}, "a": None}, {"id": 1, "old": {"a": None}, "a": 5}]


def test_old_values_are_found_under_an_escaped_field_name() -> None:
    text = b'{"database":"d","table":"t","type":"update","data":{"id":1,"a":5},"\\u006fld":{"a":null}}'
    [table] = MaxwellJson().decode(messages_of([text])).changes
    assert table.rows.to_pylist() == [{"id": 1, "a": None}, {"id": 1, "a": 5}]


def test_columns_of_different_tables_are_kept_apart() -> None:
    texts = [
        b'{"database":"d","table":"t","type":"insert","data":{"a":1}}',
        b'{"database":"d","table":"u","type":"insert","data":{"b":"x"}}',
        b'{"database":"e","table":"t","type":"insert","data":{"c":true}}',
    ]
    decoder = MaxwellJson()
    for _ in range(2):
        decoded = decoder.decode(messages_of(texts))
        assert [each.rows.column_names for each in decoded.changes] == [["a"], ["b"], ["c"]]


def test_each_table_is_decoded_separately_across_batches() -> None:
    decoder = MaxwellJson()
    for name in ("t", "u", "t"):
        text = json.dumps({"database": "d", "table": name, "type": "insert", "data": {"a": 1}}).encode()
        [table] = decoder.decode(messages_of([text])).changes
        assert table.source == SourceTable("d", name)


def test_a_message_without_a_table_has_no_source() -> None:
    decoded = MaxwellJson().decode(messages_of([b'{"type":"insert","data":{"id":1}}']))
    assert [table.source for table in decoded.changes] == [None]


def test_bad_messages_have_a_reason() -> None:
    texts = [
        b'{"database":"d","table":"t","type":"upsert","data":{"id":1}}',
        b'{"database":"d","table":"t","type":"update","data":{"id":1}}',
        b'{"database":"d","table":"t","type":"delete"}',
        b'{"database":"d","table":"t","type":"insert","data":{}}',
        b'{"database":"d","table":["t"],"type":"insert","data":{"id":1}}',
    ]
    assert MaxwellJson().decode(messages_of(texts)).bad == [
        BadMessage(0, "its type is 'upsert', which Maxwell lacks"),
        BadMessage(1, "it is an update that has no old values"),
        BadMessage(2, "it has no data"),
        BadMessage(3, "its row has no columns"),
        BadMessage(4, 'its table is not a text, but ["t"]'),
    ]


def test_no_messages_are_no_changes() -> None:
    decoded = MaxwellJson().decode(messages_of([]))
    assert (list(decoded.changes), list(decoded.bad)) == ([], [])
