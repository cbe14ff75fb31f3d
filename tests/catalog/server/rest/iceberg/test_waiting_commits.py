"""Commits that wait for the lock of another client: they hold no thread, and end when the lock is released."""

from concurrent.futures import ThreadPoolExecutor

from interbed.thrift_idl.hive_metastore import ttypes
from tests.catalog.server.rest.iceberg.rest_server import IcebergRest, set_properties
from tests.support.servers.metastore import lock_component, lock_request, plain_client
from tests.support.waits import at_most, wait_until

COMMITS = 80
"""More than the threads of the server's pool."""


def test_commits_that_wait_for_a_lock_hold_no_thread(rest_on_sqlite: IcebergRest) -> None:
    server = rest_on_sqlite
    server.call("POST", "namespaces", {"namespace": ["waiting"]}).expect(200)
    for name in ("locked", "other"):
        server.create("waiting", name)
    with plain_client(server.metastore.port) as client, ThreadPoolExecutor(COMMITS) as threads:
        component = lock_component(ttypes.LockType.EXCLUSIVE, "waiting", "locked")
        held = client.lock(lock_request(component))
        waiting = [
            threads.submit(server.commit, "waiting", "locked", [], [set_properties(**{f"p{number}": "1"})])
            for number in range(COMMITS)
        ]
        log = server.metastore.warehouse.parent / "server.log"
        wait_until(
            lambda: log.read_text().count("Retry 1 of the commit to waiting.locked ") == COMMITS,
            "each commit has found the lock",
        )
        for number in range(5):
            server.call("GET", "namespaces/waiting/tables/other").expect(200)
            server.commit("waiting", "other", [], [set_properties(n=str(number))]).expect(200)
        assert not any(each.done() for each in waiting)
        client.unlock(ttypes.UnlockRequest(lockid=held.lockid))
        statuses = {each.result(at_most(60)).status for each in waiting}
    # Some may run out of time, as each commit of one table makes the others try again: their clients retry.
    assert statuses <= {200, 409}
    found = server.call("GET", "namespaces/waiting/tables/locked").expect(200)
    done = sum(each.result().status == 200 for each in waiting)
    assert done > 0
    assert sum(name.startswith("p") for name in found["metadata"]["properties"]) == done
