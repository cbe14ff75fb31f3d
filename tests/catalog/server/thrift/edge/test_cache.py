"""The cache of answers: hits, invalidation by changes, and no answer older than an acknowledged change."""

import random
import re
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from interbed.catalog.server.database.session import ChangedObject, GenerationChanges
from interbed.catalog.server.service.events import EventType
from interbed.catalog.server.thrift.edge.cache import AnswerCache
from interbed.catalog.server.thrift.edge.call import CallOutcome, ClientSession
from interbed.catalog.server.thrift.edge.dispatch import CallAnswer
from interbed.thrift_idl.hive_metastore import ThriftHiveMetastore as Service
from interbed.thrift_idl.hive_metastore import ttypes
from tests.catalog.server.raw_client import raw_client
from tests.support.servers.metastore import BACKENDS, MetastoreUnderTest, metastore_under_test, new_database, table
from tests.support.shares import LONG, each_run
from tests.support.waits import at_most

CHANGES = 1000 if LONG else 200
STEPS = 160 if LONG else 32


# Method and its arguments.
Call = tuple[str, dict[str, Any]]


# The cache without a server


def test_an_answer_is_cached_until_its_table_changes() -> None:
    cache = _cache_at(5)
    assert cache.keep(b"key", _answer("get_table", dbname="Sales", tbl_name=" Orders "), 5)
    entry = cache.find(b"key")
    assert entry is not None
    cache.apply(_changes(6, _touch(EventType.ALTER_TABLE, "sales", "other")))
    assert cache.find(b"key") is entry
    valid = entry.valid
    assert valid
    cache.apply(_changes(7, _touch(EventType.ALTER_TABLE, "sales", "orders")))
    assert cache.find(b"key") is None
    assert not entry.valid
    assert cache.size == len(cache) == 0


TABLE: Call = ("get_table", {"dbname": "d", "tbl_name": "t"})
NAMES: Call = ("get_all_tables", {"db_name": "@hive#d"})
TYPES: Call = ("get_tables_by_type", {"db_name": "d", "pattern": "*", "tableType": "VIEW"})
DATABASE: Call = ("get_database", {"name": "d"})
DATABASES: Call = ("get_all_databases", {})
SEVERAL: Call = ("get_table_objects_by_name", {"dbname": "d", "tbl_names": ["t", "u"]})
FUNCTIONS: Call = ("get_all_functions", {})
EVERYTHING = (TABLE, NAMES, TYPES, DATABASE, DATABASES, SEVERAL, FUNCTIONS)


@pytest.mark.parametrize(
    ("touch", "dropped"),
    [
        (
            ChangedObject(type="CREATE_TABLE", catalog="hive", database="d", table="t", previous=None),
            "TABLE NAMES TYPES SEVERAL",
        ),
        (
            ChangedObject(type="CREATE_TABLE", catalog="hive", database="d", table="u", previous=None),
            "NAMES TYPES SEVERAL",
        ),
        (
            ChangedObject(type="ALTER_TABLE", catalog="hive", database="d", table="t", previous=None),
            "TABLE TYPES SEVERAL",
        ),
        (
            ChangedObject(type="ALTER_TABLE", catalog="hive", database="e", table="u", previous=("hive", "d", "t")),
            "TABLE NAMES TYPES SEVERAL",
        ),
        (ChangedObject(type="ADD_PARTITION", catalog="hive", database="d", table="t", previous=None), "TABLE SEVERAL"),
        (ChangedObject(type="DROP_TABLE", catalog="hive", database="e", table="t", previous=None), ""),
        (ChangedObject(type="DROP_TABLE", catalog="other", database="d", table="t", previous=None), ""),
        (
            ChangedObject(type="DROP_DATABASE", catalog="hive", database="d", table=None, previous=None),
            "TABLE NAMES TYPES DATABASE DATABASES SEVERAL",
        ),
        (ChangedObject(type="CREATE_DATABASE", catalog="hive", database="e", table=None, previous=None), "DATABASES"),
        (
            ChangedObject(type="ALTER_CATALOG", catalog="hive", database=None, table=None, previous=None),
            "TABLE NAMES TYPES DATABASE DATABASES SEVERAL",
        ),
        (
            ChangedObject(type="SOMETHING_NEW", catalog="hive", database="d", table="t", previous=None),
            "TABLE NAMES TYPES SEVERAL",
        ),
        (
            ChangedObject(type="SOMETHING_NEW", catalog=None, database=None, table=None, previous=None),
            "TABLE NAMES TYPES DATABASE DATABASES SEVERAL",
        ),
    ],
)
def test_an_event_invalidates_only_the_answers_that_it_may_have_changed(touch: ChangedObject, dropped: str) -> None:
    cache = _cache_at(1)
    for method, arguments in EVERYTHING:
        assert cache.keep(method.encode(), _answer(method, **arguments), 1)
    cache.apply(_changes(2, touch))
    gone = {method for method, _ in EVERYTHING if cache.find(method.encode()) is None}
    # Answers that depend on all metadata are invalidated by any event.
    assert gone == {globals()[name][0] for name in dropped.split()} | {FUNCTIONS[0]}


