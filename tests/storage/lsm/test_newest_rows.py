"""The newest rows found by position equal those that a sort finds."""

import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interbed.storage.lsm.key_words import group_ends, sort_groups
from interbed.storage.lsm.sort_merge import count_newest, newest_rows
from tests.support.examples import examples

TYPES = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.date32(), pa.timestamp("us")]
_RUNS = st.lists(st.sets(st.integers(-60, 60)), min_size=1, max_size=6)


def _columns(runs: list[set[int]], data_type: pa.DataType, offset: int = 0) -> "list[pa.Array[Any]]":
    width = pa.int64() if pa.types.is_timestamp(data_type) or data_type == pa.int64() else pa.int32()
    columns = [pa.array([key + offset for key in sorted(run)], width).cast(data_type) for run in runs]
    # Slices, as a merge takes them from the batches that it read.
    return [pa.concat_arrays([column, column]).slice(len(column)) for column in columns]


@given(runs=_RUNS, data_type=st.sampled_from(TYPES))
@settings(max_examples=examples(200), deadline=None)
def test_the_newest_row_of_each_key_is_the_one_that_a_sort_finds(runs: list[set[int]], data_type: pa.DataType) -> None:
    columns = _columns(runs, data_type)
    found = newest_rows(columns)
    if found is not None:
        order, starts = sort_groups([pa.concat_arrays(columns)])
        assert found.tolist() == order[group_ends(starts)].tolist()
    else:
        assert sum(map(len, columns)) < 121 / 8


@given(runs=_RUNS, data=st.data())
@settings(max_examples=examples(200), deadline=None)
def test_keys_are_counted_whose_newest_row_is_no_delete(runs: list[set[int]], data: st.DataObject) -> None:
    adds = [data.draw(st.lists(st.booleans(), min_size=len(run), max_size=len(run))) for run in runs]
    last = {
        key: kept for run, flags in zip(runs, adds, strict=True) for key, kept in zip(sorted(run), flags, strict=True)
    }
    columns = _columns(runs, pa.int64(), 2**62)
    count = count_newest(columns, np.array([flag for flags in adds for flag in flags], np.bool_))
    assert count == sum(last.values()) or (count is None and sum(map(len, columns)) < 2)
    assert count_newest(columns, None) in (len(last), None)


@pytest.mark.parametrize("data_type", [pa.int8(), pa.int64()])
def test_keys_at_both_ends_of_their_type_do_not_overflow(data_type: pa.DataType) -> None:
    bits = data_type.bit_width
    ends = [-(2 ** (bits - 1)), 2 ** (bits - 1) - 1]
    everything = pa.array(range(-128, 128) if bits == 8 else ends, data_type)
    columns = [everything, pa.array(ends, data_type)]
    if bits == 8:
        assert newest_rows(columns) is not None
        assert count_newest(columns, None) == 256
    else:
        assert newest_rows(columns) is None
        assert count_newest(columns, None) is None


def test_sparse_keys_and_keys_other_than_integers_are_left_to_a_sort() -> None:
    for keys in (
        pa.array([1, 10_000_000]),
        pa.array(["a", "b"]),
        pa.array([1.0, 2.0]),
        pa.array([datetime.datetime(1, 1, 1), datetime.datetime(9999, 1, 1)], pa.timestamp("us")),
    ):
        assert newest_rows([keys]) is None
        assert count_newest([keys], None) is None


def test_the_result_for_no_rows_is_empty() -> None:
    found = newest_rows([pa.array([], pa.int64())])
    assert found is not None
    assert not len(found)
    assert count_newest([pa.array([], pa.int64())], None) == 0
