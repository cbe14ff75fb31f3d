"""Tasks are bundled for workers: each task once, in bundles of similar costs, together where they share index files."""

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from interbed.storage.meta.manifest.entry import EMPTY_ROW
from interbed.storage.meta.manifest.index_manifest import DELETION_VECTORS, IndexFileMeta
from interbed.storage.upkeep.compact_tasks import BUNDLES_OF_A_WORKER, CompactionTask, TaskKind, balanced_tasks


def _task(number: int, cost: int, indexes: frozenset[int] = frozenset(), ranges: int = 1) -> CompactionTask:
    return CompactionTask(
        kind=TaskKind.CONCATENATE,
        partition=EMPTY_ROW,
        bucket=0,
        total_buckets=-1,
        files=(),
        index_files=tuple(
            IndexFileMeta(index_type=DELETION_VECTORS, file_name=f"index-{i}", file_size=0, row_count=1)
            for i in sorted(indexes)
        ),
        range_count=ranges,
        # Distinguishes tasks that are equal otherwise.
        range_number=number,
        bytes_read=cost,
    )


COSTS = st.lists(st.integers(0, 1_000), max_size=60)
WORKERS = st.integers(1, 5)
SHARING = st.lists(st.tuples(st.integers(0, 100), st.frozensets(st.integers(0, 12), max_size=3)), max_size=25)


def _costs(bundles: list[tuple[CompactionTask, ...]]) -> list[int]:
    return [sum(task.cost for task in bundle) for bundle in bundles]


@given(COSTS, WORKERS)
def test_every_task_is_in_one_bundle_and_the_costliest_bundle_is_first(costs: list[int], workers: int) -> None:
    tasks = [_task(n, cost) for n, cost in enumerate(costs)]
    bundles = balanced_tasks(tasks, workers=workers)

    assert sorted(task.range_number for bundle in bundles for task in bundle) == list(range(len(costs)))
    assert len(bundles) == min(len(costs), workers * BUNDLES_OF_A_WORKER)
    assert _costs(bundles) == sorted(_costs(bundles), reverse=True)
    share = Fraction(sum(costs), workers * BUNDLES_OF_A_WORKER)
    assert max(_costs(bundles), default=0) <= share + max(costs, default=0)


@given(COSTS, WORKERS, st.integers(0, 3_000))
def test_no_bundle_of_several_tasks_exceeds_the_limit(costs: list[int], workers: int, most: int) -> None:
    tasks = [_task(n, cost) for n, cost in enumerate(costs)]
    bundles = balanced_tasks(tasks, workers=workers, most_bytes=most)

    assert sum(map(len, bundles)) == len(tasks)
    assert all(len(bundle) == 1 or cost <= most for bundle, cost in zip(bundles, _costs(bundles), strict=True))


@given(SHARING, WORKERS, st.none() | st.integers(0, 300))
def test_tasks_that_share_an_index_file_are_in_one_bundle(
    sharing: list[tuple[int, frozenset[int]]], workers: int, most: int | None
) -> None:
    tasks = [_task(n, cost, indexes) for n, (cost, indexes) in enumerate(sharing)]
    bundles = balanced_tasks(tasks, workers=workers, most_bytes=most)

    assert sorted(task.range_number for bundle in bundles for task in bundle) == list(range(len(tasks)))
    named = [{f.file_name for task in bundle for f in task.index_files} for bundle in bundles]
    assert sum(map(len, named)) == len(set().union(*named))


def test_ranges_of_a_sort_are_spread_although_all_read_the_same_index_files() -> None:
    tasks = [_task(n, 100, frozenset({1}), ranges=4) for n in range(4)]

    assert [len(bundle) for bundle in balanced_tasks(tasks, workers=1)] == [1, 1, 1, 1]


def test_many_small_tasks_are_combined_to_a_few_bundles() -> None:
    tasks = [_task(n, cost) for n, cost in enumerate([1] * 500 + [1_000, 400])]
    bundles = balanced_tasks(tasks, workers=2)

    assert len(bundles) == 8
    assert [task.range_number for task in bundles[0]] == [500]
    assert balanced_tasks([], workers=2) == []
