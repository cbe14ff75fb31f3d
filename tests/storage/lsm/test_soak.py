"""Many small commits with compaction in the background; `python -m tests.benchmarks.soak` runs for long."""

from pathlib import Path

import pytest

from interbed.storage.scan.live_files import restore_buckets
from tests.benchmarks.soak import KEPT_SNAPSHOTS, new_table, soak
from tests.support.shares import each_run


@pytest.mark.long
@pytest.mark.parametrize(
    "options",
    each_run([{}, {"changelog-producer": "lookup"}, {"deletion-vectors.enabled": "true"}], lambda options: not options),
    ids=["plain", "lookup", "dv"],
)
def test_runs_and_files_stay_bounded_over_many_small_commits(tmp_path: Path, options: dict[str, str]) -> None:
    table = new_table(tmp_path, **options)
    # Every sample checks the rows.
    points = soak(table, keys=5_000, rows=50, commits=60, points=6)
    assert [p.commits for p in points] == [10, 20, 30, 40, 50, 60]
    trigger, stop = table.options.compaction_trigger, table.options.stop_trigger
    # A writer that is faster than its compactions waits for them.
    assert max(p.runs for p in points) <= stop + 2
    # Two buckets; each run with so few rows is one file.
    assert max(p.live_files for p in points) <= 2 * (stop + 2)
    # An expiry every KEPT_SNAPSHOTS commits keeps the files of as many commits: data, changelog, manifests, snapshots.
    assert max(p.files_on_disk for p in points) < KEPT_SNAPSHOTS * 2 * 2 * 12
    table.compact(full=False)
    restored = restore_buckets(table.store)
    assert all(len(restored.files(place)) <= trigger for place in restored.buckets())
    table.compact(full=True)
    table.maintenance.expire_snapshots(retain_max=1, retain_min=1, older_than="2100-01-01 00:00:00")
    restored = restore_buckets(table.store)
    live = {f.file_name for place in restored.buckets() for f in restored.files(place)}
    assert {p.name for p in Path(table.location).glob("bucket-*/data-*")} == live
    assert len(live) == 2
