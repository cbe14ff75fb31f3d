"""The catalog of one request: interbed's Hive catalog over one of the catalogs of the metastore of this process.

A change may wait for the lock of its table, and the thread of the pool waits with it. The holder of the lock may need a
thread to release it. So only some changes run at once, the others are refused with status 503, which clients retry.
"""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any

from interbed.catalog.client.hive.catalog import HiveCatalog
from interbed.catalog.client.hive.client import HiveMetastoreClient
from interbed.catalog.client.hive.registration import same_location
from interbed.catalog.client.identifier import Identifier, TableName
from interbed.catalog.client.options import CatalogOptions
from interbed.catalog.server.rest.interface import RestError, RestRequest
from interbed.catalog.server.rest.paimon.in_process import InProcessCalls
from interbed.catalog.server.rest.paimon.messages import Name
from interbed.catalog.server.rest.paimon.refusals import invalid, missing
from interbed.catalog.server.service.errors import NoSuchObjectError
from interbed.catalog.server.service.model import DEFAULT_CATALOG
from interbed.catalog.server.service.service import Metastore
from interbed.catalog.server.thrift.edge.dispatch import Dispatcher

CHANGES_MAX = 32
"""Changes at once; half of the threads of the pool."""

LOCK_SECONDS_MAX = 10.0
"""The time that a change waits for the lock of its table."""

_ADDRESS = "this server"
_BATCH = 300


class CatalogAccess:
    """The catalogs of requests. Safe for many threads."""

    def __init__(self, metastore: Metastore, dispatcher: Dispatcher, changes_max: int = CHANGES_MAX) -> None:
        self._metastore = metastore
        self._dispatcher = dispatcher
        self._changes = threading.BoundedSemaphore(changes_max)

    def prefix(self, warehouse: str) -> str:
        """Return the prefix of the paths for a warehouse: the name of a catalog, or the location of the warehouse.

        RestError with status 404 for another one.
        """
        names = self._metastore.catalogs.names()
        if warehouse.lower() in names:
            return warehouse.lower()
        for name in names:
            if same_location(warehouse, self._location(name)):
                return name
        raise missing(
            None,
            warehouse,
            f"There is no catalog {warehouse!r}, and it is the location of none. Name one of the catalogs: "
            f"{', '.join(sorted(names))}.",
        )

    def catalog(self, request: RestRequest) -> HiveCatalog:
        """Return the catalog of a request, for reading. RestError with status 404 for an unknown prefix."""
        name = catalog_name(request)
        try:
            location = self._location(name)
        except NoSuchObjectError as error:
            raise missing(None, name, f"There is no catalog {name!r}.") from error
        options = {
            "metastore": "hive",
            "uri": _ADDRESS,
            "warehouse": location,
            "lock-acquire-timeout": f"{round(LOCK_SECONDS_MAX * 1000)} ms",
            # A check costs no request: the metastore is in this process.
            "lock-check-max-sleep": "50 ms",
        }
        client = HiveMetastoreClient(_ADDRESS, calls=InProcessCalls(self._dispatcher, request.session, name))
        catalog = HiveCatalog(name, CatalogOptions(options), client)
        catalog.instead_of_iceberg = "Use Iceberg's REST catalog for it."
        return catalog

    def numbered(self, request: RestRequest, number: int) -> list[tuple[str, str]]:
        """Return database and name of the tables of a request's catalog that may have this number."""
        return self._metastore.tables.numbered(request.parts["prefix"].lower(), number)

    @contextmanager
    def changing(self, request: RestRequest) -> Iterator[HiveCatalog]:
        """Yield the catalog of a request, for a change. RestError with status 503 if too many changes run."""
        catalog = self.catalog(request)
        if not self._changes.acquire(blocking=False):
            raise RestError(
                HTTPStatus.SERVICE_UNAVAILABLE, "", "Too many changes of tables run at once; repeat the request."
            )
        try:
            yield catalog
        finally:
            self._changes.release()

    def _location(self, name: str) -> str:
        """Return the location of the databases of a catalog. NoSuchObjectError."""
        if name == DEFAULT_CATALOG:
            return self._metastore.warehouse.root
        return self._metastore.catalogs.get(name).location


def catalog_name(request: RestRequest) -> str:
    """Return the catalog of the metastore that the prefix of a path names."""
    return request.parts["prefix"].lower()


def table_name(request: RestRequest) -> TableName:
    """Return the table that the path of a request names. InvalidInputError for an invalid name."""
    return TableName.parse((request.parts["database"], request.parts["table"]))


def named_in_path(given: Name, request: RestRequest) -> Identifier:
    """Return the name of a new object. RestError with status 400 if the path names another database."""
    if given.database != request.parts["database"]:
        raise invalid(f"The path names the database {request.parts['database']!r}, the body {given.database!r}.")
    return Identifier.parse((given.database, given.object))


def entries(catalog: HiveCatalog, database: str, names: Sequence[str]) -> Iterator[Any]:
    """Yield the entries of those of these tables and views that exist."""
    for start in range(0, len(names), _BATCH):
        yield from catalog.client.get_table_objects(database, names[start : start + _BATCH])


def object_name(request: RestRequest, part: str) -> Identifier:
    """Return the table or view that the path of a request names by that part. InvalidInputError for an invalid name."""
    return Identifier.parse((request.parts["database"], request.parts[part]))
