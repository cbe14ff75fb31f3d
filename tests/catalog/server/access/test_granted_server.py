"""A server that decides by grants: its commands, its calls about roles and grants, and two servers on one database."""

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from thrift.Thrift import TApplicationException

from interbed.catalog.server.migration.command import metastore
from interbed.thrift_idl.hive_metastore import ThriftHiveMetastore, ttypes
from tests.catalog.server.auth.test_authenticated_server import bearer, thrift_over_http
from tests.catalog.server.migration.commands import run, run_json
from tests.support.servers.metastore import MetastoreUnderTest, metastore_under_test, plain_client
from tests.support.waits import wait_until

USER = ttypes.PrincipalType.USER
BUILTIN = (
    *("--http-port", "0", "--authentication", "token"),
    *("--access-authorizer", "builtin", "--access-admins", "root"),
)


@dataclass(frozen=True)
class GrantedServers:
    """Two servers on one database, and tokens by user."""

    first: MetastoreUnderTest
    second: MetastoreUnderTest
    tokens: dict[str, str]
    audit: Path

    @contextmanager
    def client(self, user: str, server: MetastoreUnderTest | None = None) -> Iterator[Any]:
        """Yield a client of Thrift over HTTP for a user."""
        with thrift_over_http(server or self.first, bearer(self.tokens[user])) as client:
            yield client

    def run(self, *arguments: str) -> str:
        """Run a command on the database."""
        return run(*arguments, "--db", self.first.db)

    def lines(self, *arguments: str) -> list[str]:
        """Run a command on the database; return the lines that it prints."""
        return self.run(*arguments).splitlines()


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GrantedServers]:
    """Run two servers on one database, with the table `sales.orders` of the user `root`."""
    directory = tmp_path_factory.mktemp("granted")
    db = f"sqlite:///{directory / 'metastore.db'}"
    audit = directory / "audit.log"
    with ExitStack() as stack:
        first = stack.enter_context(metastore_under_test(db, directory, *BUILTIN, "--audit-log", str(audit)))
        second = stack.enter_context(metastore_under_test(db, directory, *BUILTIN))
        tokens = {name: run("token", "create", name, "--db", db).strip() for name in ("root", "ann", "eve")}
        found = GrantedServers(first, second, tokens, audit)
        with found.client("root") as client:
            client.create_database(ttypes.Database(name="sales"))
            client.create_table(_table("orders"))
        yield found


def _table(name: str) -> Any:
    columns = [ttypes.FieldSchema(name="id", type="int")]
    storage = ttypes.StorageDescriptor(cols=columns, serdeInfo=ttypes.SerDeInfo(parameters={}), parameters={})
    return ttypes.Table(dbName="sales", tableName=name, sd=storage, partitionKeys=[], parameters={})


def _sees(client: ThriftHiveMetastore.Client, name: str = "orders") -> bool:
    try:
        return bool(client.get_table("sales", name).tableName == name)
    except ttypes.NoSuchObjectException:
        return False


def test_a_grant_is_in_force_on_all_servers(servers: GrantedServers) -> None:
    with servers.client("ann") as here, servers.client("ann", servers.second) as there:
        assert (_sees(here), _sees(there)) == (False, False)
        granted = servers.lines("grant", "SELECT", "on", "table", "sales.orders", "to", "user", "ann")
        assert granted == ["granted SELECT on the table hive.sales.orders to the user ann"]
        wait_until(lambda: (_sees(here), _sees(there)) == (True, True))
        assert here.get_all_tables("sales") == ["orders"]
        with pytest.raises((ttypes.MetaException, ttypes.InvalidOperationException), match="lacks the privilege DROP"):
            here.drop_table("sales", "orders", True)
        servers.run("revoke", "SELECT", "on", "table", "sales.orders", "from", "user", "ann")
        wait_until(lambda: (_sees(here), _sees(there)) == (False, False))
        assert here.get_all_tables("sales") == []


