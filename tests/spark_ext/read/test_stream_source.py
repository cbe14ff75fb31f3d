"""Structured Streaming from tables: start positions, contents, and sizes of batches."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from interbed import load_catalog
from interbed.storage.table.table import Table
from tests.spark_ext.conftest import SparkLake
from tests.support.waits import at_most

CHANGELOG = ", 'changelog-producer' = 'lookup'"
PRIMARY_KEY = "TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1'{options})"


class Reader:
    """A stream into a list: every run reads the available rows, and adds a list of rows for each batch."""

    def __init__(self, lake: SparkLake, checkpoint: Path) -> None:
        self.batches: list[list[tuple[Any, ...]]] = []
        self._lake = lake
        self._checkpoint = checkpoint

    def run(self, table: str, **options: str) -> list[list[tuple[Any, ...]]]:
        """Return the batches of one run, which ends at the newest snapshot at its start."""
        frame = self._lake.spark.readStream.options(**_dotted(options)).table(f"{self._lake.name}.{_quoted(table)}")
        return self.run_frame(frame)

    def run_frame(self, frame: DataFrame) -> list[list[tuple[Any, ...]]]:
        """Return the batches of one run of a data frame."""
        before = len(self.batches)
        with self.started(frame) as query:
            assert query.awaitTermination(at_most(120))
        return self.batches[before:]

    @contextmanager
    def started(self, frame: DataFrame) -> Iterator[StreamingQuery]:
        """Start a run and yield its query."""
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


def _quoted(table: str) -> str:
    return ".".join(f"`{part}`" for part in table.split("."))


def _dotted(options: dict[str, str]) -> dict[str, str]:
    """Translate keyword names to option names: two underscores are a dash, one is a dot."""
    return {name.replace("__", "-").replace("_", "."): value for name, value in options.items()}


@pytest.fixture
def reader(lake: SparkLake, tmp_path: Path) -> Reader:
    return Reader(lake, tmp_path / "checkpoint")


def _table(lake: SparkLake, name: str) -> Table:
    return load_catalog(warehouse=str(lake.warehouse)).get_table(name)


def test_a_stream_begins_with_the_rows_and_continues_with_the_changes(lake: SparkLake, reader: Reader) -> None:
    lake.sql("CREATE TABLE {lake}.db.t (id INT, v STRING)")
    lake.sql("INSERT INTO {lake}.db.t VALUES (1, 'a')")
    lake.sql("INSERT INTO {lake}.db.t VALUES (2, 'b')")

    assert reader.run("db.t") == [[(1, "a"), (2, "b")]]
    lake.sql("INSERT INTO {lake}.db.t VALUES (3, 'c')")
    assert reader.run("db.t") == [[(3, "c")]]
    assert reader.run("db.t") == []


def test_options_of_a_stream_that_do_not_suit_the_table_are_refused(lake: SparkLake, reader: Reader) -> None:
    lake.sql("CREATE TABLE {lake}.db.t (id INT)")
    lake.sql("INSERT INTO {lake}.db.t VALUES (1)")
    with pytest.raises(StreamingQueryException, match=r"needs a primary key.*streaming-read-append-overwrite"):
        reader.run("db.t", streaming__read__overwrite="true")
    assert reader.run("db.t", streaming__read__append__overwrite="true") == [[(1,)]]
    lake.sql("UPDATE {lake}.db.t SET id = 2")
    assert reader.run("db.t", streaming__read__append__overwrite="true") == [[(2,)]]


def test_the_option_of_a_branch_streams_an_existing_branch_with_the_columns_of_the_table(
    lake: SparkLake, reader: Reader
) -> None:
    lake.sql("CREATE TABLE {lake}.db.t (id INT)")
    lake.sql("INSERT INTO {lake}.db.t VALUES (1)")
    with pytest.raises(StreamingQueryException, match="There is no branch 'b'"):
        reader.run("db.t", branch="b")
    _table(lake, "db.t").versions.create_branch("b")
    lake.sql("INSERT INTO {lake}.db.`t$branch_b` VALUES (2)")
    assert reader.run("db.t", branch="b") == [[(2,)]]
    # Both columns have the id 1.
    lake.sql("ALTER TABLE {lake}.db.`t$branch_b` ADD COLUMN of_branch INT")
    lake.sql("ALTER TABLE {lake}.db.t ADD COLUMN of_table INT")
    lake.sql("INSERT INTO {lake}.db.`t$branch_b` VALUES (3, 33)")
    with pytest.raises(StreamingQueryException, match=r"other columns .* Name `t\$branch_b`"):
        reader.run("db.t", branch="b")


def test_batches_are_limited_and_limits_may_change(lake: SparkLake, reader: Reader) -> None:
    lake.sql("CREATE TABLE {lake}.db.t (id INT)")
    for number in range(1, 5):
        lake.sql(f"INSERT INTO {{lake}}.db.t SELECT /*+ COALESCE(1) */ {number}")

    assert reader.run("db.t", read_stream_maxFilesPerTrigger="3") == [[(1,), (2,), (3,)], [(4,)]]
    lake.sql("INSERT INTO {lake}.db.t SELECT /*+ COALESCE(1) */ 5")
    lake.sql("INSERT INTO {lake}.db.t SELECT /*+ COALESCE(1) */ 6")
    assert reader.run("db.t", read_stream_maxRowsPerTrigger="1", read_stream_maxBytesPerTrigger="1") == [[(5,)], [(6,)]]


def test_a_stream_starts_at_the_configured_position(lake: SparkLake, tmp_path: Path) -> None:
    lake.sql("CREATE TABLE {lake}.db.t (id INT)")
    for number in range(1, 4):
        lake.sql(f"INSERT INTO {{lake}}.db.t VALUES ({number})")
    streamed = {
        name: Reader(lake, tmp_path / name).run("db.t", **options)
        for name, options in {
            "latest": {"scan_mode": "latest"},
            "snapshot": {"scan_snapshot__id": "2"},
            "full": {"scan_mode": "from-snapshot-full", "scan_snapshot__id": "2"},
            "time": {"scan_timestamp__millis": "0"},
        }.items()
    }

    assert streamed == {
        "latest": [],
        "snapshot": [[(2,), (3,)]],
        "full": [[(1,), (2,), (3,)]],
        "time": [[(1,), (2,), (3,)]],
    }


def test_a_stream_of_an_empty_table_waits_for_its_first_rows(lake: SparkLake, reader: Reader) -> None:
    lake.sql("CREATE TABLE {lake}.db.t (id INT)")
    assert reader.run("db.t") == []
    lake.sql("INSERT INTO {lake}.db.t VALUES (1)")
    assert reader.run("db.t") == [[(1,)]]


def test_the_table_streams_additions_and_its_audit_log_all_changes(lake: SparkLake, tmp_path: Path) -> None:
    lake.sql(f"CREATE TABLE {{lake}}.db.t (id INT, v STRING) {PRIMARY_KEY.format(options=CHANGELOG)}")
    lake.sql("INSERT INTO {lake}.db.t VALUES (1, 'a'), (2, 'b')")
    table, log, by_path = (Reader(lake, tmp_path / name) for name in ("table", "log", "path"))
    location = _table(lake, "db.t").location
    changelog = lake.spark.readStream.format("paimon").option("read.changelog", "true").load(location)
    assert table.run("db.t") == [[(1, "a"), (2, "b")]]
    assert log.run("db.t$audit_log") == [[("+I", 1, "a"), ("+I", 2, "b")]]
    assert by_path.run_frame(changelog) == log.batches
    lake.sql("INSERT INTO {lake}.db.t VALUES (2, 'B')")

    assert table.run("db.t") == [[(2, "B")]]
    assert log.run("db.t$audit_log") == [[("+U", 2, "B"), ("-U", 2, "b")]]
    assert by_path.run_frame(changelog) == log.batches[-1:]
    with pytest.raises(StreamingQueryException, match=r"stream 'db\.t\$audit_log' instead"):
        Reader(lake, tmp_path / "refused").run("db.t", read_changelog="true")
    with pytest.raises(StreamingQueryException, match="no changes to stream"):
        Reader(lake, tmp_path / "refused").run("db.t$snapshots")


@pytest.mark.long
def test_a_consumer_retains_unread_snapshots(lake: SparkLake, reader: Reader, tmp_path: Path) -> None:
    lake.sql(
        "CREATE TABLE {lake}.db.t (id INT) "
        "TBLPROPERTIES ('snapshot.num-retained.min' = '1', 'snapshot.num-retained.max' = '1')"
    )
    lake.sql("INSERT INTO {lake}.db.t VALUES (1)")
    reader.run("db.t", consumer__id="c")
    # Spark reports a batch as finished when it creates the next one.
    lake.sql("INSERT INTO {lake}.db.t VALUES (2)")
    reader.run("db.t", consumer__id="c")
    assert _table(lake, "db.t").versions.consumers() == {"c": 2}
    for number in (3, 4):
        lake.sql(f"INSERT INTO {{lake}}.db.t VALUES ({number})")

    # Another query continues at the consumer's position.
    assert Reader(lake, tmp_path / "other").run("db.t", consumer__id="c") == [[(2,), (3,), (4,)]]
    without = Reader(lake, tmp_path / "without")
    without.run("db.t")
    for number in (5, 6, 7):
        lake.sql(f"INSERT INTO {{lake}}.db.t VALUES ({number})")
    _table(lake, "db.t").versions.reset_consumer("c")
    lake.sql("INSERT INTO {lake}.db.t VALUES (8)")
    with pytest.raises(StreamingQueryException, match=r"has expired.*another checkpointLocation"):
        without.run("db.t")


@pytest.mark.long
def test_tables_are_read_and_written_by_their_paths(lake: SparkLake, reader: Reader, tmp_path: Path) -> None:
    lake.sql(f"CREATE TABLE {{lake}}.db.t (id INT, v STRING) {PRIMARY_KEY.format(options='')}")
    lake.sql("CREATE TABLE {lake}.db.d (id INT, v STRING) TBLPROPERTIES ('primary-key' = 'id')")
    location, dynamic = (_table(lake, f"db.{name}").location for name in "td")
    rows = lake.spark.sql("SELECT 1 AS id, 'a' AS v UNION ALL SELECT 2, 'b'")
    for path in (location, dynamic):
        rows.write.format("interbed").mode("append").save(path)
    rows.where("id = 1").selectExpr("id", "'A' AS v").write.format("paimon").mode("append").save(location)
    stream = lake.spark.readStream.format("interbed").load(location)
    query = (
        stream.writeStream.format("interbed")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .outputMode("update")
        .trigger(availableNow=True)
        .start(dynamic)
    )
    assert query.awaitTermination(at_most(120))

    assert sorted(map(tuple, lake.spark.read.format("paimon").load(dynamic).collect())) == [(1, "A"), (2, "b")]
    read = lake.spark.read.format("interbed").option("scan.snapshot-id", "1").load(location)
    assert sorted(map(tuple, read.collect())) == [(1, "a"), (2, "b")]
    rows.limit(0).write.format("interbed").mode("overwrite").save(location)
    assert lake.tuples("SELECT * FROM {lake}.db.t") == []
    with pytest.raises(Exception, match="no table at"):
        lake.spark.read.format("interbed").load(str(tmp_path / "nowhere"))


def test_table_functions_return_the_changes_between_snapshots(lake: SparkLake) -> None:
    lake.sql("CREATE TABLE {lake}.db.t (id INT)")
    for number in (1, 2, 3):
        lake.sql(f"INSERT INTO {{lake}}.db.t VALUES ({number})")

    between = "SELECT * FROM paimon_incremental_query('{lake}.db.t', '1', '3') WHERE id > 0 ORDER BY id"
    assert lake.tuples(between) == [(2,), (3,)]
    lake.sql("USE {lake}.db")
    assert lake.tuples("SELECT * FROM paimon_incremental_query('t', 1, 2)") == [(2,)]
    now = 4_000_000_000_000
    timed = f"SELECT count(*) FROM paimon_incremental_between_timestamp('db.t', '0', '{now}')"
    assert lake.tuples(timed) == [(3,)]
    with pytest.raises(Exception, match="takes the name of a table, a start and an end"):
        lake.sql("SELECT * FROM paimon_incremental_query('t', 1)")


@pytest.mark.parametrize("zone", ["Asia/Tokyo", "America/New_York"])
def test_times_of_a_function_are_in_the_time_zone_of_the_session(lake: SparkLake, zone: str) -> None:
    lake.sql("CREATE TABLE {lake}.db.t (id INT)")
    lake.sql("INSERT INTO {lake}.db.t VALUES (1)")
    lake.sql("USE {lake}.db")
    before = lake.spark.conf.get("spark.sql.session.timeZone")
    lake.spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        hour = "INTERVAL 1 HOUR"
        ((start, end),) = lake.tuples(f"SELECT string(now() - {hour}), string(now() + {hour})")
        for first, last in ((f"'{start}'", f"'{end}'"), (f"timestamp'{start}'", f"timestamp'{end}'")):
            timed = f"SELECT id FROM paimon_incremental_between_timestamp('t', {first}, {last})"
            assert lake.tuples(timed) == [(1,)]
        with pytest.raises(Exception, match="takes a time such as"):
            lake.sql("SELECT * FROM paimon_incremental_between_timestamp('t', 'yesterday', 'today')")
    finally:
        lake.spark.conf.set("spark.sql.session.timeZone", str(before))
