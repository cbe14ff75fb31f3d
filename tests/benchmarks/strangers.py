"""The catalog server under clients without valid credentials, from many addresses, while others are served.

    python -m tests.benchmarks.strangers [--messages 1000000] [--minutes 60] [--clients 2] [--open 8] [--seed 1]
        [--transport framed]

The server takes tokens, JWTs and passwords of an LDAP directory, on Thrift's port by SASL and over HTTP. Each
connection sends what tests/support/strangers.py makes: frames, negotiations, requests with hostile headers, framing and
credentials. A client has a number of connections open at once. Messages are those that the server has answered, each a
frame, a negotiation or the head of a request, and those for which it has closed a connection without an answer. What a
connection sends after the message for which it is closed does not count.

Meanwhile a client with a token, which has the address of a third of the strangers, calls over HTTP and opens
connections by SASL, and another one has a new JWT each time. The result is one line of JSON: the messages, how the
connections ended, callers that got in, tracebacks and errors in the log, calls of the healthy clients that were not
served, their 99th percentile in milliseconds, the server's memory and threads at the beginning and at the most. The
exit code is 1 if a stranger got in, if there are tracebacks, or if a healthy client was not served.
"""

import argparse
import http.client
import json
import multiprocessing
import random
import re
import selectors
import socket
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import jwt
import psutil
from cryptography.hazmat.primitives.asymmetric import rsa

from interbed.catalog.server.auth.authentication import SaslStatus
from interbed.catalog.server.auth.issued_tokens import TokenService
from interbed.catalog.server.database.session import SqlRepository
from interbed.catalog.server.process.command import start_server, stop_server
from interbed.catalog.server.thrift.edge.transport import packed
from tests.catalog.server.auth.issuer import AUDIENCE, ISSUER, public_jwk, rsa_key
from tests.support.servers.ldap_directory import BASE, ldap_directory
from tests.support.strangers import HTTP, THRIFT, StrangerConnection, StrangerGenerator, answers, judged

ANSWER_SECONDS_MAX = 30.0
PAUSE_SECONDS = 0.02
_LINE = re.compile(rb"[^\r\n]+")
TRIES_MAX = 10
"""Requests with a new JWT until one is served; a refused one waits as long as the server says."""


def exchanged(ports: dict[str, int], sent: StrangerConnection, source: str) -> bytes | None:
    """Send what a stranger sends, from an address, and return the reply; None without an end of it."""
    reply = b""
    with socket.socket() as connection:
        connection.settimeout(ANSWER_SECONDS_MAX)
        connection.bind((source, 0))
        try:
            connection.connect(("127.0.0.1", ports[sent.port]))
            connection.sendall(sent.data)
            connection.shutdown(socket.SHUT_WR)
            while part := connection.recv(65536):
                reply += part
        except TimeoutError:
            return None
        except OSError:
            # The server has closed the connection, and left some bytes unread.
            return reply
    return reply


@dataclass(slots=True, kw_only=True)
class OpenExchange:
    """A connection that has sent everything, and what has arrived of its reply."""

    sent: StrangerConnection
    connection: socket.socket
    ends_at: float
    reply: bytearray = field(default_factory=bytearray)

    def receive(self) -> bool:
        """Receive a part of the reply, and return whether that was all."""
        try:
            part = self.connection.recv(1 << 18)
        except OSError:
            # The server has closed the connection, and left some bytes unread.
            return True
        self.reply += part
        return not part


