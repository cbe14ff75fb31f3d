"""Changes of roles and grants, by the rules of Hive's SQL standard based authorization.

Administrators, which are the members of the role `admin` and the operator at the database, may do everything. Others
give privileges that they have with the grant option, and those on objects that they own; they revoke what they gave.
The owner of an object revokes all grants on it. The members of a role are changed by its members with the admin option.
What an actor does not see does not exist for it.

As in Hive, a revocation leaves the grants that depend on the revoked one, unless it is one with CASCADE.
"""

import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from typing import Protocol, TypeVar

from interbed.catalog.server.service.access import granting
from interbed.catalog.server.service.access.builtin import AccessExplanation, BuiltinAuthorizer, explain
from interbed.catalog.server.service.access.granting import (
    ActorRules,
    GrantRequest,
    RoleGraph,
    check_grantee,
    check_privilege,
    check_role,
    dependent_grants,
    missing_object,
    remove_dependent,
)
from interbed.catalog.server.service.access.objects import (
    ADMIN_ROLE,
    BUILT_IN_ROLES,
    PUBLIC,
    PUBLIC_ROLE,
    Access,
    AccessRepository,
    AuthorizerUnavailableError,
    Caller,
    Grant,
    Grantee,
    GranteeKind,
    PolicyRepository,
    Privilege,
    Role,
    RoleMember,
    SecuredKind,
    SecuredObject,
    column_object,
    role_name_fault,
    role_named,
)
from interbed.catalog.server.service.errors import (
    AccessDeniedError,
    AccessUnavailableError,
    AlreadyExistsError,
    InvalidObjectError,
    InvalidOperationError,
    NoSuchObjectError,
)
from interbed.catalog.server.service.history.entries import History, HistoryEntry, HistoryQuery
from interbed.catalog.server.service.names import shortened

T = TypeVar("T")

GRANTS_MAX = 10_000
"""Grants that one request may make or revoke."""


class AccessTransaction(Protocol):
    """One unit of work on a database with roles, grants and a history."""

    @property
    def access(self) -> AccessRepository: ...
    @property
    def policies(self) -> PolicyRepository: ...
    @property
    def history(self) -> History: ...


