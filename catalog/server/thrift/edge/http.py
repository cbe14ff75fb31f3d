"""Thrift over HTTP, as Hive 4's clients speak it: one message in the body of a POST, the reply in that of the response.

Of HTTP/1.1 it supports what such clients need: a length or chunks, keep-alive, `Expect: 100-continue`. Anything else is
answered with an error, and the connection ends. The header `x-actor-username` names the user, as set_ugi does.
"""

from http import HTTPStatus

from thrift.transport.TTransport import TTransportException

from interbed.catalog.server.thrift.edge.budgets import MESSAGE_BYTES_MAX
from interbed.catalog.server.thrift.edge.codec import Codec
from interbed.catalog.server.thrift.edge.scan import too_long
from interbed.catalog.server.thrift.edge.transport import IncomingBytes

HEAD_BYTES_MAX = 32 * 1024
"""Bytes of the request line and headers."""

_CONTENT_TYPE = "application/x-thrift"
_END_OF_HEAD = b"\r\n\r\n"
_CHUNK_LINE_BYTES_MAX = 1024
_ALLOWED_TYPES = ("", _CONTENT_TYPE, "application/octet-stream", "application/vnd.apache.thrift.binary")
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class HttpError(TTransportException):  # type: ignore[misc]
    """A refused request; `status` is the HTTP status."""

    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(TTransportException.UNKNOWN, message)
        self.status = status


class HttpFraming:
    """Framing of messages as the bodies of requests to a path."""

    is_delimited = True

    def __init__(self, path: str, bytes_max: int = MESSAGE_BYTES_MAX) -> None:
        self._path = path
        self._bytes_max = bytes_max
        self.is_last = False
        self.user: str | None = None
        self._searched = 0
        self._body: _RequestBody | None = None
        self._interim = b""

    def whole(self, data: bytes) -> bytes | None:
        """Return the body of a complete request with a Content-Length. All others are parsed by `next`."""
        end = data.find(_END_OF_HEAD, 0, HEAD_BYTES_MAX)
        if end < 0:
            return None
        try:
            headers = self._head(data[:end])
            length = _length(headers, self._bytes_max)
        except HttpError:
            # `next` finds the error again, and can answer it.
            return None
        if length != len(data) - end - len(_END_OF_HEAD) or "expect" in headers:
            return None
        return data[end + len(_END_OF_HEAD) :]

    def next(self, incoming: IncomingBytes, codec: Codec) -> bytes | None:
        """Return the body of the next request."""
        incoming.weight = 0
        if self._body is None:
            self._body = self._next_body(incoming)
        body = self._body
        if body is None or not body.is_whole(incoming):
            return None
        self._body, self._searched = None, 0
        message = incoming.take(body.begin, body.end)
        return body.content if body.content is not None else message

    def interim(self) -> bytes:
        """Return the permission to continue for a client that waits for it."""
        said, self._interim = self._interim, b""
        return said

    def head(self, length: int) -> bytes:
        """Return the head of a response."""
        return _response_head(HTTPStatus.OK, _CONTENT_TYPE, length, closes=self.is_last)

    def refusal(self, error: Exception) -> bytes:
        """Return a response that describes the error of the request."""
        status = error.status if isinstance(error, HttpError) else HTTPStatus.BAD_REQUEST
        if isinstance(error, OSError | EOFError):
            return b""
        body = f"{error}\n".encode(errors="replace")
        return _response_head(status, "text/plain; charset=utf-8", len(body), closes=True) + body

    def _next_body(self, incoming: IncomingBytes) -> "_RequestBody | None":
        """Return the body of a request whose head is complete."""
        end = incoming.data.find(_END_OF_HEAD, max(0, self._searched - len(_END_OF_HEAD)))
        if end < 0 or end > HEAD_BYTES_MAX:
            self._searched = len(incoming.data)
            if self._searched > HEAD_BYTES_MAX:
                raise HttpError(
                    HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, f"a head of more than {HEAD_BYTES_MAX} bytes"
                )
            incoming.needed = self._searched + 1
            return None
        headers = self._head(bytes(incoming.data[:end]))
        length = _length(headers, self._bytes_max)
        if headers.get("expect", "").lower() == "100-continue":
            self._interim = _CONTINUE
        begin = end + len(_END_OF_HEAD)
        return _RequestBody(begin, begin + length) if length is not None else _ChunkedBody(begin, self._bytes_max)

    def _head(self, head: bytes) -> dict[str, str]:
        """Return the headers by their names in lower case; record those about the connection and the user."""
        lines = head.decode("latin-1").split("\r\n")
        parts = lines[0].split(" ")
        if len(parts) != 3 or parts[2] not in ("HTTP/1.1", "HTTP/1.0"):
            raise HttpError(HTTPStatus.BAD_REQUEST, "this is not HTTP/1.1")
        method, target, version = parts
        headers: dict[str, str] = {}
        for line in lines[1:]:
            name, colon, value = line.partition(":")
            if not colon or not name or name != name.strip():
                raise HttpError(HTTPStatus.BAD_REQUEST, "a header line is malformed")
            if name.lower() in headers and name.lower() in ("content-length", "transfer-encoding"):
                raise HttpError(HTTPStatus.BAD_REQUEST, f"{name} is given twice")
            headers[name.lower()] = value.strip()
        connection = headers.get("connection", "").lower()
        self.is_last = "close" in connection or (version == "HTTP/1.0" and "keep-alive" not in connection)
        self.user = headers.get("x-actor-username") or None
        if target.partition("?")[0] != self._path:
            raise HttpError(HTTPStatus.NOT_FOUND, f"there is only {self._path} here")
        if method != "POST":
            raise HttpError(HTTPStatus.METHOD_NOT_ALLOWED, "a Thrift call is a POST")
        if headers.get("content-type", "").partition(";")[0].strip().lower() not in _ALLOWED_TYPES:
            raise HttpError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"the content type has to be {_CONTENT_TYPE}")
        return headers


