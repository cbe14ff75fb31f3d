"""A table may be renamed before any request of an operation to the file system.

The operation is done and reports so, or is not done and reports that.
"""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from interbed.catalog.client.errors import TableNotFoundError
from interbed.storage.base.errors import CommitError, CommitStateUnknownError, InterbedError, SnapshotNotFoundError
from interbed.storage.io.api import FileIO, WrappedFileIO
from interbed.storage.io.local import LocalFileIO
from tests.storage.table.crashes.campaign import Operation, Rows, rows_of
from tests.storage.table.crashes.kinds import KINDS, NAME, Kind, new_table
from tests.storage.table.crashes.operations import UPKEEP, WRITES, can, history
from tests.support.dying_disk import opened
from tests.support.tally import Tally

MOVED = "d.moved"
REQUESTS = (
    "read_bytes",
    "open_input",
    "open_output",
    "create_exclusive",
    "overwrite",
    "sync",
    "exists",
    "size",
    "list",
    "make_directories",
    "delete",
    "delete_quietly",
    "rename",
)
OPERATIONS = {**WRITES, **{name: each for name, each in UPKEEP.items() if name not in ("alter",)}}


class MovingFileIO(WrappedFileIO):
    """Moves a directory before the request with a given number, counted from 0; None means never."""

    moves_before: int | None = None

    def __init__(self, source: str, target: str) -> None:
        super().__init__(LocalFileIO())
        self.requests: list[str] = []
        self._paths = source, target

    def requested(self, what: str) -> None:
        """Count a request, and move the directory before the chosen one."""
        if len(self.requests) == self.moves_before:
            os.rename(*self._paths)
        self.requests.append(what)


def _counted(name: str) -> Callable[..., Any]:
    def call(self: MovingFileIO, *arguments: Any, **named: Any) -> Any:
        self.requested(f"{name} {arguments[0]}")
        return getattr(self.inner, name)(*arguments, **named)

    return call


for _name in REQUESTS:
    setattr(MovingFileIO, _name, _counted(_name))


def act(warehouse: Path, operation: Operation, moves_before: int | None) -> tuple[MovingFileIO, InterbedError | None]:
    """Run the operation once; return the FileIO with the counted requests, and the error, if any."""
    catalog = opened(warehouse)
    location = catalog.get_table(NAME).location
    moving = MovingFileIO(location, f"{os.path.dirname(location)}/moved")
    catalog._file_io = cast(FileIO, moving)
    table = catalog.get_table(NAME)
    moving.requests.clear()
    moving.moves_before = moves_before
    try:
        operation.act(catalog, table)
    except InterbedError as error:
        return moving, error
    return moving, None


def _allowed(error: InterbedError | None, before: Rows, done: tuple[Rows, Rows]) -> tuple[Rows, ...]:
    """Return the rows that the moved table may have after an operation with that outcome."""
    if error is None:
        return done
    if isinstance(error, CommitStateUnknownError):
        return (before, *done)
    # Operations of the catalog may report a missing table instead.
    return (before,) if isinstance(error, CommitError | TableNotFoundError | SnapshotNotFoundError) else ()


def moved_before_each(kind: Kind, operation: Operation, scratch: Path, *, tries: int | None) -> tuple[int, list[str]]:
    """Return the number of requests before which the table was moved, and the failures."""
    template, whole = scratch / "template", scratch / "whole"
    catalog = opened(template)
    catalog.create_database("d")
    history(new_table(catalog, kind))
    operation.prepare(catalog, catalog.get_table(NAME))
    before = rows_of(catalog.get_table(NAME))
    shutil.copytree(template, whole)
    counting, error = act(whole, operation, None)
    assert error is None
    after = rows_of(opened(whole).get_table(NAME))
    opened(whole).get_table(NAME).compact(full=True)
    settled = rows_of(opened(whole).get_table(NAME))
    number = len(counting.requests)
    points = range(number) if tries is None else sorted({number * (2 * n + 1) // (2 * tries) for n in range(tries)})
    failures: list[str] = []
    for point in points:
        warehouse = scratch / "moved"
        shutil.copytree(template, warehouse)
        moving, error = act(warehouse, operation, point)
        if len(moving.requests) > point:
            allowed = _allowed(error, before, (after, settled))
            found = rows_of(opened(warehouse).get_table(MOVED))
            if found not in allowed:
                # In some tables, rows that were committed without their compaction are visible after the next one.
                opened(warehouse).get_table(MOVED).compact(full=True)
                found = rows_of(opened(warehouse).get_table(MOVED))
            if found not in allowed:
                where = f"moved before request {point} of {number}, {moving.requests[point]}"
                failures.append(f"{where}: {error!r}, and {found}")
        shutil.rmtree(warehouse)
    return len(points), failures


@pytest.mark.sample(8)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_operation_on_a_renamed_table_reports_whether_it_was_done(
    operation: str, tmp_path: Path, tally: Tally
) -> None:
    able = [name for name, kind in KINDS.items() if can(kind, operation)]
    kind = KINDS[able[list(OPERATIONS).index(operation) % len(able)]]
    points, failures = moved_before_each(kind, OPERATIONS[operation], tmp_path, tries=6)
    tally("requests before which a table was renamed", points)
    assert not failures, "\n".join(failures[:5])


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "operation"), [(name, each) for name in KINDS for each in OPERATIONS if can(KINDS[name], each)]
)
def test_a_table_may_be_renamed_before_any_request(kind: str, operation: str, tmp_path: Path, tally: Tally) -> None:
    points, failures = moved_before_each(KINDS[kind], OPERATIONS[operation], tmp_path, tries=None)
    tally("requests before which a table was renamed", points)
    assert not failures, "\n".join(failures[:5])
