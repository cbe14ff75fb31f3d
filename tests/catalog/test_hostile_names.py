"""No name that is passed to any call of the Python API refers to a path outside of its directory."""

import copy
import dataclasses
import pickle
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

import interbed
from interbed import pypaimon as pp
from interbed.catalog.client.api import Catalog, View
from interbed.catalog.client.identifier import Identifier, TableName, parse_table_name
from interbed.ingest.flow.changes import SourceTable
from interbed.ingest.tables.names import TableNames
from interbed.storage.base.errors import InvalidInputError
from interbed.storage.meta.schema.change import SetOption
from interbed.storage.meta.schema.table_schema import Schema
from interbed.storage.table.table import Table
from tests.support.hostile_names import LEADING_OUT, NAMES, TABLES
from tests.support.sentinel import Sentinel
from tests.support.shares import LONG
from tests.support.tally import Tally

COLUMNS = pa.schema((pa.field("id", pa.int64()), pa.field("dt", pa.string())))
SCHEMA = Schema.from_pyarrow_schema(COLUMNS)
ROWS = pa.table({"id": [1], "dt": ["x"]})
LESS = 1 if LONG else 5
"""Share of names: each call takes every fifth name, with another offset than the call before, except in long runs."""


@pytest.fixture
def sentinel(tmp_path: Path) -> Sentinel:
    """Create foreign files around a warehouse."""
    return Sentinel.made_in(tmp_path)


@pytest.fixture
def catalog(sentinel: Sentinel) -> Iterator[Catalog]:
    """Open a catalog with the table d.ok."""
    with interbed.load_catalog("lake", warehouse=str(sentinel.warehouse)) as opened:
        opened.create_database("d")
        opened.create_table("d.ok", SCHEMA).append(ROWS)
        yield opened


pytestmark = pytest.mark.longer


def refused(call: Callable[[], object]) -> None:
    with pytest.raises(InvalidInputError) as caught:
        call()
    assert "Traceback" not in str(caught.value)


def test_a_table_name_with_a_path_is_refused_and_foreign_files_are_kept(catalog: Catalog, sentinel: Sentinel) -> None:
    before = sentinel.outside()
    refused(lambda: catalog.create_table(Identifier("d", "../../precious"), SCHEMA))
    refused(lambda: catalog.drop_table(Identifier("d", "../../precious")))
    refused(lambda: catalog.rename_table("d.ok", Identifier("d", "../../moved")))
    assert sentinel.outside() == before
    assert catalog.list_tables("d") == ["ok"]


def test_every_constructor_of_an_identifier_checks_it(tally: Tally) -> None:
    good = Identifier("d", "ok")
    for name in NAMES[::LESS]:
        for make in (
            lambda name=name: Identifier("d", name),
            lambda name=name: Identifier(name, "t"),
            lambda name=name: Identifier.create("d", name),
            lambda name=name: Identifier("d", "t", branch=name),
            lambda name=name: Identifier("d", "t", system_table=name),
            lambda name=name: Identifier.parse(("d", name)),
            lambda name=name: Identifier.parse((name, "t")),
            lambda name=name: Identifier.from_string(f"`d`.`{name}`"),
            lambda name=name: dataclasses.replace(good, table=name),
            lambda name=name: dataclasses.replace(good, database=name),
            lambda name=name: TableName.parse(("d", name)),
            lambda name=name: TableName.parse(f"d.{name}"),
            lambda name=name: TableName(good, branch=name),
            lambda name=name: TableName(good, system=name),
            lambda name=name: parse_table_name(f"d.{name}"),
            lambda name=name: pp.Identifier.create(name, "t"),
        ):
            refused(make)
    tally("hostile names given to the constructors of identifiers", 16 * len(NAMES[::LESS]))
    assert copy.deepcopy(good) == pickle.loads(pickle.dumps(good)) == good


def test_an_unpickled_identifier_is_checked() -> None:
    pickled = pickle.dumps(Identifier("d", "xxxxx")).replace(b"xxxxx", b"../xx")
    refused(lambda: pickle.loads(pickled))


@pytest.mark.parametrize("name", ["@hive#d", "@other#", "@#d", "@a#b#c"])
def test_a_database_name_that_a_metastore_reads_as_another_catalog_is_refused(catalog: Catalog, name: str) -> None:
    for call in (
        lambda: Identifier(name, "t"),
        lambda: TableName.parse((name, "t")),
        lambda: catalog.create_database(name),
        lambda: catalog.get_database(name),
        lambda: catalog.drop_database(name),
        lambda: catalog.list_tables(name),
    ):
        refused(call)


class LyingText(str):
    """Text that is formatted as another text."""

    def __str__(self) -> str:
        return "../../precious"

    def __format__(self, specification: str) -> str:
        return "../../precious"


def test_text_that_is_formatted_as_another_text_is_used_by_its_value() -> None:
    assert str(Identifier("d", LyingText("ok"))) == "d.ok"
    refused(lambda: Identifier("d", 7))  # type: ignore[arg-type]
    refused(lambda: Identifier.parse(("d", "ok", "more")))  # type: ignore[arg-type]
    refused(lambda: TableName.parse(None))  # type: ignore[arg-type]


