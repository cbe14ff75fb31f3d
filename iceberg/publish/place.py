"""Options and paths of the Iceberg metadata of a table, as Paimon has them, and file access for pyiceberg.

<table>/metadata/…                                  with the storage location `table-location`
<warehouse>/iceberg/<database>/<table>/metadata/…   with `catalog-location`, of <warehouse>/<database>.db/<table>

v<snapshot id>.metadata.json   the table as of a snapshot of interbed's
version-hint.text              the number of the newest one
snap-<n>-<uuid>.avro           manifest lists
<uuid>-m<n>.avro               manifests
<index file>.puffin            the deletion vectors of an index file of the table, which Java Paimon does not write

The options `metadata.iceberg.*` have Paimon's names and defaults. Sources: documentation page `iceberg/configurations`,
paimon-core's IcebergOptions, IcebergPathFactory and IcebergCommitCallback.

**Retention.** A snapshot of Iceberg's is one of interbed's, of the same id, and exists as long: until it expires, or
while a tag keeps it. Metadata are written before a commit expires snapshots, so the expiry is predicted here from the
options. Snapshots that a caller expires by other bounds are left out when metadata are written the next time.

A written file stays in memory until `flush`, so no partial file is ever visible.
"""

import io
import re
import uuid
import zlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import count
from types import TracebackType
from typing import TYPE_CHECKING, Any

from pyiceberg.io import FileIO, InputFile, OutputFile
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRef
from pyiceberg.table.snapshots import Snapshot as Published
from pyiceberg.typedef import TableVersion

from interbed.iceberg.meta.table_metadata import IDENTITY
from interbed.iceberg.read.files import StoreInput
from interbed.storage.base.errors import InvalidOptionError
from interbed.storage.base.path_name import entry_name
from interbed.storage.io.api import FileIO as StoreFiles
from interbed.storage.io.api import write_file
from interbed.storage.io.resolve import normalize_path, respelled
from interbed.storage.meta.options.core import CoreOptions
from interbed.storage.meta.snapshot.snapshot import Snapshot

if TYPE_CHECKING:
    from collections.abc import Iterator


STORAGE = "metadata.iceberg.storage"
STORAGE_LOCATION = "metadata.iceberg.storage-location"
FORMAT_VERSION = "metadata.iceberg.format-version"
MANIFEST_COMPRESSION = "metadata.iceberg.manifest-compression"
DATABASE = "metadata.iceberg.database"
TABLE = "metadata.iceberg.table"
URI = "metadata.iceberg.uri"
REST = "metadata.iceberg.rest."
"""Prefix of the properties of a REST catalog."""

_CODECS = {
    "snappy": "snappy",
    "zstd": "zstandard",
    "zstandard": "zstandard",
    "deflate": "deflate",
    "gzip": "deflate",
    "bzip2": "bzip2",
    "null": "null",
    "none": "null",
    "uncompressed": "null",
}
"""Avro's codecs by the values of the option."""


class Storage(StrEnum):
    """The kind of publication of the table."""

    DISABLED = "disabled"
    TABLE_LOCATION = "table-location"
    HADOOP_CATALOG = "hadoop-catalog"
    HIVE_CATALOG = "hive-catalog"
    REST_CATALOG = "rest-catalog"


