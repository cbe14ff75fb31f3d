"""Calls about jobs: scans, streams, procedures, and writes, also those that merge their columns into the schema or
change rows.

Here are also staged tables (CREATE TABLE … AS SELECT, REPLACE TABLE), DELETE of whole partitions and TRUNCATE TABLE.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from interbed.catalog.client.api import Catalog
from interbed.catalog.client.identifier import DEFAULT_DATABASE, Identifier
from interbed.catalog.client.staging import StagedTable, TableFill
from interbed.catalog.client.table_parts import as_format_table
from interbed.spark_ext.calls.catalogs import PlannerCalls, identifier_of
from interbed.spark_ext.calls.tables import table_info
from interbed.spark_ext.handle.format_tables import (
    format_table_info,
    info_of_format,
    open_format,
    refuse_format,
    schema_to_create,
)
from interbed.spark_ext.handle.row_changes import RowsToCome, kind_field, whole_partitions, without_functions
from interbed.spark_ext.handle.session_options import table_options
from interbed.spark_ext.handle.table_handle import NO_CATALOG, StagingInfo, TableHandle, renewed
from interbed.spark_ext.procedures.procedure import Answer, Job, Procedure, ProcedureCall
from interbed.spark_ext.procedures.registry import PROCEDURES, procedure_named
from interbed.spark_ext.read.format_reads import plan_format_scan
from interbed.spark_ext.read.reader import answer, plan_global, plan_scan
from interbed.spark_ext.read.streams import open_batches, open_stream
from interbed.spark_ext.read.task import guarded_handling, refuse_guarded, task_of
from interbed.spark_ext.values.predicates import handling_of
from interbed.spark_ext.write.format_writer import abort_format, commit_format, plan_format_write
from interbed.spark_ext.write.sink import EpochToken, plan_epoch
from interbed.spark_ext.write.writer import (
    CommitToken,
    check_distinct,
    decode_all_marks,
    decode_messages,
    plan_write,
)
from interbed.storage.base.errors import InvalidInputError, NotSupportedError
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.options.format import is_format_table
from interbed.storage.meta.schema.table_schema import Schema
from interbed.storage.table.table import Table
from interbed.storage.write.commit_message import CommitMessage
from interbed.thrift_idl.planner.ttypes import (
    AggregateAnswer,
    CatalogRef,
    CommitResult,
    ProcedureAnswer,
    ProcedureInfo,
    ProcedureJob,
    ProcedureParameter,
    ScanPlan,
    StreamInfo,
    StreamOffset,
    TableInfo,
    TableRef,
    WritePlan,
)


class MergingCalls(PlannerCalls):
    """Calls of the analysis of a write."""

    def targetOfRows(  # noqa: N802
        self, handle: bytes, schema_json: str, options: Mapping[str, str], case_sensitive: bool
    ) -> TableInfo:
        given = TableHandle.from_bytes(handle)
        refuse_guarded(given, "a write")
        if given.is_format:
            # Spark refuses columns that the table does not have.
            return info_of_format(given, open_format(given))
        target = _target(given, schema_json, options, case_sensitive)
        catalog = CatalogRef(name=target.catalog, options=dict(target.catalog_options))
        reference: Any = TableRef(catalog=catalog, database=target.database, table=target.table)
        # The generated class has no declared fields for type checkers.
        info: Any = table_info(reference, Table(target.table, target.open().store), None)
        info.snapshotId = target.snapshot_id or 0
        info.handle = target.to_bytes()
        info.mergesSchema = target.rows is not None
        if target.kind_column is not None:
            struct = json.loads(info.schemaJson)
            struct["fields"].append(kind_field(schema_json, target.schema))
            info.schemaJson = json.dumps(struct)
        if target.catalog == NO_CATALOG:
            info.clustering = without_functions(info.clustering)
        result: TableInfo = info
        return result

    def _merged(self, handle: TableHandle, options: Mapping[str, str]) -> TableHandle:
        """Return the handle at a schema that takes the given rows; the schema is created if necessary."""
        if handle.rows is None:
            return handle
        table = self._table_of(handle)
        merged = handle.rows.merge_into(_with_options(table.store, options))
        return replace(handle, schema_json=merged.schema.to_json(), rows=None)

    def _merged_for(self, handle: TableHandle, schema_json: str, options: Mapping[str, str]) -> TableHandle:
        """Return the handle for the rows of a stream, which no analysis has checked."""
        return self._merged(_target(handle, schema_json, options, case_sensitive=False), options)


def _with_options(store: FileStore, options: Mapping[str, str]) -> FileStore:
    """Return the table with the options of a write."""
    return store.with_options(table_options(options)) if options else store


def _target(handle: TableHandle, schema_json: str, options: Mapping[str, str], case_sensitive: bool) -> TableHandle:
    """Return the handle for a write of rows with these columns, at the schema that the write will create."""
    kind = kind_field(schema_json, handle.schema)
    if kind is not None:
        handle = replace(handle, kind_column=kind["name"])
        struct = json.loads(schema_json)
        struct["fields"] = [f for f in struct["fields"] if f["name"] != kind["name"]]
        schema_json = json.dumps(struct)
    store = _with_options(handle.open().store, options)
    if not store.options.merges_schema:
        return handle
    rows = RowsToCome(schema_json=schema_json, case_sensitive=case_sensitive)
    return replace(handle, rows=rows, schema_json=rows.merged(handle.schema, store.options).to_json())


class StagingCalls(PlannerCalls):
    """Calls of Spark's StagingTableCatalog."""

    def stageTable(self, table: Any, request: Any, replaces: bool, create: bool) -> TableInfo:  # noqa: N802
        catalog = self._catalog(table.catalog)
        schema = schema_to_create(request.schemaJson, request.partitioning, request.properties)
        if table.database == DEFAULT_DATABASE:
            catalog.create_database(DEFAULT_DATABASE, ignore_if_exists=True)
        if is_format_table({**catalog.options.table_defaults, **schema.options}):
            return _created_format_table(table, catalog, schema, replaces=replaces, creates=create)
        staged = catalog.stage_table(identifier_of(table), schema, replace=replaces, create=create)
        # The generated class has no declared fields for type checkers.
        info: Any = table_info(table, staged.table, None)
        handle = replace(
            TableHandle.from_bytes(info.handle), staged=StagingInfo(replaces=staged.replaces, path=staged.path)
        )
        info.handle = handle.to_bytes()
        result: TableInfo = info
        return result

    def commitStaged(self, handle: bytes) -> None:  # noqa: N802
        given = TableHandle.from_bytes(handle)
        if not given.is_format:
            self._staged(given).commit()

    def abortStaged(self, handle: bytes) -> None:  # noqa: N802
        given = TableHandle.from_bytes(handle)
        if given.is_format:
            # Raises for a table that has taken the place of this one.
            self._format_table_of(given)
            self._catalogs.get(given.catalog, given.catalog_options).drop_table(f"{given.database}.{given.table}")
        else:
            self._staged(given).abort()

    def _staged(self, handle: TableHandle) -> StagedTable:
        if handle.staged is None:
            raise InvalidInputError(f"The table '{handle.database}.{handle.table}' is not a staged one.")
        catalog = self._catalogs.get(handle.catalog, handle.catalog_options)
        return catalog.staged(
            Identifier(handle.database, handle.table),
            handle.schema,
            handle.staged.path,
            replaces=handle.staged.replaces,
        )

    def _commit_staged(self, token: CommitToken, messages: list[CommitMessage]) -> CommitResult:
        made: list[CommitResult] = []

        def fill(table: Table) -> None:
            made.append(token.commit(table, messages))

        self._staged(token.handle).commit(TableFill(fill, token.commit_user, bool(messages)))
        return made[-1] if made else CommitResult()


