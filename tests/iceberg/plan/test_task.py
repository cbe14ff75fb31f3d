"""Scan tasks of data files: files that share deletes are in one task, and tasks have about the same size."""

from hypothesis import given
from hypothesis import strategies as st

from interbed.iceberg.plan import DataTask, FileDeletes, tasks_of
from tests.iceberg.plan.files import data, equality

MIB = 1 << 20


def task(path: str, *deletes: str, size: int = 4 * MIB) -> DataTask:
    """Return a data file with equality deletes."""
    return DataTask(
        file=data(path, size=size), deletes=FileDeletes(equality=tuple(equality(name, 2, size=1) for name in deletes))
    )


def test_files_that_share_deletes_are_in_one_task_and_each_delete_file_is_read_once() -> None:
    files = [task(f"f{number}", *(f"d{other}" for other in range(6))) for number in range(6)]
    (found,) = tasks_of(files)
    assert len(found.files) == 6
    assert len(found.delete_files) == 6


def test_files_that_share_deletes_transitively_are_in_one_task() -> None:
    found = tasks_of([task("a", "1"), task("b", "2"), task("c", "1", "2"), task("d", "3")], target=12 * MIB)
    assert sorted(sorted(each.file.path for each in one.files) for one in found) == [["a", "b", "c"], ["d"]]


def test_a_group_that_is_too_large_for_a_task_is_split() -> None:
    found = tasks_of([task(f"f{number}", "d", size=60 * MIB) for number in range(5)], target=128 * MIB)
    assert [len(one.files) for one in found] == [2, 2, 1]
    assert [len(one.delete_files) for one in found] == [1, 1, 1]


@given(
    st.lists(st.tuples(st.integers(0, 300), st.sets(st.sampled_from("abcdef"), max_size=2)), max_size=30),
    st.integers(8, 200),
)
def test_every_file_is_in_one_task_and_task_sizes_are_balanced(files: list[tuple[int, set[str]]], target: int) -> None:
    given_files = [task(str(number), *sorted(d), size=size * MIB) for number, (size, d) in enumerate(files)]
    found = tasks_of(given_files, target * MIB)
    assert sorted(int(f.file.path) for one in found for f in one.files) == list(range(len(files)))
    assert found == tasks_of(given_files, target * MIB)
    largest = max((f.cost for f in given_files), default=0)
    for one in found:
        assert sum(f.cost for f in one.files) <= max(target * MIB, largest)
