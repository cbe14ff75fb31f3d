"""Several processes that serve one port: a parent that accepts and distributes connections, workers that serve.

The parent owns the listening sockets and passes each new connection to the worker that has the fewest, over a Unix
socket, and closes its own descriptor. It starts no threads and opens no databases, so that it may fork whenever a
worker has died. A companion process, if there is one, does the tasks common to all workers (health port, reaper).

Between the parent and each child is a pair of sockets. The parent sends a byte with a descriptor, the number of the
service, and END_SOON to the companion; the child sends READY when it serves and CLOSED for each connection that has
ended. Each side notices the end of the other: a child whose parent has ended finishes its requests and ends, so that no
process holds the port.
"""

import gc
import logging
import os
import selectors
import signal
import socket
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from interbed.catalog.server.ops.vital_signs import SharedBoard, WorkerPlace
from interbed.catalog.server.service.errors import MetastoreError
from interbed.storage.base.backoff import NO_JITTER, ExponentialBackoff

logger = logging.getLogger(__name__)

READY = b"r"
CLOSED = b"c"
END_SOON = b"e"

START_SECONDS_MAX = 60.0
"""Time that a child has until it serves."""

END_SECONDS_MAX = 10.5
"""Time that children have to end before they are killed: longer than running requests have, and shorter than the server
has in all.
"""

REAP_SECONDS_MAX = 0.5
"""Time that a child that has closed its socket still has at the end of the server."""

RESTART = ExponentialBackoff(first_seconds=1.0, longest_seconds=30.0, jitter=NO_JITTER)
"""Pauses before a child that died young is started again. Any other child is started again at once."""

YOUNG_SECONDS = 10.0

_TICK_SECONDS = 1.0
_WORKER = "worker "

Child = Callable[[socket.socket], None]
"""The work of a child: runs in the new process, communicates over the socket, returns when it is to end."""

Worker = Callable[[socket.socket, WorkerPlace], None]
"""The work of a worker, with its section for problems, which the companion reads."""

Companion = Callable[[socket.socket, SharedBoard], None]
"""The work of the companion, with the state of the workers."""


class _Process:
    """A child process and the parent's record of it."""

    __slots__ = ("connections", "died_at", "is_ready", "link", "name", "pid", "run", "started_at")

    def __init__(self, name: str, run: Child, pid: int, link: socket.socket) -> None:
        self.name = name
        self.run = run
        self.pid = pid
        self.link = link
        self.is_ready = False
        self.connections = 0
        self.started_at = time.monotonic()


