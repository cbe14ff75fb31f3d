"""Calls of sys.ingest_kafka whose tasks run in this process, one after the other, as Spark would run them."""

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import interbed
from interbed.spark_ext.procedures.procedure import Answer, Job, ProcedureCall
from interbed.spark_ext.procedures.registry import PROCEDURES, run_task, take_blocks

NAME = "ingest_kafka"
Blocks = list[tuple[str, int, int, bytes]]
"""Group, task that produced it, index, and content."""


def procedure_call(warehouse: Path, *, task_slots: int = 2, **arguments: Any) -> ProcedureCall:
    """Return a call in the catalog of a directory."""
    return ProcedureCall(
        procedure=PROCEDURES[NAME],
        catalog=interbed.load_catalog("lake", warehouse=str(warehouse)),
        catalog_name="lake",
        catalog_options={"warehouse": str(warehouse)},
        namespace="default",
        arguments=arguments,
        task_slots=task_slots,
    )


def run_call(call: ProcedureCall, before_commit: Callable[[], None] = lambda: None) -> dict[str, Any]:
    """Run a call and return its result row; `before_commit` is called after rows were written and before the commit."""
    procedure = call.procedure
    assert procedure.resume is not None
    answer: Answer = procedure.call(call)
    given: Blocks = []
    while isinstance(answer, Job):
        if answer.takes is None:
            outputs = [_parted(run_task(NAME, answer.shared, task), n) for n, task in enumerate(answer.tasks)]
            results = [result for result, _ in outputs]
            given = sorted(block for _, blocks in outputs for block in blocks)
        else:
            results = [
                take_blocks(NAME, answer.shared, task, iter([(b[0], b[3]) for b in given if b[0] in groups]))
                for task, groups in zip(answer.tasks, answer.takes, strict=True)
            ]
            before_commit()
        answer = procedure.resume(call, answer.token, results)
    (row,) = answer
    return dict(zip([c.name for c in procedure.columns], row, strict=True))


def _parted(output: bytes, task: int) -> tuple[bytes, Blocks]:
    """Return a task's result, and the blocks after it."""
    parts = []
    at = 0
    while at < len(output):
        (length,) = struct.unpack_from("!i", output, at)
        parts.append(output[at + 4 : at + 4 + length])
        at += 4 + length
    groups, blocks = parts[1::2], parts[2::2]
    return parts[0], [(g.decode(), task, n, b) for n, (g, b) in enumerate(zip(groups, blocks, strict=True))]
