"""The calendar that the footer of an ORC file names, and days of the hybrid one, which are refused."""

import sys
import zlib
from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.orc
import pytest

from interbed.storage.base.errors import CorruptFileError, NotSupportedError
from interbed.storage.files.format.hybrid_calendar import orc_calendar

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

COMPRESSIONS = {"none": 0, "zlib": 1, "snappy": 2, "lz4": 4, "zstd": 5}
JAVA, CPP, TRINO = b"\x48\x00", b"\x48\x01", b"\x48\x04"
UNKNOWN, HYBRID, GREGORIAN = b"\x58\x00", b"\x58\x01", b"\x58\x02"
TEXT = b"\x62\x052.1.0"
"""The version of the writer, behind both."""


def compressed(content: bytes, kind: str) -> bytes:
    match kind:
        case "zlib":
            made = zlib.compressobj(wbits=-zlib.MAX_WBITS)
            return made.compress(content) + made.flush()
        case "zstd":
            return zstd.compress(content)
        case "snappy" | "lz4":
            return pa.compress(content, "lz4_raw" if kind == "lz4" else kind).to_pybytes()
    return content


def block(content: bytes, *, is_plain: bool) -> bytes:
    return (len(content) << 1 | is_plain).to_bytes(3, "little") + content


def orc_tail(path: Path, footer: bytes, kind: str) -> str:
    """Write the tail of an ORC file, whose footer has two blocks if it is compressed."""
    footer = b"\x08\x03" + b"\x21" + b"8 bytes." + b"\x2d" + b"four" + b"\x1a\x64" + bytes(100) + footer + TEXT
    if kind != "none":
        half = len(footer) // 2
        footer = block(compressed(footer[:half], kind), is_plain=False) + block(footer[half:], is_plain=True)
    postscript = bytes(
        [0x08, 0x80 | len(footer) & 0x7F, len(footer) >> 7, 0x10, COMPRESSIONS[kind], 0x18, 0x80, 0x80, 0x10]
    )
    path.write_bytes(b"ORC" + footer + postscript + bytes([len(postscript)]))
    return str(path)


@pytest.mark.parametrize("kind", COMPRESSIONS)
@pytest.mark.parametrize(
    ("footer", "is_hybrid"),
    [
        (JAVA + HYBRID, True),
        (JAVA, True),
        (b"", True),
        (UNKNOWN, True),
        (JAVA + GREGORIAN, False),
        (CPP, False),
        (TRINO + HYBRID, False),
    ],
)
def test_the_footer_names_the_calendar(tmp_path: Path, kind: str, footer: bytes, is_hybrid: bool) -> None:
    assert (orc_calendar(orc_tail(tmp_path / "a.orc", footer, kind)) is not None) == is_hybrid


def test_days_of_the_hybrid_calendar_are_refused(tmp_path: Path) -> None:
    calendar = orc_calendar(orc_tail(tmp_path / "a.orc", JAVA, "none"))
    assert calendar is not None
    calendar.check(pa.record_batch({"x": pa.array([date(1582, 10, 15), None])}), "a.orc")
    with pytest.raises(
        NotSupportedError, match=r"'x' of the file a.orc has days before 1582-10-15.*Parquet by Spark 3"
    ):
        calendar.check(pa.record_batch({"x": pa.array([date(1582, 10, 14)])}), "a.orc")


def test_files_of_arrow_have_days_of_the_gregorian_calendar(tmp_path: Path) -> None:
    pa.orc.write_table(pa.table({"x": [1]}), tmp_path / "a.orc", compression="ZSTD")
    assert orc_calendar(str(tmp_path / "a.orc")) is None


@pytest.mark.parametrize("content", [b"", b"\x03", b"ORC\x00", b"ORC\x08\x7f\x02", b"ORC\x0f\x08\x02\x02"])
def test_a_damaged_tail_is_reported_with_the_file(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.orc").write_bytes(content)
    with pytest.raises(CorruptFileError, match=r"a\.orc has no readable footer"):
        orc_calendar(str(tmp_path / "a.orc"))
