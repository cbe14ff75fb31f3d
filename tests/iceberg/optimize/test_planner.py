"""Planning without a table: choice of files, files that stay, and units on their way to other processes."""

from dataclasses import replace
from decimal import Decimal
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interbed.iceberg.commit.replace import FileReplacement, NewTableFile, files_to_remove
from interbed.iceberg.meta.live_files import FileContent, LiveFile
from interbed.iceberg.optimize.compact import outcome_from_bytes, outcome_to_bytes, unit_from_bytes, unit_to_bytes
from interbed.iceberg.optimize.planner import Mode, OptimizeAction, OptimizeSettings, plan_units
from interbed.iceberg.optimize.run_unit import UnitOutcome
from interbed.iceberg.plan import DataTask, DeleteIndex, FileDeletes
from interbed.storage.base.errors import CommitConflictError, InvalidOptionError
from tests.iceberg.plan import files

SETTINGS = OptimizeSettings(target=100, small_files=3)


def data(path: str, number: int = 1, *, size: int = 100, records: int = 100, partition: int = 0) -> LiveFile:
    """Return a data file of a partition."""
    return files.data(path, number, size=size, records=records, partition=(partition,))


def keys(path: str, number: int, partition: int = 0) -> LiveFile:
    """Return an equality delete file of a partition."""
    return files.equality(path, number, partition=(partition,), size=1)


def positions(path: str, number: int, of: str) -> LiveFile:
    """Return a position delete file of one data file."""
    return files.positions(path, number, of, partition=(0,))


def vector(path: str, number: int, of: str) -> LiveFile:
    """Return the deletion vector of one data file."""
    return replace(files.vector(path, number, of), partition=(0,))


def tasks(given: list[LiveFile], deletes: list[LiveFile]) -> list[DataTask]:
    """Return the data files with the deletes that apply to them."""
    index = DeleteIndex(deletes, lambda _: False)
    return [DataTask(file=file, deletes=index.of(file)) for file in given]


FILES = st.lists(
    st.builds(
        data,
        st.uuids().map(str),
        st.integers(1, 5),
        size=st.integers(1, 250),
        records=st.integers(0, 100),
        partition=st.integers(0, 2),
    ),
    max_size=12,
)
KEYS = st.lists(st.builds(keys, st.uuids().map(str), st.integers(1, 6), st.integers(0, 2)), max_size=5)


@given(FILES, KEYS, st.sampled_from(Mode), st.randoms())
def test_each_file_is_in_at_most_one_unit_whatever_the_order_of_the_files(
    some: list[LiveFile], deletes: list[LiveFile], mode: Mode, dice: object
) -> None:
    planned = tasks(some, deletes)
    units = plan_units(planned, mode, SETTINGS)
    taken = [task.file.path for unit in units for task in unit.files]
    assert len(taken) == len(set(taken))
    assert all(len({task.file.partition for task in unit.files}) == 1 for unit in units)
    with_keys = {task.file.path for task in planned if task.deletes.equality}
    assert with_keys <= set(taken)
    shuffled = list(planned)
    dice.shuffle(shuffled)  # type: ignore[attr-defined]
    assert plan_units(shuffled, mode, SETTINGS) == units
    if mode is Mode.FULL:
        assert all(unit.action is OptimizeAction.REWRITE for unit in units)


@pytest.mark.parametrize("mode", list(Mode))
def test_files_without_need_for_optimization_are_left_alone(mode: Mode) -> None:
    assert plan_units(tasks([data("a"), data("b"), data("c", size=20, partition=1)], []), mode, SETTINGS) == ()


def test_small_files_are_merged_when_there_are_enough_or_they_fill_a_whole_file() -> None:
    few = [data("a", size=10), data("b", size=20)]
    assert plan_units(tasks(few, []), Mode.MINOR, SETTINGS) == ()
    (unit,) = plan_units(tasks([*few, data("c", size=1)], []), Mode.MINOR, SETTINGS)
    assert (unit.reason, len(unit.files)) == ("3 small files", 3)
    (unit,) = plan_units(tasks([data("a", size=60), data("b", size=50)], []), Mode.MINOR, SETTINGS)
    assert len(unit.files) == 2


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("write.target-file-size-bytes", "much"),
        ("self-optimizing.major.trigger.duplicate-ratio", "-1"),
        ("self-optimizing.minor.trigger.file-count", "1"),
    ],
)
def test_errors_name_the_invalid_property(name: str, value: str) -> None:
    with pytest.raises(InvalidOptionError, match=name):
        OptimizeSettings.of({name: value})


