"""Streams, changes between snapshots, audit log and binlog are Java Paimon's, whoever wrote the table.

Each table has a story of commits by Java and interbed in turns; then both read it from every place where a stream can
start, plan by plan, and go on from every checkpoint.
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
    "none, overwrites told": {"streaming-read-overwrite": "true"},
    "none with vectors": {"deletion-vectors.enabled": "true"},
    "input, overwrites told": {"changelog-producer": "input", "streaming-read-overwrite": "true"},
    "input with vectors": {"changelog-producer": "input", "deletion-vectors.enabled": "true"},
    "lookup": {"changelog-producer": "lookup"},
    "full compaction": {"changelog-producer": "full-compaction"},
    "aggregation": {
        "changelog-producer": "lookup",
        "merge-engine": "aggregation",
        "fields.v.aggregate-function": "sum",
        "fields.s.aggregate-function": "last_value",
    },
    "append, overwrites told": {"streaming-read-append-overwrite": "true"},
    "append without buckets": {"bucket": "-1"},
}

Row = tuple[str, list[Any]]
Plans = list[tuple[int | None, list[Row]]]


@dataclass(frozen=True)
class Story:
    """A table on which all has happened."""

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
    """Additions of the first plan as insertions: Java's rows of a snapshot have the kinds of their records."""
    if not plans:
        return plans
    checkpoint, rows = plans[0]
    return [(checkpoint, in_order([("+I" if kind == "+U" else kind, row) for kind, row in rows])), *plans[1:]]


def in_order(rows: list[Row]) -> list[Row]:
    """Rows so that those of one key stay in their order, whichever order buckets are read in."""
    return sorted(rows, key=lambda row: (str(row[1][1]), row[1][0]))


def kinds_and_rows(table: Table, found: pa.Table) -> list[Row]:
    numbers: list[Any] = found.column("_row_kind").to_pylist()
    kinds = [KIND_TEXTS[kind] for kind in numbers]
    data = found.drop_columns(["_row_kind"])
    types = tuple(parse_type(type_to_json(f.type)) for f in table.fields)
    return list(zip(kinds, table_to_rows(data, types), strict=True))


# What these hold of single options, the others hold of some two of them, or the tests of Spark beside Java do.
COMBINED = ("none, overwrites told", "none with vectors", "input with vectors", "full compaction", "aggregation")


@pytest.fixture(scope="module", params=each_run(TABLES, lambda name: name not in COMBINED))
def story(request: pytest.FixtureRequest, java_paimon: JavaPaimon, tmp_path_factory: pytest.TempPathFactory) -> Story:
    """A table with inserts, updates, deletes, compactions and overwrites."""
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
    return Story(name, java, warehouse)


def starts(story: Story) -> dict[str, dict[str, str]]:
    snapshots = story.java.snapshots()
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
def test_streams_are_javas_wherever_they_start(story: Story) -> None:
    for name, options in starts(story).items():
        ours, theirs = story.our_stream(options), story.java_stream(options)
        if "full" in name or name == "default":
            ours, theirs = with_plain_adds(ours), with_plain_adds(theirs)
        assert ours == theirs, name


@pytest.mark.sample(3)
def test_streams_go_on_from_every_checkpoint(story: Story) -> None:
    whole = story.our_stream({"scan.snapshot-id": "1"})
    for restore in (1, 2, 4, 7, 8, story.last - 1, story.last, story.last + 1):
        ours = story.our_stream({}, restore)
        assert ours == story.java_stream({}, restore), restore
        assert ours == whole[len(whole) - len(ours) :]


