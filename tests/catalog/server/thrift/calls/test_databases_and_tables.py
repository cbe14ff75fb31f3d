"""Databases and tables over the wire, by a foreign client (hmsclient) and by interbed's, on SQLite and PostgreSQL."""

from pathlib import Path

import pytest
from hmsclient.genthrift.hive_metastore import ttypes as foreign

from interbed.catalog.client.hive.client import HiveMetastoreClient
from interbed.catalog.client.hive.connection import MetastoreConnection
from interbed.thrift_idl.hive_metastore import ttypes
from tests.support.servers.metastore import MetastoreUnderTest, foreign_client, table


def test_the_default_database_lies_at_the_root_of_the_warehouse(metastore: MetastoreUnderTest) -> None:
    with foreign_client(metastore.port) as client:
        found = client.get_database("default")
    assert (found.name, found.ownerName, found.ownerType) == ("default", "public", foreign.PrincipalType.ROLE)
    assert found.locationUri == f"file:{metastore.warehouse}"


def test_a_database_has_a_directory_below_the_warehouse(metastore: MetastoreUnderTest) -> None:
    with foreign_client(metastore.port) as client:
        client.create_database(foreign.Database(name="Sales", description="all of it", parameters={"k": "v"}))
        found = client.get_database("SALES")
        assert (found.name, found.description, found.parameters) == ("sales", "all of it", {"k": "v"})
        assert found.locationUri == f"file:{metastore.warehouse}/sales.db"
        assert (metastore.warehouse / "sales.db").is_dir()
        assert "sales" in client.get_all_databases()
        with pytest.raises(foreign.AlreadyExistsException, match="Database sales already exists"):
            client.create_database(foreign.Database(name="sales"))
        client.drop_database("sales", True, False)
        assert not (metastore.warehouse / "sales.db").exists()
        with pytest.raises(foreign.NoSuchObjectException, match="sales"):
            client.get_database("sales")


@pytest.mark.parametrize("name", ["", "a-b", "a b", "../x", "a;drop table tables", "é", "x" * 10_000])
def test_an_invalid_name_is_refused_and_nothing_is_created(metastore: MetastoreUnderTest, name: str) -> None:
    before = sorted(path.name for path in metastore.warehouse.iterdir())
    bare = foreign.StorageDescriptor(cols=[], serdeInfo=foreign.SerDeInfo())
    with foreign_client(metastore.port) as client:
        with pytest.raises(foreign.InvalidObjectException, match="is not a valid database name"):
            client.create_database(foreign.Database(name=name))
        with pytest.raises(foreign.InvalidObjectException, match="is not a valid object name"):
            client.create_table(foreign.Table(dbName="default", tableName=name, sd=bare))
        assert client.get_all_databases() == sorted(client.get_all_databases())
    assert sorted(path.name for path in metastore.warehouse.iterdir()) == before


def test_an_existing_name_with_spaces_is_refused_as_in_hive(metastore: MetastoreUnderTest) -> None:
    with foreign_client(metastore.port) as client:
        with pytest.raises(foreign.AlreadyExistsException, match="Database  default  already exists"):
            client.create_database(foreign.Database(name=" default "))
        with pytest.raises(foreign.InvalidObjectException, match=" new  is not a valid database name"):
            client.create_database(foreign.Database(name=" new "))


def test_the_default_database_cannot_be_dropped(metastore: MetastoreUnderTest) -> None:
    with (
        foreign_client(metastore.port) as client,
        pytest.raises(foreign.MetaException, match="Can not drop default database"),
    ):
        client.drop_database("default", True, True)


def test_a_database_can_change_its_parameters_and_owner_but_not_its_name(
    client: HiveMetastoreClient, database: str
) -> None:
    changed = client.get_database(database)
    changed.parameters = {"owner.team": "lake"}
    changed.ownerName, changed.ownerType = "lake", ttypes.PrincipalType.GROUP
    client.alter_database(database, changed)
    found = client.get_database(database)
    assert (found.parameters, found.ownerName, found.ownerType) == ({"owner.team": "lake"}, "lake", 3)


def test_a_table_is_returned_as_it_was_sent(metastore: MetastoreUnderTest, database: str) -> None:
    sent = foreign.Table(
        dbName=database.upper(),
        tableName="Orders",
        owner="me",
        retention=2**31 - 1,
        lastAccessTime=7,
        sd=foreign.StorageDescriptor(
            cols=[foreign.FieldSchema("id", "bigint", "key"), foreign.FieldSchema("n", "decimal(38,2)", None)],
            inputFormat="in",
            outputFormat="out",
            compressed=True,
            numBuckets=3,
            serdeInfo=foreign.SerDeInfo("s", "org.SerDe", {"field.delim": "\x01", "nul": "a\x00b", "ü": "漢"}),
            bucketCols=["id"],
            sortCols=[foreign.Order("id", 1)],
            parameters={"p": "q"},
            storedAsSubDirectories=False,
        ),
        partitionKeys=[foreign.FieldSchema("dt", "string", "day")],
        parameters={"transient_lastDdlTime": "5", "comment": "x" * 100_000},
        tableType="MANAGED_TABLE",
        viewOriginalText=None,
    )
    with foreign_client(metastore.port) as client:
        client.create_table(sent)
        found = client.get_table(database, "ORDERS")
    assert (found.dbName, found.tableName, found.owner) == (database, "orders", "me")
    assert found.sd.location == f"file:{metastore.warehouse}/{database}.db/orders"
    assert found.createTime > 0
    for name in (
        "cols",
        "inputFormat",
        "outputFormat",
        "compressed",
        "numBuckets",
        "serdeInfo",
        "bucketCols",
        "sortCols",
    ):
        assert getattr(found.sd, name) == getattr(sent.sd, name), name
    assert found.sd.parameters == {"p": "q"}
    for name in ("retention", "lastAccessTime", "partitionKeys", "parameters", "tableType"):
        assert getattr(found, name) == getattr(sent, name), name


