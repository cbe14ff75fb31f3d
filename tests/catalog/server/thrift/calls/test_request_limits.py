"""Small requests that would cost far more than their size: patterns, locks, lists and expressions of the largest sizes.

Each is refused with the name of the limit, or answered within a bounded time.
"""

from collections.abc import Callable, Iterator
from typing import Any

import psutil
import pytest
from thrift.Thrift import TApplicationException

from interbed.thrift_idl.hive_metastore import ttypes
from tests.support.servers.java_metastore import metastore_client
from tests.support.servers.metastore import MetastoreUnderTest, lock_component, lock_request, table

MILLION = 1_000_000
SECONDS_MAX = 5.0
"""Processor time of the server for one request, in seconds; a refused request takes a tenth of a second, mostly to be
decoded.
"""

LONG_PATTERN = "a*" * MILLION
MANY_ALTERNATIVES = "a*|" * 1000
PATTERN_REFUSED = r"10000 are allowed|100 are allowed"
LIKE_LONG = ".*a" * 20_000


_servers: list[psutil.Process] = []


def spent() -> float:
    """Return the processor time of the server's process, which does not depend on other load of the machine."""
    times = [process.cpu_times() for process in _servers]
    return float(sum(each.user + each.system for each in times))


@pytest.fixture(scope="module")
def raw(metastore: MetastoreUnderTest) -> Iterator[Any]:
    """Connect the generated client."""
    _servers[:] = [psutil.Process(metastore.running.process.pid)]
    with metastore_client(metastore.uri) as client:
        yield client


@pytest.fixture(scope="module")
def wide(raw: Any) -> Iterator[str]:
    """Create a database with tables of long names and large parameters, and a partitioned one, `p`."""
    raw.create_database(ttypes.Database(name="wide", parameters={}))
    for number in range(20):
        raw.create_table(table("wide", f"{'a' * 90}_{number}", parameters={"k": "a" * 3000}))
    raw.create_table(table("wide", "p", partition_keys=(("k1", "string"), ("k2", "int"))))
    for number in range(20):
        raw.append_partition("wide", "p", ["a" * 50 + str(number), str(number)])
    yield "wide"
    raw.drop_database("wide", True, True)


def _projection(pattern: str) -> Any:
    return ttypes.GetProjectionsSpec(fieldList=["parameters"], includeParamKeyPattern=pattern)


PATTERNS: dict[str, Callable[[Any, str], Any]] = {
    "get_databases": lambda c, text: c.get_databases(text),
    "get_databases_req": lambda c, text: c.get_databases_req(ttypes.GetDatabaseObjectsRequest(pattern=text)),
    "get_tables": lambda c, text: c.get_tables("wide", text),
    "get_tables_by_type": lambda c, text: c.get_tables_by_type("wide", text, "MANAGED_TABLE"),
    "get_table_meta, databases": lambda c, text: c.get_table_meta(text, "*", []),
    "get_table_meta, tables": lambda c, text: c.get_table_meta("*", text, []),
    "get_functions": lambda c, text: c.get_functions("wide", text),
    "get_functions_req": lambda c, text: c.get_functions_req(
        ttypes.GetFunctionsRequest(dbName="wide", catalogName="hive", pattern=text)
    ),
    "get_tables_ext": lambda c, text: c.get_tables_ext(
        ttypes.GetTablesExtRequest(catalog="hive", database="wide", tableNamePattern=text, requestedFields=1)
    ),
    "get_tables_ext, databases": lambda c, text: c.get_tables_ext(
        ttypes.GetTablesExtRequest(catalog="hive", database=text, tableNamePattern="*", requestedFields=1)
    ),
    "get_table_objects_by_name_req": lambda c, text: c.get_table_objects_by_name_req(
        ttypes.GetTablesRequest(dbName="wide", tablesPattern=text)
    ),
}


@pytest.mark.sample(12)
@pytest.mark.parametrize("call", PATTERNS.values(), ids=PATTERNS)
@pytest.mark.parametrize("pattern", [LONG_PATTERN, MANY_ALTERNATIVES], ids=["long", "alternatives"])
def test_a_pattern_that_costs_too_much_is_refused(
    raw: Any, wide: str, call: Callable[[Any, str], Any], pattern: str
) -> None:
    assert raw.get_all_tables(wide)
    began = spent()
    with pytest.raises(ttypes.MetaException, match=PATTERN_REFUSED):
        call(raw, pattern)
    assert spent() - began < SECONDS_MAX


