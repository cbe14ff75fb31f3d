"""Decoding of Debezium's events in JSON, with and without schemas, in batches of any size, with bad messages apart."""

import base64
import json
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interbed.ingest.flow.changes import DecodedMessages
from interbed.ingest.formats.debezium_json import DebeziumJson
from interbed.storage.base.row.kind import RowKind
from tests.ingest.memory_source import Value, messages_of
from tests.ingest.shop import Event, Row, event
from tests.support.examples import examples

TABLES = ("orders", "items")
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=5),
    st.lists(st.integers(0, 3), max_size=2),
    st.dictionaries(st.sampled_from("ab"), st.text(max_size=2), max_size=2),
)
ROWS = st.dictionaries(st.sampled_from(["v", "w", "x"]), VALUES, max_size=3)


def decode(events: list[Event], decoder: DebeziumJson | None = None) -> DecodedMessages:
    return (decoder or DebeziumJson()).decode(messages_of([v for _, v in events], [k for k, _ in events]))


def applied(decoded: DecodedMessages, tables: dict[str, dict[int, Row]], messages: int) -> None:
    """Apply changes to tables as dicts by key; nested values are JSON texts."""
    for changes in decoded.changes:
        assert changes.source is not None
        table = tables[changes.source.name]
        assert changes.key == ("id",)
        assert list(changes.messages) == sorted(changes.messages)
        assert set(changes.messages) <= set(range(messages))
        for row, kind in zip(changes.rows.to_pylist(), changes.kinds, strict=True):
            if kind in (RowKind.DELETE, RowKind.UPDATE_BEFORE):
                del table[row["id"]]
            else:
                assert row["id"] not in table
                table[row["id"]] = {n: v for n, v in row.items() if v is not None}


def alike(value: Any, found: Any) -> bool:
    """Return True if a column's value equals that of the event: unchanged, as JSON text, or in a wider type."""
    if isinstance(found, str) and not isinstance(value, str):
        return (
            alike(value, json.loads(found, parse_float=Decimal))
            if not isinstance(value, float)
            else float(found) == value
        )
    if isinstance(value, dict):
        return isinstance(found, dict) and all(
            alike(value.get(n), found.get(n)) for n in {*value, *found} if value.get(n) is not None
        )
    if isinstance(value, list):
        return len(value) == len(found) and all(map(alike, value, found))
    if isinstance(value, bool) or isinstance(found, bool):
        return value is found
    if isinstance(value, int | float):
        return float(found) == float(value) if isinstance(found, float) else found == value
    return bool(value == found)


@given(
    steps=st.lists(st.tuples(st.sampled_from(TABLES), st.integers(0, 3), ROWS, st.integers(0, 9)), max_size=25),
    size=st.integers(1, 12),
)
@settings(deadline=None, max_examples=examples(60))
def test_any_stream_of_changes_produces_the_original_tables(steps: list[tuple[str, int, Row, int]], size: int) -> None:
    wanted: dict[str, dict[int, Row]] = {t: {} for t in TABLES}
    events: list[Event] = []
    bad = []
    for table, key, values, dice in steps:
        row = {"id": key, **values}
        before = wanted[table].get(key)
        if dice == 0:
            bad.append(len(events))
            events.append((None, [b"", b"{}", b"null", b'{"op": "c"} null {"op": "c"}', b"\xff{}"][key]))
            continue
        if before is None:
            events.append(event("c" if dice % 2 else "r", None, row, table))
            wanted[table][key] = row
        elif dice < 4:
            events.append(event("d", before if dice % 2 else None, None, table))
            events[-1] = ({"id": key}, events[-1][1])
            events.append(({"id": key}, None))
            del wanted[table][key]
        else:
            # An update without a column would not define the column's value.
            events.append(event("u", before, {**dict.fromkeys(before), **row}, table))
            wanted[table][key] = row
    found: dict[str, dict[int, Row]] = {t: {} for t in TABLES}
    decoder = DebeziumJson()
    seen_bad = []
    for start in range(0, len(events), size):
        part = events[start : start + size]
        decoded = decode(part, decoder)
        seen_bad += [start + b.index for b in decoded.bad]
        applied(decoded, found, len(part))
    assert seen_bad == bad
    for table in TABLES:
        assert found[table].keys() == wanted[table].keys()
        for key, row in wanted[table].items():
            given_values = {n: v for n, v in row.items() if v is not None}
            assert found[table][key].keys() == given_values.keys()
            assert all(alike(v, found[table][key][n]) for n, v in given_values.items()), (row, found[table][key])


