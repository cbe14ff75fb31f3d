"""How a REST request is served: from the cache of answers, or by a thread of the server's pool.

It is routed on the loop's thread. The answer to a read is kept if its route has a scope and its handler calls the
response lasting; the address and the header If-None-Match determine it. A request has the limits of Thrift's messages:
its length, the memory for what is decoded at once, its client's share of the pool. Observers are notified of it as of a
call, with the method `iceberg.loadTable`.

A request that another client is in the way of is retried; between two attempts it holds no thread. The handler calls
`retries_of` and `pause` as for any retry. On a thread of the server's pool the pause ends the attempt by
RetryLaterError, and the endpoint serves the request again after that time, with the same count of retries. An attempt
has to leave nothing behind.

A response with a stream is sent part by part. The next part is made when the client has taken the one before. An error
before the first part is a response of its own. A later one ends the connection, without the end of the body.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from copy import copy
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl

import msgspec
from starlette.types import Receive, Scope, Send

from interbed.catalog.server.http.application import HttpAnswers, HttpError, check_coding, client_of, read_body
from interbed.catalog.server.http.connection import HttpClient
from interbed.catalog.server.rest.interface import (
    JSON,
    BodyStream,
    RestError,
    RestInterface,
    RestRequest,
    RestRoute,
    RouteTable,
)
from interbed.catalog.server.service.directories.remote_files import MissedDeadlines, missed_deadlines
from interbed.catalog.server.threads import current_link, session_settings
from interbed.catalog.server.thrift.edge.cache import CacheEntry
from interbed.catalog.server.thrift.edge.call import (
    Call,
    CallOutcome,
    current_method,
    current_operation,
    current_request,
    current_session,
)
from interbed.catalog.server.thrift.edge.call import Scope as AnswerScope
from interbed.catalog.server.thrift.edge.dispatch import set_variables
from interbed.catalog.server.thrift.edge.pool import HEAVY_BYTES_MIN, LIGHT_BYTES_MAX
from interbed.storage.base.backoff import ExponentialBackoff, RetryLoop
from interbed.storage.base.shown_text import without_credentials


class RetryLaterError(Exception):
    """The request is to be served again after this number of seconds."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"the request is served again in {seconds:.2f} s")
        self.seconds = seconds


class RequestRetries:
    """The retries of one request over all of its attempts."""

    __slots__ = ("loop",)

    def __init__(self) -> None:
        self.loop: RetryLoop | None = None


request_retries: ContextVar[RequestRetries | None] = ContextVar("request_retries", default=None)
"""The retries of the request that this thread serves; None where a pause has to be slept through."""


def retries_of(backoff: ExponentialBackoff, what: str, log: logging.Logger) -> RetryLoop:
    """Return the retries of some work; within a request, those that its earlier attempts have counted."""
    request = request_retries.get()
    if request is None:
        return backoff.start(what, log)
    if request.loop is None:
        request.loop = replace(backoff, sleep=_end_attempt).start(what, log)
    return request.loop


def _end_attempt(seconds: float) -> None:
    raise RetryLaterError(seconds)


logger = logging.getLogger(__name__)

JSON_WEIGHT = 20
"""Bytes of memory for each byte of JSON, as decoded to small values."""

REQUEST_ID = b"x-request-id"
"""Header of a response with the id of the request, as in the logs."""

_READS = frozenset(("GET", "HEAD"))


