"""Paths that a table may delete: names that it makes in its directories, and locations that its metadata may name.

`OF_TABLE` and `OF_BRANCH` match the files of interbed and of Java Paimon; `storage.meta.paths` describes each of them.

Metadata may come from an untrusted writer: a manifest names a file's external path, and the plan of a killed expiry
whole paths. Such a file is read from its path. It is deleted only below the table's directory or its external paths,
and never through a symbolic link below one of these directories.
"""

import logging
import os
import re
from collections.abc import Iterable, Iterator
from functools import partial

from interbed.storage.base.errors import InterbedError
from interbed.storage.io.api import FileIO
from interbed.storage.io.parallel import in_parallel
from interbed.storage.io.resolve import normalize_path
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.options.core import CoreOptions
from interbed.storage.version.references import all_branches

UUID = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
HIDDEN = re.compile(r"\..*\.tmp")
CHECKSUM = re.compile(r"\.(.+)\.crc")
"""Hadoop's client writes a checksum file for each file of a local file system."""
BUCKET = re.compile(r"bucket-(?:\d+|postpone)")
PARTITION = re.compile(r"[^=]+=.*", re.DOTALL)
DONE = "_SUCCESS"

_ICEBERG = rf"v\d+\.metadata\.json|version-hint\.text|retire-pending|snap-.+\.avro|{UUID}-m\d+\.avro|.+\.puffin"
"""Metadata for readers of Iceberg."""

_FILES = {
    "schema": r"schema-\d+|\.journal|\.commit-turn",
    "snapshot": r"snapshot-\d+|LATEST|EARLIEST|\.commit-turn|\.expiring|\.expired-files-.*|\.write-.*",
    "changelog": r"changelog-\d+|LATEST|EARLIEST",
    "tag": r"tag-.+|\.guard-.+",
    "tag/tag-success-file": r".+_SUCCESS",
    "consumer": r"consumer-.+",
    "epoch": r"epoch-.+",
    "position": r"position-.+",
    "log": r"LATEST",
    "manifest": rf"(?:manifest|manifest-list|index-manifest)-{UUID}-\d+",
    "index": rf"index-.*{UUID}-\d+",
    "statistics": rf"stat-{UUID}-\d+",
    "service": r"service-.+",
    "metadata": _ICEBERG,
    ".iceberg": _ICEBERG,
}
OF_TABLE = {name: re.compile(pattern, re.DOTALL) for name, pattern in _FILES.items()}
_SHARED = frozenset({"manifest", "index", "statistics", "service", "metadata", ".iceberg"})
OF_BRANCH = {name: pattern for name, pattern in OF_TABLE.items() if name not in _SHARED}
BRANCHES = re.compile(r"branch-.+|\.new-.+|\.deleted-.+", re.DOTALL)
IN_TABLE = frozenset({".dropped", ".metastore-change", DONE})


def branch_files(file_io: FileIO, directory: str) -> tuple[list[str], list[str], list[str]]:
    """Return the files, the directories and the foreign entries of a branch's directory; raises StorageAccessError."""
    files: list[str] = []
    directories: list[str] = []
    foreign: list[str] = []
    level = [directory]
    while level:
        listed = in_parallel(file_io, [partial(file_io.list, path) for path in level])
        level = []
        for entry in (entry for some in listed for entry in some):
            relative = entry.path[len(directory) + 1 :]
            above, _, name = relative.rpartition("/")
            if entry.is_directory and not entry.is_link and relative in OF_BRANCH:
                directories.append(entry.path)
                level.append(entry.path)
            elif not (entry.is_link or entry.is_directory) and (
                HIDDEN.fullmatch(name) or (above in OF_BRANCH and OF_BRANCH[above].fullmatch(name))
            ):
                files.append(entry.path)
            else:
                foreign.append(entry.path)
    return files, directories, foreign


def shortened(paths: Iterable[str], directory: str, most: int = 3) -> str:
    """Return the first of the paths below a directory, for a message: "'a', 'b' and 7 more"."""
    names = sorted(path.removeprefix(f"{directory.rstrip('/')}/") for path in paths)
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(map(repr, names[:most])) + more


_log = logging.getLogger(__name__)


def own_paths(store: FileStore, paths: Iterable[str]) -> list[str]:
    """Return the paths that are below the table's own directories, in their order; log the others."""
    location = store.location.rstrip("/")
    given = list(paths)
    roots = [location]
    if any(not path.startswith(f"{location}/") for path in given):
        roots += _external_roots(store)
    judged = _OwnedDirectories(roots, has_links=store.file_io.capabilities.links)
    own = [path for path in given if judged.holds(path)]
    if len(own) < len(given):
        foreign = sorted(set(given).difference(own))
        _log.warning(
            "Left %s: metadata of the table at %s name them, but they are outside of its directories, or behind a "
            "link. Delete them by hand if they are not needed.",
            shortened(foreign, ""),
            location,
        )
    return own


def _external_roots(store: FileStore) -> Iterator[str]:
    yield from map(normalize_path, store.options.external_roots)
    for line in all_branches(store)[0]:
        for number in line.schemas.ids():
            try:
                yield from map(normalize_path, CoreOptions(line.schemas.schema(number).options).external_roots)
            except InterbedError as error:
                _log.warning("It is unknown which external paths the schema %d names: %s", number, error)


class _OwnedDirectories:
    """Directories with all that is below them, except what is behind links."""

    def __init__(self, roots: Iterable[str], *, has_links: bool) -> None:
        self._roots = dict.fromkeys(root.rstrip("/") for root in roots)
        self._has_links = has_links
        self._judged: dict[str, bool] = {}

    def holds(self, path: str) -> bool:
        """Return whether the path is that of a file below one of them."""
        directory = path.rpartition("/")[0]
        if directory not in self._judged:
            self._judged[directory] = any(self._is_below(directory, root) for root in self._roots)
        return self._judged[directory] and path.rpartition("/")[2] not in ("", ".", "..")

    def _is_below(self, directory: str, root: str) -> bool:
        if directory != root and not directory.startswith(f"{root}/"):
            return False
        inner = directory[len(root) + 1 :]
        if not {".", ".."}.isdisjoint(inner.split("/")):
            return False
        if not self._has_links:
            return True
        return os.path.realpath(directory) == os.path.join(os.path.realpath(root), inner).rstrip("/")
