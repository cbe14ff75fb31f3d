"""Names, patterns, filters and values that are far too long, or that are special to a database, a file system or an
expression.

They must not be used there unquoted. On SQLite and PostgreSQL.
"""

import re
import socket
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from thrift.Thrift import TApplicationException

from interbed.thrift_idl.hive_metastore import ttypes
from tests.support.servers.java_metastore import metastore_client
from tests.support.servers.metastore import MetastoreUnderTest, lock_component, lock_request, storage, table
from tests.support.waits import at_most

LONG = "x" * 10_000

HOSTILE = (
    "'; DROP TABLE tables; --",
    '"',
    "x' OR '1'='1",
    "%",
    "\\",
    "\\'",
    "a\x00b",
    "\x00",
    "\u202e\ufeff\U0001f600",
    "../../../../etc/passwd",
    "a/b=c",
    "a\nb\r\tc",
    "{}%s%(x)s$1:name?",
    "`id`$(id)",
)

REFUSALS = (
    ttypes.MetaException,
    ttypes.NoSuchObjectException,
    ttypes.InvalidObjectException,
    ttypes.InvalidOperationException,
    ttypes.AlreadyExistsException,
    ttypes.UnknownDBException,
    ttypes.UnknownTableException,
    ttypes.ConfigValSecurityException,
    ttypes.InvalidInputException,
)


@pytest.fixture
def raw(metastore: MetastoreUnderTest) -> Iterator[Any]:
    """Connect the generated client."""
    with metastore_client(metastore.uri) as client:
        yield client


@pytest.fixture
def here(raw: Any) -> Iterator[str]:
    """Create a database with a table `t`, partitioned by `p`."""
    raw.create_database(ttypes.Database(name="here", parameters={}))
    raw.create_table(table("here", "t", partition_keys=(("p", "string"),)))
    yield "here"
    raw.drop_database("here", True, True)


