"""The health of real tables: the effects of writes, deletions and expiry, and that a compaction restores it."""

import shutil
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest

import interbed
from interbed.storage.base.clock import now_millis
from interbed.storage.lsm.compact.manager import CompactionPlanner
from interbed.storage.meta.manifest import manifest_file
from interbed.storage.meta.manifest.entry import ManifestEntry
from interbed.storage.scan import manifest_reader
from interbed.storage.scan.live_files import restore_buckets
from interbed.storage.table.table import Table
from interbed.storage.upkeep.health import TableHealth, table_health

SCHEMA = pa.schema((pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.int64())))
DAY = 86_400_000
OPTIONS = {"bucket": "1", "write-only": "true"}
VECTORS = {"bucket": "1", "deletion-vectors.enabled": "true"}


def made(path: Path, *, keyed: bool = True, options: dict[str, str] | None = None) -> Table:
    catalog = interbed.load_catalog("lake", warehouse=str(path))
    catalog.create_database("d", ignore_if_exists=True)
    return catalog.create_table("d.t", SCHEMA, primary_keys=["id"] if keyed else [], options=options or {})


def rows(first: int, number: int) -> pa.Table:
    return pa.table({"id": list(range(first, first + number)), "v": [first] * number}, schema=SCHEMA)


def is_healthy(health: TableHealth) -> bool:
    return (health.score, health.reasons, health.read_amplification, health.pending_bytes) == (100, (), 1.0, 0)


def test_a_table_without_snapshots_is_healthy(tmp_path: Path) -> None:
    health = made(tmp_path).maintenance.health()
    assert is_healthy(health)
    assert (health.snapshot_id, health.newest_millis, health.last_full_millis, health.buckets) == (None, None, None, 0)


def test_overlapping_sorted_runs_cost_points_until_they_are_compacted(tmp_path: Path) -> None:
    table = made(tmp_path, options=OPTIONS)
    for i in range(4):
        table.upsert(rows(0, 100 + i))
    health = table.maintenance.health()
    assert (health.snapshot_id, health.runs_max, health.level0_files, health.small_files) == (4, 4, 4, 4)
    assert (health.read_amplification, health.files, health.rows) == (4.0, 4, 406)
    assert health.pending_bytes == health.bytes == sum(s.bytes for s in table.access.partition_sums().values())
    assert {r.name: r.points for r in health.reasons} == {"read amplification": 30, "small files": 15}
    assert health.score == 55
    assert health.last_full_millis is None
    table.compact()
    health = table.maintenance.health()
    assert is_healthy(health)
    assert health.duplicate_ratio == 0.0
    assert health.last_full_millis is not None
    assert abs(now_millis() - health.last_full_millis) < 60_000


def test_runs_without_overlap_are_not_merged_by_reads(tmp_path: Path) -> None:
    table = made(tmp_path, options=OPTIONS)
    for i in range(4):
        table.upsert(rows(100 * i, 100))
    health = table.maintenance.health()
    assert (health.runs_max, health.read_amplification) == (4, 1.0)
    assert {r.name for r in health.reasons} == {"small files"}
    assert health.duplicate_ratio == pytest.approx(0.75, abs=0.05)


def test_the_last_full_compaction_is_the_one_that_the_compaction_interval_uses(tmp_path: Path) -> None:
    table = made(tmp_path, options=OPTIONS)
    table.upsert(rows(0, 10))
    table.upsert(rows(0, 10))
    table.compact()
    table.upsert(rows(0, 10))
    restored = restore_buckets(table.store)
    (bucket_id,) = restored.buckets()
    planner = CompactionPlanner(table.store)
    assert (
        table.maintenance.health().last_full_millis
        == planner.context(planner.levels(restored.files(bucket_id))).last_full_millis
    )


def test_delete_records_cost_points_until_they_are_compacted(tmp_path: Path) -> None:
    table = made(tmp_path, options=OPTIONS)
    table.upsert(rows(0, 80))
    table.delete("id < 20")
    health = table.maintenance.health()
    assert (health.delete_rows, health.delete_ratio) == (20, 0.2)
    assert {r.name: r.points for r in health.reasons}["deleted rows"] == 10
    table.compact()
    assert is_healthy(table.maintenance.health())


