"""Format tables: partitions, filters, appends, overwrites, and what a kill at each step leaves."""

import datetime
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq
import pytest

from interbed.storage.base.errors import (
    CorruptFileError,
    FileGoneError,
    FilterError,
    InvalidInputError,
    InvalidOptionError,
    NotSupportedError,
    SchemaMismatchError,
    StorageAccessError,
)
from interbed.storage.io.api import WrappedFileIO
from interbed.storage.io.local import LocalFileIO
from interbed.storage.table.format_table.format_table import OF_TABLES, FormatTable
from interbed.storage.table.table import Table
from tests.support.format_tables import FORMATS, arrow_schema, data_files, format_table, rows_of
from tests.support.peers.interbed import fields_of

SCHEMA = arrow_schema([("id", pa.int64()), ("v", pa.string()), ("dt", pa.date32()), ("h", pa.int32())])
KEYS = ["dt", "h"]
SOUND = {"partition.legacy-name": "false"}


def row(number: int, day: str = "2026-01-31", hour: int | None = 1) -> dict[str, Any]:
    return {"id": number, "v": f"v{number}", "dt": datetime.date.fromisoformat(day), "h": hour}


def partitioned(tmp_path: Path, file_format: str = "csv", **options: str) -> FormatTable:
    return format_table(tmp_path / "t", SCHEMA, file_format, partition_keys=KEYS, options={**SOUND, **options})


def ids(table: FormatTable, **arguments: Any) -> list[Any]:
    return [found[0] for found in rows_of(table, columns=["id"], **arguments)]


@pytest.mark.parametrize("file_format", [f for f in FORMATS if f != "text"])
def test_rows_are_read_by_columns_filters_and_limits(tmp_path: Path, file_format: str) -> None:
    table = partitioned(tmp_path, file_format)
    table.append([row(1), row(2, hour=2), row(3, "2026-02-01"), row(4, hour=None)])
    table.append([row(5)])
    assert rows_of(table) == sorted(
        [tuple(found.values()) for found in (row(1), row(2, hour=2), row(3, "2026-02-01"), row(4, hour=None), row(5))],
        key=repr,
    )
    assert ids(table, filter="dt = DATE '2026-01-31' and h < 2") == [1, 5]
    assert ids(table, filter="h is null or id = 3") == [3, 4]
    assert ids(table, filter="v in ('v2', 'v5') and h >= 1") == [2, 5]
    assert table.scan(columns=["h", "v"], filter="id = 2").to_arrow().to_pydict() == {"h": [2], "v": ["v2"]}
    assert table.scan(limit=2).to_arrow().num_rows == 2
    assert (table.count(), table.scan(filter="h = 1").count()) == (5, 3)
    assert table.scan(columns=[]).to_arrow().num_rows == 5
    assert table.to_arrow().schema == SCHEMA
    with pytest.raises(InvalidInputError, match="no column 'x'"):
        table.scan(columns=["x"])
    with pytest.raises(FilterError, match="x"):
        table.scan(filter="x = 1")


def test_partitions_are_pruned_before_their_files_are_listed(tmp_path: Path) -> None:
    table = partitioned(tmp_path)
    table.append([row(1), row(2, "2026-02-01")])
    plan = table.scan(filter="dt > DATE '2026-01-31'").plan
    assert [split.partition.spec for split in plan] == [{"dt": "2026-02-01", "h": "1"}]


def test_directories_are_those_of_hive_and_java(tmp_path: Path) -> None:
    table = partitioned(tmp_path)
    table.append([row(1), row(2, hour=None)])
    assert [Path(path).parent.as_posix() for path in data_files(table)] == [
        "dt=2026-01-31/h=1",
        "dt=2026-01-31/h=__DEFAULT_PARTITION__",
    ]
    assert [(p.spec, p.file_count) for p in table.partitions({"h": 1})] == [({"dt": "2026-01-31", "h": "1"}, 1)]
    legacy = format_table(tmp_path / "l", SCHEMA, "csv", partition_keys=KEYS)
    legacy.append([row(1)])
    # Paimon's default: days since 1970.
    assert data_files(legacy)[0].startswith("dt=20484/h=1/")
    assert rows_of(legacy) == [tuple(row(1).values())]
    values = format_table(
        tmp_path / "v",
        arrow_schema([("id", pa.int64()), ("k", pa.string())]),
        "parquet",
        partition_keys=["k"],
        options={"format-table.partition-path-only-value": "true"},
    )
    values.append([{"id": 1, "k": "a/b"}, {"id": 2, "k": None}])
    assert [Path(path).parent.as_posix() for path in data_files(values)] == ["__DEFAULT_PARTITION__", "a%2Fb"]
    assert rows_of(values) == [(1, "a/b"), (2, None)]


