"""A logical replication slot, and the stream of its messages, in the order of the commits.

    w  start, end, time, a message of pgoutput     |  k  end of what was sent, time, whether to reply at once
    r  written, flushed, applied, time, whether to reply at once

PostgreSQL keeps everything after `flushed`, and closes a connection that sends nothing for wal_sender_timeout. So a
thread reports the position regularly, however long a commit takes. Source: PostgreSQL's documentation, "Streaming
Replication Protocol".
"""

import logging
import re
import select
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from interbed.ingest.flow.messages import SourceGapError, SourceUnavailableError
from interbed.ingest.formats.pgoutput import BEGIN, COMMIT, DELETE, INSERT, RELATION, TRUNCATE, UPDATE, truncations_of
from interbed.ingest.sources.postgres.connection import PostgresConnections, lsn_of, lsn_text, quoted
from interbed.storage.base.backoff import NO_JITTER, ExponentialBackoff
from interbed.storage.base.errors import InterbedError, InvalidInputError, InvalidOptionError

_log = logging.getLogger(__name__)

BYTES_AT_ONCE = 16 * 1024 * 1024
STATUS_SECONDS = 10.0
LINGER_SECONDS = 0.02
"""How long more messages are waited for if there are some."""
BUSY_SECONDS = 5.0
"""How long PostgreSQL may take to notice that the last reader of the slot has ended."""
END_SECONDS_MAX = 2.0
"""How long the end of the stream is waited for: PostgreSQL may be in the middle of a large transaction."""
_TAKEN = frozenset([RELATION, INSERT, UPDATE, DELETE])
_DATA, _KEEPALIVE = b"wk"
_HEADER = 25
"""The bytes before a message: w, and three integers of eight bytes."""
_EPOCH_SECONDS = 946_684_800
"""The epoch of times in the protocol: 2000-01-01."""
_IN_USE, _MISSING, _NOT_READY = "55006", "42704", "55000"


