"""Failed jobs and tasks leave no visible row and no file."""

import threading

import pytest

from interbed import load_catalog
from tests.spark_ext.conftest import SparkLake
from tests.support.waits import at_most, wait_until


def _until_no_files(lake: SparkLake) -> None:
    """Wait until the table has no files: the worker of a killed task deletes its files a little later."""
    wait_until(lambda: not lake.files("db.t"), lambda: f"no file is left, but {lake.files('db.t')}")


def _snapshots(lake: SparkLake) -> int:
    return len(load_catalog(warehouse=str(lake.warehouse)).get_table("db.t").snapshots())


@pytest.fixture
def table(lake: SparkLake) -> SparkLake:
    """A catalog with an append table whose writers flush often."""
    lake.sql("CREATE TABLE {lake}.db.t (id BIGINT, v STRING) TBLPROPERTIES ('write-buffer-size' = '1 mb')")
    return lake


def test_a_failed_task_deletes_its_files_and_those_of_its_job(table: SparkLake) -> None:
    # The first task has ten rows and is finished long before the second one fails.
    with pytest.raises(Exception, match="fails on purpose"):
        table.sql(
            "INSERT INTO {lake}.db.t "
            "SELECT id, IF(id = 159000, raise_error('fails on purpose'), repeat('x', 50)) FROM range(0, 160000, 1, 2) "
            "WHERE id >= 79990"
        )

    assert _snapshots(table) == 0
    _until_no_files(table)


def test_an_error_in_python_fails_the_job_with_its_own_message(table: SparkLake) -> None:
    (table.warehouse / "db.db/t/bucket-0").write_text("a file in the way of the directory")

    with pytest.raises(Exception, match="bucket-0"):
        table.sql("INSERT INTO {lake}.db.t VALUES (1, 'a')")

    assert _snapshots(table) == 0


def test_a_cancelled_job_deletes_its_files(table: SparkLake) -> None:
    context = table.spark.sparkContext
    failures: list[BaseException] = []

    def insert() -> None:
        context.setJobGroup("cancelled", "a write to be cancelled", interruptOnCancel=True)
        try:
            table.sql("INSERT INTO {lake}.db.t SELECT id, uuid() FROM range(0, 1000000000, 1, 2)")
        except Exception as error:  # noqa: BLE001 - kept for the test's thread.
            failures.append(error)

    thread = threading.Thread(target=insert)
    thread.start()
    wait_until(lambda: len(table.files("db.t")) >= 2)
    context.cancelJobGroup("cancelled")
    thread.join(at_most(60))

    assert not thread.is_alive()
    assert len(failures) == 1
    assert _snapshots(table) == 0
    _until_no_files(table)
