"""Resource groups with their workers, state of a table, requests of users, and protocols between scheduler and tables.

A group has processes that work for its tables, and a policy that orders these. A file of groups is TOML, a table for
each group:

    [default]
    workers = 2            # local processes; more may register over the network
    threads = 1            # tasks that a process runs at the same time
    memory = "1 gb"        # memory of a process
    policy = "quota"       # or "balanced"
    window = "1 h"         # over which shares are counted

interbed.optimizer.watch and interbed.optimizer.work implement the protocols of tables; simulations do, too.
"""

import tomllib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from interbed.optimizer.flow.process import Process, TableSummary, WorkKind, WorkNeed
from interbed.storage.base.errors import InvalidInputError, InvalidOptionError
from interbed.storage.base.shown_text import did_you_mean, parse_duration_millis, parse_memory

if TYPE_CHECKING:
    from interbed.storage.meta.options.optimizing import SelfOptimizing
    from interbed.storage.upkeep.health import TableHealth


DEFAULT_GROUP = "default"

_FIELDS = ("workers", "threads", "memory", "policy", "window")


class GroupPolicy(StrEnum):
    """Policy that chooses the next of the waiting tables."""

    QUOTA = "quota"
    """The table that has used the least part of its share in the window."""
    BALANCED = "balanced"
    """The table with the worst score; waiting makes its score worse."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceGroup:
    """A resource group: `workers` local processes of `threads` tasks each, with `memory` bytes each."""

    name: str = DEFAULT_GROUP
    workers: int = 1
    threads: int = 1
    memory: int = 1 << 30
    policy: GroupPolicy = GroupPolicy.QUOTA
    window_millis: int = 3_600_000

    def __post_init__(self) -> None:
        if self.workers < 0 or self.threads < 1 or self.window_millis < 1 or self.memory < 1:
            raise InvalidInputError(
                f"Group '{self.name}' has {self.workers} workers of {self.threads} threads and {self.memory} bytes, "
                f"and a window of {self.window_millis} ms; none may be negative, and only the workers may be 0."
            )

    def to_json(self) -> dict[str, Any]:
        """Return the group as a JSON object."""
        return {
            "name": self.name,
            "workers": self.workers,
            "threads": self.threads,
            "memory": self.memory,
            "policy": self.policy.value,
            "window_millis": self.window_millis,
        }

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> "ResourceGroup":
        """Return the group of an object made by to_json."""
        return ResourceGroup(**{**value, "policy": GroupPolicy(value["policy"])})


def read_groups(path: Path) -> dict[str, ResourceGroup]:
    """Read the groups of a file, by name. Raises InvalidInputError that names file, group and field."""
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InvalidInputError(f"The groups in {path} can't be read: {error}.") from error
    groups = {}
    for name, values in found.items():
        if not isinstance(values, dict):
            raise InvalidInputError(f"{path} has '{name}' outside of a group; a group begins with [name].")
        groups[name] = _group(path, name, values)
    return groups


def _group(path: Path, name: str, values: Mapping[str, Any]) -> ResourceGroup:
    for setting in values:
        if setting not in _FIELDS:
            raise InvalidInputError(f"Group '{name}' in {path} has no '{setting}'.{did_you_mean(setting, _FIELDS)}")
    given: dict[str, Any] = {}
    for setting in ("workers", "threads"):
        if setting in values:
            value = values[setting]
            if not isinstance(value, int) or isinstance(value, bool):
                raise InvalidInputError(f"'{setting}' of group '{name}' in {path} is {value!r}, not a number.")
            given[setting] = value
    try:
        if "memory" in values:
            given["memory"] = parse_memory("memory", str(values["memory"]))
        if "window" in values:
            given["window_millis"] = parse_duration_millis("window", str(values["window"]))
        if "policy" in values:
            given["policy"] = GroupPolicy(values["policy"])
    except (InvalidOptionError, ValueError) as error:
        raise InvalidInputError(f"Group '{name}' in {path}: {error}.") from error
    try:
        return ResourceGroup(name=name, **given)
    except InvalidInputError as error:
        raise InvalidInputError(f"{path}: {error}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """One worker: `threads` tasks at the same time in `memory` bytes. Without a heartbeat until `lease_until_millis`
    the scheduler forgets it.
    """

    id: str
    group: str
    threads: int
    memory: int
    place: str
    since_millis: int
    lease_until_millis: int
    running: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return the worker as a JSON object."""
        return {
            "id": self.id,
            "group": self.group,
            "threads": self.threads,
            "memory": self.memory,
            "place": self.place,
            "since_millis": self.since_millis,
            "lease_until_millis": self.lease_until_millis,
            "running": self.running,
        }

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> "Worker":
        """Return the worker of an object made by to_json."""
        return Worker(**value)