class AccessUnits(Protocol):
    """Database of the metastore, for roles and grants."""

    def read(self, work: Callable[[AccessTransaction], T]) -> T: ...
    def write(self, work: Callable[[AccessTransaction], T]) -> T: ...


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
        fault = role_name_fault(key)
        if fault is not None:
            raise InvalidObjectError(fault)

        def work(transaction: AccessTransaction) -> None:
            rules = self._changing(transaction.access, actor)
            rules.require_admin(f"create the role {key}")
            role = Role(name=key, created_by=rules.name, created_at=self._now())
            if not transaction.access.add_role(role):
                raise AlreadyExistsError(f"the role {key} already exists")
            transaction.history.record(granting.role_created(key))

        self._store.write(work)

    def drop_role(self, name: str, actor: Caller | None) -> None:
        """Drop a role with its members, its memberships and its grants.

        AccessDeniedError, NoSuchObjectError, InvalidOperationError for a built-in role, for one that owns objects,
        and for one that policies of tables name.
        """
        key = role_named(name).name

        def work(transaction: AccessTransaction) -> None:
            self._changing(transaction.access, actor).require_admin(f"drop the role {shortened(key)}")
            check_role(transaction.access, key)
            if key in BUILT_IN_ROLES:
                raise InvalidOperationError(f"the role {key} is built in: it cannot be dropped")
            owned = transaction.access.first_owned(role_named(key))
            if owned is not None:
                raise InvalidOperationError(f"the role {key} owns the {owned}: give it another owner first")
            filtered = transaction.policies.naming(role_named(key))
            if filtered is not None:
                raise InvalidOperationError(f"the role {key} is in a policy of the {filtered}: drop or set that first")
            transaction.access.remove_role(key)
            transaction.history.record(granting.role_dropped(key))

        self._store.write(work)

    def roles(self, actor: Caller | None) -> Sequence[Role]:
        """Return the roles that an actor sees, by name: all for administrators, for others those that they have."""

        def work(transaction: AccessTransaction) -> Sequence[Role]:
            found = transaction.access.roles()
            rules = self._rules(transaction.access, actor)
            return [role for role in found if rules.is_admin or role_named(role.name) in rules.grantees]

        return self._store.read(work)

    def memberships(self, member: Grantee, actor: Caller | None) -> Sequence[RoleMember]:
        """Return the roles that a grantee is a direct member of, with `public` for users.

        AccessDeniedError for the roles of others, unless the actor is an administrator.
        """

        def work(transaction: AccessTransaction) -> Sequence[RoleMember]:
            rules = self._rules(transaction.access, actor)
            if not rules.is_admin and member not in rules.grantees:
                raise AccessDeniedError(f"{rules.name} may not list the roles of the {member}")
            found = list(rules.graph.by_member.get(member, ()))
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
            self._rules(transaction.access, actor).require_changes_of(key)
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
            rules = self._changing(access, actor)
            rules.require_changes_of(key)
            check_grantee(access, member)
            if key == PUBLIC_ROLE:
                raise InvalidOperationError(f"everyone is in the role {PUBLIC_ROLE}: it has no members")
            if member == PUBLIC and key == ADMIN_ROLE:
                raise InvalidOperationError("the role public cannot be in the role admin: everyone could do everything")
            if rules.graph.would_be_cycle(key, member):
                raise InvalidOperationError(
                    f"the {member} cannot be in the role {key}: {key} is in it already, directly or by other roles"
                )
            access.put_member(
                RoleMember(
                    role=key,
                    member=member,
                    admin_option=admin_option,
                    grantor=rules.grantor(grantor),
                    granted_at=self._now(),
                )
            )
            transaction.history.record(granting.member_added(key, member, admin_option=admin_option))

        self._store.write(work)

    def remove_member(
        self, role: str, member: Grantee, actor: Caller | None, *, admin_option_only: bool = False
    ) -> None:
        """Remove a member of a role, or only its admin option. AccessDeniedError, NoSuchObjectError."""
        key = role_named(role).name

        def work(transaction: AccessTransaction) -> None:
            access = transaction.access
            rules = self._changing(access, actor)
            rules.require_changes_of(key)
            present = next((each for each in rules.graph.by_member.get(member, ()) if each.role == key), None)
            if present is None:
                raise NoSuchObjectError(f"the {member} is not a member of the role {key}")
            if admin_option_only:
                access.put_member(replace(present, admin_option=False))
            else:
                access.remove_member(key, member)
            transaction.history.record(granting.member_removed(key, member, admin_option_only=admin_option_only))

        self._store.write(work)

    # -- grants --------------------------------------------------------------------------------------------------------

    def grants(
        self, actor: Caller | None, *, on: SecuredObject | None = None, to: Grantee | None = None
    ) -> Sequence[Grant]:
        """Return the grants on an object and to a grantee, as far as these are given, the oldest first. Those on a
        table are followed by those on its columns.

        Administrators see all, the owner of an object those on it and in it. Others see those to themselves and to
        their groups and roles. NoSuchObjectError for an object that the actor does not see.
        """
        if on is not None:
            self._check_seen(actor, on)

        def work(transaction: AccessTransaction) -> Sequence[Grant]:
            access = transaction.access
            if on is not None and not access.exists(on):
                raise missing_object(on)
            rules = self._rules(access, actor)
            found = _with_columns(access, on, to)
            if rules.is_admin or (on is not None and rules.owner(on) is not None):
                return found
            return [each for each in found if each.to in rules.grantees]

        return self._store.read(work)

    def grants_of(self, holder: Caller, on: SecuredObject, actor: Caller | None) -> Sequence[Grant]:
        """Return the grants on an object that a user with some groups has, also by its roles. AccessDeniedError for
        another user's, unless the actor is an administrator. NoSuchObjectError.
        """
        return self._of_holder(holder, on, actor, lambda access, _: _with_columns(access, on))

    def effective_grants(self, holder: Caller, on: SecuredObject, actor: Caller | None) -> Sequence[Grant]:
        """Return the grants as `grants_of`, with those on the containers of the object, and with ALL for an owner of
        one of them. Errors are those of `grants_of`.
        """
        return self._of_holder(holder, on, actor, _with_containers)

    def _of_holder(
        self,
        holder: Caller,
        on: SecuredObject,
        actor: Caller | None,
        found: Callable[[AccessRepository, SecuredObject], Sequence[Grant]],
    ) -> Sequence[Grant]:
        self._check_seen(actor, on)

        def work(transaction: AccessTransaction) -> Sequence[Grant]:
            access = transaction.access
            if not access.exists(on):
                raise missing_object(on)
            rules = self._rules(access, actor)
            if not rules.is_admin and not rules.stands_for(holder):
                raise AccessDeniedError(f"{rules.name} may not list the privileges of {shortened(holder.name)}")
            grantees = rules.graph.grantees(holder)
            return [each for each in found(access, on) if each.to in grantees]

        return self._store.read(work)

    def grant(self, requests: Sequence[GrantRequest], actor: Caller | None) -> None:
        """Give privileges, all or none. What a grantee has already from the same grantor stays; a grant option is
        added.

        AccessDeniedError, NoSuchObjectError for an object or a role, InvalidObjectError for another grantee.
        """
        self._check(requests, actor)

        def work(transaction: AccessTransaction) -> None:
            _lock(transaction.access, [each.on for each in requests])
            rules = self._changing(transaction.access, actor)
            for request in requests:
                self._give(transaction, rules, request)

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
            access = transaction.access
            _lock(access, [each.on for each in requests])
            rules = self._changing(access, actor)
            revoked: list[Grant] = []
            for request in requests:
                found = rules.revocable(request)
                if grant_option_only:
                    access.end_grant_options([each.id for each in found])
                else:
                    access.remove_grants([each.id for each in found])
                transaction.history.record(
                    *(granting.revoked(access, each, option_only=grant_option_only) for each in found)
                )
                revoked.extend(found)
            if cascade:
                dependent = remove_dependent(access, revoked)
                transaction.history.record(*(granting.revoked(access, each, option_only=False) for each in dependent))
                revoked.extend(dependent)
            return revoked

        return self._store.write(work)

    def dependent(self, revoked: Sequence[Grant]) -> Sequence[Grant]:
        """Return the grants that were given by the grant options of revoked ones, and that stay without CASCADE."""
        return self._store.read(lambda transaction: dependent_grants(transaction.access, revoked))

    def changes(self, actor: Caller | None, *, limit: int | None = None) -> Sequence[HistoryEntry]:
        """Return the changes of roles and grants, oldest first; with a limit the latest ones. AccessDeniedError for
        others than administrators.
        """

        def work(transaction: AccessTransaction) -> Sequence[HistoryEntry]:
            self._rules(transaction.access, actor).require_admin("see the changes of roles and grants")
            return transaction.history.select(HistoryQuery(of_access=True, limit=limit))

        return self._store.read(work)

    def explain(self, caller: Caller, question: Access) -> AccessExplanation:
        """Return why a caller may or may not use a privilege on an object; for the operator."""
        return self._store.read(lambda transaction: explain(transaction.access, caller, question, admins=self._admins))

    def replace_grants(self, on: SecuredObject, requests: Sequence[GrantRequest], actor: Caller | None) -> None:
        """Replace all grants on an object by others; those on a column without a name are the grants on all columns of
        its table. AccessDeniedError for others than administrators, NoSuchObjectError.
        """
        self._check(requests, actor)

        def work(transaction: AccessTransaction) -> None:
            access = transaction.access
            _lock(access, [on, *(each.on for each in requests)])
            rules = self._changing(access, actor)
            rules.require_admin(f"replace the grants on the {on}")
            old = access.grants(on=on)
            access.remove_grants([each.id for each in old])
            transaction.history.record(*(granting.revoked(access, each, option_only=False) for each in old))
            for request in requests:
                if request.on != on and not (_is_any_column(on) and request.on.container == on.container):
                    raise InvalidObjectError(f"the grants on the {on} cannot be replaced by one on the {request.on}")
                self._give(transaction, rules, request)

        self._store.write(work)

    # -- steps ---------------------------------------------------------------------------------------------------------

    def _rules(self, access: AccessRepository, actor: Caller | None) -> ActorRules:
        return ActorRules(access, RoleGraph.of(access.members(), self._admins), actor, self._operator)

    def _changing(self, access: AccessRepository, actor: Caller | None) -> ActorRules:
        """Block other changes, and return the rules as they are then."""
        access.advance()
        return self._rules(access, actor)

    def _check(self, requests: Sequence[GrantRequest], actor: Caller | None) -> None:
        for each in requests:
            check_privilege(each)
        if len(requests) > GRANTS_MAX:
            raise InvalidObjectError(f"a request with {len(requests)} grants is too large: {GRANTS_MAX} are allowed")
        for on in dict.fromkeys(each.on for each in requests):
            self._check_seen(actor, on)

    def _check_seen(self, actor: Caller | None, on: SecuredObject) -> None:
        """Raise NoSuchObjectError for an object that the actor does not see."""
        if actor is None:
            return
        try:
            is_seen = self._authorizer.decide(actor, [Access(None, on)])[0]
        except AuthorizerUnavailableError as error:
            raise AccessUnavailableError(f"{error}; try again") from error
        if not is_seen:
            raise missing_object(on)

    def _give(self, transaction: AccessTransaction, rules: ActorRules, request: GrantRequest) -> None:
        access = transaction.access
        check_grantee(access, request.to)
        grant = Grant(
            privilege=request.privilege,
            on=request.on,
            to=request.to,
            grant_option=request.grant_option,
            grantor=rules.grantor(request.grantor),
            through=rules.through(request),
            granted_at=self._now(),
        )
        same = [
            each
            for each in access.grants(on=request.on, to=request.to)
            if (each.privilege, each.grantor, each.through) == (grant.privilege, grant.grantor, grant.through)
        ]
        if any(each.grant_option or not request.grant_option for each in same):
            return
        access.remove_grants([each.id for each in same])
        access.put_grant(grant)
        transaction.history.record(granting.granted(access, grant))

    def _now(self) -> int:
        return int(self._clock())


