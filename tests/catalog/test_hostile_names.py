"""No name that is passed to any call of the Python API refers to a path outside of its directory."""

import copy
import dataclasses
import inspect
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
from interbed.catalog.client.functions import CatalogFunction
from interbed.catalog.client.identifier import Identifier, TableName, parse_table_name
from interbed.ingest.flow.changes import SourceTable
from interbed.ingest.tables.source_tables import TableNames
from interbed.storage.base.errors import InvalidInputError, NotSupportedError
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


Call = Callable[[Catalog, str], object]
NAME_PARAMETERS = frozenset(
    (
        *("identifier", "source", "target", "database", "table", "name", "new_name"),
        *("branch_name", "from_branch", "to_branch", "tag_name"),
    )
)
VIEW = View(query="SELECT 1", columns=())

OF_TABLES: dict[str, Call] = {
    "alter_function.identifier": lambda catalog, name: catalog.alter_function(name, []),
    "alter_partitions.identifier": lambda catalog, name: catalog.alter_partitions(name, []),
    "alter_table.identifier": lambda catalog, name: catalog.alter_table(name, SetOption("bucket", "1"), True),
    "create_branch.identifier": lambda catalog, name: catalog.create_branch(name, "b"),
    "create_function.identifier": lambda catalog, name: catalog.create_function(name, CatalogFunction(definitions={})),
    "create_partitions.identifier": lambda catalog, name: catalog.create_partitions(name, [{"dt": "x"}]),
    "create_table.identifier": lambda catalog, name: catalog.create_table(name, SCHEMA),
    "create_table_as.identifier": lambda catalog, name: catalog.create_table_as(name, ROWS),
    "create_tag.identifier": lambda catalog, name: catalog.create_tag(name, "t"),
    "create_view.identifier": lambda catalog, name: catalog.create_view(name, VIEW),
    "default_table_location.identifier": lambda catalog, name: catalog.default_table_location(Identifier.parse(name)),
    "delete_tag.identifier": lambda catalog, name: catalog.delete_tag(name, "t"),
    "drop_branch.identifier": lambda catalog, name: catalog.drop_branch(name, "b"),
    "drop_partitions.identifier": lambda catalog, name: catalog.drop_partitions(name, [{"dt": "x"}]),
    "drop_policy.table": lambda catalog, name: catalog.drop_policy(name, "p"),
    "drop_table.identifier": lambda catalog, name: catalog.drop_table(name, True),
    "drop_view.identifier": lambda catalog, name: catalog.drop_view(name, True),
    "expire_partitions.identifier": lambda catalog, name: catalog.expire_partitions(name, expiration_time="1 d"),
    "fast_forward.identifier": lambda catalog, name: catalog.fast_forward(name, "b"),
    "get_function.identifier": lambda catalog, name: catalog.get_function(name),
    "get_iceberg_table.identifier": lambda catalog, name: catalog.get_iceberg_table(name),
    "get_table.identifier": lambda catalog, name: catalog.get_table(name),
    "get_tag.identifier": lambda catalog, name: catalog.get_tag(name, "t"),
    "get_view.identifier": lambda catalog, name: catalog.get_view(name),
    "list_branches.identifier": lambda catalog, name: catalog.list_branches(name),
    "list_partitions.identifier": lambda catalog, name: catalog.list_partitions(name),
    "list_partitions_paged.identifier": lambda catalog, name: catalog.list_partitions_paged(name),
    "list_policies.table": lambda catalog, name: catalog.list_policies(name),
    "list_tags_paged.identifier": lambda catalog, name: catalog.list_tags_paged(name),
    "load_snapshot.identifier": lambda catalog, name: catalog.load_snapshot(name),
    "mark_partitions_done.identifier": lambda catalog, name: catalog.mark_partitions_done(name, [{"dt": "x"}]),
    "purge_dropped.name": lambda catalog, name: catalog.purge_dropped(name),
    "rename_branch.identifier": lambda catalog, name: catalog.rename_branch(name, "a", "b"),
    "rename_table.source": lambda catalog, name: catalog.rename_table(name, "d.other", True),
    "rename_table.target": lambda catalog, name: catalog.rename_table("d.ok", name),
    "rename_view.source": lambda catalog, name: catalog.rename_view(name, "d.other"),
    "rename_view.target": lambda catalog, name: catalog.rename_view("d.ok", name),
    "repair_table.identifier": lambda catalog, name: catalog.repair_table(name),
    "replace_table.identifier": lambda catalog, name: catalog.replace_table(name, SCHEMA, create=True),
    "rollback_to.identifier": lambda catalog, name: catalog.rollback_to(name, 1),
    "set_column_mask.table": lambda catalog, name: catalog.set_column_mask(name, "dt", "NULL", to="role r"),
    "set_row_filter.table": lambda catalog, name: catalog.set_row_filter(name, "id = 1", to="role r"),
    "stage_table.identifier": lambda catalog, name: catalog.stage_table(name, SCHEMA),
    "table_exists.identifier": lambda catalog, name: catalog.table_exists(name),
    "table_outline.identifier": lambda catalog, name: catalog.table_outline(name),
    "undrop_table.identifier": lambda catalog, name: catalog.undrop_table(name),
    "undrop_table.new_name": lambda catalog, name: catalog.undrop_table("d.ok", new_name=name),
}
OF_DATABASES: dict[str, Call] = {
    "alter_database.name": lambda catalog, name: catalog.alter_database(name, {"a": "b"}),
    "create_database.name": lambda catalog, name: catalog.create_database(name, True),
    "database_exists.name": lambda catalog, name: catalog.database_exists(name),
    "drop_database.name": lambda catalog, name: catalog.drop_database(name, True, True),
    "get_database.name": lambda catalog, name: catalog.get_database(name),
    "list_dropped.database": lambda catalog, name: catalog.list_dropped(name),
    "list_format_tables.database": lambda catalog, name: catalog.list_format_tables(name),
    "list_functions.database": lambda catalog, name: catalog.list_functions(name),
    "list_iceberg_tables.database": lambda catalog, name: catalog.list_iceberg_tables(name),
    "list_tables.database": lambda catalog, name: catalog.list_tables(name),
    "list_views.database": lambda catalog, name: catalog.list_views(name),
    "repair_database.name": lambda catalog, name: catalog.repair_database(name),
    "undrop_database.name": lambda catalog, name: catalog.undrop_database(name),
    "create_table.identifier": lambda catalog, name: catalog.create_table((name, "t"), SCHEMA),  # type: ignore[arg-type]
    "rename_table.target": lambda catalog, name: catalog.rename_table("d.ok", (name, "t")),  # type: ignore[arg-type]
}
OF_VERSIONS: dict[str, Call] = {
    # Names of functions may be longer and begin with dots: they have no directories.
    "drop_function.identifier": lambda catalog, name: catalog.drop_function(f"d.{name}", True),
    "create_branch.branch_name": lambda catalog, name: catalog.create_branch("d.ok", name),
    "create_branch.tag_name": lambda catalog, name: catalog.create_branch("d.ok", "b", name),
    "create_tag.tag_name": lambda catalog, name: catalog.create_tag("d.ok", name),
    "delete_tag.tag_name": lambda catalog, name: catalog.delete_tag("d.ok", name),
    "drop_branch.branch_name": lambda catalog, name: catalog.drop_branch("d.ok", name),
    "fast_forward.branch_name": lambda catalog, name: catalog.fast_forward("d.ok", name),
    "get_tag.tag_name": lambda catalog, name: catalog.get_tag("d.ok", name),
    "rename_branch.from_branch": lambda catalog, name: catalog.rename_branch("d.ok", name, "b"),
    "rename_branch.to_branch": lambda catalog, name: catalog.rename_branch("d.ok", "side", name),
}
NO_PATHS = {
    "drop_policy.name": "a policy has no directory",
    "set_column_mask.name": "a policy has no directory",
    "set_row_filter.name": "a policy has no directory",
    "staged.name": "it takes an Identifier",
}


