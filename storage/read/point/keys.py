"""Primary keys as callers give them: as dicts, tuples or single values, or as Arrow data."""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from interbed.storage.base.arrow_values import array_of
from interbed.storage.base.errors import InvalidInputError, NotSupportedError
from interbed.storage.base.row.values import coerce
from interbed.storage.base.types.arrow import fields_to_schema
from interbed.storage.base.types.data_type import DataField
from interbed.storage.meta.schema.table_schema import TableSchema

Key = Mapping[str, object] | Sequence[object] | object
"""A dict by column, a tuple or list in the order of the primary key, or the value of the only column."""
Keys = "pa.Table | pa.RecordBatch | pa.Array[Any] | pa.ChunkedArray[Any] | Sequence[Key]"


def key_batch(given: Any, schema: TableSchema) -> pa.RecordBatch:
    """Keys as a batch of the primary-key columns in their order and types.

    `given` is Arrow data with these columns in any order (an array where there is one), or a sequence of keys. Raises
    InvalidInputError naming what is missing, unknown, null or of another type, NotSupportedError for a table without a
    primary key.
    """
    if not schema.has_primary_key:
        raise NotSupportedError(
            "Rows are looked up by primary key, and the table has none; use scan with a filter on its columns."
        )
    fields = schema.fields_named(schema.primary_keys)
    if isinstance(given, pa.Array | pa.ChunkedArray):
        if len(fields) != 1:
            raise InvalidInputError(
                f"The primary key has {len(fields)} columns ({_names(fields)}); give a table of them, not an array."
            )
        column: Any = given
        given = pa.table([column], names=[fields[0].name])
    if isinstance(given, pa.Table | pa.RecordBatch):
        return _from_arrow(given, fields)
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Sequence):
        raise InvalidInputError(f"Keys are Arrow data or a sequence of keys, not {type(given).__name__}.")
    # Keys in Python's form are few; whoever has many has them in Arrow.
    rows = [_row(key, fields) for key in given]
    columns = [[row[i] for row in rows] for i in range(len(fields))]
    arrow = fields_to_schema(fields)
    return pa.RecordBatch.from_arrays([array_of(c, f.type) for c, f in zip(columns, arrow, strict=True)], schema=arrow)


def _from_arrow(given: pa.Table | pa.RecordBatch, fields: Sequence[DataField]) -> pa.RecordBatch:
    names = given.schema.names
    missing = [f.name for f in fields if f.name not in names]
    unknown = [n for n in names if n not in {f.name for f in fields}]
    if missing or unknown:
        raise InvalidInputError(_mismatch(missing, unknown, fields))
    arrow = fields_to_schema(fields)
    columns: list[pa.Array[Any]] = []
    for field in arrow:
        found: Any = given.column(field.name)
        column: Any = found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found
        if isinstance(column, pa.ChunkedArray):
            column = pa.concat_arrays(column.chunks) if column.num_chunks else array_of([], column.type)
        if column.null_count:
            raise InvalidInputError(f"The keys have a null in {field.name!r}; no key column is ever null.")
        columns.append(column if column.type == field.type else _cast(column, field))
    return pa.RecordBatch.from_arrays(columns, schema=arrow)


def _cast(column: Any, field: "pa.Field[Any]") -> Any:
    """The keys as they are written: another value would find another row."""
    # Loaded here, because it loads functions of Arrow, which keys of the column's own type do not need.
    from interbed.storage.base.types.exact_cast import exact_cast

    chunked: Any = pa.chunked_array([column])
    return exact_cast(chunked, field.type, name=field.name, what="the keys").combine_chunks()


def _row(key: Any, fields: Sequence[DataField]) -> list[object]:
    if isinstance(key, Mapping):
        missing = [f.name for f in fields if f.name not in key]
        unknown = [str(n) for n in key if n not in {f.name for f in fields}]
        if missing or unknown:
            raise InvalidInputError(_mismatch(missing, unknown, fields))
        values = [key[f.name] for f in fields]
    elif isinstance(key, tuple | list):
        values = list(key)
    else:
        values = [key]
    if len(values) != len(fields):
        raise InvalidInputError(f"A key has {len(fields)} values ({_names(fields)}), not {len(values)}: {key!r}.")
    return [_value(value, field) for value, field in zip(values, fields, strict=True)]


def _value(value: object, field: DataField) -> object:
    if value is None:
        raise InvalidInputError(f"The key column {field.name!r} can't be null.")
    try:
        return coerce(value, field.type)
    except InvalidInputError as error:
        raise InvalidInputError(f"The key column {field.name!r} can't take {value!r}: {error}.") from None


def _mismatch(missing: Sequence[str], unknown: Sequence[str], fields: Sequence[DataField]) -> str:
    wrong = [f"lacks {n!r}" for n in missing] + [f"has {n!r}, which is none of its columns" for n in unknown]
    return f"The primary key is {_names(fields)}; a key given {' and '.join(wrong)}."


def _names(fields: Sequence[DataField]) -> str:
    return ", ".join(f.name for f in fields)
