"""The protocols of sources of messages, and a source whose polls can be cut between transactions.

Messages of one transaction are in several partitions, which are read at different speeds. A topic of transactions says
which transactions have ended, in the order of their ends, and how many messages each has in which topic. In every
partition, messages have that order. So these rules of `TransactionalSource` are sufficient:

- A message is delivered when the end of its transaction is known: then its other messages are available, or will be
  soon.
- The delivered messages are whole if no message is missing of any transaction up to the last delivered one.
- While that is wanted, messages of later transactions wait.

A partition whose next message waits is paused, so that no more messages wait than one poll returned. A position is the
first message that was not delivered; in the topic of transactions it is the end of the first transaction of which no
message was delivered.
"""

import logging
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol, runtime_checkable

import numpy as np
import pyarrow as pa

from interbed.ingest.flow.changes import CatalogIdentity, SourceTable
from interbed.ingest.flow.messages import EndedTransaction, Messages, Positions, SourceGapError, TransactionReader
from interbed.storage.base.errors import InvalidInputError


class LagUnit(StrEnum):
    """The unit of the distance between a position and an end: bytes if positions are offsets in a log of bytes."""

    MESSAGES = "messages"
    BYTES = "bytes"


class MessageSource(Protocol):
    """Topics of messages, read from given positions on; a seek may repeat messages. Not for use by several threads."""

    @property
    def name(self) -> str:
        """The topics and their location, for people."""
        ...

    @property
    def lag_unit(self) -> LagUnit:
        """The unit of offsets."""
        ...

    def check(self, known: Mapping[str, Positions]) -> None:
        """Check that the topics are still those that these tables, by their names in the lake, were filled from.

        Called before a seek, and before what was read is committed. Raises SourceGapError if a topic was replaced.
        """
        ...

    def seek(self, positions: Positions) -> None:
        """Read from these positions on; partitions that are not named from their beginning.

        Without any positions, begin where the settings of the source say. Raises SourceGapError if messages after a
        position are missing.
        """
        ...

    def poll(self, *, timeout_seconds: float, most: int) -> Sequence[Messages]:
        """Return the next messages, about `most` at most; empty if none came in time. At most one element for each
        topic.

        Raises SourceUnavailableError, which may be retried.
        """
        ...

    def ends(self) -> Positions:
        """Return the positions after the last message of each partition at this time."""
        ...

    def positions(self) -> Positions:
        """Return the positions after the polled messages, of all partitions that are read, also of those without
        messages.

        They may be beyond the last message if the source has numbers for other things, so that they reach `ends`.
        """
        ...

    def has_reached(self, ends: Positions) -> bool:
        """Return whether everything before these ends was polled that can be polled: an unfinished transaction
        cannot.
        """
        ...

    @property
    def is_transactional(self) -> bool:
        """Whether messages belong to transactions of the source, which must become visible as a whole."""
        ...

    def is_whole(self, *, wanted: bool = False) -> bool:
        """Return whether the polled messages are complete transactions; always true if the source has no transactions.

        If that is `wanted`, polls return only the rest of transactions until it is true.
        """
        ...

    def note(self, positions: Positions) -> None:
        """Report the committed positions to the source, for its own tools. Failures are only logged."""
        ...

    def close(self) -> None:
        """Close the connections to the source."""
        ...


class TableSnapshot(Protocol):
    """The rows of a table of the source at one time."""

    @property
    def source(self) -> SourceTable:
        """The source table of the rows."""
        ...

    @property
    def positions(self) -> Positions:
        """The positions of the first changes after the snapshot."""
        ...

    @property
    def identity(self) -> CatalogIdentity:
        """The table in the catalog of the source, at the time of the rows."""
        ...

    def messages(self) -> Iterator[Messages]:
        """Yield its rows as insertions. The first messages show its columns, even if it has no rows."""
        ...


@runtime_checkable
class SnapshotSource(MessageSource, Protocol):
    """A source that has the tables themselves beside their changes, which are not kept from the beginning."""

    def left_out(self) -> Collection[SourceTable]:
        """Return the tables that are skipped because they cannot be tables of a lake. Called before `begin`.

        Raises InvalidInputError for such a table that may not be skipped.
        """
        ...

    def begin(self, known: Mapping[str, Positions]) -> None:
        """Ensure that the source keeps changes from now on.

        `known` are the positions of the tables that were read, by their names in the lake. Raises SourceGapError unless
        all later changes are still available. Called before the first read, and before each retry.
        """
        ...

    def tables(self) -> Sequence[SourceTable]:
        """Return the tables whose changes are sent at this time, without those that are skipped."""
        ...

    def identities(self) -> Mapping[SourceTable, CatalogIdentity]:
        """Return the same tables in the catalog of the source, at this time."""
        ...

    def snapshots(self, tables: Sequence[SourceTable]) -> AbstractContextManager[Iterator[TableSnapshot]]:
        """Return the rows of tables, one table after the other."""
        ...


