"""Invalid requests of REST interfaces: valid ones of all operations, mutated as JSON, as paths and as bytes.

`RequestGenerator` yields requests for the routes of an interface; the same seed yields the same requests. Most name the
same few objects, so that they exist often. `{root}` in a text is the directory for locations.
"""

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus, urlencode

HOSTILE_TEXTS = (
    "",
    " ",
    "\n",
    "\x00",
    "a\x00b",
    "\x1b[31mred\x1b[0m",
    "\u2028\u202e\x85",
    "\udc80",
    "\ud800\udc00",
    "a" * 300,
    "b" * 5000,
    "/" * 300,
    "x/" * 1500,
    "file:{root}/" + "y/" * 1500,
    "file:{root}/../../outside",
    "file:/",
    "ftp://host/x",
    "gopher:x",
    "s3://KEY:SECRET@bucket/x",
    "://",
    "%",
    "%41%",
    "%s%n%d",
    "a=1/b=2",
    "..",
    "../../x",
    "a/b",
    "a\x1fb",
    "a.b",
    "t$branch_x",
    "t$snapshots",
    "@hive#",
    "@nope#default",
    "*",
    "a|b*|.*",
    "*" * 400,
    "(" * 400,
    "' or 1=1 --",
    "9" * 60,
    "-1",
    "1e999",
    "NaN",
    "null",
    "{}",
    '{"a":' * 200,
    "ROW<" * 300,
    "decimal(99,98)",
    "fixed[-1]",
    "ARRAY<INT",
    "bucket[0]",
    "truncate[99999999999999]",
    "\U0001f4a9",
)

NUMBERS = (
    0,
    1,
    2,
    -1,
    100,
    2**31 - 1,
    2**31,
    -(2**31),
    2**53 + 1,
    2**63 - 1,
    2**63,
    -(2**63),
    10**40,
    0.5,
    -0.0,
    1e308,
)

NAMES = ("d", "d", "d", "d", "e", "default")
OWN_TABLE = "o"
"""The name of a table in Paimon's format beside those of Iceberg."""
OBJECTS = ("t", "t", "t", "p", "v", "x", "f", OWN_TABLE)

QUERIES: Mapping[str, Sequence[str]] = {
    "pageSize": ("1", "2", "0", "-1", "x", "99999999999999999999"),
    "pageToken": ("", "t", "\x00", "d.t", "%"),
    "maxResults": ("1", "2", "0", "-1", "x", "99999999999999999999"),
    "parent": ("d", "", "a\x1fb"),
    "snapshots": ("refs", "all", "none"),
    "purgeRequested": ("true", "false", "maybe"),
    "warehouse": ("hive", "none", ""),
    "tableNamePattern": ("t%", "%", "_", "\\", "a" * 2000),
    "databaseNamePattern": ("d%", "\x00"),
    "viewNamePattern": ("v%",),
    "tableType": ("table", "none"),
    "tagNamePrefix": ("a",),
}


@dataclass(frozen=True, slots=True)
class FuzzedRequest:
    """A request: `path` is encoded, without the interface's path; `query` is encoded; `operation` is the route's."""

    operation: str
    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class FuzzedRoute:
    """A route, as in the interface: `template` has variable parts in braces."""

    method: str
    template: str
    operation: str


