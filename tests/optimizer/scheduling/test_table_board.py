"""Tables as the scheduler sees them: when they are measured, which of them wait, and what is noted of them."""

from collections import Counter

from interbed.optimizer.flow.process import WorkKind
from interbed.optimizer.flow.tables import TableState
from interbed.optimizer.scheduling.settings import SchedulerSettings
from interbed.optimizer.scheduling.table_board import TableBoard
from tests.optimizer.scheduling.measured import measurement, runs

SETTINGS = SchedulerSettings()
DAY = 86_400_000
FIRST = 1_000_000


def board(*names: str) -> TableBoard:
    """A board that has seen those tables, none of which was measured."""
    made = TableBoard((), SETTINGS)
    made.changed(names)
    return made


def line(tables: TableBoard, group: str = "default") -> list[str]:
    """Who waits."""
    return sorted(state.name for state in tables.waiting(group))


def due(tables: TableBoard, name: str = "t", now: int = FIRST) -> None:
    """The table is measured, and is to be compacted."""
    tables.measured(name, runs(9), now)


def test_tables_are_measured_once_in_the_order_in_which_they_changed_and_so_many_at_once() -> None:
    tables = TableBoard((), SchedulerSettings(measured_at_once=2))
    tables.changed(["c", "a", "b"])
    tables.changed(["a"])
    assert tables.take_unmeasured(FIRST) == ["c", "a"]
    assert tables.take_unmeasured(FIRST) == ["b"]
    assert tables.take_unmeasured(FIRST) == []


def test_a_table_is_measured_again_once_something_may_have_become_due() -> None:
    tables = board("t")
    assert tables.take_unmeasured(FIRST) == ["t"]
    tables.measured("t", measurement(), FIRST)
    due_at = tables["t"].next_check_millis
    assert due_at is not None
    assert tables.take_unmeasured(due_at - 1) == []
    assert tables.take_unmeasured(due_at) == ["t"]
    assert tables.take_unmeasured(due_at) == []


def test_the_intervals_of_tables_that_are_seen_first_at_once_run_out_one_after_the_other() -> None:
    names = [f"shop.t{number}" for number in range(1_000)]
    tables = board(*names)
    for name in names:
        tables.measured(name, measurement(), FIRST)
    due_at = [tables[name].next_check_millis for name in names]
    by_tenth = Counter((at - FIRST - 1) * 10 // DAY for at in due_at if at is not None)
    assert sorted(by_tenth) == list(range(10))
    assert max(by_tenth.values()) < 150


def test_a_check_that_fell_due_while_nobody_scheduled_is_made_up_for() -> None:
    tables = TableBoard([TableState(name="t", next_check_millis=FIRST)], SETTINGS)
    assert tables.take_unmeasured(FIRST + DAY) == ["t"]
    assert tables.take_unmeasured(FIRST + DAY) == []


def test_timers_do_not_pile_up_however_often_a_table_is_measured() -> None:
    tables = board("t")
    for second in range(1_000):
        tables.measured("t", measurement(snapshot_id=second), FIRST + second * 1_000)
    assert len(tables._timers) < 5
    assert tables.take_unmeasured(FIRST + 2 * DAY) == ["t"]


def test_a_table_waits_in_the_line_of_its_group_while_something_is_due() -> None:
    tables = board("t")
    assert line(tables) == []
    due(tables)
    assert line(tables) == ["t"]
    tables.measured("t", runs(9, options={"self-optimizing.group": "other"}), FIRST)
    assert (line(tables), line(tables, "other")) == ([], ["t"])
    tables.measured("t", runs(2), FIRST)
    assert (line(tables), line(tables, "other")) == ([], [])


def test_a_table_with_a_process_does_not_wait_until_that_has_ended() -> None:
    tables = board("t")
    due(tables)
    assert tables.begin("t", FIRST).kind is WorkKind.MINOR
    due(tables)
    assert line(tables) == []
    tables.succeeded("t", WorkKind.MINOR, 2, FIRST)
    assert line(tables) == []
    tables.measured("t", runs(9, snapshot_id=3), FIRST)
    assert line(tables) == ["t"]


def test_a_table_is_left_alone_after_failures_twice_as_long_each_time_and_no_longer_than_the_most() -> None:
    tables, now = board("t"), FIRST
    due(tables)
    for failure in range(10):
        tables.begin("t", now)
        tables.failed("t", now, gave_way=False)
        pause = min(SETTINGS.pause_first * 2**failure, SETTINGS.pause_most)
        due(tables, now=now)
        tables.take_unmeasured(now + pause - 1)
        assert line(tables) == []
        now += pause
        tables.take_unmeasured(now)
        assert line(tables) == ["t"]
    assert tables["t"].failures == 10


def test_a_table_that_gave_way_waits_for_a_moment_only() -> None:
    tables = board("t")
    due(tables)
    tables.begin("t", FIRST)
    tables.failed("t", FIRST, gave_way=True)
    tables.take_unmeasured(FIRST + SETTINGS.pause_gave_way)
    assert line(tables) == ["t"]


def test_a_table_that_cannot_be_measured_is_tried_again_after_a_pause() -> None:
    tables = board("t")
    due(tables)
    tables.take_unmeasured(FIRST)
    tables.unreadable("t", "the disk is gone", FIRST)
    assert (line(tables), tables["t"].unreadable) == ([], "the disk is gone")
    assert tables.take_unmeasured(FIRST + SETTINGS.pause_first - 1) == []
    assert tables.take_unmeasured(FIRST + SETTINGS.pause_first) == ["t"]
    due(tables, now=FIRST + SETTINGS.pause_first)
    assert (line(tables), tables["t"].unreadable) == (["t"], None)


def test_what_changed_is_given_once_for_the_journal() -> None:
    tables = board("t", "u")
    assert [state.name for state in tables.take_changed()] == ["t", "u"]
    due(tables)
    assert [state.name for state in tables.take_changed()] == ["t"]
    assert tables.take_changed() == []
    due(tables)
    assert tables.removed("t")
    assert tables.take_changed() == []
    assert not tables.removed("t")