class RestEndpoint:
    """The ASGI application of an interface."""

    def __init__(self, interface: RestInterface, answers: HttpAnswers) -> None:
        self.interface = interface
        self.table = RouteTable(interface.routes)
        self.answers = answers
        self.edge = answers.edge
        self._uncached_with = None if interface.uncached_with is None else interface.uncached_with.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one HTTP request."""
        client = client_of(scope)
        if client.session.principal is None:
            _name_user(scope, client)
        call = answer_key(scope, self._uncached_with) if self.answers.is_on and scope["method"] in _READS else None
        key = None if call is None else self.answers.key_of(call, client.session)
        if key is not None:
            started = time.monotonic()
            entry = await self.answers.find(key)
            if entry is not None:
                await self._send_cached(send, client, entry, started)
                return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        served = ServedRequest(self, client, key)
        try:
            check_coding(headers.get("content-encoding", ""))
            length = headers.get("content-length")
            size = None if length is None else int(length)
            if size is not None and size > self.edge.limits.message_bytes_max:
                raise self._too_large()
            body = await read_body(receive, size, self.edge.limits.message_bytes_max, self._too_large)
        except HttpError as error:
            await served.refuse(send, RestError(error.status, "BadRequestException", str(error)), closes=True)
            return
        if body is None:
            return
        try:
            route, request = self._routed(scope, headers, body, client)
        except RestError as error:
            await served.refuse(send, error)
            return
        await served.answer(receive, send, route, request)

    async def _send_cached(self, send: Send, client: HttpClient, entry: CacheEntry, started: float) -> None:
        request_id = self.edge.dispatcher.next_request_id()
        self.edge.dispatcher.notify(
            Call(
                request_id=request_id,
                method=entry.method,
                session=client.session,
                seconds=time.monotonic() - started,
                outcome=entry.outcome,
                is_change=False,
            )
        )
        client.reply_bytes = len(entry.before)
        reply: _EncodedReply = entry.head
        await reply.send(send, entry.before, request_id)

    def _routed(
        self, scope: Scope, headers: dict[str, str], body: bytes, client: HttpClient
    ) -> tuple[RestRoute, RestRequest]:
        encoded = scope["raw_path"].decode("latin-1").removeprefix(self.interface.path).removeprefix("/")
        try:
            found = self.table.find(scope["method"], encoded)
            query = parse_qsl(
                scope["query_string"].decode("latin-1"), keep_blank_values=True, errors="strict", max_num_fields=100
            )
        except ValueError as error:
            raise RestError(
                HTTPStatus.BAD_REQUEST, "BadRequestException", f"The address cannot be decoded: {error}"
            ) from error
        if found is None:
            raise self.interface.missing(scope["method"], encoded)
        route, parts = found
        return route, RestRequest(
            parts=parts, query=dict(query), headers=headers, body=body, session=client.session, verify=client.verify
        )

    def _too_large(self) -> HttpError:
        return HttpError(
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
            f"a request may have {self.edge.limits.message_bytes_max} bytes (message_bytes_max)",
        )


class ServedRequest:
    """One request, from its arrival to the observers' notification."""

    def __init__(self, endpoint: RestEndpoint, client: HttpClient, key: bytes | None) -> None:
        self._interface = endpoint.interface
        self._edge = endpoint.edge
        self._key = key
        self._client = client
        self._started = time.monotonic()
        self._loop = asyncio.get_running_loop()
        self._reply: asyncio.Future[_EncodedReply | None] = self._loop.create_future()
        self._retries = RequestRetries()
        self.request_id = self._edge.dispatcher.next_request_id()

    async def refuse(self, send: Send, error: RestError, *, closes: bool = False) -> None:
        """Answer a request that no handler gets."""
        self._notify("unknown", CallOutcome.UNKNOWN, str(error), None, is_change=False)
        await self._send(send, self._error(error), closes=closes)

    async def answer(self, receive: Receive, send: Send, route: RestRoute, request: RestRequest) -> None:
        """Have the pool carry out a request, and answer it."""
        self._submit(route, request)
        reply = await self._reply
        if reply is None:
            self._client.drop()
            return
        if reply.stream is not None:
            await self._send_stream(receive, send, route, request, reply, reply.stream)
            return
        self._client.reply_bytes = len(reply.body)
        await self._send(send, reply)

    def _submit(self, route: RestRoute, request: RestRequest) -> None:
        is_heavy = max(len(request.body), self._client.reply_bytes) >= HEAVY_BYTES_MIN
        run = partial(self._begin, route, request, time.monotonic())
        self._edge.pool.submit(run, self._client.share, is_heavy=is_heavy)

    async def _send(self, send: Send, reply: "_EncodedReply", *, closes: bool = False) -> None:
        await reply.send(send, reply.body, self.request_id, closes=closes)

    async def _send_stream(
        self,
        receive: Receive,
        send: Send,
        route: RestRoute,
        request: RestRequest,
        reply: "_EncodedReply",
        stream: BodyStream,
    ) -> None:
        outcome = CallOutcome.FAILED
        error: str | None = "the server has stopped"
        is_begun = False
        try:
            while (part := await stream.next_part()) is not None:
                if self._client.has_gone:
                    outcome, error = CallOutcome.REFUSED, "the client has gone before the end"
                    return
                if self._edge.abandons_waiting:
                    raise RestError(HTTPStatus.SERVICE_UNAVAILABLE, "ServiceUnavailable", "the server stops")
                if not is_begun:
                    await reply.begin(send, self.request_id)
                    is_begun = True
                await send({"type": "http.response.body", "body": part, "more_body": True})
                self._client.took_part()
            await send({"type": "http.response.body", "body": b""})
            outcome, error = CallOutcome.OK, None
        except RestError as refusal:
            outcome = CallOutcome.FAILED if refusal.status >= HTTPStatus.INTERNAL_SERVER_ERROR else CallOutcome.REFUSED
            error = without_credentials(str(refusal))
            if not is_begun:
                await self._send(send, self._error(refusal))
                return
            logger.info("connection from %s ended within a response: %s", self._client.session.peer, error)
            await send({"type": "http.response.body", "body": stream.last_part(refusal), "more_body": True})
            self._client.cut()
            # The application has to stay until the connection has ended.
            await receive()
        finally:
            stream.close()
            subject = {**request_subject(route, request), **stream.subject}
            self._notify(route.operation, outcome, error, subject, is_change=route.is_audited)

    # On a thread of the pool

    def _begin(self, route: RestRoute, request: RestRequest, queued_at: float) -> None:
        if self._edge.is_abandoned(has_gone=self._client.has_gone, queued_at=queued_at):
            logger.info("connection from %s ended before its request was begun", self._client.session.peer)
            self._finish(None)
            return
        if len(request.body) < LIGHT_BYTES_MAX:
            self._run(route, request)
            return
        weight = len(request.body) * JSON_WEIGHT
        run = partial(self._run_weighed, route, request, weight)
        if self._edge.decoded.take(weight, partial(self._edge.pool.submit, run, self._client.share, is_heavy=True)):
            run()

    def _run_weighed(self, route: RestRoute, request: RestRequest, weight: int) -> None:
        try:
            self._run(route, request)
        finally:
            self._edge.decoded.release(weight)

    def _run(self, route: RestRoute, request: RestRequest) -> None:
        """Call the handler; finish with its response or with an error's."""
        method = f"{self._interface.name}.{route.operation}"
        tokens = set_variables(
            (current_request, self.request_id),
            (current_method, method),
            (current_operation, (method, self.request_id)),
            (current_session, request.session),
            (session_settings, request.session.settings),
            (missed_deadlines, MissedDeadlines()),
            (current_link, request.session.link),
            (request_retries, self._retries),
        )
        outcome, error = CallOutcome.OK, None
        cache = self._edge.cache
        generation = -1 if cache is None else cache.generation
        try:
            try:
                answered = route.handler(request)
                reply = _EncodedReply(int(answered.status), answered.body, answered.headers, answered.stream)
                if cache is not None and self._key is not None and route.scope is not None:
                    entry = _cached(self._key, method, route.scope(request), reply) if answered.lasting else None
                    cache.keep_entry(entry, generation)
            except RetryLaterError as later:
                self._call_soon(self._loop.call_later, later.seconds, self._submit, route, request)
                return
            except Exception as failure:
                # A request gets an answer, and the server goes on.
                refusal = failure if isinstance(failure, RestError) else self._interface.translated(failure)
                outcome = CallOutcome.REFUSED
                if refusal is None or refusal.status == HTTPStatus.INTERNAL_SERVER_ERROR:
                    logger.exception("%s failed", method)
                    outcome = CallOutcome.FAILED
                if refusal is None:
                    shown = f"Internal error processing {method}: {type(failure).__name__}: {failure}"
                    refusal = RestError(HTTPStatus.INTERNAL_SERVER_ERROR, "InternalServerError", shown)
                error = without_credentials(str(refusal))
                reply = self._error(refusal)
            if reply.stream is None:
                subject = request_subject(route, request)
                self._notify(route.operation, outcome, error, subject, is_change=route.is_audited)
        finally:
            for variable, token in tokens:
                variable.reset(token)
        self._finish(reply)

    def _error(self, error: RestError) -> "_EncodedReply":
        shown = RestError(error.status, error.kind, without_credentials(str(error)), **error.fields)
        if self._interface.error_page is not None:
            kind, body = self._interface.error_page(shown)
            return _EncodedReply(int(error.status), body, {"content-type": kind})
        return _EncodedReply(int(error.status), msgspec.json.encode(self._interface.error_body(shown)), {})

    def _notify(
        self, operation: str, outcome: CallOutcome, error: str | None, arguments: Any, *, is_change: bool
    ) -> None:
        self._edge.dispatcher.notify(
            Call(
                request_id=self.request_id,
                method=f"{self._interface.name}.{operation}",
                session=self._client.session,
                seconds=time.monotonic() - self._started,
                outcome=outcome,
                error=error,
                arguments=arguments,
                is_change=is_change,
            )
        )

    def _finish(self, reply: "_EncodedReply | None") -> None:
        self._call_soon(_resolve, self._reply, reply)

    def _call_soon(self, call: Callable[..., object], *arguments: object) -> None:
        """Have the loop's thread call a function."""
        # The loop is closed when a server that stops has waited long enough.
        try:
            self._loop.call_soon_threadsafe(call, *arguments)
        except RuntimeError:
            logger.info("connection from %s ended before its response", self._client.session.peer)


