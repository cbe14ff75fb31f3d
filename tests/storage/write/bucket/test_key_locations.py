"""The index of keys to locations, in memory and on disk, against a dict."""

import datetime

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from interbed.storage.base.types.data_type import AtomicType, DataType, TypeRoot
from interbed.storage.write.bucket.key_locations import DISK_RUNS, ENTRY_BYTES, NOWHERE, KeyHashes, KeyLocations

LONG = AtomicType(TypeRoot.BIGINT)
TEXT = AtomicType(TypeRoot.VARCHAR, length=2**31 - 1)
DAY = AtomicType(TypeRoot.DATE)


def hashes(keys: list[int]) -> KeyHashes:
    return KeyHashes.of([pa.array(keys, pa.int64())], [LONG])


@given(
    puts=st.lists(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 9)), min_size=1, max_size=30), max_size=25),
    memory=st.sampled_from([1, 20, 10_000]),
)
def test_the_last_location_of_a_key_is_found(puts: list[list[tuple[int, int]]], memory: int) -> None:
    index = KeyLocations(memory * ENTRY_BYTES)
    model: dict[int, int] = {}
    for block in puts:
        index.put(hashes(list(dict(block))), np.array(list(dict(block).values()), np.int64))
        model.update(block)
    asked = [*range(-5, 70), 3, 3]
    assert index.find(hashes(asked)).tolist() == [model.get(key, NOWHERE) for key in asked]
    assert index.runs_on_disk <= DISK_RUNS
    index.close()
    assert index.find(hashes([1])).tolist() == [NOWHERE]


def test_a_large_index_is_merged_on_disk() -> None:
    index = KeyLocations(100_000 * ENTRY_BYTES)
    keys = np.random.default_rng(1).permutation(3_000_000)
    for start in range(0, len(keys), 150_000):
        part = keys[start : start + 150_000]
        index.put(KeyHashes.of([pa.array(part)], [LONG]), part * 2)
    assert 1 <= index.runs_on_disk <= DISK_RUNS
    assert len(index) == len(keys)
    asked = np.arange(-1000, 3_001_000, 997)
    inside = (asked >= 0) & (asked < 3_000_000)
    found = index.find(KeyHashes.of([pa.array(asked)], [LONG]))
    assert np.array_equal(found, np.where(inside, asked * 2, NOWHERE))
    index.close()


TEXTS = st.text(max_size=20)


@given(keys=st.lists(st.tuples(TEXTS, st.dates(), st.integers(-3, 3)), min_size=1, max_size=40))
def test_keys_have_equal_hashes_if_and_only_if_they_are_equal(keys: list[tuple[str, datetime.date, int]]) -> None:
    types: list[DataType] = [TEXT, DAY, LONG]
    columns = [pa.array([k[i] for k in keys], t) for i, t in enumerate((pa.string(), pa.date32(), pa.int64()))]
    found = KeyHashes.of(columns, types)
    pairs = list(zip(found.first.tolist(), found.second.tolist(), strict=True))
    assert len(set(found.first.tolist())) == len(set(keys))
    assert len(dict(zip(keys, pairs, strict=True))) == len(set(pairs))
    order, starts = found.grouped()
    assert int(starts.sum()) == len(set(keys))
    assert sorted(order.tolist()) == list(range(len(keys)))
