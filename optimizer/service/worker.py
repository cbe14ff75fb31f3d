"""A worker: a process that carries out tasks of one group, for a scheduler here or elsewhere.

It registers, and is told of the catalog; asks for tasks while it has threads free; says at a third of its lease what it
works on; and brings each result until it has a verdict, over lost connections and schedulers that come and go. What is
superseded it deletes; what the scheduler does not know any more it leaves where it is.

A task is never interrupted. One that the worker was told to give up is carried out to its end, and its result refused.
"""

import logging
import queue
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from interbed.catalog.client.api import Catalog
from interbed.catalog.client.factory import open_catalog
from interbed.optimizer.errors import NoSchedulerError, UnknownWorkerError, WorkerRefusedError
from interbed.optimizer.flow.group import DEFAULT_GROUP
from interbed.optimizer.flow.process import Assignment, TaskOutcome, TaskRef, Verdict
from interbed.optimizer.service.scheduler_client import SchedulerClient
from interbed.optimizer.work.lake_tables import carry_out, take_back
from interbed.storage.base.backoff import NO_JITTER, ExponentialBackoff
from interbed.storage.base.errors import CommitFailedError, InterbedError
from interbed.thrift_idl.optimizing.constants import VERSION

logger = logging.getLogger(__name__)

_IDLE = ExponentialBackoff(first_seconds=0.1, longest_seconds=1.0, jitter=NO_JITTER)
"""Pauses between polls while there is nothing to do."""
_GONE = ExponentialBackoff(first_seconds=0.1, longest_seconds=10.0, jitter=NO_JITTER)
"""Pauses between calls while there is no scheduler."""
_BEATS_OF_A_LEASE = 3
_DONE_WAIT_SECONDS = 1.0
_LOOK_SECONDS = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings:
    """`memory` in bytes is shared by the threads. `place` is host:pid. Told to end, a worker gives what runs so many
    seconds. With `idle_seconds` it ends by itself when it had nothing to do for so long.
    """

    group: str = DEFAULT_GROUP
    threads: int = 1
    memory: int = 1 << 30
    place: str = ""
    drain_seconds: float = 300.0
    idle_seconds: float | None = None


OpenCatalog = Callable[[str, Mapping[str, str]], Catalog]
"""Opens the catalog of a name with the options that the scheduler told."""


def opened_with(own: Mapping[str, str]) -> OpenCatalog:
    """Opens the catalog with options of the worker's own on top of those: secrets, above all."""
    return lambda name, told: open_catalog(name, {**told, **own})


