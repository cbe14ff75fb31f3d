"""JSON files: an object a line, whose members are the columns.

Written as in paimon-format `json.JsonFormatWriter`, but for integers, floats and booleans, which are JSON's own values
instead of texts: Java Paimon reads both, Spark and Hive only these. Other values, NaN and infinities are texts
(values.py), which Java Paimon reads, too. Members that are no columns are ignored, missing ones are null. A line of
blanks is no row. With `json.ignore-parse-errors` a line that is no object, or that has a name twice in an object, is
left out, and a value that does not fit its column is null; otherwise these are errors that name the line.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from interbed.storage.base.arrow_values import array_of, from_numpy, nulls_of, to_numpy
from interbed.storage.base.errors import CorruptFileError, NotSupportedError
from interbed.storage.base.types.arrow import type_to_arrow
from interbed.storage.base.types.data_type import (
    INTEGERS,
    STRINGS,
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    RowType,
    TypeRoot,
)
from interbed.storage.files.text.options import JsonOptions
from interbed.storage.files.text.values import Rows, texts_of, values_of

Array = Any
_PLAIN = INTEGERS | {TypeRoot.BOOLEAN}
_FLOATS = frozenset({TypeRoot.FLOAT, TypeRoot.DOUBLE})
_NO_NUMBERS = ("NaN", "Infinity", "-Infinity")
KEY_TYPES = STRINGS | _PLAIN
"""Types of the keys of a MAP: their texts are the same in all programs."""


class _MisfitError(ValueError):
    """A value that does not fit its column."""


class JsonCodec:
    """Codec of the columns `fields` of JSON files; `wanted` names those that are decoded."""

    header_lines = 0
    header: str | None = None

    def __init__(self, fields: Sequence[DataField], syntax: JsonOptions, wanted: Sequence[str] | None = None) -> None:
        self._fields = tuple(fields)
        self._syntax = syntax
        by_name = {f.name: f for f in fields}
        self._wanted = self._fields if wanted is None else tuple(by_name[name] for name in wanted)
        self.line_delimiter = syntax.line_delimiter
        self._names = frozenset(f.name.lower() for f in fields)

    def check_header(self, lines: Sequence[bytes], path: str) -> None:
        """Do nothing: such files have no header."""

    # -- rows of lines -------------------------------------------------------------------------------------------------

    def decode(self, lines: Sequence[bytes], first_line: int, path: str) -> pa.RecordBatch:
        """Return the rows of lines, of which the first has that number in the file; raises CorruptFileError."""
        rows: list[tuple[int, dict[str, Any]]] = []
        # A loop over rows: Arrow's reader of JSON takes neither texts of numbers nor names in another case.
        for place, line in enumerate(lines):
            if not line.strip():
                continue
            try:
                rows.append((place, self._object(line)))
            except ValueError as error:
                if not self._syntax.ignores_errors:
                    raise _bad_line(first_line + place, path, str(error)) from None
        columns = []
        for field in self._wanted:
            name = field.name.lower() if self._syntax.any_case else field.name
            try:
                columns.append(self._array([row.get(name) for _, row in rows], field.type))
            except _MisfitError:
                for place, row in rows:
                    # The same column once more, to find the line.
                    try:
                        self._array([row.get(name)], field.type)
                    except _MisfitError as error:
                        why = f"its member {field.name!r} is no {field.type}: {error}"
                        raise _bad_line(first_line + place, path, why) from None
                raise
        if not columns:
            return pa.RecordBatch.from_arrays([nulls_of(len(rows), pa.null())], names=["x"]).select([])
        return pa.RecordBatch.from_arrays(columns, names=[f.name for f in self._wanted])

    def _object(self, line: bytes) -> dict[str, Any]:
        found = json.loads(
            line.decode(),
            parse_int=str,
            parse_float=str,
            parse_constant=_refuse_constant,
            object_pairs_hook=_with_names_once,
        )
        if not isinstance(found, dict):
            raise ValueError("it is no object")
        if not self._syntax.any_case:
            return found
        lower = {name.lower(): value for name, value in found.items()}
        if len(lower) < len(found):
            names = [name for name in found if name.lower() in self._names]
            _with_names_once([(name.lower(), None) for name in names])
        return lower

    def _array(self, values: Sequence[Any], data_type: DataType) -> Array:
        match data_type:
            case RowType(fields=fields):
                rows = [self._of(dict, value, "an object") for value in values]
                children = [
                    self._array([None if r is None else self._member(r, f) for r in rows], f.type) for f in fields
                ]
                arrow: Any = type_to_arrow(data_type.with_nullable(True))
                mask = from_numpy(np.array([r is None for r in rows], np.bool_))
                return pa.StructArray.from_arrays(children, fields=list(arrow), mask=mask)
            case ArrayType(element=element):
                lists = [self._of(list, value, "an array") for value in values]
                inner = self._array([item for found in lists if found is not None for item in found], element)
                return _lists(lists, type_to_arrow(data_type.with_nullable(True)), inner)
            case MapType(key=key, value=of_value):
                maps = [self._of(dict, value, "an object") for value in values]
                keys = self._array([k for found in maps if found is not None for k in found], key)
                if keys.null_count:
                    raise _MisfitError("a key of it is no key of the MAP")
                items = self._array([v for found in maps if found is not None for v in found.values()], of_value)
                arrow = type_to_arrow(data_type.with_nullable(True))
                entries = pa.StructArray.from_arrays([keys, items], fields=[arrow.key_field, arrow.item_field])
                return _lists(maps, arrow, entries)
            case AtomicType():
                return self._atomic(values, data_type)
        raise NotSupportedError(f"JSON files hold no {data_type}.")

    def _member(self, row: Mapping[str, Any], field: DataField) -> Any:
        if not self._syntax.any_case or field.name in row:
            return row.get(field.name)
        return {name.lower(): value for name, value in row.items()}.get(field.name.lower())

    def _of(self, kind: type, value: Any, what: str) -> Any:
        if value is None or isinstance(value, kind):
            return value
        if self._syntax.ignores_errors:
            return None
        raise _MisfitError(f"it is {_shown(value)}, not {what}")

    def _atomic(self, values: Sequence[Any], data_type: AtomicType) -> Array:
        texts: list[str | None] = []
        for value in values:
            if isinstance(value, bool):
                texts.append("true" if value else "false")
            elif value is None or isinstance(value, str):
                texts.append(value)
            elif self._syntax.ignores_errors:
                texts.append(None)
            else:
                raise _MisfitError(f"it is {_shown(value)}")
        found, malformed = values_of(array_of(texts, pa.string()), data_type)
        if malformed is not None and not self._syntax.ignores_errors:
            raise _MisfitError(f"it is {_shown(texts[int(np.flatnonzero(malformed)[0])])}")
        return found.cast(type_to_arrow(data_type.with_nullable(True)))

    # -- lines of rows -------------------------------------------------------------------------------------------------

    def encode(self, batch: pa.RecordBatch, rows: Rows) -> list[str]:
        """Return the lines of rows without their ends. Raises InvalidInputError naming the column and the row."""
        members = []
        for array, field in zip(batch.columns, self._fields, strict=True):
            name = json.dumps(field.name, ensure_ascii=False)
            found = _fragments(array, field.type, field.name, rows)
            members.append([f"{name}:{fragment}" for fragment in found])
        # A loop over rows: the texts of nested values are put together in Python.
        lines = ["{" + ",".join(row) + "}" for row in zip(*members, strict=True)]
        if self._syntax.line_delimiter not in ("\n", "\r\n", "\r"):
            for row, line in enumerate(lines):
                if self._syntax.line_delimiter in line:
                    raise NotSupportedError(
                        f"Row {rows[row]} (counted from 0) has the 'json.line-delimiter' in it; set that option "
                        "to a line feed, which no JSON text has."
                    )
        return lines


def _fragments(array: Array, data_type: DataType, name: str, rows: Rows) -> list[str]:
    """Return the JSON of each value."""
    if not isinstance(data_type, AtomicType):
        # A slice of lists has the values of all of them.
        array = pa.concat_arrays([array])
    valid = array.is_valid().to_pylist()
    match data_type:
        case RowType(fields=fields):
            children = [
                [
                    f"{json.dumps(f.name, ensure_ascii=False)}:{text}"
                    for text in _fragments(array.field(i), f.type, f"{name}.{f.name}", rows)
                ]
                for i, f in enumerate(fields)
            ]
            whole: Any = zip(*children, strict=True) if children else [()] * len(array)
            return ["{" + ",".join(row) + "}" if ok else "null" for row, ok in zip(whole, valid, strict=True)]
        case ArrayType(element=element):
            items = _fragments(array.values, element, name, _of_items(array, rows))
            return [
                f"[{','.join(items[a:b])}]" if ok else "null"
                for (a, b), ok in zip(pairwise(array.offsets.to_pylist()), valid, strict=True)
            ]
        case MapType(key=key, value=of_value):
            assert isinstance(key, AtomicType)
            inner = _of_items(array, rows)
            names = texts_of(array.keys, key, name=name, rows=inner).to_pylist()
            values = _fragments(array.items, of_value, name, inner)
            entries = [f"{json.dumps(n, ensure_ascii=False)}:{v}" for n, v in zip(names, values, strict=True)]
            return [
                "{" + ",".join(entries[a:b]) + "}" if ok else "null"
                for (a, b), ok in zip(pairwise(array.offsets.to_pylist()), valid, strict=True)
            ]
        case AtomicType():
            texts = texts_of(array, data_type, name=name, rows=rows).to_pylist()
            write = _writer(data_type)
            return ["null" if text is None else write(text) for text in texts]
    raise NotSupportedError(f"JSON files hold no {data_type}, as the column {name!r} is.")


def _of_items(array: Array, rows: Rows) -> Rows:
    """Return the number of the row of each value inside of lists or maps."""
    return np.repeat(rows, np.diff(to_numpy(array.offsets)))


def _writer(data_type: AtomicType) -> Callable[[str], str]:
    if data_type.root in _PLAIN:
        return str
    if data_type.root in _FLOATS:
        return lambda text: f'"{text}"' if text in _NO_NUMBERS else text
    return lambda text: json.dumps(text, ensure_ascii=False)


def _lists(values: Sequence[Any], arrow: Any, inner: Array) -> Array:
    """Return lists or maps of that Arrow type; the values inside of them follow one another."""
    lengths = np.array([0 if value is None else len(value) for value in values], np.int32)
    offsets = from_numpy(np.concatenate([np.zeros(1, np.int32), np.cumsum(lengths, dtype=np.int32)]))
    missing = np.array([value is None for value in values], np.bool_)
    valid = pa.array(~missing).buffers()[1] if missing.any() else None
    kind = pa.MapArray if pa.types.is_map(arrow) else pa.ListArray
    return kind.from_buffers(
        arrow, len(values), [valid, offsets.buffers()[1]], int(missing.sum()), 0, children=[_of_type(inner, arrow)]
    )


def _of_type(inner: Array, arrow: Any) -> Array:
    return inner if pa.types.is_map(arrow) else inner.cast(arrow.value_type)


def _with_names_once(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Return the members of an object. Raises ValueError for a name that occurs twice, as a value would be lost."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"it has the name {twice!r} twice")
    return found


def _refuse_constant(text: str) -> Any:
    raise ValueError(f"{text} is no JSON")


def _bad_line(line: int, path: str, why: str) -> CorruptFileError:
    return CorruptFileError(
        f"Line {line} of the data file {path} can't be read: {why}. Mend the line, or set 'json.ignore-parse-errors'."
    )


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 100 else f"{text[:100]}…"
