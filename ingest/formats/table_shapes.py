"""What messages of several tables hold, read by a shape for each table."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from interbed.ingest.flow.changes import BadMessage, Decoded, SourceTable
from interbed.ingest.flow.messages import Messages
from interbed.ingest.formats.arrays import Array, Indices, Mask, kept, taken, valid
from interbed.ingest.formats.by_table import Headers, by_table, read_headers
from interbed.ingest.formats.guessed.json_objects import JsonShape


@dataclass(frozen=True, slots=True, kw_only=True)
class TableTexts:
    """The texts of one table, None where they don't name it; what they hold, by column; and their indices.

    In `rewritten` texts a value of another kind became a text; None where there is no such text.
    """

    source: SourceTable | None
    texts: Array
    rows: pa.Table
    index: Indices
    rewritten: Mask | None = None

    def column(self, name: str) -> "Array | None":
        """A field of each text, None where none of them has it."""
        if name not in self.rows.column_names or pa.types.is_null(self.rows.schema.field(name).type):
            return None
        found: Any = self.rows.column(name).combine_chunks()
        array: Array = found
        return array

    def where(self, chosen: Mask) -> "TableTexts":
        """Those of the texts for which it is true."""
        return replace(
            self,
            texts=kept(self.texts, chosen),
            rows=kept(self.rows, chosen),
            index=self.index[chosen],
            rewritten=None if self.rewritten is None else self.rewritten[chosen],
        )

    def slice(self, start: int, end: int) -> "TableTexts":
        """The texts from the one to before the other."""
        return replace(
            self,
            texts=self.texts.slice(start, end - start),
            rows=self.rows.slice(start, end - start),
            index=self.index[start:end],
            rewritten=None if self.rewritten is None else self.rewritten[start:end],
        )


class TableShapes:
    """The shapes of tables; `header` are the fields that all messages have alike, with "database" and "table". See
    JsonShape for the others.
    """

    def __init__(self, header: pa.Schema, *, alike: Sequence[str] = (), texts: Sequence[str] = ()) -> None:
        self._header = header
        self._alike = alike
        self._texts = texts
        self._shapes: dict[SourceTable | None, JsonShape] = {}

    def headers(self, texts: Array) -> Headers:
        """The header of each text (binary, no nulls), and maybe more of it."""
        if len(self._shapes) == 1:
            # If the texts have nothing new, it is enough to read them once; of which tables they are is seen later.
            [shape] = self._shapes.values()
            rows = shape.read_known(texts)
            if rows is not None:
                return Headers(rows=self._with_all_fields(rows), index=np.arange(len(texts)), bad=(), whole=True)
        return read_headers(texts, self._header)

    def read(self, texts: Array, headers: Headers, bad: list[BadMessage]) -> list[TableTexts]:
        """What the texts of the headers hold, by table; texts that can't be read are added to the bad ones."""
        named = by_table(headers.column("database"), headers.column("table"), headers.index)
        tables: list[tuple[SourceTable | None, Indices]] = [*named.items()]
        nameless = headers.index[~headers.has("table")]
        if len(nameless):
            tables.append((None, nameless))
        if headers.whole and [source for source, _ in tables] == list(self._shapes):
            [(source, index)] = tables
            return [TableTexts(source=source, texts=_texts_at(texts, index), rows=headers.rows, index=index)]
        found = []
        for source, index in tables:
            these = _texts_at(texts, index)
            shape = JsonShape(alike=self._alike, texts=self._texts)
            read = self._shapes.setdefault(source, shape).read(these)
            bad += [BadMessage(int(index[each.index]), each.reason) for each in read.bad]
            if len(read.index) < len(index):
                these, index = taken(these, read.index), index[read.index]
            found.append(TableTexts(source=source, texts=these, rows=read.rows, index=index, rewritten=read.rewritten))
        return found

    def _with_all_fields(self, rows: pa.Table) -> pa.Table:
        """The rows with nulls in the fields of the header that no text has had."""
        for field in self._header:
            if field.name not in rows.column_names:
                rows = rows.append_column(field, pa.nulls(rows.num_rows, field.type))
            elif pa.types.is_null(rows.schema.field(field.name).type):
                at = rows.schema.get_field_index(field.name)
                rows = rows.set_column(at, field, pa.nulls(rows.num_rows, field.type))
        return rows


def texts_of(messages: Messages) -> tuple[Array, Indices]:
    """The values of the messages that have one, and the indices of these."""
    there = valid(messages.values)
    return kept(messages.values, there), np.flatnonzero(there)


def at_messages(decoded: Decoded, places: Indices) -> Decoded:
    """What was decoded of texts as decoded of messages; `places` are the indices of those whose values they are."""
    return replace(
        decoded,
        changes=[replace(each, messages=places[each.messages]) for each in decoded.changes],
        bad=sorted((BadMessage(int(places[b.index]), b.reason) for b in decoded.bad), key=lambda b: b.index),
    )


def _texts_at(texts: Array, index: Indices) -> Array:
    return texts if len(index) == len(texts) else taken(texts, index)
