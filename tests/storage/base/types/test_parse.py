"""Data types given as text, as Arrow types, or as DataType objects."""

import pyarrow as pa
import pytest

from interbed.storage.base.errors import InvalidInputError, NotSupportedError, SchemaMismatchError
from interbed.storage.base.types.arrow import data_type
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

INT = AtomicType(TypeRoot.INT)
STRING = AtomicType(TypeRoot.VARCHAR, length=MAX_LENGTH)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("BIGINT", AtomicType(TypeRoot.BIGINT)),
        ("bigint not null", AtomicType(TypeRoot.BIGINT, nullable=False)),
        ("DECIMAL(10, 2)", AtomicType(TypeRoot.DECIMAL, precision=10, scale=2)),
        ("timestamp(3) with local time zone", AtomicType(TypeRoot.TIMESTAMP_LTZ, precision=3)),
        ("ARRAY<INT NOT NULL>", ArrayType(INT.with_nullable(False))),
        ("array<array<int>> not null", ArrayType(ArrayType(INT), nullable=False)),
        ("MULTISET<STRING>", MultisetType(STRING)),
        ("MAP<STRING, DECIMAL(4, 1)>", MapType(STRING, AtomicType(TypeRoot.DECIMAL, precision=4, scale=1))),
        (
            "ROW<a INT NOT NULL, `b, c` MAP<INT, STRING>>",
            RowType(
                (
                    DataField(id=0, name="a", type=INT.with_nullable(False)),
                    DataField(id=1, name="b, c", type=MapType(INT, STRING)),
                )
            ),
        ),
        (pa.int32(), INT),
        (pa.list_(pa.string()), ArrayType(STRING)),
        (pa.timestamp("us"), AtomicType(TypeRoot.TIMESTAMP, precision=6)),
        (STRING, STRING),
    ],
)
def test_a_type_can_be_given_as_text_as_an_arrow_type_or_as_itself(
    given: DataType | pa.DataType | str, expected: DataType
) -> None:
    assert data_type(given) == expected


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ("BIG", InvalidInputError, "'BIG' is not a data type.*DECIMAL"),
        ("MAP<STRING>", InvalidInputError, "MAP takes two types"),
        ("ARRAY<INT, INT>", InvalidInputError, "ARRAY takes one type, not 2"),
        ("ARRAY<INT", InvalidInputError, "'ARRAY<INT'"),
        ("ROW<INT>", InvalidInputError, "`name TYPE`, not 'INT'"),
        ("ROW<a INT, b WORD>", InvalidInputError, "'WORD' is not known"),
        ("DECIMAL(99)", InvalidInputError, "precision from 1 to 38"),
        ("VARIANT", NotSupportedError, "VARIANT"),
        (7, InvalidInputError, "7 is not a data type"),
        (pa.null(), SchemaMismatchError, "null"),
    ],
)
def test_an_argument_that_is_no_type_is_refused_by_name(given: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        data_type(given)
