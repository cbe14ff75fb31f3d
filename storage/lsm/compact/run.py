"""Carries out a compaction unit of one bucket; the decision was made in `interbed.storage.lsm.compact.unit`."""

from collections.abc import Iterable

from interbed.storage.base.bucket_id import BucketId
from interbed.storage.lsm.compact.increment import CompactIncrement
from interbed.storage.lsm.compact.rewriter import BucketRewriter
from interbed.storage.lsm.compact.unit import CompactionUnit, Rewrite
from interbed.storage.meta.manifest.entry import DataFileMeta
from interbed.storage.meta.store import TableStore


def run_compaction(
    store: TableStore, rewriter: BucketRewriter, unit: CompactionUnit, bucket_id: BucketId
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


def discard(store: TableStore, bucket_id: BucketId, outcome: CompactIncrement) -> None:
    """Delete what a compaction wrote that is not going to be committed; never raises."""
    delete_files(store, bucket_id, outcome.written)
    store.file_io.delete_quietly([store.index_path(bucket_id, f) for f in outcome.new_index_files])


def delete_files(store: TableStore, bucket_id: BucketId, files: Iterable[DataFileMeta]) -> None:
    """Delete data or changelog files of a bucket with all that belongs to them; never raises."""
    directory = store.paths.bucket_directory(bucket_id)
    store.file_io.delete_quietly([path for file in files for path in file.paths_in(directory)])
