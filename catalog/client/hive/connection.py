"""Connections to a Hive metastore: addresses, transports, a small pool, and rules for repeating calls.

The default is Thrift's binary protocol over a buffered transport. The settings in `hive-site.xml` (settings.py) may
select framed transport, compact protocol, TLS, SASL PLAIN with a token, Kerberos, and HTTP with a bearer token.

A connection that the server has closed is detected before anything is sent, and replaced by a new one. Several
addresses are tried in turn, beginning with the last one that answered. After the first successful connection, a refused
connection is retried after a pause, because servers are restarted; nothing was sent, so nothing is executed twice.
"""

import contextlib
import getpass
import logging
import select
import socket
import ssl
import threading
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol, TypeVar
from urllib.parse import urlsplit

from thrift.protocol.TBinaryProtocol import TBinaryProtocolAccelerated
from thrift.protocol.TCompactProtocol import TCompactProtocolAccelerated
from thrift.Thrift import TApplicationException, TException
from thrift.transport.TSocket import TSocket
from thrift.transport.TSSLSocket import TSSLSocket
from thrift.transport.TTransport import TBufferedTransport, TFramedTransport, TTransportException

from interbed.catalog.client.credentials import (
    GssapiLogin,
    KerberosLogin,
    NegotiateTokens,
    OAuth2Token,
    server_principal,
)
from interbed.catalog.client.errors import CallStateUnknownError as CallStateUnknownError
from interbed.catalog.client.errors import CatalogAccessError, CatalogError, CatalogUnavailableError
from interbed.catalog.client.hive.transports import HttpTransport, KerberosTransport, SaslPlainTransport
from interbed.storage.base.backoff import NO_JITTER, ExponentialBackoff
from interbed.storage.base.errors import InterbedError, InvalidOptionError
from interbed.thrift_idl.hive_metastore import ThriftHiveMetastore, ttypes

_log = logging.getLogger(__name__)

T = TypeVar("T")

DEFAULT_PORT = 9083
CONNECT_SECONDS_MAX = 10.0
"""The time for one address to accept a connection."""

POOL_SIZE = 4
"""Idle connections kept. Further threads open connections for one call each."""

REFUSALS = (
    ttypes.MetaException,
    ttypes.NoSuchObjectException,
    ttypes.AlreadyExistsException,
    ttypes.InvalidObjectException,
    ttypes.InvalidOperationException,
    ttypes.UnknownDBException,
    ttypes.NoSuchTxnException,
    ttypes.TxnAbortedException,
    ttypes.TxnOpenException,
    ttypes.ConfigValSecurityException,
    TApplicationException,
)
"""Answers other than success. Transport errors are not answers and are handled before."""

NOT_ADMITTED = 10
"""Type of the answer to a client that is not authenticated, or not any more: UNSUPPORTED_CLIENT_TYPE of Java's Thrift.
The call was not carried out.
"""

_READ_BUFFER_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class TransportSettings:
    """The transport to the metastore; see settings.py for the names in `hive-site.xml`.

    `certificates` is a file of trusted PEM certificates, None for those of the system; it is used with `tls` alone.
    With an `http_path` messages are sent by HTTP to this path, with `token`, the content of `token_file` or the
    token of `client`; with a `plain_user` it is the user's password for SASL PLAIN. With `kerberos` the client logs in
    to the server of `server_principal`, and takes the `layers` of protection of frames in this order; `acts_for` is the
    user that it acts for, None for itself.
    `connect_tries` are made for each connection after the first successful one, `connect_pause_seconds` apart.
    """

    framed: bool = False
    compact: bool = False
    tls: bool = False
    certificates: str | None = None
    http_path: str | None = None
    plain_user: str | None = None
    token: str | None = field(default=None, repr=False)
    token_file: str | None = None
    client: OAuth2Token | None = field(default=None, compare=False)
    kerberos: KerberosLogin | None = None
    server_principal: str = ""
    layers: tuple[str, ...] = ("authentication",)
    acts_for: str | None = None
    connect_tries: int = 3
    connect_pause_seconds: float = 1.0
    pool_size: int = POOL_SIZE


class _NotAdmittedError(Exception):
    """The server does not serve the connection; the text is its reason."""


class MetastoreCalls(Protocol):
    """The way to a metastore: a pool of connections, or the metastore of this process."""

    def close(self) -> None:
        """Close the idle connections; running calls finish."""
        ...

    def read(self, call: Callable[[Any], T]) -> T:
        """Make a call that may be made twice: one that changes nothing, or has the same result when repeated."""
        ...

    def change(self, call: Callable[[Any], T]) -> T:
        """Make a call that must not be made twice. CallStateUnknownError when its outcome is unknown."""
        ...


