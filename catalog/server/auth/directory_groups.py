"""Groups of users that another mechanism has authenticated: by Kerberos, certificates, or tokens without groups.

A directory is asked by the name of the user, and its answer is kept for a time. A connection asks again after that
time, so that a user that leaves a group loses its rights on open connections. When the directory does not answer, kept
groups serve to the end of that time. Then such users are refused, because a user without groups could see rows that a
filter for one of its groups hides.
"""

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from interbed.catalog.server.auth.impersonation import GroupsOf
from interbed.catalog.server.auth.principals import (
    AuthenticationUnavailableError,
    BearerVerifier,
    Principal,
)

logger = logging.getLogger(__name__)

KEPT_MAX = 10_000
"""Users whose groups are kept, in each process."""

RETRY_SECONDS = 2.0
"""Time for which a directory that has not answered is not asked again."""

_UNAVAILABLE = "The groups of the user cannot be looked up at present"


class UserGroups(Protocol):
    """The groups of users. Safe for many threads."""

    def known(self, user: str) -> frozenset[str] | None:
        """Return the groups of a user if that needs no I/O, None otherwise."""
        ...

    def of(self, user: str) -> frozenset[str]:
        """Return the groups of a user; may do I/O. AuthenticationError, AuthenticationUnavailableError."""
        ...


class NoGroups:
    """The groups of users on a server that looks up none."""

    def known(self, user: str) -> frozenset[str]:
        """Return no groups for any user."""
        return frozenset()

    def of(self, user: str) -> frozenset[str]:
        """Return no groups for any user."""
        return frozenset()


class DirectoryGroups:
    """The groups of users by a directory or this machine, kept for `seconds`. Safe for many threads."""

    def __init__(
        self, look_up: GroupsOf, *, seconds: float = 300.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.seconds = seconds
        self._look_up = look_up
        self._clock = clock
        self._guard = threading.Lock()
        self._kept: OrderedDict[str, tuple[frozenset[str], float]] = OrderedDict()
        self._closed_until = 0.0

    def known(self, user: str) -> frozenset[str] | None:
        """Return the kept groups of a user, None if the directory has to be asked. No I/O."""
        found = self._find(user)
        return None if found is None else found[0]

    def of(self, user: str) -> frozenset[str]:
        """Return the groups of a user; may do I/O. AuthenticationError, AuthenticationUnavailableError."""
        return self.with_seconds(user)[0]

    def with_seconds(self, user: str) -> tuple[frozenset[str], float]:
        """Return the groups of a user, and the seconds for which they are kept; may do I/O.

        AuthenticationError, AuthenticationUnavailableError.
        """
        known = self._find(user)
        if known is not None:
            return known[0], known[1] - self._clock()
        with self._guard:
            if self._clock() < self._closed_until:
                raise AuthenticationUnavailableError(_UNAVAILABLE)
        # The answer is as old as the question.
        asked = self._clock()
        try:
            found = self._look_up(user)
        except AuthenticationUnavailableError as error:
            with self._guard:
                self._closed_until = self._clock() + RETRY_SECONDS
            logger.warning("the groups of %s cannot be looked up, the user is refused: %s", user, error)
            raise AuthenticationUnavailableError(_UNAVAILABLE) from error
        with self._guard:
            self._kept[user] = (found, asked + self.seconds)
            self._kept.move_to_end(user)
            while len(self._kept) > KEPT_MAX:
                self._kept.popitem(last=False)
        return found, asked + self.seconds - self._clock()

    def _find(self, user: str) -> tuple[frozenset[str], float] | None:
        """Return the kept groups of a user and their end."""
        with self._guard:
            found = self._kept.get(user)
            if found is None or self._clock() >= found[1]:
                return None
            self._kept.move_to_end(user)
            return found


class GroupedBearers:
    """A mechanism of bearer tokens whose principals get their groups from a directory."""

    def __init__(
        self, tokens: BearerVerifier, groups: DirectoryGroups, *, clock: Callable[[], float] = time.time
    ) -> None:
        self._tokens = tokens
        self._groups = groups
        self._clock = clock

    def verify(self, token: str) -> tuple[Principal, float]:
        """Return the principal with its groups, and the time until which it may be kept. AuthenticationError."""
        principal, until = self._tokens.verify(token)
        groups, seconds = self._groups.with_seconds(principal.name)
        return replace(principal, groups=groups), min(until, self._clock() + seconds)
