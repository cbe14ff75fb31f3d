"""HiveServer2 with authorization by the SQL standard, on a server that decides by grants.

HiveServer2 authenticates itself by a token of an administrator, and asks the server for the roles and the privileges of
its users. What a user may do follows from the server's grants and owners, whether Hive's SQL made them or not.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.catalog.server.migration.commands import run, run_json
from tests.support.peers.hive import HiveServer2
from tests.support.peers.process import PeerError
from tests.support.servers.java_metastore import QUICK_START, running_java_metastore
from tests.support.servers.metastore import MetastoreUnderTest, metastore_under_test

pytestmark = pytest.mark.long

SERVICE = "hive"
ADMIN, OWNER, WRITER, READER, NOBODY = USERS = ("root", "olga", "will", "rita", "ned")

AUTHORIZATION = {
    "hive.security.authorization.enabled": "true",
    "hive.security.authorization.manager": (
        "org.apache.hadoop.hive.ql.security.authorization.plugin.sqlstd.SQLStdHiveAuthorizerFactory"
    ),
    "hive.security.authenticator.manager": "org.apache.hadoop.hive.ql.security.SessionStateUserAuthenticator",
    "hive.server2.enable.doAs": "false",
    "hive.metastore.client.auth.mode": "PLAIN",
    "hive.metastore.client.plain.username": SERVICE,
}

SETUP = (
    (ADMIN, "SET ROLE admin"),
    (ADMIN, "CREATE DATABASE sales"),
    (ADMIN, f"ALTER DATABASE sales SET OWNER USER {OWNER}"),
    (OWNER, "CREATE TABLE sales.orders (id INT, city STRING) PARTITIONED BY (day STRING) STORED AS PARQUET"),
    (OWNER, "INSERT INTO sales.orders PARTITION (day = '1') VALUES (1, 'Bonn')"),
    (OWNER, "CREATE VIEW sales.cities AS SELECT city FROM sales.orders"),
    (OWNER, "CREATE TABLE sales.scratch (id INT) STORED AS PARQUET"),
    (ADMIN, "CREATE ROLE analysts"),
    (ADMIN, f"GRANT ROLE analysts TO USER {READER} WITH ADMIN OPTION"),
    (OWNER, "GRANT SELECT ON TABLE sales.orders TO ROLE analysts"),
    (OWNER, f"GRANT SELECT, INSERT, UPDATE, DELETE ON TABLE sales.orders TO USER {WRITER} WITH GRANT OPTION"),
    (OWNER, f"GRANT SELECT ON TABLE sales.cities TO USER {NOBODY}"),
)

MAY = {
    "SELECT id FROM sales.orders": {ADMIN, OWNER, WRITER, READER},
    "DESCRIBE sales.orders": {ADMIN, OWNER, WRITER, READER},
    "SHOW PARTITIONS sales.orders": {ADMIN, OWNER, WRITER, READER},
    "SELECT city FROM sales.cities": {ADMIN, OWNER, NOBODY},
    "INSERT INTO sales.orders PARTITION (day = '1') VALUES (2, 'Ulm')": {ADMIN, OWNER, WRITER},
    "CREATE TABLE sales.new_{user} (id INT)": {ADMIN, OWNER},
    "CREATE TABLE sales.copy_{user} AS SELECT id FROM sales.orders": {ADMIN, OWNER},
    "CREATE VIEW sales.view_{user} AS SELECT id FROM sales.orders": {ADMIN, OWNER},
    "ALTER TABLE sales.orders ADD IF NOT EXISTS PARTITION (day = '{user}')": {ADMIN, OWNER, WRITER},
    "ALTER TABLE sales.orders DROP IF EXISTS PARTITION (day = '{user}')": {ADMIN, OWNER, WRITER},
    "MSCK REPAIR TABLE sales.orders": {ADMIN, OWNER, WRITER},
    "ANALYZE TABLE sales.orders PARTITION (day) COMPUTE STATISTICS": {ADMIN, OWNER, WRITER},
    "ALTER TABLE sales.orders SET TBLPROPERTIES ('by' = '{user}')": {ADMIN, OWNER},
    "ALTER VIEW sales.cities SET TBLPROPERTIES ('by' = '{user}')": {ADMIN, OWNER},
    "TRUNCATE TABLE sales.scratch": {ADMIN, OWNER},
    "GRANT SELECT ON TABLE sales.orders TO USER zoe": {ADMIN, OWNER, WRITER},
    "SHOW GRANT ON TABLE sales.orders": {ADMIN},
    "SHOW GRANT USER {user} ON TABLE sales.orders": set(USERS),
    "SHOW ROLE GRANT USER rita": {ADMIN, READER},
    "SHOW PRINCIPALS analysts": {ADMIN, READER},
    "SHOW CURRENT ROLES": set(USERS),
    "SHOW ROLES": {ADMIN},
    "CREATE ROLE role_{user}": {ADMIN},
    "GRANT ROLE analysts TO USER zoe_{user}": {ADMIN, READER},
    "CREATE DATABASE of_{user}": set(USERS),
    "SHOW DATABASES": set(USERS),
}
"""The users that may execute each statement. `{user}` is the name of the user."""

UNREAD = "ALTER TABLE sales.orders DROP IF EXISTS PARTITION (day = '{user}')"
"""A statement for which Java's metastore reads a condition, which it does not without the jars of the rest of Hive."""

