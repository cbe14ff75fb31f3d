"""Changelogs that outlive their snapshots: `changelog/changelog-<id>`, the JSON of the snapshot that expired.

Of its files only the changelog's are left. `changelog/EARLIEST` and `LATEST` are hints that Java Paimon reads and that
are only believed by a look at the files. Source: documentation page `maintenance/manage-snapshots`, paimon-core's
Changelog and ChangelogManager.
"""

import logging
from collections.abc import Sequence

from interbed.storage.base.errors import CorruptFileError
from interbed.storage.base.fileio.api import FileIO
from interbed.storage.meta.numbered_files import numbers_of
from interbed.storage.meta.paths import TablePaths
from interbed.storage.meta.snapshot.snapshot import Snapshot

_log = logging.getLogger(__name__)
_PREFIX = "changelog-"


class ChangelogManager:
    """The changelogs of one table (of one branch of it) whose snapshots have expired."""

    def __init__(self, file_io: FileIO, paths: TablePaths) -> None:
        self._file_io = file_io
        self._paths = paths
        self._directory = paths.changelog(1).rpartition("/")[0]

    def ids(self) -> list[int]:
        """The ids of the snapshots whose changelogs there are, ascending."""
        names = (s.name for s in self._file_io.list(self._directory) if not s.is_directory)
        return numbers_of(names, _PREFIX)

    def find(self, snapshot_id: int) -> Snapshot | None:
        """The snapshot that a changelog was part of, None when there is no such changelog; raises CorruptFileError."""
        path = self._paths.changelog(snapshot_id)
        try:
            found = Snapshot.from_json(self._file_io.read_bytes(path), source=path)
        except FileNotFoundError:
            return None
        if found.id != snapshot_id:
            raise CorruptFileError(f"{path} holds the changelog of the snapshot {found.id}.")
        return found

    def all(self) -> list[Snapshot]:
        """All of them, ascending; those that expire meanwhile are left out."""
        return [found for found in map(self.find, self.ids()) if found is not None]

    def earliest_id(self) -> int | None:
        """The oldest id; None without changelogs."""
        return min(self.ids(), default=None)

    def add(self, snapshots: Sequence[Snapshot]) -> None:
        """Keep the changelogs of snapshots that are about to go."""
        for snapshot in snapshots:
            self._file_io.overwrite(self._paths.changelog(snapshot.id), snapshot.to_json().encode())
        self._note_ends()

    def delete(self, snapshot_ids: Sequence[int]) -> None:
        """Delete the files of the changelogs, durably, and nothing that they name; raises StorageAccessError."""
        if snapshot_ids:
            for snapshot_id in snapshot_ids:
                self._file_io.delete(self._paths.changelog(snapshot_id))
            self._note_ends()

    def _note_ends(self) -> None:
        ids = self.ids()
        for hint, ends in (("EARLIEST", ids[:1]), ("LATEST", ids[-1:])):
            path = f"{self._directory}/{hint}"
            try:
                if ends:
                    self._file_io.overwrite(path, str(ends[0]).encode(), durable=False)
                else:
                    self._file_io.delete_quietly([path])
            except OSError as error:
                # Hints are optional; a stale one costs its reader a listing.
                _log.warning("Left the hint %s as it is: %s", path, error)
