"""Calls of Hive's Thrift interface about roles and grants, which interbed's server and Java metastores have.

Hive's interface has no privileges on functions and catalogs, no revocation of dependent grants, and no policies.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from thrift.Thrift import TException

from interbed.catalog.client.access.grants import (
    AccessGrant,
    AccessPolicy,
    GrantHolder,
    GrantObject,
    Privileges,
    RoleMembership,
)
from interbed.catalog.client.errors import CatalogError
from interbed.storage.base.errors import InterbedError, InvalidInputError, NotSupportedError
from interbed.thrift_idl.hive_metastore import ttypes

T = TypeVar("T")

_KINDS = {
    "user": ttypes.PrincipalType.USER,
    "group": ttypes.PrincipalType.GROUP,
    "role": ttypes.PrincipalType.ROLE,
}
_OBJECTS = {
    "server": ttypes.HiveObjectType.GLOBAL,
    "database": ttypes.HiveObjectType.DATABASE,
    "table": ttypes.HiveObjectType.TABLE,
    "column": ttypes.HiveObjectType.COLUMN,
}
_WRONG = (ttypes.NoSuchObjectException, ttypes.AlreadyExistsException, ttypes.InvalidObjectException)


class ThriftCalls(Protocol):
    """The way to a metastore, as the client of Hive metastores has it."""

    def read(self, call: Callable[[Any], T]) -> T:
        """Make a call that may be made twice."""
        ...

    def change(self, call: Callable[[Any], T]) -> T:
        """Make a call that must not be made twice."""
        ...


class ThriftGrants:
    """The roles and grants of one metastore. `user` is the name that calls are made for. Safe for many threads."""

    def __init__(self, calls: ThriftCalls, uri: str, user: str) -> None:
        self._calls = calls
        self._uri = uri
        self._user = user

    def roles(self) -> Sequence[str]:
        """Return the names of the roles."""
        return sorted(self._read("list roles", lambda client: client.get_role_names()))

    def current_roles(self) -> Sequence[str]:
        """Return the roles of the user, directly and by other roles; the groups of the user are not known here."""
        found: set[str] = set()
        waiting = [(self._user, ttypes.PrincipalType.USER)]
        while waiting:
            for each in self._memberships(*waiting.pop()):
                if each.roleName not in found:
                    found.add(each.roleName)
                    waiting.append((each.roleName, ttypes.PrincipalType.ROLE))
        return sorted(found)

    def _memberships(self, name: str, kind: int) -> Sequence[Any]:
        request = ttypes.GetRoleGrantsForPrincipalRequest(name, kind)
        answer = self._read(f"list the roles of {name}", lambda client: client.get_role_grants_for_principal(request))
        return answer.principalGrants or ()

    def create_role(self, name: str) -> None:
        role = ttypes.Role(roleName=name, ownerName=self._user)
        self._change(f"create the role {name}", lambda client: client.create_role(role))

    def drop_role(self, name: str) -> None:
        self._change(f"drop the role {name}", lambda client: client.drop_role(name))

    def members(self, role: str) -> Sequence[RoleMembership]:
        """Return the members of a role."""
        request = ttypes.GetPrincipalsInRoleRequest(role)
        answer = self._read(f"list the members of {role}", lambda client: client.get_principals_in_role(request))
        return [
            RoleMembership(
                role=each.roleName,
                member=_holder(each.principalName, each.principalType),
                admin_option=bool(each.grantOption),
                grantor=each.grantorName or None,
                granted_at=each.grantTime or 0,
            )
            for each in answer.principalGrants or ()
        ]

    def add_member(self, role: str, member: GrantHolder, *, admin_option: bool) -> None:
        """Make a grantee a member of a role."""
        request = self._role_request(ttypes.GrantRevokeType.GRANT, role, member, admin_option)
        self._change(f"grant the role {role} to the {member}", lambda client: client.grant_revoke_role(request))

    def remove_member(self, role: str, member: GrantHolder, *, admin_option_only: bool) -> None:
        """Remove a member of a role, or only its admin option."""
        request = self._role_request(ttypes.GrantRevokeType.REVOKE, role, member, admin_option_only)
        self._change(f"revoke the role {role} from the {member}", lambda client: client.grant_revoke_role(request))

    def grants(self, on: GrantObject | None, to: GrantHolder | None) -> Sequence[AccessGrant]:
        """Return the grants on an object and to a grantee."""
        ref = None if on is None else _ref(on)
        name, kind = (None, None) if to is None else (to.name, _KINDS[to.kind])
        found = self._read("list privileges", lambda client: client.list_privileges(name, kind, ref))
        return [_grant(each) for each in found]

    def grant(self, privileges: Privileges, to: GrantHolder, *, grant_option: bool) -> None:
        """Give privileges, all or none."""
        request = ttypes.GrantRevokePrivilegeRequest(
            requestType=ttypes.GrantRevokeType.GRANT, privileges=_bag(privileges, to, grant_option=grant_option)
        )
        self._change(
            f"grant {_listed(privileges)} to the {to}",
            lambda client: client.grant_revoke_privileges(request),
        )

    def revoke(self, privileges: Privileges, to: GrantHolder, *, grant_option_only: bool, cascade: bool) -> None:
        """Revoke privileges, all or none, or only their grant options."""
        if cascade:
            raise NotSupportedError(
                "Hive's interface has no revocation with CASCADE: use a catalog with 'metastore' = 'rest', or "
                "`interbed metastore revoke --cascade` on the server."
            )
        request = ttypes.GrantRevokePrivilegeRequest(
            requestType=ttypes.GrantRevokeType.REVOKE,
            privileges=_bag(privileges, to, grant_option=grant_option_only),
            revokeGrantOption=grant_option_only,
        )
        self._change(
            f"revoke {_listed(privileges)} from the {to}",
            lambda client: client.grant_revoke_privileges(request),
        )

    def policies(self, on: GrantObject) -> Sequence[AccessPolicy]:
        raise _no_policies(on)

    def set_policy(self, on: GrantObject, policy: AccessPolicy) -> None:
        raise _no_policies(on)

    def drop_policy(self, on: GrantObject, name: str) -> None:
        raise _no_policies(on)

    def _role_request(self, kind: int, role: str, member: GrantHolder, option: bool) -> Any:
        # Without a grantor it is the caller.
        return ttypes.GrantRevokeRoleRequest(
            requestType=kind,
            roleName=role,
            principalName=member.name,
            principalType=_KINDS[member.kind],
            grantorType=ttypes.PrincipalType.USER,
            grantOption=option,
        )

    def _read(self, what: str, call: Callable[[Any], Any]) -> Any:
        try:
            return self._calls.read(call)
        except TException as error:
            raise self._refused(what, error) from error

    def _change(self, what: str, call: Callable[[Any], Any]) -> None:
        try:
            self._calls.change(call)
        except TException as error:
            raise self._refused(what, error) from error

    def _refused(self, what: str, error: TException) -> InterbedError:
        message = f"the metastore {self._uri} refused to {what}: {getattr(error, 'message', None) or error}"
        return InvalidInputError(message) if isinstance(error, _WRONG) else CatalogError(message)


def _no_policies(on: GrantObject) -> NotSupportedError:
    return NotSupportedError(
        f"Hive's interface has no row filters and column masks, as for the {on}: use a catalog with 'metastore' = "
        "'rest', or `interbed metastore policy` on the server."
    )


def _ref(on: GrantObject) -> Any:
    if on.kind not in _OBJECTS:
        raise NotSupportedError(
            f"Hive's interface has no privileges on a {on.kind}: use a catalog with 'metastore' = 'rest', or "
            "`interbed metastore grant` on the server."
        )
    return ttypes.HiveObjectRef(
        objectType=_OBJECTS[on.kind],
        dbName=on.database,
        objectName=on.database if on.kind == "database" else on.name,
        # A list, even an empty one, would mean a column of a partition to Hive's own server.
        partValues=None if on.kind == "column" else [],
        columnName=on.column,
        catName=None if on.kind == "server" else on.catalog,
    )


def _listed(privileges: Privileges) -> str:
    return ", ".join(f"{name} on the {on}" for name, on in privileges)


def _bag(privileges: Privileges, to: GrantHolder, *, grant_option: bool) -> Any:
    return ttypes.PrivilegeBag(
        privileges=[
            ttypes.HiveObjectPrivilege(
                hiveObject=_ref(on),
                principalName=to.name,
                principalType=_KINDS[to.kind],
                grantInfo=ttypes.PrivilegeGrantInfo(
                    privilege=each, grantorType=ttypes.PrincipalType.USER, grantOption=grant_option
                ),
                authorizer="SQL",
            )
            for each, on in privileges
        ]
    )


def _holder(name: str, number: int | None) -> GrantHolder:
    return GrantHolder(kind=next((kind for kind, each in _KINDS.items() if each == number), "user"), name=name)


def _grant(each: Any) -> AccessGrant:
    ref, info = each.hiveObject, each.grantInfo
    kind = next((kind for kind, number in _OBJECTS.items() if number == ref.objectType), "server")
    if kind == "server" and ref.catName:
        kind = "catalog"
    return AccessGrant(
        privilege=info.privilege,
        on=GrantObject(
            kind=kind,
            catalog=ref.catName or None,
            database=ref.dbName if kind != "server" else None,
            name=ref.objectName if kind in ("table", "column") else None,
            column=ref.columnName if kind == "column" else None,
        ),
        to=_holder(each.principalName, each.principalType),
        grant_option=bool(info.grantOption),
        grantor=info.grantor or None,
        granted_at=info.createTime or 0,
    )
