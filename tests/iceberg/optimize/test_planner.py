"""What is worth doing, what stays, and units on their way to other processes: all of it without a table."""

from dataclasses import replace
from decimal import Decimal
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interbed.iceberg.commit.replacement import FileReplacement, NewTableFile, files_to_remove
from interbed.iceberg.meta.live_files import FileContent, LiveFile
from interbed.iceberg.optimize.job import OptimizeSettings
from interbed.iceberg.optimize.planner import Mode, OptimizeAction, plan_units
from interbed.iceberg.optimize.run_unit import UnitOutcome
from interbed.iceberg.optimize.wire import outcome_from_bytes, outcome_to_bytes, unit_from_bytes, unit_to_bytes
from interbed.iceberg.plan import DataTask, DeleteIndex, FileDeletes
from interbed.storage.base.errors import CommitConflictError, InvalidOptionError
from tests.iceberg.plan import files

SETTINGS = OptimizeSettings(target=100, small_files=3)


def data(path: str, number: int = 1, *, size: int = 100, records: int = 100, partition: int = 0) -> LiveFile:
    """A data file of a partition."""
    return files.data(path, number, size=size, records=records, partition=(partition,))


def keys(path: str, number: int, partition: int = 0) -> LiveFile:
    """An equality delete file of a partition."""
    return files.equality(path, number, partition=(partition,), size=1)


def positions(path: str, number: int, of: str) -> LiveFile:
    """A position delete file of one data file."""
    return files.positions(path, number, of, partition=(0,))


def vector(path: str, number: int, of: str) -> LiveFile:
    """A deletion vector."""
    return replace(files.vector(path, number, of), partition=(0,))


def tasks(given: list[LiveFile], deletes: list[LiveFile]) -> list[DataTask]:
    """The files with what applies to them."""
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
def test_each_file_is_in_one_unit_at_most_and_the_order_of_files_does_not_matter(
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
def test_what_is_in_shape_is_left_alone(mode: Mode) -> None:
    assert plan_units(tasks([data("a"), data("b"), data("c", size=20, partition=1)], []), mode, SETTINGS) == ()


def test_small_files_are_put_together_when_there_are_enough_or_they_make_a_whole_one() -> None:
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
def test_properties_that_can_not_be_heeded_are_named(name: str, value: str) -> None:
    with pytest.raises(InvalidOptionError, match=name):
        OptimizeSettings.of({name: value})


def removed(replacement: FileReplacement, some: list[LiveFile], deletes: list[LiveFile]) -> set[str]:
    """The paths of what goes."""
    return {path for path, _ in files_to_remove(replacement, some, deletes, lambda _: False, 9)}


def replaced(**given: object) -> FileReplacement:
    """A replacement over a snapshot."""
    values: dict[str, object] = {"rewritten": (), "converted": (), "added": (), "known": frozenset()}
    return FileReplacement(snapshot_id=1, **{**values, **given})  # type: ignore[arg-type]


def test_keys_stay_as_long_as_a_file_is_left_that_they_may_be_for() -> None:
    some, deletes = [data("a"), data("b")], [keys("d", 2)]
    first, second = tasks(some, deletes)
    known = frozenset({("d", None)})
    assert removed(replaced(rewritten=(first,), known=known), some, deletes) == {"a"}
    assert removed(replaced(converted=(first,), known=known), some, deletes) == set()
    assert removed(replaced(converted=(first, second), known=known), some, deletes) == {"d"}
    assert removed(replaced(rewritten=(first,), converted=(second,), known=known), some, deletes) == {"a", "d"}
    # Of a file that another commit wrote anew, as old as before, nobody has looked at the keys.
    late = [*some, data("c")]
    assert removed(replaced(converted=(first, second), known=known), late, deletes) == set()
    # Keys that came later are for files that were converted as well.
    assert removed(replaced(converted=(first, second), known=known), some, [*deletes, keys("e", 3)]) == {"d"}


def test_deletes_of_nothing_go_by_the_way() -> None:
    assert removed(replaced(), [data("a", 5)], [keys("d", 2), positions("p", 3, "gone")]) == {"d", "p"}


def test_a_vector_is_superseded_by_the_one_that_was_written() -> None:
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


def test_files_that_others_changed_are_a_conflict() -> None:
    some = [data("a"), data("b")]
    (first, _) = tasks(some, [])
    with pytest.raises(CommitConflictError, match="replaced a while"):
        removed(replaced(rewritten=(first,)), [data("b")], [])
    with pytest.raises(CommitConflictError, match="deleted rows of a"):
        removed(replaced(rewritten=(first,)), some, [positions("p", 3, "a")])
    with pytest.raises(CommitConflictError, match="deleted rows of a"):
        removed(replaced(converted=(first,)), some, [vector("v", 3, "a")])
    # Positions on top of positions both hold; and what is of another file is not in the way.
    assert removed(replaced(converted=(first,)), some, [positions("p", 3, "a")]) == set()
    assert removed(replaced(rewritten=(first,)), some, [positions("p", 3, "b")]) == {"a"}


def test_units_and_outcomes_come_back_from_their_bytes() -> None:
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
