"""The calls about access: roles and grants, of servers with the built-in authorizer and without; delegation tokens, and
the token store of HiveServer2.

Grants on functions and on catalogs other than `hive` have no form in Hive's interface; the first are left out of lists,
the second are privileges on GLOBAL with the name of the catalog. A reference to a column without a name is to all
columns of the table.

The text of a token has its password. It is in no log: the audit log has its sequence number.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from interbed.catalog.server.auth.delegation.tokens import DelegationTokenService
from interbed.catalog.server.auth.principals import Principal
from interbed.catalog.server.service.access.administration import AccessAdministration
from interbed.catalog.server.service.access.granting import GrantRequest
from interbed.catalog.server.service.access.objects import (
    SERVER,
    Caller,
    Grant,
    Grantee,
    GranteeKind,
    Privilege,
    RoleMember,
    SecuredKind,
    SecuredObject,
    catalog_object,
    column_object,
    database_object,
    role_named,
    table_object,
)
from interbed.catalog.server.service.errors import AccessDeniedError, InvalidObjectError, MetastoreError
from interbed.catalog.server.service.names import normalized, shortened
from interbed.catalog.server.service.service import Metastore
from interbed.catalog.server.thrift.structs.convert import GRANTEE_KINDS, split_catalog
from interbed.catalog.server.thrift.structs.requests import NO_PRIVILEGES
from interbed.thrift_idl.hive_metastore import ttypes

_NO_ROLES = "roles are not kept: every client may do everything, access is limited by connection"

_STANDARD = (Privilege.SELECT, Privilege.INSERT, Privilege.UPDATE, Privilege.DELETE)
"""The privileges of Hive's authorization by the SQL standard. It refuses a set that has others."""

_NUMBERS = {kind: number for number, kind in GRANTEE_KINDS.items()}