class _RequestBody:
    """A body with a Content-Length; `content` is set if it differs from the received bytes."""

    content: bytes | None = None

    def __init__(self, begin: int, end: int) -> None:
        self.begin = begin
        self.end = end

    def is_whole(self, incoming: IncomingBytes) -> bool:
        """Return whether the body is complete."""
        incoming.needed = self.end
        return len(incoming.data) >= self.end


class _ChunkedBody(_RequestBody):
    """A chunked body: each chunk follows its length; a chunk of 0 and trailers end it."""

    def __init__(self, begin: int, bytes_max: int) -> None:
        super().__init__(begin, begin)
        self._bytes_max = bytes_max
        self._gathered = bytearray()
        self._trailers: int | None = None

    def is_whole(self, incoming: IncomingBytes) -> bool:
        """Return whether the body is complete; received chunks are gathered, and removed from the incoming bytes."""
        while self.content is None:
            line_end = incoming.data.find(b"\r\n", self.end)
            line = bytes(incoming.data[self.end : line_end if line_end >= 0 else len(incoming.data)])
            if line_end < 0 or len(line) > _CHUNK_LINE_BYTES_MAX:
                return self._waits(incoming, line)
            after = line_end + 2
            if self._trailers is not None:
                self._end_with(line)
                self.end = after
                continue
            length = self._chunk_length(line)
            if length == 0:
                self._trailers = 0
                self.end = after
                continue
            if len(incoming.data) < after + length + 2:
                incoming.needed = after + length + 2
                return False
            if incoming.data[after + length : after + length + 2] != b"\r\n":
                raise HttpError(HTTPStatus.BAD_REQUEST, "a chunk is longer than it says")
            self._gathered += incoming.data[after : after + length]
            incoming.gathered = len(self._gathered)
            del incoming.data[: after + length + 2]
            self.begin = self.end = 0
        self.begin = self.end
        return True

    def _waits(self, incoming: IncomingBytes, line: bytes) -> bool:
        if len(line) > _CHUNK_LINE_BYTES_MAX:
            raise HttpError(HTTPStatus.BAD_REQUEST, f"a line of more than {_CHUNK_LINE_BYTES_MAX} bytes in the body")
        incoming.needed = len(incoming.data) + 1
        return False

    def _end_with(self, line: bytes) -> None:
        """Skip a trailer; an empty line is the last."""
        assert self._trailers is not None
        if not line:
            self.content = bytes(self._gathered)
            return
        self._trailers += len(line) + 2
        if self._trailers > HEAD_BYTES_MAX:
            raise HttpError(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "too many trailers")

    def _chunk_length(self, line: bytes) -> int:
        digits = line.partition(b";")[0].strip()
        try:
            length = int(digits, 16) if digits.isalnum() and len(digits) < 16 else -1
        except ValueError:
            length = -1
        if length < 0:
            raise HttpError(HTTPStatus.BAD_REQUEST, "the length of a chunk is no number")
        if len(self._gathered) + length > self._bytes_max:
            raise _too_large(self._bytes_max)
        return length


def _length(headers: dict[str, str], bytes_max: int) -> int | None:
    """Return the length of the body; None if it is chunked."""
    coding, length = headers.get("transfer-encoding"), headers.get("content-length")
    if coding is not None:
        if coding.lower() != "chunked" or length is not None:
            raise HttpError(HTTPStatus.NOT_IMPLEMENTED, "a body has a length, or comes in chunks")
        return None
    if length is None:
        raise HttpError(HTTPStatus.LENGTH_REQUIRED, "a body needs a length, or to come in chunks")
    # More digits than any allowed number; int() accepts signs, underscores and other alphabets.
    if not (length.isascii() and length.isdigit() and len(length) < 16):
        raise HttpError(HTTPStatus.BAD_REQUEST, "the length of the body is no number")
    if int(length) > bytes_max:
        raise _too_large(bytes_max)
    return int(length)


def _too_large(bytes_max: int) -> HttpError:
    return HttpError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, str(too_long(bytes_max)))


def _response_head(status: HTTPStatus, content_type: str, length: int, *, closes: bool) -> bytes:
    connection = "Connection: close\r\n" if closes else ""
    return (
        f"HTTP/1.1 {status.value} {status.phrase}\r\n"
        f"Content-Type: {content_type}\r\nContent-Length: {length}\r\n{connection}\r\n"
    ).encode()
