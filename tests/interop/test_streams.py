"""Streams, changes between snapshots, audit log and binlog equal Java Paimon's, for tables written by either.

Java and interbed commit to each table in turns. Then both read it from every position at which a stream can start, plan
by plan, and resume from every checkpoint.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import interbed
from interbed.storage.base.types.data_type import type_to_json
from interbed.storage.table.table import Table
from interbed.storage.views.changes import ChangeView
from tests.support.peers.interbed import interbed_table
from tests.support.peers.java import JavaPaimon, JavaTable
from tests.support.peers.json import parse_type, table_to_rows
from tests.support.shares import each_run

COLUMNS = [("id", "INT NOT NULL"), ("dt", "STRING NOT NULL"), ("v", "INT"), ("s", "STRING")]
KIND_TEXTS = ["+I", "-U", "+U", "-D"]

TABLES: dict[str, dict[str, str]] = {
    "none": {},
    "none, overwrites read": {"streaming-read-overwrite": "true"},
    "none with vectors": {"deletion-vectors.enabled": "true"},
    "input, overwrites read": {"changelog-producer": "input", "streaming-read-overwrite": "true"},
    "input with vectors": {"changelog-producer": "input", "deletion-vectors.enabled": "true"},
    "lookup": {"changelog-producer": "lookup"},
    "full compaction": {"changelog-producer": "full-compaction"},
    "aggregation": {
        "changelog-producer": "lookup",
        "merge-engine": "aggregation",
        "fields.v.aggregate-function": "sum",
        "fields.s.aggregate-function": "last_value",
    },
    "append, overwrites read": {"streaming-read-append-overwrite": "true"},
    "append without buckets": {"bucket": "-1"},
}

Row = tuple[str, list[Any]]
Plans = list[tuple[int | None, list[Row]]]


@dataclass(frozen=True)
class StreamedTable:
    """A table after all of its commits, as both implementations read it."""

    name: str
    java: JavaTable
    warehouse: Path

    @cached_property
    def table(self) -> Table:
        return interbed_table(self.warehouse, "db.t").load()

    @cached_property
    def last(self) -> int:
        return int(self.java.snapshots()[-1]["id"])

    def our_stream(self, options: Mapping[str, str], restore: int | None = None) -> Plans:
        table = self.table.copy(options)
        scan = table.new_stream_scan()
        scan.restore(restore)
        plans: Plans = []
        while (plan := scan.plan()) is not None:
            found = table.new_change_read().to_reader(plan.splits).read_all()
            plans.append((scan.checkpoint(), in_order(kinds_and_rows(table, found))))
        return plans

    def java_stream(self, options: Mapping[str, str], restore: int | None = None) -> Plans:
        found = self.java.stream(options=options, restore=restore).plans
        return [(checkpoint, in_order(list(zip(rows.kinds, rows.rows, strict=True)))) for checkpoint, rows in found]


def with_plain_adds(plans: Plans) -> Plans:
    """Turn additions of the first plan into insertions: Java's rows of a snapshot have the kinds of their records."""
    if not plans:
        return plans
    checkpoint, rows = plans[0]
    return [(checkpoint, in_order([("+I" if kind == "+U" else kind, row) for kind, row in rows])), *plans[1:]]


def in_order(rows: list[Row]) -> list[Row]:
    """Sort rows by key, independent of the order of buckets; rows of one key keep their order."""
    return sorted(rows, key=lambda row: (str(row[1][1]), row[1][0]))


def kinds_and_rows(table: Table, found: pa.Table) -> list[Row]:
    numbers: list[Any] = found.column("_row_kind").to_pylist()
    kinds = [KIND_TEXTS[kind] for kind in numbers]
    data = found.drop_columns(["_row_kind"])
    types = tuple(parse_type(type_to_json(f.type)) for f in table.fields)
    return list(zip(kinds, table_to_rows(data, types), strict=True))


# The other tables cover these options one by one or in pairs; the tests of Spark beside Java cover the rest.
COMBINED = ("none, overwrites read", "none with vectors", "input with vectors", "full compaction", "aggregation")


