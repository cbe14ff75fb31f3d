"""What Spark's status store keeps of the statements that it ran."""

from typing import Any

from tests.spark_ext.conftest import Lake

_WAIT_MILLIS = 60_000


def executions_of(lake: Lake, statement: str) -> list[Any]:
    """The executions of a statement, which is run, as Spark's SQLExecutionUIData; the oldest first."""
    session: Any = lake.spark
    store = session._jsparkSession.sharedState().statusStore()
    before = _last_id(store)
    lake.sql(statement)
    session.sparkContext._jsc.sc().listenerBus().waitUntilEmpty(_WAIT_MILLIS)
    found: list[Any] = []
    # The store forgets old ones, so that neither their number nor their places tell which ones are new.
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
