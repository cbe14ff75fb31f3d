"""Key words order rows as Paimon's key comparator does."""

from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interbed.storage.base.types.arrow import type_to_arrow
from interbed.storage.lsm.key_words import comparable_key, group_ends, key_words, rows_through, sort_groups
from tests.storage.lsm.keys import KEY_KINDS, KeyKind, key_array, key_order
from tests.support.examples import examples


def _columns(kinds: tuple[KeyKind, ...], keys: list[tuple[Any, ...]]) -> "list[pa.Array[Any]]":
    return [key_array([k[i] for k in keys], type_to_arrow(kind.type)) for i, kind in enumerate(kinds)]


def _check(kinds: tuple[KeyKind, ...], keys: list[tuple[Any, ...]]) -> None:
    columns = _columns(kinds, keys)
    order, starts = sort_groups(columns)
    ranks = [key_order(kinds, key) for key in keys]
    expected = sorted(range(len(keys)), key=lambda row: ranks[row])
    assert order.tolist() == expected
    assert starts.tolist() == [i == 0 or ranks[expected[i]] != ranks[expected[i - 1]] for i in range(len(keys))]
    tuples = [comparable_key(columns, row) for row in expected]
    for before, after, is_start in zip(tuples, tuples[1:], starts[1:], strict=False):
        assert before < after if is_start else before == after
    ordered = [column.take(pa.array(expected, pa.int64())) for column in columns]
    for key in tuples[:5]:
        assert rows_through(ordered, key) == sum(t <= key for t in tuples)


@pytest.mark.parametrize("kind", KEY_KINDS, ids=lambda kind: kind.name)
@given(data=st.data())
@settings(max_examples=examples(60), deadline=None)
def test_rows_are_sorted_stably_by_a_key_of_each_type(kind: KeyKind, data: st.DataObject) -> None:
    keys = data.draw(st.lists(kind.values.map(lambda value: (value,)), max_size=40))
    _check((kind,), keys)


@given(data=st.data())
@settings(max_examples=examples(200), deadline=None)
def test_rows_are_sorted_stably_by_composite_keys(data: st.DataObject) -> None:
    kinds = tuple(data.draw(st.lists(st.sampled_from(KEY_KINDS), min_size=2, max_size=4)))
    pool = data.draw(st.lists(st.tuples(*(kind.values for kind in kinds)), min_size=1, max_size=12))
    _check(kinds, data.draw(st.lists(st.sampled_from(pool), max_size=40)))


@given(
    rows=st.lists(
        st.tuples(st.integers(0, 5), st.integers(-(2**63), 2**63 - 1) | st.integers(0, 2), st.booleans()), max_size=60
    )
)
@settings(max_examples=examples(200), deadline=None)
def test_tie_breakers_order_the_rows_of_one_key(rows: list[tuple[int, int, bool]]) -> None:
    keys, sequence, adds = (
        pa.array([r[i] for r in rows], t) for i, t in enumerate((pa.int32(), pa.int64(), pa.bool_()))
    )
    order, starts = sort_groups([keys], ties=[sequence, adds])
    assert order.tolist() == sorted(range(len(rows)), key=lambda row: rows[row])
    assert int(starts.sum()) == len({r[0] for r in rows})


def test_nulls_sort_first_and_equal_each_other() -> None:
    column = pa.array([3, None, -1, None], pa.int64())
    order, starts = sort_groups([column])
    assert order.tolist() == [1, 3, 2, 0]
    assert starts.tolist() == [True, False, True, True]
    assert sort_groups([pa.nulls(2, pa.string())])[0].tolist() == [0, 1]


def test_slices_and_chunks_are_read_at_their_offsets() -> None:
    whole = pa.array(["zz", "b", "a\0", "a", "", "yy"])
    for column in (whole.slice(1, 4), pa.chunked_array([whole.slice(1, 1), whole.slice(2, 3)])):
        assert sort_groups([column])[0].tolist() == [3, 2, 1, 0]
    numbers = pa.array([9, 5, 4, 9]).cast(pa.decimal128(38, 0)).slice(1, 2)
    assert sort_groups([numbers])[0].tolist() == [1, 0]
    assert sort_groups([pa.array([True, True, False]).slice(1, 2)])[0].tolist() == [1, 0]


def test_every_sort_algorithm_gives_the_same_order_of_many_rows() -> None:
    random = np.random.default_rng(7)
    narrow = random.integers(0, 1000, 20_000)
    wide = narrow * (2**53) - 2**62
    expected = np.argsort(narrow, kind="stable")
    texts = pa.array([f"{n:04d}" for n in narrow])
    long_texts = pa.array([f"{n:04d}{'x' * 40}{n}" for n in narrow])
    for column in (pa.array(narrow), pa.array(wide), texts, long_texts):
        order, starts = sort_groups([column])
        assert np.array_equal(order, expected)
        assert int(starts.sum()) == len(np.unique(narrow))


@given(
    head=st.sets(st.integers(-50, 50), min_size=1).map(sorted),
    tail=st.lists(st.integers(-60, 60), max_size=60),
    ties=st.randoms(use_true_random=False),
)
@settings(max_examples=examples(200), deadline=None)
def test_declaring_a_sorted_head_does_not_change_the_order(head: list[int], tail: list[int], ties: Random) -> None:
    keys = pa.array(head + tail, pa.int64())
    sequence = pa.array([ties.randrange(5) for _ in keys])
    for tie in ((), (sequence,)):
        order, starts = sort_groups([keys], ties=tie, sorted_head=len(head))
        expected_order, expected_starts = sort_groups([keys], ties=tie)
        assert order.tolist() == expected_order.tolist()
        assert starts.tolist() == expected_starts.tolist()


def test_no_rows_give_no_groups() -> None:
    order, starts = sort_groups([pa.array([], pa.string())])
    assert len(order) == 0
    assert len(starts) == 0


def test_group_ends_mark_the_last_row_of_each_group() -> None:
    starts = np.array([True, False, True, True, False])
    assert group_ends(starts).tolist() == [False, True, True, False, True]
    assert group_ends(starts[:0]).tolist() == []


def test_a_nested_column_is_refused_as_a_key() -> None:
    with pytest.raises(TypeError, match="can't be part of a key"):
        key_words([pa.array([[1]])])
