"""Figures and picture of a run; the command line; the newest of several changes of a key."""

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

from tests.benchmarks.ch.__main__ import parsed
from tests.benchmarks.ch.figures import as_json, figures_of, goals, over_time
from tests.benchmarks.ch.iceberg_job import newest_by_key
from tests.benchmarks.ch.picture import draw
from tests.benchmarks.ch.run import QueryRound, Record
from tests.benchmarks.ch.tpcc.terminals import Tally


def record(slower: float = 0.0) -> Record:
    return Record(
        seconds=100.0,
        rounds=[QueryRound(at_s=at, seconds=(1.0 + slower * at / 90, 1.0)) for at in range(0, 100, 10)],
        lags=[(1.0, 1.0), (50.0, 6.0)],
        cpu=[(0.0, {"queries": 0.0}), (100.0, {"queries": 60.0, "optimizer": 20.0, "ingestion": 20.0})],
        shapes=[(1.0, {"a": {"runs": 3, "files": 4}}), (99.0, {"a": {"runs": 2, "files": 2}, "b": {"files": 7}})],
        tally=Tally(by_kind=Counter({"NewOrder": 50, "Payment": 40}), rolled_back=5),
    )


def test_rounds_of_the_first_and_the_last_tenth_are_compared() -> None:
    figures = figures_of(record(slower=2.0))
    assert figures["round_first_s"] == 2.0
    assert figures["round_last_s"] == pytest.approx(4.0)
    assert figures["round_growth"] == pytest.approx(2.0)
    assert figures["round_mean_s"] == pytest.approx(3.0)


def test_figures_show_the_work_its_cost_and_the_lag() -> None:
    figures = figures_of(record())
    assert figures["new_orders_per_minute"] == 27
    assert figures["maintenance_share"] == 0.2
    assert figures["lag_max_s"] == 6.0
    assert (figures["runs_max"], figures["runs_last"], figures["files_max"]) == (3, 2, 9)


def test_figures_of_several_runs_are_shown_side_by_side() -> None:
    found = as_json({"on": {"rounds": 3, "runs_max": 2}, "iceberg-v3": {"rounds": 1}})
    assert found == {"rounds": {"on": 3, "iceberg-v3": 1}, "runs_max": {"on": 2}}


def test_goals_apply_to_interbed_with_its_optimizer() -> None:
    found = {"on": figures_of(record()), "iceberg-v3": figures_of(record(slower=4.0))}
    lines = goals(found)
    assert len(lines) == 4
    assert lines[-1] == "Queries: 0.50 of the time of iceberg-v3 (goal 0.5)."
    assert goals({"off": found["on"]}) == []


def test_an_unmeasured_run_has_figures() -> None:
    assert figures_of(Record(rows_loaded=3))["rows_loaded"] == 3


def test_runs_are_drawn(tmp_path: Path) -> None:
    draw({"on": over_time(record()), "iceberg-v3": over_time(record(slower=1.0))}, tmp_path / "ch.svg")
    assert (tmp_path / "ch.svg").stat().st_size > 10_000


def test_the_command_line_selects_the_contenders() -> None:
    assert parsed(["--optimizer", "writer"]).contenders == ["writer"]
    assert parsed(["--format", "iceberg-v2"]).contenders == ["iceberg-v2"]
    assert parsed(["--format", "iceberg-v3", "--optimizer", "on"]).contenders == ["iceberg-v3-rewrites"]
    assert parsed(["--compare", "on,off,iceberg-v3"]).contenders == ["on", "off", "iceberg-v3"]
    for wrong in (["--compare", "on,delta"], ["--format", "iceberg-v3", "--optimizer", "writer"]):
        with pytest.raises(SystemExit):
            parsed(wrong)


def test_the_last_of_several_changes_of_a_key_is_merged() -> None:
    first = pa.table({"w": [1, 1, 2], "o": [1, 2, 1], "v": ["a", "b", "c"]})
    second = pa.table({"w": [1, 2, 1], "o": [2, 2, 2], "v": ["d", "e", "f"]})
    found = newest_by_key([first, second], ["w", "o"]).sort_by([("w", "ascending"), ("o", "ascending")])
    assert found.to_pydict() == {"w": [1, 1, 2, 2], "o": [1, 2, 1, 2], "v": ["a", "f", "c", "e"]}
