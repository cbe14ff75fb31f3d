"""Views in one metastore that Java Paimon's and interbed's Hive catalogs share: each uses the views of the other."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import interbed
from interbed.catalog.client.api import View, ViewColumn
from interbed.catalog.client.errors import TableExistsError, TableNotFoundError, ViewNotFoundError
from interbed.catalog.client.hive.catalog import HiveCatalog
from tests.support.peers.java_hive import JavaHiveCatalog
from tests.support.peers.process import PeerError
from tests.support.servers.metastore import metastore

QUERY = "SELECT id, tags FROM shop.orders WHERE name = 'ü'"
COLUMNS = (ViewColumn("id", "bigint", "the key"), ViewColumn("tags", "array<string>"), ViewColumn("d", "decimal(10,2)"))
TYPES: list[Any] = ["BIGINT", {"type": "ARRAY", "element": "STRING"}, "DECIMAL(10, 2)"]


@pytest.fixture(scope="module")
def options(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Options for both catalogs: a metastore and a warehouse that the module shares."""
    warehouse: Path = tmp_path_factory.mktemp("lake")
    with metastore(warehouse=f"file:{warehouse}") as uri:
        yield {"metastore": "hive", "uri": uri, "warehouse": f"file:{warehouse}", "cache-enabled": "false"}


@pytest.fixture(scope="module")
def java(options: dict[str, str]) -> Iterator[JavaHiveCatalog]:
    """A JVM with Java Paimon's catalog."""
    with JavaHiveCatalog(options) as peer:
        yield peer


@pytest.fixture
def ours(options: dict[str, str]) -> Iterator[HiveCatalog]:
    """interbed's catalog with the database `shop`, which is dropped afterwards."""
    with interbed.CatalogFactory.create(options) as opened:
        assert isinstance(opened, HiveCatalog)
        opened.create_database("shop")
        yield opened
        opened.drop_database("shop", cascade=True)


def test_java_uses_a_view_that_interbed_created(java: JavaHiveCatalog, ours: HiveCatalog) -> None:
    ours.create_view("shop.v", View(query=QUERY, columns=COLUMNS, comment="some", options={"team": "sales"}))
    assert (java.views("shop"), java.tables("shop")) == (["v"], [])
    shown = java.view("shop.v")
    assert (shown["query"], shown["comment"]) == (QUERY, "some")
    assert shown["options"].items() >= {"team": "sales"}.items()
    assert [(c["name"], c.get("description")) for c in shown["columns"]] == [(c.name, c.comment) for c in COLUMNS]
    assert [c["type"] for c in shown["columns"]] == TYPES
    with pytest.raises(PeerError, match="ViewAlreadyExist"):
        java.create_view("shop.v", "SELECT 1", [("id", "INT", None)])
    java.rename_view("shop.v", "shop.w")
    assert ours.get_view("shop.w").query == QUERY
    ours.create_view("shop.w", View(query="SELECT 2 AS id", columns=(ViewColumn("id", "int"),)), replace=True)
    assert (java.view("shop.w")["query"], java.view("shop.w")["comment"]) == ("SELECT 2 AS id", None)
    java.drop_view("shop.w")
    with pytest.raises(ViewNotFoundError, match=r"shop\.w"):
        ours.get_view("shop.w")


def test_interbed_uses_a_view_that_java_created(java: JavaHiveCatalog, ours: HiveCatalog) -> None:
    columns = [(c.name, kind, c.comment) for c, kind in zip(COLUMNS, TYPES, strict=True)]
    java.create_view("shop.v", QUERY, columns, options={"team": "sales"}, comment="some")
    assert (ours.list_views("shop"), ours.list_tables("shop")) == (["v"], [])
    view = ours.get_view("shop.v")
    assert view == View(query=QUERY, columns=COLUMNS, comment="some", options={"team": "sales"})
    with pytest.raises(TableNotFoundError, match=r"shop\.v"):
        ours.get_table("shop.v")
    with pytest.raises(TableExistsError, match=r"shop\.v"):
        ours.create_view("shop.v", view)
    ours.rename_view("shop.v", "shop.w")
    assert java.views("shop") == ["w"]
    ours.drop_view("shop.w")
    assert java.views("shop") == []


def test_the_entries_of_views_are_equal(java: JavaHiveCatalog, ours: HiveCatalog) -> None:
    columns = [(c.name, kind, c.comment) for c, kind in zip(COLUMNS, TYPES, strict=True)]
    java.create_view("shop.j", QUERY, columns, options={"team": "sales"}, comment="some")
    ours.create_view("shop.i", View(query=QUERY, columns=COLUMNS, comment="some", options={"team": "sales"}))

    def entry(name: str) -> dict[str, Any]:
        found = ours.client.get_table("shop", name)
        parts = {key: getattr(found, key) for key in ("tableType", "viewOriginalText", "viewExpandedText", "retention")}
        columns = [(c.name, c.type, c.comment) for c in found.sd.cols]
        described = (
            found.sd.inputFormat,
            found.sd.outputFormat,
            found.sd.serdeInfo.serializationLib,
            found.sd.location,
        )
        noted = {k: v for k, v in found.parameters.items() if k != "transient_lastDdlTime"}
        return {
            **parts,
            "columns": columns,
            "storage": described,
            "parameters": noted,
            "partitions": found.partitionKeys,
        }

    assert entry("i") == entry("j")
