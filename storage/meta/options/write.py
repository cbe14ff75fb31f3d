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
    """What is durable when a commit returns: all that its snapshot names, its own file alone, or nothing."""

    FULL = "full"
    SNAPSHOT = "snapshot"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class WriteOptions(OptionReader):
    """The options of writes that change the schema, and of how durable writes are."""

    @property
    def commit_sync(self) -> CommitSync:
        """What outlives a power cut once a commit to a local file system has returned: `full` all of it, `snapshot` the
        file of the snapshot and small files of metadata but not the files that these name, `none` nothing but schemas.
        Without effect on object stores, which keep what they have taken.
        """
        return self.choice(COMMIT_SYNC, CommitSync.FULL)

    @property
    def merges_schema(self) -> bool:
        """Whether the columns that rows have and the table has not are added to it."""
        return self.boolean(MERGE_SCHEMA, False)

    @property
    def widens_types(self) -> bool:
        """Whether merging also gives a column a type that holds both its own values and those of the rows."""
        return self.boolean(TYPE_WIDENING, True)

    @property
    def casts_types(self) -> bool:
        """Whether merging also gives a column the rows' type where old values may lose something by that."""
        return self.boolean(EXPLICIT_CAST, False)


class RangeStrategy(StrEnum):
    """What ranges of sorted rows have about the same of."""

    SIZE = "size"
    QUANTITY = "quantity"


@dataclass(frozen=True, slots=True)
class SortOptions(OptionReader):
    """The options of sort compaction."""

    @property
    def sort_range_strategy(self) -> RangeStrategy:
        """Whether the ranges of a sort have the same bytes or the same number of rows."""
        return self.choice("sort-compaction.range-strategy", RangeStrategy.SIZE)

    @property
    def sort_sample_magnification(self) -> int:
        """How many rows are sampled for each range of a sort; a sort takes 20 at least."""
        return self.integer("sort-compaction.local-sample.magnification", 1000)
