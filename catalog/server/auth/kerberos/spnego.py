"""Kerberos over HTTP: `Authorization: Negotiate <base64>` (RFC 4559), by SPNEGO or a token of Kerberos itself.

One token authenticates one request. The answer has the server's token, by which the client may verify the server.
"""

import base64
import binascii
from pathlib import Path

from interbed.catalog.server.auth.kerberos.acceptor import Acceptor, gssapi
from interbed.catalog.server.auth.kerberos.users import KerberosUsers
from interbed.catalog.server.auth.principals import AuthenticationError, Principal

_SPNEGO = "1.3.6.1.5.5.2"


class NegotiateVerifier:
    """Verifies tokens of HTTP requests with the key of a server. Safe for many threads."""

    def __init__(self, keytab: Path, principal: str, users: KerberosUsers) -> None:
        """KeytabError if the file has no key of the principal."""
        self._acceptor = Acceptor(
            keytab, principal, mechanisms=[gssapi().OID.from_int_seq(_SPNEGO), gssapi().MechType.kerberos]
        )
        self._users = users

    def verify(self, token: str) -> tuple[Principal, str]:
        """Return the principal of a token, and the server's token for the answer; does I/O. AuthenticationError."""
        try:
            given = base64.b64decode(token, validate=True)
        except (binascii.Error, ValueError) as error:
            raise AuthenticationError("The Authorization header is not of the form `Negotiate <base64>`") from error
        context = self._acceptor.context()
        answer = context.step(given)
        if not context.is_complete():
            raise AuthenticationError(
                "The token of the Authorization header does not authenticate by itself: send one of Kerberos"
            )
        return self._users.authenticated(context.client), base64.b64encode(answer).decode()
