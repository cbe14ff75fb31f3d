"""HiveServer2 4.0.1 that acts for its users (`hive.server2.enable.doAs`) on a server with Kerberos.

HiveServer2 logs in by its keytab, asks the server for a delegation token of each user that opens a session, and makes
the calls of the user's statements by it. So the server knows the user, and its grants decide without help of
HiveServer2, which has no privileges itself. Its storage-based authorization adds the permissions of directories.
"""

import getpass
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from tests.catalog.server.auth.kerberos.served import KerberosServer, kerberos_server
from tests.catalog.server.migration.commands import run, run_json
from tests.support.peers.hive import HiveServer2
from tests.support.peers.process import PeerError
from tests.support.servers.kdc import REALM, KeyDistributionCenter
from tests.support.waits import wait_until

pytestmark = pytest.mark.long

OWNER, WRITER, READER, NOBODY = USERS = ("olga", "will", "rita", "ned")
GUEST = "gus"
"""A user whose delegation token a test revokes."""

SERVICE = f"hive/hs2.example.org@{REALM}"

# Hadoop takes the user of its ticket for the owner of the files that it makes, which is here that of the process.
HADOOP = {
    "hadoop.security.authentication": "kerberos",
    "hadoop.security.auth_to_local": f"RULE:[2:$1@$0](hive@{REALM})s/.*/{getpass.getuser()}/ DEFAULT",
}

STORAGE_BASED = {
    "hive.security.authorization.enabled": "true",
    "hive.security.authorization.manager": (
        "org.apache.hadoop.hive.ql.security.authorization.StorageBasedAuthorizationProvider"
    ),
}

SETUP = (
    "CREATE DATABASE sales",
    "CREATE TABLE sales.orders (id INT, city STRING) PARTITIONED BY (day STRING) STORED AS PARQUET",
    "INSERT INTO sales.orders PARTITION (day = '1') VALUES (1, 'Bonn')",
    "CREATE TABLE sales.plain (id INT) STORED AS PARQUET",
    "INSERT INTO sales.plain VALUES (1)",
    "CREATE VIEW sales.cities AS SELECT city FROM sales.orders",
)

GRANTS = (
    ("SELECT,INSERT", "table sales.orders", WRITER),
    ("SELECT", "table sales.orders", READER),
)

MAY = {
    "SELECT id FROM sales.orders": {OWNER, WRITER, READER},
    "DESCRIBE sales.orders": {OWNER, WRITER, READER},
    "SHOW PARTITIONS sales.orders": {OWNER, WRITER, READER},
    "SELECT city FROM sales.cities": {OWNER},
    "INSERT INTO sales.orders PARTITION (day = '{user}') VALUES (2, 'Ulm')": {OWNER, WRITER},
    "ALTER TABLE sales.orders ADD IF NOT EXISTS PARTITION (day = 'of {user}')": {OWNER, WRITER},
    "ALTER TABLE sales.orders DROP IF EXISTS PARTITION (day = 'of {user}')": {OWNER},
    "ALTER TABLE sales.orders SET TBLPROPERTIES ('by' = '{user}')": {OWNER},
    "CREATE TABLE sales.new_{user} (id INT)": {OWNER},
    "CREATE VIEW sales.view_{user} AS SELECT id FROM sales.orders": {OWNER},
    "TRUNCATE TABLE sales.plain": {OWNER},
    "CREATE DATABASE of_{user}": {OWNER},
    "SHOW DATABASES": set(USERS),
}
"""The users that may execute each statement. `{user}` is the name of the user."""

REFUSED = ("lacks the privilege", "not found", "does not exist", "Invalid table", "Table not found")


