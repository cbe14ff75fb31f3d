"""Lossless JSON form of rows, for the peers and the golden files.

A type is what Paimon's schema files hold: a string such as `DECIMAL(10, 2) NOT NULL`, or an object
`{"type": "ARRAY", "element": …}`, `{"type": "MAP", "key": …, "value": …}`, `{"type": "MULTISET", "element": …}`,
`{"type": "ROW", "fields": [{"id": …, "name": …, "type": …}]}`.

A row is a list in field order, and a value is

| type | JSON |
|---|---|
| any, null | null |
| BOOLEAN | true, false |
| TINYINT, SMALLINT, INT, BIGINT | integer |
| DATE | integer, days since 1970-01-01 |
| TIME | integer, milliseconds since midnight |
| TIMESTAMP, TIMESTAMP WITH LOCAL TIME ZONE | integer, nanoseconds since 1970-01-01 00:00 (UTC) |
| FLOAT, DOUBLE | string that Python and Java parse (`NaN`, `-Infinity`, `-0.0`); a FLOAT is widened to a double first |
| DECIMAL | string with all digits of the scale |
| CHAR, VARCHAR | string |
| BINARY, VARBINARY, BLOB | base64 string |
| ARRAY | list |
| MAP | list of [key, value] |
| MULTISET | list of [element, count] |
| ROW | list in field order |

`tests/interop/java/RowJson.java` is the counterpart. This module does not import interbed, so that its results are
independent of it.
"""

import base64
import itertools
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Literal

import pyarrow as pa

TypeJson = str | dict[str, Any]

_ATOMIC = re.compile(
    r"(?P<name>[A-Z_]+(?: PRECISION)?)\s*(?:\((?P<args>[\d\s,]+)\))?(?P<zone> WITH LOCAL TIME ZONE| WITHOUT TIME ZONE)?"
)
_SYNONYMS = {
    "INTEGER": "INT",
    "DEC": "DECIMAL",
    "NUMERIC": "DECIMAL",
    "STRING": "VARCHAR",
    "BYTES": "VARBINARY",
    "TIMESTAMP WITH LOCAL TIME ZONE": "TIMESTAMP_LTZ",
}
_DEFAULT_ARGUMENTS = {"DECIMAL": (10, 0), "TIME": (0,), "TIMESTAMP": (6,), "TIMESTAMP_LTZ": (6,)}


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerType:
    """A Paimon type; `children` are the element, (key, value), (element, count) or the fields of a ROW."""

    root: str
    nullable: bool = True
    arguments: tuple[int, ...] = ()
    children: tuple["PeerType", ...] = ()
    names: tuple[str, ...] = field(default=())


def parse_type(source: TypeJson) -> PeerType:
    """Return the type for the JSON of a schema file."""
    if isinstance(source, dict):
        root, _, not_null = source["type"].partition(" ")
        names: tuple[str, ...] = ()
        if root == "ROW":
            children = tuple(parse_type(f["type"]) for f in source["fields"])
            names = tuple(f["name"] for f in source["fields"])
        elif root == "MAP":
            children = (parse_type(source["key"]), parse_type(source["value"]))
        elif root == "MULTISET":
            children = (parse_type(source["element"]), parse_type("INT NOT NULL"))
        else:
            children = (parse_type(source["element"]),)
        return PeerType(root=root, nullable=not not_null, children=children, names=names)
    text, not_null, _ = source.partition(" NOT NULL")
    match = _ATOMIC.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"no type: {source!r}")
    zone = match["zone"] if match["zone"] == " WITH LOCAL TIME ZONE" else ""
    root = _SYNONYMS.get(match["name"] + zone, match["name"] + zone)
    arguments = tuple(int(part) for part in match["args"].split(",")) if match["args"] else ()
    return PeerType(root=root, nullable=not not_null, arguments=arguments or _DEFAULT_ARGUMENTS.get(root, ()))


