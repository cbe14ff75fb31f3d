"""The optimizer and its workers as processes that tests kill, stop and inspect."""

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from interbed.optimizer.flow.tables import Worker
from interbed.optimizer.journal.sql import SqlJournal
from tests.support.servers.forked import start_python
from tests.support.waits import at_most, wait_until

DEADLINE_SECONDS = at_most(180.0)
"""Time limit of waits: longer than the pause before a worker that died young is restarted."""


def until(condition: Callable[[], bool], what: str, seconds: float = DEADLINE_SECONDS) -> None:
    """Poll until the condition holds, for conditions without an event to wait for."""
    wait_until(condition, what, seconds)


@dataclass(frozen=True, slots=True)
class OptimizerProcess:
    """Process of `interbed optimizer run`; its standard error goes into the log."""

    process: "subprocess.Popen[bytes]"
    uri: str
    journal: Path
    log: Path

    def next_process(self, seconds: float = DEADLINE_SECONDS) -> dict[str, Any]:
        """Return the next process of the optimizer that ends."""
        found = _next_event(self.process, self.log, seconds)
        assert found["event"] == "process"
        return found

    def workers(self) -> Sequence[Worker]:
        """Return the workers in the journal."""
        journal = SqlJournal(f"sqlite:///{self.journal}")
        try:
            return journal.workers()
        finally:
            journal.close()

    def has_processes(self) -> bool:
        """Return whether there are processes of the optimizer that have not ended."""
        journal = SqlJournal(f"sqlite:///{self.journal}")
        try:
            return any(not process.state.has_ended for process in journal.processes())
        finally:
            journal.close()

    def local_workers(self) -> list[psutil.Process]:
        """Return the worker processes that it has started."""
        return [p for p in psutil.Process(self.process.pid).children() if p.status() != psutil.STATUS_ZOMBIE]

    def stop(self) -> None:
        """End it by SIGTERM; its workers end before it does."""
        local = self.local_workers()
        self.process.terminate()
        assert self.process.wait(DEADLINE_SECONDS) == 0, self.log.read_text()
        assert not [p for p in local if is_alive(p)]


def is_alive(process: psutil.Process) -> bool:
    """Return whether a process runs; a zombie does not."""
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


@contextmanager
def optimizing(
    directory: Path, catalog: Mapping[str, str], *arguments: str, name: str = "optimizer"
) -> Iterator[OptimizerProcess]:
    """Run the service on a catalog, with its journal in the directory; kill it at the end unless it has ended."""
    journal, log = directory / "journal.db", directory / f"{name}.log"
    command = [sys.executable, "-m", "interbed.cli", "optimizer", "run", "--json", "--interval", "0.1"]
    command += ["--look", "0.1", "--db", f"sqlite:///{journal}", "--log-level", "INFO", *options(catalog), *arguments]
    # Its children, which may outlive it for a moment, write there, too.
    with log.open("ab") as said, start_python(command, stdout=subprocess.PIPE, stderr=said, bufsize=0) as process:
        try:
            listening = _next_event(process, log, DEADLINE_SECONDS)
            assert listening["event"] == "listening"
            yield OptimizerProcess(process, listening["uri"], journal, log)
        finally:
            if process.poll() is None:
                process.kill()


@contextmanager
def working(
    uri: str, directory: Path, *arguments: str, program: Sequence[str] = ()
) -> "Iterator[subprocess.Popen[bytes]]":
    """Run a remote worker; kill it at the end unless it has ended."""
    command = program or [sys.executable, "-m", "interbed.cli", "optimizer", "worker", "--log-level", "INFO"]
    with (
        (directory / "worker.log").open("ab") as said,
        start_python([*command, "--uri", uri, *arguments], stderr=said) as process,
    ):
        try:
            yield process
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)


def options(catalog: Mapping[str, str]) -> list[str]:
    """Return the options of a catalog as command line arguments."""
    return [text for key, value in catalog.items() for text in ("-o", f"{key}={value}")]


def wait_until_stopped(process: "subprocess.Popen[bytes]") -> None:
    """Wait until a child of this process has been stopped by a signal."""
    until(lambda: psutil.Process(process.pid).status() == psutil.STATUS_STOPPED, "the worker stops")


def resume(process: "subprocess.Popen[bytes]") -> None:
    """Resume a process that was stopped."""
    os.kill(process.pid, signal.SIGCONT)


def _next_event(process: "subprocess.Popen[bytes]", log: Path, seconds: float) -> dict[str, Any]:
    assert process.stdout is not None
    assert select.select([process.stdout], [], [], seconds)[0], f"it said nothing:\n{log.read_text()}"
    line = process.stdout.readline()
    assert line, f"it ended with {process.wait(DEADLINE_SECONDS)}:\n{log.read_text()}"
    found: dict[str, Any] = json.loads(line)
    return found