@pytest.mark.parametrize("keyed", [True, False])
def test_deletion_vectors_cost_points_until_they_are_compacted(tmp_path: Path, keyed: bool) -> None:
    options = VECTORS if keyed else {"deletion-vectors.enabled": "true"}
    table = made(tmp_path, keyed=keyed, options=options)
    if keyed:
        table.upsert(rows(0, 100))
        table.compact()
        table.upsert(rows(0, 30))
    else:
        table.append(rows(0, 100))
        table.delete("id < 30")
    health = table.maintenance.health()
    assert (health.vector_files, health.delete_rows) == (1, 30)
    assert health.by_bucket[0].vector_files == 1
    assert "deleted rows" in {r.name for r in health.reasons}
    assert health.pending_bytes > 0
    table.compact()
    assert is_healthy(table.maintenance.health())
    assert table.maintenance.health().vector_files == 0


def test_small_files_of_an_append_table_cost_points_until_they_are_joined(tmp_path: Path) -> None:
    table = made(tmp_path, keyed=False)
    for i in range(5):
        table.append(rows(10 * i, 10))
    health = table.maintenance.health()
    assert (health.runs_max, health.level0_files, health.small_files, health.spare_files) == (1, 0, 5, 4)
    assert health.read_amplification == pytest.approx(5.0, abs=0.01)
    assert health.score == 100 - 40 - 16
    table.compact()
    assert is_healthy(table.maintenance.health())
    assert table.maintenance.health().last_full_millis is not None


def test_the_cost_of_opening_a_file_is_the_tables_option(tmp_path: Path) -> None:
    table = made(tmp_path, keyed=False)
    for i in range(5):
        table.append(rows(10 * i, 10))
    cheap = table_health(table.copy({"source.split.open-file-cost": "0 b"}).store)
    assert cheap.read_amplification == 1.0
    assert [r.name for r in cheap.reasons] == ["small files"]


def test_rows_that_wait_for_buckets_cost_points_until_they_are_assigned(tmp_path: Path) -> None:
    table = made(tmp_path, options={"bucket": "-2", "postpone.batch-write-fixed-bucket": "false"})
    table.upsert(rows(0, 100))
    health = table.maintenance.health()
    assert [b.bucket for b in health.by_bucket] == [-2]
    assert health.score < 100
    assert health.pending_bytes == health.bytes > 0
    table.compact()
    assert is_healthy(table.maintenance.health())


def test_the_figures_of_a_bucket_name_its_partition(tmp_path: Path) -> None:
    catalog = interbed.load_catalog("lake", warehouse=str(tmp_path))
    catalog.create_database("d")
    columns = pa.schema((pa.field("p", pa.string()), pa.field("id", pa.int64())))
    table = catalog.create_table("d.t", columns, partition_keys=["p"])
    table.append(pa.table({"p": ["a", "b", "b"], "id": [1, 2, 3]}, schema=columns))
    table.append(pa.table({"p": ["b"], "id": [4]}, schema=columns))
    health = table.maintenance.health()
    assert (health.partitions, health.buckets, health.files) == (2, 2, 3)
    assert {b.partition_name: (b.files, b.rows) for b in health.by_bucket} == {"p=a": (1, 1), "p=b": (2, 3)}
    (both,) = [b for b in health.by_bucket if b.files == 2]
    assert both.bucket_id in restore_buckets(table.store).buckets()
    assert health.to_json()["by_bucket"][1]["partition"] == "p=b"


def test_due_snapshots_cost_points(tmp_path: Path) -> None:
    table = made(tmp_path, keyed=False)
    for i in range(12):
        table.append(rows(i, 1))
    table.compact()
    assert is_healthy(table.maintenance.health())
    tomorrow = table_health(table.store, clock=lambda: now_millis() + DAY)
    assert (tomorrow.snapshots, tomorrow.snapshots_due) == (13, 3)
    expires = tomorrow.next_expiry_millis
    assert expires is not None
    assert table_health(table.store, clock=lambda: expires).snapshots_due == 0
    assert table_health(table.store, clock=lambda: expires + 1).snapshots_due > 0
    table.maintenance.expire_snapshots(retain_max=10)
    assert table.maintenance.health().next_expiry_millis is None
    assert [str(r) for r in tomorrow.reasons] == ["-1 expiry: 3 snapshots are to expire"]


