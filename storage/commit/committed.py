"""Commits already made: those of a user, so that nothing is committed twice, and those of this process, for a report.

A command that is interrupted by Ctrl-C prints the report.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum, auto

from interbed.storage.base.errors import SnapshotNotFoundError
from interbed.storage.commit.changes import record_delta
from interbed.storage.commit.snapshot_builder import SnapshotFacts
from interbed.storage.meta.manifest.entry import FileIdentifier, FileKind, ManifestEntry, merge_entries
from interbed.storage.meta.snapshot.manager import SnapshotManager
from interbed.storage.meta.snapshot.snapshot import BATCH_COMMIT_IDENTIFIER, CommitKind, Snapshot
from interbed.storage.scan.manifest_reader import ManifestReader

_MANY_SNAPSHOTS = 100
_LOOKS = 10
_CLOCK_MARGIN_MILLIS = 16 * 3_600_000
"""Creation times of data files have an unknown time zone (up to 14 hours off) and come from another machine's clock."""


class SnapshotOutcome(Enum):
    """State of a snapshot when its writer looks it up after its creation.

    - IN_HISTORY: it is part of the table's history.
    - WITHDRAWN: it was withdrawn together with its base snapshot.
    - LATE: the history had gone on beyond its id, under which an earlier snapshot has expired.
    - UNKNOWN: its fate can no longer be determined.
    """

    IN_HISTORY = auto()
    WITHDRAWN = auto()
    LATE = auto()
    UNKNOWN = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class PartIdentity:
    """Marks by which a pending snapshot is recognised: its facts and the data files that it adds.

    Changelog files take their place when it adds no data files.
    """

    facts: SnapshotFacts
    added: frozenset[FileIdentifier]
    changelog_files: frozenset[FileIdentifier]
    oldest_millis: int | None
    records: int | None
    """Delta record count of the snapshot; None where it depends on the base snapshot."""

    @staticmethod
    def of(
        facts: SnapshotFacts, entries: Iterable[ManifestEntry], changelog: Sequence[ManifestEntry] = ()
    ) -> "PartIdentity":
        """Return the identity of a snapshot with these entries."""
        entries = list(entries)
        added = [e for e in entries if e.kind is FileKind.ADD]
        changelog_files = changelog if not added else ()
        return PartIdentity(
            facts=facts,
            added=frozenset(e.identifier for e in added),
            changelog_files=frozenset(e.identifier for e in changelog_files),
            oldest_millis=min((e.file.creation_time_millis for e in (*added, *changelog_files)), default=None),
            records=None if facts.kind is CommitKind.OVERWRITE else record_delta(entries),
        )


