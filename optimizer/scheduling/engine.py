"""The engine: measures tables, reports to the scheduler, and carries out its decisions.

A step never waits for a worker. Files are only touched in the state that the journal has: plans and marks after a
process has begun, commits when it is COMMITTING, deletions when it is ENDING.
"""

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from interbed.catalog.client.errors import DatabaseNotFoundError, NotAnInterbedTableError, TableNotFoundError
from interbed.optimizer.flow.process import CleanupMode, LeaseLostError, Process, SchedulerEndedError, WorkNeed
from interbed.optimizer.flow.tables import OptimizedTables, TableMeasurement, TableWatch
from interbed.optimizer.journal.api import check_name
from interbed.optimizer.scheduling.scheduler import Scheduler
from interbed.storage.base.backoff import doubled
from interbed.storage.base.errors import CommitConflictError, CommitError, InterbedError, InvalidInputError

_log = logging.getLogger(__name__)

_COMMITS_TRIED = 8
"""Attempts at a commit before the process fails."""

_ENDS_TRIED = 20
"""Attempts at a cleanup before it is left to the removal of orphan files."""

_PAUSE_MILLIS, _PAUSE_MOST_MILLIS = 1_000, 128_000
"""Back-off before another attempt at either; it doubles with each attempt."""

_MISSING = (TableNotFoundError, DatabaseNotFoundError, NotAnInterbedTableError)

_PLANS_AT_ONCE = 50
"""Processes that one step begins at most, so that results do not wait for long."""

T = TypeVar("T")


