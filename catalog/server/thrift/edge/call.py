"""A call as the server reports it to its observers (metrics, the slow-call log, the audit log), its caller as
authorizers know it, and the scope of its answer: the metadata that the answer depends on, by the arguments of the call.
"""

from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Protocol

from interbed.catalog.server.auth.principals import ClientCertificate, Mechanism, Principal
from interbed.catalog.server.service.access.objects import Caller
from interbed.catalog.server.service.errors import AccessDeniedError
from interbed.catalog.server.service.events import EventType
from interbed.catalog.server.service.model import DEFAULT_CATALOG
from interbed.catalog.server.service.names import normalized
from interbed.catalog.server.threads import ClientLink
from interbed.catalog.server.thrift.structs.convert import split_catalog


class CallOutcome(StrEnum):
    """Result kind of a call."""

    OK = "ok"
    REFUSED = "refused"
    """Answered with an exception of the interface: no such table, already exists."""
    FAILED = "failed"
    """Answered with an internal error."""
    UNKNOWN = "unknown"
    """A method that is not served."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSession:
    """The client of a connection. `user` is the name that set_ugi sent, None before; it is not authenticated.
    `certificate` is the client's verified TLS certificate, None without one.
    `principal` is the authenticated client, and `user` is its name then; None where the server serves every client. A
    client with a `refusal` gets it in answer to every call. `settings` are those that setMetaConf has set; they end
    with the connection. `link` is the connection as the calls know it. `caller` is the principal as authorizers know
    it; None without one, and for the server's own optimizer.
    """

    peer: str
    user: str | None = None
    certificate: ClientCertificate | None = None
    principal: Principal | None = None
    refusal: str | None = None
    settings: dict[str, str] = field(default_factory=dict, compare=False)
    link: ClientLink = field(default_factory=ClientLink, compare=False)
    caller: Caller | None = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        # Made once: cached answers are found by it.
        caller = None
        if self.principal is not None and self.principal.mechanism is not Mechanism.OPTIMIZER:
            caller = Caller(name=self.principal.name, groups=self.principal.groups)
        object.__setattr__(self, "caller", caller)

    def of(self, principal: Principal) -> "ClientSession":
        """Return the session of a principal. The settings of a session are those of its principal, whatever its groups
        are.
        """
        previous = self.principal
        if previous == principal:
            return self
        is_same = previous is not None and replace(previous, groups=principal.groups) == principal
        settings = self.settings if is_same else {}
        return replace(self, principal=principal, user=principal.name, refusal=None, settings=settings)


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A call that has ended. `arguments` is the decoded Thrift structure, or the parts of a REST path by their names;
    None where nothing was decoded. `is_change` is None where the name of the method decides.
    """

    request_id: str
    method: str
    session: ClientSession
    seconds: float
    outcome: CallOutcome
    error: str | None = None
    arguments: Any = None
    is_change: bool | None = None


class CallObserver(Protocol):
    """Observer of every call, notified on the thread that served it; must be quick and must not raise."""

    def observed(self, call: Call) -> None: ...


def notify(observers: Iterable[CallObserver], call: Call) -> None:
    """Notify all observers of a call."""
    for observer in observers:
        observer.observed(call)


current_request: ContextVar[str | None] = ContextVar("current_request", default=None)
"""The id of the request that this thread serves, for log records."""

current_method: ContextVar[str | None] = ContextVar("current_method", default=None)
"""The method that this thread serves, for log records."""

current_operation: ContextVar[tuple[str, str] | None] = ContextVar("current_operation", default=None)
"""Method and id of the REST request that this thread serves. Calls of Hive's interface may be made for it, with methods
and ids of their own.
"""

current_session: ContextVar[ClientSession | None] = ContextVar("current_session", default=None)
"""The session that this thread serves, for log records. A thread serves one connection: it is set at its beginning and
by set_ugi.
"""


def present_caller() -> Caller | None:
    """Return the caller of the present call; None for the process itself, which serves no client, and for its
    optimizer. AccessDeniedError for a client without a principal.
    """
    session = current_session.get()
    return None if session is None else caller_of(session)


def present_principal() -> tuple[Principal, str] | None:
    """Return the principal of the present call and its address; None for a client that is not authenticated."""
    session = current_session.get()
    return None if session is None or session.principal is None else (session.principal, session.peer)


def caller_of(session: ClientSession) -> Caller | None:
    """Return the caller of a session; None for the server's own optimizer. AccessDeniedError for a client without a
    principal.
    """
    if session.principal is None:
        raise AccessDeniedError(
            "the request is not authenticated, and this server decides by principals what callers may do"
        )
    return session.caller


Scope = tuple[str, ...]
"""The objects that an answer depends on: (catalog, database, table), or fewer of them for everything below. In place of
a database or a table, NAMES is the list of their names, _TYPES the list of tables with their types, and _ITSELF the
database without its tables.
"""

# No name has these characters.
NAMES = "*names"
_TYPES = "*types"
_ITSELF = "*itself"

