"""State of a catalog's tables from the journal: their needs and running processes, the worst first.

Users' requests are checked here and added to the journal; the scheduler carries them out.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from interbed.catalog.client.api import Catalog
from interbed.catalog.client.global_tables import GlobalTableKind, ShownCatalog
from interbed.catalog.client.identifier import parse_table_name
from interbed.optimizer.flow.process import Process
from interbed.optimizer.flow.tables import IN_SHAPE_SCORE, RequestKind, TableRequest, TableState, Worker
from interbed.optimizer.journal.api import Journal, Lease
from interbed.optimizer.journal.sql import journal_to_read, journal_url
from interbed.storage.views.system.rows_table import Row, bigint, integer, text


def known_name(catalog: Catalog, name: str) -> str:
    """Return the name of an existing table in the journal.

    Raises TableNotFoundError, DatabaseNotFoundError, and NotSupportedError for a system table or a branch.
    """
    identifier = parse_table_name(name)
    catalog.get_table(identifier)
    return str(identifier)


def known_names(catalog: Catalog, names: Sequence[str]) -> list[str]:
    """Return the names of several existing tables in the journal."""
    return [known_name(catalog, name) for name in names]


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerState:
    """The present or last scheduler at the time `now_millis`; without a lease there was none."""

    lease: Lease | None
    now_millis: int

    @property
    def is_running(self) -> bool:
        """Whether a scheduler runs now."""
        return self.lease is not None and self.lease.until_millis > self.now_millis

    @property
    def text(self) -> str:
        """The state of the scheduler as a sentence."""
        if self.lease is None:
            return "no scheduler has ever run; start one by `interbed optimizer run`"
        if not self.is_running:
            return f"no scheduler runs; the last one was {self.lease.holder}; start one by `interbed optimizer run`"
        seconds = (self.lease.until_millis - self.now_millis) // 1000
        return f"{self.lease.holder} schedules; its lease ends in {seconds} s unless it renews it"

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        return {
            "holder": None if self.lease is None else self.lease.holder,
            "until_millis": None if self.lease is None else self.lease.until_millis,
            "is_running": self.is_running,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class TableStatus:
    """State of one table, and the process that runs for it."""

    state: TableState
    running: Process | None
    now_millis: int

    @property
    def doing(self) -> str:
        """The running work of the table, or the reason why there is none, in a few words."""
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
        """Reason of the next work, or why the table can't be read. When nothing is due, the reasons of its score."""
        if self.state.unreadable is not None:
            return self.state.unreadable
        if self.running is not None:
            return self.running.reason
        if self.state.next_need is not None:
            return self.state.next_need.reason
        return "" if self._is_in_shape else ", ".join(self.state.reasons)

    @property
    def _is_in_shape(self) -> bool:
        return self.state.summary is None or self.state.summary.score >= IN_SHAPE_SCORE

    def to_json(self) -> dict[str, Any]:
        """Return the state of the table and its process as JSON values."""
        running = None if self.running is None else self.running.to_json()
        return {**self.state.to_json(), "doing": self.doing, "running": running}


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizerStatus:
    """The chosen tables, the worst first, and sums over them. `workers` counts the registered workers."""

    scheduler_state: SchedulerState
    tables: Sequence[TableStatus]
    workers: int = 0
    slots: int = 0

    @property
    def running(self) -> int:
        """Number of tables with a running process."""
        return sum(line.running is not None for line in self.tables)

    @property
    def waiting(self) -> int:
        """Number of tables with due work that is not running, without disabled and paused tables."""
        return sum(
            line.running is None and bool(line.state.needs) and line.state.enabled and not line.state.paused
            for line in self.tables
        )

    @property
    def failing(self) -> int:
        """Number of tables whose last process did not succeed, or that can't be read."""
        return sum(line.state.failures > 0 or line.state.unreadable is not None for line in self.tables)

    @property
    def pending_bytes(self) -> int:
        """Bytes that full compactions of all tables would rewrite, estimated."""
        return sum(line.state.summary.pending_bytes for line in self.tables if line.state.summary is not None)

    @property
    def score(self) -> float | None:
        """The mean of the scores; None when no table was measured."""
        scores = [line.state.summary.score for line in self.tables if line.state.summary is not None]
        return sum(scores) / len(scores) if scores else None

    def to_json(self, limit: int | None = None) -> dict[str, Any]:
        """Return the status as JSON values, with at most `limit` tables."""
        return {
            "scheduler": self.scheduler_state.to_json(),
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


def scheduler_state(journal: Journal, now_millis: int) -> SchedulerState:
    """Return the present or last scheduler."""
    return SchedulerState(lease=journal.holder(), now_millis=now_millis)


def living_workers(journal: Journal, now_millis: int) -> Sequence[Worker]:
    """Return the registered workers; none without a running scheduler."""
    # The scheduler removes workers whose leases have expired; the journal does not have the renewals of leases.
    return journal.workers() if scheduler_state(journal, now_millis).is_running else ()


def optimizer_status(journal: Journal, now_millis: int, names: Sequence[str] | None = None) -> OptimizerStatus:
    """Return the status of all tables in the journal, or of those named. Raises JournalError."""
    running = {process.table: process for process in journal.running()}
    lines = [
        TableStatus(state=state, running=running.get(state.name), now_millis=now_millis)
        for state in journal.tables(names)
    ]
    alive = living_workers(journal, now_millis)
    return OptimizerStatus(
        scheduler_state=scheduler_state(journal, now_millis),
        tables=sorted(lines, key=_badness),
        workers=len(alive),
        slots=sum(worker.threads for worker in alive),
    )


def _badness(line: TableStatus) -> tuple[bool, int, str]:
    """Return the sort key of a table: those that can't be read first, then by score."""
    summary = line.state.summary
    return (line.state.unreadable is None, 100 if summary is None else summary.score, line.state.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestReceipt:
    """A request in the journal, and the scheduler that will take it."""

    request: TableRequest
    scheduler_state: SchedulerState

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        work = self.request.work
        return {
            "table": self.request.table,
            "request": self.request.kind.value,
            "work": None if work is None else work.value,
            "scheduler": self.scheduler_state.to_json(),
        }

    def __str__(self) -> str:
        what = {
            RequestKind.PAUSE: "is paused: nothing is begun for it",
            RequestKind.RESUME: "continues",
            RequestKind.NOW: f"is asked to have {self.request.work} next",
        }[self.request.kind]
        return f"{self.request.table} {what}. {_sentence(self.scheduler_state)}"


def ask(catalog: Catalog, journal: Journal, request: TableRequest, now_millis: int) -> RequestReceipt:
    """Add a request for an existing table to the journal.

    Raises TableNotFoundError, DatabaseNotFoundError, NotSupportedError for a system table or a branch, JournalError.
    """
    request = replace(request, table=known_name(catalog, request.table))
    journal.ask(request)
    return RequestReceipt(request=request, scheduler_state=scheduler_state(journal, now_millis))


def _sentence(by: SchedulerState) -> str:
    if by.is_running and by.lease is not None:
        return f"The scheduler {by.lease.holder} takes this within seconds."
    return "No scheduler runs; start one by `interbed optimizer run` for this to have an effect."


_MOST = 100_000
"""Processes that are shown at most; a scheduler deletes them after a week."""


def _rows(catalog: ShownCatalog, _: Collection[str]) -> Sequence[Row]:
    with journal_to_read(journal_url(catalog)) as journal:
        return [_row(process) for process in journal.processes(limit=_MOST)]


def _row(process: Process) -> Row:
    database, _, table = process.table.partition(".")
    before, after, figures = process.before, process.after, process.figures
    return (
        database,
        table,
        process.id,
        process.kind.value,
        process.group,
        process.reason,
        process.state.value,
        process.created_millis,
        process.ended_millis,
        process.tasks,
        process.seconds,
        figures.bytes_in,
        figures.bytes_out,
        figures.files_in,
        figures.files_out,
        before.score,
        None if after is None else after.score,
        before.read_amplification,
        None if after is None else after.read_amplification,
        process.snapshot_id,
        process.failure,
    )


OPTIMIZING_PROCESSES = GlobalTableKind(
    columns=(
        text("database_name"),
        text("table_name"),
        text("process_id"),
        text("kind"),
        text("group_name"),
        text("reason"),
        text("state"),
        bigint("created_at"),
        bigint("ended_at", nullable=True),
        integer("tasks"),
        pa.field("seconds", pa.float64(), False),
        bigint("bytes_in"),
        bigint("bytes_out"),
        bigint("files_in"),
        bigint("files_out"),
        integer("score_before"),
        integer("score_after", nullable=True),
        pa.field("read_amplification_before", pa.float64(), False),
        pa.field("read_amplification_after", pa.float64()),
        bigint("snapshot_id", nullable=True),
        text("failure", nullable=True),
    ),
    rows=_rows,
)
