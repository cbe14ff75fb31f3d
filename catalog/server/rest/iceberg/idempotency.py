"""The header `Idempotency-Key`: a change that a client repeats under one key is carried out once.

A repeated request gets the stored answer: success, or a refusal with a status of 4xx that another try would get as
well. Answers of 5xx, and refusals because of other clients at work, are not stored. After a kill between a change and
its answer, the answer is made again from the present state, as the specification allows. Source: Iceberg's REST
specification, parameter `idempotency-key`; draft-ietf-httpapi-idempotency-key-header for a key that is used again.
"""

import dataclasses
import hashlib
import uuid
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any

import msgspec

from interbed.catalog.server.rest.iceberg.errors import REFUSALS, bad_request, translated
from interbed.catalog.server.rest.iceberg.names import SEPARATOR
from interbed.catalog.server.rest.interface import (
    NO_CONTENT,
    Handler,
    RestError,
    RestRequest,
    RestResponse,
    RestRoute,
    json_response,
)
from interbed.catalog.server.service.errors import AccessDeniedError, AccessUnavailableError
from interbed.catalog.server.service.idempotency import (
    LIFETIME_SECONDS,
    IdempotencyService,
    KeyRecord,
    KeyTakenError,
)
from interbed.catalog.server.service.names import shortened
from interbed.catalog.server.service.tables.pointers import PointerMovedError, TableLockedError

HEADER = "idempotency-key"

LIFETIME = f"PT{LIFETIME_SECONDS // 60}M"
"""The time for which a key may be used, for the configuration of clients."""

ANSWER_BYTES_MAX = 256 << 10
"""Bytes of a stored answer; a longer one is made again from the present state."""

_UUID_VERSION = 7
_UUID_CHARACTERS = 36
_TRANSIENT = (PointerMovedError, TableLockedError)
"""Refusals with 409 because of other clients: another try may succeed."""

_NOT_FINAL = frozenset(
    {HTTPStatus.UNAUTHORIZED, HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS}
)


class _StoredAnswer(msgspec.Struct, frozen=True, omit_defaults=True):
    """An answer as it is stored: `kind`, `message` and `fields` are those of a refusal."""

    status: int
    body: str = ""
    headers: dict[str, str] = {}
    kind: str | None = None
    message: str = ""
    fields: dict[str, Any] = {}


class RepeatableRoutes:
    """The routes of an interface, whose changes take keys. `loads` are the handlers that answer a change again, by its
    operation; the answer to any other change has no content.
    """

    def __init__(self, keys: IdempotencyService, loads: Mapping[str, Handler]) -> None:
        self._keys = keys
        self._loads = loads

    def repeatable(self, route: RestRoute) -> RestRoute:
        """Return a route with keys if it may change metadata."""
        if not route.is_change:
            return route

        def answer(request: RestRequest) -> RestResponse:
            given = request.headers.get(HEADER)
            if given is None:
                return route.handler(request)
            return self._answer(route, request, _of_caller(checked_key(given), request))

        return dataclasses.replace(route, handler=answer)

    def _answer(self, route: RestRoute, request: RestRequest, key: str) -> RestResponse:
        digest = _digest(route.operation, request)
        known = self._keys.find(key)
        if known is None:
            try:
                return self._carried_out(route, request, key, digest)
            except KeyTakenError as error:
                known = self._keys.find(key)
                if known is None:
                    # The reaper has removed it since.
                    raise _key_error(key, "has just expired: use a new one") from error
        return self._again(route.operation, request, known, digest)

    def _carried_out(self, route: RestRoute, request: RestRequest, key: str, digest: str) -> RestResponse:
        refusal: RestError | None = None
        answered = NO_CONTENT
        with self._keys.claiming(key, digest) as claim:
            try:
                answered = route.handler(request)
            except REFUSALS as error:
                refusal = _final(error)
                if refusal is None:
                    raise
        stored = _answer_of(answered) if refusal is None else _refusal_of(refusal)
        content = msgspec.json.encode(stored)
        if len(content) <= ANSWER_BYTES_MAX:
            self._keys.finish(claim, content)
        if refusal is not None:
            raise refusal
        return answered

    def _again(self, operation: str, request: RestRequest, known: KeyRecord, digest: str) -> RestResponse:
        if known.digest != digest:
            raise _key_error(known.key, "was used for another request: use a new one for each change")
        if known.answer is None:
            load = self._loads.get(operation)
            return NO_CONTENT if load is None else load(request)
        stored = msgspec.json.decode(known.answer, type=_StoredAnswer)
        status = HTTPStatus(stored.status)
        if stored.kind is not None:
            raise RestError(status, stored.kind, stored.message, **stored.fields)
        return RestResponse(status=status, body=stored.body.encode(), headers=dict(stored.headers))