@pytest.mark.parametrize(
    ("value", "only_values"), [(" ", "false"), ("_x", "true"), (".x", "true"), ("__DEFAULT_PARTITION__", "false")]
)
def test_a_partition_that_would_be_read_as_another_or_not_at_all_is_refused(
    tmp_path: Path, value: str, only_values: str
) -> None:
    table = format_table(
        tmp_path / "t",
        arrow_schema([("id", pa.int64()), ("k", pa.string())]),
        "json",
        partition_keys=["k"],
        options={"format-table.partition-path-only-value": only_values},
    )
    with pytest.raises(InvalidInputError, match="k"):
        table.append([{"id": 1, "k": "good"}, {"id": 2, "k": value}])
    assert data_files(table) == []


def test_an_overwrite_replaces_the_partitions_that_occur_or_are_named(tmp_path: Path) -> None:
    table = partitioned(tmp_path, "json")
    table.append([row(1), row(2, hour=2), row(3, "2026-02-01")])
    table.overwrite([row(4)])
    assert ids(table) == [2, 3, 4]
    table.overwrite([row(5, hour=3)], {"dt": "2026-01-31"})
    assert ids(table) == [3, 5]
    with pytest.raises(InvalidInputError, match="dt=2026-02-01, h=1, which is not overwritten"):
        table.overwrite([row(6, "2026-02-01")], {"dt": "2026-01-31"})
    assert ids(table) == [3, 5]
    table.overwrite([], {"dt": "2026-01-31"})
    assert ids(table) == [3]
    table.copy({"dynamic-partition-overwrite": "false"}).overwrite([row(7)])
    assert ids(table) == [7]
    table.overwrite([], {})
    assert ids(table) == []
    whole = format_table(tmp_path / "w", SCHEMA, "json")
    whole.append([row(1)])
    whole.overwrite([row(2)])
    assert ids(whole) == [2]


def test_truncated_partitions_stay_and_dropped_ones_do_not(tmp_path: Path) -> None:
    table = partitioned(tmp_path)
    table.append([row(1), row(2, hour=2), row(3, "2026-02-01")])
    table.truncate({"h": 2})
    assert [(p.spec["h"], p.file_count) for p in table.partitions()] == [("1", 1), ("2", 0), ("1", 1)]
    assert table.drop_partitions({"dt": "2026-01-31"}) == [
        {"dt": "2026-01-31", "h": "1"},
        {"dt": "2026-01-31", "h": "2"},
    ]
    assert [p.spec for p in table.partitions()] == [{"dt": "2026-02-01", "h": "1"}]
    assert not (tmp_path / "t" / "dt=2026-01-31").exists()
    other = tmp_path / "t" / "dt=2026-02-01" / "h=1" / "_of_another_job"
    other.write_text("kept")
    table.drop_partitions([{"h": 1}])
    assert other.read_text() == "kept"
    table.truncate()
    assert table.count() == 0
    table.add_partitions([{"dt": "2026-03-01", "h": "5"}])
    assert {"dt": "2026-03-01", "h": "5"} in [p.spec for p in table.partitions()]


def test_files_roll_at_the_target(tmp_path: Path) -> None:
    rows = [row(n) for n in range(25)]
    for file_format in ("csv", "parquet"):
        by_rows = format_table(tmp_path / file_format, SCHEMA, file_format, options={"target-file-row-num": "10"})
        by_rows.append(rows)
        assert len(data_files(by_rows)) == 3
        assert ids(by_rows) == sorted(range(25), key=lambda n: repr((n,)))


def test_files_of_other_writers_are_read_by_name_and_value(tmp_path: Path) -> None:
    schema = arrow_schema([("a", pa.int64()), ("b", pa.string()), ("c", pa.timestamp("us"))])
    table = format_table(tmp_path / "t", schema, "parquet")
    (tmp_path / "t" / "sub").mkdir(parents=True)
    pq.write_table(pa.table({"b": ["x"], "z": [1], "a": pa.array([7], pa.int32())}), tmp_path / "t" / "sub" / "part-0")
    pq.write_table(
        pa.table({"a": pa.array([8.0]), "c": pa.array([1000], pa.timestamp("ns"))}), tmp_path / "t" / "part-1"
    )
    assert [found[:2] for found in rows_of(table)] == [(7, "x"), (8, None)]
    assert table.scan(filter="a = 7").to_arrow().num_rows == 1
    for number, (bad, message) in enumerate(
        [
            (pa.table({"a": ["7"]}), "'a' is BIGINT, and the data file .* has string there"),
            (pa.table({"a": [7.5]}), "'a', BIGINT, can't be read"),
            (pa.table({"c": pa.array([1], pa.timestamp("ns"))}), "'c', TIMESTAMP"),
        ]
    ):
        path = tmp_path / "t" / f"bad-{number}"
        pq.write_table(bad, path)
        with pytest.raises(SchemaMismatchError, match=message):
            table.to_arrow()
        path.unlink()
    (tmp_path / "t" / "torn").write_bytes(b"PAR1 no")
    with pytest.raises(CorruptFileError, match="torn"):
        table.to_arrow()