def test_missing_events_or_a_lower_generation_invalidate_everything() -> None:
    for changes in (GenerationChanges(generation=9, touched=None), GenerationChanges(generation=2, touched=())):
        cache = _cache_at(5)
        cache.keep(b"key", _answer(*TABLE[:1], **TABLE[1]), 5)
        cache.apply(changes)
        assert len(cache) == 0
        assert cache.generation == changes.generation


def test_a_late_answer_of_another_lookup_invalidates_nothing() -> None:
    cache = _cache_at(5)
    cache.apply(_changes(8), since=5)
    assert cache.keep(b"key", _answer(*TABLE[:1], **TABLE[1]), 8)
    cache.apply(_changes(7, _touch(EventType.ALTER_TABLE, "d", "t")), since=5)
    assert (cache.generation, len(cache)) == (8, 1)
    cache.apply(_changes(9, _touch(EventType.ALTER_TABLE, "d", "t")), since=5)
    assert (cache.generation, len(cache)) == (9, 0)
    # The database was restored.
    cache.apply(_changes(7), since=9)
    assert cache.generation == 7


def test_an_answer_that_may_be_older_than_a_change_is_not_cached() -> None:
    cache = _cache_at(5)
    cache.apply(_changes(6, _touch(EventType.ALTER_TABLE, "d", "t")))
    assert not cache.keep(b"key", _answer("get_table", dbname="d", tbl_name="t"), 5)
    cache.clear()
    assert not cache.keep(b"key", _answer("get_table", dbname="d", tbl_name="t"), -1)


def test_errors_and_answers_of_changes_are_not_cached() -> None:
    cache = _cache_at(5)
    failed = _answer("get_table", dbname="d", tbl_name="t")
    failed.lasting = False
    assert not cache.keep(b"a", failed, 5)
    assert not cache.keep(b"b", _answer("drop_table", dbname="d", name="t", deleteData=False), 5)
    assert not cache.keep(b"c", _answer("show_locks", rqst=ttypes.ShowLocksRequest()), 5)


def test_memory_is_bounded_and_the_least_recently_used_answers_are_evicted() -> None:
    cache = AnswerCache(100_000)
    cache.apply(GenerationChanges(generation=1, touched=None))
    assert not cache.keep(b"large", _answer("get_table", body=b"x" * 20_000, dbname="d", tbl_name="t"), 1)
    for number in range(1000):
        cache.keep(b"%d" % number, _answer("get_table", body=b"x" * 1000, dbname="d", tbl_name=f"t{number}"), 1)
        assert cache.size <= 100_000
        assert cache.find(b"0") is not None
    assert 10 < len(cache) < 100
    assert cache.find(b"999") is not None
    assert cache.find(b"500") is None


# Servers


@pytest.fixture
def two(database_url: str, tmp_path: Path) -> Iterator[tuple[MetastoreUnderTest, MetastoreUnderTest]]:
    """Run two servers on one database; the second one counts the hits of its cache."""
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    warehouse = f"file:{tmp_path / 'warehouse'}"
    with (
        metastore_under_test(database_url, tmp_path / "a", "--warehouse", warehouse) as first,
        metastore_under_test(
            database_url, tmp_path / "b", "--warehouse", warehouse, "--health-port", "0", "--log-level", "INFO"
        ) as second,
    ):
        yield first, second


@pytest.mark.longer
@pytest.mark.parametrize("database_url", each_run(BACKENDS, lambda kind: kind == "postgresql"), indirect=True)
def test_a_read_returns_what_another_server_has_acknowledged(
    two: tuple[MetastoreUnderTest, MetastoreUnderTest], tmp_path: Path
) -> None:
    first, second = two
    changing = table("default", "t", parameters={"version": "0"})
    with raw_client(first.port) as writer, raw_client(second.port) as reader:
        writer.create_table(changing)
        writer.create_table(table("default", "same"))
        same = reader.get_table("default", "same")
        changing = writer.get_table("default", "t")
        for version in range(CHANGES):
            changing.parameters["version"] = str(version)
            writer.alter_table("default", "t", changing)
            # The first read misses the cache because of the change; the second read is answered by the cache.
            assert reader.get_table("default", "t").parameters["version"] == str(version)
            assert reader.get_table("default", "t").parameters["version"] == str(version)
            assert reader.get_table("default", "same") == same
            if version % 50 == 0:
                writer.create_table(table("default", f"t_{version}"))
                assert f"t_{version}" in reader.get_all_tables("default")
                writer.drop_table("default", f"t_{version}", False)
                assert reader.get_all_tables("default") == ["same", "t"]
    hits = _metric(tmp_path / "b" / "server.log", "interbed_cache_hits_total")
    assert hits > 1.5 * CHANGES


