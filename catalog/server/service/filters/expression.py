"""The filter language of partitions, `dt = "2024-01-01" and (n > 3 or (n) in (1, 2))`, and expressions that contain it.

Keys are compared with literals (or literals with keys); operators are =, !=, <>, <, <=, >, >=, LIKE, BETWEEN, IN (of
several keys, too: `(struct(a, b)) in (const struct(1, "x"))`) and their negations, joined by AND, OR, NOT and
parentheses. Literals are numbers, quoted text, and dates and timestamps, bare, quoted, or after DATE or TIMESTAMP. In
text a backslash is an ordinary character, except before the quote that encloses the text; clients do not escape. LIKE
knows `%`, `_` and, as older clients write it, `.*`; a backslash escapes `%` and `_`. An empty filter selects all.

The result is a tree of tree.py; the grammar is in grammar.py.

Some calls give an expression in bytes. MSCK sends a filter as UTF-8 text, in which values are escaped as in partitions'
names. Hive's own queries send their expression as Kryo writes it: `filter_of_expression` reads the simple ones of Hive
4. All other expressions are unknown, and so is their result.

Hive sends a condition on partitions as the object tree of its compiler. Of that tree the reader takes comparisons of a
key with a constant, IN, BETWEEN, AND, OR and NOT, the usual conditions on partitions. Any other object (functions,
casts, other versions of Hive) makes the whole condition unreadable.

Kryo's format, found by looking at what Hive 4.0.1 sends:

- A class is a varint: 0 none, 1 a class by name (then a varint that numbers the names, and the name where the number
  is new), n + 2 the registered class n (int 0, String 1, boolean 3, byte 4, short 6, long 7).
- An object is a varint: 0 null, 1 a new one (its fields follow), n + 2 the nth object that was met. Numbers and
  booleans come without it.
- The fields of an object come without names, in the order of their names. Where a field's class is not final, the
  class of its value comes before it.
- A text of ASCII ends with the character whose high bit is set. Any other has its length + 1 and a flag in front.
- A list has its length + 1 and a flag: whether all elements are of one class, which then follows once, with another
  flag for nulls among them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date

from interbed.catalog.server.service.errors import BadFilterError
from interbed.catalog.server.service.filters.tree import EVERYTHING, PartitionFilter, comparisons_in, patterns_in
from interbed.catalog.server.service.model import MetastoreColumn

_PLAN = "org.apache.hadoop.hive.ql.plan."
_UDF = "org.apache.hadoop.hive.ql.udf.generic."

_INT, _STRING, _BOOLEAN, _BYTE, _SHORT, _LONG = 0, 1, 3, 4, 6, 7
_FIRST_REGISTERED = 2
_NESTING_MAX = 200

_COMPARISONS = {
    "GenericUDFOPEqual": "=",
    "GenericUDFOPNotEqual": "!=",
    "GenericUDFOPLessThan": "<",
    "GenericUDFOPGreaterThan": ">",
    "GenericUDFOPEqualOrLessThan": "<=",
    "GenericUDFOPEqualOrGreaterThan": ">=",
}
_JUNCTIONS = {"GenericUDFOPAnd": " and ", "GenericUDFOPOr": " or "}


class _UnknownError(Exception):
    """An object that this module does not read."""


@dataclass(frozen=True, slots=True)
class _Key:
    name: str


@dataclass(frozen=True, slots=True)
class _Condition:
    text: str


_Value = str | int | bool | date | None | list["_Value"] | _Key | _Condition
"""The meaning of an object of the tree: a constant, a list of operands, a key, a condition."""


def filter_of_expression(expression: bytes) -> str | None:
    """Return the filter that is equivalent to Hive's serialized condition; None if the bytes cannot be read."""
    try:
        reader = _Reader(expression)
        condition = reader.classed()
        if isinstance(condition, _Condition) and reader.ended:
            return condition.text
    except (_UnknownError, IndexError, ValueError, RecursionError):
        # Bytes of another origin fail in arbitrary ways.
        pass
    return None


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._place = 0
        self._depth = 0
        self._names: list[str] = []
        self._objects: list[_Value] = []

    @property
    def ended(self) -> bool:
        return self._place == len(self._data)

    def classed(self) -> _Value:
        """Read a class and an object of it."""
        kind = self._class()
        return None if kind is None else self._object(kind)

    def _byte(self) -> int:
        value = self._data[self._place]
        self._place += 1
        return value

    def _varint(self) -> int:
        value = shift = 0
        while True:
            part = self._byte()
            value |= (part & 0x7F) << shift
            if not part & 0x80:
                return value
            shift += 7
            if shift > 63:
                raise _UnknownError

    def _flagged_varint(self) -> tuple[bool, int]:
        first = self._byte()
        value = first & 0x3F
        if first & 0x40:
            value |= self._varint() << 6
        return bool(first & 0x80), value

    def _boolean(self) -> bool:
        value = self._byte()
        if value > 1:
            raise _UnknownError
        return value == 1

    def _class(self) -> int | str | None:
        """Read a registered class's number, or a class's name."""
        number = self._varint()
        if number == 0:
            return None
        if number >= _FIRST_REGISTERED:
            return number - _FIRST_REGISTERED
        position = self._varint()
        if position == len(self._names):
            name = self._text()
            self._names.append(name or "")
        return self._names[position]

    def _object(self, kind: int | str) -> _Value:
        if kind in (_INT, _LONG):
            number = self._varint()
            return (number >> 1) ^ -(number & 1)
        if kind == _BOOLEAN:
            return self._boolean()
        if kind == _BYTE:
            return int.from_bytes(bytes([self._byte()]), signed=True)
        if kind == _SHORT:
            return int.from_bytes(bytes([self._byte(), self._byte()]), "little", signed=True)
        reference = self._varint()
        if reference == 0:
            return None
        if reference > 1:
            return self._objects[reference - 2]
        self._depth += 1
        if self._depth > _NESTING_MAX:
            raise _UnknownError
        place = len(self._objects)
        self._objects.append(None)
        value = self._fields(kind)
        self._objects[place] = value
        self._depth -= 1
        return value

    def _fields(self, kind: int | str) -> _Value:
        if kind == _STRING:
            return self._text()
        read = _READERS.get(str(kind))
        if read is None:
            raise _UnknownError
        return read(self)

    def _text(self) -> str | None:
        first = self._data[self._place]
        if not first & 0x80:
            start = self._place
            while not self._byte() & 0x80:
                pass
            return (self._data[start : self._place - 1] + bytes([self._data[self._place - 1] & 0x7F])).decode("ascii")
        _, length = self._flagged_varint()
        if length == 0:
            return None
        if length > len(self._data):
            raise _UnknownError
        return b"".join(self._character() for _ in range(length - 1)).decode("utf-16-be")

    def _character(self) -> bytes:
        """Read one UTF-16 unit, of one to three bytes."""
        first = self._byte()
        if first < 0x80:
            unit = first
        elif first >> 5 == 0b110:
            unit = (first & 0x1F) << 6 | self._byte() & 0x3F
        else:
            unit = (first & 0x0F) << 12 | (self._byte() & 0x3F) << 6 | self._byte() & 0x3F
        return unit.to_bytes(2)

    def string(self) -> str | None:
        """Read a field of type String."""
        value = self._object(_STRING)
        if value is not None and not isinstance(value, str):
            raise _UnknownError
        return value

    def list(self) -> list[_Value]:
        same, length = self._flagged_varint()
        if length == 0 or length > len(self._data):
            raise _UnknownError
        if not same:
            return [self.classed() for _ in range(length - 1)]
        kind = self._class()
        if kind is None or self._boolean():
            raise _UnknownError
        return [self._object(kind) for _ in range(length - 1)]

    def type(self) -> str | None:
        """Read the fields of a PrimitiveTypeInfo and return its name."""
        return self.string()

    def sized_type(self) -> str | None:
        """Read the fields of a VarcharTypeInfo."""
        self._varint()
        return self.string()

    def day(self) -> date:
        """Read the fields of Hive's Date: a LocalDate."""
        if self._varint() != 1:
            raise _UnknownError
        self._objects.append(None)
        return date(self._varint(), self._byte(), self._byte())

    def nothing(self) -> None:
        """Read the fields of a BooleanWritable."""
        self._boolean()

    def key(self) -> _Key:
        """Read the fields of an ExprNodeColumnDesc."""
        name = self.string()
        partition_key, _skewed = self._boolean(), self._boolean()
        _alias = self.string()
        self.classed()
        if not name or not partition_key:
            raise _UnknownError
        return _Key(name)

    def constant(self) -> _Value:
        """Read the fields of an ExprNodeConstantDesc."""
        self.classed()
        return self.classed()

    def condition(self) -> _Condition:
        """Read the fields of an ExprNodeGenericFuncDesc."""
        operands = self.classed()
        function = self.classed()
        _sorted = self._boolean()
        self.classed()
        if not isinstance(operands, list) or not isinstance(function, str):
            raise _UnknownError
        return _Condition(_condition_text(function, operands))

    def comparison(self, name: str) -> str:
        """Read the fields of a GenericUDFBaseCompare; neither inspector nor kind of comparison is set
        before it runs.
        """
        if self._varint() or self._varint():
            raise _UnknownError
        self.string()
        self.string()
        self.classed()
        return name

    def logical(self, name: str) -> str:
        """Read the fields of AND, OR, NOT: a result."""
        self.classed()
        return name

    def membership(self) -> str:
        """Read the fields of a GenericUDFIn."""
        self.classed()
        self._boolean()
        return "GenericUDFIn"

    def between(self) -> str:
        """Read the fields of a GenericUDFBetween: no inspectors, two comparisons, a result."""
        if self._varint():
            raise _UnknownError
        for _ in range(3):
            self.classed()
        return "GenericUDFBetween"


