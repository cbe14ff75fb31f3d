"""Files that a snapshot refers to, as paths; they may be deleted when no snapshot, tag or branch needs them any more.

A process that was killed while it deleted a snapshot's files leaves a snapshot with missing manifests. For files to
delete such manifests count as empty; for files to keep they are an error. A changelog is deleted with its snapshot,
also when a tag keeps the rows, unless changelogs outlive snapshots. Source: paimon-core's FileDeletionBase.
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress

from interbed.storage.base.errors import CorruptFileError
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.manifest.entry import FileKind, ManifestEntry, merge_entries
from interbed.storage.meta.manifest.index_manifest import read_index_manifest
from interbed.storage.meta.snapshot.snapshot import Snapshot
from interbed.storage.scan.manifest_reader import ManifestReader


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
