"""Rewrites the sections of a compaction unit: merged as a stream, in the memory of one block, into files of one level.

`interbed.storage.lsm.compact.strategy` decides what a unit contains. A rewrite that fails deletes the files that it
wrote. `CompactIncrement` is the outcome of one compaction, or of several that one commit publishes.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from interbed.storage.base.bucket_id import BucketId
from interbed.storage.files.deletion_vectors import BucketDeletions, DeletionVector
from interbed.storage.files.format.layout import DataFileLayout, DataFileNames
from interbed.storage.files.format.writer import RollingFileWriter
from interbed.storage.lsm.compact.expiry import ExpiringRows, RecordExpiry
from interbed.storage.lsm.compact.strategy import CompactionUnit, Rewrite, Section, UpgradeRule
from interbed.storage.lsm.levels import SortedRun
from interbed.storage.lsm.merge_function.api import MergeFunction
from interbed.storage.lsm.merge_read import DeletedOf, MergeRead, PathOf, RowSource, merge_function_for, no_deletions
from interbed.storage.meta.data_file_place import DataFilePlace
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.manifest.entry import DataFileMeta, FileSource
from interbed.storage.meta.manifest.index_manifest import IndexFileMeta
from interbed.storage.meta.schema.table_schema import KEY_PREFIX, SEQUENCE_NUMBER, VALUE_KIND, TableSchema


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


def kv_batches(
    store: FileStore,
    sections: Sequence[Sequence[SortedRun]],
    path_of: PathOf,
    *,
    drop_deletes: bool,
    deleted_of: DeletedOf = no_deletions,
    source: RowSource | None = None,
) -> Iterator[pa.RecordBatch]:
    """Sections of a bucket merged into records for new data files: what compaction writes.

    Batches have `_KEY_<k>` for each key column, `_SEQUENCE_NUMBER`, `_VALUE_KIND`, then all columns of the table, in
    the types of the current schema. Sections must be in key order; so are the records then. Without `drop_deletes`
    records that delete their key stay. Rows that `deleted_of` says are gone are left out. `source` gives rows of files
    instead of the files themselves.
    """
    schema = store.schema
    merge = MergeRead(store, schema.fields, merge_function_for(store, drop_deletes=drop_deletes))
    for section in sections:
        for batch in merge.section(section, path_of, with_system=True, deleted_of=deleted_of, source=source):
            yield as_records(schema, batch)


def as_records(schema: TableSchema, rows: pa.RecordBatch) -> pa.RecordBatch:
    """Rows with their system columns as records of data files: with `_KEY_<k>` for each key column."""
    names = [
        *(KEY_PREFIX + k for k in schema.trimmed_primary_keys),
        SEQUENCE_NUMBER,
        VALUE_KIND,
        *schema.names,
    ]
    columns = [*schema.trimmed_primary_keys, SEQUENCE_NUMBER, VALUE_KIND, *schema.names]
    return pa.RecordBatch.from_arrays([rows.column(n) for n in columns], names=names)


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

    store: FileStore
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


def run_compaction(
    store: FileStore, rewriter: BucketRewriter, unit: CompactionUnit, bucket_id: BucketId
) -> CompactIncrement:
    """Do what the unit says. On an error all files written are deleted, and the bucket is as it was."""
    before: list[DataFileMeta] = []
    after: list[DataFileMeta] = []
    changelog: list[DataFileMeta] = []
    written: list[DataFileMeta] = []
    try:
        for step in unit.steps:
            if isinstance(step, Rewrite):
                before.extend(step.files)
                result = rewriter.rewrite(step.sections, output_level=unit.output_level, drop_deletes=unit.drop_deletes)
                written += (*result.files, *result.changelog)
                after += result.files
                changelog += result.changelog
            else:
                before.append(step.file)
                after.append(step.file.upgraded(unit.output_level))
                if step.with_changelog:
                    new = rewriter.upgrade_changelog(step.file, unit.output_level)
                    written += new
                    changelog += new
        new_index_files, deleted_index_files = rewriter.finish()
    except BaseException:
        delete_files(store, bucket_id, written)
        raise
    return CompactIncrement(
        before=tuple(before),
        after=tuple(after),
        changelog=tuple(changelog),
        new_index_files=new_index_files,
        deleted_index_files=deleted_index_files,
        looked_up=rewriter.looked_up,
    )


def discard(store: FileStore, bucket_id: BucketId, outcome: CompactIncrement) -> None:
    """Delete what a compaction wrote that is not going to be committed; never raises."""
    delete_files(store, bucket_id, outcome.written)
    store.file_io.delete_quietly([store.index_path(bucket_id, f) for f in outcome.new_index_files])


def delete_files(store: FileStore, bucket_id: BucketId, files: Iterable[DataFileMeta]) -> None:
    """Delete data or changelog files of a bucket with all that belongs to them; never raises."""
    directory = store.paths.bucket_directory(bucket_id)
    store.file_io.delete_quietly([path for file in files for path in file.paths_in(directory)])
