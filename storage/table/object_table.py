"""Object tables: the files below a directory, with their sizes and times, as rows. They are read only.

Such a table has the option `type` = `object-table`, and the columns of Paimon's ObjectTable. Its directory has files of
any kind, which other programs write, and in catalogs without a REST server the file of the table's schema. Each read
lists the directory. Source: paimon-core `table.object.ObjectTable` and `ObjectTableImpl`.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from interbed.storage.base.errors import InvalidInputError, InvalidOptionError, NotSupportedError
from interbed.storage.base.types.arrow import data_type
from interbed.storage.base.types.data_type import DataField
from interbed.storage.io.api import FileIO, FileStatus
from interbed.storage.io.parallel import in_parallel
from interbed.storage.meta.options.core import CoreOptions, option_text
from interbed.storage.meta.options.format import applies
from interbed.storage.meta.options.known.check import check_names
from interbed.storage.meta.schema.table_schema import Schema, TableSchema
from interbed.storage.table.described import ScannedRows
from interbed.storage.views.system.rows_table import Row, RowsTable

if TYPE_CHECKING:
    import pyarrow as pa

_TEXT, _NUMBER = data_type("STRING NOT NULL"), data_type("BIGINT NOT NULL")
FIELDS = (
    DataField(id=0, name="path", type=_TEXT, description="Relative path of object"),
    DataField(id=1, name="name", type=_TEXT, description="Name of object"),
    DataField(id=2, name="length", type=_NUMBER, description="Bytes length of object"),
    DataField(id=3, name="mtime", type=_NUMBER, description="Modification time of object"),
    DataField(id=4, name="atime", type=_NUMBER, description="Access time of object"),
    DataField(id=5, name="owner", type=data_type("STRING"), description="Owner of object"),
)
"""The columns of all object tables."""

_LISTED_AT_ONCE = 64
"""How many directories are listed before their rows are returned."""

_WRITES = frozenset(("append", "overwrite", "upsert", "truncate", "drop_partitions", "add_partitions"))


class ObjectTable(ScannedRows, RowsTable):
    """A list of the files below a directory, with their sizes in bytes and times in milliseconds since the epoch.

    The access time is 0 and the owner is null, as with Paimon's local file system and object stores.
    """

    noun: ClassVar[str] = "object table"

    def __init__(self, name: str, location: str, file_io: FileIO, schema: TableSchema) -> None:
        self.name = name
        self.location = location
        self.file_io = file_io
        self.schema = schema

    def __repr__(self) -> str:
        return f"ObjectTable({self.name!r}, {self.location!r})"

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            """Raise NotSupportedError for what only tables with rows of their own have."""
            # By use: it is needed for errors alone, and loads the formats of text files.
            from interbed.storage.table.format_table.format_table import OF_TABLES

            if name in _WRITES:
                raise NotSupportedError(
                    f"The object table '{self.name}' is read only: its rows are the files in {self.location}. Write or "
                    "delete these files."
                )
            if name in OF_TABLES:
                raise NotSupportedError(
                    f"The object table '{self.name}' has no '{name}': it is a list of files, without snapshots, tags "
                    "and branches, and is not altered."
                )
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)

    @property
    def arrow_schema(self) -> "pa.Schema":
        """The Arrow schema of the rows."""
        return self.schema.arrow

    @property
    def options(self) -> CoreOptions:
        """The options of the table, typed."""
        return self.schema.core

    @property
    def table_schema(self) -> TableSchema:
        """The schema, as in pypaimon."""
        return self.schema

    @property
    def table_path(self) -> str:
        """The directory of the table, as in pypaimon."""
        return self.location

    def comment(self) -> str | None:
        """Return the comment of the table."""
        return self.schema.comment

    def copy(self, dynamic_options: Mapping[str, object]) -> "ObjectTable":
        """Return the same table with options on top of its own, for this object only; None removes one."""
        options = {k: v for k, v in self.schema.options.items() if k not in dynamic_options}
        options |= {k: option_text(v) for k, v in dynamic_options.items() if v is not None}
        return ObjectTable(self.name, self.location, self.file_io, replace(self.schema, options=options))

    def rows(self, wanted: Collection[str]) -> Sequence[Row]:
        """Return a row of each file; a scan gets them in parts."""
        return [row for part in self.parts(wanted) for row in part]

    def parts(self, wanted: Collection[str]) -> Iterator[Sequence[Row]]:
        """Yield the rows of some directories at a time, those near the root first. Links to directories are not
        followed.
        """
        directories = [self.location.rstrip("/")]
        while directories:
            listed, directories = directories[:_LISTED_AT_ONCE], directories[_LISTED_AT_ONCE:]
            found = in_parallel(self.file_io, [partial(self.file_io.list, path) for path in listed])
            entries = sorted((entry for some in found for entry in some), key=lambda entry: entry.path)
            directories += [entry.path for entry in entries if entry.is_directory and not entry.is_link]
            yield [self._row(entry) for entry in entries if not entry.is_directory]

    def _row(self, entry: FileStatus) -> Row:
        relative = entry.path[len(self.location.rstrip("/")) + 1 :]
        return (relative, entry.name, entry.size, entry.modified_millis or 0, 0, None)


def object_schema(given: Schema) -> Schema:
    """Return the schema of a new object table: the columns of all such tables with the given options and comment.

    Raises InvalidInputError for other columns and for keys.
    """
    if not _has_columns(given):
        raise InvalidInputError(
            "An object table has the columns path, name, length, mtime, atime and owner, and no keys: create it "
            "without columns."
        )
    return Schema(FIELDS, (), (), given.options, given.comment)


def _has_columns(schema: Schema | TableSchema) -> bool:
    """Return whether a schema has the columns of object tables, or none, and no keys."""
    columns, wanted = ([(f.name, f.type.with_nullable(True)) for f in fields] for fields in (schema.fields, FIELDS))
    return not (schema.partition_keys or schema.primary_keys) and columns in ([], wanted)


def check_columns(name: str, schema: TableSchema) -> None:
    """Raise NotSupportedError unless the schema of a table has the columns of object tables."""
    if not _has_columns(schema):
        raise NotSupportedError(
            f"The table '{name}' has the option 'type' = 'object-table' and columns or keys of another table: "
            f"{', '.join(schema.names)}. Remove the option from its newest schema if its rows are in data files."
        )


def check_object_table(schema: TableSchema, before: TableSchema | None = None) -> None:
    """Check the schema of a new object table; raise NotSupportedError for an altered one.

    Raises InvalidOptionError for an option without effect on such tables.
    """
    if before is not None:
        raise NotSupportedError(
            "An object table is not altered: its columns are the same in all such tables, and no option changes its "
            "rows. Drop it and create it again with other properties; its files stay."
        )
    check_names(schema.options)
    for key in schema.options:
        if not applies(key, to_objects=True):
            raise InvalidOptionError(
                f"Option '{key}' has no effect on an object table, which lists the files of a directory; remove it."
            )
