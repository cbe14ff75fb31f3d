"""Options of writes that change the schema (Paimon's documentation: spark/sql-write, "Write Merge Schema").

Paimon's newest release widens types only with `write.merge-schema.type-widening`; those before it, which lack that
option, always do, and so does interbed unless the option is false.
"""

from dataclasses import dataclass

from interbed.storage.meta.options.reader import OptionReader

MERGE_SCHEMA = "write.merge-schema"
TYPE_WIDENING = "write.merge-schema.type-widening"
EXPLICIT_CAST = "write.merge-schema.explicit-cast"


@dataclass(frozen=True, slots=True)
class WriteOptions(OptionReader):
    """The options of writes that change the schema."""

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
