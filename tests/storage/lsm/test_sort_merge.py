"""The streaming merge equals a model that applies every record in order of its sequence number to a dict."""

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interbed.storage.base.row.kind import RowKind
from interbed.storage.base.types.arrow import type_to_arrow
from interbed.storage.lsm.merge_function.api import DeduplicateMerge
from interbed.storage.lsm.sort_merge import MergePlan, RunBatch, RunInput, merge_runs
from interbed.storage.meta.schema.table_schema import SEQUENCE_NUMBER, VALUE_KIND
from tests.storage.lsm.keys import KEY_KINDS, KeyKind, key_array, key_order
from tests.support.examples import examples

Rank = tuple[Any, ...]


@dataclass(frozen=True)
class Record:
    """One record of a run; `rank` is the sort key of its key."""

    rank: Rank
    key: tuple[Any, ...]
    sequence: int
    kind: RowKind
    value: int


def _batch(kinds: Sequence[KeyKind], records: Sequence[Record], *, sequence: bool, deletes: bool) -> pa.RecordBatch:
    columns = {
        f"k{i}": key_array([r.key[i] for r in records], type_to_arrow(kind.type)) for i, kind in enumerate(kinds)
    }
    columns["value"] = pa.array([r.value for r in records], pa.int64())
    if sequence:
        columns[SEQUENCE_NUMBER] = pa.array([r.sequence for r in records], pa.int64())
    if deletes:
        columns[VALUE_KIND] = pa.array([int(r.kind) for r in records], pa.int8())
    return pa.record_batch(columns)


def _input(kinds: Sequence[KeyKind], records: Sequence[Record], age: int, *, sequence: bool) -> RunInput:
    def open_run(batch_rows: int) -> Iterator[RunBatch]:
        for start in range(0, len(records), batch_rows):
            part = records[start : start + batch_rows]
            deletes = any(r.kind.is_retract for r in records)
            yield RunBatch(_batch(kinds, part, sequence=sequence, deletes=deletes), age)

    return RunInput(row_count=len(records), open=open_run)


def _model(runs: Sequence[Sequence[Record]], *, drop_deletes: bool, ignore_delete: bool) -> list[int]:
    newest: dict[Rank, Record] = {}
    for record in sorted((r for run in runs for r in run), key=lambda r: (r.sequence, not r.kind.is_retract)):
        if not (ignore_delete and record.kind.is_retract):
            newest[record.rank] = record
    kept = [r for r in newest.values() if not (drop_deletes and r.kind.is_retract)]
    return [r.value for r in sorted(kept, key=lambda r: r.rank)]


def _merged(
    kinds: Sequence[KeyKind],
    runs: Sequence[Sequence[Record]],
    block_rows: int,
    *,
    by_sequence: bool,
    drop_deletes: bool,
    ignore_delete: bool,
) -> list[int]:
    plan = MergePlan(
        keys=tuple(f"k{i}" for i in range(len(kinds))),
        output=("value",),
        sequence=(SEQUENCE_NUMBER,) if by_sequence else (),
    )
    inputs = [_input(kinds, run, age, sequence=by_sequence) for age, run in enumerate(runs)]
    function = DeduplicateMerge(drop_deletes=drop_deletes, ignore_delete=ignore_delete)
    batches: Iterator[Any] = merge_runs(inputs, plan, function, block_rows=block_rows)
    return [value for batch in batches for value in batch.column("value").to_pylist()]


@st.composite
def _runs(draw: st.DrawFn, kinds: tuple[KeyKind, ...], *, mixed_sequences: bool) -> list[list[Record]]:
    keys = draw(st.lists(st.tuples(*(k.values for k in kinds)), min_size=1, max_size=25))
    by_rank = {key_order(kinds, key): key for key in keys}
    pool = sorted(by_rank)
    runs: list[list[Record]] = []
    value = 0
    for age in range(draw(st.integers(1, 5))):
        ranks = sorted(draw(st.sets(st.sampled_from(pool), min_size=1)))
        run = []
        for rank in ranks:
            sequence = draw(st.integers(0, 3)) if mixed_sequences else age
            kind = draw(st.sampled_from([RowKind.INSERT, RowKind.UPDATE_AFTER, RowKind.DELETE, RowKind.UPDATE_BEFORE]))
            run.append(Record(rank, by_rank[rank], sequence, kind, value))
            value += 1
        runs.append(run)
    return runs


