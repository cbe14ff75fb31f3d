"""JSON objects as Arrow columns, by Arrow's reader.

Arrow reads many texts at once, but it needs the types of all fields, also of nested ones. A `JsonShape` learns them
from the texts, in Python, whenever a text has a field or a type that the shape lacks; as a rule it lacks none, and no
text is parsed in Python. Where values of one field are of several kinds, the field is a text; its numbers, lists and
objects are written as JSON. Texts that Arrow refuses are parsed one by one; those that are no objects are bad messages.

Arrow's reader trusts its input: several values in one text would become several rows, and a value at the top that is no
object ends the process. So Arrow gets a text only if it begins and ends like an object, and if no value seems to follow
an object without a comma. Every other text is parsed in Python first, and written again.

Types that are learned: BIGINT (DECIMAL(38, 0) beyond 64 bits), DOUBLE, BOOLEAN, STRING, ROW, ARRAY. A DOUBLE is the
nearest to the number in the text. `SentJson` parses the text again where a column holds more digits than that.
"""

import json
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NoReturn

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from interbed.ingest.flow.changes import BadMessage, SentRows
from interbed.ingest.formats.arrays import Array, Indices, Mask, is_lost, mask_of, one_array, taken
from interbed.storage.base.row.kind import RowKind

_STUCK_TOGETHER = r"\}[ \t\r\n]*[^ \t\r\n,}\]]"
"""An object inside of a value is followed by a comma or the end of its container. In a string it may be otherwise."""

_SMALL = r"[0-9.][eE]-0*([3-9][0-9]|[0-9]{3})|0{15}"
"""Pattern of texts that may have a number of which the nearest DOUBLE is 0."""

_BLOCK = 256
"""The number of texts that are tried together, to find those that have something new."""

_MOST_DIGITS = 38
_INT64 = range(-(2**63), 2**63)
LARGE_INTEGER = pa.decimal128(_MOST_DIGITS, 0)


class SentNumber:
    """A number with a fraction or an exponent, as its text: 1.50 is not 1.5.

    Two objects are never equal; compare the results of their texts.
    """

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadObjects:
    """The objects of the texts with the indices `index`, as columns of the same length; and the texts that are none.

    In `rewritten` objects a value of another kind became a text; None if there is no such object.
    """

    rows: pa.Table
    index: npt.NDArray[np.int64]
    bad: Sequence[BadMessage]
    rewritten: Mask | None = None


