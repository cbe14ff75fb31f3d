"""Values of messages as those of a table's column, without losing anything of them.

A type that is guessed says how a value is written, not what it is: a text may be a DECIMAL, a DATE or a TIMESTAMP, an
integer a DECIMAL or a DOUBLE. So values are cast where each of them is a value of the column's type, and are refused
where not: what is too long or too large, has a fraction too fine, or no time zone where the column needs one. Integers
are no dates and texts are no bytes, because messages do not say in which unit or alphabet.
"""

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from interbed.ingest.formats.arrays import Array, mask_of
from interbed.ingest.formats.json_objects import json_text
from interbed.storage.base.row.python_values import python_value
from interbed.storage.base.types.arrow import type_to_arrow
from interbed.storage.base.types.casting.far_text import text_of_times
from interbed.storage.base.types.data_type import (
    BINARIES,
    STRINGS,
    ArrayType,
    AtomicType,
    DataType,
    RowType,
    TypeRoot,
)

_NUMBERS = frozenset(
    {
        TypeRoot.TINYINT,
        TypeRoot.SMALLINT,
        TypeRoot.INT,
        TypeRoot.BIGINT,
        TypeRoot.FLOAT,
        TypeRoot.DOUBLE,
        TypeRoot.DECIMAL,
    }
)


def fitted(values: Array, target: DataType) -> Array:
    """The values as those of a column of the type, nulls as nulls; ValueError says why one of them is none."""
    arrow: Any = type_to_arrow(target)
    if pa.types.is_null(values.type):
        nulls: Array = pa.nulls(len(values), arrow)
        return nulls
    if isinstance(target, RowType):
        return _rows(values, target)
    if isinstance(target, ArrayType) and pa.types.is_list(values.type):
        # A copy starts at its first value, which the offsets of a slice do not.
        whole: Any = pa.concat_arrays([values])
        return pa.ListArray.from_arrays(
            whole.offsets, fitted(whole.values, target.element), type=arrow, mask=whole.is_null()
        )
    if not isinstance(target, AtomicType):
        if values.type == arrow:
            return values
        raise ValueError(f"{values.type} is no {target}")
    return _atoms(values, target, arrow)


def _atoms(values: Array, target: AtomicType, arrow: pa.DataType) -> Array:
    source: Any = values.type
    if target.root in STRINGS:
        return _texts(values, target, arrow)
    if target.root in BINARIES:
        if not pa.types.is_binary(source):
            raise ValueError(f"{_an_example(values)} is no {target}: which bytes a text stands for is not known")
        content: Any = values
        _check_length(pc.binary_length(content), target)
        return values.cast(arrow)
    if source == arrow:
        return values
    if pa.types.is_floating(source) and target.root is TypeRoot.DECIMAL:
        # By the digits that it is written with: the binary fraction beside it has no end.
        digits = [None if v is None else Decimal(repr(v)) for v in values.to_pylist()]
        return pa.array(digits, pa.decimal256(76, 38)).cast(arrow)
    if pa.types.is_integer(source) and target.root is TypeRoot.DECIMAL:
        # First with room for any integer, which Arrow asks for whatever the values are.
        return values.cast(pa.decimal256(76, target.scale or 0)).cast(arrow)
    if pa.types.is_string(source) or (target.root in _NUMBERS and _is_number(source)):
        cast: Array = values.cast(arrow)
        return cast
    if pa.types.is_temporal(source) and pa.types.is_temporal(arrow) and str(source)[:4] == str(arrow)[:4]:
        return values.cast(arrow)
    raise ValueError(f"{_an_example(values)} is no {target}")


def _rows(values: Array, target: RowType) -> Array:
    given: Any = values
    if not pa.types.is_struct(given.type):
        raise ValueError(f"{_an_example(values)} is no {target}")
    names = [field.name for field in given.type]
    parts = dict(zip(names, given.flatten(), strict=True))
    unknown = [n for n in names if n not in target.names and not pa.types.is_null(parts[n].type)]
    if unknown:
        raise ValueError(f"it has the field {unknown[0]!r}, which {target} has not")
    arrow: Any = type_to_arrow(target)
    columns = [fitted(parts.get(f.name, pa.nulls(len(values))), f.type) for f in target.fields]
    return pa.StructArray.from_arrays(columns, fields=list(arrow), mask=given.is_null())


def _texts(values: Array, target: AtomicType, arrow: pa.DataType) -> Array:
    source = values.type
    texts: Any = values
    if pa.types.is_binary(source):
        raise ValueError(f"{_an_example(values)} is no {target}: bytes are no text")
    if pa.types.is_nested(source):
        # What JSON had as an object or a list goes into a text as JSON.
        written = [None if v is None else json_text(v) for v in values.to_pylist()]
        texts = pa.array(written, pa.string())
    elif not pa.types.is_string(source):
        texts = text_of_times(values)
    _check_length(pc.utf8_length(texts), target)
    found: Array = texts.cast(arrow)
    return found


def _check_length(lengths: Any, target: AtomicType) -> None:
    longer: Any = pc.greater(lengths, pa.scalar(target.length or 0))
    if mask_of(longer.fill_null(False)).any():
        raise ValueError(f"it is longer than {target}")


def _is_number(source: pa.DataType) -> bool:
    return pa.types.is_integer(source) or pa.types.is_floating(source) or pa.types.is_decimal(source)


def _an_example(values: Array) -> str:
    known = values.drop_null()
    return repr(python_value(known[0])) if len(known) else str(values.type)
