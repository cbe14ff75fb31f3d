"""The order in which Spark starts the tasks of a compaction, without Spark."""

from pathlib import Path

import pyarrow as pa

import interbed
from interbed.spark_ext.procedures.procedure import Job, ProcedureCall
from interbed.spark_ext.procedures.registry import PROCEDURES
from interbed.storage.upkeep.compact_tasks import CompactionTask

OPTIONS = {"bucket": "1", "write-only": "true"}
SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False)])


def _call(warehouse: Path, name: str, **arguments: str) -> ProcedureCall:
    return ProcedureCall(
        procedure=PROCEDURES[name],
        catalog=interbed.load_catalog("lake", warehouse=str(warehouse)),
        catalog_name="lake",
        catalog_options={"warehouse": str(warehouse)},
        namespace="default",
        arguments=arguments,
    )


def test_the_longest_task_of_all_tables_comes_first_and_results_stay_with_their_table(tmp_path: Path) -> None:
    catalog = interbed.load_catalog("lake", warehouse=str(tmp_path))
    catalog.create_database("db")
    rows = {"a": 100, "b": 50_000, "c": 3_000}
    for name, count in rows.items():
        table = catalog.create_table(f"db.{name}", SCHEMA, primary_keys=["id"], options=OPTIONS)
        for _ in range(2):
            table.upsert(pa.table({"id": range(count)}))
    call = _call(tmp_path, "compact_database")
    procedure = call.procedure
    assert procedure.run_task is not None
    assert procedure.resume is not None

    job = procedure.call(call)
    assert isinstance(job, Job)
    costs = [CompactionTask.from_bytes(task[4:]).cost for task in job.tasks]
    answer = procedure.resume(call, job.token, [procedure.run_task(job.shared, task) for task in job.tasks])

    assert costs == sorted(costs, reverse=True)
    assert len(set(costs)) == 3
    assert answer == [("Compact database finished. Success: 3, Failed: 0",)]
    for name, count in rows.items():
        table = catalog.get_table(f"db.{name}")
        assert (table.scan().count(), len(table.levels().levels)) == (count, 1)
