"""The notification log over the wire: an event for each change, in order, with messages that consumers can parse."""

import json
import threading
from typing import Any

import pytest
from hmsclient.genthrift.hive_metastore import ttypes as foreign
from thrift.protocol.TJSONProtocol import TJSONProtocol
from thrift.transport.TTransport import TMemoryBuffer

from interbed.thrift_idl.hive_metastore import ttypes
from tests.support.servers.metastore import MetastoreUnderTest, foreign_client, plain_client, table
from tests.support.waits import at_most

WRITERS = 4
CHANGES_EACH = 10


def events_after(wire: Any, last: int, **conditions: Any) -> list[Any]:
    """Return the events after the given id."""
    return list(wire.get_next_notification(ttypes.NotificationEventRequest(lastEvent=last, **conditions)).events)


def current(wire: Any) -> int:
    """Return the id of the last event."""
    return int(wire.get_current_notificationEventId().eventId)


def parsed(cls: Any, text: str) -> Any:
    """Decode a structure of another code generator from its text in a message."""
    value = cls()
    value.read(TJSONProtocol(TMemoryBuffer(text.encode())))
    return value


def test_every_change_of_tables_and_databases_is_logged_in_order(wire: Any, database: str) -> None:
    before = current(wire)
    name = f"{database}_x"
    wire.create_database(ttypes.Database(name=name))
    wire.alter_database(name, ttypes.Database(name=name, parameters={"a": "b"}))
    wire.create_table(table(name, "t"))
    changed = wire.get_table(name, "t")
    changed.parameters["k"] = "v"
    wire.alter_table(name, "t", changed)
    changed.tableName = "u"
    wire.alter_table(name, "t", changed)
    wire.truncate_table(name, "u", None)
    wire.create_function(ttypes.Function(functionName="f", dbName=name, className="c", ownerType=1, functionType=1))
    changed_function = wire.get_function(name, "f")
    changed_function.className = "d"
    wire.alter_function(name, "f", changed_function)
    wire.drop_function(name, "f")
    wire.create_table(table(name, "v"))
    wire.drop_table(name, "v", True)
    wire.drop_database(name, True, True)
    found = events_after(wire, before)
    assert [event.eventType for event in found] == [
        "CREATE_DATABASE",
        "ALTER_DATABASE",
        "CREATE_TABLE",
        "ALTER_TABLE",
        "ALTER_TABLE",
        "ALTER_TABLE",
        "CREATE_FUNCTION",
        "DROP_FUNCTION",
        "CREATE_FUNCTION",
        "DROP_FUNCTION",
        "CREATE_TABLE",
        "DROP_TABLE",
        "DROP_TABLE",
        "DROP_DATABASE",
    ]
    assert [event.eventId for event in found] == list(range(before + 1, before + 1 + len(found)))
    assert {(event.catName, event.dbName, event.messageFormat) for event in found} == {("hive", name, "json-0.2")}
    assert [event.tableName for event in found] == [
        *(None, None, "t", "t", "u", "u"),
        *(None, None, None, None),
        *("v", "v", "u", None),
    ]
    assert current(wire) == found[-1].eventId


def test_refused_changes_are_not_logged(wire: Any, database: str) -> None:
    wire.create_table(table(database, "t"))
    before = current(wire)
    with pytest.raises(ttypes.AlreadyExistsException):
        wire.create_table(table(database, "t"))
    with pytest.raises(ttypes.NoSuchObjectException):
        wire.drop_table(database, "nope", True)
    with pytest.raises(ttypes.InvalidOperationException):
        wire.drop_database(database, True, False)
    assert current(wire) == before


def test_messages_have_objects_that_other_code_can_decode(wire: Any, database: str) -> None:
    before = current(wire)
    sent = table(
        database,
        "t",
        ("id", "int"),
        ("ü", "array<string>"),
        partition_keys=(("dt", "string"),),
        parameters={"a": "\x01"},
    )
    wire.create_table(sent)
    changed = wire.get_table(database, "t")
    changed.parameters["漢"] = 'a "quoted" \\ text'
    wire.alter_table(database, "t", changed)
    created, altered = (json.loads(event.message) for event in events_after(wire, before))
    assert (created["db"], created["table"], created["tableType"], created["files"]) == (
        database,
        "t",
        "MANAGED_TABLE",
        [],
    )
    found = parsed(foreign.Table, created["tableObjJson"])
    assert (found.dbName, found.tableName, found.parameters["a"]) == (database, "t", "\x01")
    assert [column.name for column in found.sd.cols] == ["id", "ü"]
    assert [column.name for column in found.partitionKeys] == ["dt"]
    assert "漢" not in parsed(foreign.Table, altered["tableObjBeforeJson"]).parameters
    assert parsed(foreign.Table, altered["tableObjAfterJson"]).parameters["漢"] == 'a "quoted" \\ text'
    assert altered["isTruncateOp"] == "false"
    assert parsed(ttypes.Table, altered["tableObjAfterJson"]) == wire.get_table(database, "t")


