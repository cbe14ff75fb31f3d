"""Interface of the rules for combinations of options, which schemas call.

The rules need file formats, indexes, merge functions and buckets, and so are in a higher layer than schemas: see
`interbed.storage.table.option_rules`.
"""

from typing import Protocol

from interbed.storage.io.api import FileIO
from interbed.storage.meta.paths import TablePaths
from interbed.storage.meta.schema.table_schema import TableSchema


class OptionRules(Protocol):
    """Check of the options of a whole schema."""

    def __call__(
        self, schema: TableSchema, before: TableSchema | None = None, at: "tuple[FileIO, TablePaths] | None" = None
    ) -> None:
        """Raise InvalidOptionError for options that contradict each other, the keys or the columns, or the files.

        Raises NotSupportedError for features that this version lacks. `before` is the table that is changed, which is
        `at` this location: it may keep options that Java Paimon allowed.
        """
        ...
