"""pypaimon's managers of snapshots, tags, consumers, branches and files, and its names of options.

`OptionNames.SCAN_SNAPSHOT_ID` is the key `scan.snapshot-id`.
"""

import contextlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyarrow import fs as pafs

from interbed.storage.base.errors import InvalidInputError, SnapshotNotFoundError
from interbed.storage.io.api import FileIO
from interbed.storage.io.resolve import normalize_path
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.snapshot.progress import ConsumerManager
from interbed.storage.meta.snapshot.snapshot import Snapshot
from interbed.storage.meta.snapshot.tag import Tag, TagManager
from interbed.storage.version.branch import BranchManager


@dataclass(frozen=True, slots=True)
class BuiltSnapshots:
    """The snapshots of a table; methods return None for missing ones."""

    store: FileStore

    def get_latest_snapshot(self) -> Snapshot | None:
        """Return the newest snapshot of the table."""
        return self.store.snapshots.latest()

    def try_get_earliest_snapshot(self) -> Snapshot | None:
        """Return the oldest snapshot of the table."""
        earliest = self.store.snapshots.earliest_id()
        return None if earliest is None else self.get_snapshot_by_id(earliest)

    def get_snapshot_by_id(self, snapshot_id: int) -> Snapshot | None:
        """Return the snapshot of an id, uncached, because a rollback may have replaced it."""
        try:
            return self.store.snapshots.read(snapshot_id)
        except SnapshotNotFoundError:
            return None

    def get_snapshots_batch(self, snapshot_ids: Sequence[int]) -> dict[int, Snapshot | None]:
        """Return the snapshots of some ids."""
        return {snapshot_id: self.get_snapshot_by_id(snapshot_id) for snapshot_id in snapshot_ids}

    def list_snapshots(self) -> list[Snapshot]:
        """Return all snapshots, oldest first."""
        return self.store.snapshots.all()

    def earlier_or_equal_time_mills(self, timestamp: int) -> Snapshot | None:
        """Return the newest snapshot at or before a time, in milliseconds since the epoch."""
        try:
            return self.store.snapshots.by_time_millis(timestamp)
        except SnapshotNotFoundError:
            return None

    def later_or_equal_watermark(self, watermark: int) -> Snapshot | None:
        """Return the oldest snapshot at or after a watermark, in milliseconds since the epoch."""
        marked = (s for s in self.store.snapshots.all() if s.watermark is not None and s.watermark >= watermark)
        return next(marked, None)

    def get_snapshot_path(self, snapshot_id: int) -> str:
        """Return the path of the file of a snapshot."""
        return self.store.paths.snapshot(snapshot_id)


@dataclass(frozen=True, slots=True)
class BuiltTags:
    """The tags of a table by name; the methods of the table change them."""

    store: FileStore

    def list_tags(self) -> list[str]:
        """Return the names of the tags."""
        return self._tags.names()

    def tag_exists(self, tag_name: str) -> bool:
        """Return whether the tag exists."""
        return self._tags.find(tag_name) is not None

    def get(self, tag_name: str) -> Tag | None:
        """Return the tag of that name; None if it is missing."""
        return self._tags.find(tag_name)

    def get_or_throw(self, tag_name: str) -> Tag:
        """Return the tag of that name; raises TagNotFoundError."""
        return self._tags.get(tag_name)

    @property
    def _tags(self) -> TagManager:
        return TagManager(self.store.file_io, self.store.paths)


@dataclass(frozen=True, slots=True)
class BuiltConsumers:
    """The consumers of a table: the first snapshot that each has not read."""

    store: FileStore

    def list_all_ids(self) -> list[str]:
        """Return the ids of the consumers."""
        return self._consumers.ids()

    def consumers(self) -> dict[str, int]:
        """Return the next snapshot of each consumer, by id."""
        return self._consumers.all()

    def min_next_snapshot(self) -> int | None:
        """Return the smallest next snapshot of all consumers; None without consumers."""
        return self._consumers.min_next_snapshot()

    def delete_consumer(self, consumer_id: str) -> None:
        """Delete a consumer by its id."""
        self._consumers.delete(consumer_id)

    @property
    def _consumers(self) -> ConsumerManager:
        return ConsumerManager(self.store.file_io, self.store.paths)


