"""Reference evaluation of predicates, row by row, in plain Python: True, False, or None for unknown."""

import operator
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from interbed.storage.base.predicate.expr import (
    AlwaysFalse,
    AlwaysTrue,
    And,
    Comparison,
    Contains,
    EndsWith,
    In,
    IsNotNull,
    IsNull,
    Like,
    Not,
    NotIn,
    Op,
    Or,
    Predicate,
    StartsWith,
    TextMatch,
    map_leaves,
)
from interbed.storage.base.predicate.operands import InnerReference
from interbed.storage.base.row.values import coerce
from interbed.storage.base.types.data_type import (
    MAX_LENGTH,
    STRINGS,
    AtomicType,
    DataField,
    DataType,
    MapType,
    RowType,
    TypeRoot,
)
from tests.storage.base.row.strategies import atomic_types, values_of

_OPERATORS = {
    Op.EQ: operator.eq,
    Op.NE: operator.ne,
    Op.LT: operator.lt,
    Op.LE: operator.le,
    Op.GT: operator.gt,
    Op.GE: operator.ge,
}


def truth(predicate: Predicate, row: Mapping[Any, Any]) -> bool | None:
    """Return the truth value of the predicate for the row, by SQL's three-valued logic."""
    match predicate:
        case AlwaysTrue():
            return True
        case AlwaysFalse():
            return False
        case And(children):
            found = [truth(c, row) for c in children]
            return False if False in found else None if None in found else True
        case Or(children):
            found = [truth(c, row) for c in children]
            return True if True in found else None if None in found else False
        case Not(child):
            inner = truth(child, row)
            return None if inner is None else not inner
        case IsNull(column):
            return row[column] is None
        case IsNotNull(column):
            return row[column] is not None
        case Comparison(op, column, value):
            return None if row[column] is None or value is None else _OPERATORS[op](_key(row[column]), _key(value))
        case In(column, values):
            return _member(row[column], values)
        case NotIn(column, values):
            inner = _member(row[column], values)
            return None if inner is None else not inner
        case TextMatch(column, pattern):
            return None if row[column] is None else _text(predicate, row[column], pattern)
    raise AssertionError(predicate)


def _key(value: Any) -> Any:
    # Python orders texts by code points, which is the order of their UTF-8 bytes. NaN is the greatest float.
    return (value != value, value if value == value else 0.0) if isinstance(value, float) else value


def _member(value: Any, values: tuple[Any, ...]) -> bool | None:
    if value is None:
        return None
    if any(v is not None and _key(v) == _key(value) for v in values):
        return True
    return None if None in values else False


def _text(predicate: TextMatch, value: str, pattern: str) -> bool:
    if isinstance(predicate, StartsWith):
        return value.startswith(pattern)
    if isinstance(predicate, EndsWith):
        return value.endswith(pattern)
    if isinstance(predicate, Contains):
        return pattern in value
    expression = "".join(
        {"%": ".*", "_": "."}.get(part, re.escape(part[-1])) for part in re.findall(r"\\.|[^\\]", pattern, re.DOTALL)
    )
    return re.fullmatch(expression, value, re.DOTALL) is not None


def columns() -> st.SearchStrategy[list[DataField]]:
    """One to three columns of any atomic types, named a, b, c."""
    return st.lists(atomic_types(), min_size=1, max_size=3).map(
        lambda types: [DataField(id=i, name="abc"[i], type=t) for i, t in enumerate(types)]
    )