_log = logging.getLogger(__name__)

LOST_SECONDS = 20.0
"""How long messages of a transaction may be missing before they count as lost."""

KNOWN_MOST = 200_000
"""The number of transactions whose ids are remembered. Complete transactions are among them, because Debezium repeats
the last ends after a restart.
"""

_Partition = tuple[str, int]
_UNKNOWN = np.iinfo(np.int64).max


class PausableSource(MessageSource, Protocol):
    """A source whose partitions can be paused."""

    def pause(self, partitions: Iterable[_Partition]) -> None:
        """Return no messages of these partitions until they are resumed, or until a seek."""
        ...

    def resume(self, partitions: Iterable[_Partition]) -> None:
        """Return messages of these partitions again."""
        ...


@dataclass(slots=True)
class _IncompleteTransaction:
    """An ended transaction, with the number of messages that are still missing, by topic."""

    end: EndedTransaction
    missing: dict[str, int]


@dataclass(slots=True)
class _PendingMessages:
    """Messages of one partition that wait, and the transaction of each."""

    messages: Messages
    ids: "pa.Array[Any]"


def topic_of_transactions(topics: Sequence[str]) -> str:
    """Return Debezium's topic of transactions for the topics of tables: shop.transaction for shop.public.orders.

    Raises InvalidInputError if the topics have no common prefix.
    """
    prefixes = {topic.rsplit(".", 2)[0] for topic in topics}
    if len(prefixes) != 1 or not all(topic.count(".") >= 2 for topic in topics):
        raise InvalidInputError(
            "The topics have no common prefix that names the topic of transactions. Name it: --transaction-topic."
        )
    return f"{prefixes.pop()}.transaction"


