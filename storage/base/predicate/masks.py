"""Masks of columns: expressions whose values readers see in place of those of a column.

    NULL
    'hidden'
    other_column
    UPPER(name)   LOWER(name)   CONCAT(city, ', ', country)   CONCAT_WS(' ', first, last)

These are the transforms that Paimon's readers know (`Transform` of Paimon 1.4). Inputs are texts and columns of the
row before any mask. CONCAT is null if an input is; CONCAT_WS leaves null inputs out. A mask has the type of its column:
texts for CHAR, VARCHAR and STRING, another column of the same type, or NULL where the column may be null.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal

import pyarrow as pa

from interbed.storage.base.arrow_values import nulls_of
from interbed.storage.base.errors import FilterError
from interbed.storage.base.predicate.evaluate import call
from interbed.storage.base.row.values import type_name
from interbed.storage.base.row.words import Array
from interbed.storage.base.types.data_type import STRINGS, DataField, is_atomic


class MaskFunction(StrEnum):
    """Function of a mask; the value is Paimon's name of the transform."""

    NULL = "NULL"
    COLUMN = "FIELD_REF"
    UPPER = "UPPER"
    LOWER = "LOWER"
    CONCAT = "CONCAT"
    CONCAT_WS = "CONCAT_WS"


@dataclass(frozen=True, slots=True)
class MaskColumn:
    """Column as an input of a mask."""

    name: str


@dataclass(frozen=True, slots=True)
class ColumnMask:
    """Mask of a column: a function of texts and columns of the same row."""

    function: MaskFunction
    inputs: tuple[MaskColumn | str, ...] = ()

    @property
    def columns(self) -> frozenset[str]:
        """The columns that the mask is computed from."""
        return frozenset(each.name for each in self.inputs if isinstance(each, MaskColumn))


_INPUTS = {MaskFunction.UPPER: (1, 1), MaskFunction.LOWER: (1, 1), MaskFunction.CONCAT_WS: (2, None)}
_LENGTH_MAX = 10_000
_TOKEN = re.compile(
    r"""\s*(?:(?P<text>'(?:[^']|'')*')|(?P<quoted>`(?:[^`]|``)+`|"(?:[^"]|"")+")|(?P<name>[^\W\d]\w*)|(?P<sign>[(),]))""",
    re.DOTALL,
)
_KNOWN = (
    "a mask is NULL, 'a text', a column, or UPPER, LOWER, CONCAT or CONCAT_WS of texts and columns: the transforms "
    "that Paimon's readers know"
)


def parse_mask(text: str, column: str, fields: Sequence[DataField]) -> ColumnMask:
    """Return the mask of a column that a text is. FilterError naming what is wrong with it."""
    mask = _parsed(text)
    check_mask(mask, column, fields)
    return mask


def check_mask(mask: ColumnMask, column: str, fields: Sequence[DataField]) -> None:
    """Raise FilterError for a mask that does not fit the columns of its table."""
    by_name = {field.name: field for field in fields}
    target = _field(column, by_name)
    inputs = [_field(name, by_name) for name in sorted(mask.columns)]
    match mask.function:
        case MaskFunction.NULL:
            if not target.type.nullable:
                raise FilterError(f"The column {column!r} is NOT NULL: its mask cannot be NULL.")
        case MaskFunction.COLUMN:
            if inputs[0].name == target.name:
                raise FilterError(f"The mask of the column {column!r} is the column itself.")
            if inputs[0].type.with_nullable(True) != target.type.with_nullable(True):
                raise FilterError(
                    f"The column {column!r} is {type_name(target.type)}, and its mask {inputs[0].name!r} is "
                    f"{type_name(inputs[0].type)}: both need the same type."
                )
            _check_nullable(column, target, inputs)
        case _:
            for each in (target, *inputs):
                if not is_atomic(each.type, *STRINGS):
                    raise FilterError(
                        f"The column {each.name!r} is {type_name(each.type)}; {mask.function} takes texts, and masks "
                        "text columns. Mask other columns by NULL or by a column of the same type."
                    )
            if mask.function is not MaskFunction.CONCAT_WS or isinstance(mask.inputs[0], MaskColumn):
                _check_nullable(column, target, inputs)


def apply_masks(rows: Any, masks: Mapping[str, ColumnMask]) -> Any:
    """Return the rows, a record batch or a table, with masked columns. Inputs of masks are the given rows' values."""
    changed = rows
    for name, mask in masks.items():
        index = rows.schema.get_field_index(name)
        if index >= 0:
            field = rows.schema.field(index)
            changed = changed.set_column(index, field, _values(mask, rows, field.type))
    return changed


