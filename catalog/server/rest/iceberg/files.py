"""Metadata files: read through a cache, written exclusively, deleted when nothing names them.

A metadata file never changes, so that its content is cached by its location. Its name is `00001-<uuid>.metadata.json`,
with `.gz` before if the table wants it compressed. Source: Iceberg's table specification, "Table Metadata Files".
"""

import gzip
import logging
import re
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import msgspec

from interbed.catalog.server.rest.iceberg.metadata.base import Document, InvalidMetadataError
from interbed.catalog.server.rest.iceberg.names import IcebergName
from interbed.catalog.server.service.errors import DamagedFileError, MetastoreError, UnboundedFileError
from interbed.catalog.server.service.tables.pointers import PointerService, read_unpacked
from interbed.catalog.server.service.warehouse import with_files
from interbed.storage.base.memory_cache import MemoryCache
from interbed.storage.io.api import FileIO

logger = logging.getLogger(__name__)

CACHE_BYTES = 64 << 20

_METADATA_FILE = re.compile(r"\d+-[0-9a-fA-F-]{36}(\.gz)?\.metadata\.json(\.gz)?")
_CODEC = "write.metadata.compression-codec"
_FOLDER = "write.metadata.path"


@dataclass(frozen=True, slots=True)
class MetadataContent:
    """The JSON of a metadata file, checked to be an object."""

    json: bytes

    @property
    def nbytes(self) -> int:
        """Size in memory, in bytes."""
        return len(self.json)

    def document(self) -> Document:
        """Return the decoded object."""
        return _decoded(self.json)


def _decoded(content: bytes) -> Document:
    try:
        found = msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidMetadataError("The metadata file is no JSON") from error
    if not isinstance(found, dict):
        raise InvalidMetadataError("The metadata file is no JSON object")
    return found


class MetadataFiles:
    """The metadata files of all tables and views. Safe for many threads."""

    def __init__(self, pointers: PointerService, cache_bytes: int = CACHE_BYTES) -> None:
        self._pointers = pointers
        self._cache = MemoryCache()
        self._cache_bytes = cache_bytes

    def read(self, location: str) -> MetadataContent:
        """Return the content of a file. MetastoreError if it cannot be read, InvalidLocationError for a location that
        the server refuses, InvalidMetadataError for another content.
        """
        return self._cache.get(location, lambda: self._read(location), limit=self._cache_bytes)

    def _read(self, location: str) -> MetadataContent:
        place = self._pointers.checked(location)
        message = f"cannot read the metadata file {location}"
        try:
            content = read_unpacked(place, message)
        except (UnboundedFileError, DamagedFileError) as error:
            raise InvalidMetadataError(str(error)) from error
        _check_object(content)
        return MetadataContent(content)

    def write(self, folder: str, version: int, document: Document, codec: str) -> str:
        """Write a new file in a folder, and return its location. MetastoreError if it cannot be written."""
        content = msgspec.json.encode(document)
        is_gzip = codec.lower() == "gzip"
        end = ".gz.metadata.json" if is_gzip else ".metadata.json"
        location = f"{folder.rstrip('/')}/{version:05d}-{uuid.uuid4()}{end}"
        place = self._pointers.checked(location)
        stored = gzip.compress(content, mtime=0) if is_gzip else content

        def create(file_io: FileIO, path: str) -> bool:
            if file_io.exclusive_create:
                return file_io.create_exclusive(path, stored)
            # Its name is random, so that there is no other file of it.
            file_io.overwrite(path, stored)
            return True

        message = f"cannot write the metadata file {location}"
        if not with_files(place, create, message, changes=True):
            raise MetastoreError(f"{message}: it exists already")
        self._cache.get(location, lambda: MetadataContent(content), limit=self._cache_bytes)
        return location

    def delete(self, locations: Iterable[str]) -> None:
        """Delete files that this server has written and nothing names. Failures are logged."""
        for location in locations:
            try:
                self._remove(location)
            except MetastoreError as error:
                logger.warning("could not delete the metadata file %s: %s", location, error)

    def delete_old(self, name: IcebergName, locations: Sequence[str]) -> None:
        """Delete metadata files that the log of a table no longer names, within the limits of the server's deletions.
        Clients write the log: a file with another kind of name is kept.
        """
        wanted = [each for each in locations if _METADATA_FILE.fullmatch(each.rpartition("/")[2])]
        if wanted:
            self._pointers.discard_files(name.catalog, name.database, name.table, wanted, self._remove)

    def _remove(self, location: str) -> None:
        self._cache.discard(location)
        place = self._pointers.checked(location)
        message = f"cannot delete the metadata file {location}"
        with_files(place, lambda file_io, path: file_io.delete_quietly([path]), message, changes=True)


def _check_object(content: bytes) -> None:
    """Raise InvalidMetadataError unless the content is a JSON object, without decoding its values."""
    try:
        msgspec.json.decode(content, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidMetadataError("The metadata file is no JSON object") from error


def folder_of(document: Document) -> str:
    """Return the folder of the metadata files of a table or view."""
    given = document["properties"].get(_FOLDER)
    return given.rstrip("/") if given else f"{document['location'].rstrip('/')}/metadata"


def codec_of(document: Document) -> str:
    """Return the compression of the metadata files of a table or view."""
    codec = document["properties"].get(_CODEC, "none")
    return str(codec)


def next_version(location: str) -> int:
    """Return the number of the file after one, 0 if that has no number."""
    number = location.rpartition("/")[2].partition("-")[0]
    return int(number) + 1 if number.isascii() and number.isdecimal() and len(number) < 19 else 0
