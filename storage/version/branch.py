"""Branches: lines of snapshots that share a table's files.

`branch/branch-<name>/` has a snapshot, a schema and a tag directory of its own; manifests, data and index files lie
with the table's. `main` is the table itself. A branch is made under a hidden name, and moved to one before it is
deleted, where the store renames in one step; elsewhere its first schema comes last and goes first. Source:
documentation page `maintenance/manage-branches`, paimon-core's FileSystemBranchManager.
"""

from collections.abc import Mapping
from dataclasses import replace

from interbed.storage.base.errors import BranchNotFoundError, InterbedError, InvalidInputError, NotSupportedError
from interbed.storage.base.fileio.resolve import renames_directories
from interbed.storage.base.path_name import path_name
from interbed.storage.meta.paths import MAIN_BRANCH
from interbed.storage.meta.snapshot.changelog import ChangelogManager
from interbed.storage.meta.snapshot.line_journal import (
    FileChange,
    LineChange,
    NewLine,
    change_line,
    deletion,
    digests,
    file_change,
)
from interbed.storage.meta.snapshot.lock import NoLock
from interbed.storage.meta.snapshot.snapshot import Snapshot
from interbed.storage.meta.snapshot.tag import TagManager
from interbed.storage.meta.store import TableStore
from interbed.storage.version.branch_merge import merge_branch
from interbed.storage.version.branch_stores import branch_names, half_branches
from interbed.storage.version.clearing import delete_branch_files, hidden_directory, new_directory
from interbed.storage.version.expire import SnapshotExpiry
from interbed.storage.version.rollback import restored
from interbed.storage.version.tag_creation import guarded


