"""Changes of roles and grants, by the rules of Hive's SQL standard based authorization.

Administrators, which are the members of the role `admin` and the operator at the database, may do everything. Others
give privileges that they have with the grant option, and those on objects that they own; they revoke what they gave.
The owner of an object revokes all grants on it. The members of a role are changed by its members with the admin option.
What an actor does not see does not exist for it.

As in Hive, a revocation leaves the grants that depend on the revoked one, unless it is one with CASCADE.
"""

import re
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

from interbed.catalog.server.service.access import records
from interbed.catalog.server.service.access.authorizer import Caller
from interbed.catalog.server.service.access.builtin import BuiltinAuthorizer
from interbed.catalog.server.service.access.grants import (
    ADMIN_ROLE,
    BUILT_IN_ROLES,
    PUBLIC,
    PUBLIC_ROLE,
    AccessRepository,
    Grant,
    Grantee,
    GranteeKind,
    Role,
    RoleMember,
    is_grantee_name,
    role_named,
)
from interbed.catalog.server.service.access.objects import Access, Privilege, SecuredKind, SecuredObject
from interbed.catalog.server.service.access.roles import RoleGraph
from interbed.catalog.server.service.errors import (
    AccessDeniedError,
    AlreadyExistsError,
    InvalidObjectError,
    InvalidOperationError,
    NoSuchObjectError,
)
from interbed.catalog.server.service.history.entries import History
from interbed.catalog.server.service.names import shortened

T = TypeVar("T")

GRANTS_MAX = 10_000
"""Grants that one request may make or revoke."""

_ROLE_NAME = re.compile(r"[\w.-]{1,128}", re.ASCII)
_RESERVED_ROLES = ("all", "default", "none")


class AccessTransaction(Protocol):
    """One unit of work on a database with roles, grants and a history."""

    @property
    def access(self) -> AccessRepository: ...
    @property
    def history(self) -> History: ...


class AccessUnits(Protocol):
    """Database of the metastore, for roles and grants."""

    def read(self, work: Callable[[AccessTransaction], T]) -> T: ...
    def write(self, work: Callable[[AccessTransaction], T]) -> T: ...


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


