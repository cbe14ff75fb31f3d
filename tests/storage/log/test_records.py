"""Rows as records of a log: every type survives the round trip, and other tools can read the records."""

import json
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from interbed.storage.base.errors import CorruptFileError
from interbed.storage.base.types.arrow import cast_to_schema
from interbed.storage.log.api import LogRecords, RecordCodec
from interbed.storage.log.json_text import first_unwritable
from interbed.storage.meta.schema.table_schema import Schema, TableSchema
from tests.interop.strategies import random_examples, types, values
from tests.support.peers.interbed import fields_of
from tests.support.peers.json import TypeJson, parse_type, rows_to_table, table_to_rows


def schema_of(columns: list[tuple[str, TypeJson]], primary_keys: tuple[str, ...] = ()) -> TableSchema:
    return Schema(fields=fields_of(columns), primary_keys=primary_keys).to_table_schema(time_millis=0)


def batch_of(schema: TableSchema, rows: pa.Table) -> pa.RecordBatch:
    return cast_to_schema(rows.combine_chunks(), schema.arrow, what="a test")[0]


def round_trip(schema: TableSchema, batch: pa.RecordBatch, kinds: list[int]) -> tuple[pa.RecordBatch, list[int]]:
    codec = RecordCodec(schema)
    written = codec.encoded(batch, np.array(kinds, np.int8))
    # Headers hold only the kinds -U and +U.
    told = np.array([k if k in (1, 2) else -1 for k in kinds], np.int8)
    back, kinds_back = codec.decoded(LogRecords(keys=written.keys, values=written.values, kinds=told), place="t")
    return back, kinds_back.tolist()


def is_writable(of: TypeJson) -> bool:
    return first_unwritable(fields_of([("c", of)])) is None


@random_examples(150)
@given(st.data())
def test_rows_of_all_types_survive_the_round_trip_with_their_kinds(data: st.DataObject) -> None:
    drawn = data.draw(st.lists(types().filter(is_writable), min_size=1, max_size=4))
    columns = [(f'c "{i}"', of) for i, of in enumerate(drawn)]
    parsed = [parse_type(of) for of in drawn]
    rows = data.draw(st.lists(st.tuples(*map(values, parsed)).map(list), min_size=1, max_size=6))
    kinds = data.draw(st.lists(st.integers(0, 3), min_size=len(rows), max_size=len(rows)))
    schema = schema_of(columns)
    batch = batch_of(schema, rows_to_table(rows, [name for name, _ in columns], parsed))
    back, kinds_back = round_trip(schema, batch, kinds)
    assert kinds_back == kinds
    assert table_to_rows(pa.Table.from_batches([back]), parsed) == table_to_rows(pa.Table.from_batches([batch]), parsed)


def test_years_of_other_than_four_digits_survive_the_round_trip() -> None:
    schema = schema_of([("d", "DATE"), ("t", "TIMESTAMP(6)"), ("z", "TIMESTAMP(3) WITH LOCAL TIME ZONE")])
    numbers = [-800_000, 0, None, 20_000_000, 4_000_000]
    columns: list[Any] = [
        pa.array(numbers, pa.int32()).cast(pa.date32()),
        pa.array([None if n is None else n * 86_400_000_000 + 1 for n in numbers], pa.timestamp("us")),
        pa.array([None if n is None else n * 86_400_000 + 1 for n in numbers], pa.timestamp("ms", "UTC")),
    ]
    batch = pa.RecordBatch.from_arrays(columns, schema=schema.arrow)
    back, _ = round_trip(schema, batch, [0] * 5)
    assert back.equals(batch)


def test_records_have_flinks_debezium_json_format() -> None:
    columns: list[tuple[str, TypeJson]] = [
        ("id", "BIGINT NOT NULL"),
        ("name", "STRING"),
        ("price", "DECIMAL(10, 2)"),
        ("at", "TIMESTAMP(3)"),
        ("seen", "TIMESTAMP(3) WITH LOCAL TIME ZONE"),
        ("raw", "BYTES"),
        ("tags", {"type": "MAP", "key": "STRING NOT NULL", "value": "INT"}),
    ]
    schema = schema_of(columns, ("id",))
    row = {
        "id": 7,
        "name": 'a "b"\n',
        "price": Decimal("12.50"),
        "at": 1_700_000_000_123,
        "seen": 1_700_000_000_123,
        "raw": b"\x00\xff",
        "tags": [("x", 1)],
    }
    batch = pa.RecordBatch.from_pylist([row, row], schema=schema.arrow)
    records = RecordCodec(schema).encoded(batch, np.array([2, 3], np.int8))
    after = {
        "id": 7,
        "name": 'a "b"\n',
        "price": 12.5,
        "at": "2023-11-14 22:13:20.123",
        "seen": "2023-11-14 22:13:20.123Z",
        "raw": "AP8=",
        "tags": {"x": 1},
    }
    assert [json.loads(value or b"") for value in records.values] == [
        {"before": None, "after": after, "op": "c"},
        {"before": after, "after": None, "op": "d"},
    ]
    assert list(records.keys) == [b'{"id":7}'] * 2


@pytest.mark.parametrize(
    "value",
    [b"", b"[1]", b'{"a":1}', b'{"before":null,"after":null,"op":"c"}', b'{"before":null,"after":{"id":"x"},"op":"c"}'],
)
def test_an_invalid_record_is_refused_with_its_topic(value: bytes) -> None:
    codec = RecordCodec(schema_of([("id", "BIGINT")]))
    records = LogRecords(keys=[None], values=[value], kinds=np.array([-1], np.int8))
    with pytest.raises(CorruptFileError, match="topic x"):
        codec.decoded(records, place="topic x")
