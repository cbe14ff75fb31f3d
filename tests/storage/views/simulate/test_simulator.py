"""The simulator, against a model of the rows and against a real table, and its amplification figures."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import interbed
from interbed.storage.base.errors import InvalidInputError, InvalidOptionError
from interbed.storage.lsm.compact.strategy import PickReason
from interbed.storage.views.simulate.simulation import compared
from interbed.storage.views.simulate.simulator import simulate
from interbed.storage.views.simulate.workload import InsertOrder, KeyDistribution, Workload
from tests.support.examples import examples

SIZES_DO_NOT_MATTER = {"compaction.size-ratio": "1000000", "compaction.max-size-amplification-percent": "1000000"}
"""With these options, only the number of sorted runs triggers compactions, so file sizes do not change the tree."""

workloads = st.builds(
    Workload,
    commits=st.integers(1, 12),
    rows=st.integers(1, 60),
    row_bytes=st.integers(1, 200),
    update_ratio=st.floats(0, 0.6),
    delete_ratio=st.floats(0, 0.4),
    distribution=st.sampled_from(KeyDistribution),
    zipf_exponent=st.floats(0, 3),
    insert_order=st.sampled_from(InsertOrder),
    seed=st.integers(0, 2**31),
)
table_options = st.fixed_dictionaries(
    {},
    optional={
        "num-sorted-run.compaction-trigger": st.integers(2, 6).map(str),
        "compaction.size-ratio": st.integers(0, 300).map(str),
        "target-file-size": st.sampled_from(["1 b", "1 kb", "128 mb"]),
        "write-buffer-size": st.sampled_from(["300 b", "256 mb"]),
        "full-compaction.delta-commits": st.integers(1, 5).map(str),
        "compaction.optimization-interval": st.just("3 min"),
        "deletion-vectors.enabled": st.sampled_from(["true", "false"]),
    },
)


@settings(max_examples=examples(60), deadline=None)
@given(workload=workloads, options=table_options, every=st.integers(1, 4))
def test_the_live_rows_equal_those_of_a_dictionary(workload: Workload, options: dict[str, str], every: int) -> None:
    model: dict[int, bool] = {}
    expected = []
    for batch in workload.batches():
        for key, delete in zip(batch.keys.tolist(), batch.deletes.tolist(), strict=True):
            model[key] = not delete
        expected.append(sum(model.values()) * workload.row_bytes)
    simulation = simulate(workload, options, compact_every=every)
    assert [s.live_bytes for s in simulation.steps] == expected
    for step in simulation.steps:
        assert step.live_bytes <= step.total_bytes <= step.flushed_bytes + step.compacted_bytes
        assert step.flushed_bytes <= step.given_bytes
        assert step.read_amplification <= step.runs
    json.dumps(simulation.to_json(), allow_nan=False)


@settings(max_examples=examples(30), deadline=None)
@given(workload=workloads)
def test_a_full_compaction_leaves_only_live_rows(workload: Workload) -> None:
    simulation = simulate(workload, {"full-compaction.delta-commits": "1"})
    for step in simulation.steps:
        assert step.total_bytes == step.live_bytes
        assert step.runs <= 1
        assert step.space_amplification == 1


@pytest.mark.parametrize(
    "options",
    [
        {"num-sorted-run.compaction-trigger": "3"},
        {"compaction.force-up-level-0": "true"},
        {"num-sorted-run.compaction-trigger": "4", "deletion-vectors.enabled": "true"},
        {"changelog-producer": "lookup", "lookup-compact": "gentle", "lookup-compact.max-interval": "3"},
        {"deletion-vectors.enabled": "true", "lookup-compact": "gentle", "num-sorted-run.compaction-trigger": "4"},
        {
            "changelog-producer": "lookup",
            "merge-engine": "partial-update",
            "partial-update.remove-record-on-delete": "true",
        },
    ],
)
def test_a_simulated_tree_equals_that_of_a_real_table(tmp_path: Path, options: dict[str, str]) -> None:
    options = {**SIZES_DO_NOT_MATTER, **options}
    workload = Workload(commits=9, rows=40, delete_ratio=0.2, seed=4)
    catalog = interbed.load_catalog(warehouse=tmp_path)
    catalog.create_database("db")
    schema = pa.schema([("id", pa.int64())])
    table = catalog.create_table("db.t", schema, primary_keys=["id"], options={"bucket": "1", **options})
    real = []
    # One writer for all commits, because it counts the compactions that it skipped.
    with table.new_write("writer") as write:
        for identifier, batch in enumerate(workload.batches()):
            kinds = pa.array(np.where(batch.deletes, 3, 0).astype(np.int8))
            write.write_arrow(pa.table({"id": workload.positions(batch.keys)}), kinds)
            messages = write.prepare_commit()
            table.new_commit("writer").commit(messages, identifier=identifier)
            found = table.levels().by_level()
            real.append((sum(level.runs for level in found), sum(level.rows for level in found)))
    simulation = simulate(workload, options)
    assert [(s.runs, s.total_bytes // workload.row_bytes) for s in simulation.steps] == real
    assert simulation.compactions


def test_more_runs_cost_fewer_writes_and_more_reads() -> None:
    workload = Workload(commits=150, rows=500)
    few, many = (simulate(workload, {"num-sorted-run.compaction-trigger": t}) for t in ("3", "12"))
    assert few.steps[-1].write_amplification > 1.5 * many.steps[-1].write_amplification
    assert few.curves[2].mean < many.curves[2].mean / 1.5


def test_files_of_ascending_keys_are_moved_and_hardly_rewritten() -> None:
    options = {"target-file-size": "10 kb"}
    ascending, random = (
        simulate(Workload(commits=60, rows=200, update_ratio=0, insert_order=order), options)
        for order in (InsertOrder.ASCENDING, InsertOrder.RANDOM)
    )
    assert ascending.steps[-1].compacted_bytes == 0
    assert sum(c.files_moved for c in ascending.compactions) > 0
    assert ascending.steps[-1].read_amplification == 1
    assert random.steps[-1].write_amplification > 2


def test_a_late_compaction_makes_the_writer_wait() -> None:
    workload = Workload(commits=40, rows=100)
    assert simulate(workload).waits == 0
    late = simulate(workload, compact_every=1000)
    assert late.waits > 0
    assert max(s.runs for s in late.steps) == late.stop_trigger == 8


def test_full_compactions_are_triggered_by_commits_or_by_time() -> None:
    workload = Workload(commits=30, rows=50, interval_millis=60_000)
    by_commits = simulate(workload, {"full-compaction.delta-commits": "10"})
    # At the tenth commit a compaction of all runs was due anyway.
    assert [c.commit for c in by_commits.compactions if c.reason is PickReason.FULL] == [20, 30]
    assert [s.runs for s in by_commits.steps[9::10]] == [1, 1, 1]
    options = {"compaction.optimization-interval": "9 min", "num-sorted-run.compaction-trigger": "100"}
    by_time = simulate(workload, options)
    reasons = [c.commit for c in by_time.compactions if c.reason is PickReason.INTERVAL]
    assert reasons == [2, 12, 22]


def test_the_distributions_differ_in_how_much_the_write_buffer_absorbs() -> None:
    flushed = {
        distribution: simulate(Workload(commits=20, rows=2000, update_ratio=0.9, distribution=distribution)).steps[-1]
        for distribution in KeyDistribution
    }
    uniform, zipf = flushed[KeyDistribution.UNIFORM], flushed[KeyDistribution.ZIPF]
    assert zipf.flushed_bytes < 0.7 * uniform.flushed_bytes


def test_the_same_seed_gives_the_same_simulation() -> None:
    first, again, other = (simulate(Workload(commits=10, rows=50, seed=s)) for s in (1, 1, 2))
    assert first == again
    assert first != other


def test_simulations_have_a_readable_text_form() -> None:
    simulation = simulate(Workload(commits=50, rows=100))
    shown = str(simulation)
    assert "write amplification" in shown
    assert "size ratio" in shown
    assert "█" in shown
    table = compared([simulate(Workload(commits=5), label=label) for label in ("a=1", "a=2")])
    assert "a=1" in table
    assert "a=2" in table


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"commits": 0}, "commits"),
        ({"rows": 0}, "rows"),
        ({"row_bytes": -1}, "row_bytes"),
        ({"update_ratio": 1.5}, "1.5"),
        ({"update_ratio": 0.6, "delete_ratio": 0.6}, "together"),
        ({"zipf_exponent": -1}, "Zipf"),
        ({"seed": -1}, "seed"),
    ],
)
def test_invalid_figures_of_a_workload_are_refused(wrong: dict[str, float], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        Workload(**wrong)  # type: ignore[arg-type]


def test_invalid_options_are_refused() -> None:
    with pytest.raises(InvalidOptionError, match="num-levels"):
        simulate(Workload(commits=1), {"num-levels": "1"})
    with pytest.raises(InvalidOptionError, match=r"'compaction.size-ration'; is 'compaction.size-ratio' meant"):
        simulate(Workload(commits=1), {"compaction.size-ration": "1"})
    with pytest.raises(InvalidInputError, match="at least 1"):
        simulate(Workload(commits=1), compact_every=0)
