"""The gate of the console: how a request becomes that of a session, and the headers of each response.

The console is beside the other interfaces of the port: these ask for the header Authorization, which a browser does not
send by itself. The gate verifies the secret of the cookie before the pages see a request. A client without a session
gets the login alone. Where the server serves every client, there is no login.

Each POST is a form with the token of its secret (forms.py), checked here for all pages.

A browser sends no cookie with SameSite=Strict to a page that it opens from another site. It is asked to open the page
again, from this one, so that addresses can be shared without another login.
"""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from http import HTTPStatus
from urllib.parse import parse_qsl

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from interbed.catalog.server.auth.attempts import TooManyAttemptsError
from interbed.catalog.server.auth.console_sessions import new_secret
from interbed.catalog.server.auth.principals import (
    AuthenticationError,
    AuthenticationUnavailableError,
    ClientCertificate,
    Principal,
)
from interbed.catalog.server.console.cookies import ROOT, SECRET_HEADER, CookieNames
from interbed.catalog.server.console.forms import RefusedFormError, checked_form, form_body, replayed
from interbed.catalog.server.console.login import ConsoleLogin
from interbed.catalog.server.console.rendering import (
    HTML,
    LOGIN,
    LOGOUT,
    PageTemplates,
    address,
    style_sheet,
)
from interbed.catalog.server.http.application import HttpError, client_of, respond
from interbed.catalog.server.http.connection import HttpClient
from interbed.catalog.server.thrift.edge.call import Call, CallOutcome, ClientSession
from interbed.catalog.server.thrift.edge.dispatch import Dispatcher

logger = logging.getLogger(__name__)

NEXT_CHARACTERS_MAX = 4000
"""The longest address that a login leads to."""

