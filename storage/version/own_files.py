"""Files of a table in its directory, recognised by names, so that a drop deletes these and no foreign files.

Known are the directories of `storage.meta.paths` with the files that interbed and Java Paimon write into them, the
metadata that are published for Iceberg, temporary files that were never renamed, and partitions and buckets with data
files. A name of a data file begins with the table's prefix and contains a uuid. Other files count as the table's where
a version of it refers to them; everything beyond that is foreign. A link is always foreign: a table makes none.

A table's files outside of its directory (`data-file.external-paths`) are those that its versions refer to there.
"""

import logging
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from interbed.storage.base.errors import InterbedError
from interbed.storage.io.api import FileIO, FileStatus
from interbed.storage.io.parallel import in_parallel
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.options.core import DATA_FILE_PREFIX, CoreOptions
from interbed.storage.version.branch_stores import all_branches
from interbed.storage.version.orphans import needed_files
from interbed.storage.version.own_paths import (
    BRANCHES,
    BUCKET,
    CHECKSUM,
    DONE,
    HIDDEN,
    IN_TABLE,
    OF_BRANCH,
    OF_TABLE,
    PARTITION,
    UUID,
)

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class OwnFiles:
    """Content of a table's directory: own files, own directories, and the paths of foreign entries.

    Each directory comes after its parent. Foreign directories are not listed.
    """

    files: list[str] = field(default_factory=list)
    directories: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)

    def add(self, other: "OwnFiles") -> None:
        """Add the content of another directory."""
        self.files += other.files
        self.directories += other.directories
        self.foreign += other.foreign


def own_files(file_io: FileIO, location: str, opened: Callable[[], FileStore]) -> OwnFiles:
    """Return the content of a table's directory, which may be damaged.

    `opened` opens the table where names do not suffice. Raises StorageAccessError.
    """
    return _DirectoryWalk(file_io, location.rstrip("/"), opened).result()


class _DirectoryWalk:
    """Walk through the directory of a table, a level at a time."""

    def __init__(self, file_io: FileIO, location: str, opened: Callable[[], FileStore]) -> None:
        self._file_io = file_io
        self._location = location
        self._opened = opened
        self._found = OwnFiles()
        self._doubtful: list[FileStatus] = []
        self._prefixes = {DATA_FILE_PREFIX, "changelog-", "index-"}
        self._data_directories: set[str] = set()
        self._data_file = self._pattern()

    def result(self) -> OwnFiles:
        """Return the content: first by names alone, then by the table's metadata."""
        self._walk([self._location])
        if self._doubtful:
            doubtful, self._doubtful = self._doubtful, []
            self._judge(doubtful)
        return self._found

    def _walk(self, directories: list[str]) -> None:
        while directories:
            listed = in_parallel(self._file_io, [partial(self._file_io.list, path) for path in directories])
            directories = []
            for entry in (entry for some in listed for entry in some):
                relative = entry.path[len(self._location) + 1 :]
                if entry.is_link:
                    self._found.foreign.append(entry.path)
                elif entry.is_directory and self._is_own_directory(relative):
                    self._found.directories.append(entry.path)
                    directories.append(entry.path)
                elif not entry.is_directory and self._is_own_file(relative):
                    self._found.files.append(entry.path)
                else:
                    self._doubtful.append(entry)

    def _judge(self, doubtful: list[FileStatus]) -> None:
        """Decide by the table's metadata about entries without a known name."""
        named = self._learn()
        self._data_file = self._pattern()
        inner: list[str] = []
        for entry in doubtful:
            relative = entry.path[len(self._location) + 1 :]
            if entry.is_directory and self._is_own_directory(relative):
                self._found.directories.append(entry.path)
                inner.append(entry.path)
            elif not entry.is_directory and (entry.path in named or self._is_own_file(relative)):
                self._found.files.append(entry.path)
            else:
                self._found.foreign.append(entry.path)
        self._walk(inner)
        for entry in self._doubtful:
            (self._found.files if entry.path in named else self._found.foreign).append(entry.path)

    def _learn(self) -> set[str]:
        """Learn prefixes and directories of data files from all schemas. Return the files that a version refers to."""
        try:
            store = self._opened()
            for line in all_branches(store)[0]:
                for number in line.schemas.ids():
                    options = CoreOptions(line.schemas.schema(number).options)
                    self._prefixes |= {options.data_file_prefix, options.changelog_file_prefix}
                    self._data_directories |= {options.data_file_directory or ""}
            return needed_files(store).files
        except InterbedError:
            # Entries that are not known are foreign.
            return set()

    def _pattern(self) -> re.Pattern[str]:
        prefixes = "|".join(map(re.escape, sorted(self._prefixes)))
        return re.compile(rf"(?:{prefixes}).*{UUID}-\d+(?:\..+)?", re.DOTALL)

    def _is_own_directory(self, relative: str) -> bool:
        parts = relative.split("/")
        if parts[0] == "branch":
            if len(parts) < 3:
                return len(parts) == 1 or BRANCHES.fullmatch(parts[1]) is not None
            return "/".join(parts[2:]) in OF_BRANCH
        return relative in OF_TABLE or self._is_data_directory(parts)

    def _is_data_directory(self, parts: list[str]) -> bool:
        """Return whether it is a partition, a bucket, or a parent of those."""
        for directory in self._data_directories:
            above = directory.split("/") if directory else []
            if parts == above[: len(parts)]:
                return True
            if above and parts[: len(above)] == above:
                parts = parts[len(above) :]
                break
        return all(map(PARTITION.fullmatch, parts[:-1])) and (
            PARTITION.fullmatch(parts[-1]) is not None or BUCKET.fullmatch(parts[-1]) is not None
        )

    def _is_own_file(self, relative: str) -> bool:
        directory, _, name = relative.rpartition("/")
        if HIDDEN.fullmatch(name):
            return True
        if (checksum := CHECKSUM.fullmatch(name)) is not None:
            name = checksum[1]
        if not directory:
            return name in IN_TABLE
        parts = directory.split("/")
        kinds = OF_TABLE
        if parts[0] == "branch":
            directory, kinds = "/".join(parts[2:]), OF_BRANCH
        if (pattern := kinds.get(directory)) is not None:
            return pattern.fullmatch(name) is not None
        if BUCKET.fullmatch(parts[-1]):
            return self._data_file.fullmatch(name) is not None
        return name == DONE and PARTITION.fullmatch(parts[-1]) is not None


def outside_of(store: FileStore) -> tuple[tuple[str, ...], set[str]]:
    """Return the external paths in schemas of any branch, and the files in them that a version of any branch refers to.

    Versions that can't be read are logged. Raises CorruptFileError, InvalidOptionError and StorageAccessError.
    """
    roots: dict[str, None] = {}
    for line in all_branches(store)[0]:
        for number in line.schemas.ids():
            roots.update(dict.fromkeys(CoreOptions(line.schemas.schema(number).options).external_roots))
    if not roots:
        return (), set()
    needed = needed_files(store)
    for what, error in sorted(needed.unjudged.items()):
        _log.warning("It is unknown which files outside of %s the %s has: %s", store.location, what, error)
    own = store.location.rstrip("/") + "/"
    return tuple(roots), {path for path in needed.files if not path.startswith(own)}
