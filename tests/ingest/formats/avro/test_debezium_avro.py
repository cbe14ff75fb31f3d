"""Decoding of Debezium's events in Avro: rows, kinds and types, and bad messages."""

import datetime
import json
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interbed.ingest.flow.changes import DecodedMessages, SourceTable
from interbed.ingest.flow.messages import SourceUnavailableError
from interbed.ingest.formats.debezium_avro import DebeziumAvro
from interbed.storage.base.row.kind import RowKind
from tests.ingest.formats.avro.events import SOURCE, FakeRegistry, avro_event, envelope
from tests.ingest.formats.streams import RowChange, batches, changes, consumed, messages_of, state_after
from tests.support.examples import examples

ORDERS, ITEMS = SourceTable("public", "orders"), SourceTable("public", "items")


ID = {"name": "id", "type": "int"}
NAME = {"name": "name", "type": ["null", "string"], "default": None}
KEY = {"type": "record", "name": "Key", "namespace": "shop.public.orders", "fields": [ID]}


def decode(
    schemas: FakeRegistry, values: Sequence[bytes | None], keys: Sequence[bytes | None] | None = None
) -> DecodedMessages:
    return DebeziumAvro(schemas).decode(messages_of(values, keys))


def rows_of(decoded: DecodedMessages) -> list[tuple[int, dict[str, Any]]]:
    return [
        (kind, row)
        for each in decoded.changes
        for kind, row in zip(each.kinds.tolist(), each.rows.to_pylist(), strict=True)
    ]


def test_events_become_rows_with_kind_table_and_key() -> None:
    schemas = FakeRegistry()
    schema = envelope([ID, NAME])
    one, two = {"id": 1, "name": "a"}, {"id": 1, "name": None}
    events = [
        avro_event("r", None, one),
        avro_event("c", None, one),
        avro_event("u", one, two),
        avro_event("u", None, one),
    ]
    values = [schemas.encoded(schema, each) for each in [*events, avro_event("d", one, None)]]
    keys = [schemas.encoded(KEY, {"id": 1})] * 5
    decoded = decode(schemas, [*values, None], [*keys, keys[0]])
    [orders] = decoded.changes
    assert not decoded.bad
    assert orders.source == ORDERS
    assert orders.key == ("id",)
    assert orders.stated == {"id", "name"}
    assert orders.messages.tolist() == [0, 1, 2, 2, 3, 4]
    assert {field.name: field.type for field in orders.rows.schema} == {"id": pa.int32(), "name": pa.string()}
    assert rows_of(decoded) == [
        (RowKind.INSERT, one),
        (RowKind.INSERT, one),
        (RowKind.UPDATE_BEFORE, one),
        (RowKind.UPDATE_AFTER, two),
        (RowKind.UPDATE_AFTER, one),
        (RowKind.DELETE, one),
    ]


def test_a_schema_is_looked_up_once() -> None:
    schemas = FakeRegistry()
    value = schemas.encoded(envelope([ID]), avro_event("c", None, {"id": 1}))
    key = schemas.encoded(KEY, {"id": 1})
    decoder = DebeziumAvro(schemas)
    for _ in range(3):
        decoder.decode(messages_of([value, value], [key, key]))
    assert sorted(schemas.asked) == [1, 2]


def test_a_deletion_without_its_row_has_the_columns_of_its_key() -> None:
    schemas = FakeRegistry()
    schema = envelope([ID, NAME])
    gone = schemas.encoded(schema, avro_event("d"))
    whole = schemas.encoded(schema, avro_event("d", {"id": 2, "name": "b"}))
    keys = [schemas.encoded(KEY, {"id": i}) for i in range(2)]
    other = schemas.encoded({**KEY, "fields": [{"name": "else", "type": "int"}]}, {"else": 1})
    nowhere = b"\0\0\0\1\0" + b"x"
    decoded = decode(schemas, [gone, gone, whole, gone, gone, gone, gone], [*keys, None, None, b"{}", other, nowhere])
    assert rows_of(decoded) == [
        (RowKind.DELETE, {"id": 0, "name": None}),
        (RowKind.DELETE, {"id": 1, "name": None}),
        (RowKind.DELETE, {"id": 2, "name": "b"}),
    ]
    assert [b.index for b in decoded.bad] == [3, 4, 5, 6]
    assert {b.reason for b in decoded.bad} == {'it has no row in "before", and its key does not name the row'}


def named(kind: Any, name: str, **parameters: str) -> dict[str, Any]:
    about = {"type": kind, "connect.version": 1, "connect.name": name}
    return {**about, "connect.parameters": parameters} if parameters else about


