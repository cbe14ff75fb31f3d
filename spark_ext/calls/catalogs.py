"""Calls about catalogs: the pool of open catalogs, the table of a reference or a handle, namespaces and views."""

import hashlib
import json
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from interbed.catalog.client.api import Catalog, Database, View, ViewColumn
from interbed.catalog.client.errors import ViewNotFoundError
from interbed.catalog.client.factory import open_catalog
from interbed.catalog.client.filesystem import FileSystemCatalog
from interbed.catalog.client.hive.registration import hive_type_name
from interbed.catalog.client.identifier import Identifier
from interbed.catalog.client.options import secret_values
from interbed.catalog.client.table_parts import as_format_table
from interbed.spark_ext.handle.format_tables import COMMENT, LOCATION, NAMESPACE_IGNORED, without_collation
from interbed.spark_ext.handle.table_handle import NO_CATALOG, TableHandle
from interbed.spark_ext.read.task import with_present_rules
from interbed.spark_ext.values.spark_types import type_from_spark
from interbed.storage.base.errors import InvalidInputError, InvalidOptionError, NotSupportedError
from interbed.storage.table.format_table.format_table import FormatTable
from interbed.storage.table.table import Table
from interbed.thrift_idl.planner import ttypes
from interbed.thrift_idl.planner.ttypes import Namespace

TYPE = "type"
TYPES = ("interbed", "paimon")
CATALOGS_MAX = 16


SESSION_CATALOG = "spark_catalog"
"""The name of the catalog in which Spark keeps tables of its own beside those of interbed."""


class CatalogPool:
    """Open catalogs by their options: an LRU cache of `CATALOGS_MAX` entries that closes the others."""

    def __init__(self) -> None:
        self._open: OrderedDict[tuple[str, frozenset[tuple[str, str]]], Catalog] = OrderedDict()
        self.secrets: set[str] = set()
        """Secrets of the catalogs of this process, which no error may contain."""

    def get(self, name: str, options: Mapping[str, str]) -> Catalog:
        """Return the catalog, opened if necessary.

        Raises InvalidOptionError, CatalogUnavailableError, StorageAccessError.
        """
        self.secrets |= secret_values(options)
        key = (name, frozenset(options.items()))
        catalog = self._open.get(key)
        if catalog is None:
            catalog = _open_catalog(name, options)
            self._open[key] = catalog
            if len(self._open) > CATALOGS_MAX:
                _, unused = self._open.popitem(last=False)
                unused.close()
        self._open.move_to_end(key)
        return catalog

    def close(self) -> None:
        """Close all open catalogs."""
        while self._open:
            self._open.popitem()[1].close()


def _open_catalog(name: str, options: Mapping[str, str]) -> Catalog:
    kind = options.get(TYPE)
    if kind is not None and kind.lower() not in TYPES:
        raise InvalidOptionError(
            f"Option 'type' of the catalog '{name}' takes one of {', '.join(TYPES)}, not '{kind}'."
        )
    catalog = open_catalog(name, options)
    if isinstance(catalog, FileSystemCatalog):
        # A warehouse that can't be written fails the statement that names it, not the creation of the first table.
        catalog.file_io.make_directories(catalog.warehouse)
    if name == SESSION_CATALOG:
        # Tables of Hive's own are those of Spark's own catalog there.
        catalog.leave_out_format_tables(keep_created=True)
    catalog.instead_of_iceberg = (
        "Spark reads it by Iceberg's own catalog: configure one beside this, spark.sql.catalog.ice = "
        "org.apache.iceberg.spark.SparkCatalog with spark.sql.catalog.ice.type = hive and spark.sql.catalog.ice.uri = "
        f"{options.get('uri', 'the address of the metastore')}, and name the table in that."
    )
    return catalog


class PlannerCalls:
    """Base of the parts of the service, which are mixed into one handler with one pool of catalogs."""

    _catalogs: CatalogPool

    def _catalog(self, reference: Any) -> Catalog:
        return self._catalogs.get(reference.name, reference.options)

    def _format_table_of(self, handle: TableHandle) -> FormatTable:
        """Return the format table of a handle from its catalog, with the partitions that are registered there."""
        catalog = self._catalogs.get(handle.catalog, handle.catalog_options)
        table = as_format_table(catalog.get_table(f"{handle.database}.{handle.table}"))
        if table is None or table.location != handle.location:
            raise _replaced(handle)
        return table.copy(handle.dynamic_options) if handle.dynamic_options else table

    def _with_present_rules(self, handle: TableHandle, options: Mapping[str, str]) -> TableHandle:
        """Return the handle of a read with these options with the row filters and masks that are in force now."""
        if handle.rules is None:
            return handle
        catalog = self._catalogs.get(handle.catalog, handle.catalog_options)
        table = catalog.get_table(f"{handle.database}.{handle.table}")
        if table.location != handle.location:
            raise InvalidInputError(
                f"The table '{handle.database}.{handle.table}' was replaced by another one; read again."
            )
        return with_present_rules(handle, options, table)

    def _table_of(self, handle: TableHandle) -> Table:
        if handle.catalog == NO_CATALOG:
            return handle.open()
        catalog = self._catalogs.get(handle.catalog, handle.catalog_options)
        table = catalog.get_table(f"{handle.database}.{handle.table}")
        if table.location != handle.location:
            raise _replaced(handle)
        return table.copy(handle.dynamic_options) if handle.dynamic_options else table


