"""Conversion between Thrift's structures of column statistics and the values of the rules."""

from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any

from interbed.catalog.server.service.column_statistics import (
    ColumnStatistics,
    StatisticsData,
    StatisticsKind,
    unscaled_bytes,
)
from interbed.catalog.server.service.errors import MetastoreError
from interbed.catalog.server.service.model import MetastoreTable
from interbed.catalog.server.service.names import normalized, shortened
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
