"""One round of ingestion between its steps, which any planner process can take: the token of a job.

It carries the progress of the run from one round to the next, and from one call to the next.
"""

import hashlib
import json
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from interbed.ingest.flow.messages import Positions
from interbed.ingest.sources.kafka.ranges import KafkaRange
from interbed.spark_ext.ingestion.reading import Place, ReadReport
from interbed.spark_ext.ingestion.settings import TargetTable
from interbed.spark_ext.write.writer import CommitToken
from interbed.storage.base.errors import InvalidInputError


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The counts of a run, and its positions.

    All tables have what is before `read`, if their own position is still the one of which `notes` has a digest: those
    that got no rows are not told each time. A table whose position is another one, because it was taken back, or
    because somebody else went on for the same group, is where it says. `ends` are where the run is to end, `noted` and
    `planned` when tables were told last, and when messages were, in seconds since 1970, `size` how many messages a task
    reads at most, `failures` how often in a row rounds have failed.
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
        """The progress as text."""
        value = {name: each for name, each in asdict(self).items() if name not in ("read", "ends")}
        ends = None if self.ends is None else json.loads(self.ends.to_json())
        read = json.loads(self.read.to_json())
        return json.dumps({**value, "read": read, "topic_ids": dict(self.read.ids), "ends": ends})

    @staticmethod
    def from_json(text: str) -> "Progress":
        """The progress of a text made by to_json; what is lacking is as at the beginning. Raises InvalidInputError."""
        try:
            value: dict[str, Any] = json.loads(text)
            ids = json.dumps(value.pop("topic_ids", {}))
            for name in ("read", "ends"):
                if value.get(name) is not None:
                    of_read = ids if name == "read" else None
                    value[name] = Positions.from_json(json.dumps(value[name]), "the progress", of_read)
            return Progress(**value)
        except (ValueError, TypeError) as error:
            raise InvalidInputError(f"{text[:100]!r} is no progress of ingestion: {error}") from error

    def position_of(self, name: str, own: Positions | None) -> Positions:
        """How far a table is that has this position of its own."""
        return self.read.beyond(own) if own is not None and self.notes.get(name) == digest(own) else own or Positions()


def digest(positions: Positions) -> str:
    """A short text that differs where positions do."""
    return hashlib.sha256(positions.to_json().encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """What one step hands to the next one.

    `limits` are offsets at which the round ends sooner, because the message there truncates a table (`truncations`), or
    ends the source table of one; then they are about no table.
    `tokens` are those of the tables that are written, by the table's place in `targets`.
    """

    progress: Progress
    ranges: Sequence[KafkaRange] = ()
    targets: Sequence[TargetTable] = ()
    limits: Sequence[Place] = ()
    passes: int = 0
    reports: Sequence[ReadReport] = ()
    tokens: Mapping[int, CommitToken] | None = None

    @property
    def read(self) -> Positions:
        """The positions after the round."""
        found = self.progress.read
        for each in self.ranges:
            found = found.beyond(Positions({each.topic: {each.partition: each.end}}))
        return found

    def to_bytes(self) -> bytes:
        """The round as the token of a job."""
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
    def from_bytes(content: bytes) -> "Round":
        """The round of bytes made by to_bytes."""
        value: dict[str, Any] = json.loads(content)
        tokens = value["tokens"]
        if tokens is not None:
            tokens = {int(n): CommitToken.from_bytes(b64decode(token)) for n, token in tokens.items()}
        return Round(
            progress=Progress.from_json(value["progress"]),
            ranges=[KafkaRange(**each) for each in value["ranges"]],
            targets=[TargetTable(**target) for target in value["targets"]],
            limits=[Place(**place) for place in value["limits"]],
            passes=value["passes"],
            reports=[ReadReport.from_bytes(report.encode()) for report in value["reports"]],
            tokens=tokens,
        )
