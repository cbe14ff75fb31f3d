"""Views: a metastore stores them as Paimon does; a file-system catalog has none."""

from pathlib import Path

import pyarrow as pa
import pytest

from interbed import load_catalog
from interbed.catalog.client.api import View, ViewColumn
from interbed.catalog.client.errors import TableExistsError, TableNotFoundError, ViewNotFoundError
from interbed.storage.base.errors import NotSupportedError
from tests.support.servers.metastore import metastore

_VIEW = View(query="SELECT 1 AS a", columns=(ViewColumn("a", "int", "one"),), comment="words", options={"k": "v"})


def test_a_metastore_stores_views(tmp_path: Path) -> None:
    with metastore() as uri, load_catalog(metastore="hive", uri=uri, warehouse=str(tmp_path)) as catalog:
        catalog.create_database("db")
        catalog.create_table("db.t", pa.schema([("a", pa.int32())]))
        catalog.create_view("db.v", _VIEW)

        assert catalog.get_view("db.v") == _VIEW
        assert (catalog.list_views("db"), catalog.list_tables("db")) == (["v"], ["t"])
        assert not catalog.table_exists("db.v")
        with pytest.raises(TableNotFoundError, match="is a view"):
            catalog.get_table("db.v")
        for taken in ("db.v", "db.t"):
            with pytest.raises(TableExistsError):
                catalog.create_view(taken, _VIEW)
        with pytest.raises(ViewNotFoundError):
            catalog.get_view("db.t")
        other = View(query="SELECT 2 AS b", columns=(ViewColumn("b", "int"),))
        catalog.create_view("db.v", other, replace=True)
        catalog.rename_view("db.v", "db.w")
        assert catalog.get_view("db.w") == other
        catalog.drop_view("db.w")
        catalog.drop_view("db.w", ignore_if_not_exists=True)
        with pytest.raises(ViewNotFoundError):
            catalog.drop_view("db.w")
        catalog.create_view("db.v", _VIEW)
        catalog.drop_database("db", cascade=True)
        assert not catalog.database_exists("db")


def test_a_file_system_catalog_has_no_views(tmp_path: Path) -> None:
    catalog = load_catalog(warehouse=str(tmp_path))
    catalog.create_database("db")

    assert catalog.list_views("db") == []
    with pytest.raises(NotSupportedError, match="metastore"):
        catalog.create_view("db.v", _VIEW)
    with pytest.raises(ViewNotFoundError):
        catalog.get_view("db.v")
