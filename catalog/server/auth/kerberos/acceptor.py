"""The server's side of Kerberos, by GSSAPI (RFC 4121): its key, and the contexts that clients establish with it.

The key is one principal's in a keytab; tickets for other principals are refused, also those whose key is in the same
file. The file is read for each context, so that a renewed key counts at once. MIT's library keeps a cache of replays
for all processes of the machine.
"""

import logging
import socket
from pathlib import Path
from typing import Any

from interbed.catalog.server.auth.kerberos.auth_to_local import KerberosName
from interbed.catalog.server.auth.principals import AuthenticationError, AuthenticationUnavailableError
from interbed.storage.base.errors import load_extra

HOST = "_HOST"
"""In the name of a principal, the name of this machine."""

TOKEN_BYTES_MAX = 64 * 1024
"""The longest token of a client: tickets of Active Directory have its groups."""

logger = logging.getLogger(__name__)


def gssapi() -> Any:
    """Return the library, which is built on machines with the headers of Kerberos alone. MissingExtraError."""
    return load_extra("gssapi", needed_by="Authentication by kerberos")


class KeytabError(Exception):
    """The server's key cannot be used."""


class Acceptor:
    """The key of one principal. Safe for many threads."""

    def __init__(self, keytab: Path, principal: str, *, mechanisms: list[Any] | None = None) -> None:
        """KeytabError if the file has no key of the principal."""
        self.principal = principal
        try:
            with open(keytab, "rb"):
                pass
            self._credentials = gssapi().Credentials(
                name=gssapi().Name(principal, gssapi().NameType.kerberos_principal),
                usage="accept",
                mechs=[gssapi().MechType.kerberos] if mechanisms is None else mechanisms,
                store={"keytab": f"FILE:{keytab}"},
            )
        except OSError as error:
            raise KeytabError(f"cannot read kerberos_keytab {keytab}: {error.strerror}") from error
        except gssapi().exceptions.GSSError as error:
            raise KeytabError(
                f"kerberos_keytab {keytab} has no key of {principal} that can be used: {reason(error)}"
            ) from error

    def context(self) -> "AcceptedContext":
        """Return a new context of a client."""
        return AcceptedContext(self._credentials)


class AcceptedContext:
    """The context of one client. For one thread at a time."""

    def __init__(self, credentials: Any) -> None:
        self._context = gssapi().SecurityContext(creds=credentials, usage="accept")
        # Errors are raised at once, also those that have a token for the client.
        self._context.__DEFER_STEP_ERRORS__ = False

    def is_complete(self) -> bool:
        """Return whether the client is authenticated."""
        return bool(self._context.complete)

    @property
    def client(self) -> str:
        """The principal of the client."""
        return str(KerberosName.parse(str(self._context.initiator_name)))

    @property
    def seconds_left(self) -> float | None:
        """Time until the client's ticket ends, with the difference of clocks that is allowed; None for no end."""
        lifetime: int | None = self._context.lifetime
        return None if lifetime is None else float(lifetime)

    def step(self, token: bytes) -> bytes:
        """Take a token of the client, and return the next one for it. AuthenticationError."""
        if len(token) > TOKEN_BYTES_MAX:
            raise AuthenticationError(f"The token of Kerberos has more than {TOKEN_BYTES_MAX} bytes")
        try:
            answer = self._context.step(token)
        except gssapi().exceptions.GSSError as error:
            if _is_unavailable(error):
                logger.error("the server's key of Kerberos cannot be used: %s", reason(error))
                raise AuthenticationUnavailableError("The server cannot use its key of Kerberos at present") from error
            raise AuthenticationError(f"The ticket is not accepted: {reason(error)}") from error
        return bytes(answer or b"")

    def wrap(self, message: bytes, *, encrypt: bool) -> bytes:
        """Return a message with a checksum, encrypted or not."""
        wrapped = self._context.wrap(message, encrypt)
        assert wrapped.encrypted or not encrypt
        return bytes(wrapped.message)

    def unwrap(self, message: bytes) -> tuple[bytes, bool]:
        """Return the content of a message, and whether it was encrypted. ValueError for one that is not authentic, is
        repeated or is out of order.
        """
        try:
            found = self._context.unwrap(message)
        except gssapi().exceptions.GSSError as error:
            raise ValueError(reason(error)) from error
        return bytes(found.message), bool(found.encrypted)


def named_principal(principal: str, host: str | None = None) -> str:
    """Return a principal with the name of this machine in place of `_HOST`, as Hadoop writes it."""
    name, at, realm = principal.rpartition("@")
    service, slash, instance = name.partition("/")
    if instance == HOST:
        instance = (host or socket.getfqdn()).lower()
    return f"{service}{slash}{instance}{at}{realm}"


def reason(error: Any) -> str:
    """Return the text of an error of GSSAPI in one line: that of the mechanism, or else the general one."""
    minor = str(error.get_all_statuses(error.min_code, False)[0]) if error.min_code else ""
    major = str(error.get_all_statuses(error.maj_code, True)[0])
    return (minor if minor and "Unknown error" not in minor else major).strip()


def _is_unavailable(error: Any) -> bool:
    """Return whether the server's own file is the reason."""
    return isinstance(error, gssapi().exceptions.MissingCredentialsError | gssapi().exceptions.ExpiredCredentialsError)
