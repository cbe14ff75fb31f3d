"""The rights that one caller has by grants, the rules for changes of roles and grants, and the changes as the history
of metadata records them.

Rights are the privileges of the user, groups and roles of a caller together. The graph of roles has the roles of a
caller, and the members that a role must not get. Its functions are pure. Decisions about many objects take a fraction
of a microsecond each: questions of a list mostly differ in the name alone, so that what the containers permit is found
once for all of them.

The rules are the right to give privileges and roles, and what a revocation takes along.

Changes of roles, grants and policies make no notification events.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from interbed.catalog.server.service.access.objects import (
    ADMIN_ROLE,
    COLUMN_PRIVILEGES,
    PUBLIC,
    Access,
    AccessRepository,
    AccessState,
    Caller,
    Grant,
    Grantee,
    GranteeKind,
    Privilege,
    RoleMember,
    SecuredKind,
    SecuredObject,
    TablePolicy,
    group_named,
    is_grantee_name,
    role_named,
    user_named,
)
from interbed.catalog.server.service.errors import AccessDeniedError, InvalidObjectError, NoSuchObjectError
from interbed.catalog.server.service.events import EventBody, NotificationEvent
from interbed.catalog.server.service.names import shortened


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleGraph:
    """Memberships by member. `admins` are the users that a setting makes administrators."""

    by_member: Mapping[Grantee, Sequence[RoleMember]]
    admins: frozenset[str] = field(default_factory=frozenset)

    @classmethod
    def of(cls, members: Iterable[RoleMember], admins: Collection[str] = ()) -> "RoleGraph":
        """Return the graph of some memberships."""
        by_member: dict[Grantee, list[RoleMember]] = {}
        for each in members:
            by_member.setdefault(each.member, []).append(each)
        return cls(by_member=by_member, admins=frozenset(admins))

    def paths(self, start: Iterable[Grantee]) -> dict[Grantee, RoleMember | None]:
        """Return the grantees and the roles that they have, directly or by other roles; with each role the membership
        by which it was found, None for the grantees themselves.
        """
        found: dict[Grantee, RoleMember | None] = dict.fromkeys(start)
        waiting = list(found)
        while waiting:
            for membership in self.by_member.get(waiting.pop(), ()):
                role = role_named(membership.role)
                if role not in found:
                    found[role] = membership
                    waiting.append(role)
        return found

    def grantees(self, caller: Caller) -> dict[Grantee, RoleMember | None]:
        """Return a caller's user, groups and roles, each role with the membership by which it has it."""
        found = self.paths((user_named(caller.name), *map(group_named, caller.groups), PUBLIC))
        if caller.name in self.admins:
            found.setdefault(role_named(ADMIN_ROLE), None)
        return found

    def is_admin(self, caller: Caller) -> bool:
        """Return whether a caller has the role of administrators."""
        return role_named(ADMIN_ROLE) in self.grantees(caller)

    def may_change(self, caller: Caller, role: str) -> bool:
        """Return whether a caller may change the members of a role: as an administrator, or by the admin option of one
        of its grantees.
        """
        grantees = self.grantees(caller)
        if role_named(ADMIN_ROLE) in grantees:
            return True
        return any(
            each.admin_option and each.role == role for grantee in grantees for each in self.by_member.get(grantee, ())
        )

    def would_be_cycle(self, role: str, member: Grantee) -> bool:
        """Return whether a role would have itself as a member, by a new member."""
        return member.kind is GranteeKind.ROLE and member in self.paths([role_named(role)])


def described_path(paths: Mapping[Grantee, RoleMember | None], role: Grantee) -> str:
    """Return how a role was found: `user ann -> role etl -> role readers`."""
    steps = [str(role)]
    membership = paths.get(role)
    while membership is not None:
        steps.append(str(membership.member))
        membership = paths.get(membership.member)
    return " -> ".join(reversed(steps))


ONLY_OF_CONTAINERS = frozenset((Privilege.USAGE, Privilege.CREATE))
"""Privileges on a container that do not show what is in it. They are also what the owner `role public` of a database
means: as in Hive, everyone may use it and create tables in it, and no more.
"""

_CONTAINERS = frozenset((SecuredKind.SERVER, SecuredKind.CATALOG, SecuredKind.DATABASE))
_NOTHING: frozenset[str | None] = frozenset()
_ITSELF: frozenset[str | None] = frozenset((None,))