@pytest.fixture(scope="module", params=each_run(TABLES, lambda name: name not in COMBINED))
def streamed_table(
    request: pytest.FixtureRequest, java_paimon: JavaPaimon, tmp_path_factory: pytest.TempPathFactory
) -> StreamedTable:
    """Table with inserts, updates, deletes, compactions and overwrites."""
    name: str = request.param
    warehouse = tmp_path_factory.mktemp("streams")
    java, ours = java_paimon.table(warehouse, "db.t"), interbed_table(warehouse, "db.t")
    keyed = not name.startswith("append")
    options = {"bucket": "2", "num-sorted-run.compaction-trigger": "3", **TABLES[name]}
    if not keyed and options["bucket"] != "-1":
        options["bucket-key"] = "id"
    keys = ["dt", "id"] if keyed else []
    java.create(COLUMNS, primary_keys=keys, partition_keys=["dt"], options=options)
    source = random.Random(name)
    for step in range(8):
        ids = [source.randrange(12) for _ in range(10)]
        rows = [[i, source.choice(["a", "b"]), source.randrange(5), source.choice(["x", "y", None])] for i in ids]
        kinds = [source.choice(["+I", "+U", "-D"] if keyed and name != "aggregation" else ["+I"]) for _ in rows]
        (ours if step % 2 else java).write(rows, kinds=kinds)
        if step in (2, 5):
            (ours if step == 2 else java).compact(full=True)
        if step == 3:
            java.write([[1, "a", 7, "o"], [2, "a", 8, "o"]], overwrite={"dt": "a"})
        if step == 6:
            table = ours.load()
            data = pa.table({"id": [3], "dt": ["b"], "v": [9], "s": ["o"]}, schema=table.arrow_schema)
            table.overwrite(data, {"dt": "b"})
    return StreamedTable(name, java, warehouse)


