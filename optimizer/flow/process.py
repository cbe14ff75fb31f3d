"""Kinds of work on a table, and processes with their tasks: one piece of work, from the decision to its result.

The kinds are those of Amoro's optimizing and the upkeep beside compaction.

    running -> committing -> succeeded
                          -> gave way      another writer had replaced the files; nothing was changed
       |            |
       +-> failed <-+    a task failed too often, or the commit did
       +-> cancelled     the table was dropped

A task is given to a worker as an attempt, with a lease. Only the result of the newest attempt is accepted. The result
of an earlier attempt is refused, and its worker deletes the files that it wrote.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from interbed.storage.base.errors import InterbedError, InvalidInputError


class WorkKind(StrEnum):
    """One kind of work on a table."""

    MINOR = "minor"
    """Merges files of level 0 and small files, as the universal strategy picks them."""
    MAJOR = "major"
    """Rewrites buckets with too many deleted rows, without these rows."""
    FULL = "full"
    """Makes one sorted run of every bucket; sorts the rows of tables with a sort order."""
    EXPIRE = "expire"
    """Deletes expired snapshots, changelogs, tags, consumers and partitions; creates automatic tags."""
    ORPHANS = "orphans"
    """Deletes files that no snapshot names."""
    MANIFESTS = "manifests"
    """Merges small manifests."""
    ANALYZE = "analyze"
    """Computes the statistics again."""
    RESCALE = "rescale"
    """Distributes the rows over the number of buckets in the table's options."""

    @property
    def is_compaction(self) -> bool:
        """Whether the scheduler commits the files of its tasks. Other work is one task, which commits by itself."""
        return self in _COMPACTIONS

    @property
    def width(self) -> int:
        """Rank of a compaction: one of a higher width includes the work of the others. -1 for other work."""
        return _COMPACTIONS.index(self) if self.is_compaction else -1

    def covers(self, other: "WorkKind") -> bool:
        """Return whether this kind includes the work of the other one: itself, and narrower compactions."""
        return other is self or (other.is_compaction and other.width < self.width)


_COMPACTIONS = (WorkKind.MINOR, WorkKind.MAJOR, WorkKind.FULL)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkNeed:
    """One kind of work that is due since `due_millis` (epoch); `reason` has the figures.

    `options` are table options for the work, on top of the table's own.
    """

    kind: WorkKind
    reason: str
    due_millis: int
    options: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the need as a JSON object."""
        return {
            "kind": self.kind.value,
            "reason": self.reason,
            "due_millis": self.due_millis,
            "options": dict(self.options),
        }

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> "WorkNeed":
        """Return the need of an object made by to_json."""
        return WorkNeed(**{**value, "kind": WorkKind(value["kind"])})


class TaskState(StrEnum):
    """State of a task."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRef:
    """One attempt of a task, by its process and its number there; attempts count from 1."""

    process: str
    number: int
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskAssignment:
    """An attempt for a worker: the table by name, and the work in bytes that `optimizer.work` encodes.

    The lease is `lease_millis` long, from the worker's last heartbeat for the attempt.
    """

    ref: TaskRef
    table: str
    kind: WorkKind
    payload: bytes
    lease_millis: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFigures:
    """Bytes and files that a task has read and written."""

    bytes_in: int = 0
    bytes_out: int = 0
    files_in: int = 0
    files_out: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return the figures as a JSON object."""
        return {
            "bytes_in": self.bytes_in,
            "bytes_out": self.bytes_out,
            "files_in": self.files_in,
            "files_out": self.files_out,
        }

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> "TaskFigures":
        """Return the figures of an object made by to_json."""
        return TaskFigures(**value)

    def __add__(self, other: "TaskFigures") -> "TaskFigures":
        return TaskFigures(
            bytes_in=self.bytes_in + other.bytes_in,
            bytes_out=self.bytes_out + other.bytes_out,
            files_in=self.files_in + other.files_in,
            files_out=self.files_out + other.files_out,
        )


NO_FIGURES = TaskFigures()


class ResultStatus(StrEnum):
    """The scheduler's answer to the result of an attempt."""

    ACCEPTED = "accepted"
    SUPERSEDED = "superseded"
    """The task was given to another worker: this worker deletes the files that it wrote."""
    UNKNOWN = "unknown"
    """The process is not known any more: the files stay."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskOutcome:
    """Result of an attempt: commit messages in bytes, or the failure."""

    result: bytes = b""
    figures: TaskFigures = NO_FIGURES
    failure: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One task. `cost` is in bytes to be read; times are epoch milliseconds. `result` stays until the process ends."""

    process: str
    number: int
    payload: bytes
    cost: int
    state: TaskState = TaskState.WAITING
    attempt: int = 0
    worker: str | None = None
    started_millis: int | None = None
    lease_until_millis: int | None = None
    result: bytes | None = None
    figures: TaskFigures = NO_FIGURES
    failure: str | None = None

    @property
    def ref(self) -> TaskRef:
        """The newest attempt of the task."""
        return TaskRef(process=self.process, number=self.number, attempt=self.attempt)


