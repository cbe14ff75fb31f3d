"""What all who write to the topic of a log do alike: to which partition a record goes, and how it is handed over."""

from collections.abc import Callable
from typing import Any

_FULL_QUEUE_SECONDS = 0.05


def partition_of(bucket: int, partitions: int) -> int:
    """The partition of a bucket's records."""
    return bucket % partitions


def produce(
    producer: Any,
    topic: str,
    partition: int,
    key: bytes | None,
    value: bytes | None,
    headers: list[tuple[str, bytes]] | None,
    *,
    time_millis: int = 0,
    on_delivery: Callable[[Any, Any], None] | None = None,
    check: Callable[[], None] | None = None,
) -> None:
    """Hand a record to librdkafka, waiting for room in its queue as long as it may take to deliver or give up others.

    A time of 0 is now. `check` is called after each wait; what it raises ends the waiting. Raises KafkaException.
    """
    while True:
        try:
            producer.produce(
                topic, value, key, partition, on_delivery=on_delivery, timestamp=time_millis, headers=headers
            )
        except BufferError:
            # The queue is full: some of it has to be delivered first.
            producer.poll(_FULL_QUEUE_SECONDS)
            if check is not None:
                check()
        else:
            return
