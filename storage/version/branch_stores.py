"""The lines of versions that share a table's files: its main branch and the others.

Files of one line are used by another only where that one branched off; what a line still uses of them only ever gets
less. So its oldest snapshot and its tags together name every shared file that it still needs.
"""

from collections.abc import Iterable, Sequence

from interbed.storage.base.errors import CorruptFileError
from interbed.storage.meta.paths import MAIN_BRANCH
from interbed.storage.meta.snapshot.snapshot import Snapshot
from interbed.storage.meta.snapshot.tag import TagManager
from interbed.storage.meta.store import TableStore

_PREFIX = "branch-"


def branch_names(store: TableStore) -> list[str]:
    """The names of the table's branches but the main one, sorted."""
    directory = store.paths.branch_directory("x").rpartition("/")[0]
    found = (s.name for s in store.file_io.list(directory) if s.is_directory)
    return sorted(name.removeprefix(_PREFIX) for name in found if name.startswith(_PREFIX))


def all_branches(store: TableStore) -> list[TableStore]:
    """The table on its main branch and on each other.

    Raises CorruptFileError for a branch without a schema: what it needs is unknown.
    """
    lines = [store.on_branch(MAIN_BRANCH)]
    for name in branch_names(store):
        try:
            lines.append(store.on_branch(name))
        except LookupError as error:
            raise CorruptFileError(
                f"The branch {name!r} of the table at {store.location} has no schema, so it is unknown which files "
                "it needs; delete the branch."
            ) from error
    return lines


def tagged_snapshots(line: TableStore) -> list[Snapshot]:
    """The snapshots that the line's tags keep, by their ids."""
    return [tag.snapshot for tag in TagManager(line.file_io, line.paths).all()]


def roots_of_others(store: TableStore) -> Sequence[Snapshot]:
    """The snapshots that name what other lines than the store's own need of its files."""
    names = [MAIN_BRANCH, *branch_names(store)]
    if names == [store.paths.branch]:
        return ()
    return [root for line in all_branches(store) if line.paths.branch != store.paths.branch for root in _roots(line)]


def _roots(line: TableStore) -> Iterable[Snapshot]:
    earliest = line.snapshots.earliest_id()
    if earliest is not None:
        yield line.snapshots.read(earliest)
    yield from tagged_snapshots(line)