def every_call(name: str) -> list[Callable[[Any], Any]]:
    """Return calls of all kinds with an object of this name."""
    columns = ttypes.StorageDescriptor(
        cols=[ttypes.FieldSchema(name=name, type="int")], serdeInfo=ttypes.SerDeInfo(name="s")
    )
    function = ttypes.Function(functionName=name, dbName="here", className="c", ownerType=1, functionType=1)
    part = ttypes.Partition(dbName="here", tableName=name, values=["v"], sd=storage(), parameters={})
    return [
        lambda c: c.create_database(ttypes.Database(name=name, parameters={})),
        lambda c: c.get_database(name),
        lambda c: c.get_database_req(ttypes.GetDatabaseRequest(name=name)),
        lambda c: c.get_databases(name),
        lambda c: c.alter_database(name, ttypes.Database(name=name, parameters={})),
        lambda c: c.drop_database(name, True, True),
        lambda c: c.get_all_tables(name),
        lambda c: c.get_tables("here", name),
        lambda c: c.get_tables(name, "*"),
        lambda c: c.get_tables_by_type("here", name, name),
        lambda c: c.get_table_meta(name, name, [name]),
        lambda c: c.create_table(table("here", name)),
        lambda c: c.create_table(table(name, "u")),
        lambda c: c.create_table(ttypes.Table(dbName="nowhere", tableName="u", sd=columns)),
        lambda c: c.get_table("here", name),
        lambda c: c.get_table(name, "t"),
        lambda c: c.get_table_req(ttypes.GetTableRequest(dbName="here", tblName=name)),
        lambda c: c.get_table_objects_by_name("here", [name, "t"]),
        lambda c: c.get_table_objects_by_name_req(ttypes.GetTablesRequest(dbName=name, tblNames=[name])),
        lambda c: c.alter_table("here", name, table("here", "u")),
        lambda c: c.alter_table("here", "t", table("here", name, partition_keys=(("p", "string"),))),
        lambda c: c.alter_table("here", "t", table(name, "t", partition_keys=(("p", "string"),))),
        lambda c: c.drop_table("here", name, True),
        lambda c: c.truncate_table("here", name, [name]),
        lambda c: c.get_fields("here", name),
        lambda c: c.get_schema(name, "t"),
        lambda c: c.add_partition(part),
        lambda c: c.add_partitions([part]),
        lambda c: c.append_partition("here", name, ["v"]),
        lambda c: c.append_partition_by_name("here", "t", name),
        lambda c: c.get_partition("here", "t", [name]),
        lambda c: c.get_partition_by_name("here", "t", name),
        lambda c: c.get_partition_names("here", name, -1),
        lambda c: c.get_partition_names_ps("here", "t", [name], -1),
        lambda c: c.get_partitions("here", name, -1),
        lambda c: c.get_partitions_ps_with_auth("here", "t", [name], -1, name, [name]),
        lambda c: c.get_partitions_by_names("here", "t", [name, f"p={name}"]),
        lambda c: c.get_partitions_by_filter("here", "t", name, -1),
        lambda c: c.get_partitions_by_filter("here", name, "p = 'x'", -1),
        lambda c: c.get_num_partitions_by_filter("here", "t", f"{name} = 1"),
        lambda c: c.drop_partition("here", "t", [name], True),
        lambda c: c.drop_partition_by_name("here", "t", name, True),
        lambda c: c.rename_partition("here", "t", [name], part),
        lambda c: c.partition_name_to_vals(name),
        lambda c: c.partition_name_to_spec(name),
        lambda c: c.create_function(function),
        lambda c: c.get_function("here", name),
        lambda c: c.get_functions("here", name),
        lambda c: c.drop_function("here", name),
        lambda c: c.get_catalog(ttypes.GetCatalogRequest(name=name)),
        lambda c: c.create_catalog(
            ttypes.CreateCatalogRequest(catalog=ttypes.Catalog(name=name, locationUri="file:/nonexistent"))
        ),
        lambda c: c.drop_catalog(ttypes.DropCatalogRequest(name=name)),
        lambda c: c.get_primary_keys(ttypes.PrimaryKeysRequest(db_name=name, tbl_name=name)),
        lambda c: c.drop_constraint(
            ttypes.DropConstraintRequest(dbname="here", tablename="t", constraintname=name, catName="hive")
        ),
        lambda c: c.show_locks(ttypes.ShowLocksRequest(dbname=name, tablename=name, partname=name)),
        lambda c: c.get_config_value(name, name),
        lambda c: c.set_ugi(name, [name]),
        lambda c: c.get_next_notification(ttypes.NotificationEventRequest(lastEvent=0, eventTypeSkipList=[name])),
        lambda c: c.get_notification_events_count(
            ttypes.NotificationEventsCountRequest(fromEventId=0, dbName=name, catName=name)
        ),
    ]


@pytest.mark.sample(8)
@pytest.mark.parametrize("name", [LONG, "ä" * 10_000, "@hive#" + LONG, f"@{LONG}#x", *HOSTILE])
@pytest.mark.attack("SQL and filter injection")
def test_no_name_makes_any_call_fail_without_a_clear_error(
    raw: Any, here: str, name: str, metastore: MetastoreUnderTest
) -> None:
    unclear = []
    for number, call in enumerate(every_call(name)):
        refusal = _refusal(call, raw)
        if refusal is not None and not _is_clear(refusal):
            unclear.append((number, refusal))
    assert unclear == []
    # These calls may add partitions of unusual values, or locks; nothing else may be created or dropped.
    assert raw.get_all_databases() == ["default", "here"]
    assert raw.get_all_tables(here) == ["t"]
    assert raw.get_functions(here, "*") == []
    assert raw.get_catalogs().names == ["hive"]
    assert not (metastore.warehouse.parent / "etc").exists()
    log = (metastore.warehouse.parent / "server.log").read_text()
    assert "Traceback" not in log


NUL = "a\x00b"

