"""Batch reads of the changes between two snapshots."""

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import interbed
from interbed.storage.base.errors import (
    FilterError,
    InvalidInputError,
    InvalidOptionError,
    NotSupportedError,
    SnapshotNotFoundError,
    TagNotFoundError,
)
from interbed.storage.scan.split import Split
from interbed.storage.table.table import Table

SCHEMA = pa.schema((pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.string())))

Rows = dict[int, str]


def create(warehouse: Path, *, keyed: bool = True, **options: str) -> Table:
    catalog = interbed.load_catalog("test", warehouse=f"file:{warehouse}")
    catalog.create_database("db", ignore_if_exists=True)
    named = {k.replace("__", ".").replace("_", "-"): v for k, v in options.items()}
    bucket = {"bucket": "1"} if keyed else {}
    return catalog.create_table("db.t", SCHEMA, primary_keys=["id"] if keyed else [], options={**bucket, **named})


def upsert(table: Table, rows: Rows) -> None:
    table.append(pa.table({"id": list(rows), "v": list(rows.values())}, schema=SCHEMA))


def rows_at(table: Table, snapshot_id: int) -> Rows:
    return {r["id"]: r["v"] for r in table.scan(snapshot_id=snapshot_id).to_arrow().to_pylist()}


def changes_between(table: Table, first: int, last: int, mode: str = "auto") -> list[tuple[int, str, int]]:
    found: list[dict[str, Any]] = table.changes(first + 1, last, mode=mode).to_arrow().to_pylist()
    return [(r["id"], r["v"], r["_row_kind"]) for r in found]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"deletion_vectors__enabled": "true"},
        {"merge_engine": "partial-update", "partial_update__remove_record_on_delete": "true"},
        {"changelog_producer": "lookup"},
        {"target_file_size": "1 kb", "num_sorted_run__compaction_trigger": "2"},
    ],
    ids=str,
)
def test_a_diff_has_the_net_change_of_each_key(tmp_path: Path, options: dict[str, str]) -> None:
    table = create(tmp_path, keyed=True, **options)
    source = random.Random(str(options))
    for step in range(6):
        upsert(table, {source.randrange(40): source.choice("abc") for _ in range(12)})
        if step % 2:
            table.delete(f"id in ({source.randrange(40)}, {source.randrange(40)})")
        if step == 3:
            table.compact()
    last = table.snapshots()[-1].id
    for first in range(0, last, 2):
        for until in {first + 1, last}:
            before = rows_at(table, first) if first else {}
            after = rows_at(table, until)
            expected = [(k, v, 0) for k, v in after.items() if before.get(k) != v]
            expected += [(k, v, 3) for k, v in before.items() if k not in after]
            found = changes_between(table, first, until, "diff")
            assert sorted((k, v, 0 if kind == 2 else kind) for k, v, kind in found) == sorted(expected)
            shown = table.copy(
                {"incremental-between": f"{first},{until}", "incremental-between-scan-mode": "diff"}
            ).scan()
            assert shown.count() == sum(kind == 0 for _, _, kind in expected)


def test_a_diff_reads_only_the_files_that_differ(tmp_path: Path) -> None:
    table = create(tmp_path, target_file_size="1 kb", bucket="1", write_only="true")
    upsert(table, dict.fromkeys(range(20000), "x"))
    table.compact()
    upsert(table, {5: "y"})
    snapshots = table.snapshots()
    plan = table.changes(snapshots[-1].id, mode="diff").plan
    assert plan.statistics.files_planned < len(table.new_scan().plan().splits[0].files)
    assert changes_between(table, snapshots[-2].id, snapshots[-1].id, "diff") == [(5, "y", 0)]


def test_a_diff_is_filtered_after_the_comparison(tmp_path: Path) -> None:
    table = create(tmp_path)
    upsert(table, {1: "a", 2: "b"})
    upsert(table, {1: "z", 2: "c", 3: "a"})
    changes = table.changes(2, mode="diff", columns=["id"], filter="v < 'd'").to_arrow()
    # Row 1 was 'a' before, which the filter would keep; but its change is that it is 'z' now.
    assert set(changes["id"].to_pylist()) == {2, 3}


def test_splits_of_changes_survive_serialization(tmp_path: Path) -> None:
    table = create(tmp_path, deletion_vectors__enabled="true")
    upsert(table, {1: "a", 2: "b"})
    upsert(table, {1: "z"})
    last = table.snapshots()[-1].id
    for mode in ("delta", "diff"):
        for split in table.changes(2, last, mode=mode).plan.splits:
            assert Split.from_bytes(split.to_bytes()) == split


def test_ranges_can_be_given_by_time_and_by_tags(tmp_path: Path) -> None:
    table = create(tmp_path)
    for number in range(4):
        upsert(table, {number: "x"})
    times = [s.time_millis for s in table.snapshots()]
    table.versions.create_tag("one", 1)
    table.versions.create_tag("three", 3)

    def ids(**options: str) -> list[int]:
        named = {k.replace("_", "-"): v for k, v in options.items()}
        found: list[Any] = table.copy(named).scan().to_arrow()["id"].to_pylist()
        return sorted(found)

    assert ids(incremental_between="1,3") == [1, 2]
    assert ids(incremental_between="one,three") == [1, 2]
    assert ids(incremental_between="one,three", incremental_between_tag_to_snapshot="true") == [1, 2]
    assert ids(incremental_between_timestamp=f"0,{times[-1]}") == [0, 1, 2, 3]
    assert ids(incremental_between_timestamp="1970-01-02,1970-01-03") == []
    assert ids(incremental_between="2,2") == []
    # Snapshots between tags may have expired, so the tags are compared.
    Path(table.location, "snapshot", "snapshot-2").unlink()
    assert ids(incremental_between="one,three") == [1, 2]
    with pytest.raises(TagNotFoundError, match="no tag 'two'"):
        ids(incremental_between="one,two")


