"""Requests to Iceberg's REST interface in this process, without a server."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from interbed.catalog.server.database.session import SqlRepository
from interbed.catalog.server.rest.iceberg.names import translated
from interbed.catalog.server.rest.iceberg.routes import interface
from interbed.catalog.server.rest.interface import RestError, RestRequest, RouteTable
from interbed.catalog.server.service.history.entries import ChangeOrigin, HistoryPolicy
from interbed.catalog.server.service.service import Metastore
from interbed.catalog.server.thrift.edge.call import ClientSession
from tests.support.databases import prepare


class LocalRequests:
    """Requests to the interface in this process; `settle` may be replaced to lose answers."""

    def __init__(self, directory: Path) -> None:
        self._operation: str | None = None
        history = HistoryPolicy(origin=lambda: ChangeOrigin(interface="iceberg", operation=self._operation))
        prepare(f"sqlite:///{directory / 'metastore.db'}")
        self.repository = SqlRepository(f"sqlite:///{directory / 'metastore.db'}", history=history)
        self.services = Metastore(self.repository, f"file:{directory / 'warehouse'}")
        self.services.databases.bootstrap()
        self.routes = RouteTable(interface(self.services).routes)

    def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        key: str | None = None,
        query: Mapping[str, str] | None = None,
    ) -> tuple[int, Any]:
        """Return the status and the body of a response."""
        found = self.routes.find(method, f"v1/hive/{path}")
        assert found is not None
        route, parts = found
        self._operation = route.operation
        request = RestRequest(
            parts=parts,
            query=query or {},
            headers={} if key is None else {"idempotency-key": key},
            body=b"" if body is None else json.dumps(body).encode(),
            session=ClientSession(peer="test"),
        )
        try:
            answer = route.handler(request)
        except Exception as error:  # noqa: BLE001 - The endpoint answers every error.
            refusal = error if isinstance(error, RestError) else translated(error)
            return (500, str(error)) if refusal is None else (int(refusal.status), str(refusal))
        return int(answer.status), json.loads(answer.body) if answer.body else None

    def state(self) -> dict[str, dict[str, Mapping[str, str]]]:
        """Return the properties of the tables, by namespace and name."""
        found: dict[str, dict[str, Mapping[str, str]]] = {}
        for [name] in self.send("GET", "namespaces")[1]["namespaces"]:
            tables = self.send("GET", f"namespaces/{name}/tables")[1]["identifiers"]
            found[name] = {
                each["name"]: self.send("GET", f"namespaces/{name}/tables/{each['name']}")[1]["metadata"]["properties"]
                for each in tables
            }
        return found


def copied(template: Path, directory: Path) -> LocalRequests:
    """Return requests to a copy of a migrated database."""
    (directory / "metastore.db").write_bytes(template.read_bytes())
    return LocalRequests(directory)
