"""A journal in memory: of simulations and tests, and the model of the others."""

import threading
from collections.abc import Sequence
from dataclasses import replace

from interbed.optimizer.flow.group import ResourceGroup
from interbed.optimizer.flow.process import Process
from interbed.optimizer.flow.request import TableRequest
from interbed.optimizer.flow.table_state import TableState
from interbed.optimizer.flow.task import Task
from interbed.optimizer.flow.worker import Worker
from interbed.optimizer.journal.api import JournalChanges, JournalState, Lease, LeaseLostError


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
            self._check(lease)
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
            self._check(lease)
            processes = [p for p in self._processes.values() if not p.state.has_ended]
            tasks = [task for p in processes for task in self._tasks.get(p.id, {}).values()]
            return JournalState(tables=list(self._tables.values()), processes=processes, tasks=tasks)

    def store(self, lease: Lease, changes: JournalChanges) -> None:
        """See Journal."""
        with self._lock:
            self._check(lease)
            self._tables.update((table.name, table) for table in changes.tables)
            for name in changes.gone:
                self._tables.pop(name, None)
            for task in changes.tasks:
                self._tasks.setdefault(task.process, {})[task.number] = task
            for process in changes.processes:
                self._processes[process.id] = process
                if process.state.has_ended:
                    self._tasks.pop(process.id, None)
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
        with self._lock:
            self._last_request += 1
            self._requests[self._last_request] = replace(request, id=self._last_request)

    def holder(self) -> Lease | None:
        """See Journal."""
        return self._lease

    def tables(self, names: Sequence[str] | None = None) -> Sequence[TableState]:
        """See Journal."""
        with self._lock:
            return [self._tables[n] for n in sorted(self._tables) if names is None or n in names]

    def processes(self, table: str | None = None, *, limit: int = 100) -> Sequence[Process]:
        """See Journal."""
        with self._lock:
            found = [p for p in self._processes.values() if table is None or p.table == table]
        return sorted(found, key=lambda p: (-p.created_millis, p.id))[:limit]

    def workers(self) -> Sequence[Worker]:
        """See Journal."""
        return self._workers

    def groups(self) -> Sequence[ResourceGroup]:
        """See Journal."""
        return self._groups

    def expire(self, lease: Lease, ended_before_millis: int) -> int:
        """See Journal."""
        with self._lock:
            self._check(lease)
            old = [
                p.id for p in self._processes.values() if (p.ended_millis or ended_before_millis) < ended_before_millis
            ]
            for each in old:
                del self._processes[each]
            return len(old)

    def _check(self, lease: Lease) -> None:
        if self._lease is None or self._lease.number != lease.number:
            raise LeaseLostError(
                f"{lease.holder} does not schedule any more; {self._lease and self._lease.holder} does."
            )
