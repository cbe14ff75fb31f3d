"""Thrift's transports of Hive's clients: over HTTP, with SASL PLAIN, and with SASL GSSAPI.

HTTP is that of Hive 4 and interbed's server: a message in the body of a POST, on a connection that is kept. A bearer
token in the header authenticates the client.

SASL PLAIN is used with hive.metastore.client.auth.mode=PLAIN, GSSAPI with hive.metastore.sasl.enabled. A message of
the negotiation has a status of one byte, the length of its payload in four bytes, and the payload, as
TSaslClientTransport of Java's thrift sends and receives them. Frames with a length of four bytes follow. With PLAIN the
password is a token. With GSSAPI the content of frames is protected if the layer of protection is integrity or privacy.
"""

import http.client
import io
import socket
import ssl
import struct
from collections.abc import Callable
from enum import IntEnum
from http import HTTPStatus
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import urlencode

from thrift.transport.TTransport import CReadableTransport, TFramedTransport, TTransportBase, TTransportException

from interbed.catalog.client.credentials import GSSAPI, AuthorizationSource, GssapiLogin, OAuth2Token
from interbed.catalog.client.errors import CatalogAccessError, CatalogUnavailableError
from interbed.storage.base.errors import InvalidOptionError
from interbed.storage.base.shown_text import MASK, escaped

_TEXT_BYTES_MAX = 1000
_CONTENT_TYPE = "application/x-thrift"


class HttpTransport:
    """Thrift transport of one connection. `token_file` is read for each call, because tokens are renewed there.
    `negotiate` takes the place of tokens. With `acts_for` calls are made for another user.
    """

    def __init__(
        self,
        host: str,
        port: int,
        path: str,
        *,
        tls: ssl.SSLContext | None = None,
        token: str | None = None,
        token_file: str | None = None,
        client: OAuth2Token | None = None,
        negotiate: AuthorizationSource | None = None,
        acts_for: str | None = None,
    ) -> None:
        self._address = f"{host}:{port}"
        self._path = path
        self._token = token
        self._token_file = token_file
        self._client = client
        self._negotiate = negotiate
        if acts_for is not None:
            self._path = f"{path}?{urlencode({'doAs': acts_for})}"
        self._connection = (
            http.client.HTTPConnection(host, port)
            if tls is None
            else http.client.HTTPSConnection(host, port, context=tls)
        )
        self._request = io.BytesIO()
        self._reply = io.BytesIO()

    @property
    def handle(self) -> socket.socket | None:
        """The socket, None before `open`."""
        return self._connection.sock

    def setTimeout(self, millis: float) -> None:  # noqa: N802 - the name of Thrift's sockets.
        """Set the time for connecting, and for each wait for the server."""
        self._connection.timeout = millis / 1000
        if self._connection.sock is not None:
            self._connection.sock.settimeout(millis / 1000)

    def isOpen(self) -> bool:  # noqa: N802 - the name of Thrift's transports.
        """Return whether the connection is open."""
        return self._connection.sock is not None

    def open(self) -> None:
        """Open the connection to the server. OSError."""
        self._connection.connect()

    def close(self) -> None:
        """Close the connection to the server."""
        self._connection.close()

    def read(self, size: int) -> bytes:
        """Return bytes of the reply."""
        return self._reply.read(size)

    def write(self, data: bytes) -> None:
        """Add bytes to the request."""
        self._request.write(data)

    def flush(self) -> None:
        """Send the request and receive the reply.

        CatalogAccessError if the server refuses the credentials, CatalogUnavailableError if it cannot serve at present:
        nothing was changed then. TTransportException, OSError: the call may have been carried out.
        """
        body, self._request = self._request.getvalue(), io.BytesIO()
        token = current_token(self._token, self._token_file, self._client)
        status, content = self._sent(body, token)
        if status == HTTPStatus.UNAUTHORIZED and token is not None:
            # It was not carried out. The token may have been revoked before its end.
            other = replaced_token(token, self._token_file, self._client)
            if other is not None:
                status, content = self._sent(body, other)
        if status != HTTPStatus.OK:
            self._refused(status, content)
        self._reply = io.BytesIO(content)

    def _sent(self, body: bytes, token: str | None) -> tuple[int, bytes]:
        """Send a request, and return the status and the body of the response."""
        headers = {"content-type": _CONTENT_TYPE}
        if self._negotiate is not None:
            headers["authorization"] = self._negotiate.authorization()
        elif token is not None:
            headers["authorization"] = f"Bearer {token}"
        try:
            self._connection.request("POST", self._path, body, headers)
            response = self._connection.getresponse()
            return response.status, response.read()
        except http.client.HTTPException as error:
            raise TTransportException(TTransportException.UNKNOWN, f"no reply by HTTP: {error!r}") from error

    def _refused(self, status: int, content: bytes) -> NoReturn:
        shown = content[:_TEXT_BYTES_MAX].decode(errors="replace").strip()
        message = f"the metastore at {self._address}{self._path} answers {status}: {shown}"
        if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
            if self._negotiate is not None:
                raise CatalogAccessError(message)
            raise CatalogAccessError(
                f"{message}. Give one of the options 'token', 'token.provider.path' and 'credential'"
            )
        if status in (HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.TOO_MANY_REQUESTS):
            raise CatalogUnavailableError(message)
        raise TTransportException(TTransportException.UNKNOWN, message)


