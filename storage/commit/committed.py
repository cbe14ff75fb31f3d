"""What a user has committed already, so that nothing is committed twice."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
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
"""Creation times of data files are of an unknown time zone (up to 14 hours off) and of another machine's clock."""


class Outcome(Enum):
    """What has become of a snapshot that was created when its writer looks again.

    Others build on it; it was taken back with what it builds on; it came too late, because the line had gone on beyond
    its number, under which another snapshot was and has expired; or that can't be told any more.
    """

    IN_LINE = auto()
    TAKEN_BACK = auto()
    LATE = auto()
    UNKNOWN = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class PartIdentity:
    """What a snapshot to be made is recognised by: its facts, and the files that it adds, or else tells changes by."""

    facts: SnapshotFacts
    added: frozenset[FileIdentifier]
    told: frozenset[FileIdentifier]
    oldest_millis: int | None
    records: int | None
    """What the snapshot's delta record count must be; None where that depends on the predecessor."""

    @staticmethod
    def of(
        facts: SnapshotFacts, entries: Iterable[ManifestEntry], changelog: Sequence[ManifestEntry] = ()
    ) -> "PartIdentity":
        """The identity of a snapshot with these entries."""
        entries = list(entries)
        added = [e for e in entries if e.kind is FileKind.ADD]
        told = changelog if not added else ()
        return PartIdentity(
            facts=facts,
            added=frozenset(e.identifier for e in added),
            told=frozenset(e.identifier for e in told),
            oldest_millis=min((e.file.creation_time_millis for e in (*added, *told)), default=None),
            records=None if facts.kind is CommitKind.OVERWRITE else record_delta(entries),
        )


