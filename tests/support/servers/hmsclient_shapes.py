"""Tables and statistics in hmsclient's own types, for the tests of hmsclient."""

from typing import Any

from hmsclient.genthrift.hive_metastore import ttypes


def table(database: str, name: str, *columns: str, keys: tuple[str, ...] = (), **fields: Any) -> ttypes.Table:
    """Return a managed table whose columns and partition keys are given as `name:type`."""
    return ttypes.Table(
        dbName=database,
        tableName=name,
        owner="tester",
        tableType="MANAGED_TABLE",
        sd=ttypes.StorageDescriptor(
            cols=schema(*(columns or ("id:int",))),
            inputFormat="org.example.Input",
            outputFormat="org.example.Output",
            serdeInfo=ttypes.SerDeInfo(serializationLib="org.example.SerDe", parameters={}),
            bucketCols=[],
            sortCols=[],
            parameters={},
            numBuckets=0,
        ),
        partitionKeys=schema(*keys),
        parameters={"made": "here"},
        **fields,
    )


def schema(*columns: str) -> list[ttypes.FieldSchema]:
    """Return fields given as `name:type`."""
    return [ttypes.FieldSchema(name=name, type=kind) for name, _, kind in (each.partition(":") for each in columns)]


def long_statistics(column: str, low: int, high: int, nulls: int, distinct: int) -> ttypes.ColumnStatisticsObj:
    """Return statistics of an int column."""
    data = ttypes.LongColumnStatsData(lowValue=low, highValue=high, numNulls=nulls, numDVs=distinct)
    return ttypes.ColumnStatisticsObj(
        colName=column, colType="int", statsData=ttypes.ColumnStatisticsData(longStats=data)
    )


def column_statistics(
    database: str, name: str, *objects: ttypes.ColumnStatisticsObj, partition: str | None = None
) -> ttypes.ColumnStatistics:
    """Return statistics of a table or of a partition."""
    about = ttypes.ColumnStatisticsDesc(
        isTblLevel=partition is None, dbName=database, tableName=name, partName=partition, lastAnalyzed=1
    )
    return ttypes.ColumnStatistics(statsDesc=about, statsObj=list(objects))