@dataclass(slots=True)
class _State:
    """The mutable state of a pool, guarded by its lock."""

    idle: "list[MetastoreConnection]" = field(default_factory=list)
    closed: bool = False
    first: int = 0
    was_reached: bool = False


class ConnectionPool:
    """Connections to one metastore, for many threads; each call borrows one."""

    def __init__(self, uri: str, *, timeout_seconds: float, user: str | None, transport: TransportSettings) -> None:
        self.uri = uri
        self._addresses = parse_uri(uri)
        self._timeout_seconds = timeout_seconds
        self._user = user if user is not None else current_user()
        self._transport = transport
        self._guard = threading.Lock()
        self._state = _State()

    def close(self) -> None:
        """Close the idle connections; running calls finish."""
        with self._guard:
            self._state.closed = True
            idle, self._state.idle = self._state.idle, []
        for connection in idle:
            connection.close()

    def read(self, call: Callable[[Any], T]) -> T:
        """Make a call that may be made twice: one that changes nothing, or has the same result when repeated."""
        try:
            return self.change(call)
        except CallStateUnknownError:
            return self.change(call)

    def change(self, call: Callable[[Any], T]) -> T:
        """Make a call that must not be made twice. CallStateUnknownError when the connection broke during it."""
        connection = self._borrow()
        try:
            return self._made(call, connection)
        except _NotAdmittedError as error:
            # It was not carried out. The token may have been revoked before its end.
            if not connection.replace_token():
                raise self._not_admitted(error) from error.__cause__
        try:
            return self._made(call, self._borrow())
        except _NotAdmittedError as error:
            raise self._not_admitted(error) from error.__cause__

    def _not_admitted(self, error: "_NotAdmittedError") -> CatalogAccessError:
        return CatalogAccessError(f"the metastore {self.uri} refuses the client: {error}")

    def _made(self, call: Callable[[Any], T], connection: "MetastoreConnection") -> T:
        try:
            result = call(connection.client)
        except CatalogError:
            # A refusal by HTTP, before the call was carried out.
            connection.close()
            raise
        except (TTransportException, OSError, EOFError) as error:
            connection.close()
            raise CallStateUnknownError(
                f"the connection to the metastore {self.uri} broke during a call, "
                f"and it is not known whether the call was carried out: {error or type(error).__name__}"
            ) from error
        except TException as error:
            if isinstance(error, TApplicationException) and error.type == NOT_ADMITTED:
                connection.close()
                raise _NotAdmittedError(error.message) from error
            # The error is an answer, so the connection is usable.
            self._give_back(connection)
            raise
        except BaseException:
            # Any other error, even Ctrl-C, may leave half a reply in the connection.
            connection.close()
            raise
        self._give_back(connection)
        return result

    def _borrow(self) -> "MetastoreConnection":
        while True:
            with self._guard:
                if self._state.closed:
                    raise CatalogError(f"the client of the metastore {self.uri} is closed")
                connection = self._state.idle.pop() if self._state.idle else None
            if connection is None:
                return self._connect()
            if connection.is_usable():
                return connection
            connection.close()

    def _give_back(self, connection: "MetastoreConnection") -> None:
        with self._guard:
            if not self._state.closed and len(self._state.idle) < self._transport.pool_size:
                self._state.idle.append(connection)
                return
        connection.close()

    def _connect(self) -> "MetastoreConnection":
        tries = max(1, self._transport.connect_tries) if self._state.was_reached else 1
        backoff = ExponentialBackoff(
            first_seconds=self._transport.connect_pause_seconds, growth=1.0, jitter=NO_JITTER, retries=tries - 1
        )
        retries = backoff.start(f"connecting to the metastore {self.uri}", _log)
        while True:
            failures: list[str] = []
            first = self._state.first
            for offset in range(len(self._addresses)):
                index = (first + offset) % len(self._addresses)
                host, port = self._addresses[index]
                try:
                    connection = MetastoreConnection(host, port, self._timeout_seconds, self._user, self._transport)
                except InterbedError:
                    raise
                except (TTransportException, OSError, EOFError, ValueError) as error:
                    failures.append(f"{host}:{port}: {error}")
                    continue
                with self._guard:
                    self._state.first, self._state.was_reached = index, True
                return connection
            if not retries.pause("; ".join(failures)):
                raise CatalogUnavailableError(
                    f"no metastore answers at {self.uri} ({'; '.join(failures)}). "
                    "Is the server running? `interbed server` starts one."
                )


