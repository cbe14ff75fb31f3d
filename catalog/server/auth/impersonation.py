"""Users behind a request: their groups by a directory, and impersonation by services.

**Groups** of users that another mechanism has authenticated: by Kerberos, certificates, or tokens without groups. A
directory is asked by the name of the user, and its answer is kept for a time. A connection asks again after that time,
so that a user that leaves a group loses its rights on open connections. When the directory does not answer, kept groups
serve to the end of that time. Then such users are refused, because a user without groups could see rows that a filter
for one of its groups hides.

**Impersonation.** An authenticated service acts for one of its users, as Hadoop's settings `hadoop.proxyuser.*` allow.
The setting `proxy_users` has entries `service.hosts=…`, `service.groups=…` and `service.users=…`, separated by
semicolons. A service may act for a user if the user, or one of its groups, is in the list, and the request comes from
one of the hosts: addresses, networks such as 10.0.0.0/8, or names. `*` is everything. A service without `hosts`, or
with neither `groups` nor `users`, may act for no user.
"""

import grp
import logging
import os
import pwd
import socket
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Protocol

from interbed.catalog.server.auth.principals import (
    AuthenticationError,
    AuthenticationUnavailableError,
    BearerVerifier,
    Principal,
    checked_principal,
)

KEPT_MAX = 10_000
"""Users whose groups are kept, in each process."""

RETRY_SECONDS = 2.0
"""Time for which a directory that has not answered is not asked again."""

_UNAVAILABLE = "The groups of the user cannot be looked up at present"

EVERYTHING = "*"
GroupsOf = Callable[[str], frozenset[str]]
"""Returns the groups of a user; may do I/O."""

_KINDS = ("hosts", "groups", "users")

logger = logging.getLogger(__name__)


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


class ImpersonationError(AuthenticationError):
    """The client is authenticated, and may not act for the user that it names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyUser:
    """Whom a service may act for, and from where."""

    hosts: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    users: tuple[str, ...] = ()

    def has_user(self, user: str, groups: frozenset[str]) -> bool:
        """Return whether the service may act for a user in these groups."""
        if EVERYTHING in self.users or EVERYTHING in self.groups or user in self.users:
            return True
        return not groups.isdisjoint(self.groups)

    def has_host(self, address: str) -> bool:
        """Return whether the service may do so from an address; looks up names."""
        if EVERYTHING in self.hosts:
            return True
        try:
            peer = _unmapped(ip_address(address))
        except ValueError:
            return False
        return any(peer in network for host in self.hosts for network in _networks(host))


class Impersonation:
    """The rules of a server. Safe for many threads."""

    def __init__(self, proxies: Mapping[str, ProxyUser], groups_of: GroupsOf) -> None:
        self._proxies = dict(proxies)
        self._groups_of = groups_of

    def acting(self, principal: Principal, user: str, peer: str) -> Principal:
        """Return the principal of a user for which an authenticated client acts; may do I/O. ImpersonationError.

        `peer` is the client's `host:port`.
        """
        if user == principal.name:
            return principal
        proxy = self._proxies.get(principal.name)
        if proxy is None:
            raise ImpersonationError(
                f"The user {principal.name} is not allowed to act for {user!a:.300}: proxy_users has no entry for "
                f"{principal.name}"
            )
        try:
            checked_principal(user, "The user to act for")
        except AuthenticationError as error:
            raise ImpersonationError(str(error)) from error
        groups = self._groups_of(user)
        self.check_user(principal.name, user, groups)
        host = peer.rpartition(":")[0].strip("[]")
        if not proxy.has_host(host):
            raise ImpersonationError(
                f"The user {principal.name} is not allowed to act for {user} from {host}: {principal.name}.hosts of "
                "proxy_users has another address"
            )
        return replace(principal, name=user, groups=groups, real_user=principal.name)

    def check_user(self, service: str, user: str, groups: frozenset[str]) -> None:
        """Raise ImpersonationError if a service may not act for a user in these groups. No I/O."""
        proxy = self._proxies.get(service)
        if proxy is None or not proxy.has_user(user, groups):
            raise ImpersonationError(
                f"The user {service} is not allowed to act for {user}: neither {service}.users nor "
                f"{service}.groups of proxy_users has the user"
            )


def no_groups(user: str) -> frozenset[str]:
    """Return no groups, for a server that looks up none."""
    return frozenset()


def system_groups(user: str) -> frozenset[str]:
    """Return the groups that this machine knows a user by; none for a user that it does not know."""
    try:
        found = pwd.getpwnam(user)
    except (KeyError, ValueError):
        return frozenset()
    names = set[str]()
    for number in os.getgrouplist(user, found.pw_gid):
        try:
            names.add(grp.getgrgid(number).gr_name)
        except KeyError:
            logger.debug("the group %d of %s has no name", number, user)
    return frozenset(names)


def parsed_proxy_users(text: str) -> dict[str, ProxyUser]:
    """Return the entries of the setting `proxy_users`, by services. ValueError for another form."""
    found: dict[str, dict[str, tuple[str, ...]]] = {}
    for entry in filter(None, (part.strip() for part in text.split(";"))):
        key, equals, value = entry.partition("=")
        service, dot, kind = key.strip().rpartition(".")
        names = _names(value)
        if not (equals and dot and service and names) or kind not in _KINDS or kind in found.get(service, {}):
            raise ValueError(f"{entry!r:.200} is not service.hosts=…, service.groups=… or service.users=…, each once")
        if kind == "hosts":
            for name in names:
                _check_host(name)
        found.setdefault(service, {})[kind] = names
    return {service: ProxyUser(**kinds) for service, kinds in found.items()}


def _names(value: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in value.split(",") if name.strip())


def _check_host(name: str) -> None:
    if "/" in name:
        ip_network(name, strict=False)


def _networks(host: str) -> Sequence[IPv4Network | IPv6Network]:
    """Return the addresses of a host or a network; none for a name that cannot be resolved."""
    try:
        return (ip_network(host, strict=False),)
    except ValueError:
        pass
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        logger.warning("the host %s of proxy_users cannot be resolved: %s", host, error)
        return ()
    return [ip_network(_unmapped(ip_address(str(each[4][0]).partition("%")[0]))) for each in found]


def _unmapped(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """Return the IPv4 address that an IPv6 address stands for, or the address itself."""
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return address if mapped is None else mapped
