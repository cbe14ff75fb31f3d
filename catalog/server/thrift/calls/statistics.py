"""The calls about column statistics, and the conversion between Thrift's structures of them and the values of the
rules.
"""

from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any

from interbed.catalog.server.service.column_statistics import (
    DEFAULT_ENGINE,
    ColumnStatistics,
    StatisticsData,
    StatisticsKind,
    unscaled_bytes,
)
from interbed.catalog.server.service.errors import InvalidObjectError, MetastoreError, NoSuchObjectError
from interbed.catalog.server.service.model import MetastoreTable
from interbed.catalog.server.service.names import normalized, shortened
from interbed.catalog.server.service.partitions.reads import TableKey
from interbed.catalog.server.service.service import Metastore
from interbed.catalog.server.service.statistics import StatisticsUpdate
from interbed.catalog.server.thrift.structs.table_parts import table_key
from interbed.thrift_idl.hive_metastore import ttypes

_STRUCTS: dict[StatisticsKind, Any] = {
    StatisticsKind.BOOLEAN: ttypes.BooleanColumnStatsData,
    StatisticsKind.LONG: ttypes.LongColumnStatsData,
    StatisticsKind.DOUBLE: ttypes.DoubleColumnStatsData,
    StatisticsKind.STRING: ttypes.StringColumnStatsData,
    StatisticsKind.BINARY: ttypes.BinaryColumnStatsData,
    StatisticsKind.DECIMAL: ttypes.DecimalColumnStatsData,
    StatisticsKind.DATE: ttypes.DateColumnStatsData,
    StatisticsKind.TIMESTAMP: ttypes.TimestampColumnStatsData,
}

# Field of the structure, and of the value.
_FIELDS = (
    ("numNulls", "nulls"),
    ("numDVs", "distinct"),
    ("lowValue", "low"),
    ("highValue", "high"),
    ("maxColLen", "length_max"),
    ("avgColLen", "length_average"),
    ("numTrues", "trues"),
    ("numFalses", "falses"),
    ("bitVectors", "bit_vectors"),
    ("histogram", "histogram"),
)
_REQUIRED = {"numNulls": 0, "numDVs": 0, "maxColLen": 0, "avgColLen": 0.0, "numTrues": 0, "numFalses": 0}


def statistics_from_objects(objects: Iterable[Any]) -> tuple[ColumnStatistics, ...]:
    """Convert ColumnStatisticsObj structures. MetastoreError for one without numbers."""
    return tuple(
        ColumnStatistics(column=normalized(each.colName), type=each.colType or "", data=_data(each)) for each in objects
    )


def statistics_objects(columns: Sequence[ColumnStatistics]) -> list[Any]:
    """Return the ColumnStatisticsObj structures of columns."""
    return [
        ttypes.ColumnStatisticsObj(
            colName=each.column,
            colType=each.type,
            statsData=ttypes.ColumnStatisticsData(**{f"{each.data.kind}Stats": _struct(each.data)}),
        )
        for each in columns
    ]


def statistics_struct(
    table: MetastoreTable, partition: str | None, columns: Sequence[ColumnStatistics], engine: str
) -> Any:
    """Return a ColumnStatistics structure of a table, or of its partition of this name."""
    return ttypes.ColumnStatistics(
        statsDesc=ttypes.ColumnStatisticsDesc(
            isTblLevel=partition is None,
            dbName=table.database,
            tableName=table.name,
            partName=partition,
            lastAnalyzed=max((each.analyzed_at for each in columns), default=0),
            catName=table.catalog,
        ),
        statsObj=statistics_objects(columns),
        engine=engine,
    )


def _data(thrift: Any) -> StatisticsData:
    for kind in _STRUCTS:
        numbers = getattr(thrift.statsData, f"{kind}Stats", None)
        if numbers is not None:
            fields = {name: _number(getattr(numbers, field, None)) for field, name in _FIELDS}
            return StatisticsData(kind=kind, **{**fields, "nulls": fields["nulls"] or 0})
    raise MetastoreError(f"the statistics of column {shortened(thrift.colName)} hold no numbers")


def _number(value: Any) -> Any:
    if isinstance(value, ttypes.Decimal):
        unscaled = int.from_bytes(value.unscaled or b"\0", "big", signed=True)
        # Built from its digits: arithmetic would round to the context's precision.
        return Decimal((unscaled < 0, tuple(map(int, str(abs(unscaled)))), -(value.scale or 0)))
    if isinstance(value, ttypes.Date):
        return value.daysSinceEpoch
    if isinstance(value, ttypes.Timestamp):
        return value.secondsSinceEpoch
    return value


def _struct(data: StatisticsData) -> Any:
    struct = _STRUCTS[data.kind]()
    known = {field[2] for field in struct.thrift_spec if field is not None}
    for field, name in _FIELDS:
        if field in known:
            value = getattr(data, name)
            setattr(struct, field, _REQUIRED.get(field) if value is None else _thrift_number(data.kind, field, value))
    return struct


