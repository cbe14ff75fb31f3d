"""Clients without valid credentials: what they send to the server's ports before they are authenticated.

`StrangerGenerator` yields the bytes of whole connections: frames of Thrift, negotiations of SASL, requests of HTTP with
hostile headers, credentials and framing; most of them are mutated as bytes, too. The credentials in them are made like
valid ones, and none is. `judged` says what a reply means. The same seed yields the same connections.
"""

import base64
import json
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.Thrift import TMessageType, TType
from thrift.transport.TTransport import TMemoryBuffer

from interbed.catalog.server.auth.authentication import SaslStatus
from interbed.catalog.server.thrift.edge.transport import packed
from tests.support import fuzzed_frames
from tests.support.fuzzed_frames import FrameGenerator
from tests.support.servers.raw_thrift import call

THRIFT, HTTP = "thrift", "http"

REFUSALS = frozenset({400, 401, 413, 429, 431, 501, 503})
"""Statuses of requests that no interface has seen."""

GET_ALL = call("get_all_databases", b"\0")

FRAMES_MAX = 20_000
"""Frames that a generator keeps."""

NEW_FRAMES = 3
"""New ones in a connection with frames."""

_RESPONSE = re.compile(rb"HTTP/1\.[01] (\d{3})")
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)\r\n", re.IGNORECASE)
_STRICT = 0x8001
_NOT_AUTHENTICATED = b"not authenticated"

PATHS = (
    "/iceberg/v1/config",
    "/paimon/v1/config?warehouse=hive",
    "/interbed/v1/access/roles",
    "/metastore",
    "/metastore/*",
    "/",
    "//metastore",
    "/./metastore",
    "/x/../metastore",
    "/%6detastore",
    "/metastore%00",
    "/metastore;a=b",
    "/metastore?x=" + "y" * 2000,
    "/health/ready",
    "/..%2f..%2fetc/passwd",
    "http://127.0.0.1/metastore",
    "http://169.254.169.254/latest/meta-data",
    "*",
    "127.0.0.1:80",
    "/iceberg/v1/oauth/tokens",
)
METHODS = ("GET", "POST", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "CONNECT", "get", "PRI", "X" * 300, "")
MECHANISMS = (
    b"PLAIN",
    b"plain",
    b"GSSAPI",
    b"EXTERNAL",
    b"ANONYMOUS",
    b"CRAM-MD5",
    b"DIGEST-MD5",
    b"SCRAM-SHA-256",
    b"OAUTHBEARER",
    b"PLAIN\0",
    b"",
)
HEADERS = (
    "X-Forwarded-User: root",
    "X-Remote-User: root",
    "X-Actor-Username: root",
    "X-Forwarded-For: 127.0.0.1",
    "Forwarded: for=127.0.0.1",
    "X-Original-URL: /health/ready",
    "X-HTTP-Method-Override: GET",
    "Connection: Authorization",
    "Connection: keep-alive, upgrade",
    "Upgrade: h2c",
    "HTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA",
    "Upgrade: websocket",
    "Expect: 100-continue",
    "Cookie: token=root",
    "Proxy-Authorization: Bearer root",
    "Origin: null",
    "Host: 169.254.169.254",
    "Content-Encoding: gzip",
    "Range: bytes=0-1",
    "SSL_CLIENT_S_DN: CN=root",
)
FRAMINGS: Sequence[tuple[str, str]] = (
    ("Content-Length: 4", "body"),
    ("Content-Length: 0", ""),
    ("Content-Length: -1", ""),
    ("Content-Length: +4", "body"),
    ("Content-Length: 0x4", "body"),
    ("Content-Length: 4, 4", "body"),
    ("Content-Length: 99999999999999999999999999", "body"),
    ("Content-Length: 4\r\nContent-Length: 5", "body"),
    ("Content-Length: 4\r\nContent-Length: 4", "body"),
    ("Content-Length: 4\r\nTransfer-Encoding: chunked", "0\r\n\r\nGET /metastore HTTP/1.1\r\n\r\n"),
    ("Transfer-Encoding: chunked\r\nContent-Length: 4", "4\r\nbody\r\n0\r\n\r\n"),
    ("Transfer-Encoding: chunked", "4\r\nbody\r\n0\r\n\r\n"),
    ("Transfer-Encoding: chunked", "4;ext=" + "x" * 500 + "\r\nbody\r\n0\r\n\r\n"),
    ("Transfer-Encoding: chunked", "ffffffffffffffff1\r\nbody\r\n0\r\n\r\n"),
    ("Transfer-Encoding: chunked", "-4\r\nbody\r\n0\r\n\r\n"),
    ("Transfer-Encoding: chunked", "4\nbody\n0\n\n"),
    ("Transfer-Encoding: chunked", "4\r\nbodyX\r\n0\r\n\r\n"),
    ("Transfer-Encoding: chunked", "0\r\nAuthorization: Bearer root\r\n\r\n"),
    ("Transfer-Encoding: xchunked", "4\r\nbody\r\n0\r\n\r\n"),
    ("Transfer-Encoding : chunked", "4\r\nbody\r\n0\r\n\r\n"),
    ("Transfer-Encoding: identity, chunked", "4\r\nbody\r\n0\r\n\r\n"),
    ("Transfer-Encoding: chunked, identity", "4\r\nbody\r\n0\r\n\r\n"),
    ("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity", "4\r\nbody\r\n0\r\n\r\n"),
    ("Transfer-Encoding:\tchunked", "4\r\nbody\r\n0\r\n\r\n"),
    ("Transfer-Encoding: gzip", "body"),
    ("X: a\r\n Content-Length: 4", "body"),
    ("X: a\r\n\tTransfer-Encoding: chunked", "4\r\nbody\r\n0\r\n\r\n"),
    ("X: a\nContent-Length: 4", "body"),
    ("X: a\rContent-Length: 4", "body"),
    ("X: a\0b", ""),
    (" X: a", ""),
    ("X", ""),
    (": a", ""),
    ("X: " + "a" * 40_000, ""),
    ("\r\n".join(f"X-{number}: y" for number in range(500)), ""),
)
FOREIGN = (
    b"SSH-2.0-OpenSSH_9.6\r\n",
    bytes.fromhex("16030100a5010000a10303") + b"\x00" * 100,
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\x04\0\0\0\0\0",
    b"GET /\r\n",
    b"\0" * 64,
    b"\xff" * 64,
    b"\r\n" * 100,
    b"PROXY TCP4 127.0.0.1 127.0.0.1 1 2\r\nGET / HTTP/1.1\r\n\r\n",
    b"*1\r\n$4\r\nPING\r\n",
    b"\x00\x00\x00\x08\x04\xd2\x16\x2f",
    b"",
)


