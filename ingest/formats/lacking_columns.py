"""Values that messages do not have: columns that JSON without a schema does not mention, and Debezium's placeholder.

**Placeholders.** Debezium sends `__debezium_unavailable_value` for values that the database did not send, unless the
connector's `unavailable.value.placeholder` is another text. PostgreSQL leaves out large values that did not change
(TOAST); MySQL with binlog_row_image = NOBLOB leaves out all large values. The form of the placeholder depends on the
column's type:

| column | placeholder |
|---|---|
| text, json, xml, bytes as texts | the placeholder |
| bytes | its bytes |
| arrays of texts, of bytes, of uuid | a list of one: the text, the bytes, their name-based uuid |
| arrays of numbers, dates, times | a list of its bytes as numbers from -128 to 127 |
| hstore | {placeholder: placeholder}, as a map or as JSON |
| geometry | a struct whose wkb are its bytes |

Only an update leaves values out. An update of a key is sent as a deletion and an insertion with the header
`__debezium.oldkey`. Source: Debezium's `UnchangedToastedPlaceholder`, `PostgresValueConverter` and
`ReselectColumnsPostProcessor`.

**Updates that lack columns.** Arrow's reader does not distinguish them from nulls. MySQL may log only a part of a row
(binlog_row_image = MINIMAL); messages of such a log lack the other columns. So texts of updates that have a null are
examined: a flat object is searched for the names, other objects are parsed. A message does not say whether a column was
left out or was dropped at the source. An insertion that lacks the column does not say so either, because it may leave
out columns with their default. So a column that an update lacks counts as not sent if an earlier row had a value in it.
If no row of this run had a value, the table may have one; see `LackingRows.may_lack`.

**Rows before an update.** Canal and Maxwell send the row after an update, and the old values of the changed columns:

    {"data": {"id": 1, "name": "b", "note": "x"}, "old": {"name": "a", "note": null}}

A column that `old` lacks did not change; one that is null in `old` was null. So `old` is parsed in Python where it may
contain a null.
"""

import base64
import hashlib
import json
import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from interbed.ingest.flow.changes import NOT_SENT_BEFORE, SourceTable, UnsentRows
from interbed.ingest.formats.arrays import Array, Indices, Mask, kept, mask_of, taken, true_of, valid
from interbed.ingest.formats.json_objects import parsed_object
from interbed.storage.base.errors import InvalidOptionError

PLACEHOLDER = "__debezium_unavailable_value"
LEFT_OUT = (
    "it leaves out the column {!r}, a large value that did not change (TOAST), so that the row is not known. Set "
    "REPLICA IDENTITY FULL for the table in PostgreSQL, or binlog_row_image = FULL in MySQL"
)
_HEX = "hex:"


