"""pymetastore, a client with its own objects for the answers of a metastore: all of its functions, and the calls that
its generated client has beyond hmsclient's: catalogs and the constraints of Hive 3.
"""

from collections.abc import Iterator
from typing import Any

import pytest
from hmsclient.hmsclient import HMSClient
from pymetastore.hive_metastore import ttypes
from pymetastore.htypes import HPrimitiveType, PrimitiveCategory
from pymetastore.metastore import HMS, BucketingVersion, HPrincipalType
from pymetastore.stats import LongTypeStats, StringTypeStats

from tests.support.servers.hmsclient_shapes import column_statistics, long_statistics, table
from tests.support.servers.metastore import MetastoreUnderTest


@pytest.fixture
def metastore_client(metastore: MetastoreUnderTest) -> Iterator[HMS]:
    """Connected client of pymetastore."""
    with HMS.create("127.0.0.1", metastore.port) as client:
        yield client


def test_databases_are_listed_and_described(metastore_client: HMS, metastore: MetastoreUnderTest) -> None:
    raw = metastore_client.client
    raw.create_database(
        ttypes.Database(name="Shop", description="d", parameters={"k": "v"}, ownerName="bob", ownerType=1)
    )
    assert "shop" in metastore_client.list_databases()
    found = metastore_client.get_database("shop")
    assert (found.name, found.comment, found.parameters) == ("shop", "d", {"k": "v"})
    assert found.location == f"file:{metastore.warehouse}/shop.db"
    assert (found.owner_name, found.owner_type) == ("bob", HPrincipalType.USER)
    raw.drop_database("shop", True, True)
    assert "shop" not in metastore_client.list_databases()


def test_tables_are_listed_and_described(metastore_client: HMS, hms: HMSClient, database: str) -> None:
    made = table(database, "kinds", "a:bigint", "b:array<string>", "c:decimal(10,2)", keys=("p:string",))
    made.sd.bucketCols, made.sd.numBuckets = ["a"], 4
    hms.create_table(made)
    assert metastore_client.list_tables(database) == ["kinds"]
    assert metastore_client.list_columns(database, "kinds") == ["a", "b", "c"]
    found = metastore_client.get_table(database, "kinds")
    assert (found.database_name, found.name, found.owner) == (database, "kinds", "tester")
    assert found.table_type == "MANAGED_TABLE"
    assert found.columns[0].type == HPrimitiveType(PrimitiveCategory.LONG)
    assert [column.type.name for column in found.columns] == ["LONG", "LIST", "DECIMAL"]
    assert [column.name for column in found.partition_columns] == ["p"]
    assert found.parameters["made"] == "here"
    assert found.storage.storage_format.input_format == "org.example.Input"
    assert found.storage.bucket_property is not None
    assert (found.storage.bucket_property.bucketed_by, found.storage.bucket_property.bucket_count) == (["a"], 4)
    assert found.storage.bucket_property.version is BucketingVersion.V1


def test_partitions_are_listed_and_described(metastore_client: HMS, hms: HMSClient, database: str) -> None:
    hms.create_table(table(database, "days", "id:int", keys=("dt:string", "n:int")))
    made = hms.get_table(database, "days")
    for values in (["a", "1"], ["a", "2"], ["b", "1"]):
        hms.add_partition(made, values)
    assert metastore_client.list_partitions(database, "days") == ["dt=a/n=1", "dt=a/n=2", "dt=b/n=1"]
    assert metastore_client.list_partitions(database, "days", 2) == ["dt=a/n=1", "dt=a/n=2"]
    everything = metastore_client.get_partitions(database, "days")
    assert [each.values for each in everything] == [["a", "1"], ["a", "2"], ["b", "1"]]
    assert {(each.database_name, each.table_name, each.cat_name) for each in everything} == {(database, "days", "hive")}
    assert len(metastore_client.get_partitions(database, "days", 2)) == 2
    one = metastore_client.get_partition(database, "days", "dt=b/n=1")
    assert (one.values, one.sd.location) == (["b", "1"], f"{made.sd.location}/dt=b/n=1")
    with pytest.raises(ttypes.NoSuchObjectException):
        metastore_client.get_partition(database, "days", "dt=x/n=1")


