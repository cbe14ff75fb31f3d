"""A metastore filled with all kinds of objects and unusual names, types and parameters, by a client other than
interbed's.
"""

from pathlib import Path

from hmsclient import hmsclient
from hmsclient.genthrift.hive_metastore import ttypes as hive

PARTITIONS = [
    "2024-01-01",
    "a/b=c",
    "with space",
    "50%",
    "ä",
    "__HIVE_DEFAULT_PARTITION__",
    "x:y",
    "'quoted\"",
    "[1]^{2}",
]

LONG = "long " * 600

LONG_NAME = "n" * 100


def fill(client: hmsclient.HMSClient, directory: Path, *, plain_tables: int = 3) -> None:
    """Create two databases, tables, views, partitions, functions and statistics."""
    client.create_database(
        hive.Database(
            name="Shop",
            description="Läden, 50% off",
            locationUri=f"file:{directory / 'shop'}",
            parameters={"ä": "ö", "empty": "", "long": LONG},
            ownerName="erika",
            ownerType=hive.PrincipalType.USER,
        )
    )
    client.create_database(hive.Database(name="empty_2024", locationUri=f"file:{directory / 'empty'}", parameters={}))
    for number in range(plain_tables):
        client.create_table(_table("shop", f"plain_{number:05}", storage(("id", "int"), ("name", "varchar(20)"))))
    _fill_orders(client)
    client.create_table(
        _table(
            "shop",
            LONG_NAME,
            storage(("id", "int"), location=f"file:{directory / 'elsewhere'}"),
            table_type="EXTERNAL_TABLE",
            parameters={"EXTERNAL": "TRUE", "external.table.purge": "true"},
        )
    )
    bucketed = storage(("id", "int"), ("kind", "string"))
    bucketed.bucketCols, bucketed.numBuckets = ["id"], 8
    bucketed.sortCols = [hive.Order(col="id", order=0), hive.Order(col="kind", order=1)]
    bucketed.compressed = True
    bucketed.storedAsSubDirectories = True
    bucketed.skewedInfo = hive.SkewedInfo(
        skewedColNames=["kind"], skewedColValues=[["a"], ["b"]], skewedColValueLocationMaps={}
    )
    client.create_table(_table("shop", "bucketed", bucketed))
    view = _table("shop", "few", storage(("id", "int")), table_type="VIRTUAL_VIEW")
    view.viewOriginalText = "select id from orders where note = 'x'"
    view.viewExpandedText = "select `orders`.`id` from `shop`.`orders` where `orders`.`note` = 'x'"
    view.sd.location = None
    client.create_table(view)
    for name in ("plus_one", "minus_one"):
        client.create_function(
            hive.Function(
                functionName=name,
                dbName="shop",
                className=f"org.example.{name}",
                ownerName="erika",
                ownerType=hive.PrincipalType.USER,
                functionType=hive.FunctionType.JAVA,
                resourceUris=[hive.ResourceUri(resourceType=hive.ResourceType.JAR, uri="hdfs://host/a.jar")],
            )
        )


def _fill_orders(client: hmsclient.HMSClient) -> None:
    columns = (
        ("id", "bigint"),
        ("amount", "decimal(10,2)"),
        ("tags", "array<struct<name:string,weights:map<string,array<int>>>>"),
        ("note", "char(3)"),
        ("mixed", "uniontype<int,string>"),
    )
    orders = _table(
        "shop",
        "Orders",
        storage(*columns),
        parameters={"comment": "bestellt\tund 'bezahlt'", "empty": "", "ключ": "значение", "long": LONG},
        partition_keys=(("dt", "string"), ("n", "int")),
    )
    orders.sd.cols[0].comment = "a key; 'quoted'"
    orders.retention = 7
    client.create_table(orders)
    home = client.get_table("shop", "orders").sd.location
    partitions = []
    for number, value in enumerate(PARTITIONS):
        part = storage(*columns[: 3 + number % 3], location=f"{home}/p{number}")
        part.serdeInfo.parameters = {"number": str(number)}
        partitions.append(
            hive.Partition(
                dbName="shop",
                tableName="orders",
                values=[value, str(number)],
                sd=part,
                parameters={"numFiles": "1", "odd": value},
                createTime=1_700_000_000 + number,
                lastAccessTime=number,
            )
        )
    client.add_partitions(partitions)


def fill_partitions(client: hmsclient.HMSClient, count: int) -> None:
    """Create a table `shop.many` with this many partitions."""
    client.create_table(_table("shop", "many", storage(("id", "int")), partition_keys=(("p", "int"),)))
    home = client.get_table("shop", "many").sd.location
    for start in range(0, count, 1000):
        client.add_partitions(
            [
                hive.Partition(
                    dbName="shop",
                    tableName="many",
                    values=[str(number)],
                    sd=storage(("id", "int"), location=f"{home}/{number}"),
                    parameters={},
                )
                for number in range(start, min(start + 1000, count))
            ]
        )


