"""Rows that callers have, as Arrow data: data frames, relations, streams, lists of dicts.

What a library holds in memory becomes a table; everything else is a stream, which is read once and batch by batch.
Libraries are recognised only where they are loaded already, so that none of them is needed.
"""

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeAlias

import pyarrow as pa

from interbed.storage.base.arrow_values import array_of
from interbed.storage.base.errors import InvalidInputError, SchemaMismatchError
from interbed.storage.base.types.far_times import FarDate, FarTimestamp

ArrowRows: TypeAlias = pa.Table | pa.RecordBatch | pa.RecordBatchReader
"""Rows as Arrow data; a reader is read once."""

IncomingRows: TypeAlias = Any
"""Rows in any of these forms: Arrow tables, batches, readers, datasets, scanners; pandas and Polars frames, lazy ones,
too; DuckDB relations; whatever has `__arrow_c_stream__` or `__arrow_c_array__`; a list of dicts."""

_ONLY_IN_POLARS = ("Int128", "Object")
"""Words for types of Polars without one of Arrow; UInt128 has the first of them in it."""
_KNOWN = "Arrow data, pandas or Polars frames, DuckDB relations, objects with __arrow_c_stream__ or lists of dicts"


def arrow_rows(
    data: IncomingRows, schema: pa.Schema | None = None, *, what: str, more: Sequence[str] | None = ()
) -> ArrowRows:
    """The rows as Arrow data; what is Arrow data already is returned as it is.

    Dicts get the types of `schema`, and those of their values for columns that it lacks: these may be `more` (None:
    any). `what` names the destination in messages. Raises InvalidInputError for what holds no rows,
    SchemaMismatchError for unknown keys and for values of another type.
    """
    if isinstance(data, pa.Table | pa.RecordBatch | pa.RecordBatchReader):
        return data
    found = _of_library(data, schema)
    if found is not None:
        return found
    if isinstance(data, list | tuple) and all(isinstance(row, Mapping) for row in data):
        return _of_dicts(data, schema, what, more)
    source: Any = data
    try:
        if hasattr(source, "__arrow_c_stream__"):
            return pa.RecordBatchReader.from_stream(source)
        if hasattr(source, "__arrow_c_array__"):
            return pa.record_batch(source)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise SchemaMismatchError(
            f"Rows for {what} are of a {type(data).__name__}, which has a column of a type that Arrow lacks: {error}. "
            "Cast it first."
        ) from error
    hint = ""
    if isinstance(data, Mapping):
        hint = "; give a list of dicts, one for each row, or pyarrow.table(data) for a dict of columns"
    elif isinstance(data, list | tuple):
        odd = next(row for row in data if not isinstance(row, Mapping))
        hint = f" such as this one, in which {odd!r} is no dict"
    raise InvalidInputError(f"Rows for {what} are {_KNOWN}, not {type(data).__name__}{hint}.")


def arrow_schema(data: IncomingRows, *, what: str) -> pa.Schema:
    """The Arrow schema of data, or of what has `__arrow_c_schema__`; no rows are kept. Raises as arrow_rows does."""
    if isinstance(data, pa.Schema):
        return data
    polars = sys.modules.get("polars")
    if polars is not None and isinstance(data, polars.LazyFrame):
        data = polars.DataFrame(schema=data.collect_schema())
    if hasattr(data, "__arrow_c_schema__") and not hasattr(data, "__arrow_c_stream__"):
        found = pa.schema(data)
    else:
        found = arrow_rows(data, what=what, more=None).schema
    # How values are encoded is not a matter of a table's types.
    plain = [f.with_type(f.type.value_type) if isinstance(f.type, pa.DictionaryType) else f for f in found]
    return pa.schema(plain)


# -- libraries ---------------------------------------------------------------------------------------------------------


def _of_library(data: Any, schema: pa.Schema | None) -> ArrowRows | None:
    datasets, pandas, polars = (sys.modules.get(name) for name in ("pyarrow.dataset", "pandas", "polars"))
    if datasets is not None and isinstance(data, datasets.Dataset):
        return data.scanner().to_reader()  # type: ignore[no-any-return]
    if datasets is not None and isinstance(data, datasets.Scanner):
        return data.to_reader()  # type: ignore[no-any-return]
    if pandas is not None and isinstance(data, pandas.DataFrame):
        return _of_pandas(data, schema)
    if polars is not None and isinstance(data, polars.DataFrame):
        _check_polars(data.schema)
        return data.to_arrow()  # type: ignore[no-any-return]
    if polars is not None and isinstance(data, polars.LazyFrame):
        _check_polars(data.collect_schema())
        empty = polars.DataFrame(schema=data.collect_schema()).to_arrow().schema
        return pa.RecordBatchReader.from_batches(empty, _frames(data.collect_batches(), empty))
    return None


