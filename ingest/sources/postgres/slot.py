"""The replication slot that holds, in the database, what was not read yet."""

import re
from dataclasses import dataclass
from typing import Any

from interbed.ingest.errors import SourceGapError
from interbed.ingest.sources.postgres.connection import Connections, lsn_of, lsn_text
from interbed.ingest.sources.postgres.replication import WAY_OUT
from interbed.storage.base.errors import InvalidInputError, InvalidOptionError


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotState:
    """A slot as PostgreSQL shows it: the place before which nothing is kept, and whether it is lost."""

    confirmed: int
    is_lost: bool


class Slot:
    """A logical slot of pgoutput by its name."""

    def __init__(self, connections: Connections, name: str) -> None:
        """Raises InvalidOptionError for what is no name of a slot."""
        if not re.fullmatch(r"[a-z0-9_]{1,63}", name):
            raise InvalidOptionError(f"{name!r} is no name of a slot: it has a-z, 0-9 and _, at most 63 of them.")
        self._connections = connections
        self.name = name

    def state(self, connection: Any) -> SlotState | None:
        """How it stands, None when there is none; InvalidInputError when it is one of another kind or database."""
        # The state of the WAL that a slot needs is told since version 13.
        status = "wal_status" if connection.info.server_version >= 130000 else "NULL"
        with self._connections.errors("The slot can't be looked at"):
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
        """Make it; the place in the WAL from which on it tells changes."""
        connection = self._connections.open(replication=True)
        try:
            made = self._connections.replied(
                connection, f"CREATE_REPLICATION_SLOT {self.name} LOGICAL pgoutput NOEXPORT_SNAPSHOT"
            )
        finally:
            connection.close()
        return lsn_of(made["consistent_point"] or "")

    def check(self, state: SlotState | None, least: int, end: int) -> None:
        """Raises SourceGapError unless all from the place `least` on is still to be had; `end` is that of the WAL."""
        place = f"changes from {lsn_text(least)} on were to be read next"
        if state is None:
            raise self._gap(f"is gone, and {place}")
        if state.is_lost:
            raise self._gap(f"has lost what it kept (wal_status is lost; see max_slot_wal_keep_size), and {place}")
        if state.confirmed > least:
            raise self._gap(f"has been read by others up to {lsn_text(state.confirmed)}, and {place}")
        if least > end:
            raise self._gap(f"is in a database that ends at {lsn_text(end)}, an older state of it, but {place}")

    def _gap(self, why: str) -> SourceGapError:
        return SourceGapError(f"The slot {self.name!r} {why} ({self._connections.name}). {WAY_OUT}")


_STATE = """
    SELECT plugin, database = current_database(), confirmed_flush_lsn::text, STATUS
    FROM pg_replication_slots WHERE slot_name = %s
"""
