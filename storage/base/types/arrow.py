"""Conversion between logical types and Arrow types, the form of rows in memory, and from the text of types.

Timestamps are kept in the coarsest Arrow unit that holds their precision (0-3 ms, 4-6 us, 7-9 ns); TIME is
`time32[ms]`, because Paimon stores milliseconds of the day whatever the declared precision; MULTISET is a map
from element to int32.

The parser reads types as text: `BIGINT`, `DECIMAL(10, 2) NOT NULL`, `ARRAY<INT>`, `ROW<a INT, b MAP<STRING, INT>>`.
Source of the spelling: Paimon's documentation, concepts/data-types.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import pyarrow as pa

from interbed.storage.base.errors import CorruptFileError, InvalidInputError, SchemaMismatchError
from interbed.storage.base.types.data_type import (
    MAX_LENGTH,
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    TypeRoot,
    parse_atomic,
)
from interbed.storage.base.types.nested import (
    NullInsideError,
    has_not_null_parts,
    nullable_inside,
    without_hidden_nulls,
)

FIELD_ID = b"PARQUET:field_id"
DESCRIPTION = b"description"

_PLAIN: dict[TypeRoot, pa.DataType] = {
    TypeRoot.BOOLEAN: pa.bool_(),
    TypeRoot.TINYINT: pa.int8(),
    TypeRoot.SMALLINT: pa.int16(),
    TypeRoot.INT: pa.int32(),
    TypeRoot.BIGINT: pa.int64(),
    TypeRoot.FLOAT: pa.float32(),
    TypeRoot.DOUBLE: pa.float64(),
    TypeRoot.CHAR: pa.string(),
    TypeRoot.VARCHAR: pa.string(),
    TypeRoot.BINARY: pa.binary(),
    TypeRoot.VARBINARY: pa.binary(),
    TypeRoot.DATE: pa.date32(),
    TypeRoot.TIME: pa.time32("ms"),
}


def timestamp_unit(precision: int) -> Literal["ms", "us", "ns"]:
    """Return the coarsest Arrow unit that holds timestamps of that many fractional digits."""
    return "ms" if precision <= 3 else "us" if precision <= 6 else "ns"


def type_to_arrow(data_type: DataType) -> pa.DataType:
    """Return the Arrow type of a logical type's values in memory."""
    match data_type:
        case AtomicType(root=TypeRoot.DECIMAL):
            return pa.decimal128(data_type.precision or 0, data_type.scale or 0)
        case AtomicType(root=TypeRoot.TIMESTAMP):
            return pa.timestamp(timestamp_unit(data_type.precision or 0))
        case AtomicType(root=TypeRoot.TIMESTAMP_LTZ):
            return pa.timestamp(timestamp_unit(data_type.precision or 0), tz="UTC")
        case AtomicType(root=root):
            return _PLAIN[root]
        case ArrayType(element=element):
            return pa.list_(pa.field("element", type_to_arrow(element), element.nullable))
        case MapType(key=key, value=value):
            return _map_type(type_to_arrow(key), pa.field("value", type_to_arrow(value), value.nullable))
        case MultisetType(element=element):
            return _map_type(type_to_arrow(element), pa.field("value", pa.int32(), nullable=False))
        case RowType(fields=fields):
            return pa.struct([field_to_arrow(f) for f in fields])
        case _:
            raise TypeError(f"No Arrow form for {data_type}.")


def _map_type(key: pa.DataType, value: "pa.Field[Any]") -> pa.DataType:
    made: pa.DataType = pa.map_(pa.field("key", key, nullable=False), value)  # type: ignore[call-overload]
    return made


def field_to_arrow(field: DataField) -> "pa.Field[Any]":
    """Return the Arrow field of a column, with its description in the metadata."""
    metadata = {DESCRIPTION: field.description.encode()} if field.description else None
    return pa.field(field.name, type_to_arrow(field.type), field.type.nullable, metadata)


def fields_to_schema(fields: Sequence[DataField]) -> pa.Schema:
    """Return the Arrow schema of a list of columns."""
    return pa.schema([field_to_arrow(f) for f in fields])


def type_from_arrow(arrow: pa.DataType, *, nullable: bool = True, next_id: "FieldIds | None" = None) -> DataType:
    """Return the logical type for an Arrow type. Raises SchemaMismatchError when there is none.

    `next_id` numbers the fields of nested rows, as Paimon does; by default they start at 0.
    """
    ids = next_id or FieldIds()
    atomic = _atomic_from_arrow(arrow)
    if atomic is not None:
        return atomic.with_nullable(nullable)
    if isinstance(arrow, pa.DictionaryType):
        return type_from_arrow(arrow.value_type, nullable=nullable, next_id=ids)
    if isinstance(arrow, pa.MapType):
        key = type_from_arrow(arrow.key_type, nullable=False, next_id=ids)
        value = type_from_arrow(arrow.item_type, nullable=arrow.item_field.nullable, next_id=ids)
        return MapType(key, value, nullable=nullable)
    if isinstance(arrow, pa.ListType | pa.LargeListType | pa.FixedSizeListType):
        element = type_from_arrow(arrow.value_type, nullable=arrow.value_field.nullable, next_id=ids)
        return ArrayType(element, nullable=nullable)
    if isinstance(arrow, pa.StructType):
        return RowType(fields_from_arrow(list(arrow), ids), nullable=nullable)
    raise SchemaMismatchError(f"Arrow type {arrow} has no counterpart among Paimon's types; cast the column first.")


