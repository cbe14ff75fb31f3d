"""Branches: lines of snapshots that share a table's files.

`branch/branch-<name>/` has a snapshot, a schema and a tag directory of its own; manifests, data and index files lie
with the table's. `main` is the table itself. Source: documentation page `maintenance/manage-branches`, paimon-core's
FileSystemBranchManager.
"""

from interbed.storage.base.errors import BranchNotFoundError, InvalidInputError
from interbed.storage.meta.paths import MAIN_BRANCH
from interbed.storage.meta.snapshot.changelog import ChangelogManager
from interbed.storage.meta.snapshot.tag import TagManager
from interbed.storage.meta.store import TableStore
from interbed.storage.version.branch_merge import merge_branch
from interbed.storage.version.branch_stores import branch_names


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
        check_branch_name(name)
        if name in self.names():
            if ignore_if_exists:
                return
            raise InvalidInputError(f"There is a branch {name!r} already.")
        store = self._store
        if tag is None:
            newest = store.schemas.latest()
            self._copy_schemas(name, store.schema.id if newest is None else newest.id)
            return
        found = TagManager(store.file_io, store.paths).get(tag)
        # The schemas come last: a branch without any is not there for readers.
        self._put(name, f"tag/tag-{tag}", found.to_json())
        self._put(name, f"snapshot/snapshot-{found.snapshot.id}", found.snapshot.to_json())
        self._copy_schemas(name, found.snapshot.schema_id)

    def delete(self, name: str) -> None:
        """Delete a branch; files that only it has are left for the removal of orphan files. BranchNotFoundError."""
        self._check_exists(name)
        self._file_io.delete(self._store.paths.branch_directory(name), recursive=True)

    def rename(self, name: str, new_name: str) -> None:
        """Give a branch another name; raises BranchNotFoundError, InvalidInputError."""
        self._check_exists(name)
        check_branch_name(new_name)
        paths = self._store.paths
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

        Raises BranchNotFoundError, InvalidInputError for a branch without snapshots, or for one from before which the
        table has no snapshot left to go on from.
        """
        self._check_exists(name)
        main, branch = self._store, self._store.on_branch(name)
        begin = branch.snapshots.earliest_id()
        if begin is None:
            raise InvalidInputError(f"The branch {name!r} has no snapshot to go forward to.")
        first_schema = branch.snapshots.read(begin).schema_id
        tags = TagManager(main.file_io, main.paths)
        gone = [main.paths.snapshot(i) for i in main.snapshots.ids() if i >= begin]
        gone += [main.paths.schema(i) for i in main.schemas.ids() if i >= first_schema]
        gone += [main.paths.tag(tag.name) for tag in tags.all() if tag.snapshot.id >= begin]
        self._file_io.delete_quietly([main.paths.latest_hint])
        self._file_io.delete_quietly(gone)
        changelogs = ChangelogManager(main.file_io, main.paths)
        changelogs.delete([number for number in changelogs.ids() if number >= begin])
        # Schemas before snapshots: whoever sees a snapshot finds the schema that it names.
        for schema_id in branch.schemas.ids():
            self._copy(branch.paths.schema(schema_id), main.paths.schema(schema_id))
        for snapshot_id in branch.snapshots.ids():
            self._copy(branch.paths.snapshot(snapshot_id), main.paths.snapshot(snapshot_id))
        for tag in TagManager(branch.file_io, branch.paths).all():
            self._copy(branch.paths.tag(tag.name), main.paths.tag(tag.name))
        latest = branch.snapshots.latest_id()
        if latest is not None:
            main.snapshots.note_latest(latest)

    def _check_exists(self, name: str) -> None:
        if name == MAIN_BRANCH:
            raise InvalidInputError("The branch 'main' is the table itself.")
        names = self.names()
        if name not in names:
            known = f"the table has {', '.join(map(repr, names))}" if names else "the table has no branches"
            raise BranchNotFoundError(f"There is no branch {name!r}; {known}.")

    def _copy_schemas(self, name: str, newest: int) -> None:
        for schema_id in self._store.schemas.ids():
            if schema_id <= newest:
                content = self._file_io.read_bytes(self._store.paths.schema(schema_id))
                self._put(name, f"schema/schema-{schema_id}", content.decode())

    def _copy(self, source: str, target: str) -> None:
        self._file_io.overwrite(target, self._file_io.read_bytes(source))

    def _put(self, name: str, relative: str, content: str) -> None:
        self._file_io.overwrite(f"{self._store.paths.branch_directory(name)}/{relative}", content.encode())


def check_branch_name(name: str) -> str:
    """The name; raises InvalidInputError for one that no branch can have."""
    if name == MAIN_BRANCH:
        raise InvalidInputError("The branch 'main' is the table itself; choose another name.")
    if not name.strip() or "/" in name or "\\" in name or not name.isprintable() or len(name.encode()) > 200:
        raise InvalidInputError(f"Not a branch name: {name!r}. It is 1 to 200 bytes, not blank and without slashes.")
    if name.isdigit():
        raise InvalidInputError(f"Not a branch name: {name!r}. A branch's name is not a number.")
    return name