class MetastoreConnection:
    """One open connection with its generated client."""

    def __init__(
        self, host: str, port: int, timeout_seconds: float, user: str, transport: TransportSettings | None = None
    ) -> None:
        transport = transport or TransportSettings()
        # thrift leaves its socket's handle untyped, and its type None until it is open.
        self._socket: Any = _socket(host, port, transport)
        self._socket.setTimeout(min(CONNECT_SECONDS_MAX, timeout_seconds) * 1000)
        self._transport: Any = _framing(self._socket, f"{host}:{port}", transport)
        protocol = TCompactProtocolAccelerated if transport.compact else TBinaryProtocolAccelerated
        self.client: Any = ThriftHiveMetastore.Client(protocol(self._transport))
        self._transport.open()
        try:
            self._socket.handle.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._socket.setTimeout(timeout_seconds * 1000)
            if transport.plain_user is None and transport.kerberos is None:
                # Some servers do not know this optional call.
                with contextlib.suppress(TApplicationException):
                    self.client.set_ugi(user, [])
        except BaseException:
            self.close()
            raise

    def is_usable(self) -> bool:
        """Return whether the server has kept the connection open, and its token is the present one: nothing may be
        readable between two calls.
        """
        try:
            poll = select.poll()
            poll.register(self._socket.handle, select.POLLIN)
            if poll.poll(0):
                return False
            return not isinstance(self._transport, SaslPlainTransport) or self._transport.has_current_token()
        except (OSError, ValueError, AttributeError):
            # The socket was closed by this side after an error.
            return False

    def replace_token(self) -> bool:
        """Return whether another connection has another token than this one, which the server has refused."""
        return isinstance(self._transport, SaslPlainTransport) and self._transport.replace_token()

    def close(self) -> None:
        self._transport.close()


def parse_uri(uri: str) -> list[tuple[str, int]]:
    """Return the addresses of `thrift://host:port,thrift://host:port`; raise InvalidOptionError for other text."""
    addresses = []
    for part in uri.split(","):
        text = part.strip()
        split = urlsplit(text if "://" in text else f"thrift://{text}")
        try:
            port = split.port
        except ValueError:
            port = -1
        if split.scheme != "thrift" or not split.hostname or port == -1 or split.path not in ("", "/"):
            raise InvalidOptionError(f"{uri!r} is no address of a metastore: it has to look like thrift://host:9083")
        addresses.append((split.hostname, DEFAULT_PORT if port is None else port))
    return addresses


acting_user: ContextVar[str | None] = ContextVar("acting_user", default=None)
"""The user that a server makes calls for; None for the user of the process."""


def current_user() -> str:
    """Return the name of the user, which is shown with locks."""
    acting = acting_user.get()
    if acting is not None:
        return acting
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        # In a container the user's number may have no name.
        return "unknown"


def _socket(host: str, port: int, transport: TransportSettings) -> Any:
    # The defaults of TSSLSocket use neither the system's certificates nor Python's choice of protocols.
    context = ssl.create_default_context(cafile=transport.certificates) if transport.tls else None
    if transport.http_path is not None:
        return HttpTransport(
            host,
            port,
            transport.http_path,
            tls=context,
            token=transport.token,
            token_file=transport.token_file,
            client=transport.client,
            negotiate=_negotiate_tokens(transport, host),
            acts_for=transport.acts_for,
        )
    return TSocket(host, port) if context is None else TSSLSocket(host, port, ssl_context=context)


def _framing(connected: Any, address: str, transport: TransportSettings) -> Any:
    if transport.plain_user is not None:
        return SaslPlainTransport(
            connected,
            address,
            transport.plain_user,
            token=transport.token,
            token_file=transport.token_file,
            client=transport.client,
        )
    if transport.kerberos is not None and transport.http_path is None:
        return _kerberos_transport(connected, address, transport, transport.kerberos)
    if transport.framed:
        return TFramedTransport(connected)
    return TBufferedTransport(connected, _READ_BUFFER_BYTES)


def _kerberos_transport(connected: Any, address: str, transport: TransportSettings, login: KerberosLogin) -> Any:
    principal = server_principal(transport.server_principal, address.rpartition(":")[0])
    begin = partial(GssapiLogin, login, principal, layers=transport.layers, acts_for=transport.acts_for or "")
    return KerberosTransport(connected, address, begin)


def _negotiate_tokens(transport: TransportSettings, host: str) -> NegotiateTokens | None:
    if transport.kerberos is None:
        return None
    return NegotiateTokens(transport.kerberos, server_principal(transport.server_principal, host))


def refusal(uri: str, what: str, error: TException) -> CatalogError:
    """Return the error for an answer that has no error class of its own."""
    message = getattr(error, "message", None) or str(error)
    return CatalogError(f"the metastore {uri} refused to {what}: {message}")