FIELDS: list[dict[str, Any]] = [
    {"type": "int32", "optional": False, "field": "id"},
    {"type": "int32", "optional": True, "name": "io.debezium.time.Date", "field": "day"},
    {"type": "int64", "optional": True, "name": "io.debezium.time.MicroTimestamp", "field": "at"},
    {"type": "string", "optional": True, "name": "io.debezium.time.ZonedTimestamp", "field": "zoned"},
    {"type": "int64", "optional": True, "name": "io.debezium.time.MicroTime", "field": "time"},
    {
        "type": "bytes",
        "optional": True,
        "name": "org.apache.kafka.connect.data.Decimal",
        "parameters": {"scale": "2", "connect.decimal.precision": "10"},
        "field": "price",
    },
    {
        "type": "struct",
        "optional": True,
        "name": "io.debezium.data.VariableScaleDecimal",
        "fields": [{"type": "int32", "field": "scale"}, {"type": "bytes", "field": "value"}],
        "field": "any",
    },
    {"type": "array", "optional": True, "items": {"type": "bytes", "optional": True}, "field": "parts"},
    {"type": "float", "optional": True, "field": "f"},
]


def number(unscaled: int) -> str:
    return base64.b64encode(unscaled.to_bytes(16, "big", signed=True)).decode()


def with_schema(payload: object, fields: list[dict[str, Any]] | None = None) -> Value:
    """Return a message of Kafka Connect's JSON converter."""
    row = {"type": "struct", "optional": True, "fields": fields or FIELDS}
    source = [{"type": "string", "optional": True, "field": n} for n in ("db", "schema", "table")]
    schema = {
        "type": "struct",
        "fields": [
            {**row, "field": "before"},
            {**row, "field": "after"},
            {"type": "struct", "fields": source, "field": "source"},
            {"type": "string", "field": "op"},
            {"type": "int64", "optional": True, "field": "ts_ms"},
        ],
    }
    return {"schema": schema, "payload": payload}


def payload(op: str, before: Row | None, after: Row | None, table: str = "orders") -> Row:
    return {"before": before, "after": after, "source": {"db": "d", "schema": "s", "table": table}, "op": op}


FULL = {
    "id": 1,
    "day": 20_484,
    "at": 1_769_853_600_000_001,
    "zoned": "2026-01-31T12:00:00.5+02:00",
    "time": 37_230_123_456,
    "price": number(-12345),
    "any": {"scale": 3, "value": number(-5)},
    "parts": [base64.b64encode(b"\x00\xff").decode(), None],
    "f": 1.5,
}


def test_a_schema_defines_the_column_types() -> None:
    rows = [FULL, {"id": 2, "any": {"scale": -2, "value": number(7)}}]
    events: list[Event] = [({"id": 1}, with_schema(payload("c", None, row))) for row in rows]
    [changes] = decode(events).changes
    types = {f.name: str(f.type) for f in changes.rows.schema}
    assert types == {
        "id": "int32",
        "day": "date32[day]",
        "at": "timestamp[us]",
        "zoned": "timestamp[us, tz=UTC]",
        "time": "string",
        "price": "decimal128(10, 2)",
        "any": "string",
        "parts": "list<item: binary>",
        "f": "float",
    }
    first, second = changes.rows.to_pylist()
    assert str(first["day"]) == "2026-01-31"
    assert str(first["at"]) == "2026-01-31 10:00:00.000001"
    assert str(first["zoned"]) == "2026-01-31 10:00:00.500000+00:00"
    assert (first["time"], first["price"], first["any"]) == ("10:20:30.123456", Decimal("-123.45"), "-0.005")
    assert (first["parts"], second["any"], second["price"]) == ([b"\x00\xff", None], "700", None)
    assert changes.stated == frozenset(types)


