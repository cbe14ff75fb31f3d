"""A step of a stream of an eventual log: what a micro-batch reads of one bucket, on its way to whoever reads it."""

import json
from base64 import b64decode, b64encode
from collections.abc import Sequence
from dataclasses import dataclass

from interbed.storage.base.errors import InvalidInputError
from interbed.storage.scan.split import Split


@dataclass(frozen=True, slots=True, kw_only=True)
class LogStep:
    """What a batch reads of one bucket, which is a partition of the log.

    `told` are the offsets whose records lie over the snapshot `before`, `written` those over the snapshot `after`;
    `splits` have the keys that the snapshots between them may have changed.
    """

    bucket: int
    before: int
    told: tuple[int, int]
    after: int
    written: tuple[int, int]
    splits: Sequence[Split]

    @property
    def record_count(self) -> int:
        """At most so many records are read."""
        return sum(end - begin for begin, end in (self.told, self.written))

    def to_bytes(self) -> bytes:
        """The step for whoever reads it."""
        value = {
            "bucket": self.bucket,
            "before": self.before,
            "told": self.told,
            "after": self.after,
            "written": self.written,
            "splits": [b64encode(split.to_bytes()).decode() for split in self.splits],
        }
        return json.dumps(value).encode()

    @staticmethod
    def from_bytes(content: bytes) -> "LogStep":
        """The step of bytes made by to_bytes; raises InvalidInputError for anything else."""
        try:
            value = json.loads(content)
            return LogStep(
                bucket=value["bucket"],
                before=value["before"],
                told=(value["told"][0], value["told"][1]),
                after=value["after"],
                written=(value["written"][0], value["written"][1]),
                splits=tuple(Split.from_bytes(b64decode(split)) for split in value["splits"]),
            )
        except (ValueError, KeyError, TypeError, IndexError) as error:
            raise InvalidInputError(f"Not a step of a stream of a log: {error}") from error
