"""Several compactions of one bucket, one after the other, as the one change that their commit makes."""

from interbed.storage.lsm.compact.increment import CompactIncrement
from interbed.storage.meta.manifest.entry import DataFileMeta
from interbed.storage.meta.manifest.index_manifest import IndexFileMeta


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
