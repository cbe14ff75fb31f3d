"""Expiry of snapshots: old ones are deleted, with every file that no newer snapshot, no tag and no branch needs.

The decision which snapshots expire is pure (`first_kept`). They are marked (storage.meta.snapshot.expiry_mark): after
that no process lists, reads or names them. Only then the other users of their files are read, and the plan of deletions
is written. The snapshot files are deleted first, oldest first, and then all others. A process killed in between leaves
the mark, and the next expiry finishes its work. Source: documentation page `maintenance/manage-snapshots`,
paimon-core's ExpireSnapshotsImpl.
"""

import logging
import time
from bisect import bisect_left
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from typing import Any

from interbed.storage.base.errors import (
    CorruptFileError,
    InterbedError,
    InvalidInputError,
    NotSupportedError,
    plain_errors,
)
from interbed.storage.io.parallel import both, delete_files, in_parallel
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.options.core import CoreOptions
from interbed.storage.meta.options.log import LogConsistency
from interbed.storage.meta.options.lsm import ChangelogProducer
from interbed.storage.meta.snapshot.expiry_mark import ExpiryMark, ExpiryMarks, ExpiryPlan
from interbed.storage.meta.snapshot.history_journal import find_history_change
from interbed.storage.meta.snapshot.manager import ChangelogManager
from interbed.storage.meta.snapshot.progress import ConsumerManager, LogPositions
from interbed.storage.meta.snapshot.snapshot import FIRST_SNAPSHOT_ID, Snapshot
from interbed.storage.version.references import References, own_paths, roots_of_others, tagged

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """Limits of expiry: the number of snapshots to keep, their greatest age, and the deletions in one run."""

    retain_max: int
    retain_min: int
    older_than_millis: int
    max_deletes: int

    @staticmethod
    def of(
        options: CoreOptions,
        now_millis: int,
        *,
        retain_max: int | None = None,
        retain_min: int | None = None,
        older_than_millis: int | None = None,
        max_deletes: int | None = None,
    ) -> "Retention":
        """Return the table's options, overridden by the arguments.

        Raises InvalidInputError if they contradict each other.
        """
        retention = Retention(
            retain_max=options.snapshot_retain_max if retain_max is None else retain_max,
            retain_min=options.snapshot_retain_min if retain_min is None else retain_min,
            older_than_millis=(
                now_millis - options.snapshot_time_retained_millis if older_than_millis is None else older_than_millis
            ),
            max_deletes=options.snapshot_expire_limit if max_deletes is None else max_deletes,
        )
        if retention.retain_min < 1:
            raise InvalidInputError(f"At least one snapshot stays, so retain_min can't be {retention.retain_min}.")
        if retention.retain_max < retention.retain_min:
            raise InvalidInputError(
                f"retain_max ({retention.retain_max}) can't be less than retain_min ({retention.retain_min})."
            )
        return retention


