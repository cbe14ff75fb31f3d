"""Key columns as order-preserving unsigned 64-bit words, the sort that groups equal keys by them, and their search.

A string or binary takes one word for every eight bytes, without the prefix that all values share. Values are read in
place: in steps of their width if all have one length, otherwise at their offsets. Single keys (the bounds of batches
and blocks) are tuples that Python compares. Many keys are searched at once in unique keys in ascending order, of which
every SAMPLE_EVERY-th is a sample. They are compared with the samples, and then with the keys of the blocks that may
contain them, by the sort of the merge.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from interbed.storage.base.arrays import Mask, Positions, Words, distinct
from interbed.storage.base.arrow_values import one_array, taken, to_numpy

_WORD_BYTES = 8
_PROBES = 16
"""Values that are sampled for a common prefix before all are compared: most columns have none."""

KeyColumns = Sequence["pa.Array[Any]"]

SAMPLE_EVERY = 512
"""The distance of two samples, in keys."""


def words_of_bytes(array: "pa.Array[Any]", most: int) -> Iterator[Words]:
    """Yield the words of strings or binaries without nulls, most significant first.

    If the longest value needs more than `most` words, the only word is the rank of each value. Words are computed
    lazily, because the first ones often distinguish all values.
    """
    rows = len(array)
    _, offset_buffer, data = array.buffers()
    if rows == 0 or offset_buffer is None:
        yield np.zeros(rows, np.uint64)
        return
    offsets = np.frombuffer(memoryview(offset_buffer), np.int32, count=rows + 1, offset=4 * array.offset)
    low, high = int(offsets[0]), int(offsets[-1])
    if data is None or high == low:
        yield np.zeros(rows, np.uint64)
        return
    lengths = np.diff(offsets)
    shortest, longest = int(lengths.min()), int(lengths.max())
    content = np.frombuffer(memoryview(data), np.uint8, count=high - low, offset=low)
    prefix = _common_prefix(array) if shortest else 0
    if longest - prefix > most * _WORD_BYTES:
        yield _rank_words(array)
        return
    if shortest == longest:
        yield from _fixed_width_words(content, rows, longest, prefix)
        return
    starts = offsets[:-1].astype(np.int64) - low
    yield from _variable_width_words(content, starts + prefix, lengths.astype(np.int64) - prefix)
    if not content.all():
        # Zero padding makes 'a' and 'a\\0' equal; the shorter one orders first.
        yield lengths.astype(np.uint64)


def _fixed_width_words(content: npt.NDArray[np.uint8], rows: int, width: int, prefix: int) -> Iterator[Words]:
    if width == prefix:
        yield np.zeros(rows, np.uint64)
        return
    for position in range(prefix, width - _WORD_BYTES + 1, _WORD_BYTES):
        yield np.ndarray((rows,), ">u8", content.data, position, (width,)).astype(np.uint64)
    rest = (width - prefix) % _WORD_BYTES
    if rest:
        padded = np.zeros((rows, _WORD_BYTES), np.uint8)
        padded[:, :rest] = content.reshape(rows, width)[:, width - rest :]
        yield padded.view(">u8")[:, 0].astype(np.uint64)


def _variable_width_words(
    content: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]
) -> Iterator[Words]:
    # Eight bytes are read at any byte position through a view with stride 1. Bytes behind the end of a value are
    # shifted out. The padding keeps the read of the last value inside the buffer.
    padded = np.concatenate([content, np.zeros(_WORD_BYTES, np.uint8)])
    at = np.ndarray(shape=(len(content) + 1,), dtype=">u8", buffer=padded.data, strides=(1,))
    for position in range(0, int(lengths.max()), _WORD_BYTES):
        read = at[np.minimum(starts + position, len(content))].astype(np.uint64)
        have = np.clip(lengths - position, 0, _WORD_BYTES).astype(np.uint64)
        spare = (np.uint64(_WORD_BYTES) - have) * np.uint64(8)
        # A shift by 64 bits is undefined, hence the mask and the separate case of no byte left.
        kept = (read >> (spare & np.uint64(63))) << (spare & np.uint64(63))
        yield np.where(have == 0, np.uint64(0), kept)
    if not lengths.any():
        yield np.zeros(len(lengths), np.uint64)


def _common_prefix(array: "pa.Array[Any]") -> int:
    """Return the length in bytes of the prefix that all values share; no value is empty."""
    import pyarrow.compute as pc

    binary = array.cast(pa.binary()) if pa.types.is_string(array.type) else array
    probes = [binary[i].as_py() for i in range(0, len(binary), max(1, len(binary) // _PROBES))]
    if not _alike(min(probes), max(probes)):
        return 0
    bounds = pc.min_max(binary)
    return _alike(bounds["min"].as_py(), bounds["max"].as_py())


def _alike(left: bytes, right: bytes) -> int:
    """Return the length in bytes of the common prefix of two values."""
    for length, (a, b) in enumerate(zip(left, right, strict=False)):
        if a != b:
            return length
    return min(len(left), len(right))


def _rank_words(array: "pa.Array[Any]") -> Words:
    import pyarrow.compute as pc

    ranks = pc.rank(array, sort_keys="ascending", tiebreaker="dense")
    return np.asarray(to_numpy(ranks)).astype(np.uint64, copy=False)


Order: TypeAlias = npt.NDArray[np.int64]
Column: TypeAlias = "pa.Array[Any] | pa.ChunkedArray[Any]"

_SIGN = np.uint64(1 << 63)
MAX_STRING_WORDS = 4
"""Strings that need more words are ranked by Arrow's sort, which is faster than one pass for each word."""
MAX_LAZY_WORDS = 64
"""The same limit for `lazy_words`, whose callers read only as many words as they need."""
_FEW_DESCENTS = 2
"""With up to three ascending runs, a merge sort, which uses the runs, is faster than the vectorised quicksort."""
_DESCENTS_BEHIND_HEAD = 64
_HEAD_SHARE = 0.7
"""With more runs the merge sort is faster if at least this share of the rows is in the first run."""


