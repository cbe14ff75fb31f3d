"""Conflicts and order of locks, for any set of locks."""

import dataclasses

from hypothesis import given
from hypothesis import strategies as st

from interbed.catalog.server.service.lock_model import (
    Lock,
    LockComponent,
    LockLevel,
    LockRequest,
    LockState,
    LockType,
    blocking,
    is_blocked_by,
)


@st.composite
def components(draw: st.DrawFn) -> LockComponent:
    """Generate a component on one of a few databases, tables and partitions, so that conflicts are frequent."""
    table = draw(st.sampled_from([None, "t", "u"]))
    partition = draw(st.sampled_from([None, "p=1", "p=2"])) if table is not None else None
    level = LockLevel.DB if table is None else LockLevel.TABLE if partition is None else LockLevel.PARTITION
    return LockComponent(
        type=draw(st.sampled_from(LockType)),
        level=level,
        database=draw(st.sampled_from(["a", "b"])),
        table=table,
        partition=partition,
        catalog=draw(st.sampled_from(["hive", "hive", "spark", None])),
    )


requests = st.lists(components(), min_size=1, max_size=3).map(
    lambda parts: LockRequest(components=tuple(parts), user="u", host="h")
)


@given(components(), components())
def test_conflict_is_symmetric(left: LockComponent, right: LockComponent) -> None:
    assert left.conflicts_with(right) == right.conflicts_with(left)


@given(components(), components())
def test_components_in_different_catalogs_do_not_conflict(left: LockComponent, right: LockComponent) -> None:
    if None not in (left.catalog, right.catalog) and left.catalog != right.catalog:
        assert not left.conflicts_with(right)
    else:
        alike = [dataclasses.replace(each, catalog="hive") for each in (left, right)]
        assert left.conflicts_with(right) == alike[0].conflicts_with(alike[1])


@given(st.lists(components(), min_size=8, max_size=12), st.lists(components(), min_size=9, max_size=12))
def test_locks_with_many_components_are_compared_like_short_ones(
    mine: list[LockComponent], theirs: list[LockComponent]
) -> None:
    request = LockRequest(components=tuple(mine), user="u", host="h")
    expected = any(left.conflicts_with(right) for left in mine for right in theirs)
    assert is_blocked_by(request, tuple(theirs)) == expected


@given(st.lists(requests, max_size=8))
def test_locks_granted_in_order_never_conflict_and_all_are_granted(arrivals: list[LockRequest]) -> None:
    queue = [
        Lock(id=number, request=request, state=LockState.WAITING, requested_at_ms=0, heartbeat_at_ms=0)
        for number, request in enumerate(arrivals)
    ]
    for _ in range(len(arrivals)):
        granted = [lock for position, lock in enumerate(queue) if blocking(lock.request, queue[:position]) is None]
        assert granted
        for lock in granted:
            others = [other for other in granted if other is not lock]
            assert blocking(lock.request, others) is None
        queue.remove(granted[-1])
    assert queue == []
