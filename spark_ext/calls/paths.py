"""Calls about tables that are named by their paths: spark.read.format("interbed").load("/lake/db.db/t")."""

import re
from dataclasses import replace
from typing import Any

from interbed.catalog.client.identifier import DEFAULT_DATABASE
from interbed.spark_ext.calls.base import Calls
from interbed.spark_ext.calls.tables import system_table_info, table_info
from interbed.spark_ext.handle.clustering import without_functions
from interbed.spark_ext.handle.session_options import BRANCH, with_session_options
from interbed.spark_ext.handle.table_handle import FILE_SYSTEM_PREFIXES, NO_CATALOG
from interbed.storage.meta.options.stream import READ_CHANGELOG
from interbed.storage.table.table import load_table
from interbed.storage.views.change_view import AUDIT_LOG
from interbed.thrift_idl.planner.ttypes import CatalogRef, TableInfo, TableRef

_NOT_IN_NAMES = re.compile(r"[^\w-]")


class PathCalls(Calls):
    """What Spark's TableProvider asks."""

    def loadPath(self, path: str, options: dict[str, str], settings: dict[str, str]) -> TableInfo:  # noqa: N802
        to_files = {key: value for key, value in options.items() if key.startswith(FILE_SYSTEM_PREFIXES)}
        to_branch = {key: value for key, value in options.items() if key == BRANCH}
        table = load_table(path, options={**to_files, **to_branch})
        # The name is for messages, and says whether the audit log is meant.
        name = _NOT_IN_NAMES.sub("_", table.name)
        catalog = CatalogRef(name=NO_CATALOG, options=to_files)
        reference: Any = TableRef(catalog=catalog, database=DEFAULT_DATABASE, table=name)
        info: Any
        if table.copy(_changelog(options)).options.reads_changelog:
            reference.table = f"{name}${AUDIT_LOG}"
            return system_table_info(reference, table, None, AUDIT_LOG, {})
        table, given = with_session_options(table, settings, NO_CATALOG, DEFAULT_DATABASE, travels=True)
        snapshot = table.starting_snapshot() if table.travels else table.latest_snapshot()
        if given:
            # What the session sets is not the table's.
            own = table.schema_of(table.schema.id).options
            table = table.with_schema(replace(table.schema, options=own))
        info = table_info(reference, table, snapshot, given)
        info.clustering = without_functions(info.clustering)
        if info.rowChanges.clustering is not None:
            info.rowChanges.clustering.spread = None
        return info


def _changelog(options: dict[str, str]) -> dict[str, str]:
    return {key: value for key, value in options.items() if key == READ_CHANGELOG}
