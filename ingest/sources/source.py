"""The protocols of what messages are read from."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from enum import StrEnum
from typing import Protocol, runtime_checkable

from interbed.ingest.flow.changes import SourceTable
from interbed.ingest.flow.messages import Messages, Positions
from interbed.ingest.flow.source_identity import CatalogIdentity


class LagUnit(StrEnum):
    """What lies between a position and an end: bytes where positions are places in a log of bytes."""

    MESSAGES = "messages"
    BYTES = "bytes"


class MessageSource(Protocol):
    """Topics of messages, read from given positions on, again if need be. Not for use by several threads."""

    @property
    def name(self) -> str:
        """What it is, for people: the topics, and where they are."""
        ...

    @property
    def lag_unit(self) -> LagUnit:
        """What offsets count."""
        ...

    def check(self, known: Mapping[str, Positions]) -> None:
        """See that what is read is still the same that these tables, by their names in the lake, were filled from up to
        their positions. Called before a seek, and before what was read is committed.

        Raises SourceGapError when something else has taken its place.
        """
        ...

    def seek(self, positions: Positions) -> None:
        """Read from these positions on; partitions that are not named from their beginning. Without any positions,
        begin where the source was told to.

        Raises SourceGapError when messages between a position and what is still there are gone.
        """
        ...

    def poll(self, *, timeout_seconds: float, most: int) -> Sequence[Messages]:
        """The next messages, at most about so many; empty when none came in time. At most one for each topic.

        Raises SourceUnavailableError, which may be retried.
        """
        ...

    def ends(self) -> Positions:
        """The positions after the last message of each partition at this time."""
        ...

    def positions(self) -> Positions:
        """The positions after what was polled, of all partitions that are read, also of those without messages.

        They may be beyond the last message where the source has numbers for other things, so that they reach `ends`.
        """
        ...

    def has_reached(self, ends: Positions) -> bool:
        """Whether everything before these ends was polled, as far as it is to be had: a transaction that is not
        finished there is not.
        """
        ...

    @property
    def is_transactional(self) -> bool:
        """Whether messages belong to transactions of the source, of which nothing is to be seen without the rest."""
        ...

    def is_whole(self, *, wanted: bool = False) -> bool:
        """Whether what was polled so far are whole transactions; always true where the source knows of none.

        If that is `wanted`, polls bring nothing but the rest of transactions until it is true.
        """
        ...

    def note(self, positions: Positions) -> None:
        """Tell the source how far was committed, for its own tools. Failures are only logged."""
        ...

    def close(self) -> None:
        """Let go of connections."""
        ...


class TableSnapshot(Protocol):
    """The rows of a table of the source at one time."""

    @property
    def source(self) -> SourceTable:
        """Which table it is of."""
        ...

    @property
    def positions(self) -> Positions:
        """Where the changes after it begin."""
        ...

    @property
    def identity(self) -> CatalogIdentity:
        """The table in the catalog of the source, at the time of the rows."""
        ...

    def messages(self) -> Iterator[Messages]:
        """Its rows as insertions. The first messages show its columns, also when it has no rows."""
        ...


@runtime_checkable
class SnapshotSource(MessageSource, Protocol):
    """A source that has the tables themselves beside their changes, which are not kept from the beginning."""

    def left_out(self) -> Collection[SourceTable]:
        """The tables that can't be taken and are to be passed over. Called before `begin`, which is for the others.

        Raises InvalidInputError for a table that can't be taken otherwise.
        """
        ...

    def begin(self, known: Mapping[str, Positions]) -> None:
        """See that changes are kept from now on.

        `known` are the positions of the tables that were read, by their names in the lake. Raises SourceGapError unless
        everything since then is still to be had. Called before anything is read, and again before it is read once more.
        """
        ...

    def tables(self) -> Sequence[SourceTable]:
        """The tables whose changes it brings at this time, but those that are left out."""
        ...

    def identities(self) -> Mapping[SourceTable, CatalogIdentity]:
        """The same tables in the catalog of the source, at this time."""
        ...

    def snapshots(self, tables: Sequence[SourceTable]) -> AbstractContextManager[Iterator[TableSnapshot]]:
        """The rows of tables, one table after the other."""
        ...
