"""A stream warns of overwrites that it does not return, and names the way to get their changes."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from interbed.storage.base.errors import InvalidOptionError
from interbed.storage.table.table import Table
from tests.storage.views.stream.test_stream_scan import create, row, rows

PRODUCERS = ["none", "input", "lookup", "full-compaction"]


def _overwritten(warehouse: Path, producer: str) -> tuple[Table, int]:
    """A table with the rows 0 to 2, all of which except 0 an overwrite removes; and the snapshot of the overwrite."""
    table = create(warehouse, changelog_producer=producer)
    table.upsert(rows(0, 1, 2))
    table.compact()
    before = table.latest_snapshot()
    assert before is not None
    table.overwrite(rows(0, 5, v="new"))
    return table, before.id + 1


@pytest.mark.parametrize("producer", PRODUCERS)
def test_a_stream_warns_once_of_an_overwrite_that_it_does_not_return(
    tmp_path: Path, producer: str, caplog: pytest.LogCaptureFixture
) -> None:
    table, overwrite = _overwritten(tmp_path, producer)
    received: list[dict[str, Any]] = []
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            received = [change for c in table.stream(overwrite, idle_seconds=0) for change in c.to_arrow().to_pylist()]
    compacts = producer in ("lookup", "full-compaction")
    assert received == ([row(0, v="new"), row(5, v="new")] if compacts else [])
    found = [r.getMessage() for r in caplog.records if "does not report the deleted rows" in r.getMessage()]
    assert len(found) == 1
    assert f"Snapshot {overwrite} of {table.location} " in found[0]
    way_out = f"table.changes({overwrite}, {overwrite}, mode='diff')" if compacts else "'streaming-read-overwrite'"
    assert way_out in found[0]


@pytest.mark.parametrize("producer", PRODUCERS)
def test_the_read_that_the_warning_names_has_the_removed_rows(tmp_path: Path, producer: str) -> None:
    table, overwrite = _overwritten(tmp_path, producer)
    changed = table.changes(overwrite, overwrite, mode="diff").to_arrow().to_pylist()
    assert sorted(changed, key=lambda r: r["id"]) == [row(0, v="new"), row(1, 3), row(2, 3), row(5, v="new")]


@pytest.mark.parametrize("producer", ["none", "input"])
def test_overwrites_that_are_returned_or_replace_nothing_cause_no_warning(
    tmp_path: Path, producer: str, caplog: pytest.LogCaptureFixture
) -> None:
    table, overwrite = _overwritten(tmp_path / "received", producer)
    first = create(tmp_path / "first", changelog_producer=producer)
    first.overwrite(rows(1))
    with caplog.at_level(logging.WARNING):
        received = table.copy({"streaming-read-overwrite": "true"})
        assert [c.snapshot_id for c in received.stream(overwrite, idle_seconds=0)] == [overwrite]
        assert list(first.stream(1, idle_seconds=0)) == []
    assert "does not report" not in caplog.text


@pytest.mark.parametrize("producer", ["lookup", "full-compaction"])
def test_the_refusal_of_the_option_explains_what_streams_do_not_return(tmp_path: Path, producer: str) -> None:
    table = create(tmp_path, changelog_producer=producer)
    with pytest.raises(InvalidOptionError) as caught:
        table.copy({"streaming-read-overwrite": "true"})
    assert f"can't be combined with 'changelog-producer' = '{producer}'" in str(caught.value)
    assert "would come twice" in str(caught.value)
    assert "rows that an overwrite takes away are in no changelog" in str(caught.value)


def test_a_stream_warns_of_rows_written_with_another_changelog_producer(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table = create(tmp_path, changelog_producer="input")
    table.upsert(rows(0))
    table.copy({"changelog-producer": "none"}).upsert(rows(1))
    table.upsert(rows(2))
    with caplog.at_level(logging.WARNING):
        received = [change["id"] for c in table.stream(1, idle_seconds=0) for change in c.to_arrow().to_pylist()]
    assert received == [0, 2]
    [warned] = [r.getMessage() for r in caplog.records if "without a changelog" in r.getMessage()]
    assert f"Snapshot 2 of {table.location} " in warned
    assert "table.changes(2, 2, mode='diff')" in warned
    assert [change["id"] for change in table.changes(2, 2, mode="diff").to_arrow().to_pylist()] == [1]


@pytest.mark.parametrize("vectors", ["false", "true"])
@pytest.mark.parametrize("change", [lambda t: t.delete("id = 1"), lambda t: t.overwrite(rows(0, 5, v="new"))])
def test_a_stream_of_an_append_table_warns_of_changed_rows(
    tmp_path: Path, vectors: str, change: Callable[[Table], object], caplog: pytest.LogCaptureFixture
) -> None:
    table = create(tmp_path, keyed=False, **{"deletion-vectors__enabled": vectors})
    table.append(rows(0, 1, 2))
    change(table)
    table.append(rows(9))
    with caplog.at_level(logging.WARNING):
        received = [row["id"] for c in table.stream(1, idle_seconds=0) for row in c.to_arrow().to_pylist()]
    assert received == [0, 1, 2, 9]
    [warned] = [r.getMessage() for r in caplog.records if "does not report" in r.getMessage()]
    assert f"Snapshot 2 of {table.location} replaced files" in warned
    assert "the rows that it added, changed and deleted" in warned
    assert "'streaming-read-append-overwrite'" in warned
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        assert list(table.copy({"streaming-read-append-overwrite": "true"}).stream(2, idle_seconds=0))
    assert "does not report" not in caplog.text


@pytest.mark.parametrize("keyed", [True, False])
def test_the_changes_of_a_range_warn_of_overwrites_that_they_leave_out(
    tmp_path: Path, keyed: bool, caplog: pytest.LogCaptureFixture
) -> None:
    table = create(tmp_path, keyed=keyed)
    table.overwrite(rows(0))
    table.overwrite(rows(1))
    with caplog.at_level(logging.WARNING):
        assert table.changes(1, 2).to_arrow().num_rows == 0
    warned = [r.getMessage() for r in caplog.records if "leave those of overwrites out" in r.getMessage()]
    assert [text.split(" of ")[0] for text in warned] == ["Snapshot 1", "Snapshot 2"]
    assert ("table.changes(1, 1, mode='diff')" if keyed else "Read the version 1") in warned[0]
    assert ("table.changes(2, 2, mode='diff')" if keyed else "Compare the versions 1 and 2") in warned[1]


def test_a_read_of_changelogs_warns_of_rows_of_a_table_without_a_key(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table = create(tmp_path, keyed=False)
    table.append(rows(0))
    table.append(rows(1))
    options = {"incremental-between": "0,2", "incremental-between-scan-mode": "changelog"}
    for read in (lambda: table.changes(1, 2, mode="changelog"), lambda: table.copy(options).scan()):
        with caplog.at_level(logging.WARNING):
            assert read().to_arrow().num_rows == 0
    # The warning comes once for each snapshot.
    warned = [r.getMessage() for r in caplog.records if "has no changelog" in r.getMessage()]
    assert [text.split(" of ")[0] for text in warned] == ["Snapshot 1", "Snapshot 2"]
    assert "Read table.changes(2, 2)" in warned[1]
    assert table.changes(2, 2).to_arrow()["id"].to_pylist() == [1]


def test_a_read_of_changelogs_warns_of_snapshots_without(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    table = create(tmp_path, keyed=True)
    table.upsert(rows(0))
    table.upsert(rows(1))
    options = {"incremental-between": "0,2", "incremental-between-scan-mode": "changelog"}
    with caplog.at_level(logging.WARNING):
        assert table.copy(options).scan().count() == 0
    warned = [r.getMessage() for r in caplog.records if "without a changelog" in r.getMessage()]
    assert [text.split()[1] for text in warned] == ["1", "2"]
    assert "table.changes(1, 1, mode='diff')" in warned[0]