def between(story: Story) -> list[dict[str, str]]:
    """Options of reads between snapshots."""
    snapshots = story.java.snapshots()
    times = [snapshots[i]["timeMillis"] for i in (1, len(snapshots) // 2, -1)]
    ranges = [(0, 1), (0, story.last), (2, 6), (story.last - 1, story.last), (3, 3)]
    modes = ["auto", "delta", "changelog"]
    return [
        *({"incremental-between": f"{a},{b}", "incremental-between-scan-mode": m} for a, b in ranges for m in modes),
        {"incremental-between-timestamp": f"{times[0]},{times[1]}"},
        {"incremental-between-timestamp": f"1,{times[2]}"},
        {"incremental-between-timestamp": f"{times[2] + 1},{times[2] + 9}"},
    ]


@pytest.mark.sample(3)
def test_changes_between_snapshots_are_javas(story: Story) -> None:
    if "vectors" in story.name:
        # Java leaves level 0 out in batch reads of such tables, and with it all that was written.
        return
    for options in between(story):
        rows = story.java.read(options=options)
        table = story.table.copy(options)
        found = table.new_change_read().to_reader(table.new_scan().plan().splits).read_all()
        ours = kinds_and_rows(table, found)
        assert sorted(map(repr, ours)) == sorted(map(repr, zip(rows.kinds, rows.rows, strict=True))), options
        shown = table_to_rows(table.scan().to_arrow(), rows.types)
        adds = [row for kind, row in ours if kind in ("+I", "+U")]
        assert sorted(map(repr, shown)) == sorted(map(repr, adds)), options


@pytest.mark.sample(3)
def test_differences_of_snapshots_are_those_of_their_rows(story: Story) -> None:
    if story.name.startswith("append"):
        return
    kinds = [s["commitKind"] for s in story.java.snapshots()]
    for first, last in [(1, 2), (1, 4), (3, story.last), (5, 8)]:
        options = {"incremental-between": f"{first},{last}", "incremental-between-scan-mode": "diff"}
        table = story.table.copy(options)
        rows = table.scan().to_arrow().to_pylist()
        before, after = (story.table.scan(snapshot_id=i).to_arrow().to_pylist() for i in (first, last))
        assert sorted(map(repr, rows)) == sorted(repr(row) for row in after if row not in before)
        told = story.table.changes(first + 1, last, mode="diff").to_arrow().to_pylist()
        gone = [row for row in told if row["_row_kind"] == 3]
        places = {(row["dt"], row["id"]) for row in after}
        lost = [row for row in before if (row["dt"], row["id"]) not in places]
        assert sorted((row["dt"], row["id"]) for row in gone) == sorted((row["dt"], row["id"]) for row in lost)
        if "OVERWRITE" not in kinds[first:last] and story.name != "aggregation":
            # Java tells some rows that are as they were, too; it leaves out what an overwrite updated, because
            # sequence numbers begin anew there; and it takes what was written for the rows that it amounts to.
            of_java = {repr(row) for row in story.java.read(options=options).rows}
            assert {repr(row) for row in table_to_rows(table.scan().to_arrow(), types_of(table))} <= of_java


def types_of(table: Table | ChangeView) -> tuple[Any, ...]:
    return tuple(parse_type(type_to_json(f.type)) for f in table.fields)


@pytest.mark.sample(4)
@pytest.mark.parametrize("kind", ["audit_log", "binlog"])
def test_audit_log_and_binlog_are_javas(story: Story, kind: str) -> None:
    java = story.java.peer.table(story.warehouse, f"db.t${kind}")
    with interbed.load_catalog("test", warehouse=f"file:{story.warehouse}") as catalog:
        view: Any = catalog.get_table(f"db.t${kind}")
    assert isinstance(view, ChangeView)
    for options in ({}, {"incremental-between": f"0,{story.last}"}):
        if options and "vectors" in story.name:
            continue
        theirs = java.read_table(options=options)
        ours = view.copy(options)
        assert (theirs.names, theirs.types) == (tuple(ours.field_names), types_of(ours))
        assert_same_rows(theirs.rows, table_to_rows(ours.scan().to_arrow(), types_of(ours)))
    if "overwrites told" in story.name and kind == "binlog":
        # Java can't pack the changes of an overwrite (ClassCastException).
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
def test_the_input_is_told_in_javas_order(java_paimon: JavaPaimon, tmp_path: Path, options: dict[str, str]) -> None:
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
    for told in (of_ours.changes(1, 3), ours.changes(1, 3), interbed_table(tmp_path, "db.java").changes(1, 3)):
        assert (told.kinds, told.rows) == (expected.kinds, expected.rows)
    counts = [[s["changelogRecordCount"], s["deltaRecordCount"]] for s in of_java.snapshots()]
    assert [[s["changelogRecordCount"], s["deltaRecordCount"]] for s in of_ours.snapshots()] == counts


def test_consumers_go_on_where_the_other_was(java_paimon: JavaPaimon, tmp_path: Path) -> None:
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
