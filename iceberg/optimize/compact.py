"""Optimizing an Iceberg table in this process: plan, do the units, commit; once more where others came in between."""

import logging
import os
import time
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass

from pyiceberg.table import Table as Metadata

from interbed.iceberg.commit.attempts import sync_files
from interbed.iceberg.commit.home import TableHome
from interbed.iceberg.commit.replace import commit_replacement
from interbed.iceberg.commit.replacement import Replacement
from interbed.iceberg.optimize.data_files import delete_new
from interbed.iceberg.optimize.job import OptimizeJob
from interbed.iceberg.optimize.planner import Mode, plan_units
from interbed.iceberg.optimize.result import IcebergCompaction
from interbed.iceberg.optimize.run_unit import UnitOutcome, run_unit
from interbed.iceberg.optimize.settings import OptimizeSettings
from interbed.iceberg.optimize.unit import OptimizeUnit
from interbed.iceberg.plan.plan import plan_read
from interbed.iceberg.read.files import TableFiles
from interbed.storage.base.errors import CommitConflictError, CommitStateUnknownError
from interbed.storage.base.predicate.expr import Predicate
from interbed.storage.write.sort.order import SortOrder

_log = logging.getLogger(__name__)

_ATTEMPTS = 3
_MOST_THREADS = 4

Progress = Callable[[int, int], None]
"""Called after each unit with how many are done, and how many there are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """How much of a table is optimized: files that may hold rows of the predicate, which is bound to the columns of
    now; with an order all of their rows are sorted.
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

    def replacement(self, outcomes: Sequence[UnitOutcome]) -> Replacement:
        """What the outcomes of all units come to."""
        return Replacement(
            snapshot_id=self.job.snapshot_id,
            rewritten=tuple(task for outcome in outcomes for task in outcome.rewritten),
            converted=tuple(task for outcome in outcomes for task in outcome.converted),
            added=tuple(file for outcome in outcomes for file in outcome.added),
            known=frozenset(self.known),
        )


def plan_optimization(
    table: Metadata, scope: Scope, *, name: str | None = None, settings: OptimizeSettings | None = None
) -> OptimizePlan | None:
    """What is worth doing for a table as it is now; None without a snapshot. `name` is of the job, `settings` are by
    default those of the table. Raises what reading metadata raises, InvalidOptionError for a property that can't be
    read.
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
    units = plan_units(tasks, scope.mode, settings, is_sorted_anew=scope.order is not None)
    return OptimizePlan(job=job, units=units, known=tuple(sorted(known, key=repr)))


def optimize_table(
    home: TableHome,
    scope: Scope,
    *,
    progress: Progress | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> IcebergCompaction:
    """Optimize a table. Where others replaced the same files meanwhile it is planned and done again, a few times.

    Raises CommitConflictError and CommitFailedError when nothing was changed, and nothing is left of the job;
    CommitStateUnknownError when that is not known.
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


_NOTHING = Replacement(snapshot_id=0, rewritten=(), converted=(), added=(), known=frozenset())


def _run(plan: OptimizePlan, progress: Progress | None) -> list[UnitOutcome]:
    """The outcomes of all units; on an error all that was written is deleted."""
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
