"""Procedures about metadata: manifests, and what a metastore knows (documentation page `spark/procedures`)."""

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
        table.compact_manifests()
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


PROCEDURES = (
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