def test_owners_and_administrators_need_no_grant(servers: GrantedServers) -> None:
    servers.run("grant", "CREATE", "on", "database", "sales", "to", "user", "eve")
    with servers.client("eve") as eve, servers.client("ann") as ann, servers.client("root") as root:
        eve.create_table(_table("of_eve"))
        assert (_sees(eve, "of_eve"), _sees(ann, "of_eve"), _sees(root, "of_eve")) == (True, False, True)
        assert eve.get_all_tables("sales") == ["of_eve"]
        root.drop_table("sales", "of_eve", True)


def test_the_calls_about_roles_and_grants(servers: GrantedServers) -> None:
    orders = ttypes.HiveObjectRef(objectType=ttypes.HiveObjectType.TABLE, dbName="sales", objectName="orders")
    info = ttypes.PrivilegeGrantInfo(privilege="SELECT", grantor="root", grantorType=USER, grantOption=True)
    given = ttypes.HiveObjectPrivilege(
        hiveObject=orders, principalName="readers", principalType=ttypes.PrincipalType.ROLE, grantInfo=info
    )
    bag = ttypes.PrivilegeBag(privileges=[given])
    with servers.client("root") as root, servers.client("ann") as ann:
        with pytest.raises(ttypes.MetaException, match="ann may not create the role readers"):
            ann.create_role(ttypes.Role(roleName="readers"))
        assert root.create_role(ttypes.Role(roleName="readers"))
        with pytest.raises(ttypes.MetaException, match=r"hive\.sales\.orders does not exist"):
            ann.grant_privileges(bag)
        assert root.grant_privileges(bag)
        assert root.grant_role("readers", "ann", USER, "root", USER, False)
        wait_until(lambda: _sees(ann))
        assert [role.roleName for role in ann.list_roles("ann", USER)] == ["readers", "public"]
        assert ann.get_role_names() == ["public", "readers"]
        assert len(ann.list_privileges(None, None, orders)) == 1
        assert root.revoke_role("readers", "ann", USER)
        wait_until(lambda: not _sees(ann))
        assert root.drop_role("readers")
    lines = [json.loads(line) for line in servers.audit.read_text().splitlines()]
    found = [(line["method"], line["user"], line["outcome"], line.get("role")) for line in lines]
    assert ("create_role", "ann", "refused", "readers") in found
    assert ("grant_role", "root", "ok", "readers") in found
    [granted] = [line["grants"] for line in lines if line["method"] == "grant_privileges" and line["user"] == "root"]
    assert granted == ["SELECT on sales.orders for role readers with grant option"]


def test_thrift_without_a_principal_is_refused(servers: GrantedServers) -> None:
    with plain_client(servers.first.port) as client, pytest.raises(TApplicationException, match="not authenticated"):
        client.get_all_databases()


def test_the_life_of_a_role_by_commands(servers: GrantedServers) -> None:
    assert servers.lines("roles", "create", "ETL") == ["created the role etl"]
    assert servers.lines("roles", "add", "etl", "group", "writers", "--admin-option") == [
        "added the group writers to the role etl"
    ]
    [member] = run_json("roles", "members", "etl", "--db", servers.first.db)
    assert (member["kind"], member["name"], member["admin_option"]) == ("group", "writers", True)
    assert servers.lines("roles", "members", "etl")[1].split()[:3] == ["group", "writers", "yes"]
    assert [line.split()[0] for line in servers.lines("roles", "list")] == ["ROLE", "admin", "etl", "public"]
    names = [each["name"] for each in run_json("roles", "list", "--db", servers.first.db)]
    assert names == ["admin", "etl", "public"]
    servers.run("roles", "remove", "etl", "group", "writers", "--admin-option-only")
    assert servers.lines("roles", "remove", "etl", "group", "writers") == [
        "removed the group writers from the role etl"
    ]
    assert servers.lines("roles", "members", "etl") == ["No members."]
    assert servers.lines("roles", "drop", "etl") == ["dropped the role etl"]
    changes = run_json("grants", "--history", "--db", servers.first.db)
    assert [each["change"] for each in changes if each["name"] == "etl"] == [
        "CREATE_ROLE",
        "GRANT_ROLE",
        "REVOKE_ROLE",
        "REVOKE_ROLE",
        "DROP_ROLE",
    ]
    assert "to: group writers, admin option: True" in servers.run("grants", "--history")


