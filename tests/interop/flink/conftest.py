"""Catalogs shared by Flink and interbed: over interbed's metastore, and in a file system."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import interbed
from interbed.storage.base.types.data_type import type_to_json
from interbed.storage.table.table import Table
from tests.support.peers.flink import Flink, FlinkSession
from tests.support.peers.java import PeerRows
from tests.support.peers.json import PeerType, comparable, normalised, parse_type, table_to_rows
from tests.support.servers.metastore import metastore
from tests.support.servers.paimon_rest import rest_options
from tests.support.shares import each_run
from tests.support.sql_script import run_script

KINDS = ("+I", "-U", "+U", "-D")

Change = tuple[str, list[Any]]
"""The kind of a change, and its row as JSON."""


@dataclass(frozen=True)
class Server:
    """A metastore of interbed, used by Flink and by interbed: by Thrift, and by Paimon's REST interface."""

    uri: str
    warehouse: Path
    rest_uri: str

    @property
    def options(self) -> dict[str, str]:
        """Options of a catalog. Java Paimon commits with a lock; otherwise it may replace a snapshot of the same
        number.
        """
        warehouse = f"file:{self.warehouse}"
        return {"metastore": "hive", "uri": self.uri, "warehouse": warehouse, "lock.enabled": "true"}

    @property
    def rest_options(self) -> dict[str, str]:
        """Options of a catalog behind the REST interface. The server accepts its warehouse's location as the name."""
        return rest_options(self.rest_uri, f"file:{self.warehouse}")


@dataclass(frozen=True)
class SharedLake:
    """The current catalog `lake` of a Flink session, with the database `db`, and interbed's catalog of the tables."""

    flink: FlinkSession
    catalog: interbed.Catalog
    options: dict[str, str]

    @property
    def directory(self) -> Path:
        """The directory of the warehouse."""
        return Path(self.options["warehouse"].removeprefix("file:"))

    def script(self, text: str) -> int:
        """Run statements in Flink and compare their answers, in the form of tests.support.sql_script."""
        return run_script(text, lambda sql: self.flink.sql(sql).rows)

    def table(self, name: str) -> Table:
        """Return interbed's table of `db`."""
        found = self.catalog.get_table(f"db.{name}")
        assert isinstance(found, Table)
        return found


def catalog_statement(name: str, options: dict[str, str]) -> str:
    """Return Flink's statement for a catalog of Paimon with these options."""
    given = ",\n".join(f"  '{key}' = '{value}'" for key, value in {"type": "paimon", **options}.items())
    return f"CREATE CATALOG {name} WITH (\n{given}\n)"


def types_of(table: Table) -> tuple[PeerType, ...]:
    """Return the types of a table's columns in the form of the peers."""
    return tuple(parse_type(type_to_json(field.type)) for field in table.fields)


def streamed(table: Table, options: dict[str, str]) -> list[Change]:
    """Read a stream of interbed from the position in the options to the newest snapshot."""
    types = types_of(table)
    told: list[Change] = []
    for changes in table.copy(options).stream(idle_seconds=0):
        found = changes.to_arrow()
        numbers: list[Any] = found.column("_row_kind").to_pylist()
        rows = table_to_rows(found.drop_columns(["_row_kind"]), types)
        told += [(KINDS[number], row) for number, row in zip(numbers, rows, strict=True)]
    return told


def by_key(changes: Iterable[Change], types: Sequence[PeerType], key: int = 0) -> dict[Any, list[Change]]:
    """Return the changes of each key in order; changes of different buckets have no order."""
    found: dict[Any, list[Change]] = {}
    for kind, row in changes:
        values = [normalised(value, of) for value, of in zip(row, types, strict=True)]
        found.setdefault(row[key], []).append((kind, values))
    return found


def rows_after(changes: Iterable[Change], types: Sequence[PeerType], key: int = 0) -> list[list[Any]]:
    """Return the rows that remain after changes, in the form of `comparable`."""
    rows: dict[Any, list[Any]] = {}
    for kind, row in changes:
        if kind in ("+I", "+U"):
            rows[row[key]] = row
        elif kind == "-D":
            rows.pop(row[key], None)
    return comparable(rows.values(), types)


def read(table: Table, **arguments: Any) -> PeerRows:
    """Read a table by interbed, in the form of the peers."""
    found = table.scan(**arguments).to_arrow()
    types = types_of(table)
    rows = table_to_rows(found, types)
    return PeerRows(names=tuple(found.column_names), types=types, rows=rows, kinds=["+I"] * len(rows))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A metastore that the module shares."""
    warehouse = tmp_path_factory.mktemp("lake")
    with metastore(warehouse=f"file:{warehouse}") as uri:
        yield Server(uri, warehouse, uri.paimon)


@pytest.fixture
def hive(flink: Flink, server: Server) -> Iterator[SharedLake]:
    """Catalog over interbed's metastore."""
    with shared_lake(flink, server.options) as lake:
        yield lake


@pytest.fixture(params=each_run(["hive", "filesystem", "rest"], lambda kind: kind == "hive"))
def lake(request: pytest.FixtureRequest, flink: Flink, server: Server, tmp_path: Path) -> Iterator[SharedLake]:
    """Catalog over interbed's metastore, by Thrift or REST, or one of directories."""
    options = {
        "hive": server.options,
        "rest": server.rest_options,
        "filesystem": {"warehouse": f"file:{tmp_path}"},
    }[request.param]
    with shared_lake(flink, options) as shared:
        yield shared


@contextmanager
def shared_lake(flink: Flink, options: dict[str, str]) -> Iterator[SharedLake]:
    """Open a session with the catalog `lake` of these options and an empty database `db`; statements wait for their
    end.

    The catalog caches nothing, so it sees changes by interbed immediately.
    """
    options = {**options, "cache-enabled": "false"}
    with flink.session() as session, interbed.CatalogFactory.create(options) as catalog:
        session.sql(catalog_statement("lake", options))
        session.sql("USE CATALOG lake")
        session.sql("CREATE DATABASE db")
        session.run("USE db;\nSET 'execution.runtime-mode' = 'batch';\nSET 'table.dml-sync' = 'true';")
        try:
            yield SharedLake(session, catalog, options)
        finally:
            for name in catalog.list_databases():
                if name != "default":
                    catalog.drop_database(name, cascade=True)
