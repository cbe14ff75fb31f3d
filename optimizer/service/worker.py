"""A worker: a process that carries out tasks of one group, for a scheduler here or elsewhere.

It registers, gets the options of the catalog, and asks for tasks while it has free threads. At a third of its lease it
sends a heartbeat with its running attempts. It sends each result until the scheduler answers, also after lost
connections and changes of the scheduler. It deletes the files of a superseded result, and leaves the files of a process
that the scheduler does not know any more.

A task is never interrupted: one that the worker is to give up runs to its end, and its result is refused.
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
from interbed.optimizer.flow.process import (
    NoSchedulerError,
    ResultStatus,
    TaskAssignment,
    TaskOutcome,
    TaskRef,
    UnknownWorkerError,
    WorkerRefusedError,
)
from interbed.optimizer.flow.tables import DEFAULT_GROUP
from interbed.optimizer.service.scheduler_client import SchedulerClient
from interbed.optimizer.work.lake_tables import carry_out, delete_result
from interbed.storage.base.backoff import NO_JITTER, ExponentialBackoff
from interbed.storage.base.errors import CommitFailedError, InterbedError
from interbed.thrift_idl.optimizing.constants import VERSION

logger = logging.getLogger(__name__)

_IDLE = ExponentialBackoff(first_seconds=0.1, longest_seconds=1.0, jitter=NO_JITTER)
"""Pauses between polls without tasks."""
_UNREACHABLE = ExponentialBackoff(first_seconds=0.1, longest_seconds=10.0, jitter=NO_JITTER)
"""Pauses between calls without an answer of the scheduler."""
_BEATS_OF_A_LEASE = 3
_DONE_WAIT_SECONDS = 1.0
_LOOK_SECONDS = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings:
    """Settings of a worker. The threads share `memory` bytes; `place` is host:pid.

    After `stop` running tasks have `drain_seconds`. With `idle_seconds` the worker ends after that time without tasks.
    """

    group: str = DEFAULT_GROUP
    threads: int = 1
    memory: int = 1 << 30
    place: str = ""
    drain_seconds: float = 300.0
    idle_seconds: float | None = None


OpenCatalog = Callable[[str, Mapping[str, str]], Catalog]
"""Opens the catalog of a name with the options that the scheduler has sent."""


def opened_with(own: Mapping[str, str]) -> OpenCatalog:
    """Return a function that opens the catalog with the worker's own options, such as secrets, on top of the others."""
    return lambda name, given: open_catalog(name, {**given, **own})


