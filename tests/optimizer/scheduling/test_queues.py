"""Which table is next: by share, request, policy and waiting time; lines against turns that are counted one by one."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interbed.optimizer.flow.group import GroupPolicy, ResourceGroup
from interbed.optimizer.flow.process import TaskRef
from interbed.optimizer.scheduling.queues import TableQueues, Usage, WaitingTable, queue_entry, waiting_table
from interbed.optimizer.scheduling.settings import SchedulerSettings
from interbed.optimizer.scheduling.table_board import TableBoard
from tests.optimizer.scheduling.measured import bucket, measurement, runs

CAPACITY = 100.0
NOW = 10_000_000
MINUTE = 60_000


def waiting(table: str = "t", **given: Any) -> WaitingTable:
    """A table that waits, by default one like any other."""
    return WaitingTable(**{"table": table, "quota": 0.5, "used": 0.0, "score": 50, "since_millis": NOW, **given})


def first(policy: GroupPolicy, *tables: WaitingTable) -> str:
    """Whose turn it is."""
    return min(queue_entry(each, policy, capacity=CAPACITY) for each in tables).table


def test_by_quota_the_table_is_next_that_has_used_least_of_its_share() -> None:
    a, b = waiting("a", used=20.0, quota=0.5), waiting("b", used=10.0, quota=0.2)
    assert first(GroupPolicy.QUOTA, a, b) == "a"


def test_balanced_the_table_with_the_worst_score_is_next_and_waiting_makes_it_worse() -> None:
    bad, good = waiting("bad", score=20), waiting("good", score=60, since_millis=NOW - 39 * MINUTE)
    assert first(GroupPolicy.BALANCED, bad, good) == "bad"
    assert first(GroupPolicy.BALANCED, bad, waiting("good", score=60, since_millis=NOW - 41 * MINUTE)) == "good"


@pytest.mark.parametrize("policy", GroupPolicy)
def test_who_has_used_its_share_waits_for_all_others_and_who_was_asked_for_is_first_of_either(
    policy: GroupPolicy,
) -> None:
    over = waiting("over", used=50.0, score=0, requested=True, since_millis=0)
    asked, other = waiting("asked", used=49.0, score=99, requested=True), waiting("other", score=0, since_millis=0)
    assert first(policy, over, other, asked) == "asked"
    assert first(policy, over, other) == "other"
    assert not waiting(used=50.0).is_within(CAPACITY)


@pytest.mark.parametrize("policy", GroupPolicy)
def test_among_equals_the_one_that_has_waited_longest_is_next_and_then_the_name_decides(policy: GroupPolicy) -> None:
    assert first(policy, waiting("a"), waiting("b", since_millis=NOW - 1)) == "b"
    assert first(policy, waiting("b"), waiting("a")) == "a"


@pytest.mark.parametrize("policy", GroupPolicy)
def test_no_table_waits_for_ever_behind_worse_ones_that_come_again_and_again(policy: GroupPolicy) -> None:
    patient = waiting("patient", score=100, since_millis=NOW)
    for minute in range(102):
        rival = waiting("rival", score=0, since_millis=NOW + minute * MINUTE)
        if first(policy, patient, rival) == "patient":
            return
    pytest.fail("It still waits.")


MOVES = st.lists(
    st.one_of(
        st.tuples(st.just("due"), st.sampled_from("abcdef"), st.sampled_from(["default", "other"]), st.integers(2, 12)),
        st.tuples(st.just("begin"), st.sampled_from("abcdef"), st.integers(0, 900_000)),
        st.tuples(st.just("gone"), st.sampled_from("abcdef")),
        st.tuples(st.just("time"), st.sampled_from([36_000, 600_000, 3_600_000])),
    ),
    max_size=40,
)


@given(moves=MOVES, policy=st.sampled_from(GroupPolicy), capacity=st.sampled_from([100.0, 3_600.0]))
def test_the_first_of_a_line_is_the_least_of_all_turns(
    moves: list[tuple[Any, ...]], policy: GroupPolicy, capacity: float
) -> None:
    """Time passes by a hundredth of the window at least: for less, what was used may be counted as before."""
    usage, tables = Usage(), TableBoard((), SchedulerSettings())
    lines = TableQueues(tables, usage)
    groups = [ResourceGroup(name=name, policy=policy) for name in ("default", "other")]
    now = NOW
    for move, *rest in moves:
        if move == "due":
            name, group, count = rest
            options = {"self-optimizing.group": group, "self-optimizing.quota": "0.5" if count % 2 else "0.05"}
            tables.changed([name])
            tables.measured(name, runs(count, options=options), now)
        elif move == "begin" and tables.waits(rest[0]) is not None:
            tables.begin(rest[0], now)
            usage.add(rest[0], now - rest[1], now)
            tables.failed(rest[0], now, gave_way=False)
        elif move == "gone":
            tables.removed(rest[0])
        elif move == "time":
            now += rest[0]
            tables.take_unmeasured(now)
        for group in groups:
            found = lines.first(group, capacity, now)
            turns = [
                queue_entry(waiting_table(t, usage, group, now, otherwise_since=now), policy, capacity=capacity)
                for t in tables.waiting(group.name)
            ]
            assert found == min(turns, default=None)


def test_a_line_follows_what_tables_have_used_as_it_leaves_the_window() -> None:
    usage, tables, group = Usage(), TableBoard((), SchedulerSettings()), ResourceGroup()
    lines = TableQueues(tables, usage)
    usage.add("a", NOW - 300_000, NOW)
    usage.begin("b", TaskRef(process="p", number=0, attempt=1), NOW - 100_000)
    usage.finish("b", TaskRef(process="p", number=0, attempt=1), NOW)
    tables.changed(["a", "b"])
    for name in ("a", "b"):
        tables.measured(name, measurement(bucket(runs=9)), NOW)
    found = lines.first(group, 3_600.0, NOW)
    assert found is not None
    assert found.table == "b"
    late = lines.first(group, 3_600.0, NOW + 3_600_000)
    assert late is not None
    assert (late.table, late.rank) == ("a", 0.0)


def test_a_line_is_made_anew_when_the_group_or_its_workers_change() -> None:
    usage, tables, group = Usage(), TableBoard((), SchedulerSettings()), ResourceGroup()
    lines = TableQueues(tables, usage)
    usage.add("t", NOW - 300_000, NOW)
    tables.changed(["t"])
    tables.measured("t", runs(9), NOW)
    turns = [lines.first(g, capacity, NOW) for g, capacity in [(group, 3_600.0), (group, 360.0)]]
    assert [turn and turn.is_over_quota for turn in turns] == [False, True]
    balanced = lines.first(ResourceGroup(policy=GroupPolicy.BALANCED), 360.0, NOW)
    assert balanced is not None
    assert balanced.rank > 100
