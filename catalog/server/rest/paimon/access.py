"""The catalog of one request, by the prefix of its path: one of the metastore of this process, or a directory of tables
without a metastore.

A change may wait for the lock of its table, and the thread of the pool waits with it. The holder of the lock may need a
thread to release it. So only some changes run at once, the others are refused with status 503, which clients retry.

The metastore of this process answers calls of the Hive client without a connection. A call is encoded as for a
connection, carried out by the dispatcher on the calling thread, and its answer decoded. So observers see it, with the
session of the REST request that makes it.
"""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from http import HTTPStatus
from io import BytesIO
from typing import Any, TypeVar

from thrift.protocol.TBinaryProtocol import TBinaryProtocolAccelerated
from thrift.transport.TTransport import CReadableTransport, TTransportBase

from interbed.catalog.client.hive.client import HiveMetastoreClient
from interbed.catalog.client.hive.connection import acting_user
from interbed.catalog.client.hive.registration import same_location
from interbed.catalog.client.identifier import Identifier, TableName
from interbed.catalog.client.options import CatalogOptions
from interbed.catalog.server.auth.principals import OPTIMIZER, Mechanism, Principal
from interbed.catalog.server.rest.interface import RestError, RestRequest
from interbed.catalog.server.rest.paimon.catalogs import RegisteredCatalog, RowsCatalog, ServedCatalog, WarehouseCatalog
from interbed.catalog.server.rest.paimon.messages import Name
from interbed.catalog.server.rest.paimon.refusals import invalid, missing
from interbed.catalog.server.service.access.objects import Privilege, SecuredObject, catalog_object, table_object
from interbed.catalog.server.service.access.policies import PolicyRules
from interbed.catalog.server.service.directories.remote_files import REMOTE_FILES
from interbed.catalog.server.service.errors import AccessDeniedError, AccessUnavailableError, NoSuchObjectError
from interbed.catalog.server.service.model import DEFAULT_CATALOG
from interbed.catalog.server.service.names import normalized
from interbed.catalog.server.service.service import Metastore
from interbed.catalog.server.threads import ClientLink, current_catalog
from interbed.catalog.server.thrift.edge.call import ClientSession
from interbed.catalog.server.thrift.edge.codec import BinaryCodec, MemorySource
from interbed.catalog.server.thrift.edge.dispatch import Dispatcher
from interbed.storage.io.stores.options import AZURE_NAMES, GCS_NAMES, LIMITS, S3_NAMES
from interbed.thrift_idl.hive_metastore import ThriftHiveMetastore

T = TypeVar("T")
_RegisteredT = TypeVar("_RegisteredT", bound=RegisteredCatalog)

_CODEC = BinaryCodec()


class DispatcherTransport(TTransportBase, CReadableTransport):  # type: ignore[misc]
    """Transport of one call: the dispatcher answers what was written, at the end of the message."""

    def __init__(self, dispatcher: Dispatcher, session: ClientSession, catalog: str) -> None:
        self._dispatcher = dispatcher
        self._session = session
        self._catalog = catalog
        self._request = BytesIO()
        self._answer = BytesIO()

    def write(self, buf: bytes) -> None:
        """Append to the message."""
        self._request.write(buf)

    def flush(self) -> None:
        """Carry out the message."""
        request = self._dispatcher.read(_CODEC, MemorySource(self._request.getvalue()))
        self._request = BytesIO()
        token = current_catalog.set(self._catalog)
        try:
            answer = self._dispatcher.call(request, self._session)
            if isinstance(answer.refusal, AccessDeniedError | AccessUnavailableError):
                # The Hive client has no error of its own for it.
                raise answer.refusal
            self._answer = BytesIO(answer.reply)
        finally:
            current_catalog.reset(token)

    def read(self, sz: int) -> bytes:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Return up to `sz` bytes of the answer."""
        return self._answer.read(sz)

    @property
    def cstringio_buf(self) -> BytesIO:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The answer, which Thrift's decoder in C reads."""
        return self._answer

    def cstringio_refill(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, partialread: bytes, reqlen: int
    ) -> BytesIO:
        """Raise EOFError: the whole answer is in memory."""
        raise EOFError("the answer of the dispatcher has ended")


