"""Thrift over HTTP, as Hive 4's clients speak it: one message in the body of a POST, the reply in that of the response.

Of HTTP/1.1 it knows what such clients need: a length or chunks, keep-alive, `Expect: 100-continue`. Anything else is
answered with an error, and the connection ends. The header `x-actor-username` says who the user is, as set_ugi does.
"""

from http import HTTPStatus
from typing import Any

from thrift.transport.TTransport import TTransportException

from interbed.catalog.server.edge.codec import MESSAGE_BYTES_MAX, MemorySource
from interbed.catalog.server.edge.transport import SocketSource

HEAD_BYTES_MAX = 32 * 1024
"""Request line and headers."""

_CONTENT_TYPE = "application/x-thrift"
_END_OF_HEAD = b"\r\n\r\n"
_CHUNK_LINE_BYTES_MAX = 1024
_ALLOWED_TYPES = ("", _CONTENT_TYPE, "application/octet-stream", "application/vnd.apache.thrift.binary")
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class HttpError(TTransportException):  # type: ignore[misc]
    """A request that is not taken; `status` says why."""

    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(TTransportException.UNKNOWN, message)
        self.status = status


class HttpFraming:
    """Messages in the bodies of requests to a path."""

    def __init__(self, path: str) -> None:
        self._path = path
        self.is_last = False
        self.user: str | None = None

    def whole(self, data: bytes) -> bytes | None:
        """The body of a request that is all there, with its length given. Everything else takes the long way."""
        end = data.find(_END_OF_HEAD, 0, HEAD_BYTES_MAX)
        if end < 0:
            return None
        try:
            headers = self._head(data[:end])
            length = _length(headers)
        except HttpError:
            # The long way finds it again, and can answer.
            return None
        if length != len(data) - end - len(_END_OF_HEAD) or "expect" in headers:
            return None
        return data[end + len(_END_OF_HEAD) :]

    def next(self, reader: SocketSource) -> Any:
        """The body of the next request."""
        try:
            head = reader.read_until(_END_OF_HEAD, HEAD_BYTES_MAX)
        except TTransportException as error:
            if error.type == TTransportException.SIZE_LIMIT:
                raise HttpError(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, str(error)) from error
            raise
        headers = self._head(head[: -len(_END_OF_HEAD)])
        length = _length(headers)
        if headers.get("expect", "").lower() == "100-continue":
            reader.send(_CONTINUE)
        body = _chunks(reader) if length is None else reader.read_exactly(length)
        return MemorySource(body)

    def pack(self, reply: bytes) -> bytes:
        """A response; an empty one for no reply."""
        return _response(HTTPStatus.OK, _CONTENT_TYPE, reply, closes=self.is_last)

    def refusal(self, error: Exception) -> bytes:
        """A response that says what was wrong with the request."""
        status = error.status if isinstance(error, HttpError) else HTTPStatus.BAD_REQUEST
        if isinstance(error, OSError | EOFError):
            return b""
        return _response(status, "text/plain; charset=utf-8", f"{error}\n".encode(errors="replace"), closes=True)

    def _head(self, head: bytes) -> dict[str, str]:
        """The headers by their names in lower case; notes what they say of the connection and the user."""
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


def _length(headers: dict[str, str]) -> int | None:
    """The length of the body; None if it comes in chunks."""
    coding, length = headers.get("transfer-encoding"), headers.get("content-length")
    if coding is not None:
        if coding.lower() != "chunked" or length is not None:
            raise HttpError(HTTPStatus.NOT_IMPLEMENTED, "a body has a length, or comes in chunks")
        return None
    if length is None:
        raise HttpError(HTTPStatus.LENGTH_REQUIRED, "a body needs a length, or to come in chunks")
    # More digits than any number that is allowed; int() takes signs, underscores and other alphabets.
    if not (length.isascii() and length.isdigit() and len(length) < 16):
        raise HttpError(HTTPStatus.BAD_REQUEST, "the length of the body is no number")
    if int(length) > MESSAGE_BYTES_MAX:
        raise HttpError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a message of more than {MESSAGE_BYTES_MAX} bytes")
    return int(length)


def _chunks(reader: SocketSource) -> bytes:
    body = bytearray()
    while True:
        line = reader.read_until(b"\r\n", _CHUNK_LINE_BYTES_MAX)[:-2].partition(b";")[0].strip()
        try:
            length = int(line, 16) if line.isalnum() and len(line) < 16 else -1
        except ValueError:
            length = -1
        if length < 0:
            raise HttpError(HTTPStatus.BAD_REQUEST, "the length of a chunk is no number")
        if len(body) + length > MESSAGE_BYTES_MAX:
            raise HttpError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a message of more than {MESSAGE_BYTES_MAX} bytes")
        if length == 0:
            break
        body += reader.read_exactly(length)
        if reader.read_exactly(2) != b"\r\n":
            raise HttpError(HTTPStatus.BAD_REQUEST, "a chunk is longer than it says")
    # Trailers end with an empty line.
    trailers = 0
    while (line := reader.read_until(b"\r\n", _CHUNK_LINE_BYTES_MAX)) != b"\r\n":
        trailers += len(line)
        if trailers > HEAD_BYTES_MAX:
            raise HttpError(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "too many trailers")
    return bytes(body)


def _response(status: HTTPStatus, content_type: str, body: bytes, *, closes: bool) -> bytes:
    connection = "Connection: close\r\n" if closes else ""
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\n"
        f"Content-Type: {content_type}\r\nContent-Length: {len(body)}\r\n{connection}\r\n"
    )
    return head.encode() + body