def test_infinities_and_nan_are_decoded_from_texts() -> None:
    fields: list[dict[str, Any]] = [
        {"type": "int32", "field": "id"},
        {"type": "double", "optional": True, "field": "ratio"},
        {"type": "array", "optional": True, "items": {"type": "float", "optional": True}, "field": "list"},
        {"type": "string", "optional": True, "field": "text"},
    ]
    rows: list[Row] = [
        {"id": 0, "ratio": 1.5, "list": [0.5]},
        {"id": 1, "ratio": "NaN", "list": ["-Infinity", 2, None], "text": "x"},
        {"id": 2, "ratio": 1e300, "text": "NaN"},
        {"id": 3, "ratio": -2.5, "list": []},
    ]
    decoded = decode([(None, with_schema(payload("c", None, row), fields)) for row in rows])
    assert not decoded.bad
    assert {str(changes.rows.schema.field("ratio").type) for changes in decoded.changes} == {"double"}
    found = [row for changes in decoded.changes for row in changes.rows.to_pylist()]
    assert [(row["id"], repr(row["ratio"])) for row in found] == [(0, "1.5"), (1, "nan"), (2, "1e+300"), (3, "-2.5")]
    assert [row["list"] for row in found] == [[0.5], [float("-inf"), 2.0, None], None, []]
    assert [row["text"] for row in found] == [None, "x", "NaN", None]


@pytest.mark.parametrize(
    ("micros", "text"),
    [
        (86_400_000_000, "24:00:00.000000"),
        (-3_020_399_000_001, "-838:59:59.000001"),
        (86_399_999_999, "23:59:59.999999"),
    ],
)
def test_times_may_exceed_a_day(micros: int, text: str) -> None:
    [changes] = decode([({"id": 1}, with_schema(payload("c", None, {**FULL, "time": micros})))]).changes
    assert changes.rows["time"].to_pylist() == [text]


def test_a_time_in_milliseconds_must_not_exceed_a_day() -> None:
    fields: list[dict[str, Any]] = [
        {"type": "int32", "field": "id"},
        {"type": "int32", "optional": True, "name": "io.debezium.time.Time", "field": "time"},
    ]
    rows = [{"id": 1, "time": 86_399_999}, {"id": 2, "time": 86_400_000}, {"id": 3}]
    decoded = decode([({"id": 1}, with_schema(payload("c", None, row), fields)) for row in rows])
    assert [b.index for b in decoded.bad] == [1]
    [changes] = decoded.changes
    assert [str(v) for v in changes.rows["time"].to_pylist()] == ["23:59:59.999000", "None"]


def test_changes_stay_in_order_when_a_table_returns_to_an_earlier_schema() -> None:
    more = [*FIELDS, {"type": "int32", "optional": True, "field": "more"}]
    events: list[Event] = [
        ({"id": 1}, with_schema(payload("c", None, {"id": 1, "f": 0.0}))),
        ({"id": 1}, with_schema(payload("u", {"id": 1, "f": 0.0}, {"id": 1, "f": 1.0, "more": 1}), more)),
        ({"id": 1}, with_schema(payload("u", {"id": 1, "f": 1.0, "more": 1}, {"id": 1, "f": 2.0, "more": 1}), more)),
        ({"id": 1}, with_schema(payload("u", {"id": 1, "f": 2.0}, {"id": 1, "f": "NaN"}))),
        ({"id": 1}, with_schema(payload("u", {"id": 1, "f": "NaN"}, {"id": 1, "f": 4.0}))),
    ]
    decoder = DebeziumJson()
    decode(events, decoder)
    for first in range(len(events)):
        decoded = decode(events[first:], decoder)
        numbers = [int(i) for changes in decoded.changes for i in changes.messages]
        assert sorted(set(numbers)) == list(range(len(events) - first))
        assert numbers == sorted(numbers)
        assert decoded.changes[-1].rows["f"].to_pylist()[-1] == 4.0


