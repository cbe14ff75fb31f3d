"""Kinds of work on a table, and processes with their tasks: one piece of work, from the decision to its result.

The kinds are those of Amoro's optimizing and the upkeep beside compaction.

    running -> committing -> succeeded
                          -> gave way      another writer had replaced the files; nothing was changed
       |            |
       +-> failed <-+    a task failed too often, or the commit did
       +-> cancelled     the table was dropped

A task is given to a worker as an attempt, with a lease. Only the newest attempt may bring a result. The result of an
earlier attempt is refused, and its worker deletes the files that it wrote.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class WorkKind(StrEnum):
    """One kind of work on a table."""

    MINOR = "minor"
    """Level 0 and small files are merged, as the universal strategy picks them."""
    MAJOR = "major"
    """Buckets with too many deleted rows are written anew without them."""
    FULL = "full"
    """Every bucket becomes one sorted run; rows are sorted where a table asks for it."""
    EXPIRE = "expire"
    """Snapshots, changelogs, tags, consumers and partitions that are due go, and automatic tags are made."""
    ORPHANS = "orphans"
    """Files that no snapshot knows go."""
    MANIFESTS = "manifests"
    """Small manifests become large ones."""
    ANALYZE = "analyze"
    """Statistics are counted anew."""
    RESCALE = "rescale"
    """Rows are spread over the number of buckets that the table's options ask for."""

    @property
    def is_compaction(self) -> bool:
        """Whether it is cut into tasks whose files the scheduler commits; all else is one task that commits itself."""
        return self in _COMPACTIONS

    @property
    def width(self) -> int:
        """How much a compaction does: one of more width does what one of less would have done. -1 for all else."""
        return _COMPACTIONS.index(self) if self.is_compaction else -1

    def covers(self, other: "WorkKind") -> bool:
        """Whether whoever did this kind need not do the other one: itself, and narrower compactions."""
        return other is self or (other.is_compaction and other.width < self.width)


_COMPACTIONS = (WorkKind.MINOR, WorkKind.MAJOR, WorkKind.FULL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """One kind of work that is due; `reason` says in figures why, `due_millis` since when (epoch).

    `options` are table options for the work on top of the table's own.
    """

    kind: WorkKind
    reason: str
    due_millis: int
    options: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The need as a JSON object."""
        return {
            "kind": self.kind.value,
            "reason": self.reason,
            "due_millis": self.due_millis,
            "options": dict(self.options),
        }

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> "Need":
        """The need of an object made by to_json."""
        return Need(**{**value, "kind": WorkKind(value["kind"])})


class TaskState(StrEnum):
    """Where a task stands."""

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
class Assignment:
    """What a worker gets: the attempt, the table by name, and the work in bytes that `optimizer.work` understands.

    The lease is `lease_millis` long from when the worker last spoke of the attempt.
    """

    ref: TaskRef
    table: str
    kind: WorkKind
    payload: bytes
    lease_millis: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFigures:
    """What a task has read and written."""

    bytes_in: int = 0
    bytes_out: int = 0
    files_in: int = 0
    files_out: int = 0

    def to_json(self) -> dict[str, Any]:
        """The figures as a JSON object."""
        return {
            "bytes_in": self.bytes_in,
            "bytes_out": self.bytes_out,
            "files_in": self.files_in,
            "files_out": self.files_out,
        }

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> "TaskFigures":
        """The figures of an object made by to_json."""
        return TaskFigures(**value)

    def __add__(self, other: "TaskFigures") -> "TaskFigures":
        return TaskFigures(
            bytes_in=self.bytes_in + other.bytes_in,
            bytes_out=self.bytes_out + other.bytes_out,
            files_in=self.files_in + other.files_in,
            files_out=self.files_out + other.files_out,
        )


NO_FIGURES = TaskFigures()


class Verdict(StrEnum):
    """What becomes of what a worker brings."""

    ACCEPTED = "accepted"
    SUPERSEDED = "superseded"
    """The task was given to somebody else: what was written is not needed, and its writer deletes it."""
    UNKNOWN = "unknown"
    """The process is not known any more: what was written stays where it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskOutcome:
    """What a worker brings back: commit messages in bytes, or why there are none."""

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
        """Its newest attempt."""
        return TaskRef(process=self.process, number=self.number, attempt=self.attempt)


class ProcessState(StrEnum):
    """Where a process stands."""

    RUNNING = "running"
    COMMITTING = "committing"
    ENDING = "ending"
    SUCCEEDED = "succeeded"
    GAVE_WAY = "gave way"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def has_ended(self) -> bool:
        """Whether nothing comes after it."""
        return self not in (ProcessState.RUNNING, ProcessState.COMMITTING, ProcessState.ENDING)


class Cleanup(StrEnum):
    """What becomes of a process's files when it ends; in every case its mark goes first."""

    SWEEP = "sweep"
    """Those that were not committed go: attempts of tasks whose results were not the ones taken."""
    DISCARD = "discard"
    """All go: nothing was committed, which is known for certain."""
    LEAVE = "leave"
    """All stay, for the removal of orphan files: it is not known whether they were committed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableStanding:
    """How a table stands: what a decision is based on, and what it brought."""

    snapshot_id: int | None
    score: int
    read_amplification: float
    pending_bytes: int

    def to_json(self) -> dict[str, Any]:
        """The standing as a JSON object."""
        return {
            "snapshot_id": self.snapshot_id,
            "score": self.score,
            "read_amplification": self.read_amplification,
            "pending_bytes": self.pending_bytes,
        }

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> "TableStanding":
        """The standing of an object made by to_json."""
        return TableStanding(**value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """One piece of work. `id` also names the commit and the files. Times are epoch milliseconds, `seconds` those of its
    workers; `options` are the table options that the work is done with. While it is ENDING, `ending` is the state that
    comes next.
    """

    id: str
    table: str
    kind: WorkKind
    group: str
    reason: str
    state: ProcessState
    created_millis: int
    before: TableStanding
    options: Mapping[str, str] = field(default_factory=dict)
    ending: ProcessState | None = None
    cleanup: Cleanup | None = None
    tasks: int = 0
    ended_millis: int | None = None
    seconds: float = 0.0
    figures: TaskFigures = NO_FIGURES
    snapshot_id: int | None = None
    after: TableStanding | None = None
    failure: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The process as a JSON object."""
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
        """The process of an object made by to_json."""
        given = dict(value)
        after = given.pop("after")
        ending = given.pop("ending")
        cleanup = given.pop("cleanup")
        return Process(
            kind=WorkKind(given.pop("kind")),
            state=ProcessState(given.pop("state")),
            ending=None if ending is None else ProcessState(ending),
            cleanup=None if cleanup is None else Cleanup(cleanup),
            before=TableStanding.from_json(given.pop("before")),
            after=None if after is None else TableStanding.from_json(after),
            figures=TaskFigures.from_json({name: given.pop(name) for name in NO_FIGURES.to_json()}),
            **given,
        )
