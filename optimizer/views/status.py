"""State of a catalog's tables from the journal: what they need, what runs for them, the worst first.

Users' requests are checked here and left in the journal, and the scheduler carries them out.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from interbed.catalog.client.api import Catalog
from interbed.catalog.client.identifier import parse_table_name
from interbed.optimizer.flow.group import Worker
from interbed.optimizer.flow.process import Process
from interbed.optimizer.flow.tables import IN_SHAPE_SCORE, RequestKind, TableRequest, TableState
from interbed.optimizer.journal.api import Journal, Lease


def known_name(catalog: Catalog, name: str) -> str:
    """The name that the journal has for a table. Raises TableNotFoundError and DatabaseNotFoundError, and
    NotSupportedError for a system table or a branch.
    """
    identifier = parse_table_name(name)
    catalog.get_table(identifier)
    return str(identifier)


def known_names(catalog: Catalog, names: Sequence[str]) -> list[str]:
    """The same of several."""
    return [known_name(catalog, name) for name in names]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledBy:
    """Who schedules, or did last, at the time `now_millis`; no lease when nobody ever has."""

    lease: Lease | None
    now_millis: int

    @property
    def is_running(self) -> bool:
        """Whether somebody schedules now."""
        return self.lease is not None and self.lease.until_millis > self.now_millis

    @property
    def text(self) -> str:
        """In a sentence."""
        if self.lease is None:
            return "nobody has ever scheduled; `interbed optimizer run` does"
        if not self.is_running:
            return f"nobody schedules; {self.lease.holder} did last; `interbed optimizer run` goes on"
        seconds = (self.lease.until_millis - self.now_millis) // 1000
        return f"{self.lease.holder} schedules, for {seconds} s more unless it renews that"

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "holder": None if self.lease is None else self.lease.holder,
            "until_millis": None if self.lease is None else self.lease.until_millis,
            "is_running": self.is_running,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class TableLine:
    """One table, and the process that runs for it."""

    state: TableState
    running: Process | None
    now_millis: int

    @property
    def doing(self) -> str:
        """In a few words, what is done for the table or keeps it from that."""
        state = self.state
        if self.running is not None:
            return f"{self.running.state.value} {self.running.kind.value}"
        if state.unreadable is not None:
            return "unreadable"
        if state.requested is not None:
            return f"asked for {state.requested.value}"
        if not state.enabled:
            return "disabled"
        if state.paused:
            return "paused"
        if state.failures and state.not_before_millis > self.now_millis:
            return f"failed, again in {(state.not_before_millis - self.now_millis) // 1000} s"
        if state.measured_millis is None:
            return "not measured yet"
        if state.needs:
            return "waits for its turn"
        return "in shape" if self._is_in_shape else "nothing is due"

    @property
    def needs(self) -> str:
        """The kinds of work that are due, the next one first."""
        return ", ".join(need.kind.value for need in self.state.needs)

    @property
    def reason(self) -> str:
        """Why the next one is due, or why the table can't be read; what lowers its score where nothing is due."""
        if self.state.unreadable is not None:
            return self.state.unreadable
        if self.running is not None:
            return self.running.reason
        if self.state.next_need is not None:
            return self.state.next_need.reason
        return "" if self._is_in_shape else ", ".join(self.state.reasons)

    @property
    def _is_in_shape(self) -> bool:
        return self.state.standing is None or self.state.standing.score >= IN_SHAPE_SCORE

    def to_json(self) -> dict[str, Any]:
        """As JSON values: the state of the table, and its process."""
        running = None if self.running is None else self.running.to_json()
        return {**self.state.to_json(), "doing": self.doing, "running": running}


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizerStatus:
    """The tables that were asked for, the worst first, and sums over them. `workers` are those that are alive."""

    scheduled_by: ScheduledBy
    tables: Sequence[TableLine]
    workers: int = 0
    slots: int = 0

    @property
    def running(self) -> int:
        """Tables that something runs for."""
        return sum(line.running is not None for line in self.tables)

    @property
    def waiting(self) -> int:
        """Tables that need something and may have it, for which nothing runs."""
        return sum(
            line.running is None and bool(line.state.needs) and line.state.enabled and not line.state.paused
            for line in self.tables
        )

    @property
    def failing(self) -> int:
        """Tables whose last process did not succeed, or that can't be read."""
        return sum(line.state.failures > 0 or line.state.unreadable is not None for line in self.tables)

    @property
    def pending_bytes(self) -> int:
        """Bytes that full compactions of all would write anew, about."""
        return sum(line.state.standing.pending_bytes for line in self.tables if line.state.standing is not None)

    @property
    def score(self) -> float | None:
        """The mean of the scores; None when no table was measured."""
        scores = [line.state.standing.score for line in self.tables if line.state.standing is not None]
        return sum(scores) / len(scores) if scores else None

    def to_json(self, limit: int | None = None) -> dict[str, Any]:
        """As JSON values, with so many tables at the most."""
        return {
            "scheduler": self.scheduled_by.to_json(),
            "workers": self.workers,
            "slots": self.slots,
            "table_count": len(self.tables),
            "running": self.running,
            "waiting": self.waiting,
            "failing": self.failing,
            "pending_bytes": self.pending_bytes,
            "score": None if self.score is None else round(self.score, 1),
            "tables": [line.to_json() for line in self.tables[:limit]],
        }