def _comparison_reader(name: str) -> Callable[[_Reader], _Value]:
    return lambda reader: reader.comparison(name)


def _logical_reader(name: str) -> Callable[[_Reader], _Value]:
    return lambda reader: reader.logical(name)


_READERS: dict[str, Callable[[_Reader], _Value]] = {
    "java.util.ArrayList": _Reader.list,
    f"{_PLAN}ExprNodeGenericFuncDesc": _Reader.condition,
    f"{_PLAN}ExprNodeColumnDesc": _Reader.key,
    f"{_PLAN}ExprNodeConstantDesc": _Reader.constant,
    "org.apache.hadoop.hive.serde2.typeinfo.PrimitiveTypeInfo": _Reader.type,
    "org.apache.hadoop.hive.serde2.typeinfo.VarcharTypeInfo": _Reader.sized_type,
    "org.apache.hadoop.hive.common.type.HiveVarchar": _Reader.string,
    "org.apache.hadoop.hive.common.type.Date": _Reader.day,
    "org.apache.hadoop.io.BooleanWritable": _Reader.nothing,
    f"{_UDF}GenericUDFIn": _Reader.membership,
    f"{_UDF}GenericUDFBetween": _Reader.between,
    **{f"{_UDF}{name}": _comparison_reader(name) for name in _COMPARISONS},
    **{f"{_UDF}{name}": _logical_reader(name) for name in (*_JUNCTIONS, "GenericUDFOPNot")},
}


