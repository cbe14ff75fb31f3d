"""Users of Kerberos have the groups of an LDAP directory, and rights by them."""

from pathlib import Path

import pytest

import interbed
from interbed.catalog.client.errors import CatalogAccessError, CatalogError
from tests.catalog.server.auth.kerberos.served import RawClient, kerberos_server, raw_client
from tests.catalog.server.auth.test_ldap import GROUPS, PATTERN, SEARCH
from tests.catalog.server.migration.commands import run
from tests.support.servers.kdc import KeyDistributionCenter
from tests.support.servers.ldap_directory import PASSWORDS, LdapDirectory, ldap_directory
from tests.support.servers.raw_thrift import call
from tests.support.waits import wait_until

pytestmark = pytest.mark.long

GET_ALL = call("get_all_databases", b"\0")


def settings_of(directory: LdapDirectory, home: Path) -> tuple[str, ...]:
    """Return the settings of a server whose users have the groups of a directory, kept for a second."""
    (home / "password").write_text(PASSWORDS["search"])
    return (
        *("--access-authorizer", "builtin", "--access-admins", "root", "--http-port", "0"),
        *("--user-groups", "ldap", "--user-groups-seconds", "1", "--ldap-url", directory.url),
        *("--ldap-user-dn", PATTERN["user_dn"], "--ldap-group-base", GROUPS["group_base"]),
        *("--ldap-bind-dn", SEARCH["bind_dn"], "--ldap-bind-password-file", str(home / "password")),
    )


def test_a_group_of_the_directory_gives_rights_to_a_user_with_a_ticket(
    kdc: KeyDistributionCenter, tmp_path: Path
) -> None:
    with ldap_directory() as directory, kerberos_server(kdc, tmp_path, *settings_of(directory, tmp_path)) as server:
        db = server.server.db
        run("grant", "CREATE", "on", "catalog", "hive", "to", "group", "etl", "--db", db)
        for user in ("ann", "bob"):
            with interbed.load_catalog("l", **server.options(user)) as catalog:
                catalog.create_database(f"of_{user}")
        with (
            interbed.load_catalog("l", **server.options("eve")) as catalog,
            pytest.raises(CatalogError, match="eve lacks the privilege CREATE"),
        ):
            catalog.create_database("of_eve")
        with (
            pytest.raises(CatalogAccessError, match=r"has capital letters.*flag /L"),
            interbed.load_catalog("l", **server.options("BOB")) as catalog,
        ):
            catalog.list_databases()


def _sees(client: RawClient) -> bool:
    return b"sales" in client.call(GET_ALL)


def test_an_open_connection_loses_the_rights_of_a_group_that_its_user_leaves(
    kdc: KeyDistributionCenter, tmp_path: Path
) -> None:
    with ldap_directory() as directory:
        arguments = (*settings_of(directory, tmp_path), "--proxy-users", "hue.hosts=127.0.0.1; hue.groups=etl")
        with kerberos_server(kdc, tmp_path, *arguments) as server:
            db = server.server.db
            with interbed.load_catalog("l", **server.options("root")) as catalog:
                catalog.create_database("sales")
            run("grant", "USAGE", "on", "database", "sales", "to", "group", "etl", "--db", db)
            with raw_client(server, "bob") as own, raw_client(server, "hue", acts_for="ann") as acting:
                own.negotiate()
                acting.negotiate()
                wait_until(lambda: _sees(own) and _sees(acting), "the grant is in force")
                directory.leave("etl", "bob")
                wait_until(lambda: not _sees(own), "bob has lost the rights of the group")
                assert _sees(acting)
                directory.leave("etl", "ann")
                refused = b"The user hue is not allowed to act for ann"
                wait_until(lambda: refused in acting.call(GET_ALL), "hue may not act for ann any more")
                directory.join("etl", "bob")
                wait_until(lambda: _sees(own), "bob is in the group again")
