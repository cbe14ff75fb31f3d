"""The home of a table's metadata files: which file is the newest, and how the next one replaces it, in attempts.

A catalog does both itself. In a directory without one (a Hadoop catalog's), version N is `metadata/vN.metadata.json`.
The exclusive creation of that file is the commit. `metadata/version-hint.text` names approximately the newest version.
Files are plain JSON, or compressed as their names say. Source: Iceberg's table specification, "File System Tables".

Commits use optimistic concurrency. Each attempt loads the newest metadata and writes new files beside the table; the
update of the metadata, which names these files, is the commit. An attempt that lost to another commit deletes its
files. If the state is unknown (an answer was lost, and the table cannot be loaded) nothing is deleted.

Other tables may be in the folder of an Iceberg table. A table that was created with an explicit location, or in the
place of a dropped one, may have its files in the folder of another table. Nothing in one table's metadata names the
other: it is found by its metadata files, which have another `table-uuid`.
"""

import gzip
import json
import logging
import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError, WaitingForLockException
from pyiceberg.table import Table as Metadata
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    AssertRefSnapshotId,
    AssertTableUUID,
    SetSnapshotRefUpdate,
    TableRequirement,
    TableUpdate,
    update_table_metadata,
)
from pyiceberg.typedef import IcebergBaseModel

from interbed.iceberg.meta.table_metadata import whole_number
from interbed.iceberg.read.files import TableFiles, static_table
from interbed.storage.base.avro.records import METADATA_BLOCK_BYTES_MAX
from interbed.storage.base.backoff import ExponentialBackoff, RetryLoop
from interbed.storage.base.decoding import TooManyBytesError, plain_content
from interbed.storage.base.errors import (
    CommitConflictError,
    CommitFailedError,
    CommitStateUnknownError,
    CorruptFileError,
    NotSupportedError,
    StorageAccessError,
)
from interbed.storage.io.api import FileIO, FileStatus
from interbed.storage.io.resolve import check_exclusive

_CODEC = "write.metadata.compression-codec"


def metadata_suffix(metadata: TableMetadata) -> str:
    """Return the end of the name of a metadata file, by the table's properties."""
    is_gzip = metadata.properties.get(_CODEC, "none").lower() == "gzip"
    return ".gz.metadata.json" if is_gzip else ".metadata.json"


def metadata_bytes(metadata: TableMetadata, name: str) -> bytes:
    """Return the content of a metadata file of that name."""
    # pyiceberg's own function refuses metadata of version 3, although its output would be complete.
    content = IcebergBaseModel.model_dump_json(metadata).encode()
    return gzip.compress(content, mtime=0) if ".gz" in name else content


_HINT = "version-hint.text"
_VERSION = re.compile(r"v(\d+)\.(gz\.)?metadata\.json(\.gz)?")
_DELETES_OLD = "write.metadata.delete-after-commit.enabled"


