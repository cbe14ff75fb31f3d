"""`record-level.expire-time`: the rows that expire, and the compactions that drop them."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import interbed
from interbed.storage.base.types.data_type import AtomicType, TypeRoot
from interbed.storage.lsm.compact.expiry import RecordExpiry
from interbed.storage.meta.schema.change import AddColumn, RemoveOption, RenameColumn, SetOption, UpdateColumnType
from interbed.storage.table.table import Table

NOW = 1_700_000_000
LONG_AGO, TO_COME = datetime(2001, 1, 1), datetime(2200, 1, 1)
COLUMNS = ("id", "at", "v")


def table(path: Path, options: dict[str, str] | None = None, time: pa.DataType | None = None) -> Table:
    columns = [("id", pa.int32()), ("at", time or pa.timestamp("ms")), ("v", pa.int64())]
    schema = pa.schema([pa.field(name, of, nullable=name != "id") for name, of in columns])
    every = {
        "bucket": "1",
        "record-level.expire-time": "1 d",
        "record-level.time-field": "at",
        "num-sorted-run.compaction-trigger": "20",
        **(options or {}),
    }
    with interbed.load_catalog("lake", warehouse=f"file:{path}") as catalog:
        catalog.create_database("db", ignore_if_exists=True)
        return catalog.create_table("db.t", schema, primary_keys=["id"], options=every)


def loaded(path: Path) -> Table:
    with interbed.load_catalog("lake", warehouse=f"file:{path}") as catalog:
        return catalog.get_table("db.t")


def write(into: Table, *rows: tuple[object, ...]) -> None:
    data = pa.Table.from_pylist([dict(zip(COLUMNS, row, strict=True)) for row in rows])
    into.upsert(data.select(list(COLUMNS)))


def ids(of: Table) -> list[object]:
    column: Any = of.scan(columns=["id"]).to_arrow()["id"]
    return sorted(column.to_pylist())


def files(of: Table) -> list[str]:
    return sorted(f.file_name for split in of.new_scan().plan().splits for f in split.files)


# -- expired rows ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "too_old", "just_in_time"),
    [
        (pa.int32(), NOW - 86_401, NOW - 86_400),
        (pa.int64(), NOW - 86_401, NOW - 86_400),
        (pa.int64(), (NOW - 86_400) * 1000 - 1, (NOW - 86_400) * 1000),
        (pa.timestamp("s"), NOW - 86_401, NOW - 86_400),
        (pa.timestamp("ms"), (NOW - 86_400) * 1000 - 1, (NOW - 86_400) * 1000),
        (pa.timestamp("us", "UTC"), (NOW - 86_400) * 10**6 - 1, (NOW - 86_400) * 10**6),
        (pa.timestamp("ns"), (NOW - 86_400) * 10**9 - 1, (NOW - 86_400) * 10**9),
    ],
)
def test_the_age_of_a_row_is_counted_in_whole_seconds(
    tmp_path: Path, kind: pa.DataType, too_old: int, just_in_time: int
) -> None:
    store = table(tmp_path, time=kind).store
    expiry = RecordExpiry.of(store, lambda: NOW * 1000 + 999)
    assert expiry is not None
    times: Any = pa.array([too_old, just_in_time, None], kind)
    rows = pa.RecordBatch.from_arrays([pa.array([1, 2, 3]), times], names=["id", "at"])
    assert expiry.kept(rows).column("id").to_pylist() == [2, 3]


def test_rows_of_tables_without_the_option_never_expire(tmp_path: Path) -> None:
    lake = table(tmp_path)
    lake.store.alter([RemoveOption("record-level.expire-time")])
    lake = loaded(tmp_path)
    assert RecordExpiry.of(lake.store, lambda: NOW * 1000) is None
    write(lake, (1, LONG_AGO, 1))
    lake.compact(full=True)
    assert ids(lake) == [1]


# -- compactions -------------------------------------------------------------------------------------------------------


def test_expired_rows_are_read_until_a_compaction_drops_them(tmp_path: Path) -> None:
    lake = table(tmp_path)
    write(lake, (1, LONG_AGO, 1), (2, TO_COME, 2), (3, None, 3))
    write(lake, (4, LONG_AGO, 4), (5, TO_COME, 5))
    assert ids(lake) == [1, 2, 3, 4, 5]
    assert lake.get(1) is not None
    lake.compact(full=True)
    assert ids(lake) == [2, 3, 5]
    assert lake.get(1) is None


def test_a_file_without_overlap_is_rewritten_when_it_holds_expired_rows(tmp_path: Path) -> None:
    lake = table(tmp_path, {"target-file-size": "1 b"})
    write(lake, (1, LONG_AGO, 1), (2, TO_COME, 2))
    write(lake, (3, TO_COME, 3))
    before = files(lake)
    plans = lake.maintenance.plan_compaction(full=True)
    assert sum(plan.files_rewritten for plan in plans) == 1
    lake.compact(full=True)
    assert ids(lake) == [2, 3]
    assert len(set(before) & set(files(lake))) == 1


@pytest.mark.parametrize("changes", [False, True], ids=["as it was", "with other columns"])
def test_files_of_the_highest_level_are_checked_again(tmp_path: Path, changes: bool) -> None:
    lake = table(tmp_path, {"record-level.expire-time": "1000000 d"})
    write(lake, (1, LONG_AGO, 1), (2, TO_COME, 2))
    lake.compact(full=True)
    assert ids(lake) == [1, 2]
    assert lake.maintenance.plan_compaction(full=True) == []
    if changes:
        added = AddColumn(("note",), AtomicType(TypeRoot.BIGINT))
        lake.store.alter([added, RenameColumn(("v",), "w")])
        lake = loaded(tmp_path)
    sooner = lake.copy({"record-level.expire-time": "1 d"})
    sooner.compact(full=True)
    assert ids(lake) == [2]
    assert sooner.maintenance.plan_compaction(full=True) == []


def test_times_stored_as_text_in_old_files_are_checked_row_by_row(tmp_path: Path) -> None:
    schema = pa.schema(
        (pa.field("id", pa.int32(), nullable=False), pa.field("at", pa.string()), pa.field("v", pa.int64()))
    )
    with interbed.load_catalog("lake", warehouse=f"file:{tmp_path}") as catalog:
        catalog.create_database("db")
        lake = catalog.create_table("db.t", schema, primary_keys=["id"], options={"bucket": "1"})
    write(lake, (1, "2001-01-01", 1), (2, "2200-01-01", 2))
    lake.compact(full=True)
    stamp = AtomicType(TypeRoot.TIMESTAMP, precision=3)
    options = {"record-level.expire-time": "1 d", "record-level.time-field": "at"}
    lake.store.alter([UpdateColumnType("at", stamp), *(SetOption(key, value) for key, value in options.items())])
    lake = loaded(tmp_path)
    lake.compact(full=True)
    assert ids(lake) == [2]
    assert lake.maintenance.plan_compaction(full=True) == []


def test_expired_rows_in_a_file_without_statistics_stay_until_it_is_merged(tmp_path: Path) -> None:
    lake = table(tmp_path, {"metadata.stats-mode": "none", "target-file-size": "1 b"})
    write(lake, (1, LONG_AGO, 1), (2, TO_COME, 2))
    lake.compact(full=True)
    assert ids(lake) == [1, 2]
    write(lake, (2, TO_COME, 3))
    lake.compact(full=True)
    assert ids(lake) == [2]


def test_an_expired_row_hides_its_older_version_while_that_exists(tmp_path: Path) -> None:
    lake = table(
        tmp_path, {"num-sorted-run.compaction-trigger": "3", "compaction.max-size-amplification-percent": "900000"}
    )
    write(lake, *((i, TO_COME, i) for i in range(20_000)))
    lake.compact(full=True)
    for value in range(3):
        write(lake, (7, LONG_AGO, -value))
    lake.compact(full=False)
    levels = {f.level for split in lake.new_scan().plan().splits for f in split.files}
    assert len(levels) > 1
    row = lake.get(7)
    assert row is not None
    assert row["at"] == LONG_AGO


@pytest.mark.parametrize(
    "options",
    [
        {"changelog-producer": "lookup"},
        {"changelog-producer": "full-compaction"},
        {"deletion-vectors.enabled": "true"},
        {"merge-engine": "first-row", "changelog-producer": "lookup"},
        {"merge-engine": "partial-update"},
        {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"},
    ],
    ids=lambda options: " ".join(options.values()),
)
def test_expired_rows_are_dropped_from_tables_of_every_kind(tmp_path: Path, options: dict[str, str]) -> None:
    lake = table(tmp_path, options)
    write(lake, (1, LONG_AGO, 1), (2, TO_COME, 2))
    write(lake, (3, LONG_AGO, 3), (4, TO_COME, 4))
    lake.compact(full=True)
    assert ids(lake) == [2, 4]
    told = lake.changes(from_snapshot=1).to_arrow()
    assert set(told["id"].to_pylist()) >= {2, 4}


def test_sums_restart_after_the_expiry_of_their_row(tmp_path: Path) -> None:
    lake = table(tmp_path, {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"})
    write(lake, (1, LONG_AGO, 100))
    write(lake, (1, TO_COME, 1))
    assert lake.get(1, ["v"]) == {"v": 101}
    lake.compact(full=True)
    assert lake.get(1, ["v"]) == {"v": 1}


def test_times_without_a_zone_are_taken_as_utc(tmp_path: Path) -> None:
    lake = table(tmp_path)
    expiry = RecordExpiry.of(lake.store, lambda: int(datetime(2020, 1, 2, tzinfo=UTC).timestamp() * 1000))
    assert expiry is not None
    times: Any = pa.array([datetime(2020, 1, 1), datetime(2019, 12, 31, 23, 59, 59)], pa.timestamp("ms"))
    rows = pa.RecordBatch.from_arrays([times], names=["at"])
    assert expiry.kept(rows).num_rows == 1
