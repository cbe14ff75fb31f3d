"""How a worker carries out an attempt: compaction within its memory, or one kind of upkeep.

A worker of `memory` bytes and `threads` has memory / threads for each task: half of it for rows that are sorted or
collected (`write-buffer-size`, beyond which they go to disk), a quarter for lookups (`lookup.cache-max-memory-size`).
The rest is for the blocks of files that are merged, which need some MB for each run. A table with smaller options keeps
them.

One worker does an upkeep as a whole. Upkeep commits by itself, and may be done twice.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from interbed.catalog.client.api import Catalog
from interbed.optimizer.flow.kind import WorkKind
from interbed.optimizer.flow.process import Assignment, TaskFigures, TaskOutcome
from interbed.optimizer.work.payload import Payload, decode_messages, encode_messages, encode_snapshot
from interbed.storage.base.errors import CommitFailedError
from interbed.storage.meta.options.core import CoreOptions
from interbed.storage.table.table import Table
from interbed.storage.upkeep.compact_tasks import run_task
from interbed.storage.upkeep.job_files import JobFiles
from interbed.storage.upkeep.maintenance import carry_out_maintenance
from interbed.storage.write.commit_message import CommitMessage

_BUFFER = "write-buffer-size"
_LOOKUP = "lookup.cache-max-memory-size"
_LEAST = 1 << 20


def memory_options(share: int, options: CoreOptions) -> dict[str, str]:
    """The options for a compaction that may take so many bytes, of a table with these."""
    buffer = min(options.write_buffer_size, max(share // 2, _LEAST))
    lookup = min(options.lookup_cache_max_memory_size, max(share // 4, _LEAST))
    return {_BUFFER: f"{buffer} b", _LOOKUP: f"{lookup} b"}


Upkeep = Callable[[Catalog, str, Table], int | None]
"""Does it for a table of a catalog, by its name; the snapshot that it made, None for none."""


def _expire(catalog: Catalog, name: str, table: Table) -> int | None:
    carry_out_maintenance(table.store)
    if table.options.partition_expiration_millis is None:
        return None
    return _newest(table) if catalog.expire_partitions(name) else None


def _orphans(catalog: Catalog, name: str, table: Table) -> int | None:
    table.maintenance.remove_orphan_files()
    return None


def _manifests(catalog: Catalog, name: str, table: Table) -> int | None:
    return table.maintenance.compact_manifests()


def _analyze(catalog: Catalog, name: str, table: Table) -> int | None:
    found = table.maintenance.analyze()
    return None if found is None else _newest(table)


def _rescale(catalog: Catalog, name: str, table: Table) -> int | None:
    return table.maintenance.rescale().snapshot_id


def _newest(table: Table) -> int | None:
    newest = table.latest_snapshot()
    return None if newest is None else newest.id


UPKEEP: Mapping[WorkKind, Upkeep] = {
    WorkKind.EXPIRE: _expire,
    WorkKind.ORPHANS: _orphans,
    WorkKind.MANIFESTS: _manifests,
    WorkKind.ANALYZE: _analyze,
    WorkKind.RESCALE: _rescale,
}


def carry_out(catalog: Catalog, assignment: Assignment, *, memory: int | None = None) -> TaskOutcome:
    """Do it, a compaction with this number of bytes of memory.

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
