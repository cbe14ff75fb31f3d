"""The routes about roles, grants and policies, below `/interbed/v1/access`.

    GET    roles                            POST roles
    DELETE roles/{role}
    GET    roles/{role}/members             POST roles/{role}/members        POST roles/{role}/members/remove
    GET    memberships?kind=&name=          GET  current
    GET    grants?kind=&...&grantee=        POST grants                      POST grants/revoke
    GET    policies?kind=table&...          POST policies                    POST policies/drop
    GET    effective?principal=&group=&...  GET  why-denied?principal=&privilege=&...

What callers may do here is decided by the rules of Hive (service/access/administration.py): each route needs an
authenticated caller, and asks these rules. A query names an object by `kind`, `catalog`, `database` and `name`; groups
are separated by commas.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import wraps
from http import HTTPStatus
from typing import TypeVar

import msgspec

from interbed.catalog.server.rest.access import messages
from interbed.catalog.server.rest.access.messages import (
    GranteeJson,
    ObjectJson,
    grant_answer,
    grantee_of,
    member_answer,
    object_json,
    object_of,
    policy_answer,
    policy_of,
    requests_of,
    role_answer,
)
from interbed.catalog.server.rest.interface import (
    NO_CONTENT,
    ObjectKind,
    RestError,
    RestRequest,
    RestResponse,
    RestRoute,
    json_response,
    route,
)
from interbed.catalog.server.service.access.administration import AccessAdministration
from interbed.catalog.server.service.access.objects import (
    COLUMN_PRIVILEGES,
    SERVER,
    Access,
    Caller,
    Grantee,
    GranteeKind,
    Privilege,
    SecuredKind,
    SecuredObject,
    group_named,
    role_named,
    user_named,
)
from interbed.catalog.server.service.access.policies import PolicyAdministration
from interbed.catalog.server.service.errors import AccessDeniedError
from interbed.catalog.server.service.names import shortened
from interbed.catalog.server.service.service import Metastore

E = TypeVar("E", bound=StrEnum)

ROOT = "v1/access"

OBJECT = ("kind", "catalog", "database", "name", "column")
"""Parameters of a query that name an object."""

NO_ROLES = (
    "this server keeps no roles and grants: start it with access_authorizer = builtin, or change them where its "
    "authorizer keeps them"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationMessages:
    """Messages of an operation: the parameters of its query, with those that it needs, and the types of both bodies."""

    query: Sequence[str] = ()
    needed: Sequence[str] = ()
    body: type[msgspec.Struct] | None = None
    answer: type[msgspec.Struct] | None = None


MESSAGES: Mapping[str, OperationMessages] = {
    "listRoles": OperationMessages(answer=messages.RolesAnswer),
    "createRole": OperationMessages(body=messages.NewRole),
    "dropRole": OperationMessages(),
    "listMembers": OperationMessages(answer=messages.MembersAnswer),
    "addMember": OperationMessages(body=messages.NewMember),
    "removeMember": OperationMessages(body=messages.LostMember),
    "listMemberships": OperationMessages(
        query=("kind", "name"), needed=("kind", "name"), answer=messages.MembersAnswer
    ),
    "currentCaller": OperationMessages(answer=messages.CurrentAnswer),
    "listGrants": OperationMessages(query=(*OBJECT, "grantee-kind", "grantee"), answer=messages.GrantsAnswer),
    "grant": OperationMessages(body=messages.NewGrants),
    "revoke": OperationMessages(body=messages.GrantsToRevoke, answer=messages.GrantsAnswer),
    "listPolicies": OperationMessages(query=OBJECT, needed=OBJECT, answer=messages.PoliciesAnswer),
    "setPolicy": OperationMessages(body=messages.NewPolicy),
    "dropPolicy": OperationMessages(body=messages.PolicyToDrop),
    "effectivePrivileges": OperationMessages(
        query=("principal", "groups", *OBJECT), needed=("principal", "kind"), answer=messages.EffectiveAnswer
    ),
    "whyDenied": OperationMessages(
        query=("principal", "groups", "privilege", *OBJECT),
        needed=("principal", "privilege", "kind"),
        answer=messages.ExplanationAnswer,
    ),
}
"""The messages of the operations."""


class AccessRoutes:
    """The routes about the roles and grants of a metastore. Without an administration each answers that it has none."""

    def __init__(
        self,
        metastore: Metastore,
        administration: AccessAdministration | None,
        policies: PolicyAdministration | None = None,
    ) -> None:
        self._access = metastore.access
        self._found = administration
        self._policies = policies

    def routes(self) -> Sequence[RestRoute]:
        """Return the routes. The administration decides what a caller may do."""
        roles, members, grants = f"{ROOT}/roles", f"{ROOT}/roles/{{role}}/members", f"{ROOT}/grants"
        policies = f"{ROOT}/policies"
        return [
            self._read("GET", roles, "listRoles", self.list_roles),
            self._change("POST", roles, "createRole", self.create_role, _named_role),
            self._change("DELETE", f"{roles}/{{role}}", "dropRole", self.drop_role, _no_subject),
            self._read("GET", members, "listMembers", self.list_members),
            self._change("POST", members, "addMember", self.add_member, _named_member),
            self._change("POST", f"{members}/remove", "removeMember", self.remove_member, _named_member),
            self._read("GET", f"{ROOT}/memberships", "listMemberships", self.memberships),
            self._read("GET", f"{ROOT}/current", "currentCaller", self.current),
            self._read("GET", grants, "listGrants", self.list_grants),
            self._change("POST", grants, "grant", self.grant, _named_grants),
            self._change("POST", f"{grants}/revoke", "revoke", self.revoke, _named_grants),
            self._read("GET", policies, "listPolicies", self.list_policies),
            self._change("POST", policies, "setPolicy", self.set_policy, _named_policy),
            self._change("POST", f"{policies}/drop", "dropPolicy", self.drop_policy, _named_policy),
            self._read("GET", f"{ROOT}/effective", "effectivePrivileges", self.effective),
            self._read("GET", f"{ROOT}/why-denied", "whyDenied", self.why_denied),
        ]

    # -- roles ---------------------------------------------------------------------------------------------------------

    def list_roles(self, request: RestRequest) -> RestResponse:
        """Return the roles that the caller sees: all for administrators, for others those that they have."""
        found = self._administration.roles(self._access.caller())
        return json_response(messages.RolesAnswer(roles=[role_answer(each) for each in found]))

    def create_role(self, request: RestRequest) -> RestResponse:
        """Create a new role, which has no members."""
        self._administration.create_role(request.json(messages.NewRole).name, self._access.caller())
        return NO_CONTENT

    def drop_role(self, request: RestRequest) -> RestResponse:
        """Drop a role with its members, its memberships and its grants."""
        self._administration.drop_role(request.parts["role"], self._access.caller())
        return NO_CONTENT

    def list_members(self, request: RestRequest) -> RestResponse:
        """Return the members of a role."""
        found = self._administration.members(request.parts["role"], self._access.caller())
        return json_response(messages.MembersAnswer(members=[member_answer(each) for each in found]))

    def add_member(self, request: RestRequest) -> RestResponse:
        """Make a grantee a member of a role."""
        given = request.json(messages.NewMember)
        self._administration.add_member(
            request.parts["role"], grantee_of(given.member), self._access.caller(), admin_option=given.admin_option
        )
        return NO_CONTENT

    def remove_member(self, request: RestRequest) -> RestResponse:
        """Remove a member of a role, or only its admin option."""
        given = request.json(messages.LostMember)
        self._administration.remove_member(
            request.parts["role"],
            grantee_of(given.member),
            self._access.caller(),
            admin_option_only=given.admin_option_only,
        )
        return NO_CONTENT

    def memberships(self, request: RestRequest) -> RestResponse:
        """Return the roles that a grantee is a direct member of."""
        member = grantee_of(
            GranteeJson(kind=_one_of(GranteeKind, request, "kind"), name=_needed(request.query, "name"))
        )
        found = self._administration.memberships(member, self._access.caller())
        return json_response(messages.MembersAnswer(members=[member_answer(each) for each in found]))

    def current(self, request: RestRequest) -> RestResponse:
        """Return the caller with its groups and roles."""
        caller = self._access.caller()
        if caller is None:
            raise AccessDeniedError("the call is the process's own: it has no principal")
        roles = self._roles_of(caller, caller)
        return json_response(messages.CurrentAnswer(name=caller.name, groups=sorted(caller.groups), roles=roles))

    # -- grants --------------------------------------------------------------------------------------------------------

    def list_grants(self, request: RestRequest) -> RestResponse:
        """Return the grants on an object and to a grantee, as far as the query names these and the caller sees them."""
        on = _object(request) if set(OBJECT) & set(request.query) else None
        to = None
        if {"grantee", "grantee-kind"} & set(request.query):
            kind = _one_of(GranteeKind, request, "grantee-kind")
            to = grantee_of(GranteeJson(kind=kind, name=_needed(request.query, "grantee")))
        found = self._administration.grants(self._access.caller(), on=on, to=to)
        return json_response(messages.GrantsAnswer(grants=[grant_answer(each) for each in found]))

    def grant(self, request: RestRequest) -> RestResponse:
        """Give privileges, all or none."""
        self._administration.grant(requests_of(request.json(messages.NewGrants).grants), self._access.caller())
        return NO_CONTENT

    def revoke(self, request: RestRequest) -> RestResponse:
        """Revoke privileges, all or none, and return the revoked grants."""
        given = request.json(messages.GrantsToRevoke)
        revoked = self._administration.revoke(
            requests_of(given.grants),
            self._access.caller(),
            grant_option_only=given.grant_option_only,
            cascade=given.cascade,
        )
        return json_response(messages.GrantsAnswer(grants=[grant_answer(each) for each in revoked]))

    # -- decisions -----------------------------------------------------------------------------------------------------

    # -- policies ------------------------------------------------------------------------------------------------------

    def list_policies(self, request: RestRequest) -> RestResponse:
        """Return the row filters and column masks of a table, for its owner and administrators."""
        found = self._policy_administration.policies(_object(request), self._access.caller())
        return json_response(messages.PoliciesAnswer(policies=[policy_answer(each) for each in found]))

    def set_policy(self, request: RestRequest) -> RestResponse:
        """Set a row filter of a table, or the mask of a column, in place of the policy of its name."""
        body = request.json(messages.NewPolicy)
        self._policy_administration.set(object_of(body.on), policy_of(body), self._access.caller())
        return NO_CONTENT

    def drop_policy(self, request: RestRequest) -> RestResponse:
        """Remove a policy of a table."""
        body = request.json(messages.PolicyToDrop)
        self._policy_administration.drop(object_of(body.on), body.name, self._access.caller())
        return NO_CONTENT

    # -- questions -----------------------------------------------------------------------------------------------------

    def effective(self, request: RestRequest) -> RestResponse:
        """Return the privileges that a user has on an object. Administrators ask about others, all about themselves."""
        on, holder = _object(request), _holder(request)
        self._administration.grants_of(holder, on, self._access.caller())
        answers = self._access.decide(holder, [Access(each, on) for each in Privilege])
        return json_response(
            messages.EffectiveAnswer(
                principal=holder.name,
                groups=sorted(holder.groups),
                on=object_json(on),
                privileges=[each for each, has in zip(Privilege, answers, strict=True) if has],
            )
        )

    def why_denied(self, request: RestRequest) -> RestResponse:
        """Return whether a user has a privilege on an object, the roles and grants that decide it, and a way out."""
        on, holder, privilege = _object(request), _holder(request), _one_of(Privilege, request, "privilege")
        # Refuses callers that may not ask. What other grants would permit it is not shown to them.
        self._administration.grants_of(holder, on, self._access.caller())
        found = self._administration.explain(holder, Access(privilege, on))
        permitted = found.is_permitted
        way_out = "" if permitted else f"GRANT {_granted_text(privilege, on)} TO USER"
        return json_response(
            messages.ExplanationAnswer(
                permitted=permitted,
                principal=holder.name,
                groups=sorted(holder.groups),
                privilege=privilege,
                on=object_json(on),
                roles=list(found.roles),
                grants=[grant_answer(each) for each in found.grants],
                reasons=list(found.reasons),
                way_out=f"{way_out} {holder.name}" if way_out else "",
            )
        )

    # -- parts ---------------------------------------------------------------------------------------------------------

    @property
    def _administration(self) -> AccessAdministration:
        if self._found is None:
            raise RestError(HTTPStatus.NOT_IMPLEMENTED, "NoRoles", NO_ROLES)
        return self._found

    @property
    def _policy_administration(self) -> PolicyAdministration:
        if self._policies is None:
            raise RestError(HTTPStatus.NOT_IMPLEMENTED, "NoRoles", NO_ROLES)
        return self._policies

    def _roles_of(self, holder: Caller, actor: Caller | None) -> list[str]:
        """Return the roles that a caller has, directly or by its groups and other roles."""
        found: set[str] = set()
        waiting: list[Grantee] = [user_named(holder.name), *map(group_named, sorted(holder.groups))]
        while waiting:
            for each in self._administration.memberships(waiting.pop(), actor):
                if each.role not in found:
                    found.add(each.role)
                    waiting.append(role_named(each.role))
        return sorted(found)

    def _read(
        self, method: str, template: str, operation: str, handler: Callable[[RestRequest], RestResponse]
    ) -> RestRoute:
        return route(method, template, operation, Privilege.USAGE, ObjectKind.SERVER, _checked(operation, handler))

    def _change(
        self,
        method: str,
        template: str,
        operation: str,
        handler: Callable[[RestRequest], RestResponse],
        subject: Callable[[RestRequest], Mapping[str, object]],
    ) -> RestRoute:
        made = route(method, template, operation, Privilege.ALTER, ObjectKind.SERVER, _checked(operation, handler))
        return replace(made, subject=subject)


def _checked(operation: str, handler: Callable[[RestRequest], RestResponse]) -> Callable[[RestRequest], RestResponse]:
    """Return a handler that refuses parameters of the query that its operation does not have: a misspelled one would
    otherwise widen the answer.
    """

    @wraps(handler)
    def answer(request: RestRequest) -> RestResponse:
        unknown = sorted(set(request.query) - set(MESSAGES[operation].query))
        if unknown:
            known = ", ".join(MESSAGES[operation].query) or "none"
            raise _invalid(f"the query has no parameter {shortened(unknown[0])!r}; there are {known}")
        return handler(request)

    return answer


def _object(request: RestRequest) -> SecuredObject:
    query = request.query
    return object_of(
        ObjectJson(
            kind=_one_of(SecuredKind, request, "kind"),
            catalog=query.get("catalog"),
            database=query.get("database"),
            name=query.get("name"),
            column=query.get("column"),
        )
    )


def _granted_text(privilege: Privilege, on: SecuredObject) -> str:
    """Return a privilege on an object as in SQL."""
    if on.kind is SecuredKind.COLUMN and on.container is not None:
        columns = f" ({on.column})" if privilege in COLUMN_PRIVILEGES else ""
        return f"{privilege}{columns} ON {on.container}"
    return f"{privilege} ON {str(on).upper() if on == SERVER else on}"


def _holder(request: RestRequest) -> Caller:
    groups = request.query.get("groups", "").split(",")
    return Caller(_needed(request.query, "principal"), frozenset(each for each in groups if each))


def _needed(query: Mapping[str, str], name: str) -> str:
    found = query.get(name)
    if not found:
        raise _invalid(f"the query needs the parameter {name!r}")
    return found


def _one_of(kind: type[E], request: RestRequest, name: str) -> E:
    text = _needed(request.query, name)
    try:
        return kind(text)
    except ValueError:
        raise _invalid(f"{name} is {', '.join(kind)}, not {shortened(text)!r}") from None


def _invalid(message: str) -> RestError:
    return RestError(HTTPStatus.BAD_REQUEST, "BadRequest", message)


# The subjects of changes, as the audit log has them. A body that cannot be read has none.


def _no_subject(_request: RestRequest) -> Mapping[str, object]:
    return {}


def _named_role(request: RestRequest) -> Mapping[str, object]:
    return {"role": request.json(messages.NewRole).name}


def _named_member(request: RestRequest) -> Mapping[str, object]:
    body = request.json(_AnyMember)
    return {"principal": f"{body.member.kind} {body.member.name}"}


def _named_grants(request: RestRequest) -> Mapping[str, object]:
    grants = request.json(_AnyGrants).grants
    return {"grants": list(map(messages.shown_request, grants[:GRANTS_SHOWN_MAX])), "grant_count": len(grants)}


def _named_policy(request: RestRequest) -> Mapping[str, object]:
    body = request.json(_AnyPolicy)
    names = [name for name in (body.on.catalog, body.on.database, body.on.name) if name is not None]
    return {"policy": shortened(f"{body.name} of {'.'.join(names)}")}


GRANTS_SHOWN_MAX = 20
"""Grants of one request that the audit log shows."""


class _AnyMember(msgspec.Struct):
    """The member in a body."""

    member: GranteeJson


class _AnyGrants(msgspec.Struct):
    """The grants in a body."""

    grants: list[messages.GrantJson]


class _AnyPolicy(msgspec.Struct):
    """The table and the name of a policy in a body."""

    on: ObjectJson
    name: str
