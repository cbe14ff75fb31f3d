"""BinaryRow: encoding by row and encoding by column give the same bytes, and decoding restores the values."""

import contextlib
import math
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interbed.storage.base.errors import CorruptFileError, InvalidInputError, NotSupportedError
from interbed.storage.base.row.binary_row import decode_row, decode_rows, encode_row, encode_rows
from interbed.storage.base.row.values import coerce
from interbed.storage.base.row.words import murmur_hash, murmur_hash_bytes
from interbed.storage.base.types.arrow import type_to_arrow
from interbed.storage.base.types.data_type import AtomicType, DataType, TypeRoot, type_from_json
from interbed.storage.base.types.far_times import FarTimestamp
from tests.storage.base.row.strategies import typed_rows, values_of

INT = type_from_json("INT")
STRING = type_from_json("STRING")


def columns_of(types: list[AtomicType], rows: list[list[Any]]) -> "list[pa.Array[Any]]":
    """The rows as Arrow columns."""
    return [pa.array([row[i] for row in rows], type_to_arrow(t)) for i, t in enumerate(types)]


def same(left: Any, right: Any) -> bool:
    """Return whether two values are identical, bit by bit."""
    if isinstance(left, float) and isinstance(right, float):
        return (math.isnan(left) and math.isnan(right)) or (
            left == right and math.copysign(1, left) == math.copysign(1, right)
        )
    if isinstance(right, FarTimestamp):
        # The strategy gives the ticks of timestamps with nanoseconds as numbers.
        return bool(left == right)
    return type(left) is type(right) and left == right


@settings(deadline=None)
@given(typed_rows())
def test_a_row_of_values_survives_the_round_trip(case: tuple[list[AtomicType], list[list[Any]]]) -> None:
    types, rows = case
    for row in rows:
        found = decode_row(encode_row(row, types), types)
        assert all(same(a, b) for a, b in zip(row, found, strict=True)), (row, found)


@settings(deadline=None)
@given(typed_rows())
def test_columns_and_values_encode_to_the_same_bytes_and_columns_are_restored(
    case: tuple[list[AtomicType], list[list[Any]]],
) -> None:
    types, rows = case
    columns = columns_of(types, rows)
    encoded = encode_rows(columns, types)
    assert encoded == [encode_row(row, types) for row in rows]
    decoded = decode_rows(encoded, types)
    assert encode_rows(decoded, types) == encoded
    for before, after, data_type in zip(columns, decoded, types, strict=True):
        after.validate(full=True)
        assert after.type == type_to_arrow(data_type)
        assert after.is_null().equals(before.is_null())
        if not pa.types.is_floating(after.type):
            assert after.equals(before)


@settings(deadline=None)
@given(typed_rows())
def test_the_vectorised_hash_is_the_hash_of_the_bytes(case: tuple[list[AtomicType], list[list[Any]]]) -> None:
    types, rows = case
    expected = [murmur_hash_bytes(encode_row(row, types)[4:]) for row in rows]
    assert murmur_hash(columns_of(types, rows), types).tolist() == expected


@settings(deadline=None)
@given(typed_rows(max_columns=3), st.integers(0, 12), st.integers(0, 12))
def test_a_slice_of_a_column_is_encoded_without_the_rows_around_it(
    case: tuple[list[AtomicType], list[list[Any]]], start: int, length: int
) -> None:
    types, rows = case
    columns = [c.slice(start, length) for c in columns_of(types, rows)]
    assert encode_rows(columns, types) == encode_rows(columns_of(types, rows), types)[start : start + length]


def test_chunked_and_otherwise_typed_columns_are_cast() -> None:
    expected = [encode_row([v], [STRING]) for v in ("a", "longer than seven", None)]
    chunked = pa.chunked_array([["a"], ["longer than seven", None]], pa.large_string())
    assert encode_rows([chunked], [STRING]) == expected
    assert encode_rows([chunked.dictionary_encode()], [STRING]) == expected
    assert encode_rows([pa.chunked_array([], pa.string())], [STRING]) == []
    assert encode_rows([pa.array([1], pa.int64())], [INT]) == [encode_row([1], [INT])]


def test_strings_of_very_different_lengths_keep_their_positions() -> None:
    values = ["x" * n for n in (0, 7, 8, 9, 1000, 3, 65536)] + [None]
    assert encode_rows([pa.array(values)] * 2, [STRING] * 2) == [encode_row([v, v], [STRING] * 2) for v in values]
    expected = [murmur_hash_bytes(encode_row([v], [STRING])[4:]) for v in values]
    assert murmur_hash([pa.array(values)], [STRING]).tolist() == expected


