"""The notification log: ids without gaps in the order of commits, and event bodies that are read back unchanged."""

import dataclasses
import threading
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from interbed.catalog.server.database.events import packed_body, unpacked_body
from interbed.catalog.server.database.session import GenerationChanges, SqlRepository, open_generation_reader
from interbed.catalog.server.service import events
from interbed.catalog.server.service.history.entries import HistoryQuery
from interbed.catalog.server.service.model import (
    Constraint,
    ConstraintKind,
    Function,
    MetastoreCatalog,
    MetastoreColumn,
    MetastoreDatabase,
    MetastorePartition,
    MetastoreTable,
    QualifiedTableName,
    StorageDescriptor,
)
from interbed.catalog.server.service.repository import Transaction
from tests.support.databases import open_migrated
from tests.support.examples import examples
from tests.support.waits import at_most, wait_until

WRITERS = 4
EVENTS_EACH = 15


@pytest.fixture
def store(database_url: str) -> Iterator[SqlRepository]:
    """Open a repository with an empty log."""
    opened = open_migrated(database_url)
    yield opened
    opened.close()


def test_ids_begin_at_one_and_have_no_gaps(store: SqlRepository) -> None:
    assert store.read(lambda transaction: transaction.events.current()) == 0
    first = store.write(lambda transaction: transaction.events.append(_created("a")))
    last = store.write(lambda transaction: transaction.events.append(_created("b"), _created("c")))
    assert (first, last) == (1, 3)
    found = store.read(lambda transaction: transaction.events.after(0))
    assert [(event.id, event.table) for event in found] == [(1, "a"), (2, "b"), (3, "c")]
    assert [event.id for event in store.read(lambda transaction: transaction.events.after(1, 1))] == [2]


def test_an_event_of_a_failed_unit_of_work_leaves_no_gap(store: SqlRepository) -> None:
    def fail(transaction: Transaction) -> None:
        transaction.events.append(_created("lost"))
        raise KeyError("lost")

    with pytest.raises(KeyError):
        store.write(fail)
    assert store.write(lambda transaction: transaction.events.append(_created("kept"))) == 1


def test_events_are_filtered_by_names_and_types(store: SqlRepository) -> None:
    store.write(
        lambda transaction: transaction.events.append(
            _created("a"),
            _created("b"),
            events.drop_table(_table("a")),
            events.create_database(MetastoreDatabase(name="other", location="file:/o")),
        )
    )

    def ids(**conditions: object) -> list[int]:
        chosen = store.read(lambda transaction: transaction.events.after(0, **conditions))  # type: ignore[arg-type]
        return [event.id for event in chosen]

    assert ids(database="other") == [4]
    assert ids(tables=["a"]) == [1, 3]
    assert ids(tables=["a", "b"], database="d") == [1, 2, 3]
    assert ids(types=["DROP_TABLE"]) == [3]
    assert ids(skipped_types=["CREATE_TABLE"]) == [3, 4]
    assert ids(catalog="elsewhere") == []
    assert store.read(lambda transaction: transaction.events.count(1, up_to=3, database="d")) == 2


def test_an_answer_is_limited_in_bytes_but_has_at_least_one_event(store: SqlRepository) -> None:
    for name in ("a", "b", "c"):
        _append(store, _created(name))
    # Characters differ in their encoded size.
    size = len(packed_body(_created("a").body)) + 5

    def ids(last: int, bytes_max: int) -> list[int]:
        chosen = store.read(lambda transaction: transaction.events.after(last, bytes_max=bytes_max))
        return [event.id for event in chosen]

    assert (ids(0, 2 * size), ids(2, 2 * size), ids(0, 1), ids(3, 1)) == ([1, 2], [3], [1], [])


def test_a_rename_is_an_event_of_both_names(store: SqlRepository) -> None:
    store.write(lambda transaction: transaction.events.append(events.alter_table(_table("old"), _table("new"))))
    touched = store.read(lambda transaction: transaction.events.touched(0))
    assert [(each.id, each.database, each.table) for each in touched] == [(1, "d", "old"), (1, "d", "new")]
    assert store.read(lambda transaction: transaction.events.after(0))[0].previous == ("hive", "d", "old")


