"""Partitions whose values are empty, blank or null share a directory, but are three different partitions."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from interbed import load_catalog
from interbed.catalog.client.api import Catalog

VALUES = ["", None, "  ", "\t", "x"]
NULL = "__DEFAULT_PARTITION__"


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    made = load_catalog(warehouse=str(tmp_path))
    made.create_database("d")
    rows = pa.table({"id": range(len(VALUES)), "p": VALUES})
    made.create_table("d.t", rows.schema, partition_keys=["p"], options={"bucket": "-1"}).append(rows)
    return made


def left(catalog: Catalog) -> list[object]:
    rows = catalog.get_table("d.t").scan().to_arrow().to_pylist()
    return [row["p"] for row in sorted(rows, key=lambda row: row["id"])]


def test_blank_partitions_are_listed_separately(catalog: Catalog) -> None:
    assert sorted(p.spec["p"] for p in catalog.list_partitions("d.t")) == sorted(
        NULL if value is None else value for value in VALUES
    )
    shown: Any = catalog.get_table("d.t$partitions").scan().to_arrow()["partition"].to_pylist()
    assert sorted(shown) == sorted(f"p={NULL if value is None else value}" for value in VALUES)


def test_a_listed_partition_can_be_dropped_by_its_specification(catalog: Catalog) -> None:
    for partition in catalog.list_partitions("d.t"):
        before = left(catalog)
        catalog.drop_partitions("d.t", [partition.spec])
        value = None if partition.spec["p"] == NULL else partition.spec["p"]
        assert left(catalog) == [each for each in before if each != value]
    assert left(catalog) == []


def test_a_null_partition_can_be_dropped_by_none(catalog: Catalog) -> None:
    catalog.drop_partitions("d.t", [{"p": None}])
    assert left(catalog) == ["", "  ", "\t", "x"]


def test_rows_with_the_name_of_the_null_partition_are_deleted_by_a_filter(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A specification does not distinguish this text from null, as in Paimon. Interbed refuses new rows with it."""
    table = catalog.get_table("d.t")
    with monkeypatch.context() as java:
        java.setattr("interbed.storage.write.row_converter.RowConverter.check_partitions", lambda *_: None)
        table.append(pa.table({"id": [len(VALUES)], "p": [NULL]}))
    assert left(catalog) == [*VALUES, NULL]
    table.delete_partitions(f"p = '{NULL}'")
    assert left(catalog) == VALUES
    table.delete_partitions({"p": NULL})
    assert left(catalog) == ["", "  ", "\t", "x"]
