"""The calls that read and change partitions, in all their forms. Permissions (`…_with_auth`) are not checked."""

from typing import Any

from interbed.catalog.server.service.errors import MetastoreError, NoSuchObjectError
from interbed.catalog.server.service.names import (
    check_partition_name_length,
    normalized,
    parsed_name,
    partition_name,
    shortened,
)
from interbed.catalog.server.service.partitions.reads import Found, TableKey
from interbed.catalog.server.service.service import Metastore
from interbed.catalog.server.thrift.calls.statistics import statistics_struct
from interbed.catalog.server.thrift.structs import convert
from interbed.catalog.server.thrift.structs.convert import partition_to_thrift, split_catalog
from interbed.catalog.server.thrift.structs.requests import Projection, UndeclaredError, is_purge, skips_data
from interbed.catalog.server.thrift.structs.table_parts import (
    PartitionStructs,
    StreamedList,
    event_spec,
    grouped_specs,
    partition_list,
    partition_specs,
    partitions_of_specs,
    privileges_of,
    table_key,
)
from interbed.thrift_idl.hive_metastore import ttypes


class PartitionReadHandler:
    """The calls that get, list and count partitions."""

    def __init__(self, metastore: Metastore) -> None:
        self._partitions = metastore.partitions
        self._statistics = metastore.statistics

    def get_partition(self, db_name: str, tbl_name: str, part_vals: list[str]) -> Any:
        table, partition = self._partitions.get(table_key(db_name, tbl_name), part_vals or [])
        return partition_to_thrift(partition, table)

    def get_partition_req(self, req: Any) -> Any:
        key = table_key(req.dbName, req.tblName, req.catName)
        table, partition = self._partitions.get(key, req.partVals or [])
        return ttypes.GetPartitionResponse(partition=partition_to_thrift(partition, table))

    def get_partition_with_auth(
        self, db_name: str, tbl_name: str, part_vals: list[str], user_name: str, group_names: list[str]
    ) -> Any:
        table, partition = self._partitions.get(table_key(db_name, tbl_name), part_vals or [])
        structure = partition_to_thrift(partition, table)
        structure.privileges = privileges_of(table, user_name, group_names)
        return structure

    def get_partition_by_name(self, db_name: str, tbl_name: str, part_name: str) -> Any:
        table, partition = self._partitions.get_by_name(table_key(db_name, tbl_name), part_name or "")
        return partition_to_thrift(partition, table)

    def get_partitions(self, db_name: str, tbl_name: str, max_parts: int) -> Any:
        return partition_list(self._partitions.select(table_key(db_name, tbl_name), max_parts))

    def get_partitions_req(self, req: Any) -> Any:
        found = self._partitions.select(table_key(req.dbName, req.tblName, req.catName), req.maxParts)
        return ttypes.PartitionsResponse(partitions=partition_list(found, req))

    def get_partitions_with_auth(
        self, db_name: str, tbl_name: str, max_parts: int, user_name: str, group_names: list[str]
    ) -> Any:
        found = self._partitions.select(table_key(db_name, tbl_name), max_parts)
        return partition_list(found, privileges=privileges_of(found[0], user_name, group_names))

    def get_partitions_pspec(self, db_name: str, tbl_name: str, max_parts: int) -> list[Any]:
        if tbl_name is None:
            # Hive fails on it with an internal error, which its clients expect.
            raise UndeclaredError("the request has no name of a table")
        return partition_specs(self._partitions.select(table_key(db_name, tbl_name), max_parts))

    def get_partition_names(self, db_name: str, tbl_name: str, max_parts: int) -> list[str]:
        return self._names(table_key(db_name, tbl_name), max_parts)

    def fetch_partition_names_req(self, partitionReq: Any) -> list[str]:
        req = partitionReq
        return self._names(table_key(req.dbName, req.tblName, req.catName), req.maxParts)

    def get_partition_names_req(self, req: Any) -> list[str]:
        key = table_key(req.dbName, req.tblName, req.catName)
        return self._partitions.names_expression(key, req.expr, req.maxParts)

    def get_partition_values(self, request: Any) -> Any:
        try:
            rows = self._partitions.value_rows(
                table_key(request.dbName, request.tblName, request.catName),
                [each.name or "" for each in request.partitionKeys or ()],
                text=request.filter,
                distinct=request.applyDistinct is not False,
                order=[each.name or "" for each in request.partitionOrder or ()],
                ascending=request.ascending is not False,
                limit=request.maxParts,
            )
        except NoSuchObjectError as error:
            # The call declares this exception, but Hive raises another one.
            raise MetastoreError(str(error)) from error
        values = [ttypes.PartitionValuesRow(row=list(row)) for row in rows]
        return ttypes.PartitionValuesResponse(partitionValues=values)

    def get_partitions_by_expr(self, req: Any) -> Any:
        key = table_key(req.dbName, req.tblName, req.catName)
        found, unknown = self._partitions.select_expression(key, req.expr, req.maxParts)
        return ttypes.PartitionsByExprResult(partitions=partition_list(found, req), hasUnknownPartitions=unknown)

    def get_partitions_spec_by_expr(self, req: Any) -> Any:
        key = table_key(req.dbName, req.tblName, req.catName)
        found, unknown = self._partitions.select_expression(key, req.expr, req.maxParts)
        specs = grouped_specs(found)
        return ttypes.PartitionsSpecByExprResult(partitionsSpec=specs, hasUnknownPartitions=unknown)

    def get_partitions_ps(self, db_name: str, tbl_name: str, part_vals: list[str], max_parts: int) -> Any:
        return partition_list(self._partitions.select_partial(table_key(db_name, tbl_name), part_vals or [], max_parts))

    def get_partitions_ps_with_auth(
        self,
        db_name: str,
        tbl_name: str,
        part_vals: list[str],
        max_parts: int,
        user_name: str,
        group_names: list[str],
    ) -> Any:
        found = self._partitions.select_partial(table_key(db_name, tbl_name), part_vals or [], max_parts)
        return partition_list(found, privileges=privileges_of(found[0], user_name, group_names))

    def get_partitions_ps_with_auth_req(self, req: Any) -> Any:
        key = table_key(req.dbName, req.tblName, req.catName)
        if req.partNames is not None:
            found = self._partitions.select_names(key, req.partNames)
        elif req.partVals is not None:
            found = self._partitions.select_partial(key, req.partVals, req.maxParts)
        else:
            # Hive 4's clients leave out the values in a request for all.
            found = self._partitions.select(key, req.maxParts)
        privileges = privileges_of(found[0], req.userName, req.groupNames)
        return ttypes.GetPartitionsPsWithAuthResponse(partitions=partition_list(found, req, privileges=privileges))

    def get_partition_names_ps(self, db_name: str, tbl_name: str, part_vals: list[str], max_parts: int) -> list[str]:
        return self._partitions.names_partial(table_key(db_name, tbl_name), part_vals or [], max_parts)

    def get_partition_names_ps_req(self, req: Any) -> Any:
        key = table_key(req.dbName, req.tblName, req.catName)
        names = self._partitions.names_partial(key, req.partValues or [], req.maxParts)
        return ttypes.GetPartitionNamesPsResponse(names=names)

    def get_partitions_by_filter(self, db_name: str, tbl_name: str, filter: str, max_parts: int) -> Any:
        return partition_list(self._partitions.select_filter(table_key(db_name, tbl_name), filter, max_parts))

    def get_partitions_by_filter_req(self, req: Any) -> Any:
        key = table_key(req.dbName, req.tblName, req.catName)
        return partition_list(self._partitions.select_filter(key, req.filter, req.maxParts), req)

    def get_part_specs_by_filter(self, db_name: str, tbl_name: str, filter: str, max_parts: int) -> list[Any]:
        return partition_specs(self._partitions.select_filter(table_key(db_name, tbl_name), filter, max_parts))

    def get_num_partitions_by_filter(self, db_name: str, tbl_name: str, filter: str) -> int:
        return self._partitions.count_filter(table_key(db_name, tbl_name), filter)

    def get_partitions_by_names(self, db_name: str, tbl_name: str, names: list[str]) -> Any:
        return partition_list(self._partitions.select_names(table_key(db_name, tbl_name), _given(names)))

    def get_partitions_by_names_req(self, req: Any) -> Any:
        key = table_key(req.db_name, req.tbl_name)
        found = self._partitions.select_names(key, _given(req.names))
        listed = partition_list(found, req)
        if req.get_col_stats:
            listed = self._with_statistics(key, found, req)
        return ttypes.GetPartitionsByNamesResult(partitions=listed)

    def get_partitions_with_specs(self, request: Any) -> Any:
        key = table_key(request.dbName, request.tblName, request.catName)
        filters = list((request.filterSpec.filters if request.filterSpec is not None else None) or ())
        mode = request.filterSpec.filterMode if request.filterSpec is not None else None
        if not filters or mode is None:
            found = self._partitions.select(key)
        elif mode == ttypes.PartitionFilterMode.BY_NAMES:
            found = self._partitions.select_names(key, filters)
        elif mode == ttypes.PartitionFilterMode.BY_VALUES:
            found = self._partitions.select_partial(key, filters)
        elif mode == ttypes.PartitionFilterMode.BY_EXPR:
            found = self._partitions.select_filter(key, " and ".join(f"({each})" for each in filters))
        else:
            raise MetastoreError(f"No such partition filter mode: {mode}")
        specs = grouped_specs(found, Projection(request.projectionSpec))
        return ttypes.GetPartitionsResponse(partitionSpec=specs)

    def partition_name_to_vals(self, part_name: str) -> list[str]:
        return [value for _, value in _parsed(part_name)]

    def partition_name_to_spec(self, part_name: str) -> dict[str, str]:
        return dict(_parsed(part_name))

    def partition_name_has_valid_characters(self, part_vals: list[str], throw_exception: bool) -> bool:
        # There is no pattern of allowed values (hive.metastore.partition.name.whitelist.pattern): all are allowed.
        return True

    def isPartitionMarkedForEvent(self, db_name: str, tbl_name: str, part_vals: dict[str, str], eventType: int) -> bool:
        return self._partitions.is_marked(table_key(db_name, tbl_name), event_spec(part_vals), eventType or 0)

    def _names(self, key: TableKey, limit: int | None) -> list[str]:
        """Return the names of all partitions; for a table that does not exist none, as Hive's clients expect."""
        try:
            return self._partitions.names(key, limit)
        except NoSuchObjectError:
            if not all(key):
                raise
            return []

    def _with_statistics(self, key: TableKey, found: Found, req: Any) -> Any:
        table, partitions = found
        structs = PartitionStructs(table, req)
        engine = req.engine or "hive"
        known = self._statistics.of_partitions(key, req.names, None, engine)
        names = [partition_name(table.partition_keys, each.values) for each in partitions]

        def make(each: tuple[str, Any]) -> Any:
            name, partition = each
            structure = structs.of(partition)
            if name in known:
                structure.colStats = statistics_struct(table, name, known[name], engine)
            return structure

        return StreamedList(list(zip(names, partitions, strict=True)), make)


