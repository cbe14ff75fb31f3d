"""A source whose messages are given so that what was given can be cut between transactions.

Messages of one transaction stand in several partitions, and the reader of each is at another place. A topic of its own
says which transactions are over, in the order in which they ended, and how many messages each has in which topic; in
every partition, messages follow that order. So these rules are enough:

- A message is given when the end of its transaction is known: then the others are there as well, or will be soon.
- What was given is whole when nothing is missing of any transaction up to the last one of which something was given.
- While that is wanted, messages of later transactions wait.

A partition whose next message waits is paused, so that what waits is no more than a poll brought of it. A position is
the first message that was not given; in the topic of transactions it is the end of the first transaction of which
nothing was given.
"""

import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from interbed.ingest.errors import SourceGapError
from interbed.ingest.flow.messages import EndedTransaction, Messages, Positions, TransactionReader
from interbed.ingest.sources.source import LagUnit, MessageSource
from interbed.storage.base.errors import InvalidInputError

_log = logging.getLogger(__name__)

LOST_SECONDS = 20.0
"""How long messages are missed that a transaction should have before they are said to be lost."""

KNOWN_MOST = 200_000
"""How many transactions are known by their ids. Those that are whole are among them, because Debezium says the last of
them again when it was stopped.
"""

_Partition = tuple[str, int]
_UNKNOWN = np.iinfo(np.int64).max


class PausableSource(MessageSource, Protocol):
    """A source that can be told not to read some partitions for a while."""

    def pause(self, partitions: Iterable[_Partition]) -> None:
        """Bring no messages of these partitions; a seek forgets about it."""
        ...

    def resume(self, partitions: Iterable[_Partition]) -> None:
        """Bring messages of these partitions again."""
        ...


@dataclass(slots=True)
class _Ended:
    """A transaction that is over, with the messages that are still missing of it, by topic."""

    end: EndedTransaction
    missing: dict[str, int]


@dataclass(slots=True)
class _Waiting:
    """Messages of one partition that wait, and the transaction of each."""

    messages: Messages
    ids: "pa.Array[Any]"


def topic_of_transactions(topics: Sequence[str]) -> str:
    """The topic in which Debezium writes about transactions of the tables whose topics these are: of shop.public.orders
    it is shop.transaction. Raises InvalidInputError when they have no prefix in common.
    """
    prefixes = {topic.rsplit(".", 2)[0] for topic in topics}
    if len(prefixes) != 1 or not all(topic.count(".") >= 2 for topic in topics):
        raise InvalidInputError(
            "The topic of transactions does not follow from the names of the topics. Name it: --transaction-topic."
        )
    return f"{prefixes.pop()}.transaction"


