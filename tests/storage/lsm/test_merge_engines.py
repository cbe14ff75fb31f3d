"""Partial-update, aggregation and first-row equal a model that applies the records of a key one by one to a dict."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from interbed.storage.base.types.data_type import field_from_json
from interbed.storage.lsm.merge_function.factory import merge_function_for
from interbed.storage.lsm.sort_merge import MergePlan, RunBatch, RunInput, merge_runs
from interbed.storage.meta.options.core import CoreOptions
from interbed.storage.meta.schema.table_schema import SEQUENCE_NUMBER, VALUE_KIND, Schema
from tests.support.examples import examples

# A record: key, two numbers, a text, a sequence, and its kind. Its index in the list is its sequence number.
Record = tuple[int, int | None, int | None, str | None, int | None, int]
State = dict[str, Any]

COLUMNS = [("id", "INT NOT NULL"), ("a", "INT"), ("b", "INT"), ("t", "STRING"), ("g", "INT")]
ADDS, ALL = (0, 2), (0, 1, 2, 3)
DELETE = 3

_small = st.none() | st.integers(-5, 5)


def _records(kinds: Sequence[int]) -> st.SearchStrategy[list[Record]]:
    text = st.none() | st.sampled_from(["", "x", "yy", "z"])
    sequence = st.none() | st.integers(0, 4)
    return st.lists(st.tuples(st.integers(0, 5), _small, _small, text, sequence, st.sampled_from(kinds)), max_size=40)


def _merged(
    options: dict[str, str], records: Sequence[Record], cuts: Sequence[int], block_rows: int
) -> list[list[Any]]:
    fields = tuple(field_from_json({"id": i, "name": n, "type": t}) for i, (n, t) in enumerate(COLUMNS))
    schema = Schema(fields=fields, primary_keys=("id",), options={"bucket": "1", **options}).to_table_schema()
    function = merge_function_for(schema, CoreOptions(schema.options), drop_deletes=True)
    numbered = list(enumerate(records))
    # Runs hold each key once: the run of a record is the number of records of its key before it.
    runs: list[list[tuple[int, Record]]] = []
    seen: dict[int, int] = {}
    for number, record in numbered:
        place = seen[record[0]] = seen.get(record[0], -1) + 1
        if place == len(runs):
            runs.append([])
        runs[place].append((number, record))
    names = [n for n, _ in COLUMNS]

    def run_input(run: list[tuple[int, Record]]) -> RunInput:
        ordered = sorted(run, key=lambda r: r[1][0])
        rows: dict[str, Any] = {
            n: pa.array([r[1][i] for r in ordered], schema.arrow.field(n).type) for i, n in enumerate(names)
        }
        rows[SEQUENCE_NUMBER] = pa.array([r[0] for r in ordered], pa.int64())
        rows[VALUE_KIND] = pa.array([r[1][5] for r in ordered], pa.int8())
        batch = pa.record_batch(rows)

        def batches(batch_rows: int) -> Iterator[RunBatch]:
            for start in range(0, batch.num_rows, batch_rows):
                # All runs have the same age, so that the sequence numbers must decide which record is newer.
                yield RunBatch(batch.slice(start, batch_rows), 0)

        return RunInput(row_count=batch.num_rows, open=batches)

    plan = MergePlan(keys=("id",), output=tuple(names), sequence=(SEQUENCE_NUMBER,))
    order = [r for _, r in sorted(zip([*cuts, *range(99, 99 + len(runs))], runs, strict=False), key=lambda p: p[0])]
    merged = merge_runs([run_input(r) for r in order], plan, function, block_rows=block_rows)
    return [list(row.values()) for batch in merged for row in batch.to_pylist()]


def _model(records: Sequence[Record], step: Any) -> list[list[Any]]:
    by_key: dict[int, list[Record]] = {}
    for record in records:
        by_key.setdefault(record[0], []).append(record)
    rows = []
    for key in sorted(by_key):
        mine = by_key[key]
        # A record without others of its key stays unchanged.
        alone = None if mine[0][5] in (1, 3) else list(mine[0][:5])
        result = alone if len(mine) == 1 else step(mine)
        if result is not None:
            rows.append(result)
    return rows


def _first(records: Sequence[Record]) -> list[Any]:
    return list(records[0][:5])


def _newest_values(records: Sequence[Record]) -> list[Any]:
    row: list[Any] = [None] * 5
    for record in records:
        row = [old if new is None else new for old, new in zip(row, record[:5], strict=True)]
    return row


def _removing(records: Sequence[Record]) -> list[Any] | None:
    row: list[Any] | None = None
    added = gone = False
    for record in records:
        values = list(record[:5])
        gone = record[5] == DELETE
        if row is None or gone:
            row = values
        elif record[5] != 1:
            row = [old if new is None else new for old, new in zip(row, values, strict=True)]
        added = added or record[5] in ADDS
    return row if added and not gone else None


def _group(records: Sequence[Record]) -> list[Any] | None:
    # a follows g, b is summed in g's group, t is in no group.
    a = b = t = g = None
    added = started = False
    for _, new_a, new_b, new_t, new_g, kind in records:
        back = kind in (1, 3)
        if back and not started:
            a, b, t, g = new_a, new_b, new_t, new_g
        started = True
        if not back:
            added = True
            t = t if new_t is None else new_t
        if new_g is None:
            continue
        if g is None or new_g >= g:
            g, a = new_g, None if back else new_a
        if new_b is not None:
            b = (b or 0) + (-new_b if back else new_b)
    return [records[0][0], a, b, t, g] if added else None


def _aggregated(records: Sequence[Record]) -> list[Any]:
    key, a, b, t, g = records[0][0], None, None, None, None
    for _, new_a, new_b, new_t, new_g, kind in records:
        if kind in (1, 3):
            a = a if new_a is None else (a or 0) - new_a
            t = t if new_t is None else None
            g = None
        else:
            a = a if new_a is None else (a or 0) + new_a
            t = t if new_t is None else new_t
            g = new_g
            b = b if new_b is None else new_b if b is None else max(b, new_b)
    return [key, a, b, t, g]


def _texts(records: Sequence[Record]) -> list[Any]:
    values = [[v for v in column if v is not None] for column in list(zip(*records, strict=True))[1:5]]
    a, b, t, g = values
    # Products beyond the type are an error; see test_number_limits.
    assume(abs(math.prod(number for number in a if number)) < 2**31)
    return [
        records[0][0],
        math.prod(a) if a else None,
        min(b) if b else None,
        "-".join(v for v in t if v) if t else None,
        g[0] if g else None,
    ]


ENGINES: dict[str, tuple[dict[str, str], Sequence[int], Any]] = {
    "first-row": ({"merge-engine": "first-row"}, ADDS, _first),
    "partial-update": ({"merge-engine": "partial-update"}, ADDS, _newest_values),
    "removing": (
        {"merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"},
        ALL,
        _removing,
    ),
    "group": (
        {
            "merge-engine": "partial-update",
            "fields.g.sequence-group": "a,b",
            "fields.b.aggregate-function": "sum",
        },
        ALL,
        _group,
    ),
    "aggregation": (
        {
            "merge-engine": "aggregation",
            "fields.a.aggregate-function": "sum",
            "fields.b.aggregate-function": "max",
            "fields.b.ignore-retract": "true",
            "fields.g.aggregate-function": "last_value",
        },
        ALL,
        _aggregated,
    ),
    "texts": (
        {
            "merge-engine": "aggregation",
            "fields.a.aggregate-function": "product",
            "fields.b.aggregate-function": "min",
            "fields.t.aggregate-function": "listagg",
            "fields.t.list-agg-delimiter": "-",
            "fields.g.aggregate-function": "first_non_null_value",
        },
        ADDS,
        _texts,
    ),
}


@pytest.mark.parametrize("engine", ENGINES)
@settings(max_examples=examples(60), deadline=None)
@given(data=st.data())
def test_the_streaming_merge_equals_merging_record_by_record(engine: str, data: st.DataObject) -> None:
    options, kinds, step = ENGINES[engine]
    records = data.draw(_records(kinds))
    cuts = data.draw(st.lists(st.integers(0, 50), max_size=6))
    block_rows = data.draw(st.sampled_from([1, 3, 1000]))
    assert _merged(options, records, cuts, block_rows) == _model(records, step)
