"""`partitions` means the same in every method: a mapping, a list of mappings, or a filter on partition columns."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import interbed
from interbed import col
from interbed.storage.base.errors import FilterError, InvalidInputError


def rows(*values: tuple[str, int, int]) -> pa.Table:
    days, hours, ids = zip(*values, strict=True) if values else ((), (), ())
    return pa.table(
        {"dt": pa.array(days, pa.string()), "hh": pa.array(hours, pa.int32()), "id": pa.array(ids, pa.int64())}
    )


ALL = rows(*((day, hour, i) for i, (day, hour) in enumerate((d, h) for d in "abc" for h in (1, 2))))


@pytest.fixture
def table(tmp_path: Path) -> interbed.Table:
    made = keyed_table(tmp_path, {"bucket": "1"})
    made.upsert(ALL)
    return made


def keyed_table(path: Path, options: Mapping[str, str]) -> interbed.Table:
    catalog = interbed.load_catalog("lake", warehouse=str(path))
    catalog.create_database("shop")
    return catalog.create_table(
        "shop.t", ALL.schema, primary_keys=["dt", "hh", "id"], partition_keys=["dt", "hh"], options=options
    )


def ids(table: interbed.Table) -> list[int]:
    column: Any = table.scan(columns=["id"]).to_arrow()["id"]
    return sorted(column.to_pylist())


CHOICES = pytest.mark.parametrize(
    ("partitions", "chosen"),
    [
        ({"dt": "a"}, [0, 1]),
        ({"dt": "a", "hh": "2"}, [1]),
        ({"hh": 2}, [1, 3, 5]),
        ([{"dt": "a"}, {"dt": "c", "hh": 1}], [0, 1, 4]),
        (({"dt": "a"}, {"dt": "a", "hh": 1}), [0, 1]),
        ("dt <> 'b' and hh = 1", [0, 4]),
        ((col("dt") == "b") | (col("hh") == 2), [1, 2, 3, 5]),
        ({}, [0, 1, 2, 3, 4, 5]),
        ("true", [0, 1, 2, 3, 4, 5]),
        ([], []),
        ("dt = 'z'", []),
    ],
    ids=str,
)


@CHOICES
def test_partitions_select_what_is_deleted(table: interbed.Table, partitions: Any, chosen: list[int]) -> None:
    assert table.delete_partitions(partitions) == (2 if chosen else None)
    assert ids(table) == [i for i in range(6) if i not in chosen]


@CHOICES
def test_partitions_select_what_is_truncated(table: interbed.Table, partitions: Any, chosen: list[int]) -> None:
    table.truncate(partitions)
    assert ids(table) == [i for i in range(6) if i not in chosen]


@CHOICES
def test_partitions_select_what_is_overwritten(table: interbed.Table, partitions: Any, chosen: list[int]) -> None:
    new = [(ALL["dt"][i].as_py(), ALL["hh"][i].as_py(), 100 + i) for i in chosen]
    table.overwrite(rows(*new[:1]), partitions)
    assert ids(table) == [i for i in range(6) if i not in chosen] + [100 + i for i in chosen[:1]]
    if len(chosen) < 6:
        outside = next(i for i in range(6) if i not in chosen)
        with pytest.raises(InvalidInputError, match="not what is to be overwritten"):
            table.overwrite(rows((ALL["dt"][outside].as_py(), ALL["hh"][outside].as_py(), 7)), partitions)


@CHOICES
def test_partitions_select_what_is_compacted_and_listed(
    table: interbed.Table, partitions: Any, chosen: list[int]
) -> None:
    assert len(table.maintenance.plan_compaction(partitions=partitions)) == len(chosen)
    assert len(table.levels(partitions=partitions).trees) == len(chosen)
    assert table.compact(partitions=partitions).buckets == len(chosen)


@CHOICES
def test_partitions_select_what_is_rescaled(table: interbed.Table, partitions: Any, chosen: list[int]) -> None:
    assert table.maintenance.rescale(2, partitions).partitions == len(chosen)
    assert table.options.bucket == 1
    assert ids(table) == list(range(6))


@pytest.mark.parametrize(
    ("partitions", "error", "message"),
    [
        ({"id": 1}, InvalidInputError, "'id' is not a partition column"),
        ("id = 1", InvalidInputError, "'id' is not a partition column"),
        (["dt=a"], InvalidInputError, "'dt=a' names no partition"),
        (7, InvalidInputError, "7 names no partition"),
        ("dt ==", FilterError, "is not a condition"),
        ({"hh": "noon"}, InvalidInputError, "'hh'"),
    ],
)
def test_invalid_partitions_are_refused_by_every_method(
    table: interbed.Table, partitions: Any, error: type[Exception], message: str
) -> None:
    for method in (
        table.delete_partitions,
        table.truncate,
        lambda given: table.overwrite(rows(), given),
        lambda given: table.compact(partitions=given),
        lambda given: table.levels(partitions=given),
        lambda given: table.maintenance.rescale(2, given),
    ):
        with pytest.raises(error, match=message):
            method(partitions)
    assert [s.id for s in table.snapshots()] == [1]


def test_a_catalog_accepts_one_partition_or_a_list(tmp_path: Path, table: interbed.Table) -> None:
    catalog = interbed.load_catalog("lake", warehouse=str(tmp_path))
    catalog.create_partitions("shop.t", {"dt": "n", "hh": 1})
    catalog.drop_partitions("shop.t", {"dt": "a"})
    catalog.drop_partitions("shop.t", [{"dt": "b"}, {"dt": "c", "hh": 1}])
    assert ids(table) == [5]
    with pytest.raises(InvalidInputError, match="'dt=c' names no partition"):
        catalog.drop_partitions("shop.t", ["dt=c"])  # type: ignore[list-item]


def test_an_overwrite_without_rows_empties_the_selected_partitions(table: interbed.Table) -> None:
    table.overwrite([], {"dt": "a"})
    assert ids(table) == [2, 3, 4, 5]


HIDDEN_ROWS: Mapping[str, Mapping[str, str]] = {
    "deletion vectors": {"bucket": "1", "deletion-vectors.enabled": "true", "write-only": "true"},
    "first row": {"bucket": "1", "merge-engine": "first-row", "write-only": "true"},
    "postponed": {"bucket": "-2", "postpone.batch-write-fixed-bucket": "false"},
}


@pytest.mark.parametrize("partitions", [{"dt": "a"}, "dt < 'b'", {}])
@pytest.mark.parametrize("kind", HIDDEN_ROWS)
def test_rows_that_wait_for_a_compaction_are_deleted(tmp_path: Path, kind: str, partitions: Any) -> None:
    made = keyed_table(tmp_path, HIDDEN_ROWS[kind])
    made.upsert(ALL)
    assert ids(made) == []
    snapshot_id = made.delete_partitions(partitions)
    assert snapshot_id is not None
    assert made.delete_partitions(partitions) is None
    made.compact()
    assert ids(made) == ([] if partitions == {} else [2, 3, 4, 5])


@pytest.mark.parametrize(
    "options", [{"scan.snapshot-id": "1"}, {"incremental-between": "0,1"}, {"scan.file-creation-time-millis": "9" * 14}]
)
def test_scan_options_do_not_choose_what_is_deleted(tmp_path: Path, options: Mapping[str, str]) -> None:
    made = keyed_table(tmp_path, {"bucket": "1"})
    for part in (ALL.slice(0, 2), ALL.slice(2)):
        made.upsert(part)
    made.copy(options).delete_partitions("dt > 'a'")
    assert ids(made) == [0, 1]
