"""The optimizer of a catalog as a service: it schedules while it holds the journal's lease, and is a standby otherwise.

The scheduler takes a step after each result of a worker, and at intervals. When the journal can't be reached, or
another process holds the lease, the state in memory is dropped. It is read from the journal again once this process has
the lease. Meanwhile workers get the answer that this process does not schedule, and continue their tasks.
"""

import logging
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from interbed.catalog.client.api import Catalog
from interbed.optimizer.errors import JournalError, NotOnDutyError
from interbed.optimizer.flow.group import ResourceGroup, Worker
from interbed.optimizer.flow.process import Process
from interbed.optimizer.flow.tables import ChangedTables, TableState, Watch
from interbed.optimizer.journal.api import Journal, Lease
from interbed.optimizer.scheduling.engine import Engine
from interbed.optimizer.scheduling.scheduler import Scheduler
from interbed.optimizer.scheduling.settings import SchedulerSettings
from interbed.optimizer.service.leadership import Leadership
from interbed.optimizer.service.local_workers import LocalWorkers
from interbed.optimizer.watch import FilesWatch, SnapshotSweep
from interbed.optimizer.work.lake_tables import LakeTables


class PacedWatch:
    """See Watch. `has_answered` says whether all tables are known."""

    def __init__(self, watch: Watch, interval_millis: int, clock: Callable[[], int]) -> None:
        self._watch = watch
        self._interval_millis = interval_millis
        self._clock = clock
        self._asked: int | None = None
        self.has_answered = False

    def changes(self) -> ChangedTables:
        """See Watch; nothing within the interval."""
        now = self._clock()
        if self._asked is not None and now - self._asked < self._interval_millis:
            return ChangedTables()
        self._asked = now
        found = self._watch.changes()
        self.has_answered = True
        return found


PATIENCE_MILLIS = 10_000
"""A table that is left alone for longer than that, after a failure, is not waited for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Remaining:
    """Tables that are waited for, and by name why others that need something are not."""

    waiting: tuple[str, ...] = ()
    left: Mapping[str, str]

    @staticmethod
    def of(
        tables: Iterable[TableState], groups: Mapping[str, ResourceGroup], workers: Iterable[Worker], now: int
    ) -> "Remaining":
        """What remains of tables that nobody works on."""
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
                left[table.name] = f"is of group '{table.group}', which there is not"
            elif table.group not in served:
                left[table.name] = f"is of group '{table.group}', which has no workers"
            elif table.not_before_millis > now + PATIENCE_MILLIS:
                left[table.name] = f"is left alone after {table.failures} failure(s)"
            else:
                waiting.append(table.name)
        return Remaining(waiting=tuple(waiting), left=left)


_log = logging.getLogger(__name__)


class Groups(Protocol):
    """Where the groups come from."""

    def current(self) -> Mapping[str, ResourceGroup]:
        """The groups now."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceSettings:
    """Times in milliseconds. A step is taken every `interval`; one that stands by looks every `look` whether it may
    schedule; `expire_history` is how often processes of long ago are forgotten.
    """

    interval: int = 1_000
    look: int = 5_000
    expire_history: int = 86_400_000
    until_idle: bool = False
    scheduler: SchedulerSettings = field(default_factory=SchedulerSettings)


