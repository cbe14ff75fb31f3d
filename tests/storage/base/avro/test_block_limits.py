"""Blocks of Avro files, and files in gzip, expand to a limit: a few kilobytes never take gigabytes of memory."""

import gzip
import io
import json

import pytest

from interbed.storage.base.avro import records
from interbed.storage.base.avro.codecs import compressor, decompressor
from interbed.storage.base.avro.records import (
    METADATA_BLOCK_BYTES_MAX,
    METADATA_BYTES_MAX,
    OF_METADATA,
    PlainBlocks,
    PlainLimits,
    block_bytes,
    header_bytes,
    read_records,
    write_records,
)
from interbed.storage.base.decoding import TooManyBytesError, plain_content
from interbed.storage.base.errors import CorruptFileError
from interbed.storage.meta.manifest import entry_decoder
from tests.support.avro_bombs import with_bombs

_SCHEMA = {"type": "record", "name": "r", "fields": [{"name": "text", "type": "string"}]}
_CODECS = ["null", "zstandard", "deflate", "snappy", "bzip2", "xz"]


@pytest.mark.parametrize("codec", _CODECS)
def test_a_block_has_at_most_the_bytes_of_the_limit(codec: str) -> None:
    packed = compressor(codec, 3)(b"a" * 1000)
    assert decompressor(codec, 1000)(packed) == b"a" * 1000
    with pytest.raises(ValueError, match="limit of 999"):
        decompressor(codec, 999)(packed)


@pytest.mark.parametrize("codec", ["zstandard", "deflate", "bzip2", "xz"])
def test_a_block_that_is_cut_off_is_damaged(codec: str) -> None:
    packed = compressor(codec, 3)(bytes(range(256)) * 8)
    for length in range(1, len(packed)):
        with pytest.raises(ValueError, match=codec):
            decompressor(codec, 1 << 20)(packed[:length])


@pytest.mark.parametrize("codec", ["zstandard", "bzip2", "xz"])
def test_the_streams_of_a_block_share_its_limit(codec: str) -> None:
    packed = 2 * compressor(codec, 3)(b"a" * 100)
    assert decompressor(codec, 200)(packed) == b"a" * 200
    with pytest.raises(ValueError, match="limit of 99"):
        decompressor(codec, 199)(packed)


def test_a_file_has_at_most_the_bytes_of_its_limit() -> None:
    sync = bytes(16)
    content = header_bytes(json.dumps(_SCHEMA), "null", sync) + 3 * block_bytes(1, b"\x06abc", sync)
    assert len(list(PlainBlocks(io.BytesIO(content), PlainLimits(block=4, file=12)))) == 3
    with pytest.raises(ValueError, match="more than 11 bytes"):
        list(PlainBlocks(io.BytesIO(content), PlainLimits(block=4, file=11)))


def test_a_forged_block_of_metadata_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = write_records(_SCHEMA, [{"text": "a"}], "zstd")
    assert len(with_bombs(plain, 2 * METADATA_BYTES_MAX)) < 100_000
    assert (OF_METADATA.block, OF_METADATA.file) == (METADATA_BLOCK_BYTES_MAX, METADATA_BYTES_MAX)
    for module in (records, entry_decoder):
        assert module.OF_METADATA is OF_METADATA
        # The limits of metadata take a second.
        monkeypatch.setattr(module, "OF_METADATA", PlainLimits(block=1 << 20, file=1 << 22))
    with pytest.raises(CorruptFileError, match=r"manifest-1.*limit of 1048576"):
        read_records(with_bombs(plain, 1 << 22), {"text"}, dict, source="manifest-1")
    many = with_bombs(plain, 1 << 20, blocks=5)
    with pytest.raises(CorruptFileError, match=r"manifest-1.*more than 4194304 bytes"):
        read_records(many, {"text"}, dict, source="manifest-1")
    with pytest.raises(ValueError, match="limit of 1048576"):
        entry_decoder.decode_entries(with_bombs(plain, 1 << 22), json.dumps(_SCHEMA), lambda version: None)


def test_a_file_of_metadata_may_be_compressed_by_gzip() -> None:
    plain = b'{"a": 1}' * 100
    packed = gzip.compress(plain)
    for content, wanted in (
        (plain, plain),
        (packed, plain),
        (packed + bytes(7), plain),
        (packed + packed, plain + plain),
    ):
        assert plain_content(content, len(wanted)) == wanted
        with pytest.raises(TooManyBytesError, match="limit of"):
            plain_content(content, len(wanted) - 1)
    for damaged in (packed[:-1], packed[:20], packed + b"x", packed[:-8] + bytes(8)):
        with pytest.raises(ValueError, match="damaged"):
            plain_content(damaged, 1 << 20)
