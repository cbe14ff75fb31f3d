"""registerTable with `overwrite`: the name then has the metadata of the file, and the old files stay.

unregisterTable: the name is free, and all files stay.
"""

import json
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog import Catalog

from interbed.thrift_idl.hive_metastore import ttypes
from tests.catalog.server.rest.iceberg.rest_server import SCHEMA, IcebergRest, set_properties
from tests.support.servers.metastore import lock_component, lock_request, plain_client, table
from tests.support.waits import at_most, wait_until


def test_a_table_is_registered_over_another(
    server: IcebergRest, namespace: str, catalog: Catalog, hive: Catalog
) -> None:
    first = server.create(namespace, "t", properties={"only": "old"})
    other = server.create(namespace, "u", properties={"n": "1"})
    path = f"namespaces/{namespace}/register"
    body = {"name": "t", "metadata-location": other["metadata-location"]}
    server.call("POST", path, body).error(409, "AlreadyExistsException")
    found = server.call("POST", path, {**body, "overwrite": True}).expect(200)
    assert found["metadata-location"] == other["metadata-location"]
    assert found["metadata"]["table-uuid"] == other["metadata"]["table-uuid"]
    for client in (catalog, hive):
        assert client.load_table(f"{namespace}.t").metadata_location == other["metadata-location"]
    with plain_client(server.metastore.port) as client:
        parameters = client.get_table(namespace, "t").parameters or {}
    assert parameters["previous_metadata_location"] == first["metadata-location"]
    assert (parameters.get("n"), parameters.get("only")) == ("1", None)
    assert Path(first["metadata-location"].removeprefix("file:")).exists()
    # A commit of the old table is refused, and one of the new table is made.
    uuid = {"type": "assert-table-uuid", "uuid": first["metadata"]["table-uuid"]}
    server.commit(namespace, "t", [uuid], [set_properties(a="1")]).error(409, "CommitFailedException")
    server.commit(namespace, "t", [], [set_properties(a="1")]).expect(200)
    # Back to what it was, also where the newest file is missing.
    Path(server.call("GET", f"namespaces/{namespace}/tables/t").expect(200)["metadata-location"][5:]).unlink()
    back = server.call("POST", path, {**body, "metadata-location": first["metadata-location"], "overwrite": True})
    assert back.expect(200)["metadata"]["properties"]["only"] == "old"


def test_overwrite_creates_a_missing_table_and_replaces_no_other_object(server: IcebergRest, namespace: str) -> None:
    location = server.create(namespace, "t")["metadata-location"]
    path = f"namespaces/{namespace}/register"
    body = {"name": "new", "metadata-location": location, "overwrite": True}
    server.call("POST", path, body).expect(200)
    with plain_client(server.metastore.port) as client:
        client.create_table(table(namespace, "plain"))
    server.call("POST", path, {**body, "name": "plain"}).error(409, "AlreadyExistsException")
    server.call("POST", "namespaces/none/register", body).error(404, "NoSuchNamespaceException")
    wrong = {**body, "name": "t", "metadata-location": f"{location}.missing"}
    assert server.call("POST", path, wrong).status >= 400
    assert server.call("GET", f"namespaces/{namespace}/tables/t").expect(200)["metadata-location"] == location


def test_overwrite_waits_for_the_lock_of_another_client(server: IcebergRest, namespace: str) -> None:
    location = server.create(namespace, "t")["metadata-location"]
    server.create(namespace, "u")
    log = server.metastore.warehouse.parent / "server.log"
    body = {"name": "u", "metadata-location": location, "overwrite": True}
    with plain_client(server.metastore.port) as client, ThreadPoolExecutor(1) as pool:
        held = client.lock(lock_request(lock_component(ttypes.LockType.EXCLUSIVE, namespace, "u")))
        asked = pool.submit(server.call, "POST", f"namespaces/{namespace}/register", body)
        try:
            wait_until(lambda: f"of the registration of {namespace}.u in" in log.read_text(), "a retry is logged")
        finally:
            client.unlock(ttypes.UnlockRequest(lockid=held.lockid))
        asked.result(timeout=at_most(60)).expect(200)


# The server tries for 15 seconds.
@pytest.mark.long
def test_overwrite_is_refused_while_another_client_holds_the_lock(server: IcebergRest, namespace: str) -> None:
    location = server.create(namespace, "t")["metadata-location"]
    server.create(namespace, "u")
    with plain_client(server.metastore.port) as client:
        held = client.lock(lock_request(lock_component(ttypes.LockType.EXCLUSIVE, namespace, "u")))
        body = {"name": "u", "metadata-location": location, "overwrite": True}
        answer = server.call("POST", f"namespaces/{namespace}/register", body)
        answer.error(409, "CommitFailedException")
        client.unlock(ttypes.UnlockRequest(lockid=held.lockid))
    server.call("POST", f"namespaces/{namespace}/register", body).expect(200)


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "namespaces?parent=a%1Fb", None, 404),
        ("GET", "namespaces/a%1Fb", None, 404),
        ("HEAD", "namespaces/a%1Fb", None, 404),
        ("DELETE", "namespaces/a%1Fb", None, 404),
        ("POST", "namespaces/a%1Fb/properties", {"updates": {"k": "v"}}, 404),
        ("GET", "namespaces/a%1Fb/tables", None, 404),
        ("POST", "namespaces/a%1Fb/tables", {"name": "t", "schema": SCHEMA}, 404),
        ("POST", "namespaces/a%1Fb/register", {"name": "t", "metadata-location": "file:/x"}, 404),
        ("POST", "namespaces/a%1Fb/register", {"name": "t", "metadata-location": "file:/x", "overwrite": True}, 404),
        ("GET", "namespaces/a%1Fb/tables/t", None, 404),
        ("HEAD", "namespaces/a%1Fb/tables/t", None, 404),
        ("POST", "namespaces/a%1Fb/tables/t", {"requirements": [], "updates": []}, 404),
        ("DELETE", "namespaces/a%1Fb/tables/t", None, 404),
        ("POST", "namespaces/a%1Fb/tables/t/plan", {}, 404),
        ("POST", "namespaces/a%1Fb/tables/t/tasks", {"plan-task": "x"}, 404),
        ("GET", "namespaces/a%1Fb/views", None, 404),
        ("GET", "namespaces/a%1Fb/views/v", None, 404),
    ],
)
def test_a_missing_namespace_of_several_levels_is_named(
    rest_on_sqlite: IcebergRest, method: str, path: str, body: object, status: int
) -> None:
    answer = rest_on_sqlite.call(method, path, body)
    assert answer.status == status, answer.body
    if method != "HEAD":
        assert "a.b" in answer.body["error"]["message"]


