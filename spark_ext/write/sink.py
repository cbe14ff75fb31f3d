"""Streams into a table: every micro-batch is one commit, exactly once.

Spark plans a micro-batch again, with the same number and the same rows, until its own log has it as committed. The user
of the commits is the query's id, which lasts as long as its checkpoint, and their identifiers are the numbers of the
micro-batches. So a repeated micro-batch is recognised, and its files are deleted. The names of a micro-batch's files
have the id of its job; the next write of the query removes the files of a driver that died.
"""

import json
import uuid
from base64 import b64decode, b64encode
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from interbed.spark_ext.handle.session_options import read_options
from interbed.spark_ext.handle.table_handle import TableHandle
from interbed.spark_ext.values.spark_types import type_from_spark
from interbed.spark_ext.write.writer import CommitToken
from interbed.storage.base.errors import (
    CommitStateUnknownError,
    InvalidInputError,
    SchemaMismatchError,
)
from interbed.storage.base.types.arrow import type_to_arrow
from interbed.storage.base.types.data_type import DataField
from interbed.storage.table.table import Table
from interbed.storage.upkeep.compact_table import compact_again
from interbed.storage.upkeep.job_files import delete_unnamed, marked_jobs
from interbed.storage.write.commit_message import CommitMessage
from interbed.thrift_idl.planner.ttypes import WriteMode, WritePlan


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochToken:
    """Token of a micro-batch for the driver: the job that writes it, and its query."""

    job: CommitToken
    query: str

    def to_bytes(self) -> bytes:
        """Encode the token for the JVM."""
        return json.dumps({"job": b64encode(self.job.to_bytes()).decode(), "query": self.query}).encode()

    @staticmethod
    def from_bytes(content: bytes) -> "EpochToken":
        """Decode the token of to_bytes. Raises InvalidInputError for other bytes."""
        try:
            value = json.loads(content)
            return EpochToken(job=CommitToken.from_bytes(b64decode(value["job"])), query=value["query"])
        except (ValueError, KeyError, TypeError) as error:
            raise InvalidInputError(f"Not a micro-batch's token: {error}") from error

    def commit(self, table: Table, epoch: int, messages: Sequence[CommitMessage]) -> int | None:
        """Commit once, even if called again or with another token; return the last snapshot's id, None without one."""
        epochs = table.access.new_epoch_commit(self.query)
        name = self.job.commit_user
        if self.job.mode == WriteMode.APPEND:
            ids = epochs.commit(messages, epoch, job=name)
        else:
            ids = epochs.overwrite(messages, epoch, partition=self.job.static_partition(), job=name)
        # The mark is removed before the files, so that a task that still runs deletes its own files.
        self.job.files(table).unmark()
        if epochs.gave_up_compaction:
            compact_again(table.store)
        if ids is None and not epochs.is_job_of(epoch, name):
            delete_unnamed([self.job.files(table)])
        return ids[-1] if ids else None

    def abort(self, table: Table, epoch: int) -> None:
        """Delete the files of a failed micro-batch, unless it was committed, or may have been."""
        self.job.files(table).unmark()
        try:
            if table.access.new_epoch_commit(self.query).is_committed(epoch):
                return
        except CommitStateUnknownError:
            return
        delete_unnamed([self.job.files(table)])


def plan_epoch(handle: TableHandle, request: Any) -> WritePlan:
    """Plan a micro-batch, planner.thrift's WriteRequest. Raises for a write that is not possible."""
    name = f"{handle.database}.{handle.table}"
    if handle.is_system:
        raise handle.read_only()
    handle = replace(handle, dynamic_options=read_options(handle.dynamic_options, request.options))
    table = handle.open()
    columns = _columns(request.schemaJson, table, name, handle.kind_column)
    _remove_leftovers(table, request.queryId)
    job = CommitToken(
        handle=handle,
        commit_user=f"{request.queryId}-{uuid.uuid4()}",
        mode=request.mode,
        filters=tuple(request.filters),
        stream=True,
    )
    # Opened here for its checks of the options and the table.
    table.new_write(job.commit_user).close()
    job.files(table).mark()
    return WritePlan(
        task=job.for_executors().to_bytes(),
        token=EpochToken(job=job, query=request.queryId).to_bytes(),
        schemaJson=columns,
    )


def _columns(schema_json: str, table: Table, name: str, kind_column: str | None) -> str:
    """Return the query's StructType with the table's names of its columns, as JSON. Raises SchemaMismatchError.

    Unlike for INSERT, Spark makes no checks here. Columns are matched by name, case-insensitively unless that is
    ambiguous. Their types have to be of the same kind, so that values rarely do not fit.
    """
    schema = json.loads(schema_json)
    by_name = {**{n.lower(): n for n in table.schema.names}, **{n: n for n in table.schema.names}}
    taken: set[str] = set()
    for given in schema["fields"]:
        if given["name"] == kind_column:
            continue
        column = by_name.get(given["name"]) or by_name.get(given["name"].lower())
        if column is None or column in taken:
            what = "has no column" if column is None else "would get twice the column"
            raise SchemaMismatchError(
                f"The table '{name}' {what} '{given['name']}' of the stream; its columns are "
                f"({', '.join(table.schema.names)}). Select the columns of the table."
            )
        taken.add(column)
        field = table.schema.by_name[column]
        if not _is_alike(given["type"], field):
            raise SchemaMismatchError(
                f"The stream's column '{given['name']}' is of type {given['type']}, the one of the table '{name}' of "
                f"type {field.type}. Cast it."
            )
        given["name"] = column
    missing = [f.name for f in table.schema.fields if f.name not in taken and not f.type.nullable]
    if missing:
        raise SchemaMismatchError(
            f"The stream has no column '{missing[0]}', never null in the table '{name}'. Select a value for it."
        )
    return json.dumps(schema)


def _is_alike(spark_type: Any, field: DataField) -> bool:
    if spark_type == "void":
        return True
    given = type_to_arrow(type_from_spark(spark_type, column=field.name))
    wanted = type_to_arrow(field.type)
    return _kind(given) == _kind(wanted)


def _kind(arrow: pa.DataType) -> str:
    if pa.types.is_integer(arrow) or pa.types.is_floating(arrow) or pa.types.is_decimal(arrow):
        return "number"
    if pa.types.is_timestamp(arrow):
        return "timestamp"
    return "text" if pa.types.is_string(arrow) or pa.types.is_large_string(arrow) else str(arrow.id)


def _remove_leftovers(table: Table, query: str) -> None:
    """Remove the files of jobs of the query whose driver died. A query has one job at a time."""
    jobs = marked_jobs(table.store, f"{query}-")
    if jobs:
        # The files are deleted twice. If this driver dies, too, the next one still finds the marks; and a task that
        # still runs checks its mark only after its last file.
        delete_unnamed(jobs)
        for job in jobs:
            job.unmark()
        delete_unnamed(jobs)