class GrantHandler:
    """The calls about roles and grants of a server with the built-in authorizer. `caller` returns that of a call."""

    def __init__(self, administration: AccessAdministration, caller: Callable[[], Caller | None]) -> None:
        self._administration = administration
        self._caller = caller

    def create_role(self, role: Any) -> bool:
        self._administration.create_role(role.roleName or "", self._caller())
        return True

    def drop_role(self, role_name: str) -> bool:
        self._administration.drop_role(role_name or "", self._caller())
        return True

    def get_role_names(self) -> list[str]:
        return [role.name for role in self._administration.roles(self._caller())]

    def list_roles(self, principal_name: str, principal_type: int) -> list[Any]:
        actor = self._caller()
        found = self._administration.memberships(_grantee(principal_name, principal_type), actor)
        known = {role.name: role for role in self._administration.roles(None)}
        return [
            ttypes.Role(
                roleName=each.role,
                createTime=known[each.role].created_at,
                ownerName=known[each.role].created_by or "",
            )
            for each in found
            if each.role in known
        ]

    def grant_role(
        self,
        role_name: str,
        principal_name: str,
        principal_type: int,
        grantor: str,
        grantorType: int,
        grant_option: bool,
    ) -> bool:
        self._administration.add_member(
            role_name or "",
            _grantee(principal_name, principal_type),
            self._caller(),
            admin_option=bool(grant_option),
            grantor=grantor or None,
        )
        return True

    def revoke_role(self, role_name: str, principal_name: str, principal_type: int) -> bool:
        member = _grantee(principal_name, principal_type)
        self._administration.remove_member(role_name or "", member, self._caller())
        return True

    def grant_revoke_role(self, request: Any) -> Any:
        member = _grantee(request.principalName, request.principalType)
        if request.requestType == ttypes.GrantRevokeType.GRANT:
            self._administration.add_member(
                request.roleName or "",
                member,
                self._caller(),
                admin_option=bool(request.grantOption),
                grantor=request.grantor or None,
            )
        else:
            self._administration.remove_member(
                request.roleName or "", member, self._caller(), admin_option_only=bool(request.grantOption)
            )
        return ttypes.GrantRevokeRoleResponse(success=True)

    def get_principals_in_role(self, request: Any) -> Any:
        found = self._administration.members(request.roleName or "", self._caller())
        return ttypes.GetPrincipalsInRoleResponse(principalGrants=[_role_grant(each) for each in found])

    def get_role_grants_for_principal(self, request: Any) -> Any:
        member = _grantee(request.principal_name, request.principal_type)
        found = self._administration.memberships(member, self._caller())
        return ttypes.GetRoleGrantsForPrincipalResponse(principalGrants=[_role_grant(each) for each in found])

    def get_privilege_set(self, hiveObject: Any, user_name: str, group_names: list[str]) -> Any:
        holder = Caller(user_name or "", frozenset(group_names or ()))
        on = _secured(hiveObject)
        if on.kind is SecuredKind.COLUMN:
            found = self._administration.grants_of(holder, on, self._caller())
        else:
            found = self._administration.effective_grants(holder, on, self._caller())
        answer = _no_privileges(user_name, group_names)
        names = {
            GranteeKind.USER: answer.userPrivileges,
            GranteeKind.GROUP: answer.groupPrivileges,
            GranteeKind.ROLE: answer.rolePrivileges,
        }
        for grant in found:
            held = [replace(grant, privilege=each) for each in _STANDARD if grant.covers(each)]
            names[grant.to.kind].setdefault(grant.to.name, []).extend(map(_grant_info, held))
        return answer

    def list_privileges(self, principal_name: str | None, principal_type: int | None, hiveObject: Any) -> list[Any]:
        to = None if not principal_name else _grantee(principal_name, principal_type)
        is_any = hiveObject is None or hiveObject.objectType is None
        on = None if is_any else _secured(hiveObject)
        found = self._administration.grants(self._caller(), on=on, to=to)
        shown = [grant for grant in found if grant.on.kind is not SecuredKind.FUNCTION and _is_asked(on, grant)]
        return [_object_privilege(grant) for grant in shown]

    def grant_privileges(self, privileges: Any) -> bool:
        self._administration.grant(_requests(privileges), self._caller())
        return True

    def revoke_privileges(self, privileges: Any) -> bool:
        self._administration.revoke(_requests(privileges), self._caller())
        return True

    def grant_revoke_privileges(self, request: Any) -> Any:
        if request.requestType == ttypes.GrantRevokeType.GRANT:
            self.grant_privileges(request.privileges)
        else:
            self._administration.revoke(
                _requests(request.privileges), self._caller(), grant_option_only=bool(request.revokeGrantOption)
            )
        return ttypes.GrantRevokePrivilegeResponse(success=True)

    def refresh_privileges(self, objToRefresh: Any, authorizer: str, grantRequest: Any) -> Any:
        bag = None if grantRequest is None else grantRequest.privileges
        self._administration.replace_grants(_secured(objToRefresh), _requests(bag), self._caller())
        return ttypes.GrantRevokePrivilegeResponse(success=True)


class NoGrantHandler:
    """The calls about roles and grants of a server that keeps none; clients continue when there are none."""

    def get_role_names(self) -> list[str]:
        return ["admin", "public"]

    def list_roles(self, principal_name: str, principal_type: int) -> list[Any]:
        return []

    def get_principals_in_role(self, request: Any) -> Any:
        return ttypes.GetPrincipalsInRoleResponse(principalGrants=[])

    def get_role_grants_for_principal(self, request: Any) -> Any:
        return ttypes.GetRoleGrantsForPrincipalResponse(principalGrants=[])

    def get_privilege_set(self, hiveObject: Any, user_name: str, group_names: list[str]) -> Any:
        return _no_privileges(user_name, group_names)

    def list_privileges(self, principal_name: str, principal_type: int, hiveObject: Any) -> list[Any]:
        return []

    def create_role(self, role: Any) -> bool:
        raise MetastoreError(_NO_ROLES)

    def drop_role(self, role_name: str) -> bool:
        raise MetastoreError(_NO_ROLES)

    def grant_role(
        self,
        role_name: str,
        principal_name: str,
        principal_type: int,
        grantor: str,
        grantorType: int,
        grant_option: bool,
    ) -> bool:
        raise MetastoreError(_NO_ROLES)

    def revoke_role(self, role_name: str, principal_name: str, principal_type: int) -> bool:
        raise MetastoreError(_NO_ROLES)

    def grant_revoke_role(self, request: Any) -> Any:
        raise MetastoreError(_NO_ROLES)

    def grant_privileges(self, privileges: Any) -> bool:
        return _nothing_in(privileges)

    def revoke_privileges(self, privileges: Any) -> bool:
        return _nothing_in(privileges)

    def grant_revoke_privileges(self, request: Any) -> Any:
        return ttypes.GrantRevokePrivilegeResponse(success=_nothing_in(request.privileges))

    def refresh_privileges(self, objToRefresh: Any, authorizer: str, grantRequest: Any) -> Any:
        return ttypes.GrantRevokePrivilegeResponse(success=_nothing_in(grantRequest and grantRequest.privileges))


