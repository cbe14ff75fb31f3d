"""Changes of the tables of one database, by logical replication with pgoutput, and their initial snapshots.

The slot keeps in PostgreSQL the changes that tables do not have yet. The position that all tables have is reported to
it. There is one topic, named after the database and its system, with one partition. The offset of a message is the
position in the WAL of the commit of its transaction, so positions are always between transactions.

The first run creates in this order: the publication, which must be older than the changes that are sent by it; the
slot, which keeps everything from then on; then the initial snapshot of each table, which is at a later position.
"""

import logging
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from interbed.ingest.flow.changes import CatalogIdentity, SourceTable
from interbed.ingest.flow.messages import Messages, Positions, SourceGapError, SourceUnavailableError
from interbed.ingest.sources.postgres.connection import PostgresConnections, lsn_of, lsn_text, quoted
from interbed.ingest.sources.postgres.replication import WAY_OUT, Replication, Slot
from interbed.ingest.sources.postgres.snapshot import PostgresSnapshot, snapshot_of
from interbed.ingest.sources.postgres.tables import (
    UNCHANGEABLE,
    DatabaseCatalog,
    PostgresPublication,
    check_rights,
    check_tables,
)
from interbed.ingest.sources.source import LagUnit
from interbed.storage.base.backoff import NO_JITTER, ExponentialBackoff
from interbed.storage.base.errors import InvalidInputError

_log = logging.getLogger(__name__)

