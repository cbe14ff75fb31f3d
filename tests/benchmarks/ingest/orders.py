"""A changing database table as Debezium's messages in a topic: the load of the ingestion benchmarks.

A row is about 1 KB of JSON; the message adds 450 bytes. Messages are those of Debezium's connector for PostgreSQL under
replica identity default, without the schema of Kafka Connect: no row before an update, only the key before a deletion.
Messages of a key are in one partition. A deleted row does not come back.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import confluent_kafka
import numpy as np
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

PARTITIONS = 4
BLOCK_MESSAGES = 20_000
"""Number of messages within which a key changes at most once; over all messages it changes often."""
TIMEOUT_SECONDS = 60.0

_NOTE = 560
"""Minimal number of letters of a row's note; the maximum is larger by NOTE_SPREAD."""
_NOTE_SPREAD = 100
_EPOCH = 1_750_000_000_000_000
_QUEUED_MESSAGES_MAX = 100_000
_STATES = ("new", "paid", "packed", "sent", "delivered", "returned")
_DELETED = ',"customer":null,"state":null,"cents":null,"weight":null,"express":null,"code":null,"email":null,'
_DELETED += '"street":null,"city":null,"created":null,"updated":null,"note":null}'


@dataclass(frozen=True, slots=True, kw_only=True)
class TableChecksum:
    """Checksum of a table of these rows: their count, and the sums of ids, of cents, and of letters of notes."""

    rows: int
    ids: int
    cents: int
    letters: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeShares:
    """Numbers of insertions and of deletions in a thousand changes; the others are updates."""

    inserts: int
    deletes: int


MIXED = ChangeShares(inserts=500, deletes=100)
STEADY = ChangeShares(inserts=50, deletes=50)


