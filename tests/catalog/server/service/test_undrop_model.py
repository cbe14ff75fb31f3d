"""Random drops, creates, undrops and purges of tables and databases, compared with a model in memory."""

import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from interbed.catalog.server.service.errors import MetastoreError
from interbed.catalog.server.service.model import (
    MetastoreColumn,
    MetastoreDatabase,
    MetastoreTable,
    SerDe,
    StorageDescriptor,
)
from interbed.catalog.server.service.service import Metastore
from tests.support.databases import open_migrated

STORAGE = StorageDescriptor(columns=(MetastoreColumn(name="id", type="int"),), serde=SerDe())

databases = st.sampled_from(["d", "e"])
names = st.sampled_from(["s", "t", "u"])


@dataclass(kw_only=True)
class ModelEntry:
    """A dropped object: the text of a table's file, or the tables of a database, which have entries of their own."""

    database: str
    name: str | None
    text: str | None = None
    children: list["ModelEntry"] = field(default_factory=list)


class SoftDropMachine(RuleBasedStateMachine):
    """The metastore on SQLite, and dictionaries of what is there and of what is dropped, the latest last."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp())
        self.root = self.directory / "warehouse"
        self.store = open_migrated(f"sqlite:///{self.directory}/metastore.db")
        self.metastore = Metastore(self.store, f"file:{self.root}", undrop_seconds=3600)
        self.metastore.databases.bootstrap()
        self.live: dict[str, dict[str, str]] = {}
        self.dropped: list[ModelEntry] = []
        self.count = 0

    def teardown(self) -> None:
        """Close the database and delete the directory."""
        self.store.close()
        shutil.rmtree(self.directory)

    @rule(database=databases)
    def create_database(self, database: str) -> None:
        """Create a database unless it exists."""
        if database not in self.live:
            self.metastore.databases.create(MetastoreDatabase(name=database))
            self.live[database] = {}

    @rule(database=databases, name=names)
    def create_table(self, database: str, name: str) -> None:
        """Create a table with a file of its own, unless it exists."""
        if name in self.live.get(database, {name: ""}):
            return
        self.count += 1
        self.metastore.tables.create(MetastoreTable(database=database, name=name, storage=STORAGE))
        self.file(database, name).write_text(str(self.count))
        self.live[database][name] = str(self.count)

    @rule(database=databases, name=names, purge=st.booleans())
    def drop_table(self, database: str, name: str, purge: bool) -> None:
        """Drop a table, if it exists."""
        if name not in self.live.get(database, {}):
            return
        self.metastore.tables.drop("hive", database, name, delete_data=True, purge=purge)
        text = self.live[database].pop(name)
        if not purge:
            self.dropped.append(ModelEntry(database=database, name=name, text=text))

    @rule(database=databases)
    def drop_database(self, database: str) -> None:
        """Drop a database with its tables, if it exists."""
        if database not in self.live:
            return
        self.metastore.databases.drop("hive", database, delete_data=True, cascade=True)
        tables = self.live.pop(database)
        children = [ModelEntry(database=database, name=name, text=text) for name, text in sorted(tables.items())]
        self.dropped += [ModelEntry(database=database, name=None, children=children), *children]

    @rule(database=databases, name=names, new_name=st.none() | names)
    def undrop_table(self, database: str, name: str, new_name: str | None) -> None:
        """Put the latest table of a name back, or be refused if there is no room for it."""
        entry = self.latest(database, name)
        if entry is None:
            return
        found = self.metastore.dropped.find("hive", database, name)
        wanted = new_name or name
        if wanted in self.live.get(database, {wanted: ""}):
            with pytest.raises(MetastoreError):
                self.metastore.dropped.undrop(found, new_name=new_name)
            return
        self.metastore.dropped.undrop(found, new_name=new_name)
        assert entry.text is not None
        self.live[database][wanted] = entry.text
        self.forget(entry)

    @rule(database=databases)
    def undrop_database(self, database: str) -> None:
        """Put the latest database of a name back with its tables, or be refused if there is one."""
        entry = self.latest(database, None)
        if entry is None:
            return
        found = self.metastore.dropped.find("hive", database, None)
        if database in self.live:
            with pytest.raises(MetastoreError):
                self.metastore.dropped.undrop(found)
            return
        self.metastore.dropped.undrop(found)
        self.live[database] = {child.name or "": child.text or "" for child in entry.children}
        for each in (entry, *entry.children):
            self.forget(each)

    @rule(database=databases, name=st.none() | names)
    def purge(self, database: str, name: str | None) -> None:
        """Purge the latest object of a name, a database with its tables."""
        entry = self.latest(database, name)
        if entry is None:
            return
        assert self.metastore.dropped.purge(self.metastore.dropped.find("hive", database, name))
        for each in (entry, *entry.children):
            self.forget(each)

    @rule()
    def settle(self) -> None:
        """Settle, which has nothing to do."""
        assert self.metastore.dropped.settle() == 0

    @invariant()
    def the_metastore_has_what_the_model_has(self) -> None:
        """Compare databases, tables and files, and the dropped objects with their files."""
        found = {
            database: {
                name: self.file(database, name).read_text() for name in self.metastore.tables.names("hive", database)
            }
            for database in self.metastore.databases.names("hive")
            if database != "default"
        }
        assert found == self.live
        entries = self.metastore.dropped.select()
        texts = [
            None if each.name is None else (Path((each.aside or "").removeprefix("file:")) / "part-0").read_text()
            for each in entries
        ]
        shown = [(each.database, each.name, text) for each, text in zip(entries, texts, strict=True)]
        assert sorted(shown, key=str) == sorted(
            [(each.database, each.name, each.text) for each in self.dropped], key=str
        )
        aside = {Path(each.aside.removeprefix("file:")) for each in entries if each.aside is not None}
        kept = self.root / ".dropped"
        present = set(kept.iterdir()) if kept.exists() else set()
        assert {path for path in aside if path.parent == kept} == present

    def file(self, database: str, name: str) -> Path:
        """Return the file of a table."""
        return self.root / f"{database}.db" / name / "part-0"

    def latest(self, database: str, name: str | None) -> ModelEntry | None:
        """Return the latest dropped object of a name."""
        same = [each for each in self.dropped if (each.database, each.name) == (database, name)]
        return same[-1] if same else None

    def forget(self, entry: ModelEntry) -> None:
        """Remove an entry from the model, also from the database that it was dropped with."""
        self.dropped = [each for each in self.dropped if each is not entry]
        for each in self.dropped:
            each.children = [child for child in each.children if child is not entry]


TestSoftDrops = SoftDropMachine.TestCase
TestSoftDrops.settings = settings(
    max_examples=10, stateful_step_count=30, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