def _thrift_number(kind: StatisticsKind, field: str, value: Any) -> Any:
    if field not in ("lowValue", "highValue"):
        return value
    if isinstance(value, Decimal):
        unscaled, scale = unscaled_bytes(value)
        return ttypes.Decimal(unscaled=unscaled, scale=scale)
    if kind is StatisticsKind.DATE:
        return ttypes.Date(daysSinceEpoch=value)
    return ttypes.Timestamp(secondsSinceEpoch=value) if kind is StatisticsKind.TIMESTAMP else value


class StatisticsHandler:
    """The calls that store, read, aggregate and delete column statistics."""

    def __init__(self, metastore: Metastore) -> None:
        self._statistics = metastore.statistics

    def update_table_column_statistics(self, stats_obj: Any) -> bool:
        return self._update([stats_obj])

    def update_table_column_statistics_req(self, req: Any) -> Any:
        return ttypes.SetPartitionsStatsResponse(result=self._update_request(req))

    def update_partition_column_statistics(self, stats_obj: Any) -> bool:
        return self._update([stats_obj])

    def update_partition_column_statistics_req(self, req: Any) -> Any:
        return ttypes.SetPartitionsStatsResponse(result=self._update_request(req))

    def set_aggr_stats_for(self, request: Any) -> bool:
        return self._update_request(request)

    def get_table_column_statistics(self, db_name: str, tbl_name: str, col_name: str) -> Any:
        table, found = self._statistics.of_table(table_key(db_name, tbl_name), [col_name or ""])
        if not found:
            raise NoSuchObjectError(f"no statistics of column {shortened(col_name)} of table {table.name}")
        return statistics_struct(table, None, found, DEFAULT_ENGINE)

    def get_table_statistics_req(self, request: Any) -> Any:
        key = table_key(request.dbName, request.tblName, request.catName)
        _, found = self._statistics.of_table(key, request.colNames, _engine(request))
        wanted: dict[str, int] = {name.lower(): number for number, name in enumerate(request.colNames or ())}
        found.sort(key=lambda each: wanted.get(each.column, 0))
        return ttypes.TableStatsResult(tableStats=statistics_objects(found))

    def get_partition_column_statistics(self, db_name: str, tbl_name: str, part_name: str, col_name: str) -> Any:
        key = table_key(db_name, tbl_name)
        table, _ = self._statistics.of_table(key, [col_name or ""])
        for name, found in self._statistics.of_partitions(key, [part_name or ""], [col_name or ""]).items():
            return statistics_struct(table, name, found, DEFAULT_ENGINE)
        raise NoSuchObjectError(
            f"no statistics of column {shortened(col_name)} of partition {shortened(part_name)} of table {table.name}"
        )

    def get_partitions_statistics_req(self, request: Any) -> Any:
        key = table_key(request.dbName, request.tblName, request.catName)
        found = self._statistics.of_partitions(key, request.partNames or (), request.colNames, _engine(request))
        return ttypes.PartitionsStatsResult(
            partStats={name: statistics_objects(columns) for name, columns in found.items()}
        )

    def get_aggr_stats_for(self, request: Any) -> Any:
        key = table_key(request.dbName, request.tblName, request.catName)
        columns = request.colNames or ()
        together, found = self._statistics.aggregate(key, request.partNames or (), columns, _engine(request))
        return ttypes.AggrStats(colStats=statistics_objects(together), partsFound=found)

    def delete_table_column_statistics(self, db_name: str, tbl_name: str, col_name: str, engine: str) -> bool:
        columns = [col_name] if col_name else None
        self._statistics.delete(table_key(db_name, tbl_name), columns, engine=engine or DEFAULT_ENGINE)
        return True

    def delete_partition_column_statistics(
        self, db_name: str, tbl_name: str, part_name: str, col_name: str, engine: str
    ) -> bool:
        columns = [col_name] if col_name else None
        key = table_key(db_name, tbl_name)
        self._statistics.delete(key, columns, [part_name or ""], engine=engine or DEFAULT_ENGINE)
        return True

    def delete_column_statistics_req(self, req: Any) -> bool:
        key = table_key(req.db_name, req.tbl_name, req.cat_name)
        partitions = None if req.tableLevel or not req.part_names else req.part_names
        self._statistics.delete(key, req.col_names or None, partitions, engine=_engine(req))
        return True

    def _update_request(self, request: Any) -> bool:
        return self._update(request.colStats or (), merge=bool(request.needMerge), engine=request.engine)

    def _update(self, structs: Sequence[Any], *, merge: bool = False, engine: str | None = None) -> bool:
        by_table: dict[tuple[TableKey, str], list[StatisticsUpdate]] = {}
        for each in structs:
            description = each.statsDesc
            key = table_key(description.dbName, description.tableName, description.catName)
            partition = None if description.isTblLevel else description.partName or ""
            update = StatisticsUpdate(partition=partition, columns=statistics_from_objects(each.statsObj or ()))
            by_table.setdefault((key, each.engine or engine or DEFAULT_ENGINE), []).append(update)
        if len(by_table) > 1:
            raise InvalidObjectError("the statistics of one call have to be of one table and one engine")
        for (key, chosen_engine), updates in by_table.items():
            self._statistics.update(key, updates, merge=merge, engine=chosen_engine)
        return True


def _engine(request: Any) -> str:
    return request.engine or DEFAULT_ENGINE
