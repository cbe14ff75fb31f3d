"""One round of ingestion between its steps, which any planner process can take: the token of a job."""

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from interbed.ingest.flow.messages import Positions
from interbed.ingest.sources.kafka.ranges import KafkaRange
from interbed.spark_ext.ingestion.progress import Progress
from interbed.spark_ext.ingestion.report import Place, ReadReport
from interbed.spark_ext.ingestion.settings import TargetTable
from interbed.spark_ext.write.writer import CommitToken


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
