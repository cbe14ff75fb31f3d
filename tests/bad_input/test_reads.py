"""Invalid filters and predicates, and reads of missing objects, are named in errors."""

from collections.abc import Callable

import pytest

import interbed
from interbed.storage.base.errors import (
    FilterError,
    InvalidInputError,
    InvalidOptionError,
    SnapshotNotFoundError,
)
from tests.bad_input.tables import SCHEMA, unchanged


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "(?i)empty|filter"),
        ("id >", "id >"),
        ("id = 1 and", "and"),
        ("id = = 1", "="),
        ("(id = 1", "id = 1"),
        ("id = 'x", "'x"),
        ("1 = 1; drop table t", ";"),
        ("colour = 'red'", "colour"),
        ("id = 'one'", "id.*one|one.*id"),
        ("small = 1.5e", "1.5e"),
        ("name > 5", "name"),
        ("flag = 'perhaps'", "flag"),
        ("due = DATE '2026-13-01'", "2026-13-01"),
        ("due > TRUE", "due"),
        ("name", "name"),
        ("price = 'cheap'", "price|cheap"),
        ("id in ()", "\\(\\)|in"),
        ("id between 1", "between"),
    ],
)
def test_filters_with_wrong_syntax_or_types_are_named(orders: interbed.Table, text: str, message: str) -> None:
    calls: list[Callable[[], object]] = [
        lambda: orders.scan(filter=text).to_arrow(),
        lambda: orders.explain(filter=text),
        lambda: orders.delete(text),
    ]
    for call in calls:
        with unchanged(orders), pytest.raises(FilterError, match=message):
            call()


def test_predicates_over_unknown_columns_are_named(orders: interbed.Table) -> None:
    builder = orders.new_read_builder()
    with pytest.raises(FilterError, match="colour"):
        builder.new_predicate_builder().equal("colour", "red")
    with pytest.raises(FilterError, match="id"):
        builder.new_predicate_builder().equal("id", "red")
    with pytest.raises(InvalidInputError, match="colour"):
        builder.with_projection(["colour"])
    with pytest.raises(InvalidInputError, match="-1"):
        builder.with_limit(-1)
    with pytest.raises(InvalidInputError, match="2 of 2"):
        builder.new_scan().with_shard(2, 2)


def test_reads_of_missing_objects_are_named(orders: interbed.Table) -> None:
    with pytest.raises(InvalidInputError, match=r"'colour'.*id, small"):
        orders.scan(columns=["id", "colour"])
    with pytest.raises(InvalidInputError, match="-1"):
        orders.scan(limit=-1)
    for snapshot_id in (0, -1, 3, 2**40):
        for call in (orders.scan, orders.explain):
            with pytest.raises(SnapshotNotFoundError, match=f"snapshot {snapshot_id}.*1 to 2"):
                call(snapshot_id=snapshot_id)
    with pytest.raises(SnapshotNotFoundError, match=r"1000 ms.*1 to 2"):
        orders.copy({"scan.timestamp-millis": "1000"}).scan().to_arrow()
    with pytest.raises(InvalidOptionError, match=r"scan\.snapshot-id.*many"):
        orders.copy({"scan.snapshot-id": "many"}).scan().to_arrow()


def test_reads_of_snapshots_of_an_empty_table_are_named(catalog: interbed.Catalog) -> None:
    table = catalog.create_table("shop.empty", SCHEMA)
    assert table.scan().to_arrow().num_rows == 0
    assert table.snapshots() == []
    with pytest.raises(SnapshotNotFoundError, match=r"snapshot 1.*no snapshots"):
        table.scan(snapshot_id=1)
