"""The procedure that gives files that there are other indexes (documentation page `spark/procedures`).

It is a Spark job: the planner lists the files, each task reads the indexed columns of some of them and writes their
indexes, and the planner commits all as one COMPACT snapshot. The names of what the tasks write begin with the job's, so
that a job that fails leaves none of it.
"""

from collections.abc import Iterator, Sequence

from interbed.spark_ext.procedures.procedure import (
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
from interbed.spark_ext.write.writer import CommitToken, decode_messages, encode_messages
from interbed.storage.base.errors import CommitFailedError, CommitStateUnknownError
from interbed.storage.base.predicate.conditions import bound_filter
from interbed.storage.upkeep.rewrite_indexes import delete_indexes, files_to_index, index_files
from interbed.storage.write.commit_message import CommitMessage

_TASK_BYTES = 128 * 1024 * 1024
"""What a task reads of data files, about."""


def _rewrite_file_index(call: ProcedureCall) -> Answer:
    name, table = call.table_name(), call.table()
    where = call.given("where")
    chosen = files_to_index(table.store, None if where is None else bound_filter(where, table.schema.fields))
    if not chosen:
        return ((0, 0),)
    token = begun(call, str(name.of_table), table).to_bytes()
    tasks = [encode_messages(files) for files in _shares(chosen)]
    return Job(description=f"Index the files of {name.of_table}", tasks=tasks, shared=token, token=token)


def _shares(chosen: Sequence[CommitMessage]) -> Iterator[list[CommitMessage]]:
    """The files of each task."""
    share: list[CommitMessage] = []
    size = 0
    for message in chosen:
        share.append(message)
        size += message.compaction.before[0].file_size
        if size >= _TASK_BYTES:
            yield share
            share, size = [], 0
    if share:
        yield share


def _run_task(shared: bytes, payload: bytes) -> bytes:
    token = CommitToken.from_bytes(shared)
    table = token.handle.open()
    files = token.files(table)
    messages = index_files(table.store, decode_messages([payload]), prefix=files.file_prefixes[0])
    if not files.is_marked():
        delete_indexes(table.store, messages)
        raise CommitFailedError("The job of this task has ended without it; its files were deleted.")
    return encode_messages(messages)


def _resume(call: ProcedureCall, token: bytes, results: Sequence[bytes]) -> Answer:
    job = CommitToken.from_bytes(token)
    table = table_of(call, job)
    messages = decode_messages(results)
    try:
        job.commit(table, messages)
    except CommitStateUnknownError:
        raise
    except BaseException:
        delete_indexes(table.store, messages)
        raise
    job.files(table).sweep(messages)
    return ((len({m.partition for m in messages}), len(messages)),)


def _abort(call: ProcedureCall, token: bytes) -> None:
    job = CommitToken.from_bytes(token)
    job.abort(table_of(call, job), [])


PROCEDURES = (
    Procedure(
        name="rewrite_file_index",
        description="Gives the files of a table, or of the partitions that a filter selects, the indexes of new files.",
        parameters=(TABLE, optional("where")),
        columns=(
            column("written_partitions", ArgumentType.INT),
            column("written_indexes", ArgumentType.INT),
        ),
        call=_rewrite_file_index,
        run_task=_run_task,
        resume=_resume,
        abort=_abort,
    ),
)
