"""What Debezium's events have in common, however they are written."""

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from interbed.ingest.flow.messages import Messages
from interbed.ingest.formats.arrays import Array, Indices, Mask, kept, valid

Kinds: TypeAlias = npt.NDArray[np.int8]

NO_EVENT = "it is no event of Debezium: "
OWN_TOPIC = (
    ". Debezium's own topics (schema changes, transactions, heartbeats) have such messages: let the pattern of topics "
    "match those of tables alone"
)
_KINDS = ("c", "r", "u", "d", "m", "t")


def events_of(messages: Messages) -> tuple[Indices, Array]:
    """The messages that have a value, with their numbers."""
    there = valid(messages.values)
    return np.flatnonzero(there), kept(messages.values, there)


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


def leaving_out(kinds: Kinds, rekeyed: Mask) -> Mask:
    """Which of the events may leave out values: updates, and insertions that are the second part of an update of a key.

    `rekeyed` has an entry for each event; see Messages.
    """
    return of_kind(kinds, "u") | (of_kind(kinds, "c") & rekeyed)


def whats_wrong(op: Array, kinds: Kinds, before: Array, after: Array) -> dict[int, str]:
    """Why events can't be understood, by their place; deletions have the message's key for a row that is missing."""
    reasons: dict[int, str] = {}
    for i in np.flatnonzero(kinds < 0):
        kind = op[int(i)].as_py()
        reasons[int(i)] = f'{NO_EVENT}its "op" is {kind!r}{OWN_TOPIC if kind is None else ""}'
    for i in np.flatnonzero(of_kind(kinds, "c", "r", "u") & ~valid(after)):
        reasons[int(i)] = 'it has no row in "after"'
    for i in np.flatnonzero(of_kind(kinds, "d") & ~valid(before)):
        reasons[int(i)] = 'it has no row in "before", and its key does not name the row'
    return reasons
