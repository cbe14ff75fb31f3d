r"""PostgreSQL's texts of arrays, {1,NULL,"a \"b\""}, as lists of the texts of their elements.

An array may begin with where its numbering does, [0:1]={1,2}. Types may have another mark between elements than the
comma (pg_type.typdelim): {(1,1),(0,0);(2,2),(1,1)} are boxes. Source: PostgreSQL's documentation, "Array Input and
Output Syntax".
"""

import itertools
import re
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from interbed.ingest.formats.arrays import Array, true_of, valid

_BOUNDS = r"^\[[-0-9:]+\]="
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


@cache
def _element(between: str) -> re.Pattern[str]:
    return re.compile(rf'"((?:[^"\\]|\\.)*)"|([^"{re.escape(between)}{{}}\\]+)', re.DOTALL)


def split_arrays(texts: Array, between: str = ",") -> tuple[npt.NDArray[np.int32], Array]:
    """Where the elements of each array begin and end, and the texts of all elements, which are apart by a mark.

    There is one place more than arrays; a null one has no elements. ValueError for arrays of several dimensions.
    """
    whole: Any = pc.replace_substring_regex(texts, _BOUNDS, "")
    if true_of(pc.match_substring_regex(whole, r"^\{\{|^\[")).any():
        raise ValueError("it has more than one dimension")
    if (~true_of(pc.match_substring_regex(whole, r"(?s)^\{.*\}$")) & valid(whole)).any():
        raise ValueError("it is no array")
    if true_of(pc.match_substring_regex(whole, r'["\\]')).any():
        return _one_by_one(whole, between)
    inner: Any = pc.utf8_slice_codeunits(whole, 1, -1)
    parts: Any = pa.concat_arrays([pc.split_pattern(inner, between)])
    lengths: Any = pc.list_value_length(parts)
    counts = lengths.fill_null(0).to_numpy(zero_copy_only=False).copy()
    empty = true_of(pc.equal(inner, pa.scalar("")))
    elements: Any = pc.list_flatten(parts)
    if empty.any():
        # Split at commas, an empty text is one element.
        elements = elements.filter(pa.array(~np.repeat(empty, counts)))
        counts[empty] = 0
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    return offsets, pc.if_else(pc.equal(elements, pa.scalar("NULL")), pa.scalar(None, pa.string()), elements)


def _one_by_one(texts: Array, between: str) -> tuple[npt.NDArray[np.int32], Array]:
    """The same in Python, for texts in which a comma may be part of an element: Arrow can't tell those."""
    lists: list[list[str | None]] = [[] if text is None else _elements(text, between) for text in texts.to_pylist()]
    offsets = np.cumsum([0, *(len(each) for each in lists)]).astype(np.int32)
    return offsets, pa.array(list(itertools.chain.from_iterable(lists)), pa.string())


def _elements(text: str, between: str) -> list[str | None]:
    if text == "{}":
        return []
    found: list[str | None] = []
    at = 1
    while True:
        element = _element(between).match(text, at)
        if element is None or text[element.end() : element.end() + 1] not in (between, "}"):
            raise ValueError("it is no array of one dimension")
        quoted, plain = element.groups()
        found.append(_ESCAPED.sub(r"\1", quoted) if plain is None else None if plain == "NULL" else plain)
        at = element.end() + 1
        if text[element.end()] == "}":
            return found
