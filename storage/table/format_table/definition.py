"""Definition of a format table: format, syntax and compression of its files, and the layout of its partitions.

Options are Paimon's (documentation: `concepts/table-types`, CoreOptions). Format tables of the format Avro are
interbed's own; Java Paimon refuses them.
"""

from dataclasses import dataclass, replace
from functools import cached_property

from interbed.storage.base.errors import InvalidInputError, InvalidOptionError, NotSupportedError
from interbed.storage.base.types.data_type import AtomicType, DataField
from interbed.storage.files.format.layout import DataFileLayout
from interbed.storage.files.text.codec import EXTENSIONS, check_compression, check_text_fields
from interbed.storage.files.text.options import CsvOptions, TextFileOptions, text_syntax
from interbed.storage.meta.options.core import CoreOptions
from interbed.storage.meta.options.format import (
    COMMIT_HIVE_SYNC,
    COMPRESSION,
    COMPRESSION_KEYS,
    IMPLEMENTATION,
    ONLY_VALUES,
    PARTITIONED_IN_CATALOG,
    USED,
    USED_PREFIXES,
    applies,
)
from interbed.storage.meta.options.known.check import check_names
from interbed.storage.meta.schema.table_schema import TableSchema

COLUMNAR_FORMATS = ("parquet", "orc", "avro")
TEXT_FORMATS = ("csv", "json", "text")
_DEFAULT_COMPRESSION = {"parquet": "snappy", "orc": "zstd", "avro": "zstd"}
_HIDDEN = ("_", ".")


@dataclass(frozen=True, kw_only=True)
class FormatDefinition:
    """A schema, and what its options say about files and partitions.

    `any_case` finds columns and partition directories whatever the case of their names, as Hive does.
    """

    schema: TableSchema
    file_format: str
    syntax: TextFileOptions | None
    any_case: bool = False
    read_only: str | None = None
    """The reason why such a table is not written; None for one that is."""

    @staticmethod
    def of(schema: TableSchema) -> "FormatDefinition":
        """Return the definition of a format table. Raises InvalidOptionError and NotSupportedError."""
        file_format = schema.options.get("file.format", "parquet").strip().lower()
        if file_format not in (*COLUMNAR_FORMATS, *TEXT_FORMATS):
            known = ", ".join((*COLUMNAR_FORMATS, *TEXT_FORMATS))
            raise InvalidOptionError(
                f"Option 'file.format' of a format table takes one of {known}, not '{file_format}'."
            )
        return FormatDefinition(schema=schema, file_format=file_format, syntax=text_syntax(file_format, schema.options))

    @property
    def options(self) -> CoreOptions:
        """The options of the table."""
        return self.schema.core

    @property
    def data_fields(self) -> tuple[DataField, ...]:
        """The columns of the files: those of the table without the partition columns."""
        return tuple(f for f in self.schema.fields if f.name not in self.schema.partition_keys)

    @property
    def only_values(self) -> bool:
        """Whether the directory of a partition is named by its value alone."""
        return self.options.boolean(ONLY_VALUES, False)

    @property
    def compression(self) -> str | None:
        """The compression of new text files; None for none. Raises InvalidOptionError."""
        key, value = self._compression
        return check_compression(key, value)

    @property
    def _compression(self) -> tuple[str, str]:
        found = next((key for key in COMPRESSION_KEYS if key in self.schema.options), None)
        if found is None:
            return COMPRESSION, _DEFAULT_COMPRESSION.get(self.file_format, "none")
        return found, self.schema.options[found]

    @property
    def extension(self) -> str:
        """The extension of the names of new files, without the dot."""
        if self.syntax is None:
            return self.layout.kinds.at(0).extension
        compression = self.compression
        return self.file_format if compression is None else f"{self.file_format}.{EXTENSIONS[compression]}"

    @cached_property
    def layout(self) -> DataFileLayout:
        """The layout of new files of a columnar format. Raises InvalidOptionError and NotSupportedError."""
        kept = {k: v for k, v in self.schema.options.items() if k in USED or k.startswith(USED_PREFIXES)}
        options = {**kept, "file.format": self.file_format, "file.compression": self._compression[1]}
        columns = replace(self.schema, fields=self.data_fields, partition_keys=(), primary_keys=(), options=options)
        return DataFileLayout.of(columns, columns.core)

    def check_writable(self, table: str) -> None:
        """Raise NotSupportedError for a table whose files are only read."""
        reason = self.read_only
        if COMMIT_HIVE_SYNC in self.schema.options:
            reason = f"option '{COMMIT_HIVE_SYNC}' is not supported: partitions are not registered in another metastore"
        if reason is not None:
            raise NotSupportedError(f"The format table '{table}' is only read: {reason}.")