class JsonShape:
    """The fields of objects, and their types. A `stated` shape is known from a schema, and learns nothing.

    Fields that are `alike` have one type. Fields that are `texts` are lists of rows whose values are texts; other
    values of such rows become texts, except booleans and integers of 64 bits.
    """

    def __init__(
        self,
        fields: pa.Schema | None = None,
        *,
        stated: bool = False,
        alike: Sequence[str] = (),
        texts: Sequence[str] = (),
    ) -> None:
        self.fields = pa.schema([]) if fields is None else fields
        self._stated = stated
        self._alike = frozenset(alike)
        self._texts = frozenset(texts)

    def read(self, texts: "pa.Array[Any]") -> ReadObjects:
        """Return the objects in the texts (binary, no nulls); fields that no object has are null."""
        rows = self.read_known(texts)
        if rows is not None:
            return ReadObjects(rows=rows, index=np.arange(len(texts)), bad=())
        return self._learned(texts)

    def read_known(self, texts: "pa.Array[Any]") -> pa.Table | None:
        """Return the same; None if a text is bad, may be bad, or has something new."""
        return read_by_arrow(texts, self.fields) if is_one_object(texts).all() else None

    def _learned(self, texts: "pa.Array[Any]") -> ReadObjects:
        """Parse in Python texts that Arrow refuses, because objects have something new or a text is no object."""
        if not len(self.fields) and len(texts) > _BLOCK:
            # If no field is known yet, the first texts usually have all fields of the others.
            self._parsed(dict(enumerate(_bytes_of(texts[:_BLOCK]))), [])
            rows = self.read_known(texts)
            if rows is not None:
                return ReadObjects(rows=rows, index=np.arange(len(texts)), bad=())
        given = dict(enumerate(_bytes_of(texts)))
        # Texts that are not parsed may not fit fields that were learned later; so the second attempt parses all texts.
        for blocks in (self._refused_blocks(texts), [np.arange(len(texts))]):
            bad: list[BadMessage] = []
            objects: dict[int, dict[str, Any]] = {}
            # The fields learn from a block before the next one is tried: usually only the first block has something
            # new.
            for numbers in blocks:
                objects |= self._parsed({int(i): given[int(i)] for i in numbers}, bad)
            kind = pa.struct(list(self.fields))
            shaped = {i: _shaped(value, kind) for i, value in objects.items()}
            written = given | {i: json_text(value).encode() for i, value in shaped.items()}
            rewritten = np.zeros(len(texts), bool)
            rewritten[[i for i, value in shaped.items() if value != objects[i]]] = True
            for each in bad:
                del written[each.index]
            rows = read_by_arrow(pa.array(list(written.values()), pa.binary()), self.fields)
            if rows is not None:
                index = np.array(list(written), np.int64)
                return ReadObjects(rows=rows, index=index, bad=bad, rewritten=rewritten[index])
        found = self._one_by_one(written, bad)
        return replace(found, rewritten=rewritten[found.index])

    def _refused_blocks(self, texts: "pa.Array[Any]") -> Iterator[npt.NDArray[np.int64]]:
        """Yield the numbers of texts, by blocks, if Arrow refuses the block with the fields of that moment."""
        safe = is_one_object(texts)
        for start in range(0, len(texts), _BLOCK):
            block = slice(start, start + _BLOCK)
            if not safe[block].all() or read_by_arrow(texts[block], self.fields) is None:
                yield np.arange(start, min(start + _BLOCK, len(texts)))

    def _parsed(self, texts: Mapping[int, bytes], bad: list[BadMessage]) -> dict[int, dict[str, Any]]:
        """Return the parsed objects; the fields learn from them."""
        objects: dict[int, dict[str, Any]] = {}
        for i, text in texts.items():
            try:
                objects[i] = parsed_object(text)
            except ValueError as error:
                bad.append(BadMessage(i, str(error)))
        if not self._stated:
            shape: pa.DataType = pa.struct(list(self.fields))
            for value in objects.values():
                shape = merged(shape, _with_texts(type_of(value), self._texts))
            self.fields = self._made_alike([shape.field(i) for i in range(shape.num_fields)])
        return objects

    def _one_by_one(self, texts: Mapping[int, bytes], bad: Sequence[BadMessage]) -> ReadObjects:
        """Read each text by itself, to find those that Arrow refuses."""
        refused = list(bad)
        rows: dict[int, pa.Table] = {}
        for i, text in texts.items():
            try:
                rows[i] = _read(pa.array([text], pa.binary()), self.fields)
            except pa.ArrowInvalid as error:
                refused.append(BadMessage(i, self._reason(text, error)))
        whole = pa.concat_tables(rows.values()) if rows else self.fields.empty_table()
        refused.sort(key=lambda each: each.index)
        return ReadObjects(rows=whole, index=np.array(list(rows), np.int64), bad=refused)

    def _reason(self, text: bytes, error: pa.ArrowInvalid) -> str:
        """Return the reason why Arrow refuses an object."""
        name = _unexpected(parsed_object(text), pa.struct(list(self.fields)), ())
        if name is not None:
            return f"it has the field {name!r}, which its schema has not: mend the schema at the source"
        return f"its values are not of the types of their fields: {str(error).removeprefix('JSON parse error: ')}"

    def _made_alike(self, fields: "Sequence[pa.Field[Any]]") -> pa.Schema:
        common: pa.DataType = pa.null()
        for field in fields:
            if field.name in self._alike:
                common = merged(common, field.type)
        return pa.schema([f.with_type(common) if f.name in self._alike else f for f in fields])


def parsed_object(text: bytes, *, takes_last: bool = False) -> dict[str, Any]:
    """Parse the object in a text, with SentNumber for numbers with a fraction. Raises ValueError with the reason.

    An object that has a name twice is invalid, unless `takes_last` asks for the last value of the name.
    """
    value = parsed_json(text, takes_last=takes_last)
    if not isinstance(value, dict):
        raise ValueError(f"it is JSON, but no object: {text[:40].decode(errors='replace')}")
    return value


