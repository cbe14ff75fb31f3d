"""Change of a table's schema as one block: `with table.update_schema() as update: update.add_column("x", "BIGINT")`."""

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

from interbed.storage.meta.schema.change import GivenPath, GivenType, Move, SchemaChange


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
