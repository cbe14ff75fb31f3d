"""Health of the files of one bucket, measured from their metadata alone. Pure.

A bucket of a table with a primary key is a tree of sorted runs: the more of them overlap, the more a read merges. A
bucket of an append table is a list of files: the more of them are small, the more a read opens.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from interbed.storage.base.bucket_id import BucketId
from interbed.storage.base.clock import from_local
from interbed.storage.base.errors import plain_errors
from interbed.storage.base.types.data_type import DataType
from interbed.storage.lsm.compact.strategy import Rewrite, pick_full, plan_file_rewrite, plan_unit
from interbed.storage.lsm.levels import Levels, key_ranks, partition_intervals
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.manifest.entry import DataFileMeta, FileSource
from interbed.storage.upkeep.append_compact import plan_append_compaction, plan_column_compaction

Vectors = Mapping[str, int | None]
"""Number of rows that a deletion vector marks, by data file; None where it is not recorded."""


@plain_errors
@dataclass(frozen=True, slots=True, kw_only=True)
class BucketHealth:
    """Figures of one bucket. Sizes in bytes; `partition` is a serialised BinaryRow, `partition_name` its text.

    The bucket -2 has the postponed rows. `runs` are sorted runs, each file of level 0 one of its own; an append table
    has no levels, and so one run and no file of level 0. `read_amplification` is the number of sorted runs that a read
    merges, averaged over the bytes; 1.0 is best, see `table_health` for append tables. `small_files` are smaller than
    `compaction.small-file-ratio` of the target size; `spare_files` are the files that a full compaction would save by
    joining small ones. `delete_rows` are records that delete, and rows that vectors mark. `duplicate_bytes` lie outside
    of the oldest sorted run, and so may have keys that it has, too. `pending_bytes` would be rewritten by a full
    compaction. `last_full_millis` is when the highest level got its newest file, since the epoch (of append tables:
    when a compaction wrote the newest one), None for never.
    """

    partition: bytes
    partition_name: str = ""
    bucket: int = 0
    runs: int = 1
    files: int = 0
    bytes: int = 0
    rows: int = 0
    level0_files: int = 0
    small_files: int = 0
    spare_files: int = 0
    vector_files: int = 0
    delete_rows: int = 0
    duplicate_bytes: int = 0
    pending_bytes: int = 0
    read_amplification: float = 1.0
    last_full_millis: int | None = None

    @property
    def bucket_id(self) -> BucketId:
        """Partition and number of the bucket."""
        return BucketId(self.partition, self.bucket)

    @property
    def delete_ratio(self) -> float:
        """Share of the rows that are deleted, or delete."""
        return part(self.delete_rows, self.rows)

    @property
    def duplicate_ratio(self) -> float:
        """Share of the bytes outside of the oldest sorted run; 0.0 for append tables."""
        return part(self.duplicate_bytes, self.bytes)

    def to_json(self) -> dict[str, Any]:
        """Return the figures as JSON values."""
        return {
            "partition": self.partition_name,
            "bucket": self.bucket,
            "runs": self.runs,
            "files": self.files,
            "bytes": self.bytes,
            "rows": self.rows,
            "level0_files": self.level0_files,
            "small_files": self.small_files,
            "spare_files": self.spare_files,
            "vector_files": self.vector_files,
            "delete_rows": self.delete_rows,
            "delete_ratio": round(self.delete_ratio, 4),
            "duplicate_ratio": round(self.duplicate_ratio, 4),
            "pending_bytes": self.pending_bytes,
            "read_amplification": round(self.read_amplification, 4),
            "last_full_millis": self.last_full_millis,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketRules:
    """Settings by which the buckets of a table are measured; sizes in bytes. `key_types` is empty for append tables.

    `skips_level_0`: reads see level 0 only once it is compacted, and read the other levels file by file.
    `data_evolution`: files have some of the columns of their rows.
    """

    key_types: Sequence[DataType] = ()
    num_levels: int = 6
    target_bytes: int = 128 << 20
    small_bytes: int = 89 << 20
    open_bytes: int = 4 << 20
    keep_order: bool = False
    skips_level_0: bool = False
    deletion_vectors: bool = False
    data_evolution: bool = False

    @staticmethod
    def of(store: FileStore) -> "BucketRules":
        """Return the rules by a table's options."""
        options = store.options
        keyed = store.schema.has_primary_key
        target = options.target_file_size_for(primary_key=keyed)
        return BucketRules(
            key_types=store.schema.key_types if keyed else (),
            num_levels=options.num_levels,
            target_bytes=max(1, target),
            small_bytes=int(target * options.small_file_ratio),
            open_bytes=options.split_open_file_cost,
            keep_order=options.bucket > 0,
            skips_level_0=keyed and options.scans_skip_level_0,
            deletion_vectors=options.deletion_vectors_enabled,
        )

    def files_for(self, size: int) -> int:
        """Return the number of files that these bytes are written to."""
        return max(1, -(-size // self.target_bytes))


def bucket_health(
    bucket_id: BucketId,
    files: Sequence[DataFileMeta],
    vectors: Vectors,
    rules: BucketRules,
    *,
    partition_name: str = "",
    now_millis: int = 0,
) -> BucketHealth:
    """Return the health of a bucket with these files. `now_millis`, since the epoch, serves to convert local times."""
    marked = {name: count or 0 for name, count in vectors.items()}
    with_vector = [f for f in files if f.file_name in marked]
    shape = _shape(bucket_id, files, marked, rules)
    return BucketHealth(
        partition=bucket_id.partition,
        partition_name=partition_name,
        bucket=bucket_id.bucket,
        runs=shape.runs,
        files=len(files),
        bytes=sum(f.file_size for f in files),
        rows=sum(f.row_count for f in files),
        level0_files=sum(f.level == 0 for f in files) if rules.key_types else 0,
        small_files=sum(f.file_size < rules.small_bytes for f in files),
        spare_files=shape.spare_files,
        vector_files=len(with_vector),
        delete_rows=sum(f.delete_row_count or 0 for f in files) + sum(marked[f.file_name] for f in with_vector),
        duplicate_bytes=shape.duplicate_bytes,
        pending_bytes=shape.pending_bytes,
        read_amplification=shape.read_amplification,
        last_full_millis=_last_full(files, rules, now_millis),
    )


def part(some: int, of_all: int) -> float:
    """Return the share of a total: 0.0 of a total of 0, and at most 1.0."""
    return min(1.0, some / of_all) if of_all > 0 else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _FileShape:
    """Figures that are computed differently for trees of runs and for lists of files."""

    runs: int
    read_amplification: float
    spare_files: int
    pending_bytes: int
    duplicate_bytes: int = 0


def _shape(
    bucket_id: BucketId, files: Sequence[DataFileMeta], marked: Mapping[str, int], rules: BucketRules
) -> _FileShape:
    if bucket_id.bucket < 0:
        return _postponed_shape(files)
    return _tree_shape(files, marked, rules) if rules.key_types else _list_shape(files, marked, rules)


def _postponed_shape(files: Sequence[DataFileMeta]) -> _FileShape:
    """Return the figures of postponed rows: all of them are to be merged with those of the buckets."""
    size = sum(f.file_size for f in files)
    return _FileShape(
        runs=len(files),
        read_amplification=1.0 + len(files),
        spare_files=len(files),
        pending_bytes=size,
        duplicate_bytes=size,
    )


def _tree_shape(files: Sequence[DataFileMeta], marked: Mapping[str, int], rules: BucketRules) -> _FileShape:
    levels = Levels.of(files, rules.num_levels)
    runs = len(levels.runs)
    pick = pick_full(levels)
    if pick is None:
        unit = plan_file_rewrite([f for f in files if f.file_name in marked], levels.max_level)
    else:
        unit = plan_unit(
            pick,
            levels,
            rules.key_types,
            small_file_bytes=rules.small_bytes,
            deletion_vectors=rules.deletion_vectors,
        )
    rewritten = [step.files for step in unit.steps if isinstance(step, Rewrite)] if unit is not None else []
    return _FileShape(
        runs=runs,
        read_amplification=1.0 if runs < 2 else merged_runs(files, rules),
        spare_files=_spare(rewritten, rules),
        pending_bytes=_size_of(rewritten),
        duplicate_bytes=sum(r.run.byte_size for r in levels.runs[:-1]),
    )


def _list_shape(files: Sequence[DataFileMeta], marked: Mapping[str, int], rules: BucketRules) -> _FileShape:
    if rules.data_evolution:
        groups = plan_column_compaction(files, target_bytes=rules.target_bytes, marked=marked)
    else:
        groups = plan_append_compaction(
            files, small_file_bytes=rules.small_bytes, keep_order=rules.keep_order, thinned=marked
        )
    spare = _spare(groups, rules)
    size = sum(f.file_size for f in files)
    cost, least = (size + rules.open_bytes * n for n in (len(files), len(files) - spare))
    return _FileShape(
        runs=1,
        read_amplification=cost / least if least > 0 else 1.0,
        spare_files=spare,
        pending_bytes=_size_of(groups),
    )


def merged_runs(files: Sequence[DataFileMeta], rules: BucketRules) -> float:
    """Return the number of sorted runs that a read merges, averaged over sections of overlapping keys by their bytes.

    Where reads skip level 0, all other levels are one run, and level 0 counts as if it were read.
    """
    least, greatest = (ranks.tolist() for ranks in key_ranks(files, rules.key_types))
    total = excess = 0
    for section in partition_intervals(least, greatest):
        runs = len(section)
        inside = [i for run in section for i in run]
        if rules.skips_level_0:
            fresh = [i for i in inside if files[i].level == 0]
            depth = partition_intervals([least[i] for i in fresh], [greatest[i] for i in fresh])
            runs = min(runs, max(map(len, depth), default=0) + (len(fresh) < len(inside)))
        size = sum(files[i].file_size for i in inside)
        total += size
        excess += size * (runs - 1)
    return 1.0 + excess / total if total else 1.0


def _spare(groups: Sequence[Sequence[DataFileMeta]], rules: BucketRules) -> int:
    """Return the number of files that are saved by rewriting each group."""
    return sum(max(0, len(g) - rules.files_for(sum(f.file_size for f in g))) for g in groups)


def _size_of(groups: Sequence[Sequence[DataFileMeta]]) -> int:
    return sum(f.file_size for group in groups for f in group)


def _last_full(files: Sequence[DataFileMeta], rules: BucketRules, now_millis: int) -> int | None:
    if rules.key_types:
        return Levels.of(files, rules.num_levels).last_full_millis(now_millis)
    made = [f.creation_time_millis for f in files if f.file_source is FileSource.COMPACT]
    return from_local(max(made), now_millis) if made else None
