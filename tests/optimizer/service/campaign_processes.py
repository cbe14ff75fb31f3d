"""Optimizer processes of a campaign, and the faults injected into them; killed processes are started again.

Two optimizers share one journal: one schedules, with workers of its own, while the other is the standby. A remote
worker knows both. A fault is a SIGKILL, or a SIGSTOP for longer than a lease.
"""

import json
import os
import random
import signal
import subprocess
import threading
import uuid
from collections.abc import Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import psutil
import pytest

from interbed.optimizer.journal.sql import SqlJournal
from interbed.storage.io.scratch import ScratchDirectory
from tests.optimizer.service.processes import DEADLINE_SECONDS, OptimizerProcess, is_alive, optimizing, working
from tests.support.servers.ports import free_ports

WORKERS = 2
"""Number of local workers of each optimizer."""
LEASE_MILLIS = 2_000
_HANG_SECONDS = 1.5 * LEASE_MILLIS / 1_000
_SETTINGS = {
    "lease": LEASE_MILLIS,
    "pause_first": 100,
    "pause_gave_way": 50,
    "expire_interval": 500,
    "orphans_interval": 20_000,
}
_MARK = "INTERBED_TEST_CAMPAIGN"


class Fault(StrEnum):
    """Fault and the process it is injected into."""

    KILL_WORKER = "local worker killed"
    KILL_REMOTE_WORKER = "remote worker killed"
    KILL_SCHEDULER = "scheduler killed"
    KILL_STANDBY = "stand-by killed"
    HANG_WORKER = "worker hung"
    HANG_SCHEDULER = "scheduler hung"

    @property
    def is_kill(self) -> bool:
        """Whether the fault ends its process."""
        return self not in (Fault.HANG_WORKER, Fault.HANG_SCHEDULER)


_WEIGHTS = {
    Fault.KILL_WORKER: 7,
    Fault.KILL_REMOTE_WORKER: 2,
    Fault.KILL_SCHEDULER: 3,
    Fault.KILL_STANDBY: 1,
    Fault.HANG_WORKER: 2,
    Fault.HANG_SCHEDULER: 2,
}
"""Relative frequency of each fault."""


@dataclass(frozen=True, slots=True)
class _RunningOptimizer:
    """An optimizer that runs until `end` or a kill; `ear` is the thread that reads its output."""

    optimizer: OptimizerProcess
    context: ExitStack
    reader: threading.Thread

    def kill(self) -> None:
        """End it by SIGKILL, unless it has ended."""
        self.optimizer.process.kill()
        self.reader.join(DEADLINE_SECONDS)
        self.context.close()


