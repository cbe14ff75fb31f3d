"""A proxy between clients and an HTTP store that adds latency to each request and limits the pace of each stream.

    python -m tests.support.servers.paced_proxy STORE_PORT LATENCY_SECONDS BYTES_PER_SECOND

Its first line of output is the port of 127.0.0.1 on which it listens. It is a separate process that parses only heads
and copies bodies, so that a benchmark does not measure it. It ends with its input or by a signal.
"""

import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.support.waits import at_most

ROOT = Path(__file__).resolve().parents[3]
BUFFER_BYTES = 256 << 10
STOP_SECONDS_MAX = at_most(30.0)
UPSTREAM_SECONDS_MAX = at_most(300.0)

_LENGTH = re.compile(rb"\r\ncontent-length:\s*(\d+)", re.IGNORECASE)
_CHUNKED = re.compile(rb"\r\ntransfer-encoding:\s*chunked", re.IGNORECASE)
_EXPECT = re.compile(rb"\r\nexpect:[^\r]*", re.IGNORECASE)
_END = b"\r\n\r\n"
_NO_BODY = (b"204", b"304")


@dataclass(frozen=True, slots=True)
class PacedProxy:
    """Running proxy; `cpu_seconds` shows that it has not been at its limit."""

    port: int
    process: int

    @property
    def cpu_seconds(self) -> float:
        """CPU seconds of all its threads so far."""
        fields = Path(f"/proc/{self.process}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / 100


@contextmanager
def paced_proxy(port: int, *, latency_seconds: float, bytes_per_second: float) -> Iterator[PacedProxy]:
    """Run the proxy before the store on that port, in a separate process."""
    command = [sys.executable, "-m", __name__, str(port), str(latency_seconds), str(bytes_per_second)]
    process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        yield PacedProxy(int(process.stdout.readline()), process.pid)
    finally:
        process.kill()
        process.communicate(timeout=STOP_SECONDS_MAX)


class _PacedStream:
    """One side of a connection: received bytes that are not consumed yet, and the time of the next transfer."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._held = b""
        self._buffer = memoryview(bytearray(BUFFER_BYTES))

    def head(self) -> bytes:
        """Return the next head with the empty line after it. Raises EOFError when the other side has hung up before
        one.
        """
        while _END not in self._held:
            more = self._connection.recv(BUFFER_BYTES)
            if not more:
                raise EOFError
            self._held += more
        head, _, self._held = self._held.partition(_END)
        return head + _END

    def hand_on(self, count: int, target: socket.socket, pace: float) -> None:
        """Copy `count` bytes to the other side."""
        begun, sent = time.perf_counter(), 0
        while sent < count:
            if self._held:
                part: bytes | memoryview = self._held[: count - sent]
                self._held = self._held[len(part) :]
            else:
                size = self._connection.recv_into(self._buffer, min(BUFFER_BYTES, count - sent))
                if not size:
                    raise EOFError
                part = self._buffer[:size]
            target.sendall(part)
            sent += len(part)
            early = sent / pace - (time.perf_counter() - begun)
            if early > 0:
                time.sleep(early)

    def hand_on_chunks(self, target: socket.socket, pace: float) -> None:
        """Copy a chunked body unchanged."""
        while True:
            while b"\r\n" not in self._held:
                more = self._connection.recv(BUFFER_BYTES)
                if not more:
                    raise EOFError
                self._held += more
            line = self._held.partition(b"\r\n")[0]
            size = int(line.partition(b";")[0], 16)
            # A chunk includes the lines before and after it; the stores of the tests send no trailers.
            self.hand_on(len(line) + 2 + size + 2, target, pace)
            if not size:
                return


def _serve(client: socket.socket, port: int, latency: float, pace: float) -> None:
    with suppress(OSError, EOFError), client, socket.create_connection(("127.0.0.1", port)) as store:
        store.settimeout(UPSTREAM_SECONDS_MAX)
        for connection in (client, store):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        asking, answering = _PacedStream(client), _PacedStream(store)
        while True:
            head = asking.head()
            time.sleep(latency)
            if _EXPECT.search(head):
                client.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
                head = _EXPECT.sub(b"", head)
            store.sendall(head)
            if _CHUNKED.search(head):
                asking.hand_on_chunks(store, pace)
            elif (length := _LENGTH.search(head)) is not None:
                asking.hand_on(int(length[1]), store, pace)
            answer = answering.head()
            client.sendall(answer)
            if head.startswith(b"HEAD ") or answer.split(b" ", 2)[1] in _NO_BODY:
                continue
            if _CHUNKED.search(answer):
                answering.hand_on_chunks(client, pace)
            elif (length := _LENGTH.search(answer)) is not None:
                answering.hand_on(int(length[1]), client, pace)


def _accept(listener: socket.socket, port: int, latency: float, pace: float) -> None:
    while True:
        client, _ = listener.accept()
        threading.Thread(target=_serve, args=(client, port, latency, pace), daemon=True).start()


def main() -> None:
    """Serve until the input ends, which happens when the parent process ends."""
    port, latency, pace = int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3])
    listener = socket.create_server(("127.0.0.1", 0), backlog=256)
    print(listener.getsockname()[1], flush=True)
    threading.Thread(target=_accept, args=(listener, port, latency, pace), daemon=True).start()
    sys.stdin.read()


if __name__ == "__main__":
    main()