def test_values_of_a_wrong_type_are_named() -> None:
    rows = [{**FULL, "price": "?"}, FULL, {**FULL, "zoned": "yesterday"}, {**FULL, "id": "one"}, {**FULL, "more": 1}]
    decoded = decode([({"id": 1}, with_schema(payload("c", None, row))) for row in rows])
    assert [b.index for b in decoded.bad] == [0, 2, 3, 4]
    assert "'price' has '?'" in decoded.bad[0].reason
    assert "'zoned' has 'yesterday'" in decoded.bad[1].reason
    [changes] = decoded.changes
    assert list(changes.messages) == [1]


@pytest.mark.parametrize(
    "separators", [(", ", ": "), (",", ": "), (", ", ":"), (",", ":")], ids=["both", "after names", "between", "none"]
)
def test_whitespace_is_allowed_anywhere_in_the_envelope(separators: tuple[str, str]) -> None:
    rows = [{"id": n, "name": '"payload": , "schema": '} for n in range(3)]
    fields = [{"type": "int64", "field": "id"}, {"type": "string", "field": "name"}]
    whole = [with_schema(payload("c", None, row), fields) for row in rows]
    decoded = decode([({"id": 1}, json.dumps(each, separators=separators).encode()) for each in whole])
    assert not decoded.bad
    assert decoded.changes[0].rows.to_pylist() == rows


def test_one_batch_may_mix_messages_with_and_without_schemas() -> None:
    second = [{"type": "int64", "field": "id"}]
    values: list[Value] = [
        with_schema(payload("c", None, {"id": 1})),
        with_schema(payload("c", None, {"id": 2}, "items"), second),
        event("c", None, {"id": 3})[1],
        json.dumps(with_schema(payload("c", None, {"id": 4})), indent=1).encode(),
        {"schema": None, "payload": event("c", None, {"id": 5})[1]},
        {"schema": None, "payload": None},
        {"payload": payload("d", {"id": 1}, None), "schema": with_schema(None)["schema"]},  # type: ignore[index]
    ]
    decoded = DebeziumJson().decode(messages_of(values, [{"id": 0}] * len(values)))
    assert decoded.bad == []
    found = sorted(
        (int(m), str(c.source), row["id"])
        for c in decoded.changes
        for m, row in zip(c.messages, c.rows.to_pylist(), strict=True)
    )
    assert found == [
        (0, "s.orders", 1),
        (1, "s.items", 2),
        (2, "public.orders", 3),
        (3, "s.orders", 4),
        (4, "public.orders", 5),
        (6, "s.orders", 1),
    ]


def test_a_type_without_a_column_type_is_refused_by_name() -> None:
    fields = [{"type": "int32", "field": "id"}, {"type": "map", "field": "labels"}]
    events: list[Event] = [
        ({"id": 1}, with_schema(payload("c", None, {"id": 1}, "odd"), fields)),
        ({"id": 1}, with_schema(payload("c", None, {"id": 1}), fields[:1])),
    ]
    decoded = decode(events)
    assert [changes.rows.to_pylist() for changes in decoded.changes] == [[{"id": 1}]]
    [refused] = decoded.refused
    assert refused.source.name == "odd"
    assert "labels of a message has the type 'map'" in refused.reason


def test_a_row_with_an_unavailable_value_is_incomplete() -> None:
    decoded = decode([event("u", None, {"id": 1, "text": "__debezium_unavailable_value"})])
    [changes] = decoded.changes
    assert changes.rows.to_pylist() == [{"id": 1, "text": None}]
    assert changes.unsent["text"].rows.tolist() == [True]
    assert "REPLICA IDENTITY FULL" in changes.unsent["text"].reason


