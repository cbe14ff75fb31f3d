"""Which table is next, of those that wait. Pure.

A table that has used its share of the group's time in the window has to wait for all that have not. Among the others
the policy decides, and the table that has waited longest is first among equals.
"""

from collections.abc import Iterable
from dataclasses import dataclass

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


def next_turn(waiting: Iterable[Waiting], policy: GroupPolicy, *, capacity: float, now: int) -> Waiting | None:
    """The table whose turn it is; None when none waits. `capacity` is the group's seconds in the window."""
    best: tuple[tuple[bool, bool, float, int, str], Waiting] | None = None
    for each in waiting:
        if policy is GroupPolicy.QUOTA:
            rank = each.used / each.quota
        else:
            rank = each.score - (now - each.since_millis) / _MILLIS_OF_A_POINT
        key = (not each.is_within(capacity), not each.requested, rank, each.since_millis, each.table)
        if best is None or key < best[0]:
            best = (key, each)
    return None if best is None else best[1]
