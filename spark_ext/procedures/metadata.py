"""Procedures about metadata: partitions, manifests, what a metastore has, views, migration, the optimizer's state.

Documentation pages `spark/procedures`, `maintenance/manage-partitions`, `migration/migration-from-hive`.
`optimizing_status` is our own; it reads nothing but the optimizer's journal.

In Paimon a view has a query for each engine, which REST catalogs keep. A Hive metastore keeps one query, which is
Spark's here: it can be replaced, and there is no place for others. Java's Hive catalog alters no view at all.

Paimon moves a Hive table's files under a table of its own. These lack field ids, statistics and sorting for good.
Here one statement rewrites them instead; the errors of `migrate_table` and `migrate_database` name it.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from interbed.optimizer.journal.sql import journal_to_read, journal_url
from interbed.optimizer.views.status import TableStatus, optimizer_status
from interbed.spark_ext.procedures.procedure import (
    DONE,
    TABLE,
    Answer,
    ArgumentType,
    Parameter,
    Procedure,
    ProcedureCall,
    column,
    name_parts,
    optional,
    required,
)
from interbed.spark_ext.values.predicates import partitions_by_text
from interbed.storage.base.clock import now_millis
from interbed.storage.base.errors import NotSupportedError

_SORTING = ("manifest_sort_enabled", "manifest_sort_partition_field", "manifest_sort_max_rewrite_size")


def _compact_manifest(call: ProcedureCall) -> Answer:
    table = call.table().copy(call.options())
    if any(call.given(name) for name in _SORTING):
        raise NotSupportedError(
            f"Manifests are not sorted by a partition column; call {call.procedure.name} without {', '.join(_SORTING)}."
        )
    if not call.given("dry_run"):
        table.maintenance.compact_manifests()
    return DONE


def _repair(call: ProcedureCall) -> Answer:
    names = str(call.arguments.get("database_or_table", "")).strip()
    if not names:
        call.catalog.repair_catalog()
        return DONE
    found = [(name, name_parts(name)) for name in names.split(",")]
    for name, parts in found:
        if parts is None or len(parts) > 2:
            raise call.error("database_or_table", f"names neither a database nor a table: {name!r}")
    for _, parts in found:
        assert parts is not None, "checked above"
        if len(parts) == 1:
            call.catalog.repair_database(parts[0])
        else:
            call.catalog.repair_table(".".join(parts))
    return DONE


def _undrop(call: ProcedureCall) -> Answer:
    new_name, drop_id = call.given("new_name"), call.given("drop_id")
    database = call.given("database")
    if (database is None) == (call.given("table") is None):
        raise call.error("table", "or the argument 'database' is to be given, and only one of them")
    if database is None:
        call.catalog.undrop_table(call.table_name().of_table, new_name=new_name, drop_id=drop_id)
    elif new_name is not None:
        raise call.error("new_name", "is for tables: a database gets no other name")
    else:
        call.catalog.undrop_database(str(database), drop_id=drop_id)
    return DONE


def _dropped(call: ProcedureCall) -> Answer:
    return [
        (entry.id, entry.database or None, entry.name, entry.kind, entry.dropped_at, entry.expires_at)
        for entry in call.catalog.list_dropped(call.given("database"))
    ]


def _purge_dropped(call: ProcedureCall) -> Answer:
    return ((call.catalog.purge_dropped(str(call.needed("name")), drop_id=call.given("drop_id")),),)


_OF_MANIFESTS = (
    Procedure(
        name="compact_manifest",
        description="Merges the manifests of a table.",
        parameters=(
            TABLE,
            optional("options"),
            optional("dry_run", ArgumentType.BOOLEAN),
            optional("manifest_sort_enabled", ArgumentType.BOOLEAN),
            optional("manifest_sort_partition_field"),
            optional("manifest_sort_max_rewrite_size"),
        ),
        call=_compact_manifest,
    ),
    Procedure(
        name="repair",
        description="Registers tables of the warehouse in the metastore: all, those of databases, or single ones.",
        parameters=(Parameter(name="database_or_table", required=True, means_all=True),),
        call=_repair,
    ),
    Procedure(
        name="undrop",
        description="Puts the latest dropped table, view or database of a name back, with its files, where it is kept.",
        parameters=(optional("table"), optional("new_name"), optional("database"), optional("drop_id")),
        call=_undrop,
    ),
    Procedure(
        name="dropped",
        description="Lists the dropped tables, views and databases that are kept; times are seconds since the epoch.",
        parameters=(optional("database"),),
        columns=(
            column("id"),
            column("database"),
            column("name"),
            column("kind"),
            column("dropped_at", ArgumentType.LONG),
            column("expires_at", ArgumentType.LONG),
        ),
        call=_dropped,
    ),
    Procedure(
        name="purge_dropped",
        description="Deletes a dropped table, view or database for good, with the files that are kept for it.",
        parameters=(required("name"), optional("drop_id")),
        columns=(column("purged", ArgumentType.LONG),),
        call=_purge_dropped,
    ),
)


_SPARK = "spark"


def _alter_view_dialect(call: ProcedureCall) -> Answer:
    name = call.table_name("view").of_table
    view = call.catalog.get_view(name)
    action, engine = str(call.needed("action")).lower(), str(call.given("engine") or _SPARK).lower()
    if action not in ("add", "update", "drop"):
        raise call.error("action", f"is 'add', 'update' or 'drop', not {action!r}")
    if engine != _SPARK:
        raise NotSupportedError(
            f"The catalog '{call.catalog_name}' keeps one query of a view, which is Spark's; there is no place for "
            f"one of {engine!r}. Make a view of another name for it."
        )
    if action == "add":
        raise call.error("action", f"is 'add', but '{name}' has a query for Spark already; 'update' replaces it")
    if action == "drop":
        raise NotSupportedError(f"A query for Spark is all that the view '{name}' has; drop the view instead.")
    call.catalog.create_view(name, replace(view, query=call.needed("query")), replace=True)
    return DONE


_OF_VIEWS = (
    Procedure(
        name="alter_view_dialect",
        description="Replaces the query of a view.",
        parameters=(required("view"), required("action"), optional("engine"), optional("query")),
        call=_alter_view_dialect,
    ),
)


def _expire_partitions(call: ProcedureCall) -> Answer:
    call.table()
    removed = call.catalog.expire_partitions(
        call.table_name().of_table,
        expiration_time=call.given("expiration_time"),
        timestamp_formatter=call.given("timestamp_formatter"),
        timestamp_pattern=call.given("timestamp_pattern"),
        expire_strategy=call.given("expire_strategy"),
        max_expires=call.given("max_expires"),
        options=call.options(),
    )
    rows = [(", ".join(f"{key}={value}" for key, value in spec.items()),) for spec in removed]
    return rows or (("No expired partitions.",),)


def _mark_partition_done(call: ProcedureCall) -> Answer:
    table = call.table()
    present = table.access.partition_sums()
    specs: list[Mapping[str, Any]] = []
    for given in call.partitions():
        forms = partitions_by_text([given], table.schema.partition_fields)
        # Without rows, the partition is the one that Spark will write.
        found = [spec for spec in forms if table.access.partition_of(spec) in present] if len(forms) > 1 else forms
        specs += found or forms[-1:]
    call.catalog.mark_partitions_done(call.table_name().of_table, specs)
    return DONE


_OF_PARTITIONS = (
    Procedure(
        name="mark_partition_done",
        description="Marks partitions as complete, by what the option 'partition.mark-done-action' says.",
        parameters=(TABLE, required("partitions")),
        call=_mark_partition_done,
    ),
    Procedure(
        name="expire_partitions",
        description="Drops the partitions that are too old.",
        parameters=(
            TABLE,
            optional("expiration_time"),
            optional("timestamp_formatter"),
            optional("timestamp_pattern"),
            optional("expire_strategy"),
            optional("max_expires", ArgumentType.INT),
            optional("options"),
        ),
        columns=(column("expired_partitions"),),
        call=_expire_partitions,
    ),
)


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


_OF_MIGRATION = (
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


def _optimizing_status(call: ProcedureCall) -> Answer:
    names = None
    if call.given("table") is not None:
        call.table()
        names = [str(call.table_name().identifier)]
    with journal_to_read(journal_url(call.catalog)) as journal:
        found = optimizer_status(journal, now_millis(), names)
    return [_row(line) for line in found.tables]


def _row(line: TableStatus) -> tuple[object, ...]:
    state, summary = line.state, line.state.summary
    return (
        state.name,
        state.group,
        None if summary is None else summary.score,
        None if summary is None else summary.read_amplification,
        None if summary is None else summary.pending_bytes,
        None if summary is None else summary.snapshot_id,
        line.doing,
        line.needs,
        line.reason,
        state.failures,
        state.measured_millis,
    )


_OF_THE_OPTIMIZER = (
    Procedure(
        name="optimizing_status",
        description="Shows the optimizer's state of a table, or of all tables; the worst first.",
        parameters=(optional("table"),),
        columns=(
            column("table"),
            column("group"),
            column("score", ArgumentType.INT),
            column("readAmplification", ArgumentType.DOUBLE),
            column("pendingBytes", ArgumentType.LONG),
            column("snapshotId", ArgumentType.LONG),
            column("doing"),
            column("needs"),
            column("reason"),
            column("failures", ArgumentType.INT),
            column("measuredAt", ArgumentType.LONG),
        ),
        call=_optimizing_status,
    ),
)

PROCEDURES = (*_OF_PARTITIONS, *_OF_MANIFESTS, *_OF_VIEWS, *_OF_MIGRATION, *_OF_THE_OPTIMIZER)