@plain_errors
@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiryResult:
    """Expired snapshots (in a dry run: those that would expire), and the number of deleted data and metadata files."""

    snapshots: tuple[int, ...] = ()
    data_files: int = 0
    metadata_files: int = 0
    unjudged: tuple[str, ...] = ()
    """Tags and branches whose files are unknown, so that no file was deleted."""
    dry_run: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return the result as JSON values."""
        return {
            "expired_snapshots": list(self.snapshots),
            "deleted_data_files": self.data_files,
            "deleted_metadata_files": self.metadata_files,
            "unjudged": list(self.unjudged),
            "dry_run": self.dry_run,
        }

    def __str__(self) -> str:
        if not self.snapshots:
            return "no snapshot to expire"
        verb = "would expire" if self.dry_run else "expired"
        kept = f"; files stay because of what is damaged: {', '.join(self.unjudged)}" if self.unjudged else ""
        return (
            f"{verb} {len(self.snapshots)} snapshots ({self.snapshots[0]} to {self.snapshots[-1]}) with "
            f"{self.data_files} data files and {self.metadata_files} files of metadata{kept}"
        )


def first_kept(
    earliest: int, latest: int, retention: Retention, time_of: Callable[[int], int | None], consumed: int | None
) -> int:
    """Return the id of the first snapshot to keep; those before it expire.

    `time_of` returns the time of a snapshot in milliseconds, None when it is missing; a snapshot may only expire when
    its successor is old enough. `consumed` is the first snapshot that a consumer has yet to read.
    """
    least = max(latest - retention.retain_max + 1, earliest)
    end = min(latest - retention.retain_min + 1, earliest + retention.max_deletes)
    if consumed is not None:
        end = min(end, consumed)
    for snapshot_id in range(least, end):
        successor = time_of(snapshot_id + 1)
        if successor is not None and retention.older_than_millis <= successor:
            return snapshot_id
    return max(end, earliest)


@dataclass(slots=True)
class SnapshotExpiry:
    """Expiry of snapshots of one history of a table."""

    store: FileStore
    dry_run: bool = False
    clock: Callable[[], float] = field(default=time.time)

    def run(
        self,
        *,
        retain_max: int | None = None,
        retain_min: int | None = None,
        older_than_millis: int | None = None,
        max_deletes: int | None = None,
    ) -> ExpiryResult:
        """Expire snapshots by the table's options, overridden by the arguments.

        Raises InvalidInputError for arguments that contradict each other, NotSupportedError for a table whose changes
        are to outlive its snapshots but have no changelog, CorruptFileError when it is unknown what must be kept
        (nothing is deleted then).
        """
        if not self.dry_run:
            self.store.check_exclusive()
        options = self.store.options
        retention = Retention.of(
            options,
            int(self.clock() * 1000),
            retain_max=retain_max,
            retain_min=retain_min,
            older_than_millis=older_than_millis,
            max_deletes=max_deletes,
        )
        if not self.dry_run:
            self.finish()
        snapshots = self.store.snapshots
        earliest, latest = snapshots.earliest_id(), snapshots.latest_id()
        if earliest is None or latest is None:
            return ExpiryResult(dry_run=self.dry_run)
        if first_kept(earliest, latest, retention, self._time_of, None) == earliest:
            # After most commits nothing is due, which this finds out without reading the consumers.
            return ExpiryResult(dry_run=self.dry_run)
        keeps_changelog = _keeps_changelog(self.store)
        end = first_kept(earliest, latest, retention, self._time_of, self._consumed())
        if end <= earliest:
            return ExpiryResult(dry_run=self.dry_run)
        if self.dry_run:
            plan = self._plan(earliest, end, keeps_changelog=keeps_changelog)
            return _result(plan, dry_run=True)
        # A mark must not be set beside a damaged journal: no process could finish it.
        find_history_change(self.store.file_io, self.store.paths)
        # A snapshot that another expiry had marked when the earliest was read may be visible again: that expiry failed
        # and withdrew its mark. Later snapshots must not expire before it.
        mark = self._marks.set(min(snapshots.stored_ids(), default=earliest), end)
        if mark is None:
            # Another process is expiring snapshots of the table.
            return ExpiryResult()
        self._marks.sweep(mark)
        return self._carry_out(mark)

    def seems_idle(self) -> bool:
        """Return whether nothing is due by the table's options, judging by the snapshots that this process remembers.

        It takes at most one request. Changes by other processes, and an expiry that a killed process began, are noticed
        when something is due next.
        """
        known = self.store.snapshots.remembered_ids()
        if known is None:
            return False
        earliest, latest = known
        retention = Retention.of(self.store.options, int(self.clock() * 1000))
        return first_kept(earliest, latest, retention, self._time_of, None) == earliest

    def due(self) -> int:
        """Return the number of snapshots that are due for expiry now by the table's options.

        Several runs may be needed to delete them. Nothing is changed, and few snapshots are read: their times ascend.
        Raises CorruptFileError when it is unknown what must be kept.
        """
        ids = self.store.snapshots.ids()
        if not ids:
            return 0
        now = int(self.clock() * 1000)
        retention = Retention.of(self.store.options, now, max_deletes=ids[-1] - ids[0] + 1)
        least = max(ids[-1] - retention.retain_max + 1, ids[0])
        end = ids[-1] - retention.retain_min + 1
        if end <= ids[0]:
            return 0

        def is_kept(snapshot_id: int) -> bool:
            successor = self._time_of(snapshot_id + 1)
            return successor is not None and retention.older_than_millis <= successor

        kept = least + bisect_left(range(least, max(end, least)), True, key=is_kept)
        if kept > ids[0]:
            consumed = self._consumed()
            kept = min(k for k in (kept, end, consumed) if k is not None)
        return bisect_left(ids, kept)

    def next_due_millis(self) -> int | None:
        """Return when the oldest snapshot expires by age without further commits, in epoch milliseconds, possibly past.

        None when the table's options keep it until there are more snapshots.
        """
        ids = self.store.snapshots.ids()
        # At time 0, snapshots older than the retained time would be from before minus that time.
        retention = Retention.of(self.store.options, 0)
        if not ids or ids[-1] - retention.retain_min + 1 <= ids[0]:
            return None
        successor = self._time_of(ids[0] + 1)
        return None if successor is None else successor - retention.older_than_millis

    def finish(self) -> ExpiryResult:
        """Finish an expiry that another process left unfinished; does nothing without one. Raises as `run` does."""
        mark = self._marks.find()
        return ExpiryResult() if mark is None else self._carry_out(mark)

    @property
    def _marks(self) -> ExpiryMarks:
        return ExpiryMarks(self.store.file_io, self.store.paths)

    def _consumed(self) -> int | None:
        """Return the first snapshot that a consumer, or the publisher of the table's log, has yet to read."""
        consumed = [self._unpublished()]
        if not self.store.options.boolean("consumer.changelog-only", False):
            consumed.append(ConsumerManager(self.store.file_io, self.store.paths).min_next_snapshot())
        return min((i for i in consumed if i is not None), default=None)

    def _unpublished(self) -> int | None:
        store = self.store
        if store.log_consistency is not LogConsistency.TRANSACTIONAL:
            return None
        position = LogPositions(store.file_io, store.paths).read()
        return FIRST_SNAPSHOT_ID if position is None else position.snapshot + 1

    def _time_of(self, snapshot_id: int) -> int | None:
        try:
            return self.store.snapshots.snapshot(snapshot_id).time_millis
        except LookupError:
            return None

    def _carry_out(self, mark: ExpiryMark) -> ExpiryResult:
        """Finish the expiry of the mark; several processes may do so at the same time."""
        marks, keeps_changelog = self._marks, _keeps_changelog(self.store)
        plan = marks.plan(mark)
        if plan is None and find_history_change(self.store.file_io, self.store.paths) is not None:
            # An unfinished rollback may need these snapshots; it withdraws a mark as well.
            if marks.take_back(mark):
                return ExpiryResult()
            plan = marks.plan(mark)
        if plan is None:
            try:
                # Consumers registered before the mark are counted here; later ones see the mark.
                consumed = self._consumed()
                end = mark.end if consumed is None else min(mark.end, consumed)
                new_plan = self._plan(mark.begin, end, keeps_changelog=keeps_changelog)
                plan = marks.decide(mark, new_plan)
            except (InterbedError, OSError):
                # Nothing is decided or deleted, unless the plan was written in spite of the error.
                with suppress(InterbedError, OSError):
                    marks.take_back(mark)
                raise
        result = _result(plan)
        store = self.store
        ids = sorted(plan.snapshots)
        if keeps_changelog:
            # Do this before any deletion, so that readers always find one of the two.
            leaving = self._still_there(plan, ids)
            ChangelogManager(store.file_io, store.paths).add([s for s in leaving if not s.changelog_has_expired])
        # Delete one after the other, oldest first, also in an object store: a delayed writer sees by its base that no
        # other snapshot had its id. Each is read just before it is deleted, because a snapshot that has replaced it
        # must stay.
        gone: list[int] = []
        for number in ids:
            find, check_mark = partial(self._still_there, plan, [number]), partial(marks.is_set, mark)
            found, is_set = both(store.file_io, find, check_mark)
            if not is_set:
                # Another process has finished it, or the mark was withdrawn.
                marks.remove(mark)
                return ExpiryResult(snapshots=tuple(gone))
            if number == ids[0]:
                store.snapshots.note_earliest(plan.end)
            for each in found:
                store.file_io.delete(store.paths.snapshot(each.id))
                gone.append(each.id)
        data, metadata = (delete_files(store.file_io, own_paths(store, paths)) for paths in (plan.data, plan.metadata))
        # A file that can't be deleted does not stop expiry; it is left for the removal of orphan files.
        result = replace(
            result, data_files=result.data_files - len(data), metadata_files=result.metadata_files - len(metadata)
        )
        marks.remove(mark)
        for name in plan.unjudged:
            _log.warning(
                "The files of expired snapshots of %s stay: it is unknown which of them the %s needs. Repair or delete "
                "it and remove orphan files.",
                store.location,
                name,
            )
        if plan.snapshots:
            _log.info("%s of %s", result, store.location)
        return result

    def _still_there(self, plan: ExpiryPlan, ids: Sequence[int]) -> list[Snapshot]:
        """Return those planned snapshots whose files exist and have not been replaced by another snapshot."""
        return [found for found in self._found(ids) if (found.uuid or "") == plan.snapshots[found.id]]

    def _found(self, ids: Sequence[int]) -> list[Snapshot]:
        """Return the snapshots of these ids whose files exist, in the same order."""
        found = in_parallel(self.store.file_io, [partial(self._find, number) for number in ids])
        return [snapshot for snapshot in found if snapshot is not None]

    def _plan(self, begin: int, end: int, *, keeps_changelog: bool) -> ExpiryPlan:
        """Return the plan for the snapshots from `begin` to before `end`; nothing is changed."""
        store = self.store
        numbers = [number for number in store.snapshots.stored_ids() if begin <= number < end]
        found = self._found(numbers)
        kept = self._find(end)
        if not found or kept is None:
            return ExpiryPlan(end=begin, snapshots={})
        references = References(store)
        kept_data = set[str]()
        # Determine what must stay before any deletion; an error ends the expiry here.
        kept_metadata = references.metadata(kept, changelog=True)
        tags, others = tagged(store), roots_of_others(store, begin, end)
        unjudged = {**tags.unjudged_in(store), **others.unjudged}
        needed = {id(s) for s in _needed_tags(tags.snapshots, found[0].id, end)}
        for snapshot in (*tags.snapshots, *others.snapshots):
            try:
                kept_metadata |= references.metadata(snapshot, changelog=False)
                if id(snapshot) in needed or snapshot in others.snapshots:
                    kept_data |= references.live_data(snapshot)
            except CorruptFileError as error:
                unjudged[f"tag or branch of snapshot {snapshot.id}"] = error
        for snapshot in others.with_changelog:
            try:
                kept_metadata |= references.changelog_metadata(snapshot)
                kept_data |= references.named_changelog_data(snapshot)
            except CorruptFileError as error:
                unjudged[f"changelog of a branch's snapshot {snapshot.id}"] = error
        for snapshot in others.later:
            try:
                kept_data |= references.added_data(snapshot)
            except CorruptFileError as error:
                unjudged[f"branch's snapshot {snapshot.id}"] = error
        snapshots = {s.id: s.uuid or "" for s in found}
        if unjudged:
            return ExpiryPlan(end=end, snapshots=snapshots, unjudged=tuple(sorted(unjudged)))
        if not _is_one_history([*found, kept]):
            # A late snapshot may be among them, which its writer has not withdrawn yet, or never will.
            kept_data |= references.live_data(kept)
        data = set().union(*(references.deleted_data(s) for s in (*found[1:], kept))) - kept_data
        if not keeps_changelog:
            data |= set().union(*(references.changelog_data(s) for s in found)) - kept_data
        metadata = set().union(*(references.metadata(s, changelog=not keeps_changelog, lenient=True) for s in found))
        return ExpiryPlan(
            end=end,
            snapshots=snapshots,
            data=tuple(sorted(data)),
            metadata=tuple(sorted(metadata - kept_metadata)),
        )

    def _find(self, snapshot_id: int) -> Snapshot | None:
        try:
            return self.store.snapshots.stored(snapshot_id)
        except LookupError:
            return None


