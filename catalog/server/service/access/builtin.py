"""The built-in authorizer: decides by the roles and grants in the metastore's database, and by the owners of objects.

Roles and grants are in memory. A process looks at their generation every CHECKED_SECONDS, so that a revocation is in
force on all servers within that time. What they do not permit is decided again on the present state of the database,
where the owners are looked up as well, so that a decision knows each grant and each new object. Cached answers of the
server depend on the generation (`generation`).

`explain` has what a decision has looked at, and what would permit a refused use.
"""

import itertools
import shlex
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from interbed.catalog.server.service.access.granting import (
    ONLY_OF_CONTAINERS,
    CallerRights,
    GrantIndex,
    RoleGraph,
    described_path,
)
from interbed.catalog.server.service.access.objects import (
    ADMIN_ROLE,
    COLUMN_PRIVILEGES,
    PUBLIC,
    Access,
    AccessRepository,
    AccessState,
    AuthorizerUnavailableError,
    Caller,
    Grant,
    Grantee,
    GranteeKind,
    OwnedScope,
    Privilege,
    SecuredKind,
    SecuredObject,
    role_named,
    user_named,
)
from interbed.catalog.server.service.errors import MetastoreError
from interbed.catalog.server.service.model import DEFAULT_CATALOG

T = TypeVar("T")

CHECKED_SECONDS = 0.5
"""Time for which a process uses its last look at the generation of roles and grants."""

AHEAD_SECONDS = 0.25
"""Time after which one caller takes the next look, while the others use the last one."""

CALLERS_MAX = 1000
"""Callers whose rights are kept, in each process."""

_NAMES_MAX = 500
"""Names whose owners are looked up by name; of more, all objects of the owners are looked up."""

_SCOPES_MAX = 10
"""Databases whose owned objects are looked up one by one; of more, all objects of the owners are looked up."""

_NAMED = frozenset((SecuredKind.TABLE, SecuredKind.FUNCTION))


class GrantsTransaction(Protocol):
    """One unit of work on a database with roles and grants."""

    @property
    def access(self) -> AccessRepository: ...


class GrantsReads(Protocol):
    """Database with roles and grants: the metastore's."""

    def read(self, work: Callable[[GrantsTransaction], T]) -> T: ...


@dataclass(slots=True, kw_only=True)
class _Snapshot:
    """Roles and grants at a generation, with the rights of callers as far as they were asked for."""

    generation: int
    graph: RoleGraph
    index: GrantIndex
    callers: "OrderedDict[Caller, CallerRights]" = field(default_factory=OrderedDict)

    def rights(self, caller: Caller) -> CallerRights:
        """Return the rights of a caller. The caller holds the authorizer's lock."""
        found = self.callers.get(caller)
        if found is None:
            found = self.callers[caller] = self.index.rights(self.graph.grantees(caller))
            if len(self.callers) > CALLERS_MAX:
                self.callers.popitem(last=False)
        self.callers.move_to_end(caller)
        return found


