"""The journal: the durable state of a scheduler, from which its successor continues.

Here are its protocol, its values, and its model in memory.

Only one scheduler at a time writes: it holds a lease with a number that grows with each holder. Each change checks that
number in its own transaction, so that a scheduler that was held up and overtaken changes nothing any more.
"""

import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from interbed.optimizer.errors import LeaseLostError
from interbed.optimizer.flow.group import ResourceGroup, Worker
from interbed.optimizer.flow.process import Process, Task
from interbed.optimizer.flow.tables import TableRequest, TableState
from interbed.storage.base.errors import InvalidInputError


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """That `holder` schedules until a time (epoch milliseconds), or has let go (0); `number` grows with each holder."""

    holder: str
    number: int
    until_millis: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalState:
    """What a scheduler begins with: all tables by name; the processes that have not ended, the oldest first, with their
    tasks, by process and number.
    """

    tables: Sequence[TableState] = ()
    processes: Sequence[Process] = ()
    tasks: Sequence[Task] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalChanges:
    """What one step of a scheduler changed. Each value replaces the one with its name or id.

    Tasks are kept of processes that are there and have not ended; those of others are forgotten. `workers` and `groups`
    are all that there are, None for no change; `answered` are the ids of requests that were taken, `gone` the names of
    tables that are no more.
    """

    tables: Sequence[TableState] = ()
    gone: Sequence[str] = ()
    processes: Sequence[Process] = ()
    tasks: Sequence[Task] = ()
    workers: Sequence[Worker] | None = None
    groups: Sequence[ResourceGroup] | None = None
    answered: Sequence[int] = ()

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to store."""
        lists = (self.tables, self.gone, self.processes, self.tasks, self.answered)
        return not any(lists) and self.workers is None and self.groups is None


class Journal(Protocol):
    """Safe for use by threads. All methods raise JournalError when the store can't be reached, and those that are given
    names InvalidInputError for one that has no room in it (names.py).
    """

    def acquire(self, holder: str, now_millis: int, until_millis: int) -> Lease | None:
        """Become the scheduler; None while somebody else is. A holder that asks again gets a new number."""
        ...

    def renew(self, lease: Lease, until_millis: int) -> Lease:
        """Stay the scheduler for longer. Raises LeaseLostError, also for a lease that was released: a renewal that
        comes late does not bring it back.
        """
        ...

    def release(self, lease: Lease) -> None:
        """Be the scheduler no more; does nothing for a lease that was lost."""
        ...

    def load(self, lease: Lease) -> JournalState:
        """What the schedulers before have left. Raises LeaseLostError."""
        ...

    def store(self, lease: Lease, changes: JournalChanges) -> None:
        """All of the changes, durably, or none. What stands twice counts as it stands last, and what is gone is gone.
        Raises LeaseLostError.
        """
        ...

    def requests(self) -> Sequence[TableRequest]:
        """Requests that were not taken yet, oldest first."""
        ...

    def ask(self, request: TableRequest) -> None:
        """Leave a request for the scheduler; the journal gives it an id that no other has had."""
        ...

    def holder(self) -> Lease | None:
        """Who schedules, or did last; None when nobody ever has."""
        ...

    def tables(self, names: Sequence[str] | None = None) -> Sequence[TableState]:
        """What is known of all tables, or of those named, by name."""
        ...

    def processes(self, table: str | None = None, *, limit: int = 100) -> Sequence[Process]:
        """Processes, the newest first, of all tables or of one; those of the same time by id."""
        ...

    def running(self) -> Sequence[Process]:
        """Processes that have not ended, the oldest first."""
        ...

    def workers(self) -> Sequence[Worker]:
        """The workers as the scheduler last saw them."""
        ...

    def groups(self) -> Sequence[ResourceGroup]:
        """The groups as the scheduler last knew them."""
        ...

    def expire(self, lease: Lease, ended_before_millis: int) -> int:
        """Forget processes that ended before a time; how many. Raises LeaseLostError."""
        ...


def check_lease(lease: Lease, held: Lease | None) -> None:
    """Whether a lease still counts, by the one that the journal has now. Raises LeaseLostError."""
    if held is None or held.number != lease.number:
        raise LeaseLostError(f"{lease.holder} does not schedule any more; {held and held.holder} does.")
    if held.until_millis == 0:
        raise LeaseLostError(f"{lease.holder} does not schedule any more; it has let go.")


NAME_LENGTH_MAX = 512
"""Characters. The names of two directories with a dot fit, and so do the longest ones of a metastore."""


def check_name(what: str, name: str) -> str:
    """The name, if it fits. Raises InvalidInputError, which calls it `what`."""
    if len(name) > NAME_LENGTH_MAX:
        raise InvalidInputError(
            f"The name of {what} '{name[:40]}…' has {len(name)} characters; the optimizer's journal has room for "
            f"{NAME_LENGTH_MAX}. Give it a shorter one, or leave it out."
        )
    # PostgreSQL has no NUL in texts, and no database half of a pair of surrogates (a file's name that is no UTF-8).
    if "\0" in name or (not name.isascii() and any("\ud800" <= letter <= "\udfff" for letter in name)):
        raise InvalidInputError(
            f"The name of {what} {name!a} has characters that the optimizer's journal can't hold. Give it another one, "
            "or leave it out."
        )
    return name


def check_changes(changes: JournalChanges) -> None:
    """Whether the names of all that is to be stored fit. Raises InvalidInputError."""
    for state in changes.tables:
        check_name("table", state.name)
    for name in changes.gone:
        check_name("table", name)
    for process in changes.processes:
        check_name("process", process.id)
        check_name("table", process.table)
    for task in changes.tasks:
        check_name("process", task.process)


class MemoryJournal:
    """See Journal."""

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
        """See Journal."""
        check_name("scheduler", holder)
        with self._lock:
            held = self._lease
            if held is not None and held.holder != holder and held.until_millis > now_millis:
                return None
            number = 1 if held is None else held.number + 1
            self._lease = Lease(holder=holder, number=number, until_millis=until_millis)
            return self._lease

    def renew(self, lease: Lease, until_millis: int) -> Lease:
        """See Journal."""
        with self._lock:
            check_lease(lease, self._lease)
            self._lease = replace(lease, until_millis=until_millis)
            return self._lease

    def release(self, lease: Lease) -> None:
        """See Journal."""
        with self._lock:
            if self._lease is not None and self._lease.number == lease.number:
                self._lease = replace(self._lease, until_millis=0)

    def load(self, lease: Lease) -> JournalState:
        """See Journal."""
        with self._lock:
            check_lease(lease, self._lease)
            tables = [self._tables[name] for name in sorted(self._tables)]
            processes = [p for p in self._processes.values() if not p.state.has_ended]
            processes.sort(key=lambda p: (p.created_millis, p.id))
            tasks = [task for p in sorted(self._tasks) for _, task in sorted(self._tasks[p].items())]
            return JournalState(tables=tables, processes=processes, tasks=tasks)

    def store(self, lease: Lease, changes: JournalChanges) -> None:
        """See Journal."""
        check_changes(changes)
        with self._lock:
            check_lease(lease, self._lease)
            self._tables.update((table.name, table) for table in changes.tables)
            for name in changes.gone:
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
        """See Journal."""
        with self._lock:
            return list(self._requests.values())

    def ask(self, request: TableRequest) -> None:
        """See Journal."""
        check_name("table", request.table)
        with self._lock:
            self._last_request += 1
            self._requests[self._last_request] = replace(request, id=self._last_request)

    def holder(self) -> Lease | None:
        """See Journal."""
        return self._lease

    def tables(self, names: Sequence[str] | None = None) -> Sequence[TableState]:
        """See Journal."""
        for name in names or ():
            check_name("table", name)
        with self._lock:
            wanted = self._tables.keys() if names is None else self._tables.keys() & set(names)
            return [self._tables[name] for name in sorted(wanted)]

    def processes(self, table: str | None = None, *, limit: int = 100) -> Sequence[Process]:
        """See Journal."""
        check_name("table", table or "")
        with self._lock:
            found = [p for p in self._processes.values() if table is None or p.table == table]
        return sorted(found, key=lambda p: (-p.created_millis, p.id))[:limit]

    def running(self) -> Sequence[Process]:
        """See Journal."""
        with self._lock:
            found = [p for p in self._processes.values() if not p.state.has_ended]
        return sorted(found, key=lambda p: (p.created_millis, p.id))

    def workers(self) -> Sequence[Worker]:
        """See Journal."""
        return self._workers

    def groups(self) -> Sequence[ResourceGroup]:
        """See Journal."""
        return self._groups

    def expire(self, lease: Lease, ended_before_millis: int) -> int:
        """See Journal."""
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
