"""Streams: their start, their changes, their continuation, and their end."""

import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import interbed
from interbed.storage.base.errors import InvalidInputError, InvalidOptionError, SnapshotNotFoundError
from interbed.storage.base.types.data_type import AtomicType, TypeRoot
from interbed.storage.commit.file_store_commit import FileStoreCommit
from interbed.storage.meta.options.lsm import ChangelogProducer
from interbed.storage.meta.schema.change import AddColumn
from interbed.storage.meta.snapshot.snapshot import CommitKind, Snapshot
from interbed.storage.scan.change_plan import ChangeFiles, SnapshotChangeRules
from interbed.storage.table.table import Table
from interbed.storage.views.stream.micro_batches import MicroBatches
from interbed.storage.views.stream.stream_scan import StreamLimits, StreamScan, TableStream
from tests.support.examples import examples

SCHEMA = pa.schema((pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.string())))


def create(warehouse: Path, *, keyed: bool = True, **options: str) -> Table:
    catalog = interbed.load_catalog("test", warehouse=f"file:{warehouse}")
    catalog.create_database("db", ignore_if_exists=True)
    named = {k.replace("__", ".").replace("_", "-"): v for k, v in options.items()}
    return catalog.create_table(
        "db.t", SCHEMA, primary_keys=["id"] if keyed else [], options={"bucket": "1" if keyed else "-1", **named}
    )


def rows(*ids: int, v: str = "x") -> pa.Table:
    return pa.table({"id": list(ids), "v": [v] * len(ids)}, schema=SCHEMA)


def next_changes(table: Table, scan: StreamScan) -> list[dict[str, Any]] | None:
    plan = scan.plan()
    return None if plan is None else table.new_change_read().to_reader(plan.splits).read_all().to_pylist()


def row(number: int, kind: int = 0, v: str = "x") -> dict[str, Any]:
    return {"id": number, "v": v, "_row_kind": kind}


# -- rules -------------------------------------------------------------------------------------------------------------


def snapshot(kind: CommitKind, *, changelog: bool = False) -> Snapshot:
    return Snapshot(
        id=3,
        schema_id=0,
        base_manifest_list="b",
        delta_manifest_list="d",
        changelog_manifest_list="c" if changelog else None,
        commit_user="u",
        commit_identifier=1,
        commit_kind=kind,
        time_millis=0,
        total_record_count=0,
        delta_record_count=0,
    )


@pytest.mark.parametrize(
    ("keyed", "producer", "overwrites", "kind", "changelog", "expected"),
    [
        (True, "none", False, CommitKind.APPEND, False, ChangeFiles.DELTA),
        (True, "none", False, CommitKind.COMPACT, False, ChangeFiles.NOTHING),
        (True, "none", False, CommitKind.OVERWRITE, False, ChangeFiles.NOTHING),
        (True, "none", True, CommitKind.OVERWRITE, False, ChangeFiles.REPLACED),
        (True, "none", False, CommitKind.ANALYZE, False, ChangeFiles.NOTHING),
        (True, "input", False, CommitKind.APPEND, True, ChangeFiles.CHANGELOG),
        (True, "input", False, CommitKind.APPEND, False, ChangeFiles.NOTHING),
        (True, "input", True, CommitKind.OVERWRITE, False, ChangeFiles.REPLACED),
        (True, "lookup", False, CommitKind.COMPACT, True, ChangeFiles.CHANGELOG),
        (True, "lookup", False, CommitKind.APPEND, False, ChangeFiles.NOTHING),
        (True, "full-compaction", False, CommitKind.COMPACT, True, ChangeFiles.CHANGELOG),
        (False, "none", False, CommitKind.OVERWRITE, False, ChangeFiles.NOTHING),
        (False, "none", True, CommitKind.OVERWRITE, False, ChangeFiles.DELTA),
    ],
)
def test_the_kind_of_commit_and_the_producer_determine_the_files_with_changes(
    keyed: bool, producer: str, overwrites: bool, kind: CommitKind, changelog: bool, expected: ChangeFiles
) -> None:
    rules = SnapshotChangeRules(keyed=keyed, producer=ChangelogProducer(producer), overwrites=overwrites)
    assert rules.files_of(snapshot(kind, changelog=changelog)) is expected


