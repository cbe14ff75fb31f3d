"""A journal in memory: of simulations and tests, and the model of the others."""

import threading
from collections.abc import Sequence
from dataclasses import replace

from interbed.optimizer.flow.group import ResourceGroup, Worker
from interbed.optimizer.flow.process import Process, Task
from interbed.optimizer.flow.table_state import TableRequest, TableState
from interbed.optimizer.journal.api import JournalChanges, JournalState, Lease, check_changes, check_lease, check_name


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
