"""The guard: where the services ask what the caller of the present call may do.

Calls of the process itself, such as those of its reaper, are the system's and may do everything. A call of a client
without a principal is refused. What the caller may not see does not exist for it: the guard answers which objects that
are, and the service runs as if they were missing (secured.py), so that errors and their texts are those of missing
ones.

Authorizers are asked outside of transactions. Where the decision depends on stored values, such as a change of the
owner, a service asks for all rights on the object first, and holds the change against them in its transaction.
"""

import hashlib
import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar, cast, runtime_checkable

from interbed.catalog.server.service.access.objects import (
    SERVER,
    Access,
    Authorizer,
    AuthorizerUnavailableError,
    Caller,
    Privilege,
    SecuredKind,
    SecuredObject,
)
from interbed.catalog.server.service.errors import AccessDeniedError, AccessUnavailableError

T = TypeVar("T")

AnyOf = tuple[Privilege, ...]
"""Privileges of which one suffices."""

WRITE: AnyOf = (Privilege.INSERT, Privilege.UPDATE, Privilege.DELETE)
"""Privileges of writers of rows."""

CHANGE: AnyOf = (*WRITE, Privilege.ALTER)
"""Privileges to change the partitions and the statistics of a table."""

SHOWING: AnyOf = (Privilege.SELECT, *WRITE, Privilege.ALTER, Privilege.DROP, Privilege.LOCATION)
"""Privileges on a container that show everything in it."""


DIGESTS_MAX = 1000
"""Callers for which the beginning of their keys of cached answers is kept."""

READ_ALL: AnyOf = (Privilege.SELECT,)
"""The privilege on a container that shows everything in it, with its content."""


@dataclass(frozen=True, slots=True)
class Rights:
    """The privileges of a caller on one object; `granted` is None for those of the system, which has all."""

    caller: str
    on: SecuredObject
    granted: frozenset[Privilege] | None

    def has(self, *any_of: Privilege) -> bool:
        """Return whether the caller has one of these privileges."""
        return self.granted is None or not self.granted.isdisjoint(any_of)

    def require(self, *any_of: Privilege) -> None:
        """Raise AccessDeniedError unless the caller has one of these privileges."""
        if not self.has(*any_of):
            raise denied(self.caller, any_of, self.on)


@dataclass(frozen=True, slots=True)
class Requirement:
    """One of some privileges on an object; without any, the caller has to see it."""

    any_of: AnyOf
    on: SecuredObject


def _questions(requirement: Requirement) -> list[Access]:
    """Return the questions of a requirement: whether the caller sees the object, then those about its privileges. A
    column is asked about after its table, which authorizers of one's own may know alone.
    """
    on = requirement.on
    if on.kind is not SecuredKind.COLUMN or on.container is None:
        return [Access(privilege, on) for privilege in (None, *requirement.any_of)]
    privileges = [Access(privilege, each) for each in (on.container, on) for privilege in requirement.any_of]
    return [Access(None, on.container), *privileges]


@runtime_checkable
class DatedAuthorizer(Protocol):
    """An authorizer that says when its decisions change. Only its callers' answers are cached."""

    def generation(self) -> int:
        """Return a number that has changed when any decision may have: with every change of grants and roles. Changes
        of owners need not count, since they are changes of metadata. It is called for each request, on the thread of
        the loop: it must not do I/O.
        """
        ...


@runtime_checkable
class ListAuthorizer(Protocol):
    """An authorizer with a quick answer for the names of one database: lists have many."""

    def sees_names(
        self, caller: Caller, container: SecuredObject, kind: SecuredKind, names: Sequence[str]
    ) -> list[bool]:
        """Return whether the caller sees each of the tables or functions of a database, as `decide` would.

        AuthorizerUnavailableError.
        """
        ...


