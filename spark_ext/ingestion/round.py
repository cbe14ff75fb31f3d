"""State of a round of ingestion between its steps: the token of a job, with which any planner process can continue.

It has the progress of the run, from one round to the next, and from one call to the next.
"""

import hashlib
import json
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from interbed.ingest.flow.messages import Positions
from interbed.ingest.sources.kafka.source import KafkaRange
from interbed.spark_ext.ingestion.reading import MessagePlace, ReadReport
from interbed.spark_ext.ingestion.settings import TargetTable
from interbed.spark_ext.write.writer import CommitToken
from interbed.storage.base.errors import InvalidInputError


@dataclass(frozen=True, slots=True, kw_only=True)
class RunProgress:
    """The counts of a run, and its positions.

    A table has all messages before `read` if its own position still has the digest in `notes`: positions are not
    recorded each time in tables without new rows. The own position of a table counts if it has another digest: after a
    rollback, or when another process has read for the same group. The run ends at `ends`. `noted` and `planned` are the
    last times when positions were recorded, and when messages were planned (seconds since 1970). A task reads at most
    `size` messages. `failures` counts failed rounds in a row.
    """

    messages: int = 0
    rows: Mapping[str, int] = field(default_factory=dict)
    bad: int = 0
    commits: int = 0
    read: Positions = field(default_factory=Positions)
    notes: Mapping[str, str] = field(default_factory=dict)
    ends: Positions | None = None
    noted: float = 0.0
    planned: float = 0.0
    size: int | None = None
    failures: int = 0

    def to_json(self) -> str:
        """Return the progress as text."""
        value = {name: each for name, each in asdict(self).items() if name not in ("read", "ends")}
        ends = None if self.ends is None else json.loads(self.ends.to_json())
        read = json.loads(self.read.to_json())
        return json.dumps({**value, "read": read, "topic_ids": dict(self.read.ids), "ends": ends})

    @staticmethod
    def from_json(text: str) -> "RunProgress":
        """Parse the text of to_json; missing fields have their initial values. Raises InvalidInputError."""
        try:
            value: dict[str, Any] = json.loads(text)
            ids = json.dumps(value.pop("topic_ids", {}))
            for name in ("read", "ends"):
                if value.get(name) is not None:
                    of_read = ids if name == "read" else None
                    value[name] = Positions.from_json(json.dumps(value[name]), "the progress", of_read)
            return RunProgress(**value)
        except (ValueError, TypeError) as error:
            raise InvalidInputError(f"{text[:100]!r} is no progress of ingestion: {error}") from error

    def position_of(self, name: str, own: Positions | None) -> Positions:
        """Return the position of a table, by the position that it has recorded itself."""
        return self.read.beyond(own) if own is not None and self.notes.get(name) == digest(own) else own or Positions()


def digest(positions: Positions) -> str:
    """Return a short digest of positions."""
    return hashlib.sha256(positions.to_json().encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestionRound:
    """State of a round after one of its steps.

    The round ends before the messages of `limits`, which truncate a table (`about`), or end a source table (without
    `about`). `tokens` are those of the tables that are written, by the table's index in `targets`.
    """

    progress: RunProgress
    ranges: Sequence[KafkaRange] = ()
    targets: Sequence[TargetTable] = ()
    limits: Sequence[MessagePlace] = ()
    passes: int = 0
    reports: Sequence[ReadReport] = ()
    tokens: Mapping[int, CommitToken] | None = None

    @property
    def read(self) -> Positions:
        """Positions after the round."""
        found = self.progress.read
        for each in self.ranges:
            found = found.beyond(Positions({each.topic: {each.partition: each.end}}))
        return found

    def to_bytes(self) -> bytes:
        """Encode the round as the token of a job."""
        tokens = None
        if self.tokens is not None:
            tokens = {number: b64encode(token.to_bytes()).decode() for number, token in self.tokens.items()}
        return json.dumps(
            {
                "progress": self.progress.to_json(),
                "ranges": [asdict(each) for each in self.ranges],
                "targets": [asdict(target) for target in self.targets],
                "limits": [asdict(place) for place in self.limits],
                "passes": self.passes,
                "reports": [report.to_bytes().decode() for report in self.reports],
                "tokens": tokens,
            }
        ).encode()

    @staticmethod
    def from_bytes(content: bytes) -> "IngestionRound":
        """Decode the round of to_bytes."""
        value: dict[str, Any] = json.loads(content)
        tokens = value["tokens"]
        if tokens is not None:
            tokens = {int(n): CommitToken.from_bytes(b64decode(token)) for n, token in tokens.items()}
        return IngestionRound(
            progress=RunProgress.from_json(value["progress"]),
            ranges=[KafkaRange(**each) for each in value["ranges"]],
            targets=[TargetTable(**target) for target in value["targets"]],
            limits=[MessagePlace(**place) for place in value["limits"]],
            passes=value["passes"],
            reports=[ReadReport.from_bytes(report.encode()) for report in value["reports"]],
            tokens=tokens,
        )
