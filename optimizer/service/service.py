"""The optimizer of a catalog as a service: it schedules while it holds the journal's lease, and is a standby otherwise.

The scheduler takes a step after each result of a worker, and at intervals. When the journal can't be reached, or
another process holds the lease, the state in memory is dropped. It is read from the journal again once this process has
the lease. Meanwhile workers get the answer that this process does not schedule, and continue their tasks. `Leadership`
gives one thread at a time access to the scheduler.
"""

import logging
import queue
import threading
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from interbed.catalog.client.api import Catalog
from interbed.optimizer.flow.process import JournalError, NotOnDutyError, Process
from interbed.optimizer.flow.tables import ChangedTables, ResourceGroup, TableState, TableWatch, Worker
from interbed.optimizer.journal.api import Journal, Lease
from interbed.optimizer.scheduling.engine import Engine
from interbed.optimizer.scheduling.needs import SchedulerSettings
from interbed.optimizer.scheduling.scheduler import Scheduler
from interbed.optimizer.service.local_workers import LocalWorkers
from interbed.optimizer.watch import FilesWatch, HiveWatch, SnapshotSweep
from interbed.optimizer.work.lake_tables import LakeTables
from interbed.storage.base.errors import InterbedError

T = TypeVar("T")


class Leadership:
    """The scheduler of this process while it schedules; `lock` guards the scheduler."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._scheduler: Scheduler | None = None
        # Unlike an Event, a SimpleQueue may be used in a handler of signals.
        self._woken: queue.SimpleQueue[None] = queue.SimpleQueue()

    @property
    def is_on(self) -> bool:
        """Whether this process schedules."""
        return self._scheduler is not None

    def begin(self, scheduler: Scheduler) -> None:
        """Schedule from now on."""
        with self.lock:
            self._scheduler = scheduler

    def end(self) -> None:
        """Stop scheduling: further calls raise NotOnDutyError."""
        with self.lock:
            self._scheduler = None

    def ask(self, question: Callable[[Scheduler], T]) -> T:
        """Call the scheduler. Raises NotOnDutyError, and the errors of the scheduler.

        After a JournalError the state of the scheduler is not valid any more: this process stops scheduling, and the
        caller gets NotOnDutyError.
        """
        with self.lock:
            if self._scheduler is None:
                raise NotOnDutyError("This process does not schedule now; another one does, or will.")
            try:
                return question(self._scheduler)
            except JournalError as error:
                _log.warning("The journal refuses changes of this scheduler, which stops: %s", error)
                self._scheduler = None
                self.wake()
                raise NotOnDutyError(f"This process does not schedule any more: {error}") from error

    def wake(self) -> None:
        """End a running `wait`, or the next one; safe in handlers of signals."""
        if self._woken.empty():
            self._woken.put(None)

    def wait(self, seconds: float) -> None:
        """Wait for a call of `wake`, at most for that time."""
        try:
            self._woken.get(timeout=max(seconds, 0.0))
        except queue.Empty:
            return


class PacedWatch:
    """Watch that calls another one at intervals. `has_answered`: all tables are known."""

    def __init__(self, watch: TableWatch, interval_millis: int, clock: Callable[[], int]) -> None:
        self._watch = watch
        self._interval_millis = interval_millis
        self._clock = clock
        self._asked: int | None = None
        self.has_answered = False

    def changes(self) -> ChangedTables:
        """Return the changes of the other watch; none within the interval."""
        now = self._clock()
        if self._asked is not None and now - self._asked < self._interval_millis:
            return ChangedTables()
        self._asked = now
        found = self._watch.changes()
        self.has_answered = True
        return found


DROPS_AT_ONCE = 10
"""Dropped tables that one step purges."""

LONG_BACKOFF_MILLIS = 10_000
"""A table with a longer back-off after a failure is not waited for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemainingWork:
    """Tables with due work: those that are waited for, and by name the reasons why others are not."""

    waiting: tuple[str, ...] = ()
    left: Mapping[str, str]

    @staticmethod
    def of(
        tables: Iterable[TableState], groups: Mapping[str, ResourceGroup], workers: Iterable[Worker], now: int
    ) -> "RemainingWork":
        """Return the remaining work of tables without running processes."""
        served = {worker.group for worker in workers} | {name for name, group in groups.items() if group.workers}
        waiting: list[str] = []
        left: dict[str, str] = {}
        for table in tables:
            if table.unreadable is not None:
                left[table.name] = f"can't be read: {table.unreadable}"
                continue
            if table.requested is None and not (table.enabled and not table.paused and table.needs):
                continue
            if table.group not in groups:
                left[table.name] = f"is of group '{table.group}', which does not exist"
            elif table.group not in served:
                left[table.name] = f"is of group '{table.group}', which has no workers"
            elif table.not_before_millis > now + LONG_BACKOFF_MILLIS:
                left[table.name] = f"waits after {table.failures} failure(s) in a row"
            else:
                waiting.append(table.name)
        return RemainingWork(waiting=tuple(waiting), left=left)


