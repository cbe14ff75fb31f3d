"""The graph of roles: which roles a caller has, and which members a role must not get. Pure functions on values."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from interbed.catalog.server.service.access.authorizer import Caller
from interbed.catalog.server.service.access.grants import (
    ADMIN_ROLE,
    PUBLIC,
    Grantee,
    GranteeKind,
    RoleMember,
    group_named,
    role_named,
    user_named,
)


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