class AccessAdministration:
    """Roles, members and grants as administrators and grantors change them. Safe for many threads and processes.

    The actor of a call is its caller, None for the operator at the database. `operator` is the name that the operator's
    changes bear.
    """

    def __init__(
        self,
        store: AccessUnits,
        authorizer: BuiltinAuthorizer,
        *,
        admins: Collection[str] = (),
        operator: str | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._authorizer = authorizer
        self._admins = frozenset(admins)
        self._operator = operator
        self._clock = clock

    # -- roles ---------------------------------------------------------------------------------------------------------

    def create_role(self, name: str, actor: Caller | None) -> None:
        """Create a role. AccessDeniedError for others than administrators, InvalidObjectError, AlreadyExistsError."""
        key = role_named(name).name
        if _ROLE_NAME.fullmatch(key) is None or key in _RESERVED_ROLES:
            raise InvalidObjectError(
                f"{shortened(name)} is not a valid role name: it is 1 to 128 letters, digits, underscores, dots and "
                f"hyphens, and not one of {', '.join(_RESERVED_ROLES)}"
            )

        def work(transaction: AccessTransaction) -> None:
            self._begin_as_admin(transaction, actor, f"create the role {key}")
            role = Role(name=key, created_by=self._name(actor), created_at=self._now())
            if not transaction.access.add_role(role):
                raise AlreadyExistsError(f"the role {key} already exists")
            transaction.history.record(records.role_created(key))

        self._store.write(work)

    def drop_role(self, name: str, actor: Caller | None) -> None:
        """Drop a role with its members, its memberships and its grants.

        AccessDeniedError, NoSuchObjectError, InvalidOperationError for a built-in role and for one that owns objects.
        """
        key = role_named(name).name

        def work(transaction: AccessTransaction) -> None:
            self._begin_as_admin(transaction, actor, f"drop the role {shortened(key)}")
            _check_role(transaction.access, key)
            if key in BUILT_IN_ROLES:
                raise InvalidOperationError(f"the role {key} is built in: it cannot be dropped")
            owned = transaction.access.first_owned(role_named(key))
            if owned is not None:
                raise InvalidOperationError(f"the role {key} owns the {owned}: give it another owner first")
            transaction.access.remove_role(key)
            transaction.history.record(records.role_dropped(key))

        self._store.write(work)

    def roles(self, actor: Caller | None) -> Sequence[Role]:
        """Return the roles that an actor sees, by name: all for administrators, for others those that they have."""

        def work(transaction: AccessTransaction) -> Sequence[Role]:
            found = transaction.access.roles()
            graph = self._graph(transaction.access)
            if self._is_admin(graph, actor):
                return found
            assert actor is not None
            grantees = graph.grantees(actor)
            return [role for role in found if role_named(role.name) in grantees]

        return self._store.read(work)

    def memberships(self, member: Grantee, actor: Caller | None) -> Sequence[RoleMember]:
        """Return the roles that a grantee is a direct member of, with `public` for users.

        AccessDeniedError for the roles of others, unless the actor is an administrator.
        """

        def work(transaction: AccessTransaction) -> Sequence[RoleMember]:
            graph = self._graph(transaction.access)
            if not self._is_admin(graph, actor) and member not in graph.grantees(_known(actor)):
                raise AccessDeniedError(f"{_known(actor).name} may not list the roles of the {member}")
            found = list(graph.by_member.get(member, ()))
            if member.kind is GranteeKind.USER:
                found.append(RoleMember(role=PUBLIC_ROLE, member=member))
                if member.name in self._admins and all(each.role != ADMIN_ROLE for each in found):
                    found.append(RoleMember(role=ADMIN_ROLE, member=member, admin_option=True))
            return found

        return self._store.read(work)

    def members(self, role: str, actor: Caller | None) -> Sequence[RoleMember]:
        """Return the members of a role. AccessDeniedError for actors that may not change them, NoSuchObjectError."""
        key = role_named(role).name

        def work(transaction: AccessTransaction) -> Sequence[RoleMember]:
            graph = self._graph(transaction.access)
            self._check_may_change(transaction.access, graph, actor, key)
            return [each for each in transaction.access.members() if each.role == key]

        return self._store.read(work)

    def add_member(
        self,
        role: str,
        member: Grantee,
        actor: Caller | None,
        *,
        admin_option: bool = False,
        grantor: str | None = None,
    ) -> None:
        """Make a grantee a member of a role. An administrator may name another grantor.

        AccessDeniedError, NoSuchObjectError for an unknown role, InvalidOperationError for `public` and for a cycle.
        """
        key = role_named(role).name

        def work(transaction: AccessTransaction) -> None:
            access = transaction.access
            access.advance()
            graph = self._graph(access)
            self._check_may_change(access, graph, actor, key)
            _check_grantee(access, member)
            if key == PUBLIC_ROLE:
                raise InvalidOperationError(f"everyone is in the role {PUBLIC_ROLE}: it has no members")
            if member == PUBLIC and key == ADMIN_ROLE:
                raise InvalidOperationError("the role public cannot be in the role admin: everyone could do everything")
            if graph.would_be_cycle(key, member):
                raise InvalidOperationError(
                    f"the {member} cannot be in the role {key}: {key} is in it already, directly or by other roles"
                )
            given = self._grantor(graph, actor, grantor)
            access.put_member(
                RoleMember(role=key, member=member, admin_option=admin_option, grantor=given, granted_at=self._now())
            )
            transaction.history.record(records.member_added(key, member, admin_option=admin_option))

        self._store.write(work)

    def remove_member(
        self, role: str, member: Grantee, actor: Caller | None, *, admin_option_only: bool = False
    ) -> None:
        """Remove a member of a role, or only its admin option. AccessDeniedError, NoSuchObjectError."""
        key = role_named(role).name

        def work(transaction: AccessTransaction) -> None:
            access = transaction.access
            access.advance()
            graph = self._graph(access)
            self._check_may_change(access, graph, actor, key)
            present = next((each for each in graph.by_member.get(member, ()) if each.role == key), None)
            if present is None:
                raise NoSuchObjectError(f"the {member} is not a member of the role {key}")
            if admin_option_only:
                access.put_member(replace(present, admin_option=False))
            else:
                access.remove_member(key, member)
            transaction.history.record(records.member_removed(key, member, admin_option_only=admin_option_only))

        self._store.write(work)

    # -- grants --------------------------------------------------------------------------------------------------------

    def grants(
        self, actor: Caller | None, *, on: SecuredObject | None = None, to: Grantee | None = None
    ) -> Sequence[Grant]:
        """Return the grants on an object and to a grantee, as far as these are given, the oldest first.

        Administrators see all, the owner of an object those on it and in it. Others see those to themselves and to
        their groups and roles. NoSuchObjectError for an object that the actor does not see.
        """
        if on is not None:
            self._check_seen(actor, on)

        def work(transaction: AccessTransaction) -> Sequence[Grant]:
            access = transaction.access
            if on is not None and not access.exists(on):
                raise _missing(on)
            graph = self._graph(access)
            found = access.grants(on=on, to=to)
            if self._is_admin(graph, actor):
                return found
            grantees = graph.grantees(_known(actor))
            if on is not None and self._owner(access, grantees, on) is not None:
                return found
            return [each for each in found if each.to in grantees]

        return self._store.read(work)

    def grants_of(self, holder: Caller, on: SecuredObject, actor: Caller | None) -> Sequence[Grant]:
        """Return the grants on an object that a user with some groups has, also by its roles. AccessDeniedError for
        another user's, unless the actor is an administrator. NoSuchObjectError.
        """
        self._check_seen(actor, on)

        def work(transaction: AccessTransaction) -> Sequence[Grant]:
            access = transaction.access
            if not access.exists(on):
                raise _missing(on)
            graph = self._graph(access)
            if not self._is_admin(graph, actor) and not _is_part_of(holder, _known(actor)):
                raise AccessDeniedError(f"{_known(actor).name} may not list the privileges of {shortened(holder.name)}")
            grantees = graph.grantees(holder)
            return [each for each in access.grants(on=on) if each.to in grantees]

        return self._store.read(work)

    def grant(self, requests: Sequence[GrantRequest], actor: Caller | None) -> None:
        """Give privileges, all or none. What a grantee has already from the same grantor stays; a grant option is
        added.

        AccessDeniedError, NoSuchObjectError for an object or a role, InvalidObjectError for another grantee.
        """
        self._check(requests, actor)

        def work(transaction: AccessTransaction) -> None:
            graph = self._begin_changes(transaction, requests)
            for request in requests:
                self._give(transaction, graph, request, actor)

        self._store.write(work)

    def revoke(
        self,
        requests: Sequence[GrantRequest],
        actor: Caller | None,
        *,
        grant_option_only: bool = False,
        cascade: bool = False,
    ) -> Sequence[Grant]:
        """Revoke privileges, all or none, or only their grant options. With `cascade` the grants that depend on them
        are revoked, too. Return the revoked grants.

        AccessDeniedError, NoSuchObjectError for an object, a role or a grant.
        """
        self._check(requests, actor)

        def work(transaction: AccessTransaction) -> Sequence[Grant]:
            graph = self._begin_changes(transaction, requests)
            access = transaction.access
            revoked: list[Grant] = []
            for request in requests:
                found = self._revocable(access, graph, actor, request)
                if grant_option_only:
                    access.end_grant_options([each.id for each in found])
                else:
                    access.remove_grants([each.id for each in found])
                transaction.history.record(
                    *(records.revoked(transaction.access, each, option_only=grant_option_only) for each in found)
                )
                revoked.extend(found)
            if cascade:
                dependent = _remove_dependent(access, revoked)
                transaction.history.record(
                    *(records.revoked(transaction.access, each, option_only=False) for each in dependent)
                )
                revoked.extend(dependent)
            return revoked

        return self._store.write(work)

    def replace_grants(self, on: SecuredObject, requests: Sequence[GrantRequest], actor: Caller | None) -> None:
        """Replace all grants on an object by others. AccessDeniedError for others than administrators,
        NoSuchObjectError.
        """
        self._check(requests, actor)

        def work(transaction: AccessTransaction) -> None:
            if not transaction.access.exists(on):
                raise _missing(on)
            graph = self._begin_as_admin(transaction, actor, f"replace the grants on the {on}")
            old = transaction.access.grants(on=on)
            transaction.access.remove_grants([each.id for each in old])
            transaction.history.record(*(records.revoked(transaction.access, each, option_only=False) for each in old))
            for request in requests:
                if request.on != on:
                    raise InvalidObjectError(f"the grants on the {on} cannot be replaced by one on the {request.on}")
                self._give(transaction, graph, request, actor)

        self._store.write(work)

    # -- rules ---------------------------------------------------------------------------------------------------------

    def _check(self, requests: Sequence[GrantRequest], actor: Caller | None) -> None:
        if len(requests) > GRANTS_MAX:
            raise InvalidObjectError(f"a request with {len(requests)} grants is too large: {GRANTS_MAX} are allowed")
        for on in dict.fromkeys(each.on for each in requests):
            self._check_seen(actor, on)

    def _check_seen(self, actor: Caller | None, on: SecuredObject) -> None:
        """Raise NoSuchObjectError for an object that the actor does not see."""
        if actor is not None and not self._authorizer.decide(actor, [Access(None, on)])[0]:
            raise _missing(on)

    def _begin_changes(self, transaction: AccessTransaction, requests: Sequence[GrantRequest]) -> RoleGraph:
        """Lock the objects, then the grants. Objects are locked in one order, so that requests cannot block each
        other.
        """
        for on in sorted({each.on for each in requests}, key=str):
            if not transaction.access.exists(on):
                raise _missing(on)
        transaction.access.advance()
        return self._graph(transaction.access)

    def _begin_as_admin(self, transaction: AccessTransaction, actor: Caller | None, what: str) -> RoleGraph:
        transaction.access.advance()
        graph = self._graph(transaction.access)
        if not self._is_admin(graph, actor):
            raise AccessDeniedError(f"{_known(actor).name} may not {what}: only members of the role {ADMIN_ROLE} may")
        return graph

    def _check_may_change(self, access: AccessRepository, graph: RoleGraph, actor: Caller | None, role: str) -> None:
        if actor is not None and not graph.may_change(actor, role):
            raise AccessDeniedError(
                f"{actor.name} may not see or change the members of the role {shortened(role)}: members of the role "
                f"{ADMIN_ROLE} may, and those of {shortened(role)} with the admin option"
            )
        _check_role(access, role)

    def _through(
        self, access: AccessRepository, graph: RoleGraph, actor: Caller | None, request: GrantRequest
    ) -> Grantee | None:
        """Return the grantee by whose rights an actor may give a privilege, None for an administrator.
        AccessDeniedError.
        """
        if actor is None or self._is_admin(graph, actor):
            return None
        grantees = graph.grantees(actor)
        found = self._owner(access, grantees, request.on)
        if found is None:
            found = next(
                (
                    each.to
                    for on in (request.on, *request.on.containers)
                    for each in access.grants(on=on)
                    if each.grant_option and each.covers(request.privilege) and each.to in grantees
                ),
                None,
            )
        if found is None:
            raise AccessDeniedError(
                f"{actor.name} may not grant {request.privilege} on the {request.on}: it needs the privilege with the "
                f"grant option, ownership, or the role {ADMIN_ROLE}"
            )
        return found

    def _give(
        self, transaction: AccessTransaction, graph: RoleGraph, request: GrantRequest, actor: Caller | None
    ) -> None:
        access = transaction.access
        _check_grantee(access, request.to)
        grantor = self._grantor(graph, actor, request.grantor)
        through = self._through(access, graph, actor, request)
        same = [
            each
            for each in access.grants(on=request.on, to=request.to)
            if each.privilege is request.privilege and each.grantor == grantor and each.through == through
        ]
        if any(each.grant_option or not request.grant_option for each in same):
            return
        access.remove_grants([each.id for each in same])
        grant = Grant(
            privilege=request.privilege,
            on=request.on,
            to=request.to,
            grant_option=request.grant_option,
            grantor=grantor,
            through=through,
            granted_at=self._now(),
        )
        access.put_grant(grant)
        transaction.history.record(records.granted(transaction.access, grant))

    def _grantor(self, graph: RoleGraph, actor: Caller | None, named: str | None) -> str | None:
        """Return the grantor that is stored. AccessDeniedError for another one than the actor, unless the actor is an
        administrator.
        """
        if named is None or (actor is not None and named == actor.name):
            return self._name(actor)
        if not self._is_admin(graph, actor):
            raise AccessDeniedError(f"{_known(actor).name} may not grant in the name of {shortened(named)}")
        return named

    def _revocable(
        self, access: AccessRepository, graph: RoleGraph, actor: Caller | None, request: GrantRequest
    ) -> list[Grant]:
        """Return the grants of a request that the actor may revoke. NoSuchObjectError if there is none."""
        present = access.grants(on=request.on, to=request.to)
        found = [each for each in present if request.privilege in (each.privilege, Privilege.ALL)]
        by = ""
        if actor is not None and not self._may_revoke_all(access, graph, actor, request.on):
            # What others gave is not shown.
            found = [each for each in found if each.grantor == actor.name and each.through is not None]
            present = []
            by = f" that {actor.name} gave"
        if not found:
            whole = any(each.privilege is Privilege.ALL for each in present)
            way_out = ": revoke ALL, and grant what shall stay" if whole else ""
            raise NoSuchObjectError(
                f"the {request.to} has no grant of {request.privilege} on the {request.on}{by}{way_out}"
            )
        return found

    def _may_revoke_all(self, access: AccessRepository, graph: RoleGraph, actor: Caller, on: SecuredObject) -> bool:
        return self._is_admin(graph, actor) or self._owner(access, graph.grantees(actor), on) is not None

    def _owner(self, access: AccessRepository, grantees: Collection[Grantee], on: SecuredObject) -> Grantee | None:
        """Return the owner of an object, or of the database that it is in, if it is one of these grantees."""
        for each in (on, *on.containers):
            owner = access.owner(each)
            if owner in grantees and not (owner == PUBLIC and each.kind is SecuredKind.DATABASE):
                return owner
        return None

    def _graph(self, access: AccessRepository) -> RoleGraph:
        return RoleGraph.of(access.members(), self._admins)

    def _is_admin(self, graph: RoleGraph, actor: Caller | None) -> bool:
        return actor is None or graph.is_admin(actor)

    def _name(self, actor: Caller | None) -> str | None:
        return self._operator if actor is None else actor.name

    def _now(self) -> int:
        return int(self._clock())


def _remove_dependent(access: AccessRepository, revoked: Sequence[Grant]) -> list[Grant]:
    """Remove the grants that were given by the grant option of revoked ones, and return them."""
    found: list[Grant] = []
    waiting = list(revoked)
    while waiting:
        lost = waiting.pop()
        if not lost.grant_option:
            continue
        dependent = [
            each
            for each in access.grants(through=lost.to)
            if lost.on in (each.on, *each.on.containers)
            and lost.covers(each.privilege)
            and not _may_still_give(access, lost.to, each)
        ]
        access.remove_grants([each.id for each in dependent])
        found.extend(dependent)
        waiting.extend(dependent)
    return found


def _may_still_give(access: AccessRepository, grantee: Grantee, grant: Grant) -> bool:
    """Return whether a grantee may give a grant by another grant option or by ownership."""
    for on in (grant.on, *grant.on.containers):
        if access.owner(on) == grantee:
            return True
        if any(each.grant_option and each.covers(grant.privilege) for each in access.grants(on=on, to=grantee)):
            return True
    return False


def _check_grantee(access: AccessRepository, grantee: Grantee) -> None:
    if not is_grantee_name(grantee.name):
        raise InvalidObjectError(f"{shortened(grantee.name)!r} is not the name of a {grantee.kind}")
    if grantee.kind is GranteeKind.ROLE:
        _check_role(access, grantee.name)


def _check_role(access: AccessRepository, name: str) -> None:
    if all(role.name != name for role in access.roles()):
        raise NoSuchObjectError(f"the role {shortened(name)} does not exist")


def _missing(on: SecuredObject) -> NoSuchObjectError:
    return NoSuchObjectError(f"the {on} does not exist")


def _is_part_of(holder: Caller, actor: Caller) -> bool:
    return holder.name == actor.name and holder.groups <= actor.groups


def _known(actor: Caller | None) -> Caller:
    assert actor is not None, "the operator is an administrator"
    return actor