@dataclass(frozen=True, slots=True)
class StrangerConnection:
    """Bytes that a client sends on one connection, to the port of Thrift or of HTTP."""

    port: str
    data: bytes


class StrangerGenerator:
    """Generator of connections. `secrets` are credentials of the right form, none of which is valid."""

    def __init__(self, seed: int, root: Path, secrets: Sequence[str]) -> None:
        self._chance = random.Random(seed)
        self._frames = FrameGenerator(seed, root, with_locations=False)
        self._secrets = [*secrets, *wrong_web_tokens(), "root", "", "x" * 20_000, "\udcff", "a b", "'--", "%00"]
        self._framed: list[bytes] = []
        self._kinds: list[Callable[[], StrangerConnection]] = [
            self._messages,
            self._frames_of_messages,
            self._frames_of_messages,
            self._negotiation,
            self._negotiation,
            self._request,
            self._request,
            self._request,
            self._pipeline,
            self._foreign,
        ]

    def next(self) -> StrangerConnection:
        """Return what the next client sends."""
        found = self._chance.choice(self._kinds)()
        if self._chance.random() < 0.6:
            return StrangerConnection(found.port, self._mutated(found.data))
        return found

    def _messages(self) -> StrangerConnection:
        return StrangerConnection(THRIFT, b"".join(self._frames.next() for _ in range(self._chance.choice((1, 1, 3)))))

    def _frames_of_messages(self) -> StrangerConnection:
        """Frame messages that are mutated as structures, each of which is answered. The bytes may be mutated later."""
        count, chance, frames = self._chance.choice((1, 10, 60, 60)), self._chance, self._frames
        newest = b""
        for _ in range(min(count, NEW_FRAMES)):
            method = chance.choice(fuzzed_frames.METHODS)
            # Encoding takes longer than the server's answer: most frames are older ones, in new company.
            place = len(self._framed) if len(self._framed) < FRAMES_MAX else chance.randrange(FRAMES_MAX)
            newest = frames.encoded(method, frames.mutated(frames.arguments(method)))
            self._framed[place : place + 1] = [newest]
        messages = [newest, *chance.choices(self._framed, k=count - 1)]
        return StrangerConnection(THRIFT, b"".join(len(each).to_bytes(4) + each for each in messages))

    def _negotiation(self) -> StrangerConnection:
        chance = self._chance
        mechanism = chance.choice(MECHANISMS) if chance.random() < 0.3 else b"PLAIN"
        user = chance.choice(("root", "ann", "interbed-optimizer", "", "ann\0root", "a" * 300, "\u202eann"))
        secret = self._secret()
        response = chance.choice(
            (
                f"\0{user}\0{secret}",
                f"{user}\0{user}\0{secret}",
                f"root\0{user}\0{secret}",
                f"\0{user}\0",
                f"{user}{secret}",
                "\0\0",
                "\0" * 50,
            )
        ).encode("utf-8", "surrogateescape")
        status = chance.choice((SaslStatus.OK, SaslStatus.COMPLETE, SaslStatus.COMPLETE, *SaslStatus))
        data = packed(SaslStatus.START, mechanism) + packed(status, response)
        frame = len(GET_ALL).to_bytes(4) + GET_ALL
        return StrangerConnection(THRIFT, data + chance.choice((b"", frame, GET_ALL, data)))

    def _request(self) -> StrangerConnection:
        return StrangerConnection(HTTP, self._http())

    def _pipeline(self) -> StrangerConnection:
        count = self._chance.choice((2, 2, 3, 20))
        return StrangerConnection(HTTP, b"".join(self._http() for _ in range(count)))

    def _foreign(self) -> StrangerConnection:
        return StrangerConnection(self._chance.choice((THRIFT, HTTP)), self._chance.choice(FOREIGN))

    def _http(self) -> bytes:
        chance = self._chance
        method = chance.choice(("GET", "POST")) if chance.random() < 0.7 else chance.choice(METHODS)
        version = "HTTP/1.1" if chance.random() < 0.9 else chance.choice(("HTTP/1.0", "HTTP/0.9", "HTTP/2.0", "", "x"))
        framing, body = chance.choice(FRAMINGS)
        lines = [f"{method} {chance.choice(PATHS)} {version}", "Host: localhost"]
        lines += [self._authorization() for _ in range(chance.choice((0, 1, 1, 1, 2)))]
        lines += chance.sample(HEADERS, chance.choice((0, 0, 1, 3)))
        lines.insert(chance.randrange(1, len(lines) + 1), framing)
        end = "\r\n" if chance.random() < 0.9 else chance.choice(("\n", "\r", "\r\n\n"))
        text = end.join(lines) + end + end + body
        return text.encode("utf-8", "surrogateescape")

    def _authorization(self) -> str:
        chance, secret = self._chance, self._secret()
        user = chance.choice(("ann", "root", "", "a:b"))
        pair = base64.b64encode(f"{user}:{secret}".encode("utf-8", "surrogateescape")).decode()
        name = chance.choice(
            ("Authorization", "Authorization", "authorization", "AUTHORIZATION", "Authorization ", "A")
        )
        value = chance.choice(
            (
                f"Bearer {secret}",
                f"bearer   {secret}",
                f"Bearer {secret}, Bearer {secret}",
                f"Bearer\t{secret}",
                f"Bearer{secret}",
                f"Basic {pair}",
                f"Basic {pair[:-3]}",
                f"Basic {secret}",
                f"Negotiate {pair}",
                f'Digest username="root", response="{secret}"',
                "Bearer",
                "",
                f"\x00{secret}",
                f"Bearer {secret}\r\n {secret}",
            )
        )
        return f"{name}: {value}"

    def _secret(self) -> str:
        return self._chance.choice(self._secrets)

    def _mutated(self, data: bytes) -> bytes:
        chance = self._chance
        for _ in range(chance.choice((1, 1, 2, 5))):
            if not data:
                break
            begin = chance.randrange(len(data))
            end = begin + chance.choice((1, 1, 2, 5, 20, 200))
            match chance.randrange(5):
                case 0:
                    data = data[:begin] + bytes((chance.randrange(256),)) + data[begin + 1 :]
                case 1:
                    data = data[:begin] + data[end:]
                case 2:
                    data = data[:end] + data[begin:]
                case 3:
                    data = data[:begin] + bytes((data[begin] ^ 1 << chance.randrange(8),)) + data[begin + 1 :]
                case _:
                    data = data[:begin]
        return data


