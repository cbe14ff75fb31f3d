"""What a run of ingestion was told: by the arguments of the procedure, and on their way to tasks."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from interbed.ingest.run_settings import BadMessages
from interbed.ingest.tables.computed_columns import ComputedColumn
from interbed.ingest.tables.names import TableNames
from interbed.ingest.tables.table_sink import TableSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaSettings:
    """Where the messages are, and how Kafka is spoken to; `client` are librdkafka's settings."""

    servers: str
    topics: Sequence[str]
    pattern: str | None
    group: str
    start: str
    client: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """All of it. `round_rows` is how many messages are read, at most, before what came of them is committed, and
    `commit_interval` for how many seconds messages wait that are fewer, unless the run is to end where topics end.
    """

    kafka: KafkaSettings
    form: str
    schema_registry: str | None
    schema_registry_conf: Mapping[str, str]
    names: TableNames
    tables: TableSettings
    bad_messages: BadMessages
    dead_letter_topic: str | None
    until_end: bool
    commit_interval: float
    round_rows: int
    unavailable_value: str | None = None
    accept_changed_source: Sequence[str] = ()

    def to_json(self) -> Any:
        """The settings as what JSON has."""
        return asdict(self)

    @staticmethod
    def from_json(value: Any) -> "RunSettings":
        """The settings of what to_json made."""
        tables = dict(value["tables"])
        tables["computed"] = [ComputedColumn(**column) for column in tables["computed"]]
        return RunSettings(
            **{
                **value,
                "kafka": KafkaSettings(**value["kafka"]),
                "names": TableNames(**value["names"]),
                "tables": TableSettings(**tables),
                "bad_messages": BadMessages(value["bad_messages"]),
            }
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetTable:
    """A table as tasks know it: its handle, what it has already of what is read, and Table.access.bucket_unit."""

    name: str
    handle: str
    positions: str
    unit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadPlan:
    """What all tasks know that decode messages."""

    settings: RunSettings
    targets: Sequence[TargetTable]

    def to_bytes(self) -> bytes:
        """The plan for tasks."""
        targets = [asdict(target) for target in self.targets]
        return json.dumps({"settings": self.settings.to_json(), "targets": targets}).encode()

    @staticmethod
    def from_bytes(content: bytes) -> "ReadPlan":
        """The plan of bytes made by to_bytes."""
        value = json.loads(content)
        targets = [TargetTable(**target) for target in value["targets"]]
        return ReadPlan(settings=RunSettings.from_json(value["settings"]), targets=targets)