@dataclass(frozen=True, slots=True)
class PackedWord:
    """One word for each row, of which only the low `bits` bits are used."""

    values: Words
    bits: int


def sort_groups(
    columns: Sequence[Column], ties: Sequence[Column] = (), *, sorted_head: int = 0, descending_ties: int = 0
) -> tuple[Order, Mask]:
    """Sort rows by key, stably, and mark the first row of each key.

    `columns` are the key columns, most significant first, all of one length (chunks are concatenated; strings of all
    chunks together below 2 GB). Rows of one key are ordered by the columns `ties`, then by their position. The first
    `descending_ties` of those columns are in descending order, with nulls first. If the first `sorted_head` rows are
    known to be in strictly ascending order, they are not sorted again.

    Return `order`, the row numbers in sorted order, and `starts`, a mask of the same length: starts[i] is true if
    order[i] is the first row of its key. Both are empty if there are no rows.
    """
    if not columns:
        raise ValueError("sorting by no key column")
    rows = len(columns[0])
    if rows == 0:
        return np.empty(0, np.int64), np.empty(0, np.bool_)
    long_head = sorted_head * 2 > rows
    numbers = integers(one_array(columns[0])) if long_head and len(columns) == 1 else None
    if numbers is not None:
        order, starts = _merge_into_head(numbers, sorted_head)
    else:
        packed = pack_words(key_words(columns), rows)
        single = long_head and len(packed) == 1
        order, starts = _merge_into_head(packed[0].values, sorted_head) if single else sort_words(packed)
    if ties and not starts.all():
        words = [*key_words(ties[:descending_ties], descending=True), *key_words(ties[descending_ties:])]
        order = refine_groups(order, starts, words)
    return order, starts


def group_ends(starts: Mask) -> Mask:
    """Return the mask of the last row of each group, from the mask of the first rows."""
    ends = np.empty_like(starts)
    ends[:-1] = starts[1:]
    ends[-1:] = True
    return ends


def key_words(columns: Sequence[Column], *, descending: bool = False) -> list[Words]:
    """Return the words of the rows, most significant first: rows compare as their words do, in this order.

    With `descending` greater values come first, and nulls still before all values. Words are comparable only within
    one call, because the common prefix of all strings of the call is left out.
    """
    words: list[Words] = []
    for column in columns:
        words.extend(_column_words(one_array(column), descending=descending))
    return words


def lazy_words(column: Column) -> Iterator[Words]:
    """Yield the words of one column without nulls, lazily: the first ones often distinguish all values."""
    array = one_array(column)
    if pa.types.is_string(array.type) or pa.types.is_binary(array.type):
        yield from words_of_bytes(array, MAX_LAZY_WORDS)
    else:
        yield from _value_words(array)


