"""Choice of the deletes that apply to a data file, by sequence numbers, partitions and paths."""

from typing import Any

import pytest

from interbed.iceberg.meta.live_files import LiveFile
from interbed.iceberg.plan import DeleteIndex
from interbed.storage.base.errors import CorruptFileError
from tests.iceberg.plan.files import data, equality, positions, vector


def index(*deletes: LiveFile, unpartitioned: tuple[int, ...] = (0,)) -> DeleteIndex:
    """Return an index of the deletes of a table whose specs of these numbers have no partitions."""
    return DeleteIndex(deletes, lambda number: number in unpartitioned)


def paths(files: tuple[LiveFile, ...]) -> list[str]:
    return [file.path for file in files]


def test_equality_deletes_apply_to_older_files_only() -> None:
    found = index(equality("d2", 2), equality("d3", 3), equality("d1", 1))
    assert paths(found.of(data(number=1)).equality) == ["d2", "d3"]
    assert paths(found.of(data(number=2)).equality) == ["d3"]
    assert paths(found.of(data(number=3)).equality) == []


def test_position_deletes_apply_to_files_of_the_same_commit_too() -> None:
    found = index(positions("p1", 1), positions("p2", 2))
    assert paths(found.of(data(number=1)).positions) == ["p1", "p2"]
    assert paths(found.of(data(number=2)).positions) == ["p2"]


def test_deletes_apply_to_their_own_partition() -> None:
    here: dict[str, Any] = {"spec_id": 1, "partition": ("x",)}
    there: dict[str, Any] = {"spec_id": 1, "partition": ("y",)}
    found = index(equality("e", 2, **here), positions("p", 2, **here))
    assert paths(found.of(data(**here)).files) == ["p", "e"]
    assert paths(found.of(data(**there)).files) == []
    assert paths(found.of(data(spec_id=2, partition=("x",))).files) == []


def test_equality_deletes_of_an_unpartitioned_spec_apply_to_all_partitions() -> None:
    found = index(equality("e", 2), positions("p", 2))
    assert paths(found.of(data(spec_id=1, partition=("x",))).files) == ["e"]


def test_position_deletes_whose_path_range_excludes_a_file_are_skipped() -> None:
    found = index(positions("of b", 1, "b"), positions("of a to c", 1, "a", "c"), positions("of any", 1))
    assert sorted(paths(found.of(data("b")).positions)) == ["of a to c", "of any", "of b"]
    assert sorted(paths(found.of(data("a")).positions)) == ["of a to c", "of any"]
    assert sorted(paths(found.of(data("d")).positions)) == ["of any"]


def test_a_deletion_vector_replaces_all_position_deletes_of_its_file() -> None:
    found = index(positions("p", 3), vector("v", 2, of="a"), equality("e", 2))
    of_a, of_b = found.of(data("a")), found.of(data("b"))
    assert of_a.vector is not None
    assert paths(of_a.files) == ["v", "e"]
    assert of_b.vector is None
    assert paths(of_b.files) == ["p", "e"]


def test_a_vector_of_an_older_file_with_the_same_path_does_not_apply() -> None:
    assert index(vector("v", 1, of="a")).of(data("a", number=2)).vector is None


def test_two_deletion_vectors_of_one_file_are_refused() -> None:
    with pytest.raises(CorruptFileError, match="two deletion vectors"):
        index(vector("v", 1, of="a"), vector("w", 2, of="a"))
