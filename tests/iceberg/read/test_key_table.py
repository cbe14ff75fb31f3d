"""Matching of equality delete keys against columns, compared with a loop over rows."""

import math
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from interbed.iceberg.read.key_table import KeyTable

VALUES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "int": (pa.int32(), st.none() | st.integers(-3, 3)),
    "long": (pa.int64(), st.none() | st.sampled_from([-(2**63), -1, 0, 1, 2**63 - 1])),
    "string": (pa.string(), st.none() | st.sampled_from(["", "a", "b", "ä"])),
    "double": (pa.float64(), st.none() | st.sampled_from([0.0, -0.0, 1.5, math.nan, math.inf])),
    "float": (pa.float32(), st.none() | st.sampled_from([0.0, -0.0, math.nan, 2.5])),
    "binary": (pa.binary(), st.none() | st.sampled_from([b"", b"\0", b"x"])),
    "decimal": (pa.decimal128(9, 2), st.none() | st.decimals(-1, 1, places=2)),
    "bool": (pa.bool_(), st.none() | st.booleans()),
}


@st.composite
def keys_and_rows(draw: st.DrawFn) -> tuple[list[str], list[tuple[Any, ...]], list[int], list[tuple[Any, ...]], int]:
    """Strategy for column kinds, keys with their sequence numbers, and rows with theirs."""
    kinds = draw(st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=3))
    key = st.tuples(*(VALUES[kind][1] for kind in kinds))
    keys = draw(st.lists(key, min_size=1, max_size=12))
    numbers = draw(st.lists(st.integers(1, 5), min_size=len(keys), max_size=len(keys)))
    rows = draw(st.lists(key | st.sampled_from(keys), min_size=1, max_size=12))
    return kinds, keys, numbers, rows, draw(st.integers(0, 5))


def columns(kinds: list[str], rows: list[tuple[Any, ...]]) -> list[Any]:
    """Return the rows as columns."""
    return [pa.array([row[place] for row in rows], VALUES[kind][0]) for place, kind in enumerate(kinds)]


def comparable(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a row with Java's equality: NaN equals itself, and the zeros differ."""
    return tuple((str(value), math.copysign(1, value)) if isinstance(value, float) else value for value in row)


def comparable_rows(kinds: list[str], rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Return the rows with the values that their columns hold."""
    held = zip(*(column.to_pylist() for column in columns(kinds, rows)), strict=True)
    return [comparable(row) for row in held]


@given(keys_and_rows())
def test_a_row_is_deleted_by_an_equal_newer_key(
    drawn: tuple[list[str], list[tuple[Any, ...]], list[int], list[tuple[Any, ...]], int],
) -> None:
    kinds, keys, numbers, rows, age = drawn
    deletes = list(zip(comparable_rows(kinds, keys), numbers, strict=True))
    expected = [any(row == key and number > age for key, number in deletes) for row in comparable_rows(kinds, rows)]
    found = KeyTable.of(columns(kinds, keys), np.array(numbers)).deletes(columns(kinds, rows), age)
    assert (found.tolist() if found is not None else [False] * len(rows)) == expected


def test_combined_codes_of_many_columns_do_not_overflow() -> None:
    rng = np.random.default_rng(7)
    keys = [pa.array(rng.integers(0, 2**62, 5_000)) for _ in range(8)]
    table = KeyTable.of(keys, np.ones(5_000, np.int64))
    found = table.deletes([column.slice(0, 100) for column in keys], 0)
    assert found is not None
    assert found.all()
    mixed = [keys[0].slice(0, 100), *(column.slice(100, 100) for column in keys[1:])]
    assert table.deletes(mixed, 0) is None