def _created_format_table(
    reference: Any, catalog: Catalog, schema: Schema, *, replaces: bool, creates: bool
) -> TableInfo:
    """Create a format table whose rows are written next, and describe it; its abort drops it again.

    Files have no snapshot with which the table could appear: it is empty until they are committed.
    """
    name = identifier_of(reference)
    if replaces and (not creates or catalog.table_exists(name)):
        raise NotSupportedError(
            f"The table '{name}' is not replaced by a format table, because its rows would be missing meanwhile: drop "
            "it and create the other one, or write INSERT OVERWRITE into a format table that exists."
        )
    created = as_format_table(catalog.create_table(name, schema))
    assert created is not None
    info: Any = format_table_info(reference, created, catalog.options.raw)
    handle = replace(TableHandle.from_bytes(info.handle), staged=StagingInfo(replaces=False, path=None))
    info.handle = handle.to_bytes()
    result: TableInfo = info
    return result


class RowChangeCalls(PlannerCalls):
    """Calls of Spark's SupportsDeleteV2."""

    def canDeleteWhere(self, handle: bytes, filters: list[str]) -> bool:  # noqa: N802
        changed = TableHandle.from_bytes(handle)
        # deleteWhere refuses such tables, with a better message than Spark's.
        return changed.rules is not None or changed.is_system or whole_partitions(changed.schema, filters) is not None

    def deleteWhere(self, handle: bytes, filters: list[str]) -> None:  # noqa: N802
        changed = TableHandle.from_bytes(handle)
        refuse_guarded(changed, "DELETE")
        if changed.is_system:
            raise changed.read_only()
        if changed.is_format:
            chosen = whole_partitions(changed.schema, filters)
            if chosen is None:
                raise NotSupportedError(f"These filters do not select whole partitions of '{changed.table}': {filters}")
            self._format_table_of(changed).truncate(chosen)
            return
        table = self._table_of(changed)
        predicate = whole_partitions(table.schema, filters)
        if predicate is None:
            raise NotSupportedError(f"These filters do not select whole partitions of '{changed.table}': {filters}")
        table.delete_partitions(predicate)


