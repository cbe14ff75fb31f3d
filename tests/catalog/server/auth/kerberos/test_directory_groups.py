"""Users of Kerberos have the groups of an LDAP directory, and rights by them."""

from pathlib import Path

import pytest

import interbed
from interbed.catalog.client.errors import CatalogAccessError, CatalogError
from tests.catalog.server.auth.kerberos.served import kerberos_server
from tests.catalog.server.auth.test_ldap import GROUPS, PATTERN, SEARCH
from tests.catalog.server.migration.commands import run
from tests.support.servers.kdc import KeyDistributionCenter
from tests.support.servers.ldap_directory import PASSWORDS, ldap_directory

pytestmark = pytest.mark.long


def test_a_group_of_the_directory_gives_rights_to_a_user_with_a_ticket(
    kdc: KeyDistributionCenter, tmp_path: Path
) -> None:
    (tmp_path / "password").write_text(PASSWORDS["search"])
    with ldap_directory() as directory:
        arguments = (
            *("--access-authorizer", "builtin", "--access-admins", "root", "--http-port", "0"),
            *("--user-groups", "ldap", "--user-groups-seconds", "1", "--ldap-url", directory.url),
            *("--ldap-user-dn", PATTERN["user_dn"], "--ldap-group-base", GROUPS["group_base"]),
            *("--ldap-bind-dn", SEARCH["bind_dn"], "--ldap-bind-password-file", str(tmp_path / "password")),
        )
        with kerberos_server(kdc, tmp_path, *arguments) as server:
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