def _result(plan: ExpiryPlan, *, dry_run: bool = False) -> ExpiryResult:
    return ExpiryResult(
        snapshots=tuple(sorted(plan.snapshots)),
        data_files=len(plan.data),
        metadata_files=len(plan.metadata),
        unjudged=plan.unjudged,
        dry_run=dry_run,
    )


def _is_one_history(snapshots: Sequence[Snapshot]) -> bool:
    """Return whether each of the snapshots seems to follow from the one before it."""
    return all(
        after.id == before.id + 1 and after.total_record_count == before.total_record_count + after.delta_record_count
        for before, after in pairwise(snapshots)
    )


def _needed_tags(tagged: Sequence[Snapshot], begin: int, end: int) -> list[Snapshot]:
    """Return the tagged snapshots that may share files with the snapshots from `begin` to before `end`."""
    before = [s for s in tagged if s.id <= begin]
    return before[-1:] + [s for s in tagged if begin < s.id < end]


def _keeps_changelog(store: FileStore) -> bool:
    """Return whether changelogs stay; raises NotSupportedError where new files would have to stay in their place."""
    if not store.options.changelog_outlives_snapshots:
        return False
    if store.options.changelog_producer is ChangelogProducer.NONE or not store.schema.has_primary_key:
        raise NotSupportedError(
            f"The table at {store.location} has options 'changelog.…' by which its changes outlive its snapshots, but "
            "no changelog that could: set 'changelog-producer', or remove them to expire both together."
        )
    return True
