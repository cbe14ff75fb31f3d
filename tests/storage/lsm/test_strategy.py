"""Universal compaction: the runs that Java Paimon picks (cases of its own tests), and properties."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interbed.storage.lsm.compact.strategy import CompactionPick, PickContext, PickReason, UniversalStrategy, pick_full
from interbed.storage.lsm.levels import LevelRun, Levels, SortedRun
from interbed.storage.meta.manifest.entry import DataFileMeta
from interbed.storage.meta.options.lsm import LsmOptions

AT_ONCE = 10**9
"""A size amplification that is never reached."""


def tree(*runs: tuple[int, int], levels: int = 6) -> Levels:
    """A bucket of (level, size) runs, newest first."""
    return Levels(
        runs=tuple(LevelRun(level=level, run=SortedRun(files=(_file(size, level),))) for level, size in runs),
        max_level=levels - 1,
    )


def level_0(*sizes: int, levels: int = 3) -> Levels:
    """A bucket with runs in level 0 alone."""
    return tree(*((0, size) for size in sizes), levels=levels)


def _file(size: int, level: int) -> DataFileMeta:
    return DataFileMeta(
        file_name=f"f-{level}-{size}",
        file_size=size,
        row_count=1,
        min_sequence_number=0,
        max_sequence_number=0,
        schema_id=0,
        level=level,
        creation_time_millis=0,
    )


def sizes(pick: CompactionPick | None) -> list[int]:
    """The sizes of the picked runs."""
    return [] if pick is None else [r.run.byte_size for r in pick.runs]


def strategy(amplification: int, ratio: int, trigger: int) -> UniversalStrategy:
    return UniversalStrategy(max_size_amplification_percent=amplification, size_ratio=ratio, compaction_trigger=trigger)


@pytest.mark.parametrize(
    ("levels", "picked", "output", "reason"),
    [
        (level_0(1, 2, 3, 3), [1, 2, 3, 3], 2, PickReason.SIZE_AMPLIFICATION),
        (tree((0, 1), (1, 1), (2, 1), (3, 50), levels=4), [1, 1, 1], 2, PickReason.SIZE_RATIO),
        (tree((0, 1), (1, 2), (2, 3), (3, 50), levels=4), [1, 2, 3], 2, PickReason.RUN_COUNT),
        (tree((0, 1), (0, 1), (1, 1), (2, 50), levels=3), [1, 1, 1], 1, PickReason.SIZE_RATIO),
        (tree((0, 1), (0, 2), (1, 3), (2, 50), levels=3), [1, 2, 3], 1, PickReason.RUN_COUNT),
    ],
)
def test_the_picked_runs_equal_javas(levels: Levels, picked: list[int], output: int, reason: PickReason) -> None:
    pick = strategy(25, 1, 3).pick(levels, PickContext())
    assert pick is not None
    assert (sizes(pick), pick.output_level, pick.reason) == (picked, output, reason)


@pytest.mark.parametrize(
    ("forced", "levels", "picked", "output"),
    [
        (200, tree((0, 10), (0, 20), (1, 97), (2, 100), levels=3), [10, 20, 97, 100], 2),
    ],
)
def test_a_pick_by_run_count_is_extended_by_the_size_ratio(
    forced: int, levels: Levels, picked: list[int], output: int
) -> None:
    pick = strategy(forced, 1, 3).pick(levels, PickContext())
    assert pick is not None
    assert (sizes(pick), pick.output_level) == (picked, output)


def test_level_0_is_never_an_output_even_with_a_huge_run_in_it() -> None:
    pick = strategy(200, 1, 5).pick(level_0(1, 1, 1, 1024, 1024 * 1024, levels=6), PickContext())
    assert pick is not None
    assert (sizes(pick), pick.output_level) == ([1, 1, 1, 1024, 1024 * 1024], 5)


def test_an_interval_triggers_full_compactions() -> None:
    interval = replace(strategy(100, 1, 3), optimization_interval_millis=1000)
    quiet, loud = tree((0, 1), (1, 3), (2, 5), levels=3), tree((0, 3), (1, 3), (2, 5), levels=3)
    first = interval.pick(quiet, PickContext(now_millis=0))
    assert first is not None
    assert (sizes(first), first.reason) == ([1, 3, 5], PickReason.INTERVAL)
    assert sizes(interval.pick(quiet, PickContext(now_millis=1001, last_full_millis=0))) == [1, 3, 5]
    assert interval.pick(quiet, PickContext(now_millis=1001, last_full_millis=1001)) is None
    amplified = interval.pick(loud, PickContext(now_millis=1500, last_full_millis=1001))
    assert amplified is not None
    assert (sizes(amplified), amplified.reason) == ([3, 3, 5], PickReason.SIZE_AMPLIFICATION)


def test_small_buckets_and_those_with_much_outside_of_the_top_are_compacted_fully() -> None:
    small = replace(strategy(100, 1, 3), total_size_threshold=10)
    assert sizes(small.pick(tree((0, 1), (1, 3), (2, 5), levels=3), PickContext())) == [1, 3, 5]
    assert small.pick(tree((0, 2), (1, 6), (2, 10), levels=3), PickContext()) is None
    assert small.pick(tree((2, 5), levels=3), PickContext()) is None
    outside = replace(strategy(100, 1, 30), incremental_size_threshold=10)
    assert sizes(outside.pick(tree((0, 2), (1, 9), (2, 99), levels=3), PickContext())) == [2, 9, 99]
    assert outside.pick(tree((0, 2), (1, 8), (2, 99), levels=3), PickContext()) is None


def grown(rules: UniversalStrategy, steps: int, *start: int, by_level: bool) -> list[list[int]]:
    """The runs after each flush of size 1; the picked runs are merged to one run."""
    states: list[list[int]] = []
    state = list(start)
    for _ in range(steps):
        state = [1, *state]
        # As in Java's tests, each run has its own level where the size ratio is checked, one above the number of runs.
        runs = [(i if by_level else 0, size) for i, size in enumerate(state)]
        levels = tree(*runs, levels=len(state) + 1)
        pick = rules.pick(levels, PickContext())
        if pick is not None:
            count = len(pick.runs)
            state = [sum(state[:count]), *state[count:]]
        states.append(state)
    return states


def test_size_amplification_over_many_flushes() -> None:
    rules = strategy(25, 0, 1)
    amplified = [
        [2],
        [3],
        [4],
        [1, 4],
        [6],
        [1, 6],
        [8],
        [1, 8],
        [1, 1, 8],
        [11],
        [1, 11],
        [1, 1, 11],
        [14],
        [1, 14],
        [1, 1, 14],
        [1, 1, 1, 14],
        [18],
    ]
    state = [1]
    for expected in amplified:
        state = [1, *state]
        levels = level_0(*state)
        pick = rules._size_amplification(levels)
        state = [sum(state)] if pick is not None else state
        assert state == expected


def test_size_ratio_over_many_flushes() -> None:
    expected = [
        [5],
        [1, 5],
        [1, 1, 5],
        [1, 1, 1, 5],
        [4, 5],
        [1, 4, 5],
        [1, 1, 4, 5],
        [3, 4, 5],
        [1, 3, 4, 5],
        [2, 3, 4, 5],
        [1, 2, 3, 4, 5],
        [16],
        [1, 16],
        [1, 1, 16],
        [1, 1, 1, 16],
        [4, 16],
        [1, 4, 16],
        [1, 1, 4, 16],
        [3, 4, 16],
        [1, 3, 4, 16],
        [2, 3, 4, 16],
        [1, 2, 3, 4, 16],
        [11, 16],
    ]
    rules = strategy(AT_ONCE, 1, 5)
    assert grown(rules, len(expected), 1, 1, 1, 1, by_level=True) == expected


@pytest.mark.parametrize(("ratio", "picked"), [(10, []), (20, [8, 9, 10])])
def test_the_size_ratio_decides_which_runs_are_picked(ratio: int, picked: list[int]) -> None:
    assert sizes(strategy(AT_ONCE, ratio, 2)._size_ratio(tree((0, 8), (2, 9), (3, 10)), PickContext())) == picked


def test_the_size_ratio_may_differ_in_off_peak_hours() -> None:
    rules = replace(strategy(AT_ONCE, 10, 2), off_peak=(22, 6, 10))
    levels = tree((0, 8), (2, 9), (3, 10), levels=9)
    assert rules._size_ratio(levels, PickContext(hour=12)) is None
    assert rules._size_ratio(levels, PickContext(hour=6)) is None
    assert sizes(rules._size_ratio(levels, PickContext(hour=22))) == [8, 9, 10]
    assert sizes(rules._size_ratio(levels, PickContext(hour=5))) == [8, 9, 10]
    assert replace(rules, off_peak=(-1, 6, 10))._size_ratio(levels, PickContext(hour=3)) is None


def test_a_radical_lookup_compaction_picks_level_0_immediately() -> None:
    rules = replace(strategy(25, 1, 3), force_up_level_0=1)
    for levels, picked, output in (
        (level_0(1, 2, 2, 2), [1, 2, 2, 2], 2),
        (tree((0, 1), (1, 2), (2, 2), levels=3), [1, 2, 2], 2),
        (tree((0, 1), (2, 2), levels=3), [1], 1),
    ):
        pick = rules.pick(levels, PickContext())
        assert pick is not None
        assert (sizes(pick), pick.output_level) == (picked, output)
    assert rules.pick(tree((1, 1), (2, 200), levels=3), PickContext()) is None


def test_a_gentle_lookup_compaction_picks_level_0_after_some_skips() -> None:
    rules = replace(strategy(25, 1, 5), force_up_level_0=5)
    for levels, picked, output in (
        (level_0(1, 2, 2, 2), [1, 2, 2, 2], 2),
        (tree((0, 2), (1, 2), (2, 2), levels=3), [2, 2, 2], 2),
        (tree((0, 1), (2, 2), levels=3), [1], 1),
    ):
        moment = PickContext()
        for _ in range(4):
            assert rules.pick(levels, moment) is None
            moment = replace(moment, skipped=rules.skipped_after(None, moment))
        pick = rules.pick(levels, moment)
        assert pick is not None
        assert (sizes(pick), pick.output_level) == (picked, output)
        assert rules.skipped_after(pick, moment) == 0


def test_a_requested_full_compaction_picks_all_runs() -> None:
    assert pick_full(tree(levels=3)) is None
    assert pick_full(tree((2, 5), levels=3)) is None
    assert sizes(pick_full(tree((1, 5), levels=3))) == [5]


@pytest.mark.parametrize(
    ("options", "force_up"),
    [
        ({}, 0),
        ({"compaction.force-up-level-0": "true"}, 1),
        ({"changelog-producer": "lookup"}, 1),
        ({"merge-engine": "first-row"}, 1),
        ({"deletion-vectors.enabled": "true", "lookup-compact": "gentle"}, 10),
        ({"force-lookup": "true", "lookup-compact": "gentle", "lookup-compact.max-interval": "3"}, 5),
    ],
)
def test_options_determine_when_level_0_is_compacted_upward(options: dict[str, str], force_up: int) -> None:
    assert UniversalStrategy.of(LsmOptions(options)).force_up_level_0 == force_up


_RUNS = st.lists(st.tuples(st.integers(0, 5), st.integers(1, 1000)), max_size=12).map(
    lambda runs: [
        *(r for r in runs if r[0] == 0),
        *sorted({level: (level, size) for level, size in runs if level}.values()),
    ]
)


@given(_RUNS, st.integers(0, 300), st.integers(0, 100), st.integers(1, 8), st.integers(0, 2))
def test_a_pick_is_a_prefix_and_keeps_the_tree_in_order(
    runs: list[tuple[int, int]], amplification: int, ratio: int, trigger: int, force_up: int
) -> None:
    levels = tree(*runs)
    pick = replace(strategy(amplification, ratio, trigger), force_up_level_0=force_up).pick(levels, PickContext())
    if pick is None:
        # More runs than the trigger are never left without a pick.
        assert len(runs) <= trigger
        return
    count = len(pick.runs)
    assert pick.runs == levels.runs[:count]
    assert pick.output_level > 0
    assert all(run.level > pick.output_level for run in levels.runs[count:])
    assert any(run.level != pick.output_level for run in pick.runs) or count > 1
    if count == len(runs):
        assert pick.output_level == levels.max_level
