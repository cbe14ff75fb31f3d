"""Catalog server that alone has the credentials of a store; its clients have tokens of the server."""

import json
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from interbed.catalog.server.process.command import stop_server
from tests.catalog.server.migration.commands import run
from tests.support.servers.metastore import started_server
from tests.support.waits import at_most


@dataclass(frozen=True, kw_only=True)
class KeyedServer:
    """The address of the REST catalogs, and the token of each user. Requests are those of `ann`."""

    http: str
    tokens: dict[str, str]

    @property
    def token(self) -> str:
        """The token of `ann`."""
        return self.tokens["ann"]

    def ask(self, path: str, **headers: str) -> Any:
        """Return the JSON of a response."""
        given = {"Authorization": f"Bearer {self.token}", **headers}
        request = urllib.request.Request(self.http + path, headers=given)
        with urllib.request.urlopen(request, timeout=at_most(60)) as response:
            return json.load(response)

    @property
    def options(self) -> dict[str, str]:
        """The options of interbed's catalog, which has no credentials of the store."""
        return {
            "metastore": "rest",
            "uri": f"{self.http}/paimon",
            "warehouse": "hive",
            "token.provider": "bear",
            "token": self.token,
            "data-token.enabled": "true",
        }


@contextmanager
def keyed_server(
    directory: Path, warehouse: str, environment: Mapping[str, str], *flags: str, users: Sequence[str] = ("ann",)
) -> Iterator[KeyedServer]:
    """Run a server whose environment has the credentials, on SQLite in a directory, with its log `server.log`."""
    db = f"sqlite:///{directory / 'metastore.db'}"
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        ports = ("--http-port", "0", "--authentication", "token")
        server = started_server(db, warehouse, *ports, *flags, log=directory / "server.log")
        try:
            assert server.http is not None
            tokens = {user: run("token", "create", user, "--db", db).strip() for user in users}
            for name in environment:
                # From here on only the server has credentials.
                patch.delenv(name)
            patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
            yield KeyedServer(http=server.http, tokens=tokens)
        finally:
            stop_server(server)
