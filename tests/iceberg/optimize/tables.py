"""Tables that Java wrote, opened where they can be changed."""

from collections.abc import Callable
from typing import Any

from pyiceberg.table import Table as Metadata
from pyiceberg.table.update import TableRequirement, TableUpdate

from interbed.iceberg.commit.home import TableHome
from interbed.iceberg.opening import load_iceberg_table
from interbed.iceberg.table import IcebergTable
from tests.support.peers.iceberg import IcebergPeer


def opened(peer: IcebergPeer, table: str) -> IcebergTable:
    """The table by its directory."""
    return load_iceberg_table(peer.metadata(table).partition("/metadata/")[0], name=table)


class Interrupted:
    """A home before whose commits something happens: each of `events` once, in order."""

    def __init__(self, home: TableHome, *events: Callable[[], Any]) -> None:
        self._home = home
        self._events = list(events)

    def load(self) -> Metadata:
        """As of the home."""
        return self._home.load()

    def commit(
        self, base: Metadata, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> None:
        """As of the home, after the next event."""
        if self._events:
            self._events.pop(0)()
        self._home.commit(base, requirements, updates)


def interrupted(peer: IcebergPeer, table: str, *events: Callable[[], Any]) -> IcebergTable:
    """The table, with what others do to it while its first commits are under way."""
    found = opened(peer, table)
    assert found.home is not None
    found.home = Interrupted(found.home, *events)
    return found
