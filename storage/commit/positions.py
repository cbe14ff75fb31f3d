"""Commits of a stream that note how far it was read: rows and position become visible together, or neither.

What a position is only the stream knows; here it is a text. It is a property of each snapshot, and since snapshots
expire, it is kept beside them as well:

    <location>/position/position-<commit user>
    {"epoch": 7, "position": "…", "before": "…", "after": 12, "snapshot": 11, "done": false,
     "source": "…", "source_before": "…"}

The source is what the position is in, another text, by which the stream finds out that it reads something else. It
stands apart from the position for the sake of older versions, which do not know of it and leave it out.

The note is written before the commit, and after it, when `done` is true and `snapshot` the one that was made. Between
the two the snapshots after `after` show whether the commit happened: then its position holds, and else `before`. When
the table was taken back to before `snapshot`, the newest snapshot of the user says how far its rows reach.

Nobody else commits as the same user meanwhile: CommitConflictError otherwise, so that of two processes that read the
same stream one is refused. What that one noted before is seen not to hold by the snapshots of the other.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from interbed.storage.base.errors import (
    CommitStateUnknownError,
    CorruptFileError,
    InvalidInputError,
    SnapshotNotFoundError,
)
from interbed.storage.commit.file_store_commit import FileStoreCommit
from interbed.storage.meta.snapshot.snapshot import Snapshot
from interbed.storage.meta.store import TableStore
from interbed.storage.write.commit_message import CommitMessage

POSITION_PROPERTY = "interbed.stream.position"
SOURCE_PROPERTY = "interbed.stream.source"


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionNote:
    """What is noted of the last commit that was `done` or begun; ids are those of snapshots, 0 for none."""

    epoch: int
    position: str | None
    before: str | None
    after: int
    snapshot: int
    done: bool
    source: str | None = None
    source_before: str | None = None

    def to_bytes(self) -> bytes:
        """The note as it is kept."""
        return json.dumps(asdict(self), indent=2).encode()

    @staticmethod
    def from_bytes(content: bytes, source: str) -> "PositionNote":
        """The note of bytes made by to_bytes; raises CorruptFileError naming the file."""
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
            )
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptFileError(
                f"{source} is not a note of a stream's position: {error}. Without the file the newest snapshot of the "
                "user says how far the stream was read."
            ) from error


class PositionedCommit:
    """Commits for the user of a stream. Not for use by several threads, nor by several processes at a time."""

    def __init__(self, store: TableStore, commit_user: str) -> None:
        """Find out how far the stream was read; raises CommitStateUnknownError when that is no longer known."""
        if not commit_user or "/" in commit_user or not commit_user.isprintable():
            raise InvalidInputError(f"Not the name of a stream's user: {commit_user!r}. It has no slashes.")
        self._store = store
        self._user = commit_user
        self._path = store.paths.position(commit_user)
        # What is committed as this user after this snapshot was not seen here.
        self._seen = store.snapshots.latest_id() or 0
        self._last = self._restored()
        self.gave_up_compaction = False
        """Whether the last rows were committed, but not their compaction; see FileStoreCommit."""

    @property
    def position(self) -> str | None:
        """How far the stream was read whose rows are in the table; None when nothing is known of it."""
        return self._last.position

    @property
    def source(self) -> str | None:
        """What the position is in; None when nothing is known of it."""
        return self._last.source

    def commit(
        self, store: TableStore, messages: Sequence[CommitMessage], position: str, source: str | None = None
    ) -> list[int]:
        """Commit rows with the position after them; the snapshots' ids. `store` is the table at the rows' schema.

        Raises as FileStoreCommit.commit does. After a CommitStateUnknownError a new object finds out what became of it.
        """
        commit, facts = self._begun(store, position, source)
        return self._done(
            commit, commit.commit(messages, identifier=self._last.epoch, properties=facts, allow_empty=True)
        )

    def overwrite(
        self, store: TableStore, messages: Sequence[CommitMessage], position: str, source: str | None = None
    ) -> list[int]:
        """Replace all rows by those of the messages, with the position after them; the snapshots' ids.

        The messages are those of a writer that knows of no rows before (storage.write.replacing). Raises as
        FileStoreCommit.overwrite does, and otherwise as `commit`.
        """
        commit, facts = self._begun(store, position, source)
        return self._done(commit, commit.overwrite(messages, identifier=self._last.epoch, properties=facts))

    def advance(self, position: str, source: str | None = None) -> None:
        """Note that the stream was read on without rows for this table."""
        if (position, source) != (self._last.position, self._last.source):
            self._write(replace(self._last, position=position, source=source))

    def _begun(self, store: TableStore, position: str, source: str | None) -> tuple[FileStoreCommit, dict[str, str]]:
        """The commit that is noted to be begun, and the properties of its snapshots."""
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
        )
        self._write(begun)
        facts = {POSITION_PROPERTY: position} | ({} if source is None else {SOURCE_PROPERTY: source})
        # Whether the user has committed is known by now, so that it need not be looked for.
        return FileStoreCommit(store, self._user, new_user=True, alone_since=self._seen), facts

    def _done(self, commit: FileStoreCommit, ids: list[int]) -> list[int]:
        self._seen = ids[-1]
        self.gave_up_compaction = commit.gave_up_compaction
        self._write(replace(self._last, snapshot=ids[-1], done=True))
        return ids

    def _write(self, note: PositionNote) -> None:
        self._store.file_io.overwrite(self._path, note.to_bytes())
        self._last = note

    def _restored(self) -> PositionNote:
        """What holds of the stream; a commit that was begun and did not happen leaves what was before."""
        try:
            note = PositionNote.from_bytes(self._store.file_io.read_bytes(self._path), self._path)
        except FileNotFoundError:
            return self._of_newest(0, 0)
        if self._was_taken_back(note.snapshot):
            return self._of_newest(0, note.epoch)
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
        # Its number is used for nothing else: a snapshot of it may still be on its way, and is refused then.
        return replace(note, position=note.before, source=note.source_before, done=True)

    def _of_newest(self, since: int, epoch: int) -> PositionNote:
        """What the newest snapshot of the user after `since` says; `snapshot` is 0 when there is none."""
        found: Snapshot | None = None
        for snapshot in self._store.snapshots.descending():
            if snapshot.id <= since:
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

    def _was_taken_back(self, snapshot_id: int) -> bool:
        """Whether the snapshot of the last commit is gone because the table was rolled back, not by its age."""
        oldest = self._store.snapshots.earliest_id()
        if not snapshot_id or (oldest is not None and snapshot_id < oldest):
            return False
        try:
            return self._store.snapshots.snapshot(snapshot_id).commit_user != self._user
        except SnapshotNotFoundError:
            return True


def _text(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    raise TypeError(f"{value!r} is no position")
