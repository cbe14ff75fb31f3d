"""Settings of a run of ingestion: the arguments of the procedure, in the form that is sent to tasks."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from interbed.ingest.run_settings import BadMessages
from interbed.ingest.tables.computed_columns import ComputedColumn
from interbed.ingest.tables.source_tables import TableNames
from interbed.ingest.tables.table_sink import TableSettings
from interbed.spark_ext.handle.table_handle import TableHandle


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaSettings:
    """Servers, topics and group of Kafka; `client` has librdkafka's settings."""

    servers: str
    topics: Sequence[str]
    pattern: str | None
    group: str
    start: str
    client: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """All settings of a run.

    A round reads at most `round_rows` messages before its commit. Fewer messages wait for `commit_interval` seconds,
    unless the run ends at the ends of the topics.
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
        """Return the settings as a JSON value."""
        return asdict(self)

    @staticmethod
    def from_json(value: Any) -> "RunSettings":
        """Return the settings of a JSON value of to_json."""
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
    """A table for tasks: its handle, its positions in the ranges to be read, and Table.access.bucket_unit."""

    name: str
    handle: str
    positions: str
    unit: int

    def for_executors(self) -> "TargetTable":
        """Return the table with a handle that has no secrets of the catalog. Raises the errors of TableHandle."""
        handle = TableHandle.from_bytes(self.handle.encode()).for_executors()
        return replace(self, handle=handle.to_bytes().decode())


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadPlan:
    """Common part of all tasks that decode messages."""

    settings: RunSettings
    targets: Sequence[TargetTable]

    def to_bytes(self) -> bytes:
        """Encode the plan for tasks, without secrets of the catalog. Raises the errors of TableHandle."""
        targets = [asdict(target.for_executors()) for target in self.targets]
        return json.dumps({"settings": self.settings.to_json(), "targets": targets}).encode()

    @staticmethod
    def from_bytes(content: bytes) -> "ReadPlan":
        """Decode the plan of to_bytes."""
        value = json.loads(content)
        targets = [TargetTable(**target) for target in value["targets"]]
        return ReadPlan(settings=RunSettings.from_json(value["settings"]), targets=targets)
