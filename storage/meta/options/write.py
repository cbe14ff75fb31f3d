"""Options of writes that change the schema (Paimon's documentation: spark/sql-write, "Write Merge Schema"), and how
durable writes are.

Paimon's newest release widens types only with `write.merge-schema.type-widening`; those before it, which lack that
option, always do, and so does interbed unless the option is false.
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
