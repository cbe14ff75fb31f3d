"""Columns that JSON without a schema does not mention: Arrow's reader does not distinguish them from nulls.

**Updates that lack columns.** MySQL may log only a part of a row (binlog_row_image = MINIMAL); messages of such a log
lack the other columns. So texts of updates that have a null are examined: a flat object is searched for the names,
other objects are parsed. A message does not say whether a column was left out or was dropped at the source. An
insertion that lacks the column does not say so either, because it may leave out columns with their default. So a column
that an update lacks counts as not sent if an earlier row had a value in it. If no row of this run had a value, the
table may have one; see `LackingRows.may_lack`.

**Rows before an update.** Canal and Maxwell send the row after an update, and the old values of the changed columns:

    {"data": {"id": 1, "name": "b", "note": "x"}, "old": {"name": "a", "note": null}}

A column that `old` lacks did not change; one that is null in `old` was null. So `old` is parsed in Python where it may
contain a null.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from interbed.ingest.flow.changes import NOT_SENT_BEFORE, SourceTable, UnsentRows
from interbed.ingest.formats.arrays import Array, Indices, Mask, kept, mask_of, taken, valid
from interbed.ingest.formats.json_objects import parsed_object

NOT_SENT = (
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
        return {name: UnsentRows(where[rows], NOT_SENT) for name, where in self.columns.items()}

    def may_lack_at(self, rows: Indices) -> dict[str | None, UnsentRows]:
        """Return the values that rows at these places lack if the table has one."""
        return {name: UnsentRows(where[rows], NOT_SENT) for name, where in self.may_lack.items()}

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
