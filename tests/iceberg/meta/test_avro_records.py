"""Forged and truncated manifests are reported as damaged: no byte behind a block is read, and no entry is lost."""

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.avro.decoder import StreamingBinaryDecoder
from pyiceberg.manifest import ManifestContent, ManifestEntryStatus, ManifestFile
from pyiceberg.table.snapshots import Operation, Snapshot, Summary

from interbed.iceberg.meta import avro_records
from interbed.iceberg.meta.avro_records import BlockDecoder
from interbed.iceberg.meta.manifests import (
    entries_of,
    entries_of_each,
    entries_one_by_one,
    manifests_of,
    write_manifest,
    write_manifest_list,
)
from interbed.storage.base.avro.records import SYNC_BYTES, PlainBlocks, PlainLimits, block_bytes, header_bytes
from interbed.storage.base.errors import CorruptFileError, NotSupportedError
from tests.iceberg.meta.test_manifests import IO, SCHEMA, SPEC, entry
from tests.support.avro_bombs import with_bombs

READS = {
    "all": entries_of,
    "one by one": lambda files, manifest: list(entries_one_by_one(files, manifest)),
    "each": lambda files, manifest: next(entries_of_each(files, [manifest])),
}
_SYNC = bytes(SYNC_BYTES)


@pytest.fixture
def manifest(tmp_path: Path) -> ManifestFile:
    return write_manifest(
        IO,
        str(tmp_path / "m.avro"),
        format_version=2,
        schema=SCHEMA,
        spec=SPEC,
        content=ManifestContent.DATA,
        snapshot_id=7,
        entries=[entry(name, "x", ManifestEntryStatus.ADDED) for name in ("a", "b")],
    )


@pytest.fixture(params=list(READS))
def read(request: pytest.FixtureRequest) -> Any:
    return READS[request.param]


def _rewritten(path: str, *blocks: tuple[int, bytes]) -> None:
    """Replace the blocks of a file."""
    content = Path(path).read_bytes()
    header = header_bytes(PlainBlocks(io.BytesIO(content)).schema_text, "null", _SYNC)
    Path(path).write_bytes(header + b"".join(block_bytes(rows, plain, _SYNC) for rows, plain in blocks))


def _blocks(path: str) -> Iterator[tuple[int, bytes]]:
    return iter(PlainBlocks(io.BytesIO(Path(path).read_bytes())))


def test_a_manifest_without_its_last_block_is_damaged(manifest: ManifestFile, read: Any) -> None:
    ((_, plain),) = _blocks(manifest.manifest_path)
    first = (1, plain[: len(plain) // 2])
    _rewritten(manifest.manifest_path, first, (1, plain[len(plain) // 2 :]))
    assert len(read(IO, manifest)) == 2
    _rewritten(manifest.manifest_path, first)
    with pytest.raises(CorruptFileError, match=r"m\.avro.*1 entries where the manifest list says 2"):
        read(IO, manifest)
    _rewritten(manifest.manifest_path)
    with pytest.raises(CorruptFileError, match=r"m\.avro.*0 entries"):
        read(IO, manifest)


def test_more_entries_than_the_manifest_list_says_are_refused_before_they_are_decoded(
    manifest: ManifestFile, read: Any
) -> None:
    ((_, plain),) = _blocks(manifest.manifest_path)
    _rewritten(manifest.manifest_path, (2, plain), (1, plain[: len(plain) // 2]), (9, b"\xff" * 9))
    with pytest.raises(CorruptFileError, match=r"m\.avro.*more entries than the 2"):
        read(IO, manifest)


def test_records_behind_an_empty_block_are_read(manifest: ManifestFile, read: Any, tmp_path: Path) -> None:
    ((_, plain),) = _blocks(manifest.manifest_path)
    _rewritten(manifest.manifest_path, (0, b""), (1, plain[: len(plain) // 2]), (0, b""), (1, plain[len(plain) // 2 :]))
    assert [each.data_file.file_path for each in read(IO, manifest)] == ["a", "b"]
    path = str(tmp_path / "list.avro")
    write_manifest_list(
        IO,
        path,
        format_version=2,
        snapshot_id=7,
        parent_snapshot_id=None,
        sequence_number=1,
        manifests=[manifest, manifest],
    )
    ((_, plain),) = _blocks(path)
    _rewritten(path, (1, plain[: len(plain) // 2]), (0, b""), (1, plain[len(plain) // 2 :]))
    assert len(manifests_of(IO, _snapshot(path))) == 2


def _snapshot(path: str) -> Snapshot:
    values = {"snapshot-id": 7, "sequence-number": 1, "timestamp-ms": 1, "manifest-list": path}
    return Snapshot.model_validate({**values, "summary": Summary(Operation.APPEND)})


def test_a_forged_length_reads_nothing_behind_the_block(manifest: ManifestFile, read: Any) -> None:
    ((rows, plain),) = _blocks(manifest.manifest_path)
    at = plain.rindex(b"\x02b")
    for length in (b"\xfe\x07", b"\xfe\xff\xff\xff\x0f", b"\xff\xff\xff\xff\x0f", b"\xff" * 10 + b"\x01", b"\xff"):
        _rewritten(manifest.manifest_path, (rows, plain[:at] + length + plain[at + 1 :]))
        with pytest.raises(CorruptFileError, match=r"m\.avro"):
            read(IO, manifest)
    _rewritten(manifest.manifest_path, (rows, plain + b"\0"))
    with pytest.raises(CorruptFileError, match=r"m\.avro.*does not end with its last record"):
        read(IO, manifest)


def test_a_forged_block_of_a_manifest_is_refused(
    manifest: ManifestFile, read: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(avro_records, "OF_METADATA", PlainLimits(block=1 << 20, file=1 << 21))
    path = Path(manifest.manifest_path)
    content = path.read_bytes()
    path.write_bytes(with_bombs(content, 1 << 30))
    assert path.stat().st_size < 40_000
    with pytest.raises(CorruptFileError, match=r"m\.avro.*limit of 1048576"):
        read(IO, manifest)


def test_a_manifest_in_the_place_of_a_manifest_list_is_damage(manifest: ManifestFile) -> None:
    with pytest.raises(CorruptFileError, match=r"m\.avro"):
        manifests_of(IO, _snapshot(manifest.manifest_path))


def test_an_unknown_codec_is_refused_by_name(manifest: ManifestFile, read: Any) -> None:
    path = Path(manifest.manifest_path)
    content = path.read_bytes()
    assert content.count(b"deflate") == 1
    path.write_bytes(content.replace(b"deflate", b"brotli7"))
    with pytest.raises(NotSupportedError, match=r"m\.avro.*brotli7"):
        read(IO, manifest)


def test_values_are_those_of_the_decoder_of_pyiceberg() -> None:
    numbers = [0, -1, 1, 63, -64, 64, 1 << 31, -(1 << 63), (1 << 63) - 1]
    packed = b"".join(_long(number) for number in numbers)
    data = packed + b"\x06abc" + b"\x01\x00" + bytes(12)
    ours, theirs = BlockDecoder(data), StreamingBinaryDecoder(data)
    for decoder in (ours, theirs):
        assert [decoder.read_int() for _ in numbers] == numbers
        assert decoder.read_utf8() == "abc"
        assert (decoder.read_boolean(), decoder.read_boolean()) == (True, False)
        assert (decoder.read_float(), decoder.read_double()) == (0.0, 0.0)
        assert decoder.tell() == len(data)


def _long(value: int) -> bytes:
    rest = (value << 1 ^ value >> 63) & ((1 << 64) - 1)
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*out, rest])
