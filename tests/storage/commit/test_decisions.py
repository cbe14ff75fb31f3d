"""Pure functions of a commit: merging of entries, conflicts, choice of manifests to merge, back-off."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interbed.storage.base.errors import CommitConflictError, CorruptFileError
from interbed.storage.commit.changes import (
    DuplicateFileError,
    check_conflicts,
    collect_changes,
    overlapping_pair,
    owned_files,
    record_delta,
    upgrade_to_level,
)
from interbed.storage.commit.contention import RetryPolicy
from interbed.storage.commit.snapshot_builder import minor_merge_groups, must_change, needs_full_merge
from interbed.storage.meta.manifest.entry import EMPTY_STATS, FileKind, ManifestEntry, ManifestFileMeta, merge_entries
from interbed.storage.meta.snapshot.snapshot import CommitKind
from tests.storage.commit.tables import KEY, data_file, message, partition

# A small pool of files makes additions and deletions of the same file likely.
FILE = st.tuples(st.integers(0, 3), st.integers(0, 1), st.integers(0, 2))
STEPS = st.lists(st.tuples(st.sampled_from(FileKind), FILE), max_size=40)


def entry(kind: FileKind, file: tuple[int, int, int]) -> ManifestEntry:
    number, bucket, level = file
    meta = data_file(number * 10, number * 10 + 9, level=level, name=f"data-{number}.parquet")
    return ManifestEntry(kind=kind, partition=partition("d"), bucket=bucket, total_buckets=2, file=meta)


def place(where: bytes, bucket: int) -> str:
    return f"bucket {bucket}"


@settings(deadline=None)
@given(STEPS)
def test_merged_entries_equal_the_set_of_live_files(steps: list[tuple[FileKind, tuple[int, int, int]]]) -> None:
    model: set[tuple[int, int, int]] = set()
    valid = []
    for kind, file in steps:
        if (kind is FileKind.ADD) == (file in model):
            continue
        valid.append(entry(kind, file))
        (model.add if kind is FileKind.ADD else model.discard)(file)
    assert {e.identifier for e in merge_entries(valid)} == {entry(FileKind.ADD, f).identifier for f in model}
    # The result must not depend on how the manifests are cut and merged in between.
    for cut in range(0, len(valid) + 1, 3):
        parts = [merge_entries(valid[:cut], keep_deletes=True), merge_entries(valid[cut:], keep_deletes=True)]
        merged = merge_entries([e for part in parts for e in part])
        assert {e.identifier for e in merged} == {e.identifier for e in merge_entries(valid)}


@settings(deadline=None)
@given(STEPS)
def test_changes_conflict_exactly_when_they_do_not_fit_the_set_of_files(
    steps: list[tuple[FileKind, tuple[int, int, int]]],
) -> None:
    base_model = {(0, 0, 0), (1, 0, 0), (2, 1, 1)}
    base = [entry(FileKind.ADD, f) for f in sorted(base_model)]
    delta = [entry(kind, file) for kind, file in steps]
    named = [file for _, file in steps]
    removed = {file for kind, file in steps if kind is FileKind.DELETE}
    added = {file for kind, file in steps if kind is FileKind.ADD}
    fits = len(named) == len(set(named)) and removed <= base_model and not added & base_model
    after = (base_model - removed) | added
    # Two files of one number overlap on the same level above 0; the pool has no such pair.
    assert len({(f, b, level) for f, b, level in after}) == len(after)
    if fits:
        check_conflicts(base, delta, kind=CommitKind.APPEND, key_types=KEY, place=place)
    else:
        with pytest.raises(CommitConflictError):
            check_conflicts(base, delta, kind=CommitKind.APPEND, key_types=KEY, place=place)


def test_committing_a_file_again_is_distinguished_from_other_conflicts() -> None:
    base = [entry(FileKind.ADD, (0, 0, 0))]
    with pytest.raises(DuplicateFileError):
        check_conflicts(base, base, kind=CommitKind.APPEND, key_types=KEY, place=place)


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 9)), max_size=12))
def test_an_overlapping_pair_is_found_exactly_when_one_exists(ranges: list[tuple[int, int]]) -> None:
    files = [data_file(low, low + width) for low, width in ranges]
    expected = any(a[0] <= b[0] + b[1] and b[0] <= a[0] + a[1] for i, a in enumerate(ranges) for b in ranges[i + 1 :])
    assert (overlapping_pair(files, KEY) is not None) == expected


def meta(number: int, size: int, deleted: int = 0) -> ManifestFileMeta:
    return ManifestFileMeta(
        file_name=f"manifest-{number}",
        file_size=size,
        num_added_files=1,
        num_deleted_files=deleted,
        partition_stats=EMPTY_STATS,
        schema_id=0,
    )


@settings(deadline=None)
@given(st.lists(st.integers(1, 120), max_size=40), st.integers(1, 100), st.integers(0, 10))
def test_minor_merging_keeps_every_manifest_and_their_order(sizes: list[int], target: int, min_count: int) -> None:
    manifests = [meta(i, size) for i, size in enumerate(sizes)]
    groups = minor_merge_groups(manifests, target_size=target, min_count=min_count)
    assert [m for g in groups for m in g.manifests] == manifests
    for group in groups[:-1]:
        if group.is_merged:
            assert sum(m.file_size for m in group.manifests) >= target
    left = [g for g in groups if not g.is_merged and g.manifests[0].file_size < target]
    assert len(left) < max(min_count, 2)


def test_a_full_merge_waits_until_the_size_threshold_is_reached() -> None:
    small, deleting, large = meta(0, 10), meta(1, 200, deleted=1), meta(2, 200)
    assert [must_change(m, 100) for m in (small, deleting, large)] == [True, True, False]
    assert needs_full_merge([small, deleting, large], target_size=100, threshold=210)
    assert not needs_full_merge([small, deleting, large], target_size=100, threshold=211)
    assert not needs_full_merge([deleting], target_size=100, threshold=1)


def test_messages_are_converted_to_manifest_entries() -> None:
    new, gone, before, after = data_file(rows=8), data_file(rows=4), data_file(rows=2), data_file(rows=1)
    changes = collect_changes([message(new, deleted=[gone], before=[before], after=[after])])
    assert [(e.kind, e.file) for e in changes.append.files] == [(FileKind.ADD, new), (FileKind.DELETE, gone)]
    assert [(e.kind, e.file) for e in changes.compact.files] == [(FileKind.DELETE, before), (FileKind.ADD, after)]
    assert (record_delta(changes.append.files), record_delta(changes.compact.files)) == (4, -1)
    assert changes.append.take_rows_away


def test_only_files_written_for_the_messages_may_be_deleted_with_them() -> None:
    new, old, merged = data_file(), data_file(), data_file()
    both = message(new, before=[new, old], after=[new.upgraded(5), old.upgraded(5), merged])
    assert {o.file.file_name for o in owned_files([both])} == {new.file_name, merged.file_name}
    assert {o.file.file_name for o in owned_files([both], compact_only=True)} == {merged.file_name}


def test_files_are_upgraded_only_from_level_0() -> None:
    low, high = entry(FileKind.ADD, (0, 0, 0)), entry(FileKind.ADD, (1, 0, 0))
    assert [e.file.level for e in upgrade_to_level([low, high], KEY, 5)] == [5, 5]
    assert upgrade_to_level([replace(low, file=low.file.upgraded(1))], KEY, 5)[0].file.level == 1


def test_a_deletion_of_a_file_that_was_never_added_is_corruption() -> None:
    with pytest.raises(CorruptFileError):
        merge_entries([entry(FileKind.DELETE, (0, 0, 0))])


class _FakeClock:
    def __init__(self) -> None:
        self.now = 100.0
        self.pauses: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds


def test_pauses_double_up_to_a_bound_and_retries_are_limited() -> None:
    clock = _FakeClock()
    policy = RetryPolicy(
        max_retries=5,
        min_wait_millis=10,
        max_wait_millis=60,
        clock=lambda: clock.now,
        sleep=clock.sleep,
        random=lambda: 1.0,
    )
    retries = policy.start()
    while retries.pause():
        pass
    assert [round(p * 1000) for p in clock.pauses] == [10, 20, 40, 60, 60]
    assert round(retries.elapsed_seconds * 1000) == 190


def test_a_timeout_ends_retries_before_it_is_over() -> None:
    clock = _FakeClock()
    policy = RetryPolicy(
        max_retries=99,
        min_wait_millis=10,
        max_wait_millis=1000,
        timeout_millis=100,
        clock=lambda: clock.now,
        sleep=clock.sleep,
        random=lambda: 1.0,
    )
    retries = policy.start()
    while retries.pause():
        pass
    assert retries.elapsed_seconds <= 0.1
    assert retries.count == 3


@settings(deadline=None)
@given(st.integers(0, 10_000), st.floats(0, 1))
def test_every_pause_is_within_its_bounds(retry: int, chance: float) -> None:
    policy = RetryPolicy(max_retries=1, min_wait_millis=10, max_wait_millis=10_000, random=lambda: chance)
    assert 0.0025 <= policy.backoff.pause_seconds(retry) <= 10
