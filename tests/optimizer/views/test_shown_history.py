"""Output of `status`, `why` and `history`, compared with the processes of hours of simulated time."""

from collections.abc import Sequence

import pytest

from interbed.optimizer.flow.process import Process, ProcessState, WorkKind
from interbed.optimizer.flow.tables import IN_SHAPE_SCORE, ResourceGroup, TableState
from interbed.optimizer.scheduling.needs import SchedulerSettings
from interbed.optimizer.scheduling.table_queues import TableBoard
from interbed.optimizer.views.explanation import explain_table
from interbed.optimizer.views.status import optimizer_status
from tests.optimizer.scheduling.measured import bucket, measurement
from tests.optimizer.scheduling.simulation import FIRST, Simulation, WriteLoad
from tests.support.tally import Tally

HOUR = 3_600
LOADS = {
    "db.busy": WriteLoad(rows=16, interval_millis=60_000),
    "db.slow": WriteLoad(rows=4, interval_millis=1_200_000),
    "db.full": WriteLoad(rows=8, interval_millis=300_000, options={"self-optimizing.full.trigger.interval": "3600000"}),
    "db.idle": WriteLoad(rows=8, interval_millis=10**12),
    "db.off": WriteLoad(rows=8, interval_millis=120_000, options={"self-optimizing.enabled": "false"}),
    "db.wide": WriteLoad(rows=8, interval_millis=30_000, buckets=3),
}
SETTINGS = SchedulerSettings(orphans_interval=7_200_000)


class RecordedSimulation(Simulation):
    """A simulation that records each process that has ended."""

    def __init__(self) -> None:
        self.record: list[Process] = []
        super().__init__(LOADS, {"default": ResourceGroup()}, settings=SETTINGS, seed=3)

    def _record(self, process: Process) -> None:
        super()._record(process)
        self.record.append(process)

    def of(self, table: str) -> list[Process]:
        """Return the ended processes of a table, newest first."""
        return [process for process in reversed(self.record) if process.table == table]


def last_done(processes: Sequence[Process], kind: WorkKind) -> int | None:
    """Return the time of the last work of this kind, or of a wider compaction. `processes` are ordered newest first."""
    ended = [p.ended_millis for p in processes if p.state is ProcessState.SUCCEEDED and p.kind.covers(kind)]
    return ended[0] if ended else None


def check(simulation: RecordedSimulation) -> int:
    """Compare all shown values with the record; return the number of compared values."""
    now, compared = simulation.now, 0
    status = optimizer_status(simulation.journal, now)
    assert {line.state.name for line in status.tables} == set(LOADS)
    for line in status.tables:
        name, state = line.state.name, line.state
        past = simulation.of(name)
        running = [p for p in simulation.scheduler.processes() if p.table == name]
        shown = simulation.journal.processes(name, limit=10_000)
        assert [p.id for p in shown if p.ended_millis is not None] == [p.id for p in past]
        assert [p.id for p in shown if p.ended_millis is None] == [p.id for p in running]
        summary = state.summary
        if summary is None:
            assert (line.doing, past) == ("not measured yet", [])
            continue
        assert line.doing.startswith("running ") == bool(running)
        if line.doing == "in shape":
            assert (summary.score >= IN_SHAPE_SCORE, state.needs) == (True, ())
        if line.doing == "nothing is due":
            assert summary.score < IN_SHAPE_SCORE
            assert line.reason, "a low score is explained"
        if not state.enabled:
            assert (line.doing, past) == ("disabled", [])
        explained = explain_table(simulation.journal, simulation, name, SETTINGS, now)
        for kind in explained.kinds:
            assert kind.last_millis == last_done(past, kind.kind), (name, kind.kind)
            if kind.need is not None and " ago" in kind.need.reason:
                assert last_done(past, kind.kind) is not None or kind.kind is WorkKind.FULL, kind.need.reason
            if kind.need is not None and kind.need.reason.startswith("never done"):
                assert last_done(past, kind.kind) is None
            if kind.is_settled:
                assert last_done(past, kind.kind) is not None
            compared += 1
        assert [p.id for p in explained.processes] == [p.id for p in shown[:5]]
        compared += 4
    return compared


def test_shown_values_match_the_processes_that_ran(tally: Tally) -> None:
    simulation = RecordedSimulation()
    simulation.worker(2)
    simulation.run(1)
    compared = check(simulation)
    assert not simulation.record, "tables that were seen a second ago have no past"
    for _ in range(4 * 12):
        simulation.run(HOUR // 12)
        compared += check(simulation)
    assert {process.kind for process in simulation.record} >= {WorkKind.MINOR, WorkKind.FULL, WorkKind.ORPHANS}
    tally("statements of status, why and history held against what happened", compared)


def test_a_table_seen_for_the_first_time_has_no_history() -> None:
    board = TableBoard([], SETTINGS)
    board.changed(["db.new"])
    state = board.measured("db.new", measurement(bucket(level0_files=3)), FIRST)
    assert state is not None
    assert (dict(state.last), set(state.counted_from)) == ({}, {WorkKind.MINOR, WorkKind.ORPHANS})
    # The first intervals remain spread over time: they do not expire for all tables at once.
    assert all(0 <= FIRST - at < 7_200_000 for at in state.counted_from.values())
    assert TableState.from_json(state.to_json()) == state


def test_a_state_of_an_earlier_version_is_read() -> None:
    value = TableState(name="db.t").to_json()
    del value["counted_from"]
    assert TableState.from_json(value) == TableState(name="db.t")


@pytest.mark.parametrize(("runs", "doing"), [(1, "in shape"), (5, "nothing is due")])
def test_a_table_with_a_low_score_is_not_reported_as_in_shape(runs: int, doing: str) -> None:
    from interbed.optimizer.views.status import TableStatus

    board = TableBoard([], SETTINGS)
    board.changed(["db.t"])
    state = board.measured("db.t", measurement(bucket(runs=runs, files=runs)), FIRST)
    assert state is not None
    line = TableStatus(state=state, running=None, now_millis=FIRST)
    assert line.doing == doing
    assert bool(line.reason) == (doing == "nothing is due")