def test_small_manifests_that_commits_do_not_merge_cost_points(tmp_path: Path) -> None:
    table = made(tmp_path, keyed=False)
    for i in range(7):
        table.append(rows(i, 1))
    assert (table.maintenance.health().manifests, table.maintenance.health().manifests_due) == (7, 0)
    health = table_health(table.copy({"manifest.merge-min-count": "2"}).store)
    assert health.manifests_due == 3
    assert "manifests" in {r.name for r in health.reasons}
    table.maintenance.compact_manifests()
    assert table_health(table.copy({"manifest.merge-min-count": "2"}).store).manifests_due == 0


def test_statistics_older_than_a_tenth_of_the_rows_cost_points(tmp_path: Path) -> None:
    table = made(tmp_path, keyed=False)
    table.append(rows(0, 100))
    assert (table.maintenance.health().statistics_snapshot_id, table.maintenance.health().rows_since_statistics) == (
        None,
        None,
    )
    table.maintenance.analyze()
    analysed = table.maintenance.health()
    assert (analysed.statistics_snapshot_id, analysed.statistics_rows, analysed.rows_since_statistics) == (1, 100, 0)
    table.append(rows(100, 10))
    table.compact()
    assert table.maintenance.health().rows_since_statistics == 10
    assert is_healthy(table.maintenance.health())
    table.append(rows(110, 1))
    table.compact()
    assert [str(r) for r in table.maintenance.health().reasons] == [
        "-5 statistics: 11 rows came or went since ANALYZE counted 100",
    ]


def test_missing_statistics_do_not_hide_other_figures(tmp_path: Path) -> None:
    table = made(tmp_path, keyed=False)
    table.append(rows(0, 100))
    table.maintenance.analyze()
    shutil.rmtree(Path(table.location) / "statistics")
    health = table.maintenance.health()
    assert (health.files, health.statistics_snapshot_id) == (1, None)


def test_no_data_file_is_opened(tmp_path: Path) -> None:
    table = made(tmp_path, options=VECTORS)
    table.upsert(rows(0, 100))
    table.upsert(rows(0, 30))
    before = table.maintenance.health()
    for bucket in Path(table.location).glob("bucket-*"):
        shutil.rmtree(bucket)
    for index in (Path(table.location) / "index").iterdir():
        index.unlink()
    assert table.maintenance.health() == before


def test_only_new_manifests_are_decoded_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    decoded = []

    def read(content: bytes, *, source: str) -> Sequence[ManifestEntry]:
        decoded.append(source)
        return manifest_file.read_manifest(content, source=source)

    monkeypatch.setattr(manifest_reader, "read_manifest", read)
    table = made(tmp_path, keyed=False)
    for i in range(12):
        table.append(rows(i, 1))
    table.maintenance.health()
    assert len(decoded) >= 12
    decoded.clear()
    table.append(rows(12, 1))
    decoded.clear()
    assert table.maintenance.health().files == 13
    assert len(decoded) == 1


def test_the_figures_can_be_exported_as_json(tmp_path: Path) -> None:
    table = made(tmp_path, options=OPTIONS)
    table.upsert(rows(0, 10))
    table.upsert(rows(0, 10))
    health = table.maintenance.health()
    told = health.to_json()
    assert told["score"] == health.score
    assert told["reasons"][0] == {
        "points": 10,
        "name": "read amplification",
        "text": "a read merges 2.0 sorted runs on average",
    }
    for name, value in told.items():
        if name not in ("reasons", "by_bucket"):
            assert value == pytest.approx(getattr(health, name), abs=1e-4), name
    assert str(health).splitlines()[0] == (
        f"health 80 of 100, snapshot 2: 2 files in 1 bucket(s), {health.bytes:,} bytes, "
        f"{health.pending_bytes:,} of them to compact"
    )