class ProcessState(StrEnum):
    """State of a process."""

    RUNNING = "running"
    COMMITTING = "committing"
    ENDING = "ending"
    SUCCEEDED = "succeeded"
    GAVE_WAY = "gave way"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def has_ended(self) -> bool:
        """Whether this state is final."""
        return self not in (ProcessState.RUNNING, ProcessState.COMMITTING, ProcessState.ENDING)


class CleanupMode(StrEnum):
    """Treatment of a process's files when it ends. Its mark is deleted first in every case."""

    SWEEP = "sweep"
    """Delete the files that were not committed: those of attempts whose results were not accepted."""
    DISCARD = "discard"
    """Delete all files: it is certain that nothing was committed."""
    LEAVE = "leave"
    """Keep all files, for the removal of orphan files: it is not known whether they were committed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSummary:
    """Figures of a table, before and after a process."""

    snapshot_id: int | None
    score: int
    read_amplification: float
    pending_bytes: int

    def to_json(self) -> dict[str, Any]:
        """Return the summary as a JSON object."""
        return {
            "snapshot_id": self.snapshot_id,
            "score": self.score,
            "read_amplification": self.read_amplification,
            "pending_bytes": self.pending_bytes,
        }

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> "TableSummary":
        """Return the summary of an object made by to_json."""
        return TableSummary(**value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """One piece of work. `id` is also the user of the commit and a part of file names. Times are epoch milliseconds.

    `seconds` is the time of its workers, `options` are table options for the work. While it is ENDING, `ending` is the
    state that comes next.
    """

    id: str
    table: str
    kind: WorkKind
    group: str
    reason: str
    state: ProcessState
    created_millis: int
    before: TableSummary
    options: Mapping[str, str] = field(default_factory=dict)
    ending: ProcessState | None = None
    cleanup: CleanupMode | None = None
    tasks: int = 0
    ended_millis: int | None = None
    seconds: float = 0.0
    figures: TaskFigures = NO_FIGURES
    snapshot_id: int | None = None
    after: TableSummary | None = None
    failure: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the process as a JSON object."""
        return {
            "id": self.id,
            "table": self.table,
            "kind": self.kind.value,
            "group": self.group,
            "reason": self.reason,
            "state": self.state.value,
            "ending": None if self.ending is None else self.ending.value,
            "cleanup": None if self.cleanup is None else self.cleanup.value,
            "created_millis": self.created_millis,
            "ended_millis": self.ended_millis,
            "tasks": self.tasks,
            "seconds": self.seconds,
            **self.figures.to_json(),
            "before": self.before.to_json(),
            "after": None if self.after is None else self.after.to_json(),
            "snapshot_id": self.snapshot_id,
            "options": dict(self.options),
            "failure": self.failure,
        }

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> "Process":
        """Return the process of an object made by to_json."""
        given = dict(value)
        after = given.pop("after")
        ending = given.pop("ending")
        cleanup = given.pop("cleanup")
        return Process(
            kind=WorkKind(given.pop("kind")),
            state=ProcessState(given.pop("state")),
            ending=None if ending is None else ProcessState(ending),
            cleanup=None if cleanup is None else CleanupMode(cleanup),
            before=TableSummary.from_json(given.pop("before")),
            after=None if after is None else TableSummary.from_json(after),
            figures=TaskFigures.from_json({name: given.pop(name) for name in NO_FIGURES.to_json()}),
            **given,
        )


class JournalError(InterbedError):
    """The journal could not be read or written; the scheduler's state in memory is not valid any more.

    It is unknown whether changes that were being stored are in the journal. Storing the same changes again is safe.
    """


class LeaseLostError(JournalError):
    """Another scheduler has taken over, or this one has released its lease; this one changes nothing any more."""


class SchedulerEndedError(JournalError):
    """The journal refused changes of this scheduler, whose state is therefore ahead of the journal.

    The caller creates another scheduler from the journal.
    """


class NotOnDutyError(InterbedError):
    """This process does not schedule: another one does, or it has not begun yet."""


class NoSchedulerError(InterbedError):
    """No address answers, or none of the processes that answer schedules. The call can be tried again."""


class UnknownWorkerError(InvalidInputError):
    """A worker is not registered, or not any more; it has to register again."""


class WorkerRefusedError(InvalidInputError):
    """The scheduler does not accept this worker; the message has the reason."""
