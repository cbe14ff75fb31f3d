"""Needs of a table: each kind of work by each of its triggers, since when it is due, and the time of the next check."""

from collections.abc import Mapping
from typing import Any

import pytest

from interbed.optimizer.flow.process import WorkKind, WorkNeed
from interbed.optimizer.flow.tables import TableMeasurement, TableState
from interbed.optimizer.scheduling.needs import DueWork, SchedulerSettings, in_order, needs_of
from interbed.storage.meta.paths import POSTPONE_BUCKET
from tests.optimizer.scheduling.measured import bucket, measurement, runs

NOW = 10_000_000_000
HOUR = 3_600_000
SETTINGS = SchedulerSettings(orphans_interval=None)
TRIGGER = "num-sorted-run.compaction-trigger"


def decided(found: TableMeasurement, settings: SchedulerSettings = SETTINGS, now: int = NOW, **state: Any) -> DueWork:
    """Return the due work of a table in that state."""
    return needs_of(TableState(name="t", **state), found, settings, now)


def only(found: TableMeasurement, **state: Any) -> WorkNeed:
    """Return the only need of a table."""
    [need] = decided(found, **state).needs
    return need


def fresh(files: int, **options: str) -> TableMeasurement:
    """Return a table with a primary key and files of level 0, too few sorted runs for a compaction by themselves."""
    return measurement(
        bucket(runs=4, level0_files=files), options={key.replace("_", "-"): v for key, v in options.items()}
    )


def small(files: int, options: Mapping[str, str] | None = None) -> TableMeasurement:
    """Return an append table with this number of small files."""
    return measurement(bucket(files=files, small_files=files), keyed=False, options=options)


def test_a_disabled_or_empty_table_needs_no_work() -> None:
    nothing = DueWork(needs=(), next_check_millis=None)
    assert decided(runs(99, options={"self-optimizing.enabled": "false"})) == nothing
    assert decided(measurement(snapshot_id=None)) == nothing


@pytest.mark.parametrize(
    ("count", "options", "trigger"), [(6, {}, "5"), (4, {TRIGGER: "3"}, "3"), (6, {TRIGGER: "x"}, "5")]
)
def test_more_sorted_runs_than_the_trigger_need_a_minor_compaction(
    count: int, options: dict[str, str], trigger: str
) -> None:
    need = only(runs(count, options=options))
    assert (need.kind, need.due_millis, need.options) == (WorkKind.MINOR, NOW, {TRIGGER: trigger})
    assert need.reason == f"{count} sorted runs > {trigger}"
    assert decided(runs(count - 1, options=options)).needs == ()


@pytest.mark.parametrize(("bound", "most"), [("3.9", 3), ("1", 1), ("1.5", 1), ("50", 5)])
def test_a_limit_of_read_amplification_lowers_the_allowed_number_of_runs(bound: str, most: int) -> None:
    options = {"self-optimizing.max-read-amplification": bound}
    assert decided(runs(most, options=options)).needs == ()
    assert only(runs(most + 1, options=options)).options == {TRIGGER: str(most)}


def test_postponed_rows_need_to_be_moved_to_their_buckets() -> None:
    need = only(measurement(bucket(), bucket(bucket=POSTPONE_BUCKET, files=3)))
    assert (need.kind, need.reason) == (WorkKind.MINOR, "3 file(s) of rows that wait for their buckets")


@pytest.mark.parametrize("option", [("deletion-vectors.enabled", "true"), ("merge-engine", "first-row")])
def test_level_0_is_compacted_at_once_if_readers_skip_it(option: tuple[str, str]) -> None:
    options = dict([option])
    assert "not read before" in only(measurement(bucket(runs=2, level0_files=1), options=options)).reason
    assert decided(measurement(bucket(runs=2), options=options)).needs == ()


def test_many_files_of_level_0_are_merged_whatever_the_run_trigger() -> None:
    assert decided(fresh(11)).needs == ()
    assert only(fresh(12)).options == {TRIGGER: "2"}


def test_many_small_files_of_an_append_table_are_joined() -> None:
    assert decided(small(11)).needs == ()
    assert only(small(12)).options == {"compaction.min.file-num": "2"}
    assert decided(small(2, {"self-optimizing.minor.trigger.file-count": "2"})).needs != ()