def row_ranks(columns: Sequence[Column]) -> PackedWord:
    """Return one word for each row, so that rows compare as their words do. There must be at least one row."""
    packed = pack_words(key_words(columns), len(columns[0]))
    if len(packed) == 1:
        return packed[0]
    order, starts = sort_words(packed)
    ranks = np.empty(len(order), np.uint64)
    ranks[order] = np.cumsum(starts, dtype=np.uint64) - np.uint64(1)
    return PackedWord(ranks, max(len(order) - 1, 1).bit_length())


def pack_words(words: Sequence[Words], rows: int) -> list[PackedWord]:
    """Return as few words as possible with the same order: unused high bits are dropped, neighbours share a word.

    The result has at least one word, for `rows` rows, even if all rows are equal.
    """
    packed: list[PackedWord] = []
    for word in words:
        lowest = word.min()
        bits = int(word.max() - lowest).bit_length()
        if bits == 0:
            continue
        values = word - lowest if lowest else word
        last = packed[-1] if packed else None
        if last is not None and last.bits + bits <= 64:
            packed[-1] = PackedWord((last.values << np.uint64(bits)) | values, last.bits + bits)
        else:
            packed.append(PackedWord(values, bits))
    return packed or [PackedWord(np.zeros(rows, np.uint64), 0)]


def sort_words(packed: Sequence[PackedWord]) -> tuple[Order, Mask]:
    """Return the stable order of rows by their words, and the mask of the first row of each group of equal rows."""
    first = packed[0]
    rows = len(first.values)
    index_bits = max(rows - 1, 0).bit_length()
    starts = np.empty(rows, np.bool_)
    starts[:1] = True
    if first.bits + index_bits <= 64:
        # Row numbers in the low bits make the values distinct, so any sort is stable and no indirection is needed.
        mixed = (first.values << np.uint64(index_bits)) | np.arange(rows, dtype=np.uint64)
        mixed.sort(kind="stable" if _is_nearly_sorted(mixed) else "quicksort")
        order = (mixed & np.uint64((1 << index_bits) - 1)).view(np.int64)
        mixed >>= np.uint64(index_bits)
        np.not_equal(mixed[1:], mixed[:-1], out=starts[1:])
    else:
        order = np.argsort(first.values, kind="stable")
        ordered = first.values[order]
        np.not_equal(ordered[1:], ordered[:-1], out=starts[1:])
    for word in packed[1:]:
        if starts.all():
            break
        order = refine_groups(order, starts, [word.values])
        ordered = word.values[order]
        starts[1:] |= ordered[1:] != ordered[:-1]
    return order, starts


def _is_nearly_sorted(values: Words) -> bool:
    descents = np.flatnonzero(values[1:] < values[:-1])
    if len(descents) <= _FEW_DESCENTS:
        return True
    return len(descents) <= _DESCENTS_BEHIND_HEAD and bool(descents[0] >= _HEAD_SHARE * len(values))


def _merge_into_head(keys: "npt.NDArray[Any]", head_rows: int) -> tuple[Order, Mask]:
    # The rows behind the head are few. Only they are sorted, and then merged into the head by binary search.
    rows = len(keys)
    if head_rows == rows:
        return np.arange(rows), np.ones(rows, np.bool_)
    head, tail = keys[:head_rows], keys[head_rows:]
    words = _integer_words(tail) if keys.dtype.kind == "i" else tail
    tail_order, starts_in_tail = sort_words(pack_words([words], len(words)))
    tail = tail[tail_order]
    before = np.searchsorted(head, tail, side="right")
    slots = before + np.arange(len(tail))
    # A running count of the slots that are left to the head gives its row numbers; a scatter would cost more.
    order = np.ones(rows, np.int64)
    order[slots] = 0
    np.cumsum(order, out=order)
    order -= 1
    order[slots] = tail_order + head_rows
    starts = np.ones(rows, np.bool_)
    starts[slots] = starts_in_tail & ((before == 0) | (head[before - 1] != tail))
    return order, starts