@dataclass(frozen=True, slots=True)
class BuiltBranches:
    """The branches of a table by name."""

    store: FileStore

    def branches(self) -> list[str]:
        """Return the names of all branches but `main`."""
        return self._branches.names()

    def branch_exists(self, branch_name: str) -> bool:
        """Return whether the branch exists."""
        return branch_name in self._branches.names()

    def create_branch(self, branch_name: str, tag_name: str | None = None, ignore_if_exists: bool = False) -> None:
        """Create a branch: empty, or with the rows of a tag. Raises InvalidInputError, TagNotFoundError."""
        self._branches.create(branch_name, tag_name, ignore_if_exists=ignore_if_exists)

    def rename_branch(self, from_branch: str, to_branch: str) -> None:
        """Rename a branch; raises BranchNotFoundError, InvalidInputError for a name that exists."""
        self._branches.rename(from_branch, to_branch)

    def drop_branch(self, branch_name: str) -> None:
        """Delete a branch; raises BranchNotFoundError."""
        self._branches.delete(branch_name)

    def fast_forward(self, branch_name: str) -> None:
        """Fast-forward the table to the branch; raises BranchNotFoundError, InvalidInputError for an empty branch."""
        self._branches.fast_forward(branch_name)

    @property
    def _branches(self) -> BranchManager:
        return BranchManager(self.store)


@dataclass(frozen=True, slots=True)
class BuiltFiles:
    """Reads and writes files in the file system of a table.

    Paths are local paths, `file:` URIs, or URIs of the table's file system. All methods raise StorageAccessError naming
    the path if the file system refuses.
    """

    inner: FileIO

    def new_input_stream(self, path: str) -> pa.NativeFile:
        """Open a seekable input; raises FileNotFoundError."""
        return self.inner.open_input(normalize_path(path))

    def new_output_stream(self, path: str) -> Any:
        """Open a binary file for writing; parents are created, and an existing file is replaced."""
        return self.inner.open_output(normalize_path(path))

    def get_file_status(self, path: str) -> pafs.FileInfo:
        """Return type, size in bytes and modification time of a file or directory; raises FileNotFoundError."""
        normal = normalize_path(path)
        parent, _, name = normal.rpartition("/")
        for entry in self.inner.list(parent or "/"):
            if entry.name == name:
                return _info(entry.path, entry.is_directory, entry.size, entry.modified_millis)
        # A root has no parent that lists it, and an object store has no entry for an empty prefix.
        if self.inner.exists(normal):
            return _info(normal, True, 0, None)
        raise FileNotFoundError(f"There is no file {path}.")

    def list_status(self, path: str) -> list[pafs.FileInfo]:
        """List a directory, in no particular order; a missing directory is empty."""
        entries = self.inner.list(normalize_path(path))
        return [_info(e.path, e.is_directory, e.size, e.modified_millis) for e in entries]

    def exists(self, path: str) -> bool:
        """Return whether a file or directory exists."""
        return self.inner.exists(normalize_path(path))

    def exists_batch(self, paths: Iterable[str]) -> dict[str, bool]:
        """Return whether each of the paths exists."""
        return {path: self.exists(path) for path in paths}

    def get_file_size(self, path: str) -> int:
        """Return the size of a file in bytes; raises FileNotFoundError."""
        return self.inner.size(normalize_path(path))

    def is_dir(self, path: str) -> bool:
        """Return whether the path is a directory; raises FileNotFoundError if it does not exist."""
        return self.get_file_status(path).type == pafs.FileType.Directory

    def mkdirs(self, path: str) -> bool:
        """Create a directory and its parents, and return True; raises FileExistsError for a file of that name."""
        normal = normalize_path(path)
        if self.inner.exists(normal) and not self.is_dir(normal):
            raise FileExistsError(f"{path} is a file, not a directory.")
        self.inner.make_directories(normal)
        return True

    def check_or_mkdirs(self, path: str) -> None:
        """Create a directory unless it exists; raises InvalidInputError for a file of that name."""
        try:
            self.mkdirs(path)
        except FileExistsError as error:
            raise InvalidInputError(str(error)) from error

    def delete(self, path: str, recursive: bool = False) -> bool:
        """Delete a file or an empty directory, or all below a directory; return False if nothing existed."""
        return self.inner.delete(normalize_path(path), recursive=recursive)

    def delete_quietly(self, path: str) -> None:
        """Delete a file if it exists; failures are logged."""
        self.inner.delete_quietly([normalize_path(path)])

    def delete_files_quietly(self, files: Iterable[str]) -> None:
        """Delete files if they exist; failures are logged."""
        self.inner.delete_quietly(map(normalize_path, files))

    def delete_directory_quietly(self, directory: str) -> None:
        """Delete a directory with all below it if it exists; failures are ignored."""
        with contextlib.suppress(OSError):
            self.delete(directory, recursive=True)

    def rename(self, src: str, dst: str) -> bool:
        """Move a file or directory; return False if the target exists or the source is missing."""
        return self.inner.rename(normalize_path(src), normalize_path(dst))

    def copy_file(self, source_path: str, target_path: str, overwrite: bool = False) -> None:
        """Copy a file; raises FileExistsError for an existing target unless `overwrite`."""
        self._put(target_path, self.inner.read_bytes(normalize_path(source_path)), overwrite=overwrite)

    def write_file(self, path: str, content: str, overwrite: bool = False) -> None:
        """Write a text as UTF-8; raises FileExistsError for an existing file unless `overwrite`."""
        self._put(path, content.encode(), overwrite=overwrite)

    def overwrite_file_utf8(self, path: str, content: str) -> None:
        """Write a text as UTF-8, replacing an existing file."""
        self._put(path, content.encode(), overwrite=True)

    def try_to_write_atomic(self, path: str, content: str) -> bool:
        """Create a file with a text as UTF-8, atomically; return False if it exists."""
        return self.inner.create_exclusive(normalize_path(path), content.encode())

    def read_file_utf8(self, path: str) -> str:
        """Return a whole file as text; raises FileNotFoundError."""
        return self.inner.read_bytes(normalize_path(path)).decode()

    def read_file_range(self, path: str, offset: int, length: int) -> bytes:
        """Return bytes of a file from an offset on; a negative length reads to the end."""
        with self.new_input_stream(path) as file:
            file.seek(offset)
            return bytes(file.read() if length < 0 else file.read(length))

    def to_filesystem_path(self, path: str) -> str:
        """Return the path in the form of the file system: without `file:`."""
        return normalize_path(path)

    def _put(self, path: str, content: bytes, *, overwrite: bool) -> None:
        normal = normalize_path(path)
        if overwrite:
            self.inner.overwrite(normal, content)
        elif not self.inner.create_exclusive(normal, content):
            raise FileExistsError(f"There is a file {path} already, and overwrite=False.")


