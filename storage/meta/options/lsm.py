"""Options of primary-key tables: merging, compaction, changelogs, lookups, deletion vectors.

Names and defaults are Paimon's (documentation: maintenance/configurations).
"""

from dataclasses import dataclass
from enum import StrEnum

from interbed.storage.base.errors import InvalidOptionError
from interbed.storage.meta.options.reader import OptionReader


class MergeEngine(StrEnum):
    """Treatment of several records of one key."""

    DEDUPLICATE = "deduplicate"
    PARTIAL_UPDATE = "partial-update"
    AGGREGATION = "aggregation"
    FIRST_ROW = "first-row"


class ChangelogProducer(StrEnum):
    """Source of the changelog of a primary-key table."""

    NONE = "none"
    INPUT = "input"
    FULL_COMPACTION = "full-compaction"
    LOOKUP = "lookup"


class LookupCompact(StrEnum):
    """Time at which level 0 is compacted upward for a lookup: at every compaction, or at every n-th."""

    RADICAL = "radical"
    GENTLE = "gentle"


class SpillCompression(StrEnum):
    """Codec of rows that are spilled to local disk."""

    ZSTD = "zstd"
    LZ4 = "lz4"
    LZO = "lzo"
    NONE = "none"


class SequenceOrder(StrEnum):
    """Whether the greatest or the least value of the sequence fields wins."""

    ASCENDING = "ascending"
    DESCENDING = "descending"