def test_orc_files_without_names_are_read_by_position(tmp_path: Path) -> None:
    table = format_table(tmp_path / "t", arrow_schema([("a", pa.int64()), ("b", pa.string())]), "orc")
    (tmp_path / "t").mkdir()
    pyarrow.orc.write_table(pa.table({"_col0": [1], "_col1": ["x"]}), str(tmp_path / "t" / "000000_0"))
    assert rows_of(table) == [(1, "x")]


def test_a_directory_that_is_no_partition_is_named(tmp_path: Path) -> None:
    table = partitioned(tmp_path)
    table.append([row(1)])
    (tmp_path / "t" / "other").mkdir()
    (tmp_path / "t" / "dt=2026-01-31" / "h=one").mkdir()
    with pytest.raises(CorruptFileError, match="h=one is no partition"):
        table.to_arrow()


def test_a_file_that_is_deleted_while_it_is_read_is_named(tmp_path: Path) -> None:
    table = format_table(tmp_path / "t", SCHEMA, "csv")
    table.append([row(1)])
    scan = table.scan()
    assert len(scan.plan) == 1
    table.overwrite([row(2)])
    with pytest.raises(FileGoneError, match="deleted or overwritten since the table was listed"):
        scan.to_arrow()


@pytest.mark.parametrize(
    ("file_format", "options", "message"),
    [
        ("csv", {"snapshot.num-retained.max": "9"}, "'snapshot.num-retained.max' has no effect on a format table"),
        ("csv", {"merge-engine": "deduplicate"}, "'merge-engine' has no effect"),
        ("csv", {"csv.field-delimeter": ";"}, "csv.field-delimeter"),
        ("csv", {"csv.field-delimiter": "||"}, "'csv.field-delimiter' takes one character"),
        ("csv", {"csv.quote-character": ","}, "different characters"),
        ("csv", {"csv.mode": "strict"}, "'csv.mode' takes one of permissive, dropmalformed, failfast"),
        ("csv", {"csv.null-literal": "\\N"}, "'csv.null-literal'"),
        ("csv", {"file.compression": "snappy"}, "'file.compression' takes one of none, gzip"),
        ("json", {"json.line-delimiter": ""}, "'json.line-delimiter' must not be empty"),
        ("lance", {}, "'file.format' of a format table takes one of parquet, orc, avro, csv, json, text"),
        ("parquet", {"file.compression": "bzip2"}, "bzip2"),
        ("parquet", {"data-file.prefix": "_x"}, "files of such names are hidden"),
        ("parquet", {"format-table.implementation": "hive"}, "takes paimon or engine"),
        ("parquet", {"metastore.partitioned-table": "true"}, "its partitions are its directories"),
    ],
)
def test_options_that_do_not_fit_are_refused_by_name(
    tmp_path: Path, file_format: str, options: dict[str, str], message: str
) -> None:
    with pytest.raises((InvalidOptionError, NotSupportedError), match=message):
        format_table(tmp_path / "t", SCHEMA, file_format, options=options)


def test_columns_that_files_do_not_hold_are_refused_by_name(tmp_path: Path) -> None:
    array = fields_of([("a", {"type": "ARRAY", "element": "INT"})])
    with pytest.raises(NotSupportedError, match="CSV files can't hold the column 'a'"):
        format_table(tmp_path / "t", array, "csv")
    dates = fields_of([("m", {"type": "MAP", "key": "DATE NOT NULL", "value": "INT"})])
    with pytest.raises(NotSupportedError, match="the keys of a MAP"):
        format_table(tmp_path / "t", dates, "json")
    with pytest.raises(InvalidInputError, match="'_k' would have hidden directories"):
        format_table(tmp_path / "t", fields_of([("a", "INT"), ("_k", "INT")]), "csv", partition_keys=["_k"])
    with pytest.raises(InvalidInputError, match="a column that is no partition column"):
        format_table(tmp_path / "t", fields_of([("a", "INT")]), "csv", partition_keys=["a"])