def refine_groups(order: Order, starts: Mask, words: Sequence[Words]) -> Order:
    """Return the order with each group sorted by further words, stably; groups that are sorted are not touched."""
    inside = np.flatnonzero(~starts)
    here, before = order[inside], order[inside - 1]
    equal = np.ones(len(inside), np.bool_)
    descents = np.zeros(len(inside), np.bool_)
    for word in words:
        left, right = word[before], word[here]
        descents |= equal & (right < left)
        equal &= left == right
    if not descents.any():
        return order
    groups = np.cumsum(starts) - 1
    unsorted = np.zeros(int(groups[-1]) + 1, np.bool_)
    unsorted[groups[inside[descents]]] = True
    slots = np.flatnonzero(unsorted[groups])
    members = order[slots]
    refined = order.copy()
    refined[slots] = members[np.lexsort([w[members] for w in reversed(words)] + [groups[slots]])]
    return refined


def _column_words(array: "pa.Array[Any]", *, descending: bool) -> list[Words]:
    if not array.null_count:
        values = _value_words(array)
        return [~w for w in values] if descending else values
    import pyarrow.compute as pc

    valid = np.asarray(to_numpy(pc.is_valid(array)))
    words = [valid.astype(np.uint64)]
    if array.null_count < len(array):
        # The value in the slot of a null is arbitrary; every null gets zero instead.
        filler = array[int(valid.argmax())]
        values = _value_words(pc.fill_null(array, filler))
        words.extend(np.where(valid, ~w if descending else w, np.uint64(0)) for w in values)
    return words


def _value_words(array: "pa.Array[Any]") -> list[Words]:
    kind = array.type
    t = pa.types
    if t.is_boolean(kind):
        return [np.asarray(to_numpy(array)).astype(np.uint64)]
    numbers = integers(array)
    if numbers is not None:
        return [_integer_words(numbers)]
    if t.is_unsigned_integer(kind):
        return [to_numpy(array).astype(np.uint64)]
    if t.is_floating(kind):
        return [float_words(to_numpy(array).astype(np.float64, copy=False))]
    if isinstance(kind, pa.Decimal128Type):
        return _decimal_words(array, kind.precision)
    if t.is_string(kind) or t.is_binary(kind):
        return _bytes_words(array)
    if t.is_large_string(kind) or t.is_string_view(kind):
        return _bytes_words(array.cast(pa.string()))
    if t.is_large_binary(kind) or t.is_binary_view(kind) or t.is_fixed_size_binary(kind):
        return _bytes_words(array.cast(pa.binary()))
    raise TypeError(f"a column of type {kind} can't be part of a key")


def integers(array: "pa.Array[Any]") -> "npt.NDArray[Any] | None":
    """Return the values as signed integers in the same order without converting them; None if that is impossible."""
    kind = array.type
    t = pa.types
    if array.null_count:
        return None
    if t.is_signed_integer(kind):
        return np.asarray(to_numpy(array))
    if t.is_date32(kind) or t.is_time32(kind):
        return np.asarray(to_numpy(array.view(pa.int32())))
    if t.is_timestamp(kind) or t.is_time64(kind) or t.is_date64(kind):
        return np.asarray(to_numpy(array.view(pa.int64())))
    return None


def _integer_words(values: npt.NDArray[Any]) -> Words:
    return values.astype(np.int64, copy=False).view(np.uint64) ^ _SIGN


def float_words(values: npt.NDArray[np.float64]) -> Words:
    # The bits of negative numbers descend, so all of them are flipped. Of other numbers only the sign is flipped.
    bits = np.where(np.isnan(values), np.nan, values).view(np.uint64)
    return np.where(bits & _SIGN, ~bits, bits | _SIGN)


def _decimal_words(array: "pa.Array[Any]", precision: int) -> list[Words]:
    # Two's complement in 16 bytes, little-endian.
    buffer = array.buffers()[1]
    if buffer is None:
        return [np.zeros(len(array), np.uint64)]
    limbs = np.frombuffer(memoryview(buffer), "<u8", count=2 * len(array), offset=16 * array.offset).reshape(-1, 2)
    if precision <= 18:
        return [limbs[:, 0] ^ _SIGN]
    return [limbs[:, 1] ^ _SIGN, np.ascontiguousarray(limbs[:, 0])]


def _bytes_words(array: "pa.Array[Any]") -> list[Words]:
    return list(words_of_bytes(array, MAX_STRING_WORDS))


def comparable_key(columns: Sequence[Column], row: int) -> tuple[Any, ...]:
    """Return the key of one row as a tuple that Python compares as the words do; for bisection and bounds."""
    return tuple(_comparable(column[row]) for column in columns)


