"""The calls that read partitions, in all their forms. Permissions (`…_with_auth`) are not checked."""

from typing import Any

from interbed.catalog.server.service.errors import MetastoreError, NoSuchObjectError
from interbed.catalog.server.service.names import check_partition_name_length, parsed_name, partition_name
from interbed.catalog.server.service.partitions.reads import Found, TableKey
from interbed.catalog.server.service.service import Metastore
from interbed.catalog.server.thrift.structs.convert import partition_to_thrift
from interbed.catalog.server.thrift.structs.errors import UndeclaredError
from interbed.catalog.server.thrift.structs.partitions import (
    PartitionStructs,
    StreamedList,
    event_spec,
    grouped_specs,
    partition_list,
    partition_specs,
    privileges_of,
    table_key,
)
from interbed.catalog.server.thrift.structs.requests import Projection
from interbed.catalog.server.thrift.structs.statistics import statistics_struct
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
