"""Catalog server that alone has the credentials of a store; its clients have tokens of the server."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from interbed.catalog.server.process.embedded import start_server, stop_server
from tests.catalog.server.migration.commands import run


@dataclass(frozen=True, kw_only=True)
class KeyedServer:
    """The address of the REST catalogs, and the token of each user."""

    http: str
    tokens: dict[str, str]


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
        server = start_server(db, warehouse, *ports, *flags, log=directory / "server.log")
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