@pytest.mark.long
@pytest.mark.parametrize("database_url", each_run(BACKENDS, lambda kind: kind == "postgresql"), indirect=True)
def test_servers_with_and_without_a_cache_give_the_same_answers(database_url: str, tmp_path: Path) -> None:
    """Each step makes a random change through one of the servers, and then the same reads through both, also twice."""
    source = random.Random(11)
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    warehouse = f"file:{tmp_path / 'warehouse'}"
    with (
        metastore_under_test(database_url, tmp_path / "a", "--warehouse", warehouse) as cached,
        metastore_under_test(database_url, tmp_path / "b", "--warehouse", warehouse, "--cache-bytes", "0") as plain,
        raw_client(cached.port) as ours,
        raw_client(plain.port) as theirs,
    ):
        clients = (ours, theirs)
        for step in range(STEPS):
            _change(source, source.choice(clients), step)
            for read in _reads(source):
                answers = [_outcome(read, client) for client in (ours, theirs, ours)]
                assert answers[0] == answers[1] == answers[2], step


@pytest.mark.long
def test_a_server_without_a_cache_has_no_hits(tmp_path: Path) -> None:
    db = f"sqlite:///{tmp_path / 'metastore.db'}"
    with (
        metastore_under_test(db, tmp_path, "--cache-bytes", "0", "--health-port", "0") as running,
        raw_client(running.port) as client,
    ):
        for _ in range(5):
            assert client.get_all_databases() == ["default"]
        assert _metric(tmp_path / "server.log", "interbed_cache_hits_total") == 0


@pytest.mark.long
def test_a_cache_on_postgresql_connects_with_the_query_part_of_the_url(postgres_url: str, tmp_path: Path) -> None:
    parts = urlsplit(new_database(postgres_url))
    where = f"host={parts.hostname}&port={parts.port}&user={parts.username}&connect_timeout=7"
    for url in (f"postgresql://{parts.path}?{where}", f"postgresql://nobody@nowhere:1{parts.path}?{where}"):
        directory = tmp_path / str(len(url))
        directory.mkdir()
        with (
            metastore_under_test(url, directory, "--health-port", "0", "--log-level", "INFO") as running,
            raw_client(running.port) as client,
        ):
            assert client.get_all_databases() == ["default"]
            deadline = time.monotonic() + at_most(60)
            while _metric(directory / "server.log", "interbed_cache_hits_total") == 0:
                assert client.get_all_databases() == ["default"]
                assert time.monotonic() < deadline
        assert "Traceback" not in (directory / "server.log").read_text()


def _change(source: random.Random, client: Any, step: int) -> None:
    database = source.choice(("default", "d", "e"))
    name = source.choice(("t", "u", "v"))
    other = source.choice(("t", "u", "v"))
    kind = source.randrange(17)
    changed = table(database, name, ("a", "int"), parameters={"step": str(step)}, partition_keys=(("p", "string"),))
    renamed = table(database, other, ("a", "int"), parameters={"step": str(step)}, partition_keys=(("p", "string"),))
    partition = ttypes.Partition(
        values=[str(step)], dbName=database, tableName=name, sd=table(database, name).sd, parameters={}
    )
    changed_partition = ttypes.Partition(
        values=["appended"], dbName=database, tableName=name, sd=table(database, name).sd, parameters={"s": str(step)}
    )
    numbers = ttypes.LongColumnStatsData(numNulls=step, numDVs=step, lowValue=0, highValue=step)
    statistics = ttypes.ColumnStatistics(
        statsDesc=ttypes.ColumnStatisticsDesc(isTblLevel=True, dbName=database, tableName=name),
        statsObj=[
            ttypes.ColumnStatisticsObj(
                colName="a", colType="int", statsData=ttypes.ColumnStatisticsData(longStats=numbers)
            )
        ],
    )
    view = table(database, name, table_type="VIRTUAL_VIEW")
    view.sd.location = None
    function = ttypes.Function(
        functionName=name,
        dbName=database,
        className="org.example.F",
        ownerName="x",
        ownerType=1,
        functionType=1,
        resourceUris=[],
    )
    changes: list[Callable[[], Any]] = [
        lambda: client.create_database(ttypes.Database(name=database, parameters={})),
        lambda: client.drop_database(database, True, source.random() < 0.5),
        lambda: client.alter_database(database, ttypes.Database(name=database, parameters={"step": str(step)})),
        lambda: client.create_table(changed),
        lambda: client.create_table(changed),
        lambda: client.create_table(view),
        lambda: client.alter_table(database, name, changed),
        lambda: client.alter_table(database, name, renamed),
        lambda: client.drop_table(database, name, True),
        lambda: client.add_partition(partition),
        lambda: client.add_partition(partition),
        lambda: client.append_partition(database, name, ["appended"]),
        lambda: client.drop_partition(database, name, ["appended"], True),
        lambda: client.alter_partition(database, name, changed_partition),
        lambda: client.update_table_column_statistics(statistics),
        lambda: client.create_function(function),
        lambda: client.drop_function(database, name),
    ]
    _outcome(lambda _: changes[kind](), client)


