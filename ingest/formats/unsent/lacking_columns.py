"""Columns that updates do not mention, in JSON that has no schema beside it.

MySQL may write only a part of a row into its binlog (binlog_row_image = MINIMAL), and messages made of it lack the
other columns. JSON read by column does not tell a null from a lack, so texts of updates that have a null are looked at:
a flat object is searched for the names, others are parsed.

A column that was dropped at the source is lacking, too, but in insertions as well. So a column counts as not sent
unless the last insertion of the table before the update lacks it. While no insertion was read, that is not known of
columns that no message had; see `Lacking.may_lack`.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow.compute as pc

from interbed.ingest.flow.changes import NOT_SENT_BEFORE, SourceTable, Unsent
from interbed.ingest.formats.arrays import Array, Indices, Mask, mask_of, taken, valid
from interbed.ingest.formats.guessed.json_objects import parsed_object

NOT_SENT = (
    "it lacks the column {!r}, which insertions have, so that the row is not known. Set binlog_row_image = FULL in "
    "MySQL; if the column was dropped at the source, drop it from the table as well"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lacking:
    """Which rows lack the value of a column; and which are of updates before the first insertion, None for none."""

    columns: Mapping[str, Mask]
    may_lack: Mask | None

    def unsent_at(self, rows: Indices) -> dict[str, Unsent]:
        """The values that rows at these places lack, by column."""
        return {name: Unsent(where[rows], NOT_SENT) for name, where in self.columns.items()}

    def may_lack_at(self, rows: Indices) -> Unsent | None:
        """Which rows at these places may lack other columns."""
        return None if self.may_lack is None else Unsent(self.may_lack[rows], NOT_SENT)


def unsent_before_at(lacking: Mapping[str, Mask], rows: Indices) -> dict[str, Unsent]:
    """The values that rows before deletions lack, at these places."""
    return {name: Unsent(where[rows], NOT_SENT_BEFORE) for name, where in lacking.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonRows:
    """Rows of one table in messages, in order: `owner` has the index of the text of each, `columns` their values."""

    source: SourceTable | None
    texts: Array
    owner: Indices
    columns: Mapping[str, Array]
    inserted: Mask
    updated: Mask


class LackingColumns:
    """Finds them, and remembers what insertions had. `field` is where a message has its row, or its rows."""

    def __init__(self, field: str) -> None:
        self._field = field
        self._begin = rf"{json.dumps(field)}:\[?\{{[^{{}}\[\]]*"
        self._inserted: dict[SourceTable | None, frozenset[str]] = {}

    def of(self, rows: JsonRows) -> Lacking:
        """What the updates lack."""
        known = self._inserted.get(rows.source)
        insertions = np.flatnonzero(rows.inserted)
        parsed = _Parsed(self._field, rows)
        found: dict[str, Mask] = {}
        may_lack: Mask | None = None
        if rows.updated.any():
            for name, where in self._lacks(rows, parsed).items():
                # A loop over rows that lack something.
                for i in np.flatnonzero(where).tolist():
                    before = np.searchsorted(insertions, i)
                    had = parsed.names(int(insertions[before - 1])) if before else known
                    where[i] = had is None or name in had
                if where.any():
                    found[name] = where
            if known is None:
                first = insertions[0] if len(insertions) else len(rows.owner)
                may_lack = rows.updated & (np.arange(len(rows.owner)) < first)
        if len(insertions):
            self._inserted[rows.source] = parsed.names(int(insertions[-1]))
        return Lacking(columns=found, may_lack=may_lack if may_lack is not None and may_lack.any() else None)

    def before_deletions(self, rows: JsonRows, deleted: Mask) -> dict[str, Mask]:
        """The values that deleted rows lack, by column, whatever insertions had."""
        if not deleted.any():
            return {}
        return self._lacks(replace(rows, updated=deleted), _Parsed(self._field, rows))

    def _lacks(self, rows: JsonRows, parsed: "_Parsed") -> dict[str, Mask]:
        """The updates that do not have a name, by name."""
        nulls = {name: rows.updated & ~valid(column) for name, column in rows.columns.items()}
        nulls = {name: where for name, where in nulls.items() if where.any()}
        if not nulls:
            return {}
        # A column that is called as the field could be taken for it, and of several rows in a text one for another.
        is_alone = np.zeros(len(rows.owner), bool)
        if self._field not in rows.columns:
            is_alone = np.bincount(rows.owner, minlength=len(rows.texts))[rows.owner] == 1
        found: dict[str, Mask] = {}
        for name, where in nulls.items():
            places = np.flatnonzero(where)
            texts = taken(rows.texts, rows.owner[places])
            # Names before the first list or object of the row: quotes in texts have a backslash.
            there = mask_of(pc.match_substring_regex(texts, f"{self._begin}{_literal(name)}:"))
            # Written otherwise, or lacking: these are parsed.
            for place in places[~(there & is_alone[places])].tolist():
                if name not in parsed.names(place):
                    found.setdefault(name, np.zeros(len(where), bool))[place] = True
        return found


def _literal(name: str) -> str:
    """A name in JSON as a regular expression of RE2."""
    return "".join(f"\\{c}" if c.isascii() and not c.isalnum() and c not in '_"' else c for c in json.dumps(name))


class _Parsed:
    """The names that rows have in their texts, which are parsed once."""

    def __init__(self, field: str, rows: JsonRows) -> None:
        self._field = field
        self._rows = rows
        self._known: dict[int, Sequence[frozenset[str]]] = {}

    def names(self, row: int) -> frozenset[str]:
        """The columns that a row has; none where it has no row."""
        owner = int(self._rows.owner[row])
        if owner not in self._known:
            text: Any = self._rows.texts[owner].as_py()
            value = parsed_object(text).get(self._field)
            rows = value if isinstance(value, list) else [value]
            self._known[owner] = [frozenset(each) if isinstance(each, dict) else frozenset() for each in rows]
        first = int(np.searchsorted(self._rows.owner, owner))
        return self._known[owner][row - first]