class TransactionalSource:
    """Messages of a source that has a topic of transactions among its topics; messages of that one are not given.

    A poll gives messages of one topic. Raises InvalidInputError when the topic has several partitions, which have no
    common order, and SourceGapError when messages of a transaction do not come; the first transactions of a source
    that is read from the middle on may be cut, which is only logged.
    """

    def __init__(
        self,
        source: PausableSource,
        topic: str,
        reader: TransactionReader,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._source = source
        self._topic = topic
        self._reader = reader
        self._clock = clock
        self._forget(is_first=True)

    def _forget(self, *, is_first: bool) -> None:
        # Numbers of transactions count their ends: `_ended[0]` has the number `_first`.
        self._numbers: dict[str, int] = {}
        self._ended: deque[_Ended] = deque()
        self._first = 0
        self._last_given = -1
        self._waiting: dict[_Partition, _Waiting] = {}
        self._given: deque[Messages] = deque()
        self._is_closing = False
        self._may_be_cut = is_first
        self._last_progress = self._clock()

    @property
    def name(self) -> str:
        """See MessageSource."""
        return self._source.name

    @property
    def is_transactional(self) -> bool:
        """True."""
        return True

    @property
    def lag_unit(self) -> LagUnit:
        """See MessageSource."""
        return self._source.lag_unit

    def check(self, known: Mapping[str, Positions]) -> None:
        """See MessageSource."""
        self._source.check(known)

    def seek(self, positions: Positions) -> None:
        """See MessageSource."""
        self._forget(is_first=not positions)
        self._source.seek(positions)
        partitions = self._source.positions().of.get(self._topic, {})
        if len(partitions) > 1:
            raise InvalidInputError(
                f"The topic {self._topic} has {len(partitions)} partitions, so that transactions have no order. Let it "
                "have one."
            )

    def poll(self, *, timeout_seconds: float, most: int) -> Sequence[Messages]:
        """See MessageSource."""
        if not self._given:
            # What waits may be given by now, because more is wanted or because ends have come.
            self._give()
        if not self._given:
            for messages in self._source.poll(timeout_seconds=timeout_seconds, most=most):
                self._receive(messages)
            self._give()
        return [self._given.popleft()] if self._given else []

    def ends(self) -> Positions:
        """See MessageSource."""
        return self._source.ends()

    def has_reached(self, ends: Positions) -> bool:
        """See MessageSource; messages whose transaction is not over there wait for a later run."""
        # Partitions that wait are paused, and do not come to their ends.
        read = {
            topic: {p: end for p, end in of.items() if (topic, p) not in self._waiting} for topic, of in ends.of.items()
        }
        if self._given or not self._source.has_reached(Positions(read)):
            return False
        return all(self._number_of(each.ids[0].as_py()) == _UNKNOWN for each in self._waiting.values())

    def positions(self) -> Positions:
        """See MessageSource."""
        below = self._source.positions()
        found = {topic: dict(partitions) for topic, partitions in below.of.items()}
        for messages in [*(each.messages for each in self._waiting.values()), *self._given]:
            of_topic = found.setdefault(messages.topic, {})
            for partition, offset in _first_offsets(messages):
                of_topic[partition] = min(offset, of_topic.get(partition, offset))
        following = self._last_given + 1 - self._first
        if following < len(self._ended):
            found[self._topic] = {0: self._ended[following].end.offset}
        return Positions(found, below.ids)

    def is_whole(self, *, wanted: bool = False) -> bool:
        """See MessageSource; raises SourceGapError when the rest of a transaction does not come."""
        if not self._given and self._first > self._last_given:
            self._is_closing = False
            return True
        if wanted and not self._is_closing:
            self._is_closing = True
            self._last_progress = self._clock()
        if self._is_closing and self._clock() - self._last_progress >= LOST_SECONDS:
            self._give_up()
            return self.is_whole()
        return False

    def note(self, positions: Positions) -> None:
        """See MessageSource."""
        self._may_be_cut = False
        self._source.note(positions)

    def close(self) -> None:
        """See MessageSource."""
        self._source.close()

    def _receive(self, messages: Messages) -> None:
        if messages.topic == self._topic:
            topics = list(self._source.positions().of)
            for ended in self._reader.ended(messages):
                self._note_end(ended, topics)
            return
        ids = self._reader.ids(messages)
        for partition in np.unique(messages.partitions).tolist():
            chosen = np.flatnonzero(messages.partitions == partition)
            each = messages.take(chosen)
            place = (messages.topic, int(partition))
            before = self._waiting.get(place)
            taken: Any = ids.take(pa.array(chosen, pa.int64()))
            if before is not None:
                each, taken = before.messages.followed_by(each), pa.concat_arrays([before.ids, taken])
            self._waiting[place] = _Waiting(each, taken)

    def _note_end(self, ended: EndedTransaction, topics: Sequence[str]) -> None:
        if ended.id in self._numbers:
            # Debezium says again what it said before it was stopped.
            return
        self._numbers[ended.id] = self._first + len(self._ended)
        missing = {}
        for topic in topics:
            # The name of a topic ends with that of its collection, before which stands what all of them have.
            count = sum(n for collection, n in ended.events.items() if topic.endswith(f".{collection}"))
            if count:
                missing[topic] = count
        self._ended.append(_Ended(ended, missing))
        if len(self._numbers) > KNOWN_MOST:
            del self._numbers[next(iter(self._numbers))]

    def _give(self) -> None:
        """Move messages that need not wait to those that are given."""
        given: dict[str, list[Messages]] = {}
        moved = True
        while moved:
            # What is given of one partition may be of a later transaction, up to which others need not wait then.
            moved = False
            for place, waiting in list(self._waiting.items()):
                count = self._count_to_give(waiting)
                if count:
                    moved = True
                    given.setdefault(place[0], []).append(self._taken_off(place, waiting, count))
        for several in given.values():
            whole = several[0]
            for more in several[1:]:
                whole = whole.followed_by(more)
            self._given.append(whole)
        self._pass_over_whole()

    def _count_to_give(self, waiting: _Waiting) -> int:
        numbers = self._numbers_of(waiting.ids)
        latest = self._last_given if self._is_closing else _UNKNOWN - 1
        late = np.flatnonzero(numbers > latest)
        return int(late[0]) if len(late) else len(numbers)

    def _taken_off(self, place: _Partition, waiting: _Waiting, count: int) -> Messages:
        """The first of the messages that wait; they are of their transactions from now on."""
        numbers = self._numbers_of(waiting.ids.slice(0, count))
        for number, times in zip(*np.unique(numbers, return_counts=True), strict=True):
            if number >= self._first:
                missing = self._ended[int(number) - self._first].missing
                missing[place[0]] = missing.get(place[0], 0) - int(times)
                if missing[place[0]] <= 0:
                    del missing[place[0]]
        self._last_given = max(self._last_given, int(numbers.max()))
        self._last_progress = self._clock()
        if count < len(waiting.messages):
            rest = waiting.messages.slice(count, len(waiting.messages))
            self._waiting[place] = _Waiting(rest, waiting.ids.slice(count))
        else:
            del self._waiting[place]
        return waiting.messages.slice(0, count)

    def _pass_over_whole(self) -> None:
        """Forget transactions of which nothing is missing, and pause the partitions that wait."""
        while self._ended and not self._ended[0].missing:
            self._last_given = max(self._last_given, self._first)
            self._ended.popleft()
            self._first += 1
        known = self._source.positions()
        everything = {(topic, partition) for topic, partition, _ in known if topic != self._topic}
        self._source.pause(everything & set(self._waiting))
        self._source.resume(everything - set(self._waiting))

    def _give_up(self) -> None:
        """Messages are missed for too long."""
        lost = [each for each in list(self._ended)[: self._last_given + 1 - self._first] if each.missing]
        told = "; ".join(
            f"{n} of transaction {each.end.id} in topic {topic}"
            for each in lost[:3]
            for topic, n in each.missing.items()
        )
        if not self._may_be_cut:
            raise SourceGapError(
                f"Messages of {self.name} are missing: {told}. Let the topics keep their messages until they are read, "
                "and read those that are gone from where they come from; or go on without --transactional."
            )
        _log.warning("Transactions that began before what is read of the topics are not whole: %s", told)
        for each in lost:
            each.missing.clear()
        self._pass_over_whole()

    def _numbers_of(self, ids: "pa.Array[Any]") -> "np.ndarray[Any, np.dtype[np.int64]]":
        """The number of the transaction of each message: -1 for none, _UNKNOWN where it is not over."""
        encoded: Any = ids.dictionary_encode()
        # A loop over transactions.
        numbers = np.array([*map(self._number_of, encoded.dictionary.to_pylist()), -1], np.int64)
        found: np.ndarray[Any, np.dtype[np.int64]] = numbers[encoded.indices.fill_null(-1).to_numpy()]
        return found

    def _number_of(self, name: str | None) -> int:
        return -1 if name is None else self._numbers.get(name, _UNKNOWN)


def _first_offsets(messages: Messages) -> Iterable[tuple[int, int]]:
    for partition in np.unique(messages.partitions):
        yield int(partition), int(messages.offsets[messages.partitions == partition].min())
