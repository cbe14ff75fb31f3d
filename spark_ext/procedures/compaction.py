"""Procedures that compact and rescale (documentation pages `spark/procedures`, `maintenance/dedicated-compaction`).

A compaction is a Spark job: the planner plans it, each bucket (or group of files, or range of a sort) is one task on an
executor, and the planner commits the results as one COMPACT snapshot for each table. The names of the tasks' files have
the job's id, so that the files of a failed job are found and deleted (see `interbed.storage.upkeep.job_files`).
"""

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from interbed.catalog.client.errors import CatalogError
from interbed.catalog.client.table_compaction import TablePatterns, tables_meant
from interbed.catalog.client.table_parts import as_object_table
from interbed.spark_ext.procedures.procedure import (
    DONE,
    RESULT,
    TABLE,
    Answer,
    ArgumentType,
    Job,
    Procedure,
    ProcedureCall,
    begun,
    column,
    optional,
    table_of,
)
from interbed.spark_ext.values.predicates import partitions_by_text
from interbed.spark_ext.write.writer import CommitToken, decode_messages, encode_messages
from interbed.storage.base.errors import CommitFailedError, InterbedError
from interbed.storage.base.predicate.conditions import bound_filter
from interbed.storage.base.prefetch import longest_first
from interbed.storage.base.shown_text import parse_duration_millis
from interbed.storage.meta.bucket_mode import BucketMode, bucket_mode
from interbed.storage.scan.partition_filter import PartitionChoice
from interbed.storage.table.table import Table
from interbed.storage.upkeep.compact_tasks import CompactionTask, plan_sort_tasks, plan_tasks, ranges_of, run_task
from interbed.storage.write.sort.key import SortOrder

if TYPE_CHECKING:
    from interbed.iceberg.table import IcebergTable

_PARALLELISM = "sink.parallelism"
_FAILED, _FILES, _RANGES = b"!", b"f", b"r"
_OF_ICEBERG = b"iceberg:"
"""Prefix of the tokens of jobs of Iceberg tables, as in `iceberg_compaction`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _TableWork:
    """The tasks of one table, and the token of its commit; with a `failure` there is nothing to commit."""

    token: CommitToken
    tasks: tuple[CompactionTask, ...]
    failure: str | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "token": b64encode(self.token.to_bytes()).decode(),
            "tasks": [b64encode(task.to_bytes()).decode() for task in self.tasks],
            "failure": self.failure,
        }

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> "_TableWork":
        return _TableWork(
            token=CommitToken.from_bytes(b64decode(value["token"])),
            tasks=tuple(CompactionTask.from_bytes(b64decode(task)) for task in value["tasks"]),
            failure=value["failure"],
        )


# -- sys.compact -------------------------------------------------------------------------------------------------------


def _compact(call: ProcedureCall) -> Answer:
    name = call.table_name()
    found = of_iceberg(call)
    if found is not None:
        # By use: pyiceberg loads slowly, and is an extra.
        from interbed.spark_ext.procedures.iceberg_compaction import compact_iceberg

        return compact_iceberg(call, found)
    table = call.table().copy({"write-only": "false", **call.options()})
    strategy = str(call.given("compact_strategy") or "full").lower()
    if strategy not in ("full", "minor"):
        raise call.error("compact_strategy", f"is 'full' or 'minor', not '{strategy}'")
    chosen = _partitions(call, table)
    buckets = _buckets(call, table)
    idle = _idle_time(call)
    order = SortOrder.of(table.schema, call.given("order_strategy"), call.given("order_by"))
    if order is None:
        tasks = plan_tasks(
            table.store, full=strategy == "full", partition=chosen, buckets=buckets, partition_idle_time=idle
        )
    else:
        for argument, given in (("partition_idle_time", idle), ("buckets", buckets)):
            if given is not None:
                raise call.error(argument, "does not go with an order_strategy")
        parallelism = table.options.optional_integer(_PARALLELISM)
        tasks = plan_sort_tasks(table.store, order, partition=chosen, parallelism=parallelism)
    if not tasks:
        return DONE
    work = _TableWork(token=begun(call, str(name.of_table), table), tasks=tuple(tasks))
    return _job(f"Compact {name.of_table}", [work])


def of_iceberg(call: ProcedureCall) -> "IcebergTable | None":
    """Return the Iceberg table of the call, if it is one; of such a table Spark's statements are not supported."""
    try:
        return call.catalog.get_iceberg_table(call.table_name().of_table)
    except CatalogError:
        # The error is raised again when the table is opened.
        return None


def _resume_compact(call: ProcedureCall, token: bytes, results: Sequence[bytes]) -> Answer:
    if token.startswith(_OF_ICEBERG):
        from interbed.spark_ext.procedures.iceberg_compaction import resume_iceberg

        return resume_iceberg(call, token, results)
    works, again = _after_tasks(call, token, results)
    if again is not None:
        return again
    (done,) = works
    if done.failure is not None:
        raise CommitFailedError(done.failure)
    return DONE


