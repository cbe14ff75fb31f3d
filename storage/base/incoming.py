"""Conversion of a caller's rows to Arrow data: data frames, relations, streams, lists of dicts.

Rows in the memory of a library become a table; all others are a stream, which is read once and batch by batch. A
library is recognized only when it is loaded already, so that none is required.
"""

import numbers
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from interbed.storage.base.arrow_values import array_of
from interbed.storage.base.errors import InvalidInputError, SchemaMismatchError
from interbed.storage.base.types.nested import has_part, parts_of
from interbed.storage.base.types.object_arrays import object_array

ArrowData: TypeAlias = pa.Table | pa.RecordBatch | pa.RecordBatchReader
"""Rows as Arrow data; a reader is read once."""

IncomingRows: TypeAlias = Any
"""Rows in any of these forms: Arrow tables, batches, readers, datasets, scanners; pandas and Polars frames, lazy ones,
too; DuckDB relations; objects with `__arrow_c_stream__` or `__arrow_c_array__`; a list of dicts."""

_ONLY_IN_POLARS = ("Int128", "Object")
"""Parts of the names of Polars types without an Arrow type; UInt128 contains the first."""
_KNOWN = "Arrow data, pandas or Polars frames, DuckDB relations, objects with __arrow_c_stream__ or lists of dicts"


def arrow_rows(
    data: IncomingRows, schema: pa.Schema | None = None, *, what: str, more: Sequence[str] | None = ()
) -> ArrowData:
    """Return the rows as Arrow data; Arrow data are returned unchanged.

    Values of dicts get the types of `schema`, or types of their own in columns that it lacks; `more` names the
    permitted columns of that kind (None: any). `what` names the destination in messages. Raises InvalidInputError for
    an object without rows, SchemaMismatchError for unknown keys and for values of another type.
    """
    if isinstance(data, pa.Table | pa.RecordBatch | pa.RecordBatchReader):
        return data
    found = _of_library(data, schema, what)
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
        if hasattr(source, "to_frame"):
            # A column of pandas or Polars is a stream without columns.
            kind = type(data).__name__
            raise InvalidInputError(f"Rows for {what} are {_KNOWN}, not {kind}; give its to_frame().") from error
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
    """Return the Arrow schema of data, or of an object with `__arrow_c_schema__`. Raises the errors of arrow_rows."""
    if isinstance(data, pa.Schema):
        return data
    polars = sys.modules.get("polars")
    if polars is not None and isinstance(data, polars.LazyFrame):
        data = polars.DataFrame(schema=data.collect_schema())
    if hasattr(data, "__arrow_c_schema__") and not hasattr(data, "__arrow_c_stream__"):
        found = pa.schema(data)
    else:
        found = arrow_rows(data, what=what, more=None).schema
    # The types of a table do not depend on the encoding of values.
    plain = [f.with_type(f.type.value_type) if isinstance(f.type, pa.DictionaryType) else f for f in found]
    return pa.schema(plain)


# -- libraries ---------------------------------------------------------------------------------------------------------


def _of_library(data: Any, schema: pa.Schema | None, what: str) -> ArrowData | None:
    datasets, pandas, polars = (sys.modules.get(name) for name in ("pyarrow.dataset", "pandas", "polars"))
    duckdb = sys.modules.get("duckdb")
    if duckdb is not None and isinstance(data, duckdb.DuckDBPyRelation):
        return duckdb_rows(data)
    if datasets is not None and isinstance(data, datasets.Dataset):
        return data.scanner().to_reader()  # type: ignore[no-any-return]
    if datasets is not None and isinstance(data, datasets.Scanner):
        return data.to_reader()  # type: ignore[no-any-return]
    if pandas is not None and isinstance(data, pandas.DataFrame):
        return _of_pandas(data, schema, what)
    if polars is not None and isinstance(data, polars.DataFrame):
        _check_polars(data.schema)
        return data.to_arrow()  # type: ignore[no-any-return]
    if polars is not None and isinstance(data, polars.LazyFrame):
        _check_polars(data.collect_schema())
        empty = polars.DataFrame(schema=data.collect_schema()).to_arrow().schema
        return pa.RecordBatchReader.from_batches(empty, _frames(data.collect_batches(), empty))
    return None


