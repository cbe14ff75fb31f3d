"""Columns that a table gets from guessed values, where numbers of two kinds come for one: see exact_integers."""

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from interbed.ingest.flow.changes import BadMessage, RowChanges
from interbed.ingest.formats.arrays import one_array, valid
from interbed.ingest.formats.guessed.exact_arrays import doubles
from interbed.ingest.formats.guessed.exact_integers import (
    has_inexact_integer,
    mixed_numbers,
    rows_with_large_doubles,
)
from interbed.ingest.formats.guessed.json_objects import merged, type_of


def with_one_kind_of_numbers(changes: RowChanges, known: Collection[str] = ()) -> tuple[RowChanges, list[BadMessage]]:
    """The changes whose new columns, which are not among the `known` ones, are DOUBLE or have integers that no DOUBLE
    is, as the first such number of each; and the messages with numbers of the other kind.
    """
    sent = changes.sent
    if sent is None:
        return changes, []
    names = [f.name for f in changes.rows.schema if f.name not in known and f.name not in sent.computed]
    large = rows_with_large_doubles(changes.rows.select(names)).tolist()
    if not any(has_inexact_integer(sent.value(row, name)) for row in large for name in names):
        return changes, []
    messages: dict[int, list[dict[str, Any]]] = {}
    there = {name: valid(one_array(changes.rows.column(name))) for name in names}
    for row, message in enumerate(changes.messages.tolist()):
        values = {name: sent.value(row, name) for name in names if there[name][row]}
        messages.setdefault(message, []).append(values)
    bad, mixed = mixed_numbers(messages)
    changes = changes.where(~np.isin(changes.messages, [each.index for each in bad]))
    for name in names:
        if name in mixed:
            changes = _learned_again(changes, name)
    return changes, bad


def _learned_again(changes: RowChanges, name: str) -> RowChanges:
    """The changes with a column whose type is guessed of their own values alone."""
    assert changes.sent is not None
    there = valid(one_array(changes.rows.column(name)))
    values = [changes.sent.value(row, name) if is_there else None for row, is_there in enumerate(there)]
    kind: pa.DataType = pa.null()
    for value in values:
        kind = merged(kind, type_of(value))
    at = changes.rows.schema.get_field_index(name)
    return replace(changes, rows=changes.rows.set_column(at, name, doubles(values, kind)))
