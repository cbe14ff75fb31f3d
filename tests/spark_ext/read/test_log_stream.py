"""Structured Streaming with the option `log`: rows from a table's log in Kafka, before they are committed."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from interbed import load_catalog
from interbed.storage.table.table import Table
from tests.spark_ext.conftest import SparkLake
from tests.storage.log.tables import log_options
from tests.support.servers.kafka import KafkaServer
from tests.support.waits import at_most

DEADLINE_SECONDS = at_most(120)


@pytest.fixture
def table(kafka: KafkaServer, lake: SparkLake) -> Table:
    return _create(kafka, lake, "eventual")


def _create(kafka: KafkaServer, lake: SparkLake, consistency: str) -> Table:
    fields: list[pa.Field[Any]] = [pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.string())]
    topic = f"spark-{lake.name}-{consistency}"
    options = {**log_options(kafka), "bucket": "2", "kafka.topic": topic, "log.consistency": consistency}
    catalog = load_catalog(warehouse=str(lake.warehouse))
    return catalog.create_table("db.t", pa.schema(fields), primary_keys=["id"], options=options)


class BatchRecorder:
    """Recorder of a query's batches in order; a batch that is run again after a restart replaces its first run."""

    def __init__(self) -> None:
        self._batches: dict[int, list[tuple[Any, ...]]] = {}

    @property
    def rows(self) -> list[tuple[Any, ...]]:
        """The rows of all batches."""
        return [row for _, rows in sorted(self._batches.items()) for row in rows]

    def _take(self, batch: DataFrame, number: int) -> None:
        self._batches[number] = [tuple(row) for row in batch.collect()]

    def run(self, frame: DataFrame, checkpoint: Path, enough: Callable[[], bool]) -> None:
        """Run a query until the recorder has enough rows."""
        query: StreamingQuery = (
            frame.writeStream.foreachBatch(self._take).option("checkpointLocation", str(checkpoint)).start()
        )
        try:
            for _ in range(DEADLINE_SECONDS):
                if enough():
                    return
                assert not query.awaitTermination(1), query.exception()
            raise AssertionError(f"The query delivered only {self.rows}.")
        finally:
            query.stop()


def test_rows_are_visible_before_they_are_committed(lake: SparkLake, table: Table, tmp_path: Path) -> None:
    table.upsert([{"id": 1, "v": "a"}])
    frame = lake.spark.readStream.option("log", "true").table(f"{lake.name}.db.t")
    recorder = BatchRecorder()
    with table.new_write("never") as write:
        write.write_arrow(pa.table({"id": [1, 2], "v": ["b", "b"]}))
        write.prepare_commit()
        recorder.run(frame, tmp_path / "checkpoint", lambda: len(recorder.rows) >= 2 and (2, "b") in recorder.rows)
    # Streams deliver uncommitted rows: a row that was never committed is delivered, too.
    table.upsert([{"id": 3, "v": "c"}])
    recorder.run(frame, tmp_path / "checkpoint", lambda: (3, "c") in recorder.rows)
    assert recorder.rows[0] == (1, "a")
    assert sorted(recorder.rows[1:]) == [(1, "a"), (1, "b"), (2, "b"), (3, "c")]


@pytest.mark.long
def test_the_audit_log_has_the_rows_before_changes(lake: SparkLake, table: Table, tmp_path: Path) -> None:
    table.upsert([{"id": 1, "v": "a"}, {"id": 2, "v": "a"}])
    frame = lake.spark.readStream.option("log", "true").table(f"{lake.name}.db.`t$audit_log`")
    recorder = BatchRecorder()
    rows: dict[int, str] = {}

    def are_the_tables() -> bool:
        rows.clear()
        for kind, key, value in recorder.rows:
            held = rows.pop(key, None)
            assert held == (value if kind in ("-U", "-D") else None)
            if kind in ("+I", "+U"):
                rows[key] = value
        return rows == {row["id"]: row["v"] for row in table.to_arrow().to_pylist()}

    recorder.run(frame, tmp_path / "checkpoint", are_the_tables)
    table.upsert([{"id": 1, "v": "b"}])
    table.delete("id = 2")
    recorder.run(frame, tmp_path / "checkpoint", are_the_tables)
    assert {kind for kind, _, _ in recorder.rows} == {"+I", "-U", "+U", "-D"}


@pytest.mark.long
def test_runs_with_an_end_have_the_committed_rows(lake: SparkLake, table: Table, tmp_path: Path) -> None:
    def run() -> list[tuple[Any, ...]]:
        found: list[tuple[Any, ...]] = []
        query = (
            lake.spark.readStream.option("log", "true")
            .table(f"{lake.name}.db.t")
            .writeStream.foreachBatch(lambda batch, _: found.extend(tuple(row) for row in batch.collect()))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(DEADLINE_SECONDS)
        return sorted(found)

    table.upsert([{"id": 1, "v": "a"}])
    assert run() == [(1, "a")]
    with table.new_write("never") as write:
        write.write_arrow(pa.table({"id": [2], "v": ["b"]}))
        write.prepare_commit()
        assert run() == []
    table.upsert([{"id": 3, "v": "c"}])
    assert run() == [(3, "c")]


def test_a_transactional_log_has_the_rows_of_the_files(kafka: KafkaServer, lake: SparkLake, tmp_path: Path) -> None:
    table = _create(kafka, lake, "transactional")
    table.upsert([{"id": 1, "v": "a"}])
    recorder = BatchRecorder()
    frame = lake.spark.readStream.option("log", "true").table(f"{lake.name}.db.t")
    recorder.run(frame, tmp_path / "checkpoint", lambda: recorder.rows == [(1, "a")])
    table.upsert([{"id": 2, "v": "b"}])
    recorder.run(frame, tmp_path / "checkpoint", lambda: recorder.rows == [(1, "a"), (2, "b")])


def test_a_table_without_a_log_is_refused(lake: SparkLake, tmp_path: Path) -> None:
    lake.sql("CREATE TABLE {lake}.db.t (id INT)")
    for value, what in (("true", "no log"), ("perhaps", "true or false")):
        frame = lake.spark.readStream.option("log", value).table(f"{lake.name}.db.t")
        with pytest.raises(Exception, match=what):
            BatchRecorder().run(frame, tmp_path / value, lambda: False)