ENDS = (
    ("DROP VIEW sales.cities", OWNER),
    ("DROP TABLE sales.scratch", ADMIN),
    ("DROP TABLE sales.orders", OWNER),
    ("DROP ROLE analysts", ADMIN),
    ("DROP DATABASE sales CASCADE", ADMIN),
)
"""Statements that only one user executes, after the others were refused."""

REFUSED = ("Permission denied", "is not allowed", "has to specify a user name", "doesn't have", "is not an admin")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MetastoreUnderTest]:
    """Server whose administrators are HiveServer2 and one of its users."""
    directory: Path = tmp_path_factory.mktemp("metastore")
    access = ("--access-authorizer", "builtin", "--access-admins", f"{SERVICE},{ADMIN}")
    db = f"sqlite:///{directory / 'metastore.db'}"
    with metastore_under_test(db, directory, "--authentication", "token", *access) as running:
        yield running


@pytest.fixture(scope="module")
def hive(server: MetastoreUnderTest) -> Iterator[HiveServer2]:
    """HiveServer2 with the tables and the grants of the tests."""
    # Where no provider of credentials has the password of a user, Hadoop takes it from the configuration.
    token = run("token", "create", SERVICE, "--db", server.db).strip()
    with HiveServer2(server.uri, server.warehouse, settings={**AUTHORIZATION, SERVICE: token}) as running:
        for user, statement in SETUP:
            running.run(statement, user)
        yield running


@pytest.fixture(scope="module")
def hive_on_java() -> Iterator[HiveServer2]:
    """HiveServer2 with the same tables and grants on Hive's own metastore."""
    admins = {"hive.users.in.admin.role": ADMIN}
    with running_java_metastore("4.0.1", settings=admins, java_options=QUICK_START) as running:
        own = {name: value for name, value in AUTHORIZATION.items() if not name.startswith("hive.metastore.client")}
        # Java's metastore has no events until there is a listener.
        own["hive.notification.event.poll.interval"] = "0s"
        with HiveServer2(running.uri, running.warehouse, settings=own) as started:
            for user, statement in SETUP:
                started.run(statement, user)
            yield started


def refusal(hive: HiveServer2, statement: str, user: str) -> str | None:
    """Return why a user may not execute a statement, None if it may."""
    try:
        hive.run(statement, user)
    except PeerError as error:
        return str(error)
    return None


def grants_of(server: MetastoreUnderTest, on: str) -> set[tuple[str, str, bool]]:
    """Return grantee, privilege and grant option of the grants on an object."""
    listed = run_json("grants", "--on", on, "--db", server.db)
    return {(f"{each['grantee_kind']} {each['grantee']}", each["privilege"], each["grant_option"]) for each in listed}


@pytest.mark.parametrize("statement", MAY)
def test_a_statement_is_executed_for_users_with_the_privileges(hive: HiveServer2, statement: str) -> None:
    found = {user: refusal(hive, statement.format(user=user), user) for user in USERS}
    assert {user for user, reason in found.items() if reason is None} == MAY[statement], found
    for reason in found.values():
        assert reason is None or any(text in reason for text in REFUSED), reason