def test_constraints_and_databases_are_logged_as_in_hive(wire: Any, database: str) -> None:
    wire.create_table(table(database, "t"))
    before = current(wire)
    key = ttypes.SQLPrimaryKey(database, "t", "id", 1, "p", False, False, True, "hive")
    wire.add_primary_key(ttypes.AddPrimaryKeyRequest([key]))
    wire.drop_constraint(ttypes.DropConstraintRequest(database, "t", "p", "hive"))
    wire.alter_database(database, ttypes.Database(name=database, description="new"))
    added, dropped, altered = events_after(wire, before)
    assert (added.eventType, added.dbName, added.tableName) == ("ADD_PRIMARYKEY", database, "t")
    row = parsed(foreign.SQLPrimaryKey, json.loads(added.message)["primaryKeyListJson"][0])
    assert (row.table_db, row.table_name, row.column_name, row.pk_name) == (database, "t", "id", "p")
    assert dropped.eventType == "DROP_CONSTRAINT"
    assert json.loads(dropped.message)["constraintName"] == "p"
    assert parsed(foreign.Database, json.loads(altered.message)["dbObjAfterJson"]).description == "new"


def test_a_client_can_log_the_files_that_it_wrote(wire: Any, database: str) -> None:
    wire.create_table(table(database, "t"))
    before = current(wire)
    data = ttypes.FireEventRequestData(
        insertData=ttypes.InsertEventRequestData(replace=True, filesAdded=["file:/a", "file:/b"])
    )
    answer = wire.fire_listener_event(
        ttypes.FireEventRequest(successful=True, data=data, dbName=database, tableName="t")
    )
    (event,) = events_after(wire, before)
    assert (event.eventType, [event.eventId]) == ("INSERT", answer.eventIds)
    message = json.loads(event.message)
    assert (message["files"], message["replace"]) == (["file:/a", "file:/b"], "true")
    refresh = ttypes.FireEventRequest(
        successful=True, data=ttypes.FireEventRequestData(refreshEvent=True), dbName=database, tableName="t"
    )
    assert wire.fire_listener_event(refresh).eventIds == []
    assert current(wire) == event.eventId


def test_events_are_filtered_and_counted(wire: Any, database: str) -> None:
    before = current(wire)
    for name in ("a", "b", "c"):
        wire.create_table(table(database, name))
    wire.drop_table(database, "a", True)
    assert len(events_after(wire, before, maxEvents=2)) == 2
    assert [each.tableName for each in events_after(wire, before, dbName=database, tableNames=["A"])] == ["a", "a"]
    assert [each.eventType for each in events_after(wire, before, eventTypeSkipList=["CREATE_TABLE"])] == ["DROP_TABLE"]
    assert [each.tableName for each in events_after(wire, before, eventTypeList=["DROP_TABLE"])] == ["a"]
    assert events_after(wire, before, catName="elsewhere", dbName=database) == []
    assert events_after(wire, current(wire)) == []

    def count(**conditions: Any) -> int:
        request = ttypes.NotificationEventsCountRequest(fromEventId=before, dbName=database, **conditions)
        return int(wire.get_notification_events_count(request).eventsCount)

    assert (count(), count(limit=2), count(toEventId=before + 3), count(catName="hive")) == (4, 2, 3, 4)
    assert count(catName="elsewhere") == 0


def test_hmsclient_reads_the_log(metastore: MetastoreUnderTest, wire: Any, database: str) -> None:
    with foreign_client(metastore.port) as client:
        before = current(client)
        wire.create_table(table(database, "t"))
        found: Any = client.get_next_notification(
            foreign.NotificationEventRequest(lastEvent=before, maxEvents=10)
        ).events
        assert [(event.eventId, event.eventType, event.tableName) for event in found] == [
            (before + 1, "CREATE_TABLE", "t")
        ]


def test_a_reader_beside_several_writers_misses_no_event(
    metastore: MetastoreUnderTest, wire: Any, database: str
) -> None:
    start = current(wire)

    def write(number: int) -> None:
        with plain_client(metastore.port) as client:
            for count in range(CHANGES_EACH):
                client.create_table(table(database, f"t{number}_{count}"))

    writers = [threading.Thread(target=write, args=(number,)) for number in range(WRITERS)]
    for writer in writers:
        writer.start()
    seen: list[Any] = []
    while any(writer.is_alive() for writer in writers):
        seen += events_after(wire, seen[-1].eventId if seen else start)
    for writer in writers:
        writer.join(timeout=at_most(60))
    seen += events_after(wire, seen[-1].eventId if seen else start)
    assert [event.eventId for event in seen] == list(range(start + 1, start + 1 + WRITERS * CHANGES_EACH))
    assert {event.tableName for event in seen} == {
        f"t{number}_{count}" for number in range(WRITERS) for count in range(CHANGES_EACH)
    }