def _parsed(name: str | None) -> list[tuple[str, str]]:
    check_partition_name_length(name or "")
    return parsed_name(name or "")


def _given(names: list[str] | None) -> list[str]:
    if names is None:
        raise MetastoreError("the request has no names of partitions")
    return names


class PartitionWriteHandler:
    """The calls that add, alter, rename and drop partitions."""

    def __init__(self, metastore: Metastore) -> None:
        self._partitions = metastore.partitions
        self._tables = metastore.tables

    def add_partition(self, new_part: Any) -> Any:
        key = table_key(new_part.dbName, new_part.tableName, new_part.catName)
        table, added = self._partitions.add(key, [convert.partition_from_thrift(new_part)])
        return partition_to_thrift(added[0], table)

    def add_partition_with_environment_context(self, new_part: Any, environment_context: Any) -> Any:
        return self.add_partition(new_part)

    def add_partitions(self, new_parts: list[Any]) -> int:
        if not new_parts:
            return 0
        first = new_parts[0]
        key = table_key(first.dbName, first.tableName, first.catName)
        self._partitions.require(key)
        for part in new_parts:
            _check_table(part, first.dbName, first.tableName, exact=True)
        _, added = self._partitions.add(key, [convert.partition_from_thrift(part) for part in new_parts])
        return len(added)

    def add_partitions_pspec(self, new_parts: list[Any]) -> int:
        if not new_parts:
            return 0
        first = new_parts[0]
        key = table_key(first.dbName, first.tableName, first.catName)
        self._partitions.require(key)
        for spec in new_parts:
            _check_table(spec, first.dbName, first.tableName)
        _, added = self._partitions.add(key, partitions_of_specs(new_parts))
        return len(added)

    def add_partitions_req(self, request: Any) -> Any:
        if not request.parts:
            return ttypes.AddPartitionsResult()
        key = table_key(request.dbName, request.tblName, request.catName)
        self._partitions.require(key)
        for part in request.parts:
            _check_table(part, request.dbName, request.tblName, exact=True)
        new = [convert.partition_from_thrift(part) for part in request.parts]
        table, added = self._partitions.add(key, new, if_not_exists=bool(request.ifNotExists))
        if request.needResult is False:
            return ttypes.AddPartitionsResult()
        return ttypes.AddPartitionsResult(partitions=partition_list((table, added), request))

    def append_partition(self, db_name: str, tbl_name: str, part_vals: list[str]) -> Any:
        table, added = self._partitions.append(table_key(db_name, tbl_name), part_vals)
        return partition_to_thrift(added, table)

    def append_partition_with_environment_context(
        self, db_name: str, tbl_name: str, part_vals: list[str], environment_context: Any
    ) -> Any:
        return self.append_partition(db_name, tbl_name, part_vals)

    def append_partition_by_name(self, db_name: str, tbl_name: str, part_name: str) -> Any:
        table, added = self._partitions.append(table_key(db_name, tbl_name), None, part_name)
        return partition_to_thrift(added, table)

    def append_partition_by_name_with_environment_context(
        self, db_name: str, tbl_name: str, part_name: str, environment_context: Any
    ) -> Any:
        return self.append_partition_by_name(db_name, tbl_name, part_name)

    def append_partition_req(self, appendPartitionsReq: Any) -> Any:
        req = appendPartitionsReq
        table, added = self._partitions.append(
            table_key(req.dbName, req.tableName, req.catalogName), req.partVals or None, req.name
        )
        return partition_to_thrift(added, table)

    def alter_partition(self, db_name: str, tbl_name: str, new_part: Any) -> None:
        self.alter_partitions(db_name, tbl_name, [new_part])

    def alter_partition_with_environment_context(
        self, db_name: str, tbl_name: str, new_part: Any, environment_context: Any
    ) -> None:
        self.alter_partitions(db_name, tbl_name, [new_part])

    def alter_partitions(self, db_name: str, tbl_name: str, new_parts: list[Any]) -> None:
        self._alter(table_key(db_name, tbl_name), new_parts)

    def alter_partitions_with_environment_context(
        self, db_name: str, tbl_name: str, new_parts: list[Any], environment_context: Any
    ) -> None:
        self.alter_partitions(db_name, tbl_name, new_parts)

    def alter_partitions_req(self, req: Any) -> Any:
        self._alter(table_key(req.dbName, req.tableName, req.catName), req.partitions)
        return ttypes.AlterPartitionsResponse()

    def rename_partition(self, db_name: str, tbl_name: str, part_vals: list[str], new_part: Any) -> None:
        self._rename(table_key(db_name, tbl_name), part_vals, new_part)

    def rename_partition_req(self, req: Any) -> Any:
        key = table_key(req.dbName, req.tableName, req.catName)
        self._rename(key, req.partVals, req.newPart)
        return ttypes.RenamePartitionResponse()

    def drop_partition(self, db_name: str, tbl_name: str, part_vals: list[str], deleteData: bool) -> bool:
        self._partitions.drop(table_key(db_name, tbl_name), part_vals or [], delete_data=bool(deleteData))
        return True

    def drop_partition_with_environment_context(
        self, db_name: str, tbl_name: str, part_vals: list[str], deleteData: bool, environment_context: Any
    ) -> bool:
        purge = is_purge(environment_context)
        key = table_key(db_name, tbl_name)
        self._partitions.drop(key, part_vals or [], delete_data=bool(deleteData), purge=purge)
        return True

    def drop_partition_by_name(self, db_name: str, tbl_name: str, part_name: str, deleteData: bool) -> bool:
        self._partitions.drop(table_key(db_name, tbl_name), None, part_name, delete_data=bool(deleteData))
        return True

    def drop_partition_by_name_with_environment_context(
        self, db_name: str, tbl_name: str, part_name: str, deleteData: bool, environment_context: Any
    ) -> bool:
        purge = is_purge(environment_context)
        key = table_key(db_name, tbl_name)
        self._partitions.drop(key, None, part_name, delete_data=bool(deleteData), purge=purge)
        return True

    def drop_partition_req(self, dropPartitionReq: Any) -> bool:
        req = dropPartitionReq
        self._partitions.drop(
            table_key(req.dbName, req.tblName, req.catName),
            req.partVals or None,
            req.partName,
            delete_data=bool(req.deleteData),
            purge=is_purge(req.environmentContext),
        )
        return True

    def drop_partitions_req(self, req: Any) -> Any:
        key = table_key(req.dbName, req.tblName, req.catName)
        how = {
            "delete_data": bool(req.deleteData),
            "if_exists": req.ifExists is not False,
            "purge": is_purge(req.environmentContext),
        }
        if req.parts.names is not None:
            dropped = self._partitions.drop_names(key, req.parts.names, **how)
        elif req.parts.exprs is not None:
            expressions = [each.expr for each in req.parts.exprs]
            dropped = self._partitions.drop_expressions(key, expressions, **how)
        else:
            raise MetastoreError("Partition spec is not set")
        if req.needResult is False:
            return ttypes.DropPartitionsResult()
        return ttypes.DropPartitionsResult(partitions=partition_list(dropped, req))

    def exchange_partition(
        self,
        partitionSpecs: dict[str, str],
        source_db: str,
        source_table_name: str,
        dest_db: str,
        dest_table_name: str,
    ) -> Any:
        self.exchange_partitions(partitionSpecs, source_db, source_table_name, dest_db, dest_table_name)
        # As Hive, whose answer to this older form of the call is empty.
        empty: Any = ttypes.Partition()
        empty.writeId = None
        return empty

    def exchange_partitions(
        self,
        partitionSpecs: dict[str, str],
        source_db: str,
        source_table_name: str,
        dest_db: str,
        dest_table_name: str,
    ) -> Any:
        source, target = table_key(source_db, source_table_name), table_key(dest_db, dest_table_name)
        return partition_list(self._partitions.exchange(partitionSpecs or {}, source, target))

    def markPartitionForEvent(self, db_name: str, tbl_name: str, part_vals: dict[str, str], eventType: int) -> None:
        self._partitions.mark(table_key(db_name, tbl_name), event_spec(part_vals), eventType or 0)

    def truncate_table(self, dbName: str, tableName: str, partNames: list[str] | None) -> None:
        self._truncate(table_key(dbName, tableName), partNames)

    def truncate_table_req(self, req: Any) -> Any:
        delete_data = not skips_data(req.environmentContext)
        self._truncate(table_key(req.dbName, req.tableName), req.partNames, delete_data=delete_data)
        return ttypes.TruncateTableResponse()

    def _alter(self, key: TableKey, parts: list[Any] | None) -> None:
        if parts is None:
            raise MetastoreError("the request has no partitions")
        self._check_tables(key, parts)
        self._partitions.alter(key, [convert.partition_from_thrift(part) for part in parts])

    def _rename(self, key: TableKey, values: list[str], part: Any) -> None:
        self._check_tables(key, [part])
        self._partitions.rename(key, values, convert.partition_from_thrift(part))

    def _check_tables(self, key: TableKey, parts: list[Any]) -> None:
        """Raise MetastoreError if a partition names another table. For a table that does not exist the change itself
        raises a better error.
        """
        if self._partitions.has_table(key):
            for part in parts:
                _check_table(part, key[1], key[2])

    def _truncate(self, key: TableKey, names: list[str] | None, *, delete_data: bool = True) -> None:
        if self._tables.get(*key).partition_keys:
            self._partitions.truncate(key, names or None, delete_data=delete_data)
        else:
            self._tables.truncate(*key, delete_data=delete_data)


def _check_table(struct: Any, database: str | None, table: str | None, *, exact: bool = False) -> None:
    """Raise MetastoreError if a partition names another table. For several new ones Hive compares the names exactly
    (`exact`), for others without regard to case.
    """
    # A client may qualify the name in its request but not in the structure.
    _, own = split_catalog(struct.dbName)
    _, wanted = split_catalog(database)
    is_same = (own, struct.tableName) == (wanted, table)
    if not exact:
        is_same = (normalized(own), normalized(struct.tableName)) == (normalized(wanted), normalized(table))
    if not is_same:
        raise MetastoreError(
            f"Partition does not belong to target table {shortened(database)}.{shortened(table)}: "
            f"{shortened(struct.tableName)}"
        )