class RequestGenerator:
    """Requests of an interface; `valid` are bodies that each operation takes."""

    def __init__(
        self, seed: int, root: Path, routes: Sequence[FuzzedRoute], valid: Mapping[str, Sequence[object]]
    ) -> None:
        self._random = random.Random(seed)
        self._root = str(root)
        self._routes = routes
        self._valid = valid
        self._bodies = [body for bodies in valid.values() for body in bodies]

    def next(self) -> FuzzedRequest:
        """Return the next request."""
        chance = self._random
        return self.mutated(chance.choice(self._routes))

    def plain(self, route: FuzzedRoute) -> FuzzedRequest:
        """Return a valid request of a route."""
        return self._request(route, self._body(route), hostile=0.0, query={})

    def mutated(self, route: FuzzedRoute) -> FuzzedRequest:
        """Return a request of a route, mostly with mutations."""
        chance = self._random
        body = self._body(route)
        for _ in range(chance.choice((0, 1, 1, 1, 2, 3))):
            body = self._changed(body)
        query = {}
        if chance.random() < 0.3:
            for name in chance.sample(sorted(QUERIES), chance.choice((1, 1, 2, 4))):
                query[name] = chance.choice(QUERIES[name] if chance.random() < 0.8 else HOSTILE_TEXTS)
        return self._request(route, body, hostile=0.04, query=query)

    def mutated_json(self, value: object) -> bytes:
        """Return a value with mutations, as JSON that may be damaged."""
        made: object = _copied(value)
        for _ in range(self._random.choice((1, 1, 2, 3))):
            made = self._changed(made)
        return self._encoded(made, hostile=0.04)

    def _body(self, route: FuzzedRoute) -> object:
        chance = self._random
        bodies = self._valid.get(route.operation)
        if not bodies:
            return _copied(chance.choice(self._bodies)) if chance.random() < 0.1 else None
        return _copied(chance.choice(self._bodies if chance.random() < 0.03 else bodies))

    def _request(self, route: FuzzedRoute, body: object, *, hostile: float, query: dict[str, str]) -> FuzzedRequest:
        chance = self._random
        parts = []
        for part in route.template.split("/"):
            if not part.startswith("{"):
                parts.append(part)
            elif chance.random() < hostile:
                parts.append(quote_plus(self._rooted(chance.choice(HOSTILE_TEXTS)), errors="surrogatepass"))
            elif part == "{prefix}":
                parts.append("hive")
            else:
                parts.append(chance.choice(NAMES if part in ("{namespace}", "{database}") else OBJECTS))
        path = "/".join(parts)
        if hostile and chance.random() < 0.01:
            path = self._bytes_mutated(path.encode()).decode("latin-1")
        encoded = urlencode({name: self._rooted(text) for name, text in query.items()}, errors="surrogatepass")
        headers = self._headers() if hostile else {}
        return FuzzedRequest(route.operation, route.method, path, encoded, headers, self._encoded(body, hostile))

    def _headers(self) -> dict[str, str]:
        chance = self._random
        headers = {}
        for name, texts in (
            ("x-iceberg-access-delegation", ("vended-credentials", "remote-signing", "x")),
            ("if-none-match", ('"a"', "*", "\xff")),
            ("idempotency-key", ("018f0000-0000-7000-8000-000000000001", "x", "")),
            ("authorization", ("Bearer x", "", "Basic ====")),
        ):
            if chance.random() < 0.05:
                headers[name] = chance.choice(texts)
        return headers

    def _encoded(self, body: object, hostile: float) -> bytes:
        if body is None:
            return b""
        encoded = self._rooted(json.dumps(body)).encode()
        return self._bytes_mutated(encoded) if self._random.random() < hostile * 2 else encoded

    def _rooted(self, text: str) -> str:
        return text.replace("{root}", self._root)

    def _changed(self, body: object) -> object:
        chance = self._random
        places = list(_places(body))
        if not places:
            return self._anything(0)
        holder, index = chance.choice(places)
        what = chance.randrange(9)
        if what == 0:
            del holder[index]
        elif what == 1:
            holder[index] = self._anything(0)
        elif what in (2, 3, 4):
            holder[index] = self._like(holder[index])
        elif what == 5:
            other = chance.choice(list(_places(chance.choice(self._bodies))) or [(holder, index)])
            holder[index] = _copied(other[0][other[1]])
        elif what == 6 and isinstance(holder, list):
            holder.extend(_copied(holder) * chance.choice((1, 50)))
        elif what == 7 and isinstance(holder, dict):
            holder[chance.choice((*HOSTILE_TEXTS, "type", "action", "id", "name", "fields"))] = holder.pop(index)
        else:
            deep: object = 1
            for _ in range(chance.choice((10, 70, 150))):
                deep = {chance.choice(("type", "fields", "a")): deep} if chance.random() < 0.5 else [deep]
            holder[index] = deep
        return body

    def _like(self, value: object) -> object:
        chance = self._random
        if isinstance(value, bool):
            return not value
        if isinstance(value, int | float):
            return chance.choice(NUMBERS)
        if isinstance(value, str):
            return chance.choice(HOSTILE_TEXTS if chance.random() < 0.6 else (*NAMES, *OBJECTS, "1"))
        return type(value)() if isinstance(value, list | dict) else "x"

    def _anything(self, depth: int) -> object:
        chance = self._random
        what = chance.randrange(7 if depth < 3 else 4)
        if what == 0:
            return chance.choice(HOSTILE_TEXTS)
        if what == 1:
            return chance.choice(NUMBERS)
        if what < 4:
            return chance.choice((None, True, False, "t", ""))
        if what == 4:
            return [self._anything(depth + 1) for _ in range(chance.randrange(4))]
        return {
            chance.choice(("type", "id", "name", "x")): self._anything(depth + 1) for _ in range(chance.randrange(4))
        }

    def _bytes_mutated(self, data: bytes) -> bytes:
        chance = self._random
        changed = bytearray(data or b"{}")
        at = chance.randrange(len(changed))
        what = chance.randrange(6)
        if what == 0:
            del changed[at:]
        elif what == 1:
            changed[at] ^= 1 << chance.randrange(8)
        elif what == 2:
            changed[at:at] = chance.randbytes(chance.randrange(1, 9))
        elif what == 3:
            changed[at:at] = chance.choice((b"[", b'{"a":', b'"')) * 3000
        elif what == 4:
            changed[at : at + 1] = chance.choice(
                (b"1e400", b"NaN", b"-", b"\xff", b"\xed\xa0\x80", b"\\ud800", b"\x00")
            )
        else:
            del changed[at : at + chance.randrange(1, 9)]
        return bytes(changed)


def _copied(body: Any) -> Any:
    return json.loads(json.dumps(body))


def _places(body: object) -> Iterator[tuple[Any, Any]]:
    """Yield all values within JSON: the list or the dictionary that holds each, and its index there."""
    if isinstance(body, dict):
        for name in list(body):
            yield body, name
            yield from _places(body[name])
    elif isinstance(body, list):
        for index in range(len(body)):
            yield body, index
            yield from _places(body[index])


def without_each_part(body: object) -> Iterator[object]:
    """Yield copies of a body that each lack one of its values."""
    for number, _ in enumerate(_places(body)):
        made = _copied(body)
        holder, index = list(_places(made))[number]
        del holder[index]
        yield made