class Engine:
    """The steps of one scheduler. `lock` guards the scheduler, which workers call from other threads."""

    def __init__(
        self,
        scheduler: Scheduler,
        tables: OptimizedTables,
        watch: TableWatch,
        *,
        clock: Callable[[], int],
        lock: "threading.Lock | None" = None,
        on_ended: Callable[[Process], None] = lambda process: None,
    ) -> None:
        self._scheduler = scheduler
        self._tables = tables
        self._watch = watch
        self._lock = lock or threading.Lock()
        self._on_ended = on_ended
        self._clock = clock
        self._tries: dict[str, tuple[int, int]] = {}
        self._unfit: set[str] = set()
        # An earlier scheduler may have committed these.
        self._uncertain = {process.id for process, _ in scheduler.to_commit()}

    def step(self) -> bool:
        """Carry out all work that is possible now, and return whether there was any.

        Raises LeaseLostError and JournalError, after which the caller creates another scheduler.
        """
        self._locked(self._scheduler.renew)
        self._locked(self._scheduler.expire_leases)
        self._look()
        self._locked(self._scheduler.take_requests)
        done = self._measure()
        done |= self._commit()
        done |= self._end()
        done |= self._plan()
        return done

    def _look(self) -> None:
        try:
            seen = self._watch.changes()
        except (InterbedError, OSError) as error:
            _log.warning("Changes of tables can't be read; trying again with the next step: %s", error)
            return
        changed = [name for name in seen.changed if self._fits(name)]
        if changed or seen.removed:
            self._locked(lambda: self._scheduler.changed(changed, [n for n in seen.removed if n not in self._unfit]))

    def _fits(self, name: str) -> bool:
        """Return whether the journal can hold the table's name; log once if it can't."""
        if name in self._unfit:
            return False
        try:
            check_name("table", name)
        except InvalidInputError as error:
            _log.warning("Skipping a table: %s", error)
            self._unfit.add(name)
            return False
        return True

    def _measure(self) -> bool:
        names = self._locked(self._scheduler.take_unmeasured)
        for name in names:
            self._locked(self._scheduler.renew)
            found = self._measurement(name)
            if found is not None:
                with self._lock:
                    self._scheduler.measured(name, found)
        return bool(names)

    def _measurement(self, name: str) -> TableMeasurement | None:
        """Measure a table; on an error report the reason to the scheduler and return None."""
        try:
            return self._tables.measure(name)
        except _MISSING:
            self._locked(lambda: self._scheduler.table_removed(name))
        except (InterbedError, OSError) as error:
            _log.warning("Table %s can't be measured: %s", name, error)
            why = str(error)
            self._locked(lambda: self._scheduler.unreadable(name, why))
        return None

    def _plan(self) -> bool:
        for begun in range(_PLANS_AT_ONCE):
            found = self._locked(self._scheduler.begin)
            if found is None:
                return begun > 0
            self._plan_one(*found)
            self._locked(self._scheduler.renew)
        return True

    def _plan_one(self, process: Process, need: WorkNeed, slots: int) -> None:
        try:
            plan = self._tables.plan(process, need, slots)
        except (InterbedError, OSError) as error:
            why = str(error)
            _log.warning("%s of %s can't be planned: %s", process.kind, process.table, why)
            self._locked(lambda: self._scheduler.not_planned(process.id, why))
            return
        try:
            self._locked(lambda: self._scheduler.planned(process.id, plan.tasks))
        except (LeaseLostError, SchedulerEndedError):
            # The journal does not have the tasks. The next scheduler ends the process without them, and may have done
            # so before there was a mark.
            self._clean_up(replace(process, cleanup=CleanupMode.DISCARD), ())
            raise

    def _commit(self) -> bool:
        ready = self._locked(self._scheduler.to_commit)
        due = [(p, results) for p, results in ready if self._is_due(p)]
        for process, results in due:
            self._locked(self._scheduler.renew)
            self._commit_one(process, results)
        return bool(due)

    def _commit_one(self, process: Process, results: Sequence[bytes]) -> None:
        try:
            snapshot_id = self._tables.commit(process, results)
        except CommitConflictError as error:
            why, certain = str(error), process.id not in self._uncertain
            self._tries.pop(process.id, None)
            self._locked(lambda: self._scheduler.gave_way(process.id, why, is_certain=certain))
        except (InterbedError, OSError) as error:
            self._commit_failed(process, error)
        else:
            self._tries.pop(process.id, None)
            self._locked(lambda: self._scheduler.committed(process.id, snapshot_id))

    def _commit_failed(self, process: Process, error: Exception) -> None:
        why = str(error)
        tries = self._count_failure(process)
        _log.warning("Commit %d of %s of %s: %s", tries, process.kind, process.table, why)
        if not isinstance(error, CommitError):
            self._uncertain.add(process.id)
        if tries >= _COMMITS_TRIED or isinstance(error, _MISSING):
            certain = process.id not in self._uncertain
            self._tries.pop(process.id, None)
            self._locked(lambda: self._scheduler.not_committed(process.id, why, is_certain=certain))

    def _end(self) -> bool:
        ready = self._locked(self._scheduler.to_end)
        due = [(p, results) for p, results in ready if self._is_due(p)]
        for process, results in due:
            self._locked(self._scheduler.renew)
            if self._clean_up(process, results):
                self._end_one(process)
        return bool(due)

    def _clean_up(self, process: Process, results: Sequence[bytes]) -> bool:
        """Clean up the files of a process; return False when it is to be tried again."""
        try:
            self._tables.end(process, results)
        except _MISSING:
            return True
        except (InterbedError, OSError) as error:
            tries = self._count_failure(process)
            what, table = process.kind, process.table
            _log.warning("Attempt %d at cleaning up the files of %s of %s failed: %s", tries, what, table, error)
            return tries >= _ENDS_TRIED
        return True

    def _end_one(self, process: Process) -> None:
        found = self._measurement(process.table)
        self._tries.pop(process.id, None)
        self._uncertain.discard(process.id)
        self._on_ended(self._locked(lambda: self._scheduler.ended(process.id, found)))

    def _is_due(self, process: Process) -> bool:
        """Return whether the back-off of a process is over."""
        return self._tries.get(process.id, (0, 0))[1] <= self._clock()

    def _count_failure(self, process: Process) -> int:
        """Count a failure, set the next back-off, and return the number of failures."""
        tries = self._tries.get(process.id, (0, 0))[0] + 1
        self._tries[process.id] = tries, self._clock() + doubled(_PAUSE_MILLIS, tries - 1, _PAUSE_MOST_MILLIS)
        return tries

    def _locked(self, ask: Callable[[], T]) -> T:
        with self._lock:
            return ask()
