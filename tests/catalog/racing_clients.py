"""Clients with catalogs of their own that create, drop, rename, alter and fill the same names at once.

Each client reports the outcome of each of its calls. Afterwards the reports must agree with the catalog: `check_races`.
"""

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

import interbed
from interbed.catalog.client.api import Catalog
from interbed.catalog.client.errors import (
    DatabaseExistsError,
    DatabaseNotEmptyError,
    DatabaseNotFoundError,
    TableExistsError,
    TableNotFoundError,
)
from interbed.storage.base.errors import InterbedError
from interbed.storage.base.types.data_type import AtomicType, TypeRoot
from interbed.storage.meta.schema.change import AddColumn

SHARED = "race.shared"
"""The table into which all clients commit, and whose columns they add."""
TABLES = ("race.a", "race.b", "race.c")
DATABASES = ("race_x", "race_y")
SCHEMA = pa.schema([("client", pa.int64()), ("number", pa.int64())])
OPTIONS = {"bucket": "-1", "commit.max-retries": "100", "commit.max-retry-wait": "200 ms"}
COMMITS = ("commit", "add_column")
STEPS = (*COMMITS, "create", "drop", "rename", "database")
LOST_RACES: tuple[type[InterbedError], ...] = (
    TableExistsError,
    TableNotFoundError,
    DatabaseExistsError,
    DatabaseNotFoundError,
    DatabaseNotEmptyError,
)
"""Outcomes of a call whose name another client has taken or deleted."""


@dataclass(slots=True)
class ClientReport:
    """Outcomes of the calls of one client."""

    committed: list[tuple[int, int | None]] = field(default_factory=list[tuple[int, int | None]])
    """Numbers of the rows that were committed to the shared table, with the snapshot of each."""
    columns: list[str] = field(default_factory=list[str])
    """Columns that were added to the shared table."""
    balance: Counter[str] = field(default_factory=Counter[str])
    """Creations without drops, of each name; a rename drops one name and creates another."""
    lost: Counter[str] = field(default_factory=Counter[str])
    wrong: list[str] = field(default_factory=list[str])


@dataclass(frozen=True, slots=True, kw_only=True)
class RaceRules:
    """The calls that clients make, and what is expected of their outcomes."""

    steps: tuple[str, ...] = STEPS
    refusals: tuple[type[InterbedError], ...] = ()
    """Errors of calls that have changed nothing, besides LOST_RACES."""
    counts_databases: bool = True
    """Whether one of several clients that create or drop a database at once has success."""


class RacingClient:
    """Client with a catalog of its own."""

    def __init__(self, catalog: Catalog, number: int, rules: RaceRules) -> None:
        self._catalog = catalog
        self._number = number
        self._rules = rules
        self._chance = random.Random(number)
        self._next = 0
        self.report = ClientReport()

    def run(self, steps: int) -> ClientReport:
        """Make that many random calls."""
        for _ in range(steps):
            name = self._chance.choice(self._rules.steps)
            try:
                getattr(self, f"_{name}")()
            except LOST_RACES + self._rules.refusals as error:
                self.report.lost[f"{name}: {type(error).__name__}"] += 1
            except (InterbedError, OSError, LookupError, ValueError, TypeError) as error:
                self.report.wrong.append(f"{name} of client {self._number}: {type(error).__name__}: {error}")
        return self.report

    def _commit(self) -> None:
        number = self._next
        self._next += 1
        table = self._catalog.get_table(SHARED)
        snapshot = table.append(pa.table({"client": [self._number], "number": [number]}))
        self.report.committed.append((number, snapshot))

    def _add_column(self) -> None:
        name = f"c{self._number}_{len(self.report.columns)}"
        self._catalog.alter_table(SHARED, AddColumn(name, AtomicType(TypeRoot.INT)))
        self.report.columns.append(name)

    def _create(self) -> None:
        name = self._chance.choice(TABLES)
        try:
            self._catalog.create_table(name, SCHEMA, options=OPTIONS, comment=f"of {self._number}")
        except TableNotFoundError:
            # It was created, and another client dropped or renamed it before it was opened here.
            self.report.lost["create: TableNotFoundError"] += 1
        self.report.balance[name] += 1

    def _drop(self) -> None:
        name = self._chance.choice(TABLES)
        self._catalog.drop_table(name)
        self.report.balance[name] -= 1

    def _rename(self) -> None:
        old, new = self._chance.sample(TABLES, 2)
        self._catalog.rename_table(old, new)
        self.report.balance[old] -= 1
        self.report.balance[new] += 1

    def _database(self) -> None:
        name = self._chance.choice(DATABASES)
        if self._chance.random() < 0.5:
            self._catalog.create_database(name)
            self.report.balance[name] += 1
        else:
            self._catalog.drop_database(name)
            self.report.balance[name] -= 1


