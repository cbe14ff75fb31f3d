"""Thrift over HTTP, as Hive 4 and interbed's server offer it: a message in the body of a POST, on a connection that is
kept. A bearer token in the header authenticates the client.
"""

import http.client
import io
import socket
import ssl
from http import HTTPStatus
from pathlib import Path
from typing import NoReturn
from urllib.parse import urlencode

from thrift.transport.TTransport import TTransportException

from interbed.catalog.client.errors import CatalogAccessError, CatalogUnavailableError
from interbed.catalog.client.login.kerberos import AuthorizationSource
from interbed.catalog.client.oauth2 import OAuth2Token
from interbed.storage.base.errors import InvalidOptionError

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
