"""Procedures about files: those that nothing names, those that are gone, and all of a table's.

Documentation pages `spark/procedures`, `maintenance/manage-snapshots`.
"""

from collections.abc import Sequence

from interbed.catalog.client.errors import TableNotFoundError
from interbed.spark_ext.procedures.procedure import (
    TABLE,
    Answer,
    ArgumentType,
    Procedure,
    ProcedureCall,
    column,
    name_parts,
    optional,
)
from interbed.storage.base.errors import InterbedError, InvalidInputError
from interbed.storage.version.orphans import OrphansResult

_MODES = ("DISTRIBUTED", "LOCAL")
_ALL_TABLES = "*"


def _remove_orphan_files(call: ProcedureCall) -> Answer:
    mode = str(call.given("mode") or _MODES[0]).upper()
    if mode not in _MODES:
        raise call.error("mode", f"takes {' or '.join(_MODES)}, not {mode!r}")
    older_than, dry_run = call.given("older_than"), bool(call.given("dry_run"))
    names = _tables_of_database(call)
    if names is None:
        results = [call.table().maintenance.remove_orphan_files(older_than, dry_run=dry_run)]
    else:
        results = _of_all(call, names, older_than, dry_run=dry_run)
    return ((sum(len(result.files) for result in results), sum(result.bytes for result in results)),)


def _of_all(call: ProcedureCall, names: Sequence[str], older_than: str | None, *, dry_run: bool) -> list[OrphansResult]:
    """The results of the tables; one that fails does not keep the others from it.

    The answer has no place for that, so that an error names those that failed when all others are done.
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
        try:
            results.append(table.maintenance.remove_orphan_files(older_than, dry_run=dry_run))
        except InvalidInputError:
            # An argument that is wrong is so for each of them.
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
    """The names of all tables of a database for `db.*`; None for the name of a table."""
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


PROCEDURES = (
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
        description="Takes data files that are gone out of the table, whose rows are lost.",
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
