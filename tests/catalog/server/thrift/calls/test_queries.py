"""Scheduled queries and runtime statistics over the wire, on SQLite and PostgreSQL."""

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from interbed.catalog.server.database.session import SqlRepository
from interbed.catalog.server.service.hiveserver2 import (
    AGE_SECONDS_MAX,
    EXECUTION_AGE_SECONDS_MAX,
    TIMEOUT_SECONDS,
    RuntimeStatisticsService,
    ScheduledQueryService,
)
from interbed.thrift_idl.hive_metastore import ttypes
from tests.support.servers.metastore import MetastoreUnderTest, plain_client
from tests.support.waits import at_most

Type = ttypes.ScheduledQueryMaintenanceRequestType
State = ttypes.QueryState
EVERY_SECOND = "* * * * * ? *"
NEVER = "0 0 0 1 1 ? 2020"


def query(namespace: str, name: str, schedule: str | None = EVERY_SECOND, **fields: Any) -> Any:
    """Return a scheduled query; one that is due has 1 as its next execution."""
    key = ttypes.ScheduledQueryKey(name, namespace)
    return ttypes.ScheduledQuery(
        scheduleKey=key, **{"enabled": True, "schedule": schedule, "user": "u", "query": "select 1", **fields}
    )


def maintain(wire: Any, kind: int, scheduled: Any) -> None:
    """Send a maintenance request."""
    wire.scheduled_query_maintenance(ttypes.ScheduledQueryMaintenanceRequest(kind, scheduled))


def make_due(wire: Any, namespace: str, name: str) -> None:
    """Create a query that is due now, and then not for a year."""
    maintain(wire, Type.CREATE, query(namespace, name, "0 0 0 1 1 ?"))
    maintain(wire, Type.ALTER, query(namespace, name, "0 0 0 1 1 ?", nextExecution=1))


def poll(wire: Any, namespace: str) -> Any:
    """Request a query that is due."""
    return wire.scheduled_query_poll(ttypes.ScheduledQueryPollRequest(namespace))


def progress(wire: Any, execution: int, state: int, error: str | None = None) -> None:
    """Report the progress of an execution."""
    wire.scheduled_query_progress(ttypes.ScheduledQueryProgressInfo(execution, state, "q-1", error))


def service(metastore: MetastoreUnderTest, clock: Callable[[], float]) -> tuple[SqlRepository, ScheduledQueryService]:
    """Open a service with the same rules on the same database with another clock; close its repository afterwards."""
    store = SqlRepository(metastore.db)
    return store, ScheduledQueryService(store, clock=clock)


def test_a_query_is_stored_with_the_time_of_its_next_run(wire: Any, database: str) -> None:
    before = int(time.time())
    maintain(wire, Type.CREATE, query(database, "q"))
    found = wire.get_scheduled_query(ttypes.ScheduledQueryKey("q", database))
    assert before < found.nextExecution <= int(time.time()) + 1
    assert found == query(database, "q", nextExecution=found.nextExecution)
    changed = query(database, "q", "0 0 0 1 1 ?", enabled=False, user="v", query="select 2")
    maintain(wire, Type.ALTER, changed)
    found = wire.get_scheduled_query(ttypes.ScheduledQueryKey("q", database))
    changed.nextExecution = found.nextExecution
    assert found == changed
    for schedule in (NEVER, "0 0 0 1 1 ? 2090"):
        # The interface cannot express a time after 2038.
        maintain(wire, Type.ALTER, query(database, "q", schedule))
        assert wire.get_scheduled_query(ttypes.ScheduledQueryKey("q", database)).nextExecution is None
    maintain(wire, Type.DROP, query(database, "q"))
    with pytest.raises(ttypes.NoSuchObjectException, match=rf"{database}\.q doesn't exist"):
        wire.get_scheduled_query(ttypes.ScheduledQueryKey("q", database))


def test_invalid_queries_are_refused(wire: Any, database: str) -> None:
    for schedule in ("asd asd", "", None):
        with pytest.raises(ttypes.InvalidInputException, match="Invalid QUARTZ schedule expression"):
            maintain(wire, Type.CREATE, query(database, "q", schedule))
    for bad in (query("", "q"), query(database, ""), query(database, "x" * 257), query("x" * 257, "q")):
        with pytest.raises(ttypes.InvalidInputException, match="name"):
            maintain(wire, Type.CREATE, bad)
    for kind in (Type.ALTER, Type.DROP):
        with pytest.raises(ttypes.NoSuchObjectException, match="doesn't exist"):
            maintain(wire, kind, query(database, "q"))
    maintain(wire, Type.CREATE, query(database, "q", NEVER))
    with pytest.raises(ttypes.AlreadyExistsException, match="already exists"):
        maintain(wire, Type.CREATE, query(database, "q"))
    with pytest.raises(ttypes.InvalidInputException):
        maintain(wire, Type.ALTER, query(database, "q", "x", nextExecution=1))
    with pytest.raises(ttypes.MetaException, match="invalid request"):
        maintain(wire, 9, query(database, "q"))


