"""Requests for the end offsets of logs: one connection to each log is kept for later requests, closed when unused."""

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from threading import Barrier, Event, Thread
from typing import TypeVar

import pytest

from interbed.storage.base.errors import LogUnavailableError
from interbed.storage.log.kafka import LogSettings
from interbed.storage.log.kafka_eventual import KafkaWrittenRanges, LogBounds, forget_senders
from interbed.storage.log.written import WrittenRange, WrittenRow
from interbed.storage.views.stream.eventual_batches import EventualBatches
from tests.storage.log.tables import create
from tests.support.servers.kafka import KafkaServer, running_kafka
from tests.support.waits import at_most

_Answer = TypeVar("_Answer")


class Connection:
    """A WrittenRanges without a log behind it, which records requests and its end."""

    def __init__(self, settings: LogSettings) -> None:
        self.topic = settings.topic
        self.questions = 0
        self.closed = Event()
        self.meanwhile: Callable[[], None] = lambda: None

    @property
    def is_closed(self) -> bool:
        return self.closed.is_set()

    def bounds(self) -> WrittenRange:
        assert not self.is_closed
        self.questions += 1
        self.meanwhile()
        return WrittenRange({0: 0}, {0: self.questions})

    def between(self, partition: int, begin: int, end: int) -> Iterator[Sequence[WrittenRow]]:
        raise NotImplementedError

    def close(self) -> None:
        assert not self.is_closed
        self.closed.set()


class FakeEnvironment:
    """Fakes of everything that the bounds depend on: connections, the clock, timers and the process id."""

    def __init__(self, most: int = 3) -> None:
        self.made: list[Connection] = []
        self.now = 0.0
        self.timers: list[tuple[float, Callable[[], None]]] = []
        self.process = 1
        self.meanwhile: Callable[[], None] = lambda: None
        self.bounds = LogBounds(
            self._connect,
            most=most,
            idle_seconds=60,
            clock=lambda: self.now,
            later=lambda seconds, call: self.timers.append((self.now + seconds, call)),
            process=lambda: self.process,
        )

    def _connect(self, settings: LogSettings) -> Connection:
        self.made.append(Connection(settings))
        self.made[-1].meanwhile = self.meanwhile
        return self.made[-1]

    def ask(self, topic: str) -> int:
        """Return the end of the topic's log, which is the number of requests of its connection."""
        found = self.bounds.of(settings_of(topic))
        assert found is not None
        return found.ends[0]

    def wait_until(self, now: float) -> None:
        """Advance the clock, and fire the timers that are due."""
        while due := [timer for timer in self.timers if timer[0] <= now]:
            first = min(due, key=lambda timer: timer[0])
            self.timers.remove(first)
            self.now = first[0]
            first[1]()
        self.now = now

    @property
    def open(self) -> list[str]:
        """The topics of the connections that are open."""
        return [connection.topic for connection in self.made if not connection.is_closed]


def settings_of(topic: str) -> LogSettings:
    return LogSettings(topic=topic, servers="", partitions=1, retention_millis=None, settings={})


def test_a_second_request_to_a_log_uses_the_same_connection() -> None:
    world = FakeEnvironment()
    assert [world.ask("a") for _ in range(5)] == [1, 2, 3, 4, 5]
    assert world.ask("b") == 1
    assert world.open == ["a", "b"]


def test_after_an_error_a_new_connection_is_opened() -> None:
    world = FakeEnvironment()
    world.ask("a")

    def fail() -> None:
        raise LogUnavailableError("The log can't be read.")

    world.made[0].meanwhile = fail
    with pytest.raises(LogUnavailableError):
        world.ask("a")
    assert world.open == []
    assert world.ask("a") == 1


def test_an_unused_connection_is_closed() -> None:
    world = FakeEnvironment()
    world.ask("a")
    for now in range(20, 200, 20):
        world.wait_until(now)
        world.ask("b")
        # There is one timer, however often a log is asked.
        assert len(world.timers) == 1
    assert world.open == ["b"]
    world.wait_until(at_most(400))
    assert world.open == []
    assert world.timers == []
    assert world.ask("b") == 1


