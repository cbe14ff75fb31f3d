"""Source tables with another key or another identity: the run ends with an error, and writes none of their rows.

Each change is tried in a running process (both states in one run, in one batch and in two) and between two runs.
"""

import json
from pathlib import Path
from typing import Any

import pytest

import interbed
from interbed.catalog.client.api import Catalog
from interbed.ingest.flow.messages import SourceChangedError
from interbed.ingest.formats.canal_json import CanalJson
from interbed.ingest.formats.debezium_json import DebeziumJson
from interbed.ingest.formats.format import Decoder
from interbed.ingest.formats.maxwell_json import MaxwellJson
from interbed.ingest.job import Ingestion
from interbed.ingest.run_settings import IngestSettings
from interbed.ingest.tables.source_tables import TableNames
from interbed.ingest.tables.table_sink import TableSettings
from interbed.storage.base.errors import InvalidInputError
from tests.ingest.memory_source import MemorySource, messages_of
from tests.ingest.shop import lake, rows_of
from tests.support.servers.metastore import metastore
from tests.support.tally import Tally

Row = dict[str, Any]
Message = tuple[object, object]
KEYS = {
    "extended": (("id",), ("tenant", "id")),
    "shortened": (("tenant", "id"), ("id",)),
    "replaced": (("id",), ("tenant",)),
    "dropped": (("id",), ()),
}


def schema_of(names: tuple[str, ...]) -> Row:
    return {"type": "struct", "fields": [{"field": n, "type": "int32"} for n in names], "optional": False}


def debezium(
    row: Row, key: tuple[str, ...], database: str = "public", table: str = "orders", server: str = "a"
) -> Message:
    source = {"name": server, "db": "shop", "schema": database, "table": table}
    return ({n: row[n] for n in key} or None, {"before": None, "after": row, "source": source, "op": "c"})


def debezium_with_schema(row: Row, key: tuple[str, ...], *names: str) -> Message:
    found, value = debezium(row, key, *names)
    return (None if found is None else {"schema": schema_of(key), "payload": found}, value)


def canal(row: Row, key: tuple[str, ...], database: str = "public") -> Message:
    data = [{name: str(value) for name, value in row.items()}]
    types = dict.fromkeys(row, "int")
    value = {"database": database, "table": "orders", "type": "INSERT", "isDdl": False, "data": data, "old": None}
    return (None, {**value, "mysqlType": types, "pkNames": list(key) or None})


def maxwell(row: Row, key: tuple[str, ...], database: str = "public") -> Message:
    return (
        None,
        {"database": database, "table": "orders", "type": "insert", "data": row, "primary_key_columns": list(key)},
    )


FORMATS: dict[str, tuple[Any, type[Decoder]]] = {
    "debezium": (debezium, DebeziumJson),
    "debezium with schema": (debezium_with_schema, DebeziumJson),
    "canal": (canal, CanalJson),
    "maxwell": (maxwell, MaxwellJson),
}


def read(
    catalog: Catalog,
    form: str,
    messages: list[Message],
    *,
    at_once: int = 1000,
    **more: Any,
) -> Ingestion:
    names = more.pop("names", TableNames(database="shop"))
    tables = more.pop("tables", TableSettings(options={"bucket": "1"}))
    source = MemorySource({"t": [messages]}, sizes=[at_once])
    settings = IngestSettings(until_end=True, **more)
    job = Ingestion(catalog, source, FORMATS[form][1], names, tables, settings, pause=lambda seconds: None)
    job.run()
    return job


@pytest.mark.parametrize("when", ["in one batch", "in a running process", "between two runs"])
@pytest.mark.parametrize("change", KEYS)
@pytest.mark.parametrize("form", FORMATS)
def test_another_key_ends_the_run(tmp_path: Path, tally: Tally, form: str, change: str, when: str) -> None:
    tally("changes of keys at a source", 1)
    catalog, (before, after) = lake(tmp_path), KEYS[change]
    make = FORMATS[form][0]
    old = [make({"id": 1, "tenant": 1, "v": 1}, before), make({"id": 2, "tenant": 1, "v": 2}, before)]
    new = [make({"id": 1, "tenant": 2, "v": 3}, after)]
    if when == "between two runs":
        read(catalog, form, old)
    with pytest.raises(SourceChangedError) as error:
        read(catalog, form, old + new, at_once=1 if when == "in a running process" else 1000)
    message = str(error.value)
    for each in (
        "orders",
        "topic t, partition 0, offset 2",
        f"({', '.join(before)})",
        "--accept-changed-source shop.orders",
    ):
        assert each in message
    if when == "between two runs":
        assert [row["v"] for row in rows_of(catalog)] == [1, 2]


@pytest.mark.parametrize("form", FORMATS)
def test_an_accepted_key_change_applies_from_then_on(tmp_path: Path, form: str) -> None:
    catalog, make = lake(tmp_path), FORMATS[form][0]
    tables = TableSettings(primary_keys=["id"], options={"bucket": "1"})
    messages = [make({"id": 1, "tenant": 1}, ("tenant", "id")), make({"id": 2, "tenant": 1}, ("id",))]
    with pytest.raises(SourceChangedError):
        read(catalog, form, messages, tables=tables)
    read(catalog, form, messages, tables=tables, accept_changed_source=frozenset({"shop.orders"}))
    read(catalog, form, [*messages, make({"id": 3, "tenant": 1}, ("id",))], tables=tables)
    assert [row["id"] for row in rows_of(catalog)] == [1, 2, 3]
    with pytest.raises(SourceChangedError):
        read(catalog, form, [*messages, messages[1], make({"id": 3, "tenant": 1}, ("tenant", "id"))], tables=tables)


