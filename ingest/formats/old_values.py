"""Rows before an update, in formats whose messages have the row after it and the old values of what it changed.

    {"data": {"id": 1, "name": "b", "note": "x"}, "old": {"name": "a", "note": null}}

A column that `old` lacks did not change. One that is null there was null, which Arrow does not tell from one that is
lacking; so texts in which something may be null in `old` are looked at in Python, that object alone as a rule.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from interbed.ingest.formats.arrays import Array, Mask, kept, mask_of
from interbed.ingest.formats.guessed.json_objects import parsed_object

_NULL_IN_OLD = r'(?s)"old".*null'
_OLD = re.compile(rb'"old"[ \t\r\n]*:[ \t\r\n]*')
"""Only a name is followed by a colon, and a quote in a text has a backslash before it: this is a field of that name."""
_value_at = json.JSONDecoder().raw_decode


def olds_with_null(texts: Array, wanted: Mask) -> Mapping[int, Any]:
    """`old`, as Python's values, of each wanted text in which a value of it may be null; by the index of the text.

    The texts (binary) are JSON objects, and the wanted ones have an `old` that is not null.
    """
    if not wanted.any():
        return {}
    chosen = kept(texts, wanted)
    # Where the name is written otherwise, with escapes, the text is looked at in any case.
    doubtful = mask_of(pc.match_substring_regex(chosen, _NULL_IN_OLD)) | ~mask_of(pc.match_substring(chosen, '"old"'))
    index = np.flatnonzero(wanted)[doubtful]
    few: Any = kept(chosen, doubtful).to_pylist()
    # A loop over texts that have a null after `old`, because JSON readers by column know no difference between a null
    # and a lack. It costs 2 to 4 microseconds of each.
    return {i: _old_of(text) for i, text in zip(index.tolist(), few, strict=True)}


def columns_before(
    after: Mapping[str, Array], old: Mapping[str, Array], null: Mapping[str, Sequence[int]]
) -> dict[str, Array]:
    """The columns of the rows before a change: those after it, where there are none of the old values.

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
    # A field of this name may be a column, too, and the one that is meant be written with escapes.
    if len(names) == 1 and rb"\u00" not in text:
        return _value_at(text[names[0].end() :].decode())[0]
    return parsed_object(text).get("old")
