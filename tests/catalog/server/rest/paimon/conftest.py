"""A server with Paimon's REST interface, and clients of it: plain HTTP, and interbed's Hive catalog."""

import http.client
import itertools
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote_plus, urlencode

import pytest

from interbed.catalog.client.hive.catalog import HiveCatalog
from interbed.catalog.client.options import CatalogOptions
from interbed.thrift_idl.hive_metastore import ttypes
from tests.support.servers.metastore import MetastoreUnderTest, metastore_under_test, plain_client
from tests.support.waits import at_most

_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class RestAnswer:
    """Status and JSON of an answer; an empty body is None."""

    status: int
    body: Any


@dataclass(frozen=True, slots=True)
class RestClient:
    """Plain HTTP to Paimon's interface on a port; `prefix` is the catalog of the shorter methods."""

    port: int
    prefix: str = "hive"

    def call(self, method: str, *parts: str, body: object = None, query: Mapping[str, str] | None = None) -> RestAnswer:
        """Send a request whose parts of the path are encoded as Java's clients do."""
        path = "/paimon/v1/" + "/".join(quote_plus(part) for part in parts)
        if query:
            path += f"?{urlencode(query)}"
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=at_most(60))
        try:
            content = None if body is None else json.dumps(body).encode()
            connection.request(method, path, content, {"Content-Type": "text/plain; charset=UTF-8"})
            response = connection.getresponse()
            text = response.read()
        finally:
            connection.close()
        return RestAnswer(response.status, json.loads(text) if text else None)

    def get(self, *parts: str, **query: str) -> Any:
        """Return the JSON of a GET that succeeds."""
        answer = self.call("GET", self.prefix, *parts, query=query)
        assert answer.status == 200, answer
        return answer.body

    def post(self, *parts: str, body: object) -> Any:
        """Return the JSON of a POST that succeeds."""
        answer = self.call("POST", self.prefix, *parts, body=body)
        assert answer.status == 200, answer
        return answer.body

    def delete(self, *parts: str) -> None:
        """Send a DELETE that succeeds."""
        answer = self.call("DELETE", self.prefix, *parts)
        assert answer.status == 200, answer

    def create_table(self, database: str, name: str, *, partitioned: bool = False, **options: str) -> None:
        """Create a table with the columns `dt` and `id`."""
        schema = {
            "fields": [{"id": 0, "name": "dt", "type": "STRING"}, {"id": 1, "name": "id", "type": "BIGINT"}],
            "partitionKeys": ["dt"] if partitioned else [],
            "primaryKeys": [],
            "options": {"metastore.partitioned-table": "true", **options} if partitioned else options,
            "comment": None,
        }
        body = {"identifier": {"database": database, "object": name}, "schema": schema}
        self.post("databases", database, "tables", body=body)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MetastoreUnderTest]:
    """Run a server with an HTTP port."""
    directory = tmp_path_factory.mktemp("paimon_rest")
    with metastore_under_test(f"sqlite:///{directory / 'metastore.db'}", directory, "--http-port", "0") as running:
        yield running


@pytest.fixture(scope="module")
def rest(server: MetastoreUnderTest) -> RestClient:
    """Return a client of the HTTP port."""
    return RestClient(server.http_port)


@pytest.fixture(scope="module")
def lake(server: MetastoreUnderTest, rest: RestClient) -> RestClient:
    """Return a client of another catalog of the metastore, `lake`, which is empty."""
    with plain_client(server.port) as client:
        location = f"file:{server.warehouse.parent / 'lake'}"
        client.create_catalog(ttypes.CreateCatalogRequest(ttypes.Catalog(name="lake", locationUri=location)))
        client.drop_database("@lake#default", deleteData=True, cascade=False)
    return replace(rest, prefix="lake")


@pytest.fixture(scope="module")
def hive(server: MetastoreUnderTest) -> Iterator[HiveCatalog]:
    """Open interbed's Hive catalog over Thrift."""
    with HiveCatalog("hive", CatalogOptions({"metastore": "hive", "uri": server.uri})) as catalog:
        yield catalog


@pytest.fixture
def database(hive: HiveCatalog) -> str:
    """Return the name of an empty database."""
    name = f"db_{next(_numbers)}"
    hive.create_database(name)
    return name