_log = logging.getLogger(__name__)


class Groups(Protocol):
    """Source of the resource groups."""

    def current(self) -> Mapping[str, ResourceGroup]:
        """Return the present groups."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceSettings:
    """Intervals in milliseconds: of steps (`interval`), of a standby's attempts to take the lease (`look`), of the
    deletion of old processes (`expire_history`), and of the purge of dropped tables that have expired
    (`expire_drops`).
    """

    interval: int = 1_000
    look: int = 5_000
    expire_history: int = 86_400_000
    expire_drops: int = 3_600_000
    until_idle: bool = False
    scheduler: SchedulerSettings = field(default_factory=SchedulerSettings)


class OptimizerService:
    """The optimizer of a catalog. `holder` is a unique name among schedulers; `clock` returns epoch milliseconds."""

    def __init__(
        self,
        catalog: Catalog,
        journal: Journal,
        groups: Groups,
        leadership: Leadership,
        settings: ServiceSettings,
        *,
        holder: str,
        clock: Callable[[], int],
        local: LocalWorkers | None = None,
        on_ended: Callable[[Process], None] = lambda process: None,
    ) -> None:
        self._catalog = catalog
        self._journal = journal
        self._groups = groups
        self._leadership = leadership
        self._settings = settings
        self._holder = holder
        self._clock = clock
        self._local = local
        self._on_ended = on_ended
        self._is_stopping = False
        self._standby_since: int | None = None
        self._history_expired: int | None = None
        self._drops_expired: int | None = None
        self._present_leader: str | None = None

    def stop(self) -> None:
        """End `run` soon; safe in handlers of signals."""
        self._is_stopping = True
        self._leadership.wake()

    def run(self) -> Mapping[str, str]:
        """Keep the tables in shape until `stop`, or with `until_idle` until nothing is left to do.

        Returns the tables with due work that were not waited for, with the reasons.
        """
        left: Mapping[str, str] | None = None
        try:
            while not self._is_stopping and left is None:
                lease = self._acquired()
                if lease is None:
                    self._wait_as_standby()
                else:
                    left = self._schedule(lease)
        finally:
            self._end_workers()
        return left or {}

    # -- standing by ---------------------------------------------------------------------------------------------------

    def _acquired(self) -> Lease | None:
        now = self._clock()
        try:
            lease = self._journal.acquire(self._holder, now, now + self._settings.scheduler.lease)
            if lease is None:
                held = self._journal.holder()
                name = "another process" if held is None else held.holder
                if name != self._present_leader:
                    _log.info("Standby of %s, which schedules", name)
                self._present_leader = name
        except JournalError as error:
            _log.warning("The lease can't be taken; trying again in %d ms: %s", self._settings.look, error)
            return None
        return lease

    def _wait_as_standby(self) -> None:
        now = self._clock()
        if self._standby_since is None:
            self._standby_since = now
        elif now - self._standby_since > self._settings.scheduler.lease:
            # The scheduler has workers of its own. Before that, this process may still schedule and take their results.
            self._end_workers()
        self._leadership.wait(self._settings.look / 1000)

    # -- scheduling ----------------------------------------------------------------------------------------------------

    def _schedule(self, lease: Lease) -> Mapping[str, str] | None:
        """Schedule until a stop or an error of the journal (None), or until nothing is left: the result of `run`."""
        scheduler: Scheduler | None = None
        self._present_leader = None
        try:
            scheduler = Scheduler(
                self._journal,
                lease,
                self._groups.current(),
                self._settings.scheduler,
                clock=self._clock,
                new_id=lambda: str(uuid.uuid4()),
            )
            return self._steps(scheduler)
        except JournalError as error:
            _log.warning("Restarting the scheduler from the journal: %s", error)
            if not self._is_stopping:
                self._leadership.wait(min(self._settings.look, self._settings.interval) / 1000)
            return None
        except NotOnDutyError:
            return None
        finally:
            self._end_leadership(lease if scheduler is None else scheduler.lease)

    def _steps(self, scheduler: Scheduler) -> Mapping[str, str] | None:
        sweep = SnapshotSweep(self._clock)
        watch = PacedWatch(self._watch(sweep), self._settings.interval, self._clock)
        tables = LakeTables(self._catalog, sweep.remember)
        engine = Engine(
            scheduler, tables, watch, clock=self._clock, lock=self._leadership.lock, on_ended=self._on_ended
        )
        self._leadership.begin(scheduler)
        self._standby_since = None
        _log.info("Scheduling as %s, under number %d", scheduler.lease.holder, scheduler.lease.number)
        while not self._is_stopping:
            self._look_at_groups()
            has_done = engine.step()
            self._expire_history(scheduler)
            self._expire_drops()
            if not self._leadership.is_on:
                return None
            if has_done:
                continue
            if self._settings.until_idle and watch.has_answered:
                remaining = self._remaining()
                if remaining is not None:
                    return remaining.left
            self._leadership.wait(self._settings.interval / 1000)
        return None

    def _watch(self, sweep: SnapshotSweep) -> TableWatch:
        from interbed.catalog.client.options import MetastoreKind

        if self._catalog.options.metastore is MetastoreKind.HIVE:
            # By use, as for the catalog itself: the metastore's interface is large.
            from interbed.catalog.client.hive.catalog import HiveCatalog

            assert isinstance(self._catalog, HiveCatalog)
            return HiveWatch(self._catalog.client, sweep, self._clock)
        return FilesWatch(self._catalog, sweep, self._clock)

    def _look_at_groups(self) -> None:
        groups = self._groups.current()
        self._leadership.ask(lambda s: s.set_groups(groups))
        if self._local is not None:
            self._forget_workers(self._local.reconcile(groups))

    def _forget_workers(self, places: list[str]) -> None:
        """Remove workers that have ended, so that their tasks wait again before their leases expire."""

        def leave(scheduler: Scheduler) -> None:
            for worker in scheduler.workers():
                if worker.place in places:
                    scheduler.leave(worker.id)

        if places:
            self._leadership.ask(leave)

    def _expire_history(self, scheduler: Scheduler) -> None:
        now = self._clock()
        if self._history_expired is None or now - self._history_expired >= self._settings.expire_history:
            self._history_expired = now
            count = scheduler.expire_history()
            if count:
                _log.info("Deleted %d processes older than the history", count)

    def _expire_drops(self) -> None:
        """Purge dropped tables that have expired, a few in one step, so that the lease is renewed in between."""
        now = self._clock()
        if self._drops_expired is not None and now - self._drops_expired < self._settings.expire_drops:
            return
        self._drops_expired = now
        try:
            count = self._catalog.expire_dropped(DROPS_AT_ONCE)
        except (InterbedError, OSError) as error:
            _log.warning("Dropped tables that have expired stay for now: %s", error)
            return
        if count:
            _log.info("Purged %d dropped tables and databases that have expired", count)
        if count == DROPS_AT_ONCE:
            # There may be more of them.
            self._drops_expired = None

    def _remaining(self) -> RemainingWork | None:
        """Return the remaining work when no table is to be waited for; None while there is one."""
        groups = self._groups.current()

        def ask(scheduler: Scheduler) -> RemainingWork | None:
            if scheduler.processes():
                return None
            return RemainingWork.of(scheduler.tables(), groups, scheduler.workers(), self._clock())

        found = self._leadership.ask(ask)
        return None if found is None or found.waiting else found

    # -- the end -------------------------------------------------------------------------------------------------------

    def _end_leadership(self, lease: Lease) -> None:
        """Stop scheduling and release the lease.

        At a stop the local workers end first, so that their tasks wait again: a standby may begin at once.
        """
        if self._is_stopping or self._settings.until_idle:
            self._end_workers()
        self._leadership.end()
        try:
            self._journal.release(lease)
        except JournalError as error:
            _log.warning("The lease %d can't be released and will expire: %s", lease.number, error)

    def _end_workers(self) -> None:
        if self._local is None:
            return
        try:
            self._forget_workers(self._local.end())
        except NotOnDutyError as error:
            # Their tasks wait again when their leases expire.
            _log.debug("The end of the workers is not reported, as this process does not schedule: %s", error)
