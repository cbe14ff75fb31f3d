"""Thrift over HTTP, as Hive 4's clients speak it: one message in the body of a POST, the reply in that of the response.

The header `x-actor-username` names the user, as set_ugi does. Answers come from the cache, after one query of the
metadata's generation for all requests of a turn of the loop; all other calls are served by the threads of the pool.
"""

import asyncio
import logging
import ssl
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from http import HTTPStatus

from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from interbed.catalog.server.auth.authentication import Authentication, CertificateEnds
from interbed.catalog.server.auth.impersonation import Impersonation
from interbed.catalog.server.http.application import (
    AuthenticatedApplication,
    CertifiedApplication,
    HttpAnswers,
    HttpError,
    application,
    beside,
    check_coding,
    client_of,
    read_body,
    refuse,
    respond,
)
from interbed.catalog.server.http.connection import HttpClient
from interbed.catalog.server.http.server import HttpServer
from interbed.catalog.server.threads import AnswerLaterError, ClientLink, ThreadDeaths
from interbed.catalog.server.thrift.edge.codec import MemorySource, codec_named, too_long
from interbed.catalog.server.thrift.edge.pool import HEAVY_BYTES_MIN, LIGHT_BYTES_MAX
from interbed.catalog.server.thrift.edge.serving import too_heavy
from interbed.catalog.server.thrift.edge.transport import BAD_INPUT

logger = logging.getLogger(__name__)

_CONTENT_TYPE = "application/x-thrift"
_ALLOWED_TYPES = ("", _CONTENT_TYPE, "application/octet-stream", "application/vnd.apache.thrift.binary")


