"""Applications: the interfaces of a port, and what they have in common.

`application` makes one application of a port's interfaces: a route for each (Thrift over HTTP), or a mounted Starlette
application with routes of its own (`pages`). An endpoint finds its client, with the session and the share of the thread
pool, by `client_of`.
"""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from starlette.applications import Starlette
from starlette.routing import BaseRoute, Router
from starlette.types import ExceptionHandler, Receive, Scope, Send

from interbed.catalog.server.http.connection import CLIENT_EXTENSION, HttpClient


def application(interfaces: Sequence[BaseRoute], *, missing: str) -> Router:
    """Return the application of a port; `missing` is the text for a path that no interface has.

    A router alone, because Starlette's handlers of errors cost each call of Thrift a tenth of its time.
    """

    async def no_interface(scope: Scope, receive: Receive, send: Send) -> None:
        await refuse(send, HTTPStatus.NOT_FOUND, missing)

    return Router(interfaces, redirect_slashes=False, default=no_interface)


def pages(routes: Sequence[BaseRoute], errors: Mapping[Any, ExceptionHandler]) -> Starlette:
    """Return an application with routes of its own; `errors` are handlers by status or by exception."""
    made = Starlette(routes=routes, exception_handlers=errors)
    made.router.redirect_slashes = False
    return made


def client_of(scope: Scope) -> HttpClient:
    """Return the client of a request."""
    client: HttpClient = scope["extensions"][CLIENT_EXTENSION]
    return client


async def refuse(send: Send, status: HTTPStatus, reason: str) -> None:
    """Send a response that describes an error, after which the connection closes."""
    await respond(send, status, "text/plain; charset=utf-8", f"{reason}\n".encode(errors="replace"), closes=True)


async def respond(send: Send, status: int, content_type: str, body: bytes, *, closes: bool = False) -> None:
    """Send a response with a body of known length."""
    headers = [(b"content-type", content_type.encode()), (b"content-length", b"%d" % len(body))]
    if closes:
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