class BranchManager:
    """The branches of one table. `store` is the table on its main branch."""

    def __init__(self, store: TableStore) -> None:
        self._store = store if store.paths.branch == MAIN_BRANCH else store.on_branch(MAIN_BRANCH)
        self._file_io = store.file_io

    def names(self) -> list[str]:
        """All branches but `main`, sorted."""
        return branch_names(self._store)

    def create(self, name: str, tag: str | None = None, *, ignore_if_exists: bool = False) -> None:
        """Make a branch: with the table's newest schema and no snapshot, or with what a tag keeps.

        Raises InvalidInputError for a name that can't be or is taken, TagNotFoundError.
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
        """Delete a branch; files that only it has are left for the removal of orphan files. BranchNotFoundError."""
        self._check_exists(name)
        self._take_away(name)

    def clear(self, name: str) -> None:
        """Delete the directory of a branch that was not made to the end; InvalidInputError for one that was."""
        if name not in half_branches(self._store):
            raise InvalidInputError(f"The branch {name!r} is whole, or there is none; delete_branch deletes one.")
        self._take_away(name)

    def rename(self, name: str, new_name: str) -> None:
        """Give a branch another name; raises BranchNotFoundError, InvalidInputError.

        NotSupportedError where the store has no such step.
        """
        self._store.check_exclusive()
        self._check_exists(name)
        check_branch_name(new_name)
        paths = self._store.paths
        if not renames_directories(self._file_io):
            raise NotSupportedError(
                f"The branch {name!r} is a directory in {paths.location}, whose store can't rename one in one step: a "
                "commit meanwhile could be lost. Create a branch of the other name, and delete this one."
            )
        if not self._file_io.rename(paths.branch_directory(name), paths.branch_directory(new_name)):
            raise InvalidInputError(f"There is a branch {new_name!r} already.")

    def merge(self, name: str, into: str = MAIN_BRANCH) -> int | None:
        """Add a branch's files to another one; see `merge_branch`. Raises BranchNotFoundError, too."""
        for branch in (name, into):
            if branch != MAIN_BRANCH:
                self._check_exists(branch)
        return merge_branch(self._store.on_branch(name), self._store.on_branch(into))

    def fast_forward(self, name: str) -> None:
        """Make the table what the branch is: its snapshots, schemas and tags take the place of those since it began.

        Raises BranchNotFoundError, InvalidInputError for a branch without snapshots, or for one that begins beside the
        table's history, where a tag or snapshot that stays needs a schema that would go.
        """
        self._store.check_exclusive()
        self._check_exists(name)
        lock = self._store.environment.lock() if self._store.environment.lock else NoLock()
        with lock.hold():
            change_line(self._file_io, self._store.paths, lambda: self._forward(name))

    def _forward(self, name: str) -> LineChange:
        """What a fast-forward to the branch changes in the table's line."""
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
        # Schemas before snapshots: whoever sees a snapshot finds the schema that it names.
        schemas = branch.schemas.ids()
        for number in schemas:
            first += self._copied(branch.paths.schema(number), main.paths.schema(number))
        for number in main.schemas.ids():
            if number >= first_schema and number not in schemas:
                then += deletion(file_io, main.paths, main.paths.schema(number))
        line = NewLine(
            first=begin,
            before=digests(file_io, main.paths, [n for n in main.snapshots.stored_ids() if n >= begin]),
            after={
                number: file_io.read_bytes(branch.paths.snapshot(number)).decode() for number in branch.snapshots.ids()
            },
            newest=newest,
        )
        began = restored(main, first_snapshot)
        if began != first_snapshot:
            # What the branch began with had expired in the table.
            after = {**line.after, begin: began.to_json()}
            line = replace(line, after=after, newest=began if newest.id == begin else newest)
        for number in ChangelogManager(file_io, main.paths).ids():
            if number >= begin:
                then += deletion(file_io, main.paths, main.paths.changelog(number))
        coming = TagManager(file_io, branch.paths).names()
        staying: dict[str, Snapshot] = {}
        for tag in TagManager(file_io, main.paths).all():
            if tag.name in coming:
                continue
            if tag.snapshot.id >= begin:
                then += deletion(file_io, main.paths, main.paths.tag(tag.name))
            else:
                staying[f"tag {tag.name!r}"] = tag.snapshot
        for snapshot in main.snapshots.all():
            if snapshot.id < begin:
                staying[f"snapshot {snapshot.id}"] = snapshot
        self._check_schemas(name, staying)
        for tag_name in coming:
            then += self._copied(branch.paths.tag(tag_name), main.paths.tag(tag_name))
        return LineChange(what=f"fast-forward to the branch {name!r}", first=tuple(first), line=line, then=tuple(then))

    def _check_schemas(self, name: str, staying: Mapping[str, Snapshot]) -> None:
        """Raise InvalidInputError for a version that would lose its schema to another one's, or for good."""
        main, branch = self._store, self._store.on_branch(name)
        same: dict[int, bool] = {}
        there = set(branch.schemas.ids())
        for what, snapshot in staying.items():
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
        """The schema files up to the id, newest first: a branch is there when it has the first one."""
        return {
            f"schema/schema-{number}": self._file_io.read_bytes(self._store.paths.schema(number)).decode()
            for number in reversed(self._store.schemas.ids())
            if number <= newest
        }

    def _copied(self, source: str, target: str) -> list[FileChange]:
        content = self._file_io.read_bytes(source).decode()
        return file_change(self._file_io, self._store.paths, target, content)

    def _make(self, name: str, files: Mapping[str, str]) -> None:
        """Make the directory of a branch of all files at once, where the store can; in their order else."""
        target = self._store.paths.branch_directory(name)
        if name in half_branches(self._store):
            # What another process did not live to make.
            self._take_away(name)
        at_once = self._file_io.scheme == "file"
        directory = new_directory(self._store) if at_once else target
        try:
            for relative, content in files.items():
                self._file_io.create_exclusive(f"{directory}/{relative}", content.encode())
            if at_once and not self._file_io.rename(directory, target):
                raise InvalidInputError(f"There is a branch {name!r} already.")
        except (InterbedError, OSError):
            if at_once:
                delete_branch_files(self._store, directory)
            raise

    def _take_away(self, name: str) -> None:
        directory = self._store.paths.branch_directory(name)
        if self._file_io.scheme == "file":
            hidden = hidden_directory(self._store)
            if self._file_io.rename(directory, hidden):
                delete_branch_files(self._store, hidden)
            return
        self._file_io.delete(f"{directory}/schema/schema-0")
        delete_branch_files(self._store, directory)


def check_branch_name(name: str) -> str:
    """The name; raises InvalidInputError for one that no branch can have."""
    if name == MAIN_BRANCH:
        raise InvalidInputError("The branch 'main' is the table itself; choose another name.")
    if not path_name("branch", name).isprintable():
        raise InvalidInputError(f"Not a branch name: {name!r}. A name is printable.")
    if name.isdigit():
        raise InvalidInputError(f"Not a branch name: {name!r}. A branch's name is not a number.")
    return name