@pytest.mark.parametrize(("found", "least"), [(fresh, 1), (small, 2)])
def test_a_few_files_are_merged_after_the_minor_interval(found: Any, least: int) -> None:
    last = {WorkKind.MINOR: NOW - HOUR + 1}
    early = decided(found(least), last=last)
    assert (early.needs, early.next_check_millis) == ((), NOW + 1)
    assert only(found(least), last={WorkKind.MINOR: NOW - HOUR}).reason == "last 3600 s ago, due every 3600 s"
    fewer = decided(found(least - 1), last={WorkKind.MINOR: 0})
    assert (fewer.needs, fewer.next_check_millis) == ((), None)
    settled = decided(found(least), last={WorkKind.MINOR: 0}, settled={WorkKind.MINOR: 1})
    assert (settled.needs, settled.next_check_millis) == ((), None)


def test_an_interval_of_minus_one_disables_the_trigger() -> None:
    found = measurement(bucket(runs=2, level0_files=1), options={"self-optimizing.minor.trigger.interval": "-1"})
    assert decided(found, last={WorkKind.MINOR: 0}) == DueWork(needs=(), next_check_millis=None)


def test_a_bucket_with_too_many_deleted_rows_is_rewritten() -> None:
    assert decided(measurement(bucket(delete_ratio=0.09), bucket(delete_ratio=0.01))).needs == ()
    assert only(measurement(bucket(), bucket(delete_ratio=0.1))).kind is WorkKind.MAJOR
    always = {"self-optimizing.major.trigger.duplicate-ratio": "0"}
    assert decided(measurement(bucket(), options=always)).needs == ()
    assert only(measurement(bucket(delete_ratio=0.001), options=always)).kind is WorkKind.MAJOR


def test_a_full_compaction_is_due_an_interval_after_the_last_one_of_any_process() -> None:
    options = {"self-optimizing.full.trigger.interval": "1 h"}
    need = only(measurement(bucket(), options=options))
    assert (need.kind, need.options) == (WorkKind.FULL, {"compaction.force-rewrite-all-files": "true"})
    gentle = measurement(bucket(), options={**options, "self-optimizing.full.rewrite-all-files": "false"})
    assert only(gentle).options == {}
    by_a_writer = decided(measurement(bucket(last_full_millis=NOW - 1), options=options), last={WorkKind.FULL: 0})
    assert (by_a_writer.needs, by_a_writer.next_check_millis) == ((), NOW - 1 + HOUR)
    by_us = decided(measurement(bucket(last_full_millis=0), options=options), last={WorkKind.FULL: NOW - HOUR + 5})
    assert (by_us.needs, by_us.next_check_millis) == ((), NOW + 5)
    assert only(measurement(bucket(), options=options), last={WorkKind.FULL: NOW - HOUR}).kind is WorkKind.FULL
    assert decided(measurement(bucket(files=0), options=options)).needs == ()


def test_snapshots_expire_at_most_once_in_an_interval() -> None:
    interval = SETTINGS.expire_interval
    assert only(measurement(bucket(), snapshots=9, snapshots_due=3)).reason == "3 of 9 snapshots have expired"
    early = decided(measurement(snapshots=9, snapshots_due=3), last={WorkKind.EXPIRE: NOW - interval + 1})
    assert (early.needs, early.next_check_millis) == ((), NOW + 1)
    late = only(
        measurement(snapshots=9, snapshots_due=3), last={WorkKind.EXPIRE: NOW - interval}, settled={WorkKind.EXPIRE: 1}
    )
    assert late.kind is WorkKind.EXPIRE


def test_an_idle_table_is_checked_again_when_its_oldest_snapshot_expires() -> None:
    interval = SETTINGS.expire_interval
    assert decided(measurement(snapshots=9, next_expiry=NOW + HOUR)).next_check_millis == NOW + HOUR + 1
    assert decided(measurement(snapshots=9, next_expiry=NOW - HOUR)).next_check_millis == NOW + interval
    assert decided(measurement(snapshots=9)).next_check_millis is None