def _reads(source: random.Random) -> list[Callable[[Any], Any]]:
    reads: list[Callable[[Any], Any]] = [
        lambda client: client.get_all_databases(),
        lambda client: client.get_databases("d*"),
        lambda client: client.get_all_functions(),
    ]
    for database in ("default", "d", "e"):
        for name in ("t", "u", "v"):
            reads += _reads_of_table(database, name)
        reads += _reads_of_database(database)
    return source.sample(reads, 20)


def _reads_of_table(database: str, name: str) -> list[Callable[[Any], Any]]:
    return [
        lambda client: client.get_table(database, name),
        lambda client: client.get_fields(database, name),
        lambda client: client.get_partition_names(database, name, -1),
        lambda client: client.get_partitions(database, name, -1),
        lambda client: client.get_partitions_by_filter(database, name, 'p = "appended"', -1),
        lambda client: client.get_partition(database, name, ["appended"]),
        lambda client: client.get_table_column_statistics(database, name, "a"),
        lambda client: client.get_schema(f"@hive#{database}", name),
        lambda client: client.get_table_req(ttypes.GetTableRequest(dbName=database, tblName=name)),
    ]


def _reads_of_database(database: str) -> list[Callable[[Any], Any]]:
    return [
        lambda client: client.get_database(database),
        lambda client: client.get_all_tables(database),
        lambda client: client.get_tables(database, "t|v"),
        lambda client: client.get_tables_by_type(database, "*", "VIRTUAL_VIEW"),
        lambda client: client.get_table_objects_by_name(database, ["t", "u"]),
        lambda client: client.get_functions(database, "*"),
    ]


def _outcome(call: Callable[[Any], Any], client: Any) -> Any:
    try:
        return call(client)
    except (
        ttypes.MetaException,
        ttypes.NoSuchObjectException,
        ttypes.UnknownDBException,
        ttypes.UnknownTableException,
        ttypes.AlreadyExistsException,
        ttypes.InvalidObjectException,
        ttypes.InvalidOperationException,
        ttypes.InvalidInputException,
        ttypes.InvalidPartitionException,
    ) as error:
        return type(error), error.message


def _metric(log: Path, name: str) -> float:
    """Return a metric from the health port, whose address is in the log."""
    found = re.search(r"health and metrics on (http://[^/]+)/", log.read_text())
    assert found is not None
    with urllib.request.urlopen(f"{found[1]}/metrics", timeout=at_most(60)) as page:
        text = page.read().decode()
    line = re.search(rf"^{name} (\S+)$", text, re.MULTILINE)
    assert line is not None
    return float(line[1])


def _cache_at(generation: int) -> AnswerCache:
    cache = AnswerCache(1 << 20)
    cache.apply(GenerationChanges(generation=generation, touched=None))
    return cache


def _changes(generation: int, *touched: ChangedObject) -> GenerationChanges:
    return GenerationChanges(generation=generation, touched=touched)


def _touch(kind: str, database: str, name: str) -> ChangedObject:
    return ChangedObject(type=kind, catalog="hive", database=database, table=name, previous=None)


def _answer(method: str, *, body: bytes = b"body", **arguments: Any) -> CallAnswer:
    return CallAnswer(
        method=method,
        outcome=CallOutcome.OK,
        arguments=getattr(Service, f"{method}_args")(**arguments),
        before=b"head",
        sequence=b"",
        after=body,
        session=ClientSession(peer="here"),
        lasting=True,
    )
