"""A process: one piece of work on one table, from the decision to what it brought.

running -> committing -> succeeded
                      -> gave way      another writer had replaced the files; nothing was changed
   |            |
   +-> failed <-+    a task failed too often, or the commit did
   +-> cancelled     the table is gone
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from interbed.optimizer.flow.kind import WorkKind
from interbed.optimizer.flow.task import NO_FIGURES, TaskFigures


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