SECURITY_HEADERS: Sequence[tuple[bytes, bytes]] = (
    (
        b"content-security-policy",
        b"default-src 'none'; style-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    # With `no-referrer` browsers send a form with the Origin `null`.
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
"""Headers of each response."""

_NOT_KEPT = (b"cache-control", b"no-store")
_HANDED_ON = frozenset((b"cookie", b"authorization", SECRET_HEADER.encode()))
"""Headers that the pages do not get from a client."""


class ConsoleGate:
    """The ASGI application of the console, over that of its pages. `login` is None where every client is served;
    `check_certificate` raises AuthenticationError for the certificate of a connection that has ended.
    """

    def __init__(
        self,
        pages: ASGIApp,
        templates: PageTemplates,
        cookies: CookieNames,
        dispatcher: Dispatcher,
        login: ConsoleLogin | None,
        check_certificate: Callable[[ClientCertificate | None], None],
    ) -> None:
        self._pages = pages
        self._templates = templates
        self._cookies = cookies
        self._dispatcher = dispatcher
        self._login = login
        self._check_certificate = check_certificate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one HTTP request."""
        exchange = _ConsoleExchange(scope, send, self._templates)
        if (scope["method"], scope["path"]) == ("GET", f"{ROOT}/static/console.css"):
            await exchange.send_style()
            return
        client = client_of(scope)
        given = self._cookies.read(scope["headers"])
        principal: Principal | None = None
        try:
            self._check_certificate(client.session.certificate)
            if self._login is not None and given.session is not None:
                principal = await self._login.principal(given.session, client.session.peer)
            self._identify(client, given.session, principal)
            secret = given.session if principal is not None else given.form
            if secret is None:
                secret = new_secret()
                exchange.cookies.append(self._cookies.form(secret))
            form: Mapping[str, str] = {}
            if scope["method"] == "POST":
                body = await form_body(scope, receive)
                if body is None:
                    return
                form, receive = checked_form(body, scope["headers"], secret), replayed(body, receive)
            await self._answer(exchange, receive, client, form, secret)
        except (RefusedFormError, HttpError) as error:
            logger.info("a form from %s is refused: %s", client.session.peer, error)
            await exchange.refuse(error.status, str(error))
        except TooManyAttemptsError as error:
            await exchange.refuse(HTTPStatus.TOO_MANY_REQUESTS, str(error), error.retry_seconds)
        except AuthenticationUnavailableError as error:
            await exchange.refuse(HTTPStatus.SERVICE_UNAVAILABLE, str(error), 1)
        except AuthenticationError as error:
            logger.info("a request from %s is not authenticated: %s", client.session.peer, error)
            await exchange.refuse(HTTPStatus.FORBIDDEN, str(error))

    def _identify(self, client: HttpClient, secret: str | None, principal: Principal | None) -> None:
        """Make the session of the connection that of the present request."""
        previous = client.session
        if principal is not None:
            client.session = previous.of(principal)
            assert self._login is not None
            assert self._login.sessions is not None
            client.verify = partial(self._login.sessions.verify, secret or "")
        elif previous.principal is not None:
            # Another request of the connection, of a proxy perhaps, was authenticated.
            client.session = ClientSession(peer=previous.peer, certificate=previous.certificate, link=previous.link)
            client.verify = None

    async def _answer(
        self, exchange: "_ConsoleExchange", receive: Receive, client: HttpClient, form: Mapping[str, str], secret: str
    ) -> None:
        scope = exchange.scope
        place = (scope["method"], scope["path"])
        is_known = self._login is None or client.session.principal is not None
        if self._login is not None and place == ("GET", LOGIN):
            await self._send_login(exchange, self._login, secret, _query(scope).get("next", ROOT))
        elif self._login is not None and place == ("POST", LOGIN):
            await self._begin(exchange, self._login, client, form, secret)
        elif self._login is not None and place == ("POST", LOGOUT):
            await self._end(exchange, self._login, client, secret)
        elif is_known:
            headers = [each for each in scope["headers"] if each[0] not in _HANDED_ON]
            headers.append((SECRET_HEADER.encode(), secret.encode()))
            await self._pages({**scope, "headers": headers}, receive, exchange.send)
        elif scope["method"] not in ("GET", "HEAD"):
            await exchange.refuse(HTTPStatus.FORBIDDEN, "This needs a login: the session has ended, or there is none.")
        elif _comes_from_elsewhere(scope):
            # The browser may have cookies, which it has not sent: they stay.
            exchange.cookies = []
            body = self._templates.html("again.html", "Opening the page", target=_target(scope))
            await exchange.send_page(HTTPStatus.OK, body)
        else:
            await exchange.redirect(f"{address('login', next=_target(scope))}")

    async def _send_login(
        self,
        exchange: "_ConsoleExchange",
        login: ConsoleLogin,
        secret: str,
        following: str,
        problem: AuthenticationError | None = None,
    ) -> None:
        status, retry = HTTPStatus.OK, None
        if isinstance(problem, TooManyAttemptsError):
            status, retry = HTTPStatus.TOO_MANY_REQUESTS, problem.retry_seconds
        elif isinstance(problem, AuthenticationUnavailableError):
            status, retry = HTTPStatus.SERVICE_UNAVAILABLE, 1
        elif problem is not None:
            status = HTTPStatus.FORBIDDEN
        body = self._templates.html(
            "login.html",
            "Log in",
            secret=secret,
            takes_tokens=login.sessions is not None,
            accepted=login.accepted,
            problem=None if problem is None else str(problem),
            next=_safe_target(following),
        )
        await exchange.send_page(status, body, retry)

    async def _begin(
        self,
        exchange: "_ConsoleExchange",
        login: ConsoleLogin,
        client: HttpClient,
        form: Mapping[str, str],
        secret: str,
    ) -> None:
        following = _safe_target(form.get("next", ROOT))
        if login.sessions is None:
            await self._send_login(exchange, login, secret, following)
            return
        started = time.monotonic()
        token = form.get("token", "").strip()
        try:
            if not token:
                raise AuthenticationError("The form has no token")
            principal, begun = await login.begin(token, client.session)
        except AuthenticationError as error:
            logger.info("a login to the console from %s is refused: %s", client.session.peer, error)
            self._notify(exchange, client, "login", started, error)
            exchange.cookies = [self._cookies.form(secret)]
            await self._send_login(exchange, login, secret, following, error)
            return
        client.session = client.session.of(principal)
        self._notify(exchange, client, "login", started, None)
        exchange.cookies = [self._cookies.session(begun)]
        await exchange.redirect(following)

    async def _end(self, exchange: "_ConsoleExchange", login: ConsoleLogin, client: HttpClient, secret: str) -> None:
        started = time.monotonic()
        if client.session.principal is not None:
            await login.end(secret)
            self._notify(exchange, client, "logout", started, None)
        exchange.cookies = [self._cookies.ended()]
        await exchange.redirect(LOGIN)

    def _notify(
        self, exchange: "_ConsoleExchange", client: HttpClient, operation: str, started: float, error: Exception | None
    ) -> None:
        """Report a login or a logout to the observers of calls; a refused login is no line of the audit log."""
        exchange.request_id = self._dispatcher.next_request_id()
        self._dispatcher.notify(
            Call(
                request_id=exchange.request_id,
                method=f"console.{operation}",
                session=client.session,
                seconds=time.monotonic() - started,
                outcome=CallOutcome.OK if error is None else CallOutcome.REFUSED,
                error=None if error is None else str(error),
                arguments={},
                is_change=error is None,
            )
        )


class _ConsoleExchange:
    """One request and its response, with the headers that each response has."""

    def __init__(self, scope: Scope, send: Send, templates: PageTemplates) -> None:
        self.scope = scope
        self.cookies: list[tuple[bytes, bytes]] = []
        self.request_id: str | None = None
        self._send = send
        self._templates = templates

    async def send(self, message: Message) -> None:
        """Send a part of the response."""
        if message["type"] == "http.response.start":
            given = list(message.get("headers", ()))
            names = {name for name, _ in given}
            further = [each for each in (*SECURITY_HEADERS, _NOT_KEPT) if each[0] not in names]
            message = {**message, "headers": [*given, *further, *self.cookies]}
        await self._send(message)

    async def send_page(self, status: HTTPStatus, body: bytes, retry_seconds: float | None = None) -> None:
        """Send a page with its status."""
        further = [] if retry_seconds is None else [(b"retry-after", b"%d" % max(1, round(retry_seconds)))]
        await respond(self.send, status, HTML, body, further=[*further, *self._id()])

    async def send_style(self) -> None:
        """Send the style sheet: its address changes with its content."""
        kept = (b"cache-control", b"public, max-age=31536000, immutable")
        await respond(self.send, HTTPStatus.OK, "text/css; charset=utf-8", style_sheet(), further=[kept])

    async def redirect(self, target: str) -> None:
        """Send the browser to another page of the console."""
        further = [(b"location", target.encode("ascii")), *self._id()]
        await respond(self.send, HTTPStatus.SEE_OTHER, HTML, b"", further=further)

    async def refuse(self, status: HTTPStatus, message: str, retry_seconds: float | None = None) -> None:
        """Send the page of an error."""
        await self.send_page(status, self._templates.error(status, message), retry_seconds)

    def _id(self) -> list[tuple[bytes, bytes]]:
        return [] if self.request_id is None else [(b"x-request-id", self.request_id.encode())]


def _query(scope: Scope) -> Mapping[str, str]:
    return dict(parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True))


def _target(scope: Scope) -> str:
    """Return the address of a request within the host, as the browser sent it."""
    path: str = scope["raw_path"].decode("latin-1")
    query: str = scope["query_string"].decode("latin-1")
    return _safe_target(f"{path}?{query}" if query else path)


def _safe_target(target: str) -> str:
    """Return an address below the console; the console itself for any other, such as one of another host."""
    path = target.partition("?")[0]
    is_own = path == ROOT or path.startswith(f"{ROOT}/")
    is_plain = target.isascii() and target.isprintable() and not set(target) & set(' \\"<>')
    if not is_own or not is_plain or ".." in path or len(target) > NEXT_CHARACTERS_MAX or path in (LOGIN, LOGOUT):
        return ROOT
    return target


def _comes_from_elsewhere(scope: Scope) -> bool:
    """Return whether a browser opens a page from another site, and so has sent no cookie of a session."""
    sites = [value for name, value in scope["headers"] if name == b"sec-fetch-site"]
    return sites in ([b"cross-site"], [b"same-site"])
