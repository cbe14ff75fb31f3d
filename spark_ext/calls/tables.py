"""Calls about tables: load, create, alter, drop, rename; by name or by path; their partitions and statistics.

spark.read.format("interbed").load("/lake/db.db/t") names a table by its path.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from interbed.catalog.client.api import Catalog, system_table
from interbed.catalog.client.errors import DatabaseNotFoundError
from interbed.catalog.client.global_tables import GlobalTable
from interbed.catalog.client.identifier import (
    DB_SUFFIX,
    DEFAULT_DATABASE,
    SYSTEM_DATABASE,
    Identifier,
    TableName,
    branch_to_alter,
    parse_table_name,
)
from interbed.catalog.client.options import options_of_files
from interbed.catalog.client.partition import partitions_of, partitions_of_files
from interbed.catalog.client.table_parts import as_format_table, as_object_table
from interbed.spark_ext.calls.catalogs import PlannerCalls, identifier_of
from interbed.spark_ext.handle.format_tables import (
    MANAGED_LOCATION,
    format_table_info,
    refuse_format,
    schema_changes,
    schema_to_create,
    spark_properties,
)
from interbed.spark_ext.handle.row_changes import clustering_of, hidden_columns_of, row_changes_of, without_functions
from interbed.spark_ext.handle.session_options import BRANCH, check_options_of_path, with_session_options
from interbed.spark_ext.handle.table_handle import NO_CATALOG, TableHandle, handle_of_table
from interbed.spark_ext.read.task import guarded_info, refused, unguarded
from interbed.spark_ext.values.predicates import agrees, partition_forms, spec_from_spark, values_to_spark
from interbed.spark_ext.values.spark_types import schema_to_spark
from interbed.storage.base.errors import InterbedError, NotSupportedError
from interbed.storage.base.row.binary_row import decode_row
from interbed.storage.io.stores.settings import hadoop_scheme
from interbed.storage.meta.options.core import CoreOptions
from interbed.storage.meta.options.stream import READ_CHANGELOG
from interbed.storage.meta.paths import MAIN_BRANCH
from interbed.storage.meta.schema.table_schema import Schema
from interbed.storage.meta.snapshot.snapshot import Snapshot
from interbed.storage.table.format_table.format_table import FormatTable
from interbed.storage.table.object_table import ObjectTable
from interbed.storage.table.row_views import READ_OPTIMIZED
from interbed.storage.table.table import Table, load_table, with_schema
from interbed.storage.views.changes import AUDIT_LOG
from interbed.thrift_idl.planner.ttypes import (
    CatalogRef,
    PartitionInfo,
    RowChanges,
    TableInfo,
    TableRef,
    TimeTravel,
    WriteClustering,
)

MICROS_PER_MILLI = 1000
PURGE = "spark.interbed.purge"
"""The setting by which DROP TABLE … PURGE deletes the files at once."""


class TableCalls(PlannerCalls):
    """Calls of Spark's TableCatalog."""

    def listTables(self, catalog: Any, database: str) -> list[str]:  # noqa: N802
        return self._catalog(catalog).list_tables(database)

    def loadTable(self, table: Any, at: TimeTravel) -> TableInfo:  # noqa: N802
        name = TableName.parse(identifier_of(table))
        if name.identifier.database == SYSTEM_DATABASE:
            return computed_table_info(table, GlobalTable.of(self._catalog(table.catalog), name.identifier.table))
        catalog = self._catalog(table.catalog)
        loaded = catalog.get_table(name.of_table)
        if (of_files := as_format_table(loaded)) is not None:
            return _format_info(table, catalog, of_files, at)
        if (of_objects := as_object_table(loaded)) is not None:
            if name.system is not None or at.version is not None or at.timestampMicros is not None:
                raise NotSupportedError(
                    f"The object table '{name.of_table}' has no older versions and no system tables."
                )
            return computed_table_info(table, of_objects)
        loaded, guard = unguarded(loaded)
        if guard is not None and name.system is not None:
            raise refused(identifier_of(table), f"its system table ${name.system}")
        named = at.version is not None or at.timestampMicros is not None
        loaded, options = with_session_options(
            loaded, table.settings or {}, table.catalog.name, table.database, travels=not (named or at.newest)
        )
        pinned = named or (loaded.access.travels and not at.newest)
        snapshot = _snapshot_at(loaded, at)
        schema = loaded.schema
        if snapshot is not None and pinned:
            # Time travel shows the columns of that time.
            schema = loaded.access.schema_of(snapshot.schema_id)
        if options:
            # SHOW CREATE TABLE must not have the session's options.
            own = loaded.access.schema_of(loaded.schema.id).options
            schema = replace(schema, options=own)
        if schema is not loaded.schema:
            loaded = with_schema(loaded, schema)
        if name.system is not None:
            # The read-optimized table is read like a table, at the present snapshot.
            shown = snapshot if pinned or name.system == READ_OPTIMIZED else None
            return system_table_info(table, loaded, shown, name.system, options)
        info = table_info(table, loaded, snapshot, options)
        if loaded.location == f"{catalog.warehouse}/{table.database}{DB_SUFFIX}/{table.table}":
            # For the default location SHOW CREATE TABLE has no LOCATION, so that it works for another name.
            info.properties = {**(info.properties or {}), MANAGED_LOCATION: "true"}
        if guard is not None:
            guarded_info(info, guard, loaded.access.branch_name)
        return info

    def createTable(self, table: Any, request: Any) -> TableInfo:  # noqa: N802
        catalog = self._catalog(table.catalog)
        schema = schema_to_create(request.schemaJson, request.partitioning, request.properties)
        if table.database == DEFAULT_DATABASE:
            # Spark's current namespace until the first USE, which exists without being created.
            catalog.create_database(DEFAULT_DATABASE, ignore_if_exists=True)
        created = catalog.create_table(identifier_of(table), schema)
        if (of_files := as_format_table(created)) is not None:
            return _format_info(table, catalog, of_files, TimeTravel())
        if (of_objects := as_object_table(created)) is not None:
            return computed_table_info(table, of_objects)
        return table_info(table, created, None)

    def alterTable(self, table: Any, changes: list[Any]) -> TableInfo:  # noqa: N802
        catalog = self._catalog(table.catalog)
        name = identifier_of(table)
        identifier = branch_to_alter(name) or parse_table_name(name)
        translated = schema_changes(changes, catalog.get_table(identifier).schema.by_name)
        if translated:
            catalog.alter_table(identifier, translated)
        loaded = catalog.get_table(identifier)
        return table_info(table, loaded, loaded.latest_snapshot())

    def dropTable(self, table: Any) -> bool:  # noqa: N802
        catalog = self._catalog(table.catalog)
        try:
            exists = table.table in catalog.list_tables(table.database)
        except DatabaseNotFoundError:
            return False
        if exists:
            catalog.drop_table(identifier_of(table), purge=(table.settings or {}).get(PURGE) == "true")
        return exists

    def renameTable(self, table: Any, to_database: str, to_table: str) -> None:  # noqa: N802
        self._catalog(table.catalog).rename_table(identifier_of(table), Identifier(to_database, to_table))


