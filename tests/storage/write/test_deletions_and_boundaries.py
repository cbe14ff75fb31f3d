"""A read does not depend on the boundaries of commits, flushes and compactions where a deletion removes the row.

The model is a dict that applies the changes of a key one after the other. A base of many rows is at the bottom of the
bucket, so that compactions that are not full do not include it unless they must.
"""

import random
import tempfile
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from interbed import load_catalog
from interbed.storage.table.table import Table
from tests.support.examples import examples

KEYS = 3
COLUMNS = ("seq", "a", "n", "h", "b")
FIELDS: list[Any] = [
    pa.field("id", pa.int64(), nullable=False),
    pa.field("seq", pa.int64()),
    pa.field("a", pa.string()),
    pa.field("n", pa.int64()),
    pa.field("h", pa.int64()),
    pa.field("b", pa.int64()),
]
SCHEMA = pa.schema([*FIELDS, pa.field("_row_kind", pa.int8())])
Row = dict[str, Any]
Change = tuple[int, str, "str | None", "int | None", "int | None"]
"""The key, the kind (+I, -U or -D), and the values of a, n and b."""
Batch = tuple[list[Change], str]
"""The changes of one commit, and what follows it: nothing, a due compaction, or a full one."""

PARTIAL = {"merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"}
GROUPS = {
    "merge-engine": "partial-update",
    "partial-update.remove-record-on-sequence-group": "seq",
    "fields.seq.sequence-group": "a,n",
    "fields.h.sequence-group": "b",
}
AGGREGATION = {
    "merge-engine": "aggregation",
    "aggregation.remove-record-on-delete": "true",
    "fields.n.aggregate-function": "sum",
    "fields.b.aggregate-function": "max",
}


def _partial(row: Row | None, change: Row, kind: str) -> Row | None:
    if kind == "-D":
        return None
    if kind == "-U":
        return row
    return {**(row or dict.fromkeys(COLUMNS)), **{name: value for name, value in change.items() if value is not None}}


def _groups(row: Row | None, change: Row, kind: str) -> Row | None:
    if kind == "-D":
        return None
    if kind == "-U":
        return row
    taken = {name: change[name] for name in ("seq", "a", "n")}
    if change["h"] is not None:
        taken |= {name: change[name] for name in ("h", "b")}
    return {**(row or dict.fromkeys(COLUMNS)), **taken}


def _aggregated(row: Row | None, change: Row, kind: str) -> Row | None:
    if kind == "-D":
        return None
    new = _partial(row, change, kind)
    if row is not None and new is not None:
        for name, function in (("n", sum), ("b", max)):
            numbers = [r[name] for r in (row, change) if r[name] is not None]
            new[name] = function(numbers) if numbers else None
    return new


MODELS: Mapping[str, tuple[dict[str, str], Callable[[Row | None, Row, str], Row | None], tuple[str, ...]]] = {
    "partial update": (PARTIAL, _partial, ("+I", "-U", "-D")),
    "partial update by sequence": ({**PARTIAL, "sequence.field": "seq"}, _partial, ("+I", "-U", "-D")),
    "groups": (GROUPS, _groups, ("+I", "-D")),
    "aggregation": (AGGREGATION, _aggregated, ("+I", "-D")),
}
PRODUCERS = ("none", "input", "lookup", "full-compaction", "deletion vectors", "postponed")

_number = st.none() | st.integers(-3, 3)


def _batches(kinds: tuple[str, ...]) -> st.SearchStrategy[list[Batch]]:
    text = st.none() | st.sampled_from(["x", "y"])
    changes = st.tuples(st.integers(0, KEYS - 1), st.sampled_from(kinds), text, _number, _number)
    after = st.sampled_from(["nothing", "due", "full"])
    return st.lists(st.tuples(st.lists(changes, min_size=1, max_size=5), after), min_size=1, max_size=5)


def _made(directory: str, options: dict[str, str], producer: str, buffer: str) -> Table:
    catalog = load_catalog(warehouse=directory)
    catalog.create_database("d")
    given = {
        "bucket": "1",
        "write-only": "true",
        "num-sorted-run.compaction-trigger": "2",
        "write-buffer-size": buffer,
        "write-buffer-spillable": "false",
        **options,
    }
    if producer == "deletion vectors":
        given["deletion-vectors.enabled"] = "true"
    elif producer == "postponed":
        given["bucket"] = "-2"
    else:
        given["changelog-producer"] = producer
    return catalog.create_table("d.t", pa.schema(FIELDS), primary_keys=["id"], options=given)


def _written(table: Table, rows: list[Row]) -> None:
    table.write_changes(pa.Table.from_pylist(rows, schema=SCHEMA))


KINDS = {"+I": 0, "-U": 1, "-D": 3}
OLD: Row = {"seq": 0, "a": "old", "n": 100, "h": 0, "b": 100}
BROUGHT_BACK: list[Batch] = [
    ([(0, "-D", "x", 3, 3), (0, "+I", None, None, None)], "due"),
    ([(1, "+I", "y", 1, 1)], "due"),
]


@pytest.mark.sample(4)
@pytest.mark.parametrize("producer", PRODUCERS)
@pytest.mark.parametrize("name", list(MODELS))
def test_a_read_does_not_depend_on_the_boundaries_of_commits_and_compactions(name: str, producer: str) -> None:
    options, step, kinds = MODELS[name]

    @settings(max_examples=examples(12), deadline=None)
    @example(batches=BROUGHT_BACK, small=False)
    @example(batches=[([(0, "-D", "x", 3, 3)], "nothing"), ([(0, "+I", None, None, 1)], "due")], small=False)
    @given(batches=_batches(kinds), small=st.booleans())
    def holds(batches: list[Batch], small: bool) -> None:
        with tempfile.TemporaryDirectory() as directory:
            _run(directory, batches, buffer="1 kb" if small else "64 mb")

    def _run(directory: str, batches: list[Batch], buffer: str) -> None:
        table = _made(directory, options, producer, buffer)
        source = random.Random(1)
        base = [{"id": i, **OLD, "_row_kind": 0} for i in range(KEYS)]
        ballast = [{**base[0], "id": KEYS + i, "a": source.randbytes(40).hex()} for i in range(1_000)]
        _written(table, base + ballast)
        table.compact()
        expected: dict[int, Row | None] = dict.fromkeys(range(KEYS), OLD)
        number = 0
        for changes, after in batches:
            rows = []
            for key, kind, a, n, b in changes:
                number += 1
                # A deletion does not affect the other group, whose sequence would reject late rows.
                other = None if n is None or kind == "-D" else number
                if name == "groups" and other is None:
                    # A record that is merged with no other keeps a value beside a null sequence, as in Paimon.
                    b = None
                change: Row = {"seq": number, "a": a, "n": n, "h": other, "b": b}
                rows.append({"id": key, **change, "_row_kind": KINDS[kind]})
                expected[key] = step(expected[key], change, kind)
            _written(table, rows)
            if after != "nothing":
                table.compact(full=after == "full")
        if producer in ("deletion vectors", "postponed"):
            table.compact()
        found = {row.pop("id"): row for row in table.scan(filter=f"id < {KEYS}").to_arrow().to_pylist()}
        assert found == {key: row for key, row in expected.items() if row is not None}

    holds()
