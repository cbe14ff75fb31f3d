"""Commits of a stream: each exactly once, also when the stream repeats it long afterwards.

A snapshot names its user and its identifier, by which Paimon knows what was committed. But snapshots expire, so the
last commit of each stream is also recorded in a file of the table. `EpochCommit` is for streams that number their
commits (epochs) and keep their position themselves. `PositionedCommit` records how far the stream was read, so that
rows and position become visible together or not at all. A position is a text that only the stream can interpret; it is
also a property of each snapshot.

    <location>/epoch/epoch-<commit user>   {"epoch": 7, "job": "…", "after": 12, "done": true}
    <location>/position/position-<commit user>
        {"epoch": 7, "position": "…", "before": "…", "after": 12, "snapshot": 11, "done": false,
         "source": "…", "source_before": "…", "remark": "…", "after_identity": "…",
         "rolled_back": false}

A note is written before the commit (`done` is false, `after` is the newest snapshot then) and after it. If the process
died between the two, the snapshots after `after` show whether the commit happened.

Epochs: a note is deleted when it has not been written for `stream.epoch-note.time-retained` (30 days) and its commit is
not in doubt. A query that returns later, and whose driver died between its last commit and the second note, is known by
its snapshot only. A query deletes old notes at its first epoch, so there is at most one note more than queries that
committed within that time.

Positions: if the commit did not happen, `before` holds. `source` names what the position refers to; by it the stream
detects that it reads another source. `remark` is a text of the stream that holds until its next commit. Older versions
do not know these members and leave them out. When the table was rolled back to before `snapshot`, the position is that
of the newest snapshot of the user. If that has expired, the position is `before`, as long as the snapshot `after` is
still the one with `after_identity`; otherwise the position is not known (`rolled_back`). A rollback settles the notes,
because a later expiry would hide it. No other process may commit as the same user at the same time: of two processes
that read the same stream one gets a CommitConflictError. Its earlier records are superseded by the snapshots of the
other process.
"""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any

from interbed.storage.base.errors import (
    CommitStateUnknownError,
    CorruptFileError,
    InvalidInputError,
    SnapshotNotFoundError,
)
from interbed.storage.commit.file_store_commit import FileStoreCommit
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.snapshot.snapshot import Snapshot
from interbed.storage.scan.partition_filter import PartitionChoice
from interbed.storage.write.commit_message import CommitMessage


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochNote:
    """Record of the last epoch. `job` committed it, or tried to; `after` is a snapshot id, 0 for none."""

    epoch: int
    job: str
    after: int
    done: bool

    def to_bytes(self) -> bytes:
        """Return the note in its stored form."""
        value = {"epoch": self.epoch, "job": self.job, "after": self.after, "done": self.done}
        return json.dumps(value, indent=2).encode()

    @staticmethod
    def from_bytes(content: bytes, source: str) -> "EpochNote":
        """Read a note from bytes made by to_bytes; raises CorruptFileError naming the file."""
        try:
            value = json.loads(content)
            return EpochNote(
                epoch=int(value["epoch"]), job=str(value["job"]), after=int(value["after"]), done=bool(value["done"])
            )
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptFileError(
                f"{source} is not a note of an epoch: {error}. Without the file the snapshots show what was committed."
            ) from error