def test_a_due_query_is_assigned_once_until_its_execution_has_ended(wire: Any, database: str) -> None:
    make_due(wire, database, "q")
    handed = poll(wire, database)
    assert (handed.scheduleKey.scheduleName, handed.scheduleKey.clusterNamespace) == ("q", database)
    assert (handed.query, handed.user) == ("/* schedule: q */select 1", "u")
    assert wire.get_scheduled_query(handed.scheduleKey).nextExecution > time.time()
    maintain(wire, Type.ALTER, query(database, "q", nextExecution=1))
    assert poll(wire, database).query is None, "it runs"
    for state in (State.EXECUTING, State.EXECUTING, State.FINISHED):
        assert poll(wire, database).executionId is None
        progress(wire, handed.executionId, state)
    again = poll(wire, database)
    assert again.executionId > handed.executionId
    progress(wire, again.executionId, State.FAILED, "x" * 10_000)
    for state in (State.EXECUTING, State.FINISHED):
        with pytest.raises(ttypes.InvalidOperationException, match="Invalid state change: FAILED=>"):
            progress(wire, again.executionId, state)


def test_due_queries_of_the_namespace_are_assigned_oldest_first_if_enabled(wire: Any, database: str) -> None:
    for name, due in (("late", 20), ("early", 10), ("off", 1)):
        maintain(wire, Type.CREATE, query(database, name, NEVER))
        maintain(wire, Type.ALTER, query(database, name, NEVER, nextExecution=due, enabled=name != "off"))
    maintain(wire, Type.CREATE, query(database, "future", "0 0 0 1 1 ? 2090"))
    assert poll(wire, database + "x").query is None
    names = [poll(wire, database).scheduleKey.scheduleName for _ in range(2)]
    assert names == ["early", "late"]
    assert poll(wire, database).scheduleKey is None


def test_concurrent_polls_get_each_execution_once(wire: Any, database: str, metastore: MetastoreUnderTest) -> None:
    for name in ("a", "b", "c"):
        make_due(wire, database, name)
    found: list[str] = []
    barrier = threading.Barrier(6)

    def ask() -> None:
        with plain_client(metastore.port) as client:
            barrier.wait(timeout=at_most(60))
            for _ in range(4):
                handed = poll(client, database)
                if handed.query is not None:
                    found.append(handed.scheduleKey.scheduleName)

    threads = [threading.Thread(target=ask) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=at_most(60))
    assert sorted(found) == ["a", "b", "c"]


def test_a_dropped_query_deletes_its_executions(wire: Any, database: str) -> None:
    make_due(wire, database, "q")
    handed = poll(wire, database)
    maintain(wire, Type.DROP, query(database, "q"))
    with pytest.raises(ttypes.InvalidOperationException, match=f"there is no execution {handed.executionId}"):
        progress(wire, handed.executionId, State.FINISHED)
    with pytest.raises(ttypes.InvalidOperationException, match="invalid state: 77"):
        progress(wire, handed.executionId, 77)


def test_an_execution_without_progress_times_out_and_its_query_runs_again(
    wire: Any, database: str, metastore: MetastoreUnderTest
) -> None:
    make_due(wire, database, "q")
    handed = poll(wire, database)
    now = time.time()
    store, early = service(metastore, lambda: now + TIMEOUT_SECONDS - 30)
    try:
        early.expire()
        progress(wire, handed.executionId, State.EXECUTING)
        ScheduledQueryService(store, clock=lambda: now + TIMEOUT_SECONDS + 30).expire()
    finally:
        store.close()
    with pytest.raises(ttypes.InvalidOperationException, match="Invalid state change: TIMED_OUT=>FINISHED"):
        progress(wire, handed.executionId, State.FINISHED)
    maintain(wire, Type.ALTER, query(database, "q", nextExecution=1))
    assert poll(wire, database).executionId > handed.executionId


def test_old_executions_are_deleted_after_they_have_ended(
    wire: Any, database: str, metastore: MetastoreUnderTest
) -> None:
    make_due(wire, database, "q")
    handed = poll(wire, database)
    progress(wire, handed.executionId, State.FINISHED)
    now = time.time()
    store, late = service(metastore, lambda: now + EXECUTION_AGE_SECONDS_MAX + 60)
    try:
        assert late.expire()[1] >= 1
    finally:
        store.close()
    with pytest.raises(ttypes.InvalidOperationException, match="there is no execution"):
        progress(wire, handed.executionId, State.FINISHED)


def test_runtime_statistics_are_returned_newest_first_within_a_weight(wire: Any, metastore: MetastoreUnderTest) -> None:
    before = int(time.time())
    for weight in (1, 2, 3):
        wire.add_runtime_stats(ttypes.RuntimeStat(createTime=5, weight=weight, payload=bytes([weight])))

    def found(weight_max: int, created_before: int = -1) -> list[tuple[int, bytes]]:
        stats = wire.get_runtime_stats(ttypes.GetRuntimeStatsRequest(weight_max, created_before))
        assert all(each.createTime >= before for each in stats)
        return [(each.weight, each.payload) for each in stats]

    assert found(-1) == [(3, b"\x03"), (2, b"\x02"), (1, b"\x01")]
    assert found(4) == [(3, b"\x03"), (2, b"\x02")]
    assert found(0) == []
    assert found(-1, before) == []
    store = SqlRepository(metastore.db)
    try:
        assert RuntimeStatisticsService(store, clock=lambda: before + AGE_SECONDS_MAX - 1).expire() == 0
        assert RuntimeStatisticsService(store, clock=lambda: before + AGE_SECONDS_MAX + 3600).expire() == 3
    finally:
        store.close()
    assert found(-1) == []
