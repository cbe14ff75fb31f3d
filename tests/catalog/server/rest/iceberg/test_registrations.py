"""registerTable with `overwrite`: the name then has the metadata of the file, and the old files stay."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

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