def test_a_pattern_may_list_many_names_without_wildcards(raw: Any, wide: str) -> None:
    listed = "|".join(f"name_{number}" for number in range(700))
    assert raw.get_tables(wide, f"{listed}|p") == ["p"]
    assert raw.get_tables(wide, f"{listed}|P|{'a' * 90}_.") == [*(f"{'a' * 90}_{number}" for number in range(10)), "p"]


LIKES: dict[str, Callable[[Any], Any]] = {
    "partitions": lambda c: c.get_partitions_by_filter("wide", "p", f"k1 like '{LIKE_LONG}'", -1),
    "values of partitions": lambda c: c.get_partition_values(
        ttypes.PartitionValuesRequest(
            dbName="wide", tblName="p", partitionKeys=[ttypes.FieldSchema(name="k1")], filter=f"k1 like '{LIKE_LONG}'"
        )
    ),
    "tables": lambda c: c.get_table_names_by_filter("wide", f"hive_filter_field_owner__ like '{LIKE_LONG}'", -1),
    "projected parameters": lambda c: c.get_table_objects_by_name_req(
        ttypes.GetTablesRequest(dbName="wide", tablesPattern="*", projectionSpec=_projection("%a" * MILLION))
    ),
    "parameters of partitions": lambda c: c.get_partitions_with_specs(
        ttypes.GetPartitionsRequest(dbName="wide", tblName="p", projectionSpec=_projection("%a" * MILLION))
    ),
}


@pytest.mark.parametrize("call", LIKES.values(), ids=LIKES)
def test_a_like_pattern_has_the_same_limits_as_other_patterns(raw: Any, wide: str, call: Callable[[Any], Any]) -> None:
    assert raw.get_all_tables(wide)
    began = spent()
    with pytest.raises((ttypes.MetaException, ttypes.InvalidOperationException), match="10000 are allowed"):
        call(raw)
    assert spent() - began < SECONDS_MAX


def test_a_table_filter_has_a_limited_number_of_comparisons(raw: Any, wide: str) -> None:
    comparison = "hive_filter_field_params__k like '.*b.*'"
    began = spent()
    with pytest.raises(ttypes.MetaException, match="at most 100 are allowed"):
        raw.get_table_names_by_filter(wide, " or ".join([comparison] * 2200), -1)
    assert raw.get_table_names_by_filter(wide, " or ".join([comparison] * 100), -1) == []
    assert spent() - began < SECONDS_MAX


def test_a_lock_of_too_many_components_is_refused_before_it_is_stored(raw: Any) -> None:
    parts = [lock_component(ttypes.LockType.EXCLUSIVE, "d", "t", f"p={number}") for number in range(100_000)]
    began = spent()
    with pytest.raises(TApplicationException, match=r"100000 components.* 10000 are allowed .*lock_components_max"):
        raw.lock(lock_request(*parts))
    assert spent() - began < SECONDS_MAX
    assert raw.show_locks(ttypes.ShowLocksRequest()).locks == []


def test_locks_of_the_largest_size_are_compared_within_a_bounded_time(raw: Any) -> None:
    parts = [lock_component(ttypes.LockType.EXCLUSIVE, "d", "t", f"p={number}") for number in range(10_000)]
    other = [lock_component(ttypes.LockType.EXCLUSIVE, "d", "t", f"q={number}") for number in range(10_000)]
    began = spent()
    first, second = raw.lock(lock_request(*parts)), raw.lock(lock_request(*other))
    third = raw.lock(lock_request(*other))
    try:
        # Comparing all pairs of components would take a hundred million comparisons.
        assert spent() - began < SECONDS_MAX
        assert [each.state for each in (first, second, third)] == [
            ttypes.LockState.ACQUIRED,
            ttypes.LockState.ACQUIRED,
            ttypes.LockState.WAITING,
        ]
    finally:
        for held in (first, second, third):
            raw.unlock(ttypes.UnlockRequest(lockid=held.lockid))