@pytest.mark.parametrize("key", ["partition.expiration-time", "tag.automatic-creation", "consumer.expiration-time"])
def test_other_expirations_are_due_in_the_same_interval(key: str) -> None:
    need = only(measurement(options={key: "1 d"}))
    assert (need.kind, need.reason) == (WorkKind.EXPIRE, f"due every 600 s for {key}")
    assert decided(measurement(options={key: "none"})).needs == ()


def test_orphan_removal_is_due_an_interval_after_the_table_was_first_seen() -> None:
    day = 86_400_000
    settings = SchedulerSettings()
    early = decided(measurement(), settings, last={WorkKind.ORPHANS: NOW - day + 7})
    assert (early.needs, early.next_check_millis) == ((), NOW + 7)
    [need] = decided(measurement(), settings, last={WorkKind.ORPHANS: NOW - day}, settled={WorkKind.ORPHANS: 1}).needs
    assert need.kind is WorkKind.ORPHANS
    assert decided(measurement(), SETTINGS, last={WorkKind.ORPHANS: 0}) == DueWork(needs=(), next_check_millis=None)


def test_manifests_and_statistics_are_due_by_the_figures_of_the_table() -> None:
    assert only(measurement(manifests_due=1)).kind is WorkKind.MANIFESTS
    assert decided(measurement(statistics=(100, 10))).needs == ()
    assert only(measurement(statistics=(100, 11))).kind is WorkKind.ANALYZE


@pytest.mark.parametrize(
    ("kind", "found"),
    [
        (WorkKind.MINOR, runs(9)),
        (WorkKind.MAJOR, measurement(bucket(delete_ratio=0.5))),
        (WorkKind.FULL, measurement(bucket(), options={"self-optimizing.full.trigger.interval": "1 h"})),
        (WorkKind.MANIFESTS, measurement(manifests_due=1)),
        (WorkKind.ANALYZE, measurement(statistics=(1, 1))),
    ],
)
def test_work_settled_at_the_newest_snapshot_is_not_due(kind: WorkKind, found: TableMeasurement) -> None:
    assert only(found, settled={kind: 2}).kind is kind
    assert decided(found, settled={kind: 1}).needs == ()


def test_work_that_was_due_before_keeps_its_due_time() -> None:
    before = WorkNeed(kind=WorkKind.MINOR, reason="", due_millis=NOW - 5)
    assert only(runs(9), needs=(before,)).due_millis == NOW - 5
    assert only(measurement(manifests_due=1), needs=(before,)).due_millis == NOW


def test_a_wider_compaction_keeps_the_due_time_of_the_one_it_replaces() -> None:
    before = WorkNeed(kind=WorkKind.MINOR, reason="", due_millis=NOW - 5)
    need = only(measurement(bucket(runs=9, delete_ratio=0.5)), needs=(before,))
    assert (need.kind, need.due_millis) == (WorkKind.MAJOR, NOW - 5)


def test_only_the_widest_due_compaction_is_done() -> None:
    found = measurement(
        bucket(runs=9, delete_ratio=0.5), options={"self-optimizing.full.trigger.interval": "1 h"}, manifests_due=1
    )
    assert [need.kind for need in decided(found).needs] == [WorkKind.FULL, WorkKind.MANIFESTS]


def test_maintenance_precedes_a_compaction_due_ten_minutes_later() -> None:
    compaction = WorkNeed(kind=WorkKind.MINOR, reason="", due_millis=NOW)
    later = WorkNeed(kind=WorkKind.EXPIRE, reason="", due_millis=NOW - 599_999)
    earlier = WorkNeed(kind=WorkKind.EXPIRE, reason="", due_millis=NOW - 600_001)
    assert in_order([later, compaction]) == [compaction, later]
    assert in_order([compaction, earlier]) == [earlier, compaction]


def test_compactions_write_files_of_the_configured_size() -> None:
    need = only(runs(9, options={"self-optimizing.target-size": "64 mb"}))
    assert need.options["target-file-size"] == f"{64 << 20} b"
    upkeep = only(measurement(manifests_due=1, options={"self-optimizing.target-size": "64 mb"}))
    assert upkeep.options == {}
