"""Commits of a stream, numbered by epochs: each exactly once, also when it is asked for again long afterwards.

A snapshot names its user and identifier, by which Paimon knows what was committed, but snapshots expire. So the last
epoch is noted beside them, too:

    <location>/epoch/epoch-<commit user>   {"epoch": 7, "job": "…", "after": 12, "done": true}

The note is written before the commit (`done` is false, `after` the newest snapshot then) and after it. Between the two
the snapshots after `after` show whether the commit happened.

A note goes when nothing has been committed by it for `stream.epoch-note.time-retained` (30 days) and its commit is not
in doubt: a query that comes back later, and whose driver died between its last commit and its own note of it, is known
by its snapshot only. Old notes are looked for when a query commits its first epoch, so that there are no more of them
than queries that began or committed within that time, and one.
"""

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from interbed.storage.base.errors import (
    CommitStateUnknownError,
    CorruptFileError,
    InvalidInputError,
    SnapshotNotFoundError,
)
from interbed.storage.commit.file_store_commit import FileStoreCommit
from interbed.storage.meta.store import TableStore
from interbed.storage.scan.partition_filter import PartitionChoice
from interbed.storage.write.commit_message import CommitMessage


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochNote:
    """What is noted of the last epoch. `job` is who committed it, or tried to; `after` a snapshot id, 0 for none."""

    epoch: int
    job: str
    after: int
    done: bool

    def to_bytes(self) -> bytes:
        """The note as it is kept."""
        value = {"epoch": self.epoch, "job": self.job, "after": self.after, "done": self.done}
        return json.dumps(value, indent=2).encode()

    @staticmethod
    def from_bytes(content: bytes, source: str) -> "EpochNote":
        """The note of bytes made by to_bytes; raises CorruptFileError naming the file."""
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
    """Commits for a user whose identifiers are epochs, in ascending order; no two at a time."""

    def __init__(self, store: TableStore, commit_user: str, clock: Callable[[], float] = time.time) -> None:
        if not commit_user or "/" in commit_user or not commit_user.isprintable():
            raise InvalidInputError(f"Not the name of a stream's user: {commit_user!r}. It has no slashes.")
        self._store = store
        self._user = commit_user
        self._path = store.paths.epoch(commit_user)
        self._clock = clock
        self.gave_up_compaction = False
        """Whether the last epoch's rows were committed, but not their compaction; see FileStoreCommit."""

    def is_committed(self, epoch: int) -> bool:
        """Whether the epoch, or a later one, was committed.

        Raises CommitStateUnknownError when that is no longer known.
        """
        return self._is_committed(self._note(), epoch)

    def _is_committed(self, note: EpochNote | None, epoch: int) -> bool:
        if note is None:
            # Committed by something that keeps no note, or never.
            last = self._store.snapshots.latest_of_user(self._user)
            return last is not None and last.commit_identifier >= epoch
        if note.epoch != epoch or note.done:
            return note.epoch >= epoch
        return self._happened(note)

    def is_job_of(self, epoch: int, job: str) -> bool:
        """Whether that job was the last to try to commit the epoch."""
        note = self._note()
        return note is not None and (note.epoch, note.job) == (epoch, job)

    def commit(self, messages: Sequence[CommitMessage], epoch: int, *, job: str = "") -> list[int] | None:
        """Commit new rows; the snapshots' ids, none when there was nothing to commit, None if the epoch was committed
        before. Then the messages' files are left to the caller. Errors are those of `is_committed` and
        FileStoreCommit.commit.
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
        """The same with the rows in place of those of the partition, {} for all rows, also when there are no rows."""
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
        # Whether the user has committed is known by now, so that it need not be looked for.
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
        # A commit in doubt stays so until somebody has looked into it.
        file_io.delete_quietly([path for path in old if (note := self._note(path)) is None or note.done])

    def _happened(self, note: EpochNote) -> bool:
        """Whether the commit that was begun is among the snapshots made since."""
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
