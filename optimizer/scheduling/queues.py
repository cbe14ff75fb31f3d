"""Queues of tables that wait for a process, one for each group, and the policies that order them.

A table that has used its share of the group's time in the window waits for all that have not. Among the others the
policy decides, and the table that has waited longest is first among equals.

An update costs in proportion to the tables that changed. Usage falls with time without any change, so a queue is
rebuilt a hundred times in a window; in between, only the tables that move are placed.
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
"""Under the policy `balanced` a table's score counts a point less for each minute that it has waited, so that the worst
do not keep all others from their turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A table that waits: its quota, seconds used in the window, score, and since when (epoch milliseconds)."""

    table: str
    quota: float
    used: float
    score: int
    since_millis: int
    requested: bool = False

    def is_within(self, capacity: float) -> bool:
        """Whether the table may take more, of so many seconds that the group has in the window."""
        return self.used < self.quota * capacity


class Turn(NamedTuple):
    """Where a table stands in the line: the least turn is the first. `rank` is the policy's."""

    is_over_its_share: bool
    is_not_requested: bool
    rank: float
    since_millis: int
    table: str

    def is_before(self, other: "Turn") -> bool:
        """Whether it is before the other by its share or its rank."""
        return (self.is_over_its_share, self.rank) < (other.is_over_its_share, other.rank)


def turn_of(waiting: Waiting, policy: GroupPolicy, *, capacity: float) -> Turn:
    """The turn of a table; `capacity` is the group's seconds in the window.

    It does not depend on the time: who has waited longer by a minute has done so for ever.
    """
    if policy is GroupPolicy.QUOTA:
        rank = waiting.used / waiting.quota
    else:
        rank = waiting.score + waiting.since_millis / _MILLIS_OF_A_POINT
    return Turn(
        is_over_its_share=not waiting.is_within(capacity),
        is_not_requested=not waiting.requested,
        rank=rank,
        since_millis=waiting.since_millis,
        table=waiting.table,
    )


class Usage:
    """Seconds of workers by table; times are epoch milliseconds. What ended before the window is forgotten."""

    def __init__(self) -> None:
        self._ended: dict[str, deque[tuple[int, int]]] = {}
        self._running: dict[str, dict[TaskRef, int]] = {}

    def begin(self, table: str, ref: TaskRef, now: int) -> None:
        """A worker begins with an attempt."""
        self._running.setdefault(table, {})[ref] = now

    def finish(self, table: str, ref: TaskRef, now: int) -> float:
        """A worker is done with an attempt, or lost it; the seconds that it took, 0 for one that is not known."""
        started = self._running.get(table, {}).pop(ref, None)
        if started is None:
            return 0.0
        self.add(table, started, now)
        return (now - started) / 1000

    def add(self, table: str, started: int, ended: int) -> None:
        """Time that was used."""
        self._ended.setdefault(table, deque()).append((started, ended))

    def used(self, table: str, now: int, window: int) -> float:
        """Seconds within the last `window` milliseconds, what still runs included."""
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
        """Forget a table that is gone."""
        self._ended.pop(table, None)
        self._running.pop(table, None)


_MADE_IN_A_WINDOW = 100


@dataclass(slots=True, kw_only=True)
class _Line:
    """Tables with their turns; of the heap those count that are turns of a table now."""

    group: ResourceGroup
    capacity: float
    made_millis: int
    turns: dict[str, Turn] = field(default_factory=dict)
    heap: list[Turn] = field(default_factory=list)

    def add(self, turn: Turn) -> None:
        self.turns[turn.table] = turn
        heapq.heappush(self.heap, turn)

    def first(self) -> Turn | None:
        while self.heap and self.turns.get(self.heap[0].table) is not self.heap[0]:
            heapq.heappop(self.heap)
        return self.heap[0] if self.heap else None


class Queues:
    """The lines of the tables of a board."""

    def __init__(self, tables: TableBoard, usage: Usage) -> None:
        self._tables = tables
        self._usage = usage
        self._lines: dict[str, _Line] = {}
        self._place: dict[str, _Line] = {}

    def first(self, group: ResourceGroup, capacity: float, now: int) -> Turn | None:
        """The turn of the table of a group that is next, None when none waits; see `turn_of`."""
        self._follow(now)
        line = self._lines.get(group.name)
        if line is None or line.group != group or line.capacity != capacity or self._is_old(line, now):
            line = self._lines[group.name] = _Line(group=group, capacity=capacity, made_millis=now)
            for table in self._tables.waiting(group.name):
                self._add(line, table, now)
        return line.first()

    def _follow(self, now: int) -> None:
        for name in self._tables.take_moved():
            line = self._place.pop(name, None)
            if line is not None:
                line.turns.pop(name, None)
            table = self._tables.waits(name)
            there = None if table is None else self._lines.get(table.group)
            if table is not None and there is not None:
                self._add(there, table, now)

    def _add(self, line: _Line, table: TableState, now: int) -> None:
        waiting = waiting_table(table, self._usage, line.group, now, otherwise_since=now)
        line.add(turn_of(waiting, line.group.policy, capacity=line.capacity))
        self._place[table.name] = line

    def _is_old(self, line: _Line, now: int) -> bool:
        return (now - line.made_millis) * _MADE_IN_A_WINDOW >= line.group.window_millis


def waiting_table(table: TableState, usage: Usage, group: ResourceGroup, now: int, *, otherwise_since: int) -> Waiting:
    """A table as it waits: since the first of its needs was due, or `otherwise_since` when it has none."""
    return Waiting(
        table=table.name,
        quota=table.quota,
        used=usage.used(table.name, now, group.window_millis),
        score=100 if table.standing is None else table.standing.score,
        since_millis=min((need.due_millis for need in table.needs), default=otherwise_since),
        requested=table.requested is not None,
    )
