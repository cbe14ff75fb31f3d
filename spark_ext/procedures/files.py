"""Procedures about files: orphan files, missing files, all files of a table, and file indexes.

Documentation pages `spark/procedures`, `maintenance/manage-snapshots`.

`rewrite_file_index` is a Spark job: the planner lists the files, each task reads the indexed columns of some files and
writes their indexes, and the planner commits all as one COMPACT snapshot. The names of the files that tasks write begin
with the job's name, so that the files of a failed job are found and deleted.
"""

from collections.abc import Iterator, Sequence

from interbed.catalog.client.errors import TableNotFoundError
from interbed.catalog.client.table_parts import as_format_table, as_object_table
from interbed.spark_ext.procedures.procedure import (
    TABLE,
    Answer,
    ArgumentType,
    Job,
    Procedure,
    ProcedureCall,
    begun,
    column,
    name_parts,
    optional,
    table_of,
)
from interbed.spark_ext.write.writer import CommitToken, decode_messages, encode_messages
from interbed.storage.base.errors import CommitFailedError, CommitStateUnknownError, InterbedError, InvalidInputError
from interbed.storage.base.predicate.conditions import bound_filter
from interbed.storage.table.table import Table
from interbed.storage.upkeep.rewrite_indexes import delete_indexes, files_to_index, index_files
from interbed.storage.version.orphans import OrphansResult
from interbed.storage.write.commit_message import CommitMessage

_MODES = ("DISTRIBUTED", "LOCAL")
_ALL_TABLES = "*"


def _remove_orphan_files(call: ProcedureCall) -> Answer:
    mode = str(call.given("mode") or _MODES[0]).upper()
    if mode not in _MODES:
        raise call.error("mode", f"takes {' or '.join(_MODES)}, not {mode!r}")
    older_than, dry_run = call.given("older_than"), bool(call.given("dry_run"))
    names = _tables_of_database(call)
    if names is None:
        results = [_of_table(call.table(), older_than, dry_run=dry_run)]
    else:
        results = _of_all(call, names, older_than, dry_run=dry_run)
    return ((sum(len(result.files) for result in results), sum(result.bytes for result in results)),)


def _of_table(table: Table, older_than: str | None, *, dry_run: bool) -> OrphansResult:
    of_files = as_format_table(table)
    if of_files is not None:
        return of_files.remove_orphan_files(older_than, dry_run=dry_run)
    return table.maintenance.remove_orphan_files(older_than, dry_run=dry_run)


def _of_all(call: ProcedureCall, names: Sequence[str], older_than: str | None, *, dry_run: bool) -> list[OrphansResult]:
    """Return the results of the tables; the failure of one does not stop the others.

    The procedure's result has no column for failures: an error lists the failed tables when all others are done.
    """
    results: list[OrphansResult] = []
    failures: dict[str, InterbedError | OSError] = {}
    for name in names:
        try:
            table = call.catalog.get_table(name)
        except TableNotFoundError:
            # Dropped since the tables were listed.
            continue
        except (InterbedError, OSError) as error:
            failures[name] = error
            continue
        if as_object_table(table) is not None:
            # All of its files are rows.
            continue
        try:
            results.append(_of_table(table, older_than, dry_run=dry_run))
        except InvalidInputError:
            # A wrong argument is wrong for each table.
            raise
        except (InterbedError, OSError) as error:
            failures[name] = error
    if failures:
        raise InterbedError(
            f"Orphan files of {len(failures)} of {len(names)} tables were not looked for: "
            f"{'; '.join(f'{name}: {error}' for name, error in failures.items())} "
            f"The other tables are done: {sum(len(result.files) for result in results)} files."
        )
    return results


def _tables_of_database(call: ProcedureCall) -> list[str] | None:
    """Return the names of all tables of a database for `db.*`; None for the name of a table."""
    parts = name_parts(str(call.needed("table"))) or []
    if not parts or parts[-1] != _ALL_TABLES:
        return None
    if len(parts) == 3 and parts[0].lower() == call.catalog_name.lower():
        parts = parts[1:]
    if len(parts) != 2:
        raise call.error("table", "names all tables of a database as 'database.*'")
    return [f"{parts[0]}.{name}" for name in call.catalog.list_tables(parts[0])]


def _remove_unexisting_files(call: ProcedureCall) -> Answer:
    return [(path,) for path in call.table().maintenance.remove_unexisting_files(dry_run=bool(call.given("dry_run")))]


def _purge_files(call: ProcedureCall) -> Answer:
    call.table().maintenance.purge_files()
    return (("Success",),)


_OF_FILES = (
    Procedure(
        name="remove_orphan_files",
        description="Deletes files that no snapshot, tag or branch names, of a table or of all tables 'db.*'.",
        parameters=(
            TABLE,
            optional("older_than"),
            optional("dry_run", ArgumentType.BOOLEAN),
            optional("parallelism", ArgumentType.INT),
            optional("mode"),
        ),
        columns=(
            column("deletedFileCount", ArgumentType.LONG),
            column("deletedFileTotalLenInBytes", ArgumentType.LONG),
        ),
        call=_remove_orphan_files,
    ),
    Procedure(
        name="remove_unexisting_files",
        description="Removes missing data files from the table; their rows are lost.",
        parameters=(TABLE, optional("dry_run", ArgumentType.BOOLEAN), optional("parallelism", ArgumentType.INT)),
        columns=(column("fileName"),),
        call=_remove_unexisting_files,
    ),
    Procedure(
        name="purge_files",
        description="Deletes all rows, snapshots, tags and branches of a table; it can't be undone.",
        parameters=(TABLE,),
        columns=(column("result"),),
        call=_purge_files,
    ),
)


_TASK_BYTES = 128 * 1024 * 1024
"""Approximate bytes of data files that a task reads."""


def _rewrite_file_index(call: ProcedureCall) -> Answer:
    name, table = call.table_name(), call.table()
    where = call.given("where")
    chosen = files_to_index(table.store, None if where is None else bound_filter(where, table.schema.fields))
    if not chosen:
        return ((0, 0),)
    token = begun(call, str(name.of_table), table)
    return Job(
        description=f"Index the files of {name.of_table}",
        tasks=[encode_messages(files) for files in _shares(chosen)],
        shared=token.for_executors().to_bytes(),
        token=token.to_bytes(),
    )


def _shares(chosen: Sequence[CommitMessage]) -> Iterator[list[CommitMessage]]:
    """Yield the files of each task."""
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


_OF_INDEXES = (
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

PROCEDURES = (*_OF_FILES, *_OF_INDEXES)
