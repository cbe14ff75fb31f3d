"""Observers of calls, the health port, the reaper and the optimizer, assembled from the settings.

The optimizer is a process of its own on the server's database, which is restarted when it ends. It is started as
`interbed optimizer run` would be by hand, and ends when its standard input does, that is with this process, however
that ends. Several servers on one database may each have one: one of them is the leader, the others are standbys.
"""

import json
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import IO, TYPE_CHECKING

from interbed.catalog.server.auth.delegation.tokens import DelegationTokenService
from interbed.catalog.server.auth.issued_tokens import OptimizerIdentity
from interbed.catalog.server.ops.logs import AuditLog, SlowCallLog
from interbed.catalog.server.ops.metrics import CONTENT_TYPE, DatabaseFigures, MetricsPage, ServerMetrics
from interbed.catalog.server.ops.reaper import Reaper
from interbed.catalog.server.service.directories.guard import DeletionGuard
from interbed.catalog.server.service.errors import MetastoreError
from interbed.catalog.server.service.locks import LockService
from interbed.catalog.server.service.repository import Repository
from interbed.catalog.server.service.undrop.drops import Trash
from interbed.catalog.server.service.undrop.undrops import UndropService
from interbed.catalog.server.service.warehouse import directory_exists
from interbed.catalog.server.setting_checks import is_loopback
from interbed.catalog.server.settings import ServerSettings
from interbed.catalog.server.threads import SupervisedThread, ThreadDeaths
from interbed.catalog.server.thrift.edge.call import CallObserver
from interbed.storage.base.backoff import NO_JITTER, ExponentialBackoff
from interbed.storage.base.shown_text import without_credentials

if TYPE_CHECKING:
    from interbed.catalog.server.ops.health import HealthServer

logger = logging.getLogger(__name__)

DATABASE_VARIABLE = "INTERBED_OPTIMIZER_DB"
"""Environment variable of `interbed optimizer` for the journal's database. Not an argument: it may hold a password."""

_STDERR = 2

STOP_SECONDS_MAX = 15.0
RESTARTS = ExponentialBackoff(first_seconds=1.0, longest_seconds=60.0, jitter=NO_JITTER)
"""Back-off before an optimizer that has ended is restarted. It begins again after one that ran longer than the longest
pause.
"""

DISK_BYTES_MIN = 16 << 20
"""Free bytes on the disk of the warehouse, or of a database in a file, below which the server is not ready."""

HEALTH_LINE = "health and metrics on http://{host}:{port}/health/ready and /metrics"
"""Log line when the second port is open."""


class OptimizerBeside:
    """Keeps the optimizer's process alive from `start` to `stop`. `address` is where the server listens for it, and
    `identity` how it authenticates itself there, None if it need not.
    """

    def __init__(
        self,
        settings: ServerSettings,
        address: tuple[str, int],
        deaths: ThreadDeaths,
        *,
        identity: OptimizerIdentity | None = None,
        command: Sequence[str] = (sys.executable, "-m", "interbed.cli", "optimizer", "run"),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._command = [*command, *_arguments(settings, address, has_identity=identity is not None)]
        self._secrets = None if identity is None else _options(identity)
        self._environment = {**os.environ, DATABASE_VARIABLE: settings.db}
        self._clock = clock
        self._ending = threading.Event()
        self._guard = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._thread = SupervisedThread(self._run, name="optimizer", deaths=deaths)

    @property
    def pid(self) -> int | None:
        """The id of the running process."""
        with self._guard:
            return None if self._process is None else self._process.pid

    def start(self) -> None:
        """Start the thread that keeps the process alive."""
        self._thread.start()

    def stop(self) -> None:
        """End the process, and wait for it."""
        self._ending.set()
        with self._guard:
            if self._process is not None:
                self._process.terminate()
        if self._thread.is_alive():
            self._thread.join(timeout=STOP_SECONDS_MAX)
        with self._guard:
            if self._process is not None and self._process.poll() is None:
                self._process.kill()

    def _run(self) -> None:
        restarts = replace(RESTARTS, sleep=self._ending.wait).start("the optimizer", logger, logging.WARNING)
        while not self._ending.is_set():
            begun = self._clock()
            code = self._run_process()
            if self._ending.is_set():
                return
            if self._clock() - begun > RESTARTS.longest_seconds:
                restarts.reset()
            restarts.pause(f"the process has ended with code {code}")

    def _run_process(self) -> int:
        """Start the process and wait for its end; return its exit code."""
        with self._guard:
            if self._ending.is_set():
                return 0
            # Its output goes to the log: standard output is reserved for the server's first line.
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=_STDERR, env=self._environment
            )
            process, pipe = self._process, self._process.stdin
            if self._secrets is not None and pipe is not None:
                with suppress(BrokenPipeError):
                    pipe.write(self._secrets)
                    pipe.flush()
        logger.info("the optimizer is process %d", process.pid)
        try:
            return process.wait()
        finally:
            _close(pipe)


