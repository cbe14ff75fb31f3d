"""Directories of tables without a metastore by Paimon's REST catalog: clients of REST and writers of the file system,
interbed's, Java's and pypaimon's, on one table.
"""

import json
import random
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pytest

import interbed
from interbed.storage.meta.schema.change import SchemaChange
from interbed.storage.table.table import Table
from interbed.thrift_idl.hive_metastore import ttypes
from tests.catalog.server.rest.paimon.conftest import RestAnswer, RestClient
from tests.catalog.server.rest.paimon.test_killed_writers import (
    COMMITS,
    KILLS,
    InterbedAppender,
    JavaAppender,
    PyPaimonAppender,
    Writer,
    running,
)
from tests.support.peers.java import JavaPaimon
from tests.support.peers.pypaimon import PyPaimon
from tests.support.servers.metastore import MetastoreUnderTest, metastore_under_test, plain_client
from tests.support.tally import Tally
from tests.support.waits import at_most

ID = pa.schema([("id", pa.int64())])


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the directory of the server, with the directory `lake` of tables."""
    return tmp_path_factory.mktemp("paimon_warehouses")


@pytest.fixture(scope="module")
def server(directory: Path) -> Iterator[MetastoreUnderTest]:
    """Run a server with the warehouse `lake` beside its metastore."""
    arguments = ("--http-port", "0", "--paimon-warehouses", f"Lake=file:{directory / 'lake'}")
    with metastore_under_test(f"sqlite:///{directory / 'metastore.db'}", directory, *arguments) as started:
        yield started


@pytest.fixture(scope="module")
def lake(server: MetastoreUnderTest) -> RestClient:
    """Return a client of the warehouse by plain HTTP."""
    connections = psutil.Process(server.running.process.pid).net_connections()
    ports = {each.laddr.port for each in connections if each.status == psutil.CONN_LISTEN}
    return RestClient((ports - {server.port}).pop(), "lake")


@pytest.fixture(scope="module")
def files(directory: Path) -> Iterator[interbed.Catalog]:
    """Open the warehouse in the file system."""
    with interbed.load_catalog("files", warehouse=str(directory / "lake")) as catalog:
        yield catalog


@pytest.fixture(scope="module")
def by_rest(lake: RestClient) -> Iterator[interbed.Catalog]:
    """Open the warehouse by REST."""
    options = {"uri": f"http://127.0.0.1:{lake.port}/paimon", "warehouse": "lake", "token.provider": "bear"}
    with interbed.load_catalog("lake", metastore="rest", token="none", **options) as catalog:
        yield catalog


@pytest.fixture
def database(files: interbed.Catalog, request: pytest.FixtureRequest) -> str:
    """Return the name of an empty database."""
    name = f"db_{request.node.name}"
    files.create_database(name)
    return name


def _ids(table: Table) -> list[int]:
    return sorted(row["id"] for row in table.to_arrow().to_pylist())


def test_a_warehouse_is_found_by_its_name_and_by_its_location(lake: RestClient, directory: Path) -> None:
    for warehouse in ("lake", "Lake", f"file:{directory / 'lake'}", f"file://{directory / 'lake'}/"):
        assert lake.call("GET", "config", query={"warehouse": warehouse}).body["overrides"] == {"prefix": "lake"}
    assert lake.call("GET", "config").body["overrides"] == {"prefix": "hive"}
    answer = lake.call("GET", "config", query={"warehouse": "pond"})
    assert "Name one of the catalogs: hive, lake" in answer.body["message"]


def test_a_table_of_the_file_system_is_served_as_it_is(
    files: interbed.Catalog, by_rest: interbed.Catalog, lake: RestClient, database: str, directory: Path
) -> None:
    table = files.create_table(f"{database}.t", ID)
    table.append([{"id": 1}])
    shown = lake.get("databases", database, "tables", "t")
    assert shown["path"] == f"file:{directory / 'lake'}/{database}.db/t"
    assert (shown["isExternal"], shown["owner"], shown["schemaId"]) == (False, None, 0)
    assert shown["createdAt"] == table.schema.time_millis
    served = by_rest.get_table(f"{database}.t")
    served.append([{"id": 2}])
    table.append([{"id": 3}])
    assert _ids(served) == _ids(table) == [1, 2, 3]
    assert lake.get("databases", database, "tables", "t", "snapshot")["snapshot"]["recordCount"] == 3
    assert [each["id"] for each in lake.get("databases", database, "tables", "t", "snapshots")["snapshots"]] == [
        1,
        2,
        3,
    ]


def test_databases_and_tables_are_made_changed_and_dropped(
    files: interbed.Catalog, by_rest: interbed.Catalog, lake: RestClient, database: str
) -> None:
    name = f"{database}_by_rest"
    by_rest.create_database(name, properties={"owner": "ann"})
    assert name in files.list_databases()
    assert lake.get("databases", name)["options"] == {}
    by_rest.create_table(f"{name}.t", ID)
    by_rest.alter_table(f"{name}.t", SchemaChange.add_column("v", "STRING"))
    first = lake.get("databases", name, "tables", "t")["id"]
    by_rest.rename_table(f"{name}.t", f"{name}.u")
    assert (files.list_tables(name), [each.name for each in files.get_table(f"{name}.u").fields]) == (
        ["u"],
        ["id", "v"],
    )
    assert lake.get("tables", "id", lake.get("databases", name, "tables", "u")["id"])["name"] == "u"
    assert lake.call("GET", "lake", "tables", "id", first).status == 404
    with pytest.raises(interbed.TableExistsError):
        by_rest.create_table(f"{name}.u", ID)
    by_rest.drop_table(f"{name}.u")
    assert files.list_tables(name) == []
    by_rest.drop_database(name)
    assert name not in files.list_databases()


def test_a_repeated_commit_is_made_once(lake: RestClient, files: interbed.Catalog, database: str) -> None:
    table = files.create_table(f"{database}.t", ID)
    table.append([{"id": 1}])
    (snapshot,) = lake.get("databases", database, "tables", "t", "snapshots")["snapshots"]
    made = {**snapshot, "id": 2, "commitUser": "rest", "commitIdentifier": 7, "uuid": "another"}
    number = lake.get("databases", database, "tables", "t")["id"]
    body = {"tableId": number, "snapshot": made, "statistics": []}
    path = ("databases", database, "tables", "t", "commit")
    assert [lake.post(*path, body=body) for _ in range(2)] == [{"success": True}] * 2
    assert [each.id for each in table.snapshots()] == [1, 2]
    other = {**body, "snapshot": {**made, "commitIdentifier": 8}}
    assert lake.post(*path, body=other) == {"success": False}
    files.drop_table(f"{database}.t")
    files.create_table(f"{database}.t", ID)
    assert lake.call("POST", "lake", *path, body=body).status == 404


def test_partitions_tags_and_branches_are_those_of_the_files(
    lake: RestClient, files: interbed.Catalog, by_rest: interbed.Catalog, database: str
) -> None:
    lake.create_table(database, "t", partitioned=True)
    files.get_table(f"{database}.t").append([{"dt": "a", "id": 1}, {"dt": "b", "id": 2}])
    path = ("databases", database, "tables", "t")
    partitions = lake.get(*path, "partitions")["partitions"]
    assert [(each["spec"], each["recordCount"]) for each in partitions] == [({"dt": "b"}, 1), ({"dt": "a"}, 1)]
    body = {"partitionSpecs": [{"dt": "c"}]}
    _refused(lake.call("POST", "lake", *path, "partitions", body=body), 501, "has no metastore")
    table = by_rest.get_table(f"{database}.t")
    table.versions.create_tag("v1")
    table.versions.create_branch("b", "v1")
    assert files.get_table(f"{database}.t$branch_b").count() == 2
    assert lake.get(*path, "tags")["tags"] == ["v1"]
    table.append([{"dt": "c", "id": 3}])
    table.versions.rollback_to("v1")
    assert files.get_table(f"{database}.t").count() == 2


def test_what_a_file_system_catalog_does_not_have_is_refused_by_name(
    lake: RestClient, files: interbed.Catalog, database: str, directory: Path
) -> None:
    home = ("databases", database)
    view: dict[str, Any] = {"query": "SELECT 1", "fields": [], "dialects": {}, "comment": None, "options": {}}
    body: dict[str, Any] = {"identifier": {"database": database, "object": "v"}, "schema": view}
    _refused(lake.call("POST", "lake", *home, "views", body=body), 501, "has no views")
    function = {"name": "f", "inputParams": [], "returnParams": [], "definitions": {}}
    _refused(lake.call("POST", "lake", *home, "functions", body=function), 501, "no functions")
    for kind in ("views", "functions"):
        assert lake.get(*home, kind)[kind] == []
        assert lake.get(kind)[kind] == []
        assert lake.call("GET", "lake", *home, kind, "x").status == 404
        assert lake.call("DELETE", "lake", *home, kind, "x").status == 404
    files.create_table(f"{database}.t", ID)
    body = {"identifier": {"database": database, "object": "u"}, "path": f"{directory / 'lake'}/{database}.db/t"}
    _refused(lake.call("POST", "lake", *home, "register", body=body), 400, "decides where a table lives")


def test_a_catalog_of_the_same_name_is_not_hidden(server: MetastoreUnderTest, lake: RestClient) -> None:
    with plain_client(server.port) as client:
        location = f"file:{server.warehouse.parent / 'other'}"
        client.create_catalog(ttypes.CreateCatalogRequest(ttypes.Catalog(name="lake", locationUri=location)))
        _refused(lake.call("GET", "lake", "databases"), 400, "give the warehouse another name")
        client.drop_catalog(ttypes.DropCatalogRequest("lake"))
    assert lake.call("GET", "lake", "databases").status == 200


def _refused(answer: RestAnswer, status: int, message: str) -> None:
    assert answer.status == status, answer
    assert message in answer.body["message"], answer


@pytest.mark.long
def test_java_and_pypaimon_write_to_one_table_by_rest_and_in_the_file_system(
    lake: RestClient, files: interbed.Catalog, directory: Path, database: str
) -> None:
    name = f"{database}.t"
    files.create_table(name, ID)
    address = f"http://127.0.0.1:{lake.port}/paimon#lake"
    with JavaPaimon(timeout_seconds=at_most(240)) as java, PyPaimon(timeout_seconds=at_most(120)) as pypaimon:
        for number, warehouse in enumerate((address, str(directory / "lake"))):
            java.table(warehouse, name).write([[10 + number]])
            pypaimon.table(warehouse, name).write([[20 + number]])
        expected = [10, 11, 20, 21]
        assert _ids(files.get_table(name)) == expected
        for warehouse in (address, str(directory / "lake")):
            assert sorted(row[0] for row in java.table(warehouse, name).read().rows) == expected
            rows = pypaimon.table(warehouse, name).read_arrow().to_pylist()
            assert sorted(row["id"] for row in rows) == expected
        made = java.table(address, f"{database}.of_java")
        made.create([("id", "BIGINT")])
        assert "of_java" in files.list_tables(database)
        made.drop()


@pytest.mark.long
def test_writers_by_rest_and_by_the_file_system_that_are_killed_lose_nothing(
    lake: RestClient, files: interbed.Catalog, directory: Path, tmp_path: Path, tally: Tally
) -> None:
    files.create_database("d")
    files.create_table("d.t", ID)
    chosen = random.Random(11)
    uri, log, home = f"http://127.0.0.1:{lake.port}/paimon", tmp_path / "writers.log", str(directory / "lake")
    rest = {"metastore": "rest", "uri": uri, "warehouse": "lake", "token.provider": "bear", "token": "none"}
    kinds = [
        lambda: JavaAppender(f"{uri}#lake"),
        lambda: JavaAppender(home),
        lambda: PyPaimonAppender(f"{uri}#lake"),
        lambda: InterbedAppender(rest, log),
        lambda: InterbedAppender({"warehouse": home}, log),
    ]
    writers = [Writer(number, start) for number, start in enumerate(kinds)]
    killed = 0
    with running(writers) as threads:
        pause = threading.Event()
        while killed < KILLS and any(thread.is_alive() for thread in threads):
            pause.wait(chosen.uniform(0.2, 2.0))
            killed += chosen.choice(writers).kill()
    table = files.get_table("d.t")
    found = _ids(table)
    assert len(found) == len(set(found))
    assert set().union(*(writer.committed for writer in writers)) <= set(found)
    assert set(found) <= set().union(*(writer.tried for writer in writers))
    assert [each.id for each in table.snapshots()] == list(range(1, len(table.snapshots()) + 1))
    assert all(len(writer.committed) == COMMITS for writer in writers), json.dumps([w.refused for w in writers])
    tally("killed writers of a warehouse without a metastore", killed)
