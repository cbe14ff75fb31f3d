"""Declaration of a procedure: a name, parameters, the columns of its result, and functions that carry it out.

A procedure returns rows, or a `Job`: tasks that Spark runs on its executors, each in a Python worker. The procedure
gets their results, and returns rows or another job.

    call(call)                      on the driver: rows or a Job
    run_task(shared, payload)       on an executor: bytes to bytes; may run twice, so it must be idempotent
    take_blocks(shared, payload, blocks)    the same, for a job that takes the blocks of the tasks before it
    resume(call, token, results)    on the driver: rows or a Job
    abort(call, token)              on the driver, when a job failed: deletes the files of its tasks

Jobs that write to one table share the token of their commit, which the driver creates and the tasks get.
"""

import re
import struct
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from interbed.catalog.client.api import Catalog
from interbed.catalog.client.errors import DatabaseNotFoundError, TableNotFoundError
from interbed.catalog.client.identifier import TableName
from interbed.spark_ext.handle.table_handle import TableHandle, handle_of_table
from interbed.spark_ext.write.writer import CommitToken
from interbed.storage.base.errors import BranchNotFoundError, InvalidInputError
from interbed.storage.table.table import Table
from interbed.thrift_idl.planner.ttypes import WriteMode

_LENGTH = struct.Struct("!i")
_PART = re.compile(r"`((?:[^`]|``)+)`|([^`.]+)")


class ArgumentType(StrEnum):
    """Types of arguments and results, by Spark's names."""

    STRING = "string"
    BOOLEAN = "boolean"
    INT = "integer"
    LONG = "long"
    DOUBLE = "double"
    STRING_MAP = "map"

    @property
    def spark(self) -> Any:
        """The JSON value of Spark's type."""
        if self is not ArgumentType.STRING_MAP:
            return self.value
        return {"type": "map", "keyType": "string", "valueType": "string", "valueContainsNull": True}

    @property
    def sql(self) -> str:
        """The type in SQL."""
        return {"integer": "INT", "long": "BIGINT", "map": "MAP<STRING, STRING>"}.get(self.value, self.value.upper())


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One parameter of a procedure. An optional one is NULL when it is not given.

    A blank text counts as missing for a required parameter, unless it `means_all`.
    """

    name: str
    type: ArgumentType = ArgumentType.STRING
    required: bool = False
    means_all: bool = False

    def __str__(self) -> str:
        text = f"{self.name} {self.type.sql}"
        return text if self.required else f"[{text}]"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultColumn:
    """One column of a procedure's result."""

    name: str
    type: ArgumentType = ArgumentType.STRING


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Work for executors; `shared` is for all tasks, `token` for the procedure's next step.

    With `gives_blocks` the tasks return the result of `with_blocks`, and the next job may take the blocks: `takes` has
    for each of its tasks the groups whose blocks it gets. Blocks of a group come in the order of the tasks that gave
    them, and groups in the order of their names.
    """

    description: str
    tasks: Sequence[bytes]
    shared: bytes = b""
    token: bytes = b""
    gives_blocks: bool = False
    takes: Sequence[Sequence[str]] | None = None


def with_blocks(result: bytes, blocks: Iterable[tuple[str, bytes]]) -> bytes:
    """Encode the result of a task whose job gives blocks: its own result, and blocks with the names of their groups."""
    parts = [result, *(part for group, block in blocks for part in (group.encode(), block))]
    return b"".join(piece for part in parts for piece in (_LENGTH.pack(len(part)), part))


Rows = Sequence[Sequence[Any]]
Answer = Rows | Job

RESULT = (ResultColumn(name="result", type=ArgumentType.BOOLEAN),)
DONE: Rows = ((True,),)
"""Rows of procedures without a result of their own, with the column RESULT."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Procedure:
    """A procedure of `sys`."""

    name: str
    description: str
    parameters: tuple[Parameter, ...]
    call: "Callable[[ProcedureCall], Answer]"
    columns: tuple[ResultColumn, ...] = RESULT
    run_task: Callable[[bytes, bytes], bytes] | None = None
    take_blocks: Callable[[bytes, bytes, Iterator[tuple[str, bytes]]], bytes] | None = None
    resume: "Callable[[ProcedureCall, bytes, Sequence[bytes]], Answer] | None" = None
    abort: "Callable[[ProcedureCall, bytes], None] | None" = None
    is_statement: bool = False
    """Whether users call it by a statement, which is its description, and not as a procedure."""

    @property
    def signature(self) -> str:
        """Signature for errors: `sys.create_tag(table STRING, tag STRING, [snapshot BIGINT])`."""
        return f"sys.{self.name}({', '.join(map(str, self.parameters))})"


def required(name: str, kind: ArgumentType = ArgumentType.STRING) -> Parameter:
    """Return a required parameter, by default a text."""
    return Parameter(name=name, type=kind, required=True)


def optional(name: str, kind: ArgumentType = ArgumentType.STRING) -> Parameter:
    """Return an optional parameter, by default a text."""
    return Parameter(name=name, type=kind)


def column(name: str, kind: ArgumentType = ArgumentType.STRING) -> ResultColumn:
    """Return a column of the result, by default a text."""
    return ResultColumn(name=name, type=kind)


TABLE = required("table")