WITH_NUL: dict[str, Callable[[Any], Any]] = {
    "comment": lambda c: c.create_table(table("here", "new", parameters={"comment": NUL})),
    "owner_name": lambda c: c.create_database(ttypes.Database(name="new", ownerName=NUL, ownerType=1, parameters={})),
    "column_name": lambda c: c.delete_table_column_statistics("here", "t", NUL, "hive"),
    "user_name": lambda c: c.lock(lock_request(lock_component(ttypes.LockType.SHARED_READ, "d", "t"), user=NUL)),
    "table_name": lambda c: c.lock(lock_request(lock_component(ttypes.LockType.SHARED_READ, "d", NUL))),
    "name": lambda c: c.get_table(NUL, NUL),
    "type": lambda c: c.get_next_notification(ttypes.NotificationEventRequest(lastEvent=0, eventTypeSkipList=[NUL])),
    "schedule": lambda c: c.scheduled_query_maintenance(
        ttypes.ScheduledQueryMaintenanceRequest(
            type=ttypes.ScheduledQueryMaintenanceRequestType.CREATE,
            scheduledQuery=ttypes.ScheduledQuery(
                scheduleKey=ttypes.ScheduledQueryKey("nul", "here"), enabled=False, schedule=NUL, query=NUL, user=NUL
            ),
        )
    ),
}


@pytest.mark.parametrize("call", WITH_NUL.values(), ids=WITH_NUL)
@pytest.mark.attack("SQL and filter injection")
def test_a_nul_that_the_database_cannot_store_is_refused_with_its_field(
    raw: Any, here: str, call: Callable[[Any], Any], metastore: MetastoreUnderTest
) -> None:
    assert raw.get_all_tables(here) == ["t"]
    refusal = _refusal(call, raw)
    if refusal is not None and metastore.db.startswith("postgresql"):
        message = refusal.message or ""
        if "NUL" in message:
            assert re.search(r"\b\w+ cannot contain NUL, which PostgreSQL does not keep", message), message
        assert "database failed" not in message
    for lock in raw.show_locks(ttypes.ShowLocksRequest()).locks:
        raw.unlock(ttypes.UnlockRequest(lockid=lock.lockid))
    _refusal(lambda client: client.drop_database("new", True, True), raw)
    _refusal(lambda client: client.drop_table("here", "new", True), raw)
    log = (metastore.warehouse.parent / "server.log").read_text()
    assert "Traceback" not in log
    assert "database failed" not in log


@pytest.mark.parametrize("text", [*HOSTILE, LONG])
@pytest.mark.attack("SQL and filter injection")
def test_texts_are_returned_as_they_were_sent(raw: Any, here: str, text: str) -> None:
    # The comment has a column of its own, in which PostgreSQL cannot store a NUL.
    comment = text.replace("\x00", "")
    wanted = table(here, "texts", ("id", f"struct<a:{text}>"), parameters={text: text, "comment": comment})
    wanted.owner = wanted.viewOriginalText = text
    wanted.sd.cols[0].comment = text
    wanted.sd.serdeInfo.parameters = {text: text}
    raw.create_table(wanted)
    found = raw.get_table(here, "texts")
    assert found.parameters.items() >= wanted.parameters.items()
    assert (found.owner, found.viewOriginalText) == (text, text)
    assert found.sd.cols == wanted.sd.cols
    assert found.sd.serdeInfo.parameters == {text: text}
    assert [meta.comments for meta in raw.get_table_meta(here, "texts", [])] == [comment]
    raw.alter_database(here, ttypes.Database(name=here, description=text, parameters={text: text}))
    database = raw.get_database(here)
    assert (database.description, database.parameters) == (text, {text: text})


@pytest.mark.parametrize("value", [text for text in HOSTILE if "\x00" not in text])
@pytest.mark.attack("SQL and filter injection")
def test_partition_values_are_returned_and_found_by_filters(
    raw: Any, here: str, value: str, metastore: MetastoreUnderTest
) -> None:
    for each in (value, "other"):
        raw.append_partition(here, "t", [each])
    (found,) = raw.get_partitions_ps_with_auth(here, "t", [value], -1, "", [])
    assert found.values == [value]
    # The directory is one level below that of the table, whatever the value.
    location = Path(found.sd.location.removeprefix("file:"))
    assert location.parent == metastore.warehouse / "here.db" / "t"
    assert location.is_dir()
    if not value.endswith("\\"):
        # The filter language cannot express a backslash before the closing quote.
        quote = '"' if "'" in value else "'"
        (found,) = raw.get_partitions_by_filter(here, "t", f"p = {quote}{value}{quote}", -1)
        assert found.values == [value]
    (name,) = [each for each in raw.get_partition_names(here, "t", -1) if each != "p=other"]
    assert raw.get_partition_by_name(here, "t", name).values == [value]
    assert raw.drop_partition(here, "t", [value], True)
    assert [each.values for each in raw.get_partitions(here, "t", -1)] == [["other"]]