class OrdersTable:
    """Table in the source. Each call of `messages` changes it."""

    def __init__(self, seed: int = 7) -> None:
        self._random = np.random.default_rng(seed)
        self._text = _prose(self._random)
        self._live = np.zeros(0, np.int64)
        self._cents = np.zeros(0, np.int64)
        self._letters = np.zeros(0, np.int64)
        self._changes = 0

    def checksum(self) -> TableChecksum:
        """Return the current checksum of the table."""
        return TableChecksum(
            rows=len(self._live),
            ids=int(self._live.sum()),
            cents=int(self._cents[self._live].sum()),
            letters=int(self._letters[self._live].sum()),
        )

    def messages(self, count: int, shares: ChangeShares) -> Iterator[list[dict[str, Any]]]:
        """Yield `count` changes in blocks for `Producer.produce_batch`, each in the order of its changes."""
        for start in range(0, count, BLOCK_MESSAGES):
            yield self._block(min(BLOCK_MESSAGES, count - start), shares)

    def _block(self, count: int, shares: ChangeShares) -> list[dict[str, Any]]:
        # Only existing rows can change: the first blocks have fewer updates and deletions.
        deletes = min(count * shares.deletes // 1000, len(self._live) // 4)
        updates = min(count * (1000 - shares.inserts - shares.deletes) // 1000, len(self._live) // 2)
        inserts = count - updates - deletes
        changed = self._random.choice(self._live, updates + deletes, replace=False) if len(self._live) else self._live
        fresh = np.arange(len(self._cents), len(self._cents) + inserts)
        ids = np.concatenate([fresh, changed])
        ops = np.repeat(np.array(["c", "u", "d"]), [inserts, updates, deletes])
        order = self._random.permutation(count)
        ids, ops = ids[order], ops[order]
        cents = self._random.integers(100, 10_000_000, count)
        letters = self._random.integers(_NOTE, _NOTE + _NOTE_SPREAD, count)
        self._cents = np.concatenate([self._cents, np.zeros(inserts, np.int64)])
        self._letters = np.concatenate([self._letters, np.zeros(inserts, np.int64)])
        self._cents[ids], self._letters[ids] = cents, letters
        gone = changed[updates:]
        self._live = np.concatenate([np.setdiff1d(self._live, gone, assume_unique=True), fresh])
        return self._texts(ids, ops, cents, letters)

    def _texts(self, ids: Any, ops: Any, cents: Any, letters: Any) -> list[dict[str, Any]]:
        """Return the messages, made in a loop because each is a distinct text."""
        count = len(ids)
        random, text = self._random, self._text
        columns = zip(
            range(self._changes, self._changes + count),
            ids.tolist(),
            ops.tolist(),
            cents.tolist(),
            letters.tolist(),
            random.integers(0, len(text) - _NOTE - _NOTE_SPREAD, count).tolist(),
            random.integers(0, 1 << 62, count).tolist(),
            random.random(count).tolist(),
            strict=True,
        )
        self._changes += count
        found = []
        for number, key, op, price, length, at, code, weight in columns:
            now = _EPOCH + number * 1000
            before = after = "null"
            if op == "d":
                before = f'{{"id":{key}{_DELETED}'
            else:
                after = (
                    f'{{"id":{key},"customer":{code % 1_000_003},"state":"{_STATES[code % 6]}","cents":{price},'
                    f'"weight":{weight * 100:.3f},"express":{"true" if code & 1 else "false"},"code":"{code:016x}",'
                    f'"email":"customer.{code % 1_000_003}@example.com","street":"{text[at : at + 60]}",'
                    f'"city":"{text[at + 70 : at + 90]}","created":{_EPOCH + key * 1000},"updated":{now},'
                    f'"note":"{text[at : at + length]}"}}'
                )
            value = (
                f'{{"before":{before},"after":{after},"source":{{"version":"3.2.0.Final","connector":"postgresql",'
                f'"name":"shop","ts_ms":{now // 1000},"snapshot":"false","db":"shop","sequence":"[null,\\"{now}\\"]",'
                f'"ts_us":{now},"ts_ns":{now}000,"schema":"public","table":"orders","txId":{number // 10},'
                f'"lsn":{now},"xmin":null}},"transaction":null,"op":"{op}","ts_ms":{now // 1000 + 40},'
                f'"ts_us":{now + 40_000},"ts_ns":{now + 40_000}000}}'
            )
            found.append({"key": f'{{"id":{key}}}', "value": value, "partition": key % PARTITIONS})
        return found


def _prose(random: np.random.Generator) -> str:
    """Return a megabyte of words that compresses about as well as prose; the notes of rows are slices of it."""
    letters = random.choice(list("etaoinshrdlucmfwypvbgk"), (4_000, 9))
    words = ["".join(w[: 2 + n % 8]) for n, w in enumerate(letters.tolist())]
    often = np.minimum(random.zipf(1.3, 200_000), len(words)) - 1
    return " ".join(words[i] for i in often.tolist())[: 1 << 20]


class KafkaTopic:
    """Topic of a broker that is filled with changes; the constructor creates it."""

    def __init__(self, bootstrap_servers: str, name: str) -> None:
        admin = AdminClient({"bootstrap.servers": bootstrap_servers})
        admin.create_topics([NewTopic(name, PARTITIONS, 1)])[name].result(TIMEOUT_SECONDS)
        self._producer = confluent_kafka.Producer(
            {"bootstrap.servers": bootstrap_servers, "linger.ms": "20", "queue.buffering.max.messages": "500000"}
        )
        self._failures: list[str] = []
        self.name = name
        self.bytes = 0
        """Bytes of all messages so far, without keys."""

    def put(self, messages: list[dict[str, Any]]) -> None:
        """Send messages; wait if many are not acknowledged yet."""
        self._producer.produce_batch(self.name, messages, on_delivery=self._arrived)
        self.bytes += sum([len(message["value"]) for message in messages])
        while len(self._producer) > _QUEUED_MESSAGES_MAX:
            self._producer.poll(TIMEOUT_SECONDS)

    def flush(self) -> None:
        """Wait until all messages are acknowledged. Raises RuntimeError if one is not."""
        left = self._producer.flush(TIMEOUT_SECONDS)
        if left or self._failures:
            raise RuntimeError(f"{left} messages did not arrive at {self.name}; {self._failures[:3]}")

    def _arrived(self, error: Any, _: Any) -> None:
        if error is not None:
            self._failures.append(str(error))
