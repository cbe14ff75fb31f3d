"""Ingestion from a source in memory: tables are created and evolve, rows come once, bad messages are handled."""

from pathlib import Path

import pytest

from interbed import DataField, Schema, data_type
from interbed.catalog.client.api import Catalog
from interbed.ingest.flow.messages import BadMessageError, Messages, Positions
from interbed.ingest.run_settings import BadMessages
from interbed.ingest.tables.computed_columns import ComputedColumn
from interbed.ingest.tables.source_tables import TableNames
from interbed.ingest.tables.table_sink import TableSettings
from interbed.storage.base.errors import CommitConflictError, NotSupportedError, SchemaMismatchError
from tests.ingest.formats.test_debezium_json import payload, with_schema
from tests.ingest.memory_source import MemorySource
from tests.ingest.shop import Event, event, job, lake, rows_of


def schema_of(*columns: str) -> Schema:
    """Return a table schema with the key `id`, of columns in SQL syntax."""
    fields = [DataField(id=i, name=c.split()[0], type=data_type(c.split(maxsplit=1)[1])) for i, c in enumerate(columns)]
    return Schema(fields=fields, primary_keys=["id"], options={"bucket": "1"})


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return lake(tmp_path)


def test_tables_are_created_and_get_the_changes_of_their_rows(catalog: Catalog) -> None:
    events = [
        event("r", None, {"id": 1, "v": "a"}),
        event("c", None, {"sku": "x", "price": 1.5}, "items", "sku"),
        event("u", {"id": 1, "v": "a"}, {"id": 1, "v": "b"}),
        event("c", None, {"id": 2, "v": "c"}),
        event("d", {"id": 2, "v": "c"}, None),
        (None, None),
    ]
    run = job(catalog, MemorySource({"t": [events]}))
    run.run()
    assert rows_of(catalog) == [{"id": 1, "v": "b"}]
    assert rows_of(catalog, "shop.items", "sku") == [{"sku": "x", "price": 1.5}]
    assert catalog.get_table("shop.orders").schema.primary_keys == ("id",)
    assert run.result.to_dict() == {
        "messages": 6,
        "rows": {"shop.items": 1, "shop.orders": 4},
        "bad": 0,
        "commits": 1,
        "lag": 0,
        "positions": {"t": {"0": 6}},
    }


def test_a_second_run_continues_where_the_first_one_ended(catalog: Catalog) -> None:
    events = [event("c", None, {"id": i}) for i in range(5)]
    source = MemorySource({"t": [events]})
    job(catalog, source).run()
    events += [event("c", None, {"id": i}) for i in range(5, 8)]
    again = job(catalog, source)
    again.run()
    assert again.result.rows == {"shop.orders": 3}
    assert [row["id"] for row in rows_of(catalog)] == list(range(8))
    assert source.noted == Positions({"t": {0: 8}})