class InProcessCalls:
    """Calls to one catalog of the metastore of this process, for one session. Safe for many threads."""

    def __init__(self, dispatcher: Dispatcher, session: ClientSession, catalog: str) -> None:
        self._dispatcher = dispatcher
        self._catalog = catalog
        # The locks that a call takes end with this process, not with the connection of the request.
        self._session = replace(session, link=ClientLink(is_in_process=True))

    def close(self) -> None:
        """Do nothing: there are no connections."""

    def read(self, call: Callable[[Any], T]) -> T:
        """Make a call on this thread."""
        return self.change(call)

    def change(self, call: Callable[[Any], T]) -> T:
        """Make a call; its outcome is always known."""
        transport = DispatcherTransport(self._dispatcher, self._session, self._catalog)
        return call(ThriftHiveMetastore.Client(TBinaryProtocolAccelerated(transport)))


CHANGES_MAX = 32
"""Changes at once; half of the threads of the pool."""

LOCK_SECONDS_MAX = 10.0
"""The time that a change waits for the lock of its table."""

_ADDRESS = "this server"


class CatalogAccess:
    """The catalogs of requests: those of the metastore, and `warehouses`, directories of tables without a metastore by
    their names. The prefix of a path is the name of one of them. Safe for many threads.
    """

    def __init__(
        self,
        metastore: Metastore,
        dispatcher: Dispatcher,
        warehouses: Mapping[str, str] | None = None,
        changes_max: int = CHANGES_MAX,
    ) -> None:
        self._metastore = metastore
        self._dispatcher = dispatcher
        self._warehouses = dict(warehouses or {})
        self._opened: dict[str, WarehouseCatalog] = {}
        self._guard = threading.Lock()
        self._changes = threading.BoundedSemaphore(changes_max)

    def prefix(self, warehouse: str) -> str:
        """Return the prefix of the paths for a warehouse: the name of a catalog, or its location; without either that
        of the catalog `hive`.

        RestError with status 404 for another one.
        """
        wanted = normalized(warehouse) or DEFAULT_CATALOG
        guard = self._metastore.access
        known = guard.visible(self._warehouses, catalog_object)
        names = [*known, *self._metastore.catalogs.names()]
        if wanted in names:
            return wanted
        for name in names:
            if same_location(warehouse, self._warehouses.get(name) or self._location(name)):
                return name
        raise missing(
            None,
            warehouse,
            f"There is no catalog {warehouse!r}, and it is the location of none. Name one of the catalogs: "
            f"{', '.join(sorted(names))}.",
        )

    def catalog(self, request: RestRequest) -> ServedCatalog:
        """Return the catalog of a request, for reading. RestError with status 404 for an unknown prefix, 400 for a
        warehouse with the name of a catalog.
        """
        name = _prefix(request)
        return self._warehouse(name) if name in self._warehouses else self._registered(request, name, RegisteredCatalog)

    def _registered(self, request: RestRequest, name: str, kind: type[_RegisteredT]) -> _RegisteredT:
        """Return a catalog of the metastore, for the principal of a request. RestError with status 404."""
        try:
            location = self._location(name)
        except NoSuchObjectError as error:
            raise missing(None, name, f"There is no catalog {name!r}.") from error
        options = {
            **_store_limits(),
            "metastore": "hive",
            "uri": _ADDRESS,
            "warehouse": location,
            "lock-acquire-timeout": f"{round(LOCK_SECONDS_MAX * 1000)} ms",
            # A check costs no request: the metastore is in this process.
            "lock-check-max-sleep": "50 ms",
        }
        client = HiveMetastoreClient(_ADDRESS, calls=InProcessCalls(self._dispatcher, request.session, name))
        return kind(name, CatalogOptions(options), client, self._metastore.tables)

    def table_for_rows(self, request: RestRequest, name: TableName) -> object:
        """Return a table of any format for reading its rows, as the server itself opens it: the caller of this method
        checks privileges on columns, and applies policies. Files outside of the table's directories are refused. Errors
        as by Catalog.get_table, also for what the client does not see.
        """
        catalog = self.metastore_catalog(request)
        assert catalog is not None, "the prefix is a catalog of the metastore"
        self._registered(request, catalog, RegisteredCatalog).client.find_table(name.identifier)
        # A reader of some columns may not list partitions, by which its rows are found.
        own = Principal(name=request.session.user or OPTIMIZER, mechanism=Mechanism.OPTIMIZER)
        asked = replace(request, session=request.session.of(own))
        return self._registered(asked, catalog, RowsCatalog).table_for_rows(name.of_table)

    def metastore_catalog(self, request: RestRequest) -> str | None:
        """Return the name of a request's catalog in the metastore; None for a warehouse without one."""
        name = _prefix(request)
        return None if name in self._warehouses else name

    @contextmanager
    def changing(self, request: RestRequest) -> Iterator[ServedCatalog]:
        """Yield the catalog of a request, for a change. RestError with status 503 if too many changes run."""
        catalog = self.catalog(request)
        if not self._changes.acquire(blocking=False):
            raise RestError(
                HTTPStatus.SERVICE_UNAVAILABLE, "", "Too many changes of tables run at once; repeat the request."
            )
        # What is created by a request belongs to its principal.
        principal = request.session.principal
        token = None if principal is None else acting_user.set(principal.name)
        try:
            yield catalog
        finally:
            if token is not None:
                acting_user.reset(token)
            self._changes.release()

    def check_new(self, request: RestRequest, name: Identifier, path: str | None) -> None:
        """Raise AccessDeniedError if the caller may not create a table at a path, or at the default one, before the
        first file is written.
        """
        catalog = self.metastore_catalog(request)
        if catalog is not None and self._metastore.access.is_on:
            self._metastore.pointers.check_new(catalog, normalized(name.database), normalized(name.table), path)

    def check_registrable(self, request: RestRequest, database: str, path: str) -> None:
        """Raise AccessDeniedError if the caller may not register the files at a path, before they are looked at."""
        catalog = self.metastore_catalog(request)
        if catalog is not None:
            self._metastore.pointers.registrable(catalog, database, path)

    def require(self, request: RestRequest, name: TableName, *any_of: Privilege) -> None:
        """Raise AccessDeniedError unless the caller has one of some privileges on a table of the metastore."""
        catalog = self.metastore_catalog(request)
        if catalog is not None:
            database, table = name.identifier.database, name.identifier.table
            self._metastore.access.require(any_of, table_object(catalog, normalized(database), normalized(table)))

    def policies_of(self, request: RestRequest, name: TableName) -> tuple[PolicyRules, SecuredObject] | None:
        """Return the policies of the metastore, and the table of it that a name is; None for a warehouse without one.
        Those of a table hold for its branches.
        """
        catalog = self.metastore_catalog(request)
        if catalog is None:
            return None
        database, table = normalized(name.identifier.database), normalized(name.identifier.table)
        return self._metastore.policies, table_object(catalog, database, table)

    def _warehouse(self, name: str) -> WarehouseCatalog:
        if name in self._metastore.catalogs.names():
            raise invalid(
                f"{name!r} is a catalog of the metastore, and one of the server's paimon_warehouses: give the "
                "warehouse another name in the settings of the server."
            )
        found = self._opened.get(name)
        if found is None:
            # A file system that does not answer must not hold up requests for others.
            opened = WarehouseCatalog(name, self._warehouses[name], _store_limits())
            with self._guard:
                found = self._opened.setdefault(name, opened)
        return found

    def _location(self, name: str) -> str:
        """Return the location of the databases of a catalog. NoSuchObjectError."""
        if name == DEFAULT_CATALOG:
            if self._metastore.access.is_on:
                # It exists always, and not for every caller.
                self._metastore.catalogs.get(name)
            return self._metastore.warehouse.root
        return self._metastore.catalogs.get(name).location