VARIABLE = {
    "type": "record",
    "name": "VariableScaleDecimal",
    "namespace": "io.debezium.data",
    "fields": [{"name": "scale", "type": "int"}, {"name": "value", "type": "bytes"}],
    "connect.name": "io.debezium.data.VariableScaleDecimal",
}
DAY, MOMENT = datetime.date(2024, 2, 29), datetime.datetime(2024, 2, 29, 10, 20, 30, 123456)
MICROS = (MOMENT - datetime.datetime(1970, 1, 1)) // datetime.timedelta(microseconds=1)


def decimal(precision: int, scale: int, **more: Any) -> dict[str, Any]:
    about = {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}
    return {**about, "connect.name": "org.apache.kafka.connect.data.Decimal", **more}


@pytest.mark.parametrize(
    ("kind", "value", "arrow", "expected"),
    [
        (named("int", "io.debezium.time.Date"), DAY.toordinal() - 719163, pa.date32(), DAY),
        (named("long", "io.debezium.time.MicroTimestamp"), MICROS, pa.timestamp("us"), MOMENT),
        (
            named("long", "io.debezium.time.Timestamp"),
            MICROS // 1000,
            pa.timestamp("ms"),
            MOMENT.replace(microsecond=123000),
        ),
        (
            named("string", "io.debezium.time.ZonedTimestamp"),
            "2024-02-29T12:20:30.123456+02:00",
            pa.timestamp("us", "UTC"),
            MOMENT.replace(tzinfo=datetime.UTC),
        ),
        (named("int", "io.debezium.time.Time"), 37230123, pa.time32("ms"), datetime.time(10, 20, 30, 123000)),
        (named("long", "io.debezium.time.MicroTime"), 37230123456, pa.string(), "10:20:30.123456"),
        (named("string", "io.debezium.data.Json"), "[1]", pa.string(), "[1]"),
        (named("string", "io.debezium.data.Enum", allowed="a,b"), "a", pa.string(), "a"),
        ({"type": "int", "connect.type": "int16"}, -5, pa.int16(), -5),
        ({"type": "int", "connect.type": "int8"}, -5, pa.int8(), -5),
        ("bytes", b"\0\xff", pa.binary(), b"\0\xff"),
        (decimal(10, 2), Decimal("-12.30"), pa.decimal128(10, 2), Decimal("-12.30")),
        (decimal(10, 2), Decimal("0.00"), pa.decimal128(10, 2), Decimal("0.00")),
        (
            decimal(38, 10),
            Decimal("9" * 28 + "." + "9" * 10),
            pa.decimal128(38, 10),
            Decimal("9" * 28 + "." + "9" * 10),
        ),
        (decimal(64, 3), Decimal("1.500"), pa.decimal128(38, 3), Decimal("1.500")),
        (decimal(50, 3), Decimal("1.500"), pa.string(), "1.500"),
        (VARIABLE, {"scale": 3, "value": b"\xff\x38"}, pa.string(), "-0.200"),
        ({"type": "array", "items": ["null", "int"]}, [1, None], pa.list_(pa.int32()), [1, None]),
        ("double", float("inf"), pa.float64(), float("inf")),
        (
            {"type": "record", "name": "Point", "fields": [{"name": "x", "type": "double"}]},
            {"x": 1.5},
            pa.struct([("x", pa.float64())]),
            {"x": 1.5},
        ),
    ],
)
def test_values_have_the_types_of_their_schemas(kind: Any, value: Any, arrow: pa.DataType, expected: Any) -> None:
    schemas = FakeRegistry()
    schema = envelope([ID, {"name": "v", "type": ["null", kind], "default": None}])
    values = [schemas.encoded(schema, avro_event("c", None, {"id": i, "v": v})) for i, v in enumerate([value, None])]
    [rows] = decode(schemas, values).changes
    assert rows.rows.schema.field("v").type == arrow
    assert rows.rows["v"].to_pylist() == [expected, None]


