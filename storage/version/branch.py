"""Branches: histories of snapshots that share a table's files. Create, rename, delete, fast-forward and merge them.

`branch/branch-<name>/` has a snapshot, a schema and a tag directory of its own; manifests, data and index files lie
with the table's. `main` is the table itself. Where the file system renames directories atomically, a branch is made
under the hidden name `branch/.new-<id>` and renamed to `branch/.deleted-<id>` before it is deleted; elsewhere its first
schema is written last and deleted first. `clear_away` deletes what killed processes left under hidden names.

A merge adds the files of one branch to another one without a copy. It is safe only where both branches have only
appended since they diverged, because files that one of them deleted would reappear. They diverge at the branch's
earliest snapshot, if the other has it as well, otherwise at the beginning. Source: documentation page
`maintenance/manage-branches`, paimon-core's FileSystemBranchManager.
"""

import logging
import uuid
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace

from interbed.storage.base.errors import (
    BranchNotFoundError,
    InterbedError,
    InvalidInputError,
    NotSupportedError,
    StorageAccessError,
)
from interbed.storage.base.path_name import path_name
from interbed.storage.commit.file_store_commit import FileStoreCommit
from interbed.storage.commit.stream_commits import DoubtedPositions, settle_positions
from interbed.storage.io.parallel import delete_all_files, is_link
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.manifest.entry import ManifestEntry
from interbed.storage.meta.paths import MAIN_BRANCH
from interbed.storage.meta.snapshot.history_journal import (
    FileChange,
    HistoryChange,
    NewHistory,
    change_history,
    deletion,
    digests,
    file_change,
)
from interbed.storage.meta.snapshot.manager import ChangelogManager
from interbed.storage.meta.snapshot.snapshot import CommitKind, Snapshot
from interbed.storage.meta.snapshot.tag import TagManager
from interbed.storage.scan.scan import TableScan
from interbed.storage.version.expire import SnapshotExpiry
from interbed.storage.version.references import branch_files, branch_names, half_branches, shortened
from interbed.storage.version.rollback import restored
from interbed.storage.version.tags import guarded
from interbed.storage.write.commit_message import CommitMessage, DataIncrement

_log = logging.getLogger(__name__)

_DELETED = ".deleted-"
_NEW = ".new-"


