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
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.manifest.entry import DataFileMeta, FileSource
from interbed.storage.meta.manifest.index_manifest import IndexFileMeta
from interbed.storage.meta.paths import DataFilePlace
from interbed.storage.meta.schema.table_schema import KEY_PREFIX, SEQUENCE_NUMBER, VALUE_KIND, TableSchema


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactIncrement:
    """The outcome of compactions: replaced files, new files with the same rows, added and deleted index files.

    `changelog` has the changelog files that the compaction wrote. `looked_up` names the files above level 0 in which
    keys were looked up or merged; None if the commit does not check them. An empty increment is no compaction.
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
        """The files that the bucket no longer has, without those that only moved to another level."""
        kept = {f.file_name for f in self.after}
        return tuple(f for f in self.before if f.file_name not in kept)

    @property
    def written(self) -> tuple[DataFileMeta, ...]:
        """The data and changelog files that the compaction wrote, without files that only moved to another level."""
        upgraded = {f.file_name for f in self.before}
        return (*(f for f in self.after if f.file_name not in upgraded), *self.changelog)


NO_COMPACTION = CompactIncrement()


class CompactedFiles:
    """Sums up outcomes. Files that one compaction wrote and a later one replaced are no part of the sum."""

    def __init__(self) -> None:
        self._before: dict[str, DataFileMeta] = {}
        self._after: dict[str, DataFileMeta] = {}
        self._changelog: list[DataFileMeta] = []
        self._new_index_files: dict[str, IndexFileMeta] = {}
        self._deleted_index_files: list[IndexFileMeta] = []
        self._looked_up: frozenset[str] | None = None

    def add(self, outcome: CompactIncrement) -> CompactIncrement:
        """Add an outcome, and return the files that are no longer needed, as an outcome."""
        unneeded: list[DataFileMeta] = []
        still = {f.file_name for f in outcome.after}
        for file in outcome.before:
            intermediate = self._after.pop(file.file_name, None)
            if intermediate is None:
                self._before[file.file_name] = file
            elif file.file_name not in self._before and file.file_name not in still:
                # Not a file of the table that was moved and then rewritten, and not one that is only moved again.
                unneeded.append(file)
        self._after.update((f.file_name, f) for f in outcome.after)
        self._changelog += outcome.changelog
        if outcome.looked_up is not None:
            # A later compaction looked up the same files as an earlier one, except those that were compacted away.
            self._looked_up = outcome.looked_up | (self._looked_up or frozenset())
        unneeded_indexes = []
        for index_file in outcome.deleted_index_files:
            if self._new_index_files.pop(index_file.file_name, None) is None:
                self._deleted_index_files.append(index_file)
            else:
                unneeded_indexes.append(index_file)
        self._new_index_files.update((f.file_name, f) for f in outcome.new_index_files)
        return CompactIncrement(after=tuple(unneeded), new_index_files=tuple(unneeded_indexes))

    def outcome(self) -> CompactIncrement:
        """Return the sum of all outcomes; empty if nothing was compacted."""
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
    """Merge sections of a bucket into records for new data files.

    Batches have `_KEY_<k>` for each key column, `_SEQUENCE_NUMBER`, `_VALUE_KIND`, then all columns of the table, in
    the types of the current schema. Sections must be in key order, and so are the records. Without `drop_deletes`
    delete records are kept. Rows that are deleted by `deleted_of` are left out. `source` provides the rows of files in
    place of the files themselves.
    """
    schema = store.schema
    merge = MergeRead(store, schema.fields, merge_function_for(store, drop_deletes=drop_deletes))
    for section in sections:
        for batch in merge.section(section, path_of, with_system=True, deleted_of=deleted_of, source=source):
            yield as_records(schema, batch)


def as_records(schema: TableSchema, rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return rows with system columns as records of data files: with `_KEY_<k>` for each key column."""
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
    """New files in key order (none if no row is left), and the changelog files of their changes."""

    files: tuple[DataFileMeta, ...]
    changelog: tuple[DataFileMeta, ...] = ()