def _nothing_in(privileges: Any) -> bool:
    """Return whether a bag holds no privileges. Others are refused, because they would not be stored."""
    if privileges is not None and privileges.privileges:
        raise MetastoreError(NO_PRIVILEGES)
    return True


# -- requests ----------------------------------------------------------------------------------------------------------


def _requests(bag: Any) -> list[GrantRequest]:
    """Return the requests of a bag."""
    return [
        GrantRequest(
            privilege=_privilege(each.grantInfo.privilege),
            on=_secured(each.hiveObject),
            to=_grantee(each.principalName, each.principalType),
            grant_option=bool(each.grantInfo.grantOption),
            grantor=each.grantInfo.grantor or None,
        )
        for each in (() if bag is None else bag.privileges or ())
    ]


def _grantee(name: str | None, number: int | None) -> Grantee:
    if number is not None and number not in GRANTEE_KINDS:
        raise InvalidObjectError(f"there is no type of principals with the number {number}")
    kind = GranteeKind.USER if number is None else GRANTEE_KINDS[number]
    return role_named(name or "") if kind is GranteeKind.ROLE else Grantee(kind, name or "")


def _privilege(name: str | None) -> Privilege:
    try:
        return Privilege((name or "").strip().upper())
    except ValueError:
        raise InvalidObjectError(f"there is no privilege {shortened(name)}; there are {', '.join(Privilege)}") from None


def _secured(ref: Any) -> SecuredObject:
    """Return the object of a reference. InvalidObjectError for partitions."""
    kind = ref.objectType
    if kind == ttypes.HiveObjectType.PARTITION or ref.partValues:
        raise InvalidObjectError("privileges on partitions are not kept: grant them on the table")
    if ref.columnName and kind not in (ttypes.HiveObjectType.COLUMN, ttypes.HiveObjectType.TABLE):
        raise InvalidObjectError(f"the reference names the column {shortened(ref.columnName)}, and no table")
    catalog, database = split_catalog(ref.dbName, ref.catName)
    match kind:
        case ttypes.HiveObjectType.GLOBAL:
            return SERVER if not ref.catName else catalog_object(normalized(ref.catName))
        case ttypes.HiveObjectType.DATABASE:
            return database_object(catalog, normalized(database or ref.objectName))
        case ttypes.HiveObjectType.TABLE | ttypes.HiveObjectType.COLUMN:
            table = table_object(catalog, normalized(database), normalized(ref.objectName))
            is_column = bool(ref.columnName) or kind == ttypes.HiveObjectType.COLUMN
            return column_object(table, normalized(ref.columnName) or None) if is_column else table
        case _:
            raise InvalidObjectError(f"privileges on objects of the type {kind} are not kept")


def _is_asked(on: SecuredObject | None, grant: Grant) -> bool:
    """Return whether a grant is on the object of a reference: those on its columns have references of their own."""
    return on is None or on.kind is SecuredKind.COLUMN or grant.on == on


# -- answers -----------------------------------------------------------------------------------------------------------


def _no_privileges(user_name: str | None, group_names: Sequence[str] | None) -> Any:
    """Return the privileges of a user and groups that have none. HiveServer2 refuses an answer without the user."""
    return ttypes.PrincipalPrivilegeSet(
        userPrivileges={user_name: []} if user_name else {},
        groupPrivileges={name: [] for name in group_names or ()},
        rolePrivileges={},
    )


def _role_grant(each: RoleMember) -> Any:
    return ttypes.RolePrincipalGrant(
        roleName=each.role,
        principalName=each.member.name,
        principalType=_NUMBERS[each.member.kind],
        grantOption=each.admin_option,
        grantTime=each.granted_at,
        grantorName=each.grantor or "",
        grantorPrincipalType=ttypes.PrincipalType.USER,
    )


