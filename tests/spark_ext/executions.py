"""Executions of statements in Spark's status store."""

from typing import Any

from tests.spark_ext.conftest import SparkLake

_WAIT_MILLIS = 60_000


def executions_of(lake: SparkLake, statement: str) -> list[Any]:
    """Run a statement and return its executions, as Spark's SQLExecutionUIData, the oldest first."""
    session: Any = lake.spark
    store = session._jsparkSession.sharedState().statusStore()
    before = _last_id(store)
    lake.sql(statement)
    session.sparkContext._jsc.sc().listenerBus().waitUntilEmpty(_WAIT_MILLIS)
    found: list[Any] = []
    # The store evicts old executions, so the new ones are identified by their ids, and not by number or index.
    kept = store.executionsList()
    for place in reversed(range(kept.size())):
        execution = kept.apply(place)
        if execution.executionId() <= before:
            break
        found.insert(0, execution)
    return found


def _last_id(store: Any) -> int:
    kept = store.executionsList()
    return int(kept.apply(kept.size() - 1).executionId()) if kept.size() else -1