class WriteCalls(StagingCalls, MergingCalls):
    """Calls of Spark's Write and BatchWrite."""

    def planWrite(self, handle: bytes, request: Any) -> WritePlan:  # noqa: N802
        target = TableHandle.from_bytes(handle)
        refuse_guarded(target, "a write")
        if target.is_format:
            return plan_format_write(target, self._format_table_of(target), request)
        return plan_write(self._merged(target, request.options), request)

    def commitWrite(self, token: bytes, messages: list[bytes]) -> CommitResult:  # noqa: N802
        plan = CommitToken.from_bytes(token)
        if plan.handle.is_format:
            return commit_format(plan, self._format_table_of(plan.handle), messages)
        check_distinct(messages)
        if plan.handle.staged is not None:
            return self._commit_staged(plan, decode_messages(messages))
        return plan.commit(self._table_of(plan.handle), decode_messages(messages), decode_all_marks(messages))

    def abortWrite(self, token: bytes, messages: list[bytes]) -> None:  # noqa: N802
        plan = CommitToken.from_bytes(token)
        if plan.handle.is_format:
            abort_format(plan, messages)
            return
        plan.abort(plan.handle.open(), decode_messages(messages))


class TaskCalls(PlannerCalls):
    """Calls about the tasks that executors get of scans and writes."""

    def renewTask(self, handle: bytes, task: bytes) -> bytes:  # noqa: N802
        return renewed(TableHandle.from_bytes(handle), task)


class ScanCalls(PlannerCalls):
    """Calls of Spark's ScanBuilder and Scan."""

    def pushFilters(self, handle: bytes, filters: list[str]) -> list[int]:  # noqa: N802
        read = TableHandle.from_bytes(handle)
        if read.rules is not None:
            return [int(guarded_handling(read, tree)) for tree in filters]
        partition_keys = read.schema.partition_keys if read.view is None else ()
        return [int(handling_of(tree, read.fields, partition_keys)) for tree in filters]

    def planScan(self, handle: bytes, request: Any) -> ScanPlan:  # noqa: N802
        read = TableHandle.from_bytes(handle)
        if read.is_computed:
            return plan_global(
                self._catalogs.get(read.catalog, read.catalog_options),
                read,
                request,
                task_of(read, request).for_executors().to_bytes(),
            )
        if read.is_format:
            return plan_format_scan(read, self._format_table_of(read), request)
        return plan_scan(self._with_present_rules(read, request.options), request)

    def aggregate(self, handle: bytes, request: Any, aggregates: list[Any]) -> AggregateAnswer:
        read = TableHandle.from_bytes(handle)
        return AggregateAnswer(rows=None if read.is_computed or read.is_format else answer(read, request, aggregates))