def _grant_info(grant: Grant) -> Any:
    return ttypes.PrivilegeGrantInfo(
        privilege=str(grant.privilege),
        createTime=grant.granted_at,
        grantor=grant.grantor or "",
        grantorType=ttypes.PrincipalType.USER,
        grantOption=grant.grant_option,
    )


def _object_privilege(grant: Grant) -> Any:
    on = grant.on
    kinds = {
        SecuredKind.DATABASE: ttypes.HiveObjectType.DATABASE,
        SecuredKind.TABLE: ttypes.HiveObjectType.TABLE,
        SecuredKind.COLUMN: ttypes.HiveObjectType.COLUMN,
    }
    ref = ttypes.HiveObjectRef(
        objectType=kinds.get(on.kind, ttypes.HiveObjectType.GLOBAL),
        dbName=on.database,
        objectName=on.name,
        # A list, even an empty one, would mean a column of a partition to Hive's own server.
        partValues=None if on.kind is SecuredKind.COLUMN else [],
        columnName=on.column,
        catName=on.catalog,
    )
    return ttypes.HiveObjectPrivilege(
        hiveObject=ref,
        principalName=grant.to.name,
        principalType=_NUMBERS[grant.to.kind],
        grantInfo=_grant_info(grant),
        authorizer="SQL",
    )


_NOT_ISSUED = (
    "this server issues no delegation tokens: have delegation-token and another mechanism in its setting "
    "`authentication`"
)


class DelegationHandler:
    """The calls about delegation tokens of a server that issues them. `caller` returns the principal of a call and its
    address, None for a client that is not authenticated.
    """

    def __init__(self, tokens: DelegationTokenService, caller: Callable[[], tuple[Principal, str] | None]) -> None:
        self._tokens = tokens
        self._find_caller = caller

    def get_delegation_token(self, token_owner: str, renewer_kerberos_principal_name: str) -> str:
        caller, peer = self._caller()
        return self._tokens.issue(caller, token_owner or "", renewer_kerberos_principal_name or "", peer)

    def renew_delegation_token(self, token_str_form: str) -> int:
        return self._tokens.renew(self._caller()[0], token_str_form or "")

    def cancel_delegation_token(self, token_str_form: str) -> None:
        self._tokens.cancel(self._caller()[0], token_str_form or "")

    def _caller(self) -> tuple[Principal, str]:
        """Return the principal of the present call, and its address."""
        found = self._find_caller()
        if found is None:
            raise AccessDeniedError("delegation tokens are for authenticated clients, and this one is not")
        return found


class NoDelegationHandler:
    """The calls about delegation tokens of a server that issues none."""

    def get_delegation_token(self, token_owner: str, renewer_kerberos_principal_name: str) -> str:
        raise MetastoreError(_NOT_ISSUED)

    def renew_delegation_token(self, token_str_form: str) -> int:
        raise MetastoreError(_NOT_ISSUED)

    def cancel_delegation_token(self, token_str_form: str) -> None:
        raise MetastoreError(_NOT_ISSUED)


class TokenStoreHandler:
    """The calls of HiveServer2's token store."""

    def __init__(self, metastore: Metastore) -> None:
        self._store = metastore.token_store

    def add_token(self, token_identifier: str, delegation_token: str) -> bool:
        return self._store.add_token(token_identifier or "", delegation_token or "")

    def remove_token(self, token_identifier: str) -> bool:
        return self._store.remove_token(token_identifier or "")

    def get_token(self, token_identifier: str) -> str:
        # Thrift has no null results.
        return self._store.token(token_identifier or "") or ""

    def get_all_token_identifiers(self) -> list[str]:
        return list(self._store.identifiers())

    def add_master_key(self, key: str) -> int:
        return self._store.add_key(key or "")

    def update_master_key(self, seq_number: int, key: str) -> None:
        self._store.replace_key(seq_number, key or "")

    def remove_master_key(self, key_seq: int) -> bool:
        return self._store.remove_key(key_seq)

    def get_master_keys(self) -> list[str]:
        return list(self._store.keys())
