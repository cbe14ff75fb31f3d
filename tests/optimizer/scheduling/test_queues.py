"""Order of waiting tables by share, request, policy and waiting time; queues are compared with a full sort."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interbed.optimizer.flow.process import TaskRef
from interbed.optimizer.flow.tables import GroupPolicy, ResourceGroup
from interbed.optimizer.scheduling.needs import SchedulerSettings
from interbed.optimizer.scheduling.table_queues import (
    TableBoard,
    TableQueues,
    Usage,
    WaitingTable,
    queue_entry,
    waiting_table,
)
from tests.optimizer.scheduling.measured import bucket, measurement, runs

CAPACITY = 100.0
NOW = 10_000_000
MINUTE = 60_000


def waiting(table: str = "t", **given: Any) -> WaitingTable:
    """Return a waiting table with defaults for all values not given."""
    return WaitingTable(**{"table": table, "quota": 0.5, "used": 0.0, "score": 50, "since_millis": NOW, **given})


def first(policy: GroupPolicy, *tables: WaitingTable) -> str:
    """Return the name of the table that is served next."""
    return min(queue_entry(each, policy, capacity=CAPACITY) for each in tables).table


def test_quota_policy_serves_the_table_that_used_least_of_its_share() -> None:
    a, b = waiting("a", used=20.0, quota=0.5), waiting("b", used=10.0, quota=0.2)
    assert first(GroupPolicy.QUOTA, a, b) == "a"


def test_balanced_policy_serves_the_worst_score_and_waiting_lowers_scores() -> None:
    bad, good = waiting("bad", score=20), waiting("good", score=60, since_millis=NOW - 39 * MINUTE)
    assert first(GroupPolicy.BALANCED, bad, good) == "bad"
    assert first(GroupPolicy.BALANCED, bad, waiting("good", score=60, since_millis=NOW - 41 * MINUTE)) == "good"


@pytest.mark.parametrize("policy", GroupPolicy)
def test_tables_over_their_share_wait_and_requested_tables_come_first(
    policy: GroupPolicy,
) -> None:
    over = waiting("over", used=50.0, score=0, requested=True, since_millis=0)
    asked, other = waiting("asked", used=49.0, score=99, requested=True), waiting("other", score=0, since_millis=0)
    assert first(policy, over, other, asked) == "asked"
    assert first(policy, over, other) == "other"
    assert not waiting(used=50.0).is_within(CAPACITY)


@pytest.mark.parametrize("policy", GroupPolicy)
def test_ties_are_broken_by_waiting_time_and_then_by_name(policy: GroupPolicy) -> None:
    assert first(policy, waiting("a"), waiting("b", since_millis=NOW - 1)) == "b"
    assert first(policy, waiting("b"), waiting("a")) == "a"


@pytest.mark.parametrize("policy", GroupPolicy)
def test_no_table_starves_behind_worse_ones_that_keep_arriving(policy: GroupPolicy) -> None:
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
def test_the_head_of_a_queue_is_the_minimum_of_all_waiting_tables(
    moves: list[tuple[Any, ...]], policy: GroupPolicy, capacity: float
) -> None:
    """Time advances by at least a hundredth of the window: for less, the queues may use the earlier usage."""
    usage, tables = Usage(), TableBoard((), SchedulerSettings())
    queues = TableQueues(tables, usage)
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
            found = queues.first(group, capacity, now)
            served = [
                queue_entry(waiting_table(t, usage, group, now, otherwise_since=now), policy, capacity=capacity)
                for t in tables.waiting(group.name)
            ]
            assert found == min(served, default=None)


def test_a_queue_is_reordered_as_usage_leaves_the_window() -> None:
    usage, tables, group = Usage(), TableBoard((), SchedulerSettings()), ResourceGroup()
    queues = TableQueues(tables, usage)
    usage.add("a", NOW - 300_000, NOW)
    usage.begin("b", TaskRef(process="p", number=0, attempt=1), NOW - 100_000)
    usage.finish("b", TaskRef(process="p", number=0, attempt=1), NOW)
    tables.changed(["a", "b"])
    for name in ("a", "b"):
        tables.measured(name, measurement(bucket(runs=9)), NOW)
    found = queues.first(group, 3_600.0, NOW)
    assert found is not None
    assert found.table == "b"
    late = queues.first(group, 3_600.0, NOW + 3_600_000)
    assert late is not None
    assert (late.table, late.rank) == ("a", 0.0)


def test_a_queue_is_rebuilt_when_the_group_or_its_workers_change() -> None:
    usage, tables, group = Usage(), TableBoard((), SchedulerSettings()), ResourceGroup()
    queues = TableQueues(tables, usage)
    usage.add("t", NOW - 300_000, NOW)
    tables.changed(["t"])
    tables.measured("t", runs(9), NOW)
    served = [queues.first(g, capacity, NOW) for g, capacity in [(group, 3_600.0), (group, 360.0)]]
    assert [turn and turn.is_over_quota for turn in served] == [False, True]
    balanced = queues.first(ResourceGroup(policy=GroupPolicy.BALANCED), 360.0, NOW)
    assert balanced is not None
    assert balanced.rank > 100
