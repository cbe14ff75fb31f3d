"""State of tables in the scheduler: when tables are measured, which of them wait, and what is recorded of them."""

from collections import Counter

from interbed.optimizer.flow.process import WorkKind
from interbed.optimizer.flow.tables import TableState
from interbed.optimizer.scheduling.needs import SchedulerSettings
from interbed.optimizer.scheduling.table_queues import TableBoard
from tests.optimizer.scheduling.measured import measurement, runs

SETTINGS = SchedulerSettings()
DAY = 86_400_000
FIRST = 1_000_000


def board(*names: str) -> TableBoard:
    """Return a board of tables that are known but not measured."""
    made = TableBoard((), SETTINGS)
    made.changed(names)
    return made


def waiting(tables: TableBoard, group: str = "default") -> list[str]:
    """Return the names of the waiting tables, sorted."""
    return sorted(state.name for state in tables.waiting(group))


def make_due(tables: TableBoard, name: str = "t", now: int = FIRST) -> None:
    """Record a measurement by which the table needs a compaction."""
    tables.measured(name, runs(9), now)


def test_changed_tables_are_measured_once_in_order_and_a_limited_number_at_once() -> None:
    tables = TableBoard((), SchedulerSettings(measured_at_once=2))
    tables.changed(["c", "a", "b"])
    tables.changed(["a"])
    assert tables.take_unmeasured(FIRST) == ["c", "a"]
    assert tables.take_unmeasured(FIRST) == ["b"]
    assert tables.take_unmeasured(FIRST) == []


def test_a_table_is_measured_again_when_work_may_have_become_due() -> None:
    tables = board("t")
    assert tables.take_unmeasured(FIRST) == ["t"]
    tables.measured("t", measurement(), FIRST)
    due_at = tables["t"].next_check_millis
    assert due_at is not None
    assert tables.take_unmeasured(due_at - 1) == []
    assert tables.take_unmeasured(due_at) == ["t"]
    assert tables.take_unmeasured(due_at) == []


def test_first_intervals_of_tables_that_appear_together_are_spread_over_time() -> None:
    names = [f"shop.t{number}" for number in range(1_000)]
    tables = board(*names)
    for name in names:
        tables.measured(name, measurement(), FIRST)
    due_at = [tables[name].next_check_millis for name in names]
    by_tenth = Counter((at - FIRST - 1) * 10 // DAY for at in due_at if at is not None)
    assert sorted(by_tenth) == list(range(10))
    assert max(by_tenth.values()) < 150


def test_a_check_that_became_due_without_a_scheduler_is_made_later() -> None:
    tables = TableBoard([TableState(name="t", next_check_millis=FIRST)], SETTINGS)
    assert tables.take_unmeasured(FIRST + DAY) == ["t"]
    assert tables.take_unmeasured(FIRST + DAY) == []


def test_timers_do_not_accumulate_with_repeated_measurements() -> None:
    tables = board("t")
    for second in range(1_000):
        tables.measured("t", measurement(snapshot_id=second), FIRST + second * 1_000)
    assert len(tables._timers) < 5
    assert tables.take_unmeasured(FIRST + 2 * DAY) == ["t"]


def test_a_table_waits_in_the_queue_of_its_group_while_work_is_due() -> None:
    tables = board("t")
    assert waiting(tables) == []
    make_due(tables)
    assert waiting(tables) == ["t"]
    tables.measured("t", runs(9, options={"self-optimizing.group": "other"}), FIRST)
    assert (waiting(tables), waiting(tables, "other")) == ([], ["t"])
    tables.measured("t", runs(2), FIRST)
    assert (waiting(tables), waiting(tables, "other")) == ([], [])


def test_a_table_with_a_process_is_not_queued_until_that_has_ended() -> None:
    tables = board("t")
    make_due(tables)
    assert tables.begin("t", FIRST).kind is WorkKind.MINOR
    make_due(tables)
    assert waiting(tables) == []
    tables.succeeded("t", WorkKind.MINOR, 2, FIRST)
    assert waiting(tables) == []
    tables.measured("t", runs(9, snapshot_id=3), FIRST)
    assert waiting(tables) == ["t"]


def test_failures_delay_a_table_by_a_doubling_back_off_up_to_a_maximum() -> None:
    tables, now = board("t"), FIRST
    make_due(tables)
    for failure in range(10):
        tables.begin("t", now)
        tables.failed("t", now, gave_way=False)
        pause = min(SETTINGS.pause_first * 2**failure, SETTINGS.pause_most)
        make_due(tables, now=now)
        tables.take_unmeasured(now + pause - 1)
        assert waiting(tables) == []
        now += pause
        tables.take_unmeasured(now)
        assert waiting(tables) == ["t"]
    assert tables["t"].failures == 10


def test_a_table_whose_commit_gave_way_waits_only_for_a_short_pause() -> None:
    tables = board("t")
    make_due(tables)
    tables.begin("t", FIRST)
    tables.failed("t", FIRST, gave_way=True)
    tables.take_unmeasured(FIRST + SETTINGS.pause_gave_way)
    assert waiting(tables) == ["t"]


def test_a_table_that_cannot_be_measured_is_retried_after_a_pause() -> None:
    tables = board("t")
    make_due(tables)
    tables.take_unmeasured(FIRST)
    tables.unreadable("t", "the disk is gone", FIRST)
    assert (waiting(tables), tables["t"].unreadable) == ([], "the disk is gone")
    assert tables.take_unmeasured(FIRST + SETTINGS.pause_first - 1) == []
    assert tables.take_unmeasured(FIRST + SETTINGS.pause_first) == ["t"]
    make_due(tables, now=FIRST + SETTINGS.pause_first)
    assert (waiting(tables), tables["t"].unreadable) == (["t"], None)


def test_changed_states_are_returned_once_for_the_journal() -> None:
    tables = board("t", "u")
    assert [state.name for state in tables.take_changed()] == ["t", "u"]
    make_due(tables)
    assert [state.name for state in tables.take_changed()] == ["t"]
    assert tables.take_changed() == []
    make_due(tables)
    assert tables.removed("t")
    assert tables.take_changed() == []
    assert not tables.removed("t")