def _check_polars(schema: Any) -> None:
    """Raise SchemaMismatchError for a column whose type Arrow lacks; objects of Python come as their addresses."""
    for name, kind in schema.items():
        lacking = next((word for word in _ONLY_IN_POLARS if word in str(kind)), None)
        if lacking is not None:
            raise SchemaMismatchError(
                f"The column {name!r} of the Polars frame is {kind}, and Arrow has no {lacking}; cast it first, "
                "numbers to Decimal(38, 0) or String."
            )


def _frames(frames: Iterable[Any], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for frame in frames:
        yield from frame.to_arrow().cast(schema).to_batches()


def _of_pandas(frame: Any, schema: pa.Schema | None) -> pa.Table:
    """The frame's columns, and the levels of its index that have names; whole numbers that pandas holds as floats are
    integers again where the table has integers.
    """
    levels = [name for name in frame.index.names if name is not None and name not in frame.columns]
    if levels:
        frame = frame.reset_index(level=levels)
    table = pa.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata(None)
    for index, field in enumerate(table.schema):
        wanted = None if schema is None or schema.get_field_index(field.name) < 0 else schema.field(field.name).type
        if wanted is not None and pa.types.is_integer(wanted) and pa.types.is_floating(field.type):
            try:
                table = table.set_column(index, field.name, table.column(index).cast(wanted, safe=True))
            except pa.ArrowInvalid:
                # The writer refuses it, with the name of the column.
                continue
    return table


# -- dicts -------------------------------------------------------------------------------------------------------------


def _of_dicts(
    rows: Sequence[Mapping[Any, Any]], schema: pa.Schema | None, what: str, more: Sequence[str] | None
) -> pa.Table:
    if not rows and schema is not None:
        return pa.Table.from_batches([], schema)
    # The rows are Python objects, so that looking at each of them costs no more than having them.
    names = list(dict.fromkeys(name for row in rows for name in row))
    columns = [] if schema is None else schema.names
    for name in names:
        if name not in columns and schema is not None and more is not None and name not in more:
            raise SchemaMismatchError(
                f"The data for {what} has the unknown column {name!r}; its columns are {', '.join(columns)}."
            )
        if not isinstance(name, str):
            raise SchemaMismatchError(f"The data for {what} has the key {name!r}; columns are named by text.")
    if not names and schema is not None:
        # Rows without any value are rows all the same.
        names = schema.names[:1]
    arrays = []
    for name in names:
        wanted = None if schema is None or name not in columns else schema.field(name).type
        values = [row.get(name) for row in rows]
        arrays.append(_column(name, values, wanted, what, infer=more is None))
    return pa.table(arrays, names=names)


def _column(name: str, values: list[Any], wanted: pa.DataType | None, what: str, *, infer: bool) -> "pa.Array[Any]":
    """The values in the type of their column; plain ones in their own type, which the writer casts as all data."""
    array: pa.Array[Any]
    try:
        if wanted is None or not (pa.types.is_nested(wanted) or pa.types.is_decimal(wanted)):
            array = array_of(values, _far_type(values))
            return array
        try:
            for value in values:
                _check(value, wanted)
            array = array_of(values, wanted)
        except (pa.ArrowInvalid, pa.ArrowTypeError, ValueError, TypeError, OverflowError):
            if not infer:
                raise
            array = array_of(values)
        return array
    except (pa.ArrowInvalid, pa.ArrowTypeError, ValueError, TypeError, OverflowError) as error:
        kind = "values of one type" if wanted is None else wanted
        raise SchemaMismatchError(f"The column {name!r} of {what} is {kind}; the values do not fit: {error}") from None


def _far_type(values: list[Any]) -> pa.DataType | None:
    """The type of dates or timestamps of which Python does not hold some; None for other values."""
    for value in values:
        if isinstance(value, FarDate):
            return pa.date32()
        if isinstance(value, FarTimestamp):
            unit: Any = value.unit
            zone: Any = "UTC" if value.zoned else None
            return pa.timestamp(unit, zone)
    return None


def _check(value: Any, wanted: pa.DataType) -> None:
    """Refuse what Arrow would leave out or cut off when it makes nested values; raises ValueError."""
    if value is None:
        return
    if isinstance(wanted, pa.StructType) and isinstance(value, Mapping):
        known = [wanted.field(i) for i in range(wanted.num_fields)]
        unknown = [key for key in value if key not in {f.name for f in known}]
        if unknown:
            raise ValueError(f"there is no field {unknown[0]!r}; the fields are {', '.join(f.name for f in known)}")
        for part in known:
            _check(value.get(part.name), part.type)
    elif isinstance(wanted, pa.MapType):
        for key, item in value.items() if isinstance(value, Mapping) else value:
            _check(key, wanted.key_type)
            _check(item, wanted.item_type)
    elif isinstance(wanted, pa.ListType):
        for item in value:
            _check(item, wanted.value_type)
    elif pa.types.is_integer(wanted) and isinstance(value, float) and not value.is_integer():
        raise ValueError(f"{value!r} is no whole number")
    elif pa.types.is_date(wanted) and isinstance(value, datetime):
        raise ValueError(f"{value!r} is no date")
