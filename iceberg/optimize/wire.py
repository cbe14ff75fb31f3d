"""Units of work and their outcomes as bytes, for other processes: JSON, with objects for values that JSON lacks.

A process that runs a unit builds the job itself, from the metadata file that it was planned from:

    {"metadata": "s3://…/v7.metadata.json", "store": {…}, "job": "…", "snapshot": 17, "order": ["zorder", "a", "b"]}

A partition's value is as it is in JSON, or `{"$bytes": "…base64…"}`, `{"$decimal": "1.50"}`, `{"$uuid": "…"}`.
"""

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from decimal import Decimal
from typing import Any
from uuid import UUID

from interbed.iceberg.commit.replacement import NewTableFile
from interbed.iceberg.meta.live_files import FileContent, LiveFile
from interbed.iceberg.optimize.job import OptimizeJob, OptimizeSettings
from interbed.iceberg.optimize.planner import OptimizeAction, OptimizeUnit
from interbed.iceberg.optimize.run_unit import UnitOutcome
from interbed.iceberg.plan import DataTask, FileDeletes
from interbed.iceberg.read.files import static_table
from interbed.storage.base.errors import InvalidInputError
from interbed.storage.write.sort.key import OrderStrategy, SortOrder


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPlace:
    """The data from which another process builds a job; `store` are pyiceberg's properties of the object store."""

    metadata: str
    store: Mapping[str, str]
    job: str
    snapshot: int
    order: SortOrder | None = None

    def open(self) -> OptimizeJob:
        """Build the job. Raises what reading metadata raises."""
        table = static_table(self.metadata, self.store)
        snapshot = table.metadata.snapshot_by_id(self.snapshot)
        if snapshot is None:
            raise InvalidInputError(f"{self.metadata} has no snapshot {self.snapshot}.")
        return OptimizeJob.of(table, snapshot, self.job, OptimizeSettings.of(table.metadata.properties), self.order)

    def to_bytes(self) -> bytes:
        """Return the place as bytes."""
        order = None if self.order is None else [self.order.strategy.value, *self.order.columns]
        return json.dumps({**asdict(self), "store": dict(self.store), "order": order}).encode()

    @staticmethod
    def from_bytes(content: bytes) -> "JobPlace":
        """Decode bytes made by to_bytes."""
        value = json.loads(content)
        order = value.pop("order")
        return JobPlace(
            **value,
            order=order and SortOrder(strategy=OrderStrategy(order[0]), columns=tuple(order[1:])),
        )


def unit_to_bytes(unit: OptimizeUnit) -> bytes:
    """Return a unit as bytes."""
    return _dump({"action": unit.action.value, "reason": unit.reason, "files": _tasks(unit.files)})


def unit_from_bytes(content: bytes) -> OptimizeUnit:
    """Decode bytes made by unit_to_bytes."""
    value = _load(content)
    return OptimizeUnit(action=OptimizeAction(value["action"]), reason=value["reason"], files=_tasks_of(value["files"]))


def outcome_to_bytes(outcome: UnitOutcome) -> bytes:
    """Return an outcome as bytes."""
    return _dump(
        {
            "rewritten": _tasks(outcome.rewritten),
            "converted": _tasks(outcome.converted),
            "added": [_file(file) for file in outcome.added],
        }
    )


def outcome_from_bytes(content: bytes) -> UnitOutcome:
    """Decode bytes made by outcome_to_bytes."""
    value = _load(content)
    return UnitOutcome(
        rewritten=_tasks_of(value["rewritten"]),
        converted=_tasks_of(value["converted"]),
        added=tuple(NewTableFile(**_file_of(file)) for file in value["added"]),
    )


def _tasks(tasks: tuple[DataTask, ...]) -> dict[str, Any]:
    """Return tasks, and the delete files that they share, each once."""
    places: dict[tuple[str, int | None], int] = {}
    deletes: list[dict[str, Any]] = []
    for task in tasks:
        for file in task.deletes.files:
            if file.place not in places:
                places[file.place] = len(deletes)
                deletes.append(_file(file))
    listed = [
        {
            "file": _file(task.file),
            "vector": None if task.deletes.vector is None else places[task.deletes.vector.place],
            "positions": [places[file.place] for file in task.deletes.positions],
            "equality": [places[file.place] for file in task.deletes.equality],
        }
        for task in tasks
    ]
    return {"deletes": deletes, "tasks": listed}


def _tasks_of(value: Any) -> tuple[DataTask, ...]:
    deletes = [LiveFile(**_file_of(file)) for file in value["deletes"]]
    return tuple(
        DataTask(
            file=LiveFile(**_file_of(task["file"])),
            deletes=FileDeletes(
                vector=None if task["vector"] is None else deletes[task["vector"]],
                positions=tuple(deletes[place] for place in task["positions"]),
                equality=tuple(deletes[place] for place in task["equality"]),
            ),
        )
        for task in value["tasks"]
    )


def _file(file: LiveFile | NewTableFile) -> dict[str, Any]:
    """Return the fields of a file that differ from their defaults."""
    found = {}
    for field in fields(file):
        value = getattr(file, field.name)
        if value is not None and value != () and value != {}:
            found[field.name] = value
    return found


def _file_of(value: Mapping[str, Any]) -> dict[str, Any]:
    found = dict(value)
    found["content"] = FileContent(found["content"])
    found["partition"] = tuple(found.get("partition", ()))
    if "equality_ids" in found:
        found["equality_ids"] = tuple(found["equality_ids"])
    return found


def _dump(value: Any) -> bytes:
    return json.dumps(_plain(value)).encode()


def _load(content: bytes) -> Any:
    return json.loads(content, object_hook=_special)


def _plain(value: Any) -> Any:
    """Return a value as JSON has it; keys of metrics are numbers, which JSON has as texts."""
    match value:
        case bytes():
            return {"$bytes": b64encode(value).decode()}
        case Decimal():
            return {"$decimal": str(value)}
        case UUID():
            return {"$uuid": str(value)}
        case Mapping() if value and all(isinstance(key, int) for key in value):
            return {"$numbers": [[key, _plain(inner)] for key, inner in value.items()]}
        case Mapping():
            return {key: _plain(inner) for key, inner in value.items()}
        case list() | tuple():
            return [_plain(inner) for inner in value]
    return value


def _special(value: dict[str, Any]) -> Any:
    match value:
        case {"$bytes": str(text)}:
            return b64decode(text)
        case {"$decimal": str(text)}:
            return Decimal(text)
        case {"$uuid": str(text)}:
            return UUID(text)
        case {"$numbers": list(pairs)}:
            return dict(pairs)
    return value