def test_dropping_a_managed_table_with_its_data_deletes_the_directory(
    metastore: MetastoreUnderTest, client: HiveMetastoreClient, database: str
) -> None:
    client.create_table(table(database, "t"))
    directory = metastore.warehouse / f"{database}.db" / "t"
    (directory / "part-0").write_text("data")
    client.drop_table(database, "t", delete_data=True)
    assert not directory.exists()
    client.create_table(table(database, "kept"))
    client.drop_table(database, "kept", delete_data=False)
    assert (metastore.warehouse / f"{database}.db" / "kept").is_dir()


def test_the_data_of_an_external_table_is_kept_when_it_is_dropped(
    client: HiveMetastoreClient, database: str, tmp_path: Path
) -> None:
    external = table(database, "e", parameters={"EXTERNAL": "TRUE"}, location=f"file:{tmp_path}/e")
    client.create_table(external)
    assert client.get_table(database, "e").tableType == "EXTERNAL_TABLE"
    client.drop_table(database, "e", delete_data=True)
    assert (tmp_path / "e").is_dir()


def test_dropping_a_table_located_at_the_warehouse_keeps_the_warehouse(
    metastore: MetastoreUnderTest, client: HiveMetastoreClient, database: str
) -> None:
    client.create_table(table(database, "greedy", location=f"file:{metastore.warehouse}"))
    client.create_table(table(database, "greedier", location=f"file:{metastore.warehouse.parent}"))
    client.drop_table(database, "greedy")
    client.drop_table(database, "greedier")
    assert metastore.warehouse.is_dir()


def test_renaming_a_managed_table_moves_its_default_directory(
    metastore: MetastoreUnderTest, client: HiveMetastoreClient, database: str
) -> None:
    client.create_table(table(database, "old"))
    base = metastore.warehouse / f"{database}.db"
    (base / "old" / "part-0").write_text("data")
    changed = client.get_table(database, "old")
    changed.tableName = "new"
    client.alter_table(database, "old", changed)
    found = client.get_table(database, "new")
    assert found.sd.location == f"file:{base}/new"
    assert (base / "new" / "part-0").read_text() == "data"
    assert not (base / "old").exists()
    assert client.get_all_tables(database) == ["new"]


def test_renaming_a_table_outside_of_the_default_location_keeps_its_directory(
    client: HiveMetastoreClient, database: str, tmp_path: Path
) -> None:
    client.create_table(table(database, "old", location=f"file:{tmp_path}/data"))
    changed = client.get_table(database, "old")
    changed.tableName = "new"
    client.alter_table(database, "old", changed)
    assert client.get_table(database, "new").sd.location == f"file:{tmp_path}/data"


def test_a_rename_to_an_existing_directory_changes_nothing(
    metastore: MetastoreUnderTest, client: HiveMetastoreClient, database: str
) -> None:
    client.create_table(table(database, "old"))
    (metastore.warehouse / f"{database}.db" / "new").mkdir()
    changed = client.get_table(database, "old")
    changed.tableName = "new"
    with (
        foreign_client(metastore.port) as other,
        pytest.raises(foreign.InvalidOperationException, match="already exists"),
    ):
        other.alter_table(database, "old", changed)
    assert client.get_all_tables(database) == ["old"]
    assert (metastore.warehouse / f"{database}.db" / "old").is_dir()


def test_missing_objects_are_reported_with_hives_messages(metastore: MetastoreUnderTest, database: str) -> None:
    with foreign_client(metastore.port) as client:
        with pytest.raises(foreign.NoSuchObjectException, match=f"^.*{database}.nope table not found"):
            client.get_table(database, "nope")
        with pytest.raises(foreign.NoSuchObjectException, match=f"{database}.nope table not found"):
            client.drop_table(database, "nope", True)
        with pytest.raises(foreign.InvalidOperationException, match=f"{database}.nope table not found"):
            client.alter_table(database, "nope", table(database, "nope"))
        with pytest.raises(foreign.UnknownTableException, match=f"{database}.nope table not found"):
            client.get_fields(database, "nope")
        with pytest.raises(foreign.InvalidObjectException, match="nowhere"):
            client.create_table(table("nowhere", "t"))
        assert client.get_all_tables("nowhere") == []