def test_statistics_are_read(metastore_client: HMS, hms: HMSClient, database: str) -> None:
    hms.create_table(table(database, "measured", "a:int", "s:string"))
    hms.update_table_column_statistics(column_statistics(database, "measured", long_statistics("a", 1, 9, 2, 5)))
    raw = metastore_client.client
    texts = ttypes.StringColumnStatsData(maxColLen=7, avgColLen=2.5, numNulls=1, numDVs=3)
    raw.update_table_column_statistics(
        ttypes.ColumnStatistics(
            statsDesc=ttypes.ColumnStatisticsDesc(isTblLevel=True, dbName=database, tableName="measured"),
            statsObj=[
                ttypes.ColumnStatisticsObj(
                    colName="s", colType="string", statsData=ttypes.ColumnStatisticsData(stringStats=texts)
                )
            ],
        )
    )
    found = metastore_client.get_table_stats(metastore_client.get_table(database, "measured"))
    assert [(each.tableName, each.columnName) for each in found] == [("measured", "a"), ("measured", "s")]
    assert found[0].stats == LongTypeStats(lowValue=1, highValue=9, numNulls=2, cardinality=5)
    assert found[1].stats == StringTypeStats(avgColLen=2.5, maxColLen=7, cardinality=3, numNulls=1)


def test_the_generated_client_of_hive_3_reaches_catalogs(metastore_client: HMS, metastore: MetastoreUnderTest) -> None:
    raw = metastore_client.client
    location = f"file:{metastore.warehouse}/second"
    raw.create_catalog(
        ttypes.CreateCatalogRequest(catalog=ttypes.Catalog(name="second", description="d", locationUri=location))
    )
    with pytest.raises(ttypes.AlreadyExistsException):
        raw.create_catalog(ttypes.CreateCatalogRequest(catalog=ttypes.Catalog(name="second", locationUri=location)))
    assert sorted(raw.get_catalogs().names) == ["hive", "second"]
    raw.alter_catalog(
        ttypes.AlterCatalogRequest(
            name="second", newCat=ttypes.Catalog(name="second", description="e", locationUri=location)
        )
    )
    assert raw.get_catalog(ttypes.GetCatalogRequest(name="second")).catalog.description == "e"
    raw.create_database(ttypes.Database(name="inside", catalogName="second", locationUri=f"{location}/inside.db"))
    assert raw.get_database("@second#inside").catalogName == "second"
    assert raw.get_databases("@second#*") == ["default", "inside"]
    assert "inside" not in raw.get_all_databases()
    raw.drop_database("@second#inside", True, True)
    raw.drop_catalog(ttypes.DropCatalogRequest(name="second"))
    assert raw.get_catalogs().names == ["hive"]


def test_the_generated_client_of_hive_3_reaches_constraints(
    metastore_client: HMS, hms: HMSClient, database: str
) -> None:
    hms.create_table(table(database, "bound", "a:int", "b:int", "c:int", "d:int"))
    raw = metastore_client.client
    common: dict[str, Any] = {
        "catName": "hive",
        "table_db": database,
        "table_name": "bound",
        "enable_cstr": False,
        "validate_cstr": False,
        "rely_cstr": True,
    }
    unique = ttypes.SQLUniqueConstraint(column_name="a", key_seq=1, uk_name="u", **common)
    raw.add_unique_constraint(ttypes.AddUniqueConstraintRequest(uniqueConstraintCols=[unique]))
    there = ttypes.SQLNotNullConstraint(column_name="b", nn_name="n", **common)
    raw.add_not_null_constraint(ttypes.AddNotNullConstraintRequest(notNullConstraintCols=[there]))
    default = ttypes.SQLDefaultConstraint(column_name="c", default_value="7", dc_name="d", **common)
    raw.add_default_constraint(ttypes.AddDefaultConstraintRequest(defaultConstraintCols=[default]))
    check = ttypes.SQLCheckConstraint(column_name="d", check_expression="d > 0", dc_name="k", **common)
    raw.add_check_constraint(ttypes.AddCheckConstraintRequest(checkConstraintCols=[check]))
    place = {"catName": "hive", "db_name": database, "tbl_name": "bound"}
    found = raw.get_unique_constraints(ttypes.UniqueConstraintsRequest(**place)).uniqueConstraints
    assert [(each.column_name, each.uk_name) for each in found] == [("a", "u")]
    found = raw.get_not_null_constraints(ttypes.NotNullConstraintsRequest(**place)).notNullConstraints
    assert [(each.column_name, each.nn_name) for each in found] == [("b", "n")]
    found = raw.get_default_constraints(ttypes.DefaultConstraintsRequest(**place)).defaultConstraints
    assert [(each.column_name, each.default_value) for each in found] == [("c", "7")]
    found = raw.get_check_constraints(ttypes.CheckConstraintsRequest(**place)).checkConstraints
    assert [(each.column_name, each.check_expression) for each in found] == [("d", "d > 0")]