_Scope = tuple[SecuredKind, str | None, str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantIndex:
    """The grants of a state by their grantees."""

    by_grantee: Mapping[Grantee, Sequence[Grant]]

    @classmethod
    def of(cls, state: AccessState) -> "GrantIndex":
        """Return the index of a state."""
        found: dict[Grantee, list[Grant]] = {}
        for grant in state.grants:
            found.setdefault(grant.to, []).append(grant)
        return cls(by_grantee=found)

    def rights(self, grantees: Iterable[Grantee]) -> "CallerRights":
        """Return the rights of a caller with these grantees."""
        rights = CallerRights(grantees=tuple(grantees))
        for grantee in rights.grantees:
            for grant in self.by_grantee.get(grantee, ()):
                rights.add(grant)
        return rights


@dataclass(slots=True, kw_only=True)
class CallerRights:
    """The privileges of a caller by grants, for many decisions. It is not changed once it is in use."""

    grantees: tuple[Grantee, ...]
    _on_containers: dict[SecuredObject, set[Privilege]] = field(default_factory=dict)
    _on_names: dict[_Scope, dict[str, set[Privilege]]] = field(default_factory=dict)
    _on_columns: dict[SecuredObject, dict[str, set[Privilege]]] = field(default_factory=dict)
    """Privileges on columns by table and name."""
    _around: set[SecuredObject] = field(default_factory=set)
    """Containers of objects on which the caller has a privilege."""

    @property
    def is_admin(self) -> bool:
        """Whether the caller may do everything."""
        return role_named(ADMIN_ROLE) in self.grantees

    @property
    def owners(self) -> tuple[Grantee, ...]:
        """The owners of databases that stand for the caller."""
        return tuple(each for each in self.grantees if each != PUBLIC)

    def add(self, grant: Grant) -> None:
        """Add a grant of one of the grantees."""
        on = grant.on
        self._around.update(on.containers)
        if on.kind in _CONTAINERS:
            self._on_containers.setdefault(on, set()).add(grant.privilege)
            return
        assert on.name is not None
        if on.kind is SecuredKind.COLUMN:
            assert on.container is not None
            assert on.column is not None
            self._on_columns.setdefault(on.container, {}).setdefault(on.column, set()).add(grant.privilege)
            # A privilege on a column shows its table.
            self._on_names.setdefault((SecuredKind.TABLE, on.catalog, on.database), {}).setdefault(on.name, set())
            return
        names = self._on_names.setdefault((on.kind, on.catalog, on.database), {})
        names.setdefault(on.name, set()).add(grant.privilege)

    def decide(self, questions: Sequence[Access]) -> list[bool]:
        """Return the answers of the grants alone, without owners."""
        answers: list[bool] = []
        known: dict[tuple[Privilege | None, _Scope], frozenset[str | None] | None] = {}
        last: tuple[object, ...] = (None,) * 4
        permitted: frozenset[str | None] | None = _NOTHING
        for question in questions:
            on, privilege = question.on, question.privilege
            if on.kind is SecuredKind.COLUMN:
                answers.append(self._permits_column(privilege, on))
                last = (None,) * 4
                continue
            # Mostly as in the question before: comparing is quicker than a look into the dictionary.
            if (
                privilege is not last[0]
                or on.kind is not last[1]
                or on.catalog != last[2]
                or on.database != last[3]
                or not answers
            ):
                last = (privilege, on.kind, on.catalog, on.database)
                key = (privilege, (on.kind, on.catalog, on.database))
                if key not in known:
                    known[key] = self.permitted(privilege, on)
                permitted = known[key]
            answers.append(permitted is None or on.name in permitted)
        return answers

    def permitted(self, privilege: Privilege | None, on: SecuredObject) -> frozenset[str | None] | None:
        """Return the names of a scope that a question is permitted for; None for all names."""
        for container in on.containers:
            held = self._on_containers.get(container)
            if held and _is_enough(held - ONLY_OF_CONTAINERS if privilege is None else held, privilege):
                return None
        if on.kind in _CONTAINERS:
            held = self._on_containers.get(on, set())
            is_seen = privilege is None and on in self._around
            return _ITSELF if is_seen or _is_enough(held, privilege) else _NOTHING
        names = self._on_names.get((on.kind, on.catalog, on.database), {})
        if privilege is None:
            # All have a privilege on them, or on one of their columns.
            return frozenset(names)
        return frozenset(name for name, held in names.items() if _is_enough(held, privilege))

    def _permits_column(self, privilege: Privilege | None, on: SecuredObject) -> bool:
        """Return whether a question about a column, or about any column of a table, is permitted. A caller that sees
        a table sees its columns.
        """
        table = on.container
        assert table is not None
        permitted = self.permitted(privilege, table)
        if permitted is None or table.name in permitted:
            return True
        columns = self._on_columns.get(table, {})
        held = columns.values() if on.column is None else [columns.get(on.column, set())]
        return any(_is_enough(each, privilege) for each in held)


def _is_enough(held: set[Privilege], privilege: Privilege | None) -> bool:
    """Return whether some privileges contain one, or any if it is None."""
    return bool(held) if privilege is None else privilege in held or Privilege.ALL in held


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantRequest:
    """A privilege on an object for a grantee, to be given or revoked. An administrator may name a `grantor` that it
    gives the privilege for.
    """

    privilege: Privilege
    on: SecuredObject
    to: Grantee
    grant_option: bool = False
    grantor: str | None = None


class ActorRules:
    """The rules for one actor in a transaction: the caller of a call, None for the operator at the database."""

    def __init__(
        self, access: AccessRepository, graph: RoleGraph, actor: Caller | None, operator: str | None = None
    ) -> None:
        self.graph = graph
        self.grantees = frozenset[Grantee]() if actor is None else frozenset(graph.grantees(actor))
        self.is_admin = actor is None or graph.is_admin(actor)
        self.name = operator if actor is None else actor.name
        self._access = access
        self._actor = actor

    def stands_for(self, holder: Caller) -> bool:
        """Return whether the actor is a user that has some groups."""
        return self._actor is not None and holder.name == self._actor.name and holder.groups <= self._actor.groups

    def require_admin(self, what: str) -> None:
        """Raise AccessDeniedError for others than administrators."""
        if not self.is_admin:
            raise AccessDeniedError(f"{self.name} may not {what}: only members of the role {ADMIN_ROLE} may")

    def require_changes_of(self, role: str) -> None:
        """Raise AccessDeniedError unless the actor may change the members of a role, and NoSuchObjectError."""
        if self._actor is not None and not self.graph.may_change(self._actor, role):
            raise AccessDeniedError(
                f"{self.name} may not see or change the members of the role {shortened(role)}: members of the role "
                f"{ADMIN_ROLE} may, and those of {shortened(role)} with the admin option"
            )
        check_role(self._access, role)

    def owner(self, on: SecuredObject) -> Grantee | None:
        """Return the owner of an object, or of the database that it is in, if the actor has it."""
        for each in (on, *on.containers):
            owner = self._access.owner(each)
            if owner in self.grantees and not (owner == PUBLIC and each.kind is SecuredKind.DATABASE):
                return owner
        return None

    def grantor(self, named: str | None) -> str | None:
        """Return the grantor that is stored. AccessDeniedError for another one than the actor, unless the actor is an
        administrator.
        """
        if named is None or named == self.name:
            return self.name
        if not self.is_admin:
            raise AccessDeniedError(f"{self.name} may not grant in the name of {shortened(named)}")
        return named

    def through(self, request: GrantRequest) -> Grantee | None:
        """Return the grantee by whose rights the actor may give a privilege, None for an administrator.
        AccessDeniedError.
        """
        if self.is_admin:
            return None
        found = self.owner(request.on)
        if found is not None:
            return found
        for on in (request.on, *request.on.containers):
            for each in self._access.grants(on=on):
                if each.grant_option and each.covers(request.privilege) and each.to in self.grantees:
                    return each.to
        raise AccessDeniedError(
            f"{self.name} may not grant {request.privilege} on the {request.on}: it needs the privilege with the "
            f"grant option, ownership, or the role {ADMIN_ROLE}"
        )

    def revocable(self, request: GrantRequest) -> list[Grant]:
        """Return the grants of a request that the actor may revoke. NoSuchObjectError if there is none."""
        present = self._access.grants(on=request.on, to=request.to)
        found = [each for each in present if request.privilege in (each.privilege, Privilege.ALL)]
        by = ""
        if not self.is_admin and self.owner(request.on) is None:
            # What others gave is not shown.
            found = [each for each in found if each.grantor == self.name and each.through is not None]
            present = []
            by = f" that {self.name} gave"
        if not found:
            whole = any(each.privilege is Privilege.ALL for each in present)
            way_out = ": revoke ALL, and grant what shall stay" if whole else ""
            raise NoSuchObjectError(
                f"the {request.to} has no grant of {request.privilege} on the {request.on}{by}{way_out}"
            )
        return found


def remove_dependent(access: AccessRepository, revoked: Sequence[Grant]) -> list[Grant]:
    """Remove the grants that were given by the grant options of revoked ones, and return them."""
    found: list[Grant] = []
    lost = list(revoked)
    while lost:
        lost = dependent_grants(access, lost)
        access.remove_grants([each.id for each in lost])
        found.extend(lost)
    return found


def dependent_grants(access: AccessRepository, revoked: Sequence[Grant]) -> list[Grant]:
    """Return the grants that were given by the grant options of revoked ones, and by no other one that is left."""
    found = {
        each.id: each
        for lost in revoked
        if lost.grant_option
        for each in access.grants(through=lost.to)
        if lost.on in (each.on, *each.on.containers)
        and lost.covers(each.privilege)
        and not _may_still_give(access, lost.to, each)
    }
    return list(found.values())


def _may_still_give(access: AccessRepository, grantee: Grantee, grant: Grant) -> bool:
    """Return whether a grantee may give a grant by another grant option or by ownership."""
    for on in (grant.on, *grant.on.containers):
        if access.owner(on) == grantee:
            return True
        if any(each.grant_option and each.covers(grant.privilege) for each in access.grants(on=on, to=grantee)):
            return True
    return False


def check_grantee(access: AccessRepository, grantee: Grantee) -> None:
    """Raise InvalidObjectError for a name that no principal has, NoSuchObjectError for an unknown role."""
    if not is_grantee_name(grantee.name):
        raise InvalidObjectError(f"{shortened(grantee.name)!r} is not the name of a {grantee.kind}")
    if grantee.kind is GranteeKind.ROLE:
        check_role(access, grantee.name)


def check_role(access: AccessRepository, name: str) -> None:
    """Raise NoSuchObjectError for an unknown role."""
    if all(role.name != name for role in access.roles()):
        raise NoSuchObjectError(f"the role {shortened(name)} does not exist")


def check_privilege(request: GrantRequest) -> None:
    """Raise InvalidObjectError for a privilege that columns do not have, and for a column without a name."""
    if request.on.kind is SecuredKind.COLUMN and not request.on.column:
        raise InvalidObjectError(f"the grant on the {request.on} names no column")
    if request.on.kind is SecuredKind.COLUMN and request.privilege not in COLUMN_PRIVILEGES:
        raise InvalidObjectError(
            f"{request.privilege} cannot be granted on the {request.on}: columns have {', '.join(COLUMN_PRIVILEGES)} "
            f"alone, as in Hive; grant {request.privilege} on the {request.on.container}"
        )


def missing_object(on: SecuredObject) -> NoSuchObjectError:
    """Return the error for an object that is missing, or that the actor does not see."""
    return NoSuchObjectError(f"the {on} does not exist")


def role_created(role: str) -> NotificationEvent:
    """Record of a new role."""
    return _of_role("CREATE_ROLE", role, {})


def role_dropped(role: str) -> NotificationEvent:
    """Record of the drop of a role."""
    return _of_role("DROP_ROLE", role, {})


def member_added(role: str, member: Grantee, *, admin_option: bool) -> NotificationEvent:
    """Record of a new member of a role, or of another admin option."""
    return _of_role("GRANT_ROLE", role, {"to": str(member), "admin_option": admin_option})


def member_removed(role: str, member: Grantee, *, admin_option_only: bool) -> NotificationEvent:
    """Record of the removal of a member of a role, or of its admin option."""
    return _of_role("REVOKE_ROLE", role, {"from": str(member), "admin_option_only": admin_option_only})


def granted(access: AccessRepository, grant: Grant) -> NotificationEvent:
    """Record of a grant."""
    return _of_grant(access, "GRANT", grant, {"to": str(grant.to), "grant_option": grant.grant_option})


def revoked(access: AccessRepository, grant: Grant, *, option_only: bool) -> NotificationEvent:
    """Record of the end of a grant, or of its grant option."""
    details = {"from": str(grant.to), "grantor": grant.grantor, "grant_option_only": option_only}
    return _of_grant(access, "REVOKE", grant, details)


def _of_role(change: str, role: str, details: dict[str, Any]) -> NotificationEvent:
    # The names of roles are in the column of names.
    return NotificationEvent(type=change, catalog=None, table=role, body=EventBody(details=details))


def _of_grant(access: AccessRepository, change: str, grant: Grant, details: dict[str, Any]) -> NotificationEvent:
    on = grant.on
    body = EventBody(
        details={
            "kind": str(on.kind),
            "object_id": access.number(on),
            **({} if on.column is None else {"column": on.column}),
            "privilege": str(grant.privilege),
            **details,
        }
    )
    return NotificationEvent(type=change, catalog=on.catalog, database=on.database, table=on.name, body=body)


def policy_set(access: AccessRepository, on: SecuredObject, policy: TablePolicy) -> NotificationEvent:
    """Record of a new or replaced policy of a table."""
    return _of_policy(access, "SET_POLICY", on, policy)


def policy_dropped(access: AccessRepository, on: SecuredObject, policy: TablePolicy) -> NotificationEvent:
    """Record of the end of a policy of a table."""
    return _of_policy(access, "DROP_POLICY", on, policy)


def _of_policy(access: AccessRepository, change: str, on: SecuredObject, policy: TablePolicy) -> NotificationEvent:
    details = {"kind": str(on.kind), "object_id": access.number(on), "policy": policy.to_json()}
    body = EventBody(details=details)
    return NotificationEvent(type=change, catalog=on.catalog, database=on.database, table=on.name, body=body)
