"""What a worker does with an attempt."""

from collections.abc import Sequence
from typing import Any

from interbed.catalog.client.api import Catalog
from interbed.optimizer.flow.task import Assignment, TaskFigures, TaskOutcome
from interbed.optimizer.work.memory import memory_options
from interbed.optimizer.work.payload import Payload, decode_messages, encode_messages, encode_snapshot
from interbed.optimizer.work.upkeep import UPKEEP
from interbed.storage.base.errors import CommitFailedError
from interbed.storage.table.table import Table
from interbed.storage.upkeep.compact_tasks import run_task
from interbed.storage.upkeep.job_files import JobFiles
from interbed.storage.write.commit_message import CommitMessage


def carry_out(catalog: Catalog, assignment: Assignment, *, memory: int | None = None) -> TaskOutcome:
    """Do it, a compaction with so many bytes of memory (see memory.py).

    What is raised left no files behind: CommitFailedError when the process has ended meanwhile, and all that the work
    itself raises.
    """
    # A catalog over a metastore has tables of Iceberg's as well.
    found: Any = catalog.get_table(assignment.table)
    if not isinstance(found, Table):
        # By use: pyiceberg loads slowly, and is not there for everybody.
        from interbed.optimizer.work import iceberg_tables

        return iceberg_tables.carry_out(found, assignment)
    table = found
    payload = Payload.from_bytes(assignment.payload)
    if not assignment.kind.is_compaction:
        return TaskOutcome(result=encode_snapshot(UPKEEP[assignment.kind](catalog, assignment.table, table)))
    job = JobFiles(table.store, assignment.ref.process)
    bounds = {} if memory is None else memory_options(memory, table.copy(payload.options).options)
    named = table.copy({**payload.options, **bounds, **job.named()})
    messages: list[CommitMessage] = []
    try:
        for task in payload.tasks:
            messages += run_task(named.store, task, assignment.ref.process)
        if not job.is_marked():
            raise CommitFailedError("The process of this task has ended without it; its files were deleted.")
    except BaseException:
        _delete(table, assignment, messages)
        raise
    return TaskOutcome(result=encode_messages(messages), figures=_figures(messages))


def take_back(catalog: Catalog, assignment: Assignment, outcome: TaskOutcome) -> None:
    """Delete what was written for an attempt whose result is known not to be needed."""
    if not assignment.kind.is_compaction or outcome.failure is not None:
        return
    found: Any = catalog.get_table(assignment.table)
    if isinstance(found, Table):
        _delete(found, assignment, decode_messages([outcome.result]))
        return
    from interbed.optimizer.work import iceberg_tables

    iceberg_tables.take_back(found, assignment, outcome)


def _delete(table: Table, assignment: Assignment, messages: Sequence[CommitMessage]) -> None:
    table.new_commit(assignment.ref.process).abort(messages)


def _figures(messages: Sequence[CommitMessage]) -> TaskFigures:
    before = [f for m in messages for f in m.compaction.before]
    after = [f for m in messages for f in m.compaction.after]
    return TaskFigures(
        bytes_in=sum(f.file_size for f in before),
        bytes_out=sum(f.file_size for f in after),
        files_in=len(before),
        files_out=len(after),
    )
