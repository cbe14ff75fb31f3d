"""That a table needs something, and why."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from interbed.optimizer.flow.kind import WorkKind


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
