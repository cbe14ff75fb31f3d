"""Calls about catalogs and namespaces."""

from typing import Any

from interbed.catalog.client.api import Database
from interbed.spark_ext.calls.base import Calls
from interbed.spark_ext.handle.ddl import COMMENT, LOCATION, NAMESPACE_IGNORED
from interbed.thrift_idl.planner.ttypes import Namespace


class NamespaceCalls(Calls):
    """What Spark's SupportsNamespaces asks."""

    def openCatalog(self, catalog: Any) -> None:  # noqa: N802
        # Asked for its databases, a metastore that is down or a warehouse that can't be read shows at once.
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