def settings_of(kdc: KeyDistributionCenter) -> dict[str, str]:
    """Return the settings of a HiveServer2 that acts for its users."""
    return {
        "hive.server2.enable.doAs": "true",
        "hive.server2.authentication.kerberos.principal": SERVICE,
        "hive.server2.authentication.kerberos.keytab": str(kdc.keytab("hive/hs2.example.org")),
        "hive.metastore.sasl.enabled": "true",
        "hive.metastore.kerberos.principal": f"hive/_HOST@{REALM}",
        # A job of MapReduce names a renewer of its tokens.
        "yarn.resourcemanager.principal": SERVICE,
        # With Kerberos, reducers need native libraries of Hadoop.
        "hive.stats.column.autogather": "false",
        "hive.merge.mapfiles": "false",
    }


@pytest.fixture(scope="module")
def server(kdc: KeyDistributionCenter, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KerberosServer]:
    """Run a server on which HiveServer2 may act for its users, and has no other privilege."""
    directory: Path = tmp_path_factory.mktemp("metastore")
    settings = (
        *("--access-authorizer", "builtin", "--access-admins", "root"),
        *("--proxy-users", f"hive.hosts=127.0.0.1; hive.users={','.join((*USERS, GUEST))}"),
    )
    with kerberos_server(kdc, directory, *settings, authentication="kerberos,delegation-token") as running:
        run("grant", "CREATE", "on", "catalog", "hive", "to", "user", OWNER, "--db", running.server.db)
        yield running


@contextmanager
def acting_hive(server: KerberosServer, **settings: str) -> Iterator[HiveServer2]:
    """Run a HiveServer2 that acts for its users."""
    kdc = server.kdc
    given = {**settings_of(kdc), **settings}
    with HiveServer2(
        server.uri, server.server.warehouse, settings=given, hadoop=HADOOP, java_options=kdc.java_options
    ) as running:
        yield running


@pytest.fixture(scope="module")
def hive(server: KerberosServer) -> Iterator[HiveServer2]:
    """HiveServer2 with the tables and the grants of the tests."""
    with acting_hive(server) as running:
        for statement in SETUP:
            running.run(statement, OWNER)
        for privilege, on, user in GRANTS:
            run("grant", privilege, *f"on {on} to user {user}".split(), "--db", server.server.db)
        yield running


@pytest.fixture(scope="module")
def storage_based(server: KerberosServer, hive: HiveServer2) -> Iterator[HiveServer2]:
    """A second HiveServer2, which also looks at the permissions of directories."""
    with acting_hive(server, **STORAGE_BASED) as running:
        yield running


def refusal(hive: HiveServer2, statement: str, user: str) -> str | None:
    """Return why a user may not execute a statement, None if it may."""
    try:
        hive.run(statement, user)
    except PeerError as error:
        return str(error)
    return None


@pytest.mark.parametrize("statement", MAY)
def test_a_statement_is_executed_for_users_with_the_privileges(hive: HiveServer2, statement: str) -> None:
    found = {user: refusal(hive, statement.format(user=user), user) for user in USERS}
    assert {user for user, reason in found.items() if reason is None} == MAY[statement], found
    for reason in found.values():
        assert reason is None or any(text in reason for text in REFUSED), reason


def test_users_see_what_they_may(hive: HiveServer2) -> None:
    found = {user: "sales" in hive.run("SHOW DATABASES", user).column("database_name") for user in USERS}
    assert found == {OWNER: True, WRITER: True, READER: True, NOBODY: False}
    assert hive.run("SHOW TABLES IN sales", READER).column("tab_name") == ["orders"]
    assert {"orders", "plain"} <= set(hive.run("SHOW TABLES IN sales", OWNER).column("tab_name"))


