"""Tables and views of this interface (find, list, create, register, rename and drop), and their metadata files: read
through a cache, written exclusively, deleted when nothing names them.

The metadata file of a new table is written before its entry. A crash in between leaves a file that no entry names; a
refused entry has the file deleted, and one whose outcome is not known leaves it.

A metadata file never changes, so that its content is cached by its location. Its name is `00001-<uuid>.metadata.json`,
with `.gz` before if the table wants it compressed. Source: Iceberg's table specification, "Table Metadata Files".
"""

import dataclasses
import gzip
import logging
import re
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from interbed.catalog.server.rest.iceberg.entries import (
    LOCATION,
    TABLE,
    VIEW,
    NoOwnTables,
    OwnTables,
    is_own,
    kind_of,
    new_entry,
    refused_change,
)
from interbed.catalog.server.rest.iceberg.metadata.documents import check_all_columns, completed, written
from interbed.catalog.server.rest.iceberg.metadata.schemas import Document, InvalidMetadataError
from interbed.catalog.server.rest.iceberg.names import (
    IcebergName,
    NamespaceMapping,
    bad_request,
    check_new_table,
    exists,
    no_namespace,
    no_table,
    no_view,
)
from interbed.catalog.server.rest.interface import RestError
from interbed.catalog.server.service.access.guard import AnyOf
from interbed.catalog.server.service.access.objects import Privilege
from interbed.catalog.server.service.access.places import CheckedPlace
from interbed.catalog.server.service.directories.remote_files import StoreUnavailableError
from interbed.catalog.server.service.errors import (
    AlreadyExistsError,
    DamagedFileError,
    MetastoreError,
    NoSuchObjectError,
    OutcomeUnknownError,
    UnboundedFileError,
)
from interbed.catalog.server.service.model import (
    DEFAULT_CATALOG,
    ICEBERG_KINDS,
    PAIMON_KINDS,
    MetastoreDatabase,
    MetastoreTable,
    TableKind,
)
from interbed.catalog.server.service.service import Metastore
from interbed.catalog.server.service.tables.pointers import (
    NewTablePlace,
    PointerChange,
    PointerService,
    read_unpacked,
)
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


_LOADS_MAX = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTable:
    """A table or view: its entry, and the location and content of its metadata file."""

    entry: MetastoreTable
    location: str
    content: MetadataContent

    def document(self) -> Document:
        """Return the metadata of a table in the form of documents in memory."""
        return completed(self.content.document())


