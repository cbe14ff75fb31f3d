"""Treatment of Paimon's options by interbed (honour, ignore or refuse), and the options that it refuses.

A refused option of Paimon or Amoro has a reason and a way out. `takes` are the values that do no harm. `blocks` is the
use that is refused for a table of another engine with the option: a table is not read if it would be misread, and not
written if other readers would miss rows.
"""

from dataclasses import dataclass
from enum import StrEnum


class OptionStatus(StrEnum):
    """Treatment of an option that interbed knows."""

    HONOURED = "honoured"
    HARMLESS = "harmless"
    REFUSED = "refused"


class BlockedUse(StrEnum):
    """Use of an existing table that is refused because of an option that is refused for new tables.

    `READING` also blocks writing. `NOTHING` is for options that only other engines miss: they are logged.
    """

    READING = "reading"
    WRITING = "writing"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownOption:
    """Option by its key; `<…>` in the key matches any text.

    `why` is the reason why the option is harmless or refused. `takes` are the values, in lower case, that a refused
    option may have, because they are Paimon's default or interbed's behaviour; empty text is one. An option that is
    `only_unpartitioned` has no effect on partitioned tables, in Paimon neither, so they may have any value of it.
    """

    key: str
    status: OptionStatus
    why: str = ""
    way_out: str = ""
    takes: tuple[str, ...] = ()
    blocks: BlockedUse = BlockedUse.NOTHING
    only_unpartitioned: bool = False

    def refuses(self, value: str, *, partitioned: bool = False) -> bool:
        """Return whether this value of the option is refused; `partitioned` says what the table is."""
        if partitioned and self.only_unpartitioned:
            return False
        return self.status is OptionStatus.REFUSED and value.strip().lower() not in ("", *self.takes)


_OFF = ("false",)


def _refused(
    keys: str, needs: str, way_out: str = "", *, takes: tuple[str, ...] = (), blocks: BlockedUse = BlockedUse.NOTHING
) -> tuple[KnownOption, ...]:
    return tuple(
        KnownOption(key=key, status=OptionStatus.REFUSED, why=needs, way_out=way_out, takes=takes, blocks=blocks)
        for key in keys.split()
    )


_MISREAD: tuple[KnownOption, ...] = (
    *_refused(
        "chain-table.enabled",
        "chain tables, whose rows are put together of several branches, are not read",
        "read the branches one by one, or read the table by Java Paimon",
        takes=_OFF,
        blocks=BlockedUse.READING,
    ),
    *_refused(
        "scan.fallback-snapshot-branch scan.fallback-delta-branch",
        "chain tables, whose rows are put together of several branches, are not read",
        "read the branches one by one, or read the table by Java Paimon",
        blocks=BlockedUse.READING,
    ),
    *_refused(
        "scan.primary-branch",
        "partitions of another branch do not go before those of the table",
        "read that branch itself, or make it 'scan.fallback-branch' the other way round",
        blocks=BlockedUse.READING,
    ),
    *_refused(
        "scan.bucket",
        "a read can't be limited to one bucket",
        "filter by the key",
        blocks=BlockedUse.READING,
    ),
    *_refused(
        "scan.partitions lookup.dynamic-partition",
        "a read can't be limited to partitions by an option",
        "filter by the partition columns",
        blocks=BlockedUse.READING,
    ),
    *_refused(
        "query-auth.enabled",
        "only a REST catalog is asked what it lets a user see of the rows, and applied by its scans",
        "open the table by its REST catalog",
        takes=_OFF,
        blocks=BlockedUse.READING,
    ),
    *_refused(
        "pk-clustering-override",
        "files that are not sorted by their primary key can't be merged",
        "make the table without it, and sort an append table by sys.compact",
        takes=_OFF,
        blocks=BlockedUse.READING,
    ),
    *_refused(
        "sequence.snapshot-ordering",
        "rows are ordered by sequence numbers, not by snapshots",
        "use 'sequence.field'",
        takes=_OFF,
        blocks=BlockedUse.READING,
    ),
    *_refused(
        "primary-key.nullable",
        "null is no value of a key",
        "declare the key's columns NOT NULL",
        takes=_OFF,
        blocks=BlockedUse.READING,
    ),
    *_refused(
        "blob-field blob-descriptor-field blob.stored-descriptor-fields blob-view-field video-frame-field "
        "blob-external-storage-field blob-external-storage-path vector-field",
        "columns of the types BLOB and VECTOR are not supported",
        "declare the column BYTES or ARRAY<FLOAT> without it",
        blocks=BlockedUse.READING,
    ),
    *_refused(
        "postpone.merge-on-read",
        "reads do not merge rows that wait in the postponed bucket",
        "compact the table, which takes them into their buckets",
        takes=_OFF,
        blocks=BlockedUse.READING,
    ),
    *_refused(
        "stream-scan-mode batch-scan-mode",
        "Paimon's compaction jobs alone read so",
        "remove it",
        takes=("none",),
        blocks=BlockedUse.READING,
    ),
    *_refused(
        "fields.<column>.map.storage-layout",
        "maps whose values lie in columns of their own are not read",
        "remove it",
        takes=("default",),
        blocks=BlockedUse.READING,
    ),
    *_refused(
        "fields.<column>.nested-key-null-strategy fields.<column>.nested-sequence-field",
        "nested_update and the like ignore it",
        "remove it",
        blocks=BlockedUse.READING,
    ),
    *_refused(
        "key-value.sequence_number.enabled",
        "Paimon's system tables alone set it",
        "use 'table-read.sequence-number.enabled'",
        takes=_OFF,
    ),
)