class StrangerClient:
    """A process that opens connections of strangers, several at once, until the server has met enough messages."""

    def __init__(self, ports: dict[str, int], seed: int, secrets: list[str], open_max: int) -> None:
        self._ports = ports
        self._generator = StrangerGenerator(seed, Path("/nowhere"), secrets)
        self._chance = random.Random(seed)
        self._open_max = open_max
        self._selector = selectors.DefaultSelector()
        self._found: Counter[str] = Counter()

    def run(self, messages: int, until: float) -> Counter[str]:
        """Send until the server has met this number of messages, or until a time on the monotonic clock."""
        found, selector = self._found, self._selector
        while selector.get_map() or not self._is_enough(messages, until):
            while len(selector.get_map()) < self._open_max and not self._is_enough(messages, until):
                self._open()
            for key, _ in selector.select(1.0):
                exchange: OpenExchange = key.data
                if exchange.receive():
                    self._end(exchange, judged(exchange.sent.port, bytes(exchange.reply)))
            now = time.monotonic()
            for key in [each for each in selector.get_map().values() if each.data.ends_at < now]:
                self._end(key.data, "unanswered")
        return found

    def _is_enough(self, messages: int, until: float) -> bool:
        return self._found["frames"] + self._found["heads"] >= messages or time.monotonic() > until

    def _open(self) -> None:
        sent, chance = self._generator.next(), self._chance
        source = "127.0.0.1" if chance.random() < 0.3 else f"127.0.{chance.randrange(200)}.{chance.randrange(2, 250)}"
        connection = socket.socket()
        connection.settimeout(ANSWER_SECONDS_MAX)
        connection.bind((source, 0))
        exchange = OpenExchange(sent=sent, connection=connection, ends_at=time.monotonic() + ANSWER_SECONDS_MAX)
        try:
            connection.connect(("127.0.0.1", self._ports[sent.port]))
            connection.sendall(sent.data)
            connection.shutdown(socket.SHUT_WR)
        except TimeoutError:
            self._end(exchange, "unanswered")
            return
        except OSError:
            # The server has refused the first bytes: its reply may have arrived.
            pass
        connection.setblocking(False)
        self._selector.register(connection, selectors.EVENT_READ, exchange)

    def _end(self, exchange: OpenExchange, result: str) -> None:
        sent, reply, found = exchange.sent, bytes(exchange.reply), self._found
        if exchange.connection in self._selector.get_map():
            self._selector.unregister(exchange.connection)
        exchange.connection.close()
        found[f"{sent.port} {result}"] += 1
        count = max(1, len(answers(sent.port, reply)) if reply else 1)
        if sent.port == HTTP:
            found["heads"] += count
            # Those of the first request: the connection ends with its refusal.
            found["header_lines"] += len(_LINE.findall(sent.data.partition(b"\r\n\r\n")[0])) - 1
        else:
            found["frames"] += count
        if result in ("in", "unanswered"):
            print(f"{result}: {sent.port} {sent.data[:2000]!r} {reply[:500]!r}", file=sys.stderr, flush=True)


def send(
    ports: dict[str, int],
    seed: int,
    messages: int,
    until: float,
    secrets: list[str],
    open_max: int,
    results: "multiprocessing.Queue[Counter[str]]",
) -> None:
    """Open connections of strangers in a client process."""
    results.put(StrangerClient(ports, seed, secrets, open_max).run(messages, until))


@dataclass(slots=True)
class HealthyClient:
    """A client with credentials, on a thread, until it is ended."""

    ports: dict[str, int]
    token: str
    key: rsa.RSAPrivateKey
    ended: threading.Event = field(default_factory=threading.Event)
    seconds: list[float] = field(default_factory=list)
    unserved: Counter[str] = field(default_factory=Counter)
    delayed: int = 0

    def run(self) -> None:
        """Call in turn, and record the time of each call."""
        number = 0
        while not self.ended.wait(PAUSE_SECONDS):
            number += 1
            began = time.monotonic()
            for name, is_served in (("token", self._by_http(self.token)[0] == 200), ("sasl", self._by_sasl())):
                if not is_served:
                    self.unserved[name] += 1
            self.seconds.append(time.monotonic() - began)
            if number % 25 == 0 and not self._by_new_token():
                self.unserved["new JWT"] += 1

    def _by_http(self, token: str) -> tuple[int, float]:
        connection = http.client.HTTPConnection("127.0.0.1", self.ports[HTTP], timeout=ANSWER_SECONDS_MAX)
        try:
            connection.request("GET", "/iceberg/v1/config", headers={"authorization": f"Bearer {token}"})
            response = connection.getresponse()
            response.read()
            return response.status, float(response.headers.get("retry-after") or 0)
        except OSError:
            return 0, 0.0
        finally:
            connection.close()

    def _by_sasl(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.ports[THRIFT]), timeout=ANSWER_SECONDS_MAX) as connection:
                response = f"\0ann\0{self.token}".encode()
                connection.sendall(packed(SaslStatus.START, b"PLAIN") + packed(SaslStatus.COMPLETE, response))
                return connection.recv(1) == bytes((SaslStatus.COMPLETE,))
        except OSError:
            return False

    def _by_new_token(self) -> bool:
        token = web_token(self.key)
        for _ in range(TRIES_MAX):
            status, wait = self._by_http(token)
            if status == 200:
                return True
            self.delayed += 1
            time.sleep(wait)
        return False


def web_token(key: rsa.RSAPrivateKey) -> str:
    """Return a new JWT, which no other request has."""
    claims = {"iss": ISSUER, "aud": AUDIENCE, "sub": "bob", "exp": int(time.time()) + 300, "jti": str(time.time_ns())}
    return jwt.encode(claims, key, algorithm="RS256", headers={"kid": "k"})