def _options(identity: OptimizerIdentity) -> bytes:
    """Return the options by which the optimizer authenticates itself, as a line for its standard input."""
    given = {
        "hive.metastore.client.auth.mode": "PLAIN",
        "hive.metastore.client.plain.username": identity.user,
        "token": identity.token,
    }
    return json.dumps(given).encode() + b"\n"


def _arguments(settings: ServerSettings, address: tuple[str, int], *, has_identity: bool) -> list[str]:
    host, port = address
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    uri = f"thrift://[{host}]:{port}" if ":" in host else f"thrift://{host}:{port}"
    arguments = ["-o", "metastore=hive", "-o", f"uri={uri}", "--until-stdin-ends"]
    if has_identity:
        arguments.append("--options-from-stdin")
    elif settings.transport == "framed":
        arguments += ["-o", "hive.metastore.thrift.framed.transport.enabled=true"]
    if settings.optimizer_groups is not None:
        arguments += ["--groups", str(settings.optimizer_groups)]
    # Workers are not authenticated: beside a server that authenticates its clients they are on this machine.
    workers = settings.host if not has_identity or is_loopback(settings.host) else "127.0.0.1"
    return [*arguments, "--host", workers, "--port", str(settings.optimizer_port)]


def _close(pipe: IO[bytes] | None) -> None:
    if pipe is not None:
        pipe.close()


def metrics_for(settings: ServerSettings, directory: Path | None) -> ServerMetrics | None:
    """Return the counters, None without a port on which to query them. `directory` is for several processes."""
    return None if settings.health_port is None else ServerMetrics(directory)


def observers_for(settings: ServerSettings, metrics: ServerMetrics | None) -> list[CallObserver]:
    """Return the observers of every call. MetastoreError if the audit log cannot be written."""
    observers: list[CallObserver] = [SlowCallLog(settings.slow_call_seconds)]
    if settings.audit_log is not None:
        try:
            observers.append(AuditLog(None if str(settings.audit_log) == "-" else settings.audit_log))
        except OSError as error:
            raise MetastoreError(f"cannot write the audit log {settings.audit_log}: {error.strerror}") from error
    if metrics is not None:
        observers.append(metrics)
    return observers


