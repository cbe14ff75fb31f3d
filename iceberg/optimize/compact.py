"""Optimization of an Iceberg table: in this process, or as units of work for other processes.

In this process: plan, run the units, commit; retried after a conflict.

For other processes, units and their outcomes are bytes: JSON, with objects for values that JSON lacks. A process that
runs a unit builds the job itself, from the metadata file that it was planned from:

    {"metadata": "s3://…/v7.metadata.json", "store": {…}, "job": "…", "snapshot": 17, "order": ["zorder", "a", "b"]}

A partition's value is as it is in JSON, or `{"$bytes": "…base64…"}`, `{"$decimal": "1.50"}`, `{"$uuid": "…"}`.
"""

import json
import logging
import os
import time
import uuid
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass, fields
from decimal import Decimal
from typing import Any
from uuid import UUID

from pyiceberg.table import Table as Metadata

from interbed.iceberg.commit.home import TableHome, sync_files
from interbed.iceberg.commit.replace import FileReplacement, NewTableFile, commit_replacement
from interbed.iceberg.meta.live_files import FileContent, LiveFile
from interbed.iceberg.optimize.planner import (
    Mode,
    OptimizeAction,
    OptimizeJob,
    OptimizeSettings,
    OptimizeUnit,
    plan_units,
)
from interbed.iceberg.optimize.run_unit import UnitOutcome, delete_new, run_unit
from interbed.iceberg.plan import DataTask, FileDeletes, plan_read
from interbed.iceberg.read.files import TableFiles, static_table
from interbed.storage.base.errors import CommitConflictError, CommitStateUnknownError, InvalidInputError, plain_errors
from interbed.storage.base.predicate.expr import Predicate
from interbed.storage.write.sort.key import OrderStrategy, SortOrder


@plain_errors
@dataclass(frozen=True, slots=True, kw_only=True)
class IcebergCompaction:
    """The result of a compaction; `snapshot_id` is None if there was nothing to do. Sizes in bytes.

    `rewritten` data files became `written` ones; the deletes of `converted` ones are in `deletes_written` files now.
    """

    snapshot_id: int | None
    rewritten: int
    rewritten_bytes: int
    rewritten_rows: int
    written: int
    written_bytes: int
    written_rows: int
    converted: int
    deletes_read: int
    deletes_written: int

    @staticmethod
    def of(snapshot_id: int | None, replacement: FileReplacement) -> "IcebergCompaction":
        """Return the result of a commit."""
        before = [task.file for task in replacement.rewritten]
        after = [file for file in replacement.added if file.content is FileContent.DATA]
        deletes = {
            file.place for task in (*replacement.rewritten, *replacement.converted) for file in task.deletes.files
        }
        return IcebergCompaction(
            snapshot_id=snapshot_id,
            rewritten=len(before),
            rewritten_bytes=sum(file.size for file in before),
            rewritten_rows=sum(file.records for file in before),
            written=len(after),
            written_bytes=sum(file.size for file in after),
            written_rows=sum(file.records for file in after),
            converted=len(replacement.converted),
            deletes_read=len(deletes),
            deletes_written=len(replacement.added) - len(after),
        )

    def __str__(self) -> str:
        if self.snapshot_id is None:
            return "nothing to optimize"
        parts = []
        if self.rewritten:
            parts.append(
                f"{self.rewritten} data file(s) of {self.rewritten_rows:,} rows became {self.written} of "
                f"{self.written_rows:,} ({self.rewritten_bytes:,} -> {self.written_bytes:,} bytes)"
            )
        if self.converted:
            parts.append(f"of {self.converted} data file(s) the deletes were put together")
        parts.append(f"{self.deletes_read} delete file(s) became {self.deletes_written}")
        return f"{', '.join(parts)}, snapshot {self.snapshot_id}"

    def to_json(self) -> dict[str, Any]:
        """Return the result as a JSON object."""
        return asdict(self)


_log = logging.getLogger(__name__)

_ATTEMPTS = 3
_MOST_THREADS = 4

