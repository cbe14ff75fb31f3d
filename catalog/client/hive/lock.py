"""The lock of a table, as Paimon's Hive catalog takes it, so that writers of both kinds exclude each other.

The lock is one EXCLUSIVE component on the table, which need not exist yet. interbed's metastore answers check_lock when
the lock is granted. Hive's metastore answers at once. There a request that is not granted is withdrawn and repeated
after a pause, for up to 30 s; then it stays in the queue and is checked. Hive serves `lock` and `unlock` one by one,
but a check_lock keeps its row of the database locked while it waits for another one, so that concurrent checks fail on
Derby.

While the first request in the queue sleeps between two checks, no other one is granted. Pauses that grow to 8 s, as
Paimon's do, leave the lock idle when there are many requests. A request that is withdrawn between two tries blocks no
other one, so that the lock goes to the client that tries first after its release. So pauses depend on how busy the
metastore is, and there are none if the metastore itself waits.

While the lock is held, a thread sends heartbeats, five in a lease (300 s by default in every metastore), so that it
outlasts a long commit. It sends more if a metastore drops the locks of broken connections sooner, because the
connections of this client are short-lived. Paimon sends none; a commit of an hour would lose its lock there.
"""

import logging
import os
import random
import socket
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any, Self, TypeVar

from interbed.catalog.client.errors import CatalogError, CatalogUnavailableError, LockError, LockGoneError
from interbed.catalog.client.hive.client import HiveMetastoreClient
from interbed.catalog.client.hive.connection import CallStateUnknownError, current_user
from interbed.storage.base.backoff import ExponentialBackoff
from interbed.thrift_idl.hive_metastore import ttypes

FIRST_PAUSE_SECONDS = 0.1

PAUSE_SECONDS_MAX = 2.0

CHECKS_PAUSED, REQUESTS_PAUSED = 5.0, 2.0
"""The shortest pause, in durations of the check or request before it: a busy metastore is asked less often.

Concurrent checks fail, and concurrent requests are served one by one.
"""

REQUEST_PAUSE_SECONDS = 0.4
"""The mean pause between two requests: of eight clients, one asks within 50 ms after a release."""

T = TypeVar("T")

logger = logging.getLogger(__name__)

ACQUIRE_SECONDS_MAX = 480.0
CHECK_SLEEP_SECONDS_MAX = 8.0
HEARTBEAT_SECONDS = 60.0
"""A fifth of the default lease, for a metastore that does not report its lease."""

HEARTBEATS = 5
"""Heartbeats in a lease: three in a row may get lost."""

GRACE_HEARTBEATS = 2
"""Heartbeats in the time for which a metastore keeps a lock whose connections have broken."""

GRACE_HEARTBEAT_SECONDS_MIN = 0.1

REQUEST_SECONDS_MAX = 30.0
"""How long requests are withdrawn and repeated.

Later a fixed position in the queue is better, beside Java's writers.
"""

UNLOCKS = 2
"""Hive 4.0.1 may answer an unlock that its database made it repeat, and keep the lock nevertheless."""

CHECK_FAILURES_MAX = 6
"""How many checks of a lock that is waited for may fail in a row: its request stays in the queue."""

BACKOFF_SECONDS_MAX = 2.0

REQUEST_REFUSALS_MAX = 4
"""How often a metastore may refuse a request that it has not entered into the queue."""

REFUSALS_MAX = 8
"""How often a metastore may refuse to look for or to release a lock before that is left to its lease."""

_BACKOFF = ExponentialBackoff(first_seconds=0.1, longest_seconds=BACKOFF_SECONDS_MAX)
"""Pauses after calls that the metastore refused."""


_CHECKS = ExponentialBackoff(first_seconds=FIRST_PAUSE_SECONDS, longest_seconds=PAUSE_SECONDS_MAX)


