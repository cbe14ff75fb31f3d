"""Server with Iceberg's REST interface, and a plain HTTP client for it."""

import http.client
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from interbed.catalog.server.service.tables.pointers import FILE_BYTES_MAX
from tests.support.servers.metastore import MetastoreUnderTest, metastore_under_test
from tests.support.waits import at_most

SCHEMA: dict[str, Any] = {
    "type": "struct",
    "schema-id": 0,
    "fields": [
        {"id": 1, "name": "id", "required": True, "type": "long"},
        {"id": 2, "name": "data", "required": False, "type": "string"},
    ],
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RestAnswer:
    """Response of the server."""

    status: int
    body: Any
    headers: Mapping[str, str]

    def expect(self, status: int) -> Any:
        """Return the body of a response with this status."""
        assert self.status == status, (self.status, self.body)
        return self.body

    def error(self, status: int, kind: str) -> str:
        """Return the message of an error with this status and type."""
        error = self.expect(status)["error"]
        assert (error["code"], error["type"]) == (status, kind), error
        return str(error["message"])


@dataclass(frozen=True, slots=True, kw_only=True)
class IcebergRest:
    """Running server, with the port of REST."""

    metastore: MetastoreUnderTest
    port: int

    @property
    def uri(self) -> str:
        """Address of the interface for clients."""
        return f"http://127.0.0.1:{self.port}/iceberg"

    def call(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> RestAnswer:
        """Return the response for a path below the prefix of the default catalog."""
        return self.call_at(method, f"v1/hive/{path}", body, headers)

    def call_at(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> RestAnswer:
        """Return the response for a path below the interface."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=at_most(30))
        try:
            content = None if body is None else json.dumps(body)
            connection.request(method, f"/iceberg/{path}", content, dict(headers or {}))
            response = connection.getresponse()
            read = response.read()
            found = json.loads(read) if read else None
            named = {name.lower(): value for name, value in response.getheaders()}
            return RestAnswer(status=response.status, body=found, headers=named)
        finally:
            connection.close()

    def create(self, namespace: str, name: str, **fields: Any) -> Any:
        """Create a table with the columns `id` and `data`, and return the response."""
        return self.call("POST", f"namespaces/{namespace}/tables", {"name": name, "schema": SCHEMA, **fields}).expect(
            200
        )

    def commit(self, namespace: str, name: str, requirements: list[Any], updates: list[Any]) -> RestAnswer:
        """Commit updates of a table."""
        body = {"requirements": requirements, "updates": updates}
        return self.call("POST", f"namespaces/{namespace}/tables/{name}", body)


def set_properties(**properties: str) -> dict[str, Any]:
    """Return the update that sets properties."""
    return {"action": "set-properties", "updates": properties}


def view_version(sql: str = "SELECT 1", dialect: str = "spark", namespace: str = "ns") -> dict[str, Any]:
    """Return the first version of a view, with a query in one dialect."""
    return {
        "version-id": 1,
        "schema-id": 0,
        "timestamp-ms": 1_700_000_000_000,
        "summary": {"engine-name": "test"},
        "default-namespace": [namespace],
        "representations": [{"type": "sql", "sql": sql, "dialect": dialect}],
    }


def new_view(name: str, sql: str = "SELECT 1") -> dict[str, Any]:
    """Return the body of the request that creates a view."""
    return {"name": name, "schema": SCHEMA, "view-version": view_version(sql), "properties": {"a": "1"}}


def endless_files(directory: Path, suffix: str) -> dict[Path, int]:
    """Create files that no reader can read whole, and return their sizes: a pipe, which blocks, and a sparse file."""
    pipe, sparse = directory / f"00000-pipe{suffix}", directory / f"00000-sparse{suffix}"
    os.mkfifo(pipe)
    with sparse.open("wb") as file:
        file.truncate(FILE_BYTES_MAX + 1)
    return {pipe: 0, sparse: FILE_BYTES_MAX + 1}


def new_table_updates(location: str) -> list[dict[str, Any]]:
    """Return the updates that create a table with the columns `id` and `data`."""
    return [
        {"action": "upgrade-format-version", "format-version": 2},
        {"action": "add-schema", "schema": SCHEMA},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "add-spec", "spec": {"spec-id": 0, "fields": []}},
        {"action": "set-default-spec", "spec-id": -1},
        {"action": "add-sort-order", "sort-order": {"order-id": 0, "fields": []}},
        {"action": "set-default-sort-order", "sort-order-id": -1},
        {"action": "set-location", "location": location},
    ]


@contextmanager
def rest_server(db: str, directory: Path, *arguments: str) -> Iterator[IcebergRest]:
    """Run a server with REST on this database, with its warehouse and log in the directory."""
    with metastore_under_test(db, directory, "--http-port", "0", *arguments) as running:
        yield IcebergRest(metastore=running, port=running.http_port)
