"""Contention for one metastore lock: commits a second, the longest commit, and the cost of a killed lock holder.

    python -m tests.benchmarks.lock_contention [--writers 8] [--killed 3] [--seconds 20] [--server interbed]
        [--lock true] [--json]
    python -m tests.benchmarks.lock_contention --raw [--seconds 10] [--json]

Each writer is a process that upserts rows into one table of a local disk. `--lock` is `lock.enabled`. The local commit
queue, by which writers of one machine take turns, is off, so that they contend as writers on different machines do.
First all writers commit. Then `--killed` of them are ended by SIGKILL, one while it holds the lock, and the others are
measured for the same time again.

With `--lock auto` no writer holds a lock of the metastore, so that none is killed.

`--server java` is Hive's metastore 4.0.1 on Derby. It needs `--killed 0`: its leases run out by a service that is not
part of it here. On Derby two calls of `check_lock` for one table fail each other: each keeps its row locked while it
waits for the metastore's mutex, and the holder of the mutex reads all rows. Eleven writers that polled so spent 2.6 s
in a check and 4.7 s in a request, nearly all of which failed. Calls of `lock` and `unlock` hold no row while they wait,
so the client withdraws and repeats its request there (`hive/lock.py`). Polling made 0.3 to 0.45 commits a
second with eight writers, and none in a minute with eleven. Repeated requests make 4.2 with eleven writers on two
cores, and 1.9 to 3.1 with eight while other work keeps both cores busy (load 8 to 11). Then a commit spends 0.09 s in
get_table and 0.17 s in alter_table under the lock, and a request takes 0.4 s: the limit is the processor.

`--raw` measures single calls: eight clients that hold the lock for 50 ms and poll every 10, 50 and 200 ms while they
wait, and the same clients while 200 others wait for the lock of another table. The limit is 20 locks a second.
"""

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import interbed
from interbed.catalog.client.hive.client import HiveMetastoreClient
from interbed.storage.commit import publication
from interbed.storage.commit.contention import LocalCommitLock
from interbed.testing import metastore
from interbed.thrift_idl.hive_metastore.ttypes import LockState, LockType
from tests.catalog.writer_process import SCHEMA, TABLE, rows
from tests.support.servers.java_metastore import running_java_metastore
from tests.support.servers.metastore import lock_component, lock_request

ROOT = Path(__file__).resolve().parents[2]
HELD_SECONDS = 0.05
WAITERS = 200
LATE_SECONDS_MAX = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ContentionFigures:
    """Figures of a run; those with `_after` are of the surviving writers."""

    server: str
    writers: int
    commits_a_second: float
    longest_seconds: float
    killed: int
    seconds_to_next_commit: float
    commits_a_second_after: float
    longest_seconds_after: float


class NoQueue(LocalCommitLock):
    """A commit queue that never excludes another writer."""

    def take(self, timeout_seconds: float) -> bool:
        """Return without the lock."""
        return False


@contextlib.contextmanager
def server(kind: str) -> Iterator[str]:
    """Run a metastore, and yield its uri."""
    if kind == "interbed":
        with metastore() as uri:
            yield uri
    else:
        with running_java_metastore("4.0.1") as running:
            yield running.uri


def contention(kind: str, *, writers: int, killed: int, seconds: float, lock: str = "true") -> ContentionFigures:
    """Measure all writers, kill some of them, and measure the others."""
    with tempfile.TemporaryDirectory(prefix="interbed-contention-") as directory, server(kind) as uri:
        options = {"metastore": "hive", "uri": uri, "warehouse": f"file:{directory}/lake", "lock.enabled": lock}
        with interbed.CatalogFactory.create(options) as catalog:
            catalog.create_database("shop")
            catalog.create_table(TABLE, SCHEMA, primary_keys=["id"], options={"bucket": "1", "write-only": "true"})
        logs = [Path(directory) / f"commits-{number}" for number in range(writers + killed)]
        started = [_writer(options, number, log) for number, log in enumerate(logs)]
        try:
            _until(lambda: all(log.exists() and log.read_text() for log in logs), LATE_SECONDS_MAX)
            began = time.time()
            time.sleep(seconds)
            ended = time.time()
            left: list[Path] = []
            killed_at = stopped = ended
            if killed:
                victims = _kill(uri, started, killed)
                killed_at = time.time()
                left = [log for number, log in enumerate(logs) if started[number] not in victims]
                _until(lambda: any(end > killed_at for _, end in _commits(left)), LATE_SECONDS_MAX * 4)
                time.sleep(seconds)
                stopped = time.time()
        finally:
            for process in started:
                process.kill()
                process.wait(timeout=LATE_SECONDS_MAX)
        before = [each for each in _commits(logs) if began <= each[1] <= ended]
        after = [each for each in _commits(left) if each[1] > killed_at]
        first = min((end for _, end in after), default=killed_at)
    return ContentionFigures(
        server=kind,
        writers=writers,
        commits_a_second=len(before) / (ended - began),
        longest_seconds=max((end - begin for begin, end in before), default=ended - began),
        killed=killed,
        seconds_to_next_commit=first - killed_at,
        commits_a_second_after=sum(end > first for _, end in after) / (stopped - first) if after else 0.0,
        longest_seconds_after=max((end - max(begin, first) for begin, end in after), default=0.0),
    )