def small_values(data_type: AtomicType) -> st.SearchStrategy[Any]:
    """Values of a type, drawn from so few that equal ones are frequent."""
    if data_type.root in STRINGS:
        return st.text("aß\n%_\\😀", max_size=3)
    # As rows have them: nanoseconds since the epoch are FarTimestamps.
    return values_of(data_type).map(lambda value: coerce(value, data_type))


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[DataField], list[dict[str, Any]], Predicate]:
    """Columns, rows and a predicate whose literals often occur in the rows."""
    fields = draw(columns())
    pools = {f.name: draw(st.lists(small_values(_atomic(f)), min_size=1, max_size=4)) for f in fields}
    row = st.fixed_dictionaries({n: st.none() | st.sampled_from(pool) for n, pool in pools.items()})
    rows = draw(st.lists(row, max_size=8))
    leaf = st.one_of(*(leaves(f, pools[f.name]) for f in fields), st.just(AlwaysTrue()), st.just(AlwaysFalse()))
    predicate = draw(
        st.recursive(
            leaf,
            lambda inner: st.one_of(
                st.lists(inner, max_size=3).map(lambda c: And(tuple(c))),
                st.lists(inner, max_size=3).map(lambda c: Or(tuple(c))),
                inner.map(Not),
            ),
            max_leaves=6,
        )
    )
    return fields, rows, predicate


def leaves(field: DataField, pool: list[Any]) -> st.SearchStrategy[Predicate]:
    """Predicates over one column."""
    value = st.sampled_from(pool) | small_values(_atomic(field))
    many = st.lists(st.none() | value, max_size=3).map(tuple)
    name = st.just(field.name)
    choices: list[st.SearchStrategy[Predicate]] = [
        st.builds(Comparison, st.sampled_from(Op), name, value),
        st.builds(Comparison, st.sampled_from(Op), name, st.none()),
        st.builds(In, name, many),
        st.builds(NotIn, name, many),
        st.builds(IsNull, name),
        st.builds(IsNotNull, name),
    ]
    if _atomic(field).root in STRINGS:
        text = st.text("aß\n%_😀", max_size=3)
        choices += [st.builds(kind, name, text) for kind in (StartsWith, EndsWith, Contains)]
        pattern = st.lists(st.sampled_from(["a", "ß", "%", "_", "\\%", "\\_", "\\\\", "\n", "😀"]), max_size=4)
        choices.append(st.builds(Like, name, pattern.map("".join)))
    return st.one_of(*choices)


def _atomic(field: DataField) -> AtomicType:
    assert isinstance(field.type, AtomicType)
    return field.type


@st.composite
def nested_tables(draw: st.DrawFn) -> tuple[list[DataField], list[dict[str, Any]], Predicate, list[bool | None]]:
    """Tables whose values are nested in ROWs and MAPs, with a predicate and its truth value for each row."""
    fields, rows, predicate = draw(tables())
    said = [truth(predicate, row) for row in rows]
    references: dict[str, InnerReference] = {}
    nested: list[DataField] = []
    changed: list[dict[str, Any]] = [{} for _ in rows]
    for field in fields:
        steps = draw(st.lists(st.sampled_from(["f", "k"]), min_size=1, max_size=3))
        references[field.name] = InnerReference(field.name, tuple(steps))
        values = [row[field.name] for row in rows]
        others = st.sampled_from(values) if values else st.none()
        data_type: DataType = field.type
        for step in reversed(steps):
            data_type, values = _wrapped(draw, step, data_type, values, others)
            others = st.none()
        nested.append(DataField(field.id, field.name, data_type))
        for row, value in zip(changed, values, strict=True):
            row[field.name] = value
    inside = map_leaves(predicate, lambda leaf: replace(leaf, column=references[str(leaf.column)]))
    return nested, changed, inside, said


def _wrapped(
    draw: st.DrawFn, step: str, data_type: DataType, values: list[Any], others: st.SearchStrategy[Any]
) -> tuple[DataType, list[Any]]:
    """The values nested in ROWs (in the field `f`) or in MAPs."""
    gone = [value is None and draw(st.booleans()) for value in values]
    if step == "f":
        row = RowType((DataField(7, "e", data_type), DataField(8, "f", data_type)))
        return row, [None if g else {"e": draw(others), "f": v} for v, g in zip(values, gone, strict=True)]
    entries = st.dictionaries(st.sampled_from("jl"), others).map(lambda found: list(found.items()))
    absent = st.none() | entries
    some = MapType(AtomicType(TypeRoot.VARCHAR, nullable=False, length=MAX_LENGTH), data_type)
    return some, [
        draw(absent) if g else sorted([*draw(entries), ("k", v)], key=lambda entry: entry[0])
        for v, g in zip(values, gone, strict=True)
    ]
