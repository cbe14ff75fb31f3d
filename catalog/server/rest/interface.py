"""The parts of a REST interface: routes, requests, responses, errors.

A route declares the operation of its specification, and the privilege that it needs on which object. Its handler is a
plain function from a request to a response; it runs on a thread of the server's pool. Parts of a path are form-encoded,
as Java's clients send them: `+` is a space, and an encoded slash does not split a part.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from http import HTTPStatus
from typing import Protocol, TypeVar
from urllib.parse import unquote_plus

import msgspec

from interbed.catalog.server.auth.principals import Principal
from interbed.catalog.server.service.access.objects import Privilege
from interbed.catalog.server.thrift.edge.call import ClientSession, Scope

T = TypeVar("T")

JSON = "application/json"


_OF_READERS = frozenset({Privilege.USAGE, Privilege.SELECT})


class ObjectKind(StrEnum):
    """Kinds of objects that routes name."""

    SERVER = "server"
    CATALOG = "catalog"
    DATABASE = "database"
    TABLE = "table"
    VIEW = "view"
    FUNCTION = "function"


@dataclass(frozen=True, slots=True)
class RequiredAccess:
    """The privilege that a caller needs on the object that the route names."""

    privilege: Privilege
    kind: ObjectKind


class RestError(Exception):
    """A refused request. `kind` is the error's type in the specification; `fields` are further ones of its JSON."""

    def __init__(self, status: HTTPStatus, kind: str, message: str, **fields: object) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind
        self.fields = fields


@dataclass(frozen=True, slots=True, kw_only=True)
class RestRequest:
    """A request. `parts` are those of the path, decoded, by the names in the route's template; `headers` have names in
    lower case. `verify` verifies the credentials again, on a thread that may wait, and returns the principal with the
    groups that it has by then, or raises AuthenticationError. Where every client is served it returns None, and there
    is none for connections without certificates.
    """

    parts: Mapping[str, str]
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes
    session: ClientSession
    verify: Callable[[], Principal | None] | None = None

    def json(self, kind: type[T]) -> T:
        """Return the body as a msgspec type. RestError with status 400 if it is not of that type."""
        try:
            return msgspec.json.decode(self.body, type=kind)
        except RecursionError:
            reason = "it is nested too deeply"
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            reason = str(error)
        raise RestError(HTTPStatus.BAD_REQUEST, "BadRequestException", f"The body of the request is invalid: {reason}")


