"""Automatic tags: the tagged snapshots, the names, and the expiry of tags."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import interbed
from interbed.storage.base.errors import InvalidOptionError
from interbed.storage.commit.file_store_commit import FileStoreCommit
from interbed.storage.meta.options.version import CreationPeriod, PeriodFormatter, TagPeriod
from interbed.storage.table.table import Table

SCHEMA = pa.schema((pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.int64())))
HOUR = 3_600_000
NewTable = Callable[..., Table]


@pytest.fixture
def new_table(tmp_path: Path) -> NewTable:
    """Creates a table whose tags follow watermarks, but without tags after commits, with additional options."""
    catalog = interbed.load_catalog("lake", warehouse=str(tmp_path))
    catalog.create_database("d")

    def make(**options: str) -> Table:
        given = {"bucket": "1", "write-only": "true", "tag.automatic-creation": "watermark"}
        chosen = {**given, **{key.replace("_", "-"): value for key, value in options.items()}}
        names = {"creation-period": "tag.creation-period", "num-retained-max": "tag.num-retained-max"}
        renamed = {names.get(key, key): value for key, value in chosen.items()}
        return catalog.create_table("d.t", SCHEMA, primary_keys=["id"], options=renamed)

    return make


def commit_at(table: Table, *watermarks: int) -> None:
    """Commit one row for each watermark."""
    for number, watermark in enumerate(watermarks):
        with table.new_write("user") as write:
            write.write_arrow(pa.table({"id": [number], "v": [number]}, schema=SCHEMA))
            messages = write.prepare_commit()
        FileStoreCommit(table.store, "user").commit(messages, identifier=watermark, watermark=watermark)


def tagged(table: Table) -> dict[str, int]:
    return {tag.name: tag.snapshot.id for tag in table.versions.tags()}


def test_the_first_snapshot_after_each_period_is_tagged_with_its_name(new_table: NewTable) -> None:
    table = new_table(creation_period="hourly")
    commit_at(table, 10 * HOUR, 10 * HOUR + 1, 11 * HOUR - 1, 11 * HOUR, 15 * HOUR + 5)
    assert table.versions.create_automatic_tags() == ["1970-01-01 09", "1970-01-01 10", "1970-01-01 14"]
    assert tagged(table) == {"1970-01-01 09": 1, "1970-01-01 10": 4, "1970-01-01 14": 5}
    assert table.versions.create_automatic_tags() == []
    commit_at(table, 16 * HOUR)
    assert table.versions.create_automatic_tags() == ["1970-01-01 15"]


def test_a_delay_waits_for_late_rows_and_completion_fills_missing_periods(new_table: NewTable) -> None:
    table = new_table(creation_period="hourly").copy({"tag.creation-delay": "10 min"})
    commit_at(table, 10 * HOUR, 11 * HOUR, 11 * HOUR + HOUR // 6, 14 * HOUR)
    delayed = table.copy({"tag.automatic-completion": "true", "tag.create-success-file": "true"})
    delayed.versions.create_automatic_tags()
    assert tagged(table) == {"1970-01-01 09": 1, "1970-01-01 10": 3, "1970-01-01 11": 4}
    success = Path(table.location.removeprefix("file:")) / "tag" / "tag-success-file"
    assert {file.name for file in success.iterdir()} == {f"{name}_SUCCESS" for name in tagged(table)}
    delayed.versions.delete_tag("1970-01-01 09")
    assert len(list(success.iterdir())) == 2


@pytest.mark.parametrize("watermark", [2**63 - 1, 1_800_000_000_000_000, 253_402_300_800_000])
def test_a_watermark_that_is_no_time_makes_no_tag_and_no_error(
    new_table: NewTable, watermark: int, caplog: pytest.LogCaptureFixture
) -> None:
    table = new_table(write_only="false", creation_period="hourly")
    commit_at(table, -(2**63), 10 * HOUR, watermark)
    table.upsert([{"id": 9, "v": 9}])
    assert tagged(table) == {"1970-01-01 09": 2}
    assert table.count() == 4
    assert f"its watermark {watermark}, in milliseconds, is no time" in caplog.text


def test_the_oldest_automatic_tags_expire_and_other_tags_are_kept(new_table: NewTable) -> None:
    table = new_table(creation_period="hourly", num_retained_max="2")
    commit_at(table, *(hour * HOUR for hour in range(10, 14)))
    table.versions.create_tag("mine", 1)
    table.versions.create_automatic_tags()
    assert tagged(table) == {"mine": 1, "1970-01-01 11": 3, "1970-01-01 12": 4}


def test_commits_create_tags_and_batch_jobs_tag_by_day(tmp_path: Path) -> None:
    catalog = interbed.load_catalog("lake", warehouse=str(tmp_path))
    catalog.create_database("d")
    options = {"bucket": "1", "tag.automatic-creation": "batch", "sink.process-time-zone": "UTC"}
    table = catalog.create_table("d.t", SCHEMA, primary_keys=["id"], options=options)
    for value in range(2):
        table.upsert(pa.table({"id": [1], "v": [value]}, schema=SCHEMA))
    (tag,) = table.versions.tags()
    assert tag.snapshot.id == 2
    day = datetime.fromtimestamp(tag.snapshot.time_millis / 1000, UTC)
    assert tag.name == f"batch-write-{day:%Y-%m-%d}"
    named = table.copy({"tag.batch.customized-name": "newest", "tag.num-retained-max": "1"})
    named.upsert(pa.table({"id": [1], "v": [9]}, schema=SCHEMA))
    assert tagged(table) == {"newest": 3}


def test_invalid_options_are_refused(new_table: NewTable) -> None:
    table = new_table(creation_period="hourly")
    for key, value in (
        ("tag.creation-delay", "1 h"),
        ("tag.creation-period", "weekly"),
        ("sink.watermark-time-zone", "Mars/Olympus"),
    ):
        commit_at(table, HOUR)
        with pytest.raises(InvalidOptionError, match=key):
            table.copy({key: value}).versions.create_automatic_tags()
    assert table.versions.tags() == []


@given(
    moment=st.datetimes(datetime(1971, 1, 1), datetime(2999, 1, 1)),
    period=st.sampled_from(CreationPeriod),
    formatter=st.sampled_from(PeriodFormatter),
    length=st.none() | st.sampled_from([timedelta(minutes=5), timedelta(minutes=30), timedelta(days=7)]),
)
def test_the_period_of_a_tag_can_be_parsed_from_its_name(
    moment: datetime, period: CreationPeriod, formatter: PeriodFormatter, length: timedelta | None
) -> None:
    chosen = TagPeriod.of(period, formatter, length)
    begin = chosen.last_closed(moment)
    assert begin + chosen.length <= moment < begin + 2 * chosen.length
    assert chosen.begin_of(chosen.name_of(begin)) == begin
    assert chosen.begin_of("mine") is None
