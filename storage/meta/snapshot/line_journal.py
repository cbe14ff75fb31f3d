"""The redo journal of a change to the versions of a table: `schema/.journal`, beside the schemas of the line it is of.

A rollback, a fast-forward and the renaming of a tag change several small files. What they are to become is written
down in one file first, and then done. Who opens the table, or commits to it, lists its schemas, sees the journal of a
process that was killed, and does the rest. One process at a time is at it: on a local file system by a lock of the
operating system on the journal, which ends with the process that holds it; elsewhere by that of the catalog, where
there is one, and each step looks at what is there and at the journal before it changes anything.

Readers that know no journal see one version or the other as well: while snapshots come and go, the newest of all ids
always names the rows of before or those of after. Where the new line ends before the old one, the newest snapshot is
first made a copy of the new line's last one, under its own id; it goes when all others are what they shall be.

Two equal lines, of which one is enough: the sha256 of the rest of the line, a blank, and JSON: `id`, `what` (for
messages), `first` and `then` (files: path below the line's directory, sha256 of the content before, content after; null
where there is no file), `line` (`first`, `before`: sha256 by id, `after`: content by id, `newest`: id and content, or
null). interbed's own.
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
from interbed.storage.base.fileio.api import FileIO
from interbed.storage.base.fileio.file_lock import FileLock
from interbed.storage.meta.paths import LINE_JOURNAL, TablePaths, numbers_of
from interbed.storage.meta.snapshot.expiry_mark import ExpiryMarks
from interbed.storage.meta.snapshot.snapshot import Snapshot

_log = logging.getLogger(__name__)
_PREFIX = "snapshot-"
_TRIES = 5
WAIT_SECONDS = 10.0
"""How long one waits for another process that is at the change; it takes milliseconds for each snapshot."""
_ROUNDS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChange:
    """A file below the line's directory: the sha256 of what it holds, and what it shall hold; None where it is not."""

    path: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewLine:
    """What becomes of the snapshots from `first` on: those of `before` (sha256 by id) go, those of `after` come.

    `newest` is the last snapshot of the new line, which may be one from before `first`.
    """

    first: int
    before: Mapping[int, str]
    after: Mapping[int, str]
    newest: Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class LineChange:
    """A change as a whole: files, then the snapshots, then other files."""

    what: str
    first: tuple[FileChange, ...] = ()
    line: NewLine | None = None
    then: tuple[FileChange, ...] = ()
    id: str = field(default_factory=lambda: str(uuid.uuid4()))

    def to_json(self) -> str:
        """The content of the journal."""
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
    def from_json(content: bytes, *, source: str) -> "LineChange":
        """The change that a journal holds; raises CorruptFileError."""
        try:
            value = json.loads(_undamaged(content))
            line = value["line"]
            return LineChange(
                id=str(value["id"]),
                what=str(value["what"]),
                first=_changes(value["first"]),
                then=_changes(value["then"]),
                line=None
                if line is None
                else NewLine(
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
    """The JSON of the first line that is whole; raises ValueError."""
    for line in content.splitlines():
        checksum, _, body = line.partition(b" ")
        if checksum == digest(body).encode():
            return body
    raise ValueError("both copies of the change are damaged")


def file_change(file_io: FileIO, paths: TablePaths, path: str, after: str | None) -> list[FileChange]:
    """The change of one file of the line, as it is now, to that content (None: it goes); none when it is so already."""
    try:
        found = file_io.read_bytes(path)
    except FileNotFoundError:
        found = None
    if found == (None if after is None else after.encode()):
        return []
    relative = path.removeprefix(paths.branch_directory(paths.branch)).lstrip("/")
    return [FileChange(path=relative, before=None if found is None else digest(found), after=after)]


def deletion(file_io: FileIO, paths: TablePaths, path: str) -> list[FileChange]:
    """The change that deletes a file of the line; none when it is not there."""
    return file_change(file_io, paths, path, None)


def digests(file_io: FileIO, paths: TablePaths, snapshot_ids: Iterable[int]) -> dict[int, str]:
    """The sha256 of the files of the snapshots, but for those that have gone, by id."""
    found = {}
    for number in snapshot_ids:
        with suppress(FileNotFoundError):
            found[number] = digest(file_io.read_bytes(paths.snapshot(number)))
    return found


def digest(content: bytes) -> str:
    """The sha256 of a file's content, in hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()


def change_line(file_io: FileIO, paths: TablePaths, make: Callable[[], LineChange]) -> None:
    """Carry out the change that `make()` returns, after what another one left undone.

    `make` is called again when another process writes a journal, or expires snapshots, at the same time. Raises
    CommitFailedError when that happens again and again, CorruptFileError for a journal, or a mark of an expiry, that
    can't be read.
    """
    marks = ExpiryMarks(file_io, paths)
    for _ in range(_TRIES):
        if finish_line_change(file_io, paths) is Finish.BUSY:
            continue
        # What could not be carried out is not written down.
        marks.check()
        change = make()
        if file_io.create_exclusive(_journal(paths), change.to_json().encode()):
            redo = _Redo(file_io, paths, change)
            finish = redo.run()
            if finish is Finish.DONE:
                return
            if finish is Finish.VOID:
                redo.give_up()
    raise CommitFailedError(
        f"Other processes change the versions of the table at {paths.location} at the same time; try again."
    )


def find_line_change(file_io: FileIO, paths: TablePaths) -> LineChange | None:
    """The change that is under way, or that a process did not live to end; None without one. CorruptFileError."""
    path = _journal(paths)
    try:
        return LineChange.from_json(file_io.read_bytes(path), source=path)
    except FileNotFoundError:
        return None


def put_aside(file_io: FileIO, paths: TablePaths) -> None:
    """Give a journal that can't be read a name by which nobody takes it for one."""
    file_io.rename(_journal(paths), f"{_journal(paths)}-damaged-{uuid.uuid4()}")


class Finish(StrEnum):
    """What became of a journal: there was none, all of it is done, it can't be done, or another process is at it."""

    NONE = "none"
    DONE = "done"
    VOID = "void"
    BUSY = "busy"


def finish_line_change(file_io: FileIO, paths: TablePaths) -> Finish:
    """Do what a journal says that is not done yet; another process at it is waited for, but not for ever.

    Raises CorruptFileError for a journal that can't be read, StorageAccessError where this process may not write.
    """
    change = find_line_change(file_io, paths)
    if change is None:
        return Finish.NONE
    _log.info("Going on with the %s of the table at %s.", change.what, paths.location)
    try:
        return _Redo(file_io, paths, change).run()
    except StorageAccessError as error:
        raise StorageAccessError(
            f"The table at {paths.location} is in the middle of a {change.what}, which this process can't end: {error} "
            "Open it once where it can be written."
        ) from error


class _Redo:
    """Does the steps of one change that are not done yet."""

    def __init__(self, file_io: FileIO, paths: TablePaths, change: LineChange) -> None:
        self._file_io = file_io
        self._paths = paths
        self._change = change
        self._root = paths.branch_directory(paths.branch)

    def run(self) -> Finish:
        """Do them; VOID when nothing was done, because the snapshots that are to stay are being expired."""
        if self._file_io.scheme != "file":
            return self._run()
        with FileLock(_journal(self._paths)) as lock:
            try:
                if not lock.take(WAIT_SECONDS) and lock.is_possible:
                    return Finish.BUSY
            except FileNotFoundError:
                return Finish.DONE
            except OSError as error:
                # A mount without locks.
                _log.debug("No lock on %s: %s", _journal(self._paths), error)
            return self._run() if self._stands() else Finish.DONE

    def _run(self) -> Finish:
        line = self._change.line
        if line is not None and not self._is_clear(line):
            return Finish.VOID
        for change in self._change.first:
            self._apply(change)
        if line is not None:
            self._new_line(line)
        for change in self._change.then:
            self._apply(change)
        self.give_up()
        return Finish.DONE

    def give_up(self) -> None:
        """Delete the journal, if it is still this one."""
        if self._stands():
            self._file_io.delete(_journal(self._paths))

    def _is_clear(self, line: NewLine) -> bool:
        """Whether no expiry takes the newest snapshot of the new line away.

        An expiry looks for a journal between its mark and its decision, so one that has not decided yet gives way.
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

    def _stands(self) -> bool:
        """Whether the journal is still there: where it is not, another process has come to the end."""
        try:
            found = find_line_change(self._file_io, self._paths)
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
            # Somebody has changed it since, who had seen this change as a whole.
            _log.warning("Left %s as it is: it was changed by somebody else.", path)
            return
        if not self._stands():
            return
        if after is None:
            self._file_io.delete(path)
        elif now is None:
            self._file_io.create_exclusive(path, after)
        else:
            self._file_io.overwrite(path, after)

    # -- snapshots -------------------------------------------------------------------------------------------------

    def _new_line(self, line: NewLine) -> None:
        # A writer that has read the old newest snapshot may yet add one to it: until none is left, one looks again.
        for _ in range(_ROUNDS):
            ids = [number for number in self._ids() if number >= line.first]
            last = max(ids, default=0)
            self._show_newest(line, last)
            # Ascending: whoever takes an old id for the newest because the one after it is gone finds it gone as well.
            for number in sorted({*ids, *line.after} - {last}):
                self._settle(line, number)
            self._hint(self._paths.latest_hint, line.newest.id)
            if last > line.newest.id:
                self._settle(line, last)
            ids = self._ids()
            if not ids or ids[-1] <= line.newest.id:
                self._hint(self._paths.earliest_hint, min(ids, default=line.newest.id))
                return
            if not self._stands():
                return
        raise CommitFailedError(f"Writers add snapshots to {self._root} faster than they are taken back; stop them.")

    def _show_newest(self, line: NewLine, last: int) -> None:
        """Let the newest id of all name the rows of the new line."""
        if last <= line.newest.id:
            for number in sorted((n for n in line.after if n >= last), reverse=True):
                self._settle(line, number)
            return
        self._put(line, last, self._copy(line, last).to_json().encode())

    def _settle(self, line: NewLine, number: int) -> None:
        """Make the snapshot of that id what it shall be."""
        self._put(line, number, line.after[number].encode() if number in line.after else None)

    def _put(self, line: NewLine, number: int, after: bytes | None) -> None:
        path = self._paths.snapshot(number)
        found = self._read(path)
        if found == after or (found is not None and not self._may_go(line, number)):
            return
        if not self._stands():
            return
        if after is None:
            self._file_io.delete(path)
        elif found is None:
            self._file_io.create_exclusive(path, after)
        else:
            self._file_io.overwrite(path, after)
        # Where there is no lock another process may have come to the end before this change's own copy was written.
        is_copy = after is not None and self._change.id.encode() in after
        if is_copy and not self._stands() and self._read(path) == after:
            self._file_io.delete(path)

    def _may_go(self, line: NewLine, number: int) -> bool:
        """Whether it is a snapshot of the old line, a later one on top of that, or this change's own copy.

        One that a writer has put in the place of an old one builds on what is gone as well.
        """
        return number in line.before or number > max(line.before, default=0)

    def _copy(self, line: NewLine, number: int) -> Snapshot:
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
