"""A server that decides by grants, with users of each role, a table of theirs and one for the administrator only."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import interbed
from tests.catalog.server.migration.commands import run
from tests.support.servers.metastore import MetastoreUnderTest, metastore_under_test
from tests.support.waits import wait_until

ADMIN, OWNER, WRITER, READER, NOBODY = "root", "olga", "will", "rita", "ned"
USERS = (ADMIN, OWNER, WRITER, READER, NOBODY)
ROWS = pa.table(
    {
        "id": pa.array([1, 2, 3, 4], pa.int64()),
        "city": ["Bonn", "Ulm", "Bonn", None],
        "phone": ["11", "22", "33", "44"],
    }
)


@dataclass(frozen=True)
class GrantedPeers:
    """A server with the tables `sales.orders` of the owner, for all, and `sales.salaries` of the administrator."""

    server: MetastoreUnderTest
    tokens: dict[str, str]

    def options(self, user: str) -> dict[str, Any]:
        """Return the options of interbed's REST catalog of a user."""
        rest = {"metastore": "rest", "uri": f"{self.server.http}/paimon", "warehouse": "hive", "token.provider": "bear"}
        return {**rest, "token": self.tokens[user]}

    def paimon(self, user: str) -> str:
        """Return the address of the REST catalog of a user, for the peers of Java and Python."""
        return f"{self.server.http}/paimon#hive#{self.tokens[user]}"

    def run(self, *arguments: str) -> str:
        """Run a command on the server's database."""
        return run(*arguments, "--db", self.server.db)


@pytest.fixture(scope="module")
def granted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GrantedPeers]:
    """Run the server of the tests."""
    directory: Path = tmp_path_factory.mktemp("granted")
    db = f"sqlite:///{directory / 'metastore.db'}"
    arguments = (
        *("--http-port", "0", "--authentication", "token"),
        *("--access-authorizer", "builtin", "--access-admins", ADMIN),
    )
    with metastore_under_test(db, directory, *arguments) as server, ExitStack() as stack:
        tokens = {user: run("token", "create", user, "--db", db).strip() for user in USERS}
        made = GrantedPeers(server, tokens)
        root = stack.enter_context(interbed.load_catalog("lake", **made.options(ADMIN)))
        root.create_database("sales")
        root.create_database("hidden")
        for name in ("sales.salaries", "hidden.plans"):
            root.create_table(name, ROWS.schema).append(ROWS)
        root.grant(["USAGE", "CREATE"], on="database sales", to=f"user {OWNER}")
        olga = stack.enter_context(interbed.load_catalog("lake", **made.options(OWNER)))
        wait_until(lambda: "sales" in olga.list_databases())
        olga.create_table("sales.orders", ROWS.schema, options={"bucket": "-1"}).append(ROWS)
        olga.grant("SELECT", on="table sales.orders", to=f"user {READER}")
        olga.grant(["SELECT", "INSERT", "UPDATE", "DELETE"], on="table sales.orders", to=f"user {WRITER}")
        for user in (WRITER, READER):
            catalog = stack.enter_context(interbed.load_catalog("lake", **made.options(user)))
            wait_until(lambda catalog=catalog: "sales" in catalog.list_databases())  # type: ignore[misc]
        yield made