@dataclass(slots=True, kw_only=True)
class CheckPace:
    """The pauses of one request that stays in the queue. No pause is longer than `longest_seconds`.

    `server_wait_seconds` is how long the metastore itself waits in check_lock.
    """

    longest_seconds: float
    server_wait_seconds: float = 0.0
    random: Callable[[], float] = field(default=random.random)
    _checks: int = 0

    def pause_seconds(self, check_seconds: float) -> float:
        """Return the pause before the next check, after one that took `check_seconds`."""
        if self.server_wait_seconds and check_seconds >= self.server_wait_seconds / 2:
            # The metastore has waited, and grants locks in the order of their requests.
            return 0.0
        pause = _CHECKS.longest_pause_seconds(self._checks)
        self._checks += 1
        # Clients that began at the same time must not check at the same time.
        return min(max(pause, CHECKS_PAUSED * check_seconds), self.longest_seconds) * (0.75 + 0.25 * self.random())


@dataclass(slots=True, kw_only=True)
class RequestPace:
    """The pauses of a client that withdraws its request and makes another one, up to `longest_seconds`."""

    longest_seconds: float
    random: Callable[[], float] = field(default=random.random)

    def pause_seconds(self, request_seconds: float) -> float:
        """Return the pause before the next request, after one that took `request_seconds`."""
        pause = max(REQUEST_PAUSE_SECONDS, REQUESTS_PAUSED * request_seconds) * (0.5 + self.random())
        return min(pause, self.longest_seconds)


