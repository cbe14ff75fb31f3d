"""The mechanism PLAIN of SASL (RFC 4616): a user with a password or a token, in one response.

The response is `authorization identity, NUL, user, NUL, password`.
"""

from dataclasses import replace

from interbed.catalog.server.auth.attempts import address_of
from interbed.catalog.server.auth.principals import AuthenticationError, Credentials, checked_name
from interbed.catalog.server.auth.sasl import (
    CredentialsIdentity,
    CredentialsVerifier,
    NegotiationError,
    SaslStatus,
    SaslSuccess,
)

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
