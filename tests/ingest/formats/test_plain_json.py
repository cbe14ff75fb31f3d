"""Decoding of messages that are rows, and of tombstones, which delete rows."""

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interbed.ingest.flow.changes import BadMessage, SourceTable
from interbed.ingest.formats import json_objects
from interbed.ingest.formats.format import PlainJson
from interbed.storage.base.row.kind import RowKind
from tests.ingest.formats.streams import (
    STYLES,
    VALUES,
    batches,
    changes,
    columns_of,
    consumed,
    messages_of,
    state_after,
    written,
)
from tests.support.examples import examples

TABLE = SourceTable("", "t")
BAD = (
    (None, b""),
    (None, b"{"),
    (None, b"[]"),
    (None, b"null"),
    (b'{"id":1}', b"5"),
    (None, b"\xff"),
    (None, b'{"id":1}{"id":2}'),
    (None, b'{"id":NaN'),
    (None, None),
    (b"7", None),
    (b"{}", None),
    (b'{"id":1', None),
    (b'["id"]', None),
)


@settings(max_examples=examples(100), deadline=None)
@given(st.data())
def test_decoded_changes_produce_the_original_table(data: st.DataObject) -> None:
    stream = data.draw(changes(columns_of(VALUES), (TABLE,)))
    pairs: list[tuple[bytes | None, bytes | None]] = []
    offsets = []
    for change in stream:
        for pair in data.draw(st.lists(st.sampled_from(BAD), max_size=1)):
            offsets.append(len(pairs))
            pairs.append(pair)
        row = change.after or change.before or {}
        key = json.dumps({"id": row["id"]}).encode()
        pairs.append((key, written(change.after, **data.draw(STYLES)) if change.after else None))
    messages = messages_of([value for _, value in pairs], [key for key, _ in pairs])
    parts = batches(messages, data.draw(st.lists(st.integers(0, 20), max_size=3)))
    rows = state_after(stream).get(TABLE)
    expected = {None: rows} if rows else {}
    assert consumed(PlainJson(), parts) == (expected, offsets)


def test_each_message_is_a_row_of_an_unnamed_table() -> None:
    decoded = PlainJson().decode(messages_of([b'{"id":1,"name":"a"}', b'{"id":2,"at":null}', b'{"id":3,"x":[1.5]}']))
    [table] = decoded.changes
    assert (table.source, table.stated, table.key) == (None, frozenset(), None)
    assert table.rows.to_pylist() == [
        {"id": 1, "name": "a", "at": None, "x": None},
        {"id": 2, "name": None, "at": None, "x": None},
        {"id": 3, "name": None, "at": None, "x": [1.5]},
    ]
    assert table.kinds.tolist() == [RowKind.INSERT] * 3
    assert table.messages.tolist() == [0, 1, 2]


def test_a_tombstone_deletes_the_row_of_its_key_with_the_types_of_the_others() -> None:
    messages = messages_of([b'{"id":1.5,"name":"a"}', None], [b'{"id":1.5}', b'{"id":1}'])
    [table] = PlainJson().decode(messages).changes
    assert table.rows.to_pylist() == [{"id": 1.5, "name": "a"}, {"id": 1.0, "name": None}]
    assert table.rows.schema.field("id").type == pa.float64()
    assert table.kinds.tolist() == [RowKind.INSERT, RowKind.DELETE]


def test_tombstones_alone_are_deletions() -> None:
    [table] = PlainJson().decode(messages_of([None, None], [b'{"a":1,"b":"x"}', b'{"a":2,"b":"y"}'])).changes
    assert table.rows.to_pylist() == [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]
    assert table.kinds.tolist() == [RowKind.DELETE] * 2


def test_the_key_of_a_message_with_a_value_is_ignored() -> None:
    decoded = PlainJson().decode(messages_of([b'{"id":1}', b'{"id":2}'], [b"no JSON", None]))
    assert decoded.changes[0].rows.to_pylist() == [{"id": 1}, {"id": 2}]
    assert list(decoded.bad) == []