class Supervisor:
    """The parent process. `serve` runs until `stop` is called and all children have ended.

    `worker` is the work of each of `count` processes, `companion` that of one more. `listeners` are numbered in their
    order. MetastoreError if a child does not start to serve.
    """

    def __init__(
        self,
        listeners: Sequence[socket.socket],
        worker: Worker,
        *,
        count: int,
        connections_max: int,
        companion: Companion | None = None,
        on_death: Callable[[int], None] = lambda pid: None,
        has_http: bool = False,
    ) -> None:
        self._listeners = list(listeners)
        self._addresses: list[tuple[str, int]] = [listener.getsockname()[:2] for listener in listeners]
        self._http_address = self._addresses[1] if has_http else None
        self._worker = worker
        self._count = count
        self._connections_max = connections_max
        self._companion = companion
        self._on_death = on_death
        self._is_stopping = False
        self._is_accepting = False
        self._processes: list[_Process] = []
        self._waits: list[tuple[float, str, Child]] = []
        self._young_deaths: dict[str, int] = {}
        self._selector = selectors.DefaultSelector()
        self._wake_reader, self._wake_writer = socket.socketpair()
        self._wake_reader.setblocking(False)
        self._wake_writer.setblocking(False)
        # The companion reads the workers' state from it.
        self._board = SharedBoard(count)

    @property
    def address(self) -> tuple[str, int]:
        """Host and port that clients connect to."""
        return self._addresses[0]

    @property
    def http_address(self) -> tuple[str, int] | None:
        """Host and port of the second service, if that is HTTP."""
        return self._http_address

    @property
    def process_ids(self) -> list[int]:
        """The ids of the workers that serve."""
        return [process.pid for process in self._workers()]

    def start(self) -> None:
        """Start the children and wait until they serve. MetastoreError."""
        self._selector.register(self._wake_reader, selectors.EVENT_READ, self._woken)
        # All processes share the present objects; the garbage collector would touch, and so copy, all of them.
        gc.freeze()
        for number in range(1, self._count + 1):
            self._fork(f"{_WORKER}{number}", partial(self._run_worker, number))
        if self._companion is not None:
            self._fork("companion", partial(self._run_companion, self._companion))
        deadline = time.monotonic() + START_SECONDS_MAX
        expected = len(self._processes)
        while not all(process.is_ready for process in self._processes) or len(self._processes) < expected:
            self._turn()
            if len(self._processes) < expected or time.monotonic() > deadline:
                self.stop()
                self._end()
                raise MetastoreError("a process of the server did not start; its log says why")

    def serve(self) -> None:
        """Distribute connections until it is stopped, then let the children end."""
        try:
            self._accept_if_possible()
            while not self._is_stopping:
                self._turn()
        finally:
            self._end()

    def stop(self) -> None:
        """End `serve` soon. Safe to call from a signal handler, and more than once."""
        self._is_stopping = True
        try:
            self._wake_writer.send(b"x")
        except OSError:
            # The pipe is full of wake-ups, or the server has ended already.
            return

    def _turn(self) -> None:
        self._board.parent_beat()
        for key, _ in self._selector.select(_TICK_SECONDS):
            key.data()
        now = time.monotonic()
        due = [each for each in self._waits if each[0] <= now]
        self._waits = [each for each in self._waits if each[0] > now]
        for _, name, run in due:
            self._fork(name, run)

    def _woken(self) -> None:
        self._wake_reader.recv(4096)

    def _workers(self) -> list[_Process]:
        return [process for process in self._processes if process.name != "companion" and process.is_ready]

    # Children

    def _fork(self, name: str, run: Child) -> None:
        ours, theirs = socket.socketpair()
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid == 0:
            self._be_child(name, run, ours, theirs)
        theirs.close()
        ours.setblocking(False)
        logger.info("%s is process %d", name, pid)
        process = _Process(name, run, pid, ours)
        self._processes.append(process)
        self._selector.register(ours, selectors.EVENT_READ, partial(self._heard, process))

    def _be_child(self, name: str, run: Child, ours: socket.socket, theirs: socket.socket) -> None:
        """Run the child's work and exit without returning."""
        code = 1
        try:
            # Descriptors of the parent must not stay open here: the end of a socket shows only when all copies are
            # closed.
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, signal.SIG_IGN)
            ours.close()
            self._selector.close()
            for process in self._processes:
                process.link.close()
            for each in (*self._listeners, self._wake_reader, self._wake_writer):
                each.close()
            run(theirs)
            code = 0
        except (MetastoreError, OSError) as error:
            logger.error("the %s has ended: %s", name, error)
        except Exception:
            logger.exception("the %s has ended by an error", name)
        finally:
            logging.shutdown()
            # Exits without the parent's clean-up, which must not run twice.
            os._exit(code)

    def _run_worker(self, number: int, link: socket.socket) -> None:
        # The previous worker's problem has ended with it.
        place = self._board.place(number)
        place.clear()
        self._worker(link, place)

    def _run_companion(self, companion: Companion, link: socket.socket) -> None:
        companion(link, self._board)

    def _heard(self, process: _Process) -> None:
        try:
            said = process.link.recv(4096)
        except BlockingIOError:
            return
        except OSError:
            said = b""
        if not said:
            self._lost(process)
            return
        if READY in said:
            process.is_ready = True
            self._count_workers()
        process.connections -= said.count(CLOSED)
        self._accept_if_possible()

    def _lost(self, process: _Process) -> None:
        self._selector.unregister(process.link)
        process.link.close()
        self._processes.remove(process)
        if process.name.startswith(_WORKER):
            # It sends nothing any more, and its successor has not started.
            self._board.place(int(process.name.removeprefix(_WORKER))).clear()
        self._count_workers()
        status = _reaped(process.pid, REAP_SECONDS_MAX if self._is_stopping else END_SECONDS_MAX)
        self._on_death(process.pid)
        if self._is_stopping:
            return
        lived = time.monotonic() - process.started_at
        deaths = self._young_deaths.get(process.name, 0)
        delay = 0.0 if lived > YOUNG_SECONDS else RESTART.longest_pause_seconds(deaths)
        self._young_deaths[process.name] = 0 if lived > YOUNG_SECONDS else deaths + 1
        logger.error("%s (process %d) has ended %s; it is started again", process.name, process.pid, status)
        self._waits.append((time.monotonic() + delay, process.name, process.run))

    def _count_workers(self) -> None:
        self._board.serving = len(self._workers())

    # Connections

    def _accept_if_possible(self) -> None:
        """Accept connections while a worker is below its limit."""
        possible = not self._is_stopping and any(
            process.connections < self._connections_max for process in self._workers()
        )
        if possible == self._is_accepting:
            return
        self._is_accepting = possible
        for number, listener in enumerate(self._listeners):
            if possible:
                self._selector.register(listener, selectors.EVENT_READ, partial(self._accept, number, listener))
            else:
                self._selector.unregister(listener)

    def _accept(self, number: int, listener: socket.socket) -> None:
        while self._is_accepting:
            try:
                connected, _ = listener.accept()
            except BlockingIOError:
                return
            except OSError as error:
                logger.warning("could not accept a connection: %s", error)
                return
            with connected:
                self._deal(number, connected)
            if not any(process.connections < self._connections_max for process in self._workers()):
                logger.warning("all %d connections are in use, further clients wait", self._connections_max)
            self._accept_if_possible()

    def _deal(self, number: int, connected: socket.socket) -> None:
        for process in sorted(self._workers(), key=lambda each: each.connections):
            try:
                socket.send_fds(process.link, [bytes((number,))], [connected.fileno()])
            except OSError as error:
                # It is dying, or its socket is full of connections that it has not received.
                logger.warning("%s takes no connections: %s", process.name, error)
                continue
            process.connections += 1
            return
        logger.warning("a client was sent away: no process takes connections")

    def _end(self) -> None:
        self._is_stopping = True
        self._accept_if_possible()
        for listener in self._listeners:
            listener.close()
        self._waits.clear()
        deadline = time.monotonic() + END_SECONDS_MAX
        companions = [process for process in self._processes if process.name == "companion"]
        for process in companions:
            _say(process.link, END_SOON)
        self._request_end([process for process in self._processes if process not in companions], deadline)
        self._request_end(companions, deadline)
        self._selector.close()
        self._wake_reader.close()
        self._wake_writer.close()

    def _request_end(self, processes: list[_Process], deadline: float) -> None:
        for process in processes:
            try:
                process.link.shutdown(socket.SHUT_WR)
            except OSError:
                logger.debug("%s has ended by itself", process.name)
        while any(process in self._processes for process in processes):
            if time.monotonic() > deadline:
                for process in processes:
                    if process in self._processes:
                        logger.error("%s (process %d) does not end and is killed", process.name, process.pid)
                        os.kill(process.pid, signal.SIGKILL)
                deadline = float("inf")
            for key, _ in self._selector.select(0.1):
                key.data()