def fill_statistics(client: hmsclient.HMSClient) -> None:
    """Store statistics of a table and of a partition."""
    decimal = hive.Decimal(unscaled=b"\x04\xd2", scale=2)
    client.update_table_column_statistics(
        hive.ColumnStatistics(
            statsDesc=hive.ColumnStatisticsDesc(
                isTblLevel=True, dbName="shop", tableName="plain_00000", lastAnalyzed=1_700_000_000
            ),
            statsObj=[
                _statistics(
                    "id", "int", longStats=hive.LongColumnStatsData(lowValue=-5, highValue=9, numNulls=0, numDVs=3)
                ),
                _statistics(
                    "name",
                    "varchar(20)",
                    stringStats=hive.StringColumnStatsData(maxColLen=5, avgColLen=2.5, numNulls=1, numDVs=4),
                ),
            ],
        )
    )
    for number in (0, 5):
        name = client.get_partition_names("shop", "orders", -1)[number]
        client.update_partition_column_statistics(
            hive.ColumnStatistics(
                statsDesc=hive.ColumnStatisticsDesc(
                    isTblLevel=False, dbName="shop", tableName="orders", partName=name, lastAnalyzed=1_700_000_000
                ),
                statsObj=[
                    _statistics("id", "bigint", longStats=hive.LongColumnStatsData(numNulls=number, numDVs=3)),
                    _statistics(
                        "amount",
                        "decimal(10,2)",
                        decimalStats=hive.DecimalColumnStatsData(
                            lowValue=decimal, highValue=decimal, numNulls=0, numDVs=3
                        ),
                    ),
                ],
            )
        )


def fill_constraints(client: hmsclient.HMSClient) -> None:
    """Create a primary key and a foreign key to it."""
    client.add_primary_key(
        hive.AddPrimaryKeyRequest(
            primaryKeyCols=[
                hive.SQLPrimaryKey(
                    table_db="shop",
                    table_name="plain_00000",
                    column_name="id",
                    key_seq=1,
                    pk_name="pk_plain",
                    enable_cstr=False,
                    validate_cstr=False,
                    rely_cstr=True,
                )
            ]
        )
    )
    client.add_foreign_key(
        hive.AddForeignKeyRequest(
            foreignKeyCols=[
                hive.SQLForeignKey(
                    pktable_db="shop",
                    pktable_name="plain_00000",
                    pkcolumn_name="id",
                    fktable_db="shop",
                    fktable_name="bucketed",
                    fkcolumn_name="id",
                    key_seq=1,
                    update_rule=0,
                    delete_rule=0,
                    fk_name="fk_bucketed",
                    pk_name="pk_plain",
                    enable_cstr=False,
                    validate_cstr=False,
                    rely_cstr=True,
                )
            ]
        )
    )


def storage(*columns: tuple[str, str], location: str | None = None) -> hive.StorageDescriptor:
    """Return a storage descriptor with these columns."""
    return hive.StorageDescriptor(
        cols=[hive.FieldSchema(name=name, type=kind, comment=None) for name, kind in columns],
        location=location,
        inputFormat="org.apache.hadoop.mapred.TextInputFormat",
        outputFormat="org.apache.hadoop.hive.ql.io.HiveIgnoreKeyTextOutputFormat",
        compressed=False,
        numBuckets=-1,
        serdeInfo=hive.SerDeInfo(
            name="a serde",
            serializationLib="org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe",
            parameters={"field.delim": "\x01", "escape.delim": "\\"},
        ),
        bucketCols=[],
        sortCols=[],
        parameters={"sd": "1"},
    )


def _table(
    database: str,
    name: str,
    sd: hive.StorageDescriptor,
    *,
    table_type: str = "MANAGED_TABLE",
    parameters: dict[str, str] | None = None,
    partition_keys: tuple[tuple[str, str], ...] = (),
) -> hive.Table:
    return hive.Table(
        dbName=database,
        tableName=name,
        owner="erika",
        createTime=1_600_000_000,
        lastAccessTime=1_600_000_001,
        retention=0,
        sd=sd,
        partitionKeys=[hive.FieldSchema(name=key, type=kind, comment=None) for key, kind in partition_keys],
        parameters=dict(parameters or {}),
        tableType=table_type,
    )


def _statistics(column: str, kind: str, **values: object) -> hive.ColumnStatisticsObj:
    return hive.ColumnStatisticsObj(colName=column, colType=kind, statsData=hive.ColumnStatisticsData(**values))
