"""Commits at the ends of the source's transactions, also if a table changes in the middle of a transaction."""

from pathlib import Path
from typing import Any

import pytest

from interbed.catalog.client.api import Catalog
from interbed.ingest.formats.debezium_transactions import DebeziumJsonTransactions
from interbed.ingest.sources.source import TransactionalSource
from tests.ingest.memory_source import MemorySource
from tests.ingest.shop import Event, Row, event, job, lake, rows_of

OVER = "s.transaction"


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return lake(tmp_path / "lake")


def topics_of(*transactions: list[Event]) -> dict[str, list[list[tuple[object, object]]]]:
    """Return a topic of changes and one of transactions."""
    changes: list[tuple[object, object]] = []
    ends: list[tuple[object, object]] = []
    for number, events in enumerate(transactions):
        for key, value in events:
            assert isinstance(value, dict)
            changes.append((key, {**value, "transaction": {"id": f"{number}:1"}}))
        counts = [{"data_collection": "public.orders", "event_count": len(events)}]
        ends.append((None, {"status": "END", "id": f"{number}:2", "data_collections": counts}))
    return {"s.public.orders": [changes], OVER: [ends]}


def run(catalog: Catalog, topics: dict[str, list[list[tuple[object, object]]]], **settings: Any) -> None:
    source = TransactionalSource(MemorySource(topics, [1]), OVER, DebeziumJsonTransactions())
    job(catalog, source, **settings).run()


def versions(catalog: Catalog) -> list[list[Row]]:
    """Return the rows of each snapshot."""
    table = catalog.get_table("shop.orders")
    found = []
    for snapshot in table.snapshots():
        rows = table.copy({"scan.snapshot-id": str(snapshot.id)}).scan().to_arrow().to_pylist()
        found.append([{n: v for n, v in row.items() if v is not None} for row in rows])
    return found


def test_a_commit_has_whole_transactions_however_often_it_is_due(catalog: Catalog) -> None:
    transactions = [[event("c", None, {"id": 10 * n + m}) for m in range(3)] for n in range(4)]
    run(catalog, topics_of(*transactions), commit_rows=1)
    assert [len(rows) for rows in versions(catalog)] == [3, 6, 9, 12]


def test_columns_added_within_a_transaction_do_not_split_it(catalog: Catalog) -> None:
    first = [event("c", None, {"id": 1}), event("c", None, {"id": 2})]
    second = [event("c", None, {"id": 3}), event("c", None, {"id": 4, "v": "x"}), event("c", None, {"id": 5, "v": 2.5})]
    run(catalog, topics_of(first, second), commit_rows=1)
    assert [len(rows) for rows in versions(catalog)] == [2, 5]
    assert rows_of(catalog)[2:] == [{"id": 3}, {"id": 4, "v": "x"}, {"id": 5, "v": "2.5"}]


@pytest.mark.parametrize("commit_rows", [1, 100])
@pytest.mark.parametrize("empty", [[], {}])
def test_an_empty_value_before_the_first_one_is_null_within_a_transaction(
    catalog: Catalog, empty: object, commit_rows: int
) -> None:
    full = [1] if empty == [] else {"a": 1}
    values = [empty, empty, full, empty, None]
    second = [event("c", None, {"id": i, "v": value}) for i, value in enumerate(values, 1)]
    third = [event("c", None, {"id": 9, "v": empty}), event("c", None, {"id": 10, "w": 1, "v": empty})]
    run(catalog, topics_of([event("c", None, {"id": 0})], second, third), commit_rows=commit_rows)
    found = [row.get("v") for row in rows_of(catalog)]
    there = [] if empty == [] else {"a": None}
    assert found == [None, None, None, full, there, None, there, there]


def test_a_new_table_within_a_transaction_has_null_before_the_first_value(catalog: Catalog) -> None:
    first = [event("c", None, {"id": i, "v": value}) for i, value in enumerate([[], [2], []])]
    run(catalog, topics_of(first, [event("c", None, {"id": 7, "v": []})]), commit_rows=1)
    assert [row.get("v") for row in rows_of(catalog)] == [None, [2], [], []]


def test_a_table_refilled_in_one_transaction_is_never_seen_empty(catalog: Catalog) -> None:
    first = [event("c", None, {"id": 1}), event("c", None, {"id": 2})]
    again = [
        event("d", {"id": 1}, None),
        event("t", None, None),
        event("c", None, {"id": 7}),
        event("c", None, {"id": 8}),
    ]
    last = [event("c", None, {"id": 9})]
    run(catalog, topics_of(first, again, last), commit_rows=2)
    run(catalog, topics_of(first, again, last))
    assert versions(catalog) == [[{"id": 1}, {"id": 2}], [{"id": 7}, {"id": 8}], [{"id": 7}, {"id": 8}, {"id": 9}]]


def test_a_run_ends_before_an_open_transaction(catalog: Catalog) -> None:
    topics = topics_of([event("c", None, {"id": 1})], [event("c", None, {"id": 2}), event("c", None, {"id": 3})])
    end = topics[OVER][0].pop()
    run(catalog, topics)
    assert rows_of(catalog) == [{"id": 1}]
    topics[OVER][0].append(end)
    run(catalog, topics)
    assert rows_of(catalog) == [{"id": 1}, {"id": 2}, {"id": 3}]