def test_grants_are_listed_by_commands(servers: GrantedServers) -> None:
    assert servers.lines("grants", "--to", "user zoe") == ["No grants."]
    servers.run("grant", "SELECT,INSERT", "on", "database", "sales", "to", "user", "zoe", "--grant-option")
    servers.run("grant", "ALL", "on", "server", "to", "user", "zoe")
    servers.run("grant", "USAGE", "on", "catalog", "hive", "to", "user", "zoe")
    shown = run_json("grants", "--to", "user zoe", "--db", servers.first.db)
    assert [(each["privilege"], each["kind"], each["database"], each["grant_option"]) for each in shown] == [
        ("SELECT", "database", "sales", True),
        ("INSERT", "database", "sales", True),
        ("ALL", "server", None, False),
        ("USAGE", "catalog", None, False),
    ]
    lines = servers.lines("grants", "--on", "database sales", "--to", "user zoe")
    assert [line.split()[0] for line in lines] == ["PRIVILEGE", "SELECT", "INSERT"]
    for words in ("ALL on server", "USAGE on catalog hive", "INSERT on database sales"):
        servers.run("revoke", *words.split(), "from", "user", "zoe", "--cascade")
    left = run_json("grants", "--to", "user zoe", "--db", servers.first.db)
    assert [each["privilege"] for each in left] == ["SELECT"]


def _explained(servers: GrantedServers, *arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(metastore, ["why-denied", *arguments, "--db", servers.first.db])
    return result.exit_code, result.output


def test_a_refusal_is_explained(servers: GrantedServers) -> None:
    servers.run("roles", "create", "analysts")
    servers.run("grant", "SELECT", "on", "database", "sales", "to", "role", "analysts")
    code, text = _explained(servers, "jim", "SELECT", "table", "sales.orders")
    assert code == 1
    assert "jim may not use SELECT on the table hive.sales.orders" in text
    assert "table hive.sales.orders: user root" in text
    assert "interbed metastore roles add analysts user jim" in text
    # What is printed does what it says.
    command = next(line for line in text.splitlines() if "metastore grant SELECT" in line).split()[2:]
    servers.run(*command)
    code, text = _explained(servers, "jim", "SELECT", "table", "sales.orders")
    assert code == 0
    assert "SELECT on the table hive.sales.orders is granted: user jim" in text
    servers.run("roles", "add", "analysts", "group", "bi")
    code, text = _explained(servers, "kim", "SEE", "table", "sales.orders", "--group", "bi", "--json")
    found = json.loads(text)
    assert (code, found["permitted"], found["exists"]) == (0, True, True)
    assert found["reasons"] == ["SELECT on the database hive.sales is granted: group bi -> role analysts"]
    code, text = _explained(servers, "kim", "DROP", "table", "sales.missing")
    assert "The table hive.sales.missing does not exist" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("grant SELECT on table orders to user ann", "'table orders' is not an object"),
        ("grant SELECT table sales.orders to user ann", "expected PRIVILEGE... on KIND"),
        ("grant SELECT on table sales.orders from user ann", "expected PRIVILEGE... on KIND"),
        ("grant LOCK on table sales.orders to user ann", "there is no privilege LOCK; there are USAGE, SELECT"),
        ("grant SELECT on table sales.orders to team ann", "'team ann' is not `user NAME`"),
        ("grant SELECT on table sales.none to user ann", "the table hive.sales.none does not exist"),
        ("grant SELECT on table sales.orders to role none", "the role none does not exist"),
        ("revoke DROP on table sales.orders from user ann", "the user ann has no grant of DROP"),
        ("roles drop admin", "the role admin is built in"),
        ("roles create none", "none is not a valid role name"),
    ],
)
def test_wrong_commands_are_refused_by_name(servers: GrantedServers, arguments: str, message: str) -> None:
    result = CliRunner().invoke(metastore, [*arguments.split(), "--db", servers.first.db])
    assert result.exit_code != 0
    assert message in result.output
