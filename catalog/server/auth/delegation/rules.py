"""Rules of delegation tokens: their lifetimes, the names of users, and users that act for others.

Hadoop's services map the names of Kerberos principals to those of users, and permit some users to act for others. Both
belong to other mechanisms: here is what holds where no such mechanism is set up.
"""

from collections.abc import Callable
from dataclasses import dataclass

from interbed.catalog.server.auth.principals import AuthenticationError, Principal


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenLifetimes:
    """Seconds: how long a token may be renewed, how long it is accepted without, how long a master key makes new ones.
    The defaults are Hive's.
    """

    max_seconds: float = 7 * 86400.0
    renew_seconds: float = 86400.0
    key_seconds: float = 86400.0


ActingFor = Callable[[Principal, str, str], Principal]
"""Returns the principal of a user for which an authenticated one acts from the address `host:port`; may do I/O.
AuthenticationError if it may not.
"""

ShortName = Callable[[str], str]
"""Returns the user of a name that may be a Kerberos principal. AuthenticationError for one that no rule maps."""


def never_acting(principal: Principal, user: str, peer: str) -> Principal:
    """Raise AuthenticationError: no user may act for another one."""
    raise AuthenticationError(
        f"The user {principal.name} is not allowed to act for {user}: this server has no proxy users; ask for a "
        f"delegation token of {principal.name}"
    )


def same_name(name: str) -> str:
    """Return the name of a user as it is: the rule of servers without Kerberos."""
    return name


@dataclass(frozen=True, slots=True, kw_only=True)
class DelegationRules:
    """The rules of a server."""

    lifetimes: TokenLifetimes = TokenLifetimes()
    short_name: ShortName = same_name
    acting: ActingFor = never_acting
