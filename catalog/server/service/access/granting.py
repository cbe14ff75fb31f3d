"""The rules for changes of roles and grants: the right to give them, and what a revocation takes along."""

from collections.abc import Sequence
from dataclasses import dataclass

from interbed.catalog.server.service.access.authorizer import Caller
from interbed.catalog.server.service.access.grants import (
    ADMIN_ROLE,
    PUBLIC,
    AccessRepository,
    Grant,
    Grantee,
    GranteeKind,
    is_grantee_name,
)
from interbed.catalog.server.service.access.objects import (
    COLUMN_PRIVILEGES,
    Privilege,
    SecuredKind,
    SecuredObject,
)
from interbed.catalog.server.service.access.rights import RoleGraph
from interbed.catalog.server.service.errors import AccessDeniedError, InvalidObjectError, NoSuchObjectError
from interbed.catalog.server.service.names import shortened


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
