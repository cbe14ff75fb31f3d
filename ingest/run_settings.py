"""What a run of ingestion is asked for, and what it has done: settings, places for bad messages, counts."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from interbed.ingest.flow.messages import Messages, Positions
from interbed.ingest.sources.source import LagUnit


class BadMessages(StrEnum):
    """What becomes of messages that can't be decoded or do not fit their table."""

    STOP = "stop"
    SKIP = "skip"
    DEAD_LETTER = "dead-letter"


class DeadLetters(Protocol):
    """Where bad messages are put; each at least once."""

    def put(self, messages: Messages, index: int, reason: str) -> None:
        """Put one there."""
        ...

    def flush(self) -> None:
        """See that all have arrived; raises SourceUnavailableError."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestSettings:
    """When is committed, and what becomes of bad messages. With `until_end` a run ends where the topics ended when it
    began; otherwise it goes on until it is told to stop. Times in seconds.
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
    """What a run has done so far: messages read, rows committed by table, bad messages, commits, and how far it is."""

    messages: int = 0
    rows: dict[str, int] = field(default_factory=dict)
    bad: int = 0
    commits: int = 0
    positions: Positions = field(default_factory=Positions)
    lag: int = 0
    """What the source had more when it was looked last."""
    lag_unit: LagUnit = LagUnit.MESSAGES
    has_positions: bool = False
    """Whether a table keeps how far was read; otherwise the next run begins where this one did, or at the end again."""
    seconds: float = 0.0
    """How long it has run."""

    @property
    def messages_per_second(self) -> float:
        """How many messages were read in a second since the run began."""
        return self.messages / self.seconds if self.seconds else 0.0

    def to_dict(self) -> dict[str, object]:
        """The same for JSON."""
        return {
            "messages": self.messages,
            "rows": dict(sorted(self.rows.items())),
            "bad": self.bad,
            "commits": self.commits,
            "lag": self.lag,
            "positions": {t: {str(p): o for p, o in sorted(of.items())} for t, of in sorted(self.positions.of.items())},
        }
