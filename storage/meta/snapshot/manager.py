"""Find and read the snapshots of a table, and the changelogs that outlive them (specification page `spec/snapshot`).

`snapshot/LATEST` and `snapshot/EARLIEST` are hints that may be stale or missing. A hint is verified by the files;
otherwise the directory is listed. Snapshots that are being expired (snapshot.expiry_mark) count as missing, except for
a process that finishes the expiry.

`changelog/changelog-<id>` is the JSON of the snapshot that expired; of its files only the changelog's are left.
`changelog/EARLIEST` and `LATEST` are hints for Java Paimon. Source: documentation page `maintenance/manage-snapshots`,
paimon-core's Changelog and ChangelogManager.
"""

import logging
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from threading import Lock

from interbed.storage.base.errors import CorruptFileError, InterbedError, SnapshotNotFoundError
from interbed.storage.io.api import FileIO
from interbed.storage.io.parallel import both, in_parallel
from interbed.storage.meta.paths import TablePaths, numbers_of
from interbed.storage.meta.snapshot.expiry_mark import MARK, ExpiryMark, ExpiryMarks
from interbed.storage.meta.snapshot.snapshot import FIRST_SNAPSHOT_ID, Snapshot

_log = logging.getLogger(__name__)

_PREFIX = "snapshot-"
_CACHED_SNAPSHOTS = 1024
_READ_RETRIES = 5