class ThriftEndpoint:
    """The ASGI application of one path, with the cached answers of its server."""

    def __init__(self, answers: HttpAnswers) -> None:
        self.codec = codec_named("binary")
        self.answers = answers
        self._edge = answers.edge

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one HTTP request."""
        client = client_of(scope)
        try:
            length = self._begin(scope, client)
            message = await read_body(receive, length, self._edge.limits.message_bytes_max, self._too_large)
            if message is None:
                return
            reply = await self._reply(client, message)
        except BAD_INPUT as error:
            reason = str(error) or type(error).__name__
            logger.info("connection from %s ended: %s", client.session.peer, reason)
            await refuse(send, error.status if isinstance(error, HttpError) else HTTPStatus.BAD_REQUEST, reason)
            return
        if reply is None:
            client.drop()
            return
        client.reply_bytes = len(reply)
        await respond(send, HTTPStatus.OK, _CONTENT_TYPE, reply)

    def _begin(self, scope: Scope, client: HttpClient) -> int | None:
        """Check the head of a request and record the user; return the length of its body, None if it is chunked."""
        method, kind, length, is_chunked, user = scope["method"], b"", None, False, None
        for name, value in scope["headers"]:
            if name == b"content-length":
                length = value
            elif name == b"content-type":
                kind = value
            elif name == b"transfer-encoding":
                is_chunked = True
            elif name == b"content-encoding":
                check_coding(value.decode("latin-1"))
            elif name == b"x-actor-username":
                user = value.decode("latin-1").strip()
        if user and client.session.principal is None and user != client.session.user:
            client.session = replace(client.session, user=user)
        if method != "POST":
            raise HttpError(HTTPStatus.METHOD_NOT_ALLOWED, "a Thrift call is a POST")
        if kind and kind.decode("latin-1").partition(";")[0].strip().lower() not in _ALLOWED_TYPES:
            raise HttpError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"the content type has to be {_CONTENT_TYPE}")
        if is_chunked:
            return None
        if length is None:
            raise HttpError(HTTPStatus.LENGTH_REQUIRED, "a body needs a length, or to come in chunks")
        if int(length) > self._edge.limits.message_bytes_max:
            raise self._too_large()
        return int(length)

    def _too_large(self) -> HttpError:
        return HttpError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, str(too_long(self._edge.limits.message_bytes_max)))

    async def _reply(self, client: HttpClient, message: bytes) -> bytes | None:
        """Return the reply to a message; None if the request was not begun because the server stops."""
        split = self.codec.split(message) if self.answers.is_on else None
        key = None
        if split is not None:
            call_key, sequence = split
            key = self.answers.key_of(call_key, client.session)
            started = time.monotonic()
            entry = None if key is None else await self.answers.find(key)
            if entry is not None:
                self._edge.dispatcher.notify_ended(entry.method, client.session, started, entry.outcome)
                return entry.before + sequence + entry.after
        call = _PooledCall(self, client, message, key)
        call.submit()
        return await call.reply


def thrift_server(
    path: str,
    tls: ssl.SSLContext | None,
    answers: HttpAnswers,
    on_ended: Callable[[ClientLink | None], None],
    deaths: ThreadDeaths,
    further: Sequence[Mount] = (),
    authentication: Authentication | None = None,
    impersonation: Impersonation | None = None,
    certificates: CertificateEnds | None = None,
    console: Mount | None = None,
) -> HttpServer:
    """Return the HTTP server beside a process's loop, with Thrift at a path and further interfaces. It gets its
    connections from the loop. Without `authentication` it serves every client, with `certificates` until that of its
    connection ends. `console` authenticates its requests itself.
    """
    endpoint, edge = ThriftEndpoint(answers), answers.edge
    paths = [path, *(each.path for each in further), *([] if console is None else [console.path])]
    # Hive's client asks for its path followed by `/*`, the pattern of a servlet.
    own = [Route(each, endpoint) for each in (path, f"{path.rstrip('/')}/*")]
    served: ASGIApp = application([*own, *further], missing=f"there is only {', '.join(paths)} here")
    if authentication is not None:
        served = AuthenticatedApplication(served, authentication, impersonation)
    elif certificates is not None:
        served = CertifiedApplication(served, certificates)
    if console is not None:
        served = beside(console, served)
    return HttpServer(
        served,
        name="http",
        limits=edge.limits,
        lifespan=answers.lifespan,
        tls=tls,
        pool=edge.pool,
        partials=edge.partials,
        other_reply_bytes=edge.reply_bytes,
        on_ended=on_ended,
        deaths=deaths,
    )


class _PooledCall:
    """A request that a thread of the pool serves. `reply` is set on the loop's thread."""

    def __init__(self, endpoint: ThriftEndpoint, client: HttpClient, message: bytes, key: bytes | None) -> None:
        self._edge = endpoint.answers.edge
        self._call_soon = endpoint.answers.call_soon
        self._codec = endpoint.codec
        self._client = client
        self._message = message
        self._key = key
        self.reply: asyncio.Future[bytes | None] = asyncio.get_running_loop().create_future()
        self._queued_at = 0.0
        self._weight = 0
        self._has_waited = False

    def submit(self) -> None:
        """Queue the request; from any thread."""
        self._queued_at = time.monotonic()
        is_heavy = max(len(self._message), self._client.reply_bytes) >= HEAVY_BYTES_MIN
        self._edge.pool.submit(self._run, self._client.share, is_heavy=is_heavy)

    def _run(self) -> None:
        """Serve the request, if its client has waited for it; a job of the pool."""
        if self._edge.is_abandoned(has_gone=self._client.has_gone, queued_at=self._queued_at):
            logger.info("connection from %s ended before its request was begun", self._client.session.peer)
            self._finish(None)
        elif len(self._message) < LIGHT_BYTES_MAX:
            self._serve()
        else:
            self._weigh()

    def _weigh(self) -> None:
        """Serve the request if its memory is available, or later."""
        limits = self._edge.limits
        scanner = self._codec.scanner(limits.message_bytes_max)
        try:
            if scanner.scan(self._message) is None:
                raise EOFError("a message is longer than the body that it is in")
            if scanner.weight > limits.request_weight_max:
                reason = too_heavy(scanner.weight, limits)
                self._edge.count_refused()
                logger.info("a request from %s was refused: %s", self._client.session.peer, reason)
                self._finish(self._edge.dispatcher.refusal(self._codec, self._message, reason))
                return
        except BAD_INPUT as error:
            self._fail(error)
            return
        self._weight = scanner.weight
        serve = partial(self._edge.pool.submit, self._serve_weighed, self._client.share, is_heavy=True)
        if self._edge.decoded.take(self._weight, serve):
            self._serve_weighed()

    def _serve_weighed(self) -> None:
        try:
            self._serve()
        finally:
            self._edge.decoded.release(self._weight)

    def _serve(self) -> None:
        edge, client = self._edge, self._client
        cache = edge.cache if self._key is not None else None
        generation = -1 if cache is None else cache.generation
        try:
            if self._has_waited and client.verify is not None:
                # The token may have been revoked meanwhile, or the user have left a group.
                principal = client.verify()
                if principal is not None:
                    client.session = client.session.of(principal)
            request = edge.dispatcher.read(self._codec, MemorySource(self._message))
            answer = edge.dispatcher.call(request, client.session, may_wait=True)
            client.session = answer.session
            if cache is not None and self._key is not None:
                cache.keep(self._key, answer, generation)
            self._finish(answer.reply)
        except AnswerLaterError as later:
            client.is_served = False
            later.start(self._resume)
        except Exception as error:  # noqa: BLE001 - the application gets it.
            self._fail(error)

    def _resume(self) -> None:
        if self._client.has_gone:
            self._finish(None)
        else:
            self._client.is_served = self._has_waited = True
            self.submit()

    def _finish(self, reply: bytes | None) -> None:
        self._call_soon(partial(_resolve, self.reply, reply))

    def _fail(self, error: Exception) -> None:
        self._call_soon(partial(_reject, self.reply, error))


def _resolve(future: "asyncio.Future[bytes | None]", reply: bytes | None) -> None:
    if not future.done():
        future.set_result(reply)


def _reject(future: "asyncio.Future[bytes | None]", error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