def _values(mask: ColumnMask, rows: Any, kind: pa.DataType) -> Array:
    if mask.function is MaskFunction.NULL:
        return nulls_of(rows.num_rows, kind)
    if mask.function is MaskFunction.COLUMN:
        (only,) = mask.columns
        return _column(rows, only)
    inputs = [
        _column(rows, each.name) if isinstance(each, MaskColumn) else _repeated(each, kind, rows.num_rows)
        for each in mask.inputs
    ]
    match mask.function:
        case MaskFunction.UPPER | MaskFunction.LOWER:
            return call("utf8_upper" if mask.function is MaskFunction.UPPER else "utf8_lower", inputs[0])
        case MaskFunction.CONCAT:
            return _joined([*inputs, _repeated("", kind, rows.num_rows)], "emit_null")
        case _:
            return _joined([*inputs[1:], inputs[0]], "skip")


def _repeated(text: str, kind: pa.DataType, count: int) -> Array:
    value: Any = pa.scalar(text, kind)
    repeated: Array = pa.repeat(value, count)
    return repeated


def _joined(inputs: list[Any], nulls: Literal["emit_null", "skip"]) -> Array:
    """Return the texts of each row joined by the last of them."""
    import pyarrow.compute as pc

    return call("binary_join_element_wise", *inputs, options=pc.JoinOptions(null_handling=nulls))


def _column(rows: Any, name: str) -> Array:
    index = rows.schema.get_field_index(name)
    if index < 0:
        raise FilterError(f"A mask needs the column {name!r}; the rows have {', '.join(rows.schema.names)}.")
    column: Any = rows.column(index)
    values: Array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return values


def _check_nullable(column: str, target: DataField, inputs: Sequence[DataField]) -> None:
    for each in inputs:
        if each.type.nullable and not target.type.nullable:
            raise FilterError(f"The column {column!r} is NOT NULL, and its mask of {each.name!r} may be null.")


def _field(name: str, fields: Mapping[str, DataField]) -> DataField:
    if name not in fields:
        raise FilterError(f"There is no column {name!r}; the columns are {', '.join(fields)}.")
    return fields[name]


def _parsed(text: str) -> ColumnMask:
    tokens = _tokens(text)
    head, rest = tokens[0], tokens[1:]
    if len(tokens) == 1:
        if isinstance(head, str):
            return ColumnMask(MaskFunction.CONCAT, (head,))
        if isinstance(head, _NameToken):
            is_null = not head.quoted and head.text.upper() == "NULL"
            return ColumnMask(MaskFunction.NULL) if is_null else _column_mask(head.text)
    is_call = isinstance(head, _NameToken) and not head.quoted and len(rest) > 2
    if not is_call or rest[0] != _SignToken("(") or rest[-1] != _SignToken(")"):
        raise _unknown(text)
    assert isinstance(head, _NameToken)
    function = _function(head.text, text)
    given: list[MaskColumn | str] = []
    for index, token in enumerate(rest[1:-1]):
        if (index % 2 == 1) != (token == _SignToken(",")) or (isinstance(token, _SignToken) and index % 2 == 0):
            raise _unknown(text)
        if isinstance(token, _NameToken):
            given.append(MaskColumn(token.text))
        elif isinstance(token, str):
            given.append(token)
    least, most = _INPUTS.get(function, (1, None))
    if len(given) < least or (most is not None and len(given) > most) or len(rest) % 2 == 0:
        raise _unknown(text)
    return ColumnMask(function, tuple(given))


def _column_mask(name: str) -> ColumnMask:
    return ColumnMask(MaskFunction.COLUMN, (MaskColumn(name),))


def _function(name: str, text: str) -> MaskFunction:
    known = {each.value: each for each in MaskFunction if each not in (MaskFunction.NULL, MaskFunction.COLUMN)}
    found = known.get(name.upper())
    if found is None:
        raise _unknown(text)
    return found


@dataclass(frozen=True, slots=True)
class _NameToken:
    text: str
    quoted: bool = False


@dataclass(frozen=True, slots=True)
class _SignToken:
    text: str


def _tokens(text: str) -> list[_NameToken | _SignToken | str]:
    """Return names, signs and texts. FilterError."""
    if len(text) > _LENGTH_MAX:
        raise FilterError(f"The mask has {len(text)} characters; at most {_LENGTH_MAX} are read.")
    found: list[_NameToken | _SignToken | str] = []
    position, end = 0, len(text.rstrip())
    while position < end:
        match = _TOKEN.match(text, position)
        if match is None:
            raise _unknown(text)
        position = match.end()
        if match["text"] is not None:
            found.append(match["text"][1:-1].replace("''", "'"))
        elif match["quoted"] is not None:
            quote = match["quoted"][0]
            found.append(_NameToken(match["quoted"][1:-1].replace(quote * 2, quote), quoted=True))
        else:
            found.append(_SignToken(match["sign"]) if match["sign"] else _NameToken(match["name"]))
    if not found:
        raise _unknown(text)
    return found


def _unknown(text: str) -> FilterError:
    return FilterError(f"{text!r} is not a mask: {_KNOWN}.")