def test_every_call_is_that_of_the_user_and_hiveserver2_only_asks_for_tokens(
    hive: HiveServer2, server: KerberosServer
) -> None:
    hive.run("ALTER TABLE sales.orders SET TBLPROPERTIES ('seen' = 'yes')", OWNER)
    lines = server.audited()
    by_service = {(line["method"], line["mechanism"]) for line in lines if line["user"] == "hive"}
    assert by_service == {("get_delegation_token", "kerberos")}
    others = [line for line in lines if line["user"] != "hive"]
    assert {(line["real_user"], line["mechanism"]) for line in others} == {("hive", "delegation-token")}
    assert {line["user"] for line in others if line["outcome"] == "ok"} <= {OWNER, WRITER}
    made = next(line for line in others if line.get("table") == "new_olga" and line["method"] == "create_table_req")
    assert made["user"] == OWNER


def test_a_user_that_hiveserver2_may_not_act_for_has_no_session(hive: HiveServer2, server: KerberosServer) -> None:
    assert "setup impersonation" in (refusal(hive, "SHOW DATABASES", "zoe") or "")
    refused = [line for line in server.audited() if line["outcome"] != "ok" and line.get("principal") == "zoe"]
    assert {(line["user"], line["method"]) for line in refused} == {("hive", "get_delegation_token")}
    log = (server.audit.parent / "server.log").read_text()
    assert "The user hive is not allowed to act for zoe" in log + str(refused)


def _is_as_expected(hive: HiveServer2, statement: str, is_allowed: bool) -> bool:
    return (refusal(hive, statement, NOBODY) is None) == is_allowed


def test_a_revoked_grant_is_out_of_force_in_an_open_session(hive: HiveServer2, server: KerberosServer) -> None:
    statement, on = "SELECT id FROM sales.orders", f"on table sales.orders {{}} user {NOBODY}"
    for command, word, is_allowed in (("grant", "to", True), ("revoke", "from", False)):
        run(command, "SELECT", *on.format(word).split(), "--db", server.server.db)
        wait_until(partial(_is_as_expected, hive, statement, is_allowed), f"the {command} is in force")


def test_a_revoked_token_ends_the_session_of_its_user(hive: HiveServer2, server: KerberosServer) -> None:
    assert refusal(hive, "SHOW DATABASES", GUEST) is None
    db = server.server.db
    listed = [each["id"] for each in run_json("token", "list", "--db", db) if each["principal"] == GUEST]
    assert len(listed) == 1
    run("token", "revoke", listed[0], "--db", db)
    wait_until(lambda: refusal(hive, "SHOW DATABASES", GUEST) is not None, "the token is out of force")
    assert refusal(hive, "SHOW DATABASES", OWNER) is None


def test_storage_based_authorization_adds_the_permissions_of_directories(
    storage_based: HiveServer2, server: KerberosServer
) -> None:
    place = server.server.warehouse / "sales.db" / "plain"
    read, write = "SELECT id FROM sales.plain", "INSERT INTO sales.plain VALUES (2)"
    for mode, may_read, may_write in ((0o700, False, False), (0o755, True, False), (0o777, True, True)):
        place.chmod(mode)
        place.parent.chmod(0o755 | mode)
        found = [refusal(storage_based, statement, OWNER) for statement in (read, write)]
        assert [reason is None for reason in found] == [may_read, may_write], (oct(mode), found)
        assert all(reason is None or "Permission denied" in reason for reason in found), found
    # Permissions give no privilege of the server's.
    for user in (READER, NOBODY):
        assert refusal(storage_based, read, user) is not None


def test_only_the_owner_drops(hive: HiveServer2) -> None:
    for user in (WRITER, READER, NOBODY):
        # Hive drops a table that a user does not see without an error, as one that does not exist.
        assert refusal(hive, "DROP TABLE sales.orders", user) is not None or user == NOBODY
        assert refusal(hive, "DROP DATABASE sales CASCADE", user) is not None
    assert hive.run("SELECT city FROM sales.orders WHERE id = 1", READER).rows == [["Bonn"]]
    hive.run("DROP TABLE sales.orders", OWNER)
    hive.run("DROP DATABASE sales CASCADE", OWNER)
    assert "sales" not in hive.run("SHOW DATABASES", OWNER).column("database_name")