class TableHome(Protocol):
    """Access to the place where a table's metadata are kept."""

    def load(self) -> Metadata:
        """Load the table in its present state."""
        ...

    def commit(
        self, base: Metadata, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> None:
        """Update the table. Raises CommitFailedException if another commit was faster: nothing was changed then.

        After any other error it is not known whether the table was updated.
        """
        ...


class CatalogHome:
    """A catalog of pyiceberg; `table` is any state of the table."""

    def __init__(self, table: Metadata) -> None:
        self._table = table

    def load(self) -> Metadata:
        """Load the table; see TableHome."""
        return self._table.catalog.load_table(self._table.name())

    def commit(
        self, base: Metadata, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> None:
        """Update the table; see TableHome."""
        self._table.catalog.commit_table(base, requirements, updates)


class DirectoryHome:
    """A directory without a catalog; `properties` are pyiceberg's of the object store, `file_io` opens the
    directory.
    """

    def __init__(self, location: str, properties: Mapping[str, str], file_io: FileIO, path: str) -> None:
        self._location = location.rstrip("/")
        self._properties = dict(properties)
        self._file_io = file_io
        self._metadata = f"{path.rstrip('/')}/metadata"

    def load(self) -> Metadata:
        """Load the table; see TableHome. Raises FileNotFoundError for a directory without a table."""
        _, name = self._newest()
        return static_table(f"{self._location}/metadata/{name}", self._properties)

    def commit(
        self, base: Metadata, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> None:
        """Update the table; see TableHome."""
        check_exclusive(self._file_io, self._location, "Change the table by way of a catalog.")
        version, name = self._newest()
        if base.metadata_location.rpartition("/")[2] != name:
            raise CommitFailedException(f"{self._location} is at version {version} by now")
        for requirement in requirements:
            requirement.validate(base.metadata)
        made = update_table_metadata(base.metadata, updates, metadata_location=base.metadata_location)
        following = f"v{version + 1}{metadata_suffix(made)}"
        if self._find(version + 1) is not None or not self._file_io.create_exclusive(
            f"{self._metadata}/{following}", metadata_bytes(made, following)
        ):
            raise CommitFailedException(f"Another commit has made version {version + 1} of {self._location}")
        self._after(version + 1, base.metadata, made)

    def _after(self, version: int, before: TableMetadata, made: TableMetadata) -> None:
        """Write the hint and delete old metadata. It may fail: readers look for versions newer than the hint."""
        try:
            self._file_io.overwrite(f"{self._metadata}/{_HINT}", str(version).encode(), durable=False)
        except StorageAccessError:
            return
        self._file_io.delete_quietly(
            f"{self._metadata}/{path.rpartition('/')[2]}" for path in metadata_to_delete(before, made)
        )

    def _newest(self) -> tuple[int, str]:
        """Return the newest version and the name of its file."""
        version, name = 0, None
        try:
            hint = self._file_io.read_bytes(f"{self._metadata}/{_HINT}").decode().strip()
            if hint.isdecimal():
                version, name = int(hint), self._find(int(hint))
        except FileNotFoundError:
            pass
        if name is None:
            # There is no hint, or it names a missing file.
            found = [
                (int(match[1]), status.name)
                for status in self._file_io.list(self._metadata)
                if (match := _VERSION.fullmatch(status.name)) is not None
            ]
            if not found:
                raise FileNotFoundError(f"no metadata of a version in {self._metadata}")
            version, name = max(found)
        while (following := self._find(version + 1)) is not None:
            version, name = version + 1, following
        return version, name

    def _find(self, version: int) -> str | None:
        """Return the name of a version's file, which may be compressed; None if there is none."""
        names = (f"v{version}.metadata.json", f"v{version}.gz.metadata.json", f"v{version}.metadata.json.gz")
        return next((name for name in names if self._file_io.exists(f"{self._metadata}/{name}")), None)


def metadata_to_delete(before: TableMetadata, made: TableMetadata) -> list[str]:
    """Return the metadata files that a commit has dropped from the log, if the table wants them deleted."""
    if made.properties.get(_DELETES_OLD, "false").lower() != "true":
        return []
    kept = {entry.metadata_file for entry in made.metadata_log}
    return [entry.metadata_file for entry in before.metadata_log if entry.metadata_file not in kept]


def home_of(table: Metadata) -> TableHome | None:
    """Return the catalog that a table was loaded from; None if it was loaded from a file."""
    return None if isinstance(table.catalog, NoopCatalog) else CatalogHome(table)


_log = logging.getLogger(__name__)

_RETRIES = "commit.retry.num-retries"
_LEAST_WAIT = "commit.retry.min-wait-ms"
_MOST_WAIT = "commit.retry.max-wait-ms"


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitAttempt:
    """An update of a table as it was loaded, and the files that were written for it and that it names.

    `happened` returns, for later metadata, whether the update was committed; `snapshot_id` is the id of the new
    snapshot, if there is one.
    """

    table: Metadata
    updates: tuple[TableUpdate, ...]
    written: tuple[str, ...]
    happened: Callable[[TableMetadata], bool]
    snapshot_id: int | None = None

    @property
    def requirements(self) -> tuple[TableRequirement, ...]:
        """The requirements of the update: branches and tags are unchanged."""
        metadata = self.table.metadata
        refs = {MAIN_BRANCH: metadata.current_snapshot_id}
        refs.update((name, ref.snapshot_id) for name, ref in metadata.refs.items())
        return (
            AssertTableUUID(uuid=metadata.table_uuid),
            *(AssertRefSnapshotId.model_validate({"ref": name, "snapshot-id": at}) for name, at in refs.items()),
        )


def snapshot_attempt(table: Metadata, snapshot: Snapshot, written: Iterable[str]) -> CommitAttempt:
    """Return the attempt that makes a snapshot the newest one of the main branch."""
    main: dict[str, object] = {
        "ref-name": MAIN_BRANCH,
        "type": SnapshotRefType.BRANCH,
        "snapshot-id": snapshot.snapshot_id,
    }
    before = table.metadata.refs.get(MAIN_BRANCH)
    if before is not None:
        # The retention of snapshots is a property of the branch.
        main |= {
            "max-ref-age-ms": before.max_ref_age_ms,
            "max-snapshot-age-ms": before.max_snapshot_age_ms,
            "min-snapshots-to-keep": before.min_snapshots_to_keep,
        }
    return CommitAttempt(
        table=table,
        updates=(AddSnapshotUpdate(snapshot=snapshot), SetSnapshotRefUpdate.model_validate(main)),
        written=tuple(written),
        happened=lambda metadata: metadata.snapshot_by_id(snapshot.snapshot_id) is not None,
        snapshot_id=snapshot.snapshot_id,
    )


def commit_retried(
    home: TableHome, attempt: Callable[[Metadata], CommitAttempt | None], sleep: Callable[[float], None] = time.sleep
) -> CommitAttempt | None:
    """Retry until an attempt succeeds, which is returned, or there is nothing to do.

    Raises CommitFailedError after repeated conflicts, CommitConflictError for a table that does not exist any more,
    NotSupportedError for a catalog that takes no such commit: nothing was changed then. Raises CommitStateUnknownError
    if it is not known whether the commit was made.
    """
    retries: RetryLoop | None = None
    while True:
        table = home.load()
        made = attempt(table)
        if made is None:
            return None
        backoff = _backoff(table.metadata, sleep)
        if retries is None:
            retries = backoff.start(f"the commit to {table.location()}", _log)
        # Another commit may have changed the settings.
        retries.backoff = backoff
        try:
            sync_files(table, made.written)
        except StorageAccessError:
            delete_files(table, made.written)
            raise
        try:
            home.commit(table, made.requirements, made.updates)
        except (CommitFailedException, WaitingForLockException) as error:
            delete_files(table, made.written)
            if not retries.pause(f"another commit came first: {error}"):
                raise CommitFailedError(
                    f"Other commits to {table.location()} came first {retries.count + 1} times; the same work may be "
                    f"retried: {error}"
                ) from error
            continue
        except NoSuchTableError as error:
            delete_files(table, made.written)
            raise CommitConflictError(f"The table at {table.location()} is gone: {error}") from error
        except NotSupportedError:
            # Refused before anything was written.
            delete_files(table, made.written)
            raise
        except NotImplementedError as error:
            delete_files(table, made.written)
            raise NotSupportedError(
                f"The catalog of {table.location()} does not take this commit: {error}. Open the table by interbed's "
                "catalog over the same metastore, or by a REST catalog."
            ) from error
        except Exception as error:
            # A catalog's client raises whatever its library does.
            if not _happened(home, made):
                raise CommitStateUnknownError(
                    f"It is not known whether the commit to {table.location()} was carried out; nothing was cleaned "
                    f"up: {error}"
                ) from error
        return made


def delete_files(table: Metadata, paths: Iterable[str]) -> None:
    """Delete files of a table that nothing names. Failures are logged."""
    TableFiles.of(table.metadata, table.io.properties).delete_quietly(paths)


def sync_files(table: Metadata, paths: Iterable[str]) -> None:
    """Make files durable before a commit names them. Raises SyncFailedError."""
    files = TableFiles.of(table.metadata, table.io.properties)
    opened = [files.open(path) for path in paths]
    if opened:
        opened[0][0].sync([place for _, place in opened])


def _happened(home: TableHome, made: CommitAttempt) -> bool:
    """Return whether the update was committed; false if the table cannot be loaded."""
    try:
        return made.happened(home.load().metadata)
    except Exception as error:  # noqa: BLE001 - the state stays unknown, whatever the reason
        _log.warning("Can't load %s to find out whether a commit was made: %s", made.table.location(), error)
        return False


def _backoff(metadata: TableMetadata, sleep: Callable[[float], None]) -> ExponentialBackoff:
    """The retries that a table's properties ask for."""
    properties = metadata.properties
    return ExponentialBackoff(
        first_seconds=whole_number(properties, _LEAST_WAIT, 100) / 1000,
        longest_seconds=whole_number(properties, _MOST_WAIT, 60_000) / 1000,
        jitter=(0.5, 1.5),
        retries=whole_number(properties, _RETRIES, 4),
        sleep=sleep,
    )


_ENDS = (".metadata.json", ".metadata.json.gz")


@dataclass(frozen=True, slots=True, kw_only=True)
class NeighbourTable:
    """Another table in the folder: its newest metadata, and the paths of all of its metadata files in the folder."""

    metadata: Metadata
    paths: frozenset[str]


def neighbours_of(table: Metadata, file_io: FileIO, root: str, known: Collection[str]) -> Iterator[NeighbourTable]:
    """Yield the other tables with metadata files in the folder `root` of a table.

    `known` are names of files that need not be read, because they are the table's own. Raises what reading metadata
    raises: what such a table names is not known then.
    """
    found: dict[str, list[tuple[int, str]]] = {}
    own = str(table.metadata.table_uuid)
    for status in file_io.list(f"{root.rstrip('/')}/metadata"):
        if status.is_directory or not status.name.endswith(_ENDS) or status.name in known:
            continue
        document = _document(file_io, status)
        identity = document.get("table-uuid")
        if isinstance(identity, str) and identity != own:
            found.setdefault(identity, []).append((int(document.get("last-updated-ms", 0)), status.path))
    for identity, files in found.items():
        _, newest = max(files)
        location = f"{table.location().rstrip('/')}{newest[len(root.rstrip('/')) :]}"
        _log.warning(
            "The folder %s has files of another table, %s (%s). They are kept. Move one of the tables, or delete that "
            "file if its table was dropped.",
            table.location(),
            identity,
            newest,
        )
        yield NeighbourTable(
            metadata=static_table(location, table.io.properties),
            paths=frozenset(path for _, path in files),
        )


def _document(file_io: FileIO, status: FileStatus) -> dict[str, Any]:
    """Return the JSON of a metadata file; an empty object for a file that is none, as killed writers leave."""
    try:
        content = file_io.read_bytes(status.path)
    except FileNotFoundError:
        return {}
    try:
        found = json.loads(plain_content(content, METADATA_BLOCK_BYTES_MAX))
    except TooManyBytesError as error:
        raise CorruptFileError(
            f"The metadata file {status.path} can't be read: {error}. Move it away if no table has it."
        ) from error
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
