"""Partition values in a round trip through Spark, also beyond Python's types."""

import json
import math
from datetime import UTC, date, datetime

import pytest

from interbed.spark_ext.values.predicates import agrees, spec_from_spark, values_to_spark
from interbed.storage.base.types.data_type import DataField, parse_atomic
from interbed.storage.base.types.far_times import FarDate, FarTimestamp

FAR = 253_402_300_800_000_000


@pytest.mark.parametrize(
    ("kind", "value", "sent"),
    [
        ("DATE", date(2024, 5, 6), 19_849),
        ("DATE", FarDate(2_147_483_647), 2_147_483_647),
        ("TIMESTAMP(6)", datetime(1970, 1, 1, 0, 0, 1), 1_000_000),
        ("TIMESTAMP(6)", FarTimestamp(FAR, "us"), FAR),
        ("TIMESTAMP(3)", FarTimestamp(FAR // 1000, "ms"), FAR),
        ("TIMESTAMP(9)", FarTimestamp(5000, "ns"), 5),
        ("TIMESTAMP(6) WITH LOCAL TIME ZONE", datetime(1970, 1, 1, tzinfo=UTC), 0),
        ("TIMESTAMP(6) WITH LOCAL TIME ZONE", FarTimestamp(-FAR, "us", zoned=True), -FAR),
        ("DOUBLE", math.nan, "nan"),
        ("DOUBLE", -1.5, "-1.5"),
    ],
)
def test_a_value_survives_the_round_trip(kind: str, value: object, sent: object) -> None:
    fields = [DataField(0, "x", parse_atomic(kind))]
    assert json.loads(values_to_spark([value], fields)) == [sent]
    spec = spec_from_spark(json.dumps({"x": sent}), fields)
    assert repr(spec["x"]) == repr(value)
    assert agrees(spec, [value], fields)
    assert not agrees(spec, [None], fields)
