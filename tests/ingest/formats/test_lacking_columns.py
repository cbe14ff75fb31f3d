"""Columns that updates lack, for any rows and any layout of the JSON."""

import json
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from interbed.ingest.formats.json_objects import JsonShape
from interbed.ingest.formats.lacking_columns import JsonRows, LackingColumns
from tests.ingest.formats.streams import STYLES, written
from tests.support.examples import examples

NAMES = ("a", "after", "é", 'q"', "n.l", "null", "x y")
TEXTS = st.sampled_from(['"after":{"a":', '{"a":null}', "}", "[", 'after":{', '\\"a\\":', "null", "é"])
VALUES = st.none() | st.integers(0, 9) | TEXTS | st.lists(st.none() | st.integers(0, 3), max_size=2)
OBJECTS = st.dictionaries(st.sampled_from(NAMES), st.none() | TEXTS, max_size=2)
ROWS = st.dictionaries(st.sampled_from(NAMES), VALUES | OBJECTS, max_size=4)


def wanted(steps: list[tuple[bool, dict[str, Any]]], seen: list[str]) -> dict[str, list[bool]]:
    """Return the expected columns, row by row: an update lacks a column that an earlier row of the batch has a value
    of.
    """
    found = {name: [False] * len(steps) for name in seen}
    valued: set[str] = set()
    for i, (is_insertion, row) in enumerate(steps):
        for name in seen:
            found[name][i] = not is_insertion and name not in row and name in valued
        valued |= {name for name, value in row.items() if value is not None}
    return {name: rows for name, rows in found.items() if any(rows)}


@given(
    steps=st.lists(st.tuples(st.booleans(), ROWS), min_size=1, max_size=8),
    cut=st.integers(0, 8),
    is_list=st.booleans(),
    data=st.data(),
)
@settings(deadline=None, max_examples=examples(150))
def test_lacking_columns_are_those_found_by_a_loop_over_rows(
    steps: list[tuple[bool, dict[str, Any]]], cut: int, is_list: bool, data: st.DataObject
) -> None:
    style = data.draw(STYLES)
    seen = sorted({name for _, row in steps for name in row})
    finder = LackingColumns("after")
    found: dict[str, list[bool]] = {name: [False] * len(steps) for name in seen}
    shape = JsonShape()
    whole = [json.dumps({"after": row, "b": 1}).encode() for _, row in steps]
    columns: Any = shape.read(pa.array(whole, pa.binary())).rows.column("after").combine_chunks()
    by_name = (
        {} if not columns.type.num_fields else dict(zip([f.name for f in columns.type], columns.flatten(), strict=True))
    )
    for start, end in ((0, min(cut, len(steps))), (min(cut, len(steps)), len(steps))):
        part = steps[start:end]
        if not part:
            continue
        # Two rows in one text, in formats whose messages have lists of rows.
        owner = np.arange(len(part)) // (2 if is_list else 1)
        texts = []
        for number in range(int(owner[-1]) + 1):
            rows = [row for (_, row), o in zip(part, owner.tolist(), strict=True) if o == number]
            texts.append(written({"b": None, "after": rows if is_list else rows[0]}, **style))
        inserted = np.array([is_insertion for is_insertion, _ in part])
        lacking = finder.of(
            JsonRows(
                source=None,
                texts=pa.array(texts, pa.binary()),
                owner=owner,
                columns={n: c.slice(start, end - start) for n, c in by_name.items()},
                inserted=inserted,
                updated=~inserted,
            )
        )
        for name, where in lacking.columns.items():
            found[name][start:end] = where.tolist()
        updated = [not is_insertion for is_insertion, _ in part]
        assert lacking.may_lack.get(None, np.zeros(len(part), bool)).tolist() == updated
        for name in seen:
            lacks = [is_update and name not in row for is_update, (_, row) in zip(updated, part, strict=True)]
            sure = found[name][start:end]
            perhaps = lacking.may_lack.get(name, np.zeros(len(part), bool)).tolist()
            # A column that is null in all rows of a batch may have no type; it is searched all the same.
            assert [a or b for a, b in zip(sure, perhaps, strict=True)] == lacks
    assert {name: rows for name, rows in found.items() if any(rows)} == wanted(steps, seen)
