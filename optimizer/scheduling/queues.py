"""Queues of tables that wait for a process, one for each group, and the policies that order them.

A table that has used its quota of the group's time in the window comes after all others. The policy orders the others;
among equals the table that has waited longest is first.

The cost of an update is proportional to the number of tables that changed. Usage decreases with time without any
change, so a queue is rebuilt a hundred times in a window; in between, only the tables that change are placed.
"""

import heapq
from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

from interbed.optimizer.flow.group import GroupPolicy, ResourceGroup
from interbed.optimizer.flow.process import TaskRef
from interbed.optimizer.flow.tables import TableState
from interbed.optimizer.scheduling.table_board import TableBoard

_MILLIS_OF_A_POINT = 60_000
"""With the policy `balanced` a table's score counts a point less for each minute of waiting: no table starves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingTable:
    """A waiting table: its quota, seconds used in the window, score, and the time of its need (epoch milliseconds)."""

    table: str
    quota: float
    used: float
    score: int
    since_millis: int
    requested: bool = False

    def is_within(self, capacity: float) -> bool:
        """Return whether the table has not used its quota of `capacity`, the group's seconds in the window."""
        return self.used < self.quota * capacity


class QueueEntry(NamedTuple):
    """Sort key of a table in its queue: the least entry is the first. The policy gives `rank`."""

    is_over_quota: bool
    is_not_requested: bool
    rank: float
    since_millis: int
    table: str

    def is_before(self, other: "QueueEntry") -> bool:
        """Return whether it precedes the other by its quota or its rank."""
        return (self.is_over_quota, self.rank) < (other.is_over_quota, other.rank)


def queue_entry(waiting: WaitingTable, policy: GroupPolicy, *, capacity: float) -> QueueEntry:
    """Return the entry of a table; `capacity` is the group's seconds in the window.

    It does not depend on the present time: the difference of the waiting times of two tables is constant.
    """
    if policy is GroupPolicy.QUOTA:
        rank = waiting.used / waiting.quota
    else:
        rank = waiting.score + waiting.since_millis / _MILLIS_OF_A_POINT
    return QueueEntry(
        is_over_quota=not waiting.is_within(capacity),
        is_not_requested=not waiting.requested,
        rank=rank,
        since_millis=waiting.since_millis,
        table=waiting.table,
    )


class Usage:
    """Seconds of workers by table; times are epoch milliseconds. Attempts that ended before the window are dropped."""

    def __init__(self) -> None:
        self._ended: dict[str, deque[tuple[int, int]]] = {}
        self._running: dict[str, dict[TaskRef, int]] = {}

    def begin(self, table: str, ref: TaskRef, now: int) -> None:
        """Record that a worker begins an attempt."""
        self._running.setdefault(table, {})[ref] = now

    def finish(self, table: str, ref: TaskRef, now: int) -> float:
        """Record the end of an attempt, and return its seconds; 0 for an unknown attempt."""
        started = self._running.get(table, {}).pop(ref, None)
        if started is None:
            return 0.0
        self.add(table, started, now)
        return (now - started) / 1000

    def add(self, table: str, started: int, ended: int) -> None:
        """Record a time that was used."""
        self._ended.setdefault(table, deque()).append((started, ended))

    def used(self, table: str, now: int, window: int) -> float:
        """Return the seconds within the last `window` milliseconds, those of running attempts included."""
        since = now - window
        ended = self._ended.get(table)
        total = 0
        if ended:
            while ended and ended[0][1] <= since:
                ended.popleft()
            total = sum(end - max(start, since) for start, end in ended if end > since)
            if not ended:
                del self._ended[table]
        total += sum(now - max(start, since) for start in self._running.get(table, {}).values())
        return total / 1000

    def forget(self, table: str) -> None:
        """Forget a table that was removed."""
        self._ended.pop(table, None)
        self._running.pop(table, None)


_MADE_IN_A_WINDOW = 100


@dataclass(slots=True, kw_only=True)
class _GroupQueue:
    """Queue of one group. Entries of the heap that are not in `entries` are stale."""

    group: ResourceGroup
    capacity: float
    made_millis: int
    entries: dict[str, QueueEntry] = field(default_factory=dict)
    heap: list[QueueEntry] = field(default_factory=list)

    def add(self, entry: QueueEntry) -> None:
        self.entries[entry.table] = entry
        heapq.heappush(self.heap, entry)

    def first(self) -> QueueEntry | None:
        while self.heap and self.entries.get(self.heap[0].table) is not self.heap[0]:
            heapq.heappop(self.heap)
        return self.heap[0] if self.heap else None


class TableQueues:
    """The queues of the tables of a board, by group."""

    def __init__(self, tables: TableBoard, usage: Usage) -> None:
        self._tables = tables
        self._usage = usage
        self._queues: dict[str, _GroupQueue] = {}
        self._place: dict[str, _GroupQueue] = {}

    def first(self, group: ResourceGroup, capacity: float, now: int) -> QueueEntry | None:
        """Return the first entry of a group's queue, None when no table waits; see `queue_entry`."""
        self._follow(now)
        queue = self._queues.get(group.name)
        if queue is None or queue.group != group or queue.capacity != capacity or self._is_old(queue, now):
            queue = self._queues[group.name] = _GroupQueue(group=group, capacity=capacity, made_millis=now)
            for table in self._tables.waiting(group.name):
                self._add(queue, table, now)
        return queue.first()

    def _follow(self, now: int) -> None:
        for name in self._tables.take_moved():
            queue = self._place.pop(name, None)
            if queue is not None:
                queue.entries.pop(name, None)
            table = self._tables.waits(name)
            target = None if table is None else self._queues.get(table.group)
            if table is not None and target is not None:
                self._add(target, table, now)

    def _add(self, queue: _GroupQueue, table: TableState, now: int) -> None:
        waiting = waiting_table(table, self._usage, queue.group, now, otherwise_since=now)
        queue.add(queue_entry(waiting, queue.group.policy, capacity=queue.capacity))
        self._place[table.name] = queue

    def _is_old(self, queue: _GroupQueue, now: int) -> bool:
        return (now - queue.made_millis) * _MADE_IN_A_WINDOW >= queue.group.window_millis


def waiting_table(
    table: TableState, usage: Usage, group: ResourceGroup, now: int, *, otherwise_since: int
) -> WaitingTable:
    """Return the table as it waits: since the first of its needs was due, or `otherwise_since` without needs."""
    return WaitingTable(
        table=table.name,
        quota=table.quota,
        used=usage.used(table.name, now, group.window_millis),
        score=100 if table.summary is None else table.summary.score,
        since_millis=min((need.due_millis for need in table.needs), default=otherwise_since),
        requested=table.requested is not None,
    )
