"""The protocol of authorizers: they decide what a caller may do. `access_authorizer` chooses one.

An authorizer of one's own is a class with a constructor without arguments, by its name `package.module:Class`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from interbed.catalog.server.service.access.objects import Access


@dataclass(frozen=True, slots=True)
class Caller:
    """The authenticated principal that a call is made for: its name, and the groups that its credentials have."""

    name: str
    groups: frozenset[str] = field(default_factory=frozenset)


class Authorizer(Protocol):
    """Decides what callers may do. Safe for many threads. It is asked on the thread of the call, outside of
    transactions: an answer should come from memory, or from one short query.
    """

    def decide(self, caller: Caller, questions: Sequence[Access]) -> Sequence[bool]:
        """Return an answer to each question, in their order. May raise AuthorizerUnavailableError: the call is refused
        then, whatever it asks for.

        A privilege on an object holds for everything in it. The owner of an object has all privileges on it and on
        everything in it. A caller sees an object on which, or in which, or on whose container it has a privilege;
        USAGE and CREATE on a container show only the container.
        """
        ...


class AuthorizerUnavailableError(Exception):
    """The authorizer cannot decide at present."""
