"""Kinds of work on a table, by Amoro's kinds of optimizing and the upkeep beside compaction, and the need for one."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class WorkKind(StrEnum):
    """One kind of work on a table."""

    MINOR = "minor"
    """Level 0 and small files are merged, as the universal strategy picks them."""
    MAJOR = "major"
    """Buckets with too many deleted rows are written anew without them."""
    FULL = "full"
    """Every bucket becomes one sorted run; rows are sorted where a table asks for it."""
    EXPIRE = "expire"
    """Snapshots, changelogs, tags, consumers and partitions that are due go, and automatic tags are made."""
    ORPHANS = "orphans"
    """Files that no snapshot knows go."""
    MANIFESTS = "manifests"
    """Small manifests become large ones."""
    ANALYZE = "analyze"
    """Statistics are counted anew."""
    RESCALE = "rescale"
    """Rows are spread over the number of buckets that the table's options ask for."""

    @property
    def is_compaction(self) -> bool:
        """Whether it is cut into tasks whose files the scheduler commits; all else is one task that commits itself."""
        return self in _COMPACTIONS

    @property
    def width(self) -> int:
        """How much a compaction does: one of more width does what one of less would have done. -1 for all else."""
        return _COMPACTIONS.index(self) if self.is_compaction else -1

    def covers(self, other: "WorkKind") -> bool:
        """Whether whoever did this kind need not do the other one: itself, and narrower compactions."""
        return other is self or (other.is_compaction and other.width < self.width)


_COMPACTIONS = (WorkKind.MINOR, WorkKind.MAJOR, WorkKind.FULL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """One kind of work that is due; `reason` says in figures why, `due_millis` since when (epoch).

    `options` are table options for the work on top of the table's own.
    """

    kind: WorkKind
    reason: str
    due_millis: int
    options: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The need as a JSON object."""
        return {
            "kind": self.kind.value,
            "reason": self.reason,
            "due_millis": self.due_millis,
            "options": dict(self.options),
        }

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> "Need":
        """The need of an object made by to_json."""
        return Need(**{**value, "kind": WorkKind(value["kind"])})