_ATTEMPTS = 3
"""Attempts of a request to an object store: all together have the time of an operation on a remote file system."""


def _store_limits() -> dict[str, str]:
    """Return the options that limit the requests to object stores, whose clients would wait for minutes."""
    millis = f"{max(1, round(REMOTE_FILES.seconds / _ATTEMPTS * 1000))} ms"
    limits = dict(zip(LIMITS, (str(_ATTEMPTS - 1), millis, millis), strict=True))
    return {names[what][0]: value for names in (S3_NAMES, GCS_NAMES, AZURE_NAMES) for what, value in limits.items()}


def _prefix(request: RestRequest) -> str:
    return normalized(request.parts["prefix"])


def table_name(request: RestRequest) -> TableName:
    """Return the table that the path of a request names. InvalidInputError for an invalid name."""
    return TableName.parse((request.parts["database"], request.parts["table"]))


def named_in_path(given: Name, request: RestRequest) -> Identifier:
    """Return the name of a new object. RestError with status 400 if the path names another database."""
    if given.database != request.parts["database"]:
        raise invalid(f"The path names the database {request.parts['database']!r}, the body {given.database!r}.")
    return Identifier.parse((given.database, given.object))


def object_name(request: RestRequest, part: str) -> Identifier:
    """Return the table or view that the path of a request names by that part. InvalidInputError for an invalid name."""
    return Identifier.parse((request.parts["database"], request.parts[part]))