class HiveCatalogLock:
    """The exclusive lock of one table, for a `with` block. Not for several threads; each commit makes its own.

    LockError if it is not granted in time; `ensure_held` raises it if the lease expired meanwhile.
    """

    def __init__(
        self,
        client: HiveMetastoreClient,
        database: str,
        table: str,
        *,
        acquire_timeout_seconds: float = ACQUIRE_SECONDS_MAX,
        check_max_sleep_seconds: float = CHECK_SLEEP_SECONDS_MAX,
        heartbeat_seconds: float | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._client = client
        self._database = database
        self._table = table
        self._acquire_timeout_seconds = acquire_timeout_seconds
        self._check_max_sleep_seconds = check_max_sleep_seconds
        self._heartbeat_seconds = heartbeat_seconds
        self._clock = clock
        self._sleep = sleep
        self._backoff = replace(_BACKOFF, clock=clock, sleep=sleep)
        # The lock is found by this name if the reply to its request gets lost.
        self._agent = f"interbed-{os.getpid()}-{uuid.uuid4()}"
        self._lock_id: int | None = None
        self._requested_id: int | None = None
        self._server_wait_seconds = 0.0
        self._may_have_strays = False
        self._lost: str | None = None
        self._released = threading.Event()
        self._heartbeats: threading.Thread | None = None

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.release()

    def acquire(self) -> None:
        """Take the lock, waiting for at most the acquire timeout.

        LockError names the table and the holder of the lock.
        """
        if self._lock_id is not None:
            raise LockError(f"the lock of {self._database}.{self._table} is held by this object already")
        deadline = self._clock() + self._acquire_timeout_seconds
        pause_seconds = self._heartbeat_seconds or _heartbeat_seconds(self._client)
        self._server_wait_seconds = _configured(self._client.lock_wait_seconds) or 0.0
        response = self._request()
        try:
            if not self._server_wait_seconds:
                response = self._request_again(response, deadline)
            response = self._wait(response, deadline)
        except BaseException:
            # Also when the wait is interrupted: an abandoned request blocks all requests after it.
            if self._requested_id is not None:
                self._unlock(self._requested_id)
            raise
        lock_id: int = response.lockid
        if response.state != ttypes.LockState.ACQUIRED:
            holder = self._holder(lock_id)
            self._unlock(lock_id)
            raise LockError(
                f"could not lock table {self._database}.{self._table} within {self._acquire_timeout_seconds:g} s"
                f"{holder}; see the metastore's show_locks"
            )
        self._lock_id = lock_id
        self._lost = None
        self._released.clear()
        self._heartbeats = threading.Thread(
            target=self._send_heartbeats, args=(lock_id, pause_seconds), name=f"lock {lock_id}", daemon=True
        )
        self._heartbeats.start()

    def release(self) -> None:
        """Release the lock; never raise for a metastore that cannot be reached, because the lease will expire."""
        lock_id, self._lock_id = self._lock_id, None
        if lock_id is None:
            return
        self._released.set()
        if self._heartbeats is not None:
            # The thread may be within a call, which has a timeout of its own.
            self._heartbeats.join(timeout=HEARTBEAT_SECONDS)
            self._heartbeats = None
        if self._may_have_strays:
            self._release_strays(lock_id)
        self._unlock(lock_id)

    @property
    def is_held(self) -> bool:
        """Whether the lock is held, as far as is known."""
        return self._lock_id is not None and self._lost is None

    def ensure_held(self) -> None:
        """Raise LockError if the lock is not held, or if the metastore dropped it meanwhile."""
        if self._lock_id is None:
            raise LockError(f"the lock of {self._database}.{self._table} is not held")
        if self._lost is not None:
            raise LockError(f"the lock of {self._database}.{self._table} was lost: {self._lost}")

    def _request(self) -> Any:
        request = ttypes.LockRequest(
            component=[
                ttypes.LockComponent(
                    type=ttypes.LockType.EXCLUSIVE,
                    level=ttypes.LockLevel.TABLE,
                    dbname=self._database,
                    tablename=self._table,
                )
            ],
            user=current_user(),
            hostname=socket.gethostname(),
            agentInfo=self._agent,
        )
        response = self._repeated(
            "the request for the lock", lambda: self._entered(request), retries=REQUEST_REFUSALS_MAX
        )
        self._requested_id = response.lockid
        return response

    def _entered(self, request: Any) -> Any:
        """Return the LockResponse of a request that is in the queue of the metastore, exactly once
        even after errors.
        """
        try:
            return self._client.lock(request)
        except CallStateUnknownError:
            for element in self._own():
                return ttypes.LockResponse(lockid=element.lockid, state=element.state)
            # The first request may still be executed later; `_release_strays` finds its lock.
            self._may_have_strays = True
            return self._client.lock(request)
        except CatalogUnavailableError:
            raise
        except CatalogError:
            # A request is entered before the metastore checks whether the lock is free. When the second step fails, as
            # for a deadlock in Hive's database, the request stays in the queue, ahead of all later ones.
            for element in self._own():
                logger.info("lock %d of %s.%s was entered, but failed", element.lockid, self._database, self._table)
                return ttypes.LockResponse(lockid=element.lockid, state=element.state)
            # It was not entered, so repeating it enters one request.
            raise

    def _own(self) -> list[Any]:
        """Return the locks in the metastore that this object requested."""
        found = self._repeated("looking for locks", lambda: self._client.show_locks(self._database, self._table))
        return [element for element in found if element.agentInfo == self._agent]

    def _release_strays(self, lock_id: int) -> None:
        """Release the lock of a request whose reply was lost.

        No other process would release it, and it may be ahead of this object's own request.
        """
        try:
            for element in self._own():
                if element.lockid != lock_id:
                    self._unlock(element.lockid)
        except CatalogError as error:
            logger.warning("could not look for lost locks of %s.%s: %s", self._database, self._table, error)

    def _request_again(self, response: Any, deadline: float) -> Any:
        """Withdraw a request that is not granted and repeat it after a pause; return the last response."""
        pace = RequestPace(longest_seconds=self._check_max_sleep_seconds)
        until = min(self._clock() + REQUEST_SECONDS_MAX, deadline)
        request_seconds = 0.0
        while response.state == ttypes.LockState.WAITING and (left := until - self._clock()) > 0:
            if self._may_have_strays:
                self._release_strays(response.lockid)
            if not self._unlock(response.lockid):
                # It is still in the queue, ahead of a new one.
                return response
            self._requested_id = None
            self._sleep(min(pace.pause_seconds(request_seconds), left))
            began = self._clock()
            response = self._request()
            request_seconds = self._clock() - began
        return response

    def _wait(self, response: Any, deadline: float) -> Any:
        if response.state != ttypes.LockState.WAITING:
            return response
        pace = CheckPace(longest_seconds=self._check_max_sleep_seconds, server_wait_seconds=self._server_wait_seconds)
        failures = 0
        # A metastore that waits itself is asked at once.
        pause_seconds = 0.0 if pace.server_wait_seconds else pace.pause_seconds(0.0)
        while response.state == ttypes.LockState.WAITING:
            if self._may_have_strays:
                self._release_strays(response.lockid)
            left = deadline - self._clock()
            if left <= 0:
                break
            if failures:
                # The cause of a failure, such as statements that wait for each other, needs time to end.
                pause_seconds = max(pause_seconds, self._backoff.pause_seconds(failures - 1))
            self._sleep(min(pause_seconds, left))
            asked_at = self._clock()
            try:
                response = self._client.check_lock(response.lockid)
            except LockGoneError as error:
                raise LockError(
                    f"the metastore dropped the request for the lock of {self._database}.{self._table}: {error}"
                ) from error
            except CatalogError as error:
                # The request is still in the queue.
                failures += 1
                if failures > CHECK_FAILURES_MAX:
                    raise
                logger.info("lock %d of %s.%s: %s", response.lockid, self._database, self._table, error)
            else:
                failures = 0
            pause_seconds = pace.pause_seconds(self._clock() - asked_at)
        return response

    def _holder(self, lock_id: int) -> str:
        try:
            ahead = [
                element for element in self._client.show_locks(self._database, self._table) if element.lockid < lock_id
            ]
        except CatalogError as error:
            logger.info("could not find the holder of the lock of %s.%s: %s", self._database, self._table, error)
            return ""
        if not ahead:
            return ""
        held = [element for element in ahead if element.state == ttypes.LockState.ACQUIRED]
        if not held:
            first = ahead[0]
            return f": lock {first.lockid}, asked for by {first.user} on {first.hostname}, waits before it"
        holder = held[0]
        seconds = max(0.0, time.time() - (holder.acquiredat or 0) / 1000)
        return f": lock {holder.lockid} is held by {holder.user} on {holder.hostname} since {seconds:.0f} s"

    def _unlock(self, lock_id: int) -> bool:
        """Release a lock, or withdraw a request; return whether the metastore did. A lock that stays is logged."""
        try:
            for _ in range(1 if self._server_wait_seconds else UNLOCKS):
                # A lock that stays, even one that only waits, blocks all requests after it.
                self._repeated("releasing a lock", lambda: self._client.unlock(lock_id))
        except CatalogError as error:
            logger.warning(
                "could not release lock %d of %s.%s, which ends with its lease: %s",
                lock_id,
                self._database,
                self._table,
                error,
            )
            return False
        return True

    def _repeated(self, what: str, call: Callable[[], T], *, retries: int = REFUSALS_MAX) -> T:
        """Return the result of a call that may be repeated, and is while the metastore refuses it."""
        loop = replace(self._backoff, retries=retries).start(f"{what} of {self._database}.{self._table}", logger)
        while True:
            try:
                return call()
            except CatalogUnavailableError:
                raise
            except CatalogError as error:
                if not loop.pause(error):
                    raise

    def _send_heartbeats(self, lock_id: int, pause_seconds: float) -> None:
        while not self._released.wait(pause_seconds):
            try:
                self._client.heartbeat(lock_id)
            except LockGoneError as error:
                self._lost = str(error)
                logger.warning("lock %d of %s.%s was lost: %s", lock_id, self._database, self._table, error)
                return
            except CatalogUnavailableError as error:
                # The next one may get through before the lease ends.
                logger.warning("no heartbeat for lock %d: %s", lock_id, error)
            except CatalogError as error:
                self._lost = str(error)
                logger.warning("no more heartbeats for lock %d: %s", lock_id, error)
                return


def _heartbeat_seconds(client: HiveMetastoreClient) -> float:
    lease = _configured(client.lock_lease_seconds)
    seconds = HEARTBEAT_SECONDS if not lease else lease / HEARTBEATS
    grace = _configured(client.lock_disconnect_seconds)
    return min(seconds, max(grace / GRACE_HEARTBEATS, GRACE_HEARTBEAT_SECONDS_MIN)) if grace else seconds


def _configured(ask: Callable[[], float | None]) -> float | None:
    """Return a time of the metastore's configuration; None if it has no such setting."""
    try:
        return ask()
    except CatalogUnavailableError:
        raise
    except CatalogError as error:
        logger.info("The metastore does not say how long it keeps a lock: %s", error)
        return None
