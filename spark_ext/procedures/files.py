"""Procedures about files: those that nothing names, those that are gone, and all of a table's.

Documentation pages `spark/procedures`, `maintenance/manage-snapshots`.
"""

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
from interbed.storage.table.table import Table

_MODES = ("DISTRIBUTED", "LOCAL")
_ALL_TABLES = "*"


def _remove_orphan_files(call: ProcedureCall) -> Answer:
    mode = str(call.given("mode") or _MODES[0]).upper()
    if mode not in _MODES:
        raise call.error("mode", f"takes {' or '.join(_MODES)}, not {mode!r}")
    tables = _tables(call)
    older_than, dry_run = call.given("older_than"), bool(call.given("dry_run"))
    results = [table.remove_orphan_files(older_than, dry_run=dry_run) for table in tables]
    return ((sum(len(result.files) for result in results), sum(result.bytes for result in results)),)


def _tables(call: ProcedureCall) -> list[Table]:
    """The table of a call, or with `db.*` all tables of a database."""
    parts = name_parts(str(call.needed("table"))) or []
    if not parts or parts[-1] != _ALL_TABLES:
        return [call.table()]
    if len(parts) == 3 and parts[0].lower() == call.catalog_name.lower():
        parts = parts[1:]
    if len(parts) != 2:
        raise call.error("table", "names all tables of a database as 'database.*'")
    return [call.catalog.get_table(f"{parts[0]}.{name}") for name in call.catalog.list_tables(parts[0])]


def _remove_unexisting_files(call: ProcedureCall) -> Answer:
    return [(path,) for path in call.table().remove_unexisting_files(dry_run=bool(call.given("dry_run")))]


def _purge_files(call: ProcedureCall) -> Answer:
    call.table().purge_files()
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
