"""Locks as operators see them: the holder and lease of each, the lock that it waits for, and chains of waiting."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from interbed.catalog.server.service.lock_model import Lock, LockComponent, LockState
from interbed.catalog.server.service.model import DEFAULT_CATALOG

CHAIN_MAX = 1000
"""Locks in a chain of waiting: no two wait for each other, but the report of a foreign metastore can be wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LockView:
    """One lock. Times are milliseconds since the epoch, None where the metastore does not report them; `waits_for` is
    the id of the first lock in its way.

    `orphaned_ms` is when the last connection of its client broke, None while one is open or where that is unknown. The
    metastore drops such a lock after `disconnect_seconds`; with 0 only its lease counts.
    """

    id: int
    state: LockState
    components: tuple[LockComponent, ...]
    user: str
    host: str
    agent: str
    since_ms: int | None
    heartbeat_ms: int | None
    lease_seconds: float
    waits_for: int | None
    orphaned_ms: int | None = None
    disconnect_seconds: float = 0.0

    def age_seconds(self, now: float) -> float | None:
        """Return the time since it was granted; for a waiting lock, since it was requested."""
        return None if self.since_ms is None else max(0.0, now - self.since_ms / 1000)

    def lease_left_seconds(self, now: float) -> float | None:
        """Return how long its lease lasts without a heartbeat."""
        if self.heartbeat_ms is None:
            return None
        return max(0.0, self.heartbeat_ms / 1000 + self.lease_seconds - now)

    def orphaned_seconds(self, now: float) -> float | None:
        """Return how long its client has had no connection; None for a lock that is no orphan."""
        return None if self.orphaned_ms is None else max(0.0, now - self.orphaned_ms / 1000)

    def dropped_in_seconds(self, now: float) -> float | None:
        """Return the time until the metastore drops it, unless its client sends a heartbeat or reconnects."""
        left = self.lease_left_seconds(now)
        orphaned = self.orphaned_seconds(now)
        if orphaned is None or not self.disconnect_seconds:
            return left
        grace = max(0.0, self.disconnect_seconds - orphaned)
        return grace if left is None else min(left, grace)

    def to_json(self, now: float) -> dict[str, Any]:
        """Return the lock as JSON with times relative to now."""
        age, left = self.age_seconds(now), self.lease_left_seconds(now)
        orphaned, dropped_in = self.orphaned_seconds(now), self.dropped_in_seconds(now)
        return {
            "id": self.id,
            "state": self.state.name.lower(),
            "components": [
                {
                    "type": component.type.name.lower(),
                    "database": component.database,
                    "table": component.table,
                    "partition": component.partition,
                    **({} if component.catalog in (None, DEFAULT_CATALOG) else {"catalog": component.catalog}),
                }
                for component in self.components
            ],
            "user": self.user,
            "host": self.host,
            "agent": self.agent,
            "age_seconds": None if age is None else round(age, 1),
            "lease_left_seconds": None if left is None else round(left, 1),
            "orphaned_seconds": None if orphaned is None else round(orphaned, 1),
            "dropped_in_seconds": None if dropped_in is None else round(dropped_in, 1),
            "waits_for": self.waits_for,
        }


def view_of(lock: Lock, blocker: Lock | None, lease_seconds: float, disconnect_seconds: float) -> LockView:
    """Return a stored lock, with the one that it waits for, as operators see it."""
    request = lock.request
    return LockView(
        id=lock.id,
        state=lock.state,
        components=request.components,
        user=request.user,
        host=request.host,
        agent=request.agent,
        since_ms=lock.acquired_at_ms if lock.acquired_at_ms is not None else lock.requested_at_ms,
        heartbeat_ms=lock.heartbeat_at_ms,
        lease_seconds=lease_seconds,
        waits_for=None if blocker is None else blocker.id,
        orphaned_ms=lock.orphaned_at_ms,
        disconnect_seconds=disconnect_seconds,
    )


def chain_of(lock: LockView, locks: Sequence[LockView]) -> list[LockView]:
    """Return the lock, the one that it waits for, the one that this waits for, and so on to one that does not wait."""
    by_id = {each.id: each for each in locks}
    chain = [lock]
    while chain[-1].waits_for is not None and len(chain) < CHAIN_MAX:
        following = by_id.get(chain[-1].waits_for)
        if following is None or following in chain:
            break
        chain.append(following)
    return chain


def waiters_of(lock: LockView, locks: Sequence[LockView]) -> list[LockView]:
    """Return the later locks that have to wait for this one, whether or not for others as well."""
    return [
        each
        for each in locks
        if each.id > lock.id and each.state == LockState.WAITING and (each.waits_for == lock.id or _waits(each, lock))
    ]


def blockers_of(lock: LockView, locks: Sequence[LockView]) -> list[LockView]:
    """Return all locks that this one has to wait for."""
    if lock.state != LockState.WAITING:
        return []
    return [each for each in locks if each.id < lock.id and (each.id == lock.waits_for or _waits(lock, each))]


def _waits(later: LockView, earlier: LockView) -> bool:
    return any(conflicts(component, earlier) for component in later.components)


def conflicts(component: LockComponent, other: LockView) -> bool:
    """Return whether a component conflicts with one of a lock."""
    return any(component.conflicts_with(each) for each in other.components)
