"""Tables written by Java, opened for changes."""

from collections.abc import Callable
from typing import Any

from pyiceberg.table import Table as Metadata
from pyiceberg.table.update import TableRequirement, TableUpdate

from interbed.iceberg.commit.home import TableHome
from interbed.iceberg.table import IcebergTable, load_iceberg_table
from tests.support.peers.iceberg import IcebergPeer


def opened(peer: IcebergPeer, table: str) -> IcebergTable:
    """Open the table by its directory."""
    return load_iceberg_table(peer.metadata(table).partition("/metadata/")[0], name=table)


class InterruptedHome:
    """Table home that runs one of `events`, in order, before each of its commits."""

    def __init__(self, home: TableHome, *events: Callable[[], Any]) -> None:
        self._home = home
        self._events = list(events)

    def load(self) -> Metadata:
        """Return the metadata of the wrapped home."""
        return self._home.load()

    def commit(
        self, base: Metadata, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> None:
        """Run the next event, then commit to the wrapped home."""
        if self._events:
            self._events.pop(0)()
        self._home.commit(base, requirements, updates)


def interrupted(peer: IcebergPeer, table: str, *events: Callable[[], Any]) -> IcebergTable:
    """Open the table such that the events happen during its first commits."""
    found = opened(peer, table)
    assert found.home is not None
    found.home = InterruptedHome(found.home, *events)
    return found
