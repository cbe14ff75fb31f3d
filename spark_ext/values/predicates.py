"""Translation of Spark's filters to predicates of the storage layer, and literals for the JVM.

A filter comes as a JSON tree of typed values (spark_ext/jvm/src/interbed/spark/value/PredicateJson.java writes it):

    {"op": "AND", "args": [{"op": "=", "args": [{"column": ["id"]}, {"type": "integer", "value": 3}]}, …]}

A filter is not used where the semantics of Spark and the storage layer could differ; Spark applies it by itself.

Literals have the same form in both directions: dates are days and timestamps microseconds since 1970, decimals and text
are strings. The JVM knows the types.

Values of partition columns are converted as in filters: numbers that JSON can't carry exactly are strings, binary
values base64, dates days and timestamps microseconds since 1970-01-01.
"""

import json
import struct
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import IntEnum
from typing import Any

from interbed.storage.base.decoding import bytes_of_base64
from interbed.storage.base.errors import FilterError, NotSupportedError
from interbed.storage.base.predicate.conditions import char_forms, char_lengths
from interbed.storage.base.predicate.expr import (
    And,
    Comparison,
    Contains,
    EndsWith,
    In,
    IsNotNull,
    IsNull,
    Not,
    Op,
    Or,
    Predicate,
    StartsWith,
    bind,
)
from interbed.storage.base.predicate.operands import InnerReference, Reference, find
from interbed.storage.base.row.values import (
    EPOCH,
    EPOCH_UTC,
    days_to_value,
    millis_to_time,
    ticks_to_value,
    unit_of,
    value_to_days,
    value_to_millis,
    value_to_ticks,
)
from interbed.storage.base.types.data_type import (
    BINARIES,
    INTEGERS,
    STRINGS,
    TIMESTAMPS,
    AtomicType,
    DataField,
    DataType,
    TypeRoot,
    is_atomic,
)
from interbed.storage.base.types.far_times import TICKS_PER_SECOND, FarTimestamp

_MICROS = {"ms": 1_000, "us": 1}


def has_literal(data_type: DataType) -> bool:
    """Return whether values of the type can be sent: not CHAR, which Spark pads, nor floats with their two zeros."""
    if not isinstance(data_type, AtomicType):
        return False
    if data_type.root in TIMESTAMPS:
        return unit_of(data_type) in _MICROS
    return data_type.root in INTEGERS | {TypeRoot.BOOLEAN, TypeRoot.VARCHAR, TypeRoot.DATE, TypeRoot.DECIMAL}


def literals(values: Sequence[object], types: Sequence[DataType]) -> str:
    """Encode a row of values of these types. Raises NotSupportedError for a type without literals."""
    return json.dumps([_sent(value, data_type) for value, data_type in zip(values, types, strict=True)])


def _sent(value: object, data_type: DataType) -> object:
    if not has_literal(data_type) or not isinstance(data_type, AtomicType):
        raise NotSupportedError(f"A value of type {data_type} can't be sent to Spark by itself.")
    if value is None:
        return None
    if data_type.root in TIMESTAMPS:
        return value_to_ticks(value, data_type) * _MICROS[unit_of(data_type)]
    if data_type.root is TypeRoot.DATE:
        return value_to_days(value)
    return format(value, "f") if isinstance(value, Decimal) else value


_NTZ = AtomicType(TypeRoot.TIMESTAMP, precision=6)
_LTZ = AtomicType(TypeRoot.TIMESTAMP_LTZ, precision=6)

_COMPARISONS = {"=": Op.EQ, "<>": Op.NE, "<": Op.LT, "<=": Op.LE, ">": Op.GT, ">=": Op.GE}
_MIRRORED = {Op.EQ: Op.EQ, Op.NE: Op.NE, Op.LT: Op.GT, Op.LE: Op.GE, Op.GT: Op.LT, Op.GE: Op.LE}
_TEXT_KINDS = ("string", "varchar", "char")
_TEXT = {"STARTS_WITH": StartsWith, "ENDS_WITH": EndsWith, "CONTAINS": Contains}


class FilterHandling(IntEnum):
    """Use of a filter in a scan; the numbers are those of planner.thrift."""

    IGNORED = 0
    PRUNES = 1
    EXACT = 2


