"""Impersonation: an authenticated service acts for one of its users, as Hadoop's settings `hadoop.proxyuser.*` allow.

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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from interbed.catalog.server.auth.principals import AuthenticationError, Principal, checked_principal

EVERYTHING = "*"

GroupsOf = Callable[[str], frozenset[str]]
"""Returns the groups of a user; may do I/O."""

_KINDS = ("hosts", "groups", "users")

logger = logging.getLogger(__name__)


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
