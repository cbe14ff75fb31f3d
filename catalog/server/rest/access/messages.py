"""JSON of the routes about roles and grants, and its forms in the service.

An object is `{"kind": "table", "catalog": "hive", "database": "sales", "name": "orders"}`; the kinds are server,
catalog, database, table (also for views), function and column, which has a `column` beside the names of its table. A
grantee is `{"kind": "user", "name": "ann"}`; the kinds are
user, group and role.
"""

from collections.abc import Mapping, Sequence

import msgspec

from interbed.catalog.server.service.access.granting import GrantRequest
from interbed.catalog.server.service.access.objects import (
    SERVER,
    Grant,
    Grantee,
    GranteeKind,
    PolicyKind,
    Privilege,
    Role,
    RoleMember,
    SecuredKind,
    SecuredObject,
    TablePolicy,
    catalog_object,
    database_object,
    role_named,
)
from interbed.catalog.server.service.errors import InvalidObjectError
from interbed.catalog.server.service.names import normalized, shortened


class ObjectJson(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """An object of privileges; names that its kind lacks are left out."""

    kind: SecuredKind
    catalog: str | None = None
    database: str | None = None
    name: str | None = None
    column: str | None = None


class GranteeJson(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A user, a group or a role."""

    kind: GranteeKind
    name: str


class NewRole(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The body that creates a role."""

    name: str


class NewMember(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, rename="kebab"):
    """The body that makes a grantee a member of a role."""

    member: GranteeJson
    admin_option: bool = False


class LostMember(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, rename="kebab"):
    """The body that removes a member of a role, or only its admin option."""

    member: GranteeJson
    admin_option_only: bool = False


class GrantJson(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, rename="kebab"):
    """A privilege on an object for a grantee. In a revocation the grant option does not count."""

    privilege: Privilege
    on: ObjectJson
    to: GranteeJson
    grant_option: bool = False


class NewGrants(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The body that gives privileges, all or none."""

    grants: list[GrantJson]


class GrantsToRevoke(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, rename="kebab"):
    """The body that revokes privileges, all or none. With `cascade` the grants that depend on them are revoked, too."""

    grants: list[GrantJson]
    grant_option_only: bool = False
    cascade: bool = False


class NewPolicy(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The body that sets a row filter of a table, or with `column` the mask of a column, in place of the policy of its
    name. It binds the grantees of `to` that are not in `except`.
    """

    on: ObjectJson
    name: str
    expression: str
    to: list[GranteeJson]
    exempt: list[GranteeJson] = msgspec.field(name="except", default_factory=list)
    column: str | None = None


class PolicyToDrop(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The body that removes a policy of a table."""

    on: ObjectJson
    name: str


class PolicyAnswer(msgspec.Struct, kw_only=True):
    """A row filter, or the mask of a column. `created-at` is in seconds since the epoch."""

    name: str
    kind: PolicyKind
    column: str | None
    expression: str
    to: list[GranteeJson]
    exempt: list[GranteeJson] = msgspec.field(name="except")
    created_by: str | None = msgspec.field(name="created-by")
    created_at: int = msgspec.field(name="created-at")


class PoliciesAnswer(msgspec.Struct, kw_only=True):
    """The policies of a table, ordered by name."""

    policies: list[PolicyAnswer]


class RoleAnswer(msgspec.Struct, kw_only=True, rename="kebab"):
    """A role. `created-at` is in seconds since the epoch."""

    name: str
    created_by: str | None
    created_at: int


class RolesAnswer(msgspec.Struct, kw_only=True):
    """The roles, ordered by name."""

    roles: list[RoleAnswer]


class MemberAnswer(msgspec.Struct, kw_only=True, rename="kebab"):
    """A membership in a role. `granted-at` is in seconds since the epoch."""

    role: str
    member: GranteeJson
    admin_option: bool
    grantor: str | None
    granted_at: int


class MembersAnswer(msgspec.Struct, kw_only=True):
    """Memberships of grantees in roles."""

    members: list[MemberAnswer]


class CurrentAnswer(msgspec.Struct, kw_only=True):
    """The caller: its name, its groups, and the roles that it has, directly or by groups and other roles."""

    name: str
    groups: list[str]
    roles: list[str]


class GrantAnswer(msgspec.Struct, kw_only=True, rename="kebab"):
    """A grant. `grantor` is the user that gave it; `granted-at` is in seconds since the epoch."""

    privilege: Privilege
    on: ObjectJson
    to: GranteeJson
    grant_option: bool
    grantor: str | None
    granted_at: int


class GrantsAnswer(msgspec.Struct, kw_only=True):
    """Grants, the oldest first."""

    grants: list[GrantAnswer]


class EffectiveAnswer(msgspec.Struct, kw_only=True):
    """The privileges that a user with some groups has on an object, by grants, roles and ownership."""

    principal: str
    groups: list[str]
    on: ObjectJson
    privileges: list[Privilege]


class ExplanationAnswer(msgspec.Struct, kw_only=True, rename="kebab"):
    """Whether a user has a privilege on an object, and why: its roles, each with its path, its grants on the object and
    on what the object lies in, and what permits it. `way-out` is a grant that would, empty if it is permitted.
    """

    permitted: bool
    principal: str
    groups: list[str]
    privilege: Privilege
    on: ObjectJson
    roles: list[str]
    grants: list[GrantAnswer]
    reasons: list[str]
    way_out: str


_NAMES: Mapping[SecuredKind, Sequence[str]] = {
    SecuredKind.SERVER: (),
    SecuredKind.CATALOG: ("catalog",),
    SecuredKind.DATABASE: ("catalog", "database"),
    SecuredKind.TABLE: ("catalog", "database", "name"),
    SecuredKind.FUNCTION: ("catalog", "database", "name"),
    SecuredKind.COLUMN: ("catalog", "database", "name", "column"),
}


def object_of(given: ObjectJson) -> SecuredObject:
    """Return the object of JSON. InvalidObjectError if a name of its kind is missing, or one too many."""
    names = {"catalog": given.catalog, "database": given.database, "name": given.name, "column": given.column}
    wanted = _NAMES[given.kind]
    if any((names[each] is not None) != (each in wanted) for each in names):
        raise InvalidObjectError(f"an object of the kind {given.kind} has {' and '.join(wanted) or 'no names'}")
    catalog, database = normalized(given.catalog or ""), normalized(given.database or "")
    match given.kind:
        case SecuredKind.SERVER:
            return SERVER
        case SecuredKind.CATALOG:
            return catalog_object(catalog)
        case SecuredKind.DATABASE:
            return database_object(catalog, database)
        case kind:
            column = None if given.column is None else normalized(given.column)
            return SecuredObject(kind, catalog, database, normalized(given.name or ""), column)


def object_json(on: SecuredObject) -> ObjectJson:
    """Return the JSON of an object."""
    return ObjectJson(kind=on.kind, catalog=on.catalog, database=on.database, name=on.name, column=on.column)


def grantee_of(given: GranteeJson) -> Grantee:
    """Return the grantee of JSON."""
    return role_named(given.name) if given.kind is GranteeKind.ROLE else Grantee(given.kind, given.name)


def requests_of(given: Sequence[GrantJson]) -> list[GrantRequest]:
    """Return the requests of a body. InvalidObjectError for none, and for an object that cannot be."""
    if not given:
        raise InvalidObjectError("the body has no grants")
    return [
        GrantRequest(
            privilege=each.privilege, on=object_of(each.on), to=grantee_of(each.to), grant_option=each.grant_option
        )
        for each in given
    ]


def policy_of(given: NewPolicy) -> TablePolicy:
    """Return the policy of a body."""
    return TablePolicy(
        name=given.name,
        kind=PolicyKind.FILTER if given.column is None else PolicyKind.MASK,
        column=given.column,
        expression=given.expression,
        bound=tuple(map(grantee_of, given.to)),
        exempt=tuple(map(grantee_of, given.exempt)),
    )


def policy_answer(policy: TablePolicy) -> PolicyAnswer:
    """Return the JSON of a policy."""
    return PolicyAnswer(
        name=policy.name,
        kind=policy.kind,
        column=policy.column,
        expression=policy.expression,
        to=[GranteeJson(kind=each.kind, name=each.name) for each in policy.bound],
        exempt=[GranteeJson(kind=each.kind, name=each.name) for each in policy.exempt],
        created_by=policy.created_by,
        created_at=policy.created_at,
    )


def role_answer(role: Role) -> RoleAnswer:
    """Return the JSON of a role."""
    return RoleAnswer(name=role.name, created_by=role.created_by, created_at=role.created_at)


def member_answer(each: RoleMember) -> MemberAnswer:
    """Return the JSON of a membership."""
    return MemberAnswer(
        role=each.role,
        member=GranteeJson(kind=each.member.kind, name=each.member.name),
        admin_option=each.admin_option,
        grantor=each.grantor,
        granted_at=each.granted_at,
    )


def grant_answer(grant: Grant) -> GrantAnswer:
    """Return the JSON of a grant."""
    return GrantAnswer(
        privilege=grant.privilege,
        on=object_json(grant.on),
        to=GranteeJson(kind=grant.to.kind, name=grant.to.name),
        grant_option=grant.grant_option,
        grantor=grant.grantor,
        granted_at=grant.granted_at,
    )


def shown_request(each: GrantJson) -> str:
    """Return a grant of a body as the audit log has it: `SELECT on hive.sales.orders for user ann`."""
    parts = (each.on.catalog, each.on.database, each.on.name, each.on.column)
    names = [name for name in parts if name is not None]
    option = " with grant option" if each.grant_option else ""
    on = ".".join(names) or "the server"
    return shortened(f"{each.privilege} on {on} for {each.to.kind} {each.to.name}{option}")
