"""`sys.compact` of an Iceberg table: units of work are tasks on executors, and the planner commits the results.

When the job or its commit fails, the files with the job's name are deleted. Needs the extra `interbed[iceberg]`.
"""

import json
from collections.abc import Sequence
from typing import Any

from interbed.catalog.client.errors import TableModifiedError
from interbed.iceberg.commit.home import sync_files
from interbed.iceberg.commit.replace import commit_replacement
from interbed.iceberg.optimize.compact import (
    JobPlace,
    OptimizePlan,
    outcome_from_bytes,
    outcome_to_bytes,
    plan_optimization,
    unit_from_bytes,
    unit_to_bytes,
)
from interbed.iceberg.optimize.planner import sweep
from interbed.iceberg.optimize.run_unit import run_unit
from interbed.iceberg.table import IcebergTable
from interbed.spark_ext.procedures.procedure import DONE, Answer, Job, ProcedureCall
from interbed.storage.base.errors import CommitStateUnknownError

MARK = b"iceberg:"
"""Prefix of the shared part and the token of such a job."""

_MODES = ("minor", "major", "full")


def compact_iceberg(call: ProcedureCall, table: IcebergTable) -> Answer:
    """Return the job of a compaction, or DONE when there is nothing to do."""
    for argument in ("options", "partition_idle_time", "buckets"):
        if call.given(argument) is not None:
            raise call.error(argument, "does not go with an Iceberg table")
    mode = str(call.given("compact_strategy") or "full").lower()
    if mode not in _MODES:
        raise call.error("compact_strategy", f"is one of {', '.join(_MODES)} for an Iceberg table, not '{mode}'")
    where = call.given("where")
    if where is not None and call.given("partitions") is not None:
        raise call.error("where", "does not go with 'partitions'")
    chosen: Any = where if call.given("partitions") is None else call.partitions()
    scope = table.scope(True, mode, chosen, call.given("order_strategy"), call.given("order_by"))
    plan = plan_optimization(table.metadata, scope)
    if plan is None or not plan.units:
        return DONE
    place = JobPlace(
        metadata=table.metadata.metadata_location,
        store={key: str(value) for key, value in table.metadata.io.properties.items()},
        job=plan.job.name,
        snapshot=plan.job.snapshot_id,
        order=scope.order,
    )
    name = str(call.table_name().of_table)
    return Job(
        description=f"Compact {name}",
        tasks=[number.to_bytes(4) + unit_to_bytes(unit) for number, unit in enumerate(plan.units)],
        shared=MARK + place.to_bytes(),
        token=MARK
        + json.dumps({"table": name, "mode": mode, "place": place.to_bytes().decode(), "known": plan.known}).encode(),
    )


def run_iceberg(shared: bytes, payload: bytes) -> bytes:
    """Carry out a task, which is one unit of work."""
    job = JobPlace.from_bytes(shared.removeprefix(MARK)).open()
    return outcome_to_bytes(run_unit(job, unit_from_bytes(payload[4:]), int.from_bytes(payload[:4])))


def resume_iceberg(call: ProcedureCall, token: bytes, results: Sequence[bytes]) -> Answer:
    """Commit the results of the tasks."""
    noted = json.loads(token.removeprefix(MARK))
    job = JobPlace.from_bytes(noted["place"].encode()).open()
    plan = OptimizePlan(job=job, units=(), known=tuple((path, offset) for path, offset in noted["known"]))
    replacement = plan.replacement([outcome_from_bytes(result) for result in results])
    table = call.catalog.get_iceberg_table(noted["table"])
    if table is None:
        sweep(job)
        raise TableModifiedError(f"'{noted['table']}' is no Iceberg table any more.")
    home = table.required_home()
    try:
        sync_files(home.load(), {file.path for file in replacement.added})
        commit_replacement(home, replacement, {"interbed.optimize": noted["mode"]})
    except CommitStateUnknownError:
        raise
    except BaseException:
        sweep(job)
        raise
    sweep(job, {file.path for file in replacement.added})
    return DONE


def abort_iceberg(token: bytes) -> None:
    """Delete the files of the tasks of a failed job."""
    noted = json.loads(token.removeprefix(MARK))
    sweep(JobPlace.from_bytes(noted["place"].encode()).open())
