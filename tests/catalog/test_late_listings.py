"""Writers on an object store whose listings are late, for new files and for deleted ones, and whose hints are stale."""

import random
from pathlib import Path

import pytest

import interbed
from interbed.catalog.client.filesystem import FileSystemCatalog
from tests.catalog.random_workloads import KINDS, catalogs_through, check_afterwards, create, run_writers
from tests.support.late_store import LateStore
from tests.support.shares import each_run
from tests.support.tally import Tally

WRITERS = 4
STEPS = 12
PIECES = 40


@pytest.mark.parametrize("piece", each_run(range(PIECES), lambda piece: piece < len(KINDS)))
def test_late_listings_lose_no_write(piece: int, tmp_path: Path, tally: Tally) -> None:
    catalog = interbed.load_catalog("lake", warehouse=str(tmp_path))
    assert isinstance(catalog, FileSystemCatalog)
    catalog.create_database("d")
    create(catalog, "d.t", KINDS[piece % len(KINDS)])
    store = LateStore(catalog._file_io, random.Random(piece))
    catalogs = catalogs_through(store, catalog, WRITERS)
    reports = run_writers(lambda number: lambda: catalogs[number].get_table("d.t"), piece, range(WRITERS), STEPS)
    errors = [f"writer {number}: {error}" for number, one in enumerate(reports) for error in one.errors]
    print(store.late, errors)
    store.is_late = False
    tally("listings and hints that were not true", store.late)
    wrong = check_afterwards(lambda: catalogs[0].get_table("d.t"), reports)
    assert not wrong, "\n".join(wrong)
