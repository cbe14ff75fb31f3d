"""Histories that share a table's files: its main branch and the others.

Two histories share files where one branched off from the other, where one was forwarded to the other, and where one was
merged into the other. They share the metadata of snapshots that both have. Data files enter a history with its oldest
snapshot and with the additions of later ones, so these and its tags together name every file that it needs.

A branch exists when it has the first schema: its creation writes it last, and its deletion deletes it first.
"""

from dataclasses import dataclass, field

from interbed.storage.base.errors import InterbedError
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.paths import MAIN_BRANCH
from interbed.storage.meta.snapshot.snapshot import Snapshot
from interbed.storage.meta.snapshot.tag import TagManager

_PREFIX = "branch-"


def branch_names(store: FileStore) -> list[str]:
    """Return the names of the table's complete branches but the main one, sorted."""
    return [name for name, is_whole in _directories(store).items() if is_whole]


def half_branches(store: FileStore) -> list[str]:
    """Return the names of directories of branches whose creation or deletion was not finished."""
    return [name for name, is_whole in _directories(store).items() if not is_whole]


def _directories(store: FileStore) -> dict[str, bool]:
    directory = store.paths.branch_directory("x").rpartition("/")[0]
    found = sorted(s.name for s in store.file_io.list(directory) if s.is_directory and s.name.startswith(_PREFIX))
    return {name.removeprefix(_PREFIX): store.file_io.exists(f"{directory}/{name}/schema/schema-0") for name in found}


def place(line: FileStore) -> str:
    """Return the prefix of a version's name in messages: "branch x: ", and nothing for the main branch."""
    return "" if line.paths.branch == MAIN_BRANCH else f"branch {line.paths.branch}: "


@dataclass(slots=True)
class KeptVersions:
    """Versions whose files must stay, and the errors of versions whose files are unknown, by name.

    Of the versions in `later` the added data files must stay, of those in `with_changelog` also the changelog.
    """

    snapshots: list[Snapshot] = field(default_factory=list)
    with_changelog: list[Snapshot] = field(default_factory=list)
    later: list[Snapshot] = field(default_factory=list)
    unjudged: dict[str, InterbedError] = field(default_factory=dict)

    def unjudged_in(self, line: FileStore) -> dict[str, InterbedError]:
        """Return the errors of one history, by names that include its branch."""
        return {place(line) + name: error for name, error in self.unjudged.items()}


def all_branches(store: FileStore) -> tuple[list[FileStore], dict[str, InterbedError]]:
    """Return the table on each of its branches, main first, and the errors of branches that can't be opened."""
    lines = [store.on_branch(MAIN_BRANCH)]
    damaged: dict[str, InterbedError] = {}
    for name in branch_names(store):
        try:
            lines.append(store.on_branch(name))
        except LookupError:
            # The branch was deleted since it was listed.
            continue
        except InterbedError as error:
            damaged[f"branch {name}"] = error
    return lines, damaged


def tagged(line: FileStore) -> KeptVersions:
    """Return the snapshots that the history's tags and guards keep, by id."""
    manager = TagManager(line.file_io, line.paths)
    # Read guards first: a guard that is deleted in between has become a tag.
    guards, bad_guards = manager.guarded()
    tags, damaged = manager.judged()
    return KeptVersions(
        snapshots=sorted([*guards, *(tag.snapshot for tag in tags)], key=lambda s: s.id),
        unjudged={f"tag {name}": error for name, error in {**bad_guards, **damaged}.items()},
    )


def roots_of_others(store: FileStore, first: int, last: int) -> KeptVersions:
    """Return the snapshots that other branches need of this history's snapshots from `first` to `last`.

    They name the files that these branches need.
    """
    kept = KeptVersions()
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


def _add_shared(kept: KeptVersions, line: FileStore, store: FileStore, first: int, last: int) -> None:
    # Snapshots that are being expired still count: their files must stay until that is over.
    for position, number in enumerate(line.snapshots.stored_ids()):
        found = line.snapshots.stored(number)
        if position == 0:
            # Its changelog belongs to the history that it began in.
            kept.snapshots.append(found)
        elif first <= number <= last and (
            not store.snapshots.exists(number) or store.snapshots.stored(number).is_same(found)
        ):
            kept.snapshots.append(found)
            kept.with_changelog.append(found)
        else:
            kept.later.append(found)
