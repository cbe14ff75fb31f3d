"""Set of names in a temporary database."""

import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from interbed.catalog.server.migration.selection import NameSet


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1)), st.integers(1, 5))
def test_each_name_is_returned_once_in_order(names: list[str], size: int) -> None:
    with NameSet(names) as stored:
        stored.add(names[:2])
        assert len(stored) == len(set(names))
        batches = list(stored.batches(size))
    assert [name for batch in batches for name in batch] == sorted(set(names))
    assert all(0 < len(batch) <= size for batch in batches)


def test_memory_does_not_grow_with_the_names() -> None:
    tracemalloc.start()
    try:
        with NameSet(f"dt=2024-01-01/hour={number}" for number in range(100_000)) as stored:
            count = sum(len(batch) for batch in stored.batches(1000))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert count == 100_000
    assert peak < 2 * 1024 * 1024
