"""Tables that Java writes: Spark reads their rows, streams and versions, and each deletes orphan files of the other."""

import os
import random
from pathlib import Path

import pytest
from pyspark.sql import DataFrame

from tests.spark_ext.interop.all_readers import AllReaders
from tests.support.peers.json import TypeJson
from tests.support.shares import LONG, each_run
from tests.support.waits import at_most

COLUMNS: list[tuple[str, TypeJson]] = [("id", "INT NOT NULL"), ("dt", "STRING NOT NULL"), ("v", "INT"), ("s", "STRING")]
KEYED = {"bucket": "2", "num-sorted-run.compaction-trigger": "3"}
TABLES: dict[str, dict[str, str]] = {
    "input": {**KEYED, "changelog-producer": "input"},
    "lookup": {**KEYED, "changelog-producer": "lookup", "deletion-vectors.enabled": "true"},
    "full compaction": {**KEYED, "changelog-producer": "full-compaction"},
    "streamed overwrites": {**KEYED, "streaming-read-overwrite": "true"},
    "append": {},
}
STARTS: list[dict[str, str]] = [
    {},
    {"scan.mode": "latest"},
    {"scan.mode": "compacted-full"},
    {"scan.snapshot-id": "2"},
    {"scan.mode": "from-snapshot-full", "scan.snapshot-id": "3"},
    {"scan.timestamp-millis": "1"},
]


def _write(readers: AllReaders, name: str) -> None:
    """Write inserts, updates, deletions, compactions and an overwrite by Java."""
    keyed = "bucket" in TABLES[name]
    java = readers.table("db.t")
    java.create(COLUMNS, primary_keys=["dt", "id"] if keyed else [], partition_keys=["dt"], options=TABLES[name])
    source = random.Random(name)
    for step in range(6):
        rows = [[source.randrange(9), source.choice("ab"), source.randrange(5), source.choice("xy")] for _ in range(6)]
        java.write(rows, kinds=[source.choice(["+I", "+U", "-D"] if keyed else ["+I"]) for _ in rows])
        if step == 2:
            java.compact(full=True)
        if step == 3:
            java.write([[77, "b", 7, "over"]], overwrite={})


@pytest.mark.longer
@pytest.mark.parametrize("name", each_run(TABLES, lambda name: name == "lookup"))
def test_a_stream_of_a_java_table_has_the_changes_of_java(readers: AllReaders, name: str, tmp_path: Path) -> None:
    _write(readers, name)
    readers.agree("db.t")
    location = str(readers.lake.warehouse / "db.db" / "t")
    for number, start in enumerate(STARTS if LONG else STARTS[::2]):
        streamed: list[tuple[str, ...]] = []

        def collect_rows(frame: DataFrame, _: int, streamed: list[tuple[str, ...]] = streamed) -> None:
            streamed.extend(map(tuple, frame.collect()))

        stream = readers.lake.spark.readStream.format("interbed").options(**start).option("read.changelog", "true")
        query = (
            stream.load(location)
            .writeStream.foreachBatch(collect_rows)
            .option("checkpointLocation", str(tmp_path / str(number)))
            .trigger(availableNow=True)
            .start()
        )
        try:
            assert query.awaitTermination(at_most(120))
        finally:
            query.stop()
        plans = readers.table("db.t$audit_log").stream(options=start).plans
        expected = [tuple(row) for _, rows in plans for row in rows.rows]
        assert sorted(streamed, key=repr) == sorted(expected, key=repr), start