def test_an_automatic_tag_is_compared_with_the_previous_one(tmp_path: Path) -> None:
    table = create(tmp_path)
    for number, tag in enumerate(("2026-01-30", "mine", "2026-02-01", "2026-02-02")):
        upsert(table, {number: "x"})
        table.versions.create_tag(tag, number + 1)

    def ids(tag: str) -> list[int]:
        column: Any = table.copy({"incremental-to-auto-tag": tag}).scan().to_arrow()["id"]
        return sorted(column.to_pylist())

    assert [ids(tag) for tag in ("2026-02-02", "2026-02-01", "2026-01-30", "2026-01-31")] == [[3], [1, 2], [], []]
    with pytest.raises(InvalidOptionError, match=r"an automatic tag, such as '20..-..-..', not 'mine'"):
        ids("mine")


def test_an_empty_table_has_no_changes(tmp_path: Path) -> None:
    table = create(tmp_path)
    assert table.copy({"incremental-between": "1,2"}).scan().to_arrow().num_rows == 0
    assert table.changes(mode="diff").to_arrow().num_rows == 0


def test_an_empty_increment_has_the_id_of_its_last_snapshot(tmp_path: Path) -> None:
    table = create(tmp_path)
    nothing_before = table.copy({"incremental-between": "0,0"}).new_scan().plan()
    assert (nothing_before.snapshot_id, nothing_before.splits) == (None, ())
    for value in "ab":
        upsert(table, {1: value})
    for between, snapshot_id in {"1,1": 1, "2,2": 2, "0,0": None}.items():
        plan = table.copy({"incremental-between": between}).new_scan().plan()
        assert (plan.snapshot_id, plan.splits) == (snapshot_id, ())


@pytest.mark.parametrize(
    ("options", "error", "part"),
    [
        ({"incremental-between": "3"}, InvalidOptionError, "two snapshot ids"),
        ({"incremental-between": "3,1"}, InvalidOptionError, "ends before"),
        ({"incremental-between": "1,9"}, SnapshotNotFoundError, "no snapshot 3; the table has the snapshots 1 to 2"),
        ({"incremental-between": "1,2", "scan.snapshot-id": "1"}, InvalidOptionError, "only one"),
        ({"incremental-between": "1,2", "scan.mode": "latest"}, InvalidOptionError, "'scan.mode' = 'latest'"),
        ({"incremental-between": "1,2", "incremental-between-scan-mode": "x"}, InvalidOptionError, "auto, delta"),
        ({"incremental-between-timestamp": "5,now"}, InvalidOptionError, "2026"),
        ({"incremental-between-timestamp": "9,5"}, InvalidOptionError, "ends before"),
        ({"scan.mode": "incremental"}, InvalidOptionError, "incremental-between"),
    ],
)
def test_an_invalid_range_is_refused(
    tmp_path: Path, options: dict[str, str], error: type[Exception], part: str
) -> None:
    table = create(tmp_path)
    upsert(table, {1: "x"})
    upsert(table, {2: "x"})
    with pytest.raises(error, match=part):
        table.copy(options).scan().to_arrow()


def test_unsupported_comparisons_are_refused(tmp_path: Path) -> None:
    table = create(tmp_path, keyed=False)
    upsert(table, {1: "x"})
    upsert(table, {2: "x"})
    with pytest.raises(NotSupportedError, match="no primary key"):
        table.changes(2, mode="diff").to_arrow()
    with pytest.raises(InvalidInputError, match="'some'"):
        table.changes(mode="some")
    with pytest.raises(FilterError, match="'w'"):
        table.binlog().scan(filter="w = 1")
    with pytest.raises(NotSupportedError, match="'id'"):
        table.binlog().scan(filter="id is null")


def test_audit_log_and_binlog_are_projected_filtered_and_limited(tmp_path: Path) -> None:
    table = create(tmp_path, changelog_producer="lookup", table_read__sequence_number__enabled="true")
    upsert(table, {1: "a", 2: "a"})
    upsert(table, {1: "b"})
    table.delete("id = 2")
    every = {"incremental-between": f"0,{table.snapshots()[-1].id}"}
    log = table.audit_log().copy(every)
    assert log.field_names == ["rowkind", "_SEQUENCE_NUMBER", "id", "v"]
    assert log.scan(["v", "rowkind"], filter="rowkind <> '+I' and id = 1").to_arrow().to_pylist() == [
        {"v": "a", "rowkind": "-U"},
        {"v": "b", "rowkind": "+U"},
    ]
    assert log.scan(limit=1).to_arrow().num_rows == 1
    binlog = table.binlog().copy(every)
    assert binlog.scan(filter="rowkind = '+U'").to_arrow().to_pylist() == [
        {"rowkind": "+U", "_SEQUENCE_NUMBER": 0, "id": [1, 1], "v": ["a", "b"]}
    ]
    with pytest.raises(InvalidInputError, match="'w'; there are rowkind"):
        log.scan(["w"])
    builder = binlog.new_read_builder().with_projection(["v", "rowkind"]).with_limit(3)
    by_kind = builder.new_predicate_builder().equal("rowkind", "-D")
    read = builder.with_filter(by_kind).new_read()
    assert read.to_arrow(builder.new_scan().plan().splits()).to_pylist() == [{"v": ["a"], "rowkind": "-D"}]
    assert [c.to_arrow()["rowkind"].to_pylist() for c in table.audit_log().stream(1, idle_seconds=0)] == [
        ["+I", "+I"],
        ["-U", "+U"],
        ["-D"],
    ]
