"""Roles and grants in catalogs by Thrift and by REST, on a server that decides by them."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import interbed
from interbed.catalog.client.errors import CatalogError
from interbed.catalog.client.grants import GrantHolder, GrantObject
from interbed.storage.base.errors import InterbedError, InvalidInputError, NotSupportedError
from interbed.storage.meta.schema.change import RenameColumn
from tests.catalog.server.migration.commands import run
from tests.support.servers.metastore import MetastoreUnderTest, metastore_under_test
from tests.support.waits import wait_until

KEY: "pa.Field[Any]" = pa.field("id", pa.int64(), nullable=False)
USERS = ("root", "ann", "bea")


@dataclass(frozen=True)
class GrantedLake:
    """A server with the table `sales.orders` of `root`, an administrator, and catalogs of users on it."""

    kind: str
    server: MetastoreUnderTest
    tokens: dict[str, str]
    stack: ExitStack
    catalogs: dict[str, interbed.Catalog] = field(default_factory=dict)

    def of(self, user: str) -> interbed.Catalog:
        """Return the catalog of a user."""
        if user not in self.catalogs:
            options = {"metastore": self.kind, "token": self.tokens[user]}
            if self.kind == "hive":
                options["uri"] = self.server.uri
                options["hive.metastore.client.auth.mode"] = "PLAIN"
                options["hive.metastore.client.plain.username"] = user
            else:
                options["uri"] = f"{self.server.http}/paimon"
                options |= {"warehouse": "hive", "token.provider": "bear"}
            self.catalogs[user] = self.stack.enter_context(interbed.load_catalog("lake", **options))
        return self.catalogs[user]

    def reads(self, user: str) -> bool:
        """Return whether a user sees the table."""
        return "orders" in self.of(user).list_tables("sales") if "sales" in self.of(user).list_databases() else False


@pytest.fixture(scope="module", params=["hive", "rest"])
def lake(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GrantedLake]:
    """Run a server that decides by grants."""
    directory = tmp_path_factory.mktemp("grants")
    db = f"sqlite:///{directory / 'metastore.db'}"
    arguments = ("--http-port", "0", "--authentication", "token")
    builtin = ("--access-authorizer", "builtin", "--access-admins", "root")
    with metastore_under_test(db, directory, *arguments, *builtin) as server, ExitStack() as stack:
        tokens = {name: run("token", "create", name, "--db", db).strip() for name in USERS}
        made = GrantedLake(request.param, server, tokens, stack)
        made.of("root").create_database("sales")
        made.of("root").create_table("sales.orders", pa.schema([KEY]), primary_keys=["id"])
        yield made


def shown(found: list[interbed.AccessGrant]) -> list[tuple[str, str, str, bool, str | None]]:
    """Return the parts of grants."""
    return [(each.privilege, str(each.on), str(each.to), each.grant_option, each.grantor) for each in found]


def test_roles_give_their_members_what_they_are_granted(lake: GrantedLake) -> None:
    root, ann = lake.of("root"), lake.of("ann")
    root.create_role("readers")
    root.create_role("lake_users")
    assert root.list_roles() == ["admin", "lake_users", "public", "readers"]
    root.grant_role("readers", to="role lake_users")
    root.grant_role("lake_users", to="user ann", admin_option=True)
    assert ann.current_roles() == ["lake_users", "public", "readers"]
    assert ann.list_roles() == ["lake_users", "public", "readers"]
    [member] = ann.list_role_members("lake_users")
    assert (member.member, member.admin_option, member.grantor) == (GrantHolder(kind="user", name="ann"), True, "root")
    assert not lake.reads("ann")
    root.grant("select", on="table Sales.orders", to="role readers")
    # Answers from before may be used for half a second.
    wait_until(lambda: lake.reads("ann"))
    ann.grant_role("lake_users", to="user bea")
    wait_until(lambda: lake.reads("bea"))
    ann.revoke_role("lake_users", of="user bea")
    root.revoke_role("lake_users", of="user ann", admin_option_only=True)
    with pytest.raises(CatalogError, match="may not see or change"):
        ann.list_role_members("lake_users")
    root.drop_role("lake_users")
    root.drop_role("readers")
    assert root.list_roles() == ["admin", "public"]
    with pytest.raises(InterbedError, match="does not exist"):
        root.drop_role("readers")
    with pytest.raises(CatalogError, match="may not create the role"):
        ann.create_role("mine")


def test_privileges_are_granted_listed_and_revoked(lake: GrantedLake) -> None:
    root, ann = lake.of("root"), lake.of("ann")
    root.grant(["SELECT", "INSERT"], on="table sales.orders", to="user ann", grant_option=True)
    ann.grant("SELECT", on=GrantObject(kind="table", database="sales", name="orders"), to="user bea")
    root.grant("ALL", on="database sales", to="group etl")
    root.grant("USAGE", on="server", to="role public")
    orders = "table hive.sales.orders"
    assert shown(root.list_grants(on="table sales.orders")) == [
        ("SELECT", orders, "user ann", True, "root"),
        ("INSERT", orders, "user ann", True, "root"),
        ("SELECT", orders, "user bea", False, "ann"),
    ]
    assert shown(root.list_grants(on="database sales")) == [("ALL", "database hive.sales", "group etl", False, "root")]
    assert shown(root.list_grants(to="role public")) == [("USAGE", "server", "role public", False, "root")]
    assert [str(each.to) for each in lake.of("bea").list_grants()] == ["user bea", "role public"]
    root.revoke("insert", on="table sales.orders", of="user ann", grant_option_only=True)
    assert shown(root.list_grants(on="table sales.orders", to="user ann")) == [
        ("SELECT", orders, "user ann", True, "root"),
        ("INSERT", orders, "user ann", False, "root"),
    ]
    if lake.kind == "rest":
        root.revoke("SELECT", on="table sales.orders", of="user ann", cascade=True)
        assert root.list_grants(to="user bea") == []
    else:
        with pytest.raises(NotSupportedError, match="CASCADE"):
            root.revoke("SELECT", on="table sales.orders", of="user ann", cascade=True)
        root.revoke("SELECT", on="table sales.orders", of="user ann")
        root.revoke("SELECT", on="table sales.orders", of="user bea")
    root.revoke("INSERT", on="table sales.orders", of="user ann")
    root.revoke("ALL", on="database sales", of="group etl")
    root.revoke("USAGE", on="server", of="role public")
    assert root.list_grants() == []


def test_refusals_name_what_is_wrong(lake: GrantedLake) -> None:
    root, ann = lake.of("root"), lake.of("ann")
    orders = "table sales.orders"
    for privilege, on, to, message in (
        ("READ", orders, "user ann", "READ.* is no privilege"),
        ("SELECT", "orders", "user ann", "not an object of privileges"),
        ("SELECT", "table a.b.c", "user ann", "not an object of privileges"),
        ("SELECT", orders, "ann", "not a grantee"),
        ("SELECT", orders, "role none", "role none does not exist"),
        ("SELECT", "table sales.none", "user ann", "does not exist"),
    ):
        with pytest.raises(InterbedError, match=message):
            root.grant(privilege, on=on, to=to)
    with pytest.raises(InterbedError, match=r"does not exist|may not grant"):
        ann.grant("SELECT", on=orders, to="user bea")
    with pytest.raises(InterbedError, match="no grant"):
        root.revoke("SELECT", on=orders, of="user ann")
    if lake.kind == "hive":
        with pytest.raises(NotSupportedError, match="privileges on a function"):
            root.grant("SELECT", on="function sales.f", to="user ann")
    else:
        root.grant("SELECT", on="catalog", to="user ann")
        assert shown(root.list_grants()) == [("SELECT", "catalog hive", "user ann", False, "root")]
        root.revoke("SELECT", on="catalog", of="user ann")


def test_a_catalog_without_grants_says_so(tmp_path: Path) -> None:
    with interbed.load_catalog(warehouse=str(tmp_path)) as files, pytest.raises(NotSupportedError, match="metastore"):
        files.list_grants()
    with metastore_under_test(f"sqlite:///{tmp_path / 'm.db'}", tmp_path, "--http-port", "0") as server:
        rest = {"metastore": "rest", "uri": f"{server.http}/paimon", "warehouse": "hive"}
        with interbed.load_catalog("lake", **rest, token="any", **{"token.provider": "bear"}) as opened:
            with pytest.raises(NotSupportedError, match="access_authorizer = builtin"):
                opened.list_roles()
            with pytest.raises(NotSupportedError, match="keeps no roles"):
                opened.grant("SELECT", on="server", to="user ann")
        with interbed.load_catalog("lake", metastore="hive", uri=server.uri) as opened:
            with pytest.raises(CatalogError, match="roles are not kept"):
                opened.create_role("readers")
            with pytest.raises(CatalogError, match="refused to grant SELECT"):
                opened.grant("SELECT", on="server", to="user ann")


@pytest.mark.parametrize("text", ["", "user", "team a", "user "])
def test_texts_that_name_no_grantee_are_refused(text: str) -> None:
    with pytest.raises(InvalidInputError, match="not a grantee"):
        GrantHolder.parse(text)


def test_privileges_on_columns_are_granted_listed_and_revoked(lake: GrantedLake) -> None:
    root = lake.of("root")
    root.create_table("sales.wide", pa.schema([KEY, pa.field("city", pa.string())]), primary_keys=["id"])
    root.grant("SELECT", on="table sales.wide", columns=["id", "city"], to="user ann")
    of_columns = [("SELECT", f"column hive.sales.wide.{name}", "user ann", False, "root") for name in ("id", "city")]
    assert shown(root.list_grants(to="user ann")) == of_columns
    assert shown(root.list_grants(on="column sales.wide.city")) == of_columns[1:]
    root.revoke("SELECT", on="table sales.wide", columns=["id"], of="user ann")
    root.alter_table("sales.wide", [RenameColumn("city", "town")])
    [left] = root.list_grants(to="user ann")
    assert left.on == GrantObject(kind="column", catalog="hive", database="sales", name="wide", column="town")
    root.revoke("SELECT", on=left.on, of="user ann")
    assert root.list_grants(to="user ann") == []
    for on, columns, message in (
        ("database sales", ["id"], "has no columns"),
        ("table sales.wide", [], "has no columns"),
        ("column sales.wide", None, "is not an object of privileges"),
        ("table sales.wide", ["size"], "size.* does not exist"),
    ):
        with pytest.raises(InterbedError, match=message):
            root.grant("SELECT", on=on, columns=columns, to="user ann")
    root.drop_table("sales.wide")