class OptimizerService:
    """`holder` is a name that no other scheduler of the journal has; `clock` is epoch milliseconds."""

    def __init__(
        self,
        catalog: Catalog,
        journal: Journal,
        groups: Groups,
        duty: Leadership,
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
        self._duty = duty
        self._settings = settings
        self._holder = holder
        self._clock = clock
        self._local = local
        self._on_ended = on_ended
        self._is_stopping = False
        self._off_duty_since: int | None = None
        self._history_expired: int | None = None
        self._stands_by_for: str | None = None

    def stop(self) -> None:
        """End `run` soon; safe in handlers of signals."""
        self._is_stopping = True
        self._duty.wake()

    def run(self) -> Mapping[str, str]:
        """Keep the tables in shape until `stop`, or with `until_idle` until nothing is left to do: tables that need
        something and were not waited for, and why.
        """
        left: Mapping[str, str] | None = None
        try:
            while not self._is_stopping and left is None:
                lease = self._acquired()
                if lease is None:
                    self._stand_by()
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
                who = "somebody" if held is None else held.holder
                if who != self._stands_by_for:
                    _log.info("Standing by while %s schedules", who)
                self._stands_by_for = who
        except JournalError as error:
            _log.warning("The journal can't be asked, it is tried again: %s", error)
            return None
        return lease

    def _stand_by(self) -> None:
        now = self._clock()
        if self._off_duty_since is None:
            self._off_duty_since = now
        elif now - self._off_duty_since > self._settings.scheduler.lease:
            # Whoever schedules has workers of its own. Before that, what these bring may still be taken here.
            self._end_workers()
        self._duty.wait(self._settings.look / 1000)

    # -- scheduling ----------------------------------------------------------------------------------------------------

    def _schedule(self, lease: Lease) -> Mapping[str, str] | None:
        """Schedule until it is stopped, the journal refuses, or, if asked for, nothing is left: what `run` returns."""
        scheduler: Scheduler | None = None
        self._stands_by_for = None
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
            _log.warning("Everything is made anew: %s", error)
            if not self._is_stopping:
                self._duty.wait(min(self._settings.look, self._settings.interval) / 1000)
            return None
        except NotOnDutyError:
            return None
        finally:
            self._leave_duty(lease if scheduler is None else scheduler.lease)

    def _steps(self, scheduler: Scheduler) -> Mapping[str, str] | None:
        sweep = SnapshotSweep(self._clock)
        watch = PacedWatch(self._watch(sweep), self._settings.interval, self._clock)
        tables = LakeTables(self._catalog, sweep.remember)
        engine = Engine(scheduler, tables, watch, clock=self._clock, lock=self._duty.lock, on_ended=self._on_ended)
        self._duty.begin(scheduler)
        self._off_duty_since = None
        _log.info("Scheduling as %s, under number %d", scheduler.lease.holder, scheduler.lease.number)
        while not self._is_stopping:
            self._look_at_groups()
            has_done = engine.step()
            self._expire_history(scheduler)
            if not self._duty.is_on:
                return None
            if has_done:
                continue
            if self._settings.until_idle and watch.has_answered:
                remaining = self._remaining()
                if remaining is not None:
                    return remaining.left
            self._duty.wait(self._settings.interval / 1000)
        return None

    def _watch(self, sweep: SnapshotSweep) -> Watch:
        from interbed.catalog.client.options import MetastoreKind

        if self._catalog.options.metastore is MetastoreKind.HIVE:
            # As the catalog itself: the metastore's interface is large.
            from interbed.catalog.client.hive.catalog import HiveCatalog
            from interbed.optimizer.watch import HiveWatch

            assert isinstance(self._catalog, HiveCatalog)
            return HiveWatch(self._catalog.client, sweep, self._clock)
        return FilesWatch(self._catalog, sweep, self._clock)

    def _look_at_groups(self) -> None:
        groups = self._groups.current()
        self._duty.ask(lambda s: s.set_groups(groups))
        if self._local is not None:
            self._forget_workers(self._local.tend(groups))

    def _forget_workers(self, places: list[str]) -> None:
        """These have ended: what they did is given to others without waiting for their leases."""

        def leave(scheduler: Scheduler) -> None:
            for worker in scheduler.workers():
                if worker.place in places:
                    scheduler.leave(worker.id)

        if places:
            self._duty.ask(leave)

    def _expire_history(self, scheduler: Scheduler) -> None:
        now = self._clock()
        if self._history_expired is None or now - self._history_expired >= self._settings.expire_history:
            self._history_expired = now
            count = scheduler.expire_history()
            if count:
                _log.info("%d processes of long ago are forgotten", count)

    def _remaining(self) -> Remaining | None:
        """What is left when nothing is to be waited for; None while there is something."""
        groups = self._groups.current()

        def ask(scheduler: Scheduler) -> Remaining | None:
            if scheduler.processes():
                return None
            return Remaining.of(scheduler.tables(), groups, scheduler.workers(), self._clock())

        found = self._duty.ask(ask)
        return None if found is None or found.waiting else found

    # -- the end -------------------------------------------------------------------------------------------------------

    def _leave_duty(self, lease: Lease) -> None:
        """Schedule no more. When it is stopped, whoever stands by may begin at once: the local workers are ended before
        that, and what they did is given back.
        """
        if self._is_stopping or self._settings.until_idle:
            self._end_workers()
        self._duty.end()
        try:
            self._journal.release(lease)
        except JournalError as error:
            _log.warning("The lease could not be given back, and ends by itself: %s", error)

    def _end_workers(self) -> None:
        if self._local is None:
            return
        try:
            self._forget_workers(self._local.end())
        except NotOnDutyError as error:
            # Their attempts are given to others when their leases end.
            _log.debug("It is told to nobody that the workers have ended: %s", error)
