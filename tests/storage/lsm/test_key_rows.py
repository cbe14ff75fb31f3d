"""The newest and the oldest wanted row of each key."""

from random import Random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from interbed.storage.lsm.merge_function.segments import KeyRows
from tests.support.examples import examples


@given(keys=st.lists(st.lists(st.booleans(), min_size=1, max_size=7), max_size=12), shuffle=st.randoms())
@settings(max_examples=examples(200), deadline=None)
def test_the_newest_and_oldest_wanted_rows_of_a_key_are_found_at_any_position(
    keys: list[list[bool]], shuffle: Random
) -> None:
    sizes = [len(rows) for rows in keys]
    order = list(range(sum(sizes)))
    shuffle.shuffle(order)
    wanted = np.zeros(len(order), np.bool_)
    wanted[order] = [one for rows in keys for one in rows]
    firsts = np.cumsum([0, *sizes])[:-1]
    found = KeyRows(np.array(order, np.int64), firsts)
    stretches = [order[first : first + size] for first, size in zip(firsts, sizes, strict=True)]
    assert found.has(wanted).tolist() == [any(rows) for rows in keys]
    assert found.newest_where(wanted).tolist() == [next((r for r in s[::-1] if wanted[r]), s[-1]) for s in stretches]
    assert found.oldest_where(wanted).tolist() == [next((r for r in s if wanted[r]), s[0]) for s in stretches]
