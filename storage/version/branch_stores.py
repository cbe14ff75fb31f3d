"""The lines of versions that share a table's files: its main branch and the others.

Files of one line are used by another where that one branched off, where it was forwarded to, and where one was merged
into the other. The metadata that two lines share are those of a snapshot that both have. Data files come into a line
with its oldest snapshot and with what later ones add, so that these and its tags together name every one that it needs.
A branch is there when it has the first schema: that is what its creation ends with, and its deletion begins with.
"""

from dataclasses import dataclass, field

from interbed.storage.base.errors import InterbedError
from interbed.storage.meta.paths import MAIN_BRANCH
from interbed.storage.meta.snapshot.snapshot import Snapshot
from interbed.storage.meta.snapshot.tag import TagManager
from interbed.storage.meta.store import TableStore

_PREFIX = "branch-"


def branch_names(store: TableStore) -> list[str]:
    """The names of the table's branches but the main one, sorted; half of a branch is none."""
    return [name for name, is_whole in _directories(store).items() if is_whole]


def half_branches(store: TableStore) -> list[str]:
    """The names of directories of branches that were not made, or not deleted, to the end."""
    return [name for name, is_whole in _directories(store).items() if not is_whole]


def _directories(store: TableStore) -> dict[str, bool]:
    directory = store.paths.branch_directory("x").rpartition("/")[0]
    found = sorted(s.name for s in store.file_io.list(directory) if s.is_directory and s.name.startswith(_PREFIX))
    return {name.removeprefix(_PREFIX): store.file_io.exists(f"{directory}/{name}/schema/schema-0") for name in found}


def place(line: TableStore) -> str:
    """What messages put before the name of a version: "branch x: ", and nothing for the main branch."""
    return "" if line.paths.branch == MAIN_BRANCH else f"branch {line.paths.branch}: "


@dataclass(slots=True)
class Kept:
    """Versions whose files must stay, and what is wrong with those of which it is unknown what they need, by name.

    Of those in `later` the data files must stay that they add, of those in `told` the changelog as well.
    """

    snapshots: list[Snapshot] = field(default_factory=list)
    told: list[Snapshot] = field(default_factory=list)
    later: list[Snapshot] = field(default_factory=list)
    unjudged: dict[str, InterbedError] = field(default_factory=dict)

    def unjudged_in(self, line: TableStore) -> dict[str, InterbedError]:
        """What is wrong with those of one line, by names that say which line it is."""
        return {place(line) + name: error for name, error in self.unjudged.items()}


def all_branches(store: TableStore) -> tuple[list[TableStore], dict[str, InterbedError]]:
    """The table on its main branch and on each other; and of branches that can't be opened what is wrong."""
    lines = [store.on_branch(MAIN_BRANCH)]
    damaged: dict[str, InterbedError] = {}
    for name in branch_names(store):
        try:
            lines.append(store.on_branch(name))
        except LookupError:
            # Deleted since it was listed.
            continue
        except InterbedError as error:
            damaged[f"branch {name}"] = error
    return lines, damaged


def tagged(line: TableStore) -> Kept:
    """The snapshots that the line's tags keep, by their ids, and those that are about to be named."""
    manager = TagManager(line.file_io, line.paths)
    # Guards first: one that goes in between has become a tag.
    guards, bad_guards = manager.guarded()
    tags, damaged = manager.judged()
    return Kept(
        snapshots=sorted([*guards, *(tag.snapshot for tag in tags)], key=lambda s: s.id),
        unjudged={f"tag {name}": error for name, error in {**bad_guards, **damaged}.items()},
    )


def roots_of_others(store: TableStore, first: int, last: int) -> Kept:
    """The snapshots that name what other lines than the store's own need of the files of its snapshots from `first` to
    `last`.
    """
    kept = Kept()
    names = [MAIN_BRANCH, *branch_names(store)]
    if names == [store.paths.branch]:
        return kept
    lines, kept.unjudged = all_branches(store)
    for line in lines:
        if line.paths.branch == store.paths.branch:
            continue
        try:
            _add_shared(kept, line, store, first, last)
        except InterbedError as error:
            kept.unjudged[f"branch {line.paths.branch}"] = error
        tags = tagged(line)
        kept.snapshots += tags.snapshots
        kept.unjudged.update(tags.unjudged_in(line))
    return kept


def _add_shared(kept: Kept, line: TableStore, store: TableStore, first: int, last: int) -> None:
    # Those that are being expired still count: what they need stays until that is over.
    for position, number in enumerate(line.snapshots.stored_ids()):
        found = line.snapshots.stored(number)
        if position == 0:
            # Its changelog goes with the line that it began in.
            kept.snapshots.append(found)
        elif first <= number <= last and (
            not store.snapshots.exists(number) or store.snapshots.stored(number).is_same(found)
        ):
            kept.snapshots.append(found)
            kept.told.append(found)
        else:
            kept.later.append(found)
