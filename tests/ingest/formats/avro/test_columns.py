"""Decoding of Avro's binary format into columns: equal to fastavro on valid data, and refused on damaged data."""

import io
import json
import struct
from collections.abc import Sequence
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interbed.ingest.formats.avro.columns import AvroValues, Columns, DecodedValues
from interbed.ingest.formats.avro.schema import AvroSchema, WriterSchema
from interbed.storage.base.avro.decode import PADDING
from interbed.storage.base.errors import NotSupportedError
from tests.support.examples import examples

Typed = tuple[Any, st.SearchStrategy[Any]]
"""A schema of Avro, and its values."""

_FLOATS = st.floats(width=32, allow_nan=False)
_LEAVES: Sequence[Typed] = (
    ("int", st.integers(-(2**31), 2**31 - 1) | st.integers(-70, 70)),
    ("long", st.integers(-(2**63), 2**63 - 1) | st.integers(-70, 70)),
    ({"type": "int", "connect.type": "int16"}, st.integers(-(2**15), 2**15 - 1)),
    ("float", _FLOATS),
    ("double", st.floats(allow_nan=False)),
    ("boolean", st.booleans()),
    ("string", st.text(st.characters(exclude_categories=["Cs"]), max_size=70)),
    ("bytes", st.binary(max_size=70)),
    ({"type": "long", "logicalType": "timestamp-millis"}, st.integers(-(2**40), 2**40)),
)


@st.composite
def types(draw: st.DrawFn, names: Sequence[int], depth: int = 2) -> Typed:
    """Strategy for a type and its values; `names` grows by one for each name that is needed."""
    kind = draw(st.sampled_from(["leaf", "leaf", "fixed", "enum", *(["record", "array", "optional"] * bool(depth))]))
    match kind:
        case "fixed":
            size = draw(st.integers(0, 9))
            return {"type": "fixed", "name": _name(names), "size": size}, st.binary(min_size=size, max_size=size)
        case "enum":
            symbols = ["a", "b", "c"][: draw(st.integers(1, 3))]
            return {"type": "enum", "name": _name(names), "symbols": symbols}, st.sampled_from(symbols)
        case "record":
            name = _name(names)
            fields = [draw(types(names, depth - 1)) for _ in range(draw(st.integers(0, 4)))]
            schema = {
                "type": "record",
                "name": name,
                "fields": [{"name": f"f{i}", "type": kind} for i, (kind, _) in enumerate(fields)],
            }
            return schema, st.fixed_dictionaries({f"f{i}": values for i, (_, values) in enumerate(fields)})
        case "array":
            item, values = draw(types(names, depth - 1))
            if _may_be_empty(item):
                item, values = "int", st.integers(-9, 9)
            return {"type": "array", "items": item}, st.lists(values, max_size=5)
        case "optional":
            inner, values = draw(types(names, 0))
            return draw(st.sampled_from([["null", inner], [inner, "null"]])), st.none() | values
    return draw(st.sampled_from(_LEAVES))


def _name(names: Any) -> str:
    names.append(len(names))
    return f"n{len(names)}"


def _may_be_empty(schema: Any) -> bool:
    """Return True if values may have a size of zero bytes; lists of such values are not supported."""
    if isinstance(schema, dict) and schema["type"] == "record":
        return all(_may_be_empty(field["type"]) for field in schema["fields"])
    return isinstance(schema, dict) and schema["type"] == "fixed" and schema["size"] == 0


@st.composite
def written(draw: st.DrawFn) -> tuple[Any, list[Any]]:
    """Strategy for a record's schema, and values of it."""
    names: list[int] = []
    fields = [draw(types(names, 2)) for _ in range(draw(st.integers(1, 5)))]
    schema = {
        "type": "record",
        "name": "top",
        "fields": [{"name": f"c{i}", "type": kind} for i, (kind, _) in enumerate(fields)],
    }
    rows = st.fixed_dictionaries({f"c{i}": values for i, (_, values) in enumerate(fields)})
    return schema, draw(st.lists(rows, max_size=7))


