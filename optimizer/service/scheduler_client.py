"""A worker's client of the scheduler, and conversions between thrift_idl/optimizing.thrift and the optimizer's values.

Calls go over the network, from many threads. Each takes a connection from a pool. When an address does not answer, or
does not schedule, the next one is tried. All calls can be repeated, so that callers try again later.
"""

import contextlib
import logging
import socket
import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar
from urllib.parse import urlsplit

from thrift.protocol.TBinaryProtocol import TBinaryProtocolAccelerated
from thrift.Thrift import TApplicationException, TException
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TBufferedTransport

from interbed.optimizer.flow.process import (
    NoSchedulerError,
    ResultStatus,
    TaskAssignment,
    TaskFigures,
    TaskOutcome,
    TaskRef,
    UnknownWorkerError,
    WorkerRefusedError,
    WorkKind,
)
from interbed.storage.base.errors import InvalidOptionError
from interbed.thrift_idl.optimizing import Optimizer, ttypes

_TEXT_MAX = 4000
_STATUSES = {
    ResultStatus.ACCEPTED: ttypes.Verdict.ACCEPTED,
    ResultStatus.SUPERSEDED: ttypes.Verdict.SUPERSEDED,
    ResultStatus.UNKNOWN: ttypes.Verdict.UNKNOWN,
}
_STATUSES_BY_NUMBER = {number: status for status, number in _STATUSES.items()}


def ref_to_wire(ref: TaskRef) -> Any:
    """Return the TaskRef structure of an attempt."""
    return ttypes.TaskRef(process=ref.process, number=ref.number, attempt=ref.attempt)


def ref_of_wire(ref: Any) -> TaskRef:
    """Return the attempt of a TaskRef structure."""
    return TaskRef(process=ref.process, number=ref.number, attempt=ref.attempt)


def assignment_to_wire(given: TaskAssignment) -> Any:
    """Return the Assignment structure of an assignment."""
    return ttypes.Assignment(
        ref=ref_to_wire(given.ref),
        table=given.table,
        kind=given.kind.value,
        payload=given.payload,
        leaseMillis=given.lease_millis,
    )


def assignment_of_wire(given: Any) -> TaskAssignment:
    """Return the assignment of an Assignment structure. Raises ValueError for an unknown kind of work."""
    return TaskAssignment(
        ref=ref_of_wire(given.ref),
        table=given.table,
        kind=WorkKind(given.kind),
        payload=given.payload,
        lease_millis=given.leaseMillis,
    )


def outcome_to_wire(outcome: TaskOutcome) -> Any:
    """Return the Outcome structure of an outcome."""
    figures = outcome.figures
    return ttypes.Outcome(
        result=outcome.result,
        figures=ttypes.Figures(
            bytesIn=figures.bytes_in,
            bytesOut=figures.bytes_out,
            filesIn=figures.files_in,
            filesOut=figures.files_out,
        ),
        failure=None if outcome.failure is None else storable(outcome.failure),
    )


def outcome_of_wire(outcome: Any) -> TaskOutcome:
    """Return the outcome of an Outcome structure."""
    figures = outcome.figures
    return TaskOutcome(
        result=outcome.result,
        figures=TaskFigures(
            bytes_in=figures.bytesIn,
            bytes_out=figures.bytesOut,
            files_in=figures.filesIn,
            files_out=figures.filesOut,
        ),
        failure=None if outcome.failure is None else storable(outcome.failure),
    )


def status_to_wire(status: ResultStatus) -> int:
    """Return the number of a status on the wire."""
    number: int = _STATUSES[status]
    return number


def status_of_wire(number: int) -> ResultStatus:
    """Return the status of a number; an unknown one is UNKNOWN, with which files stay."""
    return _STATUSES_BY_NUMBER.get(number, ResultStatus.UNKNOWN)


def storable(text: str, most: int = _TEXT_MAX) -> str:
    """Return a text of another process in a form that databases accept: cut, and without NUL and surrogates."""
    return text[:most].encode(errors="replace").decode().replace("\x00", "\N{REPLACEMENT CHARACTER}")


# Thrift logs each address that does not answer; the errors of calls have them, too.
logging.getLogger("thrift.transport.TSocket").setLevel(logging.CRITICAL)

CONNECT_SECONDS_MAX = 5.0
CALL_SECONDS_MAX = 60.0
_MESSAGE_BYTES_MAX = 256 << 20

T = TypeVar("T")


