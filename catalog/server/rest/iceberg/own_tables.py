"""interbed's own tables, in Paimon's format, as Iceberg tables of this interface: they are read, and never changed.

`OwnTables` is the seam: the interface over the catalog of these tables implements it, and mounted.py brings both
together. The entry of such a table is that of Paimon's catalogs, and stays as it is.
"""

import hashlib
import uuid
from dataclasses import dataclass
from http import HTTPStatus
from typing import Protocol

import msgspec

from interbed.catalog.server.rest.iceberg.entries import kind_of
from interbed.catalog.server.rest.iceberg.errors import read_only
from interbed.catalog.server.rest.iceberg.metadata.documents import completed, written
from interbed.catalog.server.rest.iceberg.metadata.snapshots import with_referenced_snapshots
from interbed.catalog.server.rest.iceberg.names import IcebergName
from interbed.catalog.server.rest.interface import RestError, RestRequest, RestResponse, json_response
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


def own_response(found: OwnMetadata, mode: str, wanted: str | None) -> RestResponse:
    """Return the response of loadTable for an own table, with status 304 if the client has these metadata already.

    `mode` is that of the snapshots, `wanted` the request's If-None-Match.
    """
    tag = f'"{hashlib.sha256(mode.encode() + b" " + found.content).hexdigest()[:32]}"'
    if wanted is not None and is_matched(tag, wanted):
        return RestResponse(status=HTTPStatus.NOT_MODIFIED, headers={"etag": tag})
    metadata: object = msgspec.Raw(found.content)
    if mode == "refs":
        metadata = written(with_referenced_snapshots(completed(msgspec.json.decode(found.content))))
    location = {} if found.location is None else {"metadata-location": found.location}
    return json_response({**location, "metadata": metadata, "config": {}}, headers={"etag": tag})


def is_matched(tag: str, wanted: str) -> bool:
    """Return whether an If-None-Match names an entity tag."""
    return wanted.strip() == "*" or tag in [each.strip().removeprefix("W/") for each in wanted.split(",")]
