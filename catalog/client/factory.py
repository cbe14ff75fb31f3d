"""Opening of a catalog by its name and options."""

import os
from collections.abc import Mapping

from interbed.catalog.client.api import Catalog
from interbed.catalog.client.filesystem import FileSystemCatalog
from interbed.catalog.client.options import LOCATING, UNNAMED, CatalogOptions, MetastoreKind
from interbed.storage.base.errors import InvalidOptionError


def load_catalog(name: str | None = None, **properties: object) -> Catalog:
    """Open a catalog: `load_catalog("lake")`, or `load_catalog("lake", warehouse="file:/tmp/lake")`.

    Properties override the configuration of that name (configuration.py). Without a name, and without properties that
    locate a catalog, the default catalog is opened. Properties have Paimon's names, with `_` or `-` between words where
    Python allows only the former: `warehouse`, `metastore` ("filesystem", the default, "hive" or "rest"), `uri`,
    `hive_conf_dir`, … Names with dots are passed as `**{"lock.enabled": "true"}`.

    Raises InvalidOptionError for unknown or contradicting properties, for a name without properties that is not
    configured, and for a configuration that can't be read; CatalogUnavailableError when the metastore can't be reached.
    """
    given = {_option_name(k): _text(v) for k, v in properties.items() if v is not None}
    return open_configured(name, given)


def open_configured(name: str | None, given: Mapping[str, str]) -> Catalog:
    """Open a catalog by its configured options, overridden by the given ones in Paimon's spelling; as load_catalog."""
    if name is None and not LOCATING.isdisjoint(given):
        # The configuration is not used, and not read.
        return open_catalog(UNNAMED, given)
    from interbed.catalog.client.configuration import load_configuration

    return open_catalog(*load_configuration().resolved(name, given))


def open_catalog(name: str, properties: Mapping[str, object]) -> Catalog:
    """Open a catalog by options in Paimon's spelling."""
    options = CatalogOptions({k: _text(v) for k, v in properties.items()})
    if "undrop-seconds" in options.raw and options.metastore is not MetastoreKind.FILESYSTEM:
        raise InvalidOptionError(
            f"Option 'undrop-seconds' is for file-system catalogs; with 'metastore' = '{options.metastore}' the server "
            "decides how long dropped tables are kept: leave the option out."
        )
    if options.metastore is MetastoreKind.HIVE:
        # The metastore's interface is large, and slow to import for catalogs that need none.
        from interbed.catalog.client.hive.catalog import HiveCatalog

        return HiveCatalog(name, options)
    if options.metastore is MetastoreKind.REST:
        from interbed.catalog.client.rest.catalog import RestCatalog

        return RestCatalog(name, options)
    return FileSystemCatalog(name, options)


class CatalogFactory:
    """pypaimon's factory of catalogs: `CatalogFactory.create({"warehouse": …})`."""

    @staticmethod
    def create(catalog_options: Mapping[str, object]) -> Catalog:
        """Open a catalog by options in Paimon's spelling."""
        return open_catalog("paimon", catalog_options)


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return os.fspath(value) if isinstance(value, os.PathLike) else str(value)


def _option_name(keyword: str) -> str:
    return keyword.replace("_", "-")
