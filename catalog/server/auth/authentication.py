"""The mechanisms of a server together, by which a request's credentials become a principal; and the contract of SASL.

A token or a password decides if there is one: a request whose token is refused is not served under its certificate.
Where a client sends a user and a password (SASL PLAIN, Basic), the password may be a token of that user; what looks
like a token is never passed to a directory of passwords. Verified tokens and passwords are kept for as long as their
mechanism allows, by a keyed hash; so are refused ones for a second, so that guessing costs the server little. Failures
are counted, and further attempts wait (attempts.py). A certificate counts until its end, which ends open connections,
whichever mechanism has authenticated their client.

Verifications that need the database or another server run on a few threads, with a short queue. The clients are unknown
until then, so the queue is bounded. An address with too many failures has one place in it. Secrets that were verified
before have places of their own, so that a flood of unknown ones does not end the connections of authenticated clients.

**SASL** on Thrift's port (RFC 4422). The port reads and writes the messages of a negotiation
(`thrift/edge/transport.py`). A mechanism evaluates the client's responses one after the other, and answers each with a
challenge or with success. Success has the identity of the client, and may have a protection of all further frames.
PLAIN (RFC 4616) is a user with a password or a token, in one response: `authorization identity, NUL, user, NUL,
password`.
"""

import hashlib
import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import partial
from typing import Any, Protocol, TypeVar

from interbed.catalog.server.auth.attempts import FailedAttempts, TooManyAttemptsError, address_of
from interbed.catalog.server.auth.impersonation import DirectoryGroups
from interbed.catalog.server.auth.issued_tokens import PREFIX, KeptVerifications
from interbed.catalog.server.auth.principals import (
    NAME_CHARACTERS_MAX,
    AuthenticationError,
    AuthenticationUnavailableError,
    BearerVerifier,
    ClientCertificate,
    Credentials,
    Mechanism,
    PasswordVerifier,
    Principal,
    TicketVerifier,
    checked_name,
    checked_principal,
)

REFUSED_SECONDS = 1.0
"""Time for which a token stays refused without another look."""


