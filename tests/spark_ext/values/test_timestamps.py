"""Timestamps of lower precision."""

from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from interbed.spark_ext.values.spark_types import rounded_down

NANOS = pa.timestamp("ns")
MICROS = pa.timestamp("us")
TICKS = st.lists(st.none() | st.integers(-(2**63) + 1, 2**63 - 1) | st.integers(-2000, 2000), max_size=6)


@given(TICKS)
def test_timestamps_are_rounded_down(ticks: list[int | None]) -> None:
    column = pa.array(ticks, pa.int64()).view(NANOS)
    rounded = rounded_down(column, MICROS, safe=False)
    assert rounded.view(pa.int64()).to_pylist() == [None if t is None else t // 1000 for t in ticks]


@given(st.lists(st.none() | TICKS, min_size=1, max_size=5), st.integers(0, 2))
def test_nested_timestamps_are_rounded_down(lists: list[list[int | None] | None], start: int) -> None:
    plain = pa.array(lists, pa.list_(pa.int64()))
    in_lists = pa.array(lists, pa.list_(NANOS))
    in_rows = pa.StructArray.from_arrays([in_lists, plain], names=["at", "n"])
    in_maps = pa.array(
        [None if value is None else [("k", value)] for value in lists], pa.map_(pa.string(), in_lists.type)
    )
    expected = [None if value is None else [None if t is None else t // 1000 for t in value] for value in lists][start:]

    to_lists = pa.list_(pa.field("element", MICROS))
    found: Any = rounded_down(in_lists.slice(start), to_lists, safe=False)
    assert (found.type, found.cast(plain.type).to_pylist()) == (to_lists, expected)
    rows: Any = rounded_down(in_rows.slice(start), pa.struct([("at", to_lists), ("n", plain.type)]), safe=False)
    assert rows.field("at").cast(plain.type).to_pylist() == expected
    assert rows.field("n").to_pylist() == lists[start:]
    of_maps: Any = rounded_down(in_maps.slice(start), pa.map_(pa.string(), to_lists), safe=False)
    of_maps.validate(full=True)
    assert of_maps.items.slice(0, 0).type == to_lists
    assert [None if m is None else m[0][0] for m in of_maps.cast(pa.map_(pa.string(), plain.type)).to_pylist()] == [
        None if value is None else "k" for value in lists[start:]
    ]