class FieldIds:
    """Sequence of field ids; `highest` is the last one taken."""

    def __init__(self, highest: int = -1) -> None:
        self.highest = highest

    def take(self) -> int:
        """Return the next field id."""
        self.highest += 1
        return self.highest


def fields_from_arrow(fields: "Sequence[pa.Field[Any]]", ids: FieldIds) -> tuple[DataField, ...]:
    """Return the columns for Arrow fields, with ids in order, outer fields before the fields nested in them."""
    numbered = [(ids.take(), f) for f in fields]
    result = []
    for number, f in numbered:
        description = (f.metadata or {}).get(DESCRIPTION)
        try:
            kind = type_from_arrow(f.type, nullable=f.nullable, next_id=ids)
        except SchemaMismatchError as error:
            raise SchemaMismatchError(f"The column {f.name!r}: {error}") from error
        result.append(
            DataField(
                id=number,
                name=f.name,
                type=kind,
                description=description.decode() if description else None,
            )
        )
    return tuple(result)


def _atomic_from_arrow(arrow: pa.DataType) -> AtomicType | None:
    t = pa.types
    if pa.types.is_decimal(arrow) and arrow.precision <= 38:
        return AtomicType(TypeRoot.DECIMAL, precision=arrow.precision, scale=arrow.scale)
    if isinstance(arrow, pa.TimestampType):
        precision = {"s": 0, "ms": 3, "us": 6, "ns": 9}[arrow.unit]
        root = TypeRoot.TIMESTAMP if arrow.tz is None else TypeRoot.TIMESTAMP_LTZ
        return AtomicType(root, precision=precision)
    if isinstance(arrow, pa.Time32Type | pa.Time64Type):
        return AtomicType(TypeRoot.TIME, precision={"s": 0, "ms": 3, "us": 6, "ns": 9}[arrow.unit])
    # Arrow's decimal classes derive from fixed-size binary.
    if isinstance(arrow, pa.FixedSizeBinaryType) and not pa.types.is_decimal(arrow):
        return AtomicType(TypeRoot.BINARY, length=arrow.byte_width)
    if t.is_string(arrow) or t.is_large_string(arrow) or t.is_string_view(arrow):
        return AtomicType(TypeRoot.VARCHAR, length=MAX_LENGTH)
    if t.is_binary(arrow) or t.is_large_binary(arrow) or t.is_binary_view(arrow):
        return AtomicType(TypeRoot.VARBINARY, length=MAX_LENGTH)
    for root, plain in _PLAIN.items():
        if plain.equals(arrow):
            return AtomicType(root)
    # Paimon has no unsigned integers; the next wider signed type holds every value.
    unsigned = {pa.uint8(): TypeRoot.SMALLINT, pa.uint16(): TypeRoot.INT, pa.uint32(): TypeRoot.BIGINT}
    if arrow in unsigned:
        return AtomicType(unsigned[arrow])
    if t.is_date64(arrow):
        return AtomicType(TypeRoot.DATE)
    return None


def cast_to_schema(
    data: pa.RecordBatch | pa.Table, target: pa.Schema, *, what: str, first_row: int = 0
) -> list[pa.RecordBatch]:
    """Return the rows of `data` as batches of exactly the target schema, with columns matched by name.

    `what` names the destination in errors, which count rows from `first_row` on. Raises SchemaMismatchError for
    unknown, missing or duplicate columns, for values that do not fit their column's type, and for nulls in columns that
    do not admit them.
    """
    # By use: readers need the types of Arrow, and none of its functions.
    import pyarrow.compute as pc

    from interbed.storage.base.types.exact_cast import exact_cast

    names = data.schema.names
    duplicate = {n for n in names if names.count(n) > 1}
    if duplicate:
        raise SchemaMismatchError(f"The data for {what} has the column {sorted(duplicate)[0]!r} twice.")
    unknown = [n for n in names if target.get_field_index(n) < 0]
    if unknown:
        raise SchemaMismatchError(
            f"The data for {what} has the unknown column {unknown[0]!r}; its columns are {', '.join(target.names)}."
        )
    columns: list[pa.ChunkedArray[Any]] = []
    table = pa.Table.from_batches([data]) if isinstance(data, pa.RecordBatch) else data
    for f in target:
        if f.name not in names:
            if not f.nullable:
                raise SchemaMismatchError(f"The data for {what} lacks the column {f.name!r}, which admits no nulls.")
            columns.append(pa.chunked_array([pa.nulls(table.num_rows, f.type)]))
            continue
        column = table.column(f.name)
        # A cast would report the fields of null rows as nulls where none are admitted.
        column = exact_cast(column, nullable_inside(f.type), name=f.name, what=what, first_row=first_row)
        if not f.nullable and column.null_count:
            row = first_row + pc.index(column.is_null(), True).as_py()
            raise SchemaMismatchError(
                f"The column {f.name!r} of {what} admits no nulls, but row {row} (counted from 0) has one."
            )
        columns.append(_with_offsets(_conformed(column, f, what)))
    return pa.Table.from_arrays(columns, schema=target).combine_chunks().to_batches()


