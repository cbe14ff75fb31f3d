"""pypaimon's managers of snapshots, tags and branches, and the attributes of a table."""

from datetime import timedelta

import pyarrow as pa
import pytest

import interbed
from interbed import pypaimon as pp
from interbed.storage.base.errors import (
    InvalidInputError,
)
from tests.pypaimon.tables import PLACES, bought, written


def test_managers_return_none_for_missing_versions(orders: interbed.Table) -> None:
    snapshots = orders.snapshot_manager()
    assert (snapshots.get_latest_snapshot(), snapshots.try_get_earliest_snapshot()) == (None, None)
    written(orders, bought((1, "x", 1.0)))
    written(orders, bought((2, "y", 2.0)))
    first, second = snapshots.list_snapshots()
    assert (snapshots.get_latest_snapshot(), snapshots.try_get_earliest_snapshot()) == (second, first)
    assert snapshots.get_snapshots_batch([1, 9]) == {1: first, 9: None}
    assert snapshots.earlier_or_equal_time_mills(first.time_millis - 1) is None
    assert snapshots.earlier_or_equal_time_mills(second.time_millis) == second
    assert snapshots.later_or_equal_watermark(0) is None
    assert orders.file_io.exists(snapshots.get_snapshot_path(1))
    tags = orders.tag_manager()
    orders.versions.create_tag("a", 1, True, "1 d")
    orders.versions.create_tag("a", 1, True)
    assert (tags.list_tags(), orders.list_tags(), tags.tag_exists("a"), tags.get("b")) == (["a"], ["a"], True, None)
    tag = tags.get_or_throw("a")
    assert (tag.id, tag.trim_to_snapshot(), tag.tag_time_retained) == (1, first, timedelta(days=1))
    assert tag.tag_create_time is not None
    with pytest.raises(ValueError, match="'b'"):
        tags.get_or_throw("b")
    consumers = orders.consumer_manager()
    assert (consumers.list_all_ids(), consumers.min_next_snapshot()) == ([], None)
    orders.versions.reset_consumer("me", 2)
    assert (consumers.list_all_ids(), consumers.min_next_snapshot()) == (["me"], 2)
    consumers.delete_consumer("me")
    assert consumers.consumers() == {}


def test_a_catalog_changes_tags_and_branches_by_the_name_of_the_table(
    catalog: interbed.Catalog, orders: interbed.Table
) -> None:
    assert catalog.load_snapshot("shop.orders") is None
    written(orders, bought((1, "x", 1.0)))
    for name in ("c", "a", "b", "x"):
        catalog.create_tag("shop.orders", name)
    catalog.create_tag("shop.orders", "a", ignore_if_exists=True)
    assert catalog.get_tag("shop.orders", "a").snapshot == catalog.load_snapshot("shop.orders")
    catalog.delete_tag("shop.orders", "x")
    page = catalog.list_tags_paged("shop.orders", 2)
    assert (page.elements, page.next_page_token) == (["a", "b"], "b")
    rest = catalog.list_tags_paged("shop.orders", 2, page.next_page_token)
    assert (rest.elements, rest.next_page_token) == (["c"], None)
    assert catalog.list_tags_paged("shop.orders", tag_name_prefix="b").elements == ["b"]
    with pytest.raises(InvalidInputError, match="at least one tag"):
        catalog.list_tags_paged("shop.orders", 0)
    catalog.create_branch("shop.orders", "dev", "a")
    catalog.rename_branch("shop.orders", "dev", "next")
    assert catalog.list_branches("shop.orders") == ["next"]
    written(orders.branch("next"), bought((2, "y", 2.0)))
    catalog.fast_forward("shop.orders", "next")
    assert catalog.get_table("shop.orders").scan().to_arrow().num_rows == 2
    catalog.drop_branch("shop.orders", "next")
    assert catalog.list_branches("shop.orders") == []
    assert catalog.rollback_to("shop.orders", "a").id == 1


def test_a_snapshot_that_was_rolled_back_is_not_found(orders: interbed.Table) -> None:
    written(orders, bought((1, "x", 1.0)))
    written(orders, bought((2, "y", 2.0)))
    snapshots = orders.snapshot_manager()
    assert snapshots.get_snapshot_by_id(2) is not None
    orders.versions.rollback_to(1)
    assert snapshots.get_snapshot_by_id(2) is None


def test_a_branch_manager_changes_branches(orders: interbed.Table) -> None:
    written(orders, bought((1, "x", 1.0)))
    orders.versions.create_tag("first")
    branches = orders.branch_manager()
    branches.create_branch("dev", "first")
    branches.create_branch("dev", "first", ignore_if_exists=True)
    branches.rename_branch("dev", "next")
    assert (branches.branches(), branches.branch_exists("dev")) == (["next"], False)
    written(orders.branch("next"), bought((2, "y", 2.0)))
    branches.fast_forward("next")
    assert orders.scan().to_arrow().num_rows == 2
    branches.drop_branch("next")
    assert not branches.branch_exists("next")


def test_arrow_schemas_are_parsed_to_fields_and_back() -> None:
    fields = pp.PyarrowFieldParser.to_paimon_schema(PLACES)
    assert [f.id for f in fields] == [0, 1]
    assert pp.PyarrowFieldParser.from_paimon_schema(fields) == PLACES
    assert pp.PyarrowFieldParser.to_paimon_type(pa.int32(), nullable=False) == pp.AtomicType("INT", False)
    assert pp.PyarrowFieldParser.from_paimon_type(pp.AtomicType("INT")) == pa.int32()
    assert pp.DataTypeParser.parse_data_field(fields[1].to_dict()) == fields[1]


def test_a_table_is_described_under_pypaimons_names(catalog: interbed.Catalog, orders: interbed.Table) -> None:
    assert orders.table_path == orders.location
    assert orders.table_schema == orders.schema
    assert orders.schema_manager.latest() == orders.table_schema
    assert (orders.is_primary_key_table, orders.cross_partition_update) == (True, False)
    assert orders.bucket_mode() is pp.BucketMode.FIXED
    assert orders.trimmed_primary_keys == ["id"]
    assert list(orders.field_dict) == orders.field_names
    assert ([f.name for f in orders.primary_keys_fields], orders.partition_keys_fields) == (["id"], [])
    assert orders.comment() is None
