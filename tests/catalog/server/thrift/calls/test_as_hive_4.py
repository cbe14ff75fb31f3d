"""Behaviour that the tests of Hive 4 check, and that Hive 2.3 lacks or has differently."""

from pathlib import Path
from typing import Any

import pytest
from thrift.Thrift import TApplicationException

from interbed.thrift_idl.hive_metastore import ttypes
from tests.support.servers.java_metastore import metastore_client
from tests.support.servers.metastore import metastore_under_test, table


def test_a_table_keeps_its_id_until_it_is_dropped(wire: Any, database: str) -> None:
    wire.create_table(table(database, "t"))
    first = wire.get_table(database, "t")
    assert first.id > 0
    first.parameters["a"] = "b"
    wire.alter_table(database, "t", first)
    first.tableName = "u"
    wire.alter_table(database, "t", first)
    assert wire.get_table(database, "u").id == first.id
    wire.create_table(table(database, "t"))
    request = ttypes.GetTablesRequest(dbName=database, tblNames=["t", "u"])
    found = {each.tableName: each.id for each in wire.get_table_objects_by_name_req(request).tables}
    assert (found["u"], found["t"]) == (first.id, wire.get_table(database, "t").id)
    assert found["t"] != first.id
    wire.drop_table(database, "t", True)
    wire.create_table(table(database, "t"))
    assert wire.get_table(database, "t").id != found["t"]


def test_the_creation_metadata_of_a_materialized_view_is_kept(wire: Any, database: str) -> None:
    wire.create_table(table(database, "source"))
    view = table(database, "view", table_type="MATERIALIZED_VIEW")
    view.rewriteEnabled = True
    source = ttypes.SourceTable(
        table=ttypes.Table(catName="hive", dbName=database, tableName="source"),
        insertedCount=1,
        updatedCount=2,
        deletedCount=3,
    )
    view.creationMetadata = ttypes.CreationMetadata(
        catName="hive",
        dbName=database,
        tblName="view",
        tablesUsed={f"{database}.source"},
        validTxnList="1:2",
        materializationTime=7,
        sourceTables=[source],
    )
    wire.create_table(view)
    assert wire.get_table(database, "view").creationMetadata == view.creationMetadata
    assert wire.get_materialized_views_for_rewriting(database) == ["view"]
    assert (database, "view") in [
        (each.dbName, each.tableName) for each in wire.get_all_materialized_view_objects_for_rewriting()
    ]

    changed = view.creationMetadata
    changed.materializationTime = 8
    wire.update_creation_metadata("hive", database, "view", changed)
    assert wire.get_table(database, "view").creationMetadata.materializationTime == 8
    with pytest.raises(ttypes.MetaException, match="source is no materialized view"):
        wire.update_creation_metadata("hive", database, "source", changed)

    found = wire.get_table(database, "view")
    found.rewriteEnabled, found.creationMetadata = False, None
    wire.alter_table(database, "view", found)
    assert wire.get_materialized_views_for_rewriting(database) == []
    assert wire.get_table(database, "view").creationMetadata == changed

    bare: Any = table(database, "bare", table_type="MATERIALIZED_VIEW")
    bare.creationMetadata = ttypes.CreationMetadata(
        catName="hive", dbName=database, tblName="bare", tablesUsed=set(), sourceTables=[ttypes.SourceTable()]
    )
    # The field is required in the interface definition, so that Java's server also fails in its protocol.
    with pytest.raises(TApplicationException, match=r"sourceTables\.table, which the request does not have"):
        wire.create_table(bare)


def test_partition_keys_change_their_types_but_not_their_names(wire: Any, database: str) -> None:
    wire.create_table(table(database, "t", partition_keys=(("n", "string"),)))
    wire.append_partition(database, "t", ["10"])
    wire.append_partition(database, "t", ["9"])
    changed = wire.get_table(database, "t")
    changed.partitionKeys[0].type = "int"
    wire.alter_table(database, "t", changed)
    assert wire.get_table(database, "t").partitionKeys[0].type == "int"
    assert [each.values for each in wire.get_partitions_by_filter(database, "t", "n > 9", -1)] == [["10"]]
    changed.partitionKeys[0].name = "m"
    with pytest.raises(ttypes.InvalidOperationException, match="partition keys can not be changed"):
        wire.alter_table(database, "t", changed)


