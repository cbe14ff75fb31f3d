"""Functions whose values grow: collect, merge_map, merge_map_with_keytime, nested_update, listagg and their kin.

Functions over arrays and maps keep numbers of elements (or of map entries) instead of elements, and equality as one
code for each element, so that all element types are handled alike. They loop over rows in Python: the result for an
element depends on the elements that the key's array has already, whose number differs from key to key.

Paimon keeps elements in hash sets and maps, so their order in the result is no part of the format. Here elements keep
the order in which they were added.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from interbed.storage.base.arrow_values import array_of, from_numpy, scalar_of, to_numpy
from interbed.storage.lsm.key_words import Order, row_ranks
from interbed.storage.lsm.merge_function.api import Numbers, block_memory_pool, take_column, validity, without_nulls
from interbed.storage.lsm.merge_function.fields.fold import Column, ColumnFold, FieldValues, LateRows
from interbed.storage.lsm.merge_function.segments import KeyRows, Slots

Codes = npt.NDArray[np.int64]
ElementNumbers: TypeAlias = "list[int] | None"
"""Numbers of elements; None for a null array."""


class ElementLists(ColumnFold):
    """A fold of arrays or maps by slot, as numbers of the elements of the column."""

    def __init__(self, column: Column, slots: int, of: str) -> None:
        super().__init__(column, slots, of)
        self._lists: list[Any] = [None] * slots

    @cached_property
    def _offsets(self) -> list[int]:
        offsets: list[int] = offsets_of(self.column).tolist()
        return offsets

    @cached_property
    def _valid(self) -> list[bool] | None:
        valid = validity(self.column)
        return None if valid is None else valid.tolist()

    def add(self, slots: Slots, rows: Order) -> None:
        self._each(slots, rows, self._agg)

    def add_late(self, slots: Slots, rows: Order) -> None:
        self._each(slots, rows, lambda held, items: self._agg(items, held))

    def put(self, slots: Slots, rows: Order) -> None:
        self._each(slots, rows, lambda _, items: items)

    def clear(self, slots: Slots) -> None:
        for slot in np.arange(self.slots)[slots].tolist():
            self._lists[slot] = None

    def retract(self, slots: Slots, rows: Order) -> None:
        if not self.can_retract:
            super().retract(slots, rows)
        self._each(slots, rows, lambda held, items: self._without(held, items) if held and items else held)

    def result(self) -> Column:
        lengths = np.array([0 if held is None else len(held) for held in self._lists], np.int64)
        offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
        mask = np.array([held is None for held in self._lists] + [False], np.bool_)
        starts: Any = pa.array(offsets, mask=mask if mask.any() else None)
        flat: list[Any] = [n for held in self._lists if held for n in held]
        return self._built(starts, flat)

    def _built(self, offsets: Any, flat: list[Any]) -> Column:
        kind: Any = self.column.type
        taken = children(self.column).take(array_of(flat, pa.int64()))
        if isinstance(self.column.type, pa.MapType):
            # The entries of a map are rows of key and value, which are never null.
            keys, items = taken.field(0), taken.field(1)
            maps: Column = pa.MapArray.from_arrays(offsets, keys, items, type=kind)
            return maps
        lists: Column = pa.ListArray.from_arrays(offsets, taken, type=kind)
        return lists

    def _agg(self, held: Any, items: Any) -> Any:
        raise NotImplementedError

    def _without(self, held: list[int], items: list[int]) -> list[int]:
        raise NotImplementedError

    def _items(self, row: int) -> Any:
        if self._valid is not None and not self._valid[row]:
            return None
        return list(range(self._offsets[row], self._offsets[row + 1]))

    def _each(self, slots: Slots, rows: Order, merge: Callable[[Any, Any], Any]) -> None:
        lists = self._lists
        for slot, row in zip(np.arange(self.slots)[slots].tolist(), rows.tolist(), strict=True):
            lists[slot] = merge(lists[slot], self._items(row))


class CollectElements(ElementLists):
    """`collect`: all elements, with `distinct` each once; a retraction removes each of its elements once."""

    can_retract = True
    late = LateRows.ANYWHERE

    def __init__(self, column: Column, slots: int, of: str, *, distinct: bool) -> None:
        super().__init__(column, slots, of)
        self._distinct = distinct
        self._codes: list[int] = []
        self._coded = False

    def add_late(self, slots: Slots, rows: Order) -> None:
        """Add late elements as others, because their order is irrelevant."""
        self.add(slots, rows)

    def reduce(self, keys: KeyRows) -> "Column | None":
        if self._distinct or not len(keys):
            return None
        rows: Any = take_column(self.column, Numbers(keys.order), block_memory_pool())
        ends = offsets_of(rows)
        offsets = np.append(ends.take(keys.firsts), ends[-1]).astype(np.int32)
        valid = validity(self.column)
        mask = None if valid is None else np.append(~keys.has(valid), False)
        starts: Any = pa.array(offsets, mask=mask if mask is not None and mask.any() else None)
        kind: Any = self.column.type
        lists: Column = pa.ListArray.from_arrays(starts, children(rows), type=kind)
        return lists

    def _agg(self, held: ElementNumbers, items: ElementNumbers) -> ElementNumbers:
        if not self._distinct:
            return items if held is None else held if items is None else held + items
        if held is None and items is None:
            return None
        code = self._code()
        distinct: dict[int, int] = {}
        for n in [*(held or ()), *(items or ())]:
            distinct.setdefault(code[n], n)
        return list(distinct.values())

    def _without(self, held: list[int], items: list[int]) -> list[int]:
        code = self._code()
        removed: dict[int, int] = {}
        for n in items:
            removed[code[n]] = removed.get(code[n], 0) + 1
        left = []
        for n in held:
            if removed.get(code[n], 0):
                removed[code[n]] -= 1
            else:
                left.append(n)
        return left

    def _code(self) -> list[int]:
        if not self._coded:
            self._codes, self._coded = codes(children(self.column)).tolist(), True
        return self._codes


class MergeMap(ElementLists):
    """`merge_map`: the entries of all maps, the newest of each key; a retraction removes the keys of its map."""

    can_retract = True

    def __init__(self, column: Column, slots: int, of: str) -> None:
        super().__init__(column, slots, of)
        self._key_codes: list[int] = codes(children(column).field(0)).tolist()

    def _agg(self, held: ElementNumbers, items: ElementNumbers) -> ElementNumbers:
        if held is None or items is None:
            return items if held is None else held
        code = self._key_codes
        return list({code[n]: n for n in [*held, *items]}.values())

    def _without(self, held: list[int], items: list[int]) -> list[int]:
        code = self._key_codes
        removed = {code[n] for n in items}
        return [n for n in held if code[n] not in removed]


class MergeMapWithKeyTime(ElementLists):
    """`merge_map_with_keytime`: the entry of each key with the greatest time; one without a value removes its key."""

    def __init__(self, column: Column, slots: int, of: str, *, time_field: int) -> None:
        super().__init__(column, slots, of)
        entries = children(column)
        self._key_codes: list[int] = codes(entries.field(0)).tolist()
        values = entries.field(1)
        self._has_value: list[bool] = values.is_valid().to_pylist()
        times = values.flatten()[time_field]
        self._has_time: list[bool] = times.is_valid().to_pylist()
        self._times: list[int] = codes(times).tolist()

    def _agg(self, held: ElementNumbers, items: ElementNumbers) -> ElementNumbers:
        if held is None or items is None:
            return items if held is None else held
        code, times = self._key_codes, self._times
        entries = {code[n]: n for n in held}
        for n in items:
            old = entries.get(code[n])
            if not self._has_value[n]:
                entries.pop(code[n], None)
            elif self._has_time[n] and (
                old is None or not self._has_value[old] or not self._has_time[old] or times[n] > times[old]
            ):
                entries[code[n]] = n
        return list(entries.values())


class NestedUpdate(ElementLists):
    """`nested_update`: the rows of all arrays up to a limit; with a nested key the newest row of each key."""

    can_retract = True

    def __init__(self, column: Column, slots: int, of: str, *, key_fields: Sequence[int], limit: int) -> None:
        super().__init__(column, slots, of)
        rows = children(column)
        self._present: list[bool] = rows.is_valid().to_pylist()
        self._limit = limit
        self._keyed = bool(key_fields)
        by = codes_of_row([rows.flatten()[i] for i in key_fields]) if key_fields else codes(rows)
        self._codes: list[int] = by.tolist()

    def _agg(self, held: ElementNumbers, items: ElementNumbers) -> ElementNumbers:
        if held is None or items is None:
            return items if held is None else held
        if len(held) >= self._limit:
            return held
        rows = [*self._rows(held), *self._rows(items)[: self._limit - len(held)]]
        return self._by_key(rows) if self._keyed else rows

    def _without(self, held: list[int], items: list[int]) -> list[int]:
        removed = {self._codes[n] for n in self._rows(items)}
        rows = self._rows(held)
        return [n for n in (self._by_key(rows) if self._keyed else rows) if self._codes[n] not in removed]

    def retract(self, slots: Slots, rows: Order) -> None:
        self._each(
            slots, rows, lambda held, items: held if held is None or items is None else self._without(held, items)
        )

    def _rows(self, numbers: Iterable[int]) -> list[int]:
        return [n for n in numbers if self._present[n]]

    def _by_key(self, numbers: Iterable[int]) -> list[int]:
        return list({self._codes[n]: n for n in numbers}.values())


class NestedPartialUpdate(ElementLists):
    """`nested_partial_update`: one row for each nested key, with the newest value of each field that is not null.

    A row is kept as the numbers of the rows that have the values of its fields, -1 for null; None for a null row.
    """

    def __init__(self, column: Column, slots: int, of: str, *, key_fields: Sequence[int]) -> None:
        super().__init__(column, slots, of)
        rows = children(column)
        fields = rows.flatten()
        self._codes: list[int] = codes_of_row([fields[i] for i in key_fields]).tolist()
        self._key_fields = key_fields
        numbers = np.arange(len(rows))
        present = [np.where(np.asarray(to_numpy(f.is_valid())), numbers, -1) for f in fields]
        self._fields: list[tuple[int, ...]] = list(zip(*(p.tolist() for p in present), strict=True))
        self._present: list[bool] = rows.is_valid().to_pylist()

    def _items(self, row: int) -> Any:
        numbers = super()._items(row)
        return None if numbers is None else [(n, self._fields[n]) if self._present[n] else None for n in numbers]

    def _agg(self, held: Any, items: Any) -> Any:
        if held is None or items is None:
            return items if held is None else held
        rows: dict[int, tuple[int, tuple[int, ...]]] = {}
        for row in (r for r in [*held, *items] if r is not None):
            number, fields = row
            code = self._codes[number]
            old = rows.get(code)
            rows[code] = (
                row if old is None else (old[0], tuple(o if n < 0 else n for o, n in zip(old[1], fields, strict=True)))
            )
        return list(rows.values())

    def _built(self, offsets: Any, flat: list[Any]) -> Column:
        rows = children(self.column)
        kind = rows.type
        columns = []
        for i, field in enumerate(rows.flatten()):
            numbers = np.array([-1 if row is None else row[1][i] for row in flat], np.int64)
            columns.append(field.take(pa.array(numbers, mask=numbers < 0)))
        missing: Any = array_of([row is None for row in flat], pa.bool_())
        built = pa.StructArray.from_arrays(
            columns, fields=[kind.field(i) for i in range(kind.num_fields)], mask=missing
        )
        return pa.ListArray.from_arrays(offsets, built, type=self.column.type)


class ListAgg(FieldValues):
    """`listagg`: the texts with a delimiter between them; with `distinct` each part once."""

    late = LateRows.BEFORE

    def __init__(self, column: Column, slots: int, of: str, *, delimiter: str, distinct: bool) -> None:
        super().__init__(column, slots, of)
        self._delimiter = delimiter
        self._distinct = distinct

    def reduce(self, keys: KeyRows) -> "Column | None":
        if self._distinct or not len(keys):
            return None
        valid = validity(self.column)
        # Empty texts and nulls add nothing, not even a delimiter.
        texts: Any = without_nulls(self.column)
        filled = np.asarray(to_numpy(pc.binary_length(texts))) > 0
        if valid is not None:
            filled &= valid
        added = filled.take(keys.order)
        parts = take_column(self.column, Numbers(keys.order.compress(added)), block_memory_pool())
        ends = np.cumsum(added)
        starts = np.append(ends.take(keys.firsts) - added.take(keys.firsts), ends[-1]).astype(np.int32)
        offsets: Any = from_numpy(starts)
        joined: Any = pc.binary_join(pa.ListArray.from_arrays(offsets, parts), self._delimiter)
        if valid is not None:
            present: Any = from_numpy(keys.has(valid))
            joined = pc.if_else(present, joined, scalar_of(None, joined.type))
        return joined  # type: ignore[no-any-return]

    def _agg(self, held: str | None, value: str | None) -> str | None:
        if held is None or value is None:
            return value if held is None else held
        if not value or not held:
            return held or value
        if not self._distinct:
            return held + self._delimiter + value
        parts = [held]
        present = set(self._parts(held))
        for part in self._parts(value):
            if part and part not in present:
                present.add(part)
                parts.append(part)
        return self._delimiter.join(parts)

    def _parts(self, text: str) -> list[str]:
        return text.split(self._delimiter) if self._delimiter else text.split()


def offsets_of(column: Column) -> Codes:
    """Return the index in `children` of the first element of each row, and the total number of elements."""
    offsets: Any = column.offsets  # type: ignore[attr-defined]  # Lists and maps have it.
    numbers = np.asarray(to_numpy(offsets)).astype(np.int64)
    return numbers - (numbers[0] if len(numbers) else 0)


def children(column: Column) -> Any:
    """Return the elements of all rows of a list column, or the entries of a map column as rows of key and value."""
    offsets: Any = column.offsets  # type: ignore[attr-defined]
    first, last = (offsets[0].as_py(), offsets[-1].as_py()) if len(offsets) else (0, 0)
    if isinstance(column, pa.MapArray):
        keys, items = column.keys.slice(first, last - first), column.items.slice(first, last - first)
        fields = [pa.field("key", keys.type), pa.field("value", items.type)]
        return pa.StructArray.from_arrays([keys, items], fields=fields)
    values: Any = column.values  # type: ignore[attr-defined]
    return values.slice(first, last - first)


def codes(column: Any) -> Codes:
    """Return a code for each value (null included), equal for equal values. Codes of atomic types are in order."""
    if not len(column):
        return np.empty(0, np.int64)
    kind = column.type
    if pa.types.is_struct(kind):
        valid: Codes = np.asarray(to_numpy(column.is_valid())).astype(np.int64)
        return codes_of_row([*column.flatten(), valid])
    if pa.types.is_list(kind) or pa.types.is_map(kind):
        inner, offsets = codes(children(column)).tolist(), offsets_of(column).tolist()
        valid_rows = column.is_valid().to_pylist()
        seen: dict[Any, int] = {}
        # Arrays have no fixed number of words, so they are compared as tuples.
        numbers = [
            seen.setdefault(tuple(inner[a:b]) if valid else None, len(seen))
            for a, b, valid in zip(offsets, offsets[1:], valid_rows, strict=False)
        ]
        return np.array(numbers, np.int64)
    values: Codes = row_ranks([column]).values.astype(np.int64)
    return values


def codes_of_row(columns: Sequence[Any]) -> Codes:
    """Return a code for each row of these columns, equal for equal rows."""
    table = np.stack([c if isinstance(c, np.ndarray) else codes(c) for c in columns], axis=1)
    if not len(table):
        return np.empty(0, np.int64)
    numbers: Codes = np.unique(table, axis=0, return_inverse=True)[1].reshape(-1)
    return numbers