def test_sql_wildcards_are_plain_characters_in_patterns_and_filters(raw: Any, here: str) -> None:
    for name in ("a_b", "axb", "a_b_c"):
        raw.create_table(table(here, name))
    assert raw.get_tables(here, "a_b") == ["a_b"]
    assert raw.get_tables(here, "a_*") == ["a_b", "a_b_c"]
    assert raw.get_tables(here, "a%") == []
    assert raw.get_tables(here, "a.b") == ["a_b", "axb"]
    for value in ("a_b", "axb", "50%", "505"):
        raw.append_partition(here, "t", [value])
    assert [each.values for each in raw.get_partitions_by_filter(here, "t", "p = 'a_b'", -1)] == [["a_b"]]
    assert [each.values for each in raw.get_partitions_by_filter(here, "t", "p = '50%'", -1)] == [["50%"]]


@pytest.mark.parametrize(
    "text",
    [
        "p = 'a' or 1 = 1",
        "p = 'a'; drop table tables",
        "p in (select 1)",
        "(" * 5000 + "p = 'a'" + ")" * 5000,
        "not " * 5000 + "p = 'a'",
        "p = 'a' and " * 20_000 + "p = 'a'",
        "p = '" + LONG + "'",
        "p like '" + "%a" * 5000 + "'",
        "p = '\x00'",
        "p = 'unterminated",
    ],
    ids=range(10),
)
@pytest.mark.attack("SQL and filter injection")
def test_invalid_filters_are_refused_or_select_nothing(raw: Any, here: str, text: str) -> None:
    raw.append_partition(here, "t", ["a"])
    found: list[Any] = []
    refusal = _refusal(lambda client: found.extend(client.get_partitions_by_filter(here, "t", text, -1)), raw)
    assert refusal is None or (type(refusal) is ttypes.MetaException and _is_clear(refusal))
    assert [each.values for each in found] in ([], [["a"]])
    assert raw.get_all_tables(here) == ["t"]


def test_lone_surrogates_are_not_accepted_as_text(metastore: MetastoreUnderTest, raw: Any) -> None:
    """They have no encoding in UTF-8, so that no client that encodes its texts can send them."""
    body = b"\x0b\x00\x01" + struct.pack("!i", 3) + b"\xed\xa0\x80" + b"\x00"
    name = b"get_database"
    message = struct.pack("!Ii", 0x80010001, len(name)) + name + struct.pack("!i", 1) + body
    with socket.create_connection(("127.0.0.1", metastore.port), timeout=at_most(60)) as connection:
        connection.sendall(message)
        # It is decoded to U+FFFD, which is in no name.
        assert b"\xef\xbf\xbd" in connection.recv(65536)
    assert "default" in raw.get_all_databases()


def test_locks_on_objects_of_any_name_are_granted_and_listed(raw: Any) -> None:
    for name in (LONG, *(text for text in HOSTILE if "\x00" not in text)):
        component = lock_component(ttypes.LockType.EXCLUSIVE, "d", name)
        held = raw.lock(lock_request(component, user=name, host=name))
        assert held.state == ttypes.LockState.ACQUIRED
        assert [each.user for each in raw.show_locks(ttypes.ShowLocksRequest()).locks] == [name]
        raw.unlock(ttypes.UnlockRequest(lockid=held.lockid))


def _refusal(call: Callable[[Any], Any], client: Any) -> Any | None:
    try:
        call(client)
    except (*REFUSALS, TApplicationException) as error:
        return error
    return None


def _is_clear(refusal: Any) -> bool:
    """Return whether the error is clear: an exception of the interface, an error about a missing constraint, for which
    Hive has no exception, or an error about a text that PostgreSQL cannot store. Its message must not be as long as the
    name.
    """
    message = refusal.message or ""
    by_name = message.startswith("drop_constraint: The constraint: ") or "cannot contain NUL" in message
    return len(message) < 2000 and (isinstance(refusal, REFUSALS) or by_name)
