"""Thrift's transport with SASL PLAIN, as Hive's clients use it with hive.metastore.client.auth.mode=PLAIN.

Frames with a length of four bytes follow the negotiation. The password is a token.
"""

from typing import Any

from thrift.transport.TTransport import TFramedTransport, TTransportException

from interbed.catalog.client.errors import CatalogAccessError
from interbed.catalog.client.hive.http_transport import current_token, replaced_token
from interbed.catalog.client.login.sasl_messages import (
    NegotiationStatus,
    receive_sasl_message,
    sasl_message,
    shown_reason,
)
from interbed.catalog.client.oauth2 import OAuth2Token
from interbed.storage.base.errors import InvalidOptionError
from interbed.storage.base.shown_text import MASK


class SaslPlainTransport(TFramedTransport):  # type: ignore[misc]
    """Framed transport that authenticates a user when it is opened. `token_file` is read at that moment, and again if
    the token is refused.
    """

    def __init__(
        self,
        connected: Any,
        address: str,
        user: str,
        *,
        token: str | None,
        token_file: str | None,
        client: OAuth2Token | None = None,
    ) -> None:
        super().__init__(connected)
        self._connected = connected
        self._address = address
        self._user = user
        self._token = token
        self._token_file = token_file
        self._client = client
        self._used: str | None = None

    def open(self) -> None:
        """Open the connection and authenticate the user.

        CatalogAccessError if the server refuses the token, TTransportException or OSError if it does not answer.
        """
        token = current_token(self._token, self._token_file, self._client)
        if not token:
            raise InvalidOptionError(
                "hive.metastore.client.auth.mode is PLAIN: give a token by the option 'token', a file with one by "
                "'token.provider.path', or 'credential'"
            )
        try:
            self._open(token)
        except CatalogAccessError:
            # The token may have been revoked before its end.
            other = replaced_token(token, self._token_file, self._client)
            if other is None:
                raise
            self._open(other)

    def replace_token(self) -> bool:
        """Look for another token than that of the connection, which the server has refused. Return whether there is
        one, with which another connection may be opened.
        """
        return self._used is not None and replaced_token(self._used, self._token_file, self._client) is not None

    def _open(self, token: str) -> None:
        self._used = token
        self._connected.open()
        try:
            self._authenticate(token)
        except BaseException:
            self._connected.close()
            raise

    def has_current_token(self) -> bool:
        """Return whether the token is still the one that the connection was opened with; the server may refuse another
        one, which expires.
        """
        return current_token(self._token, self._token_file, self._client) == self._used

    def _authenticate(self, token: str) -> None:
        response = b"\0".join((b"", self._user.encode(), token.encode()))
        self._connected.write(
            sasl_message(NegotiationStatus.START, b"PLAIN") + sasl_message(NegotiationStatus.COMPLETE, response)
        )
        self._connected.flush()
        status, said = receive_sasl_message(self._connected, self._address)
        if status == NegotiationStatus.COMPLETE:
            return
        text = shown_reason(said).replace(token, MASK)
        if status != NegotiationStatus.BAD:
            raise TTransportException(TTransportException.UNKNOWN, f"no authentication: {text}")
        raise CatalogAccessError(
            f"the metastore at {self._address} does not accept the user {self._user} and its token: {text}. "
            "Check hive.metastore.client.plain.username and the option 'token' or 'token.provider.path'"
        )
