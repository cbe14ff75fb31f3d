"""Structured Streaming into tables: output modes, exactly-once writes, and refusals."""

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame
from pyspark.sql.streaming.readwriter import DataStreamWriter

from interbed import load_catalog
from interbed.storage.table.table import Table
from tests.spark_ext.conftest import SparkLake
from tests.support.waits import at_most

KEYED = "TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '2')"


def _table(lake: SparkLake, name: str) -> Table:
    return load_catalog(warehouse=str(lake.warehouse)).get_table(name)


def _source(lake: SparkLake, **options: str) -> DataFrame:
    return lake.spark.readStream.options(**options).table(f"{lake.name}.db.s")


def _writer(frame: DataFrame, checkpoint: Path, mode: str = "append") -> DataStreamWriter:
    return frame.writeStream.outputMode(mode).option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)


def _run(lake: SparkLake, frame: DataFrame, checkpoint: Path, table: str, mode: str = "append") -> None:
    query = _writer(frame, checkpoint, mode).toTable(f"{lake.name}.{table}")
    assert query.awaitTermination(at_most(120))


def _forget_last_commit(checkpoint: Path) -> None:
    """Delete Spark's last commit entry, as if the driver had died between the sink's commit and Spark's."""
    last = max(int(f.name) for f in (checkpoint / "commits").iterdir() if f.name.isdecimal())
    (checkpoint / "commits" / str(last)).unlink()
    (checkpoint / "commits" / f".{last}.crc").unlink(missing_ok=True)


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    return tmp_path / "checkpoint"


def test_a_stream_appends_each_batch_once(lake: SparkLake, checkpoint: Path) -> None:
    lake.sql("CREATE TABLE {lake}.db.s (id INT, v STRING)")
    lake.sql("CREATE TABLE {lake}.db.t (id INT, v STRING)")
    lake.sql("INSERT INTO {lake}.db.s VALUES (1, 'a'), (2, 'b')")
    _run(lake, _source(lake), checkpoint, "db.t")
    lake.sql("INSERT INTO {lake}.db.s VALUES (3, 'c')")
    _run(lake, _source(lake), checkpoint, "db.t")
    files = lake.files("db.t")

    # The source has more rows when the batch is run again, which must be the same batch as before.
    lake.sql("INSERT INTO {lake}.db.s VALUES (4, 'd')")
    _forget_last_commit(checkpoint)
    _run(lake, _source(lake), checkpoint, "db.t")

    assert lake.tuples("SELECT * FROM {lake}.db.t ORDER BY id") == [(1, "a"), (2, "b"), (3, "c"), (4, "d")]
    table = _table(lake, "db.t")
    assert [s.commit_identifier for s in table.snapshots()] == [0, 1, 2]
    assert len({s.commit_user for s in table.snapshots()}) == 1
    # The files that the repeated second batch wrote are deleted.
    assert len(lake.files("db.t")) == len(files) + 1
    assert not list(Path(table.location, "snapshot").glob(".write-*"))


def test_the_first_batch_is_the_same_when_it_is_run_again(lake: SparkLake, checkpoint: Path) -> None:
    lake.sql("CREATE TABLE {lake}.db.s (id INT, v STRING)")
    lake.sql("CREATE TABLE {lake}.db.t (id INT, v STRING)")
    lake.sql("INSERT INTO {lake}.db.s VALUES (1, 'a')")
    _run(lake, _source(lake), checkpoint, "db.t")
    lake.sql("INSERT INTO {lake}.db.s VALUES (2, 'b')")
    # Neither Spark nor the table has recorded the write of the batch, but its end offset is logged.
    _forget_last_commit(checkpoint)
    lake.sql("DROP TABLE {lake}.db.t")
    lake.sql("CREATE TABLE {lake}.db.t (id INT, v STRING)")

    _run(lake, _source(lake), checkpoint, "db.t")

    assert lake.tuples("SELECT * FROM {lake}.db.t ORDER BY id") == [(1, "a"), (2, "b")]


def test_a_primary_key_table_accepts_updates(lake: SparkLake, checkpoint: Path) -> None:
    lake.sql("CREATE TABLE {lake}.db.s (word STRING)")
    lake.sql(f"CREATE TABLE {{lake}}.db.t (id STRING, total BIGINT) {KEYED}")
    lake.sql("CREATE TABLE {lake}.db.log (id STRING, total BIGINT)")
    counts = _source(lake).groupBy("word").count().toDF("id", "total")
    lake.sql("INSERT INTO {lake}.db.s VALUES ('a'), ('b'), ('a')")
    _run(lake, counts, checkpoint, "db.t", "update")
    lake.sql("INSERT INTO {lake}.db.s VALUES ('b'), ('c')")
    _run(lake, counts, checkpoint, "db.t", "update")

    assert lake.tuples("SELECT * FROM {lake}.db.t ORDER BY id") == [("a", 2), ("b", 2), ("c", 1)]
    with pytest.raises(StreamingQueryException, match=r"db\.log does not support Update mode"):
        _run(lake, counts, checkpoint.with_name("other"), "db.log", "update")


