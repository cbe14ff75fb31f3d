"""What Debezium's events have in common, however they are written."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from interbed.ingest.flow.changes import BadMessage
from interbed.ingest.flow.messages import Messages
from interbed.ingest.formats.arrays import Array, Indices, Mask, kept, mask_of, valid
from interbed.ingest.formats.by_table import is_one_of

NO_EVENT = "it is no event of Debezium: "
_KINDS = ("c", "r", "u", "d", "m", "t")
_UNAVAILABLE = "__debezium_unavailable_value"


def events_of(messages: Messages, bad: list[BadMessage]) -> tuple[Indices, Array]:
    """The messages that have a value, with their numbers, but those that leave out a value that did not change."""
    texts: Any = messages.values
    index = np.flatnonzero(valid(texts))
    texts = kept(texts, valid(texts))
    lacking = mask_of(pc.match_substring(texts, _UNAVAILABLE))
    if lacking.any():
        reason = (
            "it leaves out a large value that did not change (TOAST), so that the row is not known. Set REPLICA "
            "IDENTITY FULL for the table in PostgreSQL"
        )
        bad += [BadMessage(int(i), reason) for i in index[lacking]]
        index, texts = index[~lacking], kept(texts, ~lacking)
    return index, texts


def ops(op: Array, *wanted: str) -> Mask:
    """Which of the events are of one of these kinds."""
    return is_one_of(op, wanted) if pa.types.is_string(op.type) else np.zeros(len(op), bool)


def whats_wrong(op: Array, before: Array, after: Array) -> dict[int, str]:
    """Why events can't be understood, by their place; deletions have the message's key for a row that is missing."""
    reasons: dict[int, str] = {}
    for i in np.flatnonzero(~ops(op, *_KINDS)):
        reasons[int(i)] = f'{NO_EVENT}its "op" is {op[int(i)].as_py()!r}'
    for i in np.flatnonzero(ops(op, "c", "r", "u") & ~valid(after)):
        reasons[int(i)] = 'it has no row in "after"'
    for i in np.flatnonzero(ops(op, "d") & ~valid(before)):
        reasons[int(i)] = 'it has no row in "before", and its key does not name the row'
    return reasons