class BranchManager:
    """Manager of the branches of one table. `store` is the table on its main branch."""

    def __init__(self, store: FileStore) -> None:
        self._store = store if store.paths.branch == MAIN_BRANCH else store.on_branch(MAIN_BRANCH)
        self._file_io = store.file_io

    def names(self) -> list[str]:
        """Return all branches but `main`, sorted."""
        return branch_names(self._store)

    def create(self, name: str, tag: str | None = None, *, ignore_if_exists: bool = False) -> None:
        """Create a branch: with the table's newest schema and no snapshot, or with the snapshot of a tag.

        Raises InvalidInputError for a name that is invalid or taken, TagNotFoundError.
        """
        self._store.check_exclusive()
        check_branch_name(name)
        if name in self.names():
            if ignore_if_exists:
                return
            raise InvalidInputError(f"There is a branch {name!r} already.")
        store = self._store
        if tag is None:
            newest = store.schemas.latest()
            self._make(name, self._schemas(store.schema.id if newest is None else newest.id))
            return
        found = TagManager(store.file_io, store.paths).get(tag)
        files = {
            f"tag/tag-{tag}": found.to_json(),
            f"snapshot/snapshot-{found.snapshot.id}": found.snapshot.to_json(),
            **self._schemas(found.snapshot.schema_id),
        }
        with guarded(store, found.snapshot):
            self._make(name, files)

    def delete(self, name: str) -> None:
        """Delete a branch. The removal of orphan files deletes files that only it has. Raises BranchNotFoundError."""
        self._check_exists(name)
        self._delete_directory(name)

    def clear(self, name: str) -> None:
        """Delete the directory of a branch whose creation was not finished; InvalidInputError for a complete branch."""
        if name not in half_branches(self._store):
            raise InvalidInputError(f"The branch {name!r} is complete, or does not exist; delete_branch deletes one.")
        self._delete_directory(name)

    def rename(self, name: str, new_name: str) -> None:
        """Rename a branch; raises BranchNotFoundError, InvalidInputError.

        NotSupportedError where the file system can't rename directories atomically.
        """
        self._store.check_exclusive()
        self._check_exists(name)
        check_branch_name(new_name)
        paths = self._store.paths
        if not self._file_io.capabilities.atomic_rename:
            raise NotSupportedError(
                f"The branch {name!r} is a directory in {paths.location}, whose store can't rename one in one step: a "
                "commit meanwhile could be lost. Create a branch of the other name, and delete this one."
            )
        if not self._file_io.rename(paths.branch_directory(name), paths.branch_directory(new_name)):
            raise InvalidInputError(f"There is a branch {new_name!r} already.")

    def merge(self, name: str, into: str = MAIN_BRANCH) -> int | None:
        """Add a branch's files to another one; see `merge_branch`. Also raises BranchNotFoundError."""
        for branch in (name, into):
            if branch != MAIN_BRANCH:
                self._check_exists(branch)
        return merge_branch(self._store.on_branch(name), self._store.on_branch(into))

    def fast_forward(self, name: str) -> None:
        """Replace the table's snapshots, schemas and tags since the branch began by those of the branch.

        If the snapshot with which the branch began has expired in it, all snapshots of the table are replaced: earlier
        ones need not be of the branch's history.

        Raises BranchNotFoundError. Raises InvalidInputError for a branch without snapshots, and for one that begins
        outside of the table's history, where a remaining tag or snapshot needs a schema that would be deleted.
        """
        self._store.check_exclusive()
        self._check_exists(name)
        doubted = DoubtedPositions(self._store)
        with self._store.environment.new_lock().hold():
            try:
                change_history(self._file_io, self._store.paths, lambda: self._fast_forward_change(name, doubted))
            except BaseException:
                doubted.restore()
                raise
        settle_positions(self._store)

    def _fast_forward_change(self, name: str, doubted: DoubtedPositions) -> HistoryChange:
        """Return the history change of a fast-forward to the branch; mark the positions that it withdraws."""
        file_io, main, branch = self._file_io, self._store, self._store.on_branch(name)
        for store in (main, branch):
            SnapshotExpiry(store).finish()
        begin, newest = branch.snapshots.earliest_id(), branch.snapshots.latest()
        if begin is None or newest is None:
            raise InvalidInputError(f"The branch {name!r} has no snapshot to go forward to.")
        first_snapshot = branch.snapshots.read(begin)
        first_schema = first_snapshot.schema_id
        first: list[FileChange] = []
        then: list[FileChange] = []
        # Write schemas before snapshots, so that readers of a snapshot find its schema.
        schemas = branch.schemas.ids()
        for number in schemas:
            first += self._copied(branch.paths.schema(number), main.paths.schema(number))
        for number in main.schemas.ids():
            if number >= first_schema and number not in schemas:
                then += deletion(file_io, main.paths, main.paths.schema(number))
        stored = main.snapshots.stored_ids()
        is_shared = begin in stored and main.snapshots.stored(begin).is_same(first_snapshot)
        replaces_all = not is_shared and any(number < begin for number in stored)
        first_replaced = min(stored) if replaces_all else begin
        line = NewHistory(
            first=first_replaced,
            before=digests(file_io, main.paths, [number for number in stored if number >= first_replaced]),
            after={
                number: file_io.read_bytes(branch.paths.snapshot(number)).decode() for number in branch.snapshots.ids()
            },
            newest=newest,
        )
        began = restored(main, first_snapshot)
        if replaces_all:
            began = began.at_the_beginning()
        if began != first_snapshot:
            # It had expired in the table, or other snapshots come before it there.
            after = {**line.after, begin: began.to_json()}
            line = replace(line, after=after, newest=began if newest.id == begin else newest)
        for number in ChangelogManager(file_io, main.paths).ids():
            if number >= begin or replaces_all:
                then += deletion(file_io, main.paths, main.paths.changelog(number))
        branch_tags = TagManager(file_io, branch.paths).names()
        remaining: dict[str, Snapshot] = {}
        for tag in TagManager(file_io, main.paths).all():
            if tag.name in branch_tags:
                continue
            if tag.snapshot.id >= begin:
                then += deletion(file_io, main.paths, main.paths.tag(tag.name))
            else:
                remaining[f"tag {tag.name!r}"] = tag.snapshot
        for snapshot in main.snapshots.all():
            if snapshot.id < first_replaced:
                remaining[f"snapshot {snapshot.id}"] = snapshot
        self._check_schemas(name, remaining)
        for tag_name in branch_tags:
            then += self._copied(branch.paths.tag(tag_name), main.paths.tag(tag_name))
        # Before the change: after a kill between the two a stream fails, or finds its commit.
        doubted.record(0 if replaces_all else begin + 1)
        return HistoryChange(
            what=f"fast-forward to the branch {name!r}", first=tuple(first), line=line, then=tuple(then)
        )

    def _check_schemas(self, name: str, remaining: Mapping[str, Snapshot]) -> None:
        """Raise InvalidInputError for a remaining version whose schema would be replaced or deleted."""
        main, branch = self._store, self._store.on_branch(name)
        same: dict[int, bool] = {}
        there = set(branch.schemas.ids())
        for what, snapshot in remaining.items():
            number = snapshot.schema_id
            if number not in same:
                same[number] = number in there and self._file_io.read_bytes(
                    branch.paths.schema(number)
                ) == self._file_io.read_bytes(main.paths.schema(number))
            if not same[number]:
                raise InvalidInputError(
                    f"The branch {name!r} begins beside the table's history, which was rolled back: the {what} has the "
                    f"schema {number}, which is not the branch's, and could not be read any more. Delete the tag, or "
                    f"roll the table back to before the snapshot {snapshot.id}, and go forward then."
                )

    def _check_exists(self, name: str) -> None:
        if name == MAIN_BRANCH:
            raise InvalidInputError("The branch 'main' is the table itself.")
        names = self.names()
        if name not in names:
            known = f"the table has {', '.join(map(repr, names))}" if names else "the table has no branches"
            raise BranchNotFoundError(f"There is no branch {name!r}; {known}.")

    def _schemas(self, newest: int) -> dict[str, str]:
        """Return the schema files up to the id, newest first: a branch exists when it has the first one."""
        return {
            f"schema/schema-{number}": self._file_io.read_bytes(self._store.paths.schema(number)).decode()
            for number in reversed(self._store.schemas.ids())
            if number <= newest
        }

    def _copied(self, source: str, target: str) -> list[FileChange]:
        content = self._file_io.read_bytes(source).decode()
        return file_change(self._file_io, self._store.paths, target, content)

    def _make(self, name: str, files: Mapping[str, str]) -> None:
        """Create the directory of a branch, atomically where the file system can, otherwise file by file in order."""
        target = self._store.paths.branch_directory(name)
        if name in half_branches(self._store):
            # It is left from a process that died.
            self._delete_directory(name)
        is_atomic = self._file_io.capabilities.exclusive_rename
        directory = new_directory(self._store) if is_atomic else target
        try:
            for relative, content in files.items():
                self._file_io.create_exclusive(f"{directory}/{relative}", content.encode())
            if is_atomic and not self._file_io.rename(directory, target):
                raise InvalidInputError(f"There is a branch {name!r} already.")
        except (InterbedError, OSError):
            if is_atomic:
                delete_branch_files(self._store, directory)
            raise

    def _delete_directory(self, name: str) -> None:
        directory = self._store.paths.branch_directory(name)
        if self._file_io.capabilities.exclusive_rename:
            hidden = hidden_directory(self._store)
            if self._file_io.rename(directory, hidden):
                delete_branch_files(self._store, hidden)
            return
        self._file_io.delete(f"{directory}/schema/schema-0")
        delete_branch_files(self._store, directory)


