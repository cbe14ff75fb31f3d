"""Conditions as HiveServer2 4.0.1 sends them are decoded; any other bytes are decoded to no filter."""

import random

import pytest

from interbed.catalog.server.service.errors import BadFilterError
from interbed.catalog.server.service.filters.expression import (
    filter_of_expression,
    parse_expression,
    parse_filter,
    required_filter,
)
from interbed.catalog.server.service.model import MetastoreColumn

_PLAN = b"\x01\x00org.apache.hadoop.hive.ql.plan.ExprNodeGenericFuncDes\xe3\x01\x01\x01java.util.ArrayLis\xf4\x01"
_COLUMN = b"\x01\x02org.apache.hadoop.hive.ql.plan.ExprNodeColumnDes\xe3\x01"
_TYPE = b"\x01\x03org.apache.hadoop.hive.serde2.typeinfo.PrimitiveTypeInf\xef\x01\x01"
_CONSTANT = b"\x01\x04org.apache.hadoop.hive.ql.plan.ExprNodeConstantDes\xe3\x01\x01\x03"
_UDF = b"org.apache.hadoop.hive.ql.udf.generic."
_BOOLEAN = b"org.apache.hadoop.io.BooleanWritabl\xe5\x01\x00"

EQUAL = (
    b"\x03" + _COLUMN + b"\x01d\xf4\x01\x00\x01default.\xef" + _TYPE + b"strin\xe7" + _CONSTANT + b"\x07\x03\x01\x82x"
    b"\x01\x05" + _UDF + b"GenericUDFOPEqua\xec\x01\x00\x00\x01\x82=\x01EQUA\xcc\x01\x06" + _BOOLEAN
)
LESS_SHORT = (
    b"\x03" + _COLUMN + b"\x01\x82s\x01\x00\x01default.\xef" + _TYPE + b"smallin\xf4" + _CONSTANT + b"\x07\x08\xd4\xfe"
    b"\x01\x05" + _UDF + b"GenericUDFOPLessTha\xee\x01\x00\x00\x01\x82<\x01LESS THA\xce\x01\x06" + _BOOLEAN
)
JAPANESE = EQUAL.replace(b"\x01\x82x", b"\x01\x84" + "日本é".encode(), 1)
LATER_DAY_OR_BETWEEN = (
    b"\x83\x01\x00\x00\x01\x01\x01\x01\x03" + _COLUMN + b"\x01\x82d\x01\x00\x01default.\xef" + _TYPE + b"dat\xe5"
    + _CONSTANT + b"\t\x01\x05org.apache.hadoop.hive.common.type.Dat\xe5\x01\x01\xe8\x0f\x01\x02\x01\x06" + _UDF
    + b"GenericUDFOPGreaterTha\xee\x01\x00\x00\x01\x82>\x01GREATER THA\xce\x01\x07" + _BOOLEAN
    + b"\x00\x01\x03\x01\x01boolea\xee\x01\x01\x01\x01\x05\x01\x04\x01\x01\x03\x12\x05\x00\x01\x02\x01\x01\x82h\x01\x00"
    b"\x08\x01\x03\x01\x01in\xf4\x01\x04\x01\x01\x03\x19\x02\x02\x01\x04\x01\x01\x03\x19\x02\x06\x01\x08" + _UDF
    + b"GenericUDFBetwee\xee\x01\x00\x01\t" + _UDF + b"GenericUDFOPEqualOrGreaterTha\xee\x01\x00\x00\x01>\xbd"
    b"\x01EQUAL OR GREATER THA\xce\x01\x07\x01\x00\x01\n" + _UDF
    + b"GenericUDFOPEqualOrLessTha\xee\x01\x00\x00\x01<\xbd\x01EQUAL OR LESS THA\xce\x01\x07\x01\x00\x01\x07\x01\x00"
    b"\x00\x01\x03\x12\x01\x0b" + _UDF + b"GenericUDFOPO\xf2\x01\x01\x07\x01\x00\x00\x01\x03\x12"
)  # fmt: skip
SIMPLE_END = b"\x00\x01\x03\x01\x01boolea\xee"

CONDITIONS = {
    _PLAN + EQUAL + SIMPLE_END: '`dt` = "x"',
    _PLAN + LESS_SHORT + SIMPLE_END: "`s` < -300",
    _PLAN + JAPANESE + SIMPLE_END: '`dt` = "日本é"',
    _PLAN + LATER_DAY_OR_BETWEEN: '((`d` > date "2024-01-02") or (`h` between 1 and 3))',
}
KEYS = (
    MetastoreColumn(name="dt", type="string"),
    MetastoreColumn(name="h", type="int"),
    MetastoreColumn(name="d", type="date"),
    MetastoreColumn(name="s", type="smallint"),
)


@pytest.mark.parametrize("expression", CONDITIONS, ids=CONDITIONS.values())
def test_a_condition_becomes_a_filter(expression: bytes) -> None:
    assert filter_of_expression(expression) == CONDITIONS[expression]
    assert parse_expression(expression, KEYS) == parse_filter(CONDITIONS[expression], KEYS)
    assert required_filter(expression, KEYS) == parse_filter(CONDITIONS[expression], KEYS)


@pytest.mark.parametrize("expression", CONDITIONS, ids=CONDITIONS.values())
def test_a_truncated_or_extended_condition_gives_no_filter(expression: bytes) -> None:
    for length in range(len(expression)):
        assert filter_of_expression(expression[:length]) is None
    assert filter_of_expression(expression + b"\x00") is None


@pytest.mark.parametrize("expression", CONDITIONS, ids=CONDITIONS.values())
def test_changed_bytes_never_raise(expression: bytes) -> None:
    source = random.Random(11)
    for _ in range(2000):
        changed = bytearray(expression)
        for _ in range(source.randrange(1, 4)):
            changed[source.randrange(len(changed))] = source.randrange(256)
        found = filter_of_expression(bytes(changed))
        assert found is None or isinstance(found, str)


def test_unknown_functions_and_keys_give_no_filter() -> None:
    expression = _PLAN + EQUAL + SIMPLE_END
    other = expression.replace(b"GenericUDFOPEqua\xec", b"GenericUDFOPEqualN\xd3")
    assert filter_of_expression(other) is None
    # A column that is no partition key, and a node that is no column.
    assert parse_expression(expression.replace(b"\x01d\xf4", b"\x01n\xef"), KEYS) is None
    assert filter_of_expression(expression.replace(b"\x01d\xf4\x01\x00", b"\x01d\xf4\x00\x00")) is None
    with pytest.raises(BadFilterError, match="nothing was dropped"):
        required_filter(other, KEYS)


@pytest.mark.parametrize("value", [b"\x82\\", b"\x84\"a'", b'\x82"', b"\x82'"])
def test_texts_with_quotes_and_backslashes_are_kept_or_give_no_filter(value: bytes) -> None:
    text = value[1:].decode()
    found = filter_of_expression(_PLAN + EQUAL.replace(b"\x01\x82x", b"\x01" + value, 1) + SIMPLE_END)
    quotes = [quote for quote in "\"'" if quote not in text]
    assert found == (None if text.endswith("\\") or not quotes else f"`dt` = {quotes[0]}{text}{quotes[0]}")


def test_very_deep_nesting_gives_no_filter() -> None:
    assert filter_of_expression(_PLAN + b"\x82\x01\x00\x00\x01\x01\x01\x01" * 100_000) is None
