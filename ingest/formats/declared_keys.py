"""The primary keys that messages declare, and changes split where the key changes."""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from interbed.ingest.flow.changes import BadMessage, RowChanges, SourceTable
from interbed.ingest.formats.arrays import Array, Indices, kept, mask_of, one_array, valid
from interbed.ingest.formats.connect_json import EnvelopeReader
from interbed.ingest.formats.json_objects import JsonShape, parsed_object

Key = tuple[str, ...]
"""The columns of a key, in their order; empty if a table has no primary key."""


@dataclass(frozen=True, slots=True)
class DeclaredKeys:
    """The keys that messages declare: `numbers` has, for each message, the place of its key among `keys`."""

    keys: Sequence[Key | None]
    numbers: Indices

    @staticmethod
    def alike(key: Key | None, count: int) -> "DeclaredKeys":
        """Return the same key for all messages; None if they do not state one."""
        return DeclaredKeys([key], np.zeros(count, np.int64))

    @staticmethod
    def found_in(keys: Array, found: Iterable[tuple[Key, Indices]]) -> "DeclaredKeys":
        """Return the keys by the columns found in the keys of messages, with the places of these messages.

        A null means that the table has no primary key. A key in which no columns were found states nothing.
        """
        numbers = np.where(valid(keys), 1, 0)
        known: dict[Key | None, int] = {(): 0, None: 1}
        for columns, places in found:
            numbers[places] = known.setdefault(columns, len(known))
        return DeclaredKeys(list(known), numbers)

    def of_messages(self, places: Indices) -> "DeclaredKeys":
        """Return the keys of some of the messages."""
        return DeclaredKeys(self.keys, self.numbers[places])

    def part(self, changes: RowChanges, rows: Indices) -> list[RowChanges]:
        """Split the changes by their key, in their order; `rows` has the place here of the message of each row."""
        numbers = self.numbers[rows]
        present = [self.keys[int(number)] for number in np.unique(numbers)]
        declared = [key for key in present if key is not None]
        if len(declared) < 2:
            # A message that does not state a key agrees with those that do.
            return [replace(changes, key=declared[0] if declared else None)]
        starts = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(numbers)]
        return [
            replace(changes.slice(start, end), key=self.keys[int(numbers[start])])
            for start, end in itertools.pairwise(starts)
        ]


def listed_keys(lists: "Array | None", count: int, *, without: Key | None) -> DeclaredKeys:
    """Return the keys of lists of names, one for each message; `without` is the key where the list is null."""
    kind = None if lists is None else lists.type
    if lists is None or not isinstance(kind, pa.ListType) or not pa.types.is_string(kind.value_type):
        # If all lists are empty, their type is not that of texts.
        empty = lists is not None and lists.null_count < len(lists)
        return DeclaredKeys.alike(() if empty else without, count)
    # A null among the names makes a null of all.
    joined: Any = pc.binary_join(lists, "\0")
    encoded: Any = joined.dictionary_encode(null_encoding="encode")
    numbers = encoded.indices.to_numpy()
    _, first = np.unique(numbers, return_index=True)
    keys: list[Key | None] = []
    # A loop over distinct keys.
    for place in first.tolist():
        names: Any = lists[place].as_py()
        keys.append(without if names is None else tuple(name for name in names if name is not None))
    return DeclaredKeys(keys, np.searchsorted(numbers[first], numbers))


class JsonKeys:
    """Finds the columns of keys that are JSON objects, with the schema of Kafka Connect around them or without.

    Not for use by several threads.
    """

    def __init__(self) -> None:
        self._envelopes = EnvelopeReader(_columns_of_schema)
        self._shapes: dict[SourceTable, JsonShape] = {}

    def of(self, source: SourceTable, texts: Array) -> DeclaredKeys:
        """Return the keys of the messages of a table (binary). A null means no primary key; a key that is no object
        states nothing.
        """
        return DeclaredKeys.found_in(texts, self._columns(source, texts))

    def _columns(self, source: SourceTable, texts: Array) -> Iterator[tuple[Key, Indices]]:
        there = valid(texts)
        there[there] = mask_of(pc.match_substring_regex(kept(texts, there), r"^\s*\{"))
        unread: list[BadMessage] = []
        for columns, places, payloads in self._envelopes.opened(np.flatnonzero(there), kept(texts, there), unread):
            if columns is not None:
                yield columns, places
                continue
            for names, chosen in self._of_objects(source, payloads).items():
                yield names, places[chosen]

    def _of_objects(self, source: SourceTable, texts: Array) -> Mapping[Key, Indices]:
        """Return the texts of each set of columns."""
        read = self._shapes.setdefault(source, JsonShape()).read(texts)
        columns = {name: valid(one_array(read.rows.column(name))) for name in read.rows.column_names}
        columns = {name: there for name, there in columns.items() if there.any()}
        # If all values of a key are null, its names must be parsed.
        whole = np.full(len(read.index), bool(columns))
        for there in columns.values():
            whole &= there
        found: dict[Key, list[int]] = {}
        # A loop over keys with a null, or of another shape.
        for place in read.index[~whole].tolist():
            found.setdefault(tuple(parsed_object(texts[place].as_py())), []).append(place)
        parted = {key: np.array(places, np.int64) for key, places in found.items()}
        if whole.any():
            key = tuple(columns)
            parted[key] = np.concatenate([read.index[whole], parted.get(key, np.empty(0, np.int64))])
        return parted


def _columns_of_schema(schema: Mapping[str, Any]) -> Key:
    return tuple(str(field.get("field")) for field in schema.get("fields") or () if isinstance(field, dict))