def _with_offsets(column: "pa.ChunkedArray[Any]") -> "pa.ChunkedArray[Any]":
    """Return the column with offsets for lists without rows.

    Arrow in Java omits the offsets of empty lists inside of others, and pyarrow's `nbytes` crashes the process on them.
    """
    if not _has_lists(column.type, inside=False):
        return column
    # A new array, even of one chunk, with all its buffers.
    return pa.chunked_array([pa.concat_arrays([chunk]) for chunk in column.chunks], column.type)


def _has_lists(arrow: pa.DataType, *, inside: bool) -> bool:
    """Return whether lists or maps of the type contain lists or maps."""
    is_list = pa.types.is_list(arrow) or pa.types.is_map(arrow)
    parts = (arrow.field(i).type for i in range(arrow.num_fields))
    return (is_list and inside) or any(_has_lists(part, inside=inside or is_list) for part in parts)


def _conformed(column: "pa.ChunkedArray[Any]", field: "pa.Field[Any]", what: str) -> "pa.ChunkedArray[Any]":
    if not has_not_null_parts(field.type):
        return column
    try:
        chunks = [without_hidden_nulls(c, field.type, field.name) for c in column.chunks]
    except NullInsideError as error:
        raise SchemaMismatchError(f"In the column {field.name!r} of {what}, {error}, but the data has some.") from None
    return pa.chunked_array(chunks, field.type)


_NESTED = re.compile(
    r"\s*(?P<name>ARRAY|MULTISET|MAP|ROW)\s*<(?P<inside>.*)>\s*(?P<end>(?:NOT\s+NULL)?)\s*", re.IGNORECASE | re.DOTALL
)
_FIELD = re.compile(r"\s*(?:`(?P<quoted>(?:[^`]|``)+)`|(?P<plain>[^\s`<>(),]+))\s+(?P<type>.+)", re.DOTALL)


def data_type(given: "DataType | pa.DataType | str") -> DataType:
    """Return the data type of a text (`"DECIMAL(10, 2)"`) or an Arrow type; a data type is returned unchanged.

    Fields of a ROW are numbered from 0. Raises InvalidInputError for the text of no type, SchemaMismatchError for an
    Arrow type without counterpart, NotSupportedError for types that this version lacks (VARIANT and others).
    """
    if isinstance(given, DataType):
        return given
    if isinstance(given, str):
        return _parsed(given, given, FieldIds())
    if isinstance(given, pa.DataType):
        return type_from_arrow(given, next_id=FieldIds())
    raise InvalidInputError(
        f"{given!r} is not a data type; write text such as 'BIGINT' or 'DECIMAL(10, 2)', or give a pyarrow type."
    )


def _parsed(text: str, whole: str, ids: FieldIds) -> DataType:
    nested = _NESTED.fullmatch(text)
    if nested is None:
        try:
            return parse_atomic(text)
        except CorruptFileError:
            raise InvalidInputError(
                f"{whole!r} is not a data type: {text.strip()!r} is not known. Types are written as BIGINT, "
                "DECIMAL(10, 2) NOT NULL, ARRAY<INT>, MAP<STRING, INT>, ROW<a INT, b STRING>."
            ) from None
    nullable = not nested["end"]
    parts = list(_parts(nested["inside"]))
    match nested["name"].upper(), parts:
        case "ARRAY", [element]:
            return ArrayType(_parsed(element, whole, ids), nullable=nullable)
        case "MULTISET", [element]:
            return MultisetType(_parsed(element, whole, ids), nullable=nullable)
        case "MAP", [key, value]:
            return MapType(_parsed(key, whole, ids), _parsed(value, whole, ids), nullable=nullable)
        case "ROW", _:
            return RowType(tuple(_field(part, whole, ids) for part in parts), nullable=nullable)
        case name, _:
            wanted = "two types, of keys and values" if name == "MAP" else "one type"
            raise InvalidInputError(f"{whole!r} is not a data type: {name} takes {wanted}, not {len(parts)}.")


def _field(text: str, whole: str, ids: FieldIds) -> DataField:
    match = _FIELD.fullmatch(text)
    if match is None:
        raise InvalidInputError(
            f"{whole!r} is not a data type: a field of a ROW is written as `name TYPE`, not {text!r}."
        )
    name = match["plain"] or match["quoted"].replace("``", "`")
    return DataField(id=ids.take(), name=name, type=_parsed(match["type"], whole, ids))


def _parts(text: str) -> Iterator[str]:
    """Yield the parts between commas outside of brackets and backquotes."""
    depth, start, quoted = 0, 0, False
    for position, character in enumerate(text):
        if character == "`":
            quoted = not quoted
        elif not quoted:
            depth += (character in "<(") - (character in ">)")
            if character == "," and depth == 0:
                yield text[start:position]
                start = position + 1
    yield text[start:]
