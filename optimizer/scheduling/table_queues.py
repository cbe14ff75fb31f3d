"""The tables of the scheduler: those to be measured, those that wait for a process, in queues, and timers of the next
checks.

Each group has a queue, and a policy that orders it. A table that has used its quota of the group's time in the window
comes after all others. The policy orders the others; among equals the table that has waited longest is first.

The cost of an update is proportional to the number of tables that changed. Usage decreases with time without any
change, so a queue is rebuilt a hundred times in a window; in between, only the tables that change are placed.
"""

import heapq
import zlib
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import NamedTuple

from interbed.optimizer.flow.process import TableSummary, TaskRef, WorkKind, WorkNeed
from interbed.optimizer.flow.tables import GroupPolicy, ResourceGroup, TableMeasurement, TableState
from interbed.optimizer.scheduling.needs import SchedulerSettings, need_asked_for, needs_of
from interbed.storage.base.backoff import doubled


class TableBoard:
    """Tables by name. `take_changed` returns the changes for the journal."""

    def __init__(self, states: Sequence[TableState], settings: SchedulerSettings) -> None:
        self._states = {state.name: state for state in states}
        self._settings = settings
        self._to_measure: dict[str, None] = {}
        self._busy: set[str] = set()
        self._waiting: dict[str, dict[str, None]] = {}
        self._group_of: dict[str, str] = {}
        self._moved: dict[str, None] = {}
        self._timers: list[tuple[int, str]] = []
        self._armed: dict[str, int] = {}
        self._changed: dict[str, None] = {}
        for state in states:
            self._place(state)

    def __contains__(self, name: str) -> bool:
        return name in self._states

    def __getitem__(self, name: str) -> TableState:
        return self._states[name]

    def __iter__(self) -> Iterator[TableState]:
        return iter(self._states.values())

    def take_changed(self) -> list[TableState]:
        """Return the states that changed since the last call."""
        changed = [self._states[name] for name in self._changed if name in self._states]
        self._changed.clear()
        return changed

    def changed(self, names: Iterable[str]) -> None:
        """Record that tables have new commits, or are new."""
        for name in names:
            if name not in self._states:
                self._put(TableState(name=name))
            self._to_measure[name] = None

    def removed(self, name: str) -> bool:
        """Forget a table, and return whether it was known. A new table of the name waits for the old one's process."""
        self._to_measure.pop(name, None)
        self._leave_queue(name)
        self._changed.pop(name, None)
        return self._states.pop(name, None) is not None

    def take_unmeasured(self, now: int) -> list[str]:
        """Return the names to measure now, those that have waited longest first, at most `measured_at_once`."""
        while self._timers and self._timers[0][0] <= now:
            at, name = heapq.heappop(self._timers)
            if self._armed.get(name) != at:
                continue
            del self._armed[name]
            state = self._states.get(name)
            if state is None:
                continue
            if state.next_check_millis is not None and state.next_check_millis <= now:
                self._to_measure[name] = None
            self._place(state, now)
        names = list(islice(self._to_measure, self._settings.measured_at_once))
        for name in names:
            del self._to_measure[name]
        return names

    def measured(self, name: str, found: TableMeasurement, now: int) -> TableState | None:
        """Record the measurement of a table; return its state, None if it was removed meanwhile."""
        self._to_measure.pop(name, None)
        state = self._states.get(name)
        if state is None:
            return None
        if state.measured_millis is None:
            state = replace(state, counted_from=self._from_first_sight(name, found, now))
        health = found.health
        decision = needs_of(state, found, self._settings, now)
        summary = TableSummary(
            snapshot_id=health.snapshot_id,
            score=health.score,
            read_amplification=health.read_amplification,
            pending_bytes=health.pending_bytes,
        )
        return self._put(
            replace(
                state,
                group=found.optimizing.group,
                quota=found.optimizing.quota,
                enabled=found.optimizing.enabled,
                summary=summary,
                measured_millis=now,
                reasons=tuple(reason.text for reason in health.reasons),
                needs=decision.needs,
                next_check_millis=decision.next_check_millis,
                unreadable=None,
            ),
            now,
        )

    def _from_first_sight(self, name: str, found: TableMeasurement, now: int) -> dict[WorkKind, int]:
        """Return the beginnings of the intervals of a table that is seen first now, spread over one interval before.

        Otherwise the intervals of all tables that are found at the same time would end at the same time.
        """
        intervals = {
            WorkKind.MINOR: found.optimizing.minor_interval_millis,
            WorkKind.ORPHANS: self._settings.orphans_interval,
        }
        return {
            kind: now - zlib.crc32(f"{kind.value} {name}".encode()) % max(interval, 1)
            for kind, interval in intervals.items()
            if interval is not None
        }

    def unreadable(self, name: str, why: str, now: int) -> None:
        """Record that a table could not be measured; it is measured again after a pause."""
        state = self._states.get(name)
        if state is not None:
            again = now + self._settings.pause_first
            self._put(replace(state, unreadable=why, needs=(), next_check_millis=again), now)

    def waiting(self, group: str) -> Iterator[TableState]:
        """Yield the tables of a group that wait for a process; all were measured."""
        return (self._states[name] for name in self._waiting.get(group, ()))

    def waits(self, name: str) -> TableState | None:
        """Return the table if it waits for a process."""
        return self._states[name] if name in self._group_of else None

    def take_moved(self) -> list[str]:
        """Return the tables that were added to a queue, removed from one or changed in one since the last call."""
        moved = list(self._moved)
        self._moved.clear()
        return moved

    def begin(self, name: str, now: int) -> WorkNeed:
        """Begin a process for a table and return its need. The table does not wait until the process has ended."""
        state = self._states[name]
        need = state.needs[0] if state.requested is None else need_asked_for(state.needs, state.requested, now)
        self._busy.add(name)
        self._put(replace(state, requested=None), now)
        return need

    def busy(self, name: str) -> None:
        """Record that a process of an earlier scheduler continues for a table."""
        self._busy.add(name)
        self._leave_queue(name)

    def cancelled(self, name: str, now: int) -> None:
        """Record that the process of a table was cancelled."""
        self._busy.discard(name)
        state = self._states.get(name)
        if state is not None:
            self._place(state, now)
            self._to_measure[name] = None

    def succeeded(self, name: str, kind: WorkKind, settled_at: int | None, now: int) -> None:
        """Record that work was done; while `settled_at` is the newest snapshot, the kind has nothing to do."""
        self._busy.discard(name)
        state = self._states.get(name)
        if state is None:
            return
        settled = dict(state.settled) if settled_at is None else {**state.settled, kind: settled_at}
        kinds = [each for each in WorkKind if kind.covers(each)]
        needs = tuple(need for need in state.needs if need.kind not in kinds)
        last = {**state.last, **dict.fromkeys(kinds, now)}
        self._put(replace(state, last=last, settled=settled, needs=needs, failures=0, not_before_millis=0), now)
        self._to_measure[name] = None

    def failed(self, name: str, now: int, *, gave_way: bool) -> None:
        """Record that work failed, or gave way to a writer; the table waits for a back-off."""
        self._busy.discard(name)
        state = self._states.get(name)
        if state is None:
            return
        failures = state.failures + 1
        first = self._settings.pause_gave_way if gave_way else self._settings.pause_first
        pause = doubled(first, failures - 1, self._settings.pause_most)
        self._put(replace(state, failures=failures, not_before_millis=now + pause), now)
        self._to_measure[name] = None

    def ask(self, name: str, *, paused: bool | None = None, work: WorkKind | None = None, now: int) -> None:
        """Record a user's request, also for a table that is not known yet."""
        state = self._states.get(name) or TableState(name=name)
        if paused is not None:
            # A pause cancels earlier requests; requests during the pause are carried out.
            state = replace(state, paused=paused, requested=None if paused else state.requested)
        if work is not None:
            state = replace(state, requested=work, not_before_millis=0)
        self._put(state, now)
        self._to_measure[name] = None

    def _put(self, state: TableState, now: int | None = None) -> TableState:
        self._states[state.name] = state
        self._changed[state.name] = None
        self._place(state, now)
        return state

    def _place(self, state: TableState, now: int | None = None) -> None:
        """Add a table to its queue or remove it, and set its timers."""
        self._leave_queue(state.name)
        # A check in the past has had its effect: the table will be measured, which gives the next one.
        if state.next_check_millis is not None and (now is None or state.next_check_millis > now):
            self._arm(state.name, state.next_check_millis)
        wants = state.requested is not None or (state.enabled and not state.paused and state.needs)
        is_known = state.summary is not None and state.unreadable is None
        if not wants or not is_known or state.name in self._busy:
            return
        if now is None or state.not_before_millis > now:
            self._arm(state.name, state.not_before_millis)
            return
        self._waiting.setdefault(state.group, {})[state.name] = None
        self._group_of[state.name] = state.group
        self._moved[state.name] = None

    def _arm(self, name: str, at: int) -> None:
        """Place the table again at that time. An earlier timer sets the later one, so that timers do not accumulate."""
        if name not in self._armed or at < self._armed[name]:
            self._armed[name] = at
            heapq.heappush(self._timers, (at, name))

    def _leave_queue(self, name: str) -> None:
        group = self._group_of.pop(name, None)
        if group is not None:
            del self._waiting[group][name]
            self._moved[name] = None


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