def avro(schema: Any) -> AvroSchema:
    return AvroSchema(WriterSchema(text=json.dumps(schema)))


def binary(schema: Any, value: Any) -> bytes:
    out = io.BytesIO()
    # Logical types are tested elsewhere, and fastavro would expect datetimes for them.
    fastavro.schemaless_writer(out, fastavro.parse_schema(_plain(schema)), value)
    return out.getvalue()


def _plain(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_plain(each) for each in schema]
    if isinstance(schema, dict):
        return {name: _plain(value) for name, value in schema.items() if name != "logicalType"}
    return schema


def decode(schema: Any, texts: Sequence[bytes], wanted: Any = True) -> DecodedValues:
    lengths = np.array([len(text) for text in texts], np.int64)
    ends = np.cumsum(lengths)
    starts = ends - lengths
    data = np.frombuffer(b"".join(texts) + bytes(PADDING), np.uint8)
    return Columns(avro(schema), wanted).decode(AvroValues(data, starts, ends))


def rows_of(decoded: DecodedValues) -> list[Any]:
    decoded.values.validate(full=True)
    found: list[Any] = decoded.values.to_pylist()
    return found


@settings(deadline=None, max_examples=examples(100))
@given(written())
def test_values_written_by_fastavro_are_decoded_alike(case: tuple[Any, list[Any]]) -> None:
    schema, values = case
    texts = [binary(schema, value) for value in values]
    decoded = decode(schema, texts)
    assert not decoded.refused
    parsed = fastavro.parse_schema(_plain(schema))
    assert rows_of(decoded) == [fastavro.schemaless_reader(io.BytesIO(text), parsed, None) for text in texts]


@settings(deadline=None, max_examples=examples(50))
@given(written(), st.data())
def test_unrequested_fields_are_skipped(case: tuple[Any, list[Any]], data: st.DataObject) -> None:
    schema, values = case
    names = [field["name"] for field in schema["fields"]]
    chosen = data.draw(st.sets(st.sampled_from(names)))
    decoded = decode(schema, [binary(schema, value) for value in values], dict.fromkeys(chosen, True))
    assert not decoded.refused
    whole = decode(schema, [binary(schema, value) for value in values])
    assert rows_of(decoded) == [{n: row[n] for n in names if n in chosen} for row in rows_of(whole)]