@pytest.mark.parametrize(
    "use",
    [
        lambda table: table.snapshots(),
        lambda table: table.store,
        lambda table: table.versions,
        lambda table: table.compact(),
        lambda table: table.delete("id = 1"),
        lambda table: table.upsert([row(1)]),
        lambda table: table.scan(snapshot_id=1),
        lambda table: table.new_batch_write_builder(),
    ],
    ids=["snapshots", "store", "versions", "compact", "delete", "upsert", "scan", "builder"],
)
def test_what_needs_snapshots_or_keys_is_refused_by_name(tmp_path: Path, use: Callable[[Any], Any]) -> None:
    with pytest.raises(NotSupportedError, match=r"format table 'd\.t' has no"):
        use(partitioned(tmp_path))


class KilledError(BaseException):
    """End of a process, as far as a test sees."""


class MortalFileIO(WrappedFileIO):
    """FileIO of a process that is killed before its n-th change; nothing is changed afterwards."""

    def __init__(self, changes: int) -> None:
        super().__init__(LocalFileIO())
        self.left = changes

    def _change(self) -> None:
        if self.left <= 0:
            raise KilledError
        self.left -= 1

    def open_output(self, path: str) -> Any:
        self._change()
        return super().open_output(path)

    def make_directories(self, path: str) -> None:
        self._change()
        super().make_directories(path)

    def sync(self, paths: Iterable[str]) -> None:
        self._change()
        super().sync(paths)

    def rename(self, source: str, target: str) -> bool:
        self._change()
        return super().rename(source, target)

    def delete(self, path: str, *, recursive: bool = False) -> bool:
        self._change()
        return super().delete(path, recursive=recursive)

    def delete_quietly(self, paths: Iterable[str]) -> None:
        self._change()
        super().delete_quietly(paths)


@pytest.mark.parametrize("overwrites", [False, True], ids=["append", "overwrite"])
def test_a_kill_at_any_step_leaves_the_old_rows_or_new_ones_in_addition(tmp_path: Path, overwrites: bool) -> None:
    seen = []
    for changes in range(100):
        place = tmp_path / str(changes)
        whole = format_table(place, SCHEMA, "parquet", partition_keys=KEYS, options=SOUND)
        whole.append([row(1), row(2, hour=2), row(9, "2026-03-01")])
        mortal = MortalFileIO(changes)
        table = format_table(place, SCHEMA, "parquet", partition_keys=KEYS, options=SOUND, file_io=mortal)
        new = [row(3), row(4, hour=2)]
        try:
            (table.overwrite if overwrites else table.append)(new)
        except KilledError:
            found = ids(whole)
            # Rows that are in the table before and after are always there, and no row is there twice.
            assert 9 in found
            assert len(set(found)) == len(found)
            kept = {1, 2} & set(found)
            if not overwrites:
                assert kept == {1, 2}
            assert kept == {1, 2} or {3, 4} <= set(found)
            seen.append(tuple(found))
            # Repeating the write completes it.
            (whole.overwrite if overwrites else whole.append)(new)
            assert set(ids(whole)) == ({3, 4, 9} if overwrites else {1, 2, 3, 4, 9})
        else:
            assert ids(whole) == ([3, 4, 9] if overwrites else [1, 2, 3, 4, 9])
            break
    states = {(1, 2, 9), (1, 2, 3, 9)}
    assert set(seen) == (states | {(1, 2, 3, 4, 9), (2, 3, 4, 9)} if overwrites else states)


def test_an_error_before_the_commit_leaves_nothing(tmp_path: Path) -> None:
    table = partitioned(tmp_path, "parquet")
    table.append([row(1)])
    before = data_files(table)

    def batches() -> Iterable[pa.RecordBatch]:
        yield pa.RecordBatch.from_pylist([row(2), row(3, hour=7)], schema=SCHEMA)
        raise StorageAccessError("the source failed")

    with pytest.raises(StorageAccessError, match="the source failed"):
        table.append(pa.RecordBatchReader.from_batches(SCHEMA, batches()))
    with pytest.raises(SchemaMismatchError, match="'id'"):
        table.append([{"id": "x"}])
    assert data_files(table) == before


def test_a_row_number_in_an_error_is_that_of_the_caller(tmp_path: Path) -> None:
    table = format_table(
        tmp_path / "t", arrow_schema([("v", pa.string()), ("k", pa.int32())]), "csv", partition_keys=["k"]
    )
    data = pa.table({"v": ["a", "b", "c", "d\n"], "k": pa.array([1, 2, 1, 2], pa.int32())})
    with pytest.raises(InvalidInputError, match="row 3 "):
        table.append(data)


def test_names_of_tables_are_refused_unless_a_format_table_has_them() -> None:
    public = {name for name in dir(Table) if not name.startswith("_")}
    assert public - set(dir(FormatTable)) - OF_TABLES == set()