def arrow_type(of: PeerType) -> pa.DataType:
    """Return the Arrow type that pypaimon uses for a Paimon type."""
    match of.root:
        case "BOOLEAN":
            return pa.bool_()
        case "TINYINT":
            return pa.int8()
        case "SMALLINT":
            return pa.int16()
        case "INT":
            return pa.int32()
        case "BIGINT":
            return pa.int64()
        case "FLOAT":
            return pa.float32()
        case "DOUBLE":
            return pa.float64()
        case "CHAR" | "VARCHAR":
            return pa.string()
        case "BINARY" | "VARBINARY" | "BLOB":
            return pa.binary()
        case "DECIMAL":
            precision, scale = (*of.arguments, 0)[:2]
            return pa.decimal128(precision, scale)
        case "DATE":
            return pa.date32()
        case "TIME":
            return pa.time32("ms")
        case "TIMESTAMP":
            return pa.timestamp(_unit(of))
        case "TIMESTAMP_LTZ":
            return pa.timestamp(_unit(of), tz="UTC")
        case "ARRAY":
            return pa.list_(pa.field("item", arrow_type(of.children[0]), of.children[0].nullable))
        case "MAP" | "MULTISET":
            key, value = of.children
            keys: Any = pa.field("key", arrow_type(key), nullable=False)
            items: Any = pa.field("value", arrow_type(value), value.nullable)
            return pa.map_(keys, items)
        case "ROW":
            return pa.struct(
                [
                    pa.field(name, arrow_type(child), child.nullable)
                    for name, child in zip(of.names, of.children, strict=True)
                ]
            )
        case _:
            raise ValueError(f"no Arrow type for {of.root}")


def _unit(of: PeerType) -> Literal["s", "ms", "us", "ns"]:
    precision = of.arguments[0]
    return "s" if precision == 0 else "ms" if precision <= 3 else "us" if precision <= 6 else "ns"


_NANOS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}
_MILLIS_DIVISOR = {"s": None, "ms": 1, "us": 1_000, "ns": 1_000_000}


