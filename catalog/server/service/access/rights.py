"""The rights that one caller has by grants: the privileges of its user, groups and roles together.

The graph of roles has the roles of a caller, and the members that a role must not get. Its functions are pure.

Decisions about many objects take a fraction of a microsecond each: questions of a list mostly differ in the name alone,
so that what the containers permit is found once for all of them.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from interbed.catalog.server.service.access.authorizer import Caller
from interbed.catalog.server.service.access.grants import (
    ADMIN_ROLE,
    PUBLIC,
    AccessState,
    Grant,
    Grantee,
    GranteeKind,
    RoleMember,
    group_named,
    role_named,
    user_named,
)
from interbed.catalog.server.service.access.objects import Access, Privilege, SecuredKind, SecuredObject


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
