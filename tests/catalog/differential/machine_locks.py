"""Random sequences of lock calls: which locks are granted, which wait, and how they are released,
checked and renewed.
"""

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from interbed.thrift_idl.hive_metastore import ttypes
from tests.catalog.differential import strategies as some
from tests.catalog.differential.accepted import BEHIND_A_WAITING_LOCK, BESIDE_A_DATABASE, CHECKED_BEHIND_A_WAITING_LOCK
from tests.catalog.differential.machine import ComparingMachine
from tests.catalog.differential.servers import CallAnswer, Outcome

KINDS = st.sampled_from(
    [ttypes.LockType.EXCLUSIVE, ttypes.LockType.SHARED_READ, ttypes.LockType.SHARED_READ, ttypes.LockType.SHARED_WRITE]
)
UNKNOWN = 999_999_999
WAITING = ttypes.LockState.WAITING


@st.composite
def components(draw: st.DrawFn, *, below_databases: bool = False) -> ttypes.LockComponent:
    """Generate a component on a database, a table or a partition; names are in lower case only (README.md)."""
    level = draw(st.sampled_from([ttypes.LockLevel.TABLE] * 3 + [ttypes.LockLevel.PARTITION, ttypes.LockLevel.DB]))
    if below_databases and level == ttypes.LockLevel.DB:
        level = ttypes.LockLevel.TABLE
    return ttypes.LockComponent(
        type=draw(KINDS),
        level=level,
        dbname=draw(some.one_of(["d1"], ["d2"])),
        tablename=None if level == ttypes.LockLevel.DB else draw(st.sampled_from(["t1", "t1", "t2"])),
        partitionname=draw(some.one_of(["p=a"], ["p=b"])) if level == ttypes.LockLevel.PARTITION else None,
    )


SEVERAL = st.one_of(
    # Components of one request must not overlap: Java grants such a request whatever other locks are held (README.md).
    st.lists(components(), min_size=1, max_size=2, unique_by=lambda c: c.dbname),
    st.lists(components(below_databases=True), min_size=1, max_size=2, unique_by=lambda c: c.tablename),
)


class LocksMachine(ComparingMachine):
    """Random sequences of lock calls; locks are numbered in the order of their requests."""

    def __init__(self) -> None:
        super().__init__()
        self._locks: list[tuple[int, int]] = []
        self._waiting: set[int] = set()
        self._shared_databases: set[int] = set()

    # A request while another one waits may be granted by one server and not by the other (README.md), which ends the
    # example. Most examples avoid this and are longer.
    @precondition(lambda self: not self._waiting)
    @rule(wanted=SEVERAL)
    def lock(self, wanted: list[Any]) -> None:
        request = ttypes.LockRequest(component=wanted, user="me", hostname="here", agentInfo="test")
        self.request_lock(request)

    @precondition(lambda self: not self._waiting)
    @rule(wanted=components())
    def lock_one(self, wanted: Any) -> None:
        self.request_lock(ttypes.LockRequest(component=[wanted], user="me", hostname="here"))

    @precondition(lambda self: len(self._waiting) == 1)
    @rule(wanted=components())
    def lock_behind_another(self, wanted: Any) -> None:
        self.request_lock(ttypes.LockRequest(component=[wanted], user="me", hostname="here"), BEHIND_A_WAITING_LOCK)

    def request_lock(self, request: Any, method: str = "lock") -> None:
        """Send the request, and record the id of the lock on each server."""
        if self.has_diverged:
            return
        outcomes = self.servers.each(lambda server: server.raw("lock", (request,)))
        java, ours = outcomes
        if isinstance(java, CallAnswer) and isinstance(ours, CallAnswer):
            self._locks.append((java.value.lockid, ours.value.lockid))
        number = len(self._locks) - 1
        if any(c.level == ttypes.LockLevel.DB and c.type == ttypes.LockType.SHARED_READ for c in request.component):
            self._shared_databases.add(number)
        if self._shared_databases:
            method += BESIDE_A_DATABASE
        self.compare(method, (request,), *(self._numbered(outcome, number) for outcome in outcomes))

    def _numbered(self, outcome: Outcome, number: int) -> Outcome:
        if isinstance(outcome, CallAnswer) and outcome.value is not None:
            state = outcome.value.state
            (self._waiting.add if state == WAITING else self._waiting.discard)(number)
            return CallAnswer({"lock": number, "state": state})
        return outcome

    @rule(data=st.data())
    def unlock(self, data: st.DataObject) -> None:
        self._call_for_lock("unlock", data, lambda lock_id: ttypes.UnlockRequest(lockid=lock_id))

    @rule(data=st.data())
    def check_lock(self, data: st.DataObject) -> None:
        self._call_for_lock("check_lock", data, lambda lock_id: ttypes.CheckLockRequest(lockid=lock_id))

    @rule(data=st.data())
    def heartbeat(self, data: st.DataObject) -> None:
        self._call_for_lock("heartbeat", data, lambda lock_id: ttypes.HeartbeatRequest(lockid=lock_id))

    def _call_for_lock(self, method: str, data: st.DataObject, request: Any) -> None:
        number = data.draw(st.integers(-1, len(self._locks) - 1))
        if self.has_diverged:
            return
        ids = (UNKNOWN, UNKNOWN) if number == -1 else self._locks[number]
        outcomes = [
            server.raw(method, (request(lock_id),))
            for server, lock_id in zip((self.servers.java, self.servers.ours), ids, strict=True)
        ]
        if method == "unlock" and all(isinstance(outcome, CallAnswer) for outcome in outcomes):
            self._waiting.discard(number)
            self._shared_databases.discard(number)
        if method == "check_lock" and any(waiting < number for waiting in self._waiting):
            method = CHECKED_BEHIND_A_WAITING_LOCK
        if method.startswith("check_lock") and self._shared_databases:
            method += BESIDE_A_DATABASE
        named = [self._without_id(self._numbered(o, number), lock_id) for o, lock_id in zip(outcomes, ids, strict=True)]
        self.compare(method, (f"lock {number}",), *named)

    @staticmethod
    def _without_id(outcome: Outcome, lock_id: int) -> Outcome:
        if isinstance(outcome, CallAnswer):
            return outcome
        return type(outcome)(outcome.kind, outcome.text.replace(str(lock_id), "ID"))

    @rule(
        request=st.sampled_from(
            [
                ttypes.ShowLocksRequest(),
                ttypes.ShowLocksRequest(dbname="d1"),
                ttypes.ShowLocksRequest(dbname="d1", tablename="t1"),
                ttypes.ShowLocksRequest(dbname="d1", tablename="t1", partname="p=a"),
            ]
        )
    )
    def show_locks(self, request: Any) -> None:
        if self.has_diverged:
            return
        outcomes = self.servers.each(lambda server: server.raw("show_locks", (request,)))
        self.compare(
            "show_locks",
            (request,),
            *(self._listed(outcome, i) for i, outcome in enumerate(outcomes)),
        )

    def _listed(self, outcome: Outcome, server: int) -> Outcome:
        if not isinstance(outcome, CallAnswer):
            return outcome
        numbers = {ids[server]: number for number, ids in enumerate(self._locks)}
        found = []
        for lock in outcome.value.locks:
            accepted = {
                name: getattr(lock, name)
                for name in ("dbname", "tablename", "partname", "state", "type", "user", "hostname", "agentInfo")
            }
            # The blocking lock is left out: Java records it at the request and never updates it (README.md).
            found.append({"lock": numbers[lock.lockid], **accepted})
        # The locks of one request have no order.
        return CallAnswer(sorted(found, key=str))