class SnapshotManager:
    """Snapshots of one table. Thread-safe.

    `known_latest` returns the newest id that a catalog knows, `noted` is the content of the hint if it was read
    already; like a hint that is read, both are verified.
    """

    def __init__(
        self,
        file_io: FileIO,
        paths: TablePaths,
        known_latest: Callable[[], int | None] | None = None,
        *,
        noted: int | None = None,
    ) -> None:
        self._file_io = file_io
        self._paths = paths
        self._known_latest = known_latest
        self._directory = paths.snapshot(1).rpartition("/")[0]
        self._marks = ExpiryMarks(file_io, paths)
        self._cache: OrderedDict[int, Snapshot] = OrderedDict()
        self._guard = Lock()
        self._newest_id: int | None = noted
        self._newest_content: bytes | None = None
        self._oldest_id: int | None = None
        self._has_earliest_hint = False

    def latest_id(self) -> int | None:
        """Return the newest snapshot's id; None for a table without snapshots."""
        found = self._newest_by_hints()
        if found is not None:
            return found[0]
        self._newest_id, self._newest_content = self._find_by_listing(self._newest_of), None
        return self._newest_id

    def earliest_id(self) -> int | None:
        """Return the oldest snapshot's id; None for a table without snapshots."""
        hint = self._hint(self._paths.earliest_hint)
        if hint is None or not self._exists(hint) or self._is_expiring(hint):
            hint = self._find_by_listing(lambda ids: next((i for i in ids if self._is_there(i)), None))
        self._oldest_id = hint
        return hint

    def remembered_ids(self) -> tuple[int, int] | None:
        """Return the oldest and the newest id of the last look-up; None when unknown. No request is made."""
        oldest, newest = self._oldest_id, self._newest_id
        return None if oldest is None or newest is None or oldest > newest else (oldest, newest)

    def latest(self) -> Snapshot | None:
        """Return the newest snapshot, without the cache; None for a table without snapshots.

        In an object store this takes two parallel requests if the newest snapshot has not changed; no listing while
        hints are valid.
        """
        found = self._newest_by_hints()
        if found is not None:
            return self._parsed(*found)
        for _ in range(_READ_RETRIES):
            newest = self._find_by_listing(self._newest_of)
            if newest is None:
                return None
            try:
                snapshot = self._read(newest)
            except FileNotFoundError:
                # It was expired or rolled back between the two steps: repeat.
                continue
            self._newest_id, self._newest_content = newest, None
            return snapshot
        raise SnapshotNotFoundError(f"The newest snapshot in {self._directory} keeps vanishing while it is read.")

    def standing(self) -> Snapshot | None:
        """Return the snapshot of the last look-up of the newest, without the cache; None when it is missing or unknown.

        It takes one request. A writer builds on it that finds out by creating the next snapshot whether there is a
        newer one.
        """
        newest = self._newest_id
        found = None if newest is None else self._content(newest)
        if newest is None or found is None or not self._is_as_known(newest, found):
            return None
        return self._parsed(newest, found)

    def snapshot(self, snapshot_id: int) -> Snapshot:
        """Return the snapshot of that id; raises SnapshotNotFoundError naming the existing ones, CorruptFileError."""
        with self._guard:
            cached = self._cache.get(snapshot_id)
        return self.stored(snapshot_id) if cached is None else cached

    def read(self, snapshot_id: int) -> Snapshot:
        """Return the snapshot of that id from its file; raises as `snapshot` does, and for an expiring one."""
        found = self.stored(snapshot_id)
        if self._is_expiring(snapshot_id):
            raise SnapshotNotFoundError(f"Snapshot {snapshot_id} is being expired; {self._range()}.")
        return found

    def stored(self, snapshot_id: int) -> Snapshot:
        """Return the snapshot of that id from its file, being expired or not; raises as `snapshot` does."""
        try:
            return self._read(snapshot_id)
        except FileNotFoundError:
            raise SnapshotNotFoundError(f"There is no snapshot {snapshot_id}; {self._range()}.") from None

    def is_stored(self, snapshot: Snapshot) -> bool:
        """Return whether the snapshot's file holds that snapshot now, and not another one of its id."""
        try:
            return self.stored(snapshot.id).is_same(snapshot)
        except SnapshotNotFoundError:
            return False

    def expiring(self) -> ExpiryMark | None:
        """Return the mark of the snapshots that are being expired; None without any. Raises CorruptFileError."""
        return self._marks.find()

    def exists(self, snapshot_id: int) -> bool:
        """Return whether there is a snapshot of that id now."""
        return self._exists(snapshot_id)

    def ids(self) -> list[int]:
        """Return all ids, ascending, without those of snapshots that are being expired."""
        found, is_marked = self._listed()
        mark = self._readable_mark() if is_marked else None
        if mark is None:
            return found
        # The newest snapshot never expires: a mark that covers all is left from a rollback by another program.
        return [number for number in found if not mark.covers(number)] or found

    def stored_ids(self) -> list[int]:
        """Return the ids of all snapshot files, ascending, with those of snapshots that are being expired."""
        return self._listed()[0]

    def _newest_by_hints(self) -> tuple[int, bytes] | None:
        """Return the id of the newest snapshot and the content of its file; None where no hint names it."""
        remembered = self._newest_id
        for hint in self._hints():
            found = self._content_of_newest(hint)
            if found is not None and (hint != remembered or self._is_as_known(hint, found)):
                self._newest_id, self._newest_content = hint, found
                return hint, found
        return None

    def _find_by_listing(self, find: Callable[[list[int]], int | None]) -> int | None:
        """Return the result of `find` for the listed ids; None for a table without snapshots."""
        before: list[int] | None = None
        for _ in range(_READ_RETRIES):
            listed = self.ids()
            found = find(listed)
            # All listed snapshots may have expired before the search. An unchanged listing shows deleted ones.
            if found is not None or not listed or listed == before:
                return found
            before = listed
        raise SnapshotNotFoundError(f"The snapshots in {self._directory} keep vanishing while they are looked for.")

    def _is_as_known(self, snapshot_id: int, content: bytes) -> bool:
        """Return whether a snapshot is the same as when it was last read, if it was.

        Otherwise the history was rolled back, or the id was used again, and the cached id is not that of the newest.
        """
        if self._newest_content is not None:
            return self._newest_content == content
        with self._guard:
            known = self._cache.get(snapshot_id)
        if known is None:
            return True
        try:
            return known == Snapshot.from_json(content, source=self._paths.snapshot(snapshot_id))
        except CorruptFileError:
            return False

    def _newest_of(self, listed: list[int]) -> int | None:
        """Return the newest snapshot. A listing may lack it, and may have deleted ones."""
        newest = next((number for number in reversed(listed) if self._is_there(number)), 0)
        is_far = self._file_io.capabilities.slow_requests
        while True:
            content = self._content(newest + 1) if is_far else None
            if content is None and (is_far or not self._exists(newest + 1)):
                return newest or None
            newest += 1
            if content is not None and not self._is_whole(newest, content):
                # Its reader gets the error; a gateway may return such content for any id.
                return newest

    def _is_there(self, snapshot_id: int) -> bool:
        # In an object store a check for existence costs as much as reading.
        if self._file_io.capabilities.slow_requests:
            return self._content(snapshot_id) is not None
        return self._exists(snapshot_id)

    def _is_whole(self, snapshot_id: int, content: bytes) -> bool:
        """Return whether the content is that of the snapshot's file."""
        try:
            self._parsed(snapshot_id, content)
        except CorruptFileError:
            return False
        return True

    def _listed(self) -> tuple[list[int], bool]:
        names = [s.name for s in self._file_io.list(self._directory) if not s.is_directory]
        return numbers_of(names, _PREFIX), MARK in names

    def all(self) -> list[Snapshot]:
        """Return all snapshots, ascending by id; those that expire meanwhile are left out."""
        snapshots = []
        for snapshot_id in self.ids():
            try:
                snapshots.append(self.snapshot(snapshot_id))
            except SnapshotNotFoundError:
                continue
        return snapshots

    def by_time_millis(self, time_millis: int) -> Snapshot:
        """Return the newest snapshot made at that time (milliseconds since the epoch) or before.

        Raises SnapshotNotFoundError.
        """
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
        """Yield snapshots from the newest (or the id given) down to the oldest that still exists."""
        current = self.latest_id() if newest is None else newest
        while current is not None and current > 0:
            try:
                yield self.snapshot(current)
            except SnapshotNotFoundError:
                return
            current -= 1

    def latest_of_user(self, commit_user: str) -> Snapshot | None:
        """Return the newest existing snapshot that the user committed; None without any."""
        return next((s for s in self.descending() if s.commit_user == commit_user), None)

    def noted_latest(self) -> int | None:
        """Return the id in the hint of the newest snapshot; None without a readable one."""
        noted = self._hint(self._paths.latest_hint)
        return noted if noted is not None and noted > 0 else None

    def write_hints(self, latest: int) -> None:
        """Write the hint of the newest snapshot, and that of the oldest if it is missing. Failures are logged."""
        self._newest_id, self._newest_content = latest, None
        content = str(latest).encode()
        try:
            if self._has_earliest_hint:
                self._file_io.overwrite(self._paths.latest_hint, content, durable=False)
                return
            note_latest = partial(self._file_io.overwrite, self._paths.latest_hint, content, durable=False)
            _, noted = both(self._file_io, note_latest, partial(self._hint, self._paths.earliest_hint))
            if noted is None:
                if latest == FIRST_SNAPSHOT_ID:
                    # The first snapshot of all is the oldest, and nothing of the table can be due yet.
                    earliest = self._oldest_id = latest
                else:
                    earliest = min(self.ids(), default=latest)
                self._file_io.overwrite(self._paths.earliest_hint, str(earliest).encode(), durable=False)
            self._has_earliest_hint = self._file_io.capabilities.slow_requests
        except OSError as error:
            _log.warning("Left the hints in %s as they are: %s", self._directory, error)

    def note_earliest(self, earliest: int) -> None:
        """Write the hint of the oldest snapshot, after those before it are deleted; a failure is logged."""
        self._write_hint(self._paths.earliest_hint, earliest)

    def note_latest(self, latest: int) -> None:
        """Write the hint of the newest snapshot, before those after it are withdrawn."""
        self._write_hint(self._paths.latest_hint, latest)

    def _write_hint(self, path: str, snapshot_id: int) -> None:
        try:
            self._file_io.overwrite(path, str(snapshot_id).encode(), durable=False)
        except OSError as error:
            _log.warning("Left the hint %s as it is: %s", path, error)

    def _hints(self) -> Iterator[int]:
        """Yield ids that may be that of the newest snapshot; each but the first takes a request."""
        known = [self._newest_id, None if self._known_latest is None else self._known_latest()]
        first = max((i for i in known if i is not None), default=0)
        if first > 0:
            yield first
        noted = self.noted_latest()
        if noted is not None and noted != first:
            yield noted

    def _content_of_newest(self, snapshot_id: int) -> bytes | None:
        """Return the content of the snapshot's file; None when it is missing, or the next one exists."""
        # Keep this order: after a delay in between the result is the old content, not that of a replacement.
        if not self._file_io.capabilities.slow_requests:
            found = self._content(snapshot_id)
            return None if found is None or self._exists(snapshot_id + 1) else found
        steps = [partial(self._content, i) for i in (snapshot_id, snapshot_id + 1)]
        found, following = in_parallel(self._file_io, steps)
        return found if following is None else None

    def _content(self, snapshot_id: int) -> bytes | None:
        try:
            return self._file_io.read_bytes(self._paths.snapshot(snapshot_id))
        except FileNotFoundError:
            return None

    def _read(self, snapshot_id: int) -> Snapshot:
        return self._parsed(snapshot_id, self._file_io.read_bytes(self._paths.snapshot(snapshot_id)))

    def _parsed(self, snapshot_id: int, content: bytes) -> Snapshot:
        path = self._paths.snapshot(snapshot_id)
        snapshot = Snapshot.from_json(content, source=path)
        if snapshot.id != snapshot_id:
            raise CorruptFileError(f"{path} holds the snapshot {snapshot.id}.")
        with self._guard:
            known = self._cache.get(snapshot_id)
            if known is not None and known != snapshot:
                # The table was rolled back and continued from there: nothing in the cache is reliable.
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
        """Return the mark; None for a damaged one, which hides nothing: snapshots whose files exist are complete."""
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
            # A hint that is missing, torn or unreadable is ignored; the files decide.
            return None

    def _range(self) -> str:
        ids = self.ids()
        return f"the table has the snapshots {ids[0]} to {ids[-1]}" if ids else "the table has no snapshots"