def test_hives_own_metastore_has_the_same_decisions(hive_on_java: HiveServer2) -> None:
    for statement, expected in MAY.items():
        found = {user: refusal(hive_on_java, statement.format(user=user), user) for user in USERS}
        if statement == UNREAD:
            assert all("UnsupportedOperationException" in str(reason) for reason in found.values()), found
        else:
            assert {user for user, reason in found.items() if reason is None} == expected, (statement, found)


def test_the_servers_grants_are_those_of_the_statements(hive: HiveServer2, server: MetastoreUnderTest) -> None:
    found = grants_of(server, "table sales.orders")
    assert {each for each in found if "zoe" not in each[0]} == {
        ("role analysts", "SELECT", False),
        *((f"user {WRITER}", each, True) for each in ("SELECT", "INSERT", "UPDATE", "DELETE")),
    }
    assert grants_of(server, "table sales.cities") == {(f"user {NOBODY}", "SELECT", False)}


def test_grants_of_the_server_are_in_force_in_hive(hive: HiveServer2, server: MetastoreUnderTest) -> None:
    statement = "SELECT count(*) FROM sales.orders"
    for to in ("user eva", "role public"):
        assert refusal(hive, statement, "eva") is not None
        # Hive knows neither USAGE nor ALTER. It refuses a set of privileges that has them.
        for privilege in ("USAGE", "ALTER", "SELECT"):
            on = "database sales" if privilege != "ALTER" else "table sales.orders"
            run("grant", privilege, *f"on {on} to {to}".split(), "--db", server.db)
        assert refusal(hive, statement, "eva") is None
        run("revoke", "SELECT", *f"on database sales from {to}".split(), "--db", server.db)


def test_a_role_is_in_force_while_it_is_set(hive: HiveServer2) -> None:
    statement = "SELECT id FROM sales.orders"
    assert [row[0] for row in hive.run("SHOW CURRENT ROLES", READER).rows] == ["analysts", "public"]
    for role, is_allowed in (("NONE", False), ("public", False), ("analysts", True), ("ALL", True)):
        hive.run(f"SET ROLE {role}", READER)
        assert (refusal(hive, statement, READER) is None) == is_allowed, role
    assert "doesn't belong to role admin" in (refusal(hive, "SET ROLE admin", READER) or "")


def test_a_grant_option_is_given_and_revoked(hive: HiveServer2) -> None:
    statement = "SELECT count(*) FROM sales.orders"
    hive.run("GRANT SELECT ON TABLE sales.orders TO USER ida", WRITER)
    assert refusal(hive, statement, "ida") is None
    hive.run("REVOKE SELECT ON TABLE sales.orders FROM USER ida", WRITER)
    assert "Permission denied" in (refusal(hive, statement, "ida") or "")
    hive.run(f"REVOKE GRANT OPTION FOR SELECT ON TABLE sales.orders FROM USER {WRITER}", OWNER)
    assert "Permission denied" in (refusal(hive, "GRANT SELECT ON TABLE sales.orders TO USER ida", WRITER) or "")
    assert refusal(hive, statement, WRITER) is None


def test_a_new_owner_has_the_table(hive: HiveServer2) -> None:
    hive.run("CREATE TABLE sales.given (id INT)", OWNER)
    hive.run("ALTER TABLE sales.given SET OWNER USER eve", OWNER)
    assert refusal(hive, "SELECT count(*) FROM sales.given", "eve") is None
    hive.run("DROP TABLE sales.given", "eve")


@pytest.mark.parametrize(("statement", "user"), ENDS)
def test_only_one_user_drops(hive: HiveServer2, statement: str, user: str) -> None:
    for other in (WRITER, READER, NOBODY):
        assert refusal(hive, statement, other) is not None
    hive.run(statement, user)


def test_nothing_is_left(hive: HiveServer2, server: MetastoreUnderTest) -> None:
    assert "sales" not in hive.run("SHOW DATABASES", ADMIN).column("database_name")
    assert run_json("grants", "--db", server.db) == []
    assert "analysts" not in hive.run("SHOW ROLES", ADMIN).column("role")
