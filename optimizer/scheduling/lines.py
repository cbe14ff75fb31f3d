"""The lines in which tables wait for a process, one for each group; it costs what has changed, not what waits.

What a table has used of its share falls with time by itself, so that a line is made anew a hundred times in a window;
in between, only the tables that move are placed.
"""

import heapq
from dataclasses import dataclass, field

from interbed.optimizer.flow.group import ResourceGroup
from interbed.optimizer.flow.table_state import TableState
from interbed.optimizer.scheduling.table_board import TableBoard
from interbed.optimizer.scheduling.turns import Turn, Waiting, turn_of
from interbed.optimizer.scheduling.usage import Usage

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


class Lines:
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
