"""Damaged data files are detected: other rows are never returned where the format has checksums.

A separate process reads (tests/support/damage.py), so that a crash of a library is detected, too.
"""

import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import interbed
from interbed.storage.base.errors import CorruptFileError
from interbed.storage.table.opening import open_store
from interbed.storage.table.table import Table
from tests.support.damage import NAMED, RIGHT, WRONG, damage
from tests.support.shares import LONG

ROWS = 18_000 if LONG else 3_000
TIMES = 600 if LONG else 16
COLUMNS: list[Any] = [
    pa.field("id", pa.int64(), nullable=False),
    pa.field("k", pa.int32(), nullable=False),
    ("v", pa.string()),
    ("x", pa.float64()),
    ("at", pa.timestamp("us")),
    ("price", pa.decimal128(12, 2)),
    ("parts", pa.list_(pa.int32())),
]
SCHEMA = pa.schema(COLUMNS)
READS = ("scan", "filter", "get", "changes")


def rows(count: int = ROWS) -> pa.Table:
    """Rows that compress badly, so that most bytes of a file matter."""
    chance = np.random.default_rng(5)
    numbers = chance.integers(0, 10**8, count)
    columns: list[Any] = [
        pa.array(np.arange(count)),
        pa.array(chance.integers(0, 50, count).astype("i4")),
        pa.array([f"0-{number}" for number in numbers]),
        pa.array(chance.random(count)),
        pa.array(chance.integers(0, 10**15, count)).cast(pa.timestamp("us")),
        pa.array([Decimal(int(number)) / 100 for number in numbers], pa.decimal128(12, 2)),
        pa.array([[int(number) % 7] * (int(number) % 4) for number in numbers], pa.list_(pa.int32())),
    ]
    return pa.Table.from_arrays(columns, schema=SCHEMA)


def create(warehouse: Path, file_format: str, compression: str = "zstd", *, flat: bool = False) -> tuple[Table, Path]:
    """Create a table with one data file, and return both."""
    catalog = interbed.load_catalog("test", warehouse=f"file:{warehouse}")
    catalog.create_database("db")
    data = rows().select(SCHEMA.names[:-1] if flat else SCHEMA.names)
    options = {"bucket": "1", "file.format": file_format, "file.compression": compression}
    table = catalog.create_table("db.t", data.schema, primary_keys=["id"], options=options)
    table.upsert(data)
    (file,) = Path(table.location).glob("bucket-0/data-*")
    return table, file


@pytest.mark.sample(3)
@pytest.mark.longer
@pytest.mark.parametrize(
    ("file_format", "flat", "compression"),
    [
        ("parquet", False, "zstd"),
        ("parquet", False, "none"),
        ("orc", False, "zstd"),
        ("orc", True, "none"),
        ("avro", False, "zstd"),
        ("avro", True, "zstd"),
        ("avro", True, "snappy"),
    ],
)
def test_damage_never_gives_other_rows(tmp_path: Path, file_format: str, flat: bool, compression: str) -> None:
    table, file = create(tmp_path, file_format, compression, flat=flat)
    found = damage(table, [file], times=TIMES, operations=READS)
    assert found.failures() == {}
    assert found.outcomes[NAMED] > found.outcomes.get(RIGHT, 0)


@pytest.mark.longer
def test_damage_of_plain_avro_blocks_causes_no_unexpected_errors(tmp_path: Path) -> None:
    table, file = create(tmp_path, "avro", "none")
    assert damage(table, [file], times=TIMES, operations=READS).failures(WRONG) == {}


def test_the_error_names_a_truncated_orc_file(tmp_path: Path) -> None:
    table, file = create(tmp_path, "orc")
    content = file.read_bytes()
    for kept in (0, 1, 3, len(content) // 2, len(content) - 100, len(content) - 1):
        file.unlink()
        file.write_bytes(content[:kept])
        with pytest.raises(CorruptFileError, match=file.name):
            Table("db.t", open_store(table.location)).to_arrow()


def test_damage_of_any_bit_of_a_footer_is_detected(tmp_path: Path) -> None:
    table, file = create(tmp_path, "parquet")
    content = file.read_bytes()
    length = int.from_bytes(content[-8:-4], "little")
    chance = random.Random(1)
    for _ in range(200):
        place = chance.randrange(len(content) - 8 - length, len(content))
        damaged = bytearray(content)
        damaged[place] ^= 1 << chance.randrange(8)
        file.unlink()
        file.write_bytes(damaged)
        with pytest.raises(CorruptFileError, match=file.name):
            Table("db.t", open_store(table.location)).to_arrow()


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_a_file_with_another_row_count_than_in_the_manifest_is_damaged(tmp_path: Path, file_format: str) -> None:
    table, file = create(tmp_path / "a", file_format)
    other, larger = create(tmp_path / "b", file_format)
    other.upsert(rows(ROWS + 1).slice(ROWS))
    other.compact(full=True)
    (larger,) = [f for f in Path(other.location).glob("bucket-0/data-*") if f != larger and f.stat().st_size > 10_000]
    file.unlink()
    file.write_bytes(larger.read_bytes())
    with pytest.raises(CorruptFileError, match=rf"{file.name}.*{ROWS + 1} rows where the manifest says {ROWS}"):
        table.to_arrow()


def test_verification_can_be_turned_off(tmp_path: Path) -> None:
    table, file = create(tmp_path, "parquet", "none")
    content = bytearray(file.read_bytes())
    place = content.index(b"0-", 2_000) + 2
    content[place] ^= 1
    file.unlink()
    file.write_bytes(content)
    with pytest.raises(CorruptFileError, match=f"{file.name}.*CRC"):
        table.to_arrow()
    assert table.copy({"read.verify-checksums": "false"}).to_arrow().num_rows == ROWS


def test_files_without_checksums_are_read_as_before(tmp_path: Path) -> None:
    table, file = create(tmp_path, "parquet")
    expected = table.to_arrow()
    with pq.ParquetFile(file) as written:
        plain = written.read()
    file.unlink()
    pq.write_table(plain, file)
    assert Table("db.t", open_store(table.location)).to_arrow().equals(expected)


def test_pages_and_footers_of_written_files_have_checksums(tmp_path: Path) -> None:
    _, file = create(tmp_path, "parquet")
    assert b"interbed.crc32" in file.read_bytes()[-40:]
    # None of these fields is returned with the rows.
    assert pq.read_metadata(file).metadata is None
    with pq.ParquetFile(file, page_checksum_verification=True) as written:
        assert written.read().num_rows == ROWS