def test_a_key_with_reordered_columns_is_the_same_key(tmp_path: Path) -> None:
    catalog = lake(tmp_path)
    read(catalog, "canal", [canal({"a": 1, "b": 1}, ("a", "b")), canal({"a": 2, "b": 1}, ("b", "a"))])
    assert len(rows_of(catalog, key="a")) == 2


def test_a_table_whose_key_would_merge_different_rows_is_refused(tmp_path: Path) -> None:
    catalog = lake(tmp_path)
    catalog.create_database("shop")
    catalog.create_table("shop.orders", [{"id": 1, "tenant": 1}], primary_keys=["id"], options={"bucket": "1"})
    messages = [maxwell({"id": 1, "tenant": 1}, ("tenant", "id")), maxwell({"id": 1, "tenant": 2}, ("tenant", "id"))]
    with pytest.raises(SourceChangedError, match="give --primary-key id if that is unique for its rows"):
        read(catalog, "maxwell", messages)
    assert rows_of(catalog) == []
    read(catalog, "maxwell", messages, tables=TableSettings(primary_keys=["id"]))
    assert rows_of(catalog) == [{"id": 1, "tenant": 2}]


@pytest.mark.parametrize("when", ["in one batch", "in a running process", "between two runs"])
@pytest.mark.parametrize("form", FORMATS)
def test_a_second_source_table_is_not_mixed_into_a_table(tmp_path: Path, tally: Tally, form: str, when: str) -> None:
    tally("second source tables for one table", 1)
    catalog, make = lake(tmp_path), FORMATS[form][0]
    one, two = make({"id": 1, "v": 1}, ("id",), "public"), make({"id": 1, "v": 2}, ("id",), "audit")
    if when == "between two runs":
        read(catalog, form, [one])
    with pytest.raises(InvalidInputError, match=r"public\.orders.* and audit\.orders.* both go to 'shop\.orders'"):
        read(catalog, form, [one, two], at_once=1 if when == "in a running process" else 1000)
    together = TableNames(table="shop.both")
    read(catalog, form, [one, two], names=together)
    assert rows_of(catalog, "shop.both") == [{"id": 1, "v": 2}]


def test_tables_of_two_servers_are_two_tables(tmp_path: Path) -> None:
    catalog = lake(tmp_path)
    messages = [debezium({"id": 1}, ("id",), server="a"), debezium({"id": 1}, ("id",), server="b")]
    with pytest.raises(InvalidInputError, match=r"public\.orders of a and public\.orders of b"):
        read(catalog, "debezium", messages)


def test_a_truncation_of_one_of_two_source_tables_ends_the_run(tmp_path: Path) -> None:
    catalog = lake(tmp_path)
    source = {"name": "a", "db": "shop", "schema": "audit", "table": "orders"}
    messages = [
        debezium({"id": 1}, ("id",)),
        debezium({"id": 2}, ("id",), "audit"),
        (None, {"before": None, "after": None, "source": source, "op": "t"}),
    ]
    names = TableNames(table="shop.both")
    read(catalog, "debezium", messages[:2], names=names)
    with pytest.raises(SourceChangedError, match=r"truncates audit\.orders of a, and shop\.both has rows of public"):
        read(catalog, "debezium", messages, names=names)
    assert len(rows_of(catalog, "shop.both")) == 2


def test_positions_of_older_versions_are_accepted(tmp_path: Path) -> None:
    """They have no identities, and only some have ids of topics."""
    catalog = lake(tmp_path)
    messages = [maxwell({"id": 1}, ("id",)), maxwell({"id": 2}, ("id",))]
    read(catalog, "maxwell", messages[:1])
    note = next(tmp_path.glob("shop.db/orders/position/*"))
    content = json.loads(note.read_text())
    assert json.loads(content["source"]) == {"source tables": [{"database": "public", "key": ["id"], "name": "orders"}]}
    note.write_text(json.dumps({**content, "source": None}))
    read(catalog, "maxwell", messages)
    assert len(rows_of(catalog)) == 2


def test_names_that_differ_by_case_are_one_table_of_a_hive_catalog(tmp_path: Path) -> None:
    messages = [
        (None, {**dict(maxwell({"id": 1}, ("id",))[1]), "table": "Orders"}),  # type: ignore[call-overload]
        maxwell({"id": 1}, ("id",)),
    ]
    read(lake(tmp_path / "files"), "maxwell", messages)
    with (
        metastore() as uri,
        interbed.load_catalog(metastore="hive", uri=uri, warehouse=str(tmp_path / "hive")) as catalog,
    ):
        read(catalog, "maxwell", messages[:1])
        assert rows_of(catalog) == [{"id": 1}]
        for at_once in (1, 1000):
            with pytest.raises(
                InvalidInputError, match=r"public\.Orders and public\.orders .* both go to 'shop\.orders'"
            ):
                read(catalog, "maxwell", messages, at_once=at_once)
        # A run with the names that the catalog returns continues.
        read(catalog, "maxwell", [messages[0], messages[0]])


def test_missing_null_and_mixed_keys() -> None:
    """Keys without columns, keys with nulls, and keys of two tables in one topic."""
    keys: list[object] = [{"id": 1}, "Struct{id=1}", {"id": None}, None, {"id": "x", "b": 2}, [1], {"id": 3}, b"\xff{"]
    values = [debezium({"id": 1}, ("id",))[1] for _ in keys]
    decoded = DebeziumJson().decode(messages_of(values, keys))
    found = {int(m): each.key for each in decoded.changes for m in each.messages}
    assert found == {
        0: ("id",),
        1: None,
        2: ("id",),
        3: (),
        4: ("id", "b"),
        5: None,
        6: ("id",),
        7: None,
    }
