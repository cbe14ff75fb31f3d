"""Conversion between Thrift's structures and the values of the rules.

Hive 3 and 4 clients put the catalog before a database's name (`@hive#sales`) or into a field of its own; both are
handled here. Missing lists and maps become empty ones, and are sent as such: Java clients fail on a missing list.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from interbed.catalog.server.service.access.objects import GranteeKind
from interbed.catalog.server.service.errors import MetastoreError
from interbed.catalog.server.service.lock_model import LockComponent, LockLevel, LockRequest, LockType
from interbed.catalog.server.service.model import (
    CREATION_METADATA,
    MANAGED_TABLE,
    Function,
    MetastoreCatalog,
    MetastoreColumn,
    MetastoreDatabase,
    MetastorePartition,
    MetastoreTable,
    SerDe,
    Skew,
    StorageDescriptor,
    TableMeta,
    column_of,
)
from interbed.catalog.server.service.names import normalized, required
from interbed.catalog.server.threads import current_catalog
from interbed.thrift_idl.hive_metastore import ttypes

# Optional fields of a table that are stored and returned unchanged: only clients interpret them.
_TABLE_EXTRAS = ("ownerType", "rewriteEnabled", "accessType", "requiredReadCapabilities", "requiredWriteCapabilities")
_SERDE_EXTRAS = ("description", "serializerClass", "deserializerClass", "serdeType")


def split_catalog(name: str | None, catalog: str | None = None) -> tuple[str, str | None]:
    """Return catalog and name of `@catalog#name`, `@catalog#` (no name) or a plain name; `catalog` is the request's own
    field. Without either it is the catalog of the call, `hive` unless the server calls itself.
    """
    if name is not None and name.startswith("@") and "#" in name:
        prefix, _, rest = name[1:].partition("#")
        # An empty name is written as "!", so that it differs from no name at all.
        return normalized(prefix) or current_catalog.get(), None if rest == "" else "" if rest == "!" else rest
    return normalized(catalog) or current_catalog.get(), name


def catalog_from_thrift(thrift: Any) -> MetastoreCatalog:
    """Convert a Catalog structure to a value."""
    return MetastoreCatalog(
        name=normalized(thrift.name),
        description=thrift.description,
        location=thrift.locationUri or "",
        create_time=thrift.createTime or 0,
        parameters=_strings(thrift.parameters),
    )


def catalog_to_thrift(catalog: MetastoreCatalog) -> Any:
    """Return a Catalog structure."""
    return ttypes.Catalog(
        name=catalog.name,
        description=catalog.description,
        locationUri=catalog.location,
        createTime=catalog.create_time,
        parameters=dict(catalog.parameters),
    )


def database_from_thrift(thrift: Any) -> MetastoreDatabase:
    """Convert a Database structure to a value."""
    catalog, name = split_catalog(thrift.name, thrift.catalogName)
    return MetastoreDatabase(
        catalog=catalog,
        name=_own_name(name),
        description=thrift.description,
        location=thrift.locationUri or None,
        managed_location=thrift.managedLocationUri or None,
        parameters=_strings(thrift.parameters),
        owner_name=thrift.ownerName,
        owner_type=thrift.ownerType,
        create_time=thrift.createTime or 0,
    )


def database_from_request(request: Any) -> MetastoreDatabase:
    """Convert a CreateDatabaseRequest, which holds the same fields."""
    catalog, name = split_catalog(request.databaseName, request.catalogName)
    return MetastoreDatabase(
        catalog=catalog,
        name=_own_name(name),
        description=request.description,
        location=request.locationUri or None,
        managed_location=request.managedLocationUri or None,
        parameters=_strings(request.parameters),
        owner_name=request.ownerName,
        owner_type=request.ownerType,
        create_time=request.createTime or 0,
    )


def database_to_thrift(database: MetastoreDatabase) -> Any:
    """Return a Database structure."""
    return ttypes.Database(
        name=database.name,
        description=database.description,
        locationUri=database.location,
        parameters=dict(database.parameters),
        ownerName=database.owner_name,
        ownerType=database.owner_type or ttypes.PrincipalType.USER,
        catalogName=database.catalog,
        createTime=database.create_time,
        managedLocationUri=database.managed_location,
        # Hive 4 reads it without a check for None.
        type=ttypes.DatabaseType.NATIVE,
    )


GRANTEE_KINDS = {
    ttypes.PrincipalType.USER: GranteeKind.USER,
    ttypes.PrincipalType.ROLE: GranteeKind.ROLE,
    ttypes.PrincipalType.GROUP: GranteeKind.GROUP,
}
"""Kinds of grantees by the numbers of Hive's interface."""

