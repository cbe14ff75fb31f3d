"""Workers of the optimizer as tasks of a Spark job."""

from pathlib import Path

import psutil
import pytest
from pyspark.sql import SparkSession

from interbed.catalog.client.factory import open_catalog
from interbed.spark_ext.optimizer_workers import SparkWorkers, run_workers
from interbed.storage.base.errors import InvalidOptionError
from tests.optimizer.service import lake
from tests.optimizer.service.processes import optimizing


def test_executors_work_for_a_remote_optimizer(spark: SparkSession, tmp_path: Path) -> None:
    options = {"warehouse": str(tmp_path / "lake")}
    with open_catalog("lake", options) as catalog:
        lake.make_tables(catalog)
        for number in range(8):
            lake.write_round(catalog, number)
        with optimizing(tmp_path, options, "--workers", "0") as optimizer:
            run_workers(spark, SparkWorkers(uri=optimizer.uri, workers=2, idle_seconds=3))
            # Snapshots of one table may have expired before another one was compacted.
            compacted: set[str] = set()
            while compacted != set(lake.TABLES):
                process = optimizer.next_process()
                assert process["state"] == "succeeded"
                if process["kind"] != "expire":
                    compacted.add(process["table"])
            assert not psutil.Process(optimizer.process.pid).children()
            optimizer.stop()
        lake.check_rows(catalog, 8)
        lake.check_shape(catalog)


@pytest.mark.long
def test_a_refusal_of_the_optimizer_is_reported(spark: SparkSession, tmp_path: Path) -> None:
    options = {"warehouse": str(tmp_path / "lake")}
    with open_catalog("lake", options) as catalog:
        lake.make_tables(catalog)
        with optimizing(tmp_path, options, "--workers", "0") as optimizer:
            with pytest.raises(Exception, match="There is no group 'nightly'; there are default"):
                run_workers(spark, SparkWorkers(uri=optimizer.uri, workers=1, group="nightly"))
            optimizer.stop()


def test_a_secret_of_the_catalog_is_not_sent_to_executors(spark: SparkSession) -> None:
    for option in ("token", "credential", "header.X-Key"):
        wanted = SparkWorkers(uri="thrift://127.0.0.1:1", workers=1, options={option: "hush", "s3.secret-key": "k"})
        with pytest.raises(InvalidOptionError, match=rf"'{option}' is secret.*token\.provider\.path"):
            run_workers(spark, wanted)
