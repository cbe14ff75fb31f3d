"""The workers that the optimizer starts on its own machine, in the number that the file of groups has.

The file is read again when it changes; while it can't be read, the groups keep their settings. A worker that ends is
restarted, at once if it had run for `YOUNG_SECONDS`, otherwise after a back-off that doubles. Workers get SIGTERM when
their group needs fewer. All end with the optimizer, by the end of their standard input.

A worker is this module as a process: `python -m interbed.optimizer.service.local_workers`. Its settings come as one
line of JSON on standard input, options of the catalog with their secrets among them, so that no secret is on a command
line. When standard input ends, the optimizer has ended, and the worker ends at once. At SIGTERM it first finishes its
tasks.

    {"uri": "thrift://127.0.0.1:41234", "group": "default", "threads": 1, "memory": 1073741824,
     "options": {"warehouse": "file:/tmp/lake"}, "log_level": "WARNING"}
"""

import json
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from interbed.optimizer.flow.tables import ResourceGroup, read_groups
from interbed.optimizer.service.scheduler_client import SchedulerClient
from interbed.optimizer.service.worker import OptimizerWorker, WorkerSettings, opened_with
from interbed.storage.base.backoff import NO_JITTER, ExponentialBackoff
from interbed.storage.base.errors import InterbedError, InvalidInputError

LOG_FORMAT = "%(asctime)s %(levelname)s %(process)d %(name)s: %(message)s"

_log = logging.getLogger(__name__)

_Stamp = tuple[int, int, int]


class GroupsFile:
    """The groups of a file. Raises InvalidInputError when the file can't be read at first."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stamp = _stamp(path)
        self._groups: Mapping[str, ResourceGroup] = read_groups(path)

    def current(self) -> Mapping[str, ResourceGroup]:
        """Return the groups, read again if the file has changed."""
        stamp = _stamp(self._path)
        if stamp != self._stamp:
            self._stamp = stamp
            try:
                self._groups = read_groups(self._path)
            except InvalidInputError as error:
                _log.error("Groups can't be read from %s and stay unchanged: %s", self._path, error)
            else:
                _log.info("Groups of %s: %s", self._path, ", ".join(sorted(self._groups)))
        return self._groups


class FixedGroups:
    """Groups that do not change."""

    def __init__(self, groups: Mapping[str, ResourceGroup]) -> None:
        self._groups = groups

    def current(self) -> Mapping[str, ResourceGroup]:
        """Return the groups, which never change."""
        return self._groups


def _stamp(path: Path) -> _Stamp | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


YOUNG_SECONDS = 10.0
_RESTARTS = ExponentialBackoff(first_seconds=1.0, longest_seconds=60.0, jitter=NO_JITTER)
DRAIN_SECONDS_MAX = 330.0
"""Timeout of the end of a worker after SIGTERM: longer than the worker's own drain time."""

END_SECONDS_MAX = 5.0


@dataclass(slots=True)
class _WorkerProcess:
    """A process of a worker."""

    group: ResourceGroup
    process: "subprocess.Popen[bytes]"
    started: float
    kill_at: float | None = None
    """After SIGTERM: the time at which it is killed."""


@dataclass(slots=True)
class _RestartBackoff:
    """Back-off before a worker of a group is started again."""

    count: int
    until: float


