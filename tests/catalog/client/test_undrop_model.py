"""Random drops, undrops and purges of a file-system catalog, compared with a model in memory."""

import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from interbed.catalog.client.errors import CatalogError
from interbed.catalog.client.files.dropped_directories import EXPIRED_AT_ONCE
from interbed.catalog.client.filesystem import FileSystemCatalog
from interbed.catalog.client.options import CatalogOptions

COLUMNS = pa.schema((pa.field("id", pa.int64()),))
KEPT_SECONDS = 100

databases = st.sampled_from(["d", "e"])
names = st.sampled_from(["s", "t"])


@dataclass(kw_only=True)
class ModelDrop:
    """A dropped table with its comment, or a database with the comments of its tables; `at` is its time in seconds."""

    database: str
    name: str | None
    at: int
    comment: str = ""
    tables: dict[str, str] = field(default_factory=dict)

    @property
    def shown(self) -> list[tuple[str, str | None]]:
        """The entries that the list of dropped objects has of it."""
        return [(self.database, self.name), *((self.database, table) for table in sorted(self.tables))]


class UndropMachine(RuleBasedStateMachine):
    """A warehouse, and dictionaries of what exists and of what is dropped, the latest last."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp())
        self.now = 1_000_000_000
        options = CatalogOptions({"warehouse": str(self.directory), "undrop-seconds": str(KEPT_SECONDS)})
        self.catalog = FileSystemCatalog("lake", options, clock=lambda: self.now * 1000)
        self.live: dict[str, dict[str, str]] = {}
        self.dropped: list[ModelDrop] = []
        self.count = 0

    def teardown(self) -> None:
        """Delete the directory of the catalog."""
        shutil.rmtree(self.directory)

    def _refused(self, call: Callable[[], object]) -> None:
        with pytest.raises(CatalogError):
            call()

    def _later(self, seconds: int = 1) -> None:
        self.now += seconds

    def _expire(self) -> None:
        """Remove what the drop that was just made purges."""
        gone = [entry for entry in self.dropped if entry.at + KEPT_SECONDS <= self.now][:EXPIRED_AT_ONCE]
        self.dropped = [entry for entry in self.dropped if entry not in gone]

    @rule(database=databases)
    def create_database(self, database: str) -> None:
        self.catalog.create_database(database, ignore_if_exists=True)
        self.live.setdefault(database, {})

    @rule(database=databases, name=names)
    def create_table(self, database: str, name: str) -> None:
        self.count += 1
        comment = str(self.count)

        def create() -> None:
            self.catalog.create_table(f"{database}.{name}", COLUMNS, comment=comment)

        if database not in self.live or name in self.live[database]:
            self._refused(create)
        else:
            create()
            self.live[database][name] = comment

    @rule(database=databases, name=names, purge=st.booleans())
    def drop_table(self, database: str, name: str, purge: bool) -> None:
        self._later()

        def drop() -> None:
            self.catalog.drop_table(f"{database}.{name}", purge=purge)

        if name not in self.live.get(database, {}):
            self._refused(drop)
            return
        drop()
        comment = self.live[database].pop(name)
        if not purge:
            self.dropped.append(ModelDrop(database=database, name=name, at=self.now, comment=comment))
            self._expire()

    @rule(database=databases)
    def drop_database(self, database: str) -> None:
        self._later()

        def drop() -> None:
            self.catalog.drop_database(database, cascade=True)

        if database not in self.live:
            self._refused(drop)
            return
        drop()
        tables = self.live.pop(database)
        self.dropped.append(ModelDrop(database=database, name=None, at=self.now, tables=tables))
        self._expire()

    @rule(database=databases, name=names, new_name=st.none() | names)
    def undrop_table(self, database: str, name: str, new_name: str | None) -> None:
        def undrop() -> None:
            self.catalog.undrop_table(f"{database}.{name}", new_name=new_name)

        found = next(
            (e for e in reversed(self.dropped) if e.database == database and (e.name == name or name in e.tables)), None
        )
        target = new_name or name
        if found is None or database not in self.live or target in self.live[database]:
            self._refused(undrop)
            return
        undrop()
        if found.name is None:
            self.live[database][target] = found.tables.pop(name)
        else:
            self.live[database][target] = found.comment
            self.dropped.remove(found)

    @rule(database=databases)
    def undrop_database(self, database: str) -> None:
        def undrop() -> None:
            self.catalog.undrop_database(database)

        found = next((e for e in reversed(self.dropped) if (e.database, e.name) == (database, None)), None)
        if found is None or database in self.live:
            self._refused(undrop)
            return
        undrop()
        self.live[database] = found.tables
        self.dropped.remove(found)

    @rule(database=databases, name=st.none() | names)
    def purge(self, database: str, name: str | None) -> None:
        def purge() -> None:
            assert self.catalog.purge_dropped(database if name is None else f"{database}.{name}") == 1

        found = next(
            (e for e in reversed(self.dropped) if e.database == database and (e.name == name or name in e.tables)), None
        )
        if found is None or found.name != name:
            # A table that was dropped with its database is purged with it.
            self._refused(purge)
            return
        purge()
        self.dropped.remove(found)

    @rule(seconds=st.sampled_from([10, KEPT_SECONDS // 2, KEPT_SECONDS]))
    def wait(self, seconds: int) -> None:
        self._later(seconds)

    @rule()
    def purge_expired(self) -> None:
        gone = [entry for entry in self.dropped if entry.at + KEPT_SECONDS <= self.now]
        assert self.catalog.purge_dropped(only_expired=True) == len(gone)
        self.dropped = [entry for entry in self.dropped if entry not in gone]

    @invariant()
    def it_agrees_with_the_model(self) -> None:
        assert self.catalog.list_databases() == sorted(self.live)
        found = {
            database: {
                name: self.catalog.get_table(f"{database}.{name}").schema.comment or ""
                for name in self.catalog.list_tables(database)
            }
            for database in self.live
        }
        assert found == self.live
        shown = [(entry.database, entry.name) for entry in self.catalog.list_dropped()]
        assert shown == [pair for entry in reversed(self.dropped) for pair in entry.shown]


UndropMachine.TestCase.settings = settings(
    max_examples=5, stateful_step_count=20, deadline=None, suppress_health_check=list(HealthCheck)
)
TestUndrop = UndropMachine.TestCase
