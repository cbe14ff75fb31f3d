"""A filter finds the same rows with and without pruning, in files of any writer."""

import itertools
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from interbed.storage.base.predicate.evaluate import mask
from interbed.storage.base.predicate.expr import (
    Comparison,
    In,
    IsNotNull,
    IsNull,
    Not,
    NotIn,
    Op,
    Or,
    Predicate,
    and_,
    bind,
)
from tests.interop.limits import holds_key, holds_partition, holds_value
from tests.interop.strategies import RANDOM, TableHistory, append_histories, keyed_histories
from tests.support.peers.interbed import interbed_table
from tests.support.peers.java import JavaPaimon
from tests.support.peers.json import from_json_values

LIMITS: Any = {
    "value": lambda of: holds_value("java", of),
    "key": lambda of: holds_key("java", of),
    "partition": lambda of: holds_partition("java", of),
}
NESTED = ("ARRAY", "MAP", "MULTISET", "ROW")


def literals(history: TableHistory) -> dict[str, list[Any]]:
    """Return the values in the history of the columns that can be compared."""
    found: dict[str, list[Any]] = {}
    for i, ((name, _), of) in enumerate(zip(history.columns, history.types, strict=True)):
        values = [row[i] for commit in history.commits for _, row in commit if row[i] is not None]
        if values and of.root not in NESTED:
            array = from_json_values(values, of)
            nanos = pa.types.is_timestamp(array.type) and array.type.unit == "ns"
            # Python's datetime ends at microseconds, so that its literals may lie between the table's values.
            found[name] = (array.cast(pa.timestamp("us", array.type.tz), safe=False) if nanos else array).to_pylist()
    return found


@st.composite
def predicates(draw: st.DrawFn, of: dict[str, list[Any]], names: list[str], depth: int = 1) -> Predicate:
    """Generate a filter on the columns, with literals from their values."""
    kinds = ["null", *(["compare"] * 4 + ["in"] if of else []), *(["and", "or", "not"] if depth else [])]
    match draw(st.sampled_from(kinds)):
        case "compare":
            name = draw(st.sampled_from(sorted(of)))
            return Comparison(draw(st.sampled_from(list(Op))), name, draw(st.sampled_from(of[name])))
        case "in":
            name = draw(st.sampled_from(sorted(of)))
            values = tuple(draw(st.lists(st.sampled_from(of[name]), min_size=1, max_size=3)))
            return draw(st.sampled_from([In, NotIn]))(name, values)
        case "null":
            return draw(st.sampled_from([IsNull, IsNotNull]))(draw(st.sampled_from(names)))
        case "not":
            return Not(draw(predicates(of, names, depth - 1)))
        case connective:
            parts = tuple(draw(predicates(of, names, depth - 1)) for _ in range(2))
            return and_(*parts) if connective == "and" else Or(parts)


def check(java: JavaPaimon, warehouse: Path, history: TableHistory, data: st.DataObject) -> None:
    tables: list[Any] = [interbed_table(warehouse, "db.t"), java.table(warehouse, "db.t")]
    tables[0].create(
        history.columns,
        primary_keys=history.primary_keys,
        partition_keys=history.partition_keys,
        options=history.options,
    )
    for commit in history.commits:
        data.draw(st.sampled_from(tables), label="writer").write(
            [row for _, row in commit], kinds=[kind for kind, _ in commit]
        )
    if data.draw(st.booleans(), label="compacted"):
        tables[0].compact()
    table = tables[0].load()
    everything = table.scan().to_arrow().combine_chunks().to_batches()
    names = [name for (name, _), of in zip(history.columns, history.types, strict=True) if of.root not in NESTED]
    for _ in range(5):
        predicate = data.draw(predicates(literals(history), names or ["k0"]), label="filter")
        bound = bind(predicate, table.schema.fields)
        expected = [str(row) for batch in everything for row in batch.filter(mask(bound, batch)).to_pylist()]
        found = [str(row) for row in table.scan(filter=predicate).to_arrow().to_pylist()]
        assert sorted(found) == sorted(expected)


@pytest.mark.longer
def test_filters_on_keyed_tables_lose_no_rows(java_paimon: JavaPaimon, tmp_path: Path) -> None:
    count = itertools.count()

    @RANDOM
    @given(history=keyed_histories(**LIMITS, options={"write-only": "true"}), data=st.data())
    def run(history: TableHistory, data: st.DataObject) -> None:
        check(java_paimon, tmp_path / f"w{next(count)}", history, data)

    run()


@pytest.mark.longer
def test_filters_on_append_tables_lose_no_rows(java_paimon: JavaPaimon, tmp_path: Path) -> None:
    count = itertools.count()

    @RANDOM
    @given(history=append_histories(**LIMITS), data=st.data())
    def run(history: TableHistory, data: st.DataObject) -> None:
        check(java_paimon, tmp_path / f"w{next(count)}", history, data)

    run()
