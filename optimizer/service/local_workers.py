"""The workers that the optimizer starts on its own machine, as many as the file of groups asks for.

The file is read again when it changes; while it can't be read, the groups keep their settings. A worker that ends is
restarted, at once if it had lived for a while, otherwise after a pause that doubles. Workers get SIGTERM where the
group wants fewer; all end with the optimizer, by the end of their standard input.

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
from typing import TypeVar

from interbed.optimizer.flow.group import ResourceGroup, read_groups
from interbed.optimizer.service.scheduler_client import SchedulerClient
from interbed.optimizer.service.worker import OptimizerWorker, WorkerSettings, opened_with
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
        """The groups now."""
        stamp = _stamp(self._path)
        if stamp != self._stamp:
            self._stamp = stamp
            try:
                self._groups = read_groups(self._path)
            except InvalidInputError as error:
                _log.error("The groups stay as they were: %s", error)
            else:
                _log.info("There are other groups now: %s", ", ".join(sorted(self._groups)))
        return self._groups


class FixedGroups:
    """Groups that do not change."""

    def __init__(self, groups: Mapping[str, ResourceGroup]) -> None:
        self._groups = groups

    def current(self) -> Mapping[str, ResourceGroup]:
        """The groups."""
        return self._groups


def _stamp(path: Path) -> _Stamp | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


T = TypeVar("T")

YOUNG_SECONDS = 10.0
RESTART_SECONDS_FIRST = 1.0
RESTART_SECONDS_MOST = 60.0
DRAIN_SECONDS_MAX = 330.0
"""How long one that is not needed any more may take to end: longer than it gives itself."""

END_SECONDS_MAX = 5.0


@dataclass(slots=True)
class _Child:
    """One process."""

    group: ResourceGroup
    process: "subprocess.Popen[bytes]"
    started: float
    kill_at: float | None = None
    """When it was told to end: until when it may take for that."""


@dataclass(slots=True)
class _Trouble:
    """How long it is waited before a worker of a group is started again."""

    pause: float
    until: float


class LocalWorkers:
    """Call `tend` often; nothing else starts or ends a process. `clock` is monotonic, in seconds."""

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
        self._children: list[_Child] = []
        self._troubles: dict[str, _Trouble] = {}

    @property
    def process_ids(self) -> list[int]:
        """The processes that there are, those that were told to end among them."""
        return [child.process.pid for child in self._children]

    def tend(self, groups: Mapping[str, ResourceGroup]) -> list[str]:
        """Start and end processes so that each group has its workers; the places (host:pid) of those that have ended
        since the last call.
        """
        ended = self._reap()
        for child in self._children:
            group = groups.get(child.group.name)
            if child.kill_at is None and (group is None or _as_worker(group) != _as_worker(child.group)):
                self._dismiss(child)
        for group in groups.values():
            mine = [c for c in self._children if c.group.name == group.name and c.kill_at is None]
            for child in mine[group.workers :]:
                self._dismiss(child)
            for _ in range(group.workers - len(mine)):
                if not self._may_start(group):
                    break
                self._start(group)
        return ended

    def end(self) -> list[str]:
        """End all, at once: what they do is done again by others. Their places."""
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
                    _log.warning("Worker %d does not end and is killed", child.process.pid)
                    child.process.kill()
                continue
            _close(child.process)
            self._children.remove(child)
            ended.append(place(child.process.pid))
            if child.kill_at is None:
                self._troubled(child, code, now)
        return ended

    def _troubled(self, child: _Child, code: int, now: float) -> None:
        name = child.group.name
        _log.warning("Worker %d of group %s has ended by itself, with code %d", child.process.pid, name, code)
        if now - child.started >= YOUNG_SECONDS:
            self._troubles.pop(name, None)
            return
        before = self._troubles.get(name)
        pause = RESTART_SECONDS_FIRST if before is None else min(2 * before.pause, RESTART_SECONDS_MOST)
        self._troubles[name] = _Trouble(pause, now + pause)

    def _may_start(self, group: ResourceGroup) -> bool:
        trouble = self._troubles.get(group.name)
        return trouble is None or self._clock() >= trouble.until

    def _start(self, group: ResourceGroup) -> None:
        process = subprocess.Popen(
            [sys.executable, "-m", "interbed.optimizer.service.local_workers"],
            stdin=subprocess.PIPE,
            # What the optimizer prints is for programs.
            stdout=subprocess.DEVNULL,
            # Ctrl-C in a terminal is for the optimizer, which ends them.
            start_new_session=True,
        )
        self._children.append(_Child(group, process, self._clock()))
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
            # It has ended already, which the next look notes.
            _log.debug("Worker %d ended at once", process.pid)

    def _dismiss(self, child: _Child) -> None:
        child.kill_at = self._clock() + DRAIN_SECONDS_MAX
        child.process.terminate()


def _as_worker(group: ResourceGroup) -> tuple[int, int]:
    """What of a group a worker is started with."""
    return group.threads, group.memory


def _close(process: "subprocess.Popen[bytes]") -> None:
    assert process.stdin is not None
    try:
        process.stdin.close()
    except BrokenPipeError:
        # What was not written is for nobody any more.
        return


def place(pid: int | None = None) -> str:
    """Where a process of this machine is, by default this one: host:pid."""
    return f"{socket.gethostname()}:{os.getpid() if pid is None else pid}"


def stop_at_signals(worker: OptimizerWorker) -> None:
    """SIGTERM and SIGINT end the worker when it has finished what runs; a second one ends the process."""

    def note(number: int, _: object) -> None:
        for each in (signal.SIGTERM, signal.SIGINT):
            signal.signal(each, signal.SIG_DFL)
        worker.stop()

    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, note)


def main() -> int:
    """Be a worker until the optimizer says that it is enough; the exit code."""
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
    # Nothing more is ever said there. Not by way of sys.stdin, whose lock the end of the interpreter would wait for.
    while os.read(0, 1):
        pass
    # What runs is done again by others, who delete what is left of it.
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main())
