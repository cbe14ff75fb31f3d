"""The merge function of a table, and the checks of the options that describe it."""

from interbed.storage.lsm.merge_function.api import MergeFunction
from interbed.storage.lsm.merge_function.deduplicate import Deduplicate
from interbed.storage.meta.options.core import CoreOptions
from interbed.storage.meta.options.lsm import MergeEngine
from interbed.storage.meta.schema.table_schema import TableSchema


def merge_function_for(
    schema: TableSchema,
    options: CoreOptions,
    *,
    drop_deletes: bool,
    looked_up: bool = True,
    merges_alone: bool = False,
) -> MergeFunction:
    """The merge function of a table with a primary key.

    With `drop_deletes` keys whose merged record deletes them are left out. `looked_up` false is for records that were
    not in files yet. With `merges_alone` functions see also rows that are the only one of their key, as in compactions
    that look up older rows; elsewhere such rows stay as they are. Raises InvalidOptionError for options that contradict
    each other or the schema, NotSupportedError for functions that this version lacks.
    """
    engine = options.merge_engine
    if engine is MergeEngine.DEDUPLICATE:
        return Deduplicate(drop_deletes=drop_deletes, ignore_delete=options.ignore_delete)
    # The others by use: most tables need none of them.
    if engine is MergeEngine.FIRST_ROW:
        from interbed.storage.lsm.merge_function.first_row import FirstRow

        return FirstRow(ignore_delete=options.ignore_delete, drop_deletes=drop_deletes)
    from interbed.storage.lsm.merge_function.from_options import aggregation, partial_update
    from interbed.storage.lsm.merge_function.lookup import LowestLevel

    function: MergeFunction
    if engine is MergeEngine.PARTIAL_UPDATE:
        function = partial_update(schema, options, drop_deletes=drop_deletes, merges_alone=merges_alone)
    else:
        function = aggregation(schema, options, drop_deletes=drop_deletes, merges_alone=merges_alone)
    return LowestLevel(inner=function) if looked_up and options.compactions_look_up else function


def check_merge_options(schema: TableSchema, options: CoreOptions) -> None:
    """Raise InvalidOptionError or NotSupportedError, naming the option, when the table's rows can't be merged so."""
    if not schema.has_primary_key:
        return
    merge_function_for(schema, options, drop_deletes=False)
