"""Arguments of every method of Hive's interface, about the table `orders` of the database `sales`, by the names of the
fields of the interface definition.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from thrift.Thrift import TType

from interbed.thrift_idl.hive_metastore import ThriftHiveMetastore, ttypes

DATABASE, PARTITION = "sales", "dt=2026-01-01"

_TEXTS: Mapping[str, str] = {
    **dict.fromkeys(("catname", "catalogname", "cat_name", "catalog_name", "catalog"), "hive"),
    **dict.fromkeys(
        (
            *("dbname", "db_name", "dbnames", "database", "databasename", "db_pattern", "db_patterns", "dbpattern"),
            *("sourcedb", "source_db", "destdb", "dest_db", "olddbname", "db", "parent_db_name"),
        ),
        DATABASE,
    ),
    **dict.fromkeys(("dest_table_name", "foreign_db_name", "foreign_tbl_name"), ""),
    **dict.fromkeys(("pattern", "tbl_pattern", "tbl_patterns", "tablenamespattern", "namepattern"), "*"),
    **dict.fromkeys(("part_name", "partname", "partitionname", "part_names", "partnames", "names"), PARTITION),
    **dict.fromkeys(
        ("part_vals", "partvals", "pval", "values", "partitionvals", "partitionval", "part_values"), "2026-01-01"
    ),
    **dict.fromkeys(("filter", "expr", "exprstr"), "dt = '2026-01-01'"),
    **dict.fromkeys(("colname", "col_name", "colnames", "col_names", "column_name"), "id"),
    "name": "orders",
    "funcname": "f",
    "schedule": "0 0 * * * ? *",
    "tabletype": "MANAGED_TABLE",
    "constraintname": "nothing",
    "engine": "hive",
    "user": "x",
    "hostname": "h",
}
_TABLES = (
    "tbl_name",
    "tblname",
    "tbl_names",
    "tblnames",
    "tablename",
    "table_name",
    "tbl",
    "source_table_name",
    "tablenames",
    "parent_tbl_name",
)
_KEY = ttypes.FieldSchema(name="dt", type="string")
_COLUMNS = [ttypes.FieldSchema(name="id", type="bigint"), ttypes.FieldSchema(name="name", type="string")]


def storage() -> Any:
    """Return a storage descriptor without a location."""
    serde = ttypes.SerDeInfo(serializationLib="org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe", parameters={})
    return ttypes.StorageDescriptor(cols=list(_COLUMNS), serdeInfo=serde, parameters={}, location="")


def _table(name: str) -> Any:
    return ttypes.Table(
        dbName=DATABASE,
        tableName=name,
        owner="owner",
        sd=storage(),
        partitionKeys=[ttypes.FieldSchema(name="dt", type="string")],
        parameters={},
        tableType="MANAGED_TABLE",
        catName="hive",
    )


def _partition(name: str) -> Any:
    return ttypes.Partition(values=["2026-01-02"], dbName=DATABASE, tableName=name, sd=storage(), parameters={})


_EXPRESSIONS: Mapping[type, Mapping[str, str]] = {
    ttypes.SQLDefaultConstraint: {"default_value": "1"},
    ttypes.SQLCheckConstraint: {"check_expression": "id > 0"},
}


def _constraint(kind: Any, name: str) -> Any:
    return kind(table_db=DATABASE, table_name=name, column_name="id", catName="hive", **_EXPRESSIONS.get(kind, {}))


_VALUES: Mapping[type, Callable[[str], Any]] = {
    ttypes.Table: _table,
    ttypes.Partition: _partition,
    ttypes.Database: lambda name: ttypes.Database(name=DATABASE, parameters={}, catalogName="hive"),
    ttypes.Catalog: lambda name: ttypes.Catalog(name="lab", locationUri="file:/nonexistent/lab"),
    ttypes.Function: lambda name: ttypes.Function(
        functionName="g", dbName=DATABASE, className="x", ownerType=1, functionType=1, resourceUris=[], catName="hive"
    ),
    ttypes.PartitionSpec: lambda name: ttypes.PartitionSpec(
        dbName=DATABASE,
        tableName=name,
        rootPath="",
        catName="hive",
        partitionList=ttypes.PartitionListComposingSpec(partitions=[_partition(name)]),
    ),
    ttypes.LockComponent: lambda name: ttypes.LockComponent(type=3, level=2, dbname=DATABASE, tablename=name),
    ttypes.EnvironmentContext: lambda name: ttypes.EnvironmentContext(properties={}),
    ttypes.ColumnStatistics: lambda name: ttypes.ColumnStatistics(
        statsDesc=ttypes.ColumnStatisticsDesc(isTblLevel=True, dbName=DATABASE, tableName=name, catName="hive"),
        statsObj=[
            ttypes.ColumnStatisticsObj(
                colName="id",
                colType="bigint",
                statsData=ttypes.ColumnStatisticsData(longStats=ttypes.LongColumnStatsData(numNulls=0, numDVs=1)),
            )
        ],
        engine="hive",
    ),
    ttypes.SQLPrimaryKey: lambda name: ttypes.SQLPrimaryKey(
        table_db=DATABASE, table_name=name, column_name="id", key_seq=1, catName="hive"
    ),
    ttypes.SQLForeignKey: lambda name: ttypes.SQLForeignKey(
        pktable_db=DATABASE,
        pktable_name=name,
        pkcolumn_name="id",
        fktable_db=DATABASE,
        fktable_name=name,
        fkcolumn_name="id",
        key_seq=1,
        catName="hive",
    ),
    **{
        kind: partial(_constraint, kind)
        for kind in (
            ttypes.SQLDefaultConstraint,
            ttypes.SQLCheckConstraint,
            ttypes.SQLUniqueConstraint,
            ttypes.SQLNotNullConstraint,
        )
    },
}


_NAMES = (("database", ("sales", "nixes")), ("catalog", ("hive", "none")), ("function", ("totals", "absent")))


def names_for(method: str) -> tuple[str, str]:
    """Return the name of an object that a method is about, and one of the same length that no object has."""
    for kind, names in _NAMES:
        if kind in method:
            return names
    return ("sales", "nixes") if method == "get_all_tables" else ("orders", "absent")


def arguments_of(method: str, table: str) -> Any:
    """Return the arguments of a method about a table."""
    made = _structure(getattr(ThriftHiveMetastore, f"{method}_args"), table, method)
    change = _CHANGES.get(method)
    if change is not None:
        change(made, table)
    return made


def _structure(kind: type, table: str, method: str) -> Any:
    if kind in _VALUES:
        return _VALUES[kind](table)
    made = kind()
    for field in kind.thrift_spec or ():  # type: ignore[attr-defined]
        if field is not None:
            setattr(made, field[2], _value(field[1], field[3], field[2], table, method))
    return made


def _value(kind: int, spec: Any, name: str, table: str, method: str) -> Any:
    lower = name.lower()
    if kind == TType.STRUCT:
        return _structure(spec[0], table, method)
    if kind in (TType.LIST, TType.SET):
        return [_value(spec[0], spec[1], name, table, method)]
    if kind == TType.MAP:
        return {"dt": "2026-01-01"} if lower in ("partitionspecs", "part_vals") else {}
    if kind == TType.STRING:
        if lower in _TABLES:
            return table
        text = _TEXTS.get(lower, "x")
        return text.encode() if spec == "BINARY" else text
    return {TType.BOOL: False, TType.DOUBLE: 0.0}.get(kind, -1 if "max" in lower or lower == "limit" else 1)


def _set(**fields: Any) -> Callable[[Any, str], None]:
    def change(made: Any, table: str) -> None:
        for path, value in fields.items():
            *above, last = path.split("__")
            at = made
            for each in above:
                at = getattr(at, each)
            setattr(at, last, value(table) if callable(value) else value)

    return change


def _exchange(made: Any, table: str) -> None:
    made.source_table_name, made.dest_db, made.dest_table_name = table, DATABASE, table


def _as_given(name: str) -> str:
    return name


def _located(path: str) -> Callable[[Any, str], None]:
    """Return the change that gives the table at a path its present location and a parameter."""

    def change(made: Any, table: str) -> None:
        at = made
        for each in path.split("."):
            at = getattr(at, each)
        at.sd.location, at.parameters = location_of(table), {"comment": "changed"}

    return change


def location_of(table: str) -> str:
    """Return the location that tests replace by that of the table."""
    return f"file:/WAREHOUSE/{DATABASE}.db/{table}"


_CHANGES: Mapping[str, Callable[[Any, str], None]] = {
    **dict.fromkeys(("exchange_partition", "exchange_partitions"), _exchange),
    **dict.fromkeys(
        ("alter_table", "alter_table_with_cascade", "alter_table_with_environment_context"), _located("new_tbl")
    ),
    "alter_table_req": lambda made, table: (
        _located("req.table")(made, table),
        _set(req__environmentContext=None, req__expectedParameterKey=None, req__expectedParameterValue=None)(
            made, table
        ),
    )[1],
    "check_lock": _set(rqst__txnid=None, rqst__lockid=77),
    "heartbeat": _set(ids__txnid=None, ids__lockid=77),
    "lock": _set(rqst__txnid=None),
    "get_table_objects_by_name_req": _set(req__projectionSpec=None),
    "get_table_names_by_filter": _set(filter='hive_filter_field_owner__ = "owner"'),
    "get_tables_by_type": _set(tableType="MANAGED_TABLE"),
    "get_table_meta": _set(tbl_types=[]),
    "get_tables_ext": _set(req__tableNamePattern="*", req__requestedFields=1, req__limit=100),
    "get_partition_values": _set(request__partitionKeys=lambda _: [_KEY], request__partitionOrder=[]),
    "get_config_value": _set(name="hive.exec.default.partition.name"),
    **dict.fromkeys(("get_database", "drop_database"), _set(name=_as_given)),
    "get_database_req": _set(request__name=_as_given),
    "drop_database_req": _set(req__name=_as_given),
    **dict.fromkeys(("get_all_tables",), _set(db_name=_as_given)),
    "alter_database": _set(dbname=_as_given),
    "alter_database_req": _set(alterDbReq__oldDbName=_as_given),
    "get_function": _set(funcName=_as_given),
    "drop_function": _set(funcName=_as_given),
    "alter_function": _set(funcName=_as_given),
    **dict.fromkeys(("drop_table", "drop_table_with_environment_context"), _set(name=_as_given)),
    "get_type": _set(name="x"),
    "get_databases": _set(pattern="*"),
    "get_catalog": _set(catName__name=_as_given),
    "drop_catalog": _set(catName__name=_as_given),
    "alter_catalog": _set(rqst__name=_as_given, rqst__newCat=lambda name: ttypes.Catalog(name=name, description="x")),
    "create_database": _set(database=lambda _: ttypes.Database(name="lab", parameters={}, catalogName="hive")),
    "create_database_req": _set(
        createDatabaseRequest=lambda _: ttypes.CreateDatabaseRequest(
            databaseName="lab", parameters={}, catalogName="hive"
        )
    ),
    "get_next_notification": _set(
        rqst__lastEvent=0,
        rqst__maxEvents=100,
        rqst__catName=None,
        rqst__dbName=None,
        rqst__tableNames=None,
        rqst__eventTypeList=None,
        rqst__eventTypeSkipList=None,
    ),
    "get_notification_events_count": _set(rqst__fromEventId=0, rqst__toEventId=None, rqst__limit=None),
    "show_locks": _set(rqst__dbname=None, rqst__tablename=None, rqst__partname=None),
    **dict.fromkeys(("truncate_table",), _set(partNames=None)),
}
