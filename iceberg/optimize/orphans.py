"""Removal of files in a table's directory that nothing names: what killed writers and expiries left behind.

Files are listed first, and what is named is found afterwards, so that what was committed in between is known. Only
files of a table's own kinds, in its own folders, that are old enough and whose time is known, are deleted; nothing is
when one manifest can't be read. Source: Iceberg's documentation, "Maintenance", "Delete orphan files".
"""

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from pyiceberg.table import Table as Metadata

from interbed.iceberg.commit.home import TableHome
from interbed.iceberg.meta.manifests import entries_of_each, manifests_of
from interbed.iceberg.optimize.expire import check_collected
from interbed.iceberg.read.files import TableFiles
from interbed.storage.base.errors import InvalidInputError, plain_errors
from interbed.storage.io.api import FileIO, FileStatus
from interbed.storage.io.resolve import one_scheme

_THREE_DAYS = 3 * 24 * 3600 * 1000
_FOLDERS = ("data", "metadata")
_KINDS = (".parquet", ".orc", ".avro", ".puffin", ".metadata.json", ".metadata.json.gz", ".stats")
_SCHEME = re.compile(r"^[a-z0-9+.-]+:(//[^/]*)?")


@plain_errors
@dataclass(frozen=True, slots=True, kw_only=True)
class IcebergOrphans:
    """The files that were deleted, or in a dry run would be, and their size in bytes."""

    paths: tuple[str, ...]
    bytes: int

    def __str__(self) -> str:
        return "\n".join([f"{len(self.paths)} file(s) that nothing names, {self.bytes:,} bytes", *self.paths])

    def to_json(self) -> dict[str, Any]:
        """The result as a JSON object."""
        return asdict(self)


def remove_orphan_files(
    home: TableHome,
    older_than_millis: int | None,
    *,
    dry_run: bool = False,
    clock: Callable[[], float] = time.time,
) -> IcebergOrphans:
    """Delete files that nothing names and that are older than three days, or than the time given.

    Raises InvalidInputError for a time in the future, NotSupportedError for a table whose files are not to be deleted,
    and what reading metadata raises.
    """
    now = int(clock() * 1000)
    limit = now - _THREE_DAYS if older_than_millis is None else older_than_millis
    if limit > now:
        raise InvalidInputError("Files that are written meanwhile would be taken for orphans: the time is to come.")
    table = home.load()
    check_collected(table.metadata)
    files = TableFiles.of(table.metadata, table.io.properties)
    file_io, root = files.open(table.location())
    old = [
        status
        for folder in _FOLDERS
        for status in _all_files(file_io, f"{root.rstrip('/')}/{folder}")
        if status.name.endswith(_KINDS) and status.modified_millis is not None and status.modified_millis < limit
    ]
    if not old:
        return IcebergOrphans(paths=(), bytes=0)
    named = {_plain(path) for path in named_files(home.load())}
    orphans = [status for status in old if _plain(status.path) not in named]
    if not dry_run:
        file_io.delete_quietly(status.path for status in orphans)
    return IcebergOrphans(
        paths=tuple(sorted(status.path for status in orphans)), bytes=sum(status.size for status in orphans)
    )


def named_files(table: Metadata) -> Iterator[str]:
    """All files that the metadata of a table name; raises what reading metadata raises."""
    metadata = table.metadata
    yield table.metadata_location
    yield from (entry.metadata_file for entry in metadata.metadata_log)
    yield from (file.statistics_path for file in (*metadata.statistics, *metadata.partition_statistics))
    seen: set[str] = set()
    for snapshot in metadata.snapshots:
        yield snapshot.manifest_list
        new = [each for each in manifests_of(table.io, snapshot) if each.manifest_path not in seen]
        seen.update(each.manifest_path for each in new)
        yield from (each.manifest_path for each in new)
        for entries in entries_of_each(table.io, new):
            yield from (str(entry.data_file.file_path) for entry in entries)


def _all_files(file_io: FileIO, folder: str) -> Iterator[FileStatus]:
    for status in file_io.list(folder):
        if status.name.startswith("."):
            continue
        if status.is_directory:
            yield from _all_files(file_io, status.path)
        else:
            yield status


def _plain(path: str) -> str:
    """A path by which the same file is found under each way to write it: `file:/x`, `file:///x` and `/x`."""
    scheme = path.partition(":")[0] if _SCHEME.match(path) else "file"
    if scheme == "file":
        return re.sub(r"/+", "/", _SCHEME.sub("", path))
    return f"{one_scheme(scheme)}{path[len(scheme) :]}"