@pytest.mark.parametrize("kind", KEY_KINDS, ids=lambda kind: kind.name)
@given(data=st.data(), block_rows=st.sampled_from([1, 2, 3, 7, 50, 10_000]), drop_deletes=st.booleans())
@settings(max_examples=examples(30), deadline=None)
def test_a_merge_of_any_key_type_and_block_size_equals_the_model(
    kind: KeyKind, data: st.DataObject, block_rows: int, drop_deletes: bool
) -> None:
    runs = data.draw(_runs((kind,), mixed_sequences=False))
    options = {"drop_deletes": drop_deletes, "ignore_delete": False}
    assert _merged((kind,), runs, block_rows, by_sequence=False, **options) == _model(runs, **options)


@given(data=st.data(), block_rows=st.sampled_from([1, 3, 10, 10_000]), flags=st.tuples(st.booleans(), st.booleans()))
@settings(max_examples=examples(150), deadline=None)
def test_a_merge_of_composite_keys_equals_the_model(
    data: st.DataObject, block_rows: int, flags: tuple[bool, bool]
) -> None:
    kinds = tuple(data.draw(st.lists(st.sampled_from(KEY_KINDS), min_size=1, max_size=3)))
    runs = data.draw(_runs(kinds, mixed_sequences=False))
    options = {"drop_deletes": flags[0], "ignore_delete": flags[1]}
    assert _merged(kinds, runs, block_rows, by_sequence=False, **options) == _model(runs, **options)


@given(data=st.data(), block_rows=st.sampled_from([1, 3, 10, 10_000]), flags=st.tuples(st.booleans(), st.booleans()))
@settings(max_examples=examples(200), deadline=None)
def test_sequence_numbers_take_precedence_over_age_and_an_add_wins_a_tie(
    data: st.DataObject, block_rows: int, flags: tuple[bool, bool]
) -> None:
    kinds = (data.draw(st.sampled_from([k for k in KEY_KINDS if k.name in ("int", "varchar", "bigint")])),)
    runs = _without_ambiguity(data.draw(_runs(kinds, mixed_sequences=True)))
    options = {"drop_deletes": flags[0], "ignore_delete": flags[1]}
    assert _merged(kinds, runs, block_rows, by_sequence=True, **options) == _model(runs, **options)


def _without_ambiguity(runs: list[list[Record]]) -> list[list[Record]]:
    # Two adds, or two deletions, of one key and one sequence number have no defined winner.
    seen: set[tuple[Rank, int, bool]] = set()
    result = []
    for run in runs:
        kept = []
        for record in run:
            identity = (record.rank, record.sequence, record.kind.is_retract)
            if identity not in seen:
                seen.add(identity)
                kept.append(record)
        result.append(kept)
    return result


def _table(ids: range, step: int = 1) -> pa.RecordBatch:
    return pa.record_batch({"id": pa.array(ids, pa.int64()), "value": pa.array([i * step for i in ids], pa.int64())})


def _slices(rows: pa.RecordBatch, age: int) -> RunInput:
    def open_run(batch_rows: int) -> Iterator[RunBatch]:
        for start in range(0, rows.num_rows, batch_rows):
            yield RunBatch(rows.slice(start, batch_rows), age)

    return RunInput(row_count=rows.num_rows, open=open_run)


def test_rows_in_a_key_range_of_a_single_run_are_not_copied() -> None:
    low, high = _table(range(1000)), _table(range(2000, 2010))
    plan = MergePlan(keys=("id",), output=("id", "value"))
    batches = list(
        merge_runs([_slices(low, 0), _slices(high, 1)], plan, DeduplicateMerge(drop_deletes=True), block_rows=100)
    )
    assert pa.Table.from_batches(batches).column("id").to_pylist() == [*range(1000), *range(2000, 2010)]
    base = low.column("value").buffers()[1]
    assert base is not None
    columns: list[Any] = [b.column("value") for b in batches]
    addresses = [column.buffers()[1].address for column in columns]
    assert addresses.count(base.address) == len(batches) - 1