class AccessGuard:
    """Asks an authorizer about the caller of the present call. Without an authorizer all may do everything.

    `caller` returns the caller; None for the process itself. It raises AccessDeniedError for a client without a
    principal.
    """

    __slots__ = ("_caller", "_digests", "_is_dated", "_lists", "authorizer")

    def __init__(
        self, authorizer: Authorizer | None = None, caller: Callable[[], Caller | None] = lambda: None
    ) -> None:
        self.authorizer = authorizer
        self._caller = caller
        self._lists: ListAuthorizer | None = authorizer if isinstance(authorizer, ListAuthorizer) else None
        self._is_dated = isinstance(authorizer, DatedAuthorizer)
        self._digests: dict[Caller, tuple[int, bytes]] = {}

    @property
    def is_on(self) -> bool:
        """Whether access is decided at all."""
        return self.authorizer is not None

    def caller(self) -> Caller | None:
        """Return the caller of the present call; None if it may do everything. AccessDeniedError."""
        return None if self.authorizer is None else self._caller()

    def decide(self, caller: Caller, questions: Sequence[Access]) -> Sequence[bool]:
        """Return the authorizer's answers. AccessUnavailableError if it has none."""
        assert self.authorizer is not None
        try:
            answers = self.authorizer.decide(caller, questions)
        except AuthorizerUnavailableError as error:
            raise _unavailable(error) from error
        if len(answers) != len(questions):
            raise AccessUnavailableError(
                f"the authorizer gave {len(answers)} answers to {len(questions)} questions: the call is refused"
            )
        return answers

    def admit(self, requirements: Sequence[Requirement]) -> frozenset[SecuredObject]:
        """Raise AccessDeniedError if the caller lacks a privilege on an object that it sees; return those that it does
        not see.
        """
        caller = self.caller()
        if caller is None:
            return frozenset()
        asked = [_questions(each) for each in requirements]
        answers = iter(self.decide(caller, list(itertools.chain.from_iterable(asked))))
        unseen = []
        for each, questions in zip(requirements, asked, strict=True):
            is_seen, *has = [next(answers) for _ in questions]
            if not is_seen and each.on != SERVER:
                unseen.append(questions[0].on)
            elif each.any_of and not any(has):
                raise denied(caller.name, each.any_of, each.on)
        return frozenset(unseen)

    def require(self, any_of: AnyOf, *objects: SecuredObject) -> None:
        """Raise AccessDeniedError unless the caller has one of the privileges on each object, whether it sees it or
        not: for objects whose existence the error does not show.
        """
        caller = self.caller()
        if caller is None:
            return
        for on, is_allowed in zip(objects, self._allowed(caller, any_of, objects), strict=True):
            if not is_allowed:
                raise denied(caller.name, any_of, on)

    def may(self, any_of: AnyOf, *objects: SecuredObject) -> bool:
        """Return whether the caller has one of the privileges on each object."""
        caller = self.caller()
        if caller is None:
            return True
        return all(self._allowed(caller, any_of, objects))

    def _allowed(self, caller: Caller, any_of: AnyOf, objects: Sequence[SecuredObject]) -> list[bool]:
        answers = self.decide(caller, [Access(each, on) for on in objects for each in any_of])
        count = len(any_of)
        return [any(answers[start : start + count]) for start in range(0, len(answers), count)]

    def rights(self, on: SecuredObject) -> Rights:
        """Return all privileges of the caller on an object."""
        caller = self.caller()
        if caller is None:
            return Rights("", on, None)
        answers = self.decide(caller, [Access(each, on) for each in Privilege])
        return Rights(caller.name, on, frozenset(each for each, has in zip(Privilege, answers, strict=True) if has))

    def sees(self, on: SecuredObject) -> bool:
        """Return whether the caller may see that an object exists."""
        caller = self.caller()
        return caller is None or bool(self.decide(caller, [Access(None, on)])[0])

    def visible(
        self, items: Iterable[T], object_of: Callable[[T], SecuredObject], within: SecuredObject | None = None
    ) -> list[T]:
        """Return the items whose objects the caller sees, in their order. `within` is a container of all of them: one
        question about it may answer for all.
        """
        caller = self.caller()
        found = list(items)
        if caller is None or not found:
            return found
        if within is not None and any(self.decide(caller, [Access(each, within) for each in SHOWING])):
            return found
        answers = self.decide(caller, [Access(None, object_of(each)) for each in found])
        return [each for each, is_seen in zip(found, answers, strict=True) if is_seen]

    def visible_names(self, names: Iterable[str], kind: SecuredKind, within: SecuredObject) -> list[str]:
        """Return the names of the tables or functions of a database that the caller sees, in their order."""
        caller = self.caller()
        if caller is None or self._lists is None:
            return self.visible(names, lambda name: SecuredObject(kind, within.catalog, within.database, name), within)
        found = list(names)
        if not found or any(self.decide(caller, [Access(each, within) for each in SHOWING])):
            return found
        try:
            answers = self._lists.sees_names(caller, within, kind, found)
        except AuthorizerUnavailableError as error:
            raise _unavailable(error) from error
        return [name for name, is_seen in zip(found, answers, strict=True) if is_seen]

    def owner(self, given: str | None) -> str | None:
        """Return the owner of an object that the caller creates: the caller. An administrator may name another one;
        AccessDeniedError for other callers.
        """
        caller = self.caller()
        if caller is None:
            return given
        if given in (None, "", caller.name):
            return caller.name
        if not self.may((Privilege.ALL,), SERVER):
            raise AccessDeniedError(
                f"{caller.name} cannot create an object that {given!r} owns: leave the owner out, or create it as "
                f"{given!r} (HADOOP_USER_NAME of Hive's and Spark's clients); administrators may name any owner"
            )
        return given

    def answers_key(self, caller: Caller | None) -> bytes | None:
        """Return the bytes that distinguish the cached answers of a caller from those of callers with other rights;
        None if its answers must not be kept: the authorizer does not say when its decisions change.
        """
        if self.authorizer is None:
            return b""
        if not self._is_dated or caller is None:
            return None
        generation: int = cast("DatedAuthorizer", self.authorizer).generation()
        kept = self._digests.get(caller)
        if kept is not None and kept[0] == generation:
            return kept[1]
        digest = hashlib.sha256()
        for part in (str(generation), caller.name, *sorted(caller.groups)):
            encoded = part.encode("utf-8", "surrogatepass")
            digest.update(len(encoded).to_bytes(4, "big") + encoded)
        found = digest.digest()
        if len(self._digests) >= DIGESTS_MAX:
            self._digests.clear()
        self._digests[caller] = generation, found
        return found


def _unavailable(error: AuthorizerUnavailableError) -> AccessUnavailableError:
    return AccessUnavailableError(f"access cannot be decided at present: {error}; try again")


OPEN_ACCESS = AccessGuard()
"""The guard of services whose callers may do everything."""


def denied(caller: str, any_of: AnyOf, on: SecuredObject) -> AccessDeniedError:
    """Return the error for a caller that lacks privileges on an object."""
    names = " or ".join(any_of)
    if on.kind is SecuredKind.COLUMN and on.column is None:
        return AccessDeniedError(
            f"{caller} lacks the privilege {names} on the {on.container}, and on each of its columns; its owner or an "
            "administrator may grant it"
        )
    if on == SERVER and any_of == (Privilege.ALL,):
        return AccessDeniedError(f"{caller} is not an administrator of this server, and the call needs one")
    return AccessDeniedError(
        f"{caller} lacks the privilege {names} on the {on}; its owner or an administrator may grant it"
    )
