"""The calls about locks."""

from typing import Any

from interbed.catalog.server.service.errors import (
    InvalidObjectError,
    MetastoreError,
    NoSuchLockError,
    NoSuchTransactionError,
)
from interbed.catalog.server.service.lock_model import Lock, LockComponent, LockState
from interbed.catalog.server.service.names import normalized
from interbed.catalog.server.service.service import Metastore
from interbed.catalog.server.session import current_link
from interbed.catalog.server.thrift.calls.lock_clients import LockClients
from interbed.catalog.server.thrift.structs import convert
from interbed.catalog.server.thrift.structs.convert import split_catalog
from interbed.catalog.server.thrift.structs.errors import UndeclaredError
from interbed.thrift_idl.hive_metastore import ttypes


class LockHandler:
    """Locks. Transactions do not exist, so that a request which names one is refused."""

    def __init__(self, metastore: Metastore, clients: LockClients) -> None:
        self._locks = metastore.locks
        self._clients = clients

    def lock(self, rqst: Any) -> Any:
        _refuse_transaction(rqst.txnid)
        try:
            # Before the components are decoded, which takes longer than to count them.
            self._locks.check_size(len(rqst.component or ()))
            request = convert.lock_request_from_thrift(rqst)
        except ValueError as error:
            raise MetastoreError(f"a lock with an unknown type or level: {error}") from error
        except InvalidObjectError as error:
            # The call declares no exception for it.
            raise UndeclaredError(str(error)) from error
        lock = self._locks.lock(request, process=self._clients.process())
        self._clients.touch(lock.id)
        return _lock_response(lock)

    def check_lock(self, rqst: Any) -> Any:
        _refuse_transaction(rqst.txnid)
        link = current_link.get()
        until = None
        if link is not None:
            until, link.waits_until = link.waits_until, None
        self._clients.touch(rqst.lockid)
        try:
            lock = self._locks.check_lock(rqst.lockid, process=self._clients.process())
        except NoSuchLockError:
            self._clients.released(rqst.lockid)
            raise
        # Once more, for a connection that has ended meanwhile.
        self._clients.touch(rqst.lockid)
        if lock.state == LockState.WAITING:
            self._clients.wait(lock, until)
        return _lock_response(lock)

    def unlock(self, rqst: Any) -> None:
        self._locks.unlock(rqst.lockid)
        self._clients.released(rqst.lockid)

    def heartbeat(self, ids: Any) -> None:
        _refuse_transaction(ids.txnid)
        if ids.lockid:
            self._clients.touch(ids.lockid)
            try:
                self._locks.heartbeat(ids.lockid, process=self._clients.process())
            except NoSuchLockError:
                self._clients.released(ids.lockid)
                raise
            self._clients.touch(ids.lockid)

    def show_locks(self, rqst: Any) -> Any:
        database = normalized(split_catalog(rqst.dbname)[1]) or None
        wanted = (database, normalized(rqst.tablename) or None, rqst.partname or None)
        return ttypes.ShowLocksResponse(
            locks=[
                _lock_element(lock, number, component, blocker)
                for lock, blocker in self._locks.show(*wanted)
                for number, component in enumerate(lock.request.components, start=1)
                # Of a lock on several things those are listed that were asked for.
                if component.lies_in(*wanted)
            ]
        )


def _refuse_transaction(transaction_id: int | None) -> None:
    if transaction_id:
        raise NoSuchTransactionError(f"No such transaction txnid:{transaction_id}")


def _lock_response(lock: Lock) -> Any:
    return ttypes.LockResponse(lockid=lock.id, state=int(lock.state))


def _lock_element(lock: Lock, number: int, component: LockComponent, blocker: Lock | None) -> Any:
    request = lock.request
    return ttypes.ShowLocksResponseElement(
        lockid=lock.id,
        dbname=component.database,
        tablename=component.table,
        partname=component.partition,
        state=int(lock.state),
        type=int(component.type),
        txnid=0,
        lastheartbeat=lock.heartbeat_at_ms,
        acquiredat=lock.acquired_at_ms,
        user=request.user,
        hostname=request.host,
        heartbeatCount=lock.heartbeat_count,
        agentInfo=request.agent,
        blockedByExtId=None if blocker is None else blocker.id,
        lockIdInternal=number,
        orphanedAt=lock.orphaned_at_ms,
    )
