"""Principals, the credentials that clients present, and the errors of authentication."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from interbed.storage.base.shown_text import escaped

NAME_CHARACTERS_MAX = 256
"""The longest name of a principal or a group."""

OPTIMIZER = "interbed-optimizer"
"""The principal of the optimizer beside the server; no other mechanism accepts the name."""

GROUPS_MAX = 1000
"""The most groups of a principal."""


class Mechanism(StrEnum):
    """Mechanisms of authentication, by their names in the setting `authentication`."""

    CERTIFICATE = "certificate"
    TOKEN = "token"
    JWT = "jwt"
    LDAP = "ldap"
    DELEGATION_TOKEN = "delegation-token"
    KERBEROS = "kerberos"
    OPTIMIZER = "optimizer"
    """Of the optimizer beside the server; no setting has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """An authenticated user or service. `token_id` identifies the token that it presented, None without one.
    `real_user` is the authenticated service that acts for the user, None where the user acts itself.
    """

    name: str
    mechanism: Mechanism
    groups: frozenset[str] = field(default_factory=frozenset)
    token_id: str | None = None
    real_user: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientCertificate:
    """A client certificate that TLS has verified: its subject, the common names in that, and its end (`notAfter`) in
    seconds since the epoch.
    """

    subject: str
    common_names: tuple[str, ...]
    ends_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """The credentials of a request or a connection: a bearer token, or a user and its password, which may be a token;
    and the verified certificate of the client, None without one. `address` is that of the client, by which failures
    are counted; None where they are not.
    """

    bearer: str | None = field(default=None, repr=False)
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    certificate: ClientCertificate | None = None
    address: str | None = None


class AuthenticationError(Exception):
    """The credentials are missing or are not accepted. The text is for the client: it has no secret."""


class AuthenticationUnavailableError(AuthenticationError):
    """The credentials cannot be verified at present. The text ends with the advice to try again."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"{reason}; try again")


class BearerVerifier(Protocol):
    """A mechanism that verifies bearer tokens. Safe for many threads; may do I/O."""

    def verify(self, token: str) -> tuple[Principal, float]:
        """Return the principal, and the time until which the answer may be kept, in seconds since the epoch.

        AuthenticationError.
        """
        ...


class PasswordVerifier(Protocol):
    """A mechanism that verifies passwords. Safe for many threads; may do I/O."""

    def verify(self, user: str, password: str) -> tuple[Principal, float]:
        """Return the principal, and the time until which the answer may be kept. AuthenticationError."""
        ...


class VerifiedClient(Protocol):
    """A client that has proven its identity. Safe for many threads."""

    def verified(self) -> Principal:
        """Return the principal as of now; may do I/O. AuthenticationError if it has ended."""
        ...


class TicketVerifier(Protocol):
    """A mechanism that verifies the tokens of `Authorization: Negotiate`. Safe for many threads; does I/O."""

    def verify(self, token: str) -> tuple[VerifiedClient, str]:
        """Return the client, and the server's token for the answer. AuthenticationError."""
        ...


def checked_principal(name: object, what: str) -> str:
    """Return the name of a principal of a client. AuthenticationError."""
    found = checked_name(name, what)
    if found.lower() == OPTIMIZER:
        raise AuthenticationError(f"{what} is the name of the server's own optimizer")
    return found


def checked_name(name: object, what: str) -> str:
    """Return the name of a principal or a group. AuthenticationError for one that could be confused with another."""
    if not isinstance(name, str) or not name.strip():
        raise AuthenticationError(f"{what} is not a name")
    if len(name) > NAME_CHARACTERS_MAX:
        raise AuthenticationError(f"{what} has more than {NAME_CHARACTERS_MAX} characters")
    if name != name.strip() or escaped(name) != name:
        raise AuthenticationError(f"{what} has blanks at an end, or characters that cannot be shown")
    return name
