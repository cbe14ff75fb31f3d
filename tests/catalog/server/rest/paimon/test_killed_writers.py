"""Writers of four kinds that are killed at random lose no row and write none twice: Java and pypaimon by REST, interbed
by REST, and interbed's Hive catalog with locks of the metastore.
"""

import json
import os
import random
import signal
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from interbed.catalog.client.hive.catalog import HiveCatalog
from interbed.catalog.client.options import CatalogOptions
from tests.support.peers.java import JavaPaimon
from tests.support.peers.process import PeerError, PeerProcess
from tests.support.peers.pypaimon import PyPaimon
from tests.support.servers.metastore import MetastoreUnderTest, metastore_under_test
from tests.support.servers.paimon_rest import rest_options
from tests.support.tally import Tally
from tests.support.waits import at_most, wait_until

pytestmark = pytest.mark.long

TABLE = "d.t"
COMMITS = 10
KILLS = 24
ROOT = Path(__file__).resolve().parents[5]


@dataclass(slots=True)
class JavaAppender:
    """Java Paimon by REST."""

    warehouse: str
    peer: JavaPaimon = field(default_factory=lambda: JavaPaimon(timeout_seconds=at_most(120)))

    @property
    def pid(self) -> int:
        return self.peer.pid

    def append(self, ids: list[int]) -> None:
        # Java's own builders of writers give each commit a user of its own.
        self.peer.table(self.warehouse, TABLE).write([[number] for number in ids], commit_user=str(uuid.uuid4()))

    def close(self) -> None:
        self.peer.close()


@dataclass(slots=True)
class PyPaimonAppender:
    """A writer of pypaimon by REST."""

    warehouse: str
    peer: PyPaimon = field(default_factory=lambda: PyPaimon(timeout_seconds=at_most(120)))

    @property
    def pid(self) -> int:
        return self.peer.pid

    def append(self, ids: list[int]) -> None:
        self.peer.table(self.warehouse, TABLE).write([[number] for number in ids])

    def close(self) -> None:
        self.peer.close()


class InterbedAppender:
    """interbed by the catalog of these options."""

    def __init__(self, options: dict[str, str], log: Path) -> None:
        module = "tests.catalog.server.rest.paimon.append_process"
        paths = ":".join([str(ROOT), *(part for part in sys.path if part)])
        command = [sys.executable, "-m", module, json.dumps(options), TABLE]
        self._process = PeerProcess(command, log, at_most(120), {**os.environ, "PYTHONPATH": paths})

    @property
    def pid(self) -> int:
        return self._process.pid

    def append(self, ids: list[int]) -> None:
        self._process.call("append", ids=ids)

    def close(self) -> None:
        self._process.close()


class Writer:
    """One kind of process that is started again when it was killed, and the ids that it has tried and committed."""

    def __init__(self, number: int, start: Callable[[], Any]) -> None:
        self._start = start
        self._next = number * 1_000_000
        self._guard = threading.Lock()
        self._appender: Any = None
        self.tried: set[int] = set()
        self.committed: set[int] = set()
        self.refused: list[str] = []

    def run(self) -> None:
        """Commit until enough commits are known to be made."""
        while len(self.committed) < COMMITS:
            if self._appender is None:
                started = self._start()
                with self._guard:
                    self._appender = started
            self._next += 1
            self.tried.add(self._next)
            try:
                self._appender.append([self._next])
            except PeerError as error:
                # The outcome may be unknown.
                self.refused.append(str(error))
            except (RuntimeError, BrokenPipeError, json.JSONDecodeError):
                # It was killed, perhaps in the middle of its answer.
                self._end()
            else:
                self.committed.add(self._next)
        self._end()

    def kill(self) -> bool:
        """Kill the process, if there is one."""
        with self._guard:
            if self._appender is None:
                return False
            os.kill(self._appender.pid, signal.SIGKILL)
        return True

    def _end(self) -> None:
        with self._guard:
            ended, self._appender = self._appender, None
        ended.close()


@contextmanager
def running(writers: list[Writer]) -> Iterator[list[threading.Thread]]:
    """Run writers on threads of their own until they have committed."""
    threads = [threading.Thread(target=writer.run, daemon=True) for writer in writers]
    for thread in threads:
        thread.start()
    yield threads
    for thread in threads:
        thread.join(at_most(300))
        assert not thread.is_alive()


def _wait_for_tries(writers: list[Writer], threads: list[threading.Thread], more: int) -> None:
    """Wait until the writers have begun that many more commits, or have ended."""

    def tried() -> int:
        return sum(len(writer.tried) for writer in writers)

    enough = tried() + more
    wait_until(
        lambda: tried() >= enough or not any(thread.is_alive() for thread in threads),
        lambda: f"{more} more commits are begun: {[len(writer.tried) for writer in writers]}",
        at_most(120.0),
    )


def _kinds(server: MetastoreUnderTest, log: Path) -> list[Callable[[], Any]]:
    url = f"{server.http}/paimon"
    by_rest = rest_options(url, "hive")
    by_hive = {"metastore": "hive", "uri": server.uri, "lock.enabled": "true"}
    return [
        lambda: JavaAppender(url),
        lambda: PyPaimonAppender(url),
        lambda: InterbedAppender(by_rest, log),
        lambda: InterbedAppender(by_hive, log),
    ]


def test_eight_writers_of_four_kinds_that_are_killed_lose_nothing(tmp_path: Path, tally: Tally) -> None:
    chosen = random.Random(7)
    arguments = ("--http-port", "0", "--lock-disconnect-seconds", "1")
    with (
        metastore_under_test(f"sqlite:///{tmp_path / 'metastore.db'}", tmp_path, *arguments) as server,
        HiveCatalog("hive", CatalogOptions({"metastore": "hive", "uri": server.uri})) as catalog,
    ):
        catalog.create_database("d")
        catalog.create_table(TABLE, pa.schema([("id", pa.int64())]))
        writers = [Writer(number, start) for number, start in enumerate(2 * _kinds(server, tmp_path / "writers.log"))]
        killed = 0
        with running(writers) as threads:
            while killed < KILLS and any(thread.is_alive() for thread in threads):
                _wait_for_tries(writers, threads, chosen.randrange(1, 6))
                killed += chosen.choice(writers).kill()
        table = catalog.get_table(TABLE)
        found = [row["id"] for row in table.to_arrow().to_pylist()]
        assert len(found) == len(set(found))
        assert set().union(*(writer.committed for writer in writers)) <= set(found)
        assert set(found) <= set().union(*(writer.tried for writer in writers))
        ids = [each.id for each in table.snapshots()]
        assert ids == list(range(ids[0], ids[0] + len(ids)))
        assert all(len(writer.committed) == COMMITS for writer in writers)
    assert killed >= KILLS // 2
    tally("killed writers of four kinds", killed)
