"""The journal: the durable state of a scheduler, from which its successor continues.

Here are its protocol, its values, and its model in memory.

Only one scheduler at a time writes: it holds a lease with a number that grows with each holder. Each change checks that
number in its own transaction. So a scheduler that was stopped for a while and replaced meanwhile changes nothing.
"""

import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from interbed.optimizer.flow.process import LeaseLostError, Process, Task
from interbed.optimizer.flow.tables import ResourceGroup, TableRequest, TableState, Worker
from interbed.storage.base.errors import InvalidInputError


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """Lease of the scheduler `holder` until a time (epoch milliseconds; 0: released). `number` grows by each holder."""

    holder: str
    number: int
    until_millis: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalState:
    """Initial state of a scheduler: all tables by name, the processes that have not ended, the oldest first, and their
    tasks by process and number.
    """

    tables: Sequence[TableState] = ()
    processes: Sequence[Process] = ()
    tasks: Sequence[Task] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalChanges:
    """Changes of one step of a scheduler. Each value replaces the one with its name or id.

    Tasks are kept for processes that exist and have not ended; those of other processes are deleted. `workers` and
    `groups` are complete lists, None for no change. `answered` has the ids of requests that were taken, `removed` the
    names of removed tables.
    """

    tables: Sequence[TableState] = ()
    removed: Sequence[str] = ()
    processes: Sequence[Process] = ()
    tasks: Sequence[Task] = ()
    workers: Sequence[Worker] | None = None
    groups: Sequence[ResourceGroup] | None = None
    answered: Sequence[int] = ()

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to store."""
        lists = (self.tables, self.removed, self.processes, self.tasks, self.answered)
        return not any(lists) and self.workers is None and self.groups is None


class Journal(Protocol):
    """Durable state of a scheduler, safe for use by threads.

    All methods raise JournalError when the journal can't be reached. Methods with names raise InvalidInputError for a
    name that does not fit (check_name).
    """

    def acquire(self, holder: str, now_millis: int, until_millis: int) -> Lease | None:
        """Take the lease of the scheduler; None while another process has it. Each time the lease has a new number."""
        ...

    def renew(self, lease: Lease, until_millis: int) -> Lease:
        """Renew the lease. Raises LeaseLostError, also for a released lease, which a late renewal does not restore."""
        ...

    def release(self, lease: Lease) -> None:
        """Release the lease; do nothing if it was lost."""
        ...

    def load(self, lease: Lease) -> JournalState:
        """Return the state that earlier schedulers have stored. Raises LeaseLostError."""
        ...

    def store(self, lease: Lease, changes: JournalChanges) -> None:
        """Store all of the changes durably, or none. Raises LeaseLostError.

        Of values with the same key the last one counts; `removed` wins over `tables`.
        """
        ...

    def requests(self) -> Sequence[TableRequest]:
        """Return the requests that were not taken yet, the oldest first."""
        ...

    def ask(self, request: TableRequest) -> None:
        """Add a request for the scheduler; the journal gives it a unique id."""
        ...

    def holder(self) -> Lease | None:
        """Return the lease of the present or the last scheduler; None if there was none."""
        ...

    def tables(self, names: Sequence[str] | None = None) -> Sequence[TableState]:
        """Return the states of all tables, or of those named, sorted by name."""
        ...

    def processes(self, table: str | None = None, *, limit: int = 100) -> Sequence[Process]:
        """Return processes of all tables or of one, the newest first; those of the same time by id."""
        ...

    def running(self) -> Sequence[Process]:
        """Return the processes that have not ended, the oldest first."""
        ...

    def workers(self) -> Sequence[Worker]:
        """Return the workers that the scheduler stored last."""
        ...

    def groups(self) -> Sequence[ResourceGroup]:
        """Return the groups that the scheduler stored last."""
        ...

    def expire(self, lease: Lease, ended_before_millis: int) -> int:
        """Delete processes that ended before a time, and return their number. Raises LeaseLostError."""
        ...


def check_lease(lease: Lease, held: Lease | None) -> None:
    """Compare a lease with the one in the journal. Raises LeaseLostError when it is lost or released."""
    if held is None or held.number != lease.number:
        raise LeaseLostError(
            f"{lease.holder} has lost the lease of the scheduler (number {lease.number}); "
            f"{held and held.holder} has it now."
        )
    if held.until_millis == 0:
        raise LeaseLostError(f"{lease.holder} has released its lease (number {lease.number}) and does not schedule.")


NAME_LENGTH_MAX = 512
"""Characters. The names of two directories with a dot fit, and the longest names of a metastore."""


def check_name(what: str, name: str) -> str:
    """Return the name if it fits into the journal. Raises InvalidInputError, with `what` for the kind of object."""
    if len(name) > NAME_LENGTH_MAX:
        raise InvalidInputError(
            f"The name of {what} '{name[:40]}…' has {len(name)} characters, and the optimizer's journal takes at most "
            f"{NAME_LENGTH_MAX}. Rename the {what}, or exclude it."
        )
    # PostgreSQL's text holds no NUL, and no database holds a lone surrogate (of a file's name that is not UTF-8).
    if "\0" in name or (not name.isascii() and any("\ud800" <= letter <= "\udfff" for letter in name)):
        raise InvalidInputError(
            f"The name of {what} {name!a} has characters that the optimizer's journal can't hold. Rename the {what}, "
            "or exclude it."
        )
    return name


def check_changes(changes: JournalChanges) -> None:
    """Check that all names in the changes fit into the journal. Raises InvalidInputError."""
    for state in changes.tables:
        check_name("table", state.name)
    for name in changes.removed:
        check_name("table", name)
    for process in changes.processes:
        check_name("process", process.id)
        check_name("table", process.table)
    for task in changes.tasks:
        check_name("process", task.process)


class MemoryJournal:
    """Journal in memory, for simulations and tests, and as the model of the other journals."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lease: Lease | None = None
        self._tables: dict[str, TableState] = {}
        self._processes: dict[str, Process] = {}
        self._tasks: dict[str, dict[int, Task]] = {}
        self._workers: Sequence[Worker] = ()
        self._groups: Sequence[ResourceGroup] = ()
        self._requests: dict[int, TableRequest] = {}
        self._last_request = 0

    def acquire(self, holder: str, now_millis: int, until_millis: int) -> Lease | None:
        check_name("scheduler", holder)
        with self._lock:
            held = self._lease
            if held is not None and held.holder != holder and held.until_millis > now_millis:
                return None
            number = 1 if held is None else held.number + 1
            self._lease = Lease(holder=holder, number=number, until_millis=until_millis)
            return self._lease

    def renew(self, lease: Lease, until_millis: int) -> Lease:
        with self._lock:
            check_lease(lease, self._lease)
            self._lease = replace(lease, until_millis=until_millis)
            return self._lease

    def release(self, lease: Lease) -> None:
        with self._lock:
            if self._lease is not None and self._lease.number == lease.number:
                self._lease = replace(self._lease, until_millis=0)

    def load(self, lease: Lease) -> JournalState:
        with self._lock:
            check_lease(lease, self._lease)
            tables = [self._tables[name] for name in sorted(self._tables)]
            processes = [p for p in self._processes.values() if not p.state.has_ended]
            processes.sort(key=lambda p: (p.created_millis, p.id))
            tasks = [task for p in sorted(self._tasks) for _, task in sorted(self._tasks[p].items())]
            return JournalState(tables=tables, processes=processes, tasks=tasks)

    def store(self, lease: Lease, changes: JournalChanges) -> None:
        check_changes(changes)
        with self._lock:
            check_lease(lease, self._lease)
            self._tables.update((table.name, table) for table in changes.tables)
            for name in changes.removed:
                self._tables.pop(name, None)
            for task in changes.tasks:
                self._tasks.setdefault(task.process, {})[task.number] = task
            self._processes.update((process.id, process) for process in changes.processes)
            for name in {task.process for task in changes.tasks} | {process.id for process in changes.processes}:
                process = self._processes.get(name)
                if process is None or process.state.has_ended:
                    self._tasks.pop(name, None)
            if changes.workers is not None:
                self._workers = tuple(changes.workers)
            if changes.groups is not None:
                self._groups = tuple(changes.groups)
            for number in changes.answered:
                self._requests.pop(number, None)

    def requests(self) -> Sequence[TableRequest]:
        with self._lock:
            return list(self._requests.values())

    def ask(self, request: TableRequest) -> None:
        check_name("table", request.table)
        with self._lock:
            self._last_request += 1
            self._requests[self._last_request] = replace(request, id=self._last_request)

    def holder(self) -> Lease | None:
        return self._lease

    def tables(self, names: Sequence[str] | None = None) -> Sequence[TableState]:
        for name in names or ():
            check_name("table", name)
        with self._lock:
            wanted = self._tables.keys() if names is None else self._tables.keys() & set(names)
            return [self._tables[name] for name in sorted(wanted)]

    def processes(self, table: str | None = None, *, limit: int = 100) -> Sequence[Process]:
        check_name("table", table or "")
        with self._lock:
            found = [p for p in self._processes.values() if table is None or p.table == table]
        return sorted(found, key=lambda p: (-p.created_millis, p.id))[:limit]

    def running(self) -> Sequence[Process]:
        with self._lock:
            found = [p for p in self._processes.values() if not p.state.has_ended]
        return sorted(found, key=lambda p: (p.created_millis, p.id))

    def workers(self) -> Sequence[Worker]:
        return self._workers

    def groups(self) -> Sequence[ResourceGroup]:
        return self._groups

    def expire(self, lease: Lease, ended_before_millis: int) -> int:
        with self._lock:
            check_lease(lease, self._lease)
            old = [
                p.id
                for p in self._processes.values()
                if p.state.has_ended and p.ended_millis is not None and p.ended_millis < ended_before_millis
            ]
            for each in old:
                del self._processes[each]
            return len(old)
