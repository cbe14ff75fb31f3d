"""Services for HiveServer2: scheduled queries, statistics of runs, and its token store.

A scheduled query is stored with its schedule. When it is due, it is given to one executor at a time. Statistics of runs
are stored for Hive's later plans (`hive.query.reexecution.stats.persist.scope`).

Several HiveServer2 share their delegation tokens and master keys by the token store
(`hive.cluster.delegation.token.store.class` = DBTokenStore). Both are secrets: their holder acts for every user of
HiveServer2. So administrators alone may read and write them, and a server that does not know its administrators keeps
none. Tokens of this store are not accepted by this server.
"""

import dataclasses
import logging
import time
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from interbed.catalog.server.service.access.objects import Privilege
from interbed.catalog.server.service.access.secured import SecuredService, needs, secured, the_server, unsecured
from interbed.catalog.server.service.errors import (
    AccessDeniedError,
    AlreadyExistsError,
    InvalidArgumentError,
    InvalidObjectError,
    InvalidOperationError,
    MetastoreError,
    NoSuchObjectError,
)
from interbed.catalog.server.service.names import shortened
from interbed.catalog.server.service.repository import Repository, Transaction
from interbed.catalog.server.service.schedule import (
    ENDED,
    QueryState,
    RuntimeStatistics,
    ScheduledQuery,
    ScheduleError,
    parse_schedule,
)

logger = logging.getLogger(__name__)

TIMEOUT_SECONDS = 120
"""An execution without a report for so long has timed out: Hive's
`metastore.scheduled.queries.execution.timeout`. HiveServer2 reports every minute.
"""

EXECUTION_AGE_SECONDS_MAX = 30 * 86400
"""Executions are removed after this time: Hive's `metastore.scheduled.queries.execution.max.age`."""

TIME_MAX = 2**31 - 1
"""The last time that Hive's interface can express. A query whose next run is later has none."""

ERROR_LENGTH_MAX = 1000

AGE_SECONDS_MAX = 3 * 86400
"""Age in seconds after which they are removed: Hive's `metastore.runtime.stats.max.age`."""


