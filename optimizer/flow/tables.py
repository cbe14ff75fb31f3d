"""What the scheduler asks of tables; interbed.optimizer.watch and .work answer, simulations as well."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from interbed.optimizer.flow.kind import Need
from interbed.optimizer.flow.process import Process
from interbed.storage.meta.options.optimizing import SelfOptimizing
from interbed.storage.upkeep.health import TableHealth


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedTables:
    """Names of tables that have changed, or came, since the last question, and of those that are gone."""

    changed: Collection[str] = ()
    gone: Collection[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """A table as its metadata show it now, with what its options say."""

    health: TableHealth
    wishes: SelfOptimizing
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