def _format_info(reference: Any, catalog: Catalog, table: FormatTable, at: TimeTravel) -> TableInfo:
    info = format_table_info(reference, table, catalog.options.raw)
    if at.version is not None or at.timestampMicros is not None:
        assert info.handle is not None
        refuse_format(TableHandle.from_bytes(info.handle), "older versions to be read")
    return info


def _snapshot_at(table: Table, at: TimeTravel) -> Snapshot | None:
    if at.timestampMicros is not None:
        return table.versions.snapshot_at(at.timestampMicros // MICROS_PER_MILLI)
    if at.version is not None:
        return table.versions.snapshot_named(at.version)
    return table.latest_snapshot() if at.newest else table.access.starting_snapshot()


def _handle(
    reference: Any, table: Table, snapshot: Snapshot | None, options: Mapping[str, str] | None = None
) -> TableHandle:
    branch = table.access.branch_name
    return handle_of_table(
        table,
        catalog=reference.catalog.name,
        catalog_options=reference.catalog.options,
        name=(reference.database, reference.table),
        snapshot=snapshot,
        dynamic_options={**(options or {}), **({} if branch == MAIN_BRANCH else {"branch": branch})},
    )


def system_table_info(
    reference: Any, table: Table, snapshot: Snapshot | None, kind: str, options: Mapping[str, str]
) -> TableInfo:
    """Describe a system table at a snapshot of the past; None is the newest one when it is read."""
    return TableInfo(
        schemaJson=schema_to_spark(system_table(table, kind).fields),
        partitionKeys=[],
        primaryKeys=[],
        properties={},
        snapshotId=0 if snapshot is None else snapshot.id,
        clustering=WriteClustering(columns=[], bucketCount=0, bucketColumns=[], strict=False),
        handle=_handle(reference, table, snapshot, options).to_bytes(),
        hadoopScheme=hadoop_scheme(table.location),
    )


def computed_table_info(reference: Any, table: GlobalTable | ObjectTable) -> TableInfo:
    """Describe a system table of the catalog, or an object table; the handle has its columns, and each read has the
    present rows.
    """
    objects = as_object_table(table)
    schema = Schema(fields=tuple(table.fields)).to_table_schema() if objects is None else objects.schema
    handle = TableHandle(
        catalog=reference.catalog.name,
        catalog_options=reference.catalog.options,
        database=reference.database,
        table=reference.table,
        location="" if objects is None else objects.location,
        schema_json=schema.to_json(),
        snapshot_id=None,
        is_objects=objects is not None,
    )
    return TableInfo(
        schemaJson=schema_to_spark(table.fields),
        partitionKeys=[],
        primaryKeys=[],
        properties={} if objects is None else spark_properties(objects.schema, objects.location),
        snapshotId=0,
        clustering=WriteClustering(columns=[], bucketCount=0, bucketColumns=[], strict=False),
        handle=handle.to_bytes(),
        rowChanges=None if objects is None else _no_row_changes(handle),
    )


def _no_row_changes(handle: TableHandle) -> RowChanges:
    refusals = {name: f"{handle.read_only()}" for name in ("DELETE", "UPDATE", "MERGE")}
    return RowChanges(rowId=[], toldOfRows={}, refusals=refusals, splitsUpdates=False)


def _bucket_unit(table: Table) -> int:
    try:
        return table.access.bucket_unit()
    except InterbedError:
        # A table that can't be read can still be described; a write fails with the error.
        return 0


def table_info(
    reference: Any, table: Table, snapshot: Snapshot | None, options: Mapping[str, str] | None = None
) -> TableInfo:
    """Describe a table for Spark, at a snapshot (None: it has none), with the session's options."""
    schema = table.schema
    handle = _handle(reference, table, snapshot, options)
    unit = _bucket_unit(table)
    return TableInfo(
        schemaJson=schema_to_spark(schema.fields),
        partitionKeys=list(schema.partition_keys),
        primaryKeys=list(schema.primary_keys),
        properties=spark_properties(schema, table.location),
        snapshotId=0 if snapshot is None else snapshot.id,
        clustering=clustering_of(schema, unit),
        handle=handle.to_bytes(),
        hiddenColumns=hidden_columns_of(schema),
        rowChanges=row_changes_of(f"{reference.database}.{reference.table}", schema, unit),
        mergesSchema=CoreOptions({**schema.options, **(options or {})}).merges_schema,
        hadoopScheme=hadoop_scheme(table.location),
        tableId=table.access.identity(),
    )


_NOT_IN_NAMES = re.compile(r"[^\w-]")


class PathCalls(PlannerCalls):
    """Calls of Spark's TableProvider."""

    def loadPath(self, path: str, options: dict[str, str], settings: dict[str, str]) -> TableInfo:  # noqa: N802
        check_options_of_path(options)
        to_files = options_of_files(options)
        to_branch = {key: value for key, value in options.items() if key == BRANCH}
        table = load_table(path, options={**to_files, **to_branch})
        # The name is for messages, and has the suffix of the audit log.
        name = _NOT_IN_NAMES.sub("_", table.name)
        catalog = CatalogRef(name=NO_CATALOG, options=to_files)
        reference: Any = TableRef(catalog=catalog, database=DEFAULT_DATABASE, table=name)
        info: Any
        if table.copy(_changelog(options)).options.reads_changelog:
            reference.table = f"{name}${AUDIT_LOG}"
            return system_table_info(reference, table, None, AUDIT_LOG, {})
        table, given = with_session_options(table, settings, NO_CATALOG, DEFAULT_DATABASE, travels=True)
        snapshot = table.access.starting_snapshot() if table.access.travels else table.latest_snapshot()
        if given:
            # The session's options are not the table's.
            own = table.access.schema_of(table.schema.id).options
            table = with_schema(table, replace(table.schema, options=own))
        info = table_info(reference, table, snapshot, given)
        info.clustering = without_functions(info.clustering)
        if info.rowChanges.clustering is not None:
            info.rowChanges.clustering.spread = None
        return info


def _changelog(options: dict[str, str]) -> dict[str, str]:
    return {key: value for key, value in options.items() if key == READ_CHANGELOG}


class PartitionCalls(PlannerCalls):
    """Calls of Spark's SupportsAtomicPartitionManagement."""

    def listPartitions(self, handle: bytes, specJson: str) -> list[PartitionInfo]:  # noqa: N802, N803
        read = TableHandle.from_bytes(handle)
        fields = read.schema.partition_fields
        if read.is_format:
            return _format_partitions(self._format_table_of(read), spec_from_spark(specJson, fields))
        table = self._table_of(read)
        forms = partition_forms(spec_from_spark(specJson, fields), fields)
        found = []
        # The loop stays: a table has few partitions, and each becomes an object of Thrift's.
        for partition in partitions_of(table):
            values = decode_row(table.access.partition_of(partition.spec), table.schema.partition_types)
            if any(agrees(form, values, fields) for form in forms):
                figures = {
                    "recordCount": str(partition.record_count),
                    "fileSizeInBytes": str(partition.file_size_in_bytes),
                    "fileCount": str(partition.file_count),
                    "lastFileCreationTime": str(partition.last_file_creation_time),
                }
                found.append(PartitionInfo(valuesJson=values_to_spark(values, fields), figures=figures))
        return found

    def createPartitions(self, handle: bytes, specsJson: list[str]) -> None:  # noqa: N802, N803
        catalog, name, specs = self._specs(handle, specsJson)
        catalog.create_partitions(name, specs)

    def dropPartitions(self, handle: bytes, specsJson: list[str]) -> None:  # noqa: N802, N803
        catalog, name, specs = self._specs(handle, specsJson)
        fields = TableHandle.from_bytes(handle).schema.partition_fields
        catalog.drop_partitions(name, [form for spec in specs for form in partition_forms(spec, fields)])

    def truncatePartitions(self, handle: bytes, specsJson: list[str]) -> None:  # noqa: N802, N803
        read = TableHandle.from_bytes(handle)
        fields = read.schema.partition_fields
        if specsJson:
            specs = [spec_from_spark(text, fields) for text in specsJson]
            table: Table | FormatTable = self._format_table_of(read) if read.is_format else self._table_of(read)
            table.truncate([form for spec in specs for form in partition_forms(spec, fields)])

    def _specs(self, content: bytes, texts: Sequence[str]) -> tuple[Catalog, str, list[dict[str, Any]]]:
        handle = TableHandle.from_bytes(content)
        # Loading it checks that it is still the same table.
        table: Table | FormatTable = self._format_table_of(handle) if handle.is_format else self._table_of(handle)
        catalog = self._catalogs.get(handle.catalog, handle.catalog_options)
        specs = [spec_from_spark(text, table.schema.partition_fields) for text in texts]
        return catalog, f"{handle.database}.{handle.table}", specs


def _format_partitions(table: FormatTable, spec: Mapping[str, Any]) -> list[PartitionInfo]:
    """Return the partitions of a format table that agree with a specification; how many rows they have is unknown."""
    fields = table.schema.partition_fields
    forms = partition_forms(spec, fields)
    found = []
    # The loop stays: a table has few partitions, and each becomes an object of Thrift's.
    for partition in partitions_of_files(table):
        values = decode_row(table.directories.row_of(partition.spec), table.schema.partition_types)
        if any(agrees(form, values, fields) for form in forms):
            figures = {
                "fileSizeInBytes": str(partition.file_size_in_bytes),
                "fileCount": str(partition.file_count),
                "lastFileCreationTime": str(partition.last_file_creation_time),
            }
            found.append(PartitionInfo(valuesJson=values_to_spark(values, fields), figures=figures))
    return found


class StatisticsCalls(PlannerCalls):
    """Calls of ANALYZE TABLE."""

    def analyzeTable(self, table: Any, columns: list[str], all_columns: bool) -> None:  # noqa: N802
        loaded = self._catalog(table.catalog).get_table(identifier_of(table))
        names = {name.lower(): name for name in loaded.field_names}
        # Spark's names of columns are in any case; an unknown name stays for the error message.
        loaded.maintenance.analyze(None if all_columns else [names.get(c.lower(), c) for c in columns])
