"""Confluent's wire format: a byte 0, the id of the schema in four bytes, big-endian, and Avro's binary encoding.

    00 | 00 00 00 07 | 02 0a …

Source: Confluent's documentation, "Formats, Serializers, and Deserializers", wire format.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from interbed.ingest.errors import UnknownSchemaError
from interbed.ingest.flow.changes import BadMessage
from interbed.ingest.formats.arrays import Array, Indices, kept
from interbed.ingest.formats.avro.columns import AvroValues, Columns
from interbed.storage.base.avro.decode import PADDING

HEADER_BYTES = 5


def by_schema(index: Indices, texts: Array, bad: list[BadMessage]) -> Iterator[tuple[int, Indices, AvroValues]]:
    """Yield the id of each schema, with the messages that it wrote and their encoded values.

    `texts` (binary, no nulls) are the contents of the messages with the numbers `index`. Messages that are not in this
    format are added to `bad`.
    """
    if not len(texts):
        return
    data, starts, ends = _laid_out(texts)
    header = data[starts[:, None] + np.arange(HEADER_BYTES)].astype(np.int64)
    framed = (ends - starts >= HEADER_BYTES) & (header[:, 0] == 0)
    bad += [BadMessage(int(index[i]), _whats_wrong(texts[int(i)].as_py())) for i in np.flatnonzero(~framed)]
    numbers = header[:, 1:] @ (1 << np.array([24, 16, 8, 0]))
    for number in np.unique(numbers[framed]).tolist():
        chosen = np.flatnonzero(framed & (numbers == number))
        yield number, index[chosen], AvroValues(data, starts[chosen] + HEADER_BYTES, ends[chosen])


def decoded_by_schema(
    index: Indices, texts: Array, columns_of: Callable[[int], Columns], bad: list[BadMessage]
) -> Iterator[tuple[int, Indices, Array]]:
    """Yield the id of each schema, with the messages that it wrote and their values.

    Refused messages are added to `bad`, and so are all messages of a schema for which `columns_of` raises
    UnknownSchemaError or ValueError.
    """
    for number, numbers, encoded in by_schema(index, texts, bad):
        try:
            columns = columns_of(number)
        except (UnknownSchemaError, ValueError) as error:
            bad += [BadMessage(int(i), f"it has the schema {number}, and {error}") for i in numbers]
            continue
        read = columns.decode(encoded)
        bad += [BadMessage(int(numbers[i]), f"by its schema {number}, {why}") for i, why in read.refused.items()]
        good = np.ones(len(numbers), bool)
        good[list(read.refused)] = False
        yield number, numbers[good], kept(read.values, good)


def _laid_out(texts: Any) -> tuple[Any, Indices, Indices]:
    """Return the bytes of all texts, with PADDING behind them, and the beginning and end of each text."""
    _, offsets, content = texts.buffers()
    places = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1].astype(np.int64)
    first, last = int(places[0]), int(places[-1])
    data = np.zeros(last - first + PADDING, np.uint8)
    if last > first:
        data[: last - first] = np.frombuffer(content, np.uint8)[first:last]
    places -= first
    return data, places[:-1], places[1:]


def _whats_wrong(text: bytes) -> str:
    if len(text) < HEADER_BYTES:
        return f"it has {len(text)} bytes, and the number of its schema alone takes {HEADER_BYTES}"
    return f"its first byte is {text[0]}, and not 0, with which Confluent's wire format begins"