class BucketRewriter(Protocol):
    """Executes one compaction of one bucket. Not safe for several threads.

    If a method fails, the files that it wrote are deleted. The caller deletes those of earlier calls.
    """

    looked_up: frozenset[str] | None
    """The names of all files above level 0 if keys of level 0 are looked up in them, otherwise None."""

    def upgrade_rule(self, file: DataFileMeta, output_level: int) -> UpgradeRule:
        """Return the work of moving the file to that level."""
        ...

    def rewrite(self, sections: Sequence[Section], *, output_level: int, drop_deletes: bool) -> RewriteResult:
        """Merge sections, in key order, into new files; raises CorruptFileError and StorageAccessError."""
        ...

    def upgrade_changelog(self, file: DataFileMeta, output_level: int) -> tuple[DataFileMeta, ...]:
        """Write and return the changelog of a file that is moved without a rewrite."""
        ...

    def finish(self) -> IndexChanges:
        """Return the index files that the compaction wrote, and those that they replace. Called last."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketFiles:
    """The files of one bucket, as a compaction reads and writes them. `deletions` is None without deletion vectors.

    Rows that are expired by `expiry` are left out if the output level is at least the bucket's `oldest_level`.
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
        """Return the path of a data file."""
        return file.path_in(self.place.directory)

    def deleted_of(self, file: DataFileMeta) -> DeletionVector | None:
        """Return the deletion vector of a data file; None without one."""
        return None if self.deletions is None else self.deletions.of(file.file_name)

    def rows_for(self, output_level: int) -> RowSource | None:
        """Return the source of the rows that are merged to that level; None for all rows of the files."""
        if self.expiry is None or output_level < self.oldest_level:
            return None
        return ExpiringRows(self.expiry)

    def writer(self, level: int, *, changelog: bool = False) -> RollingFileWriter:
        """Return a writer of new data files, or changelog files, of that level."""
        return RollingFileWriter(
            self.store.file_io,
            self.place,
            self.changelog_names if changelog else self.names,
            self.layout,
            level=level,
            # In Paimon changelog files have this source, even if a compaction writes them.
            source=FileSource.APPEND if changelog else FileSource.COMPACT,
            changelog=changelog,
        )

    def in_layout(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return records with the columns of the files; by name, because thin mode has no key columns."""
        return pa.RecordBatch.from_arrays([batch.column(f.name) for f in self.layout.fields], schema=self.layout.arrow)


class MergeRewriter:
    """A rewriter that only merges, without changelogs and lookups of older levels."""

    looked_up: frozenset[str] | None = None

    def __init__(self, files: BucketFiles) -> None:
        self._files = files

    def upgrade_rule(self, file: DataFileMeta, output_level: int) -> UpgradeRule:
        """Move every file without a rewrite."""
        return UpgradeRule.PLAIN

    def rewrite(self, sections: Sequence[Section], *, output_level: int, drop_deletes: bool) -> RewriteResult:
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
        self._drop_deletions(sections)
        return RewriteResult(files=tuple(new))

    def upgrade_changelog(self, file: DataFileMeta, output_level: int) -> tuple[DataFileMeta, ...]:
        """Return no changelog files."""
        return ()

    def finish(self) -> IndexChanges:
        """Return the deletion vectors, without those of replaced files."""
        return ((), ()) if self._files.deletions is None else self._files.deletions.finish()

    def _drop_deletions(self, sections: Sequence[Section]) -> None:
        if self._files.deletions is not None:
            for section in sections:
                for run in section:
                    for file in run.files:
                        self._files.deletions.remove(file.file_name)


Emit = Callable[[pa.RecordBatch], None]


class ChangelogRules(Protocol):
    """Rules that decide which compactions produce changes, and that merge their rows."""

    def upgrade_rule(self, file: DataFileMeta, output_level: int) -> UpgradeRule: ...

    def concern(self, sections: Sequence[Section], output_level: int) -> bool:
        """Return whether rewriting the sections to that level produces changes."""
        ...

    def merge(self, output_level: int, *, drop_deletes: bool, emit: Emit | None) -> MergeFunction:
        """Return the merge function that passes the changelog records of each block to `emit`."""
        ...


class ChangelogRewriter(MergeRewriter):
    """A rewriter that compares keys with their older rows, and writes changelog files if `produce_changelog`."""

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
        """Return the work by the rules of the changes."""
        return self._changes.upgrade_rule(file, output_level)

    def rewrite(self, sections: Sequence[Section], *, output_level: int, drop_deletes: bool) -> RewriteResult:
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
        self._drop_deletions(sections)
        return RewriteResult(files=tuple(new), changelog=tuple(changes))

    def upgrade_changelog(self, file: DataFileMeta, output_level: int) -> tuple[DataFileMeta, ...]:
        sections = [(SortedRun(files=(file,)),)]
        with self._files.writer(output_level, changelog=True) as changelog:
            for _ in self._merged(sections, output_level, changelog, drop_deletes=False):
                # The merge produces the changelog only; the file is kept.
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
    """Execute the unit. On an error all files that were written are deleted, and the bucket is unchanged."""
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
    """Delete the files of a compaction that will not be committed; never raises."""
    delete_files(store, bucket_id, outcome.written)
    store.file_io.delete_quietly([store.index_path(bucket_id, f) for f in outcome.new_index_files])


def delete_files(store: FileStore, bucket_id: BucketId, files: Iterable[DataFileMeta]) -> None:
    """Delete data or changelog files of a bucket with their index files; never raises."""
    directory = store.paths.bucket_directory(bucket_id)
    store.file_io.delete_quietly([path for file in files for path in file.paths_in(directory)])
