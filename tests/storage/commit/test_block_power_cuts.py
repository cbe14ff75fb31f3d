"""Power cuts of a real file system: an ext4 on a loop device, whose blocks are copied while it is mounted.

The copy is the state of a disk after a power cut: data that the file system has not yet written to its device are
missing, and mounting the copy replays the file system's journal. Syncing a file of its own makes the file system write
its journal, and with it the names of all other files, whose bytes are still in memory only. Tables have been lost in
that state. The tests are skipped where loop devices cannot be mounted; test_power_cuts simulates the others.
"""

import contextlib
import gc
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import interbed
from tests.support.waits import at_most

pytestmark = pytest.mark.long

SCHEMA = pa.schema((pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.string())))
SIZE = 64 << 20
TIMEOUT_SECONDS = at_most(60)
CAN_MOUNT = os.geteuid() == 0 and os.path.exists("/dev/loop-control") and shutil.which("mkfs.ext4") is not None
LATER = 4_102_444_800


def run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, timeout=TIMEOUT_SECONDS)


@contextlib.contextmanager
def mounted(image: Path, directory: Path) -> Iterator[Path]:
    directory.mkdir(exist_ok=True)
    # Write only what is synced: commit the journal every five minutes, and do not flush files that replace others.
    run("mount", "-o", "loop,commit=300,noauto_da_alloc", str(image), str(directory))
    try:
        yield directory
    finally:
        gc.collect()
        run("umount", "--lazy", str(directory))


class LoopDevice:
    """A mounted file system with a table, and copies of its blocks with the rows that were acknowledged by then."""

    def __init__(self, tmp_path: Path, top: Path, sync: str) -> None:
        self.image, self.top = tmp_path / "disk.img", top
        self.copies: list[tuple[Path, dict[int, str]]] = []
        self.rows: dict[int, str] = {}
        catalog = interbed.load_catalog("lake", warehouse=f"{top}/lake")
        catalog.create_database("d")
        options = {"bucket": "2", "commit.sync": sync}
        self.table = catalog.create_table("d.t", SCHEMA, primary_keys=["id"], options=options)

    def upsert(self, begin: int) -> None:
        new = {number: f"value {number} from {begin}" for number in range(begin, begin + 500)}
        self.table.upsert(pa.table({"id": list(new), "v": list(new.values())}, schema=SCHEMA))
        self.rows |= new

    def write_journal(self) -> None:
        with open(f"{self.top}/other", "wb") as other:
            other.write(b"x")
            other.flush()
            os.fsync(other.fileno())

    def copy(self) -> None:
        path = self.image.with_name(f"copy-{len(self.copies)}.img")
        run("cp", "--sparse=always", str(self.image), str(path))
        self.copies.append((path, dict(self.rows)))


def life(disk: LoopDevice) -> None:
    steps: list[Callable[[], object]] = [
        *(lambda begin=begin: disk.upsert(begin) for begin in range(0, 2000, 400)),
        lambda: disk.table.versions.create_tag("a"),
        lambda: disk.table.compact(full=True),
        lambda: disk.table.maintenance.expire_snapshots(retain_max=1, retain_min=1, clock=lambda: LATER),
        lambda: disk.upsert(3000),
        lambda: disk.table.delete("id < 100"),
    ]
    for number, step in enumerate(steps):
        step()
        if number == len(steps) - 1:
            disk.rows = {key: value for key, value in disk.rows.items() if key >= 100}
        disk.copy()
        disk.write_journal()
        disk.copy()


def damage_of(location: str, rows: dict[int, str]) -> str | None:
    """Return the damage of the table after the power cut; None for a table that is complete and can be written."""
    try:
        table = interbed.load_table(location)
        for snapshot in table.snapshots():
            table.copy({"scan.snapshot-id": str(snapshot.id)}).to_arrow()
        for tag in table.versions.tags():
            table.copy({"scan.tag-name": tag.name}).to_arrow()
        read = table.to_arrow()
        if dict(zip(read["id"].to_pylist(), read["v"].to_pylist(), strict=True)) != rows:
            return "acknowledged rows are missing"
        table.upsert(pa.table({"id": [-1], "v": ["after"]}, schema=SCHEMA))
        if table.count() != len(rows) + 1:
            return "rows can't be written"
    except (interbed.InterbedError, OSError) as error:
        return f"{type(error).__name__}: {error}"
    return None


def damages(tmp_path: Path, sync: str) -> list[str | None]:
    image = tmp_path / "disk.img"
    image.touch()
    os.truncate(image, SIZE)
    run("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0", str(image))
    with mounted(image, tmp_path / "before") as top:
        disk = LoopDevice(tmp_path, top, sync)
        life(disk)
    found = []
    for copy, rows in disk.copies:
        with mounted(copy, tmp_path / "after") as top:
            found.append(damage_of(f"{top}/lake/d.db/t", rows))
        copy.unlink()
    return found


if CAN_MOUNT:

    def test_every_acknowledged_row_survives_a_power_cut(tmp_path: Path) -> None:
        found = damages(tmp_path, "full")
        print(f"{len(found)} copies of the disk")
        assert len(found) == 20
        assert [damage for damage in found if damage is not None] == []

    def test_rows_are_lost_when_the_files_of_a_snapshot_are_not_synced(tmp_path: Path) -> None:
        found = damages(tmp_path, "snapshot")
        print(f"{len(found)} copies of the disk, {sum(damage is not None for damage in found)} damaged")
        assert any(damage is not None for damage in found)
