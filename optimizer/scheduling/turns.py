"""Which table is next, of those that wait. Pure.

A table that has used its share of the group's time in the window has to wait for all that have not. Among the others
the policy decides, and the table that has waited longest is first among equals.
"""

from dataclasses import dataclass
from typing import NamedTuple

from interbed.optimizer.flow.group import GroupPolicy

_MILLIS_OF_A_POINT = 60_000
"""Under the policy `balanced` a table's score counts a point less for each minute that it has waited, so that the worst
do not keep all others from their turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A table that waits: its quota, seconds used in the window, score, and since when (epoch milliseconds)."""

    table: str
    quota: float
    used: float
    score: int
    since_millis: int
    requested: bool = False

    def is_within(self, capacity: float) -> bool:
        """Whether the table may take more, of so many seconds that the group has in the window."""
        return self.used < self.quota * capacity


class Turn(NamedTuple):
    """Where a table stands in the line: the least turn is the first. `rank` is the policy's."""

    is_over_its_share: bool
    is_not_requested: bool
    rank: float
    since_millis: int
    table: str

    def is_before(self, other: "Turn") -> bool:
        """Whether it is before the other by its share or its rank."""
        return (self.is_over_its_share, self.rank) < (other.is_over_its_share, other.rank)


def turn_of(waiting: Waiting, policy: GroupPolicy, *, capacity: float) -> Turn:
    """The turn of a table; `capacity` is the group's seconds in the window.

    It does not depend on the time: who has waited longer by a minute has done so for ever.
    """
    if policy is GroupPolicy.QUOTA:
        rank = waiting.used / waiting.quota
    else:
        rank = waiting.score + waiting.since_millis / _MILLIS_OF_A_POINT
    return Turn(
        is_over_its_share=not waiting.is_within(capacity),
        is_not_requested=not waiting.requested,
        rank=rank,
        since_millis=waiting.since_millis,
        table=waiting.table,
    )
