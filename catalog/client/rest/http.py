"""HTTP of the Paimon REST client: pooled connections, deadlines, retries and error responses.

A request that did not reach the server, or that it refused with 429, is sent again; so is one that it refused with 401,
once, if there are other credentials by then. A request whose outcome is unknown
(the connection broke, or a gateway answered 502, 503 or 504) is sent again only if repeating it is safe. All others
raise CallStateUnknownError then. `Retry-After` sets the pause; all pauses together are bounded.

An error is `{"message", "resourceType", "resourceName", "code"}`; the status and the type of the resource decide which
error of catalogs it becomes. In interbed's own interface it is `{"error": {"message", "type", "code"}}`, whose type
stands for that of the resource. Source: paimon-api's ErrorResponse and DefaultErrorHandler, version 1.4.
"""

import email.utils
import http.client
import io
import json
import logging
import select
import socket
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote_plus, urlencode, urlsplit

from interbed.catalog.client.errors import (
    CallStateUnknownError,
    CatalogAccessError,
    CatalogError,
    CatalogUnavailableError,
    DatabaseExistsError,
    DatabaseNotFoundError,
    FunctionExistsError,
    FunctionNotFoundError,
    PartitionExistsError,
    TableExistsError,
    TableNotFoundError,
    ViewNotFoundError,
)
from interbed.catalog.client.rest.tokens import MEDIA_TYPE, OutgoingRequest, TokenProvider
from interbed.storage.base.backoff import NO_JITTER, ExponentialBackoff, RetryLoop
from interbed.storage.base.errors import (
    BranchNotFoundError,
    InterbedError,
    InvalidInputError,
    InvalidOptionError,
    NotSupportedError,
    SnapshotNotFoundError,
    TagNotFoundError,
)
from interbed.storage.base.shown_text import escaped, without_credentials

BAD_REQUEST, UNAUTHORIZED, FORBIDDEN, NOT_FOUND, CONFLICT = 400, 401, 403, 404, 409
TOO_MANY_REQUESTS, NOT_IMPLEMENTED, BAD_GATEWAY, UNAVAILABLE, GATEWAY_TIMEOUT = 429, 501, 502, 503, 504

_MISSING: Mapping[str, Callable[[str], InterbedError]] = {
    "DATABASE": DatabaseNotFoundError,
    "TABLE": TableNotFoundError,
    "VIEW": ViewNotFoundError,
    "FUNCTION": FunctionNotFoundError,
    "TAG": TagNotFoundError,
    "BRANCH": BranchNotFoundError,
    "SNAPSHOT": SnapshotNotFoundError,
}
_EXISTING: Mapping[str, Callable[[str], InterbedError]] = {
    "DATABASE": DatabaseExistsError,
    "TABLE": TableExistsError,
    "VIEW": TableExistsError,
    "FUNCTION": FunctionExistsError,
    "PARTITION": PartitionExistsError,
}
_BY_STATUS: Mapping[int, Callable[[str], InterbedError]] = {
    BAD_REQUEST: InvalidInputError,
    UNAUTHORIZED: CatalogAccessError,
    FORBIDDEN: CatalogAccessError,
    NOT_FOUND: InvalidInputError,
    CONFLICT: InvalidInputError,
    NOT_IMPLEMENTED: NotSupportedError,
}


def encoded(part: str) -> str:
    """Return a part of a path, encoded as Java's URLEncoder does."""
    return quote_plus(part, safe="")