READER_POLICIES = "interbed.reader-policies"
"""Parameter of a table in answers to callers that its policies bind: row filters and masks by column, as JSON."""


def table_from_thrift(thrift: Any, catalog: str | None = None) -> MetastoreTable:
    """Convert a Table structure; `catalog` is the request's own field. MetastoreError if a name is missing."""
    name_catalog, database = split_catalog(thrift.dbName, thrift.catName or catalog)
    _check_named(thrift.sd)
    return MetastoreTable(
        catalog=name_catalog,
        database=normalized(required(database, "name of a database")),
        name=_own_name(required(thrift.tableName, "name of a table")),
        table_type=thrift.tableType or MANAGED_TABLE,
        owner=thrift.owner,
        create_time=thrift.createTime or 0,
        last_access_time=thrift.lastAccessTime or 0,
        retention=thrift.retention or 0,
        storage=storage_from_thrift(thrift.sd),
        partition_keys=_columns_from_thrift(thrift.partitionKeys),
        # A client that changes what it has read sends the policies back, which are none of the table's parameters.
        parameters={key: value for key, value in _strings(thrift.parameters).items() if key != READER_POLICIES},
        view_original_text=thrift.viewOriginalText,
        view_expanded_text=thrift.viewExpandedText,
        extra={
            **_extras(thrift, _TABLE_EXTRAS, {"ownerType": ttypes.PrincipalType.USER}),
            **(
                {}
                if thrift.creationMetadata is None
                else {CREATION_METADATA: creation_metadata_from_thrift(thrift.creationMetadata)}
            ),
        },
    )


def _check_named(storage: Any) -> None:
    """Raise MetastoreError for a storage descriptor without a list of columns or a SerDe, or with a column that has no
    name or no type: Hive's database cannot store it.
    """
    if storage is None:
        return
    if storage.cols is None or storage.serdeInfo is None:
        raise MetastoreError(f"the storage descriptor has no {'list of columns' if storage.cols is None else 'SerDe'}")
    _check_columns_named(storage.cols)


def _check_columns_named(columns: Any) -> None:
    for column in columns or ():
        if column.name is None or column.type is None:
            raise MetastoreError(f"a column has no {'name' if column.name is None else 'type'}")


def table_to_thrift(table: MetastoreTable) -> Any:
    """Return a Table structure."""
    extra = dict(table.extra)
    made_of = extra.pop(CREATION_METADATA, None)
    return ttypes.Table(
        tableName=table.name,
        dbName=table.database,
        owner=table.owner,
        createTime=table.create_time,
        lastAccessTime=table.last_access_time,
        retention=table.retention,
        sd=storage_to_thrift(table.storage if table.storage is not None else StorageDescriptor()),
        partitionKeys=_columns_to_thrift(table.partition_keys),
        parameters=dict(table.parameters),
        viewOriginalText=table.view_original_text,
        viewExpandedText=table.view_expanded_text,
        tableType=table.table_type,
        catName=table.catalog,
        id=table.number,
        creationMetadata=None if made_of is None else _creation_metadata_to_thrift(made_of),
        **{"rewriteEnabled": False, **extra},
    )


def creation_metadata_from_thrift(thrift: Any) -> dict[str, Any]:
    """Convert a CreationMetadata structure to its stored form: the names of a materialized view's source tables, and
    how many rows have changed. MetastoreError for a source without a table.
    """
    if any(each.table is None for each in thrift.sourceTables or ()):
        raise MetastoreError("a source of a materialized view has no table")
    return {
        "catalog": thrift.catName,
        "database": thrift.dbName,
        "name": thrift.tblName,
        "tables": sorted(thrift.tablesUsed or ()),
        "transactions": thrift.validTxnList,
        "made_millis": thrift.materializationTime,
        "sources": [
            [
                *(each.table.catName, each.table.dbName, each.table.tableName),
                *(each.insertedCount, each.updatedCount, each.deletedCount),
            ]
            for each in thrift.sourceTables or ()
        ],
    }