class _NameTwiceError(ValueError):
    """An object has a name twice: the intended value is not known."""


def parsed_json(text: bytes, *, takes_last: bool = False) -> Any:
    """Parse the value in a text, with SentNumber for numbers with a fraction. Raises ValueError with the reason."""
    hook = dict if takes_last else _object
    try:
        return json.loads(text.decode(), parse_float=SentNumber, parse_constant=_no_constant, object_pairs_hook=hook)
    except RecursionError as error:
        raise ValueError("it is JSON that is nested too deeply") from error
    except _NameTwiceError:
        raise
    except UnicodeError as error:
        raise ValueError(f"it is no text in UTF-8: {error}") from error
    except ValueError as error:
        raise ValueError(f"it is no JSON: {error}") from error


def type_of(value: object) -> pa.DataType:
    """Return the type of a value that was parsed from JSON."""
    match value:
        case None:
            return pa.null()
        case bool():
            return pa.bool_()
        case int() if value in _INT64:
            return pa.int64()
        case int():
            return LARGE_INTEGER if abs(value) < 10**_MOST_DIGITS else pa.string()
        case SentNumber():
            # Arrow reads no number beyond the range of DOUBLE, and makes 0 of one below it.
            return pa.string() if math.isinf(float(value.text)) or is_lost(value.text) else pa.float64()
        case str():
            return pa.string()
        case list():
            element: pa.DataType = pa.null()
            for each in value:
                element = merged(element, type_of(each))
            return pa.list_(element)
        case dict():
            return pa.struct([pa.field(name, type_of(each)) for name, each in value.items()])
    raise TypeError(f"{type(value)} does not come from JSON.")


