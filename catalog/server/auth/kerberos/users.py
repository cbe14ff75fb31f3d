"""Authenticated principals of Kerberos become principals of the server: rules, groups, and users that they act for."""

from dataclasses import dataclass

from interbed.catalog.server.auth.impersonation import GroupsOf, Impersonation
from interbed.catalog.server.auth.kerberos.auth_to_local import AuthToLocal
from interbed.catalog.server.auth.principals import Mechanism, Principal, checked_principal


@dataclass(frozen=True, slots=True, kw_only=True)
class KerberosUsers:
    """From principals of clients to principals of the server."""

    rules: AuthToLocal
    groups_of: GroupsOf
    impersonation: Impersonation

    def authenticated(self, name: str) -> Principal:
        """Return the principal of an authenticated client; may do I/O. AuthenticationError."""
        user = checked_principal(self.rules.user(name), f"The user of the principal {name!a:.300}")
        return Principal(name=user, mechanism=Mechanism.KERBEROS, groups=self.groups_of(user))

    def authorized(self, name: str, identity: str, peer: str) -> Principal:
        """Return the principal that a client acts as: its own one if the identity is empty, or names it.

        AuthenticationError, ImpersonationError.
        """
        principal = self.authenticated(name)
        return principal if identity in ("", name) else self.impersonation.acting(principal, identity, peer)
