"""Cached responses of REST: a read returns what any client has changed before it, whatever the cache has."""

import random
import re
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from interbed.catalog.client.hive.client import HiveMetastoreClient
from interbed.catalog.server.rest.endpoint import answer_key
from tests.catalog.server.rest.iceberg.rest_server import IcebergRest, RestAnswer, rest_server, set_properties
from tests.support.servers.metastore import table
from tests.support.shares import LONG
from tests.support.waits import at_most

STEPS = 120 if LONG else 30
NAMES = ("a", "b", "c")


def read(server: IcebergRest, method: str, path: str, **headers: str) -> RestAnswer:
    """Return the response to a read that is made three times: the second and the third may be cached."""
    found = [server.call(method, path, headers={k.replace("_", "-"): v for k, v in headers.items()}) for _ in range(3)]
    shown = [(each.status, each.body, each.headers.get("etag")) for each in found]
    assert shown[0] == shown[1] == shown[2]
    assert len({each.headers["x-request-id"] for each in found}) == 3
    return found[2]


def listed(server: IcebergRest, namespace: str, kind: str = "tables") -> list[str]:
    """Return the names in a list."""
    found = read(server, "GET", f"namespaces/{namespace}/{kind}").expect(200)
    return [each["name"] for each in found["identifiers"]]


def test_a_cached_load_is_that_of_the_last_commit(server: IcebergRest, namespace: str) -> None:
    path = f"namespaces/{namespace}/tables/t"
    assert read(server, "HEAD", path).status == read(server, "GET", path).status == 404
    server.create(namespace, "t")
    assert read(server, "HEAD", path).status == 204
    first = read(server, "GET", path)
    assert read(server, "GET", path, if_none_match=first.headers["etag"]).status == 304
    assert read(server, "GET", f"{path}?snapshots=refs").headers["etag"] != first.headers["etag"]
    for number in range(3):
        server.commit(namespace, "t", [], [set_properties(turn=str(number))]).expect(200)
        found = read(server, "GET", path)
        assert found.expect(200)["metadata"]["properties"]["turn"] == str(number)
        assert read(server, "GET", path, if_none_match=first.headers["etag"]).status == 200
        assert read(server, "GET", path, if_none_match=found.headers["etag"]).status == 304
    server.call("DELETE", path).expect(204)
    assert read(server, "HEAD", path).status == read(server, "GET", path).status == 404


def test_cached_lists_have_the_changes_of_all_clients(server: IcebergRest, namespace: str) -> None:
    assert listed(server, namespace) == []
    server.create(namespace, "a")
    assert listed(server, namespace) == ["a"]
    names = {"source": {"namespace": [namespace], "name": "a"}, "destination": {"namespace": [namespace], "name": "b"}}
    server.call("POST", "tables/rename", names).expect(204)
    assert listed(server, namespace) == ["b"]
    with HiveMetastoreClient(server.metastore.uri, timeout_seconds=at_most(30)) as client:
        client.create_table(table(namespace, "plain"))
        assert listed(server, namespace) == ["b"]
        # A table of Hive that becomes one of Iceberg, and the other way round.
        entry: Any = client.get_table(namespace, "plain")
        entry.parameters |= {"table_type": "iceberg", "metadata_location": "file:/x/00000-x.metadata.json"}
        client.alter_table(namespace, "plain", entry)
        assert listed(server, namespace) == ["b", "plain"]
        assert read(server, "HEAD", f"namespaces/{namespace}/tables/plain").status == 204
        del entry.parameters["table_type"]
        client.alter_table(namespace, "plain", entry)
        assert listed(server, namespace) == ["b"]
        assert read(server, "HEAD", f"namespaces/{namespace}/tables/plain").status == 404
        client.drop_table(namespace, "b", delete_data=False)
    assert listed(server, namespace) == []
    assert listed(server, namespace, "views") == []


def test_cached_namespaces_have_their_present_properties(server: IcebergRest, namespace: str) -> None:
    path = f"namespaces/{namespace}"
    assert "x" not in read(server, "GET", path).expect(200)["properties"]
    server.call("POST", f"{path}/properties", {"updates": {"x": "1"}}).expect(200)
    assert read(server, "GET", path).expect(200)["properties"]["x"] == "1"
    assert read(server, "HEAD", path).status == 204
    server.call("DELETE", path).expect(204)
    assert read(server, "HEAD", path).status == read(server, "GET", path).status == 404


def test_the_key_of_an_answer_has_all_that_determines_it() -> None:
    def key(path: bytes = b"/a", query: bytes = b"", method: str = "GET", **headers: bytes) -> bytes | None:
        named = [(name.replace("_", "-").encode(), value) for name, value in headers.items()]
        return answer_key({"raw_path": path, "query_string": query, "method": method, "headers": named})

    different = [key(), key(b"/b"), key(query=b"x=1"), key(method="HEAD"), key(if_none_match=b"x")]
    assert len(set(different)) == len(different)
    assert key(user_agent=b"x", content_length=b"0") == key()
    # The body of a read is not a part of the key.
    assert key(content_length=b"1") is None
    assert key(transfer_encoding=b"chunked") is None


@pytest.mark.long
def test_servers_with_and_without_a_cache_give_the_same_responses(database_url: str, tmp_path: Path) -> None:
    """Each step makes a random change through one of two servers, and then the same reads through both."""
    source = random.Random(7)
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    shared = ("--warehouse", f"file:{tmp_path / 'warehouse'}")
    with (
        rest_server(database_url, tmp_path / "a", *shared, "--health-port", "0", "--log-level", "INFO") as cached,
        rest_server(database_url, tmp_path / "b", *shared, "--cache-bytes", "0") as plain,
    ):
        cached.call("POST", "namespaces", {"namespace": ["ns"]}).expect(200)
        for step in range(STEPS):
            change(source, source.choice((cached, plain)), step)
            paths = [("GET", "namespaces/ns/tables"), ("GET", "namespaces/ns/tables?pageSize=2"), ("GET", "namespaces")]
            paths += [(method, f"namespaces/ns/tables/{name}") for name in NAMES for method in ("GET", "HEAD")]
            for method, path in paths:
                found = read(cached, method, path)
                expected = plain.call(method, path)
                assert (found.status, found.body) == (expected.status, expected.body), step
        log = (tmp_path / "a" / "server.log").read_text()
        address = re.search(r"health and metrics on (http://[^/]+)/", log)
        assert address is not None
        with urllib.request.urlopen(f"{address[1]}/metrics", timeout=at_most(30)) as response:
            metrics = response.read().decode()
        hits = re.search(r"^interbed_cache_hits_total (\S+)", metrics, re.MULTILINE)
        assert hits is not None
        assert float(hits[1]) > STEPS


def change(source: random.Random, server: IcebergRest, step: int) -> None:
    """Make a random change; the server may refuse it."""
    name, other = source.choice(NAMES), source.choice(NAMES)
    path = f"namespaces/ns/tables/{name}"
    match source.randrange(4):
        case 0 | 1:
            if server.call("HEAD", path).status == 404:
                server.create("ns", name)
            else:
                server.commit("ns", name, [], [set_properties(step=str(step))]).expect(200)
        case 2:
            server.call("DELETE", path)
        case _:
            named = [{"namespace": ["ns"], "name": each} for each in (name, other)]
            server.call("POST", "tables/rename", {"source": named[0], "destination": named[1]})