def test_patterns_select_names(metastore: MetastoreUnderTest, client: HiveMetastoreClient, database: str) -> None:
    for name in ("apple", "apricot", "banana", "cherry"):
        client.create_table(table(database, name))
    with foreign_client(metastore.port) as other:
        for pattern, expected in {
            "*": ["apple", "apricot", "banana", "cherry"],
            ".*": ["apple", "apricot", "banana", "cherry"],
            "AP*": ["apple", "apricot"],
            "ap*|*an*": ["apple", "apricot", "banana"],
            "b.nana": ["banana"],
            "": [],
            "app": [],
            "%": [],
        }.items():
            assert other.get_tables(database, pattern) == expected, pattern
        assert other.get_databases(f"{database[:-1]}*") == [database]
        assert other.get_tables_by_type(database, "*", "EXTERNAL_TABLE") == []
        metas = other.get_table_meta(database, "b*|c*", ["MANAGED_TABLE"])
        assert [(meta.dbName, meta.tableName, meta.tableType) for meta in metas] == [
            (database, "banana", "MANAGED_TABLE"),
            (database, "cherry", "MANAGED_TABLE"),
        ]


def test_several_tables_are_returned_by_one_call_without_missing_ones(
    metastore: MetastoreUnderTest, client: HiveMetastoreClient, database: str
) -> None:
    for name in ("b", "a"):
        client.create_table(table(database, name))
    with foreign_client(metastore.port) as other:
        assert [each.tableName for each in other.get_table_objects_by_name(database, ["B", "nope", "a"])] == ["a", "b"]
    assert [each.tableName for each in client.get_table_objects(database, ["a"])] == ["a"]


def test_duplicate_and_empty_column_names_are_refused(
    metastore: MetastoreUnderTest, client: HiveMetastoreClient, database: str
) -> None:
    client.create_table(table(database, "t"))
    with foreign_client(metastore.port) as other:
        for columns in ([("a", "int"), ("A", "string")], [("", "int")]):
            with pytest.raises(foreign.InvalidObjectException):
                other.create_table(table(database, "bad", *columns))
            with pytest.raises(foreign.InvalidOperationException):
                other.alter_table(database, "t", table(database, "t", *columns))
        with pytest.raises(foreign.InvalidOperationException, match="partition keys can not be changed"):
            other.alter_table(database, "t", table(database, "t", partition_keys=(("dt", "string"),)))
    assert client.get_all_tables(database) == ["t"]


def test_hive_4_requests_with_a_catalog_prefix_get_the_same_answers(
    metastore: MetastoreUnderTest, client: HiveMetastoreClient, database: str
) -> None:
    connection = MetastoreConnection("127.0.0.1", metastore.port, 30.0, "tester")
    try:
        new = connection.client
        assert new.get_database(f"@hive#{database}").name == database
        assert database in new.get_databases("@hive#*")
        assert new.get_databases_req(ttypes.GetDatabaseObjectsRequest(catalogName="hive", pattern=database)).databases
        new.create_table_req(ttypes.CreateTableRequest(table=table(f"@hive#{database}", "t4")))
        request = ttypes.GetTableRequest(dbName=database, tblName="t4", catName="hive")
        found = new.get_table_req(request).table
        assert (found.catName, found.dbName, found.tableName) == ("hive", database, "t4")
        chosen = ttypes.GetTablesRequest(dbName=database, tablesPattern="t*", catName="hive")
        assert [each.tableName for each in new.get_table_objects_by_name_req(chosen).tables] == ["t4"]
        found.parameters["x"] = "1"
        new.alter_table_req(ttypes.AlterTableRequest(catName="hive", dbName=database, tableName="t4", table=found))
        found.parameters["x"] = "2"
        swap = ttypes.AlterTableRequest(
            dbName=database, tableName="t4", table=found, expectedParameterKey="x", expectedParameterValue="0"
        )
        with pytest.raises(ttypes.MetaException, match="The table has been modified"):
            new.alter_table_req(swap)
        assert client.get_table(database, "t4").parameters["x"] == "1"
        new.drop_table_req(
            ttypes.DropTableRequest(dbName=database, tableName="t4", catalogName="hive", deleteData=True)
        )
        assert new.get_catalogs().names == ["hive"]
        with pytest.raises(ttypes.NoSuchObjectException):
            new.get_database("@spark#default")
    finally:
        connection.close()


def test_the_service_reports_version_status_and_configuration(metastore: MetastoreUnderTest) -> None:
    with foreign_client(metastore.port) as client:
        assert client.getVersion() == "3.0"
        assert client.getStatus() == 2
        assert client.set_ugi("me", ["group"]) == ["me", "group"]
        assert client.get_config_value("hive.exec.default.partition.name", "x") == "__HIVE_DEFAULT_PARTITION__"
        assert client.get_config_value("hive.of.the.future", "x") == "x"
        with pytest.raises(foreign.ConfigValSecurityException):
            client.get_config_value("javax.jdo.option.ConnectionPassword", "x")
        client.shutdown()
    with foreign_client(metastore.port) as client:
        assert "default" in client.get_all_databases()
