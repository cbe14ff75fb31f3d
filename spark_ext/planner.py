"""The planner: answers what Spark's catalog, scans and writes ask (planner.thrift).

It runs in processes of the driver and holds no session: each call names its catalog or brings a table's handle. It is
the one place besides the reader and the writer where the extension touches the storage layer.
"""

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, BinaryIO

from thrift.protocol.TBinaryProtocol import TBinaryProtocol

from interbed.catalog.api import Catalog, Database, system_table
from interbed.catalog.errors import DatabaseNotFoundError
from interbed.catalog.factory import open_catalog
from interbed.catalog.identifier import DEFAULT_DATABASE, Identifier, TableName
from interbed.spark_ext.clustering import clustering_of
from interbed.spark_ext.ddl import (
    COMMENT,
    LOCATION,
    NAMESPACE_IGNORED,
    schema_changes,
    schema_to_create,
    spark_properties,
)
from interbed.spark_ext.errors import Guarded
from interbed.spark_ext.handle import TableHandle
from interbed.spark_ext.predicates import handling_of
from interbed.spark_ext.reader import plan_scan
from interbed.spark_ext.spark_types import schema_to_spark
from interbed.spark_ext.writer import CommitToken, decode_messages, plan_write
from interbed.storage.errors import InvalidInputError, InvalidOptionError
from interbed.storage.paths import MAIN_BRANCH
from interbed.storage.scan.starting_point import named_version
from interbed.storage.snapshot.snapshot import Snapshot
from interbed.storage.table import Table
from interbed.thrift_idl.planner import Planner
from interbed.thrift_idl.planner.ttypes import (
    CommitResult,
    Namespace,
    ScanPlan,
    TableInfo,
    TimeTravel,
    WriteClustering,
    WritePlan,
)

TYPE = "type"
TYPES = ("interbed", "paimon")
CATALOGS_MAX = 16
MICROS_PER_MILLI = 1000


class CatalogPool:
    """Open catalogs by their options; the one unused for longest is closed when there are too many."""

    def __init__(self) -> None:
        self._open: OrderedDict[tuple[str, frozenset[tuple[str, str]]], Catalog] = OrderedDict()

    def get(self, name: str, options: Mapping[str, str]) -> Catalog:
        """The catalog, opened if need be; raises InvalidOptionError and CatalogUnavailableError."""
        key = (name, frozenset(options.items()))
        catalog = self._open.get(key)
        if catalog is None:
            catalog = _open_catalog(name, options)
            self._open[key] = catalog
            if len(self._open) > CATALOGS_MAX:
                _, unused = self._open.popitem(last=False)
                unused.close()
        self._open.move_to_end(key)
        return catalog

    def close(self) -> None:
        """Close them all."""
        while self._open:
            self._open.popitem()[1].close()


def _open_catalog(name: str, options: Mapping[str, str]) -> Catalog:
    kind = options.get(TYPE)
    if kind is not None and kind.lower() not in TYPES:
        raise InvalidOptionError(
            f"Option 'type' of the catalog '{name}' takes one of {', '.join(TYPES)}, not '{kind}'."
        )
    return open_catalog(name, options)


