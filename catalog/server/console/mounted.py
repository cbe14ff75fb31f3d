"""The console of a server, mounted on its HTTP port beside the other interfaces.

It is loaded by its first request, on a thread of its own: most servers serve no page for a long time, and loading the
templates takes a tenth of a second of the start.
"""

import asyncio
from collections.abc import Callable

from starlette.routing import Mount
from starlette.types import ASGIApp, Receive, Scope, Send

from interbed.catalog.server.auth.authentication import Authentication
from interbed.catalog.server.auth.console_sessions import ConsoleSessions
from interbed.catalog.server.console.cookies import ROOT
from interbed.catalog.server.http.application import HttpAnswers
from interbed.catalog.server.service.service import Metastore


class LazyConsole:
    """The ASGI application of a console that is loaded by the first request."""

    def __init__(self, load: Callable[[], ASGIApp]) -> None:
        self._load = load
        self._loaded: ASGIApp | None = None
        self._guard = asyncio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one HTTP request."""
        if self._loaded is None:
            async with self._guard:
                if self._loaded is None:
                    self._loaded = await asyncio.to_thread(self._load)
        await self._loaded(scope, receive, send)


def console_mount(
    metastore: Metastore,
    answers: HttpAnswers,
    *,
    is_secure: bool,
    authentication: Authentication | None,
    sessions: ConsoleSessions | None,
) -> Mount:
    """Return the console of a server as a route of its HTTP port.

    `is_secure` says that the port has TLS. `authentication` is None where the server serves every client, `sessions`
    are None where it accepts no tokens of its own.
    """

    def load() -> ASGIApp:
        from interbed.catalog.server.console.interface import console_gate

        return console_gate(metastore, answers, is_secure=is_secure, authentication=authentication, sessions=sessions)

    return Mount(ROOT, app=LazyConsole(load))