@given(st.lists(st.none() | st.integers(-(10**38) + 1, 10**38 - 1), max_size=20))
def test_decimals_of_any_size_are_exact(numbers: list[int | None]) -> None:
    schemas = FakeRegistry()
    schema = envelope([ID, {"name": "v", "type": ["null", "bytes"], "default": None}])
    stated = json.loads(json.dumps(schema).replace('"bytes"', json.dumps(decimal(38, 0))))
    number = schemas.number(stated)
    raw = [None if n is None else n.to_bytes(n.bit_length() // 8 + 1, "big", signed=True) for n in numbers]
    values = [schemas.encoded(schema, avro_event("c", None, {"id": 1, "v": v})) for v in raw]
    found = rows_of(decode(schemas, [v[:1] + number.to_bytes(4, "big") + v[5:] for v in values]))
    assert [row["v"] for _, row in found] == numbers


def test_a_type_without_a_column_type_is_refused_by_name() -> None:
    schemas = FakeRegistry()
    schema = envelope([ID, {"name": "tags", "type": {"type": "map", "values": "string"}}])
    odd = schemas.encoded(schema, avro_event("c", None, {"id": 1, "tags": {}}, "odd"))
    good = schemas.encoded(envelope([ID, NAME]), avro_event("c", None, {"id": 1, "name": "a"}))
    decoded = decode(schemas, [odd, good, odd])
    assert [row for _, row in rows_of(decoded)] == [{"id": 1, "name": "a"}]
    [refused] = decoded.refused
    assert (refused.source.name, "tags" in refused.reason) == ("odd", True)


def test_bad_messages_do_not_affect_the_others() -> None:
    schemas = FakeRegistry()
    schema = envelope([ID, NAME])
    good = schemas.encoded(schema, avro_event("c", None, {"id": 1, "name": "a"}))
    late = schemas.encoded(
        envelope([ID, {"name": "t", "type": named("int", "io.debezium.time.Time")}]), avro_event("c")
    )
    values = [
        good,
        b'{"a": 1}',
        b"\0\0",
        good[:-3],
        b"\0\0\0\0\x63" + good[5:],
        schemas.encoded(schema, avro_event("x", None, {"id": 1, "name": "a"})),
        schemas.encoded(schema, avro_event("c")),
        schemas.encoded(KEY, {"id": 1}),
        late,
        good,
    ]
    decoded = decode(schemas, values)
    assert [row for _, row in rows_of(decoded)] == [{"id": 1, "name": "a"}] * 2
    reasons = {b.index: b.reason for b in decoded.bad}
    assert list(reasons) == [1, 2, 3, 4, 5, 6, 7, 8]
    assert "first byte is 123, and not 0" in reasons[1]
    assert "it has 2 bytes" in reasons[2]
    assert "by its schema 1, " in reasons[3]
    assert "does not have a schema 99" in reasons[4]
    assert "its \"op\" is 'x'" in reasons[5]
    assert 'it has no row in "after"' in reasons[6]
    assert "no event of Debezium" in reasons[7]


def test_a_value_outside_of_its_column_range_is_bad() -> None:
    schemas = FakeRegistry()
    schema = envelope([ID, {"name": "t", "type": named("int", "io.debezium.time.Time")}])
    values = [
        schemas.encoded(schema, avro_event("c", None, {"id": i, "t": t})) for i, t in enumerate([0, -1, 86399999])
    ]
    decoded = decode(schemas, values)
    assert [row["id"] for _, row in rows_of(decoded)] == [0, 2]
    [bad] = decoded.bad
    assert bad.index == 1
    assert "its column 't' has -1" in bad.reason


def test_an_unsigned_integer_that_wrapped_at_the_source_is_bad() -> None:
    schemas = FakeRegistry()
    kind = {"type": "long", "connect.parameters": {"__debezium.source.column.type": "BIGINT UNSIGNED"}}
    schema = envelope([ID, {"name": "u", "type": kind}])
    values = [schemas.encoded(schema, avro_event("c", None, {"id": i, "u": u})) for i, u in enumerate([5, -1])]
    decoded = decode(schemas, values)
    assert [row["u"] for _, row in rows_of(decoded)] == [5]
    [bad] = decoded.bad
    assert "its column 'u' has -1" in bad.reason
    assert "stands for 18446744073709551615" in bad.reason


def test_an_unavailable_registry_makes_no_message_bad() -> None:
    schemas = FakeRegistry()
    value = schemas.encoded(envelope([ID]), avro_event("c", None, {"id": 1}))
    schemas.down = True
    decoder = DebeziumAvro(schemas)
    with pytest.raises(SourceUnavailableError):
        decoder.decode(messages_of([value]))
    schemas.down = False
    assert len(decoder.decode(messages_of([value])).changes) == 1


def test_decoding_stops_at_a_truncation() -> None:
    schemas = FakeRegistry()
    schema = envelope([ID])
    row = schemas.encoded(schema, avro_event("c", None, {"id": 1}))
    decoded = decode(schemas, [row, schemas.encoded(schema, avro_event("t")), row])
    assert rows_of(decoded) == [(RowKind.INSERT, {"id": 1})]
    assert decoded.truncation is not None
    assert (decoded.truncation.index, decoded.truncation.source) == (1, ORDERS)


def test_logical_messages_of_postgresql_are_skipped() -> None:
    schemas = FakeRegistry()
    content = {"type": "record", "name": "Message", "fields": [{"name": "prefix", "type": ["null", "string"]}]}
    fields = [
        {"name": "op", "type": "string"},
        {"name": "source", "type": SOURCE},
        {"name": "message", "type": content},
    ]
    schema = {"type": "record", "name": "io.debezium.connector.postgresql.MessageValue", "fields": fields}
    logical_message = {**avro_event("m", table=""), "message": {"prefix": "p"}}
    decoded = decode(schemas, [schemas.encoded(schema, logical_message)])
    assert (list(decoded.changes), list(decoded.bad)) == ([], [])


def test_tables_that_share_a_schema_are_decoded_separately() -> None:
    schemas = FakeRegistry()
    schema = envelope([ID])
    values = [schemas.encoded(schema, avro_event("c", None, {"id": i}, ["orders", "items"][i % 2])) for i in range(4)]
    decoded = decode(schemas, values)
    assert {c.source: c.messages.tolist() for c in decoded.changes} == {ORDERS: [0, 2], ITEMS: [1, 3]}


_KINDS: Mapping[str, tuple[Any, st.SearchStrategy[Any]]] = {
    "n": ("long", st.integers(-(2**63), 2**63 - 1)),
    "ratio": ("double", st.floats(allow_nan=False)),
    "flag": ("boolean", st.booleans()),
    "note": ("string", st.text(st.characters(exclude_categories=["Cs"]), max_size=8)),
    "raw": ("bytes", st.binary(max_size=4)),
    "list": ({"type": "array", "items": ["null", "long"]}, st.lists(st.none() | st.integers(-9, 9), max_size=3)),
    "point": ({"type": "record", "name": "P", "fields": [{"name": "x", "type": "long"}]}, st.just({"x": 4})),
}


@settings(deadline=None, max_examples=examples(60))
@given(
    changes(st.sets(st.sampled_from(list(_KINDS))).map(lambda ns: {n: _KINDS[n][1] for n in ns}), [ORDERS, ITEMS]),
    st.lists(st.booleans(), min_size=1, max_size=5),
    st.lists(st.integers(0, 20), max_size=3),
)
def test_changes_produce_the_rows_while_schemas_alternate(
    stream: list[RowChange], turns: list[bool], ends: list[int]
) -> None:
    schemas = FakeRegistry()
    values: list[bytes | None] = []
    for i, change in enumerate(stream):
        row = change.before or change.after or {}
        names = list(row)[:: -1 if turns[i % len(turns)] else 1]
        fields = [ID if n == "id" else {"name": n, "type": ["null", _KINDS[n][0]], "default": None} for n in names]
        op = {"insert": "c", "update": "u", "delete": "d"}[change.kind]
        schema = envelope(fields, f"shop.public.{change.table.name}")
        values.append(schemas.encoded(schema, avro_event(op, change.before, change.after, change.table.name)))
    state, bad = consumed(DebeziumAvro(schemas), batches(messages_of(values), ends))
    assert not bad
    assert state == state_after(stream)


def test_changes_are_split_where_messages_declare_another_key() -> None:
    schemas = FakeRegistry()
    value = schemas.encoded(envelope([ID, NAME]), avro_event("c", None, {"id": 1, "name": "a"}))
    wide = {**KEY, "fields": [ID, {"name": "name", "type": "string"}]}
    one, two = schemas.encoded(KEY, {"id": 1}), schemas.encoded(wide, {"id": 1, "name": "a"})
    unknown = b"\0\0\0\1\0" + b"x"
    decoded = decode(schemas, [value] * 7, [one, one, two, None, b"{}", unknown, one])
    assert [(each.key, each.messages.tolist()) for each in decoded.changes] == [
        (("id",), [0, 1]),
        (("id", "name"), [2]),
        ((), [3]),
        (None, [4]),
        (("id",), [6]),
    ]
    assert [(bad.index, bad.reason.partition(",")[0]) for bad in decoded.bad] == [(5, "its key has the schema 256")]


def test_rows_before_are_judged_by_earlier_events_of_a_schema_with_a_greater_number() -> None:
    schemas = FakeRegistry()
    first, second = envelope([ID, NAME]), envelope([ID, NAME, {**NAME, "name": "more"}])
    assert schemas.number(first) < schemas.number(second)
    old, empty = {"id": 1, "name": "a", "more": "b"}, {"id": 1, "name": None}
    values = [
        schemas.encoded(second, avro_event("u", old, {**empty, "more": None})),
        schemas.encoded(first, avro_event("u", None, empty)),
        schemas.encoded(second, avro_event("d", {**empty, "more": None}, None)),
    ]
    keys = [schemas.encoded(KEY, {"id": 1})] * 3

    def unsent(decoded: DecodedMessages) -> set[int]:
        return {
            int(i) for c in decoded.changes for each in c.unsent_before.values() for i in c.messages[each.rows].tolist()
        }

    assert unsent(decode(schemas, values, keys)) == {2}
    later = schemas.encoded(first, avro_event("d", empty, None))
    assert unsent(decode(schemas, [values[0], later], keys[:2])) == set()
