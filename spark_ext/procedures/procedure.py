"""What a procedure is: a name, parameters, the columns of its result, and functions that carry it out.

A procedure answers with rows, or with a `Job`: tasks that Spark runs on its executors, each in a Python worker, after
which the procedure goes on with what they returned, to rows or to another job.

    call(call)                      on the driver: rows or a Job
    run_task(shared, payload)       on an executor: bytes to bytes; may run twice, so it must not mind
    resume(call, token, results)    on the driver: rows or a Job
    abort(call, token)              on the driver, when a job failed: deletes what its tasks left
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from interbed.spark_ext.procedures.call import ProcedureCall


class ArgumentType(StrEnum):
    """Types of arguments and of results, by Spark's names of them."""

    STRING = "string"
    BOOLEAN = "boolean"
    INT = "integer"
    LONG = "long"
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
    """One argument of a procedure. One that is not required is NULL when it is not given."""

    name: str
    type: ArgumentType = ArgumentType.STRING
    required: bool = False

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
    """Work for executors; `shared` is what all tasks need, `token` what the procedure needs to go on."""

    description: str
    tasks: Sequence[bytes]
    shared: bytes = b""
    token: bytes = b""


Rows = Sequence[Sequence[Any]]
Answer = Rows | Job

RESULT = (ResultColumn(name="result", type=ArgumentType.BOOLEAN),)
DONE: Rows = ((True,),)
"""What procedures return that have nothing to tell, under the column RESULT."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Procedure:
    """A procedure of `sys`."""

    name: str
    description: str
    parameters: tuple[Parameter, ...]
    call: "Callable[[ProcedureCall], Answer]"
    columns: tuple[ResultColumn, ...] = RESULT
    run_task: Callable[[bytes, bytes], bytes] | None = None
    resume: "Callable[[ProcedureCall, bytes, Sequence[bytes]], Answer] | None" = None
    abort: "Callable[[ProcedureCall, bytes], None] | None" = None
    is_statement: bool = False
    """Whether users know it as a statement, its description, and not as a procedure."""

    @property
    def signature(self) -> str:
        """How it is called, for errors: `sys.create_tag(table STRING, tag STRING, [snapshot BIGINT])`."""
        return f"sys.{self.name}({', '.join(map(str, self.parameters))})"


def required(name: str, kind: ArgumentType = ArgumentType.STRING) -> Parameter:
    """A parameter that has to be given."""
    return Parameter(name=name, type=kind, required=True)


def optional(name: str, kind: ArgumentType = ArgumentType.STRING) -> Parameter:
    """A parameter that may be left out."""
    return Parameter(name=name, type=kind)


def column(name: str, kind: ArgumentType = ArgumentType.STRING) -> ResultColumn:
    """A column of the result."""
    return ResultColumn(name=name, type=kind)


TABLE = required("table")

Arguments = Mapping[str, Any]