class OptimizerProcesses:
    """Context manager of the processes; kills the remaining ones at its end. Not thread-safe."""

    def __init__(self, directory: Path, catalog: Mapping[str, str]) -> None:
        """`directory` receives the journal, the logs, and local temporary files; `catalog` has the options of the
        catalog.
        """
        self._directory = directory
        self._scratch = directory / "scratch"
        self._catalog = catalog
        self._ports = free_ports(2)
        self._optimizers: list[_RunningOptimizer] = []
        self._remote_context = ExitStack()
        self._remote: subprocess.Popen[bytes] | None = None
        self._ended = 0
        self._news = threading.Condition()
        self._mark = uuid.uuid4().hex
        self._environment = pytest.MonkeyPatch()

    def __enter__(self) -> "OptimizerProcesses":
        self._scratch.mkdir()
        self._environment.setenv(_MARK, self._mark)
        self._environment.setenv("TMPDIR", str(self._scratch))
        self._optimizers += [self._start(number) for number in range(len(self._ports))]
        self._start_remote()
        return self

    def __exit__(self, *error: object) -> None:
        self._environment.undo()
        self._remote_context.close()
        for running in self._optimizers:
            running.kill()

    def inject_fault(self, chance: random.Random) -> Fault | None:
        """Inject a random fault; return it, or None when the chosen process does not run at the moment. A stopped
        process stays so for longer than a lease, and is resumed before this returns.
        """
        fault = chance.choices(list(_WEIGHTS), list(_WEIGHTS.values()))[0]
        scheduling = self._scheduling()
        match fault:
            case Fault.KILL_WORKER | Fault.HANG_WORKER:
                candidates = [worker for each in self._optimizers for worker in each.optimizer.local_workers()]
                if fault is Fault.HANG_WORKER and self._remote is not None:
                    candidates.append(psutil.Process(self._remote.pid))
                if not candidates:
                    return None
                victim = chance.choice(sorted(candidates, key=lambda worker: worker.pid))
                return fault if (_hang if fault is Fault.HANG_WORKER else _kill)(victim) else None
            case Fault.KILL_REMOTE_WORKER:
                self._start_remote()
                return fault
            case _:
                if scheduling is None:
                    return None
                if fault is Fault.HANG_SCHEDULER:
                    return fault if _hang(psutil.Process(self._optimizers[scheduling].optimizer.process.pid)) else None
                number = scheduling if fault is Fault.KILL_SCHEDULER else 1 - scheduling
                self._optimizers[number].kill()
                self._optimizers[number] = self._start(number)
                return fault

    def wait_for_processes(self, count: int, seconds: float) -> None:
        """Wait until `count` more processes of the optimizer have ended, for at most `seconds`."""
        with self._news:
            wanted = self._ended + count
            self._news.wait_for(lambda: self._ended >= wanted, seconds)

    def journal(self) -> SqlJournal:
        """Open the shared journal; the caller closes it."""
        return SqlJournal(f"sqlite:///{self._optimizers[0].optimizer.journal}")

    def stop(self) -> None:
        """Stop all in order: the remote worker, the standby, and the scheduler."""
        assert self._remote is not None
        self._remote.terminate()
        assert self._remote.wait(DEADLINE_SECONDS) == 0, "the remote worker did not end in good order"
        scheduling = self._scheduling()
        assert scheduling is not None, "no optimizer schedules"
        for number in (1 - scheduling, scheduling):
            self._optimizers[number].optimizer.stop()

    def alive(self) -> list[str]:
        """Return the live processes among those started here, and among their children."""
        found = [p for p in psutil.process_iter() if p.pid != os.getpid() and _has_mark(p, self._mark)]
        return [f"{p.pid} {' '.join(p.cmdline())}" for p in found if is_alive(p)]

    def left_on_disk(self) -> list[str]:
        """Return the files left on local disk after a new process has removed the leftovers of killed ones."""
        ScratchDirectory(self._scratch).close()
        return [path.name for path in self._scratch.iterdir()]

    def logs(self) -> str:
        """Return the logs of all processes."""
        return "".join(path.read_text(errors="replace") for path in sorted(self._directory.glob("*.log")))

    # -- inside --------------------------------------------------------------------------------------------------------

    def _start(self, number: int) -> _RunningOptimizer:
        arguments = ["--workers", str(WORKERS), "--port", str(self._ports[number])]
        for key, value in _SETTINGS.items():
            arguments += ["--setting", f"{key}={value}"]
        context = ExitStack()
        name = f"optimizer-{number}"
        optimizer = context.enter_context(optimizing(self._directory, self._catalog, *arguments, name=name))
        reader = threading.Thread(target=self._read_events, args=(optimizer,), name=name, daemon=True)
        reader.start()
        return _RunningOptimizer(optimizer, context, reader)

    def _start_remote(self) -> None:
        """Start the remote worker, after its predecessor was killed."""
        self._remote_context.close()
        uris = ",".join(f"thrift://127.0.0.1:{port}" for port in self._ports)
        self._remote = self._remote_context.enter_context(working(uris, self._directory))

    def _read_events(self, optimizer: OptimizerProcess) -> None:
        assert optimizer.process.stdout is not None
        for line in optimizer.process.stdout:
            # A kill may truncate the last line.
            if line.endswith(b"\n") and json.loads(line)["event"] == "process":
                with self._news:
                    self._ended += 1
                    self._news.notify_all()

    def _scheduling(self) -> int | None:
        """Return which of the two optimizers schedules; None while the lease belongs to a killed process."""
        with closing(self.journal()) as journal:
            lease = journal.holder()
        pids = [running.optimizer.process.pid for running in self._optimizers]
        # host:pid:number
        pid = 0 if lease is None else int(lease.holder.split(":")[-2])
        return pids.index(pid) if pid in pids else None


def _kill(process: psutil.Process) -> bool:
    """Kill a process; return whether it was running."""
    try:
        process.send_signal(signal.SIGKILL)
    except psutil.NoSuchProcess:
        return False
    return True


def _hang(process: psutil.Process) -> bool:
    """Stop a process for longer than a lease, then resume it; return whether it was running."""
    try:
        process.suspend()
        threading.Event().wait(_HANG_SECONDS)
        process.resume()
    except psutil.NoSuchProcess:
        return False
    return True


def _has_mark(process: psutil.Process, mark: str) -> bool:
    try:
        return bool(process.environ().get(_MARK) == mark)
    except (psutil.AccessDenied, psutil.NoSuchProcess, psutil.ZombieProcess):
        return False
