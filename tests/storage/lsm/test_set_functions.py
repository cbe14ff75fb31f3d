"""Aggregate functions on sets: roaring bitmaps of 64-bit numbers, and sketches."""

import sys

import datasketches
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from interbed.storage.base.errors import CorruptFileError, NotSupportedError
from interbed.storage.lsm.merge_function.fields.functions import HllUnion, Roaring64Union, ThetaUnion, Union
from interbed.storage.lsm.merge_function.fields.roaring64 import Roaring64Bitmap

# Numbers of one container, of neighbouring containers, and of any; ranges become run containers, many numbers bitmaps.
_numbers = st.one_of(
    st.integers(0, 200), st.integers(0, 70).map(lambda n: n << 16), st.integers(0, 2**64 - 1), st.just(5 << 40)
)
_stretches = st.tuples(_numbers, st.integers(0, 9_000), st.integers(1, 3))


@st.composite
def _sets(draw: st.DrawFn) -> set[int]:
    wanted = set(draw(st.lists(_numbers, max_size=40)))
    for first, size, step in draw(st.lists(_stretches, max_size=2)):
        wanted |= {min(first + step * i, 2**64 - 1) for i in range(size)}
    return wanted


@given(_sets(), st.lists(_sets(), max_size=3))
def test_a_union_has_the_numbers_of_all_bitmaps_and_survives_the_round_trip(
    first: set[int], others: list[set[int]]
) -> None:
    union = Roaring64Bitmap(Roaring64Bitmap.of(first).to_bytes())
    for other in others:
        union.add_all(Roaring64Bitmap(Roaring64Bitmap.of(other).to_bytes()))
    data = union.to_bytes()
    assert list(union.numbers()) == sorted(first.union(*others))
    assert Roaring64Bitmap(data).to_bytes() == data


def test_a_union_in_memory_equals_one_of_serialized_bitmaps() -> None:
    sets = [range(0, 6_000, 2), range(1, 6_000, 2), range(3 << 16, 9 << 16, 700), [7 << 33]]
    kept, copied = Roaring64Bitmap.of(sets[0]), Roaring64Bitmap.of(sets[0])
    for numbers in sets[1:]:
        kept.add_all(Roaring64Bitmap.of(numbers))
        copied.add_all(Roaring64Bitmap.of(numbers))
        copied = Roaring64Bitmap(copied.to_bytes())
    assert kept.to_bytes() == copied.to_bytes()


@given(st.data())
def test_a_truncated_bitmap_is_refused(data: st.DataObject) -> None:
    whole = Roaring64Bitmap.of([1, 2, 3, 9 << 20, *range(5 << 40, (5 << 40) + 90, 7)]).to_bytes()
    with pytest.raises(CorruptFileError, match="64-bit roaring bitmap"):
        Roaring64Bitmap(whole[: data.draw(st.integers(0, len(whole) - 1))])


@pytest.mark.parametrize("function", [HllUnion, ThetaUnion, Roaring64Union])
def test_invalid_bytes_are_refused_with_the_function_and_column(function: type[Union]) -> None:
    fold = function(pa.array([b"\x07nothing", b"\x01\x02"], pa.binary()), 1, "function 'f' of column 'c'")
    fold.add(slice(0, 1), np.array([0]))
    with pytest.raises(CorruptFileError, match=r"function 'f' of column 'c'"):
        fold.add(slice(0, 1), np.array([1]))


def test_the_error_of_sketches_without_their_package_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasketches", None)
    with pytest.raises(NotSupportedError, match=r"'hll_sketch' of column 'c'.*interbed\[sketches\]"):
        HllUnion(pa.array([b""], pa.binary()), 1, "function 'hll_sketch' of column 'c'")


def test_a_union_of_sketches_counts_the_elements_of_both() -> None:
    one, other = datasketches.update_theta_sketch(), datasketches.update_theta_sketch()
    for number in range(300):
        one.update(number)
        other.update(number + 100)
    values = pa.array([s.compact().serialize() for s in (one, other)], pa.binary())
    fold = ThetaUnion(values, 1, "function 'theta_sketch' of column 'c'")
    for row in range(2):
        fold.add(slice(0, 1), np.array([row]))
    assert datasketches.compact_theta_sketch.deserialize(fold.result()[0].as_py()).get_estimate() == 400