_MISWRITTEN: tuple[KnownOption, ...] = (
    *_refused(
        "write.sequence-number-init-mode",
        "writers find their first sequence number in the files of the bucket",
        "remove it, or set it to 'scan'",
        takes=("scan", "default"),
        blocks=BlockedUse.WRITING,
    ),
    *_refused(
        "commit.callbacks tag.callbacks",
        "classes of Java are not called",
        "let a job that follows the table's snapshots do what they do; a write with it set to '' goes without",
        blocks=BlockedUse.WRITING,
    ),
    *_refused(
        "metadata.iceberg.table-properties.<…>",
        "properties of the Iceberg table cannot be chosen",
        "remove it",
        blocks=BlockedUse.NOTHING,
    ),
    *_refused(
        "metadata.iceberg.hive-client-class",
        "classes of Java are not called; the metastore is spoken to by Thrift",
        "remove it",
        takes=("org.apache.hadoop.hive.metastore.hivemetastoreclient",),
        blocks=BlockedUse.NOTHING,
    ),
    *_refused(
        "upsert-key",
        "INSERT does not replace rows of an append table",
        "run MERGE INTO, or make the columns the primary key",
        blocks=BlockedUse.WRITING,
    ),
    *_refused(
        "pk-vector.index.columns pk-btree.index.columns pk-bitmap.index.columns pk-multivalue.index.columns "
        "pk-full-text.index.columns",
        "such indexes of primary-key tables are not kept",
        "use 'file-index.<kind>.columns'",
        blocks=BlockedUse.WRITING,
    ),
    *_refused(
        "commit.strict-mode.last-safe-snapshot",
        "commits do not check what other jobs committed after a snapshot",
        "remove it",
        blocks=BlockedUse.WRITING,
    ),
    *_refused(
        "write.hive-style-dynamic-partition.enabled",
        "INSERT takes columns by their position in the table",
        "name the columns in the INSERT",
        takes=_OFF,
        blocks=BlockedUse.WRITING,
    ),
    *_refused(
        "data-evolution.compaction.rewrite-row-ids",
        "a compaction keeps the ids of rows",
        "remove it",
        takes=_OFF,
    ),
    *_refused(
        "fields.<column>.map.shared-shredding.max-columns fields.<column>.map.shared-shredding.column-placement-policy",
        "maps are not spread over columns",
        "remove it",
    ),
)

