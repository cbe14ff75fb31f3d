"""Servers with a console for the tests of it."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from interbed.catalog.server.database.session import SqlRepository
from interbed.catalog.server.service.service import Metastore
from tests.catalog.server.console.browser import ConsoleBrowser
from tests.catalog.server.migration.commands import run_json
from tests.support.servers.metastore import MetastoreUnderTest, metastore_under_test

GUARDED = ("--authentication", "token", "--access-authorizer", "builtin", "--access-admins", "root")
"""Options of a server that decides by grants, with the administrator `root`."""


@dataclass(frozen=True)
class ConsoleServer:
    """A running server with a console."""

    server: MetastoreUnderTest

    def browser(self) -> ConsoleBrowser:
        """Return a browser without cookies."""
        return ConsoleBrowser("127.0.0.1", self.server.http_port)

    def token(self, principal: str, *options: str) -> dict[str, str]:
        """Issue a token, and return it with its id."""
        found: dict[str, str] = run_json("token", "create", principal, *options, "--db", self.server.db)
        return found

    def logged_in(self, principal: str) -> ConsoleBrowser:
        """Return a browser with a session of a new token of a principal."""
        browser = self.browser()
        answer = browser.log_in(self.token(principal)["token"])
        assert answer.status == 303, answer.body
        return browser

    @contextmanager
    def metastore(self, undrop_seconds: float = 0.0) -> Iterator[Metastore]:
        """Yield the services of the server's database, for a caller that may do everything."""
        store = SqlRepository(self.server.db)
        try:
            yield Metastore(store, f"file:{self.server.warehouse}", undrop_seconds=undrop_seconds)
        finally:
            store.close()


@contextmanager
def console_server(directory: Path, *arguments: str) -> Iterator[ConsoleServer]:
    """Run a server with a console on a database in a directory."""
    directory.mkdir(exist_ok=True)
    db = f"sqlite:///{directory / 'metastore.db'}"
    with metastore_under_test(db, directory, "--http-port", "0", *arguments) as server:
        yield ConsoleServer(server)
