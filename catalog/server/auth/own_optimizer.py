"""The identity of the optimizer beside the server: a token that is made when the server starts.

The processes of the server have it in memory, and the optimizer gets it on its standard input; it is on no disk and no
command line. It is accepted on a port of its own on loopback, and nothing else is accepted there.
"""

import hmac
import secrets

from interbed.catalog.server.auth.principals import OPTIMIZER, AuthenticationError, Credentials, Mechanism, Principal


class OptimizerIdentity:
    """Authentication by one token. Safe for many threads, and shared by processes that are forked."""

    def __init__(self) -> None:
        self._token = secrets.token_urlsafe(32)

    def __repr__(self) -> str:
        return "OptimizerIdentity()"

    @property
    def user(self) -> str:
        """The name of the principal."""
        return OPTIMIZER

    @property
    def token(self) -> str:
        """The secret of the identity."""
        return self._token

    def known(self, credentials: Credentials) -> Principal | None:
        """Return the principal. AuthenticationError for other credentials."""
        given = (credentials.password or "").encode()
        if credentials.user != OPTIMIZER or not hmac.compare_digest(given, self._token.encode()):
            raise AuthenticationError("This port is for the optimizer beside the server alone")
        return Principal(name=OPTIMIZER, mechanism=Mechanism.OPTIMIZER)

    def authenticate(self, credentials: Credentials) -> Principal:
        """Return the principal. AuthenticationError for other credentials."""
        found = self.known(credentials)
        assert found is not None
        return found