class CommittedParts:
    """Looks for snapshots of one user. `new_user` says that there are none before the first commit."""

    def __init__(
        self, reader: ManifestReader, snapshots: SnapshotManager, user: str, *, new_user: bool = False
    ) -> None:
        self._reader = reader
        self._snapshots = snapshots
        self._user = user
        self._nothing_yet = new_user
        # The highest identifier that the user is known to have committed, batch commits aside.
        self._last: int | None = None
        self.is_unknown = False
        """Whether a commit ended in an unknown state: any file of the user may be in the table from then on."""

    def find(self, parts: Sequence[PartIdentity]) -> dict[CommitKind, int]:
        """The ids of those snapshots that exist, by kind. The parts share an identifier and differ in kind."""
        if not parts or self._nothing_yet:
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
                # A user's identifiers ascend.
                if snapshot.commit_identifier < identifier:
                    break
            for part in parts:
                if part.facts.kind not in found and self._is(snapshot, part):
                    found[part.facts.kind] = snapshot.id
            if len(found) == len(parts):
                break
        return found

    def since(self, previous: Snapshot | None, latest: Snapshot | None, part: PartIdentity) -> int | None:
        """The part's snapshot among those after `previous` up to `latest`, from a try believed to have failed."""
        if latest is None:
            return None
        first = 1 if previous is None else previous.id + 1
        if latest.id - first > _MANY_SNAPSHOTS:
            # Most of them may have expired.
            first = max(first, self._snapshots.earliest_id() or first)
        for snapshot_id in range(first, latest.id + 1):
            try:
                # Afresh: one that was taken back again may be remembered.
                snapshot = latest if snapshot_id == latest.id else self._snapshots.stored(snapshot_id)
            except SnapshotNotFoundError:
                continue
            if self._is(snapshot, part):
                return snapshot_id
        return None

    def outcome(self, snapshot: Snapshot, delta: Sequence[ManifestEntry], manifests: AbstractSet[str]) -> Outcome:
        """Whether the table's line goes on with a snapshot that was just created, though what it builds on is gone, or
        is nothing because it is the first.

        `delta` is what it has changed, `manifests` the names of the manifests that say so. Raises CorruptFileError and
        StorageAccessError.
        """
        for _ in range(_LOOKS):
            try:
                return self._looked_up(snapshot, delta, manifests)
            except SnapshotNotFoundError:
                # What was listed a moment ago has gone meanwhile.
                continue
        return Outcome.UNKNOWN

    def _looked_up(self, snapshot: Snapshot, delta: Sequence[ManifestEntry], manifests: AbstractSet[str]) -> Outcome:
        """See outcome; SnapshotNotFoundError when others expire snapshots at this moment."""
        snapshots = self._snapshots
        ids, noted = snapshots.stored_ids(), snapshots.noted_latest()
        if noted is not None and noted > max(ids, default=0) and snapshots.exists(noted):
            # The listing has come late.
            ids.append(noted)
        if ids == [snapshot.id]:
            return Outcome.IN_LINE
        try:
            following = snapshots.stored(snapshot.id + 1)
        except SnapshotNotFoundError:
            following = None
        if following is not None and self._is_built_on(following, delta, manifests):
            return Outcome.IN_LINE
        # The oldest expires first: where older ones are left, newer ones were taken back.
        is_taken_back = any(map(snapshots.exists, ids[: bisect_left(ids, snapshot.id)]))
        if following is not None:
            return Outcome.TAKEN_BACK if is_taken_back else Outcome.LATE
        if snapshots.is_stored(snapshot):
            newer = ids[bisect_right(ids, snapshot.id) :]
            if newer:
                # Another one had this number, and was followed by those that are there.
                snapshots.stored(newer[-1])
                return Outcome.TAKEN_BACK if is_taken_back else Outcome.LATE
            return Outcome.TAKEN_BACK if is_taken_back else Outcome.IN_LINE
        # It has gone with others.
        ids = snapshots.stored_ids()
        newer = ids[bisect_right(ids, snapshot.id) :]
        if not newer:
            return Outcome.TAKEN_BACK
        live = merge_entries(self._reader.entries(self._reader.data(snapshots.stored(newer[0]))))
        added = {e.identifier for e in delta if e.kind is FileKind.ADD}
        if added and added <= {e.identifier for e in live}:
            return Outcome.IN_LINE
        return Outcome.TAKEN_BACK if len(newer) < len(ids) else Outcome.UNKNOWN

    def _is_built_on(self, following: Snapshot, delta: Sequence[ManifestEntry], manifests: AbstractSet[str]) -> bool:
        """Whether the next snapshot has taken over what this one has changed."""
        taken = self._reader.base(following)
        if manifests & {m.file_name for m in taken}:
            return True
        # Manifests may have been merged.
        live = {e.identifier for e in merge_entries(self._reader.entries(taken))}
        return bool(delta) and all((e.identifier in live) == (e.kind is FileKind.ADD) for e in delta)

    def note(self, identifier: int) -> None:
        """Remember that the user committed the identifier."""
        self._nothing_yet = False
        if identifier != BATCH_COMMIT_IDENTIFIER:
            self._last = identifier if self._last is None else max(self._last, identifier)

    def unknown(self) -> None:
        """Remember that a commit ended in an unknown state."""
        self._nothing_yet = False
        self.is_unknown = True

    def _is(self, snapshot: Snapshot, part: PartIdentity) -> bool:
        facts = part.facts
        if (snapshot.commit_user, snapshot.commit_identifier, snapshot.commit_kind) != (
            self._user,
            facts.identifier,
            facts.kind,
        ):
            return False
        if facts.identifier != BATCH_COMMIT_IDENTIFIER:
            return True
        # Batch commits of one user share their identifier, so the files decide.
        if part.records not in (None, snapshot.delta_record_count):
            return False
        if not part.added:
            manifests = self._reader.changelog(snapshot) if part.told else []
            return bool(part.told) and part.told <= {e.identifier for e in self._reader.entries(manifests)}
        entries = self._reader.entries(self._reader.delta(snapshot))
        return part.added <= {e.identifier for e in entries if e.kind is FileKind.ADD}
