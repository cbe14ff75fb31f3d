"""Properties of the division of buckets into splits."""

from collections.abc import Sequence
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from interbed.storage.meta.manifest.entry import DataFileMeta
from interbed.storage.scan.split import append_groups, merge_tree_groups, pack_in_order, sections_of
from tests.storage.commit.tables import KEY, data_file

WEIGHTS = st.lists(st.integers(0, 50), max_size=40)


def files(ranges: Sequence[tuple[int, int, int, int | None]]) -> list[DataFileMeta]:
    return [
        data_file(low, low + width, level=level, deletes=deletes, name=f"data-{i}.parquet")
        for i, (low, width, level, deletes) in enumerate(ranges)
    ]


FILES = st.lists(
    st.tuples(st.integers(-30, 30), st.integers(0, 9), st.integers(0, 2), st.sampled_from([0, 0, 1, None])),
    max_size=25,
).map(files)


@settings(deadline=None)
@given(WEIGHTS, st.integers(1, 100))
def test_packing_covers_every_item_once_and_in_order(weights: list[int], target: int) -> None:
    groups = pack_in_order(weights, lambda w: w, target)
    assert [w for group in groups for w in group] == weights
    assert all(groups)
    assert all(len(group) == 1 or sum(group) <= target for group in groups)
    # No unnecessary cut: the next item would not have fitted.
    assert all(sum(a) + b[0] > target for a, b in pairwise(groups))


@settings(deadline=None)
@given(FILES, st.integers(1, 1000), st.integers(0, 300))
def test_splits_of_a_bucket_hold_every_file_once_and_keep_overlapping_ones_together(
    bucket: list[DataFileMeta], target: int, cost: int
) -> None:
    # Files of one level above 0 do not overlap in a table; here they may, so level 1 is split into two.
    if len({f.level for f in bucket}) == 1:
        bucket = [f.upgraded(0) for f in bucket]
    groups = merge_tree_groups(sections_of(bucket, KEY), target_size=target, open_file_cost=cost)
    names = [f.file_name for group in groups for f in group.files]
    assert sorted(names) == sorted(f.file_name for f in bucket)
    place = {f.file_name: i for i, group in enumerate(groups) for f in group.files}
    for a in bucket:
        for b in bucket:
            if a.min_key == b.min_key or a.max_key == b.min_key:
                assert place[a.file_name] == place[b.file_name]
    for group in groups:
        if group.raw_convertible:
            assert all(f.delete_row_count == 0 for f in group.files)
            assert all(len(section) == 1 for section in sections_of(group.files, KEY))


def test_files_of_one_level_are_read_raw_unless_they_hold_deletes() -> None:
    sorted_run = files([(0, 4, 5, 0), (5, 4, 5, 0), (10, 4, 5, 0)])
    (one,) = merge_tree_groups(sections_of(sorted_run, KEY), target_size=1000, open_file_cost=1)
    assert one.raw_convertible
    halves = merge_tree_groups(sections_of(sorted_run, KEY), target_size=200, open_file_cost=1)
    assert [len(g.files) for g in halves] == [2, 1]
    with_deletes = files([(0, 4, 5, 0), (5, 4, 5, 2)])
    assert not any(
        g.raw_convertible for g in merge_tree_groups(sections_of(with_deletes, KEY), target_size=1000, open_file_cost=1)
    )
    uncounted = files([(0, 4, 0, None)])
    (old,) = merge_tree_groups(sections_of(uncounted, KEY), target_size=1000, open_file_cost=1)
    assert not old.raw_convertible


@settings(deadline=None)
@given(FILES, st.integers(1, 1000), st.integers(0, 300))
def test_append_splits_hold_every_file_once(bucket: list[DataFileMeta], target: int, cost: int) -> None:
    groups = append_groups(bucket, target_size=target, open_file_cost=cost)
    assert sorted(f.file_name for g in groups for f in g.files) == sorted(f.file_name for f in bucket)
    assert all(g.raw_convertible for g in groups)


@settings(deadline=None)
@given(FILES, st.integers(1, 1000), st.integers(0, 300), st.lists(st.none() | st.sampled_from("abc"), min_size=25))
def test_append_files_that_share_an_index_file_stay_in_a_split_where_they_fit(
    bucket: list[DataFileMeta], target: int, cost: int, shared: list[str | None]
) -> None:
    index_of = {f.file_name: index for f, index in zip(bucket, shared, strict=False)}
    groups = append_groups(
        bucket, target_size=target, open_file_cost=cost, index_of=lambda file: index_of[file.file_name]
    )

    assert sorted(f.file_name for g in groups for f in g.files) == sorted(f.file_name for f in bucket)
    weights = {f.file_name: max(f.file_size, cost) for f in bucket}
    assert all(len(g.files) == 1 or sum(weights[f.file_name] for f in g.files) <= target for g in groups)
    for index in "abc":
        names = {f.file_name for f in bucket if index_of[f.file_name] == index}
        if names and sum(weights[name] for name in names) <= target:
            assert sum(not names.isdisjoint(f.file_name for f in g.files) for g in groups) == 1
    # There are at most twice as many splits as necessary.
    assert (len(groups) - 1) * target <= 2 * sum(weights.values())
