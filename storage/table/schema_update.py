"""Change of a table's schema as one block, and checks of new option values that would make it unusable here.

with table.update_schema() as update:
    update.add_column("x", "BIGINT")

A table that Java Paimon made with such a value keeps it through other changes.
"""

from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Self

from interbed.storage.base.errors import InvalidOptionError, NotSupportedError
from interbed.storage.base.types.data_type import BINARIES, AtomicType, is_atomic
from interbed.storage.meta.bucket_function import BucketFunction, bucket_function
from interbed.storage.meta.options.core import CoreOptions
from interbed.storage.meta.schema.change import GivenPath, GivenType, Move, SchemaChange
from interbed.storage.meta.schema.table_schema import TableSchema
from interbed.storage.write.bucket.partition_buckets import DynamicBucketRules


class SchemaUpdate:
    """Collects schema changes and applies them together when the block ends; none of them when it ends with an error.

    The methods are those of SchemaChange, and return this object, so that calls can be chained. Without a block call
    `commit`.
    """

    def __init__(self, apply_all: Callable[[Sequence[SchemaChange]], None]) -> None:
        self._apply_all = apply_all
        self._changes: list[SchemaChange] = []

    @property
    def changes(self) -> tuple[SchemaChange, ...]:
        """The collected changes that are not applied yet."""
        return tuple(self._changes)

    def apply(self, *changes: SchemaChange) -> Self:
        """Add changes that were made by SchemaChange."""
        self._changes += changes
        return self

    def add_column(
        self,
        field_name: GivenPath,
        data_type: GivenType,
        comment: str | None = None,
        move: Move | None = None,
        *,
        default_value: str | None = None,
    ) -> Self:
        """Add SchemaChange.add_column to the changes."""
        change = SchemaChange.add_column(field_name, data_type, comment, move, default_value=default_value)
        return self.apply(change)

    def rename_column(self, field_name: GivenPath, new_name: str) -> Self:
        """Add SchemaChange.rename_column to the changes."""
        return self.apply(SchemaChange.rename_column(field_name, new_name))

    def drop_column(self, field_name: GivenPath) -> Self:
        """Add SchemaChange.drop_column to the changes."""
        return self.apply(SchemaChange.drop_column(field_name))

    def update_column_type(
        self, field_name: GivenPath, new_data_type: GivenType, keep_nullability: bool = False
    ) -> Self:
        """Add SchemaChange.update_column_type to the changes."""
        return self.apply(SchemaChange.update_column_type(field_name, new_data_type, keep_nullability))

    def update_column_nullability(self, field_name: GivenPath, new_nullability: bool) -> Self:
        """Add SchemaChange.update_column_nullability to the changes."""
        return self.apply(SchemaChange.update_column_nullability(field_name, new_nullability))

    def update_column_comment(self, field_name: GivenPath, comment: str | None) -> Self:
        """Add SchemaChange.update_column_comment to the changes."""
        return self.apply(SchemaChange.update_column_comment(field_name, comment))

    def update_column_default_value(self, field_names: GivenPath, default_value: str | None) -> Self:
        """Add SchemaChange.update_column_default_value to the changes."""
        return self.apply(SchemaChange.update_column_default_value(field_names, default_value))

    def update_column_position(self, move: Move) -> Self:
        """Add SchemaChange.update_column_position to the changes."""
        return self.apply(SchemaChange.update_column_position(move))

    def set_option(self, key: str, value: object) -> Self:
        """Add SchemaChange.set_option to the changes."""
        return self.apply(SchemaChange.set_option(key, value))

    def remove_option(self, key: str) -> Self:
        """Add SchemaChange.remove_option to the changes."""
        return self.apply(SchemaChange.remove_option(key))

    def update_comment(self, comment: str | None) -> Self:
        """Add SchemaChange.update_comment to the changes."""
        return self.apply(SchemaChange.update_comment(comment))

    def commit(self) -> None:
        """Apply the changes as one new schema, all or none; do nothing without changes.

        Raises InvalidInputError, NotSupportedError and CommitFailedError.
        """
        changes, self._changes = self._changes, []
        if changes:
            self._apply_all(changes)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.commit()


_SEQUENCE = "sequence.field"
_KIND = "type"
_BUCKET_FUNCTION = "bucket-function.type"
_FIELDS = "fields."
_OF_COLUMNS = (
    *("aggregate-function", "ignore-retract", "distinct", "list-agg-delimiter", "nested-key", "count-limit"),
    *("ts-field", "stats-mode", "sequence-group"),
)
"""Names of the options `fields.<column>.…`, which are about whole columns."""
_DYNAMIC_BUCKETS = "dynamic-bucket."
_LEGACY_NAMES = "partition.legacy-name"


def check_new_values(schema: TableSchema, before: Mapping[str, str] | None) -> None:
    """Check the options that are new, or have other values than `before`.

    Raises InvalidOptionError for sequence fields that have no order, for options of fields inside of columns, for
    dynamic buckets that can't be and for names of partitions that can't be written, NotSupportedError for unsupported
    kinds of tables and bucket functions.
    """
    new = {key: value for key, value in schema.options.items() if before is None or before.get(key) != value}
    for key in new:
        _check_whole_columns(schema, key)
    if _SEQUENCE in new:
        _check_sequence(schema, new[_SEQUENCE])
    if new.get(_KIND, "table").strip().lower() != "table":
        raise NotSupportedError(f"Option '{_KIND}' = '{new[_KIND]}' makes no table of this format; use 'table'.")
    if _BUCKET_FUNCTION in new and bucket_function(schema.core) is BucketFunction.HIVE:
        raise NotSupportedError(f"Option '{_BUCKET_FUNCTION}' = 'hive' is not supported; use default or mod.")
    if any(key.startswith(_DYNAMIC_BUCKETS) for key in new):
        DynamicBucketRules.check_new(schema.core)
    if before is None or CoreOptions(before).partition_legacy_name != schema.core.partition_legacy_name:
        _check_partitions(schema)


def _check_whole_columns(schema: TableSchema, key: str) -> None:
    kind = key.rpartition(".")[2]
    if not key.startswith(_FIELDS) or kind not in _OF_COLUMNS:
        return
    for name in key[len(_FIELDS) : -len(kind) - 1].split(","):
        column, dot, inner = name.partition(".")
        if dot and name not in schema.by_name and column in schema.by_name:
            raise InvalidOptionError(
                f"Option '{key}' names the field {inner!r} of the column {column!r} and would have no effect: such "
                "options are about whole columns. Make the field a column of its own."
            )


def _check_sequence(schema: TableSchema, value: str) -> None:
    names = [part.strip() for part in value.split(",")]
    if value.strip() and not all(names):
        raise InvalidOptionError(f"Option '{_SEQUENCE}' = '{value}' has a comma without a column beside it.")
    for name in names:
        column = schema.by_name.get(name)
        if column is not None and not isinstance(column.type, AtomicType):
            raise InvalidOptionError(
                f"Option '{_SEQUENCE}' names {name!r}, whose nested type {column.type} has no order here."
            )


def _check_partitions(schema: TableSchema) -> None:
    for field in schema.partition_fields:
        if is_atomic(field.type, *BINARIES) and schema.core.partition_legacy_name:
            raise InvalidOptionError(
                f"The partition column '{field.name}' has the type {field.type}, whose values have no names in the old "
                f"form. Create the table with '{_LEGACY_NAMES}' = 'false'."
            )
