"""interbed: a catalog server, lake storage in Apache Paimon's format, and Spark extensions, in Python.

    catalog = interbed.load_catalog("lake", warehouse="file:/tmp/lake")
    table = catalog.create_table("shop.orders", arrow_schema, primary_keys=["id"], options={"bucket": "4"})
    table.upsert(rows)
    table.scan(filter="amount > 5").to_arrow()

The names are resolved on first use, so that a worker which needs only the storage layer does not load catalogs.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from interbed.catalog.api import Catalog, Database
    from interbed.catalog.factory import CatalogFactory, load_catalog
    from interbed.catalog.identifier import Identifier
    from interbed.storage.base.errors import InterbedError
    from interbed.storage.meta.schema.table_schema import Schema, TableSchema
    from interbed.storage.table.table import Table, load_table

__version__ = "0.1.0"

__all__ = [
    "Catalog",
    "CatalogFactory",
    "Database",
    "Identifier",
    "InterbedError",
    "Schema",
    "Table",
    "TableSchema",
    "__version__",
    "load_catalog",
    "load_table",
]

_HOMES = {
    "Catalog": "interbed.catalog.api",
    "CatalogFactory": "interbed.catalog.factory",
    "Database": "interbed.catalog.api",
    "Identifier": "interbed.catalog.identifier",
    "InterbedError": "interbed.storage.base.errors",
    "Schema": "interbed.storage.meta.schema.table_schema",
    "Table": "interbed.storage.table.table",
    "TableSchema": "interbed.storage.meta.schema.table_schema",
    "load_catalog": "interbed.catalog.factory",
    "load_table": "interbed.storage.table.table",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'interbed' has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
