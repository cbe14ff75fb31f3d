"""The reaper: a thread that removes expired objects, in the metastore's database and in the trash.

Those are locks whose holder is silent, old notification events, old changes of the history, old idempotency keys,
delegation tokens that have ended, dropped objects that can no longer be put back, the partitions of dropped tables, old
checkpoints of the trash, executions of scheduled queries without a report, and old statistics of runs. It also settles
unfinished moves of directories, for instance those of another server of the same database that was killed. When it
starts, it fills the kinds of tables that an older interbed has written (database/schema.py).

Locks expire also when another request reads them; the reaper removes those that no request reads. Several servers on
one database may each have a reaper: a removal is a single statement with the condition in it, so that the second finds
nothing.
"""

import logging
import random
import threading
import time
from collections.abc import Callable

from interbed.catalog.server.auth.delegation.tokens import DelegationTokenService
from interbed.catalog.server.service.directories.guard import DeletionGuard
from interbed.catalog.server.service.errors import MetastoreError
from interbed.catalog.server.service.hiveserver2 import RuntimeStatisticsService, ScheduledQueryService
from interbed.catalog.server.service.idempotency import IdempotencyService
from interbed.catalog.server.service.locks import LockService
from interbed.catalog.server.service.moves import settle_all
from interbed.catalog.server.service.repository import Repository
from interbed.catalog.server.service.undrop.drops import Trash
from interbed.catalog.server.service.undrop.undrops import UndropService
from interbed.catalog.server.threads import SupervisedThread, ThreadDeaths

logger = logging.getLogger(__name__)

STOP_SECONDS_MAX = 5.0

KINDS_AT_ONCE = 500
"""Rows of one write that fills kinds: some hundredths of a second."""


class Reaper:
    """Removes expired objects every `every_seconds`, with a random fifth more or less so that servers do
    not collide.
    """

    def __init__(
        self,
        store: Repository,
        locks: LockService,
        *,
        every_seconds: float,
        events_ttl_seconds: float,
        history_seconds: float = 30 * 86400.0,
        history_entries_max: int = 1_000_000,
        clock: Callable[[], float] = time.time,
        deaths: ThreadDeaths | None = None,
        trash: Trash | None = None,
        guard: DeletionGuard | None = None,
        dropped: UndropService | None = None,
        delegation: DelegationTokenService | None = None,
    ) -> None:
        self._delegation = delegation
        self._guard = guard
        self._store = store
        self._locks = locks
        self._queries = ScheduledQueryService(store, clock=clock)
        self._run_statistics = RuntimeStatisticsService(store, clock=clock)
        self._idempotency = IdempotencyService(store, clock=clock)
        self._every_seconds = every_seconds
        self._events_ttl_seconds = events_ttl_seconds
        self._history_seconds = history_seconds
        self._history_entries_max = history_entries_max
        self._clock = clock
        self._trash = trash
        self._dropped = dropped
        self._ending = threading.Event()
        self._thread = SupervisedThread(self._run, name="reaper", deaths=deaths or ThreadDeaths())

    def start(self) -> None:
        """Start the thread of the reaper."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread, after a round in progress."""
        self._ending.set()
        if self._thread.is_alive():
            self._thread.join(timeout=STOP_SECONDS_MAX)

    def look(self) -> tuple[int, int]:
        """Remove the objects that have expired; return the numbers of locks and of events. MetastoreError."""
        locks = self._locks.expire()
        before = int(self._clock() - self._events_ttl_seconds)
        events = self._store.write(lambda transaction: transaction.events.expire(before))
        if events:
            logger.info("removed %d notification events older than %.0f s", events, self._events_ttl_seconds)
        self._expire_history()
        if self._dropped is not None:
            self._expire(self._dropped)
        self._purge()
        silent, _ = self._queries.expire()
        if silent:
            logger.warning("%d executions of scheduled queries have timed out", silent)
        self._run_statistics.expire()
        self._idempotency.expire()
        if self._delegation is not None and (ended := self._delegation.expire()):
            logger.info("removed %d delegation tokens that had ended", ended)
        if self._trash is not None:
            self._empty(self._trash)
        # Last, because a directory that cannot be moved back must not prevent the other removals.
        settled = settle_all(self._store, self._guard)
        if settled:
            logger.info("settled %d moves of directories that were not finished", settled)
        return locks, events

    def _expire_history(self) -> None:
        """Remove old changes of metadata, in many short writes."""
        before_millis = int((self._clock() - self._history_seconds) * 1000)
        removed = 0
        while not self._ending.is_set():
            part = self._store.write(
                lambda transaction: transaction.history.expire(before_millis, self._history_entries_max)
            )
            if not part:
                break
            removed += part
        if removed:
            logger.info("removed %d changes from the history of metadata", removed)

    def _expire(self, dropped: UndropService) -> None:
        """Purge dropped objects that have expired, and settle unfinished drops. An error is logged, and prevents no
        other removal.
        """
        try:
            settled, purged = dropped.settle(), dropped.expire()
        except MetastoreError as error:
            logger.warning("could not purge dropped objects, will try again: %s", error)
            return
        if settled:
            logger.info("settled %d drops or undrops that were not finished", settled)
        if purged:
            logger.info("purged %d dropped objects that had expired", purged)

    def _empty(self, trash: Trash) -> None:
        """Delete expired checkpoints of the trash. An error of the trash is logged, and prevents no other removal."""
        try:
            deleted = trash.expire()
        except MetastoreError as error:
            logger.warning("could not look at the trash, will try again: %s", error)
            return
        if deleted:
            logger.info("deleted %d checkpoints of the trash %s", deleted, trash.root)

    def _purge(self) -> None:
        """Remove the partitions of dropped tables, in many short writes, so that other writers do not wait for long."""
        removed = 0
        while not self._ending.is_set():
            part = self._store.write(lambda transaction: transaction.partitions.purge())
            if not part:
                break
            removed += part
        if removed:
            logger.info("removed %d partitions of tables that were dropped", removed)

    def fill_kinds(self) -> None:
        """Fill the kinds of the tables of an older interbed, in many short writes. An error is logged: lists read the
        entries of the others, and the next start of a server goes on.
        """
        filled = 0
        try:
            while not self._ending.is_set():
                part = self._store.write(lambda transaction: transaction.tables.fill_kinds(KINDS_AT_ONCE))
                if not part:
                    break
                filled += part
        except MetastoreError as error:
            logger.warning("could not fill the kinds of tables, which only makes lists slower: %s", error)
        if filled:
            logger.info("filled the kinds of %d tables of an older version", filled)

    def _run(self) -> None:
        self.fill_kinds()
        while not self._ending.wait(self._every_seconds * random.uniform(0.8, 1.2)):
            try:
                self.look()
            except MetastoreError as error:
                logger.warning("could not remove what has run out, will try again: %s", error)