def _info(path: str, is_directory: bool, size: int, modified_millis: int | None) -> pafs.FileInfo:
    kind = pafs.FileType.Directory if is_directory else pafs.FileType.File
    seconds = None if modified_millis is None else modified_millis / 1000
    return pafs.FileInfo(path, kind, size=None if is_directory else size, mtime=seconds)


_KEYS = (
    "add-column-before-partition",
    "branch",
    "bucket",
    "bucket-key",
    "changelog-file.format",
    "changelog-producer",
    "commit.max-retries",
    "commit.max-retry-wait",
    "commit.min-retry-wait",
    "commit.timeout",
    "commit.user-prefix",
    "data-file.external-paths",
    "data-file.prefix",
    "dynamic-bucket.max-buckets",
    "dynamic-bucket.target-row-num",
    "dynamic-partition-overwrite",
    "file.block-size",
    "file.compression",
    "file.compression.per.level",
    "file.compression.zstd-level",
    "file.format",
    "file.format.per.level",
    "ignore-delete",
    "incremental-between-timestamp",
    "manifest.compression",
    "manifest.merge-min-count",
    "manifest.target-file-size",
    "merge-engine",
    "metadata.stats-mode",
    "partition.default-name",
    "path",
    "primary-key.nullable",
    "read.batch-size",
    "scan.creation-time-millis",
    "scan.fallback-branch",
    "scan.file-creation-time-millis",
    "scan.mode",
    "scan.snapshot-id",
    "scan.tag-name",
    "scan.timestamp",
    "scan.timestamp-millis",
    "scan.watermark",
    "sequence.field",
    "sequence.field.sort-order",
    "source.split.open-file-cost",
    "source.split.target-size",
    "target-file-row-num",
    "target-file-size",
    "type",
)


class ConfigOption(str):
    """The key of an option, as text; `key()` returns it as in pypaimon."""

    __slots__ = ()

    def key(self) -> str:
        """Return the key of the option."""
        return str(self)


class _ByName(type):
    """The metaclass that looks up options by name."""

    def __getattr__(cls, name: str) -> ConfigOption:
        key = _BY_NAME.get(name)
        if key is None:
            raise AttributeError(
                f"interbed has no name {name!r} for an option; give its key as text, such as 'scan.snapshot-id'."
            )
        return key

    def __dir__(cls) -> list[str]:
        return sorted(_BY_NAME)


class OptionNames(metaclass=_ByName):
    """The names of pypaimon's CoreOptions: options as class attributes, with `_` for `.` and `-` of their keys."""


_BY_NAME = {key.upper().replace(".", "_").replace("-", "_"): ConfigOption(key) for key in _KEYS}