def test_every_call_of_a_catalog_refuses_every_hostile_name(catalog: Catalog, sentinel: Sentinel, tally: Tally) -> None:
    outside, inside = sentinel.outside(), sentinel.inside()
    calls: list[Callable[[str], object]] = [
        lambda name: catalog.create_table(f"d.{name}", SCHEMA),
        lambda name: catalog.create_table_as(f"d.{name}", ROWS),
        lambda name: catalog.replace_table(f"d.{name}", SCHEMA, create=True),
        lambda name: catalog.stage_table(f"d.{name}", SCHEMA),
        lambda name: catalog.drop_table(f"d.{name}", ignore_if_not_exists=True),
        lambda name: catalog.rename_table("d.ok", f"d.{name}"),
        lambda name: catalog.rename_table(f"d.{name}", "d.other", ignore_if_not_exists=True),
        lambda name: catalog.alter_table(f"d.{name}", SetOption("bucket", "1"), ignore_if_not_exists=True),
        lambda name: catalog.get_table(f"d.{name}"),
        lambda name: catalog.table_exists(f"d.{name}"),
        lambda name: catalog.table_outline(f"d.{name}"),
        lambda name: catalog.list_partitions(f"d.{name}"),
        lambda name: catalog.drop_partitions(f"d.{name}", [{"dt": "x"}]),
        lambda name: catalog.get_view(f"d.{name}"),
        lambda name: catalog.drop_view(f"d.{name}"),
    ]
    for number, call in enumerate(calls):
        for name in TABLES[number % LESS :: LESS]:
            refused(partial(call, name))
    of_database: list[Callable[[str], object]] = [
        lambda name: catalog.create_database(name, ignore_if_exists=True),
        lambda name: catalog.drop_database(name, ignore_if_not_exists=True, cascade=True),
        lambda name: catalog.alter_database(name, {"a": "b"}),
        lambda name: catalog.get_database(name),
        lambda name: catalog.database_exists(name),
        lambda name: catalog.list_tables(name),
        lambda name: catalog.list_views(name),
        lambda name: catalog.list_iceberg_tables(name),
        lambda name: catalog.create_table((name, "t"), SCHEMA),  # type: ignore[arg-type]
        lambda name: catalog.rename_table("d.ok", (name, "t")),  # type: ignore[arg-type]
    ]
    for number, call in enumerate(of_database):
        for name in NAMES[number % LESS :: LESS]:
            refused(partial(call, name))
    assert (sentinel.outside(), sentinel.inside()) == (outside, inside)
    tally("hostile names given to calls of a catalog", (len(calls) + len(of_database)) * len(NAMES) // LESS)


def test_every_version_call_of_a_table_refuses_names_with_paths(
    catalog: Catalog, sentinel: Sentinel, tally: Tally
) -> None:
    table = catalog.get_table("d.ok")
    table.versions.create_tag("first")
    table.versions.create_branch("side")
    outside, inside = sentinel.outside(), sentinel.inside()
    calls: list[Callable[[str], object]] = [
        lambda name: table.versions.create_tag(name),
        lambda name: table.versions.rename_tag("first", name),
        lambda name: table.versions.replace_tag(name, snapshot_id=1),
        lambda name: table.versions.delete_tag(name),
        lambda name: table.versions.rollback_to(name),
        lambda name: table.versions.create_branch(name),
        lambda name: table.versions.rename_branch("side", name),
        lambda name: table.versions.reset_consumer(name, 1),
        lambda name: table.copy({"data-file.prefix": name}).append(ROWS),
        lambda name: catalog.create_table("d.new", Schema.from_pyarrow_schema(COLUMNS, options=_prefixed(name))),
        lambda name: catalog.alter_table("d.ok", SetOption("data-file.prefix", name)),
    ]
    placed = [name for name in LEADING_OUT if ".." in name.replace("\\", "/").split("/")]
    for name in placed[::LESS]:
        placed_there = Schema.from_pyarrow_schema(COLUMNS, options=_placed(name))
        refused(partial(catalog.create_table, "d.new", placed_there))
    with_slash = [name for name in LEADING_OUT if "/" in name]
    for number, call in enumerate(calls):
        for name in with_slash[number % LESS :: LESS]:
            refused(partial(call, name))
    for name in LEADING_OUT[::LESS]:
        # A missing object is reported or empty, an invalid name is refused, and nothing is created.
        for there in (table.branch, partial(_rows_of_branch, table)):
            with suppress(InvalidInputError, LookupError):
                there(name)
        for option in ("scan.tag-name", "scan.fallback-branch", "consumer-id"):
            with suppress(InvalidInputError, LookupError):
                _read_with(table, option, name)
    assert sentinel.outside() == outside
    assert {path for path in sentinel.inside() if "/bucket-" not in path} == {
        path for path in inside if "/bucket-" not in path
    }
    tally("hostile names given to calls of a table", (len(calls) + 5) * len(LEADING_OUT) // LESS)


def _rows_of_branch(table: Table, name: str) -> object:
    return table.copy({"branch": name}).scan().to_arrow()


def _prefixed(name: str) -> dict[str, str]:
    return {"changelog-file.prefix": name}


def _placed(name: str) -> dict[str, str]:
    return {"data-file.path-directory": f"x/{name}"}


def _read_with(table: Table, option: str, name: str) -> None:
    opened = table.copy({option: name})
    if option == "consumer-id":
        opened.versions.reset_consumer(opened.options.consumer_id or "", 1)
    else:
        opened.scan().to_arrow()


def test_names_of_source_tables_are_mapped_into_their_database(tally: Tally) -> None:
    names = TableNames(database="d")
    for name in TABLES:
        with suppress(InvalidInputError):
            # Some names do not match the pattern.
            assert names.of(SourceTable(database="shop", name=name)) is None
    refused(lambda: names.of(SourceTable(database="shop", name="orders$branch_x")))
    assert names.of(SourceTable(database="../x", name="orders")) == "d.orders"
    tally("hostile names given by sources", len(TABLES))


def test_the_name_of_a_view_is_checked_like_that_of_a_table(catalog: Catalog) -> None:
    view = View(query="SELECT 1", columns=())
    with pytest.raises((InvalidInputError, NotImplementedError)):
        catalog.create_view(Identifier("d", "x"), view)
