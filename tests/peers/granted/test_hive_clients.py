"""The Java clients of Hive 2.3.10, 3.1.3 and 4.0.1 on a server that decides by grants, held to one table."""

from collections.abc import Mapping
from itertools import chain
from pathlib import Path

import pytest

from interbed.thrift_idl.hive_metastore import ttypes
from tests.catalog.server.access.matrix import rows_of
from tests.catalog.server.auth.delegation.connected import plain_client
from tests.catalog.server.migration.commands import run
from tests.support.peers.hive_releases import RELEASES, output_of
from tests.support.servers.java_metastore import PEERS
from tests.support.servers.metastore import metastore_under_test, table
from tests.support.waits import wait_until

pytestmark = pytest.mark.long

SOURCE = PEERS / "granted" / "java" / "GrantedCalls.java"

ADMIN = "root"
CALLERS = ("ned", "rita", "will", "olga")
"""A stranger, a reader and a writer of the table, and the owner of its database."""

EXPECTED = {
    "maaa": """
        getDatabase getAllDatabases getDatabases getTable tableExists getAllTables getTables getTableMeta
        getTableObjectsByName listTableNamesByFilter getFields getSchema getTableColumnStatistics listPartitionNames
        listPartitions listPartitionsByFilter getNumPartitionsByFilter getPartition getPartitionWithAuthInfo
        getPartitionsByNames getNextNotification
    """,
    "mdaa": """
        updateTableColumnStatistics deleteTableColumnStatistics truncateTable add_partition alter_partition
        dropPartition appendPartition
    """,
    "mdda": """
        alterDatabase createTable alter_table rename addPrimaryKey renamePartition grant_privileges give-table-away
        dropTable
    """,
    "mddd": "move-onto-another-table create-over-another-table",
    "mmma": "getFunction getFunctions dropFunction dropDatabase",
    "daaa": "lock-to-read",
    "ddaa": "lock-to-write",
    "ddda": "createFunction",
    "dddd": "createDatabase create_role addMasterKey",
}
"""Calls by the outcomes for each of CALLERS.

m  the answer to a call about an object that does not exist, or a list without the objects of the test
d  denied
a  carried out

The table is dropped before the database: then only its owner sees the database.
"""

LEFT_OUT: Mapping[str, set[str]] = {"2.3.10": {"truncateTable"}}
"""Calls that a release does not have."""

NOTHING = ("ok []", "ok [default]", "ok false", "ok [null.null]")
"""Answers without the objects of the test; the names of a hidden event are null."""

DENIED = (
    "lacks the privilege",
    "may not grant",
    "may not create the role",
    "cannot create an object that",
    "only an administrator",
    "is not an administrator",
    "the location is in the directory of another object",
)


def _filled(port: int, secrets: Mapping[str, str], db: str) -> None:
    """Make the objects and grants of the test, as the administrator."""
    with plain_client(port, ADMIN, secrets[ADMIN]) as root:
        for name, owner in (("sales", "olga"), ("hidden", ADMIN)):
            root.create_database(ttypes.Database(name=name, ownerName=owner, ownerType=ttypes.PrincipalType.USER))
        for database, name, owner in (("sales", "orders", "olga"), ("hidden", "salaries", ADMIN)):
            made = table(database, name, ("id", "bigint"), ("city", "string"), partition_keys=(("dt", "string"),))
            made.owner = owner
            root.create_table(made)
        root.append_partition_by_name("sales", "orders", "dt=1")
        root.create_function(
            ttypes.Function(
                functionName="totals",
                dbName="sales",
                className="org.example.F",
                ownerName="olga",
                ownerType=ttypes.PrincipalType.USER,
                functionType=ttypes.FunctionType.JAVA,
            )
        )
    run("grant", "SELECT", "on", "table", "sales.orders", "to", "user", "rita", "--db", db)
    run("grant", "SELECT,INSERT,UPDATE,DELETE", "on", "table", "sales.orders", "to", "user", "will", "--db", db)


def _delegation_token(port: int, user: str, secret: str) -> str:
    """Return a delegation token of a user, when its grants are in force."""
    with plain_client(port, user, secret) as client:
        wait_until(lambda: user == "ned" or "sales" in client.get_all_databases(), f"{user} sees the database")
        return str(client.get_delegation_token(user, user))


def answers_of(release: str, directory: Path) -> dict[tuple[str, str, bool], str]:
    """Return the answers to each call, by call, caller, and whether the object exists."""
    settings = (
        *("--authentication", "token,delegation-token"),
        *("--access-authorizer", "builtin", "--access-admins", ADMIN),
    )
    with metastore_under_test(f"sqlite:///{directory / 'metastore.db'}", directory, *settings) as server:
        secrets = {user: run("token", "create", user, "--db", server.db).strip() for user in (ADMIN, *CALLERS)}
        _filled(server.port, secrets, server.db)
        tokens = [(user, _delegation_token(server.port, user, secrets[user])) for user in CALLERS]
        lines, _ = output_of(release, SOURCE, server.uri, *chain.from_iterable(tokens))
    found = {}
    for line in lines:
        if line.count("\t") != 3:
            continue
        call, caller, which, answer = line.split("\t")
        found[call, caller, which == "present"] = answer
    return found


def letter(answer: str, missing: str) -> str:
    """Return the outcome of a call by its answer, and the one about an object that does not exist."""
    if answer.startswith("ok "):
        return "m" if answer in NOTHING else "a"
    if any(text in answer for text in DENIED):
        return "d"
    for present, absent in (("orders", "absent"), ("totals", "absent"), ("sales", "nixes")):
        if answer.replace(present, absent) == missing:
            return "m"
    return f"[{answer}]"


@pytest.mark.parametrize("release", RELEASES)
def test_each_caller_may_do_what_the_table_says(release: str, tmp_path: Path) -> None:
    found = answers_of(release, tmp_path)
    expected = {
        name: letters for name, letters in rows_of(EXPECTED).items() if name not in LEFT_OUT.get(release, set())
    }
    calls = list(dict.fromkeys(call for call, _, _ in found))
    outcomes = {
        call: "".join(letter(found[call, caller, True], found[call, caller, False]) for caller in CALLERS)
        for call in calls
    }
    assert outcomes == expected
    for (_, caller, _), answer in found.items():
        # Objects of the administrator do not exist for any of the callers.
        assert "hidden" not in answer
        assert "salaries" not in answer
        if "lacks the privilege" in answer:
            assert f"{caller} lacks the privilege" in answer or f"on which {caller} lacks the privilege" in answer
