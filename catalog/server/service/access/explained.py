"""Explanations of decisions of the built-in authorizer: what it has looked at, and what would permit a refused use."""

import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from interbed.catalog.server.service.access.authorizer import Caller
from interbed.catalog.server.service.access.builtin import decide_with_owners
from interbed.catalog.server.service.access.grants import (
    ADMIN_ROLE,
    PUBLIC,
    AccessRepository,
    Grant,
    Grantee,
    GranteeKind,
    role_named,
    user_named,
)
from interbed.catalog.server.service.access.objects import (
    COLUMN_PRIVILEGES,
    Access,
    Privilege,
    SecuredKind,
    SecuredObject,
)
from interbed.catalog.server.service.access.rights import GrantIndex
from interbed.catalog.server.service.access.roles import RoleGraph, described_path
from interbed.catalog.server.service.model import DEFAULT_CATALOG


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessExplanation:
    """A decision with its reasons. `roles` are those of the caller, each with its path; `grants` those of the caller on
    the object and on its containers; `owners` their owners. `remedies` are commands that would permit it.
    """

    is_permitted: bool
    exists: bool
    question: Access
    roles: Sequence[str]
    grants: Sequence[Grant]
    owners: Mapping[SecuredObject, Grantee]
    reasons: Sequence[str]
    remedies: Sequence[str]


def explain(
    access: AccessRepository, caller: Caller, question: Access, *, admins: Collection[str] = ()
) -> AccessExplanation:
    """Return why a caller may or may not use a privilege on an object, or see it."""
    state = access.state()
    paths = RoleGraph.of(state.members, admins).grantees(caller)
    rights = GrantIndex.of(state).rights(paths)
    on = question.on
    places = (on, *on.containers)
    found = [(place, access.owner(place)) for place in places]
    owners = {place: owner for place, owner in found if owner is not None}
    here = [grant for grant in state.grants if grant.on in places]
    own = [grant for grant in here if grant.to in paths]
    on_columns = [grant for grant in state.grants if grant.on.container == on and grant.on.kind is SecuredKind.COLUMN]
    own_columns = [grant for grant in on_columns if grant.to in paths]
    is_permitted = rights.is_admin or decide_with_owners(access, rights, [question])[0]
    reasons = []
    if rights.is_admin:
        reasons.append(f"{described_path(paths, role_named(ADMIN_ROLE))}: administrators may do everything")
    reasons.extend(
        f"the {owner} owns the {place}: {described_path(paths, owner)}"
        for place, owner in owners.items()
        if owner in paths and not (owner == PUBLIC and place.kind is SecuredKind.DATABASE)
    )
    reasons.extend(
        f"{grant.privilege} on the {grant.on} is granted: {described_path(paths, grant.to)}"
        for grant in own
        if question.privilege is None or grant.covers(question.privilege)
    )
    if question.privilege is not None and not is_permitted:
        reasons.extend(
            f"{grant.privilege} is granted on the {grant.on} alone, and not on the {on}: "
            f"{described_path(paths, grant.to)}"
            for grant in own_columns
            if grant.covers(question.privilege)
        )
    return AccessExplanation(
        is_permitted=is_permitted,
        exists=access.exists(on),
        question=question,
        roles=[described_path(paths, each) for each in paths if each.kind is GranteeKind.ROLE],
        grants=[*own, *own_columns],
        owners=owners,
        reasons=reasons,
        remedies=[] if is_permitted else _remedies(caller, question, here),
    )


def _remedies(caller: Caller, question: Access, here: Sequence[Grant]) -> list[str]:
    """Return commands that would permit a refused use: memberships in roles that have it, and a grant."""
    wanted = question.privilege or Privilege.SELECT
    user = user_named(caller.name)
    roles = dict.fromkeys(
        grant.to.name
        for grant in here
        if grant.to.kind is GranteeKind.ROLE and grant.covers(wanted) and grant.to != PUBLIC
    )
    to = f"{user.kind} {shlex.quote(user.name)}"
    memberships = [f"interbed metastore roles add {role} {to}" for role in roles]
    what, on = str(wanted), question.on
    if on.kind is SecuredKind.COLUMN and on.container is not None:
        if on.column is not None and wanted in COLUMN_PRIVILEGES:
            what += f" --columns {shlex.quote(on.column)}"
        on = on.container
    return [*memberships, f"interbed metastore grant {what} on {_as_arguments(on)} to {to}"]


def _as_arguments(on: SecuredObject) -> str:
    """Return an object as the arguments of a command."""
    match on.kind:
        case SecuredKind.SERVER:
            return str(on.kind)
        case SecuredKind.CATALOG:
            return f"{on.kind} {on.catalog}"
        case _:
            name = ".".join(part for part in (on.database, on.name) if part is not None)
            home = "" if on.catalog == DEFAULT_CATALOG else f" --catalog {on.catalog}"
            return f"{on.kind} {shlex.quote(name)}{home}"
