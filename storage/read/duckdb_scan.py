"""Rows in the form of an Arrow dataset for DuckDB, which reads only the columns and rows that a query needs.

DuckDB relies on its filter being applied, so Arrow's own scanner applies it to the rows that are read. The filter is
also parsed from its text to skip files; the result is used only if it gives an expression equal to the filter.
"""

import json
import operator
import re
from collections.abc import Callable, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from interbed.storage.base.arrow_values import array_of, scalar_of
from interbed.storage.base.errors import FilterError, NotSupportedError
from interbed.storage.base.predicate.expr import Comparison, In, IsNotNull, IsNull, Op, Predicate, and_, bind, or_
from interbed.storage.base.row.python_values import python_value
from interbed.storage.base.types.data_type import DataField

Narrowed = Callable[[Sequence[str] | None, Predicate | None, int | None], pa.RecordBatchReader]

_OPS: dict[str, tuple[Op, Callable[[Any, Any], Any]]] = {
    "==": (Op.EQ, operator.eq),
    "!=": (Op.NE, operator.ne),
    "<": (Op.LT, operator.lt),
    "<=": (Op.LE, operator.le),
    ">": (Op.GT, operator.gt),
    ">=": (Op.GE, operator.ge),
}
_NAME = r"[^\s()\",]+"
_COMPARED = re.compile(rf"\((?P<name>{_NAME}) (?P<op>==|!=|<=|>=|<|>) (?P<value>\"(?:[^\"\\]|\\.)*\"|[^()\"]+)\)")
_NULL = re.compile(rf"is_null\((?P<name>{_NAME}), {{nan_is_null=false}}\)")
_VALID = re.compile(rf"is_valid\((?P<name>{_NAME})\)")
_MEMBER = re.compile(
    rf"if_else\(is_valid\((?P<name>{_NAME})\), is_in\((?P=name), {{value_set=[\w\[\], ]+:\[(?P<values>.*?)\n\], "
    r"null_matching_behavior=MATCH}\), null\[bool\]\)",
    re.DOTALL,
)


class RowsDataset(ds.Dataset):
    """A dataset with a schema and scanners only, which is all that DuckDB needs."""

    def __init__(self, schema: pa.Schema, fields: Sequence[DataField], narrowed: Narrowed) -> None:
        # The native dataset is not initialized, so no method of the base class may be used.
        self._columns = schema
        self._fields = fields
        self._narrowed = narrowed

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the rows."""
        return self._columns

    def scanner(  # type: ignore[override] # The read-ahead of Arrow is not used.
        self,
        columns: Sequence[str] | None = None,
        filter: Any = None,  # noqa: A002 - Arrow's name
        **_: Any,
    ) -> ds.Scanner:
        """Return a scanner of the rows that match the filter, with these columns."""
        read = None if columns is None else list(columns)
        predicate = None
        if filter is not None:
            understood = predicate_of(filter, self._columns, self._fields)
            read = None if understood is None or read is None else list(dict.fromkeys([*read, *understood[1]]))
            predicate = None if understood is None else understood[0]
        reader = self._narrowed(read, predicate, None)
        return ds.Scanner.from_batches(reader, columns=None if columns is None else list(columns), filter=filter)

    def _refuse(self, *_: object, **__: object) -> Any:
        raise NotSupportedError("These rows are for DuckDB; use to_arrow or to_arrow_batch_reader for Arrow.")

    filter = get_fragments = replace_schema = join = join_asof = __reduce__ = _refuse

    @property
    def partition_expression(self) -> Any:
        """Raise NotSupportedError, as the methods above."""
        return self._refuse()


def predicate_of(
    expression: Any, schema: pa.Schema, fields: Sequence[DataField]
) -> tuple[Predicate | None, frozenset[str]] | None:
    """Return a predicate that is implied by the expression, and the columns of the expression.

    Return None if the expression can't be parsed. The predicate is None if the table compares by other rules.
    """
    reader = _ExpressionParser(str(expression), schema)
    try:
        predicate, rebuilt = reader.read()
    except (ValueError, ArithmeticError, KeyError, pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
        return None
    if reader.rest or not rebuilt.equals(expression):
        return None
    try:
        return bind(predicate, fields), reader.columns
    except FilterError:
        return None, reader.columns


class _ExpressionParser:
    """Parses the text of an expression from the left; raises ValueError and other errors for unknown parts."""

    def __init__(self, text: str, schema: pa.Schema) -> None:
        self.rest = text
        self.columns: frozenset[str] = frozenset()
        self._schema = schema

    def read(self) -> tuple[Predicate, Any]:
        """Return the next expression, as a predicate and rebuilt as an Arrow expression."""
        if (found := self._taken(_COMPARED)) is not None:
            op, compare = _OPS[found["op"]]
            value = self._value(found["name"], found["value"])
            return Comparison(op, found["name"], python_value(value)), compare(self._column(found["name"]), value)
        if (found := self._taken(_NULL)) is not None:
            return IsNull(found["name"]), self._column(found["name"]).is_null()
        if (found := self._taken(_VALID)) is not None:
            return IsNotNull(found["name"]), self._column(found["name"]).is_valid()
        if (found := self._taken(_MEMBER)) is not None:
            return self._member(found["name"], [part.strip() for part in found["values"].split(",\n")])
        self._skip("(")
        left, left_again = self.read()
        joint = " and " if self.rest.startswith(" and ") else " or "
        self._skip(joint)
        right, right_again = self.read()
        self._skip(")")
        if joint == " and ":
            return and_(left, right), left_again & right_again
        return or_(left, right), left_again | right_again

    def _member(self, name: str, texts: Sequence[str]) -> tuple[Predicate, Any]:
        values = [python_value(self._value(name, text)) for text in texts]
        column = self._column(name)
        member = column.isin(array_of(values, self._schema.field(name).type))
        return In(name, tuple(values)), pc.if_else(column.is_valid(), member, scalar_of(None, pa.bool_()))

    def _column(self, name: str) -> Any:
        self.columns |= {name}
        return pc.field(name)

    def _value(self, name: str, text: str) -> "pa.Scalar[Any]":
        kind = self._schema.field(name).type
        t = pa.types
        value: object
        if t.is_string(kind) or t.is_large_string(kind):
            value = json.loads(text)
        elif t.is_boolean(kind):
            value = {"true": True, "false": False}[text]
        elif t.is_integer(kind):
            value = int(text)
        elif t.is_floating(kind):
            value = float(text)
        elif t.is_decimal(kind):
            value = Decimal(text)
        elif t.is_date(kind):
            value = date.fromisoformat(text)
        elif t.is_timestamp(kind) and kind.tz is None:
            value = datetime.fromisoformat(text)
        else:
            raise ValueError(f"literals of {kind} are not read")
        scalar: pa.Scalar[Any] = scalar_of(value, kind)
        return scalar

    def _taken(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        found = pattern.match(self.rest)
        if found is not None:
            self.rest = self.rest[found.end() :]
        return found

    def _skip(self, text: str) -> None:
        if not self.rest.startswith(text):
            raise ValueError(f"expected {text!r}")
        self.rest = self.rest[len(text) :]