def removed(replacement: FileReplacement, some: list[LiveFile], deletes: list[LiveFile]) -> set[str]:
    """Return the paths of the files that the replacement removes."""
    return {path for path, _ in files_to_remove(replacement, some, deletes, lambda _: False, 9)}


def replaced(**given: object) -> FileReplacement:
    """Return a replacement of files of snapshot 1."""
    values: dict[str, object] = {"rewritten": (), "converted": (), "added": (), "known": frozenset()}
    return FileReplacement(snapshot_id=1, **{**values, **given})  # type: ignore[arg-type]


def test_equality_deletes_stay_while_an_unconverted_file_remains_that_they_may_apply_to() -> None:
    some, deletes = [data("a"), data("b")], [keys("d", 2)]
    first, second = tasks(some, deletes)
    known = frozenset({("d", None)})
    assert removed(replaced(rewritten=(first,), known=known), some, deletes) == {"a"}
    assert removed(replaced(converted=(first,), known=known), some, deletes) == set()
    assert removed(replaced(converted=(first, second), known=known), some, deletes) == {"d"}
    assert removed(replaced(rewritten=(first,), converted=(second,), known=known), some, deletes) == {"a", "d"}
    # The keys were not applied to a file that another commit rewrote and that is as old as before.
    late = [*some, data("c")]
    assert removed(replaced(converted=(first, second), known=known), late, deletes) == set()
    # Keys that were committed later apply to the converted files, too.
    assert removed(replaced(converted=(first, second), known=known), some, [*deletes, keys("e", 3)]) == {"d"}


def test_deletes_that_apply_to_no_file_are_removed_as_well() -> None:
    assert removed(replaced(), [data("a", 5)], [keys("d", 2), positions("p", 3, "gone")]) == {"d", "p"}


def test_a_deletion_vector_is_replaced_by_the_newly_written_one() -> None:
    some, deletes = [data("a")], [vector("v", 2, "a"), keys("d", 3)]
    made = NewTableFile(
        path="w",
        content=FileContent.POSITION_DELETES,
        file_format="puffin",
        spec_id=0,
        partition=(0,),
        records=2,
        size=9,
        referenced="a",
        offset=4,
        length=5,
    )
    known = frozenset({("v", 4), ("d", None)})
    assert removed(replaced(converted=tuple(tasks(some, deletes)), added=(made,), known=known), some, deletes) == {
        "v",
        "d",
    }


def test_files_changed_by_other_commits_are_a_conflict() -> None:
    some = [data("a"), data("b")]
    (first, _) = tasks(some, [])
    with pytest.raises(CommitConflictError, match="replaced a while"):
        removed(replaced(rewritten=(first,)), [data("b")], [])
    with pytest.raises(CommitConflictError, match="deleted rows of a"):
        removed(replaced(rewritten=(first,)), some, [positions("p", 3, "a")])
    with pytest.raises(CommitConflictError, match="deleted rows of a"):
        removed(replaced(converted=(first,)), some, [vector("v", 3, "a")])
    # Position deletes add up; position deletes of other files do not conflict.
    assert removed(replaced(converted=(first,)), some, [positions("p", 3, "a")]) == set()
    assert removed(replaced(rewritten=(first,)), some, [positions("p", 3, "b")]) == {"a"}


def test_units_and_outcomes_keep_their_values_in_a_round_trip_through_bytes() -> None:
    value = (None, 1, 2.5, "ä", b"\0\xff", Decimal("1.50"), UUID(int=7), True, "NaN")
    file = LiveFile(
        path="a",
        content=FileContent.DATA,
        file_format="parquet",
        spec_id=3,
        partition=value,
        records=5,
        size=7,
        sequence_number=2,
        lower_path=b"\xe4",
        first_row_id=0,
    )
    task = DataTask(file=file, deletes=FileDeletes(vector=vector("v", 3, "a"), equality=(keys("d", 4),)))
    (unit,) = plan_units([task], Mode.FULL, SETTINGS)
    assert unit_from_bytes(unit_to_bytes(unit)) == unit
    made = NewTableFile(
        path="n",
        content=FileContent.DATA,
        file_format="parquet",
        spec_id=3,
        partition=value,
        records=1,
        size=2,
        sequence_number=0,
        metrics={"lower_bounds": {1: b"\0"}, "value_counts": {1: 5}, "split_offsets": [4]},
    )
    outcome = UnitOutcome(rewritten=(task,), converted=(task, task), added=(made,))
    assert outcome_from_bytes(outcome_to_bytes(outcome)) == outcome
