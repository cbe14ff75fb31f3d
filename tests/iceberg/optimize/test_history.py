"""Reads as of a time after an expiry show the rows of that time, or fail: never those of an older snapshot."""

import datetime as dt
import random
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

import interbed
from interbed.iceberg.table import IcebergTable, load_iceberg_table
from interbed.storage.base.errors import InvalidInputError, SnapshotNotFoundError
from tests.iceberg.optimize.tables import InterruptedHome
from tests.support.waits import past_millisecond

SCHEMA = pa.schema([("id", pa.int64())])
States = list[tuple[int, list[int]]]


def _row(number: int) -> pa.Table:
    return pa.table({"id": [number]}, schema=SCHEMA)


def _now() -> int:
    return int(time.time() * 1000)


def _check(table: IcebergTable, states: States) -> int:
    """Compare the reads as of all times with the model; return the number of times that can be read."""
    readable = 0
    for at, rows in states:
        try:
            found = table.scan(timestamp=at).to_arrow().sort_by("id")["id"].to_pylist()
        except SnapshotNotFoundError:
            continue
        assert found == rows, (at, found, rows)
        readable += 1
    return readable


def test_a_tagged_snapshot_is_not_shown_for_the_time_of_expired_ones(theirs: SqlCatalog) -> None:
    table = theirs.create_table("n.t", SCHEMA)
    states: States = []
    for number in range(4):
        table.append(_row(number))
        states.append((past_millisecond(), list(range(number + 1))))
        if number == 0:
            table.manage_snapshots().create_tag(table.metadata.snapshots[0].snapshot_id, "first").commit()
            table.refresh()
    parent = table.metadata.snapshots[-1].parent_snapshot_id
    opened = interbed.IcebergTable("n.t", table)
    assert len(opened.expire_snapshots(older_than=_now()).snapshots) == 2
    after = interbed.IcebergTable("n.t", theirs.load_table("n.t"))
    assert _check(after, states) == 1
    assert after.scan(tag="first").count() == 1
    # The parent is gone, but incremental readers that have read up to it continue from its id.
    assert after.metadata.metadata.snapshots[-1].parent_snapshot_id == parent


@pytest.mark.parametrize("kind", ["tag", "branch"])
def test_an_expiry_keeps_a_snapshot_that_is_named_meanwhile(theirs: SqlCatalog, kind: str) -> None:
    table = theirs.create_table("n.t", SCHEMA)
    for number in range(3):
        table.append(_row(number))
    first = table.metadata.snapshots[0].snapshot_id

    def name_it() -> None:
        changed = theirs.load_table("n.t").manage_snapshots()
        (changed.create_tag if kind == "tag" else changed.create_branch)(first, "keep").commit()

    opened = interbed.IcebergTable("n.t", table)
    assert opened.home is not None
    opened.home = InterruptedHome(opened.home, name_it)
    assert first not in opened.expire_snapshots(older_than=_now()).snapshots
    found = theirs.load_table("n.t")
    assert found.refs()["keep"].snapshot_id == first
    assert found.scan(snapshot_id=first).to_arrow()["id"].to_pylist() == [0]
    assert found.scan().to_arrow().sort_by("id")["id"].to_pylist() == [0, 1, 2]


@pytest.mark.sample(1)
@pytest.mark.parametrize("seed", range(4))
def test_histories_with_rollbacks_and_branches_stay_true(theirs: SqlCatalog, seed: int) -> None:
    dice = random.Random(seed)
    table = theirs.create_table("n.t", SCHEMA)
    rows: dict[int, list[int]] = {}
    states: States = []
    for number in range(14):
        table = theirs.load_table("n.t")
        older = [s.snapshot_id for s in table.metadata.snapshots if s.snapshot_id in rows]
        step = dice.choice(["append", "append", "append", "rollback", "tag", "expire"])
        if step == "append" or not older:
            before = rows[table.metadata.current_snapshot_id] if table.metadata.current_snapshot_id else []
            table.append(_row(number))
            rows[theirs.load_table("n.t").metadata.current_snapshot_id or 0] = [*before, number]
        elif step == "rollback":
            table.manage_snapshots().set_current_snapshot(snapshot_id=dice.choice(older)).commit()
        elif step == "tag":
            table.manage_snapshots().create_tag(dice.choice(older), f"tag{number}").commit()
        else:
            opened = interbed.IcebergTable("n.t", table)
            opened.expire_snapshots(older_than=dice.choice(states)[0], retain_last=dice.choice([1, 3]))
        current = theirs.load_table("n.t")
        states.append((past_millisecond(), rows[current.metadata.current_snapshot_id or 0]))
        assert _check(interbed.IcebergTable("n.t", current), states) >= 1


def test_a_published_tag_is_not_shown_for_the_time_of_expired_snapshots(tmp_path: Path) -> None:
    catalog = interbed.load_catalog(warehouse=str(tmp_path))
    catalog.create_database("d")
    options = {"metadata.iceberg.storage": "table-location"}
    table = catalog.create_table("d.t", SCHEMA, options=options)
    states: States = []
    for number in range(4):
        table.append(_row(number))
        states.append((past_millisecond(), list(range(number + 1))))
        if number == 0:
            table.versions.create_tag("first")
    table.maintenance.expire_snapshots(retain_max=1, retain_min=1)
    for _ in range(2):
        published = load_iceberg_table(f"{tmp_path}/d.db/t")
        assert _check(published, states) >= 1
        assert published.scan(tag="first").count() == 1
        table.append(_row(9))


def test_times_are_texts_in_utc_and_anything_else_is_refused_by_value(theirs: SqlCatalog) -> None:
    table = theirs.create_table("n.t", SCHEMA)
    for number in range(2):
        table.append(_row(number))
    found = IcebergTable("n.t", table)
    for text in ("2999-01-01", "2999-01-01 12:00:00", "2999-01-01T12:00:00+05:00"):
        assert found.scan(timestamp=text).count() == 2
        assert len(found.expire_snapshots(older_than=text, dry_run=True).snapshots) == 1
    assert found.remove_orphan_files("2020-01-01").paths == ()
    wrong: list[Any] = ["tomorrow", "", True, 1.5, dt.date(2999, 1, 1)]
    for value in wrong:
        for call in (
            lambda given=value: found.scan(timestamp=given).count(),
            lambda given=value: found.expire_snapshots(older_than=given),
            lambda given=value: found.remove_orphan_files(given),
        ):
            with pytest.raises(InvalidInputError, match="Not a time"):
                call()