class ServerOperations:
    """The threads of the supervising process: health port and reaper. The death of one of them, or of another thread
    with the same `deaths`, makes the server unready; `workers_problem` returns the problem of other processes.

    `store` and `locks` are this process's own; `workers` counts the processes that serve. With the `address` where the
    server listens for it an optimizer may run beside it, with the identity `optimizer`. MetastoreError if the health
    port is not available.
    """

    def __init__(
        self,
        settings: ServerSettings,
        store: Repository,
        locks: LockService,
        metrics: ServerMetrics | None,
        *,
        warehouse: str,
        workers: Callable[[], int] = lambda: 1,
        workers_problem: Callable[[], str | None] = lambda: None,
        deaths: ThreadDeaths | None = None,
        trash: Trash | None = None,
        dropped: UndropService | None = None,
        guard: DeletionGuard | None = None,
        delegation: DelegationTokenService | None = None,
        address: tuple[str, int] | None = None,
        optimizer: OptimizerIdentity | None = None,
    ) -> None:
        self._deaths = deaths if deaths is not None else ThreadDeaths()
        self._problem_of_workers = workers_problem
        self._store = store
        self._locks = locks
        self._warehouse = warehouse
        self._workers = workers
        self._database_directory = _directory_of(settings.db)
        self._reaper = Reaper(
            store,
            locks,
            every_seconds=settings.reaper_seconds,
            events_ttl_seconds=settings.events_ttl_seconds,
            history_seconds=settings.history_seconds,
            history_entries_max=settings.history_entries_max,
            deaths=self._deaths,
            trash=trash,
            dropped=dropped,
            guard=guard,
            delegation=delegation,
        )
        self._optimizer: OptimizerBeside | None = None
        if settings.optimizer == "on" and address is not None:
            self._optimizer = OptimizerBeside(settings, address, self._deaths, identity=optimizer)
        self._health: HealthServer | None = None
        if settings.health_port is not None and metrics is not None:
            self._health = self._health_server(settings, settings.health_port, metrics)

    @property
    def health_address(self) -> tuple[str, int] | None:
        """Host and port of the second port, None if there is none."""
        return None if self._health is None else self._health.address

    def not_ready_because(self) -> list[str]:
        """Reasons why the server is not ready; none if it is, or without a health port."""
        return [] if self._health is None else self._health.reasons()

    def start(self) -> None:
        """Start the threads and the optimizer."""
        self._reaper.start()
        if self._health is not None:
            self._health.start()
            host, port = self._health.address
            logger.info(HEALTH_LINE.format(host=f"[{host}]" if ":" in host else host, port=port))
        if self._optimizer is not None:
            self._optimizer.start()

    def end_soon(self) -> None:
        """Report the server as not ready from now on, because it is stopping. Safe in a signal handler."""
        if self._health is not None:
            self._health.end_soon()

    def stop(self) -> None:
        """End the threads, and before them the optimizer, which is a client of this server."""
        if self._optimizer is not None:
            self._optimizer.stop()
        self._reaper.stop()
        if self._health is not None:
            self._health.stop()

    def _health_server(self, settings: ServerSettings, port: int, metrics: ServerMetrics) -> "HealthServer":
        # Only servers with this port load it.
        from interbed.catalog.server.ops.health import HealthServer

        try:
            return HealthServer(
                settings.health_host,
                port,
                checks={
                    "database": self._database_problem,
                    "warehouse": self._warehouse_problem,
                    "workers": self._workers_problem,
                    "threads": self._deaths.problem,
                },
                metrics=MetricsPage(metrics, self._figures_in_time(), self._workers).render,
                metrics_content_type=CONTENT_TYPE,
                deaths=self._deaths,
            )
        except OSError as error:
            raise MetastoreError(
                f"cannot listen on the health port {settings.health_host}:{port}: {error.strerror or error}"
            ) from error

    def _figures_in_time(self) -> Callable[[], DatabaseFigures | None]:
        from interbed.catalog.server.ops.health import Probe

        probe = Probe(self._figures, name="figures", deaths=self._deaths)

        def figures() -> DatabaseFigures | None:
            try:
                return probe()
            except TimeoutError:
                return None

        return figures

    def _figures(self) -> DatabaseFigures | None:
        try:
            locks = self._locks.figures()
            event_id = self._store.read(lambda transaction: transaction.events.current())
        except MetastoreError as error:
            logger.warning("no figures of the database: %s", error)
            return None
        return DatabaseFigures(
            locks_acquired=locks.acquired,
            locks_waiting=locks.waiting,
            locks_stale=locks.stale,
            locks_expired_total=locks.expired_total,
            event_id=event_id,
        )

    def _database_problem(self) -> str | None:
        try:
            self._store.read(lambda transaction: transaction.events.current())
        except MetastoreError as error:
            return without_credentials(str(error))
        if self._database_directory is not None and (left := _bytes_left(self._database_directory)) < DISK_BYTES_MIN:
            return f"the disk of {self._database_directory} has {left} bytes left"
        return None

    def _warehouse_problem(self) -> str | None:
        if self._warehouse.startswith("file:"):
            path = self._warehouse.removeprefix("file:")
            if not os.path.isdir(path):
                return f"{path} is no directory"
            if (left := _bytes_left(path)) < DISK_BYTES_MIN:
                return f"the disk of {path} has {left} bytes left"
            return None if os.access(path, os.W_OK | os.X_OK) else f"{path} is not writable"
        try:
            directory_exists(self._warehouse)
        except MetastoreError as error:
            return str(error)
        return None

    def _workers_problem(self) -> str | None:
        return self._problem_of_workers() if self._workers() > 0 else "no process serves"


def _directory_of(db: str) -> str | None:
    """Return the directory of a database in a file, None for another one."""
    path = db.partition("?")[0].removeprefix("sqlite:///")
    return None if path == db.partition("?")[0] else os.path.dirname(os.path.abspath(path))


def _bytes_left(directory: str) -> int:
    try:
        found = os.statvfs(directory)
    except OSError:
        # Other checks report that it is missing.
        return DISK_BYTES_MIN
    return found.f_bavail * found.f_frsize
