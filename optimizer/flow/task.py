"""One task of a process: what a worker gets, what it brings back, and where it stands.

A task is given out as an attempt, with a lease. Only the attempt that was given out last may bring a result: what an
earlier one brings is refused, and it deletes what it wrote.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from interbed.optimizer.flow.kind import WorkKind


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
