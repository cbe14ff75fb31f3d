"""Redo journal of a change to the versions of a table: `schema/.journal`, beside the schemas of its history.

A rollback, a fast-forward and the renaming of a tag change several small files. Their new contents are written to one
file first, and then applied. A process that opens the table, or commits to it, lists its schemas, sees the journal of a
process that was killed, and does the rest. One process at a time applies it: on a local file system by a lock of the
operating system on the journal, which ends with the process that holds it; elsewhere by that of the catalog, where
there is one, and each step reads the current state and the journal before it changes anything.

Readers that know no journal see one version or the other as well: while snapshots are added and deleted, the newest of
all ids always names the rows of before or those of after. Where the new history ends before the old one, the newest
snapshot is first replaced by a copy of the new history's last one, under its own id; it is deleted when all others have
their final state.

The file has two equal lines, of which one is enough: the sha256 of the rest of the line, a blank, and JSON: `id`,
`what` (for messages), `first` and `then` (files: path below the history's directory, sha256 of the content before,
content after; null where there is no file), `line` (`first`, `before`: sha256 by id, `after`: content by id, `newest`:
id and content, or null). interbed's own.
"""

import hashlib
import json
import logging
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from interbed.storage.base.errors import CommitFailedError, CorruptFileError, InterbedError, StorageAccessError
from interbed.storage.io.api import FileIO
from interbed.storage.io.file_lock import FileLock
from interbed.storage.meta.paths import LINE_JOURNAL, TablePaths, numbers_of
from interbed.storage.meta.snapshot.expiry_mark import ExpiryMarks
from interbed.storage.meta.snapshot.snapshot import Snapshot

