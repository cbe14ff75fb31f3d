"""Java Paimon 1.4.2 and pypaimon 2.1 by REST, as users with different grants, and as readers with policies."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pyarrow as pa
import pytest

import interbed
from tests.peers.granted.conftest import ADMIN, NOBODY, OWNER, READER, ROWS, USERS, WRITER, GrantedPeers
from tests.support.peers.java import JavaPaimon
from tests.support.peers.process import PeerError
from tests.support.peers.pypaimon import PyPaimon
from tests.support.waits import at_most, wait_until

pytestmark = pytest.mark.long

NO_PERMISSION = "TableNoPermission"
MISSING = "NotExist"


class PaimonClient:
    """A client of each kind, with the commands that the tests use."""

    def __init__(self, peer: JavaPaimon | PyPaimon, granted: GrantedPeers) -> None:
        self.peer = peer
        self.granted = granted

    def table(self, user: str, name: str = "sales.orders") -> Any:
        """Return a table for a user."""
        return self.peer.table(self.granted.paimon(user), name)

    def names(self, user: str, database: str | None = None) -> list[str]:
        """Return the names of databases, or of the tables of one."""
        warehouse = self.granted.paimon(user)
        if isinstance(self.peer, JavaPaimon):
            return sorted(self.peer.call("list", warehouse=warehouse, **({"database": database} if database else {})))
        method, arguments = ("list_databases", []) if database is None else ("list_tables", [database])
        return sorted(self.peer.call("catalog_call", warehouse=warehouse, method=method, arguments=arguments))

    def rows(self, user: str, name: str = "sales.orders") -> list[dict[str, Any]]:
        """Return the rows that a user reads, by id."""
        table = self.table(user, name)
        read: pa.Table = table.read().to_arrow() if isinstance(self.peer, JavaPaimon) else table.read_arrow()
        return sorted(read.to_pylist(), key=lambda row: row["id"])

    def write(self, user: str, row: list[Any]) -> None:
        """Append a row for a user, with nulls for columns that were added."""
        columns = len(self.rows(ADMIN)[0])
        self.table(user).write([[*row, *[None] * (columns - len(row))]])

    def add_column(self, user: str, name: str) -> None:
        """Add a column for a user."""
        if isinstance(self.peer, JavaPaimon):
            self.table(user).alter({"op": "add", "path": [name], "type": "INT"})
        else:
            changes = [["add_column", name, "INT"]]
            self.peer.call("alter", warehouse=self.granted.paimon(user), table="sales.orders", changes=changes)

    def drop(self, user: str) -> None:
        """Drop the table for a user."""
        if isinstance(self.peer, JavaPaimon):
            self.table(user).drop()
        else:
            arguments = ["sales.orders", False]
            self.peer.call(
                "catalog_call", warehouse=self.granted.paimon(user), method="drop_table", arguments=arguments
            )


@pytest.fixture(scope="module", params=["java", "pypaimon"])
def client(request: pytest.FixtureRequest, granted: GrantedPeers) -> Iterator[PaimonClient]:
    """Run a peer on the server."""
    seconds = at_most(240)
    with JavaPaimon(seconds) if request.param == "java" else PyPaimon(seconds) as peer:
        yield PaimonClient(peer, granted)


def refused(action: Callable[[], object], kind: str, text: str) -> None:
    """Check that an action fails with an error of this class and text, which names nothing hidden."""
    with pytest.raises(PeerError) as error:
        action()
    assert kind in error.value.kind, str(error.value)
    assert text in str(error.value)
    assert "salaries" not in str(error.value)


def test_a_client_lists_what_its_user_sees(client: PaimonClient) -> None:
    assert client.names(ADMIN, "sales") == ["orders", "salaries"]
    for user in (OWNER, WRITER, READER):
        assert client.names(user, "sales") == ["orders"]
        assert "hidden" not in client.names(user)
    assert not {"sales", "hidden"} & set(client.names(NOBODY))


def test_what_a_user_does_not_see_does_not_exist(client: PaimonClient) -> None:
    for user in (OWNER, WRITER, READER, NOBODY):
        with pytest.raises(PeerError) as error:
            client.rows(user, "sales.salaries")
        assert MISSING in error.value.kind
    refused(lambda: client.rows(NOBODY), MISSING, "sales.orders")


def test_readers_and_writers_read(client: PaimonClient) -> None:
    for user in (ADMIN, OWNER, WRITER, READER):
        assert [row["id"] for row in client.rows(user)][:4] == [1, 2, 3, 4]


def test_only_those_that_may_write_and_alter(client: PaimonClient) -> None:
    before = client.rows(ADMIN)
    # Both clients repeat a commit that is refused, and report that it failed.
    refused(lambda: client.write(READER, [90, "x", "y"]), "Runtime", "Commit failed")
    assert client.rows(ADMIN) == before
    client.write(WRITER, [91, "x", "y"])
    client.write(OWNER, [92, "x", "y"])
    added = Counter(row["id"] for row in client.rows(ADMIN)) - Counter(row["id"] for row in before)
    assert added == {91: 1, 92: 1}
    for user in (READER, WRITER):
        refused(lambda user=user: client.add_column(user, "size"), NO_PERMISSION, "sales.orders")  # type: ignore[misc]
        refused(lambda user=user: client.drop(user), NO_PERMISSION, "sales.orders")  # type: ignore[misc]
    name = f"size_{type(client.peer).__name__.lower()}"
    client.add_column(OWNER, name)
    with interbed.load_catalog("lake", **client.granted.options(OWNER)) as catalog:
        assert name in catalog.get_table("sales.orders").field_names


def test_a_reader_gets_the_rows_and_values_of_the_policies(client: PaimonClient) -> None:
    granted = client.granted
    granted.run("policy", "set-filter", "sales.orders", "city = 'Bonn'", "--to", f"user {READER}")
    granted.run("policy", "set-mask", "sales.orders", "phone", "CONCAT('*', city)", "--to", f"user {READER}")
    with ExitStack() as stack:
        catalogs = {
            user: stack.enter_context(interbed.load_catalog("lake", **granted.options(user))) for user in USERS[:-1]
        }

        def own(user: str) -> list[dict[str, Any]]:
            found = catalogs[user].get_table("sales.orders").scan().to_arrow().to_pylist()
            return sorted(found, key=lambda row: row["id"])

        try:
            wait_until(lambda: len(own(READER)) == 2)
            assert [row["phone"] for row in own(READER)] == ["*Bonn", "*Bonn"]
            assert client.rows(READER) == own(READER)
            for user in (OWNER, WRITER):
                assert client.rows(user) == own(user)
                assert len(own(user)) > ROWS.num_rows - 1
        finally:
            granted.run("policy", "drop", "sales.orders", "filter")
            granted.run("policy", "drop", "sales.orders", "mask-phone")
            wait_until(lambda: len(own(READER)) > 2)
