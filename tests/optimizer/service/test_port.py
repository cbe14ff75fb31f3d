"""The scheduler's port over real sockets: registration, the catalog sent to workers, and malformed clients."""

import itertools
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass

import pytest

from interbed.optimizer.flow.process import (
    JournalError,
    NoSchedulerError,
    ResultStatus,
    TaskOutcome,
    TaskRef,
    UnknownWorkerError,
    WorkerRefusedError,
)
from interbed.optimizer.flow.tables import ResourceGroup
from interbed.optimizer.journal.api import JournalChanges, Lease, MemoryJournal
from interbed.optimizer.scheduling.needs import SchedulerSettings
from interbed.optimizer.scheduling.scheduler import Scheduler
from interbed.optimizer.service.port import CatalogForWorkers, SchedulerCalls, WorkerPort
from interbed.optimizer.service.scheduler_client import SchedulerClient, scheduler_addresses
from interbed.optimizer.service.service import Leadership
from interbed.storage.base.errors import InvalidOptionError
from interbed.thrift_idl.optimizing.constants import VERSION
from tests.support.waits import at_most

pytestmark = pytest.mark.integration

LEASE = 60_000
OPTIONS = {
    "warehouse": "file:/lake",
    "s3.secret-key": "hidden",
    "fs.azure.account.key": "hidden too",
    "optimizer.db": "postgresql://user:password@host/journal",
}


class BreakingJournal(MemoryJournal):
    """A journal that refuses changes after `is_broken` was set."""

    is_broken = False

    def store(self, lease: Lease, changes: JournalChanges) -> None:
        if self.is_broken:
            raise JournalError("the database is gone")
        super().store(lease, changes)


@dataclass
class PortHarness:
    """A scheduler with its port, and a client."""

    journal: BreakingJournal
    leadership: Leadership
    port: WorkerPort
    client: SchedulerClient

    def enter(self, *, version: int = VERSION, group: str = "default", threads: int = 1) -> str:
        seat = self.client.enter(version=version, group=group, threads=threads, memory=1 << 20, place="here:1")
        worker: str = seat.workerId
        return worker

    def begin(self) -> None:
        """Acquire the lease and start to schedule."""
        lease = self.journal.acquire("me", 0, LEASE)
        assert lease is not None
        numbers = itertools.count(1)
        scheduler = Scheduler(
            self.journal,
            lease,
            {"default": ResourceGroup()},
            SchedulerSettings(),
            clock=lambda: 0,
            new_id=lambda: str(next(numbers)),
        )
        self.leadership.begin(scheduler)


@pytest.fixture
def harness() -> Iterator[PortHarness]:
    leadership = Leadership()
    calls = SchedulerCalls(leadership, CatalogForWorkers.of("lake", OPTIONS), LEASE)
    with closing(WorkerPort("127.0.0.1", 0, calls)) as port, closing(SchedulerClient(port.uri)) as client:
        made = PortHarness(BreakingJournal(), leadership, port, client)
        made.begin()
        yield made


def test_a_worker_receives_the_catalog_without_its_secrets(harness: PortHarness) -> None:
    seat = harness.client.enter(version=VERSION, group="default", threads=2, memory=5, place="there:7")
    assert (seat.catalogName, dict(seat.catalogOptions)) == ("lake", {"warehouse": "file:/lake"})
    assert seat.leaseMillis == LEASE
    (worker,) = harness.leadership.ask(lambda s: s.workers())
    assert (worker.id, worker.group, worker.threads, worker.memory, worker.place) == (
        seat.workerId,
        "default",
        2,
        5,
        "there:7",
    )


def test_another_protocol_version_is_refused_by_number(harness: PortHarness) -> None:
    with pytest.raises(WorkerRefusedError, match=f"version {VERSION} of its interface, .* version {VERSION + 1}"):
        harness.enter(version=VERSION + 1)


def test_an_unknown_group_is_refused_by_name(harness: PortHarness) -> None:
    with pytest.raises(WorkerRefusedError, match=r"no group 'night'; there are default"):
        harness.enter(group="night")
    with pytest.raises(WorkerRefusedError, match="1 to 1024 threads"):
        harness.enter(threads=0)


