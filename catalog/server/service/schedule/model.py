"""Scheduled queries, their executions, and statistics of runs, as values; what a store has to do with them.

Times are seconds since the epoch. Hive's HiveServer2 asks for queries that are due, runs them, and says how it goes:
the metastore keeps the schedule and sees to it that a query runs once at a time.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol


class QueryState(IntEnum):
    """How an execution goes; the numbers are Hive's."""

    INITED = 0
    EXECUTING = 1
    FAILED = 2
    FINISHED = 3
    TIMED_OUT = 4
    AUTO_DISABLED = 5


ENDED = frozenset({QueryState.FAILED, QueryState.FINISHED, QueryState.TIMED_OUT})


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledQuery:
    """A query with its schedule; its name is unique in a namespace, which is that of a cluster of HiveServer2."""

    namespace: str
    name: str
    enabled: bool = False
    schedule: str | None = None
    user: str | None = None
    query: str | None = None
    next_execution: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledExecution:
    """One run of a scheduled query. `updated` is when its executor last said something; None once it has ended."""

    id: int
    query_id: int
    state: QueryState
    started: int
    updated: int | None
    ended: int | None = None
    executor_query_id: str | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeStatistics:
    """What Hive learned from a run: bytes that only it understands, and how many operators they tell of."""

    create_time: int
    weight: int
    payload: bytes


class Queries(Protocol):
    """Scheduled queries by namespace and name, and their executions, which go with them."""

    def find(self, namespace: str, name: str, *, for_update: bool = False) -> tuple[int, ScheduledQuery] | None:
        """The query with the id of its row."""
        ...

    def add(self, query: ScheduledQuery) -> bool:
        """Store a new query; False if the name is taken."""
        ...

    def replace(self, query_id: int, query: ScheduledQuery) -> None: ...
    def remove(self, query_id: int) -> None: ...
    def due(self, namespace: str, now: int) -> tuple[int, ScheduledQuery] | None:
        """The enabled query of the namespace that has waited longest and does not run, held for this transaction;
        one that another transaction holds is passed over.
        """
        ...

    def start(self, query_id: int, next_execution: int | None, now: int) -> int:
        """Store that the query runs from now on and when it runs next; the id of the execution."""
        ...

    def execution(self, execution_id: int) -> ScheduledExecution | None:
        """An execution, held for this transaction."""
        ...

    def store_execution(self, execution: ScheduledExecution) -> None:
        """Store the execution anew; if it has ended, its query may run again."""
        ...

    def silent(self, updated_before: int) -> list[int]:
        """The ids of executions that run and were last heard of before a time."""
        ...

    def expire_executions(self, started_before: int) -> int:
        """Remove the executions that have ended and began before a time; their number."""
        ...


class RunStatistics(Protocol):
    """Statistics of runs."""

    def add(self, statistics: RuntimeStatistics) -> None: ...
    def newest(self, created_before: int | None) -> list[RuntimeStatistics]:
        """Those created before a time (all if None), newest first."""
        ...

    def expire(self, created_before: int) -> int:
        """Remove those created before a time; their number."""
        ...