def _condition_text(function: str, operands: list[_Value]) -> str:
    match function, operands:
        case name, [left, right] if name in _COMPARISONS and isinstance(left, _Key) != isinstance(right, _Key):
            return f"{_operand_text(left)} {_COMPARISONS[name]} {_operand_text(right)}"
        case name, [_, _, *_] if name in _JUNCTIONS:
            return "(" + _JUNCTIONS[name].join(_part_text(operand) for operand in operands) + ")"
        case "GenericUDFOPNot", [operand]:
            return f"not {_part_text(operand)}"
        case "GenericUDFIn", [_Key() as key, *values] if values:
            return f"{_operand_text(key)} in ({', '.join(_literal_text(value) for value in values)})"
        case "GenericUDFBetween", [bool(negated), _Key() as key, low, high]:
            word = "not between" if negated else "between"
            return f"{_operand_text(key)} {word} {_literal_text(low)} and {_literal_text(high)}"
        case _:
            raise _UnknownError


def _part_text(operand: _Value) -> str:
    if not isinstance(operand, _Condition):
        raise _UnknownError
    return f"({operand.text})"


def _operand_text(operand: _Value) -> str:
    if isinstance(operand, _Key):
        if "`" in operand.name:
            raise _UnknownError
        return f"`{operand.name}`"
    return _literal_text(operand)


