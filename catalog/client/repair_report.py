"""What a repair of a metastore did, or would do."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class RepairKind(StrEnum):
    """What was done."""

    CREATE_DATABASE = "create database"
    CREATE_TABLE = "create table"
    ALTER_TABLE = "alter table"
    ADD_PARTITIONS = "add partitions"
    DROP_TABLE = "drop table"
    UNFINISHED = "unfinished"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairAction:
    """One thing done; `detail` says what differed, or why it failed."""

    kind: RepairKind
    name: str
    detail: str

    def __str__(self) -> str:
        return f"{self.kind:<15}  {self.name}  {self.detail}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairReport:
    """All that was done, in order; `dry_run` says that it was not."""

    dry_run: bool
    tables: int
    """Tables that were looked at."""
    actions: Sequence[RepairAction]

    @property
    def failures(self) -> list[RepairAction]:
        """What could not be repaired."""
        return [a for a in self.actions if a.kind is RepairKind.FAILED]

    def to_json(self) -> dict[str, Any]:
        """The report as JSON's types."""
        return {
            "dry_run": self.dry_run,
            "tables": self.tables,
            "actions": [{"kind": str(a.kind), "name": a.name, "detail": a.detail} for a in self.actions],
        }

    def __str__(self) -> str:
        looked = f"looked at {self.tables} table{'' if self.tables == 1 else 's'}"
        if not self.actions:
            return f"{looked}; nothing to repair"
        return "\n".join([*map(str, self.actions), f"{looked}{'; nothing was changed' if self.dry_run else ''}"])
