"""Partitions that are older than the expiration time."""

import time
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import interbed
from interbed.storage.base.errors import InvalidOptionError
from interbed.storage.meta.options.version import ExpirationStrategy, PartitionTime, outdated, strptime_format

VALUES = ExpirationStrategy.VALUES_TIME
WRITTEN = datetime(2026, 6, 1)


@pytest.mark.parametrize(
    ("pattern", "formatter", "spec", "expected"),
    [
        (None, None, {"dt": "2026-01-31"}, datetime(2026, 1, 31)),
        (None, None, {"dt": "2026-1-3 4:5:6.25"}, datetime(2026, 1, 3, 4, 5, 6, 250_000)),
        (None, None, {"dt": "2026-02-30"}, datetime(2026, 3, 2)),
        (None, None, {"dt": "__DEFAULT_PARTITION__"}, None),
        (None, "yyyyMMdd", {"dt": "20260131"}, datetime(2026, 1, 31)),
        (None, "yyyyMMdd", {"dt": "2026-01-31"}, None),
        (None, "yyyy-MM-dd'T'HH:mm", {"dt": "2026-01-31T07:05"}, datetime(2026, 1, 31, 7, 5)),
        ("$dt $h:00:00", None, {"dt": "2026-01-31", "h": "7"}, datetime(2026, 1, 31, 7)),
        ("$y-$m-$d", None, {"y": "2026", "m": "2", "d": "1"}, datetime(2026, 2, 1)),
        ("$dt1", None, {"dt": "2026-01-31", "dt1": "2025-01-31"}, datetime(2025, 1, 31)),
    ],
)
def test_the_time_of_a_partition_is_parsed_from_its_values(
    pattern: str | None, formatter: str | None, spec: dict[str, str], expected: datetime | None
) -> None:
    assert PartitionTime(pattern, formatter).of(spec) == expected


def test_the_error_names_unknown_pattern_letters() -> None:
    assert strptime_format("yyyy'%'MM'o''clock'") == "%Y%%%mo'clock"
    with pytest.raises(InvalidOptionError, match="has 'EEE', which is not understood"):
        strptime_format("EEE, dd")


def test_only_partitions_before_the_time_are_outdated() -> None:
    partitions = [({"dt": day}, WRITTEN) for day in ("2026-03-01", "2026-01-01", "nothing", "2026-02-01")]
    by_values = PartitionTime()
    assert outdated(partitions, datetime(2026, 3, 1), strategy=VALUES, time=by_values) == [
        {"dt": "2026-01-01"},
        {"dt": "2026-02-01"},
    ]
    assert outdated(partitions, datetime(2026, 3, 1), strategy=VALUES, time=by_values, most=1) == [{"dt": "2026-01-01"}]
    by_update = ExpirationStrategy.UPDATE_TIME
    assert outdated(partitions, datetime(2026, 6, 1), strategy=by_update, time=by_values) == []
    assert len(outdated(partitions, datetime(2026, 6, 2), strategy=by_update, time=by_values)) == 4


OPTIONS: dict[str, dict[str, str]] = {
    "plain": {},
    "pattern": {"partition.timestamp-pattern": "$p"},
    "readable names": {"partition.legacy-name": "false"},
}


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo", "America/New_York"])
@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("kind", ["DATE", "TIMESTAMP(3)", "TIMESTAMP(6)", "TIMESTAMP(3) WITH LOCAL TIME ZONE"])
def test_partitions_of_dates_and_timestamps_expire_by_their_time(
    tmp_path: Path, kind: str, options: str, zone: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        catalog = interbed.load_catalog(warehouse=str(tmp_path))
        catalog.create_database("d")
        fields = [("p", kind), ("n", "INT")]
        columns = [interbed.DataField(id=i, name=n, type=interbed.data_type(t)) for i, (n, t) in enumerate(fields)]
        given = {"partition.expiration-time": "1 d", **OPTIONS[options]}
        table = catalog.create_table("d.t", interbed.Schema(columns, ["p"], None, given))
        days: list[Any] = [date(2026, 1, 29), date(2026, 1, 30), None]
        if kind != "DATE":
            days = [datetime(2026, 1, 29), datetime(2026, 1, 30), None]
        if kind.endswith("ZONE"):
            days = [datetime(2026, 1, 29).astimezone(UTC), datetime(2026, 1, 30).astimezone(UTC), None]
        schema = table.arrow_schema
        table.append(pa.table({"p": pa.array(days, schema.field("p").type), "n": [1, 2, 3]}).cast(schema))
        at = datetime(2026, 1, 31).timestamp()
        # The age of the second one is a day, which is not yet too old.
        assert len(catalog.expire_partitions("d.t", clock=lambda: at)) == 1
        assert set(catalog.get_table("d.t").scan().to_arrow()["n"].to_pylist()) == {2, 3}
        assert len(catalog.expire_partitions("d.t", clock=lambda: at + 1)) == 1
        assert catalog.get_table("d.t").scan().to_arrow()["n"].to_pylist() == [3]
    finally:
        monkeypatch.undo()
        time.tzset()
