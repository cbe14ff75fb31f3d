"""Structured Streaming from tables: where streams begin, what they tell, and how large their batches are."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql.streaming import StreamingQuery

from interbed import load_catalog
from interbed.storage.table import Table
from tests.spark_ext.conftest import Lake

PRIMARY_KEY = "TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1'{options})"


class Reader:
    """A stream into a list: every run takes what there is, and adds a list of rows for each batch."""

    def __init__(self, lake: Lake, checkpoint: Path) -> None:
        self.batches: list[list[tuple[Any, ...]]] = []
        self._lake = lake
        self._checkpoint = checkpoint

    def run(self, table: str, **options: str) -> list[list[tuple[Any, ...]]]:
        """The batches of one run, which ends where the table is at its start."""
        frame = self._lake.spark.readStream.options(**_dotted(options)).table(f"{self._lake.name}.{table}")
        return self.run_frame(frame)

    def run_frame(self, frame: DataFrame) -> list[list[tuple[Any, ...]]]:
        """The batches of one run of a data frame."""
        before = len(self.batches)
        with self.started(frame) as query:
            query.awaitTermination(60)
        return self.batches[before:]

    @contextmanager
    def started(self, frame: DataFrame) -> Iterator[StreamingQuery]:
        """A run that is under way."""
        query = (
            frame.writeStream.foreachBatch(self._take)
            .option("checkpointLocation", str(self._checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        try:
            yield query
        finally:
            query.stop()

    def _take(self, frame: DataFrame, _: int) -> None:
        self.batches.append(sorted(tuple(row) for row in frame.collect()))


def _dotted(options: dict[str, str]) -> dict[str, str]:
    """Names of Python as names of options: two underscores are a dash, one is a dot."""
    return {name.replace("__", "-").replace("_", "."): value for name, value in options.items()}


@pytest.fixture
def reader(lake: Lake, tmp_path: Path) -> Reader:
    return Reader(lake, tmp_path / "checkpoint")


def _table(lake: Lake, name: str) -> Table:
    return load_catalog(warehouse=str(lake.warehouse)).get_table(name)


def test_a_stream_begins_with_the_rows_and_goes_on_with_the_changes(lake: Lake, reader: Reader) -> None:
    lake.sql("CREATE TABLE {lake}.db.t (id INT, v STRING)")
    lake.sql("INSERT INTO {lake}.db.t VALUES (1, 'a')")
    lake.sql("INSERT INTO {lake}.db.t VALUES (2, 'b')")

    assert reader.run("db.t") == [[(1, "a"), (2, "b")]]
    lake.sql("INSERT INTO {lake}.db.t VALUES (3, 'c')")
    assert reader.run("db.t") == [[(3, "c")]]
    assert reader.run("db.t") == []
