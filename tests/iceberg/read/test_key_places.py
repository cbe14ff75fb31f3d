"""Lookup of values among known ones, compared with a dictionary."""

import uuid
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from interbed.iceberg.read.key_table import KeyPlaces, find_slowly

TEXTS = st.text("ab", max_size=3) | st.text("abä", min_size=6, max_size=30)


def found(places: KeyPlaces, column: Any) -> dict[int, int]:
    """Return the index of the known value for each row that has one."""
    rows, of_each = places.find(column)
    assert len(set(rows.tolist())) == len(rows)
    return dict(zip(rows.tolist(), of_each.tolist(), strict=True))


def expected(values: Any, column: Any) -> dict[int, int]:
    """Return the same by a loop."""
    place = {value: number for number, value in enumerate(values.to_pylist())}
    return {row: place[value] for row, value in enumerate(column.to_pylist()) if value in place}


@given(st.lists(st.none() | TEXTS, unique=True), st.lists(st.none() | TEXTS), st.integers(0, 3))
def test_texts_are_found_at_any_offset_of_their_bytes(known: list[Any], asked: list[Any], skipped: int) -> None:
    values, column = pa.array(known, pa.string()), pa.array([*asked, *known], pa.string())[skipped:]
    places = KeyPlaces.of(values)
    if places is not None:
        assert found(places, column) == expected(values, column)
    rows, of_each = find_slowly(values, column)
    assert dict(zip(rows.tolist(), of_each.tolist(), strict=True)) == expected(values, column)


MADE: dict[str, tuple[pa.DataType, list[Any]]] = {
    "int": (pa.int32(), [0, -1, 2**31 - 1, -(2**31), 7]),
    "date": (pa.date32(), [0, 1, -5, 20_000, 3]),
    "timestamp": (pa.timestamp("us", "UTC"), [0, 1, -(2**54), 2**54, 3]),
    "uuid": (pa.binary(16), [uuid.UUID(int=n).bytes for n in (0, 1, 2**64, 2**127, 3)]),
    "decimal": (pa.decimal128(38, 2), [Decimal(n) for n in (0, 1, -1, 10**35, 3)]),
    "binary": (pa.binary(), [b"", b"\0", b"\0\0", b"x" * 100, b"x" * 99]),
}


@pytest.mark.parametrize("name", MADE)
def test_values_of_each_type_are_distinguished_and_null_is_a_value(name: str) -> None:
    kind, made = MADE[name]
    values, column = pa.array([*made[:2], None, made[2]], kind), pa.array([*made, None, *made[::-1]], kind)[1:]
    places = KeyPlaces.of(values)
    assert places is not None
    assert found(places, column) == expected(values, column)
    without = KeyPlaces.of(values.drop_null())
    assert without is not None
    assert found(without, column) == expected(values.drop_null(), column)


def test_texts_with_equal_bits_are_compared() -> None:
    one, other = (f"{'a' * 8}{middle}{'b' * 20}{'c' * 8}" for middle in "xy")
    places = KeyPlaces.of(pa.array([one]))
    assert places is not None
    assert found(places, pa.array([other, one])) == {1: 0}
    # Both are known and have the same bits, so the lookup is left to Arrow.
    assert KeyPlaces.of(pa.array([one, other])) is None


def test_most_unknown_values_are_filtered_before_the_lookup() -> None:
    places = KeyPlaces.of(pa.array(range(0, 1_000_000, 100)))
    assert places is not None
    assert places.maybe.mean() < 1 / 8
    assert len(found(places, pa.array(range(1_000_000)))) == 10_000


def test_an_empty_set_of_known_values_finds_nothing() -> None:
    for values in (pa.array([], pa.int64()), pa.array([None], pa.int64())):
        places = KeyPlaces.of(values)
        assert places is not None
        assert found(places, pa.array([1, None])) == expected(values, pa.array([1, None]))
