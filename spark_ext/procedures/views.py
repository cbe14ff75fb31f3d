"""The procedure about views (documentation page `spark/procedures`, alter_view_dialect).

In Paimon a view has a query for each engine, which REST catalogs keep. A Hive metastore keeps one query, which is
Spark's here, so it can be replaced, and there is no place for others; Java's Hive catalog alters no view at all.
"""

from dataclasses import replace

from interbed.spark_ext.procedures.procedure import DONE, Answer, Procedure, ProcedureCall, optional, required
from interbed.storage.base.errors import NotSupportedError

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


PROCEDURES = (
    Procedure(
        name="alter_view_dialect",
        description="Replaces the query of a view.",
        parameters=(required("view"), required("action"), optional("engine"), optional("query")),
        call=_alter_view_dialect,
    ),
)