class EpochCommit:
    """Commits of a user whose identifiers are epochs, in ascending order; only one at a time."""

    def __init__(self, store: FileStore, commit_user: str, clock: Callable[[], float] = time.time) -> None:
        _check_user(commit_user)
        self._store = store
        self._user = commit_user
        self._path = store.paths.epoch(commit_user)
        self._clock = clock
        self.gave_up_compaction = False
        """Whether the last epoch's rows were committed, but not their compaction; see FileStoreCommit."""

    def is_committed(self, epoch: int) -> bool:
        """Return whether the epoch, or a later one, was committed.

        Raises CommitStateUnknownError when that is no longer known.
        """
        return self._is_committed(self._note(), epoch)

    def _is_committed(self, note: EpochNote | None, epoch: int) -> bool:
        if note is None:
            # It was committed by a writer that keeps no note, or never.
            last = self._store.snapshots.latest_of_user(self._user)
            return last is not None and last.commit_identifier >= epoch
        if note.epoch != epoch or note.done:
            return note.epoch >= epoch
        return self._happened(note)

    def is_job_of(self, epoch: int, job: str) -> bool:
        """Return whether that job was the last to try to commit the epoch."""
        note = self._note()
        return note is not None and (note.epoch, note.job) == (epoch, job)

    def commit(self, messages: Sequence[CommitMessage], epoch: int, *, job: str = "") -> list[int] | None:
        """Commit new rows and return the snapshots' ids.

        The list is empty when there was nothing to commit. None if the epoch was committed before; then the caller
        still owns the messages' files. Errors are those of `is_committed` and FileStoreCommit.commit.
        """
        note = self._note()
        if self._is_committed(note, epoch):
            self._close(note, epoch)
            return None
        if not messages:
            return []
        begun = self._begin(note, epoch, job)
        commit = self._new_commit()
        ids = commit.commit(messages, identifier=epoch)
        self.gave_up_compaction = commit.gave_up_compaction
        self._close(begun, epoch)
        return ids

    def overwrite(
        self, messages: Sequence[CommitMessage], epoch: int, *, partition: PartitionChoice, job: str = ""
    ) -> list[int] | None:
        """Commit rows in place of those of the partition ({}: of all rows); see `commit`.

        A commit without rows replaces them too.
        """
        note = self._note()
        if self._is_committed(note, epoch):
            self._close(note, epoch)
            return None
        begun = self._begin(note, epoch, job)
        commit = self._new_commit()
        ids = commit.overwrite(messages, partition=partition, identifier=epoch)
        self.gave_up_compaction = commit.gave_up_compaction
        self._close(begun, epoch)
        return ids

    def _new_commit(self) -> FileStoreCommit:
        # The search for commits of the user is done already.
        return FileStoreCommit(self._store, self._user, new_user=True)

    def _note(self, path: str | None = None) -> EpochNote | None:
        path = path or self._path
        try:
            return EpochNote.from_bytes(self._store.file_io.read_bytes(path), path)
        except FileNotFoundError:
            return None

    def _begin(self, last: EpochNote | None, epoch: int, job: str) -> EpochNote:
        if last is None:
            self._remove_old_notes()
        newest = self._store.snapshots.latest_id() or 0
        note = EpochNote(epoch=epoch, job=job, after=newest, done=False)
        self._store.file_io.overwrite(self._path, note.to_bytes())
        return note

    def _close(self, note: EpochNote | None, epoch: int) -> None:
        if note is not None and note.epoch == epoch and not note.done:
            self._store.file_io.overwrite(self._path, replace(note, done=True).to_bytes())

    def _remove_old_notes(self) -> None:
        limit = int(self._clock() * 1000) - self._store.options.epoch_note_retained_millis
        file_io = self._store.file_io
        old = [
            f.path
            for f in file_io.list(self._path.rpartition("/")[0])
            if f.modified_millis is not None and f.modified_millis < limit
        ]
        # Keep the note of a commit in doubt until an operator has resolved it.
        file_io.delete_quietly([path for path in old if (note := self._note(path)) is None or note.done])

    def _happened(self, note: EpochNote) -> bool:
        """Return whether the commit that was begun is among the snapshots made since."""
        snapshots = self._store.snapshots
        newest = snapshots.latest_id() or 0
        for snapshot_id in range(note.after + 1, newest + 1):
            try:
                snapshot = snapshots.snapshot(snapshot_id)
            except SnapshotNotFoundError:
                continue
            if snapshot.commit_user == self._user and snapshot.commit_identifier >= note.epoch:
                return True
        oldest = snapshots.earliest_id()
        if oldest is not None and oldest > note.after + 1:
            raise CommitStateUnknownError(
                f"Whether epoch {note.epoch} of the stream {self._user} was committed to {self._store.location} is not "
                f"known: its job died while it committed, and the snapshots from {note.after + 1} to {oldest - 1} have "
                f'expired since. See whether its rows are in the table; then write "done": true into {self._path} if '
                "they are, and delete that file if they are not."
            )
        return False


