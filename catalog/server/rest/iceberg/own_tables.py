"""interbed's own tables, in Paimon's format, as Iceberg tables of this interface: they are read, and never changed.

`OwnTables` is the seam: the interface over the catalog of these tables implements it, and mounted.py brings both
together. The entry of such a table is that of Paimon's catalogs, and stays as it is.
"""

import uuid
from dataclasses import dataclass
from typing import Protocol

from interbed.catalog.server.rest.iceberg.entries import kind_of
from interbed.catalog.server.rest.iceberg.errors import read_only
from interbed.catalog.server.rest.iceberg.names import IcebergName
from interbed.catalog.server.rest.interface import RestError, RestRequest
from interbed.catalog.server.service.model import DEFAULT_CATALOG, MetastoreTable

_WAY_OUT = (
    "it is in Paimon's format. Change it by interbed's catalog in Spark or Python, by the command line, or by a client "
    "of Paimon (/paimon)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnMetadata:
    """Iceberg metadata of an own table: their JSON, and the location of the file, None for a table without rows."""

    location: str | None
    content: bytes


class OwnTables(Protocol):
    """Iceberg metadata of own tables. Safe for many threads."""

    @property
    def formats(self) -> tuple[str, str]:
        """The input and output formats in the entries of these tables."""
        ...

    def load(self, request: RestRequest, name: IcebergName, table_uuid: str) -> OwnMetadata:
        """Return the metadata of a table, which clients shall know by that UUID. RestError if there are none."""
        ...


class NoOwnTables:
    """No own tables: the interface has Iceberg's tables alone."""

    formats = ("", "")

    def load(self, request: RestRequest, name: IcebergName, table_uuid: str) -> OwnMetadata:
        """Raise AssertionError: there is no such table."""
        raise AssertionError(f"{name} is no own table")


def is_own(tables: OwnTables, entry: MetastoreTable) -> bool:
    """Return whether an entry is that of an own table that the interface has."""
    storage = entry.storage
    if storage is None or entry.is_view or entry.catalog != DEFAULT_CATALOG or kind_of(entry) is not None:
        return False
    return (storage.input_format, storage.output_format) == tables.formats


def refused_change(name: IcebergName) -> RestError:
    """Return the error for a change of an own table."""
    return read_only(name, _WAY_OUT)


def uuid_of(entry: MetastoreTable) -> str:
    """Return the UUID of an own table: by the number of its entry, which stays when the table is renamed."""
    return str(uuid.UUID(int=(8 << 76) | (2 << 62) | (entry.number or 0)))
