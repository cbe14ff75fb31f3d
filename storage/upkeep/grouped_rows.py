"""Rows of an upsert in groups that have the same columns.

An upsert of some columns looks up the old values of the other columns by key, for each group of rows with the same
columns, as of one snapshot. A row of the key in another group would therefore not see the values of the rows before it,
and several rows of a key have to become one. That depends on the table: in a partial-update table a null keeps the
value of the row before it. A table with sequences compares each row with the row before it, and aggregates need each of
them.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from interbed.storage.base.arrow_values import one_array
from interbed.storage.base.errors import SchemaMismatchError
from interbed.storage.base.incoming import arrow_rows
from interbed.storage.base.row.binary_row import encode_rows
from interbed.storage.lsm.merge_function.row_rules import kept_columns
from interbed.storage.meta.schema.table_schema import TableSchema
from interbed.storage.read.point_lookup import key_batch
from interbed.storage.write.row_statements import keep_rules

Row = Mapping[str, Any]


def groups_of_dicts(rows: Sequence[Row], schema: TableSchema, name: str) -> list[list[dict[str, Any]]]:
    """Return the rows in groups that have the same columns; the rows of a key are in one group, in their order.

    Rows of a key with other columns are merged: the later value wins, but a null that keeps the old value. Raises
    SchemaMismatchError for a row without a column of the key, and for rows of a key with other columns if the table
    orders them by a sequence.
    """
    ordered = keep_rules(schema)
    keeps_null = frozenset(
        name
        for name, kept in kept_columns(schema, schema.core).items()
        if not kept.sequence and schema.by_name[name].type.nullable
    )
    made: list[dict[str, Any]] = []
    for numbers in _numbers_by_key(rows, schema, name):
        first = rows[numbers[0]]
        other = next((number for number in numbers if rows[number].keys() != first.keys()), None)
        if ordered and other is None:
            made += [dict(rows[number]) for number in numbers]
        elif ordered:
            key = ", ".join(f"{each} = {first[each]!r}" for each in schema.primary_keys)
            sequence = ", ".join(ordered[0].sequence)
            raise SchemaMismatchError(
                f"Rows {numbers[0]} and {other} (counted from 0) have the key {key} and different columns. The table "
                f"'{name}' orders the rows of a key by {sequence}, so that they can't be merged before. Give one row "
                "of the key, rows with the same columns, or an upsert for each."
            )
        else:
            made.append(_merged((rows[number] for number in numbers), keeps_null))
    groups: dict[frozenset[str], list[dict[str, Any]]] = {}
    for row in made:
        groups.setdefault(frozenset(row), []).append(row)
    return list(groups.values())


def _numbers_by_key(rows: Sequence[Row], schema: TableSchema, name: str) -> Iterable[Sequence[int]]:
    """Return the numbers of the rows of each key, in order. Keys are equal if the table has one row for them."""
    keys = schema.primary_keys
    for number, row in enumerate(rows):
        missing = next((each for each in keys if row.get(each) is None), None)
        if missing is not None:
            raise SchemaMismatchError(
                f"Row {number} (counted from 0) lacks a value for '{missing}', a column of the primary key."
            )
    if not rows:
        return ()
    only = [{each: row[each] for each in keys} for row in rows]
    found = arrow_rows(only, schema.arrow, what=f"the table '{name}'")
    assert isinstance(found, pa.Table)
    batch = key_batch(found, schema)
    encoded = encode_rows(
        [one_array(batch.column(each)) for each in keys], [schema.by_name[each].type for each in keys]
    )
    numbers: dict[bytes, list[int]] = {}
    for number, key in enumerate(encoded):
        numbers.setdefault(bytes(key), []).append(number)
    return numbers.values()


def _merged(rows: Iterable[Row], keeps_null: frozenset[str]) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    for row in rows:
        merged.update({n: v for n, v in row.items() if v is not None or n not in keeps_null or n not in merged})
    return merged