POSITION_PROPERTY = "interbed.stream.position"
SOURCE_PROPERTY = "interbed.stream.source"


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionNote:
    """Record of the last commit that was `done` or begun; ids are those of snapshots, 0 for none."""

    epoch: int
    position: str | None
    before: str | None
    after: int
    snapshot: int
    done: bool
    source: str | None = None
    source_before: str | None = None
    remark: str | None = None
    after_identity: str | None = None
    rolled_back: bool = False

    def to_bytes(self) -> bytes:
        """Return the note in its stored form."""
        return json.dumps(asdict(self), indent=2).encode()

    @staticmethod
    def from_bytes(content: bytes, source: str) -> "PositionNote":
        """Read a note from bytes made by to_bytes; raises CorruptFileError naming the file."""
        try:
            value: Mapping[str, Any] = json.loads(content)
            return PositionNote(
                epoch=int(value["epoch"]),
                position=_text(value["position"]),
                before=_text(value["before"]),
                after=int(value["after"]),
                snapshot=int(value["snapshot"]),
                done=bool(value["done"]),
                source=_text(value.get("source")),
                source_before=_text(value.get("source_before")),
                remark=_text(value.get("remark")),
                after_identity=_text(value.get("after_identity")),
                rolled_back=bool(value.get("rolled_back", False)),
            )
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptFileError(
                f"{source} is not a note of a stream's position: {error}. Without the file the newest snapshot of the "
                "user says how far the stream was read."
            ) from error


