"""State of a table in the optimizer, the requests of users for it, and the protocols between scheduler and tables.

interbed.optimizer.watch and interbed.optimizer.work implement the protocols; simulations do, too.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol

from interbed.optimizer.flow.group import DEFAULT_GROUP
from interbed.optimizer.flow.process import Need, Process, TableStanding, WorkKind

if TYPE_CHECKING:
    from interbed.storage.meta.options.optimizing import SelfOptimizing
    from interbed.storage.upkeep.health import TableHealth

IN_SHAPE_SCORE = 90
"""From this score on a table that needs nothing is said to be in shape."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableState:
    """One table. Times are epoch milliseconds.

    `last` is when each kind of work was last done or found to have nothing to do, `settled` the snapshot then: while it
    is the newest, that kind has nothing more to do. `counted_from` is when the interval of a kind that was never done
    counts as begun. `failures` is how many processes in a row did not succeed,
    `not_before` until when the table is left alone after that, `next_check` when something may become due though nobody
    writes.
    """

    name: str
    group: str = DEFAULT_GROUP
    quota: float = 0.5
    enabled: bool = True
    paused: bool = False
    standing: TableStanding | None = None
    measured_millis: int | None = None
    reasons: tuple[str, ...] = ()
    needs: tuple[Need, ...] = ()
    requested: WorkKind | None = None
    last: Mapping[WorkKind, int] = field(default_factory=dict)
    settled: Mapping[WorkKind, int] = field(default_factory=dict)
    counted_from: Mapping[WorkKind, int] = field(default_factory=dict)
    failures: int = 0
    not_before_millis: int = 0
    next_check_millis: int | None = None
    unreadable: str | None = None

    @property
    def next_need(self) -> Need | None:
        """What is to be done next; None for nothing."""
        return self.needs[0] if self.needs else None

    def to_json(self) -> dict[str, Any]:
        """The state as a JSON object."""
        return {
            "table": self.name,
            "group": self.group,
            "quota": self.quota,
            "enabled": self.enabled,
            "paused": self.paused,
            "standing": None if self.standing is None else self.standing.to_json(),
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
        """The state of an object made by to_json."""
        given = dict(value)
        standing = given.pop("standing")
        requested = given.pop("requested")
        return TableState(
            name=given.pop("table"),
            standing=None if standing is None else TableStanding.from_json(standing),
            reasons=tuple(given.pop("reasons")),
            needs=tuple(Need.from_json(need) for need in given.pop("needs")),
            requested=None if requested is None else WorkKind(requested),
            last={WorkKind(kind): millis for kind, millis in given.pop("last").items()},
            settled={WorkKind(kind): snapshot for kind, snapshot in given.pop("settled").items()},
            # A journal of an earlier version lacks it.
            counted_from={WorkKind(kind): millis for kind, millis in given.pop("counted_from", {}).items()},
            **given,
        )


class RequestKind(StrEnum):
    """What is asked for."""

    PAUSE = "pause"
    """Nothing is begun for the table any more, also what was asked for before."""
    RESUME = "resume"
    NOW = "now"
    """One kind of work is done next, whether it is due or not, and though the table is paused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRequest:
    """One request; `id` is the journal's. `work` goes with NOW."""

    table: str
    kind: RequestKind
    work: WorkKind | None = None
    id: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedTables:
    """Names of tables that have changed, or came, since the last question, and of those that are gone."""

    changed: Collection[str] = ()
    gone: Collection[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """A table as its metadata show it now, with what its options say."""

    health: "TableHealth"
    wishes: "SelfOptimizing"
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedTask:
    """A task before it has a process: what a worker understands, and the bytes that are to be read."""

    payload: bytes
    cost: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkPlan:
    """The tasks of a piece of work, none when there is nothing to do, and the table options that it is done with."""

    tasks: Sequence[PlannedTask]
    options: Mapping[str, str] = field(default_factory=dict)


class Watch(Protocol):
    """Which tables have changed; the first answer has all tables."""

    def changes(self) -> ChangedTables:
        """Since the last question; costs in proportion to what changed. Raises InterbedError when it can't be known,
        and the next answer has what this one lacked.
        """
        ...


class OptimizedTables(Protocol):
    """The tables of a catalog by name. Each method raises TableNotFoundError for a table that is gone."""

    def measure(self, table: str) -> Measurement:
        """How the table stands, from its metadata. Raises InterbedError when they can't be read."""
        ...

    def plan(self, process: Process, need: Need, slots: int) -> WorkPlan:
        """The tasks for a need, for so many workers. The files of its tasks bear the id of the process, and while it
        may succeed there is a mark for them.
        """
        ...

    def commit(self, process: Process, results: Sequence[bytes]) -> int | None:
        """Commit what tasks brought, once, however often it is called for a process; the snapshot, None for none.

        Raises CommitConflictError when another writer came first: then nothing was changed. Whatever else is raised,
        it is not known.
        """
        ...

    def end(self, process: Process, results: Sequence[bytes]) -> None:
        """Clean up as `process.cleanup` says; safe to repeat."""
        ...