def _creation_metadata_to_thrift(made_of: Mapping[str, Any]) -> Any:
    return ttypes.CreationMetadata(
        catName=made_of["catalog"],
        dbName=made_of["database"],
        tblName=made_of["name"],
        tablesUsed=set(made_of["tables"]),
        validTxnList=made_of["transactions"],
        materializationTime=made_of["made_millis"],
        sourceTables=[
            ttypes.SourceTable(
                table=ttypes.Table(catName=catalog, dbName=database, tableName=name),
                insertedCount=inserted,
                updatedCount=updated,
                deletedCount=deleted,
            )
            for catalog, database, name, inserted, updated, deleted in made_of["sources"]
        ],
    )


def table_meta_to_thrift(meta: TableMeta, catalog: str) -> Any:
    """Return a TableMeta structure."""
    return ttypes.TableMeta(
        dbName=meta.database,
        tableName=meta.name,
        tableType=meta.table_type,
        comments=meta.comment,
        catName=catalog,
        ownerName=meta.owner,
        ownerType=meta.owner_type or ttypes.PrincipalType.USER,
    )


def storage_from_thrift(thrift: Any) -> StorageDescriptor | None:
    """Convert a StorageDescriptor structure, or None."""
    if thrift is None:
        return None
    skew = thrift.skewedInfo
    return StorageDescriptor(
        columns=_columns_from_thrift(thrift.cols),
        location=thrift.location or None,
        input_format=thrift.inputFormat,
        output_format=thrift.outputFormat,
        compressed=bool(thrift.compressed),
        bucket_count=thrift.numBuckets or 0,
        serde=_serde_from_thrift(thrift.serdeInfo),
        bucket_columns=tuple(thrift.bucketCols or ()),
        sort_columns=tuple((_own_name(order.col), order.order) for order in thrift.sortCols or ()),
        parameters=_strings(thrift.parameters),
        skew=None
        if skew is None or not skew.skewedColNames
        else Skew(
            columns=tuple(skew.skewedColNames),
            values=tuple(tuple(values) for values in skew.skewedColValues or ()),
            # The keys of this map are lists, which Thrift's Python reader cannot put into a dict: it returns tuples.
            locations=tuple((tuple(key), value) for key, value in (skew.skewedColValueLocationMaps or {}).items()),
        ),
        stored_as_sub_directories=thrift.storedAsSubDirectories,
        has_columns=thrift.cols is not None,
    )


def storage_to_thrift(storage: StorageDescriptor) -> Any:
    """Return a StorageDescriptor structure."""
    serde = storage.serde if storage.serde is not None else SerDe()
    skew = storage.skew if storage.skew is not None else Skew()
    return ttypes.StorageDescriptor(
        cols=_columns_to_thrift(storage.columns) if storage.has_columns else None,
        location=storage.location,
        inputFormat=storage.input_format,
        outputFormat=storage.output_format,
        compressed=storage.compressed,
        numBuckets=storage.bucket_count,
        serdeInfo=ttypes.SerDeInfo(
            name=serde.name,
            serializationLib=serde.library,
            parameters=dict(serde.parameters or {}),
            **serde.extra,
        ),
        bucketCols=list(storage.bucket_columns),
        sortCols=[ttypes.Order(col=name, order=order) for name, order in storage.sort_columns],
        parameters=dict(storage.parameters or {}),
        skewedInfo=ttypes.SkewedInfo(
            skewedColNames=list(skew.columns),
            skewedColValues=[list(values) for values in skew.values],
            skewedColValueLocationMaps=dict(skew.locations),
        ),
        storedAsSubDirectories=bool(storage.stored_as_sub_directories),
    )


def partition_from_thrift(thrift: Any) -> MetastorePartition:
    """Convert a Partition structure; its database and table are the request's. MetastoreError for a storage descriptor
    with a column without a name or type.
    """
    if thrift.sd is not None:
        _check_columns_named(thrift.sd.cols)
    return MetastorePartition(
        values=tuple(thrift.values or ()),
        create_time=thrift.createTime or 0,
        last_access_time=thrift.lastAccessTime or 0,
        storage=storage_from_thrift(thrift.sd),
        parameters=_strings(thrift.parameters),
    )