class PositionedCommit:
    """Commits of the user of a stream. Neither several threads nor several processes may use it at a time."""

    def __init__(self, store: FileStore, commit_user: str) -> None:
        """Restore how far the stream was read; raises CommitStateUnknownError when that is no longer known."""
        _check_user(commit_user)
        self._store = store
        self._user = commit_user
        self._path = store.paths.position(commit_user)
        # This object has not seen commits as this user after this snapshot.
        self._seen = store.snapshots.latest_id() or 0
        self._last = self._restore()
        self.gave_up_compaction = False
        """Whether the last rows were committed, but not their compaction; see FileStoreCommit."""

    @property
    def position(self) -> str | None:
        """Position up to which the rows of the stream are in the table; None when nothing is known of it."""
        return self._last.position

    @property
    def source(self) -> str | None:
        """Source that the position refers to; None when nothing is known of it."""
        return self._last.source

    @property
    def remark(self) -> str | None:
        """Text of the stream that holds until its next commit; None without one."""
        return self._last.remark

    def commit(
        self, store: FileStore, messages: Sequence[CommitMessage], position: str, source: str | None = None
    ) -> list[int]:
        """Commit rows with the position after them and return the snapshots' ids.

        `store` is the table at the rows' schema. Raises as FileStoreCommit.commit does. After a CommitStateUnknownError
        a new object determines the outcome.
        """
        commit, facts = self._begin(store, position, source)
        return self._finish(
            commit, commit.commit(messages, identifier=self._last.epoch, properties=facts, allow_empty=True)
        )

    def overwrite(
        self, store: FileStore, messages: Sequence[CommitMessage], position: str, source: str | None = None
    ) -> list[int]:
        """Replace all rows by those of the messages, with the position after them. Return the snapshots' ids.

        The messages are those of a writer without knowledge of earlier rows (storage.write.table_write). Raises as
        FileStoreCommit.overwrite does, and otherwise as `commit`.
        """
        commit, facts = self._begin(store, position, source)
        return self._finish(commit, commit.overwrite(messages, identifier=self._last.epoch, properties=facts))

    def advance(self, position: str, source: str | None = None, *, remark: str | None = None) -> None:
        """Record that the stream was read further without rows for this table; an earlier remark remains without a new
        one.
        """
        remark = remark or self._last.remark
        if (position, source, remark) != (self._last.position, self._last.source, self._last.remark):
            self._write(replace(self._last, position=position, source=source, remark=remark))

    def _begin(self, store: FileStore, position: str, source: str | None) -> tuple[FileStoreCommit, dict[str, str]]:
        """Record that a commit begins. Return it, and the properties of its snapshots."""
        last = self._last
        begun = replace(
            last,
            epoch=last.epoch + 1,
            position=position,
            before=last.position,
            after=self._seen,
            done=False,
            source=source,
            source_before=last.source,
            after_identity=self._identity_of(self._seen),
        )
        self._write(begun)
        facts = {POSITION_PROPERTY: position} | ({} if source is None else {SOURCE_PROPERTY: source})
        # The search for commits of the user is done already.
        return FileStoreCommit(store, self._user, new_user=True, alone_since=self._seen), facts

    def _finish(self, commit: FileStoreCommit, ids: list[int]) -> list[int]:
        self._seen = ids[-1]
        self.gave_up_compaction = commit.gave_up_compaction
        self._write(replace(self._last, snapshot=ids[-1], done=True, remark=None))
        return ids

    def _write(self, note: PositionNote) -> None:
        self._store.file_io.overwrite(self._path, note.to_bytes())
        self._last = note

    def _restore(self) -> PositionNote:
        """Return the state of the stream; a commit that was begun and did not happen leaves the state before it."""
        try:
            note = PositionNote.from_bytes(self._store.file_io.read_bytes(self._path), self._path)
        except FileNotFoundError:
            return self._of_newest(0, 0)
        if note.rolled_back or self._was_rolled_back(note.snapshot):
            return self._before_rolled_back(note)
        since = note.snapshot if note.done else note.after
        made = self._of_newest(since, note.epoch)
        if made.snapshot:
            return made
        if note.done:
            return note
        oldest = self._store.snapshots.earliest_id()
        if oldest is not None and oldest > since + 1:
            raise CommitStateUnknownError(
                f"How far the stream '{self._user}' was read whose rows are in {self._store.location} is not known: "
                f"its process died while it committed, and the snapshots from {since + 1} to {oldest - 1} have expired "
                f'since. See whether the rows up to {note.position} are in the table; then write "done": true into '
                f'{self._path} and, if they are not, "position": {json.dumps(note.before)}.'
            )
        # Its number is never used again: a late snapshot of it may still appear, and is refused then.
        return replace(note, position=note.before, source=note.source_before, done=True)

    def _before_rolled_back(self, note: PositionNote) -> PositionNote:
        """Return the state after a rollback to before the last commit of the note, and record it."""
        made = self._of_newest(0, note.epoch)
        oldest = self._store.snapshots.earliest_id()
        is_known = bool(made.snapshot) or oldest is None or oldest == 1
        if not is_known and note.done and note.after_identity is not None:
            # If the rollback left the snapshot on which the last commit was based, it withdrew that commit alone.
            is_known = self._identity_of(note.after) == note.after_identity
            made = replace(made, position=note.before, source=note.source_before)
        # Without the record a later expiry would hide that the last commit was withdrawn.
        self._write(made if is_known else replace(note, rolled_back=True))
        if is_known:
            return made
        raise CommitStateUnknownError(
            f"How far the stream '{self._user}' was read whose rows are in {self._store.location} is not known: the "
            f"table was rolled back to before its last commit, snapshot {note.snapshot}, and the snapshots before "
            f"{oldest}, which had earlier positions, have expired. Drop the table, and read the stream again from its "
            f"beginning. To keep the table, delete {self._path} instead: the stream is then read from its beginning "
            "into the rows that are there, so that rows come twice if the table has no key, and rows that were deleted "
            "meanwhile may stay."
        )

    def _identity_of(self, snapshot_id: int) -> str | None:
        """Return the identity of a snapshot; None if it does not exist (any more)."""
        try:
            return self._store.snapshots.stored(snapshot_id).identity if snapshot_id else None
        except SnapshotNotFoundError:
            return None

    def _of_newest(self, since: int, epoch: int) -> PositionNote:
        """Return the state by the newest snapshot of the user after `since`; `snapshot` is 0 when there is none."""
        found: Snapshot | None = None
        # Older ones in the cache may be those of a history that was replaced.
        oldest = self._store.snapshots.earliest_id() or 0
        for snapshot in self._store.snapshots.descending():
            if snapshot.id <= since or snapshot.id < oldest:
                break
            if snapshot.commit_user == self._user and snapshot.id <= self._seen:
                found = snapshot
                break
        if found is None:
            return PositionNote(epoch=epoch, position=None, before=None, after=since, snapshot=0, done=True)
        properties = found.properties or {}
        position = properties.get(POSITION_PROPERTY)
        if position is None:
            raise InvalidInputError(
                f"'{self._user}' has committed to {self._store.location} without a position in a stream (snapshot "
                f"{found.id}). Read the stream under another name."
            )
        epoch = max(epoch, found.commit_identifier)
        return PositionNote(
            epoch=epoch,
            position=position,
            before=None,
            after=since,
            snapshot=found.id,
            done=True,
            source=properties.get(SOURCE_PROPERTY),
        )

    def _was_rolled_back(self, snapshot_id: int) -> bool:
        """Return whether a rollback, not expiry, deleted the snapshot of the last commit."""
        oldest = self._store.snapshots.earliest_id()
        if not snapshot_id or (oldest is not None and snapshot_id < oldest):
            return False
        try:
            return self._store.snapshots.snapshot(snapshot_id).commit_user != self._user
        except SnapshotNotFoundError:
            return True