@dataclass(frozen=True, slots=True)
class UnavailableValue:
    """The placeholder, and its forms for columns of several types."""

    binary: bytes = PLACEHOLDER.encode()
    _texts: "Array" = field(init=False, repr=False, compare=False)
    _base64: "Array" = field(init=False, repr=False, compare=False)
    _text: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        text = self.binary.decode(errors="replace")
        # As Java computes it: version 3, without a name space.
        digest = hashlib.md5(self.binary, usedforsecurity=False).digest()
        as_json = f'{{"{text}":"{text}"}}'
        texts = [text, as_json, json.dumps({text: text}), str(uuid.UUID(bytes=digest, version=3))]
        object.__setattr__(self, "_text", text)
        object.__setattr__(self, "_texts", pa.array(texts, pa.string()))
        object.__setattr__(self, "_base64", pa.array([base64.b64encode(self.binary).decode()], pa.string()))

    @staticmethod
    def parse(text: str) -> "UnavailableValue":
        """Parse a connector's option: a text, or `hex:` and bytes. Raises InvalidOptionError."""
        try:
            binary = bytes.fromhex(text.removeprefix(_HEX)) if text.startswith(_HEX) else text.encode()
        except ValueError:
            raise InvalidOptionError(
                f"{text!r} is no placeholder: after hex: come pairs of hexadecimal digits."
            ) from None
        if not binary:
            raise InvalidOptionError("The placeholder of unavailable values is not to be empty.")
        return UnavailableValue(binary)

    def resolved(
        self,
        before: Any,
        after: Any,
        types: Mapping[str, pa.DataType] | None,
        *,
        updated: Mask,
        from_before: "dict[str, Mask] | None" = None,
    ) -> tuple[Any, Any, dict[str, Mask]]:
        """Return the rows before and after changes without placeholders, and the updates that lack the value of a
        column.

        Both are arrays of structs of the same type, with values as messages have them. A value that the row after an
        update lacks is taken from the row before it, if that has it. `types` are those of the columns, None if they are
        guessed. `from_before` gets, by column, the updates whose value is taken from the row before.
        """
        names = [field.name for field in after.type]
        befores, afters = before.flatten(), after.flatten()
        inserted = ~valid(before) & ~updated
        unsent: dict[str, Mask] = {}
        is_changed = False
        for i, name in enumerate(names):
            kind = None if types is None else types[name]
            absent_before = self.is_placeholder(befores[i], kind) & ~inserted
            absent = self.is_placeholder(afters[i], kind) & updated
            if absent_before.any():
                befores[i] = _without(befores[i], absent_before)
                is_changed = True
            if not absent.any():
                continue
            is_changed = True
            known = valid(befores[i])
            if (absent & known).any():
                if from_before is not None:
                    from_before[name] = absent & known
                afters[i] = pc.if_else(pa.array(absent & known), befores[i], afters[i])
            if (unknown := absent & ~known).any():
                afters[i] = _without(afters[i], unknown)
                unsent[name] = unknown
        if not is_changed:
            return before, after, unsent
        for i in range(len(names)):
            befores[i], afters[i] = self._without_own_field(befores[i], afters[i])
        rows = [
            pa.StructArray.from_arrays(columns, names, mask=given.is_null())
            for columns, given in ((befores, before), (afters, after))
        ]
        return rows[0], rows[1], unsent

    def is_placeholder(self, column: Array, kind: pa.DataType | None) -> Mask:
        """Return where the placeholder stands for a whole value; `kind` is the type of the column, None if it is
        guessed.
        """
        given: Any = column.type
        found = np.zeros(len(column), bool)
        if column.null_count == len(column):
            return found
        values: Any = column
        if pa.types.is_string(given):
            if kind is None or not pa.types.is_binary(kind):
                found |= _is_one_of(values, self._texts)
            if kind is None or pa.types.is_binary(kind):
                found |= _is_one_of(values, self._base64)
        elif pa.types.is_binary(given):
            found |= true_of(pc.equal(values, pa.scalar(self.binary, given)))
        elif pa.types.is_struct(given):
            found |= self._in_rows(values)
        elif pa.types.is_list(given):
            found |= self._in_lists(values, kind)
        return found

    def _in_rows(self, rows: Any) -> Mask:
        """Return the placeholders of a geometry, or of an hstore as JSON has it."""
        names = [field.name for field in rows.type]
        found = np.zeros(len(rows), bool)
        if "wkb" in names:
            found |= self.is_placeholder(pc.struct_field(rows, "wkb"), pa.binary())
        if self._text in names:
            found |= self.is_placeholder(pc.struct_field(rows, self._text), pa.string())
        return found

    def _in_lists(self, lists: Any, kind: Any) -> Mask:
        lengths = lists.value_lengths().fill_null(0).to_numpy()
        found = np.zeros(len(lists), bool)
        element = kind.value_type if kind is not None and pa.types.is_list(kind) else None
        if len(alone := np.flatnonzero(lengths == 1)):
            found[alone] = self.is_placeholder(pc.list_flatten(lists.take(pa.array(alone))), element)
        item = lists.type.value_type
        # If the field has texts as well, numbers are texts.
        is_number = pa.types.is_integer(item) or pa.types.is_floating(item) or pa.types.is_string(item)
        if is_number and len(alike := np.flatnonzero(lengths == len(self.binary))):
            elements: Any = pc.list_flatten(lists.take(pa.array(alike)))
            kind_of_numbers = pa.string() if pa.types.is_string(item) else pa.float64()
            wanted: Any = pa.array(np.frombuffer(self.binary, np.int8)).cast(kind_of_numbers)
            same = pc.equal(elements.cast(kind_of_numbers), pa.concat_arrays([wanted] * len(alike)))
            found[alike] |= true_of(same).reshape(len(alike), -1).all(axis=1)
        return found

    def _without_own_field(self, before: Any, after: Any) -> tuple[Any, Any]:
        """Return objects without the field that the placeholder of an hstore has, unless that field has values."""
        kind = after.type
        if not pa.types.is_struct(kind) or kind.get_field_index(self._text) < 0:
            return before, after
        if any(len(pc.struct_field(rows, self._text).drop_null()) for rows in (before, after)):
            return before, after
        fields = [field for field in kind if field.name != self._text]
        made = [
            pa.StructArray.from_arrays(
                [pc.struct_field(rows, f.name) for f in fields], fields=fields, mask=rows.is_null()
            )
            if fields
            else pa.nulls(len(rows))
            for rows in (before, after)
        ]
        return made[0], made[1]