def partition_to_thrift(partition: MetastorePartition, table: MetastoreTable) -> Any:
    """Return a Partition structure."""
    return ttypes.Partition(
        values=list(partition.values),
        dbName=table.database,
        tableName=table.name,
        createTime=partition.create_time,
        lastAccessTime=partition.last_access_time,
        sd=None if partition.storage is None else storage_to_thrift(partition.storage),
        parameters=dict(partition.parameters),
        catName=table.catalog,
    )


def columns_to_thrift(columns: Sequence[MetastoreColumn]) -> list[Any]:
    """Return a list of FieldSchema structures."""
    return _columns_to_thrift(columns)


def function_from_thrift(thrift: Any) -> Function:
    """Convert a Function structure to a value."""
    catalog, database = split_catalog(thrift.dbName, thrift.catName)
    return Function(
        catalog=catalog,
        database=normalized(database),
        name=_own_name(thrift.functionName),
        class_name=thrift.className,
        owner_name=thrift.ownerName,
        owner_type=thrift.ownerType,
        create_time=thrift.createTime or 0,
        function_type=thrift.functionType or ttypes.FunctionType.JAVA,
        resources=tuple((resource.resourceType, resource.uri) for resource in thrift.resourceUris or ()),
    )


def function_to_thrift(function: Function) -> Any:
    """Return a Function structure."""
    return ttypes.Function(
        functionName=function.name,
        dbName=function.database,
        className=function.class_name,
        ownerName=function.owner_name,
        ownerType=function.owner_type or ttypes.PrincipalType.USER,
        createTime=function.create_time,
        functionType=function.function_type,
        resourceUris=[ttypes.ResourceUri(resourceType=kind, uri=uri) for kind, uri in function.resources],
        catName=function.catalog,
    )


def lock_request_from_thrift(thrift: Any) -> LockRequest:
    """Convert a LockRequest structure. ValueError for a type or level that is unknown to Hive."""
    named = [(component, *split_catalog(component.dbname)) for component in thrift.component or ()]
    return LockRequest(
        components=tuple(
            LockComponent(
                type=LockType(component.type),
                level=LockLevel(component.level),
                database=normalized(database),
                table=normalized(component.tablename) or None,
                partition=component.partitionname or None,
                operation=component.operationType,
                catalog=catalog,
            )
            for component, catalog, database in named
        ),
        user=thrift.user or "unknown",
        host=thrift.hostname or "unknown",
        agent=thrift.agentInfo or "Unknown",
    )


def _columns_from_thrift(columns: Any) -> tuple[MetastoreColumn, ...]:
    # Hive keeps the names of columns in lower case; bucketCols are unchanged.
    return tuple([column_of(_own_name(column.name), column.type, column.comment) for column in columns or ()])


def _columns_to_thrift(columns: Sequence[MetastoreColumn]) -> list[Any]:
    field_schema = ttypes.FieldSchema
    return [field_schema(column.name, column.type, column.comment) for column in columns]


def _serde_from_thrift(thrift: Any) -> SerDe | None:
    if thrift is None:
        return None
    return SerDe(
        name=thrift.name,
        library=thrift.serializationLib,
        parameters=_strings(thrift.parameters),
        extra=_extras(thrift, _SERDE_EXTRAS, {}),
    )


def _own_name(name: str | None) -> str:
    # Blanks around the name of an existing object are ignored; in the name of a new one they are an error.
    return (name or "").lower()


def _extras(thrift: Any, names: Sequence[str], defaults: Mapping[str, Any]) -> dict[str, Any]:
    values = ((name, getattr(thrift, name)) for name in names)
    return {name: value for name, value in values if value is not None and value != defaults.get(name)}


def _strings(values: Mapping[str, str] | None) -> dict[str, str]:
    # A null value is legal in Thrift's Java maps but cannot be sent; it is treated as missing.
    return {} if values is None else {key: value for key, value in values.items() if value is not None}
