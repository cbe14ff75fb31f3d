"""What Debezium's events have in common, however they are written."""

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from interbed.ingest.flow.changes import BadMessage
from interbed.ingest.flow.messages import Messages
from interbed.ingest.formats.arrays import Array, Indices, Mask, kept, mask_of, valid

Kinds: TypeAlias = npt.NDArray[np.int8]

NO_EVENT = "it is no event of Debezium: "
_KINDS = ("c", "r", "u", "d", "m", "t")
_UNAVAILABLE = "__debezium_unavailable_value"


def events_of(messages: Messages, bad: list[BadMessage]) -> tuple[Indices, Array]:
    """The messages that have a value, with their numbers, but those that leave out a value that did not change."""
    texts: Any = messages.values
    index = np.flatnonzero(valid(texts))
    texts = kept(texts, valid(texts))
    # As a regular expression it is found ten times as fast as by `match_substring`.
    lacking = mask_of(pc.match_substring_regex(texts, _UNAVAILABLE))
    if lacking.any():
        reason = (
            "it leaves out a large value that did not change (TOAST), so that the row is not known. Set REPLICA "
            "IDENTITY FULL for the table in PostgreSQL"
        )
        bad += [BadMessage(int(i), reason) for i in index[lacking]]
        index, texts = index[~lacking], kept(texts, ~lacking)
    return index, texts


def kinds_of(op: Array) -> Kinds:
    """The kind of each event, by its place among all kinds; -1 where it has none of them."""
    if not pa.types.is_string(op.type):
        return np.full(len(op), -1, np.int8)
    places: Any = pc.index_in(op, value_set=pa.array(_KINDS, pa.string()))
    found: Kinds = places.fill_null(-1).to_numpy().astype(np.int8)
    return found


def of_kind(kinds: Kinds, *wanted: str) -> Mask:
    """Which of the events are of one of these kinds."""
    found = np.zeros(len(kinds), bool)
    for kind in wanted:
        found |= kinds == _KINDS.index(kind)
    return found


def whats_wrong(op: Array, kinds: Kinds, before: Array, after: Array) -> dict[int, str]:
    """Why events can't be understood, by their place; deletions have the message's key for a row that is missing."""
    reasons: dict[int, str] = {}
    for i in np.flatnonzero(kinds < 0):
        reasons[int(i)] = f'{NO_EVENT}its "op" is {op[int(i)].as_py()!r}'
    for i in np.flatnonzero(of_kind(kinds, "c", "r", "u") & ~valid(after)):
        reasons[int(i)] = 'it has no row in "after"'
    for i in np.flatnonzero(of_kind(kinds, "d") & ~valid(before)):
        reasons[int(i)] = 'it has no row in "before", and its key does not name the row'
    return reasons
