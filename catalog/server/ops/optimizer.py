"""The optimizer beside the server: a process of its own, on the server's database, that is kept alive.

It is started as `interbed optimizer run` would be by hand, and ends when its standard input does, that is with this
process, however that ends. Several servers on one database may each have one: one of them works, the others stand by.
"""

import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import IO

from interbed.catalog.server.settings import ServerSettings
from interbed.catalog.server.threads import SupervisedThread, ThreadDeaths

logger = logging.getLogger(__name__)

DATABASE_VARIABLE = "INTERBED_OPTIMIZER_DB"
"""Where `interbed optimizer` looks for the journal's database. Not an argument: it may hold a password."""

_STDERR = 2

STOP_SECONDS_MAX = 15.0
PAUSE_SECONDS_MIN, PAUSE_SECONDS_MAX = 1.0, 60.0
"""One that ends is started again after a pause, twice as long each time that it did not live for as long."""


class OptimizerBeside:
    """Keeps the process alive from `start` to `stop`. `address` is where the server listens."""

    def __init__(
        self,
        settings: ServerSettings,
        address: tuple[str, int],
        deaths: ThreadDeaths,
        *,
        command: Sequence[str] = (sys.executable, "-m", "interbed.cli", "optimizer", "run"),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._command = [*command, *_arguments(settings, address)]
        self._environment = {**os.environ, DATABASE_VARIABLE: settings.db}
        self._clock = clock
        self._ending = threading.Event()
        self._guard = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._thread = SupervisedThread(self._run, name="optimizer", deaths=deaths)

    @property
    def pid(self) -> int | None:
        """The id of the process that runs now."""
        with self._guard:
            return None if self._process is None else self._process.pid

    def start(self) -> None:
        """Begin."""
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
        pause = PAUSE_SECONDS_MIN
        while not self._ending.is_set():
            begun = self._clock()
            code = self._live()
            if self._ending.is_set():
                return
            if self._clock() - begun > PAUSE_SECONDS_MAX:
                pause = PAUSE_SECONDS_MIN
            logger.warning("the optimizer has ended with code %s; it is started again in %.0f s", code, pause)
            self._ending.wait(pause)
            pause = min(2 * pause, PAUSE_SECONDS_MAX)

    def _live(self) -> int:
        """Start the process and wait for its end; its exit code."""
        with self._guard:
            if self._ending.is_set():
                return 0
            # What it says is for the log: the first line of standard output is the server's.
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=_STDERR, env=self._environment
            )
            process, pipe = self._process, self._process.stdin
        logger.info("the optimizer is process %d", process.pid)
        try:
            return process.wait()
        finally:
            _close(pipe)


def _arguments(settings: ServerSettings, address: tuple[str, int]) -> list[str]:
    host, port = address
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    uri = f"thrift://[{host}]:{port}" if ":" in host else f"thrift://{host}:{port}"
    arguments = ["-o", "metastore=hive", "-o", f"uri={uri}", "--until-stdin-ends"]
    if settings.transport == "framed":
        arguments += ["-o", "hive.metastore.thrift.framed.transport.enabled=true"]
    if settings.optimizer_groups is not None:
        arguments += ["--groups", str(settings.optimizer_groups)]
    return [*arguments, "--host", settings.host, "--port", str(settings.optimizer_port)]


def _close(pipe: IO[bytes] | None) -> None:
    if pipe is not None:
        pipe.close()