IN_SHAPE_SCORE = 90
"""The least score of a table that is in shape."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableState:
    """State of one table. Times are epoch milliseconds.

    `last` has the times when each kind of work was last done or had nothing to do, `settled` the snapshots then: while
    that snapshot is the newest, the kind has nothing to do. `counted_from` has the beginnings of the intervals of kinds
    that were never done. `failures` counts processes in a row that did not succeed, after which no process begins
    before `not_before`. At `next_check` work may become due without a commit.
    """

    name: str
    group: str = DEFAULT_GROUP
    quota: float = 0.5
    enabled: bool = True
    paused: bool = False
    summary: TableSummary | None = None
    measured_millis: int | None = None
    reasons: tuple[str, ...] = ()
    needs: tuple[WorkNeed, ...] = ()
    requested: WorkKind | None = None
    last: Mapping[WorkKind, int] = field(default_factory=dict)
    settled: Mapping[WorkKind, int] = field(default_factory=dict)
    counted_from: Mapping[WorkKind, int] = field(default_factory=dict)
    failures: int = 0
    not_before_millis: int = 0
    next_check_millis: int | None = None
    unreadable: str | None = None

    @property
    def next_need(self) -> WorkNeed | None:
        """The work to be done next; None when nothing is due."""
        return self.needs[0] if self.needs else None

    def to_json(self) -> dict[str, Any]:
        """Return the state as a JSON object."""
        return {
            "table": self.name,
            "group": self.group,
            "quota": self.quota,
            "enabled": self.enabled,
            "paused": self.paused,
            "standing": None if self.summary is None else self.summary.to_json(),
            "measured_millis": self.measured_millis,
            "reasons": list(self.reasons),
            "needs": [need.to_json() for need in self.needs],
            "requested": None if self.requested is None else self.requested.value,
            "last": {kind.value: millis for kind, millis in self.last.items()},
            "settled": {kind.value: snapshot for kind, snapshot in self.settled.items()},
            "counted_from": {kind.value: millis for kind, millis in self.counted_from.items()},
            "failures": self.failures,
            "not_before_millis": self.not_before_millis,
            "next_check_millis": self.next_check_millis,
            "unreadable": self.unreadable,
        }

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> "TableState":
        """Return the state of an object made by to_json."""
        given = dict(value)
        summary = given.pop("standing")
        requested = given.pop("requested")
        return TableState(
            name=given.pop("table"),
            summary=None if summary is None else TableSummary.from_json(summary),
            reasons=tuple(given.pop("reasons")),
            needs=tuple(WorkNeed.from_json(need) for need in given.pop("needs")),
            requested=None if requested is None else WorkKind(requested),
            last={WorkKind(kind): millis for kind, millis in given.pop("last").items()},
            settled={WorkKind(kind): snapshot for kind, snapshot in given.pop("settled").items()},
            # A journal of an earlier version lacks it.
            counted_from={WorkKind(kind): millis for kind, millis in given.pop("counted_from", {}).items()},
            **given,
        )


class RequestKind(StrEnum):
    """Kind of a user's request."""

    PAUSE = "pause"
    """Begin nothing for the table any more, earlier requests included."""
    RESUME = "resume"
    NOW = "now"
    """Do one kind of work next, whether it is due or not, also for a paused table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRequest:
    """One request of a user; the journal gives the `id`. `work` is for NOW."""

    table: str
    kind: RequestKind
    work: WorkKind | None = None
    id: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedTables:
    """Names of tables that have changed or appeared since the last call, and of those that were removed."""

    changed: Collection[str] = ()
    removed: Collection[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TableMeasurement:
    """Health of a table by its metadata, with its options."""

    health: "TableHealth"
    optimizing: "SelfOptimizing"
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedTask:
    """A task that was planned: the payload for a worker, and the bytes to be read."""

    payload: bytes
    cost: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkPlan:
    """The tasks of a piece of work, none when there is nothing to do, and the table options for it."""

    tasks: Sequence[PlannedTask]
    options: Mapping[str, str] = field(default_factory=dict)


class TableWatch(Protocol):
    """Source of the names of changed tables; the first answer has all tables."""

    def changes(self) -> ChangedTables:
        """Return the changes since the last call, at a cost that is proportional to them.

        Raises InterbedError when they can't be read; the next answer has what this one lacked.
        """
        ...


class OptimizedTables(Protocol):
    """The tables of a catalog by name. Each method raises TableNotFoundError for a missing table."""

    def measure(self, table: str) -> TableMeasurement:
        """Measure a table by its metadata. Raises InterbedError when they can't be read."""
        ...

    def plan(self, process: Process, need: WorkNeed, slots: int) -> WorkPlan:
        """Plan the tasks of a need for `slots` threads of workers.

        The names of the tasks' files have the id of the process. While it may succeed, a mark protects these files.
        """
        ...

    def commit(self, process: Process, results: Sequence[bytes]) -> int | None:
        """Commit the results of tasks, once even if it is called again; return the snapshot, None without one.

        Raises CommitConflictError when another writer came first: then nothing was changed. After any other error it is
        unknown whether the results were committed.
        """
        ...

    def end(self, process: Process, results: Sequence[bytes]) -> None:
        """Clean up the files of a process by its `cleanup`; safe to repeat."""
        ...