class BodyStream(Protocol):
    """Body of a response that is made in parts while the client reads them."""

    async def next_part(self) -> bytes | None:
        """Return the next part; None at the end. RestError where the body ends without being complete; the first part
        decides the status of the response.
        """
        ...

    def last_part(self, error: RestError) -> bytes:
        """Return a part that reports an error after other parts, without the mark of a complete body."""
        ...

    def close(self) -> None:
        """End the stream, also while a part is being made; does not wait."""
        ...

    @property
    def subject(self) -> Mapping[str, object]:
        """Fields for the logs, beside those of the request."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RestResponse:
    """A response; `body` is JSON unless `headers` have another content type. With a `stream` that is the body.

    `lasting` says that the same request has the same response until the metadata in the route's scope change: it
    depends on nothing besides, such as the files of a table that writers change.
    """

    status: HTTPStatus = HTTPStatus.OK
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    lasting: bool = False
    stream: BodyStream | None = None


NO_CONTENT = RestResponse(status=HTTPStatus.NO_CONTENT)
FOUND = RestResponse(status=HTTPStatus.NO_CONTENT, lasting=True)
"""Response to the question whether an object exists."""


def json_response(
    value: object,
    *,
    status: HTTPStatus = HTTPStatus.OK,
    headers: Mapping[str, str] | None = None,
    lasting: bool = False,
) -> RestResponse:
    """Return a response with a value as JSON: a msgspec type, or plain dictionaries and lists."""
    return RestResponse(status=status, body=msgspec.json.encode(value), headers=headers or {}, lasting=lasting)


Handler = Callable[[RestRequest], RestResponse]
ScopeOf = Callable[[RestRequest], Scope]
SubjectOf = Callable[[RestRequest], Mapping[str, object]]


@dataclass(frozen=True, slots=True, kw_only=True)
class RestRoute:
    """A route: `template` is a path below the interface, `v1/{prefix}/namespaces/{namespace}`.

    `operation` is its name in the specification. `scope` returns the metadata that lasting responses depend on; routes
    without one are not cached. `subject` returns what the audit log has of a request beside the parts of its path; it
    may raise the RestError of the request's body. `shows_rows` says that the response has rows of a table, so that the
    request is in the audit log, too.
    """

    method: str
    template: str
    operation: str
    needs: RequiredAccess
    handler: Handler
    scope: ScopeOf | None = None
    subject: SubjectOf | None = None
    shows_rows: bool = False

    @property
    def is_change(self) -> bool:
        """Whether it may change metadata: then it is in the audit log."""
        return self.needs.privilege not in _OF_READERS

    @property
    def is_audited(self) -> bool:
        """Whether a request is in the audit log."""
        return self.is_change or self.shows_rows


def route(
    method: str,
    template: str,
    operation: str,
    privilege: Privilege,
    kind: ObjectKind,
    handler: Handler,
    scope: ScopeOf | None = None,
) -> RestRoute:
    """Return a route of an interface."""
    needs = RequiredAccess(privilege, kind)
    return RestRoute(method=method, template=template, operation=operation, needs=needs, handler=handler, scope=scope)


@dataclass(frozen=True, slots=True, kw_only=True)
class RestInterface:
    """An interface: `name` as in metrics and logs, `path` where it is mounted (`/iceberg`), its routes.

    `error_body` returns the JSON of an error. `translated` returns the error for an exception of a handler, None for an
    internal error. `missing` returns the error for a path or a method without a route. Answers to requests with the
    header `uncached_with` are neither cached nor taken from the cache; its name is in lower case. An interface whose
    errors are no JSON returns the content type and the body of an error by `error_page`.
    """

    name: str
    path: str
    routes: Sequence[RestRoute]
    error_body: Callable[[RestError], object]
    translated: Callable[[Exception], RestError | None]
    missing: Callable[[str, str], RestError]
    uncached_with: str | None = None
    error_page: Callable[[RestError], tuple[str, bytes]] | None = None


@dataclass(slots=True)
class _Node:
    """A part of paths: the fixed next parts, the variable one, and the routes that end here by method."""

    fixed: "dict[str, _Node]" = field(default_factory=dict)
    variable: "_Node | None" = None
    routes: "dict[str, tuple[RestRoute, tuple[str, ...]]]" = field(default_factory=dict)


class RouteTable:
    """Finds the route of a path. A fixed part goes before a variable one. ValueError for two routes of one path."""

    def __init__(self, routes: Sequence[RestRoute]) -> None:
        self._root = _Node()
        for route in routes:
            self._add(route)

    def _add(self, route: RestRoute) -> None:
        node, names = self._root, []
        for part in route.template.split("/"):
            if part.startswith("{"):
                names.append(part[1:-1])
                node.variable = node.variable or _Node()
                node = node.variable
            else:
                node = node.fixed.setdefault(part, _Node())
        if route.method in node.routes:
            raise ValueError(f"two routes answer {route.method} {route.template}")
        node.routes[route.method] = (route, tuple(names))

    def find(self, method: str, path: str) -> tuple[RestRoute, dict[str, str]] | None:
        """Return the route and the decoded variable parts of an encoded path without its first slash."""
        for node, values in _ends(self._root, path.split("/"), 0, ()):
            found = node.routes.get(method)
            if found is not None:
                route, names = found
                return route, dict(zip(names, values, strict=True))
        return None

    def methods(self, path: str) -> list[str]:
        """Return the methods that a path has routes for."""
        return sorted({method for node, _ in _ends(self._root, path.split("/"), 0, ()) for method in node.routes})


def _ends(
    node: _Node, parts: Sequence[str], index: int, values: tuple[str, ...]
) -> Iterator[tuple[_Node, tuple[str, ...]]]:
    if index == len(parts):
        yield node, values
        return
    part = parts[index]
    if part in node.fixed:
        yield from _ends(node.fixed[part], parts, index + 1, values)
    if node.variable is not None and part:
        yield from _ends(node.variable, parts, index + 1, (*values, unquote_plus(part, errors="strict")))
