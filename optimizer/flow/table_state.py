"""State of a table in the optimizer, and the requests that users leave for it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from interbed.optimizer.flow.group import DEFAULT_GROUP
from interbed.optimizer.flow.kind import Need, WorkKind
from interbed.optimizer.flow.process import TableStanding

IN_SHAPE_SCORE = 90
"""From this score on a table that needs nothing is said to be in shape."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableState:
    """One table. Times are epoch milliseconds.

    `last` is when each kind of work was last done or found to have nothing to do, `settled` the snapshot then: while it
    is the newest, that kind has nothing more to do. `counted_from` is when the interval of a kind that was never done
    counts as begun. `failures` is how many processes in a row did not succeed,
    `not_before` until when the table is left alone after that, `next_check` when something may become due though nobody
    writes.
    """

    name: str
    group: str = DEFAULT_GROUP
    quota: float = 0.5
    enabled: bool = True
    paused: bool = False
    standing: TableStanding | None = None
    measured_millis: int | None = None
    reasons: tuple[str, ...] = ()
    needs: tuple[Need, ...] = ()
    requested: WorkKind | None = None
    last: Mapping[WorkKind, int] = field(default_factory=dict)
    settled: Mapping[WorkKind, int] = field(default_factory=dict)
    counted_from: Mapping[WorkKind, int] = field(default_factory=dict)
    failures: int = 0
    not_before_millis: int = 0
    next_check_millis: int | None = None
    unreadable: str | None = None

    @property
    def next_need(self) -> Need | None:
        """What is to be done next; None for nothing."""
        return self.needs[0] if self.needs else None

    def to_json(self) -> dict[str, Any]:
        """The state as a JSON object."""
        return {
            "table": self.name,
            "group": self.group,
            "quota": self.quota,
            "enabled": self.enabled,
            "paused": self.paused,
            "standing": None if self.standing is None else self.standing.to_json(),
            "measured_millis": self.measured_millis,
            "reasons": list(self.reasons),
            "needs": [need.to_json() for need in self.needs],
            "requested": None if self.requested is None else self.requested.value,
            "last": {kind.value: millis for kind, millis in self.last.items()},
            "settled": {kind.value: snapshot for kind, snapshot in self.settled.items()},
            "counted_from": {kind.value: millis for kind, millis in self.counted_from.items()},
            "failures": self.failures,
            "not_before_millis": self.not_before_millis,
            "next_check_millis": self.next_check_millis,
            "unreadable": self.unreadable,
        }

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> "TableState":
        """The state of an object made by to_json."""
        given = dict(value)
        standing = given.pop("standing")
        requested = given.pop("requested")
        return TableState(
            name=given.pop("table"),
            standing=None if standing is None else TableStanding.from_json(standing),
            reasons=tuple(given.pop("reasons")),
            needs=tuple(Need.from_json(need) for need in given.pop("needs")),
            requested=None if requested is None else WorkKind(requested),
            last={WorkKind(kind): millis for kind, millis in given.pop("last").items()},
            settled={WorkKind(kind): snapshot for kind, snapshot in given.pop("settled").items()},
            # A journal of an earlier version lacks it.
            counted_from={WorkKind(kind): millis for kind, millis in given.pop("counted_from", {}).items()},
            **given,
        )


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
