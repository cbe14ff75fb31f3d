"""Spilled runs: batches survive the round trip, disk use is bounded, and errors say what to do."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from interbed.storage.base.errors import CorruptFileError, InvalidOptionError, StorageAccessError
from interbed.storage.lsm.write_buffer import Run, Spill, SpilledRun, SpillFiles, WriteBuffer, concatenate
from interbed.storage.meta.options.core import CoreOptions


def rows(*ids: int) -> pa.RecordBatch:
    return pa.record_batch({"id": pa.array(ids, pa.int64()), "v": pa.array([f"v{i}" for i in ids])})


def written(files: SpillFiles, *batches: pa.RecordBatch) -> SpilledRun:
    run = files.write(batches)
    assert run is not None
    return run


def ids(runs: list[Run]) -> list[int]:
    batches = [b for r in runs for b in (r.batches() if isinstance(r, SpilledRun) else [r])]
    columns: list[Any] = [b.column("id") for b in batches]
    return [i for column in columns for i in column.to_pylist()]


def in_order(runs: "list[Run] | tuple[Run, ...]") -> "list[pa.RecordBatch]":
    return [b for r in runs for b in (r.batches() if isinstance(r, SpilledRun) else [r])]


@pytest.mark.parametrize("codec", ["zstd", "lz4", "lzo", "none", "ZSTD"])
def test_batches_survive_the_round_trip(codec: str) -> None:
    files = SpillFiles.of(CoreOptions({"spill-compression": codec, "spill-compression.zstd-level": "3"}))
    batches = [rows(1, 2), rows(3)]
    run = written(files, *batches)
    assert list(run.batches()) == batches
    assert list(run.batches()) == batches
    assert (run.num_rows, run.nbytes, run.schema) == (3, sum(b.nbytes for b in batches), batches[0].schema)
    assert files.bytes == run.disk_size == Path(run.path).stat().st_size
    files.delete(run)
    assert files.bytes == 0
    assert not Path(run.path).exists()
    files.close()
    assert not Path(run.path).parent.exists()


def test_spilling_no_rows_creates_no_file() -> None:
    files = SpillFiles(max_bytes=None, codec=None)
    assert files.write([]) is None
    assert files.bytes == 0
    files.close()


def test_an_unknown_codec_is_refused_by_name() -> None:
    with pytest.raises(InvalidOptionError, match="'spill-compression' takes one of zstd, lz4, lzo, none, not 'rar'"):
        SpillFiles.of(CoreOptions({"spill-compression": "rar"}))


def test_spilled_runs_stay_within_the_disk_size() -> None:
    files = SpillFiles(max_bytes=100, codec=None)
    buffer = WriteBuffer(concatenate, Spill(files=files, arrange=lambda runs: iter(in_order(list(runs)))))
    buffer.append(rows(1, 2))
    assert buffer.spill()
    assert (buffer.rows, buffer.bytes) == (2, 0)
    buffer.append(rows(3))
    assert not buffer.spill()
    assert buffer.rows == 3
    runs = buffer.take()
    assert ids(runs) == [1, 2, 3]
    buffer.release(runs)
    buffer.append(rows(4))
    assert buffer.spill()
    buffer.clear()
    assert (files.bytes, buffer.rows) == (0, 0)
    files.close()


def test_runs_beyond_the_fan_in_are_merged_first() -> None:
    files = SpillFiles(max_bytes=None, codec="lz4")
    buffer = WriteBuffer(concatenate, Spill(files=files, arrange=lambda r: iter(in_order(list(r))), fan_in=3))
    for i in range(20):
        buffer.append(rows(i))
        assert buffer.spill()
    buffer.append(rows(20))
    runs = buffer.take()
    assert len(runs) == 4
    assert ids(runs) == list(range(21))
    assert files.bytes == sum(r.disk_size for r in runs if isinstance(r, SpilledRun))
    buffer.release(runs)
    assert files.bytes == 0
    files.close()


def test_the_error_names_a_damaged_run_and_says_what_to_do() -> None:
    files = SpillFiles(max_bytes=None, codec="zstd")
    run = written(files, rows(*range(1000)))
    path = Path(run.path)
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(CorruptFileError, match=rf"{path}.*write the rows again.*TMPDIR"):
        list(run.batches())
    path.unlink()
    with pytest.raises(CorruptFileError, match=str(path)):
        list(run.batches())
    files.close()


def test_a_disk_error_leaves_the_rows_in_memory(caplog: pytest.LogCaptureFixture) -> None:
    files = SpillFiles(max_bytes=None, codec=None)
    buffer = WriteBuffer(concatenate, Spill(files=files, arrange=lambda runs: iter(in_order(list(runs)))))
    buffer.append(rows(1))
    assert buffer.spill()
    (spilled,) = buffer.take()
    assert isinstance(spilled, SpilledRun)
    home = Path(spilled.path).parent
    buffer.release([spilled])
    home.rmdir()
    buffer.append(rows(2))
    assert not buffer.spill()
    assert "flushed to the table instead" in caplog.text
    assert ids(buffer.take()) == [2]
    with pytest.raises(StorageAccessError, match=rf"{home}.*TMPDIR.*max-disk-size"):
        files.write([rows(3)])
    files.close()