def _is_one_of(texts: Any, wanted: Any) -> Mask:
    """Return which texts are one of a few; texts of other lengths are excluded first."""
    lengths = pc.binary_length(texts).fill_null(-1).to_numpy()
    places = np.flatnonzero(np.isin(lengths, pc.binary_length(wanted).to_numpy()))
    found = np.zeros(len(texts), bool)
    if len(places):
        found[places] = true_of(pc.is_in(texts.take(pa.array(places)), value_set=wanted))
    return found


def _without(column: Any, absent: Mask) -> Any:
    return pc.if_else(pa.array(absent), pa.scalar(None, column.type), column)


LACKING = (
    "it lacks the column {!r}, which has values in other rows, so that the row is not known. Set binlog_row_image = "
    "FULL in MySQL; if the column was dropped at the source, drop it from the table as well"
)


_NULL_IN_OLD = r'(?s)"old".*null'


_OLD = re.compile(rb'"old"[ \t\r\n]*:[ \t\r\n]*')
"""A name is followed by a colon, and a quote in a text has a backslash before it: this matches a field of that name
only.
"""


_value_at = json.JSONDecoder().raw_decode


@dataclass(frozen=True, slots=True, kw_only=True)
class LackingRows:
    """Rows of updates that lack a column of which an earlier row had a value, by the name of the column.

    `may_lack` are rows that lack a column of which no row of this run had a value before. The name None is for each
    column that no row has named.
    """

    columns: Mapping[str, Mask]
    may_lack: Mapping[str | None, Mask]

    @property
    def names(self) -> frozenset[str]:
        """The columns that rows lack, among those that some row has named."""
        return frozenset([*self.columns, *(name for name in self.may_lack if name is not None)])

    def unsent_at(self, rows: Indices) -> dict[str, UnsentRows]:
        """Return the values that rows at these places lack, by column."""
        return {name: UnsentRows(where[rows], LACKING) for name, where in self.columns.items()}

    def may_lack_at(self, rows: Indices) -> dict[str | None, UnsentRows]:
        """Return the values that rows at these places lack if the table has one."""
        return {name: UnsentRows(where[rows], LACKING) for name, where in self.may_lack.items()}

    def without(self, named: Mapping[str, Mask]) -> "LackingRows":
        """Return the same without rows whose value of a column is known from another part of the message; see
        `names`.
        """
        return LackingRows(
            columns={name: where & ~named[name] for name, where in self.columns.items()},
            may_lack={n: where if n is None else where & ~named[n] for n, where in self.may_lack.items()},
        )