@pytest.mark.parametrize(
    "value",
    [
        {
            "source": {"db": "shop", "table": "orders"},
            "databaseName": "shop",
            "ddl": "ALTER TABLE …",
            "tableChanges": [],
        },
        {"source": {"db": "shop"}, "databaseName": "shop", "ddl": "CREATE DATABASE …", "tableChanges": []},
        {"status": "BEGIN", "id": "7:1", "event_count": None, "data_collections": None},
        {"ts_ms": 5},
    ],
)
def test_the_error_of_a_message_from_debeziums_own_topics_names_these_topics(value: Value) -> None:
    decoded = decode([event("c", None, {"id": 1}), (None, value)])
    [bad] = decoded.bad
    assert bad.index == 1
    assert "Debezium's own topics (schema changes, transactions, heartbeats)" in bad.reason


def test_decoding_stops_at_a_truncation() -> None:
    events = [event("c", None, {"id": 1}), event("t", None, None), event("c", None, {"id": 2})]
    decoded = decode(events)
    assert decoded.truncation is not None
    assert (decoded.truncation.index, str(decoded.truncation.source)) == (1, "public.orders")
    assert [list(c.messages) for c in decoded.changes] == [[0]]


def test_logical_messages_of_postgresql_are_skipped() -> None:
    decoded = decode([(None, {"op": "m", "message": {"prefix": "x"}}), event("c", None, {"id": 1})])
    assert decoded.bad == []
    assert np.concatenate([c.messages for c in decoded.changes]).tolist() == [1]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("infinity", "an infinite time cannot be stored in a table. Replace it by a far date at the source"),
        ("-infinity", "an infinite time cannot be stored in a table. Replace it by a far date at the source"),
        ("-0044-03-15T00:00:00Z", "it is outside of the years 1 to 9999"),
        ("+12024-01-31T00:00:00Z", "it is outside of the years 1 to 9999"),
        (
            "2024-01-31T00:00:00.123456789Z",
            "it has more than six digits after the second, and TIMESTAMP_LTZ(6) has six. Round it at the source",
        ),
        ("2024-01-31T00:00:00", "it has no offset from UTC"),
        ("yesterday", "it is no date and time of ISO 8601, such as 2024-01-31T10:20:30.123456Z"),
    ],
)
def test_a_zoned_time_is_refused_with_the_reason(text: str, reason: str) -> None:
    fields = [{"type": "string", "optional": True, "name": "io.debezium.time.ZonedTimestamp", "field": "z"}]
    events = [payload("c", None, {"z": each}) for each in ("2024-01-31T00:00:00.123456000Z", text)]
    decoded = DebeziumJson().decode(messages_of([with_schema(each, fields) for each in events]))
    [bad] = decoded.bad
    assert (bad.index, bad.reason) == (1, f"its column 'z' has {text!r}, which is no value of it: {reason}")
    assert decoded.changes[0].rows.column("z")[0].as_py().isoformat() == "2024-01-31T00:00:00.123456+00:00"


def test_a_field_that_the_schema_lacks_is_named() -> None:
    fields = [{"type": "string", "optional": True, "field": "a"}]
    events = [payload("c", None, row) for row in ({"a": "x"}, {"a": "x", "b": {"c": 1}})]
    [bad] = DebeziumJson().decode(messages_of([with_schema(each, fields) for each in events])).bad
    assert bad.index == 1
    assert bad.reason == "it has the field 'after.b', which its schema has not: mend the schema at the source"


