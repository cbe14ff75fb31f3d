"""The rows of the journal's database, from values and back: columns for what is looked for, and a JSON document.

A document is what the value's to_json says, without what stands in columns of its own. The text is compact JSON in
ASCII: PostgreSQL's text holds no NUL character, and JSON escapes it.
"""

import json
from collections.abc import Mapping
from typing import Any

from interbed.optimizer.flow.group import ResourceGroup
from interbed.optimizer.flow.kind import WorkKind
from interbed.optimizer.flow.process import Process
from interbed.optimizer.flow.request import RequestKind, TableRequest
from interbed.optimizer.flow.table_state import TableState
from interbed.optimizer.flow.task import Task, TaskFigures, TaskState
from interbed.optimizer.flow.worker import Worker

_encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=True).encode

_FIGURES = ("bytes_in", "bytes_out", "files_in", "files_out")
_PROCESS_COLUMNS = ("id", "kind", "state", "created_millis", "ended_millis", "tasks", "seconds", *_FIGURES)


def table_row(state: TableState) -> dict[str, Any]:
    """The row of a table."""
    fields = state.to_json()
    return {
        "name": fields.pop("table"),
        "group_name": _shown(state.group),
        "score": None if state.standing is None else state.standing.score,
        "document": _encode(fields),
    }


def table_from(row: Any) -> TableState:
    """The table of a row."""
    return TableState.from_json({"table": row.name, **json.loads(row.document)})


def process_row(process: Process) -> dict[str, Any]:
    """The row of a process."""
    fields = process.to_json()
    columns = {name: fields.pop(name) for name in _PROCESS_COLUMNS}
    return {
        **columns,
        "table_name": fields.pop("table"),
        "group_name": _shown(process.group),
        "document": _encode(fields),
    }


def process_from(row: Any) -> Process:
    """The process of a row."""
    columns = {name: getattr(row, name) for name in _PROCESS_COLUMNS}
    return Process.from_json({**columns, "table": row.table_name, **json.loads(row.document)})


def task_row(task: Task) -> dict[str, Any]:
    """The row of a task."""
    fields = {
        "cost": task.cost,
        "attempt": task.attempt,
        "worker": task.worker,
        "started_millis": task.started_millis,
        "lease_until_millis": task.lease_until_millis,
        "figures": task.figures.to_json(),
        "failure": task.failure,
    }
    return {
        "process_id": task.process,
        "number": task.number,
        "state": task.state.value,
        "document": _encode(fields),
        "payload": task.payload,
        "result": task.result,
    }


def task_from(row: Any) -> Task:
    """The task of a row."""
    fields = json.loads(row.document)
    return Task(
        process=row.process_id,
        number=row.number,
        state=TaskState(row.state),
        payload=row.payload,
        result=row.result,
        figures=TaskFigures.from_json(fields.pop("figures")),
        **fields,
    )


def listed_row(position: int, value: Worker | ResourceGroup) -> dict[str, Any]:
    """The row of a worker or a group, by its position among all of them."""
    return {"position": position, "document": _encode(value.to_json())}


def listed_document(row: Any) -> Mapping[str, Any]:
    """What from_json of a worker or a group takes."""
    document: dict[str, Any] = json.loads(row.document)
    return document


def request_row(request: TableRequest) -> dict[str, Any]:
    """The row of a request; its id is the database's."""
    return {
        "table_name": request.table,
        "kind": request.kind.value,
        "work": None if request.work is None else request.work.value,
    }


def request_from(row: Any) -> TableRequest:
    """The request of a row."""
    return TableRequest(
        id=row.id,
        table=row.table_name,
        kind=RequestKind(row.kind),
        work=None if row.work is None else WorkKind(row.work),
    )


def _shown(group: str) -> str:
    """A group's name for people who look into the database, which does not hold all that an option of a table may."""
    return group.encode(errors="replace").decode().replace("\0", "?")