def test_blocks_stay_small_however_long_the_runs_are() -> None:
    open_rows = 0

    def watched(run: RunInput) -> RunInput:
        def open_run(batch_rows: int) -> Iterator[RunBatch]:
            nonlocal open_rows
            for batch in run.open(batch_rows):
                open_rows += batch.rows.num_rows
                yield batch

        return RunInput(row_count=run.row_count, open=open_run)

    runs = [watched(_slices(_table(range(i, 50_000, i + 1)), i)) for i in range(3)]
    plan = MergePlan(keys=("id",), output=("id",))
    handed_out = 0
    for batch in merge_runs(runs, plan, DeduplicateMerge(drop_deletes=True), block_rows=4_096):
        handed_out = batch.column("id")[-1].as_py() + 1
        # Rows that are read ahead of those returned are at most the buffers: a block, plus a batch of each run.
        expected_read = sum(-(-(handed_out - i) // (i + 1)) for i in range(3))
        assert open_rows - expected_read <= 2 * 4_096 + 3 * 2_048
    assert handed_out == 50_000


def test_an_abandoned_merge_closes_its_runs() -> None:
    closed = []

    def run(age: int) -> RunInput:
        def open_run(batch_rows: int) -> Iterator[RunBatch]:
            try:
                for start in range(0, 1000, 10):
                    yield RunBatch(_table(range(start, start + 10)), age)
            finally:
                closed.append(age)

        return RunInput(row_count=1000, open=open_run)

    merge = merge_runs(
        [run(0), run(1)], MergePlan(keys=("id",), output=("id",)), DeduplicateMerge(drop_deletes=True), block_rows=20
    )
    assert isinstance(merge, Generator)
    next(merge)
    merge.close()
    assert sorted(closed) == [0, 1]


def test_rows_are_counted_without_output_columns() -> None:
    runs = [_slices(_table(range(100)), 0), _slices(_table(range(50, 150)), 1)]
    plan = MergePlan(keys=("id",), output=())
    assert sum(b.num_rows for b in merge_runs(runs, plan, DeduplicateMerge(drop_deletes=True))) == 150


@given(
    data=st.data(),
    block_rows=st.sampled_from([3, 10, 10_000]),
    flags=st.tuples(st.booleans(), st.booleans()),
    by_sequence=st.booleans(),
)
@settings(max_examples=examples(150), deadline=None)
def test_counting_without_reading_rows_equals_counting_merged_rows(
    data: st.DataObject, block_rows: int, flags: tuple[bool, bool], by_sequence: bool
) -> None:
    kinds = (data.draw(st.sampled_from([k for k in KEY_KINDS if k.name in ("int", "varchar", "bigint")])),)
    runs = data.draw(_runs(kinds, mixed_sequences=by_sequence))
    if by_sequence:
        runs = _without_ambiguity(runs)
    options = {"drop_deletes": flags[0], "ignore_delete": flags[1]}
    plan = MergePlan(keys=("k0",), output=(), sequence=(SEQUENCE_NUMBER,) if by_sequence else ())
    inputs = [_input(kinds, run, age, sequence=by_sequence) for age, run in enumerate(runs)]
    merged = merge_runs(inputs, plan, DeduplicateMerge(**options), block_rows=block_rows)
    assert sum(batch.num_rows for batch in merged) == len(_model(runs, **options))


@pytest.mark.parametrize("deletes", [False, True])
@pytest.mark.parametrize("ordered", [False, True])
def test_dense_and_sparse_keys_are_merged_alike(deletes: bool, ordered: bool) -> None:
    def merged(apart: int) -> list[list[Any]]:
        runs = []
        for age in range(4):
            ids = range(age, 3_000, age + 1)
            columns: dict[str, Any] = {"id": pa.array([i * apart for i in ids], pa.int64())}
            columns["value"] = pa.array([f"{age}-{i}" for i in ids])
            columns[VALUE_KIND] = pa.array([3 if deletes and age and i % 7 == 0 else 0 for i in ids], pa.int8())
            runs.append(_slices(pa.record_batch(columns), age))
        plan = MergePlan(keys=("id",), output=("id", "value"), ordered=ordered)
        rows = pa.Table.from_batches(list(merge_runs(runs, plan, DeduplicateMerge(drop_deletes=True), block_rows=500)))
        return sorted([key // apart, value] for key, value in zip(*rows.to_pydict().values(), strict=True))

    assert merged(1) == merged(1_000_003)