def check_format_table(schema: TableSchema, before: TableSchema | None = None) -> None:
    """Check the schema of a new or altered format table.

    Raises InvalidOptionError for options that have no effect on such tables and for wrong values, InvalidInputError for
    a key and for partition columns whose directories would be hidden, NotSupportedError for columns that the files
    can't hold.
    """
    had = {} if before is None else before.options
    check_names(schema.options, had)
    if schema.primary_keys or "primary-key" in schema.options:
        raise InvalidOptionError("Option 'type' = 'format-table' takes no primary key: such a table has no keys.")
    for key, value in schema.options.items():
        if had.get(key) != value and not applies(key):
            raise InvalidOptionError(
                f"Option '{key}' has no effect on a format table, which has neither snapshots nor buckets nor keys; "
                "remove it."
            )
    _check_defaults(schema, before)
    definition = FormatDefinition.of(schema)
    check_discovered(schema)
    if schema.options.get(IMPLEMENTATION, "paimon").lower() not in ("paimon", "engine"):
        raise InvalidOptionError(f"Option '{IMPLEMENTATION}' takes paimon or engine.")
    schema.core.check_kind(ONLY_VALUES, "boolean")
    _ = (schema.core.target_file_size, schema.core.target_file_rows, schema.core.data_file_prefix)
    _check_names(definition)
    _check_null_literal(definition.syntax)
    fields = definition.data_fields
    if not fields:
        raise InvalidInputError("A format table has a column that is no partition column: files hold no others.")
    if definition.syntax is None:
        _ = definition.layout
    else:
        check_text_fields(definition.file_format, fields)
        _ = definition.extension


def _check_defaults(schema: TableSchema, before: TableSchema | None) -> None:
    had = set() if before is None else {f.name for f in before.fields if f.default_value is not None}
    for field in schema.fields:
        if field.default_value is not None and field.name not in had:
            raise NotSupportedError(
                f"The column '{field.name}' of a format table can't have a default: such a table has no schema of its "
                "own that keeps one. Leave DEFAULT out, and write the value in each row."
            )


def check_discovered(schema: TableSchema) -> None:
    """Raise NotSupportedError for a table whose partitions a REST catalog would keep."""
    if schema.core.boolean(PARTITIONED_IN_CATALOG, False):
        raise NotSupportedError(
            f"Option '{PARTITIONED_IN_CATALOG}' = 'true' of a format table is not supported: its partitions are its "
            "directories. Remove it, or set it to 'false'."
        )


def _check_null_literal(syntax: TextFileOptions | None) -> None:
    if isinstance(syntax, CsvOptions) and syntax.null_literal is not None:
        special = [c for c in (syntax.delimiter, syntax.quote, syntax.escape) if c is not None]
        if any(c in syntax.null_literal for c in (*special, "\n", "\r")):
            raise InvalidOptionError(
                f"Option 'csv.null-literal' is {syntax.null_literal!r}, in which the delimiter, the quote or the "
                "escape character occurs: Java Paimon would not read it as NULL. Choose another text, such as NULL."
            )


def _check_names(definition: FormatDefinition) -> None:
    schema = definition.schema
    prefix = definition.options.data_file_prefix
    if prefix.startswith(_HIDDEN):
        raise InvalidOptionError(f"Option 'data-file.prefix' is {prefix!r}: files of such names are hidden.")
    for field in schema.partition_fields:
        if not isinstance(field.type, AtomicType):
            raise InvalidInputError(f"The partition column {field.name!r} is {field.type}, which names no directory.")
        if field.name.startswith(_HIDDEN) and not definition.only_values:
            raise InvalidInputError(
                f"The partition column {field.name!r} would have hidden directories, because its name begins with "
                f"{field.name[0]!r}; rename it."
            )
