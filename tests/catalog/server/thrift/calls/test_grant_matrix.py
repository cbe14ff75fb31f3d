"""Every call about roles and grants by callers of each kind, held to one table.

a: carried out; d: denied; m: the object or the grant is missing for the caller; n: answered with nothing of others
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from interbed.catalog.server.service.access.objects import Caller
from interbed.catalog.server.service.errors import AccessDeniedError, NoSuchObjectError
from interbed.catalog.server.thrift.calls.grants import GrantHandler, NoGrantHandler
from interbed.thrift_idl.hive_metastore import ttypes
from tests.catalog.server.service.access.conftest import AccessLake, grantee, lake_on_sqlite
from tests.catalog.server.thrift.calls.test_grants import ORDERS, ROLE, USER, bag

CALLERS = {
    "stranger": Caller("stranger"),
    "reader": Caller("reader"),
    "grantor": Caller("grantor"),
    "leader": Caller("leader", frozenset({"leaders"})),
    "owner": Caller("olga"),
    "admin": Caller("root"),
}
"""`grantor` has SELECT with the grant option, the group of `leader` the admin option of the role `team`."""

GRANT, REVOKE = ttypes.GrantRevokeType.GRANT, ttypes.GrantRevokeType.REVOKE


def _role_request(kind: int) -> Any:
    return ttypes.GrantRevokeRoleRequest(
        requestType=kind, roleName="team", principalName="mia", principalType=USER, grantOption=False
    )


def _privilege_request(kind: int, bag_of: Any) -> Any:
    return ttypes.GrantRevokePrivilegeRequest(requestType=kind, privileges=bag_of)


def _of_principal(name: str, kind: int) -> Any:
    return ttypes.GetRoleGrantsForPrincipalRequest(principal_name=name, principal_type=kind)


CALLS: dict[str, tuple[str, Callable[[GrantHandler], object]]] = {
    "create_role": ("ddddda", lambda calls: calls.create_role(ttypes.Role(roleName="new"))),
    "drop_role": ("ddddda", lambda calls: calls.drop_role("team")),
    "get_role_names": ("nnnana", lambda calls: "team" in calls.get_role_names()),
    "list_roles": ("ddddda", lambda calls: calls.list_roles("mia", USER)),
    "grant_role": ("dddada", lambda calls: calls.grant_role("team", "zoe", USER, "", USER, False)),
    "revoke_role": ("dddada", lambda calls: calls.revoke_role("team", "mia", USER)),
    "grant_revoke_role": ("dddada", lambda calls: calls.grant_revoke_role(_role_request(REVOKE))),
    "get_principals_in_role": (
        "dddada",
        lambda calls: calls.get_principals_in_role(ttypes.GetPrincipalsInRoleRequest(roleName="team")),
    ),
    "get_role_grants_for_principal": (
        "ddddda",
        lambda calls: calls.get_role_grants_for_principal(_of_principal("mia", USER)),
    ),
    "get_privilege_set": ("mddmda", lambda calls: calls.get_privilege_set(ORDERS, "mia", [])),
    "list_privileges": ("mnnmaa", lambda calls: calls.list_privileges("mia", USER, ORDERS)),
    "grant_privileges": ("mdamaa", lambda calls: calls.grant_privileges(bag("SELECT", to="zoe"))),
    "revoke_privileges": ("mmmmaa", lambda calls: calls.revoke_privileges(bag("SELECT", to="mia"))),
    "grant_revoke_privileges": (
        "mdamaa",
        lambda calls: calls.grant_revoke_privileges(_privilege_request(GRANT, bag("SELECT", to="team", kind=ROLE))),
    ),
    "refresh_privileges": (
        "mddmda",
        lambda calls: calls.refresh_privileges(ORDERS, "", _privilege_request(GRANT, bag("SELECT", to="zoe"))),
    ),
}
"""Expected letters by method, in the order of CALLERS, and the call."""


def _filled(directory: Path) -> Iterator[AccessLake]:
    for lake in lake_on_sqlite(directory):
        orders = lake.add_table("orders", owner="olga")
        lake.access.create_role("team", None)
        lake.access.add_member("team", grantee("group:leaders"), None, admin_option=True)
        lake.access.add_member("team", grantee("user:mia"), None)
        lake.grant("SELECT", orders, "user:reader")
        lake.grant("SELECT", orders, "user:grantor", grant_option=True)
        lake.grant("SELECT", orders, "user:mia")
        yield lake


def _letter(lake: AccessLake, caller: Caller, call: Callable[[GrantHandler], object]) -> str:
    try:
        answer = call(GrantHandler(lake.access, lambda: caller))
    except AccessDeniedError:
        return "d"
    except NoSuchObjectError:
        return "m"
    return "a" if answer else "n"


@pytest.mark.parametrize("method", CALLS)
def test_callers_may_what_the_table_says(method: str, tmp_path: Path) -> None:
    expected, call = CALLS[method]
    found = ""
    lakes: list[Iterator[AccessLake]] = []
    lake: AccessLake | None = None
    for number, caller in enumerate(CALLERS.values()):
        if lake is None:
            lakes.append(_filled(tmp_path / str(number)))
            (tmp_path / str(number)).mkdir()
            lake = next(lakes[-1])
        found += _letter(lake, caller, call)
        if found[-1] == "a":
            # The next caller is to find it as it was.
            lake = None
    assert found == expected
    for each in lakes:
        assert next(each, None) is None


def test_every_call_has_a_row() -> None:
    assert set(CALLS) == {name for name in vars(NoGrantHandler) if not name.startswith("_")}