WAY_OUT = (
    "Changes made meanwhile will not come. To read the tables again from an initial snapshot, drop the slot "
    "(SELECT pg_drop_replication_slot(…)) if it exists, drop the tables in the lake, and run this again."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotState:
    """The state of a slot: the position up to which it is confirmed, and whether it is lost."""

    confirmed: int
    is_lost: bool


class Slot:
    """A logical slot of pgoutput, by its name."""

    def __init__(self, connections: PostgresConnections, name: str) -> None:
        """Raise InvalidOptionError for an invalid name."""
        if not re.fullmatch(r"[a-z0-9_]{1,63}", name):
            raise InvalidOptionError(f"{name!r} is no name of a slot: it has a-z, 0-9 and _, at most 63 of them.")
        self._connections = connections
        self.name = name

    def state(self, connection: Any) -> SlotState | None:
        """Return the state of the slot; None if it does not exist. Raises InvalidInputError for a slot of another kind
        or database.
        """
        # PostgreSQL has the state of the WAL of a slot since version 13.
        status = "wal_status" if connection.info.server_version >= 130000 else "NULL"
        with self._connections.errors("The slot can't be examined"):
            found = connection.execute(_STATE.replace("STATUS", status).encode(), [self.name]).fetchone()
        if found is None:
            return None
        plugin, is_here, confirmed, wal_status = found
        if plugin != "pgoutput" or not is_here:
            raise InvalidInputError(
                f"The slot {self.name!r} is there and is not of pgoutput and of the database {self._connections.name}. "
                "Give this run a slot of its own."
            )
        return SlotState(confirmed=lsn_of(confirmed or "0/0"), is_lost=wal_status == "lost")

    def create(self) -> int:
        """Create the slot. Return the position in the WAL from which on it sends changes."""
        connection = self._connections.open(replication=True)
        try:
            made = self._connections.replied(
                connection, f"CREATE_REPLICATION_SLOT {self.name} LOGICAL pgoutput NOEXPORT_SNAPSHOT"
            )
        finally:
            connection.close()
        return lsn_of(made["consistent_point"] or "")

    def check(self, state: SlotState | None, least: int, end: int) -> None:
        """Raise SourceGapError unless everything from the position `least` on is available; `end` is the end of the
        WAL.
        """
        place = f"changes from {lsn_text(least)} on were to be read next"
        if state is None:
            raise self._gap(f"does not exist any more, and {place}")
        if state.is_lost:
            raise self._gap(f"has lost what it kept (wal_status is lost; see max_slot_wal_keep_size), and {place}")
        if state.confirmed > least:
            raise self._gap(f"has been read by other processes up to {lsn_text(state.confirmed)}, and {place}")
        if least > end:
            raise self._gap(f"is in a database that ends at {lsn_text(end)}, an older state of it, but {place}")

    def _gap(self, why: str) -> SourceGapError:
        return SourceGapError(f"The slot {self.name!r} {why} ({self._connections.name}). {WAY_OUT}")


class Replication:
    """Reads a slot from a position in the WAL on. Not for use by several threads, except its own."""

    def __init__(
        self,
        connections: PostgresConnections,
        slot: str,
        publication: str,
        start: int,
        *,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        """Begin with transactions whose commit is at `start` or after it.

        Raises SourceUnavailableError if another process reads the slot, and SourceGapError if PostgreSQL does not have
        the transactions any more.
        """
        self._connections = connections
        self._slot = slot
        self._publication = publication
        self._clock = clock
        self.position = start
        """The position in the WAL before which all commits were received, except the one that is being received."""
        self.is_whole = True
        """Whether no transaction is received in part."""
        self._commit_at = 0
        self._flushed = 0
        self._asked = 0.0
        self._lock = threading.Lock()
        self._connection = self._started(start, pause)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._report_regularly, name="replication-status", daemon=True)
        self._thread.start()

    def receive(
        self, *, timeout_seconds: float, most: int, until: int | None = None, to_end: bool = False
    ) -> tuple[list[bytes], list[int]]:
        """Return the next messages about rows, and the position of the commit of each; empty if none came in time.

        With `to_end`, return nothing after the end of a transaction that was received in part. `until` is a position in
        the WAL that is waited for: PostgreSQL is asked for its position if it is not known to be there.
        """
        deadline = self._clock() + timeout_seconds
        linger: float | None = None
        messages: list[bytes] = []
        places: list[int] = []
        while True:
            self._drain(messages, places, most, to_end=to_end)
            if len(messages) >= most or (to_end and self.is_whole) or self._size >= BYTES_AT_ONCE:
                return messages, places
            if until is not None and self.is_whole and self.position >= until:
                return messages, places
            now = self._clock()
            if messages and linger is None:
                linger = min(deadline, now + LINGER_SECONDS)
            left = (deadline if linger is None else linger) - now
            if left <= 0:
                return messages, places
            if until is not None and self.is_whole and now - self._asked >= LINGER_SECONDS * 5:
                self._asked = now
                self._report(asks=True)
            self._wait(left)

    def flush(self, position: int) -> None:
        """Report to PostgreSQL that everything before a position is stored elsewhere."""
        if position > self._flushed:
            self._flushed = position
            self._report()

    def close(self) -> None:
        """End the connection; the slot is kept."""
        self._ended.set()
        self._thread.join()
        self._end_copy()
        self._connection.close()

    def _end_copy(self) -> None:
        """Make PostgreSQL process the last report.

        If a connection is closed while it has unread data, it is reset, and data that the other side has not read yet
        is lost.
        """
        pgconn = self._connection.pgconn
        deadline = time.monotonic() + END_SECONDS_MAX
        try:
            pgconn.put_copy_end()
            pgconn.flush()
            while (length := pgconn.get_copy_data(1)[0]) >= 0 and (left := deadline - time.monotonic()) > 0:
                if length == 0 and select.select([pgconn.socket], [], [], left)[0]:
                    pgconn.consume_input()
        except (self._connections.psycopg.Error, OSError) as error:
            # The next run receives the last transactions again.
            _log.debug("The replication did not end orderly: %s", error)

    def _started(self, start: int, pause: Callable[[float], None]) -> Any:
        connection = self._connections.open(replication=True)
        command = (
            f"START_REPLICATION SLOT {self._slot} LOGICAL {lsn_text(start)} "
            f"(proto_version '1', publication_names '{quoted(self._publication).replace(chr(39), chr(39) * 2)}')"
        )
        backoff = ExponentialBackoff(
            first_seconds=0.05,
            growth=1.0,
            jitter=NO_JITTER,
            timeout_seconds=BUSY_SECONDS,
            pause_within_timeout=False,
            clock=self._clock,
            sleep=pause,
        )
        retries = backoff.start()
        result = connection.pgconn.exec_(command.encode())
        while result.status != self._connections.psycopg.pq.ExecStatus.COPY_BOTH:
            error = self._connections.psycopg.errors.error_from_result(result)
            if error.sqlstate != _IN_USE or not retries.pause():
                connection.close()
                raise self._failed(error)
            result = connection.pgconn.exec_(command.encode())
        connection.pgconn.nonblocking = 1
        return connection

    def _drain(self, messages: list[bytes], places: list[int], most: int, *, to_end: bool) -> None:
        """Take the messages that have arrived."""
        self._size = 0
        receive = self._connection.pgconn.get_copy_data
        count, length = len(messages), 0
        with self._lock:
            try:
                while len(messages) < most and self._size < BYTES_AT_ONCE:
                    length, data = receive(1)
                    if length <= 0:
                        break
                    if data[0] != _DATA:
                        self._keepalive(data)
                        continue
                    kind = data[_HEADER]
                    self._size += length
                    if kind in _TAKEN:
                        messages.append(bytes(data[_HEADER:]))
                    elif kind == TRUNCATE:
                        messages += truncations_of(bytes(data[_HEADER:]))
                    elif kind == BEGIN:
                        places += [self._commit_at] * (len(messages) - count)
                        count = len(messages)
                        self._commit_at = int.from_bytes(data[_HEADER + 1 : _HEADER + 9], "big")
                        self.is_whole = False
                    elif kind == COMMIT:
                        self.position = int.from_bytes(data[_HEADER + 10 : _HEADER + 18], "big")
                        self.is_whole = True
                        if to_end:
                            break
                places += [self._commit_at] * (len(messages) - count)
                if length < 0:
                    # The stream ends only after an error.
                    raise self._failed(self._connections.psycopg.errors.error_from_result(self._result()))
            except self._connections.psycopg.Error as error:
                raise self._failed(error) from None

    def _result(self) -> Any:
        result = self._connection.pgconn.get_result()
        if result is None or result.status != self._connections.psycopg.pq.ExecStatus.FATAL_ERROR:
            raise SourceUnavailableError(f"PostgreSQL ended the replication ({self._connections.name}). Try again.")
        return result

    def _keepalive(self, data: Any) -> None:
        if data[0] != _KEEPALIVE:
            return
        if self.is_whole:
            # All earlier commits were sent before it.
            self.position = max(self.position, int.from_bytes(data[1:9], "big"))
        if data[17]:
            self._send(asks=False)

    def _wait(self, seconds: float) -> None:
        """Wait until something arrives."""
        pgconn = self._connection.pgconn
        try:
            ready, _, _ = select.select([pgconn.socket], [], [], seconds)
            if ready:
                with self._lock:
                    pgconn.consume_input()
        except self._connections.psycopg.Error as error:
            raise self._failed(error) from None

    def _report_regularly(self) -> None:
        while not self._ended.wait(STATUS_SECONDS):
            try:
                self._report()
            except InterbedError as error:
                # The receiver gets the same error.
                _log.debug("The flushed position could not be reported: %s", error)

    def _report(self, *, asks: bool = False) -> None:
        with self._lock:
            self._send(asks=asks)

    def _send(self, *, asks: bool) -> None:
        """Report the flushed position. The caller holds the lock."""
        kept = self._flushed.to_bytes(8, "big")
        now = int((time.time() - _EPOCH_SECONDS) * 1_000_000).to_bytes(8, "big")
        # Only the flushed position is reported, also as the written one, so reports need not be more frequent.
        try:
            self._connection.pgconn.put_copy_data(b"r" + kept + kept + kept + now + bytes([asks]))
            self._connection.pgconn.flush()
        except self._connections.psycopg.Error as error:
            raise self._failed(error) from None

    def _failed(self, error: Any) -> InterbedError:
        """Return the meaning of an error of PostgreSQL."""
        text = self._connections.shown(error)
        if error.sqlstate == _IN_USE:
            return SourceUnavailableError(
                f"Another process reads the slot {self._slot!r}: {text} ({self._connections.name}). End that one, or "
                "give this run a slot of its own."
            )
        if error.sqlstate == _MISSING and "publication" in text:
            return SourceGapError(
                f"The publication {self._publication!r} did not exist when the next changes to read were made: "
                f"{text} ({self._connections.name}). {WAY_OUT}"
            )
        if error.sqlstate in (_MISSING, _NOT_READY):
            return SourceGapError(
                f"The slot {self._slot!r} can't be read: {text} ({self._connections.name}). {WAY_OUT}"
            )
        return self._connections.error("PostgreSQL can't be read", error)


_STATE = """
    SELECT plugin, database = current_database(), confirmed_flush_lsn::text, STATUS
    FROM pg_replication_slots WHERE slot_name = %s
"""