_log = logging.getLogger(__name__)
_PREFIX = "snapshot-"
_TRIES = 5
WAIT_SECONDS = 10.0
"""Time to wait for another process that applies the change; the change takes milliseconds for each snapshot."""
_ROUNDS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChange:
    """File below the history's directory: the sha256 of its old content, and its new content; None without a file."""

    path: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewHistory:
    """Change of the snapshots from `first` on: those of `before` (sha256 by id) are deleted, those of `after` added.

    `newest` is the last snapshot of the new history, which may be one from before `first`.
    """

    first: int
    before: Mapping[int, str]
    after: Mapping[int, str]
    newest: Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryChange:
    """Change as a whole: files, then the snapshots, then other files."""

    what: str
    first: tuple[FileChange, ...] = ()
    line: NewHistory | None = None
    then: tuple[FileChange, ...] = ()
    id: str = field(default_factory=lambda: str(uuid.uuid4()))

    def to_json(self) -> str:
        """Return the content of the journal."""
        line = self.line
        members = {
            "id": self.id,
            "what": self.what,
            "first": [[c.path, c.before, c.after] for c in self.first],
            "then": [[c.path, c.before, c.after] for c in self.then],
            "line": None
            if line is None
            else {
                "first": line.first,
                "before": {str(k): v for k, v in line.before.items()},
                "after": {str(k): v for k, v in line.after.items()},
                "newest": line.newest.to_json(),
            },
        }
        body = json.dumps(members)
        return f"{digest(body.encode())} {body}\n" * 2

    @staticmethod
    def from_json(content: bytes, *, source: str) -> "HistoryChange":
        """Read the change in a journal; raises CorruptFileError."""
        try:
            value = json.loads(_undamaged(content))
            line = value["line"]
            return HistoryChange(
                id=str(value["id"]),
                what=str(value["what"]),
                first=_changes(value["first"]),
                then=_changes(value["then"]),
                line=None
                if line is None
                else NewHistory(
                    first=int(line["first"]),
                    before={int(k): str(v) for k, v in line["before"].items()},
                    after={int(k): str(v) for k, v in line["after"].items()},
                    newest=Snapshot.from_json(line["newest"], source=source),
                ),
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise CorruptFileError(
                f"{source} is not a journal: {error}. Versions may be those of before a change, or of after it, and "
                "can be read; `interbed table fsck --repair` puts it aside, so that the table can be changed again."
            ) from error


def _undamaged(content: bytes) -> bytes:
    """Return the JSON of the first intact line; raises ValueError."""
    for line in content.splitlines():
        checksum, _, body = line.partition(b" ")
        if checksum == digest(body).encode():
            return body
    raise ValueError("both copies of the change are damaged")


def file_change(file_io: FileIO, paths: TablePaths, path: str, after: str | None) -> list[FileChange]:
    """Return the change of one file of the history to that content (None: deletion); none when nothing changes."""
    try:
        found = file_io.read_bytes(path)
    except FileNotFoundError:
        found = None
    if found == (None if after is None else after.encode()):
        return []
    relative = path.removeprefix(paths.branch_directory(paths.branch)).lstrip("/")
    return [FileChange(path=relative, before=None if found is None else digest(found), after=after)]


def deletion(file_io: FileIO, paths: TablePaths, path: str) -> list[FileChange]:
    """Return the change that deletes a file of the history; none when it does not exist."""
    return file_change(file_io, paths, path, None)


def digests(file_io: FileIO, paths: TablePaths, snapshot_ids: Iterable[int]) -> dict[int, str]:
    """Return the sha256 of the files of existing snapshots, by id."""
    found = {}
    for number in snapshot_ids:
        with suppress(FileNotFoundError):
            found[number] = digest(file_io.read_bytes(paths.snapshot(number)))
    return found


def digest(content: bytes) -> str:
    """Return the sha256 of a file's content, in hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()


def change_history(file_io: FileIO, paths: TablePaths, make: Callable[[], HistoryChange]) -> None:
    """Apply the change that `make()` returns, after an unfinished one was completed.

    `make` is called again when another process writes a journal, or expires snapshots, at the same time. Raises
    CommitFailedError when that happens repeatedly, CorruptFileError for a journal, or a mark of an expiry, that can't
    be read.
    """
    marks = ExpiryMarks(file_io, paths)
    for _ in range(_TRIES):
        if finish_history_change(file_io, paths) is JournalOutcome.BUSY:
            continue
        # A change that can't be applied must not be written.
        marks.check()
        change = make()
        if file_io.create_exclusive(_journal(paths), change.to_json().encode()):
            redo = _JournalRedo(file_io, paths, change)
            finish = redo.run()
            if finish is JournalOutcome.DONE:
                return
            if finish is JournalOutcome.VOID:
                redo.give_up()
    raise CommitFailedError(
        f"Other processes change the versions of the table at {paths.location} at the same time; try again."
    )


def find_history_change(file_io: FileIO, paths: TablePaths) -> HistoryChange | None:
    """Return the change that is under way or unfinished; None without one. Raises CorruptFileError."""
    path = _journal(paths)
    try:
        return HistoryChange.from_json(file_io.read_bytes(path), source=path)
    except FileNotFoundError:
        return None


def put_aside(file_io: FileIO, paths: TablePaths) -> None:
    """Rename a journal that can't be read, so that it is ignored."""
    file_io.rename(_journal(paths), f"{_journal(paths)}-damaged-{uuid.uuid4()}")


class JournalOutcome(StrEnum):
    """Outcome of a journal: there was none, it is applied, it can't be applied, or another process applies it."""

    NONE = "none"
    DONE = "done"
    VOID = "void"
    BUSY = "busy"


def finish_history_change(file_io: FileIO, paths: TablePaths) -> JournalOutcome:
    """Apply the steps of a journal that are left. Waits for a limited time for another process that applies it.

    Raises CorruptFileError for a journal that can't be read, StorageAccessError where this process may not write.
    """
    change = find_history_change(file_io, paths)
    if change is None:
        return JournalOutcome.NONE
    _log.info("Going on with the %s of the table at %s.", change.what, paths.location)
    try:
        return _JournalRedo(file_io, paths, change).run()
    except StorageAccessError as error:
        raise StorageAccessError(
            f"The table at {paths.location} is in the middle of a {change.what}, which this process can't end: {error} "
            "Open it once where it can be written."
        ) from error


class _JournalRedo:
    """Application of the steps of one change that are left."""

    def __init__(self, file_io: FileIO, paths: TablePaths, change: HistoryChange) -> None:
        self._file_io = file_io
        self._paths = paths
        self._change = change
        self._root = paths.branch_directory(paths.branch)

    def run(self) -> JournalOutcome:
        """Apply the steps. VOID when nothing was done, because the remaining snapshots are being expired."""
        if not self._file_io.capabilities.file_locks:
            return self._run()
        with FileLock(_journal(self._paths)) as lock:
            try:
                if not lock.take(WAIT_SECONDS) and lock.is_possible:
                    return JournalOutcome.BUSY
            except FileNotFoundError:
                return JournalOutcome.DONE
            except OSError as error:
                # The mount does not support locks.
                _log.debug("No lock on %s: %s", _journal(self._paths), error)
            return self._run() if self._is_current() else JournalOutcome.DONE

    def _run(self) -> JournalOutcome:
        line = self._change.line
        if line is not None and not self._is_clear(line):
            return JournalOutcome.VOID
        for change in self._change.first:
            self._apply(change)
        if line is not None:
            self._replace_snapshots(line)
        for change in self._change.then:
            self._apply(change)
        self.give_up()
        return JournalOutcome.DONE

    def give_up(self) -> None:
        """Delete the journal, if it is still this one."""
        if self._is_current():
            self._file_io.delete(_journal(self._paths))

    def _is_clear(self, line: NewHistory) -> bool:
        """Return whether no expiry deletes the newest snapshot of the new history.

        An expiry looks for a journal between its mark and its decision, so an undecided one yields.
        """
        marks = ExpiryMarks(self._file_io, self._paths)
        mark = marks.find()
        if mark is not None and not marks.take_back(mark):
            return False
        if line.newest.id in line.after or self._read(self._paths.snapshot(line.newest.id)) is not None:
            return True
        _log.warning("The %s of the table at %s is given up: its snapshot expired.", self._change.what, self._root)
        self.give_up()
        return False

    def _is_current(self) -> bool:
        """Return whether the journal still exists: otherwise another process has finished it."""
        try:
            found = find_history_change(self._file_io, self._paths)
        except CorruptFileError:
            return False
        return found is not None and found.id == self._change.id

    def _apply(self, change: FileChange) -> None:
        path = f"{self._root}/{change.path}"
        found = self._read(path)
        now = None if found is None else digest(found)
        after = None if change.after is None else change.after.encode()
        if now == (None if after is None else digest(after)):
            return
        if now != change.before:
            # Another process has changed it since, after it had seen this change as a whole.
            _log.warning("Left %s unchanged: another process has changed it.", path)
            return
        if not self._is_current():
            return
        if after is None:
            self._file_io.delete(path)
        elif now is None:
            self._file_io.create_exclusive(path, after)
        else:
            self._file_io.overwrite(path, after)

    # -- snapshots -------------------------------------------------------------------------------------------------

    def _replace_snapshots(self, line: NewHistory) -> None:
        # A writer that has read the old newest snapshot may still add one to it: repeat until none is left.
        for _ in range(_ROUNDS):
            ids = [number for number in self._ids() if number >= line.first]
            last = max(ids, default=0)
            self._show_newest(line, last)
            # Ascending, so that a process that takes an old id for the newest, because the next one is missing, misses
            # it as well.
            for number in sorted({*ids, *line.after} - {last}):
                self._set_snapshot(line, number)
            self._hint(self._paths.latest_hint, line.newest.id)
            if last != line.newest.id:
                self._set_snapshot(line, last)
            ids = self._ids()
            if not ids or ids[-1] <= line.newest.id:
                self._hint(self._paths.earliest_hint, min(ids, default=line.newest.id))
                return
            if not self._is_current():
                return
        raise CommitFailedError(f"Writers add snapshots to {self._root} faster than they are withdrawn; stop them.")

    def _show_newest(self, line: NewHistory, last: int) -> None:
        """Let the newest of all ids name the rows of the new history."""
        if last <= line.newest.id:
            for number in sorted((n for n in line.after if n >= last), reverse=True):
                self._set_snapshot(line, number)
            return
        self._put(line, last, self._copy(line, last).to_json().encode())

    def _set_snapshot(self, line: NewHistory, number: int) -> None:
        """Bring the snapshot of that id to its final state."""
        self._put(line, number, line.after[number].encode() if number in line.after else None)

    def _put(self, line: NewHistory, number: int, after: bytes | None) -> None:
        path = self._paths.snapshot(number)
        found = self._read(path)
        if found == after or (found is not None and not self._may_be_replaced(line, number)):
            return
        if not self._is_current():
            return
        if after is None:
            self._file_io.delete(path)
        elif found is None:
            self._file_io.create_exclusive(path, after)
        else:
            self._file_io.overwrite(path, after)
        # Without a lock another process may have finished before this change's own copy was written.
        is_copy = after is not None and self._change.id.encode() in after
        if is_copy and not self._is_current() and self._read(path) == after:
            self._file_io.delete(path)

    def _may_be_replaced(self, line: NewHistory, number: int) -> bool:
        """Return whether it is a snapshot of the old history, a later one on top of that, or this change's own copy.

        A snapshot that a writer has put in the place of an old one depends on deleted ones as well.
        """
        return number in line.before or number > max(line.before, default=0)

    def _copy(self, line: NewHistory, number: int) -> Snapshot:
        return replace(line.newest, id=number, uuid=self._change.id)

    def _ids(self) -> list[int]:
        names = (s.name for s in self._file_io.list(self._paths.snapshot(1).rpartition("/")[0]) if not s.is_directory)
        return numbers_of(names, _PREFIX)

    def _hint(self, path: str, number: int) -> None:
        try:
            self._file_io.overwrite(path, str(number).encode(), durable=False)
        except (InterbedError, OSError) as error:
            _log.warning("Left the hint %s as it is: %s", path, error)

    def _read(self, path: str) -> bytes | None:
        try:
            return self._file_io.read_bytes(path)
        except FileNotFoundError:
            return None


def _journal(paths: TablePaths) -> str:
    return f"{paths.schema(0).rpartition('/')[0]}/{LINE_JOURNAL}"


def _changes(value: Sequence[Sequence[Any]]) -> tuple[FileChange, ...]:
    return tuple(FileChange(path=p, before=before, after=after) for p, before, after in value)