@pytest.mark.parametrize("kind", ["float", "double"])
def test_a_number_other_than_0_does_not_become_0(kind: str) -> None:
    fields = [{"type": kind, "optional": True, "field": "f"}]
    values = ["0.0", "-0e9", "1e-400", "1e-44", "0." + "0" * 400 + "1"]
    texts = [
        json.dumps(with_schema(payload("c", None, {"f": "?"}), fields)).replace('"?"', each).encode() for each in values
    ]
    decoded = DebeziumJson().decode(messages_of(texts))
    assert [each.index for each in decoded.bad] == [2, 4]
    assert "closer to 0 than any DOUBLE" in decoded.bad[0].reason
    [changes] = decoded.changes
    assert changes.rows.column("f").to_pylist() == [0.0, 0.0, pytest.approx(1e-44, rel=0.1)]
    [bad] = (
        DebeziumJson().decode(messages_of([texts[3].replace(b"1e-44", b"1e-46")])).bad if kind == "float" else [None]
    )
    assert bad is None or "closer to 0 than any FLOAT" in bad.reason


def test_a_number_beyond_the_range_of_float_is_bad() -> None:
    fields = [{"type": "float", "optional": True, "field": "f"}]
    events = [payload("c", None, {"f": f}) for f in (0.1, 1e39)]
    decoded = DebeziumJson().decode(messages_of([with_schema(each, fields) for each in events]))
    assert [each.index for each in decoded.bad] == [1]
    assert decoded.changes[0].rows.column("f").to_pylist() == [float(np.float32(0.1))]


def test_an_update_does_not_lack_a_column_that_a_later_bare_message_is_the_first_to_have() -> None:
    def within(found: Event) -> Event:
        return found[0], {"schema": None, "payload": found[1]}

    events = [
        within(event("c", None, {"id": 1, "a": 1})),
        within(event("u", None, {"id": 1, "a": 2})),
        event("c", None, {"id": 2, "a": 1, "later": 5}),
        within(event("u", None, {"id": 2, "a": 1})),
    ]
    decoded = decode(events)
    assert decoded.bad == []
    [changes] = decoded.changes
    assert list(changes.messages) == [0, 1, 2, 3]
    assert changes.unsent["later"].rows.tolist() == [False, False, False, True]


def test_rows_before_are_judged_by_earlier_events_of_any_schema() -> None:
    fields: list[dict[str, Any]] = [
        {"type": "int64", "field": "id"},
        {"type": "int64", "optional": True, "field": "a"},
    ]
    bare = with_schema(None, fields)["schema"]  # type: ignore[index]

    def stated(op: str, before: Row | None, after: Row | None) -> Event:
        return {"id": 1}, {"schema": bare, "payload": payload(op, before, after)}

    def unstated(op: str, before: Row | None, after: Row | None) -> Event:
        return {"id": 1}, payload(op, before, after)

    whole = stated("u", {"id": 1, "a": 1}, {"id": 1, "a": None})
    assert unsent_before(decode([whole, unstated("d", {"id": 1, "a": None}, None)])) == set()
    partial = unstated("u", None, {"id": 1, "a": None})
    assert unsent_before(decode([whole, partial, stated("d", {"id": 1, "a": None}, None)])) == {2}


def unsent_before(decoded: DecodedMessages) -> set[int]:
    """Return the messages whose row before the change lacks a column."""
    return {
        int(number)
        for changes in decoded.changes
        for each in changes.unsent_before.values()
        for number in changes.messages[each.rows]
    }


def test_an_unsigned_integer_that_wrapped_at_the_source_is_bad() -> None:
    stated = {"__debezium.source.column.type": "BIGINT UNSIGNED"}
    fields = [{"type": "int64", "optional": True, "field": "u", "parameters": stated}]
    events = [payload("c", None, {"u": u}) for u in (5, -1, None, 2**63 - 1)]
    decoded = DebeziumJson().decode(messages_of([with_schema(each, fields) for each in events]))
    [bad] = decoded.bad
    assert bad.index == 1
    assert "stands for 18446744073709551615" in bad.reason
    assert "'bigint.unsigned.handling.mode' = 'precise'" in bad.reason
    assert decoded.changes[0].rows.column("u").to_pylist() == [5, None, 2**63 - 1]
    # Without the type at the source -1 is -1.
    [signed] = DebeziumJson().decode(messages_of([with_schema(events[1], [{**fields[0], "parameters": {}}])])).changes
    assert signed.rows.column("u").to_pylist() == [-1]
