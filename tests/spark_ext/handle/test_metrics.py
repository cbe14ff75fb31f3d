"""Metrics of scans and commits in Spark's status store and UI, under the names of Paimon's connector."""

import re
from typing import Any

from tests.spark_ext.conftest import SparkLake
from tests.spark_ext.executions import executions_of


def _numbers(shown: str) -> int:
    return int(re.sub(r"[^0-9]", "", shown.split(" ")[0]))


def _metrics_of(lake: SparkLake, statement: str) -> dict[str, int]:
    """Run a statement and return interbed's metrics of its last execution from the status store, by description."""
    executions = executions_of(lake, statement)
    session: Any = lake.spark
    store = session._jsparkSession.sharedState().statusStore()
    metrics_found: dict[str, int] = {}
    for execution in executions:
        values = store.executionMetrics(execution.executionId())
        metrics = execution.metrics().iterator()
        while metrics.hasNext():
            metric = metrics.next()
            value = values.get(metric.accumulatorId())
            if "interbed.spark" in metric.metricType() and value.isDefined():
                metrics_found[metric.name()] = _numbers(value.get())
    return metrics_found


def test_scans_and_commits_report_metrics(lake: SparkLake) -> None:
    lake.sql(
        "CREATE TABLE {lake}.db.t (id INT, v STRING, p INT) PARTITIONED BY (p) "
        "TBLPROPERTIES ('primary-key' = 'id,p', 'bucket' = '2', 'num-sorted-run.compaction-trigger' = '10')"
    )
    written = _metrics_of(lake, "INSERT INTO {lake}.db.t SELECT id, 'a', id % 2 FROM range(100)")
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
    read = _metrics_of(lake, "SELECT v FROM {lake}.db.t WHERE p = 0 AND v IS NOT NULL")
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
    changed = _metrics_of(lake, "DELETE FROM {lake}.db.t WHERE id < 4 AND v = 'a'")
    assert changed["number of deleted records"] == 3
    assert changed["number of commit attempts"] == 1