def to_json_values(array: "pa.Array[Any] | pa.ChunkedArray[Any]", of: PeerType) -> list[Any]:
    """Return an Arrow column, in any Arrow type that can hold the Paimon type, as JSON values."""
    if isinstance(array, pa.ChunkedArray):
        return [value for chunk in array.chunks for value in to_json_values(chunk, of)]
    column: Any = array
    if isinstance(column, pa.DictionaryArray):
        column = column.dictionary_decode()
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    valid = column.is_valid().to_pylist()

    def each(values: Iterable[Any]) -> list[Any]:
        return [value if ok else None for value, ok in zip(values, valid, strict=True)]

    match of.root:
        case "FLOAT" | "DOUBLE":
            return [None if value is None else float_text(value) for value in column.to_pylist()]
        case "DECIMAL":
            scale = (*of.arguments, 0)[1]
            return [None if value is None else _decimal_text(value, scale) for value in column.to_pylist()]
        case "BINARY" | "VARBINARY" | "BLOB":
            return [None if value is None else base64.b64encode(value).decode() for value in column.to_pylist()]
        case "DATE":
            return list(column.cast(pa.date32()).view(pa.int32()).to_pylist())
        case "TIME":
            if pa.types.is_time32(column.type):
                ticks = column.view(pa.int32()).to_pylist()
            else:
                ticks = column.view(pa.int64()).to_pylist()
            divisor = _MILLIS_DIVISOR[column.type.unit]
            return [None if t is None else t * 1000 if divisor is None else t // divisor for t in ticks]
        case "TIMESTAMP" | "TIMESTAMP_LTZ":
            if (column.type.tz is None) != (of.root == "TIMESTAMP"):
                raise ValueError(f"{column.type} for a {of.root}")
            factor = _NANOS[column.type.unit]
            return [None if t is None else t * factor for t in column.view(pa.int64()).to_pylist()]
        case "ARRAY":
            if pa.types.is_fixed_size_list(column.type):
                column = column.cast(pa.list_(column.type.value_type))
            offsets = column.offsets.to_pylist()
            elements = to_json_values(column.values, of.children[0])
            return each(elements[start:end] for start, end in itertools.pairwise(offsets))
        case "MAP" | "MULTISET":
            offsets = column.offsets.to_pylist()
            keys = to_json_values(column.keys, of.children[0])
            items = to_json_values(column.items, of.children[1])
            pairs = [list(pair) for pair in zip(keys, items, strict=True)]
            return each(pairs[start:end] for start, end in itertools.pairwise(offsets))
        case "ROW":
            columns = [to_json_values(column.field(i), child) for i, child in enumerate(of.children)]
            return each(list(row) for row in zip(*columns, strict=True))
        case _:
            return list(column.to_pylist())


def from_json_values(values: Sequence[Any], of: PeerType) -> "pa.Array[Any]":
    """Return the Arrow column of `arrow_type(of)` for JSON values."""
    present = [value is not None for value in values]
    nulls = pa.array([not ok for ok in present], pa.bool_())
    target = arrow_type(of)
    match of.root:
        case "FLOAT" | "DOUBLE":
            return pa.array([None if v is None else float(v) for v in values], target)
        case "DECIMAL":
            return pa.array([None if v is None else Decimal(v) for v in values], target)
        case "BINARY" | "VARBINARY" | "BLOB":
            return pa.array([None if v is None else base64.b64decode(v) for v in values], target)
        case "DATE" | "TIME":
            return pa.array(values, pa.int32()).view(target)
        case "TIMESTAMP" | "TIMESTAMP_LTZ":
            assert isinstance(target, pa.TimestampType)
            factor = _NANOS[target.unit]
            if any(v is not None and v % factor for v in values):
                raise ValueError(f"more digits than {of.root}({of.arguments[0]}) holds: {values}")
            return pa.array([None if v is None else v // factor for v in values], pa.int64()).view(target)
        case "ARRAY":
            flat = [element for value in values if value is not None for element in value]
            elements = from_json_values(flat, of.children[0])
            assert isinstance(target, pa.ListType)
            return pa.ListArray.from_arrays(_offsets(values), elements, type=target, mask=nulls)
        case "MAP" | "MULTISET":
            pairs = [pair for value in values if value is not None for pair in value]
            keys = from_json_values([key for key, _ in pairs], of.children[0])
            items = from_json_values([item for _, item in pairs], of.children[1])
            # pyarrow's stubs have no `type` parameter beside keys and items.
            maps: Any = pa.MapArray
            made: pa.Array[Any] = maps.from_arrays(_offsets(values), keys, items, type=target, mask=nulls)
            return made
        case "ROW":
            columns = [
                from_json_values([None if v is None else v[i] for v in values], child)
                for i, child in enumerate(of.children)
            ]
            if not columns:
                return pa.array([None if v is None else {} for v in values], target)
            assert isinstance(target, pa.StructType)
            return pa.StructArray.from_arrays(columns, fields=list(target), mask=nulls)
        case _:
            return pa.array(values, target)


def _offsets(values: Sequence[Any]) -> pa.Int32Array:
    offsets = [0]
    for value in values:
        offsets.append(offsets[-1] + (0 if value is None else len(value)))
    return pa.array(offsets, pa.int32())


def table_to_rows(table: pa.Table, types: Sequence[PeerType]) -> list[list[Any]]:
    """Return the rows of a table as JSON, in order."""
    columns = [to_json_values(column, of) for column, of in zip(table.columns, types, strict=True)]
    return [list(row) for row in zip(*columns, strict=True)]


def rows_to_table(rows: Sequence[Sequence[Any]], names: Sequence[str], types: Sequence[PeerType]) -> pa.Table:
    """Return a table of JSON rows; its fields are NOT NULL where the types are."""
    arrays = [from_json_values([row[i] for row in rows], of) for i, of in enumerate(types)]
    fields = [pa.field(name, arrow_type(of), of.nullable) for name, of in zip(names, types, strict=True)]
    return pa.table(arrays, schema=pa.schema(fields))


def float_text(value: float) -> str:
    """Return the JSON form of a FLOAT or DOUBLE: `1.5`, `-0.0`, and `NaN`, `Infinity`, `-Infinity` as in Java."""
    if value != value:
        return "NaN"
    return repr(value).replace("inf", "Infinity")


def _decimal_text(value: Decimal, scale: int) -> str:
    # Not format(value, "f") alone: a decimal of scale 0 must have no exponent.
    return f"{value:.{scale}f}"


def normalised(value: Any, of: PeerType) -> Any:
    """Return the canonical form of a JSON value for comparisons: floats as Python writes them, maps in key order."""
    if value is None:
        return None
    match of.root:
        case "FLOAT" | "DOUBLE":
            return float_text(float(value))
        case "DECIMAL":
            return _decimal_text(Decimal(value), (*of.arguments, 0)[1])
        case "ARRAY":
            return [normalised(element, of.children[0]) for element in value]
        case "MAP" | "MULTISET":
            pairs = [[normalised(k, of.children[0]), normalised(v, of.children[1])] for k, v in value]
            return sorted(pairs, key=json.dumps)
        case "ROW":
            return [normalised(v, child) for v, child in zip(value, of.children, strict=True)]
        case _:
            return value


def comparable(rows: Iterable[Sequence[Any]], types: Sequence[PeerType]) -> list[list[Any]]:
    """Return rows in a form and an order that are equal exactly when the two tables hold the same rows."""
    forms = [[normalised(v, of) for v, of in zip(row, types, strict=True)] for row in rows]
    return sorted(forms, key=json.dumps)