def scheduled_by(journal: Journal, now_millis: int) -> ScheduledBy:
    """Who schedules."""
    return ScheduledBy(lease=journal.holder(), now_millis=now_millis)


def living_workers(journal: Journal, now_millis: int) -> Sequence[Worker]:
    """The workers that the scheduler has; none where nobody schedules."""
    # It takes out those that say nothing any more, and keeps to itself how long their leases are.
    return journal.workers() if scheduled_by(journal, now_millis).is_running else ()


def optimizer_status(journal: Journal, now_millis: int, names: Sequence[str] | None = None) -> OptimizerStatus:
    """The status of all tables that the journal knows, or of those named. Raises JournalError."""
    running = {process.table: process for process in journal.running()}
    lines = [
        TableLine(state=state, running=running.get(state.name), now_millis=now_millis)
        for state in journal.tables(names)
    ]
    alive = living_workers(journal, now_millis)
    return OptimizerStatus(
        scheduled_by=scheduled_by(journal, now_millis),
        tables=sorted(lines, key=_badness),
        workers=len(alive),
        slots=sum(worker.threads for worker in alive),
    )


def _badness(line: TableLine) -> tuple[bool, int, str]:
    """What sorts the worst first: what can't be read, then by score."""
    standing = line.state.standing
    return (line.state.unreadable is None, 100 if standing is None else standing.score, line.state.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request that was left, and who takes it."""

    request: TableRequest
    scheduled_by: ScheduledBy

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        work = self.request.work
        return {
            "table": self.request.table,
            "request": self.request.kind.value,
            "work": None if work is None else work.value,
            "scheduler": self.scheduled_by.to_json(),
        }

    def __str__(self) -> str:
        what = {
            RequestKind.PAUSE: "is paused: nothing is begun for it",
            RequestKind.RESUME: "goes on",
            RequestKind.NOW: f"is asked to have {self.request.work} next",
        }[self.request.kind]
        return f"{self.request.table} {what}. {_sentence(self.scheduled_by)}"


def ask(catalog: Catalog, journal: Journal, request: TableRequest, now_millis: int) -> Asked:
    """Leave a request for a table that exists. Raises TableNotFoundError, DatabaseNotFoundError, NotSupportedError for
    a system table or a branch, JournalError.
    """
    request = replace(request, table=known_name(catalog, request.table))
    journal.ask(request)
    return Asked(request=request, scheduled_by=scheduled_by(journal, now_millis))


def _sentence(by: ScheduledBy) -> str:
    if by.is_running and by.lease is not None:
        return f"The scheduler {by.lease.holder} takes this within seconds."
    return "No scheduler runs: one has to, for this to have an effect (`interbed optimizer run`)."