Progress = Callable[[int, int], None]
"""A function that is called after each unit with the number of finished units, and of all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizeScope:
    """The scope of an optimization: files that may hold rows of the predicate, which is bound to the present columns.

    With an order, all of their rows are sorted.
    """

    mode: Mode = Mode.FULL
    predicate: Predicate | None = None
    order: SortOrder | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizePlan:
    """A job and its units; `known` are the delete files of the snapshot. Can be sent to other processes."""

    job: OptimizeJob
    units: tuple[OptimizeUnit, ...]
    known: tuple[tuple[str, int | None], ...]

    def replacement(self, outcomes: Sequence[UnitOutcome]) -> FileReplacement:
        """Return the combined outcome of all units."""
        return FileReplacement(
            snapshot_id=self.job.snapshot_id,
            rewritten=tuple(task for outcome in outcomes for task in outcome.rewritten),
            converted=tuple(task for outcome in outcomes for task in outcome.converted),
            added=tuple(file for outcome in outcomes for file in outcome.added),
            known=frozenset(self.known),
        )


def plan_optimization(
    table: Metadata, scope: OptimizeScope, *, name: str | None = None, settings: OptimizeSettings | None = None
) -> OptimizePlan | None:
    """Return the work that is worth doing for a table in its present state; None without a snapshot.

    `name` is that of the job, `settings` are by default those of the table. Raises what reading metadata raises,
    InvalidOptionError for an invalid property.
    """
    metadata = table.metadata
    snapshot = metadata.current_snapshot()
    if snapshot is None:
        return None
    if settings is None:
        settings = OptimizeSettings.of(metadata.properties)
    # A filter prunes deletes as well, but files are rewritten with all of theirs.
    files = TableFiles.of(metadata, table.io.properties)
    plan = plan_read(metadata, files.io, snapshot, metadata.schema(), None)
    tasks = [file for task in plan.tasks for file in task.files]
    known = {file.place for task in tasks for file in task.deletes.files}
    if scope.predicate is not None:
        narrow = plan_read(metadata, files.io, snapshot, metadata.schema(), scope.predicate)
        chosen = {file.file.path for task in narrow.tasks for file in task.files}
        tasks = [task for task in tasks if task.file.path in chosen]
    job = OptimizeJob.of(table, snapshot, name or uuid.uuid4().hex, settings, scope.order)
    units = plan_units(tasks, scope.mode, settings, is_sorted_again=scope.order is not None)
    return OptimizePlan(job=job, units=units, known=tuple(sorted(known, key=repr)))


def optimize_table(
    home: TableHome,
    scope: OptimizeScope,
    *,
    progress: Progress | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> IcebergCompaction:
    """Optimize a table. If another commit replaced the same files, it is planned and done again, a few times.

    Raises CommitConflictError and CommitFailedError, without any change or file left; CommitStateUnknownError if the
    outcome is not known.
    """
    attempts = 0
    while True:
        table = home.load()
        plan = plan_optimization(table, scope)
        if plan is None:
            return IcebergCompaction.of(None, _NOTHING)
        outcomes = _run(plan, progress)
        replacement = plan.replacement(outcomes)
        try:
            sync_files(table, {file.path for file in replacement.added})
            properties = {"interbed.optimize": scope.mode.value}
            return IcebergCompaction.of(commit_replacement(home, replacement, properties, sleep=sleep), replacement)
        except CommitStateUnknownError:
            raise
        except CommitConflictError as error:
            delete_new(plan.job, replacement.added)
            attempts += 1
            if attempts >= _ATTEMPTS:
                raise
            _log.info("Planning the optimization of %s again: %s", table.location(), error)
        except BaseException:
            delete_new(plan.job, replacement.added)
            raise


_NOTHING = FileReplacement(snapshot_id=0, rewritten=(), converted=(), added=(), known=frozenset())


def _run(plan: OptimizePlan, progress: Progress | None) -> list[UnitOutcome]:
    """Return the outcomes of all units. On an error all written files are deleted."""
    units = plan.units
    threads = min(os.cpu_count() or 1, _MOST_THREADS, max(len(units), 1))
    done: list[UnitOutcome] = []
    with ThreadPoolExecutor(threads) as pool:
        each = None if len(units) < threads or len(units) == 1 else 1
        running = [pool.submit(run_unit, plan.job, unit, number, each) for number, unit in enumerate(units)]
        try:
            for future in as_completed(running):
                done.append(future.result())
                if progress is not None:
                    progress(len(done), len(units))
        except BaseException:
            for future in running:
                future.cancel()
            pool.shutdown()
            finished = [f.result() for f in running if not f.cancelled() and f.exception() is None]
            delete_new(plan.job, [file for outcome in finished for file in outcome.added])
            raise
    return done


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPlace:
    """The data from which another process builds a job; `store` are pyiceberg's properties of the object store."""

    metadata: str
    store: Mapping[str, str]
    job: str
    snapshot: int
    order: SortOrder | None = None

    def open(self) -> OptimizeJob:
        """Build the job. Raises what reading metadata raises."""
        table = static_table(self.metadata, self.store)
        snapshot = table.metadata.snapshot_by_id(self.snapshot)
        if snapshot is None:
            raise InvalidInputError(f"{self.metadata} has no snapshot {self.snapshot}.")
        return OptimizeJob.of(table, snapshot, self.job, OptimizeSettings.of(table.metadata.properties), self.order)

    def to_bytes(self) -> bytes:
        """Return the place as bytes."""
        order = None if self.order is None else [self.order.strategy.value, *self.order.columns]
        return json.dumps({**asdict(self), "store": dict(self.store), "order": order}).encode()

    @staticmethod
    def from_bytes(content: bytes) -> "JobPlace":
        """Decode bytes made by to_bytes."""
        value = json.loads(content)
        order = value.pop("order")
        return JobPlace(
            **value,
            order=order and SortOrder(strategy=OrderStrategy(order[0]), columns=tuple(order[1:])),
        )