class PlannerHandler:
    """The service's methods under their IDL names; they raise interbed's errors."""

    def __init__(self) -> None:
        self._catalogs = CatalogPool()

    def close(self) -> None:
        """Give back the catalogs' connections."""
        self._catalogs.close()

    def _catalog(self, reference: Any) -> Catalog:
        return self._catalogs.get(reference.name, reference.options)

    # -- catalogs and namespaces -----------------------------------------------------------------------------------

    def openCatalog(self, catalog: Any) -> None:  # noqa: N802
        # Asked for its databases, a metastore that is down or a warehouse that can't be read shows at once.
        self._catalog(catalog).list_databases()

    def listNamespaces(self, catalog: Any) -> list[str]:  # noqa: N802
        return self._catalog(catalog).list_databases()

    def getNamespace(self, catalog: Any, name: str) -> Namespace:  # noqa: N802
        return _namespace(self._catalog(catalog).get_database(name))

    def createNamespace(self, catalog: Any, namespace: Any) -> None:  # noqa: N802
        properties = {k: v for k, v in namespace.properties.items() if k not in NAMESPACE_IGNORED}
        self._catalog(catalog).create_database(namespace.name, properties=properties)

    def alterNamespace(self, catalog: Any, name: str, changes: list[Any]) -> None:  # noqa: N802
        self._catalog(catalog).alter_database(
            name,
            {c.key: c.value for c in changes if c.value is not None},
            [c.key for c in changes if c.value is None],
        )

    def dropNamespace(self, catalog: Any, name: str, cascade: bool) -> None:  # noqa: N802
        self._catalog(catalog).drop_database(name, cascade=cascade)

    # -- tables ----------------------------------------------------------------------------------------------------

    def listTables(self, catalog: Any, database: str) -> list[str]:  # noqa: N802
        return self._catalog(catalog).list_tables(database)

    def loadTable(self, table: Any, at: TimeTravel) -> TableInfo:  # noqa: N802
        name = TableName.parse(_identifier(table))
        loaded = self._catalog(table.catalog).get_table(name.of_table)
        snapshot = _snapshot_at(loaded, at)
        travels = at.version is not None or at.timestampMicros is not None
        if snapshot is not None and travels:
            # A look into the past shows the columns of that time.
            loaded = Table(loaded.name, replace(loaded.store, schema=loaded.store.schemas.schema(snapshot.schema_id)))
        if name.system is not None:
            return _system_table_info(table, loaded, snapshot if travels else None, name.system)
        return _table_info(table, loaded, snapshot)

    def createTable(self, table: Any, request: Any) -> TableInfo:  # noqa: N802
        catalog = self._catalog(table.catalog)
        schema = schema_to_create(request.schemaJson, request.partitioning, request.properties)
        if table.database == DEFAULT_DATABASE:
            # Spark's current namespace until the first USE: it is there without being created.
            catalog.create_database(DEFAULT_DATABASE, ignore_if_exists=True)
        return _table_info(table, catalog.create_table(_identifier(table), schema), None)

    def alterTable(self, table: Any, changes: list[Any]) -> TableInfo:  # noqa: N802
        catalog = self._catalog(table.catalog)
        identifier = _identifier(table)
        translated = schema_changes(changes, catalog.get_table(identifier).schema.by_name)
        if translated:
            catalog.alter_table(identifier, translated)
        loaded = catalog.get_table(identifier)
        return _table_info(table, loaded, loaded.latest_snapshot())

    def dropTable(self, table: Any) -> bool:  # noqa: N802
        catalog = self._catalog(table.catalog)
        try:
            exists = table.table in catalog.list_tables(table.database)
        except DatabaseNotFoundError:
            return False
        if exists:
            catalog.drop_table(_identifier(table))
        return exists

    def renameTable(self, table: Any, to_database: str, to_table: str) -> None:  # noqa: N802
        self._catalog(table.catalog).rename_table(_identifier(table), Identifier(to_database, to_table))

    # -- scans -----------------------------------------------------------------------------------------------------

    def pushFilters(self, handle: bytes, filters: list[str]) -> list[int]:  # noqa: N802
        read = TableHandle.from_bytes(handle)
        partition_keys = read.schema.partition_keys if read.view is None else ()
        return [int(handling_of(tree, read.fields, partition_keys)) for tree in filters]

    def planScan(self, handle: bytes, request: Any) -> ScanPlan:  # noqa: N802
        return plan_scan(TableHandle.from_bytes(handle), request)

    # -- writes ----------------------------------------------------------------------------------------------------

    def planWrite(self, handle: bytes, request: Any) -> WritePlan:  # noqa: N802
        return plan_write(TableHandle.from_bytes(handle), request)

    def commitWrite(self, token: bytes, messages: list[bytes]) -> CommitResult:  # noqa: N802
        plan = CommitToken.from_bytes(token)
        return CommitResult(snapshotId=plan.commit(self._table_of(plan.handle), decode_messages(messages)))

    def abortWrite(self, token: bytes, messages: list[bytes]) -> None:  # noqa: N802
        plan = CommitToken.from_bytes(token)
        plan.abort(plan.handle.open(), decode_messages(messages))

    def _table_of(self, handle: TableHandle) -> Table:
        catalog = self._catalogs.get(handle.catalog, handle.catalog_options)
        table = catalog.get_table(f"{handle.database}.{handle.table}")
        if table.location != handle.location:
            raise InvalidInputError(
                f"The table '{handle.database}.{handle.table}' was replaced by another one "
                "during the write; write again."
            )
        return table.copy(handle.dynamic_options) if handle.dynamic_options else table


