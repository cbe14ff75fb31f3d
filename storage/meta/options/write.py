"""Options of writes: schema merges, durability, and the order of sort compaction.

Sources: Paimon's documentation pages `spark/sql-write` ("Write Merge Schema") and `maintenance/dedicated-compaction`
(sort compact). Paimon's newest release widens types only with `write.merge-schema.type-widening`; older releases, which
lack that option, always do, and so does interbed unless the option is false.
"""

from dataclasses import dataclass
from enum import StrEnum

from interbed.storage.meta.options.reader import OptionReader

MERGE_SCHEMA = "write.merge-schema"
TYPE_WIDENING = "write.merge-schema.type-widening"
EXPLICIT_CAST = "write.merge-schema.explicit-cast"
COMMIT_SYNC = "commit.sync"


class CommitSync(StrEnum):
    """Files that are durable when a commit returns: all that its snapshot refers to, its own file alone, or none."""

    FULL = "full"
    SNAPSHOT = "snapshot"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class WriteOptions(OptionReader):
    """Options of schema merges and of the durability of writes."""

    @property
    def commit_sync(self) -> CommitSync:
        """Data that survives a power cut once a commit to a local file system has returned.

        `full`: all of it. `snapshot`: the file of the snapshot and small files of metadata, but not the files that they
        refer to. `none`: only schemas. Without effect on object stores, whose writes are durable.
        """
        return self.choice(COMMIT_SYNC, CommitSync.FULL)

    @property
    def merges_schema(self) -> bool:
        """Whether columns that only the rows have are added to the table."""
        return self.boolean(MERGE_SCHEMA, False)

    @property
    def widens_types(self) -> bool:
        """Whether merging also gives a column a type that holds both its own values and those of the rows."""
        return self.boolean(TYPE_WIDENING, True)

    @property
    def casts_types(self) -> bool:
        """Whether merging also gives a column the rows' type where old values may lose precision."""
        return self.boolean(EXPLICIT_CAST, False)


class RangeStrategy(StrEnum):
    """Quantity that is about equal in ranges of sorted rows."""

    SIZE = "size"
    QUANTITY = "quantity"


@dataclass(frozen=True, slots=True)
class SortOptions(OptionReader):
    """Options of the sort compaction."""

    @property
    def sort_range_strategy(self) -> RangeStrategy:
        """Whether the ranges of a sort have the same bytes or the same number of rows."""
        return self.choice("sort-compaction.range-strategy", RangeStrategy.SIZE)

    @property
    def sort_sample_magnification(self) -> int:
        """Number of rows that are sampled for each range of a sort; at least 20."""
        return self.integer("sort-compaction.local-sample.magnification", 1000)
