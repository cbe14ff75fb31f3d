"""The primary keys that messages declare, and changes parted where the key is another one."""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from interbed.ingest.flow.changes import BadMessage, RowChanges, SourceTable
from interbed.ingest.formats.arrays import Array, Indices, kept, mask_of, one_array, valid
from interbed.ingest.formats.connect_json import Envelopes
from interbed.ingest.formats.json_objects import JsonShape, parsed_object

Key = tuple[str, ...]
"""The columns, in their order; none of them where a table has no primary key."""


@dataclass(frozen=True, slots=True)
class DeclaredKeys:
    """The keys that some messages declare: `numbers` has, for each message, its place among `keys`."""

    keys: Sequence[Key | None]
    numbers: Indices

    @staticmethod
    def alike(key: Key | None, count: int) -> "DeclaredKeys":
        """All messages declare the same key, or say nothing of it."""
        return DeclaredKeys([key], np.zeros(count, np.int64))

    @staticmethod
    def found_in(keys: Array, found: Iterable[tuple[Key, Indices]]) -> "DeclaredKeys":
        """The columns found in the keys of messages, with the places of these. A null is the key of a table without a
        primary key; a key in which no columns were found says nothing.
        """
        numbers = np.where(valid(keys), 1, 0)
        known: dict[Key | None, int] = {(): 0, None: 1}
        for columns, places in found:
            numbers[places] = known.setdefault(columns, len(known))
        return DeclaredKeys(list(known), numbers)

    def of_messages(self, places: Indices) -> "DeclaredKeys":
        """The keys of some of the messages."""
        return DeclaredKeys(self.keys, self.numbers[places])

    def part(self, changes: RowChanges, rows: Indices) -> list[RowChanges]:
        """The changes by their key, in their order; `rows` has the message of each row, by its place here."""
        numbers = self.numbers[rows]
        present = [self.keys[int(number)] for number in np.unique(numbers)]
        declared = [key for key in present if key is not None]
        if len(declared) < 2:
            # What says nothing of the key agrees with what does.
            return [replace(changes, key=declared[0] if declared else None)]
        starts = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(numbers)]
        return [
            replace(changes.slice(start, end), key=self.keys[int(numbers[start])])
            for start, end in itertools.pairwise(starts)
        ]


def listed_keys(lists: "Array | None", count: int, *, without: Key | None) -> DeclaredKeys:
    """The keys of lists of names, one for each message; `without` is the key where the list is null."""
    kind = None if lists is None else lists.type
    if lists is None or not isinstance(kind, pa.ListType) or not pa.types.is_string(kind.value_type):
        # Without any name lists have no type of texts.
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
        self._envelopes = Envelopes(_columns_of_schema)
        self._shapes: dict[SourceTable, JsonShape] = {}

    def of(self, source: SourceTable, texts: Array) -> DeclaredKeys:
        """The keys of the messages of a table (binary): null for a table without one, and no object says nothing."""
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
        """Which of the texts have which columns."""
        read = self._shapes.setdefault(source, JsonShape()).read(texts)
        columns = {name: valid(one_array(read.rows.column(name))) for name in read.rows.column_names}
        columns = {name: there for name, there in columns.items() if there.any()}
        # Of a key whose values are all null the names are to be read.
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
