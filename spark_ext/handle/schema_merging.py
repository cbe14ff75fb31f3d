"""Rows that bring more than the table's columns: new ones, or one that says what each row does.

A write that merges its columns into the table's (Paimon's documentation: spark/sql-write, "Write Merge Schema") is
analysed against the table as it will be. The schema is made when the job is planned, before any task starts: files name
the schema that they are of, and an EXPLAIN changes nothing. It stays if the job fails then, which loses nothing: it
holds every row that there was.
"""

import json
from dataclasses import dataclass
from typing import Any

from interbed.spark_ext.values.spark_types import schema_from_spark, type_to_spark
from interbed.storage.base.errors import SchemaMismatchError
from interbed.storage.base.types.data_type import BINARIES, MAX_LENGTH, AtomicType, DataField, DataType, TypeRoot
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.merge_schema import MergeRules, merge_changes, merge_into, same_column
from interbed.storage.meta.options.core import CoreOptions
from interbed.storage.meta.schema.table_schema import TableSchema
from interbed.storage.table.option_rules import changed_schema

_UNTYPED = "void"

KIND_COLUMNS = ("_row_kind_", "_row_kind", "rowkind")
"""Columns of a DataFrame that hold the kinds of its rows: Paimon's in Spark, ours, and that of an audit log."""

_KIND_TYPES = ("byte", "short", "integer", "long", "string")


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsToCome:
    """Spark's StructType of the rows of a write, as JSON, and whether names that differ by case are two names."""

    schema_json: str
    case_sensitive: bool

    def merged(self, schema: TableSchema, options: CoreOptions) -> TableSchema:
        """The schema as the write will make it, the same one if the rows fit; raises SchemaMismatchError."""
        rules = self._rules(options)
        changes = merge_changes(schema, self._fields(schema, rules), rules)
        return changed_schema(schema, changes) if changes else schema

    def merge_into(self, store: FileStore) -> FileStore:
        """Make the schema; raises SchemaMismatchError and CommitFailedError."""
        rules = self._rules(store.options)
        return merge_into(store, self._fields(store.schema, rules), rules)

    def _rules(self, options: CoreOptions) -> MergeRules:
        return MergeRules(
            widens=options.widens_types, casts=options.casts_types, case_sensitive=self.case_sensitive, takes=_takes
        )

    def _fields(self, schema: TableSchema, rules: MergeRules) -> tuple[DataField, ...]:
        struct = json.loads(self.schema_json)
        # NULL has no type; where the table has the column it needs none.
        struct["fields"] = [
            f for f in struct["fields"] if f["type"] != _UNTYPED or same_column(schema.fields, f["name"], rules) is None
        ]
        return schema_from_spark(json.dumps(struct))


def kind_field(schema_json: str, table: TableSchema) -> Any:
    """Of a StructType in JSON the field with the kinds of the rows, if there is one that is no column of the table.

    Raises SchemaMismatchError for two of them, and for one of another type.
    """
    own = {name.lower() for name in table.names}
    fields = json.loads(schema_json)["fields"]
    found = [f for f in fields if f["name"].lower() in KIND_COLUMNS and f["name"].lower() not in own]
    if not found:
        return None
    first, *others = found
    if others:
        raise SchemaMismatchError(
            f"Both '{first['name']}' and '{others[0]['name']}' would hold the kinds of the rows. Drop one of them."
        )
    if first["type"] not in _KIND_TYPES:
        raise SchemaMismatchError(
            f"The column '{first['name']}' holds the kinds of the rows, 0 to 3 or +I, -U, +U and -D; it is of type "
            f"{first['type']}. Cast it, or give it another name if it is a column of its own."
        )
    return first


def _takes(table: DataType, rows: DataType) -> bool:
    """Whether Spark writes the rows' values into a column of the table's type, without loss.

    It knows fewer types than tables have, and makes text of any plain value.
    """
    if isinstance(table, AtomicType) and table.root is TypeRoot.VARCHAR and table.length == MAX_LENGTH:
        return isinstance(rows, AtomicType) and rows.root not in BINARIES
    return bool(type_to_spark(table) == type_to_spark(rows))
