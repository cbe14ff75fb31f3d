"""The calls that change partitions, in all their forms. Reads are in partition_reads.py."""

from typing import Any

from interbed.catalog.server.service.errors import MetastoreError
from interbed.catalog.server.service.names import normalized, shortened
from interbed.catalog.server.service.partitions.reads import TableKey
from interbed.catalog.server.service.service import Metastore
from interbed.catalog.server.thrift.structs import convert
from interbed.catalog.server.thrift.structs.convert import partition_to_thrift, split_catalog
from interbed.catalog.server.thrift.structs.partitions import (
    event_spec,
    partition_list,
    partitions_of_specs,
    table_key,
)
from interbed.catalog.server.thrift.structs.requests import is_purge
from interbed.thrift_idl.hive_metastore import ttypes


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
        self._truncate(table_key(req.dbName, req.tableName), req.partNames)
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

    def _truncate(self, key: TableKey, names: list[str] | None) -> None:
        if self._tables.get(*key).partition_keys:
            self._partitions.truncate(key, names or None)
        else:
            self._tables.truncate(*key)


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
