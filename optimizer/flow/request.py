"""What people ask of the optimizer for one table."""

from dataclasses import dataclass
from enum import StrEnum

from interbed.optimizer.flow.kind import WorkKind


class RequestKind(StrEnum):
    """What is asked for."""

    PAUSE = "pause"
    """Nothing is begun for the table any more, also what was asked for before."""
    RESUME = "resume"
    NOW = "now"
    """One kind of work is done next, whether it is due or not, and though the table is paused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRequest:
    """One request; `id` is the journal's. `work` goes with NOW."""

    table: str
    kind: RequestKind
    work: WorkKind | None = None
    id: int = 0
