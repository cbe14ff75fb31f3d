"""Random types and values for tests of rows, predicates and manifests."""

from datetime import UTC
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from interbed.storage.base.row.values import to_float32
from interbed.storage.base.types.data_type import MAX_LENGTH, AtomicType, TypeRoot

PLAIN_ROOTS = (
    TypeRoot.BOOLEAN,
    TypeRoot.TINYINT,
    TypeRoot.SMALLINT,
    TypeRoot.INT,
    TypeRoot.BIGINT,
    TypeRoot.FLOAT,
    TypeRoot.DOUBLE,
    TypeRoot.DATE,
)


def atomic_types() -> st.SearchStrategy[AtomicType]:
    """Any atomic type. Lengths are the greatest, because values do not depend on them."""
    decimals = st.integers(1, 38).flatmap(
        lambda p: st.integers(0, p).map(lambda s: AtomicType(TypeRoot.DECIMAL, precision=p, scale=s))
    )
    lengths = st.sampled_from([TypeRoot.CHAR, TypeRoot.VARCHAR, TypeRoot.BINARY, TypeRoot.VARBINARY])
    times = st.sampled_from([TypeRoot.TIME, TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ])
    return st.one_of(
        st.sampled_from(PLAIN_ROOTS).map(AtomicType),
        decimals,
        lengths.map(lambda root: AtomicType(root, length=MAX_LENGTH)),
        st.builds(lambda root, precision: AtomicType(root, precision=precision), times, st.integers(0, 9)),
    )


def values_of(data_type: AtomicType) -> st.SearchStrategy[Any]:
    """Values of a type in the form that decode_row returns."""
    match data_type.root:
        case TypeRoot.BOOLEAN:
            return st.booleans()
        case TypeRoot.TINYINT:
            return st.integers(-(2**7), 2**7 - 1)
        case TypeRoot.SMALLINT:
            return st.integers(-(2**15), 2**15 - 1)
        case TypeRoot.INT:
            return st.integers(-(2**31), 2**31 - 1)
        case TypeRoot.BIGINT:
            return st.integers(-(2**63), 2**63 - 1)
        case TypeRoot.FLOAT:
            return st.floats(width=32).map(to_float32)
        case TypeRoot.DOUBLE:
            return st.floats()
        case TypeRoot.DECIMAL:
            scale, limit = data_type.scale or 0, 10 ** (data_type.precision or 0) - 1
            return st.integers(-limit, limit).map(lambda n: Decimal(f"{n}e-{scale}"))
        case TypeRoot.CHAR | TypeRoot.VARCHAR:
            return st.text(max_size=20)
        case TypeRoot.BINARY | TypeRoot.VARBINARY:
            return st.binary(max_size=20)
        case TypeRoot.DATE:
            return st.dates()
        case TypeRoot.TIME:
            return st.times().map(lambda t: t.replace(microsecond=t.microsecond // 1000 * 1000, fold=0))
        case _:
            return _timestamps(data_type)


def _timestamps(data_type: AtomicType) -> st.SearchStrategy[Any]:
    precision = data_type.precision or 0
    if precision > 6:
        return st.integers(-(2**63), 2**63 - 1)
    zone = UTC if data_type.root is TypeRoot.TIMESTAMP_LTZ else None
    step = 1000 if precision <= 3 else 1
    return st.datetimes().map(lambda t: t.replace(microsecond=t.microsecond // step * step, tzinfo=zone, fold=0))


@st.composite
def typed_rows(draw: st.DrawFn, max_columns: int = 5, max_rows: int = 12) -> tuple[list[AtomicType], list[list[Any]]]:
    """Some types and rows of values of these types, with nulls."""
    types = draw(st.lists(atomic_types(), min_size=1, max_size=max_columns))
    row = st.tuples(*(st.none() | values_of(t) for t in types)).map(list)
    return types, draw(st.lists(row, max_size=max_rows))
