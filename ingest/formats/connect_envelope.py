"""Messages of Kafka Connect's JSON converter, with the schema before the value: {"schema":{…},"payload":{…}}.

A topic has few schemas, and each stands as the same bytes at the beginning of many messages. So these are compared as
bytes and cut off, and a schema is parsed once.
"""

import json
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from interbed.ingest.flow.changes import BadMessage
from interbed.ingest.formats.arrays import Array, Indices, Mask, kept, mask_of
from interbed.ingest.formats.guessed.json_objects import json_text, parsed_object

Known = TypeVar("Known")

_BEGIN, _BETWEEN, _END = '{"schema":', ',"payload":', "}"
_ANYHOW_WRITTEN = r'^\s*\{\s*"(schema|payload)"\s*:'
_BLANKS = r'^\{"schema":\s|,\s+"payload"|"payload"\s+:|"payload":\s'
"""Blanks where the converter writes none, or what looks like it within the payload."""
_PREFIXES_MOST = 1000
_DECODER = json.JSONDecoder()


class Envelopes(Generic[Known]):
    """Takes payloads out of messages; `understand` makes something of each schema that occurs, once."""

    def __init__(self, understand: Callable[[dict[str, Any]], Known]) -> None:
        self._understand = understand
        self._known: dict[bytes, Known | None] = {}

    def opened(
        self, index: Indices, texts: Array, bad: list[BadMessage]
    ) -> Iterator[tuple[Known | None, Indices, Array]]:
        """The payloads of the messages by schema, None for those without one. `index` are the messages' numbers.

        Payloads that are null are left out. Messages that are no JSON are added to `bad`.
        """
        texts = self._written_alike(texts)
        within = _starts_with(texts, _BEGIN.encode())
        if not within.all():
            yield None, index[~within], kept(texts, ~within)
            index, texts = index[within], kept(texts, within)
        for prefix in list(self._known):
            same = _starts_with(texts, prefix)
            if same.any():
                yield self._payloads(prefix, index[same], kept(texts, same))
                index, texts = index[~same], kept(texts, ~same)
        while len(index):
            try:
                prefix = self._learned(texts[0].as_py())
            except ValueError as error:
                bad.append(BadMessage(int(index[0]), f"it is no JSON: {error}"))
                index, texts = index[1:], texts.slice(1)
                continue
            same = _starts_with(texts, prefix)
            yield self._payloads(prefix, index[same], kept(texts, same))
            index, texts = index[~same], kept(texts, ~same)

    def _payloads(self, prefix: bytes, index: Indices, texts: Array) -> tuple[Known | None, Indices, Array]:
        payloads: Any = pc.binary_slice(texts, len(prefix), -len(_END))
        present = mask_of(pc.not_equal(payloads, pa.scalar(b"null", pa.binary())))
        return self._known[prefix], index[present], kept(payloads, present)

    def _learned(self, text: bytes) -> bytes:
        """The bytes of a message up to its payload, with what its schema says noted; ValueError for what is no JSON."""
        decoded = text.decode()
        schema, end = _DECODER.raw_decode(decoded, len(_BEGIN))
        if not decoded.startswith(_BETWEEN, end) or not decoded.endswith(_END):
            raise ValueError("the payload does not follow the schema")
        if schema is not None and not isinstance(schema, dict):
            raise ValueError("the schema is no object")
        prefix = decoded[: end + len(_BETWEEN)].encode()
        if len(self._known) >= _PREFIXES_MOST:
            self._known.clear()
        self._known[prefix] = None if schema is None else self._understand(schema)
        return prefix

    def _written_alike(self, texts: Array) -> Array:
        """The messages, envelopes that are not written as the converter does written that way."""
        ends = mask_of(pc.ends_with(texts, _END))
        odd = mask_of(pc.match_substring_regex(texts, _ANYHOW_WRITTEN))
        if odd.any():
            odd &= ~(_starts_with(texts, _BEGIN.encode()) & ends) | mask_of(pc.match_substring_regex(texts, _BLANKS))
        if not odd.any():
            return texts
        values: list[Any] = texts.to_pylist()
        for i in np.flatnonzero(odd):
            try:
                value = parsed_object(values[i])
            except ValueError:
                # It is said to be bad by whoever reads it.
                continue
            schema, payload = json_text(value.get("schema")), json_text(value.get("payload"))
            values[i] = f"{_BEGIN}{schema}{_BETWEEN}{payload}{_END}".encode()
        return pa.array(values, pa.binary())


def _starts_with(texts: Array, start: bytes) -> Mask:
    found: Any = pc.starts_with(texts, start)  # type: ignore[call-overload]
    return mask_of(found)