class RestRefusedError(CatalogError):
    """Error response of a REST server: its status, and the type and the name of the resource, if it has any."""

    def __init__(self, message: str, *, status: int, resource_type: str = "", resource_name: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.resource_type = resource_type
        self.resource_name = resource_name

    def is_missing(self, *types: str) -> bool:
        """Return whether a resource of one of these types does not exist."""
        return self.status == NOT_FOUND and self.resource_type in types

    @property
    def settles(self) -> bool:
        """Whether the request has certainly changed nothing; a server that failed may have carried it out."""
        return self.status in _BY_STATUS or self.status == TOO_MANY_REQUESTS


def refusal_of(status: int, body: Any, text: str) -> RestRefusedError:
    """Return the error of a response; `body` is its decoded JSON, or None, `text` begins the message."""
    members: Mapping[str, Any] = body if isinstance(body, Mapping) else {}
    if isinstance(members.get("error"), Mapping):
        members = {"resourceType": members["error"].get("type"), "code": members["error"].get("code")}
    code = members.get("code")
    return RestRefusedError(
        text,
        # The code in the body counts: some servers send another status.
        status=code if isinstance(code, int) and not isinstance(code, bool) else status,
        resource_type=str(members.get("resourceType") or "").upper(),
        resource_name=str(members.get("resourceName") or ""),
    )


def catalog_error(refusal: RestRefusedError) -> InterbedError:
    """Return the error of catalogs for an error response; the response itself where no other error says more."""
    known: Callable[[str], InterbedError] | None
    if refusal.status == NOT_FOUND:
        known = _MISSING.get(refusal.resource_type)
    elif refusal.status == CONFLICT:
        known = _EXISTING.get(refusal.resource_type)
    else:
        known = None
    if known is None:
        known = _BY_STATUS.get(refusal.status)
    return refusal if known is None else known(str(refusal))


_log = logging.getLogger(__name__)

BACKOFF = ExponentialBackoff(first_seconds=0.1, longest_seconds=5.0, retries=5, timeout_seconds=60.0)
SUCCESSES = (200, 202, 204)
_BODY_BYTES_MAX = 1 << 30
_MESSAGE_MAX = 2000
_UNKNOWN_OUTCOMES = (BAD_GATEWAY, UNAVAILABLE, GATEWAY_TIMEOUT)


@dataclass(frozen=True, slots=True, kw_only=True)
class RestAddress:
    """Address of a server: `http://host:port/path`."""

    is_tls: bool
    host: str
    port: int | None
    path: str
    """Path before `/v1`, without a slash at its end."""

    @staticmethod
    def parse(uri: str) -> "RestAddress":
        """Return the address of the option `uri`, in which `http://` may be left out; raises InvalidOptionError."""
        text = uri.strip()
        parts = urlsplit(text if "://" in text else f"http://{text}")
        try:
            port = parts.port
        except ValueError:
            port = -1
        wrong = parts.query or parts.fragment or parts.username or parts.password
        if parts.scheme not in ("http", "https") or not parts.hostname or port == -1 or wrong:
            raise InvalidOptionError(
                "Option 'uri' of a REST catalog takes http://host:port or https://host, "
                f"not '{without_credentials(uri)}'."
            )
        return RestAddress(is_tls=parts.scheme == "https", host=parts.hostname, port=port, path=parts.path.rstrip("/"))


class _NotSentError(Exception):
    """The server did not get the request."""


class _BrokenError(Exception):
    """The connection failed after the request was sent: the server may have carried it out."""


class StreamedBody(io.RawIOBase):
    """Body of a response, which is read while it arrives. The connection is closed with it.

    Raises CatalogUnavailableError for a body that ends before its end.
    """

    def __init__(self, uri: str, connection: http.client.HTTPConnection, response: http.client.HTTPResponse) -> None:
        super().__init__()
        self._uri = uri
        self._connection = connection
        self._response = response
        self.tail = b""
        """The last bytes that were read, up to 8."""

    def readable(self) -> bool:
        """Return that the body can be read."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read what has arrived, up to the length of the buffer; 0 at the end of the body."""
        try:
            part = self._response.read1(len(buffer))
        except (OSError, http.client.HTTPException) as error:
            raise CatalogUnavailableError(f"The response of {self._uri} ended before its end: {error!r}.") from error
        buffer[: len(part)] = part
        self.tail = (self.tail + part[-8:])[-8:]
        return len(part)

    def close(self) -> None:
        """Close the connection, also before the end of the body."""
        if not self.closed:
            self._response.close()
            self._connection.close()
        super().close()


@dataclass(frozen=True, slots=True)
class _RawResponse:
    status: int
    headers: Mapping[str, str]
    body: bytes
    sent: Mapping[str, str]
    """Headers of the request."""
    stream: StreamedBody | None = None
    """The body, if it is not read yet."""


class RestHttp:
    """Sender of requests to one server. Thread-safe; close it after use."""

    def __init__(
        self,
        uri: str,
        provider: TokenProvider,
        *,
        headers: Mapping[str, str] | None = None,
        timeout_seconds: float = 180.0,
        idle_max: int = 8,
        backoff: ExponentialBackoff = BACKOFF,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self.uri = uri
        self.headers = dict(headers or {})
        self._address = RestAddress.parse(uri)
        self._provider = provider
        self._timeout_seconds = timeout_seconds
        self._idle_max = idle_max
        self._backoff = backoff
        self._wall_clock = wall_clock
        self._tls = ssl.create_default_context() if self._address.is_tls else None
        self._guard = threading.Lock()
        self._idle: list[http.client.HTTPConnection] = []

    def __repr__(self) -> str:
        return f"RestHttp({self.uri!r})"

    def beside(self, name: str, idle_max: int | None = None) -> "RestHttp":
        """Return the sender to another interface of the same server, whose path has another last part. `idle_max` is
        its number of idle connections, that of this one by default.
        """
        scheme, mark, rest = self.uri.strip().rstrip("/").rpartition("://")
        return RestHttp(
            f"{scheme}{mark}{rest.rpartition('/')[0]}/{name}",
            self._provider,
            headers=self.headers,
            timeout_seconds=self._timeout_seconds,
            idle_max=self._idle_max if idle_max is None else idle_max,
            backoff=self._backoff,
            wall_clock=self._wall_clock,
        )

    def get(self, path: str, query: Mapping[str, str] | None = None) -> Any:
        """Return the JSON of a resource; raises RestRefusedError, CatalogUnavailableError."""
        return self._send(OutgoingRequest(method="GET", path=path, query=query or {}), repeatable=True)

    def post(self, path: str, body: object, *, repeatable: bool = False) -> Any:
        """Send a body and return the JSON of the response, if any.

        `repeatable` says that the server may carry it out twice. Raises RestRefusedError, CatalogUnavailableError when
        it was not carried out, CallStateUnknownError when that is unknown.
        """
        text = json.dumps(body, ensure_ascii=False)
        return self._send(OutgoingRequest(method="POST", path=path, body=text), repeatable=repeatable)

    def post_for_stream(self, path: str, body: object) -> StreamedBody:
        """Send a body and return that of the response, which has only begun; the caller closes it. It is repeated until
        the response begins. Raises RestRefusedError, CatalogUnavailableError.
        """
        text = json.dumps(body, ensure_ascii=False)
        found = self._send(OutgoingRequest(method="POST", path=path, body=text), repeatable=True, is_streamed=True)
        assert isinstance(found, StreamedBody)
        return found

    def delete(self, path: str) -> None:
        """Delete a resource; raises RestRefusedError, CatalogUnavailableError."""
        self._send(OutgoingRequest(method="DELETE", path=path), repeatable=True)

    def close(self) -> None:
        """Close the idle connections."""
        with self._guard:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    # -- attempts --------------------------------------------------------------------------------------------------

    def _send(self, request: OutgoingRequest, *, repeatable: bool, is_streamed: bool = False) -> Any:
        retries = self._backoff.start(f"{request.method} {request.path} at {self.uri}", _log)
        was_sent = was_replaced = False
        while True:
            try:
                response = self._attempt(request, is_streamed=is_streamed)
            except _NotSentError as error:
                if not retries.pause(error):
                    raise self._unavailable(request, error, was_sent=was_sent) from error.__cause__
                continue
            except _BrokenError as error:
                was_sent = True
                if not repeatable or not retries.pause(error):
                    raise self._unavailable(request, error, was_sent=True) from error.__cause__
                continue
            if response.stream is not None:
                return response.stream
            if response.status in SUCCESSES:
                return self._decoded(request, response)
            if response.status == UNAUTHORIZED and not was_replaced:
                # It was not carried out. The token may have been revoked before its end.
                was_replaced = True
                if self._provider.replace(response.sent):
                    continue
            refusal = self._refusal(request, response)
            if request.method == "DELETE" and was_sent and refusal.status == NOT_FOUND:
                # An earlier attempt has deleted it.
                return None
            is_unknown = refusal.status in _UNKNOWN_OUTCOMES
            was_sent = was_sent or is_unknown
            if refusal.status == TOO_MANY_REQUESTS or (is_unknown and repeatable):
                self._follow_retry_after(retries, response)
                if retries.pause(refusal):
                    continue
            if is_unknown:
                raise self._unavailable(request, refusal, was_sent=request.method != "GET") from refusal
            raise refusal

    def _follow_retry_after(self, retries: RetryLoop, response: _RawResponse) -> None:
        """Let the next pause last as the header `Retry-After` says, in seconds or as a date."""
        seconds = retry_after_seconds(response.headers.get("retry-after"), self._wall_clock())
        retries.backoff = (
            self._backoff
            if seconds is None
            else replace(self._backoff, first_seconds=seconds, longest_seconds=seconds, growth=1.0, jitter=NO_JITTER)
        )

    def _unavailable(self, request: OutgoingRequest, why: Exception, *, was_sent: bool) -> CatalogUnavailableError:
        if not was_sent or request.method == "GET":
            return CatalogUnavailableError(f"The REST catalog at {self.uri} can't be reached: {why}")
        return CallStateUnknownError(
            f"It is not known whether {self.uri} has carried out {request.method} {request.path}: {why} Check the "
            "result before repeating it."
        )

    def _refusal(self, request: OutgoingRequest, response: _RawResponse) -> RestRefusedError:
        try:
            body = json.loads(response.body)
        except ValueError:
            body = None
        given: object = response.body.decode(errors="replace")
        if isinstance(body, Mapping):
            # Paimon's errors are objects, those of Iceberg and of interbed's own interface members of one.
            inside = body.get("error")
            given = (inside if isinstance(inside, Mapping) else body).get("message")
        plain = str(given or "").strip() or "no message"
        said = self._provider.redacted(without_credentials(escaped(plain)))[:_MESSAGE_MAX]
        text = f"The REST catalog at {self.uri} answers {response.status} to {request.method} {request.path}: {said}"
        return refusal_of(response.status, body, text)

    def _decoded(self, request: OutgoingRequest, response: _RawResponse) -> Any:
        if not response.body:
            return None
        try:
            return json.loads(response.body)
        except ValueError:
            # The content may be a secret, so it is not quoted.
            raise RestRefusedError(
                f"The REST catalog at {self.uri} answers {request.method} {request.path} with {len(response.body)} "
                "bytes that are no JSON; check the option 'uri'.",
                status=response.status,
            ) from None

    # -- connections -----------------------------------------------------------------------------------------------

    def _attempt(self, request: OutgoingRequest, *, is_streamed: bool = False) -> _RawResponse:
        deadline = time.monotonic() + self._timeout_seconds
        headers = {**self.headers, "Accept": MEDIA_TYPE, **self._provider.headers(request)}
        body = None if request.body is None else request.body.encode()
        if body is not None:
            headers["Content-Type"] = MEDIA_TYPE
        target = self._address.path + request.path
        if request.query:
            target = f"{target}?{urlencode(request.query)}"
        connection = self._connection()
        is_kept = is_lent = False
        try:
            try:
                connection.request(request.method, target, body, headers)
                response = connection.getresponse()
                if is_streamed and response.status in SUCCESSES:
                    is_lent = True
                    stream = StreamedBody(self.uri, connection, response)
                    return _RawResponse(response.status, {}, b"", headers, stream)
                content = _read(connection, response, deadline)
            except (OSError, http.client.HTTPException) as error:
                raise _BrokenError(f"{type(error).__name__}: {error}.") from error
            except ValueError:
                # The error quotes the header, which may be a token.
                raise InvalidOptionError(
                    f"A header for {self.uri} has characters that HTTP does not allow; check the options 'token' and "
                    "'header.*'."
                ) from None
            is_kept = not response.will_close
            found = {name.lower(): value for name, value in response.getheaders()}
            return _RawResponse(response.status, found, content, headers)
        finally:
            if not is_lent:
                self._give_back(connection, is_kept=is_kept)

    def _connection(self) -> http.client.HTTPConnection:
        while True:
            with self._guard:
                kept = self._idle.pop() if self._idle else None
            if kept is None:
                return self._connected()
            if _is_open(kept):
                if kept.sock is not None:
                    kept.sock.settimeout(self._timeout_seconds)
                return kept
            kept.close()

    def _connected(self) -> http.client.HTTPConnection:
        host, port = self._address.host, self._address.port
        connection = (
            http.client.HTTPConnection(host, port, timeout=self._timeout_seconds)
            if self._tls is None
            else http.client.HTTPSConnection(host, port, timeout=self._timeout_seconds, context=self._tls)
        )
        try:
            connection.connect()
            connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError as error:
            connection.close()
            raise _NotSentError(f"{type(error).__name__}: {error}.") from error
        return connection

    def _give_back(self, connection: http.client.HTTPConnection, *, is_kept: bool) -> None:
        with self._guard:
            if is_kept and len(self._idle) < self._idle_max:
                self._idle.append(connection)
                return
        connection.close()


def retry_after_seconds(header: str | None, now: float) -> float | None:
    """Return the pause that a header `Retry-After` asks for: seconds, or a date; None without a valid one."""
    if header is None:
        return None
    with suppress(ValueError):
        return max(0.0, float(int(header.strip())))
    with suppress(ValueError, TypeError):
        return max(0.0, email.utils.parsedate_to_datetime(header).timestamp() - now)
    return None


def _read(connection: http.client.HTTPConnection, response: http.client.HTTPResponse, deadline: float) -> bytes:
    """Return the body of a response; raises TimeoutError after the deadline, however slowly the bytes arrive."""
    parts: list[bytes] = []
    size = 0
    while part := response.read1(1 << 16):
        size += len(part)
        parts.append(part)
        left = deadline - time.monotonic()
        if left <= 0 or size > _BODY_BYTES_MAX:
            raise TimeoutError(f"the response was not complete in time, after {size} bytes")
        if connection.sock is not None:
            connection.sock.settimeout(left)
    # A response that was read in parts to its end does not close itself.
    response.close()
    return b"".join(parts)


def _is_open(connection: http.client.HTTPConnection) -> bool:
    """Return whether an idle connection was not closed by the server: it has nothing to read then."""
    if connection.sock is None:
        return False
    poller = select.poll()
    poller.register(connection.sock, select.POLLIN | select.POLLHUP | select.POLLERR)
    return not poller.poll(0)