def current_token(token: str | None, file: str | None, client: OAuth2Token | None = None) -> str | None:
    """Return the token of the options: that of a client, that of a file, which is read now, or the given one.

    InvalidOptionError, CatalogAccessError, CatalogUnavailableError.
    """
    if client is not None:
        return client.current()
    if file is None:
        return token
    try:
        return Path(file).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidOptionError(f"Option 'token.provider.path' names a file that can't be read: {error}") from error


def replaced_token(refused: str, file: str | None, client: OAuth2Token | None = None) -> str | None:
    """Return the token of the options that replaces a refused one, None without another one.

    InvalidOptionError, CatalogAccessError, CatalogUnavailableError.
    """
    if client is not None and not client.replace(refused):
        return None
    other = current_token(None, file, client)
    return None if other == refused else other


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


_HEAD = struct.Struct("!BI")
_ANSWER_BYTES_MAX = 64 * 1024
_TEXT_CHARACTERS_MAX = 1000


class NegotiationStatus(IntEnum):
    """Status of a message."""

    START = 1
    OK = 2
    BAD = 3
    ERROR = 4
    COMPLETE = 5


def sasl_message(status: NegotiationStatus, payload: bytes = b"") -> bytes:
    """Return the bytes of a message."""
    return _HEAD.pack(status, len(payload)) + payload


def receive_sasl_message(connected: Any, address: str) -> tuple[NegotiationStatus, bytes]:
    """Return status and payload of the server's next message. TTransportException for other bytes."""
    status, length = _HEAD.unpack(connected.readAll(_HEAD.size))
    if status not in (
        NegotiationStatus.OK,
        NegotiationStatus.BAD,
        NegotiationStatus.ERROR,
        NegotiationStatus.COMPLETE,
    ) or (length > _ANSWER_BYTES_MAX):
        raise TTransportException(TTransportException.UNKNOWN, f"the metastore at {address} does not speak SASL")
    return NegotiationStatus(status), connected.readAll(length) if length else b""


def shown_reason(payload: bytes) -> str:
    """Return the text of a refusal for a message."""
    return escaped(payload.decode(errors="replace"))[:_TEXT_CHARACTERS_MAX]


FRAME_BYTES_MAX = (1 << 30) - 1
"""The longest frame of a server."""

_LENGTH = struct.Struct("!I")
_ROUNDS_MAX = 10


