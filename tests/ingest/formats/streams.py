"""Random streams of changes of tables, and the state of the tables after them, for the tests of decoders."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from interbed.ingest.flow.changes import DecodedMessages, SourceTable
from interbed.ingest.flow.messages import Messages
from interbed.ingest.formats.format import Decoder
from interbed.storage.base.row.kind import RowKind

Row = dict[str, Any]
State = dict[SourceTable | None, dict[int, Row]]

TEXTS = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
    st.sampled_from(['"old":{"a":null}', "null", "} {", '\\"', "}\n{", '":null,', "é", "old", "\u2028", "\\u006fld"]),
)
VALUES: Mapping[str, st.SearchStrategy[Any]] = {
    "integer": st.integers(-(2**63), 2**63 - 1),
    "large": st.integers(-(2**80), 2**80),
    "double": st.floats(allow_nan=False, allow_infinity=False, allow_subnormal=False),
    "boolean": st.booleans(),
    "text": TEXTS,
    "list": st.lists(st.integers(-9, 9), max_size=3),
    "object": st.fixed_dictionaries({"x": st.integers(-9, 9)}, optional={"null": TEXTS, "old": st.none()}),
}
NAMES = ("old", "data", "name", "note", "null", "table", "é", 'a"b')


@dataclass(frozen=True, slots=True)
class RowChange:
    """A change of a row: its state before and after, which is None where the row does not exist."""

    table: SourceTable
    before: Row | None
    after: Row | None

    @property
    def kind(self) -> str:
        return "insert" if self.before is None else "delete" if self.after is None else "update"

    @property
    def old(self) -> Row:
        """The former values of the columns that changed."""
        assert self.before is not None
        assert self.after is not None
        return {name: value for name, value in self.before.items() if self.after[name] != value}


@st.composite
def changes(
    draw: st.DrawFn, columns: st.SearchStrategy[Mapping[str, st.SearchStrategy[Any]]], tables: Sequence[SourceTable]
) -> list[RowChange]:
    """Strategy for changes of some of the tables, each with an `id` and some other columns."""
    rows = {
        table: st.fixed_dictionaries({name: st.none() | values for name, values in draw(columns).items()})
        for table in draw(st.lists(st.sampled_from(tables), min_size=1, max_size=3, unique=True))
    }
    found = []
    state: dict[tuple[SourceTable, int], Row] = {}
    for table, key, deletes in draw(
        st.lists(st.tuples(st.sampled_from(list(rows)), st.integers(0, 3), st.booleans()), max_size=12)
    ):
        before = state.pop((table, key), None)
        after = None
        if before is None or not deletes:
            after = {"id": key, **draw(rows[table])}
            if before is not None:
                kept = draw(st.sets(st.sampled_from(list(after))))
                after |= {name: before[name] for name in kept}
            state[table, key] = after
        found.append(RowChange(table, before, after))
    return found


def columns_of(values: Mapping[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[dict[str, st.SearchStrategy[Any]]]:
    """Strategy for columns with values of one of the kinds each."""
    return st.dictionaries(st.sampled_from(NAMES), st.sampled_from(list(values.values())), max_size=4)


def state_after(stream: Iterable[RowChange]) -> State:
    """Return the rows of each table after the changes."""
    found: State = {}
    for change in stream:
        rows = found.setdefault(change.table, {})
        if change.after is None:
            assert change.before is not None
            del rows[change.before["id"]]
        else:
            rows[change.after["id"]] = without_nulls(change.after)
    return {table: rows for table, rows in found.items() if rows}


def without_nulls(value: Any) -> Any:
    """Return a row without its nulls, because decoders do not distinguish a null from a missing column."""
    if isinstance(value, dict):
        return {name: without_nulls(each) for name, each in value.items() if each is not None}
    return value


def messages_of(values: Sequence[bytes | None], keys: Sequence[bytes | None] | None = None) -> Messages:
    """Return messages of one partition."""
    return Messages(
        topic="t",
        partitions=np.zeros(len(values), np.int32),
        offsets=np.arange(len(values)),
        keys=pa.array([None] * len(values) if keys is None else keys, pa.binary()),
        values=pa.array(values, pa.binary()),
    )


def batches(messages: Messages, ends: Iterable[int]) -> Iterator[Messages]:
    """Split the messages into batches."""
    bounds = sorted({0, len(messages), *(end % (len(messages) + 1) for end in ends)})
    for start, end in pairwise(bounds):
        yield messages.slice(start, end)


def consumed(decoder: Decoder, parts: Iterable[Messages]) -> tuple[State, list[int]]:
    """Apply the messages. Return the rows of each table and the offsets of bad messages."""
    state: State = {}
    bad: list[int] = []
    for part in parts:
        rest: Messages | None = part
        while rest is not None:
            rest = _step(decoder, rest, state, bad)
    return {table: rows for table, rows in state.items() if rows}, bad


def _step(decoder: Decoder, messages: Messages, state: State, bad: list[int]) -> Messages | None:
    """Apply one decoded batch. Return the undecoded messages, after a truncation or the end of a table."""
    decoded = decoder.decode(messages)
    apply(decoded, state)
    bad += [int(messages.offsets[each.index]) for each in decoded.bad]
    if decoded.last is None:
        return None
    if decoded.truncation is not None:
        state.pop(decoded.truncation.source, None)
    return messages.slice(decoded.last.index + 1, len(messages))


def apply(decoded: DecodedMessages, state: State) -> None:
    """Apply the changes, and assert that each row before a change is the current row."""
    for table in decoded.changes:
        rows = state.setdefault(table.source, {})
        assert (np.diff(table.messages) >= 0).all()
        for row, kind in zip(table.rows.to_pylist(), table.kinds.tolist(), strict=True):
            given = without_nulls(row)
            if kind in (RowKind.INSERT, RowKind.UPDATE_AFTER):
                rows[given["id"]] = given
            elif table.source is None:
                # A message that is a plain row deletes by the key alone.
                rows.pop(given["id"], None)
            else:
                assert rows.pop(given["id"]) == given


def written(message: Mapping[str, Any], order: Sequence[int], *, spaced: bool, escaped: bool) -> bytes:
    """Encode a message as JSON, with its fields in some order."""
    names = sorted(message, key=lambda name: (order[hash_of(name) % len(order)], name))
    separators = (", ", ": ") if spaced else (",", ":")
    return json.dumps({name: message[name] for name in names}, separators=separators, ensure_ascii=escaped).encode()


def hash_of(name: str) -> int:
    """Return a number for a name that is the same in each run."""
    return sum(name.encode())


STYLES: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {"order": st.lists(st.integers(0, 9), min_size=1, max_size=5), "spaced": st.booleans(), "escaped": st.booleans()}
)


@st.composite
def with_bad(draw: st.DrawFn, good: Sequence[bytes], bad: Sequence[bytes | None]) -> tuple[list[Any], list[int]]:
    """Strategy for the messages with bad ones among them, and the offsets of the bad ones."""
    values: list[Any] = []
    offsets = []
    for value in (*good, None):
        for each in draw(st.lists(st.sampled_from(bad), max_size=1)):
            offsets.append(len(values))
            values.append(each)
        if value is not None:
            values.append(value)
    return values, offsets