class _UnusableError(Exception):
    """The filter, or a part of it, has no counterpart in the storage layer."""


@dataclass(frozen=True, slots=True)
class _LiteralValue:
    value: Any


def predicate_of(tree: str, fields: Sequence[DataField]) -> Predicate | None:
    """Return the bound predicate of a filter; None when only Spark can apply it."""
    try:
        return bind(_predicate(json.loads(tree), {f.name: f for f in fields}), fields)
    except (_UnusableError, FilterError, OverflowError):
        return None


def conjunction_of(trees: Sequence[str], fields: Sequence[DataField]) -> Predicate | None:
    """Return the conjunction of all filters that can be used; None without any."""
    usable = [p for p in (predicate_of(tree, fields) for tree in trees) if p is not None]
    if len(usable) < 2:
        return usable[0] if usable else None
    return And(tuple(usable))


def handling_of(tree: str, fields: Sequence[DataField], partition_keys: Sequence[str]) -> FilterHandling:
    """Return the use of a filter: one on partition columns only selects whole partitions, exactly."""
    if predicate_of(tree, fields) is None:
        return FilterHandling.IGNORED
    columns = columns_of(json.loads(tree))
    exact = all(c in partition_keys for c in columns)
    return FilterHandling.EXACT if exact and columns else FilterHandling.PRUNES


def columns_of(node: Mapping[str, Any]) -> set[str]:
    """Return the columns in a tree; a nested field counts as its column."""
    if "column" in node:
        return {node["column"][0]}
    return set().union(*(columns_of(child) for child in node.get("args", ())), set())


def partition_of(
    trees: Sequence[str], fields: Sequence[DataField], partition_keys: Sequence[str]
) -> dict[str, Any] | None:
    """Return the static partition of an overwrite: values of some partition columns, {} for the whole table.

    None when a filter is not of the form `partition column = value`. Spark names columns here as the statement does.
    """
    by_name = {f.name: f for f in fields}
    spelled = {**{name.lower(): name for name in by_name}, **{name: name for name in by_name}}
    partition: dict[str, Any] = {}
    for tree in trees:
        for node in _conjuncts(_respelled(json.loads(tree), spelled)):
            if node.get("op") == "ALWAYS_TRUE":
                continue
            try:
                column, value = _equality(node, by_name)
            except (_UnusableError, FilterError):
                return None
            if column not in partition_keys or column in partition:
                return None
            partition[column] = value
    return partition


def _respelled(node: Mapping[str, Any], names: Mapping[str, str]) -> Mapping[str, Any]:
    """Return the node with the table's names of columns, which differ from the statement's by case."""
    if node.get("column"):
        first, *inner = node["column"]
        return {**node, "column": [names.get(first, names.get(first.lower(), first)), *inner]}
    return {**node, "args": [_respelled(each, names) for each in node["args"]]} if "args" in node else node