def received(link: socket.socket) -> tuple[int, socket.socket]:
    """Return the next connection that the parent has sent, with the number of its service; called in a worker when the
    link is readable. EOFError if the worker is to end.
    """
    try:
        data, descriptors, _, _ = socket.recv_fds(link, 1, 1)
    except ConnectionError as error:
        raise EOFError from error
    if not data or not descriptors:
        raise EOFError
    return data[0], socket.socket(fileno=descriptors[0])


def _say(link: socket.socket, word: bytes) -> None:
    try:
        link.send(word)
    except OSError:
        logger.debug("a child has ended by itself")


_LOOKS = ExponentialBackoff(first_seconds=0.005, growth=1.0, jitter=NO_JITTER, pause_within_timeout=False)
"""Looks at a child that is ending."""


def _reaped(pid: int, seconds: float) -> str:
    """Return how a child that has closed its socket has ended. One that hangs is killed."""
    looks = replace(_LOOKS, timeout_seconds=seconds).start()
    while True:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            break
        if not looks.pause():
            os.kill(pid, signal.SIGKILL)
            # It ends now, and is waited for.
            looks = _LOOKS.start()
    if os.WIFSIGNALED(status):
        return f"by signal {signal.Signals(os.WTERMSIG(status)).name}"
    return f"with code {os.waitstatus_to_exitcode(status)}"
