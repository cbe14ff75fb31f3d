"""The seam between schemas and the rules that their options must keep together.

The rules know file formats, indexes, merge functions and buckets, and so stand above schemas: see
`interbed.storage.table.option_rules`.
"""

from typing import Protocol

from interbed.storage.base.fileio.api import FileIO
from interbed.storage.meta.paths import TablePaths
from interbed.storage.meta.schema.table_schema import TableSchema


class OptionRules(Protocol):
    """Checks the options of a whole schema."""

    def __call__(
        self, schema: TableSchema, before: TableSchema | None = None, at: "tuple[FileIO, TablePaths] | None" = None
    ) -> None:
        """Raise InvalidOptionError for options that contradict each other, the keys or the columns, or the files.

        NotSupportedError for what this version lacks. `before` is the table that is changed, which is `at` this place:
        what Java Paimon let it have it may keep.
        """
        ...