@dataclass(slots=True)
class ServerWatch:
    """Memory in MB and threads of a process, sampled until it is ended."""

    process: psutil.Process
    ended: threading.Event = field(default_factory=threading.Event)
    memory_mb: float = 0.0
    threads: int = 0

    def run(self) -> None:
        """Take samples until it is ended."""
        while not self.ended.wait(0.2):
            self.memory_mb = max(self.memory_mb, self.process.memory_info().rss / 1e6)
            self.threads = max(self.threads, self.process.num_threads())


def run(messages: int, minutes: float, clients: int, open_max: int, seed: int, transport: str) -> dict[str, Any]:
    """Run a server under strangers, and return the figures."""
    with tempfile.TemporaryDirectory(prefix="interbed-strangers-") as name, ExitStack() as stack:
        directory = Path(name)
        key = rsa_key()
        keys = directory / "keys.json"
        keys.write_text(json.dumps({"keys": [public_jwk(key, "k")]}))
        ldap = stack.enter_context(ldap_directory())
        db, log = f"sqlite:///{directory / 'm.db'}", directory / "server.log"
        running = start_server(
            db,
            f"file:{directory / 'warehouse'}",
            *("--transport", transport),
            *("--http-port", "0", "--authentication", "token,jwt,ldap", "--access-authorizer", "builtin"),
            *("--jwt-issuer", ISSUER, "--jwt-audience", AUDIENCE, "--jwt-keys", str(keys)),
            *("--ldap-url", ldap.url, "--ldap-user-dn", f"uid={{user}},ou=people,{BASE}"),
            log=log,
        )
        stack.callback(stop_server, running)
        assert running.http is not None
        store = SqlRepository(db)
        tokens = TokenService(store)
        good, _ = tokens.create("ann")
        secrets = [good[:-1] + ("A" if good[-1] != "A" else "B"), good[:4] + "0" * 16 + good[20:], good.upper()]
        secrets += [jwt.encode({"sub": "bob"}, key, algorithm="RS256", headers={"kid": "k"})]
        store.close()
        ports = {THRIFT: int(running.uri.rpartition(":")[2]), HTTP: urlsplit(running.http).port or 0}
        process = psutil.Process(running.process.pid)
        before = process.memory_info().rss / 1e6, process.num_threads()
        results: multiprocessing.Queue[Counter[str]] = multiprocessing.Queue()
        until = time.monotonic() + 60 * minutes
        senders = [
            multiprocessing.Process(
                target=send, args=(ports, seed + number, messages // clients, until, secrets, open_max, results)
            )
            for number in range(clients)
        ]
        began = time.monotonic()
        # Before the threads: a process that is forked beside a thread may inherit a held lock.
        for sender in senders:
            sender.start()
        healthy, watch = HealthyClient(ports, good, key), ServerWatch(process)
        threads = [threading.Thread(target=each.run) for each in (healthy, watch)]
        for thread in threads:
            thread.start()
        total: Counter[str] = Counter()
        for _ in senders:
            total += results.get()
        seconds = time.monotonic() - began
        healthy.ended.set()
        watch.ended.set()
        for thread in threads:
            thread.join()
        lines = log.read_text(errors="replace").splitlines()
        bad = [line for line in lines if " ERROR " in line or line.startswith("Traceback")]
        ordered = sorted(healthy.seconds)
        met = {name: total.pop(name, 0) for name in ("frames", "heads", "header_lines")}
        return {
            "messages": met["frames"] + met["heads"],
            **met,
            "connections": sum(total.values()),
            **dict(sorted(total.items())),
            "got_in": total[f"{THRIFT} in"] + total[f"{HTTP} in"],
            "unanswered": total[f"{THRIFT} unanswered"] + total[f"{HTTP} unanswered"],
            "seconds": round(seconds),
            "messages_per_second": round((met["frames"] + met["heads"]) / seconds),
            "healthy_calls": 2 * len(ordered),
            "healthy_unserved": dict(healthy.unserved),
            "new_jwts_delayed": healthy.delayed,
            "healthy_p99_ms": round(ordered[int(len(ordered) * 0.99)] * 1000, 1) if ordered else None,
            "memory_mb": [round(before[0], 1), round(watch.memory_mb, 1)],
            "threads": [before[1], watch.threads],
            "errors": len(bad),
            "first_errors": bad[:20],
        }


def main() -> None:
    """Parse the command line, run, and print a line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--minutes", type=float, default=60.0, help="the run ends after this time, too")
    parser.add_argument("--clients", type=int, default=2)
    parser.add_argument("--open", type=int, default=8, help="connections of a client at once")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--transport", choices=("framed", "buffered"), default="framed")
    given = parser.parse_args()
    found = run(given.messages, given.minutes, given.clients, given.open, given.seed, given.transport)
    print(json.dumps(found), flush=True)
    sys.exit(bool(found["got_in"] or found["unanswered"] or found["errors"] or found["healthy_unserved"]))


if __name__ == "__main__":
    main()