def test_a_standby_refuses_calls_with_a_reason(harness: PortHarness) -> None:
    worker = harness.enter()
    assert harness.client.poll(worker, 1) == []
    harness.leadership.end()
    ref = TaskRef(process="p", number=0, attempt=1)
    for call in (
        lambda: harness.client.poll(worker, 1),
        lambda: harness.client.beat(worker, []),
        lambda: harness.client.complete(ref, TaskOutcome()),
        lambda: harness.client.leave(worker),
        harness.enter,
    ):
        with pytest.raises(NoSchedulerError, match="does not schedule"):
            call()
    harness.begin()
    with pytest.raises(UnknownWorkerError):
        harness.client.poll(worker, 1)
    assert harness.client.poll(harness.enter(), 1) == []


def test_results_of_unknown_processes_are_answered_as_unknown(harness: PortHarness) -> None:
    ref = TaskRef(process="p", number=0, attempt=1)
    failure = "a \0 and half a \udc00 character"
    assert harness.client.complete(ref, TaskOutcome(failure=failure)) is ResultStatus.UNKNOWN
    assert harness.client.beat(harness.enter(), [ref]) == [ref]


def test_a_journal_that_refuses_a_change_ends_the_leadership(harness: PortHarness) -> None:
    harness.journal.is_broken = True
    with pytest.raises(NoSchedulerError, match="the database is gone"):
        harness.enter()
    assert not harness.leadership.is_on
    # The thread that makes steps is woken, to acquire the lease and load the state again.
    harness.leadership.wait(0)
    harness.journal.is_broken = False
    with pytest.raises(NoSchedulerError):
        harness.enter()
    harness.begin()
    harness.enter()


def test_the_client_tries_the_next_address_after_a_standby(harness: PortHarness) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        free = taken.getsockname()[1]
    idle = Leadership()
    calls = SchedulerCalls(idle, CatalogForWorkers.of("lake", {}), LEASE)
    with closing(WorkerPort("127.0.0.1", 0, calls)) as other:
        uri = f"thrift://127.0.0.1:{free},{other.uri},{harness.port.uri}"
        with closing(SchedulerClient(uri)) as client:
            for _ in range(2):
                client.enter(version=VERSION, group="default", threads=1, memory=1, place="here:1")


@pytest.mark.parametrize(
    "said",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x80\x01\x00\x01\x7f\xff\xff\xff",
        b"\x80\x01\x00\x01\x00\x00\x00\x04poll\x00\x00\x00\x01\x0b\x00\x01\x7f\xff\xff\xff",
        b"\x00" * 100,
        b"",
    ],
    ids=["http", "long name", "long text", "zeros", "nothing"],
)
def test_malformed_clients_are_disconnected_and_others_are_answered(harness: PortHarness, said: bytes) -> None:
    host, port = scheduler_addresses(harness.port.uri)[0]
    with socket.create_connection((host, port), timeout=at_most(20)) as scanner:
        scanner.sendall(said)
        scanner.shutdown(socket.SHUT_WR)
        worker = harness.enter()
        while scanner.recv(100):
            # For zeros the answer is that there is no such method.
            continue
    assert harness.client.poll(worker, 1) == []


def test_an_incomplete_message_does_not_keep_the_port_from_closing() -> None:
    before = threading.active_count()
    calls = SchedulerCalls(Leadership(), CatalogForWorkers.of("lake", {}), LEASE)
    port = WorkerPort("127.0.0.1", 0, calls)
    half = socket.create_connection(scheduler_addresses(port.uri)[0])
    with half, closing(SchedulerClient(port.uri)) as client:
        half.sendall(b"\x80\x01\x00\x01\x00")
        with pytest.raises(NoSchedulerError):
            client.poll("me", 1)
        port.close()
        assert threading.active_count() == before
        with pytest.raises(NoSchedulerError):
            client.poll("me", 1)


@pytest.mark.parametrize(
    "uri", ["", "host:1", "http://host:1", "thrift://host", "thrift://host:x", "thrift://host:1/a"]
)
def test_an_invalid_address_is_named(uri: str) -> None:
    with pytest.raises(InvalidOptionError, match=r"it has to look like thrift://host:port"):
        SchedulerClient(uri)


def test_addresses_are_parsed() -> None:
    found: Sequence[tuple[str, int]] = scheduler_addresses("thrift://a:1, thrift://[::1]:2")
    assert found == [("a", 1), ("::1", 2)]
