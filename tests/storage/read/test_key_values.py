"""Values of keys must be exactly those of the column's type; a value that differs slightly matches no row or is
refused.
"""

from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import interbed
from interbed.storage.base.errors import InvalidInputError
from interbed.storage.base.types.arrow import data_type
from interbed.storage.base.types.far_times import FarDate, FarTimestamp
from interbed.storage.read.point_lookup import key_batch

_AWARE = datetime(2024, 1, 1, tzinfo=timezone(timedelta(hours=5)))
_NANOS = 1_704_067_200_000_000_000
"""2024-01-01 00:00:00 in nanoseconds."""


def stamps(ticks: int, unit: Any, zone: str | None = None) -> Any:
    return pa.array([ticks], pa.int64()).cast(pa.timestamp(unit, zone))


# The type, the key, equal values, and refused values: in Python's form, or as an Arrow array.
KEYS: dict[str, tuple[Any, list[Any], list[Any]]] = {
    "INT": (
        1,
        [1, 1.0, Decimal(1), np.int8(1), np.float64(1), pa.array([1.0]), pa.array([1], pa.int64())],
        [
            1.5,
            True,
            np.float64(1.5),
            np.bool_(True),
            np.timedelta64(1, "ns"),
            FarDate(1),
            pa.array([1.5]),
            pa.array([True]),
        ],
    ),
    "BIGINT": (2**53, [2**53, float(2**53), np.float64(2**53)], [float("nan"), np.float64("inf"), 2**63, "1"]),
    "DOUBLE": (float(2**53), [2**53, float(2**53)], [2**53 + 1, 10**400, pa.array([2**53 + 1]), pa.array(["0.1"])]),
    "FLOAT": (
        0.5,
        [0.5, np.float32(0.5), np.float64(0.5), Decimal("0.5")],
        [2**24 + 1, 1e300, pa.array([1e300]), True],
    ),
    "DECIMAL(10, 2)": (
        Decimal("1.00"),
        [1, 1.0, Decimal("1.000"), np.float64(1), pa.array([Decimal("1.000")]), pa.array([1.0])],
        [Decimal("1.001"), 1.001, np.float64(1.001), pa.array([Decimal("1.001")]), pa.array([1.001])],
    ),
    "DATE": (
        date(2024, 1, 1),
        [date(2024, 1, 1), np.datetime64("2024-01-01"), FarDate(19723), pa.array([date(2024, 1, 1)], pa.date64())],
        [
            datetime(2024, 1, 1, 5),
            _AWARE,
            FarTimestamp(19723, "us"),
            np.datetime64(19723, "ns"),
            stamps(_NANOS + 1, "ns"),
            stamps(_NANOS, "ns", "UTC"),
        ],
    ),
    "TIME(3)": (
        time(5),
        [time(5), pa.array([time(5)])],
        [
            time(5, 0, 0, 999),
            time(5, tzinfo=_AWARE.tzinfo),
            FarTimestamp(18_000_000, "us"),
            pa.array([time(5, 0, 0, 999)]),
        ],
    ),
    "TIMESTAMP(6)": (
        datetime(2024, 1, 1),
        [datetime(2024, 1, 1), date(2024, 1, 1), np.datetime64("2024-01-01", "ns"), FarTimestamp(_NANOS, "ns")],
        [
            _AWARE,
            np.datetime64(_NANOS + 1, "ns"),
            FarTimestamp(_NANOS + 1, "ns"),
            FarTimestamp(_NANOS, "ns", zoned=True),
            FarDate(_NANOS // 1000),
            stamps(_NANOS, "ns", "UTC"),
            stamps(_NANOS // 1000, "us", "Asia/Tokyo"),
            stamps(_NANOS + 1, "ns"),
        ],
    ),
    "TIMESTAMP(3)": (datetime(2024, 1, 1), [datetime(2024, 1, 1)], [datetime(2024, 1, 1, 0, 0, 0, 999)]),
    "STRING": ("1", ["1", np.str_("1"), pa.array(["1"], pa.large_string())], [1, b"1", pa.array([1])]),
    "BYTES": (b"a", [b"a", bytearray(b"a"), np.bytes_(b"a")], ["a"]),
    "BOOLEAN": (True, [True, np.bool_(True)], [1, "true", pa.array([1])]),
}


@pytest.mark.parametrize("kind", KEYS)
def test_a_value_of_a_key_is_matched_exactly_or_refused(tmp_path: Path, kind: str) -> None:
    key, alike, others = KEYS[kind]
    catalog = interbed.load_catalog("lake", warehouse=str(tmp_path))
    catalog.create_database("d")
    field = interbed.DataField(0, "v", data_type(f"{kind} NOT NULL"))
    table = catalog.create_table("d.t", interbed.Schema([field], primary_keys=["v"], options={"bucket": "1"}))
    table.append([{"v": key}])
    for value in alike:
        found = table.get_many(value if isinstance(value, pa.Array) else [value]).to_pylist()
        assert found == [{"v": key}], value
    for value in others:
        with pytest.raises(InvalidInputError):
            key_batch(value if isinstance(value, pa.Array) else [value], table.schema)
