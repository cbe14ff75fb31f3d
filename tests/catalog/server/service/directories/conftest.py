"""Fixtures for hostile locations: a metastore, and foreign files."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import event

from interbed.catalog.server.database import schema
from interbed.catalog.server.database.session import SqlRepository
from interbed.catalog.server.service.model import (
    MetastoreDatabase,
    MetastorePartition,
)
from interbed.catalog.server.service.service import Metastore
from interbed.catalog.server.service.undrop.drops import Trash
from tests.catalog.server.service.directories.hostile_trials import KEYS, STORAGE, table
from tests.support import shares
from tests.support.databases import prepare
from tests.support.hostile_locations import ProtectedTree


@pytest.fixture
def precious(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ProtectedTree:
    """Create the tree of files that must survive."""
    made = ProtectedTree(root=tmp_path / "outer")
    made.make()
    monkeypatch.chdir(made.working_directory)
    return made


@pytest.fixture(params=["deletes", "trash"] if shares.LONG else ["deletes"])
def metastore(request: pytest.FixtureRequest, precious: ProtectedTree) -> Iterator[Metastore]:
    """Open a metastore with foreign objects."""
    prepare(f"sqlite:///{precious.database}")
    store = SqlRepository(f"sqlite:///{precious.database}")
    # Durability does not matter here, and each location causes some ten commits.
    event.listen(store.engine, "connect", lambda connection, _: connection.execute("PRAGMA synchronous=OFF"))
    schema.upgrade(store.engine)
    trash = Trash(f"file:{precious.warehouse}/.Trash", keep_seconds=60) if request.param == "trash" else None
    made = Metastore(store, f"file:{precious.warehouse}", trash=trash)
    made.databases.bootstrap()
    made.databases.create(MetastoreDatabase(name="keep"))
    made.tables.create(table("a", database="keep"))
    made.tables.create(table("p", database="keep", partition_keys=KEYS))
    made.partitions.add(("hive", "keep", "p"), [MetastorePartition(values=("1",), storage=STORAGE)])
    made.tables.create(table("far", f"file:{precious.root}/far/t", database="keep", parameters={"EXTERNAL": "TRUE"}))
    (precious.warehouse / "keep.db" / "a" / "sub").mkdir()
    for directory in ("wh/keep.db/a", "wh/keep.db/a/sub", "wh/keep.db/p/dt=1", "far/t"):
        (precious.root / directory / "file").write_text("neighbour")
    yield made
    store.close()