class TransactionalSource:
    """Messages of a source that has a topic of transactions among its topics; messages of that topic are not returned.

    A poll returns messages of one topic. Raises InvalidInputError if the topic of transactions has several partitions,
    which have no common order, and SourceGapError if messages of a transaction do not come. If a source is read from
    the middle on, its first transactions may be incomplete, which is only logged.
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
        # Transactions are numbered by their ends: `_ended[0]` has the number `_first`.
        self._numbers: dict[str, int] = {}
        self._ended: deque[_IncompleteTransaction] = deque()
        self._first = 0
        self._last_delivered = -1
        self._waiting: dict[_Partition, _PendingMessages] = {}
        self._delivered: deque[Messages] = deque()
        self._is_closing = False
        self._may_be_cut = is_first
        self._last_progress = self._clock()

    @property
    def name(self) -> str:
        """The name of the source; see MessageSource."""
        return self._source.name

    @property
    def is_transactional(self) -> bool:
        """Always true; see MessageSource."""
        return True

    @property
    def lag_unit(self) -> LagUnit:
        """The unit of the source; see MessageSource."""
        return self._source.lag_unit

    def check(self, known: Mapping[str, Positions]) -> None:
        """Check the topics; see MessageSource."""
        self._source.check(known)

    def seek(self, positions: Positions) -> None:
        """Read from positions on; see MessageSource."""
        self._forget(is_first=not positions)
        self._source.seek(positions)
        partitions = self._source.positions().of.get(self._topic, {})
        if len(partitions) > 1:
            raise InvalidInputError(
                f"The topic {self._topic} has {len(partitions)} partitions, so transactions have no order. Let it "
                "have one."
            )

    def poll(self, *, timeout_seconds: float, most: int) -> Sequence[Messages]:
        """Return messages; see MessageSource."""
        if not self._delivered:
            # Waiting messages may be delivered now, because more is wanted or because ends have come.
            self._deliver()
        if not self._delivered:
            for messages in self._source.poll(timeout_seconds=timeout_seconds, most=most):
                self._receive(messages)
            self._deliver()
        return [self._delivered.popleft()] if self._delivered else []

    def ends(self) -> Positions:
        """Return the ends; see MessageSource."""
        return self._source.ends()

    def has_reached(self, ends: Positions) -> bool:
        """Return whether the ends are reached; see MessageSource. Messages of unfinished transactions are left to a
        later run.
        """
        # Waiting partitions are paused, and do not reach their ends.
        read = {
            topic: {p: end for p, end in of.items() if (topic, p) not in self._waiting} for topic, of in ends.of.items()
        }
        if self._delivered or not self._source.has_reached(Positions(read)):
            return False
        return all(self._number_of(each.ids[0].as_py()) == _UNKNOWN for each in self._waiting.values())

    def positions(self) -> Positions:
        """Return the positions; see MessageSource."""
        below = self._source.positions()
        found = {topic: dict(partitions) for topic, partitions in below.of.items()}
        for messages in [*(each.messages for each in self._waiting.values()), *self._delivered]:
            of_topic = found.setdefault(messages.topic, {})
            for partition, offset in _first_offsets(messages):
                of_topic[partition] = min(offset, of_topic.get(partition, offset))
        following = self._last_delivered + 1 - self._first
        if following < len(self._ended):
            found[self._topic] = {0: self._ended[following].end.offset}
        return Positions(found, below.ids)

    def is_whole(self, *, wanted: bool = False) -> bool:
        """Return whether transactions are whole; see MessageSource. Raises SourceGapError if the rest of one does not
        come.
        """
        if not self._delivered and self._first > self._last_delivered:
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
        """Report positions; see MessageSource."""
        self._may_be_cut = False
        self._source.note(positions)

    def close(self) -> None:
        """Close the source; see MessageSource."""
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
            self._waiting[place] = _PendingMessages(each, taken)

    def _note_end(self, ended: EndedTransaction, topics: Sequence[str]) -> None:
        if ended.id in self._numbers:
            # Debezium repeats the last ends after a restart.
            return
        self._numbers[ended.id] = self._first + len(self._ended)
        missing = {}
        for topic in topics:
            # The name of a topic is a common prefix and the name of its collection.
            count = sum(n for collection, n in ended.events.items() if topic.endswith(f".{collection}"))
            if count:
                missing[topic] = count
        self._ended.append(_IncompleteTransaction(ended, missing))
        if len(self._numbers) > KNOWN_MOST:
            del self._numbers[next(iter(self._numbers))]

    def _deliver(self) -> None:
        """Deliver messages that need not wait."""
        given: dict[str, list[Messages]] = {}
        moved = True
        while moved:
            # Messages delivered of one partition may be of a later transaction, which lets others be delivered up to
            # it.
            moved = False
            for place, waiting in list(self._waiting.items()):
                count = self._count_to_deliver(waiting)
                if count:
                    moved = True
                    given.setdefault(place[0], []).append(self._taken_off(place, waiting, count))
        for several in given.values():
            whole = several[0]
            for more in several[1:]:
                whole = whole.followed_by(more)
            self._delivered.append(whole)
        self._forget_complete()

    def _count_to_deliver(self, waiting: _PendingMessages) -> int:
        numbers = self._numbers_of(waiting.ids)
        latest = self._last_delivered if self._is_closing else _UNKNOWN - 1
        late = np.flatnonzero(numbers > latest)
        return int(late[0]) if len(late) else len(numbers)

    def _taken_off(self, place: _Partition, waiting: _PendingMessages, count: int) -> Messages:
        """Return the first of the waiting messages, and count them as delivered."""
        numbers = self._numbers_of(waiting.ids.slice(0, count))
        for number, times in zip(*np.unique(numbers, return_counts=True), strict=True):
            if number >= self._first:
                missing = self._ended[int(number) - self._first].missing
                missing[place[0]] = missing.get(place[0], 0) - int(times)
                if missing[place[0]] <= 0:
                    del missing[place[0]]
        self._last_delivered = max(self._last_delivered, int(numbers.max()))
        self._last_progress = self._clock()
        if count < len(waiting.messages):
            rest = waiting.messages.slice(count, len(waiting.messages))
            self._waiting[place] = _PendingMessages(rest, waiting.ids.slice(count))
        else:
            del self._waiting[place]
        return waiting.messages.slice(0, count)

    def _forget_complete(self) -> None:
        """Forget complete transactions, and pause the partitions that wait."""
        while self._ended and not self._ended[0].missing:
            self._last_delivered = max(self._last_delivered, self._first)
            self._ended.popleft()
            self._first += 1
        known = self._source.positions()
        everything = {(topic, partition) for topic, partition, _ in known if topic != self._topic}
        self._source.pause(everything & set(self._waiting))
        self._source.resume(everything - set(self._waiting))

    def _give_up(self) -> None:
        """Handle messages that are missing for too long."""
        lost = [each for each in list(self._ended)[: self._last_delivered + 1 - self._first] if each.missing]
        missing = "; ".join(
            f"{n} of transaction {each.end.id} in topic {topic}"
            for each in lost[:3]
            for topic, n in each.missing.items()
        )
        if not self._may_be_cut:
            raise SourceGapError(
                f"Messages of {self.name} are missing: {missing}. Let the topics keep their messages until they are "
                "read, and read the lost ones from their origin; or go on without --transactional."
            )
        _log.warning(
            "The first transactions are incomplete, because reading began in the middle of them; missing are: %s",
            missing,
        )
        for each in lost:
            each.missing.clear()
        self._forget_complete()

    def _numbers_of(self, ids: "pa.Array[Any]") -> "np.ndarray[Any, np.dtype[np.int64]]":
        """Return the number of the transaction of each message: -1 for none, _UNKNOWN if it has not ended."""
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