def test_a_former_name_may_have_dots(store: SqlRepository) -> None:
    """Iceberg's clients give such names, which the caches of all servers read."""
    old = dataclasses.replace(_table("old.name"), database="a.b")
    store.write(lambda transaction: transaction.events.append(events.alter_table(old, _table("new"))))
    touched = store.read(lambda transaction: transaction.events.touched(0))
    assert [(each.database, each.table) for each in touched] == [("a.b", "old.name"), ("d", "new")]
    assert store.read(lambda transaction: transaction.events.after(0))[0].previous == ("hive", "a.b", "old.name")
    (entry,) = store.read(lambda transaction: transaction.history.select(HistoryQuery()))
    assert entry.previous == ("hive", "a.b", "old.name")
    reader = open_generation_reader(store.engine.url)
    reader.ask(0)
    answers: list[GenerationChanges] = []

    def is_answered() -> bool:
        found = reader.answer()
        answers.extend([] if found is None else [found])
        return found is not None

    wait_until(is_answered)
    reader.close()
    assert [each.previous for each in answers[0].touched or ()] == [("hive", "a.b", "old.name")]


def test_old_events_expire_and_later_ids_continue(store: SqlRepository) -> None:
    old = events.NotificationEvent(type="CREATE_TABLE", catalog="hive", time=1000)
    store.write(lambda transaction: transaction.events.append(old, old, _created("new")))
    assert store.write(lambda transaction: transaction.events.expire(2000)) == 2
    assert [event.id for event in store.read(lambda transaction: transaction.events.after(0))] == [3]
    assert store.read(lambda transaction: transaction.events.current()) == 3
    assert store.write(lambda transaction: transaction.events.append(_created("next"))) == 4


def test_a_reader_beside_several_writers_misses_no_event(store: SqlRepository) -> None:
    def write(number: int) -> None:
        for count in range(EVENTS_EACH):
            _append(store, _created(f"t{number}_{count}"))

    writers = [threading.Thread(target=write, args=(number,)) for number in range(WRITERS)]
    for writer in writers:
        writer.start()
    seen: list[int] = []
    while any(writer.is_alive() for writer in writers):
        # As a consumer does, ask for the events after the last one. An event that became visible late would be missed.
        seen += _ids_after(store, seen[-1] if seen else 0)
    for writer in writers:
        writer.join(timeout=at_most(60))
    seen += _ids_after(store, seen[-1] if seen else 0)
    assert seen == list(range(1, WRITERS * EVENTS_EACH + 1))


_texts = st.text(max_size=20)
_columns = st.builds(MetastoreColumn, name=_texts, type=_texts, comment=st.none() | _texts)
_storages = st.builds(
    StorageDescriptor,
    columns=st.lists(_columns, max_size=3).map(tuple),
    location=st.none() | _texts,
    parameters=st.dictionaries(_texts, _texts, max_size=2),
)
_tables = st.builds(
    MetastoreTable,
    database=_texts,
    name=_texts,
    storage=_storages,
    partition_keys=st.lists(_columns, max_size=2).map(tuple),
    parameters=st.dictionaries(_texts, _texts, max_size=3),
)
_partitions = st.builds(MetastorePartition, values=st.lists(_texts, max_size=2).map(tuple), storage=_storages)
_constraints = st.builds(
    Constraint,
    database=_texts,
    table=_texts,
    name=_texts,
    kind=st.sampled_from(ConstraintKind),
    columns=st.lists(_texts, max_size=2).map(tuple),
    enabled=st.booleans(),
    expression=st.none() | _texts,
    parent=st.none() | st.builds(QualifiedTableName, database=_texts, table=_texts),
    update_rule=st.integers(0, 5),
)
_bodies = st.builds(
    events.EventBody,
    catalog=st.none() | st.builds(MetastoreCatalog, name=_texts, location=_texts),
    database=st.none() | st.builds(MetastoreDatabase, name=_texts, location=st.none() | _texts),
    table=st.none() | _tables,
    table_before=st.none() | _tables,
    partitions=st.lists(_partitions, max_size=2).map(tuple),
    function=st.none() | st.builds(Function, database=_texts, name=_texts, class_name=st.none() | _texts),
    constraints=st.lists(_constraints, max_size=2).map(tuple),
    details=st.dictionaries(_texts, st.booleans() | _texts, max_size=2),
)


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(_bodies)
def test_a_body_is_read_back_unchanged(body: events.EventBody) -> None:
    assert unpacked_body(packed_body(body)) == body


def _append(store: SqlRepository, event: events.NotificationEvent) -> None:
    store.write(lambda transaction: transaction.events.append(event))


def _ids_after(store: SqlRepository, last: int) -> list[int]:
    return [event.id for event in store.read(lambda transaction: transaction.events.after(last))]


def _table(name: str) -> MetastoreTable:
    return MetastoreTable(database="d", name=name)


def _created(name: str) -> events.NotificationEvent:
    return events.create_table(_table(name))