def _partitions(call: ProcedureCall, table: Table) -> PartitionChoice:
    where = call.given("where")
    if call.given("partitions") is None:
        return None if where is None else bound_filter(where, table.schema.fields)
    if where is not None:
        raise call.error("where", "does not go with 'partitions'")
    return partitions_by_text(call.partitions(), table.schema.partition_fields)


def _buckets(call: ProcedureCall, table: Table) -> list[int] | None:
    text = call.given("buckets")
    if text is None:
        return None
    if bucket_mode(table.schema, table.options) is not BucketMode.FIXED:
        raise call.error("buckets", "goes with tables of a fixed number of buckets only")
    numbers: set[int] = set()
    for item in text.split(","):
        first, dash, last = (part.strip() for part in item.partition("-"))
        if not first.isdigit() or (dash and not last.isdigit()) or (dash and int(first) > int(last)):
            raise call.error("buckets", f"lists numbers and ranges such as '0-9,12', not {text!r}")
        numbers.update(range(int(first), int(last or first) + 1))
    return sorted(numbers)


def _idle_time(call: ProcedureCall) -> timedelta | None:
    text = call.given("partition_idle_time")
    return None if text is None else timedelta(milliseconds=parse_duration_millis("partition_idle_time", text))


# -- sys.compact_database ----------------------------------------------------------------------------------------------


def _compact_database(call: ProcedureCall) -> Answer:
    patterns = TablePatterns(
        including_databases=call.given("including_databases") or ".*",
        including_tables=call.given("including_tables") or ".*",
        excluding_tables=call.given("excluding_tables"),
    )
    works: list[_TableWork] = []
    failures: list[str] = []
    idle = 0
    for name in tables_meant(call.catalog, [], patterns):
        try:
            found = call.catalog.get_table(name)
            if as_object_table(found) is not None:
                idle += 1
                continue
            table = found.copy({"write-only": "false", **call.options()})
            tasks = plan_tasks(table.store)
            if tasks:
                works.append(_TableWork(token=begun(call, name, table), tasks=tuple(tasks)))
            else:
                idle += 1
        except InterbedError as error:
            failures.append(f"{name}: {error}")
    if not works:
        return _summary(idle, failures)
    return _job("Compact databases", works, {"idle": idle, "failures": failures})


def _resume_compact_database(call: ProcedureCall, token: bytes, results: Sequence[bytes]) -> Answer:
    works, again = _after_tasks(call, token, results)
    if again is not None:
        return again
    noted = json.loads(token)["noted"]
    failed = [f"{w.token.handle.database}.{w.token.handle.table}: {w.failure}" for w in works if w.failure is not None]
    return _summary(noted["idle"] + len(works) - len(failed), [*noted["failures"], *failed])


def _summary(done: int, failures: Sequence[str]) -> Answer:
    text = f"Compact database finished. Success: {done}, Failed: {len(failures)}"
    return [("; ".join([text, *failures]),)]


# -- the job -----------------------------------------------------------------------------------------------------------


def _job(description: str, works: Sequence[_TableWork], noted: Mapping[str, Any] | None = None) -> Job:
    # While ranges have to be found, no other tasks run: they would run again afterwards.
    first = [n.to_bytes(4) + task.to_bytes() for n, task in _first_of_all(works)]
    tasks = [first[place] for place in _turns(works)]
    return Job(
        description=description,
        tasks=tasks,
        shared=json.dumps([b64encode(work.token.for_executors().to_bytes()).decode() for work in works]).encode(),
        token=json.dumps(
            {"description": description, "works": [work.to_json() for work in works], "noted": noted or {}}
        ).encode(),
    )


def _first_of_all(works: Sequence[_TableWork]) -> list[tuple[int, CompactionTask]]:
    """Return the tasks of this job of all tables, each with the index of its table."""
    return [(n, task) for n, work in enumerate(works) for task in _first(works, work)]


def _turns(works: Sequence[_TableWork]) -> list[int]:
    """Return the indexes of these tasks in the order in which Spark starts them: long tasks must not come last."""
    return longest_first([task.cost for _, task in _first_of_all(works)])


def _first(works: Sequence[_TableWork], work: _TableWork) -> list[CompactionTask]:
    """Return the tasks of a table for this job."""
    ranging = any(task.needs_ranges for each in works for task in each.tasks)
    return [task for task in work.tasks if task.needs_ranges or not ranging]