def _check_polars(schema: Any) -> None:
    """Raise SchemaMismatchError for a column whose type Arrow lacks; Polars exports Python objects as addresses."""
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


def _of_pandas(frame: Any, schema: pa.Schema | None, what: str) -> pa.Table:
    """Return the frame's columns and the named levels of its index.

    Whole numbers that pandas holds as floats become integers where the table has integers.
    """
    _check_index(frame, what)
    levels = [name for name in frame.index.names if name is not None and name not in frame.columns]
    if levels:
        frame = frame.reset_index(level=levels)
    names = [str(name) for name in frame.columns]
    columns: list[Any] = []
    for at, name in enumerate(names):
        field = None if schema is None or (index := schema.get_field_index(name)) < 0 else schema.field(index)
        columns.append(_of_series(frame.iloc[:, at], None if field is None else field.type, name, what))
    return pa.Table.from_arrays(columns, names=names)


def _check_index(frame: Any, what: str) -> None:
    """Raise SchemaMismatchError for labels of the frame's index that no column would have.

    Whole numbers without a name are the numbers of rows, which a slice or a filter leaves behind; they are no data.
    """
    for at, name in enumerate(frame.index.names):
        labels = frame.index.get_level_values(at)
        if name is None:
            odd = [] if labels.dtype.kind in "iu" else [label for label in labels if not _is_whole(label)]
            if odd:
                raise SchemaMismatchError(
                    f"The index of the pandas frame for {what} has labels, but no name, such as {odd[0]!r}. To write "
                    "them as a column, name it (frame.rename_axis('NAME')); to leave them out, drop it "
                    "(frame.reset_index(drop=True))."
                )
        elif name in frame.columns and frame.columns.is_unique:
            column = sys.modules["pandas"].Index(frame[name].array)
            if not labels.equals(column):
                raise SchemaMismatchError(
                    f"The index {name!r} of the pandas frame for {what} has other values than the column {name!r}; "
                    "rename one of them, or drop the index (frame.reset_index(drop=True))."
                )


def _is_whole(label: object) -> bool:
    return isinstance(label, numbers.Integral) and not isinstance(label, bool)


def _of_series(series: Any, wanted: pa.DataType | None, name: str, what: str) -> Any:
    if series.dtype == object:
        missing = series.isna().tolist()
        values = [None if is_missing else value for value, is_missing in zip(series.array, missing, strict=True)]
        return object_array(values, wanted, name=name, what=what)
    try:
        array: Any = pa.array(series, from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise SchemaMismatchError(
            f"The column {name!r} of the pandas frame for {what} is {series.dtype}, which Arrow has no values for: "
            f"{error}. Cast it first."
        ) from None
    if wanted is not None and pa.types.is_integer(wanted) and pa.types.is_floating(array.type):
        with suppress(pa.ArrowInvalid):
            # The writer refuses other numbers, naming the column.
            return array.cast(wanted, safe=True)
    return array


# -- DuckDB ------------------------------------------------------------------------------------------------------------

_CHANGED_BY_DUCKDB = {
    "uhugeint": "of which half are other numbers in Arrow; cast it to DECIMAL(38, 0) or HUGEINT",
    "time with time zone": "which loses its zone; cast it to TIME, or to VARCHAR",
    "bit": "which becomes inner bytes of DuckDB; cast it to VARCHAR or BLOB",
    "bignum": "which becomes inner bytes of DuckDB; cast it to VARCHAR or DECIMAL",
    "varint": "which becomes inner bytes of DuckDB; cast it to VARCHAR or DECIMAL",
}
"""Types whose values DuckDB changes in its Arrow export."""
_INFINITE = {32: 2**31 - 1, 64: 2**63 - 1}
"""DuckDB's number of infinity by the bits of dates and timestamps."""
_DAY_TICKS = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}


class _OddValue(NamedTuple):
    """A value that DuckDB's types have, and tables and files have not, in types that `has_it` chooses."""

    has_it: Callable[[Any], bool]
    ticks: Callable[[Any], list[int]]
    text: str
    advice: str


