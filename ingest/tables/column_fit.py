"""Lossless conversion of values of messages to the type of a table's column.

A guessed type says how a value is written, not what it means: a text may be a DECIMAL, a DATE or a TIMESTAMP, an
integer a DECIMAL or a DOUBLE. So values are cast if each of them is a value of the column's type. A value is refused if
it is too long or too large, has too fine a fraction, or lacks a time zone that the column needs. An integer is no date
and a text is no bytes, because messages do not state the unit or the encoding.

`exact_arrays` makes Arrow arrays of parsed JSON without losing anything: values are grouped by the type that each has
alone. Numbers with a fraction are kept as their texts, and so are integers beside them in one list. These texts have a
type of their own, SENT_NUMBERS.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from interbed.ingest.formats.arrays import (
    FLOATS,
    Array,
    Indices,
    check_not_lost,
    decimals_of_texts,
    floats_of_integers,
    floats_of_texts,
    mask_of,
    sent_numbers,
    taken,
)
from interbed.ingest.formats.json_objects import SentNumber, json_text, parsed_json, type_of
from interbed.storage.base.arrow_values import exact_decimals
from interbed.storage.base.path_name import is_blank
from interbed.storage.base.row.python_values import python_value
from interbed.storage.base.types.arrow import type_to_arrow
from interbed.storage.base.types.casting.formatting import text_of_times
from interbed.storage.base.types.data_type import (
    BINARIES,
    STRINGS,
    TIMESTAMPS,
    ArrayType,
    AtomicType,
    DataType,
    MapType,
    RowType,
    TypeRoot,
)
from interbed.storage.meta.schema.table_schema import KEY_PREFIX, SYSTEM_COLUMNS

SENT_NUMBERS = pa.large_string()
"""The type of texts that are numbers of JSON; other texts are of the type string."""


_NUMBERS = frozenset(
    {
        TypeRoot.TINYINT,
        TypeRoot.SMALLINT,
        TypeRoot.INT,
        TypeRoot.BIGINT,
        TypeRoot.FLOAT,
        TypeRoot.DOUBLE,
        TypeRoot.DECIMAL,
    }
)


def fitted(values: Array, target: DataType) -> Array:
    """Convert the values to the type of a column. Raises ValueError with the reason for an invalid value."""
    arrow: Any = type_to_arrow(target)
    if pa.types.is_null(values.type) or (len(values) and values.null_count == len(values)):
        nulls: Array = pa.nulls(len(values), arrow)
        return nulls
    if isinstance(target, RowType):
        return _rows(values, target)
    if isinstance(target, ArrayType) and pa.types.is_list(values.type):
        # A copy starts at its first value; the offsets of a slice do not.
        whole: Any = pa.concat_arrays([values])
        return pa.ListArray.from_arrays(
            whole.offsets, fitted(whole.values, target.element), type=arrow, mask=whole.is_null()
        )
    if not isinstance(target, AtomicType):
        if values.type == arrow:
            return values
        if isinstance(target, MapType):
            raise ValueError(f"messages have no values of {target}; make the column a ROW or a STRING")
        raise ValueError(f"{_an_example(values)} is no {target}")
    return _atoms(values, target, arrow)


def fitted_guess(values: Array, target: DataType) -> Array:
    """Convert values of a guessed type to the type of a column. Raises ValueError with the reason for an invalid value.

    Texts are parsed as lists and objects of JSON if the column is an ARRAY or a ROW.
    """
    if not isinstance(target, RowType | ArrayType) or not pa.types.is_string(values.type):
        return fitted(values, target)
    # One by one: this happens if values of one field are of several kinds.
    objects = {i: None if text is None else _json(text) for i, text in enumerate(values.to_pylist())}
    parts, places = [], []
    for numbers, array in exact_arrays(objects, target):
        parts.append(fitted(array, target))
        places.append(numbers)
    if not parts:
        return fitted(values, target)
    return taken(pa.concat_arrays(parts), np.argsort(np.concatenate(places), kind="stable"))


def known_type(kind: pa.DataType) -> pa.DataType | None:
    """Return the type without fields that are null in all values; None if nothing is left of it."""
    given: Any = kind
    if pa.types.is_struct(kind):
        fields = [f.with_type(inner) for f in given if (inner := known_type(f.type)) is not None]
        return pa.struct(fields) if fields else None
    if pa.types.is_list(kind):
        element = known_type(given.value_type)
        return None if element is None else pa.list_(given.value_field.with_type(element))
    return None if pa.types.is_null(kind) else kind


def blank_names(kind: pa.DataType) -> int:
    """Return the number of fields within a type that have an empty or blank name, as no new field has."""
    given: Any = kind
    if pa.types.is_struct(kind):
        return sum(is_blank(f.name) + blank_names(f.type) for f in given)
    return blank_names(given.value_type) if pa.types.is_list(kind) else 0


def impossible_columns(names: Iterable[str], known: Collection[str]) -> dict[str, str]:
    """Return names of columns that a table with the columns `known` cannot get, with the reasons.

    Of several names that differ by case only, the first one is possible.
    """
    found: dict[str, str] = {}
    lower = {name.lower(): name for name in known}
    for name in names:
        if name in known:
            continue
        other = lower.setdefault(name.lower(), name)
        if other != name:
            found[name] = f"differs from {other!r} by case alone, which metastores and SQL don't distinguish"
        elif is_blank(name) or name in SYSTEM_COLUMNS or name.startswith(KEY_PREFIX):
            found[name] = "has a name that no column can have"
    return found


def _json(text: str) -> Any:
    value = parsed_json(text.encode())
    if not isinstance(value, dict | list):
        raise ValueError(f"{text!r} is a single value")
    return value


def _atoms(values: Array, target: AtomicType, arrow: pa.DataType) -> Array:
    source: Any = values.type
    if target.root in STRINGS:
        return _texts(values, target, arrow)
    if source == SENT_NUMBERS:
        if target.root in _NUMBERS:
            return sent_numbers(values, target, arrow)
        raise ValueError(f"{_an_example(values)} is no {target}")
    if target.root in BINARIES:
        if not pa.types.is_binary(source):
            raise ValueError(f"{_an_example(values)} is no {target}: the bytes of a text are not known")
        content: Any = values
        _check_length(pc.binary_length(content), target)
        return values.cast(arrow)
    if source == arrow:
        _check_digits(values, target)
        return values
    if pa.types.is_floating(source) and target.root is TypeRoot.DECIMAL:
        # By its decimal digits: the exact binary fraction has too many digits.
        digits = [None if v is None else Decimal(repr(v)) for v in values.to_pylist()]
        return pa.array(digits, pa.decimal256(76, 38)).cast(arrow)
    if target.root in FLOATS and (pa.types.is_integer(source) or (pa.types.is_decimal(source) and not source.scale)):
        return floats_of_integers(values, target, arrow)
    if target.root in FLOATS and pa.types.is_string(source):
        made_of_texts = floats_of_texts(values, target)
        _check_finite(values, made_of_texts, target)
        return made_of_texts
    if pa.types.is_integer(source) and target.root is TypeRoot.DECIMAL:
        # First to a type that holds any integer, which Arrow requires for any values.
        return values.cast(pa.decimal256(76, target.scale or 0)).cast(arrow)
    if target.root is TypeRoot.DECIMAL and pa.types.is_string(source):
        return decimals_of_texts(values, target, arrow)
    if target.root is TypeRoot.DECIMAL and pa.types.is_decimal(source):
        return exact_decimals(values, arrow)
    made: Any = None
    if pa.types.is_string(source) and target.root is TypeRoot.TIME:
        made = _clock_times(values, target)
    elif pa.types.is_string(source) or (target.root in _NUMBERS and _is_number(source)):
        made = _parsed(values, target, arrow) if pa.types.is_string(source) else values.cast(arrow)
        if pa.types.is_floating(arrow):
            _check_finite(values, made, target)
    elif pa.types.is_temporal(source) and pa.types.is_temporal(arrow) and str(source)[:4] == str(arrow)[:4]:
        _check_zone(source, arrow, target)
        made = values.cast(arrow)
    if made is not None:
        _check_digits(made, target)
        found: Array = made
        return found
    raise ValueError(f"{_an_example(values)} is no {target}")


def _parsed(texts: Any, target: AtomicType, arrow: Any) -> Any:
    """Return the values of texts. Raises ValueError, which has the form of a date or time that the type takes."""
    try:
        return texts.cast(arrow)
    except pa.ArrowInvalid as error:
        form = ""
        if pa.types.is_date(arrow):
            form = ", such as 2024-01-31"
        elif pa.types.is_timestamp(arrow):
            digits = "0" * (target.precision or 0)
            moment = f"2024-01-31T10:20:30{'.' if digits else ''}{digits}"
            form = f" without a zone, such as {moment}" if arrow.tz is None else f" with a zone, such as {moment}Z"
        raise ValueError(f"it is no {target}{form}") from error


def _check_zone(source: Any, arrow: Any, target: AtomicType) -> None:
    """Refuse instants for times without a zone, and the reverse: the intended zone is not known."""
    if pa.types.is_timestamp(source) and (source.tz is None) != (arrow.tz is None):
        given = "a timestamp without a time zone" if source.tz is None else "an instant, with a time zone,"
        raise ValueError(f"{given} is no {target}")


def _clock_times(texts: Any, target: AtomicType) -> Any:
    """Return times of the day, which have minutes. Arrow parses them only within timestamps."""
    if not mask_of(pc.match_substring(texts, ":").fill_null(True)).all():
        raise ValueError("it is no time of the day with hours and minutes")
    moments: Any = pc.binary_join_element_wise(pa.scalar("1970-01-01"), texts, pa.scalar(" "))
    try:
        return moments.cast(pa.timestamp("ms")).cast(pa.time32("ms"))
    except pa.ArrowInvalid as error:
        raise ValueError(f"it is no {target}, such as 10:20:30.250") from error


def _check_finite(given: Any, made: Any, target: AtomicType) -> None:
    """Refuse numbers that are too large or too small: Arrow makes infinite ones and zeros of them."""
    if pa.types.is_floating(given.type):
        is_finite = pc.is_finite(given)
    elif pa.types.is_string(given.type):
        is_finite = pc.invert(pc.match_substring_regex(given, "(?i)inf"))
    else:
        return
    if mask_of(pc.and_(pc.is_inf(made), is_finite).fill_null(False)).any():
        raise ValueError(f"it is beyond the range of {target}")
    check_not_lost(given, made, target)


def _check_digits(values: Any, target: AtomicType) -> None:
    """Refuse times with more digits after the point than the type has: Arrow has three, six or nine."""
    kind: Any = values.type
    if target.root not in TIMESTAMPS or target.precision is None:
        return
    step = 10 ** ({"s": 0, "ms": 3, "us": 6, "ns": 9}[kind.unit] - target.precision)
    if step <= 1:
        return
    ticks: Any = values.cast(pa.int64()).fill_null(0).to_numpy()
    if (ticks % step).any():
        raise ValueError(f"it has more digits after the point than {target}")


def _rows(values: Array, target: RowType) -> Array:
    given: Any = values
    if not pa.types.is_struct(given.type):
        raise ValueError(f"{_an_example(values)} is no {target}")
    names = [field.name for field in given.type]
    parts = dict(zip(names, given.flatten(), strict=True))
    others = (n for n in names if n not in target.names and known_type(parts[n].type) is not None)
    unknown = [n for n in others if parts[n].null_count < len(values)]
    if unknown:
        raise ValueError(f"it has the field {unknown[0]!r}, which {target} has not")
    arrow: Any = type_to_arrow(target)
    columns = [fitted(parts.get(f.name, pa.nulls(len(values))), f.type) for f in target.fields]
    return pa.StructArray.from_arrays(columns, fields=list(arrow), mask=given.is_null())


def _texts(values: Array, target: AtomicType, arrow: pa.DataType) -> Array:
    source = values.type
    texts: Any = values
    if pa.types.is_binary(source):
        raise ValueError(f"{_an_example(values)} is no {target}: bytes are no text")
    if pa.types.is_nested(source):
        # Objects and lists of JSON become texts of JSON.
        written = [None if v is None else json_text(v) for v in values.to_pylist()]
        texts = pa.array(written, pa.string())
    elif source == SENT_NUMBERS:
        texts = texts.cast(pa.string())
    elif not pa.types.is_string(source):
        texts = text_of_times(values)
    _check_length(pc.utf8_length(texts), target)
    found: Array = texts.cast(arrow)
    return found


def _check_length(lengths: Any, target: AtomicType) -> None:
    longer: Any = pc.greater(lengths, pa.scalar(target.length or 0))
    if mask_of(longer.fill_null(False)).any():
        raise ValueError(f"it is longer than {target}")


def _is_number(source: pa.DataType) -> bool:
    return pa.types.is_integer(source) or pa.types.is_floating(source) or pa.types.is_decimal(source)


def _an_example(values: Array) -> str:
    known = values.drop_null()
    return repr(python_value(known[0])) if len(known) else str(values.type)


def exact_arrays(values: Mapping[int, Any], target: DataType) -> Iterator[tuple[Indices, Array]]:
    """Yield the values by type, with their numbers. Objects and lists are JSON if the column `target` has texts."""
    written = {i: _with_json_texts(value, target) for i, value in values.items()}
    places: dict[pa.DataType, list[int]] = {}
    for i, value in written.items():
        places.setdefault(type_of(value), []).append(i)
    for kind, numbers in places.items():
        exact = _with_sent_numbers(kind)
        yield np.array(numbers, np.int64), pa.array([_made(written[i], exact) for i in numbers], exact)


def doubles(values: Sequence[Any], kind: pa.DataType) -> Array:
    """Return the values as an array of a type of `type_of`; each number of a DOUBLE is the nearest one."""
    exact = _with_sent_numbers(kind)
    found: Array = _without_sent_numbers(pa.array([_made(value, exact) for value in values], exact), kind)
    return found


def _with_json_texts(value: Any, target: DataType) -> Any:
    if isinstance(value, dict) and isinstance(target, RowType):
        types = {f.name: f.type for f in target.fields}
        return {n: _with_json_texts(v, types[n]) if n in types else v for n, v in value.items()}
    if isinstance(value, list) and isinstance(target, ArrayType):
        return [_with_json_texts(each, target.element) for each in value]
    is_text = isinstance(target, AtomicType) and target.root in STRINGS
    return json_text(value) if is_text and isinstance(value, dict | list) else value


def _with_sent_numbers(kind: pa.DataType) -> pa.DataType:
    if isinstance(kind, pa.StructType):
        return pa.struct([f.with_type(_with_sent_numbers(f.type)) for f in kind])
    if isinstance(kind, pa.ListType):
        return pa.list_(kind.value_field.with_type(_with_sent_numbers(kind.value_type)))
    return SENT_NUMBERS if pa.types.is_floating(kind) else kind


def _without_sent_numbers(values: Any, kind: pa.DataType) -> Any:
    if values.type == kind:
        return values
    if isinstance(kind, pa.StructType):
        parts = [_without_sent_numbers(part, f.type) for part, f in zip(values.flatten(), kind, strict=True)]
        return pa.StructArray.from_arrays(parts, fields=list(kind), mask=values.is_null())
    if isinstance(kind, pa.ListType):
        inner = _without_sent_numbers(values.values, kind.value_type)
        lists: Any = pa.ListArray.from_arrays(values.offsets, inner, type=kind, mask=values.is_null())
        return lists
    return values.cast(kind)


def _made(value: Any, kind: pa.DataType) -> Any:
    if value is None:
        return None
    if isinstance(kind, pa.StructType):
        return {f.name: _made(value.get(f.name), f.type) for f in kind}
    if isinstance(kind, pa.ListType):
        return [_made(each, kind.value_type) for each in value]
    if kind == SENT_NUMBERS:
        return value.text if isinstance(value, SentNumber) else str(value)
    return json_text(value) if pa.types.is_string(kind) and not isinstance(value, str) else value
