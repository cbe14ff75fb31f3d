"""Conversion of Arrow's values to Python's, including dates and timestamps that Python's types do not hold.

Arrow's `to_pylist` and `as_py` raise OverflowError or ValueError for these; here they are FarDate and FarTimestamp
(interbed.storage.base.types.far_times), whose text is the date. All other values are Arrow's.
"""

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from interbed.storage.base.errors import InvalidInputError
from interbed.storage.base.types.far_times import FarDate, FarTimestamp
from interbed.storage.base.types.nested import parts_of

if TYPE_CHECKING:
    import pandas as pd

_SHOWN_MAX = 100
_EXACT_FLOATS = 2**53
"""Up to this number each integer has an exact float."""


def python_value(scalar: Any) -> Any:
    """Return the value of an Arrow scalar; None for null."""
    try:
        return scalar.as_py()
    except (OverflowError, ValueError):
        return _far(scalar)


def python_values(column: Any) -> list[Any]:
    """Return the values of an Arrow array or chunked array."""
    try:
        found: list[Any] = column.to_pylist()
    except (OverflowError, ValueError):
        found = [python_value(scalar) for scalar in column]
    return found


def shown_value(column: Any, index: int) -> str:
    """Return the text of a value for an error message, shortened where it is long."""
    text = repr(python_value(column[index]))
    return text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}…"


def python_rows(rows: pa.RecordBatch | pa.Table) -> list[dict[str, Any]]:
    """Return the rows as a list of dicts."""
    try:
        found: list[dict[str, Any]] = rows.to_pylist()
    except (OverflowError, ValueError):
        # Value by value: some value has no Python type and is converted here.
        columns = [python_values(column) for column in rows.columns]
        names = rows.schema.names
        found = [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
    return found


def pandas_frame(rows: pa.Table) -> "pd.DataFrame":
    """Return the rows as a data frame of pandas. A column of dates has objects there, FarDate for far dates.

    Integers beside nulls are floats in pandas; where a float would change one of them, the column has Python integers.
    Raises InvalidInputError naming the column of nested values with a date that pandas can't hold.
    """
    exact = [_is_inexact_as_float(column) for column in rows.columns]
    try:
        frame = rows.to_pandas()
        for place, column in enumerate(rows.columns):
            if exact[place]:
                frame.isetitem(place, column.to_pandas(integer_object_nulls=True))
        return frame
    except (OverflowError, ValueError):
        import pandas as pd

        frame = pd.DataFrame(index=range(rows.num_rows))
        for place, (field, column) in enumerate(zip(rows.schema, rows.columns, strict=True)):
            try:
                series: Any = column.to_pandas(integer_object_nulls=exact[place])
            except (OverflowError, ValueError) as error:
                if pa.types.is_nested(field.type):
                    raise InvalidInputError(
                        f"pandas can't hold the column {field.name!r}: {error}. Use to_arrow or to_polars."
                    ) from error
                series = pd.Series(python_values(column), dtype=object)
            frame.insert(place, field.name, series, allow_duplicates=True)
        return frame


def _is_inexact_as_float(column: Any) -> bool:
    """Return whether a column, or a part of it, has nulls and integers that a float would change."""
    kind = column.type
    if pa.types.is_nested(kind):
        return any(
            _is_inexact_as_float(part)
            for chunk in (column.chunks if isinstance(column, pa.ChunkedArray) else [column])
            for _, part, _ in parts_of(chunk)
        )
    if not pa.types.is_integer(kind) or kind.bit_width < 64 or not column.null_count:
        return False
    import pyarrow.compute as pc

    found: Any = pc.min_max(column)
    ends = (found["min"].as_py(), found["max"].as_py())
    return any(end is not None and abs(end) > _EXACT_FLOATS for end in ends)


def _far(scalar: Any) -> Any:
    kind = scalar.type
    if pa.types.is_date32(kind):
        return FarDate(scalar.value)
    if pa.types.is_timestamp(kind) and str(kind.unit) != "s":
        return FarTimestamp(scalar.value, str(kind.unit), zoned=kind.tz is not None)
    if pa.types.is_struct(kind):
        return {kind.field(i).name: python_value(scalar[i]) for i in range(kind.num_fields)}
    if pa.types.is_map(kind):
        return [(python_value(entry[0]), python_value(entry[1])) for entry in scalar.values]
    if pa.types.is_nested(kind):
        return [python_value(item) for item in scalar.values]
    raise OverflowError(f"{scalar} has no Python value")