class StorageLocation(StrEnum):
    """The place of the metadata: below the table, or in a warehouse of their own beside the database."""

    TABLE_LOCATION = "table-location"
    CATALOG_LOCATION = "catalog-location"


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishSettings:
    """The options of a table. `databases` and `table` name entries of a catalog, by default the table's own names.
    `rest` are the properties of a REST catalog.
    """

    storage: Storage
    location: StorageLocation
    format_version: TableVersion
    codec: str
    legacy_lists: bool
    compact_min: int
    compact_max: int
    deletes_old: bool
    previous_max: int
    target_bytes: int
    databases: tuple[str, ...]
    table: str | None
    uri: str | None
    conf_directories: tuple[str, ...]
    skips_statistics: bool
    skips_archive: bool
    rest: Mapping[str, str]

    @staticmethod
    def of(options: CoreOptions) -> "PublishSettings":
        """Return the settings of a table. Raises InvalidOptionError for invalid values."""
        storage = options.choice(STORAGE, Storage.DISABLED)
        beside = storage is Storage.TABLE_LOCATION
        default = StorageLocation.TABLE_LOCATION if beside else StorageLocation.CATALOG_LOCATION
        directories = (
            options.text("metadata.iceberg.hive-conf-dir", ""),
            options.text("metadata.iceberg.hadoop-conf-dir", ""),
        )
        return PublishSettings(
            storage=storage,
            location=options.choice(STORAGE_LOCATION, default),
            format_version=_version(options),
            codec=_codec(options),
            legacy_lists=options.boolean("metadata.iceberg.manifest-legacy-version", False),
            compact_min=options.integer("metadata.iceberg.compaction.min.file-num", 10),
            compact_max=options.integer("metadata.iceberg.compaction.max.file-num", 50),
            deletes_old=options.boolean("metadata.iceberg.delete-after-commit.enabled", True),
            previous_max=max(0, options.integer("metadata.iceberg.previous-versions-max", 0)),
            target_bytes=options.manifest_target_file_size,
            databases=tuple(part.strip() for part in options.text(DATABASE, "").split(";") if part.strip()),
            table=options.text(TABLE, "") or None,
            uri=options.text(URI, "") or options.raw.get("hive.metastore.uris") or None,
            conf_directories=tuple(filter(None, directories)),
            skips_statistics=options.boolean("metadata.iceberg.hive-skip-update-stats", False),
            skips_archive=options.boolean("metadata.iceberg.glue.skip-archive", False),
            rest={key.removeprefix(REST): value for key, value in options.raw.items() if key.startswith(REST)},
        )


def shows_vectors(options: CoreOptions) -> bool:
    """Return whether readers of Iceberg get the table's deletion vectors, and with them all of its rows."""
    return (
        options.deletion_vectors_enabled
        and options.deletion_vectors_bitmap64
        and options.integer(FORMAT_VERSION, 2) == 3
    )


def _version(options: CoreOptions) -> TableVersion:
    match options.integer(FORMAT_VERSION, 2):
        case 2:
            return 2
        case 3:
            return 3
        case other:
            raise InvalidOptionError(f"Option '{FORMAT_VERSION}' takes 2 or 3, not '{other}'.")


def _codec(options: CoreOptions) -> str:
    name = options.text(MANIFEST_COMPRESSION, "snappy")
    codec = _CODECS.get(name.lower())
    if codec is None:
        raise InvalidOptionError(f"Option '{MANIFEST_COMPRESSION}' takes one of {', '.join(_CODECS)}, not '{name}'.")
    return codec