def unsent_before_at(lacking: Mapping[str, Mask], rows: Indices) -> dict[str, UnsentRows]:
    """Return the values that rows before deletions lack, at these places."""
    return {name: UnsentRows(where[rows], NOT_SENT_BEFORE) for name, where in lacking.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonRows:
    """Rows of one table in messages, in order: `owner` has the index of the text of each row, `columns` their
    values.
    """

    source: SourceTable | None
    texts: Array
    owner: Indices
    columns: Mapping[str, Array]
    inserted: Mask
    updated: Mask


class LackingColumns:
    """Finds columns that rows lack, and remembers which columns had a value. `field` is the field of a message with its
    row or rows.
    """

    def __init__(self, field: str) -> None:
        self._field = field
        self._begin = rf"{json.dumps(field)}:\[?\{{[^{{}}\[\]]*"
        self._valued: dict[SourceTable | None, set[str]] = {}

    def of(self, rows: JsonRows) -> LackingRows:
        """Return the columns that updates lack."""
        valued = self._valued.setdefault(rows.source, set())
        found: dict[str, Mask] = {}
        may_lack: dict[str | None, Mask] = {}
        if rows.updated.any():
            for name, where in self._lacks(rows, _ParsedNames(self._field, rows)).items():
                sure = where if name in valued else where & _is_after_a_value(rows.columns[name])
                if sure.any():
                    found[name] = sure
                if (where & ~sure).any():
                    may_lack[name] = where & ~sure
            may_lack[None] = rows.updated
        valued.update(n for n, column in rows.columns.items() if n not in valued and valid(column).any())
        return LackingRows(columns=found, may_lack=may_lack)

    def before_deletions(self, rows: JsonRows, deleted: Mask) -> dict[str, Mask]:
        """Return the values that deleted rows lack, by column."""
        if not deleted.any():
            return {}
        return self._lacks(replace(rows, updated=deleted), _ParsedNames(self._field, rows))

    def _lacks(self, rows: JsonRows, parsed: "_ParsedNames") -> dict[str, Mask]:
        """Return the updates that do not mention a name, by name."""
        nulls = {name: rows.updated & ~valid(column) for name, column in rows.columns.items()}
        nulls = {name: where for name, where in nulls.items() if where.any()}
        if not nulls:
            return {}
        # A column with the name of the field could be mistaken for it, and so could several rows of one text.
        is_alone = np.zeros(len(rows.owner), bool)
        if self._field not in rows.columns:
            is_alone = np.bincount(rows.owner, minlength=len(rows.texts))[rows.owner] == 1
        found: dict[str, Mask] = {}
        for name, where in nulls.items():
            places = np.flatnonzero(where)
            texts = taken(rows.texts, rows.owner[places])
            # Match names before the first list or object of the row: quotes in texts have a backslash.
            there = mask_of(pc.match_substring_regex(texts, f"{self._begin}{_literal(name)}:"))
            # The name has another spelling, or is missing: parse the text.
            for place in places[~(there & is_alone[places])].tolist():
                if name not in parsed.names(place):
                    found.setdefault(name, np.zeros(len(where), bool))[place] = True
        return found


def _is_after_a_value(column: Array) -> Mask:
    """Return the rows after the first one that has a value."""
    found: Mask = np.cumsum(valid(column)) > 0
    return found


def _literal(name: str) -> str:
    """Return a name in JSON as a regular expression of RE2."""
    return "".join(f"\\{c}" if c.isascii() and not c.isalnum() and c not in '_"' else c for c in json.dumps(name))


class _ParsedNames:
    """The names that rows have in their texts; each text is parsed once."""

    def __init__(self, field: str, rows: JsonRows) -> None:
        self._field = field
        self._rows = rows
        self._known: dict[int, Sequence[frozenset[str]]] = {}

    def names(self, row: int) -> frozenset[str]:
        """Return the columns that a row mentions; empty if it has no row."""
        owner = int(self._rows.owner[row])
        if owner not in self._known:
            text: Any = self._rows.texts[owner].as_py()
            value = parsed_object(text).get(self._field)
            rows = value if isinstance(value, list) else [value]
            self._known[owner] = [frozenset(each) if isinstance(each, dict) else frozenset() for each in rows]
        first = int(np.searchsorted(self._rows.owner, owner))
        return self._known[owner][row - first]


def olds_with_null(texts: Array, wanted: Mask) -> Mapping[int, Any]:
    """Return `old`, parsed, of each wanted text in which a value of it may be null; by the index of the text.

    The texts (binary) are JSON objects, and the wanted ones have an `old` that is not null.
    """
    if not wanted.any():
        return {}
    chosen = kept(texts, wanted)
    # If the name is spelled with escapes, the text is parsed in any case.
    doubtful = mask_of(pc.match_substring_regex(chosen, _NULL_IN_OLD)) | ~mask_of(pc.match_substring(chosen, '"old"'))
    index = np.flatnonzero(wanted)[doubtful]
    few: Any = kept(chosen, doubtful).to_pylist()
    # A loop over texts that have a null after `old`, because JSON readers by column do not distinguish null from
    # missing. It costs 2 to 4 microseconds for each.
    return {i: _old_of(text) for i, text in zip(index.tolist(), few, strict=True)}


def columns_before(
    after: Mapping[str, Array], old: Mapping[str, Array], null: Mapping[str, Sequence[int]]
) -> dict[str, Array]:
    """Return the columns of the rows before a change: the old values, and those after it where there is no old value.

    Old values have the types of the columns; `null` are the indices of the rows where a column was null.
    """
    found = dict(after)
    for name, column in after.items():
        before = old.get(name)
        if before is not None and before.null_count < len(before):
            found[name] = pc.coalesce(before, column)
        if null.get(name):
            was_null = np.zeros(len(column), bool)
            was_null[null[name]] = True
            found[name] = pc.if_else(pa.array(was_null), pa.scalar(None, column.type), found[name])
    return found


def _old_of(text: bytes) -> Any:
    names = list(_OLD.finditer(text))
    # A column may have this name as well, and the field itself may be spelled with escapes.
    if len(names) == 1 and rb"\u00" not in text:
        return _value_at(text[names[0].end() :].decode())[0]
    return parsed_object(text).get("old")
