"""Histories that share a table's files, the files that their snapshots need, and the paths that the table may delete.

Files that a snapshot refers to may be deleted when no snapshot, tag or branch needs them any more. A process that was
killed while it deleted a snapshot's files leaves a snapshot with missing manifests. For files to delete such manifests
count as empty; for files to keep they are an error. A changelog is deleted with its snapshot, also when a tag keeps the
rows, unless changelogs outlive snapshots. Source: paimon-core's FileDeletionBase.

Two histories share files where one branched off from the other, where one was forwarded to the other, and where one was
merged into the other. They share the metadata of snapshots that both have. Data files enter a history with its oldest
snapshot and with the additions of later ones, so these and its tags together name every file that it needs.

A branch exists when it has the first schema: its creation writes it last, and its deletion deletes it first.

Metadata may come from an untrusted writer: a manifest names a file's external path, and the plan of a killed expiry
whole paths. Such a file is read from its path. It is deleted only below the table's directory or its external paths,
and never through a symbolic link below one of these directories. `OF_TABLE` and `OF_BRANCH` match the names of the
files of interbed and of Java Paimon; `storage.meta.paths` describes each of them.
"""

import logging
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

from interbed.storage.base.errors import CorruptFileError, InterbedError
from interbed.storage.io.api import FileIO
from interbed.storage.io.parallel import in_parallel
from interbed.storage.io.resolve import normalize_path
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.manifest.entry import FileKind, ManifestEntry, merge_entries
from interbed.storage.meta.manifest.index_manifest import read_index_manifest
from interbed.storage.meta.options.core import CoreOptions
from interbed.storage.meta.paths import MAIN_BRANCH
from interbed.storage.meta.snapshot.snapshot import Snapshot
from interbed.storage.meta.snapshot.tag import TagManager
from interbed.storage.scan.manifest_reader import ManifestReader

_log = logging.getLogger(__name__)

_PREFIX = "branch-"

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


def branch_names(store: FileStore) -> list[str]:
    """Return the names of the table's complete branches but the main one, sorted."""
    return [name for name, is_whole in _directories(store).items() if is_whole]


def half_branches(store: FileStore) -> list[str]:
    """Return the names of directories of branches whose creation or deletion was not finished."""
    return [name for name, is_whole in _directories(store).items() if not is_whole]


def _directories(store: FileStore) -> dict[str, bool]:
    directory = store.paths.branch_directory("x").rpartition("/")[0]
    found = sorted(s.name for s in store.file_io.list(directory) if s.is_directory and s.name.startswith(_PREFIX))
    return {name.removeprefix(_PREFIX): store.file_io.exists(f"{directory}/{name}/schema/schema-0") for name in found}


def place(line: FileStore) -> str:
    """Return the prefix of a version's name in messages: "branch x: ", and nothing for the main branch."""
    return "" if line.paths.branch == MAIN_BRANCH else f"branch {line.paths.branch}: "


@dataclass(slots=True)
class KeptVersions:
    """Versions whose files must stay, and the errors of versions whose files are unknown, by name.

    Of the versions in `later` the added data files must stay, of those in `with_changelog` also the changelog.
    """

    snapshots: list[Snapshot] = field(default_factory=list)
    with_changelog: list[Snapshot] = field(default_factory=list)
    later: list[Snapshot] = field(default_factory=list)
    unjudged: dict[str, InterbedError] = field(default_factory=dict)

    def unjudged_in(self, line: FileStore) -> dict[str, InterbedError]:
        """Return the errors of one history, by names that include its branch."""
        return {place(line) + name: error for name, error in self.unjudged.items()}


def all_branches(store: FileStore) -> tuple[list[FileStore], dict[str, InterbedError]]:
    """Return the table on each of its branches, main first, and the errors of branches that can't be opened."""
    lines = [store.on_branch(MAIN_BRANCH)]
    damaged: dict[str, InterbedError] = {}
    for name in branch_names(store):
        try:
            lines.append(store.on_branch(name))
        except LookupError:
            # The branch was deleted since it was listed.
            continue
        except InterbedError as error:
            damaged[f"branch {name}"] = error
    return lines, damaged


def tagged(line: FileStore) -> KeptVersions:
    """Return the snapshots that the history's tags and guards keep, by id."""
    manager = TagManager(line.file_io, line.paths)
    # Read guards first: a guard that is deleted in between has become a tag.
    guards, bad_guards = manager.guarded()
    tags, damaged = manager.judged()
    return KeptVersions(
        snapshots=sorted([*guards, *(tag.snapshot for tag in tags)], key=lambda s: s.id),
        unjudged={f"tag {name}": error for name, error in {**bad_guards, **damaged}.items()},
    )


def roots_of_others(store: FileStore, first: int, last: int) -> KeptVersions:
    """Return the snapshots that other branches need of this history's snapshots from `first` to `last`.

    They name the files that these branches need.
    """
    kept = KeptVersions()
    names = [MAIN_BRANCH, *branch_names(store)]
    if names == [store.paths.branch]:
        return kept
    lines, kept.unjudged = all_branches(store)
    for line in lines:
        if line.paths.branch == store.paths.branch:
            continue
        try:
            _add_shared(kept, line, store, first, last)
        except InterbedError as error:
            kept.unjudged[f"branch {line.paths.branch}"] = error
        tags = tagged(line)
        kept.snapshots += tags.snapshots
        kept.unjudged.update(tags.unjudged_in(line))
    return kept