class TableStore:
    """The tables of a metastore for this interface, with its `own` ones. Safe for many threads."""

    def __init__(
        self, metastore: Metastore, own: OwnTables | None = None, mapping: NamespaceMapping | None = None
    ) -> None:
        self.metastore = metastore
        self.mapping = mapping or NamespaceMapping()
        self.own = own or NoOwnTables()
        self.files = MetadataFiles(metastore.pointers)

    def entry(self, name: IcebergName) -> MetastoreTable | None:
        """Return the entry of any kind of table, None if there is none."""
        if not name.has_database:
            return None
        try:
            return self.metastore.tables.get(name.catalog, name.database, name.table)
        except NoSuchObjectError:
            return None

    def found(self, name: IcebergName, kind: str = TABLE) -> MetastoreTable:
        """Return the entry of a table or view of Iceberg. RestError with status 404 if there is none, 403 for an own
        table, which is only read.
        """
        entry = self.entry(name)
        if entry is not None and kind_of(entry) == kind:
            return entry
        if kind == VIEW:
            raise no_view(name)
        raise refused_change(name) if entry is not None and is_own(self.own, entry) else no_table(name)

    def readable(self, name: IcebergName) -> MetastoreTable:
        """Return the entry of a table of Iceberg or of an own one. RestError with status 404 if there is none."""
        entry = self.entry(name)
        if entry is not None and is_own(self.own, entry):
            return entry
        return self.found(name)

    def load(self, name: IcebergName, kind: str = TABLE, entry: MetastoreTable | None = None) -> StoredTable:
        """Return a table or view with its metadata; `entry` is one that was just found. RestError with status 404 if
        there is none, MetastoreError if its file cannot be read.
        """
        for attempt in range(1, _LOADS_MAX + 1):
            if entry is None or attempt > 1:
                entry = self.found(name, kind)
            location = entry.parameters[LOCATION]
            try:
                return StoredTable(entry=entry, location=location, content=self.files.read(location))
            except MetastoreError:
                # A commit that deletes old metadata may have come in between.
                if attempt == _LOADS_MAX or self.found(name, kind).parameters[LOCATION] == location:
                    raise
        raise AssertionError("the last attempt returns or raises")

    def database(self, catalog: str, levels: tuple[str, ...]) -> MetastoreDatabase:
        """Return the database of a namespace. RestError with status 404 if there is none."""
        name = self.mapping.database(levels)
        if name is None:
            raise no_namespace(".".join(levels))
        try:
            return self.metastore.databases.get(catalog, name)
        except NoSuchObjectError as error:
            raise no_namespace(".".join(levels)) from error

    def below(self, catalog: str, levels: Sequence[str]) -> list[tuple[str, ...]]:
        """Return the namespaces one level below a namespace, in order."""
        return self.mapping.below(self.metastore.databases.names(catalog), levels)

    def present(self, catalog: str, levels: tuple[str, ...]) -> MetastoreDatabase | None:
        """Return the database of a namespace, None for one that has only namespaces below it.

        RestError with status 404 if there is neither.
        """
        try:
            return self.database(catalog, levels)
        except RestError:
            if not self.below(catalog, levels):
                raise
            return None

    def names(
        self, catalog: str, levels: tuple[str, ...], kind: str, after: str | None, limit: int | None = None
    ) -> list[str]:
        """Return up to `limit` names of the tables or views of a namespace, in order, after one of them.

        RestError with status 404 for a missing namespace.
        """
        wanted = ICEBERG_KINDS if kind == TABLE else {TableKind.ICEBERG_VIEW}
        if kind == TABLE and catalog == DEFAULT_CATALOG and any(self.own.formats):
            wanted = ICEBERG_KINDS | PAIMON_KINDS
        found: list[str] = []
        if (database := self.mapping.database(levels)) is not None:
            found = self.metastore.tables.names_of_kinds(catalog, database, wanted, after or "", limit)
        if not found:
            self.present(catalog, levels)
        return found

    def check_free(self, name: IcebergName, kind: str = TABLE) -> None:
        """Raise RestError if the name of a new table or view is taken, or invalid, or if there is no such namespace."""
        self._find_place(name, kind, has_location=True)

    def free_place(self, name: IcebergName, given: str | None, kind: str = TABLE) -> str:
        """Return the directory of a new table or view: the one that the client has given, or a free one. RestError as
        `check_free`.
        """
        location = given and (given.rstrip("/") or given)
        found = self._find_place(name, kind, has_location=bool(location))
        place = location or found.location
        assert place is not None
        return place

    def _find_place(self, name: IcebergName, kind: str, *, has_location: bool) -> NewTablePlace:
        check_new_table(name)
        if not name.has_database:
            raise no_namespace(name.namespace)
        pointers = self.metastore.pointers
        try:
            found = pointers.find_place(name.catalog, name.database, name.table, has_location=has_location)
        except NoSuchObjectError as error:
            raise no_namespace(name.namespace) from error
        if found.table is not None:
            raise _taken(name, found.table, kind)
        return found

    def create(self, name: IcebergName, document: Document, owner: str | None) -> StoredTable:
        """Write the metadata of a new table and store its entry. Return both as they are stored. The caller has asked
        for a free place: a table that was created since is found when the entry is stored.
        """
        self.check_place(name, document)
        location = self.files.write(folder_of(document), 0, written(document), codec_of(document))
        entry = new_entry(name.catalog, name.database, name.table, document, location, owner)
        stored = self.add(name, entry, [location])
        return StoredTable(entry=stored, location=location, content=self.files.read(location))

    def check_place(self, name: IcebergName, document: Document) -> None:
        """Refuse the directories of a new table or view: by the rules for locations, or because of what the caller may
        do.
        """
        pointers = self.metastore.pointers
        place = pointers.checked(document["location"])
        pointers.check_new(name.catalog, name.database, name.table, place, pointers.checked(folder_of(document)))

    def register(self, name: IcebergName, location: str, owner: str | None) -> None:
        """Store an entry for an existing metadata file. RestError as `registrable` raises it."""
        self.check_free(name)
        document = self.registrable(name, location)
        self.add(name, new_entry(name.catalog, name.database, name.table, document, location, owner), ())

    def registrable(self, name: IcebergName, location: str) -> Document:
        """Return the metadata in a client's file for a table. RestError as `client_file` raises it.

        InvalidMetadataError for other content.
        """
        document = completed(self.client_file(name, location).document())
        check_all_columns(document)
        return document

    def client_file(self, name: IcebergName, location: str) -> MetadataContent:
        """Return the content of a client's file for a table or view. RestError with status 400 for a file that cannot
        be read.
        """
        self.metastore.pointers.registrable(name.catalog, name.database, location)
        try:
            return self.files.read(location)
        except StoreUnavailableError:
            raise
        except MetastoreError as error:
            raise bad_request(str(error)) from error

    def add(
        self, name: IcebergName, entry: MetastoreTable, written_files: Iterable[str], kind: str = TABLE
    ) -> MetastoreTable:
        """Store a new entry, and return it as it is stored; delete the files that were written for it if it is
        refused. The caller has asked for a free place.
        """
        try:
            (stored,) = self.metastore.tables.create_all([entry], has_any_name=True, is_free=True)
        except OutcomeUnknownError:
            raise
        except MetastoreError as error:
            self.files.delete(written_files)
            if isinstance(error, AlreadyExistsError):
                raise _taken(name, self.entry(name), kind) from error
            self.database(name.catalog, name.levels)
            raise
        return stored

    def swap(self, changes: Sequence[PointerChange], entries: Sequence[MetastoreTable], user: str) -> None:
        """Change entries by compare-and-swap and store new ones, in one transaction, all or none. Raises as
        PointerService.swap and TableService.create do.
        """
        pointers = self.metastore.pointers
        if entries:
            also = pointers.swapping(changes, user) if changes else None
            self.metastore.tables.create_all(entries, has_any_name=True, is_free=True, also=also)
        elif changes:
            pointers.swap(changes, user)

    def rename(self, source: IcebergName, target: IcebergName, kind: str = TABLE) -> None:
        """Rename a table or view, whose files stay in place. RestError with status 404 or 409. PointerMovedError or
        TableLockedError if another client changes it.
        """
        entry = self.found(source, kind)
        check_new_table(target)
        database = self.database(target.catalog, target.levels)
        taken = self.entry(target)
        if taken is not None:
            raise _not_renamed(source, target, taken)

        def change(old: MetastoreTable) -> MetastoreTable:
            return dataclasses.replace(old, database=database.name, name=target.table)

        try:
            renamed = (database.name, target.table)
            self.metastore.pointers.swap([pointer_change(source, entry.parameters[LOCATION], change, renamed=renamed)])
        except AlreadyExistsError as error:
            raise _not_renamed(source, target, self.entry(target)) from error

    def drop(self, name: IcebergName, kind: str = TABLE) -> MetastoreTable:
        """Remove the entry of a table or view, and return it. Its files are kept. RestError with status 404."""
        self.found(name, kind)
        try:
            return self.metastore.tables.drop(name.catalog, name.database, name.table, delete_data=False)
        except NoSuchObjectError as error:
            raise (no_view(name) if kind == VIEW else no_table(name)) from error


