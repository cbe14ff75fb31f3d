"""Rows as a Polars LazyFrame, which reads only the columns and rows that a query needs (Polars' IO plugins).

Polars passes its filter as an expression. The parts with the same meaning here are pushed down, so that files are
skipped. The whole expression is applied to the rows that are read, so that the translation affects only speed. Both
sides cast a literal of another type by their own rules, so that only literals of the column's type are pushed down.
Polars applies a limit before the filter.
"""

import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from interbed.storage.base.errors import FilterError, NotSupportedError, load_extra
from interbed.storage.base.predicate.expr import (
    Comparison,
    In,
    IsNotNull,
    IsNull,
    Op,
    Predicate,
    StartsWith,
    and_,
    bind,
    or_,
)
from interbed.storage.base.predicate.operands import locate
from interbed.storage.base.row.values import unit_of
from interbed.storage.base.types.data_type import BINARIES, INTEGERS, STRINGS, AtomicType, DataField, TypeRoot

if TYPE_CHECKING:
    import polars as pl

Narrowed = Callable[[Sequence[str] | None, Predicate | None, int | None], pa.RecordBatchReader]
"""Reads some columns (None: all) of rows that may match a predicate, with an optional limit."""

_OPS = {"Eq": Op.EQ, "NotEq": Op.NE, "Lt": Op.LT, "LtEq": Op.LE, "Gt": Op.GT, "GtEq": Op.GE}
_LITERALS: Mapping[TypeRoot, tuple[type, ...]] = {
    TypeRoot.BOOLEAN: (bool,),
    **dict.fromkeys(INTEGERS, (int,)),
    TypeRoot.DOUBLE: (float,),
    TypeRoot.DECIMAL: (Decimal,),
    **dict.fromkeys(STRINGS, (str,)),
    **dict.fromkeys(BINARIES, (bytes,)),
    TypeRoot.DATE: (date,),
    TypeRoot.TIMESTAMP: (datetime,),
}
_MIRRORED = {Op.LT: Op.GT, Op.LE: Op.GE, Op.GT: Op.LT, Op.GE: Op.LE}


def lazy_frame(schema: pa.Schema, fields: Sequence[DataField], narrowed: Narrowed) -> "pl.LazyFrame":
    """Return the frame; `fields` are the columns of predicates. Raises MissingExtraError, NotSupportedError."""
    polars = load_extra("polars", needed_by="to_polars")
    try:
        from polars.io.plugins import register_io_source
    except ImportError:
        raise NotSupportedError(f"A lazy frame needs Polars 1.20 or newer, not {polars.__version__}.") from None

    def source(
        columns: list[str] | None, predicate: "pl.Expr | None", rows: int | None, _: int | None
    ) -> Iterator["pl.DataFrame"]:
        read = columns
        if columns is not None and predicate is not None:
            read = list(dict.fromkeys([*columns, *predicate.meta.root_names()]))
        pushed = None if predicate is None or rows is not None else translated(predicate, fields)
        empty = True
        for batch in narrowed(read, pushed, rows):
            frame = polars.from_arrow(batch)
            if predicate is not None:
                frame = frame.filter(predicate)
            empty = False
            yield frame if columns is None else frame.select(columns)
        if empty:
            yield polars.DataFrame(schema=whole if columns is None else {name: whole[name] for name in columns})

    whole = polars.from_arrow(pa.Table.from_batches([], schema)).schema
    frame: pl.LazyFrame = register_io_source(source, schema=whole, is_pure=True)
    return frame


def translated(expression: "pl.Expr", fields: Sequence[DataField]) -> Predicate | None:
    """Return a predicate that is implied by the expression; None if nothing can be translated."""
    polars = load_extra("polars", needed_by="to_polars")
    try:
        return _ExpressionTranslator(fields).predicate(json.loads(expression.meta.serialize(format="json")))
    except (polars.exceptions.PolarsError, ValueError, TypeError):
        # Some expressions can't be written as JSON, such as a literal NaN.
        return None


