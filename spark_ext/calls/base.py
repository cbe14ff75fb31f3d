"""Base of all calls: the pool of open catalogs, and the table of a reference or a handle."""

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from interbed.catalog.client.api import Catalog
from interbed.catalog.client.factory import open_catalog
from interbed.catalog.client.filesystem import FileSystemCatalog
from interbed.catalog.client.options import secret_values
from interbed.catalog.client.table_parts import as_format_table
from interbed.spark_ext.handle.guarded_tables import with_present_rules
from interbed.spark_ext.handle.table_handle import NO_CATALOG, TableHandle
from interbed.storage.base.errors import InvalidInputError, InvalidOptionError
from interbed.storage.table.format_table.format_table import FormatTable
from interbed.storage.table.table import Table

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
