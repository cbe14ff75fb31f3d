"""A position in a stream of micro-batches of an eventual log: a reader's view of the table.

The view is a snapshot with what was written since laid over it:

    {"snapshotId": 7, "uuid": "…", "covered": {"0": 120}, "log": {"0": 150}}

The `uuid` tells the snapshot from another one that gets its number after the table was taken back. It judges all
records before `covered`; those from there to `log` were told before anybody knew whether they are committed.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from interbed.storage.base.errors import InvalidInputError
from interbed.storage.views.stream.position import StreamPosition

Offsets = Mapping[int, int]
"""Of partitions of the log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogBatchPosition:
    """A reader's view of the table; snapshot 0 is a table without any."""

    snapshot_id: int
    uuid: str | None = None
    covered: Offsets
    log: Offsets

    def to_json(self) -> str:
        """The position as JSON."""
        value = {
            "snapshotId": self.snapshot_id,
            "uuid": self.uuid,
            "covered": _texts(self.covered),
            "log": _texts(self.log),
        }
        return json.dumps(value, separators=(",", ":"))

    @staticmethod
    def from_json(text: str) -> "LogBatchPosition | StreamPosition":
        """The position of such JSON, or of one in the rows of a snapshot; raises InvalidInputError for others."""
        try:
            value = json.loads(text)
            if "log" not in value:
                return StreamPosition.from_json(text)
            return LogBatchPosition(
                snapshot_id=int(value["snapshotId"]),
                uuid=value["uuid"],
                covered=_numbers(value["covered"]),
                log=_numbers(value["log"]),
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise InvalidInputError(f"Not a position in a stream of a log: {text!r}.") from error


def _texts(offsets: Offsets) -> dict[str, int]:
    return {str(partition): offset for partition, offset in sorted(offsets.items())}


def _numbers(value: Mapping[str, int]) -> dict[int, int]:
    return {int(partition): int(offset) for partition, offset in value.items()}
