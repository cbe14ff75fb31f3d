"""Opening a catalog by its options."""

import os
from collections.abc import Mapping

from interbed.catalog.api import Catalog
from interbed.catalog.filesystem import FileSystemCatalog
from interbed.catalog.options import CatalogOptions, MetastoreKind


def load_catalog(name: str = "default", **properties: object) -> Catalog:
    """Open a catalog.

    Properties bear Paimon's names, with `_` or `-` between words where Python allows only the former:
    `warehouse`, `metastore` ("filesystem", the default, or "hive"), `uri`, `hive_conf_dir`, … Names with dots are
    passed as `**{"lock.enabled": "true"}`. Raises InvalidOptionError for unknown or contradicting properties, and
    CatalogUnavailableError when the metastore can't be reached.
    """
    return open_catalog(name, {_option_name(k): v for k, v in properties.items() if v is not None})


def open_catalog(name: str, properties: Mapping[str, object]) -> Catalog:
    """Open a catalog by options exactly as spelled in Paimon."""
    texts = {
        k: str(v).lower() if isinstance(v, bool) else os.fspath(v) if isinstance(v, os.PathLike) else str(v)
        for k, v in properties.items()
    }
    options = CatalogOptions(texts)
    if options.metastore is MetastoreKind.HIVE:
        # The metastore's interface is large, and slow to import for catalogs that need none.
        from interbed.catalog.hive.catalog import HiveCatalog

        return HiveCatalog(name, options)
    return FileSystemCatalog(name, options)


class CatalogFactory:
    """pypaimon's way to open a catalog: `CatalogFactory.create({"warehouse": …})`."""

    @staticmethod
    def create(catalog_options: Mapping[str, object]) -> Catalog:
        """Open a catalog by options as spelled in Paimon."""
        return open_catalog("paimon", catalog_options)


def _option_name(keyword: str) -> str:
    return keyword.replace("_", "-")