@settings(deadline=None, max_examples=examples(100))
@given(written(), st.data())
def test_damaged_messages_are_refused_without_affecting_others(
    case: tuple[Any, list[Any]], data: st.DataObject
) -> None:
    schema, values = case
    good = [binary(schema, value) for value in values]
    damaged = []
    for text in good:
        how = data.draw(st.sampled_from(["cut", "longer", "noise", "whole"]))
        noise = data.draw(st.binary(max_size=20))
        damaged.append({"cut": text[: len(text) // 2], "longer": text + b"\0", "noise": noise, "whole": text}[how])
    decoded = decode(schema, damaged)
    whole = rows_of(decode(schema, good))
    rows = rows_of(decoded)
    for i, text in enumerate(damaged):
        if text == good[i]:
            assert i not in decoded.refused
            assert rows[i] == whole[i]
        elif text == good[i] + b"\0":
            assert i in decoded.refused


@pytest.mark.parametrize(
    ("kind", "text", "reason"),
    [
        ("string", b"\x04a", "its c has a length that its message has no room for"),
        ("string", b"\x03a", "its c has a length that its message has no room for"),
        ("string", b"\x02\xff", "its c is no text in UTF-8"),
        ("int", b"\x80\x80\x80\x80\x10", "its c is out of its bounds"),
        (["null", "int"], b"\x04\x00", "the branch of its c is out of its bounds"),
        ({"type": "array", "items": "int"}, b"\x08\x00\x00", "its c has more items than its message has room for"),
        ("double", b"\x00\x00", "it ends before all of its schema's fields"),
        ("int", b"\x00\x00", "it goes on after the last of its schema's fields"),
        ({"type": "map", "values": "int"}, b"\x02\x08a", "its c is not what its schema says"),
    ],
)
def test_a_message_is_refused_with_the_reason(kind: Any, text: bytes, reason: str) -> None:
    schema = {"type": "record", "name": "top", "fields": [{"name": "c", "type": kind}]}
    wanted: Any = True if not isinstance(kind, dict) or kind["type"] != "map" else {}
    assert decode(schema, [text], wanted).refused == {0: reason}


def test_a_list_in_several_blocks_with_or_without_sizes_is_one_list() -> None:
    schema = {"type": "record", "name": "top", "fields": [{"name": "c", "type": {"type": "array", "items": "int"}}]}
    blocks = b"\x04\x02\x04" + b"\x01\x02\x06" + b"\x00"
    assert rows_of(decode(schema, [blocks, b"\x00", blocks])) == [{"c": [1, 2, 3]}, {"c": []}, {"c": [1, 2, 3]}]


def test_long_lists_of_fixed_width_numbers_are_decoded_at_once() -> None:
    schema = {"type": "record", "name": "top", "fields": [{"name": "c", "type": {"type": "array", "items": "float"}}]}
    values = [struct.unpack("<f", struct.pack("<f", i / 7))[0] for i in range(100_000)]
    decoded = decode(schema, [binary(schema, {"c": values}), binary(schema, {"c": values[:5]})])
    assert rows_of(decoded) == [{"c": values}, {"c": values[:5]}]


@pytest.mark.parametrize("kind", [{"type": "map", "values": "int"}, ["int", "string"], ["null", "int", "string"]])
def test_unsupported_types_can_be_skipped_but_not_requested(kind: Any) -> None:
    fields = [{"name": "odd", "type": kind}, {"name": "id", "type": "int"}]
    schema = {"type": "record", "name": "top", "fields": fields}
    odd: Any = {"a": 1, "b": 2} if isinstance(kind, dict) else "text"
    texts = [binary(schema, {"odd": odd, "id": i}) for i in range(3)]
    assert rows_of(decode(schema, texts, {"id": True})) == [{"id": i} for i in range(3)]
    with pytest.raises(NotSupportedError, match="its odd has a type of Avro that becomes no column"):
        decode(schema, texts)


def test_a_recursive_record_can_be_skipped() -> None:
    tree = {"type": "record", "name": "tree", "fields": [{"name": "left", "type": ["null", "tree"]}]}
    schema = {"type": "record", "name": "top", "fields": [{"name": "t", "type": tree}, {"name": "id", "type": "int"}]}
    text = binary(schema, {"t": {"left": {"left": None}}, "id": 7})
    assert rows_of(decode(schema, [text], {"id": True})) == [{"id": 7}]


def test_a_named_record_of_a_referenced_schema_is_resolved() -> None:
    row = {"type": "record", "name": "ns.row", "fields": [{"name": "id", "type": "int"}]}
    top = {
        "type": "record",
        "name": "ns.top",
        "fields": [{"name": "before", "type": ["null", "row"]}, {"name": "after", "type": ["null", "ns.row"]}],
    }
    schema = AvroSchema(WriterSchema(text=json.dumps(top), references=(json.dumps(row),)))
    data = np.frombuffer(b"\x00\x02\x0e" + bytes(PADDING), np.uint8)
    decoded = Columns(schema).decode(AvroValues(data, np.array([0]), np.array([3])))
    assert rows_of(decoded) == [{"before": None, "after": {"id": 7}}]


@pytest.mark.parametrize("text", ["{", '"row"', '{"type": "record"}', "7", '{"type": "array"}'])
def test_an_invalid_schema_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"no schema|Expecting"):
        AvroSchema(WriterSchema(text=text))


def test_texts_are_copies_that_outlive_the_data() -> None:
    schema = {"type": "record", "name": "top", "fields": [{"name": "c", "type": "string"}]}
    values = [f"text {i}" for i in range(1000)]
    decoded = decode(schema, [binary(schema, {"c": value}) for value in values])
    assert isinstance(decoded.values, pa.StructArray)
    assert decoded.values.field("c").to_pylist() == values