def test_each_name_that_a_catalog_takes_is_tried(catalog: Catalog) -> None:
    assert len(set(NAMES)) >= 200
    taken = {
        f"{method}.{parameter}"
        for method, call in inspect.getmembers(catalog, callable)
        if not method.startswith("_")
        for parameter in inspect.signature(call).parameters
        if parameter in NAME_PARAMETERS
    }
    assert taken == {*OF_TABLES, *OF_DATABASES, *OF_VERSIONS, *NO_PATHS}


def test_every_call_of_a_catalog_refuses_every_hostile_name(catalog: Catalog, sentinel: Sentinel, tally: Tally) -> None:
    catalog.get_table("d.ok").versions.create_branch("side")
    outside, inside = sentinel.outside(), sentinel.inside()
    with_slash = [name for name in LEADING_OUT if "/" in name]
    sweeps = ((OF_TABLES, [f"d.{name}" for name in TABLES]), (OF_DATABASES, list(NAMES)), (OF_VERSIONS, with_slash))
    tried, answers, refusals = 0, list[tuple[str, str, object]](), list[str]()
    for calls, names in sweeps:
        for number, (key, call) in enumerate(calls.items()):
            for name in names[number % LESS :: LESS]:
                tried += 1
                try:
                    answers.append((key, name, call(catalog, name)))
                except (InvalidInputError, NotSupportedError, LookupError) as error:
                    # What this catalog does not have, such as functions, is refused as such.
                    refusals.append(str(error))
    assert answers == []
    assert [text for text in refusals if "Traceback" in text] == []
    assert (sentinel.outside(), sentinel.inside()) == (outside, inside)
    tally("hostile names given to calls of a catalog", tried)


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
