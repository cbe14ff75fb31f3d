"""pypaimon's explanation of a plan: figures under the names of its `ReadBuilder.explain`."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from interbed.storage.base.predicate.expr import Predicate
from interbed.storage.meta.bucket_mode import bucket_mode
from interbed.storage.meta.file_store import FileStore
from interbed.storage.scan.explain import explain_plan
from interbed.storage.scan.split import Plan, Split


@dataclass(frozen=True, slots=True)
class PruningStat:
    """The number of files before and after a step of pruning."""

    before: int
    after: int

    @property
    def pruned(self) -> int:
        """The number of files that the step removed."""
        return self.before - self.after


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainSplitInfo:
    """One split of an explained plan; sizes in bytes."""

    partition: Mapping[str, str]
    bucket: int
    file_count: int
    row_count: int
    merged_row_count: int | None
    file_size: int
    raw_convertible: bool
    has_deletion_vectors: bool
    level_histogram: Mapping[int, int]
    deletion_file_count: int
    file_paths: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainResult:
    """The explanation of a read, which `str` renders. Inapplicable steps of pruning are None. Sizes in bytes."""

    table_identifier: str
    is_primary_key_table: bool
    bucket_mode: str
    deletion_vectors_enabled: bool
    snapshot_id: int | None
    schema_id: int | None
    predicate: str | None
    projection: Sequence[str] | None
    limit: int | None
    partition_pruning: PruningStat | None
    bucket_pruning: PruningStat | None
    file_skipping: PruningStat | None
    file_count: int
    total_file_size: int
    estimated_row_count: int
    estimated_merged_row_count: int | None
    deletion_file_count: int
    level_histogram: Mapping[int, int]
    split_count: int
    splits_raw_convertible: int
    splits_with_deletion_vectors: int
    splits_all_above_l0: int
    files_per_split_min: int
    files_per_split_max: int
    files_per_split_avg: float
    split_size_min: int
    split_size_max: int
    split_size_avg: float
    data_evolution_enabled: bool = False
    splits: Sequence[ExplainSplitInfo] | None = None
    text: str = field(default="", repr=False)

    def __str__(self) -> str:
        return self.text


def explained(
    store: FileStore,
    name: str,
    plan: Plan,
    *,
    predicate: Predicate | None,
    projection: Sequence[str] | None,
    limit: int | None,
    verbose: bool,
) -> ExplainResult:
    """Return the plan in figures, with every split if `verbose`."""
    splits, statistics = plan.splits, plan.statistics
    files = [len(split.files) for split in splits] or [0]
    sizes = [split.byte_size for split in splits] or [0]
    merged = [split.merged_row_count() for split in splits]
    filtered = predicate is not None
    after_partitions, after_buckets = statistics.files_after_partitions, statistics.files_after_buckets
    return ExplainResult(
        table_identifier=name,
        is_primary_key_table=store.schema.has_primary_key,
        bucket_mode=bucket_mode(store.schema, store.options).name,
        deletion_vectors_enabled=store.options.deletion_vectors_enabled,
        snapshot_id=plan.snapshot_id,
        schema_id=None if plan.snapshot_id is None else store.schema.id,
        predicate=None if predicate is None else str(predicate),
        projection=None if projection is None else list(projection),
        limit=limit,
        partition_pruning=(
            PruningStat(statistics.files_total, after_partitions) if filtered and store.schema.partition_keys else None
        ),
        bucket_pruning=PruningStat(after_partitions, after_buckets) if filtered and _has_buckets(store) else None,
        file_skipping=PruningStat(after_buckets, statistics.files_after_indexes) if filtered else None,
        file_count=sum(len(split.files) for split in splits),
        total_file_size=sum(split.byte_size for split in splits),
        estimated_row_count=sum(split.row_count for split in splits),
        estimated_merged_row_count=None if None in merged else sum(rows or 0 for rows in merged),
        deletion_file_count=sum(len(split.deletion_files) for split in splits),
        level_histogram=dict(Counter(file.level for split in splits for file in split.files)),
        split_count=len(splits),
        splits_raw_convertible=sum(split.raw_convertible for split in splits),
        splits_with_deletion_vectors=sum(bool(split.deletion_files) for split in splits),
        splits_all_above_l0=sum(all(file.level > 0 for file in split.files) for split in splits),
        files_per_split_min=min(files),
        files_per_split_max=max(files),
        files_per_split_avg=sum(files) / len(files),
        split_size_min=min(sizes),
        split_size_max=max(sizes),
        split_size_avg=sum(sizes) / len(sizes),
        splits=[_split(store, split) for split in splits] if verbose else None,
        text=str(explain_plan(name, plan)),
    )


def _has_buckets(store: FileStore) -> bool:
    return store.options.bucket > 0


def _split(store: FileStore, split: Split) -> ExplainSplitInfo:
    return ExplainSplitInfo(
        partition=store.paths.partition_spec(split.partition),
        bucket=split.bucket,
        file_count=len(split.files),
        row_count=split.row_count,
        merged_row_count=split.merged_row_count(),
        file_size=split.byte_size,
        raw_convertible=split.raw_convertible,
        has_deletion_vectors=bool(split.deletion_files),
        level_histogram=dict(Counter(file.level for file in split.files)),
        deletion_file_count=len(split.deletion_files),
        file_paths=split.file_paths,
    )