def _replaced(handle: TableHandle) -> InvalidInputError:
    return InvalidInputError(
        f"The table '{handle.database}.{handle.table}' was replaced by another one during the write; write again."
    )


def identifier_of(table: Any) -> str:
    """Return the name of a TableRef."""
    # As text, so that the catalog parses a '$' of a system table or a branch.
    return f"{table.database}.{table.table}"


class NamespaceCalls(PlannerCalls):
    """Calls of Spark's SupportsNamespaces."""

    def openCatalog(self, catalog: Any) -> None:  # noqa: N802
        # Listing the databases fails at once for a metastore that is down, or a warehouse that can't be read.
        self._catalog(catalog).list_databases()

    def listNamespaces(self, catalog: Any) -> list[str]:  # noqa: N802
        return self._catalog(catalog).list_databases()

    def getNamespace(self, catalog: Any, name: str) -> Namespace:  # noqa: N802
        return _namespace(self._catalog(catalog).get_database(name))

    def createNamespace(self, catalog: Any, namespace: Any) -> None:  # noqa: N802
        given = without_collation(namespace.properties)
        properties = {k: v for k, v in given.items() if k not in NAMESPACE_IGNORED}
        self._catalog(catalog).create_database(namespace.name, properties=properties)

    def alterNamespace(self, catalog: Any, name: str, changes: list[Any]) -> None:  # noqa: N802
        self._catalog(catalog).alter_database(
            name,
            without_collation({c.key: c.value for c in changes if c.value is not None}),
            [c.key for c in changes if c.value is None],
        )

    def dropNamespace(self, catalog: Any, name: str, cascade: bool) -> None:  # noqa: N802
        self._catalog(catalog).drop_database(name, cascade=cascade)


def _namespace(database: Database) -> Namespace:
    properties = {**database.properties, LOCATION: database.location}
    if database.comment:
        properties[COMMENT] = database.comment
    return Namespace(name=database.name, properties=properties)


QUERY_COLUMNS = "interbed.view.query-columns"
"""Property of a view, as JSON: the names that its query returned when it was stored, a digest of that query, and the
names of the view's columns, which Hive stores in lower case.
"""


class ViewCalls(PlannerCalls):
    """Calls of the rule that resolves views, and of statements about views."""

    def listViews(self, catalog: Any, database: str) -> list[str]:  # noqa: N802
        return self._catalog(catalog).list_views(database)

    def loadView(self, view: Any) -> ttypes.ViewInfo:  # noqa: N802
        try:
            found = self._catalog(view.catalog).get_view(identifier_of(view))
        except (InvalidInputError, NotSupportedError) as error:
            # Spark looks up any name of a statement, also names that no view can have.
            raise ViewNotFoundError(str(error)) from error
        return ttypes.ViewInfo(
            query=found.query,
            columns=[
                ttypes.ViewColumn(name=name, type=c.type, comment=c.comment)
                for name, c in zip(_column_names(found), found.columns, strict=True)
            ],
            comment=found.comment,
            properties={name: value for name, value in found.options.items() if name != QUERY_COLUMNS},
            queryColumns=_query_columns(found),
        )

    def createView(self, view: Any, info: Any, replace: bool, if_not_exists: bool) -> None:  # noqa: N802
        columns = tuple(
            ViewColumn(c.name, hive_type_name(type_from_spark(json.loads(c.type), column=c.name)), c.comment)
            if c.type.startswith(("{", '"'))
            else ViewColumn(c.name, c.type, c.comment)
            for c in info.columns
        )
        if QUERY_COLUMNS in info.properties:
            raise InvalidInputError(f"The property '{QUERY_COLUMNS}' of a view is interbed's own; leave it out.")
        options = dict(info.properties)
        if info.queryColumns is not None:
            recorded = {
                "query": _digest(info.query),
                "columns": info.queryColumns,
                "names": [c.name for c in info.columns],
            }
            options[QUERY_COLUMNS] = json.dumps(recorded)
        self._catalog(view.catalog).create_view(
            identifier_of(view),
            View(query=info.query, columns=columns, comment=info.comment, options=options),
            if_not_exists,
            replace=replace,
        )

    def dropView(self, view: Any) -> bool:  # noqa: N802
        try:
            self._catalog(view.catalog).drop_view(identifier_of(view))
        except ViewNotFoundError:
            return False
        return True

    def renameView(self, view: Any, to_database: str, to_view: str) -> None:  # noqa: N802
        self._catalog(view.catalog).rename_view(identifier_of(view), Identifier(to_database, to_view))


def _query_columns(view: View) -> list[str] | None:
    """Return the recorded names of the query's columns; None if another program stored the query or the columns."""
    try:
        recorded = json.loads(view.options[QUERY_COLUMNS])
        columns = [str(name) for name in recorded["columns"]]
    except (KeyError, TypeError, ValueError):
        return None
    is_of_view = recorded.get("query") == _digest(view.query) and len(columns) == len(view.columns)
    return columns if is_of_view else None


def _column_names(view: View) -> list[str]:
    """Return the names of the columns as they were written, unless another program stored other columns."""
    stored = [column.name for column in view.columns]
    try:
        written = [str(name) for name in json.loads(view.options[QUERY_COLUMNS])["names"]]
    except (KeyError, TypeError, ValueError):
        return stored
    is_of_view = [name.lower() for name in written] == [name.lower() for name in stored]
    return written if is_of_view else stored


def _digest(query: str) -> str:
    """Return a digest of a query, without the white space around it, which metastores may remove."""
    return hashlib.sha256(query.strip().encode()).hexdigest()[:16]
