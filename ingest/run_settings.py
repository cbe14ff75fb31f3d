"""Settings of a run of ingestion, its dead letter queue, and its counters."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from interbed.catalog.client.errors import CatalogUnavailableError, LockError
from interbed.ingest.flow.messages import Messages, Positions, SourceUnavailableError
from interbed.ingest.sources.source import LagUnit
from interbed.storage.base.backoff import NO_JITTER, ExponentialBackoff
from interbed.storage.base.errors import CommitConflictError, CommitFailedError

BACKOFF = ExponentialBackoff(first_seconds=0.2, jitter=NO_JITTER, retries=5)
"""Pauses before a run reads on from its last commit."""
RETRIED = (CommitConflictError, CommitFailedError, LockError, CatalogUnavailableError, SourceUnavailableError)
"""Errors after which a run reads on from its last commit."""


class BadMessages(StrEnum):
    """Policy for messages that cannot be decoded or do not fit their table."""

    STOP = "stop"
    SKIP = "skip"
    DEAD_LETTER = "dead-letter"


class DeadLetters(Protocol):
    """A dead letter queue: bad messages are put there at least once."""

    def put(self, messages: Messages, index: int, reason: str) -> None:
        """Put one message into the queue."""
        ...

    def flush(self) -> None:
        """Wait until all messages are in the queue. Raises SourceUnavailableError."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestSettings:
    """Settings of a run: when it commits, and what it does with bad messages. Times in seconds.

    With `until_end` a run stops at the ends that the topics had when it began; otherwise it runs until it is stopped.
    """

    group: str = "interbed"
    commit_interval: float = 10.0
    commit_rows: int | None = None
    until_end: bool = False
    bad_messages: BadMessages = BadMessages.STOP
    accept_changed_source: frozenset[str] = frozenset()
    """Tables of the lake, as DATABASE.TABLE, whose source tables may have another key or identity than before."""


@dataclass(slots=True, kw_only=True)
class IngestResult:
    """Counters of a run: messages read, rows committed by table, bad messages, commits, and its positions."""

    messages: int = 0
    rows: dict[str, int] = field(default_factory=dict)
    bad: int = 0
    commits: int = 0
    positions: Positions = field(default_factory=Positions)
    lag: int = 0
    """The amount that the source had beyond the positions at the last check."""
    lag_unit: LagUnit = LagUnit.MESSAGES
    has_positions: bool = False
    """Whether a table keeps positions. Otherwise the next run begins where this one did, or at the end again."""
    seconds: float = 0.0
    """The time since the run began."""

    @property
    def messages_per_second(self) -> float:
        """The average number of messages per second since the run began."""
        return self.messages / self.seconds if self.seconds else 0.0

    def to_dict(self) -> dict[str, object]:
        """Return the counters as a JSON object."""
        return {
            "messages": self.messages,
            "rows": dict(sorted(self.rows.items())),
            "bad": self.bad,
            "commits": self.commits,
            "lag": self.lag,
            "positions": {t: {str(p): o for p, o in sorted(of.items())} for t, of in sorted(self.positions.of.items())},
        }