def _named(number: int) -> list[str]:
    return [f"k1=a{each}/k2=1" for each in range(number)]


def test_a_partition_filter_has_a_limited_number_of_patterns(raw: Any, wide: str) -> None:
    with pytest.raises(ttypes.MetaException, match="5000 LIKEs: 100 are allowed"):
        raw.get_partitions_by_filter(wide, "p", " or ".join(f"k1 like '%b%{each}'" for each in range(5000)), -1)
    assert raw.get_partitions_by_filter(wide, "p", " or ".join(f"k1 like '%b%{each}'" for each in range(100)), -1) == []


def test_inequalities_of_one_key_become_one_comparison(raw: Any, wide: str) -> None:
    text = " and ".join(f"k2 <> {each}" for each in range(1, 10_000))
    assert [each.values[1] for each in raw.get_partitions_by_filter(wide, "p", text, -1)] == ["0"]
    assert len(raw.get_partitions_by_filter(wide, "p", f"not ({text})", -1)) == 19


LISTS: dict[str, Callable[[Any], Any]] = {
    "partitions": lambda c: c.get_partitions_by_names("wide", "p", _named(120_000)),
    "partitions to drop": lambda c: c.drop_partitions_req(
        ttypes.DropPartitionsRequest(
            dbName="wide", tblName="p", parts=ttypes.RequestPartsSpec(names=_named(120_000)), ifExists=False
        )
    ),
    "expressions": lambda c: c.drop_partitions_req(
        ttypes.DropPartitionsRequest(
            dbName="wide",
            tblName="p",
            parts=ttypes.RequestPartsSpec(exprs=[ttypes.DropPartitionsExpr(expr=b'k1="z"')] * 100_000),
            ifExists=True,
        )
    ),
    "bytes of expressions": lambda c: c.drop_partitions_req(
        ttypes.DropPartitionsRequest(
            dbName="wide",
            tblName="p",
            parts=ttypes.RequestPartsSpec(
                exprs=[ttypes.DropPartitionsExpr(expr=b" or ".join([b'k1="z"'] * 15_000))] * 20
            ),
            ifExists=True,
        )
    ),
    "tables": lambda c: c.get_table_objects_by_name("wide", [f"t{each}" for each in range(150_000)]),
    "skipped types of events": lambda c: c.get_next_notification(
        ttypes.NotificationEventRequest(lastEvent=0, eventTypeSkipList=[f"t{each}" for each in range(150_000)])
    ),
    "types of events": lambda c: c.get_next_notification(
        ttypes.NotificationEventRequest(lastEvent=0, eventTypeList=[f"t{each}" for each in range(150_000)])
    ),
    "tables of events": lambda c: c.get_next_notification(
        ttypes.NotificationEventRequest(lastEvent=0, dbName="wide", tableNames=[f"t{each}" for each in range(150_000)])
    ),
    "tables of counted events": lambda c: c.get_notification_events_count(
        ttypes.NotificationEventsCountRequest(
            fromEventId=0, dbName="wide", tableNames=[f"t{each}" for each in range(150_000)]
        )
    ),
    "columns": lambda c: c.get_table_statistics_req(
        ttypes.TableStatsRequest(
            dbName="wide", tblName="p", colNames=[f"c{each}" for each in range(150_000)], engine="hive"
        )
    ),
    "columns of partitions": lambda c: c.get_aggr_stats_for(
        ttypes.PartitionsStatsRequest(
            dbName="wide", tblName="p", colNames=[f"c{each}" for each in range(150_000)], partNames=["k1=a/k2=1"]
        )
    ),
    "fields": lambda c: c.get_partitions_with_specs(
        ttypes.GetPartitionsRequest(
            dbName="wide", tblName="p", projectionSpec=ttypes.GetProjectionsSpec(fieldList=["sd.location"] * 150_000)
        )
    ),
}


