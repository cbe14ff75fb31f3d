"""Iceberg tables of a catalog, for the scheduler and for workers.

A task is some units of a job (see `interbed.iceberg.optimize`), sent with the location of the table's metadata. The
worker that opens the table has the credentials of its storage. The names of a process's files have its id. The summary
of a snapshot has the id of its process, by which a committed process is found.

    {"iceberg": "…base64…", "units": [[0, "…base64…"]]}          {"outcomes": ["…base64…"]}
"""

import json
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from interbed.iceberg.commit.home import sync_files
from interbed.iceberg.commit.replace import commit_replacement
from interbed.iceberg.meta.table_metadata import is_published
from interbed.iceberg.optimize.compact import (
    JobPlace,
    OptimizePlan,
    outcome_from_bytes,
    outcome_to_bytes,
    plan_optimization,
    unit_from_bytes,
    unit_to_bytes,
)
from interbed.iceberg.optimize.planner import OptimizeJob, OptimizeSettings, OptimizeUnit, iceberg_health, sweep
from interbed.iceberg.optimize.run_unit import UnitOutcome, delete_new, run_unit
from interbed.iceberg.table import IcebergTable
from interbed.optimizer.flow.process import (
    CleanupMode,
    Process,
    TaskAssignment,
    TaskFigures,
    TaskOutcome,
    WorkKind,
    WorkNeed,
)
from interbed.optimizer.flow.tables import PlannedTask, TableMeasurement, WorkPlan
from interbed.optimizer.work.payload import decode_snapshot, encode_snapshot
from interbed.storage.base.clock import now_millis
from interbed.storage.base.errors import InvalidInputError, NotSupportedError
from interbed.storage.base.prefetch import longest_first, spread
from interbed.storage.meta.options.optimizing import OPTIMIZING_ENABLED, SelfOptimizing
from interbed.storage.upkeep.compact_tasks import BUNDLES_OF_A_WORKER

_PROCESS = "interbed.process"
_LEAST_FILES = "compaction.min.file-num"


def measure(table: IcebergTable) -> TableMeasurement:
    options = dict(table.properties)
    if is_published(table.metadata.metadata):
        # The maintenance of the table from which it is published maintains it, too.
        options[OPTIMIZING_ENABLED] = "false"
    return TableMeasurement(
        health=iceberg_health(table.metadata, now_millis()), optimizing=SelfOptimizing.of(options), options=options
    )


def planned_units(table: IcebergTable, kind: WorkKind, options: Mapping[str, str], name: str) -> OptimizePlan | None:
    """Plan a compaction of that kind, with the options of a need; nothing is changed."""
    optimizing = SelfOptimizing.of(table.properties)
    full = kind is WorkKind.FULL
    order = optimizing.order_strategy.value if optimizing.order_by else None
    scope = table.scope(
        full, kind.value, None, order if full else None, optimizing.order_by if full and order else None
    )
    settings = OptimizeSettings.of(table.properties)
    if _LEAST_FILES in options:
        settings = replace(settings, small_files=int(options[_LEAST_FILES]))
    return plan_optimization(table.metadata, scope, name=name, settings=settings)


def plan(table: IcebergTable, process: Process, need: WorkNeed, slots: int) -> WorkPlan:
    if not need.kind.is_compaction:
        return WorkPlan(tasks=[PlannedTask(payload=b"", cost=0)])
    found = planned_units(table, need.kind, need.options, process.id)
    if found is None or not found.units:
        return WorkPlan(tasks=())
    place = JobPlace(
        metadata=table.metadata.metadata_location,
        store={},
        job=process.id,
        snapshot=found.job.snapshot_id,
        order=found.job.order,
    )
    costs = [unit.cost for unit in found.units]
    dealt = [each for each in spread(costs, max(1, slots) * BUNDLES_OF_A_WORKER) if each]
    bundles = [dealt[i] for i in longest_first([sum(costs[n] for n in each) for each in dealt])]
    return WorkPlan(
        tasks=[
            PlannedTask(
                payload=_payload(place, [(n, found.units[n]) for n in each], found.known),
                cost=sum(costs[n] for n in each),
            )
            for each in bundles
        ],
        options=need.options,
    )


def commit(table: IcebergTable, process: Process, results: Sequence[bytes]) -> int | None:
    if not process.kind.is_compaction:
        return decode_snapshot(results[0])
    for snapshot in table.snapshots():
        if snapshot.summary is not None and snapshot.summary.get(_PROCESS) == process.id:
            return snapshot.snapshot_id
    decoded = [_decoded(result) for result in results]
    if not decoded:
        return None
    outcomes = [outcome for _, _, found in decoded for outcome in found]
    snapshot_id, known, _ = decoded[0]
    replacement = OptimizePlan(job=_job(table, process.id), units=(), known=known).replacement(outcomes)
    replacement = replace(replacement, snapshot_id=snapshot_id)
    sync_files(table.metadata, {file.path for file in replacement.added})
    properties = {"interbed.optimize": process.kind.value, _PROCESS: process.id}
    return commit_replacement(table.required_home(), replacement, properties)