def wrong_web_tokens() -> list[str]:
    """Return texts of the form of JWTs, without a valid signature."""

    def part(value: object) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()

    claims = {"iss": "https://id.example.org/realms/lake", "aud": "interbed", "sub": "root", "exp": 4102444800}
    headers: Sequence[object] = (
        {"alg": "none"},
        {"alg": "HS256", "kid": "k"},
        {"alg": "RS256", "kid": "k"},
        {"alg": "RS256", "kid": "../../etc/passwd"},
        {"alg": "RS256", "kid": "k' OR 1=1 --"},
        {"alg": "RS256", "kid": "k", "jku": "http://169.254.169.254/keys"},
        {"alg": "RS256", "kid": "k", "crit": ["x"]},
        {"alg": ["RS256"], "kid": {"a": 1}},
        [],
        7,
    )
    signatures = ("", "x", "A" * 342)
    return [f"{part(header)}.{part(claims)}.{signature}" for header in headers for signature in signatures]


def judged(port: str, reply: bytes) -> str:
    """Return what a reply means: refused, closed (without a word), or in (a stranger was served)."""
    if not reply:
        return "closed"
    return "refused" if all(answers(port, reply)) else "in"


def answers(port: str, reply: bytes) -> list[bool]:
    """Return for each answer in a reply whether it is a refusal; the last one may be incomplete."""
    if port == HTTP:
        return [status in REFUSALS for status in statuses(reply)]
    if reply[:1] == b"\0":
        return _framed_answers(reply)
    if reply[:2] == _STRICT.to_bytes(2):
        return _plain_answers(reply)
    return [reply[:1] in (bytes((SaslStatus.BAD,)), bytes((SaslStatus.ERROR,)))]