def test_a_table_without_a_key_gets_every_message_once(catalog: Catalog) -> None:
    catalog.create_database("shop")
    catalog.create_table("shop.orders", [{"id": 1}])
    events = [event("c", None, {"id": i // 2}) for i in range(10)]
    source = MemorySource({"t": [events[:6], events[6:]]}, sizes=[1, 3, 2])
    for _ in range(2):
        job(catalog, source, commit_rows=2).run()
    assert [row["id"] for row in rows_of(catalog)] == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]


def test_columns_are_added_and_types_widened_but_never_narrowed(catalog: Catalog) -> None:
    catalog.create_database("shop")
    catalog.create_table("shop.orders", schema_of("id BIGINT", "n INT", "amount DECIMAL(10, 2)", "day DATE"))
    events = [
        event("c", None, {"id": 1, "n": 5, "amount": "12.34", "day": "2026-01-31"}),
        event("c", None, {"id": 2, "n": 2**40, "amount": 5, "extra": {"a": 1}}),
        event("c", None, {"id": 3, "extra": {"a": 2, "b": "x"}, "amount": 1.5}),
    ]
    job(catalog, MemorySource({"t": [events]}, sizes=[1])).run()
    table = catalog.get_table("shop.orders")
    assert [(f.name, str(f.type)) for f in table.schema.fields[1:4]] == [
        ("n", "BIGINT"),
        ("amount", "DECIMAL(10, 2)"),
        ("day", "DATE"),
    ]
    assert [str(row["amount"]) for row in rows_of(catalog)] == ["12.34", "5.00", "1.50"]
    assert [row.get("extra") for row in rows_of(catalog)] == [None, {"a": 1, "b": None}, {"a": 2, "b": "x"}]


def test_a_changed_key_is_a_deletion_and_an_insertion(catalog: Catalog) -> None:
    events = [event("c", None, {"id": 1, "v": "a"}), event("u", {"id": 1, "v": "a"}, {"id": 2, "v": "a"})]
    job(catalog, MemorySource({"t": [events]})).run()
    assert rows_of(catalog) == [{"id": 2, "v": "a"}]


def test_a_truncation_deletes_the_rows_before_it(catalog: Catalog) -> None:
    events: list[Event] = [event("c", None, {"id": 1}), event("t", None, None), event("c", None, {"id": 2})]
    source = MemorySource({"t": [events]})
    for _ in range(2):
        job(catalog, source).run()
    assert rows_of(catalog) == [{"id": 2}]


def test_rows_before_updates_are_kept_where_the_merge_engine_requires_them(catalog: Catalog) -> None:
    events = [event("c", None, {"id": 1, "n": 5}), event("u", {"id": 1, "n": 5}, {"id": 1, "n": 7})]
    options = {"bucket": "1", "merge-engine": "aggregation", "fields.n.aggregate-function": "sum"}
    tables = TableSettings(primary_keys=["id"], options=options)
    job(catalog, MemorySource({"t": [events]}), tables=tables).run()
    assert rows_of(catalog) == [{"id": 1, "n": 7}]


def test_a_bad_message_stops_the_run_and_its_offset_is_reported(catalog: Catalog) -> None:
    events = [event("c", None, {"id": 1}), (None, b"no json"), event("c", None, {"id": 2})]
    with pytest.raises(BadMessageError, match="topic t, partition 0, offset 1 can't be taken: it is no JSON"):
        job(catalog, MemorySource({"t": [events]}, sizes=[1])).run()


def test_a_value_that_does_not_fit_its_column_makes_its_message_bad(catalog: Catalog) -> None:
    catalog.create_database("shop")
    catalog.create_table("shop.orders", schema_of("id BIGINT", "day DATE"))
    events = [event("c", None, {"id": 1, "day": "2026-01-31"}), event("c", None, {"id": 2, "day": "2026-02-30"})]
    with pytest.raises(BadMessageError, match="offset 1 can't be taken: its column 'day' has '2026-02-30'"):
        job(catalog, MemorySource({"t": [events]})).run()
    run = job(catalog, MemorySource({"t": [events]}), bad_messages=BadMessages.SKIP)
    run.run()
    assert [row["id"] for row in rows_of(catalog)] == [1]


class MemoryDeadLetters:
    """Dead letter queue in memory."""

    def __init__(self) -> None:
        self.found: list[tuple[int, str]] = []

    def put(self, messages: Messages, index: int, reason: str) -> None:
        self.found.append((int(messages.offsets[index]), reason))

    def flush(self) -> None:
        pass


def test_bad_messages_are_skipped_or_put_into_dead_letters_and_counted(catalog: Catalog) -> None:
    events = [event("c", None, {"id": 1}), (None, b"{}"), event("c", None, {"id": 2}), (None, b"[")]
    letters = MemoryDeadLetters()
    run = job(
        catalog, MemorySource({"t": [events]}), bad_messages=BadMessages.DEAD_LETTER, dead_letters=letters, group="a"
    )
    run.run()
    assert run.result.bad == 2
    assert [offset for offset, _ in letters.found] == [1, 3]
    assert rows_of(catalog) == [{"id": 1}, {"id": 2}]
    job(catalog, MemorySource({"t": [events]}), bad_messages=BadMessages.SKIP, group="b").run()


def test_a_change_of_a_row_requires_a_primary_key(catalog: Catalog) -> None:
    update = event("u", {"id": 1}, {"id": 1})
    nameless: list[Event] = [(None, update[1])]
    with pytest.raises(BadMessageError, match="do not name its primary key"):
        job(catalog, MemorySource({"t": [nameless]})).run()
    catalog.create_database("shop")
    catalog.create_table("shop.orders", [{"id": 1}])
    with pytest.raises(BadMessageError, match="has no primary key to find it by"):
        job(catalog, MemorySource({"t": [nameless]})).run()


def test_tables_are_selected_and_named_by_patterns(catalog: Catalog) -> None:
    events = [event("c", None, {"id": 1}, name) for name in ("orders", "items", "secret")]
    names = TableNames(database="ods", prefix="shop_", including="orders|public\\.items", excluding="secret")
    job(catalog, MemorySource({"t": [events]}), names=names).run()
    assert sorted(catalog.list_tables("ods")) == ["shop_items", "shop_orders"]


def test_shards_become_one_table(catalog: Catalog) -> None:
    events = [event("c", None, {"id": 1}, "orders_1"), event("c", None, {"id": 2}, "orders_2")]
    job(catalog, MemorySource({"t": [events]}), names=TableNames(table="shop.orders")).run()
    assert rows_of(catalog) == [{"id": 1}, {"id": 2}]


def test_computed_columns_partition_a_new_table(catalog: Catalog) -> None:
    events = [event("c", None, {"id": i, "created": f"2026-01-0{i} 10:00:00"}) for i in (1, 2)]
    tables = TableSettings(
        primary_keys=["dt", "id"],
        partition_keys=["dt"],
        computed=[ComputedColumn.parse("dt=date_format(created,'yyyy-MM-dd')")],
        options={"bucket": "1"},
    )
    job(catalog, MemorySource({"t": [events]}), tables=tables).run()
    assert [p.spec for p in catalog.list_partitions("shop.orders")] == [{"dt": "2026-01-01"}, {"dt": "2026-01-02"}]


def test_after_a_rollback_of_the_table_its_messages_are_read_again(catalog: Catalog) -> None:
    events = [event("c", None, {"id": i}) for i in range(6)]
    source = MemorySource({"t": [events]}, sizes=[2])
    job(catalog, source, commit_rows=2).run()
    table = catalog.get_table("shop.orders")
    table.versions.rollback_to(1)
    assert [row["id"] for row in rows_of(catalog)] == [0, 1]
    job(catalog, source).run()
    assert [row["id"] for row in rows_of(catalog)] == list(range(6))


def test_another_group_reads_all_messages_into_the_table(catalog: Catalog) -> None:
    events = [event("c", None, {"id": 1})]
    for group in ("a", "b"):
        run = job(catalog, MemorySource({"t": [events]}), group=group)
        run.run()
        assert run.result.rows == {"shop.orders": 1}


def test_one_of_two_processes_of_a_group_gives_way(catalog: Catalog) -> None:
    catalog.create_database("shop")
    catalog.create_table("shop.orders", [{"id": 1}])
    events = [event("c", None, {"id": i}) for i in range(20)]

    class CompetingSource(MemorySource):
        def poll(self, *, timeout_seconds: float, most: int) -> list[Messages]:
            found = super().poll(timeout_seconds=timeout_seconds, most=most)
            if found and not meddled:
                meddled.append(True)
                job(catalog, MemorySource({"t": [events]})).run()
            return found

    meddled: list[bool] = []
    run = job(catalog, CompetingSource({"t": [events]}, sizes=[7]))
    run.run()
    assert [row["id"] for row in rows_of(catalog)] == list(range(20))
    assert run.result.rows == {}


def test_permanent_conflicts_are_raised(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    from interbed.storage.commit.file_store_commit import FileStoreCommit

    def refuse(*_: object, **__: object) -> list[int]:
        raise CommitConflictError("always")

    monkeypatch.setattr(FileStoreCommit, "commit", refuse)
    with pytest.raises(CommitConflictError, match="always"):
        job(catalog, MemorySource({"t": [[event("c", None, {"id": 1})]]})).run()


def test_a_table_that_cannot_be_created_ends_only_runs_that_include_it(catalog: Catalog) -> None:
    fields: list[dict[str, object]] = [{"type": "int32", "field": "id"}, {"type": "map", "field": "labels"}]
    odd = with_schema(payload("c", None, {"id": 1, "labels": {}}, "odd"), fields)
    source = MemorySource({"t": [[(None, odd), event("c", None, {"id": 1})]]})
    with pytest.raises(
        NotSupportedError, match=r"has the type 'map' .* of the table s\.odd; --excluding-tables leaves"
    ):
        job(catalog, source, bad_messages=BadMessages.SKIP).run()
    job(catalog, source, names=TableNames(database="shop", excluding=r"s\.odd")).run()
    assert rows_of(catalog) == [{"id": 1}]
    assert catalog.list_tables("shop") == ["orders"]


def test_the_error_about_an_impossible_type_change_names_the_option_to_exclude_the_table(catalog: Catalog) -> None:
    catalog.create_database("shop")
    catalog.create_table("shop.orders", schema_of("id INT", "v INT"))
    fields: list[dict[str, object]] = [{"type": "int32", "field": "id"}, {"type": "string", "field": "v"}]
    events: list[Event] = [({"id": 1}, with_schema(payload("c", None, {"id": 1, "v": "x"}), fields))]
    with pytest.raises(
        SchemaMismatchError,
        match=r"'?v'?.* changes of s\.orders\. To read the other tables, exclude this one: --excluding-tables",
    ):
        job(catalog, MemorySource({"t": [events]}), bad_messages=BadMessages.SKIP).run()
