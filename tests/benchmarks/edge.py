"""The catalog server under hostile clients: latency of a healthy client, memory, and time to shut down.

    python -m tests.benchmarks.edge [--clients 500] [--seconds 10] [--workers 1] [--only unread|silent|partial|slow]

unread: clients send requests with replies of 1 MB each, without pause, and never read. silent: tables are created at
name nodes that accept connections and never answer. partial: clients send the beginning of a message of up to 100 MB.
slow: message heads arrive byte by byte, buffered, framed, compact and over HTTP. The figures of each are the p50 and
p99 of cached and uncached calls of a healthy client meanwhile, the peak memory of the server's processes, and the
seconds from SIGTERM until they have ended.
"""

import argparse
import contextlib
import json
import resource
import socket
import struct
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

import psutil

from interbed.catalog.client.hive.client import HiveMetastoreClient
from interbed.catalog.server.process.command import RunningServer, start_server, stop_server
from interbed.thrift_idl.hive_metastore import ttypes
from tests.support.servers.metastore import plain_client, table
from tests.support.servers.raw_thrift import call, reluctant, text

REPLY_BYTES = 1_000_000
PIPELINED = 50
CALL_SECONDS_MAX = 120


@dataclass(slots=True, kw_only=True)
class EdgeResult:
    """Measurements with one kind of client; times in milliseconds, memory in MB."""

    kind: str
    cached_ms: list[float] = field(default_factory=list)
    uncached_ms: list[float] = field(default_factory=list)
    memory_mb: float = 0.0
    end_seconds: float = 0.0

    def shown(self) -> dict[str, object]:
        """Return the figures, with percentiles in place of the series."""
        figures: dict[str, object] = {k: v for k, v in asdict(self).items() if not isinstance(v, list)}
        for name, series in (("cached", self.cached_ms), ("uncached", self.uncached_ms)):
            ordered = sorted(series)
            if ordered:
                figures[f"{name}_calls"] = len(ordered)
                figures[f"{name}_p50_ms"] = round(ordered[len(ordered) // 2], 2)
                figures[f"{name}_p99_ms"] = round(ordered[int(len(ordered) * 0.99)], 2)
                figures[f"{name}_max_ms"] = round(ordered[-1], 2)
        return figures


def run(kind: str, *, clients: int, seconds: float, arguments: tuple[str, ...] = ()) -> EdgeResult:
    """Run a server with clients of one kind, and measure."""
    result = EdgeResult(kind=kind)
    with tempfile.TemporaryDirectory(prefix="interbed-edge-") as name, ExitStack() as stack:
        directory = Path(name)
        warehouse = f"file:{directory / 'warehouse'}"
        running = start_server(f"sqlite:///{directory / 'm.db'}", warehouse, *arguments, log=directory / "server.log")
        stack.callback(stop_server, running)
        with HiveMetastoreClient(running.uri, timeout_seconds=CALL_SECONDS_MAX) as client:
            client.create_table(table("default", "big", parameters={"text": "x" * REPLY_BYTES}))
            client.create_table(table("default", "small"))
        port = int(running.uri.rpartition(":")[2])
        stack.enter_context(_memory_of(running, result))
        _KINDS[kind](stack, port, clients)
        _measure(port, seconds, result)
        began = time.monotonic()
        running.process.terminate()
        running.process.wait(timeout=CALL_SECONDS_MAX)
        result.end_seconds = round(time.monotonic() - began, 2)
    return result


def _measure(port: int, seconds: float, result: EdgeResult) -> None:
    ends = time.monotonic() + seconds
    number = 0
    with plain_client(port) as client:
        while time.monotonic() < ends:
            number += 1
            began = time.monotonic()
            client.get_table("default", "small")
            between = time.monotonic()
            # A changing limit makes each request a cache miss.
            client.get_partition_names("default", "small", number)
            result.cached_ms.append((between - began) * 1000)
            result.uncached_ms.append((time.monotonic() - between) * 1000)
            time.sleep(0.005)


@contextmanager
def _memory_of(running: RunningServer, result: EdgeResult) -> Iterator[None]:
    done = threading.Event()
    root = psutil.Process(running.process.pid)

    def sample() -> None:
        while not done.wait(0.05):
            with contextlib.suppress(psutil.Error):
                size = sum(each.memory_info().rss for each in (root, *root.children(recursive=True)))
                result.memory_mb = max(result.memory_mb, round(size / 1e6, 1))

    sampler = threading.Thread(target=sample)
    sampler.start()
    try:
        yield
    finally:
        done.set()
        sampler.join()


def _unread(stack: ExitStack, port: int, clients: int) -> None:
    cached = call("get_table", text(1, "default") + text(2, "big") + b"\x00")
    for number in range(clients):
        # Every second request is a cache miss.
        uncached = call("get_table_objects_by_name", text(1, "default") + _names("big", f"none_{number}"))
        stack.enter_context(reluctant(port, CALL_SECONDS_MAX)).sendall((cached if number % 2 else uncached) * PIPELINED)


def _names(*names: str) -> bytes:
    listed = b"".join(struct.pack("!i", len(each)) + each.encode() for each in names)
    return struct.pack("!bhbi", 15, 2, 11, len(names)) + listed + b"\x00"


def _silent(stack: ExitStack, port: int, clients: int) -> None:
    for number in range(min(clients, 70)):
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=64))
        location = f"hdfs://127.0.0.1:{listener.getsockname()[1]}/x"

        def create(number: int = number, location: str = location) -> None:
            with (
                contextlib.suppress(ttypes.MetaException, OSError, Exception),
                HiveMetastoreClient(f"thrift://127.0.0.1:{port}", timeout_seconds=CALL_SECONDS_MAX) as client,
            ):
                while True:
                    client.create_table(table("default", f"s_{number}", location=location, table_type="EXTERNAL_TABLE"))

        threading.Thread(target=create, daemon=True).start()


def _partial(stack: ExitStack, port: int, clients: int) -> None:
    head = call("get_database", struct.pack("!bhi", 11, 1, 100_000_000))
    small = call("get_database", struct.pack("!bhi", 11, 1, 15_900_000))
    for number in range(min(clients, 80)):
        connection = stack.enter_context(reluctant(port, CALL_SECONDS_MAX))
        with contextlib.suppress(OSError):
            connection.sendall(head if number % 2 else small)
            connection.sendall(b"x" * 15_000_000)


def _slow(stack: ExitStack, port: int, clients: int) -> None:
    whole = call("get_database", text(1, "default") + b"\x00")
    connections = [stack.enter_context(reluctant(port, CALL_SECONDS_MAX)) for _ in range(clients)]

    def drip() -> None:
        for number in range(len(whole) - 1):
            for connection in connections:
                with contextlib.suppress(OSError):
                    connection.send(whole[number : number + 1])
            time.sleep(0.05)

    threading.Thread(target=drip, daemon=True).start()


_KINDS: dict[str, Callable[[ExitStack, int, int], None]] = {
    "unread": _unread,
    "silent": _silent,
    "partial": _partial,
    "slow": _slow,
}


def main() -> None:
    """Parse the command line, measure, and print JSON lines."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--only", choices=list(_KINDS), action="append")
    given = parser.parse_args()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    for kind in given.only or _KINDS:
        arguments = ("--workers", str(given.workers))
        found = run(kind, clients=given.clients, seconds=given.seconds, arguments=arguments)
        print(json.dumps(found.shown()), flush=True)


if __name__ == "__main__":
    main()