def _run_task(shared: bytes, payload: bytes) -> bytes:
    """Carry out a task; return its files, or ranges for more tasks, or its failure, which only concerns its table."""
    if shared.startswith(_OF_ICEBERG):
        from interbed.spark_ext.procedures.iceberg_compaction import run_iceberg

        return run_iceberg(shared, payload)
    token = CommitToken.from_bytes(b64decode(json.loads(shared)[int.from_bytes(payload[:4])]))
    task = CompactionTask.from_bytes(payload[4:])
    table = token.named(token.handle.open())
    try:
        if task.needs_ranges:
            return _RANGES + ranges_of(table.store, task).encode()
        messages = run_task(table.store, task, token.commit_user)
    except InterbedError as error:
        return _FAILED + str(error).encode()
    if not token.files(table).is_marked():
        table.new_commit(token.commit_user).abort(messages)
        return _FAILED + b"The job of this task has ended without it; its files were deleted."
    return _FILES + encode_messages(messages)


def _after_tasks(call: ProcedureCall, token: bytes, results: Sequence[bytes]) -> tuple[list[_TableWork], Job | None]:
    """Commit each table, or abort it and record the failure; or return the job that has to follow first."""
    noted = json.loads(token)
    works = [_TableWork.from_json(work) for work in noted["works"]]
    outcomes: list[list[bytes]] = [[] for _ in works]
    by_place = dict(zip(_turns(works), results, strict=True))
    for place, (n, _) in enumerate(_first_of_all(works)):
        outcomes[n].append(by_place[place])
    if any(result.startswith(_RANGES) for outcome in outcomes for result in outcome):
        again = [_with_ranges(work, outcome) for work, outcome in zip(works, outcomes, strict=True)]
        return works, _job(noted["description"], again, noted["noted"])
    return [_finished(call, work, outcome) for work, outcome in zip(works, outcomes, strict=True)], None


def _with_ranges(work: _TableWork, results: Sequence[bytes]) -> _TableWork:
    """Return the work with a task for each range that was found; without ranges the sort is one task."""
    found = iter(results)
    tasks: list[CompactionTask] = []
    for task in work.tasks:
        result = next(found) if task.needs_ranges else b""
        ranges = result.startswith(_RANGES)
        tasks += task.in_ranges(result[1:].decode()) if ranges else [replace(task, range_count=1)]
    return replace(work, tasks=tuple(tasks))


def _finished(call: ProcedureCall, work: _TableWork, results: Sequence[bytes]) -> _TableWork:
    token = work.token
    table = table_of(call, token)
    failures = [result[1:].decode() for result in results if result.startswith(_FAILED)]
    messages = decode_messages([result[1:] for result in results if result.startswith(_FILES)])
    try:
        if failures:
            raise CommitFailedError(failures[0])
        token.commit(table, messages)
    except InterbedError as error:
        token.abort(table, messages)
        return _TableWork(token=token, tasks=(), failure=str(error))
    token.files(table).sweep(messages)
    return _TableWork(token=token, tasks=())


def _abort(call: ProcedureCall, token: bytes) -> None:
    if token.startswith(_OF_ICEBERG):
        from interbed.spark_ext.procedures.iceberg_compaction import abort_iceberg

        abort_iceberg(token)
        return
    for value in json.loads(token)["works"]:
        work = _TableWork.from_json(value)
        work.token.abort(work.token.handle.open(), [])


# -- sys.rescale -------------------------------------------------------------------------------------------------------


def _rescale(call: ProcedureCall) -> Answer:
    table = call.table()
    chosen = _partitions(call, table)
    specs = None
    if chosen is not None:
        found = table.access.restore_buckets(chosen).buckets()
        specs = [table.access.partition_spec(p) for p in dict.fromkeys(p for p, _ in found)]
    table.maintenance.rescale(call.given("bucket_num"), specs)
    return DONE


_OPTIONS = optional("options")

PROCEDURES = (
    Procedure(
        name="compact",
        description="Merges the files of a table, or sorts its rows, on the executors.",
        parameters=(
            TABLE,
            optional("partitions"),
            optional("compact_strategy"),
            optional("order_strategy"),
            optional("order_by"),
            optional("where"),
            _OPTIONS,
            optional("partition_idle_time"),
            optional("buckets"),
        ),
        columns=RESULT,
        call=_compact,
        run_task=_run_task,
        resume=_resume_compact,
        abort=_abort,
    ),
    Procedure(
        name="compact_database",
        description="Compacts the tables of databases; the failure of one does not affect the others.",
        parameters=(
            optional("including_databases"),
            optional("including_tables"),
            optional("excluding_tables"),
            _OPTIONS,
        ),
        columns=(column("result"),),
        call=_compact_database,
        run_task=_run_task,
        resume=_resume_compact_database,
        abort=_abort,
    ),
    Procedure(
        name="rescale",
        description="Distributes the rows of a table or of some partitions over another number of buckets.",
        parameters=(TABLE, optional("bucket_num", ArgumentType.INT), optional("partitions"), optional("where")),
        columns=RESULT,
        call=_rescale,
    ),
)