def _literal_text(value: _Value) -> str:
    match value:
        case bool():
            raise _UnknownError
        case int():
            return str(value)
        case date():
            return f'date "{value.isoformat()}"'
        case str() if not value.endswith("\\"):
            # The language has no way to write both quotes in one text.
            for quote in ('"', "'"):
                if quote not in value:
                    return f"{quote}{value}{quote}"
    raise _UnknownError


FILTER_CHARACTERS_MAX = 200_000
"""Longer filters are refused, since a million characters take up to 8 s to parse; Spark's lists of a thousand values
stay far below.
"""

COMPARISONS_MAX = 5_000
"""Comparisons in a filter. Those of one key with many values, by IN or by `or` or by `<>` and `and`, are one."""

PATTERNS_MAX = 100
"""LIKEs in a filter: no index supports them, so that each is tried on each partition."""

OPAQUE = (
    "The partitions are given by a serialized Java expression that only Hive can read: nothing was dropped. Name the "
    "partitions instead (drop_partition, or drop_partitions_req with names), or send the expression as the text of a "
    "filter, as Hive's MsckPartitionExpressionProxy reads it."
)


def parse_filter(
    text: str | None, keys: Sequence[MetastoreColumn], *, escaped_literals: bool = False
) -> PartitionFilter:
    """Parse a filter into its tree. In its texts characters may be escaped as in partitions' names. BadFilterError if
    it does not parse, names a column that is no key, or compares incompatible values.
    """
    if text is None or not text.strip():
        return EVERYTHING
    if len(text) > FILTER_CHARACTERS_MAX:
        raise BadFilterError(f"Error parsing partition filter; it has more than {FILTER_CHARACTERS_MAX} characters")
    if "\0" in text:
        raise BadFilterError("Error parsing partition filter; it has a NUL character, which no partition's value has")
    # Imported here, because a server starts without the parser.
    from interbed.catalog.server.service.filters.grammar import parse

    tree = parse(text, keys, escaped_literals=escaped_literals)
    try:
        comparisons, patterns = comparisons_in(tree), patterns_in(tree)
    except RecursionError as error:
        raise BadFilterError("Error parsing partition filter; it is nested too deeply") from error
    if comparisons > COMPARISONS_MAX:
        raise BadFilterError(f"Error parsing partition filter; it has more than {COMPARISONS_MAX} comparisons")
    if patterns > PATTERNS_MAX:
        raise BadFilterError(f"Error parsing partition filter; it has {patterns} LIKEs: {PATTERNS_MAX} are allowed")
    return tree


def parse_expression(expression: bytes | None, keys: Sequence[MetastoreColumn]) -> PartitionFilter | None:
    """Return the filter of an expression; None if it is neither text nor a readable condition of Hive 4."""
    try:
        condition = filter_of_expression(expression or b"")
        if condition is not None:
            return parse_filter(condition, keys)
        text = (expression or b"").decode()
        readable = text.strip() and all(char.isprintable() or char.isspace() for char in text)
        return parse_filter(text, keys, escaped_literals=True) if readable else None
    except (UnicodeDecodeError, BadFilterError):
        return None


def required_filter(expression: bytes | None, keys: Sequence[MetastoreColumn]) -> PartitionFilter:
    """Return the filter of an expression that selects what is dropped. BadFilterError if it cannot be read."""
    where = parse_expression(expression, keys)
    if where is None:
        raise BadFilterError(OPAQUE)
    return where