class StreamCalls(MergingCalls):
    """Calls of Spark's MicroBatchStream and StreamingWrite."""

    def openStream(self, handle: bytes, request: Any) -> StreamInfo:  # noqa: N802
        read = TableHandle.from_bytes(handle)
        refuse_format(read, "stream of changes")
        return open_stream(self._with_present_rules(read, request.options), request)

    def startOfStream(self, task: bytes) -> StreamOffset:  # noqa: N802
        return StreamOffset(json=open_batches(task).start())

    def newestOfStream(self, task: bytes) -> int:  # noqa: N802
        return open_batches(task).newest() or 0

    def advanceStream(self, task: bytes, after: str, limits: Any, last_snapshot: int) -> StreamOffset:  # noqa: N802
        return StreamOffset(json=open_batches(task).advance(after, limits, last_snapshot or None))

    def planMicroBatch(self, task: bytes, after: str, up_to: str) -> ScanPlan:  # noqa: N802
        return open_batches(task).plan(after, up_to)

    def commitStream(self, task: bytes, up_to: str) -> None:  # noqa: N802
        open_batches(task).commit(up_to)

    def planEpoch(self, handle: bytes, request: Any) -> WritePlan:  # noqa: N802
        given = TableHandle.from_bytes(handle)
        refuse_guarded(given, "a write")
        refuse_format(given, "commits of a stream that are made once")
        target = self._merged_for(given, request.schemaJson, request.options)
        return plan_epoch(target, request)

    def commitEpoch(self, token: bytes, epoch: int, messages: list[bytes]) -> CommitResult:  # noqa: N802
        plan = EpochToken.from_bytes(token)
        return CommitResult(snapshotId=plan.commit(self._table_of(plan.job.handle), epoch, decode_messages(messages)))

    def abortEpoch(self, token: bytes, epoch: int) -> None:  # noqa: N802
        plan = EpochToken.from_bytes(token)
        plan.abort(plan.job.handle.open(), epoch)


class ProcedureCalls(PlannerCalls):
    """Calls of Spark's ProcedureCatalog, and of its procedures."""

    def listProcedures(self, _catalog: Any) -> list[ProcedureInfo]:  # noqa: N802
        return [_info(procedure) for procedure in PROCEDURES.values()]

    def callProcedure(self, call: Any) -> ProcedureAnswer:  # noqa: N802
        asked = self._call(call)
        return _answer(asked, asked.procedure.call)

    def continueProcedure(self, call: Any, token: bytes, results: list[bytes]) -> ProcedureAnswer:  # noqa: N802
        asked = self._call(call)
        resume = asked.procedure.resume
        if resume is None:
            raise NotSupportedError(f"The procedure {asked.procedure.name} has no job to resume after.")
        return _answer(asked, lambda again: resume(again, token, results))

    def abortProcedure(self, call: Any, token: bytes) -> None:  # noqa: N802
        asked = self._call(call)
        if asked.procedure.abort is not None:
            asked.procedure.abort(asked, token)

    def _call(self, call: Any) -> ProcedureCall:
        return ProcedureCall(
            procedure=procedure_named(call.procedure),
            catalog=self._catalog(call.catalog),
            catalog_name=call.catalog.name,
            catalog_options=call.catalog.options,
            namespace=call.currentNamespace,
            arguments=json.loads(call.argumentsJson),
            task_slots=call.taskSlots or 1,
        )


def _answer(call: ProcedureCall, carry_out: Callable[[ProcedureCall], Answer]) -> ProcedureAnswer:
    for parameter in call.procedure.parameters:
        if call.lacks(parameter):
            raise call.error(parameter.name, "is missing")
    answer = carry_out(call)
    if isinstance(answer, Job):
        return ProcedureAnswer(
            job=ProcedureJob(
                description=answer.description,
                shared=answer.shared,
                tasks=list(answer.tasks),
                token=answer.token,
                givesBlocks=answer.gives_blocks,
                takes=None if answer.takes is None else [list(groups) for groups in answer.takes],
            )
        )
    return ProcedureAnswer(rows=[json.dumps(list(row)) for row in answer])


def _info(procedure: Procedure) -> ProcedureInfo:
    return ProcedureInfo(
        name=procedure.name,
        parameters=[
            ProcedureParameter(name=p.name, typeJson=json.dumps(p.type.spark), mandatory=p.required)
            for p in procedure.parameters
        ],
        resultSchemaJson=json.dumps(
            {
                "type": "struct",
                "fields": [
                    {"name": c.name, "type": c.type.spark, "nullable": True, "metadata": {}} for c in procedure.columns
                ],
            }
        ),
        description=procedure.description,
    )
