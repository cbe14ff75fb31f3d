"""Procedures that take tables over from Hive (documentation page `migration/migration-from-hive`).

Paimon moves a Hive table's files under a table of its own. They lack field ids, statistics and
sorting, and keep lacking them; here they are rewritten by one statement instead, which the refusals name.
"""

from interbed.spark_ext.procedures.procedure import (
    Answer,
    ArgumentType,
    Parameter,
    Procedure,
    ProcedureCall,
    column,
    optional,
    required,
)
from interbed.storage.base.errors import NotSupportedError

_OPTIONS: tuple[Parameter, ...] = (
    optional("options_map", ArgumentType.STRING_MAP),
    optional("parallelism", ArgumentType.INT),
)


def _migrate_table(call: ProcedureCall) -> Answer:
    raise NotSupportedError(
        f"Files of '{call.needed('table')}' are not taken over as they are. Copy its rows: CREATE TABLE "
        f"{call.catalog_name}.database.table AS SELECT * FROM spark_catalog.{call.needed('table')}."
    )


def _migrate_database(call: ProcedureCall) -> Answer:
    raise NotSupportedError(
        f"Files of the tables of '{call.needed('database')}' are not taken over as they are. Copy the rows of each: "
        f"CREATE TABLE {call.catalog_name}.database.table AS SELECT * FROM "
        f"spark_catalog.{call.needed('database')}.table."
    )


PROCEDURES = (
    Procedure(
        name="migrate_table",
        description="Refuses, and names the statement that copies a table's rows.",
        parameters=(
            required("source_type"),
            required("table"),
            optional("options"),
            optional("delete_origin", ArgumentType.BOOLEAN),
            optional("target_table"),
            *_OPTIONS,
        ),
        call=_migrate_table,
    ),
    Procedure(
        name="migrate_database",
        description="Refuses, and names the statement that copies a table's rows.",
        parameters=(required("source_type"), required("database"), optional("options"), *_OPTIONS),
        columns=(column("result"),),
        call=_migrate_database,
    ),
)