def rows_through(columns: Sequence["pa.Array[Any]"], key: tuple[Any, ...]) -> int:
    """Return the number of rows whose key is at most `key` (see comparable_key); the keys of the rows ascend."""
    low, high = 0, len(columns[0])
    numbers = integers(columns[0])
    if numbers is not None and key[0] != (0,):
        # A bisection in Python would cost more than everything else done with the bounds of a block.
        first = numbers.dtype.type(key[0][1])
        high = int(np.searchsorted(numbers, first, side="right"))
        low = high if len(columns) == 1 else int(np.searchsorted(numbers, first, side="left"))
    while low < high:
        middle = (low + high) // 2
        if comparable_key(columns, middle) <= key:
            low = middle + 1
        else:
            high = middle
    return low


def comparable_value(value: object) -> Any:
    """Return a Python value of a key column (int, str, bytes, Decimal, date …) in a form that compares as keys do."""
    if value is None:
        return (0,)
    if isinstance(value, str):
        return (1, value.encode())
    if isinstance(value, float):
        return (1, int(float_words(np.array([value], np.float64))[0]))
    return (1, value)


class SortedKeys:
    """Key columns whose rows ascend, which `find` searches without copying them. Safe for several threads."""

    def __init__(self, columns: KeyColumns) -> None:
        self._columns = list(columns)
        self._count = len(self._columns[0])
        self._numbers = integers(self._columns[0]) if len(self._columns) == 1 else None

    def __len__(self) -> int:
        return self._count

    @cached_property
    def _samples(self) -> KeyColumns:
        # Computed on first use: integers are found without samples.
        every = np.arange(0, self._count, SAMPLE_EVERY)
        return [taken(c, every) for c in self._columns]

    def find(self, keys: KeyColumns) -> Positions:
        """Return for each key its position, -1 if it is missing. Keys are columns, in any order of rows."""
        asked = len(keys[0])
        found = np.full(asked, -1, np.int64)
        if not asked or not self._count:
            return found
        if self._numbers is not None:
            wanted_numbers = integers(_as(keys[0], self._columns[0].type))
            if wanted_numbers is not None:
                places = np.minimum(np.searchsorted(self._numbers, wanted_numbers), self._count - 1)
                return np.where(self._numbers[places] == wanted_numbers, places, -1)
        blocks = count_below(self._samples, keys, or_equal=True) - 1
        wanted = distinct(blocks[blocks >= 0])
        if not len(wanted):
            return found
        near = (wanted[:, None] * SAMPLE_EVERY + np.arange(SAMPLE_EVERY)).reshape(-1)
        near = near[near < self._count]
        candidates = [taken(c, near) for c in self._columns]
        order, starts = sort_groups([_joined(c, k) for c, k in zip(candidates, keys, strict=True)])
        # The sort is stable, so the first of equal keys is one of ours.
        first = order[np.flatnonzero(starts)][np.cumsum(starts) - 1]
        hit = (order >= len(near)) & (first < len(near))
        found[order[hit] - len(near)] = near[first[hit]]
        return found


def count_below(samples: KeyColumns, keys: KeyColumns, *, or_equal: bool) -> Positions:
    """Return for each key the number of samples (which ascend) less than it, with `or_equal` at most it."""
    count = len(keys[0])
    # The sort is stable, so of equal keys the first operand counts as less.
    pairs = zip(samples, keys, strict=True)
    order, _ = sort_groups([_joined(s, k) if or_equal else _joined(_as(k, s.type), s) for s, k in pairs])
    is_key = order >= len(samples[0]) if or_equal else order < count
    below = np.cumsum(~is_key)
    ranks = np.empty(count, np.int64)
    ranks[order[is_key] - (len(samples[0]) if or_equal else 0)] = below[is_key]
    return ranks


def _comparable(scalar: "pa.Scalar[Any]") -> Any:
    if not scalar.is_valid:
        return (0,)
    if isinstance(scalar, pa.TimestampScalar | pa.Date32Scalar | pa.Time32Scalar | pa.Time64Scalar):
        # The bare number keeps nanoseconds and far years, which datetime does not have.
        number: Any = scalar
        return (1, number.value)
    return comparable_value(scalar.as_py())


def _as(column: "pa.Array[Any]", arrow: pa.DataType) -> "pa.Array[Any]":
    return column if column.type == arrow else column.cast(arrow)


def _joined(left: "pa.Array[Any]", right: "pa.Array[Any]") -> "pa.Array[Any]":
    return pa.concat_arrays([left, _as(right, left.type)])
