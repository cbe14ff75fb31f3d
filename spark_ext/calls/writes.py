"""Calls about write jobs."""

from typing import Any

from interbed.spark_ext.calls.merging import MergingCalls
from interbed.spark_ext.calls.staging import StagingCalls
from interbed.spark_ext.handle.table_handle import TableHandle
from interbed.spark_ext.write.writer import CommitToken, check_distinct, decode_all_marks, decode_messages, plan_write
from interbed.thrift_idl.planner.ttypes import CommitResult, WritePlan


class WriteCalls(StagingCalls, MergingCalls):
    """What Spark's Write and BatchWrite ask."""

    def planWrite(self, handle: bytes, request: Any) -> WritePlan:  # noqa: N802
        return plan_write(self._merged(TableHandle.from_bytes(handle), request.options), request)

    def commitWrite(self, token: bytes, messages: list[bytes]) -> CommitResult:  # noqa: N802
        plan = CommitToken.from_bytes(token)
        check_distinct(messages)
        if plan.handle.staged is not None:
            return self._commit_staged(plan, decode_messages(messages))
        return plan.commit(self._table_of(plan.handle), decode_messages(messages), decode_all_marks(messages))

    def abortWrite(self, token: bytes, messages: list[bytes]) -> None:  # noqa: N802
        plan = CommitToken.from_bytes(token)
        plan.abort(plan.handle.open(), decode_messages(messages))
