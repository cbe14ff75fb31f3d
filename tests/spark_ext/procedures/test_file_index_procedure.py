"""Files get other indexes by a job on the executors, in one snapshot; a failed job leaves no files."""

from pathlib import Path

import pytest

from tests.spark_ext.conftest import SparkLake


def _indexes(lake: SparkLake) -> list[str]:
    return [str(file) for file in lake.warehouse.rglob("*.index")]


def test_files_are_indexed_by_tasks_and_a_failed_job_leaves_no_files(lake: SparkLake) -> None:
    lake.sql("CREATE TABLE {lake}.db.t (id INT, dt STRING) PARTITIONED BY (dt)")
    lake.sql("INSERT INTO {lake}.db.t SELECT /*+ COALESCE(1) */ id, if(id < 50, 'a', 'b') FROM range(100)")
    lake.sql("INSERT INTO {lake}.db.t VALUES (100, 'a')")
    lake.sql(
        "ALTER TABLE {lake}.db.t SET TBLPROPERTIES "
        "('file-index.bloom-filter.columns' = 'id', 'file-index.in-manifest-threshold' = '1 b')"
    )
    assert lake.tuples("CALL {lake}.sys.rewrite_file_index('db.t', \"dt = 'b'\")") == [(1, 1)]
    shown = "SELECT partition, column_name, index_type FROM {lake}.db.`t$file_indexes`"
    assert lake.tuples(shown) == [("{b}", "id", "bloom-filter")]

    (small,) = [
        path for path, rows in lake.tuples("SELECT file_path, record_count FROM {lake}.db.`t$files`") if rows == 1
    ]
    file = Path(small.removeprefix("file:"))
    content = file.read_bytes()
    file.unlink()
    before = _indexes(lake)
    with pytest.raises(Exception, match=file.name):
        lake.sql("CALL {lake}.sys.rewrite_file_index(table => 'db.t')")
    assert _indexes(lake) == before
    assert list(lake.warehouse.rglob(".write-*")) == []

    file.write_bytes(content)
    assert lake.tuples("CALL {lake}.sys.rewrite_file_index(table => 'db.t')") == [(1, 2)]
    assert lake.tuples("CALL {lake}.sys.rewrite_file_index(table => 'db.t')") == [(0, 0)]
    assert len(_indexes(lake)) == 3
    kinds = lake.tuples("SELECT commit_kind FROM {lake}.db.`t$snapshots` ORDER BY snapshot_id")
    assert kinds == [("APPEND",), ("APPEND",), ("COMPACT",), ("COMPACT",)]
    assert lake.tuples("SELECT count(*), sum(id) FROM {lake}.db.t WHERE id IN (7, 60, 100, 5000)") == [(3, 167)]