class OptimizerWorker:
    """Works on the catalog that `open_catalog` opens."""

    def __init__(
        self,
        client: SchedulerClient,
        open_catalog: OpenCatalog,
        settings: WorkerSettings,
    ) -> None:
        self._client = client
        self._open_catalog = open_catalog
        self._settings = settings
        self._guard = threading.Lock()
        self._entering = threading.Lock()
        self._running: dict[TaskRef, threading.Thread] = {}
        self._told: set[TaskRef] = set()
        self._seat: Any = None
        self._refused: WorkerRefusedError | None = None
        self._is_stopping = False
        self._deadline = float("inf")
        self._beats_end = threading.Event()
        # May be told from a handler of signals.
        self._woken: queue.SimpleQueue[None] = queue.SimpleQueue()

    def stop(self) -> None:
        """Take nothing more, finish what runs, and end; safe in handlers of signals."""
        self._deadline = time.monotonic() + self._settings.drain_seconds
        self._is_stopping = True
        self._woken.put(None)

    def run(self) -> None:
        """Work until `stop`. Raises WorkerRefusedError, and what opening the catalog raises."""
        if not self._enter(None):
            return
        beating = threading.Thread(target=self._beat_on, name="optimizer-beat", daemon=True)
        beating.start()
        try:
            with self._open_catalog(self._seat.catalogName, self._seat.catalogOptions) as catalog:
                self._work(catalog)
                self._drain()
        finally:
            self._beats_end.set()
            beating.join(_DONE_WAIT_SECONDS)
            try:
                self._client.leave(self._seat.workerId)
            except NoSchedulerError as error:
                logger.info("The scheduler is not told that this worker ends: %s", error)
        if self._refused is not None:
            raise self._refused

    def _work(self, catalog: Catalog) -> None:
        idle = replace(_IDLE, sleep=self._wait).start()
        gone = replace(_GONE, sleep=self._wait).start()
        busy_until = time.monotonic()
        while not self._is_stopping:
            free = self._settings.threads - len(self._running)
            given: list[Assignment] = []
            if free > 0:
                try:
                    given = self._poll(free)
                except NoSchedulerError as error:
                    logger.warning("There is nobody to work for, it is tried again: %s", error)
                    gone.pause()
                    continue
                gone.reset()
            for assignment in given:
                self._begin(catalog, assignment)
            if given or self._running:
                busy_until = time.monotonic()
            elif self._settings.idle_seconds is not None and (
                time.monotonic() - busy_until >= self._settings.idle_seconds
            ):
                logger.info("There was nothing to do for %.0f s: this worker ends", self._settings.idle_seconds)
                return
            if given or free <= 0:
                idle.reset()
            if len(given) < max(free, 1):
                # The end of a task ends the pause.
                if free > 0:
                    idle.pause()
                else:
                    self._wait(_GONE.longest_seconds)

    def _poll(self, free: int) -> list[Assignment]:
        worker_id = self._seat.workerId
        try:
            return self._client.poll(worker_id, free)
        except UnknownWorkerError:
            self._enter(worker_id)
            return []

    # -- attempts ------------------------------------------------------------------------------------------------------

    def _begin(self, catalog: Catalog, assignment: Assignment) -> None:
        ref = assignment.ref
        name = f"{assignment.kind} of {assignment.table}"
        thread = threading.Thread(target=self._carry, args=(catalog, assignment), name=name, daemon=True)
        with self._guard:
            self._running[ref] = thread
        thread.start()

    def _carry(self, catalog: Catalog, assignment: Assignment) -> None:
        try:
            outcome = self._outcome(catalog, assignment)
            verdict = self._complete(assignment.ref, outcome)
            if verdict is not Verdict.ACCEPTED:
                logger.warning("The result of %s of %s is %s", assignment.kind, assignment.table, verdict)
            if verdict is Verdict.SUPERSEDED:
                self._take_back(catalog, assignment, outcome)
        finally:
            with self._guard:
                self._running.pop(assignment.ref, None)
                self._told.discard(assignment.ref)
            self._woken.put(None)

    def _outcome(self, catalog: Catalog, assignment: Assignment) -> TaskOutcome:
        share = self._settings.memory // self._settings.threads
        try:
            return carry_out(catalog, assignment, memory=share)
        except CommitFailedError as error:
            logger.info("%s of %s: %s", assignment.kind, assignment.table, error)
            return TaskOutcome(failure=str(error))
        except Exception as error:
            # Whatever it is, the scheduler decides what becomes of the task.
            logger.exception("%s of %s has failed", assignment.kind, assignment.table)
            return TaskOutcome(failure=f"{type(error).__name__}: {error}")

    def _complete(self, ref: TaskRef, outcome: TaskOutcome) -> Verdict:
        retries = replace(_GONE, sleep=self._rest).start()
        while True:
            try:
                return self._client.complete(ref, outcome)
            except NoSchedulerError as error:
                if time.monotonic() >= self._deadline:
                    logger.warning("Nobody takes the result of a task, and its files are left: %s", error)
                    return Verdict.UNKNOWN
                logger.warning("Nobody takes the result of a task, it is tried again: %s", error)
            retries.pause()

    def _take_back(self, catalog: Catalog, assignment: Assignment, outcome: TaskOutcome) -> None:
        try:
            take_back(catalog, assignment, outcome)
        except (InterbedError, OSError):
            # The removal of orphan files finds them.
            logger.exception("the files of an attempt at %s could not be deleted", assignment.table)

    # -- the scheduler -------------------------------------------------------------------------------------------------

    def _enter(self, before: str | None) -> bool:
        """Register, unless another thread has done so since it was `before`; False when told to end meanwhile."""
        retries = replace(_GONE, sleep=self._rest).start()
        settings = self._settings
        with self._entering:
            while not self._is_stopping:
                if before is not None and self._seat.workerId != before:
                    return True
                try:
                    self._seat = self._client.enter(
                        version=VERSION,
                        group=settings.group,
                        threads=settings.threads,
                        memory=settings.memory,
                        place=settings.place,
                    )
                except NoSchedulerError as error:
                    logger.warning("There is nobody to work for, it is tried again: %s", error)
                    retries.pause()
                else:
                    logger.info("Registered for group %s as %s", settings.group, self._seat.workerId)
                    return True
        return False

    def _beat_on(self) -> None:
        while not self._beats_end.wait(self._seat.leaseMillis / 1000 / _BEATS_OF_A_LEASE):
            try:
                self._beat()
            except NoSchedulerError as error:
                logger.warning("The scheduler does not hear this worker: %s", error)
            except WorkerRefusedError as error:
                self._refused = error
                self.stop()

    def _beat(self) -> None:
        worker_id = self._seat.workerId
        with self._guard:
            running = list(self._running)
        try:
            given_up = self._client.beat(worker_id, running)
        except UnknownWorkerError:
            self._enter(worker_id)
            return
        with self._guard:
            # What was brought meanwhile is not lost: its process may have ended since.
            news = [ref for ref in given_up if ref in self._running and ref not in self._told]
            self._told.update(news)
        for ref in news:
            logger.warning("Task %d of %s is not this worker's any more; its result will be refused", *_named(ref))

    def _drain(self) -> None:
        while self._running and time.monotonic() < self._deadline:
            self._wait(min(self._deadline - time.monotonic(), _DONE_WAIT_SECONDS))
        if self._running:
            logger.warning("%d task(s) did not end in time; others will do them", len(self._running))

    def _rest(self, seconds: float) -> None:
        """Wait, or until the worker is told to end, which shows after a while only."""
        until = time.monotonic() + seconds
        began_stopping = self._is_stopping
        while (left := until - time.monotonic()) > 0 and self._is_stopping == began_stopping:
            if self._beats_end.wait(min(left, _LOOK_SECONDS)):
                return

    def _wait(self, seconds: float) -> None:
        try:
            self._woken.get(timeout=max(seconds, 0.0))
        except queue.Empty:
            return


def _named(ref: TaskRef) -> tuple[int, str]:
    return ref.number, ref.process