# -- starting ----------------------------------------------------------------------------------------------------------


def test_a_stream_of_an_empty_table_waits_for_its_first_snapshot(tmp_path: Path) -> None:
    table = create(tmp_path)
    streams = {mode: table.copy({"scan.mode": mode}).new_stream_scan() for mode in ("latest-full", "latest")}
    assert all(scan.plan() is None and scan.checkpoint() is None for scan in streams.values())
    table.upsert(rows(1))
    # Rows that arrive while a stream waits are new to it, whether it begins with rows or with changes.
    assert all(next_changes(table, scan) == [row(1)] for scan in streams.values())
    assert [scan.checkpoint() for scan in streams.values()] == [2, 2]


def test_a_stream_of_new_changes_does_not_return_existing_rows(tmp_path: Path) -> None:
    table = create(tmp_path)
    table.upsert(rows(1))
    scan = table.copy({"scan.mode": "latest"}).new_stream_scan()
    assert scan.plan() is None
    assert scan.checkpoint() == 2
    table.upsert(rows(2))
    assert next_changes(table, scan) == [row(2)]


@pytest.mark.parametrize("producer", ["lookup", "full-compaction"])
def test_a_stream_begins_with_the_rows_that_no_later_changelog_will_contain(tmp_path: Path, producer: str) -> None:
    table = create(tmp_path, changelog_producer=producer, write_only="true")
    table.upsert(rows(1))
    table.compact()
    table.upsert(rows(2))
    scan = table.new_stream_scan()
    # Row 2 is in level 0: the next compaction writes it to the changelog, so the stream would return it twice.
    assert next_changes(table, scan) == [row(1)]
    assert scan.plan() is None
    table.compact()
    assert next_changes(table, scan) == [row(2)]


def test_a_mode_of_batch_reads_is_refused(tmp_path: Path) -> None:
    table = create(tmp_path)
    table.upsert(rows(1))
    with pytest.raises(InvalidOptionError, match="batch"):
        table.copy({"incremental-between": "1,2"}).new_stream_scan().plan()
    with pytest.raises(InvalidOptionError, match=r"scan\.snapshot-id"):
        table.copy({"scan.watermark": "5"}).new_stream_scan().plan()


# -- resuming ----------------------------------------------------------------------------------------------------------