def merged(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    """Return the type that holds the values of both types."""
    if one == other or pa.types.is_null(other):
        return one
    if pa.types.is_null(one):
        return other
    if pa.types.is_struct(one) and pa.types.is_struct(other):
        fields = {f.name: f.type for f in one}
        for field in other:
            fields[field.name] = merged(fields.get(field.name, pa.null()), field.type)
        return pa.struct([pa.field(name, kind) for name, kind in fields.items()])
    if pa.types.is_list(one) and pa.types.is_list(other):
        return pa.list_(merged(one.value_type, other.value_type))
    both = {one, other}
    if both <= {pa.int64(), LARGE_INTEGER, pa.float64()}:
        return pa.float64() if pa.float64() in both else LARGE_INTEGER
    return pa.string()


def _with_texts(kind: Any, names: Collection[str]) -> pa.DataType:
    """Return the type of an object, with texts for most values in the lists of rows of these names."""
    if not names:
        return kind  # type: ignore[no-any-return]
    return pa.struct([f.with_type(_rows_of_texts(f.type)) if f.name in names else f for f in kind])


def _rows_of_texts(kind: pa.DataType) -> pa.DataType:
    rows = kind.value_type if isinstance(kind, pa.ListType) else None
    if not isinstance(rows, pa.StructType):
        return kind
    as_they_are = (pa.null(), pa.bool_(), pa.int64(), pa.string())
    return pa.list_(pa.struct([f if f.type in as_they_are else f.with_type(pa.string()) for f in rows]))


def _shaped(value: Any, kind: pa.DataType) -> Any:
    """Return the value with texts where the type is a text. A value that does not fit is kept, for Arrow to refuse."""
    if value is None:
        return None
    if pa.types.is_string(kind) and not isinstance(value, str):
        return json_text(value)
    if pa.types.is_struct(kind) and isinstance(value, dict):
        types = {f.name: f.type for f in kind}
        return {name: _shaped(each, types[name]) if name in types else each for name, each in value.items()}
    if pa.types.is_list(kind) and isinstance(value, list):
        return [_shaped(each, kind.value_type) for each in value]
    return value


def json_text(value: object) -> str:
    """Return a value that was parsed from JSON as JSON, with the digits that its numbers had."""
    match value:
        case SentNumber():
            return value.text
        case dict():
            return "{" + ",".join(f"{json.dumps(name)}:{json_text(each)}" for name, each in value.items()) + "}"
        case list():
            return "[" + ",".join(map(json_text, value)) + "]"
    return json.dumps(value)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        name = next(name for name in names if names.count(name) > 1)
        raise _NameTwiceError(f"it has the name {name!r} twice in one object")
    return found


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number in JSON")


def _bytes_of(texts: "pa.Array[Any]") -> list[bytes]:
    values: list[Any] = texts.to_pylist()
    return values


def is_one_object(texts: "pa.Array[Any]") -> Mask:
    """Return which texts are at most one object, even for a reader that trusts its input."""
    enclosed = pc.and_(pc.starts_with(texts, "{"), pc.ends_with(texts, "}"))
    return mask_of(pc.and_not(enclosed, pc.match_substring_regex(texts, _STUCK_TOGETHER)))


def read_by_arrow(
    texts: "pa.Array[Any]", fields: pa.Schema, *, others: Literal["error", "ignore"] = "error"
) -> pa.Table | None:
    """Read the objects of safe texts; None if some do not match the fields.

    Fields that are not among the given ones are an error, unless `others` is "ignore".
    """
    if not len(texts):
        return fields.empty_table()
    try:
        rows = _read(texts, fields, others)
    except pa.ArrowInvalid:
        return None
    return rows if rows.num_rows == len(texts) else None


def _read(texts: "pa.Array[Any]", fields: pa.Schema, others: Literal["error", "ignore"] = "error") -> pa.Table:
    """Read the objects of safe texts. Raises ArrowInvalid for objects that do not match the fields."""
    kind = pa.struct(list(fields))
    if _has_floats(kind):
        for text in _bytes_of(texts.filter(pc.match_substring_regex(texts, _SMALL))):
            _check_not_lost(parsed_json(text), kind, ())
    # Arrow's cast refuses invalid UTF-8; its JSON reader does not.
    texts.cast(pa.string())
    if not len(fields):
        # Without any field, Arrow would return no rows.
        if any(parsed_object(text) for text in _bytes_of(texts)):
            raise pa.ArrowInvalid("There are fields.")
        return pa.table({"": pa.nulls(len(texts))}).select([])
    whole = _side_by_side(texts)
    file: Any = pa.BufferReader(whole)
    readable = pa.schema([f.with_type(_readable(f.type, in_list=False)) for f in fields])
    rows = pyarrow.json.read_json(
        file,
        read_options=pyarrow.json.ReadOptions(use_threads=False, block_size=whole.size + 1),
        parse_options=pyarrow.json.ParseOptions(explicit_schema=readable, unexpected_field_behavior=others),
    )
    if readable == fields:
        return rows
    columns = [_as_read(one_array(rows.column(f.name)), f.type) for f in fields]
    return pa.table(columns, schema=fields)


def _has_floats(kind: Any) -> bool:
    if pa.types.is_nested(kind):
        return any(_has_floats(kind.field(i).type) for i in range(kind.num_fields))
    return bool(pa.types.is_floating(kind))


def _check_not_lost(value: Any, kind: pa.DataType, path: tuple[str, ...]) -> None:
    """Raise ArrowInvalid for a number other than 0 that Arrow would read as 0."""
    if isinstance(value, SentNumber) and pa.types.is_floating(kind) and is_lost(value.text):
        raise pa.ArrowInvalid(f"the field {'.'.join(path)!r} has {value.text}, which is closer to 0 than any DOUBLE")
    if isinstance(value, dict) and isinstance(kind, pa.StructType):
        for field in kind:
            _check_not_lost(value.get(field.name), field.type, (*path, field.name))
    if isinstance(value, list) and isinstance(kind, pa.ListType):
        for each in value:
            _check_not_lost(each, kind.value_type, path)


def _readable(kind: pa.DataType, *, in_list: bool) -> pa.DataType:
    """Return a type that Arrow reads correctly: its reader drops elements of lists that have only nulls."""
    if pa.types.is_null(kind):
        return pa.string() if in_list else kind
    if isinstance(kind, pa.ListType):
        return pa.list_(kind.value_field.with_type(_readable(kind.value_type, in_list=True)))
    if isinstance(kind, pa.StructType):
        return pa.struct([f.with_type(_readable(f.type, in_list=in_list)) for f in kind])
    return kind


def _as_read(values: Any, kind: pa.DataType) -> Any:
    """Convert values of a readable type to the type itself. Raises ArrowInvalid if a value of a null type is not
    null.
    """
    if values.type == kind:
        return values
    if pa.types.is_null(kind):
        if values.null_count < len(values):
            raise pa.ArrowInvalid("A list has values that are not null.")
        return pa.nulls(len(values))
    if isinstance(kind, pa.StructType):
        parts = [_as_read(part, f.type) for part, f in zip(values.flatten(), kind, strict=True)]
        return pa.StructArray.from_arrays(parts, fields=list(kind), mask=values.is_null())
    assert isinstance(kind, pa.ListType)
    inner = _as_read(values.values, kind.value_type)
    lists: Any = pa.ListArray.from_arrays(values.offsets, inner, type=kind, mask=values.is_null())
    return lists


def _side_by_side(texts: "pa.Array[Any]") -> pa.Buffer:
    """Return the bytes of all texts as they lie in memory: after the end of one object, the next one may begin."""
    buffers: Any = texts.buffers()
    _, offsets, content = buffers
    ends = np.frombuffer(offsets, np.int32, len(texts) + 1, texts.offset * 4)
    found: pa.Buffer = content.slice(int(ends[0]), int(ends[-1] - ends[0]))
    return found


def _unexpected(value: object, kind: pa.DataType, path: tuple[str, ...]) -> str | None:
    """Return the path of a field that a value has and its type has not; None if there is none."""
    if isinstance(value, dict) and isinstance(kind, pa.StructType):
        types = {f.name: f.type for f in kind}
        for name, each in value.items():
            here = (*path, name)
            found = _unexpected(each, types[name], here) if name in types else ".".join(here)
            if found is not None:
                return found
    if isinstance(value, list) and isinstance(kind, pa.ListType):
        for each in value:
            if (found := _unexpected(each, kind.value_type, path)) is not None:
                return found
    return None


Pick = Callable[[Mapping[str, Any], str, bool, int], Any]
"""Returns the value of a column in a message: of the row before the change if the third argument is true. The last
argument is the number of the text.
"""


class SentJson:
    """SentValues of JSON messages, which are parsed once, and only if one of their values is asked for.

    `owner` has the number of the text of each row, `kinds` a RowKind.
    """

    def __init__(
        self, texts: Array, owner: Indices, kinds: npt.NDArray[np.int8], pick: Pick, rewritten: Mask | None
    ) -> None:
        self._texts = texts
        self._owner = owner
        self._is_before = np.isin(kinds, [np.int8(RowKind.UPDATE_BEFORE), np.int8(RowKind.DELETE)])
        self._pick = pick
        self._rewritten = rewritten
        self._parsed: dict[int, Mapping[str, Any]] = {}

    def value(self, row: int, name: str) -> Any:
        """Return a value; see SentValues."""
        number = int(self._owner[row])
        if number not in self._parsed:
            self._parsed[number] = parsed_object(self._texts[number].as_py())
        return self._pick(self._parsed[number], name, bool(self._is_before[row]), number)

    def texts(self, rows: Indices) -> Array:
        """Return the texts; see SentValues."""
        return taken(self._texts, self._owner[rows])

    def rewritten(self, rows: Indices) -> Mask:
        """Return the rewritten rows; see SentValues."""
        return np.zeros(len(rows), bool) if self._rewritten is None else self._rewritten[self._owner[rows]]


def sent_rows(
    texts: Array, owner: Indices, kinds: npt.NDArray[np.int8], pick: Pick, rewritten: Mask | None = None
) -> SentRows:
    """Return all rows of some messages; `rewritten` has an entry for each text."""
    values = SentJson(texts, owner, kinds, pick, rewritten)
    return SentRows(values=values, rows=np.arange(len(owner)))


def at_texts(chosen: Mask, index: Indices, count: int) -> Mask:
    """Return a mask over all texts, which is true for the chosen ones of the texts `index`."""
    found = np.zeros(count, bool)
    found[index[chosen]] = True
    return found