def run_clients(
    options: Mapping[str, object], numbers: Sequence[int], steps: int, rules: RaceRules
) -> list[ClientReport]:
    """Run clients of these numbers, each on a thread with a catalog of its own."""

    def run(number: int) -> ClientReport:
        with interbed.load_catalog("race", **options) as catalog:
            return RacingClient(catalog, number, rules).run(steps)

    with ThreadPoolExecutor(len(numbers)) as threads:
        return list(threads.map(run, numbers))


def prepare_races(catalog: Catalog) -> None:
    """Create the database and the shared table of the clients."""
    catalog.create_database("race")
    catalog.create_table(SHARED, SCHEMA, options=OPTIONS)


def check_races(catalog: Catalog, reports: Sequence[ClientReport], rules: RaceRules) -> list[str]:
    """Return what is wrong with the catalog after the clients have ended, whose numbers are those of the reports."""
    wrong = [each for report in reports for each in report.wrong]
    wrong += _check_shared(catalog, reports)
    total: Counter[str] = Counter()
    for report in reports:
        total.update(report.balance)
    listed = {f"race.{name}" for name in catalog.list_tables("race")} - {SHARED}
    databases = set(catalog.list_databases())
    for name in TABLES:
        if total[name] != (name in listed):
            wrong.append(f"{name} was created {total[name]} times more than dropped, and is listed: {name in listed}")
    for name in DATABASES:
        if rules.counts_databases and total[name] != (name in databases):
            wrong.append(f"{name} was created {total[name]} times more than dropped, and exists: {name in databases}")
    for name in sorted(listed):
        try:
            table = catalog.get_table(name)
            table.append(pa.table({"client": [0], "number": [0]}))
            if table.count() != 1:
                wrong.append(f"{name} has rows of another table")
        except (InterbedError, OSError) as error:
            wrong.append(f"{name} is listed, and can't be used: {type(error).__name__}: {error}")
    return wrong


def _check_shared(catalog: Catalog, reports: Sequence[ClientReport]) -> list[str]:
    wrong: list[str] = []
    table = catalog.get_table(SHARED)
    rows: Any = table.scan(["client", "number"]).to_arrow().to_pylist()
    seen = Counter((row["client"], row["number"]) for row in rows)
    expected = Counter((client, number) for client, report in enumerate(reports) for number, _ in report.committed)
    if seen != expected:
        wrong.append(f"commits: lost {sorted(expected - seen)}, not reported {sorted(seen - expected)}")
    ids = sorted(snapshot or 0 for report in reports for _, snapshot in report.committed)
    if ids != list(range(1, len(ids) + 1)):
        wrong.append(f"snapshots were reported as {ids}")
    columns = sorted(name for report in reports for name in report.columns)
    if sorted(table.field_names[2:]) != columns:
        wrong.append(f"columns are {table.field_names}, reported were {columns}")
    if len({field.id for field in table.schema.fields}) != len(table.schema.fields):
        wrong.append(f"field ids are not unique: {table.schema.fields}")
    if table.schema.id != len(columns):
        wrong.append(f"schema {table.schema.id} after {len(columns)} changes")
    checked = table.maintenance.fsck()
    if not checked.is_sound:
        wrong.append(str(checked))
    return wrong
