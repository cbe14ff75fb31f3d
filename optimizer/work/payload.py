"""Payloads for workers and their results, as bytes.

A payload has the tasks of a compaction with table options for it:

    {"options": {"num-sorted-run.compaction-trigger": "2"}, "tasks": ["…base64…"]}

For upkeep there are no tasks. The result of a compaction is its commit messages, that of upkeep its snapshot:

    {"messages": ["…base64…"]}          {"snapshot": 17}
"""

import json
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from interbed.storage.base.errors import InvalidInputError
from interbed.storage.upkeep.compact_tasks import CompactionTask
from interbed.storage.write.commit_message import CommitMessage


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskPayload:
    """Tasks of a compaction, with table options for it."""

    options: Mapping[str, str] = field(default_factory=dict)
    tasks: Sequence[CompactionTask] = ()

    def to_bytes(self) -> bytes:
        """Encode the payload for a worker."""
        tasks = [b64encode(task.to_bytes()).decode() for task in self.tasks]
        return json.dumps({"options": dict(self.options), "tasks": tasks}).encode()

    @staticmethod
    def from_bytes(content: bytes) -> "TaskPayload":
        """Decode the payload of to_bytes. Raises InvalidInputError for other bytes."""
        try:
            value = json.loads(content)
            tasks = tuple(CompactionTask.from_bytes(b64decode(task)) for task in value["tasks"])
            return TaskPayload(options=value["options"], tasks=tasks)
        except (ValueError, KeyError, TypeError) as error:
            raise InvalidInputError(f"Not a payload of the optimizer: {error}") from error


def encode_messages(messages: Iterable[CommitMessage]) -> bytes:
    """Encode the result of a compaction."""
    return json.dumps({"messages": [b64encode(m.to_bytes()).decode() for m in messages]}).encode()


def decode_messages(results: Iterable[bytes]) -> list[CommitMessage]:
    """Decode the commit messages of results. Raises InvalidInputError."""
    try:
        return [CommitMessage.from_bytes(b64decode(m)) for result in results for m in json.loads(result)["messages"]]
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidInputError(f"Not a result of the optimizer: {error}") from error


def encode_snapshot(snapshot_id: int | None) -> bytes:
    """Encode the result of upkeep: its snapshot, None without one."""
    return json.dumps({"snapshot": snapshot_id}).encode()


def decode_snapshot(result: bytes) -> int | None:
    """Decode the snapshot of upkeep's result. Raises InvalidInputError."""
    try:
        snapshot: int | None = json.loads(result)["snapshot"]
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidInputError(f"Not a result of the optimizer: {error}") from error
    return snapshot