class CertificateEnds:
    """The ends of the certificates of open connections: TLS looks at them when a connection opens, and not again."""

    def __init__(self, *, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock

    def check(self, certificate: ClientCertificate | None) -> None:
        """Raise AuthenticationError for a certificate that has ended; None is no certificate."""
        if certificate is not None and self._clock() >= certificate.ends_at:
            raise AuthenticationError(
                "The client's certificate has ended since the connection was opened; connect with a newer one"
            )


class Authentication:
    """Authenticates requests by the mechanisms that a server accepts. Safe for many threads.

    `bearers` are the mechanisms of bearer tokens, `passwords` is that of passwords, None where none are accepted.
    `has_kerberos` says that Kerberos is accepted beside them: on Thrift's port by a mechanism of SASL, over HTTP by
    `negotiate`, which is None for a server without HTTP. `groups` has those of certificates' principals, which have
    none without it.
    """

    def __init__(
        self,
        bearers: Mapping[Mechanism, BearerVerifier],
        *,
        passwords: PasswordVerifier | None = None,
        certificates: bool = False,
        attempts: FailedAttempts | None = None,
        has_kerberos: bool = False,
        negotiate: TicketVerifier | None = None,
        groups: DirectoryGroups | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._bearers = dict(bearers)
        self._passwords = passwords
        self._certificates = certificates
        self._attempts = attempts if attempts is not None else FailedAttempts()
        self._hash_key = self._attempts.secret
        self._has_kerberos = has_kerberos
        self.negotiate = negotiate
        self._groups = groups
        self._clock = clock
        self._ends = CertificateEnds(clock=clock)
        self._kept: KeptVerifications[bytes] = KeptVerifications(clock)

    def known(self, credentials: Credentials) -> Principal | None:
        """Return the principal if that needs no I/O, None otherwise. AuthenticationError."""
        found = self.known_until(credentials)
        return None if found is None else found[0]

    def known_until(self, credentials: Credentials) -> tuple[Principal, float] | None:
        """Return the principal if that needs no I/O, and the time until which it may be kept. AuthenticationError."""
        self.check_certificate(credentials.certificate)
        certificate_end = math.inf if credentials.certificate is None else credentials.certificate.ends_at
        token = _token(credentials)
        if token is None:
            principal = self._without_token(credentials)
            if self._groups is None:
                return principal, certificate_end
            groups = self._groups.known(principal.name)
            # The groups may change with each request: how long they are kept is not known here.
            return None if groups is None else (replace(principal, groups=groups), self._clock())
        has_password = self._has_password(credentials, token)
        found = self._kept.find(self._key_of(credentials, token))
        if found is None:
            return None
        principal, until = found[0], min(found[1], certificate_end)
        return (principal if has_password else _of_user(principal, credentials.user)), until

    def check_certificate(self, certificate: ClientCertificate | None) -> None:
        """Raise AuthenticationError for a certificate that has ended; None is no certificate."""
        self._ends.check(certificate)

    @property
    def now(self) -> float:
        """The present time of the clock that verifications are kept by."""
        return self._clock()

    def present(self, credentials: Credentials) -> Principal:
        """Return the principal as of now; may do I/O. AuthenticationError."""
        known = self.known(credentials)
        return self.authenticate(credentials) if known is None else known

    def authenticate(self, credentials: Credentials) -> Principal:
        """Return the principal of a request; may do I/O. AuthenticationError."""
        self.check_certificate(credentials.certificate)
        token = _token(credentials)
        if token is None:
            of_certificate = self._without_token(credentials)
            if self._groups is None:
                return of_certificate
            return replace(of_certificate, groups=self._groups.of(of_certificate.name))
        has_password = self._has_password(credentials, token)
        # Directories compare names without case, and refuse longer ones.
        user = (credentials.user or "").lower()[: NAME_CHARACTERS_MAX + 1] if has_password else None
        key = self._key_of(credentials, token)
        if user is not None:
            self._attempts.begin(credentials.address, user, key)
        try:
            principal, until = self._verified_password(credentials) if has_password else self._verified_token(token)
        except AuthenticationUnavailableError:
            raise
        except AuthenticationError as error:
            self._attempts.failed(credentials.address, user)
            self._kept.keep(key, error, self._clock() + REFUSED_SECONDS)
            raise
        self._attempts.succeeded(credentials.address, user, key)
        self._kept.keep(key, principal, until)
        return principal if has_password else _of_user(principal, credentials.user)

    def is_proven(self, credentials: Credentials) -> bool:
        """Return whether the secret of the credentials was verified before. No I/O."""
        token = _token(credentials)
        return token is not None and self._attempts.is_proven(self._key_of(credentials, token))

    def is_limited(self, credentials: Credentials) -> bool:
        """Return whether verifications for the address of the credentials are made one at a time. No I/O."""
        token = _token(credentials)
        return token is not None and self._attempts.is_limited(credentials.address, self._key_of(credentials, token))

    @property
    def accepted(self) -> str:
        """The accepted mechanisms, for messages."""
        names = [*map(str, self._bearers), *([str(Mechanism.LDAP)] if self._passwords is not None else [])]
        further = {Mechanism.KERBEROS: self._has_kerberos, Mechanism.CERTIFICATE: self._certificates}
        return ", ".join([*names, *(str(mechanism) for mechanism, is_accepted in further.items() if is_accepted)])

    @property
    def takes_secrets(self) -> bool:
        """Whether clients may send tokens or passwords."""
        return bool(self._bearers) or self._passwords is not None

    def _without_token(self, credentials: Credentials) -> Principal:
        if self._certificates and credentials.certificate is not None:
            return _certificate_principal(credentials.certificate.common_names)
        raise AuthenticationError(f"The request is not authenticated; accepted: {self.accepted}")

    def _has_password(self, credentials: Credentials, secret: str) -> bool:
        """Return whether the credentials are a user and a password that is no token."""
        return self._passwords is not None and credentials.bearer is None and not _is_token(secret)

    def _verified_password(self, credentials: Credentials) -> tuple[Principal, float]:
        assert self._passwords is not None
        return self._passwords.verify(credentials.user or "", credentials.password or "")

    def _verified_token(self, token: str) -> tuple[Principal, float]:
        verifier = self._bearers.get(Mechanism.TOKEN if token.startswith(PREFIX) else Mechanism.JWT)
        if verifier is None:
            raise AuthenticationError(f"Tokens of this kind are not accepted here; accepted: {self.accepted}")
        return verifier.verify(token)

    def _key_of(self, credentials: Credentials, secret: str) -> bytes:
        """Return the hash by which the result for a secret is kept, that of a password with its user."""
        user = credentials.user if self._has_password(credentials, secret) else None
        data = repr((user, secret)).encode("utf-8", "surrogateescape")
        return hashlib.blake2b(data, key=self._hash_key, digest_size=32).digest()


def _certificate_principal(names: Sequence[str]) -> Principal:
    """Return the principal of a certificate that TLS has verified, by the common names of its subject."""
    # Another reader of a subject with several names could take another one.
    if len(names) != 1:
        raise AuthenticationError(
            f"The subject of the client's certificate has {len(names)} common names; exactly one names the principal"
        )
    name = checked_principal(names[0], "The common name of the client's certificate")
    return Principal(name=name, mechanism=Mechanism.CERTIFICATE)


def _token(credentials: Credentials) -> str | None:
    return credentials.bearer if credentials.bearer is not None else credentials.password


def _is_token(secret: str) -> bool:
    """Return whether a secret has the form of an issued token or of a JWT."""
    return secret.startswith(PREFIX) or (secret.startswith("eyJ") and secret.count(".") == 2)


def _of_user(principal: Principal, user: str | None) -> Principal:
    """Return the principal of a token that was presented with the name of a user, None without one."""
    if user is not None and user != principal.name:
        raise AuthenticationError("The token is that of another user than the one that was named with it")
    return principal


T = TypeVar("T")

THREADS = 2
WAITING_MAX = 64
"""Verifications that wait or run; a further one is refused."""

PROVEN_MAX = 64
"""Further places for secrets that were verified before."""

RETRY_SECONDS = 1.0


class VerificationQueue:
    """The verifications of one port. Safe for many threads."""

    def __init__(self, authentication: Authentication | None, name: str) -> None:
        self._authentication = authentication
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix=name)
        self._guard = threading.Lock()
        self._waiting = 0
        self._of_limited: Counter[str | None] = Counter()

    def submit(self, work: Callable[[], T], credentials: Credentials | None = None) -> "Future[T]":
        """Run a verification on a thread; that of credentials has the limits of their address.

        AuthenticationUnavailableError if there is no place in the queue.
        """
        is_proven, limited = self._limits(credentials)
        with self._guard:
            if self._waiting >= WAITING_MAX + (PROVEN_MAX if is_proven else 0):
                raise AuthenticationUnavailableError("Too many clients wait to be authenticated")
            if limited is not None:
                if self._of_limited[limited]:
                    raise TooManyAttemptsError("from this address", RETRY_SECONDS)
                self._of_limited[limited] += 1
            self._waiting += 1
        try:
            verified = self._threads.submit(work)
        except RuntimeError as error:
            self._ended(limited, None)
            raise AuthenticationUnavailableError("The server stops") from error
        verified.add_done_callback(partial(self._ended, limited))
        return verified

    def close(self) -> None:
        """End the threads; what waits is cancelled."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _limits(self, credentials: Credentials | None) -> tuple[bool, str | None]:
        """Return whether the secret was verified before, and the address whose verifications are made one at a time."""
        if self._authentication is None or credentials is None:
            return False, None
        if self._authentication.is_proven(credentials):
            return True, None
        return False, credentials.address if self._authentication.is_limited(credentials) else None

    def _ended(self, limited: str | None, verified: "Future[Any] | None") -> None:
        with self._guard:
            self._waiting -= 1
            if limited is not None:
                self._of_limited[limited] -= 1
                if not self._of_limited[limited]:
                    del self._of_limited[limited]


class SaslStatus(IntEnum):
    """Status of a message, in Java's thrift."""

    START = 1
    OK = 2
    BAD = 3
    ERROR = 4
    COMPLETE = 5


class NegotiationError(Exception):
    """The negotiation has failed. `status` and the text are for the client: the text has no secret."""

    def __init__(self, status: SaslStatus, text: str) -> None:
        super().__init__(text)
        self.status = status


class ProtectionError(Exception):
    """A protected frame is not authentic, is repeated, or is out of order. The connection ends."""


class ClientIdentity(Protocol):
    """The client of a connection, which is verified again while the connection lasts. Safe for many threads."""

    def known(self) -> Principal | None:
        """Return the principal if that needs no I/O, None otherwise. AuthenticationError."""
        ...

    def verified(self) -> Principal:
        """Return the principal; may do I/O. AuthenticationError."""
        ...


class FrameProtection(Protocol):
    """Integrity or confidentiality of the frames of one connection. For one thread at a time."""

    def wrap(self, message: bytes) -> bytes:
        """Return the content of a frame with a message of the server."""
        ...

    def unwrap(self, frame: bytes) -> bytes:
        """Return the message in the content of a client's frame. ProtectionError."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslChallenge:
    """A challenge, which the client answers with a further response."""

    payload: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslSuccess:
    """The end of an exchange: the client is authenticated if its identity can be verified.

    `payload` is sent with the status COMPLETE. Without `protection` further frames are sent as they are. A connection
    ends after `seconds_max`, None for never.
    """

    identity: ClientIdentity
    payload: bytes = b""
    protection: FrameProtection | None = None
    seconds_max: float | None = None


class SaslExchange(Protocol):
    """The server's side of one negotiation. For one thread at a time."""

    def respond(self, response: bytes) -> SaslChallenge | SaslSuccess:
        """Evaluate a response of the client. AuthenticationError, NegotiationError."""
        ...


class SaslMechanism(Protocol):
    """A mechanism that a server offers. Safe for many threads."""

    @property
    def response_bytes_max(self) -> int:
        """The longest response of a client, in bytes."""
        ...

    @property
    def is_quick(self) -> bool:
        """Whether responses are evaluated without I/O and in little time, on the thread of all connections."""
        ...

    def start(self, peer: str) -> SaslExchange:
        """Return a new exchange with a client at an address, `host:port`."""
        ...


SaslMechanisms = Mapping[str, SaslMechanism]
"""The mechanisms that a port offers, by their names in SASL, in the order of messages. Without one the port does not
authenticate its clients.
"""


class CredentialsVerifier(Protocol):
    """Verifies the credentials of a request. Safe for many threads."""

    def known(self, credentials: Credentials) -> Principal | None:
        """Return the principal if that needs no I/O, None otherwise. AuthenticationError."""
        ...

    def authenticate(self, credentials: Credentials) -> Principal:
        """Return the principal; may do I/O. AuthenticationError."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CredentialsIdentity:
    """Identity by credentials, which may be revoked or expire."""

    verifier: CredentialsVerifier
    credentials: Credentials

    def known(self) -> Principal | None:
        """Return the principal if that needs no I/O, None otherwise. AuthenticationError."""
        return self.verifier.known(self.credentials)

    def verified(self) -> Principal:
        """Return the principal; may do I/O. AuthenticationError."""
        return self.verifier.authenticate(self.credentials)


PLAIN = "PLAIN"
"""The name of the mechanism."""

RESPONSE_BYTES_MAX = 20 * 1024
"""The longest response: the longest JWT, and two names."""


class PlainMechanism:
    """PLAIN with a verifier of credentials; without one all clients are refused, because the server does not
    authenticate them.
    """

    response_bytes_max = RESPONSE_BYTES_MAX
    is_quick = True

    def __init__(self, verifier: CredentialsVerifier | None) -> None:
        self._verifier = verifier

    def start(self, peer: str) -> "PlainExchange":
        """Return a new exchange."""
        return PlainExchange(self._verifier, address_of(peer))


class PlainExchange:
    """The exchange of PLAIN, which has one response."""

    def __init__(self, verifier: CredentialsVerifier | None, address: str) -> None:
        self._verifier = verifier
        self._address = address

    def respond(self, response: bytes) -> SaslSuccess:
        """Return the identity by the credentials in the response. NegotiationError."""
        credentials = replace(plain_credentials(response), address=self._address)
        if self._verifier is None:
            raise NegotiationError(
                SaslStatus.ERROR,
                "This server does not authenticate its clients: connect without SASL "
                "(hive.metastore.client.auth.mode=NONE)",
            )
        return SaslSuccess(identity=CredentialsIdentity(verifier=self._verifier, credentials=credentials))


def plain_credentials(response: bytes) -> Credentials:
    """Return the credentials in a response of PLAIN. NegotiationError."""
    parts = response.split(b"\0")
    if len(parts) != 3:
        raise NegotiationError(
            SaslStatus.BAD, f"The response of PLAIN has {len(parts)} parts; it is [identity] NUL user NUL password"
        )
    try:
        identity, user, password = (part.decode() for part in parts)
        checked_name(user, "The user")
    except UnicodeDecodeError as error:
        raise NegotiationError(SaslStatus.BAD, "The response of PLAIN is not UTF-8") from error
    except AuthenticationError as error:
        raise NegotiationError(SaslStatus.BAD, str(error)) from error
    if identity not in ("", user):
        raise NegotiationError(SaslStatus.BAD, "A user cannot act for another one")
    if not password:
        raise NegotiationError(SaslStatus.BAD, "The response of PLAIN has no password")
    return Credentials(user=user, password=password)
