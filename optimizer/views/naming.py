"""Names of tables as people write them."""

from collections.abc import Sequence

from interbed.catalog.client.api import Catalog
from interbed.catalog.client.identifier import parse_table_name


def known_name(catalog: Catalog, name: str) -> str:
    """The name that the journal has for a table. Raises TableNotFoundError and DatabaseNotFoundError, and
    NotSupportedError for a system table or a branch.
    """
    identifier = parse_table_name(name)
    catalog.get_table(identifier)
    return str(identifier)


def known_names(catalog: Catalog, names: Sequence[str]) -> list[str]:
    """The same of several."""
    return [known_name(catalog, name) for name in names]
