"""The scheduler's port over real sockets: who may register, what is told of the catalog, and bad clients."""

import itertools
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass

import pytest

from interbed.optimizer.errors import JournalError, NoSchedulerError, UnknownWorkerError, WorkerRefusedError
from interbed.optimizer.flow.group import ResourceGroup
from interbed.optimizer.flow.process import ResultStatus, TaskOutcome, TaskRef
from interbed.optimizer.journal.api import JournalChanges, Lease, MemoryJournal
from interbed.optimizer.scheduling.scheduler import Scheduler
from interbed.optimizer.scheduling.settings import SchedulerSettings
from interbed.optimizer.service.leadership import Leadership
from interbed.optimizer.service.port import CatalogForWorkers, SchedulerCalls, WorkerPort
from interbed.optimizer.service.scheduler_client import SchedulerClient, scheduler_addresses
from interbed.storage.base.errors import InvalidOptionError
from interbed.thrift_idl.optimizing.constants import VERSION

pytestmark = pytest.mark.integration

LEASE = 60_000
OPTIONS = {
    "warehouse": "file:/lake",
    "s3.secret-key": "hidden",
    "fs.azure.account.key": "hidden too",
    "optimizer.db": "postgresql://user:password@host/journal",
}


class BreakingJournal(MemoryJournal):
    """A journal that refuses changes from some time on."""

    is_broken = False

    def store(self, lease: Lease, changes: JournalChanges) -> None:
        if self.is_broken:
            raise JournalError("the database is gone")
        super().store(lease, changes)


@dataclass
class Desk:
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
        """Schedule."""
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
def desk() -> Iterator[Desk]:
    leadership = Leadership()
    calls = SchedulerCalls(leadership, CatalogForWorkers.of("lake", OPTIONS), LEASE)
    with closing(WorkerPort("127.0.0.1", 0, calls)) as port, closing(SchedulerClient(port.uri)) as client:
        made = Desk(BreakingJournal(), leadership, port, client)
        made.begin()
        yield made


def test_a_worker_is_told_the_catalog_without_its_secrets(desk: Desk) -> None:
    seat = desk.client.enter(version=VERSION, group="default", threads=2, memory=5, place="there:7")
    assert (seat.catalogName, dict(seat.catalogOptions)) == ("lake", {"warehouse": "file:/lake"})
    assert seat.leaseMillis == LEASE
    (worker,) = desk.leadership.ask(lambda s: s.workers())
    assert (worker.id, worker.group, worker.threads, worker.memory, worker.place) == (
        seat.workerId,
        "default",
        2,
        5,
        "there:7",
    )


def test_another_version_is_refused_by_name(desk: Desk) -> None:
    with pytest.raises(WorkerRefusedError, match=f"version {VERSION} of its interface, .* version {VERSION + 1}"):
        desk.enter(version=VERSION + 1)


def test_a_group_that_there_is_not_is_refused_by_name(desk: Desk) -> None:
    with pytest.raises(WorkerRefusedError, match=r"no group 'night'; there are default"):
        desk.enter(group="night")
    with pytest.raises(WorkerRefusedError, match="1 to 1024 threads"):
        desk.enter(threads=0)


def test_one_that_does_not_schedule_says_so(desk: Desk) -> None:
    worker = desk.enter()
    assert desk.client.poll(worker, 1) == []
    desk.leadership.end()
    ref = TaskRef(process="p", number=0, attempt=1)
    for call in (
        lambda: desk.client.poll(worker, 1),
        lambda: desk.client.beat(worker, []),
        lambda: desk.client.complete(ref, TaskOutcome()),
        lambda: desk.client.leave(worker),
        desk.enter,
    ):
        with pytest.raises(NoSchedulerError, match="does not schedule"):
            call()
    desk.begin()
    with pytest.raises(UnknownWorkerError):
        desk.client.poll(worker, 1)
    assert desk.client.poll(desk.enter(), 1) == []


def test_what_a_worker_brings_of_a_process_that_is_not_known_is_left(desk: Desk) -> None:
    ref = TaskRef(process="p", number=0, attempt=1)
    failure = "a \0 and half a \udc00 character"
    assert desk.client.complete(ref, TaskOutcome(failure=failure)) is ResultStatus.UNKNOWN
    assert desk.client.beat(desk.enter(), [ref]) == [ref]


def test_a_journal_that_refuses_ends_the_duty(desk: Desk) -> None:
    desk.journal.is_broken = True
    with pytest.raises(NoSchedulerError, match="the database is gone"):
        desk.enter()
    assert not desk.leadership.is_on
    # Whoever takes steps is woken, to make everything anew.
    desk.leadership.wait(0)
    desk.journal.is_broken = False
    with pytest.raises(NoSchedulerError):
        desk.enter()
    desk.begin()
    desk.enter()


def test_the_next_address_is_tried_when_one_does_not_schedule(desk: Desk) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        free = taken.getsockname()[1]
    idle = Leadership()
    calls = SchedulerCalls(idle, CatalogForWorkers.of("lake", {}), LEASE)
    with closing(WorkerPort("127.0.0.1", 0, calls)) as other:
        uri = f"thrift://127.0.0.1:{free},{other.uri},{desk.port.uri}"
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
def test_whoever_scans_ports_is_hung_up_on_and_others_are_answered(desk: Desk, said: bytes) -> None:
    host, port = scheduler_addresses(desk.port.uri)[0]
    with socket.create_connection((host, port), timeout=20) as scanner:
        scanner.sendall(said)
        scanner.shutdown(socket.SHUT_WR)
        worker = desk.enter()
        while scanner.recv(100):
            # Of zeros it says that there is no such method.
            continue
    assert desk.client.poll(worker, 1) == []


def test_a_client_that_says_half_a_message_does_not_keep_the_port_from_closing() -> None:
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
def test_an_address_is_named_that_is_none(uri: str) -> None:
    with pytest.raises(InvalidOptionError, match=r"it has to look like thrift://host:port"):
        SchedulerClient(uri)


def test_addresses_are_taken_apart() -> None:
    found: Sequence[tuple[str, int]] = scheduler_addresses("thrift://a:1, thrift://[::1]:2")
    assert found == [("a", 1), ("::1", 2)]