_log = logging.getLogger(__name__)
_CHANGELOG_PREFIX = "changelog-"


class ChangelogManager:
    """Changelogs of one table (of one branch of it) whose snapshots have expired."""

    def __init__(self, file_io: FileIO, paths: TablePaths) -> None:
        self._file_io = file_io
        self._paths = paths
        self._directory = paths.changelog(1).rpartition("/")[0]

    def ids(self) -> list[int]:
        """Return the ids of the snapshots that have a changelog, ascending."""
        names = (s.name for s in self._file_io.list(self._directory) if not s.is_directory)
        return numbers_of(names, _CHANGELOG_PREFIX)

    def find(self, snapshot_id: int) -> Snapshot | None:
        """Return the snapshot of a changelog, None without such a changelog; raises CorruptFileError."""
        path = self._paths.changelog(snapshot_id)
        try:
            found = Snapshot.from_json(self._file_io.read_bytes(path), source=path)
        except FileNotFoundError:
            return None
        if found.id != snapshot_id:
            raise CorruptFileError(f"{path} holds the changelog of the snapshot {found.id}.")
        return found

    def all(self) -> list[Snapshot]:
        """Return all changelogs, ascending; those that expire meanwhile are left out."""
        return [found for found in map(self.find, self.ids()) if found is not None]

    def earliest_id(self) -> int | None:
        """Return the oldest id; None without changelogs."""
        return min(self.ids(), default=None)

    def add(self, snapshots: Sequence[Snapshot]) -> None:
        """Keep the changelogs of snapshots that are about to be deleted."""
        for snapshot in snapshots:
            self._file_io.overwrite(self._paths.changelog(snapshot.id), snapshot.to_json().encode())
        self._note_ends()

    def delete(self, snapshot_ids: Sequence[int]) -> None:
        """Delete the files of the changelogs, durably, but not the files that they refer to.

        Raises StorageAccessError.
        """
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
