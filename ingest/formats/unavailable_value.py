"""Debezium's placeholder for values that the database did not send: `__debezium_unavailable_value`, unless the
connector's `unavailable.value.placeholder` is another text.

PostgreSQL leaves out large values that did not change (TOAST); MySQL with binlog_row_image = NOBLOB leaves out all
large values. The form of the placeholder depends on the column's type:

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
"""

import base64
import hashlib
import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from interbed.ingest.formats.arrays import Array, Mask, true_of, valid
from interbed.storage.base.errors import InvalidOptionError

PLACEHOLDER = "__debezium_unavailable_value"
NOT_SENT = (
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
