"""The system tables of a table in SQL equal those of Python: columns, nullability, rows, projections and filters."""

import interbed
from interbed.storage.views.system.table import SYSTEM_TABLES
from tests.spark_ext.conftest import SparkLake
from tests.support.sql_script import run_script

_ROWS = """
CREATE TABLE {lake}.db.t (id INT NOT NULL, v STRING, day STRING NOT NULL) PARTITIONED BY (day)
  TBLPROPERTIES ('primary-key' = 'id,day', 'bucket' = '2', 'deletion-vectors.enabled' = 'true',
                 'file-index.bloom-filter.columns' = 'v');
INSERT INTO {lake}.db.t SELECT id, string(id), if(id = 0, 'tue', 'mon') FROM range(3000);
CALL {lake}.sys.compact(table => 'db.t', compact_strategy => 'full');
INSERT INTO {lake}.db.t VALUES (1, 'one', 'mon');
CALL {lake}.sys.create_tag('db.t', 'kept');
CALL {lake}.sys.create_branch('db.t', 'b', 'kept');
ANALYZE TABLE {lake}.db.t COMPUTE STATISTICS FOR ALL COLUMNS
"""


_QUESTIONS = """
SELECT count(*), sum(record_count) FROM {lake}.db.`t$files` WHERE level >= 0 AND partition = '{tue}';
-- 1, 1
SELECT max(snapshot_id) FROM {lake}.db.`t$snapshots` WHERE commit_kind = 'APPEND';
-- 3
SELECT DISTINCT i.column_name FROM {lake}.db.`t$file_indexes` i JOIN {lake}.db.`t$files` f USING (file_path);
-- v
SELECT count(*) FROM {lake}.db.`t$files` VERSION AS OF 1;
-- 3
SELECT count(*) > 0 FROM {lake}.db.`t$branch_b$snapshots`;
-- true
"""


def test_every_system_table_is_the_same_in_sql_and_python(lake: SparkLake) -> None:
    for statement in _ROWS.split(";"):
        lake.sql(statement)
    assert run_script(_QUESTIONS, lake.sql) > 3
    with interbed.load_catalog("python", warehouse=str(lake.warehouse)) as catalog:
        catalog.get_table("db.t").versions.reset_consumer("job", 1)
        for kind in (*SYSTEM_TABLES, "audit_log", "binlog", "ro"):
            theirs = catalog.get_table(f"db.t${kind}")
            frame = lake.frame(f"SELECT * FROM {{lake}}.db.`t${kind}`")
            named = [(field.name, field.nullable) for field in frame.schema.fields]
            assert named == [(field.name, field.nullable) for field in theirs.arrow_schema], kind
            rows = theirs.scan().to_arrow()
            assert rows.num_rows > 0, kind
            assert sorted(map(str, frame.toArrow().to_pylist())) == sorted(map(str, rows.to_pylist())), kind