def end(table: IcebergTable, process: Process, results: Sequence[bytes]) -> None:
    if not process.kind.is_compaction or table.metadata.metadata.current_snapshot() is None:
        return
    if process.cleanup is CleanupMode.SWEEP:
        sweep(_job(table, process.id), _paths(results))
    elif process.cleanup is CleanupMode.DISCARD:
        sweep(_job(table, process.id))


def carry_out(table: IcebergTable, assignment: TaskAssignment) -> TaskOutcome:
    """Carry out an attempt. On an error the written files are deleted."""
    if not assignment.kind.is_compaction:
        return TaskOutcome(result=encode_snapshot(_upkeep(table, assignment.kind)))
    value = _read(assignment.payload)
    place = replace(
        JobPlace.from_bytes(b64decode(value["iceberg"])),
        store={key: str(found) for key, found in table.metadata.io.properties.items()},
    )
    job = place.open()
    outcomes: list[UnitOutcome] = []
    try:
        for number, unit in value["units"]:
            outcomes.append(run_unit(job, unit_from_bytes(b64decode(unit)), number))
    except BaseException:
        _delete(job, outcomes)
        raise
    result = {
        "snapshot": job.snapshot_id,
        "known": value["known"],
        "outcomes": [b64encode(outcome_to_bytes(outcome)).decode() for outcome in outcomes],
    }
    return TaskOutcome(result=json.dumps(result).encode(), figures=_figures(outcomes))


def delete_result(table: IcebergTable, assignment: TaskAssignment, outcome: TaskOutcome) -> None:
    """Delete the files of an attempt whose result was refused."""
    if assignment.kind.is_compaction and outcome.failure is None:
        _delete(_job(table, assignment.ref.process), _decoded(outcome.result)[2])


def _upkeep(table: IcebergTable, kind: WorkKind) -> int | None:
    match kind:
        case WorkKind.EXPIRE:
            table.expire_snapshots()
            return None
        case WorkKind.ORPHANS:
            table.remove_orphan_files()
            return None
        case WorkKind.MANIFESTS:
            return table.compact_manifests()
    raise NotSupportedError(f"'{kind.value}' is not supported for Iceberg tables such as '{table.name}'.")


def _job(table: IcebergTable, name: str) -> OptimizeJob:
    """Return a job of that name, of any snapshot, to find its files."""
    snapshot = table.metadata.metadata.current_snapshot()
    assert snapshot is not None
    return OptimizeJob.of(table.metadata, snapshot, name, OptimizeSettings.of(table.properties))


def _payload(
    place: JobPlace, units: Iterable[tuple[int, OptimizeUnit]], known: Sequence[tuple[str, int | None]]
) -> bytes:
    listed = [[number, b64encode(unit_to_bytes(unit)).decode()] for number, unit in units]
    return json.dumps({"iceberg": b64encode(place.to_bytes()).decode(), "units": listed, "known": known}).encode()


def _read(content: bytes) -> Any:
    try:
        return json.loads(content)
    except ValueError as error:
        raise InvalidInputError(f"Not a payload of the optimizer: {error}") from error


def _decoded(content: bytes) -> tuple[int, tuple[tuple[str, int | None], ...], list[UnitOutcome]]:
    """Decode a result: the snapshot that was planned, its deletes, and the outcomes."""
    value = _read(content)
    try:
        outcomes = [outcome_from_bytes(b64decode(text)) for text in value["outcomes"]]
        return value["snapshot"], tuple((path, offset) for path, offset in value["known"]), outcomes
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidInputError(f"Not a result of the optimizer: {error}") from error


def _paths(results: Sequence[bytes]) -> set[str]:
    return {file.path for result in results for outcome in _decoded(result)[2] for file in outcome.added}


def _delete(job: OptimizeJob, outcomes: Sequence[UnitOutcome]) -> None:
    delete_new(job, [file for outcome in outcomes for file in outcome.added])


def _figures(outcomes: Sequence[UnitOutcome]) -> TaskFigures:
    before = [task.file for outcome in outcomes for task in outcome.rewritten]
    after = [file for outcome in outcomes for file in outcome.added]
    return TaskFigures(
        bytes_in=sum(file.size for file in before),
        bytes_out=sum(file.size for file in after),
        files_in=len(before),
        files_out=len(after),
    )
