"""Finding and reading the snapshots of a table (specification page `spec/snapshot`).

`snapshot/LATEST` and `snapshot/EARLIEST` are hints that may be stale or missing: a hint is only believed after a look
at the files, and otherwise the directory is listed. Snapshots that are being expired (snapshot.expiry_mark) are not
there any more, but for those who finish that.
"""

import logging
from collections import OrderedDict
from collections.abc import Callable, Iterator
from threading import Lock

from interbed.storage.base.errors import CorruptFileError, InterbedError, SnapshotNotFoundError
from interbed.storage.base.fileio.api import FileIO
from interbed.storage.meta.numbered_files import numbers_of
from interbed.storage.meta.paths import TablePaths
from interbed.storage.meta.snapshot.expiry_mark import MARK, ExpiryMark, ExpiryMarks
from interbed.storage.meta.snapshot.snapshot import Snapshot

_log = logging.getLogger(__name__)

_PREFIX = "snapshot-"
_CACHED_SNAPSHOTS = 1024
_READ_RETRIES = 5


class SnapshotManager:
    """The snapshots of one table; safe to share between threads.

    `known_latest` is where a catalog keeps the newest id that it knows of; like a hint, it is verified.
    """

    def __init__(
        self, file_io: FileIO, paths: TablePaths, known_latest: Callable[[], int | None] | None = None
    ) -> None:
        self._file_io = file_io
        self._paths = paths
        self._known_latest = known_latest
        self._directory = paths.snapshot(1).rpartition("/")[0]
        self._marks = ExpiryMarks(file_io, paths)
        self._cache: OrderedDict[int, Snapshot] = OrderedDict()
        self._guard = Lock()

    def latest_id(self) -> int | None:
        """The newest snapshot's id; None for a table without snapshots."""
        hints = [self._hint(self._paths.latest_hint)]
        if self._known_latest is not None:
            hints.append(self._known_latest())
        newest = max((h for h in hints if h is not None), default=0)
        if newest > 0 and not self._exists(newest + 1) and self._exists(newest):
            return newest
        return max(self.ids(), default=None)

    def earliest_id(self) -> int | None:
        """The oldest snapshot's id; None for a table without snapshots."""
        hint = self._hint(self._paths.earliest_hint)
        if hint is not None and self._exists(hint) and not self._is_expiring(hint):
            return hint
        return min(self.ids(), default=None)

    def latest(self) -> Snapshot | None:
        """The newest snapshot, read afresh; None for a table without snapshots."""
        for _ in range(_READ_RETRIES):
            newest = self.latest_id()
            if newest is None:
                return None
            try:
                return self._read(newest)
            except FileNotFoundError:
                # Expired or rolled back between the two steps: look again.
                continue
        raise SnapshotNotFoundError(f"The newest snapshot in {self._directory} keeps vanishing while it is read.")

    def snapshot(self, snapshot_id: int) -> Snapshot:
        """The snapshot of that id; raises SnapshotNotFoundError naming those that exist, CorruptFileError."""
        with self._guard:
            cached = self._cache.get(snapshot_id)
        return self.stored(snapshot_id) if cached is None else cached

    def read(self, snapshot_id: int) -> Snapshot:
        """The snapshot of that id as its file is now; raises as `snapshot` does, and for one that is being expired."""
        found = self.stored(snapshot_id)
        if self._is_expiring(snapshot_id):
            raise SnapshotNotFoundError(f"Snapshot {snapshot_id} is being expired; {self._range()}.")
        return found

    def stored(self, snapshot_id: int) -> Snapshot:
        """The snapshot of that id as its file is now, being expired or not; raises as `snapshot` does."""
        try:
            return self._read(snapshot_id)
        except FileNotFoundError:
            raise SnapshotNotFoundError(f"There is no snapshot {snapshot_id}; {self._range()}.") from None

    def is_stored(self, snapshot: Snapshot) -> bool:
        """Whether the snapshot's file holds that snapshot now, and not another one of its id."""
        try:
            return self.stored(snapshot.id).is_same(snapshot)
        except SnapshotNotFoundError:
            return False

    def expiring(self) -> ExpiryMark | None:
        """The mark of the snapshots that are being expired; None without any. Raises CorruptFileError."""
        return self._marks.find()

    def exists(self, snapshot_id: int) -> bool:
        """Whether there is a snapshot of that id now."""
        return self._exists(snapshot_id)

    def ids(self) -> list[int]:
        """All ids, ascending, but for those of snapshots that are being expired."""
        found, is_marked = self._listed()
        mark = self._readable_mark() if is_marked else None
        if mark is None:
            return found
        # What is newest never expires: a mark that covers all is of a table that was rolled back by another program.
        return [number for number in found if not mark.covers(number)] or found

    def stored_ids(self) -> list[int]:
        """The ids of all snapshot files, ascending, those of snapshots that are being expired among them."""
        return self._listed()[0]

    def _listed(self) -> tuple[list[int], bool]:
        names = [s.name for s in self._file_io.list(self._directory) if not s.is_directory]
        return numbers_of(names, _PREFIX), MARK in names

    def all(self) -> list[Snapshot]:
        """All snapshots, ascending by id; those that expire meanwhile are left out."""
        snapshots = []
        for snapshot_id in self.ids():
            try:
                snapshots.append(self.snapshot(snapshot_id))
            except SnapshotNotFoundError:
                continue
        return snapshots

    def by_time_millis(self, time_millis: int) -> Snapshot:
        """The newest snapshot made at that time (milliseconds since the epoch) or before; SnapshotNotFoundError."""
        ids = self.ids()
        low, high = 0, len(ids)
        while low < high:
            middle = (low + high) // 2
            if self.snapshot(ids[middle]).time_millis <= time_millis:
                low = middle + 1
            else:
                high = middle
        if low == 0:
            raise SnapshotNotFoundError(f"No snapshot is as old as {time_millis} ms; {self._range()}.")
        return self.snapshot(ids[low - 1])

    def descending(self, newest: int | None = None) -> Iterator[Snapshot]:
        """Snapshots from the newest (or the id given) down to the oldest that still exists."""
        current = self.latest_id() if newest is None else newest
        while current is not None and current > 0:
            try:
                yield self.snapshot(current)
            except SnapshotNotFoundError:
                return
            current -= 1

    def latest_of_user(self, commit_user: str) -> Snapshot | None:
        """The newest snapshot that the user committed; None when there is none among those that exist."""
        return next((s for s in self.descending() if s.commit_user == commit_user), None)

    def write_hints(self, latest: int) -> None:
        """Note the newest snapshot, and the oldest if that was never noted. Hints are optional: failures are logged."""
        try:
            self._file_io.overwrite(self._paths.latest_hint, str(latest).encode(), durable=False)
            if self._hint(self._paths.earliest_hint) is None:
                earliest = min(self.ids(), default=latest)
                self._file_io.overwrite(self._paths.earliest_hint, str(earliest).encode(), durable=False)
        except OSError as error:
            _log.warning("Left the hints in %s as they are: %s", self._directory, error)

    def note_earliest(self, earliest: int) -> None:
        """Note the oldest snapshot, after those before it are gone; a failure is logged, as hints are optional."""
        self._write_hint(self._paths.earliest_hint, earliest)

    def note_latest(self, latest: int) -> None:
        """Note the newest snapshot, before those after it are taken back."""
        self._write_hint(self._paths.latest_hint, latest)

    def _write_hint(self, path: str, snapshot_id: int) -> None:
        try:
            self._file_io.overwrite(path, str(snapshot_id).encode(), durable=False)
        except OSError as error:
            _log.warning("Left the hint %s as it is: %s", path, error)

    def _read(self, snapshot_id: int) -> Snapshot:
        path = self._paths.snapshot(snapshot_id)
        snapshot = Snapshot.from_json(self._file_io.read_bytes(path), source=path)
        if snapshot.id != snapshot_id:
            raise CorruptFileError(f"{path} holds the snapshot {snapshot.id}.")
        with self._guard:
            known = self._cache.get(snapshot_id)
            if known is not None and known != snapshot:
                # Somebody rolled the table back and went on from there: nothing remembered can be relied on.
                self._cache.clear()
            self._cache[snapshot_id] = snapshot
            self._cache.move_to_end(snapshot_id)
            while len(self._cache) > _CACHED_SNAPSHOTS:
                self._cache.popitem(last=False)
        return snapshot

    def _is_expiring(self, snapshot_id: int) -> bool:
        mark = self._readable_mark()
        return mark is not None and mark.covers(snapshot_id) and snapshot_id not in self.ids()

    def _readable_mark(self) -> ExpiryMark | None:
        """The mark; None for a damaged one, which hides nothing: snapshots whose files are there are whole."""
        try:
            return self.expiring()
        except CorruptFileError as error:
            _log.warning("%s", error)
            return None

    def _exists(self, snapshot_id: int) -> bool:
        return self._file_io.exists(self._paths.snapshot(snapshot_id))

    def _hint(self, path: str) -> int | None:
        try:
            text = self._file_io.read_bytes(path).decode()
            return int(text)
        except (OSError, InterbedError, ValueError):
            # A hint that is missing, torn or unreadable is no hint; the files themselves decide.
            return None

    def _range(self) -> str:
        ids = self.ids()
        return f"the table has the snapshots {ids[0]} to {ids[-1]}" if ids else "the table has no snapshots"