def test_a_row_without_values_is_a_row() -> None:
    [table] = PlainJson().decode(messages_of([b'{"a":null}', b'{"a":1}'])).changes
    assert table.rows.to_pylist() == [{"a": None}, {"a": 1}]


def test_bad_messages_have_a_reason() -> None:
    keys: list[Any] = [None, b"7", b"{}", None, None]
    decoded = PlainJson().decode(messages_of([None, None, None, b"[]", b'{"id":1}'], keys))
    assert decoded.bad == [
        BadMessage(0, "it has no value, and its key names no row to delete: there is none"),
        BadMessage(1, "it has no value, and its key names no row to delete: it is JSON, but no object: 7"),
        BadMessage(2, "it has no value, and its key names no row to delete: it has no columns"),
        BadMessage(3, "it is JSON, but no object: []"),
    ]
    assert decoded.changes[0].messages.tolist() == [4]


def test_bad_messages_alone_are_no_changes() -> None:
    decoded = PlainJson().decode(messages_of([b"x", None]))
    assert list(decoded.changes) == []
    assert [each.index for each in decoded.bad] == [0, 1]


def test_no_messages_are_no_changes() -> None:
    decoded = PlainJson().decode(messages_of([]))
    assert (list(decoded.changes), list(decoded.bad)) == ([], [])


def test_values_of_several_kinds_in_a_column_become_texts() -> None:
    decoder = PlainJson()
    [table] = decoder.decode(messages_of([b'{"a":1}', b'{"a":"x"}', b'{"a":{"b":[2]}}'])).changes
    assert table.rows.to_pylist() == [{"a": "1"}, {"a": "x"}, {"a": '{"b":[2]}'}]
    [table] = decoder.decode(messages_of([b'{"a":2}'])).changes
    assert table.rows.to_pylist() == [{"a": "2"}]


def schema_of(**types: pa.DataType) -> pa.Schema:
    return pa.schema([pa.field(name, kind) for name, kind in types.items()])


def test_columns_and_types_are_inferred_from_the_few_texts_that_add_something(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Python parses many times slower than Arrow; the first texts define how the rest is parsed."""
    parsed: list[bytes] = []
    parse = json_objects.parsed_object

    def counted(text: bytes) -> dict[str, Any]:
        parsed.append(text)
        return parse(text)

    monkeypatch.setattr(json_objects, "parsed_object", counted)
    texts = [b'{"id":%d,"v":%d}' % (i, i) for i in range(10_000)]
    texts[7_000] = b'{"id":7000,"v":0.5,"new":"x"}'
    [table] = PlainJson().decode(messages_of(texts)).changes
    assert table.rows.schema == schema_of(id=pa.int64(), v=pa.float64(), new=pa.string())
    assert table.rows["v"].to_pylist() == [*range(7_000), 0.5, *range(7_001, 10_000)]
    assert len(parsed) < 600


def test_lists_of_nulls_keep_their_length() -> None:
    values: list[dict[str, Any]] = [
        {"id": 1, "a": [None, None], "b": [{"c": None}, {}], "d": {"e": [[None], []]}},
        {"id": 2, "a": [None], "b": [], "d": {"e": [None]}},
    ]
    [changes] = PlainJson().decode(messages_of([json.dumps(value).encode() for value in values])).changes
    changes.rows.validate(full=True)
    assert [len(row["a"]) for row in changes.rows.to_pylist()] == [2, 1]
    assert [len(row["b"]) for row in changes.rows.to_pylist()] == [2, 0]
    more = [*values, {"id": 3, "a": ["x"], "b": [{"c": 5}], "d": {"e": [[1.5]]}}]
    [changes] = PlainJson().decode(messages_of([json.dumps(value).encode() for value in more])).changes
    assert [row["a"] for row in changes.rows.to_pylist()] == [[None, None], [None], ["x"]]