def duckdb_rows(relation: Any, *, finite: bool = True) -> pa.RecordBatchReader:
    """Return the rows of a DuckDB relation, unchanged.

    Raises SchemaMismatchError for types whose values DuckDB changes; while rows are read for 24:00:00 as a TIME, and
    for infinite dates and timestamps if they must be `finite`.
    """
    for name, kind in zip(relation.columns, relation.types, strict=True):
        if (changed := _changed_by_duckdb(kind)) is not None:
            raise SchemaMismatchError(
                f"The column {name!r} of the query has the type {kind}, {_CHANGED_BY_DUCKDB[changed]}."
            )
    reader = pa.RecordBatchReader.from_stream(relation)
    odd = [_END_OF_DAY, _INFINITY] if finite else [_END_OF_DAY]
    refused = [value for value in odd if any(has_part(f.type, value.has_it) for f in reader.schema)]
    if not refused:
        return reader
    return pa.RecordBatchReader.from_batches(reader.schema, _without(refused, reader))


def _changed_by_duckdb(kind: Any) -> str | None:
    if kind.id in _CHANGED_BY_DUCKDB:
        return str(kind.id)
    if kind.id in ("list", "array", "struct", "map", "union"):
        parts = (part for _, part in kind.children if hasattr(part, "id"))
        return next((found for part in parts if (found := _changed_by_duckdb(part)) is not None), None)
    return None


def _is_time(kind: pa.DataType) -> bool:
    return pa.types.is_date(kind) or pa.types.is_timestamp(kind)


def _infinities(kind: Any) -> list[int]:
    end = _INFINITE[kind.bit_width]
    return [end, -end]


_INFINITY = _OddValue(
    _is_time, _infinities, "infinite", "a DATE or TIMESTAMP of a table is finite; give null or a date instead"
)
_END_OF_DAY = _OddValue(
    pa.types.is_time,
    lambda kind: [_DAY_TICKS[kind.unit]],
    "24:00:00",
    "a TIME is from 00:00:00 to before 24:00:00; cast it to VARCHAR",
)


def _without(refused: Sequence[_OddValue], reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    first_row = 0
    with reader:
        for batch in reader:
            for name, column in zip(batch.schema.names, batch.columns, strict=True):
                for value in refused:
                    if has_part(column.type, value.has_it) and (row := _first_row(column, value)) is not None:
                        raise SchemaMismatchError(
                            f"The column {name!r} of the query is {value.text} in row {first_row + row} (counted "
                            f"from 0), and {value.advice}."
                        )
            yield batch
            first_row += batch.num_rows


def _first_row(column: Any, value: _OddValue) -> int | None:
    """Return the first row with the value, also inside a nested value."""
    kind = column.type
    if value.has_it(kind):
        ticks = column.cast(pa.int32() if kind.bit_width == 32 else pa.int64())
        at = pc.index(pc.is_in(ticks, array_of(value.ticks(kind), ticks.type)), True).as_py()
        return None if at < 0 else int(at)
    rows: list[int] = []
    for _, part, slots in parts_of(column):
        if has_part(part.type, value.has_it) and (inside := _first_row(part, value)) is not None:
            rows.append(inside if slots is None else int(slots[inside].as_py()))
    return min(rows, default=None)


# -- dicts -------------------------------------------------------------------------------------------------------------


def _of_dicts(
    rows: Sequence[Mapping[Any, Any]], schema: pa.Schema | None, what: str, more: Sequence[str] | None
) -> pa.Table:
    if not rows and schema is not None:
        return pa.Table.from_batches([], schema)
    # A loop over the rows: they are Python objects, so a look at each costs no more than their creation.
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
        # Rows without any value count, too.
        names = schema.names[:1]
    arrays = []
    for name in names:
        wanted = None if schema is None or name not in columns else schema.field(name).type
        values = [row.get(name) for row in rows]
        arrays.append(_column(name, values, wanted, what, infer=more is None))
    return pa.table(arrays, names=names)


def _column(name: str, values: list[Any], wanted: pa.DataType | None, what: str, *, infer: bool) -> "pa.Array[Any]":
    """Return the values in the type of their column; plain values in their own type, which the writer casts.

    With `infer` values that do not fit keep their own type.
    """
    array: pa.Array[Any]
    try:
        array = object_array(values, wanted, name=name, what=what)
    except SchemaMismatchError:
        if not infer or wanted is None:
            raise
        array = object_array(values, None, name=name, what=what)
    return array
