"""How well the files of one bucket serve its readers, told from their metadata alone. Pure.

A bucket of a table with a primary key is a tree of sorted runs: the more of them overlap, the more a read merges. One
of an append table is a list of files: the more of them are small, the more a read opens.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from interbed.storage.base.bucket_id import BucketId
from interbed.storage.base.clock import from_local
from interbed.storage.base.frozen import plain_errors
from interbed.storage.base.types.data_type import DataType
from interbed.storage.lsm.compact.strategy import Rewrite, pick_full, plan_file_rewrite, plan_unit
from interbed.storage.lsm.interval_partition import key_ranks, partition_intervals
from interbed.storage.lsm.levels import Levels
from interbed.storage.meta.manifest.entry import DataFileMeta, FileSource
from interbed.storage.meta.store import TableStore
from interbed.storage.upkeep.append_compact import plan_append_compaction

Vectors = Mapping[str, int | None]
"""By the name of a data file, how many of its rows a deletion vector marks; None where that is not noted."""


@plain_errors
@dataclass(frozen=True, slots=True, kw_only=True)
class BucketHealth:
    """The figures of one bucket. Sizes in bytes; `partition` is a serialised BinaryRow, `partition_name` its text.

    The bucket -2 has the rows that wait for a bucket. `runs` are sorted runs, each file of level 0 one of its own; an
    append table has no levels, and so one run and no file of level 0. `read_amplification` is how many sorted runs a
    read merges, averaged over the bytes; 1.0 is best, see `table_health` for append tables. `small_files` are smaller
    than `compaction.small-file-ratio` of the target size; `spare_files` are the files that a full compaction would save
    by joining such. `delete_rows` are records that delete, and rows that vectors mark. `duplicate_bytes` lie outside of
    the oldest sorted run, and so may be of keys that it has, too. `pending_bytes` a full compaction would write anew.
    `last_full_millis` is when the highest level got its newest file, since the epoch (of append tables: when a
    compaction wrote the newest one), None for never.
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
        """Which bucket it is."""
        return BucketId(self.partition, self.bucket)

    @property
    def delete_ratio(self) -> float:
        """Which part of the rows is deleted, or deletes."""
        return part(self.delete_rows, self.rows)

    @property
    def duplicate_ratio(self) -> float:
        """Which part of the bytes lies outside of the oldest sorted run; 0.0 for append tables."""
        return part(self.duplicate_bytes, self.bytes)

    def to_json(self) -> dict[str, Any]:
        """The figures as JSON values."""
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
    """What the buckets of a table are judged by; sizes in bytes. `key_types` is empty for an append table.

    `skips_level_0`: reads see level 0 only once it is compacted, and read the other levels file by file.
    """

    key_types: Sequence[DataType] = ()
    num_levels: int = 6
    target_bytes: int = 128 << 20
    small_bytes: int = 89 << 20
    open_bytes: int = 4 << 20
    keep_order: bool = False
    skips_level_0: bool = False
    deletion_vectors: bool = False

    @staticmethod
    def of(store: TableStore) -> "BucketRules":
        """Those of a table."""
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
        """How many files that many bytes are written to."""
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
    """The health of a bucket with these files. `now_millis`, since the epoch, only tells the local clock's zone."""
    marked = {name: count or 0 for name, count in vectors.items()}
    there = [f for f in files if f.file_name in marked]
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
        vector_files=len(there),
        delete_rows=sum(f.delete_row_count or 0 for f in files) + sum(marked[f.file_name] for f in there),
        duplicate_bytes=shape.duplicate_bytes,
        pending_bytes=shape.pending_bytes,
        read_amplification=shape.read_amplification,
        last_full_millis=_last_full(files, rules, now_millis),
    )


def part(some: int, of_all: int) -> float:
    """The part that some are of all, 0.0 of nothing and at most 1.0."""
    return min(1.0, some / of_all) if of_all > 0 else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shape:
    """What differs between trees of runs and lists of files."""

    runs: int
    read_amplification: float
    spare_files: int
    pending_bytes: int
    duplicate_bytes: int = 0


def _shape(bucket_id: BucketId, files: Sequence[DataFileMeta], marked: Mapping[str, int], rules: BucketRules) -> _Shape:
    if bucket_id.bucket < 0:
        return _waiting(files)
    return _tree(files, marked, rules) if rules.key_types else _list(files, marked, rules)


def _waiting(files: Sequence[DataFileMeta]) -> _Shape:
    """Rows that wait for a bucket have no order yet: all of them are to be merged with those of the buckets."""
    size = sum(f.file_size for f in files)
    return _Shape(
        runs=len(files),
        read_amplification=1.0 + len(files),
        spare_files=len(files),
        pending_bytes=size,
        duplicate_bytes=size,
    )


def _tree(files: Sequence[DataFileMeta], marked: Mapping[str, int], rules: BucketRules) -> _Shape:
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
    return _Shape(
        runs=runs,
        read_amplification=1.0 if runs < 2 else merged_runs(files, rules),
        spare_files=_spare(rewritten, rules),
        pending_bytes=_size_of(rewritten),
        duplicate_bytes=sum(r.run.byte_size for r in levels.runs[:-1]),
    )


def _list(files: Sequence[DataFileMeta], marked: Mapping[str, int], rules: BucketRules) -> _Shape:
    groups = plan_append_compaction(
        files, small_file_bytes=rules.small_bytes, keep_order=rules.keep_order, thinned=marked
    )
    spare = _spare(groups, rules)
    size = sum(f.file_size for f in files)
    cost, least = (size + rules.open_bytes * n for n in (len(files), len(files) - spare))
    return _Shape(
        runs=1,
        read_amplification=cost / least if least > 0 else 1.0,
        spare_files=spare,
        pending_bytes=_size_of(groups),
    )


def merged_runs(files: Sequence[DataFileMeta], rules: BucketRules) -> float:
    """How many sorted runs a read merges on average: of each section of overlapping key ranges, weighed by its bytes.

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
    """How many fewer files there are once each group is written anew."""
    return sum(max(0, len(g) - rules.files_for(sum(f.file_size for f in g))) for g in groups)


def _size_of(groups: Sequence[Sequence[DataFileMeta]]) -> int:
    return sum(f.file_size for group in groups for f in group)


def _last_full(files: Sequence[DataFileMeta], rules: BucketRules, now_millis: int) -> int | None:
    if rules.key_types:
        return Levels.of(files, rules.num_levels).last_full_millis(now_millis)
    made = [f.creation_time_millis for f in files if f.file_source is FileSource.COMPACT]
    return from_local(max(made), now_millis) if made else None