class ScheduledQueryService(SecuredService):
    """The calls about scheduled queries. `clock` gives seconds since the epoch."""

    def __init__(self, store: Repository, *, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._clock = clock

    @secured(needs(Privilege.ALL, the_server))
    def get(self, namespace: str, name: str) -> ScheduledQuery:
        """Return the query. NoSuchObjectError if there is none."""
        found = self._store.read(lambda transaction: transaction.queries.find(namespace, name))
        if found is None:
            raise _not_found(namespace, name)
        return found[1]

    @secured(needs(Privilege.ALL, the_server))
    def create(self, query: ScheduledQuery) -> None:
        """Store a new query; its schedule decides when it runs first. InvalidArgumentError, AlreadyExistsError."""
        complete = dataclasses.replace(query, next_execution=self._next(query))

        def work(transaction: Transaction) -> None:
            if not transaction.queries.add(complete):
                raise AlreadyExistsError(
                    f"Scheduled query with name: {_shown(query.namespace, query.name)} already exists."
                )

        self._store.write(work)

    @secured(needs(Privilege.ALL, the_server))
    def alter(self, query: ScheduledQuery) -> None:
        """Replace the query. It runs next at its own time if it has one, otherwise by its schedule. NoSuchObjectError,
        InvalidArgumentError.
        """

        def work(transaction: Transaction) -> None:
            found = transaction.queries.find(query.namespace, query.name, for_update=True)
            if found is None:
                raise _not_found(query.namespace, query.name)
            following = self._next(query)
            chosen = query.next_execution if query.next_execution is not None else following
            transaction.queries.replace(found[0], dataclasses.replace(query, next_execution=chosen))

        self._store.write(work)

    @secured(needs(Privilege.ALL, the_server))
    def drop(self, namespace: str, name: str) -> None:
        """Remove the query and its executions; a running one continues, and its reports are ignored.
        NoSuchObjectError.
        """

        def work(transaction: Transaction) -> None:
            found = transaction.queries.find(namespace, name, for_update=True)
            if found is None:
                raise _not_found(namespace, name)
            transaction.queries.remove(found[0])

        self._store.write(work)

    @secured(needs(Privilege.ALL, the_server))
    def poll(self, namespace: str) -> tuple[int, ScheduledQuery] | None:
        """Return a query that is due, with the id of the execution that begins with this call; None if there is none.
        Each execution is given to exactly one of several concurrent callers.
        """
        now = int(self._clock())
        # Most of the time nothing is due, and then nothing is written.
        if self._store.read(lambda transaction: transaction.queries.due(namespace, now)) is None:
            return None

        def work(transaction: Transaction) -> tuple[int, ScheduledQuery] | None:
            found = transaction.queries.due(namespace, now)
            if found is None:
                return None
            query_id, query = found
            return transaction.queries.start(query_id, self._next(query), now), query

        return self._store.write(work)

    @secured(needs(Privilege.ALL, the_server))
    def progress(self, execution_id: int, state: QueryState, executor_query_id: str | None, error: str | None) -> None:
        """Store the progress of an execution. InvalidOperationError for an unknown one and for an invalid change of
        state.
        """
        self._store.write(
            lambda transaction: self._progress(transaction, execution_id, state, executor_query_id, error)
        )

    @unsecured("the reaper calls it")
    def expire(self) -> tuple[int, int]:
        """End the executions without a report, so that their queries run again, and remove old ones: the numbers
        of both.
        """
        now = int(self._clock())

        def work(transaction: Transaction) -> tuple[int, int]:
            silent = transaction.queries.silent(now - TIMEOUT_SECONDS)
            for execution_id in silent:
                message = f"Nothing was heard of the query for {TIMEOUT_SECONDS} seconds. Execution timed out."
                self._progress(transaction, execution_id, QueryState.TIMED_OUT, None, message)
            return len(silent), transaction.queries.expire_executions(now - EXECUTION_AGE_SECONDS_MAX)

        return self._store.write(work)

    def _progress(
        self,
        transaction: Transaction,
        execution_id: int,
        state: QueryState,
        executor_query_id: str | None,
        error: str | None,
    ) -> None:
        old = transaction.queries.execution(execution_id)
        if old is None:
            raise InvalidOperationError(f"there is no execution {execution_id} of a scheduled query")
        if not _may_follow(old.state, state):
            raise InvalidOperationError(f"Invalid state change: {old.state.name}=>{state.name}")
        now = int(self._clock())
        ended = state in ENDED
        new = dataclasses.replace(
            old,
            state=state,
            executor_query_id=executor_query_id if executor_query_id is not None else old.executor_query_id,
            error=error[:ERROR_LENGTH_MAX] if error is not None else old.error,
            updated=None if ended else now,
            ended=now if ended else None,
        )
        transaction.queries.store_execution(new)

    def _next(self, query: ScheduledQuery) -> int | None:
        try:
            found = parse_schedule(query.schedule or "").next_after(self._clock())
        except ScheduleError as error:
            raise InvalidArgumentError(
                f"Invalid QUARTZ schedule expression: '{shortened(query.schedule)}': {error}"
            ) from error
        return found if found is not None and found <= TIME_MAX else None


def _may_follow(before: QueryState, after: QueryState) -> bool:
    """Return whether a change of state is allowed: an ended execution stays as it is; only the server
    disables a query.
    """
    if before is QueryState.INITED:
        return after in (QueryState.EXECUTING, *ENDED)
    return before is QueryState.EXECUTING and after in (QueryState.EXECUTING, *ENDED)


def _shown(namespace: str, name: str) -> str:
    return f"{shortened(namespace)}.{shortened(name)}"


def _not_found(namespace: str, name: str) -> NoSuchObjectError:
    return NoSuchObjectError(f"Scheduled query with name: {_shown(namespace, name)} doesn't exist.")


class RuntimeStatisticsService(SecuredService):
    """The calls about statistics of runs. `clock` gives seconds since the epoch."""

    def __init__(self, store: Repository, *, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._clock = clock

    @secured(needs(Privilege.ALL, the_server))
    def add(self, statistics: RuntimeStatistics) -> None:
        """Store statistics with the present time."""
        stamped = dataclasses.replace(statistics, create_time=int(self._clock()))
        self._store.write(lambda transaction: transaction.run_statistics.add(stamped))

    @secured(needs(Privilege.ALL, the_server))
    def newest(self, weight_max: int, created_before: int) -> list[RuntimeStatistics]:
        """Return the newest ones until the sum of their weights reaches `weight_max` (any, if it is negative), created
        before a time (at any time, unless it is positive).
        """
        limit = created_before if created_before > 0 else None
        found = self._store.read(lambda transaction: transaction.run_statistics.newest(limit))
        chosen: list[RuntimeStatistics] = []
        weight = 0
        for each in found:
            if weight_max >= 0 and weight >= weight_max:
                break
            chosen.append(each)
            weight += each.weight
        return chosen

    @unsecured("the reaper calls it")
    def expire(self) -> int:
        """Remove old ones and return their number."""
        before = int(self._clock()) - AGE_SECONDS_MAX
        return self._store.write(lambda transaction: transaction.run_statistics.expire(before))


class TokenStore(Protocol):
    """Tokens by their identifiers, and master keys by their ids, in a transaction."""

    def add_token(self, identifier: str, token: str) -> bool:
        """Store a token; False if its identifier is taken."""
        ...

    def token(self, identifier: str) -> str | None: ...
    def remove_token(self, identifier: str) -> bool:
        """Remove a token, and return whether it was stored."""
        ...

    def identifiers(self) -> Sequence[str]:
        """Return the identifiers of all tokens, in order."""
        ...

    def add_key(self, content: str) -> int:
        """Store a new master key, and return its id."""
        ...

    def replace_key(self, key_id: int, content: str) -> bool:
        """Replace a master key, and return whether it was stored."""
        ...

    def remove_key(self, key_id: int) -> bool:
        """Remove a master key, and return whether it was stored."""
        ...

    def keys(self) -> Sequence[str]:
        """Return the contents of all master keys, the oldest first."""
        ...


T = TypeVar("T")

IDENTIFIER_CHARACTERS_MAX = 1000
"""The longest identifier of a token; Hive's own database takes 767."""

CONTENT_CHARACTERS_MAX = 16 * 1024
"""The longest token or master key; Hive's own database takes 767."""

KEY_ID_MAX = 2**31 - 1
"""The last id of a master key that Hive's interface can express."""


class StoreTransaction(Protocol):
    """One unit of work on a database with the token store."""

    @property
    def token_store(self) -> TokenStore: ...


class TokenStoreRepository(Protocol):
    """Database with the token store: the metastore's."""

    def read(self, work: Callable[[StoreTransaction], T]) -> T: ...
    def write(self, work: Callable[[StoreTransaction], T]) -> T: ...


class TokenStoreService(SecuredService):
    """The calls of HiveServer2's token store, as Hive's metastore answers them."""

    def __init__(self, store: TokenStoreRepository) -> None:
        self._store = store

    @secured(needs(Privilege.ALL, the_server))
    def add_token(self, identifier: str, token: str) -> bool:
        """Store a token; False if its identifier is taken. InvalidObjectError for texts that are empty or too long."""
        self._check_is_on()
        _check(identifier, "The identifier of a token", IDENTIFIER_CHARACTERS_MAX)
        _check(token, "A token", CONTENT_CHARACTERS_MAX)
        return self._store.write(lambda transaction: transaction.token_store.add_token(identifier, token))

    @secured(needs(Privilege.ALL, the_server))
    def token(self, identifier: str) -> str | None:
        """Return a token, None if it is not stored."""
        self._check_is_on()
        return self._store.read(lambda transaction: transaction.token_store.token(identifier))

    @secured(needs(Privilege.ALL, the_server))
    def remove_token(self, identifier: str) -> bool:
        """Remove a token, and return whether it was stored."""
        self._check_is_on()
        return self._store.write(lambda transaction: transaction.token_store.remove_token(identifier))

    @secured(needs(Privilege.ALL, the_server))
    def identifiers(self) -> Sequence[str]:
        """Return the identifiers of all tokens, in order."""
        self._check_is_on()
        return self._store.read(lambda transaction: transaction.token_store.identifiers())

    @secured(needs(Privilege.ALL, the_server))
    def add_key(self, content: str) -> int:
        """Store a new master key, and return its id. InvalidObjectError for texts that are empty or too long."""
        self._check_is_on()
        _check(content, "A master key", CONTENT_CHARACTERS_MAX)

        def work(transaction: StoreTransaction) -> int:
            key_id = transaction.token_store.add_key(content)
            if key_id > KEY_ID_MAX:
                raise MetastoreError(f"the ids of master keys are used up: Hive's interface has {KEY_ID_MAX}")
            return key_id

        return self._store.write(work)

    @secured(needs(Privilege.ALL, the_server))
    def replace_key(self, key_id: int, content: str) -> None:
        """Replace a master key. NoSuchObjectError, InvalidObjectError."""
        self._check_is_on()
        _check(content, "A master key", CONTENT_CHARACTERS_MAX)
        if not self._store.write(lambda transaction: transaction.token_store.replace_key(key_id, content)):
            raise NoSuchObjectError(f"Key is not found with keyId: {key_id}")

    @secured(needs(Privilege.ALL, the_server))
    def remove_key(self, key_id: int) -> bool:
        """Remove a master key, and return whether it was stored."""
        self._check_is_on()
        return self._store.write(lambda transaction: transaction.token_store.remove_key(key_id))

    @secured(needs(Privilege.ALL, the_server))
    def keys(self) -> Sequence[str]:
        """Return the contents of all master keys, the oldest first."""
        self._check_is_on()
        return self._store.read(lambda transaction: transaction.token_store.keys())

    def _check_is_on(self) -> None:
        """Raise AccessDeniedError where every client may do everything."""
        if not self._access.is_on:
            raise AccessDeniedError(
                "this server keeps no tokens of HiveServer2, because every client could read them: set "
                "access_authorizer to builtin and HiveServer2's user in access_admins, or let HiveServer2 keep its "
                "tokens in ZooKeeper or in memory (hive.cluster.delegation.token.store.class)"
            )


def _check(text: str, what: str, characters_max: int) -> None:
    if not text or len(text) > characters_max:
        raise InvalidObjectError(f"{what} has {len(text)} characters; it has 1 to {characters_max}")
