"""Tables that other writers change during a query: statements run again, and cached data are refreshed."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame
from pyspark.sql.functions import col, concat, expr
from pyspark.sql.types import BooleanType

from interbed import load_catalog
from interbed.storage.table.table import Table
from tests.spark_ext.conftest import SparkLake

SOURCES = str(Path(__file__).parents[3] / "src")


def _table(lake: SparkLake) -> Table:
    return load_catalog(warehouse=str(lake.warehouse)).get_table("db.t")


@pytest.fixture
def meddling(lake: SparkLake, tmp_path: Path) -> Iterator[SparkLake]:
    """A catalog with two files in `db.t`; the function `meddled` is true, and replaces both files at its first call."""
    lake.sql("CREATE TABLE {lake}.db.t (id BIGINT, v STRING) TBLPROPERTIES ('deletion-vectors.enabled' = 'false')")
    lake.sql("INSERT INTO {lake}.db.t VALUES (1, 'a')")
    lake.sql("INSERT INTO {lake}.db.t VALUES (2, 'b')")
    done = tmp_path / "meddled"
    program = f"""
import interbed
table = interbed.load_catalog(warehouse={str(lake.warehouse)!r}).get_table("db.t")
table.compact(full=True)
table.maintenance.expire_snapshots(retain_max=1, retain_min=1)
"""
    # The workers of Spark's own functions run in another Python, which lacks interbed.
    command = [sys.executable, "-c", program]

    def meddled(_: int) -> bool:
        if not done.exists():
            done.touch()
            subprocess.run(command, check=True, env={"PYTHONPATH": SOURCES})
        return True

    lake.spark.udf.register("meddled", meddled, BooleanType())
    yield lake
    lake.spark.sql("DROP TEMPORARY FUNCTION meddled")


def test_a_statement_whose_files_expire_while_a_task_rewrites_them_runs_again(meddling: SparkLake) -> None:
    meddling.sql("UPDATE {lake}.db.t SET v = concat(v, '+') WHERE meddled(id)")

    assert meddling.tuples("SELECT id, v FROM {lake}.db.t ORDER BY id") == [(1, "a+"), (2, "b+")]
    assert [s.commit_kind for s in _table(meddling).snapshots()] == ["COMPACT", "OVERWRITE"]


@pytest.mark.parametrize("options", ["'primary-key' = 'id', 'bucket' = '1'", "'deletion-vectors.enabled' = 'true'"])
def test_rows_of_a_snapshot_that_is_rolled_back_meanwhile_are_not_written(
    lake: SparkLake, options: str, tmp_path: Path
) -> None:
    lake.sql(f"CREATE TABLE {{lake}}.db.t (id INT, v INT) TBLPROPERTIES ({options})")
    lake.sql("INSERT INTO {lake}.db.t VALUES (1, 1)")
    lake.sql("INSERT INTO {lake}.db.t VALUES (2, 2)")
    done = tmp_path / "rolled-back"
    program = f"""