def check_branch_name(name: str) -> str:
    """Return the name; raises InvalidInputError for one that no branch can have."""
    if name == MAIN_BRANCH:
        raise InvalidInputError("The branch 'main' is the table itself; choose another name.")
    if not path_name("branch", name).isprintable():
        raise InvalidInputError(f"Not a branch name: {name!r}. A name is printable.")
    if name.isdigit():
        raise InvalidInputError(f"Not a branch name: {name!r}. A branch's name is not a number.")
    return name


def new_directory(store: FileStore) -> str:
    """Return the path of a hidden directory for preparing a branch."""
    return f"{_directory(store)}/{_NEW}{uuid.uuid4()}"


def hidden_directory(store: FileStore) -> str:
    """Return the path of a hidden directory that a branch is moved to before it is deleted."""
    return f"{_directory(store)}/{_DELETED}{uuid.uuid4()}"


def clear_away(store: FileStore, limit_millis: int) -> None:
    """Delete branches that were deleted in part, and those prepared before a time, in milliseconds since the epoch."""
    for entry in store.file_io.list(_directory(store)):
        modified = entry.modified_millis
        if entry.name.startswith(_DELETED) or (
            entry.name.startswith(_NEW) and modified is not None and modified < limit_millis
        ):
            delete_branch_files(store, entry.path)


def delete_branch_files(store: FileStore, directory: str) -> None:
    """Delete a branch's files, and its directory if no foreign files are in it; otherwise log them.

    Raises StorageAccessError.
    """
    file_io = store.file_io
    if is_link(file_io, directory):
        file_io.delete(directory)
        return
    files, directories, foreign = branch_files(file_io, directory)
    delete_all_files(file_io, files)
    if foreign:
        _log.warning(
            "Kept %s, because it holds files that no branch has made: %s.", directory, shortened(foreign, directory)
        )
        return
    for path in reversed(directories):
        with suppress(StorageAccessError, FileNotFoundError):
            file_io.delete(path)
    file_io.delete(directory)