def checked_key(given: str) -> str:
    """Return a key as it is stored. RestError with status 400 if it is no UUID of version 7."""
    try:
        found = uuid.UUID(given)
    except ValueError:
        found = None
    if found is None or len(given) != _UUID_CHARACTERS or found.version != _UUID_VERSION:
        raise bad_request(f"The Idempotency-Key {shortened(given)!r} is no UUID of version 7")
    return str(found)


def _of_caller(key: str, request: RestRequest) -> str:
    """Return a key as it is stored: two principals may use one key for their own requests."""
    principal = request.session.principal
    return key if principal is None else str(uuid.uuid5(uuid.UUID(key), principal.name))


def _digest(operation: str, request: RestRequest) -> str:
    content = hashlib.sha256(
        msgspec.json.encode([operation, sorted(request.parts.items()), sorted(request.query.items())])
    )
    content.update(request.body)
    return content.hexdigest()


def _final(error: Exception) -> RestError | None:
    """Return the refusal of an error if another try would get it as well."""
    if isinstance(error, (KeyTakenError, AccessDeniedError, AccessUnavailableError, *_TRANSIENT)):
        return None
    found = error if isinstance(error, RestError) else translated(error)
    if found is None or found.status >= HTTPStatus.INTERNAL_SERVER_ERROR or found.status in _NOT_FINAL:
        return None
    return found


def _key_error(key: str, reason: str) -> RestError:
    return RestError(
        HTTPStatus.UNPROCESSABLE_ENTITY, "UnprocessableEntityException", f"The Idempotency-Key {key} {reason}"
    )


def _answer_of(answered: RestResponse) -> _StoredAnswer:
    return _StoredAnswer(status=int(answered.status), body=answered.body.decode(), headers={**answered.headers})


def _refusal_of(error: RestError) -> _StoredAnswer:
    return _StoredAnswer(status=int(error.status), kind=error.kind, message=str(error), fields={**error.fields})


def loading(load: Handler, part: str) -> Handler:
    """Return a handler that answers by loading what a request has created: the name in its body is that `part` of the
    path.
    """
    return _on(load, lambda request: {**request.parts, part: str(_body(request).get("name"))})


def loading_namespace(load: Handler) -> Handler:
    """Return a handler that answers by loading the namespace that a request has created."""
    return _on(load, lambda request: {**request.parts, "namespace": SEPARATOR.join(_body(request)["namespace"])})


def loading_path(load: Handler) -> Handler:
    """Return a handler that answers by loading what the path names."""
    return _on(load, lambda request: request.parts)


def changed_properties(request: RestRequest) -> RestResponse:
    """Answer updateProperties for a change whose answer was not stored. It is not known which removed properties were
    missing before.
    """
    body = _body(request)
    return json_response({"updated": sorted(body.get("updates") or ()), "removed": body.get("removals") or []})


def _on(load: Handler, parts: Callable[[RestRequest], Mapping[str, str]]) -> Handler:
    return lambda request: load(dataclasses.replace(request, parts=parts(request), query={}, headers={}))


def _body(request: RestRequest) -> dict[str, Any]:
    return request.json(dict[str, Any])