class LocalWorkers:
    """Supervisor of local workers. Only `reconcile` starts processes; call it often. `clock` is monotonic (seconds)."""

    def __init__(
        self,
        uri: str,
        options: Mapping[str, str],
        *,
        log_level: str = "WARNING",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`options` are the catalog's, with secrets."""
        self._uri = uri
        self._options = dict(options)
        self._log_level = log_level
        self._clock = clock
        self._children: list[_WorkerProcess] = []
        self._backoffs: dict[str, _RestartBackoff] = {}

    @property
    def process_ids(self) -> list[int]:
        """Ids of the running processes, those after SIGTERM included."""
        return [child.process.pid for child in self._children]

    def reconcile(self, groups: Mapping[str, ResourceGroup]) -> list[str]:
        """Start and end processes so that each group has its number of workers.

        Returns the places (host:pid) of processes that have ended since the last call.
        """
        ended = self._reap()
        for child in self._children:
            group = groups.get(child.group.name)
            if child.kill_at is None and (group is None or _as_worker(group) != _as_worker(child.group)):
                self._terminate(child)
        for group in groups.values():
            mine = [c for c in self._children if c.group.name == group.name and c.kill_at is None]
            for child in mine[group.workers :]:
                self._terminate(child)
            for _ in range(group.workers - len(mine)):
                if not self._may_start(group):
                    break
                self._start(group)
        return ended

    def end(self) -> list[str]:
        """End all workers at once, and return their places; other workers do their tasks again."""
        places = [place(child.process.pid) for child in self._children]
        for child in self._children:
            _close(child.process)
        for child in self._children:
            try:
                child.process.wait(END_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                child.process.kill()
                child.process.wait(END_SECONDS_MAX)
        self._children.clear()
        return places

    def _reap(self) -> list[str]:
        ended = []
        now = self._clock()
        for child in list(self._children):
            code = child.process.poll()
            if code is None:
                if child.kill_at is not None and now >= child.kill_at:
                    _log.warning(
                        "Killing worker %d: it has not ended %.0f s after SIGTERM", child.process.pid, DRAIN_SECONDS_MAX
                    )
                    child.process.kill()
                continue
            _close(child.process)
            self._children.remove(child)
            ended.append(place(child.process.pid))
            if child.kill_at is None:
                self._back_off(child, code, now)
        return ended

    def _back_off(self, child: _WorkerProcess, code: int, now: float) -> None:
        name = child.group.name
        _log.warning("Worker %d of group %s has ended unexpectedly with exit code %d", child.process.pid, name, code)
        if now - child.started >= YOUNG_SECONDS:
            self._backoffs.pop(name, None)
            return
        before = self._backoffs.get(name)
        count = 0 if before is None else before.count + 1
        self._backoffs[name] = _RestartBackoff(count, now + _RESTARTS.longest_pause_seconds(count))

    def _may_start(self, group: ResourceGroup) -> bool:
        trouble = self._backoffs.get(group.name)
        return trouble is None or self._clock() >= trouble.until

    def _start(self, group: ResourceGroup) -> None:
        process = subprocess.Popen(
            [sys.executable, "-m", "interbed.optimizer.service.local_workers"],
            stdin=subprocess.PIPE,
            # Other programs read the optimizer's standard output.
            stdout=subprocess.DEVNULL,
            # Ctrl-C in a terminal signals the optimizer alone, which ends its workers.
            start_new_session=True,
        )
        self._children.append(_WorkerProcess(group, process, self._clock()))
        given = {
            "uri": self._uri,
            "group": group.name,
            "threads": group.threads,
            "memory": group.memory,
            "options": self._options,
            "log_level": self._log_level,
        }
        assert process.stdin is not None
        try:
            process.stdin.write(json.dumps(given).encode() + b"\n")
            process.stdin.flush()
        except BrokenPipeError:
            # The next call of `reconcile` handles the process that has ended.
            _log.debug("Worker %d has ended at once", process.pid)

    def _terminate(self, child: _WorkerProcess) -> None:
        child.kill_at = self._clock() + DRAIN_SECONDS_MAX
        child.process.terminate()


def _as_worker(group: ResourceGroup) -> tuple[int, int]:
    """Return the settings of a group that its workers are started with."""
    return group.threads, group.memory


def _close(process: "subprocess.Popen[bytes]") -> None:
    assert process.stdin is not None
    try:
        process.stdin.close()
    except BrokenPipeError:
        # The process has ended, and the unwritten bytes are not needed.
        return


def place(pid: int | None = None) -> str:
    """Return the place of a process of this machine, host:pid; by default of this process."""
    return f"{socket.gethostname()}:{os.getpid() if pid is None else pid}"


def stop_at_signals(worker: OptimizerWorker) -> None:
    """End the worker at SIGTERM and SIGINT when its tasks are finished; a second signal ends the process."""

    def note(number: int, _: object) -> None:
        for each in (signal.SIGTERM, signal.SIGINT):
            signal.signal(each, signal.SIG_DFL)
        worker.stop()

    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, note)


def main() -> int:
    """Run as a worker until a signal or the end of standard input; return the exit code."""
    line = sys.stdin.buffer.readline()
    if not line:
        return 1
    given = json.loads(line)
    threading.Thread(target=_end_with_parent, name="optimizer-parent", daemon=True).start()
    logging.basicConfig(level=given["log_level"], format=LOG_FORMAT)
    client = SchedulerClient(given["uri"])
    settings = WorkerSettings(group=given["group"], threads=given["threads"], memory=given["memory"], place=place())
    worker = OptimizerWorker(client, opened_with(given["options"]), settings)
    stop_at_signals(worker)
    try:
        worker.run()
    except InterbedError as error:
        _log.error("This worker ends: %s", error)
        return 1
    finally:
        client.close()
    return 0


def _end_with_parent() -> None:
    # Nothing more is ever written there. Not by sys.stdin: the end of the interpreter would wait for its lock.
    while os.read(0, 1):
        pass
    # Other workers do the running tasks again, and the cleanup of their processes deletes the files.
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main())