_WITHOUT_EFFECT: tuple[KnownOption, ...] = (
    *_refused(
        "format-table.commit-hive-sync-url",
        "partitions of a format table are not registered in another metastore",
        "keep the table in that metastore, or repair it there",
    ),
    *_refused(
        "clustering.incremental",
        "compactions do not cluster rows",
        "sort the table by sys.compact with an order of columns",
        takes=_OFF,
    ),
    *_refused(
        "clustering.columns sink.clustering.by-columns clustering.strategy sink.clustering.strategy",
        "writers do not cluster rows",
        "sort the table by sys.compact with an order of columns",
        takes=("auto",),
    ),
    KnownOption(
        key="metastore.tag-to-partition",
        status=OptionStatus.REFUSED,
        why="tags are not registered as partitions of the metastore",
        way_out="read a tag by VERSION AS OF",
        takes=("none",),
        only_unpartitioned=True,
    ),
    *_refused(
        "commit.force-create-snapshot",
        "a commit without changes of a stream makes its snapshot anyhow, one of a batch none",
        "remove it",
        takes=_OFF,
    ),
    *_refused(
        "snapshot.ignore-empty-commit",
        "a commit without changes of a stream makes its snapshot anyhow, one of a batch none",
        "remove it",
    ),
    *_refused(
        "snapshot.clean-empty-directories snapshot.expire.clean-empty-directories",
        "expiry leaves empty directories, which hold no rows",
        "remove it",
        takes=_OFF,
    ),
    *_refused(
        "commit.discard-duplicate-files",
        "a commit that adds a file twice is refused as a conflict",
        "remove it",
        takes=_OFF,
    ),
    *_refused(
        "scan.ignore-corrupt-files scan.ignore-lost-files",
        "rows are never left out silently",
        "mend the table, or roll it back to a snapshot before the damage",
        takes=_OFF,
    ),
    *_refused(
        "scan.plan-sort-partition",
        "splits are not sorted by partition",
        "sort the rows by the partition columns",
        takes=_OFF,
    ),
    *_refused(
        "scan.plan-auto-tag-for-read.time-retained",
        "reads make no tags",
        "create a tag with a time to live and read it",
    ),
    *_refused(
        "partition.timestamp-format.strict",
        "partitions whose values name no time are left as they are, without an error",
        "remove it",
        takes=_OFF,
    ),
    *_refused(
        "auto-create",
        "a table is made by its catalog before it is used",
        "remove it",
        takes=_OFF,
    ),
    *_refused(
        "visibility-callback.enabled",
        "commits do not wait for compactions of other jobs",
        "set 'lookup-wait', or compact the table",
        takes=_OFF,
    ),
    *_refused(
        "delete.force-produce-changelog",
        "DELETE writes what 'changelog-producer' says",
        "set 'changelog-producer', or read overwrites by 'streaming-read-overwrite'",
        takes=_OFF,
    ),
    *_refused(
        "orc.timestamp-ltz.legacy.type",
        "ORC files hold local-zoned timestamps in one form",
        "remove it, or use Parquet",
        takes=("true",),
    ),
    *_refused(
        "legacy-timestamp-mapping.enabled",
        "TIMESTAMP is TIMESTAMP_NTZ in Spark",
        "declare the column TIMESTAMP_LTZ",
        takes=_OFF,
    ),
    *_refused(
        "read.allow.fullScan",
        "reads of all partitions are always allowed",
        "remove it",
        takes=("true",),
    ),
)

_SELF_OPTIMIZING: tuple[KnownOption, ...] = (
    *_refused(
        "self-optimizing.allow-partial-commit",
        "what a compaction has written is committed as a whole or not at all",
        "remove it",
        takes=_OFF,
    ),
    *_refused(
        "self-optimizing.execute.num-retries",
        "a compaction that failed is not repeated but planned again",
        "remove it",
    ),
    *_refused(
        "self-optimizing.fragment-ratio self-optimizing.min-target-size-ratio",
        "which files are small follows from their target size",
        "use 'compaction.small-file-ratio'",
    ),
    *_refused(
        "self-optimizing.max-file-count self-optimizing.max-task-size-bytes",
        "a compaction takes whole buckets, and merges them in bounded memory",
        "remove it",
    ),
    *_refused(
        "self-optimizing.min-plan-interval self-optimizing.evaluation.fallback-interval "
        "self-optimizing.evaluation.file-size.mse-tolerance self-optimizing.refresh-table.adaptive.max-interval-ms "
        "self-optimizing.refresh-table.adaptive.increase-step-ms",
        "how often tables are looked at is a setting of the service, not of each table",
        "remove it",
    ),
    *_refused(
        "self-optimizing.filter",
        "a table is optimized as a whole",
        "set 'self-optimizing.enabled' = 'false', and compact the partitions that you choose by sys.compact",
    ),
    *_refused(
        "self-optimizing.rewrite.use-parquet-row-group-merge.enabled",
        "row groups are not copied from file to file",
        "remove it",
        takes=_OFF,
    ),
    *_refused(
        "self-optimizing.rewrite.use-parquet-row-group-merge.min-avg-row-group-size-bytes",
        "row groups are not copied from file to file",
        "remove it",
    ),
)

REFUSED: tuple[KnownOption, ...] = (*_MISREAD, *_MISWRITTEN, *_WITHOUT_EFFECT, *_SELF_OPTIMIZING)
"""All refused options by group."""