@dataclass(frozen=True, slots=True)
class LsmOptions(OptionReader):
    """Options of primary-key tables. Sizes in bytes, durations in milliseconds."""

    # -- merge -----------------------------------------------------------------------------------------------------

    @property
    def merge_engine(self) -> MergeEngine:
        """Merge engine of the table."""
        return self.choice("merge-engine", MergeEngine.DEDUPLICATE)

    @property
    def changelog_producer(self) -> ChangelogProducer:
        """Changelog producer of the table."""
        return self.choice("changelog-producer", ChangelogProducer.NONE)

    @property
    def sequence_fields(self) -> tuple[str, ...]:
        """Sequence columns that the user defined."""
        return self.names("sequence.field")

    @property
    def ignore_delete(self) -> bool:
        """Whether -D and -U records are dropped on write."""
        return self.boolean(
            self.first(
                "ignore-delete",
                "first-row.ignore-delete",
                "deduplicate.ignore-delete",
                "partial-update.ignore-delete",
            ),
            False,
        )

    @property
    def deletes_remove_rows(self) -> bool:
        """Whether -D rows of a table that merges values delete the row, so that later rows begin a new one."""
        if self.merge_engine is MergeEngine.PARTIAL_UPDATE:
            by_group = self.names("partial-update.remove-record-on-sequence-group")
            return bool(by_group) or self.boolean("partial-update.remove-record-on-delete", False)
        aggregates = self.merge_engine is MergeEngine.AGGREGATION
        return aggregates and self.boolean("aggregation.remove-record-on-delete", False)

    @property
    def deletion_vectors_enabled(self) -> bool:
        """Whether the table keeps deletion vectors."""
        return self.boolean("deletion-vectors.enabled", False)

    @property
    def sequence_order(self) -> SequenceOrder:
        """Order of the sequence fields in which the last value is the newest."""
        return self.choice("sequence.field.sort-order", SequenceOrder.ASCENDING)

    @property
    def descending_sequence_fields(self) -> int:
        """Number of sequence fields in descending order: all or none."""
        return len(self.sequence_fields) if self.sequence_order is SequenceOrder.DESCENDING else 0

    @property
    def rowkind_field(self) -> str | None:
        """Column that holds each row's kind as text (+I, -U, +U, -D), None when there is none."""
        return self.text("rowkind.field", "") or None

    @property
    def ignore_update_before(self) -> bool:
        """Whether -U records are dropped on write."""
        return self.boolean("ignore-update-before", False)

    # -- levels ----------------------------------------------------------------------------------------------------

    @property
    def num_levels(self) -> int:
        """Levels of the LSM tree: `num-levels`, by default `num-sorted-run.compaction-trigger` + 1."""
        levels = self.integer("num-levels", self.compaction_trigger + 1)
        if levels < 2:
            raise InvalidOptionError(f"Option 'num-levels' is {levels}; an LSM tree has at least 2 levels.")
        return levels

    @property
    def compaction_trigger(self) -> int:
        """Number of sorted runs from which on a compaction is considered."""
        return self.integer("num-sorted-run.compaction-trigger", 5)

    @property
    def stop_trigger(self) -> int:
        """Number of sorted runs above which a writer waits for the compaction."""
        return max(self.compaction_trigger, self.integer("num-sorted-run.stop-trigger", self.compaction_trigger + 3))

    @property
    def size_ratio(self) -> int:
        """Percentage by which a run may be larger than the newer ones together to be compacted with them."""
        return self.integer("compaction.size-ratio", 1)

    @property
    def max_size_amplification_percent(self) -> int:
        """Percentage of the oldest run's size that the newer ones together may have."""
        return self.integer("compaction.max-size-amplification-percent", 200)

    @property
    def optimization_interval_millis(self) -> int | None:
        """Interval after which a full compaction is made whatever the sizes."""
        return self.optional_duration_millis("compaction.optimization-interval")

    @property
    def compaction_total_size_threshold(self) -> int | None:
        """Size below which a bucket is always compacted fully."""
        return self.optional_memory("compaction.total-size-threshold")

    @property
    def compaction_incremental_size_threshold(self) -> int | None:
        """Size outside of its highest level above which a bucket is compacted fully."""
        return self.optional_memory("compaction.incremental-size-threshold")

    @property
    def off_peak(self) -> tuple[int, int, int]:
        """First and last hour (exclusive) of the off-peak time (-1 and -1 for none), percent to add to the ratio."""
        return (
            self.integer("compaction.offpeak.start.hour", -1),
            self.integer("compaction.offpeak.end.hour", -1),
            self.integer("compaction.offpeak-ratio", 0),
        )

    @property
    def force_up_level_0(self) -> bool:
        """Whether each compaction takes all of level 0 upward."""
        return self.boolean("compaction.force-up-level-0", False)

    @property
    def force_rewrite_all_files(self) -> bool:
        """Whether a full compaction rewrites every file."""
        return self.boolean("compaction.force-rewrite-all-files", False)

    @property
    def small_file_ratio(self) -> float:
        """Share of the target size below which files are rewritten with their neighbours."""
        return self.number("compaction.small-file-ratio", 0.7)

    @property
    def compaction_min_file_num(self) -> int:
        """Number of small files of an append table from which on a compaction that is not full joins them."""
        return self.integer("compaction.min.file-num", 5)

    @property
    def compaction_delete_ratio_threshold(self) -> float:
        """Share of deleted rows from which on a file of an append table is rewritten."""
        return self.number("compaction.delete-ratio-threshold", 0.2)

    @property
    def record_expire_millis(self) -> int | None:
        """Age at which a compaction leaves rows out; None for never."""
        return self.optional_duration_millis("record-level.expire-time")

    @property
    def record_time_field(self) -> str | None:
        """Column with the time from which a row's age counts, None when there is none."""
        return self.raw.get("record-level.time-field")

    @property
    def commit_force_compact(self) -> bool:
        """Whether a commit waits for the compaction."""
        return self.boolean("commit.force-compact", False)

    # -- lookup and changelog --------------------------------------------------------------------------------------

    @property
    def needs_lookup(self) -> bool:
        """Whether compactions look up older rows: lookup changelogs, deletion vectors, first-row, `force-lookup`."""
        return (
            self.merge_engine is MergeEngine.FIRST_ROW
            or self.changelog_producer is ChangelogProducer.LOOKUP
            or self.deletion_vectors_enabled
            or self.boolean("force-lookup", False)
        )

    @property
    def compactions_look_up(self) -> bool:
        """Whether compactions do look up: not where a full one writes the changelog, even with `force-lookup`."""
        return self.needs_lookup and self.changelog_producer is not ChangelogProducer.FULL_COMPACTION

    @property
    def lookup_wait(self) -> bool:
        """Whether a commit waits for the compaction that looks up."""
        return self.needs_lookup and self.boolean(self.first("lookup-wait", "changelog-producer.lookup-wait"), True)

    @property
    def lookup_compact(self) -> LookupCompact:
        """Time at which level 0 is compacted upward."""
        return self.choice("lookup-compact", LookupCompact.RADICAL)

    @property
    def lookup_compact_max_interval(self) -> int:
        """Number of compactions without need after which `gentle` compacts level 0 upward."""
        interval = self.integer("lookup-compact.max-interval", 2 * self.compaction_trigger)
        return max(self.compaction_trigger, interval)

    @property
    def full_compaction_delta_commits(self) -> int | None:
        """Number of commits after which a full compaction is made; 1 by default where these write the changelog."""
        commits = self.optional_integer("full-compaction.delta-commits")
        if self.changelog_producer is ChangelogProducer.FULL_COMPACTION:
            # Without full compactions there would be no changelog.
            return max(1, 1 if commits is None else commits)
        return commits

    @property
    def flush_keeps_last(self) -> bool:
        """Whether only the newest of several rows of one key that are written together counts."""
        return self.merge_engine is MergeEngine.DEDUPLICATE and self.changelog_producer is not ChangelogProducer.INPUT

    @property
    def changelog_row_deduplicate(self) -> bool:
        """Whether changes without effect are left out of the changelog."""
        return self.boolean("changelog-producer.row-deduplicate", False)

    @property
    def changelog_row_deduplicate_ignored(self) -> tuple[str, ...]:
        """Columns whose changes do not count as changes."""
        return self.names("changelog-producer.row-deduplicate-ignore-fields")

    @property
    def changelog_file_prefix(self) -> str:
        """Prefix of the names of changelog files."""
        return self.name_prefix("changelog-file.prefix", "changelog-")

    @property
    def lookup_cache_file_retention_millis(self) -> int:
        """Time for which an unused local lookup file is kept."""
        return self.duration_millis("lookup.cache-file-retention", 3_600_000)

    @property
    def lookup_cache_max_disk_size(self) -> int | None:
        """Bytes on disk for local lookup files; None for no limit."""
        return self.optional_memory("lookup.cache-max-disk-size")

    @property
    def lookup_cache_max_memory_size(self) -> int:
        """Bytes in memory for lookups."""
        return self.memory("lookup.cache-max-memory-size", 256 << 20)

    # -- deletion vectors ------------------------------------------------------------------------------------------

    @property
    def scans_skip_level_0(self) -> bool:
        """Whether reads skip level 0, because only compaction makes its rows fit those of the other levels."""
        if self.deletion_vectors_enabled:
            return not self.boolean("deletion-vectors.merge-on-read", False)
        return self.merge_engine is MergeEngine.FIRST_ROW

    @property
    def deletion_vectors_bitmap64(self) -> bool:
        """Whether deletion vectors are written as 64-bit bitmaps, which Iceberg reads."""
        return self.boolean("deletion-vectors.bitmap64", False)

    # -- buckets ---------------------------------------------------------------------------------------------------

    @property
    def dynamic_bucket_target_rows(self) -> int:
        """Number of keys in a dynamic bucket before another one is begun."""
        return self.integer("dynamic-bucket.target-row-num", 2_000_000)

    @property
    def dynamic_bucket_initial_buckets(self) -> int:
        """Number of buckets over which a new partition's keys are distributed from the start."""
        return self.integer("dynamic-bucket.initial-buckets", 1)

    @property
    def dynamic_bucket_max_buckets(self) -> int:
        """Greatest number of dynamic buckets of a partition, at most 32768; -1 for no limit."""
        return self.integer("dynamic-bucket.max-buckets", -1)

    @property
    def cross_partition_index_ttl_millis(self) -> int | None:
        """Age of data files whose keys are still looked up in other partitions; None for any age."""
        return self.optional_duration_millis("cross-partition-upsert.index-ttl")

    @property
    def postpone_batch_write_fixed_bucket(self) -> bool:
        """Whether rows of batches go to real buckets at once, unless older rows wait; rows of streams always wait."""
        return self.boolean("postpone.batch-write-fixed-bucket", True)

    @property
    def postpone_default_bucket_num(self) -> int:
        """Number of buckets for a partition's postponed rows when it has none yet."""
        return self.integer("postpone.default-bucket-num", 1)

    # -- write buffer ----------------------------------------------------------------------------------------------

    @property
    def write_buffer_spillable(self) -> bool:
        """Whether a full write buffer is spilled to local disk before it is flushed."""
        return self.boolean("write-buffer-spillable", True)

    @property
    def write_buffer_spill_max_disk_size(self) -> int | None:
        """Bytes on local disk for spilled write buffers; None for no limit."""
        return self.optional_memory("write-buffer-spill.max-disk-size")

    @property
    def write_buffer_for_append(self) -> bool:
        """Whether an append table's rows always wait in the write buffer."""
        return self.boolean("write-buffer-for-append", False)

    @property
    def write_max_writers_to_spill(self) -> int:
        """Number of buckets of an append table that are written to open files at once; with more, rows are spilled."""
        return self.integer("write-max-writers-to-spill", 10)

    @property
    def spill_codec(self) -> str | None:
        """Codec of spilled rows, by Arrow's name; None for no compression."""
        codec = self.choice("spill-compression", SpillCompression.ZSTD)
        # Only this process reads these files, so lzo, which Arrow lacks, may be replaced by lz4.
        named = {SpillCompression.NONE: None, SpillCompression.LZO: "lz4"}
        return named.get(codec, codec.value)

    @property
    def spill_zstd_level(self) -> int:
        """Level of zstd compression of spilled rows."""
        return self.integer("spill-compression.zstd-level", 1)

    @property
    def local_sort_fan_in(self) -> int:
        """Greatest number of spilled runs that are merged at once."""
        return max(2, self.integer("local-sort.max-num-file-handles", 128))
