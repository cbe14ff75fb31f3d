"""The protocol of what messages are read from."""

from collections.abc import Sequence
from typing import Protocol

from interbed.ingest.flow.messages import Messages, Positions


class MessageSource(Protocol):
    """Topics of messages, read from given positions on, again if need be. Not for use by several threads."""

    @property
    def name(self) -> str:
        """What it is, for people: the topics, and where they are."""
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

    def note(self, positions: Positions) -> None:
        """Tell the source how far was committed, for its own tools. Failures are only logged."""
        ...

    def close(self) -> None:
        """Let go of connections."""
        ...
