"""External sorting gives the same result as sorting in memory, for any values, and moves each row once."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interbed.storage.base.types.arrow import type_to_arrow
from interbed.storage.lsm.write_buffer import SpillFiles
from interbed.storage.write.sort.external import ExternalSort, sample_of
from interbed.storage.write.sort.key import OrderStrategy, Sample, SortKey, SortOrder
from tests.storage.lsm.keys import KEY_KINDS, key_array, key_order
from tests.support.examples import examples


class GivenRows:
    def __init__(self, rows: pa.Table) -> None:
        self.rows = rows

    @property
    def nbytes(self) -> int:
        return self.rows.nbytes

    def batches(self) -> Iterator[pa.RecordBatch]:
        yield from self.rows.to_batches(max_chunksize=7)

    def sample(self) -> Sample:
        return sample_of(self.batches(), 0.3)


def externally_sorted(key: SortKey, rows: GivenRows, memory: int) -> pa.Table:
    with ExternalSort(key, SpillFiles(max_bytes=None, codec=None), memory=memory) as sorting:
        return pa.Table.from_batches(list(sorting.sorted(rows)), rows.rows.schema)


@given(data=st.data(), memory=st.sampled_from([1, 300, 1 << 20]))
@settings(max_examples=examples(60), deadline=None)
def test_rows_of_any_type_are_ordered_as_keys_are_with_nulls_first(data: st.DataObject, memory: int) -> None:
    kinds = tuple(data.draw(st.lists(st.sampled_from(KEY_KINDS), min_size=1, max_size=3)))
    pool = data.draw(st.lists(st.tuples(*(st.none() | k.values for k in kinds)), min_size=1, max_size=20))
    drawn = data.draw(st.lists(st.sampled_from(pool), min_size=1, max_size=60))
    columns = [key_array([row[i] for row in drawn], type_to_arrow(k.type)) for i, k in enumerate(kinds)]
    names = tuple(f"c{i}" for i in range(len(kinds)))
    rows = pa.table([*columns, pa.array(range(len(drawn)))], names=[*names, "row"])
    key = SortKey(SortOrder(strategy=OrderStrategy.ORDER, columns=names))

    def rank(row: int) -> list[Any]:
        parts = zip(kinds, drawn[row], strict=True)
        return [(0, ()) if value is None else (1, key_order((kind,), (value,))) for kind, value in parts]

    found: list[Any] = externally_sorted(key, GivenRows(rows), memory).column("row").to_pylist()
    assert sorted(found) == list(range(len(drawn)))
    assert [rank(row) for row in found] == sorted(rank(row) for row in range(len(drawn)))


def test_few_rows_are_sorted_even_when_the_sample_would_be_empty() -> None:
    key = SortKey(SortOrder(strategy=OrderStrategy.ORDER, columns=("a",)))
    rows = GivenRows(pa.table({"a": [5, 3]}))
    assert externally_sorted(key, rows, 1).column("a").to_pylist() == [3, 5]


@pytest.mark.parametrize("strategy", [OrderStrategy.ZORDER, OrderStrategy.HILBERT])
@given(points=st.lists(st.tuples(st.integers(-9, 9) | st.none(), st.text(max_size=3)), min_size=1, max_size=80))
@settings(max_examples=examples(30), deadline=None)
def test_a_curve_gives_the_same_order_with_little_and_much_memory(
    strategy: OrderStrategy, points: list[tuple[int | None, str]]
) -> None:
    rows = GivenRows(pa.table({"a": [p[0] for p in points], "b": [p[1] for p in points], "row": range(len(points))}))
    sample = rows.sample()
    key = SortKey.of(SortOrder(strategy=strategy, columns=("a", "b")), sample)
    assert SortKey.from_text(key.to_text()) == key
    little, much = externally_sorted(key, rows, 1), externally_sorted(key, rows, 1 << 20)
    indexes: list[list[Any]] = [key.columns(t.combine_chunks().to_batches()[0])[0].to_pylist() for t in (little, much)]
    assert indexes[0] == indexes[1] == sorted(indexes[0])
    numbers: Any = little.column("row")
    assert sorted(numbers.to_pylist()) == list(range(len(points)))
