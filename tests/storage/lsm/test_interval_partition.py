"""Files are cut into sections without overlap, and combined to as few sorted runs as possible."""

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from interbed.storage.base.row.binary_row import encode_row
from interbed.storage.base.types.data_type import AtomicType, TypeRoot
from interbed.storage.lsm.levels import SortedRun, interval_partition, partition_intervals
from interbed.storage.meta.manifest.entry import DataFileMeta
from tests.support.examples import examples

_INTERVALS = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 6)).map(lambda t: (t[0], t[0] + t[1])), max_size=25)


@given(intervals=_INTERVALS)
@settings(max_examples=examples(300), deadline=None)
def test_sections_do_not_overlap_and_cannot_be_cut_further(intervals: list[tuple[int, int]]) -> None:
    sections = partition_intervals([a for a, _ in intervals], [b for _, b in intervals])
    assert sorted(i for s in sections for run in s for i in run) == list(range(len(intervals)))
    bounds = [
        (min(intervals[i][0] for r in s for i in r), max(intervals[i][1] for r in s for i in r)) for s in sections
    ]
    assert all(left[1] < right[0] for left, right in pairwise(bounds))
    for section, (low, high) in zip(sections, bounds, strict=True):
        members = [intervals[i] for run in section for i in run]
        gaps = [x for x in range(low, high) if not any(a <= x and x + 1 <= b for a, b in members)]
        # A gap between x and x + 1 is only a cut if no interval covers both.
        assert all(any(a <= x < b or a <= x + 1 <= b for a, b in members) for x in gaps)


@given(intervals=_INTERVALS)
@settings(max_examples=examples(300), deadline=None)
def test_runs_are_sorted_and_as_few_as_the_deepest_overlap(intervals: list[tuple[int, int]]) -> None:
    for section in partition_intervals([a for a, _ in intervals], [b for _, b in intervals]):
        for run in section:
            assert all(intervals[i][1] < intervals[j][0] for i, j in pairwise(run))
        members = [intervals[i] for run in section for i in run]
        depth = max(sum(a <= x <= b for a, b in members) for x in range(40))
        assert len(section) == depth


def _file(name: str, low: tuple[object, ...], high: tuple[object, ...]) -> DataFileMeta:
    return DataFileMeta(
        file_name=name,
        file_size=10,
        row_count=2,
        min_key=encode_row(low, _TYPES),
        max_key=encode_row(high, _TYPES),
        min_sequence_number=0,
        max_sequence_number=1,
        schema_id=0,
        level=0,
        creation_time_millis=0,
    )


_TYPES = (AtomicType(TypeRoot.VARCHAR, length=20), AtomicType(TypeRoot.INT))


def test_files_are_partitioned_by_their_decoded_keys() -> None:
    a = _file("a", ("k", -5), ("k", 3))
    b = _file("b", ("k", 3), ("k", 900))
    c = _file("c", ("l", -1), ("漢" * 5, 0))
    sections = interval_partition([c, b, a], _TYPES)
    assert [sorted(f.file_name for run in s for f in run.files) for s in sections] == [["a", "b"], ["c"]]
    assert [len(s) for s in sections] == [2, 1]
    assert interval_partition([], _TYPES) == []
    assert interval_partition([b], _TYPES) == [[SortedRun(files=(b,))]]


def test_a_runs_figures_are_the_sums_of_its_files() -> None:
    run = SortedRun(files=(_file("a", ("a", 1), ("a", 2)), _file("b", ("b", 1), ("b", 2))))
    assert (run.row_count, run.byte_size, run.min_sequence_number, run.max_sequence_number) == (4, 20, 0, 1)
    assert run.may_have_deletes