_FOREVER = 2**63 - 1
"""interbed expires tags, not Iceberg's readers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedRetention:
    """Bounds of the retention of snapshots, in numbers and milliseconds."""

    least: int
    most: int
    millis: int

    @staticmethod
    def of(options: CoreOptions) -> "PublishedRetention":
        """Return the retention by the options of a table."""
        return PublishedRetention(
            least=options.snapshot_retain_min,
            most=options.snapshot_retain_max,
            millis=options.snapshot_time_retained_millis,
        )

    def expires(self, snapshot_id: int, time_millis: int, newest: int, now_millis: int) -> bool:
        """Return whether a snapshot expires when `newest` is the newest one."""
        if snapshot_id > newest - self.least:
            return False
        return snapshot_id <= newest - self.most or time_millis < now_millis - self.millis


def identity_of(snapshot: Snapshot) -> str:
    """Return the identity of a commit, which differs from that of another commit of the same id, as Paimon writes
    it.
    """
    return snapshot.uuid or f"{snapshot.commit_user}:{snapshot.commit_identifier}:{snapshot.time_millis}"


def is_of(published: Published, snapshot: Snapshot) -> bool:
    """Return whether a published snapshot is of that commit. Older versions of Java Paimon write no identity: then the
    time decides.
    """
    if published.snapshot_id != snapshot.id:
        return False
    found = published.summary[IDENTITY] if published.summary is not None else None
    if found is None:
        return snapshot.time_millis <= published.timestamp_ms
    return bool(found == identity_of(snapshot))


def kept(
    published: Sequence[Published],
    there: Collection[int],
    tagged: Mapping[str, Snapshot],
    retention: PublishedRetention,
    now_millis: int,
) -> list[Published]:
    """Return the retained snapshots of a history, whose last one is the newest; `there` are ids that have not expired.

    The tags are all of the table, by their names.
    """
    newest = published[-1].snapshot_id
    by_id = {snapshot.id: snapshot for snapshot in tagged.values()}

    def stays(one: Published) -> bool:
        named = by_id.get(one.snapshot_id)
        if one.snapshot_id == newest or (named is not None and is_of(one, named)):
            return True
        due = retention.expires(one.snapshot_id, one.timestamp_ms, newest, now_millis)
        return one.snapshot_id in there and not due

    return [one for one in published if stays(one)]


def references(published: Sequence[Published], tagged: Mapping[str, Snapshot]) -> dict[str, SnapshotRef]:
    """Return the tags of the table whose snapshots are published, as Iceberg's, where `main` can only be the branch."""
    by_id = {one.snapshot_id: one for one in published}
    return {
        name: SnapshotRef.model_validate({"snapshot-id": of.id, "type": "tag", "max-ref-age-ms": _FOREVER})
        for name, of in sorted(tagged.items())
        if name != MAIN_BRANCH and of.id in by_id and is_of(by_id[of.id], of)
    }


def forgotten(before: Sequence[Published], after: Sequence[Published]) -> list[tuple[Published, list[Published]]]:
    """Return the snapshots that are not published any more, each with its neighbours that still are.

    The snapshots of a manifest are consecutive in the history, so a manifest that is in neither neighbour is in no
    other snapshot. New snapshots follow a published one, but after a rollback not all that came after it. The first of
    the new snapshots is sufficient.
    """
    lists, known = {one.manifest_list for one in after}, {one.manifest_list for one in before}
    left = [one for one in after if one.manifest_list in known]
    new = [one for one in after if one.manifest_list not in known][:1]
    found = []
    for one in before:
        if one.manifest_list in lists:
            continue
        older = [other for other in left if other.snapshot_id < one.snapshot_id][-1:]
        newer = [other for other in left if other.snapshot_id > one.snapshot_id][:1]
        found.append((one, [*older, *(newer or new)]))
    return found


VERSION_HINT = "version-hint.text"
RETIRE_PENDING = "retire-pending"
"""Java's marker file: a rollback may have left newer versions."""

PUFFIN = ".puffin"

_DATABASE = ".db"
_VERSION = re.compile(r"v(\d+)\.metadata\.json")
_PUFFIN = re.compile(r"(.+?)(\.at-[0-9a-f]{8})?\.puffin")