def _files(created: Any) -> set[Path]:
    home = Path(created["metadata"]["location"].removeprefix("file:"))
    return {each for each in home.rglob("*") if each.is_file()}


def test_an_unregistered_table_keeps_its_files_and_is_registered_again(
    server: IcebergRest, namespace: str, catalog: Catalog
) -> None:
    created = server.create(namespace, "t")
    last = server.commit(namespace, "t", [], [set_properties(a="1")]).expect(200)
    files = _files(created)
    found = server.call("POST", f"namespaces/{namespace}/tables/t/unregister").expect(200)
    # The two members of UnregisterTableResult.
    assert found == {"metadata-location": last["metadata-location"], "metadata": last["metadata"]}
    assert _files(created) == files
    assert f"{namespace}.t" not in [".".join(each) for each in catalog.list_tables(namespace)]
    with plain_client(server.metastore.port) as client, pytest.raises(ttypes.NoSuchObjectException):
        client.get_table(namespace, "t")
    server.commit(namespace, "t", [], [set_properties(a="2")]).error(404, "NoSuchTableException")
    server.call("POST", f"namespaces/{namespace}/tables/t/unregister").error(404, "NoSuchTableException")
    assert _files(created) == files
    body = {"name": "again", "metadata-location": found["metadata-location"]}
    server.call("POST", f"namespaces/{namespace}/register", body).expect(200)
    assert catalog.load_table(f"{namespace}.again").properties["a"] == "1"


def test_what_is_no_table_of_iceberg_is_not_unregistered(server: IcebergRest, namespace: str) -> None:
    with plain_client(server.metastore.port) as client:
        client.create_table(table(namespace, "plain"))
        server.call("POST", f"namespaces/{namespace}/tables/plain/unregister").error(404, "NoSuchTableException")
        assert client.get_table(namespace, "plain").tableName == "plain"
    server.call("POST", "namespaces/none/tables/t/unregister").error(404, "NoSuchTableException")


def test_a_table_without_its_metadata_file_is_not_unregistered(server: IcebergRest, namespace: str) -> None:
    location = server.create(namespace, "t")["metadata-location"]
    path = f"namespaces/{namespace}/tables/t/unregister"
    with plain_client(server.metastore.port) as client:
        entry = client.get_table(namespace, "t")
        for named in (f"{location}.missing", location):
            entry.parameters = {**(entry.parameters or {}), "metadata_location": named}
            client.alter_table(namespace, "t", entry)
            assert server.call("POST", path).status == (500 if named != location else 200)
        with pytest.raises(ttypes.NoSuchObjectException):
            client.get_table(namespace, "t")


def test_no_commit_is_lost_by_an_unregistration(server: IcebergRest, namespace: str) -> None:
    """Every commit that was answered is in the metadata, and every later one is refused."""
    server.create(namespace, "t")

    def commits(writer: int) -> list[str]:
        made: list[str] = []
        while True:
            answer = server.commit(namespace, "t", [], [set_properties(**{f"w{writer}": str(len(made))})])
            if answer.status == 404:
                return made
            # A commit that other writers have overtaken too often is refused, and made again.
            if answer.status == 200:
                made.append(answer.body["metadata-location"])

    with ThreadPoolExecutor(3) as pool:
        running = [pool.submit(commits, writer) for writer in range(3)]
        path = f"namespaces/{namespace}/tables/t"
        wait_until(
            lambda: server.call("GET", path).expect(200)["metadata"]["properties"].keys() >= {"w0", "w1", "w2"},
            "all writers have committed",
        )
        answer = server.call("POST", f"{path}/unregister")
        while answer.status == 409:
            answer = server.call("POST", f"{path}/unregister")
        made = [each.result(timeout=at_most(60)) for each in running]
    found = answer.expect(200)["metadata"]["properties"]
    assert {f"w{writer}": str(len(each) - 1) for writer, each in enumerate(made)}.items() <= found.items()


def test_the_history_has_the_removal_with_its_operation(server: IcebergRest, namespace: str) -> None:
    created = server.create(namespace, "t")
    server.call("POST", f"namespaces/{namespace}/tables/t/unregister").expect(200)
    home = f"/interbed/v1/hive/databases/{namespace}"
    changes = _interbed(server, f"{home}/tables/t/history")
    assert [(each["change"], each["operation"]) for each in changes][-1] == ("DROP_TABLE", "unregisterTable")
    assert _files(created)


def _interbed(server: IcebergRest, path: str) -> Any:
    with urllib.request.urlopen(f"http://127.0.0.1:{server.port}{path}", timeout=at_most(60)) as response:
        return next(iter(json.load(response).values()))