class BuiltinAuthorizer:
    """Decides by grants, roles and owners. Safe for many threads. `admins` are users in the role `admin`."""

    def __init__(
        self, store: GrantsReads, *, admins: Collection[str] = (), clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._store = store
        self.admins = frozenset(admins)
        self._clock = clock
        self._guard = threading.Lock()
        self._snapshot: _Snapshot | None = None
        self._checked_at = float("-inf")
        self._asked_at = float("-inf")
        """The time when a caller of `generation` was last made to take a look ahead of time."""
        self._is_checking = False
        self._unknown = itertools.count(1)

    def decide(self, caller: Caller, questions: Sequence[Access]) -> Sequence[bool]:
        """Return an answer to each question, in their order. AuthorizerUnavailableError if the database does not
        answer.
        """
        rights = self._rights(caller)
        if rights.is_admin:
            return [True] * len(questions)
        answers = rights.decide(questions)
        return answers if all(answers) else self._on_present_state(caller, questions)

    def sees_names(
        self, caller: Caller, container: SecuredObject, kind: SecuredKind, names: Sequence[str]
    ) -> list[bool]:
        """Return whether the caller sees each of the tables or functions of a database, as `decide` would.

        A list has many names: without an object and a question for each it takes a fraction of the time.
        """
        on = SecuredObject(kind, container.catalog, container.database, "")
        rights = self._rights(caller)
        permitted = None if rights.is_admin else rights.permitted(None, on)
        if permitted is None or permitted.issuperset(names):
            return [True] * len(names)
        now = self._clock()

        def work(transaction: GrantsTransaction) -> tuple[_Snapshot, frozenset[str | None] | None]:
            snapshot = self._present(transaction.access)
            with self._guard:
                rights = snapshot.rights(caller)
            permitted = None if rights.is_admin else rights.permitted(None, on)
            if permitted is None:
                return snapshot, None
            owned_databases = transaction.access.owned_databases(rights.owners)
            if (on.catalog, on.database) in owned_databases:
                return snapshot, None
            scope = OwnedScope(
                kind=kind,
                catalog=on.catalog or "",
                database=on.database or "",
                names=set(names) if len(names) <= _NAMES_MAX else None,
            )
            return snapshot, permitted | transaction.access.owned(scope, rights.grantees)

        snapshot, seen = self._read(work)
        self._keep(snapshot, now)
        return [True] * len(names) if seen is None else [name in seen for name in names]

    def generation(self) -> int:
        """Return a number that changes with the roles and grants, without I/O. Where the last look at them is too old,
        it is a number that no other call returns: what depends on it is decided again, which takes that look.
        """
        now = self._clock()
        with self._guard:
            age = now - self._checked_at
            if self._snapshot is not None and age < CHECKED_SECONDS:
                if age < AHEAD_SECONDS or now - self._asked_at < AHEAD_SECONDS:
                    return self._snapshot.generation
                self._asked_at = now
        return -next(self._unknown)

    def _rights(self, caller: Caller) -> CallerRights:
        now = self._clock()
        with self._guard:
            age = now - self._checked_at
            is_current = age < AHEAD_SECONDS or (age < CHECKED_SECONDS and self._is_checking)
            if self._snapshot is not None and is_current:
                return self._snapshot.rights(caller)
            self._is_checking = True
        try:
            snapshot = self._checked(now)
        finally:
            self._is_checking = False
        with self._guard:
            return snapshot.rights(caller)

    def _checked(self, now: float) -> _Snapshot:
        """Return the roles and grants of the present generation. `now` is before the look at it."""
        snapshot = self._read(lambda transaction: self._present(transaction.access))
        self._keep(snapshot, now)
        return snapshot

    def _present(self, access: AccessRepository) -> _Snapshot:
        snapshot = self._snapshot
        if snapshot is not None and access.generation() == snapshot.generation:
            return snapshot
        return self._snapshot_of(access.state())

    def _snapshot_of(self, state: AccessState) -> _Snapshot:
        return _Snapshot(
            generation=state.generation, graph=RoleGraph.of(state.members, self.admins), index=GrantIndex.of(state)
        )

    def _keep(self, snapshot: _Snapshot, now: float) -> None:
        with self._guard:
            # Another thread may have looked later. A restored database has an older generation, which counts as well.
            if now >= self._checked_at:
                self._snapshot = snapshot
                self._checked_at = now

    def _on_present_state(self, caller: Caller, questions: Sequence[Access]) -> Sequence[bool]:
        now = self._clock()

        def work(transaction: GrantsTransaction) -> tuple[_Snapshot, list[bool]]:
            snapshot = self._present(transaction.access)
            with self._guard:
                rights = snapshot.rights(caller)
            if rights.is_admin:
                return snapshot, [True] * len(questions)
            return snapshot, decide_with_owners(transaction.access, rights, questions)

        snapshot, answers = self._read(work)
        self._keep(snapshot, now)
        return answers

    def _read(self, work: Callable[[GrantsTransaction], T]) -> T:
        try:
            return self._store.read(work)
        except MetastoreError as error:
            raise AuthorizerUnavailableError(f"the grants cannot be read: {error}") from error


def decide_with_owners(access: AccessRepository, rights: CallerRights, questions: Sequence[Access]) -> list[bool]:
    """Return the answers of the grants and of the owners of the objects, for a caller that is no administrator."""
    answers = rights.decide(questions)
    open_numbers = [number for number, answer in enumerate(answers) if not answer]
    if not open_numbers:
        return answers
    # The owner of a table owns its columns.
    asked = {number: _of_table(questions[number]) for number in open_numbers}
    owned = _OwnedObjects(access, rights, [each.on for each in asked.values()])
    for number, question in asked.items():
        answers[number] = owned.permits(question)
    return answers


def _of_table(question: Access) -> Access:
    """Return a question about a column as one about its table."""
    if question.on.kind is not SecuredKind.COLUMN:
        return question
    assert question.on.container is not None
    return Access(question.privilege, question.on.container)


class _OwnedObjects:
    """The owners of the objects of some questions, looked up as far as the questions need it."""

    def __init__(self, access: AccessRepository, rights: CallerRights, objects: Sequence[SecuredObject]) -> None:
        self._access = access
        self._rights = rights
        self._databases: set[tuple[str, str]] | None = None
        self._of_public: set[tuple[str, str]] | None = None
        self._around: set[tuple[str, str]] | None = None
        scopes = _scopes(objects)
        if len(scopes) <= _SCOPES_MAX:
            self._names = {scope: self._owned(scope, names) for scope, names in scopes.items()}
        else:
            self._names = self._owned_anywhere({kind for kind, _, _ in scopes})

    def permits(self, question: Access) -> bool:
        """Return whether an owner among the caller's grantees permits it."""
        on, privilege = question.on, question.privilege
        if on.kind in _NAMED and on.name in self._names.get((on.kind, on.catalog or "", on.database or ""), ()):
            return True
        if on.database is not None and (on.catalog, on.database) in self._owned_databases():
            return True
        if on.kind is SecuredKind.DATABASE:
            place = (on.catalog, on.database)
            if (privilege is None or privilege in ONLY_OF_CONTAINERS) and place in self._databases_of_public():
                return True
            return privilege is None and place in self._databases_around()
        if on.kind in _NAMED or privilege is not None:
            return False
        seen = self._owned_databases() | self._databases_of_public() | self._databases_around()
        return bool(seen) if on.kind is SecuredKind.SERVER else any(catalog == on.catalog for catalog, _ in seen)

    def _owned(self, scope: tuple[SecuredKind, str, str], names: set[str]) -> set[str]:
        kind, catalog, database = scope
        wanted = names if len(names) <= _NAMES_MAX else None
        return self._access.owned(
            OwnedScope(kind=kind, catalog=catalog, database=database, names=wanted), self._rights.grantees
        )

    def _owned_anywhere(self, kinds: Collection[SecuredKind]) -> dict[tuple[SecuredKind, str, str], set[str]]:
        found: dict[tuple[SecuredKind, str, str], set[str]] = {}
        for kind in kinds:
            for catalog, database, name in self._access.owned_anywhere(kind, self._rights.grantees):
                found.setdefault((kind, catalog, database), set()).add(name)
        return found

    def _owned_databases(self) -> set[tuple[str, str]]:
        if self._databases is None:
            self._databases = self._access.owned_databases(self._rights.owners)
        return self._databases

    def _databases_of_public(self) -> set[tuple[str, str]]:
        if self._of_public is None:
            self._of_public = self._access.owned_databases([PUBLIC])
        return self._of_public

    def _databases_around(self) -> set[tuple[str, str]]:
        if self._around is None:
            self._around = self._access.databases_with_owned(self._rights.grantees)
        return self._around


def _scopes(objects: Sequence[SecuredObject]) -> dict[tuple[SecuredKind, str, str], set[str]]:
    """Return the names of tables and functions by kind and database."""
    found: dict[tuple[SecuredKind, str, str], set[str]] = {}
    last: tuple[object, ...] = (None,) * 3
    names: set[str] = set()
    for on in objects:
        if on.kind not in _NAMED or on.catalog is None or on.database is None or on.name is None:
            continue
        # Mostly in the same database as the object before.
        if on.kind is not last[0] or on.catalog != last[1] or on.database != last[2]:
            last = (on.kind, on.catalog, on.database)
            names = found.setdefault((on.kind, on.catalog, on.database), set())
        names.add(on.name)
    return found


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
