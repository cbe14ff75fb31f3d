"""Calls about writes that change the schema, or say what each of their rows does."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from interbed.spark_ext.calls.base import Calls
from interbed.spark_ext.calls.tables import table_info
from interbed.spark_ext.handle.clustering import without_functions
from interbed.spark_ext.handle.schema_merging import RowsToCome, kind_field
from interbed.spark_ext.handle.session_options import table_options
from interbed.spark_ext.handle.table_handle import NO_CATALOG, TableHandle
from interbed.storage.meta.store import TableStore
from interbed.storage.table.table import Table
from interbed.thrift_idl.planner.ttypes import CatalogRef, TableInfo, TableRef


class MergingCalls(Calls):
    """What the analysis of a write asks."""

    def targetOfRows(  # noqa: N802
        self, handle: bytes, schema_json: str, options: Mapping[str, str], case_sensitive: bool
    ) -> TableInfo:
        target = _target(TableHandle.from_bytes(handle), schema_json, options, case_sensitive)
        catalog = CatalogRef(name=target.catalog, options=dict(target.catalog_options))
        reference: Any = TableRef(catalog=catalog, database=target.database, table=target.table)
        # The generated class has its fields set from outside, where no type checker looks.
        info: Any = table_info(reference, Table(target.table, target.open().store), None)
        info.snapshotId = target.snapshot_id or 0
        info.handle = target.to_bytes()
        info.mergesSchema = target.rows is not None
        if target.kind_column is not None:
            struct = json.loads(info.schemaJson)
            struct["fields"].append(kind_field(schema_json, target.schema))
            info.schemaJson = json.dumps(struct)
        if target.catalog == NO_CATALOG:
            info.clustering = without_functions(info.clustering)
        result: TableInfo = info
        return result

    def _merged(self, handle: TableHandle, options: Mapping[str, str]) -> TableHandle:
        """The handle at a schema that takes the given rows, which is created if need be."""
        if handle.rows is None:
            return handle
        table = self._table_of(handle)
        merged = handle.rows.merge_into(_with_options(table.store, options))
        return replace(handle, schema_json=merged.schema.to_json(), rows=None)

    def _merged_for(self, handle: TableHandle, schema_json: str, options: Mapping[str, str]) -> TableHandle:
        """The handle for rows that no analysis has seen: those of a stream."""
        return self._merged(_target(handle, schema_json, options, case_sensitive=False), options)


def _with_options(store: TableStore, options: Mapping[str, str]) -> TableStore:
    """The table with what a write's options say of it."""
    return store.with_options(table_options(options)) if options else store


def _target(handle: TableHandle, schema_json: str, options: Mapping[str, str], case_sensitive: bool) -> TableHandle:
    """The handle for a write of rows with these columns, at the schema that the write will make."""
    kind = kind_field(schema_json, handle.schema)
    if kind is not None:
        handle = replace(handle, kind_column=kind["name"])
        struct = json.loads(schema_json)
        struct["fields"] = [f for f in struct["fields"] if f["name"] != kind["name"]]
        schema_json = json.dumps(struct)
    store = _with_options(handle.open().store, options)
    if not store.options.merges_schema:
        return handle
    rows = RowsToCome(schema_json=schema_json, case_sensitive=case_sensitive)
    return replace(handle, rows=rows, schema_json=rows.merged(handle.schema, store.options).to_json())
