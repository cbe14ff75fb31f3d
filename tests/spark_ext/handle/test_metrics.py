"""What Spark's status store, and so its UI, tells of scans and commits, under the names of Paimon's connector."""

import re
from typing import Any

from tests.spark_ext.conftest import Lake
from tests.spark_ext.executions import executions_of


def _numbers(shown: str) -> int:
    return int(re.sub(r"[^0-9]", "", shown.split(" ")[0]))


def _told(lake: Lake, statement: str) -> dict[str, int]:
    """The metrics of ours that the last execution of a statement has in the status store, by their descriptions."""
    executions = executions_of(lake, statement)
    session: Any = lake.spark
    store = session._jsparkSession.sharedState().statusStore()
    told: dict[str, int] = {}
    for execution in executions:
        values = store.executionMetrics(execution.executionId())
        metrics = execution.metrics().iterator()
        while metrics.hasNext():
            metric = metrics.next()
            value = values.get(metric.accumulatorId())
            if "interbed.spark" in metric.metricType() and value.isDefined():
                told[metric.name()] = _numbers(value.get())
    return told


def test_scans_and_commits_tell_what_they_met(lake: Lake) -> None:
    lake.sql(
        "CREATE TABLE {lake}.db.t (id INT, v STRING, p INT) PARTITIONED BY (p) "
        "TBLPROPERTIES ('primary-key' = 'id,p', 'bucket' = '2', 'num-sorted-run.compaction-trigger' = '10')"
    )
    written = _told(lake, "INSERT INTO {lake}.db.t SELECT id, 'a', id % 2 FROM range(100)")
    assert written.pop("commit duration") >= 0
    assert written == {
        "number of commit attempts": 1,
        "number of added table files": 4,
        "number of deleted table files": 0,
        "number of inserted records": 100,
        "number of deleted records": 0,
        "number of appended changelog files": 0,
        "number of partitions written": 2,
        "number of buckets written": 4,
    }
    lake.sql("INSERT INTO {lake}.db.t VALUES (2, 'b', 0)")
    read = _told(lake, "SELECT v FROM {lake}.db.t WHERE p = 0 AND v IS NOT NULL")
    assert read.pop("planning duration") >= 0
    assert read.pop("read batch time") >= 0
    assert read.pop("partition size") > 0
    assert read.pop("number of splits read") >= 1
    assert read.pop("number of splits that are merged") == 1
    assert read == {
        "scanned snapshot id": 2,
        "number of scanned manifests": 2,
        "number of skipped table files": 2,
        "number of resulted table files": 3,
        "number of records in them": 51,
    }
    changed = _told(lake, "DELETE FROM {lake}.db.t WHERE id < 4 AND v = 'a'")
    assert changed["number of deleted records"] == 3
    assert changed["number of commit attempts"] == 1