class CommittedParts:
    """Look-up of the snapshots of one user. With `new_user` there are none before the first commit."""

    def __init__(
        self, reader: ManifestReader, snapshots: SnapshotManager, user: str, *, new_user: bool = False
    ) -> None:
        self._reader = reader
        self._snapshots = snapshots
        self._user = user
        self._has_no_commits = new_user
        # The highest identifier that the user is known to have committed, without batch commits.
        self._last: int | None = None
        self.is_unknown = False
        """Whether a commit ended in an unknown state. After that any file of the user may be in the table."""

    def find(self, parts: Sequence[PartIdentity]) -> dict[CommitKind, int]:
        """Return the ids of the parts' existing snapshots, by kind.

        The parts share an identifier and differ in kind.
        """
        if not parts or self._has_no_commits:
            return {}
        identifier = parts[0].facts.identifier
        batch = identifier == BATCH_COMMIT_IDENTIFIER
        if not batch and not self.is_unknown and self._last is not None and identifier > self._last:
            return {}
        times = [p.oldest_millis for p in parts if p.oldest_millis is not None]
        if batch and not times:
            return {}
        horizon = min(times, default=0) - _CLOCK_MARGIN_MILLIS
        found: dict[CommitKind, int] = {}
        for snapshot in self._snapshots.descending():
            if batch and snapshot.time_millis < horizon:
                break
            if snapshot.commit_user != self._user:
                continue
            if not batch:
                self.note(snapshot.commit_identifier)
                # Identifiers of a user ascend.
                if snapshot.commit_identifier < identifier:
                    break
            for part in parts:
                if part.facts.kind not in found and self._matches(snapshot, part):
                    found[part.facts.kind] = snapshot.id
            if len(found) == len(parts):
                break
        return found

    def since(self, previous: Snapshot | None, latest: Snapshot | None, part: PartIdentity) -> int | None:
        """Return the part's snapshot among those after `previous` up to `latest`.

        An attempt that seemed to fail may have created it.
        """
        if latest is None:
            return None
        first = 1 if previous is None else previous.id + 1
        if latest.id - first > _MANY_SNAPSHOTS:
            # Most of these snapshots may have expired.
            first = max(first, self._snapshots.earliest_id() or first)
        for snapshot_id in range(first, latest.id + 1):
            try:
                # Bypass the cache, which may hold a snapshot that was withdrawn.
                snapshot = latest if snapshot_id == latest.id else self._snapshots.stored(snapshot_id)
            except SnapshotNotFoundError:
                continue
            if self._matches(snapshot, part):
                return snapshot_id
        return None

    def outcome(
        self, snapshot: Snapshot, delta: Sequence[ManifestEntry], manifests: AbstractSet[str]
    ) -> SnapshotOutcome:
        """Return whether a snapshot that was just created is part of the table's history.

        Its base snapshot is missing, or it is the first snapshot. `delta` are its changes, `manifests` the names of the
        manifests that hold them. Raises CorruptFileError and StorageAccessError.
        """
        for _ in range(_LOOKS):
            try:
                return self._look_up_outcome(snapshot, delta, manifests)
            except SnapshotNotFoundError:
                # A snapshot that was listed was deleted since.
                continue
        return SnapshotOutcome.UNKNOWN

    def _look_up_outcome(
        self, snapshot: Snapshot, delta: Sequence[ManifestEntry], manifests: AbstractSet[str]
    ) -> SnapshotOutcome:
        """Return the outcome; raises SnapshotNotFoundError when snapshots expire during the look-up."""
        snapshots = self._snapshots
        ids, hinted = snapshots.stored_ids(), snapshots.noted_latest()
        if hinted is not None and hinted > max(ids, default=0) and snapshots.exists(hinted):
            # The listing is stale.
            ids.append(hinted)
        if ids == [snapshot.id]:
            return SnapshotOutcome.IN_HISTORY
        try:
            following = snapshots.stored(snapshot.id + 1)
        except SnapshotNotFoundError:
            following = None
        if following is not None and self._is_built_on(following, delta, manifests):
            return SnapshotOutcome.IN_HISTORY
        # The oldest snapshot expires first: where older snapshots are left, newer ones were withdrawn, not expired.
        is_withdrawn = any(map(snapshots.exists, ids[: bisect_left(ids, snapshot.id)]))
        if following is not None:
            return SnapshotOutcome.WITHDRAWN if is_withdrawn else SnapshotOutcome.LATE
        if snapshots.is_stored(snapshot):
            newer = ids[bisect_right(ids, snapshot.id) :]
            if newer:
                # Another snapshot had this id, and those that are there follow from it.
                snapshots.stored(newer[-1])
                return SnapshotOutcome.WITHDRAWN if is_withdrawn else SnapshotOutcome.LATE
            return SnapshotOutcome.WITHDRAWN if is_withdrawn else SnapshotOutcome.IN_HISTORY
        # It was deleted together with others.
        ids = snapshots.stored_ids()
        newer = ids[bisect_right(ids, snapshot.id) :]
        if not newer:
            return SnapshotOutcome.WITHDRAWN
        live = merge_entries(self._reader.entries(self._reader.data(snapshots.stored(newer[0]))))
        added = {e.identifier for e in delta if e.kind is FileKind.ADD}
        if added and added <= {e.identifier for e in live}:
            return SnapshotOutcome.IN_HISTORY
        return SnapshotOutcome.WITHDRAWN if len(newer) < len(ids) else SnapshotOutcome.UNKNOWN

    def _is_built_on(self, following: Snapshot, delta: Sequence[ManifestEntry], manifests: AbstractSet[str]) -> bool:
        """Return whether the next snapshot includes the changes of this one."""
        taken = self._reader.base(following)
        if manifests & {m.file_name for m in taken}:
            return True
        # Manifests may have been merged.
        live = {e.identifier for e in merge_entries(self._reader.entries(taken))}
        return bool(delta) and all((e.identifier in live) == (e.kind is FileKind.ADD) for e in delta)

    def note(self, identifier: int) -> None:
        """Record that the user committed the identifier."""
        self._has_no_commits = False
        if identifier != BATCH_COMMIT_IDENTIFIER:
            self._last = identifier if self._last is None else max(self._last, identifier)

    def unknown(self) -> None:
        """Record that a commit ended in an unknown state."""
        self._has_no_commits = False
        self.is_unknown = True

    def _matches(self, snapshot: Snapshot, part: PartIdentity) -> bool:
        facts = part.facts
        if (snapshot.commit_user, snapshot.commit_identifier, snapshot.commit_kind) != (
            self._user,
            facts.identifier,
            facts.kind,
        ):
            return False
        if facts.identifier != BATCH_COMMIT_IDENTIFIER:
            return True
        # Batch commits of a user share their identifier, so compare the files.
        if part.records not in (None, snapshot.delta_record_count):
            return False
        if not part.added:
            manifests = self._reader.changelog(snapshot) if part.changelog_files else []
            return bool(part.changelog_files) and part.changelog_files <= {
                e.identifier for e in self._reader.entries(manifests)
            }
        entries = self._reader.entries(self._reader.delta(snapshot))
        return part.added <= {e.identifier for e in entries if e.kind is FileKind.ADD}


class CommitProgress:
    """Snapshots that were created, with the location of their table, and the snapshot that is being created now."""

    def __init__(self) -> None:
        self.created: list[tuple[str, int]] = []
        self.under_way: tuple[str, int] | None = None

    @contextmanager
    def creating(self, location: str, snapshot_id: int) -> Iterator[None]:
        """Mark the outcome of the snapshot's creation as unknown while the block runs.

        After an error the snapshot was not created.
        """
        self.under_way = location, snapshot_id
        try:
            yield
        except Exception:
            self.under_way = None
            raise
        # An interrupt, which is no Exception, leaves the outcome unknown.

    def done(self, *, created: bool) -> None:
        """Record the outcome of the creation."""
        if created and self.under_way is not None:
            self.created.append(self.under_way)
        self.under_way = None

    @property
    def text(self) -> str:
        """Summary of the commits in one sentence."""
        if self.under_way is not None:
            location, snapshot_id = self.under_way
            return (
                f"It is not known whether snapshot {snapshot_id} of {location} was committed; "
                "`interbed table snapshots` shows it if it was."
            )
        if not self.created:
            return "No snapshot was committed."
        location, snapshot_id = self.created[-1]
        if len(self.created) == 1:
            return f"Only snapshot {snapshot_id} of {location} was committed before that."
        return f"{len(self.created)} snapshots were committed before that, snapshot {snapshot_id} of {location} last."


PROGRESS = CommitProgress()
"""Progress of the commits of this process."""
