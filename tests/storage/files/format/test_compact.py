"""Thrift's compact protocol: skipping a value consumes exactly its bytes, and damaged values raise an error."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interbed.storage.files.format.pages.compact import BINARY, I32, I64, LIST, STRUCT, CompactReader, CompactWriter
from tests.support.examples import examples

LEAVES = st.one_of(st.integers(-(1 << 63), (1 << 63) - 1), st.binary(max_size=300))
VALUES = st.recursive(
    LEAVES, lambda inner: st.dictionaries(st.integers(1, 400), inner, max_size=20), max_leaves=60
).filter(lambda value: isinstance(value, dict))


def _encoded(fields: dict[int, object]) -> bytes:
    writer = CompactWriter()
    _write(writer, fields)
    writer.end()
    return writer.to_bytes()


def _write(writer: CompactWriter, fields: dict[int, object]) -> None:
    for number, value in sorted(fields.items()):
        if isinstance(value, int):
            writer.integer(number, value, I64 if number % 2 else I32)
        elif isinstance(value, bytes):
            writer.raw(number, BINARY, _length(len(value)) + value)
        else:
            assert isinstance(value, dict)
            # A list of two structs, as row groups are.
            writer.field(number, LIST)
            writer.list_head(2, STRUCT)
            for _ in range(2):
                writer.begin()
                _write(writer, value)
                writer.end()


def _length(size: int) -> bytes:
    return bytes([size]) if size < 0x80 else bytes([size & 0x7F | 0x80, size >> 7])


def _expected(fields: dict[int, object]) -> dict[int, object]:
    return {n: [_expected(v)] * 2 if isinstance(v, dict) else v for n, v in fields.items()}


@settings(max_examples=examples(100), deadline=None)
@given(VALUES)
def test_a_struct_survives_the_round_trip_and_is_skipped_to_its_end(fields: dict[int, object]) -> None:
    data = _encoded(fields) + b"behind"
    reader, passing = CompactReader(data), CompactReader(data)
    assert reader.struct() == _expected(fields)
    passing.skip(STRUCT)
    assert reader.position == passing.position == len(data) - len(b"behind")


@settings(max_examples=examples(100), deadline=None)
@given(VALUES, st.data())
def test_truncated_bytes_are_an_error(fields: dict[int, object], data: st.DataObject) -> None:
    whole = _encoded(fields)
    cut = CompactReader(whole[: data.draw(st.integers(0, len(whole) - 1))])
    with pytest.raises((ValueError, IndexError)):
        cut.struct()


@pytest.mark.parametrize("kind", [STRUCT, LIST])
@pytest.mark.parametrize("content", [b"\x19", b"\x1c", b"\x1c\x19"])
def test_unbounded_nesting_of_structs_and_lists_is_refused(content: bytes, kind: int) -> None:
    data = content * 100_000
    with pytest.raises(ValueError, match="without end"):
        CompactReader(data).value(kind)
    with pytest.raises(ValueError, match="without end"):
        CompactReader(data).skip(kind)