def test_hashing_many_rows_in_blocks_equals_hashing_them_at_once() -> None:
    column = pa.array(range(70_000), pa.int32())
    hashes = murmur_hash([column], [INT])
    assert hashes[69_999] == murmur_hash_bytes(encode_row([69_999], [INT])[4:])
    assert murmur_hash([], []).tolist() == []


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("INT", 2**31),
        ("INT", 1.5),
        ("INT", "1"),
        ("INT", True),
        ("BOOLEAN", 1),
        ("STRING", b"a"),
        ("BYTES", "a"),
        ("DECIMAL(3, 1)", Decimal("1.25")),
        ("DECIMAL(3, 1)", Decimal(100)),
        ("DECIMAL(38, 0)", Decimal("NaN")),
        ("DATE", datetime(2024, 1, 1)),
        ("DATE", "2024-01-01"),
        ("TIMESTAMP(3)", datetime(2024, 1, 1, tzinfo=UTC)),
        ("TIME(0)", time(1, tzinfo=UTC)),
        ("TINYINT", 200),
        ("DOUBLE", "x"),
        ("FLOAT", 10**400),
    ],
)
def test_a_value_of_another_type_is_refused(text: str, value: object) -> None:
    with pytest.raises(InvalidInputError, match=r"not a|has a time zone"):
        encode_row([value], [type_from_json(text)])


def test_dates_and_timestamps_beyond_pythons_range_are_numbers() -> None:
    types = [type_from_json(t) for t in ("DATE", "TIMESTAMP(3)", "TIMESTAMP(6) WITH LOCAL TIME ZONE")]
    far = [10_000_000, 2**60, -(2**62)]
    assert decode_row(encode_row(far, types), types) == tuple(far)
    assert coerce(19782, types[0]) == date(2024, 2, 29)


def test_nested_fields_other_than_null_are_refused() -> None:
    types: list[DataType] = [type_from_json({"type": "ARRAY", "element": "INT"}), INT]
    rows = [encode_row([None, 1], types)]
    assert decode_row(rows[0], types) == (None, 1)
    assert decode_rows(rows, types)[0].null_count == 1
    assert encode_rows([pa.array([None], pa.list_(pa.int32())), pa.array([1], pa.int32())], types) == rows
    with pytest.raises(NotSupportedError, match="ARRAY"):
        encode_row([[1], 1], types)
    with pytest.raises(NotSupportedError, match="ARRAY"):
        encode_rows([pa.array([[1]], pa.list_(pa.int32())), pa.array([1], pa.int32())], types)


def test_bytes_that_do_not_fit_their_types_are_reported_as_corrupt() -> None:
    row = encode_row([1, "longer than seven"], [INT, STRING])
    for types, broken in [
        ([INT], row),
        ([INT, STRING], row[:-17]),
        ([INT, STRING], row[:10]),
        ([INT, STRING], b""),
    ]:
        with pytest.raises(CorruptFileError):
            decode_row(broken, types)
        with pytest.raises(CorruptFileError):
            decode_rows([row if types == [INT, STRING] else broken, broken], types)


@settings(deadline=None)
@given(typed_rows(max_columns=3, max_rows=1), st.data())
def test_damaged_bytes_decode_to_other_values_or_raise_a_clear_error(
    case: tuple[list[AtomicType], list[list[Any]]], data: st.DataObject
) -> None:
    types, rows = case
    if not rows:
        return
    damaged = bytearray(encode_row(rows[0], types))
    position = data.draw(st.integers(0, len(damaged) - 1))
    damaged[position] ^= data.draw(st.integers(1, 255))
    for decode in (lambda b: decode_row(b, types), lambda b: decode_rows([b], types)):
        # Anything but CorruptFileError fails the test.
        with contextlib.suppress(CorruptFileError):
            decode(bytes(damaged))


@settings(deadline=None)
@given(st.data())
def test_coercing_a_value_is_idempotent(data: st.DataObject) -> None:
    data_type = AtomicType(data.draw(st.sampled_from([TypeRoot.FLOAT, TypeRoot.DATE, TypeRoot.TIMESTAMP_LTZ])))
    value = data.draw(values_of(data_type))
    assert same(coerce(coerce(value, data_type), data_type), value)