class KerberosTransport(TTransportBase, CReadableTransport):  # type: ignore[misc]
    """Framed transport that authenticates its client when it is opened, with a new exchange each time."""

    def __init__(self, connected: Any, address: str, begin: Callable[[], GssapiLogin]) -> None:
        self._connected = connected
        self._address = address
        self._begin = begin
        self._exchange: GssapiLogin | None = None
        self._reply = io.BytesIO()
        self._request = io.BytesIO()

    def isOpen(self) -> bool:  # noqa: N802 # pyright: ignore[reportIncompatibleMethodOverride]
        """Return whether the connection is open."""
        return bool(self._connected.isOpen())

    def open(self) -> None:
        """Open the connection and authenticate the client.

        CatalogAccessError if there is no ticket or the server refuses it, TTransportException or OSError if the server
        does not answer.
        """
        exchange = self._begin()
        first = exchange.respond(b"")
        self._connected.open()
        try:
            self._negotiate(exchange, first)
        except BaseException:
            self._connected.close()
            raise
        self._exchange = exchange

    def close(self) -> None:
        """Close the connection to the server."""
        self._connected.close()

    def read(self, sz: int) -> bytes:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Return bytes of the reply."""
        found = self._reply.read(sz)
        if not found:
            self._read_frame()
            found = self._reply.read(sz)
        return found

    def write(self, buf: bytes) -> None:
        """Add bytes to the request."""
        self._request.write(buf)

    def flush(self) -> None:
        """Send the request as a frame."""
        message, self._request = self._request.getvalue(), io.BytesIO()
        assert self._exchange is not None
        if self._exchange.is_protected:
            message = self._exchange.wrap(message)
        self._connected.write(_LENGTH.pack(len(message)) + message)
        self._connected.flush()

    @property
    def cstringio_buf(self) -> io.BytesIO:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The buffer that Thrift's decoder in C reads."""
        return self._reply

    def cstringio_refill(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, partialread: bytes, reqlen: int
    ) -> io.BytesIO:
        """Return a buffer with at least the given number of bytes, of which the first were read before."""
        data = partialread
        while len(data) < reqlen:
            self._read_frame()
            data += self._reply.getvalue()
        self._reply = io.BytesIO(data)
        return self._reply

    def _read_frame(self) -> None:
        assert self._exchange is not None
        (length,) = _LENGTH.unpack(self._connected.readAll(_LENGTH.size))
        if length > FRAME_BYTES_MAX:
            raise TTransportException(TTransportException.SIZE_LIMIT, f"the server sends a frame of {length} bytes")
        frame = self._connected.readAll(length)
        if self._exchange.is_protected:
            try:
                frame = self._exchange.unwrap(frame)
            except ValueError as error:
                raise TTransportException(
                    TTransportException.UNKNOWN, f"a frame of {self._address} is not accepted: {error}"
                ) from error
        self._reply = io.BytesIO(frame)

    def _negotiate(self, exchange: GssapiLogin, first: bytes) -> None:
        self._send(sasl_message(NegotiationStatus.START, GSSAPI.encode()) + sasl_message(NegotiationStatus.OK, first))
        for _ in range(_ROUNDS_MAX):
            status, payload = receive_sasl_message(self._connected, self._address)
            if status == NegotiationStatus.BAD:
                raise CatalogAccessError(
                    f"the metastore at {self._address} does not accept the login by Kerberos: {shown_reason(payload)}"
                )
            if status == NegotiationStatus.ERROR:
                raise TTransportException(TTransportException.UNKNOWN, f"no authentication: {shown_reason(payload)}")
            if status == NegotiationStatus.COMPLETE:
                if exchange.has_chosen:
                    return
                break
            response = exchange.respond(payload)
            self._send(
                sasl_message(NegotiationStatus.COMPLETE if exchange.has_chosen else NegotiationStatus.OK, response)
            )
        raise TTransportException(
            TTransportException.UNKNOWN, f"the metastore at {self._address} does not end the negotiation by GSSAPI"
        )

    def _send(self, message: bytes) -> None:
        self._connected.write(message)
        self._connected.flush()