def _writer(options: dict[str, str], number: int, log: Path) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [
            sys.executable,
            "-m",
            "tests.benchmarks.lock_contention",
            "--work",
            json.dumps(options),
            str(number),
            str(log),
        ],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": ":".join(p for p in sys.path if p)},
    )


def work(options: dict[str, str], writer: int, log: Path) -> None:
    """Commit until the process is killed, and write the begin and the end of each commit to the log."""
    publication.LocalCommitLock = NoQueue  # type: ignore[attr-defined]
    with interbed.CatalogFactory.create(options) as catalog, log.open("w", buffering=1) as lines:
        table = catalog.get_table(TABLE)
        for number in range(1_000_000):
            began = time.time()
            table.upsert(rows(writer, number))
            lines.write(f"{began} {time.time()}\n")


def _commits(logs: Sequence[Path]) -> list[tuple[float, float]]:
    found = []
    for log in logs:
        for line in log.read_text().splitlines(keepends=True):
            if line.endswith("\n"):
                begin, end = line.split()
                found.append((float(begin), float(end)))
    return sorted(found, key=lambda each: each[1])


def _kill(uri: str, started: "Sequence[subprocess.Popen[bytes]]", count: int) -> "list[subprocess.Popen[bytes]]":
    """Kill `count` writers, one of them while it holds the lock, and return them."""
    by_id = {process.pid: process for process in started}
    deadline = time.monotonic() + LATE_SECONDS_MAX
    with HiveMetastoreClient(uri) as client:
        while time.monotonic() < deadline:
            holder = _holder(client)
            if holder not in by_id:
                continue
            os.kill(holder, signal.SIGSTOP)
            # The writer may have released the lock just before.
            time.sleep(0.1)
            if _holder(client) == holder:
                victims = [by_id[holder], *[each for each in started if each.pid != holder][: count - 1]]
                for victim in victims:
                    victim.kill()
                return victims
            os.kill(holder, signal.SIGCONT)
    raise RuntimeError("no writer was stopped while it held the lock")


def _holder(client: HiveMetastoreClient) -> int | None:
    for element in client.show_locks():
        if element.state == LockState.ACQUIRED and (element.agentInfo or "").startswith("interbed-"):
            return int(element.agentInfo.split("-")[1])
    return None


def _until(condition: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise RuntimeError(f"nothing happened within {seconds:.0f} s")
        time.sleep(0.05)


def raw(uri: str, *, poll_seconds: float, seconds: float, waiting: int = 0) -> float:
    """Return the locks a second of eight clients."""
    counts = [0] * 8
    until = time.monotonic() + seconds
    request = lock_request(lock_component(LockType.EXCLUSIVE, "d", "t"))

    def acquire(client: HiveMetastoreClient, lock_id: int, state: int, pause: float) -> bool:
        while state == LockState.WAITING:
            if time.monotonic() > until + LATE_SECONDS_MAX:
                return False
            time.sleep(pause)
            state = client.check_lock(lock_id).state
        return True

    def hold(number: int) -> None:
        with HiveMetastoreClient(uri, timeout_seconds=LATE_SECONDS_MAX) as client:
            while time.monotonic() < until:
                lock = client.lock(request)
                if acquire(client, lock.lockid, lock.state, poll_seconds):
                    time.sleep(HELD_SECONDS)
                client.unlock(lock.lockid)
                counts[number] += 1

    ended = threading.Event()

    def wait(blocked: bool) -> None:
        other = lock_request(lock_component(LockType.EXCLUSIVE, "d", "other"))
        with HiveMetastoreClient(uri, timeout_seconds=LATE_SECONDS_MAX) as client:
            lock = client.lock(other)
            while blocked and not ended.wait(0.1):
                client.check_lock(lock.lockid)
            ended.wait()
            client.unlock(lock.lockid)

    others = [threading.Thread(target=wait, args=(bool(number),)) for number in range(waiting + 1 if waiting else 0)]
    clients = [threading.Thread(target=hold, args=(number,)) for number in range(8)]
    for thread in (*others, *clients):
        thread.start()
    for thread in clients:
        thread.join()
    ended.set()
    for thread in others:
        thread.join()
    return sum(counts) / seconds


def main() -> None:
    """Parse the command line, measure, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--writers", type=int, default=8)
    parser.add_argument("--killed", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--server", choices=("interbed", "java"), default="interbed")
    parser.add_argument("--lock", choices=("true", "auto"), default="true")
    parser.add_argument("--raw", action="store_true")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--work", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.work is not None:
        work(json.loads(given.work[0]), int(given.work[1]), Path(given.work[2]))
        return
    figures: dict[str, object]
    if given.raw:
        with server(given.server) as uri:
            figures = {
                f"locks_a_second_polling_{poll}_ms": raw(uri, poll_seconds=poll / 1000, seconds=given.seconds)
                for poll in (10, 50, 200)
            }
            figures["locks_a_second_with_200_waiters"] = raw(
                uri, poll_seconds=0.01, seconds=given.seconds, waiting=WAITERS
            )
    else:
        figures = asdict(
            contention(
                given.server,
                writers=given.writers,
                killed=given.killed if given.lock == "true" else 0,
                seconds=given.seconds,
                lock=given.lock,
            )
        )
    if given.json:
        print(json.dumps(figures, indent=2))
        return
    for name, value in figures.items():
        print(f"{name:40} {value:.2f}" if isinstance(value, float) else f"{name:40} {value}")


if __name__ == "__main__":
    main()