def _conjuncts(node: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    if node.get("op") == "AND":
        return [part for child in node["args"] for part in _conjuncts(child)]
    return [node]


def _equality(node: Mapping[str, Any], fields: Mapping[str, DataField]) -> tuple[str, Any]:
    arguments = node.get("args", [])
    if node.get("op") == "IS_NULL":
        return _column(arguments[0], fields, exact=False).name, None
    if node.get("op") == "NOT":
        return _false(arguments[0], fields)
    if node.get("op") not in ("=", "<=>"):
        raise _UnusableError
    field = _column(arguments[0], fields, exact=False)
    value = _literal(arguments[1], field).value
    if is_atomic(field.type, TypeRoot.TIME) and value is not None:
        value = millis_to_time(value)
    return field.name, value


def _false(node: Mapping[str, Any], fields: Mapping[str, DataField]) -> tuple[str, Any]:
    """Return the column of `NOT (column = true)`, which is Spark's form of `column = false`."""
    name, value = _equality(node, fields)
    # By `<=>` a null differs from true, and it has a partition of its own.
    is_whole = node.get("op") == "=" or not fields[name].type.nullable
    if value is not True or not is_whole:
        raise _UnusableError
    return name, False


def padded_partitions(
    partition: Mapping[str, Any], fields: Sequence[DataField]
) -> Mapping[str, Any] | Sequence[Mapping[str, Any]]:
    """Return the partitions of a static partition, several if it has values of CHAR columns; see partition_forms."""
    given = partition_forms(partition, fields)
    return given if len(given) > 1 else partition


def partition_forms(partition: Mapping[str, Any], fields: Sequence[DataField]) -> list[Mapping[str, Any]]:
    """Return the partitions that equal a given one: blanks at the end of a CHAR do not count.

    Spark pads such values with blanks to the column's length, and compares the padded values; other writers do not pad.
    """
    given: list[Mapping[str, Any]] = [partition]
    lengths = char_lengths(fields)
    for name, length in lengths.items():
        value = partition.get(name)
        if isinstance(value, str):
            given = [{**spec, name: form} for spec in given for form in char_forms(name, value, length)]
    return given


def partitions_by_text(specs: Iterable[Mapping[str, str]], fields: Sequence[DataField]) -> list[Mapping[str, Any]]:
    """Return the partitions of texts, with each form that a value of a CHAR column may have; see partition_forms."""
    return [form for spec in specs for form in partition_forms(spec, fields)]


def _predicate(node: Mapping[str, Any], fields: Mapping[str, DataField], *, negated: bool = False) -> Predicate:
    operator = node.get("op", "")
    arguments = node.get("args", [])
    if operator in ("AND", "OR"):
        parts = tuple(_predicate(a, fields, negated=negated) for a in arguments)
        return And(parts) if operator == "AND" else Or(parts)
    if operator == "NOT":
        return Not(_predicate(arguments[0], fields, negated=not negated))
    if operator in ("IS_NULL", "IS_NOT_NULL"):
        asked, _ = _asked(arguments[0], fields, atomic=False)
        return IsNull(asked) if operator == "IS_NULL" else IsNotNull(asked)
    if operator in _COMPARISONS:
        return _comparison(_COMPARISONS[operator], arguments, fields)
    if operator == "<=>":
        asked, field = _asked(arguments[0], fields)
        value = _literal(arguments[1], field).value
        # For a null this is false and not unknown, which differs under NOT.
        if value is None:
            return IsNull(asked)
        return And((IsNotNull(asked), Comparison(Op.EQ, asked, value)))
    if operator == "IN":
        asked, field = _asked(arguments[0], fields)
        values = [_literal(a, field).value for a in arguments[1:]]
        known = tuple(v for v in values if v is not None)
        # A null among the values never selects a row; under NOT it excludes all rows.
        if not known or (negated and len(known) < len(values)):
            raise _UnusableError
        return In(asked, known)
    if operator in _TEXT:
        asked, field = _asked(arguments[0], fields)
        value = _literal(arguments[1], field).value
        if not is_atomic(field.type, TypeRoot.VARCHAR) or value is None:
            raise _UnusableError
        return _TEXT[operator](asked, value)
    raise _UnusableError


def _comparison(op: Op, arguments: Sequence[Any], fields: Mapping[str, DataField]) -> Predicate:
    left, right = arguments
    if "column" not in left:
        left, right, op = right, left, _MIRRORED[op]
    asked, field = _asked(left, fields)
    value = _literal(right, field).value
    if value is None:
        # Never true; Spark folds such filters before they come here.
        raise _UnusableError
    return Comparison(op, asked, value)


def _column(node: Mapping[str, Any], fields: Mapping[str, DataField], *, exact: bool = True) -> DataField:
    """Return a whole column; without `exact` also a column that Spark compares differently."""
    asked, field = _asked(node, fields, exact=exact)
    if not isinstance(asked, str):
        raise _UnusableError
    return field


def _asked(
    node: Mapping[str, Any], fields: Mapping[str, DataField], *, atomic: bool = True, exact: bool = True
) -> tuple[Reference, DataField]:
    """Return a column, or a nested field of a ROW (a path of several names), with its definition."""
    path = node.get("column", ())
    if not path:
        raise _UnusableError
    asked, field = find(InnerReference(path[0], tuple(path[1:])) if len(path) > 1 else path[0], fields)
    if atomic and not isinstance(field.type, AtomicType):
        raise _UnusableError
    if not exact:
        return asked, field
    if is_atomic(field.type, TypeRoot.CHAR, TypeRoot.TIME) and atomic:
        # Spark compares CHAR padded with blanks, and has TIME as a number.
        raise _UnusableError
    if is_atomic(field.type, *TIMESTAMPS) and isinstance(field.type, AtomicType) and (field.type.precision or 0) > 6:
        # Spark compares timestamps that are truncated to microseconds.
        raise _UnusableError
    return asked, field


def _literal(node: Mapping[str, Any], field: DataField) -> _LiteralValue:
    kind = node.get("type", "").partition("(")[0]
    # Spark casts one of the two before it compares them; the types differ only where it does not.
    if "value" not in node or (kind in _TEXT_KINDS) != is_atomic(field.type, *STRINGS):
        raise _UnusableError
    value = node["value"]
    if value is None:
        return _LiteralValue(None)
    match kind:
        case "boolean" | "byte" | "short" | "integer" | "long" | "string" | "varchar":
            return _LiteralValue(value)
        case "float":
            # The number that the text stands for as a float, so that it equals the column's value in either width.
            return _LiteralValue(struct.unpack("f", struct.pack("f", float(value)))[0])
        case "double":
            return _LiteralValue(float(value))
        case "decimal":
            return _LiteralValue(Decimal(value))
        case "binary":
            return _LiteralValue(bytes_of_base64(value))
        case "date":
            return _LiteralValue(days_to_value(value))
        case "timestamp_ntz":
            return _LiteralValue(ticks_to_value(value, _NTZ))
        case "timestamp":
            return _LiteralValue(ticks_to_value(value, _LTZ))
        case _:
            raise _UnusableError


_MICROSECOND = timedelta(microseconds=1)
_MICROS_PER_SECOND = 1_000_000


def spec_from_spark(text: str, fields: Sequence[DataField]) -> dict[str, Any]:
    """Return a (partial) partition of planner.thrift's specJson, with Python values; `fields` are its columns."""
    by_name = {f.name: f for f in fields}
    return {
        name: None if value is None else _from_spark(value, by_name[name]) for name, value in json.loads(text).items()
    }


def values_to_spark(values: Sequence[object], fields: Sequence[DataField]) -> str:
    """Return planner.thrift's valuesJson of a partition's values, in the order of the columns."""
    return json.dumps(
        [None if v is None else _to_spark(v, f) for v, f in zip(values, fields, strict=True)], ensure_ascii=False
    )


def agrees(spec: Mapping[str, Any], values: Sequence[object], fields: Sequence[DataField]) -> bool:
    """Return whether a partition matches the (partial) specification."""
    return all(f.name not in spec or _is_same(spec[f.name], v) for f, v in zip(fields, values, strict=True))


def _is_same(left: Any, right: Any) -> bool:
    # NaN is equal to itself in SQL, and to nothing in Python.
    return bool(left == right or (left != left and right != right))


def _root(field: DataField) -> TypeRoot | None:
    return field.type.root if isinstance(field.type, AtomicType) else None


def _from_spark(value: Any, field: DataField) -> Any:
    match _root(field):
        case TypeRoot.DATE:
            return days_to_value(value)
        case TypeRoot.TIME:
            return millis_to_time(value)
        case TypeRoot.TIMESTAMP | TypeRoot.TIMESTAMP_LTZ if isinstance(field.type, AtomicType):
            per_second = TICKS_PER_SECOND[unit_of(field.type)]
            return ticks_to_value(value * per_second // _MICROS_PER_SECOND, field.type)
        case TypeRoot.DECIMAL:
            return Decimal(value)
        case TypeRoot.FLOAT | TypeRoot.DOUBLE:
            return float(value)
        case root if root in BINARIES:
            return bytes_of_base64(value)
        case _:
            return value


def _to_spark(value: Any, field: DataField) -> Any:
    if isinstance(value, FarTimestamp):
        return int(value) * _MICROS_PER_SECOND // TICKS_PER_SECOND[value.unit]
    if isinstance(value, datetime):
        return (value - (EPOCH if value.tzinfo is None else EPOCH_UTC)) // _MICROSECOND
    if isinstance(value, date):
        return value_to_days(value)
    if isinstance(value, bytes):
        return b64encode(value).decode()
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, float):
        return repr(value)
    return value_to_millis(value) if is_atomic(field.type, TypeRoot.TIME) else value