def starts(streamed_table: StreamedTable) -> dict[str, dict[str, str]]:
    snapshots = streamed_table.java.snapshots()
    middle = snapshots[len(snapshots) // 2]
    return {
        "default": {},
        "latest-full": {"scan.mode": "latest-full"},
        "full": {"scan.mode": "full"},
        "latest": {"scan.mode": "latest"},
        "compacted-full": {"scan.mode": "compacted-full"},
        "from-snapshot": {"scan.snapshot-id": "1"},
        "from a snapshot in the middle": {"scan.mode": "from-snapshot", "scan.snapshot-id": str(middle["id"])},
        "from-snapshot-full": {"scan.mode": "from-snapshot-full", "scan.snapshot-id": str(middle["id"])},
        "from-timestamp": {"scan.timestamp-millis": str(middle["timeMillis"])},
        "from-creation-timestamp": {"scan.creation-time-millis": str(middle["timeMillis"])},
        "from-creation-timestamp before all, full": {"scan.creation-time-millis": "1"},
        "from-file-creation-time, full": {"scan.file-creation-time-millis": str(middle["timeMillis"])},
        "from the beginning of time": {"scan.mode": "from-timestamp", "scan.timestamp-millis": "1"},
        "from the end of time": {"scan.mode": "from-timestamp", "scan.timestamp-millis": "99999999999999"},
    }


@pytest.mark.sample(3)
def test_streams_equal_javas_from_every_start(streamed_table: StreamedTable) -> None:
    for name, options in starts(streamed_table).items():
        ours, theirs = streamed_table.our_stream(options), streamed_table.java_stream(options)
        if "full" in name or name == "default":
            ours, theirs = with_plain_adds(ours), with_plain_adds(theirs)
        assert ours == theirs, name


@pytest.mark.sample(3)
def test_streams_resume_from_every_checkpoint(streamed_table: StreamedTable) -> None:
    whole = streamed_table.our_stream({"scan.snapshot-id": "1"})
    for restore in (1, 2, 4, 7, 8, streamed_table.last - 1, streamed_table.last, streamed_table.last + 1):
        ours = streamed_table.our_stream({}, restore)
        assert ours == streamed_table.java_stream({}, restore), restore
        assert ours == whole[len(whole) - len(ours) :]


def between(streamed_table: StreamedTable) -> list[dict[str, str]]:
    """Return the options of reads between snapshots."""
    snapshots = streamed_table.java.snapshots()
    times = [snapshots[i]["timeMillis"] for i in (1, len(snapshots) // 2, -1)]
    ranges = [(0, 1), (0, streamed_table.last), (2, 6), (streamed_table.last - 1, streamed_table.last), (3, 3)]
    modes = ["auto", "delta", "changelog"]
    return [
        *({"incremental-between": f"{a},{b}", "incremental-between-scan-mode": m} for a, b in ranges for m in modes),
        {"incremental-between-timestamp": f"{times[0]},{times[1]}"},
        {"incremental-between-timestamp": f"1,{times[2]}"},
        {"incremental-between-timestamp": f"{times[2] + 1},{times[2] + 9}"},
    ]


@pytest.mark.sample(3)
def test_changes_between_snapshots_equal_javas(streamed_table: StreamedTable) -> None:
    if "vectors" in streamed_table.name:
        # Java's batch reads of such tables skip level 0, which has all written rows.
        return
    for options in between(streamed_table):
        rows = streamed_table.java.read(options=options)
        table = streamed_table.table.copy(options)
        found = table.new_change_read().to_reader(table.new_scan().plan().splits).read_all()
        ours = kinds_and_rows(table, found)
        assert sorted(map(repr, ours)) == sorted(map(repr, zip(rows.kinds, rows.rows, strict=True))), options
        shown = table_to_rows(table.scan().to_arrow(), rows.types)
        adds = [row for kind, row in ours if kind in ("+I", "+U")]
        assert sorted(map(repr, shown)) == sorted(map(repr, adds)), options


@pytest.mark.sample(3)
def test_snapshot_differences_equal_the_differences_of_their_rows(streamed_table: StreamedTable) -> None:
    if streamed_table.name.startswith("append"):
        return
    kinds = [s["commitKind"] for s in streamed_table.java.snapshots()]
    for first, last in [(1, 2), (1, 4), (3, streamed_table.last), (5, 8)]:
        options = {"incremental-between": f"{first},{last}", "incremental-between-scan-mode": "diff"}
        table = streamed_table.table.copy(options)
        rows = table.scan().to_arrow().to_pylist()
        before, after = (streamed_table.table.scan(snapshot_id=i).to_arrow().to_pylist() for i in (first, last))
        assert sorted(map(repr, rows)) == sorted(repr(row) for row in after if row not in before)
        differences = streamed_table.table.changes(first + 1, last, mode="diff").to_arrow().to_pylist()
        gone = [row for row in differences if row["_row_kind"] == 3]
        places = {(row["dt"], row["id"]) for row in after}
        lost = [row for row in before if (row["dt"], row["id"]) not in places]
        assert sorted((row["dt"], row["id"]) for row in gone) == sorted((row["dt"], row["id"]) for row in lost)
        if "OVERWRITE" not in kinds[first:last] and streamed_table.name != "aggregation":
            # Java also returns some unchanged rows. It omits rows that an overwrite updated, because sequence numbers
            # start again there, and it returns net changes in place of the written ones.
            of_java = {repr(row) for row in streamed_table.java.read(options=options).rows}
            assert {repr(row) for row in table_to_rows(table.scan().to_arrow(), types_of(table))} <= of_java


def types_of(table: Table | ChangeView) -> tuple[Any, ...]:
    return tuple(parse_type(type_to_json(f.type)) for f in table.fields)


@pytest.mark.sample(4)
@pytest.mark.parametrize("kind", ["audit_log", "binlog"])
def test_audit_log_and_binlog_equal_javas(streamed_table: StreamedTable, kind: str) -> None:
    java = streamed_table.java.peer.table(streamed_table.warehouse, f"db.t${kind}")
    with interbed.load_catalog("test", warehouse=f"file:{streamed_table.warehouse}") as catalog:
        view: Any = catalog.get_table(f"db.t${kind}")
    assert isinstance(view, ChangeView)
    for options in ({}, {"incremental-between": f"0,{streamed_table.last}"}):
        if options and "vectors" in streamed_table.name:
            continue
        theirs = java.read_table(options=options)
        ours = view.copy(options)
        assert (theirs.names, theirs.types) == (tuple(ours.field_names), types_of(ours))
        assert_same_rows(theirs.rows, table_to_rows(ours.scan().to_arrow(), types_of(ours)))
    if "overwrites read" in streamed_table.name and kind == "binlog":
        # Java fails to pack the changes of an overwrite (ClassCastException).
        return
    for options in ({}, {"scan.snapshot-id": "1"}):
        plans = [(checkpoint, rows.rows) for checkpoint, rows in java.stream(options=options).plans]
        streamed = [
            (changes.checkpoint, table_to_rows(changes.to_arrow(), types_of(view)))
            for changes in view.copy(options).stream(idle_seconds=0)
        ]
        assert [checkpoint for checkpoint, _ in plans] == [checkpoint for checkpoint, _ in streamed]
        for (_, theirs_rows), (_, our_rows) in zip(plans, streamed, strict=True):
            assert_same_rows(theirs_rows, our_rows)


def assert_same_rows(left: list[list[Any]], right: list[list[Any]]) -> None:
    assert sorted(map(repr, left)) == sorted(map(repr, right))


INPUT = {"bucket": "1", "changelog-producer": "input", "write-only": "true"}


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"sequence.field": "v"},
        {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"},
        {"merge-engine": "partial-update"},
        {"ignore-delete": "true"},
    ],
    ids=str,
)
def test_changes_of_the_input_have_javas_order(
    java_paimon: JavaPaimon, tmp_path: Path, options: dict[str, str]
) -> None:
    of_java, of_ours = java_paimon.table(tmp_path, "db.java"), java_paimon.table(tmp_path, "db.ours")
    for table in (of_java, of_ours):
        table.create(COLUMNS, primary_keys=["id"], options={**INPUT, **options})
    ours = interbed_table(tmp_path, "db.ours")
    source = random.Random(str(options))
    takes_deletes = "merge-engine" not in options
    for _ in range(3):
        rows = [[source.randrange(5), "a", source.randrange(4), source.choice("xyz")] for _ in range(30)]
        kinds = [source.choice(KIND_TEXTS if takes_deletes else ["+I", "+U"]) for _ in rows]
        of_java.write(rows, kinds=kinds)
        ours.write(rows, kinds=kinds)
    assert ours.last_snapshot_id() == 3
    expected = of_java.changes(1, 3)
    for differences in (of_ours.changes(1, 3), ours.changes(1, 3), interbed_table(tmp_path, "db.java").changes(1, 3)):
        assert (differences.kinds, differences.rows) == (expected.kinds, expected.rows)
    counts = [[s["changelogRecordCount"], s["deltaRecordCount"]] for s in of_java.snapshots()]
    assert [[s["changelogRecordCount"], s["deltaRecordCount"]] for s in of_ours.snapshots()] == counts


def test_consumers_resume_at_the_position_of_the_other(java_paimon: JavaPaimon, tmp_path: Path) -> None:
    java, ours = java_paimon.table(tmp_path, "db.t"), interbed_table(tmp_path, "db.t")
    java.create(COLUMNS, primary_keys=["id"], options={"bucket": "1"})
    options = {"consumer-id": "a-consumer", "consumer.expiration-time": "1 d"}
    java.write([[1, "a", 1, "x"]])
    assert [rows.rows for _, rows in java.stream(options=options, notify=True).plans] == [[[1, "a", 1, "x"]]]
    ours.write([[2, "a", 2, "x"]])
    found = [changes.to_arrow() for changes in ours.load().copy(options).stream(idle_seconds=0)]
    assert [table["id"].to_pylist() for table in found] == [[2]]
    ours.write([[3, "a", 3, "x"]])
    assert [rows.rows for _, rows in java.stream(options=options, notify=True).plans] == [[[3, "a", 3, "x"]]]
    assert list(ours.load().copy(options).stream(idle_seconds=0)) == []