def test_versions_of_a_java_table_are_read_by_spark(readers: AllReaders) -> None:
    java = readers.table("db.t")
    java.create(COLUMNS, primary_keys=["id"], options={"bucket": "1", "deletion-vectors.enabled": "true"})
    java.write([[1, "a", 1, "x"], [2, "a", 2, "y"]])
    java.version("create_tag", name="before", snapshot=java.snapshots()[-1]["id"])
    java.version("create_branch", name="b", tag="before")
    java.alter(
        {"op": "rename", "path": ["s"], "to": "text"},
        {"op": "update_type", "path": ["v"], "type": "BIGINT"},
        {"op": "add", "path": ["extra"], "type": {"type": "ARRAY", "element": "INT"}, "first": True},
    )
    java.write([[[1, None], 2, "a", 2**40, "new"]])
    readers.table("db.t$branch_b").write([[3, "b", 3, "of the branch"]])
    for version in (None, "before"):
        readers.agree("db.t", version=version, pypaimon=False)
    assert len(readers.agree("db.t$branch_b", pypaimon=False)) == 3
    java.alter({"op": "drop", "path": ["text"]})
    readers.agree("db.t", pypaimon=False)
    java.version("rollback", name="before")
    assert len(readers.agree("db.t", pypaimon=False)) == 2


@pytest.mark.long
def test_java_deletes_orphans_of_spark_and_keeps_named_versions(readers: AllReaders) -> None:
    readers.sql(
        "CREATE TABLE {lake}.db.t (id INT NOT NULL, v INT) "
        "TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1', 'changelog-producer' = 'lookup')"
    )
    for number in range(5):
        readers.sql(f"INSERT INTO {{lake}}.db.t VALUES (1, {number}), ({number}, 0)")
        if number == 1:
            readers.sql("CALL {lake}.sys.create_tag('db.t', 'kept')")
            readers.sql("CALL {lake}.sys.create_branch('db.t', 'side', 'kept')")
    kept, now = readers.agree("db.t", version="kept"), readers.agree("db.t")
    stray = readers.lake.warehouse / "db.db" / "t" / "bucket-0" / "data-stray-0.parquet"
    stray.write_bytes(b"left")
    java = readers.table("db.t")
    java.version("expire", left=1)
    # Java does not know the lock file of writers on one machine; its deletion loses nothing.
    assert set(java.version("orphans")["files"]) - {".commit-turn"} == {stray.name}
    assert len(java.snapshots()) == 1
    assert readers.agree("db.t") == now
    assert readers.agree("db.t", version="kept") == kept
    assert readers.agree("db.t$branch_side", pypaimon=False) == kept
    java.version("rollback", name="kept")
    assert readers.agree("db.t") == kept


def test_spark_deletes_orphans_of_java_and_keeps_named_versions(readers: AllReaders) -> None:
    java = readers.table("db.t")
    java.create(COLUMNS, primary_keys=["id"], options={"bucket": "1", "changelog-producer": "lookup"})
    for number in range(5):
        java.write([[1, "a", number, "x"], [number, "b", 0, "y"]])
        if number == 1:
            java.version("create_tag", name="kept", snapshot=java.snapshots()[-1]["id"])
            java.version("create_branch", name="side", tag="kept")
    kept, now = readers.agree("db.t", version="kept"), readers.agree("db.t")
    stray = readers.lake.warehouse / "db.db" / "t" / "bucket-0" / "data-stray-0.parquet"
    stray.write_bytes(b"left")
    os.utime(stray, (1, 1))
    readers.sql("CALL {lake}.sys.expire_snapshots(table => 'db.t', retain_max => 1, retain_min => 1)")
    removed = readers.sql("CALL {lake}.sys.remove_orphan_files(table => 'db.t', older_than => '2000-01-01 00:00:00')")
    assert (tuple(removed[0]), stray.exists()) == ((1, 4), False)
    # Nothing is left for Java but the lock file of writers on one machine.
    assert set(java.version("orphans")["files"]) <= {".commit-turn"}
    assert len(java.snapshots()) == 1
    assert readers.agree("db.t") == now
    assert readers.agree("db.t", version="kept") == kept
    assert readers.agree("db.t$branch_side", pypaimon=False) == kept
    readers.sql("CALL {lake}.sys.rollback('db.t', 'kept')")
    assert readers.agree("db.t") == kept
    readers.sql("CALL {lake}.sys.delete_branch('db.t', 'side')")
    readers.sql("CALL {lake}.sys.delete_tag('db.t', 'kept')")
    answer = java.version("tags")
    assert (answer["tags"], answer["branches"]) == ({}, [])
    java.write([[9, "c", 9, "z"]])
    assert len(readers.agree("db.t")) == len(kept) + 1