def _directory(store: FileStore) -> str:
    main = store.paths if store.paths.branch == MAIN_BRANCH else store.on_branch(MAIN_BRANCH).paths
    return main.branch_directory("x").rpartition("/")[0]


_FIRST = 1
_HARMLESS = frozenset({CommitKind.APPEND, CommitKind.ANALYZE})


def merge_branch(source: FileStore, target: FileStore) -> int | None:
    """Add the files that only the source branch has. Return the target's new snapshot, None without any.

    Raises NotSupportedError for tables with a primary key or row tracking, InvalidInputError for branches that do not
    fit, and as a commit does. The source is never changed.
    """
    there, here = source.paths.branch, target.paths.branch
    if there == here:
        raise InvalidInputError(f"The branch '{there}' can't be merged into itself.")
    _check_tables(source, target)
    diverged = _diverged_at(source, target)
    for store in (source, target):
        _check_appends_only(store, diverged)
    present = {entry.identifier for entry in _live_entries(target)}
    wanted = [entry for entry in _live_entries(source) if entry.identifier not in present]
    for schema_id in sorted({entry.file.schema_id for entry in wanted}):
        known = schema_id in target.schemas.ids()
        if not known or target.schemas.schema(schema_id).fields != source.schemas.schema(schema_id).fields:
            raise InvalidInputError(
                f"Files of the branch '{there}' have its schema {schema_id}, which '{here}' does not have; "
                "copy the rows by INSERT INTO … SELECT instead."
            )
    messages = [
        CommitMessage(
            bucket_id=entry.bucket_id,
            total_buckets=entry.total_buckets,
            data=DataIncrement(new_files=(entry.file,)),
        )
        for entry in wanted
    ]
    if not messages:
        return None
    commit = FileStoreCommit(target, str(uuid.uuid4()), new_user=True)
    return commit.commit(messages, check_append_conflicts=True, owns_files=False)[-1]


def _live_entries(store: FileStore) -> list[ManifestEntry]:
    return TableScan(store).entries()


def _check_tables(source: FileStore, target: FileStore) -> None:
    for store in (source, target):
        branch = store.paths.branch
        if store.schema.has_primary_key:
            raise NotSupportedError(
                "Only branches of append tables are merged, where rows have no key; write the branch's rows by "
                "MERGE INTO or INSERT INTO … SELECT instead."
            )
        if store.options.boolean("row-tracking.enabled", False):
            raise NotSupportedError(f"The branch '{branch}' tracks rows by ids that another branch has, too.")
        if store.snapshots.latest_id() is None:
            raise InvalidInputError(f"The branch '{branch}' has no snapshot, so there is nothing to merge.")
    if source.schema.fields != target.schema.fields:
        raise InvalidInputError(
            f"The branches '{source.paths.branch}' and '{target.paths.branch}' have different columns; alter one of "
            "them first."
        )


def _diverged_at(source: FileStore, target: FileStore) -> int:
    """Return the first snapshot in which the branches differ; both share the one before it."""
    for one, other in ((source, target), (target, source)):
        first = one.snapshots.earliest_id()
        if first is not None and first > _FIRST and other.snapshots.exists(first):
            mine, yours = one.snapshots.snapshot(first), other.snapshots.snapshot(first)
            if _identity(mine) == _identity(yours):
                return first + 1
    return _FIRST


def _identity(snapshot: Snapshot) -> tuple[str, str, str]:
    return snapshot.base_manifest_list, snapshot.delta_manifest_list, snapshot.commit_user


def _check_appends_only(store: FileStore, diverged: int) -> None:
    branch, ids = store.paths.branch, store.snapshots.ids()
    later = [number for number in ids if number >= diverged]
    complete = list(range(diverged, ids[-1] + 1))
    if later != complete:
        raise InvalidInputError(
            f"The branch '{branch}' lacks snapshots since {diverged}, where the branches diverge, so it is unknown "
            "what it deleted; copy the rows by INSERT INTO … SELECT instead."
        )
    for number in later:
        kind = store.snapshots.snapshot(number).commit_kind
        if kind not in _HARMLESS:
            raise InvalidInputError(
                f"Snapshot {number} of the branch '{branch}' is of the kind {kind.value}, and only branches that "
                "nothing but appended since they parted are merged; copy the rows by INSERT INTO … SELECT instead."
            )