class _EncodedReply:
    """Status, body and headers of a response."""

    __slots__ = ("_headers", "body", "status", "stream")

    def __init__(self, status: int, body: bytes, headers: Mapping[str, str], stream: BodyStream | None = None) -> None:
        self.status = status
        self.body = body
        self.stream = stream
        self._headers = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
        if not any(name == b"content-type" for name, _ in self._headers):
            self._headers.append((b"content-type", JSON.encode()))
        if stream is None:
            self._headers.append((b"content-length", b"%d" % len(body)))

    @property
    def without_body(self) -> "_EncodedReply":
        """Status and headers, for the cache, which has the body."""
        found = copy(self)
        found.body = b""
        return found

    async def begin(self, send: Send, request_id: str) -> None:
        """Send the status and the headers of a stream."""
        headers = [*self._headers, (REQUEST_ID, request_id.encode())]
        await send({"type": "http.response.start", "status": self.status, "headers": headers})

    async def send(self, send: Send, body: bytes, request_id: str, *, closes: bool = False) -> None:
        """Send the response with a body."""
        headers = [*self._headers, (REQUEST_ID, request_id.encode())]
        if closes:
            headers.append((b"connection", b"close"))
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        await send({"type": "http.response.body", "body": body})


def answer_key(scope: Scope, uncached_with: bytes | None = None) -> bytes | None:
    """Return the bytes that determine the answer to a read; None if it has a body, or the header `uncached_with`.

    The address begins with a slash, by which the key differs from those of Thrift's messages. No part contains a NUL.
    """
    matched = b""
    for name, value in scope["headers"]:
        if name == b"if-none-match":
            matched = value
        elif name in (b"transfer-encoding", uncached_with) or (name == b"content-length" and value != b"0"):
            return None
    method: str = scope["method"]
    return b"\0".join((scope["raw_path"], method.encode(), scope["query_string"], matched))


def _name_user(scope: Scope, client: HttpClient) -> None:
    for name, value in scope["headers"]:
        if name == b"x-actor-username":
            user = value.decode("latin-1").strip()
            if user and user != client.session.user:
                client.session = replace(client.session, user=user)


def _cached(key: bytes, method: str, scope: AnswerScope, reply: _EncodedReply) -> CacheEntry:
    entry = CacheEntry(key, method, CallOutcome.OK, scope, reply.body)
    entry.head = reply.without_body
    return entry


def request_subject(route: RestRoute, request: RestRequest) -> dict[str, object]:
    """Return what the logs have of a request."""
    found: dict[str, object] = dict(request.parts)
    if route.subject is not None:
        try:
            found.update(route.subject(request))
        except RestError:
            logger.debug("%s: the body of a request cannot be read", route.operation)
    return found


def _resolve(future: "asyncio.Future[_EncodedReply | None]", reply: "_EncodedReply | None") -> None:
    if not future.done():
        future.set_result(reply)
