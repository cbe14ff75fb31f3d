"""Tables with row filters and column masks, read by a catalog over Hive's interface: they are applied, or refused."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import interbed
from interbed.catalog.client.api import Catalog
from interbed.catalog.client.hive.client import HiveMetastoreClient
from interbed.storage.base.errors import NotSupportedError
from interbed.storage.table.guarded_table import GuardedTable
from tests.catalog.server.migration.commands import run
from tests.support.servers.metastore import MetastoreUnderTest, metastore_under_test
from tests.support.waits import wait_until

REFUSED = "has row filters or column masks for you"


class _Server:
    """A server that decides by grants, and the catalogs of its users."""

    def __init__(self, server: MetastoreUnderTest, tokens: dict[str, str]) -> None:
        self._server = server
        self._tokens = tokens
        self.warehouse = server.warehouse

    def catalog(self, user: str, kind: str = "hive") -> Catalog:
        """Open a catalog of a user."""
        if kind == "rest":
            options = {"uri": f"{self._server.http}/paimon", "warehouse": "hive", "token.provider": "bear"}
        else:
            options = {
                "uri": self._server.uri,
                "hive.metastore.client.auth.mode": "PLAIN",
                "hive.metastore.client.plain.username": user,
            }
        return interbed.load_catalog("lake", metastore=kind, token=self._tokens[user], **options)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[_Server]:
    """Run a server with the table `sales.lake`, of which `ann` sees some rows and masked phones."""
    directory: Path = tmp_path_factory.mktemp("bound")
    db = f"sqlite:///{directory / 'metastore.db'}"
    arguments = ("--http-port", "0", "--authentication", "token")
    builtin = ("--access-authorizer", "builtin", "--access-admins", "root")
    with metastore_under_test(db, directory, *arguments, *builtin) as running:
        tokens = {name: run("token", "create", name, "--db", db).strip() for name in ("root", "ann")}
        made = _Server(running, tokens)
        with made.catalog("root") as catalog:
            catalog.create_database("sales")
            table = catalog.create_table(
                "sales.lake", pa.schema((pa.field("id", pa.int32()), pa.field("phone", pa.string())))
            )
            table.append([{"id": 1, "phone": "11"}, {"id": 2, "phone": "22"}])
            catalog.grant("ALL", on="database sales", to="user ann")
        with made.catalog("root", "rest") as catalog:
            catalog.set_row_filter("sales.lake", "id > 1", to=["user ann"])
            catalog.set_column_mask("sales.lake", "phone", "'***'", to=["user ann"])
        yield made


def test_a_bound_reader_sees_shown_rows_and_values(server: _Server) -> None:
    shown = [{"id": 2, "phone": "***"}]
    with server.catalog("ann") as catalog:
        table: object = catalog.get_table("sales.lake")
        assert isinstance(table, GuardedTable)
        assert table.to_arrow().to_pylist() == shown
        assert table.scan(filter="phone = '22'").count() == 0
        with pytest.raises(NotSupportedError, match=REFUSED):
            catalog.get_table("sales.lake$files")
        with pytest.raises(NotSupportedError, match=REFUSED):
            _ = table.new_scan
    with server.catalog("root") as catalog:
        assert catalog.get_table("sales.lake").count() == 2


def test_a_policy_is_in_force_at_the_next_scan(server: _Server) -> None:
    with server.catalog("ann") as catalog, server.catalog("root", "rest") as root:
        table = catalog.get_table("sales.lake")
        root.set_row_filter("sales.lake", "id > 9", to=["user ann"], name="more")
        wait_until(lambda: table.to_arrow().num_rows == 0)
        root.drop_policy("sales.lake", "more")
        wait_until(lambda: table.to_arrow().num_rows == 1)


def test_policies_are_no_parameters_of_a_table_that_a_bound_reader_changes(server: _Server) -> None:
    with server.catalog("ann") as ann, server.catalog("root") as root:
        of_ann, of_root = (_client(each) for each in (ann, root))
        entry = of_ann.get_table("sales", "lake")
        assert "interbed.reader-policies" in entry.parameters
        entry.parameters["note"] = "changed"
        of_ann.alter_table("sales", "lake", entry)
        stored = of_root.get_table("sales", "lake").parameters
        assert stored["note"] == "changed"
        assert "interbed.reader-policies" not in stored


def test_format_tables_of_a_bound_reader_are_refused(server: _Server) -> None:
    with server.catalog("root") as catalog:
        options = {"type": "format-table", "file.format": "csv"}
        catalog.create_table("sales.files", pa.schema((pa.field("id", pa.int32()),)), options=options)
    with server.catalog("root", "rest") as root:
        root.set_row_filter("sales.files", "id > 1", to=["user ann"])
    for kind in ("hive", "rest"):
        with server.catalog("ann", kind) as catalog, pytest.raises(NotSupportedError, match=REFUSED):
            catalog.get_table("sales.files")


def test_policies_are_set_by_rest(server: _Server) -> None:
    with (
        server.catalog("root") as catalog,
        pytest.raises(NotSupportedError, match="use a catalog with 'metastore' = 'rest'"),
    ):
        catalog.set_row_filter("sales.lake", "id > 1")


def _client(catalog: Catalog) -> HiveMetastoreClient:
    found = getattr(catalog, "client", None)
    assert isinstance(found, HiveMetastoreClient)
    return found