def _framed_answers(reply: bytes) -> list[bool]:
    found = []
    while len(reply) >= 4:
        end = 4 + int.from_bytes(reply[:4])
        found.append(_is_exception(reply[4:end]) and (len(reply) < end or _NOT_AUTHENTICATED in reply[4:end]))
        reply = reply[end:]
    return found


def _plain_answers(reply: bytes) -> list[bool]:
    protocol = TBinaryProtocol(TMemoryBuffer(reply))
    found = []
    try:
        while protocol.trans.cstringio_buf.tell() < len(reply):
            begin = protocol.trans.cstringio_buf.tell()
            found.append(_is_exception(reply[begin : begin + 4]))
            protocol.readMessageBegin()
            protocol.skip(TType.STRUCT)
            found[-1] &= _NOT_AUTHENTICATED in reply[begin : protocol.trans.cstringio_buf.tell()]
    except EOFError:
        # The server has closed the connection, and left some bytes unread.
        return found
    return found


def _is_exception(message: bytes) -> bool:
    """Return whether a message, or what has arrived of it, is an exception."""
    begin = _STRICT.to_bytes(2) + bytes((0, TMessageType.EXCEPTION))
    return begin.startswith(message[:4])


def statuses(reply: bytes) -> list[int]:
    """Return the statuses of the responses on a connection; 0 for bytes that are no response."""
    found: list[int] = []
    while reply:
        begin = _RESPONSE.match(reply)
        if begin is None:
            return [*found, 0]
        found.append(int(begin[1]))
        head, end, rest = reply.partition(b"\r\n\r\n")
        length = _LENGTH.search(head + b"\r\n")
        reply = rest[int(length[1]) :] if end and length is not None else b""
    return found