RESTART_SECONDS = 30.0
"""How long a server may take to restart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WalMessages(Messages):
    """Messages of the WAL of a database, whose offsets are positions in it."""

    has_topics: ClassVar[bool] = False

    def place(self, index: int) -> str:
        """Return the position of a message in the WAL, for people."""
        return f"position {lsn_text(int(self.offsets[index]))} of the WAL of {self.topic.partition('@')[0]}"


class PostgresSource:
    """A database of PostgreSQL; see MessageSource and SnapshotSource."""

    def __init__(
        self,
        url: str,
        *,
        publication: str = "interbed",
        slot: str = "interbed",
        is_wanted: Callable[[SourceTable], bool] = lambda table: True,
        may_skip: Callable[[SourceTable], bool] = lambda table: False,
        names_tables: bool = False,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        """Open no connection yet.

        `is_wanted` selects the tables of a publication that is created, and `may_skip` those that are skipped if they
        cannot be tables of a lake. With `names_tables` the wanted tables are named, so each of them must be published.
        """
        self._connections = PostgresConnections(url)
        self._publication = PostgresPublication(self._connections, publication)
        self._slot = Slot(self._connections, slot)
        self._is_wanted = is_wanted
        self._may_skip = may_skip
        self._names_tables = names_tables
        self._left_out: Mapping[SourceTable, str] = {}
        self._warned_of: set[SourceTable] = set()
        self._unsent: list[str] = []
        self._missed: set[SourceTable] = set()
        self._clock = clock
        self._pause = pause
        self._query_connection: Any = None
        self._topic: str | None = None
        self._replication: Replication | None = None
        self._until: int | None = None
        self._ends_with_transaction = False
        self.catalog = DatabaseCatalog(self._connections, self._connection)
        """Lookups of types and keys in the database."""

    @property
    def name(self) -> str:
        """The slot and the database; see MessageSource."""
        return f"the slot {self._slot.name} of the database {self._connections.name}"

    # Beginning

    def left_out(self) -> Collection[SourceTable]:
        """Return the tables with a column or a name that no table of a lake can have; see SnapshotSource."""
        connection = self._connection()
        is_there = self._publication.exists(connection)
        possible = {} if is_there else self._publication.publishable(connection)
        found = self._publication.tables(connection) if is_there else list(possible)
        without_key = {
            table: f"it {why}: {UNCHANGEABLE}"
            for table, why in possible.items()
            if why is not None and self._may_skip(table)
        }
        check = check_tables(
            self._connections, connection, self._publication.name, found, self._is_wanted, self.catalog
        )
        refused = {**without_key, **check.refused}
        for table, why in refused.items():
            if not self._may_skip(table):
                raise InvalidInputError(
                    f"The table {table} can't be taken: {why.rstrip('.')}. Leave it out by --excluding-tables, or by "
                    "--skip-tables, which passes over tables that can't be taken; the others are read then."
                )
            if table not in self._left_out:
                _log.warning("The table %s is skipped: %s", table, why)
        self._left_out = refused
        for table, columns in check.generated.items():
            if table not in self._warned_of:
                self._warned_of.add(table)
                names = ", ".join(repr(name) for name in columns)
                _log.warning("The table %s gets no column %s: PostgreSQL does not send generated columns", table, names)
        return list(refused)

    def begin(self, known: Mapping[str, Positions]) -> None:
        """Ensure that changes are kept; see SnapshotSource. The first run creates the publication and the slot.

        Raises InvalidInputError for missing rights and settings of the database.
        """
        self._disconnect()
        connection = self._connection()
        topic = self._topic_of(connection)
        least: int | None = None
        for table, positions in known.items():
            position = positions.get(topic, 0)
            if position is None:
                raise SourceGapError(
                    f"The table {table} has been read from {', '.join(positions.of) or 'nothing'} and not from "
                    f"{topic}, the database {self._connections.name}. Give this run another slot. {WAY_OUT}"
                )
            least = position if least is None else min(least, position)
        state = self._slot.state(connection)
        if least is not None:
            self._slot.check(state, least, self._end(connection))
        is_published = self._publication.exists(connection)
        if is_published:
            self._warn_of_unsent(connection)
        if is_published and self._names_tables:
            self._check_published(connection, is_first=not known)
        if not known:
            self._check_rights(connection, is_published=is_published, has_slot=state is not None)
        if not is_published:
            self._make_publication(connection, has_slot=state is not None)
        if state is None:
            self._slot.create()
        elif state.is_lost:
            raise SourceGapError(f"The slot {self._slot.name!r} has lost the changes that it kept. {WAY_OUT}")

    def tables(self) -> Sequence[SourceTable]:
        """Return the tables of the publication; see SnapshotSource."""
        return [table for table in self._publication.tables(self._connection()) if table not in self._left_out]

    def identities(self) -> Mapping[SourceTable, CatalogIdentity]:
        """Return the tables in the catalog; see SnapshotSource."""
        return self._publication.identities(self._connection())

    @contextmanager
    def snapshots(self, tables: Sequence[SourceTable]) -> Iterator[Iterator[PostgresSnapshot]]:
        """Yield the initial snapshots; see SnapshotSource."""
        topic = self._topic_of(self._connection())
        with snapshot_of(self._connections, self._publication, tables, topic) as found:
            yield found

    @property
    def lag_unit(self) -> LagUnit:
        """The unit of positions in the WAL: bytes."""
        return LagUnit.BYTES

    def check(self, known: Mapping[str, Positions]) -> None:
        """Do nothing; see MessageSource. `begin` checks the slot, and a connection is always to the same database."""

    def seek(self, positions: Positions) -> None:
        """Read from positions on; see MessageSource. Without positions, begin where the slot does."""
        self._close_replication()
        start = positions.get(self._topic_of(self._connection()), 0)
        if start is None:
            state = self._slot.state(self._connection())
            start = 0 if state is None else state.confirmed
        self._replication = Replication(
            self._connections, self._slot.name, self._publication.name, start, clock=self._clock
        )
        self._ends_with_transaction = False

    # Reading

    def poll(self, *, timeout_seconds: float, most: int) -> Sequence[Messages]:
        """Return messages; see MessageSource."""
        replication = self._reading()
        if self._ends_with_transaction and replication.is_whole:
            self._ends_with_transaction = False
        values, places = replication.receive(
            timeout_seconds=timeout_seconds, most=most, until=self._until, to_end=self._ends_with_transaction
        )
        if not values:
            return []
        return [
            WalMessages(
                topic=self._topic or "",
                partitions=np.zeros(len(values), np.int32),
                offsets=np.array(places, np.int64),
                keys=pa.nulls(len(values), pa.binary()),
                values=pa.array(values, pa.binary()),
            )
        ]

    def ends(self) -> Positions:
        """Return the end of the WAL; see MessageSource."""
        connection = self._connection()
        return Positions({self._topic_of(connection): {0: self._end(connection)}})

    def positions(self) -> Positions:
        """Return the position; see MessageSource."""
        return Positions({self._topic or "": {0: self._reading().position}})

    def has_reached(self, ends: Positions) -> bool:
        """Return whether the ends are reached; see MessageSource."""
        self._until = max((end for _, _, end in ends), default=0)
        return self._reading().is_whole and self.positions().has_reached(ends)

    @property
    def is_transactional(self) -> bool:
        """Always true; see MessageSource."""
        return True

    def is_whole(self, *, wanted: bool = False) -> bool:
        """Return whether transactions are whole; see MessageSource."""
        whole = self._reading().is_whole
        if wanted:
            self._ends_with_transaction = not whole
        return whole

    def note(self, positions: Positions) -> None:
        """Report positions; see MessageSource. PostgreSQL may delete what is before them."""
        position = positions.get(self._topic or "", 0)
        if position is not None:
            self._reading().flush(position)

    def close(self) -> None:
        """Close the connections; see MessageSource. The slot and the publication are kept."""
        self._disconnect()

    # Helpers

    def _check_rights(self, connection: Any, *, is_published: bool, has_slot: bool) -> None:
        found = (
            self._publication.tables(connection) if is_published else list(self._publication.publishable(connection))
        )
        wanted = [table for table in found if table not in self._left_out and self._is_wanted(table)]
        check_rights(
            self._connections,
            connection,
            publication=None if is_published else self._publication.name,
            to_read=wanted,
            makes_slot=not has_slot,
        )

    def _warn_of_unsent(self, connection: Any) -> None:
        unsent = self._publication.unsent(connection)
        if unsent and unsent != self._unsent:
            _log.warning(
                "The publication %r sends no %s, so tables of the lake keep the rows that these delete or change. Let "
                "the owner run: ALTER PUBLICATION %s SET (publish = 'insert, update, delete, truncate');",
                self._publication.name,
                " and no ".join(unsent),
                quoted(self._publication.name),
            )
        self._unsent = unsent

    def _check_published(self, connection: Any, *, is_first: bool) -> None:
        """Check that the named tables are in the publication.

        Raises InvalidInputError if the first run finds none of them there; otherwise logs a warning for missing ones.
        """
        published = self._publication.tables(connection)
        possible = self._publication.publishable(connection)
        missing = [each for each in possible if self._is_wanted(each) and each not in published]
        statement = self._publication.adding(missing)
        if is_first and not any(map(self._is_wanted, published)):
            shown = ", ".join(map(str, published)) or "none"
            way_out = f"Let the owner run: {statement}" if missing else "No table of the database has such a name."
            raise InvalidInputError(
                f"The publication {self._publication.name!r} of {self._connections.name} has no wanted table; "
                f"its tables are: {shown}. {way_out}"
            )
        new = [each for each in missing if each not in self._missed]
        if new:
            self._missed.update(new)
            _log.warning(
                "The publication %r does not have %s, so no changes of it are read. Let the owner run: %s",
                self._publication.name,
                ", ".join(map(str, new)),
                self._publication.adding(new),
            )

    def _make_publication(self, connection: Any, *, has_slot: bool) -> None:
        if has_slot:
            raise InvalidInputError(
                f"The slot {self._slot.name!r} exists, and the publication {self._publication.name!r} does not "
                f"({self._connections.name}); PostgreSQL sends no changes older than a publication. {WAY_OUT}"
            )
        self._publication.create(connection, lambda table: table not in self._left_out and self._is_wanted(table))

    def _reading(self) -> Replication:
        if self._replication is None:
            raise SourceUnavailableError(f"{self.name} is not being read: seek first.")
        return self._replication

    def _connection(self) -> Any:
        """Return the connection for queries. After a lost connection, wait for the server: it may be restarting."""
        if self._query_connection is None or self._query_connection.closed:
            backoff = ExponentialBackoff(
                first_seconds=1.0,
                growth=1.0,
                jitter=NO_JITTER,
                timeout_seconds=RESTART_SECONDS if self._topic else 0.0,
                pause_within_timeout=False,
                clock=self._clock,
                sleep=self._pause,
            )
            retries = backoff.start(f"connecting to {self._connections.name}", _log, logging.WARNING)
            while True:
                try:
                    self._query_connection = self._connections.open()
                    break
                except SourceUnavailableError as error:
                    if not retries.pause(error):
                        raise
        return self._query_connection

    def _topic_of(self, connection: Any) -> str:
        if self._topic is None:
            [(level, database, system)] = self._connections.rows(connection, _SYSTEM)
            if level != "logical":
                raise InvalidInputError(
                    f"The server of {self._connections.name} has wal_level = {level}, which logs no rows. "
                    "ALTER SYSTEM SET wal_level = logical, and restart it."
                )
            self._topic = f"{database}@{system}"
        return self._topic

    def _end(self, connection: Any) -> int:
        [(end,)] = self._connections.rows(connection, _END)
        return lsn_of(end)

    def _close_replication(self) -> None:
        if self._replication is not None:
            self._replication.close()
            self._replication = None

    def _disconnect(self) -> None:
        self._close_replication()
        if self._query_connection is not None:
            self._query_connection.close()
            self._query_connection = None


_SYSTEM = """
    SELECT current_setting('wal_level'), current_database(), system_identifier::text FROM pg_control_system()
"""
_END = """
    SELECT CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_flush_lsn() END::text
"""
