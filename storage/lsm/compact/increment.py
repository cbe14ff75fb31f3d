"""What compactions of one bucket changed: one compaction, or several as the one change that their commit makes."""

from dataclasses import dataclass

from interbed.storage.meta.manifest.entry import DataFileMeta
from interbed.storage.meta.manifest.index_manifest import IndexFileMeta


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactIncrement:
    """The files that were replaced, those in their place, which hold the same rows, and index files that came and went.

    `changelog` holds what the compaction found to have changed. Empty, it stands for no compaction. `looked_up` names
    the files above level 0 in which keys were looked for, by merging or in place; None where nobody needs to know.
    """

    before: tuple[DataFileMeta, ...] = ()
    after: tuple[DataFileMeta, ...] = ()
    changelog: tuple[DataFileMeta, ...] = ()
    new_index_files: tuple[IndexFileMeta, ...] = ()
    deleted_index_files: tuple[IndexFileMeta, ...] = ()
    looked_up: frozenset[str] | None = None

    def __bool__(self) -> bool:
        return bool(self.before or self.after or self.changelog or self.new_index_files or self.deleted_index_files)

    @property
    def replaced(self) -> tuple[DataFileMeta, ...]:
        """The files that the bucket does not have any more: not those that only went to another level."""
        kept = {f.file_name for f in self.after}
        return tuple(f for f in self.before if f.file_name not in kept)

    @property
    def written(self) -> tuple[DataFileMeta, ...]:
        """The data and changelog files that the compaction made: not those that only went to another level."""
        upgraded = {f.file_name for f in self.before}
        return (*(f for f in self.after if f.file_name not in upgraded), *self.changelog)


NO_COMPACTION = CompactIncrement()


class CompactedFiles:
    """Adds outcomes up; what one made and a later one replaced never existed for the table."""

    def __init__(self) -> None:
        self._before: dict[str, DataFileMeta] = {}
        self._after: dict[str, DataFileMeta] = {}
        self._changelog: list[DataFileMeta] = []
        self._new_index_files: dict[str, IndexFileMeta] = {}
        self._deleted_index_files: list[IndexFileMeta] = []
        self._looked_up: frozenset[str] | None = None

    def add(self, outcome: CompactIncrement) -> CompactIncrement:
        """Take an outcome in. Returns, as the outcome of a compaction, the files that nobody needs any more."""
        needless: list[DataFileMeta] = []
        still = {f.file_name for f in outcome.after}
        for file in outcome.before:
            intermediate = self._after.pop(file.file_name, None)
            if intermediate is None:
                self._before[file.file_name] = file
            elif file.file_name not in self._before and file.file_name not in still:
                # Neither a file of the table that was moved and then rewritten, nor one that is only moved again.
                needless.append(file)
        self._after.update((f.file_name, f) for f in outcome.after)
        self._changelog += outcome.changelog
        if outcome.looked_up is not None:
            # A later compaction knows of all files that an earlier one did, but for those that are gone with it.
            self._looked_up = outcome.looked_up | (self._looked_up or frozenset())
        needless_indexes = []
        for index_file in outcome.deleted_index_files:
            if self._new_index_files.pop(index_file.file_name, None) is None:
                self._deleted_index_files.append(index_file)
            else:
                needless_indexes.append(index_file)
        self._new_index_files.update((f.file_name, f) for f in outcome.new_index_files)
        return CompactIncrement(after=tuple(needless), new_index_files=tuple(needless_indexes))

    def outcome(self) -> CompactIncrement:
        """All outcomes as one; empty when nothing was compacted."""
        return CompactIncrement(
            before=tuple(self._before.values()),
            after=tuple(self._after.values()),
            changelog=tuple(self._changelog),
            new_index_files=tuple(self._new_index_files.values()),
            deleted_index_files=tuple(self._deleted_index_files),
            looked_up=self._looked_up,
        )
