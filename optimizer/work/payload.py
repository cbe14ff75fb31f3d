"""What a worker is to do, as bytes: tasks of a compaction with the table options that it is done with, or upkeep.

    {"options": {"num-sorted-run.compaction-trigger": "2"}, "tasks": ["…base64…"]}

Of upkeep there are no tasks. What a compaction brings back are its commit messages, upkeep the snapshot that it made:

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
class Payload:
    """What a worker is to do."""

    options: Mapping[str, str] = field(default_factory=dict)
    tasks: Sequence[CompactionTask] = ()

    def to_bytes(self) -> bytes:
        """The payload on its way to a worker."""
        tasks = [b64encode(task.to_bytes()).decode() for task in self.tasks]
        return json.dumps({"options": dict(self.options), "tasks": tasks}).encode()

    @staticmethod
    def from_bytes(content: bytes) -> "Payload":
        """The payload of bytes made by to_bytes; raises InvalidInputError for anything else."""
        try:
            value = json.loads(content)
            tasks = tuple(CompactionTask.from_bytes(b64decode(task)) for task in value["tasks"])
            return Payload(options=value["options"], tasks=tasks)
        except (ValueError, KeyError, TypeError) as error:
            raise InvalidInputError(f"Not a payload of the optimizer: {error}") from error


def encode_messages(messages: Iterable[CommitMessage]) -> bytes:
    """What a compaction brings back."""
    return json.dumps({"messages": [b64encode(m.to_bytes()).decode() for m in messages]}).encode()


def decode_messages(results: Iterable[bytes]) -> list[CommitMessage]:
    """The commit messages of results; raises InvalidInputError."""
    try:
        return [CommitMessage.from_bytes(b64decode(m)) for result in results for m in json.loads(result)["messages"]]
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidInputError(f"Not a result of the optimizer: {error}") from error


def encode_snapshot(snapshot_id: int | None) -> bytes:
    """What upkeep brings back: the snapshot that it made, None for none."""
    return json.dumps({"snapshot": snapshot_id}).encode()


def decode_snapshot(result: bytes) -> int | None:
    """The snapshot of upkeep's result; raises InvalidInputError."""
    try:
        snapshot: int | None = json.loads(result)["snapshot"]
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidInputError(f"Not a result of the optimizer: {error}") from error
    return snapshot
