"""Mapping of Paimon's logical types to Spark's, and the Arrow types of batches between Python and Spark.

The mapping is that of Paimon's Spark connector: TIMESTAMP is TIMESTAMP_NTZ, TIMESTAMP_LTZ is TIMESTAMP (both in
microseconds), TIME is INT (milliseconds of the day), MULTISET is MAP<element, INT>, BINARY and VARBINARY are BINARY, a
VARCHAR of the greatest length is STRING.

Spark's schemas are JSON (`StructType.json`): a name for an atomic type, an object for a nested one.

A query may need a part of a column's nested fields; Spark leaves the others out of the schema that it reads
(`NarrowedFields`).

Timestamps lose digits by rounding down, as Paimon's Timestamp does it: a nanosecond before the epoch is in the
microsecond before it. Arrow's casts round towards zero. Source: paimon-common's Timestamp.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from interbed.spark_ext.values.defaults import default_from_spark, default_to_spark
from interbed.storage.base.errors import InvalidInputError, NotSupportedError
from interbed.storage.base.types.arrow import FieldIds, type_to_arrow
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
)
from interbed.storage.meta.schema.evolution import conform

_TICKS = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


def loses_digits(source: pa.DataType, target: pa.DataType) -> bool:
    """Return whether a cast reduces the precision of timestamps, also of nested ones."""
    if isinstance(source, pa.TimestampType) and isinstance(target, pa.TimestampType):
        return _TICKS[source.unit] > _TICKS[target.unit]
    return source.num_fields == target.num_fields and any(
        loses_digits(source.field(i).type, target.field(i).type) for i in range(source.num_fields)
    )


def rounded_down(array: Any, target: Any, *, safe: bool) -> "pa.Array[Any]":
    """Cast an array, with timestamps rounded down; `safe` and errors are those of Arrow's cast."""
    if not loses_digits(array.type, target):
        cast: pa.Array[Any] = array.cast(target, safe=safe)
        return cast
    if pa.types.is_struct(target):
        children = [rounded_down(array.field(i), field.type, safe=safe) for i, field in enumerate(target)]
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(children, fields=list(target), mask=mask)
    if pa.types.is_timestamp(target):
        cut: pa.Array[Any] = _rounded(array, _TICKS[array.type.unit] // _TICKS[target.unit]).view(target)
        return cut
    inside: pa.Array[Any]
    if pa.types.is_map(target):
        keys = rounded_down(array.keys, target.key_type, safe=safe)
        items = rounded_down(array.items, target.item_type, safe=safe)
        inside = pa.StructArray.from_arrays([keys, items], fields=[target.key_field, target.item_field])
    else:
        inside = rounded_down(array.values, target.value_type, safe=safe)
    rebuilt: pa.Array[Any] = pa.Array.from_buffers(
        target, len(array), array.buffers()[:2], array.null_count, array.offset, children=[inside]
    )
    return rebuilt


def _rounded(array: Any, step: int) -> Any:
    ticks = array.view(pa.int64())
    towards_zero: Any = pc.divide(ticks, step)
    over: Any = pc.greater(pc.multiply(towards_zero, step), ticks)
    return pc.subtract(towards_zero, over.cast(pa.int64()))


COMMENT = "comment"
CURRENT_DEFAULT = "CURRENT_DEFAULT"
CHAR_VARCHAR = "__CHAR_VARCHAR_TYPE_STRING"
COLLATIONS = "__COLLATIONS"

# Spark's timestamps count microseconds; columns that it creates have this precision.
SPARK_PRECISION = 6

_TO_SPARK = {
    TypeRoot.BOOLEAN: "boolean",
    TypeRoot.TINYINT: "byte",
    TypeRoot.SMALLINT: "short",
    TypeRoot.INT: "integer",
    TypeRoot.BIGINT: "long",
    TypeRoot.FLOAT: "float",
    TypeRoot.DOUBLE: "double",
    TypeRoot.BINARY: "binary",
    TypeRoot.VARBINARY: "binary",
    TypeRoot.DATE: "date",
    TypeRoot.TIME: "integer",
    TypeRoot.TIMESTAMP: "timestamp_ntz",
    TypeRoot.TIMESTAMP_LTZ: "timestamp",
}
_FROM_SPARK = {
    "boolean": AtomicType(TypeRoot.BOOLEAN),
    "byte": AtomicType(TypeRoot.TINYINT),
    "short": AtomicType(TypeRoot.SMALLINT),
    "integer": AtomicType(TypeRoot.INT),
    "long": AtomicType(TypeRoot.BIGINT),
    "float": AtomicType(TypeRoot.FLOAT),
    "double": AtomicType(TypeRoot.DOUBLE),
    "string": AtomicType(TypeRoot.VARCHAR, length=MAX_LENGTH),
    "binary": AtomicType(TypeRoot.VARBINARY, length=MAX_LENGTH),
    "date": AtomicType(TypeRoot.DATE),
    "timestamp_ntz": AtomicType(TypeRoot.TIMESTAMP, precision=SPARK_PRECISION),
    "timestamp": AtomicType(TypeRoot.TIMESTAMP_LTZ, precision=SPARK_PRECISION),
}
_SIZED = re.compile(r"^(char|varchar|decimal)\((\d+)(?:,\s*(-?\d+))?\)$")


def type_to_spark(data_type: DataType) -> Any:
    """Return the JSON value of the Spark type of a logical type."""
    match data_type:
        case AtomicType(root=TypeRoot.DECIMAL):
            return f"decimal({data_type.precision},{data_type.scale})"
        case AtomicType(root=TypeRoot.CHAR):
            return f"char({data_type.length})"
        case AtomicType(root=TypeRoot.VARCHAR):
            return "string" if data_type.length == MAX_LENGTH else f"varchar({data_type.length})"
        case AtomicType(root=root):
            return _TO_SPARK[root]
        case ArrayType(element=element):
            return {"type": "array", "elementType": type_to_spark(element), "containsNull": element.nullable}
        case MapType(key=key, value=value):
            return _map_to_spark(key, type_to_spark(value), value.nullable)
        case MultisetType(element=element):
            return _map_to_spark(element, "integer", False)
        case RowType(fields=fields):
            return _struct(fields)
        case _:
            raise NotSupportedError(f"Spark has no type for {data_type}.")


def _map_to_spark(key: DataType, value: Any, value_contains_null: bool) -> dict[str, Any]:
    return {
        "type": "map",
        "keyType": type_to_spark(key),
        "valueType": value,
        "valueContainsNull": value_contains_null,
    }


def _struct(fields: Sequence[DataField]) -> dict[str, Any]:
    return {"type": "struct", "fields": [_field_to_spark(f) for f in fields]}


def _field_to_spark(field: DataField) -> dict[str, Any]:
    metadata = {}
    if field.description:
        metadata[COMMENT] = field.description
    if field.default_value is not None:
        default = default_to_spark(field.default_value, field.type, column=field.name)
        if default is not None:
            metadata[CURRENT_DEFAULT] = default
    return {
        "name": field.name,
        "type": type_to_spark(field.type),
        "nullable": field.type.nullable,
        "metadata": metadata,
    }


def schema_to_spark(fields: Sequence[DataField]) -> str:
    """Return Spark's StructType of a table's columns, as JSON."""
    return json.dumps(_struct(fields))


def schema_from_spark(text: str) -> tuple[DataField, ...]:
    """Return the columns of a StructType in JSON, with new field ids. Raises NotSupportedError with the column."""
    return _fields_from_spark(json.loads(text)["fields"], FieldIds(), "")


def type_from_spark(value: Any, *, column: str, ids: FieldIds | None = None) -> DataType:
    """Return the nullable logical type of a Spark type's JSON value; `column` is its name for errors."""
    ids = ids or FieldIds()
    if isinstance(value, str):
        return _atomic_from_spark(value, column)
    match value["type"]:
        case "array":
            element = type_from_spark(value["elementType"], column=column, ids=ids)
            return ArrayType(element.with_nullable(value["containsNull"]))
        case "map":
            key = type_from_spark(value["keyType"], column=column, ids=ids)
            item = type_from_spark(value["valueType"], column=column, ids=ids)
            return MapType(key.with_nullable(False), item.with_nullable(value["valueContainsNull"]))
        case "struct":
            return RowType(_fields_from_spark(value["fields"], ids, f"{column}."))
        case kind:
            raise NotSupportedError(f"The column '{column}' has the Spark type '{kind}', which tables can't hold.")


def _fields_from_spark(values: Sequence[dict[str, Any]], ids: FieldIds, prefix: str) -> tuple[DataField, ...]:
    # The fields of one level get ids before those nested in them, as in the format's own numbering.
    numbered = [(ids.take(), value) for value in values]
    return tuple(_field_from_spark(number, value, ids, prefix) for number, value in numbered)


def _field_from_spark(number: int, value: dict[str, Any], ids: FieldIds, prefix: str) -> DataField:
    name = value["name"]
    metadata = value.get("metadata") or {}
    if metadata.get(COLLATIONS):
        raise NotSupportedError(f"The column '{prefix}{name}' has a collation; tables compare strings by their bytes.")
    # In a query's schema CHAR(n) is a string whose metadata has the declared type.
    declared = metadata.get(CHAR_VARCHAR, value["type"]) if value["type"] == "string" else value["type"]
    data_type = type_from_spark(declared, column=f"{prefix}{name}", ids=ids)
    default = metadata.get(CURRENT_DEFAULT)
    return DataField(
        id=number,
        name=name,
        type=data_type.with_nullable(value["nullable"]),
        description=metadata.get(COMMENT),
        default_value=None if default is None else default_from_spark(default, data_type, column=f"{prefix}{name}"),
    )


def _atomic_from_spark(name: str, column: str) -> AtomicType:
    known = _FROM_SPARK.get(name)
    if known is not None:
        return known
    sized = _SIZED.match(name)
    if sized is None:
        raise NotSupportedError(f"The column '{column}' has the Spark type '{name}', which tables can't hold.")
    kind, first, second = sized.groups()
    if kind == "decimal":
        return AtomicType(TypeRoot.DECIMAL, precision=int(first), scale=int(second or 0))
    return AtomicType(TypeRoot.CHAR if kind == "char" else TypeRoot.VARCHAR, length=int(first))


# -- Arrow -------------------------------------------------------------------------------------------------------------


def arrow_for_spark(data_type: DataType) -> pa.DataType:
    """Return the Arrow type of Spark's column vectors for a logical type."""
    match data_type:
        case AtomicType(root=TypeRoot.TIMESTAMP):
            return pa.timestamp("us")
        case AtomicType(root=TypeRoot.TIMESTAMP_LTZ):
            return pa.timestamp("us", tz="UTC")
        case AtomicType(root=TypeRoot.TIME):
            return pa.int32()
        case ArrayType(element=element):
            return pa.list_(pa.field("element", arrow_for_spark(element), element.nullable))
        case MapType(key=key, value=value):
            return _arrow_map(arrow_for_spark(key), pa.field("value", arrow_for_spark(value), value.nullable))
        case MultisetType(element=element):
            return _arrow_map(arrow_for_spark(element), pa.field("value", pa.int32(), nullable=False))
        case RowType(fields=fields):
            return pa.struct([pa.field(f.name, arrow_for_spark(f.type), f.type.nullable) for f in fields])
        case _:
            return type_to_arrow(data_type)


def _arrow_map(key: pa.DataType, value: "pa.Field[pa.DataType]") -> pa.DataType:
    # The stubs have only types as arguments, and a type can't declare that a value is never null.
    result: pa.DataType = pa.map_(pa.field("key", key, nullable=False), value)  # type: ignore[call-overload]
    return result


def arrow_schema_for_spark(fields: Sequence[DataField]) -> pa.Schema:
    """Return the exact Arrow schema of the batches that Spark reads."""
    return pa.schema([pa.field(f.name, arrow_for_spark(f.type), f.type.nullable) for f in fields])


def batch_for_spark(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Convert a batch of a read to the schema that Spark expects; columns are matched by position.

    Timestamps of nanoseconds are rounded down to microseconds.
    """
    if len(schema) == 0:
        # A batch without columns still has a number of rows, which from_arrays would lose.
        return batch.select([])
    columns = [
        column if column.type.equals(field.type) else rounded_down(column, field.type, safe=False)
        for column, field in zip(batch.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def batch_from_spark(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Convert a batch of Spark's rows to the table's Arrow types; columns are matched by name.

    Timestamps are truncated to the column's precision, as in Paimon. Raises InvalidInputError for values that can't be
    cast to the column's type.
    """
    names = batch.schema.names
    columns = []
    fields = []
    for name, column in zip(names, batch.columns, strict=True):
        index = schema.get_field_index(name)
        target = column.type if index < 0 else schema.field(index).type
        if not column.type.equals(target):
            # Only timestamps may lose digits; an integer that does not fit must not wrap around.
            cut = pa.types.is_timestamp(target)
            try:
                column = rounded_down(column, target, safe=not cut)
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
                raise InvalidInputError(f"Values of the column '{name}' do not fit into {target}: {error}") from error
        columns.append(column)
        fields.append(pa.field(name, target))
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))