def test_a_table_is_altered_without_its_location_only_if_statistics_are_kept(wire: Any, database: str) -> None:
    wire.create_table(table(database, "t"))
    changed = wire.get_table(database, "t")
    changed.sd.location = None
    with pytest.raises(ttypes.MetaException, match="has no location"):
        wire.alter_table(database, "t", changed)
    changed.parameters["a"] = "b"
    context = ttypes.EnvironmentContext({"DO_NOT_UPDATE_STATS": "true"})
    wire.alter_table_with_environment_context(database, "t", changed, context)
    assert wire.get_table(database, "t").parameters["a"] == "b"
    assert wire.get_table(database, "t").sd.location is not None


def test_altering_a_database_ignores_another_name(wire: Any, database: str) -> None:
    wire.alter_database(database, ttypes.Database(name="other", parameters={"a": "b"}))
    assert wire.get_database(database).parameters == {"a": "b"}
    with pytest.raises(ttypes.NoSuchObjectException):
        wire.get_database("other")


def test_a_directory_shared_by_partitions_is_deleted_with_the_last_one(wire: Any, database: str) -> None:
    wire.create_table(table(database, "t", partition_keys=(("n", "string"),)))
    found = wire.get_table(database, "t")
    bare = [ttypes.PartitionWithoutSD(values=[value], parameters={}) for value in "xyz"]
    spec = ttypes.PartitionSpec(
        dbName=database,
        tableName="t",
        rootPath=f"{found.sd.location}/root",
        sharedSDPartitionSpec=ttypes.PartitionSpecWithSharedSD(sd=found.sd, partitions=bare),
    )
    assert wire.add_partitions_pspec([spec]) == 3
    location = wire.get_partition(database, "t", ["x"]).sd.location
    assert location == f"{found.sd.location}/root/null"
    rows = Path(location.removeprefix("file:")) / "rows"
    rows.write_text("of all three")

    wire.drop_partition(database, "t", ["x"], True)
    assert rows.exists()
    wire.drop_partitions_req(
        ttypes.DropPartitionsRequest(
            dbName=database,
            tblName="t",
            parts=ttypes.RequestPartsSpec(names=["n=y"]),
            deleteData=True,
            needResult=False,
        )
    )
    assert rows.exists()
    wire.drop_partition(database, "t", ["z"], True)
    assert not rows.exists()


def test_a_directory_that_contains_another_partition_is_kept(wire: Any, database: str) -> None:
    wire.create_table(table(database, "t", partition_keys=(("n", "string"),)))
    home = wire.get_table(database, "t").sd.location
    for value in "ab":
        wire.append_partition(database, "t", [value])
    inside = wire.get_partition(database, "t", ["a"])
    for value, location in (("c", f"{home}/n=a"), ("d", f"{home}/n=b/deep")):
        inside.values, inside.sd.location = [value], location
        wire.add_partition(inside)
    for value in "abcd":
        place = Path(wire.get_partition(database, "t", [value]).sd.location.removeprefix("file:"))
        (place / f"rows of {value}").write_text(value)

    wire.drop_partition(database, "t", ["c"], True)
    wire.drop_partition(database, "t", ["b"], True)
    root = Path(home.removeprefix("file:"))
    assert (root / "n=a" / "rows of a").exists()
    assert (root / "n=b" / "deep" / "rows of d").exists()
    wire.drop_partition(database, "t", ["a"], True)
    wire.drop_partition(database, "t", ["d"], True)
    assert not (root / "n=a").exists()
    assert not (root / "n=b" / "deep").exists()


def test_dropping_a_missing_catalog_is_no_error_with_if_exists(wire: Any) -> None:
    with pytest.raises(ttypes.NoSuchObjectException):
        wire.drop_catalog(ttypes.DropCatalogRequest(name="nope"))
    wire.drop_catalog(ttypes.DropCatalogRequest(name="nope", ifExists=True))


def test_transactional_tables_are_accepted_if_the_server_is_configured_so(tmp_path: Path) -> None:
    db = f"sqlite:///{tmp_path / 'metastore.db'}"
    with (
        metastore_under_test(db, tmp_path, "--transactional-tables", "keep") as running,
        metastore_client(running.uri) as client,
    ):
        wire: Any = client
        parameters = {"transactional": "true", "transactional_properties": "insert_only"}
        wire.create_table(table("default", "acid", parameters=parameters))
        assert parameters.items() <= wire.get_table("default", "acid").parameters.items()
        wire.drop_table("default", "acid", True)
        assert wire.get_all_tables("default") == []
