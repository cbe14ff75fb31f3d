"""Tables of the keys of equality deletes, against which whole columns are matched at once.

A row is deleted by a key that is newer than the row. So only the newest sequence number of each key counts, and one
table serves data files of any age. Nulls are equal to each other, as is NaN; -0.0 and 0.0 are two values. Source:
Iceberg's table specification, "Equality Delete Files".

The values of each column are numbered; the numbers of a row's columns, one after the other, make the number of its key.

A value is identified by a fingerprint of 64 bits: a number by itself, a text by its ends, its middle and its length. A
table of bits, by a hash of the fingerprint, excludes most of the unknown values with one look-up. The rest are looked
up among the sorted fingerprints and, if 64 bits are not the whole value, compared. Arrow's own look-up (`index_in`)
would build its hash table again for each batch.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from interbed.storage.base.arrays import Ints, Mask

Array = Any
"""An Arrow array; the stubs of pyarrow require the type of its values."""
Prints = npt.NDArray[np.uint64]
"""A fingerprint of 64 bits for each value."""

_SLOTS = 8
"""The minimal number of slots of the table of bits for each known value: one in eight unknown values passes it."""
_WORD = 8
"""The bytes of a number of 64 bits."""
_ODD = np.uint64(0x9E3779B97F4A7C15)
_MORE_ODDS = (np.uint64(0xC2B2AE3D27D4EB4F), np.uint64(0x165667B19E3779F9))


@dataclass(frozen=True, slots=True, eq=False)
class KeyPlaces:
    """Distinct values and their look-up: `order` are their places in the order of their `prints`."""

    values: Array
    prints: Prints
    order: Ints
    maybe: Mask
    null: int | None
    is_exact: bool

    @staticmethod
    def of(values: Array) -> "KeyPlaces | None":
        """Return the look-up of distinct values; None if two of them have the same fingerprint."""
        print_of = _print_of(values.type)
        if print_of is None:
            return None
        known = np.flatnonzero(_validity(values)) if values.null_count else np.arange(len(values))
        prints = print_of(values)[known]
        order = np.argsort(prints, kind="stable")
        prints, places = prints[order], known[order]
        if (prints[1:] == prints[:-1]).any():
            return None
        maybe = np.zeros(1 << max(_SLOTS * len(prints), 2).bit_length(), np.bool_)
        maybe[_slots(prints, len(maybe))] = True
        null = int(np.flatnonzero(~_validity(values))[0]) if values.null_count else None
        return KeyPlaces(values, prints, places, maybe, null, _is_number(values.type))

    def find(self, column: Array) -> tuple[Ints, Ints]:
        """Return the rows whose value is known, in no order, and the place of each."""
        print_of = _print_of(column.type)
        assert print_of is not None
        prints = print_of(column)
        likely = self.maybe[_slots(prints, len(self.maybe))]
        valid = _validity(column) if column.null_count else None
        if valid is not None:
            likely &= valid
        rows = np.flatnonzero(likely)
        asked = prints[rows]
        found = np.minimum(np.searchsorted(self.prints, asked), max(len(self.prints) - 1, 0))
        hit = self.prints[found] == asked if len(self.prints) else np.zeros(0, np.bool_)
        rows, places = rows[hit], self.order[found[hit]]
        if not self.is_exact and len(rows):
            alike = pc.equal(column.take(pa.array(rows)), self.values.take(pa.array(places)))
            equal: Mask = np.asarray(alike)
            rows, places = rows[equal], places[equal]
        if valid is not None and self.null is not None:
            nulls = np.flatnonzero(~valid)
            rows = np.concatenate([rows, nulls])
            places = np.concatenate([places, np.full(len(nulls), self.null, np.int64)])
        return rows, places


def find_slowly(values: Array, column: Array) -> tuple[Ints, Ints]:
    """Return the result of KeyPlaces.find, for values of any type."""
    found: Any = pc.index_in(column, value_set=values)
    rows = np.flatnonzero(_validity(found)) if found.null_count else np.arange(len(found))
    places: Ints = found.drop_null().to_numpy(zero_copy_only=False).astype(np.int64)
    return rows, places


def _slots(prints: Prints, size: int) -> Prints:
    return (prints * _ODD) >> np.uint64(65 - size.bit_length())


def _validity(array: Array) -> Mask:
    valid: Mask = array.is_valid().to_numpy(zero_copy_only=False)
    return valid


def _is_number(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_date(kind) or pa.types.is_time(kind) or pa.types.is_timestamp(kind)


def _print_of(kind: pa.DataType) -> Callable[[Array], Prints] | None:
    if _is_number(kind):
        return _of_numbers
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return _of_texts
    if pa.types.is_decimal128(kind) or (pa.types.is_fixed_size_binary(kind) and kind.byte_width == 2 * _WORD):
        return _of_pairs
    return None


def _of_numbers(array: Array) -> Prints:
    width = array.type.bit_width
    _, buffer = array.view(pa.int64() if width == 64 else getattr(pa, f"int{width}")()).buffers()
    plain = np.frombuffer(buffer, np.dtype(f"i{width // 8}"), len(array), array.offset * (width // 8))
    return plain.astype(np.int64, copy=False).view(np.uint64)


def _of_pairs(array: Array) -> Prints:
    """Return the fingerprints of values of 16 bytes."""
    _, buffer = array.buffers()
    pairs = np.frombuffer(buffer, np.uint64, 2 * len(array), 2 * _WORD * array.offset).reshape(-1, 2)
    return _mixed(pairs[:, 0], pairs[:, 1])


def _of_texts(array: Array) -> Prints:
    _, offsets_buffer, data = array.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int32, len(array) + 1, 4 * array.offset).astype(np.int64)
    if data is None or offsets[0] == offsets[-1]:
        return np.zeros(len(array), np.uint64)
    here = np.frombuffer(data, np.uint8, offsets[-1] - offsets[0], offsets[0])
    # With a word before and behind, because the words of short texts reach beyond the data.
    padded = np.concatenate([np.zeros(_WORD, np.uint8), here, np.zeros(_WORD, np.uint8)])
    words = np.lib.stride_tricks.as_strided(padded[:_WORD].view(np.uint64), (len(here) + _WORD + 1,), (1,))
    starts, ends = offsets[:-1] - offsets[0] + _WORD, offsets[1:] - offsets[0] + _WORD
    lengths = ends - starts
    # The last bytes of a text are the upper ones of a word that ends with it; the bytes before a short text are shifted
    # out.
    surplus = np.clip(_WORD - lengths, 0, _WORD - 1).astype(np.uint64)
    last = words[ends - _WORD] >> (surplus << np.uint64(3))
    last[lengths == 0] = 0
    is_long = lengths >= _WORD
    first = np.where(is_long, words[starts], np.uint64(0))
    middle = np.where(is_long, words[starts + np.maximum(lengths - _WORD, 0) // 2], np.uint64(0))
    return _mixed(_mixed(last, first), _mixed(middle, lengths.view(np.uint64)))


def _mixed(one: Prints, other: Prints) -> Prints:
    mixed = (one ^ (one >> np.uint64(29))) * _MORE_ODDS[0] + other * _MORE_ODDS[1]
    found: Prints = mixed ^ (mixed >> np.uint64(32))
    return found


_ABSENT = -1


@dataclass(frozen=True, slots=True, eq=False)
class KeyTable:
    """Distinct keys with the sequence number of the newest delete of each.

    `values` are the distinct values of each column, `places` their look-ups, None where Arrow's is used; `numbers` are
    the numbers of the combinations of the first columns, ascending, for each column except the first.
    """

    values: tuple[Array, ...]
    places: tuple[KeyPlaces | None, ...]
    numbers: tuple[Ints, ...]
    newest: Ints

    @staticmethod
    def of(columns: Sequence[Array], sequence_numbers: Ints) -> "KeyTable":
        """Return the table of keys, given by columns, and of the sequence numbers of their deletes. Keys may be
        repeated.
        """
        plain = [_comparable(column) for column in columns]
        values = tuple(pc.unique(column) for column in plain)
        keys = _place_of_each(plain[0], values[0])
        numbers: list[Ints] = []
        for column, known in zip(plain[1:], values[1:], strict=True):
            keys = keys * len(known) + _place_of_each(column, known)
            combined = np.unique(keys)
            numbers.append(combined)
            # Made dense again, so that the numbers of many columns fit into 64 bits.
            keys = np.searchsorted(combined, keys)
        newest = np.full(len(numbers[-1]) if numbers else len(values[0]), _ABSENT, np.int64)
        np.maximum.at(newest, keys, sequence_numbers)
        return KeyTable(values, tuple(map(KeyPlaces.of, values)), tuple(numbers), newest)

    def deletes(self, columns: Sequence[Array], sequence_number: int) -> Mask | None:
        """Return which rows with that sequence number are deleted, given their key columns; None if there are none."""
        rows, keys = self._find(0, columns[0])
        for column, combined in enumerate(self.numbers, 1):
            if not len(rows):
                return None
            # Only for rows whose first columns are those of a key.
            among, here = self._find(column, columns[column].take(pa.array(rows)))
            pairs = keys[among] * len(self.values[column]) + here
            found = np.minimum(np.searchsorted(combined, pairs), len(combined) - 1)
            is_key = combined[found] == pairs
            rows, keys = rows[among[is_key]], found[is_key]
        rows = rows[self.newest[keys] > sequence_number]
        if not len(rows):
            return None
        deleted = np.zeros(len(columns[0]), np.bool_)
        deleted[rows] = True
        return deleted

    def _find(self, number: int, column: Array) -> tuple[Ints, Ints]:
        """Return the rows whose value in the column of that number is known, and the place of each."""
        plain, places = _comparable(column), self.places[number]
        return find_slowly(self.values[number], plain) if places is None else places.find(plain)


def _place_of_each(column: Array, values: Array) -> Ints:
    """Return the place of each value among the values, which include all of them."""
    found: Any = pc.index_in(column, value_set=values)
    places: Ints = found.to_numpy(zero_copy_only=False).astype(np.int64)
    return places


def _comparable(column: Array) -> Array:
    """Return the column with floats as their bits, with one representation of NaN."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if not pa.types.is_floating(column.type):
        return column
    bits = pa.int64() if column.type.bit_width == 64 else pa.int32()
    one_nan = pc.if_else(pc.is_nan(column), pa.scalar(float("nan"), column.type), column)
    return one_nan.view(bits)
