"""Parts of a table as Thrift's structures: its partitions, and its informational constraints.

Partitions become structures while a reply is written, so that long lists are never in memory twice. A constraint of the
rules is a row for each of its columns in Thrift.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from interbed.catalog.server.service.errors import MetastoreError
from interbed.catalog.server.service.model import (
    Constraint,
    ConstraintKind,
    MetastorePartition,
    MetastoreTable,
    QualifiedTableName,
    StorageDescriptor,
)
from interbed.catalog.server.service.names import normalized, required
from interbed.catalog.server.service.partitions.reads import Found, TableKey
from interbed.catalog.server.service.warehouse import child
from interbed.catalog.server.thrift.structs.convert import partition_from_thrift, split_catalog, storage_to_thrift
from interbed.catalog.server.thrift.structs.requests import Projection
from interbed.thrift_idl.hive_metastore import ttypes

SPEC_GROUPING = "hive.hcatalog.partition.spec.grouping.enabled"
"""The parameter of a table by which lists of PartitionSpec share storage descriptors."""


class StreamedList:
    """A list for the encoder, which reads its length and iterates over it once."""

    __slots__ = ("_items", "_make")

    def __init__(self, items: Sequence[Any], make: Callable[[Any], Any]) -> None:
        self._items = items
        self._make = make

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[Any]:
        return map(self._make, self._items)


class PartitionStructs:
    """Makes Partition structures of a table's partitions, in the form that a request selects.

    `request` may have the fields skipColumnSchemaForPartition, includeParamKeyPattern and excludeParamKeyPattern. The
    descriptors that partitions share (columns, serde) are converted once.
    """

    def __init__(self, table: MetastoreTable, request: Any = None) -> None:
        self._table = table
        self._skips_columns = bool(getattr(request, "skipColumnSchemaForPartition", None))
        included = getattr(request, "includeParamKeyPattern", None)
        excluded = getattr(request, "excludeParamKeyPattern", None)
        self._projection = None
        if included or excluded:
            spec = ttypes.GetProjectionsSpec(includeParamKeyPattern=included, excludeParamKeyPattern=excluded)
            self._projection = Projection(spec)
        self._last: tuple[StorageDescriptor, Any] | None = None

    def of(self, partition: MetastorePartition) -> Any:
        """Return a Partition structure."""
        structure = ttypes.Partition(
            values=list(partition.values),
            dbName=self._table.database,
            tableName=self._table.name,
            createTime=partition.create_time,
            lastAccessTime=partition.last_access_time,
            sd=None if partition.storage is None else self.storage_of(partition.storage),
            parameters=dict(partition.parameters),
            catName=self._table.catalog,
        )
        return structure if self._projection is None else self._projection.of(structure)

    def storage_of(self, storage: StorageDescriptor) -> Any:
        """Return a StorageDescriptor structure with this location; all else is shared with that of the partition
        before.
        """
        if self._last is None or not shares_all_but_location(self._last[0], storage):
            template = storage_to_thrift(storage)
            if self._skips_columns:
                template.cols = []
            self._last = storage, template
        template = self._last[1]
        return ttypes.StorageDescriptor(
            cols=template.cols,
            location=storage.location,
            inputFormat=template.inputFormat,
            outputFormat=template.outputFormat,
            compressed=template.compressed,
            numBuckets=template.numBuckets,
            serdeInfo=template.serdeInfo,
            bucketCols=template.bucketCols,
            sortCols=template.sortCols,
            parameters=template.parameters,
            skewedInfo=template.skewedInfo,
            storedAsSubDirectories=template.storedAsSubDirectories,
        )


def shares_all_but_location(left: StorageDescriptor, right: StorageDescriptor) -> bool:
    """Return whether two partitions were stored with the same descriptor. If they were read together, they share its
    objects.
    """
    return (
        left.columns is right.columns
        and left.has_columns == right.has_columns
        and left.serde is right.serde
        and left.parameters is right.parameters
        and left.bucket_columns is right.bucket_columns
        and left.sort_columns is right.sort_columns
        and left.skew is right.skew
    )


def partition_list(found: Found, request: Any = None, *, privileges: Any = None) -> Any:
    """Return a list of Partition structures, each with these privileges."""
    table, partitions = found
    make = PartitionStructs(table, request).of
    if privileges is None:
        return StreamedList(partitions, make)

    def with_privileges(partition: MetastorePartition) -> Any:
        structure = make(partition)
        structure.privileges = privileges
        return structure

    return StreamedList(partitions, with_privileges)


def privileges_of(table: MetastoreTable, user: str | None, groups: Sequence[str] | None) -> Any:
    """Return a user's privileges on partitions, for a table whose parameter gives them privileges of their own: empty
    lists, because none are stored. None for other tables.
    """
    if table.parameters.get("PARTITION_LEVEL_PRIVILEGE", "").lower() != "true":
        return None
    return ttypes.PrincipalPrivilegeSet(
        userPrivileges={} if user is None else {user: []},
        groupPrivileges={group: [] for group in groups or ()},
        rolePrivileges={"public": []},
    )


def partition_specs(found: Found) -> list[Any]:
    """PartitionSpec structures: all partitions in one list, unless a parameter of the table asks for groups."""
    table, _ = found
    if table.parameters.get(SPEC_GROUPING, "").lower() == "true":
        return grouped_specs(found)
    listed = ttypes.PartitionListComposingSpec(partitions=list(partition_list(found)))
    return [ttypes.PartitionSpec(**_about(table), partitionList=listed)]


def grouped_specs(found: Found, projection: Projection | None = None) -> list[Any]:
    """Return PartitionSpec structures: one for all partitions below the table's location that share a storage
    descriptor, one for all others.
    """
    table, partitions = found
    structs = PartitionStructs(table)
    inside = None if table.location is None else child(table.location, "")
    groups: dict[tuple[int, ...], tuple[StorageDescriptor, list[Any]]] = {}
    # The groups are distinguished by the identity of the shared objects, which live as long as one of them does.
    kept: list[StorageDescriptor] = []
    elsewhere: list[Any] = []
    for partition in partitions:
        storage = partition.storage
        structure = structs.of(partition)
        if projection is not None:
            structure = projection.of(structure)
        if storage is None or storage.location is None or inside is None or not storage.location.startswith(inside):
            elsewhere.append(structure)
            continue
        key = (id(storage.columns), id(storage.serde), id(storage.parameters), id(storage.skew))
        if key not in groups:
            groups[key] = storage, []
            kept.append(storage)
        without = ttypes.PartitionWithoutSD(
            values=structure.values,
            createTime=structure.createTime,
            lastAccessTime=structure.lastAccessTime,
            relativePath=storage.location[len(inside) - 1 :],
            parameters=structure.parameters,
        )
        groups[key][1].append(without)
    common = _about(table)
    specs = []
    for storage, members in groups.values():
        shared = structs.storage_of(storage)
        shared.location = table.location
        if projection is not None:
            shared = projection.of(ttypes.Partition(sd=shared)).sd
        specs.append(
            ttypes.PartitionSpec(
                **common, sharedSDPartitionSpec=ttypes.PartitionSpecWithSharedSD(partitions=members, sd=shared)
            )
        )
    if elsewhere or not specs:
        listed = ttypes.PartitionListComposingSpec(partitions=elsewhere)
        specs.append(ttypes.PartitionSpec(**common, partitionList=listed))
    return specs


def _about(table: MetastoreTable) -> dict[str, Any]:
    """Return the fields of the table in every PartitionSpec."""
    return {
        "dbName": table.database,
        "tableName": table.name,
        "catName": table.catalog,
        "rootPath": table.location,
    }


def partitions_of_specs(specs: Iterable[Any]) -> list[MetastorePartition]:
    """Return the partitions of PartitionSpec structures. MetastoreError for one that holds none."""
    found: list[MetastorePartition] = []
    for spec in specs:
        if spec.partitionList is not None:
            for each in spec.partitionList.partitions or ():
                required(each.dbName, "name of a database")
                required(each.tableName, "name of a table")
                found.append(partition_from_thrift(each))
        elif spec.sharedSDPartitionSpec is not None:
            shared = spec.sharedSDPartitionSpec
            if shared.sd is None or not shared.sd.location:
                raise MetastoreError("the shared storage descriptor of a partition specification has no location")
            root = spec.rootPath or shared.sd.location
            for each in shared.partitions or ():
                partition = partition_from_thrift(
                    ttypes.Partition(
                        values=each.values,
                        createTime=each.createTime,
                        lastAccessTime=each.lastAccessTime,
                        parameters=each.parameters,
                        sd=_placed(shared.sd, root, each.relativePath),
                    )
                )
                found.append(partition)
        else:
            raise MetastoreError("a partition specification holds neither a list nor a shared storage descriptor")
    return found


def table_key(dbname: str | None, name: str | None, catalog_field: str | None = None) -> TableKey:
    """Catalog, database and table of a request. MetastoreError if one of the names is missing."""
    catalog, database = split_catalog(dbname, catalog_field)
    return catalog, required(database, "name of a database"), required(name, "name of a table")


def event_spec(values: Mapping[str, str] | None) -> dict[str, str]:
    """Return the values by key of a partition that an event is recorded for."""
    return dict(values or {})


def _placed(storage: Any, root: str, relative_path: str | None) -> Any:
    if storage is None:
        return None
    fields = {field[2]: getattr(storage, field[2]) for field in storage.thrift_spec if field is not None}
    # Without a path of their own they share a directory, which is Hive's term.
    location = root.rstrip("/") + "/" + (relative_path or "null").lstrip("/")
    return ttypes.StorageDescriptor(**{**fields, "location": location})


def constraints_from_thrift(kind: ConstraintKind, rows: Sequence[Any] | None) -> list[Constraint]:
    """Return the constraints of one kind that the rows describe.

    Rows of a key belong together if they have the same name; without names a row whose `key_seq` is at most that of the
    row before begins another key.
    """
    if kind is ConstraintKind.FOREIGN_KEY:
        return [_foreign_key(group) for group in _keys(rows or (), lambda row: row.fk_name, _foreign_table)]
    if kind is ConstraintKind.PRIMARY_KEY:
        return [_key(kind, group, group[0].pk_name) for group in _keys(rows or (), lambda row: row.pk_name, _table)]
    if kind is ConstraintKind.UNIQUE:
        return [_key(kind, group, group[0].uk_name) for group in _keys(rows or (), lambda row: row.uk_name, _table)]
    if kind is ConstraintKind.NOT_NULL:
        return [_key(kind, [row], row.nn_name) for row in rows or ()]
    if kind is ConstraintKind.DEFAULT:
        return [_key(kind, [row], row.dc_name, row.default_value) for row in rows or ()]
    return [_key(kind, [row], row.dc_name, row.check_expression) for row in rows or ()]


def constraints_to_thrift(constraints: Iterable[Constraint]) -> list[Any]:
    """Return the rows of constraints, of one kind or of several, in their order."""
    return [row for constraint in constraints for row in _WRITERS[constraint.kind](constraint)]


def all_constraints_to_thrift(constraints: Sequence[Constraint]) -> Any:
    """Return a SQLAllTableConstraints structure."""
    rows = {kind: constraints_to_thrift(each for each in constraints if each.kind is kind) for kind in ConstraintKind}
    return ttypes.SQLAllTableConstraints(
        primaryKeys=rows[ConstraintKind.PRIMARY_KEY],
        foreignKeys=rows[ConstraintKind.FOREIGN_KEY],
        uniqueConstraints=rows[ConstraintKind.UNIQUE],
        notNullConstraints=rows[ConstraintKind.NOT_NULL],
        defaultConstraints=rows[ConstraintKind.DEFAULT],
        checkConstraints=rows[ConstraintKind.CHECK],
    )


def _keys(rows: Sequence[Any], name: Callable[[Any], str | None], table: Callable[[Any], Any]) -> list[list[Any]]:
    named: dict[Any, list[Any]] = {}
    groups: list[list[Any]] = []
    for row in rows:
        key = (normalized(name(row)), table(row))
        if name(row) and key in named:
            named[key].append(row)
            continue
        last = groups[-1][-1] if groups else None
        unnamed = last is not None and not name(row) and not name(last) and table(last) == table(row)
        if last is not None and unnamed and (row.key_seq or 0) > (last.key_seq or 0):
            groups[-1].append(row)
            continue
        groups.append([row])
        if name(row):
            named[key] = groups[-1]
    return [sorted(group, key=lambda row: row.key_seq or 0) for group in groups]


def _table(row: Any) -> tuple[str, str, str]:
    catalog, database = split_catalog(row.table_db, row.catName)
    return catalog, normalized(database), normalized(row.table_name)


def _foreign_table(row: Any) -> tuple[str, str, str]:
    catalog, database = split_catalog(row.fktable_db, row.catName)
    return catalog, normalized(database), normalized(row.fktable_name)


def _key(kind: ConstraintKind, rows: Sequence[Any], name: str | None, expression: str | None = None) -> Constraint:
    first = rows[0]
    catalog, database, table = _table(first)
    return Constraint(
        catalog=catalog,
        database=database,
        table=table,
        name=normalized(name),
        kind=kind,
        # A check of a whole table has no column.
        columns=tuple(normalized(row.column_name) for row in rows if row.column_name),
        enabled=bool(first.enable_cstr),
        validated=bool(first.validate_cstr),
        relied=bool(first.rely_cstr),
        expression=expression,
    )


def _foreign_key(rows: Sequence[Any]) -> Constraint:
    first = rows[0]
    catalog, database, table = _foreign_table(first)
    parent_catalog, parent_database = split_catalog(first.pktable_db, first.catName)
    return Constraint(
        catalog=catalog,
        database=database,
        table=table,
        name=normalized(first.fk_name),
        kind=ConstraintKind.FOREIGN_KEY,
        columns=tuple(normalized(row.fkcolumn_name) for row in rows),
        enabled=bool(first.enable_cstr),
        validated=bool(first.validate_cstr),
        relied=bool(first.rely_cstr),
        parent=QualifiedTableName(
            catalog=parent_catalog, database=normalized(parent_database), table=normalized(first.pktable_name)
        ),
        parent_columns=tuple(normalized(row.pkcolumn_name) for row in rows),
        parent_key=normalized(first.pk_name) or None,
        update_rule=first.update_rule or 0,
        delete_rule=first.delete_rule or 0,
    )


def _flags(constraint: Constraint) -> dict[str, Any]:
    return {
        "catName": constraint.catalog,
        "enable_cstr": constraint.enabled,
        "validate_cstr": constraint.validated,
        "rely_cstr": constraint.relied,
    }


def _common(constraint: Constraint) -> dict[str, Any]:
    return {**_flags(constraint), "table_db": constraint.database, "table_name": constraint.table}


def _primary_key_rows(constraint: Constraint) -> list[Any]:
    return [
        ttypes.SQLPrimaryKey(column_name=column, key_seq=number, pk_name=constraint.name, **_common(constraint))
        for number, column in enumerate(constraint.columns, start=1)
    ]


def _unique_rows(constraint: Constraint) -> list[Any]:
    return [
        ttypes.SQLUniqueConstraint(column_name=column, key_seq=number, uk_name=constraint.name, **_common(constraint))
        for number, column in enumerate(constraint.columns, start=1)
    ]


def _foreign_key_rows(constraint: Constraint) -> list[Any]:
    parent = constraint.parent
    return [
        ttypes.SQLForeignKey(
            pktable_db=None if parent is None else parent.database,
            pktable_name=None if parent is None else parent.table,
            pkcolumn_name=parent_column,
            fktable_db=constraint.database,
            fktable_name=constraint.table,
            fkcolumn_name=column,
            key_seq=number,
            update_rule=constraint.update_rule,
            delete_rule=constraint.delete_rule,
            fk_name=constraint.name,
            pk_name=constraint.parent_key,
            **_flags(constraint),
        )
        for number, (column, parent_column) in enumerate(
            zip(constraint.columns, constraint.parent_columns, strict=True), start=1
        )
    ]


def _not_null_rows(constraint: Constraint) -> list[Any]:
    return [
        ttypes.SQLNotNullConstraint(column_name=column, nn_name=constraint.name, **_common(constraint))
        for column in constraint.columns
    ]


def _default_rows(constraint: Constraint) -> list[Any]:
    return [
        ttypes.SQLDefaultConstraint(
            column_name=column,
            default_value=constraint.expression,
            dc_name=constraint.name,
            **_common(constraint),
        )
        for column in constraint.columns
    ]


def _check_rows(constraint: Constraint) -> list[Any]:
    return [
        ttypes.SQLCheckConstraint(
            column_name=column,
            check_expression=constraint.expression,
            dc_name=constraint.name,
            **_common(constraint),
        )
        for column in constraint.columns or (None,)
    ]


_WRITERS: dict[ConstraintKind, Callable[[Constraint], list[Any]]] = {
    ConstraintKind.PRIMARY_KEY: _primary_key_rows,
    ConstraintKind.FOREIGN_KEY: _foreign_key_rows,
    ConstraintKind.UNIQUE: _unique_rows,
    ConstraintKind.NOT_NULL: _not_null_rows,
    ConstraintKind.DEFAULT: _default_rows,
    ConstraintKind.CHECK: _check_rows,
}
