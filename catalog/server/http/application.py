"""Applications: the interfaces of a port, and what they have in common.

`application` makes one application of a port's interfaces: a route for each (Thrift over HTTP), or a mounted Starlette
application with routes of its own (`pages`). An endpoint finds its client, with the session and the share of the thread
pool, by `client_of`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from http import HTTPStatus
from typing import Any

from starlette.applications import Starlette
from starlette.routing import BaseRoute, Mount, Route
from starlette.types import ASGIApp, ExceptionHandler, Receive, Scope, Send
from thrift.transport.TTransport import TTransportException

from interbed.catalog.server.http.connection import CLIENT_EXTENSION, HttpClient


class HttpError(TTransportException):  # type: ignore[misc]
    """A refused request; `status` is the HTTP status."""

    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(TTransportException.UNKNOWN, message)
        self.status = status


def application(interfaces: Sequence[Route | Mount], *, missing: str) -> ASGIApp:
    """Return the application of a port; `missing` is the text for a path that no interface has.

    An interface has a path of its own, or all paths below one. They are found by two lookups, because Starlette's
    router and its handlers of errors take a notable part of the time of a cached answer.
    """
    exact = {each.path: each.app for each in interfaces if isinstance(each, Route)}
    below = {each.path: each.app for each in interfaces if isinstance(each, Mount)}

    async def found(scope: Scope, receive: Receive, send: Send) -> None:
        path: str = scope["path"]
        app = exact.get(path)
        if app is None:
            first, slash, _ = path[1:].partition("/")
            app = below.get(f"/{first}") if slash else None
        if app is None:
            await refuse(send, HTTPStatus.NOT_FOUND, missing)
        else:
            await app(scope, receive, send)

    return found


def pages(routes: Sequence[BaseRoute], errors: Mapping[Any, ExceptionHandler]) -> Starlette:
    """Return an application with routes of its own; `errors` are handlers by status or by exception."""
    made = Starlette(routes=routes, exception_handlers=errors)
    made.router.redirect_slashes = False
    return made


def client_of(scope: Scope) -> HttpClient:
    """Return the client of a request."""
    client: HttpClient = scope["extensions"][CLIENT_EXTENSION]
    return client


def check_coding(coding: str) -> None:
    """Raise HttpError with status 415 for a packed body: the limits of messages are those of bytes as they are sent."""
    if coding.strip().lower() not in ("", "identity"):
        raise HttpError(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"the content encoding {coding[:100]!r} is not read: send plain bodies"
        )


async def read_body(
    receive: Receive, length: int | None, bytes_max: int, too_large: Callable[[], HttpError]
) -> bytes | None:
    """Return the body of a request; None if the client has disconnected. Raises the error of `too_large` for a longer
    one; a body of known `length` has been checked.
    """
    part = await receive()
    if part["type"] == "http.disconnect":
        return None
    body: bytes = part.get("body", b"")
    if not part.get("more_body"):
        return body
    parts, size = [body], len(body)
    while part.get("more_body"):
        if length is None and size > bytes_max:
            raise too_large()
        part = await receive()
        if part["type"] == "http.disconnect":
            return None
        parts.append(part.get("body", b""))
        size += len(parts[-1])
    if size > bytes_max:
        raise too_large()
    return b"".join(parts)


async def refuse(send: Send, status: HTTPStatus, reason: str) -> None:
    """Send a response that describes an error, after which the connection closes."""
    await respond(send, status, "text/plain; charset=utf-8", f"{reason}\n".encode(errors="replace"), closes=True)


async def respond(
    send: Send,
    status: int,
    content_type: str,
    body: bytes,
    *,
    further: Iterable[tuple[bytes, bytes]] = (),
    closes: bool = False,
) -> None:
    """Send a response with a body of known length; `further` are headers."""
    headers = [(b"content-type", content_type.encode()), (b"content-length", b"%d" % len(body)), *further]
    if closes:
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