class SchedulerClient:
    """Client of the process that schedules among the addresses of `uri`; close it after use.

    The uri is `thrift://host:port`, several are separated by commas. All calls raise NoSchedulerError.
    """

    def __init__(self, uri: str, *, call_seconds: float = CALL_SECONDS_MAX) -> None:
        self._uri = uri
        self._addresses = scheduler_addresses(uri)
        self._call_seconds = call_seconds
        self._guard = threading.Lock()
        self._idle: list[_Connection] = []
        self._first = 0
        self._is_closed = False

    def close(self) -> None:
        """Close the pooled connections; running calls close theirs when they end."""
        with self._guard:
            self._is_closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def enter(self, *, version: int, group: str, threads: int, memory: int, place: str) -> Any:
        """Register a worker, and return a Seat structure. Raises WorkerRefusedError."""
        asked = ttypes.Registration(version=version, group=group, threads=threads, memory=memory, place=place)
        return self._call(lambda client: client.enter(asked))

    def poll(self, worker_id: str, free: int) -> list[TaskAssignment]:
        """Fetch attempts for `free` threads. Raises UnknownWorkerError."""
        return [assignment_of_wire(each) for each in self._call(lambda client: client.poll(worker_id, free))]

    def beat(self, worker_id: str, running: Sequence[TaskRef]) -> list[TaskRef]:
        """Send a heartbeat; return the attempts that the worker is to give up. Raises UnknownWorkerError."""
        refs = [ref_to_wire(ref) for ref in running]
        return [ref_of_wire(ref) for ref in self._call(lambda client: client.beat(worker_id, refs))]

    def complete(self, ref: TaskRef, outcome: TaskOutcome) -> ResultStatus:
        """Send the result of an attempt."""
        asked, brought = ref_to_wire(ref), outcome_to_wire(outcome)
        return status_of_wire(self._call(lambda client: client.complete(asked, brought)))

    def leave(self, worker_id: str) -> None:
        """End the registration of a worker."""
        self._call(lambda client: client.leave(worker_id))

    def _call(self, ask: Callable[[Any], T]) -> T:
        failures = []
        first = self._first
        for offset in range(len(self._addresses)):
            number = (first + offset) % len(self._addresses)
            try:
                answer = self._call_one(number, ask)
            except ttypes.UnknownWorker as error:
                raise UnknownWorkerError(_message(error)) from error
            except ttypes.Refused as error:
                raise WorkerRefusedError(_message(error)) from error
            except ttypes.NotScheduling as error:
                failures.append(f"{self._address(number)}: {_message(error)}")
                continue
            except (TException, OSError, EOFError) as error:
                failures.append(f"{self._address(number)}: {error or type(error).__name__}")
                continue
            self._first = number
            return answer
        raise NoSchedulerError(f"No scheduler answers at {self._uri} ({'; '.join(failures)}).")

    def _call_one(self, number: int, ask: Callable[[Any], T]) -> T:
        kept = self._borrowed(number)
        if kept is not None:
            try:
                return self._using(kept, ask)
            except (TException, OSError, EOFError) as error:
                if not _is_broken(error):
                    raise
        # The server may have closed the pooled connection meanwhile.
        return self._using(_Connection(number, *self._addresses[number], self._call_seconds), ask)

    def _using(self, connection: "_Connection", ask: Callable[[Any], T]) -> T:
        try:
            answer = ask(connection.client)
        except TException as error:
            if _is_broken(error):
                connection.close()
            else:
                self._give_back(connection)
            raise
        except BaseException:
            connection.close()
            raise
        self._give_back(connection)
        return answer

    def _borrowed(self, number: int) -> "_Connection | None":
        with self._guard:
            found = next((each for each in self._idle if each.number == number), None)
            if found is not None:
                self._idle.remove(found)
            return found

    def _give_back(self, connection: "_Connection") -> None:
        with self._guard:
            if not self._is_closed:
                self._idle.append(connection)
                return
        connection.close()

    def _address(self, number: int) -> str:
        host, port = self._addresses[number]
        return f"{host}:{port}"


class _Connection:
    """An open connection to the address of that number."""

    def __init__(self, number: int, host: str, port: int, call_seconds: float) -> None:
        self.number = number
        # Thrift's socket has an untyped handle.
        link: Any = TSocket(host, port)
        link.setTimeout(CONNECT_SECONDS_MAX * 1000)
        self._transport = TBufferedTransport(link)
        protocol = TBinaryProtocolAccelerated(self._transport, string_length_limit=_MESSAGE_BYTES_MAX)
        self.client: Any = Optimizer.Client(protocol)
        self._transport.open()
        try:
            link.handle.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            link.setTimeout(call_seconds * 1000)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the connection; ignore errors."""
        with contextlib.suppress(OSError):
            self._transport.close()


def scheduler_addresses(uri: str) -> list[tuple[str, int]]:
    """Parse the addresses of `thrift://host:port,thrift://host:port`. Raises InvalidOptionError."""
    addresses = []
    for part in uri.split(","):
        split = urlsplit(part.strip())
        try:
            port = split.port
        except ValueError:
            port = None
        if split.scheme != "thrift" or not split.hostname or not port or split.path not in ("", "/"):
            raise InvalidOptionError(f"{uri!r} is no address of an optimizer: it has to look like thrift://host:port.")
        addresses.append((split.hostname, port))
    return addresses


def _message(error: Any) -> str:
    """Return the message of an exception of the interface, whose generated class has no types."""
    return str(error.message)


def _is_broken(error: BaseException) -> bool:
    """Return whether a call ended without an answer, so that its connection can't be used again."""
    answers = (ttypes.NotScheduling, ttypes.UnknownWorker, ttypes.Refused, TApplicationException)
    return not isinstance(error, answers)