@dataclass(frozen=True, slots=True)
class PublishPlace:
    """The directory of metadata of one table; `name` and `numbers` make the names of new files of one run."""

    directory: str
    name: str = field(default_factory=lambda: str(uuid.uuid4()))
    numbers: "Iterator[int]" = field(default_factory=lambda: count(1))

    @staticmethod
    def of(table_location: str, kind: StorageLocation) -> "PublishPlace":
        """Return the directory of a table. Raises InvalidOptionError if the table is in no warehouse."""
        if kind is StorageLocation.TABLE_LOCATION:
            return PublishPlace(f"{table_location}/metadata")
        database, _, table = table_location.rpartition("/")
        warehouse, _, name = database.rpartition("/")
        if not name.endswith(_DATABASE):
            raise InvalidOptionError(
                f"The table at {table_location} is in no directory <database>.db, beside which its Iceberg metadata "
                f"would be; set '{STORAGE_LOCATION}' = '{StorageLocation.TABLE_LOCATION}'."
            )
        return PublishPlace(f"{warehouse}/iceberg/{name.removesuffix(_DATABASE)}/{table}/metadata")

    def spelled_as(self, location: str) -> "PublishPlace":
        """Return the same directory with the scheme of a location, for paths within metadata."""
        return replace(self, directory=respelled(self.directory, location))

    @property
    def hint(self) -> str:
        """The file with the number of the newest version."""
        return f"{self.directory}/{VERSION_HINT}"

    def version(self, number: int) -> str:
        """Return the metadata file of a version."""
        return f"{self.directory}/v{number}.metadata.json"

    def new_manifest(self) -> str:
        """Return a path that no manifest has."""
        return f"{self.directory}/{self.name}-m{next(self.numbers)}.avro"

    def new_list(self, snapshot_id: int) -> str:
        """Return a path that no manifest list has."""
        return f"{self.directory}/snap-{snapshot_id}-{self.name}.avro"

    def vectors(self, index_file: str, spelling: str | None) -> str:
        """Return the Puffin file of an index file's vectors.

        It names data files, so there is another file if the location of the table has a `spelling` other than its own.
        """
        other = "" if spelling is None else f".at-{zlib.crc32(spelling.encode()):08x}"
        return f"{self.directory}/{entry_name(index_file, self.directory)}{other}{PUFFIN}"


def index_file_of(path: str) -> str:
    """Return the name of the index file of the vectors in a file: its Puffin file, or the index file itself."""
    name = path.rpartition("/")[2]
    found = _PUFFIN.fullmatch(name)
    return name if found is None else found.group(1)


def version_of(name: str) -> int | None:
    """Return the number of a metadata file; None for any other file."""
    found = _VERSION.fullmatch(name)
    return None if found is None else int(found.group(1))


def own_names(table_location: str) -> tuple[str, str]:
    """Return database and table by the directories of a table."""
    database, _, table = table_location.rpartition("/")
    return database.rpartition("/")[2].removesuffix(_DATABASE), table


class StoreIO(FileIO):
    """Opens files for pyiceberg, however their paths spell the scheme; `written` are flushed files, in the spelling of
    the file system.
    """

    def __init__(self, files: StoreFiles) -> None:
        super().__init__()
        self.files = files
        self.written: list[str] = []
        self._waiting: dict[str, _OutputBuffer] = {}

    def new_input(self, location: str) -> InputFile:
        return StoreInput(location, self.files, normalize_path(location))

    def new_output(self, location: str) -> OutputFile:
        content = self._waiting[location] = _OutputBuffer()
        return _Output(self, location, content)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        self.files.delete(normalize_path(location if isinstance(location, str) else location.location))

    def flush(self) -> None:
        """Write the pending files. Raises StorageAccessError naming the file."""
        while self._waiting:
            location = next(iter(self._waiting))
            path = normalize_path(location)
            write_file(self.files, path, self._waiting[location].getvalue())
            del self._waiting[location]
            self.written.append(path)


class _OutputBuffer(io.BytesIO):
    """Bytes that are kept after they are closed."""

    def close(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass


class _Output(OutputFile):
    def __init__(self, store: StoreIO, location: str, content: _OutputBuffer) -> None:
        super().__init__(location)
        self._store = store
        self._content = content

    def __len__(self) -> int:
        return len(self._content.getvalue())

    def exists(self) -> bool:
        return self._store.files.exists(normalize_path(self.location))

    def to_input_file(self) -> InputFile:
        return self._store.new_input(self.location)

    def create(self, overwrite: bool = False) -> Any:
        return self._content
