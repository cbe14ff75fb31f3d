"""A server that decides by grants, with a table that has policies, and requests of rows over HTTP."""

import http.client
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa

import interbed
from interbed.catalog.client.api import Catalog
from tests.catalog.server.migration.commands import run
from tests.support.servers.metastore import MetastoreUnderTest, metastore_under_test
from tests.support.waits import at_most

ROWS = pa.table(
    {
        "id": pa.array([1, 2, 3, 4, 5, 6], pa.int64()),
        "city": ["Bonn", "Köln", "Bonn", None, "Ulm", "Bonn"],
        "phone": ["11", "22", "33", "44", None, "66"],
    }
)
SHOWN = [
    {"id": 3, "city": "Bonn", "phone": "*Bonn"},
    {"id": 5, "city": "Ulm", "phone": "*Ulm"},
    {"id": 6, "city": "Bonn", "phone": "*Bonn"},
]
END_OF_STREAM = b"\xff\xff\xff\xff\0\0\0\0"
USERS = ("root", "ann", "bea", "clerk", "eve")
"""An administrator, a reader with a filter and a mask, one without, one of some columns, and one without privileges."""


@dataclass(frozen=True, slots=True)
class RowsAnswer:
    """A response to a request of rows."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def table(self) -> pa.Table:
        """The rows of a complete stream."""
        assert self.status == 200, self.body
        assert self.body.endswith(END_OF_STREAM)
        return pa.ipc.open_stream(self.body).read_all()

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The rows, in an order that does not depend on files."""
        return sorted(self.table.to_pylist(), key=lambda row: repr(row.get("id")))

    @property
    def error(self) -> dict[str, Any]:
        """The error of a refusal."""
        found: dict[str, Any] = json.loads(self.body)["error"]
        return found


@dataclass
class RowsServer:
    """A running server, the tokens of its users, and its files."""

    running: MetastoreUnderTest
    tokens: Mapping[str, str]
    directory: Path
    arguments: tuple[str, ...] = field(default=())

    def catalog(self, user: str, **options: str) -> Catalog:
        """Open the REST catalog of a user."""
        return interbed.load_catalog(
            "lake",
            metastore="rest",
            uri=f"{self.running.http}/paimon",
            warehouse="hive",
            token=self.tokens[user],
            **{"token.provider": "bear", **options},
        )

    def connect(self) -> http.client.HTTPConnection:
        """Open a connection to the HTTP port."""
        address = urlsplit(self.running.http or "")
        assert address.hostname is not None
        return http.client.HTTPConnection(address.hostname, address.port, timeout=at_most(60))

    def begin(
        self, user: str, body: Any = None, table: str = "lake", database: str = "sales"
    ) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        """Return the response to a request of rows, whose body is not read yet."""
        connection = self.connect()
        path = f"/interbed/v1/hive/databases/{database}/tables/{table}/rows"
        content = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        connection.request("POST", path, content, {"Authorization": f"Bearer {self.tokens[user]}"})
        return connection, connection.getresponse()

    def rows(self, user: str, body: Any = None, table: str = "lake", database: str = "sales") -> RowsAnswer:
        """Return the response to a request of rows."""
        connection, response = self.begin(user, body, table, database)
        try:
            headers = {name.lower(): value for name, value in response.getheaders()}
            return RowsAnswer(response.status, headers, response.read())
        finally:
            connection.close()

    def command(self, *arguments: str) -> str:
        """Run a command on the server's database."""
        return run(*arguments, "--db", self.running.db)

    def figure(self, name: str) -> float:
        """Return the sum of the metrics whose lines begin with a name."""
        found = re.search(r"health and metrics on http://([\d.]+:\d+)", (self.directory / "server.log").read_text())
        assert found is not None
        connection = http.client.HTTPConnection(found[1], timeout=at_most(30))
        try:
            connection.request("GET", "/metrics")
            lines = connection.getresponse().read().decode().splitlines()
        finally:
            connection.close()
        return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(name))

    @property
    def audit(self) -> list[dict[str, Any]]:
        """The lines of the audit log about rows."""
        lines = map(json.loads, (self.directory / "audit.log").read_text().splitlines())
        return [line for line in lines if line["method"] == "interbed.readRows"]


@contextmanager
def rows_server(directory: Path, *arguments: str) -> Iterator[RowsServer]:
    """Run a server with the table `sales.lake`, of which `ann` sees some rows and masked phones."""
    db = f"sqlite:///{directory / 'metastore.db'}"
    given = (
        *("--http-port", "0", "--authentication", "token", "--audit-log", str(directory / "audit.log")),
        *("--access-authorizer", "builtin", "--access-admins", "root", "--health-port", "0", *arguments),
    )
    with metastore_under_test(db, directory, *given) as running:
        tokens = {name: run("token", "create", name, "--db", db).strip() for name in USERS}
        made = RowsServer(running, tokens, directory, given)
        with made.catalog("root") as catalog:
            catalog.create_database("sales")
            table = catalog.create_table("sales.lake", ROWS.schema)
            table.append(ROWS.slice(0, 3))
            table.append(ROWS.slice(3))
            for user in ("ann", "bea"):
                catalog.grant("SELECT", on="table sales.lake", to=f"user {user}")
            catalog.grant("SELECT", on="table sales.lake", columns=["id", "city"], to="user clerk")
            catalog.set_row_filter("sales.lake", "id > 2 AND city IS NOT NULL", to=["user ann"])
            catalog.set_column_mask("sales.lake", "phone", "CONCAT('*', city)", to=["user ann"])
        yield made
