"""The protocols of sources of messages."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from enum import StrEnum
from typing import Protocol, runtime_checkable

from interbed.ingest.flow.changes import SourceTable
from interbed.ingest.flow.messages import Messages, Positions
from interbed.ingest.flow.source_identity import CatalogIdentity


class LagUnit(StrEnum):
    """The unit of the distance between a position and an end: bytes if positions are offsets in a log of bytes."""

    MESSAGES = "messages"
    BYTES = "bytes"


class MessageSource(Protocol):
    """Topics of messages, read from given positions on; a seek may repeat messages. Not for use by several threads."""

    @property
    def name(self) -> str:
        """The topics and their location, for people."""
        ...

    @property
    def lag_unit(self) -> LagUnit:
        """The unit of offsets."""
        ...

    def check(self, known: Mapping[str, Positions]) -> None:
        """Check that the topics are still those that these tables, by their names in the lake, were filled from.

        Called before a seek, and before what was read is committed. Raises SourceGapError if a topic was replaced.
        """
        ...

    def seek(self, positions: Positions) -> None:
        """Read from these positions on; partitions that are not named from their beginning.

        Without any positions, begin where the settings of the source say. Raises SourceGapError if messages after a
        position are missing.
        """
        ...

    def poll(self, *, timeout_seconds: float, most: int) -> Sequence[Messages]:
        """Return the next messages, about `most` at most; empty if none came in time. At most one element for each
        topic.

        Raises SourceUnavailableError, which may be retried.
        """
        ...

    def ends(self) -> Positions:
        """Return the positions after the last message of each partition at this time."""
        ...

    def positions(self) -> Positions:
        """Return the positions after the polled messages, of all partitions that are read, also of those without
        messages.

        They may be beyond the last message if the source has numbers for other things, so that they reach `ends`.
        """
        ...

    def has_reached(self, ends: Positions) -> bool:
        """Return whether everything before these ends was polled that can be polled: an unfinished transaction
        cannot.
        """
        ...

    @property
    def is_transactional(self) -> bool:
        """Whether messages belong to transactions of the source, which must become visible as a whole."""
        ...

    def is_whole(self, *, wanted: bool = False) -> bool:
        """Return whether the polled messages are complete transactions; always true if the source has no transactions.

        If that is `wanted`, polls return only the rest of transactions until it is true.
        """
        ...

    def note(self, positions: Positions) -> None:
        """Report the committed positions to the source, for its own tools. Failures are only logged."""
        ...

    def close(self) -> None:
        """Close the connections to the source."""
        ...


class TableSnapshot(Protocol):
    """The rows of a table of the source at one time."""

    @property
    def source(self) -> SourceTable:
        """The source table of the rows."""
        ...

    @property
    def positions(self) -> Positions:
        """The positions of the first changes after the snapshot."""
        ...

    @property
    def identity(self) -> CatalogIdentity:
        """The table in the catalog of the source, at the time of the rows."""
        ...

    def messages(self) -> Iterator[Messages]:
        """Yield its rows as insertions. The first messages show its columns, even if it has no rows."""
        ...


@runtime_checkable
class SnapshotSource(MessageSource, Protocol):
    """A source that has the tables themselves beside their changes, which are not kept from the beginning."""

    def left_out(self) -> Collection[SourceTable]:
        """Return the tables that are skipped because they cannot be tables of a lake. Called before `begin`.

        Raises InvalidInputError for such a table that may not be skipped.
        """
        ...

    def begin(self, known: Mapping[str, Positions]) -> None:
        """Ensure that the source keeps changes from now on.

        `known` are the positions of the tables that were read, by their names in the lake. Raises SourceGapError unless
        all later changes are still available. Called before the first read, and before each retry.
        """
        ...

    def tables(self) -> Sequence[SourceTable]:
        """Return the tables whose changes are sent at this time, without those that are skipped."""
        ...

    def identities(self) -> Mapping[SourceTable, CatalogIdentity]:
        """Return the same tables in the catalog of the source, at this time."""
        ...

    def snapshots(self, tables: Sequence[SourceTable]) -> AbstractContextManager[Iterator[TableSnapshot]]:
        """Return the rows of tables, one table after the other."""
        ...