@pytest.mark.sample(8)
@pytest.mark.parametrize("call", LISTS.values(), ids=LISTS)
def test_a_list_that_is_too_long_is_refused(raw: Any, wide: str, call: Callable[[Any], Any]) -> None:
    assert raw.get_all_tables(wide)
    began = spent()
    with pytest.raises((ttypes.MetaException, TApplicationException), match=r"is too large: \d+ are allowed"):
        call(raw)
    assert spent() - began < SECONDS_MAX
    assert len(raw.get_partition_names(wide, "p", -1)) == 20


SCHEDULES = {
    "days": "0 0 0 {} * ?".format(",".join(["LW"] * MILLION)),
    "days of no month": "0 0 0 {} 2 ?".format(",".join(["31"] * 100_000)),
    "digits": f"{'9' * MILLION} 0 0 1 * ?",
}


@pytest.mark.parametrize("schedule", SCHEDULES.values(), ids=SCHEDULES)
def test_a_schedule_that_is_too_long_is_refused(raw: Any, schedule: str) -> None:
    query = ttypes.ScheduledQuery(
        scheduleKey=ttypes.ScheduledQueryKey("long", "here"), enabled=True, schedule=schedule, query="q", user="u"
    )
    began = spent()
    with pytest.raises(ttypes.InvalidInputException, match="256 are allowed"):
        raw.scheduled_query_maintenance(ttypes.ScheduledQueryMaintenanceRequest(type=1, scheduledQuery=query))
    assert spent() - began < SECONDS_MAX


OTHERS: dict[str, Callable[[Any], Any]] = {
    "a filter of a million characters": lambda c: c.get_partitions_by_filter(
        "wide", "p", " or ".join(f"k1='{each}'" for each in range(70_000)), -1
    ),
    "nested parentheses": lambda c: c.get_partitions_by_filter(
        "wide", "p", "(" * 400_000 + "k1='a'" + ")" * 400_000, -1
    ),
    "an escaped name": lambda c: c.get_partition_by_name("wide", "p", f"k1={'%41' * MILLION}/k2=1"),
    "an escaped name to be read": lambda c: c.partition_name_to_vals("a=%41/" * MILLION),
    "an escaped name to be mapped": lambda c: c.partition_name_to_spec("a=%41/" * MILLION),
    "values of one key, many times": lambda c: c.get_partition_values(
        ttypes.PartitionValuesRequest(
            dbName="wide", tblName="p", partitionKeys=[ttypes.FieldSchema(name="k1")] * 10_000
        )
    ),
    "a field of a million names": lambda c: c.get_partitions_with_specs(
        ttypes.GetPartitionsRequest(
            dbName="wide", tblName="p", projectionSpec=ttypes.GetProjectionsSpec(fieldList=["sd" + ".a" * MILLION])
        )
    ),
    "values of a million keys": lambda c: c.get_partition_names_ps("wide", "p", ["a"] * MILLION, -1),
}


@pytest.mark.sample(8)
@pytest.mark.parametrize("call", OTHERS.values(), ids=OTHERS)
def test_other_inputs_that_grow_are_refused_within_a_bounded_time(
    raw: Any, wide: str, call: Callable[[Any], Any]
) -> None:
    assert raw.get_all_tables(wide)
    began = spent()
    with pytest.raises((ttypes.MetaException, ttypes.NoSuchObjectException)) as refused:
        call(raw)
    assert spent() - began < SECONDS_MAX
    assert len(refused.value.message) < 1000


@pytest.mark.parametrize("expression", [b'k1="a" or ' * 1_500_000, b"\x80" * 15_000_000, b"\x01\x00" * 7_000_000])
def test_an_expression_that_can_not_be_decoded_selects_everything_at_once(
    raw: Any, wide: str, expression: bytes
) -> None:
    began = spent()
    found = raw.get_partitions_by_expr(
        ttypes.PartitionsByExprRequest(dbName=wide, tblName="p", expr=expression, maxParts=-1)
    )
    assert found.hasUnknownPartitions
    assert spent() - began < SECONDS_MAX


def test_a_name_that_is_too_long_is_skipped_in_a_list(raw: Any, wide: str) -> None:
    names = [f"k1={'%41' * MILLION}/k2=1", f"k1={'a' * 50}1/k2=1"]
    assert [each.values for each in raw.get_partitions_by_names(wide, "p", names)] == [["a" * 50 + "1", "1"]]