def test_complete_mode_replaces_the_table_each_time(lake: SparkLake, checkpoint: Path) -> None:
    lake.sql("CREATE TABLE {lake}.db.s (word STRING)")
    lake.sql("CREATE TABLE {lake}.db.t (id STRING, total BIGINT)")
    counts = _source(lake).groupBy("word").count().toDF("id", "total")
    for words in ("('a'), ('b')", "('b')"):
        lake.sql(f"INSERT INTO {{lake}}.db.s VALUES {words}")
        _run(lake, counts, checkpoint, "db.t", "complete")
    snapshots = len(_table(lake, "db.t").snapshots())
    _forget_last_commit(checkpoint)
    _run(lake, counts, checkpoint, "db.t", "complete")

    assert lake.tuples("SELECT * FROM {lake}.db.t ORDER BY id") == [("a", 1), ("b", 2)]
    assert len(_table(lake, "db.t").snapshots()) == snapshots


@pytest.mark.long
def test_columns_are_matched_by_name_and_type(lake: SparkLake, checkpoint: Path) -> None:
    lake.sql("CREATE TABLE {lake}.db.s (V STRING, id BIGINT)")
    lake.sql("CREATE TABLE {lake}.db.t (id INT NOT NULL, v STRING, more DOUBLE)")
    lake.sql("INSERT INTO {lake}.db.s VALUES ('a', 1)")
    _run(lake, _source(lake), checkpoint, "db.t")
    assert lake.tuples("SELECT * FROM {lake}.db.t") == [(1, "a", None)]

    for frame, refusal in (
        (_source(lake).selectExpr("id", "V AS other"), "has no column 'other'"),
        (_source(lake).selectExpr("V AS id"), "'id' is of type string"),
        (_source(lake).selectExpr("V"), "no column 'id', never null"),
    ):
        with pytest.raises(StreamingQueryException, match=refusal):
            _run(lake, frame, checkpoint.with_name("other"), "db.t")


def test_files_of_a_crashed_driver_are_deleted(lake: SparkLake, checkpoint: Path) -> None:
    lake.sql("CREATE TABLE {lake}.db.s (id INT)")
    lake.sql("CREATE TABLE {lake}.db.t (id INT)")
    lake.sql("INSERT INTO {lake}.db.s VALUES (1)")
    _run(lake, _source(lake), checkpoint, "db.t")
    query = json.loads((checkpoint / "metadata").read_text())["id"]
    table = Path(_table(lake, "db.t").location)
    kept = lake.files("db.t")
    (table / "snapshot" / f".write-{query}-dead").touch()
    (table / "bucket-0" / f"data-{query}-dead-1.parquet").touch()
    (table / "bucket-0" / "data-other-dead-1.parquet").touch()
    lake.sql("INSERT INTO {lake}.db.s VALUES (2)")

    _run(lake, _source(lake), checkpoint, "db.t")

    left = lake.files("db.t")
    assert set(kept) < set(left)
    assert "bucket-0/data-other-dead-1.parquet" in left
    assert not [f for f in left if "-dead-1" in f and query in f]
    assert not list((table / "snapshot").glob(".write-*"))


@pytest.mark.long
def test_dynamic_buckets_and_partitions_accept_streams(lake: SparkLake, checkpoint: Path) -> None:
    lake.sql("CREATE TABLE {lake}.db.s (id INT, p STRING)")
    lake.sql(
        "CREATE TABLE {lake}.db.t (id INT, p STRING) PARTITIONED BY (p) "
        "TBLPROPERTIES ('primary-key' = 'id,p', 'bucket' = '-1', 'changelog-producer' = 'lookup')"
    )
    lake.sql("INSERT INTO {lake}.db.s VALUES (1, 'x'), (2, 'y')")
    _run(lake, _source(lake), checkpoint, "db.t")
    lake.sql("INSERT INTO {lake}.db.s VALUES (1, 'x'), (3, 'y')")
    _run(lake, _source(lake), checkpoint, "db.t")

    assert lake.tuples("SELECT * FROM {lake}.db.t ORDER BY id") == [(1, "x"), (2, "y"), (3, "y")]
    changes: Any = _table(lake, "db.t").changes(columns=["id", "p"]).to_arrow()
    assert sorted(changes["_row_kind"].to_pylist()) == [0, 0, 0, 1, 2]
