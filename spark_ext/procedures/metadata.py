"""Procedures about metadata: manifests, what a metastore knows, and views (documentation page `spark/procedures`).

In Paimon a view has a query for each engine, which REST catalogs keep. A Hive metastore keeps one query, which is
Spark's here, so it can be replaced, and there is no place for others; Java's Hive catalog alters no view at all.
"""

from dataclasses import replace

from interbed.spark_ext.procedures.procedure import (
    DONE,
    TABLE,
    Answer,
    ArgumentType,
    Parameter,
    Procedure,
    ProcedureCall,
    name_parts,
    optional,
    required,
)
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
        description="Registers in the metastore what lies in the warehouse: all of it, databases or tables.",
        parameters=(Parameter(name="database_or_table", required=True, means_all=True),),
        call=_repair,
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

PROCEDURES = (*_OF_MANIFESTS, *_OF_VIEWS)