_LEAVES_NAMES = frozenset(
    {
        EventType.ADD_PARTITION,
        EventType.ALTER_PARTITION,
        EventType.DROP_PARTITION,
        EventType.INSERT,
        EventType.ADD_PRIMARYKEY,
        EventType.ADD_FOREIGNKEY,
        EventType.ADD_UNIQUECONSTRAINT,
        EventType.ADD_NOTNULLCONSTRAINT,
        EventType.ADD_DEFAULTCONSTRAINT,
        EventType.ADD_CHECKCONSTRAINT,
        EventType.DROP_CONSTRAINT,
        EventType.UPDATE_TABLE_COLUMN_STAT,
        EventType.UPDATE_PARTITION_COLUMN_STAT,
        EventType.DELETE_TABLE_COLUMN_STAT,
        EventType.DELETE_PARTITION_COLUMN_STAT,
    }
)
"""Events of a table that do not change the lists of tables."""


def with_owners(scope: Scope) -> Scope:
    """Return the scope of an answer that also depends on owners: a caller sees a database in which it owns a table."""
    return scope[:-1] if scope and scope[-1] in (NAMES, _TYPES, _ITSELF) else scope


def scopes_of_table(kind: str, catalog: str, database: str, table: str, *, renamed: bool) -> Iterator[Scope]:
    yield ()
    yield (catalog,)
    yield (catalog, database)
    yield (catalog, database, table)
    if kind not in _LEAVES_NAMES:
        yield (catalog, database, _TYPES)
        if renamed or kind != EventType.ALTER_TABLE:
            yield (catalog, database, NAMES)


def tables_scope(catalog: str, database: str) -> Scope:
    """Return the scope of the lists of a database's tables by their kinds; names in lower case."""
    return (catalog, database, _TYPES)


def database_scope(catalog: str, database: str) -> Scope:
    """Return the scope of a database without its tables; names in lower case."""
    return (catalog, database, _ITSELF)


def _table(database: str | None, table: str | None, catalog: str | None = None) -> Scope:
    split, name = split_catalog(database, catalog)
    return (split, normalized(name), normalized(table))


def _database(database: str | None, catalog: str | None = None) -> Scope:
    split, name = split_catalog(database, catalog)
    return (split, normalized(name))


def _databases(pattern: str | None, catalog: str | None = None) -> Scope:
    return (split_catalog(pattern, catalog)[0], NAMES)


def _plain(call: Any) -> Scope:
    return _table(call.db_name, call.tbl_name)


SCOPES: dict[str, Callable[[Any], Scope]] = {
    "get_database": lambda call: (*_database(call.name), _ITSELF),
    "get_database_req": lambda call: (*_database(call.request.name, call.request.catalogName), _ITSELF),
    "get_databases": lambda call: _databases(call.pattern),
    "get_all_databases": lambda call: (DEFAULT_CATALOG, NAMES),
    "get_table": lambda call: _table(call.dbname, call.tbl_name),
    "get_table_req": lambda call: _table(call.req.dbName, call.req.tblName, call.req.catName),
    "get_fields": lambda call: _table(call.db_name, call.table_name),
    "get_fields_with_environment_context": lambda call: _table(call.db_name, call.table_name),
    "get_fields_req": lambda call: _table(call.req.dbName, call.req.tblName, call.req.catName),
    "get_schema": lambda call: _table(call.db_name, call.table_name),
    "get_schema_with_environment_context": lambda call: _table(call.db_name, call.table_name),
    "get_schema_req": lambda call: _table(call.req.dbName, call.req.tblName, call.req.catName),
    "get_all_tables": lambda call: (*_database(call.db_name), NAMES),
    "get_tables": lambda call: (*_database(call.db_name), NAMES),
    "get_tables_by_type": lambda call: (*_database(call.db_name), _TYPES),
    "get_table_objects_by_name": lambda call: _database(call.dbname),
    "get_table_objects_by_name_req": lambda call: _database(call.req.dbName, call.req.catName),
    "get_partition": _plain,
    "get_partition_with_auth": _plain,
    "get_partition_by_name": _plain,
    "get_partitions": _plain,
    "get_partitions_with_auth": _plain,
    "get_partitions_by_names": _plain,
    "get_partitions_by_filter": _plain,
    "get_partitions_ps": _plain,
    "get_partitions_ps_with_auth": _plain,
    "get_num_partitions_by_filter": _plain,
    "get_partition_names": _plain,
    "get_partition_names_ps": _plain,
    "get_partitions_by_filter_req": lambda call: _table(call.req.dbName, call.req.tblName, call.req.catName),
    "get_partitions_ps_with_auth_req": lambda call: _table(call.req.dbName, call.req.tblName, call.req.catName),
    "get_partition_names_ps_req": lambda call: _table(call.req.dbName, call.req.tblName, call.req.catName),
    "get_table_column_statistics": _plain,
    "get_table_statistics_req": lambda call: _table(call.request.dbName, call.request.tblName, call.request.catName),
    "get_functions": lambda call: _database(call.dbName),
    "get_function": lambda call: _database(call.dbName),
    "get_all_functions": lambda call: (),
}