class OptimizerWorker:
    """Worker of one group, on the catalog that `open_catalog` opens."""

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
        self._registering = threading.Lock()
        self._running: dict[TaskRef, threading.Thread] = {}
        self._given_up: set[TaskRef] = set()
        self._registration: Any = None
        self._refused: WorkerRefusedError | None = None
        self._is_stopping = False
        self._deadline = float("inf")
        self._beats_end = threading.Event()
        # A SimpleQueue may be used in a handler of signals.
        self._wake_ups: queue.SimpleQueue[None] = queue.SimpleQueue()

    def stop(self) -> None:
        """Take no more tasks, finish the running ones, and end; safe in handlers of signals."""
        self._deadline = time.monotonic() + self._settings.drain_seconds
        self._is_stopping = True
        self._wake_ups.put(None)

    def run(self) -> None:
        """Work until `stop`. Raises WorkerRefusedError, and the errors of opening the catalog."""
        if not self._register(None):
            return
        beating = threading.Thread(target=self._beat_on, name="optimizer-beat", daemon=True)
        beating.start()
        try:
            with self._open_catalog(self._registration.catalogName, self._registration.catalogOptions) as catalog:
                self._work(catalog)
                self._drain()
        finally:
            self._beats_end.set()
            beating.join(_DONE_WAIT_SECONDS)
            try:
                self._client.leave(self._registration.workerId)
            except NoSchedulerError as error:
                logger.info("The end of this worker can't be reported: %s", error)
        if self._refused is not None:
            raise self._refused

    def _work(self, catalog: Catalog) -> None:
        idle = replace(_IDLE, sleep=self._wait).start()
        unreachable = replace(_UNREACHABLE, sleep=self._wait).start()
        busy_until = time.monotonic()
        while not self._is_stopping:
            free = self._settings.threads - len(self._running)
            given: list[TaskAssignment] = []
            if free > 0:
                try:
                    given = self._poll(free)
                except NoSchedulerError as error:
                    logger.warning("Trying again: %s", error)
                    unreachable.pause()
                    continue
                unreachable.reset()
            for assignment in given:
                self._begin(catalog, assignment)
            if given or self._running:
                busy_until = time.monotonic()
            elif self._settings.idle_seconds is not None and (
                time.monotonic() - busy_until >= self._settings.idle_seconds
            ):
                logger.info("This worker ends after %.0f s without tasks", self._settings.idle_seconds)
                return
            if given or free <= 0:
                idle.reset()
            if len(given) < max(free, 1):
                # The end of a task ends the pause.
                if free > 0:
                    idle.pause()
                else:
                    self._wait(_UNREACHABLE.longest_seconds)

    def _poll(self, free: int) -> list[TaskAssignment]:
        worker_id = self._registration.workerId
        try:
            return self._client.poll(worker_id, free)
        except UnknownWorkerError:
            self._register(worker_id)
            return []

    # -- attempts ------------------------------------------------------------------------------------------------------

    def _begin(self, catalog: Catalog, assignment: TaskAssignment) -> None:
        ref = assignment.ref
        name = f"{assignment.kind} of {assignment.table}"
        thread = threading.Thread(target=self._carry, args=(catalog, assignment), name=name, daemon=True)
        with self._guard:
            self._running[ref] = thread
        thread.start()

    def _carry(self, catalog: Catalog, assignment: TaskAssignment) -> None:
        try:
            outcome = self._outcome(catalog, assignment)
            status = self._complete(assignment.ref, outcome)
            if status is not ResultStatus.ACCEPTED:
                logger.warning("The result of %s of %s is %s", assignment.kind, assignment.table, status)
            if status is ResultStatus.SUPERSEDED:
                self._delete_result(catalog, assignment, outcome)
        finally:
            with self._guard:
                self._running.pop(assignment.ref, None)
                self._given_up.discard(assignment.ref)
            self._wake_ups.put(None)

    def _outcome(self, catalog: Catalog, assignment: TaskAssignment) -> TaskOutcome:
        share = self._settings.memory // self._settings.threads
        try:
            return carry_out(catalog, assignment, memory=share)
        except CommitFailedError as error:
            logger.info("%s of %s: %s", assignment.kind, assignment.table, error)
            return TaskOutcome(failure=str(error))
        except Exception as error:
            # The scheduler decides about the task after any error.
            logger.exception("%s of %s has failed", assignment.kind, assignment.table)
            return TaskOutcome(failure=f"{type(error).__name__}: {error}")

    def _complete(self, ref: TaskRef, outcome: TaskOutcome) -> ResultStatus:
        retries = replace(_UNREACHABLE, sleep=self._back_off).start()
        while True:
            try:
                return self._client.complete(ref, outcome)
            except NoSchedulerError as error:
                if time.monotonic() >= self._deadline:
                    logger.warning(
                        "The result of a task can't be sent before this worker ends; its files stay: %s", error
                    )
                    return ResultStatus.UNKNOWN
                logger.warning("The result of a task can't be sent; trying again: %s", error)
            retries.pause()

    def _delete_result(self, catalog: Catalog, assignment: TaskAssignment, outcome: TaskOutcome) -> None:
        try:
            delete_result(catalog, assignment, outcome)
        except (InterbedError, OSError):
            # The removal of orphan files finds them.
            logger.exception("Files of an attempt at %s could not be deleted", assignment.table)

    # -- the scheduler -------------------------------------------------------------------------------------------------

    def _register(self, before: str | None) -> bool:
        """Register, unless another thread has replaced the registration `before`; return False after `stop`."""
        retries = replace(_UNREACHABLE, sleep=self._back_off).start()
        settings = self._settings
        with self._registering:
            while not self._is_stopping:
                if before is not None and self._registration.workerId != before:
                    return True
                try:
                    self._registration = self._client.enter(
                        version=VERSION,
                        group=settings.group,
                        threads=settings.threads,
                        memory=settings.memory,
                        place=settings.place,
                    )
                except NoSchedulerError as error:
                    logger.warning("Trying again: %s", error)
                    retries.pause()
                else:
                    logger.info("Registered for group %s as %s", settings.group, self._registration.workerId)
                    return True
        return False

    def _beat_on(self) -> None:
        while not self._beats_end.wait(self._registration.leaseMillis / 1000 / _BEATS_OF_A_LEASE):
            try:
                self._beat()
            except NoSchedulerError as error:
                logger.warning("The heartbeat of this worker can't be sent: %s", error)
            except WorkerRefusedError as error:
                self._refused = error
                self.stop()

    def _beat(self) -> None:
        worker_id = self._registration.workerId
        with self._guard:
            running = list(self._running)
        try:
            given_up = self._client.beat(worker_id, running)
        except UnknownWorkerError:
            self._register(worker_id)
            return
        with self._guard:
            # Without attempts whose results were sent meanwhile: their processes may have ended since.
            news = [ref for ref in given_up if ref in self._running and ref not in self._given_up]
            self._given_up.update(news)
        for ref in news:
            logger.warning("Task %d of %s was given to another worker; this result will be refused", *_named(ref))

    def _drain(self) -> None:
        while self._running and time.monotonic() < self._deadline:
            self._wait(min(self._deadline - time.monotonic(), _DONE_WAIT_SECONDS))
        if self._running:
            logger.warning("%d task(s) did not end in time; other workers will do them again", len(self._running))

    def _back_off(self, seconds: float) -> None:
        """Wait for that time, or until `stop`, which is noticed within `_LOOK_SECONDS`."""
        until = time.monotonic() + seconds
        began_stopping = self._is_stopping
        while (left := until - time.monotonic()) > 0 and self._is_stopping == began_stopping:
            if self._beats_end.wait(min(left, _LOOK_SECONDS)):
                return

    def _wait(self, seconds: float) -> None:
        try:
            self._wake_ups.get(timeout=max(seconds, 0.0))
        except queue.Empty:
            return


def _named(ref: TaskRef) -> tuple[int, str]:
    return ref.number, ref.process
