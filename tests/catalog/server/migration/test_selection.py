"""Patterns that select objects for copy, comparison and export."""

import pytest

from interbed.catalog.server.migration.selection import ObjectSelection
from interbed.storage.base.errors import InvalidOptionError
from interbed.thrift_idl.hive_metastore import ttypes


def test_everything_is_selected_by_default() -> None:
    everything = ObjectSelection()
    assert everything.catalog("hive")
    assert everything.catalog("other")
    assert everything.database("other", "d")
    assert everything.functions("hive", "d")
    assert everything.table("other", "d", "t")


def test_a_database_is_selected_with_all_its_objects() -> None:
    chosen = ObjectSelection(["Sales|shop*"])
    assert [chosen.database("hive", name) for name in ("sales", "shop_1", "other")] == [True, True, False]
    assert chosen.functions("hive", "sales")
    assert chosen.table("hive", "sales", "T")
    assert not chosen.database("spark", "sales")
    assert not chosen.catalog("spark")


def test_a_table_is_selected_with_its_database_but_without_functions() -> None:
    chosen = ObjectSelection(["sales.ord*", "spark.d.t"])
    assert chosen.database("hive", "sales")
    assert not chosen.functions("hive", "sales")
    assert [chosen.table("hive", "sales", name) for name in ("orders", "ORDERS", "items")] == [True, True, False]
    assert chosen.table("spark", "d", "t")
    assert ObjectSelection(["sales.*"]).functions("hive", "sales")


def test_excluded_objects_are_not_selected() -> None:
    chosen = ObjectSelection([], ["tmp*", "*.scratch_*"])
    assert not chosen.database("hive", "tmp1")
    assert chosen.database("hive", "sales")
    assert [chosen.table("hive", "sales", name) for name in ("orders", "scratch_1")] == [True, False]
    assert not chosen.table("hive", "tmp1", "orders")


def test_a_foreign_key_is_selected_only_with_the_table_that_it_refers_to() -> None:
    def key(table: str) -> list[ttypes.SQLForeignKey]:
        return [ttypes.SQLForeignKey(pktable_db="d", pktable_name=table)]

    constraints = {"foreignKeys a": key("a"), "foreignKeys b": key("b"), "primaryKeys p": [ttypes.SQLPrimaryKey()]}
    assert list(ObjectSelection(["d.a"]).constraints("hive", constraints)) == ["foreignKeys a", "primaryKeys p"]


@pytest.mark.parametrize("pattern", ["a.b.c.d", "", ".", "a..b", "a."])
def test_a_malformed_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidOptionError, match="is no pattern for tables"):
        ObjectSelection([pattern])
