"""Writers that stall at times, while others commit and few snapshots are retained: no write is lost."""

import random
from pathlib import Path

import pytest

import interbed
from interbed.catalog.client.filesystem import FileSystemCatalog
from interbed.storage.io.api import OBJECT_STORE_CAPABILITIES
from tests.catalog.random_workloads import KINDS, catalogs_through, check_afterwards, create, run_writers
from tests.support.shares import LONG, each_run
from tests.support.stalling_files import StallingFiles
from tests.support.tally import Tally

WRITERS = 5
STEPS = 20 if LONG else 4
PIECES = 48
PLACES = (None, OBJECT_STORE_CAPABILITIES)
"""Capabilities: None for those of the disk, where writers lock each other out, or those of an object store."""


@pytest.mark.parametrize("piece", each_run(range(PIECES), lambda piece: piece < 2))
def test_stalled_writers_lose_no_write(piece: int, tmp_path: Path, tally: Tally) -> None:
    catalog = interbed.load_catalog("lake", warehouse=str(tmp_path))
    assert isinstance(catalog, FileSystemCatalog)
    catalog.create_database("d")
    table = create(catalog, "d.t", KINDS[piece // 2 % len(KINDS)])
    kept = str(1 + piece // 8 % 2)
    few = {"snapshot.num-retained.min": kept, "snapshot.num-retained.max": kept}
    table.store.schemas.change([interbed.SchemaChange.set_option(name, value) for name, value in few.items()])
    files = StallingFiles(catalog._file_io, random.Random(piece), PLACES[piece % 2])
    catalogs = catalogs_through(files, catalog, WRITERS)
    reports = run_writers(lambda number: lambda: catalogs[number].get_table("d.t"), piece, range(WRITERS), STEPS)
    print(files.stalls, [f"writer {number}: {error}" for number, one in enumerate(reports) for error in one.errors])
    files.is_calm = True
    tally("operations that took long", files.stalls)
    wrong = check_afterwards(lambda: catalogs[0].get_table("d.t"), reports)
    assert not wrong, "\n".join(wrong)