def pointer_change(
    name: IcebergName,
    expected: str,
    change: Callable[[MetastoreTable], MetastoreTable],
    *,
    renamed: tuple[str, str] | None = None,
    any_of: AnyOf = (Privilege.ALTER,),
    column_names: Mapping[str, str] | None = None,
    places: Sequence[CheckedPlace] = (),
) -> PointerChange:
    """Return the change of the entry of a table or view that names the metadata file `expected`. It needs one of some
    privileges, and says the new database and name if it has others, the names of columns by field ids, and new
    directories.
    """
    return PointerChange(
        catalog=name.catalog,
        database=name.database,
        name=name.table,
        parameter=LOCATION,
        expected=expected,
        change=change,
        renamed=renamed,
        any_of=any_of,
        column_names=column_names,
        places=places,
    )


def now_ms() -> int:
    """Return the time in milliseconds since the epoch."""
    return int(time.time() * 1000)


def _word(entry: MetastoreTable | None) -> str:
    return "View" if entry is not None and entry.is_view else "Table"


def _taken(name: IcebergName, entry: MetastoreTable | None, kind: str) -> RestError:
    """Return the error for a new table or view whose name an entry has."""
    word = _word(entry)
    same = "" if word == ("View" if kind == VIEW else "Table") else "with same name "
    return exists(f"{word} {same}already exists: {name}")


def _not_renamed(source: IcebergName, target: IcebergName, entry: MetastoreTable | None) -> RestError:
    return exists(f"Cannot rename {source} to {target}. {_word(entry)} already exists")