def settle_positions(store: FileStore) -> None:
    """Record the positions of all streams after a rollback, while the snapshots still show which commits it withdrew.

    Positions that are not known stay so; the stream meets the error when it continues.
    """
    prefix = store.paths.position("")
    for path in _position_files(store):
        with suppress(CommitStateUnknownError, CorruptFileError, InvalidInputError):
            PositionedCommit(store, path.removeprefix(prefix))


class DoubtedPositions:
    """Positions of streams that a change of the history is about to withdraw."""

    def __init__(self, store: FileStore) -> None:
        self._store = store
        self._before: dict[str, bytes] = {}

    def record(self, first: int) -> None:
        """Record that streams whose last commit is the snapshot `first` or a later one may have lost it: from now on
        they look for their newest commit among the snapshots.
        """
        file_io = self._store.file_io
        for path in _position_files(self._store):
            content = file_io.read_bytes(path)
            with suppress(CorruptFileError):
                note = PositionNote.from_bytes(content, path)
                if note.snapshot >= first and not note.rolled_back:
                    self._before.setdefault(path, content)
                    file_io.overwrite(path, replace(note, rolled_back=True).to_bytes())

    def restore(self) -> None:
        """Restore the notes, because the change did not happen."""
        for path, content in self._before.items():
            self._store.file_io.overwrite(path, content)


def _position_files(store: FileStore) -> list[str]:
    """Return the paths of the notes of all streams."""
    prefix = store.paths.position("")
    return [file.path for file in store.file_io.list(prefix.rpartition("/")[0]) if file.path.startswith(prefix)]


def _check_user(commit_user: str) -> None:
    if not commit_user or "/" in commit_user or not commit_user.isprintable():
        raise InvalidInputError(f"Not the name of a stream's user: {commit_user!r}. It has no slashes.")


def _text(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    raise TypeError(f"{value!r} is no position")