def _is_any_column(on: SecuredObject) -> bool:
    return on.kind is SecuredKind.COLUMN and on.column is None


def _with_columns(access: AccessRepository, on: SecuredObject | None, to: Grantee | None = None) -> Sequence[Grant]:
    """Return the grants on an object and to a grantee; those on a table with those on its columns behind them."""
    found = access.grants(on=on, to=to)
    if on is None or on.kind is not SecuredKind.TABLE:
        return found
    return [*found, *access.grants(on=column_object(on, None), to=to)]


def _with_containers(access: AccessRepository, on: SecuredObject) -> Sequence[Grant]:
    """Return the grants on an object and its containers, and ALL for each of their owners."""
    found: list[Grant] = []
    for each in (on, *on.containers):
        found += access.grants(on=each)
        owner = access.owner(each)
        if owner is not None and not (owner == PUBLIC and each.kind is SecuredKind.DATABASE):
            found.append(Grant(privilege=Privilege.ALL, on=each, to=owner, grant_option=True, grantor=owner.name))
    return found


def _lock(access: AccessRepository, objects: Iterable[SecuredObject]) -> None:
    """Lock objects against their removal, in one order, so that requests cannot block each other.
    NoSuchObjectError.
    """
    for on in sorted(set(objects), key=str):
        if not access.exists(on):
            raise missing_object(on)