def _add_shared(kept: KeptVersions, line: FileStore, store: FileStore, first: int, last: int) -> None:
    # Snapshots that are being expired still count: their files must stay until that is over.
    for position, number in enumerate(line.snapshots.stored_ids()):
        found = line.snapshots.stored(number)
        if position == 0:
            # Its changelog belongs to the history that it began in.
            kept.snapshots.append(found)
        elif first <= number <= last and (
            not store.snapshots.exists(number) or store.snapshots.stored(number).is_same(found)
        ):
            kept.snapshots.append(found)
            kept.with_changelog.append(found)
        else:
            kept.later.append(found)


class References:
    """Files of the snapshots of one table, on any of its branches; nothing is cached."""

    def __init__(self, store: FileStore) -> None:
        self._store = store
        self._reader = ManifestReader(store.file_io, store.paths)

    def live_data(self, snapshot: Snapshot) -> set[str]:
        """Return the data files that a read of the snapshot needs, with their extra files; raises CorruptFileError."""
        return self._paths(merge_entries(self._reader.entries(self._reader.data(snapshot))))

    def deleted_data(self, snapshot: Snapshot) -> set[str]:
        """Return the data files that the snapshot deleted; none when that is no longer known.

        A file that moves to another level is deleted and added by the same snapshot, and stays.
        """
        deleted: set[str] = set()
        try:
            for entry in self._reader.entries(self._reader.delta(snapshot)):
                change = self._paths([entry])
                deleted = deleted | change if entry.kind is FileKind.DELETE else deleted - change
        except CorruptFileError:
            return set()
        return deleted

    def added_data(self, snapshot: Snapshot) -> set[str]:
        """Return the data files that the snapshot added; raises CorruptFileError."""
        entries = self._reader.entries(self._reader.delta(snapshot))
        return self._paths(entry for entry in entries if entry.kind is FileKind.ADD)

    def changelog_data(self, snapshot: Snapshot) -> set[str]:
        """Return the changelog files of the snapshot, as far as they are known."""
        found: set[str] = set()
        try:
            manifests = self._reader.changelog(snapshot)
        except CorruptFileError:
            return found
        for manifest in manifests:
            with suppress(CorruptFileError):
                found |= self._paths(self._reader.manifest(manifest))
        return found

    def changelog_metadata(self, snapshot: Snapshot) -> set[str]:
        """Return the changelog's manifest list and manifests; raises CorruptFileError when they can't be read."""
        if snapshot.changelog_manifest_list is None:
            return set()
        manifests = self._reader.changelog(snapshot)
        names = [snapshot.changelog_manifest_list, *(manifest.file_name for manifest in manifests)]
        return {self._store.paths.manifest(name) for name in names}

    def named_changelog_data(self, snapshot: Snapshot) -> set[str]:
        """Return every changelog file of the snapshot; raises CorruptFileError when a manifest can't be read."""
        return set().union(*(self._paths(self._reader.manifest(m)) for m in self._reader.changelog(snapshot)))

    def named_data(self, snapshot: Snapshot, *, changelog: bool, known: set[str]) -> Iterator[str]:
        """Yield every data file (with `changelog` also changelog file) in a manifest of the snapshot, deleted or not.

        Manifests in `known` are skipped, and those read are added to it. Raises CorruptFileError.
        """
        for manifest in [*self._reader.data(snapshot), *(self._reader.changelog(snapshot) if changelog else ())]:
            if manifest.file_name not in known:
                known.add(manifest.file_name)
                yield from self._paths(self._reader.manifest(manifest))

    def metadata(self, snapshot: Snapshot, *, changelog: bool = True, lenient: bool = False) -> set[str]:
        """Return the manifest lists, manifests, the index manifest, index files and statistics.

        With `lenient` unreadable files count as empty; otherwise CorruptFileError is raised.
        """
        paths = self._store.paths
        lists = [
            (snapshot.base_manifest_list, self._reader.base),
            (snapshot.delta_manifest_list, self._reader.delta),
        ]
        if changelog:
            lists.append((snapshot.changelog_manifest_list or "", self._reader.changelog))
        found: set[str] = set()
        for name, read in lists:
            if not name:
                continue
            found.add(paths.manifest(name))
            try:
                found |= {paths.manifest(manifest.file_name) for manifest in read(snapshot)}
            except CorruptFileError:
                if not lenient:
                    raise
        if snapshot.index_manifest is not None:
            found |= self._index_files(snapshot.index_manifest, lenient=lenient)
        if snapshot.statistics is not None:
            found.add(paths.statistics(snapshot.statistics))
        return found

    def _index_files(self, name: str, *, lenient: bool) -> set[str]:
        found = {self._store.paths.manifest(name)}
        try:
            for entry in read_index_manifest(self._reader.content(name), source=self._reader.path(name)):
                found.add(self._store.index_path(entry.bucket_id, entry.file))
        except CorruptFileError:
            if not lenient:
                raise
        return found

    def _paths(self, entries: Iterable[ManifestEntry]) -> set[str]:
        found: set[str] = set()
        for entry in entries:
            directory = self._store.paths.bucket_directory(entry.bucket_id)
            found.update(entry.file.paths_in(directory))
        return found


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
