"""Deletion vectors: sets of row positions, their serialized form, and damage."""

import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from interbed.storage.base.bucket_id import BucketId
from interbed.storage.base.errors import CorruptFileError, InvalidInputError, UnsupportedVersionError
from interbed.storage.files.deletion_vectors import (
    EMPTY,
    BucketDeletions,
    DeletionVector,
    decode,
    read_vectors,
    write_vectors,
)
from interbed.storage.io.local import LocalFileIO
from tests.storage.commit.tables import partition, primary_key_table

_POSITIONS = st.lists(
    st.integers(0, 300) | st.integers(65_000, 66_500) | st.integers(0, 2**31 - 1), max_size=60
) | st.integers(0, 10_000).map(lambda n: list(range(n, n + 5000)))
_WIDE = st.lists(st.integers(0, 2**34), max_size=20)


@given(_POSITIONS, st.booleans())
def test_a_vector_survives_the_round_trip(positions: list[int], bitmap64: bool) -> None:
    vector = DeletionVector.of(positions)
    assert decode(vector.encode(bitmap64=bitmap64), source="x") == vector
    assert vector.positions.tolist() == sorted(set(positions))


@given(_WIDE)
def test_a_64_bit_vector_survives_the_round_trip(positions: list[int]) -> None:
    vector = DeletionVector.of(positions)
    assert decode(vector.encode(bitmap64=True), source="x") == vector


@given(_POSITIONS, _POSITIONS, st.integers(0, 66_000), st.integers(0, 2000))
def test_a_vector_is_a_set(left: list[int], right: list[int], first: int, rows: int) -> None:
    gone = set(left) | set(right)
    vector = DeletionVector.of(left).union(right)
    assert set(vector.positions.tolist()) == gone
    expected = [first + i not in gone for i in range(rows)]
    kept = vector.kept(first, rows)
    assert (kept is None and all(expected)) or (kept is not None and kept.tolist() == expected)
    asked = np.arange(first, first + rows)
    assert vector.contains(asked).tolist() == [not keep for keep in expected]


def test_positions_out_of_range_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="never negative; got -1"):
        DeletionVector.of([4, -1])
    with pytest.raises(InvalidInputError, match=r"deletion-vectors.bitmap64"):
        DeletionVector.of([2**31]).encode(bitmap64=False)


@given(st.data(), st.booleans())
def test_any_damage_is_detected(data: st.DataObject, bitmap64: bool) -> None:
    content = bytearray(DeletionVector.of([1, 2, 3, 900, 70_000]).encode(bitmap64=bitmap64))
    place = data.draw(st.integers(0, len(content) - 1))
    content[place] ^= data.draw(st.integers(1, 255))
    with pytest.raises(CorruptFileError, match="the-file"):
        decode(bytes(content), source="the-file")


@pytest.mark.parametrize("bitmap64", [False, True])
def test_an_index_file_holds_the_vectors_of_several_files(tmp_path: Path, bitmap64: bool) -> None:
    vectors = {"a": DeletionVector.of([1, 5]), "b": DeletionVector.of(range(1000)), "c": DeletionVector.of([0])}
    path = str(tmp_path / "index-1")
    meta = write_vectors(LocalFileIO(), path, vectors, bitmap64=bitmap64)
    assert (meta.file_name, meta.row_count, meta.file_size) == ("index-1", 3, Path(path).stat().st_size)
    ranges = meta.deletion_vectors
    assert ranges is not None
    assert [(r.data_file_name, r.cardinality) for r in ranges] == [("a", 2), ("b", 1000), ("c", 1)]
    assert dict(read_vectors(LocalFileIO(), path, ranges)) == vectors
    assert dict(read_vectors(LocalFileIO(), path, ranges[1:2])) == {"b": vectors["b"]}


def test_the_error_names_a_damaged_index_file(tmp_path: Path) -> None:
    path = tmp_path / "index-1"
    meta = write_vectors(LocalFileIO(), str(path), {"a": DeletionVector.of([1])}, bitmap64=False)
    ranges = meta.deletion_vectors
    assert ranges is not None
    content = path.read_bytes()

    def read() -> None:
        list(read_vectors(LocalFileIO(), str(path), ranges))

    path.write_bytes(b"\x02" + content[1:])
    with pytest.raises(UnsupportedVersionError, match="index-1 has version 2"):
        read()
    for damaged in (b"", content[:9], content[:-1], content[:20] + b"\xff" + content[21:]):
        path.write_bytes(damaged)
        with pytest.raises(CorruptFileError, match="index-1"):
            read()
    size = struct.pack(">i", len(content) - 9)
    assert content[1:5] == size
    path.unlink()
    with pytest.raises(CorruptFileError, match="index-1 are missing"):
        read()


def test_changed_vectors_of_a_bucket_are_written_to_a_new_file(tmp_path: Path) -> None:
    store = primary_key_table(tmp_path)
    place = partition("d1")
    deletions = BucketDeletions.restore(store, BucketId(place, 0), [])
    assert deletions.finish() == ((), ())
    deletions.delete("a", [3, 1])
    deletions.delete("b", [7])
    (first,), replaced = deletions.finish()
    assert replaced == ()
    again = BucketDeletions.restore(store, BucketId(place, 0), [first])
    assert again.of("a") == DeletionVector.of([1, 3])
    again.delete("a", [3])
    again.remove("c")
    assert again.finish() == ((), ())
    again.delete("a", [4])
    again.remove("b")
    (second,), replaced = again.finish()
    assert replaced == (first,)
    last = BucketDeletions.restore(store, BucketId(place, 0), [second])
    assert (last.of("a"), last.of("b")) == (DeletionVector.of([1, 3, 4]), None)
    last.remove("a")
    assert last.finish() == ((), (second,))


def test_a_file_without_deleted_rows_has_no_vector() -> None:
    assert len(EMPTY) == 0
    assert EMPTY.kept(0, 10) is None