class ProcedureArgumentError(InvalidInputError):
    """An argument of a procedure is missing or wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcedureCall:
    """A procedure with its arguments that are not null, in a catalog with its options in Spark."""

    procedure: Procedure
    catalog: Catalog
    catalog_name: str
    catalog_options: Mapping[str, str]
    namespace: str
    arguments: Mapping[str, Any]
    task_slots: int = 1
    """Tasks that Spark runs at the same time, as far as it knows."""

    def given(self, name: str) -> Any:
        """Return an argument, or None; a blank text counts as None, as in Paimon."""
        value = self.arguments.get(name)
        return None if isinstance(value, str) and not value.strip() else value

    def lacks(self, parameter: Parameter) -> bool:
        """Return whether a required argument is missing."""
        value = self.arguments.get(parameter.name) if parameter.means_all else self.given(parameter.name)
        return parameter.required and value is None

    def needed(self, name: str) -> Any:
        """Return an argument. Raises ProcedureArgumentError if it is missing."""
        value = self.given(name)
        if value is None:
            raise self.error(name, "is missing")
        return value

    def table_name(self, argument: str = "table") -> TableName:
        """Parse the table of an argument: `t`, `db.t`, `lake.db.t`, each part also in backticks, with its branch."""
        text = str(self.needed(argument))
        parts = name_parts(text)
        if parts is not None and len(parts) == 3 and parts[0].lower() == self.catalog_name.lower():
            parts = parts[1:]
        if parts is None or len(parts) > 2:
            raise self.error(
                argument, f"names no table of the catalog '{self.catalog_name}': {text!r}; write 'database.table'"
            )
        try:
            return TableName.parse((self.namespace, parts[0]) if len(parts) == 1 else (parts[0], parts[1]))
        except InvalidInputError as error:
            raise self.error(argument, str(error)) from error

    def table(self, argument: str = "table") -> Table:
        """Load the table of an argument. Raises ProcedureArgumentError when it does not exist."""
        name = self.table_name(argument)
        if name.system is not None:
            raise self.error(argument, f"names a system table: '{name.of_table}${name.system}'")
        try:
            return self.catalog.get_table(name.of_table)
        except (TableNotFoundError, DatabaseNotFoundError, BranchNotFoundError) as error:
            raise self.error(argument, f"names no table of the catalog '{self.catalog_name}': {error}") from error

    def options(self, name: str = "options") -> dict[str, str]:
        """Parse the options of an argument: `key=value`, separated by commas."""
        text = self.given(name)
        found: dict[str, str] = {}
        for item in () if text is None else text.split(","):
            key, equals, value = item.partition("=")
            if not equals or not key.strip():
                raise self.error(name, f"lists options as 'key=value,key=value', not {text!r}")
            found[key.strip()] = value.strip()
        return found

    def partitions(self, name: str = "partitions") -> list[dict[str, str]]:
        """Parse the partitions of an argument: `dt=1,hh=2;dt=3,hh=4`."""
        text = str(self.needed(name))
        found = []
        for item in filter(str.strip, text.split(";")):
            pairs = [pair.partition("=") for pair in item.split(",")]
            if not all(key.strip() and equals for key, equals, _ in pairs):
                raise self.error(name, f"lists partitions as 'dt=1,hh=2;dt=3,hh=4', not {text!r}")
            found.append({key.strip(): value.strip().strip("'\"") for key, _, value in pairs})
        return found

    def error(self, argument: str, what: str) -> ProcedureArgumentError:
        """Return the error of an argument, with the reason and the procedure's signature."""
        if self.procedure.is_statement:
            return ProcedureArgumentError(f"The {argument} of {self.procedure.description} {what.rstrip('.')}.")
        return ProcedureArgumentError(
            f"The argument '{argument}' of the procedure {self.procedure.name} {what.rstrip('.')}. "
            f"It is called as {self.procedure.signature}."
        )


def name_parts(text: str) -> list[str] | None:
    """Parse the parts of a name in SQL, without their backticks; None when it is no name."""
    parts: list[str] = []
    rest = text.strip()
    while True:
        found = _PART.match(rest)
        if found is None:
            return None
        quoted, plain = found.groups()
        parts.append(quoted.replace("``", "`") if quoted is not None else plain.strip())
        rest = rest[found.end() :]
        if not rest:
            return parts
        if not rest.startswith("."):
            return None
        rest = rest[1:]


def begun(call: ProcedureCall, name: str, table: Table) -> CommitToken:
    """Create the token of a job that writes to the table, `database.table`, and the mark of the job."""
    token = CommitToken(handle=handle_of(call, name, table), commit_user=str(uuid.uuid4()), mode=WriteMode.APPEND)
    token.files(table).mark()
    return token


def handle_of(call: ProcedureCall, name: str, table: Table) -> TableHandle:
    """Return the handle with which tasks open the table."""
    database, _, table_name = name.partition(".")
    return handle_of_table(
        table,
        catalog=call.catalog_name,
        catalog_options=call.catalog_options,
        name=(database, table_name),
        dynamic_options=table.access.dynamic_options,
    )


def table_of(call: ProcedureCall, token: CommitToken) -> Table:
    """Load the table of a job from its catalog, for the commit."""
    return call.catalog.get_table(f"{token.handle.database}.{token.handle.table}").copy(token.handle.dynamic_options)
