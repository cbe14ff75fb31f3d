"""Calls about catalogs, namespaces and views."""

import hashlib
import json
from typing import Any

from interbed.catalog.client.api import Database, View, ViewColumn
from interbed.catalog.client.errors import ViewNotFoundError
from interbed.catalog.client.hive.registration import hive_type_name
from interbed.catalog.client.identifier import Identifier
from interbed.spark_ext.calls.base import PlannerCalls, identifier_of
from interbed.spark_ext.handle.ddl import COMMENT, LOCATION, NAMESPACE_IGNORED
from interbed.spark_ext.values.spark_types import type_from_spark
from interbed.storage.base.errors import InvalidInputError, NotSupportedError
from interbed.thrift_idl.planner import ttypes
from interbed.thrift_idl.planner.ttypes import Namespace


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
        properties = {k: v for k, v in namespace.properties.items() if k not in NAMESPACE_IGNORED}
        self._catalog(catalog).create_database(namespace.name, properties=properties)

    def alterNamespace(self, catalog: Any, name: str, changes: list[Any]) -> None:  # noqa: N802
        self._catalog(catalog).alter_database(
            name,
            {c.key: c.value for c in changes if c.value is not None},
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
"""Property of a view: the names that its query returned when it was stored, and a digest of that query, as JSON."""


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
            columns=[ttypes.ViewColumn(name=c.name, type=c.type, comment=c.comment) for c in found.columns],
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
            options[QUERY_COLUMNS] = json.dumps({"query": _digest(info.query), "columns": info.queryColumns})
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


def _digest(query: str) -> str:
    """Return a digest of a query, without the white space around it, which metastores may remove."""
    return hashlib.sha256(query.strip().encode()).hexdigest()[:16]