@settings(max_examples=examples(12))
@given(seed=st.integers(0, 999))
def test_a_copy_maintained_by_a_restarting_stream_equals_the_table(
    tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    source = random.Random(seed)
    warehouse = tmp_path_factory.mktemp("stream")
    producer = source.choice(["none", "input", "lookup"])
    overwrites = {} if producer == "lookup" else {"streaming-read-overwrite": "true"}
    table = create(warehouse, changelog_producer=producer).copy(overwrites)
    copy: dict[int, str] = {}
    scan, model = table.new_stream_scan(), dict[int, str]()
    for step in range(6):
        ids = source.sample(range(6), 3)
        what = source.choice(["upsert", "upsert", "compact", *(["overwrite"] if overwrites else [])])
        if what == "upsert":
            table.upsert(rows(*ids, v=f"{step}"))
            model.update(dict.fromkeys(ids, f"{step}"))
        elif what == "compact":
            table.compact()
        else:
            table.overwrite(rows(*ids, v=f"{step}"))
            model = dict.fromkeys(ids, f"{step}")
        if source.random() < 0.5:
            checkpoint = scan.checkpoint()
            scan = table.new_stream_scan()
            scan.restore(checkpoint)
        while (changes := next_changes(table, scan)) is not None:
            for change in changes:
                if change["_row_kind"] in (0, 2):
                    copy[change["id"]] = change["v"]
                else:
                    copy.pop(change["id"], None)
        assert copy == model
        assert copy == {r["id"]: r["v"] for r in table.scan().to_arrow().to_pylist()}


def test_a_restored_stream_can_begin_with_the_rows_of_its_snapshot(tmp_path: Path) -> None:
    table = create(tmp_path)
    table.upsert(rows(1))
    table.upsert(rows(2))
    table.upsert(rows(3))
    scan = table.new_stream_scan()
    scan.restore(2, full=True)
    assert scan.checkpoint() is None
    assert next_changes(table, scan) == [row(1), row(2)]
    assert (scan.checkpoint(), next_changes(table, scan)) == (3, [row(3)])


def test_a_stream_whose_snapshot_has_expired_raises_an_error(tmp_path: Path) -> None:
    table = create(tmp_path)
    for number in range(3):
        table.upsert(rows(number))
    for path in ("snapshot-1", "EARLIEST"):
        Path(table.location, "snapshot", path).unlink()
    scan = table.new_stream_scan()
    scan.restore(1)
    with pytest.raises(SnapshotNotFoundError, match=r"snapshot 1, which has expired; the oldest is 2\..*consumer-id"):
        scan.plan()
    scan.restore(9)
    with pytest.raises(SnapshotNotFoundError, match="snapshot 9, but the newest is 3"):
        scan.plan()
    scan.restore(0)
    with pytest.raises(SnapshotNotFoundError, match="snapshot 0: their numbers begin with 1"):
        scan.plan()


def test_changes_are_filtered_and_projected(tmp_path: Path) -> None:
    table = create(tmp_path)
    table.upsert(rows(1, 2, 3))
    table.delete("id = 2")
    stream = table.stream(1, columns=["v"], filter="id > 1", idle_seconds=0)
    assert [c.to_arrow().to_pylist() for c in stream] == [
        [{"v": "x", "_row_kind": 0}, {"v": "x", "_row_kind": 0}],
        [{"v": "x", "_row_kind": 3}],
    ]
    with pytest.raises(InvalidInputError, match="'w'"):
        table.stream(columns=["w"])


def test_a_stream_opened_before_a_column_was_added_does_not_return_it(tmp_path: Path) -> None:
    with interbed.load_catalog("test", warehouse=f"file:{tmp_path}") as catalog:
        table = create(tmp_path)
        table.upsert(rows(1))
        scan = table.new_stream_scan()
        assert next_changes(table, scan) == [row(1)]
        catalog.alter_table("db.t", [AddColumn("w", AtomicType(TypeRoot.INT))])
        wider = catalog.get_table("db.t")
        wider.upsert(pa.table({"id": [2], "v": ["x"], "w": [7]}, schema=wider.arrow_schema))
        assert next_changes(table, scan) == [row(2)]
        # A stream that begins in the past has the present columns.
        past = wider.copy({"scan.snapshot-id": "1"})
        assert [c.to_arrow().column_names[2] for c in past.stream(idle_seconds=0)] == ["w", "w"]


# -- ending ------------------------------------------------------------------------------------------------------------


def commit_at(table: Table, watermark: int, *ids: int) -> None:
    with table.new_write("u") as write:
        write.write_arrow(rows(*ids))
        FileStoreCommit(table.store, "u").commit(write.prepare_commit(), watermark=watermark)


def test_a_bounded_stream_ends_at_its_watermark(tmp_path: Path) -> None:
    table = create(tmp_path)
    for number in range(3):
        commit_at(table, 10 * number, number)
    bounded = table.copy({"scan.bounded.watermark": "10", "scan.snapshot-id": "1"})
    assert [c.to_arrow()["id"].to_pylist() for c in bounded.stream(poll_seconds=0)] == [[0], [1]]
    scan = table.copy({"scan.bounded.watermark": "10"}).new_stream_scan()
    # The newest snapshot is beyond the bound already, so the stream returns only its rows.
    assert next_changes(table, scan) == [row(0), row(1), row(2)]
    assert scan.is_finished
    assert scan.watermark == 20
    assert scan.plan() is None


def test_young_snapshots_are_returned_after_the_delay(tmp_path: Path) -> None:
    table = create(tmp_path, scan__mode="from-snapshot", scan__snapshot_id="1")
    table.upsert(rows(1))
    made = table.snapshots()[0].time_millis
    now = [made + 59_999]
    delayed = table.copy({"streaming.read.snapshot.delay": "1 min"})
    scan = StreamScan(delayed.store, clock=lambda: now[0])
    assert scan.plan() is None
    now[0] += 1
    assert next_changes(table, scan) == [row(1)]


def test_a_stream_polls_until_it_was_idle_for_long_enough(tmp_path: Path) -> None:
    table = create(tmp_path, continuous__discovery_interval="3 s")
    table.upsert(rows(1))
    now, waits = [0.0], list[float]()

    def wait(seconds: float) -> None:
        now[0] += seconds
        waits.append(seconds)
        if len(waits) == 2:
            table.upsert(rows(2))

    plain = table.stream(idle_seconds=8)
    stream = TableStream(
        scan=plain.scan,
        read=plain.read,
        poll_seconds=plain.poll_seconds,
        idle_seconds=plain.idle_seconds,
        now=lambda: now[0],
        wait=wait,
    )
    assert [c.to_arrow()["id"].to_pylist() for c in stream] == [[1], [2]]
    assert waits == [3, 3, 3, 3, 2]


# -- limits and consumers ----------------------------------------------------------------------------------------------


def test_changes_are_returned_in_parts(tmp_path: Path) -> None:
    table = create(tmp_path, keyed=False, source__split__target_size="1 b", source__split__open_file_cost="1 b")
    table.append(rows(1))
    with table.new_write("u") as write:
        messages = []
        for number in range(2, 6):
            write.write_arrow(rows(number))
            messages += write.prepare_commit()
        table.new_commit("u").commit(messages)
    parts = [(c.checkpoint, c.to_arrow()["id"].to_pylist()) for c in table.stream(1, max_splits=2, idle_seconds=0)]
    assert parts == [(2, [1]), (2, [2, 3]), (3, [4, 5])]
    # The initial rows of a stream have a checkpoint only after all of them.
    parts = [(c.checkpoint, c.to_arrow()["id"].to_pylist()) for c in table.stream(max_files=3, idle_seconds=0)]
    assert parts == [(None, [1, 2, 3]), (3, [4, 5])]
    with pytest.raises(InvalidInputError, match="0 splits"):
        StreamLimits(splits=0)


def test_a_consumer_resumes_from_its_progress_which_is_stored_with_the_table(tmp_path: Path) -> None:
    table = create(tmp_path)
    table.upsert(rows(1))
    table.upsert(rows(2))
    consumer = table.copy({"consumer-id": "me", "scan.snapshot-id": "1"})
    file = Path(table.location, "consumer", "consumer-me")
    stream = iter(consumer.stream(idle_seconds=0))
    assert next(stream).to_arrow()["id"].to_pylist() == [1]
    # Changes count as processed when the next ones are requested, and not before.
    assert not file.exists()
    assert next(stream).to_arrow()["id"].to_pylist() == [2]
    assert json.loads(file.read_text())["nextSnapshot"] == 2
    stream.close()
    again = [c.to_arrow()["id"].to_pylist() for c in consumer.stream(idle_seconds=0)]
    assert again == [[2]]
    assert json.loads(file.read_text())["nextSnapshot"] == 3
    anew = consumer.copy({"consumer.ignore-progress": "true"})
    assert len(list(anew.stream(idle_seconds=0))) == 2


@pytest.mark.parametrize("reader", ["stream", "micro-batches"])
def test_a_consumer_whose_snapshots_have_expired_is_refused_until_it_is_reset(tmp_path: Path, reader: str) -> None:
    table = create(tmp_path, changelog_producer="input")
    for number in range(4):
        table.upsert(rows(number))
    table.versions.reset_consumer("c", 2)
    # Java Paimon expires by the time of a consumer's file; `consumer.changelog-only` releases its snapshots, too.
    options = {"consumer.changelog-only": "true"}
    table.copy(options).maintenance.expire_snapshots(retain_max=1, retain_min=1)
    consumer = table.copy({"consumer-id": "c"})

    def read() -> list[Any]:
        if reader == "micro-batches":
            return [MicroBatches(consumer.store).start().snapshot_id]
        return [number for c in consumer.stream(idle_seconds=0) for number in c.to_arrow()["id"].to_pylist()]

    with pytest.raises(SnapshotNotFoundError, match=r"'c' of .* snapshot 2, which has expired; .* reset it to 4"):
        read()
    table.versions.reset_consumer("c", 4)
    assert read() == ([4] if reader == "micro-batches" else [3])