class _ExpressionTranslator:
    """Translates Polars' JSON into predicates; unknown nodes become None, which excludes no rows."""

    def __init__(self, fields: Sequence[DataField]) -> None:
        self._fields = {f.name: f for f in fields}

    def predicate(self, node: Any) -> Predicate | None:
        """Return the predicate of a boolean node."""
        match node:
            case {"BinaryExpr": {"left": left, "op": "And" | "LogicalAnd", "right": right}}:
                parts = [p for p in (self.predicate(left), self.predicate(right)) if p is not None]
                return and_(*parts) if parts else None
            case {"BinaryExpr": {"left": left, "op": "Or" | "LogicalOr", "right": right}}:
                either, other = self.predicate(left), self.predicate(right)
                return None if either is None or other is None else or_(either, other)
            case {"BinaryExpr": {"left": {"Column": str(name)}, "op": str(op), "right": value}} if op in _OPS:
                return self._comparison(name, _OPS[op], value)
            case {"BinaryExpr": {"left": value, "op": str(op), "right": {"Column": str(name)}}} if op in _OPS:
                return self._comparison(name, _MIRRORED.get(_OPS[op], _OPS[op]), value)
            case {"Function": {"input": [{"Column": str(name)}, *rest], "function": function}}:
                return self._function(name, function, rest)
            case _:
                return None

    def _function(self, name: str, function: Any, rest: Sequence[Any]) -> Predicate | None:
        match function:
            case {"Boolean": "IsNull"}:
                return self._bound(IsNull(name))
            case {"Boolean": "IsNotNull"}:
                return self._bound(IsNotNull(name))
            case {"Boolean": {"IsIn": {"nulls_equal": False}}}:
                values = self._literal(rest[0])
                field = self._fields.get(name)
                if field is None:
                    return None
                if isinstance(values, list) and all(v is not None and _is_alike(v, field) for v in values):
                    return self._bound(In(name, tuple(values)))
                return None
            case {"Boolean": {"IsBetween": {"closed": str(closed)}}}:
                ops = {"Both": (Op.GE, Op.LE), "Left": (Op.GE, Op.LT), "Right": (Op.GT, Op.LE), "None": (Op.GT, Op.LT)}
                low, high = (self._comparison(name, op, v) for op, v in zip(ops[closed], rest, strict=True))
                parts = [p for p in (low, high) if p is not None]
                return and_(*parts) if parts else None
            case {"StringExpr": "StartsWith"}:
                prefix = self._literal(rest[0])
                return self._bound(StartsWith(name, prefix)) if isinstance(prefix, str) else None
            case _:
                return None

    def _comparison(self, name: str, op: Op, node: Any) -> Predicate | None:
        field = self._fields.get(name)
        value = self._literal(node)
        if field is None or value is None or not _is_alike(value, field):
            return None
        return self._bound(Comparison(op, name, value))

    def _bound(self, predicate: Predicate) -> Predicate | None:
        try:
            return bind(predicate, list(self._fields.values()))
        except FilterError:
            # Polars compares it by its own rules.
            return None

    def _literal(self, node: Any) -> Any:
        """Return the value of a literal; None for other nodes."""
        if not isinstance(node, Mapping) or set(node) != {"Literal"}:
            return None
        polars = load_extra("polars", needed_by="to_polars")
        expression = polars.Expr.deserialize(io.StringIO(json.dumps(node)), format="json")
        series = polars.select(expression).to_series()
        if "time_unit='ms'" in str(series.dtype):
            # Polars truncates the values of the column to milliseconds.
            return None
        value = series[0]
        return value.to_list() if isinstance(value, polars.Series) else value


def _is_alike(value: object, field: DataField) -> bool:
    """Return whether the literal is a value of the column's type, which neither side casts."""
    if not isinstance(field.type, AtomicType) or type(value) not in _LITERALS.get(field.type.root, ()):
        return False
    if field.type.root is TypeRoot.TIMESTAMP and unit_of(field.type) == "ns":
        # Polars compares in the microseconds of the literal.
        return False
    try:
        return locate(value, field).exact
    except FilterError:
        return False
