"""Calls about procedures and their jobs."""

import json
from collections.abc import Callable
from typing import Any

from interbed.spark_ext.calls.base import PlannerCalls
from interbed.spark_ext.procedures.procedure import Answer, Job, Procedure, ProcedureCall
from interbed.spark_ext.procedures.registry import PROCEDURES, procedure_named
from interbed.storage.base.errors import NotSupportedError
from interbed.thrift_idl.planner.ttypes import ProcedureAnswer, ProcedureInfo, ProcedureJob, ProcedureParameter


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
