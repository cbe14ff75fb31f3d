"""Requests that name a location in another file system than that of the catalog: refused by name, and nothing is made.

One server has its warehouse on local disk, the other in an object store.
"""

import http.client
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from interbed.catalog.server.process.command import RunningServer, stop_server
from tests.support.servers.enforcing_store import enforcing_store
from tests.support.servers.metastore import started_server
from tests.support.waits import at_most

BUCKET = "lake"
ELSEWHERE = {
    "on disk": ("s3://other/t", "gs://other/t", "hdfs://127.0.0.1:1/t", "ftp://other/t"),
    "in a store": ("file:/tmp/other/t", "/tmp/other/t", "s3://other/t", "gs://other/t", "ftp://other/t"),
}
"""Locations in other file systems, by the warehouse."""

Database = tuple[str, RunningServer]


@pytest.fixture(scope="module", params=ELSEWHERE)
def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """Run a server, with a directory of tables beside its metastore."""
    directory: Path = tmp_path_factory.mktemp("elsewhere")
    with enforcing_store(BUCKET) as store, pytest.MonkeyPatch.context() as patch:
        for key, value in store.environment.items():
            patch.setenv(key, value)
        root = f"s3://{BUCKET}" if request.param == "in a store" else f"file:{directory}"
        server = started_server(
            f"sqlite:///{directory / 'metastore.db'}",
            f"{root}/warehouse",
            *("--http-port", "0", "--store-seconds", "5"),
            *("--paimon-warehouses", f"directory={root}/directory"),
            log=directory / "server.log",
        )
        try:
            for prefix in ("hive", "directory"):
                assert _call(server, "POST", f"/paimon/v1/{prefix}/databases", {"name": "d", "options": {}})[0] == 200
            yield request.param, server
        finally:
            stop_server(server)


def _call(server: RunningServer, method: str, path: str, body: object = None) -> tuple[int, str]:
    """Return the status and the text of the answer to a request."""
    address = urlsplit(server.http or "")
    assert address.hostname is not None
    connection = http.client.HTTPConnection(address.hostname, address.port, timeout=at_most(60))
    try:
        connection.request(method, path, None if body is None else json.dumps(body).encode())
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


def _table(name: str, **options: str) -> dict[str, Any]:
    fields = [{"id": 0, "name": "id", "type": "BIGINT"}]
    schema = {"fields": fields, "partitionKeys": [], "primaryKeys": [], "options": options, "comment": None}
    return {"identifier": {"database": "d", "object": name}, "schema": schema}


def test_paimons_routes_refuse_another_file_system_by_name(served: Database) -> None:
    kind, server = served
    home = "/paimon/v1/hive/databases"
    for place in ELSEWHERE[kind]:
        for path, body in (
            (f"{home}/d/register", {"identifier": {"database": "d", "object": "t"}, "path": place}),
            (f"{home}/d/tables", _table("t", path=place)),
            (f"{home}/d/tables", _table("t", path=place, type="format-table")),
            (home, {"name": "e", "options": {"location": place}}),
        ):
            status, text = _call(server, "POST", path, body)
            assert (status, "is in another file system than" in text) == (501, True), (path, body, status, text)
            assert place.removeprefix("file:") in text
    assert _call(server, "GET", f"{home}/d/tables/t")[0] == 404
    assert _call(server, "GET", f"{home}/e")[0] == 404


def test_a_directory_of_tables_refuses_every_other_place(served: Database) -> None:
    kind, server = served
    home = "/paimon/v1/directory/databases"
    for place in ELSEWHERE[kind]:
        for path, body in (
            (f"{home}/d/register", {"identifier": {"database": "d", "object": "t"}, "path": place}),
            (f"{home}/d/tables", _table("t", path=place)),
        ):
            status, text = _call(server, "POST", path, body)
            assert (status, "decides where a table lives" in text) == (400, True), (path, body, status, text)
    assert _call(server, "GET", f"{home}/d/tables/t")[0] == 404


def test_a_table_is_registered_by_every_spelling_of_its_path(served: Database, tmp_path: Path) -> None:
    kind, server = served
    home = "/paimon/v1/hive/databases/d"
    place = str(tmp_path / "t") if kind == "on disk" else f"s3://{BUCKET}/other/t"
    spellings = (place, f"file:{place}", f"file://{place}/") if kind == "on disk" else (place, f"s3a{place[2:]}")
    assert _call(server, "POST", f"{home}/tables", _table("made", path=place))[0] == 200
    name = "made"
    for number, spelling in enumerate(spellings):
        assert _call(server, "DELETE", f"{home}/tables/{name}")[0] == 200
        name = f"t{number}"
        body = {"identifier": {"database": "d", "object": name}, "path": spelling}
        assert _call(server, "POST", f"{home}/register", body) == (200, "")
        assert json.loads(_call(server, "GET", f"{home}/tables/{name}")[1])["schemaId"] == 0


def test_unknown_file_systems_are_refused_by_routes_of_iceberg(served: Database) -> None:
    _, server = served
    home = "/iceberg/v1/hive/namespaces"
    schema = {"type": "struct", "schema-id": 0, "fields": []}
    version = {
        "version-id": 1,
        "schema-id": 0,
        "timestamp-ms": 1,
        "summary": {},
        "default-namespace": ["d"],
        "representations": [{"type": "sql", "sql": "SELECT 1", "dialect": "spark"}],
    }
    for place in ("ftp://other/t", "unknown://other/t", "s3:///t"):
        for path, body in (
            (home, {"namespace": ["e"], "properties": {"location": place}}),
            (f"{home}/d/tables", {"name": "t", "schema": schema, "location": place}),
            (f"{home}/d/register", {"name": "t", "metadata-location": f"{place}/metadata/v1.metadata.json"}),
            (f"{home}/d/views", {"name": "v", "schema": schema, "view-version": version, "location": place}),
            (f"{home}/d/register-view", {"name": "v", "metadata-location": f"{place}/metadata/v1.metadata.json"}),
        ):
            status, text = _call(server, "POST", path, body)
            assert 400 <= status < 500, (path, body, status, text)
            assert place.partition(":")[0] in text, (path, body, status, text)
