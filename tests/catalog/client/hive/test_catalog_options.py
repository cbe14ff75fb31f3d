"""Options of a Hive catalog over a real server: sources of its settings, and the options kept in the metastore."""

from pathlib import Path

import pytest

import interbed
from interbed.catalog.client.errors import CatalogError, CatalogUnavailableError, TableExistsError
from interbed.catalog.client.hive.catalog import HiveCatalog
from interbed.storage.base.errors import InvalidOptionError
from interbed.storage.meta.schema.change import RemoveOption, SetOption
from tests.catalog.client.hive.test_catalog import ROWS, SMALL
from tests.support.servers.metastore import metastore


def test_table_options_are_left_out_of_the_metastore_if_configured(
    options: dict[str, str], catalog: HiveCatalog
) -> None:
    with interbed.CatalogFactory.create(options | {"sync-all-properties": "false"}) as other:
        other.create_table("shop.t", SMALL, options={"write-buffer-size": "8 mb"})
    assert "write-buffer-size" not in catalog.client.get_table("shop", "t").parameters
    assert catalog.get_table("shop.t").schema.options["write-buffer-size"] == "8 mb"


def test_all_tables_are_external_if_configured(options: dict[str, str], catalog: HiveCatalog, tmp_path: Path) -> None:
    with interbed.CatalogFactory.create(options | {"table.type": "external"}) as other:
        other.create_table("shop.t", SMALL)
        other.drop_table("shop.t")
    assert (tmp_path / "lake" / "shop.db" / "t" / "schema" / "schema-0").exists()
    with pytest.raises(TableExistsError, match="does not know"):
        catalog.create_table("shop.t", SMALL)


def test_hive_site_gives_address_and_warehouse(server: str, tmp_path: Path) -> None:
    properties = {"hive.metastore.uris": server, "hive.metastore.warehouse.dir": f"file:{tmp_path}/from-site"}
    lines = "".join(f"<property><name>{k}</name><value> {v} </value></property>" for k, v in properties.items())
    (tmp_path / "hive-site.xml").write_text(f"<?xml version='1.0'?><configuration>{lines}</configuration>")
    with interbed.load_catalog(metastore="hive", hive_conf_dir=tmp_path) as opened:
        assert opened.warehouse == f"{tmp_path}/from-site"
        assert "default" in opened.list_databases()
    with interbed.load_catalog(metastore="hive", hive_conf_dir=tmp_path, warehouse=f"file:{tmp_path}/own") as opened:
        assert opened.warehouse == f"{tmp_path}/own"


@pytest.mark.parametrize("content", [None, "", "<configuration>", "not xml"])
def test_an_unreadable_hive_site_is_reported(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "hive-site.xml").write_text(content)
    with pytest.raises(InvalidOptionError, match=r"hive-site\.xml"):
        interbed.load_catalog(metastore="hive", hive_conf_dir=str(tmp_path))


def test_the_warehouse_defaults_to_that_of_the_server(tmp_path: Path) -> None:
    with metastore(db=f"sqlite:///{tmp_path}/m.db", warehouse=f"file:{tmp_path}/w") as uri:
        with interbed.load_catalog(metastore="hive", uri=uri) as opened:
            assert opened.warehouse == f"{tmp_path}/w"
            opened.create_database("shop")
            assert opened.get_database("shop").location == f"file:{tmp_path}/w/shop.db"
        with pytest.raises(CatalogError, match="closed"):
            opened.list_databases()
    with pytest.raises(CatalogUnavailableError, match=uri):
        interbed.load_catalog(metastore="hive", uri=uri)


def test_locations_are_kept_in_parameters_if_configured(options: dict[str, str], tmp_path: Path) -> None:
    with interbed.CatalogFactory.create(options | {"location-in-properties": "true"}) as catalog:
        assert isinstance(catalog, HiveCatalog)
        catalog.create_database("d", properties={"a": "1"})
        assert dict(catalog.get_database("d").properties) == {"a": "1"}
        assert catalog.get_database("d").location == f"file:{tmp_path}/lake/d.db"
        table = catalog.create_table(
            "d.t", SMALL, partition_keys=["name"], options={"metastore.partitioned-table": "true"}
        )
        table.append(ROWS)
        entry = catalog.client.get_table("d", "t")
        assert entry.parameters["paimon_location"] == f"file:{tmp_path}/lake/d.db/t"
        [partition] = catalog.client.get_partitions_by_names("d", "t", ["name=a"])
        assert partition.parameters["paimon_location"] == f"file:{tmp_path}/lake/d.db/t/name=a/"
        catalog.rename_table("d.t", "d.u")
        assert catalog.get_table("d.u").location == f"{tmp_path}/lake/d.db/u"
        [partition] = catalog.client.get_partitions_by_names("d", "u", ["name=a"])
        assert partition.parameters["paimon_location"] == f"file:{tmp_path}/lake/d.db/u/name=a/"
        assert catalog.get_table("d.u").append(ROWS) == 2
        assert catalog.repair_table("d.u").actions == ()
        catalog.drop_database("d", cascade=True)
        assert not (tmp_path / "lake" / "d.db").exists()


def test_without_syncing_only_options_for_hive_are_in_the_metastore(
    options: dict[str, str], catalog: HiveCatalog
) -> None:
    with interbed.CatalogFactory.create(options | {"sync-all-properties": "false"}) as other:
        other.create_table(
            "shop.t",
            SMALL,
            primary_keys=["id"],
            options={"bucket": "1", "hive.note": "a", "data-file.path-directory": "data"},
        )
        other.alter_table("shop.t", [SetOption("hive.note", "b"), SetOption("write-only", "true")])
        parameters = catalog.client.get_table("shop", "t").parameters
        assert parameters["note"] == "b"
        assert parameters["data-file.path-directory"] == "data"
        assert {"bucket", "primary-key", "write-only", "hive.note"}.isdisjoint(parameters)
        other.alter_table("shop.t", RemoveOption("hive.note"))
        assert "note" not in catalog.client.get_table("shop", "t").parameters