def _identifier(table: Any) -> str:
    # As text, so that the catalog sees a '$' that asks for a system table or a branch.
    return f"{table.database}.{table.table}"


def _namespace(database: Database) -> Namespace:
    properties = {**database.properties, LOCATION: database.location}
    if database.comment:
        properties[COMMENT] = database.comment
    return Namespace(name=database.name, properties=properties)


def _snapshot_at(table: Table, at: TimeTravel) -> Snapshot | None:
    snapshots = table.store.snapshots
    if at.timestampMicros is not None:
        return snapshots.by_time_millis(at.timestampMicros // MICROS_PER_MILLI)
    if at.version is not None:
        return named_version(table.store, at.version)
    return snapshots.latest()


def _handle(reference: Any, table: Table, snapshot: Snapshot | None) -> TableHandle:
    branch = table.store.paths.branch
    return TableHandle(
        catalog=reference.catalog.name,
        catalog_options=reference.catalog.options,
        database=reference.database,
        table=reference.table,
        location=table.location,
        schema_json=table.schema.to_json(),
        snapshot_id=None if snapshot is None else snapshot.id,
        dynamic_options={} if branch == MAIN_BRANCH else {"branch": branch},
    )


def _system_table_info(reference: Any, table: Table, snapshot: Snapshot | None, kind: str) -> TableInfo:
    """A system table; `snapshot` is the one of the past that it is about, None for the newest when it is read."""
    return TableInfo(
        schemaJson=schema_to_spark(system_table(table, kind).fields),
        partitionKeys=[],
        primaryKeys=[],
        properties={},
        snapshotId=0 if snapshot is None else snapshot.id,
        clustering=WriteClustering(columns=[], bucketCount=0, bucketColumns=[], strict=False),
        handle=_handle(reference, table, snapshot).to_bytes(),
    )


def _table_info(reference: Any, table: Table, snapshot: Snapshot | None) -> TableInfo:
    schema = table.schema
    handle = _handle(reference, table, snapshot)
    return TableInfo(
        schemaJson=schema_to_spark(schema.fields),
        partitionKeys=list(schema.partition_keys),
        primaryKeys=list(schema.primary_keys),
        properties=spark_properties(schema, table.location),
        snapshotId=0 if snapshot is None else snapshot.id,
        clustering=clustering_of(schema),
        handle=handle.to_bytes(),
    )


class _Streams:
    """A pair of binary streams, as much of a Thrift transport as a protocol over an open connection calls."""

    def __init__(self, infile: BinaryIO, outfile: BinaryIO) -> None:
        self._in = infile
        self._out = outfile

    def readAll(self, size: int) -> bytes:  # noqa: N802 - Thrift's name.
        content = self._in.read(size)
        if len(content) < size:
            raise EOFError
        return content

    def write(self, content: bytes) -> None:
        self._out.write(content)

    def flush(self) -> None:
        self._out.flush()


def serve(infile: BinaryIO, outfile: BinaryIO) -> None:
    """Answer calls until the driver hangs up."""
    handler = PlannerHandler()
    processor = Planner.Processor(Guarded(handler))
    protocol = TBinaryProtocol(_Streams(infile, outfile))
    try:
        while True:
            processor.process(protocol, protocol)
    except EOFError:
        # Between two calls: the driver has no more of them.
        return
    finally:
        handler.close()
