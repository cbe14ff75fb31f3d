"""What a compaction, or several of them, did to one bucket."""

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
