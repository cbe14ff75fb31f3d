"""Rewrites sections of a bucket: merged as a stream, in the memory of one block, into new files of one level."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from interbed.storage.files.deletion.bucket_deletions import BucketDeletions
from interbed.storage.files.deletion.vector import DeletionVector
from interbed.storage.files.format.layout import DataFileLayout, DataFileNames
from interbed.storage.files.format.writer import RollingFileWriter
from interbed.storage.lsm.compact.expiry import ExpiringRows, RecordExpiry
from interbed.storage.lsm.compact.unit import Section, UpgradeRule
from interbed.storage.lsm.merge_function.api import MergeFunction
from interbed.storage.lsm.merge_read import MergeRead, RowSource
from interbed.storage.lsm.records import as_records, kv_batches
from interbed.storage.lsm.sorted_run import SortedRun
from interbed.storage.meta.data_file_place import DataFilePlace
from interbed.storage.meta.manifest.entry import DataFileMeta, FileSource
from interbed.storage.meta.manifest.index_manifest import IndexFileMeta
from interbed.storage.meta.store import TableStore

IndexChanges = tuple[tuple[IndexFileMeta, ...], tuple[IndexFileMeta, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteResult:
    """New files in key order, none when no row is left, and the changelog files of what their rows changed."""

    files: tuple[DataFileMeta, ...]
    changelog: tuple[DataFileMeta, ...] = ()


class BucketRewriter(Protocol):
    """Carries out one compaction of one bucket; not for use by several threads.

    On an error of a method the files that it wrote are deleted; those of earlier calls are the caller's.
    """

    looked_up: frozenset[str] | None
    """The names of all files above level 0, when keys of level 0 are looked for in those; None when they are not."""

    def upgrade_rule(self, file: DataFileMeta, output_level: int) -> UpgradeRule:
        """What moving the file to that level takes."""
        ...

    def rewrite(self, sections: Sequence[Section], *, output_level: int, drop_deletes: bool) -> RewriteResult:
        """Merge sections, in key order, into new files; raises CorruptFileError and StorageAccessError."""
        ...

    def upgrade_changelog(self, file: DataFileMeta, output_level: int) -> tuple[DataFileMeta, ...]:
        """The changelog of a file that is moved as it is, whose rows take the place of older ones."""
        ...

    def finish(self) -> IndexChanges:
        """The index files that the compaction made, and those that they replace; called last."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketFiles:
    """Where and how the files of one bucket are read and written. `deletions` are None without deletion vectors.

    Rows that `expiry` finds too old are left out where the output is the bucket's `oldest_level` or below it.
    """

    store: TableStore
    place: DataFilePlace
    layout: DataFileLayout
    names: DataFileNames
    changelog_names: DataFileNames
    deletions: BucketDeletions | None
    expiry: RecordExpiry | None
    oldest_level: int

    def path_of(self, file: DataFileMeta) -> str:
        """Where a data file lives."""
        return file.path_in(self.place.directory)

    def deleted_of(self, file: DataFileMeta) -> DeletionVector | None:
        """Which rows of a data file are gone."""
        return None if self.deletions is None else self.deletions.of(file.file_name)

    def rows_for(self, output_level: int) -> RowSource | None:
        """What gives the rows that are merged to that level; None for all rows of the files."""
        if self.expiry is None or output_level < self.oldest_level:
            return None
        return ExpiringRows(self.expiry)

    def writer(self, level: int, *, changelog: bool = False) -> RollingFileWriter:
        """A writer of new data files, or changelog files, of that level."""
        return RollingFileWriter(
            self.store.file_io,
            self.place,
            self.changelog_names if changelog else self.names,
            self.layout,
            level=level,
            # Paimon takes a changelog for something written, whoever writes it.
            source=FileSource.APPEND if changelog else FileSource.COMPACT,
            changelog=changelog,
        )

    def in_layout(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Records with the files' columns; by name, because files in thin mode leave the key columns out."""
        return pa.RecordBatch.from_arrays([batch.column(f.name) for f in self.layout.fields], schema=self.layout.arrow)


class MergeRewriter:
    """Merges and nothing else: no changelog, no look at older levels."""

    looked_up: frozenset[str] | None = None

    def __init__(self, files: BucketFiles) -> None:
        self._files = files

    def upgrade_rule(self, file: DataFileMeta, output_level: int) -> UpgradeRule:
        """A file is moved as it is."""
        return UpgradeRule.PLAIN

    def rewrite(self, sections: Sequence[Section], *, output_level: int, drop_deletes: bool) -> RewriteResult:
        """See BucketRewriter."""
        files = self._files
        with files.writer(output_level) as writer:
            records = kv_batches(
                files.store,
                sections,
                files.path_of,
                drop_deletes=drop_deletes,
                deleted_of=files.deleted_of,
                source=files.rows_for(output_level),
            )
            for batch in records:
                writer.write(files.in_layout(batch))
            new = writer.close()
        self._forget(sections)
        return RewriteResult(files=tuple(new))

    def upgrade_changelog(self, file: DataFileMeta, output_level: int) -> tuple[DataFileMeta, ...]:
        """There is none."""
        return ()

    def finish(self) -> IndexChanges:
        """The deletion vectors without those of files that are gone."""
        return ((), ()) if self._files.deletions is None else self._files.deletions.finish()

    def _forget(self, sections: Sequence[Section]) -> None:
        if self._files.deletions is not None:
            for section in sections:
                for run in section:
                    for file in run.files:
                        self._files.deletions.remove(file.file_name)


Emit = Callable[[pa.RecordBatch], None]


class ChangelogRules(Protocol):
    """Which compactions produce changes, and how their rows are merged."""

    def upgrade_rule(self, file: DataFileMeta, output_level: int) -> UpgradeRule:
        """See BucketRewriter."""
        ...

    def concern(self, sections: Sequence[Section], output_level: int) -> bool:
        """Whether rewriting the sections to that level changes what readers of changes know."""
        ...

    def merge(self, output_level: int, *, drop_deletes: bool, emit: Emit | None) -> MergeFunction:
        """The merge function that hands each block's changelog records to `emit`."""
        ...


class ChangelogRewriter(MergeRewriter):
    """Merges with an eye on what keys were before; writes changelog files if `produce_changelog`."""

    def __init__(
        self,
        files: BucketFiles,
        changes: ChangelogRules,
        *,
        produce_changelog: bool,
        looked_up: frozenset[str] | None = None,
    ) -> None:
        super().__init__(files)
        self.looked_up = looked_up
        self._changes = changes
        self._produce_changelog = produce_changelog

    def upgrade_rule(self, file: DataFileMeta, output_level: int) -> UpgradeRule:
        """As the changes want it."""
        return self._changes.upgrade_rule(file, output_level)

    def rewrite(self, sections: Sequence[Section], *, output_level: int, drop_deletes: bool) -> RewriteResult:
        """See BucketRewriter."""
        if not self._changes.concern(sections, output_level):
            return super().rewrite(sections, output_level=output_level, drop_deletes=drop_deletes)
        files = self._files
        source = files.rows_for(output_level)
        with files.writer(output_level) as writer, files.writer(output_level, changelog=True) as changelog:
            for batch in self._merged(sections, output_level, changelog, drop_deletes=drop_deletes, source=source):
                writer.write(files.in_layout(batch))
            changes = changelog.close()
            try:
                new = writer.close()
            except BaseException:
                files.store.file_io.delete_quietly([files.path_of(f) for f in changes])
                raise
        self._forget(sections)
        return RewriteResult(files=tuple(new), changelog=tuple(changes))

    def upgrade_changelog(self, file: DataFileMeta, output_level: int) -> tuple[DataFileMeta, ...]:
        """See BucketRewriter."""
        sections = [(SortedRun(files=(file,)),)]
        with self._files.writer(output_level, changelog=True) as changelog:
            for _ in self._merged(sections, output_level, changelog, drop_deletes=False):
                # The merge is done for its changelog, the file stays as it is.
                pass
            return tuple(changelog.close())

    def _merged(
        self,
        sections: Sequence[Section],
        output_level: int,
        changelog: RollingFileWriter,
        *,
        drop_deletes: bool,
        source: RowSource | None = None,
    ) -> Iterator[pa.RecordBatch]:
        files = self._files

        def emit(records: pa.RecordBatch) -> None:
            changelog.write(files.in_layout(as_records(files.store.schema, records)))

        function = self._changes.merge(
            output_level, drop_deletes=drop_deletes, emit=emit if self._produce_changelog else None
        )
        merge = MergeRead(files.store, files.store.schema.fields, function)
        for section in sections:
            batches = merge.section(
                section, files.path_of, with_system=True, deleted_of=files.deleted_of, source=source
            )
            for batch in batches:
                yield as_records(files.store.schema, batch)
