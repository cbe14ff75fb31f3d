"""Tables that this version can't read can be listed, described, renamed and dropped, and do not hide other tables."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner

import interbed
from interbed.catalog.client.api import Catalog
from interbed.catalog.client.errors import UNREADABLE, TableNotFoundError
from interbed.cli import main
from interbed.storage.base.errors import StorageAccessError
from tests.support.servers.metastore import metastore

ROWS = pa.table({"id": [1, 2], "dt": ["x", "y"]})


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with metastore(warehouse=f"file:{tmp_path_factory.mktemp('unused')}") as uri:
        yield uri


@pytest.fixture(params=["filesystem", "server"])
def options(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, object]:
    """Options of a catalog on a warehouse of its own."""
    given: dict[str, object] = {"warehouse": f"file:{tmp_path}/lake"}
    if request.param == "server":
        given |= {"metastore": "hive", "uri": request.getfixturevalue("server")}
    return given


@pytest.fixture
def catalog(options: dict[str, object]) -> Iterator[Catalog]:
    with interbed.load_catalog("lake", **options) as opened:
        opened.create_database("shop")
        for name in ("good", "other"):
            made = opened.create_table("shop." + name, ROWS.schema, partition_keys=["dt"], options={"owner": "ada"})
            made.append(ROWS)
        yield opened
        opened.drop_database("shop", cascade=True)


def newer_version(schema: dict[str, Any]) -> str:
    return json.dumps({**schema, "version": 99})


def unknown_type(schema: dict[str, Any]) -> str:
    fields = [{**f, "type": "HYPERCUBE(3)"} if f["name"] == "id" else f for f in schema["fields"]]
    return json.dumps({**schema, "fields": fields})


def unknown_nested_type(schema: dict[str, Any]) -> str:
    nested = {"type": "ARRAY NOT NULL", "element": {"type": "VECTOR", "element": "FLOAT", "length": 3}}
    fields = [{**f, "type": nested} if f["name"] == "id" else f for f in schema["fields"]]
    return json.dumps({**schema, "fields": fields})


def unknown_format(schema: dict[str, Any]) -> str:
    return json.dumps({**schema, "options": {**schema["options"], "file.format": "lance"}})


def wrong_option(schema: dict[str, Any]) -> str:
    return json.dumps({**schema, "options": {**schema["options"], "partition.legacy-name": "perhaps"}})


def without_fields(schema: dict[str, Any]) -> str:
    return json.dumps({key: value for key, value in schema.items() if key != "fields"})


def cut_off(schema: dict[str, Any]) -> str:
    return json.dumps(schema)[:40]


def nothing(_: dict[str, Any]) -> str:
    return ""


MADE: tuple[Callable[[dict[str, Any]], str], ...] = (
    newer_version,
    unknown_type,
    unknown_nested_type,
    unknown_format,
    wrong_option,
    without_fields,
    cut_off,
    nothing,
)


def spoil(catalog: Catalog, how: Callable[[dict[str, Any]], str], name: str = "other") -> Path:
    path = Path(catalog.get_table(f"shop.{name}").location.removeprefix("file:")) / "schema" / "schema-0"
    path.write_text(how(json.loads(path.read_text())))
    return path


def shown(catalog: Catalog, table: str, columns: list[str]) -> list[tuple[Any, ...]]:
    found = catalog.get_table(f"sys.{table}").scan(columns, "database_name = 'shop'").to_arrow().to_pylist()
    return [tuple(row.values()) for row in found]


@pytest.mark.parametrize("how", MADE)
def test_an_unreadable_table_hides_no_other_table(catalog: Catalog, how: Callable[[dict[str, Any]], str]) -> None:
    spoil(catalog, how)

    assert catalog.list_tables("shop") == ["good", "other"]
    assert catalog.table_exists("shop.other")
    tables = shown(catalog, "tables", ["table_name", "record_count", "file_count"])
    assert tables[0] == ("good", 2, 2)
    assert [name for name, _, _ in tables] == ["good", "other"]
    assert {row[0] for row in shown(catalog, "partitions", ["table_name"])} >= {"good"}
    options = shown(catalog, "all_table_options", ["table_name", "key", "value"])
    assert ("good", "owner", "ada") in options
    assert "path" in {key for table, key, _ in options if table == "other"}


@pytest.mark.parametrize("how", MADE)
def test_an_unreadable_table_can_be_renamed_and_dropped(catalog: Catalog, how: Callable[[dict[str, Any]], str]) -> None:
    path = spoil(catalog, how)

    catalog.rename_table("shop.other", "shop.renamed")
    assert catalog.list_tables("shop") == ["good", "renamed"]
    assert not path.exists()
    catalog.drop_table("shop.renamed")
    assert catalog.list_tables("shop") == ["good"]
    assert not catalog.table_exists("shop.renamed")
    catalog.create_table("shop.other", ROWS.schema)


@pytest.mark.parametrize("how", [newer_version, unknown_type, unknown_nested_type])
def test_the_outline_of_an_unreadable_table_has_its_known_fields(
    catalog: Catalog, how: Callable[[dict[str, Any]], str]
) -> None:
    spoil(catalog, how)

    with pytest.raises(UNREADABLE):
        catalog.get_table("shop.other")
    outline = catalog.table_outline("shop.other")
    assert (outline.id, [c.name for c in outline.columns], outline.partition_keys) == (0, ["id", "dt"], ("dt",))
    assert outline.options["owner"] == "ada"
    nested = "ARRAY<VECTOR<FLOAT>> NOT NULL"
    types = {"newer_version": "BIGINT", "unknown_type": "HYPERCUBE(3)", "unknown_nested_type": nested}
    assert outline.columns[0].type == types[how.__name__]
    assert ("other", True, "ada") in shown(catalog, "tables", ["table_name", "partitioned", "owner"])


def test_an_inaccessible_table_is_listed_and_not_deleted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with interbed.load_catalog(warehouse=tmp_path) as catalog:
        catalog.create_database("shop")
        for name in ("good", "other"):
            catalog.create_table(f"shop.{name}", ROWS.schema).append(ROWS)
        # The system refuses access, as without permission, but to root as well.
        schemas = tmp_path / "shop.db" / "other" / "schema"
        schemas.rename(tmp_path / "kept")
        schemas.symlink_to(schemas)

        assert catalog.list_tables("shop") == ["good", "other"]
        assert "shop.db/other/schema" in caplog.text
        assert shown(catalog, "tables", ["table_name", "record_count"]) == [("good", 2)]
        for refused in (
            lambda: catalog.get_table("shop.other"),
            lambda: catalog.drop_table("shop.other"),
            lambda: catalog.drop_database("shop"),
            lambda: catalog.drop_database("shop", cascade=True),
        ):
            with pytest.raises(StorageAccessError, match=r"shop\.db/other/schema"):
                refused()
        assert catalog.get_table("shop.good").count() == 2

        schemas.unlink()
        (tmp_path / "kept").rename(schemas)
        assert catalog.get_table("shop.other").count() == 2


def test_a_missing_table_has_no_outline(catalog: Catalog) -> None:
    with pytest.raises(TableNotFoundError):
        catalog.table_outline("shop.nothing")


@pytest.mark.parametrize("how", [newer_version, cut_off])
def test_the_command_line_describes_an_unreadable_table(
    catalog: Catalog, options: dict[str, object], how: Callable[[dict[str, Any]], str]
) -> None:
    spoil(catalog, how)
    given = [word for key, value in options.items() for word in ("-o", f"{key}={value}")]

    def run(*words: str) -> str:
        done = CliRunner().invoke(main, ["table", *words, *given])
        assert done.exit_code == 0, done.output
        return done.output

    assert "shop.other" in run("list", "shop")
    described = json.loads(run("describe", "shop.other", "--json"))
    assert "schema-0" in described["problem"]
    assert [c["name"] for c in described["columns"]] == ([] if how is cut_off else ["id", "dt"])
    assert "problem   " in run("describe", "shop.other")
    run("rename", "shop.other", "shop.renamed")
    run("drop", "shop.renamed", "--yes")
    assert "shop.renamed" not in run("list", "shop")


def test_describe_separates_options_from_properties_of_the_user(catalog: Catalog, options: dict[str, object]) -> None:
    catalog.create_table("shop.mine", ROWS.schema, options={"team": "lake", "write-only": "true"})
    given = [word for key, value in options.items() for word in ("-o", f"{key}={value}")]

    described = CliRunner().invoke(main, ["table", "describe", "shop.mine", *given]).output
    assert "options\n" in described
    assert described.index("write-only  true") < described.index("your own properties") < described.index("team  lake")