def unit_to_bytes(unit: OptimizeUnit) -> bytes:
    """Return a unit as bytes."""
    return _dump({"action": unit.action.value, "reason": unit.reason, "files": _tasks(unit.files)})


def unit_from_bytes(content: bytes) -> OptimizeUnit:
    """Decode bytes made by unit_to_bytes."""
    value = _load(content)
    return OptimizeUnit(action=OptimizeAction(value["action"]), reason=value["reason"], files=_tasks_of(value["files"]))


def outcome_to_bytes(outcome: UnitOutcome) -> bytes:
    """Return an outcome as bytes."""
    return _dump(
        {
            "rewritten": _tasks(outcome.rewritten),
            "converted": _tasks(outcome.converted),
            "added": [_file(file) for file in outcome.added],
        }
    )


def outcome_from_bytes(content: bytes) -> UnitOutcome:
    """Decode bytes made by outcome_to_bytes."""
    value = _load(content)
    return UnitOutcome(
        rewritten=_tasks_of(value["rewritten"]),
        converted=_tasks_of(value["converted"]),
        added=tuple(NewTableFile(**_file_of(file)) for file in value["added"]),
    )


def _tasks(tasks: tuple[DataTask, ...]) -> dict[str, Any]:
    """Return tasks, and the delete files that they share, each once."""
    places: dict[tuple[str, int | None], int] = {}
    deletes: list[dict[str, Any]] = []
    for task in tasks:
        for file in task.deletes.files:
            if file.place not in places:
                places[file.place] = len(deletes)
                deletes.append(_file(file))
    listed = [
        {
            "file": _file(task.file),
            "vector": None if task.deletes.vector is None else places[task.deletes.vector.place],
            "positions": [places[file.place] for file in task.deletes.positions],
            "equality": [places[file.place] for file in task.deletes.equality],
        }
        for task in tasks
    ]
    return {"deletes": deletes, "tasks": listed}


def _tasks_of(value: Any) -> tuple[DataTask, ...]:
    deletes = [LiveFile(**_file_of(file)) for file in value["deletes"]]
    return tuple(
        DataTask(
            file=LiveFile(**_file_of(task["file"])),
            deletes=FileDeletes(
                vector=None if task["vector"] is None else deletes[task["vector"]],
                positions=tuple(deletes[place] for place in task["positions"]),
                equality=tuple(deletes[place] for place in task["equality"]),
            ),
        )
        for task in value["tasks"]
    )


def _file(file: LiveFile | NewTableFile) -> dict[str, Any]:
    """Return the fields of a file that differ from their defaults."""
    found = {}
    for field in fields(file):
        value = getattr(file, field.name)
        if value is not None and value != () and value != {}:
            found[field.name] = value
    return found


def _file_of(value: Mapping[str, Any]) -> dict[str, Any]:
    found = dict(value)
    found["content"] = FileContent(found["content"])
    found["partition"] = tuple(found.get("partition", ()))
    if "equality_ids" in found:
        found["equality_ids"] = tuple(found["equality_ids"])
    return found


def _dump(value: Any) -> bytes:
    return json.dumps(_plain(value)).encode()


def _load(content: bytes) -> Any:
    return json.loads(content, object_hook=_special)


def _plain(value: Any) -> Any:
    """Return a value as JSON has it; keys of metrics are numbers, which JSON has as texts."""
    match value:
        case bytes():
            return {"$bytes": b64encode(value).decode()}
        case Decimal():
            return {"$decimal": str(value)}
        case UUID():
            return {"$uuid": str(value)}
        case Mapping() if value and all(isinstance(key, int) for key in value):
            return {"$numbers": [[key, _plain(inner)] for key, inner in value.items()]}
        case Mapping():
            return {key: _plain(inner) for key, inner in value.items()}
        case list() | tuple():
            return [_plain(inner) for inner in value]
    return value


def _special(value: dict[str, Any]) -> Any:
    match value:
        case {"$bytes": str(text)}:
            return b64decode(text)
        case {"$decimal": str(text)}:
            return Decimal(text)
        case {"$uuid": str(text)}:
            return UUID(text)
        case {"$numbers": list(pairs)}:
            return dict(pairs)
    return value
