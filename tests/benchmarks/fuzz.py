"""The catalog server under fuzzed frames: tracebacks in its log, and latency of a healthy client meanwhile.

    python -m tests.benchmarks.fuzz [--frames 1000000] [--clients 4] [--seed 1] [--db URL]

Each client process sends frames of tests/support/fuzzed_frames.py, one after another, over the binary protocol, the
framed compact protocol, or HTTP, and reconnects when the server hangs up. The result is one line of JSON: frames a
second, the numbers of answered, refused and unanswered frames, the longest wait of the healthy client in milliseconds,
and the tracebacks and errors of the log. The exit code is 1 if there are any.
"""

import argparse
import http.client
import json
import multiprocessing
import re
import socket
import struct
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Protocol

from interbed.catalog.server.process.command import start_server, stop_server
from tests.support.fuzzed_frames import FrameGenerator
from tests.support.servers.metastore import plain_client

PARTIAL_FRAME_SECONDS = 0.05
"""A frame that is the beginning of a longer message has no answer: after this time the client half-closes the
connection.
"""

ANSWER_SECONDS_MAX = 30.0
"""A frame without a reply or the end of the connection within this time counts as unanswered."""

_FRAME_HEAD = struct.Struct("!I")


class FrameSender(Protocol):
    """Sender of frames with its own connection."""

    def __call__(self, frame: bytes) -> str:
        """Return the result of the frame: answered, refused or unanswered."""
        ...


class SocketSender:
    """Sender over a plain socket, `framed` or not."""

    def __init__(self, port: int, *, framed: bool) -> None:
        self._port = port
        self._framed = framed
        self._connection: socket.socket | None = None

    def __call__(self, frame: bytes) -> str:
        """Send the frame; the beginning of a reply counts as an answer."""
        if self._connection is None:
            self._connection = socket.create_connection(("127.0.0.1", self._port), timeout=60)
        connection = self._connection
        try:
            connection.settimeout(60)
            connection.sendall((_FRAME_HEAD.pack(len(frame)) if self._framed else b"") + frame)
            connection.settimeout(PARTIAL_FRAME_SECONDS)
            try:
                reply = connection.recv(1 << 20)
            except TimeoutError:
                connection.settimeout(ANSWER_SECONDS_MAX)
                connection.shutdown(socket.SHUT_WR)
                reply = connection.recv(1 << 20)
            if reply:
                # The rest of a longer reply, and replies to the rest of the frame, are read with the next reply.
                connection.setblocking(False)
                try:
                    while connection.recv(1 << 20):
                        pass
                except BlockingIOError:
                    pass
                return "answered"
        except TimeoutError:
            self._hang_up()
            return "unanswered"
        except OSError:
            pass
        self._hang_up()
        return "refused"

    def _hang_up(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None


class HttpSender:
    """Sender of each frame as the body of a request."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=ANSWER_SECONDS_MAX)

    def __call__(self, frame: bytes) -> str:
        """Send the frame as a request."""
        try:
            self._connection.request("POST", "/metastore", body=frame)
            response = self._connection.getresponse()
            response.read()
        except TimeoutError:
            self._connection.close()
            return "unanswered"
        except (OSError, http.client.HTTPException):
            self._connection.close()
            return "refused"
        return "answered" if response.status == 200 else "refused"


def send(
    kind: str, port: int, seed: int, count: int, root: Path, results: "multiprocessing.Queue[Counter[str]]"
) -> None:
    """Send frames over one protocol, in a client process."""
    frames = FrameGenerator(seed, root, compact=kind == "compact")
    sender: FrameSender = HttpSender(port) if kind == "http" else SocketSender(port, framed=kind == "compact")
    results.put(Counter(sender(frames.next()) for _ in range(count)))


def healthy_waits(port: int, ended: threading.Event, waits: list[float]) -> None:
    """Call the server at intervals, and record the duration of each call in seconds."""
    while not ended.wait(0.01):
        began = time.monotonic()
        with plain_client(port) as client:
            client.get_all_databases()
        waits.append(time.monotonic() - began)


def run(frames: int, clients: int, seed: int, db: str | None) -> dict[str, object]:
    """Run one server for each of the protocols in turn, and return the figures."""
    total: Counter[str] = Counter()
    waits: list[float] = []
    bad_lines: list[str] = []
    began = time.monotonic()
    kinds: dict[str, tuple[str, ...]] = {
        "binary": (),
        "compact": ("--protocol", "compact", "--transport", "framed"),
        "http": ("--http-port", "0"),
    }
    for number, (kind, arguments) in enumerate(kinds.items()):
        share = frames // len(kinds) // clients
        with tempfile.TemporaryDirectory(prefix="interbed-fuzz-") as name, ExitStack() as stack:
            directory = Path(name)
            log = directory / "server.log"
            running = start_server(
                db or f"sqlite:///{directory / 'm.db'}",
                f"file:{directory / 'warehouse'}",
                *("--allowed-locations", f"file:{directory}", "--store-seconds", "1"),
                *arguments,
                log=log,
            )
            stack.callback(stop_server, running)
            port = int(running.uri.rpartition(":")[2])
            if kind == "http":
                found = re.search(r"http://127\.0\.0\.1:(\d+)/metastore", log.read_text())
                port = int(found[1]) if found else port
            results: multiprocessing.Queue[Counter[str]] = multiprocessing.Queue()
            senders = [
                multiprocessing.Process(
                    target=send, args=(kind, port, seed + number * clients + each, share, directory, results)
                )
                for each in range(clients)
            ]
            ended = threading.Event()
            thread = threading.Thread(target=healthy_waits, args=(port, ended, waits))
            # Before the thread: a process that is forked beside a thread may inherit a held lock.
            for sender in senders:
                sender.start()
            if kind == "binary":
                thread.start()
            for _ in senders:
                total += results.get()
            for sender in senders:
                sender.join()
            ended.set()
            if kind == "binary":
                thread.join()
            lines = log.read_text(errors="replace").splitlines()
            bad_lines += [line for line in lines if " ERROR " in line or line.startswith("Traceback")]
    ordered = sorted(waits)
    return {
        "frames": sum(total.values()),
        **total,
        "frames_per_second": round(sum(total.values()) / (time.monotonic() - began)),
        "healthy_calls": len(ordered),
        "healthy_p99_ms": round(ordered[int(len(ordered) * 0.99)] * 1000, 1),
        "healthy_max_ms": round(ordered[-1] * 1000, 1),
        "tracebacks": bad_lines[:20],
    }


def main() -> None:
    """Parse the command line, run, and print a line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--frames", type=int, default=1_000_000)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--db")
    given = parser.parse_args()
    found = run(given.frames, given.clients, given.seed, given.db)
    print(json.dumps(found), flush=True)
    sys.exit(bool(found["tracebacks"]))


if __name__ == "__main__":
    main()
