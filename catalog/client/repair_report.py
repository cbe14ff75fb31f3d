"""Report of a repair of a metastore."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class RepairKind(StrEnum):
    """The kind of an action."""

    CREATE_DATABASE = "create database"
    CREATE_TABLE = "create table"
    ALTER_TABLE = "alter table"
    ADD_PARTITIONS = "add partitions"
    DROP_TABLE = "drop table"
    UNFINISHED = "unfinished"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairAction:
    """One action; `detail` has the differences, or the reason of a failure."""

    kind: RepairKind
    name: str
    detail: str

    def __str__(self) -> str:
        return f"{self.kind:<15}  {self.name}  {self.detail}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairReport:
    """All actions, in order; with `dry_run` they were not executed."""

    dry_run: bool
    tables: int
    """The number of tables that were checked."""
    actions: Sequence[RepairAction]

    @property
    def failures(self) -> list[RepairAction]:
        """The actions that failed."""
        return [a for a in self.actions if a.kind is RepairKind.FAILED]

    def to_json(self) -> dict[str, Any]:
        """Return the report as values of JSON's types."""
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
