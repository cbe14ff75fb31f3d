"""A piece of work that one process does by itself: files of one partition, and why."""

from dataclasses import dataclass
from enum import Enum
from typing import Any

from interbed.iceberg.meta.live_file import LiveFile
from interbed.iceberg.plan.task import DataTask


class Action(Enum):
    """What is done with data files."""

    REWRITE = "rewrite"
    """Their rows are written anew, without those that are deleted."""
    CONVERT = "convert"
    """Their deletes become one vector, or one file of positions, for each of them; they stay."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizeUnit:
    """Data files of one partition spec and partition with their deletes. Can be sent to another process."""

    action: Action
    reason: str
    files: tuple[DataTask, ...]

    @property
    def spec_id(self) -> int:
        """The partition spec of all of them."""
        return self.files[0].file.spec_id

    @property
    def partition(self) -> tuple[object, ...]:
        """The partition of all of them."""
        return self.files[0].file.partition

    @property
    def rows(self) -> int:
        """The rows of the data files, deleted ones among them."""
        return sum(task.file.records for task in self.files)

    @property
    def bytes(self) -> int:
        """The size of the data files."""
        return sum(task.file.size for task in self.files)

    @property
    def deletes(self) -> tuple[LiveFile, ...]:
        """The delete files that are read, each once."""
        return tuple({file.place: file for task in self.files for file in task.deletes.files}.values())

    @property
    def cost(self) -> int:
        """What it reads, in bytes."""
        return sum(task.cost for task in self.files) + sum(file.cost for file in self.deletes)

    def __str__(self) -> str:
        where = "/".join(map(str, self.partition))
        return (
            f"{f'partition {where}: ' if where else ''}{self.action.value} {len(self.files)} file(s) of "
            f"{self.rows:,} rows, {self.bytes:,} bytes, with {len(self.deletes)} delete file(s): {self.reason}"
        )

    def to_json(self) -> dict[str, Any]:
        """The unit as a JSON object, without the names of files."""
        return {
            "action": self.action.value,
            "reason": self.reason,
            "partition": [str(value) for value in self.partition],
            "files": len(self.files),
            "rows": self.rows,
            "bytes": self.bytes,
            "delete_files": len(self.deletes),
        }