@dataclass(frozen=True, slots=True, kw_only=True)
class NarrowedFields:
    """The columns of a table, and the same columns with only the nested fields that are read."""

    whole: tuple[DataField, ...]
    fields: tuple[DataField, ...]

    @staticmethod
    def of(fields: Sequence[DataField], schema_json: str | None) -> "NarrowedFields":
        """Return the columns for Spark's StructType in JSON; None: with all fields."""
        whole = tuple(fields)
        if schema_json is None:
            return NarrowedFields(whole=whole, fields=whole)
        wanted = {value["name"]: value["type"] for value in json.loads(schema_json)["fields"]}
        narrow = tuple(replace(f, type=_narrowed(f.type, wanted.get(f.name))) for f in whole)
        return NarrowedFields(whole=whole, fields=narrow)

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return a batch of the table's columns with only the fields that are read, matched by position."""
        if self.fields == self.whole:
            return batch
        columns = [
            column if old.type == new.type else conform(column, old.type, new.type, column=new.name)
            for column, old, new in zip(batch.columns, self.whole, self.fields, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, names=[f.name for f in self.fields])


def _narrowed(data_type: DataType, wanted: Any) -> DataType:
    # An atomic type is a string in Spark's JSON; a MULTISET is a map there, without fields to leave out.
    if not isinstance(wanted, Mapping):
        return data_type
    match data_type:
        case RowType(fields=fields):
            by_name = {f.name: f for f in fields}
            kept = (by_name[value["name"]] for value in wanted["fields"])
            types = (value["type"] for value in wanted["fields"])
            return replace(
                data_type,
                fields=tuple(replace(f, type=_narrowed(f.type, t)) for f, t in zip(kept, types, strict=True)),
            )
        case ArrayType(element=element):
            return replace(data_type, element=_narrowed(element, wanted["elementType"]))
        case MapType(key=key, value=value):
            return replace(
                data_type, key=_narrowed(key, wanted["keyType"]), value=_narrowed(value, wanted["valueType"])
            )
        case _:
            return data_type
