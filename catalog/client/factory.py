"""Opening a catalog by its options."""

import os
from collections.abc import Mapping

from interbed.catalog.client.api import Catalog
from interbed.catalog.client.filesystem import FileSystemCatalog
from interbed.catalog.client.options import LOCATING, UNNAMED, CatalogOptions, MetastoreKind


def load_catalog(name: str | None = None, **properties: object) -> Catalog:
    """Open a catalog: `load_catalog("lake")`, or `load_catalog("lake", warehouse="file:/tmp/lake")`.

    Properties go on top of what the configuration says of that name (configuration.py); without a name, and without
    properties that locate a catalog, the default catalog is meant. They bear Paimon's names, with `_` or
    `-` between words where Python allows only the former: `warehouse`, `metastore` ("filesystem", the default, or
    "hive"), `uri`, `hive_conf_dir`, … Names with dots are passed as `**{"lock.enabled": "true"}`.

    Raises InvalidOptionError for unknown or contradicting properties, for a name without properties that is not
    configured, and for a configuration that can't be read; CatalogUnavailableError when the metastore can't be reached.
    """
    given = {_option_name(k): _text(v) for k, v in properties.items() if v is not None}
    return open_configured(name, given)


def open_configured(name: str | None, given: Mapping[str, str]) -> Catalog:
    """Open a catalog by its configured options, with those given, spelled as in Paimon, on top; as load_catalog."""
    if name is None and not LOCATING.isdisjoint(given):
        # Nothing is asked of a configuration that has no say.
        return open_catalog(UNNAMED, given)
    from interbed.catalog.client.configuration import load_configuration

    return open_catalog(*load_configuration().resolved(name, given))


def open_catalog(name: str, properties: Mapping[str, object]) -> Catalog:
    """Open a catalog by options exactly as spelled in Paimon."""
    options = CatalogOptions({k: _text(v) for k, v in properties.items()})
    if options.metastore is MetastoreKind.HIVE:
        # The metastore's interface is large, and slow to import for catalogs that need none.
        from interbed.catalog.client.hive.catalog import HiveCatalog

        return HiveCatalog(name, options)
    return FileSystemCatalog(name, options)


class CatalogFactory:
    """pypaimon's way to open a catalog: `CatalogFactory.create({"warehouse": …})`."""

    @staticmethod
    def create(catalog_options: Mapping[str, object]) -> Catalog:
        """Open a catalog by options as spelled in Paimon."""
        return open_catalog("paimon", catalog_options)


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return os.fspath(value) if isinstance(value, os.PathLike) else str(value)


def _option_name(keyword: str) -> str:
    return keyword.replace("_", "-")