def test_a_thread_closes_unused_connections() -> None:
    made: list[Connection] = []

    def connect(settings: LogSettings) -> Connection:
        made.append(Connection(settings))
        return made[-1]

    LogBounds(connect, idle_seconds=0).of(settings_of("a"))
    assert made[0].closed.wait(at_most(30))


def test_the_least_recently_used_of_many_connections_is_closed() -> None:
    world = FakeEnvironment(most=2)
    for topic in "abac":
        world.ask(topic)
    assert world.open == ["a", "c"]


def test_concurrent_threads_have_a_connection_each_and_one_is_kept() -> None:
    world = FakeEnvironment()
    together = Barrier(3)

    def wait_for_the_others() -> None:
        together.wait(at_most(30))

    world.meanwhile = wait_for_the_others
    threads = [Thread(target=world.ask, args=("a",)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(at_most(30))
    assert [connection.questions for connection in world.made] == [1, 1, 1]
    assert world.open == ["a"]


def test_a_forked_process_does_not_touch_the_connections_of_its_parent() -> None:
    world = FakeEnvironment()
    world.ask("a")
    world.process = 2
    assert [world.ask("a"), world.ask("a")] == [1, 2]
    world.wait_until(at_most(400))
    world.bounds.close()
    assert [connection.is_closed for connection in world.made] == [False, True]


def test_closing_closes_all_connections_and_later_requests_open_new_ones() -> None:
    world = FakeEnvironment()
    world.ask("a")
    world.ask("b")
    world.bounds.close()
    assert world.open == []
    assert world.ask("a") == 1


class CountedBounds:
    """Bounds of real logs, with the number of connections that were opened."""

    def __init__(self) -> None:
        self.connections = 0
        self.bounds = LogBounds(self._connect)

    def _connect(self, settings: LogSettings) -> KafkaWrittenRanges:
        self.connections += 1
        return KafkaWrittenRanges(settings, request_seconds=3)


@pytest.fixture
def counted() -> Iterator[CountedBounds]:
    counted = CountedBounds()
    yield counted
    counted.bounds.close()


def test_the_batches_of_a_stream_are_planned_with_one_connection(
    kafka: KafkaServer, tmp_path: Path, counted: CountedBounds
) -> None:
    table = create(kafka, tmp_path, log__consistency="eventual")
    position = EventualBatches(table.store, bounds=counted.bounds.of).start()
    for number in range(6):
        # Spark opens the table again for each request.
        batches = EventualBatches(table.copy({}).store, bounds=counted.bounds.of)
        end = batches.advance(position)
        assert (end is None) is (number % 2 == 0)
        position = end or position
        if number % 2 == 0:
            table.upsert([{"id": number, "v": "a"}])
    assert counted.connections == 1


@pytest.mark.long
def test_requests_succeed_after_a_restart_of_the_broker(tmp_path: Path, counted: CountedBounds) -> None:
    with running_kafka() as broker:
        table = create(broker, tmp_path, log__consistency="eventual")
        _until_it_answers(lambda: table.upsert([{"id": 1, "v": "a"}]))
        ask = partial(counted.bounds.of, LogSettings.of(table.options))
        known = _until_it_answers(ask)
        assert known is not None
        assert sum(known.ends.values()) >= 1
        # No request is sent while the broker is down, and the kept connection is broken.
        broker.kill()
        broker.start()
        assert _until_it_answers(ask) == known
        broker.kill()
        with pytest.raises(LogUnavailableError):
            ask()
        broker.start()
        before = counted.connections
        assert _until_it_answers(ask) == known
        assert counted.connections > before
        assert ask() == known
    forget_senders()


def _until_it_answers(ask: Callable[[], _Answer]) -> _Answer:
    """Return the first response of a broker that was just started."""
    give_up = time.monotonic() + at_most(60)
    while True:
        try:
            return ask()
        except LogUnavailableError:
            if time.monotonic() > give_up:
                raise