import interbed
table = interbed.load_catalog(warehouse={str(lake.warehouse)!r}).get_table("db.t")
table.versions.rollback_to(1)
table.append([{{"id": 3, "v": 3}}])
"""
    command = [sys.executable, "-c", program]

    def rolled_back(value: int) -> bool:
        # Another commit gets the id of the one that is withdrawn.
        if not done.exists():
            done.touch()
            subprocess.run(command, check=True, env={"PYTHONPATH": SOURCES})
        return True

    lake.spark.udf.register("rolled_back", rolled_back, BooleanType())
    lake.sql("UPDATE {lake}.db.t SET v = v + 10 WHERE rolled_back(v)")
    lake.spark.sql("DROP TEMPORARY FUNCTION rolled_back")

    assert lake.tuples("SELECT id, v FROM {lake}.db.t ORDER BY id") == [(1, 11), (3, 13)]


def _merge(lake: SparkLake, source: DataFrame) -> None:
    """Append the source's `w` to the values of its keys, while `meddled` replaces the target's files."""
    matches = (col("t.id") == source["id"]) & expr("meddled(t.id)")
    changed = {"v": concat(col("t.v"), source["w"])}
    source.mergeInto(f"{lake.name}.db.t", matches).whenMatched().update(changed).merge()


@pytest.mark.long
def test_a_merge_of_a_frame_runs_again(meddling: SparkLake) -> None:
    _merge(meddling, meddling.spark.createDataFrame([(1, "x"), (2, "y")], "id BIGINT, w STRING"))

    assert meddling.tuples("SELECT id, v FROM {lake}.db.t ORDER BY id") == [(1, "ax"), (2, "by")]
    assert [s.commit_kind for s in _table(meddling).snapshots()] == ["COMPACT", "OVERWRITE"]
    # EXPLAIN does not run it.
    meddling.sql("EXPLAIN MERGE INTO {lake}.db.t t USING (SELECT 1 AS id) s ON t.id = s.id WHEN MATCHED THEN DELETE")
    assert meddling.tuples("SELECT count(*) FROM {lake}.db.t") == [(2,)]


@pytest.mark.long
def test_a_merge_of_a_frame_read_from_its_target_does_not_run_again(meddling: SparkLake) -> None:
    # The frame below the last step keeps the plan from its creation.
    source = meddling.frame("SELECT id + 0 AS id, concat(v, v) AS w FROM {lake}.db.t").select("id", "w")

    with pytest.raises(Exception, match=r"expired while it was being read|[Cc]onflict"):
        _merge(meddling, source)
    assert meddling.tuples("SELECT id, v FROM {lake}.db.t ORDER BY id") == [(1, "a"), (2, "b")]
    assert [s.commit_kind for s in _table(meddling).snapshots()] == ["COMPACT"]


def test_a_query_whose_files_expire_reports_it(meddling: SparkLake) -> None:
    frame = meddling.frame("SELECT count(*), sum(id) FROM {lake}.db.t WHERE v IS NOT NULL")
    frame.explain()
    _table(meddling).compact(full=True)
    _table(meddling).maintenance.expire_snapshots(retain_max=1, retain_min=1)
    meddling.spark.conf.set("spark.sql.parquet.enableVectorizedReader", "false")
    try:
        with pytest.raises(Exception, match=r"Snapshot 2 of 'db\.t' expired while it was being read"):
            frame.collect()
    finally:
        meddling.spark.conf.unset("spark.sql.parquet.enableVectorizedReader")


def test_cached_tables_show_the_result_of_a_procedure_or_statement(lake: SparkLake) -> None:
    lake.sql("CREATE TABLE {lake}.db.t (id BIGINT, p INT) PARTITIONED BY (p)")
    lake.sql("INSERT INTO {lake}.db.t VALUES (1, 1)")
    lake.sql("INSERT INTO {lake}.db.t VALUES (2, 2)")
    lake.sql("CACHE TABLE {lake}.db.t")
    seen = "SELECT id FROM {lake}.db.t ORDER BY id"
    try:
        assert lake.tuples(seen) == [(1,), (2,)]
        lake.sql("CALL {lake}.sys.rollback(table => 'db.t', version => '1')")
        assert lake.tuples(seen) == [(1,)]
        lake.sql("INSERT INTO {lake}.db.t VALUES (3, 3)")
        lake.sql("UPDATE {lake}.db.t SET id = 4 WHERE id = 1")
        assert lake.tuples(seen) == [(3,), (4,)]
        lake.sql("ALTER TABLE {lake}.db.t DROP PARTITION (p = 3)")
        assert lake.tuples(seen) == [(4,)]
        lake.sql("CALL {lake}.sys.purge_files('db.t')")
        assert lake.tuples(seen) == []
    finally:
        lake.sql("UNCACHE TABLE IF EXISTS {lake}.db.t")


def test_cached_tables_have_the_columns_of_an_alter_statement(lake: SparkLake) -> None:
    lake.sql("CREATE TABLE {lake}.db.t (id BIGINT, a INT)")
    lake.sql("INSERT INTO {lake}.db.t VALUES (1, 2)")
    lake.sql("CACHE TABLE {lake}.db.t")
    try:
        lake.sql("ALTER TABLE {lake}.db.t RENAME COLUMN a TO b")
        assert lake.tuples("SELECT b FROM {lake}.db.t") == [(2,)]
        lake.sql("ALTER TABLE {lake}.db.t ADD COLUMN a INT")
        assert lake.tuples("SELECT id, b, a FROM {lake}.db.t") == [(1, 2, None)]
        lake.sql("ALTER TABLE {lake}.db.t DROP COLUMN b")
        assert lake.frame("SELECT * FROM {lake}.db.t").columns == ["id", "a"]
    finally:
        lake.sql("UNCACHE TABLE IF EXISTS {lake}.db.t")


def test_a_frame_of_a_table_that_is_created_again_does_not_read_the_other_one(lake: SparkLake) -> None:
    lake.sql("CREATE TABLE {lake}.db.t (id BIGINT)")
    lake.sql("INSERT INTO {lake}.db.t VALUES (1)")
    of_first, unread = lake.frame("SELECT * FROM {lake}.db.t"), lake.frame("SELECT * FROM {lake}.db.t")
    lake.sql("INSERT INTO {lake}.db.t VALUES (2)")
    lake.sql("ALTER TABLE {lake}.db.t ADD COLUMN more INT")
    lake.sql("CREATE OR REPLACE TABLE {lake}.db.t (id BIGINT)")
    lake.sql("INSERT INTO {lake}.db.t VALUES (3)")
    assert [tuple(row) for row in of_first.collect()] == [(3,)]
    lake.sql("DROP TABLE {lake}.db.t")
    lake.sql("CREATE TABLE {lake}.db.t (id BIGINT)")
    lake.sql("INSERT INTO {lake}.db.t VALUES (4)")
    with pytest.raises(Exception, match="Table ID has changed"):
        unread.collect()
    assert lake.tuples("SELECT * FROM {lake}.db.t") == [(4,)]


@pytest.mark.long
def test_fully_compacted_data_are_read_at_the_newest_snapshot(lake: SparkLake) -> None:
    make = "TABLE {lake}.db.t TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1') AS SELECT id FROM range"
    lake.sql(f"CREATE {make}(3)")
    shown = "SELECT count(*), max(id) FROM {lake}.db.`t$ro`"

    assert lake.tuples(shown) == [(0, None)]
    lake.sql("CALL {lake}.sys.compact(table => 'db.t')")
    lake.sql("INSERT INTO {lake}.db.t VALUES (9)")
    assert lake.tuples(shown) == [(3, 2)]
    # New rows replace all existing rows, so the table is fully compacted.
    lake.sql(f"CREATE OR REPLACE {make}(5)")
    assert lake.tuples(shown) == [(5, 4)]
    lake.sql("INSERT OVERWRITE {lake}.db.t VALUES (7)")
    assert lake.tuples("SELECT id FROM {lake}.db.`t$ro`") == [(7,)]


@pytest.mark.long
def test_new_rows_of_a_merge_are_written_by_several_tasks(lake: SparkLake) -> None:
    lake.sql("CREATE TABLE {lake}.db.t (id BIGINT, v STRING) TBLPROPERTIES ('deletion-vectors.enabled' = 'false')")
    lake.sql("INSERT INTO {lake}.db.t VALUES (1, 'old'), (2, 'old')")
    lake.spark.conf.set("spark.sql.adaptive.enabled", "false")
    try:
        lake.sql(
            "MERGE INTO {lake}.db.t t USING (SELECT id, 'new' AS v FROM range(1, 100)) s ON t.id = s.id "
            "WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT *"
        )
    finally:
        lake.spark.conf.unset("spark.sql.adaptive.enabled")

    assert lake.tuples("SELECT count(*), count(DISTINCT id), min(v) FROM {lake}.db.t") == [(99, 99, "new")]
    files = [f.row_count for s in _table(lake).new_scan().plan().splits for f in s.files]
    assert len(files) == 4
    assert min(files) > 10
